"""Hard attention's learning rule (section 4.1): sampled places, reward, baseline, entropy.

The paper ascends, for each of N samples s̃ of where to look,

    ∂ log p(y | s̃, a) + λ_r (log p(y | s̃, a) − b) ∂ log p(s̃ | a) + λ_e ∂ H[s̃].

The first term is what `soft_cost` descends with the places held fixed; here are the other two, as
terms of a loss whose gradient is theirs. All are means over the captions of a batch and their
samples, so that the weights mean the same for every batch size. With some probability a picture's
samples are replaced by their expected value α; it is then taught once, not N times.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from show_attend_tell.learning.model.decoder import Lesson, Teachable
from show_attend_tell.learning.objectives.likelihood import Cost, entropy
from show_attend_tell.learning.recipe import HardSection

KEPT = 0.9  # b_k = 0.9 b_{k−1} + 0.1 log p(y | s̃_k, a)

WordsCost = Callable[[Lesson, Tensor], Cost]  # `soft_cost`, given all but lesson and captions


def glance(alpha: Tensor, rng: torch.Generator) -> Tensor:
    """Where captions look in a step, s̃_t ~ Multinoulli(α_t), all weight on it: (rows, L)."""
    place = torch.multinomial(alpha.detach(), 1, generator=rng)
    return torch.zeros_like(alpha).scatter_(1, place, 1.0)


class Baseline:
    """What the reward is compared with; it does not depend on the sample that it is taken from.

    The moving average starts from the first mini-batch that it sees; the paper does not say where.

    Parameters
    ----------
    kind
        "average" or "others", as `hard.baseline` has it.

    Attributes
    ----------
    average
        The moving average, which belongs to a run's state; −∞ where nothing was seen yet.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.average = torch.tensor(-torch.inf, dtype=torch.double)

    def expect(self, rewards: Tensor, mask: Tensor, samples: int) -> Tensor:
        """The baseline of each reward, from what was seen before; then learn from these.

        rewards, mask: (rows, steps), the mask false behind a caption's end.
        """
        if self.kind == "others":  # leave one out
            of_picture = rewards.view(-1, samples, rewards.shape[1])
            others = (of_picture.sum(1, keepdim=True) - of_picture) / (samples - 1)
            return others.view_as(rewards)
        mean = rewards[mask].double().mean()
        before = mean if self.average.isinf() else self.average
        self.average = KEPT * before + (1 - KEPT) * mean
        return before.to(rewards.dtype).where(mask, 0.0)


def hard_cost(
    decoder: Teachable,
    annotations: Tensor,
    captions: Tensor,
    words_cost: WordsCost,
    baseline: Baseline,
    rule: HardSection,
    rng: torch.Generator,
    dropout: torch.Generator | None = None,
) -> Cost:
    """The cost of a batch. For each picture a coin says if samples or their expected value look.

    Parameters
    ----------
    annotations, captions
        (pictures, L, D) and (batch, steps), as `Teachable.teach` takes them.
    words_cost
        What the words cost, however they were looked for.
    dice, dropout
        What the coins and places, and what the dropped numbers, are drawn from.
    """
    pictures = len(annotations)
    is_expected = torch.rand(pictures, generator=rng) < rule.expected_share
    of_pictures = captions.view(pictures, -1, captions.shape[1])
    parts = []
    for some, are_sampled in ((~is_expected, True), (is_expected, False)):
        if not some.any():
            continue
        given = decoder, annotations[some], of_pictures[some].flatten(0, 1), words_cost
        if are_sampled:
            cost = sampled_cost(*given, partial(glance, rng=rng), baseline, rule, dropout)
        else:
            cost = expected_cost(*given, rule, dropout)
        parts.append((int(some.sum()) / pictures, cost))
    return _together(parts)


def sampled_cost(
    decoder: Teachable,
    annotations: Tensor,
    captions: Tensor,
    words_cost: WordsCost,
    choose: Callable[[Tensor], Tensor],
    baseline: Baseline,
    rule: HardSection,
    dropout: torch.Generator | None = None,
) -> Cost:
    """All terms, with N samples for each caption, which lie side by side as rows."""
    rows = captions.repeat_interleave(rule.samples, dim=0)
    lesson = decoder.teach(annotations, rows, dropout, choose)
    cost = words_cost(lesson, rows)
    chosen = (lesson.weights * lesson.alphas).sum(2)  # p(s̃_t | …): (rows, T)
    log_chosen = chosen.where(cost.told, 1.0).log()
    rewards = _rewards(cost.log_probs, cost.told, rule.reward)
    advantage = rewards - baseline.expect(rewards, cost.told, rule.samples)
    reward = torch.where(cost.told, advantage * log_chosen, 0.0).sum() / len(rows)
    rms = float(advantage[cost.told].square().mean().sqrt())
    cost = replace(cost, loss=cost.loss - rule.reward_weight * reward, advantage=rms)
    return _with_entropy(cost, lesson, rule)


def expected_cost(
    decoder: Teachable,
    annotations: Tensor,
    captions: Tensor,
    words_cost: WordsCost,
    rule: HardSection,
    dropout: torch.Generator | None = None,
) -> Cost:
    """With α itself in the place of a sample there is no choice to be rewarded."""
    lesson = decoder.teach(annotations, captions, dropout)
    return _with_entropy(words_cost(lesson, captions), lesson, rule)


def _with_entropy(cost: Cost, lesson: Lesson, rule: HardSection) -> Cost:
    spread = torch.where(cost.told, entropy(lesson.alphas), 0.0).sum() / len(cost.told)
    return replace(cost, loss=cost.loss - rule.entropy_weight * spread)


def _together(parts: list[tuple[float, Cost]]) -> Cost:
    """The cost of a batch from those of its parts, each with its share of the captions."""
    costs = [cost for _, cost in parts]

    def mean(name: str) -> float:
        return sum(share * float(getattr(cost, name)) for share, cost in parts)

    return Cost(
        loss=torch.stack([share * cost.loss for share, cost in parts]).sum(),
        nats=sum(cost.nats for cost in costs),
        words=sum(cost.words for cost in costs),
        penalty=mean("penalty"),
        floor=mean("floor"),
        entropy=sum(cost.entropy for cost in costs),
        log_probs=torch.cat([cost.log_probs for cost in costs]),
        told=torch.cat([cost.told for cost in costs]),
        advantage=max(cost.advantage for cost in costs),  # of the samples
    )


def _rewards(log_probs: Tensor, mask: Tensor, kind: str) -> Tensor:
    """The reward of each place looked at: (rows, T).

    "caption" is the paper's, log p of the whole caption; "rest" leaves out the words before the
    place was looked at, which it cannot have changed.
    """
    if kind == "caption":
        rewards = log_probs.sum(1, keepdim=True).expand_as(log_probs)
    else:
        rewards = log_probs.flip(1).cumsum(1).flip(1)
    return torch.where(mask, rewards, 0.0)
