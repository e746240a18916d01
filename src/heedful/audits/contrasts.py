"""Contrasts: the same estimate of two runs, and how different they are. Needs no torch.

Where both runs have the same texts, both means are over those that have both numbers, and their difference is paired;
otherwise it is unpaired. p is corrected (Holm) over all rows of a check that are compared together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import pyarrow as pa

from heedful.audits.ranking import BOUNDS
from heedful.audits.record import Record
from heedful.audits.summary import Row
from heedful.core.arrays import Ints
from heedful.core.finding import Findings, Measure, SideBySide
from heedful.maths import stats
from heedful.maths.stats import Decision, Difference


@dataclass(frozen=True)
class Contrast:
    """An estimate of two runs: rows of both, None where a run has none, and a − b with its decision."""

    key: SideBySide
    a: Row | None
    b: Row | None
    difference: Difference | None = None

    @property
    def decision(self) -> Decision | None:
        """Whether a is higher or lower; None where one of them has no number."""
        return None if self.difference is None else self.difference.decision

    @property
    def texts(self) -> tuple[int, int]:
        """How many texts each mean is over."""
        n, m = (0 if row is None else row.n for row in (self.a, self.b))
        return n, m


@dataclass(frozen=True, eq=False)
class Matching:
    """The texts of two runs: places in a and in b of those that both have, and whether one run has all the other's."""

    a: Ints
    b: Ints
    same: bool


def match(a: Record, b: Record) -> Matching:
    """The texts that both runs have; of equal texts, the first goes with the first."""
    in_a, in_b = _places(a), _places(b)
    both = [text for text in in_a if text in in_b]
    same = len(both) > 0 and len(both) == min(len(in_a), len(in_b))
    return Matching(np.array([in_a[t] for t in both], np.int64), np.array([in_b[t] for t in both], np.int64), same)


def contrast(a: Record, b: Record, check: str, matching: Matching) -> list[Contrast]:
    """What the check sets side by side, as far as a run has it, with Holm's correction over all of it."""
    rows = [(key, _row(a, check, key), _row(b, check, key)) for key in _keys(a, b, check)]
    present = [(key, x, y) for key, x, y in rows if x is not None or y is not None]
    both = any(x is not None and y is not None for _, x, y in present)
    findings = [run.findings(check) for run in (a, b)] if both and matching.same else []
    measures = a.about(check).measures
    contrasts = [_contrast(Contrast(key, x, y), findings, matching, measures.get(key.measure)) for key, x, y in present]
    decided = stats.decide([c.difference for c in contrasts])
    return [replace(c, difference=difference) for c, difference in zip(contrasts, decided, strict=True)]


def _keys(a: Record, b: Record, check: str) -> list[SideBySide]:
    """One for each number of the model, and for each method that either run has."""
    compared = a.about(check).compared or b.about(check).compared
    measured = {row.method for record in (a, b) for row in record.rows(check)}
    methods = [m for m in dict.fromkeys([*a.methods, *b.methods]) if m in measured and m not in BOUNDS]
    return [
        key
        for number in compared
        for key in ([number] if number.words else [replace(number, words=name, method=name) for name in methods])
    ]


def _contrast(c: Contrast, findings: Sequence[Findings], texts: Matching, measure: Measure | None) -> Contrast:
    """With a difference, if both have a number."""
    if c.a is None or c.b is None:
        return c
    if not texts.same:
        return replace(c, difference=stats.unpaired(c.a, c.b))
    every = (f.values(row.measure, row.method, row.at) for f, row in zip(findings, (c.a, c.b), strict=True))
    x, y = (values[places] for values, places in zip(every, (texts.a, texts.b), strict=True))
    defined = np.isfinite(x) & np.isfinite(y)
    if not defined.any():
        return c
    kind, within = ("mean", None) if measure is None else (measure.kind, measure.range)
    a, b = (replace(row, **asdict(stats.estimate(v[defined], kind, within))) for row, v in ((c.a, x), (c.b, y)))
    return replace(c, a=a, b=b, difference=stats.paired(x, y))


def _row(record: Record, check: str, key: SideBySide) -> Row | None:
    """The one row of a key, if it has a number. The row of a pair of methods is under either name."""
    rows = record.rows(check, key.measure, key.method, **key.at)
    if not rows and key.method and "with" in key.at:
        rows = record.rows(check, key.measure, str(key.at["with"]), **{"with": key.method})
    return rows[0] if len(rows) == 1 and rows[0].known else None


def _places(record: Record) -> dict[tuple[str, str | None, int], int]:
    """Where each text is in a run's order; equal ones are numbered."""
    table: pa.Table = record.run.texts(["text", "pair"])
    count: Counter[tuple[str, str | None]] = Counter()
    places = {}
    for i, (text, pair) in enumerate(zip(*(table.column(c).to_pylist() for c in ("text", "pair")), strict=True)):
        places[text, pair, count[text, pair]] = i
        count[text, pair] += 1
    return places
