"""Seeds: distances are those of the models, medians over seeds, and the adversary of each text beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import heedful
from heedful.core.errors import BadInput
from heedful.maths.ranks import jensen_shannon
from heedful.model.classifier import Classifier
from heedful.studies.outcome import Outcome, load_outcome
from heedful.studies.retraining import BASE, JAIN_WALLACE
from heedful.studies.seeds import OTHERS
from heedful.studies.study import study
from tests.studies.retrained import run, splits
from tests.support.models import build


@pytest.fixture(autouse=True)
def _no_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.nets.training.train.find_spec", lambda name: None)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("heedful.nets.training.train.find_spec", lambda name: None)
        return run("seeds", tmp_path_factory.mktemp("seeds") / "study", "seeds=3", "steps=40")


def attention(classifier: Classifier, text: str) -> np.ndarray:
    tokens = classifier.tokens(text)
    weights: torch.Tensor = classifier.model.attend(torch.tensor([tokens.ids]))
    return weights[0].double().numpy()


def probability(classifier: Classifier, text: str) -> float:
    chances = classifier.predictions([classifier.tokens(text)])[0].probabilities
    assert chances is not None
    return chances[1]


def test_the_distances_are_medians_and_means_over_seeds_of_those_of_the_models(outcome: Outcome) -> None:
    base, *others = [heedful.load(outcome.models[name]) for name in (BASE, "seed 1", "seed 2", "seed 3")]
    jsd, tvd = [], []
    for example in splits().test:
        rows = [jensen_shannon(attention(base, example.text), attention(other, example.text)) for other in others]
        jsd.append(np.median(rows))
        tvd.append(
            np.mean([abs(probability(base, example.text) - probability(other, example.text)) for other in others])
        )
    found = {measure: outcome.result.row(measure, OTHERS) for measure in ("jsd", "tvd")}
    assert found["jsd"] is not None
    assert found["tvd"] is not None
    assert found["jsd"].mean == pytest.approx(np.mean(jsd), abs=1e-6)
    assert found["tvd"].mean == pytest.approx(np.mean(tvd), abs=1e-6)


def test_the_adversary_of_each_text_keeps_the_output_within_epsilon(outcome: Outcome) -> None:
    change = np.array(outcome.result.details["texts"]["adversary tvd"], dtype=float)
    assert change.max() <= 0.05 + 1e-6
    row = outcome.result.row("jsd", JAIN_WALLACE)
    assert row is not None
    assert row.mean > 0


def test_the_bins_have_every_text_once(outcome: Outcome) -> None:
    binned = [row for row in outcome.rows("jsd", OTHERS) if "from" in row.at]
    assert sum(row.n for row in binned) == len(splits().test)


def test_every_seed_is_another_network(outcome: Outcome) -> None:
    weights = {(folder / "model.safetensors").read_bytes() for folder in outcome.models.values()}
    assert len(weights) == 4


@pytest.mark.thorough
def test_a_study_without_its_last_steps_ends_with_the_same_bytes(outcome: Outcome, tmp_path: Path) -> None:
    run("seeds", tmp_path / "study", "seeds=3", "steps=40")
    content = (tmp_path / "study" / "outcome.json").read_bytes()
    for name in ("train-seed-2.json", "reading-seed-3-0001.json"):
        (tmp_path / "study" / "steps" / name).unlink()
    (tmp_path / "study" / "outcome.json").unlink()
    run("seeds", tmp_path / "study", "seeds=3", "steps=40")
    assert (tmp_path / "study" / "outcome.json").read_bytes() == content
    assert outcome.folder is not None
    assert content == (outcome.folder / "outcome.json").read_bytes()


def test_the_report_has_violins_by_largest_weight_and_label(outcome: Outcome) -> None:
    assert outcome.folder is not None
    page = load_outcome(outcome.folder).to_html()
    assert "Distance of attention, by the largest weight and the predicted label" in page
    assert "adversary, 1" in page


@pytest.mark.thorough
def test_pairs_and_three_labels(tmp_path: Path) -> None:
    pairs = run("seeds", tmp_path / "pairs", "seeds=1", "steps=5", recipe="cnn-pair", data=splits(pairs=True))
    three = run("seeds", tmp_path / "three", "seeds=1", "steps=5", data=splits(labels=3))
    for found in (pairs, three):
        assert found.result.row("jsd", JAIN_WALLACE)


def test_a_network_of_several_heads_has_no_adversary_of_each_text(tmp_path: Path) -> None:
    small = ("embedding=16", "attention=8", "value=8", "heads=2", "max_length=32", "epochs=1")
    found = study("seeds", splits(), recipe="multihead", settings=("seeds=1", *small), out=tmp_path / "study")
    assert found.result.row("jsd", OTHERS)
    assert found.result.row("jsd", JAIN_WALLACE) is None
    assert "several" in found.result.notes[0]


def test_a_model_without_a_recipe_is_refused() -> None:
    with pytest.raises(BadInput, match="has no recipe, so it cannot be trained again; give --recipe NAME"):
        run("seeds", recipe=None, model=build("bert", labels=2))
