"""heedful audit and heedful checks: what the explanations of a model are worth, measured on a data set."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from heedful.cli import options as opt
from heedful.core.errors import BadInput

if TYPE_CHECKING:
    from heedful.audits.auditing import Audit, Moment, Watch
    from heedful.audits.chunk import Job
    from heedful.audits.profiles import Battery
    from heedful.audits.run import Run
    from heedful.model.classifier import Classifier

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


class _Several(click.Command):
    """`--checkpoints A B C` as `--checkpoints A --checkpoints B --checkpoints C`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        spread: list[str] = []
        inside = False
        for arg in args:
            inside = arg == "--checkpoints" or (inside and not arg.startswith("-"))
            after = inside and spread and spread[-2:-1] == ["--checkpoints"] and arg != "--checkpoints"
            spread += ["--checkpoints", arg] if after else [arg]
        ctx.meta["heedful.args"] = list(spread)
        return super().parse_args(ctx, spread)


@dataclass(frozen=True)
class _Ask:
    """What `heedful audit` was asked, the model and the data aside."""

    out: str | None
    methods: str | None
    explanations: tuple[str, ...]
    checks: str | None
    given: tuple[str, ...]
    profile: str
    limit: int | None
    seed: int
    jobs: int
    time_budget: str | None
    checkpoints: tuple[str, ...]
    restart: bool
    dry_run: bool
    as_json: bool
    target: str | None
    against: str | None
    scale: str
    text_column: str | None
    pair_column: str | None
    label_column: str | None
    kind: str | None
    worker: str | None

    def battery(self) -> Battery:
        """The methods and checks, with their settings."""
        from heedful.audits.profiles import battery
        from heedful.core.target import Target
        from heedful.methods.imported.reading import read_all

        target = Target(self.target, self.scale, self.against)  # type: ignore[arg-type]
        brought = read_all(self.explanations).values()
        return battery(self.profile, _names(self.methods), _names(self.checks), target, self.given, brought)


