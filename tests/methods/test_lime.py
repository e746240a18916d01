"""LIME against the lime package, scikit-learn, and all samples written out."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lime.lime_base import LimeBase
from lime.lime_text import LimeTextExplainer
from numpy.testing import assert_allclose
from scipy.stats import chisquare
from sklearn.linear_model import Ridge

import heedful.methods.lime as lime_module
from heedful.core.arrays import Floats
from heedful.core.errors import BadInput
from heedful.core.explanation import Attribution
from heedful.core.settings import draw_key
from heedful.core.target import Target
from heedful.maths import kriging
from heedful.maths import lime as s
from heedful.maths.shapley import all_subsets
from heedful.methods.explain import explain
from heedful.methods.lime import Lime, strength_tau
from heedful.model.classifier import Classifier
from heedful.model.function import Plain
from heedful.model.inference import answers
from heedful.model.masking import Variants, features
from tests.support import games
from tests.support.games import at, walsh
from tests.support.models import build, shared
from tests.support.parameters import mostly_thorough

SAMPLINGS: tuple[s.Sampling, ...] = ("lime", "stratified", "antithetic")
WORDS = "good film bad story good music awful acting good story great"  # repeated words included
PROBABILITY = Target(1, scale="probability")


def design(d: int, samples: int, sampling: s.Sampling = "lime", seed: int = 0) -> s.Design:
    return s.design(d, samples, sampling, np.random.default_rng(seed))


def whole(d: int, samples: int) -> s.Design:
    """All sets of words, each as often as the lime package draws it among so many samples."""
    keep = all_subsets(d)
    counts = np.array([1.0 if row.all() else (samples - 1) / d / comb(d, int(row.sum())) for row in keep])
    return s.Design(keep, counts, np.zeros(2**d, int), np.arange(2**d), np.zeros(2**d))


def attribution(classifier: Classifier, text: str, how: Lime, **more: Any) -> Attribution:
    found = explain(classifier, text, how, **more)
    assert isinstance(found, Attribution)
    return found


# the lime package


def predict(classifier: Classifier, texts: list[str]) -> Floats:
    """Probabilities of texts from which words were deleted; of nothing, those of the special tokens alone."""
    cut = [classifier.tokens(text) for text in texts if text.strip()]
    rows = iter([p.probabilities for p in classifier.predictions(cut)])
    some = classifier.tokens("film")
    nothing = answers(classifier, [Variants(some, np.zeros((1, len(some)), bool))]).logits.softmax(-1)[0].tolist()
    return np.array([next(rows) if text.strip() else nothing for text in texts])


def package(
    classifier: Classifier, text: str, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> tuple[Any, Floats, Floats]:
    """What the lime package says of a text (of all words by default), and the masks and labels that it fitted."""
    seen: list[tuple[Floats, Floats]] = []
    fitted = LimeBase.explain_instance_with_data

    def spy(self: Any, data: Floats, labels: Floats, *rest: Any, **more: Any) -> Any:
        seen.append((data.copy(), labels.copy()))
        return fitted(self, data, labels, *rest, **more)

    monkeypatch.setattr(LimeBase, "explain_instance_with_data", spy)
    number = settings.pop("num_features", 99)
    explainer = LimeTextExplainer(random_state=0, **{"feature_selection": "none"} | settings)
    found = explainer.explain_instance(
        text, lambda texts: predict(classifier, texts), labels=(1,), num_features=number, num_samples=400
    )
    return found, *seen[0]


def as_design(data: Floats) -> s.Design:
    n = len(data)
    return s.Design(data.astype(bool), np.ones(n), np.zeros(n, int), np.arange(n), np.ones(n))


@pytest.mark.parametrize("bow", [True, False])
def test_the_lime_packages_numbers_from_its_masks_and_labels(bow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found, data, labels = package(shared("bert"), WORDS, monkeypatch, bow=bow)
    fitted = s.fit_surrogate(as_design(data), labels[:, 1], width=0.25, ridge=1.0)
    theirs = dict(found.local_exp[1])
    assert len(theirs) == (8 if bow else 11)
    assert fitted.coefficients == pytest.approx([theirs[i] for i in range(len(theirs))], abs=1e-6)
    assert fitted.intercept == pytest.approx(found.intercept[1], abs=1e-6)
    assert fitted.r2 == pytest.approx(found.score[1] if np.isscalar(found.score) is False else found.score, abs=1e-6)


@pytest.mark.parametrize(
    ("how", "lime_settings"),
    [
        (Lime(by="bag"), {"bow": True}),
        (Lime(by="word", masking="token:film"), {"bow": False, "mask_string": "film"}),
    ],
    ids=["bag", "positions"],
)
@pytest.mark.parametrize("family", ["bert", "electra"])
def test_the_lime_packages_masks_through_our_engine(
    how: Lime, lime_settings: dict[str, Any], family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier = shared(family)
    found, data, labels = package(classifier, WORDS, monkeypatch, **lime_settings)
    tokens = classifier.tokens(WORDS)
    asked = how.variants(tokens, data.astype(bool), torch.Generator())
    values = answers(classifier, [asked]).values(classifier, PROBABILITY)
    assert values == pytest.approx(labels[:, 1], abs=1e-5)
    fitted = s.fit_surrogate(as_design(data), values, how.kernel_width, how.ridge)
    theirs = dict(found.local_exp[1])
    assert fitted.coefficients == pytest.approx([theirs[i] for i in range(len(theirs))], abs=1e-5)


def test_the_packages_coefficients_are_within_our_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = shared("bert")
    theirs = dict(package(classifier, WORDS, monkeypatch, bow=True)[0].local_exp[1])
    found = attribution(classifier, WORDS, Lime(samples=400), target=PROBABILITY)
    assert found.errors is not None
    for i, group in enumerate(features(found.tokens, "bag")):
        assert abs(found.scores[group].sum() - theirs[i]) < 4 * np.sqrt(2) * found.errors[group].sum()


@pytest.mark.parametrize("width", [0.1, 0.25, 2.0])
@pytest.mark.parametrize("ridge", [0.0, 1.0, 30.0])
def test_the_fit_is_scikit_learns_weighted_ridge(width: float, ridge: float) -> None:
    made = design(7, 300, "stratified")
    values = at(walsh(7, 0.3, seed=1), made.keep)
    weights = made.counts * s.kernel(made.keep.mean(1), width)
    theirs = Ridge(alpha=ridge, fit_intercept=True).fit(made.keep.astype(float), values, sample_weight=weights)
    fitted = s.fit_surrogate(made, values, width, ridge)
    assert fitted.coefficients == pytest.approx(theirs.coef_, abs=1e-8)
    assert fitted.intercept == pytest.approx(theirs.intercept_, abs=1e-8)
    assert fitted.r2 == pytest.approx(theirs.score(made.keep.astype(float), values, sample_weight=weights), abs=1e-8)
    assert fitted.operator @ values == pytest.approx(fitted.coefficients, abs=1e-9)


# the samples


def test_sizes_and_subsets_are_equally_likely() -> None:
    made = design(4, 24_001)
    assert made.keep[0].all()
    removed = 4 - made.keep[1:].sum(1)
    assert chisquare(np.bincount(removed, minlength=5)[1:]).pvalue > 1e-3
    for size in (1, 2, 3):
        rows = made.keep[1:][removed == size]
        _, counts = np.unique(rows, axis=0, return_counts=True)
        assert len(counts) == comb(4, size)
        assert chisquare(counts).pvalue > 1e-3


def test_the_package_draws_by_the_same_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """So does the package itself: the same chi-square test on its own masks, for the sizes."""
    text = " ".join("abcdefgh")
    constant = Plain(lambda texts: np.full((len(texts), 2), 0.5))
    seen: list[Floats] = []

    def spy(self: Any, data: Floats, *_: Any, **__: Any) -> tuple[float, list[Any], float, float]:
        seen.append(data)
        return 0.0, [], 0.0, 0.0

    monkeypatch.setattr(LimeBase, "explain_instance_with_data", spy)
    LimeTextExplainer(random_state=0).explain_instance(text, constant.predict, num_samples=8001)
    theirs, ours = 8 - seen[0][1:].sum(1).astype(int), 8 - design(8, 8001).keep[1:].sum(1)
    for removed in (theirs, ours):
        assert chisquare(np.bincount(removed, minlength=9)[1:]).pvalue > 1e-3


@given(st.integers(1, 60), st.integers(2, 600), st.sampled_from(SAMPLINGS[1:]))
@settings(max_examples=40)
def test_strata_stand_for_what_lime_would_draw(d: int, samples: int, sampling: s.Sampling) -> None:
    made = design(d, samples, sampling)
    assert made.keep[0].all()
    assert made.counts[0] == 1
    removed = d - made.keep.sum(1)
    assert np.array_equal(removed, made.stratum)
    shares = np.bincount(removed, made.counts, minlength=d + 1)[1:]
    assert shares == pytest.approx(np.full(d, (samples - 1) / d))
    assert len(made) <= max(samples, d + 1)
    listed = [comb(d, int(k)) for k in removed]
    assert all(
        (share == 0) == (np.sum(removed == k) == n) for share, k, n in zip(made.undrawn, removed, listed, strict=True)
    )


@pytest.mark.parametrize("sampling", SAMPLINGS[1:])
def test_every_word_is_removed_equally_often(sampling: s.Sampling) -> None:
    kept = np.array([made.counts @ made.keep for made in (design(9, 60, sampling, seed) for seed in range(300))])
    expected = 1 + 59 * sum((9 - k) / 9 for k in range(1, 10)) / 9
    off = (kept.mean(0) - expected) / (kept.std(0) / np.sqrt(300))
    assert np.abs(off).max() < 3.5


def test_pairs_are_two_ends_of_one_order() -> None:
    made = design(12, 200, "antithetic")
    for pair in np.unique(made.pair[made.undrawn > 0]):
        rows = made.keep[made.pair == pair]
        if len(rows) == 2 and made.undrawn[made.pair == pair][0] > 0 and 2 * (~rows[0]).sum() <= 12:
            assert not (~rows[0] & ~rows[1]).any()


@given(
    st.lists(st.floats(1e-6, 1), min_size=1, max_size=30),
    st.lists(st.integers(1, 5000), min_size=30, max_size=30),
    st.integers(0, 3000),
)
def test_allocation_spends_no_more_than_it_has(weight: list[float], available: list[int], samples: int) -> None:
    available = available[: len(weight)]
    found = s.allocate(np.array(weight), available, samples)
    assert sum(found) <= max(samples, len(weight))
    assert all(1 <= n <= most for n, most in zip(found, available, strict=True))
    if samples >= sum(available):
        assert found == available


# the estimand and the errors


def draws(values: Floats, samples: int, sampling: s.Sampling, smooth: bool, seeds: int) -> tuple[Floats, Floats]:
    d = len(values).bit_length() - 1
    regression = s.smooth_fit if smooth else s.fit_surrogate
    made = [design(d, samples, sampling, seed) for seed in range(seeds)]
    fits = [regression(one, at(values, one.keep), 0.25, 1.0) for one in made]
    return np.array([f.coefficients for f in fits]), np.array([f.errors for f in fits])


@pytest.mark.parametrize(
    ("sampling", "smooth"),
    mostly_thorough(
        [(sampling, smooth) for sampling in SAMPLINGS for smooth in (False, True)],
        [*((sampling, False) for sampling in SAMPLINGS), ("stratified", True)],
    ),
)
def test_every_design_estimates_the_same_with_the_error_it_says(sampling: s.Sampling, smooth: bool) -> None:
    """Mean and spread over 200 seeds (100 of kriging), against the regression on all sets of 8 words.

    A regression on a random design is off by a small part of its own spread, like the package's.
    """
    values = walsh(8, 0.2, seed=3)
    truth = s.fit_surrogate(whole(8, 120), values, 0.25, 1.0).coefficients
    found, errors = draws(values, 120, sampling, smooth, 100 if smooth else 200)
    spread = found.std(0, ddof=1)
    off = found.mean(0) - truth
    assert np.sqrt((off**2).mean()) < 0.2 * np.sqrt((spread**2).mean())
    ratios = np.sqrt((errors**2).mean(0)) / spread
    assert 0.85 < np.median(ratios) < 1.15
    assert ratios.min() > 0.75
    assert ratios.max() < 1.3


@pytest.mark.parametrize("rho", mostly_thorough((0.05, 0.3), (0.3,)))
def test_strata_pairs_and_kriging_do_no_harm(rho: float) -> None:
    values = walsh(8, rho, seed=5)
    truth = s.fit_surrogate(whole(8, 120), values, 0.25, 1.0).coefficients

    def error(sampling: s.Sampling, smooth: bool) -> float:
        return float(np.sqrt(((draws(values, 120, sampling, smooth, 40)[0] - truth) ** 2).mean()))

    plain = error("lime", smooth=False)
    assert error("stratified", smooth=False) < plain
    assert error("antithetic", smooth=False) < plain
    assert error("lime", smooth=True) < plain
    assert error("stratified", smooth=True) < error("stratified", smooth=False)


@pytest.mark.parametrize("sampling", SAMPLINGS[1:])
@pytest.mark.parametrize("smooth", [False, True])
def test_all_sets_are_exact(sampling: s.Sampling, smooth: bool) -> None:
    values = walsh(6, 0.5, seed=0)
    made = design(6, 500, sampling)
    assert len(made) == 64
    fitted = (s.smooth_fit if smooth else s.fit_surrogate)(made, at(values, made.keep), 0.25, 1.0)
    truth = s.fit_surrogate(whole(6, 500), values, 0.25, 1.0)
    assert fitted.coefficients == pytest.approx(truth.coefficients, abs=1e-6)
    assert fitted.intercept == pytest.approx(truth.intercept, abs=1e-6)
    assert fitted.errors == pytest.approx(np.zeros(6), abs=1e-12)


@pytest.mark.parametrize("d", [1, 2, 3, 6, 9])
@pytest.mark.parametrize("rho", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_the_population_in_closed_form_is_a_regression_on_all_sets(d: int, rho: float, ridge: float) -> None:
    rng = np.random.default_rng(d)
    keep = all_subsets(d)[rng.permutation(2**d)[: min(2**d, 12)]]
    weights = rng.normal(size=len(keep))
    guess = kriging.with_level(kriging.signs(all_subsets(d)), kriging.signs(keep), np.full(d, rho)) @ weights
    twin = s.fit_surrogate(whole(d, 77), guess, 0.25, ridge)
    found = s.population(design(d, 77), rho, 0.25, ridge, keep, weights)
    assert_allclose(found, twin.coefficients, rtol=1e-9, atol=1e-9 * np.abs(guess).max())


def test_a_value_that_chance_moves_still_corrects_the_guess() -> None:
    """The same set may get two values (a language model fills it in): both count, not only the first."""
    made = design(3, 60)
    rng = np.random.default_rng(0)
    values = made.keep @ np.array([1.0, 2.0, 3.0]) + rng.normal(size=60) * 0.3
    assert s.smooth_fit(made, values, 0.25, 1.0).errors.max() < 1
    again = np.random.default_rng(1).permutation(np.arange(1, 60))
    order = np.r_[0, again]
    other = s.Design(made.keep[order], made.counts, made.stratum, made.pair, made.undrawn)
    one = s.smooth_fit(made, values, 0.25, 1.0).coefficients
    two = s.smooth_fit(other, values[order], 0.25, 1.0).coefficients
    assert np.abs(one - two).max() < 3 * np.sqrt(2) * s.fit_surrogate(made, values, 0.25, 1.0).errors.max()


def test_too_few_samples_without_a_ridge_are_refused() -> None:
    made = design(9, 5)
    with pytest.raises(BadInput, match="5 samples do not determine 9 coefficients; raise samples, or set a ridge"):
        s.fit_surrogate(made, made.keep.sum(1).astype(float), 0.25, 0.0)


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_constant_gives_zeros(sampling: s.Sampling, smooth: bool) -> None:
    made = design(5, 50, sampling)
    fitted = (s.smooth_fit if smooth else s.fit_surrogate)(made, np.full(len(made), 0.7), 0.25, 1.0)
    assert not fitted.coefficients.any()
    assert not fitted.errors.any()
    assert fitted.intercept == pytest.approx(0.7)
    assert fitted.r2 == 1


# the method


ADDITIVE = games.products(8)[:, [1 << i for i in range(8)]] @ np.array([8.0, -7, 6, -5, 4, -3, 2, -1])


def test_automatic_samples_stop_earlier_on_a_smooth_game() -> None:
    smooth, rugged = (
        attribution(games.played(values), games.text(8), Lime(samples="auto"), target=PROBABILITY)
        for values in (ADDITIVE, walsh(8, 1.0, seed=4))
    )
    assert smooth.details["samples"] == 512
    assert rugged.details["samples"] > 512
    assert min(smooth.details["stability"], rugged.details["stability"]) >= 0.95
    assert not smooth.notes


def test_automatic_samples_say_when_they_gave_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(lime_module.MAX_SAMPLES, "regression", 512)
    found = attribution(games.played(walsh(10, 1.0, seed=0)), games.text(10), Lime(samples="auto", stability=1.0))
    assert found.details["stability"] < 1
    assert found.notes == ("the ranking was not yet stable after 512 samples",)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("estimator", ["regression", "kriging"])
@pytest.mark.parametrize("text", ["film", "good film"])
def test_one_and_two_words(text: str, sampling: Any, estimator: Any) -> None:
    found = attribution(shared("bert"), text, Lime(samples=20, sampling=sampling, estimator=estimator))
    assert np.isfinite(found.scores).all()
    assert found.scores[list(found.tokens.content)].any()


def test_one_word_by_hand() -> None:
    """Two values only: the coefficient is their difference, less what the ridge takes."""
    classifier = games.played(np.array([0.0, 1.0]))
    found = attribution(classifier, "ape", Lime(samples=100, ridge=0.0), target=PROBABILITY)
    assert found.scores == pytest.approx([0.9])
    assert found.details["intercept"] == pytest.approx(0.05)
    assert found.details["r2"] == pytest.approx(1)


@pytest.mark.parametrize("number", [3, 7])
def test_the_lime_packages_selection_of_words(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its default, "auto": forward for three words, highest weights for seven."""
    found, data, labels = package(shared("bert"), WORDS, monkeypatch, feature_selection="auto", num_features=number)
    made = as_design(data)
    fitted = s.fit_surrogate(made, labels[:, 1], 0.25, 1.0, s.select(made, labels[:, 1], 0.25, number, "auto"))
    theirs = dict(found.local_exp[1])
    assert len(theirs) == number
    assert fitted.coefficients == pytest.approx([theirs.get(i, 0.0) for i in range(8)], abs=1e-8)


