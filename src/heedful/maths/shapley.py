"""Shapley values of a game on d features. Pure: which features stay and what the model said in, values out.

Beyond enumeration, coalitions come in pairs (a set and its complement), because a Shapley value depends on their
difference alone: exact for all that is additive or made of pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from heedful.core.errors import BadInput
from heedful.maths import kriging
from heedful.maths.lime import LISTED, allocated

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

RIVALS = 6  # sets among which the one most unlike its predecessors is taken


@dataclass(frozen=True)
class Values:
    """A Shapley value and its standard error for each feature; `operator[d,n]` makes the first out of the n values."""

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
    """The whole, nothing, then pairs of a set and its complement: rows 2k and 2k + 1.

    Sizes get their shares of the Shapley kernel, small ones are taken whole, no pair comes twice, and of several random
    sets the one least like those taken before is chosen.
    """
    sizes = range(1, d // 2 + 1)
    available = [comb(d, s) // (2 if 2 * s == d else 1) for s in sizes]
    shares = np.array([(0.5 if 2 * s == d else 1.0) / (s * (d - s)) for s in sizes])
    wanted = allocated(shares, available, (samples - 2) // 2)
    sets = [_sets(d, s, n, m, rng) for s, n, m in zip(sizes, wanted, available, strict=True)]
    small = np.concatenate([np.zeros((1, d), bool), *sets])
    return np.stack([~small, small], axis=1).reshape(-1, d)


def _sets(d: int, s: int, n: int, available: int, rng: np.random.Generator) -> Bools:
    """n different sets of size s; of size d/2, no two complementary."""
    halves = 2 * s == d
    if available <= max(LISTED, 4 * n):  # random sets would run out of new ones
        listed = [c for c in combinations(range(d), s) if not halves or 0 in c]
        pool = np.zeros((len(listed), d), bool)
        pool[np.arange(len(listed))[:, None], np.array(listed)] = True
        return pool if n >= available else _unlike(pool[rng.permutation(len(pool))], n)
    pool = rng.random((n * RIVALS, d)).argsort(1).argsort(1) < s
    if halves:
        pool ^= ~pool[:, :1]
    return _unlike(np.unique(pool, axis=0)[rng.permutation(len(np.unique(pool, axis=0)))], n)


def _unlike(pool: Bools, n: int) -> Bools:
    """n of the rows, each the least like those before it among the next few."""
    x = kriging.signs(pool)
    rivals = min(RIVALS, len(pool) // n)
    likeness = np.zeros(len(pool))
    free = np.ones(len(pool), bool)
    taken: list[int] = []
    for k in range(n):
        some = np.flatnonzero(free[k * rivals :])[:rivals] + k * rivals if rivals > 1 else np.array([k])
        best = int(some[likeness[some].argmin()])
        taken.append(best)
        free[best] = False
        if rivals > 1:
            ahead = slice((k + 1) * rivals, None)
            likeness[ahead] += (x[ahead] @ x[best]) ** 4
    return pool[taken]


def regressed(keep: Bools, values: Floats) -> Values:
    """KernelSHAP on pairs, under Σ scores = v(all) − v(none): least squares of half the differences within pairs.

    A pair weighs what the kernel gives to all sets of its size, divided among those that were drawn. Errors are those
    of a regression on a random design, and nothing for sizes that were taken whole.
    """
    d = keep.shape[1]
    x = kriging.signs(keep[3::2]) / 2  # the set's half of each pair but the first
    if len(x) < d or np.linalg.matrix_rank(np.r_[x, np.ones((1, d))]) < d:
        raise BadInput(f"{len(keep)} samples do not determine the scores of {d} words; ask for more, or use kriging.")
    size = keep[3::2].sum(1)
    drawn = np.bincount(size, minlength=d + 1)
    # subtle: of size d/2 there are half as many pairs as sets, so all of them together weigh half
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
    rest = (values[3::2] - values[2::2]) / 2 - x @ scores
    influence = to_pairs * rest
    # a size taken whole owes nothing to chance
    left = [1 - int(n) / (comb(d, s) // (2 if 2 * s == d else 1)) for s, n in enumerate(drawn)]
    variance = np.zeros(d)
    for s in np.unique(size):
        own = influence[:, size == s]
        n = own.shape[1]
        spread = ((own - own.mean(1, keepdims=True)) ** 2).sum(1) * n / (n - 1) if n > 1 else own[:, 0] ** 2
        variance += left[s] * spread * len(x) / (len(x) - d + 1)
    return Values(scores, np.sqrt(variance), operator)


def kriged(keep: Bools, values: Floats) -> Values:
    """The Shapley values of kriging's guess: what the differences within pairs say if words interact the less, the more
    they are. Strong words interact more: a first round finds them. The whole text is a pair, so the sum is right."""
    d = keep.shape[1]
    x = kriging.signs(keep[0::2])
    half = (values[0::2] - values[1::2]) / 2
    if not half.any():
        return Values(np.zeros(d), np.zeros(d), np.zeros((d, len(keep))))
    order = np.r_[0, 1 + np.random.default_rng(0).permutation(len(x) - 1)]
    rho = kriging.reach(x[order], half[order], odd=True)
    first = _guess(x, half, np.full(d, rho))
    strong = (first.scores**2 / np.mean(first.scores**2) + 0.05) ** 0.25
    strong = np.clip(strong / strong.mean(), 0.3, 3.0)
    return _guess(x, half, np.minimum(0.95, rho * strong))


def _guess(x: Floats, half: Floats, rho: Floats) -> Values:
    solved = kriging.solved(kriging.odd_covariance(x, x, rho), half)
    linked = kriging.shapley_covariance(x, rho)
    to_pairs = solved.applied(linked)
    left = np.maximum(kriging.shapley_variance(rho) - solved.reduction(linked), 0)
    operator = np.repeat(to_pairs / 2, 2, axis=1)
    operator[:, 1::2] *= -1
    return Values(linked @ solved.weights, np.sqrt(solved.variance * left), operator)
