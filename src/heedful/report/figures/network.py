"""The drawing of a network: what is computed from what, with its sizes, from the tokens down to the logits.

As Figure 2 of Lopardo et al. 2024 for their network; the other recipes' in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from heedful.core.errors import Unsupported
from heedful.report.figures.sheet import ACCENT, FOR, INK, LINE, MARGIN_INCHES, SOFT, Letters, Picture, Sheet, plainly

_WIDTH, _ROW, _BOX, _HEAD = 6.4, 0.72, 0.46, 0.55
_COLUMNS = 6  # of the grid on which boxes stand
_FILL = {"input": "#eef1f5", "map": "#ffffff", "attention": "#efeaf7", "output": "#e8f0f8"}


@dataclass(frozen=True)
class Box:
    """One quantity: its name, its formula and its size, on some columns of a row; `reads` are numbers of boxes."""

    row: int
    name: str
    formula: str
    size: str
    reads: tuple[int, ...] = ()
    column: int = 0
    span: int = _COLUMNS
    kind: str = "map"


@dataclass(frozen=True)
class Group:
    """Rows that exist several times, such as the heads of a layer, or the layers."""

    first: int
    last: int
    label: str


@dataclass(frozen=True)
class Diagram:
    """The boxes of a network, in rows from top to bottom."""

    title: str
    boxes: tuple[Box, ...]
    groups: tuple[Group, ...] = ()


def draw_network(kind: str, sizes: Mapping[str, Any], name: str = "") -> Picture:
    """The network of this kind (a Shape's `model_type`) with these sizes: the fields of its Shape or its settings."""
    if kind not in DIAGRAMS:
        raise Unsupported(f"{name or kind} has no drawing; there are drawings of {', '.join(DIAGRAMS)} networks.")
    diagram = DIAGRAMS[kind](sizes)
    title = f"{name}: {diagram.title}" if name else diagram.title
    rows = 1 + max(box.row for box in diagram.boxes)
    texts = [title, *(text for box in diagram.boxes for text in (box.name, box.formula, box.size))]
    with plainly():
        sheet = Sheet.of(_WIDTH + 2 * MARGIN_INCHES, _HEAD + rows * _ROW + 0.1, Letters.of(texts))
        sheet.write(MARGIN_INCHES, 0.16, title, sheet.style(10.5, bold=True))
        axes = sheet.axes(MARGIN_INCHES, _HEAD, _WIDTH, rows * _ROW)
        axes.set_xlim(0, _WIDTH)
        axes.set_ylim(rows * _ROW, 0)
        axes.set_xticks([])
        axes.set_yticks([])
        grid = Grid(piled=bool(diagram.groups))
        for group in diagram.groups:
            _paint_group(axes, sheet, group)
        for box in diagram.boxes:
            _paint_box(axes, sheet, box, grid)
            for source in box.reads:
                _paint_arrow(axes, diagram.boxes[source], box, grid)
    return sheet.figure


@dataclass(frozen=True)
class Grid:
    """The places of boxes; `piled` leaves room at the sides for the cards and the label of a group."""

    piled: bool

    @property
    def column(self) -> float:
        """The width of a column."""
        return (_WIDTH - 0.24 - 0.95 * self.piled) / _COLUMNS

    def frame(self, box: Box) -> tuple[float, float, float, float]:
        """Left, top, width and height of a box."""
        left = 0.12 + 0.14 * self.piled + box.column * self.column + 0.05
        return left, box.row * _ROW + 0.1, box.span * self.column - 0.1, _BOX


def _paint_group(axes: Axes, sheet: Sheet, group: Group) -> None:
    """Two cards behind the rows, as of a pile, and the label at their right."""
    top, height = group.first * _ROW + 0.01, (group.last - group.first + 1) * _ROW - 0.06
    for shift in (0.05, 0.0):
        axes.add_patch(
            FancyBboxPatch(
                (0.05 + shift, top + shift), _WIDTH - 0.15, height, "round,pad=0,rounding_size=0.06",
                facecolor="#fbfaf7", edgecolor=LINE, linewidth=0.8, zorder=0.1 - shift,
            )
        )  # fmt: skip
    place = (_WIDTH - 0.35, top + height / 2)
    axes.text(*place, group.label, ha="center", va="center", rotation=90, **sheet.style(8.5, ACCENT))


def _paint_box(axes: Axes, sheet: Sheet, box: Box, grid: Grid) -> None:
    left, top, width, height = grid.frame(box)
    axes.add_patch(
        FancyBboxPatch(
            (left, top), width, height, "round,pad=0,rounding_size=0.05", facecolor=_FILL[box.kind], edgecolor=SOFT,
            linewidth=0.8, zorder=2,
        )
    )  # fmt: skip
    axes.text(left + 0.08, top + 0.15, box.name, va="center", zorder=3, **sheet.style(8.5, INK, bold=True))
    axes.text(left + 0.08, top + 0.33, box.formula, va="center", zorder=3, **sheet.style(8, SOFT))
    axes.text(left + width - 0.08, top + 0.15, box.size, va="center", ha="right", zorder=3, **sheet.style(8, FOR))


def _paint_arrow(axes: Axes, source: Box, box: Box, grid: Grid) -> None:
    """Straight down, in the middle of what both boxes cover; past a row between them, at its right."""
    (x, y, w, h), (left, top, width, _) = grid.frame(source), grid.frame(box)
    low, high = max(x, left), min(x + w, left + width)
    at = (low + high) / 2 if box.row == source.row + 1 else high - grid.column + 0.05
    style: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 8, "linewidth": 0.9, "color": INK, "zorder": 1.5}
    axes.add_patch(FancyArrowPatch((at, y + h), (at, top), shrinkA=0, shrinkB=0, **style))


