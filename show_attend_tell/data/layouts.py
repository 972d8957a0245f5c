"""Data sets: the layouts of captioned pictures, each read into one list of examples.

- `flickr8k`: `Flickr8k.token.txt` and the split lists `Flickr_8k.trainImages.txt`, ...
- `flickr30k`: `results_20130124.token`; splits from `dataset_flickr30k.json` if it lies beside.
- `coco`: `captions_train2014.json`, `captions_val2014.json`; splits from `dataset_coco.json` if it
  lies beside, otherwise the val pictures are half dev, half test.
- `karpathy`: `dataset_flickr8k.json`, `dataset_flickr30k.json` or `dataset_coco.json`.
- `folder`: `captions.csv`, `.tsv` or `.jsonl` with the columns picture, caption and perhaps split;
  or a `photo.txt` beside each `photo.jpg`, one caption per line.

Without a given split one is drawn at random, the same for the same seed. As in the paper (section
5.1) captions beyond the fifth of a picture are discarded. Notes count what was left out.
"""

import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

import numpy as np
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from show_attend_tell.errors import UserError, whole_number
from show_attend_tell.rows import (
    Many,
    bad_row,
    check_length,
    lines,
    parse,
    read_whole,
    short,
    table,
)

SPLITS = ("train", "dev", "test")

# Other names of the splits; Karpathy's `restval` are val pictures of COCO given to training.
_SPLIT_NAMES = {split: split for split in SPLITS}
_SPLIT_NAMES |= {"restval": "train", "val": "dev", "validation": "dev"}

_PICTURE_COLUMNS = ("picture", "image", "file", "filename")
_CAPTION_COLUMNS = ("caption", "captions")
_PICTURE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
_PICTURE_FOLDERS = ("Flicker8k_Dataset", "Flickr8k_Dataset", "flickr30k-images", "images", "Images")


@dataclass(frozen=True)
class Example:
    """A picture with its captions."""

    picture: Path
    captions: tuple[str, ...]  # each one line of text, at least one
    split: str  # "train", "dev" or "test"
    id: str  # the picture's file name; with its folder where file names repeat


@dataclass(frozen=True)
class Dataset:
    """The examples of a data set, and notes on what was left out."""

    layout: str
    examples: tuple[Example, ...]
    notes: tuple[str, ...]


def load_dataset(
    path: Path,
    *,
    layout: str | None = None,
    pictures: Path | None = None,
    captions_per_picture: int | None = 5,
    seed: int = 0,
) -> Dataset:
    """Read a data set; its pictures need not be there (see `missing_pictures`).

    Parameters
    ----------
    path
        The data set's folder, or the file with its captions.
    layout
        One of the layouts above; by default recognised from the files.
    pictures
        The folder of the pictures; by default searched near the captions.
    captions_per_picture
        The most captions of a picture to keep; None keeps all.
    seed
        Of the random split, where the data set has none.

    Raises
    ------
    UserError
        `data.missing`, `data.unreadable`, `data.layout` (not recognised), `data.row` (with file and
        line), `data.leak` (a picture in two splits), `data.empty_split` (no training pictures),
        `request.layout`, `request.bad`.
    """
    if captions_per_picture is not None:
        whole_number("captions_per_picture", captions_per_picture, 1)
    if not _exists(path):
        raise UserError("data.missing", f"{path}: there is no such file or folder")
    if pictures is not None and not pictures.is_dir():
        raise UserError("data.missing", f"{pictures}: there is no such folder")
    layout, files = _recognise(path, layout)
    gathered = _LAYOUTS[layout].read(files, seed)
    examples = _assemble(gathered, captions_per_picture)
    home = files[0] if files[0].is_dir() else files[0].parent
    if not any(split == "train" for _, _, split in examples):
        found = f"no training pictures among the {len(examples):,} with captions and a split"
        raise UserError("data.empty_split", f"{home}: {found}; check both")
    return Dataset(layout, _locate(examples, home, pictures), tuple(gathered.notes))


