"""Axioms: properties that scores should have, and their cost.

Sign            a positive score supports the target
Completeness    all scores add up to the value that they explain
Infidelity      the scores of any set of words add up to the set's effect
Complexity      how many words an explanation consists of
Cost            passes of a method for one explanation

The effect of a word (or a set) is the target's value for the text less its value without the word. An unsigned
method's magnitudes count as support.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from heedful.checks import base
from heedful.checks.base import Case, CheckUnit, Correlation, Finding, Free, Measure, Passes, Share, Together
from heedful.core.arrays import Bools, Floats
from heedful.core.explanation import Attribution
from heedful.core.finding import Highlight, Role, SideBySide
from heedful.core.settings import Ge
from heedful.core.tokens import Tokens
from heedful.maths.ranks import SCORE_PRECISION, entropy, gini, merge_ties
from heedful.methods import Method
from heedful.model.classifier import Classifier
from heedful.model.masking import Masking, features


@dataclass(frozen=True)
class Sign(Together):
    """Does the strongest word have an effect with the sign of its score?

    The `top` strongest words by magnitude are removed one at a time; a violation is a word whose effect has the
    opposite sign. A score of zero is not counted; a removal without an effect is not a violation.
    """

    top: Annotated[int, Ge(1)] = 1
    masking: Masking = "delete"
    unit: CheckUnit = "word"

    name: ClassVar[str] = "sign"
    title: ClassVar[str] = "Signs"
    question: ClassVar[str] = "Does the strongest word have an effect with the sign of its score?"
    reading: ClassVar[str] = (
        "An unsigned method claims that every word supports the label: its violations are words that oppose it. "
        "Leave-one-out with the same masking has no violations by definition. In a long text most effects are small, "
        "and their signs depend on the masking."
    )
    summary: ClassVar[str] = "whether scores have the sign of the word's effect"
    paper: ClassVar[str] = "Liu et al. 2022"
    changes: ClassVar[str] = "words are removed one at a time; the setting masking says how"
    measures: ClassVar[Mapping[str, Measure]] = {
        "violation": Share("removing the strongest word moves the target against its score", "rate", "lower"),
        "agreement of signs": Share("share of words whose score has the sign of their effect", better="higher"),
    }
    highlights: ClassVar[tuple[Highlight, ...]] = (
        Highlight("violation", "the strongest word has the wrong sign: lower is better", head="sign"),
    )
    compared: ClassVar[tuple[SideBySide, ...]] = (
        SideBySide("violation", "texts whose strongest word has the wrong sign"),
    )

    def passes(self, classifier: Classifier, tokens: Tokens, methods: Mapping[str, Method]) -> Passes:
        """The text itself, and without each word."""
        return Passes(1 + len(features(tokens, self.unit)), exactly=False)

    def many(self, cases: Sequence[Case]) -> list[list[Finding]]:
        """Two numbers for each method."""
        keeps = [~np.eye(len(features(case.tokens, self.unit)), dtype=bool) for case in cases]
        word_effects = base.removal_effects(cases, keeps, self.unit, self.masking)
        return [self._findings(case, effect) for case, effect in zip(cases, word_effects, strict=True)]

    def _findings(self, case: Case, effect: Floats) -> list[Finding]:
        groups = features(case.tokens, self.unit)
        effect = without_noise(effect)

        def numbers(why: Attribution, name: str) -> dict[str, float]:
            scores = without_noise(base.claims(why, groups))
            strongest = base.ranking(merge_ties(np.abs(scores)[None])[0], case.rng(self.name, name))[: self.top]
            return {
                "violation": violation(scores[strongest], effect[strongest]),
                "agreement of signs": same_signs(scores, effect),
            }

        return base.findings(self.name, case, numbers)


def without_noise(numbers: Floats) -> Floats:
    """Zero for numbers below a millionth of the largest."""
    return np.where(np.abs(numbers) > SCORE_PRECISION * np.abs(numbers).max(initial=0), numbers, 0.0)


def violation(scores: Floats, effect: Floats) -> float:
    """Liu et al. 2022: the share of scores whose effect has the opposite sign; NaN if all scores are zero."""
    nonzero = scores != 0
    return float((scores * effect < 0)[nonzero].mean()) if nonzero.any() else float("nan")


def same_signs(scores: Floats, effect: Floats) -> float:
    """Of the words with both a score and an effect, the share for which their signs agree; NaN if there is none."""
    both = (scores != 0) & (effect != 0)
    return float((np.sign(scores) == np.sign(effect))[both].mean()) if both.any() else float("nan")


@dataclass(frozen=True)
class Completeness(Free):
    """Do scores add up to the target's value less its value at the method's baseline?"""

    name: ClassVar[str] = "completeness"
    title: ClassVar[str] = "Completeness"
    question: ClassVar[str] = "Do the scores add up to the value that they explain?"
    reading: ClassVar[str] = (
        "Only methods that claim completeness are measured. A small gap shows that the sum is accurate, not that each "
        "score is right: any scores with the same sum have the same gap. The relative gap is large where text and "
        "baseline have nearly the same value."
    )
    summary: ClassVar[str] = "whether scores add up to the value that they explain"
    paper: ClassVar[str] = "Sundararajan et al. 2017"
    changes: ClassVar[str] = "nothing is changed; only methods that claim completeness are measured"
    measures: ClassVar[Mapping[str, Measure]] = {
        "gap": Measure("|value − baseline's value − sum of scores|", better="lower"),
        "relative gap": Measure("the gap as a share of |value − baseline's value|", better="lower"),
        "sum": Measure("the sum of all scores, special tokens included"),
    }

    def __call__(self, case: Case) -> list[Finding]:
        """Three numbers for each method that claims completeness; none for the others."""
        findings = []
        for name, why in case.attributions.items():
            if why.gap is not None:
                total = float(why.scores.sum())
                claimed = abs(why.gap + total)
                relative = abs(why.gap) / claimed if claimed > 0 else float("nan")
                numbers = {"gap": abs(why.gap), "relative gap": relative, "sum": total}
                findings += [Finding(self.name, name, measure, value) for measure, value in numbers.items()]
        return findings


@dataclass(frozen=True)
class Infidelity(Together):
    """Do the scores of a set of words add up to the effect of removing the set?

    `samples` sets of 1 to n − 1 words, each size equally likely, the same for all methods of a text. "infidelity" is in
    the target's own units (squared), so it is for methods whose scores have these units; the others are scale-free.
    """

    samples: Annotated[int, Ge(2)] = 50
    masking: Masking = "delete"
    unit: CheckUnit = "word"

    name: ClassVar[str] = "infidelity"
    title: ClassVar[str] = "Infidelity"
    question: ClassVar[str] = "Do the scores of a set of words add up to its effect?"
    reading: ClassVar[str] = (
        "Infidelity is in squared units of the target, and is meaningful only for methods whose scores have that unit. "
        "Even random scores correlate where larger sets have larger effects, so judge by the difference to random. "
        "LIME and Shapley values optimise nearly the same quantity, with the same masking."
    )
    probe: ClassVar[Mapping[str, Any]] = {"samples": 5}
    summary: ClassVar[str] = "whether the scores of sets of words add up to their effect"
    paper: ClassVar[str] = "Yeh et al. 2019; Bhatt et al. 2020"
    changes: ClassVar[str] = "random sets of words are removed; the setting masking says how"
    measures: ClassVar[Mapping[str, Measure]] = {
        "correlation": Correlation("Pearson's r of the sum of a set's scores and its effect", better="higher"),
        "infidelity": Measure("mean of (sum of a set's scores − its effect)²", better="lower", compared=False),
        "infidelity scaled": Measure(
            "the same with scores times the best factor ≥ 0, as a share of the mean effect²", better="lower"
        ),
    }

    def passes(self, classifier: Classifier, tokens: Tokens, methods: Mapping[str, Method]) -> Passes:
        """The text itself, and without each set; one word has no sets."""
        return Passes(1 + self.samples * (len(features(tokens, self.unit)) > 1), exactly=False)

    def many(self, cases: Sequence[Case]) -> list[list[Finding]]:
        """Three numbers for each method."""
        removed = [random_subsets(len(features(c.tokens, self.unit)), self.samples, c.rng(self.name)) for c in cases]
        set_effects = base.removal_effects(cases, [~sets for sets in removed], self.unit, self.masking)
        return [self._findings(*args) for args in zip(cases, removed, set_effects, strict=True)]

    def _findings(self, case: Case, removed: Bools, effect: Floats) -> list[Finding]:
        groups = features(case.tokens, self.unit)

        def numbers(why: Attribution, name: str) -> dict[str, float]:
            sums = removed @ base.claims(why, groups)
            return {
                "infidelity": infidelity(sums, effect),
                "infidelity scaled": scaled_infidelity(sums, effect),
                "correlation": correlation(sums, effect),
            }

        return base.findings(self.name, case, numbers)


def random_subsets(n: int, samples: int, rng: torch.Generator) -> Bools:
    """Random sets [samples,n] of 1 to n − 1 of n words, each size equally likely; none where there is one word."""
    if n < 2:
        return np.zeros((0, n), dtype=bool)
    sizes = torch.randint(1, n, (samples, 1), generator=rng)
    places = torch.rand(samples, n, generator=rng, dtype=torch.float64).argsort(1).argsort(1)
    return (places < sizes).numpy()


def infidelity(sums: Floats, effect: Floats) -> float:
    """Yeh et al. 2019, definition 2.1, over these sets: the mean of (sum of scores − effect)²."""
    return float(((sums - effect) ** 2).mean()) if len(sums) else float("nan")


def scaled_infidelity(sums: Floats, effect: Floats) -> float:
    """With β · sums, β ≥ 0 the best factor, relative to the mean effect²: 1 − R² through the origin, 0 the best.

    Yeh et al. let β be negative: scores with every sign wrong would then be perfect. NaN if nothing has an effect.
    """
    whole = float(effect @ effect)
    if whole == 0:
        return float("nan")
    along = max(float(sums @ effect), 0.0)
    return max(0.0, 1 - along**2 / (float(sums @ sums) * whole)) if along > 0 else 1.0


def correlation(sums: Floats, effect: Floats) -> float:
    """Bhatt et al. 2020: Pearson's r; NaN where either is constant, up to rounding."""
    if any(len(x) == 0 or np.ptp(x) <= SCORE_PRECISION * np.abs(x).max() for x in (sums, effect)):
        return float("nan")
    a, b = (x - x.mean() for x in (sums, effect))
    return float(np.clip(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)), -1, 1))


