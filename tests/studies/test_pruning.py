"""Pruning on models whose curves are known, and against loops."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.core.errors import BadInput
from heedful.data import Example, Splits
from heedful.model import edits
from heedful.model.classifier import Classifier
from heedful.studies.base import logits_of
from heedful.studies.outcome import Outcome
from heedful.studies.pruning import IMPORTANCES, LARGEST, RATES, SMALLEST, Pruning
from tests.support import models, toys

N = 12


def toy_data(classifier: Classifier, n: int = N, seed: int = 0) -> Splits:
    """Three parts of texts, each with the label that the model predicts."""
    texts = list(dict.fromkeys(toys.texts(4 * n, seed)))[: 3 * n]
    predicted = logits_of(classifier, [classifier.tokens(text) for text in texts]).argmax(-1).tolist()
    examples = [Example(text, label=classifier.labels[i]) for text, i in zip(texts, predicted, strict=True)]
    return Splits(examples[:n], examples[n : 2 * n], examples[2 * n :])


def tiny_data(classifier: Classifier, n: int = 8) -> Splits:
    """Texts of the words that the tiny models know, with arbitrary labels."""
    words = ["good", "bad", "great", "awful", "film", "story", "music", "acting", "warm", "clever", "dull", "funny"]
    rng = np.random.default_rng(0)
    texts = list(dict.fromkeys(" ".join(rng.choice(words, 5)) for _ in range(4 * n)))[: 3 * n]
    examples = [Example(text, label=classifier.labels[i % 3]) for i, text in enumerate(texts)]
    return Splits(examples[:n], examples[n : 2 * n], examples[2 * n :])


def pruned(classifier: Classifier, data: Splits, **settings: Any) -> Outcome:
    return heedful.study(Pruning(**settings), data, classifier)


def heights(outcome: Outcome, method: str, order: str, layer: Any = "all", measure: str = "accuracy") -> list[float]:
    found = [
        c for c in outcome.curves if (c.measure, c.method, c.at) == (measure, method, {"layer": layer, "order": order})
    ]
    return [point.mean for point in found[0].points]


@pytest.fixture(scope="module")
def pointer() -> Outcome:
    c = toys.build("bert", toys.POINTER)
    return pruned(c, toy_data(c), draws="all", each_layer=False)


@pytest.fixture(scope="module")
def deaf() -> Outcome:
    c = toys.build("bert", toys.DEAF)
    return pruned(c, toy_data(c), draws="all", each_layer=False)


@pytest.mark.parametrize("name", IMPORTANCES[:1] + IMPORTANCES[2:])
def test_without_the_pointers_head_the_pointer_knows_nothing(pointer: Outcome, name: str) -> None:
    """Its head is the only one of layer 1, of two heads in all: it is removed first at rate .5, or last at 1."""
    first = heights(pointer, name, LARGEST, measure="probability")
    assert first[:5] == pytest.approx([first[0]] * 5)
    assert first[0] > 0.7
    assert first[5:] == pytest.approx([0.5] * 6, abs=1e-4)
    last = heights(pointer, name, SMALLEST, measure="probability")
    assert last[:10] == pytest.approx([first[0]] * 10, abs=1e-4)
    assert last[10] == pytest.approx(0.5, abs=1e-4)


def test_a_language_model_is_pruned_and_saved_with_its_prompt(tmp_path: Path) -> None:
    """The toy's pointing head, one of two, carries its whole answer."""
    c = toys.build("prompted", toys.POINTER)
    data = toy_data(c)
    study = Pruning(importances=("taylor",), each_layer=False, keep=0.5)
    outcome = heedful.study(study, data, c, out=tmp_path)
    curve = heights(outcome, "taylor", LARGEST, measure="probability")
    assert curve[0] > 0.7
    assert curve[5:] == pytest.approx([0.5] * 6, abs=1e-4)
    saved = next(tmp_path.rglob("heedful-prompt.json")).parent
    tokens = [c.tokens(e.text) for e in data.test]
    torch.testing.assert_close(logits_of(heedful.load(saved), tokens), logits_of(c, tokens), atol=1e-3, rtol=0)


def test_the_deaf_models_pointing_head_changes_nothing(deaf: Outcome) -> None:
    """Attention calls the pointing head the most important; without it every prediction stays."""
    peaked = heights(deaf, "attention", LARGEST)
    assert peaked[:10] == [1.0] * 10
    assert heights(deaf, "taylor", LARGEST)[5] < 1.0


