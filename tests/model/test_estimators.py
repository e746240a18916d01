"""Objects with predict_proba: a pipeline's own numbers, known again by its fitted arrays, and clear refusals."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import heedful
from heedful.audits.audit import audit
from heedful.core.errors import BadInput
from heedful.core.target import Target
from heedful.methods.explain import explain
from heedful.model.estimators import digest
from heedful.model.loading import load
from tests.support.models import TEXTS

FILMS = ["a good film", "a bad film", "dull story", "warm and clever music", "a good story", "a bad dull story"] * 4
LABELS = ["good", "bad", "bad", "good", "good", "bad"] * 4


def pipeline(last: Any, first: Any = None, labels: Any = LABELS) -> Any:
    return make_pipeline(first or TfidfVectorizer(), last).fit(FILMS, labels)


def refused(message: str) -> Any:
    return pytest.raises(BadInput, match=f"^{re.escape(message)}$")


def test_its_probabilities_are_the_pipelines() -> None:
    model = pipeline(LogisticRegression())
    classifier = load(model)
    predictions = classifier.predictions([classifier.tokens(text) for text in TEXTS])
    assert classifier.labels == ("bad", "good")
    assert classifier.name == "TfidfVectorizer + LogisticRegression"
    assert np.allclose(
        np.array([p.probabilities for p in predictions]), model.predict_proba(list(TEXTS)), rtol=0, atol=1e-12
    )


def test_leave_one_out_of_a_linear_pipeline_is_its_weight() -> None:
    """The log-odds of a bag of words are the sum of its words' weights."""
    model = pipeline(LogisticRegression(), CountVectorizer())
    weights = dict(zip(model[0].get_feature_names_out(), model[1].coef_[0], strict=True))
    why: Any = explain(model, "dull story but good music", "leave-one-out", Target("good", against="bad"))
    expected = [weights.get(word, 0.0) for word in ("dull", "story", "but", "good", "music")]
    assert np.allclose(why.scores, expected, rtol=0, atol=1e-6)


def test_numbers_as_classes_become_names() -> None:
    assert load(pipeline(LogisticRegression(), labels=[int(label == "good") for label in LABELS])).labels == ("0", "1")


@pytest.mark.parametrize(
    "last", [LogisticRegression(), RandomForestClassifier(5, random_state=0), CalibratedClassifierCV(LinearSVC(), cv=2)]
)
def test_a_pipeline_is_known_again_and_a_changed_one_is_another(last: Any) -> None:
    one, same = load(pipeline(last)), load(pipeline(last))
    other = load(pipeline(last, CountVectorizer()))
    assert one.fingerprint == same.fingerprint != other.fingerprint


def test_a_small_change_of_one_weight_changes_the_digest() -> None:
    model = pipeline(LogisticRegression())
    before = digest(model)
    model[1].coef_[0, 3] += 1e-9
    assert digest(model) != before


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            lambda: pipeline(LinearSVC()),
            "TfidfVectorizer + LinearSVC has no probabilities (predict_proba); wrap its last step in "
            "sklearn.calibration.CalibratedClassifierCV and fit it.",
        ),
        (
            lambda: pipeline(LinearRegression(), labels=[0, 1] * 12),
            "TfidfVectorizer + LinearRegression has no probabilities (predict_proba); give a classifier that has, and "
            "fit it.",
        ),
        (
            lambda: make_pipeline(TfidfVectorizer(), LogisticRegression()),
            "TfidfVectorizer + LogisticRegression is not fitted; call its fit method first.",
        ),
        (
            lambda: pipeline(MultinomialNB(), labels=["good"] * len(FILMS)),
            "TfidfVectorizer + MultinomialNB has one class ('good'); fit it on texts of two or more.",
        ),
        (
            lambda: LogisticRegression().fit(np.eye(2), [0, 1]),
            "LogisticRegression cannot read a list of texts (Expected 2D array, got 1D array instead); give a pipeline "
            "that begins with the vectoriser of the texts.",
        ),
    ],
)
def test_what_is_no_classifier_of_texts_is_refused(model: Any, message: str) -> None:
    with refused(message):
        load(model())


TWO = np.array([[label == "good", "film" in text] for text, label in zip(FILMS, LABELS, strict=True)], dtype=int)


@pytest.mark.parametrize(
    ("last", "one"),
    [
        (OneVsRestClassifier(LogisticRegression()), "[[1 - x, x] for x in p.predict_proba(texts)[:, 0]]"),
        (MultiOutputClassifier(LogisticRegression()), "p.predict_proba(texts)[0]"),
    ],
)
def test_of_several_labels_one_is_explained_as_the_sentence_says(last: Any, one: str) -> None:
    model = pipeline(last, labels=TWO)
    found = f"TfidfVectorizer + {type(last).__name__} gives a text several labels, of which a function can have one"
    code = f"heedful.Plain(lambda texts: {one}, labels=['no', 'yes'])"
    with refused(f"{found}; give {code}, with your pipeline as p, for the first."):
        load(model)
    classifier = eval(code, {"heedful": heedful, "p": model})  # noqa: S307
    alone = pipeline(LogisticRegression(), labels=TWO[:, 0])
    [prediction] = classifier.predictions([classifier.tokens(TEXTS[0])])
    assert prediction.probabilities == pytest.approx(alone.predict_proba([TEXTS[0]])[0], abs=1e-9)


def test_pairs_prompts_and_other_processes_are_refused(tmp_path: Any) -> None:
    model = pipeline(LogisticRegression())
    with refused("TfidfVectorizer + LogisticRegression reads one text, not a pair; give one text."):
        explain(model, ("a text", "another"), "leave-one-out")
    with refused("a Pipeline is a classifier, and a prompt is for language models; leave the prompt out."):
        load(model, template="{text} is", verbalizer={"a": "good", "b": "bad"})
    name = "TfidfVectorizer + LogisticRegression"
    with refused(f"{name} is a function, which runs in this process only; use jobs=1."):
        audit(model, [{"text": "a good film"}] * 40, ["leave-one-out"], ["complexity"], out=tmp_path / "run", jobs=2)


def test_a_pipeline_is_audited() -> None:
    result = audit(pipeline(LogisticRegression()), [{"text": text} for text in TEXTS], ["lime"], ["agreement"])
    assert {row.method for row in result.rows("agreement")} >= {"lime", "random"}
