"""The command itself: what holds for every command, and how errors are reported."""

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

import show_attend_tell
from show_attend_tell.errors import UserError

Function = TypeVar("Function", bound=Callable[..., Any])


class _PlainFlags:
    """Help that names no type beside a flag, which takes no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Give the options, `--help` among them."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class _Command(_PlainFlags, TyperCommand):
    pass


class _Group(_PlainFlags, TyperGroup):
    pass


class _App(typer.Typer):
    """Commands of the kind above."""

    def command(self, *args: Any, **kwargs: Any) -> Callable[[Function], Function]:
        """Make a function a command."""
        return super().command(*args, **{"cls": _Command, **kwargs})


app = _App(
    name="sat",
    cls=_Group,
    help="Show, attend and tell: captions for pictures, and where each word looked.",
    epilog="Exit codes: 0 done, 1 wrong data or some items failed, 2 wrong usage, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sat {show_attend_tell.__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[  # main() reads it: it must also hold before a command is known
        bool, typer.Option("--debug", help="Show a traceback for every error.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and stop.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Hold what comes before the verb."""


def refuse(wrong: bool, remedy: str) -> None:
    """Stop when options do not go together."""
    if wrong:
        raise UserError("request.bad", remedy)


@contextmanager
def needs(name: str) -> Iterator[None]:
    """Say what to install when something is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UserError(
            "extra.missing",
            f"this needs {error.name}, which the extra `{name}` brings: "
            f"pip install 'show_attend_tell[{name}]'",
        ) from error


def main() -> None:
    """Run the command; a person's mistake is one sentence, not a traceback."""
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # some locales cannot say everything
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            app(standalone_mode=True)
        except OSError as error:  # help, which is printed beneath us, may not have got through
            from show_attend_tell.cli import terminal

            if terminal.output_works():
                raise
            raise terminal.output_failed(error) from error
    except UserError as error:
        if "--debug" in sys.argv:
            raise
        from show_attend_tell.cli import terminal

        terminal.complain(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


def _open_streams() -> None:
    """Open what of the standard streams was closed: the next file opened would be taken for it."""
    if sys.stdin is None:  # stays so: who reads from it says that it is closed
        os.open(os.devnull, os.O_RDONLY)
    if sys.stdout is None:  # not to be written to: results must not vanish
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if sys.stderr is None:  # messages may
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
