"""Adversarial training as a study: its numbers are those of its models, for networks, pairs and Transformers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.audits.run import order
from heedful.core.errors import BadInput
from heedful.data import Splits, fingerprint
from heedful.maths.ranks import jensen_shannon
from heedful.nets.training.train import train
from heedful.studies.adversarial_training import ADVERSARIES, UNIFORM, AdversarialTraining
from heedful.studies.adversaries import constant_notes
from heedful.studies.outcome import Outcome, load_outcome
from heedful.studies.retraining import BASE, JAIN_WALLACE, Answers
from heedful.studies.study import StudyRequest, forecast, prepare, study
from tests.studies.retrained import TINY, run, splits
from tests.studies.test_seeds import attention, probability
from tests.support.models import build

SHORT = ("strengths=0,1", "adversary_epochs=3", "seeds=1", "steps=20")
OVER_TEXTS = {"over": "texts"}


@pytest.fixture(autouse=True)
def _no_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.nets.training.train.find_spec", lambda name: None)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("heedful.nets.training.train.find_spec", lambda name: None)
        return run("adversarial-training", tmp_path_factory.mktemp("adversaries") / "study", *SHORT)


def test_the_distances_are_those_of_the_models_on_test_texts(outcome: Outcome) -> None:
    base, other = (heedful.load(outcome.models[name]) for name in (BASE, "λ = 1"))
    texts = [e.text for e in splits().test]
    jsd = np.mean([jensen_shannon(attention(base, t), attention(other, t)) for t in texts])
    tvd = np.mean([abs(probability(base, t) - probability(other, t)) for t in texts])
    rows = {m: outcome.result.row(m, "λ = 1", OVER_TEXTS) for m in ("jsd", "tvd")}
    assert rows["jsd"] is not None
    assert rows["tvd"] is not None
    assert rows["jsd"].mean == pytest.approx(jsd, abs=1e-6)
    assert rows["tvd"].mean == pytest.approx(tvd, abs=1e-6)


def test_the_curve_has_a_point_for_every_strength_in_the_order_of_distance(outcome: Outcome) -> None:
    (curve,) = outcome.curves
    assert curve.method == ADVERSARIES
    expected = sorted(
        (row.mean, tvd.mean)
        for name in ("λ = 0", "λ = 1")
        if (row := outcome.result.row("jsd", name, OVER_TEXTS)) and (tvd := outcome.result.row("tvd", name, OVER_TEXTS))
    )
    assert curve.x == pytest.approx([x for x, _ in expected])
    assert [point.mean for point in curve.points] == pytest.approx([y for _, y in expected])


def test_seeds_uniform_attention_and_the_adversary_of_each_text_are_beside_it(outcome: Outcome) -> None:
    for name in ("seed 1", UNIFORM, JAIN_WALLACE):
        assert outcome.result.row("jsd", name, OVER_TEXTS)
        assert outcome.result.row("tvd", name, OVER_TEXTS)


def test_examples_have_both_attentions_and_nearly_the_same_prediction(outcome: Outcome) -> None:
    for example in outcome.examples:
        first, second = example.colourings
        assert first.name == BASE
        assert sum(first.weights) == pytest.approx(1, abs=1e-5)
        assert sum(second.weights) == pytest.approx(1, abs=1e-5)


@pytest.mark.thorough
def test_a_killed_study_ends_with_the_same_bytes(outcome: Outcome, tmp_path: Path) -> None:
    def kill(now: object) -> None:
        if "training λ = 1, epoch 3" in str(now):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("adversarial-training", tmp_path / "study", *SHORT, watch=kill)
    again = run("adversarial-training", tmp_path / "study", *SHORT)
    assert outcome.folder is not None
    assert (tmp_path / "study" / "outcome.json").read_bytes() == (outcome.folder / "outcome.json").read_bytes()
    for name, folder in outcome.models.items():
        assert (again.models[name] / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


def test_the_report_has_the_curve(outcome: Outcome) -> None:
    assert outcome.folder is not None
    page = load_outcome(outcome.folder).to_html()
    assert "Change of the prediction against distance of attention" in page
    assert page.count("λ = 1") > 1


def named(data: Splits, names: Any) -> Splits:
    parts = ([replace(e, label=names[int(str(e.label))]) for e in part] for part in (data.train, data.dev, data.test))
    return Splits(*parts)


@pytest.mark.parametrize("layers", ["last", "all"])
def test_a_transformer_without_a_recipe_starts_from_its_own_weights(layers: str, tmp_path: Path) -> None:
    classifier = build("bert", labels=2)
    short = ("strengths=0,1", "adversary_epochs=1", "adversary_lr=0.001", "texts=24", "scored=16", f"layers={layers}")
    found = study(
        "adversarial-training", named(splits(), classifier.labels), classifier, settings=short, out=tmp_path / "s"
    )
    assert set(found.models) == {"λ = 0", "λ = 1"}
    assert any("start from its own weights" in note for note in found.result.notes)
    assert found.result.texts[0].texts == 24
    row = found.result.row("jsd", "λ = 1", OVER_TEXTS)
    assert row is not None
    assert row.mean > 0


def test_fewer_training_texts_have_the_labels_in_proportion_and_train_every_network(tmp_path: Path) -> None:
    whole = splits()
    by_label = replace(whole, train=sorted(whole.train, key=lambda e: str(e.label)))
    out = tmp_path / "s"
    short = ("strengths=0", "adversary_epochs=1", "seeds=1", "steps=5", "candidates=1", "scored=8")
    found = run("adversarial-training", out, "texts=20", *short, data=by_label)
    records = [json.loads((folder / "training.json").read_bytes()) for folder in (out / "models").iterdir()]
    used = found.result.texts[0]
    assert len(records) == 4  # the base network, an adversary, a seed and uniform attention
    assert {record["data"]["train"]["fingerprint"] for record in records} == {used.fingerprint}
    share = sum(e.label == "1" for e in whole.train) / len(whole.train)
    drawn = [by_label.train[i] for i in order(by_label.train, 0)[:20]]
    assert (used.texts, used.fingerprint) == (20, fingerprint(drawn))
    assert abs(sum(e.label == "1" for e in drawn) / 20 - share) <= 1 / 20


@pytest.mark.thorough
def test_a_fine_tuned_encoder_starts_from_its_pretrained_weights(tmp_path: Path) -> None:
    classifier = build("bert", labels=2)
    classifier.model.save_pretrained(tmp_path / "encoder")
    classifier.tokenizer.save_pretrained(tmp_path / "encoder")
    short = (f"encoder={tmp_path / 'encoder'}", "finetune.epochs=1", "strengths=1", "adversary_epochs=1", "seeds=1")
    found = study("adversarial-training", splits(), recipe="finetune", settings=short, out=tmp_path / "study")
    assert set(found.models) == {BASE, "λ = 1", "seed 1"}
    assert any("pretrained encoder" in note for note in found.result.notes)


@pytest.mark.thorough
@pytest.mark.parametrize("recipe", ["bilstm", "cnn", "bilstm-pair", "cnn-pair", "average-pair"])
def test_every_encoder_and_pairs(recipe: str, tmp_path: Path) -> None:
    found = run("adversarial-training", tmp_path / "s", *SHORT, recipe=recipe, data=splits(recipe.endswith("-pair")))
    assert found.result.row("tvd", "λ = 1", OVER_TEXTS)


def test_labels_may_be_numbers_where_the_model_has_names(tmp_path: Path) -> None:
    classifier = build("bert", labels=2)
    short = ("strengths=1", "adversary_epochs=1", "texts=16", "scored=8")
    found = study("adversarial-training", splits(), classifier, settings=short, out=tmp_path / "study")
    assert heedful.load(found.models["λ = 1"]).labels == classifier.labels


def test_an_adversary_of_a_model_with_names_in_another_order_keeps_its_predictions(tmp_path: Path) -> None:
    small = {"embedding": 12, "hidden": 8, "lr": 0.02, "batch": 16, "epochs": 6}
    train("average", splits(), tmp_path / "model", small, names=("yes", "no"))
    short = ("strengths=0", "adversary_epochs=12", "seeds=1", "steps=5", "candidates=1")
    found = study("adversarial-training", splits(), str(tmp_path / "model"), settings=short, out=tmp_path / "study")
    assert {heedful.load(folder).labels for folder in found.models.values()} == {("yes", "no")}
    for name in ("λ = 0", "seed 1", UNIFORM):
        flips = found.result.row("flip", name, OVER_TEXTS)
        assert flips is not None
        assert flips.mean < 0.2, name


@pytest.mark.thorough
def test_three_labels(tmp_path: Path) -> None:
    found = run("adversarial-training", tmp_path / "study", *SHORT, data=splits(labels=3))
    row = found.result.row("tvd", "λ = 0", OVER_TEXTS)
    assert row is not None
    assert 0 < row.mean < 1


def test_the_cost_is_known_before() -> None:
    settings = [f"average.{s}" for s in TINY]
    plan = forecast(prepare(StudyRequest("adversarial-training", splits(), recipe="average", settings=settings)))
    adversaries = next(cost for cost in plan.costs if cost.what == "training adversaries")
    whole = AdversarialTraining()
    assert adversaries.trained == len(whole.strengths) * whole.adversary_epochs * len(splits().train)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("strengths=",), "strengths is a number of at least 0 or several with commas between, not ''"),
        (("strengths=0.1,0.1",), "strengths are 0.1, 0.1; give each λ once"),
        (("strengths=0.12345678,0.12345679",), "strengths are 0.123457, 0.123457; give each λ once"),
        (("strengths=-1",), "strengths is a number of at least 0 or several with commas between, not '-1'"),
        (("attention=uniform",), "needs learned attention, and bilstm has attention=uniform"),
        (("direction=both",), "direction 'both' is not one of adversary-base, base-adversary"),
    ],
)
def test_wrong_settings_are_refused_in_one_sentence(settings: tuple[str, ...], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        study("adversarial-training", splits(), settings=settings)


@pytest.mark.parametrize("name", ["seeds", "adversarial-training"])
def test_recipes_with_two_attentions_or_none_are_refused_before_training(name: str) -> None:
    with pytest.raises(BadInput, match="compares one attention, and han-rnn has two levels; give one such as flan-rnn"):
        study(name, splits(), recipe="han-rnn")
    with pytest.raises(BadInput, match="needs learned attention, and cnn has attention=none"):
        study(name, splits(), recipe="cnn", settings=("attention=none",))
    with pytest.raises(BadInput, match="needs a classifier, and seq2seq-additive writes texts"):
        study(name, splits(), recipe="seq2seq-additive")


def test_an_adversary_that_always_predicts_one_label_is_named() -> None:
    def answers(*chances: float) -> Answers:
        nothing = np.zeros(len(chances))
        return Answers(np.array([[1 - p, p] for p in chances]), nothing, nothing)

    base, one, both = answers(0.9, 0.8, 0.1), answers(0.9, 0.7, 0.6), answers(0.9, 0.2, 0.4)
    (note,) = constant_notes({"λ = 0": one, "λ = 1": both}, base)
    assert "One label is predicted for every text by: λ = 0. " in note
    assert constant_notes({"λ = 1": both}, base) == ()
    assert constant_notes({"λ = 0": one}, one) == ()


def test_no_strength_is_refused() -> None:
    with pytest.raises(BadInput, match="strengths are empty; give each λ once, at least one, such as 0,"):
        AdversarialTraining(strengths=())
