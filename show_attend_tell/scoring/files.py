"""Captions to be scored and their references, read from files.

The ending of a name says whether a file is JSON, JSON Lines or a table; for other names, and for
standard input, the first lines decide. Anything else is text, a caption a line. What JSON holds is
recognised by its shape (`_SHAPES`). Where the choice is not obvious, it is in the notes.
"""

import csv
import json
import math
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import RootModel

from show_attend_tell.errors import UserError, counted
from show_attend_tell.rows import (
    MOST_BYTES,
    bad_row,
    check_length,
    lines,
    parse,
    read_whole,
    short,
    table,
)

STANDARD_INPUT = Path("-")

# Before `id`: in COCO's annotations that is the number of the caption, not of the picture.
_IDS = ("image_id", "picture", "image", "file", "filename", "file_name", "id")
_CAPTIONS = ("caption", "captions", "generated_text", "prediction", "predictions")
_REFERENCES = ("references", "captions", "caption")
_ALL_TEXTS = frozenset((*_CAPTIONS, *_REFERENCES))
_ROW = '{"id": "1.jpg", "caption": "a dog"}'
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_PICTURE_OR_NUMBER = re.compile(r"\d+|.+\.(?:jpe?g|png|webp|gif|bmp|tiff?)", re.IGNORECASE)


@dataclass(frozen=True)
class Columns:
    """Columns, or keys of JSON, that are taken before those with the usual names."""

    id: str | None = None
    caption: str | None = None


_USUAL = Columns()


@dataclass(frozen=True)
class Candidates:
    """One caption a picture, as a file gave them."""

    source: str  # how messages call it
    captions: Mapping[str, str]  # by id; by number where there are no ids
    has_ids: bool = True
    notes: tuple[str, ...] = ()
    columns: frozenset[str] = frozenset()  # those that were taken, in lower case
    failed: tuple[str, ...] = ()  # pictures whose row holds an error in place of a caption


@dataclass(frozen=True)
class References:
    """Reference captions of pictures.

    Parameters
    ----------
    captions
        By id, at least one each; by number where there are no ids.
    names
        File names of pictures whose ids are something else.
    has_order
        Whether the order of pictures means something, so that captions without ids may follow it.
    columns
        Those that were taken, in lower case.
    """

    source: str
    captions: Mapping[str, Sequence[str]]
    names: Mapping[str, str] = field(default_factory=dict)
    has_ids: bool = True
    has_order: bool = True
    notes: tuple[str, ...] = ()
    columns: frozenset[str] = frozenset()


def is_text(path: Path) -> bool:
    """Whether a file is text, as far as its name says."""
    return _ending(path) not in _FORMS


def name_of(path: Path) -> str:
    """How messages call a file of captions."""
    return "standard input" if path == STANDARD_INPUT else str(path)


def read_candidates(path: Path, columns: Columns = _USUAL) -> Candidates:
    """Read one caption a picture; the path may be `STANDARD_INPUT`."""
    if path.is_dir():
        remedy = f"give a file of captions, such as {path / 'captions.jsonl'}"
        raise UserError("data.unreadable", f"{path}: this is a folder; {remedy}")
    file = _read(path, columns, _CAPTIONS)
    found: dict[str, str] = {}
    places: dict[str, str] = {}
    repeated = 0
    for number, (place, id_, texts, _) in enumerate(file.entries, start=1):
        id_ = id_ or str(number)
        if len(texts) != 1:
            problem = f"{counted(len(texts), 'caption')} of picture {short(id_)}; give one, as text"
            raise bad_row(f"{file.source}, {place}", problem)
        if found.setdefault(id_, texts[0]) != texts[0]:
            problem = f"another caption of picture {short(id_)}, which has one in {places[id_]}"
            raise UserError(
                "data.duplicate", f"{file.source}, {place}: {problem}; keep one of them"
            )
        if places.setdefault(id_, place) != place:
            repeated += 1
    if repeated:
        file.notes.append(f"{file.source}: ignored {counted(repeated, 'row')} given twice.")
    return Candidates(
        file.source,
        found,
        file.has_ids,
        tuple(file.notes),
        columns=frozenset(file.taken),
        failed=tuple(id_ for id_ in file.failed if id_ not in found),
    )


