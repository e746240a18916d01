"""Formulas: the mathematics of the methods. Pure: tensors in, tensors out; each docstring names the source."""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy.polynomial import legendre
from torch import Tensor

from heedful.core.arrays import Floats

NESTED = (3, 5, 9, 17)  # numbers of nodes of the nested rules


@cache
def _gauss_legendre(n: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return tuple((nodes + 1) / 2), tuple(weights / 2)


def gauss_legendre(n: int) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]]:
    """Nodes and weights on [0, 1], exact for polynomials of degree 2n − 1: n=1 -> ([.5], [1.])."""
    nodes, weights = _gauss_legendre(n)
    return torch.tensor(nodes, dtype=torch.float64), torch.tensor(weights, dtype=torch.float64)


@cache
def _nested(n: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    nodes = np.array([-1.0, 0.0, 1.0])
    while len(nodes) < n:
        nodes = _extended(nodes)
    moments = np.zeros(n)
    moments[0] = 2
    weights = np.linalg.solve(legendre.legvander(nodes, n - 1).T, moments)
    return tuple((nodes + 1) / 2), tuple(weights / 2)


def _extended(nodes: Floats) -> Floats:
    """n nodes (odd, symmetric) and the n − 1 best between them: the zeros of E with ∫ Π(x − xᵢ) E p = 0, deg p < n − 1.

    E is even and p odd, by symmetry, so half of each basis is enough.
    """
    n = len(nodes)
    at, weights = legendre.leggauss(2 * n)
    powers = legendre.legvander(at, n - 1) * np.sqrt(weights)[:, None]
    even, odd, leading = powers[:, 0 : n - 1 : 2], powers[:, 1 : n - 1 : 2], powers[:, n - 1]
    through = (2 * (at[:, None] - nodes)).prod(1)[:, None]
    coefficients = np.zeros(n)
    coefficients[n - 1] = 1
    coefficients[0 : n - 1 : 2] = -np.linalg.solve((odd * through).T @ even, (odd * through).T @ leading)
    zeros = np.sort(legendre.legroots(coefficients).real)
    return np.sort(np.concatenate([nodes, (zeros - zeros[::-1]) / 2]))


def nested_lobatto(n: int) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]]:
    """Nodes and weights on [0, 1] for n = 3, 5, 9 or 17, both ends included; each rule has the nodes of the one before.

    3 is Simpson's rule and 5 Gauss–Lobatto's; 9 and 17 are their best extensions (Patterson 1968). Exact for
    polynomials of degree 3, 7, 13 and 25. The next extension has no real nodes.
    """
    if n not in NESTED:
        raise ValueError(f"{n} nodes; the nested rules have {NESTED}")
    nodes, weights = _nested(n)
    return torch.tensor(nodes, dtype=torch.float64), torch.tensor(weights, dtype=torch.float64)


def riemann(n: int, side: Literal["left", "right"]) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]]:
    """n equal steps on [0, 1], each with its left or right end as node: n=2, right -> ([.5, 1.], [.5, .5])."""
    nodes = (torch.arange(n, dtype=torch.float64) + (side == "right")) / n
    return nodes, torch.full((n,), 1 / n, dtype=torch.float64)


def straight_path(
    start: Float[Tensor, "t d"], end: Float[Tensor, "t d"], nodes: Float[Tensor, "n"]
) -> Float[Tensor, "n t d"]:
    """Points on the straight line from `start` (node 0) to `end` (node 1)."""
    return start + nodes.to(start)[:, None, None] * (end - start)


def path_integral(
    gradients: Float[Tensor, "n t d"], weights: Float[Tensor, "n"], difference: Float[Tensor, "t d"]
) -> Float[Tensor, "t"]:
    """Sundararajan et al. 2017, eq. 1: (x − x′) · Σ wᵢ ∇f(xᵢ), summed over the coordinates of each token."""
    mean = torch.einsum("ntd,n->td", gradients.cpu().double(), weights.cpu())
    return (mean * difference.cpu().double()).sum(-1)


def with_residual(attention: Float[Tensor, "*b t t"]) -> Float[Tensor, "*b t t"]:
    """Abnar & Zuidema 2020, §3: half attention, half the residual connection; rows still sum to one."""
    return 0.5 * attention + 0.5 * torch.eye(attention.shape[-1], dtype=attention.dtype, device=attention.device)


def rollout(layers: Float[Tensor, "l t t"]) -> Float[Tensor, "t t"]:
    """Abnar & Zuidema 2020, eq. 1: Ã_L ⋯ Ã_1, how much of input token k is in output token q."""
    return chain(with_residual(layers))


def cross_rollout(
    encoder: Float[Tensor, "l k k"], decoder: Float[Tensor, "m q q"], cross: Float[Tensor, "m q k"]
) -> Float[Tensor, "q k"]:
    """Rollout of an encoder-decoder: how much of encoder token k is in decoder position q.

    Each decoder layer mixes decoder positions (half residual), then averages this with cross attention to the
    rolled-out encoder. The share of the decoder's own input is not a score of the text and is left out, so rows sum to
    less than one.
    """
    return cross_chain(with_residual(encoder), 0.5 * with_residual(decoder), 0.5 * cross)


