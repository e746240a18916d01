"""Corpora: published files are read as their authors write them, and what is dropped is counted."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from sklearn.datasets import _twenty_newsgroups as reference

from heedful.core.errors import BadInput
from heedful.data import Example, load, load_counted, splits
from heedful.data.corpora import message_body


def refused(message: str) -> Any:
    return pytest.raises(BadInput, match=f"^{re.escape(message)}$")


def pairs(examples: list[Example]) -> list[tuple[str, Any]]:
    return [(e.text, e.label) for e in examples]


# tweets


@pytest.mark.parametrize("before", ["", "35425619543288{}\t5451675\t"])
def test_tweets_that_are_gone_are_counted(write: Callable[..., str], before: str) -> None:
    rows = [("0", "I slept well."), ("1", "It made me dizzy."), ("1", "Not Available")]
    path = write("adr.tsv", "".join(before.format(i) + "\t".join(row) + "\n" for i, row in enumerate(rows)))
    examples, dropped = load_counted(path, kind="tweets")
    assert (pairs(examples), dropped) == ([(t, label) for label, t in rows[:2]], {"that are not available": 1})


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
