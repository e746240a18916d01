"""Games whose answer is known: a value for every set of d words, as an array, and as a classifier of texts."""

from __future__ import annotations

import numpy as np

from heedful.core.arrays import Bools, Floats
from heedful.maths.shapley import all_subsets
from heedful.model.function import Plain

NAMES = ("ape", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay", "koi", "lynx")


def walsh(d: int, rho: float, seed: int, order: int = 99) -> Floats:
    """A random game: a product of k words (each ±1) has variance rhoᵏ, and none above `order`. Rows as `everything`."""
    sets = all_subsets(d)
    size = sets.sum(1)
    coefficients = np.random.default_rng(seed).normal(size=2**d) * rho ** (size / 2) * (size <= order)
    values: Floats = products(d) @ coefficients
    return values


def products(d: int) -> Floats:
    """[set, product]: Π xᵢ over each set of words, at each set."""
    sets = all_subsets(d)
    outside = (~sets).astype(int) @ sets.T.astype(int)  # how many of a product's words are −1
    return np.where(outside % 2, -1.0, 1.0)


def at(values: Floats, keep: Bools) -> Floats:
    """The game's value at each row of keep[n,d]."""
    found: Floats = values[(keep * (1 << np.arange(keep.shape[1]))).sum(1)]
    return found


def played(values: Floats) -> Plain:
    """The game as a function of texts: the probability of "yes" is the game's value, squeezed between 0.05 and 0.95."""
    d = len(values).bit_length() - 1
    low, high = values.min(), values.max()
    chances = np.full_like(values, 0.5) if low == high else 0.05 + 0.9 * (values - low) / (high - low)

    def predict(texts: list[str]) -> Floats:
        there = np.array([[name in text.split() for name in NAMES[:d]] for text in texts]).reshape(-1, d)
        yes = at(chances, there)
        return np.stack([1 - yes, yes], axis=1)

    return Plain(predict, labels=("no", "yes"), name="game")


def text(d: int) -> str:
    """The text of which every set of words is a text."""
    return " ".join(NAMES[:d])
