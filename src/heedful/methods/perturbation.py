"""Perturbation: remove words and measure how the prediction changes.

`masking` is how words are removed or replaced (see model.masking), `by` what one feature is (a token, a word, a
sentence, or "auto": words up to 64 of them, sentences beyond), `precision` the number format in which the model runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Generator, Tensor

from heedful.core.arrays import Bools, Floats
from heedful.core.errors import BadInput
from heedful.core.explanation import Attribution, Explanation, Source
from heedful.core.settings import Checked, Ge
from heedful.core.target import Head, Target
from heedful.core.tokens import Tokens
from heedful.maths.distances import changes
from heedful.methods.base import BatchMethod, Passes
from heedful.model.classifier import Classifier
from heedful.model.inference import Answers, Precision, answers
from heedful.model.masking import FeatureUnit, Masking, Unit, Variants, features, over_positions, spread_scores

ChangeMeasure = Literal["target", "variation", "divergence"]


@dataclass(frozen=True)
class Perturbing(Checked):
    """The settings that every method of this family has."""

    masking: Masking = "delete"
    by: Unit = "word"
    precision: Precision = "float32"

    @property
    def draws_words(self) -> bool:
        """Whether the replacement of a word is drawn at random."""
        return self.masking.startswith("mlm:")

    @property
    def once(self) -> tuple[str, ...]:
        """The note on scores for which each set of words was replaced only once."""
        note = "replacements were drawn once for each set of words: standard errors do not include that randomness"
        return (note,) if self.draws_words else ()

    def at_most(self, forwards: int, d: int | None = None) -> Passes:
        """This many passes, or those of all sets of d features; under bf16, inputs may run again in float32."""
        if d is not None and not self.draws_words:  # equal sets are equal inputs
            forwards = min(forwards, 2**d)
        return Passes(forwards * (2 if self.precision == "bf16" else 1), exactly=False)

    def variants(self, tokens: Tokens, keep: Bools, rng: torch.Generator) -> Variants:
        """keep[n,d] over features, as variants of the text."""
        groups = features(tokens, self.by)
        return Variants(tokens, over_positions(groups, keep, len(tokens)), self.masking, rng)

    def attribution(
        self, tokens: Tokens, scores: Floats, errors: Floats | None = None, base: float | None = None
    ) -> Attribution:
        """A score per feature, spread over its tokens, so that the tokens' scores add up to those of the features."""
        groups, unit = features(tokens, self.by), FeatureUnit.of(tokens, self.by)
        spread_errors = None if errors is None else spread_scores(groups, errors, len(tokens))
        return Attribution(
            tokens=tokens,
            scores=spread_scores(groups, scores, len(tokens)),
            errors=spread_errors,
            base=base,
            details=unit.details(groups),
            notes=unit.notes,
        )


@dataclass(frozen=True)
class _Removing(BatchMethod, Perturbing):
    """The change when a few neighbouring words are removed at a time."""

    change: ChangeMeasure = "target"
    draws: Annotated[int, Ge(1)] = 10

    @property
    def size(self) -> int:
        """How many features are removed at a time."""
        return 1

    def many(
        self, classifier: Classifier, texts: Sequence[Tokens], targets: Sequence[Target], rngs: Sequence[Generator]
    ) -> list[Explanation]:
        """All windows of all texts in one batch of inputs."""
        windows = [self._windows(tokens) for tokens in texts]
        variants = [
            self.variants(t, np.concatenate([np.ones_like(w[:1]), *[~w] * self._repeats]), rng)
            for t, w, rng in zip(texts, windows, rngs, strict=True)
        ]
        results = answers(classifier, variants, self.precision, rngs[0])
        starts = np.cumsum([0, *map(len, variants)])
        whys = [
            self._attribution(classifier, tokens, target, results, int(start), rows)
            for tokens, target, start, rows in zip(texts, targets, starts, windows, strict=False)
        ]
        if results.rough is not None:  # some of the inputs of all texts together ran twice
            return list(whys)
        each = [len(np.unique(results.which[a:b])) for a, b in pairwise(starts)]
        return [replace(why, source=Source(forwards=passes)) for why, passes in zip(whys, each, strict=True)]

    def passes(self, classifier: Classifier, tokens: Tokens) -> Passes:
        """The text itself, and each window."""
        return self.at_most(1 + len(self._windows(tokens)) * self._repeats)

    @property
    def _repeats(self) -> int:
        return self.draws if self.draws_words else 1

    def _windows(self, tokens: Tokens) -> Bools:
        """Which features each window removes [n,d]; no window reaches from one text of a pair into the other."""
        groups = features(tokens, self.by)
        sides = [tokens.segments[group[0]] for group in groups]
        rows: list[Bools] = []
        for side in dict.fromkeys(sides):
            inside = np.flatnonzero([s == side for s in sides])
            size = min(self.size, len(inside))
            rows += [np.isin(np.arange(len(groups)), inside[i : i + size]) for i in range(len(inside) - size + 1)]
        return np.array(rows)

    def _attribution(
        self, classifier: Classifier, tokens: Tokens, target: Target, results: Answers, start: int, windows: Bools
    ) -> Attribution:
        share = windows.T / windows.sum(0)[:, None]  # the mean over the windows of each feature
        n = len(windows) * self._repeats
        logits = results.logits[start : start + n + 1]
        moved = changes_from_first(logits, target, classifier.head, self.change).reshape(self._repeats, -1)
        scores = share @ moved.mean(0)
        errors = None
        if self._repeats > 1:
            errors = (moved @ share.T).std(0, ddof=1) / np.sqrt(self._repeats)
        elif results.rough is not None and self.change == "target":
            weights = np.concatenate([share.sum(1, keepdims=True), -share], axis=1)
            errors = results.rounding(weights, classifier, target, start)
        why = self.attribution(tokens, scores, errors)
        return replace(why, signed=self.change == "target", notes=(*results.notes, *why.notes))


@dataclass(frozen=True)
class LeaveOneOut(_Removing):
    """The change when one word is removed.

    `change` is what is measured: the target's value ("target", signed), or how far all probabilities move: their total
    variation ("variation", Jain & Wallace's |ŷ − ŷ₋ₜ|) or Jensen–Shannon divergence ("divergence"). With a masked
    language model, `draws` samples are averaged.
    """

    summary: ClassVar[str] = "change when one word is removed"
    paper: ClassVar[str] = "Li et al. 2016; Jain & Wallace 2019"
    aliases: ClassVar[tuple[str, ...]] = ("loo", "erasure")
    standard: ClassVar[Mapping[str, Any] | None] = {}
    jain2019: ClassVar[Mapping[str, Any]] = {"change": "variation", "by": "token"}


@dataclass(frozen=True)
class Occlusion(_Removing):
    """The change when a window of neighbouring words is removed, mean over the windows that contain a word.

    `change` and `draws` are as for leave-one-out.
    """

    window: Annotated[int, Ge(1)] = 3

    summary: ClassVar[str] = "change when a window of words is removed"
    paper: ClassVar[str] = "Zeiler & Fergus 2014"

    @property
    def size(self) -> int:
        """The window."""
        return self.window


def changes_from_first(logits: Tensor, target: Target, head: Head, change: ChangeMeasure) -> Floats:
    """How far each row after the first is from the first."""
    if change == "target":
        values = target.of(logits, head)
        return (values[0] - values[1:]).numpy()
    if head == "regression":
        raise BadInput("a regression model has no probabilities; use change=target.")
    moved = changes(logits[1:], logits[0], head)
    return moved.tvd if change == "variation" else moved.jsd
