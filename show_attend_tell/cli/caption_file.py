"""Captions as lines of text, JSON or CSV, and a file of such lines that can be continued."""

import contextlib
import csv
import io
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from show_attend_tell.errors import UserError, printable
from show_attend_tell.files import cannot_write, try_lock, write_bytes

if TYPE_CHECKING:
    from show_attend_tell.captioning.caption import Caption

Answer: TypeAlias = "Sequence[Caption] | UserError"  # captions, or why there are none


@dataclass(frozen=True)
class Form:
    """How captions become lines, and how a line says which picture it is of."""

    caption: Callable[[str, "Caption"], str]  # of the picture of this name
    failure: Callable[[str, UserError], str] | None  # None: such lines hold captions alone
    start: Callable[[str], str]  # how all lines of the picture of this name begin
    read: Callable[[str], tuple[str, bool]]  # a line → the name, whether the picture failed
    header: str | None = None

    def lines(self, name: str, answer: Answer) -> list[str]:
        """The lines of a picture: one for each caption, or one that says why it has none."""
        if isinstance(answer, UserError):
            return [self.failure(name, answer)] if self.failure else []
        return [self.caption(name, one) for one in answer]


def _json(value: object) -> str:
    """JSON in which every character can be printed."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _read_json(line: str) -> tuple[str, bool]:
    row: dict[str, Any] = json.loads(line)
    name, caption = row["picture"], row["caption"]
    if not isinstance(name, str) or not isinstance(caption, str | None):
        raise ValueError("not a name and a caption")
    return name, caption is None


def spelled(name: str) -> str:
    r"""A name on one line, from which `named` finds it again.

    As it is, if all of it can be printed; otherwise in quotes, as JSON writes it.

    >>> print(spelled("a.jpg"), spelled("a\nb.jpg"))
    a.jpg "a\nb.jpg"
    """
    return name if name.isprintable() and not name.startswith('"') else _json(name)


def named(text: str) -> str:
    """The name that `spelled` wrote."""
    return str(json.loads(text)) if text.startswith('"') else text


def _read_text(line: str) -> tuple[str, bool]:
    name, tab, _ = line.partition("\t")
    if not tab:
        raise ValueError("no tab")
    return named(name), False


def _csv_line(*cells: str) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()


def _cell(text: str) -> str:
    """Text that a spreadsheet takes for text, not for a formula: a quote goes before it."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "'")) else text


def _read_csv(line: str) -> tuple[str, bool]:
    name, _, _, _, error, _ = next(csv.reader([line], strict=True))
    return named(name.removeprefix("'")), bool(error)


FORMS = {
    "text": Form(
        caption=lambda name, caption: f"{spelled(name)}\t{printable(caption.text)}",
        failure=None,
        start=lambda name: f"{spelled(name)}\t",
        read=_read_text,
    ),
    "json": Form(
        caption=lambda name, caption: _json({"picture": name, **caption.to_dict()}),
        failure=lambda name, error: _json(
            {"picture": name, "caption": None, "error": error.code, "message": str(error)}
        ),
        start=lambda name: _json({"picture": name, "caption": 0}).removesuffix("0}"),
        read=_read_json,
    ),
    "csv": Form(
        caption=lambda name, caption: _csv_line(
            _cell(spelled(name)),
            _cell(printable(caption.text)),
            f"{caption.confidence:.4f}",
            " ".join(caption.warnings),
            "",
            "",
        ),
        failure=lambda name, error: _csv_line(
            _cell(spelled(name)), "", "", "", error.code, _cell(printable(str(error)))
        ),
        start=lambda name: _csv_line(_cell(spelled(name)), ""),
        read=_read_csv,
        header="picture,caption,confidence,warnings,error,message",
    ),
}