def read_references(paths: Sequence[Path], columns: Columns = _USUAL) -> References:
    """Read references: one file of any layout, or several side by side, line i for picture i."""
    source = ", ".join(map(str, paths))
    if STANDARD_INPUT in paths:
        problem = "standard input is read as captions, not as references"
        raise UserError("request.references", f"{problem}; give the references as a file")
    files = [_read(path, columns, _REFERENCES) for path in paths]
    first = files[0]
    if len(files) > 1 and any(file.has_ids for file in files):
        problem = "several files of references must all be text, line i for picture i"
        raise UserError("request.references", f"{source}: {problem}; give one file of another kind")
    gathered: dict[str, list[str]] = {id_: [] for id_ in first.names}
    for file in files:
        if len(file.entries) != len(first.entries):
            raise UserError(
                "data.lines",
                f"{first.source} has {counted(len(first.entries), 'line')} and "
                f"{file.source} has {counted(len(file.entries), 'line')}; "
                "line i of each must be a reference of picture i",
            )
        for number, (_, id_, texts, _) in enumerate(file.entries, start=1):
            gathered.setdefault(id_ or str(number), []).extend(texts)
        for id_ in file.failed:
            gathered.setdefault(id_, [])
    captions = {
        id_: kept
        for id_, found in gathered.items()
        if (kept := [text for text in found if text.strip()])
    }
    notes = [note for file in files for note in file.notes]
    if blank := sum(map(len, gathered.values())) - sum(map(len, captions.values())):
        notes.append(f"{source}: left out {counted(blank, 'blank reference')}.")
    if bare := [id_ for id_ in gathered if id_ not in captions]:
        which = "picture" if first.has_ids else "line"
        problem = f"{counted(len(bare), which)} without any reference ({some(bare)})"
        # In order a picture cannot be left out: those after it would move up.
        if not first.has_ids or not captions:
            raise UserError("score.no_reference", f"{source}: {problem}; give each at least one")
        notes.append(f"{source}: left out {problem}.")
    return References(
        source,
        captions,
        first.names,
        has_ids=first.has_ids,
        has_order=not bare,
        notes=tuple(notes),
        columns=frozenset().union(*(file.taken for file in files)),
    )


def some(ids: Sequence[str]) -> str:
    """The first three."""
    return ", ".join(ids[:3]) + (", ..." if len(ids) > 3 else "")


# A file, read entry by entry.


class _Entry(NamedTuple):
    place: str
    id: str | None  # None where the order says which picture is meant
    texts: list[str]
    failed: bool = False  # `sat caption` wrote why there is no caption


