"""Sections of studies: `sections(outcome)` of the module with the study's name makes them."""

from __future__ import annotations

from collections.abc import Iterable

from heedful.report.charts import PlottedCurve
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import capital, place_name, slug, versus_random
from heedful.report.sections import section_maker
from heedful.studies.outcome import Curve, Outcome


def sections(outcome: Outcome) -> tuple[Section, ...]:
    """The sections of a study; a table of all rows where it has none of its own."""
    make = section_maker(outcome.about.section or f"{__name__}.{outcome.study.replace('-', '_')}", "sections")
    if make is not None:
        return tuple(make(outcome))
    return (study_section(outcome, (), tables=(rows_table(outcome),)),)


def study_section(
    outcome: Outcome, findings: Iterable[str], figures: Iterable[Figure] = (), tables: Iterable[Table] = ()
) -> Section:
    """The first section of a study, with the study's own title and question."""
    about = outcome.about
    return Section(
        name=outcome.study,
        title=about.title or outcome.study,
        question=about.question or capital(about.summary),
        findings=tuple(findings),
        figures=tuple(figures),
        tables=tuple(tables),
        reading=about.reading or about.changes,
        source=about.paper,
    )


def rows_table(outcome: Outcome) -> Table:
    """All estimates of a study."""
    columns = (
        Column("measure"),
        Column("of"),
        Column("place"),
        Column("n", 0),
        Column("mean", 3),
        Column("low", 3, "of the 95 % interval"),
        Column("high", 3),
        Column("compared with the control"),
    )
    rows = tuple(
        (
            row.measure,
            row.method or None,
            place_name(row.at) or None,
            row.n,
            row.mean,
            row.low,
            row.high,
            versus_random(row.versus_random),
        )
        for row in outcome.result.rows
    )
    return Table(f"{slug(outcome.study)}-rows", "All numbers", columns, rows)


def plotted(curve: Curve, faint: bool = False) -> PlottedCurve:
    """A curve of a study for a chart, with the band of its intervals."""
    mean, low, high = ([getattr(point, name) for point in curve.points] for name in ("mean", "low", "high"))
    return PlottedCurve(curve.method, curve.x, mean, low, high, faint=faint)
