"""Sheet: the canvas of a figure. Everything is placed in inches from its top left corner.

Colours are those of the page in its light theme, distinct for every kind of colour vision.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any, Protocol

import matplotlib
import regex
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text

LINE_HEIGHT = 0.16  # inches, of a note
FOR, AGAINST, WEIGHT = "#2166ac", "#b35806", "#6a51a3"
INK, SOFT, LINE, ACCENT = "#1b1d21", "#5b6068", "#d5d2ca", "#1f4e79"
MARGIN_INCHES = 0.35
DPI = 150


class Picture(Figure):
    """A matplotlib Figure outside pyplot, which a notebook displays."""

    def _repr_png_(self) -> bytes:
        return encode(self, "png")


@contextmanager
def plainly() -> Iterator[None]:
    """Inside, matplotlib uses its defaults, whatever style the caller has chosen, and no TeX."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"svg.hashsalt": "heedful", "axes.linewidth": 0.6})
        yield


def encode(figure: Figure, kind: str) -> bytes:
    """The figure as the bytes of a png, pdf or svg file; the same figure gives the same bytes."""
    undated: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    file = io.BytesIO()
    with plainly():
        figure.savefig(file, format=kind, dpi=DPI, metadata=undated.get(kind))
    return file.getvalue()


@dataclass(frozen=True)
class Sheet:
    """A figure, and the fonts that its words need."""

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
        axes = self.figure.add_axes((left / w, 1 - (top + height) / h, width / w, height / h))
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0, labelsize=8, colors=SOFT, pad=3)
        return axes

    def style(self, size: float = 9, color: str = INK, bold: bool = False) -> dict[str, Any]:
        """The style of a text, without maths: a dollar or a backslash is an ordinary character."""
        face = {"fontweight": "bold" if bold else "normal", "fontfamily": list(self.letters.families)}
        return {"fontsize": size, "color": color, **face, "parse_math": False, "usetex": False}

    def write(self, left: float, top: float, text: str, style: dict[str, Any] | None = None, ha: Any = "left") -> Text:
        """One line of text with its top at `top`."""
        w, h = self.figure.get_size_inches()
        style = style or self.style()
        return self.figure.text(left / w, 1 - top / h, self.letters.safe(text), ha=ha, va="top", **style)

    def width_of(self, text: str, style: dict[str, Any] | None = None) -> float:
        """The width of a text, in inches."""
        probe = self.write(0, 0, text, style)
        canvas: Any = self.figure.canvas
        extent = probe.get_window_extent(canvas.get_renderer())
        probe.remove()
        return float(extent.width) / self.figure.dpi

    def write_notes(self, left: float, top: float, notes: Iterable[str]) -> None:
        """Small lines of text, from top to bottom."""
        for n, note in enumerate(notes):
            self.write(left, top + n * LINE_HEIGHT, note, self.style(7.5, SOFT))

    def write_legend(
        self, left: float, top: float, entries: Iterable[tuple[str, str]], size: float, gap: float
    ) -> None:
        """Words in their colours, side by side."""
        for text, colour in entries:
            style = self.style(size, colour)
            self.write(left, top, text, style)
            left += self.width_of(text, style) + gap

    def fitted(self, text: str, width: float, style: dict[str, Any] | None = None) -> list[str]:
        """The text in lines no wider than `width`; a single word may be wider."""
        lines: list[str] = []
        for word in text.split():
            longer = f"{lines[-1]} {word}" if lines else word
            if lines and self.width_of(longer, style) <= width:
                lines[-1] = longer
            else:
                lines.append(word)
        return lines


MAIN_FONT = "DejaVu Sans"  # comes with matplotlib
BOX = "□"
_CLUSTER = regex.compile(r"\X")
_UNSEEN = regex.compile(r"[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}]")
_JOINERS = frozenset(range(0xFE00, 0xFE10)) | {0x200C, 0x200D}  # they select a glyph and have none themselves


@dataclass(frozen=True)
class Letters:
    """The fonts of a figure in order of preference, and every character that one of them has."""

    families: tuple[str, ...]
    covered: frozenset[int]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Letters:
        """The main font, and those of the machine's other fonts that these texts need."""
        faces = (font_manager.FontProperties(family=MAIN_FONT, weight=weight) for weight in ("normal", "bold"))
        families = [MAIN_FONT]
        covered = frozenset.intersection(*(_covered(font_manager.findfont(face)) for face in faces))
        missing = {ord(c) for c in chain.from_iterable(texts)} - covered - _JOINERS
        for name, path in _others() if missing else ():
            letters = missing & _covered(path)
            if letters:
                families.append(name)
                covered |= letters
                missing -= letters
            if not missing:
                break
        return cls(tuple(families), covered)

    def safe(self, text: str, longest: int | None = None) -> str:
        """On one line, with a box for each character that no font has: matplotlib warns of a missing glyph."""
        line = " ".join(text.split())
        signs = [self._sign(cluster) for cluster in _CLUSTER.findall(line)]
        cut = longest is not None and len(signs) > longest
        return "".join(signs[: longest - 1]) + "…" if cut and longest else "".join(signs)

    def _sign(self, cluster: str) -> str:
        visible = "".join(c for c in cluster if ord(c) in self.covered and not _UNSEEN.match(c))
        return visible if visible and all(c in visible or ord(c) in _JOINERS for c in cluster) else BOX


@cache
def _covered(path: str) -> frozenset[int]:
    try:
        return frozenset(FT2Font(path).get_charmap())
    except (RuntimeError, OSError):  # such as a font of colour bitmaps
        return frozenset()


@cache
def _others() -> tuple[tuple[str, str], ...]:
    """(family, file) of the machine's upright fonts of normal weight, those for many scripts first."""
    known = font_manager.fontManager.ttflist
    # subtle: "Last Resort" has placeholder glyphs for every script, and matplotlib warns when it is used
    usual = [f for f in known if f.style == "normal" and f.weight in (400, "normal", "regular", "book")]
    upright = {f.name: f.fname for f in usual if "Last Resort" not in f.name}
    preferred = ("Noto Sans", "Noto", "Unifont", "Droid")
    return tuple(
        sorted(upright.items(), key=lambda f: (next((i for i, p in enumerate(preferred) if f[0].startswith(p)), 9), f))
    )


class FigurePart(Protocol):
    """A part of a figure."""

    @property
    def width(self) -> float:
        """In inches, margins not included."""
        ...

    def texts(self) -> list[str]:
        """All its texts, to select the fonts."""
        ...

    def height(self, sheet: Sheet) -> float:
        """In inches."""
        ...

    def paint(self, sheet: Sheet, top: float) -> None:
        """Draw it, from `top` downwards."""
        ...
