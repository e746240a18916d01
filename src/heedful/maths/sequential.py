"""Sequential: limits of a mean that hold at every number of texts at once. Needs no torch.

A limit for a fixed number of texts may be looked at once: who looks after every text and stops when it pleases is wrong
several times as often. The limits here are anytime-valid: over all numbers of texts together, the mean is beyond its
limit with a probability of at most 1 − level, whenever and for whatever reason one stops.

They are bets (Waudby-Smith & Ramdas 2024). To refute that the mean is at most m, a gambler stakes a share c of what can
be staked without going bankrupt: x multiplies the capital by 1 + c (x − m) / (m − low), where `low` is the smallest
possible value. If the mean is at most m, the capital is a supermartingale, and reaches 1 / (1 − level) at any time with
a probability of at most 1 − level (Ville 1939). The capital is divided among the shares of BETS, by WEIGHTS, instead of
following a bet that is estimated from the past: that takes no more texts (docs/verdict.md), and the capital after n
texts does not depend on their order.

Values are bounded, and independent with the same mean. Where texts of several labels come in turn, in proportion, each
label with a mean of its own, the capital of a fixed bet grows no faster: E ∏ (1 + λ xᵢ) = ∏ (1 + λ μᵢ) ≤ (1 + λ μ)ⁿ, up
to the one text that a label is ahead of its proportion. An estimated bet has no such bound.
"""

from __future__ import annotations

from math import inf, log

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from heedful.core.arrays import Floats
from heedful.maths.stats import Range

# half octaves; the largest is below 1, so that no value takes all
BETS = 0.99 * 2.0 ** (-np.arange(21) / 2)
# most texts decide by large bets, since values vary less than their range allows; 1/k² leaves enough for small ones
WEIGHTS = 1 / np.arange(1, 22) ** 2 / (1 / np.arange(1, 22) ** 2).sum()
BLOCK = 4096  # texts in memory at a time, each with a number for every bet
MAX_LOG_CAPITAL = 700.0  # a larger one counts as infinite
TOLERANCE = 1e-9  # of a limit
MAX_TEXTS = 1e9  # that a mean could need: more is no forecast


def log_capital(x: Float[Floats, "n"], low: float, mean: float = 0.0) -> Float[Floats, "n"]:
    """The log of the capital after each value, staked against a mean of at most `mean`; it falls with `mean`.

    A mean of at most `low` is refuted by the first value above it.
    """
    if mean <= low:
        return np.where(np.maximum.accumulate(x > mean), inf, 0.0) if len(x) else np.zeros(0)
    capital, paths = np.log(WEIGHTS), [np.zeros(0)]
    for start in range(0, len(x), BLOCK):
        grown = capital + np.cumsum(_growth(x[start : start + BLOCK], low, mean), axis=0)
        capital = grown[-1]
        paths.append(_log_sum(grown))
    return np.concatenate(paths)


def refuted_after(x: Float[Floats, "n"], low: float, level: float, mean: float = 0.0) -> int | None:
    """The number of values after which a mean of at most `mean` is refuted, once and for all; None if it is not."""
    beyond = log_capital(x, low, mean) >= -log(1 - level)
    return int(beyond.argmax()) + 1 if beyond.any() else None


def evidence(x: Float[Floats, "n"], low: float, level: float, mean: float = 0.0) -> float:
    """How far the log of the largest capital so far is beyond its line: a mean of at most `mean` is refuted from 0 on.

    At most MAX_LOG_CAPITAL, so that it is finite.
    """
    return min(MAX_LOG_CAPITAL, float(log_capital(x, low, mean).max(initial=0.0))) + log(1 - level)


def lower_limit(x: Float[Floats, "n"], within: Range, level: float) -> float:
    """The largest lower limit of the mean over all prefixes: the mean from which on none is refuted."""
    low, high = within

    def beyond(mean: float) -> float:
        return evidence(x, low, level, mean)

    if not low < x.max(initial=low):
        return low
    # 0 is an end of the bracket, so that the sign of the limit is that of the evidence at 0
    ends = (low, high) if not low < 0 < high else (0.0, high) if beyond(0.0) >= 0 else (low, 0.0)
    return float(brentq(beyond, *ends, xtol=TOLERANCE))


def limits(x: Float[Floats, "n"], within: Range, level: float) -> tuple[float, float]:
    """The largest lower and the smallest upper limit of the mean over all prefixes, each by itself at this level."""
    return lower_limit(x, within, level), -lower_limit(-x, (-within[1], -within[0]), level)


def lower_limits(x: Float[Floats, "n"], within: Range, level: float, steps: int = 1000) -> Float[Floats, "n"]:
    """The lower limit after each value, the largest so far, rounded down to a grid of the range.

    For each mean of the grid there is a number of values that refutes it, which rises with the mean.
    """
    grid = np.linspace(*within, steps + 1)
    after = np.array([refuted_after(x, within[0], level, m) or len(x) + 1 for m in grid])
    refuted = np.searchsorted(np.maximum.accumulate(after), np.arange(1, len(x) + 1), side="right")
    return np.where(refuted > 0, grid[refuted - 1], within[0])


def texts_needed(x: Float[Floats, "n"], low: float, level: float) -> float:
    """How many values would refute a mean of at most 0, if all were like these: ∞ if their mean is not above 0.

    The capital does not depend on the order: k times these values multiply its logarithm, bet by bet, by k.
    """
    after = refuted_after(x, low, level)
    if after is not None:
        return float(after)
    if not len(x) or x.mean() <= 0:
        return inf
    growth = np.zeros(len(BETS))
    for start in range(0, len(x), BLOCK):
        growth += _growth(x[start : start + BLOCK], low, 0.0).sum(0)

    def short(times: float) -> float:
        return float(_log_sum((np.log(WEIGHTS) + times * growth)[None])[0]) + log(1 - level)

    most = MAX_TEXTS / len(x)
    return len(x) * float(brentq(short, 0.0, most, xtol=1e-6)) if short(most) > 0 else inf


def _growth(x: Float[Floats, "n"], low: float, mean: float) -> Float[Floats, "n bets"]:
    """By how much each value multiplies the capital of each bet, as a logarithm."""
    return np.asarray(np.log1p(np.multiply.outer((x - mean) / (mean - low), BETS)), dtype=np.float64)


def _log_sum(terms: Float[Floats, "n bets"]) -> Float[Floats, "n"]:
    largest = terms.max(1)
    return np.asarray(largest + np.log(np.exp(terms - largest[:, None]).sum(1)))