@dataclass
class _File:
    """A file while it is read: which names are looked for in it, and what was found."""

    path: Path
    source: str
    ids: tuple[str, ...]
    captions: tuple[str, ...]
    entries: list[_Entry] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)  # file names, by id
    notes: list[str] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)  # ids

    @property
    def has_ids(self) -> bool:
        return self.entries[0].id is not None

    def keys(self, found: Collection[str], place: str) -> tuple[str | None, str]:
        """Choose the columns of the id, if there is one, and of the caption."""
        id_ = next((name for name in self.ids if name in found), None)
        caption = next((name for name in self.captions if name in found), None)
        if caption is None:
            raise self.wrong(place, _not_among("caption", self.captions, found))
        # What else is there may be the id, and the order something else.
        if id_ is None and not (_ALL_TEXTS | {caption}).issuperset(found):
            raise self.wrong(place, _not_among("id", self.ids, found))
        self.taken |= {caption} if id_ is None else {caption, id_}
        return id_, caption

    def entry(self, place: str, value: object) -> _Entry:
        """Read a row with its keys, or what stands for a caption without an id."""
        if not isinstance(value, dict):
            return _Entry(place, None, self.texts(place, value))
        row = {key.lower(): one for key, one in value.items()}
        id_key, caption_key = self.keys(row, place)
        id_ = None if id_key is None else self.id(place, row[id_key])
        if id_ is not None and row.get("error") and not row[caption_key]:
            return _Entry(place, id_, [], failed=True)
        return _Entry(place, id_, self.texts(place, row[caption_key]))

    def id(self, place: str, value: object) -> str:
        """Read a number or text; 7, 7.0 and "7" are the same."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        is_number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
        text = str(value).strip() if isinstance(value, str) or is_number else ""
        if not text or isinstance(value, bool):
            problem = f"{'null' if value is None else short(value)} is no id of a picture"
            raise self.wrong(place, f"{problem}; give each caption its picture's name or number")
        return text

    def texts(self, place: str, value: object) -> list[str]:
        """Read a caption, a list of them, or a list of rows with one each."""
        texts = []
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                row = {key.lower(): text for key, text in one.items()}
                one = row[self.keys({*row} & {*self.captions} or row, place)[1]]
            if not isinstance(one, str):
                problem = f"{'null' if one is None else short(one)} is no caption"
                raise self.wrong(place, f"{problem}; write text, such as {_ROW}")
            texts.append(one)
        return texts

    def wrong(self, place: str, problem: str) -> UserError:
        return bad_row(f"{self.path}, {place}", problem)


def _read(path: Path, columns: Columns, captions: tuple[str, ...]) -> _File:
    """Read the whole file; the captions' usual names depend on whose captions they are."""
    asked = [(name.lower(),) if name else () for name in (columns.id, columns.caption)]
    with _regular(path) as regular:
        file = _File(regular, name_of(path), (*asked[0], *_IDS), (*asked[1], *captions))
        form = _FORMS.get(_ending(path)) or _recognise(file)
        for entry in form(file):
            if entry.id is not None and entry.failed:
                file.failed.append(entry.id)
            else:
                file.entries.append(entry)
    if file.failed and not file.entries:
        problem = f"no captions, only {counted(len(file.failed), 'picture')} that failed"
        remedy = "caption them again"
        raise UserError("data.empty", f"{file.source}: {problem} ({some(file.failed)}); {remedy}")
    if not file.entries:
        problem = "there are no captions in this file; fill it first"
        raise UserError("data.empty", f"{file.source}: {problem}")
    for place, id_, texts, _ in file.entries:
        for text in texts:
            check_length(text, f"{file.source}, {place}")
        if (id_ is not None) != file.has_ids:
            problem = "no id, unlike the first" if file.has_ids else "an id, unlike the first"
            raise bad_row(f"{file.source}, {place}", f"{problem}; give each caption one, or none")
    return file


@contextmanager
def _regular(path: Path) -> Iterator[Path]:
    """Give a file that can be opened again: what comes through a pipe is first copied."""
    is_input = path == STANDARD_INPUT
    if not is_input and (path.is_file() or not path.exists()):
        yield path
        return
    if is_input and sys.stdin is None:
        raise UserError("data.unreadable", "standard input is closed; give a file")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, path.name)
        try:
            with nullcontext(sys.stdin.buffer) if is_input else path.open("rb") as stream:
                copy.write_bytes(stream.read(MOST_BYTES + 1))  # one more is refused later
        except OSError as error:
            problem = f"cannot be read ({error}); give a file"
            raise UserError("data.unreadable", f"{name_of(path)}: {problem}") from error
        try:
            yield copy
        except UserError as error:
            message = str(error).replace(str(copy), name_of(path))
            raise UserError(error.code, message) from error


def _not_among(what: str, names: Iterable[str], found: Iterable[str]) -> str:
    problem = f"no {what}: expected one of {', '.join(names)}, found {short(', '.join(found))}"
    return f"{problem}; name yours with --{what}-column"


