"""Scores against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from heedful.maths import classification as scoring

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


def test_nothing_said_and_nothing_true_is_f1_of_zero() -> None:
    assert scoring.f1(np.zeros(2, dtype=bool), np.zeros(2, dtype=bool)) == 0.0
