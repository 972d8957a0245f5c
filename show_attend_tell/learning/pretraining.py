"""Before any picture: the decoder reads sentences as a language model, by the loop of the trainer.

It is shown a blank picture, one place of zeros. What reads annotations is held as it was made: its
biases could learn nothing but what an absent picture looks like, and would add that to every real
one. As it was made it answers zeros with zeros, so the state before the first word and the context
ẑ are zero, and what learns is E, the shares of E y and h in the gates, L_h and L_o. A run then
begins with these weights by `sat train --start-from`, and learns everything.

An epoch is judged by −log p a word of the data set's dev captions, before the same blank picture.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from show_attend_tell.data.features import FeatureStore
from show_attend_tell.errors import UserError
from show_attend_tell.learning.batches import Batch, Captions, epoch_batches
from show_attend_tell.learning.checkpoint import RunLock
from show_attend_tell.learning.decoder import Teachable
from show_attend_tell.learning.history import Event
from show_attend_tell.learning.objectives import Cost, soft_cost
from show_attend_tell.learning.recipe import Recipe
from show_attend_tell.learning.run import begin_or_resume
from show_attend_tell.learning.sentences import read_sentences
from show_attend_tell.learning.trainer import Trainer


def pretrain(
    store: FeatureStore,
    folder: Path,
    recipe: Recipe | None,
    sentences: Sequence[Path],
    *,
    resume: bool = False,
    watch: Sequence[Callable[[Event], None]] = (),
) -> None:
    """Let a decoder read sentences into a run folder, or go on with one.

    Parameters
    ----------
    store
        The prepared data set that the model is for: the vocabulary is that of its training
        captions, and none of its dev and test captions is read.
    folder, recipe, resume, watch
        As for `train`; of the recipe's training, `stop_on` and what concerns attention do not
        matter.
    sentences
        Files of sentences; the same ones when resuming.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C or SIGTERM, once the state is saved.
    UserError
        What a person can mend; the state on disk is the last good one.
    """
    recipe = begin_or_resume(store, folder, recipe, resume)
    if store.index.tuned:
        raise UserError(
            "request.tuned",
            f"{store.folder}: its features are for tuning the encoder; give `sat pretrain` a store "
            "of whole ones, and let the tuned run start from what came of it",
        )
    with RunLock(folder):
        _Pretrainer(store, folder, recipe, sentences, watch).run()


class _Pretrainer(Trainer):
    def __init__(
        self,
        store: FeatureStore,
        folder: Path,
        recipe: Recipe,
        files: Sequence[Path],
        watch: Sequence[Callable[[Event], None]],
    ) -> None:
        self.files = files
        super().__init__(store, folder, recipe, (), watch)
        for part in self.decoder.seeing:
            getattr(self.decoder, part).requires_grad_(False).eval()

    def _to_learn(self) -> Captions:
        self.sentences = read_sentences(
            self.files,
            self.vocabulary,
            self.store.examples,
            max_words=self.recipe.search.max_words,
        )
        return Captions(words=self.sentences.words)

    def run(self) -> None:
        found = self.sentences
        self._tell(
            {
                "event": "sentences",
                "step": self.place.step,
                "read": found.read,
                "too_long": found.too_long,
                "unknown": found.unknown,
                "held_out": found.held_out,
            }
        )
        super().run()

    @property
    def _stalled(self) -> str:
        return "the dev loss has not fallen"

    def _batches(self, captions: Captions, size: int, seed: Sequence[int]) -> list[Batch]:
        """Of one length, always: sentences have no pictures to be put together by."""
        order = self.recipe.training.length_order
        return epoch_batches(captions.lengths(), size, seed, order=order)

    def _features(self, batch: Batch) -> Tensor:
        return torch.zeros(len(batch), 1, self.store.index.depth)

    _dev_features = _features

    def _cost(
        self, batch: Batch, features: Tensor, captions: Tensor, generator: torch.Generator
    ) -> Cost:
        """That of the words, also for hard attention: of one place there is nothing to choose."""
        return soft_cost(
            self.decoder,
            self.decoder.teach(features, captions, generator),
            captions,
            double_stochastic=0.0,
            label_smoothing=self.recipe.training.label_smoothing,
        )

    def _score(self, judged: Teachable) -> tuple[float, Event]:
        nats = self._dev_nats(judged)
        return math.exp(-nats), {"nats_per_word": nats}  # of a score more is better

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), "sentences": self.sentences.sha256}
