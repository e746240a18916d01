"""Maps: the weights of layers and heads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, FuncNorm, LinearSegmentedColormap, Normalize, PowerNorm
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from heedful.core.explanation import Interaction
from heedful.report.figures.block import LINE_HEIGHT
from heedful.report.figures.sheet import AGAINST, FOR, MARGIN, SOFT, Sheet
from heedful.report.heatmaps import pooled
from heedful.report.wording import details, number

BINS = 48  # the side of one heat map among many
NAMED = 64  # tokens that a single map can name
_SEAM = 2


def _maps_colours(values: NDArray[np.float32]) -> tuple[Colormap, Normalize]:
    """The page's ramps on its square-root scale, which keeps small weights apart."""
    top = float(np.abs(values).max(initial=0.0)) or 1.0
    if not (values < 0).any():
        return LinearSegmentedColormap.from_list("weight", ["#f7f5fb", "#8f7bc4", "#2a0f5e"]), PowerNorm(0.5, 0, top)
    signed = LinearSegmentedColormap.from_list("signed", [AGAINST, "#f7f5fb", FOR])
    root = FuncNorm((lambda x: np.sign(x) * np.sqrt(np.abs(x)), lambda x: np.sign(x) * x**2), -top, top)
    return signed, root


@dataclass(frozen=True)
class Maps:
    """Heat maps of an interaction, layers below each other and heads side by side; or of two, as a pair."""

    whys: tuple[Interaction, ...]

    @property
    def _single(self) -> bool:
        return self.whys[0].weights.shape[:2] == (1, 1)

    @property
    def _tile(self) -> float:
        heads = self.whys[0].weights.shape[1]
        return float(np.clip((4.3 if len(self.whys) > 1 else 7.5) / heads, 0.28, 1.6))

    @property
    def _side(self) -> tuple[float, float]:
        """Width and height of one panel's maps."""
        layers, heads = self.whys[0].weights.shape[:2]
        if self._single:
            side = float(np.clip(0.17 * len(self.whys[0].tokens), 2.4, 4.6 if len(self.whys) > 1 else 6.5))
            return side, side
        return heads * self._tile, layers * self._tile

    @property
    def _names(self) -> float:
        """Room for the names at the left of a panel."""
        tokens = self.whys[0].tokens
        if not self._single:
            return 0.45
        return 0.2 + 0.078 * min(14, max(len(tokens.surface(i)) for i in range(len(tokens))))

    @property
    def width(self) -> float:
        """Panels side by side, each with its names and its colour bar."""
        return max(4.0, len(self.whys) * (self._names + self._side[0] + 1.0))

    def _heading(self, why: Interaction) -> str:
        kinds = {
            "self": "self-attention",
            "decoder": "decoder self-attention",
            "cross": "cross-attention",
            "sentence": "attention over sentences",
        }
        where = f", layer {why.layers[0]}" if self._single else ""
        return f"{why.method or 'weights'} ({kinds.get(why.attention, why.attention)}{where})"

    def _notes(self) -> list[str]:
        queries, n = self.whys[0].weights.shape[2:]
        repeated = ["one query reads the whole text: its row is repeated"] if queries < n else []
        what = "rows: query, columns: key" if self._single else "one map per layer and head; in each, rows are queries"
        bins = min(n, BINS)
        binned = [f"{n} tokens in {bins} bins, the largest weight of each"] if bins < n and not self._single else []
        gaps = [
            f"{why.method}: completeness gap at most {number(max(map(abs, why.gaps)), signed=False)}"
            for why in self.whys
            if why.gaps
        ]
        facts = [f"{why.method}: {line}" for why in self.whys if (line := details(why.details))]
        return [f"{what}; square-root colour scale", *repeated, *binned, *gaps, *facts]

    def texts(self) -> list[str]:
        """Names and notes."""
        tokens = self.whys[0].tokens
        names = [tokens.surface(i) for i in range(len(tokens))] if self._single else []
        return [*names, *map(self._heading, self.whys), *self._notes()]

    def height(self, sheet: Sheet) -> float:
        """The maps, the heading and the names above, the notes below."""
        above = 0.3 + (self._names if self._single else 0.25)
        return above + self._side[1] + 0.12 + LINE_HEIGHT * len(self._notes()) + (0 if self._single else 0.12)

    def paint(self, sheet: Sheet, top: float) -> None:
        """The panels, from left to right."""
        above = 0.3 + (self._names if self._single else 0.25)
        width, height = self._side
        for n, why in enumerate(self.whys):
            left = MARGIN + n * (self._names + width + 1.0)
            sheet.write(left, top, self._heading(why), sheet.style(9, bold=True))
            axes = sheet.axes(left + self._names, top + above, width, height)
            values = why.weights[0, 0] if self._single else tiled(why)
            if self._single and len(values) < values.shape[1]:
                values = np.repeat(values, values.shape[1], axis=0)
            colours, norm = _maps_colours(why.weights)
            image = axes.imshow(values, cmap=colours, norm=norm, aspect="auto", interpolation="nearest")
            (self._tokens if self._single else self._heads)(axes, sheet, why)
            bar = sheet.axes(left + self._names + width + 0.12, top + above, 0.1, min(height, 2.5))
            scale = sheet.figure.colorbar(image, cax=bar)
            scale.outline.set_visible(False)
            # subtle: ticks at even places of the square-root scale, not of the numbers
            ends = [norm.vmin or 0.0, 0.0, norm.vmax or 0.0] if (norm.vmin or 0) < 0 else [0.0, norm.vmax or 0.0]
            middles = [e / 4 for e in ends if e]
            scale.set_ticks(sorted({*ends, *middles}))
            scale.ax.yaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.2g}".replace("-", "−")))
            scale.ax.tick_params(length=0, labelsize=7.5, colors=SOFT)
        for n, note in enumerate(self._notes()):
            sheet.write(MARGIN, top + above + height + 0.12 + n * LINE_HEIGHT, note, sheet.style(7.5, SOFT))

    def _heads(self, axes: Axes, sheet: Sheet, why: Interaction) -> None:
        layers, heads = why.weights.shape[:2]
        step = min(why.weights.shape[-1], BINS) + _SEAM
        axes.set_xticks((np.arange(heads) + 0.5) * step - 1, [str(h) for h in range(heads)])
        axes.set_yticks((np.arange(layers) + 0.5) * step - 1, [str(layer) for layer in why.layers])
        axes.xaxis.tick_top()
        axes.set_ylabel("layer", fontsize=8, color=SOFT)
        axes.set_title("head", fontsize=8, color=SOFT, pad=2, loc="left")

    def _tokens(self, axes: Axes, sheet: Sheet, why: Interaction) -> None:
        n = len(why.tokens)
        every = -(-n // NAMED)
        at = list(range(0, n, every))
        names = [sheet.letters.safe(why.tokens.surface(i), 14) for i in at]
        size = float(np.clip(self._side[0] / len(at) * 60, 4.5, 8))
        axes.set_yticks(at)
        axes.set_yticklabels(names, **sheet.style(size))
        axes.xaxis.tick_top()
        axes.set_xticks(at)
        axes.set_xticklabels(names, rotation=90, **sheet.style(size))


def tiled(why: Interaction) -> NDArray[np.float32]:
    """All heads in one picture, with a seam of NaN, which is drawn as nothing, between them."""
    layers, heads, queries, n = why.weights.shape
    side = min(n, BINS)
    starts = np.arange(side) * n // side
    small = pooled(np.repeat(why.weights, n, axis=2) if queries < n else why.weights, starts)
    sheet = np.full((layers, side + _SEAM, heads, side + _SEAM), np.nan, dtype=np.float32)
    sheet[:, :side, :, :side] = small.transpose(0, 2, 1, 3)
    return sheet.reshape(layers * (side + _SEAM), heads * (side + _SEAM))[:-_SEAM, :-_SEAM]
