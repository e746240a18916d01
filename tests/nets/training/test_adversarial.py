"""Adversarial training: its loss by hand, masked before the logarithm; gradients of every kind of model; same bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import heedful
from heedful.core.errors import BadInput, Unsupported
from heedful.data import Example, Splits
from heedful.maths.distances import attention_divergence
from heedful.model.classifier import Classifier
from heedful.nets.training.adversarial import (
    AdversarialJob,
    AdversaryPlan,
    BaseOutputs,
    Direction,
    Layers,
    Objective,
    adversarial_job,
    train_adversary,
)
from heedful.nets.training.loop import fit
from heedful.nets.training.recipes import RECIPES
from heedful.nets.training.train import train
from tests.nets.training.test_train import sentences
from tests.support.models import TEXTS, build
from tests.support.parameters import mostly_thorough

SMALL: dict[str, Any] = {"spread": 1.0, "embedding": 12, "hidden": 8, "lr": 0.02, "batch": 16}


@pytest.fixture(autouse=True)
def _no_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.nets.training.train.find_spec", lambda name: None)


def splits(pairs: bool = False, labels: int = 2) -> Splits:
    def part(n: int, seed: int) -> list[Example]:
        made = sentences(n, seed, pairs)
        return made if labels == 2 else [replace(e, label=str(i % labels)) for i, e in enumerate(made)]

    return Splits(part(48, 1), part(24, 2), part(24, 3))


def base(folder: Path, recipe: str = "average", labels: int = 2, **more: Any) -> Classifier:
    data = splits(recipe.endswith("-pair"), labels)
    classifier: Classifier = train(recipe, data, folder / "base", SMALL | {"epochs": 2} | more).classifier
    return classifier


def plan(classifier: Classifier, recipe: str = "average", labels: int = 2, **more: Any) -> AdversaryPlan:
    settings = RECIPES[recipe].settings(SMALL | {"epochs": 3, "seed": 7} | more)
    return AdversaryPlan(classifier, settings, splits(recipe.endswith("-pair"), labels))


def job(made: AdversaryPlan, objective: Objective) -> AdversarialJob:
    return adversarial_job(made, objective, made.outputs(objective.layers))[0]


# the divergence


def by_hand(p: Any, q: Any) -> float:
    return float(sum(a * np.log(a / b) for a, b in zip(p, q, strict=True) if a > 0))


def test_the_divergence_is_the_sum_over_allowed_keys_of_p_log_p_over_q() -> None:
    p, q = torch.tensor([[[0.2, 0.8, 0.0]]]), torch.tensor([[[0.6, 0.4, 0.0]]])
    allowed = torch.tensor([[[True, True, False]]])
    assert float(attention_divergence(p, q, allowed)) == pytest.approx(by_hand([0.2, 0.8], [0.6, 0.4]), abs=1e-6)
    assert float(attention_divergence(q, p, allowed)) == pytest.approx(by_hand([0.6, 0.4], [0.2, 0.8]), abs=1e-6)


def test_the_divergence_is_torchs_where_all_weights_are_positive() -> None:
    p, q = (torch.randn(3, 2, 5, generator=torch.Generator().manual_seed(i)).softmax(-1) for i in (0, 1))
    reference = torch.nn.functional.kl_div(q.log(), p, reduction="none").sum(-1).mean(-1)
    torch.testing.assert_close(attention_divergence(p, q, torch.ones_like(p, dtype=torch.bool)), reference)


def test_weights_of_zero_have_a_finite_divergence_and_gradient_in_both_directions() -> None:
    p = torch.tensor([[[0.0, 1.0, 0.0]]], requires_grad=True)
    q = torch.tensor([[[1.0, 0.0, 0.0]]], requires_grad=True)
    allowed = torch.tensor([[[True, True, False]]])
    both = attention_divergence(p, q, allowed) + attention_divergence(q, p, allowed)
    slopes = torch.autograd.grad(both.sum(), [p, q])
    assert all(torch.isfinite(x).all() for x in (both, *slopes))


# the loss


@pytest.mark.parametrize("direction", ["adversary-base", "base-adversary"])
@pytest.mark.parametrize(
    ("recipe", "labels"),
    mostly_thorough(
        (("average", 2), ("bilstm", 3), ("cnn", 2), ("average-pair", 2), ("bilstm-pair", 3)),
        (("average", 2), ("average-pair", 2)),
    ),
)
def test_the_loss_is_that_of_a_slow_twin(recipe: str, labels: int, direction: Direction, tmp_path: Path) -> None:
    classifier = base(tmp_path, recipe, labels)
    objective = Objective(0.3, direction)
    made = job(plan(classifier, recipe, labels), objective)
    group = np.arange(5)
    loss = float(made.loss(group).detach())
    tvd, kl = [], []
    for i in group:  # one text at a time, without padding
        rows = made.train.texts.rows(np.array([i]))
        inputs = (rows.ids, rows.mask, rows.types)
        models: tuple[Any, Any] = (made.adversary.model, classifier.model)
        with torch.no_grad():
            ours, theirs = ((m(*inputs).logits[0].double(), m.attend(*inputs)[0]) for m in models)
        p, q = (_chances(logits) for logits, _ in (ours, theirs))
        tvd.append(np.abs(p - q).sum() / 2)
        a, b = (weights[weights > 0].double().numpy() for _, weights in (ours, theirs))
        kl.append(by_hand(a, b) if direction == "adversary-base" else by_hand(b, a))
    assert loss == pytest.approx(np.mean(tvd) - 0.3 * np.mean(kl), abs=1e-5)


def _chances(logits: Tensor) -> Any:
    wide = torch.tensor([0.0, float(logits[0])], dtype=torch.float64) if len(logits) == 1 else logits
    return wide.softmax(-1).numpy()


@pytest.mark.parametrize("activation", ["sparsemax", "entmax15"])
def test_sparse_attention_is_trained_without_nan(activation: str, tmp_path: Path) -> None:
    made = plan(base(tmp_path, activation=activation), activation=activation)
    scores = train_adversary(made, Objective(1.0), made.outputs("last"), tmp_path / "adversary")
    assert all(np.isfinite(x) for x in scores.values())


def test_without_a_divergence_the_adversary_learns_the_base_models_predictions(tmp_path: Path) -> None:
    data = splits()
    data = Splits(data.train, data.train, data.test)
    settings = RECIPES["average"].settings(SMALL | {"epochs": 40, "seed": 7})
    made = AdversaryPlan(base(tmp_path), settings, data)
    assert train_adversary(made, Objective(0.0), made.outputs("last"), tmp_path / "adversary")["tvd"] < 0.02


def test_a_larger_strength_moves_attention_farther(tmp_path: Path) -> None:
    made = plan(base(tmp_path))
    outputs = made.outputs("last")
    near, far = (train_adversary(made, Objective(x), outputs, tmp_path / f"adversary {x}")["jsd"] for x in (0.0, 1.0))
    assert far > near + 0.1


def test_the_epoch_with_the_lowest_loss_on_dev_is_kept(tmp_path: Path) -> None:
    made = plan(base(tmp_path))
    one, setup = adversarial_job(made, Objective(0.05), made.outputs("last"))
    fitted = fit(one, setup.job.settings, tmp_path)
    losses = [-row["negative loss"] for row in fitted.history]
    assert fitted.best == int(np.argmin(losses)) + 1
    with torch.no_grad():
        terms = one.terms(one.dev, np.arange(len(one.dev.texts)))[0]
    assert float(terms.loss) == pytest.approx(min(losses), abs=1e-5)


# any model


@pytest.mark.parametrize("layers", ["last", "all"])
@pytest.mark.parametrize("family", mostly_thorough(("bert", "distilbert", "roberta", "bart", "xlnet"), ("bert",)))
def test_one_step_moves_the_attention_of_a_transformer(family: str, layers: Layers) -> None:
    classifier = build(family, labels=2)
    examples = [Example(text, None, classifier.labels[i % 2]) for i, text in enumerate(TEXTS * 2)]
    settings = RECIPES["finetune"].settings({"lr": 1e-2, "epochs": 1})
    made = AdversaryPlan(classifier, settings, Splits(examples, examples, []), fresh=False)
    one = job(made, Objective(1.0, layers=layers))
    group = np.arange(len(examples))
    one.model.eval()  # no dropout: the copy starts as the base model itself
    assert float(one.terms(one.train, group)[0].kl.detach().max()) < 1e-5
    with torch.no_grad():
        for p in one.model.parameters():  # away from the minimum of KL, where its gradient is zero
            p.add_(0.05 * torch.randn(p.shape, generator=torch.Generator().manual_seed(0)))
    before = one.terms(one.train, group)[0]
    before.loss.backward()  # type: ignore[no-untyped-call]
    queries = [
        p for name, p in one.model.named_parameters() if "q" in name.lower() and p.ndim > 1 and p.grad is not None
    ]
    assert any(float(p.grad.abs().max()) > 0 for p in queries if p.grad is not None)
    torch.optim.SGD(one.model.parameters(), lr=0.05).step()
    after = one.terms(one.train, group)[0]
    assert float(after.kl.detach().mean()) > float(before.kl.detach().mean())


def test_the_base_model_is_left_as_it_was() -> None:
    classifier = build("bert", labels=2)
    examples = [Example(text, None, classifier.labels[i % 2]) for i, text in enumerate(TEXTS)]
    before = classifier.fingerprint
    made = AdversaryPlan(classifier, RECIPES["finetune"].settings({}), Splits(examples, examples, []), fresh=False)
    job(made, Objective(1.0)).loss(np.arange(4)).backward()  # type: ignore[no-untyped-call]
    assert classifier.fingerprint == before
    assert all(p.grad is None for p in classifier.model.parameters())


def test_the_outputs_of_the_base_model_are_those_of_each_text_by_itself(tmp_path: Path) -> None:
    classifier = base(tmp_path, "bilstm")
    outputs = plan(classifier, "bilstm").outputs("last")[0]
    logits, attention, _ = outputs.rows(np.array([3, 0]))
    for row, i in enumerate((3, 0)):
        one = outputs.texts.rows(np.array([i]))
        weights = classifier.model.attend(one.ids, one.mask, one.types)[0]
        torch.testing.assert_close(attention[row, 0, : len(weights)], weights, atol=1e-6, rtol=1e-5)
        with torch.no_grad():
            torch.testing.assert_close(
                logits[row, 1], classifier.model(one.ids, one.mask, one.types).logits[0, 0], atol=1e-5, rtol=1e-5
            )


def test_a_network_with_two_levels_of_attention_is_refused(tmp_path: Path) -> None:
    small = {"embedding": 12, "hidden": 6, "min_count": 1, "epochs": 1}
    classifier = train("han-rnn", splits(), tmp_path / "base", small).classifier
    made = AdversaryPlan(classifier, RECIPES["han-rnn"].settings(small), splits())
    with pytest.raises(Unsupported, match="over sentences"):
        made.outputs("last")


# the folder


def test_an_adversary_is_a_model_folder_that_says_what_it_is(tmp_path: Path) -> None:
    made = plan(base(tmp_path))
    train_adversary(made, Objective(0.2, "base-adversary"), made.outputs("last"), tmp_path / "adversary")
    record = json.loads((tmp_path / "adversary" / "training.json").read_text())
    assert record["recipe"] == "adversarial"
    assert record["adversary"]["strength"] == 0.2
    assert record["adversary"]["base"] == made.base.fingerprint
    assert heedful.load(tmp_path / "adversary").labels == made.base.labels


def test_a_killed_adversary_ends_with_the_same_bytes(tmp_path: Path) -> None:
    made = plan(base(tmp_path))
    outputs: tuple[BaseOutputs, BaseOutputs] = made.outputs("last")

    def kill(now: Any) -> None:
        if now.epoch == 1 and now.step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_adversary(made, Objective(0.1), outputs, tmp_path / "killed", kill)
    for folder in ("killed", "whole"):
        train_adversary(made, Objective(0.1), outputs, tmp_path / folder)
    for file in ("model.safetensors", "heedful.json", "training.json", "training.jsonl"):
        assert (tmp_path / "killed" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file


def test_an_unfinished_adversary_with_another_strength_is_not_resumed(tmp_path: Path) -> None:
    made = plan(base(tmp_path))
    outputs = made.outputs("last")

    def kill(now: Any) -> None:
        if now.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_adversary(made, Objective(0.1), outputs, tmp_path / "adversary", kill)
    with pytest.raises(BadInput, match="other settings or data"):
        train_adversary(made, Objective(0.2), outputs, tmp_path / "adversary")


def test_a_negative_strength_is_refused() -> None:
    with pytest.raises(BadInput, match="strength is a number of at least 0"):
        Objective(-0.1)
