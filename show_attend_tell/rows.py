"""Files of rows: lines, JSON and tables; every error names its file and line.

Only a line feed ends a line: U+2028, U+0085 and a carriage return within a line are text. A `.gz`
file is decompressed; a byte order mark is ignored.
"""

import csv
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from reprlib import Repr
from typing import Annotated, TypeVar

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails

from show_attend_tell.errors import UserError

Model = TypeVar("Model", bound=BaseModel)

# Everything is held in memory. The largest data set of the field, COCO in Karpathy's file, has
# 144 MB, 0.75 million objects and 10 million commas. Bytes are of the decompressed file.
MOST_BYTES = 256 << 20
MOST_LINES = 2_000_000  # and as many objects of JSON
MOST_VALUES = 30_000_000
MOST_LINE_BYTES = 1 << 20
# The longest captions in use are paragraphs of some hundred words.
MOST_CHARACTERS = 10_000
MOST_WORDS = 1_000
MOST_LETTERS = 1_000  # of a word: the time to tokenise one grows with the square of its length

Item = TypeVar("Item")
# A JSON list that stops at its first bad item: an error for each could fill the memory.
Many = Annotated[list[Item], Field(fail_fast=True)]


def read_whole(path: Path) -> bytes:
    """The content of a file, decompressed."""
    blocks: list[bytes] = []
    left = MOST_BYTES
    with _open(path) as stream:
        while block := stream.read(1 << 20):  # a read allocates all it asks for
            left -= len(block)
            if left < 0:
                raise _too_large(path)
            blocks.append(block)
    return b"".join(blocks).removeprefix(b"\xef\xbb\xbf")


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without line ends."""
    with _open(path) as stream:
        total = 0
        for number, line in enumerate(iter(partial(stream.readline, MOST_LINE_BYTES + 1), b""), 1):
            if len(line) > MOST_LINE_BYTES:
                problem = (
                    f"longer than {MOST_LINE_BYTES:,} bytes; write one caption or row per line"
                )
                raise UserError("data.too_large", f"{path}, line {number}: {problem}")
            total += len(line)
            if number > MOST_LINES or total > MOST_BYTES:
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
        An example of what to write instead, for the error.
    """
    # Parsed values take many times the memory of the text.
    if content.count(b"{") > MOST_LINES or content.count(b",") > MOST_VALUES:
        raise _too_large(path)
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        if errors[0]["type"] == "json_invalid":
            place = re.fullmatch(r"(.*) at line (\d+) column (\d+)", errors[0]["ctx"]["error"])
            assert place, "the parser says where"
            where = f"{path}, line {line or place[2]}, column {place[3]}"
            problem = _not_json(place[1], content, one_line=line is not None)
        else:
            where = str(path) if line is None else f"{path}, line {line}"
            problem = _not_expected(errors) + (f"; {expected}" if expected else "")
        raise bad_row(where, problem) from error


# How the parser's message begins, its meaning, and the remedy.
_CUT = "the file may be cut off, copy it again"
_JSON_MISTAKES = (
    ("EOF", "it ends in the middle", _CUT),
    ("trailing characters", "more text after its end", "write one object a line"),
    ("trailing comma", "a comma with nothing after it", "remove the comma"),
    ("recursion", "lists or objects inside each other, too many", "give a file of captions"),
    ("unexpected end of hex", "half of a surrogate pair", "save the file as UTF-8"),
    ("lone", "half of a surrogate pair", "save the file as UTF-8"),
    ("invalid unicode", "not UTF-8", "save the file as UTF-8"),
    ("control character", "a control character within text", "write it as \\n or \\u0000"),
    ("invalid escape", "a backslash before a character that takes none", "double the backslash"),
    ("key must be", "a name that is not text", 'put "quotes" round it'),
    ("expected ident", "a word without quotes", 'put "quotes" round it'),
    ("expected value", "no value where one belongs", 'put "quotes" round text'),
    ("expected `:`", "no colon after a name", "add it"),
    ("expected `,`", "neither a comma nor the end where one belongs", "add it"),
    ("", "a number that JSON does not know", "correct it"),
)


