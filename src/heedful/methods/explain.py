"""Job one: explain. A text goes in, an Explanation for each method comes out, with where it came from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import version
from itertools import islice
from typing import Any, overload

import numpy as np
import torch

from heedful.core import settings
from heedful.core.errors import BadInput, HeedfulError, Unsupported, apart
from heedful.core.explanation import Attribution, Explanation, Prediction, Source
from heedful.core.random import seeded
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.methods import METHODS, Method
from heedful.methods import method as make
from heedful.methods.base import Passes
from heedful.model.classifier import Classifier

CHUNK = 64  # texts that explain_all holds at a time
Methods = Sequence[str | Method]


@overload
def explain(  # type: ignore[overload-overlap]
    classifier: Classifier,
    text: str,
    method: str | Method = ...,
    target: Target | str | int | None = ...,
    pair: str | None = ...,
    seed: int = ...,
    *,
    truncate: bool = ...,
    windows: bool = ...,
) -> Explanation: ...
@overload
def explain(
    classifier: Classifier,
    text: str,
    method: Methods,
    target: Target | str | int | None = ...,
    pair: str | None = ...,
    seed: int = ...,
    *,
    truncate: bool = ...,
    windows: bool = ...,
) -> list[Explanation]: ...
def explain(
    classifier: Classifier,
    text: str,
    method: str | Method | Methods = "integrated-gradients",
    target: Target | str | int | None = None,
    pair: str | None = None,
    seed: int = 0,
    *,
    truncate: bool = True,
    windows: bool = False,
) -> Explanation | list[Explanation]:
    """Explain one prediction with one method, or with each of a list.

    A text longer than the model's limit is cut, and the explanation says so; `truncate=False` makes it an error, and
    `windows=True` explains the mean over overlapping windows instead.
    """
    job = _Job(_methods(method), _target(target), seed, truncate, windows)
    found = job.many(classifier, [classifier.tokens(text, pair)])[0]
    return found if _several(method) else found[0]


def explain_all(
    classifier: Classifier,
    texts: Iterable[str | tuple[str, str]],
    method: str | Method | Methods = "integrated-gradients",
    target: Target | str | int | None = None,
    seed: int = 0,
    *,
    truncate: bool = True,
    windows: bool = False,
) -> Iterator[Any]:
    """Explain many texts, or (text, pair) tuples: lazily, in order, several at a time where the method can.

    Yields what `explain` returns for each text: an Explanation, or a list for a list of methods.
    """
    job = _Job(_methods(method), _target(target), seed, truncate, windows)
    return _stream(job, classifier, iter(texts), _several(method))


def _stream(job: _Job, classifier: Classifier, texts: Iterator[str | tuple[str, str]], several: bool) -> Iterator[Any]:
    while chunk := list(islice(texts, CHUNK)):
        cut = [classifier.tokens(*_text_and_pair(t)) for t in chunk]
        for found in job.many(classifier, cut):
            yield found if several else found[0]


def _text_and_pair(given: Any) -> tuple[str, str | None]:
    if isinstance(given, str):
        return given, None
    if isinstance(given, (tuple, list)) and len(given) == 2:
        return given[0], given[1]
    raise BadInput(f"{given!r} is not a text or a (text, pair) of two texts.")


def _several(given: str | Method | Methods) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, str)


def _methods(given: Any) -> list[Method]:
    wanted = list(given) if _several(given) else [given]
    if not wanted:
        raise BadInput("no method was given; `heedful methods` lists them all.")
    return [make(one) for one in wanted]


def _target(given: Target | str | int | None) -> Target:
    return given if isinstance(given, Target) else Target(given)


@dataclass(frozen=True)
class _Job:
    """What is asked of every text."""

    methods: list[Method]
    target: Target
    seed: int
    truncate: bool
    windows: bool

    def many(self, classifier: Classifier, texts: Sequence[Tokens]) -> list[list[Explanation]]:
        """For each text, an explanation by each method."""
        long = [i for i, t in enumerate(texts) if self.windows and classifier.limit and len(t) > classifier.limit]
        short = [i for i in range(len(texts)) if i not in set(long)]
        cut = [self._cut(classifier, texts[i]) for i in short]
        found: dict[int, list[Explanation]] = dict(zip(short, self._whole(classifier, cut), strict=True))
        return [found[i] if i in found else self._windowed(classifier, texts[i]) for i in range(len(texts))]

    def _cut(self, classifier: Classifier, tokens: Tokens) -> Tokens:
        cut = tokens.cut(classifier.limit)
        if cut.dropped and not self.truncate:
            raise BadInput(
                f"the text has {len(tokens):,} tokens and {classifier.name} reads {classifier.limit:,}; "
                "shorten it, allow truncation, or use windows."
            )
        return cut

    def _whole(
        self, classifier: Classifier, texts: list[Tokens], predictions: list[Prediction] | None = None
    ) -> list[list[Explanation]]:
        if not texts:
            return []
        predictions = predictions or classifier.predictions(texts)
        targets = [self.target.resolved(classifier.labels, p.index) for p in predictions]
        columns = [
            [
                replace(why, prediction=prediction)
                for why, prediction in zip(
                    explained(classifier, method, texts, targets, self.seed), predictions, strict=True
                )
            ]
            for method in self.methods
        ]
        return [list(row) for row in zip(*columns, strict=True)]

    def _windowed(self, classifier: Classifier, tokens: Tokens) -> list[Explanation]:
        """The mean over overlapping windows: the target explained is the mean of the windows' targets."""
        positions = tokens.windows(classifier.limit)
        parts = [tokens.take(at) for at in positions]
        logits = np.mean([p.logits for p in classifier.predictions(parts)], axis=0)
        whole = classifier.prediction(torch.tensor(logits))
        rows = self._whole(classifier, parts, [whole] * len(parts))
        return [_mean(tokens, positions, [row[m] for row in rows]) for m in range(len(self.methods))]


