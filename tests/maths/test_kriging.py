"""Kriging against sums over all sets, written out."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from numpy.testing import assert_allclose

from heedful.core.arrays import Floats
from heedful.maths import kriging
from heedful.maths.shapley import all_subsets
from tests.support.games import products, walsh

RANDOM = np.random.default_rng(0)


def uneven(d: int, mean: float) -> Floats:
    return np.minimum(0.95, mean * np.random.default_rng(d).uniform(0.5, 1.5, d))


def variances(rho: Floats) -> Floats:
    """Of each product of words: Π ρᵢ."""
    return np.array([rho[row].prod() for row in all_subsets(len(rho))])


CASES = [(d, mean) for d in (1, 2, 3, 5, 8) for mean in (0.03, 0.4, 0.9)]


@pytest.mark.parametrize(("d", "mean"), CASES)
def test_the_covariance_is_a_sum_over_all_products(d: int, mean: float) -> None:
    rho, x = uneven(d, mean), kriging.signs(all_subsets(d))
    twin = (products(d) * variances(rho)) @ products(d).T
    assert_allclose(kriging.covariance(x, x, rho), twin, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("d", "mean"), CASES)
def test_the_odd_covariance_is_that_of_the_odd_products(d: int, mean: float) -> None:
    rho, x = uneven(d, mean), kriging.signs(all_subsets(d))
    odd = all_subsets(d).sum(1) % 2 == 1
    twin = (products(d)[:, odd] * variances(rho)[odd]) @ products(d)[:, odd].T
    assert_allclose(kriging.odd_covariance(x, x, rho), twin, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("d", "mean"), CASES)
def test_a_level_adds_to_the_mean_of_all_values(d: int, mean: float) -> None:
    rho, x = uneven(d, mean), kriging.signs(all_subsets(d))
    whole = variances(rho)
    whole[0] = kriging.MEAN_VARIANCE  # the product of no words
    twin = (products(d) * whole) @ products(d).T
    assert_allclose(kriging.with_level(x, x, rho), twin, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("d", "mean"), CASES)
def test_shapley_covariances_are_sums_over_all_odd_sets(d: int, mean: float) -> None:
    rho, sets = uneven(d, mean), all_subsets(d)
    size = sets.sum(1)
    odd = np.flatnonzero(size % 2)
    p, walsh_functions = variances(rho), products(d)
    twin = np.array(
        [[sum(2 / size[a] * p[a] * row[a] for a in odd if sets[a, i]) for row in walsh_functions] for i in range(d)]
    )
    assert_allclose(kriging.shapley_covariance(kriging.signs(sets), rho), twin, rtol=1e-10, atol=1e-13)
    alone = [sum(4 / size[a] ** 2 * p[a] for a in odd if sets[a, i]) for i in range(d)]
    assert kriging.shapley_variance(rho) == pytest.approx(np.array(alone), rel=1e-10)


@pytest.mark.parametrize("d", [7, 9, 13, 31, 40, 100, 300])
def test_shapley_covariances_add_up_to_twice_the_covariance_with_the_whole(d: int) -> None:
    rho = np.minimum(0.95, 4.4 / d * np.clip(RANDOM.lognormal(0, 0.5, d), 0.3, 3))
    x = kriging.signs(RANDOM.random((20, d)) < 0.5)
    whole = kriging.odd_covariance(np.ones((1, d)), x, rho)[0]
    scale = np.abs(kriging.shapley_covariance(x, rho)).max()
    assert kriging.shapley_covariance(x, rho).sum(0) == pytest.approx(2 * whole, rel=1e-9, abs=1e-10 * scale)


@pytest.mark.parametrize("d", [1, 2, 3, 6, 8])
@pytest.mark.parametrize("rho", [0.02, 0.3, 0.9])
def test_size_covariances_are_sums_over_all_sets(d: int, rho: float) -> None:
    sets = all_subsets(d)
    size = sets.sum(1)
    weight = np.random.default_rng(d).random(d + 1)
    each = np.array([weight[s] / comb(d, int(s)) for s in size])
    joint = kriging.covariance(kriging.signs(sets), kriging.signs(sets), np.full(d, rho)) * each
    every, inside, outside = kriging.size_covariances(d, rho, weight)
    assert every[size] == pytest.approx(joint.sum(1), rel=1e-9)
    holds = joint @ sets  # [set, word]: over those sets that hold the word
    twin = np.where(sets, inside[size][:, None], outside[size][:, None])
    assert_allclose(twin, holds, rtol=1e-9)


def test_size_covariances_of_a_long_text_are_finite() -> None:
    weight = np.full(501, 1.0)
    for part in kriging.size_covariances(500, 4.4 / 500, weight):
        assert np.isfinite(part).all()


@pytest.mark.parametrize("level", [False, True])
def test_residuals_are_those_of_a_refit_without_the_value(level: bool) -> None:
    d, rho = 6, np.full(6, 0.2)
    some = np.random.default_rng(1).permutation(2**d)[:25]
    x, values = kriging.signs(all_subsets(d)[some]), walsh(d, 0.2, seed=2)[some]
    matrix = (kriging.with_level if level else kriging.odd_covariance)(x, x, rho)
    result = kriging.solved(matrix, values).residuals()
    noisy = matrix + kriging.JITTER * np.trace(matrix) / 25 * np.eye(25)
    for i in range(25):
        others = np.arange(25) != i
        guess = noisy[i, others] @ np.linalg.solve(noisy[np.ix_(others, others)], values[others])
        assert result[i] == pytest.approx(values[i] - guess, rel=1e-5, abs=1e-8)


def test_solved_is_the_gaussian_likelihood_and_the_variance_that_maximises_it() -> None:
    from scipy.stats import multivariate_normal

    x, values = kriging.signs(all_subsets(4)), walsh(4, 0.3, seed=0)
    matrix = kriging.with_level(x, x, np.full(4, 0.3))
    result = kriging.solved(matrix, values)
    assert matrix @ result.weights == pytest.approx(values, abs=1e-6)

    def density(variance: float) -> float:
        return float(multivariate_normal(np.zeros(16), variance * matrix).logpdf(values))

    constant = 16 / 2 * (1 + np.log(2 * np.pi))
    assert result.likelihood - constant == pytest.approx(density(result.variance), abs=1e-5)
    assert density(result.variance) > max(density(0.9 * result.variance), density(1.1 * result.variance))


def test_reduction_is_what_the_values_explain_of_the_prior_variance() -> None:
    x = kriging.signs(all_subsets(5))
    rho = np.full(5, 0.2)
    known = x[:20]
    matrix, linked = kriging.covariance(known, known, rho), kriging.covariance(x, known, rho)
    result = kriging.solved(matrix, np.ones(20)).reduction(linked)
    twin = np.diag(linked @ np.linalg.solve(matrix, linked.T))
    assert result == pytest.approx(twin, rel=1e-5)
    assert result[:20] == pytest.approx(np.diag(matrix), rel=1e-5)  # a value that is known leaves nothing open


@pytest.mark.parametrize(("true", "low", "high"), [(0.4, 0.2, 0.7), (1.6, 1.1, 2.3), (3.2, 2.3, 4.4)])
def test_reach_finds_the_variance_of_interactions(true: float, low: float, high: float) -> None:
    x = kriging.signs(all_subsets(9))
    result = [9 * kriging.best_rho(x[:400], walsh(9, true / 9, seed)[:400], odd=False) for seed in range(3)]
    assert low <= np.median(result) <= high
