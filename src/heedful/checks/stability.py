"""Stability: is the explanation the same with another seed, with more samples, or after another training?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Annotated, Any, ClassVar, cast

import numpy as np
import torch

from heedful.checks import similarity
from heedful.checks.base import STANDARD_REEXPLAINING, Case, Divergence, Finding, Measure, Passes, Share, Together
from heedful.checks.similarity import SIMILARITY_MEASURES, Similarity
from heedful.checks.tables import StabilityTables, peak_spreads
from heedful.core.errors import BadInput, HeedfulError
from heedful.core.explanation import Attribution, Explanation
from heedful.core.finding import Findings, Place, Role, SideBySide
from heedful.core.settings import Ge
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.maths.distances import changes
from heedful.methods import METHODS, Method
from heedful.methods.base import total
from heedful.methods.explain import try_method
from heedful.model.classifier import Classifier

MEASURES = tuple(SIMILARITY_MEASURES)
SAMPLE_SETTINGS = ("samples", "draws", "steps")  # larger values bring a method closer to what it estimates
SAME_SCORES = 1e-6  # of the largest score: a smaller difference of two explanations is rounding
ATTENTION_METHOD = "attention-mean"

Again = Explanation | HeedfulError


@dataclass(frozen=True)
class Stability(Together):
    """The same text explained again: with other seeds, with `factor` times the samples, by other trained models.

    A deterministic method gives the same explanation with another seed: its tau is 1 and its distance 0. Where the
    first of `seeds` others shows that, the rest are not run. A method with more samples draws new ones. Checkpoints of
    the same training are compared by the names of their labels and the text's words; vocabularies may differ.
    """

    seeds: Annotated[int, Ge(1)] = 3
    factor: Annotated[int, Ge(2)] = 2
    methods: tuple[str, ...] | None = None
    texts: int | None = None

    name: ClassVar[str] = "stability"
    title: ClassVar[str] = "Stability"
    question: ClassVar[str] = "Would another seed, more samples or another training give the same explanation?"
    reading: ClassVar[str] = (
        "A deterministic method has τ = 1 with another seed, which is no merit. A low similarity with more samples "
        "means that there are too few. A low similarity after another training is evidence against an explanation only "
        f"where the model's output stayed the same. {similarity.COMPARED_WORDS}"
    )
    standard: ClassVar[Mapping[str, Any]] = STANDARD_REEXPLAINING
    probe: ClassVar[Mapping[str, Any]] = {"seeds": 1, "methods": ("gradient-x-input", "lime")}
    summary: ClassVar[str] = "similarity of explanations with other seeds, samples, checkpoints"
    paper: ClassVar[str] = "Wiegreffe & Pinter 2019 (seeds of training); Alvarez-Melis & Jaakkola 2018"
    changes: ClassVar[str] = (
        "the method's seed; its number of samples; the model, replaced by another checkpoint of the same training"
    )
    measures: ClassVar[Mapping[str, Measure]] = {
        "tau": replace(SIMILARITY_MEASURES["tau"], better="higher"),
        "top-k overlap": replace(SIMILARITY_MEASURES["top-k overlap"], better="higher"),
        "jsd": replace(SIMILARITY_MEASURES["jsd"], better="lower"),
        "distance": replace(SIMILARITY_MEASURES["distance"], better="lower"),
        "output change": Share("total variation distance between the outputs of the two models"),
        "attention jsd": Divergence("JSD of the two models' attention over words; median over several checkpoints"),
        "largest attention": Share("the model's largest attention to a word, as a share of all words'"),
    }
    compared: ClassVar[tuple[SideBySide, ...]] = (
        SideBySide("tau", "similarity with another seed (τ)", at={"with": "seed"}),
        SideBySide("tau", "similarity with more samples (τ)", at={"with": "samples"}),
    )
    roles: ClassVar[tuple[Role, ...]] = ("trainings",)

    def many(self, cases: Sequence[Case]) -> list[list[Finding]]:
        """Numbers for each method and each change."""
        findings: list[list[Finding]] = [[] for _ in cases]
        for name, explained in similarity.explained_cases(cases, self.methods):
            for i, new in zip(explained, self._method(name, [cases[i] for i in explained]), strict=True):
                findings[i] += new
        for i, (case, trained) in enumerate(zip(cases, _trainings(cases), strict=True)):
            findings[i] += [
                *trained,
                *self._control(case),
                *similarity.left_out_findings(self.name, case, self.methods),
            ]
        return findings

    def _method(self, name: str, cases: Sequence[Case]) -> list[list[Finding]]:
        """One method on those texts that it could explain."""
        method = cases[0].methods[name]
        findings = [c.findings(self.name, name, MEASURES, {"with": "seed"}) for c in self._seeds(name, cases)]
        more = sampled(method, self.factor)
        explained_again = {} if more is None else {"samples": try_method(*_arguments(cases, more))}
        for label, other in cases[0].others.items():
            explained_again[f"checkpoint:{label}"] = _explained_by(other, method, cases)
        for change, explanations in explained_again.items():
            for i, (case, why) in enumerate(zip(cases, explanations, strict=True)):
                comparison = similarity.compare_explanations(case, case.attributions[name], why)
                findings[i] += comparison.findings(self.name, name, MEASURES, {"with": change})
        return findings

    def _seeds(self, name: str, cases: Sequence[Case]) -> list[Similarity]:
        """The mean over other seeds, or the first of them where it changes nothing."""
        first = [case.attributions[name] for case in cases]
        comparisons: list[list[Similarity]] = [[] for _ in cases]
        moving = list(range(len(cases)))
        for further in range(1, self.seeds + 1):
            reseeded = [replace(cases[i], seed=cases[i].seed + further) for i in moving]
            again = try_method(*_arguments(reseeded, cases[0].methods[name])) if reseeded else []
            for i, why in zip(moving, again, strict=True):
                comparisons[i].append(similarity.compare_explanations(cases[i], first[i], why))
            moving = [i for i, why in zip(moving, again, strict=True) if not _same(first[i], why)]
        return [similarity.averaged(each) for each in comparisons]

    def _control(self, case: Case) -> list[Finding]:
        """The similarity of unrelated explanations, for another seed and for other models."""
        control = similarity.unrelated(case)
        places = ["seed", *(f"checkpoint:{label}" for label in case.others)]
        if control is None:
            return []
        return [f for place in places for f in control.findings(self.name, "random", MEASURES, {"with": place})]

    def passes(self, classifier: Classifier, tokens: Tokens, methods: Mapping[str, Method]) -> Passes:
        """At most: explanations with other seeds and with more samples. Passes of other checkpoints are not counted."""
        names = similarity.methods_used(list(methods), self.methods)
        more = {name: m for name in names if (m := sampled(methods[name], self.factor)) is not None}
        seeds = similarity.times(similarity.passes_of(classifier, tokens, methods, names), self.seeds)
        return total([seeds, similarity.passes_of(classifier, tokens, more, list(more))])

    def tables(self, findings: Findings) -> StabilityTables:
        """Wiegreffe & Pinter's figure: the median divergence by bins of the largest attention and predicted label."""
        jsd = findings.values("attention jsd", "", {"with": "checkpoints"})
        largest = findings.values("largest attention", "", {})
        rows = peak_spreads(findings, largest, jsd)
        return StabilityTables(rows if any(row.n for row in rows) else ())


