"""Taking words out of texts: which sets of words, and what the model says of what is left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.checks.base import Case, Floats, Ints, units
from heedful.core.target import activation
from heedful.model.inference import Engine
from heedful.model.masking import Variants, over_positions

Bools = NDArray[np.bool_]


@dataclass
class Text:
    """One text without some of its words, under one way of taking them away; every set of words is asked once."""

    case: Case
    way: str
    label: int
    groups: list[list[int]] = field(default_factory=list)
    known: dict[bytes, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.groups = units(self.case.tokens)
        self.rng = self.case.rng("input-erasure", self.way)

    def __len__(self) -> int:
        return len(self.groups)

    def logits(self, keep: Bools) -> Tensor:
        """[m,c] with the words of each row kept, as far as they have been asked."""
        return torch.stack([self.known[row.tobytes()] for row in keep])

    def values(self, keep: Bools) -> Floats:
        """p for each row."""
        return activation(self.logits(keep), self.case.classifier.head)[:, self.label].numpy()

    @property
    def whole(self) -> Tensor:
        """[c]: what the model says of all of it."""
        return self.logits(np.ones((1, len(self)), bool))[0]


def ask(engine: Engine, wanted: Iterable[tuple[Text, Bools]]) -> None:
    """Answers for all sets that are not known yet, of all texts at once."""
    new: list[tuple[Text, list[bytes], Variants]] = []
    for text, keep in wanted:
        rows = {row.tobytes(): row for row in keep if row.tobytes() not in text.known}
        if rows:
            table = over_positions(text.groups, np.array(list(rows.values())), len(text.case.tokens))
            new.append((text, list(rows), Variants(text.case.tokens, table, text.way, text.rng)))
    if new:
        said = iter(engine.ask([variants for _, _, variants in new]).logits)
        for text, keys, _ in new:
            text.known |= {key: next(said) for key in keys}


def steps(n: int, points: int) -> Ints:
    """How many words are gone at each step, both ends among them: steps(3, 20) -> [0, 1, 2, 3]."""
    return np.unique(np.linspace(0, n, min(n, points) + 1).round().astype(np.int64))


def count(share: float, n: int) -> int:
    """A share of n words in whole words, halves up, at least one: count(.05, 4) -> 1."""
    return min(n, max(1, int(np.floor(share * n + 0.5))))


def first(order: Ints, sizes: Sequence[int] | Ints) -> Bools:
    """Which words are among the first k of the order, for each k: first([1, 0], [1, 2]) -> [[F, T], [T, T]]."""
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return np.asarray(rank < np.asarray(sizes)[:, None])


def subsets(n: int) -> Bools:
    """All 2ⁿ sets of n words, the empty one first."""
    return np.asarray(np.arange(2**n)[:, None] >> np.arange(n) & 1 == 1)


def one_more(gone: Sequence[int], n: int) -> tuple[Ints, Bools]:
    """The words still there, and what is kept when each of them goes too."""
    there = ~np.isin(np.arange(n), gone)
    words = np.flatnonzero(there)
    return words, there & (np.arange(n) != words[:, None])


def area(grid: Ints, values: Floats) -> float:
    """The area under a curve over the fraction of words, by trapezia: area([0, 1, 2], [1, 0, 0]) -> .25."""
    return float((np.diff(grid) * (values[1:] + values[:-1]) / 2).sum() / grid[-1])
