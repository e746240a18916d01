"""Limits of attention's share of the reference's lead over chance: for a fixed number of texts, or for any number.

a, r and s are the numbers of attention, of chance and of the reference, one for each text. Needs no torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from heedful.core.arrays import Floats
from heedful.maths import sequential, stats
from heedful.maths.stats import Range

MAX_SHARE = 16.0  # times the reference's lead: larger shares are NaN
ROUNDING = 1e-9  # of a number from 0 to 1


def one_sided(values: Floats, level: float) -> tuple[float, float]:
    """The lower and the upper limit of a mean, each by itself at this level."""
    return stats.mean_interval(values, 2 * level - 1)


@dataclass(frozen=True, eq=False)
class Limits(ABC):
    """One-sided limits of the mean of (a − r) − t (s − r), which falls with t, and of the lead s − r."""

    a: Floats
    r: Floats
    s: Floats
    level: float

    @abstractmethod
    def limits(self, share: float) -> tuple[float, float]:
        """The lower and the upper limit of the mean of (a − r) − share · (s − r)."""

    @abstractmethod
    def lead(self) -> float:
        """The lower limit of the mean of s − r."""

    @abstractmethod
    def sign(self, share: float, side: int) -> float:
        """A number with the sign of a limit (0: lower, 1: upper) of the mean of (a − r) − share · (s − r)."""

    def over(self, share: float) -> Floats:
        """(a − r) − share · (s − r) of each text."""
        return np.asarray((self.a - self.r) - share * (self.s - self.r))

    def shares(self) -> tuple[float, float]:
        """Fieller's limits of mean(a − r) / mean(s − r), where the lead is significant; NaN beyond ±MAX_SHARE."""
        return self._crossing(0), self._crossing(1)

    def _crossing(self, side: int) -> float:
        """The share at which a limit is 0."""
        inside = self.sign(-MAX_SHARE, side) > 0 > self.sign(MAX_SHARE, side)
        return float(brentq(self.sign, -MAX_SHARE, MAX_SHARE, args=(side,), xtol=1e-9)) if inside else np.nan


class FixedLimits(Limits):
    """For one look, at a number of texts that was fixed before."""

    def limits(self, share: float) -> tuple[float, float]:
        """Hall's limits."""
        return one_sided(self.over(share), self.level)

    def lead(self) -> float:
        """Hall's lower limit."""
        return one_sided(self.s - self.r, self.level)[0]

    def sign(self, share: float, side: int) -> float:
        """The limit itself."""
        return self.limits(share)[side]


@dataclass(frozen=True, eq=False)
class AnytimeLimits(Limits):
    """For any number of looks. All numbers are from 0 to 1, and texts are in the order in which they were added.

    `chance` is the largest possible r: 0 where a model that ignores attention changes nothing (Q3).
    """

    chance: float = 1.0

    @property
    def bounded(self) -> bool:
        """Whether all numbers are from 0 to 1, as those of a regression model are not."""
        return all(row.min() >= -ROUNDING and row.max() <= 1 + ROUNDING for row in (self.a, self.r, self.s))

    def limits(self, share: float) -> tuple[float, float]:
        """The best limits over all prefixes."""
        return sequential.limits(self.over(share), self._range(1, share - 1, -share), self.level)

    def lead(self) -> float:
        """The best lower limit over all prefixes."""
        return sequential.lower_limit(self.s - self.r, self._range(0, -1, 1), self.level)

    def sign(self, share: float, side: int) -> float:
        """How far the largest capital that is staked against 0 is beyond its line; reversed for an upper limit."""
        x, low = self._staked(share, side)
        beyond = sequential.evidence(x, low, self.level)
        return -beyond if side else beyond

    def decided_after(self, most: float, least: float, forecast: bool = False) -> float:
        """The number of texts that decides: above `most`, below `least`, or between them, and the lead; ∞ if it is not.

        With `forecast`, the number that would, if all texts were like these.
        """

        def after(x: Floats, low: float) -> float:
            if forecast:
                return sequential.texts_needed(x, low, self.level)
            return sequential.refuted_after(x, low, self.level) or np.inf

        yes, no = after(*self._staked(most, 0)), after(*self._staked(least, 1))
        between = max(after(*self._staked(most, 1)), after(*self._staked(least, 0)))
        return max(min(yes, no, between), after(self.s - self.r, self._range(0, -1, 1)[0]))

    def _staked(self, share: float, side: int) -> tuple[Floats, float]:
        """The values whose mean is above 0 if a limit is beyond 0, and their smallest possible value."""
        low, high = self._range(1, share - 1, -share)
        return (-self.over(share), -high) if side else (self.over(share), low)

    def _range(self, *factors: float) -> Range:
        """Of a sum of a, r and s with these factors."""
        tops = np.array([1.0, self.chance, 1.0]) * factors
        # wider by what rounding adds
        return float(tops[tops < 0].sum()) - 4 * ROUNDING, float(tops[tops > 0].sum()) + 4 * ROUNDING
