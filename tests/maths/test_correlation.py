"""Correlations of means: statistics against slow twins, the null by enumeration, the interval by coverage."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau

from heedful.maths.correlation import (
    STATISTICS,
    bootstrap_interval,
    correlation,
    expected_by_chance,
    halves,
    null_distribution,
    overlap_rows,
    pearson_rows,
    permutation_p,
    resampled_means,
    tau_rows,
    tenth,
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_tau_of_rows_is_that_of_scipy_also_with_ties() -> None:
    a, b = rng().integers(0, 5, (20, 9)).astype(float), rng(1).integers(0, 5, (20, 9)).astype(float)
    assert tau_rows(a, b) == pytest.approx([kendalltau(x, y).statistic for x, y in zip(a, b, strict=True)])


def test_pearson_of_rows_is_that_of_numpy() -> None:
    a, b = rng().normal(size=(20, 9)), rng(1).normal(size=(20, 9))
    assert pearson_rows(a, b) == pytest.approx([np.corrcoef(x, y)[0, 1] for x, y in zip(a, b, strict=True)])


def test_a_constant_row_has_no_correlation() -> None:
    a, b = np.ones((1, 5)), np.arange(5.0)[None]
    assert np.isnan([tau_rows(a, b)[0], pearson_rows(a, b)[0]]).all()


def test_the_overlap_of_the_top_tenth_counts_shared_things() -> None:
    a = np.arange(20.0)[None]
    b = a.copy()
    b[0, 18], b[0, 0] = 0, 18.5  # 19 stays in the top two, 18 leaves it
    assert (tenth(20), overlap_rows(a, b)[0]) == (2, 0.5)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_chance_is_the_mean_over_all_orders(statistic: str) -> None:
    a, b = rng().normal(size=6), rng(1).normal(size=6)
    every = np.array([b[list(order)] for order in permutations(range(6))])
    values = STATISTICS[statistic](np.broadcast_to(a, every.shape), every)
    assert values.mean() == pytest.approx(expected_by_chance(statistic, 6), abs=1e-9)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_p_by_permutations_is_close_to_p_by_enumeration(statistic: str) -> None:
    of, a, b = STATISTICS[statistic], rng(2).normal(size=6), rng(3).normal(size=6)
    every = np.array([b[list(order)] for order in permutations(range(6))])
    null = of(np.broadcast_to(a, every.shape), every)
    value, chance = float(of(a[None], b[None])[0]), expected_by_chance(statistic, 6)
    exact = (np.abs(null - chance) >= abs(value - chance) - 1e-12).mean()
    assert permutation_p(value, null_distribution(of, a, b, rng(), 5000), chance) == pytest.approx(exact, abs=0.03)


def test_p_is_never_zero() -> None:
    assert permutation_p(1.0, np.zeros(99), 0.0) == 0.01


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_task_with_itself_on_the_same_texts_has_one_and_nothing_else(statistic: str) -> None:
    a = rng().gamma(2, size=(30, 12))
    found = correlation(statistic, a, a, rng(), draws=100, permutations=200, paired=True)
    assert (found.value, found.low, found.high) == pytest.approx((1, 1, 1))


def test_resampled_means_are_means_of_drawn_texts() -> None:
    a = rng().normal(size=(4, 3))
    means, _ = resampled_means(a, a, rng(5), 10)
    again = rng(5).multinomial(4, np.full(4, 0.25), size=10)
    slow = [np.concatenate([[a[i]] * n for i, n in enumerate(counts) if n]).mean(0) for counts in again]
    assert means == pytest.approx(np.array(slow))


def test_the_interval_has_the_percentiles_and_their_reflection() -> None:
    low, high = bootstrap_interval(0.5, np.linspace(0.2, 0.4, 1001), (-1, 1))
    assert (low, high) == pytest.approx((0.205, 0.795))


def test_the_interval_stays_within_the_range() -> None:
    assert bootstrap_interval(0.95, np.linspace(0.5, 0.9, 101), (-1, 1))[1] == 1.0


def coverage(statistic: str, repeats: int, texts: int, share: float) -> float:
    """How often the interval holds the statistic of the true means."""
    random, hits = rng(7), []
    for _ in range(repeats):
        base, other = random.normal(size=(2, 40))
        true = np.exp(np.stack([base, share * base + np.sqrt(1 - share**2) * other]))
        a, b = (mean * random.gamma(2, 0.5, size=(texts, 40)) for mean in true)
        found = correlation(statistic, a, b, random, draws=100, permutations=1)
        truth = float(STATISTICS[statistic](true[:1], true[1:])[0])
        hits.append(found.low <= truth <= found.high)
    return float(np.mean(hits))


@pytest.mark.parametrize("statistic", STATISTICS)
def test_the_interval_holds_the_truth_often_enough(statistic: str) -> None:
    assert coverage(statistic, 60, 60, 0.8) >= 0.9


@pytest.mark.thorough
@pytest.mark.parametrize("share", [0.0, 0.5, 0.95])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_the_interval_holds_the_truth_for_every_strength(statistic: str, share: float) -> None:
    assert coverage(statistic, 200, 100, share) >= 0.9


def test_halves_without_noise_agree() -> None:
    a: Any = np.broadcast_to(rng().normal(size=10), (20, 10))
    assert halves("tau", a, rng(), 5) == pytest.approx(1)


def test_halves_of_noise_do_not_agree() -> None:
    assert abs(halves("pearson", rng().normal(size=(40, 50)), rng(), 50)) < 0.3
