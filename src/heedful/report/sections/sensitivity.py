"""The section on explanations of an edited text."""

from __future__ import annotations

from heedful.audits.record import Record
from heedful.report.document import Section
from heedful.report.phrases import count_texts, interval
from heedful.report.sections.parts import MethodColumn, MethodMeasure, check_section, methods_table, own_check

CHECK = own_check(__name__)
ANY = {"change": "any"}
MAIN_MEASURE = MethodMeasure("tau", "similarity after edits that should not matter (τ)", "Kendall's τ", "higher", ANY)


def section(record: Record) -> Section:
    """Does an explanation stay the same under edits that should not matter?"""
    kinds = list(dict.fromkeys(row.at["change"] for row in record.rows(CHECK, "tau")))
    columns = [
        *(MethodColumn(f"τ, {kind}", "tau", {"change": kind}) for kind in kinds),
        MethodColumn("overlap", "top-k overlap", ANY),
        MethodColumn("largest change", "largest change", ANY),
    ]
    changed = record.row(CHECK, "label changed", at=ANY)
    share = f"{interval(changed)} of {count_texts(changed.n)}" if changed else ""
    labels = f"An edit changes the label on {share}; such edits are left out." if changed else None
    tables = methods_table(record, CHECK, f"{CHECK}-methods", "Similarity by kind of edit", columns)
    return check_section(
        record, CHECK, (*MAIN_MEASURE.findings(record, CHECK), labels), MAIN_MEASURE.figures(record, CHECK), tables
    )