class _Json(RootModel[Any]):
    """Anything; what is in it is looked at here."""


# Forms of files: how entries are found in one.


def _text(file: _File) -> Iterator[_Entry]:
    for number, line in lines(file.path):
        yield _Entry(f"line {number}", None, [line])


def _json_lines(file: _File) -> Iterator[_Entry]:
    for number, line in lines(file.path):
        if line.strip():
            value = parse(_Json, line.encode(), file.path, number, expected=f"write {_ROW}").root
            yield file.entry(f"line {number}", value)


def _json(file: _File) -> Iterator[_Entry]:
    raw = read_whole(file.path)
    content = parse(_Json, raw, file.path).root
    for shape in _SHAPES:
        if (entries := shape(file, content)) is not None:
            break
    else:
        problem = f"no captions were recognised in {short(content)}"
        raise bad_row(str(file.path), f"{problem}; give a list of rows such as {_ROW}")
    if shape is _by_id:
        pairs = json.loads(raw, object_pairs_hook=list, parse_int=str)
        ((name, times),) = Counter(name for name, _ in pairs).most_common(1) or [("", 0)]
        if times > 1:
            problem = f"picture {short(name)} is there {times} times; keep one"
            raise UserError("data.duplicate", f"{file.path}: {problem}")
    yield from entries


def _table(file: _File) -> Iterator[_Entry]:
    head = _first_lines(file.path)[0]
    usual = "\t" if ".tsv" in file.path.suffixes else ","
    separators = sorted(_SEPARATORS, key=usual.__ne__)  # the usual one first
    by = next((one for one in separators if _names(head, one) & {*file.captions}), None)
    header = None
    if by is None and (by := _separator_without_header(head)):
        header = ["id", "caption"]
        picture, caption = map(short, _cells(head, by))
        what = f"no header; took {picture} as a picture and {caption} as its caption"
        file.notes.append(f"{file.source}: {what}, and so on.")
    first, columns, rows = table(file.path, by or usual, header)
    if columns:
        id_, caption = file.keys(columns, f"line {first}")
        if header is None and by and by != usual:
            what = (
                f"took columns as separated by {_SEPARATORS[by]}, {short(caption)} as the caption"
            )
            what += f" and {short(id_)} as its picture" if id_ else ""
            file.notes.append(f"{file.source}: {what}.")
    for number, row in rows:
        yield file.entry(f"line {number}", row)


_FORMS: dict[str, Callable[[_File], Iterator[_Entry]]] = {
    ".jsonl": _json_lines,
    ".json": _json,
    ".csv": _table,
    ".tsv": _table,
}


def _recognise(file: _File) -> Callable[[_File], Iterator[_Entry]]:
    """The form of a file, from its first lines."""
    head, second = _first_lines(file.path)
    if re.match(r"[\[{]\s*(?:$|[\"\[{\]}])", head):
        return _json_lines if head.endswith("}") and second.startswith("{") else _json
    for separator in _SEPARATORS:
        names = _names(head, separator)
        if names & {*file.ids} and names & {*file.captions}:
            return _table
    if head and all("\t" in line for _, line in lines(file.path) if line.strip()):
        if _separator_without_header(head) == "\t":
            return _table
        problem = "every line holds a tab, so these are not just captions"
        remedy = "let the first line name the columns, such as id and caption"
        raise bad_row(f"{file.path}, line 1", f"{problem}; {remedy}")
    return _text


def _first_lines(path: Path) -> tuple[str, str]:
    """Give the first two lines that are not blank; enough of each to see what it is."""
    found = (line.strip()[:10_000] for _, line in lines(path) if line.strip())
    return next(found, ""), next(found, "")


def _cells(line: str, separator: str) -> list[str]:
    row = next(csv.reader([line.replace("\r", " ")], delimiter=separator), [])
    return [cell.strip() for cell in row]


def _names(line: str, separator: str) -> set[str]:
    return {cell.lower() for cell in _cells(line, separator)}


