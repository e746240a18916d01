"""Theory: gradients and LIME of a single-layer attention classifier, computed from its matrices.

Lopardo, Precioso & Garreau 2024. f = mean over heads of Σ_t g_t s_t / Σ_t g_t, with g_t = exp(q · k_t / √d_att) and
s_t = W_ℓ v_t. Pure: arrays in, arrays out, in float64. The derivations are in docs/theory.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property

import numpy as np
from jaxtyping import Float, Int

from heedful.core.arrays import Floats, Ints
from heedful.core.errors import BadInput
from heedful.maths.formulas import gauss_legendre
from heedful.maths.lime import kernel

TRAPEZOID_STEP = 0.4  # of the rule for 1/Z: relative error about 1e-9
MAX_FITTED_RATIO = 32.0  # up to which a sum of exponentials is fitted to 1/Z
MAX_BATCH_NUMBERS = 1 << 16  # held at a time: they should fit into the cache


@dataclass(frozen=True)
class Heads:
    """The matrices of the network; `out` is the row of W_ℓ for the explained number."""

    query: Float[Floats, "k a e"]
    key: Float[Floats, "k a e"]
    value: Float[Floats, "k o e"]
    out: Float[Floats, "k o"]

    def attention_directions(self, cls: Float[Floats, "e"]) -> Float[Floats, "k e"]:
        """W_kᵀ q / √d_att: the direction in which a vector attracts the query's attention."""
        queries = (self.query @ cls)[:, None]
        return (queries @ self.key)[:, 0] / math.sqrt(self.key.shape[1])

    def logit_directions(self) -> Float[Floats, "k e"]:
        """W_vᵀ W_ℓᵀ: the direction in which an attended vector moves the logit."""
        return (self.out[:, None] @ self.value)[:, 0]


def gradient(heads: Heads, vectors: Float[Floats, "t e"], query_term: bool = True) -> Float[Floats, "t e"]:
    """Theorem 4.1: ∇_{e_t} f = mean over heads of α_t [W_vᵀ W_ℓᵀ + (s_t − Σ_r α_r s_r) W_kᵀ q / √d_att].

    The theorem treats q as constant; q depends on [CLS], so its row (the first) lacks
    W_qᵀ Σ_r α_r (s_r − Σ_u α_u s_u) k_r / √d_att, which `query_term` adds.
    """
    attracting, moving = heads.attention_directions(vectors[0]), heads.logit_directions()
    attention = _exp(attracting @ vectors.T)  # [k,t]
    attention /= attention.sum(-1, keepdims=True)
    outputs = moving @ vectors.T
    pull = attention * (outputs - (attention * outputs).sum(-1, keepdims=True))
    slopes: Floats = (attention.T @ moving + pull.T @ attracting) / len(moving)
    if query_term:
        keys = (heads.key @ (pull @ vectors)[..., None])[..., 0] / math.sqrt(heads.key.shape[1])
        slopes[0] += np.einsum("kae,ka->e", heads.query, keys) / len(moving)
    return slopes


def _exp(scores: Float[Floats, "k t"]) -> Float[Floats, "k t"]:
    """exp, up to a common factor of each head."""
    return np.asarray(np.exp(scores - scores.max(-1, keepdims=True)))


@dataclass(frozen=True)
class Masses:
    """f of a text in which some words are replaced: a mean over heads of ratios of sums over words.

    For each word, summed over its occurrences: attention mass Σ g_t and output Σ g_t s_t, if it is kept and if it is
    replaced; and the same for the positions that always stay ([CLS], padding). Masses of a head have a common factor.
    """

    kept: Float[Floats, "k d"]
    kept_output: Float[Floats, "k d"]
    gone: Float[Floats, "k d"]
    gone_output: Float[Floats, "k d"]
    fixed: Float[Floats, "k"]
    fixed_output: Float[Floats, "k"]

    def f(self, keep: Float[Floats, "n d"]) -> Float[Floats, "n"]:
        """The number for each row of kept (1) and replaced (0) words."""
        mass = keep @ self.kept.T + (1 - keep) @ self.gone.T + self.fixed
        output = keep @ self.kept_output.T + (1 - keep) @ self.gone_output.T + self.fixed_output
        return np.asarray((output / mass).mean(-1))

    def of(self, heads: slice) -> Masses:
        """Some of the heads."""
        return Masses(**{field.name: getattr(self, field.name)[heads] for field in fields(self)})

    def only(self) -> Float[Floats, "1"]:
        """For a text with one distinct word: the effect of replacing it."""
        whole, empty = self.f(np.array([[1.0], [0.0]]))
        return np.array([whole - empty])

    def centred(self) -> Masses:
        """The same, minus each head's value for the whole text."""
        output, mass = self.kept_output.sum(-1) + self.fixed_output, self.kept.sum(-1) + self.fixed
        whole = (output / mass)[:, None]
        return replace(
            self,
            kept_output=self.kept_output - whole * self.kept,
            gone_output=self.gone_output - whole * self.gone,
            fixed_output=self.fixed_output - whole[:, 0] * self.fixed,
        )


