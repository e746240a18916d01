"""The section on erasing attention until the label changes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from heedful.audits.record import Record
from heedful.audits.summary import Row
from heedful.checks.tables import ErasureTables, Flips
from heedful.report.charts import Box, Words, boxes, scatter
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import MARKS, Cell, cautious, count_texts, exists, interval, mark, number, p_value
from heedful.report.sections.parts import TEXTS_COLUMN, check_section, own_check

CHECK = own_check(__name__)
EMPTY = ErasureTables({}, (), {}, {})
ORDER = "attention"  # the order of the verdict: attention itself, highest first
# the check's own orders
CHECK_ORDERS = (ORDER, "attention-slope", "attention-x-slope", "random", "attention-ascending")


def section(record: Record) -> Section:
    """Does the label depend on the items that attention points at?"""
    tables = record.tables(CHECK, ErasureTables) or EMPTY
    findings = (_delta_sentence(record, tables), _fractions_sentence(record, tables), *_fewer_sentences(tables))
    evidence = (*_flips_table(record, tables), *_stops_table(record), *_negative_table(tables))
    return check_section(record, CHECK, findings, (*_scatter(record), *_boxes(record, tables)), evidence)


def _orders(record: Record, names: Iterable[str]) -> list[str]:
    """The check's own orders first, then the methods in the order of the run."""
    places = [*CHECK_ORDERS, *(name for name in record.methods if name not in CHECK_ORDERS)]
    return sorted(names, key=lambda name: (places.index(name) if name in places else len(places), name))


def _delta_sentence(record: Record, tables: ErasureTables) -> str | None:
    delta = record.row(CHECK, "delta js", ORDER)
    if delta is None:
        return None
    flips = tables.flips.get(ORDER, Flips(0, 0, 0, 0, 0))
    top, other = flips.only_top + flips.both, flips.only_random + flips.both
    labels = (
        f"; it changes the label on {top:,} of {count_texts(flips.n)}, the other item on {other:,}" if flips.n else ""
    )
    numbers = f"ΔJS = {interval(delta)} ({count_texts(delta.n)}){labels}"
    return cautious(f"Erasing the item with the most attention {_compared(delta)}: {numbers}.", delta.n)


def _compared(delta: Row) -> str:
    """The conclusion from the interval of ΔJS."""
    if not delta.enough:
        return "and a random other item"
    if exists(delta.low) and delta.low > 0:
        return "changes the output more than erasing a random other item"
    if exists(delta.high) and delta.high < 0:
        return "changes the output less than erasing a random other item"
    return "does not change the output significantly more or less than erasing a random other item"


def _fractions_sentence(record: Record, tables: ErasureTables) -> str | None:
    parts = [
        f"{name}: median {number(stops.median, 2)} over {count_texts(stops.n)}, never on {number(stops.never_share, 2)}"
        for name in _orders(record, (name for name in CHECK_ORDERS[:-1] if name in tables.fractions))
        if (stops := tables.fractions[name]).n
    ]
    return f"Fraction of items erased when the label first changes: {'; '.join(parts)} of the texts." if parts else None


def _fewer_sentences(tables: ErasureTables) -> list[str]:
    """Attention compared with random and with attention × gradient: which needs fewer items, on how many texts."""
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
    known = np.isfinite(x) & np.isfinite(y)
    if not known.any():
        return ()
    title = "Erasing the top item or another: change of the output against difference of attention"
    caption = "One mark is one text. Below zero, erasing the other item changes the output more."
    words = Words(f"{CHECK}-delta", title, "attention of the top item − of the other", "ΔJS", caption=caption)
    return (scatter(words, x[known], y[known]),)


def _boxes(record: Record, tables: ErasureTables) -> tuple[Figure, ...]:
    orders = [(name, tables.fractions[name]) for name in _orders(record, tables.fractions)]
    drawn = [
        Box(name, s.lowest, s.lower, s.median, s.upper, s.highest, note=f"never: {s.never:,}", n=s.n)
        for name, s in orders
        if s.n
    ]
    title = "Fraction of items erased when the label first changes"
    caption = (
        "Median, quartiles and range over the texts whose label changes. For random, each text has the mean over those "
        "of its orders that change the label."
    )
    words = Words(f"{CHECK}-first-flip", title, "fraction erased", caption=caption)
    return (boxes(words, drawn),) if drawn else ()


def _flips_table(record: Record, tables: ErasureTables) -> tuple[Table, ...]:
    rows = tuple(
        (name, flips.n, flips.only_top, flips.both, flips.only_random, flips.neither)
        for name in _orders(record, tables.flips)
        for flips in [tables.flips[name]]
    )
    columns = (
        Column("order"),
        TEXTS_COLUMN,
        Column("only the top item", 0, "texts whose label changes without the top item, but not without the other"),
        Column("both", 0, "texts whose label changes without either item"),
        Column("only the other", 0, "texts whose label changes without the other item only"),
        Column("neither", 0, "texts whose label does not change without either item"),
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
        Column("never", 2, "share of texts, or of random orders, whose label never changes; lower is better"),
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
        Column("share negative", 2, "of texts on which the other item changes the output more"),
    )
    cells = tuple(
        (f"{number(row.start, 2)} to {number(row.end, 2)}", row.n, row.share)
        for row in tables.negative.get(ORDER, ())
        if row.n
    )
    title = "How often another item matters more than the one with the most attention"
    return (Table(f"{CHECK}-negative", title, columns, cells),) if cells else ()
