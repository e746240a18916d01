"""Agreement between methods: against scipy pair by pair, slow twins, and known orders."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise as neighbours
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import jensenshannon
from scipy.stats import kendalltau, spearmanr, weightedtau

from heedful.checks.agreement import Agreement
from heedful.checks.base import Case, by_unit
from heedful.core.arrays import Floats
from heedful.core.errors import BadInput
from heedful.core.explanation import Attribution
from heedful.core.finding import Finding, Place, place
from heedful.core.target import Target
from heedful.data import Example
from heedful.maths import ranks
from heedful.methods.gradient import GradientXInput
from heedful.methods.perturbation import LeaveOneOut
from heedful.model.masking import features
from tests.checks.test_adversarial import pair
from tests.nets.test_hierarchical import classifier as hierarchical
from tests.support import toys
from tests.support.cases import FEW, one
from tests.support.models import build, shared
from tests.support.twins import spearman, top_k_tau, weighted_tau

WORDS = "ape bee cat dog elk fox gnu hen ibis jay koi lynx"
RANKS = ("tau", "significant", "weighted tau", "top-k tau", "top-k overlap", "spearman")


@cache
def plain(n: int) -> Case:
    """A text of n words, each one token, of which no method has said anything yet."""
    return one(toys.build("bert", toys.POINTER), " ".join(WORDS.split()[:n]), ())


def attribution(case: Case, scores: Sequence[float] | Floats, **more: Any) -> Attribution:
    """A score for each word; special tokens have a large one, which nothing may see."""
    found = np.full(len(case.tokens), 1e6)
    found[list(case.tokens.content)] = scores
    return Attribution(tokens=case.tokens, scores=found, **more)


def said(case: Case, scores: Mapping[str, Sequence[float] | Floats], draws: bool = False, **more: Any) -> Case:
    """The case in which methods say just this."""
    whys = {name: attribution(case, own, **more) for name, own in scores.items()}
    return replace(case, explanations=whys, draws=case.draws if draws else ())


def numbers(found: Sequence[Finding], method: str, at: Place | None = None) -> dict[str, float]:
    """What was measured of a method."""
    return {f.measure: f.value for f in found if f.method == method and (at is None or f.place == place(at))}


def rows(seed: int, m: int, n: int, ties: bool) -> Floats:
    rng = np.random.default_rng(seed)
    return rng.integers(-3, 4, (m, n)).astype(float) if ties else rng.normal(size=(m, n))


# against scipy, two at a time


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n", [2, 3, 8, 12])
@pytest.mark.parametrize("absolute", [False, True])
def test_every_two_methods_are_compared_as_scipy_does(n: int, ties: bool, absolute: bool) -> None:
    scores = rows(n, 3, n, ties)
    scores[:, 0] += 10  # none is constant
    case = said(plain(n), dict(zip("abc", scores, strict=True)))
    found = Agreement(absolute=absolute)(case)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        x, y = np.abs(scores[[i, j]]) if absolute else scores[[i, j]]
        measured = numbers(found, "abc"[i], {"with": "abc"[j]})
        tau = kendalltau(x, y)
        expected = {
            "tau": tau.statistic,
            "significant": float(tau.pvalue <= 0.05),
            "weighted tau": weightedtau(x, y).statistic,
            "spearman": spearmanr(x, y).statistic,
            "jsd": jensenshannon(np.abs(x), np.abs(y)) ** 2,
        }
        assert {name: measured[name] for name in expected} == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("n", [2, 5, 10, 33, 34, 60])
@pytest.mark.parametrize("ties", [False, True])
def test_p_is_scipys(n: int, ties: bool) -> None:
    scores = rows(n, 6, n, ties)
    scores[:, 0] += 10
    found = ranks.tau_b_p_values(ranks.concordance(scores))
    expected = [[kendalltau(a, b).pvalue for b in scores] for a in scores]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15)


def _divergence(a: Floats, b: Floats) -> float:
    return float(ranks.jensen_shannon(ranks.normalised(a), ranks.normalised(b))) if a.any() and b.any() else math.nan


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 9), st.booleans())
def test_all_at_once_is_two_at_a_time(seed: int, n: int, ties: bool) -> None:
    scores = rows(seed, 4, n, ties)
    table = ranks.concordance(scores)
    twins: list[tuple[Floats, Any]] = [
        (ranks.tau_b_matrix(table), lambda a, b: ranks.tau_b(a, b)[0]),
        (ranks.tau_b_p_values(table), lambda a, b: ranks.tau_b(a, b)[1]),
        (ranks.weighted_tau_matrix(table, scores), weighted_tau),
        (ranks.spearman_matrix(scores), spearman),
        (ranks.jensen_shannon_matrix(scores), _divergence),
    ]
    for found, twin in twins:
        np.testing.assert_allclose(found, [[twin(a, b) for b in scores] for a in scores], rtol=1e-9, atol=1e-12)


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(2, 9), st.integers(1, 9), st.booleans())
def test_top_k_tau_at_once_is_two_at_a_time(seed: int, n: int, k: int, ties: bool) -> None:
    scores = rows(seed, 4, n, ties)
    scores[:, 0] += np.arange(4) + 10  # none is constant
    found = ranks.top_k_tau(scores, min(k, n))
    np.testing.assert_allclose(found, [[top_k_tau(a, b, k) for b in scores] for a in scores], atol=1e-12)


def test_top_k_tau_of_all_words_is_tau() -> None:
    case = said(plain(9), {"a": rows(1, 1, 9, False)[0], "b": rows(2, 1, 9, False)[0]})
    measured = numbers(Agreement(top=9)(case), "a")
    assert measured["top-k tau"] == pytest.approx(measured["tau"])


# the share of the highest words


def _overlap(x: Floats, y: Floats, k: int) -> float:
    """The mean over every way to break ties."""
    orders = [[p for p in permutations(range(len(s))) if all(s[i] >= s[j] for i, j in neighbours(p))] for s in (x, y)]
    return float(np.mean([len(set(a[:k]) & set(b[:k])) / k for a, b in product(*orders)]))


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_overlap_is_the_mean_over_all_ways_to_break_ties(seed: int, k: int) -> None:
    x, y = np.random.default_rng(seed).integers(0, 3, (2, 4)).astype(float)
    x[0], y[1] = 5, -5  # neither is constant
    assert ranks.top_k_overlap(np.array([x, y]), k)[0, 1] == pytest.approx(_overlap(x, y, k))


def test_overlap_with_itself_is_whole() -> None:
    case = said(plain(10), {"a": np.arange(10.0), "b": np.arange(10.0) ** 3})
    assert numbers(Agreement()(case), "a")["top-k overlap"] == 1


def test_the_top_is_a_fifth_of_the_words() -> None:
    """Of 11 words 2: the first word is shared, the second is not."""
    first, second = np.zeros(11), np.zeros(11)
    first[[0, 1]], second[[0, 2]] = (3, 2), (3, 2)
    assert numbers(Agreement()(said(plain(11), {"a": first, "b": second})), "a")["top-k overlap"] == 0.5


def test_the_top_of_all_words_is_no_choice() -> None:
    case = said(plain(3), {"a": [1, 2, 3], "b": [3, 2, 1]})
    assert math.isnan(numbers(Agreement(top=3)(case), "a")["top-k overlap"])


# known answers


@pytest.mark.parametrize("n", [2, 5, 12])
def test_a_perfect_pointer_has_tau_of_the_root_of_two_in_n(n: int) -> None:
    pointer = np.zeros(n)
    pointer[n // 2] = 1
    order = np.arange(n, dtype=float)
    order[n // 2] = n
    found = numbers(Agreement()(said(plain(n), {"attention": pointer, "other": order})), "attention")
    assert found["tau"] == pytest.approx(math.sqrt(2 / n))


@pytest.mark.parametrize("architecture", toys.ARCHITECTURES)
@pytest.mark.parametrize("text", toys.texts(3))
def test_the_pointers_attention_and_leave_one_out_have_the_same_top_word(architecture: str, text: str) -> None:
    case = one(toys.build(architecture, toys.POINTER), text, ("attention-mean", "leave-one-out"))
    assert numbers(Agreement(top=1)(case), "attention-mean")["top-k overlap"] == 1


@pytest.mark.parametrize("architecture", ["bert", "gpt2", "bilstm"])
def test_the_pointers_attention_ties_all_other_words(architecture: str) -> None:
    """One word above n − 1 alike: with any strict order that puts it first, √(2/n)."""
    case = one(toys.build(architecture, toys.POINTER), "ape bee yes cat dog elk fox", ("attention-mean",))
    strict = attribution(case, [6, 5, 7, 4, 3, 2, 1])
    found = Agreement()(replace(case, explanations={**case.explanations, "strict": strict}))
    assert numbers(found, "attention-mean", {"with": "strict"})["tau"] == pytest.approx(math.sqrt(2 / 7))


def test_opposite_orders() -> None:
    found = numbers(Agreement()(said(plain(8), {"a": np.arange(1.0, 9), "b": np.arange(8.0, 0, -1)})), "a")
    expected = {"tau": -1, "spearman": -1, "significant": 1, "top-k overlap": 0, "top-k tau": -1}
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_magnitudes_agree_where_signs_do_not() -> None:
    case = said(plain(6), {"a": [1, -2, 3, -4, 5, -6], "b": [-1, 2, -3, 4, -5, 6]})
    same, other = (numbers(Agreement(absolute=absolute)(case), "a")["tau"] for absolute in (True, False))
    assert (same, other) == (1, -1)


def test_an_unsigned_method_ranks_by_magnitude_also_where_signs_count() -> None:
    case = said(plain(4), {"a": [1, 2, 3, 4]})
    unsigned = attribution(case, [-1, -2, -3, -4], signed=False)
    case = replace(case, explanations={**case.explanations, "b": unsigned})
    assert numbers(Agreement(absolute=False)(case), "a")["tau"] == 1


# ties, constants, few words


def test_rounding_makes_no_order() -> None:
    flat = np.full(8, 0.1) * (1 + 1e-7 * np.random.default_rng(0).normal(size=8))
    case = said(plain(8), {"a": flat, "b": np.arange(1.0, 9)})
    assert math.isnan(numbers(Agreement()(case), "a")["tau"])


def test_small_numbers_keep_their_order() -> None:
    scores = np.array([10.0**-i for i in range(1, 9)])
    found = numbers(Agreement()(said(plain(8), {"a": scores, "b": np.arange(8.0, 0, -1)})), "a")
    assert found["tau"] == 1


def _tied(row: Floats) -> Floats:
    """One after the other, from the smallest: a number is its neighbour's where both differ by rounding only."""
    found = row.copy()
    order = sorted(range(len(row)), key=lambda i: row[i])
    for before, i in neighbours(order):
        if row[i] - row[before] <= 1e-6 * max(abs(row[i]), abs(row[before])):
            found[i] = found[before]
    return found


