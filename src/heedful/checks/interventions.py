"""Interventions: many copies of one text, the attention of each changed somewhere, beside the text as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from heedful.checks.base import Case, Floats, Ints
from heedful.core.tokens import Tokens
from heedful.maths.distances import Changes, changes
from heedful.methods.attention import Share
from heedful.model import huggingface as facts
from heedful.model.batch import beside
from heedful.model.classifier import Classifier
from heedful.model.edits import Edit, Site

if TYPE_CHECKING:
    from heedful.core.finding import Findings, Place


@dataclass(frozen=True)
class Where:
    """Which attention: all of a model's, one layer of a kind, or one head of it."""

    kind: str | None = None
    layer: int | None = None
    head: int | None = None

    def has(self, site: Site) -> bool:
        """Whether a site belongs to it."""
        return self.kind is None or (site.kind == self.kind and site.layer == self.layer)

    @property
    def at(self) -> dict[str, str | int]:
        """For a finding; attention over sentences is told from that over words by its name."""
        layer = "all" if self.layer is None else "sentence" if self.kind == "sentence" else self.layer
        return {"layer": layer, "head": "all" if self.head is None else self.head}


EVERYWHERE = Where()


def layers(classifier: Classifier) -> list[Where]:
    """The layers that read the text, where they are not all of the model's attention."""
    sites = classifier.sites
    if len(sites) == 1:
        return []
    return [Where(kind, layer) for kind, layer in sites if kind in (classifier.reads, "sentence")]


def heads(classifier: Classifier) -> list[Where]:
    """The heads of the layers that read the text, where a layer has several."""
    count = facts.heads(classifier.model, classifier.reads)
    of = [(kind, layer) for kind, layer in classifier.sites if kind == classifier.reads and count > 1]
    return [Where(kind, layer, head) for kind, layer in of for head in range(count)]


@dataclass(frozen=True)
class Movable:
    """Which positions of a site take part: those of the text's tokens, special ones among them or not.

    A network may attend to padding that it adds itself: that keeps its weights.
    """

    tokens: Tokens
    special: bool = True

    def positions(self, kind: str, size: int) -> Bool[Tensor, "t"]:
        """Of the encoder's positions, or of the decoder's, which hold the text shifted by one."""
        own = [self.special or not special for special in self.tokens.special]
        own = [self.special, *own[:-1]] if kind == "decoder" else own
        return torch.tensor([*own, *[False] * (size - len(own))][:size])

    def keys(self, site: Site) -> Bool[Tensor, "b 1 q k"]:
        """The allowed keys that take part."""
        allowed = site.allowed
        return allowed & self.positions(site.kind, allowed.shape[-1]).to(allowed.device)

    def queries(self, site: Site) -> Bool[Tensor, "q"]:
        """The queries that take part: those that may read anything."""
        kind = "decoder" if site.kind in ("decoder", "cross") else site.kind
        some = site.allowed[0, 0].any(-1)
        return some if len(some) == 1 else some & self.positions(kind, len(some)).to(some.device)


@dataclass(frozen=True)
class Copy:
    """A copy of the text whose attention is changed somewhere; `edit` is given the weights [1,h,q,k] of it alone."""

    where: Where
    edit: Edit


@dataclass(frozen=True)
class Outcomes(Changes):
    """How the answer to each copy differs from the answer to the text, and the label that it names."""

    said: Ints
    before: int

    def correct(self, case: Case) -> tuple[Floats, float]:
        """Whether each copy's label is the gold one, and whether the text's is; NaN where there is no gold label."""
        gold = None if case.classifier.head == "regression" else case.gold
        if gold is None:
            return np.full(len(self.said), np.nan), np.nan
        return (self.said == gold).astype(np.float64), float(self.before == gold)


def outcomes(classifier: Classifier, tokens: Tokens, copies: Sequence[Copy]) -> Outcomes:
    """The answers to all copies. Each is compared with the unchanged text in its own batch, so that equal is equal."""
    order = sorted(range(len(copies)), key=lambda i: copies[i].where.layer or 0)
    parts, said, before = [], [], 0
    for part in _parts(order, len(tokens)):
        logits = _logits(classifier, tokens, [copies[i] for i in part])
        parts.append(changes(logits[1:], logits[0], classifier.head))
        said.append(logits[1:].argmax(-1).cpu().numpy())
        before = int(logits[0].argmax())
    back = np.argsort(order)
    joined = {name: np.concatenate([getattr(p, name) for p in parts])[back] for name in ("tvd", "jsd", "flip")}
    return Outcomes(**joined, said=np.concatenate(said)[back], before=before)


