"""Patterns: the strongest cells, their words, relative places and insertion, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from heedful.data import Example
from heedful.studies.patterns import (
    Pattern,
    Trigger,
    cell_words,
    insertion_places,
    relative_words,
    strongest_cells,
    strongest_patterns,
)
from heedful.studies.words import words_of
from tests.support.models import shared


@pytest.mark.parametrize(
    ("length", "relative", "places"),
    [
        (8, [0.5], [4]),  # round(9 · 0.5) = round(4.5) = 4
        (8, [0.2, 0.8], [2, 8]),
        (8, [0.5, 0.5], [5, 6]),  # the second one further on
        (8, [0.5, 0.5, 0.5], [6, 7, 8]),  # and the third after the second
        (8, [1.0], [8]),  # round(9) is beyond the end
        (8, [1.0, 1.0], [8, 9]),
        (1, [0.1, 0.9], [0, 2]),
        (0, [0.3], [0]),
    ],
)
def test_words_go_to_their_relative_places(length: int, relative: list[float], places: list[int]) -> None:
    assert insertion_places(length, relative) == places


def test_inserted_words_keep_their_order() -> None:
    trigger = Trigger(("x", "y", "z"), (0, 0, 0), (0.4, 0.4, 0.4), 0)
    text = trigger.insert(Example("a b c d"))[0].text
    assert [word for word in words_of(text) if word in "xyz"] == ["x", "y", "z"]


def test_each_word_goes_to_its_own_text_of_a_pair() -> None:
    new, marks = Trigger(("x", "y"), (0, 1), (1.0, 0.5), 0).insert(Example("a b", "c d e"))
    assert (new.text, new.pair) == ("a b x", "c d y e")
    assert marks == [[False, False, True], [False, False, True, False]]


def test_a_word_of_the_second_text_is_left_out_of_a_single_text() -> None:
    assert Trigger(("x", "y"), (0, 1), (0.0, 0.5), 0).insert(Example("a b"))[0] == Example("x a b")


def test_the_head_with_the_largest_cell_gives_its_two_largest() -> None:
    weights = np.zeros((2, 3, 4, 4))
    weights[1, 2, 0, 3], weights[1, 2, 2, 1], weights[0, 0, 1, 1] = 0.9, 0.4, 0.8
    assert strongest_cells(weights) == (1, 2, [(0, 3, 0.9), (2, 1, 0.4)])


def test_special_tokens_of_a_cell_are_left_out_and_pieces_are_joined() -> None:
    tokens = shared("bert").tokens("unbelievably good")
    pieces = [i for i, word in enumerate(tokens.words) if word == 0]
    assert len(pieces) > 1
    found = cell_words(tokens, [(0, pieces[0]), (pieces[1], len(tokens) - 1)], len(tokens), shifted=False)
    assert relative_words(tokens, found) == [("unbelievably", 0, 0.5)]


def test_a_network_with_one_query_has_words_at_keys_only() -> None:
    tokens = shared("bert").tokens("good music")
    assert cell_words(tokens, [(0, 2)], 1, shifted=False) == [1]


def test_a_position_of_a_decoder_holds_the_token_before_it() -> None:
    tokens = shared("bert").tokens("good music acting")
    assert cell_words(tokens, [(3, 1)], len(tokens), shifted=True) == [0, 1]


def test_relative_places_are_counted_in_each_text_of_a_pair_from_one() -> None:
    tokens = shared("bert").tokens("good music", "one two three film")
    assert relative_words(tokens, [1, 3]) == [("music", 0, 1.0), ("two", 1, 0.5)]


def pattern(text: int, words: str, values: tuple[float, float], label: int = 0) -> Pattern:
    split = tuple(words.split())
    trigger = Trigger(split, (0,) * len(split), (0.5,) * len(split), label)
    return Pattern(text, label, 0.9, 0, 0, values, (0,), trigger)


def test_patterns_of_each_label_are_sorted_by_both_values_and_weak_ones_dropped() -> None:
    found = strongest_patterns(
        [
            pattern(0, "a b", (0.1, 0.05)),
            pattern(1, "A b", (0.4, 0.0)),  # the same words, stronger
            pattern(2, "c", (0.2, 0.3)),
            pattern(3, "d", (0.012, 0.007)),
            pattern(4, "e", (0.3, 0.1), label=1),
        ],
        0.02,
        5,
    )
    assert {label: [p.text for p in group] for label, group in found.items()} == {0: [2, 1], 1: [4]}


def test_a_pattern_at_the_threshold_is_kept() -> None:
    assert strongest_patterns([pattern(0, "a", (0.02, 0.0))], 0.02, 5) != {}
