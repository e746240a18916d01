"""Published numbers beside measured ones: is a number of a paper inside what our trainings give? Needs no torch.

The numbers are facts from the papers, the authors' files or the slides, each with its source, in
heedful/data/assets/published/PAPER.csv:

table, data, row, column   which number: "Table 2", "sst", "uniform", "F1"
value                      with the digits that were printed: 0.40 was rounded to two
source                     the paper, the authors' files, the slides
status                     "unverified" if it was not checked against its source; such a number is never judged
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.resources import files
from math import sqrt
from typing import Literal

import numpy as np

from heedful.core.errors import BadInput
from heedful.maths.stats import Decision, Difference, Estimate, estimate, replication_limit

MIN_TRAININGS = 3  # for a judgement
UNVERIFIED = "unverified"  # not checked against its source

Key = tuple[str, str, str, str]  # table, data, row, column


class Judgement(StrEnum):
    """Whether a published number agrees with ours."""

    INSIDE = "inside"
    OUTSIDE = "outside"
    NOT_COMPARED = "cannot be compared"


@dataclass(frozen=True)
class Published:
    """A published number, its place in the paper, and its source; `digits` were printed after the point."""

    table: str
    data: str
    row: str
    column: str
    value: float
    digits: int
    source: str
    verified: bool = True

    @property
    def key(self) -> Key:
        """Its place."""
        return self.table, self.data, self.row, self.column

    @property
    def rounding(self) -> float:
        """At most this much was lost when it was printed."""
        return 0.5 * 10.0**-self.digits


def read_published(paper: str) -> tuple[Published, ...]:
    """The published numbers of a paper, in its order."""
    file = files("heedful.data") / "assets" / "published" / f"{paper}.csv"
    numbers = tuple(
        Published(
            row["table"],
            row["data"],
            row["row"],
            row["column"],
            float(row["value"]),
            len(row["value"].partition(".")[2]),
            row["source"],
            row["status"] != UNVERIFIED,
        )
        for row in csv.DictReader(file.read_text("utf-8").splitlines())
    )
    if len({number.key for number in numbers}) < len(numbers):
        raise BadInput(f"two published numbers in {paper}.csv have the same place; give each its own.")
    return numbers


@dataclass(frozen=True)
class Measurement:
    """What was measured for a published number, in its unit.

    `mean` is that over `trainings`, `spread` their standard deviation (of a sample), and `error` the standard error of
    the mean over texts; 0 where no texts are sampled. `differs` says in which ways the set-up is not the paper's;
    `incomparable`, if it is so different that the number must not be judged, why.
    """

    mean: float
    trainings: int = 1
    spread: float = float("nan")
    error: float = 0.0
    differs: str = ""
    incomparable: str = ""


def measurement(
    over_texts: Estimate, over_trainings: Estimate | None, differs: str = "", scale: float = 1.0
) -> Measurement:
    """From the estimates of one number over texts (means over trainings), and over trainings; None: there is one.

    `scale` is 100 where the paper has percentages.
    """
    error = over_texts.std / sqrt(over_texts.n - 1) if over_texts.n > 1 else 0.0
    if over_trainings is None or over_trainings.n < 2:
        return Measurement(scale * over_texts.mean, error=scale * error, differs=differs)
    k = over_trainings.n
    spread = over_trainings.std * sqrt(k / (k - 1))  # an Estimate has the population's
    return Measurement(scale * over_trainings.mean, k, scale * spread, scale * error, differs)


def measurement_of(trainings: Sequence[Estimate], differs: str = "", scale: float = 1.0) -> Measurement:
    """From the estimate of each training over the same texts.

    The standard error of their mean is at most the root mean square of theirs, which is taken.
    """
    errors = [e.std**2 / (e.n - 1) if e.n > 1 else 0.0 for e in trainings]
    over_trainings = estimate(np.array([e.mean for e in trainings]))
    ours = measurement(over_trainings, over_trainings, differs, scale)
    return replace(ours, error=scale * sqrt(sum(errors) / len(errors)))


@dataclass(frozen=True)
class Comparison:
    """A published number beside ours, and the judgement.

    `limit` is how far from our mean a number is inside. `reason` says why a number was not compared, or how the set-up
    differs from the paper's.
    """

    published: Published
    judgement: Judgement
    reason: str = ""
    ours: Measurement | None = None
    limit: float = float("nan")


def judge(published: Published, ours: Measurement) -> Comparison:
    """Inside if |published − mean| ≤ t·√(s²(1 + 1/k) + SE²) + rounding, over k ≥ 3 trainings."""
    k = ours.trainings
    limit = replication_limit(ours.spread, k, ours.error) + published.rounding
    obstacles = [
        "" if published.verified else UNVERIFIED,
        ours.incomparable,
        "" if k >= MIN_TRAININGS else f"{k} training{'s' if k > 1 else ''}; {MIN_TRAININGS} or more show the spread",
    ]
    if any(obstacles):
        return Comparison(published, Judgement.NOT_COMPARED, "; ".join(filter(None, obstacles)), ours, limit)
    inside = abs(published.value - ours.mean) <= limit
    return Comparison(published, Judgement.INSIDE if inside else Judgement.OUTSIDE, ours.differs, ours, limit)


def compare(
    published: Sequence[Published], measured: Mapping[Key, Measurement], missing: Mapping[str, str]
) -> tuple[Comparison, ...]:
    """Every published number beside ours; `missing` says why a data set was not used."""
    unknown = [key for key in measured if key not in {number.key for number in published}]
    if unknown:
        raise ValueError(f"no published number has the place {unknown[0]}")
    return tuple(
        judge(number, measured[number.key])
        if number.key in measured
        else Comparison(number, Judgement.NOT_COMPARED, missing.get(number.data, "not part of this profile"))
        for number in published
    )


@dataclass(frozen=True)
class Claim:
    """A published finding that has no number of its own, and the difference that tests it.

    `measure` says what the difference is of. It is `expected` to be higher or lower than zero, or equal to it, which
    means between −margin and margin.
    """

    finding: str
    source: str
    data: str
    measure: str
    difference: Difference
    expected: Literal["higher", "lower", "equal"]
    margin: float = 0.0

    @property
    def holds(self) -> bool | None:
        """Whether our 95 % interval agrees with it; None where it does not decide, or texts are too few."""
        if self.difference.decision is Decision.TOO_FEW:
            return None
        low, high = self.difference.low, self.difference.high
        if self.expected == "lower":
            low, high = -high, -low
        if self.expected == "equal":
            if -self.margin <= low and high <= self.margin:
                return True
            return False if low > self.margin or high < -self.margin else None
        return True if low > 0 else False if high < 0 else None
