"""Captions to be scored and their references: read from files, and each caption put to its picture.

A file is read by the ending of its name: `.jsonl`, `.json`, `.csv` and `.tsv` hold rows with an id
and a caption, anything else is text, a caption a line. What could shift captions against pictures
is an error; what is left out or odd is counted in the notes.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, RootModel

from show_attend_tell.errors import UserError
from show_attend_tell.rows import bad_row, lines, parse, read_whole, short, table

# Before `id`: in COCO's annotations that is the number of the caption, not of the picture.
_ID_COLUMNS = ("image_id", "picture", "image", "file", "filename", "file_name", "id")
_CAPTION_COLUMNS = ("caption", "captions", "references")
_EXPECTED = 'write rows such as {"id": "1.jpg", "caption": "a dog"}'

# What models write for a word they do not know, or for the end of a sentence.
_MARKS = re.compile(r"</?(?:unk|start|end|pad|bos|eos|s)>", re.IGNORECASE)


@dataclass(frozen=True)
class Candidates:
    """One caption a picture, as a file gave them."""

    source: str  # how messages call it
    captions: Mapping[str, str]  # by id; by number of the line where there are no ids
    has_ids: bool = True
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class References:
    """What people said of pictures.

    Parameters
    ----------
    captions
        By id, at least one each; by number of the line where there are no ids.
    names
        File names of pictures whose ids are something else.
    has_order
        Whether the order of pictures means something, so that captions without ids may follow it.
    """

    source: str
    captions: Mapping[str, Sequence[str]]
    names: Mapping[str, str] = field(default_factory=dict)
    has_ids: bool = True
    has_order: bool = True
    notes: tuple[str, ...] = ()


def is_text(path: Path) -> bool:
    """Whether a file of that name is read as text, a caption a line."""
    return _ending(path) not in (".jsonl", ".json", ".csv", ".tsv")


def read_candidates(path: Path) -> Candidates:
    """Read one caption a picture."""
    if path.is_dir():
        remedy = f"give a file of captions, such as {path / 'captions.jsonl'}"
        raise UserError("data.unreadable", f"{path}: this is a folder; {remedy}")
    if is_text(path):
        texts = _text_lines(path)
        said = [text for text in texts if text.strip()]
        if said and all("\t" in text for text in said):
            problem = "every line holds a tab, so these are not just captions"
            remedy = (
                "a table needs a header and a name that ends in .tsv; or use `sat caption --json`"
            )
            raise bad_row(f"{path}, line 1", f"{problem}; {remedy}")
        captions = {str(number): text for number, text in enumerate(texts, start=1)}
        return Candidates(str(path), captions, has_ids=False)
    found: dict[str, str] = {}
    places: dict[str, str] = {}
    repeated = 0
    for place, row in _rows(path):
        if not isinstance(row.captions, str):
            problem = f"a list of captions of picture {short(row.id)}; give one, as text"
            raise bad_row(f"{path}, {place}", problem)
        if found.setdefault(row.id, row.captions) != row.captions:
            problem = (
                f"another caption of picture {short(row.id)}, which has one in {places[row.id]}"
            )
            raise UserError("data.duplicate", f"{path}, {place}: {problem}; keep one of them")
        if places.setdefault(row.id, place) != place:
            repeated += 1
    _refuse_none(path, found)
    notes = [f"{path}: ignored {_count(repeated, 'row')} given twice."] if repeated else []
    return Candidates(str(path), found, notes=tuple(notes))


def read_references(paths: Sequence[Path]) -> References:
    """Read references: one file of rows, COCO's annotations, or text files side by side."""
    source = ", ".join(map(str, paths))
    gathered: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    if all(map(is_text, paths)):
        for texts in _side_by_side(paths):
            for number, text in enumerate(texts, start=1):
                gathered.setdefault(str(number), []).append(text)
        return _without_blank(source, gathered, names, has_ids=False)
    if len(paths) > 1:
        problem = "several files of references must all be text, line i for picture i"
        raise UserError("request.references", f"{source}: {problem}; give one file of another kind")
    (path,) = paths
    if _ending(path) == ".json" and not _is_array(content := read_whole(path)):
        coco = parse(
            _CocoFile, content, path, expected="give COCO's annotations, or a list of rows"
        )
        names = {picture.id: picture.file_name for picture in coco.images}
        gathered = {id_: [] for id_ in names}
        rows: Iterable[tuple[str, _Row]] = (("", row) for row in coco.annotations)
    else:
        rows = _rows(path)
    for _, row in rows:
        more = [row.captions] if isinstance(row.captions, str) else row.captions
        gathered.setdefault(row.id, []).extend(more)
    _refuse_none(path, gathered)
    return _without_blank(source, gathered, names, has_ids=True)


