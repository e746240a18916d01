"""Statistics: intervals against the truth of simulated audits, tests against slow twins and scipy."""

from collections.abc import Callable
from functools import cache
from itertools import permutations
from math import isnan, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom, binomtest, skew, ttest_1samp
from scipy.stats import t as student

from heedful.core.arrays import Floats
from heedful.core.errors import BadInput
from heedful.maths import stats
from heedful.maths.stats import Decision, Difference, Estimate
from tests.support.parameters import mostly_thorough

Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]
SIZES = (50, 60, 100, 200, 300)
SETS = 2000

# what audits give, by name: how to draw it, and its mean
LIKE: dict[str, tuple[Draw, float]] = {
    "normal": (lambda r, s: r.normal(size=s), 0),
    "uniform": (lambda r, s: r.random(s), 0.5),
    "beta(2, 5)": (lambda r, s: r.beta(2, 5, s), 2 / 7),
    "beta(.5, .5)": (lambda r, s: r.beta(0.5, 0.5, s), 0.5),
    "exponential": (lambda r, s: r.exponential(size=s), 1),
    "lognormal": (lambda r, s: np.exp(r.normal(size=s)), sqrt(np.e)),
    "t5": (lambda r, s: r.standard_t(5, size=s), 0),
    "mostly zero": (lambda r, s: (r.random(s) < 0.3) * r.beta(2, 5, s), 0.3 * 2 / 7),
    "means of 20": (lambda r, s: r.binomial(20, 0.3, s) / 20, 0.3),
    "near 0 or ln 2": (
        lambda r, s: log(2) * np.where(r.random(s) < 0.7, r.beta(1, 20, s), r.beta(20, 1, s)),
        log(2) * (0.7 / 21 + 0.3 * 20 / 21),
    ),
}
# differences of mean zero
UNDECIDED: dict[str, Draw] = {
    "normal": lambda r, s: r.normal(size=s),
    "heavy": lambda r, s: r.standard_t(5, size=s),
    "skewed": lambda r, s: r.exponential(size=s) - 1,
    "skewed the other way": lambda r, s: 1 - r.exponential(size=s),
    "unlike": lambda r, s: r.beta(2, 5, s) - 2 / 7 - (r.beta(0.5, 0.5, s) - 0.5),
    "rates": lambda r, s: (r.random(s) < 0.3).astype(float) - (r.random(s) < 0.3),
}


def rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@cache
def covered(like: str, n: int, level: float = 0.95) -> float:
    draw, mean = LIKE[like]
    low, high = stats.mean_intervals(draw(rng(n, len(like)), (SETS, n)), level)
    return float(((low <= mean) & (mean <= high)).mean())


# Intervals of means


@pytest.mark.parametrize("n", mostly_thorough(SIZES, SIZES[:1]))
@pytest.mark.parametrize("like", LIKE)
def test_the_interval_holds_the_mean_as_often_as_it_says(like: str, n: int) -> None:
    """93–97 %; the simulation itself errs by .5 %. Lognormal at 50 is 93.0 % over many more sets."""
    assert 0.925 <= covered(like, n) <= 0.975


@pytest.mark.parametrize("n", SIZES)
def test_the_interval_holds_the_mean_as_often_as_it_says_over_all_that_audits_give(n: int) -> None:
    assert np.mean([covered(like, n) for like in LIKE]) == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize("level", [0.8, 0.9, 0.99])
def test_the_interval_holds_the_mean_at_other_levels(level: float) -> None:
    assert covered("exponential", 100, level) == pytest.approx(level, abs=0.02)


def test_students_interval_would_miss_skewed_means() -> None:
    """What the correction is for: without it, these would fail."""
    draw, mean = LIKE["lognormal"]
    rows = draw(rng(1), (SETS, 50))
    half = student.ppf(0.975, 49) * rows.std(1, ddof=1) / sqrt(50)
    assert (np.abs(rows.mean(1) - mean) <= half).mean() < 0.92


