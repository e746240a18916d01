"""Maps: heat maps of the weights of layers and heads, and of alignments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, FuncNorm, LinearSegmentedColormap, Normalize, PowerNorm
from matplotlib.image import AxesImage
from matplotlib.ticker import FuncFormatter, PercentFormatter
from numpy.typing import NDArray

from heedful.core.errors import BadInput, Unsupported
from heedful.core.explanation import Interaction
from heedful.report.explanation_rows import pool_bins
from heedful.report.figures.sheet import (
    AGAINST,
    FOR,
    INK,
    LINE,
    LINE_HEIGHT,
    MARGIN_INCHES,
    SOFT,
    WEIGHT,
    Letters,
    Picture,
    Sheet,
    plainly,
)
from heedful.report.phrases import details, format_number, score_text

if TYPE_CHECKING:
    from heedful.nets.training.lengths import Bin
    from heedful.nets.training.translate import Alignment


MAX_BINS = 48  # bins on a side of one heat map among many
MAX_NAMED = 64  # tokens that a single map can name
_SEAM = 2  # pixels between two maps
_WEIGHT_COLOURS = LinearSegmentedColormap.from_list("weight", ["#f7f5fb", "#8f7bc4", "#2a0f5e"])


def _maps_colours(values: NDArray[np.float32]) -> tuple[Colormap, Normalize]:
    """The colours of the page, on its square-root scale, which keeps small weights visible."""
    top = float(np.abs(values).max(initial=0.0)) or 1.0
    if not (values < 0).any():
        return _WEIGHT_COLOURS, PowerNorm(0.5, 0, top)
    signed = LinearSegmentedColormap.from_list("signed", [AGAINST, "#f7f5fb", FOR])
    root = FuncNorm((lambda x: np.sign(x) * np.sqrt(np.abs(x)), lambda x: np.sign(x) * x**2), -top, top)
    return signed, root


@dataclass(frozen=True)
class Maps:
    """Heat maps of an interaction, a row per layer and a column per head; or of two, side by side."""

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
        repeated = ["one query attends to the whole text: its row is repeated"] if queries < n else []
        what = "rows: query, columns: key" if self._single else "one map per layer and head; in each, rows are queries"
        bins = min(n, MAX_BINS)
        binned = [f"{n} tokens in {bins} bins, the largest weight of each"] if bins < n and not self._single else []
        gaps = [
            f"{why.method}: completeness gap at most {score_text(max(map(abs, why.gaps)), signed=False)}"
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
            left = MARGIN_INCHES + n * (self._names + width + 1.0)
            sheet.write(left, top, self._heading(why), sheet.style(9, bold=True))
            axes = sheet.axes(left + self._names, top + above, width, height)
            values = why.weights[0, 0] if self._single else tiled(why)
            if self._single and len(values) < values.shape[1]:
                values = np.repeat(values, values.shape[1], axis=0)
            colours, norm = _maps_colours(why.weights)
            image = axes.imshow(values, cmap=colours, norm=norm, aspect="auto", interpolation="nearest")
            (self._tokens if self._single else self._heads)(axes, sheet, why)
            _colour_bar(sheet, image, norm, (left + self._names + width + 0.12, top + above, min(height, 2.5)))
        sheet.write_notes(MARGIN_INCHES, top + above + height + 0.12, self._notes())

    def _heads(self, axes: Axes, sheet: Sheet, why: Interaction) -> None:
        layers, heads = why.weights.shape[:2]
        step = min(why.weights.shape[-1], MAX_BINS) + _SEAM
        axes.set_xticks((np.arange(heads) + 0.5) * step - 1, [str(h) for h in range(heads)])
        axes.set_yticks((np.arange(layers) + 0.5) * step - 1, [str(layer) for layer in why.layers])
        axes.xaxis.tick_top()
        axes.set_ylabel("layer", fontsize=8, color=SOFT)
        axes.set_title("head", fontsize=8, color=SOFT, pad=2, loc="left")

    def _tokens(self, axes: Axes, sheet: Sheet, why: Interaction) -> None:
        n = len(why.tokens)
        every = -(-n // MAX_NAMED)
        at = list(range(0, n, every))
        names = [sheet.letters.safe(why.tokens.surface(i), 14) for i in at]
        size = float(np.clip(self._side[0] / len(at) * 60, 4.5, 8))
        axes.set_yticks(at)
        axes.set_yticklabels(names, **sheet.style(size))
        axes.xaxis.tick_top()
        axes.set_xticks(at)
        axes.set_xticklabels(names, rotation=90, **sheet.style(size))


MAX_HEAD_BINS = 128  # bins on a side of a map that is one of the heads of a single layer
MAX_HEAD_NAMES = 32  # tokens named along such a map


@dataclass(frozen=True)
class HeadMaps:
    """The heads of one layer, large enough to name tokens: three or four maps in a row, on one colour scale."""

    why: Interaction

    @property
    def _columns(self) -> int:
        heads = int(self.why.weights.shape[1])
        return min(heads, 3 if heads <= 6 else 4)

    @property
    def _side(self) -> float:
        return 2.05 if self._columns < 4 else 1.6

    @property
    def _places(self) -> list[int]:
        """The tokens that are named."""
        return list(range(0, len(self.why.tokens), -(-len(self.why.tokens) // MAX_HEAD_NAMES)))

    @property
    def _names(self) -> float:
        return 0.12 + 0.055 * min(12, max(len(self.why.tokens.surface(i)) for i in self._places))

    @property
    def width(self) -> float:
        """The maps of a row, the names at its left and the colour bar at its right."""
        return self._names + self._columns * (self._side + 0.14) + 0.6

    def _heading(self) -> str:
        return f"{self.why.method or 'weights'}, layer {self.why.layers[0]}"

    def _notes(self) -> list[str]:
        n = len(self.why.tokens)
        binned = [f"{n} tokens in {MAX_HEAD_BINS} bins, the largest weight of each"] if n > MAX_HEAD_BINS else []
        facts = [line] if (line := details(self.why.details)) else []
        return ["rows: query, columns: key; square-root colour scale", *self.why.notes, *binned, *facts]

    def texts(self) -> list[str]:
        """Names and notes."""
        return [*(self.why.tokens.surface(i) for i in self._places), self._heading(), *self._notes()]

    def height(self, sheet: Sheet) -> float:
        """The heading and the names above, the rows of maps with their numbers, the notes below."""
        rows = -(-int(self.why.weights.shape[1]) // self._columns)
        return 0.25 + self._names + rows * (self._side + 0.24) + LINE_HEIGHT * len(self._notes())

    def paint(self, sheet: Sheet, top: float) -> None:
        """The maps, from left to right and from top to bottom."""
        sheet.write(MARGIN_INCHES, top, self._heading(), sheet.style(9, bold=True))
        n, heads = len(self.why.tokens), self.why.weights.shape[1]
        side = min(n, MAX_HEAD_BINS)
        small = pool_bins(self.why.weights, np.arange(side) * n // side)[0]
        colours, norm = _maps_colours(self.why.weights)
        above = top + 0.25 + self._names
        for head in range(heads):
            row, column = divmod(head, self._columns)
            left = MARGIN_INCHES + self._names + column * (self._side + 0.14)
            down = above + row * (self._side + 0.24)
            axes = sheet.axes(left, down, self._side, self._side)
            image = axes.imshow(small[head], cmap=colours, norm=norm, aspect="auto", interpolation="nearest")
            self._tokens(axes, sheet, side, first_row=row == 0, first_column=column == 0)
            sheet.write(left + self._side / 2, down + self._side + 0.04, f"head {head}", sheet.style(8, SOFT), "center")
        left = MARGIN_INCHES + self._names + self._columns * (self._side + 0.14)
        _colour_bar(sheet, image, norm, (left, above, self._side))
        down = above + -(-heads // self._columns) * (self._side + 0.24)
        sheet.write_notes(MARGIN_INCHES, down, self._notes())

    def _tokens(self, axes: Axes, sheet: Sheet, side: int, first_row: bool, first_column: bool) -> None:
        tokens = self.why.tokens
        at = [(i + 0.5) * side / len(tokens) - 0.5 for i in self._places]
        names = [sheet.letters.safe(tokens.surface(i), 12) for i in self._places]
        size = float(np.clip(self._side / len(at) * 60, 4, 7.5))
        axes.set_yticks(at if first_column else [])
        axes.set_xticks(at if first_row else [])
        axes.xaxis.tick_top()
        axes.set_yticklabels(names if first_column else [], **sheet.style(size))
        axes.set_xticklabels(names if first_row else [], rotation=90, **sheet.style(size))


def _colour_bar(sheet: Sheet, image: AxesImage, norm: Normalize, place: tuple[float, float, float]) -> None:
    """The scale of an image, at (left, top) and so high, with ticks at even places of the square-root scale."""
    left, top, height = place
    scale = sheet.figure.colorbar(image, cax=sheet.axes(left, top, 0.1, height))
    scale.outline.set_visible(False)
    low, high = norm.vmin or 0.0, norm.vmax or 0.0
    ends = [low, 0.0, high] if low < 0 else [0.0, high]
    scale.set_ticks(sorted({*ends, *(e / 4 for e in ends if e)}))
    scale.ax.yaxis.set_major_formatter(FuncFormatter(lambda x, _: format_number(x, ".2g")))
    scale.ax.tick_params(length=0, labelsize=7.5, colors=SOFT)


def tiled(why: Interaction) -> NDArray[np.float32]:
    """All heads in one image, separated by NaN, which is not drawn."""
    layers, heads, queries, n = why.weights.shape
    side = min(n, MAX_BINS)
    starts = np.arange(side) * n // side
    small = pool_bins(np.repeat(why.weights, n, axis=2) if queries < n else why.weights, starts)
    sheet = np.full((layers, side + _SEAM, heads, side + _SEAM), np.nan, dtype=np.float32)
    sheet[:, :side, :, :side] = small.transpose(0, 2, 1, 3)
    return sheet.reshape(layers * (side + _SEAM), heads * (side + _SEAM))[:-_SEAM, :-_SEAM]


SPACE = "␣"
MAX_SYMBOLS = 400  # symbols that a figure can name
MAX_NAME = 14  # characters of a name
_HEAD, _NAMES, _FOOT, _BAR = 0.62, 0.55, 0.1, 0.75
_COLOURS = (WEIGHT, FOR, AGAINST, INK, "#8a6d00", "#7a3b69")
_MARKS = ("o", "s", "D", "^", "v", "P")
_NAME_HEIGHT = 0.065  # of a line's name, in shares of the axis


def draw_alignment(alignment: Alignment) -> Picture:
    """A heat map: a row for each output symbol, a column for each symbol of the text."""
    if not alignment.weights.any():
        name = alignment.model or "the translator"
        raise Unsupported(f"{name} has no attention, so there is no alignment to draw; give a network with attention.")
    if max(alignment.weights.shape) > MAX_SYMBOLS:
        unit = "characters" if _by_characters(alignment) else "words"
        raise BadInput(f"the text has {len(alignment.read):,} {unit} and a figure names {MAX_SYMBOLS}; shorten it.")
    rows, columns = alignment.weights.shape
    characters = _by_characters(alignment)
    cell = float(np.clip(9.5 / columns, 0.1, 0.17))
    tall = max(cell, 0.14)
    left, above = (_NAMES, _NAMES / 2) if characters else map(_names_room, (alignment.symbols, alignment.read))
    with plainly():
        letters = Letters.of([alignment.text, alignment.written, alignment.model, SPACE])
        width = 2 * MARGIN_INCHES + left + max(3.6, cell * columns) + _BAR
        sheet = Sheet.of(width, _HEAD + above + tall * rows + _FOOT + MARGIN_INCHES / 2, letters)
        title = f"{alignment.model or 'the translator'} writes {alignment.written}"
        sheet.write(MARGIN_INCHES, 0.14, title, sheet.style(11))
        unit = "characters" if characters else "words"
        caption = f"attention of each output symbol (rows) over the input {unit} (columns); each row sums to 1"
        for n, line in enumerate(sheet.fitted(caption, width - 2 * MARGIN_INCHES, sheet.style(8.5))):
            sheet.write(MARGIN_INCHES, 0.37 + 0.15 * n, line, sheet.style(8.5, SOFT))
        axes = sheet.axes(MARGIN_INCHES + left, _HEAD + above, cell * columns, tall * rows)
        _heat(sheet, axes, alignment, min(7.5, cell * 62))
    return sheet.figure


def _by_characters(alignment: Alignment) -> bool:
    """Whether the symbols are characters; those of a text of one-letter words look the same."""
    return "".join(alignment.read) == alignment.text


def _names_room(names: Sequence[str]) -> float:
    """Inches for the longest name."""
    return 0.12 + 0.062 * min(MAX_NAME, max(map(len, names)))


def _heat(sheet: Sheet, axes: Axes, alignment: Alignment, size: float) -> None:
    rows, columns = alignment.weights.shape
    image = axes.imshow(alignment.weights, _WEIGHT_COLOURS, aspect="auto", interpolation="nearest", vmin=0, vmax=1)
    axes.xaxis.tick_top()
    turned = 0 if _by_characters(alignment) else 90
    axes.set_xticks(range(columns), [_shown(sheet, s) for s in alignment.read], rotation=turned, **sheet.style(size))
    axes.set_yticks(range(rows), [_shown(sheet, s) for s in alignment.symbols], **sheet.style(min(size + 0.5, 7.5)))
    # a faint line at each space of the text and of the output
    for at in (i for i, s in enumerate(alignment.read) if s.isspace()):
        axes.axvline(at, color=LINE, linewidth=0.4)
    for at in (i for i, s in enumerate(alignment.symbols) if s.isspace()):
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
    return SPACE if symbol.isspace() else sheet.letters.safe(symbol, MAX_NAME)


def draw_lengths(alignment: Mapping[str, Sequence[Bin]], unit: str = "characters") -> Picture:
    """Exact match against the length of the text, a line for each network, with 95 % intervals (Wilson)."""
    if not alignment or not all(alignment.values()):
        raise BadInput("there is nothing to draw against length; give each network at least one bin.")
    if len(alignment) > len(_COLOURS):
        raise BadInput(f"got {len(alignment)} networks, and a figure has room for {len(_COLOURS)}; draw fewer.")
    with plainly():
        sheet = Sheet.of(7.4, 4.15, Letters.of(alignment))
        sheet.write(MARGIN_INCHES, 0.14, "Exact match by length of the text", sheet.style(11))
        sheet.write(MARGIN_INCHES, 0.37, "bands: 95 % intervals (Wilson)", sheet.style(8.5, SOFT))
        axes = sheet.axes(MARGIN_INCHES + 0.45, 0.75, 5.05, 2.85)
        for bins, colour, mark in zip(alignment.values(), _COLOURS, _MARKS, strict=False):
            at, shares = [b.middle for b in bins], [b.share for b in bins]
            axes.fill_between(at, *np.transpose([b.interval for b in bins]), color=colour, alpha=0.15, linewidth=0)
            axes.plot(at, shares, color=colour, marker=mark, markersize=4.5, linewidth=1.6, clip_on=False)
        _names(sheet, axes, alignment)
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.grid(color=LINE, linewidth=0.5)
        axes.set_axisbelow(True)
        axes.set_xlabel(f"{unit} of the text", **sheet.style(8.5, SOFT))
        axes.set_ylabel("exact match", **sheet.style(8.5, SOFT))
    return sheet.figure


def _names(sheet: Sheet, axes: Axes, alignment: Mapping[str, Sequence[Bin]]) -> None:
    """Each name at the end of its line, moved down where two would overlap, or up from below the axis."""
    order = sorted(alignment, key=lambda name: -alignment[name][-1].share)
    places: list[float] = []
    for name in order:
        places.append(min([alignment[name][-1].share, *(place - _NAME_HEIGHT for place in places[-1:])]))
    lowest = [_NAME_HEIGHT * (len(order) - 1 - i) for i in range(len(order))]
    for name, place, least in zip(order, places, lowest, strict=True):
        colour = _COLOURS[list(alignment).index(name)]
        spot: dict[str, Any] = {"textcoords": "offset points", "va": "center", "annotation_clip": False}
        at = (alignment[name][-1].middle, max(place, least))
        axes.annotate(name, at, (10, 0), **spot, **sheet.style(9, colour))
