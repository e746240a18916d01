"""The attention of the query that the output is computed from, and the model's real output under other weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from heedful.checks.base import Case
from heedful.core.arrays import Floats
from heedful.core.errors import Unsupported
from heedful.core.target import largest_logit
from heedful.maths.adversary import Problem
from heedful.maths.distances import changes
from heedful.methods.attention import LayerChoice, kind_of, sites_of, two_levels
from heedful.methods.base import array
from heedful.model import seam
from heedful.model.batch import Batch, copies_per_batch
from heedful.model.classifier import Classifier, Reading
from heedful.model.edits import Site, at
from heedful.nets.single import Attended

AFFINE_TOLERANCE = 1e-5  # how far logits may be from affine ones, as a share of the largest


def last_kind(classifier: Classifier) -> str:
    """The kind of attention that the head reads: over sentences, where there is one."""
    return "sentence" if two_levels(classifier) else kind_of(classifier, None)


@dataclass(frozen=True)
class AttentionRow:
    """Other weights [heads,k] for one query of some heads."""

    heads: tuple[int, ...]
    query: int
    weights: Floats


@dataclass(frozen=True)
class QueryAttention:
    """One text at one attention site: weights [h,k] of the pooled query over the `keys` that it may attend to.

    Where several positions are pooled, one of them is drawn at random.
    """

    case: Case
    batch: Batch
    reading: Reading
    site: Site
    query: int
    keys: Tensor
    attention: Floats

    @property
    def single_query(self) -> bool:
        """Whether the layer has a single query, not one per token."""
        return self.site.allowed.shape[2] == 1

    @property
    def logits(self) -> Floats:
        """[c]."""
        return array(self.reading.logits[0])

    @property
    def eps(self) -> float:
        """The machine epsilon of the model's own precision."""
        return float(torch.finfo(self.reading.weights[self.site].dtype).eps)

    def detached(self) -> QueryAttention:
        """The same without the autograd graph of its forward pass, which takes most of the memory."""
        weights = {self.site: self.reading.weights[self.site].detach()}
        return replace(self, reading=Reading(self.reading.logits.detach(), weights, {}, self.reading.pooled.detach()))

    def spread(self, weights: Floats) -> Floats:
        """[…,n] over the keys -> […,k] over all positions, 0 elsewhere."""
        full = np.zeros((*weights.shape[:-1], self.site.allowed.shape[-1]))
        full[..., self.keys.cpu().numpy()] = weights
        return full

    def row(self, head: int, weights: Floats) -> AttentionRow:
        """Weights [n] of one head."""
        return AttentionRow((head,), self.query, self.spread(weights[None]))

    def rows(self, weights: Floats) -> list[AttentionRow]:
        """Weights [m,h,n] of all heads."""
        return [AttentionRow(tuple(range(len(heads))), self.query, self.spread(heads)) for heads in weights]

    def answers(self, rows: Sequence[AttentionRow]) -> Tensor:
        """Logits [1+m,c]: of the unchanged text, then with each row's weights."""
        size = copies_per_batch(self.batch.ids.shape[1])
        parts = [self._answers(rows[i : i + size]) for i in range(0, len(rows), size)]
        return torch.cat([parts[0][:1], *[part[1:] for part in parts]])

    def _answers(self, rows: Sequence[AttentionRow]) -> Tensor:
        def edit(_: Site, weights: Tensor) -> Tensor:
            new = weights.clone()
            for i, row in enumerate(rows, 1):
                new[i, list(row.heads), row.query] = torch.from_numpy(row.weights).to(new)
            return new

        clf = self.case.classifier
        with torch.no_grad(), clf.attention(at(edit, [self.site.layer], self.site.kind)):
            return clf.logits(self.batch, branch=((self.site.layer, len(rows)),)).cpu().double()

    def changes(self, rows: Sequence[AttentionRow]) -> Floats:
        """[m]: the change of the model's real output (TVD)."""
        if not rows:
            return np.zeros(0)
        logits = self.answers(rows)
        return changes(logits[1:], logits[0], self.case.classifier.head).tvd

    def values(self, head: int) -> Floats:
        """[n,d]: the vectors that this head's weights mix."""
        values = self.reading.values.get(self.site)
        if values is None:
            clf = self.case.classifier
            raise Unsupported(f"the value vectors of layer {self.site.layer} could not be recorded.", clf.name)
        return array(values[0, head, self.keys])

    def projected(self) -> Floats:
        """The same for a single head, after the output projection if one was seen."""
        projection = self.reading.projections.get(self.site)
        return self.values(0) if projection is None else self.values(0) @ array(projection.weight[0])


