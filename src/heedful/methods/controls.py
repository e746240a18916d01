"""Controls: scores that do not depend on the model. A method should differ significantly from them.

They score words, and a word's pieces share its score in equal parts: one number for each piece would rank words of many
pieces first. `by=token` scores pieces, `by=sentence` sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch

from heedful.core.arrays import Floats
from heedful.core.explanation import Attribution
from heedful.core.settings import Checked, Ge
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.methods.base import Passes, array
from heedful.model.classifier import Classifier
from heedful.model.masking import FeatureUnit, Unit, features, spread_scores


@dataclass(frozen=True)
class Control(Checked):
    """What all controls share: they do not run the model, and special tokens have no score."""

    by: Unit = "word"

    paper: ClassVar[str] = "control"

    def passes(self, classifier: Classifier, tokens: Tokens) -> Passes:
        """No pass: the model is not run."""
        return Passes(0)

    def __call__(self, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator) -> Attribution:
        """A score for each word."""
        groups, unit = features(tokens, self.by), FeatureUnit.of(tokens, self.by)
        scores = spread_scores(groups, self.scores(len(groups), rng), len(tokens))
        return Attribution(tokens=tokens, scores=scores, signed=False, details=unit.details(groups), notes=unit.notes)

    def scores(self, n: int, rng: torch.Generator) -> Floats:
        """The scores of n words, in reading order."""
        raise NotImplementedError


@dataclass(frozen=True)
class Random(Control):
    """A random number for each word.

    An audit explains each text `draws` times more, and compares a method with the mean over these.
    """

    draws: Annotated[int, Ge(1)] = 20

    key_added: ClassVar[tuple[str, ...]] = ("draws",)
    summary: ClassVar[str] = "control: a random number for each word"

    def scores(self, n: int, rng: torch.Generator) -> Floats:
        """Uniform on [0, 1)."""
        return array(torch.rand(n, generator=rng))


@dataclass(frozen=True)
class Uniform(Control):
    """The same score for each word."""

    summary: ClassVar[str] = "control: the same score for each word"

    def scores(self, n: int, rng: torch.Generator) -> Floats:
        """1/n."""
        return np.full(n, 1 / n)


@dataclass(frozen=True)
class Position(Control):
    """Earlier words count more."""

    summary: ClassVar[str] = "control: the earlier, the higher"

    def scores(self, n: int, rng: torch.Generator) -> Floats:
        """From 1 for the first down to 1/n for the last."""
        return 1 - np.arange(n) / n
