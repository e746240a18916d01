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
def found() -> Explanations:
    """Two texts, each by two methods that score tokens and one that does not."""
    return explain(shared("bert"), TEXTS, METHODS)


def test_they_are_a_sequence_text_by_text(found: Explanations) -> None:
    assert [(why.tokens.text, why.method) for why in found] == [(text, name) for text in TEXTS for name in METHODS]
    assert (len(found), found[-1].method, found[0] in found) == (6, "attention-weights", True)


def test_a_slice_is_explanations(found: Explanations) -> None:
    assert isinstance(found[1:3], Explanations)
    assert list(found[1:3]) == [found[1], found[2]]


def test_equality_is_by_value(found: Explanations) -> None:
    again = explain(shared("bert"), TEXTS, METHODS)
    assert again == found
    assert hash(again) == hash(found)
    assert again[:2] != found[:3]
    assert explain(shared("bert"), TEXTS[0], "random", seed=1) != explain(shared("bert"), TEXTS[0], "random", seed=2)


def test_they_cannot_be_changed(found: Explanations) -> None:
    with pytest.raises(AttributeError):
        found.items = ()  # type: ignore[misc]


def test_they_survive_json(found: Explanations) -> None:
    assert Explanations.from_json(found.to_json()) == found
    assert [json.loads(line)["kind"] for line in found.to_json().splitlines()] == [d["kind"] for d in found.to_dicts()]


def test_by_word_keeps_what_has_no_score_per_token(found: Explanations) -> None:
    first, last = found[0], found[-1]
    assert isinstance(first, Attribution)
    assert found.by("word")[0] == first.by("word")
    assert found.by("word")[-1] == last


def test_grouped_by_method_and_by_text(found: Explanations) -> None:
    assert list(found.by_method()) == METHODS
    assert found.by_method()["attention-mean"] == Explanations([found[1], found[4]])
    assert found.by_text() == [found[:3], found[3:]]


def test_the_frame_has_a_row_for_each_token_of_each_attribution(found: Explanations) -> None:
    frame = found.to_dataframe()
    assert list(frame.columns[:2]) == ["text_number", "method"]
    assert len(frame) == sum(len(why.tokens) for why in found if isinstance(why, Attribution))
    second = frame[(frame.text_number == 1) & (frame.method == "attention-mean")]
    assert isinstance(found[4], Attribution)
    assert second.score.tolist() == found[4].scores.tolist()


def test_a_frame_needs_scores(found: Explanations) -> None:
    with pytest.raises(BadInput, match="none of these explanations has a score per token"):
        found[2:3].to_dataframe()


def test_the_page_has_a_section_for_each_text(found: Explanations) -> None:
    assert found.to_html().count('<section class="text"') == 2


def test_an_explanation_alone_has_the_page_of_a_list_of_it(found: Explanations) -> None:
    assert found[:1].to_html() == found[0].to_html()


def test_the_figure_is_of_one_text(found: Explanations) -> None:
    assert found[:3].plot().get_size_inches()[0] > 0
    with pytest.raises(BadInput, match="a figure shows one text"):
        found.plot()


def test_nothing_skipped_is_an_empty_mapping(found: Explanations) -> None:
    assert found.skipped == {}
    assert heedful.Explanations is Explanations