def names_splits(path: Path) -> bool:
    """Whether a path has splits, or only captions.

    A folder always has: without named splits they are drawn. A file must name them; COCO's caption
    files do not.
    """
    if path.is_dir():
        return True
    layout = next((name for name in LAYOUTS if _captions_files(path, name)), None)
    if layout == "folder":
        if ".jsonl" not in path.suffixes:
            return "split" in table(path)[1]
        first = next(((number, line) for number, line in lines(path) if line.strip()), None)
        return first is not None and (
            parse(_MaybeSplit, first[1].encode(), path, first[0], expected=_EXPECTED).split
            is not None
        )
    return layout in ("flickr8k", "flickr30k", "karpathy")


def missing_pictures(dataset: Dataset) -> list[Example]:
    """Examples whose picture is not on disk."""
    return [example for example in dataset.examples if not _exists(example.picture)]


# Every layout is read into the same two tables and checked there; examples are made from those.


@dataclass
class _Gathered:
    """Captions and splits by picture (path below the picture folder), in the order of the files."""

    captions: dict[str, list[str]] = field(default_factory=dict)
    splits: dict[str, str] = field(default_factory=dict)
    blank: int = 0
    notes: list[str] = field(default_factory=list)

    def add(self, picture: str, captions: Iterable[str], where: str) -> None:
        """Add captions to a picture, each as one line; blank ones are only counted."""
        if picture not in self.captions:
            picture = _picture_name(picture, where)
        known = self.captions.setdefault(picture, [])
        for caption in captions:
            if "\0" in caption:
                raise bad_row(where, f"NUL character in {short(caption)}; remove it")
            text = " ".join(caption.split())
            check_length(text, where)
            if text:
                known.append(text)
            else:
                self.blank += 1

    def place(self, picture: str, split: str, where: str) -> None:
        """Put a picture into a split; an error if it is in another already."""
        picture = _picture_name(picture, where)
        ours = _SPLIT_NAMES.get(split.strip().lower())
        if ours is None:
            names = ", ".join(_SPLIT_NAMES)
            raise bad_row(where, f"unknown split {short(split)}; write one of {names}")
        other = self.splits.setdefault(picture, ours)
        if other != ours:
            problem = f"picture {short(picture)} is in {ours} and also in {other}"
            raise UserError("data.leak", f"{where}: {problem}; keep it in one split")

    def split_at_random(self, seed: int) -> None:
        """80 % train, 10 % dev, 10 % test; at least one each where there are three."""
        order = _shuffled((name for name, found in self.captions.items() if found), seed)
        held = max(1, len(order) // 10) if len(order) >= 3 else 0
        splits = ["dev"] * held + ["test"] * held + ["train"] * (len(order) - 2 * held)
        self.splits = dict(zip(order, splits, strict=True))
        self.notes.append(f"Split at random (seed {seed}): 80 % train, 10 % dev, 10 % test.")


_Found = tuple[str, tuple[str, ...], str]  # a picture's name, captions and split


def _picture_name(text: str, where: str) -> str:
    name = text.strip()
    steps = [step for step in name.split("/") if step not in ("", ".")]
    absolute = name.startswith(("/", "\\")) or os.path.splitdrive(name)[0]
    if not steps or absolute or ".." in re.split(r"[/\\]", name) or "\0" in name:
        remedy = "give the path of a file inside the picture folder"
        raise bad_row(where, f"bad picture name {short(text)}; {remedy}")
    return "/".join(steps)


def _file_name(name: str) -> str:
    return name.rpartition("/")[2]


def _assemble(gathered: _Gathered, captions_per_picture: int | None) -> list[_Found]:
    """The pictures that have captions and a split; notes count what is left out."""
    captions = {name: found for name, found in gathered.captions.items() if found}
    without_caption = len(gathered.captions | gathered.splits) - len(captions)
    examples = [
        (name, tuple(found[:captions_per_picture]), gathered.splits[name])
        for name, found in captions.items()
        if name in gathered.splits
    ]
    without_split = len(captions) - len(examples)
    beyond = sum(len(captions[name]) - len(kept) for name, kept, _ in examples)
    repeated = sum(len(kept) - len(set(kept)) for _, kept, _ in examples)
    for number, noun, before, after in (
        (gathered.blank, "blank caption", "Left out", ""),
        (without_caption, "picture", "Left out", " without a caption"),
        (without_split, "picture", "Left out", " in no split"),
        (beyond, "caption", "Left out", f" beyond the first {captions_per_picture} of a picture"),
        (repeated, "caption", "Kept", " equal to another of the same picture"),
    ):
        if number:
            plural = "" if number == 1 else "s"
            gathered.notes.append(f"{before} {number:,} {noun}{plural}{after}.")
    return examples


def _shuffled(names: Iterable[str], seed: int) -> list[str]:
    """The names in a random order, the same for the same set of names and seed."""
    # NumPy guarantees the numbers of RandomState forever; those of newer generators may change.
    ordered = sorted(names)
    return [ordered[index] for index in np.random.RandomState(seed).permutation(len(ordered))]


def _locate(examples: list[_Found], home: Path, pictures: Path | None) -> tuple[Example, ...]:
    """Examples with their paths: in the given folder, or the first one near that holds some."""
    file_names = {name: _file_name(name) for name, _, _ in examples}
    unique = len(set(file_names.values())) == len(file_names)
    near = [base / name for base in (home, home.parent) for name in ("", *_PICTURE_FOLDERS)]
    folders = near if pictures is None else [pictures]
    ways = [{name: name for name in file_names}]
    if unique:  # COCO's pictures may lie without their folders train2014 and val2014
        ways.append(file_names)
    sample = list(file_names)[:: max(1, len(file_names) // 50)]  # some may not be there
    found = (
        (folder, way)
        for folder in folders
        for way in ways
        if any(_exists(folder / way[name]) for name in sample)
    )
    folder, way = next(found, (folders[0], ways[0]))
    return tuple(
        Example(folder / way[name], captions, split, id=file_names[name] if unique else name)
        for name, captions, split in examples
    )


# The layouts.


def _read_flickr8k(files: list[Path], seed: int) -> _Gathered:
    file = _only(files)
    gathered = _read_token_file(file)
    for split in SPLITS:
        listing = file.with_name(f"Flickr_8k.{split}Images.txt")
        for number, line in lines(listing):
            if line.strip():
                gathered.place(line, split, f"{listing}, line {number}")
    return gathered


def _read_flickr30k(files: list[Path], seed: int) -> _Gathered:
    file = _only(files)
    gathered = _read_token_file(file)
    if not _take_karpathys_splits(gathered, file, "dataset_flickr30k.json"):
        gathered.split_at_random(seed)
    return gathered


def _read_token_file(file: Path) -> _Gathered:
    """Rows such as `1000268201_693b08cb0e.jpg#0<tab>A child in a pink dress .`"""
    gathered = _Gathered()
    for number, line in lines(file):
        if not line.strip():
            continue
        where = f"{file}, line {number}"
        key, tab, caption = line.partition("\t")
        name, _, index = key.rpartition("#")
        if not tab or not name or not index.strip().isdecimal():
            expected = "name.jpg#number, a tab and the caption"
            raise bad_row(where, f"expected {expected}, found {short(line)}")
        gathered.add(name, [caption], where)
    return gathered


class _KarpathySentence(BaseModel):
    raw: str


class _KarpathyPicture(BaseModel):
    filename: str
    filepath: str = ""  # COCO's train2014 or val2014
    split: str
    sentences: Many[_KarpathySentence]

    @property
    def name(self) -> str:
        return f"{self.filepath}/{self.filename}" if self.filepath else self.filename


class _KarpathyFile(BaseModel):
    images: Many[_KarpathyPicture]


def _karpathys_pictures(file: Path) -> list[_KarpathyPicture]:
    sentences = '"split": "train", "sentences": [{"raw": "a dog"}]'
    expected = f'write {{"images": [{{"filename": "1.jpg", {sentences}}}]}}'
    return parse(_KarpathyFile, read_whole(file), file, expected=expected).images


def _read_karpathy(files: list[Path], seed: int) -> _Gathered:
    file = _only(files)
    gathered = _Gathered()
    for index, picture in enumerate(_karpathys_pictures(file)):
        where = f"{file}, images[{index}]"
        gathered.add(picture.name, (sentence.raw for sentence in picture.sentences), where)
        gathered.place(picture.name, picture.split, where)
    return gathered


def _take_karpathys_splits(gathered: _Gathered, file: Path, name: str) -> bool:
    """Use the splits of Karpathy's file beside the captions; whether there is one."""
    folders = (file.parent, file.parent.parent)
    beside = [folder / (name + end) for folder in folders for end in ("", ".gz")]
    found = next((path for path in beside if _exists(path)), None)
    if found is None:
        return False
    for index, picture in enumerate(_karpathys_pictures(found)):
        if picture.name in gathered.captions:
            gathered.place(picture.name, picture.split, f"{found}, images[{index}]")
    gathered.notes.append(f"Splits are those of {found.name}.")
    return True


class _CocoPicture(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)
    id: str
    file_name: str


class _CocoCaption(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)
    image_id: str
    caption: str


class _CocoFile(BaseModel):
    images: Many[_CocoPicture]
    annotations: Many[_CocoCaption]


def _read_coco(files: list[Path], seed: int) -> _Gathered:
    gathered = _Gathered()
    train = [file for file in files if file.name.startswith("captions_train")]
    rest = [file for file in files if file not in train]
    learned = _read_coco_file(gathered, _only(train)) if train else set()
    held = _read_coco_file(gathered, _only(rest)) if rest else set()
    if both := {_file_name(name) for name in learned} & {_file_name(name) for name in held}:
        problem = f"picture {short(min(both))} is also in {train[0].name}"
        raise UserError("data.leak", f"{rest[0]}: {problem}; keep it in one of them")
    if _take_karpathys_splits(gathered, files[0], "dataset_coco.json"):
        return gathered
    if not train or not rest:
        gathered.split_at_random(seed)
        return gathered
    gathered.splits = dict.fromkeys(learned, "train") | dict.fromkeys(held, "test")
    gathered.splits |= dict.fromkeys(_shuffled(held, seed)[: len(held) // 2], "dev")
    gathered.notes.append(f"Split {rest[0].name} at random (seed {seed}): half dev, half test.")
    return gathered


def _read_coco_file(gathered: _Gathered, file: Path) -> set[str]:
    """Add the captions of one file; the pictures it names."""
    images, captions = '{"id": 1, "file_name": "1.jpg"}', '{"image_id": 1, "caption": "a dog"}'
    expected = f'write {{"images": [{images}], "annotations": [{captions}]}}'
    content = parse(_CocoFile, read_whole(file), file, expected=expected)
    # The pictures' folder is named as the file is: captions_val2014.json, val2014/.
    folder = re.match(r"captions_((?:train|val)\d{4})", file.name)
    names: dict[str, str] = {}
    for index, picture in enumerate(content.images):
        where = f"{file}, images[{index}]"
        name = _picture_name(picture.file_name, where)
        names[picture.id] = f"{folder[1]}/{name}" if folder else name
        gathered.add(names[picture.id], (), where)
    for index, annotation in enumerate(content.annotations):
        where = f"{file}, annotations[{index}]"
        if annotation.image_id not in names:
            problem = f"picture {short(annotation.image_id)} is not among the images"
            raise bad_row(where, f"{problem}; add it or remove the caption")
        gathered.add(names[annotation.image_id], [annotation.caption], where)
    return set(names.values())


_EXPECTED = 'write lines such as {"picture": "1.jpg", "caption": "a dog"}'


class _MaybeSplit(BaseModel):
    split: str | None = None


class _Row(BaseModel):
    """A row of a captions file: one caption, or in JSON also a list of them."""

    model_config = ConfigDict(coerce_numbers_to_str=True)
    picture: str = Field(validation_alias=AliasChoices(*_PICTURE_COLUMNS))
    captions: str | Many[str] = Field(validation_alias=AliasChoices(*_CAPTION_COLUMNS))
    split: str | None = None


def _read_folder(files: list[Path], seed: int) -> _Gathered:
    file = _only(files)
    gathered = _Gathered()
    if file.is_dir():
        for picture, text in _texts_beside_pictures(file).items():
            captions = [line for _, line in lines(text) if line.strip()] if text else []
            gathered.add(picture.name, captions, str(text or picture))
        gathered.split_at_random(seed)
        return gathered
    rows = _json_rows(file) if ".jsonl" in file.suffixes else _table_rows(file)
    for number, row in rows:
        where = f"{file}, line {number}"
        captions = [row.captions] if isinstance(row.captions, str) else row.captions
        gathered.add(row.picture, captions, where)
        if row.split and row.split.strip():
            gathered.place(row.picture, row.split, where)
    if not gathered.splits:
        gathered.split_at_random(seed)
    return gathered


def _texts_beside_pictures(folder: Path) -> dict[Path, Path | None]:
    """The pictures of a folder, each with the text file of the same name if there is one."""
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise UserError(
            "data.unreadable", f"{folder}: cannot be read ({error.strerror})"
        ) from error
    texts = {path.stem: path for path in paths if path.suffix == ".txt"}
    pictures = [path for path in paths if path.suffix.lower() in _PICTURE_SUFFIXES]
    return {picture: texts.get(picture.stem) for picture in pictures}


def _json_rows(file: Path) -> Iterator[tuple[int, _Row]]:
    for number, line in lines(file):
        if line.strip():
            yield number, parse(_Row, line.encode(), file, number, expected=_EXPECTED)


def _table_rows(file: Path) -> Iterator[tuple[int, _Row]]:
    first, columns, rows = table(file)
    for names in (_PICTURE_COLUMNS, _CAPTION_COLUMNS):
        if sum(column in names for column in columns) != 1:
            problem = f"expected one column named {names[0]}, found {short(', '.join(columns))}"
            remedy = "let the first line name the columns: picture, caption and optionally split"
            raise bad_row(f"{file}, line {first}", f"{problem}; {remedy}")
    for number, row in rows:
        yield number, _Row.model_validate(row)


# Recognising a layout.


@dataclass(frozen=True)
class _Layout:
    read: Callable[[list[Path], int], _Gathered]
    captions: tuple[str, ...]  # patterns of the captions' files within the folder
    given: tuple[str, ...] = ()  # further patterns for a path to a file


_LAYOUTS = {
    "flickr8k": _Layout(_read_flickr8k, ("Flickr8k_text/Flickr8k.token.txt", "Flickr8k.token.txt")),
    "flickr30k": _Layout(_read_flickr30k, ("results_20130124.token",)),
    "coco": _Layout(
        _read_coco,
        tuple(
            f"{folder}captions_*.json{end}"
            for folder in ("annotations/", "")
            for end in ("", ".gz")
        ),
    ),
    "karpathy": _Layout(_read_karpathy, ("dataset_*.json", "dataset_*.json.gz")),
    "folder": _Layout(
        _read_folder,
        ("captions.csv", "captions.tsv", "captions.jsonl", "captions.jsonl.gz"),
        given=("*.csv", "*.tsv", "*.jsonl", "*.jsonl.gz"),
    ),
}
LAYOUTS = tuple(_LAYOUTS)


def _recognise(path: Path, layout: str | None) -> tuple[str, list[Path]]:
    """The layout and its captions files; for texts beside pictures the folder itself."""
    if layout is not None and layout not in _LAYOUTS:
        near = difflib.get_close_matches(layout, LAYOUTS, n=1)
        hint = f"did you mean {near[0]}? Known" if near else "known"
        problem = f"unknown layout {short(layout)}; {hint} are {', '.join(LAYOUTS)}"
        raise UserError("request.layout", problem)
    if layout is not None and path.is_file():
        return layout, [path]
    for name in LAYOUTS if layout is None else (layout,):
        if files := _captions_files(path, name):
            return name, files
    wanted = {name: " or ".join(_LAYOUTS[name].captions) for name in LAYOUTS}
    wanted["folder"] += " or a .txt beside a picture"
    if layout is not None:
        problem = f"the captions of {layout} are not there; looked for {wanted[layout]}"
        raise UserError("data.missing", f"{path}: {problem}")
    looked_for = "; ".join(f"{files} ({name})" for name, files in reversed(wanted.items()))
    problem = (
        "no data set was recognised; name its layout with --layout, or have one of these there"
    )
    raise UserError("data.layout", f"{path}: {problem}: {looked_for}")


def _captions_files(path: Path, layout: str) -> list[Path]:
    known = _LAYOUTS[layout]
    if path.is_file():
        names = [PurePosixPath(pattern).name for pattern in known.captions]
        return [path] if any(fnmatch(path.name, name) for name in (*names, *known.given)) else []
    files = sorted({file for pattern in known.captions for file in path.glob(pattern)})
    if not files and layout == "folder" and path.is_dir():
        return [path] if any(_texts_beside_pictures(path).values()) else []
    return files


def _only(files: list[Path]) -> Path:
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        problem = f"several data sets ({names}); give the path of one of these files"
        raise UserError("data.layout", f"{files[0].parent}: {problem}")
    return files[0]


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name too long for the file system, or a folder without access
        return False
