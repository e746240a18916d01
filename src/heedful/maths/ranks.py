"""Rank correlations, overlaps and divergences of scores over the same words. Needs no torch.

First for two scorings, then for m scorings `rows[m,n]` at once, which takes a few matrix products for matrices [m,m].
Most of these use one table, see `concordance`.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtr, xlogy
from scipy.stats import kendalltau, rankdata

from heedful.core.arrays import Bools, Floats, Ints

SCORE_PRECISION = 1e-6  # relative; float32 has 1.2e-7, and a score is computed in several steps
TOP_SHARE = 0.2  # of the words are "the top", unless a number is given
MAX_EXACT_P_WORDS = 33  # up to which the p of tau-b is exact where nothing is tied, as in scipy


def top_k(n: int) -> int:
    """How many of n words are the top fifth, at least one: top_k(11) -> 2."""
    return max(1, round(TOP_SHARE * n))


def tau_b(a: Float[Floats, "n"], b: Float[Floats, "n"]) -> tuple[float, float]:
    """Kendall's τ-b and its two-sided p: [1, 2, 3], [1, 3, 2] -> (.333, 1.). NaN where either is constant."""
    if len(a) < 2 or not all(bool(x.min() < x.max()) for x in (a, b)):  # also false where there is a NaN
        return np.nan, np.nan
    result = kendalltau(a, b)
    return float(result.statistic), float(result.pvalue)


def average_precision(truth: Bool[Bools, "n"], scores: Float[Floats, "n"]) -> float:
    """Σ (recall_i − recall_{i−1}) · precision_i over falling thresholds, tied scores entering together.

    NaN where nothing or everything is true, since every order is then as good.
    """
    if truth.all() or not truth.any() or np.isnan(scores).any():
        return np.nan
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.diff(scores[order]) != 0, True)  # of each group of ties
    hits = np.cumsum(truth[order])[last]
    precision = hits / (np.flatnonzero(last) + 1)
    return float((np.diff(hits, prepend=0) * precision).sum() / hits[-1])


def normalised(x: Float[Floats, "n"]) -> Float[Floats, "n"]:
    """|x| / Σ|x|; NaN where all are zero."""
    size = np.abs(x)
    total = size.sum()
    return size / total if total > 0 else np.full(len(x), np.nan)


def gini(x: Float[Floats, "n"]) -> float:
    """Hurley & Rickard 2009: 0 if all |x| are equal, 1 − 1/n if only one is not zero; NaN if none is."""
    share = np.sort(normalised(x))
    n = len(x)
    return float(1 - 2 * (share * (n - np.arange(n) - 0.5)).sum() / n) if n else np.nan


def entropy(x: Float[Floats, "n"]) -> float:
    """−Σ p ln p of p = |x| / Σ|x|: ln n if all are equal, 0 if only one is not zero; NaN if none is."""
    p = normalised(x)
    return float(-xlogy(p, p).sum()) + 0.0 if len(x) else np.nan


def jensen_shannon(p: Float[Floats, "*b n"], q: Float[Floats, "*#b n"]) -> Float[Floats, "*b"]:
    """Jensen–Shannon divergence of distributions, natural logarithm, at most ln 2: [1, 0] and [0, 1] -> .693."""
    return np.asarray(np.maximum(jensen_shannon_terms(p, q).sum(-1), 0))  # NaN stays NaN


def jensen_shannon_terms(p: Floats, q: Floats) -> Floats:
    """The contribution of each position to the divergence."""
    middle = np.maximum((p + q) / 2, np.finfo(np.float64).tiny)
    return np.asarray((xlogy(p, p / middle) + xlogy(q, q / middle)) / 2)


# all pairs of m scorings


def merge_ties(rows: Float[Floats, "m n"]) -> Float[Floats, "m n"]:
    """Scores whose relative difference is within rounding, made equal: a softmax of equal numbers is not flat.

    Small scores keep their order: 1e-9 and 2e-9 are different numbers in float32.
    """
    order = np.argsort(rows, axis=1, kind="stable")
    rising = np.take_along_axis(rows, order, axis=1)
    size = np.maximum(np.abs(rising[:, 1:]), np.abs(rising[:, :-1]))
    new = np.diff(rising, axis=1) > SCORE_PRECISION * size
    first = np.maximum.accumulate(np.pad(np.where(new, np.arange(1, rows.shape[1]), 0), ((0, 0), (1, 0))), axis=1)
    merged = np.empty_like(rows)
    np.put_along_axis(merged, order, np.take_along_axis(rising, first, axis=1), axis=1)
    return merged


