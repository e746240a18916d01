"""Leagues: which explanation to use for this model, and how sure that is. Pure; needs no torch.

A method's mark on a text is the area between its two curves of erasure: insertion − deletion, the label's probability
when its first words stay, less that when they go, over all fractions of the text. It is 0 on average for an order that
knows nothing, since a random order kept and a random order taken away leave the same texts: chance needs no correction.

Methods are compared two by two over the texts that both explained, with Holm's correction over all pairs. A place is a
range, [1 + how many are surely better, how many there are − how many are surely worse]: methods that cannot be told
apart share places, and so are not told apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.core.finding import Findings
from heedful.maths import stats

Floats = NDArray[np.float64]
BOUNDS = ("greedy", "optimum")  # no methods: what could be reached
ENOUGH = 0.9  # of the texts must have a mark, for a method to be ranked among the others


@dataclass(frozen=True)
class Standing:
    """A method's mean mark with its interval, and its places: `first` if all goes well for it, `last` if not."""

    method: str
    n: int
    mean: float
    low: float
    high: float
    first: int
    last: int


@dataclass(frozen=True)
class League:
    """The methods under one way of taking words away, best mean first; `unranked` were measured on too few texts."""

    masking: str
    table: tuple[Standing, ...]
    better: frozenset[tuple[str, str]]  # (a, b): a is surely better than b
    unranked: tuple[str, ...] = ()

    @property
    def tied(self) -> tuple[str, ...]:
        """The methods that cannot be told from the best, the best first."""
        best = self.table[0].method
        return tuple(one.method for one in self.table if (best, one.method) not in self.better)


def leagues(found: Findings) -> list[League]:
    """One for each way of taking words away that the findings of `input-erasure` have."""
    ways = dict.fromkeys(str(at["masking"]) for at in found.places("deletion"))
    return [league(way, marks(found, way)) for way in ways]


def marks(found: Findings, way: str) -> dict[str, Floats]:
    """For each method, insertion − deletion on each text."""
    at = {"masking": way}
    names = [name for name in found.methods("deletion") if name not in BOUNDS]
    return {name: found.values("insertion", name, at) - found.values("deletion", name, at) for name in names}


def league(way: str, given: Mapping[str, Floats]) -> League:
    """The methods in the order of their mean marks, with their places."""
    told = {name: stats.summary(values) for name, values in given.items()}
    most = max((one.n for one in told.values()), default=0)
    names = [name for name, one in told.items() if one.n and one.n >= ENOUGH * most]
    better = _better({name: given[name] for name in names})
    table = [
        Standing(
            name,
            told[name].n,
            told[name].mean,
            told[name].low,
            told[name].high,
            first=1 + sum((other, name) in better for other in names),
            last=len(names) - sum((name, other) in better for other in names),
        )
        for name in sorted(names, key=lambda name: -told[name].mean)
    ]
    return League(way, tuple(table), better, tuple(name for name in given if name not in names))


def _better(given: Mapping[str, Floats]) -> frozenset[tuple[str, str]]:
    """Of every two, who is surely better; with fewer than 30 texts, nobody."""
    pairs = list(combinations(given, 2))
    differences = [stats.paired(given[a], given[b]) for a, b in pairs]
    adjusted = stats.holm(np.array([one.p for one in differences]))
    said = [stats.decided(one, float(p)) for one, p in zip(differences, adjusted, strict=True)]
    return frozenset(
        (a, b) if word == "higher" else (b, a)
        for (a, b), word in zip(pairs, said, strict=True)
        if word in ("higher", "lower")
    )


def reversals(found: Sequence[League]) -> list[dict[str, str]]:
    """Pairs of methods of which one is surely better under one masking, and the other under another."""
    return [
        {"better": a, "under": one.masking, "worse under": other.masking, "than": b}
        for one, other in combinations(found, 2)
        for a, b in sorted(one.better)
        if (b, a) in other.better
    ]


def to_dict(found: Sequence[League]) -> dict[str, Any]:
    """For a summary."""
    return {
        "leagues": [
            {
                "masking": one.masking,
                "table": [asdict(row) for row in one.table],
                "tied with the best": list(one.tied) if one.table else [],
                "unranked": list(one.unranked),
            }
            for one in found
        ],
        "reversals": reversals(found),
    }
