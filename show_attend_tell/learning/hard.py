"""Hard attention's learning rule (section 4.1): sampled places, reward, baseline, entropy.

The paper ascends, for each of N samples s̃ of where to look,

    ∂ log p(y | s̃, a) + λ_r (log p(y | s̃, a) − b) ∂ log p(s̃ | a) + λ_e ∂ H[s̃].

The first term is what `soft_cost` descends with the places held fixed; here are the other two, as
terms of a loss whose gradient is theirs. All are means over the captions of a batch and their
samples, so that the weights mean the same for every batch size.
"""

from dataclasses import replace

import torch
from torch import Tensor

from show_attend_tell.learning.decoder import Lesson
from show_attend_tell.learning.objectives import Cost, entropy
from show_attend_tell.learning.recipe import HardSection

KEPT = 0.9  # b_k = 0.9 b_{k−1} + 0.1 log p(y | s̃_k, a)


class Glances:
    """Where a batch looks while it is taught: s̃_t ~ Multinoulli(α_t), or its expected value α_t.

    Parameters
    ----------
    pictures, samples
        A row of the batch is one sample; those of one picture lie side by side.
    expected_share
        Probability that all samples of a picture are replaced by their expected value.
    """

    def __init__(
        self, pictures: int, samples: int, expected_share: float, generator: torch.Generator
    ) -> None:
        self.generator = generator
        coins = torch.rand(pictures, generator=generator) < expected_share
        self.is_expected = coins.repeat_interleave(samples)  # (rows,)
        self.places: list[Tensor] = []  # a step: (rows,)

    def __call__(self, alpha: Tensor) -> Tensor:
        """The weights that stand for alpha in this step: (rows, L) → (rows, L)."""
        place = torch.multinomial(alpha.detach(), 1, generator=self.generator)
        self.places.append(place.squeeze(1))
        one = torch.zeros_like(alpha).scatter_(1, place, 1.0)
        return torch.where(self.is_expected.unsqueeze(1), alpha, one)


class Baseline:
    """What the reward is compared with; it does not depend on the sample that it is taken from.

    A moving average starts from the first mini-batch that it sees; the paper does not say where.

    Parameters
    ----------
    values
        The moving averages, which belong to a run's state; −∞ where nothing was seen yet.
    """

    def __init__(self, kind: str, longest: int) -> None:
        self.kind = kind
        self.values = torch.full((longest + 1,), -torch.inf, dtype=torch.double)

    def expect(self, rewards: Tensor, words: Tensor, samples: int) -> Tensor:
        """The baseline of each reward, from what was seen before; then learn from these.

        rewards, words: (rows, steps), the rewards and how many words' log p each is a sum of, 0
        behind a caption's end.
        """
        if self.kind == "none":
            return torch.zeros_like(rewards)
        if self.kind == "others":  # leave one out
            of_picture = rewards.view(-1, samples, rewards.shape[1])
            others = (of_picture.sum(1, keepdim=True) - of_picture) / (samples - 1)
            return others.view_as(rewards)
        told = words > 0
        keys = words if self.kind == "length" else torch.zeros_like(words)
        seen = torch.bincount(keys[told], minlength=len(self.values))
        sums = torch.bincount(
            keys[told], weights=rewards[told].double(), minlength=len(self.values)
        )
        means = sums / seen
        before = torch.where(self.values.isinf(), means, self.values)
        self.values = torch.where(seen > 0, KEPT * before + (1 - KEPT) * means, self.values)
        return before[keys].to(rewards.dtype).where(told, 0.0)


def hard_cost(
    cost: Cost, lesson: Lesson, glances: Glances, baseline: Baseline, rule: HardSection
) -> Cost:
    """Add the reward and the entropy term to the cost of the words, the places held fixed."""
    told = cost.told  # (rows, T)
    places = torch.stack(glances.places, 1)  # (rows, T)
    log_chosen = lesson.alphas.gather(2, places.unsqueeze(2)).squeeze(2).log()  # log p(s̃_t | …)
    rewards, words = _rewards(cost.log_probs, told, rule.reward)
    advantage = rewards - baseline.expect(rewards, words, rule.samples)
    # Where the expected value stood in for a sample there was no choice to be rewarded.
    is_choice = told & ~glances.is_expected.unsqueeze(1)
    reward = torch.where(is_choice, advantage * log_chosen, 0.0).sum() / len(told)
    spread = torch.where(told, entropy(lesson.alphas), 0.0).sum() / len(told)
    loss = cost.loss - rule.reward_weight * reward - rule.entropy_weight * spread
    rms = float(advantage[told].square().mean().sqrt())
    return replace(cost, loss=loss, advantage=rms)


def _rewards(log_probs: Tensor, told: Tensor, kind: str) -> tuple[Tensor, Tensor]:
    """The reward of each place looked at, and how many words it is a sum of: (rows, T) each.

    "caption" is the paper's, log p of the whole caption; "rest" leaves out the words that were told
    before the place was looked at, which it cannot have changed.
    """
    if kind == "caption":
        rewards = log_probs.sum(1, keepdim=True).expand_as(log_probs)
        words = told.sum(1, keepdim=True).expand_as(told)
    else:
        rewards = log_probs.flip(1).cumsum(1).flip(1)
        words = told.long().flip(1).cumsum(1).flip(1)
    return torch.where(told, rewards, 0.0), torch.where(told, words, 0)
