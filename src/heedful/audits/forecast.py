"""Forecast: what an audit will cost. A sample of texts is tokenised and a few are audited, to time this model here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from heedful.audits.chunk import chunk_of, one_thread, planned, seconds_by_name
from heedful.audits.job import Job
from heedful.audits.run import GROUP_TEXTS
from heedful.core.errors import HeedfulError
from heedful.methods.base import Passes, total
from heedful.model.inference import sharing

SAMPLED_TEXTS = 64  # whose passes are counted
CHEAP_SECONDS = 1.0  # a text that takes less is audited again, in a group


@dataclass(frozen=True)
class ForecastRow:
    """A method or a check, and its passes over all texts; None where unknown; `why` says why it cannot run."""

    kind: str
    name: str
    passes: Passes | None
    why: str = ""


@dataclass(frozen=True)
class Forecast:
    """The cost of a run: passes by method and check, and CPU seconds, from a few texts."""

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
    return Forecast(job.total, tuple(lines), _seconds(job) if sample else 0.0)


def _seconds(job: Job) -> float:
    """CPU seconds of the whole job: a text or a few go through all methods and checks, as in a run.

    The time of each method and check grows with the tokens in its passes, over a sample of texts.
    """
    places = job.order[: min(job.total, SAMPLED_TEXTS)]
    costs = {n: _cost(job, n) for n in range(len(places))}
    by_length = sorted(costs, key=lambda n: sum(costs[n].values()))
    timed = [by_length[len(by_length) // 2]]
    timing = _timed(job, timed)
    if timing["seconds"] < CHEAP_SECONDS:  # the first time pays for warming up, and a text alone for small batches
        middle = max(0, (len(by_length) - GROUP_TEXTS) // 2)
        timed = by_length[middle : middle + GROUP_TEXTS]
        timing = _timed(job, timed)
    seconds = seconds_by_name(timing)
    scale = job.total / len(places)
    expected: float = (timing["seconds"] - sum(seconds.values())) * job.total / len(timed)
    for name, spent in seconds.items():
        limit = getattr(job.battery.checks.get(name), "texts", None)
        share = 1.0 if limit is None else min(1.0, limit / job.total)
        measured, whole = (sum(costs[n][name] for n in some) for some in (timed, costs))
        expected += spent * whole / measured * scale * share
    return expected


def _cost(job: Job, number: int) -> dict[str, float]:
    """The planned tokens in the passes of each method and check on a text of the order."""
    example = job.examples[job.order[number]]
    try:
        length = len(job.classifier.tokens(example.text, example.pair).cut(job.classifier.limit))
    except HeedfulError:
        length = 1
    return {name: length * cost for name, cost in planned(job, example).items()}


def _timed(job: Job, numbers: Sequence[int]) -> dict[str, Any]:
    """The cost of texts at these places of the order; checks of the first texts only are run on them too."""
    with one_thread(), sharing(job.classifier):
        return chunk_of(job, [(k, job.order[n]) for k, n in enumerate(numbers)])[2]
