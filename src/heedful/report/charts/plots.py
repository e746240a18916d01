"""Plots: one number against another: curves with bands, histograms, and clouds of points."""

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
from heedful.report.phrases import bracketed, exists, fixed

HEIGHT = 230.0  # of a plot without its words
PACKETS = 32  # paths of a cloud: points in one path do not darken each other, those in two do
KEY_WIDTH = 42.0  # from a plot to the names of its curves
MAX_STRONG_BANDS = 5  # curves whose bands may be strong
MAX_MARKED = 25  # points of a curve that get a marker each


@dataclass(frozen=True)
class PlottedCurve:
    """A curve, with a band from `low` to `high`; a faint one is there to be compared with."""

    label: str
    x: Sequence[float]
    mean: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    series: str = ""
    faint: bool = False

    @property
    def key(self) -> str:
        """Which colour: that of its series, or its own."""
        return self.series or self.label


@dataclass(frozen=True)
class Plane:
    """A plot's two scales."""

    x: AxisScale
    y: AxisScale

    @classmethod
    def of(cls, x: tuple[float, float], y: tuple[float, float], box: tuple[float, float, float]) -> Plane:
        """Scales that cover x and y. `box` is its top, its right edge and its height."""
        top, right, high = box
        down = AxisScale(*y, top + high, top)
        return cls(AxisScale(*x, margin(down), right), down)

    def at(self, x: float, y: float) -> Point:
        """Where a pair of numbers lies."""
        return (self.x(x), self.y(y))

    def axes(self, words: Words) -> str:
        """Both axes, with the label of the one below."""
        left, right, bottom, top = self.x.start, self.x.end, self.y.start, self.y.end
        return upright(self.y, left, right) + across(self.x, top, bottom, words.x)

    def zero_lines(self) -> str:
        """Lines at zero through all of the plot."""
        x, y = self.at(0, 0)
        upright = svg.line((x, self.y.end), (x, self.y.start), "c-zero")
        return upright + svg.line((self.x.start, y), (self.x.end, y), "c-zero")

    def height(self, words: Words) -> float:
        """Down to the last word."""
        return self.y.start + foot(words.x)


def lines(words: Words, lines: Sequence[PlottedCurve], limits: tuple[float, float] | None = None) -> Figure:
    """Curves with bands, each named at its end. A number that does not exist is a gap."""
    there = [one for one in lines if _points(one)]
    if not there:
        return nothing(words, without(len(lines), "line"))
    series = numbered(one.key for one in lines)
    above, top = chart_head(words, {}, stroke)
    room = min(LABELS - 20, max(svg.width_of(one.label) for one in there))
    ends = [v for one in there for some in (one.mean, one.low or (), one.high or ()) for v in some]
    box = (top, CHART_WIDTH - room - KEY_WIDTH, max(HEIGHT, len(there) * LINE))
    across_ = [x for one in there for x, _ in _points(one)]
    plane = Plane.of(reach(across_, (min(across_), max(across_))), reach(ends, limits), box)
    shapes = [above, plane.axes(words)]
    bands = "".join(_band(one, plane, series[one.key]) for one in there)
    shapes.append(svg.group("c-many" if len(there) > MAX_STRONG_BANDS else "c-few", bands))
    shapes += [_curve(one, plane, series[one.key]) for one in sorted(there, key=lambda one: not one.faint)]
    shapes.append(_names(there, plane, series, room))
    digits = digits_of(ends, limits)
    missing = sum(len(one.x) - len(_points(one)) for one in lines)
    numbers = [*(_course(one, digits) for one in there), without(missing, "point")]
    return figure(words, plane.height(words), "".join(shapes), sentence(numbers))


def _points(one: PlottedCurve) -> list[Point]:
    return [(x, y) for x, y in zip(one.x, one.mean, strict=True) if exists(x) and exists(y)]


def _runs(columns: Sequence[Sequence[float]]) -> list[list[tuple[float, ...]]]:
    """Rows without a gap, one list for each stretch of them."""
    rows = list(zip(*columns, strict=True))
    return [list(some) for whole, some in groupby(rows, key=lambda row: all(map(exists, row))) if whole]


def _band(one: PlottedCurve, plane: Plane, series: int) -> str:
    if one.low is None or one.high is None:
        return ""
    runs = _runs((one.x, one.low, one.high))
    there = [[plane.at(x, high) for x, _, high in run] for run in runs]
    back = [[plane.at(x, low) for x, low, _ in reversed(run)] for run in runs]
    outlines = "".join(svg.trace(a + b) + "z" for a, b in zip(there, back, strict=True))
    return svg.path(outlines, f"{svg.colour(series)} c-band" + (" c-faint" if one.faint else ""))


def _curve(one: PlottedCurve, plane: Plane, series: int) -> str:
    faint = " c-faint" if one.faint else ""
    runs = _runs((one.x, one.mean))
    drawn = "".join(svg.trace([plane.at(x, y) for x, y in run]) for run in runs)
    plain = one.faint or sum(map(len, runs)) > MAX_MARKED
    marked = "".join(svg.marker(series, plane.at(x, y)) for run in runs for x, y in run if len(run) == 1 or not plain)
    colour = svg.colour(series)
    return svg.path(drawn, f"{colour} {svg.dash(series)} c-stroke{faint}") + svg.path(marked, f"{colour} c-fill")


