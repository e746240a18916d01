"""Plausibility: scores against marked words, against scikit-learn, slow twins and arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from math import isnan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, f1_score, jaccard_score

from heedful.checks.base import Case
from heedful.checks.plausibility import Plausibility, iou_f1, marked, runs, token_f1
from heedful.checks.tables import MethodMean
from heedful.core.arrays import Bools
from heedful.core.errors import BadInput
from heedful.data import Example
from heedful.model.masking import features
from tests.checks.test_agreement import Stand, numbers, plain, said
from tests.nets.test_hierarchical import classifier as hierarchical
from tests.support import toys
from tests.support.cases import FEW, one
from tests.support.models import build, shared

SIZES = ("auprc", "token f1", "iou", "iou f1")


def noted(case: Case, which: list[int]) -> Case:
    """The case with these words marked, each by itself."""
    spans = [case.tokens.spans[group[0]] for group in features(case.tokens)]
    rationale = tuple(span for i in which if (span := spans[i]) is not None)
    return replace(case, example=replace(case.example, rationale=rationale))


# which words are marked


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        (((0, 3),), [True, False, False]),
        (((2, 5),), [True, True, False]),  # a character of each
        (((3, 4),), [False, False, False]),  # the space between
        (((4, 7), (8, 11)), [False, True, True]),
        (((0, 11),), [True, True, True]),
        ((), [False, False, False]),
    ],
)
def test_a_word_is_marked_if_one_of_its_characters_is(spans: Any, expected: list[bool]) -> None:
    tokens = plain(3).tokens  # "ape bee cat"
    assert marked(tokens, features(tokens), spans).tolist() == expected


def test_a_word_of_several_pieces_is_marked_by_any_of_them() -> None:
    tokens = shared("bert").tokens("unbelievably good")
    assert len(features(tokens)[0]) > 1
    assert marked(tokens, features(tokens), ((11, 12),)).tolist() == [True, False]


def test_only_the_first_text_of_a_pair_takes_part() -> None:
    """The pair's words have spans of their own, which are no characters of the text."""
    case = one(shared("bert"), Example("good film", "good film music", rationale=((0, 4),)), ("leave-one-out",))
    found = Plausibility()(case)
    assert numbers(found, "") == {"rationale share": 0.5}


def test_marked_words_that_were_not_read_take_no_part() -> None:
    text = " ".join(["ape"] * 60)
    case = one(
        toys.build("bert", toys.BAG_TOY), Example(text, rationale=((0, 3), (len(text) - 3, len(text)))), ("position",)
    )
    read = len(case.tokens.content)
    assert read < 60
    found = Plausibility()(case)
    assert numbers(found, "")["rationale share"] == pytest.approx(1 / read)
    assert numbers(found, "position")["token f1"] == 1


# the numbers


@given(st.integers(0, 10_000), st.integers(2, 12), st.booleans())
def test_against_scikit_learn(seed: int, n: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 3, n).astype(float) if ties else rng.normal(size=n)
    truth = rng.random(n) < 0.4
    truth[rng.permutation(n)[:2]] = True, False
    found = numbers(Plausibility()(noted(said(plain(n), {"a": scores}), np.flatnonzero(truth).tolist())), "a")
    assert found["auprc"] == pytest.approx(average_precision_score(truth, scores))
    if not ties:
        chosen = np.isin(np.arange(n), np.argsort(-scores)[: truth.sum()])
        assert found["token f1"] == pytest.approx(f1_score(truth, chosen))
        assert found["iou"] == pytest.approx(jaccard_score(truth, chosen))


def _iou_f1(chosen: Bools, truth: Bools) -> float:
    """Spans as sets of positions; precision and recall each count their own matches."""

    def spans(which: Bools) -> list[set[int]]:
        found: list[set[int]] = []
        for i in np.flatnonzero(which).tolist():
            if found and i - 1 in found[-1]:
                found[-1].add(i)
            else:
                found.append({i})
        return found

    def matched(ones: list[set[int]], others: list[set[int]]) -> float:
        return sum(any(2 * len(a & b) >= len(a | b) for b in others) for a in ones) / len(ones)

    precision, recall = matched(spans(chosen), spans(truth)), matched(spans(truth), spans(chosen))
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


