"""The curve of a training: loss above, validation scores below, the chosen epoch marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from heedful.report.figures.sheet import (
    AGAINST,
    FOR,
    LINE,
    MARGIN_INCHES,
    SOFT,
    WEIGHT,
    Letters,
    Picture,
    Sheet,
    plainly,
)

_WIDTH, _PLOT, _HEAD, _LABELS = 5.2, 1.25, 0.5, 0.45
_STYLES = ((FOR, "-"), (AGAINST, "--"), (WEIGHT, ":"))


def draw_curve(history: Sequence[Mapping[str, float]], best: int, title: str) -> Picture:
    """Epochs from left to right; the first score is the one that selects the epoch."""
    names = [name for name in history[0] if name not in ("epoch", "loss")]
    with plainly():
        sheet = Sheet.of(_WIDTH, _HEAD + 2 * (_PLOT + _LABELS), Letters.of([title, *names]))
        sheet.write(MARGIN_INCHES, 0.12, title, sheet.style(10))
        inside = _WIDTH - 2 * MARGIN_INCHES - 1.3
        above = sheet.axes(MARGIN_INCHES + 0.35, _HEAD, inside, _PLOT)
        below = sheet.axes(MARGIN_INCHES + 0.35, _HEAD + _PLOT + _LABELS, inside, _PLOT)
        _lines(above, history, ["loss"], best, sheet)
        _lines(below, history, names, best, sheet)
        below.set_xlabel("epoch", fontsize=8, color=SOFT)
    return sheet.figure


def _lines(axes: Axes, history: Sequence[Mapping[str, float]], names: Sequence[str], best: int, sheet: Sheet) -> None:
    epochs = [int(row["epoch"]) for row in history]
    axes.spines[["left", "bottom"]].set(visible=True, color=LINE)
    axes.axvline(best, color=LINE, linewidth=4, zorder=0)
    ends = []
    for name, (color, dashes) in zip(names, _STYLES, strict=False):
        values = [row[name] for row in history]
        axes.plot(epochs, values, dashes, color=color, linewidth=1.4, marker="o", markersize=2.8)
        ends.append((values[-1], name.replace("_", "-"), color))
    low, high = axes.get_ylim()
    placed = float("-inf")
    for value, name, color in sorted(ends):  # labels at the ends of the lines, moved apart
        placed = max(value, placed + 0.13 * (high - low))
        axes.annotate(
            name, (1.02, (placed - low) / (high - low)), xycoords="axes fraction", va="center", **sheet.style(8, color)
        )
    axes.set_ylim(low, high)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(4))
