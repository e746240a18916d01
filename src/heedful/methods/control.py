"""Controls: what knows nothing of the model. A check that cannot tell a method from these has found nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from heedful.classifier import Classifier
from heedful.explanation import Attribution
from heedful.methods.common import Passes, array
from heedful.target import Target
from heedful.tokens import Tokens


@dataclass(frozen=True)
class Random:
    """A random number for each token."""

    summary: ClassVar[str] = "control: a random number for each token"
    paper: ClassVar[str] = "control"

    def passes(self, classifier: Classifier, tokens: Tokens) -> Passes:
        """None: the model is not asked."""
        return Passes(0)

    def __call__(self, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator) -> Attribution:
        """Uniform on [0, 1)."""
        return Attribution(tokens=tokens, scores=array(torch.rand(len(tokens), generator=rng)), signed=False)


@dataclass(frozen=True)
class Uniform:
    """The same score for each token of the text."""

    summary: ClassVar[str] = "control: the same score for each token"
    paper: ClassVar[str] = "control"

    def passes(self, classifier: Classifier, tokens: Tokens) -> Passes:
        """None: the model is not asked."""
        return Passes(0)

    def __call__(self, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator) -> Attribution:
        """1/n for the n tokens of the text, 0 for special tokens."""
        text = ~np.array(tokens.special)
        return Attribution(tokens=tokens, scores=text / text.sum(), signed=False)


@dataclass(frozen=True)
class Position:
    """Earlier tokens count more."""

    summary: ClassVar[str] = "control: the earlier, the higher"
    paper: ClassVar[str] = "control"

    def passes(self, classifier: Classifier, tokens: Tokens) -> Passes:
        """None: the model is not asked."""
        return Passes(0)

    def __call__(self, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator) -> Attribution:
        """From 1 for the first token of the text down to 1/n for the last; 0 for special tokens."""
        scores = np.zeros(len(tokens))
        content = list(tokens.content)
        scores[content] = 1 - np.arange(len(content)) / len(content)
        return Attribution(tokens=tokens, scores=scores, signed=False)
