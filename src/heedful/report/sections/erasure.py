"""The section on attention that is erased until the label changes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from heedful.audits.record import Record
from heedful.audits.summary import Row
from heedful.checks.tables import ErasureTables, Flips, Stops
from heedful.report.charts import Box, Words, boxes, scatter
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import MARKS, Cell, cautious, count_texts, exists, interval, mark, number, p_value
from heedful.report.sections.parts import TEXTS_COLUMN, check_section, own_check

CHECK = own_check(__name__)
EMPTY = ErasureTables({}, (), {}, {})
ORDER = "attention"  # the order that erasure asks about: attention itself, highest first
CHECK_ORDERS = (
    ORDER,
    "attention-slope",
    "attention-x-slope",
    "random",
    "attention-ascending",
)  # the check's own orders


def section(record: Record) -> Section:
    """Does the label depend on what attention points at?"""
    tables = record.tables(CHECK, ErasureTables) or EMPTY
    findings = (_delta_sentence(record, tables), _fractions_sentence(record, tables), *_fewer_sentences(tables))
    evidence = (*_flips_table(record, tables), *_stops_table(record), *_negative_table(tables))
    return check_section(record, CHECK, findings, (*_scatter(record), *_boxes(record, tables)), evidence)


def _orders(record: Record, names: Iterable[str]) -> list[str]:
    """The check's own orders first, then the methods as the run has them."""
    places = [*CHECK_ORDERS, *(name for name in record.methods if name not in CHECK_ORDERS)]
    return sorted(names, key=lambda name: (places.index(name) if name in places else len(places), name))


def _delta_sentence(record: Record, tables: ErasureTables) -> str | None:
    delta = record.row(CHECK, "delta js", ORDER)
    if delta is None:
        return None
    flips = tables.flips.get(ORDER, Flips(0, 0, 0, 0, 0))
    top, other = flips.only_top + flips.both, flips.only_random + flips.both
    labels = (
        f"; it changes the label on {top:,} of {count_texts(flips.n)}, another item on {other:,}" if flips.n else ""
    )
    numbers = f"ΔJS = {interval(delta)} ({count_texts(delta.n)}){labels}"
    return cautious(f"Erasing the item with the most attention {_compared(delta)}: {numbers}.", delta.n)


def _compared(delta: Row) -> str:
    """What the interval of ΔJS says."""
    if not delta.enough:
        return "and another one"
    if exists(delta.low) and delta.low > 0:
        return "moves the answer more than erasing another"
    if exists(delta.high) and delta.high < 0:
        return "moves the answer less than erasing another"
    return "is not significantly different from erasing another"


def _fractions_sentence(record: Record, tables: ErasureTables) -> str | None:
    parts = [
        f"{name}: median {number(stops.median, 2)} over {count_texts(stops.n)}, never on {number(stops.never_share, 2)}"
        for name in _orders(record, (name for name in CHECK_ORDERS[:-1] if name in tables.fractions))
        if (stops := tables.fractions[name]).n
    ]
    return f"Fraction of items erased when the label first changes: {'; '.join(parts)} of the texts." if parts else None


def _fewer_sentences(tables: ErasureTables) -> list[str]:
    """Attention beside random, and beside its slopes: who needs fewer items on how many texts."""
    rows = {frozenset((row.a, row.b)): row for row in tables.fewer}
    pairs = [(other, rows.get(frozenset((ORDER, other)))) for other in ("random", "attention-x-slope")]
    sentences = []
    for other, row in pairs:
        if row is not None and row.n:
            ours, theirs = (row.a_fewer, row.b_fewer) if row.a == ORDER else (row.b_fewer, row.a_fewer)
            counts = f"fewer items than {other} on {ours:,} and more on {theirs:,} of {count_texts(row.n)}"
            test = f"McNemar's exact test, two-sided, p = {p_value(row.p)}"
            sentences.append(cautious(f"Attention needs {counts} ({test}).", row.n))
    return sentences


