"""Shapley values of a game on d features. Pure: which features are kept and the model's values in, Shapley values out.

Beyond enumeration, coalitions come in pairs (a set and its complement), because a Shapley value depends on their
difference only: exact for games with interactions of at most two features.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

from heedful.core.arrays import Bools, Floats
from heedful.core.errors import BadInput
from heedful.maths import kriging
from heedful.maths.lime import MAX_LISTED_SUBSETS, allocate, subsets_of_size

POOL_FACTOR = 6  # random sets per chosen one: the least similar to those before is chosen


@dataclass(frozen=True)
class Values:
    """A Shapley value and its standard error for each feature; scores = `operator[d,n]` @ values."""

    scores: Floats
    errors: Floats
    operator: Floats


def all_subsets(d: int) -> Bools:
    """All 2^d sets, feature i in row r if bit i of r is set."""
    return ((np.arange(2**d)[:, None] >> np.arange(d)) & 1).astype(bool)


def enumerated(values: Floats) -> Values:
    """Shapley 1953: Σ over sets without i of |S|! (d−|S|−1)! / d! · (v(S + i) − v(S)), from all 2^d values."""
    d = len(values).bit_length() - 1
    keep = all_subsets(d)
    size = keep.sum(1)
    with_i = np.array([0.0, *(1 / (d * comb(d - 1, s - 1)) for s in range(1, d + 1))])[size]
    without = np.array([*(1 / (d * comb(d - 1, s)) for s in range(d)), 0.0])[size]
    operator = np.where(keep, with_i[:, None], -without[:, None]).T
    return Values(operator @ values, np.zeros(d), operator)


def coalitions(d: int, samples: int, rng: np.random.Generator) -> Bools:
    """The full set, the empty set, then pairs of a set and its complement: rows 2k and 2k + 1.

    Sizes get their shares of the Shapley kernel, small sizes are enumerated, no pair comes twice, and of several random
    sets the one least similar to those before is chosen.
    """
    sizes = range(1, d // 2 + 1)
    available = [comb(d, s) // (2 if 2 * s == d else 1) for s in sizes]
    shares = np.array([(0.5 if 2 * s == d else 1.0) / (s * (d - s)) for s in sizes])
    wanted = allocate(shares, available, (samples - 2) // 2)
    sets = [_sets(d, s, n, m, rng) for s, n, m in zip(sizes, wanted, available, strict=True)]
    small = np.concatenate([np.zeros((1, d), bool), *sets])
    return np.stack([~small, small], axis=1).reshape(-1, d)


def _sets(d: int, s: int, n: int, available: int, rng: np.random.Generator) -> Bools:
    """n different sets of size s; of size d/2, no two complementary."""
    halves = 2 * s == d
    if available <= max(MAX_LISTED_SUBSETS, 4 * n):  # random draws would repeat sets
        pool = subsets_of_size(d, s)
        pool = pool[pool[:, 0]] if halves else pool
        return pool if n >= available else _dissimilar(pool[rng.permutation(len(pool))], n)
    pool = rng.random((n * POOL_FACTOR, d)).argsort(1).argsort(1) < s
    if halves:
        pool ^= ~pool[:, :1]
    distinct = np.unique(pool, axis=0)
    return _dissimilar(distinct[rng.permutation(len(distinct))], n)


def _dissimilar(pool: Bools, n: int) -> Bools:
    """n of the rows, each the least similar to those before it among the next few."""
    x = kriging.signs(pool)
    window = min(POOL_FACTOR, len(pool) // n)
    similarity = np.zeros(len(pool))
    free = np.ones(len(pool), bool)
    chosen: list[int] = []
    for k in range(n):
        candidates = np.flatnonzero(free[k * window :])[:window] + k * window if window > 1 else np.array([k])
        best = int(candidates[similarity[candidates].argmin()])
        chosen.append(best)
        free[best] = False
        if window > 1:
            ahead = slice((k + 1) * window, None)
            similarity[ahead] += (x[ahead] @ x[best]) ** 4
    return pool[chosen]


def regressed(keep: Bools, values: Floats) -> Values:
    """KernelSHAP on pairs, under Σ scores = v(all) − v(none): least squares of half the differences within pairs.

    The weight of a pair is the kernel's weight of all sets of its size, divided by the number drawn. Errors are those
    of a regression on a random design, and 0 for sizes that were enumerated.
    """
    d = keep.shape[1]
    x = kriging.signs(keep[3::2]) / 2  # the set of each pair, without the first pair
    if len(x) < d or np.linalg.matrix_rank(np.r_[x, np.ones((1, d))]) < d:
        raise BadInput(f"{len(keep)} samples do not determine the scores of {d} words; use more, or kriging.")
    size = keep[3::2].sum(1)
    drawn = np.bincount(size, minlength=d + 1)
    # subtle: of size d/2 there are half as many pairs as sets, so their total weight is half
    share = np.array([0.0, *((0.5 if 2 * s == d else 1.0) / (s * (d - s)) for s in range(1, d)), 0.0])
    weights = (share / np.maximum(drawn, 1))[size]
    normal = (x * weights[:, None]).T @ x + 1e-12 * np.eye(d) * weights.sum()
    half = np.linalg.solve(normal, (x * weights[:, None]).T)  # unconstrained: scores = half @ differences / 2
    ones = np.linalg.solve(normal, np.ones(d))
    project = np.outer(ones, np.ones(d)) / ones.sum()
    to_pairs = half - project @ half
    operator = np.zeros((d, len(keep)))
    operator[:, 3::2], operator[:, 2::2] = to_pairs / 2, -to_pairs / 2
    operator[:, 0], operator[:, 1] = ones / ones.sum(), -ones / ones.sum()
    scores = operator @ values
    residual = (values[3::2] - values[2::2]) / 2 - x @ scores
    influence = to_pairs * residual
    # an enumerated size has no sampling error
    not_drawn = [1 - int(n) / (comb(d, s) // (2 if 2 * s == d else 1)) for s, n in enumerate(drawn)]
    variance = np.zeros(d)
    for s in np.unique(size):
        drawn_here = influence[:, size == s]
        n = drawn_here.shape[1]
        centred = drawn_here - drawn_here.mean(1, keepdims=True)
        spread = (centred**2).sum(1) * n / (n - 1) if n > 1 else drawn_here[:, 0] ** 2
        variance += not_drawn[s] * spread * len(x) / (len(x) - d + 1)
    return Values(scores, np.sqrt(variance), operator)


def kriged(keep: Bools, values: Floats) -> Values:
    """The Shapley values of kriging's prediction, from the differences within pairs.

    Strong words interact more: a first round finds them. The full and the empty set are a pair, so the sum is exact.
    """
    d = keep.shape[1]
    x = kriging.signs(keep[0::2])
    half = (values[0::2] - values[1::2]) / 2
    if not half.any():
        return Values(np.zeros(d), np.zeros(d), np.zeros((d, len(keep))))
    order = np.r_[0, 1 + np.random.default_rng(0).permutation(len(x) - 1)]
    rho = kriging.best_rho(x[order], half[order], odd=True)
    first = _predicted(x, half, np.full(d, rho))
    strong = (first.scores**2 / np.mean(first.scores**2) + 0.05) ** 0.25
    strong = np.clip(strong / strong.mean(), 0.3, 3.0)
    return _predicted(x, half, np.minimum(0.95, rho * strong))


def _predicted(x: Floats, half: Floats, rho: Floats) -> Values:
    solved = kriging.solved(kriging.odd_covariance(x, x, rho), half)
    covariance = kriging.shapley_covariance(x, rho)
    to_pairs = solved.applied(covariance)
    remaining = np.maximum(kriging.shapley_variance(rho) - solved.reduction(covariance), 0)
    operator = np.repeat(to_pairs / 2, 2, axis=1)
    operator[:, 1::2] *= -1
    return Values(covariance @ solved.weights, np.sqrt(solved.variance * remaining), operator)
