"""Capabilities: what a classifier can be asked. Every method and every check is tried once, on one short text.

from heedful.audits.capabilities import capabilities
found = capabilities(heedful.load())
[one.name for one in found.methods if one.works]
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from heedful.audits.chunk import cases
from heedful.audits.job import battery
from heedful.checks import CHECKS, Case, check
from heedful.core import errors
from heedful.core.errors import Unsupported
from heedful.core.explanation import Attribution, Explanation, Prediction
from heedful.core.finding import LEFT_OUT, Finding
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.data import Example
from heedful.methods import METHODS, Method, Passes, method
from heedful.methods.explain import run_method
from heedful.model.classifier import Classifier, Reading
from heedful.model.function import Plain
from heedful.model.inference import answers, sharing
from heedful.model.masking import WAYS, Variants

Tell = Callable[[str], None]
TEXT = "A short probe. Read twice."  # two sentences: some networks attend to sentences
RATIONALE = ((2, 7),)  # "short"
NAMED = 12  # labels that are named, of any number
ZERO = "every score is zero on the probe text"
UNDEFINED = "no number of it is defined on the probe text"


@dataclass(frozen=True)
class Ability:
    """Whether a method or a check works on a model.

    `reason` says why not, or what is left out of one that works; `passes` what it would cost on the probe text: a
    method with its default settings, a check as in a quick audit.
    """

    name: str
    works: bool
    reason: str = ""
    passes: str = ""


@dataclass(frozen=True)
class Capabilities:
    """What a model is, as (fact, words), and what it can be asked."""

    model: str
    facts: tuple[tuple[str, str], ...]
    methods: tuple[Ability, ...]
    checks: tuple[Ability, ...]

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)


@dataclass(frozen=True)
class _Probe:
    """The text that everything is tried on."""

    classifier: Classifier
    tokens: Tokens
    prediction: Prediction
    target: Target


def capabilities(classifier: Classifier, tell: Tell = lambda doing: None) -> Capabilities:
    """Try everything on one short text; `tell` is given the name of what is tried next.

    A reason that begins with "fails:" is an error that nobody expected.
    """
    probe = _probe(classifier)
    found: dict[str, Explanation] = {}
    with sharing(classifier):
        methods = tuple(_method(probe, name, found, tell) for name in METHODS)
        checks = _checks(probe, found, tell)
        tell("facts")
        facts = _facts(probe, {one.name: one for one in methods})
    return Capabilities(classifier.name, facts, methods, checks)


def _probe(classifier: Classifier) -> _Probe:
    tokens = classifier.tokens(TEXT).cut(classifier.limit)
    said, reason = _attempt(lambda: classifier.predictions([tokens])[0])
    if said is None:
        raise Unsupported(f"{classifier.name} cannot read '{TEXT}', so nothing can be tried on it: {reason}")
    return _Probe(classifier, tokens, said, Target().resolved(classifier.labels, said.index))


def _attempt(attempt: Callable[[], Any]) -> tuple[Any, str]:
    """What is found, or why nothing is."""
    try:
        return attempt(), ""
    except Exception as e:  # also one that nobody expected: the other answers are still wanted
        return None, str(errors.told(e))


# methods


def _method(probe: _Probe, name: str, found: dict[str, Explanation], tell: Tell) -> Ability:
    """Try one; what it says goes to `found`."""
    tell(name)
    why, reason = _attempt(lambda: _explained(probe, name))
    if reason:
        return Ability(name, False, reason)
    found[name] = why
    counted, _ = _attempt(lambda: getattr(method(name), "passes", lambda *_: None)(probe.classifier, probe.tokens))
    silent = isinstance(why, Attribution) and not why.scores.any()
    return Ability(name, True, ZERO if silent else "", _words(counted))


def _small(name: str) -> Method:
    return method(name, getattr(METHODS[name], "probe", None))


def _explained(probe: _Probe, name: str) -> Explanation:
    return run_method(probe.classifier, _small(name), [probe.tokens], [probe.target])[0]


def _words(passes: Passes | None) -> str:
    """Passes(33, 32) -> "33 forward, 32 backward"; nothing where a method does not say."""
    if passes is None:
        return ""
    most = "" if passes.exactly or not passes.forwards else "at most "
    if not passes.forwards:
        return "none"
    return f"{most}{passes.forwards:,} forward" + (f", {passes.backwards:,} backward" if passes.backwards else "")


# checks


def _checks(probe: _Probe, found: Mapping[str, Explanation], tell: Tell) -> tuple[Ability, ...]:
    scores = {name: why for name, why in found.items() if isinstance(why, Attribution)}
    case, reason = _attempt(lambda: _case(probe, scores))
    if case is None:
        return tuple(Ability(name, False, reason) for name in CHECKS)
    return tuple(_check(case, name, tell) for name in CHECKS)


def _case(probe: _Probe, found: Mapping[str, Attribution]) -> Case:
    """The probe as a text under audit: with a label, a rationale, and what the methods say."""
    label = None if probe.classifier.head == "regression" else probe.prediction.label
    made = cases(probe.classifier, [Example(TEXT, label=label, rationale=RATIONALE)], {}, seed=0).cases[0]
    return replace(
        made,
        methods={name: _small(name) for name in found},
        explanations={name: replace(why, prediction=probe.prediction) for name, why in found.items()},
    )


def _check(case: Case, name: str, tell: Tell) -> Ability:
    tell(name)
    found, reason = _attempt(lambda: _found(case, name))
    if reason:
        return Ability(name, False, reason)
    told: list[Finding] = found
    left = list(dict.fromkeys(str(one.details.get("reason", "")) for one in told if one.measure == LEFT_OUT))
    values = [one.value for one in told if one.measure != LEFT_OUT]
    if not values:
        return Ability(name, False, "; ".join(left) or "it finds nothing on the probe text with the methods that work")
    notes = [f"left out: {reason}" for reason in left] + ([] if np.isfinite(values).any() else [UNDEFINED])
    counted, _ = _attempt(lambda: _cost(case, name))
    return Ability(name, True, "; ".join(notes), _words(counted))


def _found(case: Case, name: str) -> list[Finding]:
    one: Any = check(name, getattr(CHECKS[name], "probe", None))
    found: list[Finding] = one.many([case])[0] if hasattr(one, "many") else one(case)
    return found


def _cost(case: Case, name: str) -> Passes | None:
    """What the check takes on one text of a quick audit, with the methods that work."""
    quick = battery("quick")
    methods = {n: one for n, one in quick.methods.items() if n in case.methods}
    counted: Passes | None = getattr(quick.checks[name], "passes", lambda *_: None)(
        case.classifier, case.tokens, methods
    )
    return counted


# facts


def _facts(probe: _Probe, methods: Mapping[str, Ability]) -> tuple[tuple[str, str], ...]:
    classifier = probe.classifier
    own = _plain() if isinstance(classifier, Plain) else _model(classifier)
    inside = () if isinstance(classifier, Plain) else _inside(probe, methods["gradient-l2"])
    longest = "any length" if classifier.limit is None else f"{classifier.limit:,} tokens"
    shared = (("labels", _labels(classifier.labels)), ("longest text", longest))
    return (*own, *shared, *inside, *_maskings(classifier, probe.tokens))


def _plain() -> tuple[tuple[str, str], ...]:
    return (
        ("family", "a function from texts to probabilities"),
        ("tokenizer", "none: the words of the text"),
        ("attention", "none"),
        ("gradients", "none"),
    )


def _model(classifier: Classifier) -> tuple[tuple[str, str], ...]:
    family = f"{getattr(classifier.config, 'model_type', 'unknown')} ({type(classifier.model).__name__})"
    count = sum(p.numel() for p in classifier.model.parameters())
    dtype = str(next(classifier.model.parameters()).dtype).removeprefix("torch.")
    return (
        ("family", family),
        ("parameters", f"{count:,} ({dtype})"),
        ("head", _head(classifier)),
        ("tokenizer", _tokenizer(classifier.tokenizer)),
    )


def _head(classifier: Classifier) -> str:
    if classifier.head == "sigmoid":
        one = classifier.config.num_labels == 1
        return "sigmoid: one logit, yes or no" if one else "sigmoid: yes or no for each label"
    return "softmax: one of the labels" if classifier.head == "softmax" else "a number"


def _labels(labels: Sequence[str]) -> str:
    more = len(labels) - NAMED
    return f"{len(labels):,}: {', '.join(labels[:NAMED])}" + (f" and {more:,} more" if more > 0 else "")


def _tokenizer(tokenizer: Any) -> str:
    speed = "fast" if getattr(tokenizer, "is_fast", False) else "slow"
    marks = [mark for mark in ("mask", "unk", "pad") if getattr(tokenizer, f"{mark}_token_id", None) is not None]
    return f"{speed}; has {', '.join(marks)}" if marks else f"{speed}; has no mask, unk or pad token"


def _inside(probe: _Probe, gradient: Ability) -> tuple[tuple[str, str], ...]:
    classifier = probe.classifier
    reading, reason = _attempt(lambda: classifier.read(classifier.batch([probe.tokens])))
    side, broken = _attempt(lambda: classifier.padding or "none: texts of one length at a time")
    pooled = () if reading is None else (("head reads", _pooled(reading, probe.tokens)),)
    return (
        ("padding", broken or side),
        ("attention", reason or _attention(reading.weights)),
        ("gradients", gradient.reason or "reach the word vectors"),
        *pooled,
    )


def _attention(weights: Mapping[Any, Tensor]) -> str:
    """As seen: "self: 6 layers × 12 heads"."""
    kinds = dict.fromkeys(site.kind for site in weights)
    return "; ".join(_matrices(kind, [w for site, w in weights.items() if site.kind == kind]) for kind in kinds)


def _matrices(kind: str, weights: Sequence[Tensor]) -> str:
    heads = sorted({w.shape[1] for w in weights})
    count = f"{heads[0]}" if len(heads) == 1 else f"{heads[0]} to {heads[-1]}"
    return f"{kind}: {_counted(len(weights), 'layer')} × {count} {'head' if heads == [1] else 'heads'}"


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _pooled(reading: Reading, tokens: Tokens) -> str:
    if any(site.kind == "sentence" for site in reading.weights):
        return "sentences, by their attention"
    shares = reading.pooled[0]
    if len(shares) == 1:
        return "what one row of attention brings"
    at = shares.nonzero().flatten().tolist()
    if len(at) > 1:
        return f"{'all' if len(at) == len(shares) else f'{len(at)} of {len(shares)}'} positions"
    place = {0: "the first position", len(shares) - 1: "the last position"}.get(at[0], f"position {at[0] + 1}")
    return f"{place} ({tokens.pieces[at[0]]})" if len(shares) == len(tokens) else place


def _maskings(classifier: Classifier, tokens: Tokens) -> tuple[tuple[str, str], ...]:
    """Ways of taking words away that work, and why the others do not."""
    keep = np.ones((1, len(tokens)), dtype=bool)
    keep[0, tokens.content[0]] = False
    word = tokens.pieces[tokens.content[0]]

    def reason(way: str) -> str:
        return _attempt(lambda: answers(classifier, [Variants(tokens, keep, way.replace("WORD", word))]))[1]

    why = {way: reason(way) for way in (*WAYS, "token:WORD")}
    ways: dict[str, list[str]] = {}
    for way, said in why.items():
        ways.setdefault(said, []).append(way)
    works = ", ".join(ways.pop("", ())) or "none"
    return (("masking", works), *(("no masking", f"{', '.join(names)}: {said}") for said, names in ways.items()))
