"""Lopardo et al. 2024 on the embedded corpus: its numbers are those of its own networks, computed again."""

from __future__ import annotations

import json
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.core.explanation import Attribution
from heedful.methods.explain import explain
from heedful.methods.gradient import GradientXInput
from heedful.methods.lime import Lime
from heedful.methods.theory_comparison import Trial, closeness, compare_with_theory, lime_runs
from heedful.report.reproductions.lopardo2024 import sections
from heedful.studies.outcome import Outcome
from heedful.studies.reproduction.lopardo2024 import (
    ACCURACY,
    DELETED,
    LIME_TABLE,
    NO_CHECKPOINT,
    ONE,
    SENTENCE,
    SENTENCE_TABLE,
    SIX,
    UNPUBLISHED_REVIEW,
    Lopardo2024,
    _gradient_claims,
    _sentence_numbers,
)
from heedful.studies.reproduction.published import Comparison, Judgement, judge, read_published
from heedful.studies.reproduction.reproduce import prepare, reproduce


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("heedful.nets.training.train.find_spec", lambda name: None)  # no curves, which are slow to draw
        return reproduce("lopardo2024", out=tmp_path_factory.mktemp("lopardo") / "r", profile="smoke")


@pytest.fixture(scope="module")
def network(outcome: Outcome) -> heedful.Classifier:
    return heedful.load(outcome.models[f"{ONE}, seed 0"])


def comparison(outcome: Outcome, *key: str) -> Comparison:
    return next(c for c in outcome.result.comparisons if c.published.key == key)


def ours(outcome: Outcome, *key: str) -> float:
    found = comparison(outcome, *key).ours
    assert found is not None
    return found.mean


@pytest.mark.thorough
def test_every_number_is_measured_but_those_of_a_review_that_is_not_published(outcome: Outcome) -> None:
    missing = [c for c in outcome.result.comparisons if c.ours is None]
    assert {c.reason for c in missing} == {UNPUBLISHED_REVIEW}
    assert (len(missing), len(outcome.result.comparisons)) == (20, len(read_published("lopardo2024")))


@pytest.mark.parametrize("kind", [ONE, SIX])
@pytest.mark.thorough
def test_accuracies_are_those_of_the_trainings_in_percent(kind: str, outcome: Outcome) -> None:
    record = json.loads((outcome.models[f"{kind}, seed 0"] / "training.json").read_text())
    accuracy = record["test"]["accuracy"]
    assert ours(outcome, ACCURACY, "imdb", kind, "test accuracy") == pytest.approx(100 * accuracy)
    own = comparison(outcome, ACCURACY, "imdb", kind, "test accuracy").ours
    assert own is not None
    assert own.error == pytest.approx(100 * sqrt(accuracy * (1 - accuracy) / (20 - 1)))


@pytest.mark.parametrize(("column", "method"), [
    ("α-avg", "attention-mean"), ("α-max", "attention-max"), ("G-avg", "gradient-mean"), ("G-l1", "gradient-l1"),
    ("G-l2", "gradient-l2"), ("G×I", GradientXInput(positions=True)), ("lime", Lime(masking="delete", samples=5000)),
])  # fmt: skip
@pytest.mark.thorough
def test_the_sentence_is_explained_by_the_papers_seven(
    column: str, method: Any, outcome: Outcome, network: heedful.Classifier
) -> None:
    why = explain(network, SENTENCE, method, target=1)
    assert isinstance(why, Attribution)
    found = [ours(outcome, SENTENCE_TABLE, "imdb", word, column) for word in SENTENCE.split()]
    assert found == pytest.approx(why.by("word").scores[why.by("word").tokens.content[0] :].tolist(), abs=1e-6)


def test_the_sentence_is_shown_and_not_judged_however_many_trainings() -> None:
    explainers = dict.fromkeys(("α-avg", "α-max", "lime", "G-avg", "G-l1", "G-l2", "G×I"), 0.1)
    sentence = {
        "logits": [0.0, 1.0],
        "words": dict.fromkeys(SENTENCE.split(), explainers),
        "first coordinate": {"theorem 4.1": 0.0, "autograd": 0.0},
    }
    measured = _sentence_numbers(dict.fromkeys("abc", sentence))
    judged = [judge(number, measured[number.key]) for number in read_published("lopardo2024") if number.key in measured]
    assert {(c.judgement, c.reason) for c in judged} == {(Judgement.NOT_COMPARED, NO_CHECKPOINT)}
    assert len(judged) == 53


