"""The rule by which a published number is inside, and published findings."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from scipy import stats as scipy_stats

from heedful.maths.stats import Decision, Difference, Estimate, estimate, replication_limit
from heedful.studies.reproduction import PAPERS
from heedful.studies.reproduction.published import (
    Claim,
    Judgement,
    Measurement,
    Published,
    compare,
    judge,
    measurement,
    read_published,
)

NUMBER = Published("Table 1", "sst", "base", "F1", 0.80, 2, "the paper")


def test_the_limit_is_the_formula_written_out() -> None:
    values = [0.71, 0.74, 0.78, 0.70]
    s, t = np.std(values, ddof=1), scipy_stats.t.ppf(0.975, 3)
    assert replication_limit(float(s), 4, 0.02) == pytest.approx(t * sqrt(s**2 * (1 + 1 / 4) + 0.02**2))


def test_another_training_is_inside_in_95_percent_of_simulations() -> None:
    rng = np.random.default_rng(0)
    trainings = rng.normal(0.8, 0.03, (4000, 4))  # three of ours, one published, on the same texts
    inside = [abs(row[3] - row[:3].mean()) <= replication_limit(float(row[:3].std(ddof=1)), 3) for row in trainings]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.01)


def test_one_training_has_no_limit() -> None:
    assert np.isnan(replication_limit(float("nan"), 1))


def test_a_number_at_the_limit_is_inside_with_its_rounding() -> None:
    ours = Measurement(0.70, 3, 0.01, 0.01)
    limit = replication_limit(0.01, 3, 0.01)
    assert judge(replace(NUMBER, value=0.70 + limit + 0.0049), ours).judgement is Judgement.INSIDE
    assert judge(replace(NUMBER, value=0.70 + limit + 0.0051), ours).judgement is Judgement.OUTSIDE


@pytest.mark.parametrize(
    ("number", "ours", "reason"),
    [
        (replace(NUMBER, verified=False), Measurement(0.8, 3, 0.01), "unverified"),
        (NUMBER, Measurement(0.8, 2, 0.01), "2 trainings; 3 or more show the spread"),
        (NUMBER, Measurement(0.8, 3, 0.01, incomparable="other data"), "other data"),
    ],
)
def test_some_numbers_are_not_judged(number: Published, ours: Measurement, reason: str) -> None:
    comparison = judge(number, ours)
    assert (comparison.judgement, comparison.reason) == (Judgement.NOT_COMPARED, reason)


def test_a_measurement_has_the_sample_spread_and_the_standard_error() -> None:
    right = np.array([[1, 0, 1, 1], [1, 1, 1, 0], [0, 0, 1, 1]], dtype=float)
    ours = measurement(estimate(right.mean(0)), estimate(right.mean(1)), scale=100)
    assert ours.mean == pytest.approx(100 * right.mean())
    assert ours.spread == pytest.approx(100 * right.mean(1).std(ddof=1))
    assert ours.error == pytest.approx(100 * scipy_stats.sem(right.mean(0)))
    assert ours.trainings == 3


def test_what_was_not_measured_has_a_reason() -> None:
    missing, other = compare([NUMBER, replace(NUMBER, data="imdb")], {}, {"sst": "no sst"})
    assert (missing.reason, other.reason) == ("no sst", "not part of this profile")


def test_a_measurement_without_a_published_number_is_an_error() -> None:
    with pytest.raises(ValueError, match="no published number has the place"):
        compare([NUMBER], {("Table 9", "sst", "base", "F1"): Measurement(0.5)}, {})


@pytest.mark.parametrize("paper", list(PAPERS))
def test_published_numbers_are_of_known_data_and_have_a_source(paper: str) -> None:
    numbers = read_published(paper)
    known = {data.name for data in PAPERS[paper].data} | {""}
    assert {number.data for number in numbers} <= known
    assert all(number.source for number in numbers)


def claim(low: float, high: float, expected: str, margin: float = 0.0, decision: Decision | None = None) -> Claim:
    difference = Difference(40, (low + high) / 2, low, high, 0.5, decision=decision)
    return Claim("a is better", "section 1", "sst", "a − b", difference, expected, margin)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("low", "high", "expected", "margin", "holds"),
    [
        (0.1, 0.2, "higher", 0.0, True),
        (-0.2, -0.1, "higher", 0.0, False),
        (-0.1, 0.2, "higher", 0.0, None),
        (-0.2, -0.1, "lower", 0.0, True),
        (-0.01, 0.01, "equal", 0.02, True),
        (0.03, 0.05, "equal", 0.02, False),
        (0.01, 0.05, "equal", 0.02, None),
    ],
)
def test_a_finding_holds_where_the_interval_says_so(
    low: float, high: float, expected: str, margin: float, holds: bool | None
) -> None:
    assert claim(low, high, expected, margin).holds is holds


def test_too_few_texts_decide_no_finding() -> None:
    assert claim(0.1, 0.2, "higher", decision=Decision.TOO_FEW).holds is None


def test_an_estimate_of_one_training_leaves_the_spread_unknown() -> None:
    ours = measurement(Estimate(10, 0, 0.5, 0.5, 0.3, 0.2, 0.8), None)
    assert ours.trainings == 1
    assert ours.error == pytest.approx(0.1)
