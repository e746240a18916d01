"""Null spaces: ranks as rounding lets them be told, and how far a distribution can go without being noticed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.optimize import linprog
from torch import Tensor

Floats = NDArray[np.float64]
_NONE = 1e-9  # what a linear programme takes for zero
STEPS = 8  # of each search, at most; it stops before if a step gains nothing


def rank(matrix: Float[Tensor, "n d"], side: int, eps: float) -> int:
    """How many singular values are above largest · side · eps."""
    return int(_above(torch.linalg.svdvals(matrix), side, eps).sum())


def _above(singular: Float[Tensor, "r"], side: int, eps: float) -> Tensor:
    return singular > singular.amax() * side * eps if len(singular) else singular > 0


def reduced(values: Float[Tensor, "h n d"], out: Float[Tensor, "h d D"]) -> Float[Tensor, "h n r"]:
    """V H in min(d, D) columns: Hᵀ = Q R makes it (V Rᵀ) Qᵀ, and Qᵀ leaves null space and singular values alone."""
    triangle: Tensor = torch.linalg.qr(out.transpose(-1, -2))[1]
    return values @ triangle.transpose(-1, -2)


def constrained(matrix: Float[Tensor, "n d"], side: int, eps: float) -> Float[Tensor, "n m"]:
    """An orthonormal basis of {x: xᵀM = 0, Σx = 0}.

    M and the column of ones are brought to one size first, which moves no null space, so that neither of them decides
    what of the other is rounding.
    """
    size = torch.linalg.matrix_norm(matrix, 2)
    ones = matrix.new_full((len(matrix), 1), len(matrix) ** -0.5)
    both = torch.cat([matrix / size if size > 0 else matrix, ones], 1)
    left, singular, _ = torch.linalg.svd(both, full_matrices=True)
    basis: Tensor = left[:, int(_above(singular, side, eps).sum()) :]
    return basis


def effective_rank(matrix: Float[Tensor, "n d"], eps: float) -> float:
    """exp(entropy of the shares of variance by direction) of centred rows: n − 1 if all are equal, 1 on a line.

    The mean is taken off because it makes no difference to what attends with weights that add up to one. A condition
    number would tell of the least direction alone.
    """
    centred = matrix - matrix.mean(0)
    variance = torch.linalg.svdvals(centred).square()
    # subtle: equal rows leave rounding, which has an entropy too
    if float(variance.sum()) <= (eps * max(matrix.shape)) ** 2 * float(matrix.square().sum()):
        return float("nan")
    share = variance / variance.sum()
    return float(torch.exp(-torch.xlogy(share, share).sum()))


def pearson(one: Float[Tensor, "*n"], other: Float[Tensor, "*n"], eps: float) -> float:
    """Pearson's correlation of all numbers; NaN where either is constant but for rounding."""
    x, y = one.flatten(), other.flatten()
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
        """[n − m, n]: what has the same value on all of them."""
        found: Floats = np.linalg.svd(self.kernel, full_matrices=True)[0][:, self.kernel.shape[1] :].T
        return found

    def farthest(self, starts: int, rng: np.random.Generator) -> Floats:
        """One that is far away. To be the farthest is to maximise the convex ½ ‖δ‖₁, so that it is a corner.

        c·δ is maximised, a linear programme, for random signs c and their opposites; then for c = the signs of the δ
        that was found, as long as that gains anything. In one dimension there are two corners, and no search.
        """
        if self.kernel.shape[1] == 1:
            found = [self._stretched(self.kernel[:, 0]), self._stretched(-self.kernel[:, 0])]
        else:
            signs = rng.choice([-1.0, 1.0], (starts if self.kernel.shape[1] else 0, len(self.weights)))
            found = [self._climbed(c) for sign in signs for c in (sign, -sign)]
        return self.weights + max(found, key=_size, default=np.zeros_like(self.weights))

    def bound(self, tight: bool) -> float:
        """A total variation distance that none of them exceeds; exact in no dimension and in one."""
        if self.kernel.shape[1] <= 1:
            return _size(self.farthest(0, np.random.default_rng(0)) - self.weights)
        return self._relaxed() if tight else self._spanned()

    def _climbed(self, signs: Floats) -> Floats:
        """From one direction to a corner that no step of this kind improves."""
        best = np.zeros_like(self.weights)
        for _ in range(STEPS):
            found = linprog(-signs, A_eq=self.fixed, b_eq=self.fixed @ self.weights, bounds=(0, None), method="highs")
            if found.x is None:
                return best
            new = self._stretched(self.kernel @ (self.kernel.T @ (found.x - self.weights)), 1.0)
            if _size(new) <= _size(best) * (1 + 1e-6):
                return best
            best, signs = new, np.sign(new)
        return best

    def _stretched(self, direction: Floats, most: float = np.inf) -> Floats:
        """As far in a direction as no weight becomes negative, `most` times it at most."""
        down = direction < 0
        room = float(np.min(self.weights[down] / -direction[down], initial=most))
        return direction * (room if np.isfinite(room) else 0.0)

    def _spanned(self) -> float:
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

    def _relaxed(self) -> float:
        """The linear relaxation of the exact programme, with the range [−low_i, high_i] of each δ_i.

        max Σ q with p − q in the kernel and p_i / high_i + q_i / low_i ≤ 1; the truth has p_i = 0 or q_i = 0.
        """
        low = np.maximum(self.weights - np.array([self._least(c) for c in np.eye(len(self.weights))]), _NONE)
        high = np.maximum(np.array([-self._least(-c) for c in np.eye(len(self.weights))]) - self.weights, _NONE)
        n = len(self.weights)
        found = linprog(
            -np.repeat([0.0, 1.0], n),
            A_ub=np.hstack([np.diag(1 / high), np.diag(1 / low)]),
            b_ub=np.ones(n),
            A_eq=np.hstack([self.fixed, -self.fixed]),
            b_eq=np.zeros(len(self.fixed)),
            bounds=[(0, x) for x in (*high, *low)],
            method="highs",
        )
        boxes = float(min(low.sum(), high.sum(), 1.0))
        return boxes if found.fun is None else min(boxes, float(-found.fun))

    def _least(self, c: Floats) -> float:
        """min c · α over all of them; no number of it is outside [−1, 1]."""
        found = linprog(c, A_eq=self.fixed, b_eq=self.fixed @ self.weights, bounds=(0, None), method="highs")
        return float(c.clip(max=0).sum()) if found.fun is None else float(found.fun)


def _size(delta: Floats) -> float:
    return float(np.abs(delta).sum() / 2)
