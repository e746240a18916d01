"""Shapley values against their definition, the shap package, and games whose answer is known."""

from __future__ import annotations

import warnings
from functools import cache
from itertools import permutations
from math import comb, factorial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.core.arrays import Floats
from heedful.core.errors import BadInput
from heedful.core.explanation import Attribution
from heedful.core.target import Target
from heedful.maths.shapley import Values, _sets, all_subsets, coalitions, enumerated, kriged, regressed
from heedful.methods.explain import explain
from heedful.methods.perturbation import Perturbing
from heedful.methods.shapley import Shapley, ShapleyPartition
from heedful.model.classifier import Classifier
from heedful.model.function import Plain
from heedful.model.inference import answers
from heedful.model.masking import features
from tests.support import games, toys
from tests.support.games import at, walsh
from tests.support.models import build, shared
from tests.support.parameters import mostly_thorough

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import shap

YES = Target(1, scale="probability")
TEN = "good film bad story great music awful acting two sisters"


def attribution(classifier: Classifier, text: str, how: Any, **more: Any) -> Attribution:
    found = explain(classifier, text, how, **more)
    assert isinstance(found, Attribution)
    return found


def by_orders(values: Floats) -> Floats:
    """The definition: what each word brings when it comes, mean over all orders."""
    d = len(values).bit_length() - 1
    scores = np.zeros(d)
    for order in permutations(range(d)):
        there = 0
        for i in order:
            scores[i] += values[there | 1 << i] - values[there]
            there |= 1 << i
    return scores / factorial(d)


def sampled(values: Floats, samples: int, estimator: Any, seed: int = 0) -> Values:
    d = len(values).bit_length() - 1
    keep = coalitions(d, samples, np.random.default_rng(seed))
    found: Values = estimator(keep, at(values, keep))
    return found


GAMES = st.integers(1, 6).flatmap(
    lambda d: st.lists(st.floats(-5, 5), min_size=2**d, max_size=2**d).map(lambda v: np.array(v))
)
ESTIMATORS = [kriged, regressed]


# enumeration


@given(GAMES)
def test_enumeration_is_the_mean_over_all_orders(values: Floats) -> None:
    found = enumerated(values)
    assert found.scores == pytest.approx(by_orders(values), abs=1e-10)
    assert found.operator @ values == pytest.approx(found.scores, abs=1e-12)


@given(GAMES)
def test_scores_add_up(values: Floats) -> None:
    assert enumerated(values).scores.sum() == pytest.approx(values[-1] - values[0], abs=1e-10)


@given(GAMES, GAMES)
def test_shapley_is_linear(one: Floats, other: Floats) -> None:
    other = np.resize(other, one.shape)
    both = enumerated(2 * one - other).scores
    assert both == pytest.approx(2 * enumerated(one).scores - enumerated(other).scores, abs=1e-9)


@given(GAMES)
def test_a_word_that_changes_nothing_has_nothing(values: Floats) -> None:
    dummy = np.concatenate([values, values])  # one word more, the last
    assert enumerated(dummy).scores == pytest.approx([*enumerated(values).scores, 0.0], abs=1e-10)


@given(GAMES, st.permutations(range(6)))
def test_names_of_words_do_not_matter(values: Floats, order: list[int]) -> None:
    d = len(values).bit_length() - 1
    order = [i for i in order if i < d]
    moved = at(values, all_subsets(d)[:, np.argsort(order)])
    assert enumerated(moved).scores == pytest.approx(enumerated(values).scores[order], abs=1e-10)


