"""Identifiability: which other attention gives the same output, and how different is it? (Brunner et al. 2020)

Per head, the output of attention is A T with T = E W_V H = V H: E [n,·] is the layer's input, V = E W_V [n,d_v] its
values, and H [d_v,·] the head's part of the output projection. Rows of A may change by any vector in the left null
space LN(T) = {x: xᵀT = 0}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from heedful.checks.base import Case, Correlation, Finding, Measure, Passes, Share
from heedful.checks.identifiability_values import Sources, ValueSource
from heedful.checks.interventions import Where, estimate_finite
from heedful.checks.tables import IdentifiabilityTables, LayerNullSpaces, LengthNullSpaces
from heedful.core.arrays import Floats
from heedful.core.errors import Unsupported
from heedful.core.finding import Findings, Place, Role
from heedful.core.settings import Checked, Ge
from heedful.core.tokens import Tokens
from heedful.maths.formulas import effective_attention
from heedful.maths.nullspace import Around, constrained, effective_rank, numerical_rank, pearson, reduced
from heedful.maths.stats import Estimate
from heedful.methods import Method
from heedful.methods.attention import BatchPart, read_shares, sites_of
from heedful.methods.base import numpy_generator
from heedful.model.classifier import Classifier
from heedful.model.edits import Site

LENGTH_BINS = 4  # by quantiles


@dataclass(frozen=True)
class Identifiability(Checked):
    """Null spaces of each layer and head; the farthest attention with the same output; effective attention.

    All measures are over the keys that the pooled position may attend to (where several positions are pooled, the first
    of those with most keys), and `correlation` is over all queries with the same keys: in an encoder, the whole matrix.
    A singular value counts as 0 below the largest one · the longer side · the epsilon of the model's own precision.

    `null constrained` requires rows that sum to one: the null space of [T, 1]. `farthest` follows it until a weight
    becomes 0, at `layer`, from `starts` random directions and their opposites (0: no search): the largest total
    variation distance of these, exact in one dimension. `farthest bound` is its upper bound, often 1; `tight` brings it
    close to `farthest` with two more linear programs per head and key.

    Where there is no output projection, T is V; where W_V could not be recorded, neither its rank nor E's is defined.
    """

    layer: int | Literal["all"] = -1
    starts: Annotated[int, Ge(0)] = 2
    tight: bool = False

    name: ClassVar[str] = "identifiability"
    title: ClassVar[str] = "Identifiability"
    question: ClassVar[str] = "Could other attention have given the same output?"
    reading: ClassVar[str] = (
        "Where a text has no more tokens than a head has dimensions, attention is usually identifiable, which does not "
        "make it an explanation. A large null space does not mean that very different attention exists: the farthest "
        "attention has non-negative weights. One head changes at a time; several heads together could change more."
    )
    full: ClassVar[Mapping[str, Any]] = {"layer": "all"}
    probe: ClassVar[Mapping[str, Any]] = {"starts": 0}
    summary: ClassVar[str] = "other attention with the same output: null spaces"
    paper: ClassVar[str] = "Brunner et al. 2020"
    changes: ClassVar[str] = (
        "nothing is changed: the other attention of a head with the same output is computed from attention, values and "
        "the linear maps around them"
    )
    measures: ClassVar[Mapping[str, Measure]] = {
        "keys": Measure("tokens that the pooled position may attend to: n"),
        "rank E": Measure("rank of the layer's input E"),
        "effective rank E": Measure("effective rank of E: exp(entropy of its variance by direction), tokens centred"),
        "rank W_V": Measure("rank of the head's value map"),
        "rank H": Measure("rank of the head's part of the output projection"),
        "rank V": Measure("rank of the head's values"),
        "rank T": Measure("rank of T = V H"),
        "null": Measure("dimension of the null space of T"),
        "null constrained": Measure("dimension of the null space with weights that sum to one: of [T, 1]"),
        "least null": Measure("lower bound of its dimension: max(0, n − d_v)"),
        "farthest": Share("TVD of the farthest attention found that gives the same output"),
        "farthest bound": Share("upper bound of that TVD"),
        "correlation": Correlation("Pearson correlation of effective attention with attention, all queries"),
        "correlation pooled": Correlation("Pearson correlation of the pooled position's row"),
        "special mass": Share("attention on special tokens, mean over queries"),
    }
    roles: ClassVar[tuple[Role, ...]] = ("identifiable",)

    def __call__(self, case: Case) -> list[Finding]:
        """The numbers of every layer and head, from one forward pass."""
        classifier = case.classifier
        classifier.check_attention()
        with Sources() as sources:
            reading, (share,) = read_shares(classifier, [case.tokens], values=True)
        sites = reading.layers(classifier.main_kind)
        searched = set(sites_of(sites, self.layer)) if self.starts else set()
        return [
            finding
            for site in [*sites, *reading.layers("sentence")]
            for finding in self._layer(case, _Layer.of(share, site, case.tokens, sources), site in searched)
        ]

    def passes(self, classifier: Classifier, tokens: Tokens, methods: Mapping[str, Method]) -> Passes:
        """One forward pass."""
        return Passes(1)

    def tables(self, findings: Findings) -> IdentifiabilityTables:
        """Null spaces and correlations by length and by layer; whether dim LN(T) ≥ max(0, n − d_v) held."""
        null_places = findings.places("null")
        layers = list(dict.fromkeys(at["layer"] for at in null_places))
        by_text = {name: {layer: _head_mean(findings, name, layer) for layer in layers} for name in TABLED}
        examined = held = 0
        for at in null_places:
            null, least = findings.values("null", at=at), findings.values("least null", at={"layer": at["layer"]})
            both = np.isfinite(null) & np.isfinite(least)
            examined, held = examined + int(both.sum()), held + int((null >= least)[both].sum())

        def estimates(values: Mapping[str, Floats]) -> dict[str, Estimate]:
            ranges = {name: self.measures[name].range for name in TABLED}
            return {field: estimate_finite(values[name], within=ranges[name]) for name, field in TABLED.items()}

        by_length = []
        for low, high, inside in _bins(findings.texts["length"]):
            means = {name: _mean(list(by_text[name].values()), inside)[inside] for name in TABLED}
            by_length.append(LengthNullSpaces(**estimates(means), start=low, end=high))
        by_layer = [
            LayerNullSpaces(**estimates({name: by_text[name][layer] for name in TABLED}), layer=layer)
            for layer in layers
        ]
        return IdentifiabilityTables(tuple(by_length), tuple(by_layer), examined, held)

    def _layer(self, case: Case, layer: _Layer, searched: bool) -> Iterator[Finding]:
        at: Place = {"layer": layer.where.at["layer"]}
        for name, value in layer.numbers().items():
            yield Finding(self.name, "", name, value, at, layer.reasons.get(name, {}))
        for head in range(len(layer.weights)):
            place: Place = {**layer.where.at, "head": head}
            for name, value in layer.of_head(head).items():
                yield Finding(self.name, "", name, value, place, layer.reasons.get(name, {}))
            if searched:
                yield from self._farthest(case, layer, head, place)

    def _farthest(self, case: Case, layer: _Layer, head: int, place: Place) -> Iterator[Finding]:
        rng = numpy_generator(case.rng(self.name, layer.where.layer, head))
        weights = layer.pooled[head].numpy()
        around = Around(weights, layer.kernels[head].numpy())
        other = around.farthest(self.starts, rng)
        details = {"weights": weights.tolist(), "other": other.tolist(), "keys": layer.keys.nonzero()[:, 0].tolist()}
        distance = float(np.abs(other - weights).sum() / 2)
        yield Finding(self.name, "", "farthest", distance, place, details)
        yield Finding(self.name, "", "farthest bound", max(distance, around.bound(self.tight)), place)


@dataclass(frozen=True)
class _Layer:
    """One attention layer of one text, over the keys of the pooled position and the queries with the same keys."""

    where: Where
    weights: Float[Tensor, "h q n"]
    pooled: Float[Tensor, "h n"]
    values: Float[Tensor, "h n d"]
    out: Float[Tensor, "h d D"] | None
    source: ValueSource | None
    keys: Bool[Tensor, "t"]
    special: Bool[Tensor, "n"]
    eps: float

    @classmethod
    def of(cls, share: BatchPart, site: Site, tokens: Tokens, sources: Sources) -> _Layer:
        """From a recorded forward pass, in float64."""
        reading = share.reading
        if site not in reading.values:
            raise Unsupported(f"the value vectors of layer {site.layer} could not be recorded.", share.classifier.name)
        values = reading.values[site][share.row].detach()
        allowed = share.allowed(site)
        pooled = share.queries(site)
        # the query with most weight in what is pooled; of several, the first of those with most keys
        query = max(range(len(pooled)), key=lambda q: (float(pooled[q]), int(allowed[q].sum()), -q))
        keys = allowed[query]
        source = sources.of(share.classifier, values)
        same = (allowed == keys).all(-1)
        weights = share.weights(site)[..., keys]
        projection = reading.projections.get(site)
        return cls(
            where=Where(site.kind, site.layer),
            weights=weights[:, same].cpu(),
            pooled=weights[:, query].cpu(),
            values=values[:, share.at][:, keys].cpu().double(),
            out=None if projection is None else projection.weight.detach().cpu().double(),
            source=None if source is None else source.at(share.at, keys),
            keys=keys.cpu(),
            special=torch.tensor(tokens.special)[keys.cpu()],
            eps=torch.finfo(values.dtype).eps,
        )

    @cached_property
    def reduced(self) -> Float[Tensor, "h n r"]:
        """T, or fewer columns with the same null space and singular values."""
        return self.values if self.out is None else reduced(self.values, self.out)

    @property
    def side(self) -> int:
        """The longer side of T."""
        return max(self.values.shape[1], self.values.shape[2] if self.out is None else self.out.shape[2])

    @cached_property
    def kernels(self) -> list[Tensor]:
        """For each head an orthonormal basis [n,m] of the directions that preserve its output and its row sums."""
        return [constrained(matrix, self.side, self.eps) for matrix in self.reduced]

    @property
    def reasons(self) -> dict[str, dict[str, str]]:
        """Why a number is missing."""
        missing = {}
        if self.source is None:
            unknown = {"reason": "the linear map that computes the values could not be recorded"}
            missing = dict.fromkeys(("rank E", "effective rank E", "rank W_V"), unknown)
        elif self.source.weight is None:
            missing = {"rank W_V": {"reason": "the values are the states themselves, without a linear map"}}
        if self.out is None:
            missing["rank H"] = {"reason": "there is no output projection: T is V"}
        return missing

    def numbers(self) -> dict[str, float]:
        """The numbers that all heads have in common."""
        n, d = self.values.shape[1:]
        inputs = None if self.source is None else self.source.read.cpu().double()
        return {
            "keys": float(n),
            "least null": float(max(0, n - d)),
            "rank E": np.nan if inputs is None else float(numerical_rank(inputs, max(inputs.shape), self.eps)),
            "effective rank E": np.nan if inputs is None else effective_rank(inputs, self.eps),
        }

    def of_head(self, head: int) -> dict[str, float]:
        """The numbers of one head."""
        values, matrix = self.values[head], self.reduced[head]
        weights, n = self.weights[head], len(values)
        inner = None if self.source is None or self.source.weight is None else self.source.weight[head].cpu().double()
        outer = None if self.out is None else self.out[head]
        rank_t = numerical_rank(matrix, self.side, self.eps)
        # subtle: the same tolerance as for T itself, of which `matrix` may be the shorter form
        eps = self.eps * self.side / max(matrix.shape)
        effective = effective_attention(torch.cat([weights, self.pooled[head][None]]), matrix, eps)
        return {
            "rank W_V": np.nan if inner is None else float(numerical_rank(inner, max(inner.shape), self.eps)),
            "rank H": np.nan if outer is None else float(numerical_rank(outer, max(outer.shape), self.eps)),
            "rank V": float(numerical_rank(values, max(values.shape), self.eps)),
            "rank T": float(rank_t),
            "null": float(n - rank_t),
            "null constrained": float(self.kernels[head].shape[1]),
            "correlation": pearson(weights, effective[:-1], self.eps),
            "correlation pooled": pearson(self.pooled[head], effective[-1], self.eps),
            "special mass": float(weights[:, self.special].sum(-1).mean()),
        }


# tables

TABLED = {  # measures, and their fields in a table
    "null": "null",
    "null constrained": "null_constrained",
    "correlation": "correlation",
    "correlation pooled": "correlation_pooled",
    "special mass": "special_mass",
}


def _head_mean(findings: Findings, measure: str, layer: str | int | float) -> Floats:
    """One number per text: the mean over the heads of one layer, NaN left out."""
    places = [at for at in findings.places(measure) if at["layer"] == layer]
    return _mean([findings.values(measure, at=at) for at in places], findings.texts["length"])


def _mean(parts: list[Floats], like: Any) -> Floats:
    """The element-wise mean over parts, NaN left out; NaN where all are. It has as many numbers as `like`."""
    table = np.stack([*parts, np.full(len(like), np.nan)])
    there = np.isfinite(table)
    total = np.where(there, table, 0).sum(0)
    return np.where(there.any(0), total / np.maximum(there.sum(0), 1), np.nan)


def _bins(lengths: Any) -> Iterator[tuple[float, float, Any]]:
    """Texts of similar length, about equally many in each bin; both ends belong to it."""
    lengths = np.asarray(lengths, dtype=np.float64)
    if len(lengths) == 0:
        return
    below = -np.inf
    for high in np.unique(np.quantile(lengths, np.linspace(0, 1, LENGTH_BINS + 1)[1:], method="lower")):
        inside, below = (lengths > below) & (lengths <= high), high
        yield float(lengths[inside].min()), float(lengths[inside].max()), inside
