"""Forecast: what an audit will cost. A sample of texts is tokenised and a few are run, to time this model here."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from heedful.audits.job import Job
from heedful.core.errors import HeedfulError
from heedful.core.tokens import Tokens
from heedful.methods.base import Passes, total

SAMPLED_TEXTS = 64  # whose passes are counted
TIMED_TEXTS = 16  # that are run


@dataclass(frozen=True)
class ForecastRow:
    """A method or a check, and its passes over all texts; None where unknown; `why` says why it cannot run."""

    kind: str
    name: str
    passes: Passes | None
    why: str = ""


@dataclass(frozen=True)
class Forecast:
    """The cost of a run: passes by method and check, and CPU seconds, very roughly."""

    texts: int
    lines: tuple[ForecastRow, ...]
    seconds: float

    @property
    def passes(self) -> Passes:
        """The passes of all methods and checks."""
        return total(line.passes for line in self.lines if line.passes is not None)

    def to_json(self) -> str:
        """One line of JSON."""
        lines = [asdict(line) for line in self.lines]
        return json.dumps({"texts": self.texts, "seconds": self.seconds, "total": asdict(self.passes), "plan": lines})


def forecast(job: Job) -> Forecast:
    """The cost of a job. Passes are an upper bound: an input that several methods and checks need runs once."""
    sample = []
    for index in job.order[: min(job.total, SAMPLED_TEXTS)]:
        example = job.examples[index]
        try:
            sample.append(job.classifier.tokens(example.text, example.pair).cut(job.classifier.limit))
        except HeedfulError:
            continue

    def count_passes(kind: str, name: str, item: Any, texts: int, *more: Any) -> ForecastRow:
        count, subset = getattr(item, "passes", None), sample[:texts]
        if count is None:
            return ForecastRow(kind, name, None)
        try:
            passes = total(count(job.classifier, tokens, *more) for tokens in subset)
        except HeedfulError as e:
            return ForecastRow(kind, name, None, str(e))
        scale = texts / max(1, len(subset))
        scaled = Passes(round(passes.forwards * scale), round(passes.backwards * scale), passes.exactly and scale == 1)
        return ForecastRow(kind, name, scaled)

    methods = job.battery.methods
    lines = [count_passes("method", name, method, job.total) for name, method in methods.items()]
    for name, check in job.battery.checks.items():
        texts = min(job.total, getattr(check, "texts", None) or job.total)
        lines.append(count_passes("check", name, check, texts, methods))
    all_passes = total(line.passes for line in lines if line.passes is not None)
    seconds = _seconds(job, sample[:TIMED_TEXTS]) * (all_passes.forwards + 2 * all_passes.backwards)
    return Forecast(job.total, tuple(lines), seconds)


def _seconds(job: Job, sample: Sequence[Tokens]) -> float:
    """CPU seconds of one forward pass in a batch; the second of two runs does not pay for warming up."""
    if not sample:
        return 0.0
    seconds = []
    for _ in range(2):
        start = time.process_time()
        with job.classifier.fast_inference():
            job.classifier.predictions(sample)
        seconds.append((time.process_time() - start) / len(sample))
    return min(seconds)
