"""Selection: which texts of the data are used, and what their labels are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from heedful.core.errors import BadInput, nearest
from heedful.core.tokens import WORD
from heedful.data.example import Example
from heedful.data.rows import Drop


@dataclass(frozen=True)
class Selection:
    """Which texts are used: those with these `labels` only, and with at least `min_words` and at most `max_words`.

    `rename` has new names of labels. It and `labels` name a label as the data do; two that get the same name are one
    label from then on. Words are counted without punctuation marks, and in the text only, not in the pair.
    """

    labels: tuple[str, ...] | None = None
    rename: Mapping[str, str] = field(default_factory=dict)
    min_words: int | None = None
    max_words: int | None = None

    def __post_init__(self) -> None:
        for name, bound in (("min_words", self.min_words), ("max_words", self.max_words)):
            if bound is not None and bound < 1:
                raise BadInput(f"{name} is {bound}; give at least 1.")
        if self.min_words is not None and self.max_words is not None and self.min_words > self.max_words:
            raise BadInput(f"min_words {self.min_words} is above max_words {self.max_words}; exchange them.")
        if "" in {*(self.labels or ()), *self.rename, *self.rename.values()}:
            raise BadInput("a label to select or to rename is empty; give its name.")

    def __call__(self, item: Example | Drop) -> Example | Drop:
        """The text with its new label, or the reason why it is dropped."""
        if isinstance(item, Drop):
            return item
        if self.labels is not None and not (item.label and set(item.labels) <= set(self.labels)):
            return Drop("with another label" if item.label else "without a label")
        if self.min_words is not None or self.max_words is not None:
            words = count_words(item.text)
            if words < (self.min_words or 0):
                return Drop(f"with fewer than {self.min_words} words")
            if self.max_words is not None and words > self.max_words:
                return Drop(f"with more than {self.max_words} words")
        if not self.rename or item.label is None:
            return item
        names = tuple(dict.fromkeys(self.rename.get(name, name) for name in item.labels))
        return replace(item, label=names[0] if isinstance(item.label, str) else names)

    def check(self, known: Iterable[str]) -> None:
        """Refuse to select or rename a label that the data do not have."""
        have = tuple(known)
        for option, names in (("--labels", self.labels or ()), ("--rename-labels", self.rename)):
            for name in names:
                if name not in have:
                    found = f"label '{name}' of {option} is not one of {', '.join(have) or 'the data, which have none'}"
                    raise BadInput(f"{found}{nearest(name, have) or '.'}")

    def to_dict(self) -> dict[str, Any]:
        """What is set, for a record."""
        return {name: value for name, value in vars(self).items() if value not in (None, {})}


EVERYTHING = Selection()


def count_words(text: str) -> int:
    """The number of words, without punctuation marks: count_words("It's 3.5, no?") -> 3."""
    return sum(any(map(str.isalnum, word)) for word in WORD.findall(text))


def count_drops(items: Iterable[Example | Drop]) -> dict[str, int]:
    """How many texts are dropped, by reason."""
    return dict(Counter(item.reason for item in items if isinstance(item, Drop)))


def selection_record(select: Selection, dropped: Mapping[str, Any]) -> dict[str, Any]:
    """The selection and what was dropped, for a record; empty if every text is used as it is."""
    return {name: dict(value) for name, value in (("selection", select.to_dict()), ("dropped", dropped)) if value}


def drop_note(dropped: Mapping[str, int]) -> str:
    """What was dropped as a sentence: {"with another label": 3} -> "3 texts were dropped: 3 with another label."."""
    total = sum(dropped.values())
    return f"{total:,} text{' was' if total == 1 else 's were'} dropped: {drop_reasons(dropped)}." if total else ""


def drop_reasons(dropped: Mapping[str, int]) -> str:
    """How many texts were dropped for each reason: "785 without a gold label, 12 with fewer than 6 words"."""
    return ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