def test_words_that_are_not_selected_score_0_and_a_note_says_so() -> None:
    found = attribution(games.played(ADDITIVE), games.text(8), Lime(num_features=2), target=PROBABILITY)
    assert found.errors is not None
    assert np.flatnonzero(found.scores).tolist() == np.flatnonzero(found.errors).tolist() == [0, 1]
    assert found.details["selected"] == 2
    assert found.notes == ("words that were not selected score 0; standard errors do not include the selection",)


def test_all_words_selected_need_no_note() -> None:
    found = attribution(games.played(ADDITIVE), games.text(8), Lime(num_features=8), target=PROBABILITY)
    assert (found.details["selected"], found.notes) == (8, ())


def test_automatic_samples_go_with_a_selection() -> None:
    how = Lime(samples="auto", num_features=3)
    found = attribution(games.played(ADDITIVE), games.text(8), how, target=PROBABILITY)
    assert np.flatnonzero(found.scores).tolist() == [0, 1, 2]
    assert found.details["stability"] >= 0.95


def test_the_draws_without_selection_do_not_move() -> None:
    assert draw_key("lime", Lime())[1] == {
        "masking": "delete", "by": "bag", "precision": "float32", "samples": 1000, "sampling": "lime",
        "estimator": "regression", "kernel_width": 0.25, "ridge": 1.0, "stability": 0.95,
    }  # fmt: skip


