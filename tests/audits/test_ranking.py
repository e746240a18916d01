"""Ranking: methods in order, and methods that are not significantly different."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.audits.ranking import (
    Ranking,
    Reversal,
    rank_methods,
    rankings,
    reversals,
    text_scores,
)
from heedful.checks.input_erasure import InputErasure, MaskedText, ask
from heedful.core.arrays import Floats
from heedful.core.finding import Findings, place
from heedful.maths import stats
from heedful.maths.ranks import TOP_SHARE
from heedful.maths.shapley import all_subsets
from heedful.model.inference import Engine
from tests.support import toys
from tests.support.cases import one


def methods(means: Sequence[float], n: int = 60, noise: float = 0.05, seed: int = 0) -> dict[str, Floats]:
    """a, b, c … with these mean marks."""
    rng = np.random.default_rng(seed)
    return {chr(97 + i): mean + noise * rng.normal(size=n) for i, mean in enumerate(means)}


def places(found: Ranking) -> dict[str, tuple[int, int]]:
    return {row.method: (row.first, row.last) for row in found.methods}


def found(areas: Mapping[tuple[str, str, str], Sequence[float]]) -> Findings:
    """Deletion or insertion of a method under a masking."""
    groups = {(m, measure, f'{{"masking":"{way}"}}'): np.array(v) for (m, measure, way), v in areas.items()}
    n = len(next(iter(groups.values())))
    return Findings(groups, {key: np.ones(n, bool) for key in groups}, {"number": np.arange(n)})


def test_who_is_surely_better_comes_first() -> None:
    assert places(rank_methods("delete", methods([0.1, 0.5, 0.3]))) == {"b": (1, 1), "c": (2, 2), "a": (3, 3)}


def test_methods_that_cannot_be_told_apart_share_places() -> None:
    given = methods([0.5, 0.2])
    given["c"] = given["a"] + np.random.default_rng(1).normal(size=60) * 0.2
    found = rank_methods("delete", given)
    assert places(found) == {"a": (1, 2), "c": (1, 2), "b": (3, 3)}
    assert set(found.tied) == {"a", "c"}


@pytest.mark.parametrize("curves", [False, True])
def test_random_is_ranked_by_its_expectation_with_curves_and_without(curves: bool) -> None:
    """A text that was not measured has no score."""
    areas = {("a", "deletion", "delete"): [0.1, 0.2], ("a", "insertion", "delete"): [0.5, 0.7]}
    random = {("random", "deletion", "delete"): [0.3, np.nan], ("random", "insertion", "delete"): [0.4, np.nan]}
    known = found(random | areas if curves else areas)
    tvd = ("random", "tvd", place({"masking": "delete", "share": TOP_SHARE}))
    scores = text_scores(replace(known, groups={**known.groups, tvd: np.array([0.3, np.nan])}), "delete")
    assert list(scores) == ["a", "random"]
    assert scores["a"].tolist() == pytest.approx([0.4, 0.5])
    np.testing.assert_array_equal(scores["random"], [0, np.nan])


def test_equal_methods_are_tied() -> None:
    given = methods([0.5, 0.2])
    assert places(rank_methods("delete", given | {"same": given["a"]}))["same"] == (1, 2)


def test_few_texts_rank_nobody() -> None:
    assert set(places(rank_methods("delete", methods([0.9, 0.1, 0.5], n=29))).values()) == {(1, 3)}


@given(st.integers(0, 1000), st.integers(2, 6))
@settings(max_examples=30)
def test_places_are_a_ranking(seed: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    found = rank_methods("delete", methods(list(rng.uniform(0, 1, m)), noise=0.5, seed=seed))
    assert all(1 <= first <= last <= m for first, last in places(found).values())
    assert sum(first for first, _ in places(found).values()) <= m * (m + 1) / 2
    assert [row.mean for row in found.methods] == sorted((row.mean for row in found.methods), reverse=True)


def test_pairs_are_compared_as_elsewhere() -> None:
    given = methods([0.3, 0.32, 0.5], noise=0.1)
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    p = stats.holm(np.array([stats.paired(given[x], given[y]).p for x, y in pairs]))
    sure = {frozenset(pair) for pair, value in zip(pairs, p, strict=True) if value <= 0.05}
    assert {frozenset(pair) for pair in rank_methods("delete", given).better} == sure


def test_a_method_measured_on_few_texts_is_not_ranked() -> None:
    given = methods([0.5, 0.3])
    given["b"][:10] = np.nan
    assert (places(rank_methods("delete", given)), rank_methods("delete", given).unranked) == ({"a": (1, 1)}, ("b",))


def test_an_order_that_depends_on_the_masking_is_told() -> None:
    one_way, other = rank_methods("delete", methods([0.5, 0.2])), rank_methods("mask", methods([0.1, 0.4]))
    assert reversals([one_way, other]) == [Reversal("a", "b", better="delete", worse="mask")]


def test_the_mark_is_insertion_less_deletion() -> None:
    areas = {("a", "insertion", "delete"): [0.9, 0.8], ("a", "deletion", "delete"): [0.2, 0.9]}
    assert text_scores(found(areas), "delete")["a"] == pytest.approx([0.7, -0.1])


def test_bounds_are_no_methods() -> None:
    areas = {(m, kind, "delete"): [0.5, 0.5] for m in ("a", "greedy", "optimum") for kind in ("insertion", "deletion")}
    assert [row.method for row in rankings(found(areas))[0].methods] == ["a"]


def test_nothing_to_rank() -> None:
    assert rankings(Findings({}, {}, {"number": np.arange(0)})) == []


def test_chance_has_a_mark_of_zero() -> None:
    """Over all orders of the words, what stays and what goes are the same sets."""
    case = one(toys.build("bilstm", toys.mix(0.5)), "ape yes cat dog", ())
    text = MaskedText(case, "delete")
    ask(Engine(case.classifier), [(text, all_subsets(4))])
    found = [InputErasure(maskings=("delete",)).numbers(text, np.array(order)) for order in permutations(range(4))]
    assert np.mean([one["insertion", None] - one["deletion", None] for one in found]) == pytest.approx(0, abs=1e-12)
