"""Self-attention attribution (Hao et al. 2021): attention times the gradient, integrated from zero to full attention.

Attr(A) = A ⊙ ∫₀¹ ∂f(αA)/∂A dα for one layer at a time, its heads scaled together, later layers recomputed. The sum over
a layer is f − f without that layer's attention. The authors explain a probability: Target(scale="probability").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor

from heedful.core.errors import BadInput
from heedful.core.explanation import Attribution, Interaction
from heedful.core.settings import Checked, Ge, Gt
from heedful.core.target import Target, largest_logit
from heedful.core.tokens import Tokens
from heedful.maths.formulas import NESTED, gauss_legendre, nested_lobatto, riemann
from heedful.methods.attention import AttentionKind, kind_of
from heedful.methods.base import Passes, array
from heedful.model.batch import BUDGET, Batch
from heedful.model.classifier import Classifier
from heedful.model.edits import Site, tracked

QuadratureRule = Literal["nested", "gauss", "riemann-left", "riemann-right"]
Layers = Literal["all"] | int | tuple[int, ...]
STEPS = 20  # of a Riemann sum, as in the paper


@dataclass(frozen=True)
class _Layer:
    """The result at one layer: attributions [h,q,k], the target without its attention, and the accuracy of both.

    `padding` is the attribution of padding positions, which was cut off.
    """

    scores: Tensor
    base: float
    gap: float
    nodes: int
    change: float | None
    settled: bool
    padding: float = 0.0

    def within(self, width: int) -> _Layer:
        """The result on the text's own positions; a network may pad texts."""
        scores = self.scores[:, :width, :width]
        lost = 0.0 if scores.shape == self.scores.shape else float(self.scores.sum() - scores.sum())
        return replace(self, scores=scores, gap=self.gap + lost, padding=lost)


