"""Data: every format gives what was written, every mistake is a sentence, every split is the same again."""

from __future__ import annotations

import csv
import json
import random
import re
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.core.errors import BadInput
from heedful.data import Columns, Example, Splits, check_labels, fingerprint, label_names, load, read, splits
from tests.support.parameters import mostly_thorough

SHARED = Path(__file__).parents[3] / "shared" / "data"
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(str.strip)
LABELS = st.sampled_from(["good", "bad", "so, so"])
TOY = [("A warm film.", "good"), ("A cold one.", "bad"), ("We laughed.", "good"), ("We slept.", "bad")]


def refused(message: str) -> Any:
    return pytest.raises(BadInput, match=f"^{re.escape(message)}$")


def pairs(examples: list[Example]) -> list[tuple[str, Any]]:
    return [(e.text, e.label) for e in examples]


def marked(example: Example) -> list[str]:
    return [example.text[start:end] for start, end in example.rationale or ()]


# tables


@given(st.lists(st.tuples(TEXTS, LABELS), min_size=1, max_size=5))
def test_csv_gives_back_any_text(rows: list[tuple[str, str]]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *rows])
        assert pairs(load(path)) == rows


@given(st.lists(st.tuples(TEXTS, LABELS), min_size=1, max_size=5))
def test_a_quoted_tsv_gives_back_any_text(rows: list[tuple[str, str]]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.tsv"
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter="\t", quoting=csv.QUOTE_ALL).writerows([("text", "label"), *rows])
        assert pairs(load(path)) == rows


@given(st.lists(st.tuples(TEXTS, LABELS), min_size=1, max_size=5), st.booleans(), st.sampled_from([None, 2]))
def test_json_gives_back_any_text(rows: list[tuple[str, str]], ascii_only: bool, indent: int | None) -> None:
    items = [{"text": text, "label": label} for text, label in rows]
    with TemporaryDirectory() as folder:
        by_line, whole = Path(folder) / "a.jsonl", Path(folder) / "a.json"
        by_line.write_bytes("\n".join(json.dumps(i, ensure_ascii=ascii_only) for i in items).encode())
        whole.write_bytes(json.dumps(items, ensure_ascii=ascii_only, indent=indent).encode())
        assert pairs(load(by_line)) == pairs(load(whole)) == rows


def test_a_byte_order_mark_and_a_semicolon_are_no_obstacle(write: Callable[..., str]) -> None:
    assert pairs(load(write("a.csv", "\ufefftext;label\nWell done, all;good\n"))) == [("Well done, all", "good")]


def test_quotes_are_text_in_a_plain_tsv(write: Callable[..., str]) -> None:
    path = write("a.tsv", 'sentence\tlabel\n" An open quote\t0\n"Quoted whole."\t1\n')
    assert pairs(load(path)) == [('" An open quote', "0"), ('"Quoted whole."', "1")]


def test_quotes_are_quotes_where_only_that_makes_sense(write: Callable[..., str]) -> None:
    path = write("a.tsv", 'text\tlabel\n"Two\nlines"\t0\n"A\ttab"\t1\n"Say ""yes"""\t1\nplain\t0\n')
    assert pairs(load(path)) == [("Two\nlines", "0"), ("A\ttab", "1"), ('Say "yes"', "1"), ("plain", "0")]


GLUE = {
    "cola": ("gj04\t1\t\tWe came.\ngj04\t0\t*\tCame we the.\n", ("We came.", None, "1")),
    "sst": ("sentence\tlabel\nA fine day\t1\n", ("A fine day", None, "1")),
    "mrpc": (
        "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tIt rained.\tRain fell.\n",
        ("It rained.", "Rain fell.", "1"),
    ),
    "qqp": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n0\t1\t2\tWhy?\tHow so?\t0\n",
        ("Why?", "How so?", "0"),
    ),
    "qnli": ("index\tquestion\tsentence\tlabel\n0\tWho?\tShe did.\tentailment\n", ("Who?", "She did.", "entailment")),
    "rte": ("index\tsentence1\tsentence2\tlabel\n0\tIt is.\tIt was.\tx\n", ("It is.", "It was.", "x")),
    "snli": ("gold_label\tsentence1\tsentence2\tlabel1\nno\tIt is.\tIt was.\tx\n", ("It is.", "It was.", "no")),
}


@pytest.mark.parametrize("task", GLUE)
def test_glue_needs_no_column_names(write: Callable[..., str], task: str) -> None:
    content, (text, pair, label) = GLUE[task]
    assert load(write("train.tsv", content))[0] == Example(text, pair, label)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("labels", [("0", "1"), ("good", "bad")])
