"""Shapley values: the contribution of each word to the target, mean over all orders of the words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch

from heedful.core.arrays import Bools, Floats
from heedful.core.explanation import Attribution
from heedful.core.sentences import sentence_spans
from heedful.core.settings import Between, Ge
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.maths.shapley import all_subsets, coalitions, enumerated, kriged, regressed
from heedful.methods.base import Passes, numpy_generator
from heedful.methods.perturbation import Perturbing
from heedful.model.classifier import Classifier
from heedful.model.inference import Engine
from heedful.model.masking import features

MAX_EXACT_WORDS = 16  # of which all sets can be evaluated


@dataclass(frozen=True)
class Shapley(Perturbing):
    """Shapley values: exact from all sets of words up to `exact_up_to` words, else from `samples` sets in pairs.

    `estimator` "wls" is KernelSHAP, least squares under the constraint that the scores add up; "kriging" also models
    how values vary from set to set, and needs fewer passes for the same error.
    """

    samples: Annotated[int, Ge(4)] = 1024
    exact_up_to: Annotated[int, Between(0, MAX_EXACT_WORDS)] = 12
    estimator: Literal["kriging", "wls"] = "kriging"

    summary: ClassVar[str] = "contribution of a word, mean over all orders of the words"
    paper: ClassVar[str] = "Shapley 1953; Lundberg & Lee 2017; Covert & Lee 2021"
    aliases: ClassVar[tuple[str, ...]] = ("shap", "kernel-shap", "kernelshap")
    standard: ClassVar[Mapping[str, Any] | None] = {"samples": 200, "exact_up_to": 7}
    probe: ClassVar[Mapping[str, Any]] = {"samples": 40, "exact_up_to": 4}

    def __call__(self, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator) -> Attribution:
        """Scores add up to f(text) − f(nothing) but for the gap."""
        d = len(features(tokens, self.by))
        exact = self._is_exact(d)
        keep = all_subsets(d) if exact else coalitions(d, self.samples, numpy_generator(rng))
        answers = Engine(classifier, self.precision, rng).ask([self.variants(tokens, keep, rng)])
        values = answers.values(classifier, target)
        whole, nothing = (values[-1], values[0]) if exact else (values[0], values[1])
        fit = enumerated(values) if exact else (kriged if self.estimator == "kriging" else regressed)(keep, values)
        errors = np.hypot(fit.errors, answers.rounding(fit.operator, classifier, target))
        why = self.attribution(tokens, fit.scores, None if exact and answers.rough is None else errors, float(nothing))
        return replace(
            why,
            gap=float(whole - nothing - fit.scores.sum()),
            details={"samples": len(keep), "distinct": answers.distinct, "exact": exact, **why.details},
            notes=(*answers.notes, *self.once, *why.notes),
        )

    def passes(self, classifier: Classifier, tokens: Tokens) -> Passes:
        """At most: the same input is run once."""
        d = len(features(tokens, self.by))
        return self.at_most(2**d if self._is_exact(d) else max(self.samples, d + 2))

    def _is_exact(self, d: int) -> bool:
        return d <= max(3, self.exact_up_to) or (d <= MAX_EXACT_WORDS and 2**d <= self.samples)


@dataclass(frozen=True)
class ShapleyPartition(Perturbing):
    """Owen values over a tree of the text: sentences, then halves of sentences, down to single words.

    The two halves of each part of the tree share the part's contribution, each averaged over the presence and absence
    of the other and of all parts above. The parts with the largest contribution per pass are split first, until
    `samples` passes are spent; the words of a part that was not split share its value equally. The scores of the parts
    are exact, and they add up.
    """

    samples: Annotated[int, Ge(2)] = 1000

    summary: ClassVar[str] = "Owen values over a tree of sentences and words, for long texts"
    paper: ClassVar[str] = "Owen 1977; Lundberg & Lee 2017"
    aliases: ClassVar[tuple[str, ...]] = ("partition-shap", "owen")
    probe: ClassVar[Mapping[str, Any]] = {"samples": 40}

    def __call__(self, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator) -> Attribution:
        """Scores add up to f(text) − f(nothing)."""
        groups = features(tokens, self.by)
        d = len(groups)
        engine = Engine(classifier, self.precision, rng)

        def ask(keep: Bools) -> Floats:
            return engine.ask([self.variants(tokens, keep, rng)]).values(classifier, target)

        ends = ask(np.array([np.zeros(d, bool), np.ones(d, bool)]))
        parts = [_Part(tuple(range(d)), np.zeros((1, d), bool), ends[:1], ends[1:])]
        cuts = _cuts(tokens, groups)
        while (part := _next_part(parts, self.samples - len(engine.known))) is not None:
            parts.remove(part)
            parts += part.opened(cuts, ask)
        scores = np.zeros(d)
        for part in parts:
            scores[list(part.words)] = part.value / len(part.words)
        largest = max(len(part.words) for part in parts)
        why = self.attribution(tokens, scores, base=float(ends[0]))
        unit = why.details.get("unit", "word")
        shared = f"up to {largest} neighbouring {unit}s share a score; more samples give each its own"
        return replace(
            why,
            gap=float(ends[1] - ends[0] - scores.sum()),
            details={"distinct": len(engine.known), "blocks": len(parts), "largest block": largest, **why.details},
            notes=(*dict.fromkeys(engine.notes), *self.once, *([shared] if largest > 1 else ()), *why.notes),
        )

    def passes(self, classifier: Classifier, tokens: Tokens) -> Passes:
        """At most: splitting stops at single words, or before the samples are exceeded."""
        return self.at_most(self.samples, len(features(tokens, self.by)))


@dataclass(frozen=True, eq=False)
class _Part:
    """Words that are present together, sets of other words (`context`), and the value without and with the words."""

    words: tuple[int, ...]
    context: Bools
    without: Floats
    together: Floats

    @property
    def value(self) -> float:
        """The contribution of the part, mean over its contexts."""
        return float((self.together - self.without).mean())

    @property
    def strength(self) -> float:
        """The mean magnitude of its contribution, in which contexts of opposite sign do not cancel."""
        return float(np.abs(self.together - self.without).mean())

    def opened(self, cuts: Sequence[float], ask: Callable[[Bools], Floats]) -> list[_Part]:
        """The two halves, split at the best place; each is evaluated without and with the other."""
        # the best kind of cut, and among equals the nearest to the middle
        middle = len(self.words) / 2
        at = max(range(1, len(self.words)), key=lambda i: (cuts[self.words[i]], -abs(i - middle)))
        halves = self.words[:at], self.words[at:]
        with_half = [self._joined(half) for half in halves]
        values = np.split(ask(np.concatenate(with_half)), 2)
        return [
            _Part(
                halves[i],
                np.concatenate([self.context, with_half[1 - i]]),
                np.concatenate([self.without, values[1 - i]]),
                np.concatenate([values[i], self.together]),
            )
            for i in (0, 1)
        ]

    def _joined(self, words: Sequence[int]) -> Bools:
        joined = self.context.copy()
        joined[:, list(words)] = True
        return joined


def _next_part(parts: Sequence[_Part], budget: int) -> _Part | None:
    """The part with the largest contribution for each pass that splitting it costs."""
    fits = [part for part in parts if len(part.words) > 1 and 2 * len(part.context) <= budget]
    return max(fits, key=lambda part: part.strength / len(part.context), default=None)


def _cuts(tokens: Tokens, groups: Sequence[Sequence[int]]) -> list[float]:
    """How good a cut before each feature is: 3 between two texts, 2 between sentences, 1 after a punctuation mark."""
    ends = [{end for _, end in sentence_spans(text)} for text in (tokens.text, tokens.pair or "")]
    quality = [0.0]
    for (*_, before), (after, *_) in pairwise(groups):
        span, side = tokens.spans[before], tokens.segments[before]
        mark = not any(c.isalnum() for c in tokens.surface(before))
        sentence = span is not None and side is not None and span[1] in ends[side]
        between = side != tokens.segments[after]
        quality.append(3.0 if between else 2.0 if sentence else 1.0 if mark else 0.0)
    return quality
