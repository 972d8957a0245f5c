"""Distillation (Hinton et al. 2015): a run learns what trained ones would tell, beside the words.

A person's caption has one word in each place; teachers say which others would have done as well,
and several of them together are surer than each alone. They read the same words before, and see the
same view of the picture, as their pupil.
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
    """The best weights of several runs, which must know the same words and features."""

    def __init__(self, folders: Sequence[str], store: FeatureStore, vocabulary: Vocabulary) -> None:
        runs = [Run.open(Path(folder)) for folder in folders]
        for run in runs:
            run.check_features(store)
            check_words(run, vocabulary)
        self.decoders = [run.decoder for run in runs]

    @torch.no_grad()
    def advise(self, features: Tensor, captions: Tensor) -> Tensor:
        """The mean of their probabilities for each word of captions (batch, steps): (words, K)."""
        told = captions != PADDING
        each = (
            torch.nn.functional.linear(
                decoder.teach(decoder.see(features), captions).readout[told],
                *decoder.softmax_layer(),
            ).softmax(1)
            for decoder in self.decoders
        )
        return torch.stack(list(each)).mean(0)
