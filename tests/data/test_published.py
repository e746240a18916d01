"""Published files: each form is read as its authors write it, and what is dropped is counted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from sklearn.datasets import _twenty_newsgroups as reference

from heedful.core.errors import BadInput
from heedful.data import Columns, Example, label_names, load, load_counted, splits
from heedful.data.corpora import message_body


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


# tweets


@pytest.mark.parametrize("before", ["", "35425619543288{}\t5451675\t"])
def test_tweets_that_are_gone_are_counted(write: Callable[..., str], before: str) -> None:
    rows = [("0", "I slept well."), ("1", "It made me dizzy."), ("1", "Not Available")]
    path = write("adr.tsv", "".join(before.format(i) + "\t".join(row) + "\n" for i, row in enumerate(rows)))
    examples, dropped = load_counted(path, kind="tweets")
    assert (pairs(examples), dropped) == ([(t, label) for label, t in rows[:2]], {"that are not available": 1})


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


# 20 Newsgroups

BODIES = [
    "Our team won.\n\n> Did they?\nThey did.\n\n--\nAnn, at work\n",
    "In article <1@x> ann@x writes:\n>So it is.\n|And was.\nNo.\n",
    "\n\n-----\n\nOnly this",
    "One line",
    "",
    "No empty line but\n---\nsigned: Ben",
    "Ben said: yes\nQuoted from a letter\n\n\n",
]


@pytest.mark.parametrize("body", BODIES)
def test_a_message_is_cut_as_scikit_learn_cuts_it(body: str) -> None:
    message = f"From: ann@x\nNewsgroups: rec.sport.hockey\n\n{body}"
    wanted = reference.strip_newsgroup_header(message)
    wanted = reference.strip_newsgroup_quoting(reference.strip_newsgroup_footer(wanted))
    assert message_body(message) == wanted


def test_newsgroups_are_folders_of_messages(write: Callable[..., str]) -> None:
    head = "From: ann@x\nSubject: x\n\n"
    write("20news-bydate-train/rec.sport.hockey/52550", f"{head}A goal by J\xe4rvi!\n\n-- \nAnn".encode("latin-1"))
    write("20news-bydate-train/rec.sport.hockey/52551", f"{head}> Why?\n")
    write("20news-bydate-train/rec.sport.baseball/100521", f"{head}A home run.\r\n")
    examples, dropped = load_counted("20news-bydate-train", kind="newsgroups")
    assert pairs(examples) == [("A home run.", "rec.sport.baseball"), ("A goal by Järvi!\n", "rec.sport.hockey")]
    assert dropped == {"without words of their own": 1}
    assert len(load("20news-bydate-train", kind="newsgroups-whole")) == 3


# CNN

CLOZE = ("@entity1 met @entity2 in @entity3 .", "@placeholder was met by @entity1", "@entity2")


def question(passage: str, query: str, answer: str) -> str:
    return "\n\n".join(["http://x/y", passage, query, answer, "@entity1:Ann\n@entity2:Ben\n@entity3:Rome"]) + "\n"


def test_a_folder_of_questions_is_a_data_set(write: Callable[..., str]) -> None:
    for part in ("training", "validation", "test"):
        write(f"cnn/{part}/0a.question", question(*CLOZE))
    wanted = Example("entity1 met entity2 in entity3 .", "placeholder was met by entity1", "entity2")
    result = splits("cnn")
    assert [result.train, result.dev, result.test] == [[wanted]] * 3
    assert load("cnn/test/0a.question") == [wanted]


def test_questions_in_one_file_are_the_same(write: Callable[..., str]) -> None:
    write("questions/0a.question", question(*CLOZE))
    write("questions/0b.question", question(*CLOZE))
    passage, query, answer = CLOZE
    path = write("train.txt", f"{query}\n{answer}\n{passage}\n\n" * 2)
    assert load(path) == load("questions")


@pytest.mark.parametrize("change", [{"answer": "Ben"}, {"query": "who was met"}])
def test_what_is_no_question_is_refused(write: Callable[..., str], change: dict[str, str]) -> None:
    fields = dict(zip(("passage", "query", "answer"), CLOZE, strict=True)) | change
    with refused("'0a.question' is not a question with @placeholder, its answer such as @entity5, and a passage."):
        load(write("0a.question", question(**fields)))


# IMDB with ten classes


def test_ratings_of_users_and_products(write: Callable[..., str]) -> None:
    row = "ur1/\t\ttt1\t\t{}\t\ta fine film . <sssss> i laughed . <sssss>\n"
    for part in ("train", "dev", "test"):
        write(f"imdb/imdb.{part}.txt.ss", row.format(10) + row.format(1))
    result = splits("imdb")
    assert pairs(result.test) == [("a fine film .\ni laughed .", "10"), ("a fine film .\ni laughed .", "1")]
    assert result.train == result.dev == result.test


def test_a_rating_without_its_fields_is_refused(write: Callable[..., str]) -> None:
    with refused("'imdb.ss' line 1 has 2 fields; write user, product, rating and text, with two tabs between them."):
        load(write("imdb.ss", "ur1/\t\ttt1\n"))


# trees


def test_neutral_trees_are_counted(write: Callable[..., str]) -> None:
    path = write("train.txt", "(3 (2 We) (4 won))\n(2 (2 It) (2 rained))\n")
    assert load_counted(path) == ([Example("We won", None, "positive")], {"that are neutral": 1})
    assert load_counted(path, kind="sst-5")[1] == {}