@given(st.lists(st.sampled_from([0.0, 1.0, 1 + 4e-7, 1 + 8e-7, -1.0, -1 - 5e-7, 3.0, 1e-9, 2e-9]), min_size=1))
def test_what_differs_by_rounding_is_tied(values: list[float]) -> None:
    row = np.array(values)
    assert ranks.merge_ties(row[None])[0].tolist() == _tied(row).tolist()


def test_a_constant_has_no_order_but_a_distance() -> None:
    found = numbers(Agreement()(said(plain(6), {"a": np.ones(6), "b": np.arange(6.0)})), "a")
    assert all(math.isnan(found[name]) for name in RANKS)
    assert found["jsd"] == pytest.approx(jensenshannon(np.ones(6), np.arange(6.0)) ** 2)


def test_scores_of_zero_have_no_distance() -> None:
    found = numbers(Agreement()(said(plain(6), {"a": np.zeros(6), "b": np.arange(6.0)})), "a")
    assert all(math.isnan(value) for value in found.values())


def test_one_word_has_no_order() -> None:
    found = numbers(Agreement()(said(plain(1), {"a": [1.0], "b": [2.0]})), "a")
    assert all(math.isnan(found[name]) for name in RANKS)
    assert found["jsd"] == 0


def test_two_words_are_never_significant() -> None:
    found = numbers(Agreement()(said(plain(2), {"a": [1.0, 2.0], "b": [1.0, 3.0]})), "a")
    assert (found["tau"], found["significant"], found["top-k tau"], found["top-k overlap"]) == (1, 0, 1, 1)


