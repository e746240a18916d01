"""Interventions: outputs for copies of one text with changed attention, compared with the unchanged text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from heedful.checks.base import Case
from heedful.checks.tables import PlacedEstimate
from heedful.core.arrays import Floats, Ints
from heedful.core.finding import CORRELATION, FRACTION, Findings, Place
from heedful.core.tokens import Tokens
from heedful.maths.distances import Changes, changes
from heedful.maths.stats import Estimate, MeasureKind, Range, estimate
from heedful.model import huggingface
from heedful.model.batch import copies_per_batch
from heedful.model.classifier import Classifier
from heedful.model.edits import Edit, Site


@dataclass(frozen=True)
class Where:
    """Where attention is changed: everywhere, in one layer of a kind, or in one head of it."""

    kind: str | None = None
    layer: int | None = None
    head: int | None = None

    def has(self, site: Site) -> bool:
        """Whether a site belongs to it."""
        return self.kind is None or (site.kind == self.kind and site.layer == self.layer)

    @property
    def at(self) -> dict[str, str | int]:
        """The place of a finding; attention over sentences has the layer "sentence"."""
        layer = "all" if self.layer is None else "sentence" if self.kind == "sentence" else self.layer
        return {"layer": layer, "head": "all" if self.head is None else self.head}


WHOLE_MODEL = Where()


def layers(classifier: Classifier) -> list[Where]:
    """The layers that attend to the text's tokens; none if the model has a single attention."""
    sites = classifier.sites
    if len(sites) == 1:
        return []
    return [Where(kind, layer) for kind, layer in sites if kind in (classifier.main_kind, "sentence")]


def head_places(classifier: Classifier) -> list[Where]:
    """The heads of the layers that attend to the text's tokens, where a layer has several."""
    count = huggingface.head_count(classifier.model, classifier.main_kind)
    sites = [(kind, layer) for kind, layer in classifier.sites if kind == classifier.main_kind and count > 1]
    return [Where(kind, layer, head) for kind, layer in sites for head in range(count)]


@dataclass(frozen=True)
class Movable:
    """The positions of a site whose attention is changed: those of the text's tokens, with or without special ones.

    A network may attend to padding that it adds itself; the padding keeps its weights, and so do the words of a prompt.
    """

    tokens: Tokens
    special: bool = True

    def positions(self, kind: str, size: int) -> Bool[Tensor, "t"]:
        """Which of the encoder's positions, or of the decoder's, where the text is shifted by one."""
        prompt = self.tokens.prompt or (False,) * len(self.tokens)
        pairs = zip(self.tokens.special, prompt, strict=True)
        movable = [not of_prompt and (self.special or not special) for special, of_prompt in pairs]
        movable = [self.special, *movable[:-1]] if kind == "decoder" else movable
        return torch.tensor([*movable, *[False] * (size - len(movable))][:size])

    def keys(self, site: Site) -> Bool[Tensor, "b 1 q k"]:
        """The allowed keys that are movable."""
        allowed = site.allowed
        return allowed & self.positions(site.kind, allowed.shape[-1]).to(allowed.device)

    def queries(self, site: Site) -> Bool[Tensor, "q"]:
        """The movable queries that may attend to anything."""
        kind = "decoder" if site.kind in ("decoder", "cross") else site.kind
        active = site.allowed[0, 0].any(-1)
        return active if len(active) == 1 else active & self.positions(kind, len(active)).to(active.device)


@dataclass(frozen=True)
class Copy:
    """A copy of the text whose attention is changed somewhere; `edit` is given the weights [1,h,q,k] of it alone."""

    where: Where
    edit: Edit


@runtime_checkable
class JointEdit(Protocol):
    """An edit that changes several copies at once, each as it would change it alone."""

    def __call__(self, site: Site, weights: Tensor) -> Tensor:
        """The weights [1,h,q,k] of one copy."""
        ...

    def many(self, edits: Sequence[Any], site: Site, weights: Tensor) -> Tensor:
        """The weights [n,h,q,k] of n copies of one text, by an edit for each."""
        ...


@dataclass(frozen=True)
class Outcomes(Changes):
    """The change of each copy's output from that of the text, its predicted label, and the text's."""

    labels: Ints
    before: int

    def correct(self, case: Case) -> tuple[Floats, float]:
        """Whether each copy's label is the gold one, and whether the text's is; NaN where there is no gold label."""
        gold = None if case.classifier.head == "regression" else case.gold
        if gold is None:
            return np.full(len(self.labels), np.nan), np.nan
        return (self.labels == gold).astype(np.float64), float(self.before == gold)


