"""Row charts, one item per row with its label at the left: means with intervals, boxes, and violins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from heedful.core.arrays import Floats
from heedful.report.charts import svg
from heedful.report.charts.frame import (
    RowLayout,
    Words,
    across,
    chart_head,
    digits_of,
    figure,
    foot,
    nothing,
    numbered,
    reach,
    sentence,
    spot,
    without,
)
from heedful.report.charts.svg import AxisScale, Point
from heedful.report.document import Figure
from heedful.report.phrases import bracketed, exists, fixed

MIN_DENSITY_VALUES = 5  # values below which each is a dot: too few for a density
OUTLINE_POINTS = 61  # points of a violin's outline


@dataclass(frozen=True)
class Interval:
    """A mean with its interval; `note` is written at the right: "rank 1–3"."""

    label: str
    mean: float
    low: float | None
    high: float | None
    series: str = ""
    note: str = ""


@dataclass(frozen=True)
class Box:
    """Quartiles of n values, with whiskers from `low` to `high` and the values beyond them, `outliers`.

    `series` decides the colour; `note` is written at the right.
    """

    label: str
    low: float
    lower: float
    median: float
    upper: float
    high: float
    note: str = ""
    n: int = 0
    outliers: tuple[float, ...] = ()
    series: str = ""

    @property
    def numbers(self) -> tuple[float, float, float, float, float]:
        """From the end of one whisker to that of the other."""
        return (self.low, self.lower, self.median, self.upper, self.high)


@dataclass(frozen=True)
class Group:
    """Values of a row; `series` decides the colour."""

    label: str
    values: Floats
    series: str = ""


def dots(
    words: Words,
    rows: Sequence[Interval],
    zero: float | None = None,
    limits: tuple[float, float] | None = None,
    marks: Sequence[float] = (),
) -> Figure:
    """Means with their intervals, one per row, with vertical lines at `zero` and at each of `marks`."""
    known = [row for row in rows if exists(row.mean)]
    if not known:
        return nothing(words, without(len(rows), "row"))
    ends = [x for row in known for x in (row.mean, row.low, row.high)]
    series = numbered(row.series for row in rows)
    above, top = chart_head(words, series, spot)
    frame = RowLayout([row.label for row in rows], [row.note for row in rows], top)
    upright = [*marks] if zero is None else [zero, *marks]
    scale = AxisScale(*reach([*ends, *upright], limits), frame.left, frame.right)
    shapes = [svg.line((scale(at), top), (scale(at), frame.bottom), "c-zero") for at in upright]
    shapes += [_dot(row, scale, y, series[row.series]) for row, y in zip(rows, frame.centres, strict=True)]
    numbers = [_words_of(row, digits_of(ends, limits)) for row in known] + [without(len(rows) - len(known), "row")]
    return _chart(words, above, frame, scale, shapes, numbers)


def _dot(row: Interval, scale: AxisScale, y: float, series: int) -> str:
    if not exists(row.mean):
        return _none(scale, y)
    whisker = ""
    if row.low is not None and row.high is not None and exists(row.low) and exists(row.high):
        whisker = svg.path(_whiskers(y, (scale(row.low), scale(row.high))), f"{svg.colour(series)} c-stroke")
    return whisker + spot(series, (scale(row.mean), y))


def _whiskers(y: float, *lines: tuple[float, float]) -> str:
    """Horizontal lines, with a cap at the start of the first and at the end of the last."""
    caps = [[(x, y - 3.5), (x, y + 3.5)] for x in (lines[0][0], lines[-1][1])]
    return "".join(map(svg.trace, (caps[0], *([(a, y), (b, y)] for a, b in lines), caps[1])))


def _none(scale: AxisScale, y: float) -> str:
    return svg.write_line((scale.start + 8, y + 4.5), "no number", "c-soft")


def _words_of(row: Interval, digits: int) -> str:
    name = f"{row.label}, {row.series}" if row.series else row.label
    return f"{name} {bracketed(row.mean, row.low, row.high, digits)}" + (f" ({row.note})" if row.note else "")


def boxes(words: Words, boxes: Sequence[Box], limits: tuple[float, float] | None = None) -> Figure:
    """Quartiles as a box, the median as a line, whiskers, and outliers as points; boxes with one label share it."""
    known = [box for box in boxes if all(exists(x) for x in box.numbers)]
    if not known:
        return nothing(words, without(len(boxes), "row"))
    ends = [x for box in known for x in (*box.numbers, *box.outliers)]
    series = numbered(box.series for box in boxes)
    above, top = chart_head(words, series, _swatch)
    frame = RowLayout([box.label for box in boxes], [box.note for box in boxes], top)
    scale = AxisScale(*reach(ends, limits), frame.left, frame.right)
    places = zip(boxes, frame.centres, strict=True)
    shapes = [_box(box, scale, y, series[box.series]) if box in known else _none(scale, y) for box, y in places]
    numbers = [_five(box, digits_of(ends, limits)) for box in known] + [without(len(boxes) - len(known), "row")]
    return _chart(words, above, frame, scale, shapes, numbers)


def _swatch(series: int, at: Point) -> str:
    """The key of a colour: a small box."""
    return svg.rectangle((at[0] - 8, at[1] - 5), 16, 10, f"{svg.colour(series)} c-box")


def _box(box: Box, scale: AxisScale, y: float, series: int) -> str:
    a, b, c, d, e = (scale(x) for x in box.numbers)
    colour = svg.colour(series)
    whiskers = svg.path(_whiskers(y, (a, b), (d, e)), f"{colour} c-stroke")
    quartiles = svg.rectangle((b, y - 7), d - b, 14, f"{colour} c-box")
    places = sorted({round(scale(x), 1) for x in box.outliers})  # points on each other are drawn once
    points = "".join(svg.element("circle", {"cx": x, "cy": y, "r": 1.8}) for x in places)
    outliers = svg.group(f"{colour} c-cloud", points)
    return whiskers + quartiles + svg.line((c, y - 7), (c, y + 7), "c-mid") + outliers


def _five(box: Box, digits: int) -> str:
    name = f"{box.label}, {box.series}" if box.series else box.label
    half = f"half within {fixed(box.lower, digits)} and {fixed(box.upper, digits)}"
    beyond = len(box.outliers)
    whole = f"all {f'but {beyond:,} ' if beyond else ''}within {fixed(box.low, digits)} and {fixed(box.high, digits)}"
    return f"{name}: median {fixed(box.median, digits)}, {half}, {whole}" + (f" (n = {box.n:,})" if box.n else "")


def violins(words: Words, groups: Sequence[Group], limits: tuple[float, float] | None = None) -> Figure:
    """Densities with the median and the quartiles; groups with the same label share it and differ in colour.

    Every outline fills its row at its densest, and ends at the extreme values. Fewer than five values are dots.
    """
    every = [np.asarray(group.values, dtype=np.float64) for group in groups]
    finite = [values[np.isfinite(values)] for values in every]
    missing = sum(len(a) - len(b) for a, b in zip(every, finite, strict=True))
    if not any(len(values) for values in finite):
        return nothing(words, without(missing, "text"))
    extent = reach([float(f(values)) for values in finite if len(values) for f in (np.min, np.max)], limits)
    series = numbered(group.series for group in groups)
    above, top = chart_head(words, series, spot)
    frame = RowLayout([g.label for g in groups], [f"n = {len(values):,}" for values in finite], top, pitch=44, close=36)
    scale = AxisScale(*extent, frame.left, frame.right)
    shapes = [
        _violin(values, scale, y, series[group.series], extent if limits else None)
        for group, values, y in zip(groups, finite, frame.centres, strict=True)
    ]
    numbers = [_spread(g, values, digits_of(extent)) for g, values in zip(groups, finite, strict=True)]
    return _chart(words, above, frame, scale, shapes, [*numbers, without(missing, "text")])


def _chart(
    words: Words, above: str, frame: RowLayout, scale: AxisScale, shapes: Sequence[str], numbers: Sequence[str]
) -> Figure:
    parts = [above, across(scale, frame.top, frame.bottom, words.x), frame.words(), *shapes]
    return figure(words, frame.bottom + foot(words.x), "".join(parts), sentence(numbers))


def _violin(values: Floats, scale: AxisScale, y: float, series: int, limits: tuple[float, float] | None) -> str:
    if not len(values):
        return _none(scale, y)
    if len(values) < MIN_DENSITY_VALUES:
        return "".join(spot(series, (scale(float(v)), y)) for v in np.sort(values))
    a, b, c = (scale(float(q)) for q in np.quantile(values, (0.25, 0.5, 0.75)))
    points = "" if np.ptp(values) == 0 else _outline(values, scale, y, limits) + "z"
    outline = svg.path(points, f"{svg.colour(series)} c-area")
    median = svg.element("circle", {"class": "c-median", "cx": b, "cy": y, "r": 3.4})
    return outline + svg.line((a, y), (c, y), "c-quartiles") + median


def _outline(values: Floats, scale: AxisScale, y: float, limits: tuple[float, float] | None) -> str:
    grid = np.linspace(values.min(), values.max(), OUTLINE_POINTS)
    dense = density(values, grid, limits)
    high = 15 * dense / dense.max()
    upper: list[Point] = [(scale(float(x)), y - float(h)) for x, h in zip(grid, high, strict=True)]
    lower: list[Point] = [(x, 2 * y - v) for x, v in reversed(upper)]
    return svg.trace(upper + lower)


def density(values: Floats, grid: Floats, limits: tuple[float, float] | None = None) -> Floats:
    """A Gaussian kernel density with Silverman's bandwidth (1986, eq. 3.31).

    It is reflected at the limits, so that no density lies beyond them.
    """
    h = bandwidth(values)
    mirrored = [values] + ([2 * limit - values for limit in limits] if limits else [])
    distances = (grid[:, None] - np.concatenate(mirrored)[None, :]) / h
    kernels = np.exp(-0.5 * distances**2) / (h * np.sqrt(2 * np.pi))
    densities: Floats = kernels.sum(axis=1) / len(values)
    return densities


def bandwidth(values: Floats) -> float:
    """0.9 · min(standard deviation, interquartile range / 1.34) · n^(−1/5); of a range of 0, the deviation alone."""
    deviation = float(np.std(values, ddof=1))
    quartiles = float(np.subtract(*np.quantile(values, (0.75, 0.25)))) / 1.34
    return float(0.9 * (min(deviation, quartiles) or deviation) * len(values) ** -0.2)


def _spread(group: Group, values: Floats, digits: int) -> str:
    name = f"{group.label}, {group.series}" if group.series else group.label
    if not len(values):
        return f"{name}: no number"
    a, b, c = (fixed(float(q), digits) for q in np.quantile(values, (0.25, 0.5, 0.75)))
    return f"{name}: median {b}, half within {a} and {c} (n = {len(values):,})"


@dataclass(frozen=True)
class MarkedBox:
    """A few values of a row as a box, and numbers by series that are marked beside it, such as predictions of them."""

    label: str
    values: Floats
    marks: Mapping[str, float]


def marked_boxes(words: Words, rows: Sequence[MarkedBox], name: str, zero: float | None = None) -> Figure:
    """Boxes with whiskers to the least and the largest value, and marks; `name` is that of the boxes' series."""
    if not rows:
        return nothing(words)
    series = numbered([name, *(mark for row in rows for mark in row.marks)])
    ends = [
        x for row in rows for x in (*map(float, row.values), *row.marks.values(), *([] if zero is None else [zero]))
    ]
    above, top = chart_head(words, series, spot)
    frame = RowLayout([row.label for row in rows], [""] * len(rows), top)
    scale = AxisScale(*reach(ends), frame.left, frame.right)
    shapes = [] if zero is None else [svg.line((scale(zero), top), (scale(zero), frame.bottom), "c-zero")]
    digits, numbers = digits_of(ends), []
    for row, y in zip(rows, frame.centres, strict=True):
        least, lower, median, upper, most = np.quantile(row.values, (0, 0.25, 0.5, 0.75, 1)).tolist()
        a, b, c, d, e = (scale(x) for x in (least, lower, median, upper, most))
        shapes.append(svg.path(_whiskers(y, (a, b), (d, e)), f"{svg.colour(0)} c-stroke"))
        shapes.append(svg.rectangle((b, y - 7), d - b, 14, f"{svg.colour(0)} c-box"))
        shapes.append(svg.line((c, y - 7), (c, y + 7), "c-mid"))
        shapes += [spot(series[mark], (scale(x), y)) for mark, x in row.marks.items()]
        marks = ", ".join(f"{mark} {fixed(x, digits)}" for mark, x in row.marks.items())
        within = f"within {fixed(least, digits)} and {fixed(most, digits)}"
        numbers.append(f"{row.label}: median {fixed(median, digits)}, {within}, {marks}")
    return _chart(words, above, frame, scale, shapes, numbers)