def test_a_tsv_without_header_is_read_either_way_round(
    write: Callable[..., str], order: int, labels: tuple[str, str]
) -> None:
    rows = [(f"Sentence number {i}", labels[i % 2]) for i in range(6)]
    path = write("a.tsv", "".join("\t".join(row[::order]) + "\n" for row in rows))
    assert pairs(load(path)) == rows


def test_an_unknown_header_is_not_taken_for_a_row(write: Callable[..., str]) -> None:
    path = write("a.tsv", "wording\tgrade\n" + "".join(f"Sentence {i}\t{i % 2}\n" for i in range(9)))
    with refused(
        "no column of 'a.tsv' line 2 looks like the text (found: wording, grade); choose it, or several to join, with "
        "--text-column."
    ):
        load(path)
    assert load(path, Columns("1", label="2"))[0] == Example("Sentence 0", None, "0")


def test_columns_that_are_given_win_over_the_guess(write: Callable[..., str]) -> None:
    path = write("a.csv", "text,wording,label,grade\na,b,c,d\n")
    assert load(path, Columns(text="wording", label="grade"))[0] == Example("b", None, "d")


def test_an_empty_column_name_says_that_there_is_none(write: Callable[..., str]) -> None:
    path = write("a.csv", "text,pair,label\na,b,c\n")
    assert load(path, Columns(pair="", label=""))[0] == Example("a")


# objects


@pytest.mark.parametrize(
    ("value", "label"),
    [(3, "3"), (True, "true"), (2.0, "2"), (" x ", "x"), (["b", "a"], ("b", "a")), ([], ()), (None, None)],
)
def test_labels_become_names(value: Any, label: Any) -> None:
    assert load([{"text": "Hello", "label": value}])[0].label == label


def test_rationales_are_converted_from_tokens_to_characters(write: Callable[..., str]) -> None:
    row = {"text": "the end was a  real joy to see", "rationale": [[6, 7], [0, 2], [1, 3], [4, 4]]}
    assert marked(load(write("a.jsonl", json.dumps(row)))[0]) == ["the end was", "joy"]


def test_the_columns_of_a_csv_may_hold_a_rationale(write: Callable[..., str]) -> None:
    path = write("a.csv", 'text,rationale\nso very good,"[[1, 3]]"\n')
    assert marked(load(path)[0]) == ["very good"]


class Named:
    """As a Hugging Face dataset: rows that are mappings, and features of which some are classes."""

    def __init__(self, rows: list[dict[str, Any]], features: Mapping[str, Any]) -> None:
        self.rows, self.features = rows, features

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)


def test_datasets_name_their_classes() -> None:
    data = Named(
        [{"text": "a", "label": 1}, {"text": "b", "label": -1}], {"label": SimpleNamespace(names=["no", "yes"])}
    )
    assert [e.label for e in read(data)] == ["yes", None]


def test_datasets_name_several_classes_of_a_row() -> None:
    feature = SimpleNamespace(feature=SimpleNamespace(names=["sad", "glad"]))
    assert load(Named([{"text": "a", "labels": [0, 1]}], {"labels": feature}))[0].label == ("sad", "glad")


def test_a_class_without_a_name_is_refused() -> None:
    data = Named([{"text": "a", "label": 2}], {"label": SimpleNamespace(names=["no", "yes"])})
    with refused("label 2 in row 1 has no name; the dataset has 2 (found: no, yes)."):
        load(data)


def test_lists_of_examples_mappings_and_pairs_are_the_same() -> None:
    examples = [Example(text, None, label) for text, label in TOY]
    assert load(examples) == load(TOY) == load([{"text": text, "label": label} for text, label in TOY])


def test_examples_survive_being_read() -> None:
    examples = [Example("a b", "c", ("x", "y"), ((0, 1), (2, 3))), Example("d", None, (), ())]
    assert load(examples) == examples


# other formats


def test_parquet_gives_what_was_written(tmp_path: Path) -> None:
    rows = [{"review": f"text {i}", "label": i % 3, "rationale": [[0, 1]]} for i in range(1000)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=300)
    assert load(tmp_path / "a.parquet") == [Example(f"text {i}", None, str(i % 3), ((0, 4),)) for i in range(1000)]


def test_parquet_keeps_the_names_of_classes(tmp_path: Path) -> None:
    features = {"label": {"names": ["no", "yes"], "_type": "ClassLabel"}}
    table = pa.table({"text": ["a"], "label": [1]})
    kept = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(kept, tmp_path / "a.parquet")
    assert pairs(load(tmp_path / "a.parquet")) == [("a", "yes")]


def test_what_is_no_parquet_is_refused(write: Callable[..., str]) -> None:
    with pytest.raises(
        BadInput, match=r"^'a.parquet' is not a complete parquet file \(.+\); write or download it again\.$"
    ):
        load(write("a.parquet", "PAR1 this is text"))