def test_a_saturated_model() -> None:
    found = attribution(Plain(lambda texts: np.tile([0.0, 1.0], (len(texts), 1))), games.text(6), Lime(samples=100))
    assert not found.scores.any()
    assert found.details["r2"] == 1


@pytest.mark.parametrize(("by", "n"), [("bag", 3), ("word", 5), ("token", 10)])
def test_what_a_feature_is(by: Any, n: int) -> None:
    classifier = shared("bert")
    text = "good sisters good unbelievably good"
    tokens = classifier.tokens(text)
    groups = features(tokens, by)
    n = len(tokens.content) if by == "token" else n
    assert len(groups) == n
    found = attribution(classifier, text, Lime(by=by, samples=200))
    for group in groups:
        assert len({float(found.scores[i]) for i in group}) == 1
        assert found.errors is not None
        assert len({float(found.errors[i]) for i in group}) == 1


def test_a_words_pieces_share_its_coefficient_and_its_error_equally() -> None:
    found = attribution(shared("bert"), "unbelievably good", Lime(by="word", samples=64), seed=1)
    view, groups = found.by("word"), found.tokens.by("word")[1]
    assert view.errors is not None
    assert found.errors is not None
    assert max(map(len, groups)) > 1
    for j, group in enumerate(groups):
        assert found.scores[group] == pytest.approx(view.scores[j] / len(group), abs=1e-12)
        assert found.errors[group] == pytest.approx(view.errors[j] / len(group), abs=1e-12)


