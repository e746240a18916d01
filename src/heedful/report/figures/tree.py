"""TreeBlock: an attribution tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from heedful.report.figures.sheet import ACCENT, FOR, INK, LINE, LINE_HEIGHT, MARGIN_INCHES, Sheet
from heedful.report.tree_layout import token_columns, tree_facts

if TYPE_CHECKING:
    from heedful.core.tree import Tree

MAX_LETTERS = 18
_HEIGHT = 3.4


@dataclass(frozen=True)
class TreeBlock:
    """Each token at its place in the text, the root at the top. The width of an edge is its share."""

    tree: Tree

    @property
    def _places(self) -> dict[int, int]:
        return token_columns(self.tree)

    @property
    def width(self) -> float:
        """A column for each token."""
        return float(np.clip(0.27 * len(self._places), 5.5, 20))

    @property
    def _names(self) -> float:
        return 0.25 + 0.085 * min(MAX_LETTERS, max(len(self.tree.tokens.surface(i)) for i in self._places))

    def texts(self) -> list[str]:
        """Names and notes."""
        return [*(self.tree.tokens.surface(i) for i in self._places), *tree_facts(self.tree)]

    def height(self, sheet: Sheet) -> float:
        """The tree, the names of the tokens, and the notes."""
        return _HEIGHT + self._names + LINE_HEIGHT * len(tree_facts(self.tree)) + 0.1

    def paint(self, sheet: Sheet, top: float) -> None:
        """The tree above the text."""
        axes = sheet.axes(MARGIN_INCHES, top, self.width, _HEIGHT)
        at = self._places
        axes.set_xlim(-0.8, len(at) - 0.2)
        axes.set_ylim(
            min(self.tree.heights.values(), default=0) - 0.08, max(self.tree.heights.values(), default=1) + 0.09
        )
        axes.set_yticks([])
        axes.set_xticks(list(at.values()))
        axes.set_xticklabels(
            [sheet.letters.safe(self.tree.tokens.surface(i), MAX_LETTERS) for i in at], rotation=90, **sheet.style(8.5)
        )
        for label, token in zip(axes.get_xticklabels(), at, strict=True):
            label.set_color(INK if token in self.tree.nodes else "#9a9ea5")
        self._edges(axes)
        self._nodes(axes, sheet)
        sheet.write_notes(MARGIN_INCHES, top + _HEIGHT + self._names, tree_facts(self.tree))

    def _edges(self, axes: Axes) -> None:
        for edge in sorted(self.tree.edges, key=lambda e: e.share):
            (x0, y0), (x1, y1) = self._spot(edge.query), self._spot(edge.key)
            bent = Path(
                [(x0, y0), (x0, (y0 + y1) / 2), (x1, (y0 + y1) / 2), (x1, y1)],
                [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
            )
            wide = 0.6 + 3.4 * float(np.clip(edge.share, 0, 1))
            axes.add_patch(PathPatch(bent, facecolor="none", edgecolor=FOR, linewidth=wide, alpha=0.75))

    def _nodes(self, axes: Axes, sheet: Sheet) -> None:
        low = axes.get_ylim()[0]
        for node in self.tree.nodes:
            x, y = self._spot(node)
            axes.plot([x, x], [low, y], color=LINE, linewidth=0.7, linestyle=(0, (1, 2)), zorder=0)
            root = node == self.tree.root
            axes.plot([x], [y], marker="D" if root else "o", markersize=8 if root else 5, color=ACCENT if root else INK)
            if root:
                name = f"root: {sheet.letters.safe(self.tree.tokens.surface(node), MAX_LETTERS)}"
                # aligned towards the middle, so that a name at the edge stays inside the figure
                place, style = x / len(self._places), sheet.style(8.5, ACCENT)
                anchor = "left" if place < 1 / 4 else "right" if place > 3 / 4 else "center"
                axes.annotate(name, (x, y), (0, 8), textcoords="offset points", ha=anchor, **style)

    def _spot(self, node: int) -> tuple[float, float]:
        return float(self._places[node]), float(self.tree.heights[node])
