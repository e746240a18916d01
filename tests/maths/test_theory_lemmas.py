"""The ingredients of LIME's limit, each by itself: conditional means, the mean of a ratio, sums and their integrals.

Lopardo et al. 2024, proposition 2.1 and lemmas 4.1–4.4, as docs/theory.md uses them. Up to ten words all subsets are
listed; texts of two kinds of words, of which a hypergeometric number is kept, give exact means at any length.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy import integrate, stats

from heedful.core.arrays import Bools, Floats
from heedful.maths import theory
from heedful.maths.theory import Draws, Masses

WIDTHS = [None, 0.1, 0.25, 1.0]
DOUBLED = [16, 32, 64, 128, 256, 512]


def order(errors: Sequence[float], lengths: Sequence[int] = DOUBLED) -> float:
    """The exponent with which errors change with the length: −1 where doubling it halves them."""
    return float(np.polyfit(np.log(lengths), np.log(np.abs(errors)), 1)[0])


# ten words or fewer: every subset


def few(d: int = 8, heads: int = 2, seed: int = 0, even: bool = False) -> Masses:
    """Words of which each has its own mass and saying; `even`: replacing a word changes what is said, not the mass."""
    rng = np.random.default_rng(seed)
    kept, gone = rng.lognormal(size=(2, heads, d))
    said, said_gone = rng.normal(size=(2, heads, d))
    gone = kept if even else gone
    return Masses(kept, kept * said, gone, gone * said_gone, rng.lognormal(size=heads), rng.normal(size=heads))


def subsets(d: int) -> Floats:
    return np.array(list(itertools.product((0.0, 1.0), repeat=d)))


def law(d: int, width: float | None) -> Floats:
    """How often LIME draws each subset, times its kernel, up to a factor; never the whole text."""
    keep = subsets(d)
    m = keep.sum(1)
    ways = np.array([math.comb(d, int(k)) for k in m])
    near = np.ones(len(m)) if width is None else np.exp(-((1 - np.sqrt(m / d)) ** 2) / (2 * width**2))
    return np.where(m < d, near / ways, 0.0)


def mean_given(values: Floats, where: Bools, weights: Floats | None = None) -> float:
    chosen = np.ones(len(values)) if weights is None else weights
    return float(np.average(values[where], weights=chosen[where]))


@pytest.mark.parametrize("m", range(1, 8))
def test_given_how_many_words_are_kept_the_mean_masses_are_those_of_the_formula(m: int) -> None:
    """Where masses do not change, f is linear, and the ratio of means is the mean: all that is left is the mean."""
    masses, keep = few(even=True), subsets(8)
    f, size = masses.f(keep), keep.sum(1)
    for word, others in ((1.0, (m - 1) / 7), (0.0, m / 7)):
        result = theory._ratio(masses, word, np.array([others]))[:, 0]
        twin = [mean_given(f, (size == m) & (keep[:, j] == word)) for j in range(8)]
        np.testing.assert_allclose(result, twin, rtol=0, atol=1e-12)


def conditional(masses: Masses, width: float | None) -> Floats:
    """E[f | j kept] − E[f | j replaced] by the formula's ratios; a kept word makes large samples likelier."""
    d = masses.kept.shape[1]
    chances, kept = theory.draws(d, width), np.arange(d)
    u = chances.fraction
    with_j = theory._ratio(masses, 1.0, np.maximum(kept - 1, 0) / (d - 1))
    without_j = theory._ratio(masses, 0.0, kept / (d - 1))
    kept_mean, replaced_mean = chances.mean(u * with_j), chances.mean((1 - u) * without_j)
    return np.asarray(kept_mean / chances.mean_fraction - replaced_mean / (1 - chances.mean_fraction))


