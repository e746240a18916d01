"""Variants of a model: what they change, and what is measured of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from torch import Tensor

from heedful.maths.activations import ACTIVATIONS, Activation
from heedful.model.classifier import Classifier
from heedful.nets.transformer import with_activation
from heedful.studies.key_adversary import original_pass, pooled_pass
from heedful.studies.key_changes import KeyChanges, Variant, pooled_row
from tests.model.test_keys import transformer
from tests.studies.test_key_adversary import texts
from tests.support.models import shared


def changed(classifier: Classifier, draws: int = 1) -> KeyChanges:
    return KeyChanges(classifier, len(classifier.sites), {}, draws, seed=0)


def logits_of(classifier: Classifier, variant: Variant) -> Tensor:
    changes, part = changed(classifier), texts(classifier, 5)
    original = original_pass(classifier, part.tokens)
    return changes.run(variant, original, part.tokens).logits


@pytest.mark.parametrize(("own", "other"), [("softmax", "entmax15"), ("entmax15", "softmax"), ("sparsemax", "softmax")])
def test_a_change_of_activation_in_all_layers_is_the_network_with_that_activation(
    own: Activation, other: Activation
) -> None:
    classifier = transformer(activation=own)
    twin = Classifier(with_activation(classifier.model, other), classifier.tokenizer)
    part = texts(classifier, 5)
    with torch.no_grad():
        wanted = twin.logits(twin.batch(part.tokens))
    assert torch.allclose(logits_of(classifier, Variant("activation", "all")), wanted, atol=1e-4)


@pytest.mark.parametrize("own", ["softmax", "entmax15"])
def test_a_change_of_activation_in_one_layer_leaves_the_layer_below(own: Activation) -> None:
    classifier = transformer(activation=own)
    changes, part = changed(classifier), texts(classifier, 5)
    original = original_pass(classifier, part.tokens)
    after = changes.run(Variant("activation", 1), original, part.tokens)
    assert torch.allclose(after.weights[0], original.weights[0], atol=1e-5)
    assert not torch.allclose(after.weights[1], original.weights[1], atol=1e-2)


def test_permuted_keys_are_the_keys_of_the_same_text_in_another_order() -> None:
    classifier = transformer()
    changes, part = changed(classifier), texts(classifier, 5)
    original = original_pass(classifier, part.tokens)
    after = changes.run(Variant("permuted", 0), original, part.tokens)
    for i, tokens in enumerate(part.tokens):
        mine, own = (np.sort(p.keys[0][i, : len(tokens)].numpy(), 0) for p in (after, original))
        assert np.array_equal(mine, own)
    assert not torch.equal(after.keys[0], original.keys[0])


def test_the_order_of_a_text_does_not_depend_on_its_batch() -> None:
    classifier = transformer()
    changes, part = changed(classifier), texts(classifier, 5)
    variant = Variant("permuted", "all")
    together = changes.run(variant, original_pass(classifier, part.tokens), part.tokens).logits
    alone = [changes.run(variant, original_pass(classifier, [t]), [t]).logits[0] for t in part.tokens]
    assert torch.allclose(together, torch.stack(alone), atol=1e-4)


def test_scores_are_in_the_order_of_the_texts() -> None:
    classifier = transformer()
    part, variants = texts(classifier, 7), [Variant("permuted", "all")]
    table = changed(classifier).scores(part, variants)["permuted all layers"]
    single = [changed(classifier).scores(part.take([i]), variants)["permuted all layers"] for i in range(7)]
    for measure in ("attention jsd", "tvd", "key distance"):
        assert table[measure] == pytest.approx(np.concatenate([one[measure] for one in single]), abs=1e-4)


def test_a_model_with_its_own_activation_has_distance_zero_from_itself() -> None:
    part = texts(transformer(), 4)
    changes = changed(transformer())
    original, pooled = pooled_pass(transformer(), part.tokens)
    measures = changes._measures(original, original, pooled, part.gold)
    assert max(measures[name].max() for name in ("attention jsd", "attention tvd", "tvd", "pooled jsd")) < 1e-12
    assert measures["agreement"].min() == measures["accuracy"].min() == 1


def test_the_pooled_row_is_that_of_the_first_token_of_bert_and_the_mean_of_a_sum() -> None:
    for classifier, queries in ((shared("bert"), slice(0, 1)), (transformer(), slice(None))):
        original, pooled = pooled_pass(classifier, [classifier.tokens("good film")])
        weights = original.weights[-1].double()
        assert torch.allclose(pooled_row(weights, pooled.double()), weights[:, :, queries].mean((1, 2)), atol=1e-6)


def test_the_pooled_divergence_is_that_of_the_first_row_of_bert_head_by_head() -> None:
    classifier = shared("bert")
    part, changes = texts(classifier, 4), changed(classifier)
    original, pooled = pooled_pass(classifier, part.tokens)
    after = changes.run(Variant("permuted", "all"), original, part.tokens)
    rows = [p.weights[-1][:, :, 0].numpy() for p in (after, original)]
    twin = (jensenshannon(*rows, axis=-1) ** 2).mean(1)
    assert changes._measures(after, original, pooled, part.gold)["pooled jsd"] == pytest.approx(twin, abs=1e-5)


def test_a_change_of_activation_of_another_family_is_entmax_of_its_scores() -> None:
    classifier = shared("bert")
    changes, part = changed(classifier), texts(classifier, 3)
    original = original_pass(classifier, part.tokens)
    after = changes.run(Variant("activation", 0), original, part.tokens)
    for i, tokens in enumerate(part.tokens):
        own = original.weights[0][i, :, : len(tokens), : len(tokens)]
        mine = after.weights[0][i, :, : len(tokens), : len(tokens)]
        assert torch.allclose(mine, ACTIVATIONS["entmax15"](own.log(), -1), atol=1e-5)
