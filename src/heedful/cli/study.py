"""heedful study and heedful studies: the experiments of the literature on a model, or on the network of a recipe."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from heedful.cli import options as opt
from heedful.cli.methods import list_catalogue, measures_text
from heedful.core.errors import BadInput
from heedful.studies.folder import MODELS, PRUNED

if TYPE_CHECKING:
    from heedful.report.progress import Show
    from heedful.studies.base import StudyProgress, WatchStudy
    from heedful.studies.outcome import Outcome
    from heedful.studies.study import StudyForecast


@click.command()
@click.argument("name")
@click.argument("data", nargs=-1, required=True)
@click.option("--model", "-m", "models", multiple=True, help="A model folder or a hub name; some studies take several.")
@click.option("--recipe", help="Train the network of this recipe first. [default: --model]")
@click.option("--out", help="Output folder. An interrupted study in it is resumed.")
@opt.settings_option("A setting of the study or of the recipe: draws=10, bilstm.epochs=3; may be repeated.")
@click.option("--profile", default="full", show_default=True, help="full, or quick (fewer texts and trainings).")
@click.option("--seed", type=int, default=0, show_default=True, help="For the choice of texts and all random numbers.")
@opt.workers_options
@click.option("--keep", type=float, help="For pruning: also write a model with this share of its heads.")
@click.option("--save", metavar="DIR", help="For pruning: where to write that model. [default: in the study's folder]")
@click.option("--dev", help="A file or folder of texts for choices. [default: found in DATA, or split off]")
@click.option("--test", help="A file or folder of texts to score. [default: found in DATA, or split off]")
@opt.data_options
@opt.how_models_load
@click.option("--restart", is_flag=True, help="Delete the study in the folder and start again.")
@click.option("--dry-run", is_flag=True, help="Print what would be run and what it would cost.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def study(
    name: str, data: tuple[str, ...], models: tuple[str, ...], recipe: str | None, out: str | None,
    assignments: tuple[str, ...], profile: str, seed: int, jobs: int, on: str | None, gpus: float, keep: float | None,
    save: str | None,
    dev: str | None, test: str | None, reading: dict[str, Any], model_options: dict[str, Any],
    restart: bool, dry_run: bool, as_json: bool,
) -> None:  # fmt: skip
    """Do the study NAME on DATA: a folder with train, dev and test, or one file, which is divided.

    `heedful studies` lists them. The study trains, prunes or attacks a model, and writes its numbers, its models and a
    report into a folder. What is chosen, trained and scored are different texts. The same command resumes an
    interrupted study.
    """
    from heedful.studies import STUDIES

    name = STUDIES.full_name(name)
    STUDIES[name]  # refuses an unknown name before anything is read
    assignments = (*assignments, *_pruned(name, keep, save, out))
    if out is None and not dry_run:
        raise BadInput("no folder was given for the study; add --out DIR.")
    workers = opt.cluster(on, gpus, jobs)
    import heedful
    from heedful.report.progress import progress

    arguments: dict[str, Any] = {
        "model": list(models) if len(models) > 1 else next(iter(models), None), "recipe": recipe,
        "settings": assignments, "profile": profile, "seed": seed, "dev": dev, "test": test,
        "model_options": model_options, **reading,
    }  # fmt: skip
    source: Any = list(data) if len(data) > 1 else data[0]
    device = None if on else model_options["device"]  # each machine of a cluster chooses its own
    opt.announce_device(device)
    if dry_run:
        from heedful.studies.study import StudyRequest, forecast, prepare

        plan = forecast(prepare(StudyRequest(name, source, **arguments)))
        opt.announce_device(device, works=True)
        click.echo(_cost_json(plan) if as_json else _cost_table(plan))
        return
    with progress() as show:
        show("loading the model and the data")
        outcome = heedful.study(
            name, source, **arguments, out=out, jobs=jobs, workers=workers, restart=restart,
            watch=watch_study(show, device),
        )  # fmt: skip
    if save is not None:
        _copy_model(outcome, save)
    print_outcome(outcome, Path(out or ""), as_json)


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def studies(name: str | None, as_json: bool) -> None:
    """List the studies, or describe the study NAME: what it does, which texts it uses, and its settings."""
    from heedful.core.table import align_columns
    from heedful.studies import STUDIES

    list_catalogue(STUDIES, name, as_json)
    if name is not None and not as_json:
        uses = [(f"  {split}", use) for split, use in STUDIES[name].uses.items()]
        click.echo(f"{measures_text(STUDIES[name])}\n\nparts of the data:\n{align_columns(uses)}")


def _pruned(name: str, keep: float | None, save: str | None, out: str | None) -> list[str]:
    """--keep and --save as settings of the study pruning."""
    if keep is None and save is None:
        return []
    if name != "pruning":
        raise BadInput(f"--keep and --save write a pruned model, and {name} prunes nothing; leave them out.")
    if keep is None:
        raise BadInput("--save needs the share of heads to keep; add --keep 0.6.")
    if save is not None and Path(save).exists() and not _same_files(Path(save), Path(out or "", MODELS, PRUNED)):
        raise BadInput(f"'{save}' exists; give a new folder for the pruned model (--save).")
    return [f"keep={keep}"]


def _same_files(folder: Path, other: Path) -> bool:
    """Whether two folders have the same files with the same bytes."""
    a, b = ({file.relative_to(place): file for file in place.rglob("*") if file.is_file()} for place in (folder, other))
    return folder.is_dir() and a.keys() == b.keys() and all(a[name].read_bytes() == b[name].read_bytes() for name in a)


def _copy_model(outcome: Outcome, folder: str) -> None:
    """Copy the pruned model, as a whole: a command that is killed leaves no half of it under this name."""
    import shutil

    from heedful.core.files import sweep, temporary_folder, write_errors

    if PRUNED not in outcome.models:
        raise BadInput(" ".join(outcome.result.notes))
    target = Path(folder)
    with write_errors(target):
        if not target.exists():  # the same command was run before
            target.parent.mkdir(parents=True, exist_ok=True)
            sweep(target.parent)
            with temporary_folder(target.parent) as place:
                shutil.copytree(outcome.models[PRUNED], place).replace(target)
    opt.announce(folder)


def watch_study(show: Show, device: str | None = None) -> WatchStudy:
    """A bar on a terminal; elsewhere a line for each new step. Before them, where --device auto runs."""
    printed: set[tuple[str, int]] = set()
    begun = False

    def watch(now: StudyProgress) -> None:
        nonlocal begun
        if not begun:
            opt.announce_device(device, works=True)
        begun = True
        key = (now.doing, int(now.done))
        if not sys.stderr.isatty() and key not in printed:
            printed.add(key)
            click.echo(f"{now.doing}: {int(now.done):,} of {now.total:,}" if now.total else now.doing, err=True)
        show(now.doing, now.done, now.total, "steps")

    return watch


def print_outcome(outcome: Outcome, folder: Path, as_json: bool) -> None:
    """The outcome on the terminal or as JSON, and where its files are."""
    if as_json:
        click.echo(json.dumps(outcome.to_dict(), ensure_ascii=False, allow_nan=False).encode("utf-8"))
    else:
        from rich.console import Console

        from heedful.report.document_terminal import show_study
        from heedful.report.study import report

        show_study(report(outcome), Console(highlight=False))
    opt.announce(str(folder / "outcome.json"), str(folder / "report.html"))


def _cost_table(plan: StudyForecast) -> str:
    from heedful.cli.audit import duration
    from heedful.core.table import align_columns

    heads = ("", "forward", "backward", "trained texts")
    rows = [(cost.what, f"{cost.forwards:,}", f"{cost.backwards:,}", f"{cost.trained:,}") for cost in plan.costs]
    cost = f"about {duration(plan.seconds)} of CPU time on one core, roughly"
    return f"{align_columns([heads, *rows], right=(1, 2, 3))}\n\n{cost}"


def _cost_json(plan: StudyForecast) -> str:
    from dataclasses import asdict

    return json.dumps({"seconds": plan.seconds, "plan": [asdict(cost) for cost in plan.costs]})
