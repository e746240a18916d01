"""Stability: is the explanation the same with another seed, with more samples, or after another training?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from heedful.checks.base import PEAKS, QUICK_REEXPLAINING, Case, Finding, Floats, Measure, Passes
from heedful.checks.similarity import (
    SIMILARITY_MEASURES,
    Comparison,
    averaged,
    by_word,
    chosen,
    compare,
    left_out,
    passes_of,
    repeatable,
    times,
    unrelated,
)
from heedful.checks.tables import PeakSpread, StabilityTables, spread
from heedful.core.errors import BadInput, HeedfulError
from heedful.core.explanation import Attribution, Explanation
from heedful.core.finding import CORRELATION, DIVERGENCE, FRACTION, Place, Role, SideBySide
from heedful.core.settings import Checked, Ge
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.maths.distances import changes
from heedful.methods import METHODS, Method
from heedful.methods.base import total
from heedful.methods.explain import try_method
from heedful.model.classifier import Classifier

if TYPE_CHECKING:
    from heedful.core.finding import Findings

MEASURES = tuple(SIMILARITY_MEASURES)
SAMPLE_SETTINGS = ("samples", "draws", "steps")  # larger values bring a method closer to what it estimates
SAME_SCORES = 1e-6  # of the largest score: a smaller difference of two explanations is rounding
ATTENTION = "attention-mean"

Again = Explanation | HeedfulError


@dataclass(frozen=True)
class Stability(Checked):
    """The same text explained again: with other seeds, with `factor` times the samples, by other trained models.

    A deterministic method gives the same explanation with another seed: its tau is 1 and its distance 0. Where the
    first of `seeds` others shows that, the rest are not run. A method with more samples draws new ones. Checkpoints of
    the same training are compared by the names of their labels and the text's words, whatever their vocabularies.
    """

    name: ClassVar[str] = "stability"

    seeds: Annotated[int, Ge(1)] = 3
    factor: Annotated[int, Ge(2)] = 2
    methods: tuple[str, ...] | None = None
    texts: int | None = None

    title: ClassVar[str] = "Stability"
    question: ClassVar[str] = "Would another seed, more samples or another training give the same explanation?"
    reading: ClassVar[str] = (
        "A method without randomness has τ = 1 with another seed: that is no merit. Unstable samples mean that there "
        "are too few. A low similarity after another training speaks against an explanation only as far as the "
        "model's output stayed the same."
    )
    quick: ClassVar[Mapping[str, Any]] = QUICK_REEXPLAINING
    probe: ClassVar[Mapping[str, Any]] = {"seeds": 1, "methods": ("gradient-x-input", "lime")}
    summary: ClassVar[str] = "similarity of explanations with other seeds, samples, checkpoints"
    paper: ClassVar[str] = "Wiegreffe & Pinter 2019 (seeds of training); Alvarez-Melis & Jaakkola 2018"
    changes: ClassVar[str] = (
        "the method's seed; its number of samples; the model, replaced by another checkpoint of the same training"
    )
    measures: ClassVar[Mapping[str, Measure]] = {
        "tau": Measure(SIMILARITY_MEASURES["tau"].says, better="higher", range=CORRELATION),
        "top-k overlap": Measure(SIMILARITY_MEASURES["top-k overlap"].says, better="higher", range=FRACTION),
        "jsd": Measure(SIMILARITY_MEASURES["jsd"].says, better="lower", compared=False, range=DIVERGENCE),
        "distance": Measure(SIMILARITY_MEASURES["distance"].says, better="lower", compared=False),
        "output change": Measure("total variation distance between the outputs of the two models", range=FRACTION),
        "attention jsd": Measure(
            "JSD of the two models' attention over words; median over several checkpoints", range=DIVERGENCE
        ),
        "largest attention": Measure(
            "the model's largest attention to a word, as a share of all words'", range=FRACTION
        ),
    }
    compared: ClassVar[tuple[SideBySide, ...]] = (
        SideBySide("tau", "similarity with another seed (τ)", at={"with": "seed"}),
        SideBySide("tau", "similarity with more samples (τ)", at={"with": "samples"}),
    )
    roles: ClassVar[tuple[Role, ...]] = ("trainings",)

    def __call__(self, case: Case) -> list[Finding]:
        """Numbers for each method and each change."""
        return self.many([case])[0]

    def many(self, cases: Sequence[Case]) -> list[list[Finding]]:
        """The same for several texts of one run."""
        found: list[list[Finding]] = [[] for _ in cases]
        for name in dict.fromkeys(name for case in cases for name in repeatable(case, self.methods)):
            explained = [i for i, case in enumerate(cases) if name in case.attributions]
            for i, new in zip(explained, self._method(name, [cases[i] for i in explained]), strict=True):
                found[i] += new
        for i, (case, trained) in enumerate(zip(cases, _trainings(cases), strict=True)):
            found[i] += [*trained, *self._control(case), *left_out(self.name, case, self.methods)]
        return found

    def _method(self, name: str, cases: Sequence[Case]) -> list[list[Finding]]:
        """One method on those texts that it could explain."""
        method = cases[0].methods[name]
        found = [c.findings(self.name, name, MEASURES, {"with": "seed"}) for c in self._seeds(name, cases)]
        more = sampled(method, self.factor)
        if more is not None:
            _add(found, name, cases, try_method(*_arguments(cases, more)), {"with": "samples"})
        for label, other in cases[0].others.items():
            _add(found, name, cases, _by(other, method, cases), {"with": f"checkpoint:{label}"})
        return found

    def _seeds(self, name: str, cases: Sequence[Case]) -> list[Comparison]:
        """The mean over other seeds, or the first of them where it changes nothing."""
        first = [case.attributions[name] for case in cases]
        comparisons: list[list[Comparison]] = [[] for _ in cases]
        moving = list(range(len(cases)))
        for further in range(1, self.seeds + 1):
            reseeded = [replace(cases[i], seed=cases[i].seed + further) for i in moving]
            again = try_method(*_arguments(reseeded, cases[0].methods[name])) if reseeded else []
            for i, why in zip(moving, again, strict=True):
                comparisons[i].append(compare(first[i], why))
            moving = [i for i, why in zip(moving, again, strict=True) if not _same(first[i], why)]
        return [averaged(each) for each in comparisons]

    def _control(self, case: Case) -> list[Finding]:
        """The similarity of unrelated explanations, for another seed and for other models."""
        control = unrelated(case)
        places = ["seed", *(f"checkpoint:{label}" for label in case.others)]
        if control is None:
            return []
        return [f for place in places for f in control.findings(self.name, "random", MEASURES, {"with": place})]

    def passes(self, classifier: Classifier, tokens: Tokens, methods: Mapping[str, Method]) -> Passes:
        """At most: explanations with other seeds and with more samples. Passes of other checkpoints are not counted."""
        names = chosen(list(methods), self.methods)
        more = {name: m for name in names if (m := sampled(methods[name], self.factor)) is not None}
        seeds = times(passes_of(classifier, tokens, methods, names), self.seeds)
        return total([seeds, passes_of(classifier, tokens, more, list(more))])

    def tables(self, found: Findings) -> StabilityTables:
        """Wiegreffe & Pinter's figure: the median divergence by bins of the largest attention and predicted label."""
        jsd = found.values("attention jsd", "", {"with": "checkpoints"})
        largest = found.values("largest attention", "", {})
        rows = [
            _row(jsd[(found.texts["predicted"] == label) & _within(largest, low, high)], name, low, high)
            for label, name in enumerate(found.labels)
            for low, high in pairwise(PEAKS)
        ]
        return StabilityTables(tuple(rows) if any(row.n for row in rows) else ())


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
    """What `try_method` wants, as the cases were explained."""
    return cases[0].classifier, method, [c.tokens for c in cases], [c.target for c in cases], cases[0].seed


