"""The objective that a recipe asks for: likelihood, and what it adds or puts in its place."""

from functools import partial

import torch
from torch import Tensor

from show_attend_tell.data.features import FeatureStore
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.learning.model.decoder import CaptionDecoder
from show_attend_tell.learning.objectives.distillation import Teachers
from show_attend_tell.learning.objectives.hard import Baseline, hard_cost
from show_attend_tell.learning.objectives.likelihood import Cost, SoftTargets, soft_cost
from show_attend_tell.learning.objectives.rewards import CaptionReward, rewarded_cost
from show_attend_tell.learning.recipe import Recipe


class Objective:
    """The cost of a batch.

    Attributes
    ----------
    baseline
        Of hard attention; None for other models. Its average belongs to a run's state.
    """

    def __init__(
        self, decoder: CaptionDecoder, recipe: Recipe, store: FeatureStore, vocabulary: Vocabulary
    ) -> None:
        self.decoder, self.recipe = decoder, recipe
        is_hard = recipe.model.attention == "hard"
        self.baseline = Baseline(recipe.hard.baseline) if is_hard else None
        self.reward: CaptionReward | None = None
        if recipe.reward.weight:
            references = {row: store.examples[row].captions for row in store.rows("train")}
            self.reward = CaptionReward(references, vocabulary, recipe.reward)
        self.teachers: Teachers | None = None
        if recipe.distillation.weight:
            self.teachers = Teachers(recipe.distillation.teachers, store, vocabulary)

    def cost(
        self, features: Tensor, captions: Tensor, rows: list[int], rng: torch.Generator
    ) -> Cost:
        """The cost of a batch.

        Parameters
        ----------
        features, captions
            (captions or pictures, L, D) and (captions, steps), padded.
        rows
            The store's row of each of the features.
        rng
            What everything random is drawn from.
        """
        training = self.recipe.training
        annotations = self.decoder.encode(features)  # once for people's captions and drawn ones
        words_cost = partial(
            soft_cost,
            self.decoder,
            double_stochastic=training.double_stochastic,
            label_smoothing=training.label_smoothing,
        )
        if self.baseline:
            return hard_cost(
                self.decoder,
                annotations,
                captions,
                words_cost,
                self.baseline,
                self.recipe.hard,
                rng=rng,
                dropout=rng,
            )
        soft_targets = None
        if self.teachers:
            probs = self.teachers.soft_targets(features, captions)
            soft_targets = SoftTargets(probs, self.recipe.distillation.weight)
        output = self.decoder(annotations, captions, rng)
        cost = words_cost(output, captions, soft_targets=soft_targets)
        if self.reward is None:
            return cost
        return rewarded_cost(
            cost,
            self.decoder,
            annotations,
            partial(self.reward, rows),
            self.recipe.reward,
            self.recipe.search.max_words,
            rng=rng,
            dropout=rng,
        )
