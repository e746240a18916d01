"""Cells: what a table and an example say in letters, alike in all formats that are letters only."""

from __future__ import annotations

from collections.abc import Sequence

from heedful.report.document import Colouring, Column, Shown, Table
from heedful.report.saying import DASH, shown

STRONGEST = 6  # words of an example


def strongest(colouring: Colouring) -> str:
    """The words that a colouring brings out, the strongest first, with their scores."""
    some = sorted((w for w in colouring.words if w.strength > 0), key=lambda w: -w.strength)[:STRONGEST]
    return ", ".join(w.text if w.score is None else f"{w.text} ({shown(float(w.score))})" for w in some) or DASH


def cells(table: Table) -> list[list[str]]:
    """The rows of a table as a reader sees them."""
    return [[shown(cell, c.digits) for cell, c in zip(row, table.columns, strict=True)] for row in table.rows]


def numbers(table: Table) -> list[bool]:
    """Whether each column has numbers only, and some."""
    columns = [[row[i] for row in table.rows if row[i] is not None] for i in range(len(table.columns))]
    return [bool(cells) and not any(isinstance(cell, str) for cell in cells) for cells in columns]


def notes(columns: Sequence[Column]) -> str:
    """What the numbers are, in one line below a table."""
    return "; ".join(f"{c.head}: {c.says}" for c in columns if c.says)


def _text(colouring: Colouring) -> str:
    return "".join(f"{w.space}{w.text}" for w in colouring.words).strip()


def texts(example: Shown) -> list[str]:
    """The text of an example; several where its colourings are of different words."""
    return list(dict.fromkeys(map(_text, example.colourings)))


def gold(example: Shown) -> str:
    """What the data says of it, if anything."""
    return "" if example.gold is None else f"; in the data: {example.gold}"


__all__ = ["cells", "gold", "notes", "numbers", "shown", "strongest", "texts"]
