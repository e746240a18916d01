"""Measure: CPU seconds, sides taking turns; and what a job reports."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

Unit = Literal["s", "ms", "passes"]


@dataclass(frozen=True)
class Row:
    """One line of the table. `ratio` is theirs / ours, or ours / theirs where the target is a most (`at_most`)."""

    job: str
    on: str
    against: str
    theirs: float
    ours: float
    target: float | None
    agreement: str
    unit: Unit = "s"
    at_most: bool = False
    remark: str = ""
    bound: bool = False  # theirs costs at least so much: it was not run further
    between: tuple[float, float] | None = None  # the ratios of single texts, least and most

    @property
    def ratio(self) -> float:
        """How many times less ours costs; of a limit, how many times more."""
        return self.ours / self.theirs if self.at_most else self.theirs / self.ours

    @property
    def reached(self) -> bool | None:
        """Whether the target is met, or None where there is none."""
        if self.target is None:
            return None
        return self.ratio <= self.target if self.at_most else self.ratio >= self.target

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"ratio": self.ratio, "reached": self.reached}


@dataclass(frozen=True)
class Report:
    """What a job found: rows, and curves as {figure: {line: [[x, y], …]}}."""

    rows: Sequence[Row] = ()
    curves: Mapping[str, Mapping[str, Sequence[Sequence[float]]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Timed:
    """The least CPU seconds of several calls, and what the last one returned."""

    seconds: float
    result: Any


def in_turns(sides: Mapping[str, Callable[[], Any]], rounds: int = 3) -> dict[str, Timed]:
    """Each side once per round, in turns, so that a noisy moment meets all of them; the least counts."""
    best = dict.fromkeys(sides, float("inf"))
    results: dict[str, Any] = {}
    for _ in range(rounds):
        for name, call in sides.items():
            start = time.process_time()
            results[name] = call()
            best[name] = min(best[name], time.process_time() - start)
    return {name: Timed(best[name], results[name]) for name in sides}


def total(timed: Sequence[Mapping[str, Timed]], side: str) -> float:
    """Seconds per text, mean over texts."""
    return float(np.mean([one[side].seconds for one in timed]))


def between(timed: Sequence[Mapping[str, Timed]], above: str, below: str) -> tuple[float, float]:
    """The least and the most of the ratios of single texts: what a ratio is worth."""
    each = [one[above].seconds / one[below].seconds for one in timed]
    return min(each), max(each)


def l1(found: Any, truth: Any) -> float:
    """Relative L1 distance."""
    found, truth = (np.asarray(x, dtype=np.float64) for x in (found, truth))
    return float(np.abs(found - truth).sum() / np.abs(truth).sum())


def l2(found: Any, truth: Any) -> float:
    """Relative L2 distance, which is the RMS error over the RMS of the truth."""
    found, truth = (np.asarray(x, dtype=np.float64) for x in (found, truth))
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def apart(found: Any, truth: Any) -> float:
    """The largest difference."""
    return float(np.abs(np.asarray(found, dtype=np.float64) - np.asarray(truth, dtype=np.float64)).max())
