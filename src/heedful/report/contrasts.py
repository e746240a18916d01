"""Contrasts: the same number of two runs, and how far apart they are. Needs no torch.

Where both runs have the same texts, both means are over those that have both numbers, and their difference is paired;
otherwise it is `unpaired`. p is corrected (Holm) over all rows that are contrasted together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import exp, lgamma, log, sqrt
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from heedful.audits.record import Record, Row
from heedful.core.finding import Findings
from heedful.maths import stats
from heedful.maths.stats import Difference
from heedful.report.keys import Key
from heedful.report.telling import about

Kind = Literal["mean", "rate"]
NAN = float("nan")
LEVEL = 0.95  # of the intervals in a summary


@dataclass(frozen=True)
class Contrast:
    """A number of two runs: rows of both, None where a run has none, and a − b with its p after Holm's correction."""

    key: Key
    a: Row | None
    b: Row | None
    difference: Difference | None = None
    holm: float = NAN

    @property
    def says(self) -> str:
        """What may be said of a against b; empty where one of them has no number."""
        return "" if self.difference is None else stats.decided(self.difference, self.holm)

    @property
    def gap(self) -> Row | None:
        """The difference as a row of numbers."""
        return None if self.difference is None else asdict(self.difference)

    @property
    def texts(self) -> tuple[int, int]:
        """How many texts each mean is over."""
        n, m = (0 if row is None else int(row["n"]) for row in (self.a, self.b))
        return n, m


@dataclass(frozen=True, eq=False)
class Matching:
    """The texts of two runs: places in a and in b of those that both have, and whether one run has all the other's."""

    a: NDArray[np.int64]
    b: NDArray[np.int64]
    same: bool


def matched(a: Record, b: Record) -> Matching:
    """Which text of one run is which of the other: by what they say, the first with the first where some are equal."""
    left, right = _places(a), _places(b)
    both = [text for text in left if text in right]
    same = len(both) > 0 and len(both) == min(len(left), len(right))
    return Matching(np.array([left[t] for t in both], np.int64), np.array([right[t] for t in both], np.int64), same)


def contrasted(a: Record, b: Record, keys: Sequence[Key], texts: Matching) -> list[Contrast]:
    """Those of the keys that a run has, of one check, with Holm's correction over all of them."""
    rows = [(key, _row(a, key), _row(b, key)) for key in keys]
    there = [(key, x, y) for key, x, y in rows if x is not None or y is not None]
    both = any(x is not None and y is not None for _, x, y in there)
    found = [run.found(keys[0].check) for run in (a, b)] if both and texts.same else []
    made = [_contrast(Contrast(key, x, y), found, texts, _kind(a, key)) for key, x, y in there]
    adjusted = stats.holm(np.array([NAN if c.difference is None else c.difference.p for c in made]))
    return [replace(c, holm=float(p)) for c, p in zip(made, adjusted, strict=True)]


def unpaired(a: Row, b: Row) -> Difference:
    """The mean of a less that of b, over different texts, from two rows of summaries.

    The interval holds both Welch's (1947) and that of the rows' own limits, d ± √(distance² + distance²) (Newcombe 1998
    for Wilson's rates; Zou & Donner 2008 for any), which knows of skewness and of rates near 0 and 1. p is what makes
    the interval just reach zero, and no smaller than the least that dealing out the texts at random to the two runs can
    give. `n` is that of the smaller run.
    """
    n, m, d = int(a["n"]), int(b["n"]), float(a["mean"]) - float(b["mean"])
    if min(n, m) < 2:
        return Difference(min(n, m), d, NAN, NAN, NAN)
    errors = float(a["std"]) ** 2 / (n - 1), float(b["std"]) ** 2 / (m - 1)
    freedom = _freedom(errors, (n, m))
    quantile = float(stdtrit(freedom, (1 + LEVEL) / 2))
    half = quantile * sqrt(sum(errors))
    down = max(half, sqrt((a["mean"] - a["low"]) ** 2 + (b["high"] - b["mean"]) ** 2))
    up = max(half, sqrt((a["high"] - a["mean"]) ** 2 + (b["mean"] - b["low"]) ** 2))
    return Difference(min(n, m), d, d - down, d + up, _p(d, down if d > 0 else up, quantile, freedom, (n, m)))


def _freedom(errors: tuple[float, float], n: tuple[int, int]) -> float:
    """Satterthwaite's degrees of freedom; where nothing varies, the fewest that he could give."""
    if not sum(errors) > 0:
        return float(min(n) - 1)
    return float(sum(errors) ** 2 / sum(e**2 / (k - 1) for e, k in zip(errors, n, strict=True)))


def _p(d: float, reach: float, quantile: float, freedom: float, n: tuple[int, int]) -> float:
    if d == 0:
        return 1.0
    least = exp(log(2) - lgamma(sum(n) + 1) + lgamma(n[0] + 1) + lgamma(n[1] + 1))  # 2 / (a + b over a)
    tested = 2 * float(stdtr(freedom, -abs(d) / reach * quantile)) if reach > 0 else 0.0
    return min(1.0, max(least, tested))


def _contrast(c: Contrast, found: Sequence[Findings], texts: Matching, kind: Kind) -> Contrast:
    """With a difference, if both have a number."""
    if c.a is None or c.b is None:
        return c
    if not texts.same:
        return replace(c, difference=unpaired(c.a, c.b))
    one, other = (f.values(row["measure"], row["method"], row["at"]) for f, row in zip(found, (c.a, c.b), strict=True))
    x, y = one[texts.a], other[texts.b]
    there = np.isfinite(x) & np.isfinite(y)
    if not there.any():
        return c
    a, b = ({**row, **asdict(stats.summary(own[there], kind))} for row, own in ((c.a, x), (c.b, y)))
    return replace(c, a=a, b=b, difference=stats.paired(x, y))


def _kind(record: Record, key: Key) -> Kind:
    measures = about(record, key.check).get("measures", {})
    return "rate" if measures.get(key.measure, {}).get("kind") == "rate" else "mean"


def _row(record: Record, key: Key) -> Row | None:
    """The one row that a key means, if it has a number. A pair of methods stands under either name."""
    keys = [key]
    if "with" in key.at and key.check == "agreement":
        keys.append(replace(key, method=str(key.at["with"]), at={"with": key.method}))
    rows = [row for k in keys for row in record.rows(k.check, k.measure, k.method, **k.at)]
    return rows[0] if len(rows) == 1 and rows[0]["mean"] is not None else None


def _places(record: Record) -> dict[tuple[str, str | None, int], int]:
    """Where each text is in a run's order; equal ones are numbered."""
    table: pa.Table = record.run.texts(["text", "pair"])
    seen: Counter[tuple[str, str | None]] = Counter()
    places = {}
    for i, (text, pair) in enumerate(zip(*(table.column(c).to_pylist() for c in ("text", "pair")), strict=True)):
        places[text, pair, seen[text, pair]] = i
        seen[text, pair] += 1
    return places


__all__ = ["Contrast", "Matching", "contrasted", "matched", "unpaired"]
