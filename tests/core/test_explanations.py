"""Explanations: a frozen sequence with views of its own."""

from __future__ import annotations

import json

import pytest

import heedful
from heedful.core.errors import BadInput
from heedful.core.explanation import Attribution, Explanations
from heedful.methods.explain import explain
from tests.support import models
from tests.support.models import shared

TEXTS = list(models.TEXTS[:2])
METHODS = ["gradient-x-input", "attention-mean", "attention-weights"]


@pytest.fixture(scope="module")
def result() -> Explanations:
    """Two texts, each by two methods that score tokens and one that does not."""
    return explain(shared("bert"), TEXTS, METHODS)


def test_they_are_a_sequence_text_by_text(result: Explanations) -> None:
    assert [(why.tokens.text, why.method) for why in result] == [(text, name) for text in TEXTS for name in METHODS]
    assert (len(result), result[-1].method, result[0] in result) == (6, "attention-weights", True)


def test_a_slice_is_explanations(result: Explanations) -> None:
    assert isinstance(result[1:3], Explanations)
    assert list(result[1:3]) == [result[1], result[2]]


def test_equality_is_by_value(result: Explanations) -> None:
    again = explain(shared("bert"), TEXTS, METHODS)
    assert again == result
    assert hash(again) == hash(result)
    assert again[:2] != result[:3]
    assert explain(shared("bert"), TEXTS[0], "random", seed=1) != explain(shared("bert"), TEXTS[0], "random", seed=2)


def test_they_cannot_be_changed(result: Explanations) -> None:
    with pytest.raises(AttributeError):
        result.items = ()  # type: ignore[misc]


def test_they_survive_json(result: Explanations) -> None:
    assert Explanations.from_json(result.to_json()) == result
    assert [json.loads(line)["kind"] for line in result.to_json().splitlines()] == [
        d["kind"] for d in result.to_dicts()
    ]


def test_by_word_keeps_what_has_no_score_per_token(result: Explanations) -> None:
    first, last = result[0], result[-1]
    assert isinstance(first, Attribution)
    assert result.by("word")[0] == first.by("word")
    assert result.by("word")[-1] == last


def test_grouped_by_method_and_by_text(result: Explanations) -> None:
    assert list(result.by_method()) == METHODS
    assert result.by_method()["attention-mean"] == Explanations([result[1], result[4]])
    assert result.by_text() == [result[:3], result[3:]]


def test_the_frame_has_a_row_for_each_token_of_each_attribution(result: Explanations) -> None:
    frame = result.to_dataframe()
    assert list(frame.columns[:2]) == ["text_number", "method"]
    assert len(frame) == sum(len(why.tokens) for why in result if isinstance(why, Attribution))
    second = frame[(frame.text_number == 1) & (frame.method == "attention-mean")]
    assert isinstance(result[4], Attribution)
    assert second.score.tolist() == result[4].scores.tolist()


def test_a_frame_needs_scores(result: Explanations) -> None:
    with pytest.raises(BadInput, match="none of these explanations has a score per token"):
        result[2:3].to_dataframe()


def test_the_page_has_a_section_for_each_text(result: Explanations) -> None:
    assert result.to_html().count('<section class="text"') == 2


def test_an_explanation_alone_has_the_page_of_a_list_of_it(result: Explanations) -> None:
    assert result[:1].to_html() == result[0].to_html()


def test_the_figure_is_of_one_text(result: Explanations) -> None:
    assert result[:3].plot().get_size_inches()[0] > 0
    with pytest.raises(BadInput, match="a figure shows one text"):
        result.plot()


def test_nothing_skipped_is_an_empty_mapping(result: Explanations) -> None:
    assert result.skipped == {}
    assert heedful.Explanations is Explanations
