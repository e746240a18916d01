"""The selection of features against the lime package, scikit-learn's path, and every regression written out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from lime.lime_base import LimeBase
from sklearn.linear_model import LinearRegression, lars_path

from heedful.core.arrays import Floats
from heedful.core.errors import BadInput
from heedful.maths.lime import Design, Selection, design, fit_surrogate, kernel, lasso_path, select
from tests.support.parameters import mostly_thorough

THEIRS: dict[Selection, str] = {
    "auto": "auto",
    "highest-weights": "highest_weights",
    "forward": "forward_selection",
    "lasso-path": "lasso_path",
}


def samples(d: int, n: int, seed: int) -> tuple[Design, Floats]:
    """Samples of a text with d words, and a model that is not linear in them."""
    rng = np.random.default_rng(seed)
    made = design(d, n, "lime", rng)
    x = made.keep.astype(float)
    return made, np.tanh(x @ rng.normal(size=d)) + 0.3 * x[:, 0] * x[:, -1] + 0.1 * rng.normal(size=n)


def weights_of(made: Design) -> Floats:
    return made.counts * kernel(made.keep.mean(1), 0.25)


def moments(made: Design, values: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """The weighted and centred features and values, and their normal equations."""
    weights = weights_of(made)
    x = (made.keep - np.average(made.keep, axis=0, weights=weights)) * np.sqrt(weights)[:, None]
    y = (values - np.average(values, weights=weights)) * np.sqrt(weights)
    return x, y, x.T @ x, x.T @ y


@pytest.mark.parametrize("how", THEIRS)
@pytest.mark.parametrize("number", [1, 3, 7])
@pytest.mark.parametrize("seed", mostly_thorough(range(12), (0, 1)))
def test_the_lime_packages_features_and_coefficients(how: Selection, number: int, seed: int) -> None:
    made, values = samples(12, 150, seed)
    package = LimeBase(lambda distance: np.sqrt(np.exp(-(distance**2) / 25**2)), random_state=0)
    distance = 100 * (1 - np.sqrt(made.keep.mean(1)))  # cosine, as lime_text scales it
    intercept, theirs, score, _ = package.explain_instance_with_data(
        made.keep.astype(float), values[:, None], distance, 0, number, THEIRS[how]
    )
    fitted = fit_surrogate(made, values, 0.25, 1.0, select(made, values, 0.25, number, how))
    expected = np.zeros(12)
    for feature, coefficient in theirs:
        expected[feature] = coefficient
    assert fitted.coefficients == pytest.approx(expected, abs=1e-8)
    assert (fitted.intercept, fitted.r2) == pytest.approx((intercept, score), abs=1e-8)
    assert fitted.used == len(theirs)


def r2(made: Design, values: Floats, features: tuple[int, ...]) -> float:
    x, weights = made.keep[:, features].astype(float), weights_of(made)
    return float(LinearRegression().fit(x, values, weights).score(x, values, weights))


@pytest.mark.parametrize("sampling", ["lime", "stratified", "antithetic"])
def test_forward_selection_is_the_regression_tried_with_each_feature(sampling: str) -> None:
    made = design(7, 60, sampling, np.random.default_rng(3))  # type: ignore[arg-type]
    values = np.random.default_rng(4).normal(size=len(made))
    chosen: tuple[int, ...] = ()
    for number in range(1, 7):
        chosen = max(((*chosen, j) for j in range(7) if j not in chosen), key=lambda f: r2(made, values, f))
        assert select(made, values, 0.25, number, "forward").tolist() == sorted(chosen)


@pytest.mark.parametrize("seed", mostly_thorough(range(60), range(10)))
def test_the_lasso_path_is_scikit_learns(seed: int) -> None:
    """Theirs keeps a coefficient of 1e-18 where a feature leaves; ours is 0 there."""
    x, y, normal, moment = moments(*samples(22, 60, seed))
    _, _, coefficients = lars_path(x, y, method="lasso")
    assert lasso_path(normal, moment) == [np.flatnonzero(np.abs(knot) > 1e-12).tolist() for knot in coefficients.T[1:]]


def test_some_of_these_paths_have_a_feature_that_leaves() -> None:
    paths = [lasso_path(*moments(*samples(22, 60, seed))[2:]) for seed in range(10)]
    assert any(set(sooner) - set(later) for path in paths for sooner, later in pairwise(path))


@pytest.mark.parametrize("how", THEIRS)
def test_words_that_add_up_are_selected_by_their_size(how: Selection) -> None:
    """Weights far apart: every rule finds the largest."""
    made = design(8, 400, "lime", np.random.default_rng(0))
    values = made.keep @ np.array([0.1, -90.0, 0.2, 30.0, -0.1, 0.3, 10.0, -0.2])
    assert select(made, values, 0.25, 3, how).tolist() == [1, 3, 6]


@pytest.mark.parametrize("how", THEIRS)
def test_all_features_are_the_fit_without_selection(how: Selection) -> None:
    made, values = samples(5, 60, seed=1)
    plain, selected = (fit_surrogate(made, values, 0.25, 1.0, s) for s in (None, select(made, values, 0.25, 5, how)))
    assert selected.coefficients == pytest.approx(plain.coefficients, abs=1e-12)
    assert selected.errors == pytest.approx(plain.errors, abs=1e-12)


@pytest.mark.parametrize("how", THEIRS)
def test_a_constant_model_has_no_coefficient_whatever_is_selected(how: Selection) -> None:
    made, values = samples(6, 50, seed=0)[0], np.full(50, 0.7)
    fitted = fit_surrogate(made, values, 0.25, 1.0, select(made, values, 0.25, 2, how))
    assert not fitted.coefficients.any()
    assert fitted.r2 == 1


@pytest.mark.parametrize("how", ["forward", "highest-weights", "auto"])
def test_equal_features_are_selected_in_reading_order(how: Selection) -> None:
    """All sets of words, so that only rounding differs between the words."""
    made = design(6, 200, "stratified", np.random.default_rng(0))
    assert len(made) == 64
    values = made.keep @ np.array([0.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    assert select(made, values, 0.25, 2, how).tolist() == [1, 2]


@pytest.mark.parametrize("how", THEIRS)
def test_fewer_samples_than_features(how: Selection) -> None:
    made, values = samples(20, 8, seed=2)
    selected = select(made, values, 0.25, 15, how)
    assert len(set(selected.tolist())) == len(selected) <= 15
    assert np.isfinite(fit_surrogate(made, values, 0.25, 1.0, selected).coefficients).all()


def test_without_a_ridge_only_the_selected_features_must_be_determined() -> None:
    made, values = samples(9, 8, seed=1)
    with pytest.raises(BadInput, match="8 samples do not determine 9 coefficients"):
        fit_surrogate(made, values, 0.25, 0.0)
    assert fit_surrogate(made, values, 0.25, 0.0, select(made, values, 0.25, 2, "forward")).used == 2


# the errors


def draws(effects: Floats, number: int) -> tuple[Floats, Floats]:
    """Coefficients and errors over 200 seeds, with a model that is not linear."""
    fits = []
    for seed in range(200):
        made = design(len(effects), 120, "lime", np.random.default_rng(seed))
        values = np.tanh(made.keep @ effects)
        fits.append(fit_surrogate(made, values, 0.25, 1.0, select(made, values, 0.25, number, "forward")))
    return np.array([f.coefficients for f in fits]), np.array([f.errors for f in fits])


def test_where_the_selection_is_certain_the_errors_are_the_spread() -> None:
    found, errors = draws(np.array([1.0, 0.02, -0.8, 0.02, 0.02, 0.02]), 2)
    assert (found != 0).all(0).tolist() == [True, False, True, False, False, False]
    assert not errors[:, [1, 3, 4, 5]].any()
    ratios = np.sqrt((errors**2).mean(0))[[0, 2]] / found.std(0, ddof=1)[[0, 2]]
    assert ratios == pytest.approx([1, 1], abs=0.15)


def test_where_the_selection_is_chance_the_errors_are_too_small() -> None:
    """Two equal words for one place: each scores 0 in about half of the draws, and the errors say nothing of it."""
    found, errors = draws(np.array([0.5, 0.5, 0.02, 0.02]), 1)
    assert 0.3 < (found[:, 0] != 0).mean() < 0.7
    assert found.std(0)[:2].min() > 2 * errors.max()
