"""Distillation (Hinton et al. 2015): the predictions of trained runs as soft targets.

A person's caption has one word in each place; the teachers' probabilities say which others would
have done as well. Teachers get the same previous words, and the same augmentation of the picture,
as the run that is trained.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from show_attend_tell.data.batches import PADDING
from show_attend_tell.data.features import FeatureStore
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.learning.run import Run, check_words


class Teachers:
    """The best weights of several runs with one vocabulary and the same features."""

    def __init__(self, folders: Sequence[str], store: FeatureStore, vocabulary: Vocabulary) -> None:
        runs = [Run.open(Path(folder)) for folder in folders]
        for run in runs:
            run.check_features(store)
            check_words(run, vocabulary)
        self.decoders = [run.decoder for run in runs]

    @torch.no_grad()
    def soft_targets(self, features: Tensor, captions: Tensor) -> Tensor:
        """The teachers' mean probabilities for each word of captions (batch, steps): (words, K)."""
        mask = captions != PADDING
        each = (
            torch.nn.functional.linear(
                decoder(decoder.encode(features), captions).readout[mask],
                *decoder.softmax_layer(),
            ).softmax(1)
            for decoder in self.decoders
        )
        return torch.stack(list(each)).mean(0)
