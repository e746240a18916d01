"""Record: a run folder read into typed values, for reports and comparisons. Needs no torch and no model.

The summary has the estimates over all texts; `findings` and `details` have the numbers of each text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from heedful.audits.looks import in_order
from heedful.audits.run import CHUNK_TEXTS, SUMMARY, TIMING, Run, read_run
from heedful.audits.summary import About, Row, Summary, text_facts
from heedful.audits.verdict import Rule, Verdict, gather, readings, verdicts
from heedful.core.decode import decode
from heedful.core.errors import BadInput
from heedful.core.finding import Findings, Place, Role

T = TypeVar("T")


@dataclass(frozen=True)
class Detail:
    """A finding with its details on one text: other weights, positions."""

    text: int
    method: str
    at: Place
    value: float
    details: Mapping[str, Any]


@dataclass(frozen=True)
class TokenScores:
    """A method's score of each piece of a text, and whether its sign means for or against."""

    method: str
    scores: Sequence[float]
    signed: bool


@dataclass(frozen=True)
class TextRow:
    """A text of the run; see `heedful.audits.parts.TEXTS_SCHEMA`."""

    number: int
    index: int
    text: str
    pair: str | None
    label: str | None
    predicted: str | None
    probabilities: Sequence[float] | None
    pieces: Sequence[str]
    starts: Sequence[int]
    ends: Sequence[int]
    segments: Sequence[int]
    scores: Sequence[TokenScores]

    @staticmethod
    def of(row: Mapping[str, Any]) -> TextRow:
        """A row of the texts' table."""
        scores = tuple(TokenScores(**method) for method in row["scores"] or ())
        return TextRow(**{**row, "pieces": row["pieces"] or (), "scores": scores})