def test_a_folder_for_each_class(write: Callable[..., str]) -> None:
    for name, text in {
        "pos/2.txt": "Fine.\n",
        "pos/1.txt": "Good.",
        "neg/1.txt": "Two\nlines",
        "unsup/1.txt": "x",
    }.items():
        write(f"train/{name}", text)
    assert pairs(load("train")) == [("Two\nlines", "neg"), ("Good.", "pos"), ("Fine.", "pos")]


TREES = "(3 (2 We) (4 (3 really) (4 won)))\n(2 (2 It) (2 rained))\n\n(1 (2 -LRB-) (0 (1 and) (2 either\\/or)))\n"


def test_trees_have_two_classes(write: Callable[..., str]) -> None:
    path = write("train.txt", TREES)
    assert pairs(load(path)) == [("We really won", "positive"), ("( and either/or", "negative")]


def test_trees_have_five_classes_when_asked(write: Callable[..., str]) -> None:
    path = write("train.txt", TREES)
    assert pairs(load(path, kind="sst-5")) == [("We really won", "3"), ("It rained", "2"), ("( and either/or", "1")]


def test_phrases_are_all_subtrees_that_are_not_neutral(write: Callable[..., str]) -> None:
    path = write("train.txt", TREES.splitlines()[0])
    texts = [("really", "positive"), ("won", "positive"), ("really won", "positive"), ("We really won", "positive")]
    assert sorted(pairs(load(path, kind="sst-phrases"))) == sorted(texts)


STORY = "1 Ann took the cup.\n2 Ben sat.\n3 Where is the cup? \tAnn\t1\n4 Ann went out.\n5 Who is out?\tAnn\t1 4\n"


def test_the_text_of_a_question_is_its_story_so_far(write: Callable[..., str]) -> None:
    first, second, third = load(write("qa1.txt", STORY + "1 Cy ran.\n2 Who ran?\tCy\n"))
    assert (first.text, first.pair, first.label) == ("Ann took the cup. Ben sat.", "Where is the cup?", "Ann")
    assert (second.text, marked(second)) == (
        "Ann took the cup. Ben sat. Ann went out.",
        ["Ann took the cup.", "Ann went out."],
    )
    assert third == Example("Cy ran.", "Who ran?", "Cy")


def test_a_supporting_line_must_be_in_the_story(write: Callable[..., str]) -> None:
    with refused("'qa1.txt' line 3 is supported by statement 7, which is not in its story."):
        load(write("qa1.txt", STORY.replace("Ann\t1\n", "Ann\t7\n")))


def annotation(*marks: tuple[str, int, int]) -> str:
    evidences = [[{"docid": docid, "start_token": start, "end_token": end}] for docid, start, end in marks]
    return json.dumps({"annotation_id": "d1", "classification": "POS", "query": "Was it?", "evidences": evidences})


def test_eraser_counts_tokens_over_the_lines_of_a_document(write: Callable[..., str]) -> None:
    write("docs/d1", "it was\nvery  good fun\n")
    path = write("val.jsonl", annotation(("d1", 1, 4), ("d1", 4, 5), ("d1", 2, 2)))
    (example,) = load(path)
    assert (example.text, example.pair, example.label) == ("it was\nvery  good fun", "Was it?", "POS")
    assert marked(example) == ["was\nvery  good", "fun"]


def test_eraser_joins_documents(write: Callable[..., str]) -> None:
    write("docs/d1", "first one")
    write("docs/d2", "second one")
    (example,) = load(write("val.jsonl", annotation(("d2", 0, 1), ("d1", 1, 2))))
    assert (example.text, marked(example)) == ("second one\nfirst one", ["second", "one"])
    assert example.rationale is not None
    assert example.rationale[1] == (17, 20)


@pytest.mark.parametrize("docid", ["d3", "../val.jsonl", ".."])
def test_eraser_reads_nothing_outside_its_documents(write: Callable[..., str], docid: str) -> None:
    write("docs/d1", "first one")
    with refused(
        f"'val.jsonl' line 1 names the document '{docid}', which is not in 'docs'; add one file per document."
    ):
        load(write("val.jsonl", annotation((docid, 0, 1))))


# mistakes

