"""Models whose answer is known: the methods and edits must find it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from heedful.core.explanation import Attribution
from heedful.methods import method
from heedful.methods.conformance import conforms
from heedful.methods.explain import explain
from heedful.model import edits
from heedful.model.classifier import Classifier
from tests.support import toys
from tests.support.models import INSIDE
from tests.support.toys import ARCHITECTURES, BAG_TOY, DEAF, POINTER, Toy, mix

TEXTS = toys.texts(5)
each = pytest.mark.parametrize("architecture", ARCHITECTURES)
built = cache(toys.build)


def scores(classifier: Classifier, text: str, name: str) -> Attribution:
    found = explain(classifier, text, name, target=1)
    assert isinstance(found, Attribution)
    return found


def moved(classifier: Classifier, text: str, edit: edits.Edit) -> float:
    batch = classifier.batch([classifier.tokens(text)])
    with torch.no_grad():
        plain = classifier.logits(batch)
        with classifier.attention(edit):
            return float((classifier.logits(batch) - plain).abs().max())


@each
@pytest.mark.parametrize("toy", [POINTER, DEAF])
def test_attention_points_at_the_marker(architecture: str, toy: Toy) -> None:
    for text in TEXTS:
        found = scores(built(architecture, toy), text, "attention-mean")
        assert found.scores[toys.marker(found.tokens.pieces)] > 0.95


@each
def test_the_pointer_says_what_its_marker_says(architecture: str) -> None:
    for text in TEXTS:
        classifier = built(architecture, POINTER)
        logits = classifier.predictions([classifier.tokens(text)])[0].logits
        said = next(v for word, v in toys.MARKERS.items() if word in text.split())
        assert logits[1] == pytest.approx(said, rel=0.15)
        assert logits[0] == pytest.approx(-logits[1])


@each
@pytest.mark.parametrize(
    "name", ["integrated-gradients", "attention-gradient", "attention-mean", "effective-attention"]
)
def test_the_marker_explains_the_pointer(architecture: str, name: str) -> None:
    for text in TEXTS:
        found = scores(built(architecture, POINTER), text, name)
        at = toys.marker(found.tokens.pieces)
        content = np.abs(found.scores[list(found.tokens.content)])
        assert abs(found.scores[at]) > 0.9 * content.sum()


@each
def test_the_sign_of_the_pointer_is_the_markers(architecture: str) -> None:
    for text in TEXTS:
        found = scores(built(architecture, POINTER), text, "integrated-gradients")
        at = toys.marker(found.tokens.pieces)
        assert np.sign(found.scores[at]) == toys.MARKERS[found.tokens.pieces[at]]


@each
def test_uniform_attention_leaves_a_deaf_model_unmoved(architecture: str) -> None:
    assert max(moved(built(architecture, DEAF), text, edits.uniform) for text in TEXTS) < 1e-6


@each
def test_permuted_attention_leaves_a_deaf_model_unmoved(architecture: str) -> None:
    edit = edits.permuted(torch.Generator().manual_seed(0))
    assert max(moved(built(architecture, DEAF), text, edit) for text in TEXTS) < 1e-6


@each
def test_uniform_attention_moves_a_pointer(architecture: str) -> None:
    assert min(moved(built(architecture, POINTER), text, edits.uniform) for text in TEXTS) > 0.5


@each
def test_the_attention_of_a_deaf_model_has_no_gradient(architecture: str) -> None:
    for text in TEXTS:
        assert not scores(built(architecture, DEAF), text, "attention-gradient").scores.any()


@each
def test_gradients_do_not_see_a_marker_that_a_deaf_model_does_not_hear(architecture: str) -> None:
    for text in TEXTS:
        found = scores(built(architecture, DEAF), text, "integrated-gradients")
        assert abs(found.scores[toys.marker(found.tokens.pieces)]) < 0.05 * np.abs(found.scores).sum()


@each
def test_the_attention_of_a_bag_is_constant(architecture: str) -> None:
    for text in TEXTS:
        found = scores(built(architecture, BAG_TOY), text, "attention-mean")
        assert found.scores == pytest.approx(np.full(len(found.tokens), 1 / len(found.tokens)), rel=1e-5)


@each
def test_integrated_gradients_of_a_bag_are_its_weights(architecture: str) -> None:
    for text in TEXTS:
        found = scores(built(architecture, BAG_TOY), text, "integrated-gradients")
        content = list(found.tokens.content)
        weights = np.array([toys.bag_weight(found.tokens.pieces[i]) for i in content])
        positions = len(found.tokens)  # the mean runs over all of them
        assert found.scores[content] == pytest.approx(weights / positions, abs=0.03 / positions)


@each
def test_the_dial_moves_with_c(architecture: str) -> None:
    effects = [
        np.mean([moved(built(architecture, mix(c)), text, edits.uniform) for text in TEXTS])
        for c in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    assert effects == sorted(effects, reverse=True)
    assert effects[-1] < 1e-3 < 0.5 < effects[0]


# pairs


def effects(c: float, text: str, pair: str) -> list[list[float]]:
    """Leave-one-out of the words of each text."""
    found = explain(built("pair", mix(c)), text, "leave-one-out", target=1, pair=pair)
    assert isinstance(found, Attribution)
    scored = list(zip(found.tokens.segments, found.scores, strict=True))
    return [[score for segment, score in scored if segment == side] for side in (0, 1)]


@pytest.mark.parametrize("c", [0.0, 0.5, 1.0])
def test_a_pair_says_what_its_marker_and_its_second_text_say(c: float) -> None:
    for text, pair in toys.pairs(5):
        classifier = built("pair", mix(c))
        logits = classifier.predictions([classifier.tokens(text, pair)])[0].logits
        marked = next(v for word, v in toys.MARKERS.items() if word in text.split())
        bag = sum(map(toys.bag_weight, pair.split())) / (len(pair.split()) + 1)  # and the mark of its end
        assert logits[1] == pytest.approx((1 - c) * marked + c * bag, rel=0.02, abs=1e-3)


def test_a_pair_points_at_the_marker_of_the_first_text() -> None:
    for text, pair in toys.pairs(5):
        found = explain(built("pair", mix(0.5)), text, "attention-mean", pair=pair)
        assert isinstance(found, Attribution)
        assert found.scores[toys.marker(found.tokens.pieces)] > 0.95


def test_the_second_text_matters_or_not() -> None:
    for text, pair in toys.pairs(5):
        at = toys.marker(text.split())
        for c in (0.0, 0.5, 1.0):
            first, second = effects(c, text, pair)
            assert abs(first[at]) == pytest.approx(1 - c, abs=0.02)
            assert np.abs(np.delete(first, at)).max() < 1e-3
            assert (np.abs(second).max() > 1e-2) == (c > 0)


@pytest.mark.thorough
@pytest.mark.parametrize("architecture", ["bert", "bilstm"])
@pytest.mark.parametrize("name", INSIDE)
def test_the_battery_holds_on_toys(architecture: str, name: str) -> None:
    conforms(method(name), built(architecture, mix(0.5)))
