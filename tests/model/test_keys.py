"""Keys: found in every family or refused by name; edited exactly, in the graph, and undone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache

import pytest
import torch
from torch import Tensor

from heedful.core.errors import BadInput, Unsupported
from heedful.core.random import seeded
from heedful.maths.activations import Activation
from heedful.model.classifier import Classifier
from heedful.model.edits import Site
from heedful.model.keys import random_order, reordered, replaced_keys, shifted
from heedful.nets.transformer import Transformer, TransformerShape
from tests.support.models import EVERY, TEXTS, UNREADABLE, build, loud, shared, tokenizer

# rotations by position (or a scale) stand between the map and the score; deberta uses keys for positions too
REFUSED = {
    **dict.fromkeys(
        ("deberta-v2", "modernbert", "roformer", "llama", "qwen3", "gemma2", "mistral", "falcon", "bilstm"),
        "are not the output of a linear map",
    ),
    "deberta": "a constant added to all keys changes its attention",
    "fnet": "its attention cannot be read",
}


@cache
def transformer(labels: int = 2, layers: int = 2, activation: Activation = "softmax") -> Classifier:
    """The papers' Transformer, tiny and loud."""
    t = tokenizer("wordpiece")
    shape = TransformerShape(len(t), labels, layers=layers, heads=2, width=16, inner=24, activation=activation)
    return Classifier(loud(Transformer(shape)), t, name="tiny-transformer")


def passes(
    classifier: Classifier, edit: Callable[[Site, Tensor], Tensor] | None
) -> tuple[Tensor, dict[Site, Tensor], dict[Site, Tensor]]:
    """Logits, attention and keys of padded texts."""
    padded = classifier.padding is not None
    batch = classifier.batch([classifier.tokens(text) for text in (TEXTS if padded else TEXTS[:1])])
    with torch.no_grad(), classifier.keys(edit) as keys, classifier.attention() as seen:
        logits = classifier.logits(batch)
    return logits, seen[0], keys[0]


@pytest.mark.parametrize("family", [*EVERY, *UNREADABLE])
def test_keys_replaced_by_themselves_change_nothing_or_the_model_is_named(family: str) -> None:
    classifier = shared(family)
    if family in REFUSED:
        with pytest.raises(Unsupported, match=f"tiny-{family}.*{REFUSED[family]}"):
            classifier.check_keys()
        return
    usual, weights, keys = passes(classifier, None)
    logits, again, _ = passes(classifier, lambda site, k: k.clone())
    assert list(keys) == [Site(*site) for site in classifier.sites]
    assert torch.equal(usual, logits)
    assert all(torch.equal(weights[site], again[site]) for site in weights)