def sampled(method: Any, factor: int) -> Method | None:
    """The method with `factor` times the samples; None where it has no number of samples."""
    if not is_dataclass(method) or isinstance(method, type):
        return None
    now = {f.name: getattr(method, f.name) for f in fields(method) if f.init and f.name in SAMPLE_SETTINGS}
    more = {name: n * factor for name, n in now.items() if isinstance(n, int) and not isinstance(n, bool)}
    if not more:
        return None
    changed: Any = replace(method, **more)
    return cast(Method, changed)


def _arguments(cases: Sequence[Case], method: Method) -> tuple[Classifier, Method, list[Tokens], list[Target], int]:
    """The arguments of `try_method` with which the cases were explained."""
    return cases[0].classifier, method, [c.tokens for c in cases], [c.target for c in cases], cases[0].seed


def _same(first: Attribution, second: object) -> bool:
    """Whether they differ only by rounding, or there is no second one."""
    if not isinstance(second, Attribution):
        return True
    return bool(np.abs(first.scores - second.scores).max() <= SAME_SCORES * np.abs(first.scores).max())


# other checkpoints


def _explained_by(other: Classifier, method: Method, cases: Sequence[Case]) -> list[Again]:
    """The method's explanation of each text with another model, for the label of the same name."""
    ready: dict[int, tuple[Tokens, Target]] = {}
    results: dict[int, Again] = {}
    for i, case in enumerate(cases):
        try:
            _check_labels(case.classifier, other)
            target = case.target.named(case.classifier.labels).resolved(other.labels, 0)
            ready[i] = other.tokens(case.tokens.text, case.tokens.pair).cut(other.limit), target
        except HeedfulError as e:
            results[i] = e
    tokens, targets = [tokens for tokens, _ in ready.values()], [target for _, target in ready.values()]
    results |= zip(ready, try_method(other, method, tokens, targets, cases[0].seed), strict=True)
    return [results[i] for i in range(len(cases))]


