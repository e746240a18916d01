"""Patterns (Hao et al. 2021): the words that the strongest attention head of a text connects, and their insertion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.random import seeded
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.data import Example
from heedful.methods.attattr import AttAttr
from heedful.model.classifier import Classifier
from heedful.studies.base import Texts, logits_of, probabilities_of
from heedful.studies.words import WordIndex, insert_words, words_of

DECIMALS = 6  # of a stored probability


@dataclass(frozen=True)
class Trigger:
    """Words to insert: each with the text of a pair (0 or 1) and its relative place there, to pull to a label."""

    words: tuple[str, ...]
    segments: tuple[int, ...]
    places: tuple[float, ...]
    label: int

    def insert(self, example: Example) -> tuple[Example, list[list[bool]]]:
        """The example with the words inserted, and which words of its text and its pair are inserted."""
        texts, marks = [], []
        for segment, text in enumerate((example.text, example.pair)):
            if text is None:
                continue
            mine = [i for i, s in enumerate(self.segments) if s == segment]
            places = insertion_places(len(words_of(text)), [self.places[i] for i in mine])
            new, inserted = insert_words(text, places, [self.words[i] for i in mine])
            texts.append(new)
            marks.append(inserted)
        return replace(example, text=texts[0], pair=texts[1] if len(texts) > 1 else None), marks

    def with_words(self, words: Sequence[str]) -> Trigger:
        """Other words in the same places."""
        return replace(self, words=tuple(words))


def insertion_places(length: int, relative: Sequence[float]) -> list[int]:
    """Hao et al.'s rule: round((length + how many) · relative place), one further on if the place is taken.

    Places are indices in the text as it is when the word is inserted; words keep their order. (The authors' code puts a
    third word on the same place before the second.)
    insertion_places(8, [0.5, 0.5]) -> [5, 6]
    """
    places: list[int] = []
    for inserted, share in enumerate(relative):
        place = round((length + len(relative)) * share)
        place = max(place, places[-1] + 1) if places else place
        places.append(min(place, length + inserted))
    return places


@dataclass(frozen=True)
class Pattern:
    """What the strongest head of a training text connects: its two largest attributions, and their words."""

    text: int
    label: int
    chance: float
    layer: int
    head: int
    values: tuple[float, float]
    marks: tuple[int, ...]  # indices of words, those of the pair after those of the text
    trigger: Trigger

    @property
    def strength(self) -> float:
        """v1 + v2."""
        return sum(self.values)


def extract(classifier: Classifier, texts: Texts, ratio: float) -> list[dict[str, Any] | None]:
    """The pattern of each text, as JSON; None for a text whose strongest cells have special tokens only."""
    chances = probabilities_of(logits_of(classifier, texts.tokens), classifier)
    method, items = AttAttr(), []
    for tokens, chance in zip(texts.tokens, chances, strict=True):
        label = int(chance.argmax())
        target = Target(label, "probability").resolved(classifier.labels, label)
        weights = method(classifier, tokens, target, seeded(0)).weights.astype(np.float64)
        layer, head, cells = strongest_cells(weights)
        used = cells if len(cells) > 1 and cells[0][2] > 0 and cells[1][2] / cells[0][2] >= ratio else cells[:1]
        shifted = classifier.main_kind == "cross"
        marks = cell_words(tokens, [cell[:2] for cell in used], weights.shape[-2], shifted)
        values = [cell[2] for cell in cells] + [0.0] * (2 - len(cells))
        items.append(
            {"label": label, "chance": round(float(chance[label]), DECIMALS), "layer": layer, "head": head}
            | {"values": values, "marks": marks, "words": relative_words(tokens, marks)}
            if marks
            else None
        )
    return items


def strongest_cells(weights: Floats) -> tuple[int, int, list[tuple[int, int, float]]]:
    """The layer and head with the largest cell of weights [l,h,q,k], and its two largest cells: query, key, value."""
    layer, head = np.unravel_index(int(weights.max((-2, -1)).argmax()), weights.shape[:2])
    matrix = weights[layer, head]
    top = np.argsort(-matrix, axis=None, kind="stable")[:2]
    cells = [(int(i) // matrix.shape[1], int(i) % matrix.shape[1], float(matrix.ravel()[i])) for i in top]
    return int(layer), int(head), cells


def cell_words(tokens: Tokens, cells: Sequence[tuple[int, int]], queries: int, shifted: bool) -> list[int]:
    """The words of the cells' queries and keys, in reading order, without special tokens.

    A network with one query has none in the text. Position i + 1 of a decoder holds token i (`shifted`).
    """
    positions = {key for _, key in cells}
    if queries == len(tokens):
        positions |= {query - shifted for query, _ in cells if query >= shifted}
    words = {tokens.words[i] for i in positions if tokens.segments[i] is not None}
    return sorted(word for word in words if word is not None)


def relative_words(tokens: Tokens, marks: Sequence[int]) -> list[tuple[str, int, float]]:
    """Words with their segment and relative place i / n: the i-th of n words, counted from 1 (Hao et al.'s rule)."""
    index = WordIndex(tokens)
    return [
        (index.word(mark), segment, (place + 1) / index.length(segment))
        for mark in marks
        for segment, place in [index.place(mark)]
    ]


def pattern_of(text: int, item: dict[str, Any]) -> Pattern:
    """The pattern of the text with this number, from what `extract` stored."""
    words, segments, places = zip(*item["words"], strict=True)
    v1, v2 = item["values"]
    trigger = Trigger(words, segments, places, item["label"])
    return Pattern(
        text, item["label"], item["chance"], item["layer"], item["head"], (v1, v2), tuple(item["marks"]), trigger
    )


def strongest_patterns(patterns: Sequence[Pattern], least: float, count: int) -> dict[int, list[Pattern]]:
    """The strongest patterns of each label with at least this sum; of those with the same words, the strongest."""
    best: dict[int, dict[Any, Pattern]] = {}
    for pattern in sorted(patterns, key=lambda p: (-p.strength, p.text)):
        key = tuple(word.casefold() for word in pattern.trigger.words), pattern.trigger.segments
        if pattern.strength >= least:
            best.setdefault(pattern.label, {}).setdefault(key, pattern)
    return {label: list(group.values())[:count] for label, group in sorted(best.items())}
