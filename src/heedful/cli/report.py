"""heedful report and heedful compare: a run, or two, as a page or as tables. Needs no torch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from heedful.cli import options as opt
from heedful.core.errors import BadInput

if TYPE_CHECKING:
    from heedful.audits.record import Record
    from heedful.audits.verdict import Rule
    from heedful.report.document import Report

ENDINGS = {"html": "html", "md": "md", "csv": "csv", "latex": "tex"}
_format = click.option(
    "--format", "kind", type=click.Choice(list(ENDINGS)), default="html", show_default=True, help="What to write."
)
_figures = click.option("--figures", metavar="DIR", help="Write every figure to this folder, too, as SVG.")


@click.command()
@click.argument("run")
@_format
@click.option("--out", help="The file to write. [default: report.html, .md, .csv or .tex in the run's folder]")
@_figures
@click.option(
    "--set", "given", multiple=True, metavar="NAME=VALUE", help="A constant of the verdict: most=0.6, least=0.1, …"
)
def report(run: str, kind: str, out: str | None, figures: str | None, given: tuple[str, ...]) -> None:
    """Write the report of the RUN folder of an audit: the verdict, which explanation to use, and the evidence.

    No model is needed, and nothing is computed again but the verdict.
    """
    from heedful.audits.record import recorded
    from heedful.report.audit import report as made

    record = recorded(run)
    told = made(record, _rule(given))
    path = out or str(record.run.folder / f"report.{ENDINGS[kind]}")
    _write(told, kind, path, figures, record)


@click.command()
@click.argument("run_a")
@click.argument("run_b")
@_format
@click.option("--out", help="The file to write. [default: compare.html, .md, .csv or .tex]")
@_figures
def compare(run_a: str, run_b: str, kind: str, out: str | None, figures: str | None) -> None:
    """Put two runs side by side: two models, two trainings, or two data sets.

    Where both have the same texts, differences are paired over them.
    """
    from heedful.audits.record import recorded
    from heedful.report.compare import versus

    told = versus(recorded(run_a), recorded(run_b))
    for sentence in told.sentences:
        click.echo(sentence)
    _write(told, kind, out or f"compare.{ENDINGS[kind]}", figures)


def _write(told: Report, kind: str, path: str, figures: str | None, record: Record | None = None) -> None:
    from heedful.core.files import output

    with output(path, "report") as write:
        assert write is not None
        drawn = _draw(told, figures)
        write(_rendered(told, kind, figures, record).encode("utf-8"))
    opt.announce(path, *drawn)


def _rendered(told: Report, kind: str, figures: str | None, record: Record | None) -> str:
    from heedful.report.markdown import csv, latex, markdown, rows_csv
    from heedful.report.page import page

    if kind == "html":
        return page(told)
    if kind == "md":
        return markdown(told, figures)
    if kind == "latex":
        return latex(told)
    return csv(told) if record is None else rows_csv(record)


def _draw(told: Report, folder: str | None) -> list[str]:
    from heedful.core.files import write_files
    from heedful.report.charts import standalone

    if folder is None:
        return []
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise BadInput(f"'{folder}' cannot be made ({e.strerror}); give another folder for the figures.") from e
    drawn = [figure for section in (*told.answers, *told.sections) for figure in section.figures]
    write_files({place / f"{figure.name}.svg": standalone(figure).encode("utf-8") for figure in drawn})
    return [f"{len(drawn)} figures to {folder}"]


def _rule(given: tuple[str, ...]) -> Rule | None:
    """The verdict's constants with these in place of its own; None where none is given."""
    from heedful.audits.verdict import Rule
    from heedful.core.settings import read_assignments

    if not given:
        return None
    return replace(Rule(), **read_assignments(given, [("the verdict", Rule)])[0])
