"""Alignment: where an encoder-decoder looked for each symbol it wrote; and how its success falls with length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import PercentFormatter

from heedful.core.errors import BadInput, Unsupported
from heedful.report.figures.glyphs import Letters
from heedful.report.figures.sheet import AGAINST, FOR, INK, LINE, MARGIN, SOFT, WEIGHT, Picture, Sheet, plainly

if TYPE_CHECKING:
    from heedful.nets.training.translate import Alignment, Bin

SPACE = "␣"
MOST = 400  # characters, or symbols, that a picture can name
_HEAD, _NAMES, _FOOT, _BAR = 0.62, 0.55, 0.1, 0.75
_COLOURS = (WEIGHT, FOR, AGAINST, INK)
_MARKS = ("o", "s", "D", "^")


def draw_alignment(found: Alignment) -> Picture:
    """A heat map: a row for each symbol that was written, a column for each character of the text."""
    if not found.weights.any():
        name = found.model or "the translator"
        raise Unsupported(f"{name} has no attention, so there is no alignment to draw; give a network that has.")
    if max(found.weights.shape) > MOST:
        raise BadInput(f"the text has {len(found.text):,} characters and a picture names {MOST}; shorten it.")
    rows, columns = found.weights.shape
    cell = float(np.clip(9.5 / columns, 0.1, 0.17))
    tall = max(cell, 0.14)
    with plainly():
        letters = Letters.of([found.text, found.written, found.model, SPACE])
        width = 2 * MARGIN + _NAMES + max(3.6, cell * columns) + _BAR
        sheet = Sheet.of(width, _HEAD + _NAMES / 2 + tall * rows + _FOOT + MARGIN / 2, letters)
        says = f"{found.model or 'the translator'} writes {found.written}"
        sheet.write(MARGIN, 0.14, says, sheet.style(11))
        told = "attention of each symbol written (rows) over the characters read (columns); each row adds up to 1"
        for n, line in enumerate(sheet.fitted(told, width - 2 * MARGIN, sheet.style(8.5))):
            sheet.write(MARGIN, 0.37 + 0.15 * n, line, sheet.style(8.5, SOFT))
        axes = sheet.axes(MARGIN + _NAMES, _HEAD + _NAMES / 2, cell * columns, tall * rows)
        _heat(sheet, axes, found, min(7.5, cell * 62))
    return sheet.figure


def _heat(sheet: Sheet, axes: Axes, found: Alignment, size: float) -> None:
    rows, columns = found.weights.shape
    colours = LinearSegmentedColormap.from_list("weight", ["#f7f5fb", "#8f7bc4", "#2a0f5e"])
    image = axes.imshow(found.weights, colours, aspect="auto", interpolation="nearest", vmin=0, vmax=1)
    axes.xaxis.tick_top()
    axes.set_xticks(range(columns), [_shown(sheet, c) for c in found.text], **sheet.style(size))
    axes.set_yticks(range(rows), [_shown(sheet, s) for s in found.symbols], **sheet.style(min(size + 0.5, 7.5)))
    # a faint line at each space: where one part of the text, or of the output, ends
    for at in (i for i, c in enumerate(found.text) if c.isspace()):
        axes.axvline(at, color=LINE, linewidth=0.4)
    for at in (i for i, s in enumerate(found.symbols) if s.isspace()):
        axes.axhline(at, color=LINE, linewidth=0.4)
    w, h = sheet.figure.get_size_inches()
    box = axes.get_position()
    bar = sheet.figure.add_axes(
        (box.x1 + 0.14 / w, box.y1 - min(1.6, box.height * h) / h, 0.1 / w, min(1.6 / h, box.height))
    )
    scale = sheet.figure.colorbar(image, cax=bar)
    scale.outline.set_visible(False)
    scale.set_ticks([0, 0.5, 1])
    scale.ax.tick_params(length=0, labelsize=7.5, colors=SOFT)


def _shown(sheet: Sheet, symbol: str) -> str:
    return SPACE if symbol.isspace() else sheet.letters.safe(symbol)


def draw_lengths(found: Mapping[str, Sequence[Bin]]) -> Picture:
    """Exact match against the length of the text, a line for each network, with 95 % intervals (Wilson)."""
    if not found or not all(found.values()):
        raise BadInput("there is nothing to draw against length; give each network at least one bin.")
    if len(found) > len(_COLOURS):
        raise BadInput(f"{len(found)} networks were given and a picture holds {len(_COLOURS)}; draw fewer.")
    with plainly():
        sheet = Sheet.of(7.4, 4.15, Letters.of(found))
        sheet.write(MARGIN, 0.14, "Texts translated without a mistake, by their length", sheet.style(11))
        sheet.write(MARGIN, 0.37, "bands: 95 % intervals (Wilson)", sheet.style(8.5, SOFT))
        axes = sheet.axes(MARGIN + 0.45, 0.75, 5.05, 2.85)
        for bins, colour, mark in zip(found.values(), _COLOURS, _MARKS, strict=False):
            at, shares = [b.middle for b in bins], [b.share for b in bins]
            axes.fill_between(at, *np.transpose([b.interval for b in bins]), color=colour, alpha=0.15, linewidth=0)
            axes.plot(at, shares, color=colour, marker=mark, markersize=4.5, linewidth=1.6, clip_on=False)
        _names(sheet, axes, found)
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.grid(color=LINE, linewidth=0.5)
        axes.set_axisbelow(True)
        axes.set_xlabel("characters of the text", **sheet.style(8.5, SOFT))
        axes.set_ylabel("exact match", **sheet.style(8.5, SOFT))
    return sheet.figure


def _names(sheet: Sheet, axes: Axes, found: Mapping[str, Sequence[Bin]]) -> None:
    """Each name beside the end of its line, moved down where two would overlap."""
    lowest = np.inf
    for name in sorted(found, key=lambda name: -found[name][-1].share):
        end = found[name][-1]
        lowest = min(end.share, lowest - 0.065)
        colour = _COLOURS[list(found).index(name)]
        spot: dict[str, Any] = {
            "xytext": (10, 0),
            "textcoords": "offset points",
            "va": "center",
            "annotation_clip": False,
        }
        axes.annotate(name, (end.middle, lowest), **spot, **sheet.style(9, colour))