def outcomes(classifier: Classifier, tokens: Tokens, copies: Sequence[Copy]) -> Outcomes:
    """Outputs of all copies. Each is compared with the unchanged text in the same batch: batches differ by rounding."""
    order = sorted(range(len(copies)), key=lambda i: copies[i].where.layer or 0)
    batches, labels, before = [], [], 0
    for batch in _batches(order, len(tokens)):
        logits = _logits(classifier, tokens, [copies[i] for i in batch])
        batches.append(changes(logits[1:], logits[0], classifier.head))
        labels.append(logits[1:].argmax(-1).cpu().numpy())
        before = int(logits[0].argmax())
    back = np.argsort(order)
    columns = {name: np.concatenate([getattr(b, name) for b in batches])[back] for name in ("tvd", "jsd", "flip")}
    return Outcomes(**columns, labels=np.concatenate(labels)[back], before=before)


def count_inputs(copies: int, width: int) -> int:
    """How many texts `outcomes` sends through the model."""
    return copies + len(list(_batches(range(copies), width)))


def _batches(order: Sequence[int], width: int) -> Iterator[Sequence[int]]:
    """As many copies at a time as fit into a batch with the unchanged text."""
    size = copies_per_batch(width)
    return (order[i : i + size] for i in range(0, len(order), size))


def _logits(classifier: Classifier, tokens: Tokens, copies: Sequence[Copy]) -> Tensor:
    """[1 + n, c]: row 0 is the unchanged text. Copies branch off at the first layer that is changed."""
    batch = classifier.batch([tokens])
    starts = [copy.where.layer or 0 for copy in copies]
    with torch.no_grad(), classifier.attention(_batch_edit(copies)):
        if classifier.can_branch:
            return classifier.logits(batch, [(layer, len(list(same))) for layer, same in groupby(starts)])
        return classifier.logits(batch.repeat(1 + len(copies)))


def _batch_edit(copies: Sequence[Copy]) -> Edit:
    """The edit of a batch whose first row is unchanged. Copies that branch off at a later layer join it there."""

    def edit(site: Site, weights: Tensor) -> Tensor:
        affected = [(i, c) for i, c in enumerate(copies[: len(weights) - 1], 1) if c.where.has(site)]
        new = weights.clone() if affected else weights
        for start, group in _runs(affected):
            head, first = group[0].where.head, group[0].edit
            rows, heads = slice(start, start + len(group)), slice(None) if head is None else slice(head, head + 1)
            part = replace(site, allowed=site.allowed[rows])
            if isinstance(first, JointEdit):
                new[rows, heads] = first.many([copy.edit for copy in group], part, weights[rows, heads])
            else:
                new[rows, heads] = first(part, weights[rows, heads])
        return new

    return edit


def _runs(affected: Sequence[tuple[int, Copy]]) -> list[tuple[int, list[Copy]]]:
    """Neighbouring rows that a joint edit changes at the same place, and single rows for other edits."""
    runs: list[tuple[int, list[Copy]]] = []
    for i, copy in affected:
        start, group = runs[-1] if runs else (0, [])
        joint = isinstance(copy.edit, JointEdit) and start + len(group) == i
        if group and joint and group[0].where == copy.where and type(group[0].edit) is type(copy.edit):
            group.append(copy)
        else:
            runs.append((i, [copy]))
    return runs


# tables


def estimate_finite(x: Floats, kind: MeasureKind = "mean", within: Range | None = FRACTION) -> Estimate:
    """The estimate of the finite numbers."""
    return estimate(x[np.isfinite(x)], kind, within)


def by_layer(findings: Findings, measure: str) -> list[tuple[Place, Floats]]:
    """The numbers of a measure at each place that is not one head."""
    places = (at for at in findings.places(measure) if at.get("head", "all") == "all")
    return [(at, findings.values(measure, at=at)) for at in places]


def accuracy_by_place(findings: Findings, kind: MeasureKind) -> tuple[PlacedEstimate, ...]:
    """Accuracy with unchanged attention ("layer": "none"), and at each place, with its change text by text."""
    plain = findings.values("correct as it is")
    places = [
        PlacedEstimate(**asdict(estimate_finite(x, kind)), at=at, change=estimate_finite(x - plain, within=CORRELATION))
        for at, x in by_layer(findings, "correct")
    ]
    return (PlacedEstimate(**asdict(estimate_finite(plain, "rate")), at={"layer": "none"}), *places)
