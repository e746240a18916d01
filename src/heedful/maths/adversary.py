"""The most different attention with the same output: exact solutions and bounds. Pure: numbers in, numbers out.

Distances between attentions are "jsd" (natural logarithm) or "tvd", the mean over heads. The gradient search of
Jain & Wallace 2019 is in `adversary_search`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.special import expit, softmax

from heedful.core.arrays import Floats
from heedful.core.target import Head
from heedful.maths.distances import changes
from heedful.maths.ranks import jensen_shannon_terms

Distance = Literal["jsd", "tvd"]
FLOAT32_EPS = float(np.finfo(np.float32).eps)
VERTEX_TOLERANCE = 1e-10  # relative: a token whose output is on the border counts as inside


@dataclass(frozen=True)
class Problem:
    """Logits that are affine in attention: z(α) = logits + Σ (α − attention) · effects.

    `attention` [h,n] is the network's own, `effects` [h,n,c] the effect of a weight on each logit.
    """

    attention: Floats
    effects: Floats
    logits: Floats
    head: Head = "softmax"

    def answers(self, attention: Floats) -> Floats:
        """[m,h,n] -> logits [m,c]."""
        return np.asarray(self.logits + np.einsum("mhn,hnc->mc", attention - self.attention, self.effects))

    def change(self, attention: Floats) -> Floats:
        """[m,h,n] -> [m]: the change of the output, as in `heedful.maths.distances`."""
        return changes(torch.from_numpy(self.answers(attention)), torch.from_numpy(self.logits), self.head).tvd


# distances


def distance_terms(p: Floats, q: Floats, distance: Distance) -> Floats:
    """The contribution of each token to the distance of p and q."""
    return np.abs(p - q) / 2 if distance == "tvd" else jensen_shannon_terms(p, q)


def attention_distance(p: Floats, q: Floats, distance: Distance) -> Floats:
    """[…,h,n] and [h,n] -> […]: the mean over heads; [[1, 0]] and [[0, 1]] -> ln 2, or 1."""
    return np.asarray(np.maximum(distance_terms(p, q, distance).sum(-1), 0).mean(-1))


def one_hot_distances(attention: Floats, distance: Distance) -> Floats:
    """[h,n]: the distance of each row from each one-hot attention."""
    absent, present = (distance_terms(np.full_like(attention, x), attention, distance) for x in (0.0, 1.0))
    return np.asarray(absent.sum(-1, keepdims=True) - absent + present)


# which outputs count as unchanged


@dataclass(frozen=True)
class Limits:
    """low ≤ forms · logits ≤ high."""

    forms: Floats
    low: Floats
    high: Floats


def limits(problem: Problem, epsilon: float) -> tuple[Limits, Limits]:
    """Necessary, and sufficient, constraints on the logits for the output to change by at most ε.

    They are the same for one number (two classes; one output). For c classes, with p = softmax(z), it is necessary that
    log((p_c − ε)⁺ / (p_d + ε)) ≤ z_c − z_d ≤ log((p_c + ε) / (p_d − ε)⁺), and sufficient that no difference of logits
    changes by more than 4 artanh ε, because TVD ≤ tanh(¼ max |Δ(z_c − z_d)|).
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
    """The smallest and the largest log(p/q) if each may change by ε: ∓∞ where one may reach 0."""
    with np.errstate(divide="ignore"):
        low = np.log(np.maximum(p - epsilon, 0)) - np.log(np.minimum(q + epsilon, 1))
        high = np.log(np.minimum(p + epsilon, 1)) - np.log(np.maximum(q - epsilon, 0))
    return low, high


def _opposite(problem: Problem) -> bool:
    """Whether two logits are one output and its negative: heedful's form of a single sigmoid."""
    both = np.concatenate([problem.logits[None], problem.effects.reshape(-1, len(problem.logits))])
    return problem.head == "sigmoid" and both.shape[1] == 2 and bool(np.array_equal(both[:, 0], -both[:, 1]))


# feasible sets


@dataclass(frozen=True)
class Polytope:
    """Attentions [h,n] with low ≤ rows · α ≤ high, where rows is [m,h·n]; `centre` is the network's own, inside."""

    centre: Floats
    rows: Floats
    low: Floats
    high: Floats


def polytope(problem: Problem, limits: Limits) -> Polytope:
    """The attentions that satisfy these limits."""
    rows = np.einsum("mc,hnc->mhn", limits.forms, problem.effects).reshape(len(limits.forms), -1)
    shift = rows @ problem.attention.ravel() - limits.forms @ problem.logits
    return Polytope(problem.attention, rows, limits.low + shift, limits.high + shift)


