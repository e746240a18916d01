"""Sheet: the paper of a figure. Everything is placed in inches from its top left corner, so nothing is left to guess.

Colours are those of the page in its light dress, told apart by every kind of colour vision.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from heedful.report.figures.glyphs import Letters

FOR, AGAINST, WEIGHT = "#2166ac", "#b35806", "#6a51a3"
INK, SOFT, LINE, ACCENT = "#1b1d21", "#5b6068", "#d5d2ca", "#1f4e79"
MARGIN = 0.35
DPI = 150


class Picture(Figure):
    """A matplotlib Figure of its own: nothing global knows it, and it shows itself in a notebook."""

    def _repr_png_(self) -> bytes:
        return encoded(self, "png")


@contextmanager
def plainly() -> Iterator[None]:
    """Inside, matplotlib draws by its own defaults, whatever style the caller has chosen, and TeX is off."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"svg.hashsalt": "heedful", "axes.linewidth": 0.6})
        yield


def encoded(figure: Figure, kind: str) -> bytes:
    """The figure as the bytes of a png, pdf or svg file; the same figure gives the same bytes."""
    undated: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    file = io.BytesIO()
    with plainly():
        figure.savefig(file, format=kind, dpi=DPI, metadata=undated.get(kind))
    return file.getvalue()


@dataclass(frozen=True)
class Sheet:
    """A figure under work, and the fonts that its words need."""

    figure: Picture
    letters: Letters

    @classmethod
    def of(cls, width: float, height: float, letters: Letters) -> Sheet:
        """An empty white sheet."""
        figure = Picture(figsize=(width, height), facecolor="white", dpi=DPI)
        FigureCanvasAgg(figure)
        return cls(figure, letters)

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """A frame for a plot, without a box around it."""
        w, h = self.figure.get_size_inches()
        found = self.figure.add_axes((left / w, 1 - (top + height) / h, width / w, height / h))
        found.spines[:].set_visible(False)
        found.tick_params(length=0, labelsize=8, colors=SOFT, pad=3)
        return found

    def style(self, size: float = 9, color: str = INK, bold: bool = False) -> dict[str, Any]:
        """How a text is set. A dollar or a backslash in it is only a sign."""
        weight = "bold" if bold else "normal"
        families = list(self.letters.families)
        return {
            "fontsize": size,
            "color": color,
            "fontweight": weight,
            "fontfamily": families,
            "parse_math": False,
            "usetex": False,
        }

    def write(self, left: float, top: float, text: str, style: dict[str, Any] | None = None, ha: Any = "left") -> Text:
        """One line of text with its top at `top`."""
        w, h = self.figure.get_size_inches()
        style = style or self.style()
        return self.figure.text(left / w, 1 - top / h, self.letters.safe(text), ha=ha, va="top", **style)

    def width_of(self, text: str, style: dict[str, Any] | None = None) -> float:
        """How wide a text will be, in inches."""
        probe = self.write(0, 0, text, style)
        canvas: Any = self.figure.canvas
        extent = probe.get_window_extent(canvas.get_renderer())
        probe.remove()
        return float(extent.width) / self.figure.dpi

    def fitted(self, text: str, width: float, style: dict[str, Any] | None = None) -> list[str]:
        """The text in lines that are no wider than `width`; a single word may stick out."""
        lines: list[str] = []
        for word in text.split():
            longer = f"{lines[-1]} {word}" if lines else word
            if lines and self.width_of(longer, style) <= width:
                lines[-1] = longer
            else:
                lines.append(word)
        return lines