# chance


def test_random_is_the_mean_over_its_draws() -> None:
    case = said(plain(12), {"a": np.arange(12.0)}, draws=True)
    found = numbers(Agreement()(case), "random", {"with": "a"})
    groups = features(case.tokens)
    pairs = [kendalltau(by_unit(why.scores, groups), np.arange(12.0)) for why in case.draws]
    assert found["tau"] == pytest.approx(np.mean([pair.statistic for pair in pairs]))
    assert found["significant"] == pytest.approx(np.mean([pair.pvalue <= 0.05 for pair in pairs]))


def test_random_is_paired_with_every_other_method_once() -> None:
    case = one(shared("bert"), "A warm and clever story", FEW)
    pairs = [(f.method, f.at["with"]) for f in Agreement()(case) if f.measure == "tau"]
    others = [name for name in FEW if name != "random"]
    expected = [(a, b) for i, a in enumerate(others) for b in others[i + 1 :]] + [("random", b) for b in others]
    assert pairs == expected


# what leave-one-out finds, and a method points at


def pointed(scores: Mapping[str, Sequence[float]], n: int = 10, draws: bool = False) -> dict[str, float]:
    found = Agreement()(said(plain(n), scores, draws))
    return {f.method: f.value for f in found if f.measure == "pointing"}