def _labels(sizes: Mapping[str, Any]) -> tuple[str, str]:
    """The names of the labels and their number; C where it is not known yet."""
    names, count = tuple(sizes.get("labels") or ()), sizes.get("num_labels")
    shown = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
    return shown or "one for each label", str(count) if count else "C"


def _length(sizes: Mapping[str, Any]) -> str:
    limit = sizes.get("max_position_embeddings") or sizes.get("max_length")
    return f"T ≤ {limit}" if limit else "T"


def _multihead(sizes: Mapping[str, Any]) -> Diagram:
    wide, inner, value = sizes["embedding"], sizes["attention"], sizes["value"]
    heads, layers = sizes["heads"], sizes["layers"]
    names, count = _labels(sizes)
    padding = "" if sizes.get("masked", True) else "; padded with [UNK] to the last position"
    boxes = [
        Box(0, "tokens", f"x = [CLS], x₁, x₂ …{padding}", _length(sizes), kind="input"),
        Box(1, "word vectors + positions", "eₜ = W_e[xₜ] + W_p(t)", f"T × {wide}", (0,), kind="input"),
    ]
    groups = []
    for n in [0] if layers == 1 else [0, 1]:  # of several layers, all but the last are drawn once
        last, row, source = n == (layers > 1), len({box.row for box in boxes}), len(boxes) - 1
        out = f"W_ℓ ṽ of [CLS]: {names}" if last else "W_ℓ ṽₜ of every position"
        only = "q = W_q e₀, of [CLS]" if last else "qₜ = W_q eₜ"
        boxes += [
            Box(row, "query", only, str(inner) if last else f"T × {inner}", (source,), 0, 2),
            Box(row, "keys", "kₜ = W_k eₜ", f"T × {inner}", (source,), 2, 2),
            Box(row, "values", "vₜ = W_v eₜ", f"T × {value}", (source,), 4, 2),
            Box(
                row + 1, "attention", f"αₜ = softmaxₜ(q · kₜ / √{inner})", "T" if last else "T × T",
                (source + 1, source + 2), 0, 4, "attention",
            ),
            Box(row + 2, "weighted sum", "ṽ = Σₜ αₜ vₜ", str(value) if last else f"T × {value}",
                (source + 4, source + 3), 0, 6),
            Box(row + 3, "output of the head", out, count if last else f"T × {wide}", (source + 5,)),
        ]  # fmt: skip
        where = "" if layers == 1 else " of the last layer" if last else f" of each of {layers - 1} layers"
        groups.append(Group(row, row + 3, f"{heads} heads{where}"))
        mean = "mean over heads" + (" + eₜ" if sizes.get("residual") and not last else "")
        end = ("logits", f"{mean}: {names}", count) if last else ("new eₜ", mean, f"T × {wide}")
        boxes.append(Box(row + 4, *end, (source + 6,), kind="output" if last else "map"))
    title = f"{heads} heads of attention" + ("" if layers == 1 else f" in {layers} layers") + ", read at [CLS]"
    return Diagram(title, tuple(boxes), tuple(groups))