def null_dimension(values: Floats, eps: float = FLOAT32_EPS) -> int:
    """Dimension of the changes of attention that do not change the head's output: n − rank [V, 1], values [n,d]."""
    return int(len(values) - _column_space(values, eps).shape[1])


def _column_space(values: Floats, eps: float) -> Floats:
    """[n,r]: orthonormal basis of the columns of [V, 1]; tolerance: largest singular value · max(n, d + 1) · eps."""
    scale = np.abs(values).max(initial=0) or 1.0
    both = np.concatenate([values / scale, np.ones((len(values), 1))], axis=1)
    left, singular, _ = np.linalg.svd(both, full_matrices=False)
    return np.asarray(left[:, singular > singular[0] * max(both.shape) * eps])


def preserving_rows(attention: Floats, values: Floats, delta: float, eps: float = FLOAT32_EPS) -> Polytope | None:
    """The rows α [n] with ‖Σ (α_j − attention_j) v_j‖∞ ≤ δ · rms(Σ attention_j v_j); None if it is the only one.

    For δ = 0 they differ by a vector in the left null space of [V, 1] (Brunner et al. 2020, with row sums preserved).
    """
    read = attention @ values
    room = delta * float(np.sqrt((read**2).mean())) if read.size else 0.0
    if room > 0:
        now = read / room
        return Polytope(attention[None], values.T / room, now - 1, now + 1)
    basis = _column_space(values, eps)
    now = basis.T @ attention
    return Polytope(attention[None], basis.T, now, now) if basis.shape[1] < len(values) else None


@dataclass(frozen=True)
class Witness:
    """An attention [h,n] and its distance from the network's own."""

    attention: Floats
    distance: float


@dataclass(frozen=True)
class Bracket:
    """Bounds of the distance of attentions with the same output: `lower` is such an attention."""

    lower: Witness
    upper: float


def exact_witness(problem: Problem, epsilon: float, distance: Distance) -> Witness | None:
    """The farthest attention that changes the output by at most ε; None for several heads or numbers.

    A convex distance is largest at a vertex of {α ≥ 0, Σα = 1, low ≤ Σ α_t z_t ≤ high}: one token, or two whose mixture
    lies on a border. All vertices are compared.
    """
    necessary, _ = limits(problem, epsilon)
    if len(problem.attention) > 1 or len(necessary.forms) > 1:
        return None
    space = polytope(problem, necessary)
    z, q = space.rows[0], problem.attention[0]
    slack = VERTEX_TOLERANCE * max(1.0, float(np.abs(z).max()))
    inside = (z >= space.low - slack) & (z <= space.high + slack)
    one_token = np.where(inside, one_hot_distances(q[None], distance)[0], -np.inf)
    best, attention = float(one_token.max()), np.eye(len(q))[int(one_token.argmax())]
    for border in (float(space.low[0]), float(space.high[0])):
        value, mixture = _best_mixture(z, q, border, distance)
        if value > best:
            best, attention = value, mixture
    if best <= 0:
        return Witness(problem.attention, 0.0)
    return Witness(attention[None], float(attention_distance(attention[None], q[None], distance)))


def _best_mixture(z: Floats, q: Floats, border: float, distance: Distance) -> tuple[float, Floats]:
    """The largest distance of a mixture of two tokens, one on each side, whose mean is the border; and the mixture."""
    below, above = np.flatnonzero(z < border), np.flatnonzero(z > border)
    if not np.isfinite(border) or not len(below) or not len(above):
        return -np.inf, q
    share = (border - z[below, None]) / (z[above] - z[below, None])  # of the one above
    absent = distance_terms(np.zeros_like(q), q, distance)
    low = distance_terms(1 - share, np.broadcast_to(q[below, None], share.shape), distance) - absent[below, None]
    high = distance_terms(share, np.broadcast_to(q[above], share.shape), distance) - absent[above]
    total = low + high
    i, j = np.unravel_index(int(total.argmax()), total.shape)
    mixture = np.zeros_like(q)
    mixture[below[i]], mixture[above[j]] = 1 - share[i, j], share[i, j]
    return float(total[i, j] + absent.sum()), mixture


def envelope(space: Polytope, distance: Distance) -> Bracket:
    """The largest Σ α_t D(e_t) in the polytope, an upper bound, and the distance of its maximiser, a lower bound."""
    gains = one_hot_distances(space.centre, distance) / len(space.centre)
    optimum = _maximise(space, gains.ravel())
    if optimum is None:
        return Bracket(Witness(space.centre, 0.0), float(gains.max(1).sum()))
    attention = _renormalised(optimum, space.centre.shape)
    upper = float(gains.ravel() @ optimum)
    reached = float(attention_distance(attention, space.centre, distance))
    return Bracket(Witness(attention, reached), max(upper, reached))


