"""Scores against scikit-learn's; F1 as a mean over texts, by finite differences and by bootstrap."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from heedful.core.arrays import Ints
from heedful.maths import classification as scoring
from heedful.maths.stats import estimate

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("labels", [2, 3, 7])
def test_single_label(labels: int) -> None:
    truth = RNG.integers(labels, size=200)
    chances = RNG.dirichlet(np.ones(labels), size=200).round(1 if labels == 2 else 3)  # with ties
    chances[:, -1] = 1 - chances[:, :-1].sum(1)
    said = chances.argmax(1)
    result = scoring.single_label(truth, chances)
    assert result["accuracy"] == pytest.approx(metrics.accuracy_score(truth, said))
    assert result["f1"] == pytest.approx(metrics.f1_score(truth, said, average="binary" if labels == 2 else "macro"))
    expected = (
        metrics.roc_auc_score(truth, chances[:, 1])
        if labels == 2
        else np.mean([metrics.roc_auc_score(truth == c, chances[:, c]) for c in range(labels)])
    )
    assert result["roc_auc"] == pytest.approx(expected)


def test_multi_label() -> None:
    truth, chances = RNG.random((300, 4)) > 0.7, RNG.random((300, 4))
    result = scoring.multi_label(truth, chances)
    assert result["f1"] == pytest.approx(metrics.f1_score(truth, chances > 0.5, average="macro"))
    assert result["roc_auc"] == pytest.approx(metrics.roc_auc_score(truth, chances, average="macro"))


def test_one_class_alone_has_no_auc() -> None:
    assert np.isnan(scoring.roc_auc(np.ones(3, dtype=bool), np.arange(3.0)))


def test_a_label_without_texts_does_not_spoil_the_mean() -> None:
    truth, chances = (
        np.array([0, 1, 0, 1]),
        np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.4, 0.5, 0.1], [0.1, 0.3, 0.6]]),
    )
    assert scoring.single_label(truth, chances)["roc_auc"] == pytest.approx((1.0 + 0.75) / 2)


@pytest.mark.parametrize("decimals", [1, 9])
def test_the_area_under_precision_and_recall_is_that_of_its_curve(decimals: int) -> None:
    truth, scores = RNG.random(80) > 0.6, RNG.random(80).round(decimals)  # with ties
    precision, recall, _ = metrics.precision_recall_curve(truth, scores)
    assert scoring.pr_auc(truth, scores) == pytest.approx(metrics.auc(recall, precision))
    assert np.isnan(scoring.pr_auc(np.zeros(3, dtype=bool), np.arange(3.0)))


def test_nothing_said_and_nothing_true_is_f1_of_zero() -> None:
    assert scoring.f1(np.zeros(2, dtype=bool), np.zeros(2, dtype=bool)) == 0.0


# F1 as a mean over texts


def answers(n: int, labels: int, seed: int = 0) -> tuple[Ints, Ints]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(labels, size=n)
    return truth, np.where(rng.random(n) < 0.7, truth, rng.integers(labels, size=n))


def f1_of(truth: Ints, predicted: Ints, labels: int) -> float:
    return scoring.single_label(truth, np.eye(labels)[predicted])["f1"]


@pytest.mark.parametrize("labels", [2, 3, 5])
def test_the_mean_is_f1(labels: int) -> None:
    truth, predicted = answers(60, labels)
    assert scoring.f1_values(truth, predicted, labels).mean() == pytest.approx(
        f1_of(truth, predicted, labels), abs=1e-12
    )


@pytest.mark.parametrize("labels", [2, 3])
def test_a_value_is_the_effect_of_more_weight_on_its_text(labels: int) -> None:
    truth, predicted = answers(30, labels)
    copies, values = 2000, scoring.f1_values(truth, predicted, labels)
    score = f1_of(truth, predicted, labels)
    for i in (0, 7, 20):
        more = [np.concatenate([np.tile(x, copies), [x[i]]]) for x in (truth, predicted)]
        slope = (f1_of(more[0], more[1], labels) - score) * (30 * copies + 1)
        assert slope == pytest.approx(values[i] - score, abs=0.01)


@pytest.mark.parametrize("labels", [2, 4])
def test_the_interval_is_that_of_the_bootstrap(labels: int) -> None:
    truth, predicted = answers(400, labels, seed=1)
    interval = estimate(scoring.f1_values(truth, predicted, labels))
    rng = np.random.default_rng(0)
    draws = [f1_of(truth[i], predicted[i], labels) for i in rng.integers(400, size=(2000, 400))]
    low, high = np.quantile(draws, (0.025, 0.975))
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=0.01)


def test_without_a_positive_f1_is_zero() -> None:
    np.testing.assert_array_equal(scoring.f1_values(np.zeros(5, dtype=int), np.zeros(5, dtype=int), 2), np.zeros(5))