def _not_json(problem: str, content: bytes, *, one_line: bool) -> str:
    """What is wrong with text that is not JSON, and the remedy."""
    if not content.strip():
        return f"not JSON (it is empty); {_CUT}"
    start, meaning, remedy = next(row for row in _JSON_MISTAKES if problem.startswith(row[0]))
    if start == "trailing characters" and not one_line:
        remedy = "if it holds one object a line, let its name end in .jsonl"
    return f"not JSON ({meaning}); {remedy}"


_WANTED = {
    "list_type": "a list",
    "model_type": "an object",
    "string_type": "text",
    "string_too_short": "text that is not empty",
}
_BRANCHES = ("str", "list[str]")  # alternatives in the place of an error


def _not_expected(errors: Sequence[ErrorDetails]) -> str:
    """The field of another type than expected, and its value."""

    def place(error: ErrorDetails) -> tuple[int | str, ...]:
        return tuple(step for step in error["loc"] if step not in _BRANCHES)

    own = [error for error in errors if place(error)[: len(place(errors[0]))] == place(errors[0])]
    worst = max(own, key=lambda error: len(place(error)))  # the bad item of a list
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in place(worst))
    field, found = "".join(steps).removeprefix("."), short(worst["input"])
    if worst["type"] == "missing":
        return f"{field} is missing in {found}"
    wanted = _WANTED.get(worst["type"], "another value")
    return f"{field}: expected {wanted}, found {found}".removeprefix(": ")


def check_length(caption: str, where: str) -> None:
    """Raise an error if a caption is too long."""
    if len(caption) <= MOST_LETTERS:
        return
    words = caption[: MOST_CHARACTERS + 1].split()
    longest = max(map(len, words), default=0)
    if len(caption) > MOST_CHARACTERS:
        problem = f"a caption of {len(caption):,} characters"
    elif len(words) > MOST_WORDS:
        problem = f"a caption of {len(words):,} words"
    elif longest > MOST_LETTERS:
        problem = f"a caption with a word of {longest:,} characters"
    else:
        return
    most = f"{MOST_CHARACTERS:,} characters, {MOST_WORDS:,} words, {MOST_LETTERS:,} letters a word"
    raise UserError(
        "data.too_large", f"{where}: {problem} ({short(caption)}); shorten it to at most {most}"
    )


def table(
    path: Path, separator: str | None = None, header: Sequence[str] | None = None
) -> tuple[int, list[str], Iterator[tuple[int, dict[str, str]]]]:
    """The rows of a table, separated by tabs if its name ends in .tsv, else by commas.

    Parameters
    ----------
    separator
        Another separator.
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
    """The error of a row: where it is, and what is wrong."""
    return UserError("data.row", f"{where}: {problem}")


def short(value: object) -> str:
    """Quoted, without control characters, and short."""
    text = repr(value[:80]) if isinstance(value, str) else _SHORT.repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


_SHORT = Repr()
_SHORT.maxlist = _SHORT.maxdict = 20
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


def _too_large(path: Path) -> UserError:
    return UserError(
        "data.too_large",
        f"{path}: more than {MOST_BYTES >> 20} MiB (unpacked), {MOST_LINES:,} lines or objects, or "
        f"{MOST_VALUES:,} values, the most that is read at once; split it into parts",
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


# A part of csv's message, and its meaning.
_CSV_MISTAKES = (
    ("limit", f"a cell of more than {csv.field_size_limit():,} characters"),
    ("unexpected end", "a quote that is opened and never closed"),
    ("expected after", 'text after a closing quote; within a cell, a quote is written ""'),
    ("", "a carriage return in the middle of a line"),
)


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
            problem = next(row[1] for row in _CSV_MISTAKES if row[0] in str(error))
            problem = f"broken row ({problem}); check its quotes"
            raise bad_row(f"{path}, line {number}", problem) from error
        if row is None:
            return
        if any(cell.strip() for cell in row):
            yield number, row
