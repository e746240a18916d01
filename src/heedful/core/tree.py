"""Attribution trees (Hao et al. 2021): the flow of information between tokens, layer by layer. Needs no torch.

With a^l_ij the interaction's weights summed over heads, a tree may use the edges i → j of layer l whose share
a^l_ij / max a^l is above a threshold τ, and is worth Σ (a^l_ij − λ) over its edges.

greedy   the authors' heuristic, top layer down: fast, without λ; a child and its parent may be attached in one layer
exact    the tree with the largest worth, by integer programming: a parent is attached in a higher layer than its child
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from heedful.core.arrays import Bools, Floats
from heedful.core.errors import BadInput
from heedful.core.explanation import JSON_FORMAT, Explanation, Interaction, Prediction, Source
from heedful.core.target import Target
from heedful.core.tokens import Tokens

TreeSearch = Literal["greedy", "exact"]
_NODES_SHOWN = 20  # by repr


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Tree:
    """A root token and edges, each token attached at most once. Heights (0 … 1) are for drawing.

    `objective` is Σ (weight − penalty) over the edges. `layers` are the layers that could give edges. `proven` says
    that no tree has a higher objective. Positions are those of `tokens`.
    """

    tokens: Tokens
    root: int
    edges: tuple[Edge, ...]
    heights: Mapping[int, float]
    how: TreeSearch
    threshold: float
    penalty: float
    objective: float
    layers: tuple[int, ...]
    proven: bool = False
    notes: tuple[str, ...] = ()
    prediction: Prediction = field(default_factory=Prediction)
    target: Target = field(default_factory=Target)
    source: Source = field(default_factory=Source)

    @property
    def nodes(self) -> tuple[int, ...]:
        """The tokens of the tree, in reading order."""
        return tuple(sorted({self.root, *(edge.key for edge in self.edges)}))

    @property
    def parent(self) -> dict[int, int]:
        """Child -> parent; the root has none."""
        return {edge.key: edge.query for edge in self.edges}

    @property
    def children(self) -> dict[int, tuple[int, ...]]:
        """Each node -> its children, in reading order."""
        return {node: tuple(sorted(e.key for e in self.edges if e.query == node)) for node in self.nodes}

    def __repr__(self) -> str:
        """The tree as an indented list, with the layer and the share of each edge."""
        edges = {edge.key: edge for edge in self.edges}
        lines = [f"Tree of {len(self.edges)} edges ({self.how}, threshold {self.threshold:g})"]
        for depth, node in list(self.walk())[:_NODES_SHOWN]:
            link = f"  layer {edges[node].layer}, share {edges[node].share:.2f}" if node in edges else "  the root"
            lines.append(f"{'  ' * (depth + 1)}{self.tokens.surface(node)}{link}")
        more = len(self.nodes) - _NODES_SHOWN
        return "\n".join([*lines, f"  … and {more} more"] if more > 0 else lines)

    def walk(self) -> Iterator[tuple[int, int]]:
        """(depth, token), parents before their children, children in reading order."""
        children = self.children
        waiting = [(0, self.root)]
        while waiting:
            depth, node = waiting.pop()
            yield depth, node
            waiting += [(depth + 1, child) for child in reversed(children.get(node, ()))]

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, for JSON."""
        plain = ("root", "how", "threshold", "penalty", "objective", "layers", "proven", "notes")
        return {
            "heedful": JSON_FORMAT,
            "kind": "tree",
            **{name: getattr(self, name) for name in plain},
            "edges": [asdict(edge) for edge in self.edges],
            "heights": {str(node): height for node, height in self.heights.items()},
            "tokens": self.tokens.to_dict(),
            "prediction": asdict(self.prediction),
            "target": asdict(self.target),
            "source": asdict(self.source),
        }

    def to_json(self) -> str:
        """One line of JSON; `Tree.from_dict` reads its content back."""
        return json.dumps(self.to_dict(), allow_nan=False, default=str)

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Tree:
        """The inverse of `to_dict`, also after JSON."""
        kind, version = d.get("kind"), d.get("heedful")
        if kind != "tree" or version != JSON_FORMAT:
            raise BadInput(f"the kind is {kind} and the format {version}; a tree of format {JSON_FORMAT} was expected.")
        return cls(
            **{name: d[name] for name in ("root", "how", "threshold", "penalty", "objective", "proven")},
            layers=tuple(d["layers"]),
            notes=tuple(d["notes"]),
            edges=tuple(Edge(**edge) for edge in d["edges"]),
            heights={int(node): height for node, height in d["heights"].items()},
            tokens=Tokens.from_dict(d["tokens"]),
            prediction=Prediction.from_dict(d["prediction"]),
            target=Target(**d["target"]),
            source=Source(**d["source"]),
        )

    def to_html(self) -> str:
        """A self-contained page."""
        from heedful.report.explanation_page import tree_page

        return tree_page(self)

    def _repr_html_(self) -> str:
        from heedful.report.explanation_page import tree_notebook

        return tree_notebook(self)

    def plot(self) -> Any:
        """A matplotlib figure."""
        from heedful.report.figures import draw_tree

        return draw_tree(self)


