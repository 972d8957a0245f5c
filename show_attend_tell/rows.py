"""Files of rows: lines, JSON and tables, read so that every mistake names its file and line.

Only a line feed ends a line: U+2028, U+0085 and a carriage return within a line are text. A `.gz`
file is unpacked on the way; a byte order mark is no text.
"""

import csv
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from show_attend_tell.errors import UserError

Model = TypeVar("Model", bound=BaseModel)

# Everything is held in memory; the largest data set of the field, COCO, has 144 MB and 0.6 million.
MOST_BYTES = 256 << 20
MOST_LINES = 2_000_000


def read_whole(path: Path) -> bytes:
    """Give the content of a file."""
    with _open(path) as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise _too_large(path)
    return content.removeprefix(b"\xef\xbb\xbf")


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without what ends them."""
    with _open(path) as stream:
        for number, line in enumerate(stream, start=1):
            if number > MOST_LINES:
                raise _too_large(path)
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                byte = f"byte 0x{line[error.start]:02x} at position {error.start + 1}"
                problem = f"not UTF-8 ({byte}); save the file as UTF-8"
                raise bad_row(f"{path}, line {number}", problem) from error
            yield number, text.removesuffix("\n").removesuffix("\r")


def parse(
    model: type[Model], content: bytes, path: Path, line: int | None = None, *, expected: str = ""
) -> Model:
    """Read JSON: the whole content of a file, or one line of it.

    Parameters
    ----------
    expected
        What to write instead, told to a person whose JSON holds other things.
    """
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["type"] == "json_invalid":
            place = re.fullmatch(r"(.*) at line (\d+) column (\d+)", first["ctx"]["error"])
            assert place, "the parser says where"
            where = f"{path}, line {line or place[2]}, column {place[3]}"
            remedy = "the file may be cut off, copy it again"
            if line is None and place[1].startswith("trailing"):
                remedy = "if it holds one object a line, let its name end in .jsonl"
            problem = f"not JSON ({place[1]}); {remedy}"
        else:
            where = str(path) if line is None else f"{path}, line {line}"
            field = ".".join(str(step) for step in first["loc"])
            problem = f"{first['msg']} ({field or 'whole'}), found {short(first['input'])}"
            problem += f"; {expected}" if expected else ""
        raise bad_row(where, problem) from error


def table(
    path: Path, separator: str | None = None, header: Sequence[str] | None = None
) -> tuple[int, list[str], Iterator[tuple[int, dict[str, str]]]]:
    """Read a table, separated by tabs if its name ends in .tsv, else by commas.

    Parameters
    ----------
    separator
        What separates the columns, if something else.
    header
        The names of the columns, if the first line does not give them.

    Returns
    -------
    The line of the header, its columns in lower case, and the rows that are not blank, each with
    the number of the line on which it begins.
    """
    separator = separator or ("\t" if ".tsv" in path.suffixes else ",")
    rows = _cells(path, separator)
    first, header = (1, header) if header else next(rows, (1, []))
    columns = [column.strip().lower() for column in header]

    def by_column() -> Iterator[tuple[int, dict[str, str]]]:
        for number, row in rows:
            if len(row) != len(columns):
                problem = f"expected {len(columns)} columns, found {len(row)}"
                holds = {",": "a comma", ";": "a semicolon"}.get(separator, "a tab")
                remedy = f'put "quotes" round a caption that holds {holds}'
                raise bad_row(f"{path}, line {number}", f"{problem}; {remedy}")
            yield number, dict(zip(columns, row, strict=True))

    return first, columns, by_column()


def bad_row(where: str, problem: str) -> UserError:
    """Say what is wrong with a row, and where it is."""
    return UserError("data.row", f"{where}: {problem}")


def short(value: object) -> str:
    """Quoted, without control characters, and short."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _too_large(path: Path) -> UserError:
    return UserError(
        "data.too_large",
        f"{path}: more than {MOST_BYTES >> 20} MiB or {MOST_LINES:,} lines, which is all that is "
        "read at once; split it into parts",
    )


@contextmanager
def _open(path: Path) -> Iterator[BufferedIOBase]:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise _too_large(path)
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            yield stream
    except FileNotFoundError as error:
        raise UserError("data.missing", f"{path}: there is no such file") from error
    except (OSError, EOFError, zlib.error) as error:
        problem = f"cannot be read ({error}); copy it again"
        raise UserError("data.unreadable", f"{path}: {problem}") from error


def _cells(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, with the number of the line on which each begins."""
    ended = (line + "\n" for _, line in lines(path))
    if separator == "\t" and ".csv" not in path.suffixes:  # quotes are text, and a row is a line
        reader = csv.reader(ended, delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        reader = csv.reader(ended, delimiter=separator, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            where = f"{path}, line {number}"
            raise bad_row(where, f"broken row ({error}); check its quotes") from error
        if row is None:
            return
        if any(cell.strip() for cell in row):
            yield number, row
