"""Submodular pick: a few texts whose words together matter most (SP-LIME, Ribeiro et al. 2016, Algorithm 2).

A row has the strength |W_ij| of each word of a text; words that are not in it have strength 0. Sums are rounded once,
so they do not depend on the order of the words, and equal texts are equal.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import fsum, sqrt
from typing import TypeVar

Word = TypeVar("Word", bound=Hashable)


def importance(rows: Sequence[Mapping[Word, float]]) -> dict[Word, float]:
    """How much each word matters in all texts: I_j = √Σ_i |W_ij|, in the order of the texts, without words of 0."""
    strengths: dict[Word, list[float]] = {}
    for row in rows:
        for word, strength in row.items():
            if strength > 0:
                strengths.setdefault(word, []).append(strength)
    return {word: sqrt(fsum(values)) for word, values in strengths.items()}


def coverage(rows: Sequence[Mapping[Word, float]], texts: Iterable[int]) -> float:
    """The importance of all words that have a strength in one of these texts: c(V) = Σ_j 1[∃ i ∈ V: |W_ij| > 0] I_j."""
    covered = {word for i in texts for word in _words(rows[i])}
    return fsum(value for word, value in importance(rows).items() if word in covered)


def greedy_cover(rows: Sequence[Mapping[Word, float]], count: int) -> list[int]:
    """Texts in the order in which each adds most coverage, the first among equals; at least 1 − 1/e of the best.

    Fewer than `count` where no further text adds coverage: another would be arbitrary.
    """
    texts, missing = [_words(row) for row in rows], importance(rows)
    picks: list[int] = []
    while missing and len(picks) < count:
        gains = [fsum(missing[word] for word in words if word in missing) for words in texts]
        picks.append(gains.index(max(gains)))
        missing = {word: value for word, value in missing.items() if word not in texts[picks[-1]]}
    return picks


def _words(row: Mapping[Word, float]) -> set[Word]:
    return {word for word, strength in row.items() if strength > 0}
