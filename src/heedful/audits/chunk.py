"""Chunks: the texts of one chunk of a run are explained and checked, and the findings are stored as its part.

A chunk is computed in groups of a few texts. A group's findings depend on nothing but the model, its texts, the
settings and the seed: batches never cross a group, and everything runs on one thread. So a run that was killed and
resumed, or shared by several processes, ends with the same summary.

The findings of a check depend on the methods and on its own settings, not on the other checks: a run is extended by a
check without running the others again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from heedful.audits.job import Job, describe_job, restore_job
from heedful.audits.machine import machine
from heedful.audits.run import CHUNK_TEXTS, GROUP_TEXTS, Run, Stored, read_run
from heedful.audits.workers import ReportShare, silent
from heedful.checks import Check
from heedful.checks.base import Case
from heedful.core.errors import BadInput, HeedfulError, results_or_errors
from heedful.core.explanation import Explanation
from heedful.core.finding import LEFT_OUT, Finding
from heedful.core.objects import address
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.data import Example
from heedful.methods import Method, Passes
from heedful.methods.controls import Random
from heedful.methods.explain import try_method
from heedful.model.classifier import Classifier
from heedful.model.inference import apart, sharing

BACKWARD_COST = 2  # of a backward pass, in forward passes
Numbered = list[tuple[int, Finding]]


@dataclass(frozen=True)
class Chunks:
    """The chunks of a run, as work that `workers` do. A chunk ends after a group of texts once it is past `until`."""

    job: Job
    run: Run
    until: float | None = None  # of `time.monotonic`
    pace: dict[str, float] = field(default_factory=dict)  # cost of each method and check, of the last group

    @property
    def place(self) -> Path:
        """The run folder."""
        return self.run.folder

    def do(self, chunk: int, tell: ReportShare = silent) -> None:
        """Explain and check the texts of one chunk, and store its part; findings that it has are not computed again."""
        job, stored = self.job, self.run.stored(chunk)
        first, end = chunk * CHUNK_TEXTS, chunk * CHUNK_TEXTS + len(stored.texts)
        numbers = range(first, max(end, min(job.total, first + CHUNK_TEXTS)))
        findings: Numbered = []
        texts: list[dict[str, Any]] = []
        timings: list[dict[str, Any]] = []
        kept = 0
        for group in (numbers[i : i + GROUP_TEXTS] for i in range(0, len(numbers), GROUP_TEXTS)):
            # a group that a smaller limit cut short is computed again as a whole
            reused = group.stop <= end
            kept += len(group) if reused else 0
            if reused and stored.whole:
                texts += stored.texts[group.start - first : group.stop - first]
                continue
            if timings and not reused and self.until is not None and time.monotonic() > self.until:
                break
            if not self.pace:
                self.pace.update(planned(job, job.examples[job.order[group[0]]]))
            with one_thread(), sharing(job.classifier):
                result = chunk_of(
                    job,
                    [(n, job.order[n]) for n in group],
                    partial(_tell_chunk, tell, len(texts), len(group)),
                    stored.checks if reused else (),
                    self.pace,
                )
            findings += result[0]
            texts += result[1]
            timings.append(result[2])
            self.pace.update(seconds_by_name(result[2]))
        rows = [row for row in stored.findings if row[4] < first + kept]
        timing = _joined_timing(stored, kept, timings) | {"machine": machine(job.classifier.device)}
        self.run.write(chunk, findings, texts, timing, rows)

    def describe(self, folder: Path) -> dict[str, Any]:
        """As JSON, for `restore` in another process."""
        described = describe_job(self.job, folder)
        # subtle: another machine has another monotonic clock
        until = None if self.until is None else time.time() + self.until - time.monotonic()
        place = address(self.run.folder)
        return {"restore": f"{__name__}:Chunks.restore", "run": place, "job": described, "until": until}

    @classmethod
    def restore(cls, described: Mapping[str, Any]) -> Chunks:
        """The inverse of `describe`; an error unless every weight and setting is that of the run."""
        job, run = restore_job(described["job"]), read_run(described["run"])
        if job.manifest().stamp != run.manifest.stamp:
            raise BadInput("another process restored a different model, data or setting; use jobs=1.")
        until = described.get("until")
        return cls(job, run, None if until is None else time.monotonic() + until - time.time())


def _tell_chunk(tell: ReportShare, before: int, texts: int, doing: str, share: float) -> None:
    """Report the share of a chunk, given that of the group of `texts` texts after the first `before`."""
    tell(doing, (before + share * texts) / CHUNK_TEXTS)


def _joined_timing(stored: Stored, kept: int, groups: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The cost of a chunk: that of its groups, and of what was stored before, as far as it was kept."""
    share = kept / max(1, len(stored.texts))
    timings = list(groups)
    if share:
        then = stored.timing
        methods = {n: m | {"seconds": share * m["seconds"]} for n, m in then["methods"].items() if stored.whole}
        checks = {name: share * seconds for name, seconds in then["checks"].items() if name in stored.checks}
        passes = {key: round(share * count) for key, count in then["passes"].items()}
        texts, seconds = kept if stored.whole else 0, share * then["seconds"]
        timings.append({"texts": texts, "seconds": seconds, "methods": methods, "checks": checks, "passes": passes})
    return total_timing(timings)