def pair(candidates: Candidates, references: References) -> tuple[dict[str, str], list[str]]:
    """Put each caption to its picture.

    Ids are compared as text first, so that 7 and "7" are the same. Where that does not find every
    picture, file names are compared without folders, then without endings, then by the number in
    COCO's file names (`COCO_val2014_000000391895.jpg` is 391895); the first of these that finds
    most is taken, for all captions alike.

    Returns
    -------
    captions
        By the ids of the references, in their order.
    notes
        How they were matched, and what was left out or is odd.
    """
    if candidates.has_ids and references.has_ids:
        captions, notes = _by_names(candidates, references)
    else:
        captions, notes = _by_order(candidates, references)
    which = "picture" if references.has_ids else "line"
    for problem, ids in (
        ("empty and scored as such", [i for i, text in captions.items() if not text.strip()]),
        (
            "told with a model's own marks such as <unk>, scored as words",
            [i for i, text in captions.items() if _MARKS.search(text)],
        ),
    ):
        if ids:
            number = _count(len(ids), "caption")
            are = "is" if len(ids) == 1 else "are"
            where = f"{which}{'' if len(ids) == 1 else 's'} {_some(ids)}"
            notes.append(f"{candidates.source}: {number} {are} {problem} ({where}).")
    return captions, [*candidates.notes, *notes]


def _by_order(candidates: Candidates, references: References) -> tuple[dict[str, str], list[str]]:
    if candidates.has_ids:
        problem = f"captions with ids cannot be put to {references.source}, whose lines have none"
        remedy = "give both as text in the same order, or both with ids"
        raise UserError("score.no_ids", f"{candidates.source}: {problem}; {remedy}")
    if not references.has_order:
        problem = f"lines of text have no ids, and the pictures of {references.source} no order"
        remedy = "give the captions with ids, in .jsonl or .csv"
        raise UserError("score.no_ids", f"{candidates.source}: {problem}; {remedy}")
    texts, ids = list(candidates.captions.values()), list(references.captions)
    if len(texts) != len(ids):
        what = "pictures" if references.has_ids else "lines"
        remedy = "line i must be the caption of picture i"
        if not texts[-1].strip():
            remedy += f"; the last line of {candidates.source} is blank"
        raise UserError(
            "data.lines",
            f"{candidates.source} has {len(texts):,} lines and "
            f"{references.source} has {len(ids):,} {what}; {remedy}",
        )
    notes = []
    if references.has_ids:
        taken = f"in the order of {references.source}, from {short(ids[0])} to {short(ids[-1])}"
        notes.append(f"{candidates.source}: its lines have no ids and were taken {taken}.")
    return dict(zip(ids, texts, strict=True)), notes


def _file_name(name: str) -> str:
    """Without folders; composed and decomposed accents are the same."""
    return unicodedata.normalize("NFC", re.split(r"[/\\]", name)[-1])


def _stem(name: str) -> str:
    return PurePath(_file_name(name)).stem


def _coco_number(name: str) -> str:
    found = re.fullmatch(r"(?:COCO_[a-z]+\d{4}_)?0*(\d+)", _stem(name))
    return found[1] if found else name


_WAYS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("by id", str),
    ("by file name", _file_name),
    ("by file name without its ending", _stem),
    ("by COCO's number", _coco_number),
)


def _by_names(candidates: Candidates, references: References) -> tuple[dict[str, str], list[str]]:
    total = len(references.captions)
    way, found = "", dict[str, list[str]]()  # id of a picture -> ids of its captions
    for name, key in _WAYS:
        names = references.names if key is not str else {}
        pictures = {key(names.get(id_, id_)): id_ for id_ in references.captions}
        if len(pictures) < total:
            continue  # two pictures would become one
        here: dict[str, list[str]] = {}
        for id_ in candidates.captions:
            if (picture := pictures.get(key(id_))) is not None:
                here.setdefault(picture, []).append(id_)
        if not way or len(here) > len(found):
            way, found = name, here
        if len(found) == total:
            break
    _refuse_misfits(candidates, references, found)
    notes = []
    if way != "by id":
        first = next(iter(references.captions))
        example = f"{short(found[first][0])} is {short(first)}"
        notes.append(f"{candidates.source}: matched with the references {way} ({example}).")
    if extra := len(candidates.captions) - total:
        known = {id_ for (id_,) in found.values()}
        some = _some([id_ for id_ in candidates.captions if id_ not in known])
        what = f"{_count(extra, 'caption')} of pictures without references"
        notes.append(f"{candidates.source}: left out {what} ({some}).")
    return {id_: candidates.captions[found[id_][0]] for id_ in references.captions}, notes


