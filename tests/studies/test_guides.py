"""Guides: the students weigh words as they are told, λ is chosen on dev, and what cannot guide is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import heedful
from heedful.core.errors import BadInput
from heedful.nets.single import Single
from heedful.studies.guides import FROM_ADVERSARY, FROM_BASE, GUIDES, OWN, UNIFORM, Guides
from heedful.studies.outcome import Outcome, load_outcome
from heedful.studies.retraining import BASE
from heedful.studies.study import study
from tests.studies.retrained import run, splits

SHORT = ("strengths=0.01,1", "adversary_epochs=3", "seeds=2")
OVER_TEXTS, OVER_TRAININGS = {"over": "texts"}, {"over": "trainings"}


@pytest.fixture(autouse=True)
def _no_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.nets.training.train.find_spec", lambda name: None)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("heedful.nets.training.train.find_spec", lambda name: None)
        return run("guides", tmp_path_factory.mktemp("guides") / "study", *SHORT, recipe="cnn")


def test_students_read_words_alone_with_the_attention_of_their_guide(outcome: Outcome) -> None:
    chosen = outcome.result.details["chosen"]
    for guide, teacher in ((FROM_BASE, BASE), (FROM_ADVERSARY, chosen)):
        student, other = (heedful.load(outcome.models[n]).model for n in (f"guide {guide}, seed 1", teacher))
        assert isinstance(student, Single)
        assert student.config.encoder == "average"
        ids = torch.tensor([heedful.load(outcome.models[BASE]).tokens(splits().test[0].text).ids])
        torch.testing.assert_close(student.attend(ids), other.attend(ids), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("guide", "attention"), [(UNIFORM, "uniform"), (OWN, "additive")])
def test_the_other_students_have_their_own_or_uniform_attention(outcome: Outcome, guide: str, attention: str) -> None:
    assert heedful.load(outcome.models[f"guide {guide}, seed 0"]).model.config.attention == attention


def test_every_student_has_scores_over_texts_and_over_trainings(outcome: Outcome) -> None:
    for guide in GUIDES:
        for measure in ("f1", "accuracy"):
            texts, trainings = (outcome.result.row(measure, guide, at) for at in (OVER_TEXTS, OVER_TRAININGS))
            assert texts is not None
            assert trainings is not None
            assert (texts.n, trainings.n) == (len(splits().test), 2)
            assert texts.mean == pytest.approx(trainings.mean)


def test_the_adversary_is_the_nearest_in_prediction_among_those_that_are_far_enough() -> None:
    dev = {"λ = 0.1": {"jsd": 0.3, "tvd": 0.0}, "λ = 1": {"jsd": 0.5, "tvd": 0.2}, "λ = 2": {"jsd": 0.6, "tvd": 0.1}}
    assert Guides()._chosen(dev) == "λ = 2"
    assert Guides(min_jsd=0.65)._chosen(dev) == "λ = 2"
    assert "No adversary reached min_jsd" in Guides(min_jsd=0.65)._notes(dev, "λ = 2")[1]


def test_the_base_networks_guide_is_compared_with_every_other(outcome: Outcome) -> None:
    pairs = {(d.measure, d.a, d.b) for d in outcome.result.differences}
    assert pairs == {(m, FROM_BASE, g) for m in ("f1", "accuracy") for g in GUIDES if g != FROM_BASE}


@pytest.mark.thorough
def test_a_killed_study_ends_with_the_same_bytes(outcome: Outcome, tmp_path: Path) -> None:
    def kill(now: object) -> None:
        if "training λ = 1, epoch 2" in str(now):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("guides", tmp_path / "study", *SHORT, recipe="cnn", watch=kill)
    again = run("guides", tmp_path / "study", *SHORT, recipe="cnn")
    assert outcome.folder is not None
    assert (tmp_path / "study" / "outcome.json").read_bytes() == (outcome.folder / "outcome.json").read_bytes()
    for name, folder in outcome.models.items():
        assert (again.models[name] / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


def test_the_report_has_the_four_guides(outcome: Outcome) -> None:
    assert outcome.folder is not None
    page = load_outcome(outcome.folder).to_html()
    assert "The networks that guide" in page


def test_what_cannot_guide_is_refused() -> None:
    with pytest.raises(BadInput, match="needs a network of one text, and average-pair reads pairs"):
        study("guides", splits(pairs=True), recipe="average-pair")
    with pytest.raises(BadInput, match="strengths are empty; give each λ once"):
        Guides(strengths=())
