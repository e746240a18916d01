"""Figures: explanations in, a matplotlib Figure out. Needs the extra: pip install 'heedful[figures]'.

draw        attributions as bars, interactions as heat maps, counterfactuals as struck-out text, from top to bottom
draw_tree   an attribution tree
draw_network the boxes and arrows of a network, with its sizes
draw_theory LIME and the gradient compared with theory; draw_paper, each figure of the paper by itself
encode      a figure as the bytes of a png, pdf or svg file
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from heedful.core.errors import BadInput
from heedful.core.explanation import Attribution, Counterfactual, Explanation, Interaction, Prediction

try:
    import matplotlib  # noqa: F401
except ImportError as e:
    raise BadInput("figures need matplotlib; install it with: pip install 'heedful[figures]'") from e

from heedful.report.explanation_rows import by_unit, matching_maps, select_layers
from heedful.report.figures.bars import Bars
from heedful.report.figures.counterfactual import RemovalPart
from heedful.report.figures.maps import HeadMaps, Maps
from heedful.report.figures.network import draw_network
from heedful.report.figures.sheet import MARGIN_INCHES, SOFT, FigurePart, Letters, Picture, Sheet, encode, plainly
from heedful.report.figures.theory import Coefficients, Coordinates, Slopes
from heedful.report.figures.tree import TreeBlock
from heedful.report.phrases import prediction_text

if TYPE_CHECKING:
    from heedful.core.tree import Tree
    from heedful.methods.theory_comparison import TheoryComparison
    from heedful.nets.base import Shape


FIGURE_FORMATS = ("png", "pdf", "svg")
PANELS_PER_ROW = 5  # methods side by side; more go below
_HEAD, _SPACE = 0.62, 0.3


def kind(path: str) -> str:
    """The format of a figure, from its file name: kind("a/b.PDF") -> "pdf"."""
    ending = PurePath(path).suffix.lower().removeprefix(".")
    if ending not in FIGURE_FORMATS:
        raise BadInput(f"'{path}' does not end in .png, .pdf or .svg; give a figure one of these endings.")
    return ending


def draw(explanations: Explanation | Sequence[Explanation]) -> Picture:
    """One figure of one text, with a panel for each explanation."""
    whys = [explanations] if isinstance(explanations, Explanation) else list(explanations)
    if not whys:
        raise BadInput("there is no explanation to draw; give at least one.")
    if len({(e.tokens.text, e.tokens.pair) for e in whys}) > 1:
        raise BadInput("a figure shows one text; draw each text separately.")
    blocks = [*_bars(whys), *_maps(whys), *(RemovalPart(e) for e in whys if isinstance(e, Counterfactual))]
    prediction = next((e.prediction for e in whys if e.prediction.logits), Prediction())
    return _assemble(blocks, prediction, str(whys[0].target), whys[0].source.model)


def draw_tree(tree: Tree) -> Picture:
    """The tree: each token at its place in the text and its height, edges as wide as their share of the layer."""
    return _assemble([TreeBlock(tree)], tree.prediction, str(tree.target), tree.source.model)


def draw_theory(comparison: TheoryComparison) -> Picture:
    """Figures 4 and 5 of Lopardo et al. 2024 for one text: LIME's runs and theory's crosses; gradient and theory."""
    blocks: list[FigurePart] = [Coefficients(comparison), Slopes(comparison)]
    return _assemble(blocks, comparison.prediction, str(comparison.target), comparison.source.model)


def draw_paper(comparison: TheoryComparison, whys: Sequence[Explanation], shape: Shape) -> dict[str, Picture]:
    """The figures of Lopardo et al. 2024 for one text, by name.

    `whys` are the explainers of its Figure 1 and the attention weights; `shape` is the network's configuration.
    """
    about = (comparison.prediction, str(comparison.target), comparison.source.model)
    gradient: list[FigurePart] = [Coordinates(comparison), Slopes(comparison)]
    return {
        "explainers": draw([why for why in whys if isinstance(why, Attribution)]),
        "network": draw_network(shape.model_type, vars(shape), comparison.source.model),
        "attention": draw([why for why in whys if isinstance(why, Interaction)]),
        "lime": _assemble([Coefficients(comparison)], *about),
        "gradient": _assemble(gradient, *about),
    }


def _assemble(blocks: Sequence[FigurePart], prediction: Prediction, target: str, model: str) -> Picture:
    """The blocks from top to bottom, below the prediction and the target."""
    head = f"{model or 'the model'} predicts {prediction_text(prediction)}" if prediction.logits else ""
    texts = [head, target, *(text for block in blocks for text in block.texts())]
    with plainly():
        letters = Letters.of(texts)
        width = 2 * MARGIN_INCHES + max(block.width for block in blocks)
        # subtle: heights depend on how texts break into lines, which a sheet of the right width must measure
        heights = [block.height(Sheet.of(width, 4, letters)) for block in blocks]
        sheet = Sheet.of(width, _HEAD + sum(heights) + _SPACE * len(blocks) + MARGIN_INCHES / 2, letters)
        sheet.write(MARGIN_INCHES, 0.14, head, sheet.style(11))
        sheet.write(MARGIN_INCHES, 0.36, f"explained: {target}", sheet.style(8.5, SOFT))
        top = _HEAD + _SPACE / 2
        for block, height in zip(blocks, heights, strict=True):
            block.paint(sheet, top)
            top += height + _SPACE
    return sheet.figure


def _bars(explanations: Sequence[Explanation]) -> list[FigurePart]:
    """Methods with the same words are side by side, a few in a row."""
    by_words: list[list[Attribution]] = []
    for words in (by_unit(e) for e in explanations if isinstance(e, Attribution)):
        group = next((g for g in by_words if g[0].tokens == words.tokens), None)
        if group is None:
            by_words.append([words])
        else:
            group.append(words)
    return [Bars.of(g, g[i : i + PANELS_PER_ROW]) for g in by_words for i in range(0, len(g), PANELS_PER_ROW)]


def _maps(explanations: Sequence[Explanation]) -> list[FigurePart]:
    """Attention is at the left of its attributions, if the figure has both."""
    maps = [e for e in explanations if isinstance(e, Interaction)]
    mates = matching_maps(maps)
    plain = {mates[i] for i in mates} & {i for i, e in enumerate(maps) if e.method == "attention-weights"}
    return [
        Maps((select_layers(maps[mates[i]], e), e)) if i in mates else _alone(e)
        for i, e in enumerate(maps)
        if i not in plain
    ]


def _alone(e: Interaction) -> FigurePart:
    layers, heads, queries, keys = e.weights.shape
    return HeadMaps(e) if layers == 1 and heads > 1 and queries == keys else Maps((e,))


__all__ = ["Picture", "draw", "draw_network", "draw_paper", "draw_theory", "draw_tree", "encode", "kind"]