def bracket(problem: Problem, epsilon: float, distance: Distance) -> Bracket:
    """Bounds of the largest distance, for any number of heads and classes."""
    necessary, sufficient = limits(problem, epsilon)
    upper = envelope(polytope(problem, necessary), distance).upper
    lower = _shrunk(problem, envelope(polytope(problem, sufficient), distance).lower.attention, epsilon)
    return Bracket(Witness(lower, float(attention_distance(lower, problem.attention, distance))), upper)


def _shrunk(problem: Problem, attention: Floats, epsilon: float) -> Floats:
    """The solver's solution, exact to 1e-7, moved towards the centre until the output changes by at most ε."""
    for share in (1.0, 1 - 1e-7, 1 - 1e-6, 1 - 1e-5, 1 - 1e-4, 1 - 1e-3, 1 - 1e-2):
        inside = problem.attention + share * (attention - problem.attention)
        if problem.change(inside[None])[0] <= epsilon:
            return inside
    return problem.attention


def tvd_bound(space: Polytope, seconds: float) -> Bracket:
    """Total variation by mixed integer programming: the best solution within the time limit, and the proven bound.

    α − α₀ = p − m with p_t ≤ (1 − α₀_t) b_t and m_t ≤ α₀_t (1 − b_t), b_t 0 or 1; Σ p is maximised.
    """
    q = space.centre.ravel()
    identity, zeros = np.eye(len(q)), np.zeros((len(q), len(q)))
    gains = np.concatenate([np.ones_like(q), np.zeros(2 * len(q))]) / len(space.centre)
    scaled, *bounds = _scaled(space)
    rows = np.concatenate([scaled, _row_sums(space.centre)])
    low, high = (np.concatenate([bound, np.zeros(len(space.centre))]) for bound in bounds)
    constraints = [
        LinearConstraint(np.concatenate([rows, -rows, 0 * rows], axis=1), low, high),
        LinearConstraint(np.concatenate([identity, zeros, -np.diag(1 - q)], axis=1), -np.inf, 0),
        LinearConstraint(np.concatenate([zeros, identity, np.diag(q)], axis=1), -np.inf, q),
    ]
    solution = milp(
        -gains,
        constraints=constraints,
        bounds=Bounds(0, np.concatenate([1 - q, q, np.ones_like(q)])),
        integrality=np.repeat([0, 0, 1], len(q)),
        options={"time_limit": seconds},
    )
    trivial = float((1 - space.centre.min(1)).mean())
    bound = trivial if solution.mip_dual_bound is None else min(trivial, -float(solution.mip_dual_bound))
    if solution.x is None:
        return Bracket(Witness(space.centre, 0.0), bound)
    more, less, _ = np.split(solution.x, 3)
    attention = _renormalised(q + more - less, space.centre.shape)
    reached = float(attention_distance(attention, space.centre, "tvd"))
    return Bracket(Witness(attention, reached), max(bound, reached))


def _row_sums(centre: Floats) -> Floats:
    """[h,h·n]: the matrix that sums each head's weights."""
    return np.repeat(np.eye(len(centre)), centre.shape[1], axis=1)


def _scaled(space: Polytope) -> tuple[Floats, Floats, Floats]:
    """Rows scaled to largest entry 1, for one meaning of the solver's tolerance; bounds of rows · (α − centre)."""
    size = np.abs(space.rows).max(axis=1, initial=0)
    size[size == 0] = 1
    rows = space.rows / size[:, None]
    now = rows @ space.centre.ravel()
    return rows, np.minimum(space.low / size - now, 0), np.maximum(space.high / size - now, 0)


def _maximise(space: Polytope, gains: Floats) -> Floats | None:
    """The attention [h·n] with the largest total gain, from a linear program; None if the solver fails."""
    rows, low, high = _scaled(space)
    now = rows @ space.centre.ravel()
    solution = milp(
        -gains,
        constraints=[
            LinearConstraint(rows, low + now, high + now),
            LinearConstraint(_row_sums(space.centre), space.centre.sum(1), space.centre.sum(1)),
        ],
        bounds=Bounds(0, 1),
    )
    return None if solution.x is None else np.asarray(solution.x)


def _renormalised(attention: Floats, shape: tuple[int, ...]) -> Floats:
    """The solver's rounding removed: no weight below 0, rows that sum to one."""
    positive = np.maximum(attention.reshape(shape), 0)
    return np.asarray(positive / positive.sum(-1, keepdims=True))
