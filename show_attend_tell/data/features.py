"""The feature store: annotation vectors of every picture of a data set, memory-mapped.

A folder of four files. `index.json` describes the features (encoder, hash of its weights,
preprocessing, sizes); `examples.jsonl` holds the data set itself, one picture a line, in the order
of the rows; `features.f16` holds rows of L × D float16, one per picture and then, for each
augmentation, one per training picture; `checksums.u32` holds one CRC-32 per row, written after its
row, so that zero means "not done yet" and a damaged row is always found.
"""

import hashlib
import json
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, ValidationError

from show_attend_tell.data.layouts import Example
from show_attend_tell.data.pictures import Preprocessing
from show_attend_tell.errors import UserError
from show_attend_tell.files import cannot_write, read_object, regular_file, write_bytes, write_text

FORMAT: Literal[1] = 1
FORMER_KEYS = {"views", "tuned"}  # of an index, before the first release


class StoreIndex(BaseModel):
    """The description of a store's features; equal indices mean equal features."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = FORMAT
    encoder: str
    weights_hash: str
    preprocessing: Preprocessing
    grid: tuple[PositiveInt, PositiveInt]
    depth: PositiveInt
    layout: str
    examples_hash: str
    augmentations: PositiveInt = 1  # of a training picture, the unchanged one among them
    fine_tuned: NonNegativeInt = 0  # last stages of the encoder, which a run fine-tunes
    # Places and depth of the map below those stages, which the rows then hold.
    below: tuple[PositiveInt, PositiveInt] | None = None

    @property
    def places(self) -> int:
        """L, the number of annotation vectors of a picture."""
        return self.grid[0] * self.grid[1]

    @property
    def row_shape(self) -> tuple[int, int]:
        """Places and depth of a row."""
        return self.below or (self.places, self.depth)


class FeatureStore:
    """A prepared data set: its examples and the annotation vectors of their pictures."""

    def __init__(self, folder: Path, index: StoreIndex, examples: Sequence[Example]) -> None:
        self.folder = folder
        self.index = index
        self.examples = tuple(examples)
        train = [row for row, example in enumerate(examples) if example.split == "train"]
        # Of each row of the features: the example, and the number of its augmentation.
        self.sources = [(row, 0) for row in range(len(examples))]
        self.sources += [(row, number) for number in range(1, index.augmentations) for row in train]
        self._row_of = {pair: row for row, pair in enumerate(self.sources)}

    @classmethod
    def create(cls, folder: Path, index: StoreIndex, examples: Sequence[Example]) -> "FeatureStore":
        """An empty store with its disk space reserved, or the store there with the same index."""
        if (folder / "index.json").exists():
            store = cls.open(folder)
            store._check_same(index)
            return store
        store = cls(folder, index, examples)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _reserve(folder / "features.f16", len(store.sources) * row_bytes(index))
            _reserve(folder / "checksums.u32", len(store.sources) * 4)
        except OSError as error:
            raise cannot_write(folder, error) from error
        write_bytes(folder / "examples.jsonl", examples_text(examples))
        write_text(folder / "index.json", index.model_dump_json(indent=1) + "\n")
        return store

    @classmethod
    def open(cls, folder: Path) -> "FeatureStore":
        """The store of a folder, complete or not."""
        try:
            path = regular_file(folder / "index.json")
            index = StoreIndex.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise UserError(
                "data.store",
                f"{folder}: not a feature store; `sat prepare DATA {folder}` makes one",
            ) from None
        except OSError as error:
            raise UserError(
                "data.store",
                f"{folder / 'index.json'}: cannot be read ({error.strerror or error}); "
                "remove the folder and run `sat prepare` again",
            ) from error
        except ValidationError as error:
            keys = {problem["loc"][0] for problem in error.errors() if problem["loc"]}
            if former := sorted(keys & FORMER_KEYS):
                raise UserError(
                    "data.store",
                    f"{folder}: was made by an earlier version of show_attend_tell (its index.json "
                    f"names {former[0]!r}); remove the folder and run `sat prepare` again",
                ) from None
            problem = error.errors()[0]
            where = ".".join(str(part) for part in problem["loc"]) or "the file"
            again = "remove the folder and run `sat prepare` again"
            remedy = "a newer show_attend_tell may read it" if where == "format" else again
            raise UserError(
                "data.store",
                f"{folder / 'index.json'}: not a store's index ({where}: {problem['msg']}); "
                f"{remedy}",
            ) from None
        examples = read_examples(folder / "examples.jsonl")
        if _hash(examples_text(examples)) != index.examples_hash:
            raise UserError(
                "data.store",
                f"{folder / 'examples.jsonl'}: was changed since the store was made; "
                "remove the folder and run `sat prepare` again",
            )
        # Counted, not listed: an index may claim more rows than memory can list.
        train = sum(example.split == "train" for example in examples)
        rows = len(examples) + (index.augmentations - 1) * train
        for name, size in (("features.f16", row_bytes(index)), ("checksums.u32", 4)):
            path = folder / name
            found = path.stat().st_size if path.is_file() else 0
            if found != size * rows:
                raise UserError(
                    "data.store",
                    f"{path}: expected {size * rows:,} bytes, found {found:,}; "
                    "remove the folder and run `sat prepare` again",
                )
        return cls(folder, index, examples)

    @cached_property
    def _features(self) -> npt.NDArray[np.float16]:
        shape = (len(self.sources), *self.index.row_shape)
        return np.memmap(self.folder / "features.f16", np.float16, "r", shape=shape)

    @cached_property
    def _checksums(self) -> npt.NDArray[np.uint32]:
        return np.memmap(self.folder / "checksums.u32", np.uint32, "r")  # shows what `write` writes

    def checksums(self) -> npt.NDArray[np.uint32]:
        """One number per row; zero where the row is not done."""
        return np.fromfile(self.folder / "checksums.u32", np.uint32)

    def missing(self) -> list[int]:
        """Rows that are not done."""
        return [int(row) for row in np.flatnonzero(self.checksums() == 0)]

    def rows(self, split: str) -> list[int]:
        """Rows of a split that have features, without augmentations; an error if there are none."""
        done = self.checksums() != 0
        wanted = [row for row, example in enumerate(self.examples) if example.split == split]
        present = [row for row in wanted if done[row]]
        if not wanted:
            counts = Counter(example.split for example in self.examples)
            there = ", ".join(f"{name} ({count:,})" for name, count in counts.items())
            raise UserError(
                "data.empty_split",
                f"{self.folder}: no pictures in split {split!r}, only in {there}; put some into it "
                "in the data set, and prepare that into another folder",
            )
        if not present:
            raise UserError(
                "data.store",
                f"{self.folder}: no picture of split {split!r} has features yet; "
                "run the same `sat prepare` again",
            )
        return present

    def row_of(self, row: int, number: int) -> int:
        """The row of an augmentation of an example; number 0 is the picture itself."""
        return self._row_of[row, number]

    def check_complete(self) -> None:
        """Raise an error if `sat prepare` has not finished; skipped pictures do not count."""
        missing = self.missing()
        skipped = set(self.skipped())
        waiting = [row for row in missing if self.example(row).id not in skipped]
        if waiting:
            raise UserError(
                "data.store",
                f"{self.folder}: {len(waiting):,} of {len(self.sources):,} pictures have no "
                "features yet; run the same `sat prepare` again, which resumes where it stopped",
            )

    def example(self, row: int) -> Example:
        """The example of a row, augmented or not."""
        return self.examples[self.sources[row][0]]

    def skipped(self) -> dict[str, str]:
        """Pictures that `sat prepare` could not read, and why."""
        path = self.folder / "skipped.json"
        remedy = "remove it and run the same `sat prepare` again"
        found = read_object(path, remedy) if path.exists() else {}
        if not all(isinstance(reason, str) for reason in found.values()):
            raise UserError(
                "data.unreadable",
                f"{path}: expected a reason for each picture, found others; {remedy}",
            )
        return found

    def read(self, rows: Sequence[int]) -> npt.NDArray[np.float32]:
        """Features of rows, float32 (rows, L, D), each checked against its checksum.

        In a store for fine-tuning they are the map below the fine-tuned stages.
        """
        found: npt.NDArray[np.float16] = self._features[np.asarray(rows)]
        for row, features in zip(rows, found, strict=True):
            if checksum(features) != self._checksums[row]:
                raise UserError(
                    "data.store",
                    f"{self.folder / 'features.f16'}: the features of {self.example(row).id} are "
                    "damaged; remove the folder and run `sat prepare` again",
                )
        return found.astype(np.float32)

    def write(self, rows: Sequence[int], features: npt.NDArray[np.float16]) -> None:
        """Write features (rows, L, D) to disk, and only then their checksums."""
        size = row_bytes(self.index)
        try:
            with (self.folder / "features.f16").open("r+b") as out:
                for row, one in zip(rows, features, strict=True):
                    out.seek(row * size)
                    out.write(one.tobytes())
                out.flush()
                os.fsync(out.fileno())
            with (self.folder / "checksums.u32").open("r+b") as out:
                for row, one in zip(rows, features, strict=True):
                    out.seek(row * 4)
                    out.write(np.uint32(checksum(one)).tobytes())
                out.flush()
                os.fsync(out.fileno())
        except OSError as error:
            raise cannot_write(self.folder, error) from error

    def _check_same(self, index: StoreIndex) -> None:
        for name, wanted in index.model_dump().items():
            found = getattr(self.index, name)
            if isinstance(found, BaseModel):
                found = found.model_dump()
            if found != wanted:
                raise UserError(
                    "data.store",
                    f"{self.folder}: holds other features; expected {name} {wanted}, "
                    f"found {found}; choose another folder",
                )


def row_bytes(index: StoreIndex) -> int:
    """Bytes of one row."""
    places, depth = index.row_shape
    return places * depth * 2


def checksum(features: npt.NDArray[np.float16]) -> int:
    """CRC-32 of a row, never zero, since zero means that the row is not done."""
    return zlib.crc32(np.ascontiguousarray(features).data) or 1


def examples_text(examples: Iterable[Example]) -> bytes:
    """The lines of `examples.jsonl`."""
    return b"".join(
        json.dumps(
            {
                "id": example.id,
                "picture": str(example.picture),
                "split": example.split,
                "captions": example.captions,
            },
            ensure_ascii=False,
        ).encode("utf-8", "surrogatepass")
        + b"\n"
        for example in examples
    )


def examples_hash(examples: Iterable[Example]) -> str:
    """The value of `StoreIndex.examples_hash`."""
    return _hash(examples_text(examples))


def read_examples(path: Path) -> list[Example]:
    """The examples in `examples.jsonl`."""
    try:
        lines = regular_file(path).read_bytes().split(b"\n")[:-1]
        rows = [json.loads(line) for line in lines]
        return [
            Example(Path(row["picture"]), tuple(row["captions"]), row["split"], row["id"])
            for row in rows
        ]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(
            "data.store",
            f"{path}: cannot be read ({error}); remove the folder and run `sat prepare` again",
        ) from error


def _hash(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _reserve(path: Path, size: int) -> None:
    try:
        with path.open("wb") as out:
            if size and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(out.fileno(), 0, size)  # a full disk fails here, not hours later
            out.truncate(size)
    except OSError:
        path.unlink(missing_ok=True)  # free what was allocated on a full disk
        raise
