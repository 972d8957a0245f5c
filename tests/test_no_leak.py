"""Nothing of the dev and test pictures is learned from: with others in their place the weights are
the same to the bit."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from show_attend_tell.data.features import FeatureStore, examples_hash
from show_attend_tell.learning.loop import checkpoint
from show_attend_tell.learning.loop.trainer import train
from show_attend_tell.learning.recipe import Recipe
from show_attend_tell.learning.run import LAST, VOCABULARY
from tests.small_photos import small_recipe, small_store
from tests.tiny_world import make_store, tiny_recipe

HARD = ("model.attention=hard", "hard.samples=2", 'hard.baseline="others"')
REWARD = ("reward.weight=0.5",)


def with_others(store: FeatureStore, folder: Path) -> FeatureStore:
    """The same training pictures; of dev and test other features and other captions."""
    features = store.read(range(len(store.examples))).astype(np.float16)
    examples = list(store.examples)
    for row, example in enumerate(examples):
        if example.split != "train":
            features[row] = np.random.default_rng(row).random(features[row].shape)
            examples[row] = replace(example, captions=("secret words never told before",))
    index = store.index.model_copy(update={"examples_hash": examples_hash(examples)})
    other = FeatureStore.create(folder, index, examples)
    other.write(range(len(examples)), features)
    return other


def assert_same_weights(
    store: FeatureStore, other: FeatureStore, recipe: Recipe, folder: Path
) -> None:
    found = []
    for name, one in (("run", store), ("other-run", other)):
        train(one, folder / name, recipe)
        tensors, _, _ = checkpoint.load_newest(folder / name / LAST)
        found.append((tensors, (folder / name / VOCABULARY).read_text()))
    (tensors, words), (others, other_words) = found
    assert words == other_words
    assert "secret" not in words
    assert tensors.keys() == others.keys()
    assert all(torch.equal(tensors[name], others[name]) for name in tensors)


@pytest.mark.parametrize(
    "options", [(), HARD, REWARD, ("model.attention=nic",)], ids=["soft", "hard", "reward", "nic"]
)
def test_other_dev_pictures_leave_every_weight_and_word_as_it_is(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    store, _ = make_store(tmp_path / "store", train=40, dev=6)
    other = with_others(store, tmp_path / "other")
    assert_same_weights(store, other, tiny_recipe("training.epochs=2", *options), tmp_path)


@pytest.mark.slow
def test_other_dev_pictures_leave_a_tuned_encoder_as_it_is(tmp_path: Path) -> None:
    """The way of the model that ships: stages fine-tuned with the decoder, captions rewarded."""
    store = small_store(tmp_path, fine_tuned=2)
    other = with_others(store, tmp_path / "other")
    options = ("encoder.fine_tuned=2", "training.batch_of=pictures", "training.batch=2", *REWARD)
    assert_same_weights(store, other, small_recipe(*options), tmp_path)
    tensors, _, _ = checkpoint.load_newest(tmp_path / "run" / LAST)
    assert any("upper." in name for name in tensors)


def test_other_training_captions_do_change_them(tmp_path: Path) -> None:
    """So the test above can fail."""
    store, _ = make_store(tmp_path / "store", train=40, dev=6)
    examples = [replace(store.examples[0], captions=("a red circle",)), *store.examples[1:]]
    index = store.index.model_copy(update={"examples_hash": examples_hash(examples)})
    other = FeatureStore.create(tmp_path / "other", index, examples)
    other.write(range(len(examples)), store.read(range(len(examples))).astype(np.float16))
    for name, one in (("run", store), ("other-run", other)):
        train(one, tmp_path / name, tiny_recipe("training.epochs=1"))
    one, two = (checkpoint.load_newest(tmp_path / n / LAST)[0] for n in ("run", "other-run"))
    assert not all(torch.equal(one[name], two[name]) for name in one)
