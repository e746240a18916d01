"""A few texts that explain a model together."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.core.errors import BadInput
from heedful.core.explanation import Attribution, Explanations
from heedful.methods.lime import Lime
from heedful.methods.pick import pick, strengths
from heedful.model.function import Plain
from tests.support.models import shared

WEIGHTS = {"good": 0.2, "bad": -0.3, "dull": -0.1}


def linear(texts: list[str]) -> np.ndarray[Any, Any]:
    """A bag of words whose weights add up to the probability of the second label."""
    share = np.array([0.5 + sum(WEIGHTS.get(word.lower(), 0.0) for word in text.split()) for text in texts])
    return np.stack([1 - share, share], axis=1)


BAG, POSITIVE = Plain(linear, labels=("negative", "positive")), heedful.Target("positive", "probability")
TEXTS = ["film film", "good film", "Good good film", "bad film", "dull bad film", "dull film"]


def left_out(texts: list[str]) -> Explanations:
    return heedful.explain(BAG, texts, "leave-one-out", POSITIVE)


def test_the_picked_texts_cover_the_words_that_matter() -> None:
    picks = pick(left_out(TEXTS), 2)
    assert [why.tokens.text for why in picks] == ["dull bad film", "good film"]
    assert [why.details["new_words"] for why in picks] == [["bad", "dull"], ["good"]]
    good, bad, dull = math.sqrt(0.2 + 0.4), math.sqrt(0.3 + 0.3), math.sqrt(0.1 + 0.1)
    shares = [why.details["coverage"] for why in picks]
    assert shares == pytest.approx([(bad + dull) / (good + bad + dull), 1], abs=1e-5)


def test_no_text_is_picked_that_adds_nothing() -> None:
    assert len(pick(left_out(TEXTS), 5)) == 2


def test_a_picked_explanation_is_the_explanation_with_two_details() -> None:
    every = left_out(TEXTS)
    why = pick(every, 1)[0]
    assert isinstance(why, Attribution)
    assert np.array_equal(why.scores, every[4].scores)  # type: ignore[attr-defined]
    assert heedful.from_json(why.to_json()) == why


def test_occurrences_add_up_and_case_does_not_count() -> None:
    [why] = left_out(["Good good film"])
    assert isinstance(why, Attribution)
    assert strengths(why) == pytest.approx({(0, "good"): 0.4}, abs=1e-5)


def test_only_the_strongest_words_count() -> None:
    [why] = left_out(["dull bad good film"])
    assert isinstance(why, Attribution)
    assert list(strengths(why, 2)) == [(0, "bad"), (0, "good")]


def test_the_other_text_of_a_pair_has_other_words() -> None:
    why = heedful.explain(shared("bert"), "good film", "leave-one-out", pair="good story")
    assert isinstance(why, Attribution)
    assert set(strengths(why)) == {(0, "good"), (0, "film"), (1, "good"), (1, "story")}


def test_limes_selected_words_are_those_that_count() -> None:
    why = heedful.explain(BAG, "dull bad good film", Lime(samples=200, num_features=2), POSITIVE)
    assert isinstance(why, Attribution)
    assert set(strengths(why, None)) == {(0, "bad"), (0, "good")}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pick([]), "there is no explanation to pick from"),
        (lambda: pick(left_out(TEXTS), 0), "count is 0; give at least 1"),
        (lambda: pick(left_out(TEXTS), words=0), "words is 0; give at least 1"),
        (lambda: pick(left_out(["film", "film film"])), "every word of these texts scores 0"),
        (lambda: pick(heedful.explain(BAG, TEXTS, ["random", "uniform"])), "the explanations are by random, uniform"),
        (lambda: pick(heedful.explain(BAG, TEXTS, "minimal-flip")), "minimal-flip has no score for each word"),
    ],
)
def test_what_cannot_be_picked_from_is_refused(make: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make()