def test_pointing_is_the_share_of_leave_one_out_on_the_top_fifth() -> None:
    loo = [1, -6, 0, 3, 0, 0, 0, 0, 0, 2]
    found = pointed({"leave-one-out": loo, "a": [0, 9, 0, 0, 0, 8, 0, 0, 0, 0], "b": [9, 0, 0, -8, 0, 0, 0, 0, 0, 0]})
    assert found == pytest.approx({"leave-one-out": 1.0, "a": 6 / 9, "b": 4 / 9})


@given(st.integers(0, 10_000), st.integers(1, 12))
@settings(max_examples=30, deadline=None)
def test_words_that_tie_share_the_last_place(seed: int, n: int) -> None:
    loo = np.random.default_rng(seed).normal(size=n)
    k = max(1, round(0.2 * n))
    own = np.sort(np.abs(loo))[-k:].sum()
    assert pointed({"leave-one-out": list(loo), "flat": [1.0] * n}, n)["flat"] == pytest.approx(
        k / n * np.abs(loo).sum() / own
    )


def test_pointing_of_random_is_the_mean_over_its_draws() -> None:
    case = said(plain(10), {"leave-one-out": [0, 0, 0, 5.0, 0, 0, 0, 0, 0, 0]}, draws=True)
    tops = [np.argsort(-by_unit(why.scores, features(case.tokens)))[:2] for why in case.draws]
    found = numbers(Agreement()(case), "random", {})
    assert found["pointing"] == pytest.approx(np.mean([3 in top for top in tops]))


def test_where_no_word_matters_nothing_can_be_pointed_at() -> None:
    assert np.isnan(list(pointed({"leave-one-out": [0.0] * 5, "a": [1, 2, 3, 4, 5]}, 5).values())).all()


def test_without_leave_one_out_there_is_no_pointing() -> None:
    assert not pointed({"a": [1, 2, 3, 4, 5]}, 5)


# models


@pytest.mark.parametrize("family", ["bert", "gpt2", "t5", "bilstm", "multihead"])
@pytest.mark.parametrize("text", ["Dull.", "unbelievably good music; the acting isn't"])
def test_every_measure_is_listed_and_found(family: str, text: str) -> None:
    found = Agreement()(one(shared(family), text, FEW))
    assert {f.measure for f in found} == set(Agreement.measures)
    assert len(found) == (len(Agreement.measures) - 2) * (10 + 5) + len(FEW) + 1  # of pairs, methods, the text


def test_a_network_with_two_levels() -> None:
    case = one(hierarchical(), "The film was good, good music. Dull story.", ("attention-mean", "leave-one-out"))
    x, y = (np.abs(by_unit(why.scores, features(case.tokens))) for why in case.attributions.values())
    assert numbers(Agreement()(case), "attention-mean")["tau"] == pytest.approx(kendalltau(x, y).statistic)


