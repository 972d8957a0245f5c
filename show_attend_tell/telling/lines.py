"""Captions as lines of text, JSON or CSV, and a file of such lines that can be gone on with."""

import contextlib
import csv
import io
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from show_attend_tell.errors import UserError, printable
from show_attend_tell.files import cannot_write, try_lock

if TYPE_CHECKING:
    from show_attend_tell.telling.caption import Caption


@dataclass(frozen=True)
class Form:
    """How a caption becomes one line, and how the picture's name is found in the line again."""

    line: Callable[[str, "Caption"], str]
    name: Callable[[str], str]  # of a picture → as it stands in a line
    name_in: Callable[[str], str]  # a line → the name that stands in it
    header: str | None = None


def _json_line(name: str, caption: "Caption") -> str:
    text = json.dumps(caption.facts(name), ensure_ascii=False)
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _csv_line(*cells: str) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()


def _cell(text: str) -> str:
    """Text that a spreadsheet takes for text, not for a formula."""
    text = printable(text)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def _first_cell(line: str) -> str:
    cells = next(csv.reader([line]))
    if len(cells) != 4:
        raise ValueError("not four cells")
    return cells[0]


def _before_tab(line: str) -> str:
    name, _, _ = line.partition("\t")
    if name == line:
        raise ValueError("no tab")
    return name


FORMS = {
    "text": Form(
        line=lambda name, caption: f"{printable(name)}\t{printable(caption.text)}",
        name=printable,
        name_in=_before_tab,
    ),
    "json": Form(
        line=_json_line,
        name=str,
        name_in=lambda line: str(json.loads(line)["picture"]),
    ),
    "csv": Form(
        line=lambda name, caption: _csv_line(
            _cell(name),
            _cell(caption.text),
            f"{caption.confidence:.4f}",
            " ".join(caption.warnings),
        ),
        name=_cell,
        name_in=_first_cell,
        header="picture,caption,confidence,warnings",
    ),
}


class CaptionFile:
    """A file of captions, held alone; the lines of a picture are on disk before the next begins.

    Parameters
    ----------
    path
        The file; made if it is not there.
    form
        How captions are written.
    existing
        If the file is there: `skip` the pictures that it tells of and go on behind them,
        `overwrite` it, or `fail`.
    """

    def __init__(
        self, path: Path, form: Form, existing: Literal["skip", "overwrite", "fail"]
    ) -> None:
        self.path, self.form = path, form
        self._done: set[str] = set()
        flags = os.O_RDWR | os.O_CREAT | (os.O_EXCL if existing == "fail" else 0)
        try:
            self._handle = os.open(path, flags, 0o666)
        except FileExistsError:
            raise UserError(
                "request.exists",
                f"{path}: is there already; --resume goes on with it, "
                "--existing overwrite begins anew",
            ) from None
        except OSError as error:
            raise cannot_write(path, error) from error
        try:
            if not try_lock(self._handle):
                raise UserError(
                    "run.locked",
                    f"{path}: another process is writing captions into it; wait for it, stop it, "
                    "or name another file",
                )
            self._length = self._read() if existing == "skip" else 0
            self._append("" if self._length or not form.header else form.header + "\n")
        except BaseException:
            os.close(self._handle)
            raise

    def __enter__(self) -> "CaptionFile":
        """Hold the file until the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Give the file to others."""
        os.close(self._handle)

    def has(self, name: str) -> bool:
        """Whether the file told of this picture when it was opened."""
        return self.form.name(name) in self._done

    def write(self, name: str, captions: Sequence["Caption"]) -> None:
        """Put the captions of a picture on disk, all or none."""
        self._append("".join(self.form.line(name, one) + "\n" for one in captions))

    def _read(self) -> int:
        """Learn what the file tells of; the bytes of its whole lines, the last may be half."""
        with open(self._handle, "rb", closefd=False) as stream:
            content = stream.read()
        whole = content[: content.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                text = line.decode()
                if text != self.form.header:
                    self._done.add(self.form.name_in(text))
            except (ValueError, LookupError, TypeError):
                raise UserError(
                    "data.not_captions",
                    f"{self.path}: line {number} is not what would be written here; "
                    "resume with the same --json or --csv, or name another file",
                ) from None
        return len(whole)

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
