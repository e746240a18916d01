"""Activations: functions from attention scores to weights: softmax, and two with exact zeros.

All three are the argmax over distributions p of p·scores + an entropy. The seam intercepts calls of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function_unary

Activation = Literal["softmax", "sparsemax", "entmax15"]

# a score this far below the highest has weight 0; masked scores are clamped to it, to avoid overflow
_FLOOR = -4.0


def sparsemax(scores: Float[Tensor, "*shape"], dim: int) -> Float[Tensor, "*shape"]:
    """Martins & Astudillo 2016: the distribution nearest to the scores. [.5, .3, -1] -> [.6, .4, 0]"""
    if has_torch_function_unary(scores):  # true for any tensor inside a mode such as the seam's
        weights: Tensor = handle_torch_function(sparsemax, (scores,), scores, dim)
        return weights
    return _Entmax.apply(scores, dim, 1)  # type: ignore[no-any-return, no-untyped-call]


def entmax15(scores: Float[Tensor, "*shape"], dim: int) -> Float[Tensor, "*shape"]:
    """Peters et al. 2019: 1.5-entmax, half-way between softmax and sparsemax. [2, 0, -9] -> [1, 0, 0]"""
    if has_torch_function_unary(scores):
        weights: Tensor = handle_torch_function(entmax15, (scores,), scores, dim)
        return weights
    return _Entmax.apply(scores, dim, 2)  # type: ignore[no-any-return, no-untyped-call]


ACTIVATIONS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "softmax": torch.softmax,
    "sparsemax": sparsemax,
    "entmax15": entmax15,
}


class _Entmax(torch.autograd.Function):
    """p = max(z/power − τ, 0)^power, Σ p = 1: sparsemax for power 1, 1.5-entmax for power 2."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, dim: int, power: Literal[1, 2]) -> Tensor:
        p = _above_threshold(_shifted(scores, dim) / power, dim, power).pow_(power).to(scores.dtype)
        ctx.dim, ctx.power = dim, power
        ctx.save_for_backward(p)
        return p

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None]:
        """Inside the support, each gradient minus their mean; for 1.5-entmax, both weighted by √p."""
        (p,) = ctx.saved_tensors
        inside = p > 0
        # subtle: √1 outside the support, because the derivative of √0 is infinite
        share = inside.to(p.dtype) if ctx.power == 1 else torch.where(inside, p, 1).sqrt() * inside
        mean = (share * slopes[0]).sum(ctx.dim, keepdim=True) / share.sum(ctx.dim, keepdim=True)
        return share * (slopes[0] - mean), None, None


def _shifted(scores: Tensor, dim: int) -> Tensor:
    """Scores minus their maximum, at least in single precision."""
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return (wide - wide.amax(dim, keepdim=True)).clamp_(min=_FLOOR)


def _above_threshold(z: Tensor, dim: int, power: Literal[1, 2]) -> Tensor:
    """max(z − τ, 0), with τ such that its power adds up to 1. The highest z is 0, so −1 ≤ τ < 0.

    Newton's method from the left: the sum is convex and decreasing, so τ rises to the root. It stops where a step is
    no larger than rounding. On a CPU, about twice as fast as sorting the scores.
    """
    tau = torch.full_like(z.narrow(dim, 0, 1), -1.0)
    while True:
        over = (z - tau).clamp_(min=0)
        if power == 1:
            step = (over.sum(dim, keepdim=True) - 1) / over.sign().sum(dim, keepdim=True)
        else:
            step = (over.square().sum(dim, keepdim=True) - 1) / (2 * over.sum(dim, keepdim=True))
        tau = tau + step
        if not bool((step > 4 * torch.finfo(z.dtype).eps).any()):  # also stops if a score is NaN
            return (z - tau).clamp_(min=0)
