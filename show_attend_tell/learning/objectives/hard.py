"""Hard attention's learning rule (section 4.1): sampled places, reward, baseline, entropy.

The paper ascends, for each of N samples s̃ of where to look,

    ∂ log p(y | s̃, a) + λ_r (log p(y | s̃, a) − b) ∂ log p(s̃ | a) + λ_e ∂ H[s̃].

The first term is what `soft_cost` descends with the places held fixed; here are the other two, as
terms of a loss whose gradient is theirs. All are means over the captions of a batch and their
samples, so that the weights mean the same for every batch size. With some probability a picture's
samples are replaced by their expected value α; it then counts once, not N times.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from show_attend_tell.learning.model.decoder import CaptionDecoder, DecoderOutput
from show_attend_tell.learning.objectives.likelihood import Cost, entropy
from show_attend_tell.learning.recipe import HardSection

DECAY = 0.9  # b_k = 0.9 b_{k−1} + 0.1 log p(y | s̃_k, a)

WordsCost = Callable[[DecoderOutput, Tensor], Cost]  # `soft_cost` with its options set


def sample_place(alpha: Tensor, rng: torch.Generator) -> Tensor:
    """One-hot weights of a sampled place, s̃_t ~ Multinoulli(α_t): (rows, L)."""
    place = torch.multinomial(alpha.detach(), 1, generator=rng)
    return torch.zeros_like(alpha).scatter_(1, place, 1.0)


class Baseline:
    """The baseline b of the reward; it never depends on the sample it is subtracted from.

    The moving average starts from the first mini-batch; the paper does not say where.

    Parameters
    ----------
    kind
        "average" or "others", as `hard.baseline` has it.

    Attributes
    ----------
    average
        The moving average, part of a run's checkpoint; −∞ before the first mini-batch.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.average = torch.tensor(-torch.inf, dtype=torch.double)

    def expect(self, rewards: Tensor, mask: Tensor, samples: int) -> Tensor:
        """The baseline of each reward, from earlier mini-batches; then update the average.

        rewards, mask: (rows, steps), the mask false behind a caption's end.
        """
        if self.kind == "others":  # leave one out
            of_picture = rewards.view(-1, samples, rewards.shape[1])
            others = (of_picture.sum(1, keepdim=True) - of_picture) / (samples - 1)
            return others.view_as(rewards)
        mean = rewards[mask].double().mean()
        before = mean if self.average.isinf() else self.average
        self.average = DECAY * before + (1 - DECAY) * mean
        return before.to(rewards.dtype).where(mask, 0.0)


def hard_cost(
    decoder: CaptionDecoder,
    annotations: Tensor,
    captions: Tensor,
    words_cost: WordsCost,
    baseline: Baseline,
    rule: HardSection,
    rng: torch.Generator,
    dropout: torch.Generator | None = None,
) -> Cost:
    """The cost of a batch; for each picture, chance decides between samples and expected value.

    Parameters
    ----------
    annotations, captions
        (pictures, L, D) and (batch, steps), as `CaptionDecoder.forward` takes them.
    words_cost
        The cost of the words, given the decoder's output.
    rng, dropout
        Generators for the choices and places, and for dropout.
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
            cost = sampled_cost(*given, partial(sample_place, rng=rng), baseline, rule, dropout)
        else:
            cost = expected_cost(*given, rule, dropout)
        parts.append((int(some.sum()) / pictures, cost))
    return _together(parts)


def sampled_cost(
    decoder: CaptionDecoder,
    annotations: Tensor,
    captions: Tensor,
    words_cost: WordsCost,
    choose: Callable[[Tensor], Tensor],
    baseline: Baseline,
    rule: HardSection,
    dropout: torch.Generator | None = None,
) -> Cost:
    """All terms, with N samples of each caption in consecutive rows."""
    rows = captions.repeat_interleave(rule.samples, dim=0)
    output = decoder(annotations, rows, dropout, choose)
    cost = words_cost(output, rows)
    chosen = (output.weights * output.alphas).sum(2)  # p(s̃_t | …): (rows, T)
    log_chosen = chosen.where(cost.mask, 1.0).log()
    rewards = _rewards(cost.log_probs, cost.mask, rule.reward)
    advantage = rewards - baseline.expect(rewards, cost.mask, rule.samples)
    reward = torch.where(cost.mask, advantage * log_chosen, 0.0).sum() / len(rows)
    rms = float(advantage[cost.mask].square().mean().sqrt())
    cost = replace(cost, loss=cost.loss - rule.reward_weight * reward, advantage=rms)
    return _with_entropy(cost, output, rule)


def expected_cost(
    decoder: CaptionDecoder,
    annotations: Tensor,
    captions: Tensor,
    words_cost: WordsCost,
    rule: HardSection,
    dropout: torch.Generator | None = None,
) -> Cost:
    """The cost with α in place of a sample: without a choice there is no reward term."""
    output = decoder(annotations, captions, dropout)
    return _with_entropy(words_cost(output, captions), output, rule)


def _with_entropy(cost: Cost, output: DecoderOutput, rule: HardSection) -> Cost:
    spread = torch.where(cost.mask, entropy(output.alphas), 0.0).sum() / len(cost.mask)
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
        mask=torch.cat([cost.mask for cost in costs]),
        advantage=max(cost.advantage for cost in costs),  # of the samples
    )


def _rewards(log_probs: Tensor, mask: Tensor, kind: str) -> Tensor:
    """The reward of each sampled place: (rows, T).

    "caption" is the paper's, log p of the whole caption; "rest" leaves out the earlier words,
    which the place cannot have changed.
    """
    if kind == "caption":
        rewards = log_probs.sum(1, keepdim=True).expand_as(log_probs)
    else:
        rewards = log_probs.flip(1).cumsum(1).flip(1)
    return torch.where(mask, rewards, 0.0)
