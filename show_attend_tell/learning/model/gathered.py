"""Products with a tensor that all steps of a sentence share, its gradient taken once for all.

Left to itself, autograd computes the gradient of a shared tensor at every step and adds them up:
many thin matrix products and passes over memory where one thick product will do.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


@dataclass
class Gathered:
    """What one shared tensor's gradient is made of, until the last of its uses has been heard."""

    pending: int = 0
    inputs: list[Tensor] = field(default_factory=list)
    gradients: list[Tensor] = field(default_factory=list)


def shared_product(x: Tensor, shared: Tensor, gathered: Gathered) -> Tensor:
    """Multiply x @ shared, in one of several steps with the same `shared` and `gathered`.

    x: (..., rows, a); shared: (..., a, b); returns (..., rows, b). The steps must be run backwards
    together, as `loss.backward()` does.
    """
    if not torch.is_grad_enabled():
        return torch.matmul(x, shared)
    product: Tensor = _SharedProduct.apply(x, shared, gathered)  # type: ignore[no-untyped-call]
    return product


class _SharedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, shared: Tensor, gathered: Gathered) -> Tensor:
        if any(ctx.needs_input_grad):
            gathered.pending += 1
            ctx.gathered = gathered
            ctx.save_for_backward(x, shared)
        return torch.matmul(x, shared)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dproduct: Tensor) -> tuple[Tensor, Tensor | None, None]:
        x, shared = ctx.saved_tensors
        gathered = ctx.gathered
        gathered.pending -= 1
        dx = torch.matmul(dproduct, shared.transpose(-1, -2))
        if not ctx.needs_input_grad[1]:
            return dx, None, None
        # Detached, or the graph would hold itself through `gathered` and never be freed.
        gathered.inputs.append(x.detach())
        gathered.gradients.append(dproduct)
        if gathered.pending:
            return dx, None, None
        inputs, gradients = torch.cat(gathered.inputs, -2), torch.cat(gathered.gradients, -2)
        return dx, torch.matmul(inputs.transpose(-1, -2), gradients), None
