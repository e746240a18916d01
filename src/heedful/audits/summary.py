"""Summary: findings on many texts -> estimates with intervals, compared with the control `random`. Needs no torch.

Every row is an estimate over texts. A method's row also has its paired difference to `random` (the mean of 20 draws)
on the same texts, with Holm's correction over all rows of that check's measure.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from heedful.audits.looks import Looks
from heedful.audits.parts import TEXTS_SCHEMA
from heedful.audits.ranking import Ranking
from heedful.audits.run import Run
from heedful.audits.verdict import Verdict
from heedful.core.decode import decode
from heedful.core.errors import BadInput
from heedful.core.files import json_value
from heedful.core.finding import LEFT_OUT, Findings, Highlight, Key, Measure, Place, Role, SideBySide, describe_number
from heedful.core.target import label_index
from heedful.maths import stats
from heedful.maths.stats import Difference, Estimate

TEXT_FACTS = ("number", "label", "predicted", "probabilities", "starts")  # columns that the facts of a text need


@dataclass(frozen=True, kw_only=True, repr=False)
class Row(Estimate):
    """A measure of a check over texts: of a method (empty: of the model), at one place."""

    check: str = ""
    measure: str
    method: str = ""
    at: Place = field(default_factory=dict)
    versus_random: Difference | None = None

    def gist(self) -> str:
        """Which number it is, its estimate, and its difference to random, in one line."""
        random = "" if self.versus_random is None else f"; less random {self.versus_random.gist()}"
        return f"{describe_number(self.check, self.measure, self.method, self.at)}: {super().gist()}{random}"


@dataclass(frozen=True)
class About:
    """The words and roles of a check, stored so that a report needs neither the check nor torch."""

    title: str = ""
    question: str = ""
    reading: str = ""
    summary: str = ""
    paper: str = ""
    changes: str = ""
    measures: Mapping[str, Measure] = field(default_factory=dict)
    highlights: tuple[Highlight, ...] = ()
    compared: tuple[SideBySide, ...] = ()
    roles: tuple[Role, ...] = ()
    section: str = ""


@dataclass(frozen=True)
class CheckSummary:
    """The results of one check over all texts; `tables` are its own, as JSON (see heedful.checks.tables)."""

    about: About
    rows: tuple[Row, ...] = ()
    tables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TextFacts:
    """The texts of a run: how many, by label, and how often the model is right."""

    n: int
    predicted: Mapping[str, int]
    labelled: Mapping[str, int] | None
    accuracy: Estimate | None
    tokens: Estimate


@dataclass(frozen=True)
class LeftOut:
    """A check or method that could not be applied: the reason, and on how many texts."""

    check: str
    method: str
    reason: str
    texts: int


@dataclass(frozen=True)
class Summary:
    """All numbers of a run; they depend on model, data, settings and seed only, and on the looks before."""

    texts: TextFacts
    checks: Mapping[str, CheckSummary]
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    rankings: tuple[Ranking, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    looks: Looks = field(default_factory=Looks)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        summary: dict[str, Any] = json_value(self)
        return summary

    @staticmethod
    def from_dict(stored: Mapping[str, Any]) -> Summary:
        """The inverse of `to_dict`."""
        return decode(Summary, stored)


def estimate_rows(check: str, findings: Findings, measures: Mapping[str, Measure], methods: Sequence[str]) -> list[Row]:
    """An estimate of every measure of a check, in the order of its measures and of the run's methods."""
    result: list[Row] = []
    for name, measure in measures.items():
        keys = sorted((key for key in findings.rows if key[1] == name), key=lambda key: _order(key, methods))
        differences = stats.decide(_differences(findings, keys, measure), measure.better)
        values = [findings.groups[key][findings.there[key]] for key in keys]
        result += [
            Row(
                **vars(estimate),
                check=check,
                measure=name,
                method=key[0],
                at=json.loads(key[2]) if key[2] else {},
                versus_random=difference,
            )
            for key, estimate, difference in zip(
                keys, stats.estimates(values, measure.kind, measure.range), differences, strict=True
            )
        ]
    return result


