"""Ranks: each number against a slow twin, an identity, and scipy or scikit-learn."""

from itertools import combinations, permutations
from math import isnan, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy as scipy_entropy
from scipy.stats import kendalltau, spearmanr, weightedtau
from sklearn.metrics import average_precision_score

from heedful.core.arrays import Floats
from heedful.maths import ranks
from tests.support import twins

CONSTANT = np.full(5, 0.2)
RISING = np.arange(5.0)

coarse = st.integers(2, 9).flatmap(lambda n: arrays(float, (2, n), elements=st.integers(-3, 3).map(lambda i: i / 4)))
shares = st.integers(1, 9).flatmap(lambda n: arrays(float, n, elements=st.floats(0.01, 9)))


def numbers(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=shape)


def slow_tau(a: Floats, b: Floats) -> float:
    signs = [(np.sign(a[i] - a[j]), np.sign(b[i] - b[j])) for i, j in combinations(range(len(a)), 2)]
    mine, yours = sum(x != 0 for x, _ in signs), sum(y != 0 for _, y in signs)
    return float(sum(x * y for x, y in signs) / np.sqrt(mine * yours)) if mine and yours else float("nan")


@given(coarse)
def test_tau_b_is_that_of_a_loop_over_pairs(rows: Floats) -> None:
    assert ranks.tau_b(*rows)[0] == pytest.approx(slow_tau(*rows), nan_ok=True)


def test_tau_b_has_the_p_of_scipy() -> None:
    a, b = numbers(2, 12)
    assert ranks.tau_b(a, b) == (kendalltau(a, b).statistic, kendalltau(a, b).pvalue)


def test_tau_b_counts_ties() -> None:
    assert ranks.tau_b(np.array([1.0, 1, 2, 3]), np.array([1.0, 2, 3, 3]))[0] == pytest.approx(4 / 5)


@pytest.mark.parametrize("number", [twins.spearman, twins.weighted_tau, lambda a, b: ranks.tau_b(a, b)[1]])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        (CONSTANT, RISING),
        (RISING, CONSTANT),
        (np.zeros(0), np.zeros(0)),
        (np.ones(1), np.zeros(1)),
        (RISING, np.array([0, 1, np.nan, 2, 3])),
    ],
)
def test_no_order_has_no_correlation(number, a: Floats, b: Floats) -> None:  # type: ignore[no-untyped-def]
    assert isnan(number(a, b))


def test_spearman_is_scipys() -> None:
    a, b = np.round(numbers(2, 40), 1)
    assert twins.spearman(a, b) == pytest.approx(spearmanr(a, b).statistic)


def slow_weighted_tau(a: Floats, b: Floats) -> float:
    """For untied numbers, the weights by the places in a."""
    place = {int(i): r for r, i in enumerate(np.argsort(-a))}
    pairs = list(combinations(range(len(a)), 2))
    weight = [1 / (1 + place[i]) + 1 / (1 + place[j]) for i, j in pairs]
    agree = [np.sign(a[i] - a[j]) * np.sign(b[i] - b[j]) for i, j in pairs]
    return float(np.dot(weight, agree) / np.sum(weight))


def test_weighted_tau_is_the_mean_of_both_ways_to_weight() -> None:
    a, b = numbers(2, 9)
    assert twins.weighted_tau(a, b) == pytest.approx((slow_weighted_tau(a, b) + slow_weighted_tau(b, a)) / 2)


def test_weighted_tau_is_symmetric_with_ties() -> None:
    a, b = np.round(numbers(2, 30))
    assert twins.weighted_tau(a, b) == twins.weighted_tau(b, a) != weightedtau(a, b, rank=None).statistic


def test_weighted_tau_minds_the_first_more_than_the_last() -> None:
    order = np.arange(6.0, 0, -1)
    first, last = order[[1, 0, 2, 3, 4, 5]], order[[0, 1, 2, 3, 5, 4]]
    assert twins.weighted_tau(order, first) < twins.weighted_tau(order, last) < 1


def slow_penalty(mine: list[int], yours: list[int]) -> float:
    """Fagin et al. 2003, their four cases, for lists without ties, best first."""
    total = 0.0
    for i, j in combinations(sorted(set(mine) | set(yours)), 2):
        at = [(x.index(i) if i in x else None, x.index(j) if j in x else None) for x in (mine, yours)]
        known = [p for p in at if p != (None, None)]
        if len(known) == 1 and None not in known[0]:
            total += 0.5  # both in one list, neither in the other
        else:
            first = [q is None or (p is not None and p < q) for p, q in at]
            total += first[0] != first[1]
    return total


@pytest.mark.parametrize(("n", "k"), [(2, 1), (3, 2), (4, 1), (4, 2), (4, 3), (5, 2), (5, 3), (5, 4), (5, 5)])
def test_top_k_tau_is_the_penalty_over_the_worst_of_all_orders(n: int, k: int) -> None:
    """So −1 is reached, and 1 is."""
    order = list(range(n))
    scores = -np.arange(float(n))
    every = list(permutations(order))
    slow = [slow_penalty(order[:k], list(other)[:k]) for other in every]
    result = [twins.top_k_tau(scores, -np.argsort(other).astype(float), k) for other in every]
    assert result == pytest.approx([1 - 2 * penalty / max(slow) for penalty in slow])


@pytest.mark.parametrize("k", [9, 10, 99])
def test_top_k_tau_of_all_is_kendalls(k: int) -> None:
    a, b = numbers(2, 9)
    assert twins.top_k_tau(a, b, k) == pytest.approx(kendalltau(a, b).statistic)


