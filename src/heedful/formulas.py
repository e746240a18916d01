"""Formulas: the mathematics of the methods. Pure: tensors in, tensors out; the source of each in its docstring."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor


@cache
def _gauss_legendre(n: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return tuple((nodes + 1) / 2), tuple(weights / 2)


def gauss_legendre(n: int) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]]:
    """Nodes and weights on [0, 1], exact for polynomials of degree 2n − 1: n=1 -> ([.5], [1.])."""
    nodes, weights = _gauss_legendre(n)
    return torch.tensor(nodes, dtype=torch.float64), torch.tensor(weights, dtype=torch.float64)


def path(start: Float[Tensor, "t d"], end: Float[Tensor, "t d"], nodes: Float[Tensor, "n"]) -> Float[Tensor, "n t d"]:
    """Points on the straight line from `start` (node 0) to `end` (node 1)."""
    return start + nodes.to(start)[:, None, None] * (end - start)


def path_integral(
    gradients: Float[Tensor, "n t d"], weights: Float[Tensor, "n"], difference: Float[Tensor, "t d"]
) -> Float[Tensor, "t"]:
    """Sundararajan et al. 2017, eq. 1: (x − x′) · Σ wᵢ ∇f(xᵢ), summed over the coordinates of each token."""
    mean = torch.einsum("ntd,n->td", gradients.double(), weights.to(gradients.device))
    return (mean * difference.double()).sum(-1)


def with_residual(attention: Float[Tensor, "*b t t"]) -> Float[Tensor, "*b t t"]:
    """Abnar & Zuidema 2020, §3: half attention, half the residual connection; rows still sum to one."""
    return 0.5 * attention + 0.5 * torch.eye(attention.shape[-1], dtype=attention.dtype, device=attention.device)


def rollout(layers: Float[Tensor, "l t t"]) -> Float[Tensor, "t t"]:
    """Abnar & Zuidema 2020, eq. 1: Ã_L ⋯ Ã_1, how much of input token k is in output token q."""
    total = torch.eye(layers.shape[-1], dtype=layers.dtype, device=layers.device)
    for layer in with_residual(layers):
        total = layer @ total
    return total


def cross_rollout(
    encoder: Float[Tensor, "l k k"], decoder: Float[Tensor, "m q q"], cross: Float[Tensor, "m q k"]
) -> Float[Tensor, "q k"]:
    """Rollout of an encoder-decoder: how much of encoder token k is in decoder position q.

    Each decoder layer mixes decoder positions (half residual), then adds, half and half, what cross attention reads
    from the rolled-out encoder. The share that stems from the decoder's own input is not a score of the text and is
    left out, so rows sum to less than one.
    """
    read = torch.zeros(cross.shape[1:], dtype=cross.dtype, device=cross.device)
    below = rollout(encoder)
    for mixing, reading in zip(with_residual(decoder), cross, strict=True):
        read = 0.5 * (mixing @ read) + 0.5 * (reading @ below)
    return read


def null_projection(values: Float[Tensor, "*b k d"], eps: float | None = None) -> Float[Tensor, "*b k k"]:
    """The projection on the left null space of the values, {x: xᵀV = 0}, from the singular vectors of V.

    Rank tolerance: largest singular value · max(k, d) · eps, for each matrix by itself; eps is that of the dtype in
    which the values were computed, if that is coarser than theirs now.
    """
    left, singular, _ = torch.linalg.svd(values, full_matrices=True)
    k, d = values.shape[-2:]
    tolerance = singular.amax(-1, keepdim=True) * max(k, d) * (eps or torch.finfo(values.dtype).eps)
    rank = (singular > tolerance).sum(-1)
    null = (torch.arange(k, device=values.device) >= rank[..., None]).to(values.dtype)
    projection: Tensor = (left * null[..., None, :]) @ left.transpose(-1, -2)
    return projection


def effective_attention(
    attention: Float[Tensor, "*b q k"], values: Float[Tensor, "*b k d"], eps: float | None = None
) -> Float[Tensor, "*b q k"]:
    """Brunner et al. 2020, §3: A⊥ = A − Proj_LN(T) A, the part of attention that the output can depend on.

    A⊥ V = A V exactly; entries may be negative and rows need not sum to one. LN(V W_O) = LN(V) where W_O has full rank.
    """
    return attention - attention @ null_projection(values, eps)


def received(attention: Float[Tensor, "h q k"]) -> Float[Tensor, "k"]:
    """The mean attention that each token receives, over heads and queries."""
    return attention.mean((0, 1))
