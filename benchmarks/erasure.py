"""Erasing: comprehensiveness, sufficiency and τ with leave-one-out of six methods, against ferret's protocol.

ferret wants other versions of its dependencies, so its protocol is re-enacted. For each explanation and each measure by
itself, the text is run as it is, and then without (or with only) its first 10 %, 20 %, … 100 % of words, or without
each of its words. Each input is decoded into a text, cut into tokens again, and 8 texts are run at a time, as ferret
does. In three points it is given our way, so that both sides have the same inputs: the units are words and not tokens,
their number is rounded and not cut off, and words with negative scores count too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.stats import kendalltau

from benchmarks.material import Scale, default, named, sentences, trained
from benchmarks.measure import Report, Row, Timed, in_turns
from heedful.audits.chunk import cases
from heedful.checks.agreement import Agreement
from heedful.checks.base import Case, Finding, by_unit, ranking
from heedful.checks.input_erasure import InputErasure, count, first
from heedful.core.arrays import Bools, Floats, Ints
from heedful.core.target import Target, activation
from heedful.data import Example
from heedful.methods import METHODS, method
from heedful.methods.explain import run_method
from heedful.methods.lime import Lime
from heedful.methods.perturbation import LeaveOneOut
from heedful.model.classifier import Classifier
from heedful.model.inference import Answers, Engine, answers, sharing
from heedful.model.masking import Variants, features, joined, over_positions

JOB = "erasure"
LOO, CHANCE = "leave-one-out", "one random order"
NAMES: tuple[Any, ...] = (
    "attention-mean", "gradient-x-input", "integrated-gradients", LOO, Lime(samples=100), "random",
)  # fmt: skip
SHARES = tuple(i / 10 for i in range(1, 11))
MEASURES = ("comprehensiveness", "sufficiency", "loo")
TOGETHER = 8  # texts that ferret runs at a time
CHECK = InputErasure(("delete",), SHARES, points=1, greedy_words=0, exhaustive_words=0)
TAU = Agreement(absolute=False)

Key = tuple[int, str, str]  # a text, a method, a measure


@dataclass(frozen=True)
class Question:
    """What a method is asked on one text for one measure: which words are kept, all of them first."""

    case: Case
    keep: Bools

    @property
    def variants(self) -> Variants:
        """The same over positions."""
        case = self.case
        return Variants(case.tokens, over_positions(features(case.tokens), self.keep, len(case.tokens)))

    def values(self, logits: torch.Tensor) -> Floats:
        """How far the label's probability falls with each set of words."""
        p = activation(logits, self.case.classifier.head)[:, self.case.prediction.index].double().numpy()
        return np.asarray(p[0] - p[1:])


Values = dict[Key, Floats]
Ask = Callable[[Classifier, Sequence[Question]], list[Floats]]
Side = Callable[[Classifier, Sequence[Case]], Any]


def explained_texts(classifier: Classifier, texts: Sequence[str]) -> list[Case]:
    """What the methods say. `random` is one draw under another name: by its own, the checks would take 20."""
    methods = {METHODS.name_of(m): m for m in map(method, NAMES)}
    made = cases(classifier, [Example(text) for text in texts], methods, Target(scale="probability"))
    return [replace(case, draws=(), explanations=_renamed(case)) for case in made.cases.values()]


def _renamed(case: Case) -> dict[str, Any]:
    return {CHANCE if name == "random" else name: why for name, why in case.explanations.items()}


def scores(case: Case, name: str) -> Floats:
    """A method's scores of the words, as the checks take them."""
    why = case.attributions[name]
    return by_unit(why.scores if why.signed else np.abs(why.scores), features(case.tokens))


def _order(case: Case, name: str) -> Ints:
    return ranking(scores(case, name), case.rng("input-erasure", name))


def questions(given: Sequence[Case]) -> dict[Key, Question]:
    """Everything that is asked, method by method and measure by measure."""
    return {
        (i, name, measure): Question(case, np.concatenate([np.ones((1, keep.shape[1]), bool), keep]))
        for name in given[0].attributions
        for measure in MEASURES
        for i, case in enumerate(given)
        for keep in [_kept(case, name, measure)]
    }


def _kept(case: Case, name: str, measure: str) -> Bools:
    n = len(features(case.tokens))
    if measure == "loo":
        return ~np.eye(n, dtype=bool)
    top = first(_order(case, name), [count(share, n) for share in SHARES])
    return top if measure == "sufficiency" else ~top


# ferret's protocol


def decoded(case: Case, variants: Variants) -> list[str]:
    """Each input as a text."""
    own, special = np.array(case.tokens.ids), np.array(case.tokens.special)
    return [case.classifier.tokenizer.decode(own[row].tolist()) for row in variants.keep & ~special]


