"""From a data set to a feature store: every picture through the encoder once.

The encoder runs on ONNX Runtime, which takes half to two thirds of PyTorch's time on a CPU
(benchmarks/prepare.py). Every processor reads and encodes pictures of its own: a quarter faster
than sharing the work on one picture.
"""

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from show_attend_tell.data.features import (
    FeatureStore,
    StoreIndex,
    checksum,
    examples_hash,
    row_bytes,
)
from show_attend_tell.data.layouts import Dataset
from show_attend_tell.data.pictures import Preprocessing, augment, open_picture
from show_attend_tell.errors import UserError
from show_attend_tell.files import readable_size, write_json
from show_attend_tell.learning.encoders import Encoder
from show_attend_tell.learning.encoders.graph import encoder_function
from show_attend_tell.parallel import parallel_map

BATCH = 8  # larger batches gain nothing on a CPU and cost memory
LARGEST_FLOAT16 = 65504.0

Pixels = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Encode = Callable[[Pixels], Floats]
_Encoded = tuple[list[int], Floats, dict[str, str]]  # rows, their features, what failed and why


class Preparation:
    """The work left to do for a store; the same call resumes it after a crash."""

    def __init__(
        self,
        dataset: Dataset,
        folder: Path,
        encoder: Encoder,
        *,
        augmentations: int = 1,
        fine_tuned: int = 0,
    ) -> None:
        self.encoder = encoder.split(fine_tuned)[0] if fine_tuned else encoder
        rows, columns = self.encoder.grid
        index = StoreIndex(
            encoder=encoder.name,
            weights_hash=encoder.weights_hash,
            preprocessing=encoder.preprocessing,
            grid=encoder.grid,
            depth=encoder.depth,
            layout=dataset.layout,
            examples_hash=examples_hash(dataset.examples),
            augmentations=augmentations,
            fine_tuned=fine_tuned,
            below=(rows * columns, self.encoder.depth) if fine_tuned else None,
        )
        total = len(FeatureStore(folder, index, dataset.examples).sources)
        self.bytes_needed = total * row_bytes(index)
        if not (folder / "index.json").exists():
            check_free_space(folder, self.bytes_needed)
        self.store = FeatureStore.create(folder, index, dataset.examples)
        self.waiting = self.store.missing()
        self._encode = encoder_function(self.encoder)

    def seconds_left(self) -> float:
        """The estimated time left, from one batch of noise through the encoder."""
        side = self.encoder.preprocessing.size
        noise = np.random.default_rng(0).integers(0, 256, (BATCH, side, side, 3), dtype=np.uint8)
        self._encode(noise[:1])
        begin = time.perf_counter()
        self._encode(noise)
        return (time.perf_counter() - begin) / BATCH * len(self.waiting) / torch.get_num_threads()

    def run(self, on_progress: Callable[[int], None] = lambda done: None) -> dict[str, str]:
        """Encode the remaining pictures; `on_progress` gets the number of pictures of each batch.

        Returns
        -------
        dict
            Pictures that could not be read, by id, and why; also written to the store.
        """
        skipped: dict[str, str] = {}
        duplicates = _DuplicateCheck(self.store)
        batches = [self.waiting[i : i + BATCH] for i in range(0, len(self.waiting), BATCH)]
        for rows, features, failed in parallel_map(
            self._read_and_encode, batches, torch.get_num_threads()
        ):
            skipped |= failed
            if rows:
                kept = self._checked(rows, features)
                duplicates.add(rows, kept)
                self.store.write(rows, kept)
            on_progress(len(rows))
        write_json(self.store.folder / "skipped.json", skipped)
        return skipped

    def _read_and_encode(self, rows: Sequence[int]) -> _Encoded:
        good: list[int] = []
        pixels: list[Pixels] = []
        failed: dict[str, str] = {}
        for row in rows:
            try:
                pixels.append(read_pixels(self.store, row))
                good.append(row)
            except UserError as error:
                failed[self.store.example(row).id] = str(error)
        features = self._encode(np.stack(pixels)) if good else np.empty(0, np.float32)
        return good, features, failed

    def _checked(self, rows: Sequence[int], features: Floats) -> npt.NDArray[np.float16]:
        largest = np.abs(features).max(axis=(1, 2))
        for row, value in zip(rows, largest, strict=True):
            if not value <= LARGEST_FLOAT16:  # also true of not-a-number
                raise UserError(
                    "model.out_of_range",
                    f"{self.store.example(row).id}: expected features up to {LARGEST_FLOAT16:g}, "
                    f"found {value:g}; "
                    "check its weights and their preprocessing",
                )
        return features.astype(np.float16)


class _DuplicateCheck:
    """Raises an error if the encoder gives two different pictures the same features."""

    def __init__(self, store: FeatureStore) -> None:
        self.store = store
        self.row_of = {int(value): row for row, value in enumerate(store.checksums()) if value}

    def add(self, rows: Sequence[int], features: npt.NDArray[np.float16]) -> None:
        batch = dict(zip(rows, features, strict=True))
        for row, one in batch.items():
            other = self.row_of.setdefault(checksum(one), row)
            if other == row:
                continue
            # Among a hundred thousand pictures checksums collide: compare the features too.
            known = batch[other] if other in batch else self.store.read([other])[0]
            if np.array_equal(one, known) and not self._same_picture(row, other):
                first, second = self.store.example(other).id, self.store.example(row).id
                raise UserError(
                    "model.collapsed",
                    f"{first} and {second} are different pictures with the same features; "
                    "check the encoder's weights and their preprocessing",
                )

    def _same_picture(self, row: int, other: int) -> bool:
        first, second = (read_pixels(self.store, one) for one in (row, other))
        return bool(np.array_equal(first, second))


def read_pixels(store: FeatureStore, row: int) -> Pixels:
    """The encoder's input for a row of the store."""
    preprocessing: Preprocessing = store.index.preprocessing
    example, number = store.example(row), store.sources[row][1]
    picture = open_picture(example.picture, least_side=preprocessing.resize)
    return augment(picture, preprocessing, number, example.id)


def check_free_space(folder: Path, bytes_needed: int) -> None:
    """Raise an error if the disk has no room for the features."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    if free < bytes_needed:
        raise UserError(
            "disk.full",
            f"{folder}: the features take {readable_size(bytes_needed)}, only "
            f"{readable_size(free)} are free; free some space or choose another folder",
        )