@pytest.mark.parametrize("family", [family for family in EVERY if family not in REFUSED])
def test_a_shift_of_all_keys_is_a_large_distance_and_no_change_of_attention(family: str) -> None:
    classifier = shared(family)
    usual, weights, keys = passes(classifier, None)
    width = next(iter(keys.values())).shape[-1]
    logits, again, moved = passes(classifier, shifted(10 * torch.randn(width, generator=seeded(0))))
    assert min(float((moved[site] - keys[site]).norm()) for site in keys) > 50
    assert max(float((again[site] - weights[site]).abs().max()) for site in weights) < 1e-4
    assert torch.allclose(logits, usual, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("family", [family for family in EVERY if family not in REFUSED])
def test_other_keys_change_the_attention_of_every_layer(family: str) -> None:
    classifier = shared(family)
    _, weights, _ = passes(classifier, None)
    _, again, _ = passes(classifier, lambda site, keys: -3 * keys)
    assert all(float((again[site] - weights[site]).abs().max()) > 0.01 for site in weights)


def test_a_fused_map_is_edited_in_the_columns_of_its_keys_only() -> None:
    (first, *_) = shared("gpt2").key_maps.maps
    assert first.columns is not None
    assert first.columns.tolist() == list(range(16, 32))


def test_the_attention_of_edited_keys_is_that_of_the_formula_by_hand() -> None:
    classifier = transformer(layers=1)
    tokens = classifier.tokens(TEXTS[0])
    batch, block = classifier.batch([tokens]), classifier.model.blocks[0]
    new = torch.randn(1, len(tokens), 16, generator=seeded(1))
    with torch.no_grad():
        states = classifier.model.words(batch.ids) * 16**0.5 + classifier.model.positions[: len(tokens)]
        with classifier.keys(replaced_keys({0: new})), classifier.attention() as seen:
            classifier.logits(batch)
        queries = block.query(states)[0]
        for head in range(2):
            at = slice(8 * head, 8 * head + 8)
            rows = [
                torch.stack([queries[i, at] @ new[0, j, at] / 8**0.5 for j in range(len(tokens))]).softmax(0)
                for i in range(len(tokens))
            ]
            assert torch.allclose(seen[0][Site("self", 0)][0, head], torch.stack(rows), atol=1e-5)


@pytest.mark.parametrize("family", ["bert", "xlnet"])
def test_permuted_keys_permute_the_columns_of_attention_where_no_bias_depends_on_the_position(family: str) -> None:
    classifier = shared(family)
    tokens = classifier.tokens(TEXTS[0])
    order = random_order(torch.ones(len(tokens), dtype=torch.bool), seeded(2))
    batch = classifier.batch([tokens])
    with torch.no_grad(), classifier.attention() as own:
        classifier.logits(batch)
    with torch.no_grad(), classifier.keys(reordered({0: order[None]})), classifier.attention() as seen:
        classifier.logits(batch)
    first = Site("self", 0)
    same = torch.allclose(seen[0][first], own[0][first][..., order], atol=1e-6)
    assert same == (family == "bert")  # xlnet adds a bias by relative position


def test_a_random_order_leaves_padding_in_its_place() -> None:
    real = torch.tensor([True, True, False, True, False])
    order = random_order(real, seeded(3))
    assert order[~real].tolist() == [2, 4]
    assert sorted(order[real].tolist()) == [0, 1, 3]


def test_gradients_reach_the_edit_and_the_model_is_unchanged() -> None:
    classifier = build("bert")
    model = classifier.model.train()
    before = copy.deepcopy(model.state_dict())
    flags = [p.requires_grad for p in model.parameters()], model.config._attn_implementation_internal
    factor = torch.ones(16, requires_grad=True)
    with classifier.keys(lambda site, keys: keys * factor):
        classifier.logits(classifier.batch([classifier.tokens(TEXTS[0])]))[0, 0].backward()  # type: ignore[no-untyped-call]
    assert factor.grad is not None
    assert bool((factor.grad != 0).all())
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(before[name], x) for name, x in model.state_dict().items())
    assert model.training
    assert flags == ([p.requires_grad for p in model.parameters()], model.config._attn_implementation_internal)


def test_an_edit_that_changes_the_shape_is_refused_and_all_is_undone() -> None:
    classifier = shared("bert")
    usual, _, _ = passes(classifier, None)
    with pytest.raises(BadInput, match=r"into \(4, .*, 8\).*return the same shape and dtype"):
        passes(classifier, lambda site, keys: keys[..., :8])
    assert torch.equal(passes(classifier, None)[0], usual)


def test_two_edits_at_once_are_refused() -> None:
    classifier = shared("bert")
    with classifier.keys(), pytest.raises(RuntimeError, match="already open"), classifier.keys():
        pass


def test_layers_that_share_one_map_are_edited_one_by_one() -> None:
    classifier = shared("albert")
    _, weights, _ = passes(classifier, None)
    _, again, _ = passes(classifier, lambda site, keys: -keys if site.layer == 1 else keys)
    assert torch.equal(weights[Site("self", 0)], again[Site("self", 0)])
    assert not torch.allclose(weights[Site("self", 1)], again[Site("self", 1)])


def test_the_first_use_inside_an_open_edit_finds_the_same_maps() -> None:
    classifier = build("bert")
    with classifier.attention(lambda site, weights: weights.flip(-1) * site.allowed):
        maps = classifier.key_maps.maps
    own = [layer.attention.self.key.weight for layer in classifier.model.bert.encoder.layer]
    assert all(m.weight is weight for m, weight in zip(maps, own, strict=True))