def test_bag_is_the_default_and_takes_all_occurrences_away() -> None:
    classifier = games.played(np.array([0.0, 1.0, 2.0, 3.0]))
    found = attribution(classifier, "bee ape ape", Lime(samples=200, ridge=0.0), target=PROBABILITY)
    assert found.scores == pytest.approx([0.6, 0.15, 0.15], abs=1e-9)


CONFIGURATIONS = [
    Lime(samples=5),
    Lime(samples=5, sampling="stratified"),
    Lime(samples=100, sampling="antithetic", estimator="kriging"),
    Lime(samples=100, precision="bf16"),
    Lime(samples="auto", sampling="stratified"),
]


@pytest.mark.parametrize("how", CONFIGURATIONS, ids=lambda m: f"{m.samples}-{m.sampling}-{m.precision}")
def test_the_cost_is_no_more_than_promised(how: Lime) -> None:
    classifier = shared("bert")
    text = "The film was not funny, but its ending moved me to tears."
    found = attribution(classifier, text, how)
    assert 0 < found.source.forwards <= how.passes(classifier, found.tokens).forwards


@pytest.mark.usefixtures("bf16")
def test_bf16_adds_to_the_errors() -> None:
    classifier = shared("bert")
    rough, exact = (
        attribution(classifier, WORDS, Lime(samples=300, sampling="stratified", precision=p))
        for p in ("bf16", "float32")
    )
    assert rough.errors is not None
    assert exact.errors is not None
    assert exact.errors == pytest.approx(np.zeros(len(exact.tokens)), abs=1e-12)  # 2⁸ sets, all asked for
    assert rough.errors[1:-1].min() > 0
    assert np.abs(rough.scores - exact.scores)[1:-1].max() < 5 * rough.errors.max()


