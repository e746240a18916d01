"""Block: a part of a figure that knows its size in inches and paints itself on a sheet."""

from __future__ import annotations

from typing import Protocol

from heedful.report.figures.sheet import Sheet

LINE_HEIGHT = 0.16  # of a note


class Block(Protocol):
    """A part of a figure."""

    @property
    def width(self) -> float:
        """In inches, margins not included."""
        ...

    def texts(self) -> list[str]:
        """What it will write, so that fonts can be found."""
        ...

    def height(self, sheet: Sheet) -> float:
        """In inches."""
        ...

    def paint(self, sheet: Sheet, top: float) -> None:
        """Draw it, from `top` downwards."""
        ...
