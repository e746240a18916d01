"""Statistics over texts: estimates with intervals, differences, and decisions. Needs no torch.

Every interval of the package is made here. It is of a mean over texts, taken as a sample of the texts that the model
will meet, at 95 % unless another level is given. Means have Hall's interval, rates Wilson's. Both are formulas:
deterministic, independent of the order of the texts, and without a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import exp, isfinite, lgamma, log, sqrt
from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from scipy.special import bdtr, ndtri, stdtr, stdtrit

from heedful.core.arrays import Floats, Ints
from heedful.core.errors import BadInput

MeasureKind = Literal["mean", "rate"]
Range = tuple[float, float]
CONFIDENCE = 0.95  # of an interval
MINIMUM = 30  # texts: nothing is decided below
SKEWNESS_TEXTS = 10  # that differ from all others: too few to estimate the skewness
ROUNDING = 1e-12  # relative: smaller differences are rounding errors


class Decision(StrEnum):
    """The decision about a against b, after the correction for all comparisons."""

    HIGHER = "higher"
    LOWER = "lower"
    NOT_SIGNIFICANT = "not significant"
    TOO_FEW = "too few texts"


@dataclass(frozen=True)
class Estimate:
    """A measure over texts: `n` that have it and `missing` that do not; `std` is the population's, as in papers.

    Numbers that do not exist are NaN: all of them without a text, and the limits with a single one.
    """

    n: int
    missing: int
    mean: float
    median: float
    std: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether there is a mean."""
        return isfinite(self.mean)

    @property
    def enough(self) -> bool:
        """Whether there are enough texts for a decision."""
        return enough(self.n)

    def __repr__(self) -> str:
        """One line: Estimate(0.123 [0.100, 0.146], n=58, 2 missing)."""
        return f"{type(self).__name__}({self.gist()})"

    def gist(self) -> str:
        """The mean, its interval and the number of texts, in one line."""
        return _gist(self, f", {self.missing} missing" if self.missing else "")


@dataclass(frozen=True)
class Difference:
    """The mean of a − b over the `n` texts that have both, its interval, and p of a mean of zero.

    `decide` adds p after Holm's correction, the decision, and whether it is better, if the measure has a direction.
    """

    n: int
    mean: float
    low: float
    high: float
    p: float
    p_adjusted: float | None = None
    decision: Decision | None = None
    better: bool | None = None

    @property
    def significant(self) -> bool:
        """Whether one of the two is significantly higher."""
        return self.decision in (Decision.HIGHER, Decision.LOWER)

    def __repr__(self) -> str:
        """One line: Difference(+0.123 [0.100, 0.146], n=60, p=0.003, higher: better)."""
        return f"Difference({self.gist()})"

    def gist(self) -> str:
        """The numbers and the decision, in one line."""
        p = self.p if self.p_adjusted is None else self.p_adjusted
        better = "" if self.better is None else ": better" if self.better else ": worse"
        decision = "" if self.decision is None else f", {self.decision.value}{better}"
        return _gist(self, f", p={p:.2g}{decision}", "+")


def _gist(numbers: Estimate | Difference, more: str, sign: str = "") -> str:
    return f"{numbers.mean:{sign}.3g} [{numbers.low:.3g}, {numbers.high:.3g}], n={numbers.n}{more}"


def estimate(values: Float[Floats, "n"], kind: MeasureKind = "mean", within: Range | None = None) -> Estimate:
    """A measure over texts. NaN is counted as missing; a rate that is not 0 or 1 everywhere is a mean.

    The interval is clipped to the measure's range, `within`, unless a value is outside: the changes of a regression
    model, which has no probabilities, have other limits.
    """
    return estimates([values], kind, within)[0]


def estimates(columns: Sequence[Floats], kind: MeasureKind = "mean", within: Range | None = None) -> list[Estimate]:
    """`estimate` of each, fast: those of equal length are computed together."""
    result: dict[int, Estimate] = {}
    existing = [_existing(values) for values in columns]
    for indices, rows in _by_length(existing):
        for i, numbers in zip(indices, _estimated(rows, kind, within), strict=True):
            result[i] = Estimate(rows.shape[1], len(columns[i]) - rows.shape[1], *numbers)
    return [result[i] for i in range(len(columns))]


