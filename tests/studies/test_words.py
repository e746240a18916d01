"""Words: insertion and replacement by hand, and for any text; the words of each label where they are planted."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.core.errors import BadInput
from heedful.core.files import json_value
from heedful.studies.words import Lexicon, WordIndex, insert_words, lexicon_of, replace_words, words_of
from tests.support.models import shared


@pytest.mark.parametrize(
    ("text", "places", "words", "expected"),
    [
        ("a b c", [1], ["x"], "a x b c"),
        ("a b c", [0], ["x"], "x a b c"),
        ("a b c", [3], ["x"], "a b c x"),
        ("a b c", [1, 2], ["x", "y"], "a x y b c"),
        ("good, bad.", [1], ["x"], "good x , bad."),
        ("(word)", [1], ["x"], "( x word)"),
        ("  a  b ", [1], ["x"], "  a x  b "),
        ("a b", [], [], "a b"),
    ],
)
def test_words_are_inserted_between_words(text: str, places: list[int], words: list[str], expected: str) -> None:
    assert insert_words(text, places, words)[0] == expected


def test_inserted_words_are_marked() -> None:
    text, marks = insert_words("It is, so.", [1, 6], ["not", "really"])
    assert [word for word, mark in zip(words_of(text), marks, strict=True) if mark] == ["not", "really"]


TEXTS = st.text("ab'-.,! 3é漢", max_size=12).filter(lambda text: bool(words_of(text)))


@given(TEXTS, st.data())
def test_no_other_word_changes_when_some_are_replaced(text: str, data: st.DataObject) -> None:
    words = words_of(text)
    new = data.draw(st.dictionaries(st.integers(0, len(words) - 1), st.sampled_from(["good", "bad's", "x"])))
    assert words_of(replace_words(text, new)) == [new.get(i, word) for i, word in enumerate(words)]


def test_spaces_are_kept_where_words_stay_apart() -> None:
    assert replace_words("A  fine, film.", {1: "dull"}) == "A  dull, film."


def test_a_mark_between_words_is_replaced_by_a_word_of_its_own() -> None:
    assert replace_words("good,bad", {1: "dull"}) == "good dull bad"


def test_words_of_a_pair_are_numbered_after_those_of_the_text() -> None:
    index = WordIndex(shared("bert").tokens("good music", "awful film story"))
    assert [(index.place(i), index.word(i)) for i in (1, 2, 4)] == [
        ((0, 1), "music"),
        ((1, 0), "awful"),
        ((1, 2), "story"),
    ]


def test_the_length_of_a_segment_is_what_the_model_reads() -> None:
    tokens = shared("bert").tokens("good music one two three")
    assert WordIndex(tokens.take(range(len(tokens) - 3))).length(0) < WordIndex(tokens).length(0) == 5


def planted(labels: int = 2, n: int = 90) -> Lexicon:
    """Texts of fillers, each with the word of its label: w0, w1, …"""
    rng = np.random.default_rng(0)
    gold = np.arange(n) % labels
    fillers = ["Ape", "bee", "cat", "the", "dog"]
    texts = [f"{' '.join(rng.permutation(fillers)[:3])}, Word{'abc'[label]}" for label in gold.tolist()]
    return lexicon_of(texts, gold, labels)


@pytest.mark.parametrize("labels", [2, 3])
def test_the_strongest_word_of_a_label_is_the_planted_one(labels: int) -> None:
    found = planted(labels)
    assert [found.strongest(i)[0] for i in range(labels)] == [f"Word{'abc'[i]}" for i in range(labels)]


def test_log_odds_of_two_labels_are_opposite() -> None:
    assert planted().odds[0] == pytest.approx(-planted().odds[1])


def test_stop_words_and_marks_have_no_weight_and_no_rank() -> None:
    found = planted()
    assert found.size("the") == found.size(",") == 0
    assert not {"the", ","} & {*found.strongest(0), *found.frequent(0)}


def test_case_does_not_matter_and_the_usual_spelling_is_kept() -> None:
    assert planted().size("WORDA") == planted().size("worda") > 0
    assert "Ape" in planted().words


def test_the_most_frequent_word_of_a_label_is_first() -> None:
    assert planted().frequent(1)[0] == "Wordb"


def test_words_without_a_weight_are_ranked_by_their_shares_of_texts() -> None:
    lexicon = Lexicon(("one", "two", "six"), np.array([[1, 5, 3], [5, 1, 3]]), np.array([6, 6]), np.zeros((2, 3)))
    lexicon = Lexicon(("ape", "bee", "cat"), lexicon.counts, lexicon.texts, lexicon.odds)
    assert lexicon.strongest(0) == ["bee", "cat", "ape"]


def test_a_lexicon_survives_json() -> None:
    found = planted(3)
    again = Lexicon.from_json(json.loads(json.dumps(json_value(found.to_json()))))
    assert (again.words, again.odds.tolist(), again.counts.tolist()) == (
        found.words,
        found.odds.tolist(),
        found.counts.tolist(),
    )


def test_one_label_is_refused() -> None:
    with pytest.raises(BadInput, match="two labels"):
        lexicon_of(["a b"], np.array([0]), 2)
