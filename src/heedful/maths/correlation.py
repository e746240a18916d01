"""Correlation of two vectors of means, such as the importance of heads in two tasks: an interval and a null. No torch.

`a[n,h]` and `b[m,h]` are the scores of h things (heads) on n and m texts; their means over texts are compared. A
correlation of means has no interval by formula: texts are drawn again, and the means are computed again. The null is
that the things of b are in random order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from heedful.core.arrays import Floats
from heedful.maths.ranks import top_k_membership
from heedful.maths.stats import CONFIDENCE

TOP_SHARE = 0.1  # of the things are "the top"
CHUNK_CELLS = 4_000_000  # of a table of signs that is held at a time

RowStatistic = Callable[[Floats, Floats], Floats]  # of rows [d,h] and [d,h]: one number for each pair of rows


@dataclass(frozen=True)
class Correlation:
    """A statistic of two vectors of means: its bootstrap interval, and its null, with a two-sided p.

    `null_low` and `null_high` hold 95 % of the null; `expected` is its mean, by arithmetic.
    """

    value: float
    low: float
    high: float
    error: float  # the standard deviation over the draws of texts
    p: float
    expected: float
    null_low: float
    null_high: float


def tenth(n: int) -> int:
    """How many of n things are the top tenth, at least one: tenth(72) -> 7."""
    return max(1, round(TOP_SHARE * n))


# statistics of rows


def tau_rows(a: Float[Floats, "d h"], b: Float[Floats, "d h"]) -> Float[Floats, "d"]:
    """Kendall's τ-b of each pair of rows; NaN where either is constant."""
    size = max(1, CHUNK_CELLS // a.shape[1] ** 2)
    parts = [_taus(a[i : i + size], b[i : i + size]) for i in range(0, len(a), size)]
    return np.concatenate(parts) if parts else np.empty(0)


def _taus(a: Floats, b: Floats) -> Floats:
    s, t = (np.sign(x[:, :, None] - x[:, None, :]).astype(np.float32) for x in (a, b))
    same, ties = np.einsum("dij,dij->d", s, t), np.einsum("dij,dij->d", s, s) * np.einsum("dij,dij->d", t, t)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(ties > 0, same / np.sqrt(ties, dtype=np.float64), np.nan))


def pearson_rows(a: Float[Floats, "d h"], b: Float[Floats, "d h"]) -> Float[Floats, "d"]:
    """Pearson's r of each pair of rows; NaN where either is constant."""
    x, y = (rows - rows.mean(1, keepdims=True) for rows in (a, b))
    squares = (x * x).sum(1) * (y * y).sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.clip(np.where(squares > 0, (x * y).sum(1) / np.sqrt(squares), np.nan), -1, 1))


def overlap_rows(a: Float[Floats, "d h"], b: Float[Floats, "d h"]) -> Float[Floats, "d"]:
    """The share of the top tenth of one row that is in the top tenth of the other; ties broken at random, expected."""
    k = tenth(a.shape[1])
    return np.asarray((top_k_membership(a, k) * top_k_membership(b, k)).sum(1) / k)


STATISTICS: Mapping[str, RowStatistic] = {"tau": tau_rows, "pearson": pearson_rows, "overlap": overlap_rows}


def expected_by_chance(statistic: str, things: int) -> float:
    """The mean of the null: 0 for correlations; k / n for the overlap of two sets of k out of n."""
    return tenth(things) / things if statistic == "overlap" else 0.0


# over texts, and over orders of the things


def correlation(
    statistic: str,
    a: Float[Floats, "n h"],
    b: Float[Floats, "m h"],
    rng: np.random.Generator,
    draws: int = 1000,
    permutations: int = 10_000,
    paired: bool = False,
) -> Correlation:
    """A statistic of the means over texts. `paired`: row i of both is the same text, and is drawn for both at once."""
    of = STATISTICS[statistic]
    value = float(of(a.mean(0)[None], b.mean(0)[None])[0])
    samples = of(*resampled_means(a, b, rng, draws, paired))
    low, high = bootstrap_interval(value, samples, (0.0, 1.0) if statistic == "overlap" else (-1.0, 1.0))
    null = null_distribution(of, a.mean(0), b.mean(0), rng, permutations)
    expected = expected_by_chance(statistic, a.shape[1])
    tails = np.quantile(null, _tails()) if np.isfinite(null).all() else (np.nan, np.nan)
    error = float(samples.std()) if np.isfinite(samples).all() else np.nan
    return Correlation(
        value, low, high, error, permutation_p(value, null, expected), expected, float(tails[0]), float(tails[1])
    )


def resampled_means(
    a: Float[Floats, "n h"], b: Float[Floats, "m h"], rng: np.random.Generator, draws: int, paired: bool = False
) -> tuple[Float[Floats, "d h"], Float[Floats, "d h"]]:
    """The means of texts drawn with replacement, as many as there are, `draws` times."""
    first = rng.multinomial(len(a), np.full(len(a), 1 / len(a)), size=draws) / len(a)
    second = first if paired else rng.multinomial(len(b), np.full(len(b), 1 / len(b)), size=draws) / len(b)
    return first @ a, second @ b


def bootstrap_interval(value: float, samples: Float[Floats, "d"], within: tuple[float, float]) -> tuple[float, float]:
    """The interval that includes both the percentile interval and its reflection, within the statistic's range.

    Noise in the means makes a correlation smaller, and the draws add the same noise again: they lie below the value as
    the value lies below the truth. The reflection 2 · value − quantile corrects that; the percentile interval is the
    safer one where the truth is near zero. (NaN, NaN) where the statistic does not exist in some draw.
    """
    if not np.isfinite(value) or not np.isfinite(samples).all():
        return np.nan, np.nan
    low, high = (float(q) for q in np.quantile(samples, _tails()))
    limits = min(low, 2 * value - high, value), max(high, 2 * value - low, value)
    return float(np.clip(limits[0], *within)), float(np.clip(limits[1], *within))


def null_distribution(
    of: RowStatistic, a: Float[Floats, "h"], b: Float[Floats, "h"], rng: np.random.Generator, permutations: int
) -> Float[Floats, "p"]:
    """The statistic of a and b in random orders."""
    orders = rng.permuted(np.broadcast_to(np.arange(len(b)), (permutations, len(b))), axis=1)
    return of(np.broadcast_to(a, orders.shape), b[orders])


def permutation_p(value: float, null: Float[Floats, "p"], expected: float) -> float:
    """(k + 1) / (n + 1) for k of n permutations at least as far from what is expected as the value."""
    if not np.isfinite(value):
        return np.nan
    far = np.abs(null - expected) >= abs(value - expected) - 1e-12
    return float((far.sum() + 1) / (len(null) + 1))


def halves(statistic: str, a: Float[Floats, "n h"], rng: np.random.Generator, draws: int = 100) -> float:
    """The mean statistic between the means of two random halves of the texts: how far noise alone is from 1."""
    orders = rng.permuted(np.broadcast_to(np.arange(len(a)), (draws, len(a))), axis=1)
    middle = len(a) // 2
    first, second = (np.stack([a[row].mean(0) for row in part]) for part in (orders[:, :middle], orders[:, middle:]))
    return float(STATISTICS[statistic](first, second).mean())


def _tails() -> tuple[float, float]:
    return (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2