KINDS = (
    "csv, csv-escaped, tsv, tweets, jsonl, json, parquet, folder, newsgroups, newsgroups-whole, ss, sst, sst-5, "
    "sst-phrases, babi, cloze, eraser"
)
MISTAKES = {
    "ragged": (
        "a.csv",
        'text,label\n"x\ny",1\nwell, then,1\n',
        "'a.csv' line 4 has 3 fields and the header has 2; quote the text or fix the line.",
    ),
    "short": (
        "a.csv",
        "text,label\nx\n",
        "'a.csv' line 2 has 1 field and the header has 2; quote the text or fix the line.",
    ),
    "ragged tsv": (
        "a.tsv",
        "text\tlabel\nx\t1\ny\n",
        "'a.tsv' line 3 has 1 field and line 1 has 2; quote the text or fix the line.",
    ),
    "open tsv": (
        "a.tsv",
        'text\tlabel\n"x\n',
        "'a.tsv' line 2 has 1 field and a quote in it is never closed; quote the text or fix the line.",
    ),
    "open": (
        "a.csv",
        'text,label\nx,1\n"y,1\n',
        "'a.csv' line 3 begins a record that is not csv (unexpected end of data); "
        "double each quote inside a quoted text, and close the last.",
    ),
    "latin": (
        "a.csv",
        b"text,label\nx,1\ncaf\xe9,1\n",
        "'a.csv' line 3 is not UTF-8 (byte 0xe9); save the file as UTF-8.",
    ),
    "latin json": (
        "a.json",
        b'[{"text":\n"caf\xe9"}]',
        "'a.json' line 2 is not UTF-8 (byte 0xe9); save the file as UTF-8.",
    ),
    "cut letter": (
        "a.json",
        b'[{"text": "a"}]\n\xc3',
        "'a.json' line 2 is not UTF-8 (byte 0xc3); save the file as UTF-8.",
    ),
    "nameless": (
        "a.csv",
        "x,y\nz,a\n",
        "'a.csv' line 1 has no known column name (found: x, y) and no column is clearly the label; add a header such "
        "as text,label or choose columns by number with --text-column 2.",
    ),
    "no text": (
        "a.csv",
        "id,label\n1,2\n",
        "no column of 'a.csv' line 2 looks like the text (found: id, label); choose it, or several to join, with "
        "--text-column.",
    ),
    "two labels": (
        "a.csv",
        "text,topic,class\nx,1,2\n",
        "2 columns of 'a.csv' line 2 could be the label (class, topic); name one with --label-column.",
    ),
    "twice": ("a.csv", "text,label,label\nx,1,2\n", "'a.csv' line 1 names the column 'label' twice; rename one."),
    "no label": ("a.csv", "text,label\nx, \n", "'a.csv' line 2 has no label; write one, or remove the row."),
    "empty text": ("a.csv", "text,label\n ,1\n", "the text in 'a.csv' line 2 is empty; give at least one word."),
    "empty pair": ("a.csv", "text,pair\nx,\n", "the pair in 'a.csv' line 2 is empty; give at least one word."),
    "surrogate": (
        "a.jsonl",
        '{"text": "a\\ud800"}',
        "the text in 'a.jsonl' line 1 has a lone surrogate (U+D800) at position 1, which is not text; remove it.",
    ),
    "number": ("a.jsonl", '{"text": 3}', "the text in 'a.jsonl' line 1 is a int; give one string."),
    "fraction": (
        "a.jsonl",
        '{"text": "x", "label": 0.5}',
        "the label in 'a.jsonl' line 1 is 0.5; give a name, a whole number or a list of them.",
    ),
    "not json": (
        "a.jsonl",
        '{"text": "x"}\n{"text": x}\n',
        "'a.jsonl' line 2 is not JSON (Expecting value: line 1 column 10 (char 9)); write one object in each line.",
    ),
    "no object": ("a.jsonl", '["x"]', "'a.jsonl' line 1 is a list; write an object such as {\"text\": …}."),
    "other keys": (
        "a.jsonl",
        '{"text": "x", "label": 1}\n{"text": "y"}',
        "'a.jsonl' line 2 has no 'label', unlike the rows before it; correct the row or name the column.",
    ),
    "later keys": (
        "a.jsonl",
        '{"text": "x"}\n{"text": "y", "label": 1}',
        "'a.jsonl' line 2 has the label 'label', unlike the rows before it; correct the row or name the column.",
    ),
    "cut list": (
        "a.json",
        '[{"text": "x"},\n{"text": "y"}',
        "'a.json' line 2 is not JSON, or is cut off; write a list of objects.",
    ),
    "after the list": (
        "a.json",
        '[{"text": "x"}]\ntail',
        "'a.json' line 2 is not JSON, or is cut off; write a list of objects.",
    ),
    "cut object": (
        "a.json",
        '[{"text": "x"},\n{"text": "y',
        "'a.json' line 2 is not JSON, or is cut off; write a list of objects.",
    ),
    "span": (
        "a.jsonl",
        '{"text": "a b", "rationale": [[1, 3]]}',
        "the rationale [1, 3) in 'a.jsonl' line 1 is not inside the text's 2 tokens.",
    ),
    "span of words": (
        "a.jsonl",
        '{"text": "a b", "rationale": ["a", 1]}',
        "the rationale in 'a.jsonl' line 1 is not a list of [start, end) pairs of whole numbers.",
    ),
    "evidence": (
        "a.jsonl",
        annotation(("d1", 0, 1)),
        "'a.jsonl' line 1 names the document 'd1', which is not in 'docs'; add one file per document.",
    ),
    "tree": (
        "a.txt",
        "(3 (2 a) (2 b)\n",
        "'a.txt' line 1 is not one tree with scores from 0 to 4, such as (3 (2 So) (3 good)).",
    ),
    "story": (
        "a.txt",
        "1 It is.\nnow\n",
        "'a.txt' line 2 is neither 'number statement' nor 'number question, answer, lines' with tabs.",
    ),
    "no story": ("a.txt", "1 Who?\tAnn\n", "the text in 'a.txt' line 1 is empty; give at least one word."),
    "prose": (
        "a.txt",
        "Once upon a time.\n",
        f"the kind of 'a.txt' was not recognised; give its kind: {KINDS}.",
    ),
    "empty csv": ("a.csv", "", "'a.csv' has no examples; give at least one."),
    "only a header": ("a.tsv", "text\tlabel\n", "'a.tsv' has no examples; give at least one."),
    "empty json": ("a.jsonl", "\n", "'a.jsonl' has no examples; give at least one."),
    "empty list": ("a.json", "[]", "'a.json' has no examples; give at least one."),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_sentence_with_its_line(write: Callable[..., str], case: str) -> None:
    name, content, message = MISTAKES[case]
    with refused(message):
        load(write(name, content))


def test_a_file_that_is_not_there_is_named_by_its_nearest(write: Callable[..., str]) -> None:
    write("reviews.csv", "text\nx\n")
    with refused("'revews.csv' does not exist; did you mean 'reviews.csv'?"):
        load("revews.csv")


def test_a_kind_that_is_none_is_refused(write: Callable[..., str]) -> None:
    with refused(f"kind 'jsonlines' is not one of {KINDS}; did you mean 'jsonl'?"):
        load(write("a.jsonl", "{}"), kind="jsonlines")


def test_a_folder_with_parts_is_not_one_source(write: Callable[..., str]) -> None:
    write("imdb/train/urls_pos.txt", "no review")
    with refused("'imdb' has no folder with .txt files for each class; give a file, or a folder of classes."):
        load("imdb")


def test_texts_of_a_class_may_have_no_suffix(write: Callable[..., str]) -> None:
    for name in ("news/sport/51060", "news/sport/.index", "news/space/59497", "news/space/59498"):
        write(name, f"a text of {name[:8]}")
    assert Counter(e.label for e in load("news")) == {"sport": 1, "space": 2}


def test_parts_may_have_no_suffix(write: Callable[..., str]) -> None:
    for role, n in (("train", 6), ("valid", 2), ("test", 3)):
        folder = str(Path(write(f"d/qa1_{role}", "".join(f"{i % 2}\ta {role} text {i}\n" for i in range(n)))).parent)
    write("d/README", "about these data\n")
    parts = splits(folder, kind="tsv")
    assert [len(part) for part in (parts.train, parts.dev, parts.test)] == [6, 2, 3]
    write("d/train.tsv", "0\tone\n1\ttwo\n")
    with_suffix = splits(folder, kind="tsv", dev_share=0.5)
    assert sorted(e.text for e in (*with_suffix.train, *with_suffix.dev)) == ["one", "two"]


def test_files_without_a_suffix_are_no_texts_beside_txt_files(write: Callable[..., str]) -> None:
    write("data/pos/1.txt", "good")
    write("data/pos/LICENSE", "no text")
    assert [e.text for e in load("data")] == ["good"]


def test_a_long_name_is_cut_with_a_sign(write: Callable[..., str]) -> None:
    with refused(f"'a.csv' line 2 has no column 'body' (found: {'x' * 29}…, label); check --text-column."):
        load(write("a.csv", f"{'x' * 31},label\nx,1\n"), Columns(text="body"))


def test_a_folder_is_no_table(write: Callable[..., str]) -> None:
    write("data/a.csv", "text\nx\n")
    with refused("'data' is a folder, which kind 'csv' does not read; give another path or kind."):
        load("data", kind="csv")


def test_a_column_that_is_not_there_is_named_by_its_nearest(write: Callable[..., str]) -> None:
    with refused("'a.csv' line 2 has no column 'txt' (found: text, label); did you mean 'text'?"):
        load(write("a.csv", "text,label\nx,1\n"), Columns(text="txt"))


def test_an_unknown_label_is_named_with_its_line(write: Callable[..., str]) -> None:
    path = write("dev.csv", "text,label\nx,positive\ny,positve\n")
    message = (
        "label 'positve' in 'dev.csv' line 3 is not one of negative, positive; correct it, or give --rename-labels "
        "positve=positive."
    )
    with refused(message):
        load(path, labels=["negative", "positive"])
    with refused(message):
        check_labels(load(path), ["negative", "positive"], "dev.csv")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (3, "the data is a int; give a path, a dataset or a list of examples."),
        ({"train": []}, "the data has parts (found: train); give one of them, or use heedful.data.splits."),
        (["x"], "row 1 is a str; give Examples, mappings or (text, label) pairs."),
        ([], "the data has no examples; give at least one."),
    ],
)
def test_what_is_no_data_is_refused(source: Any, message: str) -> None:
    with refused(message):
        load(source)


