"""Pairwise: how far m scorings of the same n words agree, for all pairs at once. Pure: rows[m,n] in, matrices[m,m] out.

In the time of a few matrix products. One table does most of it:
C[i,a,b] = Σ_j sgn(a_i − a_j) sgn(b_i − b_j), on how many more words i and j do a and b agree than they contradict each
other; C[i,a,a] is how many words a tells from word i.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import rankdata

Floats = NDArray[np.float64]
ROUNDING = 1e-6  # float32 has 1.2e-7, and a score is computed in several steps
EXACT = 33  # words, up to which p is exact where nothing is tied, as in scipy


def tied(rows: Float[Floats, "m n"]) -> Float[Floats, "m n"]:
    """Scores that differ by rounding only, relative to themselves, made equal: a softmax of equal numbers is not flat.

    Small scores keep their order: 1e-9 and 2e-9 are different numbers in float32.
    """
    order = np.argsort(rows, axis=1, kind="stable")
    rising = np.take_along_axis(rows, order, axis=1)
    size = np.maximum(np.abs(rising[:, 1:]), np.abs(rising[:, :-1]))
    new = np.diff(rising, axis=1) > ROUNDING * size
    first = np.maximum.accumulate(np.pad(np.where(new, np.arange(1, rows.shape[1]), 0), ((0, 0), (1, 0))), axis=1)
    found = np.empty_like(rows)
    np.put_along_axis(found, order, np.take_along_axis(rising, first, axis=1), axis=1)
    return found


def concordance(rows: Float[Floats, "m n"]) -> Float[Floats, "n m m"]:
    """C, see above; whole numbers of at most n, which float32 holds exactly."""
    table = np.empty((rows.shape[1], len(rows), len(rows)))
    for i in range(rows.shape[1]):
        signs = np.sign(rows[:, i : i + 1] - rows).astype(np.float32)
        table[i] = signs @ signs.T
    return table


def tau_b(table: Float[Floats, "n m m"]) -> Float[Floats, "m m"]:
    """Kendall's tau-b; NaN where either is constant."""
    total = table.sum(0)
    return _ratio(total, _own(total)[:, None] * _own(total))


def significance(table: Float[Floats, "n m m"]) -> Float[Floats, "m m"]:
    """The two-sided p of tau-b as scipy's kendalltau has it: exact for up to 33 words without ties, else normal.

    Of more than 33 words, scipy takes p as exact also where all pairs, or all but one, agree: both are next to 0.
    """
    n = len(table)
    total = table.sum(0) / 2
    ties = n - np.diagonal(table, axis1=1, axis2=2)  # of each word, how many have its score, with itself
    with np.errstate(all="ignore"):
        p = 2 * ndtr(-np.abs(total) / np.sqrt(_variance(ties, n)))
    free = (ties == 1).all(0)
    if n <= EXACT:
        pairs = n * (n - 1) // 2
        fewer = np.rint((pairs - np.abs(total)) / 2).astype(int)
        p = np.where(free[:, None] & free, np.minimum(1, 2 * _inversions(n)[fewer]), p)
    return np.where(np.isnan(tau_b(table)), np.nan, p)


def _variance(ties: Float[Floats, "n m"], n: int) -> Floats:
    """Of agreeing less contradicting pairs, with ties (Kendall 1970, §4): what sums over ties is summed over words."""
    two, three, five = (((ties - 1) * other).sum(0) for other in (1, ties - 2, 2 * ties + 5))
    m = n * (n - 1)
    found: Floats = (
        (m * (2 * n + 5) - five[:, None] - five) / 18
        + two[:, None] * two / (2 * m)
        + three[:, None] * three / (9 * m * (n - 2))
    )
    return found


@cache
def _inversions(n: int) -> Floats:
    """P(a random order of n has at most k inversions), k = 0, 1, …"""
    chances = np.ones(1)
    for i in range(2, n + 1):
        chances = np.convolve(chances, np.full(i, 1 / i))
    return np.cumsum(chances)


def weighted_tau(table: Float[Floats, "n m m"], rows: Float[Floats, "m n"]) -> Float[Floats, "m m"]:
    """Vigna 2015: pairs count by 1/rank of both words, 1 the highest; mean of ranks by (a, then b) and (b, then a)."""
    n, m = len(table), len(rows)
    found = np.empty((m, m))
    own = np.diagonal(table, axis1=1, axis2=2)
    for a in range(m):
        first = np.broadcast_to(rows[a], rows.shape)
        order = np.lexsort((rows, first), axis=-1)[:, ::-1]
        weights = np.empty((m, n))
        np.put_along_axis(weights, order, np.broadcast_to(1 / np.arange(1, n + 1), (m, n)), axis=1)
        found[a] = _ratio((weights.T * table[:, a]).sum(0), (weights @ own[:, a]) * (weights.T * own).sum(0))
    return (found + found.T) / 2


