"""Uniform training: attention is exactly uniform, numbers are those of the models, and a killed study ends the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import heedful
from heedful.core.errors import BadInput
from heedful.maths.classification import single_label
from heedful.nets.training.train import train
from heedful.studies.outcome import Outcome, load_outcome
from heedful.studies.study import study
from heedful.studies.uniform_training import LEARNED_NAME, UNIFORM_NAME
from tests.studies.retrained import run, splits
from tests.support.models import build

OVER_TEXTS, OVER_TRAININGS = {"over": "texts"}, {"over": "trainings"}


@pytest.fixture(autouse=True)
def _no_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.nets.training.train.find_spec", lambda name: None)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("heedful.nets.training.train.find_spec", lambda name: None)
        return run("uniform-training", tmp_path_factory.mktemp("uniform") / "study", "seeds=2")


def test_the_networks_attention_is_exactly_uniform(outcome: Outcome) -> None:
    classifier = heedful.load(outcome.models["uniform, seed 0"])
    text = splits().test[0].text
    with classifier.attention() as seen:
        classifier.logits(classifier.batch([classifier.tokens(text)]))
    ((site, weights),) = seen[0].items()
    allowed = weights[0, 0, 0][site.allowed[0, 0, 0]]
    np.testing.assert_array_equal(
        allowed.detach().numpy(), np.full(len(allowed), np.float32(1) / np.float32(len(allowed)))
    )


def test_the_scores_are_those_of_the_models(outcome: Outcome) -> None:
    scores = []
    for name in ("uniform, seed 0", "uniform, seed 1"):
        classifier = heedful.load(outcome.models[name])
        examples = splits().test
        chances = [classifier.predictions([classifier.tokens(e.text)])[0].probabilities for e in examples]
        gold = np.array([classifier.labels.index(str(e.label)) for e in examples])
        scores.append(single_label(gold, np.array(chances)))
    for measure in ("f1", "accuracy"):
        expected = np.mean([score[measure] for score in scores])
        for at in (OVER_TEXTS, OVER_TRAININGS):
            row = outcome.result.row(measure, UNIFORM_NAME, at)
            assert row is not None
            assert row.mean == pytest.approx(expected, abs=1e-9)
    assert {row.n for row in outcome.rows("f1") if row.at == OVER_TRAININGS} == {2}


def test_the_difference_is_paired_over_texts(outcome: Outcome) -> None:
    d = next(d for d in outcome.result.differences if d.measure == "accuracy")
    a, b = (outcome.result.row("accuracy", kind, OVER_TEXTS) for kind in (LEARNED_NAME, UNIFORM_NAME))
    assert a is not None
    assert b is not None
    assert d.difference.mean == pytest.approx(a.mean - b.mean)
    assert d.difference.n == len(splits().test)


def test_a_network_with_uniform_attention_is_as_far_as_its_base_is_from_uniform(outcome: Outcome) -> None:
    row = outcome.result.row("jsd", UNIFORM_NAME)
    assert row is not None
    assert 0 < row.mean < np.log(2)


def test_the_parts_of_the_data_are_stated_and_disjoint(outcome: Outcome) -> None:
    assert [(used.split, used.texts) for used in outcome.result.texts] == [
        ("train", len(splits().train)), ("dev", len(splits().dev)), ("test", len(splits().test)),
    ]  # fmt: skip


@pytest.mark.thorough
def test_a_killed_study_ends_with_the_same_bytes(outcome: Outcome, tmp_path: Path) -> None:
    started = 0

    def kill(now: object) -> None:
        nonlocal started
        started += "uniform, seed 0, epoch 2" in str(now)
        if started == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("uniform-training", tmp_path / "study", "seeds=2", watch=kill)
    again = run("uniform-training", tmp_path / "study", "seeds=2")
    assert outcome.folder is not None
    assert (tmp_path / "study" / "outcome.json").read_bytes() == (outcome.folder / "outcome.json").read_bytes()
    for name, folder in outcome.models.items():
        assert (again.models[name] / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


def test_a_trained_folder_is_the_base_network_and_is_not_trained_again(tmp_path: Path) -> None:
    small = {"embedding": 12, "hidden": 8, "lr": 0.02, "batch": 16, "epochs": 3, "seed": 5}
    train("average", splits(), tmp_path / "model", small)
    found = run("uniform-training", tmp_path / "study", "seeds=1", recipe=None, model=str(tmp_path / "model"))
    assert set(found.models) == {"uniform, seed 5"}
    record = json.loads((found.models["uniform, seed 5"] / "training.json").read_text())
    assert (record["recipe"], record["settings"]["seed"], record["settings"]["hidden"]) == ("average", 5, 8)


def test_networks_have_the_labels_of_the_given_model_in_its_order(tmp_path: Path) -> None:
    names = ("yes", "no")  # of 0 and 1
    small = {"embedding": 12, "hidden": 8, "lr": 0.02, "batch": 16, "epochs": 6}
    train("average", splits(), tmp_path / "model", small, names=names)
    found = run("uniform-training", tmp_path / "study", "seeds=2", recipe=None, model=str(tmp_path / "model"))
    assert {heedful.load(folder).labels for folder in found.models.values()} == {names}
    for kind in (LEARNED_NAME, UNIFORM_NAME):
        row = found.result.row("accuracy", kind, OVER_TRAININGS)
        assert row is not None
        assert row.mean > 0.8


@pytest.mark.thorough
def test_pairs_and_three_labels(tmp_path: Path) -> None:
    pairs = run("uniform-training", tmp_path / "pairs", "seeds=1", recipe="average-pair", data=splits(pairs=True))
    three = run("uniform-training", tmp_path / "three", "seeds=1", data=splits(labels=3))
    assert pairs.result.row("f1", UNIFORM_NAME, OVER_TEXTS)
    assert three.result.row("f1", UNIFORM_NAME, OVER_TEXTS)


def test_what_cannot_be_held_uniform_is_refused_in_one_sentence() -> None:
    with pytest.raises(BadInput, match="replaces one learned attention, and multihead has others; choose from bilstm"):
        study("uniform-training", splits(), recipe="multihead")
    with pytest.raises(BadInput, match="needs learned attention, and bilstm-uniform has attention=uniform; set one of"):
        study("uniform-training", splits(), recipe="bilstm-uniform")
    with pytest.raises(BadInput, match="has no recipe, so it cannot be trained again"):
        study("uniform-training", splits(), model=build("bert", labels=2))


def test_the_report_has_the_scores(outcome: Outcome) -> None:
    assert outcome.folder is not None
    page = load_outcome(outcome.folder).to_html()
    assert "McNemar" in page
    assert "F1 with learned and with uniform attention" in page
