"""Plots of one number against another: curves with bands, histograms, and scatter plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import ArrayLike

from heedful.core.arrays import Floats
from heedful.report.charts import svg
from heedful.report.charts.frame import (
    EDGE,
    LABELS,
    Words,
    across,
    chart_head,
    digits_of,
    figure,
    foot,
    margin,
    nothing,
    numbered,
    reach,
    sentence,
    spot,
    stroke,
    upright,
    without,
)
from heedful.report.charts.svg import CHART_WIDTH, LINE, AxisScale, Point
from heedful.report.document import Figure
from heedful.report.phrases import bracketed, exists, fixed, format_number

HEIGHT = 230.0  # units, of a plot without its words
PACKETS = 32  # paths of a scatter plot: overlapping points of two paths darken each other, those of one do not
KEY_WIDTH = 42.0  # units from a plot to the names of its curves
MAX_STRONG_BANDS = 5  # curves up to which bands are drawn strongly
MAX_MARKED = 25  # points of a curve up to which each has a marker


@dataclass(frozen=True)
class PlottedCurve:
    """A curve, with a band from `low` to `high`; `faint` for controls and bounds. Not `joined`, it is points alone."""

    label: str
    x: Sequence[float]
    mean: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    series: str = ""
    faint: bool = False
    joined: bool = True

    @property
    def key(self) -> str:
        """The key of its colour: its series, or its label."""
        return self.series or self.label


@dataclass(frozen=True)
class Plane:
    """A plot's two scales."""

    x: AxisScale
    y: AxisScale

    @classmethod
    def of(cls, x: tuple[float, float], y: tuple[float, float], box: tuple[float, float, float]) -> Plane:
        """Scales that cover the ranges x and y. `box` is the top, the right edge and the height."""
        top, right, high = box
        down = AxisScale(*y, top + high, top)
        return cls(AxisScale(*x, margin(down), right), down)

    def at(self, x: float, y: float) -> Point:
        """The point of a pair of numbers."""
        return (self.x(x), self.y(y))

    def axes(self, words: Words) -> str:
        """Both axes, with the label of the horizontal one."""
        left, right, bottom, top = self.x.start, self.x.end, self.y.start, self.y.end
        return upright(self.y, left, right) + across(self.x, top, bottom, words.x)

    def zero_lines(self) -> str:
        """Lines at zero through the plot."""
        x, y = self.at(0, 0)
        upright = svg.line((x, self.y.end), (x, self.y.start), "c-zero")
        return upright + svg.line((self.x.start, y), (self.x.end, y), "c-zero")

    def height(self, words: Words) -> float:
        """Down to the label of the horizontal axis."""
        return self.y.start + foot(words.x)


def lines(words: Words, lines: Sequence[PlottedCurve], limits: tuple[float, float] | None = None) -> Figure:
    """Curves with bands, each named at its end. A number that does not exist is a gap."""
    known = [curve for curve in lines if _points(curve)]
    if not known:
        return nothing(words, without(len(lines), "line"))
    series = numbered(curve.key for curve in lines)
    above, top = chart_head(words, {}, stroke)
    room = min(LABELS - 20, max(svg.width_of(curve.label) for curve in known))
    ends = [v for curve in known for values in (curve.mean, curve.low or (), curve.high or ()) for v in values]
    box = (top, CHART_WIDTH - room - KEY_WIDTH, max(HEIGHT, len(known) * LINE))
    across_ = [x for curve in known for x, _ in _points(curve)]
    plane = Plane.of(reach(across_, (min(across_), max(across_))), reach(ends, limits), box)
    shapes = [above, plane.axes(words)]
    bands = "".join(_band(curve, plane, series[curve.key]) for curve in known)
    shapes.append(svg.group("c-many" if len(known) > MAX_STRONG_BANDS else "c-few", bands))
    shapes += [_curve(curve, plane, series[curve.key]) for curve in sorted(known, key=lambda curve: not curve.faint)]
    shapes.append(_names(known, plane, series, room))
    digits = digits_of(ends, limits)
    missing = sum(len(curve.x) - len(_points(curve)) for curve in lines)
    numbers = [*(_course(curve, digits) for curve in known), without(missing, "point")]
    return figure(words, plane.height(words), "".join(shapes), sentence(numbers))


def _points(curve: PlottedCurve) -> list[Point]:
    return [(x, y) for x, y in zip(curve.x, curve.mean, strict=True) if exists(x) and exists(y)]