def slow_limit(x: Floats, z: float) -> float:
    """The mean μ for which Hall's cubic of (x̄ − μ)/s is z, by bisection."""
    n, error, gamma = len(x), x.std(ddof=1) / sqrt(len(x)), float(skew(x))

    def cubic(mu: float) -> float:
        t = (x.mean() - mu) / error
        return float(t + gamma * (t * t / 3 + 1 / 6) / sqrt(n) + (gamma / 3) ** 2 * t**3 / (3 * n) - z)

    return float(brentq(cubic, x.mean() - 99 * error, x.mean() + 99 * error, xtol=1e-14))


@pytest.mark.parametrize("like", LIKE)
def test_the_interval_is_where_halls_cubic_meets_students_quantile(like: str) -> None:
    x = LIKE[like][0](rng(2), (1, 50))[0]
    q = float(student.ppf(0.975, 49))
    assert stats.mean_interval(x) == pytest.approx((slow_limit(x, q), slow_limit(x, -q)), abs=1e-10)


def test_the_interval_of_symmetric_values_is_students() -> None:
    x = np.concatenate([rng(3).normal(size=30), -rng(3).normal(size=30)])
    assert stats.mean_interval(x) == pytest.approx(ttest_1samp(x, 0).confidence_interval(), abs=1e-12)


def test_the_interval_does_not_depend_on_the_order_of_texts() -> None:
    x = rng(4).exponential(size=101)
    assert stats.mean_interval(x) == stats.mean_interval(x[::-1])


def test_the_interval_of_other_units_is_the_same_interval() -> None:
    x = rng(5).exponential(size=60)
    low, high = stats.mean_interval(x)
    assert stats.mean_interval(3 - 2 * x) == pytest.approx((3 - 2 * high, 3 - 2 * low))


def test_the_interval_of_tiny_numbers_does_not_underflow() -> None:
    x = rng(5).exponential(size=60)
    low, high = stats.mean_interval(x)
    assert stats.mean_interval(1e-160 * x) == pytest.approx((1e-160 * low, 1e-160 * high), rel=1e-9)


def test_each_row_has_the_interval_that_it_has_alone() -> None:
    rows = rng(6).exponential(size=(5, 40))
    assert np.transpose(stats.mean_intervals(rows)).tolist() == [list(stats.mean_interval(row)) for row in rows]


@pytest.mark.parametrize("x", [[], [0.3], [np.nan, 0.3], [np.nan]])
def test_fewer_than_two_values_have_no_interval(x: list[float]) -> None:
    assert np.isnan(stats.mean_interval(np.array(x, float))).all()


@pytest.mark.parametrize("value", [0.0, 0.1, -1e-9, 1e300])
def test_equal_values_have_an_interval_of_that_value(value: float) -> None:
    assert stats.mean_interval(np.full(60, value)) == (value, value)


def test_values_equal_but_for_rounding_are_equal() -> None:
    x = np.full(60, 0.1)
    x[7] = np.nextafter(0.1, 1)
    assert stats.mean_interval(x) == pytest.approx((0.1, 0.1), abs=1e-15)


@pytest.mark.parametrize("others", [1, 2, 3, 5, 10])
def test_a_few_values_unlike_the_rest_do_not_make_the_interval_surer_than_students(others: int) -> None:
    x = np.zeros(60)
    x[:others] = 1
    (low, high), plain = stats.mean_interval(x), ttest_1samp(x, 0).confidence_interval()
    assert low <= plain.low + 1e-12
    assert high >= plain.high - 1e-12


# texts so few, or so unlike the rest, that the cubic alone would make the interval four times Student's
STEEP = {"three texts": np.array([1.0, 2, 6]), "three of sixty": np.repeat([0.0, 1], [57, 3])}


@pytest.mark.parametrize("steep", STEEP)
def test_the_interval_is_at_most_about_three_times_students(steep: str) -> None:
    x = STEEP[steep]
    reach, plain = stats.mean_interval(x)[1] - x.mean(), ttest_1samp(x, 0).confidence_interval().high - x.mean()
    assert 2.9 <= reach / plain <= 3.4


