"""The section on erasing attention until the label changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from heedful.audits.record import Record
from heedful.audits.summary import Row
from heedful.checks.tables import ErasureTables, Flips, Stops
from heedful.core.arrays import Floats
from heedful.core.finding import FRACTION
from heedful.report.charts import Box, Words, boxes, scatter
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import MARKS, Cell, cautious, count_texts, exists, interval, mark, number, p_value
from heedful.report.sections.parts import TEXTS_COLUMN, check_section, own_check

CHECK = own_check(__name__)
EMPTY = ErasureTables({}, (), {}, {})
ORDER = "attention"  # the order of the verdict: attention itself, highest first
ASCENDING = "attention-ascending"
CHECK_ORDERS = (ORDER, "attention-slope", "attention-x-slope", "random", ASCENDING)  # the check's own orders
WHISKERS = "Median, quartiles, whiskers of at most 1.5 interquartile ranges, and outliers"


def section(record: Record) -> Section:
    """Does the label depend on the items that attention points at?"""
    tables = record.tables(CHECK, ErasureTables) or EMPTY
    findings: tuple[str | None, ...] = (_delta_sentence(record, tables), _fractions_sentence(record, tables))
    findings += (*_fewer_sentences(tables), _second_sentence(record), _uniform_sentence(record))
    evidence = (*_flips_table(record, tables), *_stops_table(record), *_negative_table(tables))
    return check_section(record, CHECK, findings, (*delta_scatter(record), *_boxes(record, tables)), evidence)


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


def _second_sentence(record: Record) -> str | None:
    """The highest weight compared with the second highest, and the lowest with the second lowest."""
    words = {ORDER: "the highest weight instead of the second highest", ASCENDING: "the lowest instead of the second"}
    rows = {order: record.row(CHECK, "delta js second", order) for order in words}
    parts = [f"{words[order]} {interval(row)}" for order, row in rows.items() if row is not None]
    first = rows[ORDER]
    return cautious(f"ΔJS of erasing {'; '.join(parts)} ({count_texts(first.n)}).", first.n) if first else None


def _uniform_sentence(record: Record) -> str | None:
    js, kl = (record.row(CHECK, f"{name} from uniform", ORDER) for name in ("js", "kl"))
    if js is None or kl is None:
        return None
    return f"Attention over the items, from uniform: JS {interval(js)}, KL(attention ‖ uniform) {interval(kl)}."


def delta_scatter(record: Record) -> tuple[Figure, ...]:
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
    findings = record.findings(CHECK)
    drawn = [
        stops_box(name, stops, findings.values("fraction", name), f"never: {stops.never:,}")
        for name, stops in orders
        if stops.n
    ]
    title = "Fraction of items erased when the label first changes"
    caption = (
        f"{WHISKERS}, over the texts whose label changes. For random, each text has the mean over those of its orders "
        "that change the label."
    )
    words = Words(f"{CHECK}-first-flip", title, "fraction erased", caption=caption)
    return (boxes(words, drawn, FRACTION),) if drawn else ()


def stops_box(label: str, stops: Stops, fractions: Floats, note: str = "", series: str = "") -> Box:
    """The box of an order, with the fractions beyond its whiskers."""
    beyond = tuple(fractions[(fractions < stops.low) | (fractions > stops.high)].tolist())
    numbers = (stops.low, stops.lower, stops.median, stops.upper, stops.high)
    return Box(label, *numbers, note, stops.n, beyond, series)


def _flips_table(record: Record, tables: ErasureTables) -> tuple[Table, ...]:
    """The paper's table of each order: percentages of texts, two by two."""
    flips = {name: tables.flips[name] for name in _orders(record, tables.flips) if tables.flips[name].n}
    rows = tuple(row for name, one in flips.items() for row in two_by_two((name, one.n), flip_percentages(one)))
    title = "Which item's erasure changes the label, in percent of texts"
    caption = "Two rows for each order: four cells that add up to 100 %. The other item is drawn at random."
    columns = (Column("order"), TEXTS_COLUMN, *FLIP_COLUMNS)
    return (Table(f"{CHECK}-flips", title, columns, rows, caption),) if rows else ()


FLIP_COLUMNS = (
    Column("top item", says="whether the label changes without it"),
    Column("other: changes", 1, "% of texts whose label changes without the other item"),
    Column("other: does not", 1, "% of texts whose label does not change without it"),
)


def flip_percentages(flips: Flips) -> tuple[float, float, float, float]:
    """Both, only the top item, only the other, neither."""
    counts = (flips.both, flips.only_top, flips.only_random, flips.neither)
    both, top, other, neither = (100 * count / flips.n for count in counts)
    return both, top, other, neither


def two_by_two(first: tuple[Cell, ...], percentages: Sequence[float | None]) -> tuple[tuple[Cell, ...], ...]:
    """Two rows that begin with these cells: the label changes without the top item, and it does not."""
    both, top, other, neither = percentages
    return (*first, "changes", both, top), (*first, "does not", other, neither)


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
