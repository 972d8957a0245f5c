"""Shipped recipes run: a smoke run of each on a cut of the data set that it is for."""

from pathlib import Path

import numpy as np
import pytest

from show_attend_tell.data.features import FeatureStore, StoreIndex, examples_hash
from show_attend_tell.data.layouts import load_dataset
from show_attend_tell.data.pictures import Preprocessing
from show_attend_tell.learning.loop.trainer import train
from show_attend_tell.learning.recipe import Recipe, load_recipe
from show_attend_tell.learning.run import Run
from show_attend_tell.learning.watching.events import Start, Step
from show_attend_tell.learning.watching.history import read
from tests.shared import SHARED, needs_shared

SMALL = (
    "encoder.augmentations=1",
    "model.hidden=32",
    "model.word=16",
    "model.attention_width=16",
    "training.epochs=1",
    "training.batch=20",  # so that there are several lines of the log
    "search.beam=2",
    "search.max_words=12",
)


def store_of_noise(captions: Path, folder: Path, recipe: Recipe) -> FeatureStore:
    """The captions are real; the pictures are not here, so their features are noise."""
    dataset = load_dataset(captions)
    index = StoreIndex(
        encoder=recipe.encoder.name,
        weights_hash="noise",
        preprocessing=Preprocessing(mean=(0, 0, 0), std=(1, 1, 1), fit=recipe.encoder.fit),
        grid=(2, 2),
        depth=16,
        layout=dataset.layout,
        examples_hash=examples_hash(dataset.examples),
    )
    store = FeatureStore.create(folder, index, dataset.examples)
    noise = np.random.default_rng(0).random((len(dataset.examples), 4, 16))
    store.write(range(len(noise)), noise.astype(np.float16))
    return store


@needs_shared
@pytest.mark.parametrize(
    ("name", "captions", "train_captions"),
    [
        pytest.param(
            *("flickr8k-hard", "karpathy/dataset_flickr30k_300_rebuilt.json.gz", 1000),
            marks=pytest.mark.slow,
        ),
        ("flickr30k-soft", "karpathy/dataset_flickr30k_300_rebuilt.json.gz", 1000),
        ("rivals/flickr8k-mean", "karpathy/dataset_flickr30k_300_rebuilt.json.gz", 1000),
        ("rivals/flickr8k-nic", "karpathy/dataset_flickr30k_300_rebuilt.json.gz", 1000),
        ("rivals/flickr8k-log-bilinear", "karpathy/dataset_flickr30k_300_rebuilt.json.gz", 1000),
        ("coco-soft", "karpathy/dataset_coco_300_rebuilt.json.gz", 1030),
        ("coco-soft", "coco/captions_val2014_300.json.gz", 1200),
    ],
)
def test_a_recipe_trains_on_its_data_set(
    name: str, captions: str, train_captions: int, tmp_path: Path
) -> None:
    recipe = load_recipe(name, [*SMALL, "encoder.grid=none", "encoder.size=none"])
    store = store_of_noise(SHARED / "data" / captions, tmp_path / "store", recipe)
    train(store, tmp_path / "run", recipe)
    events = read(tmp_path / "run" / "log.jsonl")
    assert isinstance(events[0], Start)
    assert events[0].captions == train_captions
    losses = [event.nats_per_word for event in events if isinstance(event, Step)]
    assert losses[-1] < losses[0]
    assert Run.open(tmp_path / "run").meta["epoch"] == 1
