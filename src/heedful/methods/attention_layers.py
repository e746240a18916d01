"""Attention joined over all layers, or weighted by the vectors that it carries: flow, relevance, norms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from heedful.core.errors import Unsupported
from heedful.maths.flow import attention_flow, cross_attention_flow
from heedful.maths.formulas import cross_relevance, head_relevance, relevance
from heedful.methods.attention import AtLayer, BatchPart, ThroughLayers, two_levels
from heedful.model.classifier import Classifier
from heedful.model.edits import Site


@dataclass(frozen=True)
class AttentionFlow(ThroughLayers):
    """The maximum flow from the pooled position to each token; attention and residuals are the capacities.

    Exact to a millionth (see `maths.flow`). Where the head pools a mean, each position is a source with its share.
    """

    summary: ClassVar[str] = "maximum flow of attention through all layers"
    paper: ClassVar[str] = "Abnar & Zuidema 2020"
    standard: ClassVar[Mapping[str, Any] | None] = {}
    reads_attention: ClassVar[bool] = True

    def join(self, matrices: dict[str, Tensor], pooled: Tensor) -> Tensor:
        """Maximum flows."""
        if "cross" in matrices:
            return cross_attention_flow(matrices["self"], matrices["decoder"], matrices["cross"], pooled)
        return attention_flow(matrices["self"], pooled)


@dataclass(frozen=True)
class Relevance(ThroughLayers):
    """Attention times its gradient, the positive part, added up through all layers: the pooled row of R.

    R starts as the identity, so the pooled position counts itself with 1; that is kept.
    """

    summary: ClassVar[str] = "positive attention times gradient, through all layers"
    paper: ClassVar[str] = "Chefer et al. 2021"
    aliases: ClassVar[tuple[str, ...]] = ("chefer",)
    needs: ClassVar[tuple[str, ...]] = ("attention", "gradients")
    standard: ClassVar[Mapping[str, Any] | None] = {}

    def matrix(self, text: BatchPart, site: Site, gradients: dict[Site, Tensor]) -> Tensor:
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
    standard: ClassVar[Mapping[str, Any] | None] = {}
    reads_attention: ClassVar[bool] = True
    needs_values: ClassVar[bool] = True

    def check_kind(self, classifier: Classifier, kind: str) -> None:
        """Raise Unsupported for the word attention below an encoder of sentences, where f is not defined."""
        super().check_kind(classifier, kind)
        if kind == "self" and two_levels(classifier):
            raise Unsupported(
                f"{classifier.name} has two levels of attention, and no linear map follows its attention over words; "
                "use kind=sentence."
            )

    def score(self, text: BatchPart, site: Site, gradients: dict[Site, Tensor]) -> Tensor:
        """Σ_q pooled_q ‖α_qk f(x_k)‖."""
        weights, vectors, share = text.weights(site), _carried_vectors(text, site), text.queries(site)
        if self.heads == "apart":
            return torch.einsum("q,hqk,hk->k", share, weights, vectors.norm(dim=-1)) / len(weights)
        rows = [int(q) for q in share.nonzero()[:, 0]]
        # subtle: one query at a time; a mean over 512 positions would otherwise hold 512² vectors
        norms = [torch.einsum("hk,hkd->kd", weights[:, q], vectors).norm(dim=-1) for q in rows]
        return share[rows] @ torch.stack(norms)


def _carried_vectors(text: BatchPart, site: Site) -> Tensor:
    """[h,k,D]: f(x) of each head and token, checked to add up to the output of the model's own projection."""
    name, layer = text.classifier.name, f"{site.kind} layer {site.layer}"
    projection, values = text.reading.projections.get(site), text.reading.values.get(site)
    if projection is None or values is None:
        raise Unsupported(f"{name}: no linear map could be recorded after the attention of {layer}.")
    own, weight = (x.detach().cpu().double() for x in (values[text.row][:, text.at], projection.weight))
    vectors = torch.einsum("hkd,hde->hke", own, weight)
    weights = text.weights(site)
    output = projection.result[text.row].cpu().double()
    output = output[text.at] if len(output) > 1 else output
    bias = output.new_zeros(1) if projection.bias is None else projection.bias.cpu().double()
    error = (torch.einsum("hqk,hke->qe", weights, vectors) + bias - output)[text.queries(site) > 0].abs().max()
    size = torch.einsum("hqk,hke->qe", weights, vectors.abs()).max() + bias.abs().max()
    if error > torch.finfo(projection.result.dtype).eps ** 0.5 * size:
        raise Unsupported(f"{name}: the vectors recorded in {layer} do not add up to the output of its attention.")
    return vectors
