"""What checks share: the case that they are given, and how scores become an order of words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from heedful.core.explanation import Attribution, Explanation, Prediction
from heedful.core.finding import Finding as Finding
from heedful.core.finding import Measure as Measure
from heedful.core.random import seeded
from heedful.core.target import Target, label_index
from heedful.core.tokens import Tokens
from heedful.data import Example
from heedful.maths.pairwise import tied
from heedful.methods import Method
from heedful.methods import Passes as Passes
from heedful.model.classifier import Classifier
from heedful.model.masking import Unit, features

DRAWS = 20  # of the control `random`: what a method is compared with is their mean
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
PEAKS = (0.0, 0.25, 0.5, 0.75, 1.0)  # ranges of the largest weight, as Jain & Wallace 2019 drew them


@dataclass(frozen=True)
class Case:
    """One text under audit, with what every method says of it.

    `explanations` has the methods that could explain it, in the run's order, the controls among them; `draws` are
    DRAWS further ones of `random`. `others` are checkpoints of the same training, by name.
    """

    classifier: Classifier
    example: Example
    tokens: Tokens
    prediction: Prediction
    target: Target
    methods: Mapping[str, Method]
    explanations: Mapping[str, Explanation]
    draws: Sequence[Attribution] = ()
    seed: int = 0
    others: Mapping[str, Classifier] = field(default_factory=dict)

    @property
    def attributions(self) -> dict[str, Attribution]:
        """The explanations that are a score per token."""
        return {name: why for name, why in self.explanations.items() if isinstance(why, Attribution)}

    @property
    def gold(self) -> int | None:
        """The index of the label that the data gives, where it gives one."""
        return label_index(self.example.label, self.classifier.labels) if isinstance(self.example.label, str) else None

    def rng(self, *names: object) -> torch.Generator:
        """Chance that depends on the seed, the text and these names only."""
        return seeded(self.seed, self.tokens.text, self.tokens.pair, *names)


@runtime_checkable
class Check(Protocol):
    """What a check answers: a frozen dataclass of settings with these class attributes.

    `summary` is one line, `paper` its source, `changes` a sentence on what is changed and how, `measures` what is found
    by name. `requires` names methods that the run must include. Optional:

    `many(cases)` does several texts at once and gives a list of findings for each;
    `passes(classifier, tokens, methods)` says what one text will cost, before it is done;
    `tables(found)` makes the check's own tables from the findings on all texts (see heedful.core.finding.Findings).
    """

    summary: ClassVar[str]
    paper: ClassVar[str]
    changes: ClassVar[str]
    measures: ClassVar[Mapping[str, Measure]]

    def __call__(self, case: Case) -> list[Finding]:
        """What is found on one text."""
        ...


def units(tokens: Tokens, unit: Unit = "word") -> list[list[int]]:
    """The positions of each word (or token) of the text; special tokens are in none."""
    return features(tokens, unit)


def by_unit(scores: Floats, groups: Sequence[Sequence[int]]) -> Floats:
    """A token's scores added up within each unit."""
    return np.array([scores[list(group)].sum() for group in groups])


def ranking(scores: Floats, rng: torch.Generator) -> Ints:
    """Highest first; ties in random order, so that equal scores, to rounding, do not become an order of reading."""
    chance = torch.rand(len(scores), generator=rng).numpy()
    return np.lexsort((chance, -tied(scores[None])[0]))
