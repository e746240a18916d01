"""audit: texts go in; the findings of every check on every method come out, stored in a run folder, with a summary."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from heedful.audits.chunk import Chunks
from heedful.audits.job import AuditProgress, AuditRequest, Job, WatchAudit, prepare
from heedful.audits.machine import machines
from heedful.audits.ranking import Ranking, rankings
from heedful.audits.result import Audit
from heedful.audits.run import CHUNK_TEXTS, Run, open_run, read_run
from heedful.audits.shares import Finish, Share
from heedful.audits.summary import About, CheckSummary, Summary, describe_texts, estimate_rows, left_out, text_facts
from heedful.audits.verdict import gather, readings, verdicts
from heedful.audits.workers import Processes, Workers, in_process
from heedful.checks import Check
from heedful.core.errors import BadInput
from heedful.core.files import json_value
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
    profile: str = "quick",
    limit: int | None = None,
    seed: int = 0,
    target: Target | None = None,
    settings: Sequence[str] = (),
    explanations: Iterable[str | Path] = (),
    checkpoints: Mapping[str, Any] | Iterable[str | Path] = (),
    columns: Columns = GUESSED,
    kind: str | None = None,
    select: Selection = EVERYTHING,
    revision: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    jobs: int = 1,
    workers: Workers | None = None,
    time_budget: float | None = None,
    restart: bool = False,
    watch: WatchAudit | None = None,
) -> Audit:
    """Audit the explanations of a model on data: every method (or those named) with every check (or those named).

    `model`, `revision`, `device` and `dtype` are as for `heedful.load`; `data`, `columns`, `kind` and `select` as for
    `heedful.data.load`. `settings` are texts such as "lime.samples=500"; `explanations` are files of scores that other
    programs computed; `checkpoints` are other models of the same training, for the check stability.

    With `out`, the run and its report (report.html) are stored in that folder. The same call resumes it; a larger
    `limit` extends it; `restart` deletes it first. `jobs` processes share the work, or `workers` do it: `Ray()`, or
    `Finish()` for a run whose parts other machines computed with `compute_share`. `time_budget`,
    in seconds, ends the run early, after a chunk. `watch` is called with the progress, an `AuditProgress`.
    """
    request = AuditRequest(
        model, data, methods, checks, profile, limit, seed, target, settings, explanations, checkpoints, columns,
        kind, select, revision, device, dtype,
    )  # fmt: skip
    if isinstance(workers, Share):
        raise BadInput("a share of a run has no summary; call heedful.audits.shares.compute_share.")
    if isinstance(workers, Finish):
        read_run(out or Path())  # refuses a folder without a run, before anything is written
    job = prepare(request)
    until = None if time_budget is None else time.monotonic() + time_budget
    workers = workers or (in_process if jobs == 1 else Processes(jobs))
    if out is not None:
        result = _audit(job, open_run(out, job.manifest(), restart), workers, until, watch, keep=True)
        result.save_page()
        return result
    with tempfile.TemporaryDirectory(prefix="heedful-") as folder:
        return _audit(job, open_run(Path(folder) / "run", job.manifest()), workers, until, watch, keep=False)


def _audit(job: Job, run: Run, workers: Workers, until: float | None, watch: WatchAudit | None, keep: bool) -> Audit:
    total, missing = job.total, {chunk: part.stop - part.start for chunk, part in run.missing(job.total)}
    finished = total - sum(missing.values())

    def tell(doing: str, share: float) -> None:
        if watch is not None:
            watch(AuditProgress(finished, total, doing, share * CHUNK_TEXTS))

    if watch is not None and job.note:
        watch(AuditProgress(finished, total, note=job.note))
    for chunk in workers(Chunks(job, run), list(missing), tell, until):
        finished += missing[chunk]
    tell("summarising", 0.0)
    summary, timing = summarise(job, run), _totals(run.timings()) | {"asked": total}
    run.finish(summary.to_dict(), timing)
    return Audit(run.manifest, summary, timing, not run.missing(total), run if keep else None)


def summarise(job: Job, run: Run) -> Summary:
    """The summary of all finished texts of a run."""
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
            json_value(tables if isinstance(tables, Mapping) else asdict(tables)),
        )
        evidence = gather(evidence, about.roles, findings)
        if "ranking" in about.roles:
            ranked = rankings(findings)
    return Summary(
        describe_texts(facts, labels),
        checks,
        verdicts(evidence),
        tuple(ranked),
        tuple(left_out(run.each(None, ["text", "check", "method", "measure", "details"]))),
    )


def _totals(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Seconds, bytes and passes of all chunks together."""
    texts = sum(p["texts"] for p in parts)
    methods: dict[str, dict[str, Any]] = {}
    for part in parts:
        for name, spent in part["methods"].items():
            total = methods.setdefault(name, {"seconds": 0.0, "bytes": None})
            total["seconds"] += spent["seconds"]
            total["bytes"] = max((b for b in (total["bytes"], spent["bytes"]) if b is not None), default=None)
    for total in methods.values():
        total["seconds each"] = total["seconds"] / max(1, texts)
    checks = {name: sum(p["checks"].get(name, 0.0) for p in parts) for p in parts for name in p["checks"]}
    passes = {key: sum(p["passes"][key] for p in parts) for key in ("asked", "shared")}
    seconds = sum(p["seconds"] for p in parts)
    costs = {"seconds": seconds, "methods": methods, "checks": checks, "passes": passes}
    return {"texts": texts, "machines": machines(parts), **costs}