def _order(key: Key, methods: Sequence[str]) -> tuple[int, str, list[tuple[int, Any]]]:
    """Methods in the run's order; places by number where they are numbers ("all" first)."""
    method, _, at = key
    values = (json.loads(at) if at else {}).values()
    ranked = [(0, 0.0, v) if isinstance(v, str) else (1, float(v), "") for v in values]
    return (methods.index(method) if method in methods else len(methods), method, ranked)  # type: ignore[return-value]


def _differences(findings: Findings, keys: Sequence[Key], measure: Measure) -> list[Difference | None]:
    """Of each to `random` on the same texts, where it was measured at the same place."""
    random = {key: ("random", *key[1:]) for key in keys if measure.compared and key[0] not in ("", "random")}
    pairs = {key: other for key, other in random.items() if other in findings.groups}
    found = stats.all_paired([(findings.groups[key], findings.groups[other]) for key, other in pairs.items()])
    differences = dict(zip(pairs, found, strict=True))
    return [differences.get(key) for key in keys]


def left_out(tables: Iterable[pa.Table]) -> list[LeftOut]:
    """The checks and methods that could not be applied to some texts, by reason."""
    counted = Counter[Key]()
    for table in tables:  # no text is in two of them
        reasons = table.filter(pc.equal(table.column("measure"), LEFT_OUT))
        once = {
            (row["check"], row["method"], json.loads(row["details"] or "{}").get("reason", ""), row["text"]): None
            for row in reasons.select(["text", "check", "method", "details"]).to_pylist()
        }
        counted.update(key[:3] for key in once)
    return [LeftOut(*key, n) for key, n in counted.items()]


def describe_texts(facts: Mapping[str, NDArray[Any]], labels: Sequence[str]) -> TextFacts:
    """The texts of a run, from their `text_facts`."""
    known = facts["gold"] >= 0
    right = (facts["gold"] == facts["predicted"])[known].astype(float)
    return TextFacts(
        n=len(facts["number"]),
        predicted={name: int((facts["predicted"] == i).sum()) for i, name in enumerate(labels)},
        labelled={name: int((facts["gold"] == i).sum()) for i, name in enumerate(labels)} if known.any() else None,
        accuracy=stats.estimate(right, "rate") if known.any() else None,
        tokens=stats.estimate(facts["length"].astype(float)),
    )


def text_facts(run: Run, labels: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Number, length, labels and confidence of each text, as arrays in the run's order."""
    index = {name: i for i, name in enumerate(labels)}
    parts = [_facts(table, labels, index) for table in run.each_texts(TEXT_FACTS)]
    empty = _facts(pa.schema([TEXTS_SCHEMA.field(name) for name in TEXT_FACTS]).empty_table(), labels, index)
    return {name: np.concatenate([part[name] for part in (empty, *parts)]) for name in empty}


def _facts(texts: pa.Table, labels: tuple[str, ...], index: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    starts, probabilities = (texts.column(name).to_pylist() for name in ("starts", "probabilities"))
    return {
        "number": texts.column("number").to_numpy(),
        "length": np.array([sum(start >= 0 for start in row) for row in starts], dtype=np.int64),
        "predicted": np.array([index.get(name, -1) for name in texts.column("predicted").to_pylist()], dtype=np.int64),
        "gold": np.array([gold_index(label, labels) for label in texts.column("label").to_pylist()], dtype=np.int64),
        "confidence": np.array([max(row) if row else np.nan for row in probabilities], dtype=np.float64),
    }


def gold_index(label: str | None, labels: tuple[str, ...]) -> int:
    """The index of the data's label; −1 where there is none, or several."""
    try:
        return -1 if label is None else label_index(label, labels)
    except BadInput:
        return -1
