"""Chunks: the texts of one chunk of a run are explained and checked, and the findings are stored as its part.

A chunk's findings depend on nothing but the model, its texts, the settings and the seed: batches never cross a chunk,
and everything runs on one thread. So a run that was killed and resumed, or shared by several processes, ends with the
same summary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from heedful.audits.job import Job, describe_job, restore_job
from heedful.audits.machine import machine
from heedful.audits.run import CHUNK_TEXTS, Run, read_run
from heedful.audits.workers import ReportShare, silent
from heedful.checks import Check
from heedful.checks.base import RANDOM_DRAWS, Case
from heedful.core.errors import BadInput, HeedfulError, results_or_errors
from heedful.core.explanation import Explanation
from heedful.core.finding import LEFT_OUT, Finding
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.data import Example
from heedful.methods import Method
from heedful.methods.controls import Random
from heedful.methods.explain import try_method
from heedful.model.classifier import Classifier
from heedful.model.inference import sharing

Numbered = list[tuple[int, Finding]]


@dataclass(frozen=True)
class Chunks:
    """The chunks of a run, as work that `workers` do."""

    job: Job
    run: Run

    @property
    def place(self) -> Path:
        """The run folder."""
        return self.run.folder

    def do(self, chunk: int, tell: ReportShare = silent) -> None:
        """Explain and check the texts of one chunk, and store its part."""
        numbers = range(chunk * CHUNK_TEXTS, min(self.job.total, (chunk + 1) * CHUNK_TEXTS))
        with one_thread(), sharing(self.job.classifier):
            findings, texts, timing = chunk_of(self.job, [(n, self.job.order[n]) for n in numbers], tell)
        self.run.write(chunk, findings, texts, timing | {"machine": machine(self.job.classifier.device)})

    def describe(self, folder: Path) -> dict[str, Any]:
        """As JSON, for `restore` in another process."""
        described = describe_job(self.job, folder)
        return {"restore": f"{__name__}:Chunks.restore", "run": str(self.run.folder.absolute()), "job": described}

    @classmethod
    def restore(cls, described: Mapping[str, Any]) -> Chunks:
        """The inverse of `describe`; an error unless every weight and setting is that of the run."""
        job, run = restore_job(described["job"]), read_run(described["run"])
        if job.manifest().stamp != run.manifest.stamp:
            raise BadInput("another process restored a different model, data or setting; use jobs=1.")
        return cls(job, run)


@contextmanager
def one_thread() -> Iterator[None]:
    """The order of a sum depends on the number of threads, and so do its last digits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def chunk_of(
    job: Job, numbers: Sequence[tuple[int, int]], tell: ReportShare = silent
) -> tuple[Numbered, list[dict[str, Any]], dict[str, Any]]:
    """The findings on these texts (number in the run, index in the data), the rows of the texts, and the timing."""
    examples = [job.examples[index] for _, index in numbers]
    battery = job.battery
    steps = len(battery.methods) + len(battery.checks)
    forwards, recalled = job.classifier.forwards, job.classifier.recalled
    with metered() as whole:
        result = cases(
            job.classifier, examples, battery.methods, battery.target, job.seed, job.others,
            tell=lambda i, name: tell(name, i / steps),
        )  # fmt: skip
        findings = [
            (numbers[i][0], _left_out("explain" if method else "text", method, reason))
            for (i, method), reason in result.failures.items()
        ]
        seconds: dict[str, float] = {}
        for i, (name, check) in enumerate(battery.checks.items()):
            tell(name, (len(battery.methods) + i) / steps)
            with metered() as meter:
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


def _check_unique(findings: Numbered) -> None:
    """Raise if a check reports the same measurement twice for one text."""
    keys: set[tuple[Any, ...]] = set()
    for number, f in findings:
        key = (number, f.check, f.method, f.measure, f.place)
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
    for i in numbers:
        text = classifier, examples[i], cut[i], predictions[i], targets[i]
        case = Case(*text, methods, explanations[i], seed=seed, others=others or {})
        rngs = (case.rng("random", k) for k in range(RANDOM_DRAWS))
        draws = tuple(Random()(classifier, case.tokens, case.target, rng) for rng in rngs)
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
