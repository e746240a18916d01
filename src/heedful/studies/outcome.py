"""Outcome: the result of a study, in Python. `load_outcome` reads it from a folder; needs no model and no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heedful.audits import result
from heedful.audits.manifest import Manifest
from heedful.audits.result import flat_row
from heedful.audits.summary import About, Row
from heedful.core.decode import decode
from heedful.core.errors import BadInput
from heedful.core.files import json_value, sorted_keys, write_files
from heedful.core.finding import Place
from heedful.maths.stats import Difference, Estimate
from heedful.studies.folder import OUTCOME, REPORT, StudyFolder, is_study, read_study
from heedful.studies.reproduction.published import Claim, Comparison

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Curve:
    """A measure at each `x`: of one order, network or adversary (`method`), at one place."""

    measure: str
    method: str
    x: tuple[float, ...]
    points: tuple[Estimate, ...]
    at: Place = field(default_factory=dict)


@dataclass(frozen=True)
class PairedDifference:
    """The paired difference a − b of two methods, over the same texts."""

    measure: str
    a: str
    b: str
    difference: Difference
    at: Place = field(default_factory=dict)


@dataclass(frozen=True)
class WeightedWords:
    """Words of an example with a weight each: one attention, or one text with its inserted words marked."""

    name: str
    words: tuple[str, ...]
    weights: tuple[float, ...]
    note: str = ""


@dataclass(frozen=True)
class ExampleText:
    """A text shown as an example: its predicted label with its probability, and the ways in which it is coloured."""

    title: str
    label: str
    gold: str | None
    colourings: tuple[WeightedWords, ...]
    note: str = ""


@dataclass(frozen=True)
class TextsUsed:
    """A part of the data: what it was used for ("heads were ranked"), which split it is, and how many texts."""

    use: str
    split: str
    texts: int
    fingerprint: str
    left_out: int = 0  # texts that the model cannot read


@dataclass(frozen=True)
class Result:
    """What a study measured: estimates, curves, paired differences, examples.

    `details` are the study's own numbers as JSON, for its section of the report. `models` are the folders of the models
    that it trained or wrote, by name, relative to the study's folder. `notes` are sentences about this run. A
    reproduction has published numbers beside ours, published findings, and the folders of its audits and studies,
    `parts`.
    """

    rows: tuple[Row, ...] = ()
    curves: tuple[Curve, ...] = ()
    differences: tuple[PairedDifference, ...] = ()
    examples: tuple[ExampleText, ...] = ()
    texts: tuple[TextsUsed, ...] = ()
    models: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    comparisons: tuple[Comparison, ...] = ()
    claims: tuple[Claim, ...] = ()
    parts: Mapping[str, str] = field(default_factory=dict)

    def curves_of(self, measure: str, at: Place | None = None) -> list[Curve]:
        """The curves of a measure, at a place if one is given."""
        return [c for c in self.curves if c.measure == measure and (at is None or c.at == at)]

    def row(self, measure: str, method: str = "", at: Place | None = None) -> Row | None:
        """The row of a measure, if there is one with a number."""
        wanted = (r for r in self.rows if (r.measure, r.method, r.at) == (measure, method, at or {}) and r.known)
        return next(wanted, None)


@dataclass(frozen=True, repr=False)
class Outcome:
    """A whole study: its manifest, its words, and its result, which depends on the manifest only."""

    study: str
    manifest: Manifest
    about: About
    result: Result
    seconds: float = 0.0
    folder: Path | None = None

    def __repr__(self) -> str:
        parts = [f"{len(self.result.rows)} rows", f"{len(self.result.curves)} curves"]
        if self.result.models:
            parts.append(f"{len(self.result.models)} models")
        return f"Outcome({self.study!r}, {', '.join(parts)})"

    def rows(self, measure: str | None = None, method: str | None = None) -> list[Row]:
        """The estimates: all, or those of a measure or a method."""
        wanted = ((measure, "measure"), (method, "method"))
        return [r for r in self.result.rows if all(v is None or getattr(r, name) == v for v, name in wanted)]

    @property
    def curves(self) -> tuple[Curve, ...]:
        """The curves."""
        return self.result.curves

    @property
    def examples(self) -> tuple[ExampleText, ...]:
        """Texts shown as examples."""
        return self.result.examples

    @property
    def models(self) -> dict[str, Path]:
        """The folders of the models that the study trained or wrote."""
        if self.folder is None:
            raise BadInput("the models of this study were not stored; run it again with a folder, out=DIR.")
        return {name: self.folder / place for name, place in self.result.models.items()}

    def to_dataframe(self) -> pd.DataFrame:
        """The rows as a pandas data frame; the column `at` has the place."""
        try:
            import pandas as pd
        except ImportError as e:
            raise BadInput("to_dataframe needs pandas; install it with: pip install 'heedful[dataframe]'") from e
        return pd.DataFrame([flat_row(row) for row in self.result.rows])

    def to_dict(self) -> dict[str, Any]:
        """For JSON: all but the seconds, which differ from run to run."""
        return {"study": self.study, "about": json_value(self.about), "result": json_value(self.result)}

    def to_html(self) -> str:
        """The report, a self-contained page."""
        from heedful.report.page import document_page
        from heedful.report.study import report

        return document_page(report(self))

    def save_page(self) -> None:
        """Write the report into the study's folder, as report.html."""
        assert self.folder is not None
        write_files({self.folder / REPORT: self.to_html().encode("utf-8")})


def about_study(study: Any) -> About:
    """The words of a study, stored so that a report needs neither the study nor torch."""
    settings = {f.name for f in fields(study)}
    return About(
        **{f.name: getattr(study, f.name) for f in fields(About) if hasattr(study, f.name) and f.name not in settings}
    )


def encode_outcome(outcome: Outcome) -> dict[str, Any]:
    """The content of outcome.json."""
    content: dict[str, Any] = sorted_keys(outcome.to_dict())
    return content


def load_outcome(folder: str | Path) -> Outcome:
    """The finished study in a folder."""
    stored: StudyFolder = read_study(folder)
    file = stored.folder / OUTCOME
    try:
        content = json.loads(file.read_bytes())
        about, numbers = decode(About, content["about"]), decode(Result, content["result"])
        return Outcome(content["study"], stored.manifest, about, numbers, stored.seconds(), stored.folder)
    except FileNotFoundError as e:
        raise BadInput(
            f"'{folder}' has no {OUTCOME}: its study was interrupted; run the same `heedful study` again to finish."
        ) from e
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise BadInput(f"'{file}' cannot be read ({e}); run the same `heedful study` again.") from e


def open(folder: str | Path) -> Any:  # noqa: A001
    """What a folder holds: the `Audit` of a run, or the `Outcome` of a study."""
    return load_outcome(folder) if is_study(folder) else result.open(folder)