# streaming


def test_a_row_is_read_when_it_is_asked_for() -> None:
    taken: list[int] = []
    rows = ({"text": f"text {taken.append(i) or i}"} for i in range(10))  # type: ignore[func-returns-value]
    next(read(rows))
    assert taken == [0]


def big(path: Path, megabytes: int = 20) -> int:
    """A file of that size; the number of its rows."""
    count, text = megabytes * 100, "a quiet word " * 770
    with path.open("w", encoding="utf-8") as file:
        if path.suffix in (".csv", ".tsv"):
            mark = "," if path.suffix == ".csv" else "\t"
            file.write(f"text{mark}label\n")
            file.writelines(f"{text}{mark}{i % 2}\n" for i in range(count))
        else:
            file.write("[" * (path.suffix == ".json"))
            comma = ", " if path.suffix == ".json" else "\n"  # the list is one line
            file.writelines(comma * (i > 0) + json.dumps({"text": text, "label": i}) for i in range(count))
            file.write("]" * (path.suffix == ".json"))
    return count


@pytest.mark.parametrize("ending", mostly_thorough(["csv", "tsv", "jsonl", "json"], ("csv", "json")))
def test_a_file_of_20_megabytes_is_read_in_one(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    count = big(path)
    assert path.stat().st_size > 20_000_000
    tracemalloc.start()
    try:
        assert sum(1 for _ in read(path)) == count
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize("group", [1000, 20_000])
def test_parquet_is_read_in_batches(tmp_path: Path, group: int) -> None:
    rng = random.Random(0)
    texts = [rng.randbytes(500).hex() for _ in range(20_000)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", row_group_size=group)
    before = pa.total_allocated_bytes()
    held = [pa.total_allocated_bytes() - before for i, _ in enumerate(read(tmp_path / "a.parquet")) if i % 500 == 0]
    assert max(held) < 0.25 * (tmp_path / "a.parquet").stat().st_size


def test_an_object_of_a_list_may_be_longer_than_a_piece_of_the_file(tmp_path: Path) -> None:
    texts = ["é" * 300_000, "short", "ü" * 70_000]
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"text": text} for text in texts], ensure_ascii=False), encoding="utf-8")
    assert [e.text for e in read(path)] == texts


