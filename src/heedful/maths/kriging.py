"""Kriging: predictions of a model's value for every set of words, from the sets that were run. Pure.

A set of words is a vector x of ±1. The prediction is that of a Gaussian process in which interactions of many words are
small: covariance Π(1 + ρᵢ xᵢ x′ᵢ), so a product of k words has variance ρᵏ (Walsh functions as random effects).
Any linear function of the values (a Shapley value, a coefficient of LIME) then has a mean and a standard error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import gammaln
from scipy.stats import binom

from heedful.core.arrays import Bools, Floats

Signs = Floats

RHO_GRID = (0.01, 0.05, 0.2, 0.4, 0.7, 1.1, 1.6, 2.3, 3.2, 4.4)  # ρ · number of words; the first is an additive model
MAX_NODES = 16  # of an integral over [0, 1]
JITTER = 1e-9  # relative to the mean of the diagonal
RHO_SETS = 500  # sets of words on which ρ is chosen
MEAN_VARIANCE = 10.0  # variance of the mean of all values, in units of the others


def signs(keep: Bools) -> Signs:
    """Which words are kept, as ±1."""
    return np.where(keep, 1.0, -1.0)


def covariance(x: Signs, y: Signs, rho: Floats) -> Floats:
    """Π(1 + ρᵢ xᵢ yᵢ) for every pair of rows."""
    plus, minus = np.log1p(rho), np.log1p(-rho)
    return np.asarray(np.exp(0.5 * (plus + minus).sum() + (x * (0.5 * (plus - minus))) @ y.T))


def odd_covariance(x: Signs, y: Signs, rho: Floats) -> Floats:
    """Its odd part, which changes sign when every word does: products of 1, 3, 5 … words."""
    return (covariance(x, y, rho) - covariance(x, y, -rho)) / 2


@dataclass(frozen=True)
class Solved:
    """K⁻¹y by Cholesky, with its variance and log-likelihood."""

    factor: Floats
    weights: Floats
    variance: float
    likelihood: float

    def residuals(self) -> Floats:
        """Leave-one-out residuals: each value minus its prediction from the others."""
        return np.asarray(self.weights / np.diag(self.applied(np.eye(len(self.factor)))))

    def reduction(self, covariances: Floats) -> Floats:
        """The reduction of the prior variance by the values, for each row of [k,n] covariances."""
        return np.asarray((solve_triangular(self.factor, covariances.T, lower=True) ** 2).sum(0))

    def applied(self, covariances: Floats) -> Floats:
        """[k,n] covariances -> the weights [k,n] of the values in each of k predictions."""
        return np.asarray(cho_solve((self.factor, True), covariances.T).T)


def solved(matrix: Floats, values: Floats) -> Solved:
    """K⁻¹y, with a small jitter on the diagonal."""
    n = len(values)
    factor, _ = cho_factor(matrix + JITTER * np.trace(matrix) / n * np.eye(n), lower=True)
    factor = np.tril(factor)
    half = solve_triangular(factor, values, lower=True)
    variance = max(float(half @ half) / n, 1e-300)
    weights = solve_triangular(factor, half, lower=True, trans="T")
    likelihood = -0.5 * n * np.log(variance) - float(np.log(np.diag(factor)).sum())
    return Solved(factor, weights, variance, likelihood)


def best_rho(x: Signs, values: Floats, odd: bool) -> float:
    """The maximum-likelihood ρ, the same for all words."""
    d = x.shape[1]
    x, values = x[:RHO_SETS], values[:RHO_SETS]
    grid = sorted({min(0.9, r / d) for r in RHO_GRID})
    matrices = ((odd_covariance if odd else with_level)(x, x, np.full(d, rho)) for rho in grid)
    likelihoods = [solved(matrix, values).likelihood for matrix in matrices]
    return float(grid[int(np.argmax(likelihoods))])


def with_level(x: Signs, y: Signs, rho: Floats) -> Floats:
    """The covariance of values whose mean over all sets is almost unknown."""
    return covariance(x, y, rho) + MEAN_VARIANCE - 1


# Shapley values of Π xᵢ over a set of k words: 2/k for each of them if k is odd, 0 if it is even.


def _nodes(d: int) -> tuple[Floats, Floats]:
    """Nodes on [0, 1]: exact up to 2 · MAX_NODES words, and up to rounding beyond, where Σρ is small."""
    nodes, weights = np.polynomial.legendre.leggauss(min(d // 2 + 1, MAX_NODES))
    return (nodes + 1) / 2, weights / 2


def shapley_covariance(x: Signs, rho: Floats) -> Floats:
    """[d,n]: of each Shapley value with the odd part of the value at x: Σ 2/|A| ρ^A x_A over odd A that contain i.

    1/|A| = ∫ t^(|A|−1) dt turns the sum over sets into an integral over products.
    """
    covariances = np.zeros((x.shape[1], len(x)))
    for t, weight in zip(*_nodes(x.shape[1]), strict=True):
        up, down = np.log1p(t * rho * x), np.log1p(-t * rho * x)
        others = np.exp(up.sum(1, keepdims=True) - up) + np.exp(down.sum(1, keepdims=True) - down)
        covariances += weight * (rho * x * others).T
    return covariances


def shapley_variance(rho: Floats) -> Floats:
    """[d]: prior variance of each Shapley value: Σ 4/|A|² ρ^A over odd A that contain i."""
    nodes, weights = _nodes(len(rho))
    t, weight = np.outer(nodes, nodes).ravel(), np.outer(weights, weights).ravel()
    up, down = np.log1p(np.outer(t, rho)), np.log1p(-np.outer(t, rho))
    others = np.exp(up.sum(1, keepdims=True) - up) + np.exp(down.sum(1, keepdims=True) - down)
    return np.asarray(2 * rho * (weight @ others))


# LIME: the population coefficients are linear in the value, and sums over sets reduce to sizes and overlaps.


def size_covariances(d: int, rho: float, weight: Floats) -> tuple[Floats, Floats, Floats]:
    """Σ over all sets S′ of weight[|S′|] · covariance(S, S′), for each size of S; then over those S′ that contain a
    word of S, and over those that contain a word not in S. `weight[s]` is the total weight of all sets of s words."""
    share = weight * np.arange(d + 1) / d
    less = _by_size(d - 1, rho)
    inside = np.r_[0.0, (1 + rho) * less @ share[1:]]
    outside = np.r_[(1 - rho) * less @ share[1:], 0.0]
    return _by_size(d, rho) @ weight, inside, outside


def _by_size(d: int, rho: float) -> Floats:
    """[m,s]: the mean covariance of a set of m out of d words with the sets of s words.

    Σ over sets of s is the coefficient of uˢ in ((1−ρ) + (1+ρ)u)ᵐ ((1+ρ) + (1−ρ)u)ᵈ⁻ᵐ, a product of two binomials.
    """
    sizes = np.arange(d + 1)
    logs = d * np.log(2) - (gammaln(d + 1) - gammaln(sizes + 1) - gammaln(d - sizes + 1))
    rows = [
        np.convolve(binom.pmf(sizes[: m + 1], m, (1 + rho) / 2), binom.pmf(sizes[: d - m + 1], d - m, (1 - rho) / 2))
        for m in sizes
    ]
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(np.log(np.array(rows)) + logs))
