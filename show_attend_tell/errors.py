"""Errors for users: one line that says what is wrong, where, and what to do."""

from numbers import Integral, Real


class UserError(Exception):
    """What is wrong, where, and what to do; the command line prints it without a traceback.

    Parameters
    ----------
    code
        Short and stable, the same on the command line, in Python and in tests: `picture.truncated`.
    message
        One or two sentences: where (file and line), what was expected, what was found, the remedy.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type["UserError"], tuple[str, str], dict[str, object]]:
        """Pickle with the code, for errors from other processes."""
        return type(self), (self.code, str(self)), self.__dict__

    @property
    def exit_code(self) -> int:
        """2 for wrong usage, 1 for wrong data."""
        return 2 if self.code.startswith("request.") else 1


def whole_number(name: str, value: object, least: int, most: int | None = None) -> int:
    """The argument as an int within limits; otherwise `request.bad` names it.

    >>> whole_number("beam", 5, 1, 1000)
    5
    """
    expected = f"{least} or more" if most is None else f"from {least} to {most:,}"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise wrong_argument(name, value, f"a whole number {expected}", is_kind=False)
    found = int(value)
    if found < least or (most is not None and found > most):
        raise wrong_argument(name, value, f"a whole number {expected}")
    return found


def number(name: str, value: object, least: float, most: float) -> float:
    """The argument as a float within limits; otherwise `request.bad` names it."""
    expected = f"a number from {least:g} to {most:,g}"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise wrong_argument(name, value, expected, is_kind=False)
    found = float(value)
    if not least <= found <= most:  # also true of not-a-number
        raise wrong_argument(name, value, expected)
    return found


def wrong_argument(name: str, value: object, expected: str, *, is_kind: bool = True) -> "UserError":
    """The error that names an argument, its value (and type if wrong), and what is expected."""
    try:
        text = repr(value)
    except ValueError:  # Python prints no number of more than 4,300 digits
        text = "a number of thousands of digits"
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    of_type = "" if is_kind else f", of type {type(value).__name__}"
    return UserError("request.bad", f"{name} is {shown}{of_type}; it must be {expected}")


def printable(text: str) -> str:
    r"""Foreign text on one line, with control characters escaped.

    >>> print(printable("a\nb"))
    a\nb
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def counted(number: int, thing: str) -> str:
    """A number and its noun, in the plural unless it is one.

    >>> counted(1, "picture"), counted(1200, "picture")
    ('1 picture', '1,200 pictures')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
