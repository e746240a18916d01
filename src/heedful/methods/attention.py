"""Attention as explanation: the weights themselves, read at the position that the classifier pools.

`layer` is a number (negative counts from the last) or "all" (the mean over layers). `kind` chooses among encoder
("self"), "decoder" and "cross" attention where a model has several; by default the one that reads the text for the
pooled position. In a network that attends to words and then to sentences, "self" is the first and "sentence" the
second; what is pooled of the first is the second, so that a word's attention is that of its sentence times its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Generator, Tensor

from heedful.core.errors import BadInput, Unsupported
from heedful.core.explanation import Attribution, Explanation, Interaction
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.maths.formulas import cross_rollout, effective_attention, received, rollout
from heedful.methods.base import BatchMethod, Passes, array, text_slice
from heedful.model.classifier import Classifier, Reading
from heedful.model.edits import Site
from heedful.model.seam import paused

LayerChoice = int | Literal["all"]
AttentionKind = Literal["self", "encoder", "decoder", "cross", "sentence"]


@dataclass(frozen=True)
class BatchPart:
    """One text's share of a reading: its row and columns in the batch."""

    classifier: Classifier
    reading: Reading
    tokens: Tokens
    row: int
    at: slice

    def weights(self, site: Site, of: dict[Site, Tensor] | None = None) -> Tensor:
        """[h,q,k] over the text's own tokens, in float64; zero for a query that may read none of them."""
        w = (of or self.reading.weights)[site][self.row].detach().cpu().double()
        weights = w[:, self.at if w.shape[1] > 1 else slice(None), self.at]
        return weights * self.allowed(site).any(-1)[:, None]

    def allowed(self, site: Site) -> Tensor:
        """[q,k]: which of the text's own tokens each query may attend to."""
        a = site.allowed[self.row, 0].cpu()
        return a[self.at if a.shape[0] > 1 else slice(None), self.at]

    @property
    def pooled(self) -> Tensor:
        """[q]: the share of each query in what the head reads."""
        p = self.reading.pooled[self.row].detach().cpu().double()
        return p[self.at] if len(p) > 1 else p

    def queries(self, site: Site) -> Tensor:
        """[q]: the same for the queries of this site; the share of a single query is 1."""
        return self.pooled if site.allowed.shape[2] > 1 else self.pooled.new_ones(1)


@dataclass(frozen=True)
class AttentionMethod(BatchMethod):
    """A method that reads the attention of one forward pass over all texts, and its gradients if it needs them."""

    needs: ClassVar[tuple[str, ...]] = ("attention",)
    needs_values: ClassVar[bool] = False

    def many(
        self, classifier: Classifier, texts: Sequence[Tokens], targets: Sequence[Target], rngs: Sequence[Generator]
    ) -> list[Explanation]:
        """One forward pass for all texts."""
        self.check(classifier)
        reading, shares = read_shares(classifier, texts, self.needs_values)
        gradients: dict[Site, Tensor] = {}
        if "gradients" in self.needs:
            values = torch.cat([t.of(reading.logits[i : i + 1], classifier.head) for i, t in enumerate(targets)])
            slopes = classifier.gradient(values, list(reading.weights.values()))
            gradients = dict(zip(reading.weights, slopes, strict=True))
        return [self.explanation(text, gradients) for text in shares]

    def passes(self, classifier: Classifier, tokens: Tokens) -> Passes:
        """One forward pass, and a backward pass if gradients are needed."""
        return Passes(1, int("gradients" in self.needs))

    def check(self, classifier: Classifier) -> None:
        """Raise Unsupported for a model on which the method is not defined."""

    def explanation(self, text: BatchPart, gradients: dict[Site, Tensor]) -> Explanation:
        """The explanation of one text; `gradients` are ∂ target / ∂ A by site, if needed."""
        raise NotImplementedError