# labels and fingerprints


def test_labels_are_sorted_as_numbers_only_when_all_are() -> None:
    assert label_names(Example("x", None, name) for name in ("10", "9", "-1")) == ("-1", "9", "10")
    assert label_names(Example("x", None, name) for name in ("10", "9", "b")) == ("10", "9", "b")
    assert label_names([Example("x", None, ("b", "a")), Example("y")]) == ("a", "b")


@given(st.permutations(TOY))
def test_a_fingerprint_is_of_contents_in_order(rows: list[tuple[str, str]]) -> None:
    assert (fingerprint(load(rows)) == fingerprint(load(TOY))) == (rows == TOY)


@pytest.mark.parametrize(
    "other", [Example("a b"), Example("a", "b"), Example("a", None, "b"), Example("a", None, None, ((0, 1),))]
)
def test_a_fingerprint_sees_every_field(other: Example) -> None:
    assert fingerprint([Example("a")]) != fingerprint([other])


def test_a_fingerprint_does_not_see_the_place() -> None:
    assert fingerprint([Example("a", where="row 1")]) == fingerprint([Example("a", where="row 2")])


# splits

EXAMPLES = st.lists(
    st.builds(Example, st.text("abc", min_size=1, max_size=2), st.sampled_from([None, "p"]), st.sampled_from("012")),
    min_size=1,
    max_size=60,
)


def sides(result: Splits) -> dict[str, list[Example]]:
    return {"train": result.train, "dev": result.dev, "test": result.test}


@given(EXAMPLES, st.integers(0, 3))
def test_splits_part_the_data(examples: list[Example], seed: int) -> None:
    result = splits(examples, seed=seed)
    assert Counter(result.train + result.dev + result.test) == Counter(examples)


