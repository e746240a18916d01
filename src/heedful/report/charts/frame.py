"""Frames: what charts share: words, axes, rows with labels, legends, and the finished figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from heedful.report.charts import svg
from heedful.report.charts.svg import CHART_WIDTH, LINE, AxisScale, Point
from heedful.report.document import Figure

NOTHING_TO_SHOW = "nothing to show"
LABELS, NOTES = 168.0, 112.0  # units, the widest columns of words left and right of rows
EDGE = 18.0  # units right of a plot, for half of its last tick label
FOOT = 21.0  # units below a plot, for its tick labels


@dataclass(frozen=True)
class Words:
    """The words of a chart; x and y are the labels of the axes. `alt` is made of the numbers if it is empty."""

    name: str
    title: str
    x: str = ""
    y: str = ""
    alt: str = ""
    caption: str = ""


def figure(words: Words, height: float, body: str, description: str, width: float = CHART_WIDTH) -> Figure:
    """A finished chart."""
    alt = words.alt or description
    wide = "" if width <= CHART_WIDTH else " c-wide" if width <= 1.45 * CHART_WIDTH else " c-wide c-wider"
    attributes: dict[str, str | float] = {
        "class": f"chart{wide}",
        "viewBox": f"0 0 {math.ceil(width)} {math.ceil(height)}",
        "role": "img",
        "aria-label": f"{words.title}: {alt}" if words.title else alt,
    }
    drawing = svg.element("svg", attributes, f"<title>{svg.escaped(words.title)}</title>{body}")
    return Figure(words.name, words.title, drawing, alt, words.caption)


def nothing(words: Words, why: str = "") -> Figure:
    """A chart without numbers: a note that there is nothing to show."""
    description = f"{NOTHING_TO_SHOW}: {why}" if why else NOTHING_TO_SHOW
    note = svg.write_line((CHART_WIDTH / 2, 35), description, "c-soft c-middle", CHART_WIDTH - 20)
    return figure(words, 60, note, description)


def without(missing: int, what: str) -> str:
    """How many have no number: without(3, "text") -> "3 texts without a number"."""
    return f"{missing:,} {what}{'' if missing == 1 else 's'} without a number" if missing else ""


def sentence(parts: Iterable[str]) -> str:
    """Parts that are not empty, in one line."""
    return "; ".join(part for part in parts if part)


def reach(values: Iterable[float | None], limits: tuple[float, float] | None = None) -> tuple[float, float]:
    """The range of an axis: the limits, and every number, also one beyond them. Never empty."""
    known = [x for x in values if x is not None and math.isfinite(x)] + list(limits or ())
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    if low == high:
        return low - (abs(low) / 2 or 0.5), high + (abs(high) / 2 or 0.5)
    edge = 0.0 if limits else (high - low) * 0.03
    return low - (edge if low else 0.0), high + (edge if high else 0.0)


def digits_of(values: Iterable[float | None], limits: tuple[float, float] | None = None) -> int:
    """The number of decimals in a chart."""
    return svg.axis_digits(*reach(values, limits))


def numbered(keys: Iterable[str]) -> dict[str, int]:
    """The number of each series, in order of appearance."""
    return {key: i for i, key in enumerate(dict.fromkeys(keys))}


def spot(series: int, at: Point) -> str:
    """A marker in its series' colour."""
    return svg.path(svg.marker(series, at), f"{svg.colour(series)} c-fill")


def stroke(series: int, at: Point) -> str:
    """A short line in its series' colour and dashes, around a point."""
    ends = [(at[0] - 10, at[1]), (at[0] + 10, at[1])]
    return svg.path(svg.trace(ends), f"{svg.colour(series)} {svg.dash(series)} c-stroke")


def legend(
    series: dict[str, int], swatch: Callable[[int, Point], str], width: float = CHART_WIDTH
) -> tuple[str, float]:
    """The names of the series with their marks, and the height; nothing for a single series."""
    if len(series) < 2:
        return "", 0.0
    shapes, x, y = [], 0.0, LINE
    for name, i in series.items():
        wide = min(svg.width_of(name), width / 2)
        if x and x + 26 + wide > width:
            x, y = 0.0, y + LINE
        shapes += [swatch(i, (x + 10, y - 5)), svg.write_line((x + 26, y), name, "", wide)]
        x += 26 + wide + 16
    return "".join(shapes), y + 8


