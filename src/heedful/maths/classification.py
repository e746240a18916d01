"""Accuracy, F1 and ROC-AUC of a classifier. Pure: arrays in, numbers out."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def accuracy(truth: Int[np.ndarray, "n"], predicted: Int[np.ndarray, "n"]) -> float:
    """The share of correct predictions."""
    return float((truth == predicted).mean())


def f1(truth: Bool[np.ndarray, "n"], predicted: Bool[np.ndarray, "n"]) -> float:
    """F1 of the positive class: 2·correct / (predicted + true); 0 where there are neither."""
    correct, total = int((truth & predicted).sum()), int(truth.sum() + predicted.sum())
    return 2 * correct / total if total else 0.0


def roc_auc(truth: Bool[np.ndarray, "n"], scores: Float[np.ndarray, "n"]) -> float:
    """The probability that a positive scores higher than a negative, ties counted half; NaN without one of each."""
    positives, negatives = int(truth.sum()), int((~truth).sum())
    if not positives or not negatives:
        return float("nan")
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return float((ranks[truth].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def single_label(truth: Int[np.ndarray, "n"], probabilities: Float[np.ndarray, "n c"]) -> dict[str, float]:
    """Accuracy, F1 and ROC-AUC; with two labels those of the second, with more the mean over labels (macro)."""
    predicted = probabilities.argmax(1)
    labels = [1] if probabilities.shape[1] == 2 else range(probabilities.shape[1])
    return {
        "accuracy": accuracy(truth, predicted),
        "f1": float(np.mean([f1(truth == c, predicted == c) for c in labels])),
        "roc_auc": _mean([roc_auc(truth == c, probabilities[:, c]) for c in labels]),
    }


def multi_label(truth: Bool[np.ndarray, "n c"], probabilities: Float[np.ndarray, "n c"]) -> dict[str, float]:
    """The same where a text has any number of labels: accuracy over all yes-or-no predictions, the others macro."""
    predicted, columns = probabilities > 0.5, range(truth.shape[1])
    return {
        "accuracy": float((truth == predicted).mean()),
        "f1": float(np.mean([f1(truth[:, c], predicted[:, c]) for c in columns])),
        "roc_auc": _mean([roc_auc(truth[:, c], probabilities[:, c]) for c in columns]),
    }


def _mean(values: list[float]) -> float:
    """Over the labels that have a value."""
    known = [v for v in values if not np.isnan(v)]
    return float(np.mean(known)) if known else float("nan")