def test_shap_agrees_on_ten_words() -> None:
    """Exact on both sides (all 2¹⁰ sets), in float32: to 1e-5."""
    classifier = shared("bert")
    tokens = classifier.tokens(TEN)
    target = Target(1).resolved(classifier.labels, 0)

    def value(rows: Floats) -> Floats:
        keep = np.asarray(rows).astype(bool)
        asked = Perturbing().variants(tokens, keep, torch.Generator())
        return answers(classifier, [asked]).values(classifier, target)

    whole, nothing = np.ones((1, 10)), np.zeros((1, 10))
    kernel = shap.KernelExplainer(value, nothing).shap_values(whole, nsamples=2**10, l1_reg=False, silent=True)[0]
    exact = shap.explainers.Exact(value, lambda kept, x: (np.asarray(kept) * x)[None])(whole).values[0]
    found = attribution(classifier, TEN, "shapley", target=1)
    scores = found.by("word").scores[1:-1]
    assert scores == pytest.approx(exact, abs=1e-5)
    assert scores == pytest.approx(kernel, abs=1e-5)
    assert found.errors is None
    assert found.gap == pytest.approx(0, abs=1e-9)
    assert found.details == {"samples": 1024, "distinct": 1024, "exact": True}


@pytest.mark.parametrize("architecture", ["bert", "gpt2", "bilstm"])
@pytest.mark.parametrize("text", ["owl pig ape owl cat", "yes hen hen no hen"])
def test_in_a_bag_a_word_has_its_weight_times_its_count(architecture: str, text: str) -> None:
    """Words replaced in place by one that weighs nothing, so that the mean is over as many words.

    The toys' heads are linear to a part in a thousand, the BiLSTM's to three in a hundred.
    """
    classifier = toys.build(architecture, toys.BAG_TOY)
    words = text.split()
    length = len(classifier.tokens(text))
    found = attribution(classifier, text, Shapley(masking="unk", by="bag"), target=1)
    content = list(found.tokens.content)
    twin = [toys.bag_weight(word) / length for word in words]
    assert found.scores[content] == pytest.approx(twin, rel=0.03 if architecture == "bilstm" else 1e-3, abs=1e-5)
    for word, group in zip(dict.fromkeys(words), features(found.tokens, "bag"), strict=True):
        joint = toys.bag_weight(word) * words.count(word) / length
        assert found.scores[group].sum() == pytest.approx(
            joint, rel=0.03 if architecture == "bilstm" else 1e-3, abs=1e-5
        )


@given(st.lists(st.sampled_from(toys.FILLERS), min_size=1, max_size=7))
@settings(max_examples=15)
def test_any_bag(words: list[str]) -> None:
    found = attribution(bag(), " ".join(words), Shapley(masking="mask"), target=1)
    twin = [toys.bag_weight(word) / (len(words) + 2) for word in words]
    assert found.scores[1:-1] == pytest.approx(twin, rel=1e-3, abs=1e-5)
    assert found.gap == pytest.approx(0, abs=1e-9)


@cache
def bag() -> Classifier:
    return toys.build("bert", toys.BAG_TOY)


# coalitions


