"""What reaches the pooled position through all layers, and with which vectors: flow, norms, relevance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from heedful.core.errors import Unsupported
from heedful.core.explanation import Attribution, Explanation
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.maths.flow import attention_flow, cross_attention_flow
from heedful.maths.formulas import cross_relevance, head_relevance, relevance
from heedful.methods.attention import AtLayer, AttentionGradient, Share, check_levels, laid_open, two_levels
from heedful.methods.base import Passes, Together, array
from heedful.model.classifier import Classifier, Reading
from heedful.model.edits import Site


@dataclass(frozen=True)
class _ThroughLayers(Together):
    """One matrix [q,k] for each attention layer, joined over the layers into a number for each token."""

    def many(
        self,
        classifier: Classifier,
        texts: Sequence[Tokens],
        targets: Sequence[Target],
        rngs: Sequence[torch.Generator],
    ) -> list[Explanation]:
        """One forward pass for all texts."""
        reading, shares = laid_open(classifier, texts)
        check_square(classifier, reading.weights)
        gradients = self.derive(classifier, reading, targets)
        kinds = {kind for kind, _ in classifier.sites}
        found: list[Explanation] = []
        for tokens, text in zip(texts, shares, strict=True):
            matrices = {
                kind: torch.stack([self.matrix(text, site, gradients) for site in reading.layers(kind)])
                for kind in kinds
            }
            found.append(Attribution(tokens=tokens, scores=array(self.join(matrices, text.pooled)), signed=False))
        return found

    def derive(self, classifier: Classifier, reading: Reading, targets: Sequence[Target]) -> dict[Site, Tensor]:
        """Gradients by site, where a method needs them."""
        return {}

    def matrix(self, text: Share, site: Site, gradients: dict[Site, Tensor]) -> Tensor:
        """[q,k] of one layer."""
        raise NotImplementedError

    def join(self, matrices: dict[str, Tensor], pooled: Tensor) -> Tensor:
        """[k] from the matrices of each kind of attention, first layer first."""
        raise NotImplementedError


def check_square(classifier: Classifier, weights: Mapping[Site, Tensor]) -> None:
    """Refuse a network whose attention has one query, or two levels: nothing to join over layers."""
    check_levels(classifier)
    if any(site.kind == "self" and w.shape[2] != w.shape[3] for site, w in weights.items()):
        raise Unsupported(f"{classifier.name} has one query, not one per token: there are no layers to go through.")


@dataclass(frozen=True)
class AttentionFlow(_ThroughLayers):
    """The most that can flow from the pooled position down to each token, edges as wide as attention, with residuals.

    Exact to a millionth (see `maths.flow`). Where the head pools a mean, each position is fed by its share of it.
    """

    summary: ClassVar[str] = "maximum flow of attention through all layers"
    paper: ClassVar[str] = "Abnar & Zuidema 2020"
    needs: ClassVar[tuple[str, ...]] = ("attention",)
    quick: ClassVar[Mapping[str, Any] | None] = {}
    reads_attention: ClassVar[bool] = True

    def passes(self, classifier: Classifier, tokens: Tokens) -> Passes:
        """One forward pass."""
        return Passes(1)

    def matrix(self, text: Share, site: Site, gradients: dict[Site, Tensor]) -> Tensor:
        """The mean over heads."""
        return text.weights(site).mean(0)

    def join(self, matrices: dict[str, Tensor], pooled: Tensor) -> Tensor:
        """Maximum flows."""
        if "cross" in matrices:
            return cross_attention_flow(matrices["self"], matrices["decoder"], matrices["cross"], pooled)
        return attention_flow(matrices["self"], pooled)


@dataclass(frozen=True)
class Relevance(_ThroughLayers):
    """Attention times its gradient, the positive part, added up through all layers: the pooled row of R.

    R starts as the identity, so the pooled position counts itself with 1; that is kept.
    """

    summary: ClassVar[str] = "positive attention times gradient, through all layers"
    paper: ClassVar[str] = "Chefer et al. 2021"
    aliases: ClassVar[tuple[str, ...]] = ("chefer",)
    needs: ClassVar[tuple[str, ...]] = ("attention", "gradients")
    quick: ClassVar[Mapping[str, Any] | None] = {}

    def passes(self, classifier: Classifier, tokens: Tokens) -> Passes:
        """One forward and one backward pass."""
        return Passes(1, 1)

    def derive(self, classifier: Classifier, reading: Reading, targets: Sequence[Target]) -> dict[Site, Tensor]:
        """∂ target / ∂ A for every layer."""
        return AttentionGradient().derive(classifier, reading, targets)

    def matrix(self, text: Share, site: Site, gradients: dict[Site, Tensor]) -> Tensor:
        """Ā."""
        return head_relevance(text.weights(site), text.weights(site, gradients))

    def join(self, matrices: dict[str, Tensor], pooled: Tensor) -> Tensor:
        """Pooled rows of R."""
        if "cross" in matrices:
            return pooled @ cross_relevance(matrices["self"], matrices["decoder"], matrices["cross"])
        return pooled @ relevance(matrices["self"])


@dataclass(frozen=True)
class AttentionNorm(AtLayer):
    """The length of the vector that attention brings from each token to the pooled position, ‖α f(x)‖.

    f(x) = (x W_V + b_V) W_O. heads="together" adds the heads' vectors before the norm is taken; "apart" takes the mean
    of the heads' norms. Where the head pools a mean, norms are weighted by each position's share.
    """

    heads: Literal["together", "apart"] = "together"

    summary: ClassVar[str] = "length of the vector that attention brings, ‖α f(x)‖"
    paper: ClassVar[str] = "Kobayashi et al. 2020"
    needs: ClassVar[tuple[str, ...]] = ("attention",)
    quick: ClassVar[Mapping[str, Any] | None] = {}
    reads_attention: ClassVar[bool] = True
    needs_values: ClassVar[bool] = True

    def check(self, classifier: Classifier, kind: str) -> None:
        """Words' attention that an encoder of sentences reads has no f."""
        super().check(classifier, kind)
        if kind == "self" and two_levels(classifier):
            raise Unsupported(
                f"{classifier.name} has two levels of attention, and what it reads of words goes on to sentences, "
                "through no linear map; use kind=sentence."
            )

    def score(self, text: Share, site: Site, gradients: dict[Site, Tensor]) -> Tensor:
        """Σ_q pooled_q ‖α_qk f(x_k)‖."""
        weights, brought, share = text.weights(site), _brought(text, site), text.queries(site)
        if self.heads == "apart":
            return torch.einsum("q,hqk,hk->k", share, weights, brought.norm(dim=-1)) / len(weights)
        rows = [int(q) for q in share.nonzero()[:, 0]]
        # subtle: one query at a time; a mean over 512 positions would otherwise hold 512² vectors
        norms = [torch.einsum("hk,hkd->kd", weights[:, q], brought).norm(dim=-1) for q in rows]
        return share[rows] @ torch.stack(norms)


def _brought(text: Share, site: Site) -> Tensor:
    """[h,k,D]: f(x) of each head and token, proven to add up to what the model's own projection gave."""
    name, layer = text.classifier.name, f"{site.kind} layer {site.layer}"
    found, values = text.reading.projections.get(site), text.reading.values.get(site)
    if found is None or values is None:
        raise Unsupported(f"{name}: what follows attention in {layer} is no linear map of it that could be seen.")
    brought = torch.einsum("hkd,hde->hke", values[text.row][:, text.at].detach().double(), found.weight.double())
    weights = text.weights(site)
    told = found.result[text.row].double()
    told = told[text.at] if len(told) > 1 else told
    bias = told.new_zeros(1) if found.bias is None else found.bias.double()
    missed = (torch.einsum("hqk,hke->qe", weights, brought) + bias - told)[text.queries(site) > 0].abs().max()
    size = torch.einsum("hqk,hke->qe", weights, brought.abs()).max() + bias.abs().max()
    if missed > torch.finfo(found.result.dtype).eps ** 0.5 * size:
        raise Unsupported(f"{name}: the vectors seen in {layer} do not add up to its attention's output.")
    return brought
