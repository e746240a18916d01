"""The section on explanations with another seed, more samples, or after another training."""

from __future__ import annotations

from heedful.audits.record import Record
from heedful.checks.tables import StabilityTables
from heedful.report.document import Column, Section
from heedful.report.phrases import count_texts, interval
from heedful.report.sections.attention_changes import spread_table
from heedful.report.sections.parts import MethodColumn, MethodMeasure, check_section, methods_table, own_check

CHECK = own_check(__name__)
COLUMN_TITLES = {"tau": "τ", "top-k overlap": "overlap", "distance": "distance"}


def section(record: Record) -> Section:
    """Would another seed, more samples or another training give the same explanation?"""
    places = list(dict.fromkeys(str(row.at["with"]) for row in record.rows(CHECK, "tau")))
    measures = [
        MethodMeasure("tau", f"similarity with {_other(place)} (τ)", "Kendall's τ", "higher", {"with": place})
        for place in places
    ]
    columns = [
        MethodColumn(f"{head}, {place}", name, {"with": place})
        for place in places
        for name, head in COLUMN_TITLES.items()
    ]
    tables = record.tables(CHECK, StabilityTables) or StabilityTables()
    jsd = Column("median JSD", 2, "of attention between trainings, the median over them for each text")
    title = "Attention of other trainings, by the largest weight"
    trainings = spread_table(f"{CHECK}-trainings", title, ("largest attention", jsd), tables.attention_jsd)
    return check_section(
        record,
        CHECK,
        (*(measure.findings(record, CHECK)[0] for measure in measures), _trainings_sentence(record)),
        (figure for measure in measures for figure in measure.figures(record, CHECK)),
        (*methods_table(record, CHECK, f"{CHECK}-methods", "Similarity by method", columns), *trainings),
    )


def _other(place: str) -> str:
    named = {"seed": "another seed", "samples": "more samples"}
    return named.get(place, place.replace("checkpoint:", "the training "))


def _trainings_sentence(record: Record) -> str | None:
    """Wiegreffe & Pinter's comparison of other trainings with the adversary."""
    row = record.row(CHECK, "attention jsd", at={"with": "checkpoints"})
    if row is None:
        return None
    adversary = record.check_for("elsewhere")
    farthest = [r for name in ("jsd exact", "jsd found") for r in record.rows(adversary, name) if r.known]
    adversarial = f"; an adversary could change it by {interval(farthest[0])}" if farthest else ""
    return f"Other trainings change attention over words by {interval(row)} (JSD, {count_texts(row.n)}){adversarial}."
