"""Parallel data: columns, parts, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heedful.core.errors import BadInput
from heedful.data import Columns, Example, Selection, load_pairs, pair_splits

ROWS = [(f"{i} apples", f"{i} pommes") for i in range(40)]


def write(path: Path, rows: list[tuple[str, str]], header: str = "source\ttarget\n") -> Path:
    path.write_text(header + "".join(f"{a}\t{b}\n" for a, b in rows), "utf-8")
    return path


def test_a_file_is_divided_and_equal_sources_are_in_one_part(tmp_path: Path) -> None:
    rows = [*ROWS, *((source, f"encore {target}") for source, target in ROWS)]
    parts = pair_splits(write(tmp_path / "pairs.tsv", rows))
    sources = [{e.text for e in part} for part in (parts.train, parts.dev, parts.test)]
    assert sum(map(len, sources)) == 40
    assert [len(part) for part in (parts.train, parts.dev, parts.test)] == [64, 8, 8]
    assert {(e.text, e.label) for part in (parts.train, parts.dev, parts.test) for e in part} == set(rows)


def test_a_folder_has_its_parts(tmp_path: Path) -> None:
    for name, n in (("train", 9), ("dev", 4), ("test", 3)):
        lines = [json.dumps({"target": b, "source": a}) for a, b in ROWS[:n]]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    parts = pair_splits(tmp_path)
    assert [len(part) for part in (parts.train, parts.dev, parts.test)] == [9, 4, 3]


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("source\ttarget\n", Columns()),
        ("en\tfr\n", Columns(text="en", label="fr")),
        ("", Columns(text="1", label="2")),
        ("text\tlabel\n", Columns(text="text", label="label")),
    ],
)
def test_columns_are_named_or_chosen(header: str, columns: Columns, tmp_path: Path) -> None:
    examples = load_pairs(write(tmp_path / "pairs.tsv", ROWS, header), columns)
    assert [(e.text, e.label) for e in examples] == ROWS


def test_a_list_may_have_tuples_examples_or_rows() -> None:
    rows = [[("a", "b")], [Example("a", label="b")], [{"source": "a", "target": "b"}]]
    assert [[(e.text, e.label) for e in load_pairs(part)] for part in rows] == [[("a", "b")]] * 3


def test_spaces_of_a_target_stay(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text('source,target\nab," a b "\n')
    assert load_pairs(tmp_path / "pairs.csv")[0].label == " a b "


def test_words_of_the_source_can_be_limited(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.tsv", [("one", "un"), ("one two three", "un deux trois")])
    assert [e.text for e in load_pairs(path, select=Selection(max_words=2))] == ["one"]


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        ("source\tother\na\tb\n", Columns(), r"line 2 has no column for the target \(found: source, other\); name it"),
        ("text\tlabel\na\tb\n", Columns(), r"line 2 has no column for the source \(found: text, label\)"),
        ("source\ttarget\na\tb\n", Columns(label="goal"), r"line 2 has no column 'goal' \(found: source, target\)"),
        ("source\ttarget\na\tb\nc\t\n", Columns(), "the target in '.*' line 3 is empty"),
        ("source\ttarget\n \tb\n", Columns(), "the source in '.*' line 2 is empty"),
        ("a b\tc d\ne f\tg h\n", Columns(), "add a header such as source,target or choose columns by number"),
        ("source\ttarget\n", Columns(), "has no pairs; give at least one"),
        ("source\ttarget\na\tb\n", Columns(pair="target"), "--pair-column is for classifiers"),
    ],
)
def test_bad_pairs_are_refused_in_one_sentence(content: str, columns: Columns, message: str, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text(content)
    with pytest.raises(BadInput, match=message):
        load_pairs(tmp_path / "pairs.tsv", columns)


def test_labels_cannot_be_selected(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--labels is for classifiers, and an encoder-decoder reads pairs"):
        pair_splits(write(tmp_path / "pairs.tsv", ROWS), select=Selection(labels=("a",)))