@dataclass(frozen=True)
class _Integrated(Checked):
    """How the integrals are computed.

    "nested" and "gauss" double their nodes, layer by layer, until the attribution changes by less than `tolerance`
    (relative L1) and the completeness gap is below (tolerance / 2)². The change is the error of the coarser rule; that
    of the finer is about its square, so a change of .2 leaves about 1 %. "nested" reuses its nodes, so it costs half.
    "riemann-left" is the authors' code and "riemann-right" their paper, 20 steps each. `steps` is the number of nodes.
    """

    rule: QuadratureRule = "nested"
    steps: Annotated[int, Ge(1)] | None = None
    tolerance: Annotated[float, Gt(0)] = 0.2
    max_nodes: Annotated[int, Ge(5)] = 64  # two rules are compared
    layers: Layers = "all"
    kind: AttentionKind | None = None

    paper: ClassVar[str] = "Hao et al. 2021"
    needs: ClassVar[tuple[str, ...]] = ("attention", "gradients")
    probe: ClassVar[Mapping[str, Any]] = {"rule": "gauss", "steps": 2}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rule == "nested" and self.steps not in (None, *NESTED):
            raise BadInput(f"steps is {self.steps}; the nested rule has {', '.join(map(str, NESTED))} steps.")
        if self.layers == ():
            raise BadInput("layers is empty; give a number, several or 'all'.")

    def passes(self, classifier: Classifier, tokens: Tokens) -> Passes:
        """The text and each node of each layer; all of them at most, where they are doubled."""
        layers, joint = self._kind_and_layers(classifier)[1], classifier.can_branch
        rules, stages = self._rules(), self._stages()

        def rows(nodes: set[float]) -> int:
            points = [(layer, node) for layer in layers for node in nodes]
            return sum(joint + len(part) for part in parts(points, len(tokens), joint))

        alone = not joint or not stages[0]
        return Passes(
            forwards=alone + sum(map(rows, stages)) + rows({0.0} - stages[0]),
            backwards=any(1.0 in nodes for nodes, _ in rules) + len(layers) * sum(map(len, stages)),
            exactly=len(rules) == 1,
        )

    def _stages(self) -> list[set[float]]:
        """The nodes that each rule adds, without the end of the line; the first two rules are one stage."""
        rules = [set(nodes.tolist()) for nodes, _ in self._rules()]
        stages = [rules[0].union(*rules[1:2]), *rules[2:]]
        return [stage.difference({1.0}, *stages[:n]) for n, stage in enumerate(stages)]

    def _rules(self) -> list[Quadrature]:
        """The rules to try, coarse to fine; a single one where `rule` or `steps` is fixed."""
        if self.rule in ("riemann-left", "riemann-right"):
            return [riemann(self.steps or STEPS, "left" if self.rule == "riemann-left" else "right")]
        if self.steps is not None:
            return [nested_lobatto(self.steps) if self.rule == "nested" else gauss_legendre(self.steps)]
        nested = NESTED if self.rule == "nested" else ()
        doubled = (n for n in (2, 4, 8, 16, 32, 64, 128, 256, 512) if not nested or n > nested[-1])
        rules = [*((n, nested_lobatto) for n in nested), *((n, gauss_legendre) for n in doubled)]
        return [make(n) for n, make in rules if n <= self.max_nodes]

    def _kind_and_layers(self, classifier: Classifier) -> tuple[str, list[int]]:
        kind = kind_of(classifier, self.kind)
        n = sum(k == kind for k, _ in classifier.sites)
        wanted = range(n) if self.layers == "all" else self.layers
        wanted = (wanted,) if isinstance(wanted, int) else tuple(wanted)
        wrong = [layer for layer in wanted if not -n <= layer < n]
        if wrong:
            raise BadInput(f"layer {wrong[0]} is not one of 0 … {n - 1} (or negative, from the last).")
        return kind, sorted({layer % n for layer in wanted})

    def _integrate(self, classifier: Classifier, tokens: Tokens, target: Target) -> tuple[str, dict[int, _Layer]]:
        """All layers; the nodes are doubled for those that have not converged."""
        kind, layers = self._kind_and_layers(classifier)
        rules = self._rules()
        lines = PathGradients(classifier, classifier.batch([tokens]), target, (kind, layers))
        results: dict[int, _Layer] = {}
        for n, rule in enumerate(rules):
            nodes = {node for nodes, _ in (rules[:2] if n == 0 else [rule]) for node in nodes.tolist()}
            lines.visit((layer, node) for layer in layers for node in nodes)
            lines.visit(((layer, 0.0) for layer in layers), slopes=False)
            for layer in layers:
                results[layer] = self._layer(lines, layer, rule, results.get(layer))
            layers = [layer for layer in layers if not results[layer].settled]
            lines.forget(layers)
        return kind, {layer: results[layer].within(len(tokens)) for layer in sorted(results)}

    def _layer(self, lines: PathGradients, layer: int, rule: Quadrature, former: _Layer | None) -> _Layer:
        """One layer by one rule, compared with the rule before it."""
        scores, base = lines.integral(layer, rule), lines.values[layer, 0.0]
        gap, size = lines.values[layer, 1.0] - base - float(scores.sum()), float(scores.abs().sum())
        if former is None:
            return _Layer(scores, base, gap, len(rule[0]), None, settled=len(self._rules()) == 1)
        moved = float((scores - former.scores).abs().sum())
        error = (self.tolerance / 2) ** 2  # the relative error of a rule that changes the one before by the tolerance
        # a probability's rounding shrinks where it is saturated, as its attributions do
        least = lines.rounding * (min(1.0, size) if lines.target.scale == "probability" else 1.0)
        settled = moved <= max(self.tolerance * size, least) and abs(gap) <= max(error * size, least)
        return _Layer(scores, base, gap, len(rule[0]), moved / size if size > 0 else 0.0, settled)

    def _notes(self, results: dict[int, _Layer]) -> tuple[str, ...]:
        late = [layer for layer, result in results.items() if not result.settled]
        cut = {layer: result.padding for layer, result in results.items() if result.padding}
        notes = []
        if late:
            change = max(abs(results[layer].change or 0.0) for layer in late)
            gap = max(abs(results[layer].gap - results[layer].padding) for layer in late)
            cause = f"the last change was {change:.2g} and the gap is {gap:.2g}"
            notes = [f"{_named(late)}: not converged with {self.max_nodes} nodes ({cause}); allow more with max_nodes"]
        if cut:
            amounts = ", ".join(f"{amount:.3g}" for amount in cut.values())
            notes += [f"{_named(list(cut))}: the gap includes {amounts} of the padding that the network adds to a text"]
        return tuple(notes)