def across(scale: AxisScale, top: float, bottom: float, label: str) -> str:
    """An axis below a plot: grid lines, tick labels and the label of the axis."""
    values = _sparse(scale)
    rules = "".join(svg.line((scale(v), top), (scale(v), bottom), "c-grid") for v in values)
    numbers = "".join(
        svg.write_line((scale(v), bottom + 18), word, "c-soft c-middle")
        for v, word in zip(values, svg.tick_words(values), strict=True)
    )
    middle = (scale.start + scale.end) / 2
    room = 2 * min(middle, CHART_WIDTH - middle)
    return rules + numbers + svg.write_line((middle, bottom + 18 + LINE), label, "c-middle", room)


def _sparse(scale: AxisScale) -> list[float]:
    """Ticks whose labels do not overlap."""
    values = scale.ticks()
    widest = max((svg.width_of(word) for word in svg.tick_words(values)), default=0.0)
    return values if widest < 45 else scale.ticks(2 * widest)


def foot(label: str) -> float:
    """The height of an axis below a plot."""
    return FOOT + (LINE if label else 0.0) + 4


def margin(scale: AxisScale) -> float:
    """The width of the tick labels left of a plot."""
    return max((svg.width_of(word) for word in svg.tick_words(scale.ticks())), default=0.0) + 8


def upright(scale: AxisScale, left: float, right: float) -> str:
    """An axis left of a plot: grid lines and tick labels."""
    values = scale.ticks()
    return "".join(
        svg.line((left, scale(v)), (right, scale(v)), "c-grid")
        + svg.write_line((left - 6, scale(v) + 4.5), word, "c-soft c-end")
        for v, word in zip(values, svg.tick_words(values), strict=True)
    )


@dataclass(frozen=True)
class RowLayout:
    """Rows from `top` down, with labels left and notes right; neighbours with one label are closer and share it."""

    labels: Sequence[str]
    notes: Sequence[str]
    top: float
    pitch: float = 25.0
    close: float = 17.0

    @cached_property
    def left(self) -> float:
        """Where the plot begins."""
        return min(LABELS, max((svg.width_of(label) for label in self.labels), default=0.0)) + 10

    @cached_property
    def right(self) -> float:
        """Where it ends."""
        wide = max((svg.width_of(note) for note in self.notes), default=0.0)
        return CHART_WIDTH - (min(NOTES, wide) + 12 if wide else EDGE)

    @cached_property
    def centres(self) -> list[float]:
        """Of each row."""
        centres = [self.top + self.pitch / 2]
        for above, here in zip(self.labels, self.labels[1:], strict=False):
            centres.append(centres[-1] + (self.close if above == here else self.pitch))
        return centres

    @cached_property
    def bottom(self) -> float:
        """Below the last row."""
        return self.centres[-1] + self.pitch / 2

    def words(self) -> str:
        """Labels and notes."""
        shapes = []
        for label, rows in groupby(zip(self.labels, self.centres, strict=True), key=lambda pair: pair[0]):
            centres = [y for _, y in rows]
            shapes.append(svg.write_line((self.left - 10, sum(centres) / len(centres) + 4.5), label, "c-end", LABELS))
        for note, y in zip(self.notes, self.centres, strict=True):
            shapes.append(svg.write_line((self.right + 12, y + 4.5), note, "c-soft", NOTES))
        return "".join(shapes)


def chart_head(words: Words, series: dict[str, int], swatch: Callable[[int, Point], str]) -> tuple[str, float]:
    """The part above a chart, and its height: the legend, then the label of the vertical axis."""
    named = {name or "other": i for name, i in series.items()}
    shapes, high = legend(named, swatch)
    if not words.y:
        return shapes, high + 6
    return shapes + svg.write_line((0, high + 13), words.y, "", CHART_WIDTH), high + LINE + 10
