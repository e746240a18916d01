"""Ranks: how alike two orders of the same words are, and how a score spreads over words. Needs no torch."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from scipy.special import xlogy
from scipy.stats import kendalltau, rankdata, weightedtau

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
NAN = float("nan")
CHUNK = 4_000_000  # signs held at once by `taus`; below 2²⁴, so that float32 counts them exactly


def tau_b(a: Float[Floats, "n"], b: Float[Floats, "n"]) -> tuple[float, float]:
    """Kendall's τ-b and its two-sided p: [1, 2, 3], [1, 3, 2] -> (.333, 1.). NaN where either is constant."""
    if not _ordered(a, b):
        return NAN, NAN
    found = kendalltau(a, b)
    return float(found.statistic), float(found.pvalue)


def taus(rows: Float[Floats, "m n"]) -> Float[Floats, "m m"]:
    """Kendall's τ-b of each row with each, in the time of a matrix product; NaN for constant rows.

    τ-b is the cosine of two vectors of signs, one sign for each pair of columns: ties are zeros.
    """
    m, n = rows.shape
    both = np.zeros((m, m))
    step = max(1, CHUNK // max(1, m * n))
    for start in range(0, n, step):
        one, other = rows[:, start : start + step, None], rows[:, None, :]
        signs = ((one > other).astype(np.float32) - (one < other)).reshape(m, -1)
        both += signs @ signs.T
    untied = np.where(np.isnan(rows).any(1), 0, both.diagonal())
    size = np.sqrt(untied[:, None] * untied)
    return np.asarray(np.divide(both, size, out=np.full((m, m), NAN), where=size > 0), dtype=np.float64)


def spearman(a: Float[Floats, "n"], b: Float[Floats, "n"]) -> float:
    """Spearman's ρ: Pearson's r of the ranks, tied ones shared. NaN where either is constant."""
    if not _ordered(a, b):
        return NAN
    one, other = (rankdata(x) - (len(x) + 1) / 2 for x in (a, b))
    return float(np.clip(one @ other / np.sqrt((one @ one) * (other @ other)), -1, 1))


def weighted_tau(a: Float[Floats, "n"], b: Float[Floats, "n"]) -> float:
    """Vigna 2015: τ in which swaps among the first count more, 1/(1 + rank) for each of two, added.

    Symmetric: the mean of weighting by the places in a (ties by b) and by those in b (ties by a). NaN where either is
    constant.
    """
    return float(weightedtau(a, b, rank=True).statistic) if _ordered(a, b) else NAN


def top_k_tau(a: Float[Floats, "n"], b: Float[Floats, "n"], k: int) -> float:
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


def average_precision(truth: Bool[Bools, "n"], scores: Float[Floats, "n"]) -> float:
    """Σ (recall_i − recall_{i−1}) · precision_i over falling thresholds, tied scores entering together.

    NaN where nothing or everything is true, since every order is then as good.
    """
    if truth.all() or not truth.any() or np.isnan(scores).any():
        return NAN
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.diff(scores[order]) != 0, True)  # of each group of ties
    hits = np.cumsum(truth[order])[last]
    precision = hits / (np.flatnonzero(last) + 1)
    return float((np.diff(hits, prepend=0) * precision).sum() / hits[-1])


def normalised(x: Float[Floats, "n"]) -> Float[Floats, "n"]:
    """|x| / Σ|x|; NaN where all are zero."""
    size = np.abs(x)
    total = size.sum()
    return size / total if total > 0 else np.full(len(x), NAN)


def gini(x: Float[Floats, "n"]) -> float:
    """Hurley & Rickard 2009: 0 if all |x| are equal, 1 − 1/n if one alone is not zero; NaN if none is."""
    share = np.sort(normalised(x))
    n = len(x)
    return float(1 - 2 * (share * (n - np.arange(n) - 0.5)).sum() / n) if n else NAN


def entropy(x: Float[Floats, "n"]) -> float:
    """−Σ p ln p of p = |x| / Σ|x|: ln n if all are equal, 0 if one alone is not zero; NaN if none is."""
    p = normalised(x)
    return float(-xlogy(p, p).sum()) + 0.0 if len(x) else NAN


def jsd(p: Float[Floats, "n"], q: Float[Floats, "n"]) -> float:
    """Jensen–Shannon divergence of two distributions, natural logarithm, at most ln 2: [1, 0] and [0, 1] -> .693."""
    middle = np.maximum((p + q) / 2, 1e-300)
    return float(np.maximum(0, (xlogy(p, p / middle) + xlogy(q, q / middle)).sum() / 2))  # NaN stays NaN


def area(values: Float[Floats, "n"]) -> float:
    """The mean height of a curve at evenly spaced points, by trapezoids: [0, 1, 1] -> .75. One point is its height."""
    n = len(values)
    if n < 2:
        return float(values[0]) if n else NAN
    return float((values.sum() - (values[0] + values[-1]) / 2) / (n - 1))


def _ordered(a: Floats, b: Floats) -> bool:
    """Whether each has two different values at least, and no NaN."""
    return len(a) > 1 and all(bool(x.min() < x.max()) for x in (a, b))