def _estimated(rows: Float[Floats, "m n"], kind: MeasureKind, within: Range | None) -> list[list[float]]:
    """For each row its mean, median, standard deviation and limits."""
    m, n = rows.shape
    if not n:
        return [[np.nan] * 5] * m
    low, high = mean_intervals(rows)
    if kind == "rate":
        rates = np.isin(rows, (0, 1)).all(1)
        for i in np.flatnonzero(rates):
            low[i], high[i] = wilson(int(rows[i].sum()), n)
    if within is not None:
        inside = (within[0] <= rows.min(1)) & (rows.max(1) <= within[1])
        low, high = (np.where(inside, np.clip(limit, *within), limit) for limit in (low, high))
    mean = _means(rows)
    with np.errstate(invalid="ignore"):  # ∞ − ∞
        std = np.sqrt(((rows - mean[:, None]) ** 2).mean(1))
    numbers: list[list[float]] = np.stack([mean, np.median(rows, 1), std, low, high], 1).tolist()
    return numbers


def _by_length(rows: Sequence[Floats]) -> list[tuple[list[int], Float[Floats, "m n"]]]:
    """Rows of equal length as one matrix, with their indices."""
    groups: dict[int, list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault(len(row), []).append(i)
    return [(indices, np.stack([rows[i] for i in indices])) for indices in groups.values()]


def mean_interval(x: Float[Floats, "n"], level: float = CONFIDENCE) -> tuple[float, float]:
    """The interval of a mean; see `mean_intervals`. NaN values are left out; (NaN, NaN) for fewer than two."""
    low, high = mean_intervals(_existing(x)[None], level)
    return float(low[0]), float(high[0])


def mean_intervals(
    rows: Float[Floats, "m n"], level: float = CONFIDENCE
) -> tuple[Float[Floats, "m"], Float[Floats, "m"]]:
    """The interval of the mean of each row: Student's t, corrected for skewness by a cubic (Hall 1992).

    Its coverage error is O(1/n) on either side, as that of the studentised bootstrap, with the same coverage in
    simulation, without resampling. Where nearly all values are equal, the skewness depends on the signs of the few
    others, and the interval includes Student's own. Where all are equal it is that value alone, although other values
    may exist.
    """
    shape = _shape(rows)
    low, high = _limits(shape, level)
    # at most SKEWNESS_TEXTS values differ from the most common one, which then spans the other places of the sorted row
    n, ordered = rows.shape[1], np.sort(rows, 1)
    span = max(1, n - SKEWNESS_TEXTS)
    few = (ordered[:, : n - span + 1] == ordered[:, span - 1 :]).any(1)
    low, high = np.where(few, low.min(0), low[0]), np.where(few, high.max(0), high[0])
    return np.minimum(low, shape.mean), np.maximum(high, shape.mean)


def wilson(successes: int, n: int, level: float = CONFIDENCE) -> tuple[float, float]:
    """Wilson 1927: the interval of a rate; 0 of 60 -> (0, .060). (NaN, NaN) if n is 0."""
    z = float(ndtri(_upper(level)))
    if n == 0:
        return np.nan, np.nan
    rate = successes / n
    middle, half = rate + z**2 / (2 * n), z * np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2))
    low, high = (middle - half) / (1 + z**2 / n), (middle + half) / (1 + z**2 / n)
    # exactly 0 and 1 at the ends, where rounding would leave 1e-18
    return 0.0 if successes == 0 else float(low), 1.0 if successes == n else float(high)


def paired(a: Float[Floats, "n"], b: Float[Floats, "n"], level: float = CONFIDENCE) -> Difference:
    """The mean of a − b over the texts where both exist.

    The interval includes both Hall's and Student's: Hall's is safer for skewed differences, Student's for differences
    that are mostly zero. p is the larger of the two tests', so that p < .05 where the 95 % interval excludes zero; and
    at least 2^(1 − k) for k differences that are not zero, the smallest p of a sign-flip test. A permutation test of d
    draws has p ≥ 1 / (d + 1), which is not significant after a correction for many comparisons.
    """
    return all_paired([(a, b)], level)[0]


def all_paired(pairs: Sequence[tuple[Floats, Floats]], level: float = CONFIDENCE) -> list[Difference]:
    """`paired` of each pair, fast: those of equal length are computed together."""
    with np.errstate(invalid="ignore"):  # ∞ − ∞: no difference exists
        existing = [
            _existing(np.where(np.abs(a - b) <= ROUNDING * np.maximum(np.abs(a), np.abs(b)), 0, a - b))
            for a, b in pairs
        ]
    result: dict[int, Difference] = {}
    for indices, rows in _by_length(existing):
        shape = _shape(rows)
        low, high = _limits(shape, level)
        numbers = np.stack([shape.mean, low.min(0), high.max(0), _p(rows, shape)], 1).tolist()
        result |= {i: Difference(rows.shape[1], *own) for i, own in zip(indices, numbers, strict=True)}
    return [result[i] for i in range(len(pairs))]