@given(st.integers(0, 100_000), st.integers(1, 20))
def test_iou_f1_against_a_slow_twin(seed: int, n: int) -> None:
    chosen, truth = np.random.default_rng(seed).random((2, n)) < 0.6
    chosen[0] = truth[-1] = True
    assert iou_f1(chosen, truth) == pytest.approx(_iou_f1(chosen, truth))


def test_iou_f1_of_half_a_span() -> None:
    """Two of three words of one span are ⅔, one of three of the other is ⅓: one match of two and two."""
    chosen = np.array([1, 1, 0, 0, 1, 0, 0, 0], dtype=bool)
    truth = np.array([1, 1, 1, 0, 1, 1, 1, 0], dtype=bool)
    assert iou_f1(chosen, truth) == 0.5


def test_runs_are_spans() -> None:
    assert runs(np.array([True, True, False, True])) == [(0, 2), (3, 4)]
    assert runs(np.zeros(3, dtype=bool)) == []


def test_token_f1_by_hand() -> None:
    """One of two chosen is marked, and one of three marked is chosen: 2 · ½ · ⅓ / (½ + ⅓)."""
    assert token_f1(np.array([1, 1, 0, 0], dtype=bool), np.array([1, 0, 1, 1], dtype=bool)) == pytest.approx(0.4)


@pytest.mark.parametrize("which", [[0], [1, 2], [0, 2, 4]])
def test_a_perfect_explanation(which: list[int]) -> None:
    scores = np.arange(6.0) / 10
    scores[which] += 1
    found = numbers(Plausibility()(noted(said(plain(6), {"a": scores}), which)), "a")
    assert found == dict.fromkeys(SIZES, 1)


def test_the_worst_explanation() -> None:
    found = numbers(Plausibility()(noted(said(plain(5), {"a": [1.0, 2, 3, 4, 5]}), [0])), "a")
    assert found == pytest.approx({"auprc": 1 / 5, "token f1": 0, "iou": 0, "iou f1": 0})


@pytest.mark.parametrize(("signed", "found"), [(True, 0.0), (False, 1.0)])
def test_a_word_that_speaks_against_is_not_chosen_unless_scores_have_no_sign(signed: bool, found: float) -> None:
    case = noted(said(plain(4), {"a": [-5.0, 1, 0.5, 0]}, signed=signed), [0])
    assert numbers(Plausibility()(case), "a")["token f1"] == found


@pytest.mark.parametrize(("k", "f1"), [("own", 1.0), (0.1, 2 / 3), (0.5, 4 / 7), (1.0, 4 / 12)])
def test_k_is_as_many_as_are_marked_or_a_share(k: Any, f1: float) -> None:
    """Two of ten words are marked, and score highest; 1, 5 and 10 words are chosen."""
    case = noted(said(plain(10), {"a": np.arange(10.0)}), [8, 9])
    assert numbers(Plausibility(k=k)(case), "a")["token f1"] == pytest.approx(f1)


@pytest.mark.parametrize("architecture", toys.ARCHITECTURES)
def test_the_pointers_attention_is_plausible_to_who_marks_the_marker(architecture: str) -> None:
    example = Example("ape bee yes cat dog", rationale=((8, 11),))
    found = Plausibility()(one(toys.build(architecture, toys.POINTER), example, ("attention-mean", "uniform")))
    assert numbers(found, "attention-mean") == dict.fromkeys(SIZES, 1)
    assert numbers(found, "uniform")["auprc"] == pytest.approx(1 / 5)


# chance


def test_random_has_the_rationale_share() -> None:
    """Average precision by chance is a little above the share in a short text: of one marked among n it is H_n / n."""
    text = " ".join(["ape bee cat dog"] * 9)
    case = one(toys.build("bert", toys.BAG_TOY), text, ())
    found = Plausibility()(noted(case, list(range(0, 36, 2))))
    assert numbers(found, "")["rationale share"] == 0.5
    assert numbers(found, "random")["auprc"] == pytest.approx(0.5, abs=0.06)
    assert numbers(found, "random")["token f1"] == pytest.approx(0.5, abs=0.06)


