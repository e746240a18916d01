"""Scoring: how good a classifier's answers are, given the right ones. Pure: arrays in, numbers out."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def accuracy(truth: Int[np.ndarray, "n"], said: Int[np.ndarray, "n"]) -> float:
    """The share of right answers."""
    return float((truth == said).mean())


def f1(truth: Bool[np.ndarray, "n"], said: Bool[np.ndarray, "n"]) -> float:
    """Of the positives: 2·right / (said + true); 0 where there are neither."""
    right, total = int((truth & said).sum()), int(truth.sum() + said.sum())
    return 2 * right / total if total else 0.0


def roc_auc(truth: Bool[np.ndarray, "n"], scores: Float[np.ndarray, "n"]) -> float:
    """The chance that a positive has a higher score than a negative, ties counted half; NaN without one of each."""
    positives, negatives = int(truth.sum()), int((~truth).sum())
    if not positives or not negatives:
        return float("nan")
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return float((ranks[truth].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def single_label(truth: Int[np.ndarray, "n"], chances: Float[np.ndarray, "n c"]) -> dict[str, float]:
    """Accuracy, F1 and ROC-AUC; with two labels those of the second, with more the mean over labels (macro)."""
    said = chances.argmax(1)
    labels = [1] if chances.shape[1] == 2 else range(chances.shape[1])
    return {
        "accuracy": accuracy(truth, said),
        "f1": float(np.mean([f1(truth == c, said == c) for c in labels])),
        "roc_auc": _mean([roc_auc(truth == c, chances[:, c]) for c in labels]),
    }


def multi_label(truth: Bool[np.ndarray, "n c"], chances: Float[np.ndarray, "n c"]) -> dict[str, float]:
    """The same where a text has any number of labels: accuracy is over all yes-or-no answers, the others are macro."""
    said, columns = chances > 0.5, range(truth.shape[1])
    return {
        "accuracy": float((truth == said).mean()),
        "f1": float(np.mean([f1(truth[:, c], said[:, c]) for c in columns])),
        "roc_auc": _mean([roc_auc(truth[:, c], chances[:, c]) for c in columns]),
    }


def _mean(values: list[float]) -> float:
    """Over the labels that have a value."""
    known = [v for v in values if not np.isnan(v)]
    return float(np.mean(known)) if known else float("nan")
