"""Erasing: the section on attention that is erased until the label changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heedful.audits.record import Record, Row
from heedful.maths.stats import MINIMUM
from heedful.report import telling
from heedful.report.charts import Box, Words, boxes, scatter
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.saying import Cell
from heedful.report.sections.asking import MARKS, Evidence, made, mark
from heedful.report.telling import (
    cautious,
    exactly,
    interval,
    known,
    number,
    texts,
)

ORDER = "attention"  # the order that erasure asks about: attention itself, highest first
OWN = (ORDER, "attention-slope", "attention-x-slope", "random", "attention-ascending")  # the check's own orders
FLIPS = ("only top", "both", "only random", "neither")


def erasure(record: Record) -> Section:
    """Is what attention points at what the label hangs on?"""
    return made(
        record,
        "erasure",
        Evidence(
            (_delta_told(record), _fractions_told(record), *_fewer_told(record)),
            (*_scatter(record), *_boxes(record)),
            (*_flips_table(record), *_stops_table(record), *_negative_table(record)),
        ),
    )


def _orders(record: Record, names: Sequence[str]) -> list[str]:
    """The check's own orders first, then the methods as the run has them."""
    places = [*OWN, *(name for name in record.methods if name not in OWN)]
    return sorted(names, key=lambda name: (places.index(name) if name in places else len(places), name))


def _delta_told(record: Record) -> str | None:
    delta = exactly(record, "erasure", "delta js", ORDER, {})
    if delta is None or not known(delta):
        return None
    flips = (record.table("erasure", "flips") or {}).get(ORDER, {"n": 0})
    labels = (
        f"; it changes the label on {flips['only top'] + flips['both']:,} of {texts(flips['n'])}, another item on "
        f"{flips['only random'] + flips['both']:,}"
        if flips["n"]
        else ""
    )
    return cautious(
        f"Erasing the item with the most attention {_more(delta)}: ΔJS = {interval(delta)} ({texts(delta['n'])})"
        f"{labels}.",
        delta["n"],
    )


def _more(delta: Row) -> str:
    """What the interval of ΔJS says."""
    if delta["n"] < MINIMUM:
        return "and another one"
    if telling.exists(delta["low"]) and delta["low"] > 0:
        return "moves the answer more than erasing another"
    if telling.exists(delta["high"]) and delta["high"] < 0:
        return "moves the answer less than erasing another"
    return "cannot be told from erasing another"


def _fractions_told(record: Record) -> str | None:
    table = record.table("erasure", "fractions") or {}
    said = [
        f"{name}: median {number(row['median'], 2)} over {texts(row['n'])}, never on {number(row['never share'], 2)}"
        for name in _orders(record, [name for name in OWN[:-1] if name in table])
        if (row := table[name])["n"]
    ]
    return f"Fraction of items erased when the label first changes: {'; '.join(said)} of the texts." if said else None


def _fewer_told(record: Record) -> list[str]:
    """Attention beside chance, and beside its slopes: who needs fewer items on how many texts."""
    rows = {frozenset((row["a"], row["b"])): row for row in record.table("erasure", "fewer") or ()}
    pairs = [(other, rows.get(frozenset((ORDER, other)))) for other in ("random", "attention-x-slope")]
    return [_fewer(other, row) for other, row in pairs if row is not None and row["n"]]


def _fewer(other: str, row: Mapping[str, Any]) -> str:
    ours, theirs = ("a fewer", "b fewer") if row["a"] == ORDER else ("b fewer", "a fewer")
    return cautious(
        f"Attention needs fewer items than {other} on {row[ours]:,} and more on {row[theirs]:,} of {texts(row['n'])} "
        f"(McNemar's exact test, two-sided, p = {p_told(row['p'])}).",
        row["n"],
    )


def p_told(p: float) -> str:
    """Two digits; small ones as a power of ten."""
    return number(p, 2) if p >= 0.01 else number(p) if p < 1e-3 else number(p, 3)


def _scatter(record: Record) -> tuple[Figure, ...]:
    """Serrano & Smith 2019: ΔJS against the difference of attention."""
    found = record.found("erasure")
    x, y = (found.values(measure, ORDER) for measure in ("alpha difference", "delta js"))
    there = np.isfinite(x) & np.isfinite(y)
    if not there.any():
        return ()
    title = "Erasing the top item or another: change of the answer against difference of attention"
    words = Words(
        "erasure-delta",
        title,
        "attention of the top item − of the other",
        "ΔJS",
        caption="One mark is one text. Below zero, erasing the other item moves the answer more.",
    )
    return (scatter(words, x[there], y[there]),)


def _boxes(record: Record) -> tuple[Figure, ...]:
    table = record.table("erasure", "fractions") or {}
    names = [name for name in _orders(record, list(table)) if table[name]["n"]]
    if not names:
        return ()
    title = "Fraction of items erased when the label first changes"
    marks = [_box(name, table[name]) for name in names]
    caption = (
        "Median, quartiles and range over the texts whose label changes. Of random, each text is a mean over its "
        "orders that change the label."
    )
    return (boxes(Words("erasure-first-flip", title, "fraction erased", caption=caption), marks),)


def _box(name: str, row: Mapping[str, Any]) -> Box:
    return Box(
        name,
        lowest=row["lowest"],
        lower=row["lower quartile"],
        median=row["median"],
        upper=row["upper quartile"],
        highest=row["highest"],
        note=f"never: {row['never']:,}",
        n=row["n"],
    )


def _flips_table(record: Record) -> tuple[Table, ...]:
    table = record.table("erasure", "flips") or {}
    rows = tuple(
        (name, table[name]["n"], *(table[name][cell] for cell in FLIPS)) for name in _orders(record, list(table))
    )
    columns = (
        Column("order"),
        Column("n", 0, "texts"),
        Column("only the top item", 0, "texts whose label changes without the top item, and not without the other"),
        Column("both", 0, "without either"),
        Column("only the other", 0, "without the other only"),
        Column("neither", 0, "without neither"),
    )
    title, caption = "Which item's erasure changes the label", "Counts of texts; the other item is drawn at random."
    return (Table("erasure-flips", title, columns, rows, caption),) if rows else ()


def _stops_table(record: Record) -> tuple[Table, ...]:
    measures = ("delta js", "fraction", "never", "mass")
    rows = {(row["method"], row["measure"]): row for name in measures for row in record.rows("erasure", name)}
    names = _orders(record, list(dict.fromkeys(method for method, _ in rows)))
    cells = tuple(
        (name, *(x for m in measures for x in _number(rows.get((name, m)), with_n=m == "fraction"))) for name in names
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
    return (Table("erasure-orders", title, columns, cells, caption),) if cells else ()


def _number(row: Row | None, with_n: bool) -> tuple[Cell, ...]:
    told = f"{interval(row)}{mark(row)}" if row is not None and known(row) else None
    return (told, row["n"] if row else None) if with_n else (told,)


def _negative_table(record: Record) -> tuple[Table, ...]:
    rows = [row for row in (record.table("erasure", "negative") or {}).get(ORDER, ()) if row["n"]]
    columns = (
        Column("difference of attention"),
        Column("n", 0, "texts"),
        Column("share negative", 2, "of texts on which the other item moves the answer more"),
    )
    cells = tuple((f"{number(r['from'], 2)} to {number(r['to'], 2)}", r["n"], r["negative"]) for r in rows)
    title = "How often another item matters more than the one with the most attention"
    return (Table("erasure-negative", title, columns, cells),) if cells else ()