def null_projection(values: Float[Tensor, "*b k d"], eps: float | None = None) -> Float[Tensor, "*b k k"]:
    """The projection on the left null space of the values, {x: xᵀV = 0}, from the singular vectors of V.

    Rank tolerance: largest singular value · max(k, d) · eps, for each matrix separately. `eps` is that of the dtype in
    which the values were computed, if it is larger than that of their present dtype.
    """
    left, singular, _ = torch.linalg.svd(values, full_matrices=True)
    k, d = values.shape[-2:]
    tolerance = singular.amax(-1, keepdim=True) * max(k, d) * (eps or torch.finfo(values.dtype).eps)
    rank = (singular > tolerance).sum(-1)
    null = (torch.arange(k, device=values.device) >= rank[..., None]).to(values.dtype)
    return torch.matmul(left * null[..., None, :], left.transpose(-1, -2))


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


def head_relevance(attention: Float[Tensor, "h q k"], gradient: Float[Tensor, "h q k"]) -> Float[Tensor, "q k"]:
    """Chefer et al. 2021b, eq. 5: Ā = E_h[(∇A ⊙ A)⁺], the mean over heads of the positive part."""
    return (attention * gradient).clamp(min=0).mean(0)


def relevance(layers: Float[Tensor, "l t t"]) -> Float[Tensor, "t t"]:
    """Chefer et al. 2021b, eq. 6: R ← R + Ā R from R = I, first layer first: the relevance of input k for output q."""
    total = torch.eye(layers.shape[-1], dtype=layers.dtype, device=layers.device)
    for layer in layers:
        total = total + layer @ total
    return total


def cross_relevance(
    encoder: Float[Tensor, "l k k"], decoder: Float[Tensor, "m q q"], cross: Float[Tensor, "m q k"]
) -> Float[Tensor, "q k"]:
    """Chefer et al. 2021b, eqs. 6–10: the relevance of encoder token k for decoder position q.

    With d the decoder's positions and e the encoder's tokens, rows being what is explained: R^ee = `relevance` of the
    encoder; then each decoder layer, from R^dd = I and R^de = 0,
    by its own attention     R^de ← R^de + Ā R^de (eq. 7)    R^dd ← R^dd + Ā R^dd (eq. 6)
    by its cross attention   R^de ← R^de + (R̄^dd)ᵀ Ā R̄^ee (eq. 10), in the paper's orientation;
    eq. 11, R^dd ← R^dd + Ā R^ed, adds nothing because the encoder never reads the decoder: R^ed = 0.
    """
    r_dd = torch.eye(cross.shape[1], dtype=cross.dtype, device=cross.device)
    r_de = torch.zeros(cross.shape[1:], dtype=cross.dtype, device=cross.device)
    r_ee = _balanced(relevance(encoder))
    for self_layer, cross_layer in zip(decoder, cross, strict=True):
        r_de, r_dd = r_de + self_layer @ r_de, r_dd + self_layer @ r_dd
        r_de = r_de + _balanced(r_dd).T @ cross_layer @ r_ee
    return r_de


def _balanced(relevance: Float[Tensor, "t t"]) -> Float[Tensor, "t t"]:
    """Chefer et al. 2021b, eqs. 8–9: what was added to the identity, each row divided by its sum, and the identity."""
    identity = torch.eye(len(relevance), dtype=relevance.dtype, device=relevance.device)
    added = relevance - identity
    total = added.sum(-1, keepdim=True)
    return torch.where(total > 0, added / total, 0) + identity


def cosine_distance(u: Float[Tensor, "*b d"], v: Float[Tensor, "*b d"]) -> Float[Tensor, "*b"]:
    """1 − cos, as ½ ‖u − v‖² of the unit vectors: exactly 0 for equal vectors, without cancellation near 0."""
    unit_u, unit_v = (torch.nn.functional.normalize(x, dim=-1) for x in (u, v))
    return 0.5 * (unit_u - unit_v).pow(2).sum(-1)


def chain(layers: Float[Tensor, "l t t"]) -> Float[Tensor, "t t"]:
    """C_L ⋯ C_1: rollout of matrices that already include the residual connection."""
    total = torch.eye(layers.shape[-1], dtype=layers.dtype, device=layers.device)
    for layer in layers:
        total = layer @ total
    return total


def cross_chain(
    encoder: Float[Tensor, "l k k"], decoder: Float[Tensor, "m q q"], cross: Float[Tensor, "m q k"]
) -> Float[Tensor, "q k"]:
    """The same in an encoder-decoder; rows of decoder and cross, taken together, sum to one.

    As in `cross_rollout`, the share of the decoder's own input is left out.
    """
    read = torch.zeros(cross.shape[1:], dtype=cross.dtype, device=cross.device)
    below = chain(encoder)
    for mixing, reading in zip(decoder, cross, strict=True):
        read = mixing @ read + reading @ below
    return read