@dataclass(frozen=True)
class AtLayer(AttentionMethod):
    """The attention of one layer, or the mean over layers, reduced to a number for each token."""

    layer: LayerChoice = -1
    kind: AttentionKind | None = None

    signed: ClassVar[bool] = False

    def check(self, classifier: Classifier) -> None:
        """Raise Unsupported for a kind of attention on which the method is not defined."""
        self.check_kind(classifier, kind_of(classifier, self.kind))

    def explanation(self, text: BatchPart, gradients: dict[Site, Tensor]) -> Explanation:
        """A number for each token."""
        kind = kind_of(text.classifier, self.kind)
        sites = sites_of(text.reading.layers(kind), self.layer)
        scores = torch.stack([self.score(text, site, gradients) for site in sites]).mean(0)
        if kind == "decoder":  # position j+1 holds token j: the start token is not of the text, the last is not read
            scores = torch.cat([scores[1:], scores.new_zeros(1)])
        return Attribution(tokens=text.tokens, scores=array(scores), signed=self.signed)

    def check_kind(self, classifier: Classifier, kind: str) -> None:
        """Raise Unsupported for the encoder's attention where the classifier pools a position of the decoder."""
        if kind != classifier.main_kind and kind == "self":
            raise Unsupported(
                f"{classifier.name} pools a decoder position, so its encoder attention has no pooled row; use "
                "kind=cross, or attention-received for the encoder."
            )

    def score(self, text: BatchPart, site: Site, gradients: dict[Site, Tensor]) -> Tensor:
        """[k]: a number for each token, at one layer."""
        raise NotImplementedError


def read_shares(
    classifier: Classifier, texts: Sequence[Tokens], values: bool = False
) -> tuple[Reading, list[BatchPart]]:
    """One forward pass, and each text's share of it."""
    reading = classifier.read(classifier.batch(texts), values=values)
    width = max(map(len, texts))
    return reading, [
        BatchPart(classifier, reading, t, i, text_slice(classifier, t, width)) for i, t in enumerate(texts)
    ]


def kind_of(classifier: Classifier, kind: AttentionKind | None) -> str:
    """The kind of attention to read, checked against the model."""
    if not classifier.sites:
        classifier.check_attention()
    named = classifier.main_kind if kind is None else "self" if kind == "encoder" else kind
    known = sorted({k for k, _ in classifier.sites})
    if named not in known:
        raise BadInput(f"{classifier.name} has no {named} attention; use {' or '.join(known)}.")
    if named == "decoder" and classifier.decoder_start:
        raise BadInput(f"the decoder of {classifier.name} reads its own answer, not the text; use cross or self.")
    return named


def check_levels(classifier: Classifier) -> None:
    """Raise Unsupported for a network with two levels of attention, over which a method cannot join layers."""
    if two_levels(classifier):
        raise Unsupported(
            f"{classifier.name} has two levels of attention, words in each sentence and then sentences, without "
            "residual connections, so its layers cannot be joined; use attention-mean, which multiplies the two."
        )


def check_square(classifier: Classifier, weights: Mapping[Site, Tensor]) -> None:
    """Raise Unsupported for a network whose attention has one query, or two levels: its layers cannot be joined."""
    check_levels(classifier)
    if any(site.kind == "self" and w.shape[2] != w.shape[3] for site, w in weights.items()):
        raise Unsupported(f"{classifier.name} has one query, not one per token, so there are no layers to join.")


def two_levels(classifier: Classifier) -> bool:
    """Whether the network attends to the words of each sentence, and then to sentences."""
    return any(kind == "sentence" for kind, _ in classifier.sites)


def sites_of(sites: list[Site], layer: LayerChoice) -> list[Site]:
    """The sites of one layer or of all."""
    if layer == "all":
        return sites
    if not -len(sites) <= layer < len(sites):
        raise BadInput(f"layer {layer} is not one of 0 … {len(sites) - 1} (or negative, from the last).")
    return [sites[layer]]


@dataclass(frozen=True)
class AttentionMean(AtLayer):
    """The pooled position's attention, mean over heads."""

    summary: ClassVar[str] = "attention of the pooled position, mean over heads"
    paper: ClassVar[str] = "Jain & Wallace 2019; Lopardo et al. 2024"
    aliases: ClassVar[tuple[str, ...]] = ("attention", "attention-avg", "alpha-avg")
    standard: ClassVar[Mapping[str, Any] | None] = {}
    jain2019: ClassVar[Mapping[str, Any]] = {}
    reads_attention: ClassVar[bool] = True

    def score(self, text: BatchPart, site: Site, gradients: dict[Site, Tensor]) -> Tensor:
        """α-avg."""
        return text.queries(site) @ text.weights(site).mean(0)