@given(EXAMPLES)
def test_the_rows_of_a_split_keep_their_order(examples: list[Example]) -> None:
    placed = [Example(e.text, e.pair, e.label, where=f"row {i}") for i, e in enumerate(examples)]
    order = {e.where: i for i, e in enumerate(placed)}
    for side in sides(splits(placed)).values():
        assert [order[e.where] for e in side] == sorted(order[e.where] for e in side)


@given(EXAMPLES, st.randoms(use_true_random=False))
def test_splits_do_not_depend_on_the_order_of_rows(examples: list[Example], rng: random.Random) -> None:
    shuffled = rng.sample(examples, len(examples))
    assert {k: Counter(v) for k, v in sides(splits(examples)).items()} == {
        k: Counter(v) for k, v in sides(splits(shuffled)).items()
    }


@given(EXAMPLES)
def test_equal_texts_are_never_parted(examples: list[Example]) -> None:
    keys = [{(e.text, e.pair) for e in side} for side in sides(splits(examples)).values()]
    assert sum(map(len, keys)) == len(set().union(*keys))


@settings(max_examples=30)
@given(st.lists(st.integers(1, 200), min_size=1, max_size=5), st.sampled_from([0.1, 0.2, 0.33]), st.integers(0, 9))
def test_every_label_gets_its_share(sizes: list[int], share: float, seed: int) -> None:
    examples = [Example(f"{label} {i}", None, str(label)) for label, size in enumerate(sizes) for i in range(size)]
    result = splits(examples, dev_share=share, test_share=share, seed=seed)
    assert abs(len(result.dev) - share * len(examples)) < 2
    for label, size in enumerate(sizes):
        for side in (result.dev, result.test):
            assert abs(sum(e.label == str(label) for e in side) - share * size) < 3


def test_another_seed_splits_otherwise() -> None:
    examples = [Example(f"text {i}", None, str(i % 2)) for i in range(100)]
    assert splits(examples, seed=1).dev != splits(examples, seed=2).dev


def test_a_source_with_a_train_part_keeps_its_test_empty(write: Callable[..., str]) -> None:
    write("data/train.csv", "text,label\n" + "".join(f"text {i},{i % 2}\n" for i in range(40)))
    result = splits("data", dev_share=0.25)
    assert (len(result.train), len(result.dev), len(result.test)) == (30, 10, 0)


def test_the_parts_of_a_folder_are_found_by_name(write: Callable[..., str]) -> None:
    write("data/train.csv", "text\na\n")
    write("data/val.jsonl", '{"text": "b"}')
    write("data/test.tsv", "text\tlabel\nc\t1\n")
    write("data/notes.md", "no data")
    result = splits("data")
    assert {k: [e.text for e in v] for k, v in sides(result).items()} == {"train": ["a"], "dev": ["b"], "test": ["c"]}


def test_the_layout_of_aclimdb(write: Callable[..., str]) -> None:
    for part in ("train", "test"):
        for label in ("pos", "neg", "unsup"):
            for i in range(5):
                write(f"imdb/{part}/{label}/{i}_7.txt", f"{part} {label} {i}")
        write(f"imdb/{part}/urls_pos.txt", "no review")
    result = splits("imdb", dev_share=0.2)
    assert (len(result.train), len(result.dev), len(result.test)) == (8, 2, 10)
    assert label_names(result.train + result.test) == ("neg", "pos")


def test_a_folder_of_classes_is_divided(write: Callable[..., str]) -> None:
    for i in range(40):
        write(f"mail/{'spam' if i % 2 else 'ham'}/{i}.txt", f"text {i}")
    result = splits("mail")
    assert (len(result.train), len(result.dev), len(result.test)) == (32, 4, 4)


def test_shards_are_joined(write: Callable[..., str]) -> None:
    for i in range(3):
        write(f"data/train-0000{i}-of-00003.jsonl", json.dumps({"text": f"text {i}"}))
    assert [e.text for e in splits("data", dev_share=0).train] == ["text 0", "text 1", "text 2"]


def test_a_mapping_of_datasets_is_its_parts() -> None:
    result = splits({"train": TOY[:2], "validation": TOY[2:3], "test": TOY[3:], "unsupervised": 3})
    assert [pairs(side) for side in sides(result).values()] == [TOY[:2], TOY[2:3], TOY[3:]]


@pytest.mark.parametrize("name", ["qa1_{}.jsonl", "sst-{}.jsonl", "my.{}.jsonl", "QA_{}.JSONL"])
def test_parts_may_have_a_name_before_their_role(write: Callable[..., str], name: str) -> None:
    for role in ("train", "test"):
        write(f"data/{name.format(role)}", "".join(json.dumps({"text": f"{role} {i}"}) + "\n" for i in range(20)))
    result = splits("data")
    assert {e.text.split()[0] for e in result.test} == {"test"}
    assert len(result.train + result.dev) == 20