def theirs(classifier: Classifier, asked: Sequence[Question]) -> list[Floats]:
    """Texts, 8 at a time, with the torch and the tokenizer that anybody has."""
    found = []
    for question in asked:
        texts = decoded(question.case, Variants(question.case.tokens, question.variants.keep[1:]))
        parts = [[question.case.tokens.text], *_parts(texts)]
        found.append(question.values(torch.cat([_logits(classifier, part) for part in parts])))
    return found


def _parts(texts: Sequence[str]) -> Iterator[list[str]]:
    for part in np.array_split(np.arange(len(texts)), math.ceil(len(texts) / TOGETHER)):
        yield [texts[i] for i in part]


def _logits(classifier: Classifier, texts: list[str]) -> torch.Tensor:
    cut = classifier.tokenizer(texts, return_tensors="pt", padding="longest", truncation=True)
    with torch.no_grad():
        logits: torch.Tensor = classifier.model(**cut).logits
    return logits


def strayed(question: Question) -> Bools:
    """Which of the decoded texts give other tokens than those that were meant."""
    return _other(question.case, Variants(question.case.tokens, question.variants.keep[1:]))


def _other(case: Case, variants: Variants) -> Bools:
    cut = case.classifier.tokenizer(decoded(case, variants))["input_ids"]
    meant = [np.array(case.tokens.ids)[row].tolist() for row in variants.keep]
    return np.array([a != b for a, b in zip(cut, meant, strict=True)])


# ours, step by step


class Repeating(Engine):
    """The engine without its memory: equal inputs run as often as they are asked."""

    def _answer_ids(self, chunk: Sequence[tuple[Variants, slice]]) -> Ints:
        rows = joined([variants.rows(self.classifier, part) for variants, part in chunk])
        before = sum(len(part) for part in self.logits)
        with self.classifier.fast_inference():
            self.logits.append(self._run(rows, rough=False))
        return np.arange(before, before + len(rows))


def one_by_one(classifier: Classifier, asked: Sequence[Question]) -> list[Floats]:
    """Token ids, one input at a time."""
    return _dealt(asked, Repeating(classifier, budget=1).ask([question.variants for question in asked]))


def batched(classifier: Classifier, asked: Sequence[Question]) -> list[Floats]:
    """All texts of a method and a measure together."""
    return _dealt(asked, Repeating(classifier).ask([question.variants for question in asked]))


def distinct(classifier: Classifier, asked: Sequence[Question]) -> list[Floats]:
    """The same, and equal inputs once."""
    return _dealt(asked, answers(classifier, [question.variants for question in asked]))


def _dealt(asked: Sequence[Question], said: Answers) -> list[Floats]:
    logits = torch.split(said.logits, [len(question.keep) for question in asked])
    return [question.values(part) for question, part in zip(asked, logits, strict=True)]


def evaluated(classifier: Classifier, given: Sequence[Case], ask: Ask) -> Values:
    """Each method and each measure by itself; of leave-one-out, τ with it."""
    found: Values = {}
    every = questions(given)
    for name in given[0].attributions:
        for measure in MEASURES:
            keys = [(i, name, measure) for i in range(len(given))]
            found |= dict(zip(keys, ask(classifier, [every[key] for key in keys]), strict=True))
    return found | {
        (i, name, "tau"): np.array([kendalltau(found[i, name, "loo"], scores(case, name))[0]])
        for i, case in enumerate(given)
        for name in case.attributions
    }


def ours(classifier: Classifier, given: Sequence[Case]) -> list[list[Finding]]:
    """As an audit does it: the checks, sharing what the model has answered. Leave-one-out runs in here, too."""
    with sharing(classifier):
        texts, targets = [case.tokens for case in given], [case.target for case in given]
        loo = run_method(classifier, LeaveOneOut(), texts, targets, 0)
        own = [
            replace(case, explanations={**case.explanations, LOO: why}) for case, why in zip(given, loo, strict=True)
        ]
        return [found + TAU(case) for found, case in zip(CHECK.many(own), own, strict=True)]


def as_values(found: Sequence[Sequence[Finding]]) -> Values:
    """The findings that ferret has as well. Agreement names a pair once, in either order."""
    values: Values = {}
    for i, text in enumerate(found):
        for one in text:
            if one.measure in MEASURES:
                key = i, one.method, one.measure
                values[key] = np.append(values.get(key, np.zeros(0)), one.value)
            elif one.measure == "tau" and LOO in (one.method, one.at["with"]):
                other = str(one.at["with"]) if one.method == LOO else one.method
                values[i, other, "tau"] = np.array([one.value])
    return values


# the report


