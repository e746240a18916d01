"""The section on explanations of a model with randomised weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heedful.audits.record import Record
from heedful.audits.summary import Row
from heedful.report.charts import PlottedCurve, Words, lines
from heedful.report.document import Figure, Section
from heedful.report.phrases import and_list, interval
from heedful.report.sections.parts import CONTROLS, MethodColumn, MethodMeasure, check_section, methods_table, own_check

CHECK = own_check(__name__)
MAIN_MEASURE = MethodMeasure(
    "similarity of fully random", "similarity once every weight is random (τ)", "Kendall's τ", "lower"
)


def section(record: Record) -> Section:
    """Does an explanation change when the model's weights are randomised?"""
    places = {row.at["stage"]: dict(row.at) for row in record.rows(CHECK, "tau")}
    stages = [places[stage] for stage in sorted(places)]
    columns = [MethodColumn(str(at["layers"]), "tau", at) for at in stages]
    title = "Similarity (τ) to the explanation of the trained model, as parts are randomised from left to right"
    findings = (*MAIN_MEASURE.findings(record, CHECK), _output_sentence(record, stages))
    figures = (*_cascade(record, stages), *MAIN_MEASURE.figures(record, CHECK))
    tables = methods_table(record, CHECK, f"{CHECK}-stages", title, columns)
    return check_section(record, CHECK, findings, figures, tables)


def _output_sentence(record: Record, stages: Sequence[Mapping[str, Any]]) -> str | None:
    rows = [row for at in stages if (row := record.row(CHECK, "output change", at=at)) is not None]
    if not rows:
        return None
    ends = rows if len(rows) == 1 else [rows[0], rows[-1]]
    changes = and_list([f"{interval(row)} after stage {row.at['stage']} ({row.at['layers']})" for row in ends])
    return f"Change of the model's output: {changes} (TVD)."


def _cascade(record: Record, stages: Sequence[Mapping[str, Any]]) -> tuple[Figure, ...]:
    rows = {(row.method, row.at["stage"]): row for row in record.rows(CHECK, "tau") if row.known}
    names = [name for name in record.methods if any(method == name for method, _ in rows)]
    curves = [_curve(name, [rows[name, at["stage"]] for at in stages if (name, at["stage"]) in rows]) for name in names]
    named = ", ".join(f"{at['stage']} {at['layers']}" for at in stages)
    axes = ("stage", "Kendall's τ with the trained model's explanation")
    caption = f"Lower is better; mean with a 95 % band. At each stage one more part is randomised: {named}."
    words = Words(f"{CHECK}-cascade", "Similarity as the model is randomised", *axes, caption=caption)
    return (lines(words, curves),) if curves and len(stages) > 1 else ()


def _curve(name: str, rows: Sequence[Row]) -> PlottedCurve:
    stages = [float(row.at["stage"]) for row in rows]
    mean, low, high = ([getattr(row, field) for row in rows] for field in ("mean", "low", "high"))
    return PlottedCurve(name, stages, mean, low, high, faint=name in CONTROLS)
