"""audit: texts go in; the findings of every check on every method come out, stored in a run folder, with a summary."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from heedful.audits.chunk import Chunks, total_timing
from heedful.audits.extension import extended
from heedful.audits.job import DEFAULT_PROFILE, AuditProgress, AuditRequest, Job, Until, WatchAudit, prepare
from heedful.audits.looks import Decision, Looks, in_order, looks_of
from heedful.audits.machine import machines
from heedful.audits.ranking import Ranking, rankings
from heedful.audits.result import Audit
from heedful.audits.run import CHUNK_TEXTS, Run, open_run, read_run
from heedful.audits.shares import Finish, Share, refuse_other_settings
from heedful.audits.summary import About, CheckSummary, Summary, describe_texts, estimate_rows, left_out, text_facts
from heedful.audits.verdict import gather, readings, verdicts
from heedful.audits.workers import Processes, Workers, in_process
from heedful.checks import Check
from heedful.core.errors import BadInput
from heedful.core.files import json_value, scratch_folder
from heedful.core.finding import Findings
from heedful.core.target import Target
from heedful.data import EVERYTHING, Selection
from heedful.data.columns import GUESSED, Columns
from heedful.methods import Method


def audit(
    model: Any,
    data: Any,
    methods: Iterable[str | Method] | None = None,
    checks: Iterable[str | Check] | None = None,
    out: str | Path | None = None,
    *,
    profile: str = DEFAULT_PROFILE,
    limit: int | None = None,
    until: Until | None = None,
    seed: int = 0,
    target: Target | None = None,
    settings: Sequence[str] = (),
    explanations: Iterable[str | Path] = (),
    checkpoints: Mapping[str, Any] | Iterable[str | Path] = (),
    columns: Columns = GUESSED,
    kind: str | None = None,
    select: Selection = EVERYTHING,
    model_options: Mapping[str, Any] | None = None,
    jobs: int = 1,
    workers: Workers | None = None,
    time_budget: float | None = None,
    restart: bool = False,
    watch: WatchAudit | None = None,
) -> Audit:
    """Audit the explanations of a model on data: every method (or those named) with every check (or those named).

    `model` and `model_options` (keywords, such as {"device": "cuda"}) are as for `heedful.load`; `data`, `columns`,
    `kind` and `select` as for `heedful.data.load`. `settings` are texts such as "lime.samples=500"; `explanations` are
    files of scores that other programs computed; `checkpoints` are other models of the same training, for the check
    stability.

    With `out`, the run and its report (report.html) are stored in that folder. The same call resumes it; a larger
    `limit`, further methods and further checks extend it; `restart` deletes it first. With until="decided", texts are
    added until each question of the verdict is decided, to all texts of the data or to the `limit`; limits are
    anytime-valid then, as they are in a run that was extended after its results had been seen. `jobs` processes share
    the work, or `workers` do it: `Ray()`, or `Finish()` for a run whose parts other machines computed with
    `compute_share`. `time_budget`, in seconds, ends the run early, after a group of texts. `watch` is called with the
    progress, an `AuditProgress`.
    """
    methods = None if methods is None else list(methods)
    checks = None if checks is None else list(checks)
    request = AuditRequest(
        model, data, methods, checks, profile, limit, until, seed, target, settings, explanations, checkpoints, columns,
        kind, select, model_options,
    )  # fmt: skip
    if isinstance(workers, Share):
        raise BadInput("a share of a run has no summary; call heedful.audits.shares.compute_share.")
    if time_budget is not None and time_budget < 0:
        raise BadInput(f"time_budget is {time_budget}; give a number of seconds.")
    if isinstance(workers, Finish):
        if out is None:
            raise BadInput("no folder was given of a run to finish; add out=DIR.")
        read_run(out)  # refuses a folder without a run
    job = prepare(request)
    deadline = None if time_budget is None else time.monotonic() + time_budget
    workers = workers or (in_process if jobs == 1 else Processes(jobs))
    if out is not None:
        job = job if restart else extended(job, request, out)
        job.refuse_undecidable()
        if isinstance(workers, Finish):
            refuse_other_settings(out, job, "--finish computes nothing")
        run = open_run(out, job.manifest(), restart)
        job = replace(job, limit=max(job.total, run.extent()))
        result = _audit(job, run, workers, deadline, watch, keep=True)
        result.save_page()
        return result
    job.refuse_undecidable()
    with scratch_folder() as folder:
        return _audit(job, open_run(folder / "run", job.manifest()), workers, deadline, watch, keep=False)


def _audit(job: Job, run: Run, workers: Workers, deadline: float | None, watch: WatchAudit | None, keep: bool) -> Audit:
    total, missing = job.total, {chunk: part.stop - part.start for chunk, part in run.missing(job.total)}
    finished = total - sum(missing.values())

    def tell(doing: str, share: float) -> None:
        if watch is not None:
            watch(AuditProgress(finished, total, doing, share * CHUNK_TEXTS))

    if watch is not None and job.note:
        watch(AuditProgress(finished, total, note=job.note))
    decision = Decision(run, job.battery.checks, total, missing) if job.until else None
    chunks = workers(Chunks(job, run, deadline), [] if decision and decision.look() else list(missing), tell, deadline)
    for chunk in decision.until(chunks) if decision else chunks:
        finished += missing[chunk] if deadline is None else run.size(chunk)
    tell("summarising", 0.0)
    if decision and decision.reached:
        run = decision.end()
        total = run.count()
    looks = looks_of(run, until=decision is not None)
    summary, timing = summarise(job, run, looks), _totals(run.timings()) | {"asked": total}
    run.finish(summary.to_dict(), timing)
    if whole := not run.missing(total):
        run.end_shares()
    return Audit(run.manifest, summary, timing, whole, run if keep else None)


def summarise(job: Job, run: Run, looks: Looks | None = None) -> Summary:
    """The summary of all finished texts of a run."""
    looks = looks or Looks()
    labels = job.classifier.labels
    facts = text_facts(run, labels)
    checks: dict[str, CheckSummary] = {}
    evidence = readings(job.battery.methods)
    ranked: list[Ranking] = []
    for name, check in job.battery.checks.items():
        findings = Findings.of(run.each(name, ["text", "method", "measure", "at", "value"]), facts, labels)
        words = {f.name: getattr(check, f.name) for f in fields(About) if hasattr(check, f.name)}
        about = About(**({"title": name} | words))
        tables: Any = check.tables(findings) if hasattr(check, "tables") and findings.rows else {}
        checks[name] = CheckSummary(
            about,
            tuple(estimate_rows(name, findings, check.measures, list(job.battery.methods))),
            json_value(tables),
        )
        evidence = gather(evidence, about.roles, findings)
        if "ranking" in about.roles:
            ranked = rankings(findings)
    return Summary(
        describe_texts(facts, labels),
        checks,
        verdicts(in_order(evidence, looks.rule, facts["number"]), looks.rule),
        tuple(ranked),
        tuple(left_out(run.each(None, ["text", "check", "method", "measure", "details"]))),
        looks,
    )


def _totals(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Seconds, bytes and passes of all chunks together."""
    totals = total_timing(parts)
    for spent in totals["methods"].values():
        spent["seconds each"] = spent["seconds"] / max(1, totals["texts"])
    return totals | {"machines": machines(parts)}