def test_a_part_that_is_named_by_its_role_alone_comes_first(write: Callable[..., str]) -> None:
    for name in ("train", "old_train", "dev"):
        write(f"data/{name}.jsonl", json.dumps({"text": name}))
    assert [e.text for e in splits("data").train] == ["train"]


def test_files_given_for_dev_and_test_are_used() -> None:
    result = splits(TOY[:2], dev=TOY[2:3], test=TOY[3:])
    assert [pairs(side) for side in sides(result).values()] == [TOY[:2], TOY[2:3], TOY[3:]]


def test_a_file_beside_a_given_dev_is_all_train() -> None:
    result = splits(TOY[:2], dev=TOY[2:])
    assert [pairs(side) for side in sides(result).values()] == [TOY[:2], TOY[2:], []]


def test_only_labels_to_be_kept_are_kept() -> None:
    examples = [Example(f"text {i}", None, str(i % 4)) for i in range(40)]
    result = splits(examples, keep=["0", "2"])
    assert Counter(result.train + result.dev + result.test) == Counter(e for e in examples if e.label in ("0", "2"))


def test_a_label_to_be_kept_must_exist() -> None:
    with refused("label 'god' of --labels is not one of bad, good; did you mean 'good'?"):
        splits(TOY, keep=["god"])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["dev.csv", "val.csv"], "2 parts of 'data' could be dev (dev.csv, val.csv); give one of each."),
        (["a.csv"], "'data' has no part named train, dev or test (found: a.csv); rename its parts."),
    ],
)
def test_parts_that_are_unclear_are_refused(write: Callable[..., str], names: list[str], message: str) -> None:
    for name in names:
        write(f"data/{name}", "text\nx\n")
    with refused(message):
        splits("data")


def test_shares_must_leave_something() -> None:
    with refused("dev_share 0.5 and test_share 0.5 must be at least 0 and sum to less than 1."):
        splits(TOY, dev_share=0.5, test_share=0.5)


# the real thing

ROWS = {
    "agnews": (8500, 1491, 7600),
    "mrpc": (3668, 408, 1725),
    "movies": (0, 200, 199),
    "rte": (2490, 277, 0),
    "sst2": (6920, 872, 1821),
}


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data is not here")
@pytest.mark.parametrize("name", ROWS)
def test_public_data_has_the_published_number_of_rows(name: str) -> None:
    result = splits(SHARED / name, dev_share=0)
    assert (len(result.train), len(result.dev), len(result.test)) == ROWS[name]


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data is not here")
def test_human_rationales_mark_the_tokens_that_they_name() -> None:
    path = SHARED / "movies" / "val.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for example, row in zip(read(path), rows, strict=True):
        tokens = row["text"].split(" ")
        wanted = [" ".join(tokens[start:end]) for start, end in row["rationale"] if start < end]
        disjoint = all(a[1] <= b[0] for a, b in zip(row["rationale"], row["rationale"][1:], strict=False))
        assert not disjoint or marked(example) == wanted


def test_the_packages_own_sentences_have_a_name_and_their_rationales_are_quotes() -> None:
    result = load("corpus")
    assert len(result) > 300
    assert {e.label for e in result} == {"negative", "positive"}
    assert all(0 <= a < b <= len(e.text) for e in result for a, b in e.rationale or ())


def test_a_rationale_may_be_quotes_of_whole_words() -> None:
    result = load([{"text": "good, so good for goodness", "label": "1", "rationale": ["good"]}])[0]
    assert result.rationale == ((0, 4), (9, 13))
    with pytest.raises(BadInput, match=r"the rationale 'fine' in .* is not in its text"):
        load([{"text": "good", "label": "1", "rationale": ["fine"]}])


def test_a_dev_under_another_name_is_asked_for(tmp_path: Path) -> None:
    for name in ("mnli_train", "mnli_dev_mismatched"):
        (tmp_path / f"{name}.jsonl").write_text('{"text": "a film", "label": 1}\n' * 9)
    with pytest.raises(BadInput, match=r"may have a dev already \(found: mnli_dev_mismatched.jsonl\); give it"):
        splits(tmp_path)


def test_the_dev_part_of_mnli_has_the_genres_of_train(tmp_path: Path) -> None:
    for name in ("mnli_train", "mnli_dev_mismatched", "mnli_dev_matched"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"text": name, "label": 1}))
    assert [e.text for e in splits(tmp_path).dev] == ["mnli_dev_matched"]