def grow(
    explanation: Explanation,
    how: TreeSearch = "greedy",
    *,
    threshold: float = 0.4,
    penalty: float = 0.0,
    root: int | None = None,
    leave_out: LeaveOut = "cls",
    seconds: float = 30.0,
) -> Tree:
    """The attribution tree of an interaction.

    `penalty` is λ, in the units of the weights; only "exact" uses it. `root` is a position, or None: "greedy" then
    takes the row with the largest sum, "exact" the root of the best tree. `leave_out`: with "cls" the classification
    token is no parent and does not count for the largest weight (as the authors do), with "special" no special token is
    in the tree. "exact" stops after `seconds` and returns the best tree so far, with `proven` False.
    """
    check_options(how, threshold, penalty, leave_out)
    if not isinstance(explanation, Interaction):
        kind = type(explanation).__name__
        raise BadInput(f"{kind} has no tree; give an Interaction (explain with attattr), or a model and a text.")
    if explanation.weights.shape[2] != len(explanation.tokens):
        raise BadInput(
            "this interaction has one query, and a tree needs one per token; use a model with self-attention."
        )
    if explanation.attention != "self":
        raise BadInput(f"{explanation.attention} attention has the decoder's tokens as queries; use kind='encoder'.")
    ground = Field.of(explanation, threshold, leave_out)
    if not ground.rows.any():
        raise BadInput("every token of this text is special; use leave_out='nothing'.")
    if root is not None and not (0 <= root < len(ground.rows) and ground.rows[root]):
        raise BadInput(f"root {root} is not the position of a token that may be a parent.")
    if how == "greedy":
        grown = greedy_tree(ground, ground.strongest() if root is None else root)
    else:
        grown = exact_tree(ground, root, penalty, seconds)
    lack = f"has a share above {threshold:g}" if not ground.places() else "hangs from the root or is worth its penalty"
    no_edges = () if grown.edges else (f"no edge {lack}, so the tree is its root alone",)
    return Tree(
        tokens=explanation.tokens,
        root=grown.root,
        edges=grown.edges,
        heights=grown.heights,
        how=how,
        threshold=threshold,
        penalty=penalty,
        objective=float(sum(edge.weight - penalty for edge in grown.edges)),
        layers=ground.layers,
        proven=grown.proven,
        notes=(*grown.notes, *no_edges),
        prediction=explanation.prediction,
        target=explanation.target,
        source=explanation.source,
    )


def check_options(how: str, threshold: float, penalty: float, leave_out: str) -> None:
    """Refuse options that `grow` does not have, before anything slow."""
    if how not in ("greedy", "exact"):
        raise BadInput(f"how '{how}' is not one of greedy, exact.")
    if not 0 <= threshold < 1:
        raise BadInput(f"threshold {threshold} is not between 0 and 1; it is a share of the largest weight of a layer.")
    if not 0 <= penalty < float("inf"):
        raise BadInput(f"penalty {penalty} is not zero or above.")
    if penalty and how == "greedy":
        raise BadInput("greedy search has no penalty; use how='exact', or leave it out.")
    if leave_out not in ("cls", "special", "nothing"):
        raise BadInput(f"leave_out '{leave_out}' is not one of cls, special, nothing.")