def concordance(rows: Float[Floats, "m n"]) -> Float[Floats, "n m m"]:
    """C[i,a,b] = Σ_j sgn(a_i − a_j) sgn(b_i − b_j): concordant minus discordant pairs (i, j) of scorings a and b.

    C[i,a,a] is the number of words whose score in a differs from word i's. Whole numbers of at most n, which float32
    holds exactly.
    """
    table = np.empty((rows.shape[1], len(rows), len(rows)))
    for i in range(rows.shape[1]):
        signs = np.sign(rows[:, i : i + 1] - rows).astype(np.float32)
        table[i] = signs @ signs.T
    return table


def tau_b_matrix(table: Float[Floats, "n m m"]) -> Float[Floats, "m m"]:
    """Kendall's tau-b from a concordance table; NaN where either is constant."""
    return _correlation(table.sum(0))


def tau_b_p_values(table: Float[Floats, "n m m"]) -> Float[Floats, "m m"]:
    """The two-sided p of tau-b as in scipy's kendalltau: exact for up to 33 words without ties, else normal.

    For more than 33 words, scipy computes p exactly also where all pairs, or all but one, agree: both are close to 0.
    """
    n = len(table)
    total = table.sum(0) / 2
    ties = n - np.diagonal(table, axis1=1, axis2=2)  # for each word, how many have its score, itself included
    with np.errstate(all="ignore"):
        p = 2 * ndtr(-np.abs(total) / np.sqrt(_tau_variance(ties, n)))
    untied = (ties == 1).all(0)
    if n <= MAX_EXACT_P_WORDS:
        pairs = n * (n - 1) // 2
        discordant = np.rint((pairs - np.abs(total)) / 2).astype(int)
        p = np.where(untied[:, None] & untied, np.minimum(1, 2 * _inversion_probabilities(n)[discordant]), p)
    return np.where(np.isnan(tau_b_matrix(table)), np.nan, p)


def _tau_variance(ties: Float[Floats, "n m"], n: int) -> Floats:
    """The variance of concordant minus discordant pairs, with ties (Kendall 1970, §4); ties are summed over words."""
    two, three, five = (((ties - 1) * other).sum(0) for other in (1, ties - 2, 2 * ties + 5))
    m = n * (n - 1)
    return np.asarray(
        (m * (2 * n + 5) - five[:, None] - five) / 18
        + two[:, None] * two / (2 * m)
        + three[:, None] * three / (9 * m * (n - 2))
    )


@cache
def _inversion_probabilities(n: int) -> Floats:
    """P(a random order of n has at most k inversions), k = 0, 1, …"""
    probabilities = np.ones(1)
    for i in range(2, n + 1):
        probabilities = np.convolve(probabilities, np.full(i, 1 / i))
    return np.cumsum(probabilities)


def weighted_tau_matrix(table: Float[Floats, "n m m"], rows: Float[Floats, "m n"]) -> Float[Floats, "m m"]:
    """Vigna 2015: pairs count by 1/rank of both words, 1 the highest; mean of ranks by (a, then b) and (b, then a)."""
    n, m = len(table), len(rows)
    tau = np.empty((m, m))
    diagonal = np.diagonal(table, axis1=1, axis2=2)
    for a in range(m):
        first = np.broadcast_to(rows[a], rows.shape)
        order = np.lexsort((rows, first), axis=-1)[:, ::-1]
        weights = np.empty((m, n))
        np.put_along_axis(weights, order, np.broadcast_to(1 / np.arange(1, n + 1), (m, n)), axis=1)
        squares = (weights @ diagonal[:, a]) * (weights.T * diagonal).sum(0)
        tau[a] = _ratio((weights.T * table[:, a]).sum(0), squares)
    return (tau + tau.T) / 2


def top_k_membership(rows: Float[Floats, "m n"], k: int) -> Float[Floats, "m n"]:
    """The probability that each word is among the k highest, ties at the k-th place broken at random."""
    higher, lower = (rankdata(x, method="min", axis=1) - 1 for x in (-rows, rows))  # words above and below each
    return np.asarray(np.clip((k - higher) / (rows.shape[1] - higher - lower), 0, 1))


