"""Sections: each check of a run as a part of the report; checks of the model first, then checks of methods.

`section(record)` of the module with the check's name makes its section, or of the module that the check itself names;
`general_section` serves a check without either. Such a module may have `side_by_side(runs)`, tables of several runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from heedful.audits.record import Record
from heedful.audits.summary import Row
from heedful.report.charts import Words
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import Cell, capital, cautious, count_texts, interval, place_name, slug, versus_random
from heedful.report.sections.parts import MethodColumn, MethodMeasure, by_method, check_section, extremes, methods_table


def sections(record: Record) -> tuple[Section, ...]:
    """The sections of all checks that have findings."""
    ordered = sorted(record.checks, key=lambda name: any(row.method for row in record.rows(name)))
    return tuple(section(record, name) for name in ordered)


def section(record: Record, check: str) -> Section:
    """The section of a check."""
    make = section_maker(section_module(record, check))
    return general_section(record, check) if make is None else make(record)


def section_module(record: Record, check: str) -> str:
    """The module that makes a check's section."""
    return record.about(check).section or f"{__name__}.{check.replace('-', '_')}"


def section_maker(module: str, function: str = "section") -> Callable[[Any], Any] | None:
    """This function of a module, or None where the module is not installed or has no such function."""
    if not all(part.isidentifier() for part in module.split(".")):  # the name of a check in a Python session
        return None
    try:
        exists = find_spec(module) is not None
    except ModuleNotFoundError:  # of a package above it
        return None
    make: Callable[[Any], Any] | None = getattr(import_module(module), function, None) if exists else None
    return make


def general_section(record: Record, check: str) -> Section:
    """The first measure of a check with a chart, then all measures in a table."""
    rows = record.rows(check)
    measures = list(dict.fromkeys(row.measure for row in rows))
    main = measures[0] if measures else ""
    placed = any(row.at or not row.method for row in rows)
    if placed or not measures:
        findings = [_sentence(record.rows(check, name), _phrase(record, check, name)) for name in measures]
        return check_section(record, check, findings, _figure(record, check, main), _table(check, rows))
    better = record.about(check).measures[main].better if main in record.about(check).measures else None
    first = MethodMeasure(main, _phrase(record, check, main), main, better)
    columns = [MethodColumn(name, name) for name in measures]
    table = methods_table(record, check, f"{slug(check)}-methods", "By method", columns)
    return check_section(record, check, first.findings(record, check), first.figures(record, check), table)


def _phrase(record: Record, check: str, measure: str) -> str:
    about = record.about(check).measures.get(measure)
    return f"{measure} ({about.says})" if about else measure


def _first_place(rows: Sequence[Row]) -> list[Row]:
    """The rows at the first place."""
    return [row for row in rows if row.at == rows[0].at]


def _sentence(rows: Sequence[Row], phrase: str) -> str | None:
    place = place_name(rows[0].at)
    here = f"{phrase}, {place}" if place else phrase
    first = _first_place(rows)
    if any(row.method for row in first):
        return extremes(here, first)
    row = first[0]
    return cautious(f"{capital(here)}: {interval(row)} ({count_texts(row.n)}).", row.n) if row.known else None


def _figure(record: Record, check: str, measure: str) -> tuple[Figure, ...]:
    """A measure at its first place."""
    rows = _first_place(record.rows(check, measure)) if measure else []
    title = ", ".join(filter(None, (measure, place_name(rows[0].at) if rows else "")))
    words = Words(f"{slug(check)}-first", capital(title), measure)
    return by_method(words, [row for row in rows if row.method])


def _table(check: str, rows: Sequence[Row]) -> tuple[Table, ...]:
    columns = (
        Column("measure"),
        Column("method"),
        Column("place"),
        Column("n", 0, "texts"),
        Column("mean", 3),
        Column("low", 3, "of the 95 % interval"),
        Column("high", 3),
        Column("compared with random"),
    )

    def cells_of(row: Row) -> tuple[Cell, ...]:
        names = (row.measure, row.method or None, place_name(row.at) or None)
        return (*names, row.n, row.mean, row.low, row.high, versus_random(row.versus_random))

    cells = tuple(map(cells_of, rows))
    return (Table(f"{slug(check)}-rows", "All numbers", columns, cells),) if cells else ()
