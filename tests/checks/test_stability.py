"""Stability: other seeds, more samples, other checkpoints."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from heedful.checks import similarity as alike
from heedful.checks.base import Case
from heedful.checks.stability import Stability, sampled
from heedful.checks.tables import StabilityTables
from heedful.core.arrays import Floats, Ints
from heedful.core.errors import BadInput
from heedful.methods import method
from heedful.methods.explain import run_method
from heedful.model.classifier import Classifier
from heedful.model.function import Plain
from tests.support import cases, models
from tests.support.findings import FAST, TEXT, answering, value


def with_others(case: Case, **others: Classifier) -> Case:
    return replace(case, others=others)


def test_a_method_without_chance_is_exactly_itself_with_another_seed() -> None:
    found = Stability()(cases.one(models.shared("bert"), TEXT, FAST))
    assert value(found, "tau", "gradient-x-input", with_="seed") == pytest.approx(1)
    assert value(found, "distance", "gradient-x-input", with_="seed") == 0
    assert value(found, "jsd", "gradient-x-input", with_="seed") == 0


def test_a_method_that_draws_is_compared_over_seeds() -> None:
    lime = method("lime", {"samples": 40})
    case = cases.one(models.shared("bilstm"), TEXT, (lime, "random"))
    why = case.attributions["lime"]
    others = [run_method(case.classifier, lime, [case.tokens], [case.target], seed)[0] for seed in (1, 2, 3)]
    expected = np.mean([alike.compare_explanations(case, why, other).values["distance"] for other in others])
    found = Stability()(case)
    assert value(found, "distance", "lime", with_="seed") == pytest.approx(expected)
    assert expected > 0


def test_more_samples_bring_an_estimate_nearer() -> None:
    """With many more samples, lime is nearer to itself with another seed than with few."""
    sizes = []
    for samples in (30, 1000):
        case = cases.one(models.shared("bilstm"), TEXT, (method("lime", {"samples": samples}),))
        sizes.append(value(Stability()(case), "distance", "lime", with_="seed"))
    assert sizes[1] < sizes[0]


def test_settings_that_are_multiplied() -> None:
    assert sampled(method("lime", {"samples": 50}), 2) == method("lime", {"samples": 100})
    assert sampled(method("integrated-gradients", {"steps": 4}), 3) == method("integrated-gradients", {"steps": 12})
    assert sampled(method("lime", {"samples": "auto"}), 2) is None
    assert sampled(method("gradient-l2"), 2) is None


def test_the_same_checkpoint_is_no_change() -> None:
    case = cases.one(models.shared("bert"), TEXT, FAST)
    found = Stability(seeds=1)(with_others(case, twin=models.build("bert")))
    assert value(found, "output change", with_="checkpoint:twin") == 0
    assert value(found, "attention jsd", with_="checkpoints") == 0
    assert value(found, "distance", "gradient-x-input", with_="checkpoint:twin") == 0


@pytest.mark.parametrize("family", ["bert", "bilstm"])
def test_another_checkpoint_is_compared_word_by_word(family: str) -> None:
    case = cases.one(models.shared(family), TEXT, FAST)
    others = {f"s{i}": models.build(family, seed=i) for i in (1, 2, 3)}
    found = Stability(seeds=1)(with_others(case, **others))
    whys = [run_method(o, method("attention-mean"), [case.tokens], [case.target], 0)[0] for o in others.values()]
    jsds = [alike.compare_explanations(case, case.attributions["attention-mean"], why).values["jsd"] for why in whys]
    said = [torch.tensor(o.predictions([case.tokens])[0].probabilities) for o in others.values()]
    own = torch.tensor(case.prediction.probabilities)
    assert value(found, "attention jsd", with_="checkpoints") == pytest.approx(np.median(jsds))
    assert value(found, "output change", with_="checkpoint:s1") == pytest.approx(float((said[0] - own).abs().sum() / 2))


def test_labels_are_matched_by_name() -> None:
    """The same network with its labels in another order gives the same answers, so nothing changes."""
    twin = models.build("bilstm")
    twin.model.config.labels = ("LABEL_2", "LABEL_0", "LABEL_1")
    with torch.no_grad():
        for p in (twin.model.decoder.weight, twin.model.decoder.bias):
            p.copy_(p[[2, 0, 1]].clone())
    found = Stability(seeds=1)(with_others(cases.one(models.shared("bilstm"), TEXT, FAST), twin=twin))
    assert value(found, "output change", with_="checkpoint:twin") == pytest.approx(0, abs=1e-7)
    assert value(found, "distance", "gradient-x-input", with_="checkpoint:twin") == pytest.approx(0, abs=1e-6)


def test_a_checkpoint_with_other_labels_is_a_number_that_does_not_exist() -> None:
    case = with_others(cases.one(models.shared("bilstm"), TEXT, FAST), four=models.build("bilstm", labels=4))
    found = Stability(seeds=1)(case)
    (change,) = [f for f in found if f.measure == "output change"]
    assert math.isnan(change.value)
    assert "give checkpoints of the same training" in change.details["reason"]
    assert math.isnan(value(found, "tau", "gradient-x-input", with_="checkpoint:four"))


def test_another_vocabulary_is_compared_on_words() -> None:
    case = with_others(cases.one(models.shared("bert"), "good film story", FAST), other=models.build("roberta"))
    found = Stability(seeds=1)(case)
    assert not math.isnan(value(found, "tau", "gradient-x-input", with_="checkpoint:other"))
    assert value(found, "tau", "position", with_="checkpoint:other") <= 1


def test_a_checkpoint_that_reads_fewer_words_has_a_reason_and_no_number() -> None:
    other = models.build("bert")
    other.limit = 6
    found = Stability(seeds=1)(with_others(cases.one(models.shared("bert"), TEXT, FAST), short=other))
    (tau,) = [f for f in found if (f.measure, f.method, f.at) == ("tau", "position", {"with": "checkpoint:short"})]
    assert math.isnan(tau.value)
    assert "different words" in tau.details["reason"]


def test_a_function_has_no_attention_to_compare() -> None:
    case = cases.one(Plain(answering), "a good film", ("leave-one-out", "random"))
    found = Stability(seeds=1)(with_others(case, twin=Plain(answering)))
    assert value(found, "output change", with_="checkpoint:twin") == 0
    assert math.isnan(value(found, "attention jsd", with_="checkpoints"))
    assert value(found, "distance", "leave-one-out", with_="checkpoint:twin") == 0


class Stand:
    """Found, as far as tables need it."""

    def __init__(self, jsd: Floats, largest: Floats, predicted: Ints) -> None:
        self.jsd, self.largest = jsd, largest
        self.texts = {"predicted": predicted}
        self.labels = ("neg", "pos")

    def values(self, measure: str, method: str = "", at: Any = None) -> Floats:
        return self.jsd if (measure, at) == ("attention jsd", {"with": "checkpoints"}) else self.largest


def test_the_table_of_divergence_by_attention_and_label() -> None:
    rng = np.random.default_rng(0)
    jsd, largest, predicted = rng.random(200), rng.random(200), rng.integers(0, 2, 200)
    jsd[::7] = np.nan
    largest[3] = 1.0
    rows = Stability().tables(Stand(jsd, largest, predicted)).attention_jsd  # type: ignore[arg-type]
    twin = {
        (name, low): [
            j for j, a, p in zip(jsd, largest, predicted, strict=True)
            if p == label and min(int(a * 4), 3) == low and not math.isnan(j)
        ]
        for label, name in enumerate(("neg", "pos")) for low in range(4)
    }  # fmt: skip
    assert [r.n for r in rows] == [len(x) for x in twin.values()]
    assert [r.median for r in rows] == pytest.approx([np.median(x) for x in twin.values()])


def test_without_checkpoints_there_is_no_table() -> None:
    nothing = np.full(3, np.nan)
    assert Stability().tables(Stand(nothing, nothing, np.zeros(3, np.int64))) == StabilityTables()  # type: ignore[arg-type]


def test_stability_costs_no_more_than_it_says() -> None:
    lime = method("lime", {"samples": 40})
    case = cases.one(models.build("bilstm"), TEXT, (lime, "gradient-x-input", "random"))
    said = Stability().passes(case.classifier, case.tokens, case.methods)
    before = case.classifier.forwards
    Stability()(case)
    assert 0 < case.classifier.forwards - before <= said.forwards


@pytest.mark.parametrize("settings", [{"seeds": 0}, {"factor": 1}])
def test_stability_refuses_what_means_nothing(settings: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=next(iter(settings))):
        Stability(**settings)