@given(st.integers(4, 60), st.integers(4, 700))
@settings(max_examples=60)
def test_coalitions_are_different_pairs_within_the_promise(d: int, samples: int) -> None:
    keep = coalitions(d, samples, np.random.default_rng(0))
    assert keep[0].all()
    assert not keep[1].any()
    assert np.array_equal(keep[0::2], ~keep[1::2])
    assert len(np.unique(keep, axis=0)) == len(keep)
    assert len(keep) <= max(samples, d + 2)
    sizes = keep[3::2].sum(1)
    assert set(sizes) == set(range(1, d // 2 + 1))


@pytest.mark.parametrize("d", [4, 5, 7, 8])
def test_enough_samples_are_all_sets(d: int) -> None:
    keep = coalitions(d, 2**d, np.random.default_rng(0))
    assert len(np.unique(keep, axis=0)) == 2**d


def test_sizes_get_their_share_of_the_kernel() -> None:
    keep = coalitions(24, 4000, np.random.default_rng(0))
    counts = np.bincount(keep[3::2].sum(1), minlength=13)
    assert (counts[1], counts[2]) == (24, comb(24, 2))  # taken whole
    shares = np.array([(0.5 if s == 12 else 1) / (s * (24 - s)) for s in range(3, 13)])
    assert counts[3:] / counts[3:].sum() == pytest.approx(shares / shares.sum(), abs=0.002)


def test_nearly_all_sets_of_a_size_do_not_run_out() -> None:
    d, n = 18, comb(18, 8) - 20
    found = _sets(d, 8, n, comb(18, 8), np.random.default_rng(0))
    assert len(np.unique(found, axis=0)) == n


def test_words_come_equally_often() -> None:
    kept = np.mean([coalitions(13, 200, np.random.default_rng(seed))[3::2].mean(0) for seed in range(60)], axis=0)
    assert kept == pytest.approx(np.full(13, kept.mean()), rel=0.06)


# estimates


@given(st.integers(4, 12), st.integers(30, 300), st.integers(0, 99))
@settings(max_examples=30)
def test_regression_is_exact_for_pairs_and_adds_up(d: int, samples: int, seed: int) -> None:
    values = walsh(d, 0.5, seed, order=2)
    found = sampled(values, max(samples, 2 * d + 2 + 2 * (d // 2)), regressed, seed)
    assert found.scores == pytest.approx(enumerated(values).scores, abs=1e-7)
    assert found.errors == pytest.approx(np.zeros(d), abs=1e-7)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("d", [5, 6, 9, 10])
def test_scores_of_a_sample_add_up(d: int, estimator: Any) -> None:
    for seed in range(5):
        values = walsh(d, 0.6, seed)
        found = sampled(values, 40, estimator, seed)
        off = values[-1] - values[0] - found.scores.sum()
        assert abs(off) < (1e-9 if estimator is regressed else 1e-6) * np.abs(found.scores).max()
        keep = coalitions(d, 40, np.random.default_rng(seed))
        assert found.operator @ at(values, keep) == pytest.approx(found.scores, abs=1e-6)


def constrained(keep: Any, values: Floats) -> Floats:
    """KernelSHAP by hand: weighted least squares over every row, under the constraint, with a multiplier."""
    d = keep.shape[1]
    rows = keep[2:].astype(float)
    size = keep[2:].sum(1)
    small = np.minimum(size, d - size)
    drawn = np.bincount(small, minlength=d + 1) / 2  # pairs
    share = [0 if s in (0, d) else (0.5 if 2 * s == d else 1) / (s * (d - s)) for s in range(d + 1)]
    weights = np.array([share[s] / drawn[s] for s in small])
    system = np.zeros((d + 1, d + 1))
    system[:d, :d] = (rows * weights[:, None]).T @ rows
    system[:d, d] = system[d, :d] = 1
    right = np.r_[(rows * weights[:, None]).T @ (values[2:] - values[1]), values[0] - values[1]]
    solution: Floats = np.linalg.solve(system, right)[:d]
    return solution


@pytest.mark.parametrize("d", [5, 6, 9, 10])
def test_regression_is_constrained_least_squares_over_all_rows(d: int) -> None:
    values = walsh(d, 0.7, seed=d)
    keep = coalitions(d, 60, np.random.default_rng(0))
    assert regressed(keep, at(values, keep)).scores == pytest.approx(constrained(keep, at(values, keep)), abs=1e-8)


@pytest.mark.parametrize("d", range(4, 10))
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_from_all_sets_every_estimate_is_exact(d: int, estimator: Any) -> None:
    values = walsh(d, 0.9, seed=d)
    found = sampled(values, 2**d, estimator)
    assert found.scores == pytest.approx(enumerated(values).scores, abs=1e-6)
    assert found.errors == pytest.approx(np.zeros(d), abs=1e-3 * np.abs(found.scores).max())


@pytest.mark.parametrize("d", [6, 11, 30])
def test_kriging_is_exact_on_additive_games(d: int) -> None:
    weights = np.random.default_rng(d).normal(size=d)
    keep = coalitions(d, 4 * d, np.random.default_rng(0))
    found = kriged(keep, keep @ weights)
    assert found.scores == pytest.approx(weights, abs=1e-3 * np.abs(weights).max())
    assert found.errors.max() < 0.02


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_estimates_converge(estimator: Any) -> None:
    worst = []
    for samples in (40, 120, 360):
        off = [
            sampled(v := walsh(10, 0.3, seed), samples, estimator, seed).scores - enumerated(v).scores
            for seed in range(8)
        ]
        worst.append(float(np.sqrt(np.mean(np.square(off)))))
    assert worst[0] > 1.5 * worst[1] > 2 * worst[2]


def test_kriging_is_nearer_than_regression() -> None:
    off = {
        estimator: np.sqrt(
            np.mean(
                [
                    (sampled(v := walsh(10, 0.15, s), 80, estimator, s).scores - enumerated(v).scores) ** 2
                    for s in range(20)
                ]
            )
        )
        for estimator in ESTIMATORS
    }
    assert off[kriged] < 0.95 * off[regressed]


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(
    ("rho", "low", "high"), mostly_thorough([(0.04, 0.8, 1.3), (0.16, 0.8, 1.3), (1.0, 0.5, 2.0)], [(0.16, 0.8, 1.3)])
)
def test_errors_are_as_large_as_they_say(rho: float, low: float, high: float, estimator: Any) -> None:
    """Root mean square of (score − truth) / error over games of the prior; within a factor 2 on white noise."""
    z = []
    for seed in range(30):
        values = walsh(10, rho, seed)
        found = sampled(values, 100, estimator, seed)
        z.append((found.scores - enumerated(values).scores) / found.errors)
    assert low < np.sqrt(np.mean(np.square(z))) < high


def test_a_constant_game_has_no_scores() -> None:
    keep = coalitions(8, 60, np.random.default_rng(0))
    for estimator in ESTIMATORS:
        found = estimator(keep, np.full(len(keep), 0.3))
        assert not found.scores.any()
        assert not found.errors.any()


@pytest.mark.parametrize("samples", [4, 20, 30])
def test_regression_refuses_what_it_cannot_determine(samples: int) -> None:
    keep = coalitions(20, samples, np.random.default_rng(0))
    with pytest.raises(BadInput, match=f"{len(keep)} samples do not determine the scores of 20 words; use more, or"):
        regressed(keep, keep.sum(1).astype(float))


# the method


@pytest.mark.parametrize("estimator", ["kriging", "wls"])
def test_the_method_is_the_estimate_of_its_game(estimator: Any) -> None:
    values = walsh(10, 0.2, seed=1)
    classifier = games.played(values)
    how = Shapley(samples=200, exact_up_to=3, estimator=estimator)
    found = attribution(classifier, games.text(10), how, target=YES)
    exact = attribution(classifier, games.text(10), "shapley", target=YES)
    scale = 0.9 / np.ptp(values)
    assert exact.scores == pytest.approx(enumerated(values).scores * scale, abs=1e-9)
    assert found.errors is not None
    assert (np.abs(found.scores - exact.scores) < 4 * found.errors).all()
    assert found.details["exact"] is False
    assert abs(found.gap or 0) < 1e-6
    assert found.base == pytest.approx(0.05 + 0.9 * (values[0] - values.min()) / np.ptp(values))


METHODS = [
    Shapley(),
    Shapley(samples=4, exact_up_to=0),
    Shapley(samples=100, exact_up_to=0),
    Shapley(samples=64, exact_up_to=0, estimator="wls"),
    Shapley(samples=100, exact_up_to=0, precision="bf16"),
    Shapley(by="token", samples=128),
    ShapleyPartition(samples=2),
    ShapleyPartition(samples=50),
    ShapleyPartition(samples=50, precision="bf16"),
]


@pytest.mark.parametrize("how", METHODS, ids=lambda m: f"{type(m).__name__}-{m.samples}-{m.precision}-{m.by}")
@pytest.mark.parametrize("text", ["film", "good film", "The film was not funny, but its ending moved me to tears."])
def test_the_cost_is_no_more_than_promised(how: Any, text: str) -> None:
    if how == METHODS[0] and len(text) > 20:
        how = Shapley(exact_up_to=5)
    classifier = shared("bert")
    found = attribution(classifier, text, how)
    assert 0 < found.source.forwards <= how.passes(classifier, found.tokens).forwards
    assert np.isfinite(found.scores).all()


def test_a_single_word_has_all_of_it() -> None:
    found = attribution(games.played(np.array([0.0, 1.0])), "ape", "shapley", target=YES)
    assert found.scores == pytest.approx([0.9])


@pytest.mark.usefixtures("bf16")
def test_bf16_has_errors_that_hold() -> None:
    classifier = shared("bert")
    exact = attribution(classifier, TEN, Shapley(), target=1)
    rough = attribution(classifier, TEN, Shapley(precision="bf16"), target=1)
    assert rough.errors is not None
    off = (rough.scores - exact.scores)[1:-1]
    assert off.any()
    assert np.sqrt(np.mean(np.square(off / rough.errors[1:-1]))) < 3


@pytest.mark.parametrize("how", [Shapley(samples=40), ShapleyPartition(samples=40)])
def test_ten_classes_pairs_and_long_texts(how: Any) -> None:
    many = build("bert", labels=10)
    found = attribution(many, TEN, how)
    assert found.gap == pytest.approx(0, abs=1e-4)
    pair = attribution(shared("bert"), "good film", how, pair="bad story")
    assert pair.gap == pytest.approx(0, abs=1e-4)
    long = attribution(shared("bert"), " ".join(["good film bad story"] * 75), how)
    assert long.truncation is not None
    assert long.gap == pytest.approx(0, abs=1e-4)


def test_three_hundred_words() -> None:
    classifier = Plain(lambda texts: np.array([[0.5, 0.5] if "w7 " in t else [0.9, 0.1] for t in texts]))
    text = " ".join(f"w{i} " for i in range(300)) + "."
    for how in (Shapley(samples=400), Shapley(samples=900, estimator="wls"), ShapleyPartition(samples=3000)):
        found = attribution(classifier, text, how, target=YES)
        assert found.scores.sum() == pytest.approx(0.4, abs=1e-5)
        assert found.source.forwards <= how.passes(classifier, found.tokens).forwards
        assert "w7" in [word for word, _ in found.top(1 if isinstance(how, Shapley) else 40)]


@pytest.mark.parametrize(
    ("method", "wrong", "message"),
    [
        (Shapley, {"exact_up_to": 17}, "exact_up_to is a whole number from 0 to 16"),
        (Shapley, {"estimator": "lasso"}, "estimator 'lasso' is not one of kriging, wls"),
        (Shapley, {"samples": 3}, "samples is a whole number of at least 4, not 3"),
        (ShapleyPartition, {"samples": 1}, "samples is a whole number of at least 2, not 1"),
        (ShapleyPartition, {"by": "line"}, "by 'line' is not one of token, word, bag"),
    ],
)
def test_wrong_settings_are_refused(method: Any, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        method(**wrong)


# partition


def owen(values: Floats, words: list[int], context: list[list[int]]) -> dict[int, float]:
    """Owen values by recursion: halves of halves, each averaged over its sibling, and over those above, in or out."""
    if len(words) == 1:
        bit = 1 << words[0]
        sets = [sum(1 << i for i in there) for there in context]
        return {words[0]: float(np.mean([values[s | bit] - values[s] for s in sets]))}
    half = len(words) // 2
    left, right = words[:half], words[half:]
    return owen(values, left, [c + extra for c in context for extra in ([], right)]) | owen(
        values, right, [c + extra for c in context for extra in ([], left)]
    )


@given(st.integers(1, 8), st.integers(0, 50))
@settings(max_examples=25)
def test_a_tree_opened_to_the_end_gives_owen_values(d: int, seed: int) -> None:
    values = walsh(d, 0.6, seed)
    found = attribution(games.played(values), games.text(d), ShapleyPartition(), target=YES)
    twin = owen(values, list(range(d)), [[]])
    scale = 0.9 / np.ptp(values)
    assert found.scores == pytest.approx([twin[i] * scale for i in range(d)], abs=1e-9)
    assert found.gap == pytest.approx(0, abs=1e-12)
    assert not found.notes
    assert found.details["largest block"] == 1


def test_shaps_partition_explainer_agrees() -> None:
    """The same tree of halves: shap's clustering is a linkage matrix over the words."""
    d = 8
    values = walsh(d, 0.6, seed=9)
    chances = 0.05 + 0.9 * (values - values.min()) / np.ptp(values)
    tree = np.array(
        [[0, 1, 1, 2], [2, 3, 1, 2], [4, 5, 1, 2], [6, 7, 1, 2], [8, 9, 2, 4], [10, 11, 2, 4], [12, 13, 3, 8]], float
    )

    class Masker:
        shape = (None, d)
        clustering = tree

        def __call__(self, mask: Any, x: Any) -> Any:
            return (np.asarray(mask)[None] * x[None],)

        def mask_shapes(self, x: Any) -> Any:
            return [(d,)]

    explainer = shap.explainers.Partition(lambda rows: at(chances, np.asarray(rows).astype(bool)), Masker())
    theirs = explainer(np.ones((1, d)), max_evals=5000, silent=True).values[0]
    found = attribution(games.played(values), games.text(d), ShapleyPartition(), target=YES)
    assert found.scores == pytest.approx(theirs, abs=1e-6)


def test_owen_is_shapley_for_additive_and_for_pairwise_games() -> None:
    for order in (1, 2):
        values = walsh(7, 0.5, seed=order, order=order)
        classifier = games.played(values)
        one, other = (
            attribution(classifier, games.text(7), how, target=YES) for how in (Shapley(), ShapleyPartition())
        )
        assert one.scores == pytest.approx(other.scores, abs=1e-9)


@pytest.mark.parametrize("samples", [2, 3, 4, 8, 20, 60])
def test_blocks_add_up_and_share_equally(samples: int) -> None:
    values = walsh(8, 0.6, seed=samples)
    found = attribution(games.played(values), games.text(8), ShapleyPartition(samples=samples), target=YES)
    twin = owen(values, list(range(8)), [[]])
    scale = 0.9 / np.ptp(values)
    blocks = np.split(np.arange(8), np.flatnonzero(np.diff(found.scores)) + 1)
    assert len(blocks) == found.details["blocks"]
    for block in blocks:
        assert found.scores[block].sum() == pytest.approx(sum(twin[int(i)] for i in block) * scale, abs=1e-9)
    assert found.gap == pytest.approx(0, abs=1e-12)
    assert found.source.forwards <= samples
    if found.details["largest block"] > 1:
        assert "neighbouring words share a score" in found.notes[0]


@pytest.mark.parametrize(
    ("text", "pair", "first"),
    [
        ("ape bee cat dog. elk fox", None, 5),
        ("ape. bee cat dog elk fox", None, 2),
        ("ape bee cat, dog elk fox", None, 4),
        ("ape bee, cat dog elk fox. gnu", None, 8),
        ("ape bee cat dog elk. fox", "gnu hen", 7),
        ("ape bee cat dog elk fox", None, 3),
    ],
    ids=["sentence", "short sentence", "comma", "sentence over comma", "pair", "middle"],
)
def test_the_first_cut_is_where_the_text_is_cut_best(text: str, pair: str | None, first: int) -> None:
    """With four passes one cut is made: words on each side of it have one score."""

    def predict(texts: list[Any]) -> Floats:
        lengths = np.array([len(str(t)) for t in texts])
        yes = 0.1 + 0.8 / (1 + np.exp(-lengths / 10)) - 0.05 * np.array(["ape" in str(t) for t in texts])
        return np.stack([1 - yes, yes], axis=1)

    found = attribution(Plain(predict), text, ShapleyPartition(samples=4), pair=pair, target=YES)
    assert np.flatnonzero(np.diff(found.scores)).tolist() == [first - 1]