@pytest.mark.thorough
def test_theorem_5_1_is_compared_with_lime_that_deletes_words(outcome: Outcome, network: heedful.Classifier) -> None:
    paper, runs = prepare("lopardo2024", profile="smoke").study, Trial(runs=2, samples=40)
    assert isinstance(paper, Lopardo2024)
    subject = prepare("lopardo2024", profile="smoke").subjects[0]
    divided = paper._divided(Outline(subject), 60)  # type: ignore[arg-type]
    distances = []
    for text in paper._reviews(divided):
        theory = compare_with_theory(network, text, runs, 1).forms["paper"]
        measured = lime_runs(network, text, runs, Lime(masking="delete", by="bag", samples=40), 1).mean(0)
        distances.append(np.linalg.norm(theory - measured))
        assert closeness(theory, measured).pearson is not None
    assert ours(outcome, LIME_TABLE, "imdb", "all words", "L2 distance") == pytest.approx(np.mean(distances), rel=1e-5)
    row = outcome.result.row("distance", "paper", {"words": DELETED, "network": 0})
    assert row is not None
    assert row.mean == pytest.approx(np.mean(distances), rel=1e-5)


class Outline:
    """A trial with a subject and a seed alone."""

    def __init__(self, subject: Any) -> None:
        self.subject, self.seed = subject, 0


def test_four_fifths_train_and_one_fifth_is_dev() -> None:
    subject = prepare("lopardo2024", profile="smoke").subjects[0]
    pool = len(subject.splits.train) + len(subject.splits.dev)
    for train in (None, 60):
        parts = Lopardo2024(tested=30)._divided(Outline(subject), train).splits  # type: ignore[arg-type]
        n = train or round(0.8 * pool)
        assert (len(parts.train), len(parts.test)) == (n, 30)
        assert abs(len(parts.dev) - n / 4) <= 1
        texts = [e.text for part in (parts.train, parts.dev, parts.test) for e in part]
        assert len(set(texts)) == len(texts)


def agreeing(first: float, others: float) -> dict[str, Any]:
    return {"gradient": {"theory": 0.0, "published, first token": first, "published, other tokens": others}}


def test_theorem_4_1_holds_where_it_is_exact_and_does_not_at_the_first_token() -> None:
    texts = [[agreeing(0.3 + 0.01 * i, 1e-7 * i) for i in range(40)]] * 3
    assert [claim.holds for claim in _gradient_claims(texts)] == [True, False]
    assert [claim.holds for claim in _gradient_claims([texts[0][:5]])] == [None, None]


def test_one_review_is_inside_what_reviews_spread_over() -> None:
    """The published number is of one review: the deviation over reviews counts, not the error of their mean."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(0.9, 0.05, size=(3, 50))
    texts = [
        [{DELETED: {"paper": dict.fromkeys(("pearson", "kendall", "distance"), x)}} for x in row] for row in numbers
    ]
    found = Lopardo2024()._theorem(texts)[LIME_TABLE, "imdb", "all words", "Pearson"]
    assert found.mean == pytest.approx(numbers.mean())
    assert found.error == pytest.approx(sqrt(numbers.var(1, ddof=1).mean()))
    assert found.spread == pytest.approx(numbers.mean(1).std(ddof=1))


@pytest.mark.thorough
def test_findings_need_texts_and_nothing_is_judged_on_the_embedded_corpus(outcome: Outcome) -> None:
    assert {c.judgement for c in outcome.result.comparisons} == {Judgement.NOT_COMPARED}
    assert [claim.holds for claim in outcome.result.claims] == [None] * 7
    assert [claim.expected for claim in outcome.result.claims] == ["equal"] * 2 + ["higher"] * 5


@pytest.mark.thorough
def test_every_post_hoc_explainer_is_set_against_attention(outcome: Outcome) -> None:
    assert outcome.folder is not None
    findings = heedful.open(outcome.folder / outcome.result.parts["explainers"]).record.findings("input-erasure")
    at, names = {"masking": "delete"}, ("lime", "gradient-x-input", "gradient-l1", "gradient-l2", "gradient-mean")
    lost = {m: findings.values("aopc comprehensiveness", m, at) for m in (*names, "attention-mean")}
    twin = [float(np.mean(lost[m] - lost["attention-mean"])) for m in names]
    assert [claim.difference.mean for claim in outcome.result.claims[2:]] == pytest.approx(twin, abs=1e-9)


@pytest.mark.thorough
def test_the_report_has_the_papers_figures(outcome: Outcome, network: heedful.Classifier) -> None:
    explainers, heads, lime, gradients = sections(outcome)
    assert explainers.tables[0].rows[6][1] == 0.1041
    weights = explain(network, SENTENCE, "attention-weights").weights  # type: ignore[attr-defined]
    assert len(heads.figures) == weights.shape[1]
    assert f"looks most at {['[CLS]', *SENTENCE.split()][weights[0, 0, 0].argmax()]} (head 0)" in heads.findings[0]
    assert [len(s.figures) for s in (lime, gradients)] == [1, 2]
    assert {row[1] for row in lime.tables[0].rows} == {"replaced", DELETED}
    assert "at [CLS] alone" in gradients.findings[0]


@pytest.mark.thorough
def test_the_folder_has_the_audit_of_the_explainers(outcome: Outcome) -> None:
    assert outcome.folder is not None
    audit = heedful.open(outcome.folder / outcome.result.parts["explainers"])
    assert "gradient-x-input" in audit.manifest.settings["methods"]
    assert Path(outcome.folder / "report.html").stat().st_size > 0
