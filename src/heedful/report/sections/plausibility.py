"""The section on human rationales."""

from __future__ import annotations

from heedful.audits.record import Record
from heedful.checks.tables import PlausibilityTables
from heedful.report.document import Column, Section, Table
from heedful.report.phrases import count_texts, interval
from heedful.report.sections.parts import MethodColumn, MethodMeasure, check_section, methods_table, own_check

CHECK = own_check(__name__)
MAIN_MEASURE = MethodMeasure("auprc", "precision for the words that people marked (AUPRC)", "AUPRC", "higher")


def section(record: Record) -> Section:
    """Are the top words those that people marked?"""
    share = record.row(CHECK, "rationale share")
    marked = f"People marked {interval(share)} of a text's words ({count_texts(share.n)})." if share else None
    columns = [MethodColumn(name, name) for name in ("auprc", "token f1", "iou", "iou f1")]
    tables = (*methods_table(record, CHECK, f"{CHECK}-methods", "By method", columns), *_right_and_wrong(record))
    return check_section(
        record, CHECK, (*MAIN_MEASURE.findings(record, CHECK), marked), MAIN_MEASURE.figures(record, CHECK), tables
    )


def _right_and_wrong(record: Record) -> tuple[Table, ...]:
    """Mean AUPRC where the model is right, and where it is wrong."""
    tables = record.tables(CHECK, PlausibilityTables) or PlausibilityTables()
    right, wrong = (
        {row.method: row for row in part if row.measure == "auprc"} for part in (tables.right, tables.wrong)
    )
    names = [name for name in record.methods if any(name in part and part[name].n for part in (right, wrong))]
    rows = tuple((name, right[name].mean, right[name].n, wrong[name].mean, wrong[name].n) for name in names)
    columns = (
        Column("method"),
        Column("AUPRC, right", 2, "mean over texts on which the model is right"),
        Column("n, right", 0, "texts"),
        Column("AUPRC, wrong", 2, "mean over texts on which it is wrong"),
        Column("n, wrong", 0, "texts"),
    )
    title = "Where the model is right and where it is wrong"
    return (Table(f"{CHECK}-right", title, columns, rows),) if rows else ()
