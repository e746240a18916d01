"""Targets: the number that is explained is the one that was asked for, or the question is refused."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heedful.core.errors import BadInput
from heedful.core.target import Target, activation, label_index, largest_logit
from heedful.methods.explain import explain
from heedful.model.classifier import Classifier
from tests.support.models import build

LABELS = ("negative", "neutral", "positive")
TEXT = "The film was not funny"


def refused(message: str) -> Any:
    return pytest.raises(BadInput, match=f"^{re.escape(message)}$")


def named(*names: str, **more: Any) -> Classifier:
    """A tiny bert that answers with these labels."""
    return build("bert", len(names), id2label=dict(enumerate(names)), **more)


def raw(classifier: Classifier, text: str = TEXT) -> torch.Tensor:
    """What the model itself answers, asked without heedful."""
    with torch.no_grad():
        answer: torch.Tensor = classifier.model(**classifier.tokenizer(text, return_tensors="pt")).logits[0]
    return answer


def value(classifier: Classifier, target: Target) -> float:
    """The target's number for TEXT."""
    with torch.no_grad():
        logits = classifier.logits(classifier.batch([classifier.tokens(TEXT)]))
    return float(target.resolved(classifier.labels, int(logits.argmax())).of(logits, classifier.head))


# which label


@pytest.mark.parametrize("given", ["neutral", "NEUTRAL", "Neutral", 1, "1", "१"])
def test_a_label_is_found_by_name_case_or_index(given: str | int) -> None:
    assert label_index(given, LABELS) == 1


def test_a_name_is_preferred_to_an_index() -> None:
    assert [label_index(stars, ("5", "4", "3", "2", "1", "0")) for stars in ("5", "0", 0)] == [0, 5, 0]


def test_the_exact_case_is_preferred() -> None:
    assert [label_index(name, ("Pos", "POS", "neg")) for name in ("Pos", "POS", "NEG")] == [0, 1, 2]


def test_a_name_in_a_third_case_that_fits_two_labels_is_refused() -> None:
    with refused("label 'pos' is not one of 'Pos', 'POS'; did you mean 'POS'?"):
        label_index("pos", ("Pos", "POS"))


@given(st.lists(st.text(min_size=1), min_size=1, unique=True))
def test_every_label_is_found_by_its_own_name(labels: list[str]) -> None:
    assert [label_index(name, labels) for name in labels] == list(range(len(labels)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("positve", "label 'positve' is not one of 'negative', 'neutral', 'positive'; did you mean 'positive'?"),
        ("NEGATIV", "label 'NEGATIV' is not one of 'negative', 'neutral', 'positive'; did you mean 'negative'?"),
        ("zzz", "label 'zzz' is not one of 'negative', 'neutral', 'positive'."),
        ("", "label '' is not one of 'negative', 'neutral', 'positive'."),
        ("-1", "label '-1' is not one of 'negative', 'neutral', 'positive'."),
        (3, "label index 3 is outside 0 … 2 (negative, neutral, positive)."),
        ("3", "label index 3 is outside 0 … 2 (negative, neutral, positive)."),
        (-1, "label index -1 is outside 0 … 2 (negative, neutral, positive)."),
        (1.5, "label 1.5 is a float; give a name or an index."),
    ],
)
def test_a_label_that_is_none_is_refused(given: Any, message: str) -> None:
    with refused(message):
        Target(given).resolved(LABELS, 0)
    with refused(message):
        Target(0, against=given).resolved(LABELS, 0)


def test_without_a_label_the_predicted_one_is_explained() -> None:
    assert Target().resolved(LABELS, 2) == Target(2)


@pytest.mark.parametrize("target", [Target("neutral", against="NEUTRAL"), Target(1, against="1"), Target(against=1)])
def test_a_label_against_itself_is_refused(target: Target) -> None:
    with refused("label 'neutral' is compared with itself; choose two different labels."):
        target.resolved(LABELS, 1)


def test_an_unknown_scale_is_refused() -> None:
    with refused("scale 'odds' is not one of logit, probability."):
        Target(scale="odds")  # type: ignore[arg-type]


@given(st.integers(0, 2), st.none() | st.integers(0, 2), st.sampled_from(["logit", "probability"]))
def test_naming_and_resolving_undo_each_other(label: int, against: int | None, scale: Any) -> None:
    target = Target(label, scale, None if against == label else against)
    assert target.named(LABELS).resolved(LABELS, 0) == target


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (Target(), "logit of the predicted label"),
        (Target("neutral", "probability"), "probability of neutral"),
        (Target("neutral", against="positive"), "logit of neutral against positive"),
    ],
)
def test_a_target_says_what_it_is(target: Target, said: str) -> None:
    assert str(target) == said


# which number

rows = st.lists(st.floats(-20, 20, width=32), min_size=3, max_size=3)


@given(rows, st.integers(0, 2))
def test_softmax_probabilities_are_the_textbook_ones(row: list[float], label: int) -> None:
    powers = [math.exp(z - max(row)) for z in row]
    result = Target(label, "probability").of(torch.tensor([row], dtype=torch.float64), "softmax")
    assert float(result) == pytest.approx(powers[label] / sum(powers), abs=1e-12)


@given(rows, st.integers(0, 2))
def test_sigmoid_probabilities_are_the_textbook_ones(row: list[float], label: int) -> None:
    result = Target(label, "probability").of(torch.tensor([row], dtype=torch.float64), "sigmoid")
    assert float(result) == pytest.approx(1 / (1 + math.exp(-row[label])), abs=1e-12)