def test_a_model_without_attention_still_has_its_other_methods() -> None:
    case = one(build("fnet"), "A warm and clever story", ("gradient-x-input", "leave-one-out"))
    assert {(f.method, f.at["with"]) for f in Agreement()(case) if f.measure == "tau" and f.method != "random"} == {
        ("gradient-x-input", "leave-one-out")
    }


@pytest.mark.parametrize("more", [{"labels": 10}, {"labels": 1, "problem_type": "regression"}])
def test_any_number_of_labels(more: dict[str, Any]) -> None:
    case = one(build("bert", **more), "A warm and clever story", ("gradient-x-input", "leave-one-out"))
    x, y = (np.abs(by_unit(why.scores, features(case.tokens))) for why in case.attributions.values())
    assert numbers(Agreement()(case), "gradient-x-input")["tau"] == pytest.approx(kendalltau(x, y).statistic)


def test_both_texts_of_a_pair_take_part() -> None:
    case = one(shared("bert"), Example("good film", "bad music"), ("gradient-x-input", "leave-one-out"))
    x, y = (np.abs(by_unit(why.scores, features(case.tokens))) for why in case.attributions.values())
    assert len(x) == 4
    assert numbers(Agreement()(case), "gradient-x-input")["tau"] == pytest.approx(kendalltau(x, y).statistic)


def test_jain_and_wallaces_own_setting() -> None:
    """Tokens, magnitudes, attention held fixed, probabilities; only the text's own tokens."""
    asked = ("attention-mean", GradientXInput(through_attention=False), LeaveOneOut(by="token", change="variation"))
    case = one(shared("bilstm"), "unbelievably good music; the acting isn't", asked, target=Target(scale="probability"))
    content = list(case.tokens.content)
    attention, gradient, loo = (case.attributions[name].scores[content] for name in case.explanations)
    found = Agreement(unit="token")(case)
    for name, other in (("gradient-x-input", gradient), ("leave-one-out", loo)):
        expected = kendalltau(attention, np.abs(other)).statistic
        assert numbers(found, "attention-mean", {"with": name})["tau"] == pytest.approx(expected)


def test_nothing_is_asked_of_the_model() -> None:
    case = one(shared("bert"), "A warm and clever story", FEW)
    before = case.classifier.forwards
    Agreement()(case)
    assert case.classifier.forwards - before == Agreement().passes(case.classifier, case.tokens, case.methods).forwards


@pytest.mark.parametrize("wrong", [{"unit": "bag"}, {"top": 0}])
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="not"):
        Agreement(**wrong)


# tables


@dataclass(frozen=True)
class Stand:
    """Findings on all texts, as a run gives them."""

    each: tuple[list[Finding], ...]
    texts: Mapping[str, NDArray[Any]]
    labels: tuple[str, ...] = ("no", "yes")

    def values(self, measure: str, method: str = "", at: Place | None = None) -> Floats:
        wanted = (measure, method, place(at or {}))
        found = [{(f.measure, f.method, f.place): f.value for f in own} for own in self.each]
        return np.array([own.get(wanted, np.nan) for own in found])

    def methods(self, measure: str) -> list[str]:
        return list(dict.fromkeys(f.method for own in self.each for f in own if f.measure == measure))

    def places(self, measure: str, method: str | None = None) -> list[Place]:
        all_of = [f for own in self.each for f in own if f.measure == measure and method in (None, f.method)]
        return list({f.place: f.at for f in all_of}.values())


def audited(names: Sequence[str], texts: Sequence[Sequence[Sequence[float]]], predicted: Sequence[int]) -> Stand:
    """The agreement check on texts, of each the scores of each method."""
    cases = [said(plain(len(one[0])), dict(zip(names, one, strict=True)), draws=True) for one in texts]
    return Stand(tuple(Agreement()(case) for case in cases), {"predicted": np.array(predicted)})


NAMES = ("leave-one-out", "gradient-x-input", "attention-mean")
ONE, TWO, FLAT = [1.0, 2, 3, 4, 5, 6], [1.0, 2, 3, 4, 6, 5], [1.0] * 6


