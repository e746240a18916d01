"""heedful reproduce: a paper by one command, its published numbers beside ours."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from heedful.cli import options as opt
from heedful.cli.study import print_outcome, watch_study
from heedful.core.errors import BadInput

if TYPE_CHECKING:
    from heedful.studies.reproduction.base import Paper
    from heedful.studies.reproduction.reproduce import PaperJob

ALL = "all"


@click.command()
@click.argument("paper", required=False)
@click.option("--data", metavar="DIR", help="A folder with a folder for each data set. [default: the embedded corpus]")
@click.option("--profile", default="quick", show_default=True, help="smoke (seconds), quick, or full (as published).")
@click.option("--seeds", type=click.IntRange(min=1), help="Trainings of each network. [default: the profile's]")
@click.option("--out", help="Output folder. An interrupted reproduction in it is resumed.")
@opt.settings_option("A setting of the paper: scored=100, or hao2021.encoder=DIR; may be repeated.")
@click.option("--seed", type=int, default=0, show_default=True, help="For the choice of texts and all random numbers.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes that share the work.")
@click.option("--restart", is_flag=True, help="Delete the reproduction in the folder and start again.")
@click.option("--dry-run", is_flag=True, help="Print what would be run, on which data, and what it costs.")
@click.option("--list", "as_list", is_flag=True, help="List the papers: what each needs, costs and yields.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def reproduce(
    paper: str | None, data: str | None, profile: str, seeds: int | None, out: str | None,
    assignments: tuple[str, ...], seed: int, jobs: int, restart: bool, dry_run: bool, as_list: bool, as_json: bool,
) -> None:  # fmt: skip
    """Reproduce PAPER (or all): train what it trains, run its audits and studies, and compare each published number.

    `--list` has the papers. A data set that is missing is named, with the form that it must have, and the rest is run.
    The same command resumes an interrupted reproduction. `all` puts each paper into a folder of its own, and writes
    reproduction.md with all of them.
    """
    from heedful.studies.reproduction import PAPERS

    if as_list:
        click.echo(_list_json() if as_json else _list())
        return
    if paper is None:
        raise BadInput("no paper was given; `heedful reproduce --list` lists them all.")
    names = list(PAPERS) if paper == ALL else [PAPERS.full_name(paper)]
    PAPERS[names[0]]  # refuses an unknown name before anything is read
    if out is None and not dry_run:
        raise BadInput("no folder was given for the reproduction; add --out DIR.")
    from heedful.report.progress import progress
    from heedful.studies.reproduction.reproduce import prepare
    from heedful.studies.reproduction.reproduce import reproduce as run

    def arguments(name: str) -> dict[str, Any]:
        return {"profile": profile, "seeds": seeds, "settings": _settings_for(name, assignments), "seed": seed}

    if dry_run:
        click.echo("\n\n".join(_plan(prepare(name, data, **arguments(name)), profile) for name in names))
        return
    outcomes = []
    for name in names:
        folder = Path(out or "") / (name if paper == ALL else "")
        with progress() as show:
            show("reading the data")
            watch = watch_study(show)
            outcomes.append(run(name, data, folder, **arguments(name), jobs=jobs, restart=restart, watch=watch))
        print_outcome(outcomes[-1], folder, as_json)
    if paper == ALL:
        from heedful.core.files import write_files
        from heedful.report.reproductions.overview import overview

        file = Path(out or "") / "reproduction.md"
        write_files({file: overview(outcomes).encode("utf-8")})
        opt.announce(str(file))


def _settings_for(name: str, assignments: Sequence[str]) -> list[str]:
    """The settings without those of other papers, such as hao2021.encoder=FOLDER."""
    from heedful.studies.reproduction import PAPERS

    owners = [assignment.partition("=")[0].partition(".")[0] for assignment in assignments]
    others = [other for other in PAPERS if other != name]
    return [a for a, owner in zip(assignments, owners, strict=True) if PAPERS.full_name(owner) not in others]


def _needs(paper: type[Paper]) -> str:
    return ", ".join(known.name for known in paper.data) or "nothing"


def _costs(paper: type[Paper]) -> str:
    return ", ".join(f"{profile} {minutes:g}" for profile, minutes in paper.minutes.items()) or "not measured"


def _list() -> str:
    from heedful.core.table import align_columns
    from heedful.studies.reproduction import PAPERS

    parts = []
    for name, paper in PAPERS.items():
        rows = [
            ("trains", paper.networks),
            ("needs", _needs(paper)),
            ("CPU minutes", _costs(paper)),
            ("yields", paper.yields),
        ]
        parts.append(f"{name}: {paper.title} ({paper.paper})\n{align_columns(rows, indent='  ')}")
    sets = {known.name: f"{known.title}; {known.form}" for paper in PAPERS.values() for known in paper.data}
    return "\n\n".join(
        [*parts, f"data sets, each a folder in --data:\n{align_columns(list(sets.items()), indent='  ')}"]
    )


def _list_json() -> str:
    from dataclasses import asdict

    from heedful.studies.reproduction import PAPERS

    rows = [
        {
            "name": name,
            "title": paper.title,
            "paper": paper.paper,
            "networks": paper.networks,
            "data": [asdict(known) for known in paper.data],
            "minutes": dict(paper.minutes),
            "yields": paper.yields,
        }
        for name, paper in PAPERS.items()
    ]
    return json.dumps(rows, ensure_ascii=False, indent=2)


def _plan(job: PaperJob, profile: str) -> str:
    """What would be run, on which data, what is missing, and what it cost elsewhere."""
    from heedful.core.settings import text_of
    from heedful.core.settings import values as settings_of
    from heedful.core.table import align_columns
    from heedful.studies.study import part_sizes

    paper = type(job.study)
    found = {s.name: s for s in job.subjects}
    rows = [("networks", paper.networks), *((name, text_of(value)) for name, value in settings_of(job.study).items())]
    for known in paper.data:
        if (subject := found.get(known.name)) is None:
            rows.append((known.name, known.absence))
            continue
        sizes = " / ".join(f"{n:,}" for n in part_sizes(subject.splits).values())
        rows.append((known.name, f"{subject.data}: {sizes} texts (train / dev / test)"))
    minutes = paper.minutes.get(profile)
    cost = f"about {minutes:g} CPU minutes" if minutes is not None else "its cost was not measured"
    return f"{job.name}, {profile}: {cost}\n{align_columns(rows, indent='  ')}"
