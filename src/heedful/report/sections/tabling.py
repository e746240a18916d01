"""Tabling: a row for each method and a column for each measure, with intervals and what may be said beside chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heedful.audits.record import Record, Row
from heedful.maths.stats import MINIMUM
from heedful.report.document import Cell, Column, Table
from heedful.report.telling import BOUNDS, CONTROLS, about, interval, known

MARKS = (
    "* cannot be told from random; “worse” is worse than random (paired over texts, p ≤ .05 after Holm's correction "
    f"over all rows of the measure); ? fewer than {MINIMUM} texts: nothing is decided. An n in brackets is of that "
    "number alone."
)


@dataclass(frozen=True)
class Asked:
    """A column of a table of methods: a measure at the place that has just these."""

    head: str
    measure: str
    at: Mapping[str, Any]


def mark(row: Row) -> str:
    """What stands after a number to say how it is beside chance; see MARKS."""
    says = (row.get("random") or {}).get("says", "")
    if says.endswith("worse"):
        return " worse"
    return {"cannot be told from random": "*", "too few texts": "?"}.get(says, "")


def methods_table(record: Record, check: str, words: tuple[str, str], asked: Sequence[Asked]) -> tuple[Table, ...]:
    """A row for each method and a column for each measure; none if nothing was measured. `words` are name and title."""
    found = {
        (row["method"], i): row
        for i, one in enumerate(asked)
        for row in record.rows(check, one.measure)
        if row["method"] and row["at"] == one.at and known(row)
    }
    names = sorted({name for name, _ in found}, key=lambda name: _order(record, name))
    heads = [(i, one) for i, one in enumerate(asked) if any(j == i for _, j in found)]
    rows = tuple(_cells(name, [found.get((name, i)) for i, _ in heads]) for name in names)
    columns = (Column("method"), Column("n", 0, "texts"), *(_column(record, check, one) for _, one in heads))
    compared = any(row.get("random") for row in found.values())
    caption = "Means over texts with 95 % intervals. " + (MARKS if compared else "")
    return (Table(*words, columns, rows, caption.strip()),) if rows else ()


def _order(record: Record, name: str) -> tuple[bool, bool, int, str]:
    """The run's order, controls after methods and bounds last."""
    place = record.methods.index(name) if name in record.methods else len(record.methods)
    return name in BOUNDS, name in CONTROLS, place, name


def _cells(name: str, rows: Sequence[Row | None]) -> tuple[Cell, ...]:
    n = max(row["n"] for row in rows if row is not None)

    def cell(row: Row | None) -> Cell:
        if row is None:
            return None
        return f"{interval(row)}{mark(row)}" + ("" if row["n"] == n else f" (n = {row['n']:,})")

    return (name, n, *map(cell, rows))


def _column(record: Record, check: str, asked: Asked) -> Column:
    measure = about(record, check).get("measures", {}).get(asked.measure, {})
    better = f"; {measure['better']} is better" if measure.get("better") else ""
    return Column(asked.head, 2, f"{measure.get('says', asked.measure)}{better}")
