"""Finding: one measurement that a check made on one text; Findings: those of one check on all texts. Needs no torch."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from heedful.core.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    import pyarrow as pa

CONTROLS = ("random", "uniform", "position")  # methods that know nothing of the model
BOUNDS = ("greedy", "optimum")  # of input-erasure: not methods, but what could be reached
LEFT_OUT = "left out"  # the measure of a finding that says why there is none
Place = Mapping[str, str | int | float]
EVERYWHERE: Place = {"layer": "all", "head": "all"}  # where all attention of a model is changed
Key = tuple[str, str, str]  # method, measure, at
FRACTION = (0.0, 1.0)  # the range of a share, a probability or a total variation distance
CORRELATION = (-1.0, 1.0)  # that of a correlation, Kendall's τ among them
DIVERGENCE = (0.0, math.log(2))  # that of a Jensen–Shannon divergence
# What a check's numbers are used for beyond its own section: evidence of the verdict, the ranking, the cost of methods
Role = Literal[
    "points", "matters", "used", "from uniform", "elsewhere", "identifiable", "steady", "trainings", "ranking", "cost"
]


@dataclass(frozen=True)
class Measure:
    """What a check measures, for tables and pages.

    A "rate" is 0 or 1 for each text and gets Wilson's interval; a "mean" is any number. `better` says which way is
    good for an explanation, where one way is; `compared`, whether a method is compared with `random`; `range`, between
    which limits its mean must lie.
    """

    says: str
    kind: Literal["mean", "rate"] = "mean"
    better: Literal["higher", "lower"] | None = None
    compared: bool = True
    range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Highlight:
    """A number that stands for a check where there is little room: a column of methods, or a line on the model.

    `head` is the column's head; a number of the model (or of the one `method` named) has `says` alone. The row is the
    first whose place has all of `at`.
    """

    measure: str
    says: str
    head: str = ""
    at: Place = field(default_factory=dict)
    method: str = ""
    digits: int = 2


@dataclass(frozen=True)
class SideBySide:
    """A number that `heedful compare` sets side by side.

    With `words`, it is one row of that name, of `method` (empty for the model), at the one place that has all of `at`;
    without, one row for each method. `says` names it in a sentence. A `headline` is said first of both runs: {more}
    stands for more or less, {a} and {b} for the runs; `symbol` names its number.
    """

    measure: str
    says: str
    words: str = ""
    method: str = ""
    at: Place = field(default_factory=dict)
    headline: str = ""
    symbol: str = ""


@dataclass(frozen=True)
class Finding:
    """One number: of which check and method, of what, where, on one text.

    `method` is empty where the check asks about the model and not about an explanation of it. NaN is a number that does
    not exist for this text: it is counted, and never averaged in. `at` says what was changed ({"layer": 2, "head": 0},
    {"masking": "delete"}); findings that agree in check, method, measure and `at` are summarised together over texts.
    `details` are for looking at one text (positions, other weights): JSON, never summarised.
    """

    check: str
    method: str
    measure: str
    value: float
    at: Place = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """`at` as a text with one form for each meaning: {"layer": 2, "head": 0} -> '{"head":0,"layer":2}'."""
        return place(self.at)

    def __repr__(self) -> str:
        """One line: Finding(agreement: tau of lime, with=leave-one-out: 0.123)."""
        return f"Finding({describe_number(self.check, self.measure, self.method, self.at)}: {self.value:.3g})"


def describe_number(check: str, measure: str, method: str, at: Place) -> str:
    """What a number of a check measures, for a prompt: "agreement: tau of lime, with=leave-one-out"."""
    name = f"{check}: {measure}" if check else measure
    return ", ".join([f"{name} of {method}" if method else name, *(f"{key}={value}" for key, value in at.items())])


def place(at: Place) -> str:
    """See `Finding.place`."""
    return json.dumps(dict(at), sort_keys=True, separators=(",", ":"), ensure_ascii=False) if at else ""


@dataclass(frozen=True)
class Findings:
    """The findings of one check on all texts: for each thing found, a number per text, and which texts have one."""

    groups: Mapping[Key, Floats]
    there: Mapping[Key, Bools]
    texts: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, tables: Iterable[pa.Table], texts: Mapping[str, NDArray[Any]], labels: Sequence[str] = ()) -> Findings:
        """Tables with columns text, method, measure, at and value, one after the other; `texts` has the texts' numbers.

        A run that is not complete may lack some: a text's place is its place among those that are there.
        """
        n = len(texts["number"])
        groups: dict[Key, Floats] = {}
        there: dict[Key, Bools] = {}
        for table in tables:
            places = np.searchsorted(texts["number"], table.column("text").to_numpy())
            values = table.column("value").to_numpy()
            for key, some in _grouped(table):
                if key not in groups:
                    groups[key], there[key] = np.full(n, np.nan), np.zeros(n, dtype=bool)
                groups[key][places[some]], there[key][places[some]] = values[some], True
        return cls(groups, there, texts, tuple(labels))

    def values(self, measure: str, method: str = "", at: Place | None = None) -> Floats:
        """One number for each text, in the run's order; NaN where there is none."""
        found = self.groups.get((method, measure, place(at or {})))
        return np.full(len(self.texts["number"]), np.nan) if found is None else found.copy()

    def methods(self, measure: str) -> list[str]:
        """The methods that have this measure."""
        return list(dict.fromkeys(method for method, name, _ in self.groups if name == measure))

    def places(self, measure: str, method: str | None = None) -> list[dict[str, Any]]:
        """Where it was measured."""
        found = dict.fromkeys(at for m, name, at in self.groups if name == measure and (method is None or m == method))
        return [json.loads(at) if at else {} for at in found]

    @cached_property
    def rows(self) -> list[Key]:
        """(method, measure, at) of each row of a summary."""
        return [key for key in self.groups if key[1] != LEFT_OUT]


def _grouped(table: pa.Table) -> Iterator[tuple[Key, Ints]]:
    """(method, measure, at), and which rows have them."""
    names = [_coded(table.column(name)) for name in ("method", "measure", "at")]
    (a, _), (b, measures), (c, places) = names
    key = (a * max(1, len(measures)) + b) * max(1, len(places)) + c
    order = np.argsort(key, kind="stable")
    for some in np.split(order, np.flatnonzero(np.diff(key[order])) + 1) if len(order) else ():
        method, measure, at = (words[codes[some[0]]] for codes, words in names)
        yield (method, measure, at), some


def _coded(column: pa.ChunkedArray) -> tuple[Ints, list[str]]:
    """A column of words as numbers, and the words."""
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
    encoded = pc.dictionary_encode(plain.combine_chunks() if plain.num_chunks else pa.array([], pa.string()))
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary.to_pylist()