@dataclass(frozen=True)
class AttentionMax(AtLayer):
    """The pooled position's attention, maximum over heads."""

    summary: ClassVar[str] = "attention of the pooled position, maximum over heads"
    paper: ClassVar[str] = "Lopardo et al. 2024"
    aliases: ClassVar[tuple[str, ...]] = ("alpha-max",)
    standard: ClassVar[Mapping[str, Any] | None] = {}
    reads_attention: ClassVar[bool] = True

    def score(self, text: BatchPart, site: Site, gradients: dict[Site, Tensor]) -> Tensor:
        """α-max."""
        return torch.einsum("q,hqk->hk", text.queries(site), text.weights(site)).amax(0)


@dataclass(frozen=True)
class AttentionReceived(AtLayer):
    """The attention that each token receives from all positions, mean over heads."""

    summary: ClassVar[str] = "attention that a token receives from all positions"
    paper: ClassVar[str] = "column mean; e.g. Clark et al. 2019"

    def check_kind(self, classifier: Classifier, kind: str) -> None:
        """Allow every kind: all attention has columns."""

    def score(self, text: BatchPart, site: Site, gradients: dict[Site, Tensor]) -> Tensor:
        """Column means."""
        return received(text.weights(site))


@dataclass(frozen=True)
class EffectiveAttention(AtLayer):
    """The part of the pooled position's attention that its output can depend on, mean over heads."""

    summary: ClassVar[str] = "attention without the part that values cancel"
    paper: ClassVar[str] = "Brunner et al. 2020"
    standard: ClassVar[Mapping[str, Any] | None] = {}
    reads_attention: ClassVar[bool] = True
    signed: ClassVar[bool] = True
    needs_values: ClassVar[bool] = True

    def score(self, text: BatchPart, site: Site, gradients: dict[Site, Tensor]) -> Tensor:
        """Pooled rows of A⊥."""
        if site not in text.reading.values:
            reason = f"the value vectors of layer {site.layer} could not be recorded."
            raise Unsupported(reason, text.classifier.name)
        vectors = text.reading.values[site][text.row]
        weights, allowed, share = text.weights(site), text.allowed(site), text.queries(site)
        values = vectors[:, text.at].detach().cpu().double()
        scores = weights.new_zeros(weights.shape[-1])
        # subtle: rows that see different keys (local attention) have different null spaces
        for keys in torch.unique(allowed[share > 0], dim=0):
            rows = (allowed == keys).all(-1) & (share > 0)
            part = effective_attention(weights[:, rows][:, :, keys], values[:, keys], torch.finfo(vectors.dtype).eps)
            scores[keys] += torch.einsum("q,hqk->k", share[rows], part) / len(part)
        return scores


@dataclass(frozen=True)
class AttentionGradient(AtLayer):
    """Attention times the gradient with respect to it, summed over heads and queries.

    To first order: what the target would lose if the attention to this token were erased.
    """

    summary: ClassVar[str] = "attention times its gradient, A ⊙ ∂A"
    paper: ClassVar[str] = "Serrano & Smith 2019; Barkan et al. 2021"
    aliases: ClassVar[tuple[str, ...]] = ("attention-x-gradient",)
    needs: ClassVar[tuple[str, ...]] = ("attention", "gradients")
    standard: ClassVar[Mapping[str, Any] | None] = {}
    signed: ClassVar[bool] = True

    def check_kind(self, classifier: Classifier, kind: str) -> None:
        """Allow every kind: the gradient is zero where a row does not matter."""

    def score(self, text: BatchPart, site: Site, gradients: dict[Site, Tensor]) -> Tensor:
        """Columns of A ⊙ ∂A."""
        return (text.weights(site) * text.weights(site, gradients)).sum((0, 1))


