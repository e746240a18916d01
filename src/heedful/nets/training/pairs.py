"""Pairs of texts, and the symbols that they are made of: characters, or words between spaces."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

SymbolKind = Literal["character", "word"]
PAD, UNK, STOP = "<pad>", "<unk>", "</s>"
GAPS = "[ \t\r\n\f\v]+"  # between words; no other white space, so that `tokenizers` cuts alike


@dataclass(frozen=True)
class TextPair:
    """A text and its translation."""

    source: str
    target: str


@dataclass(frozen=True)
class PairSplits:
    """Pairs for training, validation and test."""

    train: tuple[TextPair, ...]
    dev: tuple[TextPair, ...]
    test: tuple[TextPair, ...]


def cut(text: str, kind: SymbolKind) -> Sequence[str]:
    """The symbols of a text: cut("a bc", "word") -> ["a", "bc"]."""
    return text if kind == "character" else [word for word in re.split(GAPS, text) if word]


def join(symbols: Iterable[str], kind: SymbolKind) -> str:
    """The text of these symbols."""
    return ("" if kind == "character" else " ").join(symbols)


def frequent_symbols(texts: Iterable[str], kind: SymbolKind, min_count: int) -> tuple[str, ...]:
    """The symbols that occur at least `min_count` times, in alphabetic order; special ones are unknown in a text."""
    counts = Counter(symbol for text in texts for symbol in cut(text, kind))
    return tuple(sorted(s for s, n in counts.items() if n >= min_count and s not in (PAD, UNK, STOP)))
