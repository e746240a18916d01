"""Rank correlations of two scorings at a time: what heedful.maths.ranks computes for all pairs at once."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata, weightedtau

from heedful.core.arrays import Bools, Floats

NAN = float("nan")


def spearman(a: Floats, b: Floats) -> float:
    """Spearman's ρ: Pearson's r of the ranks, tied ones shared. NaN where either is constant."""
    if not _ordered(a, b):
        return NAN
    one, other = (rankdata(x) - (len(x) + 1) / 2 for x in (a, b))
    return float(np.clip(one @ other / np.sqrt((one @ one) * (other @ other)), -1, 1))


def weighted_tau(a: Floats, b: Floats) -> float:
    """Vigna 2015: τ in which swaps among the first count more, 1/(1 + rank) for each of two, added.

    Symmetric: the mean of weighting by the places in a (ties by b) and by those in b (ties by a). NaN where either is
    constant.
    """
    return float(weightedtau(a, b, rank=True).statistic) if _ordered(a, b) else NAN


def top_k_tau(a: Floats, b: Floats, k: int) -> float:
    """1 − 2 K/K_max for the k highest of a and of b, where K is the K^(½) of Fagin, Kumar and Sivakumar 2003.

    K counts pairs that either list mentions: 1 where the lists contradict each other (what a list leaves out comes
    after what it mentions), ½ where only one list has an order for the two. K_max is the most that lists of these
    lengths out of n can reach (reversed if k = n, disjoint if n ≥ 2k). So 1 is the same list in the same order and −1
    the most different; at k = n without ties it is Kendall's τ. For k < n two random orders do not give 0 but less:
    their lists share little. Scores that tie across the k-th place are in no list, since chance alone could pick among
    them. NaN where this leaves a list empty, and where a or b is constant.
    """
    if not _ordered(a, b):
        return NAN
    mine, yours = _top(a, k), _top(b, k)
    if not mine.any() or not yours.any():
        return NAN
    either = mine | yours
    one, other = (rankdata(np.where(top, x, -np.inf)[either]) for top, x in ((mine, a), (yours, b)))
    unlike = np.abs(np.sign(one[:, None] - one) - np.sign(other[:, None] - other))
    penalty = unlike.sum() / 4  # each pair is met twice, and a contradiction is a difference of 2
    return float(1 - 2 * penalty / _most(len(a), int(mine.sum()), int(yours.sum())))


def _top(scores: Floats, k: int) -> Bools:
    """Which are surely among the k highest."""
    if not 0 < k < len(scores):
        return np.full(len(scores), k > 0)
    last, next_one = np.sort(scores)[::-1][k - 1 : k + 1]
    return np.asarray(scores >= last if last > next_one else scores > last)


def _most(n: int, mine: int, yours: int) -> float:
    """The largest K^(½) of two lists out of n: what must be shared comes last in both, in opposite orders."""
    shared = max(0, mine + yours - n)
    one, other = mine - shared, yours - shared
    contradicted = _pairs(shared) + shared * (one + other) + one * other
    return contradicted + (_pairs(one) + _pairs(other)) / 2


def _pairs(n: int) -> float:
    return n * (n - 1) / 2


def _ordered(a: Floats, b: Floats) -> bool:
    return len(a) > 1 and all(bool(x.min() < x.max()) for x in (a, b))
