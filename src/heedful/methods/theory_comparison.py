"""Theory compared with measurement on one text, as in Figures 4 and 5 of Lopardo et al. 2024.

LIME, run several times, against the three forms of its limit; every coordinate of the gradient by autograd against
Theorem 4.1. Holds for the network of `heedful.nets.MultiHead`. `explainers` are those of the paper's Figure 1.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Annotated, Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import kendalltau

from heedful.core.arrays import Floats
from heedful.core.explanation import JSON_FORMAT, Attribution, Explanation, Prediction, Source
from heedful.core.settings import Checked, Ge
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.methods.attention import AttentionMax, AttentionMean
from heedful.methods.base import Method, array
from heedful.methods.explain import Step, Watch, explain
from heedful.methods.gradient import (
    GradientL1,
    GradientL2,
    GradientMean,
    GradientXInput,
    gradients,
    reduce_gradient,
)
from heedful.methods.lime import Lime
from heedful.methods.theory import TheoryLime, TokenMasking, theory_gradient
from heedful.model.classifier import Classifier
from heedful.model.masking import features

Form = Literal["exact", "derived", "paper"]
Reduce = Literal["x-input", "l2", "l1", "mean"]
FORMS: tuple[Form, ...] = ("exact", "derived", "paper")
REDUCES: tuple[Reduce, ...] = ("x-input", "l2", "l1", "mean")
UNPROVED = (
    "the limit is without LIME's ridge penalty and its first sample, the text itself, which count where words or "
    "samples are few"
)


@dataclass(frozen=True)
class Trial(Checked):
    """The settings of a comparison: `runs` of LIME with `samples` each, which replace words by the token `masking`.

    `reduce` makes a score of a token's gradient: its product with e_t (position included), a norm, or its mean.
    """

    runs: Annotated[int, Ge(1)] = 5
    samples: Annotated[int, Ge(2)] = 5000
    masking: TokenMasking = "unk"
    reduce: Reduce = "x-input"
    seed: int = 0

    def lime(self) -> Lime:
        """LIME as in the theory: distinct words are features, and replaced words keep their position."""
        return Lime(masking=self.masking, by="bag", samples=self.samples)

    def forms(self) -> list[TheoryLime]:
        """The three forms of its limit, for the same kernel."""
        return [TheoryLime(form, self.lime().kernel_width, self.masking) for form in FORMS]

    def explainers(self) -> list[Method]:
        """Those of the paper's Figure 1: attention, gradients, and one run of LIME."""
        attention: list[Method] = [AttentionMean(), AttentionMax()]
        return [*attention, self.lime(), GradientMean(), GradientL1(), GradientL2(), GradientXInput(positions=True)]

    def seeds(self) -> list[int]:
        """A seed for each run; `heedful explain --method lime --seed …` makes that run again."""
        digests = (blake2b(f"{self.seed} {run}".encode(), digest_size=4).digest() for run in range(self.runs))
        return [int.from_bytes(digest, "little") for digest in digests]


@dataclass(frozen=True)
class Closeness:
    """The agreement of a form with LIME: Pearson's r, Kendall's τ-b (None where undefined), relative L2 distance."""

    pearson: float | None
    kendall: float | None
    off: float | None


