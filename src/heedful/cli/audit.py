"""heedful audit: the quality of a model's explanations, measured on a data set."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from heedful.cli import options as opt
from heedful.core.errors import BadInput
from heedful.core.objects import place_of

if TYPE_CHECKING:
    from heedful.audits.forecast import Forecast
    from heedful.audits.job import AuditProgress, Until, WatchAudit
    from heedful.audits.result import Audit
    from heedful.audits.workers import Workers
    from heedful.core.target import Scale, Target
    from heedful.report.progress import Show

_PROFILE = "verdict or standard (60 texts), full (all texts and methods), or a paper's protocol on all texts: jain2019."
FIRST_LINE, NEXT_LINE = 3.0, 30.0  # seconds between lines where stderr is not a terminal
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
        return super().parse_args(ctx, spread)


@click.command(cls=_Several)
@click.argument("data")
@opt.model_options
@click.option("--out", help="Output folder, or s3://bucket/folder. A run in it is resumed, or extended.")
@click.option("--methods", help="Names, separated by commas. [default: the profile's]")
@click.option("--explanations", multiple=True, help="A file of scores made elsewhere, audited like the methods.")
@click.option("--checks", help="Names, separated by commas. [default: the profile's]")
@opt.set_option
@click.option("--profile", default="verdict", show_default=True, help=_PROFILE)
@click.option("--limit", type=click.IntRange(min=1), help="How many texts; a larger number extends a run.")
@click.option("--until", type=click.Choice(["decided"]), help="Add texts until the verdict is decided, to the limit.")
@click.option("--seed", type=int, default=0, show_default=True, help="For the order of texts and all random numbers.")
@opt.workers_options
@click.option("--share", metavar="I/N", help="Compute only the I-th of N shares of the run, without a summary: 3/8.")
@click.option("--finish", is_flag=True, help="Only summarise a run whose shares are computed.")
@click.option("--time-budget", help="Stop after this time, such as 10m or 2h; the same command resumes the run.")
@click.option("--checkpoints", multiple=True, help="Other checkpoints of the same training, for the check stability.")
@opt.target_options
@opt.data_options
@click.option("--restart", is_flag=True, help="Delete the run in the folder and start again.")
@click.option("--dry-run", is_flag=True, help="Print what would be run and what it would cost.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def audit(
    data: str, model: str | None, model_options: dict[str, Any], out: str | None,
    methods: str | None, explanations: tuple[str, ...], checks: str | None, assignments: tuple[str, ...], profile: str,
    limit: int | None, until: Until | None, seed: int, jobs: int, on: str | None, gpus: float, share: str | None,
    finish: bool, time_budget: str | None, checkpoints: tuple[str, ...],
    target: str | None, against: str | None, scale: Scale, reading: dict[str, Any], restart: bool, dry_run: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Audit the explanations of a model on DATA: a file or folder of texts, or "corpus" for the package's own.

    Every method explains every text. Every check measures these explanations and compares them with controls that do
    not use the model. The run folder has all findings. The same command resumes an interrupted run; other methods and
    checks extend it.
    """
    budget = _seconds(time_budget)
    if out is None and not dry_run:
        raise BadInput("no folder was given for the run; add --out DIR.")
    if share and until:
        raise BadInput("--until looks at all texts so far, which a share does not have; give --limit instead.")
    workers = _workers(jobs, on, gpus, share, finish, restart)
    import heedful
    from heedful.audits.job import AuditRequest
    from heedful.audits.shares import Share, compute_share

    arguments: dict[str, Any] = {
        "methods": opt.names(methods), "checks": opt.names(checks), "profile": profile, "limit": limit, "until": until,
        "seed": seed, "target": _target(profile, target, scale, against), "settings": assignments,
        "explanations": explanations, "checkpoints": checkpoints, "model_options": model_options, **reading,
    }  # fmt: skip
    device = None if finish or on else model_options["device"]  # --finish runs no model; each machine chooses its own
    opt.announce_device(device)
    if dry_run:
        from heedful.audits.forecast import forecast
        from heedful.audits.job import prepare

        job = prepare(AuditRequest(model, data, **arguments))
        job.refuse_undecidable()
        opt.announce_device(device, works=True)
        if job.note:
            click.echo(job.note, err=True)
        plan = forecast(job)
        click.echo(plan.to_json() if as_json else _cost_table(plan))
        return
    from heedful.report.progress import progress

    with progress() as show, _watching(show, device, until is not None) as watch:
        show("loading the model and the data")
        if isinstance(workers, Share):
            part = compute_share(AuditRequest(model, data, **arguments), out or "", workers, budget, watch)
        else:
            result = heedful.audit(
                model, data, **arguments, out=out, jobs=jobs, workers=workers, time_budget=budget, restart=restart,
                watch=watch,
            )  # fmt: skip
    if isinstance(workers, Share):
        click.echo(str(part))
        return
    _print(result, place_of(out or ""), as_json)


