"""What training minimises: −log p(y | x) + λ Σ_i (1 − Σ_t α_ti)² (the paper's L_d), per caption.

Both terms are sums over a caption, averaged over the batch, as in the authors' code. Logits of
(batch × steps × K) are the largest thing in a step, so likelihood and gradient are taken from them
in place, a block of rows at a time, and they are never kept.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from show_attend_tell.data.batches import PADDING
from show_attend_tell.learning.model.decoder import Lesson, Teachable

ROWS_AT_ONCE = 384  # enough for thick matrix products; 384 × 10,000 logits still fit a large cache


@dataclass
class Cost:
    """The loss of a batch, and its terms for the log."""

    loss: Tensor  # to be minimised, per caption
    nats: float  # −log p of the batch's words, without smoothing, summed
    words: int  # how many, the end words among them
    penalty: float  # Σ_i (1 − Σ_t α_ti)² per caption, before λ
    floor: float  # the least value the penalty can take, L (1 − C/L)² per caption
    entropy: float  # of the attention, in nats, summed over the words
    log_probs: Tensor  # (batch, steps): log p of each word, without a gradient; 0 behind the end
    told: Tensor  # (batch, steps): false behind a caption's end
    advantage: float = 0.0  # hard attention: root mean square of reward less baseline, in nats
    reward: float = 0.0  # of captions that the model drew, their mean score


class Advice(NamedTuple):
    """What teachers would tell in the place of each word, and how much of the target it is."""

    probs: Tensor  # (words, K), the words of the first caption first
    weight: float


def soft_cost(
    decoder: Teachable,
    lesson: Lesson,
    captions: Tensor,
    *,
    double_stochastic: float,
    label_smoothing: float,
    advice: Advice | None = None,
) -> Cost:
    """The cost of words and double stochasticity, all there is for soft attention.

    captions: (batch, steps), padded with PADDING.
    """
    told = captions != PADDING  # (B, T)
    rows = told.flatten().nonzero().squeeze(1)
    readout = lesson.readout.flatten(0, 1)[rows]  # (words, m)
    targets = captions.flatten()[rows]
    shares = torch.full_like(targets, 1, dtype=readout.dtype) / len(captions)
    smoothed, nats = likelihood(
        readout, *decoder.softmax_layer(), targets, shares, label_smoothing, advice
    )
    penalty, floor = double_stochasticity(lesson.alphas, told)
    log_probs = readout.new_zeros(told.numel()).index_copy_(0, rows, -nats.detach())
    spread = (entropy(lesson.alphas.detach()) * told).sum()
    return Cost(
        loss=smoothed + double_stochastic * penalty,
        nats=float(nats.sum()),
        words=len(targets),
        penalty=float(penalty.detach()),
        floor=floor,
        entropy=float(spread),
        log_probs=log_probs.view_as(told),
        told=told,
    )


def entropy(alphas: Tensor) -> Tensor:
    """Entropy of attention weights in nats: (..., L) → (...)."""
    return -torch.xlogy(alphas, alphas).sum(dim=-1)


def double_stochasticity(alphas: Tensor, told: Tensor) -> tuple[Tensor, float]:
    """Penalty for places looked at more or less than once, mean over captions, and its floor.

    alphas: (batch, steps, L); told: (batch, steps), false behind a caption's end. The weights of a
    caption of C words sum to C, so the penalty cannot fall below L (1 − C/L)².
    """
    places = alphas.shape[2]
    coverage = (alphas * told.unsqueeze(2)).sum(dim=1)  # (B, L)
    penalty = (1 - coverage).square().sum(dim=1).mean()
    lengths = told.sum(dim=1).to(alphas.dtype)
    floor = (places * (1 - lengths / places).square()).mean()
    return penalty, float(floor)


def likelihood(
    readout: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    shares: Tensor,
    smoothing: float,
    advice: Advice | None = None,
) -> tuple[Tensor, Tensor]:
    """Negative log-likelihood of words under softmax(readout Wᵀ + b).

    Parameters
    ----------
    readout, weight, bias
        (rows, m), (K, m), (K).
    targets, shares
        (rows): the words, and how much each counts in the sum.
    smoothing
        ε of label smoothing: this share of the target is spread evenly over all K words.
    advice
        Probabilities (rows, K) that take the place of a share of the smoothed target.

    Returns
    -------
    loss
        Σ shares · cost of the whole target: a scalar to be minimised.
    nats
        (rows): −log p of each word, without smoothing and without a gradient.
    """
    loss, nats = _Likelihood.apply(  # type: ignore[no-untyped-call]
        readout, weight, bias, targets, shares, smoothing, advice
    )
    return loss, nats


class _Likelihood(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        readout: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        shares: Tensor,
        smoothing: float,
        advice: Advice | None,
    ) -> tuple[Tensor, Tensor]:
        wanted = any(ctx.needs_input_grad)
        own = 1 - advice.weight if advice else 1.0  # share of the target that is the word itself
        gradients = [torch.zeros_like(x) for x in (readout, weight, bias)] if wanted else []
        nats = torch.empty_like(shares)
        loss = readout.new_zeros(())
        for part in _even_parts(len(targets)):
            x, y, share = readout[part], targets[part].unsqueeze(1), shares[part]
            logits = torch.addmm(bias, x, weight.t())
            mean = logits.mean(dim=1)
            top = logits.amax(dim=1, keepdim=True)
            right = logits.gather(1, y).squeeze(1)
            aim = own * ((1 - smoothing) * right + smoothing * mean)
            if advice:
                aim += advice.weight * (advice.probs[part] * logits).sum(dim=1)
            p = logits.sub_(top).exp_()  # in place: from here on `logits` is gone
            total = p.sum(dim=1, keepdim=True)
            log_total = (total.log() + top).squeeze(1)
            nats[part] = log_total - right
            loss += share @ (log_total - aim)
            if wanted:
                share = share.unsqueeze(1)
                p.mul_(share / total).sub_(share * (own * smoothing / len(bias)))
                p.scatter_add_(1, y, -own * (1 - smoothing) * share)
                if advice:
                    p.addcmul_(advice.probs[part], share, value=-advice.weight)
                torch.mm(p, weight, out=gradients[0][part])
                gradients[1].addmm_(p.t(), x)
                gradients[2] += p.sum(dim=0)
        ctx.gradients = gradients
        ctx.mark_non_differentiable(nats)
        return loss, nats

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dloss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return *(gradient.mul_(dloss) for gradient in ctx.gradients), None, None, None, None


def _even_parts(rows: int) -> list[slice]:
    """Blocks of at most ROWS_AT_ONCE, none of them thin: thin products are slow."""
    blocks = -(-rows // ROWS_AT_ONCE)
    edges = [rows * block // blocks for block in range(blocks + 1)]
    return [slice(*pair) for pair in pairwise(edges)]
