"""heedful report and heedful compare: one or two runs as a page or as tables. Needs no torch."""

from __future__ import annotations

from dataclasses import replace
from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING

import click

from heedful.cli import options as opt
from heedful.core.errors import BadInput
from heedful.core.objects import in_store
from heedful.report.writers import WRITERS

if TYPE_CHECKING:
    from heedful.report.document import Document

_format = click.option(
    "--format", "kind", type=click.Choice(list(WRITERS)), default="html", show_default=True, help="Output format."
)
_figures = click.option("--figures", metavar="DIR", help="Also write every figure to this folder, as SVG.")


@click.command()
@click.argument("run")
@_format
@click.option("--out", help="The file to write. [default: report.html, .md, .csv or .tex in the run's folder]")
@_figures
@opt.settings_option("A constant of the verdict's rule: most=0.6, least=0.1, …; may be repeated.")
def report(run: str, kind: str, out: str | None, figures: str | None, assignments: tuple[str, ...]) -> None:
    """Write the report of the RUN folder of an audit or a study.

    It needs no model, and recomputes nothing but the verdict of an audit.
    """
    from heedful.studies.folder import is_study

    if is_study(run):
        _write_study(run, kind, out, figures, assignments)
        return
    from heedful.audits.record import load_record
    from heedful.audits.verdict import Rule
    from heedful.core.settings import read_assignments
    from heedful.report import audit

    record = load_record(run)
    constants = read_assignments(assignments, [("the verdict", Rule)])[0] if assignments else {}
    rule = replace(record.summary.looks.rule, **constants) if assignments else None
    folder = Path() if in_store(record.run.folder) else record.run.folder
    _write(audit.report(record, rule), kind, out, folder / "report", figures)


def _write_study(run: str, kind: str, out: str | None, figures: str | None, assignments: tuple[str, ...]) -> None:
    from heedful.report.study import report
    from heedful.studies.outcome import load_outcome

    if assignments:
        raise BadInput(f"'{run}' holds a study, which has no verdict and no constants to set; leave out --set.")
    _write(report(load_outcome(run)), kind, out, Path(run) / "report", figures)


@click.command()
@click.argument("run_a")
@click.argument("run_b")
@_format
@click.option("--out", help="The file to write. [default: compare.html, .md, .csv or .tex]")
@_figures
def compare(run_a: str, run_b: str, kind: str, out: str | None, figures: str | None) -> None:
    """Compare the run folders RUN_A and RUN_B: two models, two trainings, or two data sets.

    Differences are paired over texts where both runs have the same texts.
    """
    from heedful.audits.record import load_record
    from heedful.report import compare

    document = compare.compare(load_record(run_a), load_record(run_b))
    for sentence in document.sentences:
        click.echo(sentence)
    _write(document, kind, out, Path("compare"), figures)


def _write(document: Document, kind: str, out: str | None, default: Path, figures: str | None) -> None:
    from heedful.core.files import output

    writer = WRITERS[kind]
    path = out or f"{default}.{writer.ending}"
    with output(path, "report", follow=out is not None) as write:
        assert write is not None
        written = _write_figures(document, figures)
        # links of a Markdown file are relative to it
        write(writer(document, None if figures is None else Path(relpath(figures, Path(path).parent)).as_posix()))
    opt.announce(path, *written)


def _write_figures(document: Document, folder: str | None) -> list[str]:
    from heedful.core.files import output_folder, write_files
    from heedful.report.charts import standalone

    with output_folder(folder) as place:
        if place is None:
            return []
        charts = [figure for section in (*document.answers, *document.sections) for figure in section.figures]
        write_files({place / f"{figure.name}.svg": standalone(figure).encode("utf-8") for figure in charts})
        return [f"{len(charts)} figures to {folder}"]