def conditional_twin(masses: Masses, width: float | None) -> Floats:
    d = masses.kept.shape[1]
    keep, weights = subsets(d), law(d, width)
    f = masses.f(keep)
    return np.array(
        [mean_given(f, keep[:, j] == 1, weights) - mean_given(f, keep[:, j] == 0, weights) for j in range(d)]
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_what_keeping_a_word_changes_on_average_is_exact_where_f_is_linear(width: float | None) -> None:
    masses = few(even=True)
    np.testing.assert_allclose(conditional(masses, width), conditional_twin(masses, width), rtol=0, atol=1e-12)


@pytest.mark.parametrize("width", WIDTHS)
def test_what_keeping_a_word_changes_on_average_is_near_where_f_is_a_ratio(width: float | None) -> None:
    pairs = [(conditional(few(10, seed=s), width), conditional_twin(few(10, seed=s), width)) for s in range(5)]
    off = [float(np.linalg.norm(result - twin) / np.linalg.norm(twin)) for result, twin in pairs]
    assert min(off) > 1e-3
    assert max(off) < 0.15


def least_squares(masses: Masses, width: float | None) -> Floats:
    d = masses.kept.shape[1]
    keep, root = subsets(d), np.sqrt(law(d, width))[:, None]
    table = np.concatenate([np.ones((len(keep), 1)), keep], 1)
    solved: Floats = np.linalg.lstsq(root * table, root[:, 0] * masses.f(keep), rcond=None)[0]
    return solved[1:]


@pytest.mark.parametrize("width", WIDTHS)
def test_conditional_means_are_all_that_limes_coefficients_need(width: float | None) -> None:
    """β_j = E[u(1−u) φ_j] / κ + Cov(u, F) / (d Var u), with conditional means from the list of all subsets."""
    masses, d = few(), 8
    keep, chances = subsets(d), theory.draws(d, width)
    f, size, u = masses.f(keep), keep.sum(1), chances.fraction
    level = np.array([mean_given(f, size == m) for m in range(d)])
    covariance = chances.mean(u * level) - chances.mean_fraction * chances.mean(level)
    result = []
    for j in range(d):
        change = [
            mean_given(f, (size == m) & (keep[:, j] == 1)) - mean_given(f, (size == m) & (keep[:, j] == 0))
            for m in range(1, d)
        ]
        own = chances.mean(u * (1 - u) * np.array([0.0, *change])) / chances.spread
        result.append(own + covariance / (d * chances.variance))
    np.testing.assert_allclose(result, least_squares(masses, width), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("m", range(9))
@pytest.mark.parametrize("what", ["mass", "said", "both"])
def test_given_how_many_words_are_kept_masses_vary_as_in_draws_without_replacement(m: int, what: str) -> None:
    """Cov(Σ z a, Σ z b | m) = m (d − m) / (d (d − 1)) · Σ (a − ā)(b − b̄)."""
    masses, keep = few(heads=1), subsets(8)
    gains = {"mass": (masses.kept - masses.gone)[0], "said": (masses.kept_output - masses.gone_output)[0]}
    a, b = (gains["mass"], gains["said"]) if what == "both" else (gains[what], gains[what])
    some = keep[keep.sum(1) == m]
    twin = np.cov(np.stack([some @ a, some @ b]), bias=True)[0, 1]
    result = m * (8 - m) / (8 * 7) * ((a - a.mean()) * (b - b.mean())).sum()
    assert result == pytest.approx(twin, abs=1e-12)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("d", [3, 5, 9])
def test_the_moments_of_presence_are_those_of_all_subsets(d: int, width: float | None) -> None:
    keep, weights = subsets(d), law(d, width)
    chances = theory.draws(d, width)
    cov = np.cov(keep.T, aweights=weights, bias=True)
    np.testing.assert_allclose(np.average(keep, axis=0, weights=weights), chances.mean_fraction, rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.diag(cov) - cov[0, 1], chances.spread, rtol=0, atol=1e-12)
    assert cov.sum() / d**2 == pytest.approx(chances.variance, abs=1e-12)


# texts of two kinds of words, of any length


def kinds(d: int) -> Masses:
    """Half of the words draw much attention and half draw little; [CLS] has the mass of about one word."""

    def row(one: float, other: float) -> Floats:
        return np.array([[one] * (d // 2) + [other] * (d - d // 2)])

    return Masses(
        kept=row(1.0, 2.5), kept_output=row(1.0, -1.75), gone=row(0.8, 0.4), gone_output=row(0.24, 0.04),
        fixed=np.array([1.2]), fixed_output=np.array([0.6]),
    )  # fmt: skip


def outcomes(masses: Masses, m: int, ones: int, others: int) -> tuple[Floats, Floats, Floats]:
    """Chances, N and Z when m of so many words of each kind are kept, and no other word is there."""
    a = np.arange(max(0, m - others), min(ones, m) + 1)

    def total(kept: Floats, gone: Floats) -> Floats:
        first = kept[0, 0] * a + gone[0, 0] * (ones - a)
        return np.asarray(first + kept[0, -1] * (m - a) + gone[0, -1] * (others - m + a), dtype=np.float64)

    chances = stats.hypergeom.pmf(a, ones + others, ones, m)
    return chances, total(masses.kept_output, masses.gone_output), total(masses.kept, masses.gone)


def parts(masses: Masses, m: int) -> tuple[Floats, Floats, Floats]:
    """The same of the whole text, with what always stays."""
    d = masses.kept.shape[1]
    chances, n, z = outcomes(masses, m, d // 2, d - d // 2)
    return chances, n + masses.fixed_output[0], z + masses.fixed[0]


@pytest.mark.parametrize("share", [4, 2])
def test_the_mean_of_a_ratio_is_the_ratio_of_means_to_order_one_over_d(share: int) -> None:
    errors = []
    for d in DOUBLED:
        p, n, z = parts(kinds(d), d // share)
        errors.append(float(p @ (n / z) - (p @ n) / (p @ z)))
    assert order(errors) == pytest.approx(-1, abs=0.05)


@pytest.mark.parametrize("share", [4, 2])
def test_the_conditional_variance_is_what_the_ratio_of_means_lacks(share: int) -> None:
    """E[N/Z] = E N / E Z − Cov(N, Z) / (E Z)² + E N Var Z / (E Z)³, to the next order."""
    errors = []
    for d in DOUBLED:
        p, n, z = parts(kinds(d), d // share)
        top, bottom = p @ n, p @ z
        correction = -(p @ ((n - top) * (z - bottom))) / bottom**2 + top * (p @ (z - bottom) ** 2) / bottom**3
        errors.append(float(p @ (n / z) - top / bottom - correction))
    assert order(errors) == pytest.approx(-2, abs=0.1)


def change(masses: Masses, m: int, j: int) -> float:
    """E[f | m, word j kept] − E[f | m, word j replaced], exactly."""
    d = masses.kept.shape[1]
    ones = d // 2 - (j < d // 2)
    values = []
    for kept, own_said, own in (
        (m - 1, masses.kept_output[0, j], masses.kept[0, j]),
        (m, masses.gone_output[0, j], masses.gone[0, j]),
    ):
        p, n, z = outcomes(masses, kept, ones, d - 1 - ones)
        values.append(float(p @ ((n + own_said + masses.fixed_output[0]) / (z + own + masses.fixed[0]))))
    return values[0] - values[1]


@pytest.mark.parametrize("share", [4, 2])
def test_what_a_word_changes_is_of_order_one_over_d_and_its_error_of_the_next(share: int) -> None:
    """Both kinds together: the error of one alone can pass through zero on its way."""
    result, errors = [], []
    for d in DOUBLED:
        masses, m = kinds(d), d // share
        exact = np.array([change(masses, m, j) for j in (0, d - 1)])
        kept, replaced = (theory._ratio(masses, z, np.array([(m - z) / (d - 1)]))[[0, -1], 0] for z in (1.0, 0.0))
        result.append(float(np.linalg.norm(exact)))
        errors.append(float(np.linalg.norm(exact - (kept - replaced))))
    assert order(result) == pytest.approx(-1, abs=0.1)
    assert order(errors) == pytest.approx(-2, abs=0.1)


@pytest.mark.parametrize("width", [None, 0.25])
@pytest.mark.parametrize("d", [20, 60, 200])
def test_the_exact_form_is_right_beyond_what_can_be_listed(d: int, width: float | None) -> None:
    masses, chances = kinds(d), theory.draws(d, width)
    u = chances.fraction
    level = np.array([p @ (n / z) for p, n, z in (parts(masses, m) for m in range(d))])
    covariance = chances.mean(u * level) - chances.mean_fraction * chances.mean(level)
    own = np.array([[0.0, *(change(masses, m, j) for m in range(1, d))] for j in (0, d - 1)])
    twin = chances.mean(u * (1 - u) * own) / chances.spread + covariance / (d * chances.variance)
    np.testing.assert_allclose(theory.lime_exact(masses, width)[[0, -1]], twin, rtol=1e-7)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_derived_form_nears_the_exact_one_like_one_over_d(width: float | None) -> None:
    off = []
    for d in DOUBLED[:5]:
        result, exact = (form(kinds(d), width)[[0, -1]] for form in (theory.lime_derived, theory.lime_exact))
        off.append(float(np.linalg.norm(result - exact) / np.linalg.norm(exact)))
    assert order(off, DOUBLED[:5]) == pytest.approx(-1, abs=0.15)


# sums over the number of kept words, and their integrals


def mean_over(width: float | None) -> Callable[[Callable[[float], float]], float]:
    """The mean over u in [0, 1] with LIME's kernel as density."""

    def near(u: float) -> float:
        return 1.0 if width is None else math.exp(-((1 - math.sqrt(u)) ** 2) / (2 * width**2))

    def integral(f: Callable[[float], float]) -> float:
        return float(integrate.quad(lambda u: near(u) * f(u), 0, 1, epsabs=1e-13, epsrel=1e-11, limit=200)[0])

    total = integral(lambda u: 1.0)
    return lambda f: integral(f) / total


def test_without_a_kernel_the_moments_are_known_sums() -> None:
    for d in (2, 7, 40):
        chances = theory.draws(d, None)
        known = ((d - 1) / (2 * d), (d + 1) / (6 * d), (d**2 - 1) / (12 * d**2))
        assert (chances.mean_fraction, chances.spread, chances.variance) == pytest.approx(known, abs=1e-14)


MOMENTS: dict[str, Callable[[Draws], float]] = {
    "usual": lambda chances: chances.mean_fraction,
    "spread": lambda chances: chances.spread,
    "variance": lambda chances: chances.variance,
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", MOMENTS)
def test_moments_near_their_integrals_like_one_over_d(name: str, width: float | None) -> None:
    mean = mean_over(width)
    centre = mean(lambda u: u)
    limits = {"usual": centre, "spread": mean(lambda u: u * (1 - u)), "variance": mean(lambda u: (u - centre) ** 2)}
    errors = [MOMENTS[name](theory.draws(d, width)) - limits[name] for d in DOUBLED]
    faster = (name, width) == ("variance", None)  # both ends of a sum without a kernel weigh alike
    assert order(errors) == pytest.approx(-2 if faster else -1, abs=0.15)


def integral_form(masses: Masses, width: float | None) -> Floats:
    """E_μ[u(1−u) δ_j] / E_μ[u(1−u)] + (Cov_μ(u, F) / Var_μ(u) − E_μ[u(1−u) F′] / E_μ[u(1−u)]) / d, first and last j.

    δ_j is the slope of F along word j alone, F′ its slope along all words: no number of kept words is left in it.
    """
    d, mean = masses.kept.shape[1], mean_over(width)
    gain, gain_output = (masses.kept - masses.gone)[0], (masses.kept_output - masses.gone_output)[0]
    gone, gone_output = masses.gone.sum() + masses.fixed[0], masses.gone_output.sum() + masses.fixed_output[0]

    def level(u: float) -> float:
        return float((gone_output + u * gain_output.sum()) / (gone + u * gain.sum()))

    def slope(u: float, said: float, mass: float) -> float:
        return float((said - level(u) * mass) / (gone + u * gain.sum()))

    centre, spread = mean(lambda u: u), mean(lambda u: u * (1 - u))
    common = mean(lambda u: (u - centre) * level(u)) / mean(lambda u: (u - centre) ** 2)
    common -= mean(lambda u: u * (1 - u) * slope(u, gain_output.sum(), gain.sum())) / spread
    own = [mean(lambda u, j=j: u * (1 - u) * slope(u, gain_output[j], gain[j])) / spread for j in (0, -1)]  # type: ignore[misc]
    return np.asarray(np.array(own) + common / d, dtype=np.float64)


@pytest.mark.parametrize("width", WIDTHS)
def test_sums_over_kept_words_near_their_integrals_like_one_over_d(width: float | None) -> None:
    """Relative to coefficients that are themselves of order 1/d."""
    off = []
    for d in DOUBLED:
        result, limit = theory.lime_derived(kinds(d), width)[[0, -1]], integral_form(kinds(d), width)
        off.append(float(np.linalg.norm(result - limit) / np.linalg.norm(limit)))
    assert order(off) == pytest.approx(-1, abs=0.1)
    assert off[0] < 0.05


def test_without_a_kernel_the_integral_form_is_six_times_the_integral() -> None:
    """6 ∫ u(1−u) δ_j du, but for a remainder of all words alike that has a factor 1/d."""
    masses = kinds(512)
    gain, gain_output = (masses.kept - masses.gone)[0], (masses.kept_output - masses.gone_output)[0]
    u, weights = np.polynomial.legendre.leggauss(64)
    u, weights = (u + 1) / 2, weights / 2
    z = masses.gone.sum() + masses.fixed[0] + u * gain.sum()
    level = (masses.gone_output.sum() + masses.fixed_output[0] + u * gain_output.sum()) / z
    twin = [6 * weights @ (u * (1 - u) * (gain_output[j] - level * gain[j]) / z) for j in (0, -1)]
    result = integral_form(masses, None)
    assert result - result.mean() == pytest.approx(twin - np.mean(twin), rel=1e-9)
