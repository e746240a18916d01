"""Edits: changes of an attention matrix during a forward pass. Pure: tensors in, tensors out.

An Edit is a function (site, weights[b,h,q,k]) -> weights of the same shape and dtype, zero wherever `site.allowed` is
False. The seam restores rows without any allowed key (a padded query, say) after an edit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.core.errors import BadInput

RAND_BITS, INDEX_BITS = 24, 16  # of a number of `torch.rand`, and of the position of a token


@dataclass(frozen=True)
class Site:
    """One attention matrix of a forward pass: its kind and layer, and where its softmax was not masked.

    `kind` is "self" (the only one in encoders and in decoder-only models), "decoder", "cross", or "sentence" in a
    network that attends to words and then to sentences. Two sites are equal if kind and layer are.
    """

    kind: str
    layer: int
    allowed: Bool[Tensor, "b 1 q k"] = field(
        compare=False, repr=False, default_factory=lambda: torch.ones(1, 1, 1, 1) > 0
    )


Edit = Callable[[Site, Tensor], Tensor]


def uniform(site: Site, weights: Float[Tensor, "b h q k"]) -> Float[Tensor, "b h q k"]:
    """Every allowed key gets the same weight: [.7, .2, .1, masked] -> [1/3, 1/3, 1/3, 0]."""
    allowed = site.allowed.to(weights.dtype)
    return (allowed / allowed.sum(-1, keepdim=True).clamp(min=1)).expand_as(weights)


def permuted(rng: torch.Generator, together: bool = False) -> Edit:
    """Each row's weights, shuffled among its allowed keys.

    Rows, heads and texts are shuffled independently; with `together`, all share one random order of the keys (a causal
    row uses the allowed part of it).
    """

    def edit(site: Site, weights: Tensor) -> Tensor:
        shape = (1, 1, 1, weights.shape[-1]) if together else weights.shape
        order = torch.rand(shape, generator=rng, device=rng.device).to(weights.device)
        return shuffle(weights, site.allowed, order)

    return edit


def shuffle(
    weights: Float[Tensor, "b h q k"], allowed: Bool[Tensor, "b 1 q k"], order: Tensor
) -> Float[Tensor, "b h q k"]:
    """The j-th allowed key of a row gets the weight of the key that is j-th in `order` among the allowed ones."""
    allowed = allowed.expand_as(weights)
    where = random_order(torch.zeros_like(weights, dtype=torch.float32), allowed)  # allowed keys in reading order
    source = random_order(order.expand_as(weights), allowed)
    return torch.zeros_like(weights).scatter(-1, where, weights.gather(-1, source))


def random_order(numbers: Float[Tensor, "*b n"], allowed: Bool[Tensor, "*b n"] | None = None) -> Int[Tensor, "*b n"]:
    """The indices that sort `torch.rand` numbers, equal ones in reading order; those that are not allowed come last.

    What a stable argsort gives, ten times as fast for 180 numbers, and the same on every machine: numbers and indices
    are sorted together, as integers.
    """
    if numbers.device.type != "cpu":
        last = numbers if allowed is None else numbers.masked_fill(~allowed, torch.inf)
        return last.argsort(dim=-1, stable=True)
    keys = (numbers.detach().numpy() * np.float32(1 << RAND_BITS)).astype(np.int64)  # exact: multiples of 2^-24
    if allowed is not None:
        keys[~allowed.numpy()] = 1 << RAND_BITS
    keys <<= INDEX_BITS
    keys |= np.arange(keys.shape[-1])
    keys.sort(-1)
    keys &= (1 << INDEX_BITS) - 1
    return torch.from_numpy(keys)


def scaled(factor: float | Tensor) -> Edit:
    """Weights times a number, or times a tensor that broadcasts to [b,h,q,k]; not renormalised."""
    return lambda site, weights: (weights * factor).to(weights.dtype)


def without_heads(heads: Mapping[int, Collection[int]] | Collection[tuple[int, int]], kind: str = "self") -> Edit:
    """Heads set to zero: {layer: [heads]} or pairs (layer, head)."""
    pairs = {(layer, h) for layer, hs in heads.items() for h in hs} if isinstance(heads, Mapping) else set(heads)

    def edit(site: Site, weights: Tensor) -> Tensor:
        gone = [h for layer, h in pairs if layer == site.layer and kind == site.kind]
        if any(not 0 <= h < weights.shape[1] for h in gone):
            raise BadInput(f"layer {site.layer} has heads 0 … {weights.shape[1] - 1}, not {sorted(gone)}.")
        keep = torch.ones(weights.shape[1], dtype=weights.dtype, device=weights.device)
        keep[gone] = 0
        return weights * keep[:, None, None] if gone else weights

    return edit


def heads_by_row(factors: Float[Tensor, "r l h"], kind: str = "self") -> Edit:
    """The heads of row r in layer l times a factor, not renormalised; rows that join the batch later are last."""

    def edit(site: Site, weights: Tensor) -> Tensor:
        if site.kind != kind:
            return weights
        return weights * factors[: len(weights), site.layer, :, None, None].to(weights.dtype)

    return edit


def without_positions(gone: Bool[Tensor, "b k"]) -> Edit:
    """Keys set to zero, and the rest of each row scaled to the row's former sum; zero if no weight remains."""

    def edit(site: Site, weights: Tensor) -> Tensor:
        rest = weights.masked_fill(gone.to(weights.device)[:, None, None, :], 0)
        total = rest.sum(-1, keepdim=True)
        tiny = torch.finfo(total.dtype).tiny
        return rest * torch.where(total > 0, weights.sum(-1, keepdim=True) / total.clamp(min=tiny), 0)

    return edit


def replaced(weights: Mapping[Any, Tensor]) -> Edit:
    """These weights, by Site or by (kind, layer); other sites keep their own."""
    table = {(key.kind, key.layer) if isinstance(key, Site) else tuple(key): value for key, value in weights.items()}

    def edit(site: Site, old: Tensor) -> Tensor:
        new = table.get((site.kind, site.layer))
        return old if new is None else new.to(old.dtype).expand_as(old)

    return edit


def at(edit: Edit, layers: Collection[int] | None = None, kind: str | None = None) -> Edit:
    """The edit at these layers and this kind of attention only."""

    def here(site: Site, weights: Tensor) -> Tensor:
        chosen = (layers is None or site.layer in layers) and (kind is None or site.kind == kind)
        return edit(site, weights) if chosen else weights

    return here


def then(first: Edit, second: Edit) -> Edit:
    """The first edit, then the second on its result."""
    return lambda site, weights: second(site, first(site, weights))


def held(site: Site, weights: Tensor) -> Tensor:
    """The same weights as constants: no gradient flows through attention (Jain & Wallace 2019)."""
    return weights.detach()


def leaf(site: Site, weights: Tensor) -> Tensor:
    """The same weights as a leaf of the graph: gradients with respect to them can be taken."""
    return weights.detach().clone().requires_grad_()


def tracked(site: Site, weights: Tensor) -> Tensor:
    """The same weights, in the graph: their gradients include the effect on the attention of later layers."""
    return weights if weights.requires_grad else weights.detach().clone().requires_grad_()
