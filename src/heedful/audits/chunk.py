"""Jobs of an audit: what runs on which texts, and how the texts of one chunk become findings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

from heedful import data
from heedful.audits.profiles import Battery
from heedful.audits.run import CHUNK, Manifest
from heedful.audits.summary import clean
from heedful.checks import Check
from heedful.checks.base import DRAWS, Case
from heedful.core.errors import BadInput, HeedfulError, apart
from heedful.core.explanation import Attribution, Explanation
from heedful.core.finding import LEFT_OUT, Finding
from heedful.core.target import Target, label_index
from heedful.core.tokens import Tokens
from heedful.data import Example
from heedful.methods import Method
from heedful.methods.controls import Random
from heedful.methods.explain import attempted, versions
from heedful.model.classifier import Classifier

Numbered = list[tuple[int, Finding]]


@dataclass(frozen=True)
class Job:
    """An audit as it was asked for: what runs, on which texts, in which folder."""

    classifier: Classifier
    examples: Sequence[Example]
    battery: Battery
    seed: int = 0
    others: Mapping[str, Classifier] = field(default_factory=dict)
    name: str = "the data"

    def __post_init__(self) -> None:
        if not self.examples:
            raise BadInput("there are no texts to audit; give at least one.")
        for example in self.examples:
            _check_label(example, self.classifier)

    def manifest(self) -> Manifest:
        """All that the summary depends on."""
        c = self.classifier
        settings = self.battery.to_dict() | {"chunk": CHUNK}
        if self.others:
            settings["checkpoints"] = {name: other.fingerprint for name, other in self.others.items()}
        settings |= _files(self.battery)
        return Manifest(
            model={"name": c.name, "fingerprint": c.fingerprint, "labels": list(c.labels)},
            data={"name": self.name, "fingerprint": data.fingerprint(self.examples), "texts": len(self.examples)},
            settings=clean(settings),
            seed=self.seed,
            versions=versions() | {name: version(name) for name in ("numpy", "scipy", "pyarrow")},
        )


def chunk_of(
    job: Job, numbers: Sequence[tuple[int, int]], tell: Callable[[str, int, int], None]
) -> tuple[Numbered, list[dict[str, Any]], dict[str, Any]]:
    """The findings on some texts (number in the run, index in the data), the texts, and what it took."""
    examples = [job.examples[index] for _, index in numbers]
    steps = len(job.battery.methods) + len(job.battery.checks)
    asked, recalled = job.classifier.forwards, job.classifier.recalled
    with metered() as whole:
        made = cases(
            job.classifier, examples, job.battery.methods, job.battery.target, job.seed, job.others,
            tell=lambda i, name: tell(name, i, steps),
        )  # fmt: skip
        findings = _absent(made, numbers)
        spent: dict[str, float] = {}
        for i, (name, check) in enumerate(job.battery.checks.items()):
            tell(name, len(job.battery.methods) + i, steps)
            with metered() as meter:
                findings += _checked(name, check, {numbers[k][0]: case for k, case in made.cases.items()})
            spent[name] = meter.seconds
    _check_once(findings)
    timing = {
        "texts": len(numbers),
        "seconds": whole.seconds,
        "methods": {name: {"seconds": m.seconds, "bytes": m.bytes} for name, m in made.meters.items()},
        "checks": spent,
        "passes": {
            "asked": job.classifier.forwards - asked,
            "shared": job.classifier.recalled - recalled,
        },
    }
    return findings, [_text(made, i, *numbers[i], examples[i]) for i in range(len(numbers))], timing


def _check_once(findings: Numbered) -> None:
    """Two numbers of the same thing would be one number too many."""
    seen: set[tuple[Any, ...]] = set()
    for number, one in findings:
        key = (number, one.check, one.method, one.measure, one.place)
        if key in seen and one.measure != LEFT_OUT:
            raise ValueError(
                f"{one.check} found '{one.measure}' of '{one.method}' at {one.place} twice on text {number}"
            )
        seen.add(key)


def _absent(made: Made, numbers: Sequence[tuple[int, int]]) -> Numbered:
    return [
        (numbers[i][0], _left_out("explain" if method else "text", method, reason))
        for (i, method), reason in made.absent.items()
    ]


def _left_out(check: str, method: str, reason: str) -> Finding:
    return Finding(check, method, LEFT_OUT, float("nan"), {}, {"reason": reason})


def _checked(name: str, check: Check, given: Mapping[int, Case]) -> Numbered:
    """A check on its cases; what it cannot do is told apart."""
    most = getattr(check, "texts", None)
    some = {number: case for number, case in given.items() if most is None or number < most}

    def work(cases: list[Case]) -> Sequence[Sequence[Finding]]:
        return check.many(cases) if hasattr(check, "many") else [check(case) for case in cases]

    found = [
        [_left_out(name, "", str(one))] if isinstance(one, HeedfulError) else one
        for one in apart(work, list(some.values()))
    ]
    return [(number, one) for number, several in zip(some, found, strict=True) for one in several]


def _text(made: Made, i: int, number: int, index: int, example: Example) -> dict[str, Any]:
    """A row of the run's texts."""
    case = made.cases.get(i)
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