@dataclass(frozen=True)
class Complexity(Free):
    """How many words does an explanation consist of? Few words are easy to read, but no evidence of faithfulness."""

    unit: CheckUnit = "word"

    name: ClassVar[str] = "complexity"
    title: ClassVar[str] = "Complexity"
    question: ClassVar[str] = "How many words does an explanation consist of?"
    reading: ClassVar[str] = (
        "Few words are easy to read, but no evidence of faithfulness: neither direction is better. Entropy and "
        "effective words grow with the length of the text."
    )
    summary: ClassVar[str] = "how many words an explanation consists of"
    paper: ClassVar[str] = "Bhatt et al. 2020; Chalasani et al. 2020"
    changes: ClassVar[str] = "nothing is changed: the scores are normalised to magnitudes that add up to one"
    measures: ClassVar[Mapping[str, Measure]] = {
        "effective words": Measure("exp(entropy): the number of equally scored words with this entropy"),
        "entropy": Measure("entropy of the normalised magnitudes, natural logarithm"),
        "relative entropy": Share("entropy divided by its maximum, ln n: 1 if all words have equal scores"),
        "gini": Share("Gini index of the magnitudes: 0 if all are equal, near 1 if one word has all"),
        "from uniform": Share("total variation distance of the attended tokens' normalised magnitudes from uniform"),
    }
    verdict: ClassVar[Mapping[str, Any]] = {}
    roles: ClassVar[tuple[Role, ...]] = ("from uniform",)

    def __call__(self, case: Case) -> list[Finding]:
        """Five numbers for each method."""
        groups, content = features(case.tokens, self.unit), np.flatnonzero(case.classifier.attended(case.tokens))

        def numbers(why: Attribution, name: str) -> dict[str, float]:
            return complexity(base.by_unit(why.scores, groups)) | {"from uniform": from_uniform(why.scores[content])}

        return base.findings(self.name, case, numbers)


