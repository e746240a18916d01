"""Uniform: attention made uniform, and other activations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from heedful.checks.interventions import Movable
from heedful.checks.uniform import Uniform, activation_edit, uniform_edit
from heedful.core.errors import BadInput
from heedful.maths.distances import changes
from heedful.model import edits
from heedful.model.classifier import Classifier
from heedful.nets.transformer import with_activation
from tests.support.interventions import (
    ALL,
    FULL,
    MASKS,
    WORDS,
    answer,
    case_of,
    single,
    site,
    tokens_of,
    toy,
    transformer,
    tvd,
    value,
    weights_for,
)
from tests.support.models import shared
from tests.support.toys import ARCHITECTURES, BAG_TOY, POINTER


def test_an_unknown_activation() -> None:
    with pytest.raises(BadInput, match=r"^activations is 'softmax', 'sparsemax', 'entmax15' or several"):
        Uniform(activations=("relu",))  # type: ignore[arg-type]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_bag_is_uniform_already(architecture: str) -> None:
    found = Uniform(activations=())(case_of(toy(architecture, BAG_TOY), WORDS))
    assert max(f.value for f in found if f.measure in ("tvd", "tvd to uniform")) < 1e-6


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_pointer_is_as_far_from_uniform_as_can_be(architecture: str) -> None:
    case = case_of(toy(architecture, POINTER), WORDS)
    last = max(f.value for f in Uniform()(case) if f.measure == "tvd to uniform")
    assert last == pytest.approx(1 - 1 / len(case.tokens), abs=0.05)


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("family", ["bert", "gpt2", "bart", "modernbert"])
def test_the_distance_from_uniform_by_hand(family: str, special: bool) -> None:
    classifier = shared(family)
    case = case_of(classifier)
    reading = classifier.read(classifier.batch([case.tokens]))
    marks = np.zeros(len(case.tokens), bool) if special else np.array(case.tokens.special)
    for layer, where in enumerate(reading.layers(classifier.main_kind)):
        total = 0.0
        weights, pooled = reading.weights[where][0].detach().double().numpy(), reading.pooled[0].detach().numpy()
        for q, share in enumerate(pooled):
            free = where.allowed[0, 0, q].numpy() & ~marks
            for head in weights:
                row = head[q][free]
                total += share / len(weights) * np.abs(row - row.sum() / max(1, len(row))).sum() / 2
        found = Uniform(special)(case)
        assert value(found, "tvd to uniform", {"layer": layer, "head": "all"}) == pytest.approx(total, abs=1e-6)


def test_uniform_attention_leaves_special_tokens_alone() -> None:
    old = weights_for(FULL)
    new = uniform_edit(Movable(tokens_of(5), special=False))(site(FULL), old)
    inside = old[..., 1:4].mean(-1, keepdim=True).expand(-1, -1, -1, 3)
    assert torch.allclose(new[..., 1:4], inside)
    assert torch.equal(new[..., [0, 4]], old[..., [0, 4]])


def test_uniform_is_the_edit() -> None:
    case = case_of(shared("bert"))
    found = Uniform()(case)
    assert value(found, "tvd", ALL) == pytest.approx(tvd(case.classifier, case, edits.uniform), abs=1e-6)


@pytest.mark.parametrize("make", [transformer, single])
@pytest.mark.parametrize("name", ["entmax15", "sparsemax"])
def test_another_activation_is_that_of_the_network(make: Any, name: Any) -> None:
    """From the logarithm of softmax weights, or in the network itself."""
    classifier = make()
    case = case_of(classifier)
    inside = with_activation(classifier.model, name)
    with torch.no_grad():
        true = Classifier(inside, classifier.tokenizer).logits(classifier.batch([case.tokens]))[0]
    assert torch.allclose(answer(classifier, case, activation_edit(name)), true, atol=2e-6)
    apart = float(changes(true[None], answer(classifier, case, None), "softmax").tvd[0])
    assert apart > 1e-3
    assert value(Uniform()(case), "tvd", {"activation": name}) == pytest.approx(apart, abs=1e-6)


@pytest.mark.parametrize("make", [transformer, single])
def test_a_sparse_network_gets_its_softmax_back(make: Any) -> None:
    classifier = make(activation="sparsemax")
    case = case_of(classifier)
    found = Uniform()(case)
    dense = Classifier(with_activation(classifier.model, "softmax"), classifier.tokenizer)
    with torch.no_grad():
        true = dense.logits(classifier.batch([case.tokens]))
    apart = float(changes(true, answer(classifier, case, None), "softmax").tvd[0])
    assert value(found, "tvd", {"activation": "softmax"}) == pytest.approx(apart, abs=1e-6)
    assert {f.at["activation"] for f in found if "activation" in f.at} == {"softmax", "entmax15"}
    before = classifier.forwards
    Uniform()(case)
    assert classifier.forwards - before == Uniform().passes(classifier, case.tokens, {}).forwards


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", ["entmax15", "sparsemax"])
def test_sparse_weights_go_where_they_may(mask: str, name: Any) -> None:
    allowed = MASKS[mask]
    found = activation_edit(name)(site(allowed), weights_for(allowed))
    assert torch.allclose(found.sum(-1), torch.ones(()))
    assert not found[:, :, ~allowed].any()
