"""Keys: distances between the keys of attention, and between the attentions that they give. Tensors in, numbers out.

A key distance is no attention distance: one vector added to all keys is as long as one likes, and no softmax of q·kᵀ
changes. Keys are centred over the tokens of a text before a distance of theirs can mean anything.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from heedful.core.target import Head

KeyDistance = Literal["norm", "log"]


def key_distances(
    keys: Float[Tensor, "b *l t d"], others: Float[Tensor, "b *l t d"], real: Bool[Tensor, "b t"]
) -> Float[Tensor, "b"]:
    """‖k − k′‖₂ of each text, over its layers, real tokens and features: [[3, 4]] and [[0, 0]] -> 5."""
    apart = (keys - others) * _like(real, keys)
    norms: Tensor = torch.linalg.vector_norm(apart.flatten(1), dim=1)
    return norms


def stated_distance(distances: Float[Tensor, "b"], kind: KeyDistance) -> Float[Tensor, ""]:
    """The distance of a batch: "norm" is its mean, as in the poster; "log" is log mean ‖·‖², as in its code."""
    return distances.mean() if kind == "norm" else distances.square().mean().log()


def centred(keys: Float[Tensor, "b *l t d"], real: Bool[Tensor, "b t"]) -> Float[Tensor, "b *l t d"]:
    """Keys minus their mean over the real tokens of the text; 0 elsewhere: [[1], [3]] -> [[−1], [1]]."""
    mask = _like(real, keys)
    mean = (keys * mask).sum(-2, keepdim=True) / mask.sum(-2, keepdim=True).clamp(min=1)
    return (keys - mean) * mask


def row_divergences(p: Float[Tensor, "*b k"], q: Float[Tensor, "*b k"]) -> Float[Tensor, "*b"]:
    """Jensen–Shannon divergence (natural logarithm) of each pair of rows; its gradient is finite at weight 0.

    In single precision at least, exact to 1e-6: double would take four times as long for matrices of long texts.
    """
    p, q = _single(p), _single(q)
    # subtle: the smallest number instead of 0 inside logarithms keeps 0·log 0 = 0 and its derivative finite
    tiny = torch.finfo(p.dtype).tiny
    first, second, middle = (x.clamp(min=tiny).log() for x in (p, q, (p + q) / 2))
    return (p * (first - middle) + q * (second - middle)).sum(-1) / 2


def row_variations(p: Float[Tensor, "*b k"], q: Float[Tensor, "*b k"]) -> Float[Tensor, "*b"]:
    """Total variation distance of each pair of rows: [1, 0] and [0, 1] -> 1."""
    return (_single(p) - _single(q)).abs().sum(-1) / 2


def mean_over_queries(values: Float[Tensor, "b h q"], shares: Float[Tensor, "b t"]) -> Float[Tensor, "b"]:
    """The mean over heads and over the queries of each text, by their shares: 1 for a real token and 0 for padding.

    Over all queries where there is one for the whole text.
    """
    if values.shape[2] != shares.shape[1]:
        return values.mean((1, 2))
    weights = shares.to(values.dtype)
    return (values.mean(1) * weights).sum(1) / weights.sum(1).clamp(min=torch.finfo(values.dtype).tiny)


def output_divergences(logits: Float[Tensor, "b c"], base: Float[Tensor, "b c"], head: Head) -> Float[Tensor, "b"]:
    """KL(base ‖ new) of each prediction: 0 for the same. For a sigmoid, the mean over labels, each label a coin."""
    new, old = logits.double(), base.double()
    if head == "softmax":
        return (old.softmax(-1) * (old.log_softmax(-1) - new.log_softmax(-1))).sum(-1)
    yes = old.sigmoid() * (logsigmoid(old) - logsigmoid(new))
    no = (-old).sigmoid() * (logsigmoid(-old) - logsigmoid(-new))
    return (yes + no).mean(-1)


def _like(real: Bool[Tensor, "b t"], keys: Tensor) -> Tensor:
    """The mask with the axes of the keys [b,…,t,d]."""
    return real.to(keys.dtype).reshape(len(real), *[1] * (keys.ndim - 3), -1, 1)


def _single(x: Tensor) -> Tensor:
    """At least in single precision."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