def run(scale: Scale) -> Report:
    """The model that comes with the package, and the trained one; the split on some of the texts."""
    models = [default(), *([trained()] if trained() is not default() else [])]
    rows = [_rows(one, sentences(100)[: scale.few(100, 2)], scale.few(20, 1)) for one in models]
    return Report([row for some in rows for row in some])


def _rows(classifier: Classifier, texts: Sequence[str], few: int) -> list[Row]:
    given = explained_texts(classifier, texts)
    alone = {"one by one": one_by_one, "batched": batched, "distinct": distinct}
    steps: dict[str, Side] = {name: partial(evaluated, ask=ask) for name, ask in alone.items()}
    whole = _timed({"theirs": partial(evaluated, ask=theirs), "ours": ours}, classifier, given)
    split = _timed({**steps, "ours": ours}, classifier, given[:few])
    return [_whole(classifier, given, whole), *_split(classifier, given[:few], split)]


def _timed(sides: Mapping[str, Side], classifier: Classifier, given: Sequence[Case]) -> dict[str, Timed]:
    """Warm; seconds per text."""
    for side in sides.values():
        side(classifier, given[:1])
    timed = in_turns({name: partial(side, classifier, given) for name, side in sides.items()}, 1)
    return {name: Timed(one.seconds / len(given), one.result) for name, one in timed.items()}


def _on(classifier: Classifier, given: Sequence[Case]) -> str:
    return f"{len(given)} sentences of 25 tokens, {named(classifier)}"


def _whole(classifier: Classifier, given: Sequence[Case], timed: Mapping[str, Timed]) -> Row:
    stray = {key: strayed(question) for key, question in questions(given).items()}
    words, tokens = (_share(some) for some in (stray, _by_token(given)))
    results = timed["theirs"].result, timed["ours"].result
    off, tau = _apart(*results, stray), _taus_apart(*results, stray)
    return Row(
        JOB,
        _on(classifier, given),
        f"ferret's protocol, {TOGETHER} texts at a time",
        timed["theirs"].seconds,
        timed["ours"].seconds,
        5.0,
        f"differ by at most {off:.0e} (τ: {tau:.0e}), but for {words:.1%} of inputs that decoding made others "
        f"({tokens:.1%} where tokens are left out)",
    )


def _split(classifier: Classifier, given: Sequence[Case], timed: Mapping[str, Timed]) -> list[Row]:
    """What each step of ours brings."""
    asked, different = _passes(classifier, given)
    steps = (
        ("batches", "one by one", "batched", "one input at a time", ""),
        ("equal inputs of a measure once", "batched", "distinct", "the row above", ""),
        ("and of all once", "distinct", "ours", "the row above", f"; {asked} inputs per text, {different} different"),
    )
    return [
        Row(
            f"{JOB}, {what}",
            _on(classifier, given),
            against,
            timed[before].seconds,
            timed[after].seconds,
            None,
            f"differ by at most {_apart(timed[before].result, timed[after].result, {}):.0e}{more}",
        )
        for what, before, after, against, more in steps
    ]


def _passes(classifier: Classifier, given: Sequence[Case]) -> tuple[int, int]:
    """Inputs per text: asked for, and different ones among them."""
    said = answers(classifier, [question.variants for question in questions(given).values()])
    return round(len(said.which) / len(given)), round(said.distinct / len(given))


def _by_token(given: Sequence[Case]) -> dict[Key, Bools]:
    """Which inputs stray when each token, not each word, is left out: ferret's own unit."""
    found = {}
    for i, case in enumerate(given):
        tables = ~np.eye(len(case.tokens), dtype=bool)[list(case.tokens.content)]
        found[i, "", "loo"] = _other(case, Variants(case.tokens, tables))
    return found


def _share(stray: Mapping[Key, Bools]) -> float:
    return float(np.mean(np.concatenate(list(stray.values()))))


def _taus_apart(a: Any, b: Any, stray: Mapping[Key, Bools]) -> float:
    """The largest difference of a τ that both have, on texts of which every input was as it was meant."""
    after = as_values(b)
    keys = [key for key in after if key[2] == "tau" and not stray[(*key[:2], "loo")].any()]
    return float(np.nanmax([abs(a[key][0] - after[key][0]) for key in keys]))


def _apart(a: Any, b: Any, stray: Mapping[Key, Bools]) -> float:
    """The largest difference of a comprehensiveness or a sufficiency that both have on the tokens that were meant."""
    before, after = (as_values(one) if isinstance(one, list) else one for one in (a, b))
    keys = [key for key in before if key in after and key[2] in MEASURES]
    each = [np.abs(before[key] - after[key])[~stray.get(key, np.zeros(len(before[key]), bool))] for key in keys]
    return float(np.concatenate(each).max())
