"""Tables: files without a header, texts in several columns, and pairs without a gold label."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from heedful.core.errors import BadInput
from heedful.data import Columns, Example, label_names, load, load_counted, splits


def refused(message: str) -> Any:
    return pytest.raises(BadInput, match=f"^{re.escape(message)}$")


def pairs(examples: list[Example]) -> list[tuple[str, Any]]:
    return [(e.text, e.label) for e in examples]


# Zhang et al. 2015: csv without a header, the class first

NEWS = (
    '"3","Shares slip","Prices fell, and ""calm"" is gone."\n'
    '"1","Talks begin","Two states meet."\n'
    '"3","Review","Rates rose."\n'
)


def test_columns_without_a_header_are_chosen_by_number(write: Callable[..., str]) -> None:
    path = write("train.csv", NEWS)
    wanted = [('Prices fell, and "calm" is gone.', "3"), ("Two states meet.", "1"), ("Rates rose.", "3")]
    assert pairs(load(path, Columns(text="3"))) == wanted
    assert pairs(load(path, Columns(text="3", label="1"))) == wanted


def test_several_columns_are_joined_and_empty_ones_left_out(write: Callable[..., str]) -> None:
    path = write("train.csv", '"5","Why?","","Because."\n"2","Who?","And when?","Ann."\n')
    assert pairs(load(path, Columns(text="2,3,4"))) == [("Why? Because.", "5"), ("Who? And when? Ann.", "2")]


def test_several_columns_of_a_header_are_joined_by_name_or_number(write: Callable[..., str]) -> None:
    path = write("train.csv", "label,title,body\n1,Calm,It rained.\n")
    assert (
        load(path, Columns(text="title,body"))
        == load(path, Columns(text="2,3"))
        == [Example("Calm It rained.", None, "1")]
    )


def test_a_text_in_several_columns_is_not_guessed(write: Callable[..., str]) -> None:
    with refused(
        "no column of 'train.csv' line 1 looks like the text (found: label, 2, 3); choose it, or several to join, with "
        "--text-column."
    ):
        load(write("train.csv", NEWS))


def test_a_first_row_with_a_columns_name_in_it_is_no_header(write: Callable[..., str]) -> None:
    path = write("train.csv", '"2","Review","A fine pan."\n"1","Poor","It broke."\n')
    assert pairs(load(path, Columns(text="2,3"))) == [("Review A fine pan.", "2"), ("Poor It broke.", "1")]


def test_a_class_and_a_text_need_no_columns(write: Callable[..., str]) -> None:
    path = write("train.csv", '"5","So good, again."\n"1","Bad.\\nReally bad."\n')
    assert pairs(load(path)) == [("So good, again.", "5"), ("Bad.\\nReally bad.", "1")]
    assert load(path, kind="csv-escaped")[1].text == "Bad.\nReally bad."


def test_numbers_that_are_no_classes_are_not_taken_for_the_label(write: Callable[..., str]) -> None:
    path = write("a.tsv", "354256195432\t54516759\t0\tI slept well.\n354256195433\t54516760\t1\tIt made me dizzy.\n")
    with refused(
        "'a.tsv' line 1 has no known column name (found: 354256195432, 54516759, 0, I slept well.) and no column is "
        "clearly the label; add a header such as text,label or choose columns by number with --text-column 2."
    ):
        load(path)
    assert pairs(load(path, Columns(text="4", label="3"))) == [("I slept well.", "0"), ("It made me dizzy.", "1")]


# SNLI and MNLI


def nli(labels: list[str]) -> list[dict[str, str]]:
    more = {"sentence1_parse": "(x)", "captionID": "c", "pairID": "p"}
    return [
        {"gold_label": name, "sentence1": f"It is {i}.", "sentence2": "It was.", **more}
        for i, name in enumerate(labels)
    ]


@pytest.mark.parametrize("suffix", ["jsonl", "txt"])
def test_a_pair_without_a_gold_label_is_dropped_and_counted(write: Callable[..., str], suffix: str) -> None:
    rows = nli(["neutral", "-", "entailment", "-"])
    lines = ["\t".join(rows[0]), *("\t".join(row.values()) for row in rows)]
    path = write(f"dev.{suffix}", "\n".join(map(json.dumps, rows) if suffix == "jsonl" else lines))
    examples, dropped = load_counted(path)
    assert examples == [Example(f"It is {i}.", "It was.", name) for i, name in ((0, "neutral"), (2, "entailment"))]
    assert dropped == {"without a gold label": 2}


def test_a_hyphen_is_a_label_in_other_columns(write: Callable[..., str]) -> None:
    assert label_names(load(write("a.csv", "text,label\nGood.,+\nBad.,-\n"))) == ("+", "-")


def test_data_without_any_gold_label_are_refused(write: Callable[..., str]) -> None:
    with refused(
        "'dev.jsonl' has no texts left (2 texts were dropped: 2 without a gold label); give other texts, or select "
        "more."
    ):
        load(write("dev.jsonl", "\n".join(map(json.dumps, nli(["-", "-"])))))


def test_the_kind_decides_between_two_forms_of_a_part(write: Callable[..., str]) -> None:
    for part, labels in {"train": ["neutral", "-", "entailment"], "dev": ["neutral"], "test": ["-", "neutral"]}.items():
        write(f"snli/snli_1.0_{part}.jsonl", "\n".join(map(json.dumps, nli(labels))))
        write(f"snli/snli_1.0_{part}.txt", "another form")
    result = splits("snli", kind="jsonl")
    assert (len(result.train), len(result.dev), len(result.test)) == (2, 1, 1)
    assert result.dropped == {"train": {"without a gold label": 1}, "test": {"without a gold label": 1}}
    assert result.note == "2 texts were dropped: 2 without a gold label."
