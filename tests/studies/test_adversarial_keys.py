"""The study adversarial-keys, from the settings to the report."""

from __future__ import annotations

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
from heedful.nets.transformer import Transformer, TransformerShape
from heedful.report.study import report
from heedful.studies import STUDIES
from heedful.studies.adversarial_keys import METHODS, AdversarialKeys, require_keys
from heedful.studies.outcome import Outcome, load_outcome
from heedful.studies.study import StudyRequest, forecast, prepare
from tests.studies.test_key_adversary import texts
from tests.support.models import build, loud, shared, tokenizer

TINY = AdversarialKeys(epochs=2, hidden=8, batch=8, trained=16, chosen=8, scored=12, draws=2, examples=2)


@cache
def classifier(labels: int = 2) -> Classifier:
    """A toy Transformer that predicts each label for as many of the toy's texts as any other."""
    t = tokenizer("wordpiece")
    net = loud(Transformer(TransformerShape(len(t), labels, layers=2, heads=2, width=16, inner=24)))
    toy = Classifier(net, t, name="tiny-transformer")
    part = texts(toy, 40, "train")
    with torch.no_grad():
        for _ in range(labels):
            logits = toy.logits(toy.batch(part.tokens))
            net.head.bias -= logits.mean(0)  # type: ignore[union-attr, operator]
    return toy


def splits(toy: Classifier) -> Splits:
    """Texts with the model's own predictions as labels; few of them are wrong."""
    parts = []
    for name, n in (("train", 24), ("dev!", 16), ("tests", 20)):
        part = texts(toy, n, name)
        labels = [toy.labels[(int(g) + (i == 0)) % len(toy.labels)] for i, g in enumerate(part.gold)]
        parts.append([Example(e.text, None, label) for e, label in zip(part.examples, labels, strict=True)])
    return Splits(*parts)


def run(out: Path | None = None, study: AdversarialKeys = TINY, labels: int = 2, **more: Any) -> Outcome:
    toy = classifier(labels)
    return heedful.study(study, splits(toy), model=(toy.model, toy.tokenizer), out=out, **more)


@cache
def outcome() -> Outcome:
    return run()


def test_every_adversary_has_every_measure_in_all_layers_and_in_each() -> None:
    places = ["all", 0, 1]
    for measure in (m for m in AdversarialKeys.measures if m != "flipped accuracy"):
        for method in METHODS:
            rows = [r for r in outcome().rows(measure, method) if "layer" not in r.at]
            assert sorted(map(str, (r.at["edited"] for r in rows))) == sorted(map(str, places)), (measure, method)
            assert all(r.n == 12 and np.isfinite(r.mean) for r in rows)


def test_flipped_accuracy_is_of_opposite_alone_and_the_complement_of_accuracy_for_two_labels() -> None:
    (row,) = [r for r in outcome().rows("flipped accuracy") if r.at == {"edited": "all"}]
    (accuracy,) = [r for r in outcome().rows("accuracy", "opposite") if r.at == {"edited": "all"}]
    assert row.method == "opposite"
    assert row.mean == pytest.approx(1 - accuracy.mean)


def test_the_mean_over_layers_is_that_of_the_rows_of_layers() -> None:
    for method in METHODS:
        result = outcome().result
        layers = [result.row("attention jsd", method, {"edited": "all", "layer": i}) for i in (0, 1)]
        together = result.row("attention jsd", method, {"edited": "all"})
        assert together is not None
        assert together.mean == pytest.approx(np.mean([r.mean for r in layers if r is not None]), abs=1e-6)


def test_a_centred_distance_is_at_most_the_distance() -> None:
    for raw in outcome().rows("key distance"):
        assert (centred := outcome().result.row("centred key distance", raw.method, raw.at)) is not None
        assert centred.mean <= raw.mean + 1e-6


def test_examples_keep_their_label_and_are_ranked_by_the_change_of_attention() -> None:
    assert len(outcome().examples) == 2
    for example in outcome().examples:
        names = [c.name for c in example.colourings]
        assert names[:2] == ["original", "honest"]
        assert set(names) == {"original", *METHODS}
        first, second = (c.note.split(" (")[0] for c in example.colourings[:2])
        assert first == second
        assert all(sum(c.weights) == pytest.approx(1, abs=1e-3) for c in example.colourings)


def test_three_labels_and_networks_of_their_own_for_each_layer() -> None:
    study = replace(TINY, adversaries=("honest", "opposite"), each_layer=None, shared=False, distance="log")
    result = run(study=study, labels=3)
    assert {r.method for r in result.result.rows} == {"original", "honest", "opposite"}