def masses(heads: Heads, vectors: Float[Floats, "t e"], replaced: Float[Floats, "t e"], word: Int[Ints, "t"]) -> Masses:
    """From the vectors of the text, those of its replacements in place, and the word at each position (−1: fixed)."""
    k, n, d = len(heads.key), len(word), int(word.max()) + 1
    directions = np.concatenate([heads.attention_directions(vectors[0]), heads.logit_directions()])
    scores = directions @ np.concatenate([vectors, replaced]).T
    g = _exp(scores[:k])
    each = np.concatenate([g, g * scores[k:]]).reshape(2, k, 2, n)  # mass or output, head, kept or gone, position
    at = np.zeros((n, d + 1))
    at[np.arange(n), word] = 1  # subtle: −1 is the last column, a spare one for the fixed
    (kept, gone), (kept_output, gone_output) = (each @ at).swapaxes(1, 2)
    words = (kept[:, :d], kept_output[:, :d], gone[:, :d], gone_output[:, :d])
    return Masses(*words, fixed=kept[:, d], fixed_output=kept_output[:, d])


def lime_paper(m: Masses) -> Float[Floats, "d"]:
    """Theorem 5.1: β_j ≈ 3/2 · mean over heads of Σ_{t: x_t=j} (α_t s_t − α'_t s'_t), with ' for all words replaced."""
    whole = m.kept.sum(-1, keepdims=True) + m.fixed[:, None]
    empty = m.gone.sum(-1, keepdims=True) + m.fixed[:, None]
    return np.asarray(1.5 * (m.kept_output / whole - m.gone_output / empty).mean(0))


@dataclass(frozen=True)
class Draws:
    """LIME's samples: m of d words are kept, m = 0 … d − 1 equally often; `kernel` is the weight of such a sample."""

    kernel: Float[Floats, "d"]

    @cached_property
    def fraction(self) -> Float[Floats, "d"]:
        """u = m / d."""
        return _shared(np.arange(len(self.kernel)) / len(self.kernel))

    @cached_property
    def total(self) -> float:
        """Σ over m of the kernel."""
        return float(self.kernel.sum())

    def mean(self, x: Floats) -> Floats | np.float64:
        """E over m, along the last axis."""
        mean: Floats | np.float64 = x @ self.kernel / self.total
        return mean

    @cached_property
    def mean_fraction(self) -> float:
        """E[u]."""
        return float(self.mean(self.fraction))

    @cached_property
    def spread(self) -> float:
        """E[u (1 − u)] · d / (d − 1): the variance of a word's presence, minus its covariance with another's."""
        d = len(self.kernel)
        return float(self.mean(self.fraction * (1 - self.fraction))) * d / (d - 1)

    @cached_property
    def variance(self) -> float:
        """Var(u)."""
        return float(self.mean((self.fraction - self.mean_fraction) ** 2))


def kernel_weights(d: int, width: float | None) -> Float[Floats, "m"]:
    """LIME's weight of a sample that keeps m = 0 … d words; without a width all weights are 1."""
    return np.ones(d + 1) if width is None else kernel(np.arange(d + 1) / d, width)


@cache
def draws(d: int, width: float | None) -> Draws:
    """LIME's draws of a text with d ≥ 2 distinct words."""
    law = Draws(_shared(kernel_weights(d, width)[:-1]))
    if not (law.total > 0 and law.variance * d**2 > 1e-5):
        narrow = f"with kernel width {width}, all samples of {d} words that have weight keep the same number of words"
        raise BadInput(f"{narrow}, so LIME's coefficients are not determined; use a wider kernel.")
    return law