def _runs(columns: Sequence[Sequence[float]]) -> list[list[tuple[float, ...]]]:
    """Consecutive rows without a gap, one list for each run of them."""
    rows = list(zip(*columns, strict=True))
    return [list(run) for whole, run in groupby(rows, key=lambda row: all(map(exists, row))) if whole]


def _band(curve: PlottedCurve, plane: Plane, series: int) -> str:
    if curve.low is None or curve.high is None or not curve.joined:
        return ""
    outlines = ""
    for run in _runs((curve.x, curve.low, curve.high)):
        upper = [plane.at(x, high) for x, _, high in run]
        outlines += svg.trace(upper + [plane.at(x, low) for x, low, _ in reversed(run)]) + "z"
    return svg.path(outlines, f"{svg.colour(series)} c-band" + (" c-faint" if curve.faint else ""))


def _curve(curve: PlottedCurve, plane: Plane, series: int) -> str:
    faint = " c-faint" if curve.faint else ""
    runs = _runs((curve.x, curve.mean))
    line = "".join(svg.trace([plane.at(x, y) for x, y in run]) for run in runs if curve.joined)
    plain = curve.joined and (curve.faint or sum(map(len, runs)) > MAX_MARKED)
    markers = "".join(svg.marker(series, plane.at(x, y)) for run in runs for x, y in run if len(run) == 1 or not plain)
    colour = svg.colour(series)
    return svg.path(line, f"{colour} {svg.dash(series)} c-stroke{faint}") + svg.path(markers, f"{colour} c-fill")


def _names(lines: Sequence[PlottedCurve], plane: Plane, series: Mapping[str, int], room: float) -> str:
    """Names at the ends of curves, moved apart. Names of curves that end together are in the order of their means."""
    ends = [plane.at(*_points(curve)[-1]) for curve in lines]
    means = [sum(plane.y(y) for _, y in _points(curve)) / len(_points(curve)) for curve in lines]
    wanted = [y + 0.01 * mean for (_, y), mean in zip(ends, means, strict=True)]
    places = svg.spread_places(wanted, LINE - 2, plane.y.end + 2, plane.y.start)
    left = plane.x.end + KEY_WIDTH
    shapes = []
    for i, (curve, (x, y), place) in enumerate(zip(lines, ends, places, strict=True)):
        number = series[curve.key]
        alone = all(abs(y - other) > 4 for j, (_, other) in enumerate(ends) if j != i)
        leader = svg.trace([(x + 4, y), (left - 25, place)]) if alone and curve.joined else ""
        key = "" if curve.faint and curve.joined else spot(number, (left - 14, place))
        line = stroke(number, (left - 14, place)) if curve.joined else ""
        shapes += [svg.path(leader, f"{svg.colour(number)} c-leader"), line, key]
        shapes.append(svg.write_line((left, place + 4.5), curve.label, "c-soft" if curve.faint else "", room))
    return "".join(shapes)