@dataclass(frozen=True, eq=False)
class Gradients:
    """e_t of each token, and ∇_{e_t} f three times: by autograd, by Theorem 4.1, and by the theorem as published.

    As published it omits for the first token that this token also makes the query.
    """

    vectors: Float[Floats, "t e"]
    autograd: Float[Floats, "t e"]
    theory: Float[Floats, "t e"]
    published: Float[Floats, "t e"]

    def reduced(self, how: Reduce) -> tuple[Float[Floats, "t"], Float[Floats, "t"], Float[Floats, "t"]]:
        """A number for each token: by autograd, by theory, and as published."""
        vectors, *slopes = (torch.from_numpy(x) for x in (self.vectors, self.autograd, self.theory, self.published))
        measured, theory, published = (array(reduce_gradient(how, vectors, slope)) for slope in slopes)
        return measured, theory, published

    def summary(self) -> dict[str, float]:
        """Over all coordinates: their number, the largest, and the largest differences from autograd."""
        off, missed = np.abs(self.theory - self.autograd), np.abs(self.published - self.autograd)
        return {
            "count": self.autograd.size,
            "largest": float(np.abs(self.autograd).max()),
            "worst": float(off.max()),
            "worst_as_stated": float(missed[0].max()),
            "worst_as_stated_elsewhere": float(missed[1:].max(initial=0.0)),
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class TheoryComparison:
    """Measurement and theory: LIME's coefficient of each distinct word, and the gradient of each token.

    `words` are in reading order. `stated` is Theorem 4.1 as published, which omits for the first token that this token
    also makes the query; `slopes` includes that term.
    """

    tokens: Tokens
    words: tuple[str, ...]
    runs: Float[Floats, "r d"]
    forms: dict[Form, Float[Floats, "d"]]
    gradients: Gradients
    trial: Trial
    prediction: Prediction
    target: Target
    source: Source

    @property
    def mean(self) -> Float[Floats, "d"]:
        """LIME's coefficients, mean over the runs."""
        return np.asarray(self.runs.mean(0), dtype=np.float64)

    @property
    def order(self) -> list[int]:
        """Words by the size of LIME's mean, largest first."""
        return [int(j) for j in np.argsort(-np.abs(self.mean), kind="stable")]

    @property
    def names(self) -> list[str]:
        """Of the tokens, as the user wrote them."""
        return [self.tokens.surface(i) for i in range(len(self.tokens))]

    @cached_property
    def _reduced(self) -> tuple[Floats, Floats, Floats]:
        return self.gradients.reduced(self.trial.reduce)

    @property
    def gradient(self) -> Float[Floats, "t"]:
        """Of each token, by autograd, as the trial reduces it."""
        return self._reduced[0]

    @property
    def slopes(self) -> Float[Floats, "t"]:
        """The same by Theorem 4.1 with the term of the query."""
        return self._reduced[1]

    @property
    def stated(self) -> Float[Floats, "t"]:
        """The same by Theorem 4.1 as published."""
        return self._reduced[2]

    @property
    def worst(self) -> float:
        """The largest difference between the gradient and theory."""
        return float(np.abs(self.gradient - self.slopes).max())

    @property
    def overlooked(self) -> float:
        """The largest difference between the gradient and Theorem 4.1 as published."""
        return float(np.abs(self.gradient - self.stated).max())

    @property
    def chance(self) -> float | None:
        """The relative distance of LIME's mean from its limit that sampling alone explains; None after a single run."""
        if len(self.runs) < 2:
            return None
        return _share(float(np.sqrt(self.runs.var(0, ddof=1).sum() / len(self.runs))), self.mean)

    def agreement(self, form: Form) -> Closeness:
        """The agreement of a form with LIME's mean."""
        return closeness(self.forms[form], self.mean)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, for JSON."""
        return {
            "heedful": JSON_FORMAT,
            "kind": "theory",
            "text": self.tokens.text,
            "pair": self.tokens.pair,
            "dropped": self.tokens.dropped,
            "model": self.source.model,
            "fingerprint": self.source.fingerprint,
            "versions": dict(self.source.versions),
            "prediction": asdict(self.prediction),
            "target": asdict(self.target),
            "settings": asdict(self.trial) | {"kernel_width": self.trial.lime().kernel_width},
            "seeds": self.trial.seeds(),
            "words": [
                {"word": word, "mean": float(self.mean[j]), "runs": self.runs[:, j].tolist()}
                | {form: float(self.forms[form][j]) for form in FORMS}
                for j, word in enumerate(self.words)
            ],
            "tokens": [
                {"token": name, "gradient": float(slope), "theory": float(theory), "as_stated": float(stated)}
                for name, slope, theory, stated in zip(self.names, self.gradient, self.slopes, self.stated, strict=True)
            ],
            "agreement": {form: asdict(self.agreement(form)) for form in FORMS},
            "chance": self.chance,
            "worst": self.worst,
            "worst_as_stated": self.overlooked,
            "coordinates": self.gradients.summary(),
        }

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(self.to_dict(), allow_nan=False, default=str)


def compare_with_theory(
    classifier: Classifier,
    text: str,
    trial: Trial | None = None,
    target: Target | str | int | None = None,
    pair: str | None = None,
    *,
    truncate: bool = True,
    watch: Watch | None = None,
) -> TheoryComparison:
    """Run LIME and autograd on a text and compare them with theory; `watch` is called before each run of LIME."""
    trial = trial or Trial()
    # theory first: it is fast, and refuses a model that it does not apply to
    whys = explain(classifier, text, trial.forms(), target, pair, truncate=truncate)
    first = whys[0]
    label = max(range(len(classifier.labels)), key=lambda i: first.prediction.logits[i])
    slopes = compare_gradients(classifier, first.tokens, first.target.resolved(classifier.labels, label))
    groups = features(first.tokens, "bag")
    view, words = first.tokens.by("word")
    surface = {word[0]: view.surface(j) for j, word in enumerate(words)}
    runs = lime_runs(classifier, text, trial, trial.lime(), target, pair, truncate=truncate, watch=watch)
    return TheoryComparison(
        tokens=first.tokens,
        words=tuple(surface[group[0]] for group in groups),
        runs=runs,
        forms={form: _joined(why, groups) for form, why in zip(FORMS, whys, strict=True)},
        gradients=slopes,
        trial=trial,
        prediction=first.prediction,
        target=first.target,
        source=first.source,
    )


def lime_runs(
    classifier: Classifier,
    text: str,
    trial: Trial,
    lime: Lime,
    target: Target | str | int | None = None,
    pair: str | None = None,
    *,
    truncate: bool = True,
    watch: Watch | None = None,
) -> Float[Floats, "r d"]:
    """LIME's coefficient of each distinct word, in reading order, in every run of the trial."""
    runs = []
    for n, seed in enumerate(trial.seeds(), 1):
        if watch is not None:
            watch(Step("LIME, run", n, trial.runs, trial.samples))
        why = explain(classifier, text, lime, target, pair, seed, truncate=truncate)
        runs.append(_joined(why, features(why.tokens, "bag")))
    return np.array(runs)


def compare_gradients(classifier: Classifier, tokens: Tokens, target: Target) -> Gradients:
    """Every coordinate of the gradient with respect to e_t = word vector + position, by autograd and by theory."""
    vectors, theory = theory_gradient(classifier, tokens, target)
    _, published = theory_gradient(classifier, tokens, target, query_term=False)
    _, slopes = gradients(classifier, classifier.batch([tokens]), [target])
    return Gradients(vectors, array(slopes[0]), theory, published)


def closeness(predicted: Float[Floats, "d"], measured: Float[Floats, "d"]) -> Closeness:
    """The agreement of predicted with measured numbers."""
    a, b = predicted - predicted.mean(), measured - measured.mean()
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    tau = float(kendalltau(predicted, measured).statistic) if size > 0 else float("nan")
    return Closeness(
        pearson=float(a @ b) / size if size > 0 else None,
        kendall=tau if np.isfinite(tau) else None,
        off=_share(float(np.linalg.norm(predicted - measured)), measured),
    )


def _share(distance: float, of: Floats) -> float | None:
    length = float(np.linalg.norm(of))
    return distance / length if length > 0 else None


def _scores(why: Explanation) -> Floats:
    assert isinstance(why, Attribution)
    return why.scores


def _joined(why: Explanation, groups: Sequence[Sequence[int]]) -> Floats:
    """The coefficient of each distinct word, which its tokens share."""
    return np.array([_scores(why)[list(group)].sum() for group in groups])
