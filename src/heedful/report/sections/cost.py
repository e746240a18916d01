"""The section on the cost of explanations."""

from __future__ import annotations

from heedful.audits.record import Record
from heedful.report.document import Column, Section, Table
from heedful.report.phrases import number
from heedful.report.sections.parts import CONTROLS, TEXTS_COLUMN, MethodMeasure, check_section, extremes, own_check

CHECK = own_check(__name__)
MAIN_MEASURE = MethodMeasure("forwards", "forward passes per explanation", "forward passes", "lower")


def section(record: Record) -> Section:
    """What does an explanation cost?"""
    findings = (extremes(MAIN_MEASURE.phrase, MAIN_MEASURE.rows(record, CHECK)), _seconds_sentence(record))
    return check_section(record, CHECK, findings, MAIN_MEASURE.figures(record, CHECK), _table(record))


def _table(record: Record) -> tuple[Table, ...]:
    forwards, backwards = ({row.method: row for row in record.rows(CHECK, m)} for m in ("forwards", "backwards"))
    cells = tuple(
        (
            name,
            forwards[name].n,
            forwards[name].mean,
            backwards[name].mean if name in backwards else None,
            record.spent(name).seconds,
            None if (size := record.spent(name).bytes) is None else size / 2**20,
        )
        for name in record.methods
        if name in forwards and forwards[name].known
    )
    columns = (
        Column("method"),
        TEXTS_COLUMN,
        Column("forwards", 1, "forward passes per explanation, mean"),
        Column("backwards", 1, "backward passes per explanation, mean"),
        Column("CPU seconds", 4, "per explanation, mean, on the machine of this run"),
        Column("MiB", 1, "peak memory beyond that before the method"),
    )
    return (Table(f"{CHECK}-methods", "By method", columns, cells),) if cells else ()


def _seconds_sentence(record: Record) -> str | None:
    """The methods with the fewest and the most CPU seconds."""
    names = [row.method for row in MAIN_MEASURE.rows(record, CHECK) if row.known and row.method not in CONTROLS]
    seconds = {name: spent for name in names if (spent := record.spent(name).seconds) is not None}
    if len(seconds) < 2:
        return None
    low, high = min(seconds, key=seconds.__getitem__), max(seconds, key=seconds.__getitem__)
    return (
        f"One explanation took from {number(seconds[low])} CPU seconds ({low}) to {number(seconds[high])} ({high}) on "
        "the machine of this run."
    )