def test_a_study_that_is_killed_ends_with_the_same_bytes(tmp_path: Path) -> None:
    study = replace(TINY, adversaries=("as-stated", "permuted"), each_layer=())
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    run(whole, study)

    def interrupt(now: Any) -> None:
        if now.doing == "scoring":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(resumed, study, watch=interrupt)
    run(resumed, study)
    for file in sorted(p.relative_to(whole) for p in whole.rglob("*") if p.suffix in (".json", ".safetensors")):
        assert (whole / file).read_bytes() == (resumed / file).read_bytes(), file
    assert load_outcome(resumed).result == load_outcome(whole).result


def test_an_adversary_that_was_deleted_is_one_sentence(tmp_path: Path) -> None:
    study = replace(TINY, adversaries=("random-keys",), each_layer=(), epochs=1)
    run(tmp_path / "s", study)
    next((tmp_path / "s" / "adversaries").iterdir()).unlink()
    with pytest.raises(BadInput, match=r"cannot be read .* with --restart\.$"):
        run(tmp_path / "s", study)


def test_a_restart_deletes_the_adversaries(tmp_path: Path) -> None:
    study = replace(TINY, adversaries=("random-keys",), each_layer=(), epochs=1)
    run(tmp_path / "s", study)
    run(tmp_path / "s", replace(study, adversaries=("opposite",)), restart=True)
    names = [p.name for p in (tmp_path / "s" / "adversaries").iterdir()]
    assert names == ["opposite-all-layers.safetensors"]


def test_the_report_has_the_published_table_and_every_section() -> None:
    document = report(outcome())
    names = [section.name for section in document.sections]
    assert names[:5] == [
        "adversarial-keys", "adversarial-keys-layers", "adversarial-keys-matrices", "adversarial-keys-training",
        "adversarial-keys-numbers",
    ]  # fmt: skip
    table = document.sections[0].tables[0]
    assert [row[0] for row in table.rows] == ["here, softmax", "published, softmax", "published, 1.5-entmax"]
    assert table.rows[1][1:] == (86.45, 79.23, 83.5, 79.4, 74.9, 82.1)
    assert "honest" in outcome().to_html()


def test_the_forecast_counts_trainings_and_scoring() -> None:
    toy = classifier()
    plan = forecast(prepare(StudyRequest(TINY, splits(toy), model=(toy.model, toy.tokenizer))))
    trainings, variants = 4 * 3, 4 * 3 + 3 + 3 * 2
    assert [cost.what for cost in plan.costs] == ["training adversaries", "scoring"]
    assert (plan.costs[0].backwards, plan.costs[1].forwards) == (trainings * 2 * 16, 12 * (2 + variants))


@pytest.mark.parametrize("alpha", [0, -0.1, 1.5])
def test_alpha_outside_its_range_is_one_sentence(alpha: float) -> None:
    with pytest.raises(BadInput, match=r"^alpha is a number above 0 and of at most 1, not .*\.$"):
        STUDIES.make("adversarial-keys", {"alpha": alpha})


def test_the_same_adversary_twice_is_refused() -> None:
    with pytest.raises(BadInput, match="give each once"):
        AdversarialKeys(adversaries=("honest", "honest"))


@pytest.mark.parametrize(
    ("family", "reason"),
    [("bart", "several kinds of attention"), ("llama", "not the output of a linear map"), ("bilstm", "linear map")],
)
def test_a_model_without_keys_of_its_own_is_refused_by_name(family: str, reason: str) -> None:
    with pytest.raises(Unsupported, match=rf"tiny-{family}.*{reason}"):
        require_keys(shared(family))


@pytest.mark.thorough
def test_two_processes_write_the_same_outcome(tmp_path: Path) -> None:
    study = replace(TINY, each_layer=("permuted",))
    one, two = (run(tmp_path / str(jobs), study, jobs=jobs).result for jobs in (1, 2))
    assert one == two


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["bert", "albert", "xlnet", "gpt2", "bloom", "multihead"])
def test_the_study_runs_on_other_families(name: str) -> None:
    toy = build(name, labels=2)
    study = replace(TINY, each_layer=("permuted",), epochs=1)
    parts = [texts(toy, n, name).examples for name, n in (("train", 24), ("dev!", 16), ("tests", 20))]
    data = Splits(*([Example(e.text, None, toy.labels[i % 2]) for i, e in enumerate(part)] for part in parts))
    result = heedful.study(study, data, model=(toy.model, toy.tokenizer))
    assert {r.method for r in result.result.rows} == {"original", *METHODS}