@given(coarse, st.integers(1, 9))
def test_top_k_tau_is_symmetric_and_bounded(rows: Floats, k: int) -> None:
    a, b = rows
    one, other = twins.top_k_tau(a, b, k), twins.top_k_tau(b, a, k)
    assert one == pytest.approx(other, nan_ok=True)
    assert isnan(one) or -1 - 1e-12 <= one <= 1 + 1e-12


@given(coarse, st.integers(1, 9))
def test_top_k_tau_of_scores_with_themselves_is_one(rows: Floats, k: int) -> None:
    assert twins.top_k_tau(rows[0], rows[0], k) == pytest.approx(1) or isnan(twins.top_k_tau(rows[0], rows[0], k))


def test_top_k_tau_leaves_out_what_ties_across_the_kth_place() -> None:
    tied, untied = np.array([9.0, 5, 5, 1, 0]), np.array([9.0, 0, 0, 0, 0])
    assert twins.top_k_tau(tied, untied, 2) == 1


def test_top_k_tau_counts_half_for_a_tie_in_one_list() -> None:
    """Of (0, 1, 2): 0 and 1 tie in the first; the other two pairs agree."""
    assert twins.top_k_tau(np.array([2.0, 2, 1]), np.array([3.0, 2, 1]), 3) == pytest.approx(1 - 2 * 0.5 / 3)


@pytest.mark.parametrize(
    ("a", "k"), [(CONSTANT, 5), (CONSTANT, 2), (RISING, 0), (np.array([2.0, 2, 2, 1, 1]), 2), (RISING * np.nan, 2)]
)
def test_top_k_tau_without_a_list_does_not_exist(a: Floats, k: int) -> None:
    assert isnan(twins.top_k_tau(a, RISING, k))


@given(st.lists(st.tuples(st.booleans(), st.integers(-2, 2)), min_size=2, max_size=12))
def test_average_precision_is_that_of_scikit_learn(rows: list[tuple[bool, int]]) -> None:
    truth, scores = np.array([t for t, _ in rows]), np.array([float(s) for _, s in rows])
    if truth.all() or not truth.any():
        assert isnan(ranks.average_precision(truth, scores))
    else:
        assert ranks.average_precision(truth, scores) == pytest.approx(average_precision_score(truth, scores))


def test_average_precision_by_hand() -> None:
    truth = np.array([True, False, True, False])
    assert ranks.average_precision(truth, np.array([4.0, 3, 2, 1])) == pytest.approx((1 + 2 / 3) / 2)


def test_average_precision_of_constant_scores_is_the_share_of_truths() -> None:
    assert ranks.average_precision(np.array([True, False, False, False]), np.zeros(4)) == 0.25


def slow_gini(x: Floats) -> float:
    """Half the mean absolute difference of two values drawn, over their mean."""
    return float(np.abs(np.abs(x)[:, None] - np.abs(x)).mean() / (2 * np.abs(x).mean()))


def test_gini_is_half_the_relative_mean_difference() -> None:
    x = numbers(11)
    assert ranks.gini(x) == pytest.approx(slow_gini(x))


@pytest.mark.parametrize("n", [1, 2, 10])
def test_gini_of_equal_sizes_is_zero(n: int) -> None:
    assert ranks.gini(np.resize([0.3, -0.3], n)) == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("n", [1, 2, 10])
def test_gini_of_one_alone_is_one_less_its_share(n: int) -> None:
    assert ranks.gini(np.eye(n)[0] * -7) == pytest.approx(1 - 1 / n)


@given(shares)
def test_entropy_is_scipys(x: Floats) -> None:
    assert ranks.entropy(-x) == pytest.approx(scipy_entropy(x), abs=1e-12)


def test_entropy_of_equal_shares_is_the_logarithm_of_their_number() -> None:
    assert ranks.entropy(np.full(10, 0.1)) == pytest.approx(log(10))


def test_entropy_of_one_alone_is_zero_and_not_minus_zero() -> None:
    assert str(ranks.entropy(np.array([0.0, 4, 0]))) == "0.0"


@pytest.mark.parametrize("number", [ranks.gini, ranks.entropy])
def test_of_nothing_there_is_no_number(number) -> None:  # type: ignore[no-untyped-def]
    assert isnan(number(np.zeros(0)))


@pytest.mark.parametrize("number", [ranks.gini, ranks.entropy])
def test_of_zeros_there_is_no_spread(number) -> None:  # type: ignore[no-untyped-def]
    assert isnan(number(np.zeros(3)))


def test_normalised_sizes_add_up_to_one() -> None:
    assert ranks.normalised(np.array([1.0, -3, 0])).tolist() == [0.25, 0.75, 0]


def test_jsd_is_scipys_squared() -> None:
    p, q = (ranks.normalised(x) for x in numbers(2, 7))
    assert ranks.jensen_shannon(p, q) == pytest.approx(jensenshannon(p, q) ** 2)


def test_jsd_of_disjoint_distributions_is_the_logarithm_of_two() -> None:
    assert ranks.jensen_shannon(np.array([1.0, 0]), np.array([0.0, 1])) == pytest.approx(log(2))


def test_jsd_of_a_distribution_with_itself_is_zero() -> None:
    p = ranks.normalised(numbers(7))
    assert ranks.jensen_shannon(p, p) == 0


def test_the_divergence_of_what_does_not_exist_does_not_exist() -> None:
    assert np.isnan(ranks.jensen_shannon(np.full(2, np.nan), np.array([0.5, 0.5])))
