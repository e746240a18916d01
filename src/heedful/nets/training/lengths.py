"""Lengths: exact match by the length of the texts, of one translator or of several on the same pairs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from heedful.core.arrays import Bools
from heedful.core.errors import BadInput
from heedful.data import Columns, Selection, load_pairs, pair_splits
from heedful.data.columns import GUESSED
from heedful.data.selection import EVERYTHING
from heedful.maths.stats import wilson
from heedful.nets.training.pairs import SymbolKind, TextPair, cut
from heedful.nets.training.translate import Translator, right
from heedful.nets.training.translation_job import DATES, Seq2SeqSettings, date_examples, pair_of


@dataclass(frozen=True)
class Bin:
    """Texts of `low` to `high` symbols: their number, and the share of correct translations."""

    low: int
    high: int
    n: int
    share: float

    @property
    def middle(self) -> float:
        """The length in the middle of the bin."""
        return (self.low + self.high) / 2

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the share (Wilson 1927)."""
        return wilson(round(self.share * self.n), self.n)


BIN_WIDTHS: dict[SymbolKind, int] = {"character": 15, "word": 5}
MIN_BIN_TEXTS = 25  # of a bin that is drawn


def by_length(
    translator: Translator,
    pairs: Sequence[TextPair],
    width: int = BIN_WIDTHS["character"],
    fewest: int = MIN_BIN_TEXTS,
    kind: SymbolKind = "character",
) -> list[Bin]:
    """Exact match by length of the texts in characters or words; bins with fewer texts than `fewest` are left out."""
    return bins(right(translator, pairs), [len(cut(pair.source, kind)) for pair in pairs], width, fewest)


def bins(correct: Bools, lengths: Sequence[int], width: int, fewest: int = 1) -> list[Bin]:
    """The share of correct translations among texts of like length."""
    places = np.array(lengths) // width
    members = [(place * width, correct[places == place]) for place in range(int(places.max()) + 1)]
    return [
        Bin(low, low + width - 1, len(inside), float(inside.mean()))
        for low, inside in members
        if len(inside) >= max(1, fewest)
    ]


@dataclass(frozen=True)
class LengthComparison:
    """Of each model: exact match by length, in one `unit`, and of all texts. Every model has the same bins."""

    unit: str  # "characters" or "words"
    bins: Mapping[str, tuple[Bin, ...]]
    overall: Mapping[str, Bin]

    def drawn(self, fewest: int) -> dict[str, list[Bin]]:
        """The bins with at least so many texts."""
        return {name: [one for one in own if one.n >= fewest] for name, own in self.bins.items()}

    def to_json(self) -> str:
        """One line of JSON."""

        def entry(one: Bin) -> dict[str, object]:
            return asdict(one) | {"interval": one.interval}

        models = [
            {"model": name, "all": entry(self.overall[name]), "bins": [entry(one) for one in own]}
            for name, own in self.bins.items()
        ]
        return json.dumps({"unit": self.unit, "models": models}, ensure_ascii=False)


def compare_lengths(translators: Mapping[str, Translator], pairs: Sequence[TextPair]) -> LengthComparison:
    """Exact match by length of each translator, by folder. Lengths are in words if all read words."""
    kind: SymbolKind = "word" if all(t.kind == "word" for t in translators.values()) else "character"
    lengths = [len(cut(pair.source, kind)) for pair in pairs]
    short = [Path(folder).name for folder in translators]
    names = short if len(set(short)) == len(short) else list(translators)
    correct = {name: right(t, pairs) for name, t in zip(names, translators.values(), strict=True)}
    return LengthComparison(
        f"{kind}s",
        {name: tuple(bins(own, lengths, BIN_WIDTHS[kind])) for name, own in correct.items()},
        {name: Bin(min(lengths), max(lengths), len(pairs), float(own.mean())) for name, own in correct.items()},
    )


def scored_pairs(
    data: str, columns: Columns = GUESSED, kind: str | None = None, select: Selection = EVERYTHING
) -> tuple[TextPair, ...]:
    """The pairs of a file; the test part of a folder or, for "dates", of the data that the recipes generate."""
    if data == DATES:
        return date_examples(Seq2SeqSettings()).test
    if not Path(data).expanduser().is_dir():  # a file is not divided
        return tuple(map(pair_of, load_pairs(data, columns, kind=kind, select=select)))
    parts = pair_splits(data, columns, kind=kind, select=select)
    if not parts.test:
        raise BadInput(f"'{data}' has no test part; add one, or give a single file.")
    return tuple(map(pair_of, parts.test))
