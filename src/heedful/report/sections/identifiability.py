"""Identifying: the section on identifiability, which other weights would give a layer the same output."""

from __future__ import annotations

from typing import Any

import numpy as np

from heedful.audits.record import Record, Row
from heedful.report import telling
from heedful.report.charts import Words
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.sections.asking import Evidence, made
from heedful.report.sections.attention import LAYERS
from heedful.report.telling import cautious, dot, dotted, exactly, interval, known, number, texts


def identifiability(record: Record) -> Section:
    """Which other weights would give a layer the same output?"""
    by_length = record.table("identifiability", "by length") or ()
    return made(
        record,
        "identifiability",
        Evidence(
            (_null_told(record), _correlation_told(record), _farthest_told(record)),
            (
                *_lengths("null constrained", "Directions in which attention may move, by length", by_length),
                *_lengths("correlation pooled", "Effective attention against attention, by length", by_length),
            ),
            (*_layers_table(record), *_farthest_table(record)),
        ),
    )


def _last_layer(record: Record) -> Row | None:
    rows = record.table("identifiability", "by layer") or ()
    return max(rows, key=lambda row: (isinstance(row["layer"], str), row["layer"]), default=None)


def _null_told(record: Record) -> str | None:
    last = _last_layer(record)
    if last is None or not known(last["null constrained"]):
        return None
    found = record.found("identifiability")
    places = [row["at"] for row in record.rows("identifiability", "null constrained", layer=last["layer"])]
    free = np.array([found.values("null constrained", at=at) for at in places])
    there = np.isfinite(free).any(0)
    some = int((free[:, there] > 0).any(0).sum())
    null = last["null constrained"]
    return cautious(
        f"In layer {last['layer']} attention is not identifiable on {some:,} of {texts(int(there.sum()))}: weights "
        f"that add up to one may move in {interval(null)} directions (mean over heads), and the layer gives the same.",
        int(there.sum()),
    )


def _correlation_told(record: Record) -> str | None:
    last = _last_layer(record)
    row = last["correlation pooled"] if last else None
    if last is None or row is None or not known(row):
        return None
    return (
        f"Effective attention, the part that is not cancelled, correlates with attention by r = {interval(row)} in "
        f"layer {last['layer']} (mean over heads and {texts(row['n'])})."
    )


def _farthest_told(record: Record) -> str | None:
    rows = sorted((r for r in record.rows("identifiability", "farthest") if known(r)), key=lambda row: row["mean"])
    if not rows:
        return None
    if len(rows) == 1:
        bound = exactly(record, "identifiability", "farthest bound", "", rows[0]["at"])
        most = f", and none is farther than {interval(bound)}" if known(bound) else ""
        return f"The farthest attention found with the same output is {interval(rows[0])} away (TVD){most}."
    low, high = rows[0], rows[-1]
    return (
        f"The farthest attention found with the same output is from {interval(low)} (head {low['at']['head']}) to "
        f"{interval(high)} (head {high['at']['head']}) away (TVD), over the {len(rows)} heads of layer "
        f"{high['at']['layer']}."
    )


def _lengths(measure: str, title: str, rows: Any) -> tuple[Figure, ...]:
    there = [row for row in rows if known(row[measure])]
    axis = "dimensions" if measure.startswith("null") else "Pearson's r"
    caption = "Texts in four groups by length, mean over heads and layers, 95 % intervals."
    words = Words(f"identifiability-{telling.slug(measure)}", title, axis, caption=caption)
    return dotted(words, [dot(_tokens(row), row[measure]) for row in there], zero=0.0)


def _tokens(row: Row) -> str:
    low, high = (number(row[name], 0) for name in ("from", "to"))
    return f"{low} tokens" if low == high else f"{low}–{high} tokens"


def _layers_table(record: Record) -> tuple[Table, ...]:
    names = {
        "null": Column("null space", 1, "dimension of the null space of T"),
        "null constrained": Column("with sums of one", 1, "the same for weights that add up to one"),
        "correlation": Column("r, all queries", 2, "effective attention with attention"),
        "correlation pooled": Column("r, pooled", 2, "the same, of the pooled position's row"),
        "special mass": Column("special tokens", 2, "attention on special tokens, mean over queries"),
    }
    rows = record.table("identifiability", "by layer") or ()
    cells = tuple((str(row["layer"]), *(interval(row[name]) for name in names)) for row in rows)
    caption = f"Means over heads and texts with 95 % intervals. {LAYERS}"
    columns = (Column("layer"), *names.values())
    return (Table("identifiability-layers", "Null spaces by layer", columns, cells, caption),) if cells else ()


def _farthest_table(record: Record) -> tuple[Table, ...]:
    rows = [row for row in record.rows("identifiability", "farthest") if known(row)]
    bounds = [exactly(record, "identifiability", "farthest bound", "", row["at"]) for row in rows]
    cells = tuple(
        (f"layer {row['at']['layer']} head {row['at'].get('head', 0)}", row["n"], interval(row), interval(bound))
        for row, bound in zip(rows, bounds, strict=True)
    )
    columns = (
        Column("head"),
        Column("n", 0, "texts"),
        Column("farthest found", 2, "TVD of the farthest attention found with the same output"),
        Column("at most", 2, "the distance that none can exceed"),
    )
    title = "The farthest attention with the same output"
    return (
        (Table("identifiability-farthest", title, columns, cells, "Means over texts with 95 % intervals."),)
        if cells
        else ()
    )
