"""Lines: a target on the way from no attention at a layer to the model's own, for several layers at once.

A point is a layer and the number that its attention is multiplied with. A pass takes the text, and a copy of it for
each point. Where the model can, copies branch off the text at their layer, and then one pass serves all layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import torch
from torch import Tensor

from heedful.core.target import Target
from heedful.model.batch import BUDGET, Batch
from heedful.model.classifier import Classifier
from heedful.model.edits import Site, tracked

Point = tuple[int, float]
Quadrature = tuple[Tensor, Tensor]  # nodes on [0, 1] and their weights


class Lines:
    """Values and gradients of a target at points of such lines, each computed once."""

    def __init__(self, classifier: Classifier, batch: Batch, target: Target, places: tuple[str, Sequence[int]]) -> None:
        self.classifier, self.batch, self.target = classifier, batch, target
        self.kind, self.layers = places
        self.weights: dict[int, Tensor] = {}  # [1,h,q,k], the model's own
        self.values: dict[Point, float] = {}
        self.slopes: dict[Point, Tensor] = {}
        self.rounding = 0.0  # how far it may move a logit

    def visit(self, points: Iterable[Point], slopes: bool = True) -> None:
        """Values and, if wanted, gradients at these points."""
        new = sorted(set(points) - set(self.slopes if slopes else self.values))
        ends = any(node == 1.0 for _, node in new)
        joint = self.classifier.branches
        passes = parts([point for point in new if point[1] != 1.0], self.batch.ids.shape[1], joint)
        if not self.weights and not (joint and passes):
            passes = [[], *passes]
        for i, part in enumerate(passes):
            self._run(part, slopes, ends and i == 0)

    def _run(self, points: Sequence[Point], slopes: bool, ends: bool) -> None:
        """One pass. Row 0 is the text itself where copies branch off it, or there are none."""
        first = self.classifier.branches or not points
        edit = _Scaled(self, points, ends)
        with torch.set_grad_enabled(slopes), self.classifier.attention(edit):
            if first:
                logits = self.classifier.logits(self.batch, [(layer, len(at)) for layer, at in edit.nodes.items()])
            else:
                logits = self.classifier.logits(self.batch.repeat(len(points)))
            values = self.target.of(logits.double(), self.classifier.head)
            if slopes:
                wanted = values if ends or not first else values[1:]
                edit.keep(self.classifier.gradient(wanted, [*edit.ends.values(), *edit.leaves.values()]))
        told = values.tolist()
        if first:
            self.values = {(layer, 1.0): told[0] for layer in self.layers} | self.values
            self.rounding = 8 * torch.finfo(logits.dtype).eps * float(logits[0].detach().abs().max())
        self.values |= dict(zip(points, told[first:], strict=True))

    def integral(self, layer: int, rule: Quadrature) -> Tensor:
        """[h,q,k]: A ⊙ Σ wᵢ ∂f(αᵢA)/∂A, in float64."""
        nodes, weights = (x.tolist() for x in rule)
        own = self.weights[layer][0].double()
        total = torch.zeros_like(own)
        for node, weight in zip(nodes, weights, strict=True):
            total += weight * self.slopes[layer, node].double()
        return total * own

    def forget(self, layers: Sequence[int]) -> None:
        """Drop all gradients but those of these layers."""
        self.slopes = {point: slope for point, slope in self.slopes.items() if point[0] in layers}


class _Scaled:
    """The edit of one pass: the last rows of a layer's batch are the points of that layer, as a leaf of the graph.

    The text's own weights are put down where they are not known yet. At the ends of all lines attention is the model's
    own, so with `track` the text's row gives the gradients of them all.
    """

    def __init__(self, lines: Lines, points: Sequence[Point], track: bool) -> None:
        self.lines, self.track = lines, track
        self.nodes = {layer: [node for _, node in own] for layer, own in groupby(points, lambda point: point[0])}
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
        """Gradients with respect to the ends, then the leaves, go to their lines."""
        kept, n = self.lines.slopes, len(self.ends)
        kept |= {(layer, 1.0): slope[0] for layer, slope in zip(self.ends, slopes[:n], strict=True)}
        for layer, slope in zip(self.leaves, slopes[n:], strict=True):
            kept |= {(layer, node): own for node, own in zip(self.nodes[layer], slope, strict=True)}


def parts(points: Sequence[Point], width: int, joint: bool) -> list[list[Point]]:
    """Which points to compute in one pass: of all layers, beside the text that they branch off; or of one layer."""
    size = max(1, BUDGET // width - joint)
    groups = [points] if joint else [list(own) for _, own in groupby(points, lambda point: point[0])]
    return [list(group[i : i + size]) for group in groups for i in range(0, len(group), size)]