def _trainings(cases: Sequence[Case]) -> list[list[Finding]]:
    """The distance of models of other trainings from this one, in output and in attention; empty without any."""
    if not cases or not cases[0].others:
        return [[] for _ in cases]
    method = cases[0].methods.get(ATTENTION_METHOD) or METHODS[ATTENTION_METHOD]()
    attentions = [
        case.attributions.get(ATTENTION_METHOD) or try_method(*_arguments([case], method))[0] for case in cases
    ]
    findings: list[list[Finding]] = [[] for _ in cases]
    jsds: list[list[float]] = [[] for _ in cases]
    for label, other in cases[0].others.items():
        at: Place = {"with": f"checkpoint:{label}"}
        for i, (case, why) in enumerate(zip(cases, _explained_by(other, method, cases), strict=True)):
            c = similarity.compare_explanations(case, attentions[i], why)
            jsds[i].append(c.values["jsd"])
            jsd = Finding(Stability.name, "", "attention jsd", c.values["jsd"], at, {"reason": c.why} if c.why else {})
            findings[i] += [_output(case, other, at), jsd]
    return [[*each, *_overall(why, values)] for each, why, values in zip(findings, attentions, jsds, strict=True)]


def _overall(attention: Again, jsds: Sequence[float]) -> list[Finding]:
    """The median over those checkpoints that could be compared; and the largest attention to a word, as a share."""
    known = [x for x in jsds if not np.isnan(x)]
    median = float(np.median(known)) if known else float("nan")
    by_word = similarity.word_scores(attention) if isinstance(attention, Attribution) else {}
    words = np.array(list(by_word.values()))
    largest = float(words.max() / words.sum()) if words.sum() > 0 else float("nan")
    return [
        Finding(Stability.name, "", "attention jsd", median, {"with": "checkpoints"}, {"of": len(known)}),
        Finding(Stability.name, "", "largest attention", largest),
    ]


def _output(case: Case, other: Classifier, at: Place) -> Finding:
    """The distance of the other model's output, labels matched by name."""
    try:
        tokens = other.tokens(case.tokens.text, case.tokens.pair).cut(other.limit)
        _check_labels(case.classifier, other)
        logits = other.predictions([tokens])[0].logits
    except HeedfulError as e:
        return Finding(Stability.name, "", "output change", float("nan"), at, {"reason": str(e)})
    ordered = [logits[other.labels.index(label)] for label in case.classifier.labels]
    new, base = (torch.tensor(x, dtype=torch.float64) for x in ([ordered], case.prediction.logits))
    return Finding(Stability.name, "", "output change", float(changes(new, base, case.classifier.head).tvd[0]), at)


def _check_labels(classifier: Classifier, other: Classifier) -> None:
    if (sorted(classifier.labels), classifier.head) != (sorted(other.labels), other.head):
        raise BadInput(
            f"{other.name} has the labels {', '.join(other.labels)} ({other.head}), and {classifier.name} has "
            f"{', '.join(classifier.labels)} ({classifier.head}); give checkpoints of the same training."
        )