def _separator_without_header(head: str) -> str | None:
    """Give what separates a picture from its caption, if there is no doubt that they are these."""
    for separator in _SEPARATORS:
        cells = _cells(head, separator)
        if [bool(_PICTURE_OR_NUMBER.fullmatch(cell)) for cell in cells] == [True, False]:
            return separator if re.search(r"[^\W\d]", cells[1]) else None
    return None


def _ending(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


# Shapes of JSON: each gives its entries, or None for another shape.


_Entries = Iterator[_Entry] | None


def _list(file: _File, content: object) -> _Entries:
    """Rows, COCO's results among them, or texts in the order of the references.

    `[{"image_id": 1, "caption": "a dog"}]`, `["a dog"]`, `[[{"generated_text": "a dog"}]]`
    """
    if not isinstance(content, list):
        return None
    return (file.entry(f"entry {number}", one) for number, one in enumerate(content, start=1))


def _coco(file: _File, content: object) -> _Entries:
    """COCO's annotations: `{"images": [{"id": 1, "file_name": "1.jpg"}], "annotations": [...]}`."""
    if not isinstance(content, dict):
        return None
    images, annotations = (content.get(key) for key in ("images", "annotations"))
    if not (isinstance(images, list) or isinstance(annotations, list)):
        return None
    if not isinstance(annotations, list):
        remedy = "give COCO's annotations, or let the name of Karpathy's file begin with dataset_"
        raise bad_row(str(file.path), f"a list of images without one of annotations; {remedy}")
    for number, image in enumerate(images if isinstance(images, list) else (), start=1):
        match image:
            case {"id": id_, "file_name": str(name)}:
                file.names[file.id(f"image {number}", id_)] = name
            case _:
                problem = f"expected id and file_name, found {short(image)}"
                raise file.wrong(f"image {number}", f"{problem}; give COCO's annotations")
    return _list(file, annotations)


def _columns(file: _File, content: object) -> _Entries:
    """A list a column: `{"predictions": ["a dog"], "references": [["a dog runs", "the dog"]]}`."""
    if not isinstance(content, dict):
        return None
    lists = {key.lower(): one for key, one in content.items() if isinstance(one, list)}
    others = {key.lower() for key in content} - lists.keys()
    if not lists.keys() & {*file.captions} or others & {*file.ids}:
        return None
    id_key, caption_key = file.keys(lists, "columns")
    lengths = {key: len(lists[key]) for key in (id_key, caption_key) if key}
    if len({*lengths.values()}) > 1:
        problem = " and ".join(f"{size:,} of {key}" for key, size in lengths.items())
        raise file.wrong("columns", f"{problem}; give as many of each")
    rows = zip(*(lists[key] for key in lengths), strict=True)
    return _list(file, [dict(zip(lengths, row, strict=True)) for row in rows])


def _row(file: _File, content: object) -> _Entries:
    """One row alone, as a file of JSON lines may have it: `{"id": "1.jpg", "caption": "a dog"}`."""
    if not isinstance(content, dict):
        return None
    keys = {key.lower() for key in content}
    is_row = keys & {*file.captions} and (keys & {*file.ids} or keys <= _ALL_TEXTS)
    return _list(file, [content]) if is_row else None


def _by_id(file: _File, content: object) -> _Entries:
    """Captions by id, as pycocoevalcap has them.

    `{"1.jpg": "a dog"}`, `{"1.jpg": ["a dog"]}`, `{"1.jpg": [{"caption": "a dog"}]}`
    """
    if not isinstance(content, dict):
        return None
    if not all(isinstance(one, str | list) for one in content.values()):
        return None
    places = ((f"picture {short(id_)}", id_, one) for id_, one in content.items())
    return (_Entry(at, file.id(at, id_), file.texts(at, one)) for at, id_, one in places)


# The first that fits is taken.
_SHAPES: tuple[Callable[[_File, object], _Entries], ...] = (_list, _coco, _columns, _row, _by_id)
