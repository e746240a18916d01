"""Opening: the attention that a classifier's answer is read with, what it weighs, and answers under other weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from heedful.checks.base import Case, Floats
from heedful.core.errors import Unsupported
from heedful.maths.adversary import Problem
from heedful.maths.distances import changes
from heedful.methods.attention import Layer, chosen, kind_of, two_levels
from heedful.methods.base import array
from heedful.model import seam
from heedful.model.batch import Batch, beside
from heedful.model.classifier import Classifier, Reading
from heedful.model.edits import Site, at
from heedful.nets.single import Attended

EXACT = 1e-5  # how far logits may be from affine ones, as a share of the largest


def last_kind(classifier: Classifier) -> str:
    """The kind of attention that the head reads: over sentences, where there is one."""
    return "sentence" if two_levels(classifier) else kind_of(classifier, None)


@dataclass(frozen=True)
class Row:
    """Other weights [heads,k] for one query of some heads."""

    heads: tuple[int, ...]
    query: int
    weights: Floats


@dataclass(frozen=True)
class Opened:
    """One text at one attention site: weights [h,k] of the query that is pooled, over the `keys` that it may read.

    Where several positions are pooled, one of them is drawn.
    """

    case: Case
    batch: Batch
    reading: Reading
    site: Site
    query: int
    keys: Tensor
    attention: Floats

    @property
    def alone(self) -> bool:
        """Whether the layer has one query, not one per token."""
        return self.site.allowed.shape[2] == 1

    @property
    def logits(self) -> Floats:
        """[c]."""
        return array(self.reading.logits[0])

    @property
    def eps(self) -> float:
        """The precision of what the model computes."""
        return float(torch.finfo(self.reading.weights[self.site].dtype).eps)

    def released(self) -> Opened:
        """The same without the history of its forward pass, which takes far more memory than all else."""
        seen = {self.site: self.reading.weights[self.site].detach()}
        return replace(self, reading=Reading(self.reading.logits.detach(), seen, {}, self.reading.pooled.detach()))

    def spread(self, weights: Floats) -> Floats:
        """[…,n] over the keys -> […,k] over all positions, 0 elsewhere."""
        full = np.zeros((*weights.shape[:-1], self.site.allowed.shape[-1]))
        full[..., self.keys.cpu().numpy()] = weights
        return full

    def row(self, head: int, weights: Floats) -> Row:
        """Weights [n] of one head."""
        return Row((head,), self.query, self.spread(weights[None]))

    def rows(self, weights: Floats) -> list[Row]:
        """Weights [m,h,n] of all heads."""
        return [Row(tuple(range(len(one))), self.query, self.spread(one)) for one in weights]

    def answers(self, rows: Sequence[Row]) -> Tensor:
        """Logits [1+m,c]: of the text as it is, then with each row's weights; each batch is compared with its own."""
        size = beside(self.batch.ids.shape[1])
        parts = [self._answers(rows[i : i + size]) for i in range(0, len(rows), size)]
        return torch.cat([parts[0][:1], *[part[1:] for part in parts]])

    def _answers(self, rows: Sequence[Row]) -> Tensor:
        def edit(_: Site, weights: Tensor) -> Tensor:
            new = weights.clone()
            for i, row in enumerate(rows, 1):
                new[i, list(row.heads), row.query] = torch.from_numpy(row.weights).to(new)
            return new

        clf = self.case.classifier
        with torch.no_grad(), clf.attention(at(edit, [self.site.layer], self.site.kind)):
            return clf.logits(self.batch, branch=((self.site.layer, len(rows)),)).double().cpu()

    def changes(self, rows: Sequence[Row]) -> Floats:
        """[m]: how far the model's real output moves."""
        if not rows:
            return np.zeros(0)
        answers = self.answers(rows)
        return changes(answers[1:], answers[0], self.case.classifier.head).tvd

    def values(self, head: int) -> Floats:
        """[n,d]: the vectors that this head's weights mix."""
        found = self.reading.values.get(self.site)
        if found is None:
            clf = self.case.classifier
            raise Unsupported(f"{clf.name}: the value vectors of layer {self.site.layer} were not seen.")
        return array(found[0, head, self.keys])

    def mapped(self) -> Floats:
        """The same for a lone head, after the linear map that reads it, where one was seen: all that is used of it."""
        projection = self.reading.projections.get(self.site)
        return self.values(0) if projection is None else self.values(0) @ array(projection.weight[0])


