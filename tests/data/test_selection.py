"""Selection: the texts that are used are those that were asked for, and all others are counted."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.core.errors import BadInput
from heedful.data import Example, Selection, load, load_counted, read, splits
from heedful.data.selection import count_words

TEXTS = [("good", "pos"), ("not so good", "neg"), ("it rained all day long , again", "neutral"), ("fine !", "pos")]


def refused(message: str) -> Any:
    return pytest.raises(BadInput, match=f"^{re.escape(message)}$")


def test_labels_are_renamed() -> None:
    select = Selection(rename={"pos": "positive", "neg": "negative"})
    assert [e.label for e in load(TEXTS, select=select)] == ["positive", "negative", "neutral", "positive"]


def test_names_may_be_exchanged_and_joined() -> None:
    assert [e.label for e in load(TEXTS, select=Selection(rename={"pos": "neg", "neg": "pos"}))][:2] == ["neg", "pos"]
    joined = Selection(rename={"neutral": "neg"})
    assert [e.label for e in load([Example("x", None, ("neg", "neutral"))], select=joined)] == [("neg",)]


def test_labels_to_use_are_named_as_in_the_data() -> None:
    select = Selection(labels=("pos", "neg"), rename={"pos": "1", "neg": "0"})
    assert [e.label for e in load(TEXTS, select=select)] == ["1", "0", "1"]


def test_a_known_label_is_known_after_it_is_renamed() -> None:
    select = Selection(rename={"pos": "positive", "neg": "negative", "neutral": "negative"})
    assert len(list(read(TEXTS, select=select, labels=["negative", "positive"]))) == 4
    with refused("label 'neutral' in row 3 is not one of neg, pos; correct it, or give --rename-labels neutral=NAME."):
        list(read(TEXTS, labels=["neg", "pos"]))


@pytest.mark.parametrize("select", [Selection(rename={"poss": "x"}), Selection(labels=("poss",))])
def test_a_label_that_the_data_do_not_have_is_refused(select: Selection) -> None:
    option = "--labels" if select.labels else "--rename-labels"
    message = f"label 'poss' of {option} is not one of neg, neutral, pos; did you mean 'pos'?"
    for reader in (load, splits, lambda data, select: list(read(data, select=select))):
        with refused(message):
            reader(TEXTS, select=select)


def test_a_label_may_be_missing_in_one_part() -> None:
    result = splits(TEXTS[:2], dev=TEXTS[3:], select=Selection(rename={"neg": "negative"}))
    assert [e.label for e in result.train + result.dev] == ["pos", "negative", "pos"]


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), ("It's 3.5, no?", 3), ("so ... good !", 2), ("well-made", 1), ("大好き", 3)]
)
def test_words_are_counted_without_marks(text: str, count: int) -> None:
    assert count_words(text) == count


@given(st.lists(st.integers(1, 9), min_size=1), st.integers(1, 9), st.integers(0, 5))
def test_bounds_are_part_of_the_range_and_all_others_are_counted(lengths: list[int], least: int, span: int) -> None:
    data = [Example("w , " * n) for n in lengths]
    select = Selection(min_words=least, max_words=least + span)
    wanted = [e for e, n in zip(data, lengths, strict=True) if least <= n <= least + span]
    if not wanted:
        with pytest.raises(BadInput, match="no texts left"):
            load_counted(data, select=select)
        return
    examples, dropped = load_counted(data, select=select)
    assert examples == wanted
    assert sum(dropped.values()) == len(data) - len(wanted)
    short = f"with fewer than {least} words"
    assert dropped.get(short, 0) == sum(n < least for n in lengths)


def test_all_parts_are_selected_alike_and_counted_each() -> None:
    parts = {"train": TEXTS * 9, "dev": TEXTS, "test": TEXTS[:2]}
    result = splits(parts, select=Selection(min_words=2, max_words=3))
    assert [len(part) for part in (result.train, result.dev, result.test)] == [9, 1, 1]
    assert result.record() == {
        "selection": {"min_words": 2, "max_words": 3},
        "dropped": {
            "train": {"with fewer than 2 words": 18, "with more than 3 words": 9},
            "dev": {"with fewer than 2 words": 2, "with more than 3 words": 1},
            "test": {"with fewer than 2 words": 1},
        },
    }
    assert result.note == "31 texts were dropped: 21 with fewer than 2 words, 10 with more than 3 words."


def test_what_is_dropped_from_one_source_is_counted_before_it_is_divided() -> None:
    result = splits(TEXTS * 5, select=Selection(labels=("pos",)))
    assert len(result.train + result.dev + result.test) == 10
    assert result.dropped == {"all": {"with another label": 10}}


def test_a_part_without_texts_is_refused_by_name() -> None:
    with refused(
        "the test part of the data has no texts left (1 text was dropped: 1 with fewer than 2 words); give other "
        "texts, or select more."
    ):
        splits({"train": TEXTS, "dev": TEXTS, "test": TEXTS[:1]}, select=Selection(min_words=2))


def test_nothing_is_recorded_where_every_text_is_used() -> None:
    assert splits(TEXTS).record() == {}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_words": 0}, "min_words is 0; give at least 1."),
        ({"min_words": 6, "max_words": 5}, "min_words 6 is above max_words 5; exchange them."),
        ({"rename": {"pos": ""}}, "a label to select or to rename is empty; give its name."),
    ],
)
def test_a_selection_that_makes_no_sense_is_refused(settings: dict[str, Any], message: str) -> None:
    with refused(message):
        Selection(**settings)


@pytest.mark.parametrize(
    ("label", "new"), [("pos", "positive"), ("Negativ", "negative"), ("1", "NAME"), ("maybe", "NAME"), ("tive", "NAME")]
)
def test_a_new_name_is_proposed_only_where_it_is_clear(label: str, new: str) -> None:
    with pytest.raises(BadInput, match=f"give --rename-labels {label}={new}\\.$"):
        load([("x", label)], labels=["negative", "positive", "10"])
