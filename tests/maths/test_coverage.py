"""The greedy pick against all picks, the lime package, and cases that are known."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lime.submodular_pick import SubmodularPick

from heedful.core.arrays import Floats
from heedful.maths.coverage import coverage, greedy_cover, importance

Rows = list[dict[int, float]]
STRENGTHS = st.dictionaries(st.integers(0, 9), st.floats(0, 10), max_size=6)


def matrix(rows: Rows, words: int = 10) -> Floats:
    return np.array([[row.get(word, 0.0) for word in range(words)] for row in rows])


def twin(strengths: Floats, texts: list[int]) -> float:
    """The paper's formulas on the whole matrix."""
    return float((strengths[texts] > 0).any(0) @ np.sqrt(strengths.sum(0)))


@given(st.lists(STRENGTHS, min_size=1, max_size=7), st.data())
def test_importance_and_coverage_are_the_papers_formulas(rows: Rows, data: Any) -> None:
    texts = data.draw(st.lists(st.integers(0, len(rows) - 1), unique=True))
    values = importance(rows)
    assert np.array([values.get(word, 0.0) for word in range(10)]) == pytest.approx(np.sqrt(matrix(rows).sum(0)))
    assert coverage(rows, texts) == pytest.approx(twin(matrix(rows), texts))


@given(st.lists(STRENGTHS, min_size=1, max_size=7), st.integers(1, 4))
@settings(max_examples=60)
def test_the_greedy_pick_has_its_share_of_the_best_pick(rows: Rows, count: int) -> None:
    """1 − 1/e of the best (Nemhauser et al. 1978); the best itself for one text, and where all texts are picked."""
    picks = greedy_cover(rows, count)
    best = max(twin(matrix(rows), list(texts)) for texts in combinations(range(len(rows)), min(count, len(rows))))
    assert coverage(rows, picks) >= (1 - 1 / math.e) * best * (1 - 1e-12)
    if count == 1 or count >= len(rows):
        assert coverage(rows, picks) == pytest.approx(best)


def test_the_greedy_pick_may_miss_the_best() -> None:
    """One text with most of both halves is picked first, and two halves would be better."""
    rows = [{0: 4.0, 1: 4.0, 2: 4.0, 3: 4.0}, {0: 1.0, 1: 1.0, 4: 3.0}, {2: 1.0, 3: 1.0, 5: 3.0}]
    assert greedy_cover(rows, 2)[0] == 0
    assert coverage(rows, greedy_cover(rows, 2)) < coverage(rows, [1, 2])


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=7), st.integers(1, 7))
def test_texts_without_a_word_in_common_are_picked_by_size(sizes: list[float], count: int) -> None:
    """Coverage is modular there, so the greedy pick is the best."""
    rows = [{i: size} for i, size in enumerate(sizes)]
    assert greedy_cover(rows, count) == sorted(range(len(sizes)), key=lambda i: -math.sqrt(sizes[i]))[:count]


def test_the_first_among_equals_is_picked_whatever_the_order_of_its_words() -> None:
    rows = [{0: 0.1, 1: 0.2, 2: 0.3}, {2: 0.3, 1: 0.2, 0: 0.1}, {3: 0.2}]
    assert greedy_cover(rows, 3) == [0, 2]
    assert greedy_cover([rows[1], rows[0], rows[2]], 3) == [0, 2]


def test_nothing_is_picked_where_nothing_matters() -> None:
    assert greedy_cover([{0: 0.0}, {}], 3) == []


def test_a_word_of_no_strength_is_not_covered() -> None:
    rows = [{0: 0.0, 1: 1.0}, {0: 4.0}]
    assert coverage(rows, [0]) == 1
    assert greedy_cover(rows, 1) == [1]


class Given:
    """What the lime package's pick asks of an explanation."""

    mode = "classification"

    def __init__(self, row: dict[int, float]) -> None:
        self.row = row

    def available_labels(self) -> list[int]:
        return [0]

    def as_list(self, label: int) -> list[tuple[int, float]]:
        return list(self.row.items())

    def explain_instance(self, row: Any, *_: Any, **__: Any) -> Given:
        return Given(row)


@pytest.mark.parametrize("seed", range(5))
def test_the_lime_packages_pick(seed: int) -> None:
    rng = np.random.default_rng(seed)
    signed = [dict(zip(rng.permutation(40)[:6].tolist(), rng.normal(size=6).tolist(), strict=True)) for _ in range(15)]
    theirs = SubmodularPick(Given({}), signed, None, method="full", num_exps_desired=4).V
    ours = greedy_cover([{word: abs(score) for word, score in row.items()} for row in signed], 4)
    assert ours == theirs