def lime_derived(m: Masses, width: float | None = 0.25) -> Float[Floats, "d"]:
    """LIME's limit, but with the mean of each head's ratio taken as the ratio of its means.

    β_j = E[u(1−u) φ_j] / spread + Cov(u, F) / (d Var(u)), where F(u) = E[f | m] and
    φ_j(u) = E[f | m, j kept] − E[f | m, j replaced], u = m/d. Accurate if no word has a large share of attention.
    """
    d = m.kept.shape[1]
    if d == 1:
        return m.only()
    law, kept = draws(d, width), np.arange(d)
    u = law.fraction
    with_j = _ratio(m, 1.0, np.maximum(kept - 1, 0) / (d - 1))
    without_j = _ratio(m, 0.0, kept / (d - 1))
    level = (u * with_j + (1 - u) * without_j).mean(0)
    covariance = law.mean(u * level) - law.mean_fraction * law.mean(level)
    within = law.mean(u * (1 - u) * (with_j - without_j)) / law.spread
    return np.asarray(within + covariance / (d * law.variance))


def _ratio(m: Masses, word: float, others: Float[Floats, "m"]) -> Float[Floats, "d m"]:
    """f at the mean masses when word j is kept (1) or replaced (0) and every other is kept with some probability."""

    def mean(kept: Floats, gone: Floats, fixed: Floats) -> Floats:
        gain = kept - gone
        rest = gain.sum(-1, keepdims=True) - gain
        return np.asarray(((fixed + gone.sum(-1))[:, None] + word * gain)[..., None] + others * rest[..., None])

    outputs, totals = mean(m.kept_output, m.gone_output, m.fixed_output), mean(m.kept, m.gone, m.fixed)
    return np.asarray((outputs / totals).mean(0))


def lime_exact(m: Masses, width: float | None = 0.25) -> Float[Floats, "d"]:
    """The coefficients to which LIME converges, to about eight digits.

    β_j = (E[z_j f] − E[u f]) / spread + Cov(u, f) / (d Var(u)), the solution of LIME's weighted least squares. The
    expectations are sums over subsets of words; they factorise when subsets are drawn word by word (`mixture`) and
    1/Z is written as a sum of exponentials (`inverse`).
    """
    d = m.kept.shape[1]
    if d == 1:
        return m.only()
    law = draws(d, width)
    # the mixture includes the whole text, which LIME does not draw again: f is centred there, so that it adds nothing
    f, joint = _expected(m.centred(), *mixture(d, width))
    level = float(joint.sum()) / d  # Σ w E[u f]
    covariance = (level - law.mean_fraction * f) / law.total
    return np.asarray((joint - level) / (law.total * law.spread) + covariance / (d * law.variance))


