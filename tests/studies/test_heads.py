"""The importance of heads against slow twins, and the output without heads against edits and against the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from heedful.core.errors import Unsupported
from heedful.core.target import Target
from heedful.data import Example
from heedful.methods.attattr import AttAttr
from heedful.model import edits
from heedful.model.classifier import Classifier
from heedful.model.loading import save_classifier
from heedful.studies.base import Texts, logits_of, require_heads
from heedful.studies.heads import every_head, importance, silenced_copy, silenced_logits
from heedful.studies.outcome import TextsUsed
from tests.support import models
from tests.support.models import TEXTS

HEADED = [family for family in models.EVERY if family not in ("bilstm",)]


def read(classifier: Classifier, texts: tuple[str, ...] = TEXTS) -> Texts:
    examples = tuple(Example(text, label=classifier.labels[i % 3]) for i, text in enumerate(texts))
    tokens = tuple(classifier.tokens(text) for text in texts)
    return Texts(examples, tokens, np.arange(len(texts)) % 3, TextsUsed("ranked", "dev", len(texts), ""))


@pytest.mark.parametrize("family", HEADED)
def test_silenced_logits_are_those_of_the_edit(family: str) -> None:
    c = models.shared(family)
    layers, heads = require_heads(c)
    sets = [frozenset[Any](), frozenset([(layers - 1, 0)]), frozenset([(0, 1)]), frozenset(every_head(layers, heads))]
    tokens = c.tokens(TEXTS[0])
    twin = [
        logits_of(c, [tokens], lambda _, gone=gone: edits.without_heads(gone, c.main_kind))[0]  # type: ignore[misc]
        for gone in sets
    ]
    torch.testing.assert_close(silenced_logits(c, tokens, sets, layers, heads), torch.stack(twin), atol=2e-5, rtol=1e-4)


def test_more_sets_than_fit_a_batch_come_back_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    c = models.shared("bert")
    tokens, sets = c.tokens(TEXTS[0]), [frozenset([head]) for head in reversed(every_head(2, 2))]
    whole = silenced_logits(c, tokens, sets, 2, 2)
    monkeypatch.setattr("heedful.studies.heads.copies_per_batch", lambda width: 3)
    torch.testing.assert_close(silenced_logits(c, tokens, sets, 2, 2), whole, atol=1e-6, rtol=1e-5)


def test_all_heads_of_a_layer_removed_is_its_attention_output_zeroed() -> None:
    c = models.shared("bert")
    tokens = c.tokens(TEXTS[0])
    without = silenced_logits(c, tokens, [frozenset([(1, 0), (1, 1)])], 2, 2)
    attention = c.model.bert.encoder.layer[1].attention.self
    hook = attention.register_forward_hook(lambda _, args, out: (torch.zeros_like(out[0]), *out[1:]))
    try:
        torch.testing.assert_close(without, logits_of(c, [tokens]), atol=1e-6, rtol=1e-5)
    finally:
        hook.remove()


def test_a_network_with_one_head_has_nothing_to_compare() -> None:
    with pytest.raises(Unsupported, match="it has one head, and two heads are needed"):
        require_heads(models.shared("bilstm"))


# importance


def test_attribution_is_the_largest_cell_of_attattr_for_the_gold_label() -> None:
    c = models.shared("bert")
    texts = read(c)
    scores = importance("attribution", c, texts, (2, 2))
    for tokens, gold, row in zip(texts.tokens, texts.gold, scores, strict=True):
        target = Target(int(gold), "probability").resolved(c.labels, 0)
        weights = AttAttr()(c, tokens, target, torch.Generator()).weights
        assert row == pytest.approx(np.array([[head.max() for head in layer] for layer in weights]))


@pytest.mark.parametrize("family", HEADED)
def test_attention_is_the_largest_weight_of_each_text_alone(family: str) -> None:
    c = models.shared(family)
    texts = read(c)
    shape = require_heads(c)
    scores = importance("attention", c, texts, shape)
    for tokens, row in zip(texts.tokens, scores, strict=True):
        reading = c.read(c.batch([tokens]))
        alone = [reading.weights[site][0].amax((-2, -1)) for site in reading.layers(c.main_kind)]
        assert row == pytest.approx(torch.stack(alone).detach().numpy(), abs=1e-5)


@pytest.mark.parametrize("family", HEADED)
def test_taylor_is_the_derivative_of_the_loss_by_the_size_of_a_head(family: str) -> None:
    """Σ A ∂L/∂A = dL/ds for weights s·A at s = 1, by a central difference."""
    c = models.build(family)
    shape = require_heads(c)
    texts, step = read(c), 1e-3
    scores = importance("taylor", c, texts, shape)
    for text, (tokens, gold) in enumerate(zip(texts.tokens, texts.gold, strict=True)):
        for layer, head in every_head(*shape):
            losses = []
            for size in (1 + step, 1 - step):
                factors = torch.ones(1, *shape)
                factors[0, layer, head] = size
                logits = logits_of(c, [tokens], lambda _, f=factors: edits.heads_by_row(f, c.main_kind))  # type: ignore[misc]
                losses.append(-float(torch.log_softmax(logits[0], -1)[gold]))
            slope = abs(losses[0] - losses[1]) / (2 * step)
            assert scores[text, layer, head] == pytest.approx(slope, rel=2e-2, abs=2e-3)


def test_accuracy_is_right_with_less_right_without_the_head() -> None:
    c = models.shared("bert")
    texts = read(c)
    scores = importance("accuracy", c, texts, (2, 2))
    full = logits_of(c, texts.tokens).argmax(-1).numpy() == texts.gold
    for layer, head in every_head(2, 2):
        gone = edits.without_heads([(layer, head)])
        without = logits_of(c, texts.tokens, lambda _, gone=gone: gone).argmax(-1).numpy() == texts.gold  # type: ignore[misc]
        assert (scores[:, layer, head] == full.astype(float) - without.astype(float)).all()


# a model without heads


@pytest.mark.parametrize("family", [family for family in HEADED if family != "albert"])
def test_a_silenced_copy_has_the_logits_of_the_edit(family: str) -> None:
    models.skip_where_fused_differs(family)
    c = models.build(family)
    fingerprint = c.fingerprint
    tokens = [c.tokens(text) for text in TEXTS]
    layers, _ = require_heads(c)
    gone = [(0, 1), (layers - 1, 0)]
    copy = silenced_copy(c, gone, tokens)
    edited = logits_of(c, tokens, lambda _: edits.without_heads(gone, c.main_kind))
    torch.testing.assert_close(logits_of(copy, tokens), edited, atol=1e-5, rtol=0)
    assert c.fingerprint == fingerprint


def test_a_silenced_model_is_loaded_by_transformers_alone(tmp_path: Path) -> None:
    c = models.build("bert")
    tokens = [c.tokens(text) for text in TEXTS]
    copy = silenced_copy(c, [(0, 1), (1, 0)], tokens)
    save_classifier(copy, tmp_path / "pruned")
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "pruned").eval()
    with torch.no_grad():
        logits = loaded(torch.tensor([tokens[0].ids])).logits
    torch.testing.assert_close(logits.double(), logits_of(copy, tokens[:1]))


def test_layers_that_share_their_weights_cannot_be_silenced_apart() -> None:
    c = models.build("albert")
    with pytest.raises(Unsupported, match="its layers share one output projection"):
        silenced_copy(c, [(0, 1)], [c.tokens(TEXTS[0])])