def test_the_area_of_the_pointer_is_that_of_a_step(pointer: Outcome) -> None:
    curve = heights(pointer, "taylor", LARGEST, measure="probability")
    row = pointer.result.row("area probability", "taylor", {"layer": "all", "order": LARGEST})
    assert row is not None
    assert row.mean == pytest.approx(np.trapezoid(curve, RATES))


def test_random_orders_are_the_mean_over_all_orders() -> None:
    c = models.shared("bert")
    data = tiny_data(c)
    outcome = pruned(c, data, draws="all", importances=("attention",))
    tokens = [c.tokens(e.text) for e in data.test]
    gold = np.array([c.labels.index(str(e.label)) for e in data.test])

    def accuracy(gone: Any) -> float:
        logits = logits_of(c, tokens, lambda _: edits.without_heads(gone))
        return float((logits.argmax(-1).numpy() == gold).mean())

    heads = [(layer, head) for layer in range(2) for head in range(2)]
    orders = list(permutations(heads))
    counts = [int(rate * 4 + 1e-9) for rate in RATES]
    twin = [np.mean([accuracy(order[:n]) for order in orders]) for n in counts]
    assert heights(outcome, "random", LARGEST) == pytest.approx(twin)
    assert heights(outcome, "random", SMALLEST) == pytest.approx(twin)
    layer = [np.mean([accuracy(order[:n]) for order in permutations(heads[2:])]) for n in range(3)]
    assert heights(outcome, "random", LARGEST, 1) == pytest.approx(layer)


def test_a_curve_is_the_accuracy_after_removing_heads_in_order() -> None:
    c = models.shared("gpt2")
    data = tiny_data(c)
    outcome = pruned(c, data, draws=1)
    means = np.array(outcome.result.details["importance"]["taylor"])
    order = [divmod(int(i), 2) for i in np.argsort(-means)]
    tokens = [c.tokens(e.text) for e in data.test]
    gold = [c.labels.index(str(e.label)) for e in data.test]
    twin = []
    for rate in RATES:
        gone = edits.without_heads(order[: int(rate * 4 + 1e-9)])
        logits = logits_of(c, tokens, lambda _, gone=gone: gone)  # type: ignore[misc]
        twin.append(float((logits.argmax(-1).numpy() == np.array(gold)).mean()))
    assert heights(outcome, "taylor", LARGEST) == pytest.approx(twin)


@pytest.mark.parametrize("family", ["bert", "gpt2", "bart", "xlnet", "multihead", "deberta-v2", "llama"])
def test_every_family_with_heads_can_be_pruned(family: str) -> None:
    c = models.shared(family)
    outcome = pruned(c, tiny_data(c, 5), draws=1, importances=("attribution", "taylor"))
    assert {row.method for row in outcome.rows()} == {"attribution", "taylor", "random"}


def test_a_pruned_model_is_written_and_can_be_explained(tmp_path: Path) -> None:
    c = models.build("bert")
    outcome = heedful.study(Pruning(draws=1, keep=0.5, importances=("taylor",)), tiny_data(c), c, out=tmp_path / "s")
    loaded = heedful.load(outcome.models["pruned"])
    assert "leave-one-out" in str(heedful.explain(loaded, "good film", "leave-one-out").source)


def test_a_model_that_cannot_be_silenced_says_why() -> None:
    c = models.build("albert")
    outcome = pruned(c, tiny_data(c, 5), draws=1, keep=0.5, importances=("taylor",))
    assert outcome.result.notes[0].startswith(
        "The pruned model was not written: its layers share one output projection"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"importances": ()}, "importances are empty"),
        ({"importances": ("taylor", "taylor")}, "give each once"),
        ({"ranked": 0}, "ranked is a whole number of at least 1, not 0"),
        ({"keep": 1.5}, "keep is"),
        ({"draws": "some"}, "draws is a whole number of at least 1 or 'all', not 'some'"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Pruning(**settings)


def test_all_orders_of_many_heads_are_too_many(tmp_path: Path) -> None:
    c = models.build("bert", num_hidden_layers=4)
    with pytest.raises(BadInput, match="draws=all has 8! orders of 8 heads; give a number of draws"):
        heedful.study(Pruning(draws="all"), tiny_data(c, 5), c, out=tmp_path / "s")
    assert not (tmp_path / "s").exists()