def _scatter(record: Record) -> tuple[Figure, ...]:
    """Serrano & Smith 2019: ΔJS against the difference of attention."""
    findings = record.findings(CHECK)
    x, y = (findings.values(measure, ORDER) for measure in ("alpha difference", "delta js"))
    there = np.isfinite(x) & np.isfinite(y)
    if not there.any():
        return ()
    title = "Erasing the top item or another: change of the answer against difference of attention"
    caption = "One mark is one text. Below zero, erasing the other item moves the answer more."
    words = Words(f"{CHECK}-delta", title, "attention of the top item − of the other", "ΔJS", caption=caption)
    return (scatter(words, x[there], y[there]),)


def _boxes(record: Record, tables: ErasureTables) -> tuple[Figure, ...]:
    names = [name for name in _orders(record, tables.fractions) if tables.fractions[name].n]
    title = "Fraction of items erased when the label first changes"
    caption = (
        "Median, quartiles and range over the texts whose label changes. Of random, each text is a mean over its "
        "orders that change the label."
    )
    words = Words(f"{CHECK}-first-flip", title, "fraction erased", caption=caption)
    return (boxes(words, [_box(name, tables.fractions[name]) for name in names]),) if names else ()


def _box(name: str, stops: Stops) -> Box:
    five = (stops.lowest, stops.lower, stops.median, stops.upper, stops.highest)
    return Box(name, *five, note=f"never: {stops.never:,}", n=stops.n)


def _flips_table(record: Record, tables: ErasureTables) -> tuple[Table, ...]:
    rows = tuple(
        (name, flips.n, flips.only_top, flips.both, flips.only_random, flips.neither)
        for name in _orders(record, tables.flips)
        for flips in [tables.flips[name]]
    )
    columns = (
        Column("order"),
        TEXTS_COLUMN,
        Column("only the top item", 0, "texts whose label changes without the top item, and not without the other"),
        Column("both", 0, "without either"),
        Column("only the other", 0, "without the other only"),
        Column("neither", 0, "without neither"),
    )
    title, caption = "Which item's erasure changes the label", "Counts of texts; the other item is drawn at random."
    return (Table(f"{CHECK}-flips", title, columns, rows, caption),) if rows else ()


def _stops_table(record: Record) -> tuple[Table, ...]:
    measures = ("delta js", "fraction", "never", "mass")
    rows = {(row.method, row.measure): row for name in measures for row in record.rows(CHECK, name)}
    names = _orders(record, dict.fromkeys(method for method, _ in rows))
    cells = tuple(
        (name, *(x for m in measures for x in _cells(rows.get((name, m)), with_n=m == "fraction"))) for name in names
    )
    columns = (
        Column("order"),
        Column("ΔJS", 2, "JSD without the top item − without a random other; higher is better"),
        Column("fraction", 2, "of items erased when the label first changes; lower is better"),
        Column("n", 0, "texts whose label changes"),
        Column("never", 2, "share of texts, or of random orders, that change nothing; lower is better"),
        Column("mass", 2, "attention erased by then"),
    )
    title, caption = "Orders of erasing", f"Means over texts with 95 % intervals. {MARKS}"
    return (Table(f"{CHECK}-orders", title, columns, cells, caption),) if cells else ()


def _cells(row: Row | None, with_n: bool) -> tuple[Cell, ...]:
    mean = f"{interval(row)}{mark(row)}" if row is not None and row.known else None
    return (mean, row.n if row else None) if with_n else (mean,)


def _negative_table(tables: ErasureTables) -> tuple[Table, ...]:
    columns = (
        Column("difference of attention"),
        TEXTS_COLUMN,
        Column("share negative", 2, "of texts on which the other item moves the answer more"),
    )
    cells = tuple(
        (f"{number(row.start, 2)} to {number(row.end, 2)}", row.n, row.share)
        for row in tables.negative.get(ORDER, ())
        if row.n
    )
    title = "How often another item matters more than the one with the most attention"
    return (Table(f"{CHECK}-negative", title, columns, cells),) if cells else ()
