"""Uniform: what becomes of the answer when attention is made uniform, or its softmax exchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from heedful.checks.base import Case, Finding, Measure, Passes
from heedful.checks.interventions import (
    EVERYWHERE,
    Copy,
    Movable,
    Outcomes,
    Where,
    accuracy,
    by_layer,
    layers,
    mean_told,
    outcomes,
    rate_told,
    rows,
)
from heedful.core.finding import Place
from heedful.core.settings import Checked
from heedful.core.tokens import Tokens
from heedful.maths.activations import ACTIVATIONS, Activation
from heedful.maths.distances import changes
from heedful.methods import Method
from heedful.methods.attention import Share, laid_open
from heedful.model import edits
from heedful.model.classifier import Classifier
from heedful.model.edits import Edit, Site
from heedful.nets.base import Net
from heedful.nets.transformer import with_activation

if TYPE_CHECKING:
    from heedful.core.finding import Findings


@dataclass(frozen=True)
class Uniform(Checked):
    """Attention made uniform everywhere and in each layer; and other activations in place of the model's own.

    special=False leaves the weights of special tokens, and spreads the rest of each row evenly over the text's tokens.
    `activations` exchanges what makes weights of scores, everywhere. Softmax has its scores in the logarithm of its
    weights, but for a constant that none of the activations sees, so it can be exchanged in any model. The sparse ones
    forget scores: they can be exchanged only in a network that knows how to. A model's own activation is left out.
    """

    special: bool = True
    activations: tuple[Activation, ...] = ("softmax", "entmax15", "sparsemax")

    summary: ClassVar[str] = "change of the answer when attention is uniform, or sparse"
    paper: ClassVar[str] = "Wiegreffe & Pinter 2019; Vashishth et al. 2019"
    changes: ClassVar[str] = (
        "Every token that a position may see gets the same attention, everywhere or in one layer; or softmax, entmax "
        "and sparsemax take each other's place. Nothing is trained again."
    )
    measures: ClassVar[Mapping[str, Measure]] = {
        "tvd": Measure("total variation distance of the answer"),
        "jsd": Measure("Jensen–Shannon divergence of the answer"),
        "flip": Measure("the predicted label changes", kind="rate"),
        "correct": Measure("the gold label is predicted, attention changed", kind="rate"),
        "correct as it is": Measure("the gold label is predicted, attention unchanged", kind="rate"),
        "tvd to uniform": Measure("total variation distance of pooled attention from uniform, mean over heads"),
    }

    def __call__(self, case: Case) -> list[Finding]:
        """Four numbers for each change, and how far attention is from uniform at each layer."""
        classifier, tokens = case.classifier, case.tokens
        share = laid_open(classifier, [tokens])[1][0]
        edit = flattening(Movable(tokens, self.special))
        own, others = own_activation(classifier), self._others(classifier)
        edited = others if own == "softmax" else []
        places: list[Place] = [EVERYWHERE.at, *(w.at for w in layers(classifier)), *map(_named, others)]
        copies = [Copy(EVERYWHERE, edit), *(Copy(where, edit) for where in layers(classifier))]
        found = outcomes(classifier, tokens, [*copies, *(Copy(EVERYWHERE, activating(name)) for name in edited)])
        if others and not edited:
            found = _joined(found, [_exchanged(classifier, tokens, name) for name in others])
        correct, before = found.correct(case)
        numbers = {"tvd": found.tvd, "jsd": found.jsd, "flip": found.flip, "correct": correct}
        return [
            Finding("uniform", "", "correct as it is", before),
            *self._distances(share, tokens),
            *(
                Finding("uniform", "", name, float(values[i]), at)
                for i, at in enumerate(places)
                for name, values in numbers.items()
            ),
        ]

    def passes(self, classifier: Classifier, tokens: Tokens, methods: Mapping[str, Method]) -> Passes:
        """The text laid open, a copy for each change, and the text beside them."""
        others, flat = len(self._others(classifier)), 1 + len(layers(classifier))
        if own_activation(classifier) == "softmax":
            return Passes(1 + rows(flat + others, len(tokens)))
        return Passes(1 + rows(flat, len(tokens)) + 2 * others)

    def tables(self, found: Findings) -> dict[str, Any]:
        """Accuracy with each change; how far attention is from uniform, layer by layer."""
        return {
            "accuracy": accuracy(found, rate_told),
            "distance": [{"at": dict(at)} | mean_told(x) for at, x in by_layer(found, "tvd to uniform")],
        }

    def _others(self, classifier: Classifier) -> list[Activation]:
        """The activations that are to take the place of the model's own."""
        return [name for name in self.activations if name != own_activation(classifier)]

    def _distances(self, share: Share, tokens: Tokens) -> list[Finding]:
        """At every layer that reads the text, how much of a pooled row would have to move for it to be uniform."""
        edit = flattening(Movable(tokens, self.special))
        kinds = (share.classifier.reads, "sentence")
        sites = {Where(site.kind, site.layer): site for site in share.reading.weights if site.kind in kinds}
        return [
            Finding("uniform", "", "tvd to uniform", _distance(share, site, edit), where.at)
            for where, site in sites.items()
        ]


