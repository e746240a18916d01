"""The sections of Jain & Wallace 2019: our Table 2, and their figures for the first training of each network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from heedful.audits.record import Record, load_record
from heedful.checks.tables import AgreementTables
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import Cell, fixed, slug
from heedful.report.sections import adversarial, agreement, permutation
from heedful.studies.outcome import Outcome

HISTOGRAMS = 2  # of the published pairs: τ of attention with gradients and with leave-one-out


def sections(outcome: Outcome) -> list[Section]:
    """Table 2 with our numbers; then for each data set the networks side by side, and the figures."""
    cells = outcome.result.details["cells"]
    ours = Section(
        "our-table-2",
        "Our Table 2",
        "What are our numbers, in the layout of the paper?",
        ("Each number is the mean over trainings.",),
        tables=_tables(cells),
    )
    networks = outcome.result.details["networks"]
    return [ours, *(_figures(outcome, data) for data in dict.fromkeys(n["data"] for n in networks))]


def _tables(cells: list[Mapping[str, Any]]) -> tuple[Table, ...]:
    """τ: a row for each data set and class, three columns for each network; and the scores."""
    taus: dict[tuple[str, str, str], dict[tuple[str, str], float]] = {}
    scores: dict[tuple[str, str], dict[str, float]] = {}
    for cell in cells:
        if "τ" not in cell["column"]:
            scores.setdefault((cell["data"], cell["row"]), {})[cell["column"]] = cell["mean"]
            continue
        pair, where, number = cell["column"].split(" ", 2)
        taus.setdefault((cell["data"], pair, where), {})[cell["row"], number] = cell["mean"]
    rows = list(dict.fromkeys(row for own in taus.values() for row, _ in own))
    names = [list(dict.fromkeys(place[i] for place in taus)) for i in (0, 1)]
    places = sorted(taus, key=lambda p: (names[0].index(p[0]), names[1].index(p[1]), p[2] != "all", p[2]))
    columns = (
        Column("data"),
        Column("methods"),
        Column("predicted"),
        *(c for row in rows for c in (Column(f"{row}: τ", says="mean ± std over texts"), Column(f"{row}: Sig. Frac."))),
    )
    lines = tuple((*place, *(x for row in rows for x in _tau(taus[place], row))) for place in places)
    measures = list(dict.fromkeys(name for own in scores.values() for name in own))
    heads = (Column("data"), Column("network"), *(Column(name, 3) for name in measures))
    table = tuple((*place, *(own.get(name) for name in measures)) for place, own in scores.items())
    return (
        Table("our-table-2", "τ of our networks, side by side", columns, lines, "Means over trainings."),
        Table("our-scores", "Scores on the test texts", heads, table, "Means over trainings."),
    )


def _tau(own: Mapping[tuple[str, str], float], row: str) -> tuple[Cell, Cell]:
    if (row, "mean") not in own:
        return None, None
    return f"{fixed(own[row, 'mean'])} ± {fixed(own[row, 'std'])}", own[row, "sig."]


def _figures(outcome: Outcome, data: str) -> Section:
    """The first training of each network: as Table 2 with n, and the paper's figures."""
    networks = [n for n in outcome.result.details["networks"] if n["data"] == data]
    audits = {n["row"]: _record(outcome, n["audit"]) for n in networks}
    searches = {n["row"]: _record(outcome, n["search"]) for n in networks}
    known = {row: record for row, record in audits.items() if record is not None}
    figures = tuple(
        replace(figure, name=slug(f"{data} {row} {figure.name}"), title=f"{row}: {figure.title}")
        for row in audits
        for figure in _network_figures(audits[row], searches[row])
    )
    return Section(
        f"figures-{slug(data)}",
        f"Figures: {data}",
        "What do the paper's figures look like here?",
        ("The first training of each network, on the audited texts.",),
        figures=figures,
        tables=agreement.side_by_side(known),
    )


def _network_figures(audit: Record | None, search: Record | None) -> Iterator[Figure]:
    if audit is not None:
        tables = audit.tables(agreement.CHECK, AgreementTables)
        for row in tables.published[:HISTOGRAMS] if tables else ():
            yield agreement.tau_histogram(audit, row)
        yield from permutation.change_violins(audit)
    if search is not None:
        yield from adversarial.jsd_histogram(search)
        yield from adversarial.jsd_violins(search)


def _record(outcome: Outcome, part: str) -> Record | None:
    """The audit inside the reproduction's folder, if it has one."""
    return None if outcome.folder is None else load_record(outcome.folder / outcome.result.parts[part])
