"""Similarity of explanations, and what the checks that explain again have in common."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import scipy.spatial.distance
import scipy.stats
import torch

from heedful.checks import similarity as alike
from heedful.checks.randomisation import Randomisation
from heedful.checks.sensitivity import Sensitivity
from heedful.checks.similarity import evenly, overlap
from heedful.checks.stability import Stability
from heedful.core.explanation import Attribution
from heedful.core.target import Target
from heedful.data import Example
from heedful.methods import METHODS
from heedful.methods.gradient import GradientXInput
from heedful.nets.hierarchical import Hierarchical, HierarchicalShape
from tests.checks.test_adversarial import pair
from tests.support import cases, models
from tests.support.findings import FAST, TEXT, net, same, value


def test_tau_is_scipys_of_the_magnitudes() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 30))
    assert alike.similarity(a, b)["tau"] == pytest.approx(scipy.stats.kendalltau(abs(a), abs(b)).statistic, abs=1e-12)


def test_jsd_is_scipys_of_the_normalised_magnitudes() -> None:
    a, b = np.random.default_rng(1).normal(size=(2, 30))
    outside = scipy.spatial.distance.jensenshannon(abs(a) / abs(a).sum(), abs(b) / abs(b).sum()) ** 2
    assert alike.similarity(a, b)["jsd"] == pytest.approx(outside, abs=1e-12)


def test_distance_keeps_signs() -> None:
    assert alike.similarity(np.array([3.0, 4.0]), np.array([-3.0, -4.0]))["distance"] == 2


def test_the_others_do_not_know_signs() -> None:
    found = alike.similarity(np.array([3.0, 4.0]), np.array([-3.0, -4.0]))
    assert (found["tau"], found["jsd"], found["top-k overlap"]) == (1, 0, 1)


def test_an_explanation_is_like_itself() -> None:
    a = np.array([0.0, 0.0, 1.0, -2.0, 0.0, 0.5, 0.0])
    assert alike.similarity(a, a) == {"tau": pytest.approx(1), "top-k overlap": 1, "jsd": 0, "distance": 0}


def test_overlap_counts_the_top_fifth() -> None:
    a, b = (
        np.random.default_rng(2).permutation(20).astype(float),
        np.random.default_rng(3).permutation(20).astype(float),
    )
    shared = set(np.argsort(-a)[:4]) & set(np.argsort(-b)[:4])
    assert overlap(a, b) == len(shared) / 4


def test_ties_share_the_last_place() -> None:
    """Three words tie for one place: over all ways to break the tie, one of three has the other's word there."""
    a, b = np.array([1.0, 1.0, 1.0, 0.0]), np.array([2.0, 0.0, 0.0, 1.0])
    tops = [max(range(4), key=lambda i, order=order: (a[i], order[i])) for order in permutations(range(4))]  # type: ignore[misc]
    assert overlap(a, b) == pytest.approx(np.mean([top == 0 for top in tops]))


def test_the_order_of_words_does_not_matter_to_an_overlap_with_ties() -> None:
    a, b = np.array([1.0, 1, 1, 0, 0, 0, 2, 0, 0, 0]), np.array([0.0, 1, 1, 0, 5, 0, 0, 0, 1, 0])
    assert overlap(a, b) == pytest.approx(overlap(a[::-1], b[::-1]))


def test_rounding_is_no_order() -> None:
    a = np.array([1.0, 0.0, 0.0, 0.0])
    assert alike.similarity(a, a + 1e-9 * np.array([0, 1, -2, 3]))["tau"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("a", "nothing"),
    [
        ([2.0, 2.0, 2.0], {"tau", "top-k overlap"}),
        ([0.0, 0.0, 0.0], {"tau", "top-k overlap", "jsd", "distance"}),
        ([2.0], {"tau", "top-k overlap", "jsd"}),
    ],
)
def test_what_does_not_exist_is_nan(a: list[float], nothing: set[str]) -> None:
    found = alike.similarity(np.array(a), np.arange(1.0, len(a) + 1))
    assert {name for name, x in found.items() if math.isnan(x)} == nothing


def test_evenly_spaced_with_the_last() -> None:
    assert [evenly(5, 2), evenly(5, None), evenly(2, 7), evenly(5, 1), evenly(12, 3)] == [
        [2, 4], [0, 1, 2, 3, 4], [0, 1], [4], [3, 7, 11],
    ]  # fmt: skip