def from_uniform(scores: Floats) -> float:
    """½ Σ |share of all magnitudes − 1/n|: 0 if all are equal, 1 − 1/n if one has all; NaN where all are zero.

    Computed over tokens, not words: uniform attention gives more to words of many pieces.
    """
    total = np.abs(scores).sum()
    return float(np.abs(np.abs(scores) / total - 1 / len(scores)).sum() / 2) if total > 0 else float("nan")


def complexity(scores: Floats) -> dict[str, float]:
    """Four numbers of words; NaN where all scores are zero, and for the share of ln n and Gini of one word."""
    if not np.abs(scores).any():
        return dict.fromkeys(("entropy", "relative entropy", "effective words", "gini"), float("nan"))
    nats, several = entropy(scores), len(scores) > 1
    return {
        "entropy": nats,
        "relative entropy": nats / float(np.log(len(scores))) if several else float("nan"),
        "effective words": float(np.exp(nats)),
        "gini": gini(scores) if several else float("nan"),
    }


@dataclass(frozen=True)
class Cost(Free):
    """Passes that each method requests for one explanation, including those shared with other methods."""

    name: ClassVar[str] = "cost"
    title: ClassVar[str] = "Cost"
    question: ClassVar[str] = "What does an explanation cost?"
    reading: ClassVar[str] = (
        "Passes are those that the method requests, including those shared with other methods. CPU seconds and bytes "
        "differ from run to run and from machine to machine; passes do not."
    )
    summary: ClassVar[str] = "passes, CPU seconds and memory of an explanation"
    paper: ClassVar[str] = "–"
    changes: ClassVar[str] = "nothing is changed; seconds and bytes are in timing.json"
    measures: ClassVar[Mapping[str, Measure]] = {
        "forwards": Measure("forward passes: texts sent through the model", better="lower", compared=False),
        "backwards": Measure("backward passes, one for each text", better="lower", compared=False),
    }
    highlights: ClassVar[tuple[Highlight, ...]] = (
        Highlight("forwards", "forward passes of an explanation", head="passes", digits=0),
    )
    verdict: ClassVar[Mapping[str, Any]] = {}
    roles: ClassVar[tuple[Role, ...]] = ("cost",)

    def __call__(self, case: Case) -> list[Finding]:
        """Two numbers for each method; none where the scores were imported, since their cost is not known."""
        return [
            Finding(self.name, name, measure, float(getattr(why.source, measure)))
            for name, why in case.explanations.items()
            for measure in self.measures
            if getattr(case.methods.get(name), "again", True)
        ]