@dataclass(frozen=True)
class ThroughLayers(AttentionMethod):
    """One matrix [q,k] for each attention layer, joined over the layers into a number for each token."""

    def check(self, classifier: Classifier) -> None:
        """Raise Unsupported for two levels of attention."""
        check_levels(classifier)

    def explanation(self, text: BatchPart, gradients: dict[Site, Tensor]) -> Explanation:
        """The joined matrices."""
        check_square(text.classifier, text.reading.weights)
        matrices = {
            kind: torch.stack([self.matrix(text, site, gradients) for site in text.reading.layers(kind)])
            for kind in {kind for kind, _ in text.classifier.sites}
        }
        return Attribution(tokens=text.tokens, scores=array(self.join(matrices, text.pooled)), signed=False)

    def matrix(self, text: BatchPart, site: Site, gradients: dict[Site, Tensor]) -> Tensor:
        """[q,k] of one layer: the mean over heads."""
        return text.weights(site).mean(0)

    def join(self, matrices: dict[str, Tensor], pooled: Tensor) -> Tensor:
        """[k] from the matrices of each kind of attention, first layer first."""
        raise NotImplementedError


@dataclass(frozen=True)
class Rollout(ThroughLayers):
    """Attention multiplied through the layers, half of each for the residual connection, at the pooled position."""

    summary: ClassVar[str] = "attention multiplied through all layers, with residuals"
    paper: ClassVar[str] = "Abnar & Zuidema 2020"
    aliases: ClassVar[tuple[str, ...]] = ("attention-rollout",)
    standard: ClassVar[Mapping[str, Any] | None] = {}
    reads_attention: ClassVar[bool] = True

    def join(self, matrices: dict[str, Tensor], pooled: Tensor) -> Tensor:
        """The pooled rows of the product."""
        if "cross" in matrices:
            return pooled @ cross_rollout(matrices["self"], matrices["decoder"], matrices["cross"])
        return pooled @ rollout(matrices["self"])


FIRST_ROW_ONLY = "only the first row has an effect: the others are what these tokens would attend to as queries"


@dataclass(frozen=True)
class AttentionWeights(AttentionMethod):
    """Every attention matrix: layer, head, query, key.

    Of a network whose only query is the first token, such as MultiHead, the rows of all tokens are computed.
    """

    layer: LayerChoice = "all"
    kind: AttentionKind | None = None

    summary: ClassVar[str] = "all attention matrices, by layer and head"
    paper: ClassVar[str] = "Lopardo et al. 2024, fig. 3"
    scores_tokens: ClassVar[bool] = False

    def check(self, classifier: Classifier) -> None:
        """Raise BadInput for a kind of attention that the model does not have."""
        kind_of(classifier, self.kind)

    def explanation(self, text: BatchPart, gradients: dict[Site, Tensor]) -> Explanation:
        """The matrices of the layers chosen."""
        kind = kind_of(text.classifier, self.kind)
        sites = sites_of(text.reading.layers(kind), self.layer)
        matrices = [text.weights(site) for site in sites]
        notes = ("decoder positions hold the text shifted by one",) if kind == "decoder" else ()
        if matrices[0].shape[1] == 1 and hasattr(text.classifier.model, "all_queries"):
            matrices, notes = [_with_all_queries(text, first) for first in matrices], (FIRST_ROW_ONLY,)
        return Interaction(
            tokens=text.tokens,
            weights=torch.stack(matrices).float().cpu().numpy(),
            attention=kind,
            layers=tuple(site.layer for site in sites),
            notes=notes,
        )


def _with_all_queries(text: BatchPart, first: Tensor) -> Tensor:
    """[h,t,t]: the row that was read, as it was read, above those of the other tokens."""
    classifier, n = text.classifier, len(text.tokens)
    batch = classifier.batch([text.tokens])
    with classifier.lock, torch.no_grad(), paused(classifier.model):
        rows = classifier.model.all_queries(batch.ids, batch.mask)[0, :, 1:n, :n]
    return torch.cat([first, rows.cpu().double()], dim=1)
