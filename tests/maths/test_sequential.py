"""Limits that hold at every number of texts: against twins, identities and simulated gamblers."""

from __future__ import annotations

from math import inf, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.core.arrays import Floats
from heedful.maths import sequential
from heedful.maths.sequential import BETS, WEIGHTS
from tests.support import looking

LEVEL = 59 / 60


def values(seed: int, n: int = 60, low: float = -0.4, high: float = 0.8) -> Floats:
    return np.random.default_rng(seed).uniform(low, high, n)


def slow_capital(x: Floats, low: float, mean: float) -> list[float]:
    """Gambler by gambler, in money instead of logarithms."""
    money = [0.0] * len(x)
    for bet, weight in zip(BETS.tolist(), WEIGHTS.tolist(), strict=True):
        own = weight
        for n, value in enumerate(x.tolist()):
            own *= 1 + bet * (value - mean) / (mean - low)
            money[n] += own
    return money


@pytest.mark.parametrize("mean", [-0.5, 0.0, 0.3])
def test_the_capital_is_that_of_gamblers_one_by_one(mean: float) -> None:
    x = values(0)
    assert np.exp(sequential.log_capital(x, -1, mean)) == pytest.approx(slow_capital(x, -1, mean), rel=1e-9)


def test_the_capital_does_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sequential.log_capital(values(1), -1)
    monkeypatch.setattr(sequential, "BLOCK", 7)
    assert sequential.log_capital(values(1), -1) == pytest.approx(whole, rel=1e-12)


def test_limits_are_where_a_grid_of_martingales_finds_them() -> None:
    x, grid = values(2), np.linspace(-1, 1, 81)
    money = np.array([max(slow_capital(x, -1, m)) if m > -1 else inf for m in grid])
    refuted = grid[money >= 60]
    low, high = sequential.limits(x, (-1, 1), LEVEL)
    assert refuted[-1] <= low < refuted[-1] + 0.025
    mirrored = np.array([max(slow_capital(-x, -1, m)) if m > -1 else inf for m in grid])
    assert high == pytest.approx(-grid[mirrored >= 60][-1], abs=0.025)