@click.command(cls=_Several)
@click.argument("data")
@opt.model_options
@click.option("--out", help="The folder for the run; one that was stopped goes on in it.")
@click.option("--methods", help="Names with commas between. [default: the profile's]")
@click.option("--explanations", multiple=True, help="A file of scores made elsewhere, audited beside the methods.")
@click.option("--checks", help="Names with commas between. [default: all]")
@opt.set_option
@click.option("--profile", default="quick", show_default=True, help="quick (60 texts) or full (all texts and methods).")
@click.option("--limit", type=click.IntRange(min=1), help="How many texts; a larger number extends a run.")
@click.option("--seed", type=int, default=0, show_default=True, help="For the order of texts and all that is drawn.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes that share the work.")
@click.option("--time-budget", help="Stop after this time, such as 10m or 2h; the same command goes on.")
@click.option("--checkpoints", multiple=True, help="Other checkpoints of the same training, for the check stability.")
@opt.target_options
@click.option("--text-column", help="Which column holds the text. [default: guessed]")
@click.option("--pair-column", help="Which column holds the second text of a pair.")
@click.option("--label-column", help="Which column holds the label.")
@click.option("--kind", help="The format of the data. [default: guessed]")
@click.option("--restart", is_flag=True, help="Forget the run in the folder, and begin anew.")
@click.option("--dry-run", is_flag=True, help="Say what would be run, and what it would cost.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option("--worker", hidden=True)
def audit(
    data: str, model: str | None, revision: str | None, device: str | None, dtype: str | None, **asked: Any
) -> None:
    """Audit the explanations of a model on DATA: a file or folder of texts, or "corpus" for the package's own.

    Every method explains every text, and every check measures what the explanations are worth, beside controls that
    know nothing of the model. The run folder keeps all findings; kill it at any time, and the same command goes on.
    """
    ask = _Ask(**asked)
    budget = _seconds(ask.time_budget)
    if ask.out is None and not ask.dry_run:
        raise BadInput("no folder was given for the run; add --out DIR.")
    chosen = ask.battery()
    job = _job(opt.load(model, revision, device, dtype), data, ask, chosen)
    if ask.dry_run:
        _print_plan(job, ask)
        return
    run, total = _opened(job, ask)
    until = None if budget is None else time.monotonic() + budget
    if ask.worker is not None:
        i, n = map(int, ask.worker.split("/"))
        _work(job, run, total, (i, n), until, _while_wanted())
        return
    found = _audited(job, run, total, ask, until)
    _print(found, ask)


def _job(classifier: Classifier, data: str, ask: _Ask, chosen: Battery) -> Job:
    from heedful.audits.chunk import Job
    from heedful.data import Columns, load
    from heedful.methods.imported.reading import explained_in

    columns = Columns(ask.text_column, ask.pair_column, ask.label_column)
    others = {Path(folder).name: opt.load(folder, None, None, None) for folder in ask.checkpoints}
    if len(others) < len(ask.checkpoints):
        raise BadInput("two checkpoints have the same folder name; rename one of them.")
    every = load(data, columns, kind=ask.kind)
    examples = explained_in(chosen.methods, every)
    if len(examples) < len(every) and ask.worker is None:
        click.echo(
            f"{len(examples):,} of the {len(every):,} texts are explained in the file; they are audited", err=True
        )
    return Job(classifier, examples, chosen, ask.seed, others, Path(data).name)


def _opened(job: Job, ask: _Ask) -> tuple[Run, int]:
    from heedful.audits.auditing import texts_of
    from heedful.audits.run import opened

    assert ask.out is not None
    total = texts_of(job, ask.profile, ask.limit)
    return opened(Path(ask.out), job.manifest(), ask.restart and ask.worker is None), total


def _audited(job: Job, run: Run, total: int, ask: _Ask, until: float | None) -> Audit:
    """As the first of the workers; what another leaves undone, this one does."""
    from heedful.audits.auditing import finished

    jobs = min(ask.jobs, max(1, len(run.missing(total))))
    others = [_worker(i, jobs) for i in range(1, jobs)]
    try:
        with _shown(total) as watch:
            _work(job, run, total, (0, jobs), until, watch)
            while any(other.poll() is None for other in others):
                watch(_moment(run, total))
                time.sleep(0.2)
            if until is None or time.monotonic() < until:
                _work(job, run, total, (0, 1), until, watch)
    finally:
        for other in others:
            other.terminate()
            other.wait()
    return finished(job, run, total)


def _work(
    job: Job, run: Run, total: int, share: tuple[int, int], until: float | None, watch: Watch | None = None
) -> None:
    from heedful.audits.auditing import work

    work(job, run, total, share, until, watch)


def _worker(i: int, jobs: int) -> subprocess.Popen[bytes]:
    """The same command as worker i of so many."""
    args = click.get_current_context().meta["heedful.args"]
    return subprocess.Popen(
        [sys.executable, "-m", "heedful", "audit", *args, "--worker", f"{i}/{jobs}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _while_wanted() -> Watch:
    """A worker ends when the command that started it is gone."""
    parent = os.getppid()

    def watch(now: Moment) -> None:
        if os.getppid() != parent:
            sys.exit(1)

    return watch


def _moment(run: Run, total: int) -> Moment:
    from heedful.audits.auditing import Moment

    return Moment(total - sum(s.stop - s.start for _, s in run.missing(total)), total, "waiting for other workers")


@contextmanager
def _shown(total: int) -> Iterator[Watch]:
    """A bar on a terminal: texts, what is done, and the time left; a line per chunk elsewhere."""
    if not sys.stderr.isatty():
        yield _lines(total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.fields[texts]} of {task.fields[all]} texts", markup=False),
        BarColumn(24),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task("starting", total=1.0, texts=0, all=total)

        def watch(now: Moment) -> None:
            bar.update(task, completed=now.share, description=now.doing, texts=now.texts)

        yield watch


def _lines(total: int) -> Watch:
    """A line whenever more texts are done."""
    told = {"texts": 0, "start": time.monotonic()}

    def watch(now: Moment) -> None:
        if now.texts > told["texts"]:
            told["texts"] = now.texts
            spent = time.monotonic() - told["start"]
            click.echo(f"{now.texts:,} of {total:,} texts, {spent:.0f} s", err=True)

    return watch


def _print_plan(job: Job, ask: _Ask) -> None:
    from heedful.audits.auditing import texts_of
    from heedful.audits.forecast import forecast, shown

    found = forecast(job, texts_of(job, ask.profile, ask.limit))
    click.echo(found.to_json() if ask.as_json else shown(found))


def _print(found: Audit, ask: _Ask) -> None:
    from heedful.core.writing import whole

    folder, page = Path(ask.out or ""), found.to_html().encode("utf-8")
    whole(folder / "report.html", lambda file: file.write_bytes(page))
    if ask.as_json:
        click.echo(json.dumps(found.summary, ensure_ascii=False, allow_nan=False).encode("utf-8"))
    else:
        from rich.console import Console

        from heedful.report.auditview import show

        show(found.summary, Console(highlight=False))
    if not found.complete:
        click.echo("stopped before all texts were done; the same command goes on.", err=True)
    opt.announce(str(folder / "summary.json"), str(folder / "report.html"))


def _names(given: str | None) -> list[str] | None:
    return None if given is None else [name.strip() for name in given.split(",") if name.strip()]


def _seconds(given: str | None) -> float | None:
    """Seconds of a time such as 90, 90s, 10m or 1.5h."""
    if given is None:
        return None
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(s|m|min|h|)", given.strip())
    if match is None or float(match[1]) == 0:
        raise BadInput(f"'{given}' is no time; write it as 90s, 10m or 2h.")
    return float(match[1]) * _UNITS[match[2]]


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def checks(name: str | None, as_json: bool) -> None:
    """List the checks, or tell all about the check NAME: what it changes, what it measures, and its settings."""
    from heedful.checks import CHECKS

    rows = CHECKS.rows(name)
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False, default=str).encode("utf-8"))
        return
    if name is not None:
        click.echo(CHECKS.description(name) + "\n\n" + _measures(CHECKS[name].changes, CHECKS[name].measures))
        return
    width, wide = (max(len(str(row[key])) for row in rows) for key in ("name", "summary"))
    for row in rows:
        click.echo(f"{row['name']:<{width}}  {row['summary']:<{wide}}  {row['paper']}")


def _measures(changes: str, measures: Mapping[str, Any]) -> str:
    width = max(map(len, measures))
    lines: Sequence[str] = [
        f"  {name:<{width}}  {m.says}{f' ({m.better} is better)' if m.better else ''}" for name, m in measures.items()
    ]
    return f"what is changed: {changes}\n\nmeasures:\n" + "\n".join(lines)