@pytest.mark.parametrize("n", [50, 100])
def test_the_interval_holds_a_mean_of_rare_values_of_either_sign(n: int) -> None:
    rows = (rng(n).random((SETS, n)) < 0.05).astype(float) - (rng(n, 1).random((SETS, n)) < 0.05)
    low, high = stats.mean_intervals(rows)
    assert ((low <= 0) & (high >= 0)).mean() >= 0.93


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=40), st.floats(0.01, 0.999))
def test_the_interval_holds_the_mean_of_its_own_values(x: list[float], level: float) -> None:
    low, high = stats.mean_interval(np.array(x), level)
    assert low <= np.mean(x) + 1e-12
    assert high >= np.mean(x) - 1e-12


def test_infinite_values_have_no_interval() -> None:
    assert np.isnan(stats.mean_interval(np.array([1.0, 2, np.inf]))).all()


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0, float("nan")])
def test_a_level_that_is_none_is_refused(level: float) -> None:
    with pytest.raises(BadInput, match=r"the level of an interval is between 0 and 1, not .*; use \.95 for 95 %\."):
        stats.mean_interval(np.arange(3.0), level)


# Rates


@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (0, 60), (7, 60), (60, 60), (150, 300)])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_wilson_is_scipys(k: int, n: int, level: float) -> None:
    expected = binomtest(k, n).proportion_ci(level, method="wilson")
    assert stats.wilson(k, n, level) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_ends_at_0_and_1() -> None:
    assert (stats.wilson(0, 77)[0], stats.wilson(77, 77)[1]) == (0, 1)


def test_wilson_of_no_texts_does_not_exist() -> None:
    assert np.isnan(stats.wilson(0, 0)).all()


def wilson_covers(n: int, rate: float) -> float:
    """Exactly: the probability of the counts whose interval holds the rate."""
    counts = np.arange(n + 1)
    intervals = [stats.wilson(int(k), n) for k in counts]
    return float(
        sum(binom.pmf(k, n, rate) for k, (low, high) in zip(counts, intervals, strict=True) if low <= rate <= high)
    )


@pytest.mark.parametrize("n", [50, 100])
def test_wilson_holds_the_rate_as_often_as_it_says_on_average(n: int) -> None:
    assert np.mean([wilson_covers(n, rate) for rate in np.arange(0.02, 0.99, 0.04)]) == pytest.approx(0.95, abs=0.01)


# Summaries


def test_a_summary_counts_what_is_missing_and_leaves_it_out() -> None:
    low, high = stats.mean_interval(np.array([1.0, 2, 6]))
    expected = Estimate(3, 2, 3.0, 2.0, float(np.std([1, 2, 6])), low, high)
    assert stats.estimate(np.array([1.0, np.nan, 2, 6, np.nan])) == expected


_columns = st.lists(st.floats() | st.sampled_from([0.0, 1.0]), max_size=8).map(np.array)


@given(st.lists(_columns, max_size=6), st.sampled_from(["mean", "rate"]), st.sampled_from([None, (0.0, 1.0)]))
def test_summaries_that_are_computed_together_are_those_of_each_alone(
    columns: list[Floats], kind: stats.MeasureKind, within: stats.Range | None
) -> None:
    columns = [np.asarray(x, dtype=np.float64) for x in columns]
    with np.errstate(over="ignore", invalid="ignore"):
        together = stats.estimates(columns, kind, within)
        assert repr([vars(x) for x in together]) == repr([vars(stats.estimate(x, kind, within)) for x in columns])
        pairs = [(x, np.resize(x[::-1], len(x))) for x in columns]
        alone = [vars(stats.paired(a, b)) for a, b in pairs]
        assert repr([vars(x) for x in stats.all_paired(pairs)]) == repr(alone)


def test_a_rate_has_wilsons_interval() -> None:
    result = stats.estimate(np.array([1.0, 0, 0, 1, np.nan]), "rate")
    assert (result.mean, result.low, result.high) == (0.5, *stats.wilson(2, 4))


def test_a_rate_that_is_not_0_or_1_is_a_mean() -> None:
    x = np.array([1.0, 0, 0.5, 1])
    assert stats.estimate(x, "rate") == stats.estimate(x, "mean")


@pytest.mark.parametrize("x", [[], [np.nan, np.nan]])
def test_a_summary_of_nothing_is_nan(x: list[float]) -> None:
    result = stats.estimate(np.array(x, float))
    assert (result.n, result.missing, isnan(result.mean), isnan(result.low)) == (0, len(x), True, True)


