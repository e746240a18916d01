"""Charts: plain numbers in, a `Figure` with its own SVG out. The same numbers give the same bytes.

dots        means with intervals, one to a row
boxes       quartiles, whiskers and outliers of a distribution to a row
marked_boxes boxes of a few values with marks beside them, one to a row
violins     densities, one to a row
lines       curves with bands
histogram   counts between edges
scatter     a point for each pair of numbers
matrix      numbers of pairs, coloured

A chart has classes and no colours: `templates/charts.css` has them, for a page in light, in dark and in print.
`standalone` adds the light ones, for a file. A number that does not exist (NaN, None) is left out and counted in `alt`.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from heedful.report.charts.frame import Words, figure, nothing, sentence, without
from heedful.report.charts.plots import PlottedCurve, histogram, lines, scatter
from heedful.report.charts.rows import Box, Group, Interval, MarkedBox, boxes, dots, marked_boxes, violins
from heedful.report.charts.svg import CHART_WIDTH, element, escaped, width_of, write_line
from heedful.report.document import Figure
from heedful.report.phrases import exists, fixed

CELL = (34.0, 24.0)  # units, width and height of the smallest cell with room for "−.99"
MAX_CELL_WIDTH = 64.0  # units
NAMES, NUMBERS = 190.0, 28.0  # units, the widest column of names, and the part of it for numbers
FILE_MARGIN = 12  # units, around a chart in a file
MAX_PAIRS = 30  # pairs that the alternative text lists


def matrix(
    words: Words, names: Sequence[str], values: Sequence[Sequence[float | None]], limits: tuple[float, float] = (-1, 1)
) -> Figure:
    """Numbers of pairs in coloured cells. Columns have the numbers of the rows, which take less room than names."""
    n = len(names)
    if len(values) != n or any(len(row) != n for row in values):
        raise ValueError(f"expected {n} rows of {n} values for {n} names, got {[len(row) for row in values]}")
    if not any(exists(x) for row in values for x in row):
        return nothing(words)
    left = min(NAMES, max(width_of(name) for name in names) + NUMBERS) + 6
    wide = max(CELL[0], min(MAX_CELL_WIDTH, (CHART_WIDTH - left) / n))
    top = 22.0
    shapes = []
    for i, (name, row) in enumerate(zip(names, values, strict=True)):
        y = top + CELL[1] * i
        shapes.append(_heads(name, i, (left, left + wide * (i + 0.5), y)))
        shapes += [_cell(x, (left + wide * j, y, wide), limits) for j, x in enumerate(row)]
    return figure(
        words, top + CELL[1] * n + 2, "".join(shapes), _words_of(names, values), max(CHART_WIDTH, left + wide * n)
    )


def _heads(name: str, i: int, at: tuple[float, float, float]) -> str:
    """The name of a row with its number, and the number above its column, with the name as a tooltip."""
    left, column, y = at
    row = write_line((left - NUMBERS, y + 16.5), name, "c-end", NAMES - NUMBERS)
    number = write_line((left - 6, y + 16.5), str(i + 1), "c-soft c-end")
    above: dict[str, str | float] = {"class": "c-soft c-middle", "x": column, "y": 15.0}
    return row + number + element("text", above, f"<title>{escaped(name)}</title>{i + 1}")


def _cell(x: float | None, at: tuple[float, float, float], limits: tuple[float, float]) -> str:
    left, top, wide = at
    if x is None or not exists(x):
        return ""
    kind, strength = tone(x, limits)
    place: dict[str, str | float] = {"class": kind, "x": left + 0.5, "y": top + 0.5}
    size: dict[str, str | float] = {"width": wide - 1, "height": CELL[1] - 1, "fill-opacity": f"{strength:.2f}"}
    return element("rect", place | size) + write_line((left + wide / 2, top + 16.5), brief(x), "c-middle")


def tone(x: float, limits: tuple[float, float]) -> tuple[str, float]:
    """The class of a cell and its strength, 0 … 1: two colours around zero, or one for numbers of one sign."""
    low, high = limits
    if low < 0 < high:
        return ("c-for" if x >= 0 else "c-against"), min(1.0, abs(x) / (high if x >= 0 else -low))
    return "c-weight", min(1.0, max(0.0, (x - low) / (high - low)))


def brief(x: float) -> str:
    """At most four characters: .314 -> ".31", −.999 -> "−1.0", 12.3 -> "12"."""
    size = abs(round(x, 2))
    return re.sub(r"^(−?)0\.", r"\1.", fixed(x, 2 if size < 1 else 1 if size < 9.95 else 0))


def _words_of(names: Sequence[str], values: Sequence[Sequence[float | None]]) -> str:
    """Every pair, once in a symmetric matrix; of very many, the highest and the lowest."""
    n = range(len(names))
    alike = len(names) > 1 and all(values[i][j] == values[j][i] for i in n for j in n if i != j)
    cells = [(i, j, values[i][j]) for i in n for j in n if (i < j if alike else i != j or exists(values[i][j]))]
    pairs = [(x, f"{names[i]} and {names[j]} {fixed(x)}") for i, j, x in cells if x is not None and exists(x)]
    return sentence([_ends(pairs), without(len(cells) - len(pairs), "pair")])


def _ends(pairs: Sequence[tuple[float, str]]) -> str:
    if len(pairs) <= MAX_PAIRS:
        return sentence(words for _, words in pairs)
    ranked = [words for _, words in sorted(pairs, key=lambda pair: -pair[0])]
    median = statistics.median(x for x, _ in pairs)
    ends = f"highest: {', '.join(ranked[:5])}; lowest: {', '.join(ranked[-5:])}"
    return f"{len(pairs)} pairs, median {fixed(median)}; {ends}"


@cache
def style() -> str:
    """The style sheet of all charts, for a page."""
    return (files("heedful.report") / "templates" / "charts.css").read_text("utf-8")


@cache
def _plain_style() -> str:
    """The same for a file: light colours in place of the page's, and no rules that only browsers understand."""
    rules = re.sub(r"/\*.*?\*/", "", style(), flags=re.DOTALL)
    chart_rules = re.sub(r"^(:root|@media|figure|svg)[^{]*\{(?:[^{}]|\{[^{}]*\})*\}", "", rules, flags=re.MULTILINE)
    return re.sub(r"\n\s*\n+", "\n", re.sub(r"var\(--[\w-]+, ([^()]+)\)", r"\1", chart_rules)).strip()


def standalone(figure: Figure) -> str:
    """A chart as an SVG file: its style inside, light on white."""
    box = re.search(r'viewBox="0 0 (\d+) (\d+)"', figure.svg)
    if box is None:
        raise ValueError(f"the figure '{figure.name}' is not a chart: its svg has no viewBox")
    width, height = (int(side) + 2 * FILE_MARGIN for side in box.groups())
    size = f'width="{width}" height="{height}"'
    view = f'viewBox="-{FILE_MARGIN} -{FILE_MARGIN} {width} {height}"'
    paper = f'<style>{_plain_style()}</style><rect x="-{FILE_MARGIN}" y="-{FILE_MARGIN}" {size} fill="#fff"/>'
    opened = figure.svg.replace("<svg ", f'<svg xmlns="http://www.w3.org/2000/svg" {size} ', 1)
    opened = opened.replace(box[0], view, 1).replace("</title>", "</title>" + paper, 1)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{opened}\n'


__all__ = [
    "Box",
    "Group",
    "Interval",
    "MarkedBox",
    "PlottedCurve",
    "Words",
    "boxes",
    "dots",
    "histogram",
    "lines",
    "marked_boxes",
    "matrix",
    "scatter",
    "standalone",
    "style",
    "violins",
]