def _add(found: list[list[Finding]], name: str, cases: Sequence[Case], anew: Sequence[Again], at: Place) -> None:
    for i, (case, why) in enumerate(zip(cases, anew, strict=True)):
        found[i] += compare(case.attributions[name], why).findings(Stability.name, name, MEASURES, at)


def _same(first: Attribution, second: object) -> bool:
    """Whether they differ by rounding only, or no second one exists."""
    if not isinstance(second, Attribution):
        return True
    return bool(np.abs(first.scores - second.scores).max() <= SAME_SCORES * np.abs(first.scores).max())


# other checkpoints


def _by(other: Classifier, method: Method, cases: Sequence[Case]) -> list[Again]:
    """The method's explanation of each text with another model, for the label of the same name."""
    ready: dict[int, tuple[Tokens, Target]] = {}
    found: dict[int, Again] = {}
    for i, case in enumerate(cases):
        try:
            _check_labels(case.classifier, other)
            target = case.target.named(case.classifier.labels).resolved(other.labels, 0)
            ready[i] = other.tokens(case.tokens.text, case.tokens.pair).cut(other.limit), target
        except HeedfulError as e:
            found[i] = e
    anew = try_method(other, method, [t for t, _ in ready.values()], [t for _, t in ready.values()], cases[0].seed)
    found |= dict(zip(ready, anew, strict=True))
    return [found[i] for i in range(len(cases))]


