"""Guides: the numbers of log-odds attention (Jain & Wallace 2019), attention to the words that a linear model needs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array, diags_array
from scipy.special import expit

from heedful.core.errors import BadInput

_COMMON = (
    "a about after again all also am an and any are as at be because been before being both but by can could did "
    "do does doing down during each few for from further had has have having he her here hers him his how i if in "
    "into is it its itself just me more most my myself of off on once only or other our ours out over own same "
    "she should so some such than that the their theirs them then there these they this those through to too "
    "under until up very was we were what when where which while who whom why will with would you your yours"
)
STOPWORDS = frozenset(_COMMON.split())


def log_odds(
    texts: Sequence[Sequence[int]],
    labels: Int[NDArray[np.int64], "n"] | Int[NDArray[np.int64], "n c"],
    vocabulary: int,
    stopwords: Collection[int] = (),
) -> Float[NDArray[np.float64], "v"]:
    """The weight of each word in an L1 logistic regression on bags of words, classes balanced; 0 for `stopwords`.

    Two labels: the log-odds of label 1. More, or a 0/1 matrix of several labels: one against the rest, and of each word
    the largest |weight|. Give special tokens as stop words, too.
    """
    answers = np.asarray(labels)
    if len(answers) != len(texts) or not len(texts):
        raise BadInput(f"{len(texts)} texts have {len(answers)} labels; give one label to each of at least two texts.")
    bags = _bags(texts, vocabulary, stopwords)
    if answers.ndim == 2:
        questions = [column == 1 for column in answers.T]
    else:
        known = np.unique(answers)
        questions = [answers == label for label in (known[1:] if len(known) == 2 else known)]
    asked = [q for q in questions if q.any() and not q.all()]
    if not asked:
        raise BadInput("all texts have one label; give texts of at least two.")
    found = [regression(bags, yes)[:vocabulary] for yes in asked]
    return found[0] if len(questions) == 1 else np.abs(found).max(0)


def _bags(texts: Sequence[Sequence[int]], vocabulary: int, stopwords: Collection[int]) -> csr_array:
    """How often each word stands in each text, scaled to length 1, without stop words; texts without words are 0."""
    row = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    column = np.fromiter((word for text in texts for word in text), dtype=np.int64, count=len(row))
    if len(column) and not 0 <= column.min() <= column.max() < vocabulary:
        raise BadInput(f"words {column.min()} … {column.max()} are not within a vocabulary of {vocabulary}.")
    kept = ~np.isin(column, list(stopwords))
    where = (row[kept], column[kept])
    counts = csr_array((np.ones(len(where[0])), where), shape=(len(texts), vocabulary))
    norms = np.sqrt(counts.multiply(counts).sum(1))
    return csr_array(diags_array(1 / np.where(norms > 0, norms, 1)) @ counts)


def objective(
    theta: Float[NDArray[np.float64], "p"], bags: csr_array, yes: NDArray[np.bool_]
) -> tuple[float, Float[NDArray[np.float64], "p"]]:
    """Balanced logistic loss of weights and intercept (the last), and its gradient; ‖theta‖₁ is not in it."""
    sign = np.where(yes, 1.0, -1.0)
    share = len(yes) / 2 / np.where(yes, yes.sum(), (~yes).sum())
    margin = sign * (bags @ theta[:-1] + theta[-1])
    slope = -share * sign * expit(-margin)
    return float(share @ np.logaddexp(0, -margin)), np.append(bags.T @ slope, slope.sum())


def regression(bags: csr_array, yes: NDArray[np.bool_]) -> Float[NDArray[np.float64], "p"]:
    """Weights and intercept that minimise `objective` + ‖·‖₁.

    The intercept pays for its size like any weight, as in liblinear, whose default strength (C = 1) is taken.
    """
    width = bags.shape[1] + 1

    def split(halves: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        # subtle: theta = up - down, both at least 0, makes the L1 norm smooth; exact zeros are bounds that hold
        value, slope = objective(halves[:width] - halves[width:], bags, yes)
        return value + float(halves.sum()), np.concatenate([1 + slope, 1 - slope])

    options = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-10, "gtol": 1e-6, "maxcor": 20}
    bounds = [(0, None)] * (2 * width)
    halves = minimize(split, np.zeros(2 * width), jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    return np.asarray(halves[:width] - halves[width:])


__all__ = ["STOPWORDS", "log_odds", "objective", "regression"]