LeaveOut = Literal["cls", "special", "nothing"]
EdgePlace = tuple[int, int, int]  # the layer's place among those given, query, key


@dataclass(frozen=True)
class Edge:
    """Information that flows from a key (the child) to a query (the parent) at a layer.

    `weight` is a = Σ_h of the interaction's weights there; `share` is a divided by the largest a of that layer.
    """

    layer: int
    query: int
    key: int
    weight: float
    share: float


@dataclass(frozen=True)
class TreeShape:
    """A tree without its text."""

    root: int
    edges: tuple[Edge, ...]
    heights: Mapping[int, float]
    proven: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Field:
    """The edges that a tree may use: per layer from the lowest up, a[q,k] and its shares, zero where no edge may be."""

    layers: tuple[int, ...]
    a: Floats
    shares: Floats
    rows: Bools

    @classmethod
    def of(cls, explanation: Interaction, threshold: float, leave_out: LeaveOut) -> Field:
        """The interaction summed over heads; a share is relative to the largest weight of the possible parents."""
        order = np.argsort(explanation.layers)
        a = explanation.weights[order].sum(1, dtype=np.float64)
        special = np.array(explanation.tokens.special)
        rows = np.ones(len(special), dtype=bool)
        if leave_out == "special":
            rows = ~special
        elif leave_out == "cls" and (first := _classification_token(special)) is not None:
            rows[first] = False
        columns = rows if leave_out == "special" else np.ones_like(rows)
        largest = a[:, rows][:, :, columns].max((1, 2), initial=0.0)[:, None, None]
        shares = np.divide(a, largest, out=np.zeros_like(a), where=largest > 0)
        usable = rows[:, None] & columns & ~np.eye(len(rows), dtype=bool) & (shares > threshold)
        return cls(tuple(explanation.layers[i] for i in order), a, np.where(usable, shares, 0.0), rows)

    def strongest(self) -> int:
        """The authors' root: with all layers added, the row with the largest positive sum off the diagonal."""
        total = np.maximum(self.a.sum(0), 0.0)
        np.fill_diagonal(total, 0.0)
        return int(np.where(self.rows, total.sum(1), -1.0).argmax())

    def places(self) -> list[EdgePlace]:
        """Every edge that may be used."""
        return [(int(n), int(i), int(j)) for n, i, j in np.argwhere(self.shares > 0)]

    def edge(self, place: EdgePlace) -> Edge:
        """An edge with its numbers."""
        layer, query, key = place
        return Edge(self.layers[layer], query, key, float(self.a[place]), float(self.shares[place]))


def _classification_token(special: Bools) -> int | None:
    """The position of [CLS]: first, or in XLNet last, behind the closing token; None without either."""
    if special[0]:
        return 0
    return len(special) - 1 if special[-2:].all() and len(special) > 2 else None


def greedy_tree(field: Field, root: int) -> TreeShape:
    """Hao et al.'s program: the last layer is skipped, the one below it serves the root, the others every node.

    Rows and columns are visited in reading order. A token may get a child in the layer in which it was itself attached.
    A single layer is not skipped. Each step down is 1 / (number of layers), less where the tree is deeper than that.
    """
    layers = range(len(field.layers))[::-1]
    levels, edges, parents = {root: 0}, list[Edge](), set[int]()
    for step, layer in enumerate(layers[1:] or layers):
        for i in [root] if step == 0 else np.flatnonzero(field.rows).tolist():
            for j in np.flatnonzero(field.shares[layer, i]).tolist() if i in levels else ():
                if j in levels:
                    continue
                # a parent's first child hangs one level below it, its later ones at the bottom, as in the program
                levels[j] = levels[i] + 1 if step == 0 or i not in parents else max(levels.values())
                edges.append(field.edge((layer, i, j)))
                parents.add(i)
    steps = max(len(field.layers), 1 + max(levels.values()))
    heights = {node: 1 - (level + 1) / steps for node, level in levels.items()}
    attached = {edge.key: edge.layer for edge in edges}
    n = sum(attached.get(edge.query) == edge.layer for edge in edges)
    notes = (f"{n} of {len(edges)} edges hang from a token attached in the same layer",) if n else ()
    return TreeShape(root, tuple(edges), heights, notes=notes)


