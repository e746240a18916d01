"""Ranks: how alike two orders of the same words are, and how a score spreads over words. Needs no torch."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from scipy.special import xlogy
from scipy.stats import kendalltau

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
NAN = float("nan")


def tau_b(a: Float[Floats, "n"], b: Float[Floats, "n"]) -> tuple[float, float]:
    """Kendall's τ-b and its two-sided p: [1, 2, 3], [1, 3, 2] -> (.333, 1.). NaN where either is constant."""
    if not _ordered(a, b):
        return NAN, NAN
    found = kendalltau(a, b)
    return float(found.statistic), float(found.pvalue)


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


def _ordered(a: Floats, b: Floats) -> bool:
    """Whether each has two different values at least, and no NaN."""
    return len(a) > 1 and all(bool(x.min() < x.max()) for x in (a, b))