def _named(layers: list[int]) -> str:
    return f"layer{'s' if len(layers) > 1 else ''} {', '.join(map(str, layers))}"


def _details(results: dict[int, _Layer]) -> dict[str, list[float | int | None]]:
    """Per layer: nodes of the final rule, its change of the attribution, and f without the layer's attention."""
    return {
        "nodes": [layer.nodes for layer in results.values()],
        "change": [layer.change for layer in results.values()],
        "base": [layer.base for layer in results.values()],
    }


@dataclass(frozen=True)
class AttAttr(_Integrated):
    """Attention times the gradient with respect to it, integrated; an `Interaction` whose layers each add up."""

    summary: ClassVar[str] = "attention times its gradient, integrated from zero to full attention"
    scores_tokens: ClassVar[bool] = False

    def __call__(self, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator) -> Interaction:
        """Weights of each layer add up to f − f(no attention there) but for the gap."""
        kind, results = self._integrate(classifier, tokens, target)
        shifted = ("decoder positions hold the text shifted by one",) if kind == "decoder" else ()
        return Interaction(
            tokens=tokens,
            weights=torch.stack([layer.scores for layer in results.values()]).float().cpu().numpy(),
            attention=kind,
            layers=tuple(results),
            gaps=tuple(layer.gap for layer in results.values()),
            notes=(*self._notes(results), *shifted),
            details=_details(results),
        )


@dataclass(frozen=True)
class AttAttrTokens(_Integrated):
    """Self-attention attribution of each key token: summed over heads and queries, mean over layers.

    The change of the target as the attention to a token is scaled down to zero. Each layer adds up by itself, so their
    mean does: to f − the mean over layers of f without that layer's attention.
    """

    summary: ClassVar[str] = "integrated attention times gradient, per token that is attended to"
    standard: ClassVar[Mapping[str, Any] | None] = {}

    def __call__(self, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator) -> Attribution:
        """Scores add up to f − base but for the gap."""
        kind, results = self._integrate(classifier, tokens, target)
        layers = list(results.values())
        columns = torch.stack([layer.scores.sum((0, 1)) for layer in layers]).mean(0)
        gap = sum(layer.gap for layer in layers) / len(layers)
        notes = self._notes(results)
        if kind == "decoder":  # position j+1 holds token j, and the start token is none of the text's
            gap += float(columns[0])
            notes = (*notes, f"the gap includes {float(columns[0]):.3g} of the decoder's start token")
            columns = torch.cat([columns[1:], columns.new_zeros(1)])
        return Attribution(
            tokens=tokens,
            scores=array(columns),
            base=sum(layer.base for layer in layers) / len(layers),
            gap=gap,
            notes=notes,
            details=_details(results) | {"layers": list(results)},
        )


PathPoint = tuple[int, float]
Quadrature = tuple[Tensor, Tensor]  # nodes on [0, 1] and their weights


