"""The captions of a split in mini-batches, and the features that they are learned from."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from show_attend_tell.data.batches import Batch, Captions, epoch_batches, picture_batches
from show_attend_tell.data.features import FeatureStore
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.learning.recipe import Recipe


class Feed:
    """A split as the decoder learns it, batched as the recipe says."""

    def __init__(
        self, store: FeatureStore, split: str, vocabulary: Vocabulary, recipe: Recipe
    ) -> None:
        self.store, self.recipe = store, recipe
        self.captions = Captions.of(store, split, vocabulary)

    def epoch(self, epoch: int) -> list[Batch]:
        """The batches of an epoch: all captions, as often as it takes for the minimum of steps."""
        training = self.recipe.training
        order = self.batches(training.batch, (training.seed, epoch))
        for again in range(1, -(-training.minimum_steps // len(order))):
            order += self.batches(training.batch, (training.seed, epoch, again))
        return order

    def batches(self, size: int, seed: Sequence[int]) -> list[Batch]:
        """All captions once, in an order drawn from the seed."""
        training, captions = self.recipe.training, self.captions
        if training.batch_of == "pictures":
            return picture_batches(captions.rows, captions.lengths(), size, seed)
        return epoch_batches(captions.lengths(), size, seed, order=training.length_order)

    def rows(self, batch: Batch) -> list[int]:
        """The store's rows of a batch: one for each caption, or for each picture."""
        rows = [self.captions.rows[i] for i in batch]
        return list(dict.fromkeys(rows)) if self.recipe.training.batch_of == "pictures" else rows

    def words(self, batch: Batch) -> Tensor:
        """The captions of a batch: (captions, steps), padded."""
        return torch.from_numpy(self.captions.padded(batch))

    def features(self, batch: Batch) -> Tensor:
        """The pictures as they are: (captions or pictures, L, D)."""
        return torch.from_numpy(self.store.read(self.rows(batch)))

    def augmented_features(self, batch: Batch, step: int) -> Tensor:
        """The pictures, each in an augmentation drawn for this step."""
        rows = self.rows(batch)
        rng = np.random.default_rng([self.recipe.training.seed, step])
        drawn = rng.integers(self.recipe.encoder.augmentations, size=len(rows)).tolist()
        augmented = [self.store.row_of(*pair) for pair in zip(rows, drawn, strict=True)]
        return torch.from_numpy(self.store.read(augmented))
