"""Table: rows of text as aligned lines, for terminals."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.cells import cell_len


def align_columns(rows: Sequence[Sequence[str]], right: Collection[int] = (), indent: str = "") -> str:
    """One line per row, each column as wide as its widest cell; the columns in `right` are aligned to the right."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]

    def padded(i: int, cell: str) -> str:
        space = " " * (widths[i] - cell_len(cell))
        return space + cell if i in right else cell + space

    return "\n".join(indent + "  ".join(padded(i, cell) for i, cell in enumerate(row)).rstrip() for row in rows)