def own_activation(classifier: Classifier) -> Activation:
    """What makes weights of this model's scores: softmax, unless a network of heedful says otherwise."""
    config: Any = classifier.config if isinstance(classifier.model, Net) else None
    own: Activation = getattr(config, "activation", "softmax")
    return own


def flattening(movable: Movable) -> Edit:
    """What a row gives to the positions that take part, spread evenly over them."""

    def edit(site: Site, weights: Tensor) -> Tensor:
        free = movable.keys(site)
        if torch.equal(free, site.allowed):
            return edits.uniform(site, weights)
        mass = (weights * free).sum(-1, keepdim=True) / free.sum(-1, keepdim=True).clamp(min=1)
        return torch.where(free, mass.to(weights.dtype), weights)

    return edit


def activating(name: Activation) -> Edit:
    """Another activation of the scores of a softmax: the logarithm of its weights, but for a constant."""

    def edit(site: Site, weights: Tensor) -> Tensor:
        scores = weights.log().masked_fill(~site.allowed, -torch.inf)
        return ACTIVATIONS[name](scores, -1).nan_to_num(0.0)  # a row without an allowed key

    return edit


def _distance(share: Share, site: Site, edit: Edit) -> float:
    """½ Σ |α − edited α|: mean over heads, and over queries by their share in what is pooled."""
    weights = share.reading.weights[site].detach()
    apart = (weights.double() - edit(site, weights).double()).abs().sum(-1)[0].mean(0) / 2
    own = apart[share.at] if len(apart) > 1 else apart
    return float(share.queries(site) @ own)


def _exchanged(classifier: Classifier, tokens: Tokens, name: Activation) -> Outcomes:
    """The answer of the network with another activation, compared with its own."""
    with classifier.lock:
        other = Classifier(with_activation(classifier.model, name), classifier.tokenizer, name=classifier.name)
    batch = classifier.batch([tokens])
    with torch.no_grad():
        before, after = classifier.logits(batch), other.logits(batch)
    classifier.forwards += other.forwards
    change = changes(after, before[0], classifier.head)
    said = after.argmax(-1).cpu().numpy()
    return Outcomes(change.tvd, change.jsd, change.flip, said, int(before[0].argmax()))


def _joined(first: Outcomes, more: Sequence[Outcomes]) -> Outcomes:
    """One after the other."""
    names = ("tvd", "jsd", "flip", "said")
    parts = {name: np.concatenate([getattr(part, name) for part in (first, *more)]) for name in names}
    return Outcomes(**parts, before=first.before)


def _named(activation: Activation) -> Place:
    return {"activation": activation}
