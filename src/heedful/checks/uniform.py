"""Uniform: how does the output change when attention is uniform, or its softmax is replaced?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from heedful.checks import interventions
from heedful.checks.base import Case, Divergence, Finding, Measure, Passes, Share
from heedful.checks.interventions import WHOLE_MODEL, Copy, Movable, Outcomes, Where
from heedful.checks.tables import PlacedEstimate, UniformTables
from heedful.core.finding import EVERYWHERE, Findings, Highlight, Place, SideBySide
from heedful.core.settings import Checked
from heedful.core.tokens import Tokens
from heedful.maths.activations import ACTIVATIONS, Activation
from heedful.maths.distances import changes
from heedful.methods import Method
from heedful.methods.attention import BatchPart, read_shares
from heedful.model import edits
from heedful.model.classifier import Classifier
from heedful.model.edits import Edit, Site
from heedful.nets.base import Net
from heedful.nets.transformer import with_activation


@dataclass(frozen=True)
class Uniform(Checked):
    """Uniform attention everywhere and in each layer; and other activations in place of the model's own.

    special=False keeps the weights of special tokens, and spreads the rest of each row evenly over the text's tokens.
    `activations` replace the function from scores to weights, everywhere. The logarithm of softmax weights is their
    scores up to a constant, on which no activation depends, so softmax can be replaced in any model. The sparse ones
    lose scores and can be replaced only in heedful's own networks. A model's own activation is skipped.
    """

    special: bool = True
    activations: tuple[Activation, ...] = ("softmax", "entmax15", "sparsemax")

    name: ClassVar[str] = "uniform"
    title: ClassVar[str] = "Uniform attention"
    question: ClassVar[str] = "Does uniform attention change the output?"
    reading: ClassVar[str] = (
        "This shows whether the trained model needs its attention, not whether the task does: nothing is retrained, "
        "and a network outside its training distribution may fail for other reasons. Attention that is already nearly "
        "uniform cannot change the output."
    )
    summary: ClassVar[str] = "change of the output when attention is uniform, or sparse"
    paper: ClassVar[str] = "Wiegreffe & Pinter 2019; Vashishth et al. 2019"
    changes: ClassVar[str] = (
        "every token that a position may attend to gets the same weight, everywhere or in one layer; or softmax, "
        "entmax and sparsemax replace each other; nothing is retrained"
    )
    measures: ClassVar[Mapping[str, Measure]] = {
        "tvd": Share("total variation distance of the output"),
        "jsd": Divergence("Jensen–Shannon divergence of the output"),
        "flip": Share("the predicted label changes", kind="rate"),
        "correct": Share("the gold label is predicted, attention changed", kind="rate"),
        "correct as it is": Share("the gold label is predicted, attention unchanged", kind="rate"),
        "tvd to uniform": Share("total variation distance of pooled attention from uniform, mean over heads"),
    }
    highlights: ClassVar[tuple[Highlight, ...]] = (
        Highlight("tvd", "uniform attention: change of the output (TVD)", at={"layer": "all"}),
        Highlight("correct", "uniform attention: accuracy", at={"layer": "all"}),
    )
    compared: ClassVar[tuple[SideBySide, ...]] = (
        SideBySide(
            "tvd", "change of the output with uniform attention (TVD)", words="change (TVD), uniform", at=EVERYWHERE
        ),
        SideBySide("correct", "accuracy with uniform attention", words="accuracy, uniform", at=EVERYWHERE),
        SideBySide("correct as it is", "accuracy with unchanged attention", words="accuracy, unchanged"),
    )

    def __call__(self, case: Case) -> list[Finding]:
        """Four numbers for each change, and the distance of attention from uniform at each layer."""
        classifier, tokens = case.classifier, case.tokens
        share = read_shares(classifier, [tokens])[1][0]
        edit = uniform_edit(Movable(tokens, self.special))
        others = self._others(classifier)
        edited = others if own_activation(classifier) == "softmax" else []
        where_uniform = [WHOLE_MODEL, *interventions.layers(classifier)]
        places: list[Place] = [*(where.at for where in where_uniform), *({"activation": name} for name in others)]
        copies = [Copy(where, edit) for where in where_uniform]
        copies += [Copy(WHOLE_MODEL, activation_edit(name)) for name in edited]
        moved = interventions.outcomes(classifier, tokens, copies)
        if others and not edited:
            parts = [moved, *(_with_activation(classifier, tokens, name) for name in others)]
            columns = ("tvd", "jsd", "flip", "labels")
            arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in columns}
            moved = Outcomes(**arrays, before=moved.before)
        correct, before = moved.correct(case)
        numbers = {"tvd": moved.tvd, "jsd": moved.jsd, "flip": moved.flip, "correct": correct}
        return [
            Finding(self.name, "", "correct as it is", before),
            *self._distances(share, tokens),
            *(
                Finding(self.name, "", name, float(values[i]), at)
                for i, at in enumerate(places)
                for name, values in numbers.items()
            ),
        ]

    def passes(self, classifier: Classifier, tokens: Tokens, methods: Mapping[str, Method]) -> Passes:
        """The text once with its attention recorded, a copy for each change, and the unchanged text in each batch."""
        others, uniform = len(self._others(classifier)), 1 + len(interventions.layers(classifier))
        if own_activation(classifier) == "softmax":
            return Passes(1 + interventions.count_inputs(uniform + others, len(tokens)))
        return Passes(1 + interventions.count_inputs(uniform, len(tokens)) + 2 * others)

    def tables(self, findings: Findings) -> UniformTables:
        """Accuracy with each change; how far attention is from uniform, layer by layer."""
        distances = interventions.by_layer(findings, "tvd to uniform")
        rows = [PlacedEstimate(**asdict(interventions.estimate_finite(x)), at=at) for at, x in distances]
        return UniformTables(interventions.accuracy_by_place(findings, "rate"), tuple(rows))

    def _others(self, classifier: Classifier) -> list[Activation]:
        """The activations that replace the model's own."""
        return [name for name in self.activations if name != own_activation(classifier)]

    def _distances(self, share: BatchPart, tokens: Tokens) -> list[Finding]:
        """At every layer over the text's tokens, the distance of the pooled row from uniform."""
        edit = uniform_edit(Movable(tokens, self.special))
        kinds = (share.classifier.main_kind, "sentence")
        sites = {Where(site.kind, site.layer): site for site in share.reading.weights if site.kind in kinds}
        findings = []
        for where, site in sites.items():
            weights = share.reading.weights[site].detach()
            # ½ Σ |α − edited α|: mean over heads, and over queries by their share in what is pooled
            tvd = (weights.cpu().double() - edit(site, weights).cpu().double()).abs().sum(-1)[0].mean(0) / 2
            distance = float(share.queries(site) @ (tvd[share.at] if len(tvd) > 1 else tvd))
            findings.append(Finding(self.name, "", "tvd to uniform", distance, where.at))
        return findings