def _check_label(example: Example, classifier: Classifier) -> None:
    """Refuse a label that the model does not have, before anything slow."""
    if isinstance(example.label, str) and classifier.head != "regression":
        try:
            label_index(example.label, classifier.labels)
        except BadInput as e:
            raise BadInput(f"{example.where or 'a text'}: {e}") from e


def _files(chosen: Battery) -> dict[str, Any]:
    """What the files that settings name hold: a file may change while its name stays."""
    found = {}
    for name, check in chosen.checks.items():
        path = getattr(check, "synonyms", None)
        if path is not None and Path(path).is_file():
            found[f"{name}.synonyms"] = blake2b(Path(path).read_bytes(), digest_size=16).hexdigest()
    return {"files": found} if found else {}


@dataclass
class Made:
    """Cases by the example's number, why a text or a method is absent, and what each method took."""

    cases: dict[int, Case] = field(default_factory=dict)
    absent: dict[tuple[int, str], str] = field(default_factory=dict)
    meters: dict[str, Meter] = field(default_factory=dict)


def cases(
    classifier: Classifier,
    examples: Sequence[Example],
    methods: Mapping[str, Method],
    target: Target | None = None,
    seed: int = 0,
    others: Mapping[str, Classifier] | None = None,
    tell: Callable[[int, str], None] = lambda i, name: None,
) -> Made:
    """A case for each example. A text that the model cannot read, or a method that cannot explain it, is told apart."""
    made = Made()
    cut: dict[int, Tokens] = {}
    for i, example in enumerate(examples):
        try:
            cut[i] = classifier.tokens(example.text, example.pair).cut(classifier.limit)
        except HeedfulError as e:
            made.absent[i, ""] = str(e)
    said = dict(zip(cut, apart(classifier.predictions, list(cut.values())), strict=True))
    made.absent |= {(i, ""): str(one) for i, one in said.items() if isinstance(one, HeedfulError)}
    predictions = {i: one for i, one in said.items() if not isinstance(one, HeedfulError)}
    numbers, cut = list(predictions), {i: cut[i] for i in predictions}
    if not numbers:
        return made
    wanted = target or Target()
    targets = {i: wanted.resolved(classifier.labels, predictions[i].index) for i in numbers}
    whys: dict[int, dict[str, Explanation]] = {i: {} for i in numbers}
    for n, (name, method) in enumerate(methods.items()):
        tell(n, name)
        with metered() as made.meters[name]:
            answers = attempted(classifier, method, list(cut.values()), list(targets.values()), seed)
        for i, found in zip(numbers, answers, strict=True):
            if isinstance(found, HeedfulError):
                made.absent[i, name] = str(found)
            else:
                whys[i][name] = replace(found, prediction=predictions[i])
    for i in numbers:
        case = Case(
            classifier, examples[i], cut[i], predictions[i], targets[i], methods, whys[i], (), seed, others or {}
        )
        made.cases[i] = replace(case, draws=_draws(case))
    return made


def _draws(case: Case) -> tuple[Attribution, ...]:
    rngs = (case.rng("random", i) for i in range(DRAWS))
    return tuple(Random()(case.classifier, case.tokens, case.target, rng) for rng in rngs)


_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class Meter:
    """What the work took: CPU seconds of this process, and bytes above what was held before; None where unknown."""

    seconds: float = 0.0
    bytes: int | None = None


@contextmanager
def metered() -> Iterator[Meter]:
    """Fill in a Meter when the work is done."""
    meter = Meter()
    before, start = _held(reset=True), time.process_time()
    try:
        yield meter
    finally:
        meter.seconds = time.process_time() - start
        after = _held()
        meter.bytes = None if before is None or after is None else max(0, after - before)


def _held(reset: bool = False) -> int | None:
    """The peak of memory since the last reset, in bytes; Linux tells, and forgets it on demand."""
    try:
        if reset:
            _RESET.write_text("5")
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        return None
