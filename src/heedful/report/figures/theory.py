"""Theory compared with measurement: Figures 4 and 5 of Lopardo et al. 2024 for one text.

Figure 5 is here twice: a point for each token (`Slopes`), and one for each coordinate of its gradient (`Coordinates`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from heedful.core.arrays import Floats
from heedful.report.figures.sheet import AGAINST, FOR, INK, LINE, LINE_HEIGHT, MARGIN_INCHES, SOFT, WEIGHT, Sheet
from heedful.report.phrases import DASH, format_number, score_text

if TYPE_CHECKING:
    from heedful.methods.theory_comparison import Closeness, TheoryComparison

MAX_WORDS = 120  # words shown of a long text, the largest
WORDS_PER_ROW = 40  # words in a row: more would overlap
MAX_LETTERS = 14  # characters shown of a word
MAX_NAMED = 8  # tokens named in the gradient's panel
_WIDE, _SCALE, _HIGH, _SQUARE, _PANEL = 6.6, 0.5, 1.6, 2.9, 2.5
_HEAD, _TITLE, _SPACE = 0.62, 0.26, 0.3
_NAMES = {"exact": "theory: exact", "derived": "derived", "paper": "paper's form"}


@dataclass(frozen=True)
class Coefficients:
    """Figure 4: a box of LIME's runs for each word, largest first, with a mark for each form of theory.

    Each row has its scale.
    """

    comparison: TheoryComparison
    width = _WIDE

    @property
    def _rows(self) -> list[list[int]]:
        words = self.comparison.order[:MAX_WORDS]
        count = -(-len(words) // WORDS_PER_ROW)
        size = -(-len(words) // count)
        return [words[i : i + size] for i in range(0, len(words), size)]

    @property
    def _names(self) -> float:
        places = max(len(self.comparison.words[j][:MAX_LETTERS]) for row in self._rows for j in row)
        return 0.2 + 0.068 * places

    def _notes(self) -> list[str]:
        trial, hidden = self.comparison.trial, len(self.comparison.words) - MAX_WORDS
        cut = f"; the {MAX_WORDS} largest of {len(self.comparison.words)} words" if hidden > 0 else ""
        scales = "; each row has its own scale" if len(self._rows) > 1 else ""
        return [
            f"boxes: quartiles of {trial.runs} run{'s' * (trial.runs != 1)} of LIME with {trial.samples:,} samples "
            f"each, whiskers to the least and the most{cut}{scales}"
        ]

    def texts(self) -> list[str]:
        """Words and notes."""
        return [*self.comparison.words, *self._notes()]

    def height(self, sheet: Sheet) -> float:
        """The title and the legend, the rows, and the notes."""
        return _TITLE + 0.2 + len(self._rows) * (_HIGH + self._names) + LINE_HEIGHT * len(self._notes())

    def paint(self, sheet: Sheet, top: float) -> None:
        """The rows, from top to bottom."""
        sheet.write(MARGIN_INCHES, top, "LIME's coefficients and their limit", sheet.style(9, bold=True))
        paper, derived = ("◇ the paper's form (Theorem 5.1)", WEIGHT), ("+ derived form", INK)
        legend = (("■ LIME", FOR), ("✕ its limit (exact form)", AGAINST), derived, paper)
        sheet.write_legend(MARGIN_INCHES, top + _TITLE, legend, 8, 0.2)
        top += _TITLE + 0.2
        for row in self._rows:
            self._row(sheet.axes(MARGIN_INCHES + _SCALE, top, _WIDE - _SCALE, _HIGH), sheet, row)
            top += _HIGH + self._names
        sheet.write_notes(MARGIN_INCHES, top, self._notes())

    def _row(self, axes: Axes, sheet: Sheet, row: list[int]) -> None:
        at = np.arange(len(row))
        thin: dict[str, Any] = {"linewidth": 0.8, "color": FOR}
        axes.boxplot(
            [self.comparison.runs[:, j] for j in row], positions=at, widths=0.62, whis=(0, 100), patch_artist=True,
            manage_ticks=False, boxprops={"facecolor": "#c6dbef", "edgecolor": FOR, "linewidth": 0.8},
            medianprops=thin, whiskerprops=thin, capprops=thin,
        )  # fmt: skip
        axes.plot(
            at, self.comparison.forms["paper"][row], "D", markersize=4.2, markerfacecolor="none",
            markeredgecolor=WEIGHT, markeredgewidth=0.8, alpha=0.7, zorder=3,
        )  # fmt: skip
        derived = self.comparison.forms["derived"][row]
        axes.plot(at, derived, "+", markersize=5.5, color=INK, markeredgewidth=0.7, zorder=3)
        axes.plot(
            at, self.comparison.forms["exact"][row], "x", markersize=5, color=AGAINST, markeredgewidth=1.3, zorder=4
        )
        axes.axhline(0, color=SOFT, linewidth=0.7, zorder=0)
        axes.set_xlim(-0.7, len(row) - 0.3)
        axes.set_xticks(at)
        names = [sheet.letters.safe(self.comparison.words[j], MAX_LETTERS) for j in row]
        axes.set_xticklabels(names, rotation=90, **sheet.style(8))
        axes.grid(axis="x", color=LINE, linewidth=0.35)
        _numbered(axes, "y")


@dataclass(frozen=True)
class Slopes:
    """Figure 5: the gradient against Theorem 4.1, a point for each token; at its right, a table of agreement."""

    comparison: TheoryComparison
    width = _WIDE

    @property
    def _extremes(self) -> list[int]:
        return [int(t) for t in np.argsort(-np.abs(self.comparison.gradient), kind="stable")[:MAX_NAMED]]

    def texts(self) -> list[str]:
        """Tokens."""
        return self.comparison.names

    def height(self, sheet: Sheet) -> float:
        """The title, the panel and its scale."""
        return _TITLE + 0.05 + _SQUARE + 0.45

    def paint(self, sheet: Sheet, top: float) -> None:
        """The panel on the left, the numbers on the right."""
        kind = {"x-input": "times e", "l2": "L2 norm", "l1": "L1 norm", "mean": "mean"}[self.comparison.trial.reduce]
        title = f"Gradient of each token ({kind})"
        sheet.write(MARGIN_INCHES, top, title, sheet.style(9, bold=True))
        axes = sheet.axes(MARGIN_INCHES + _SCALE + 0.12, top + _TITLE + 0.05, _SQUARE, _SQUARE)
        self._points(axes, sheet)
        left = MARGIN_INCHES + _SCALE + _SQUARE + 0.45
        sheet.write(left, top, "Agreement", sheet.style(9, bold=True))
        self._numbers(sheet, left, top + _TITLE + 0.05)

    def _points(self, axes: Axes, sheet: Sheet) -> None:
        theory, gradient, stated = self.comparison.slopes, self.comparison.gradient, self.comparison.stated
        ends = _ends(np.concatenate([theory, gradient, stated]))
        axes.plot(ends, ends, color=SOFT, linewidth=0.7, zorder=1)
        axes.plot(theory, gradient, "o", markersize=4, color=FOR, alpha=0.65, markeredgewidth=0, zorder=3)
        axes.plot(
            stated[:1], gradient[:1], "o", markersize=6.5, markerfacecolor="none", markeredgecolor=AGAINST, zorder=4
        )
        _square(axes, sheet, ends, "by Theorem 4.1")
        self._labels(axes, sheet, (ends[1] - ends[0]) / _SQUARE)

    def _labels(self, axes: Axes, sheet: Sheet, inch: float) -> None:
        """Names of the extremes: of the upper half to the left of the diagonal, of the lower half to its right."""
        low, high = axes.get_ylim()
        values = self.comparison.gradient
        for upper in (True, False):
            half = [t for t in self._extremes if (values[t] >= (low + high) / 2) == upper]
            half.sort(key=lambda t: -values[t] if upper else values[t])
            step = -0.15 * inch if upper else 0.15 * inch
            for t, y in zip(half, _apart([float(values[t]) for t in half], step), strict=True):
                if abs(y - values[t]) > 2 * abs(step):
                    break  # the rest are so many at one place that names would only hide them
                x, anchor = self._label_place(t, y, upper, inch)
                axes.annotate(
                    sheet.letters.safe(self.comparison.names[t], MAX_LETTERS),
                    (float(self.comparison.slopes[t]), float(values[t])), (x, y), ha=anchor, va="center",
                    arrowprops={"arrowstyle": "-", "color": SOFT, "linewidth": 0.5, "shrinkA": 1, "shrinkB": 3},
                    **sheet.style(8),
                )  # fmt: skip

    def _label_place(self, t: int, y: float, left: bool, inch: float) -> tuple[float, str]:
        """A place at height y that overlaps neither the diagonal nor the ring."""
        occupied = [float(self.comparison.slopes[t]), y, *([float(self.comparison.stated[0])] if t == 0 else [])]
        return (min(occupied) - 0.22 * inch, "right") if left else (max(occupied) + 0.22 * inch, "left")

    def _numbers(self, sheet: Sheet, left: float, top: float) -> None:
        columns = (0.0, 1.42, 1.98, 2.62)
        rows = [["with LIME's mean", "r", "τ-b", "off"]]
        rows += [[_NAMES[form], *_agreement_cells(self.comparison.agreement(form))] for form in self.comparison.forms]
        if self.comparison.chance is not None:
            rows.append(["sampling alone", "", "", f"{self.comparison.chance:.1%}"])
        for n, row in enumerate(rows):
            style = sheet.style(8, SOFT if n == 0 else INK)
            for x, cell in zip(columns, row, strict=True):
                sheet.write(left + x, top + 0.2 * n, cell, style, "left" if x == 0 else "right")
        text = (
            "r is Pearson's, τ-b Kendall's; off is the L2 distance to LIME's mean, relative to its norm; the limit "
            "has no ridge penalty, which LIME has. "
            f"The gradient differs from theory by at most {_short(self.comparison.worst)}. "
            f"The ring is the first token by the theorem as published, which holds the query constant: off by "
            f"{_short(self.comparison.overlooked)}."
        )
        lines = sheet.fitted(text, _WIDE + MARGIN_INCHES - left, sheet.style(7.5, SOFT))
        sheet.write_notes(left, top + 0.2 * len(rows) + 0.12, lines)


@dataclass(frozen=True)
class Coordinates:
    """Figure 5: every coordinate of the gradient against Theorem 4.1, with the term of the query and as published."""

    comparison: TheoryComparison
    width = _WIDE

    def _notes(self) -> list[str]:
        s = self.comparison.gradients.summary()
        t, e = self.comparison.gradients.autograd.shape
        return [
            f"{s['count']:,} points: {e} coordinates of {t} tokens; the largest has {_short(s['largest'])}",
            f"with the term of the query autograd and theory differ by at most {_short(s['worst'])}",
            f"as published, by at most {_short(s['worst_as_stated'])} at the first token and by at most "
            f"{_short(s['worst_as_stated_elsewhere'])} at all others",
        ]

    def texts(self) -> list[str]:
        """The name of the first token, and the notes."""
        return [self.comparison.names[0], *self._notes()]

    def height(self, sheet: Sheet) -> float:
        """The titles, the panels with their scales, and the notes."""
        return 2 * _TITLE + 0.05 + _PANEL + 0.5 + LINE_HEIGHT * len(self._notes())

    def paint(self, sheet: Sheet, top: float) -> None:
        """Both panels, side by side."""
        sheet.write(MARGIN_INCHES, top, "Every coordinate of the gradient", sheet.style(9, bold=True))
        first = sheet.letters.safe(self.comparison.names[0], MAX_LETTERS)
        legend = ((f"● {first}, which makes the query", AGAINST), ("● other tokens", FOR))
        sheet.write_legend(MARGIN_INCHES, top + _TITLE, legend, 8, 0.2)
        found, down = self.comparison.gradients, top + 2 * _TITLE + 0.05
        panels = (("by Theorem 4.1 with the term of the query", found.theory), ("as published", found.published))
        for n, (name, theory) in enumerate(panels):
            left = MARGIN_INCHES + _SCALE + 0.12 + n * (_PANEL + _SCALE + 0.2)
            self._panel(sheet.axes(left, down, _PANEL, _PANEL), sheet, theory, name)
        sheet.write_notes(MARGIN_INCHES, down + _PANEL + 0.5, self._notes())

    def _panel(self, axes: Axes, sheet: Sheet, theory: Floats, name: str) -> None:
        found = self.comparison.gradients
        every = np.concatenate([x.ravel() for x in (found.autograd, found.theory, found.published)])
        ends = _ends(every)
        axes.plot(ends, ends, color=SOFT, linewidth=0.7, zorder=1)
        # subtle: rasterised, since ten thousand points would make an svg of megabytes
        style: dict[str, Any] = {"markeredgewidth": 0, "rasterized": True}
        axes.plot(theory[1:].ravel(), found.autograd[1:].ravel(), "o", markersize=2, color=FOR, zorder=3, **style)
        axes.plot(theory[0], found.autograd[0], "o", markersize=3, color=AGAINST, zorder=4, **style)
        _square(axes, sheet, ends, name)


def _ends(values: Floats) -> tuple[float, float]:
    room = 0.07 * max(float(np.ptp(values)), 1e-12)
    return float(values.min()) - room, float(values.max()) + room


def _square(axes: Axes, sheet: Sheet, ends: tuple[float, float], name: str) -> None:
    """The same scale for theory, from left to right, and for autograd, upwards."""
    axes.set_xlim(*ends)
    axes.set_ylim(*ends)
    axes.set_xlabel(name, labelpad=3, **sheet.style(8, SOFT))
    axes.set_ylabel("by autograd", labelpad=2, **sheet.style(8, SOFT))
    axes.grid(color=LINE, linewidth=0.35)
    for axis in "xy":
        _numbered(axes, axis)


def _agreement_cells(near: Closeness) -> list[str]:
    numbers = ((near.pearson, ".3f"), (near.kendall, ".3f"), (near.off, ".1%"))
    return [DASH if value is None else format_number(value, form) for value, form in numbers]


def _short(value: float) -> str:
    return score_text(float(f"{value:.1e}"), signed=False)


def _apart(places: list[float], step: float) -> Iterator[float]:
    """The places, each moved to at least a step after the one before."""
    last = None
    for place in places:
        moved = place if last is None or (place - last) / step >= 1 else last + step
        yield moved
        last = moved


def _numbered(axes: Axes, axis: str) -> None:
    scale = axes.xaxis if axis == "x" else axes.yaxis
    scale.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    scale.set_major_formatter(FuncFormatter(lambda x, _: format_number(x, ".3g")))
    axes.set_axisbelow(True)