@given(st.integers(0, 1000), st.integers(2, 80))
@settings(max_examples=15)
def test_the_path_of_limits_rises_and_ends_at_the_limit(seed: int, n: int) -> None:
    x = values(seed, n)
    path = sequential.lower_limits(x, (-1, 1), LEVEL, steps=100)
    assert (np.diff(path) >= 0).all()
    for k in (n // 2, n):
        exact = sequential.limits(x[:k], (-1, 1), LEVEL)[0]
        assert exact - 0.02 - 1e-6 <= path[k - 1] <= exact + 1e-6


@given(st.integers(0, 1000), st.floats(-2, 2), st.floats(0.1, 3))
@settings(max_examples=15)
def test_limits_move_and_stretch_with_the_values(seed: int, shift: float, scale: float) -> None:
    low, high = sequential.limits(values(seed), (-1, 1), LEVEL)
    moved = sequential.limits(shift + scale * values(seed), (shift - scale, shift + scale), LEVEL)
    assert moved == pytest.approx((shift + scale * low, shift + scale * high), abs=1e-6)


def test_the_last_capital_does_not_depend_on_the_order() -> None:
    x = values(3)
    assert sequential.log_capital(x[::-1], -1)[-1] == pytest.approx(sequential.log_capital(x, -1)[-1])


@given(st.lists(st.sampled_from([-1.0, -0.3, 0.0, 0.2, 1.0]), min_size=1, max_size=40))
@settings(max_examples=30)
def test_the_sign_of_a_limit_is_that_of_the_evidence(x: list[float]) -> None:
    row = np.array(x)
    low, _ = sequential.limits(row, (-1, 1), LEVEL)
    after = sequential.refuted_after(row, -1, LEVEL)
    assert (low > 0) == (after is not None)
    assert after is None or sequential.refuted_after(row[: after - 1], -1, LEVEL) is None


def test_no_bet_gains_on_average_where_the_mean_is_on_the_line() -> None:
    """All sequences of three values of a population with mean 0: the expected capital is exactly 1."""
    population = np.array([-1.0, -0.25, 0.5, 0.75])
    each = np.array(np.meshgrid(*[population] * 3)).reshape(3, -1).T
    capitals = np.exp([sequential.log_capital(x, -1)[-1] for x in each])
    assert capitals.mean() == pytest.approx(1, abs=1e-12)


def test_labels_in_turn_gain_no_more() -> None:
    """Two labels with means ±0.4: the expected capital after whole turns is below 1."""
    a, b = np.array([-0.2, 1.0]), np.array([-1.0, 0.2])
    each = np.array(np.meshgrid(a, b, a, b)).reshape(4, -1).T
    capitals = np.exp([sequential.log_capital(x, -1)[-1] for x in each])
    assert capitals.mean() < 1


def test_the_smallest_mean_is_refuted_by_the_first_value_above_it() -> None:
    assert sequential.log_capital(np.array([0.0, 0.1, 0.0]), 0, 0).tolist() == [0, inf, inf]
    assert sequential.limits(np.zeros(50), (0, 1), LEVEL)[0] == 0


def test_no_values_have_no_limits_but_the_range() -> None:
    assert sequential.limits(np.zeros(0), (-1, 1), LEVEL) == (-1, 1)
    assert len(sequential.log_capital(np.zeros(0), -1)) == 0


def test_the_forecast_is_where_the_same_values_again_and_again_arrive() -> None:
    x = values(4, 20, -0.5, 0.6)
    assert sequential.refuted_after(x, -1, LEVEL) is None
    needed = sequential.texts_needed(x, -1, LEVEL)
    times = int(np.ceil(needed / 20))
    capital = sequential.log_capital(np.tile(x, times), -1)[19::20]
    assert (capital >= log(60)).tolist() == [False] * (times - 1) + [True]


def test_a_mean_of_zero_needs_texts_without_end() -> None:
    assert sequential.texts_needed(np.array([-0.5, 0.5]), -1, LEVEL) == inf


def test_the_capital_is_that_of_the_confseq_package() -> None:
    betting = pytest.importorskip("confseq.betting")
    x = np.random.default_rng(0).beta(4, 2, 50)
    bets = [lambda x, m, bet=bet: np.full(len(x), bet / m) for bet in BETS]
    theirs = betting.diversified_betting_mart(x, 0.3, bets, lambdas_weights=WEIGHTS, theta=1, trunc_scale=1)
    assert np.exp(sequential.log_capital(x, 0, 0.3)) == pytest.approx(theirs, rel=1e-9)


# how often it is wrong


def test_wrong_answers_are_rare_at_the_smallest_size() -> None:
    """1 in 60 audits; of 200, 10 would be a rare accident. The limits for a fixed number are wrong far more often."""
    draw = looking.POPULATIONS["1 text in 40 fails"]
    _, every_look, anytime = looking.wrong(draw, 0.5, 200, 128)  # the first 20 audits by fixed limits
    assert anytime <= 10 / 200 < every_look


@pytest.mark.thorough
@pytest.mark.parametrize("share", [0.5, 0.2])
@pytest.mark.parametrize("name", looking.POPULATIONS)
def test_wrong_answers_are_rare_over_all_prefixes(name: str, share: float) -> None:
    a, r, s = looking.POPULATIONS[name](np.random.default_rng(1), (1000, 320), share)
    x = ((a - r) - share * (s - r)) * (1 if share == 0.5 else -1)
    wrong = sum(sequential.refuted_after(row, -1, LEVEL) is not None for row in x)
    assert wrong <= 27  # of 1,000: 16.7 expected at most, with a standard deviation of 4


def test_the_operating_tables_have_a_line_for_each_population() -> None:
    assert len(list(looking.wrong_table(3, 64))) == 2 + len(looking.POPULATIONS)
    assert len(list(looking.taken_table(2, 64))) == 2 + 14
