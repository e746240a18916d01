"""Example: one text with its labels and its rationale; the names of labels; the fingerprint of a data set."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from heedful.core.errors import BadInput, closest
from heedful.core.target import label_index
from heedful.core.tokens import Span

Label = str | tuple[str, ...]
_LISTED = 12  # labels of an error message


@dataclass(frozen=True)
class Example:
    """One text with its labels (names) and its rationale (characters [start, end) of the text).

    `where` is its file and line, for error messages; it is not compared.
    """

    text: str
    pair: str | None = None
    label: Label | None = None
    rationale: tuple[Span, ...] | None = None
    where: str = field(default="", compare=False, repr=False)

    @property
    def labels(self) -> tuple[str, ...]:
        """Its labels, of which there may be none, one or several."""
        return (self.label,) if isinstance(self.label, str) else self.label or ()

    def to_json(self) -> list[Any]:
        """All that it has, as a JSON value, for another process."""
        return [self.text, self.pair, self.label, self.rationale, self.where]

    @staticmethod
    def from_json(stored: Sequence[Any]) -> Example:
        """The inverse of `to_json`."""
        text, pair, label, rationale, where = stored
        spans = None if rationale is None else tuple((start, end) for start, end in rationale)
        return Example(text, pair, tuple(label) if isinstance(label, list) else label, spans, where)


def label_names(examples: Iterable[Example]) -> tuple[str, ...]:
    """Every label that occurs: in numeric order if all are whole numbers, else in alphabetic order."""
    names = {name for example in examples for name in example.labels}
    if all(re.fullmatch(r"-?[0-9]+", name) for name in names):
        return tuple(sorted(names, key=lambda name: (int(name), name)))
    return tuple(sorted(names))


def check_labels(examples: Iterable[Example], known: Sequence[str], file: str = "the data") -> None:
    """Refuse the first unknown label, with its file and line."""
    allowed = set(known)
    for example in examples:
        for name in example.labels:
            if name not in allowed:
                raise unknown_label(name, known, example.where or file)


def gold_index(label: str, known: Sequence[str], where: str) -> int:
    """The index of a text's label among those of a model, by name or by number; `where` is its place."""
    try:
        return label_index(label, known)
    except BadInput:
        raise unknown_label(label, known, where) from None


def unknown_label(name: str, known: Sequence[str], where: str, whose: str = "") -> BadInput:
    """The error about a label at a place of the data that is not one of those known; `whose` says which these are."""
    listed = ", ".join(known[:_LISTED]) + (", …" if len(known) > _LISTED else "")
    begun = next((k for k in known if name.isalpha() and k.casefold().startswith(name.casefold())), None)
    rename = f"--rename-labels {name}={begun or closest(name, known, 0.75) or 'NAME'}"
    return BadInput(f"label '{name}' in {where} is not one of {whose}{listed}; correct it, or give {rename}.")


def fingerprint(examples: Iterable[Example]) -> str:
    """32 hexadecimal digits that change with any text, label, rationale or the order."""
    digest = blake2b(digest_size=16)
    for example in examples:
        digest.update(json.dumps([example.text, example.pair, example.label, example.rationale]).encode() + b"\n")
    return digest.hexdigest()