def forward_count(rows: int, width: int) -> int:
    """Texts that go through the model for `answers` with this many rows."""
    return rows + -(-rows // copies_per_batch(width))


def query_attentions(case: Case, layer: LayerChoice) -> list[QueryAttention]:
    """The text at the sites of this layer, or of all layers; from one forward pass."""
    clf, kind = case.classifier, last_kind(case.classifier)
    batch = clf.batch([case.tokens])
    reading = clf.read(batch, values=True)
    return [_query_attention(case, batch, reading, site) for site in sites_of(reading.layers(kind), layer)]


def _query_attention(case: Case, batch: Batch, reading: Reading, site: Site) -> QueryAttention:
    query = 0
    if site.allowed.shape[2] > 1:
        pooled = reading.pooled[0].nonzero()[:, 0]
        query = int(pooled[torch.randint(len(pooled), (), generator=case.rng("adversarial", "query"))])
    keys = site.allowed[0, 0, query].nonzero()[:, 0]
    attention = array(reading.weights[site][0, :, query, keys])
    total = attention.sum(-1, keepdims=True)
    if len(keys) and np.abs(total - 1).max() > 0.01:
        reason = f"the attention of layer {site.layer} sums to {total.min():.3g}, not to one."
        raise Unsupported(reason, case.classifier.name)
    return QueryAttention(case, batch, reading, site, query, keys, attention / total)


def affine_problem(text: QueryAttention) -> Problem | None:
    """Logits as a function of a single query's weights; None where they are not affine in them.

    The gradient at one point gives the slopes; whether the function is affine is tested at three others.
    """
    clf, logits, weights = text.case.classifier, text.reading.logits[0], text.reading.weights[text.site]
    effects = logit_slopes(clf, logits, weights)[0, :, 0, text.keys]
    problem = Problem(text.attention, array(effects), text.logits, clf.head)
    probes = _probes(text, problem)
    predicted, real = problem.answers(probes), text.answers(text.rows(probes))[1:]
    tolerance = max(AFFINE_TOLERANCE, 8 * text.eps) * max(1.0, largest_logit(real))
    return problem if float(np.abs(predicted - real.numpy()).max()) <= tolerance else None


def logit_slopes(classifier: Classifier, logits: Tensor, weights: Tensor) -> Tensor:
    """[b,h,q,k,c]: ∂ each logit [c] / ∂ weights; the graph is kept."""
    classifier.check_gradients()
    classifier.backwards += len(logits)
    slopes = [torch.autograd.grad(z, weights, retain_graph=True, allow_unused=True)[0] for z in logits]  # type: ignore[no-untyped-call, unused-ignore]
    return torch.stack([torch.zeros_like(weights) if g is None else g for g in slopes], -1)


def _probes(text: QueryAttention, problem: Problem) -> Floats:
    """Three attentions: a random one, and all on the token of the smallest, or of the largest, effect in each head."""
    h, n = text.attention.shape
    random = torch.rand(h, n, generator=text.case.rng("adversarial", "probe"), dtype=torch.float64).numpy()
    ends = (problem.effects[..., 0].argmin(1), problem.effects[..., 0].argmax(1))
    return np.stack([random / random.sum(1, keepdims=True), *(np.eye(n)[end] for end in ends)])


def attention_decoder(text: QueryAttention) -> Callable[[Tensor], Tensor] | None:
    """Logits of the papers' networks by attention [1,m,1,n], without running the encoder; None for other models."""
    clf = text.case.classifier
    if not isinstance(clf.model, Attended):
        return None
    with torch.no_grad(), seam.evaluation_mode(clf.model):
        encoded = clf.model.encoded(text.batch.ids, text.batch.mask, text.batch.segments)
    states = encoded.states[0, text.keys]

    def decode(attention: Tensor) -> Tensor:
        with seam.evaluation_mode(clf.model):
            logits: Tensor = clf.model.decoded(attention[0, :, 0].to(states) @ states, encoded)
        return logits[None].cpu().double()

    decoded = decode(torch.from_numpy(text.attention)[None, None])[0, 0]
    same = decoded.shape == text.reading.logits[0].shape
    return decode if same and np.allclose(array(decoded), text.logits, rtol=1e-4, atol=1e-4) else None