def _workers(jobs: int, on: str | None, gpus: float, share: str | None, finish: bool, restart: bool) -> Workers | None:
    """What the options name; None for processes on this machine."""
    from heedful.audits.shares import Finish, Share
    from heedful.audits.workers import Processes, in_process

    if (share or finish) and restart:
        raise BadInput("--restart would delete what other shares computed; delete the folder before you start them.")
    if finish and (share or on):
        raise BadInput("--finish computes nothing; leave out --share and --on.")
    workers = opt.cluster(on, gpus, jobs)
    if share is not None:
        return Share.read(share, workers or (in_process if jobs == 1 else Processes(jobs)))
    return Finish() if finish else workers


def _target(profile: str, label: str | None, scale: Scale, against: str | None) -> Target:
    """What the options name; without --scale, on the profile's scale."""
    from heedful.audits.job import PROFILES
    from heedful.core.target import Target

    source = click.get_current_context().get_parameter_source("scale")
    if source == ParameterSource.DEFAULT and profile in PROFILES:
        scale = PROFILES[profile].target.scale
    return Target(label, scale, against)


@contextmanager
def _watching(
    show: Show, device: str | None, may_end: bool = False, first: float = FIRST_LINE, every: float = NEXT_LINE
) -> Iterator[WatchAudit]:
    """A bar on a terminal; elsewhere a line per chunk, and now and then while none is finished; notes everywhere.

    A run that `may_end` before its last text says the longest time.
    """
    lines, printed, ended, opened = not sys.stderr.isatty(), 0, threading.Event(), time.monotonic()
    last: AuditProgress | None = None
    began, start = 0.0, 0.0  # texts and time when the work began

    def left(now: AuditProgress) -> str:
        return _left(now.texts + now.partial - began, now.total - began, time.monotonic() - start)

    def line(now: AuditProgress) -> None:
        done = now.texts + now.partial
        words = f", {'at most' if may_end else 'about'} {left(now)} left" if left(now) else ""
        doing = f": {now.doing}" if now.doing and done < now.total else ""
        said = f"{int(done):,} of {now.total:,} texts, {time.monotonic() - start:.0f} s"
        click.echo(f"{said}{words}{doing}", err=True)

    def tick() -> None:
        wait = first
        while not ended.wait(wait):
            if last is None:  # of a large model or file
                click.echo(f"loading the model and the data, {time.monotonic() - opened:.0f} s", err=True)
            else:
                line(last)
                wait = every

    thread = threading.Thread(target=tick, daemon=True)
    if lines:
        thread.start()

    def watch(now: AuditProgress) -> None:
        nonlocal printed, last, began, start
        if last is None:
            opt.announce_device(device, works=True)
        if now.note:
            click.echo(now.note, err=True)
        if last is None:
            printed, began, start = now.texts, now.texts, time.monotonic()
        last = now
        if lines and now.texts > printed:
            printed = now.texts
            line(now)
        show(now.doing, now.texts + now.partial, now.total, "texts", left=left(now))

    try:
        yield watch
    finally:
        ended.set()
        if thread.is_alive():
            thread.join()


def _left(done: float, total: float, seconds: float) -> str:
    """The time for the other texts at the pace of these; "" before one text's worth is done, and at the end.

    Until a group of texts is measured, its progress is by planned passes: its first moments say nothing about the pace.
    """
    return duration(seconds * (total - done) / done) if 1 <= done < total else ""


def _print(result: Audit, folder: Path, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(result.summary.to_dict(), ensure_ascii=False, allow_nan=False).encode("utf-8"))
    else:
        from rich.console import Console

        from heedful.report.audit import report
        from heedful.report.document_terminal import show_document

        show_document(report(result.record), Console(highlight=False))
    if not result.complete:
        click.echo("Stopped early. Run the same command again to continue.", err=True)
    opt.announce(str(folder / "summary.json"), str(folder / "report.html"))


def _cost_table(plan: Forecast) -> str:
    """Passes by method and check, and the time expected."""
    from heedful.core.table import align_columns

    rows = [("", "", "forward", "backward")]
    for line in plan.lines:
        unknown = "–" if line.why else "unknown"
        passes = (line.passes.forwards, line.passes.backwards) if line.passes else (None, None)
        forward, backward = (unknown if count is None else f"{count:,}" for count in passes)
        rows.append((line.kind, line.name, forward, backward))
    rows.append(("", "total, at most", f"{plan.passes.forwards:,}", f"{plan.passes.backwards:,}"))
    skipped = [f"{line.name} will be left out: {line.why}" for line in plan.lines if line.why]
    cost = f"{plan.texts:,} texts; about {duration(plan.seconds)} of CPU time on one core"
    return "\n".join([align_columns(rows, right=(2, 3)), "", *skipped, cost])


def duration(seconds: float) -> str:
    """Seconds in words: duration(3725) -> "1 h 2 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds // 3600:.0f} h {seconds % 3600 / 60:.0f} min"


def _seconds(duration: str | None) -> float | None:
    """Seconds of a duration such as 90, 90s, 10m or 1.5h."""
    if duration is None:
        return None
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(s|m|min|h|)", duration.strip())
    if match is None or float(match[1]) == 0:
        raise BadInput(f"'{duration}' is not a time; write it as 90s, 10m or 2h.")
    return float(match[1]) * _UNITS[match[2]]
