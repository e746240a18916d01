"""Triggers: a planted word that attention prefers, its controls, transfer, pairs, and resumption."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.core.errors import BadInput, Unsupported
from heedful.data import Example, Splits
from heedful.model.classifier import Classifier
from heedful.studies.outcome import Outcome
from heedful.studies.triggers import Triggers
from tests.support import toys
from tests.support.models import build

ALL = {"gold": "all"}
CONTROLS = {"leave-one-out", "log-odds", "frequent words", "chosen random words", "random words"}


def preferring(word: str = "yes") -> Classifier:
    """A pointer whose attention prefers one marker to the other: beside both, the model says what that one says."""
    classifier = toys.build("bert", toys.POINTER)
    table, row = classifier.model.bert.embeddings.word_embeddings.weight, classifier.tokenizer.get_vocab()[word]
    features = {toys.KEY: 1.5, toys.VALUE: toys.SMALL * toys.MARKERS[word], toys.BAG: 0.0}
    features[toys.REST] = (toys.D / 2 - sum(x * x for x in features.values())) ** 0.5
    with torch.no_grad():
        for at, x in features.items():
            table[row, at], table[row, at + 1] = x, -x
    return classifier


def examples(n: int, seed: int) -> list[Example]:
    texts = list(dict.fromkeys(toys.texts(2 * n, seed, shortest=6)))[:n]
    return [Example(text, None, "LABEL_1" if "yes" in text.split() else "LABEL_0") for text in texts]


@cache
def splits() -> Splits:
    return Splits(examples(40, 1), examples(30, 2), examples(80, 3))


SMALL: Any = Triggers(extracted=24, shortest=4, candidates=4, tuned=24, scored=80, kept=1, draws=2)


@cache
def planted() -> Outcome:
    return heedful.study(SMALL, splits(), preferring())


def mean(outcome: Outcome, measure: str, source: str, **at: Any) -> float:
    row = outcome.result.row(measure, source, at or ALL)
    assert row is not None
    return row.mean


def test_the_word_that_attention_prefers_is_the_trigger_and_always_succeeds() -> None:
    trigger = next(t for t in planted().result.details["triggers"] if t["gold"] == "LABEL_0")
    assert trigger["words"]["attribution"] == ("yes",)
    assert mean(planted(), "success", "attribution", gold="LABEL_0") == 1


def test_the_word_that_attention_passes_over_never_succeeds() -> None:
    assert mean(planted(), "success", "attribution", gold="LABEL_1") == 0


def test_random_words_rarely_succeed() -> None:
    assert mean(planted(), "success", "random words") < 0.2


def test_log_odds_find_the_planted_word_too() -> None:
    trigger = next(t for t in planted().result.details["triggers"] if t["gold"] == "LABEL_0")
    assert trigger["words"]["log-odds"] == ("yes",)


def test_accuracy_falls_by_the_success_where_all_was_right() -> None:
    assert mean(planted(), "accuracy", "unchanged") == 1
    assert mean(planted(), "accuracy", "attribution") == pytest.approx(1 - mean(planted(), "success", "attribution"))


def test_every_control_has_as_many_words_as_the_trigger() -> None:
    for trigger in planted().result.details["triggers"]:
        assert {len(words) for words in trigger["words"].values()} == {len(trigger["places"])}


@pytest.mark.thorough
def test_a_trigger_succeeds_only_on_texts_that_were_right() -> None:
    wrong = [replace(e, label="LABEL_0" if e.label == "LABEL_1" else "LABEL_1") for e in splits().test[:20]]
    found = heedful.study(SMALL, Splits(splits().train, splits().dev, [*wrong, *splits().test[20:]]), preferring())
    row = found.result.row("success", "attribution", ALL)
    assert row is not None
    assert (row.n, row.missing) == (60, 20)


def test_the_pull_is_to_the_label_of_the_trigger() -> None:
    assert mean(planted(), "pull", "attribution", gold="LABEL_0") == 1


def test_attribution_is_compared_with_every_control() -> None:
    found = [d for d in planted().result.differences if d.measure == "success" and d.at == ALL]
    assert {d.b for d in found} == CONTROLS


def test_examples_mark_the_words() -> None:
    changed = next(e for e in planted().examples if e.title.endswith("a text that it changes"))
    (colouring,) = changed.colourings
    assert [word for word, weight in zip(colouring.words, colouring.weights, strict=True) if weight] == ["yes"]


@pytest.mark.thorough
def test_triggers_are_transferred_to_a_model_with_labels_in_another_order() -> None:
    other = preferring("no")
    names = {0: "label_1", 1: "label_0"}  # another case, another order
    other.model.config.id2label = names
    other = Classifier(other.model, other.tokenizer, "other")
    found = heedful.study(SMALL, splits(), [preferring(), other])
    # its labels are exchanged, so it is wrong about every text, and nothing can succeed
    assert mean(found, "accuracy", "unchanged", model="other", **ALL) == 0
    assert found.result.row("success", "attribution", {"model": "other", **ALL}) is None


@pytest.mark.thorough
def test_a_trigger_of_one_model_fails_on_a_model_that_prefers_the_other_word() -> None:
    other = preferring("no")
    found = heedful.study(SMALL, splits(), [preferring(), Classifier(other.model, other.tokenizer, "other")])
    assert mean(found, "success", "attribution", model="other", gold="LABEL_0") == 0
    assert mean(found, "success", "attribution", gold="LABEL_0") == 1


def test_models_with_other_labels_are_refused() -> None:
    with pytest.raises(BadInput, match="give models with the same labels"):
        heedful.study(SMALL, splits(), [preferring(), build("bert", 3)])


def test_transfer_is_on_one_data_set() -> None:
    more = Splits(splits().train[:20], splits().dev, splits().test)
    with pytest.raises(BadInput, match="on one data set"):
        heedful.study(SMALL, [splits(), more], preferring())


def test_texts_that_are_too_short_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"0 of \d+ training texts have 50 tokens or more; set a smaller shortest"):
        heedful.study(replace(SMALL, shortest=50), splits(), preferring(), out=tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_model_that_predicts_one_label_is_refused() -> None:
    classifier, data = labelled_by_itself("bert")
    parts = (data.train, data.dev, data.test)
    one = Splits(*([replace(e, label=f"LABEL_{i % 2}") for i, e in enumerate(part)] for part in parts))
    with torch.no_grad():
        classifier.model.classifier.bias[0] += 100
    try:
        with pytest.raises(BadInput, match="all patterns are of texts predicted as LABEL_0"):
            heedful.study(TINY, one, classifier)
    finally:
        with torch.no_grad():
            classifier.model.classifier.bias[0] -= 100


def test_patterns_that_are_too_weak_are_refused() -> None:
    with pytest.raises(BadInput, match="set a smaller least"):
        heedful.study(replace(SMALL, least=2.5), splits(), preferring())


def test_a_model_without_attention_is_refused() -> None:
    with pytest.raises(Unsupported, match="attention"):
        heedful.study(SMALL, splits(), build("fnet", 2))


def three() -> Splits:
    """Texts and pairs of three labels."""
    rng = np.random.default_rng(0)
    words = ["good", "bad", "great", "awful", "film", "story", "music", "acting", "one", "two", "three"]

    def part(n: int) -> list[Example]:
        return [
            Example(" ".join(rng.choice(words, 6)), " ".join(rng.choice(words, 4)), f"LABEL_{i % 3}") for i in range(n)
        ]

    return Splits(part(24), part(24), part(24))


@cache
def labelled_by_itself(family: str) -> tuple[Classifier, Splits]:
    """A random model that predicts several labels, and texts labelled as it predicts: it is right about them all."""
    data = three()
    for seed in range(20):
        classifier = build(family, 3, seed)
        parts = [
            [
                replace(e, label=p.label)
                for e, p in zip(
                    part, classifier.predictions([classifier.tokens(e.text, e.pair) for e in part]), strict=True
                )
            ]
            for part in (data.train, data.dev, data.test)
        ]
        if all(len({e.label for e in part[:12]}) > 1 for part in parts):
            return classifier, Splits(*parts)
    raise AssertionError(family)


TINY = replace(SMALL, extracted=8, candidates=2, tuned=12, scored=12, least=0.0)


@pytest.mark.parametrize("family", ["bert", "gpt2", "bart", "xlnet", "bilstm"])
@pytest.mark.thorough
def test_pairs_and_three_labels_work_in_every_mechanism(family: str) -> None:
    classifier, data = labelled_by_itself(family)
    found = heedful.study(TINY, data, classifier)
    triggers = found.result.details["triggers"]
    assert triggers
    assert all(t["label"] != t["gold"] for t in triggers)
    assert {s for t in triggers for s in t["segments"]} <= {0, 1}


@pytest.mark.thorough
def test_each_step_can_be_lost_without_a_change(tmp_path: Path) -> None:
    model, data = labelled_by_itself("bert")
    heedful.study(TINY, data, model, out=tmp_path / "whole")
    whole = (tmp_path / "whole" / "outcome.json").read_bytes()
    steps = sorted((tmp_path / "whole" / "steps").glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
    for kept in (0, len(steps) // 2, len(steps) - 1):
        again = tmp_path / f"again{kept}"
        shutil.copytree(tmp_path / "whole", again)
        (again / "outcome.json").unlink()
        for file in steps[kept:]:
            (again / "steps" / file.name).unlink()
        heedful.study(TINY, data, model, out=again)
        assert (again / "outcome.json").read_bytes() == whole


def test_the_report_names_the_strongest_trigger(tmp_path: Path) -> None:
    assert "“yes”" in planted().to_html()


def test_the_report_says_that_no_test_text_is_predicted_rightly() -> None:
    other = {"LABEL_0": "LABEL_1", "LABEL_1": "LABEL_0"}
    wrong = [replace(e, label=other[str(e.label)]) for e in splits().test]
    page = heedful.study(SMALL, replace(splits(), test=wrong), preferring()).to_html()
    assert "No test text was predicted rightly" in page


def test_the_outcome_is_json() -> None:
    assert json.loads(json.dumps(planted().to_dict()))["study"] == "triggers"


def test_the_cost_is_counted_before() -> None:
    from heedful.studies.study import StudyRequest, forecast, prepare

    plan = forecast(prepare(StudyRequest(SMALL, splits(), preferring())))
    assert plan.costs[-1].what.startswith("scoring")
    assert plan.seconds > 0