@contextmanager
def one_thread() -> Iterator[None]:
    """The order of a sum depends on the number of threads, and so do its last digits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def planned(job: Job, example: Example) -> dict[str, float]:
    """The cost of each method and check on a text, in forward passes: a first guess before anything is measured."""
    classifier, methods = job.classifier, job.battery.methods
    items: list[tuple[str, Any, tuple[Any, ...]]] = [(name, item, ()) for name, item in methods.items()]
    items += [(name, item, (methods,)) for name, item in job.battery.checks.items()]
    costs = {name: 1.0 for name, _, _ in items}
    for name, passes, more in ((name, getattr(item, "passes", None), more) for name, item, more in items):
        with suppress(HeedfulError):  # it cannot run
            tokens = classifier.tokens(example.text, example.pair).cut(classifier.limit)
            cost = Passes(0) if passes is None else passes(classifier, tokens, *more)
            costs[name] += cost.forwards + BACKWARD_COST * cost.backwards
    return costs


def seconds_by_name(timing: Mapping[str, Any]) -> dict[str, float]:
    """CPU seconds of each method and check."""
    methods = {name: spent["seconds"] for name, spent in timing["methods"].items()}
    return {**methods, **timing["checks"]}


def chunk_of(
    job: Job,
    numbers: Sequence[tuple[int, int]],
    tell: ReportShare = silent,
    skip: Collection[str] = (),
    pace: Mapping[str, float] | None = None,
) -> tuple[Numbered, list[dict[str, Any]], dict[str, Any]]:
    """The findings on these texts (number in the run, index in the data), the rows of the texts, and the timing.

    The checks in `skip` are not run. `pace` is the expected cost of each method and check, for the progress.
    """
    examples = [job.examples[index] for _, index in numbers]
    battery = replace(job.battery, checks={name: c for name, c in job.battery.checks.items() if name not in skip})
    costs = [(pace or {}).get(name, 1.0) for name in (*battery.methods, *battery.checks)]
    shares = [sum(costs[:i]) / max(sum(costs), 1e-9) for i in range(len(costs))]
    forwards, recalled = job.classifier.forwards, job.classifier.recalled
    with metered() as whole:
        result = cases(
            job.classifier, examples, battery.methods, battery.target, job.seed, job.others,
            tell=lambda i, name: tell(name, shares[i]),
        )  # fmt: skip
        findings = [
            (numbers[i][0], _left_out("explain" if method else "text", method, reason))
            for (i, method), reason in result.failures.items()
        ]
        seconds: dict[str, float] = {}
        for i, (name, check) in enumerate(battery.checks.items()):
            tell(name, shares[len(battery.methods) + i])
            with metered() as meter, apart(job.classifier):
                findings += _run_check(name, check, {numbers[k][0]: case for k, case in result.cases.items()})
            seconds[name] = meter.seconds
    _check_unique(findings)
    timing = {
        "texts": len(numbers),
        "seconds": whole.seconds,
        "methods": {name: {"seconds": m.seconds, "bytes": m.bytes} for name, m in result.meters.items()},
        "checks": seconds,
        "passes": {"asked": job.classifier.forwards - forwards, "shared": job.classifier.recalled - recalled},
    }
    return findings, [_text_row(result.cases.get(i), *numbers[i], examples[i]) for i in range(len(numbers))], timing


def total_timing(timings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Texts, seconds, bytes and passes of several groups or chunks together."""
    methods: dict[str, dict[str, Any]] = {}
    for timing in timings:
        for name, spent in timing["methods"].items():
            total = methods.setdefault(name, {"seconds": 0.0, "bytes": None})
            total["seconds"] += spent["seconds"]
            total["bytes"] = max((b for b in (total["bytes"], spent["bytes"]) if b is not None), default=None)
    names = dict.fromkeys(name for timing in timings for name in timing["checks"])
    return {
        "texts": sum(timing["texts"] for timing in timings),
        "seconds": sum(timing["seconds"] for timing in timings),
        "methods": methods,
        "checks": {name: sum(timing["checks"].get(name, 0.0) for timing in timings) for name in names},
        "passes": {key: sum(timing["passes"][key] for timing in timings) for key in ("asked", "shared")},
    }


def _check_unique(findings: Numbered) -> None:
    """Raise if a check reports the same measurement twice for one text."""
    keys: set[tuple[Any, ...]] = set()
    for number, f in findings:
        key = (number, f.check, f.method, f.measure, frozenset(f.at.items()))
        if key in keys and f.measure != LEFT_OUT:
            raise ValueError(f"{f.check} reports '{f.measure}' of '{f.method}' at {f.place} twice on text {number}")
        keys.add(key)


