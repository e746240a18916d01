"""Null spaces: numerical ranks, and how far a distribution can move inside a null space. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import linprog
from torch import Tensor

from heedful.core.arrays import Floats

_LP_ZERO = 1e-9  # the tolerance of a linear program
MAX_CLIMB_STEPS = 8  # of each search; it stops earlier without an improvement


def numerical_rank(matrix: Float[Tensor, "n d"], side: int, eps: float) -> int:
    """The number of singular values above largest · side · eps."""
    return int(_above(torch.linalg.svdvals(matrix), side, eps).sum())


def _above(singular: Float[Tensor, "r"], side: int, eps: float) -> Tensor:
    return singular > singular.amax() * side * eps if len(singular) else singular > 0


def reduced(values: Float[Tensor, "h n d"], out: Float[Tensor, "h d D"]) -> Float[Tensor, "h n r"]:
    """V H in min(d, D) columns: with Hᵀ = Q R it is (V Rᵀ) Qᵀ, and Qᵀ changes no null space and no singular value."""
    triangle: Tensor = torch.linalg.qr(out.transpose(-1, -2))[1]
    return values @ triangle.transpose(-1, -2)


def constrained(matrix: Float[Tensor, "n d"], side: int, eps: float) -> Float[Tensor, "n m"]:
    """An orthonormal basis of {x: xᵀM = 0, Σx = 0}.

    M and the column of ones are scaled to the same size first, which changes no null space, so that the rank tolerance
    of one does not depend on the other.
    """
    size = torch.linalg.matrix_norm(matrix, 2)
    ones = matrix.new_full((len(matrix), 1), len(matrix) ** -0.5)
    both = torch.cat([matrix / size if size > 0 else matrix, ones], 1)
    left, singular, _ = torch.linalg.svd(both, full_matrices=True)
    basis: Tensor = left[:, int(_above(singular, side, eps).sum()) :]
    return basis


def effective_rank(matrix: Float[Tensor, "n d"], eps: float) -> float:
    """exp(entropy of the shares of variance by direction) of centred rows: n − 1 if all are equal, 1 on a line.

    The mean is subtracted because weights that sum to one do not depend on it. A condition number would describe the
    smallest direction only.
    """
    centred = matrix - matrix.mean(0)
    variance = torch.linalg.svdvals(centred).square()
    # subtle: equal rows leave only rounding errors, which also have an entropy
    if float(variance.sum()) <= (eps * max(matrix.shape)) ** 2 * float(matrix.square().sum()):
        return float("nan")
    share = variance / variance.sum()
    return float(torch.exp(-torch.xlogy(share, share).sum()))


def pearson(a: Float[Tensor, "*n"], b: Float[Tensor, "*n"], eps: float) -> float:
    """Pearson's correlation of all numbers; NaN where either is constant up to rounding."""
    x, y = a.flatten(), b.flatten()
    size = float(x.abs().max())
    if min(float(v.max() - v.min()) for v in (x, y)) <= 8 * eps * size:
        return float("nan")
    x, y = x - x.mean(), y - y.mean()
    return float((x @ y / (x.norm() * y.norm())).clamp(-1, 1))