def passed(rows: int, width: int) -> int:
    """How many texts go through the model for the answers with so many rows."""
    return rows + -(-rows // beside(width))


def opened(case: Case, layer: Layer) -> list[Opened]:
    """The text at the sites of this layer, or of all; from one forward pass."""
    clf = case.classifier
    kind = last_kind(clf)
    batch = clf.batch([case.tokens])
    reading = clf.read(batch, values=True)
    sites = chosen(reading.layers(kind), layer)
    return [_opened(case, batch, reading, site) for site in sites]


def _opened(case: Case, batch: Batch, reading: Reading, site: Site) -> Opened:
    query = 0
    if site.allowed.shape[2] > 1:
        pooled = reading.pooled[0].nonzero()[:, 0]
        query = int(pooled[torch.randint(len(pooled), (), generator=case.rng("adversarial", "query"))])
    keys = site.allowed[0, 0, query].nonzero()[:, 0]
    attention = array(reading.weights[site][0, :, query, keys])
    total = attention.sum(-1, keepdims=True)
    if len(keys) and np.abs(total - 1).max() > 0.01:
        raise Unsupported(
            f"{case.classifier.name}: the attention of layer {site.layer} sums to {total.min():.3g}, not to one."
        )
    return Opened(case, batch, reading, site, query, keys, attention / total)


def affine(text: Opened) -> Problem | None:
    """Logits as a function of a lone query's weights; None where they are not affine in them.

    The slope of an affine function is found at one point; that it is one is tried at others.
    """
    clf, of, by = text.case.classifier, text.reading.logits[0], text.reading.weights[text.site]
    clf.backwards += len(of)
    slopes = [torch.autograd.grad(z, by, retain_graph=True, allow_unused=True)[0] for z in of]  # type: ignore[no-untyped-call, unused-ignore]
    effects = torch.stack([torch.zeros_like(by) if g is None else g for g in slopes], -1)[0, :, 0, text.keys]
    problem = Problem(text.attention, array(effects), text.logits, clf.head)
    probes = _probes(text, problem)
    said, real = problem.answers(probes), text.answers(text.rows(probes))[1:].numpy()
    allowed = max(EXACT, 8 * text.eps) * max(1.0, float(np.abs(real).max()))
    return problem if float(np.abs(said - real).max()) <= allowed else None


def _probes(text: Opened, problem: Problem) -> Floats:
    """Three attentions: a random one, and all on the token of the least, or of the largest, effect in each head."""
    h, n = text.attention.shape
    chance = torch.rand(h, n, generator=text.case.rng("adversarial", "probe"), dtype=torch.float64).numpy()
    ends = (problem.effects[..., 0].argmin(1), problem.effects[..., 0].argmax(1))
    return np.stack([chance / chance.sum(1, keepdims=True), *(np.eye(n)[end] for end in ends)])


def decoder(text: Opened) -> Callable[[Tensor], Tensor] | None:
    """What the papers' networks make of a text's attention [1,m,1,n], without its encoder; None in other models."""
    clf = text.case.classifier
    if not isinstance(clf.model, Attended):
        return None
    with torch.no_grad(), seam.quietly(clf.model):
        encoded = clf.model.encoded(text.batch.ids, text.batch.mask, text.batch.segments)
    states = encoded.states[0, text.keys]

    def decode(attention: Tensor) -> Tensor:
        with seam.quietly(clf.model):
            made: Tensor = clf.model.decoded(attention[0, :, 0].to(states) @ states, encoded)
        return made[None].double()

    own = decode(torch.from_numpy(text.attention)[None, None])[0, 0]
    same = own.shape == text.reading.logits[0].shape and np.allclose(array(own), text.logits, rtol=1e-4, atol=1e-4)
    return decode if same else None