@given(rows, st.sampled_from(["softmax", "sigmoid"]), st.sampled_from(["logit", "probability"]))
def test_against_is_the_difference(row: list[float], head: Any, scale: Any) -> None:
    logits = torch.tensor([row], dtype=torch.float64)
    one, other = (Target(i, scale).of(logits, head) for i in (2, 0))
    assert torch.equal(Target(2, scale, against=0).of(logits, head), one - other)


def test_each_row_has_its_number() -> None:
    assert Target(1).of(torch.tensor([[0.0, 2.0], [3.0, 4.0]]), "softmax").tolist() == [2.0, 4.0]


def test_a_regression_output_has_no_probability() -> None:
    with refused("a regression model has no probabilities; use scale='logit', which explains its output."):
        Target(0, "probability").of(torch.zeros(1, 1), "regression")


def test_a_regression_output_stays_as_it_is() -> None:
    logits = torch.tensor([[3.7]])
    assert torch.equal(activation(logits, "regression"), logits)


def test_excluded_labels_are_not_the_largest_logit() -> None:
    assert largest_logit(torch.tensor([[2.0, -3.0, -1e4], [-1e4, 0.5, -1e4]])) == 3
    assert largest_logit(torch.tensor([[-1e4, -1e4]])) == 0


# models of every kind of head


def test_a_classifier_of_one_label_in_many_explains_what_the_model_answers() -> None:
    classifier = named(*LABELS)
    logits = raw(classifier)
    assert [value(classifier, Target(name)) for name in LABELS] == pytest.approx(logits.tolist(), abs=1e-5)
    chances = [value(classifier, Target(name, "probability")) for name in LABELS]
    assert chances == pytest.approx(logits.softmax(-1).tolist(), abs=1e-5)


def test_a_classifier_of_many_labels_at_once_has_a_chance_for_each() -> None:
    classifier = named(*LABELS, problem_type="multi_label_classification")
    assert classifier.head == "sigmoid"
    chances = [value(classifier, Target(name, "probability")) for name in LABELS]
    assert chances == pytest.approx(raw(classifier).sigmoid().tolist(), abs=1e-5)
    assert sum(chances) != pytest.approx(1, abs=1e-3)


def test_a_single_logit_answers_yes_and_no() -> None:
    classifier = named("toxic")
    z = float(raw(classifier))
    assert classifier.labels == ("not toxic", "toxic")
    assert [value(classifier, Target(name)) for name in classifier.labels] == pytest.approx([-z, z], abs=1e-6)


def test_the_two_chances_of_a_single_logit_add_up_to_one() -> None:
    result = explain(named("toxic"), TEXT, "uniform").prediction
    assert result.probabilities is not None
    assert sum(result.probabilities) == pytest.approx(1, abs=1e-12)
    assert result.probabilities[1] == pytest.approx(1 / (1 + math.exp(-result.logits[1])))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_single_logit_predicts_by_its_sign(sign: int) -> None:
    classifier = named("toxic")
    with torch.no_grad():
        classifier.model.classifier.weight.zero_()
        classifier.model.classifier.bias.fill_(sign * 2.0)
    result = explain(classifier, TEXT, "uniform")
    assert result.prediction.label == result.target.label == ("toxic" if sign > 0 else "not toxic")


def test_the_scores_of_no_are_those_of_yes_turned_round() -> None:
    classifier = named("toxic")
    yes, no = (explain(classifier, TEXT, "gradient-x-input", target) for target in ("toxic", "not toxic"))
    assert no.scores.tolist() == (-yes.scores).tolist()  # type: ignore[attr-defined]


def test_a_regression_model_is_explained_by_its_output() -> None:
    classifier = build("bert", 1, problem_type="regression")
    result = explain(classifier, TEXT, "gradient-x-input")
    assert (classifier.head, classifier.labels, result.prediction.probabilities) == ("regression", ("LABEL_0",), None)
    assert value(classifier, Target()) == pytest.approx(float(raw(classifier)), abs=1e-6)


def test_the_probability_of_a_regression_model_is_refused() -> None:
    with refused("a regression model has no probabilities; use scale='logit', which explains its output."):
        explain(build("bert", 1, problem_type="regression"), TEXT, "gradient-l2", Target(scale="probability"))


@pytest.mark.parametrize("label", ["c7", "C7", 7, "7"])
def test_ten_classes(label: str | int) -> None:
    classifier = named(*(f"c{i}" for i in range(10)))
    assert explain(classifier, TEXT, "uniform", label).target == Target("c7")
    assert value(classifier, Target(label)) == pytest.approx(float(raw(classifier)[7]), abs=1e-5)


def test_the_predicted_label_is_the_one_that_the_model_answers() -> None:
    classifier = named(*(f"c{i}" for i in range(10)))
    result = explain(classifier, TEXT, "uniform")
    assert result.prediction.label == result.target.label == f"c{int(raw(classifier).argmax())}"


def test_labels_that_the_model_does_not_name_are_numbered() -> None:
    assert build("gpt2", 4).labels == ("LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3")


def test_the_gradient_of_a_difference_is_the_difference_of_the_gradients() -> None:
    classifier = named(*LABELS)
    asked = (Target("positive", against="negative"), Target("positive"), Target("negative"))
    both, one, other = (explain(classifier, TEXT, "gradient-x-input", target) for target in asked)
    assert both.scores == pytest.approx(one.scores - other.scores, abs=1e-5)  # type: ignore[attr-defined]


def test_an_explanation_names_its_target() -> None:
    result = explain(named(*LABELS), TEXT, "uniform", Target(2, "probability", against="NEGATIVE"))
    assert result.target == Target("positive", "probability", "negative")
