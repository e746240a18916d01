"""Finding: one measurement of a check on one text. Findings: those of one check on all texts. Needs no torch."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from heedful.core.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    import pyarrow as pa

IN_MEMORY = 100_000  # texts
CONTROLS = ("random", "uniform", "position")  # methods that do not use the model
BOUNDS = ("greedy", "optimum")  # of input-erasure: upper bounds, not methods
LEFT_OUT = "left out"  # the measure of a finding that gives the reason for a missing one
Place = Mapping[str, str | int | float]
EVERYWHERE: Place = {"layer": "all", "head": "all"}  # where all attention of a model is changed
Key = tuple[str, str, str]  # method, measure, at
FRACTION = (0.0, 1.0)  # the range of a share, a probability or a total variation distance
CORRELATION = (-1.0, 1.0)  # the range of a correlation, also of Kendall's τ
DIVERGENCE = (0.0, math.log(2))  # the range of a Jensen–Shannon divergence
# uses of a check's numbers outside its own section: evidence of the verdict, the ranking, the cost of methods
Role = Literal[
    "points", "matters", "used", "from uniform", "elsewhere", "identifiable", "steady", "trainings", "ranking", "cost"
]


@dataclass(frozen=True)
class Measure:
    """One measure of a check.

    A "rate" is 0 or 1 for each text and has Wilson's interval; a "mean" is any number. `better` is the direction that
    is good for an explanation, if there is one; `compared` says whether methods are compared with `random`; `range` has
    the limits of its mean.
    """

    says: str
    kind: Literal["mean", "rate"] = "mean"
    better: Literal["higher", "lower"] | None = None
    compared: bool = True
    range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Highlight:
    """The number that summarises a check: a column of the table of methods, or a line about the model.

    `head` is the column's head; a number of the model (or of one `method`) has only `says`. The row is the first whose
    place contains `at`.
    """

    measure: str
    says: str
    head: str = ""
    at: Place = field(default_factory=dict)
    method: str = ""
    digits: int = 2


@dataclass(frozen=True)
class SideBySide:
    """A number that `heedful compare` shows for both runs.

    With `words`, it is one row of that name, of `method` (empty for the model), at the one place that contains `at`;
    without, one row for each method. `says` names it in a sentence. A `headline` comes first in the comparison: {more}
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
    """One number on one text: its check, method, measure and place.

    `method` is empty where the check measures the model and not an explanation. NaN is a number that does not exist for
    this text: it is counted, and not averaged. `at` says what was changed ({"layer": 2, "head": 0}, {"masking":
    "delete"}); findings with equal check, method, measure and `at` are summarised together over texts. `details` (JSON:
    positions, other weights) describe one text and are not summarised.
    """

    check: str
    method: str
    measure: str
    value: float
    at: Place = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """`at` as JSON with sorted keys: {"layer": 2, "head": 0} -> '{"head":0,"layer":2}'."""
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
    """The findings of one check on all texts: for each key, a number per text, and which texts have one."""

    groups: Mapping[Key, Floats]
    there: Mapping[Key, Bools]
    texts: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, tables: Iterable[pa.Table], texts: Mapping[str, NDArray[Any]], labels: Sequence[str] = ()) -> Findings:
        """From tables with columns text, method, measure, at and value; `texts` has the texts' numbers.

        An incomplete run may lack some texts: a text's index is its index among those that exist. Beyond
        `IN_MEMORY` texts, the numbers are in temporary files, so that memory holds a few rows of them.
        """
        rows = _Rows(len(texts["number"]))
        for table in tables:
            places = np.searchsorted(texts["number"], table.column("text").to_numpy())
            rows.put(table, places)
        groups, there = ({key: rows.row(key, kind) for key in rows.keys} for kind in (0, 1))
        return cls(groups, there, texts, tuple(labels))

    def values(self, measure: str, method: str = "", at: Place | None = None) -> Floats:
        """One number for each text, in the run's order; NaN where there is none."""
        numbers = self.groups.get((method, measure, place(at or {})))
        return np.full(len(self.texts["number"]), np.nan) if numbers is None else numbers.copy()

    def methods(self, measure: str) -> list[str]:
        """The methods that have this measure."""
        return list(dict.fromkeys(method for method, name, _ in self.groups if name == measure))

    def places(self, measure: str, method: str | None = None) -> list[dict[str, Any]]:
        """The places of a measure."""
        keys = dict.fromkeys(at for m, name, at in self.groups if name == measure and method in (None, m))
        return [json.loads(at) if at else {} for at in keys]

    @cached_property
    def rows(self) -> list[Key]:
        """(method, measure, at) of each row of a summary."""
        return [key for key in self.groups if key[1] != LEFT_OUT]


class _Rows:
    """A row of numbers for each (method, measure, at), in the order in which the keys come, in blocks of rows."""

    BLOCK = 256

    def __init__(self, texts: int) -> None:
        self.keys: dict[Key, int] = {}
        self._texts = texts
        self._blocks: list[tuple[Floats, Bools]] = []
        self._last: tuple[Any, Ints] = (None, np.zeros(0, np.int64))

    def row(self, key: Key, kind: Literal[0, 1]) -> NDArray[Any]:
        """The numbers of a key, or which texts have one."""
        number = self.keys[key]
        row: NDArray[Any] = self._blocks[number // self.BLOCK][kind][number % self.BLOCK]
        return row

    def put(self, table: pa.Table, places: Ints) -> None:
        """Store the values of a table at these places."""
        columns = [_coded(table.column(name)) for name in ("method", "measure", "at")]
        (a, _), (b, measures), (c, ats) = columns
        codes, first, which = np.unique((a * max(1, len(measures)) + b) * max(1, len(ats)) + c, True, True)
        same = codes.tobytes(), *(words for _, words in columns)
        if self._last[0] != same:  # as it is for the part before, most times
            numbers = np.empty(len(codes), np.int64)
            for i in np.argsort(first):  # keys in the order of their first rows
                method, measure, at = (words[coded[first[i]]] for coded, words in columns)
                numbers[i] = self.keys.setdefault((method, measure, at), len(self.keys))
            self._last = same, numbers
        while len(self._blocks) * self.BLOCK < len(self.keys):
            values, there = (_new((self.BLOCK, self._texts), kind) for kind in (np.float64, np.bool_))
            values[:] = np.nan
            self._blocks.append((values, there))
        rows, values = self._last[1][which], table.column("value").to_numpy()
        for block in np.unique(rows // self.BLOCK):
            inside = rows // self.BLOCK == block
            at_rows = rows[inside] % self.BLOCK, places[inside]
            self._blocks[block][0][at_rows], self._blocks[block][1][at_rows] = values[inside], True


def _new(shape: tuple[int, int], dtype: type) -> NDArray[Any]:
    """Zeros; for many texts, in a temporary file without a name, which ends with the array."""
    if shape[1] <= IN_MEMORY:
        return np.zeros(shape, dtype)
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, dtype, shape=shape)


def _coded(column: pa.ChunkedArray) -> tuple[Ints, list[str]]:
    """A column of words as codes, and the words."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(column):
        return np.zeros(0, np.int64), []
    coded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    encoded = pa.concat_arrays(coded.unify_dictionaries().chunks)
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary.to_pylist()
