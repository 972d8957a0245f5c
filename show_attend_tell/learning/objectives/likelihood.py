"""What training minimises: −log p(y | x) + λ Σ_i (1 − Σ_t α_ti)² (the paper's L_d), per caption.

Both terms are sums over a caption, averaged over the batch, as in the authors' code. Logits of
(batch × steps × K) are the largest array of a step, so likelihood and gradient are computed
from them in place, a block of rows at a time, and they are never kept.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from show_attend_tell.data.batches import PADDING
from show_attend_tell.learning.model.decoder import CaptionDecoder, DecoderOutput

ROWS_AT_ONCE = 384  # enough for efficient products; 384 × 10,000 logits fit a large cache


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
    mask: Tensor  # (batch, steps): false behind a caption's end
    advantage: float = 0.0  # hard attention: root mean square of reward less baseline, in nats
    reward: float = 0.0  # the mean reward of sampled captions


class SoftTargets(NamedTuple):
    """The teachers' probabilities for each word, and their share of the target."""

    probs: Tensor  # (words, K), caption by caption
    weight: float


def soft_cost(
    decoder: CaptionDecoder,
    output: DecoderOutput,
    captions: Tensor,
    *,
    double_stochastic: float,
    label_smoothing: float,
    soft_targets: SoftTargets | None = None,
) -> Cost:
    """The cost of words and double stochasticity: the whole objective of soft attention.

    captions: (batch, steps), padded with PADDING.
    """
    mask = captions != PADDING  # (B, T)
    rows = mask.flatten().nonzero().squeeze(1)
    readout = output.readout.flatten(0, 1)[rows]  # (words, m)
    targets = captions.flatten()[rows]
    shares = torch.full_like(targets, 1, dtype=readout.dtype) / len(captions)
    smoothed, nats = likelihood(
        readout, *decoder.softmax_layer(), targets, shares, label_smoothing, soft_targets
    )
    penalty, floor = double_stochasticity(output.alphas, mask)
    log_probs = readout.new_zeros(mask.numel()).index_copy_(0, rows, -nats.detach())
    spread = (entropy(output.alphas.detach()) * mask).sum()
    return Cost(
        loss=smoothed + double_stochastic * penalty,
        nats=float(nats.sum()),
        words=len(targets),
        penalty=float(penalty.detach()),
        floor=floor,
        entropy=float(spread),
        log_probs=log_probs.view_as(mask),
        mask=mask,
    )


def entropy(alphas: Tensor) -> Tensor:
    """Entropy of attention weights in nats: (..., L) → (...)."""
    return -torch.xlogy(alphas, alphas).sum(dim=-1)


def double_stochasticity(alphas: Tensor, mask: Tensor) -> tuple[Tensor, float]:
    """The penalty Σ_i (1 − Σ_t α_ti)², mean over captions, and the least value it can take.

    alphas: (batch, steps, L); mask: (batch, steps), false behind a caption's end. The weights of a
    caption of C words sum to C, so the penalty cannot fall below L (1 − C/L)².
    """
    places = alphas.shape[2]
    coverage = (alphas * mask.unsqueeze(2)).sum(dim=1)  # (B, L)
    penalty = (1 - coverage).square().sum(dim=1).mean()
    lengths = mask.sum(dim=1).to(alphas.dtype)
    floor = (places * (1 - lengths / places).square()).mean()
    return penalty, float(floor)


def likelihood(
    readout: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    shares: Tensor,
    smoothing: float,
    soft_targets: SoftTargets | None = None,
) -> tuple[Tensor, Tensor]:
    """Negative log-likelihood of words under softmax(readout Wᵀ + b).

    Parameters
    ----------
    readout, weight, bias
        (rows, m), (K, m), (K).
    targets, shares
        (rows): the words, and the weight of each in the sum.
    smoothing
        ε of label smoothing: this share of the target is spread evenly over all K words.
    soft_targets
        Probabilities (rows, K) that replace a share of the smoothed target.

    Returns
    -------
    loss
        Σ shares · cost of the whole target: a scalar to be minimised.
    nats
        (rows): −log p of each word, without smoothing and without a gradient.
    """
    loss, nats = _Likelihood.apply(  # type: ignore[no-untyped-call]
        readout, weight, bias, targets, shares, smoothing, soft_targets
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
        soft_targets: SoftTargets | None,
    ) -> tuple[Tensor, Tensor]:
        needs_gradient = any(ctx.needs_input_grad)
        own = (
            1 - soft_targets.weight if soft_targets else 1.0
        )  # the true word's share of the target
        gradients = [torch.zeros_like(x) for x in (readout, weight, bias)] if needs_gradient else []
        nats = torch.empty_like(shares)
        loss = readout.new_zeros(())
        for part in _even_parts(len(targets)):
            x, y, share = readout[part], targets[part].unsqueeze(1), shares[part]
            logits = torch.addmm(bias, x, weight.t())
            mean = logits.mean(dim=1)
            top = logits.amax(dim=1, keepdim=True)
            right = logits.gather(1, y).squeeze(1)
            expected = own * ((1 - smoothing) * right + smoothing * mean)
            if soft_targets:
                expected += soft_targets.weight * (soft_targets.probs[part] * logits).sum(dim=1)
            p = logits.sub_(top).exp_()  # in place: from here on `logits` is gone
            total = p.sum(dim=1, keepdim=True)
            log_total = (total.log() + top).squeeze(1)
            nats[part] = log_total - right
            loss += share @ (log_total - expected)
            if needs_gradient:
                share = share.unsqueeze(1)
                p.mul_(share / total).sub_(share * (own * smoothing / len(bias)))
                p.scatter_add_(1, y, -own * (1 - smoothing) * share)
                if soft_targets:
                    p.addcmul_(soft_targets.probs[part], share, value=-soft_targets.weight)
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
    """Blocks of at most ROWS_AT_ONCE, nearly equal: products of a few rows are slow."""
    blocks = -(-rows // ROWS_AT_ONCE)
    edges = [rows * block // blocks for block in range(blocks + 1)]
    return [slice(*pair) for pair in pairwise(edges)]