@dataclass(frozen=True)
class Around:
    """The distributions that differ from `weights` [n] by a combination of `kernel` [n,m], orthonormal columns."""

    weights: Floats
    kernel: Floats

    @cached_property
    def fixed(self) -> Floats:
        """[n − m, n]: linear forms that are constant on all of them."""
        forms: Floats = np.linalg.svd(self.kernel, full_matrices=True)[0][:, self.kernel.shape[1] :].T
        return forms

    def farthest(self, starts: int, rng: np.random.Generator) -> Floats:
        """A distribution far from `weights`. The farthest maximises the convex ½ ‖δ‖₁, so it is a vertex.

        A linear program maximises c·δ for random signs c and their opposites; then for c = the signs of its solution δ,
        as long as this improves. In one dimension there are two vertices, and no search.
        """
        if self.kernel.shape[1] == 1:
            deltas = [self._stretched(self.kernel[:, 0]), self._stretched(-self.kernel[:, 0])]
        else:
            signs = rng.choice([-1.0, 1.0], (starts if self.kernel.shape[1] else 0, len(self.weights)))
            deltas = [self._climb(c) for sign in signs for c in (sign, -sign)]
        return self.weights + max(deltas, key=_tvd, default=np.zeros_like(self.weights))

    def bound(self, tight: bool) -> float:
        """A total variation distance that none of them exceeds; exact in no dimension and in one."""
        if self.kernel.shape[1] <= 1:
            return _tvd(self.farthest(0, np.random.default_rng(0)) - self.weights)
        return self._relaxation_bound() if tight else self._span_bound()

    def _climb(self, signs: Floats) -> Floats:
        """From one direction to a vertex that no step of this kind improves."""
        best = np.zeros_like(self.weights)
        for _ in range(MAX_CLIMB_STEPS):
            solution = linprog(
                -signs, A_eq=self.fixed, b_eq=self.fixed @ self.weights, bounds=(0, None), method="highs"
            )
            if solution.x is None:
                return best
            new = self._stretched(self.kernel @ (self.kernel.T @ (solution.x - self.weights)), 1.0)
            if _tvd(new) <= _tvd(best) * (1 + 1e-6):
                return best
            best, signs = new, np.sign(new)
        return best

    def _stretched(self, direction: Floats, limit: float = np.inf) -> Floats:
        """The direction, scaled until a weight reaches 0, at most by `limit`."""
        down = direction < 0
        factor = float(np.min(self.weights[down] / -direction[down], initial=limit))
        return direction * (factor if np.isfinite(factor) else 0.0)

    def _span_bound(self) -> float:
        """The largest s with s ≤ Σ min(weight_i, s · r_i), where r_i is the range of row i of P = kernel kernelᵀ.

        δ = P δ and Σδ⁺ = Σδ⁻ = s give |δ_i| ≤ s r_i; and s = Σδ⁻ with δ⁻_i ≤ weight_i.
        """
        rows = self.kernel @ self.kernel.T
        spans, s = rows.max(1) - rows.min(1), 1.0
        for _ in range(1000):
            new = float(np.minimum(self.weights, s * spans).sum())
            if new >= s * (1 - 1e-12):
                break
            s = new
        return s

    def _relaxation_bound(self) -> float:
        """The linear relaxation of the exact program, with the range [−low_i, high_i] of each δ_i.

        max Σ q with p − q in the kernel and p_i / high_i + q_i / low_i ≤ 1; the truth has p_i = 0 or q_i = 0.
        """
        low = np.maximum(self.weights - np.array([self._minimum(c) for c in np.eye(len(self.weights))]), _LP_ZERO)
        high = np.maximum(np.array([-self._minimum(-c) for c in np.eye(len(self.weights))]) - self.weights, _LP_ZERO)
        n = len(self.weights)
        solution = linprog(
            -np.repeat([0.0, 1.0], n),
            A_ub=np.hstack([np.diag(1 / high), np.diag(1 / low)]),
            b_ub=np.ones(n),
            A_eq=np.hstack([self.fixed, -self.fixed]),
            b_eq=np.zeros(len(self.fixed)),
            bounds=[(0, x) for x in (*high, *low)],
            method="highs",
        )
        boxes = float(min(low.sum(), high.sum(), 1.0))
        return boxes if solution.fun is None else min(boxes, float(-solution.fun))

    def _minimum(self, c: Floats) -> float:
        """min c · α over all of them; no number of it is outside [−1, 1]."""
        solution = linprog(c, A_eq=self.fixed, b_eq=self.fixed @ self.weights, bounds=(0, None), method="highs")
        return float(c.clip(max=0).sum()) if solution.fun is None else float(solution.fun)


def _tvd(delta: Floats) -> float:
    return float(np.abs(delta).sum() / 2)
