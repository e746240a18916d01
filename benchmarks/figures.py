"""Pictures: the curves of the benchmark as figures of docs/speed.md. The same numbers give the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from heedful.report.figures.sheet import encode, plainly

Curves = Mapping[str, Mapping[str, Sequence[Sequence[float]]]]
# told apart by every kind of colour vision (Okabe & Ito), and by their marks
COLOURS = ("#000000", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKS = "osD^vPX"


@dataclass(frozen=True)
class Panel:
    """One plot: which curves, and what its axes are."""

    curves: str
    title: str
    x: str
    y: str
    line: float | None = None


FIGURES = {
    "speed-errors": (
        Panel("lime", "LIME, 25 tokens", "forward passes", "relative RMS error"),
        Panel("shapley", "Shapley values, 12 words", "forward passes", "relative RMS error", 0.02),
    ),
    "speed-length": (
        Panel("seconds by length", "CPU time, one thread", "tokens", "seconds"),
        Panel("memory by length", "peak memory beyond the loaded model", "tokens", "MB"),
    ),
    "speed-samples": (
        Panel("seconds by samples", "CPU time, one thread, 25 tokens", "samples", "seconds"),
        Panel("memory by samples", "peak memory beyond the loaded model", "samples", "MB"),
    ),
}


def _plain(value: float, _: object = None) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _paint(axes: Axes, panel: Panel, lines: Mapping[str, Sequence[Sequence[float]]]) -> None:
    for i, (name, points) in enumerate(lines.items()):
        shown = [(x, y) for x, y in points if y > 0]
        axes.plot(*zip(*shown, strict=True), color=COLOURS[i], marker=MARKS[i], ms=4, lw=1.4, label=name)
    if panel.line is not None:
        axes.axhline(panel.line, color="#888888", lw=0.8, ls="--")
    axes.set(xscale="log", yscale="log", title=panel.title, xlabel=panel.x, ylabel=panel.y)
    percent = "error" in panel.y
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:g} %" if percent else _plain(y)))
    ticks = sorted({x for points in lines.values() for x, _ in points})
    if len(ticks) <= 8:
        axes.set_xticks(ticks)
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(color="#e4e4e4", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)


def draw(panels: Sequence[Panel], curves: Curves) -> Figure:
    """Panels side by side."""
    figure = Figure(figsize=(5.2 * len(panels), 3.9), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    for i, panel in enumerate(panels):
        _paint(figure.add_subplot(1, len(panels), i + 1), panel, curves[panel.curves])
    return figure


def write(curves: Curves, folder: Path, kind: str = "svg") -> list[Path]:
    """Every figure whose curves are there."""
    written = []
    for name, panels in FIGURES.items():
        there = [panel for panel in panels if panel.curves in curves]
        if there:
            with plainly():
                path = folder / f"{name}.{kind}"
                path.write_bytes(encode(draw(there, curves), kind))
                written.append(path)
    return written
