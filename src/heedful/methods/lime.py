"""LIME: a linear model of the words' presence, fitted around the text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from scipy.stats import weightedtau

from heedful.core.arrays import Floats
from heedful.core.errors import BadInput
from heedful.core.explanation import Attribution
from heedful.core.settings import Ge, Gt, Le
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.maths.lime import Design, Fit, Sampling, Selection, design, doubled, fit_surrogate, select, smooth_fit
from heedful.methods.base import Passes, numpy_generator
from heedful.methods.perturbation import Perturbing
from heedful.model.classifier import Classifier
from heedful.model.inference import Answers, Engine
from heedful.model.masking import Unit, features

Estimator = Literal["regression", "kriging"]
MIN_SAMPLES = 256  # of the first round of "auto"
MAX_SAMPLES = {"regression": 16_384, "kriging": 4096}  # of its last; the cost of kriging grows with their cube


@dataclass(frozen=True)
class Lime(Perturbing):
    """The coefficients of a ridge regression of the target on which words stay, weighted by nearness to the text.

    Samples, kernel and ridge are those of the `lime` package: with the same samples the coefficients are the same. `by`
    "bag" removes all occurrences of a word together, as that package does. Two settings need fewer passes for the
    same coefficients: `sampling` "stratified" (by the number of words removed) or "antithetic", and `estimator`
    "kriging", which predicts further samples from those that were drawn. `samples` "auto" doubles them until the
    ranking of the words is stable: until weighted Kendall's τ between two rounds reaches `stability`. `num_features` is
    how many words the regression uses, chosen by `selection`; the others score 0. "auto" is the package's rule:
    "forward" up to six words, "highest-weights" beyond.
    """

    by: Unit = "bag"
    samples: Annotated[int, Ge(2)] | Literal["auto"] = 1000
    sampling: Sampling = "lime"
    estimator: Estimator = "regression"
    kernel_width: Annotated[float, Gt(0)] = 0.25
    ridge: Annotated[float, Ge(0)] = 1.0
    stability: Annotated[float, Gt(0), Le(1)] = 0.95
    num_features: Annotated[int, Ge(1)] | None = None
    selection: Selection = "auto"

    summary: ClassVar[str] = "linear model of which words stay, fitted around the text"
    paper: ClassVar[str] = "Ribeiro et al. 2016"
    standard: ClassVar[Mapping[str, Any] | None] = {"samples": 200}
    probe: ClassVar[Mapping[str, Any]] = {"samples": 40}
    key_added: ClassVar[tuple[str, ...]] = ("num_features", "selection")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_features is None and self.selection != "auto":
            raise BadInput(f"selection '{self.selection}' needs a number of words to select; set num_features.")
        if self.num_features is not None and self.estimator == "kriging":
            raise BadInput("estimator 'kriging' does not select words; use regression, or leave num_features out.")

    def __call__(self, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator) -> Attribution:
        """A coefficient for each word."""
        draw = numpy_generator(rng)
        engine = Engine(classifier, self.precision, rng)
        first = MIN_SAMPLES if self.samples == "auto" else self.samples
        sets = design(len(features(tokens, self.by)), first, self.sampling, draw)
        answers, fitted = self._fit(engine, tokens, target, sets)
        tau: float | None = None
        most = MAX_SAMPLES[self.estimator]
        while self.samples == "auto" and (tau is None or tau < self.stability) and 2 * len(sets) <= most:
            before, sets = fitted, doubled(sets, self.sampling, draw)
            answers, fitted = self._fit(engine, tokens, target, sets)
            tau = strength_tau(before.coefficients, fitted.coefficients)
        return self._result(classifier, tokens, target, answers, fitted, tau)

    def passes(self, classifier: Classifier, tokens: Tokens) -> Passes:
        """At most: the same input is run once."""
        d = len(features(tokens, self.by))
        if self.samples == "auto":
            return self.at_most(2 * MAX_SAMPLES[self.estimator], d)
        least = 0 if self.sampling == "lime" else 1 + d  # one for each number removed
        return self.at_most(max(self.samples, least), d)

    def _fit(self, engine: Engine, tokens: Tokens, target: Target, sets: Design) -> tuple[Answers, Fit]:
        assert engine.rng is not None
        answers = engine.ask([self.variants(tokens, sets.keep, engine.rng)])
        values = answers.values(engine.classifier, target)
        if self.estimator == "kriging":
            return answers, smooth_fit(sets, values, self.kernel_width, self.ridge)
        selected = None
        if self.num_features is not None:
            selected = select(sets, values, self.kernel_width, self.num_features, self.selection)
        return answers, fit_surrogate(sets, values, self.kernel_width, self.ridge, selected)

    def _result(
        self, classifier: Classifier, tokens: Tokens, target: Target, answers: Answers, fitted: Fit, tau: float | None
    ) -> Attribution:
        errors = np.hypot(fitted.errors, answers.rounding(fitted.operator, classifier, target))
        stable = {} if tau is None else {"stability": tau}
        samples = len(answers.which)
        notes = () if (self.sampling, self.estimator) == ("lime", "regression") else self.once
        if tau is not None and tau < self.stability:
            notes = (*notes, f"the ranking was not yet stable after {samples:,} samples")
        selected = {} if self.num_features is None else {"selected": fitted.used}
        if fitted.used < len(fitted.coefficients):
            notes = (*notes, "words that were not selected score 0; standard errors do not include the selection")
        why = self.attribution(tokens, fitted.coefficients, errors)
        return replace(
            why,
            details={
                "samples": samples,
                "distinct": answers.distinct,
                "r2": fitted.r2,
                "intercept": fitted.intercept,
                **stable,
                **selected,
                **why.details,
            },
            notes=(*answers.notes, *notes, *why.notes),
        )


def strength_tau(a: Floats, b: Floats) -> float:
    """Weighted Kendall's τ of two rankings by magnitude, in which strong words count most; 1 where they are equal."""
    if len(a) < 2 or np.array_equal(a, b):
        return 1.0
    tau = float(weightedtau(np.abs(a), np.abs(b)).statistic)
    return tau if np.isfinite(tau) else 1.0
