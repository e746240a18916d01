"""Accuracy, F1, ROC-AUC and PR-AUC of a classifier. Pure: arrays in, numbers out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from heedful.core.arrays import Bools, Floats


def accuracy(truth: Int[np.ndarray, "n"], predicted: Int[np.ndarray, "n"]) -> float:
    """The share of correct predictions."""
    return float((truth == predicted).mean())


def f1(truth: Bool[np.ndarray, "n"], predicted: Bool[np.ndarray, "n"]) -> float:
    """F1 of the positive class: 2·correct / (predicted + true); 0 if both are 0."""
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


def pr_auc(truth: Bool[np.ndarray, "n"], scores: Float[np.ndarray, "n"]) -> float:
    """The area under precision against recall, by trapezoids from (0, 1); NaN without a positive."""
    if not truth.any():
        return float("nan")
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.diff(scores[order]) != 0, True)  # equal scores are one point
    correct = np.cumsum(truth[order])[last]
    precision, recall = correct / (np.flatnonzero(last) + 1), correct / correct[-1]
    return float(np.trapezoid(np.r_[1.0, precision], np.r_[0.0, recall]))


def single_label(truth: Int[np.ndarray, "n"], probabilities: Float[np.ndarray, "n c"]) -> dict[str, float]:
    """Accuracy, F1 and ROC-AUC; with two labels those of the second, with more the mean over labels (macro)."""
    predicted = probabilities.argmax(1)
    labels = [1] if probabilities.shape[1] == 2 else range(probabilities.shape[1])
    columns = [(truth == c, predicted == c, probabilities[:, c]) for c in labels]
    return {"accuracy": accuracy(truth, predicted), **_macro(columns)}


def f1_values(truth: Int[np.ndarray, "n"], predicted: Int[np.ndarray, "n"], labels: int) -> Float[np.ndarray, "n"]:
    """A number for each text whose mean is F1, for an interval over texts; F1 as in `single_label`.

    F1 is a ratio of two means over texts, of x = 2·[correct] and of y = [predicted] + [true]. It is linearised there
    (its influence function): F + (x − F·y) / mean y.
    """
    values = []
    for c in [1] if labels == 2 else range(labels):
        x, y = 2.0 * ((truth == c) & (predicted == c)), 1.0 * (truth == c) + (predicted == c)
        score = f1(truth == c, predicted == c)
        values.append(score + (x - score * y) / (y.mean() or 1.0))
    return np.asarray(np.mean(values, 0))


def multi_label(truth: Bool[np.ndarray, "n c"], probabilities: Float[np.ndarray, "n c"]) -> dict[str, float]:
    """The same where a text has any number of labels: accuracy over all yes-or-no predictions, the others macro."""
    predicted = probabilities > 0.5
    columns = list(zip(truth.T, predicted.T, probabilities.T, strict=True))
    return {"accuracy": float((truth == predicted).mean()), **_macro(columns)}


def _macro(columns: Sequence[tuple[Bools, Bools, Floats]]) -> dict[str, float]:
    """The means over labels of F1 and of ROC-AUC, where it exists, from the truth, predictions and scores of each."""
    areas = np.array([roc_auc(truth, scores) for truth, _, scores in columns])
    known = areas[~np.isnan(areas)]
    scores = float(np.mean([f1(truth, predicted) for truth, predicted, _ in columns]))
    return {"f1": scores, "roc_auc": float(known.mean()) if len(known) else float("nan")}