class PathGradients:
    """Values and gradients of a target at points of the lines αA, each computed once."""

    def __init__(self, classifier: Classifier, batch: Batch, target: Target, places: tuple[str, Sequence[int]]) -> None:
        self.classifier, self.batch, self.target = classifier, batch, target
        self.kind, self.layers = places
        self.weights: dict[int, Tensor] = {}  # [1,h,q,k], the model's own
        self.values: dict[PathPoint, float] = {}
        self.slopes: dict[PathPoint, Tensor] = {}
        self.rounding = 0.0  # how far it may move a logit

    def visit(self, points: Iterable[PathPoint], slopes: bool = True) -> None:
        """Values and, if wanted, gradients at these points."""
        new = sorted(set(points) - set(self.slopes if slopes else self.values))
        ends = any(node == 1.0 for _, node in new)
        joint = self.classifier.can_branch
        passes = parts([point for point in new if point[1] != 1.0], self.batch.ids.shape[1], joint)
        if not self.weights and not (joint and passes):
            passes = [[], *passes]
        for i, part in enumerate(passes):
            self._run(part, slopes, ends and i == 0)

    def _run(self, points: Sequence[PathPoint], slopes: bool, ends: bool) -> None:
        """One pass. Row 0 is the text itself where copies branch off it, or there are none."""
        first = self.classifier.can_branch or not points
        edit = _Scaled(self, points, ends)
        with torch.set_grad_enabled(slopes), self.classifier.attention(edit):
            if first:
                logits = self.classifier.logits(self.batch, [(layer, len(at)) for layer, at in edit.nodes.items()])
            else:
                logits = self.classifier.logits(self.batch.repeat(len(points)))
            values = self.target.of(logits.cpu().double(), self.classifier.head)
            if slopes:
                wanted = values if ends or not first else values[1:]
                edit.keep(self.classifier.gradient(wanted, [*edit.ends.values(), *edit.leaves.values()]))
        numbers = values.tolist()
        if first:
            self.values = {(layer, 1.0): numbers[0] for layer in self.layers} | self.values
            self.rounding = 8 * torch.finfo(logits.dtype).eps * largest_logit(logits[:1])
        self.values |= dict(zip(points, numbers[first:], strict=True))

    def integral(self, layer: int, rule: Quadrature) -> Tensor:
        """[h,q,k]: A ⊙ Σ wᵢ ∂f(αᵢA)/∂A, in float64."""
        nodes, weights = (x.tolist() for x in rule)
        attention = self.weights[layer][0].cpu().double()
        total = torch.zeros_like(attention)
        for node, weight in zip(nodes, weights, strict=True):
            total += weight * self.slopes[layer, node].cpu().double()
        return total * attention

    def forget(self, layers: Sequence[int]) -> None:
        """Drop all gradients but those of these layers."""
        self.slopes = {point: slope for point, slope in self.slopes.items() if point[0] in layers}


class _Scaled:
    """The edit of one pass: the last rows of a layer's batch are the points of that layer, as a leaf of the graph.

    The text's own weights are stored when they are first seen. At the ends of all lines attention is the model's own,
    so with `track` the text's row gives the gradients of them all.
    """

    def __init__(self, lines: PathGradients, points: Sequence[PathPoint], track: bool) -> None:
        self.lines, self.track = lines, track
        self.nodes = {layer: [node for _, node in group] for layer, group in groupby(points, lambda point: point[0])}
        self.ends: dict[int, Tensor] = {}
        self.leaves: dict[int, Tensor] = {}

    def __call__(self, site: Site, weights: Tensor) -> Tensor:
        layer, known = site.layer, self.lines.weights
        if site.kind != self.lines.kind or layer not in self.lines.layers:
            return weights
        nodes = self.nodes.get(layer, [])
        old = weights[: len(weights) - len(nodes)]
        if layer not in known:
            known[layer] = old[:1].detach().clone()
        if self.track:
            self.ends[layer] = tracked(site, old[:1])
            old = torch.cat([self.ends[layer], old[1:]])
        if not nodes:
            return old if self.track else weights
        leaf = known[layer] * weights.new_tensor(nodes)[:, None, None, None]
        self.leaves[layer] = leaf.requires_grad_(torch.is_grad_enabled())
        return torch.cat([old, self.leaves[layer]])

    def keep(self, slopes: Sequence[Tensor]) -> None:
        """Store the gradients with respect to the ends, then the leaves, in their lines."""
        known, n = self.lines.slopes, len(self.ends)
        known |= {(layer, 1.0): slope[0] for layer, slope in zip(self.ends, slopes[:n], strict=True)}
        for layer, slope in zip(self.leaves, slopes[n:], strict=True):
            known |= {(layer, node): part for node, part in zip(self.nodes[layer], slope, strict=True)}


def parts(points: Sequence[PathPoint], width: int, joint: bool) -> list[list[PathPoint]]:
    """Which points to compute in one pass: of all layers, beside the text that they branch off; or of one layer."""
    size = max(1, BUDGET // width - joint)
    groups = [points] if joint else [list(group) for _, group in groupby(points, lambda point: point[0])]
    return [list(group[i : i + size]) for group in groups for i in range(0, len(group), size)]