def _expected(m: Masses, nodes: Float[Floats, "q"], weights: Float[Floats, "q"]) -> tuple[float, Float[Floats, "d"]]:
    """Σ_q w_q E[f] and Σ_q w_q E[z_j f], where each word is kept independently with probability u_q."""
    least = m.fixed + np.minimum(m.kept, m.gone).sum(-1)
    most = m.fixed + np.maximum(m.kept, m.gone).sum(-1)
    rates, amounts = inverse(float((most / np.maximum(least, 1e-290)).max()))
    rate, amount = rates / most[:, None], amounts / most[:, None]  # [k,l]
    heads = max(1, MAX_BATCH_NUMBERS // (len(nodes) * len(rates) * m.kept.shape[1]))
    parts = [
        _summed(m.of(batch), (nodes, weights), (rate[batch], amount[batch]))
        for batch in (slice(i, i + heads) for i in range(0, len(most), heads))
    ]
    joint: Floats = sum((each for _, each in parts), start=np.zeros(m.kept.shape[1])) / len(most)
    return sum(f for f, _ in parts) / len(most), joint


def _summed(
    m: Masses, draws: tuple[Floats, Floats], inverse: tuple[Floats, Floats]
) -> tuple[float, Float[Floats, "d"]]:
    """The same summed over some heads; 1/Z is a sum of exponentials of these rates and amounts [k,l].

    exp(−λ kept) and exp(−λ gone) are divided by the larger of both, so that one of the two numbers c is 1 and the other
    below it: no word's share underflows. Words are the first axis of [d,k,l,q], which makes their product fast.
    """
    (u, weights), (rate, amount) = draws, inverse
    chance = np.array([u, 1 - u])  # [2,q]
    fall = np.exp(-np.abs(m.kept - m.gone).T[..., None] * rate)  # [d,k,l]
    more = (m.kept > m.gone).T[..., None]
    c = np.empty((*fall.shape, 2))
    c[..., 0], c[..., 1] = np.where(more, fall, 1.0), np.where(more, 1.0, fall)
    either = (c.reshape(-1, 2) @ chance).reshape(*fall.shape, -1)
    least = m.fixed + np.minimum(m.kept, m.gone).sum(-1)
    worth = either.prod(0) * ((np.exp(-rate * least[:, None]) * amount)[..., None] * weights)  # [k,l,q]
    np.reciprocal(either, out=either)
    by_head, c = either.transpose(1, 2, 0, 3), c.transpose(1, 2, 3, 0)  # views: [k,l,d,q] and [k,l,2,d]
    each = np.array([m.kept_output, m.gone_output]).swapaxes(0, 1)[:, None] * c @ by_head  # [k,l,2,q]
    output = worth * ((each * chance).sum(2) + m.fixed_output[:, None, None])
    level = (by_head @ (output * u)[..., None])[..., 0]
    np.multiply(either, either, out=either)
    spread = (by_head @ (worth * (u * (1 - u)))[..., None])[..., 0]  # of z_j itself, which f holds too
    gain = (m.kept_output - m.gone_output)[:, None] * c[:, :, 1]
    return float(output.sum()), ((level + gain * spread) * c[:, :, 0]).sum((0, 1))


def inverse(ratio: float) -> tuple[Float[Floats, "l"], Float[Floats, "l"]]:
    """Rates λ and amounts c with Σ c exp(−λ z) = 1/z for 1/ratio ≤ z ≤ 1, to a relative 1e-9."""
    if ratio > MAX_FITTED_RATIO:
        return trapezoid(ratio, TRAPEZOID_STEP)
    return _fitted(math.ceil(2 * math.log2(max(ratio, 1.0))))


def trapezoid(ratio: float, step: float) -> tuple[Float[Floats, "l"], Float[Floats, "l"]]:
    """The same for any ratio; 1/z = ∫₀^∞ exp(−λ z) dλ by the trapezoidal rule in y.

    λ = exp(y − exp(−y)), with which the integrand falls fast at both ends.
    """
    tail = -math.log(1e-10)
    y = np.arange(-math.log(tail), math.log(ratio * tail) + step, step)
    fall = np.exp(-y)
    rates = np.exp(y - fall)
    return rates, step * rates * (1 + fall)


@cache
def _fitted(halves: int) -> tuple[Floats, Floats]:
    """The same for a small ratio 2^(halves/2), with about half the terms: amounts fitted to fixed rates."""
    ratio, n = 2 ** (halves / 2), 8 + halves
    z = ratio ** ((np.cos(np.linspace(0, np.pi, 20 * n)) - 1) / 2)
    rates: Floats = 0.6 * (20 * ratio) ** np.linspace(0, 1, n)
    amounts = np.linalg.lstsq(z[:, None] * np.exp(-z[:, None] * rates), np.ones(len(z)), rcond=None)[0]
    return _shared(rates), _shared(amounts.astype(np.float64))


@cache
def mixture(d: int, width: float | None) -> tuple[Float[Floats, "q"], Float[Floats, "q"]]:
    """Probabilities u and weights w with Σ_q w_q Binomial(m; d, u_q) = the kernel's weight of m, for m = 0 … d.

    Nodes are Gauss–Legendre's; weights are the least-squares solution. It is exact for d < 14; its largest error (1e-3)
    is at m near 0, where the kernel has a vertical tangent, and changes no coefficient by 1e-8.
    """
    nodes = gauss_legendre(min(d + 1, 2 * math.isqrt(d) + 8))[0].numpy()
    ways = np.array([math.lgamma(d + 1) - math.lgamma(m + 1) - math.lgamma(d - m + 1) for m in range(d + 1)])
    kept = np.arange(d + 1)[:, None]
    binomial = np.exp(ways[:, None] + kept * np.log(nodes) + (d - kept) * np.log1p(-nodes))
    weights = np.linalg.lstsq(binomial, kernel_weights(d, width), rcond=1e-9)[0]
    return _shared(nodes), _shared(weights)


def _shared(values: Floats) -> Floats:
    """Read-only, since cached values are shared by all callers."""
    values.setflags(write=False)
    return values