class CaptionFile:
    """A file of captions, held alone; the lines of a picture are on disk before the next begins.

    Parameters
    ----------
    path
        The file; made if it is not there, refused if it is, unless one of the last two is given.
    form
        How captions are written.
    names
        The pictures to be captioned. One may be among them more than once.
    each
        How many captions each of them gets.
    resume
        Continue after the lines that are there. Names that failed are tried again: their lines are
        removed, and a last line that a crash has cut off.
    overwrite
        Start over.
    """

    def __init__(
        self,
        path: Path,
        form: Form,
        names: Sequence[str],
        each: int = 1,
        *,
        resume: bool = False,
        overwrite: bool = False,
    ) -> None:
        self.path, self.form, self.names, self.each = path, form, names, each
        self._length = 0
        done: Counter[str] = Counter()
        with contextlib.ExitStack() as held:
            self._held = held
            self._hold(os.O_CREAT | (0 if resume or overwrite else os.O_EXCL))
            if resume:
                done = self._read()
            self._append("" if self._length or not form.header else form.header + "\n")
            self._held = held.pop_all()
        self.waiting: list[int] = []  # which of the names have no captions here
        for i, name in enumerate(names):
            if done[name] > 0:
                done[name] -= each
            else:
                self.waiting.append(i)

    def __enter__(self) -> "CaptionFile":
        """Hold the file until the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release the file."""
        self._held.close()

    def write(self, name: str, answer: Answer) -> None:
        """Put the lines of a picture on disk, all or none."""
        self._append("".join(line + "\n" for line in self.form.lines(name, answer)))

    def _hold(self, how: int) -> None:
        try:
            how |= os.O_RDWR | getattr(os, "O_BINARY", 0)  # Windows would end lines its own way
            self._handle = os.open(self.path, how, 0o666)
            self._held.callback(os.close, self._handle)
            is_ours = try_lock(self._handle)
            # Another process may have put a new file in its place before this one had the lock.
            is_ours &= os.path.samestat(os.fstat(self._handle), self.path.stat())
        except FileExistsError:
            raise UserError(
                "request.exists",
                f"{self.path}: is there already; --resume goes on with it, --overwrite begins anew",
            ) from None
        except OSError as error:
            raise cannot_write(self.path, error) from error
        if not is_ours:
            raise UserError(
                "run.locked",
                f"{self.path}: another process is writing captions into it; wait for it, stop it, "
                "or name another file",
            )

    def _read(self) -> Counter[str]:
        """Count the captions of each picture, and keep the lines that hold them, no others."""
        with open(self._handle, "rb", closefd=False) as stream:
            content = stream.read()
        *lines, tail = content.split(b"\n")
        wanted = set(self.names)
        kept: list[bytes] = []
        names: list[str] = []
        for number, line in enumerate(lines, 1):
            try:
                text = line.decode()
                is_header = number == 1 and self.form.header is not None
                if is_header and text.rstrip("\r") != self.form.header:
                    raise ValueError("another header")
                name, failed = ("", False) if is_header else self.form.read(text)
            except (ValueError, LookupError, TypeError, csv.Error, RecursionError):
                self._refuse(number)
            if failed and name in wanted:
                continue  # it is tried again
            kept.append(line + b"\n")
            if not failed and not is_header:
                names.append(name)
        if tail and not self._is_begun(tail, is_first=not lines):
            self._refuse(len(lines) + 1)
        # Of the picture that was written last a crash may have left some of its captions.
        of_last = sum(1 for _ in takewhile(lambda name: name == names[-1], reversed(names)))
        if of_last and names[-1] in wanted and (some := of_last % self.each):
            del kept[-some:], names[-some:]
        left = b"".join(kept)
        if not content.startswith(left):
            self._replace(left)
        self._length = len(left)
        return Counter(names)

    def _is_begun(self, tail: bytes, *, is_first: bool) -> bool:
        """Whether a line that is cut off is one of those that would be written here."""
        is_header = is_first and self.form.header
        starts = [self.form.header] if is_header else map(self.form.start, self.names)
        return any(
            tail.startswith(start) or start.startswith(tail)
            for start in (str(start).encode() for start in starts)
        )

    def _refuse(self, line: int) -> NoReturn:
        raise UserError(
            "data.not_captions",
            f"{self.path}: line {line} is not what would be written here; resume with the same "
            "pictures and the same --json or --csv, or name another file",
        ) from None

    def _replace(self, content: bytes) -> None:
        """Put a file with this content in the place of the one that is held, in one step."""
        with self._held.pop_all() as before:
            if sys.platform == "win32":
                before.close()  # an open file has to stay where it is there
            write_bytes(self.path.resolve(), content)
            self._hold(0)

    def _append(self, text: str) -> None:
        """Write behind the whole lines, and wait until the disk has it."""
        content = text.encode()
        try:
            os.ftruncate(self._handle, self._length)
            os.lseek(self._handle, self._length, os.SEEK_SET)
            while content:
                content = content[os.write(self._handle, content) :]
            os.fsync(self._handle)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, self._length)  # no half line
            raise cannot_write(self.path, error) from error
        self._length += len(text.encode())
