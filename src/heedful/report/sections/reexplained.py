"""Anew: the sections of checks that explain a text again: edited, without weights, with another seed or training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heedful.audits.record import Record, Row
from heedful.report import telling
from heedful.report.charts import Line, Words, lines
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.sections.asking import Asked, Evidence, made, methods_table
from heedful.report.sections.attention import range_name
from heedful.report.sections.by_method import HIGHER, LOWER, Told
from heedful.report.telling import dot, exactly, interval, known, texts


def sensitivity(record: Record) -> Section:
    """Does an explanation stay when the text changes in ways that should not matter?"""
    check = "sensitivity"
    told = Told("tau", "likeness after changes that should not matter (τ)", "Kendall's τ", HIGHER, {"change": "any"})
    kinds = list(dict.fromkeys(row["at"]["change"] for row in record.rows(check, "tau")))
    asked = [
        *(Asked(f"τ, {kind}", "tau", {"change": kind}) for kind in kinds),
        Asked("overlap", "top-k overlap", told.at),
        Asked("largest change", "largest change", told.at),
    ]
    changed = exactly(record, check, "label changed", "", told.at)
    labels = (
        f"Some such change changes the label itself on {interval(changed)} of {texts(changed['n'])}; it takes no part."
        if changed and known(changed)
        else None
    )
    table = methods_table(record, check, (f"{check}-methods", "Likeness by kind of change"), asked)
    evidence = Evidence((*told.findings(record, check), labels), told.figures(record, check), table)
    return made(record, check, evidence)


def randomisation(record: Record) -> Section:
    """Does an explanation survive the loss of the model's weights?"""
    check = "randomisation"
    told = Told("similarity of fully random", "likeness once every weight is random (τ)", "Kendall's τ", LOWER)
    stages = _stages(record)
    asked = [Asked(str(at["layers"]), "tau", at) for at in stages]
    title = "Likeness (τ) to the explanation of the trained model, as parts lose their weights from left to right"
    return made(
        record,
        check,
        Evidence(
            (*told.findings(record, check), _output_told(record, stages)),
            (*_cascade(record, stages), *told.figures(record, check)),
            methods_table(record, check, (f"{check}-stages", title), asked),
        ),
    )


def _stages(record: Record) -> list[dict[str, Any]]:
    places = {row["at"]["stage"]: dict(row["at"]) for row in record.rows("randomisation", "tau")}
    return [places[stage] for stage in sorted(places)]


def _output_told(record: Record, stages: Sequence[Mapping[str, Any]]) -> str | None:
    rows = [row for at in stages if known(row := exactly(record, "randomisation", "output change", "", at))]
    if not rows or rows[0] is None or rows[-1] is None:
        return None
    some = rows if len(rows) == 1 else [rows[0], rows[-1]]
    said = telling.listed(
        [f"{interval(row)} after stage {row['at']['stage']} ({row['at']['layers']})" for row in some if row]
    )
    return f"The model's output has moved by {said} (TVD)."


def _cascade(record: Record, stages: Sequence[Mapping[str, Any]]) -> tuple[Figure, ...]:
    rows = {(row["method"], row["at"]["stage"]): row for row in record.rows("randomisation", "tau") if known(row)}
    names = [name for name in record.methods if any(method == name for method, _ in rows)]
    made = [_line(name, [(at["stage"], rows.get((name, at["stage"]))) for at in stages]) for name in names]
    named = ", ".join(f"{at['stage']} {at['layers']}" for at in stages)
    words = Words(
        "randomisation-cascade",
        "Likeness as the model loses its weights",
        "stage",
        "Kendall's τ with the trained model's explanation",
        caption=f"Lower is better; mean with a 95 % band. At each stage one more part has lost its weights: {named}.",
    )
    return (lines(words, made),) if made and len(stages) > 1 else ()


def _line(name: str, rows: Sequence[tuple[int, Row | None]]) -> Line:
    there = [(float(stage), dot(name, row)) for stage, row in rows if row is not None]
    nan = float("nan")
    return Line(
        name,
        [stage for stage, _ in there],
        [mark.mean for _, mark in there],
        [nan if mark.low is None else mark.low for _, mark in there],
        [nan if mark.high is None else mark.high for _, mark in there],
        faint=name in telling.CONTROLS,
    )


def stability(record: Record) -> Section:
    """Would the explanation be the same with another seed, more samples, or after another training?"""
    check = "stability"
    places = list(dict.fromkeys(str(row["at"]["with"]) for row in record.rows(check, "tau")))
    told = [
        Told("tau", f"likeness with {_with(place)} (τ)", "Kendall's τ", HIGHER, {"with": place}) for place in places
    ]
    asked = [Asked(f"{head}, {place}", name, {"with": place}) for place in places for head, name in _LIKENESS]
    return made(
        record,
        check,
        Evidence(
            (*(one.findings(record, check)[0] for one in told), _trainings_told(record)),
            tuple(figure for one in told for figure in one.figures(record, check)),
            (
                *methods_table(record, check, (f"{check}-methods", "Likeness by method"), asked),
                *_trainings_table(record),
            ),
        ),
    )


_LIKENESS = (("τ", "tau"), ("overlap", "top-k overlap"), ("distance", "distance"))


def _with(place: str) -> str:
    plain = {"seed": "another seed", "samples": "more samples"}
    return plain.get(place, place.replace("checkpoint:", "the training "))


def _trainings_told(record: Record) -> str | None:
    """Wiegreffe & Pinter's comparison: other trainings beside the adversary."""
    row = exactly(record, "stability", "attention jsd", "", {"with": "checkpoints"})
    if row is None or not known(row):
        return None
    found = telling.first([r for name in ("jsd exact", "jsd found") for r in record.rows("adversarial", name)])
    beside = f"; an adversary could move it by {interval(found)}" if found else ""
    return f"Other trainings move attention over words by {interval(row)} (JSD, {texts(row['n'])}){beside}."


def _trainings_table(record: Record) -> tuple[Table, ...]:
    rows = [row for row in record.table("stability", "attention jsd") or () if row["n"]]
    columns = (
        Column("largest attention"),
        Column("predicted"),
        Column("n", 0, "texts"),
        Column("median JSD", 2, "of attention between trainings, the median over them for each text"),
        Column("lower quartile"),
        Column("upper quartile"),
    )
    cells = tuple(
        (range_name(*row["largest attention"]), row["predicted"], row["n"], row["median"], *row["quartiles"])
        for row in rows
    )
    title = "Attention of other trainings, by the largest weight"
    return (Table("stability-trainings", title, columns, cells),) if cells else ()