def test_table_two_is_by_predicted_class_with_population_std() -> None:
    found = audited(NAMES, [[ONE, ONE, ONE], [ONE, ONE, TWO], [ONE, ONE, ONE[::-1]], [ONE, ONE, FLAT]], [0, 0, 1, 1])
    row = Agreement().tables(found).published[0]  # type: ignore[arg-type]
    swapped = 1 - 2 / 15
    assert {row.method, row.other} == {"gradient-x-input", "attention-mean"}
    assert row.all.mean == pytest.approx(np.mean([1, swapped, -1]))
    assert row.all.std == pytest.approx(np.std([1, swapped, -1]))
    assert (row.all.significant, row.all.n, row.all.missing) == (1, 3, 1)
    assert row.classes["no"].mean == pytest.approx((1 + swapped) / 2)
    assert (row.classes["yes"].mean, row.classes["yes"].missing) == (-1, 1)


def test_the_ceiling_is_gradient_with_leave_one_out() -> None:
    found = audited(NAMES, [[ONE, TWO, ONE[::-1]]], [0])
    ceiling = Agreement().tables(found).ceiling  # type: ignore[arg-type]
    assert ceiling is not None
    assert ceiling.all.mean == pytest.approx(1 - 2 / 15)


def test_the_matrix_is_symmetric_and_in_the_runs_order() -> None:
    matrix = Agreement().tables(audited(NAMES, [[ONE, TWO, ONE[::-1]]], [0])).matrix  # type: ignore[arg-type]
    assert matrix.methods == (*NAMES, "random")
    assert matrix.tau[0][2] == matrix.tau[2][0] == -1
    assert np.isnan([matrix.tau[i][i] for i in range(4)]).all()


def test_a_pair_that_never_exists_has_no_mean() -> None:
    ceiling = Agreement().tables(audited(NAMES, [[FLAT, ONE, ONE]], [0])).ceiling  # type: ignore[arg-type]
    assert ceiling is not None
    assert (ceiling.all.n, ceiling.all.missing) == (0, 1)
    assert np.isnan([ceiling.all.mean, ceiling.all.std, ceiling.all.significant]).all()


def test_a_run_without_the_papers_methods_has_no_ceiling() -> None:
    tables = Agreement().tables(audited(("a", "b"), [[ONE, TWO]], [0]))  # type: ignore[arg-type]
    assert (tables.ceiling, tables.published) == (None, ())
    assert [(row.method, row.other) for row in tables.pairs] == [("a", "b"), ("random", "a"), ("random", "b")]


# a network whose attention is over the first of two texts


@cache
def passage() -> tuple[Case, list[int], list[int]]:
    """A pair of texts, and the content tokens of the first and of the second."""
    case = one(pair(), Example("Good film, awful story.", "The film isn't bad."), ())
    first, second = (
        [n for n, i in enumerate(case.tokens.content) if case.tokens.segments[i] == side] for side in (0, 1)
    )
    return case, first, second


def test_words_that_attention_cannot_point_at_take_no_part() -> None:
    case, first, second = passage()
    rng = np.random.default_rng(0)
    removal, attention = rng.normal(size=(2, len(case.tokens.content)))
    removal[second] *= 100
    attention[second] = 0
    found = Agreement(unit="token")(said(case, {"leave-one-out": removal, "attention-mean": attention}))
    measured = numbers(found, "leave-one-out", {"with": "attention-mean"})
    assert measured["tau"] == pytest.approx(kendalltau(np.abs(removal[first]), np.abs(attention[first]))[0])
    assert numbers(found, "")["attended words"] == len(first) / (len(first) + len(second))


def test_attention_that_points_rightly_in_all_that_it_sees_points_rightly() -> None:
    case, _, second = passage()
    removal = np.arange(len(case.tokens.content), dtype=float)[::-1].copy()
    attention = removal.copy()
    removal[second], attention[second] = 1000.0, 0.0
    found = Agreement(unit="token")(said(case, {"leave-one-out": removal, "attention-mean": attention}))
    assert numbers(found, "attention-mean")["pointing"] == 1
    assert numbers(found, "leave-one-out", {"with": "attention-mean"})["tau"] == 1
