"""Randomisation: the stages of a model, and the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.spatial.distance
import scipy.stats
import torch

from heedful.checks import similarity as alike
from heedful.checks.randomisation import Randomisation, copied, randomise, staged
from heedful.core.errors import BadInput, Unsupported
from heedful.methods.explain import run_method
from heedful.methods.shapley import Shapley
from heedful.model.classifier import Classifier
from heedful.model.function import Plain
from heedful.nets.hierarchical import Hierarchical, HierarchicalShape
from heedful.nets.transformer import Transformer, TransformerShape
from tests.support import cases, models, toys
from tests.support.findings import FAST, TEXT, answering, net, value


@pytest.mark.parametrize("family", models.DIVERSE)
def test_every_weight_is_in_one_stage(family: str) -> None:
    classifier = models.shared(family)
    tensors = [id(t) for stage in staged(classifier) for t in stage.tensors.values()]
    assert sorted(tensors) == sorted(id(p) for p in classifier.model.parameters())


def names(classifier: Classifier) -> list[str]:
    return [stage.name.split(".")[-1] if "layer" in stage.name else stage.name for stage in staged(classifier)]


def test_stages_go_from_the_head_down() -> None:
    n = len(models.tokenizer("wordpiece"))
    assert names(models.shared("bert")) == ["head", "1", "0", "embeddings"]
    assert names(models.shared("bart")) == ["head", "1", "0", "1", "0", "embeddings"]
    assert names(models.shared("bilstm")) == ["decoder", "score", "encoder", "words"]
    assert names(models.shared("multihead")) == ["out", "value", "key", "query", "words"]
    assert names(net(Hierarchical(HierarchicalShape(n, 3, embedding=8, hidden=4)))) == [
        "out", "sentence_level", "word_level", "words",
    ]  # fmt: skip


def test_a_transformer_goes_block_by_block() -> None:
    n = len(models.tokenizer("wordpiece"))
    shape = TransformerShape(n, 3, width=8, inner=8, heads=2, layers=2)
    assert names(net(Transformer(shape))) == ["head", "blocks.1", "blocks.0", "embeddings"]


def test_what_stands_between_blocks_goes_with_the_one_before() -> None:
    stages = {name: stage for stage in staged(models.shared("t5")) for name in stage.tensors}
    assert stages["transformer.encoder.final_layer_norm.weight"].name == "transformer.encoder.block.1"


def test_shuffled_weights_are_the_same_numbers_elsewhere() -> None:
    tensor = torch.arange(24.0).reshape(4, 6)
    randomise({"w": tensor}, "shuffle", 0)
    assert tensor.flatten().sort().values.tolist() == list(range(24))
    assert tensor.flatten().tolist() != list(range(24))


def test_normal_weights_have_the_mean_and_spread_of_the_old() -> None:
    tensor = torch.linspace(-1, 7, 20_000)
    mean, spread = float(tensor.mean()), float(tensor.std())
    randomise({"w": tensor}, "normal", 0)
    assert float(tensor.mean()) == pytest.approx(mean, abs=0.05)
    assert float(tensor.std()) == pytest.approx(spread, rel=0.02)


def test_chance_is_of_the_seed_and_the_name() -> None:
    made = [torch.arange(50.0) for _ in range(4)]
    for tensor, name, seed in zip(made, "aaab", (0, 0, 1, 0), strict=True):
        randomise({name: tensor}, "shuffle", seed)
    assert [bool((made[0] == other).all()) for other in made[1:]] == [True, False, False]


def test_a_copy_with_nothing_randomised_says_the_same() -> None:
    case = cases.one(models.shared("bert"), TEXT, FAST)
    copy = Classifier(copied(case.classifier), case.classifier.tokenizer)
    randomise({}, "shuffle", 0)
    (why,) = run_method(copy, case.methods["gradient-x-input"], [case.tokens], [case.target])
    assert alike.compare_explanations(case, case.attributions["gradient-x-input"], why).values["tau"] == pytest.approx(
        1
    )


@pytest.mark.parametrize("family", ["bert", "bilstm", "multihead", "bart"])
def test_the_users_model_is_never_changed(family: str) -> None:
    classifier = models.build(family)
    before = classifier.fingerprint
    Randomisation(stages=2)(cases.one(classifier, TEXT, FAST))
    assert classifier.fingerprint == before
    assert not any(m._forward_pre_hooks for m in classifier.model.modules())


def test_the_users_model_is_not_changed_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = models.build("bert")
    case, before = cases.one(classifier, TEXT, FAST), classifier.fingerprint

    def broken(*_: Any) -> None:
        raise BadInput("on purpose.")

    monkeypatch.setattr(Randomisation, "_stage", broken)
    with pytest.raises(BadInput):
        Randomisation()(case)
    assert classifier.fingerprint == before


@pytest.mark.parametrize("family", ["bert", "bilstm"])
def test_another_model_gives_another_explanation(family: str) -> None:
    found = Randomisation()(cases.one(models.shared(family), TEXT, FAST))
    assert value(found, "similarity of fully random", "gradient-x-input") < 0.9
    assert value(found, "output change", stage=4, layers="all") > 0


def test_attention_does_not_see_the_head() -> None:
    """What is above attention cannot change it: the first stage of a network whose head is apart leaves it whole."""
    found = Randomisation()(cases.one(models.shared("bilstm"), TEXT, FAST))
    assert value(found, "tau", "attention-mean", stage=1, layers="decoder") == pytest.approx(1)
    assert value(found, "jsd", "attention-mean", stage=1, layers="decoder") == pytest.approx(0, abs=1e-9)
    assert value(found, "tau", "attention-mean", stage=2, layers="score") < 1


def test_a_pointer_toys_attention_goes_with_its_layer() -> None:
    text = "ape bee yes cat dog elk fox gnu"
    found = Randomisation()(cases.one(toys.build("bert", toys.POINTER), text, FAST))
    assert value(found, "jsd", "attention-mean", stage=1, layers="head") == pytest.approx(0, abs=1e-9)
    assert value(found, "jsd", "attention-mean", stage=2, layers="bert.encoder.layer.1") > 0.1


def test_position_knows_nothing_of_the_model() -> None:
    found = Randomisation(stages=1)(cases.one(models.shared("bert"), TEXT, FAST))
    assert value(found, "similarity of fully random", "position") == pytest.approx(1)


def test_unrelated_explanations_stand_beside_each_stage() -> None:
    case = cases.one(models.shared("bert"), TEXT, FAST)
    scores = [np.array(list(alike.word_scores(draw).values())) for draw in case.draws]
    pairs = zip(scores, scores[1:] + scores[:1], strict=True)
    expected = np.mean([scipy.stats.kendalltau(a, b).statistic for a, b in pairs])
    found = Randomisation(stages=1)(case)
    assert value(found, "tau", "random", stage=4, layers="all") == pytest.approx(expected, abs=1e-6)


def test_fewer_stages_meet_the_same_models() -> None:
    case = cases.one(models.shared("bert"), TEXT, FAST)
    every, some = Randomisation()(case), Randomisation(stages=2)(case)
    place_ = {"stage": 2, "layers": "bert.encoder.layer.1"}
    assert value(every, "tau", "gradient-x-input", **place_) == value(some, "tau", "gradient-x-input", **place_)


def test_fewer_samples_are_drawn_on_random_models_alone() -> None:
    few, many = (cases.one(models.shared("bert"), TEXT, (Shapley(samples=n),)) for n in (8, 40))
    fewer, same = Randomisation(stages=1, samples=8), Randomisation(stages=1, samples=40)
    assert fewer.passes(many.classifier, many.tokens, many.methods) == same.passes(
        few.classifier, few.tokens, few.methods
    )
    assert fewer(few) == Randomisation(stages=1)(few)
    assert same(many) == Randomisation(stages=1)(many) != fewer(many)


def test_a_function_has_no_weights() -> None:
    with pytest.raises(Unsupported, match="has no weights to randomise"):
        Randomisation()(cases.one(Plain(answering), "a good film", ("leave-one-out",)))


def test_randomisation_costs_no_more_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    case = cases.one(models.shared("bilstm"), TEXT, ("leave-one-out", "random"))
    made: list[Classifier] = []
    start = Classifier.__init__

    def counted(self: Classifier, *args: Any) -> None:
        start(self, *args)
        made.append(self)

    monkeypatch.setattr(Classifier, "__init__", counted)
    said = Randomisation().passes(case.classifier, case.tokens, case.methods)
    Randomisation()(case)
    assert 0 < sum(c.forwards for c in made) <= said.forwards


@pytest.mark.parametrize("settings", [{"stages": 0}, {"how": "noise"}])
def test_randomisation_refuses_what_means_nothing(settings: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=str(next(iter(settings.values())))):
        Randomisation(**settings)