@dataclass(frozen=True)
class Spent:
    """The cost of a method in this run: CPU seconds of one explanation, and peak bytes of memory."""

    seconds: float | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class Record:
    """A finished run."""

    run: Run
    summary: Summary
    timing: Mapping[str, Any]

    @property
    def labels(self) -> tuple[str, ...]:
        """The model's labels, by index."""
        return tuple(self.run.manifest.model["labels"])

    @property
    def model_name(self) -> str:
        """The model's short name."""
        return PurePath(str(self.run.manifest.model.get("name") or "the model")).name or "the model"

    @property
    def checks(self) -> list[str]:
        """The checks with findings, in the run's order."""
        names = dict.fromkeys([*self.run.manifest.settings.get("checks", ()), *self.summary.checks])
        return [name for name in names if name in self.summary.checks and self.summary.checks[name].rows]

    @property
    def methods(self) -> list[str]:
        """The run's methods, in its order, the controls last."""
        return list(self.run.manifest.settings["methods"])

    @property
    def seconds(self) -> float | None:
        """CPU seconds of the whole run."""
        return self.timing.get("seconds")

    @cached_property
    def texts(self) -> pa.Table:
        """The texts, in the run's order; see `heedful.audits.parts.TEXTS_SCHEMA`."""
        return self.run.texts()

    def text_at(self, place: int) -> TextRow:
        """The text at a place of the run's order."""
        return TextRow.of(self.texts.slice(place, 1).to_pylist()[0])

    def each_text(self) -> Iterator[TextRow]:
        """The texts in the run's order, a few of them as Python lists at a time."""
        for batch in self.texts.to_batches(max_chunksize=16):
            yield from map(TextRow.of, batch.to_pylist())

    @cached_property
    def facts(self) -> dict[str, NDArray[Any]]:
        """Of each text: number, length, predicted, gold (−1 for none), confidence."""
        return text_facts(self.run, self.labels)

    def rows(self, check: str | None, measure: str | None = None, method: str | None = None, **at: Any) -> list[Row]:
        """The summary's rows of a check: of one measure or method, and of places that have all of `at`, if given."""
        return [
            row
            for row in (self.summary.checks[check].rows if check is not None and check in self.summary.checks else ())
            if measure in (None, row.measure) and method in (None, row.method) and at.items() <= row.at.items()
        ]

    def row(self, check: str, measure: str, method: str = "", at: Place | None = None) -> Row | None:
        """The row at exactly this place, if it has a number."""
        rows = self.rows(check, measure, method)
        return next((row for row in rows if row.at == (at or {}) and row.known), None)

    def tables(self, check: str, kind: type[T]) -> T | None:
        """A check's own tables, as its class has them; None where there are none."""
        tables = self.summary.checks[check].tables if check in self.summary.checks else {}
        return decode(kind, tables) if tables else None

    def about(self, check: str) -> About:
        """The title, question, reading, measures and roles of a check."""
        return self.summary.checks[check].about if check in self.summary.checks else About()

    def settings(self, check: str) -> Mapping[str, Any]:
        """The settings of a check in this run."""
        settings: Mapping[str, Any] = self.run.manifest.settings.get("checks", {}).get(check, {})
        return settings

    def check_for(self, role: Role) -> str | None:
        """The check with this role, if the run has its numbers."""
        return next((name for name in self.checks if role in self.about(name).roles), None)

    def passes(self, method: str) -> float | None:
        """Forward and backward passes of an explanation; None where the run did not count them."""
        rows = self.rows(self.check_for("cost"), method=method)
        return sum(row.mean for row in rows if row.known) if rows else None

    def spent(self, method: str) -> Spent:
        """The cost of an explanation by a method, where it was measured."""
        spent = self.timing.get("methods", {}).get(method, {})
        return Spent(spent.get("seconds each"), spent.get("bytes"))

    def verdicts(self, rule: Rule | None = None) -> Mapping[str, Verdict]:
        """The verdict on each reading of attention: the summary's, or by another rule."""
        if rule is None:
            return self.summary.verdicts
        evidence = readings(self.methods, rule)
        for name in self.checks:
            if roles := self.about(name).roles:
                evidence = gather(evidence, roles, self.findings(name), rule)
        return verdicts(in_order(evidence, rule, self.facts["number"]), rule)

    def findings(self, check: str) -> Findings:
        """The findings of a check as numbers over texts."""
        columns = ["text", "method", "measure", "at", "value"]
        return Findings.of(self.run.each(check, columns), self.facts, self.labels)

    def details(self, check: str, measure: str) -> Iterator[Detail]:
        """The findings of a measure that have details."""
        for table in self.run.each(check, ["text", "method", "measure", "at", "value", "details"]):
            wanted = pc.and_(pc.equal(table.column("measure"), measure), pc.is_valid(table.column("details")))
            for row in table.filter(wanted).to_pylist():
                at = json.loads(row["at"]) if row["at"] else {}
                yield Detail(row["text"], row["method"], at, row["value"], json.loads(row["details"]))


def load_record(folder: str | Path) -> Record:
    """The run in a folder, with its summary."""
    run = read_run(folder)
    summary, timing = _json(run, SUMMARY), _json(run, TIMING)
    try:
        record = Record(run, Summary.from_dict(summary), timing)
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise BadInput(
            f"'{run.folder / SUMMARY}' is not the summary of a run ({e}); run the same `heedful audit` again."
        ) from e
    texts = record.summary.texts.n
    if record.summary.looks.until and run.count() > texts:  # chunks that were finished when the verdict was decided
        run = replace(run, span=range(-(-texts // CHUNK_TEXTS)))
        record = replace(record, run=run)
    if run.count() != texts:
        raise BadInput(
            f"'{folder}' is incomplete: {run.count():,} texts, but the summary covers {texts:,}. The "
            "audit is still running or was interrupted; run the same `heedful audit` again to finish."
        )
    return record


def _json(run: Run, name: str) -> dict[str, Any]:
    try:
        stored: dict[str, Any] = json.loads((run.folder / name).read_bytes())
    except FileNotFoundError as e:
        raise BadInput(
            f"'{run.folder}' has no {name}: its audit was interrupted; run the same `heedful audit` again to finish."
        ) from e
    except (OSError, ValueError) as e:
        raise BadInput(f"'{run.folder / name}' cannot be read ({e}); run the same `heedful audit` again.") from e
    return stored
