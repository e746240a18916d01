"""Methodwise: the sections of checks that give each method a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from heedful.audits.record import Record, Row
from heedful.report import telling
from heedful.report.charts import Words
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.sections.asking import Asked, Evidence, made, methods_table
from heedful.report.telling import exactly, interval, known, number, texts

NOWHERE: Mapping[str, Any] = {}
LOWER, HIGHER = "Lower is better.", "Higher is better."


@dataclass(frozen=True)
class Told:
    """A measure that a section is about: what it is in words, and on its axis."""

    measure: str
    phrase: str
    axis: str
    note: str = ""
    at: Mapping[str, Any] = field(default_factory=dict)

    def rows(self, record: Record, check: str) -> list[Row]:
        """Of every method, at this very place."""
        return [row for row in record.rows(check, self.measure) if row["method"] and row["at"] == self.at]

    def findings(self, record: Record, check: str) -> list[str | None]:
        """From the lowest to the highest, and how many are beside chance."""
        rows = self.rows(record, check)
        return [telling.spread(self.phrase, rows), telling.beside_random(rows)]

    def figures(self, record: Record, check: str) -> tuple[Figure, ...]:
        """A mark for each method."""
        place = "-".join([check, self.measure, *map(str, self.at.values())])
        words = Words(
            telling.slug(place), telling.capital(self.phrase), self.axis, caption=f"{self.note} 95 % intervals.".strip()
        )
        return telling.by_method(words, self.rows(record, check), lower=self.note == LOWER)


def simple(record: Record, check: str, told: Told, measures: Sequence[str]) -> Section:
    """A section on measures that have one place."""
    asked = [Asked(name, name, told.at) for name in measures]
    table = methods_table(record, check, (f"{check}-methods", "By method"), asked)
    return made(record, check, Evidence(tuple(told.findings(record, check)), told.figures(record, check), table))


def sign(record: Record) -> Section:
    """Does the strongest word push the way its score says?"""
    phrase = "share of texts on which a strongest word pushes against its score"
    return simple(
        record, "sign", Told("violation", phrase, "share of texts", LOWER), ("violation", "agreement of signs")
    )


def completeness(record: Record) -> Section:
    """Do the scores add up to the target's value less its value at the baseline?"""
    told = Told("gap", "what is missing to the value that the scores should add up to", "gap", LOWER)
    return simple(record, "completeness", told, ("gap", "relative gap", "sum"))


def infidelity(record: Record) -> Section:
    """Do the scores of a set of words add up to what taking the set away does?"""
    told = Told("correlation", "correlation of a set's scores with its effect", "Pearson's r", HIGHER)
    return simple(record, "infidelity", told, ("correlation", "infidelity scaled", "infidelity"))


def complexity(record: Record) -> Section:
    """On how many words does an explanation rest?"""
    told = Told("effective words", "effective number of words of an explanation", "words")
    return simple(record, "complexity", told, ("effective words", "relative entropy", "gini", "entropy"))


def plausibility(record: Record) -> Section:
    """Are the highest words those that people marked?"""
    told = Told("auprc", "precision for the words that people marked (AUPRC)", "AUPRC", HIGHER)
    plain = simple(record, "plausibility", told, ("auprc", "token f1", "iou", "iou f1"))
    share = exactly(record, "plausibility", "rationale share", "", NOWHERE)
    marked = (
        f"People marked {interval(share)} of a text's words ({texts(share['n'])})." if share and known(share) else None
    )
    evidence = Evidence((*plain.findings, marked), plain.figures, (*plain.tables, *_right_and_wrong(record)))
    return made(record, "plausibility", evidence)


def _right_and_wrong(record: Record) -> tuple[Table, ...]:
    """Mean AUPRC where the model is right, and where it is wrong."""
    parts = [
        {row["method"]: row for row in record.table("plausibility", part) or () if row["measure"] == "auprc"}
        for part in ("right", "wrong")
    ]
    names = [name for name in record.methods if any(part.get(name, {"n": 0})["n"] for part in parts)]
    nothing = {"mean": None, "n": 0}
    rows = tuple((name, *(x for part in parts for x in _mean(part.get(name, nothing)))) for name in names)
    columns = (
        Column("method"),
        Column("AUPRC, right", 2, "mean over texts on which the model is right"),
        Column("n, right", 0, "texts"),
        Column("AUPRC, wrong", 2, "mean over texts on which it is wrong"),
        Column("n, wrong", 0, "texts"),
    )
    title = "Where the model is right and where it is wrong"
    return (Table("plausibility-right", title, columns, rows),) if rows else ()


def _mean(row: Mapping[str, Any]) -> tuple[float | None, int]:
    return row["mean"], row["n"]


# cost


def cost(record: Record) -> Section:
    """What does an explanation take?"""
    told = Told("forwards", "texts sent through the model for one explanation", "forward passes", LOWER)
    seconds = record.timing.get("methods", {})
    rows = {name: {row["method"]: row for row in record.rows("cost", name)} for name in ("forwards", "backwards")}
    names = [name for name in record.methods if known(rows["forwards"].get(name))]
    cells = tuple(
        (
            name,
            rows["forwards"][name]["n"],
            *(row["mean"] if (row := own.get(name)) else None for own in rows.values()),
            seconds.get(name, {}).get("seconds each"),
            None if (size := seconds.get(name, {}).get("bytes")) is None else size / 2**20,
        )
        for name in names
    )
    columns = (
        Column("method"),
        Column("n", 0, "texts"),
        Column("forwards", 1, "texts sent through the model, mean"),
        Column("backwards", 1, "texts sent back for derivatives, mean"),
        Column("CPU seconds", 4, "of one explanation, mean, on the machine of this run"),
        Column("MiB", 1, "memory at its highest, above what was there before"),
    )
    table = (Table("cost-methods", "By method", columns, cells),) if cells else ()
    evidence = Evidence((telling.spread(told.phrase, told.rows(record, "cost")), _seconds_told(names, seconds)))
    return made(record, "cost", Evidence(evidence.findings, told.figures(record, "cost"), table))


def _seconds_told(names: Sequence[str], timing: Mapping[str, Any]) -> str | None:
    """The cheapest and the dearest method by the clock."""
    known_ = {
        n: s for n in names if n not in telling.CONTROLS and (s := timing.get(n, {}).get("seconds each")) is not None
    }
    if len(known_) < 2:
        return None
    low, high = min(known_, key=known_.__getitem__), max(known_, key=known_.__getitem__)
    return (
        f"One explanation took from {number(known_[low])} CPU seconds ({low}) to {number(known_[high])} ({high}) on "
        "the machine of this run."
    )