def _course(curve: PlottedCurve, digits: int) -> str:
    """A curve at its start, middle and end."""
    known = [i for i, pair in enumerate(zip(curve.x, curve.mean, strict=True)) if all(map(exists, pair))]
    parts = []
    for i in dict.fromkeys((known[0], known[len(known) // 2], known[-1])):
        low, high = (limits[i] if limits else None for limits in (curve.low, curve.high))
        parts.append(f"{bracketed(curve.mean[i], low, high, digits)} at {format_number(curve.x[i], ',.4g')}")
    return f"{curve.label} " + ", ".join(parts)


def histogram(
    words: Words, series: Mapping[str, tuple[ArrayLike, ArrayLike]], marks: Mapping[str, float] | None = None
) -> Figure:
    """Counts between edges as steps, overlaid; `marks` are vertical lines with a name, such as a bound or a mean."""
    bins = {name: (np.asarray(e, dtype=np.float64), np.asarray(c, dtype=np.float64)) for name, (e, c) in series.items()}
    for name, (edges, counts) in bins.items():
        if len(edges) != len(counts) + 1:
            raise ValueError(f"{len(counts)} counts of '{name}' need {len(counts) + 1} edges, got {len(edges)}")
    filled = {name: pair for name, pair in bins.items() if np.nansum(pair[1]) > 0}
    if not filled:
        return nothing(words)
    numbers = numbered(bins)
    bounds = {name: x for name, x in (marks or {}).items() if exists(x)}
    above, top = chart_head(words, numbers, stroke)
    extent = reach([*(float(e) for edges, _ in filled.values() for e in edges[[0, -1]]), *bounds.values()])
    most = max(float(np.nanmax(counts)) for _, counts in filled.values())
    plane = Plane.of(extent, (0.0, most * 1.04), (top + LINE * len(bounds), CHART_WIDTH - EDGE, HEIGHT - 50))
    shapes = [above, plane.axes(words)]
    shapes += [_steps(*filled[name], plane, i) for name, i in numbers.items() if name in filled]
    shapes += [_mark(name, x, plane, row) for row, (name, x) in enumerate(reversed(bounds.items()))]
    missing = sum(int(np.isnan(counts).sum()) for _, counts in bins.values())
    numbers_in_words = [_counted(name, *pair) for name, pair in bins.items()]
    numbers_in_words += [f"{name} at {fixed(x, digits_of(extent))}" for name, x in bounds.items()]
    return figure(words, plane.height(words), "".join(shapes), sentence([*numbers_in_words, without(missing, "bin")]))


def _steps(edges: Floats, counts: Floats, plane: Plane, series: int) -> str:
    corners = [
        plane.at(float(x), float(count))
        for count, sides in zip(np.nan_to_num(counts), pairwise(edges), strict=True)
        for x in sides
    ]
    outline = svg.trace([plane.at(float(edges[0]), 0), *corners, plane.at(float(edges[-1]), 0)])
    colour = svg.colour(series)
    return svg.path(outline + "z", f"{colour} c-band") + svg.path(outline, f"{colour} {svg.dash(series)} c-stroke")


def _mark(name: str, x: float, plane: Plane, row: int) -> str:
    """A line up to its name; each name has a row of its own, on the side with more room."""
    at, height = plane.x(x), plane.y.end - LINE * row - 6
    place, kind = ((at + 5, height), "") if at < CHART_WIDTH / 2 else ((at - 5, height), "c-end")
    words = svg.write_line(place, name, kind, max(at, CHART_WIDTH - at) - 8)
    return svg.line((at, height - 10), (at, plane.y.start), "c-mark") + words


def _counted(name: str, edges: Floats, counts: Floats) -> str:
    """The total, and the bin with the largest count."""
    if not np.nansum(counts) > 0:
        return f"{name}: none"
    i, digits = int(np.nanargmax(counts)), digits_of(edges.tolist())
    where = f"most ({counts[i]:,.6g}) between {fixed(float(edges[i]), digits)} and {fixed(float(edges[i + 1]), digits)}"
    return f"{name + ': ' if name else ''}{np.nansum(counts):,.6g} in all, {where}"


def scatter(words: Words, x: ArrayLike, y: ArrayLike, series: Sequence[str] | None = None, zero: bool = True) -> Figure:
    """A point for each pair of numbers, darker where many lie; with lines at zero."""
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    names = list(series) if series is not None else [""] * len(a)
    known = np.isfinite(a) & np.isfinite(b)
    if not known.any():
        return nothing(words, without(len(a), "point"))
    numbers = numbered(names)
    above, top = chart_head(words, numbers, spot)
    zeros = [0.0] if zero else []
    plane = Plane.of(reach([*a[known], *zeros]), reach([*b[known], *zeros]), (top, CHART_WIDTH - EDGE, HEIGHT))
    shapes = [above, plane.axes(words)]
    shapes += [plane.zero_lines()] if zero else []
    for name, i in numbers.items():
        in_series = known & np.array([other == name for other in names], dtype=bool)
        points = [plane.at(float(u), float(v)) for u, v in zip(a[in_series], b[in_series], strict=True)]
        packets = ["".join(svg.marker(i, p) for p in points[k::PACKETS]) for k in range(min(PACKETS, len(points)))]
        shapes.append(svg.group(f"{svg.colour(i)} c-cloud", "".join(f'<path d="{d}"/>' for d in packets)))
    shares = [_shares(b[known]), without(int((~known).sum()), "point")]
    return figure(words, plane.height(words), "".join(shapes), sentence(shares))


def _shares(y: Floats) -> str:
    above, below = (y > 0).mean(), (y < 0).mean()
    n = f"{len(y):,} point{'' if len(y) == 1 else 's'}"
    return f"of {n}, {above:.1%} lie above zero, {below:.1%} below and {(y == 0).mean():.1%} at zero"
