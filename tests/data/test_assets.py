"""What ships inside the package: the corpus is what it says, and the classifier is as good as its card says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.checks.permutation import Permutation

ASSETS = Path(str(files("heedful.data") / "assets"))
CORPUS = [json.loads(line) for line in (ASSETS / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
CARD = (ASSETS / "model" / "README.md").read_text(encoding="utf-8")
LABELS = ("negative", "positive")
TAGS = ("negation", "contrast", "irony", "mixed")
SST2 = Path(__file__).parents[3] / "shared" / "data" / "sst2" / "test.jsonl"


def predicted(texts: Sequence[str]) -> list[str]:
    classifier = heedful.load()
    return [p.label for p in classifier.predictions([classifier.tokens(text).cut(classifier.limit) for text in texts])]


def part(row: Mapping[str, Any]) -> str:
    """The ordinary sentences were added later, and are reported apart."""
    return str(row.get("part", "corpus"))


@cache
def correct_in_corpus() -> list[bool]:
    labels = predicted([row["text"] for row in CORPUS])
    return [label == row["label"] for label, row in zip(labels, CORPUS, strict=True)]


def stated(name: str) -> float:
    """The first accuracy in the card's row of that name."""
    result = re.search(rf"^\| {name} \|[^|]*\| ([0-9.]+) \|", CARD, re.MULTILINE)
    assert result, f"the card has no row {name!r}"
    return float(result[1])


def test_the_corpus_is_large_and_a_quarter_of_it_is_hard() -> None:
    assert (len(CORPUS), sum(part(row) == "ordinary" for row in CORPUS)) == (604, 266)
    assert sum(bool(row["tags"]) for row in CORPUS) >= len(CORPUS) / 4
    assert len({row["text"] for row in CORPUS}) == len(CORPUS)


@pytest.mark.parametrize("tag", TAGS)
def test_each_kind_of_hardness_has_both_labels(tag: str) -> None:
    labels = [row["label"] for row in CORPUS if tag in row["tags"]]
    assert min(labels.count("positive"), labels.count("negative")) >= 10


def test_every_sentence_has_its_label_and_its_rationale_words() -> None:
    for row in CORPUS:
        assert row["label"] in ("positive", "negative")
        assert set(row["tags"]) <= set(TAGS)
        assert row["rationale"]
        for words in row["rationale"]:
            assert re.search(rf"(?<!\w){re.escape(words)}(?!\w)", row["text"]), (words, row["text"])


def test_the_classifier_is_small() -> None:
    assert sum(path.stat().st_size for path in (ASSETS / "model").iterdir()) <= 20_000_000


@pytest.mark.parametrize("tag", ["all", "plain", *TAGS])
@pytest.mark.parametrize("name", ["corpus", "ordinary"])
def test_the_card_states_the_accuracy_on_the_corpus(name: str, tag: str) -> None:
    rows = [(row, right) for row, right in zip(CORPUS, correct_in_corpus(), strict=True) if part(row) == name]
    correct = [right for row, right in rows if tag == "all" or tag in (row["tags"] or ["plain"])]
    assert np.mean(correct) == pytest.approx(stated(f"{name}: {tag}"), abs=0.0051)


@pytest.mark.parametrize(
    ("name", "least"), [("test", 0.86), ("corpus: all", 0.64), ("corpus: plain", 0.82), ("ordinary: all", 0.88)]
)
def test_the_classifier_is_good_enough_for_a_first_impression(name: str, least: float) -> None:
    assert stated(name) >= least


@pytest.mark.thorough
def test_shuffled_attention_changes_the_output_in_at_least_two_layers_as_the_card_states() -> None:
    audit = heedful.audit(
        None, "corpus", ["attention-mean"], [Permutation(draws=1, layer_draws=10, head_draws=0)], limit=100
    )
    changes = {row.at["layer"]: row.mean for row in audit.rows("permutation", "tvd") if row.at["layer"] != "all"}
    assert sum(change > 0.05 for change in changes.values()) >= 2
    assert changes == pytest.approx({layer: stated(f"layer {layer} shuffled") for layer in changes}, abs=0.0011)


@pytest.mark.thorough
@pytest.mark.skipif(not SST2.exists(), reason="the SST-2 test set is not here")
def test_the_classifier_answers_sst2_as_its_card_says() -> None:
    rows = [json.loads(line) for line in SST2.read_text(encoding="utf-8").splitlines()]
    result = re.search(r"^\| test \|[^|]*\|[^|]*\| ([0-9.]+) \|", CARD, re.MULTILINE)
    assert result
    correct = np.array(predicted([row["text"] for row in rows])) == np.array(LABELS)[[row["label"] for row in rows]]
    assert correct.mean() == pytest.approx(float(result[1]), abs=0.0011)