def _left_out(check: str, method: str, reason: str) -> Finding:
    return Finding(check, method, LEFT_OUT, float("nan"), {}, {"reason": reason})


def _run_check(name: str, check: Check, cases: Mapping[int, Case]) -> Numbered:
    """The findings of a check on its cases; for a case on which it fails, the reason."""
    limit = getattr(check, "texts", None)
    chosen = {number: case for number, case in cases.items() if limit is None or number < limit}

    def work(batch: list[Case]) -> Sequence[Sequence[Finding]]:
        return check.many(batch) if hasattr(check, "many") else [check(case) for case in batch]

    findings = [
        [_left_out(name, "", str(result))] if isinstance(result, HeedfulError) else result
        for result in results_or_errors(work, list(chosen.values()))
    ]
    return [(number, finding) for number, group in zip(chosen, findings, strict=True) for finding in group]


def _text_row(case: Case | None, number: int, index: int, example: Example) -> dict[str, Any]:
    """A row of the run's texts; without a case where the model cannot read the text."""
    spans = [span or (-1, -1) for span in case.tokens.spans] if case else []
    label = example.label
    return {
        "number": number,
        "index": index,
        "text": example.text,
        "pair": example.pair,
        "label": ", ".join(label) if isinstance(label, tuple) else label,
        "predicted": case.prediction.label if case else None,
        "probabilities": list(case.prediction.probabilities or ()) if case else [],
        "pieces": list(case.tokens.pieces) if case else [],
        "starts": [span[0] for span in spans],
        "ends": [span[1] for span in spans],
        "segments": [-1 if s is None else s for s in case.tokens.segments] if case else [],
        "scores": [
            {"method": name, "scores": why.scores.tolist(), "signed": why.signed}
            for name, why in (case.attributions if case else {}).items()
        ],
    }


# cases


@dataclass
class Cases:
    """Cases by the example's number; `failures`, by number and method, say why one is absent; `meters`, the cost."""

    cases: dict[int, Case] = field(default_factory=dict)
    failures: dict[tuple[int, str], str] = field(default_factory=dict)  # "" for a text that the model cannot read
    meters: dict[str, Meter] = field(default_factory=dict)


def cases(
    classifier: Classifier,
    examples: Sequence[Example],
    methods: Mapping[str, Method],
    target: Target | None = None,
    seed: int = 0,
    others: Mapping[str, Classifier] | None = None,
    tell: Callable[[int, str], None] = lambda i, name: None,
) -> Cases:
    """A case for each example, with the explanations of every method."""
    result = Cases()
    cut: dict[int, Tokens] = {}
    for i, example in enumerate(examples):
        try:
            cut[i] = classifier.tokens(example.text, example.pair).cut(classifier.limit)
        except HeedfulError as e:
            result.failures[i, ""] = str(e)
    answers = dict(zip(cut, results_or_errors(classifier.predictions, list(cut.values())), strict=True))
    result.failures |= {(i, ""): str(error) for i, error in answers.items() if isinstance(error, HeedfulError)}
    predictions = {i: answer for i, answer in answers.items() if not isinstance(answer, HeedfulError)}
    numbers, cut = list(predictions), {i: cut[i] for i in predictions}
    if not numbers:
        return result
    targets = {i: (target or Target()).resolved(classifier.labels, predictions[i].index) for i in numbers}
    explanations: dict[int, dict[str, Explanation]] = {i: {} for i in numbers}
    for n, (name, method) in enumerate(methods.items()):
        tell(n, name)
        with metered() as result.meters[name]:
            attempts = try_method(classifier, method, list(cut.values()), list(targets.values()), seed)
        for i, attempt in zip(numbers, attempts, strict=True):
            if isinstance(attempt, HeedfulError):
                result.failures[i, name] = str(attempt)
            else:
                explanations[i][name] = replace(attempt, prediction=predictions[i])
    control = methods.get("random")
    random = control if isinstance(control, Random) else Random()
    for i in numbers:
        text = classifier, examples[i], cut[i], predictions[i], targets[i]
        case = Case(*text, methods, explanations[i], seed=seed, others=others or {})
        rngs = (case.rng("random", k) for k in range(random.draws))
        draws = tuple(random(classifier, case.tokens, case.target, rng) for rng in rngs)
        result.cases[i] = replace(case, draws=draws)
    return result


# the cost


_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class Meter:
    """CPU seconds of this process, and peak bytes above those held before; None where the system has none."""

    seconds: float = 0.0
    bytes: int | None = None


@contextmanager
def metered() -> Iterator[Meter]:
    """A Meter that is filled in when the block ends."""
    meter = Meter()
    before, start = _peak_bytes(reset=True), time.process_time()
    try:
        yield meter
    finally:
        meter.seconds = time.process_time() - start
        after = _peak_bytes()
        meter.bytes = None if before is None or after is None else max(0, after - before)


def _peak_bytes(reset: bool = False) -> int | None:
    """Peak memory since the last reset; None on systems other than Linux."""
    try:
        if reset:
            _RESET.write_text("5")
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        return None