def mcnemar(only_a: int, only_b: int) -> float:
    """McNemar's exact two-sided test of equal numbers of texts on which only a, and only b, is right."""
    n = only_a + only_b
    return float(min(1.0, 2 * bdtr(min(only_a, only_b), n, 0.5))) if n else 1.0


def holm(p: Float[Floats, "n"]) -> Float[Floats, "n"]:
    """Holm 1979: adjusted p (family-wise error): [.01, .04, .03] -> [.03, .06, .06]. NaN is no comparison."""
    adjusted = np.full(len(p), np.nan)
    order = np.argsort(p, kind="stable")[: int((~np.isnan(p)).sum())]  # NaN sorts last
    adjusted[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)))
    return adjusted


def enough(n: int) -> bool:
    """Whether this many texts are enough for a decision."""
    return n >= MINIMUM


def decide(
    differences: Sequence[Difference | None], better: Literal["higher", "lower"] | None = None, alpha: float = 0.05
) -> list[Difference | None]:
    """The differences with their decisions, after Holm's correction over all of them; None is no comparison."""
    adjusted = holm(np.array([np.nan if difference is None else difference.p for difference in differences]))
    return [
        None if difference is None else _decided(difference, float(p), better, alpha)
        for difference, p in zip(differences, adjusted, strict=True)
    ]


def _decided(difference: Difference, p: float, better: str | None, alpha: float) -> Difference:
    if not (enough(difference.n) and p <= alpha):
        decision = Decision.NOT_SIGNIFICANT if enough(difference.n) else Decision.TOO_FEW
        return replace(difference, p_adjusted=p, decision=decision)
    decision = Decision.HIGHER if difference.mean > 0 else Decision.LOWER
    return replace(difference, p_adjusted=p, decision=decision, better=None if better is None else decision == better)


def replication_limit(spread: float, trainings: int, error: float = 0.0, level: float = CONFIDENCE) -> float:
    """How far one more training, on other texts, may be from the mean of k trainings: t·√(s²(1 + 1/k) + SE²).

    `spread` is s, the standard deviation over trainings (of a sample), `error` the standard error of the mean over
    texts. NaN for fewer than two trainings.
    """
    if trainings < 2:
        return float("nan")
    return float(stdtrit(trainings - 1, _upper(level))) * sqrt(spread**2 * (1 + 1 / trainings) + error**2)


def bootstrap_error(
    statistic: Callable[[Int[Ints, "n"]], float], n: int, rng: np.random.Generator, draws: int = 200
) -> float:
    """The standard error of a statistic of n texts, a function of their indices: its spread over resampled texts."""
    values = [statistic(rng.integers(n, size=n)) for _ in range(draws)]
    return float(np.nanstd(values, ddof=1))


def unpaired(a: Estimate, b: Estimate) -> Difference:
    """The mean of a minus that of b, over different texts, from the two estimates.

    The interval includes both Welch's (1947) and that of the estimates' own limits, d ± √(distance² + distance²)
    (Newcombe 1998 for Wilson's rates; Zou & Donner 2008 for any), which accounts for skewness and for rates near 0 and
    1. p is that of the interval that just reaches zero, and at least the smallest p of a permutation test. `n` is that
    of the smaller sample.
    """
    n, d = min(a.n, b.n), a.mean - b.mean
    if n < 2:
        return Difference(n, d, np.nan, np.nan, np.nan)
    errors = a.std**2 / (a.n - 1), b.std**2 / (b.n - 1)
    # Satterthwaite's degrees of freedom; where nothing varies, their smallest value
    freedom = (
        float(sum(errors) ** 2 / sum(e**2 / (k - 1) for e, k in zip(errors, (a.n, b.n), strict=True)))
        if sum(errors) > 0
        else float(n - 1)
    )
    quantile = float(stdtrit(freedom, _upper(CONFIDENCE)))
    half = quantile * sqrt(sum(errors))
    down = max(half, sqrt((a.mean - a.low) ** 2 + (b.high - b.mean) ** 2))
    up = max(half, sqrt((a.high - a.mean) ** 2 + (b.mean - b.low) ** 2))
    reach = down if d > 0 else up
    tested = 2 * float(stdtr(freedom, -abs(d) / reach * quantile)) if reach > 0 else 0.0
    least = exp(log(2) - lgamma(a.n + b.n + 1) + lgamma(a.n + 1) + lgamma(b.n + 1))  # 2 / (a + b over a)
    return Difference(n, d, d - down, d + up, 1.0 if d == 0 else min(1.0, max(least, tested)))


