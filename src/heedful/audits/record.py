"""Records: a run folder read again, for pages and tables. Needs no torch and no model.

The summary has what is said over all texts; `found` and `details` have what was found on each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from heedful.audits.run import SUMMARY, TIMING, Run, opened_read
from heedful.audits.summary import facts_of
from heedful.core.errors import BadInput
from heedful.core.finding import Findings, Place
from heedful.core.target import label_index

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Detail:
    """A finding with what it says of its text: other weights, positions."""

    text: int
    method: str
    at: Place
    value: float
    details: Mapping[str, Any]


@dataclass(frozen=True)
class Record:
    """What a finished run tells."""

    run: Run
    summary: Mapping[str, Any]
    timing: Mapping[str, Any]

    @property
    def labels(self) -> tuple[str, ...]:
        """The model's labels, by index."""
        return tuple(self.run.manifest.model["labels"])

    @property
    def checks(self) -> list[str]:
        """The checks that found something."""
        return [name for name, check in self.summary["checks"].items() if check["rows"]]

    @property
    def methods(self) -> list[str]:
        """The run's methods, in its order, the controls last."""
        return list(self.run.manifest.settings["methods"])

    @cached_property
    def texts(self) -> pa.Table:
        """The texts, in the run's order; see `heedful.audits.parts.TEXTS`."""
        return self.run.texts()

    @cached_property
    def facts(self) -> dict[str, NDArray[Any]]:
        """Of each text: number, length, predicted, gold (−1 for none), confidence."""
        columns = self.run.texts(["number", "label", "predicted", "probabilities", "starts"])
        gold = [gold_index(label, self.labels) for label in columns.column("label").to_pylist()]
        return facts_of(columns, self.labels, gold)

    def rows(self, check: str, measure: str | None = None, method: str | None = None, **at: Any) -> list[Row]:
        """The summary's rows of a check: of one measure or method, and of places that have all of `at`, if given."""
        told: list[Row] = self.summary["checks"].get(check, {}).get("rows", [])
        return [
            row
            for row in told
            if measure in (None, row["measure"]) and method in (None, row["method"]) and at.items() <= row["at"].items()
        ]

    def table(self, check: str, name: str) -> Any:
        """A check's own table, None where it has none of that name."""
        return self.summary["checks"].get(check, {}).get("tables", {}).get(name)

    def about(self, check: str) -> Mapping[str, Any]:
        """What a check says of itself: summary, paper, changes, measures."""
        told: Mapping[str, Any] = self.summary["checks"][check]["about"]
        return told

    def found(self, check: str) -> Findings:
        """The findings of a check as numbers over texts."""
        columns = ["text", "method", "measure", "at", "value"]
        return Findings.of(self.run.each(check, columns), self.facts, self.labels)

    def details(self, check: str, measure: str) -> Iterator[Detail]:
        """The findings of a measure that say more of their texts than a number."""
        for table in self.run.each(check, ["text", "method", "measure", "at", "value", "details"]):
            own = table.filter(
                pc.and_(pc.equal(table.column("measure"), measure), pc.is_valid(table.column("details")))
            )
            for row in own.to_pylist():
                at = json.loads(row["at"]) if row["at"] else {}
                yield Detail(row["text"], row["method"], at, row["value"], json.loads(row["details"]))


def recorded(folder: str | Path) -> Record:
    """The run in a folder, with its summary."""
    run = opened_read(folder)
    record = Record(run, _json(run, SUMMARY), _json(run, TIMING))
    if "about" not in next(iter(record.summary["checks"].values()), {"about"}):
        raise BadInput(f"'{folder}' was summed up by an older heedful; give the same `heedful audit` again.")
    if run.count() != record.summary["texts"]["n"]:
        raise BadInput(
            f"'{folder}' has {run.count():,} texts and a summary of {record.summary['texts']['n']:,}: its audit goes "
            "on, or was stopped; give the same `heedful audit` again."
        )
    return record


def gold_index(label: str | None, labels: tuple[str, ...]) -> int:
    """The index of the data's label; −1 where there is none, or several."""
    try:
        return -1 if label is None else label_index(label, labels)
    except BadInput:
        return -1


def _json(run: Run, name: str) -> dict[str, Any]:
    try:
        told: dict[str, Any] = json.loads((run.folder / name).read_bytes())
    except FileNotFoundError as e:
        raise BadInput(
            f"'{run.folder}' has no {name}: its audit was stopped before the end; give the same `heedful audit` again."
        ) from e
    except (OSError, ValueError) as e:
        raise BadInput(f"'{run.folder / name}' cannot be read ({e}); give the same `heedful audit` again.") from e
    return told


__all__ = ["Detail", "Record", "gold_index", "recorded"]
