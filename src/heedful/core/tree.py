"""Attribution trees (Hao et al. 2021): which words flow into which, from layer to layer. Needs no torch.

With a^l_ij the interaction's weights summed over heads, a tree may use the edges i → j of layer l whose share
a^l_ij / max a^l is above a threshold τ, and is worth Σ (a^l_ij − λ) over its edges.

greedy   the authors' heuristic, top layer down: quick, knows no λ, and may hang two edges of one layer below each other
exact    the most valuable tree, by integer programming: a token passes on only what it got in a higher layer
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from heedful.core.errors import BadInput
from heedful.core.explanation import FORMAT, Interaction, Prediction, Source
from heedful.core.growing import Edge, Field, LeaveOut, exact, greedy
from heedful.core.target import Target
from heedful.core.tokens import Tokens

How = Literal["greedy", "exact"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Tree:
    """A root token and edges, each token attached at most once. Heights (0 … 1) are for drawing.

    `objective` is Σ (weight − penalty) over the edges. `layers` are the layers that could give edges. `proven` says
    that no tree has a higher objective. Positions are those of `tokens`.
    """

    tokens: Tokens
    root: int
    edges: tuple[Edge, ...]
    heights: Mapping[int, float]
    how: How
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

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, for JSON."""
        own = ("root", "how", "threshold", "penalty", "objective", "layers", "proven", "notes")
        return {
            "heedful": FORMAT,
            "kind": "tree",
            **{name: getattr(self, name) for name in own},
            "edges": [asdict(edge) for edge in self.edges],
            "heights": {str(node): height for node, height in self.heights.items()},
            "tokens": self.tokens.to_dict(),
            "prediction": asdict(self.prediction),
            "target": asdict(self.target),
            "source": asdict(self.source),
        }

    def to_json(self) -> str:
        """One line of JSON; `Tree.from_dict` of what it holds is the same tree."""
        return json.dumps(self.to_dict(), allow_nan=False, default=str)

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Tree:
        """The inverse of `to_dict`, also after a trip through JSON."""
        if d.get("kind") != "tree" or d.get("heedful") != FORMAT:
            raise BadInput(f"this is no tree of format {FORMAT}, but {d.get('kind')} of format {d.get('heedful')}.")
        said = d["prediction"]
        chances = said["probabilities"]
        return cls(
            **{name: d[name] for name in ("root", "how", "threshold", "penalty", "objective", "proven")},
            layers=tuple(d["layers"]),
            notes=tuple(d["notes"]),
            edges=tuple(Edge(**edge) for edge in d["edges"]),
            heights={int(node): height for node, height in d["heights"].items()},
            tokens=Tokens.from_dict(d["tokens"]),
            prediction=Prediction(
                tuple(said["labels"]), tuple(said["logits"]), None if chances is None else tuple(chances)
            ),
            target=Target(**d["target"]),
            source=Source(**d["source"]),
        )

    def to_html(self) -> str:
        """A self-contained page."""
        from heedful.report.explanations import tree_page

        return str(tree_page(self))

    def _repr_html_(self) -> str:
        return self.to_html()

    def plot(self) -> Any:
        """A matplotlib figure."""
        from heedful.report.figures import draw_tree

        return draw_tree(self)


def tree(
    explanation: Interaction,
    how: How = "greedy",
    *,
    threshold: float = 0.4,
    penalty: float = 0.0,
    root: int | None = None,
    leave_out: LeaveOut = "cls",
    seconds: float = 30.0,
) -> Tree:
    """The attribution tree of an interaction.

    `penalty` is λ, in the units of the weights; only "exact" heeds it. `root` is a position, or None: "greedy" takes
    the token that gets most, "exact" the one whose tree is worth most. `leave_out`: "cls" lets the classification token
    be no parent and no measure of the largest weight (as the authors do), "special" lets no special token take part.
    "exact" stops after `seconds` and then gives the best tree so far, with `proven` False.
    """
    _check(explanation, how, threshold, penalty, leave_out)
    ground = Field.of(explanation, threshold, leave_out)
    if not ground.rows.any():
        raise BadInput("every token of this text is special, so leave_out='special' leaves none for a tree.")
    if root is not None and not (0 <= root < len(ground.rows) and ground.rows[root]):
        raise BadInput(f"root {root} is not the position of a token that may be a parent.")
    if how == "greedy":
        grown = greedy(ground, ground.strongest() if root is None else root)
    else:
        grown = exact(ground, root, penalty, seconds)
    lack = f"has a share above {threshold:g}" if not ground.places() else "hangs from the root or is worth its penalty"
    alone = () if grown.edges else (f"no edge {lack}, so the tree is its root alone",)
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
        notes=(*grown.notes, *alone),
        prediction=explanation.prediction,
        target=explanation.target,
        source=explanation.source,
    )


def _check(explanation: Interaction, how: str, threshold: float, penalty: float, leave_out: str) -> None:
    if not isinstance(explanation, Interaction):
        raise BadInput(
            f"a tree is made of an Interaction, and this is a {type(explanation).__name__}; explain with attattr."
        )
    if explanation.weights.shape[2] != len(explanation.tokens):
        raise BadInput("this interaction has one query, not one per token, so no tree can be made of it.")
    if explanation.attention != "self":
        raise BadInput(
            f"{explanation.attention} attention reads the decoder's positions, which hold other tokens than the "
            "encoder's, so no tree can be made of it; explain with kind='encoder'."
        )
    if how not in ("greedy", "exact"):
        raise BadInput(f"how '{how}' is not one of greedy, exact.")
    if not 0 <= threshold < 1:
        raise BadInput(f"threshold {threshold} is not between 0 and 1; it is a share of the largest weight of a layer.")
    if not 0 <= penalty < float("inf"):
        raise BadInput(f"penalty {penalty} is not zero or above.")
    if penalty and how == "greedy":
        raise BadInput("the greedy way knows no penalty; use how='exact', or leave it out.")
    if leave_out not in ("cls", "special", "nothing"):
        raise BadInput(f"leave_out '{leave_out}' is not one of cls, special, nothing.")


__all__ = ["Edge", "Tree", "tree"]