def _refuse_misfits(
    candidates: Candidates, references: References, found: Mapping[str, Sequence[str]]
) -> None:
    for picture, ids in found.items():
        if len(ids) > 1:
            problem = f"{_some([short(id_) for id_ in ids])} are captions of one picture"
            raise UserError(
                "data.duplicate",
                f"{candidates.source}: {problem} ({short(picture)}); keep one of them",
            )
    if not found:
        there, here = (short(next(iter(one.captions))) for one in (candidates, references))
        problem = f"no caption's id is one of {references.source}: {there} here, {here} there"
        raise UserError("score.ids", f"{candidates.source}: {problem}; give both the same ids")
    if missing := [id_ for id_ in references.captions if id_ not in found]:
        number = f"{len(missing):,} of the {len(references.captions):,} pictures"
        problem = f"no caption of {number} of {references.source} ({_some(missing)})"
        remedy = "caption them too, or leave their references out"
        raise UserError("score.missing", f"{candidates.source}: {problem}; {remedy}")


# Reading files.


class _Row(BaseModel):
    """A picture and its caption, or in JSON a list of them."""

    model_config = ConfigDict(coerce_numbers_to_str=True)
    id: str = Field(validation_alias=AliasChoices(*_ID_COLUMNS), min_length=1)
    captions: str | list[str] = Field(validation_alias=AliasChoices(*_CAPTION_COLUMNS))


class _RowsFile(RootModel[list[_Row]]):
    pass


class _CocoPicture(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)
    id: str
    file_name: str


class _CocoFile(BaseModel):
    images: list[_CocoPicture]
    annotations: list[_Row]


def _ending(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _is_array(content: bytes) -> bool:
    return content.lstrip()[:1] == b"["


def _rows(path: Path) -> Iterator[tuple[str, _Row]]:
    """Rows, and where each is."""
    if _ending(path) == ".jsonl":
        for number, line in lines(path):
            if line.strip():
                row = parse(_Row, line.encode(), path, number, expected=_EXPECTED)
                yield f"line {number}", row
    elif _ending(path) == ".json":
        expected = "give a list of rows such as " + _EXPECTED.removeprefix("write rows such as ")
        content = parse(_RowsFile, read_whole(path), path, expected=expected)
        for index, row in enumerate(content.root):
            yield f"entry {index + 1}", row
    else:
        yield from _table_rows(path)


def _table_rows(path: Path) -> Iterator[tuple[str, _Row]]:
    first, columns, rows = table(path)
    chosen = []
    for names in (_ID_COLUMNS, _CAPTION_COLUMNS):
        column = next((name for name in names if name in columns), None)
        if column is None:
            problem = f"expected a column named {names[-1]}, found {short(', '.join(columns))}"
            remedy = "let the first line name the columns, such as id,caption"
            raise bad_row(f"{path}, line {first}", f"{problem}; {remedy}")
        chosen.append(column)
    for number, row in rows:
        id_, caption = (row[column] for column in chosen)
        if not id_.strip():
            raise bad_row(f"{path}, line {number}", "a caption without an id; give it one")
        yield f"line {number}", _Row(id=id_.strip(), captions=caption)


def _text_lines(path: Path) -> list[str]:
    texts = [text for _, text in lines(path)]
    _refuse_none(path, texts)
    return texts


def _side_by_side(paths: Sequence[Path]) -> list[list[str]]:
    files = [_text_lines(path) for path in paths]
    for path, texts in zip(paths, files, strict=True):
        if len(texts) != len(files[0]):
            raise UserError(
                "data.lines",
                f"{paths[0]} has {len(files[0]):,} lines and {path} has {len(texts):,} lines; "
                "line i of each must be a reference of picture i",
            )
    return files


def _refuse_none(path: Path, found: Collection[object]) -> None:
    if not found:
        raise UserError("data.empty", f"{path}: there are no captions in this file; fill it first")


def _without_blank(
    source: str, gathered: Mapping[str, Sequence[str]], names: Mapping[str, str], *, has_ids: bool
) -> References:
    captions = {
        id_: kept
        for id_, found in gathered.items()
        if (kept := [text for text in found if text.strip()])
    }
    notes = []
    if blank := sum(map(len, gathered.values())) - sum(map(len, captions.values())):
        notes.append(f"{source}: left out {_count(blank, 'blank reference')}.")
    if bare := [id_ for id_ in gathered if id_ not in captions]:
        which = "picture" if has_ids else "line"
        problem = f"{_count(len(bare), which)} without any reference ({_some(bare)})"
        # Among lines a picture cannot be left out: those after it would move up.
        if not has_ids or not captions:
            raise UserError("score.no_reference", f"{source}: {problem}; give each at least one")
        notes.append(f"{source}: left out {problem}.")
    return References(
        source, captions, names, has_ids=has_ids, has_order=not bare, notes=tuple(notes)
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:3]) + (", ..." if len(ids) > 3 else "")