_ENCODERS = {
    "bilstm": ("BiLSTM", 2),
    "gru": ("BiGRU", 2),
    "rnn": ("BiGRU", 2),
    "cnn": ("convolutions of four widths", 1),
    "single-cnn": ("one convolution", 1),
    "conv": ("convolutions", 2),
    "average": ("one layer for each word by itself", 1),
}
_SCORES = {
    "additive": "softmaxₜ(v · tanh(W hₜ + b))",
    "dot": "softmaxₜ(w · hₜ / √m)",
    "general": "softmaxₜ(hₜ · W h_last)",
    "uniform": "1 / T, held constant",
    "log-odds": "softmaxₜ(|log-odds of xₜ|), held constant",
    "given": "another network's, held constant",
}


def _single(sizes: Mapping[str, Any]) -> Diagram:
    encoder, directions = _ENCODERS.get(sizes["encoder"], (str(sizes["encoder"]), 1))
    states = directions * sizes["hidden"] if sizes["encoder"] in _ENCODERS else sizes["embedding"]
    names, count = _labels(sizes)
    boxes = [
        Box(0, "tokens", "x₁, x₂ …", _length(sizes), kind="input"),
        Box(1, "word vectors", "eₜ = W_e[xₜ]", f"T × {sizes['embedding']}", (0,), kind="input"),
        Box(2, "states", f"hₜ: {encoder}", f"T × {states}", (1,)),
    ]
    if sizes["attention"] == "none":
        boxes.append(Box(3, "logits", f"W h_last + b: {names}", count, (2,), kind="output"))
        return Diagram(f"{encoder}, the last state read", tuple(boxes))
    score = _SCORES.get(str(sizes["attention"]), str(sizes["attention"])).replace("softmax", sizes["activation"])
    boxes += [
        Box(3, "attention", f"αₜ = {score}", "T", (2,), 0, 4, "attention"),
        Box(4, "weighted sum", "Σₜ αₜ hₜ", str(states), (3, 2)),
        Box(5, "logits", f"W Σₜ αₜ hₜ + b: {names}", count, (4,), kind="output"),
    ]
    return Diagram(f"{encoder} and attention", tuple(boxes))


def _transformer(sizes: Mapping[str, Any]) -> Diagram:
    wide, inner, heads = sizes["width"], sizes["inner"], sizes["heads"]
    names, count = _labels(sizes)
    position = " + W_p(t)" if sizes["positions"] else ""
    pool = {"sum": "Σₜ xₜ / 100", "mean": "mean of xₜ", "cls": "x₀"}[sizes["pooling"]]
    each = wide // heads
    boxes = (
        Box(0, "tokens", "x₁, x₂ …", _length(sizes), kind="input"),
        Box(1, "word vectors" + (" + positions" * bool(position)), f"xₜ = √{wide} W_e[·]{position}", f"T × {wide}",
            (0,), kind="input"),
        Box(2, "queries", f"{heads} heads", f"T × {each}", (1,), 0, 2),
        Box(2, "keys", f"{heads} heads", f"T × {each}", (1,), 2, 2),
        Box(2, "values", f"{heads} heads", f"T × {each}", (1,), 4, 2),
        Box(3, "attention", f"A = {sizes['activation']}(q · k / √{each})", f"{heads} × T × T", (2, 3), 0, 4,
            "attention"),
        Box(4, "weighted sums", "x ← LN(x + W_o A v)", f"T × {wide}", (5, 4)),
        Box(5, "two-layer network", f"x ← LN(x + W₂ relu(W₁ x)), {inner} inside", f"T × {wide}", (6,)),
        Box(6, "pool", pool, str(wide), (7,)),
        Box(7, "logits", f"W · + b: {names}", count, (8,), kind="output"),
    )  # fmt: skip
    return Diagram("Transformer encoder", boxes, (Group(2, 5, f"{sizes['layers']} layers"),))


DIAGRAMS: dict[str, Callable[[Mapping[str, Any]], Diagram]] = {
    "multihead": _multihead,
    "single": _single,
    "transformer": _transformer,
}
