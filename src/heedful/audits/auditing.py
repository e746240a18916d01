"""Job two: audit. Texts go in; findings of every check on every method come out, kept in a run folder, and a summary.

A run goes through its texts in a fixed order, CHUNK at a time. A chunk's findings depend on nothing but the model, its
texts, the settings and the seed: batches never cross a chunk, and everything runs on one thread. So a run that was
killed, and one that several workers share, end with the same summary.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from heedful import data
from heedful.audits.chunk import Job, chunk_of
from heedful.audits.profiles import PROFILES, battery
from heedful.audits.ranking import leagues, to_dict
from heedful.audits.record import gold_index
from heedful.audits.run import Manifest, Run, opened, order
from heedful.audits.summary import clean, described, evidence, facts_of, left_out, rows
from heedful.audits.verdict import ATTENTION, Rule, verdicts
from heedful.checks import Check
from heedful.core.errors import BadInput
from heedful.core.finding import Findings
from heedful.core.target import Target
from heedful.methods import Method
from heedful.methods.imported.reading import explained_in
from heedful.model.classifier import Classifier
from heedful.model.inference import sharing

Watch = Callable[["Moment"], None]


@dataclass(frozen=True)
class Moment:
    """How far a run is: texts done of all, and the step of the present chunk."""

    texts: int
    total: int
    doing: str = ""
    step: int = 0
    steps: int = 1
    chunk: int = 0  # texts in the present chunk

    @property
    def share(self) -> float:
        """The share of the work that is done."""
        return (self.texts + self.chunk * self.step / self.steps) / max(1, self.total)


@dataclass(frozen=True)
class Audit:
    """A whole run: what was run, and what was found, with intervals against controls.

    `summary` holds functions of model, data, settings and seed only; seconds and bytes are in `timing`. `complete` says
    whether all texts asked for were done.
    """

    manifest: Manifest
    summary: Mapping[str, Any]
    timing: Mapping[str, Any]
    complete: bool = True
    run: Run | None = None

    def rows(self, check: str, measure: str | None = None, method: str | None = None) -> list[Mapping[str, Any]]:
        """The summary's rows of one check, of one measure or method if given."""
        if check not in self.summary["checks"]:
            raise BadInput(f"check '{check}' is not in this run, which has {', '.join(self.summary['checks'])}.")
        return [
            row
            for row in self.summary["checks"][check]["rows"]
            if measure in (None, row["measure"]) and method in (None, row["method"])
        ]

    @property
    def verdict(self) -> Mapping[str, Any]:
        """Whether attention explains the model: `word`, `reason`, `answers`, `qualifiers`."""
        if "attention-mean" not in self.summary["verdicts"]:
            raise BadInput("this audit has no verdict, for attention-mean was not among its methods.")
        told: Mapping[str, Any] = self.summary["verdicts"]["attention-mean"]
        return told

    def findings(self, check: str | None = None) -> Any:
        """Every finding as a pyarrow table; `.to_pandas()` makes a data frame."""
        return self._kept().findings(check)

    def to_html(self) -> str:
        """The report, a self-contained page."""
        from heedful.audits.record import recorded
        from heedful.report.audit import report
        from heedful.report.page import page

        return page(report(recorded(self._kept().folder)))

    def _kept(self) -> Run:
        if self.run is None:
            raise BadInput("the findings of this audit were not kept; give it a folder with out=.")
        return self.run


def audit(
    classifier: Classifier,
    examples: Any,
    methods: Iterable[str | Method] | None = None,
    checks: Iterable[str | Check] | None = None,
    out: str | Path | None = None,
    *,
    profile: str = "quick",
    limit: int | None = None,
    seed: int = 0,
    target: Target | None = None,
    checkpoints: Mapping[str, Classifier] | None = None,
    time_budget: float | None = None,
    restart: bool = False,
    watch: Watch | None = None,
) -> Audit:
    """Audit every method with every check (or those named) on examples: a list, or anything `heedful.data.read` reads.

    With `out` the run is kept in that folder, and the same call goes on where it was stopped; a larger `limit` extends
    it. `time_budget`, in seconds, ends it early, after a chunk.
    """
    named = str(examples) if isinstance(examples, (str, Path)) else "the data"
    chosen = battery(profile, methods, checks, target)
    texts = explained_in(chosen.methods, data.load(examples))
    job = Job(classifier, texts, chosen, seed, checkpoints or {}, named)
    total = texts_of(job, profile, limit)
    if out is not None:
        return _audited(job, opened(Path(out), job.manifest(), restart), total, time_budget, watch, keep=True)
    with tempfile.TemporaryDirectory(prefix="heedful-") as folder:
        return _audited(job, opened(Path(folder) / "run", job.manifest()), total, time_budget, watch, keep=False)