def test_random_is_the_mean_over_its_draws() -> None:
    case = noted(plain(8), [1, 5])
    truth = np.isin(np.arange(8), [1, 5])
    draws = [average_precision_score(truth, why.scores[list(case.tokens.content)]) for why in case.draws]
    assert numbers(Plausibility()(case), "random")["auprc"] == pytest.approx(np.mean(draws))


def test_equal_scores_choose_by_chance_and_not_by_place() -> None:
    cases = [replace(noted(said(plain(10), {"a": np.ones(10)}), [0]), seed=seed) for seed in range(200)]
    chosen = [numbers(Plausibility()(case), "a")["token f1"] for case in cases]
    assert 0.03 < np.mean(chosen) < 0.19  # .1 and four standard deviations


# what does not exist


def test_without_a_rationale_there_is_nothing_to_find() -> None:
    assert Plausibility()(said(plain(3), {"a": [1.0, 2, 3]})) == []


def test_an_empty_rationale_is_counted_and_has_no_numbers() -> None:
    found = Plausibility()(noted(said(plain(3), {"a": [1.0, 2, 3]}), []))
    assert {f.measure for f in found} == set(Plausibility.measures)
    assert all(math.isnan(f.value) for f in found)


def test_a_rationale_of_all_words_is_met_by_any_order_and_says_nothing() -> None:
    found = numbers(Plausibility()(noted(said(plain(3), {"a": [1.0, 2, 3]}), [0, 1, 2])), "a")
    assert all(isnan(found[name]) for name in SIZES)


def test_one_word() -> None:
    found = Plausibility()(noted(said(plain(1), {"a": [1.0]}), [0]))
    assert all(isnan(numbers(found, "a")[name]) for name in SIZES)


# models and settings


@pytest.mark.parametrize("family", ["bert", "gpt2", "t5", "bilstm", "multihead"])
def test_models_of_every_kind(family: str) -> None:
    case = one(shared(family), Example("unbelievably good music; the acting isn't", rationale=((13, 23),)), FEW)
    found = Plausibility()(case)
    assert numbers(found, "")["rationale share"] == pytest.approx(2 / 7)
    assert {f.method for f in found} == {*FEW, ""}
    assert all(math.isfinite(f.value) for f in found)


@pytest.mark.parametrize("more", [{"labels": 10}, {"labels": 1, "problem_type": "regression"}])
def test_any_head(more: dict[str, Any]) -> None:
    case = one(build("bert", **more), Example("good film", rationale=((0, 4),)), ("leave-one-out",))
    assert all(math.isfinite(f.value) for f in Plausibility()(case))


def test_a_network_with_two_levels() -> None:
    example = Example("The film was good, good music. Dull story.", rationale=((31, 35),))
    found = Plausibility()(one(hierarchical(), example, ("attention-mean",)))
    assert all(math.isfinite(f.value) for f in found)


def test_nothing_is_asked_of_the_model() -> None:
    case = one(shared("bert"), Example("good film", rationale=((0, 4),)), FEW)
    before = case.classifier.forwards
    Plausibility()(case)
    assert case.classifier.forwards == before
    assert Plausibility().passes(case.classifier, case.tokens, case.methods).forwards == 0


@pytest.mark.parametrize("wrong", [{"k": 0.0}, {"k": 1.5}, {"k": "all"}, {"unit": "bag"}])
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="not"):
        Plausibility(**wrong)


def test_the_table_tells_right_from_wrong_predictions() -> None:
    good, bad = (noted(said(plain(4), {"a": scores}), [0]) for scores in ([4.0, 3, 2, 1], [1.0, 2, 3, 4]))
    none = noted(good, [])
    each = tuple(Plausibility()(case) for case in (good, bad, bad, none, good))
    texts = {"gold": np.array([0, 1, 0, 0, -1]), "predicted": np.array([0, 1, 1, 0, 0])}
    tables = Plausibility().tables(Stand(each, texts))  # type: ignore[arg-type]

    def cell(part: Sequence[MethodMean]) -> MethodMean:
        return next(row for row in part if (row.method, row.measure) == ("a", "token f1"))

    assert cell(tables.right) == MethodMean("a", "token f1", n=2, missing=1, mean=0.5)
    assert cell(tables.wrong) == MethodMean("a", "token f1", n=1, missing=0, mean=0.0)
