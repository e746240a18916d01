"""Distances between outputs of a model, and between its attentions. Pure: logits or weights in, numbers out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.target import Head, activation
from heedful.maths.ranks import jensen_shannon

MIN_LOG_WEIGHT = 1e-10  # smaller weights count as this one inside a logarithm, as in the authors' programs


@dataclass(frozen=True)
class Changes:
    """For each of n outputs: TVD and Jensen–Shannon divergence from a base output, and whether the label flips.

    softmax      TVD = ½ Σ |p − q| and JSD over labels; flip: another label has the highest probability
    sigmoid      the mean over labels of both, each label a coin; flip: some label crosses ½ (with two opposite logits,
                 as heedful has them for one output, that is the same as softmax)
    regression   TVD is |Δ output|; JSD and flip do not exist (NaN)
    """

    tvd: Floats
    jsd: Floats
    flip: Floats


def changes(logits: Float[Tensor, "n c"], base: Float[Tensor, "c"], head: Head) -> Changes:
    """How each row differs from `base`: changes([[0, 0]], [0, 100], "softmax").tvd -> [.5]."""
    new, old = logits.detach().cpu().double(), base.detach().cpu().double()
    if head == "regression":
        missing = np.full(len(new), np.nan)
        return Changes((new - old).abs().mean(-1).numpy(), missing, missing)
    p, q = activation(new, head), activation(old[None], head)
    if head == "softmax":
        tvd, jsd = (p - q).abs().sum(-1) / 2, jensen_shannon(p.numpy(), q.numpy())
        flip = new.argmax(-1) != old.argmax(-1)
    else:
        coins, others = (torch.stack([x, 1 - x], -1).numpy() for x in (p, q))
        tvd, jsd = (p - q).abs().mean(-1), jensen_shannon(coins, others).mean(-1)
        flip = ((p > 0.5) != (q > 0.5)).any(-1)
    return Changes(tvd.numpy(), jsd, flip.double().numpy())


def attention_divergence(
    p: Float[Tensor, "b r k"], q: Float[Tensor, "b r k"], allowed: Bool[Tensor, "b r k"]
) -> Float[Tensor, "b"]:
    """KL(p ‖ q) = Σ p log(p / q) over the allowed keys, the mean over r rows; differentiable by both.

    Keys are masked before the logarithm, whose argument is at least MIN_LOG_WEIGHT: weights of 0 (sparsemax, underflow)
    give finite numbers and derivatives.
    """
    # subtle: 0 · log 0 is NaN, and so is its derivative after a mask
    first, second = (x.masked_fill(~allowed, 1.0).clamp(min=MIN_LOG_WEIGHT) for x in (p, q))
    terms = p.masked_fill(~allowed, 0.0) * (first.log() - second.log())
    return terms.sum(-1).mean(-1)
