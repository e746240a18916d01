"""Permutation: what becomes of the answer when attention weights are dealt out to other tokens at random."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from heedful.checks.base import PEAKS, Case, Finding, Floats, Measure, Passes
from heedful.checks.interventions import (
    EVERYWHERE,
    Copy,
    Movable,
    Outcomes,
    Where,
    accuracy,
    heads,
    layers,
    mean_told,
    outcomes,
    pooled_attention,
    rows,
    spread_told,
)
from heedful.core.errors import Unsupported
from heedful.core.settings import Checked, Ge
from heedful.core.tokens import Tokens
from heedful.methods import Method
from heedful.methods.attention import laid_open
from heedful.model import edits
from heedful.model.classifier import Classifier
from heedful.model.edits import Edit, Site

if TYPE_CHECKING:
    from heedful.core.finding import Findings


@dataclass(frozen=True)
class Permutation(Checked):
    """Random permutations of attention weights: everywhere (`draws` of them), in each layer, and in each head.

    axis="keys"     the weights of each row are shuffled among the keys that it may see
    axis="rows"     whole rows are exchanged among queries that may see the same keys
    together        one order serves all rows, heads and layers of a draw (the poster); else each has its own
    special=False   special tokens keep their weights (or rows)

    A network without layers or heads to tell apart has only {"layer": "all", "head": "all"}; layers are those of the
    attention that reads the text, and "all" is every attention that the model has. `layer_draws=0` and `head_draws=0`
    leave layers and heads out; heads are many, so that each has few draws, and what averages them is many texts. Where
    no other order exists (one key), the change does not exist either.
    """

    draws: Annotated[int, Ge(1)] = 100
    layer_draws: Annotated[int, Ge(0)] = 10
    head_draws: Annotated[int, Ge(0)] = 2
    axis: Literal["keys", "rows"] = "keys"
    together: bool = False
    special: bool = True

    summary: ClassVar[str] = "change of the answer when attention weights are permuted"
    paper: ClassVar[str] = "Jain & Wallace 2019; Vashishth et al. 2019"
    changes: ClassVar[str] = (
        "Attention weights of the text's tokens are permuted at random within their rows (or rows among queries), "
        "everywhere, in one layer or in one head; what lies above is computed anew."
    )
    measures: ClassVar[Mapping[str, Measure]] = {
        "tvd": Measure("total variation distance of the answer, median over permutations"),
        "jsd": Measure("Jensen–Shannon divergence of the answer, median over permutations"),
        "flip": Measure("share of permutations that change the predicted label"),
        "correct": Measure("share of permutations under which the gold label is predicted"),
        "correct as it is": Measure("the gold label is predicted, attention unchanged", kind="rate"),
        "max attention": Measure("largest weight of a token of the text: pooled position, last layer, mean over heads"),
    }

    def __call__(self, case: Case) -> list[Finding]:
        """Four numbers at each place, and two about the text as it is."""
        classifier, tokens = case.classifier, case.tokens
        reading, (share,) = laid_open(classifier, [tokens])
        self._check(classifier, tokens, list(reading.weights))
        plan = self._plan(classifier)
        found = outcomes(classifier, tokens, [self._copy(case, where, i) for where, n in plan for i in range(n)])
        correct, before = found.correct(case)
        attention, content = pooled_attention(share), list(tokens.content)
        findings = [
            self._finding("max attention", float(attention[content].max())),
            self._finding("correct as it is", before),
        ]
        start = 0
        for where, n in plan:
            possible = any(self._possible(tokens, site) for site in reading.weights if where.has(site))
            numbers = _summed(found, correct, slice(start, start + n)) if possible else dict.fromkeys(_NAMES, np.nan)
            findings += [self._finding(name, value, where) for name, value in numbers.items()]
            start += n
        return findings

    def passes(self, classifier: Classifier, tokens: Tokens, methods: Mapping[str, Method]) -> Passes:
        """The text laid open, every copy, and the text beside each batch of them."""
        return Passes(1 + rows(sum(n for _, n in self._plan(classifier)), len(tokens)))

    def tables(self, found: Findings) -> dict[str, Any]:
        """The change by the largest weight (Jain & Wallace 2019, figs. 6–7), and accuracy by layer."""
        return {"by max attention": list(_violins(found)), "accuracy": accuracy(found, mean_told)}

    def _plan(self, classifier: Classifier) -> list[tuple[Where, int]]:
        """Where to permute, and how often."""
        some = [(w, self.layer_draws) for w in layers(classifier) if self.layer_draws]
        return [(EVERYWHERE, self.draws), *some, *((w, self.head_draws) for w in heads(classifier) if self.head_draws)]

    def _copy(self, case: Case, where: Where, draw: int) -> Copy:
        """One draw; its chance depends on its place and number alone, and not on what runs beside it."""
        rng = case.rng("permutation", where.kind, where.layer, where.head, draw)
        return Copy(where, permuting(Movable(case.tokens, self.special), rng, self.axis, self.together))

    def _possible(self, tokens: Tokens, site: Site) -> bool:
        movable = Movable(tokens, self.special)
        if self.axis == "rows":
            return any(len(group) > 1 for group in _alike(site, movable.queries(site)))
        return bool((movable.keys(site).sum(-1) > 1).any())

    def _check(self, classifier: Classifier, tokens: Tokens, sites: list[Site]) -> None:
        every = Movable(tokens)
        if self.axis == "keys" or len(tokens) < 2:
            return
        if all(len(group) < 2 for site in sites for group in _alike(site, every.queries(site))):
            raise Unsupported(
                f"{classifier.name} has no two rows of attention that see the same keys (it has one query, or looks "
                "back only), so none can be exchanged; use axis=keys."
            )

    def _finding(self, measure: str, value: float, where: Where | None = None) -> Finding:
        return Finding("permutation", "", measure, value, {} if where is None else where.at)


_NAMES = ("tvd", "jsd", "flip", "correct")


def _summed(found: Outcomes, correct: Floats, own: slice) -> dict[str, float]:
    """The draws of one place in four numbers."""
    return {
        "tvd": float(np.median(found.tvd[own])),
        "jsd": float(np.median(found.jsd[own])),
        "flip": float(np.mean(found.flip[own])),
        "correct": float(np.mean(correct[own])),
    }


def permuting(movable: Movable, rng: torch.Generator, axis: Literal["keys", "rows"], together: bool) -> Edit:
    """The edit of one draw."""
    orders: dict[int, Tensor] = {}

    def order(*shape: int) -> Tensor:
        if not together:
            return torch.rand(shape, generator=rng)
        if shape[-1] not in orders:
            orders[shape[-1]] = torch.rand(shape[-1], generator=rng)
        return orders[shape[-1]].expand(shape)

    def keys(site: Site, weights: Tensor) -> Tensor:
        return shuffled(weights, movable.keys(site), order(*weights.shape).to(weights.device))

    def queries(site: Site, weights: Tensor) -> Tensor:
        chance = order(*weights.shape[:3]).to(weights.device)
        return exchanged(weights, _alike(site, movable.queries(site)), chance)

    return keys if axis == "keys" else queries


def shuffled(
    weights: Float[Tensor, "b h q k"], free: Bool[Tensor, "b 1 q k"], order: Float[Tensor, "b h q k"]
) -> Float[Tensor, "b h q k"]:
    """Each row's weights on free keys, dealt out to them in the order of `order`; other keys keep theirs."""
    if not bool((free == free[:1, :, :1]).all()):
        return torch.where(free, edits.shuffle(weights, free, order), weights)
    # the same keys in every row: sort once, and only these
    columns = free[0, 0, 0].nonzero()[:, 0]
    taken = order[..., columns].argsort(-1)
    return weights.index_copy(-1, columns, weights[..., columns].gather(-1, taken))