def test_words_are_compared_by_their_place_and_not_by_pieces() -> None:
    """Two tokenizers cut words into other pieces; the words stay."""
    why = [
        Attribution(tokens=t, scores=np.array([0.0 if w is None else float(w) for w in t.words]))
        for t in (models.shared(family).tokens("A dull short film") for family in ("bert", "roberta"))
    ]
    assert list(alike.word_scores(why[0])) == list(alike.word_scores(why[1])) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "check", [Sensitivity(), Randomisation(stages=2), Randomisation(stages=1, how="normal"), Stability(seeds=1)]
)
def test_several_texts_at_once_are_as_one_by_one(check: Any) -> None:
    several = cases.many(models.shared("bilstm"), [TEXT, "Dull.", Example("good film", "a story")], FAST)
    together, alone = check.many(several), [check(case) for case in several]
    assert [same(a, b) for a, b in zip(together, alone, strict=True)] == [True, True, True]


CHECKS = (Sensitivity(), Randomisation(stages=2), Stability(seeds=1))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: type(check).__name__)
@pytest.mark.parametrize(
    "example", [Example("Dull"), Example("Dull film"), Example("good film", "a story, one")], ids=str
)
@pytest.mark.parametrize("labels", [1, 10])
def test_every_finding_is_a_known_measure_once(check: Any, example: Example, labels: int) -> None:
    found = check(cases.one(models.shared("bert", labels), example, FAST))
    keys = [(f.method, f.measure, f.place) for f in found]
    assert len(set(keys)) == len(keys)
    assert {f.measure for f in found} <= set(check.measures)
    assert not any(math.isinf(f.value) for f in found)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: type(check).__name__)
def test_a_saturated_model_has_no_gradient_to_compare(check: Any) -> None:
    classifier = models.build("bilstm")
    with torch.no_grad():
        classifier.model.decoder.bias.copy_(torch.tensor([0.0, 1e4, 0.0]))
    case = cases.one(classifier, TEXT, FAST, target=Target(scale="probability"))
    found = [f for f in check(case) if f.method == "gradient-x-input" and f.measure in ("tau", "distance")]
    assert not case.attributions["gradient-x-input"].scores.any()
    assert found
    assert all(math.isnan(f.value) for f in found)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: type(check).__name__)
def test_a_network_of_two_levels_is_explained_again(check: Any) -> None:
    shape = HierarchicalShape(len(models.tokenizer("wordpiece")), 3, embedding=8, hidden=4)
    found = check(cases.one(net(Hierarchical(shape)), TEXT, FAST))
    assert any(f.measure == "tau" and f.method == "attention-mean" and not math.isnan(f.value) for f in found)


# a network whose attention is over the first of two texts


@dataclass(frozen=True)
class OfFirst:
    """Scores of the first text; those of the second are 0, or `noise`."""

    noise: float = 0.0

    def __call__(self, classifier: Any, tokens: Any, target: Any, rng: torch.Generator) -> Attribution:
        why: Any = GradientXInput()(classifier, tokens, target, rng)
        second = np.array([segment == 1 for segment in tokens.segments])
        noise = self.noise * torch.randn(len(tokens), generator=rng).numpy()
        return Attribution(tokens=tokens, scores=np.where(second, noise, why.scores))


@dataclass(frozen=True)
class OfBoth(OfFirst):
    noise: float = 100.0


PASSAGE = Example("A good film, but its story is the same.", "The film isn't bad.")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: type(check).__name__)
def test_words_that_attention_cannot_point_at_take_no_part(check: Any) -> None:
    found = check(cases.one(pair(), PASSAGE, (OfFirst(), OfBoth(), "random")))
    one, other = (
        {(f.measure, f.place): f.value for f in found if f.method == METHODS.name_of(m)} for m in (OfFirst(), OfBoth())
    )
    assert one == pytest.approx(other, nan_ok=True)
    assert any(f.measure == "tau" and -1 < f.value < 1 for f in found)


def test_nor_in_the_control() -> None:
    case = cases.one(pair(), PASSAGE, ("random",))
    first = [i for i, segment in enumerate(case.tokens.by("word")[0].segments) if segment == 0]
    scores = [draw.by("word").scores[first] for draw in case.draws]
    pairs = list(zip(scores, scores[1:] + scores[:1], strict=True))
    control = alike.unrelated(case)
    assert control is not None
    assert control.values["tau"] == pytest.approx(np.mean([scipy.stats.kendalltau(a, b).statistic for a, b in pairs]))
    found = Sensitivity(limit=1)(case)
    expected = np.mean([np.linalg.norm(a - b) / np.linalg.norm(a) for a, b in pairs])
    assert value(found, "largest change", "random", change="stop word") == pytest.approx(expected)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: type(check).__name__)
def test_methods_are_chosen_by_any_of_their_names(check: Any) -> None:
    case = cases.one(models.shared("bilstm"), TEXT, FAST)
    found = replace(check, methods=("gxi", "lime"))(case)
    assert {f.method for f in found} == {"", "gradient-x-input", "random", "uniform", "position"} - (
        {""} if isinstance(check, Stability) else set()
    )