def explained(
    classifier: Classifier, method: Method, texts: Sequence[Tokens], targets: Sequence[Target], seed: int = 0
) -> list[Explanation]:
    """One method on every text, several texts at a time if it can; targets are resolved, predictions are not made."""
    found: dict[int, Explanation] = {}
    together = hasattr(method, "many")
    for group in classifier.batches(texts) if together else [[i] for i in range(len(texts))]:
        with classifier.lock:  # one job: the passes counted are its own
            before = classifier.forwards, classifier.backwards
            rngs = [_rng(seed, method, texts[i]) for i in group]
            if together:
                made = method.many(classifier, [texts[i] for i in group], [targets[i] for i in group], rngs)  # type: ignore[attr-defined]
            else:
                made = [method(classifier, texts[group[0]], targets[group[0]], rngs[0])]
            forwards, backwards = (
                (a - b) // len(group) for a, b in zip((classifier.forwards, classifier.backwards), before, strict=True)
            )
        for i, explanation in zip(group, made, strict=True):
            source = Source(
                method=METHODS.name_of(method),
                settings=settings.values(method),
                model=classifier.name,
                fingerprint=classifier.fingerprint,
                seed=seed,
                forwards=explanation.source.forwards or forwards,  # where texts of a batch differ, the method says it
                backwards=backwards,
                versions=versions(),
            )
            found[i] = replace(explanation, target=targets[i].named(classifier.labels), source=source)
    return [found[i] for i in range(len(texts))]


def _rng(seed: int, method: Method, tokens: Tokens) -> torch.Generator:
    """Chance that depends on seed, text and settings only: any explanation can be made again alone."""
    return seeded(seed, tokens.text, tokens.pair, *settings.key(METHODS.name_of(method), method))


def attempted(
    classifier: Classifier, method: Method, texts: Sequence[Tokens], targets: Sequence[Target], seed: int = 0
) -> list[Explanation | HeedfulError]:
    """As `explained`, with an error in the place of a text that cannot be: then each text is tried by itself."""

    def work(some: list[tuple[Tokens, Target]]) -> list[Explanation]:
        return list(explained(classifier, method, [t for t, _ in some], [target for _, target in some], seed))

    return apart(work, list(zip(texts, targets, strict=True)))


