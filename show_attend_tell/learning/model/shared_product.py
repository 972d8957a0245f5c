"""Products with a tensor that all steps of a sentence share; its gradient is computed once.

Left to itself, autograd computes the gradient of a shared tensor at every step and adds them up:
many thin matrix products and passes over memory where one thick product will do.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


@dataclass
class SharedGradient:
    """The factors of a shared tensor's gradient, collected until its last use is differentiated."""

    pending: int = 0
    inputs: list[Tensor] = field(default_factory=list)
    gradients: list[Tensor] = field(default_factory=list)


def shared_product(x: Tensor, shared: Tensor, gradient: SharedGradient) -> Tensor:
    """Multiply x @ shared, in one of several steps with the same `shared` and `gradient`.

    x: (..., rows, a); shared: (..., a, b); returns (..., rows, b). The steps must be run backwards
    together, as `loss.backward()` does.
    """
    if not torch.is_grad_enabled():
        return torch.matmul(x, shared)
    product: Tensor = _SharedProduct.apply(x, shared, gradient)  # type: ignore[no-untyped-call]
    return product


class _SharedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, shared: Tensor, gradient: SharedGradient) -> Tensor:
        if any(ctx.needs_input_grad):
            gradient.pending += 1
            ctx.gradient = gradient
            ctx.save_for_backward(x, shared)
        return torch.matmul(x, shared)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dproduct: Tensor) -> tuple[Tensor, Tensor | None, None]:
        x, shared = ctx.saved_tensors
        gradient = ctx.gradient
        gradient.pending -= 1
        dx = torch.matmul(dproduct, shared.transpose(-1, -2))
        if not ctx.needs_input_grad[1]:
            return dx, None, None
        # Detached, or the graph would hold itself through `gradient` and never be freed.
        gradient.inputs.append(x.detach())
        gradient.gradients.append(dproduct)
        if gradient.pending:
            return dx, None, None
        inputs, gradients = torch.cat(gradient.inputs, -2), torch.cat(gradient.gradients, -2)
        return dx, torch.matmul(inputs.transpose(-1, -2), gradients), None