def members(rows: Float[Floats, "m n"], k: int) -> Float[Floats, "m n"]:
    """How surely each word is among the k highest: words tied at the k-th place share what is left of the places."""
    above = _above(rows)
    found: Floats = np.clip((k - above) / (rows.shape[1] - above - _above(-rows)), 0, 1)
    return found


def _above(rows: Floats) -> Floats:
    """How many words stand above each."""
    return np.asarray(rankdata(-rows, method="min", axis=1) - 1)


def overlap(rows: Float[Floats, "m n"], k: int) -> Float[Floats, "m m"]:
    """The share of the k highest words that two have in common, ties at the k-th place broken at random: its mean.

    NaN where one is constant, or k takes all words: there is nothing to choose then.
    """
    if k >= rows.shape[1]:
        return np.full((len(rows), len(rows)), np.nan)
    inside = members(rows, k)
    return _but_constant(inside @ inside.T / k, rows)


def top_k_tau(rows: Float[Floats, "m n"], k: int) -> Float[Floats, "m m"]:
    """1 − 2 K/K_max after Fagin et al. 2003, from 1 (the same lists) to −1; NaN also where either is constant.

    K is Σ |s − t| / 2 over pairs of words, s and t their signs in the two lists; |s − t| = s² + t² − s²t² − st. Pairs
    of which neither list mentions one word do not count: each was ½ where one list alone mentions the other word.
    """
    inside = members(rows, k) == 1  # words that tie across the k-th place are in no list
    lists = rankdata(np.where(inside, rows, -np.inf), axis=1)
    signed, told = np.zeros((len(rows), len(rows))), np.zeros((len(rows), len(rows)))
    for i in range(rows.shape[1]):
        signs = np.sign(lists[:, i : i + 1] - lists).astype(np.float32)
        signed += signs @ signs.T
        told += np.abs(signs) @ np.abs(signs).T
    own = np.diagonal(signed)
    both = inside.astype(float) @ inside.T
    single = inside.sum(1)[:, None] + inside.sum(1) - 2 * both
    unmentioned = rows.shape[1] - single - both
    penalty = (own[:, None] + own - told - signed) / 4 - single * unmentioned / 2
    return _but_constant(1 - 2 * _share(penalty, _most(rows.shape[1], inside.sum(1))), rows)


def _most(n: int, sizes: NDArray[np.int64]) -> Floats:
    """The largest K of two lists of these sizes out of n; NaN where either is empty."""
    mine, yours = sizes[:, None].astype(float), sizes.astype(float)
    shared = np.maximum(0, mine + yours - n)
    one, other = mine - shared, yours - shared
    single = (shared * (shared - 1) + (one * (one - 1) + other * (other - 1)) / 2) / 2
    return np.where((mine > 0) & (yours > 0), single + shared * (one + other) + one * other, np.nan)


def _share(part: Floats, whole: Floats) -> Floats:
    found: Floats = np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)
    return found


def spearman(rows: Float[Floats, "m n"]) -> Float[Floats, "m m"]:
    """The correlation of ranks, ties at their mean; NaN where either is constant."""
    ranks = rankdata(rows, axis=1)
    off: Floats = ranks - (rows.shape[1] + 1) / 2
    products = off @ off.T
    return _ratio(products, _own(products)[:, None] * _own(products))


def jensen_shannon(rows: Float[Floats, "m n"]) -> Float[Floats, "m m"]:
    """Jensen–Shannon divergence of |scores| that add up to one, natural logarithm; NaN where all are zero."""
    with np.errstate(invalid="ignore"):
        shares = np.abs(rows) / np.abs(rows).sum(1, keepdims=True)
    own = _entropy(shares)
    found = np.array([_entropy((shares + one) / 2) - (own + its) / 2 for one, its in zip(shares, own, strict=True)])
    positive: Floats = np.maximum(found, 0)
    return positive


def _entropy(shares: Floats) -> Floats:
    found: Floats = -(shares * np.log(np.where(shares > 0, shares, 1))).sum(-1)
    return found


def _own(table: Floats) -> Floats:
    return np.diagonal(table)


def _but_constant(found: Floats, rows: Floats) -> Floats:
    flat = (rows == rows[:, :1]).all(1)
    return np.where(flat[:, None] | flat, np.nan, found)


def _ratio(products: Floats, squares: Floats) -> Floats:
    """products / √squares, NaN where nothing varies; rounding does not lead out of [−1, 1]."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip(np.where(squares > 0, products / np.sqrt(squares), np.nan), -1, 1)