def _trainings(cases: Sequence[Case]) -> list[list[Finding]]:
    """The distance of models of other trainings from this one, in output and in attention; nothing without any."""
    if not cases or not cases[0].others:
        return [[] for _ in cases]
    method = cases[0].methods.get(ATTENTION) or METHODS[ATTENTION]()
    own = [_attention(case, method) for case in cases]
    found: list[list[Finding]] = [[] for _ in cases]
    jsds: list[list[float]] = [[] for _ in cases]
    for label, other in cases[0].others.items():
        at: Place = {"with": f"checkpoint:{label}"}
        for i, (case, anew) in enumerate(zip(cases, _by(other, method, cases), strict=True)):
            c = compare(own[i], anew)
            jsds[i].append(c.values["jsd"])
            jsd = Finding(Stability.name, "", "attention jsd", c.values["jsd"], at, {"reason": c.why} if c.why else {})
            found[i] += [_output(case, other, at), jsd]
    return [[*each, *_overall(why, values)] for each, why, values in zip(found, own, jsds, strict=True)]


def _overall(own: Again, jsds: Sequence[float]) -> list[Finding]:
    """The median over those checkpoints that could be compared, and what it is plotted against."""
    known = [x for x in jsds if not np.isnan(x)]
    median = float(np.median(known)) if known else float("nan")
    return [
        Finding(Stability.name, "", "attention jsd", median, {"with": "checkpoints"}, {"of": len(known)}),
        Finding(Stability.name, "", "largest attention", _largest(own)),
    ]


def _attention(case: Case, method: Method) -> Again:
    why = case.attributions.get(ATTENTION)
    return try_method(*_arguments([case], method))[0] if why is None else why


def _largest(why: Again) -> float:
    """The largest attention to a word, as a share of all words'."""
    shares = np.array(list(by_word(why).values())) if isinstance(why, Attribution) else np.zeros(0)
    return float(shares.max() / shares.sum()) if shares.sum() > 0 else float("nan")


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


def _check_labels(own: Classifier, other: Classifier) -> None:
    if (sorted(own.labels), own.head) != (sorted(other.labels), other.head):
        raise BadInput(
            f"{other.name} answers {', '.join(other.labels)} ({other.head}) and {own.name} {', '.join(own.labels)} "
            f"({own.head}); give checkpoints of the same training."
        )


# the table


def _within(largest: Floats, low: float, high: float) -> NDArray[np.bool_]:
    """Which are in [low, high), the last bin with its end."""
    return (largest >= low) & ((largest < high) | (high == PEAKS[-1]))


def _row(jsd: Floats, label: str, low: float, high: float) -> PeakSpread:
    return PeakSpread(**asdict(spread(jsd)), label=label, start=low, end=high)