def test_a_summary_of_equal_values_is_exact() -> None:
    assert stats.estimate(np.full(49, 0.1)) == Estimate(49, 0, 0.1, 0.1, 0.0, 0.1, 0.1)


def test_a_summary_of_one_text_has_no_interval() -> None:
    result = stats.estimate(np.array([0.3]))
    assert (result.n, result.mean, result.std, isnan(result.low)) == (1, 0.3, 0, True)


# Differences


def ps(rows: Floats) -> Floats:
    nothing = np.zeros(rows.shape[1])
    return np.array([stats.paired(row, nothing).p for row in rows])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("n", mostly_thorough([50, 200], (50,)))
@pytest.mark.parametrize("like", UNDECIDED)
def test_no_difference_is_found_where_there_is_none(like: str, n: int) -> None:
    p = ps(UNDECIDED[like](rng(n, 5), (1000, n)))
    assert 0.02 <= (p < 0.05).mean() <= 0.065  # .7 % is the simulation's own


@pytest.mark.parametrize("like", UNDECIDED)
def test_the_interval_of_a_difference_holds_zero_where_p_says_so(like: str) -> None:
    rows = UNDECIDED[like](rng(7), (200, 40)) + 0.3
    result = [stats.paired(row, np.zeros(40)) for row in rows]
    assert [d.low <= 0 <= d.high for d in result] == [d.p >= 0.05 for d in result]


@pytest.mark.parametrize("x", [*STEEP.values(), np.arange(20.0) ** 2])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_p_is_at_the_end_of_the_interval_what_the_level_leaves(x: Floats, level: float) -> None:
    end = stats.paired(x, np.zeros(len(x)), level).high
    assert stats.paired(x, np.full(len(x), end)).p == pytest.approx(max(1 - level, 2.0 ** (1 - len(x))))


def test_a_difference_that_is_there_is_found_as_often_as_by_students_test() -> None:
    rows = rng(8).normal(0.4, 1, (1000, 60))
    assert (ps(rows) < 0.05).mean() >= (ttest_1samp(rows, 0, axis=1).pvalue < 0.05).mean() - 0.02


def test_p_of_symmetric_differences_is_students() -> None:
    x = np.array([-3.0, -1, 1, 3]) + 1.5
    assert stats.paired(x, np.zeros(4)).p == pytest.approx(ttest_1samp(x, 0).pvalue)


def slow_flips(x: Floats) -> float:
    """All ways to flip signs, by counting."""
    signs = np.array(np.meshgrid(*[[-1, 1]] * len(x))).reshape(len(x), -1)
    return float((np.abs(x @ signs) >= abs(x.sum()) - 1e-12).mean())


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_few_differences_of_one_sign_have_the_p_of_flipped_signs(k: int) -> None:
    x = np.append(np.full(k, 0.7), np.zeros(60 - k))
    assert stats.paired(x, np.zeros(60)).p == slow_flips(x[:k]) == pytest.approx(stats.mcnemar(k, 0))


def test_p_may_be_small_enough_for_many_comparisons() -> None:
    assert stats.paired(rng(9).normal(1, 0.5, 60), np.zeros(60)).p < 1e-12


def test_a_difference_is_of_the_texts_that_have_both() -> None:
    a, b = np.array([1.0, np.nan, 3, 5]), np.array([0.0, 1, np.nan, 1])
    assert (stats.paired(a, b).n, stats.paired(a, b).mean) == (2, 2.5)


def test_a_difference_the_other_way_round_is_its_negative() -> None:
    a, b = rng(10).exponential(size=(2, 40))
    one, other = stats.paired(a, b), stats.paired(b, a)
    assert (one.mean, one.low, one.high, one.p) == pytest.approx((-other.mean, -other.high, -other.low, other.p))


def test_the_same_everywhere_is_no_difference() -> None:
    assert stats.paired(np.arange(40.0), np.arange(40.0)) == Difference(40, 0.0, 0.0, 0.0, 1.0)


def test_rounding_is_no_difference() -> None:
    a = rng(11).random(40)
    assert stats.paired(np.nextafter(a, 2), a) == Difference(40, 0.0, 0.0, 0.0, 1.0)