def own_activation(classifier: Classifier) -> Activation:
    """The model's function from scores to weights: softmax, unless one of heedful's networks has another."""
    config: Any = classifier.config if isinstance(classifier.model, Net) else None
    activation: Activation = getattr(config, "activation", "softmax")
    return activation


def uniform_edit(movable: Movable) -> Edit:
    """The weight that a row gives to the movable positions, spread evenly over them."""

    def edit(site: Site, weights: Tensor) -> Tensor:
        free = movable.keys(site)
        if torch.equal(free, site.allowed):
            return edits.uniform(site, weights)
        mass = (weights * free).sum(-1, keepdim=True) / free.sum(-1, keepdim=True).clamp(min=1)
        return torch.where(free, mass.to(weights.dtype), weights)

    return edit


def activation_edit(name: Activation) -> Edit:
    """Another activation of the scores of a softmax, which are the logarithm of its weights up to a constant."""

    def edit(site: Site, weights: Tensor) -> Tensor:
        scores = weights.log().masked_fill(~site.allowed, -torch.inf)
        return ACTIVATIONS[name](scores, -1).nan_to_num(0.0)  # a row without an allowed key

    return edit


def _with_activation(classifier: Classifier, tokens: Tokens, name: Activation) -> Outcomes:
    """The output of the network with another activation, compared with its own."""
    with classifier.lock:
        other = Classifier(with_activation(classifier.model, name), classifier.tokenizer, name=classifier.name)
    batch = classifier.batch([tokens])
    with torch.no_grad():
        before, after = classifier.logits(batch), other.logits(batch)
    classifier.forwards += other.forwards
    change = changes(after, before[0], classifier.head)
    labels = after.argmax(-1).cpu().numpy()
    return Outcomes(change.tvd, change.jsd, change.flip, labels, int(before[0].argmax()))
