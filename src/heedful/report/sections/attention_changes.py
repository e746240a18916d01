"""Attention changes: what the sections on shuffled and on uniform attention share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heedful.audits.record import Record
from heedful.audits.summary import Row
from heedful.checks.tables import PeakSpread, PlacedEstimate
from heedful.core.arrays import Floats
from heedful.core.finding import EVERYWHERE
from heedful.maths.stats import Estimate
from heedful.report.charts import Group, Words
from heedful.report.document import Column, Figure, Table
from heedful.report.phrases import Cell, capital, cautious, count_texts, exists, interval, place_name, range_name
from heedful.report.sections.parts import LAYERS, TEXTS_COLUMN, dot, dotted

MAX_LABELS = 4  # labels that a chart separates


def change_sentence(record: Record, check: str, what: str, over: str, share: str) -> str | None:
    """How much the output changes when attention is changed everywhere."""
    tvd, flip = (record.row(check, measure, at=EVERYWHERE) for measure in ("tvd", "flip"))
    if tvd is None:
        return None
    flips = f", and changes the label in {interval(flip)} {share}" if flip else ""
    change = f"changes the output by {interval(tvd)} (TVD{over}; mean over {count_texts(tvd.n)})"
    return cautious(f"{capital(what)} {change}{flips}.", tvd.n)


def accuracy_sentence(accuracy: Sequence[PlacedEstimate]) -> str | None:
    """How accuracy changes when attention is changed everywhere, if the data have labels."""
    rows = {place_name(row.at): row for row in accuracy}
    before, after = rows.get("unchanged"), rows.get("everywhere")
    if before is None or after is None or not before.known or after.change is None or not after.change.known:
        return None
    change = after.change
    numbers = f"from {interval(before)} to {interval(after)}, a change of {interval(change)} ({count_texts(change.n)})"
    if not change.enough or not exists(change.low):
        return cautious(f"Accuracy changes {numbers}.", change.n)
    if change.low <= 0 <= change.high:
        return f"Accuracy does not change significantly: {numbers}."
    return f"Accuracy {'falls' if change.high < 0 else 'rises'} {numbers}."


def accuracy_figure(check: str, title: str, accuracy: Sequence[PlacedEstimate]) -> tuple[Figure, ...]:
    """Unchanged first, then everywhere, then by layer, then other activations."""
    order = {"unchanged": 0, "everywhere": 1}
    known = [row for row in accuracy if row.known]
    rows = sorted(known, key=lambda row: (order.get(place_name(row.at), 2), "activation" in row.at))
    words = Words(f"{check}-accuracy", title, "accuracy", caption=f"95 % intervals. {LAYERS}")
    return dotted(words, [dot(place_name(row.at), row) for row in rows]) if len(rows) > 1 else ()


def places_table(record: Record, check: str, accuracy: Sequence[PlacedEstimate]) -> tuple[Table, ...]:
    """Every layer and every activation, with accuracy where there are labels."""
    by_place = {place_name(row.at): row for row in accuracy}
    before = by_place.get("unchanged")
    rows = [row for row in record.rows(check, "tvd") if row.at.get("head", "all") == "all"]
    if not rows:
        return ()
    cells = [_place(record, check, row, by_place.get(place_name(row.at))) for row in rows]
    if before and before.known:
        cells.insert(0, ("unchanged", before.n, None, None, None, interval(before), None))
    columns = (
        Column("attention"),
        TEXTS_COLUMN,
        Column("TVD", 2, "total variation distance of the output"),
        Column("JSD", 2, "Jensen–Shannon divergence of the output, at most 0.69"),
        Column("label changes", 2, "share of the texts, or of the shuffles of each"),
        Column("accuracy"),
        Column("change of accuracy", 2, "text by text"),
    )
    caption = f"Means over texts with 95 % intervals. {LAYERS}"
    return (Table(f"{check}-places", "Where attention is changed", columns, tuple(cells), caption),)


def _place(record: Record, check: str, tvd: Row, accuracy: PlacedEstimate | None) -> tuple[Cell, ...]:
    others: list[Estimate | None] = [record.row(check, measure, at=tvd.at) for measure in ("jsd", "flip")]
    right = (accuracy, accuracy.change) if accuracy else (None, None)
    estimates = (tvd, *others, *right)
    cells = (interval(e) if e is not None and e.known else None for e in estimates)
    return (place_name(tvd.at), tvd.n, *cells)


def spread_table(
    name: str, title: str, heads: tuple[str, Column], rows: Sequence[PeakSpread], caption: str = ""
) -> tuple[Table, ...]:
    """Medians and quartiles by the largest weight of attention; `heads` are those of the weight and the median."""
    largest, median = heads
    quartiles = (Column("lower quartile"), Column("upper quartile"))
    columns = (Column(largest), Column("predicted"), TEXTS_COLUMN, median, *quartiles)
    cells = tuple(
        (range_name(row.start, row.end), row.label, row.n, row.median, row.lower, row.upper) for row in rows if row.n
    )
    return (Table(name, title, columns, cells, caption),) if cells else ()


def peak_groups(record: Record, values: Floats, peaks: Floats, ranges: Sequence[tuple[float, float]]) -> list[Group]:
    """Values by the largest attention weight of the text, and by predicted label where there are few labels."""
    predicted = record.facts["predicted"][: len(values)]
    labels = list(enumerate(record.labels)) if len(record.labels) <= MAX_LABELS else [(None, "")]
    top = max((high for _, high in ranges), default=1.0)
    groups = [
        Group(range_name(low, high), values[inside & known], label)
        for low, high in ranges
        for i, label in labels
        for known in [np.isfinite(values) & ((predicted == i) if i is not None else True)]
        for inside in [(peaks >= low) & ((peaks < high) | (high == top))]
    ]
    return [group for group in groups if len(group.values)]
