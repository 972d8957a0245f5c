"""What a person is told: a mistake in one sentence that names the remedy, on one line."""


class UserError(Exception):
    """What is wrong, where, and what to do; the command line prints it without a traceback.

    Parameters
    ----------
    code
        Short and stable, the same on the command line, over HTTP and in tests: `picture.truncated`.
    message
        One sentence or two: what was found, where (file and line), what was expected, the remedy.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type["UserError"], tuple[str, str], dict[str, object]]:
        """Be copied whole, also out of the process that raised it."""
        return type(self), (self.code, str(self)), self.__dict__

    @property
    def exit_code(self) -> int:
        """2 for wrong usage, 1 for wrong data."""
        return 2 if self.code.startswith("request.") else 1


def printable(text: str) -> str:
    r"""Text of others on one line, what would act on a terminal written as an escape.

    >>> print(printable("a\nb"))
    a\nb
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def counted(number: int, thing: str) -> str:
    """A number of things, in the singular if there is one.

    >>> counted(1, "picture"), counted(1200, "picture")
    ('1 picture', '1,200 pictures')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
