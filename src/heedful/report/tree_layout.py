"""Tree layout: the places of the nodes and edges of an attribution tree on the page, and their labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heedful.report.phrases import score_text

if TYPE_CHECKING:
    from heedful.core.tree import Edge, Tree

MAX_TOKENS = 60  # a longer text shows only the tokens of its tree


def token_columns(tree: Tree) -> dict[int, int]:
    """Token -> column, in reading order: every token of a short text, those of the tree in a long one."""
    tokens = range(len(tree.tokens)) if len(tree.tokens) <= MAX_TOKENS else tree.nodes
    return {token: column for column, token in enumerate(tokens)}


def tree_facts(tree: Tree) -> list[str]:
    """How the tree was built: its search, threshold and objective, and notes."""
    proof = ": no tree has a higher objective" if tree.proven else ""
    penalty = f", penalty {score_text(tree.penalty, signed=False)} per edge" if tree.penalty else ""
    return [
        f"{len(tree.edges)} edge{'s' * (len(tree.edges) != 1)}, built by {tree.how} search{proof}",
        f"edges above {score_text(tree.threshold, signed=False)} of the largest edge of their layer{penalty}; "
        f"objective {score_text(tree.objective)}",
        *tree.notes,
    ]


def walk(tree: Tree) -> Iterator[tuple[int, int, Edge | None]]:
    """(depth, token, the edge that attaches it), parents before their children, children in reading order."""
    edges = {edge.key: edge for edge in tree.edges}
    for depth, node in tree.walk():
        yield depth, node, edges.get(node)


def edge_text(edge: Edge) -> str:
    """An edge in words: "layer 7, share 0.83"."""
    return f"layer {edge.layer}, share {edge.share:.2f}"


HEIGHT, TOP = 260.0, 34.0  # pixels: the height of the tree, and the room above its root
_PAGE_WIDTH = 820.0  # pixels that few tokens fill


@dataclass(frozen=True)
class TreeNode:
    """A token on the page: its place, and whether it is in the tree."""

    text: str
    x: float
    y: float
    inside: bool
    root: bool


@dataclass(frozen=True)
class DrawnEdge:
    """An edge on the page, as a curve, and in words."""

    curve: str
    width: float
    words: str


@dataclass(frozen=True)
class ListedToken:
    """A token in the list: how many levels to open before it and to close after it."""

    text: str
    words: str
    opens: bool
    closes: int


@dataclass(frozen=True)
class TreeLayout:
    """A tree for the page: the drawing, and the same as a list."""

    why: Tree
    width: float
    height: float
    nodes: list[TreeNode]
    lines: list[DrawnEdge]
    items: list[ListedToken]
    facts: list[str]


def lay_out(tree: Tree) -> TreeLayout:
    """The tree laid out for the page."""
    columns = token_columns(tree)
    column = max(26.0, min(64.0, _PAGE_WIDTH / len(columns)))
    low, high = min(tree.heights.values(), default=0.0), max(tree.heights.values(), default=1.0)

    def spot(token: int) -> tuple[float, float]:
        share = (high - tree.heights[token]) / ((high - low) or 1.0)
        return column * (columns[token] + 0.5), TOP + (HEIGHT - TOP - 12) * share

    names = [tree.tokens.surface(i) for i in columns]
    deep = min(20, max(map(len, names))) * 7.5 + 14
    return TreeLayout(
        why=tree,
        width=column * len(columns),
        height=HEIGHT + deep,
        nodes=[
            TreeNode(tree.tokens.surface(i), *(spot(i) if i in tree.heights else (column * (c + 0.5), HEIGHT)),
                 inside=i in tree.heights, root=i == tree.root)
            for i, c in columns.items()
        ],
        lines=[_line(tree, edge, spot(edge.query), spot(edge.key)) for edge in tree.edges],
        items=_items(tree),
        facts=tree_facts(tree),
    )  # fmt: skip


def _line(tree: Tree, edge: Edge, start: tuple[float, float], end: tuple[float, float]) -> DrawnEdge:
    (x0, y0), (x1, y1), middle = start, end, (start[1] + end[1]) / 2
    curve = f"M{x0:.1f} {y0:.1f}C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
    names = f"{tree.tokens.surface(edge.key)} → {tree.tokens.surface(edge.query)}"
    words = f"{names}\n{edge_text(edge)}, weight {score_text(edge.weight)}"
    return DrawnEdge(curve, 1 + 5 * max(0.0, min(1.0, edge.share)), words)


def _items(tree: Tree) -> list[ListedToken]:
    steps = list(walk(tree))
    depths = [depth for depth, _, _ in steps] + [0]
    return [
        ListedToken(
            text=tree.tokens.surface(node),
            words="the root" if edge is None else edge_text(edge),
            opens=n == 0 or depth > depths[n - 1],
            closes=max(0, depth - depths[n + 1]),
        )
        for n, (depth, node, edge) in enumerate(steps)
    ]