def test_a_difference_of_one_text_is_not_sure() -> None:
    result = stats.paired(np.array([0.5]), np.array([0.25]))
    assert (result.mean, isnan(result.low), result.p) == (0.25, True, 1)


def test_a_difference_of_no_text_does_not_exist() -> None:
    result = stats.paired(np.array([np.nan, 1]), np.array([1, np.nan]))
    assert (result.n, isnan(result.mean), isnan(result.p)) == (0, True, True)


@pytest.mark.parametrize(("a", "b"), [(0, 0), (1, 0), (3, 9), (9, 3), (5, 5), (40, 90)])
def test_mcnemar_is_a_binomial_test(a: int, b: int) -> None:
    assert stats.mcnemar(a, b) == pytest.approx(binomtest(a, a + b).pvalue if a + b else 1)


# Many comparisons


def slow_holm(p: list[float]) -> list[float]:
    """The least level at which Holm's steps, from the smallest p upwards, still reject each."""
    m = len(p)
    order = sorted(range(m), key=lambda i: p[i])
    steps = [min(1.0, (m - step) * p[i]) for step, i in enumerate(order)]
    return [max(steps[: order.index(i) + 1]) for i in range(m)]


@given(st.lists(st.floats(0, 1), max_size=9))
def test_holm_is_that_of_its_steps(p: list[float]) -> None:
    assert stats.holm(np.array(p, float)).tolist() == pytest.approx(slow_holm(p))


def test_holm_by_hand() -> None:
    p = np.array([0.01, 0.04, 0.03, 0.005])
    assert stats.holm(p) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_does_not_count_what_does_not_exist() -> None:
    assert stats.holm(np.array([0.02, np.nan, 0.03])) == pytest.approx([0.04, np.nan, 0.04], nan_ok=True)


def test_holm_does_not_mind_the_order() -> None:
    p = np.array([0.01, 0.2, 0.03])
    assert {tuple(stats.holm(p[list(o)])[np.argsort(o)]) for o in permutations(range(3))} == {tuple(stats.holm(p))}


# Decisions


@pytest.mark.parametrize(
    ("n", "mean", "p", "expected"),
    [
        (29, 0.5, 1e-9, Decision.TOO_FEW),
        (30, 0.5, 0.05, Decision.HIGHER),
        (30, -0.5, 0.01, Decision.LOWER),
        (30, 0.5, 0.051, Decision.NOT_SIGNIFICANT),
        (30, float("nan"), float("nan"), Decision.NOT_SIGNIFICANT),
        (0, float("nan"), float("nan"), Decision.TOO_FEW),
    ],
)
def test_decisions(n: int, mean: float, p: float, expected: Decision) -> None:
    (decided,) = stats.decide([Difference(n, mean, mean, mean, p)])
    assert decided is not None
    assert decided.decision == expected


def test_decisions_are_corrected_over_all_comparisons() -> None:
    decided = stats.decide([Difference(40, 1, 0, 2, 0.03), None, Difference(40, -1, -2, 0, 0.01)], "lower")
    assert [(one.p_adjusted, one.decision, one.better) if one else None for one in decided] == [
        (0.03, Decision.HIGHER, False),
        None,
        (0.02, Decision.LOWER, True),
    ]
    (alone,) = stats.decide([Difference(40, 1, 0, 2, 0.03)])
    assert alone is not None
    assert alone.better is None


def test_an_interval_stays_within_the_range_of_its_measure() -> None:
    x = np.array([0.0] * 38 + [0.1, 0.2])
    free, clipped = stats.estimate(x), stats.estimate(x, within=(0.0, 1.0))
    assert free.low < 0 == clipped.low
    assert (free.mean, free.high) == (clipped.mean, clipped.high)


def test_a_value_outside_the_range_leaves_the_interval_as_it_is() -> None:
    x = np.array([0.0] * 38 + [0.1, 1.2])
    assert stats.estimate(x, within=(0.0, 1.0)) == stats.estimate(x)


def test_thirty_texts_are_enough() -> None:
    assert [stats.enough(n) for n in (29, 30)] == [False, True]
