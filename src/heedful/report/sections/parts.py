"""Parts: what the sections of checks share: sentences, tables and charts of methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from heedful.audits.ranking import BOUNDS, COMPARABLE
from heedful.audits.record import Record
from heedful.audits.summary import Row
from heedful.audits.verdict import Rule
from heedful.core.finding import CONTROLS as CONTROLS
from heedful.core.finding import EVERYWHERE as EVERYWHERE
from heedful.core.sentences import MAX_AUTO_WORDS
from heedful.maths.stats import Estimate
from heedful.report.charts import Interval, Words, dots
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import (
    MARKS,
    Cell,
    capital,
    cautious,
    count_texts,
    exists,
    interval,
    mark,
    slug,
    tally,
    versus_random,
)

VERDICT_METHOD = Rule().attention
LOO, GRADIENT = "leave-one-out", "gradient-x-input"
NO_NUMBERS = "Not measured on any text of this run."
LAYERS = "Layers are counted from 0."
TEXTS_COLUMN = Column("n", 0, "texts")


def own_check(module: str) -> str:
    """The check whose section a module makes: "heedful.report.sections.input_erasure" -> "input-erasure"."""
    return module.rpartition(".")[2].replace("_", "-")


UNIT_NOTES = {  # what stands for a word in the section of a check whose setting `unit` is not words
    "sentence": ("The units are sentences instead of words (words in a text of one sentence): unit=sentence.",),
    "auto": (f"In a text of more than {MAX_AUTO_WORDS} words the units are sentences instead of words: unit=auto.",),
}


def check_section(
    record: Record,
    check: str,
    findings: Iterable[str | None],
    figures: Iterable[Figure] = (),
    tables: Iterable[Table] = (),
) -> Section:
    """The section of a check, with the check's own title and question; None among the findings is left out."""
    about = record.about(check)
    unit = record.run.manifest.settings.get("checks", {}).get(check, {}).get("unit")
    return Section(
        name=check,
        title=about.title or check,
        question=about.question or capital(about.summary),
        findings=(*([sentence for sentence in findings if sentence] or [NO_NUMBERS]), *UNIT_NOTES.get(unit, ())),
        figures=tuple(figures),
        tables=tuple(tables),
        reading=about.reading or about.changes,
        source=about.paper.strip("–"),
    )


# methods


def comparable(rows: Iterable[Row]) -> list[Row]:
    """The rows with a mean over nearly as many texts as any row has."""
    known = [row for row in rows if row.known]
    most = max((row.n for row in known), default=0)
    return [row for row in known if row.n >= COMPARABLE * most]


def extremes(phrase: str, rows: Sequence[Row]) -> str | None:
    """A measure of the lowest and the highest method, of attention and of random."""
    known = comparable(rows)
    if not known:
        return None
    ordered = sorted((row for row in known if row.method not in (*CONTROLS, *BOUNDS)), key=lambda row: row.mean)
    ends = ordered[:1] if not ordered or ordered[0].mean == ordered[-1].mean else [ordered[0], ordered[-1]]
    span = " to ".join(f"{interval(row)} ({_with_equals(row, ordered)})" for row in ends)
    named = [row for row in known if row.method in (VERDICT_METHOD, "random") and row not in ends]
    others = [f"{row.method} {interval(row)}" for row in named]
    parts = [f"from {span}" if len(ends) > 1 else span, *others] if ends else others
    low, high = (f(row.n for row in known) for f in (min, max))
    counted = count_texts(high) if low == high else f"{low:,} to {count_texts(high)}"
    return cautious(f"{capital(phrase)}: {'; '.join(parts)} ({counted}).", low)


def _with_equals(end: Row, rows: Sequence[Row]) -> str:
    """A method, and the number of others with the same mean."""
    more = sum(row.mean == end.mean for row in rows) - 1
    return f"{end.method} and {more} more" if more else end.method


def tally_methods(rows: Sequence[Row]) -> str | None:
    """How many of the comparable methods are better or worse than random."""
    return tally([row for row in comparable(rows) if row.method not in CONTROLS])