def test_ten_classes_a_pair_and_a_long_text() -> None:
    many = build("bert", labels=10)
    assert np.isfinite(attribution(many, WORDS, Lime(samples=30)).scores).all()
    pair = attribution(shared("bert"), "good film", Lime(samples=50), pair="good story")
    assert len({float(pair.scores[i]) for i in pair.tokens.content}) == 4  # "good" is another word in the other text
    long = attribution(shared("bert"), " ".join(["good film bad story"] * 75), Lime(samples=40, by="word"))
    assert long.truncation is not None
    assert np.isfinite(long.scores).all()


@pytest.mark.parametrize("sampling", mostly_thorough(SAMPLINGS, ("stratified",)))
def test_three_hundred_words(sampling: s.Sampling) -> None:
    classifier = Plain(lambda texts: np.array([[0.5, 0.5] if "w7 " in t else [0.9, 0.1] for t in texts]))
    text = " ".join(f"w{i} " for i in range(300)) + "."
    for how in (Lime(samples=700, sampling=sampling), Lime(samples=400, sampling=sampling, estimator="kriging")):
        found = attribution(classifier, text, how, target=PROBABILITY)
        assert found.source.forwards <= how.passes(classifier, found.tokens).forwards
        assert found.top(1)[0][0] == "w7"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"samples": 1}, "samples is a whole number of at least 2 or 'auto', not 1"),
        ({"samples": "many"}, "samples is a whole number of at least 2 or 'auto', not 'many'"),
        ({"sampling": "random"}, "sampling 'random' is not one of lime, stratified, antithetic"),
        ({"estimator": "lasso"}, "estimator 'lasso' is not one of regression, kriging"),
        ({"kernel_width": 0.0}, "kernel_width is a number above 0, not 0.0"),
        ({"ridge": -1.0}, "ridge is a number of at least 0, not -1.0"),
        ({"by": "phrase"}, "by 'phrase' is not one of token, word, bag, sentence, auto"),
        ({"precision": "fp8"}, "precision 'fp8' is not one of float32, bf16"),
        ({"num_features": 0}, "num_features is a whole number of at least 1 or none, not 0"),
        ({"selection": "ridge"}, "selection 'ridge' is not one of auto, highest-weights, forward, lasso-path"),
        ({"selection": "forward"}, "selection 'forward' needs a number of words to select; set num_features"),
        ({"num_features": 3, "estimator": "kriging"}, "estimator 'kriging' does not select words; use"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Lime(**wrong)


def test_agreement_of_rankings() -> None:
    one = np.array([3.0, -2.0, 1.0, 0.5])
    assert strength_tau(one, -one) == pytest.approx(1)  # by strength
    assert strength_tau(one, one) == 1
    assert strength_tau(one, one[::-1].copy()) == pytest.approx(-1)
    assert strength_tau(one[:1], -2 * one[:1]) == 1
    assert strength_tau(np.zeros(3), np.zeros(3)) == 1
    swapped_weak, swapped_strong = np.array([3.0, -2.0, 0.5, 1.0]), np.array([2.0, -3.0, 1.0, 0.5])
    assert strength_tau(one, swapped_weak) > strength_tau(one, swapped_strong)