def top_k_overlap(rows: Float[Floats, "m n"], k: int) -> Float[Floats, "m m"]:
    """The expected share of the k highest words that two scorings share, ties at the k-th place broken at random.

    NaN where one is constant, or k is all words: nothing is selected then.
    """
    if k >= rows.shape[1]:
        return np.full((len(rows), len(rows)), np.nan)
    membership = top_k_membership(rows, k)
    return _nan_if_constant(membership @ membership.T / k, rows)


def top_k_tau(rows: Float[Floats, "m n"], k: int) -> Float[Floats, "m m"]:
    """1 − 2 K/K_max after Fagin et al. 2003, from 1 (the same lists) to −1; NaN also where either is constant.

    K is Σ |s − t| / 2 over pairs of words, s and t their signs in the two lists; |s − t| = s² + t² − s²t² − st. Pairs
    of which neither list mentions one word do not count: each was ½ where only one list mentions the other word.
    """
    inside = top_k_membership(rows, k) == 1  # words that tie across the k-th place are in no list
    lists = rankdata(np.where(inside, rows, -np.inf), axis=1)
    signed, unsigned = np.zeros((len(rows), len(rows))), np.zeros((len(rows), len(rows)))
    for i in range(rows.shape[1]):
        signs = np.sign(lists[:, i : i + 1] - lists).astype(np.float32)
        signed += signs @ signs.T
        unsigned += np.abs(signs) @ np.abs(signs).T
    squares = np.diagonal(signed)
    both = inside.astype(float) @ inside.T
    single = inside.sum(1)[:, None] + inside.sum(1) - 2 * both
    unmentioned = rows.shape[1] - single - both
    penalty = (squares[:, None] + squares - unsigned - signed) / 4 - single * unmentioned / 2
    largest = _largest_penalty(rows.shape[1], inside.sum(1))
    share = np.divide(penalty, largest, out=np.full(penalty.shape, np.nan), where=largest > 0)
    return _nan_if_constant(1 - 2 * share, rows)


def _largest_penalty(n: int, sizes: Ints) -> Floats:
    """The largest K of two lists of these sizes out of n; NaN where either is empty."""
    a, b = sizes[:, None].astype(float), sizes.astype(float)
    shared = np.maximum(0, a + b - n)
    only_a, only_b = a - shared, b - shared
    single = (shared * (shared - 1) + (only_a * (only_a - 1) + only_b * (only_b - 1)) / 2) / 2
    return np.where((a > 0) & (b > 0), single + shared * (only_a + only_b) + only_a * only_b, np.nan)


def spearman_matrix(rows: Float[Floats, "m n"]) -> Float[Floats, "m m"]:
    """The correlation of ranks, ties at their mean; NaN where either is constant."""
    centred: Floats = rankdata(rows, axis=1) - (rows.shape[1] + 1) / 2
    return _correlation(centred @ centred.T)


def jensen_shannon_matrix(rows: Float[Floats, "m n"]) -> Float[Floats, "m m"]:
    """Jensen–Shannon divergence of normalised |scores|, as a difference of entropies; NaN where all are zero."""

    def entropies(shares: Floats) -> Floats:
        # subtle: np.log takes a third of the time of xlogy
        return np.asarray(-(shares * np.log(np.where(shares > 0, shares, 1))).sum(-1))

    with np.errstate(invalid="ignore"):
        shares = np.abs(rows) / np.abs(rows).sum(1, keepdims=True)
    each = entropies(shares)
    table = [entropies((shares + row) / 2) - (each + h) / 2 for row, h in zip(shares, each, strict=True)]
    return np.asarray(np.maximum(np.array(table), 0))


def _nan_if_constant(matrix: Floats, rows: Floats) -> Floats:
    constant = (rows == rows[:, :1]).all(1)
    return np.where(constant[:, None] | constant, np.nan, matrix)


def _correlation(products: Floats) -> Floats:
    """Inner products [m,m] of centred rows, as correlations."""
    squares = np.diagonal(products)
    return _ratio(products, squares[:, None] * squares)


def _ratio(products: Floats, squares: Floats) -> Floats:
    """products / √squares, clipped to [−1, 1]; NaN where nothing varies."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip(np.where(squares > 0, products / np.sqrt(squares), np.nan), -1, 1)
