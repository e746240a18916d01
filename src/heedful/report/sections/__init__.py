"""Sections: each check of a run as a part of the report, attention first and methods after."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heedful.audits.record import Record, Row
from heedful.report import telling
from heedful.report.charts import Words
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.sections import adversarial as twins
from heedful.report.sections import agreement as agreeing
from heedful.report.sections import attention
from heedful.report.sections import by_method as methodwise
from heedful.report.sections import erasure as erasing
from heedful.report.sections import identifiability as identifying
from heedful.report.sections import input_erasure as removing
from heedful.report.sections import reexplained as anew
from heedful.report.sections.asking import Evidence, made
from heedful.report.telling import exists, interval, known, place_name

SECTIONS: dict[str, Callable[[Record], Section]] = {
    "permutation": attention.permutation,
    "uniform": attention.uniform,
    "adversarial": twins.adversarial,
    "identifiability": identifying.identifiability,
    "erasure": erasing.erasure,
    "agreement": agreeing.agreement,
    "input-erasure": removing.input_erasure,
    "sign": methodwise.sign,
    "infidelity": methodwise.infidelity,
    "completeness": methodwise.completeness,
    "sensitivity": anew.sensitivity,
    "randomisation": anew.randomisation,
    "stability": anew.stability,
    "plausibility": methodwise.plausibility,
    "complexity": methodwise.complexity,
    "cost": methodwise.cost,
}


def sections(record: Record) -> tuple[Section, ...]:
    """The checks that found something; those that are not known here come last, as tables."""
    there = record.checks
    names = [*(name for name in SECTIONS if name in there), *(name for name in there if name not in SECTIONS)]
    return tuple(SECTIONS[name](record) if name in SECTIONS else plain(record, name) for name in names)


def plain(record: Record, check: str) -> Section:
    """A check without words of its own: every measure by method and place, with intervals."""
    rows = record.rows(check)
    measures = list(dict.fromkeys(row["measure"] for row in rows))
    return made(
        record,
        check,
        Evidence(
            tuple(_told(record.rows(check, name), _phrase(record, check, name)) for name in measures),
            _figure(record, check, measures),
            _table(check, rows),
        ),
    )


def _phrase(record: Record, check: str, measure: str) -> str:
    says = telling.about(record, check).get("measures", {}).get(measure, {}).get("says", "")
    return f"{measure} ({says})" if says else measure


def _first_place(rows: Sequence[Row]) -> list[Row]:
    """Rows of methods at one place: the first."""
    return [row for row in rows if row["at"] == rows[0]["at"]]


def _told(rows: Sequence[Row], phrase: str) -> str | None:
    place = place_name(rows[0]["at"])
    here = f"{phrase}, {place}" if place else phrase
    some = _first_place(rows)
    if any(row["method"] for row in some):
        return telling.spread(here, some)
    row = some[0]
    return (
        telling.cautious(f"{telling.capital(here)}: {interval(row)} ({telling.texts(row['n'])}).", row["n"])
        if known(row)
        else None
    )


def _figure(record: Record, check: str, measures: Sequence[str]) -> tuple[Figure, ...]:
    """The first measure, at the first place where it is."""
    rows = _first_place(record.rows(check, measures[0])) if measures else []
    place = place_name(rows[0]["at"]) if rows else ""
    title = ", ".join(filter(None, (measures[0], place))) if measures else ""
    words = Words(f"{telling.slug(check)}-first", telling.capital(title), measures[0] if measures else "")
    return telling.by_method(words, [row for row in rows if row["method"]])


def _table(check: str, rows: Sequence[Row]) -> tuple[Table, ...]:
    columns = (
        Column("measure"),
        Column("method"),
        Column("place"),
        Column("n", 0, "texts"),
        Column("mean", 3),
        Column("low", 3, "of the 95 % interval"),
        Column("high", 3),
        Column("beside random"),
    )
    cells = tuple(
        (
            row["measure"],
            row["method"] or None,
            place_name(row["at"]) or None,
            row["n"],
            *(float(row[name]) if exists(row.get(name)) else None for name in ("mean", "low", "high")),
            (row.get("random") or {}).get("says"),
        )
        for row in rows
    )
    return (Table(f"{telling.slug(check)}-rows", "All numbers", columns, cells),) if cells else ()


__all__ = ["SECTIONS", "plain", "sections"]