@dataclass(frozen=True)
class MethodMeasure:
    """A measure of all methods at one place: its sentences and its chart."""

    measure: str
    phrase: str
    axis: str
    better: str | None = None
    at: Mapping[str, Any] = field(default_factory=dict)

    def rows(self, record: Record, check: str) -> list[Row]:
        """One row per method, at this place."""
        return [row for row in record.rows(check, self.measure) if row.method and row.at == self.at]

    def findings(self, record: Record, check: str) -> list[str | None]:
        """The lowest and the highest method, and how many are better than random."""
        rows = self.rows(record, check)
        return [extremes(self.phrase, rows), tally_methods(rows)]

    def figures(self, record: Record, check: str) -> tuple[Figure, ...]:
        """A mark for each method."""
        name = slug("-".join([check, self.measure, *map(str, self.at.values())]))
        note = f"{capital(self.better)} is better. " if self.better else ""
        words = Words(name, capital(self.phrase), self.axis, caption=f"{note}95 % intervals.")
        return by_method(words, self.rows(record, check), lower=self.better == "lower")


@dataclass(frozen=True)
class MethodColumn:
    """A column of a table of methods: a measure at one place."""

    head: str
    measure: str
    at: Mapping[str, Any] = field(default_factory=dict)


def methods_table(
    record: Record, check: str, name: str, title: str, wanted: Sequence[MethodColumn]
) -> tuple[Table, ...]:
    """A row for each method and a column for each measure; no table if nothing was measured."""
    rows_of = {
        (row.method, i): row
        for i, column in enumerate(wanted)
        for row in record.rows(check, column.measure)
        if row.method and row.at == column.at and row.known
    }
    names = sorted({method for method, _ in rows_of}, key=lambda method: _order(record, method))
    measured = [(i, column) for i, column in enumerate(wanted) if any(j == i for _, j in rows_of)]
    rows = tuple(_cells(method, [rows_of.get((method, i)) for i, _ in measured]) for method in names)
    columns = (Column("method"), TEXTS_COLUMN, *(_column(record, check, column) for _, column in measured))
    compared = any(row.versus_random for row in rows_of.values())
    caption = "Means over texts with 95 % intervals. " + (MARKS if compared else "")
    return (Table(name, title, columns, rows, caption.strip()),) if rows else ()


def _order(record: Record, method: str) -> tuple[bool, bool, int, str]:
    """The order of the run, then controls, then bounds."""
    place = record.methods.index(method) if method in record.methods else len(record.methods)
    return method in BOUNDS, method in CONTROLS, place, method


def _cells(method: str, rows: Sequence[Row | None]) -> tuple[Cell, ...]:
    n = max(row.n for row in rows if row is not None)

    def cell(row: Row | None) -> Cell:
        if row is None:
            return None
        return f"{interval(row)}{mark(row)}" + ("" if row.n == n else f" (n = {row.n:,})")

    return (method, n, *map(cell, rows))


def _column(record: Record, check: str, wanted: MethodColumn) -> Column:
    measure = record.about(check).measures.get(wanted.measure)
    if measure is None:
        return Column(wanted.head, 2, wanted.measure)
    return Column(wanted.head, 2, measure.says + (f"; {measure.better} is better" if measure.better else ""))


# charts


def dot(label: str, of: Estimate, series: str = "", note: str = "") -> Interval:
    """An estimate as a mark."""
    low, high = (limit if exists(limit) else None for limit in (of.low, of.high))
    return Interval(label, of.mean, low, high, series, note)


def dotted(words: Words, marks: Sequence[Interval], zero: float | None = None) -> tuple[Figure, ...]:
    """A chart of estimates; none without marks."""
    return (dots(words, marks, zero=zero),) if marks else ()


def series_of(method: str) -> str:
    """The series of a method in a chart, which decides its colour."""
    return "controls" if method in CONTROLS else "bounds" if method in BOUNDS else "methods"


def by_method(words: Words, rows: Sequence[Row], lower: bool = False) -> tuple[Figure, ...]:
    """A mark for each comparable method, the highest first (the lowest, if lower is better), then the controls.

    The line is at the mean of random, or at zero where random was not measured.
    """
    ordered = sorted(comparable(rows), key=lambda row: (row.method in CONTROLS, row.mean * (1 if lower else -1)))
    chance = next((row.mean for row in ordered if row.method == "random"), None)
    line = "" if chance is None else "The line is the mean of random."
    compared = "At the right: compared with random." if any(row.versus_random for row in ordered) else ""
    full = replace(words, caption=" ".join(filter(None, (words.caption, line, compared))))
    marks = [dot(row.method, row, series_of(row.method), versus_random(row.versus_random) or "") for row in ordered]
    return dotted(full, marks, zero=chance or 0.0)