def rows(copies: int, width: int) -> int:
    """How many texts `outcomes` sends through the model."""
    return copies + len(list(_parts(range(copies), width)))


def _parts(order: Sequence[int], width: int) -> Iterator[Sequence[int]]:
    """As many copies at a time as fit beside the text."""
    size = beside(width)
    return (order[i : i + size] for i in range(0, len(order), size))


def _logits(classifier: Classifier, tokens: Tokens, copies: Sequence[Copy]) -> Tensor:
    """[1 + n, c]: row 0 is the text as it is. Copies leave it at the first layer that is changed."""
    batch = classifier.batch([tokens])
    starts = [copy.where.layer or 0 for copy in copies]
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(classifier.attention(_together(copies)))
        if classifier.branches:
            return classifier.logits(batch, [(layer, len(list(some))) for layer, some in groupby(starts)])
        return classifier.logits(batch.repeat(1 + len(copies)))


def _together(copies: Sequence[Copy]) -> Edit:
    """The edit of a batch whose first row stays. Where copies branch off later, the last of them are not there yet."""

    def edit(site: Site, weights: Tensor) -> Tensor:
        mine = [(i, c) for i, c in enumerate(copies[: len(weights) - 1], 1) if c.where.has(site)]
        new = weights.clone() if mine else weights
        for i, copy in mine:
            head = copy.where.head
            own = slice(None) if head is None else slice(head, head + 1)
            new[i : i + 1, own] = copy.edit(replace(site, allowed=site.allowed[i : i + 1]), weights[i : i + 1, own])
        return new

    return edit


def pooled_attention(share: Share) -> Floats:
    """[k]: the pooled position's attention at the last layer, mean over heads, as the method attention-mean has it."""
    site = share.reading.layers(share.classifier.reads)[-1]
    found: Floats = (share.queries(site) @ share.weights(site).mean(0)).cpu().numpy()
    return found


# tables


def told(x: Floats, numbers: Iterable[float]) -> dict[str, Any]:
    """How many numbers exist, and what was made of them; None for what does not exist."""
    names = ("mean", "low", "high")
    return {"n": int(np.isfinite(x).sum())} | dict(zip(names, map(json_number, numbers), strict=True))


def mean_told(x: Floats) -> dict[str, Any]:
    """n, mean and its interval."""
    from heedful.maths.stats import mean_interval

    there = x[np.isfinite(x)]
    return told(x, (np.nan,) * 3 if len(there) == 0 else (float(there.mean()), *mean_interval(there)))


def rate_told(x: Floats) -> dict[str, Any]:
    """n, the share of ones and Wilson's interval."""
    from heedful.maths.stats import wilson

    there = x[np.isfinite(x)]
    return told(x, (np.nan,) * 3 if len(there) == 0 else (float(there.mean()), *wilson(int(there.sum()), len(there))))


def spread_told(x: Floats) -> dict[str, Any]:
    """n, median and quartiles."""
    there = x[np.isfinite(x)]
    low, middle, high = np.quantile(there, (0.25, 0.5, 0.75)) if len(there) else (np.nan,) * 3
    return {"n": len(there), "median": json_number(middle), "quartiles": [json_number(low), json_number(high)]}


def by_layer(found: Findings, measure: str) -> list[tuple[Place, Floats]]:
    """The numbers of a measure at each place that is not one head."""
    places = (at for at in found.places(measure) if at.get("head", "all") == "all")
    return [(at, found.values(measure, at=at)) for at in places]


def accuracy(found: Findings, summed: Callable[[Floats], dict[str, Any]]) -> list[dict[str, Any]]:
    """Accuracy as it is ("layer": "none"), and at each place, with how it changes text by text."""
    plain = found.values("correct as it is")
    changed = [{"at": dict(at)} | summed(x) | {"change": mean_told(x - plain)} for at, x in by_layer(found, "correct")]
    return [{"at": {"layer": "none"}} | rate_told(plain), *changed]


def json_number(x: float) -> float | None:
    """NaN and infinity are no JSON."""
    return float(x) if np.isfinite(x) else None
