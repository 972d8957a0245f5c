"""The tiny world: two coloured shapes on a grid, told in a sentence; learned in seconds."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from show_attend_tell.data.features import FeatureStore, StoreIndex, examples_hash
from show_attend_tell.data.layouts import Example
from show_attend_tell.data.pictures import Preprocessing
from show_attend_tell.learning.recipe import Recipe, load_recipe

COLOURS = ("red", "green", "blue", "yellow")
SHAPES = ("circle", "square", "triangle")
GRID = (4, 4)
DEPTH = len(COLOURS) + len(SHAPES) + 1  # a cell says its colour, its shape, or that it is empty


@dataclass(frozen=True)
class Scene:
    """Two things in different cells; they are told in the order of COLOURS."""

    cells: tuple[int, int]
    colours: tuple[int, int]
    shapes: tuple[int, int]

    @property
    def caption(self) -> str:
        things = [
            f"a {COLOURS[c]} {SHAPES[s]}" for c, s in zip(self.colours, self.shapes, strict=True)
        ]
        return " and ".join(things)

    @property
    def features(self) -> np.ndarray:
        cells = np.zeros((GRID[0] * GRID[1], DEPTH), np.float16)
        cells[:, -1] = 1
        for cell, colour, shape in zip(self.cells, self.colours, self.shapes, strict=True):
            cells[cell] = 0
            cells[cell, [colour, len(COLOURS) + shape]] = 2
        return cells


def scenes(count: int, seed: int = 0) -> list[Scene]:
    """Scenes that all differ, their two colours too."""
    random = np.random.default_rng(seed)
    found: dict[Scene, None] = {}
    while len(found) < count:
        cells = random.choice(GRID[0] * GRID[1], 2, replace=False).tolist()
        colours = sorted(random.choice(len(COLOURS), 2, replace=False).tolist())
        shapes = random.integers(len(SHAPES), size=2).tolist()
        found[Scene(tuple(cells), tuple(colours), tuple(shapes))] = None
    return list(found)


def make_store(
    folder: Path, train: int = 200, dev: int = 20, seed: int = 0
) -> tuple[FeatureStore, list[Scene]]:
    """A finished feature store of the tiny world, and its scenes in the order of the rows."""
    world = scenes(train + dev, seed)
    examples = [
        Example(Path(f"{i}.png"), (scene.caption,), "train" if i < train else "dev", str(i))
        for i, scene in enumerate(world)
    ]
    index = StoreIndex(
        encoder="tiny",
        weights_hash="none",
        preprocessing=Preprocessing(mean=(0, 0, 0), std=(1, 1, 1)),
        grid=GRID,
        depth=DEPTH,
        layout="tiny",
        examples_hash=examples_hash(examples),
    )
    store = FeatureStore.create(folder, index, examples)
    store.write(range(len(world)), np.stack([scene.features for scene in world]))
    return store, world


def tiny_recipe(*overrides: str) -> Recipe:
    """A small soft model that learns the tiny world."""
    return load_recipe(
        "flickr8k-soft",
        [
            "encoder.name=tiny",
            "encoder.grid=4",
            "encoder.size=none",
            "encoder.fit=crop",
            "encoder.augmentations=1",
            "vocabulary.minimum_count=1",
            "model.annotation_norm=none",
            "model.annotation_width=none",
            "model.hidden=48",
            "model.word=24",
            "model.attention_width=24",
            "model.dropout=0.0",
            "training.batch=16",
            "training.learning_rate=0.01",
            "training.decay=1.0",
            "training.label_smoothing=0.0",
            "training.double_stochastic=0.0",
            "training.average=0.9",
            "training.minimum_steps=0",
            "training.epochs=12",
            "training.patience=12",
            *overrides,
        ],
    )
