"""Sensitivity: the edits of a text, and the numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heedful.checks import similarity as alike
from heedful.checks.sensitivity import FUNCTION_WORDS, Sensitivity
from heedful.core.errors import BadInput
from heedful.core.explanation import Attribution
from heedful.core.tokens import word_spans
from heedful.methods import method
from heedful.methods.explain import run_method
from heedful.model.function import Plain
from tests.support import cases, models
from tests.support.findings import FAST, TEXT, answering, value


def texts_of(check: Sensitivity, text: str, kind: str) -> list[str]:
    return [change.text for change in check.of(text) if change.kind == kind]


def test_changes_of_case() -> None:
    assert texts_of(Sensitivity(), "Good film", "case") == ["good film", "GOOD FILM"]


def test_changes_of_punctuation() -> None:
    assert texts_of(Sensitivity(), "Good, bad, ugly", "punctuation") == [
        "Good, bad, ugly.", "Good bad, ugly", "Good, bad ugly",
    ]  # fmt: skip


def test_a_final_full_stop_goes_and_an_ellipsis_stays() -> None:
    assert texts_of(Sensitivity(), "Good.", "punctuation") == ["Good"]
    assert texts_of(Sensitivity(), "Good...", "punctuation") == []


def test_dropped_function_words() -> None:
    assert texts_of(Sensitivity(), "The end of it", "stop word") == ["end of it", "The end it", "The end of"]


def test_negations_are_never_dropped() -> None:
    assert not {"not", "no", "never", "nor", "neither", "without", "but", "n't", "hardly"} & FUNCTION_WORDS


def test_every_word_that_stays_is_found_again() -> None:
    text = "The film , a good one, was not  funny (it's of 1,000 kinds): the end. "
    for change in Sensitivity(limit=99).of(text, "And is the pair, too"):
        old, new = ([t[slice(*s)] for t in both for s in word_spans(t)] for both in _both(text, change))
        assert all(old[i].casefold() == new[j].casefold() for i, j in change.moved.items())
        assert len(old) - len(change.moved) == (1 if len(new) < len(old) else 0)


def _both(text: str, change: Any) -> list[tuple[str, str]]:
    return [(text, "And is the pair, too"), (change.text, change.pair)]


def test_synonyms_stand_where_their_word_stood(tmp_path: Path) -> None:
    file = tmp_path / "synonyms.txt"
    file.write_text("film, movie\tmotion picture\n\ndull,boring\n")
    found = [c for c in Sensitivity(synonyms=str(file)).of("A dull film Film") if c.kind == "synonym"]
    assert [(c.text, dict(c.moved)) for c in found] == [
        ("A boring film Film", {0: 0, 1: 1, 2: 2, 3: 3}),
        ("A dull movie Film", {0: 0, 1: 1, 2: 2, 3: 3}),
        ("A dull motion picture Film", {0: 0, 1: 1, 3: 4}),
    ]


@pytest.mark.parametrize("content", [b"film\n", b"\n \n", b"\xff\xfe\xfa", None])
def test_synonyms_that_cannot_be_read_are_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "synonyms.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadInput, match=r"synonyms\.txt"):
        Sensitivity(synonyms=str(file))


def test_a_change_that_an_uncased_tokenizer_does_not_show_is_unread() -> None:
    found = Sensitivity()(cases.one(models.shared("bert"), TEXT, FAST))
    assert value(found, "unread", change="case") == 1
    assert math.isnan(value(found, "tau", "gradient-x-input", change="case"))


def test_a_cased_tokenizer_reads_them() -> None:
    found = Sensitivity()(cases.one(models.shared("roberta"), TEXT, FAST))
    assert value(found, "unread", change="case") == 0


def test_sensitivity_as_computed_by_hand() -> None:
    case = cases.one(models.shared("bilstm"), "Dull film", ("gradient-x-input",))
    classifier, tokens = case.classifier, case.classifier.tokens("Dull film.")
    why = run_method(classifier, method("gradient-x-input"), [tokens], [case.target], 0)[0]
    assert isinstance(why, Attribution)
    a, b = ([alike.word_scores(x)[i] for i in (0, 1)] for x in (case.attributions["gradient-x-input"], why))
    kept = classifier.predictions([tokens])[0].index == case.prediction.index
    expected = math.dist(a, b) / math.hypot(*a) if kept else math.nan
    found = Sensitivity()(case)
    assert value(found, "distance", "gradient-x-input", change="punctuation") == pytest.approx(expected, nan_ok=True)
    assert kept


def test_the_largest_change_of_any_kind_is_the_largest_of_all() -> None:
    found = Sensitivity()(cases.one(models.shared("bilstm"), TEXT, FAST))
    each = [value(found, "largest change", "attention-mean", change=k) for k in Sensitivity().kinds]
    assert value(found, "largest change", "attention-mean", change="any") == np.nanmax(each)


def test_position_does_not_mind_a_full_stop_more() -> None:
    found = Sensitivity()(cases.one(models.shared("bilstm"), "Dull film music story", FAST))
    assert value(found, "tau", "position", change="punctuation") == pytest.approx(1)


def test_a_change_of_the_label_is_set_aside(tmp_path: Path) -> None:
    file = tmp_path / "synonyms.txt"
    file.write_text("good,fine\n")
    case = cases.one(Plain(answering), "a good film", ("leave-one-out", "random"))
    found = Sensitivity(synonyms=str(file))(case)
    assert value(found, "label changed", change="synonym") == 1
    assert math.isnan(value(found, "distance", "leave-one-out", change="synonym"))


def test_unchanged_reasons_leave_a_function_of_one_word_as_it_was() -> None:
    case = cases.one(Plain(answering), "a good film", ("leave-one-out", "random"))
    found = Sensitivity()(case)
    assert value(found, "largest change", "leave-one-out", change="stop word") == 0
    assert value(found, "label changed", change="stop word") == 0


def test_the_largest_of_several_unrelated_explanations_is_larger() -> None:
    found = Sensitivity()(cases.one(models.shared("bilstm"), TEXT, FAST))
    assert value(found, "largest change", "random", change="any") > value(found, "distance", "random", change="any") > 0


def test_a_kind_of_change_that_a_text_does_not_have_is_nan() -> None:
    found = Sensitivity()(cases.one(models.shared("bert"), "Dull", FAST))
    of = [f.value for f in found if f.at == {"change": "stop word"}]
    assert of
    assert all(math.isnan(x) for x in of)


def test_a_regression_has_no_label_to_change() -> None:
    classifier = models.build("bert", labels=1, problem_type="regression")
    found = Sensitivity()(cases.one(classifier, TEXT, FAST))
    assert math.isnan(value(found, "label changed", change="any"))
    assert not math.isnan(value(found, "tau", "gradient-x-input", change="stop word"))


def test_sensitivity_costs_no_more_than_it_says() -> None:
    case = cases.one(models.build("roberta"), TEXT, ("leave-one-out", "gradient-x-input", "random"))
    said = Sensitivity().passes(case.classifier, case.tokens, case.methods)
    before = case.classifier.forwards, case.classifier.backwards
    Sensitivity()(case)
    assert case.classifier.forwards - before[0] <= said.forwards
    assert 0 < case.classifier.backwards - before[1] <= said.backwards


@pytest.mark.parametrize("settings", [{"limit": 0}])
def test_sensitivity_refuses_what_means_nothing(settings: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"^limit is a whole number of at least 1, not 0"):
        Sensitivity(**settings)