def exchanged(
    weights: Float[Tensor, "b h q k"], groups: list[Tensor], order: Float[Tensor, "b h q"]
) -> Float[Tensor, "b h q k"]:
    """The rows of each group in the order of `order`; each head by itself."""
    new = weights
    for group in groups:
        taken = group[order[..., group].argsort(-1)]
        dealt = weights.gather(2, taken[..., None].expand(*taken.shape, weights.shape[-1]))
        new = new.index_copy(2, group, dealt)
    return new


def _alike(site: Site, free: Bool[Tensor, "q"]) -> list[Tensor]:
    """The free queries that may see the same keys, group by group."""
    queries = free.nonzero()[:, 0]
    which = torch.unique(site.allowed[0, 0][queries], dim=0, return_inverse=True)[1]
    return [queries[which == i] for i in range(int(which.max()) + 1 if len(which) else 0)]


def _violins(found: Findings) -> Iterator[dict[str, Any]]:
    """The median change under permutation, for each predicted label and each range of the largest weight."""
    largest, change = found.values("max attention"), found.values("tvd", at=EVERYWHERE.at)
    for i, label in enumerate(found.labels):
        for low, high in pairwise(PEAKS):
            inside = (largest >= low) & ((largest < high) | (high == PEAKS[-1]))
            mine = change[inside & (found.texts["predicted"] == i)]
            yield {"label": label, "from": low, "to": high} | spread_told(mine)
