"""Forecasting: what an audit will cost. Texts are cut and a few are run, to see how fast this model is here."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from heedful.audits.job import Job
from heedful.core.errors import HeedfulError
from heedful.core.tokens import Tokens
from heedful.methods.base import Passes, total
from heedful.model.classifier import Classifier

SAMPLE = 64  # texts that stand for all
TIMED = 16  # texts that are run


@dataclass(frozen=True)
class Line:
    """A method or a check, and its passes over all texts; None where it does not say, `why` where it cannot."""

    kind: str
    name: str
    passes: Passes | None
    why: str = ""


@dataclass(frozen=True)
class Forecast:
    """What a run will take: passes by method and check, and CPU seconds, very roughly."""

    texts: int
    lines: tuple[Line, ...]
    seconds: float

    @property
    def passes(self) -> Passes:
        """All of them."""
        return total(line.passes for line in self.lines if line.passes is not None)

    def to_json(self) -> str:
        """One line of JSON."""
        lines = [asdict(line) for line in self.lines]
        return json.dumps({"texts": self.texts, "seconds": self.seconds, "total": asdict(self.passes), "plan": lines})


def forecast(job: Job) -> Forecast:
    """What a job will cost. An input that several methods and checks ask for runs once: passes are an upper bound."""
    texts = job.total
    sample = _cut(job, min(texts, SAMPLE))
    c, chosen = job.classifier, job.battery
    lines = [_line("method", name, _passes(one, c), sample, texts) for name, one in chosen.methods.items()]
    for name, check in chosen.checks.items():
        count = min(texts, getattr(check, "texts", None) or texts)
        lines.append(_line("check", name, _passes(check, c, chosen.methods), sample, count))
    each = _seconds(job, sample[:TIMED])
    asked = total(line.passes for line in lines if line.passes is not None)
    return Forecast(texts, tuple(lines), each * (asked.forwards + 2 * asked.backwards))


def _cut(job: Job, count: int) -> list[Tokens]:
    found = []
    for index in job.order[:count]:
        example = job.examples[index]
        try:
            found.append(job.classifier.tokens(example.text, example.pair).cut(job.classifier.limit))
        except HeedfulError:
            continue
    return found


def _passes(one: Any, classifier: Classifier, *more: Any) -> Callable[[Tokens], Passes] | None:
    """How a method or check counts the passes of one text, if it can."""
    count = getattr(one, "passes", None)
    return None if count is None else lambda tokens: count(classifier, tokens, *more)


def _line(
    kind: str, name: str, passes: Callable[[Tokens], Passes] | None, sample: Sequence[Tokens], texts: int
) -> Line:
    some = sample[:texts]
    if passes is None:
        return Line(kind, name, None)
    try:
        found = total(map(passes, some))
    except HeedfulError as e:
        return Line(kind, name, None, str(e))
    scale = texts / max(1, len(some))
    exactly = found.exactly and scale == 1
    return Line(kind, name, Passes(round(found.forwards * scale), round(found.backwards * scale), exactly))


def _seconds(job: Job, sample: Sequence[Tokens]) -> float:
    """CPU seconds of one forward pass, in a batch, when everything is warm."""
    if not sample:
        return 0.0
    spent = []
    for _ in range(2):
        start = time.process_time()
        with job.classifier.fast_inference():
            job.classifier.predictions(sample)
        spent.append((time.process_time() - start) / len(sample))
    return min(spent)
