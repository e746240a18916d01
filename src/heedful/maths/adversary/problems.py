"""What is asked of an adversary: a network affine in its attention, which outputs are kept, and what may be sought.

A `Problem` is a network whose logits are affine in the attention of one query. `limits` says which logits are near
enough, `polytope` which attentions give them. `held` asks for more than an equal output, that what a head reads stays,
and so serves any network, as a witness only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, softmax, xlogy

from heedful.core.target import Head
from heedful.maths.distances import changes

Floats = NDArray[np.float64]
Distance = Literal["jsd", "tvd"]
SINGLE = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class Problem:
    """Logits that are affine in attention: z(α) = logits + Σ (α − attention) · effects.

    `attention` [h,n] is the network's own, `effects` [h,n,c] what a weight adds to each logit.
    """

    attention: Floats
    effects: Floats
    logits: Floats
    head: Head = "softmax"

    def answers(self, attention: Floats) -> Floats:
        """[m,h,n] -> logits [m,c]."""
        return np.asarray(self.logits + np.einsum("mhn,hnc->mc", attention - self.attention, self.effects))

    def change(self, attention: Floats) -> Floats:
        """[m,h,n] -> [m]: how far the output moves, as `heedful.maths.distances` has it."""
        return changes(torch.from_numpy(self.answers(attention)), torch.from_numpy(self.logits), self.head).tvd


# distances


def terms(p: Floats, q: Floats, distance: Distance) -> Floats:
    """What each token adds to the distance of p and q."""
    if distance == "tvd":
        return np.abs(p - q) / 2
    middle = np.maximum((p + q) / 2, np.finfo(np.float64).tiny)
    return np.asarray((xlogy(p, p / middle) + xlogy(q, q / middle)) / 2)


def apart(p: Floats, q: Floats, distance: Distance) -> Floats:
    """[…,h,n] and [h,n] -> […]: the mean over heads; [[1, 0]] and [[0, 1]] -> ln 2, or 1."""
    return np.asarray(np.maximum(terms(p, q, distance).sum(-1), 0).mean(-1))


def corners(attention: Floats, distance: Distance) -> Floats:
    """[h,n]: the distance of each row from each one-hot attention."""
    absent, present = (terms(np.full_like(attention, x), attention, distance) for x in (0.0, 1.0))
    return np.asarray(absent.sum(-1, keepdims=True) - absent + present)


# which outputs count as kept


@dataclass(frozen=True)
class Limits:
    """low ≤ forms · logits ≤ high."""

    forms: Floats
    low: Floats
    high: Floats


def limits(problem: Problem, epsilon: float) -> tuple[Limits, Limits]:
    """Logits: what must hold for the output to move by ε at most, and what suffices for it.

    Both are one for one number (two classes; one output). For c classes, with p = softmax(z), it must hold that
    log((p_c − ε)⁺ / (p_d + ε)) ≤ z_c − z_d ≤ log((p_c + ε) / (p_d − ε)⁺), and it suffices that no difference of logits
    moves by more than 4 artanh ε, because TVD ≤ tanh(¼ max |Δ(z_c − z_d)|).
    """
    c = len(problem.logits)
    if problem.head == "softmax":
        first, second = np.triu_indices(c, 1)
        forms, p = np.eye(c)[first] - np.eye(c)[second], softmax(problem.logits)
        outer = Limits(forms, *_odds(p[first], p[second], epsilon))
        room = 4 * np.arctanh(epsilon) if epsilon < 1 else np.inf
        now = forms @ problem.logits
        return outer, outer if c == 2 else Limits(forms, now - room, now + room)
    forms, each = (np.eye(2)[1:], 1) if _opposite(problem) else (np.eye(c), c)
    now = forms @ problem.logits

    def within(room: float) -> Limits:
        if problem.head == "regression":
            return Limits(forms, now - room, now + room)
        return Limits(forms, *_odds(expit(now), expit(-now), room))

    return within(each * epsilon), within(epsilon)  # the output's change is the mean over labels


def _odds(p: Floats, q: Floats, epsilon: float) -> tuple[Floats, Floats]:
    """The least and the largest log(p/q) when each may move by ε: ∓∞ where one may reach 0."""
    with np.errstate(divide="ignore"):
        low = np.log(np.maximum(p - epsilon, 0)) - np.log(np.minimum(q + epsilon, 1))
        high = np.log(np.minimum(p + epsilon, 1)) - np.log(np.maximum(q - epsilon, 0))
    return low, high


def _opposite(problem: Problem) -> bool:
    """Whether two logits are one output and its negative, as heedful has a single sigmoid."""
    both = np.concatenate([problem.logits[None], problem.effects.reshape(-1, len(problem.logits))])
    return problem.head == "sigmoid" and both.shape[1] == 2 and bool(np.array_equal(both[:, 0], -both[:, 1]))


# what may be sought


@dataclass(frozen=True)
class Polytope:
    """Attentions [h,n] with low ≤ rows · α ≤ high, where rows is [m,h·n]; `centre` is the network's own, inside."""

    centre: Floats
    rows: Floats
    low: Floats
    high: Floats


def polytope(problem: Problem, kept: Limits) -> Polytope:
    """The attentions that keep these limits."""
    rows = np.einsum("mc,hnc->mhn", kept.forms, problem.effects).reshape(len(kept.forms), -1)
    shift = rows @ problem.attention.ravel() - kept.forms @ problem.logits
    return Polytope(problem.attention, rows, kept.low + shift, kept.high + shift)


def null_dimension(values: Floats, eps: float = SINGLE) -> int:
    """How many directions of attention change nothing that is read: n − rank [V, 1], for values [n,d]."""
    return int(len(values) - _range(values, eps).shape[1])


def _range(values: Floats, eps: float) -> Floats:
    """[n,r]: an orthonormal basis of the columns of [V, 1]; as null: largest singular value · max(n, d + 1) · eps."""
    scale = np.abs(values).max(initial=0) or 1.0
    both = np.concatenate([values / scale, np.ones((len(values), 1))], axis=1)
    left, singular, _ = np.linalg.svd(both, full_matrices=False)
    return np.asarray(left[:, singular > singular[0] * max(both.shape) * eps])


def held(attention: Floats, values: Floats, delta: float, eps: float = SINGLE) -> Polytope | None:
    """The rows α [n] with ‖Σ (α_j − attention_j) v_j‖∞ ≤ δ · rms(Σ attention_j v_j); None if there is but this one.

    For δ = 0 these are the rows that differ in the left null space of [V, 1] (Brunner et al. 2020, with row sums kept).
    """
    read = attention @ values
    room = delta * float(np.sqrt((read**2).mean())) if read.size else 0.0
    if room > 0:
        now = read / room
        return Polytope(attention[None], values.T / room, now - 1, now + 1)
    basis = _range(values, eps)
    now = basis.T @ attention
    return Polytope(attention[None], basis.T, now, now) if basis.shape[1] < len(values) else None