def _names(lines: Sequence[PlottedCurve], plane: Plane, series: Mapping[str, int], room: float) -> str:
    """Names beside the ends of curves, moved apart. Curves that end together are named in the order of their means."""
    ends = [plane.at(*_points(one)[-1]) for one in lines]
    means = [sum(plane.y(y) for _, y in _points(one)) / len(_points(one)) for one in lines]
    wanted = [y + 0.01 * mean for (_, y), mean in zip(ends, means, strict=True)]
    places = svg.spread_places(wanted, LINE - 2, plane.y.end + 2, plane.y.start)
    left = plane.x.end + KEY_WIDTH
    shapes = []
    for i, (one, (x, y), place) in enumerate(zip(lines, ends, places, strict=True)):
        number = series[one.key]
        alone = all(abs(y - other) > 4 for j, (_, other) in enumerate(ends) if j != i)
        leader = svg.trace([(x + 4, y), (left - 25, place)]) if alone else ""
        key = "" if one.faint else spot(number, (left - 14, place))
        shapes += [svg.path(leader, f"{svg.colour(number)} c-leader"), stroke(number, (left - 14, place)), key]
        shapes.append(svg.write_line((left, place + 4.5), one.label, "c-soft" if one.faint else "", room))
    return "".join(shapes)


def _course(one: PlottedCurve, digits: int) -> str:
    """A curve at its begin, in the middle and at its end."""
    there = [i for i, pair in enumerate(zip(one.x, one.mean, strict=True)) if all(map(exists, pair))]
    parts = []
    for i in dict.fromkeys((there[0], there[len(there) // 2], there[-1])):
        low, high = (limits[i] if limits else None for limits in (one.low, one.high))
        parts.append(f"{bracketed(one.mean[i], low, high, digits)} at {f'{one.x[i]:,.4g}'.replace('-', '−')}")
    return f"{one.label} " + ", ".join(parts)


def histogram(
    words: Words, series: Mapping[str, tuple[ArrayLike, ArrayLike]], marks: Mapping[str, float] | None = None
) -> Figure:
    """Counts between edges as steps, one over the other; `marks` are upright lines with a name, a bound or a mean."""
    bins = {name: (np.asarray(e, dtype=np.float64), np.asarray(c, dtype=np.float64)) for name, (e, c) in series.items()}
    for name, (edges, counts) in bins.items():
        if len(edges) != len(counts) + 1:
            raise ValueError(f"{len(counts)} counts of '{name}' have {len(edges)} edges, not {len(counts) + 1}")
    shown = {name: pair for name, pair in bins.items() if np.nansum(pair[1]) > 0}
    if not shown:
        return nothing(words)
    numbers = numbered(bins)
    bounds = {name: x for name, x in (marks or {}).items() if exists(x)}
    above, top = chart_head(words, numbers, stroke)
    extent = reach([*(float(e) for edges, _ in shown.values() for e in edges[[0, -1]]), *bounds.values()])
    most = max(float(np.nanmax(counts)) for _, counts in shown.values())
    plane = Plane.of(extent, (0.0, most * 1.04), (top + LINE * len(bounds), CHART_WIDTH - EDGE, HEIGHT - 50))
    shapes = [above, plane.axes(words)]
    shapes += [_steps(*shown[name], plane, i) for name, i in numbers.items() if name in shown]
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
    """A line up to its name; names stand in rows of their own, on the side with more room."""
    at, height = plane.x(x), plane.y.end - LINE * row - 6
    left = at < CHART_WIDTH / 2
    words = svg.write_line(
        (at + 5 if left else at - 5, height), name, "" if left else "c-end", max(at, CHART_WIDTH - at) - 8
    )
    return svg.line((at, height - 10), (at, plane.y.start), "c-mark") + words


def _counted(name: str, edges: Floats, counts: Floats) -> str:
    """How many, and in which bin most of them are."""
    if not np.nansum(counts) > 0:
        return f"{name}: none"
    i, digits = int(np.nanargmax(counts)), digits_of(edges.tolist())
    where = f"most ({counts[i]:,.6g}) between {fixed(float(edges[i]), digits)} and {fixed(float(edges[i + 1]), digits)}"
    return f"{name + ': ' if name else ''}{np.nansum(counts):,.6g} in all, {where}"


def scatter(words: Words, x: ArrayLike, y: ArrayLike, series: Sequence[str] | None = None, zero: bool = True) -> Figure:
    """A point for each pair of numbers, darker where many lie; with lines at zero."""
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    names = list(series) if series is not None else [""] * len(a)
    there = np.isfinite(a) & np.isfinite(b)
    if not there.any():
        return nothing(words, without(len(a), "point"))
    numbers = numbered(names)
    above, top = chart_head(words, numbers, spot)
    zeros = [0.0] if zero else []
    plane = Plane.of(reach([*a[there], *zeros]), reach([*b[there], *zeros]), (top, CHART_WIDTH - EDGE, HEIGHT))
    shapes = [above, plane.axes(words)]
    shapes += [plane.zero_lines()] if zero else []
    for name, i in numbers.items():
        shown = there & np.array([other == name for other in names], dtype=bool)
        points = [plane.at(float(u), float(v)) for u, v in zip(a[shown], b[shown], strict=True)]
        packets = ["".join(svg.marker(i, p) for p in points[k::PACKETS]) for k in range(min(PACKETS, len(points)))]
        shapes.append(svg.group(f"{svg.colour(i)} c-cloud", "".join(f'<path d="{d}"/>' for d in packets)))
    shares = [_shares(b[there]), without(int((~there).sum()), "point")]
    return figure(words, plane.height(words), "".join(shapes), sentence(shares))


def _shares(y: Floats) -> str:
    above, below = (y > 0).mean(), (y < 0).mean()
    n = f"{len(y):,} point{'' if len(y) == 1 else 's'}"
    return f"of {n}, {above:.1%} lie above zero, {below:.1%} below and {(y == 0).mean():.1%} at zero"
