"""Where the model looks: f_att (equations 4, 5), the gate β and the context vector ẑ (equation 6).

Most of the time of training goes here, into passes over (batch × L × width) numbers, so the scores
v · tanh(W_a a_i + W_h h) are computed without a tanh: with E(x) = exp(2x),

    tanh(k + q) = 1 − 2r,   r = 1 / (1 + E(k) E(q)),   d tanh = 4 (r − r²),

where E(k) is taken once per sentence. That costs a product and a division per number and step, a
quarter of the time of a tanh. The keys' gradient is summed over the sentence and returned
once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from show_attend_tell.learning.model.shared_product import SharedGradient, shared_product

# E(±40) is finite in float32, and so is every product of two of them but the harmless ∞.
FARTHEST = 40.0
PICTURES_AT_ONCE = 4  # 4 × 196 × 512 floats stay in the cache from one pass to the next


@dataclass
class Memory:
    """What the attention needs of a batch of pictures, computed once per sentence."""

    annotations: Tensor  # (pictures, L, D)
    keys: Tensor  # (pictures, L, width), W_a a + b
    exp_keys: Tensor  # E(keys), without a gradient of its own
    keys_gradient: "KeysGradient" = field(default_factory=lambda: KeysGradient())
    annotations_gradient: SharedGradient = field(default_factory=SharedGradient)


class Attention(nn.Module):
    """Soft and hard attention alike: they differ in the weights that `context` is given."""

    def __init__(self, depth: int, hidden: int, width: int, has_gate: bool) -> None:
        super().__init__()
        self.annotation = nn.Linear(depth, width)
        self.state = nn.Linear(hidden, width, bias=False)
        self.score = nn.Parameter(torch.empty(width).normal_(std=width**-0.5))
        self.gate = nn.Linear(hidden, 1) if has_gate else None
        self.readers: tuple[nn.Linear, ...] = (self.annotation,)  # of annotations

    def prepare(self, annotations: Tensor) -> Memory:
        """What does not depend on the words, once per sentence. annotations: (pictures, L, D)."""
        keys = self.annotation(annotations)  # (P, L, width)
        return Memory(annotations, keys, exp_twice(keys.detach()))

    def look(self, memory: Memory, h: Tensor) -> tuple[Tensor, Tensor]:
        """α and β from the previous state.

        h: (rows, n), rows a multiple of the pictures, those of one picture side by side.
        Returns alpha (rows, L), each row summing to one, and gate (rows,), ones without a gate.
        """
        rows, pictures = len(h), len(memory.keys)
        query = self.state(h).view(pictures, rows // pictures, -1)  # (P, k, width)
        scores = torch.stack(
            [
                _Scores.apply(  # type: ignore[no-untyped-call]
                    memory.keys, one, self.score, memory.exp_keys, memory.keys_gradient
                )
                for one in query.unbind(1)
            ],
            dim=1,
        ).view(rows, -1)  # (rows, L), equation 4
        return torch.softmax(scores, dim=1), self._gate(h)  # equation 5

    def _gate(self, h: Tensor) -> Tensor:
        return h.new_ones(len(h)) if self.gate is None else torch.sigmoid(self.gate(h)).squeeze(1)

    def context(self, memory: Memory, weights: Tensor, gate: Tensor) -> Tensor:
        """ẑ = β Σ_i weights_i a_i (equation 6, section 4.2.1): (rows, L), (rows,) → (rows, D).

        The weights are α for soft attention, a sampled place for hard.
        """
        pictures, L, _ = memory.annotations.shape
        grouped = weights.view(pictures, -1, L)  # (P, k, L)
        z = shared_product(grouped, memory.annotations, memory.annotations_gradient)  # (P, k, D)
        return gate.unsqueeze(1) * z.flatten(0, 1)


class EvenAttention(Attention):
    """A baseline: all places have equal weight, so the context is the mean feature."""

    def __init__(self, hidden: int, has_gate: bool) -> None:
        nn.Module.__init__(self)  # there are no scores
        self.gate = nn.Linear(hidden, 1) if has_gate else None
        self.readers = ()

    def prepare(self, annotations: Tensor) -> Memory:
        """The annotations alone: (pictures, L, D)."""
        return Memory(annotations, annotations, annotations)

    def look(self, memory: Memory, h: Tensor) -> tuple[Tensor, Tensor]:
        """α = 1/L: (rows, L); β as in `Attention`: (rows,)."""
        L = memory.annotations.shape[1]
        return h.new_full((len(h), L), 1 / L), self._gate(h)


def exp_twice(x: Tensor) -> Tensor:
    """E(x) = exp(2x), x kept within ±40, beyond which a float32 tanh is exactly ±1."""
    return x.clamp(-FARTHEST, FARTHEST).mul_(2).exp_()


@dataclass
class KeysGradient:
    """The gradient of the keys, summed until all steps of a sentence have added their share."""

    pending: int = 0
    slopes: Tensor | None = None  # (P, L, width): Σ_t dscore_t (r_t − r_t²)


class _Scores(torch.autograd.Function):
    """v · tanh(keys + query) at all places: (P, L, A), (P, A), (A) → (P, L)."""

    @staticmethod
    def forward(
        ctx: Any,
        keys: Tensor,
        query: Tensor,
        v: Tensor,
        exp_keys: Tensor,
        keys_gradient: KeysGradient,
    ) -> Tensor:
        exp_query = exp_twice(query).unsqueeze(1)  # (P, 1, A)
        dots = exp_keys.new_empty(exp_keys.shape[:2])
        for part, r in _blocks(exp_keys, exp_query):
            torch.matmul(r, v, out=dots[part])
        if any(ctx.needs_input_grad):
            keys_gradient.pending += 1
            ctx.keys_gradient = keys_gradient
            ctx.save_for_backward(exp_keys, exp_query, v)
        return dots.mul_(-2).add_(v.sum())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dscores: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None, None]:
        exp_keys, exp_query, v = ctx.saved_tensors
        keys_gradient = ctx.keys_gradient
        if keys_gradient.slopes is None:
            keys_gradient.slopes = torch.zeros_like(exp_keys)
        dv = torch.zeros_like(v)
        dquery = torch.empty_like(exp_query)  # (P, 1, A): Σ_i dscore_i (r_i − r_i²), for now
        for part, r in _blocks(exp_keys, exp_query):
            d = dscores[part]
            dv.addmv_(r.flatten(0, 1).t(), d.flatten())
            r.addcmul_(r, r, value=-1)  # r − r²
            torch.bmm(d.unsqueeze(1), r, out=dquery[part])
            keys_gradient.slopes[part].addcmul_(r, d.unsqueeze(2))
        keys_gradient.pending -= 1
        dkeys = keys_gradient.slopes.mul_(4 * v) if keys_gradient.pending == 0 else None
        return dkeys, dquery.squeeze(1).mul_(4 * v), dscores.sum() - 2 * dv, None, None


def _blocks(exp_keys: Tensor, exp_query: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """R of a few pictures at a time, in one buffer: cheaper to compute twice than to keep."""
    buffer = torch.empty_like(exp_keys[:PICTURES_AT_ONCE])
    for i in range(0, len(exp_keys), PICTURES_AT_ONCE):
        part = slice(i, i + PICTURES_AT_ONCE)
        r = buffer[: len(exp_keys[part])]
        torch.mul(exp_keys[part], exp_query[part], out=r)
        yield part, r.add_(1).reciprocal_()