def texts_of(job: Job, profile: str, limit: int | None) -> int:
    """How many texts a run goes through."""
    wanted = PROFILES[profile].limit if limit is None else limit
    if wanted is not None and wanted < 1:
        raise BadInput(f"limit is at least 1, not {wanted}.")
    return len(job.examples) if wanted is None else min(wanted, len(job.examples))


def _audited(job: Job, run: Run, total: int, budget: float | None, watch: Watch | None, keep: bool) -> Audit:
    work(job, run, total, until=None if budget is None else time.monotonic() + budget, watch=watch)
    return finished(job, run, total, keep)


def work(
    job: Job,
    run: Run,
    total: int,
    share: tuple[int, int] = (0, 1),
    until: float | None = None,
    watch: Watch | None = None,
) -> None:
    """Do the chunks that are missing; as worker i of n (`share`) those whose number says so. At least one is done."""
    at = order(job.examples, job.seed)
    mine = [(chunk, numbers) for chunk, numbers in run.missing(total) if chunk % share[1] == share[0]]
    for done, (chunk, numbers) in enumerate(mine):
        if done and until is not None and time.monotonic() > until:
            return
        before = total - sum(s.stop - s.start for _, s in run.missing(total))
        some = range(numbers.start, numbers.stop)

        def tell(doing: str, step: int, steps: int, before: int = before, size: int = len(some)) -> None:
            if watch is not None:
                watch(Moment(before, total, doing, step, steps, size))

        with _one_thread(), sharing(job.classifier):
            findings, texts, timing = chunk_of(job, [(n, at[n]) for n in some], tell)
        run.write(chunk, findings, texts, timing)
    if watch is not None:
        watch(Moment(total - sum(s.stop - s.start for _, s in run.missing(total)), total, "summing up"))


@contextmanager
def _one_thread() -> Iterator[None]:
    """The order of a sum depends on the number of threads, and so do its last digits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def finished(job: Job, run: Run, total: int, keep: bool = True) -> Audit:
    """Sum up all that a run has, and write it."""
    texts = run.texts(["number", "label", "predicted", "probabilities", "starts"])
    labels = job.classifier.labels
    gold = [gold_index(label, labels) for label in texts.column("label").to_pylist()]
    facts = facts_of(texts, labels, gold)
    checks: dict[str, Any] = {}
    readings: dict[str, dict[str, Any]] = {name: {} for name in job.battery.methods if name in ATTENTION}
    ranking: dict[str, Any] = {}
    for name, check in job.battery.checks.items():
        found = Findings.of(run.each(name, ["text", "method", "measure", "at", "value"]), facts, labels)
        tables = getattr(check, "tables", None)
        checks[name] = {
            "about": _about(check),
            "rows": rows(found, check.measures, list(job.battery.methods)),
            "tables": tables(found) if tables is not None and found.rows else {},
        }
        for reading, own in readings.items():
            own |= evidence(name, found, reading, Rule().reference)
        if name == "input-erasure":
            ranking = to_dict(leagues(found))
    summary = clean(
        {
            "texts": described(texts, labels, gold),
            "verdicts": {name: found.to_dict() for name, found in verdicts(readings).items()},
            "ranking": ranking,
            "checks": checks,
            "left out": left_out(run.each(None, ["text", "check", "method", "measure", "details"])),
        }
    )
    timing = _totals(run.timings())
    run.finish(summary, timing)
    complete = not run.missing(total)
    return Audit(run.manifest, summary, timing, complete, run if keep else None)


def _about(check: Check) -> dict[str, Any]:
    """What a page needs to say of a check, so that it can be written without it."""
    measures = {name: asdict(measure) for name, measure in check.measures.items()}
    return {"summary": check.summary, "paper": check.paper, "changes": check.changes, "measures": measures}


def _totals(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Seconds and bytes of all chunks together."""
    texts = sum(p["texts"] for p in parts)
    methods: dict[str, dict[str, Any]] = {}
    for part in parts:
        for name, spent in part["methods"].items():
            own = methods.setdefault(name, {"seconds": 0.0, "bytes": None})
            own["seconds"] += spent["seconds"]
            own["bytes"] = max((b for b in (own["bytes"], spent["bytes"]) if b is not None), default=None)
    for own in methods.values():
        own["seconds each"] = own["seconds"] / max(1, texts)
    checks = {name: sum(p["checks"].get(name, 0.0) for p in parts) for p in parts for name in p["checks"]}
    passes = {key: sum(p["passes"][key] for p in parts) for key in ("asked", "shared")}
    return {
        "texts": texts,
        "seconds": sum(p["seconds"] for p in parts),
        "methods": methods,
        "checks": checks,
        "passes": passes,
    }