def _mean(tokens: Tokens, positions: Sequence[Sequence[int]], parts: Sequence[Explanation]) -> Explanation:
    """Each token's score is the sum over the windows that hold it, divided by the number of windows."""
    scores, errors = np.zeros(len(tokens)), np.zeros(len(tokens))
    for at, part in zip(positions, parts, strict=True):
        if not isinstance(part, Attribution):
            raise Unsupported(f"{part.method} cannot be joined over windows; explain a shorter text, or let it be cut.")
        scores[list(at)] += part.scores / len(parts)
        errors[list(at)] += (0 if part.errors is None else part.errors) / len(
            parts
        )  # at most, as if they went together
    first = parts[0]
    assert isinstance(first, Attribution)
    attributions = [part for part in parts if isinstance(part, Attribution)]
    source = replace(
        first.source,
        windows=len(parts),
        forwards=sum(p.source.forwards for p in parts),
        backwards=sum(p.source.backwards for p in parts),
    )
    return replace(
        first,
        tokens=tokens,
        scores=scores,
        errors=errors if any(p.errors is not None for p in attributions) else None,
        details={},
        base=_average([p.base for p in attributions]),
        gap=_average([p.gap for p in attributions]),
        source=source,
        notes=(*dict.fromkeys(n for p in parts for n in p.notes), f"mean over {len(parts)} overlapping windows"),
    )


def _average(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


@cache
def versions() -> dict[str, str]:
    """What is installed; read from the packages' files, so once is enough."""
    return {name: version(name) for name in ("heedful", "torch", "transformers")}


@dataclass(frozen=True)
class Plan:
    """A method and its passes over all texts; None where the method does not say."""

    method: str
    passes: Passes | None


def plan(classifier: Classifier, method: Method, texts: Iterable[Tokens]) -> Plan:
    """What one method will cost on these texts, each as it will be cut (see `parts`)."""
    counts = getattr(method, "passes", None)
    passes = None if counts is None else total(counts(classifier, tokens) for tokens in texts)
    return Plan(METHODS.name_of(method), passes)


def total(passes: Iterable[Passes]) -> Passes:
    """The sum; exact where every part is."""
    every = list(passes)
    return Passes(
        sum(p.forwards for p in every), sum(p.backwards for p in every), exactly=all(p.exactly for p in every)
    )


def parts(classifier: Classifier, tokens: Tokens, truncate: bool = True, windows: bool = False) -> Sequence[Tokens]:
    """The text as it will be given to the model: whole, cut at the model's limit, or in windows."""
    limit = classifier.limit
    if limit is None or len(tokens) <= limit:
        return [tokens]
    if windows:
        return [tokens.take(at) for at in tokens.windows(limit)]
    if not truncate:
        raise BadInput(
            f"the text has {len(tokens):,} tokens and {classifier.name} reads {limit:,}; "
            "shorten it, allow truncation, or use windows."
        )
    return [tokens.cut(limit)]


def shown(plans: Sequence[Plan], predictions: int) -> str:
    """A table of passes by method, and their sum."""
    rows = [(p.method, *_row(p.passes)) for p in plans]
    rows += [("the prediction itself", *_row(Passes(predictions)))]
    unknown = " and what is unknown" if any(p.passes is None for p in plans) else ""
    rows += [(f"total{unknown}", *_row(_sum(plans, predictions)))]
    heads = ("method", "forward", "backward")
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(3)]
    lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in [heads, *rows]]
    return "\n".join(lines)


def _row(passes: Passes | None) -> tuple[str, str]:
    if passes is None:
        return "unknown", "unknown"
    most = "" if passes.exactly else "at most "
    return f"{most}{passes.forwards:,}", f"{most if passes.backwards else ''}{passes.backwards:,}"


def _sum(plans: Sequence[Plan], predictions: int) -> Passes:
    return total([*(p.passes for p in plans if p.passes is not None), Passes(predictions)])


def shown_json(plans: Sequence[Plan], predictions: int) -> str:
    """The same as one line of JSON."""
    methods = [{"method": p.method, "passes": None if p.passes is None else asdict(p.passes)} for p in plans]
    unknown = [p.method for p in plans if p.passes is None]
    whole = asdict(_sum(plans, predictions))
    return json.dumps({"methods": methods, "predictions": predictions, "total": whole, "unknown": unknown})