def exact_tree(field: Field, root: int | None, penalty: float, seconds: float) -> TreeShape:
    """The tree with the largest Σ (a − λ): each token is attached once, by the root or a token attached higher up.

    An integer program, because the choice of the layer at which a token is attached makes this hard in general. The
    height of a node is that of its layer, in steps of 1 / (layers + 1).
    """
    chosen, proven = _solve(field, field.places(), root, penalty, seconds)
    edges = tuple(field.edge(place) for place in chosen)
    keys = {edge.key for edge in edges}
    start = field.strongest() if root is None else root
    top = next((edge.query for edge in edges if edge.query not in keys), start)
    steps = len(field.layers) + 1
    heights = {top: 1 - 1 / steps} | {edge.key: place[0] / steps for edge, place in zip(edges, chosen, strict=True)}
    stopped = f"the search was stopped after {seconds:g} s: a better tree may exist"
    return TreeShape(top, edges, heights, proven, () if proven else (stopped,))


def _solve(
    field: Field, places: list[EdgePlace], root: int | None, penalty: float, seconds: float
) -> tuple[list[EdgePlace], bool]:
    """The edges of the best tree, higher layers first, and whether it is proven to be the best."""
    from scipy.optimize import Bounds, milp

    worth = np.array([field.a[place] - penalty for place in places])
    if not (worth > 0).any():
        return [], True
    roots = field.rows if root is None else np.arange(len(field.rows)) == root
    answer = milp(
        # subtle: HiGHS stops at an absolute gap of 1e-6, so weights are scaled up
        np.concatenate([-worth * 1e3 / np.abs(worth).max(), np.zeros(len(roots))]),
        integrality=np.ones(len(worth) + len(roots)),
        bounds=Bounds(0, np.concatenate([np.ones(len(worth)), roots.astype(float)])),
        constraints=_constraints(places, len(roots)),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    if answer.x is None:
        raise BadInput(f"no tree was found in {seconds:g} s among {len(places)} edges; raise threshold or seconds.")
    used = [place for place, x in zip(places, answer.x[: len(places)], strict=True) if x > 0.5]
    return sorted(used, key=lambda place: (-place[0], place[1:])), answer.status == 0


def _constraints(places: list[EdgePlace], tokens: int) -> Any:
    """On x (an edge is used) and r (a token is the root), all 0 or 1.

    For each token, Σ x into it + r ≤ 1. For each edge, x ≤ r of its parent + Σ x into its parent in higher layers.
    One root: Σ r = 1.
    """
    from scipy.optimize import LinearConstraint
    from scipy.sparse import coo_array

    n = len(places)
    into: list[list[int]] = [[] for _ in range(tokens)]
    for e, (_, _, key) in enumerate(places):
        into[key].append(e)
    entries = [(token, column, 1.0) for token in range(tokens) for column in (*into[token], n + token)]
    for e, (layer, query, _) in enumerate(places):
        above = [other for other in into[query] if places[other][0] > layer]
        entries += [(tokens + e, e, 1.0), *((tokens + e, column, -1.0) for column in (*above, n + query))]
    entries += [(tokens + n, n + token, 1.0) for token in range(tokens)]
    rows, columns, values = zip(*entries, strict=True)
    entry = np.array([rows, columns], dtype=np.int32)  # an older scipy takes no other index
    matrix = coo_array((values, (entry[0], entry[1])), shape=(tokens + n + 1, n + tokens)).tocsr()
    upper = np.concatenate([np.ones(tokens), np.zeros(n), [1.0]])
    lower = np.concatenate([np.full(tokens + n, -np.inf), [1.0]])
    return LinearConstraint(matrix, lower, upper)
