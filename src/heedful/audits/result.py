"""Audit: the result of a run, in Python. `open` reads it from a run folder; the model is not needed, nor torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heedful.audits.manifest import Manifest
from heedful.audits.ranking import Ranking
from heedful.audits.record import Record, TextRow, load_record
from heedful.audits.run import REPORT, Run
from heedful.audits.summary import Row, Summary
from heedful.audits.verdict import Rule, Verdict
from heedful.core.errors import BadInput
from heedful.core.files import write_files

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True, repr=False)
class Audit:
    """A whole run: its manifest, and its numbers with intervals, compared with controls.

    `summary` depends on model, data, settings and seed only; seconds and bytes are in `timing`. `complete` is False
    where texts are still missing. `run` is the run folder, None where none was given.
    """

    manifest: Manifest
    summary: Summary
    timing: Mapping[str, Any]
    complete: bool = True
    run: Run | None = None

    def __repr__(self) -> str:
        word = self.summary.verdicts[Rule().attention].word if Rule().attention in self.summary.verdicts else None
        parts = [
            f"{self.summary.texts.n:,} texts",
            f"{len(self.manifest.settings['methods'])} methods",
            f"{len(self.summary.checks)} checks",
            *([] if word is None else [f"attention: {word}"]),
            *([] if self.complete else ["incomplete"]),
        ]
        return f"Audit({self._record.model_name!r}, {', '.join(parts)})"

    def rows(self, check: str | None = None, measure: str | None = None, method: str | None = None) -> list[Row]:
        """The summary's rows: of all checks, or of one check, measure or method."""
        if check is not None and check not in self.summary.checks:
            raise BadInput(f"check '{check}' is not in this run, which has {', '.join(self.summary.checks)}.")
        checks = self._record.checks if check is None else [check]
        return [row for name in checks for row in self._record.rows(name, measure, method)]

    def to_dataframe(self, check: str | None = None) -> pd.DataFrame:
        """The summary's rows as a pandas data frame; the column `at` has the place (a layer, a masking)."""
        try:
            import pandas as pd
        except ImportError as e:
            raise BadInput("to_dataframe needs pandas; install it with: pip install 'heedful[dataframe]'") from e
        return pd.DataFrame([flat_row(row) for row in self.rows(check)])

    @property
    def verdict(self) -> Verdict:
        """Whether attention explains the model."""
        name = Rule().attention
        if name not in self.summary.verdicts:
            raise BadInput(f"this audit has no verdict, since {name} is not among its methods; add {name}.")
        return self.summary.verdicts[name]

    @property
    def ranking(self) -> Ranking:
        """The methods, best first, under the first masking; `summary.rankings` has all maskings."""
        if not self.summary.rankings:
            raise BadInput("this audit has no ranking, since none of its checks ranks methods; add input-erasure.")
        return self.summary.rankings[0]

    @property
    def texts(self) -> list[TextRow]:
        """The texts in the run's order, with their predictions and every method's scores."""
        return list(self.record.each_text())

    def findings(self, check: str | None = None) -> pa.Table:
        """Every finding as a pyarrow table; `.to_pandas()` makes a data frame."""
        return self.record.run.findings(check)

    def to_html(self) -> str:
        """The report, a self-contained page."""
        from heedful.report.audit import report
        from heedful.report.page import document_page

        return document_page(report(self.record))

    def save_page(self) -> None:
        """Write the report into the run folder, as report.html, as `audit` does."""
        write_files({self.record.run.folder / REPORT: self.to_html().encode("utf-8")})

    def _repr_html_(self) -> str:
        from heedful.report.audit import audit_fragment

        return audit_fragment(self._record)

    @property
    def record(self) -> Record:
        """The run with its findings, for reports."""
        if self.run is None:
            raise BadInput("the findings of this audit were not stored; audit again with a folder, out=DIR.")
        return self._record

    @property
    def _record(self) -> Record:
        """The record; without a run folder it has a summary, but no findings."""
        return Record(self.run or Run(Path(), self.manifest), self.summary, self.timing)


def flat_row(row: Row) -> dict[str, Any]:
    """A row as columns of a data frame."""
    random = row.versus_random
    decision = None if random is None else random.decision
    columns = {"difference": "mean", "difference_low": "low", "difference_high": "high", "p": "p_adjusted"}
    return {
        **{name: getattr(row, name) for name in ("check", "measure", "method")},
        "at": ", ".join(f"{key}={value}" for key, value in row.at.items()),
        **{name: getattr(row, name) for name in ("n", "missing", "mean", "median", "std", "low", "high")},
        **{column: getattr(random, name, None) for column, name in columns.items()},
        "decision": None if decision is None else decision.value,
        "better": None if random is None else random.better,
    }


def open(folder: str | Path) -> Audit:  # noqa: A001
    """The audit in a run folder."""
    record = load_record(folder)
    complete = record.summary.texts.n >= record.timing.get("asked", 0)
    return Audit(record.run.manifest, record.summary, record.timing, complete, record.run)
