"""Permutation: how does the output change when attention weights are randomly permuted over tokens?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from heedful.checks import interventions
from heedful.checks.base import Case, Divergence, Finding, Measure, Passes, Share
from heedful.checks.interventions import WHOLE_MODEL, Copy, Movable, Where
from heedful.checks.tables import PermutationTables, peak_spreads
from heedful.core.errors import Unsupported
from heedful.core.finding import EVERYWHERE, Findings, Highlight, Role, SideBySide
from heedful.core.settings import Checked, Ge
from heedful.core.tokens import Tokens
from heedful.methods import Method
from heedful.methods.attention import read_shares
from heedful.model import edits
from heedful.model.classifier import Classifier
from heedful.model.edits import Site


@dataclass(frozen=True)
class Permutation(Checked):
    """Random permutations of attention weights: everywhere (`draws` of them), in each layer, and in each head.

    axis="keys"     the weights of each row are shuffled among the keys that it may see
    axis="rows"     whole rows are exchanged among queries that may see the same keys
    together        all rows, heads and layers of a draw share one order; else each has its own
    special=False   special tokens keep their weights (or rows)

    A network with a single layer and head has only {"layer": "all", "head": "all"}; layers are those of the attention
    over the text's tokens, and "all" is every attention of the model. `layer_draws=0` and `head_draws=0` skip layers
    and heads. There are many heads, so each has few draws; the mean over texts compensates. Where no other order exists
    (one key), the change is NaN.
    """

    draws: Annotated[int, Ge(1)] = 100
    layer_draws: Annotated[int, Ge(0)] = 10
    head_draws: Annotated[int, Ge(0)] = 2
    axis: Literal["keys", "rows"] = "keys"
    together: bool = False
    special: bool = True

    name: ClassVar[str] = "permutation"
    title: ClassVar[str] = "Shuffled attention"
    question: ClassVar[str] = "Does shuffling attention change the output?"
    reading: ClassVar[str] = (
        "A small change means that the output hardly depends on where attention is, so that attention explains little; "
        "a large change does not mean that attention is an explanation. Shuffling nearly uniform attention cannot "
        "change much: look at the texts with a large weight. In a Transformer, “everywhere” disturbs each layer on top "
        "of the disturbance below it."
    )
    verdict: ClassVar[Mapping[str, Any]] = {"layer_draws": 0, "head_draws": 0}
    full: ClassVar[Mapping[str, Any]] = {"layer_draws": 100, "head_draws": 10}
    jain2019: ClassVar[Mapping[str, Any]] = {"layer_draws": 0, "head_draws": 0, "special": False}
    probe: ClassVar[Mapping[str, Any]] = {"draws": 2, "layer_draws": 1, "head_draws": 0}
    summary: ClassVar[str] = "change of the output when attention weights are permuted"
    paper: ClassVar[str] = "Jain & Wallace 2019; Vashishth et al. 2019"
    changes: ClassVar[str] = (
        "attention weights of the text's tokens are permuted at random within their rows (or rows among queries), "
        "everywhere, in one layer or in one head; higher layers are recomputed"
    )
    measures: ClassVar[Mapping[str, Measure]] = {
        "tvd": Share("total variation distance of the output, median over permutations"),
        "jsd": Divergence("Jensen–Shannon divergence of the output, median over permutations"),
        "flip": Share("share of permutations that change the predicted label"),
        "correct": Share("share of permutations under which the gold label is predicted"),
        "correct as it is": Share("the gold label is predicted, attention unchanged", kind="rate"),
        "max attention": Share("largest attention weight of a token: pooled position, last layer, mean over heads"),
    }
    highlights: ClassVar[tuple[Highlight, ...]] = (
        Highlight("tvd", "shuffled attention: change of the output (TVD)", at=EVERYWHERE),
        Highlight("correct", "shuffled attention: accuracy", at=EVERYWHERE),
    )
    compared: ClassVar[tuple[SideBySide, ...]] = (
        SideBySide(
            "tvd",
            "change of the output with shuffled attention (TVD)",
            words="change (TVD), shuffled",
            at=EVERYWHERE,
            headline="shuffling attention changes the output of {a} {more} than that of {b}",
            symbol="TVD",
        ),
        SideBySide("correct", "accuracy with shuffled attention", words="accuracy, shuffled", at=EVERYWHERE),
        SideBySide("correct as it is", "accuracy with unchanged attention", words="accuracy, unchanged"),
    )
    roles: ClassVar[tuple[Role, ...]] = ("used",)

    def __call__(self, case: Case) -> list[Finding]:
        """Four numbers at each place, and two about the unchanged text."""
        classifier, tokens = case.classifier, case.tokens
        reading, (share,) = read_shares(classifier, [tokens])
        self._check(classifier, tokens, list(reading.weights))
        plan = self._plan(classifier)
        movable = Movable(tokens, self.special)
        # the random numbers of a draw depend on its place and number only, not on the batch
        rngs = [(at, case.rng(self.name, at.kind, at.layer, at.head, draw)) for at, n in plan for draw in range(n)]
        copies = [Copy(where, Permute(movable, rng, self.axis, self.together)) for where, rng in rngs]
        moved = interventions.outcomes(classifier, tokens, copies)
        correct, before = moved.correct(case)
        site = reading.layers(classifier.main_kind)[-1]
        attention = share.queries(site) @ share.weights(site).mean(0)  # as in the method attention-mean
        largest = float(attention[list(tokens.content)].max())
        numbers = {"max attention": largest, "correct as it is": before}
        findings = [Finding(self.name, "", name, value) for name, value in numbers.items()]
        start = 0
        for where, n in plan:
            possible = any(self._possible(tokens, site) for site in reading.weights if where.has(site))
            draws = slice(start, start + n)
            numbers = {
                "tvd": float(np.median(moved.tvd[draws])),
                "jsd": float(np.median(moved.jsd[draws])),
                "flip": float(np.mean(moved.flip[draws])),
                "correct": float(np.mean(correct[draws])),
            }
            findings += [
                Finding(self.name, "", name, value if possible else np.nan, where.at) for name, value in numbers.items()
            ]
            start += n
        return findings

    def passes(self, classifier: Classifier, tokens: Tokens, methods: Mapping[str, Method]) -> Passes:
        """The text once with its attention recorded, every copy, and the unchanged text in each batch of copies."""
        return Passes(1 + interventions.count_inputs(sum(n for _, n in self._plan(classifier)), len(tokens)))

    def tables(self, findings: Findings) -> PermutationTables:
        """The change by the largest weight (Jain & Wallace 2019, figs. 6–7), and accuracy by layer."""
        change = findings.values("tvd", at=EVERYWHERE)
        by_peak = peak_spreads(findings, findings.values("max attention"), change)
        return PermutationTables(by_peak, interventions.accuracy_by_place(findings, "mean"))

    def _plan(self, classifier: Classifier) -> list[tuple[Where, int]]:
        """Where to permute, and how often."""
        by_layer = [(w, self.layer_draws) for w in interventions.layers(classifier) if self.layer_draws]
        by_head = [(w, self.head_draws) for w in interventions.head_places(classifier) if self.head_draws]
        return [(WHOLE_MODEL, self.draws), *by_layer, *by_head]

    def _possible(self, tokens: Tokens, site: Site) -> bool:
        movable = Movable(tokens, self.special)
        if self.axis == "rows":
            return any(len(group) > 1 for group in _alike(site, movable.queries(site)))
        return bool((movable.keys(site).sum(-1) > 1).any())

    def _check(self, classifier: Classifier, tokens: Tokens, sites: list[Site]) -> None:
        groups = (group for site in sites for group in _alike(site, Movable(tokens).queries(site)))
        if self.axis == "rows" and len(tokens) > 1 and all(len(group) < 2 for group in groups):
            raise Unsupported(
                f"{classifier.name} has one query or causal attention: no two rows have the same keys, so rows cannot "
                "be permuted; use axis=keys."
            )


@dataclass(frozen=True, eq=False)
class Permute:
    """The edit of one draw; several draws are edited at once, each with its own random numbers."""

    movable: Movable
    rng: torch.Generator
    axis: Literal["keys", "rows"]
    together: bool
    orders: dict[int, Tensor] = field(default_factory=dict)

    def __call__(self, site: Site, weights: Tensor) -> Tensor:
        """The weights of one copy."""
        return self._ordered(site, weights, self.numbers(*self._shape(weights)))

    def many(self, edits: Sequence[Permute], site: Site, weights: Tensor) -> Tensor:
        """The weights [n,h,q,k] of n copies of one text, by an edit for each."""
        shape = self._shape(weights)[1:]
        return self._ordered(site, weights, torch.stack([edit.numbers(*shape) for edit in edits]))

    def _shape(self, weights: Tensor) -> tuple[int, ...]:
        return tuple(weights.shape if self.axis == "keys" else weights.shape[:3])

    def _ordered(self, site: Site, weights: Tensor, order: Tensor) -> Tensor:
        order = order.to(weights.device)
        if self.axis == "keys":
            return shuffled(weights, self.movable.keys(site), order)
        return exchanged(weights, _alike(site, self.movable.queries(site)), order)

    def numbers(self, *shape: int) -> Tensor:
        """The random numbers that order the weights of this draw."""
        if not self.together:
            return torch.rand(shape, generator=self.rng)
        if shape[-1] not in self.orders:
            self.orders[shape[-1]] = torch.rand(shape[-1], generator=self.rng)
        return self.orders[shape[-1]].expand(shape)


def shuffled(
    weights: Float[Tensor, "b h q k"], free: Bool[Tensor, "b 1 q k"], order: Float[Tensor, "b h q k"]
) -> Float[Tensor, "b h q k"]:
    """Each row's weights on free keys, permuted by `order`; other keys keep theirs."""
    if not bool((free == free[:1, :, :1]).all()):
        return torch.where(free, edits.shuffle(weights, free, order), weights)
    # the same keys in every row: sort once, and only these
    columns = free[0, 0, 0].nonzero()[:, 0]
    permutation = edits.random_order(order[..., columns])
    return weights.index_copy(-1, columns, weights[..., columns].gather(-1, permutation))


def exchanged(
    weights: Float[Tensor, "b h q k"], groups: list[Tensor], order: Float[Tensor, "b h q"]
) -> Float[Tensor, "b h q k"]:
    """The rows of each group permuted by `order`, each head separately."""
    new = weights
    for group in groups:
        source = group[edits.random_order(order[..., group])]
        rows = weights.gather(2, source[..., None].expand(*source.shape, weights.shape[-1]))
        new = new.index_copy(2, group, rows)
    return new


def _alike(site: Site, free: Bool[Tensor, "q"]) -> list[Tensor]:
    """The free queries, grouped by the keys that they may attend to."""
    queries = free.nonzero()[:, 0]
    which = torch.unique(site.allowed[0, 0][queries], dim=0, return_inverse=True)[1]
    return [queries[which == i] for i in range(int(which.max()) + 1 if len(which) else 0)]