@dataclass(frozen=True, eq=False)
class _Shape:
    """Of each row: its mean, the mean's standard error and the skewness of its values."""

    n: int
    mean: Float[Floats, "m"]
    error: Float[Floats, "m"]
    skewness: Float[Floats, "m"]


def _shape(rows: Float[Floats, "m n"]) -> _Shape:
    m, n = rows.shape
    if n < 2:
        return _Shape(n, _means(rows) if n else np.full(m, np.nan), np.full(m, np.nan), np.full(m, np.nan))
    with np.errstate(invalid="ignore"):  # ∞ among the values: NaN comes out
        mean = _means(rows)
        off = np.sort(rows, 1) - mean[:, None]
        scale = np.abs(off).max(1)
        scale = np.where(scale <= ROUNDING * np.abs(rows).max(1), 0, scale)
        unit = np.divide(off, scale[:, None], out=np.zeros_like(off), where=scale[:, None] != 0)
        spread = np.sqrt((unit**2).mean(1))
        third = np.divide((unit**3).mean(1), spread**3, out=np.zeros(m), where=spread > 0)
        return _Shape(n, mean, scale * spread / np.sqrt(n - 1), third)


def _means(rows: Float[Floats, "m n"]) -> Float[Floats, "m"]:
    """Means that do not depend on the order of the values, and are exact where all are equal."""
    return np.asarray(np.clip(np.sort(rows, 1).mean(1), rows.min(1), rows.max(1)), dtype=np.float64)


def _limits(shape: _Shape, level: float) -> tuple[Floats, Floats]:
    """The lower and the upper limits [2,m]: those of Hall's interval, then those of Student's."""
    upper = _upper(level)
    q = float(stdtrit(shape.n - 1, upper)) if shape.n > 1 else np.nan
    low, high = (shape.mean - shape.error * np.stack([_unbent(t, shape), np.full_like(shape.mean, t)]) for t in (q, -q))
    return low, high


def _bent(t: Floats, shape: _Shape) -> Floats:
    """Hall 1992: the cubic t + γ(t²/3 + 1/6)/√n + γ²t³/(27n), which corrects the skewness of t up to O(1/n).

    Beyond its stationary point, t = −3√n/γ, it is replaced by a line with a third of the slope of Student's, so that
    few texts or an outlier make the interval at most about three times as wide.
    """
    slant = shape.skewness / np.sqrt(shape.n)
    cubic = t + slant * (t**2 / 3 + 1 / 6) + slant**2 * t**3 / 27
    return np.asarray(np.where(1 + slant * t / 3 >= 0, cubic, t / 3 + slant / 6), dtype=np.float64)


def _unbent(z: float, shape: _Shape) -> Floats:
    """The inverse of `_bent`: 3(∛(1 + u) − 1)√n/γ with u = γz/√n − γ²/(6n), written so that γ may be zero."""
    slant = shape.skewness / np.sqrt(shape.n)
    root = np.cbrt(np.maximum(0, 1 + slant * (z - slant / 6)))
    return np.asarray(3 * (z - slant / 6) / (root**2 + root + 1), dtype=np.float64)


def _p(rows: Float[Floats, "m n"], shape: _Shape) -> Float[Floats, "m"]:
    least = 2.0 ** (1 - np.maximum(1, (rows != 0).sum(1)))
    varied = shape.error > 0  # not a single text, and not all the same
    t = np.divide(shape.mean, shape.error, out=np.zeros_like(shape.mean), where=varied)
    weaker = np.minimum(np.abs(t), np.abs(_bent(t, shape)))
    p = np.where(varied, np.maximum(least, 2 * stdtr(shape.n - 1, -weaker)), least)
    return np.asarray(np.where(np.isnan(shape.mean), np.nan, p))


def _upper(level: float) -> float:
    if not 0 < level < 1:
        raise BadInput(f"the level of an interval is between 0 and 1, not {level}; use .95 for 95 %.")
    return (1 + level) / 2


def _existing(x: Floats) -> Floats:
    return x[~np.isnan(x)]
