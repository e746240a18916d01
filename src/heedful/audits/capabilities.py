"""Capabilities: what a classifier supports. Every method and every check is tried once, on one short text.

from heedful.audits.capabilities import capabilities
result = capabilities(heedful.load())
[ability.name for ability in result.methods if ability.works]
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
from heedful.methods.base import passes
from heedful.methods.explain import run_method
from heedful.model.classifier import Classifier, Reading
from heedful.model.function import Plain
from heedful.model.huggingface import fixed_weights, weight_counts
from heedful.model.inference import answers, sharing
from heedful.model.masking import WAYS, Variants
from heedful.model.prompted import Prompted

WatchProbe = Callable[[str], None]
Facts = tuple[tuple[str, str], ...]
TEXT = "A short probe. Read twice."  # two sentences: some networks attend to sentences
RATIONALE = ((2, 7),)  # "short"
MAX_LABELS = 12  # that are listed by name
ZERO = "every score is zero on the probe text"
UNDEFINED = "all its numbers are undefined on the probe text"
PLAIN_FACTS: Facts = (
    ("family", "a function from texts to probabilities"),
    ("tokenizer", "none: the words of the text"),
    ("attention", "none"),
    ("gradients", "none"),
)


@dataclass(frozen=True)
class Ability:
    """Whether a method or a check works on a model.

    `reason` says why it does not work, or what is left out where it does. `passes` is its cost on the probe text: of a
    method with its default settings, of a check as in the profile standard.
    """

    name: str
    works: bool
    reason: str = ""
    passes: str = ""


@dataclass(frozen=True)
class Capabilities:
    """The facts of a model, as (name, words), and the methods and checks that it supports."""

    model: str
    facts: Facts
    methods: tuple[Ability, ...]
    checks: tuple[Ability, ...]

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)

    def __repr__(self) -> str:
        """One line: Capabilities('tiny-bert', 30 of 33 methods, 15 of 16 checks)."""
        counts = (
            f"{sum(ability.works for ability in abilities)} of {len(abilities)} {kind}"
            for kind, abilities in (("methods", self.methods), ("checks", self.checks))
        )
        return f"Capabilities({self.model!r}, {', '.join(counts)})"


@dataclass(frozen=True)
class _Probe:
    """The text that everything is tried on."""

    classifier: Classifier
    tokens: Tokens
    prediction: Prediction
    target: Target


def capabilities(classifier: Classifier, tell: WatchProbe = lambda doing: None) -> Capabilities:
    """Try everything on one short text; `tell` is called with the name of what is tried next.

    A reason that begins with "fails:" is an unexpected error.
    """
    tokens = classifier.probe_tokens(TEXT)
    prediction, reason = _attempt(lambda: classifier.predictions([tokens])[0])
    if prediction is None:
        raise Unsupported(f"{classifier.name} cannot predict the probe text '{TEXT}': {reason}")
    probe = _Probe(classifier, tokens, prediction, Target().resolved(classifier.labels, prediction.index))
    explanations: dict[str, Explanation] = {}
    with sharing(classifier):
        methods = tuple(_try_method(probe, name, explanations, tell) for name in METHODS)
        case, reason = _attempt(lambda: _case(probe, explanations))
        checks = tuple(_try_check(case, name, tell) if case else Ability(name, False, reason) for name in CHECKS)
        tell("facts")
        facts = _facts(probe, next(ability for ability in methods if ability.name == "gradient-l2"))
    return Capabilities(classifier.name, facts, methods, checks)


def _attempt(attempt: Callable[[], Any]) -> tuple[Any, str]:
    """The result, or None and the reason."""
    try:
        return attempt(), ""
    except Exception as e:  # an unexpected one too: the other methods and checks are still tried
        return None, str(errors.as_heedful_error(e))


# methods


def _try_method(probe: _Probe, name: str, explanations: dict[str, Explanation], tell: WatchProbe) -> Ability:
    """Try one method; its explanation is added to `explanations`."""
    tell(name)
    why, reason = _attempt(lambda: run_method(probe.classifier, _small(name), [probe.tokens], [probe.target])[0])
    if reason:
        return Ability(name, False, reason)
    explanations[name] = why
    cost, _ = _attempt(lambda: passes(method(name), probe.classifier, [probe.tokens]))
    silent = isinstance(why, Attribution) and not why.scores.any()
    return Ability(name, True, ZERO if silent else "", _words(cost))


def _small(name: str) -> Method:
    return method(name, getattr(METHODS[name], "probe", None))


def _words(cost: Passes | None) -> str:
    """Passes(33, 32) -> "33 forward, 32 backward"; empty where a method does not say."""
    if cost is None:
        return ""
    if not cost.forwards:
        return "none"
    bound = "" if cost.exactly else "at most "
    return f"{bound}{cost.forwards:,} forward" + (f", {cost.backwards:,} backward" if cost.backwards else "")


# checks


def _case(probe: _Probe, explanations: Mapping[str, Explanation]) -> Case:
    """The probe as a text under audit: with a label, a rationale, and the scores of the methods that work."""
    label = None if probe.classifier.head == "regression" else probe.prediction.label
    example = Example(TEXT, probe.tokens.pair, label=label, rationale=RATIONALE)
    case = cases(probe.classifier, [example], {}, seed=0).cases[0]
    scores = {name: why for name, why in explanations.items() if isinstance(why, Attribution)}
    return replace(
        case,
        methods={name: _small(name) for name in scores},
        explanations={name: replace(why, prediction=probe.prediction) for name, why in scores.items()},
    )


def _try_check(case: Case, name: str, tell: WatchProbe) -> Ability:
    def measure() -> Sequence[Finding]:
        small: Any = check(name, getattr(CHECKS[name], "probe", None))
        findings: Sequence[Finding] = small.many([case])[0] if hasattr(small, "many") else small(case)
        return findings

    def cost() -> Any:
        """On one text of an audit in the profile standard, with the methods that work."""
        standard = battery("standard")
        methods = {name: method for name, method in standard.methods.items() if name in case.methods}
        return getattr(standard.checks[name], "passes", lambda *_: None)(case.classifier, case.tokens, methods)

    tell(name)
    findings, reason = _attempt(measure)
    if reason:
        return Ability(name, False, reason)
    left_out = dict.fromkeys(str(f.details.get("reason", "")) for f in findings if f.measure == LEFT_OUT)
    values = [finding.value for finding in findings if finding.measure != LEFT_OUT]
    if not values:
        return Ability(name, False, "; ".join(left_out) or "no finding on the probe text with the supported methods")
    notes = [f"left out: {reason}" for reason in left_out] + ([] if np.isfinite(values).any() else [UNDEFINED])
    return Ability(name, True, "; ".join(notes), _words(_attempt(cost)[0]))


# facts


def _facts(probe: _Probe, gradient: Ability) -> Facts:
    classifier = probe.classifier
    labels, limit = classifier.labels, classifier.limit
    more = f" and {len(labels) - MAX_LABELS:,} more" if len(labels) > MAX_LABELS else ""
    shared = (
        ("labels", f"{len(labels):,}: {', '.join(labels[:MAX_LABELS])}{more}"),
        ("longest text", "any length" if limit is None else f"{limit:,} tokens"),
    )
    masking = _maskings(classifier, probe.tokens)
    if isinstance(classifier, Plain):
        return (*PLAIN_FACTS, *shared, *masking)
    prompt = _prompt(classifier) if isinstance(classifier, Prompted) else ()
    return (*_model(classifier), *prompt, *shared, *_inside(probe, gradient), *masking)


def _prompt(classifier: Prompted) -> Facts:
    """The prompt, how labels are scored, and what is not read."""
    prompt, whole = classifier.prompt, classifier.model.whole
    pieces = classifier.tokenizer.convert_ids_to_tokens
    answers = [
        f"{label} {words!r}" + ("" if whole or len(tokens) == 1 else f" by its first token, {pieces(tokens[0])!r}")
        for (label, words), tokens in zip(prompt.verbalizer.items(), classifier.model.answers, strict=True)
    ]
    scoring = {"first": "first token", "sum": "whole string", "mean": "whole string, mean per token"}[prompt.scoring]
    kind = {"causal": "continues the prompt", "masked": "fills in the mask", "seq2seq": "answers by its decoder"}
    later = (("not read", "attention of a label's later tokens: edits change what these read, not their own weights"),)
    return (
        ("prompt", repr(prompt.template) + (", in the tokenizer's chat template" if prompt.chat else "")),
        ("answers", f"{kind[classifier.kind_of_model]}: {', '.join(answers[:MAX_LABELS])}"),
        ("labels scored by", f"log-probability of the {scoring}{', calibrated' if prompt.calibrate else ''}"),
        *(later if whole else ()),
    )


def _model(classifier: Classifier) -> Facts:
    counts = weight_counts(classifier.model)
    dtypes = next(iter(counts)) if len(counts) == 1 else ", ".join(f"{n:,} {dtype}" for dtype, n in counts.items())
    fixed = fixed_weights(classifier.model)
    head = {"softmax": "softmax: one of the labels", "sigmoid": "sigmoid: yes or no for each label"}
    one_logit = classifier.head == "sigmoid" and classifier.config.num_labels == 1
    tokenizer = classifier.tokenizer
    speed = "fast" if getattr(tokenizer, "is_fast", False) else "slow"
    marks = [mark for mark in ("mask", "unk", "pad") if getattr(tokenizer, f"{mark}_token_id", None) is not None]
    return (
        ("family", f"{getattr(classifier.config, 'model_type', 'unknown')} ({classifier.architecture})"),
        ("parameters", f"{sum(counts.values()):,} ({dtypes})"),
        *(() if fixed is None else (("fixed weights", f"{fixed}: they cannot be randomised or saved"),)),
        ("head", "sigmoid: one logit, yes or no" if one_logit else head.get(classifier.head, "a number")),
        ("tokenizer", f"{speed}; has {', '.join(marks) or 'no mask, unk or pad token'}"),
        *getattr(classifier.model, "facts", ()),
    )


def _inside(probe: _Probe, gradient: Ability) -> Facts:
    classifier = probe.classifier
    reading, reason = _attempt(lambda: classifier.read(classifier.batch([probe.tokens])))
    side, error = _attempt(lambda: classifier.padding or "none: texts of one length at a time")
    pooled = () if reading is None else (("head reads", _pooled(reading, probe.tokens)),)
    return (
        ("padding", error or side),
        ("attention", reason or _attention(reading.weights)),
        ("gradients", gradient.reason or "reach the word vectors"),
        *pooled,
    )


def _attention(weights: Mapping[Any, Tensor]) -> str:
    """As read: "self: 6 layers × 12 heads"."""
    heads: dict[str, list[int]] = {}
    for site, matrices in weights.items():
        heads.setdefault(site.kind, []).append(matrices.shape[1])
    parts = []
    for kind, counts in heads.items():
        layers = "1 layer" if len(counts) == 1 else f"{len(counts)} layers"
        low, high = min(counts), max(counts)
        per_layer = f"{low} to {high} heads" if low < high else "1 head" if low == 1 else f"{low} heads"
        parts.append(f"{kind}: {layers} × {per_layer}")
    return "; ".join(parts)


def _pooled(reading: Reading, tokens: Tokens) -> str:
    if any(site.kind == "sentence" for site in reading.weights):
        return "sentences, by their attention"
    shares = reading.pooled[0]
    if len(shares) == 1:
        return "the output of one attention row"
    at = shares.nonzero().flatten().tolist()
    if len(at) > 1:
        return f"{'all' if len(at) == len(shares) else f'{len(at)} of {len(shares)}'} positions"
    place = {0: "the first position", len(shares) - 1: "the last position"}.get(at[0], f"position {at[0] + 1}")
    return f"{place} ({tokens.pieces[at[0]]})" if len(shares) == len(tokens) else place


def _maskings(classifier: Classifier, tokens: Tokens) -> Facts:
    """The ways of masking words that work, and why the others do not."""
    keep = np.ones((1, len(tokens)), dtype=bool)
    keep[0, tokens.content[0]] = False
    word = tokens.pieces[tokens.content[0]]

    def reason(way: str) -> str:
        return _attempt(lambda: answers(classifier, [Variants(tokens, keep, way.replace("WORD", word))]))[1]

    ways: dict[str, list[str]] = {}  # by the reason; empty where they work
    for way in (*WAYS, "token:WORD"):
        ways.setdefault(reason(way), []).append(way)
    works = ", ".join(ways.pop("", ())) or "none"
    return (("masking", works), *(("no masking", f"{', '.join(names)}: {why}") for why, names in ways.items()))
