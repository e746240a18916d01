"""What checks share: the case that they are given, and how scores become an order of words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from heedful.checks.pairwise import tied
from heedful.classifier import Classifier
from heedful.data import Example
from heedful.explaining import explained
from heedful.explanation import Attribution, Explanation, Prediction
from heedful.finding import Finding, Measure
from heedful.masking import Unit, features
from heedful.methods import Method, Passes
from heedful.target import Target
from heedful.tokens import Tokens

DRAWS = 20  # of the control `random`: what a method is compared with is their mean
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
        from heedful.target import label_index

        return label_index(self.example.label, self.classifier.labels) if isinstance(self.example.label, str) else None

    def rng(self, *names: object) -> torch.Generator:
        """Chance that depends on the seed, the text and these names only."""
        key = json.dumps([self.seed, self.tokens.text, self.tokens.pair, *names], default=str)
        digest = hashlib.blake2b(key.encode("utf-8"), digest_size=8).digest()
        return torch.Generator().manual_seed(int.from_bytes(digest, "little") >> 1)

    def explain(
        self,
        method: Method,
        tokens: Tokens | None = None,
        classifier: Classifier | None = None,
        seed: int | None = None,
    ) -> Explanation:
        """What a method says of another text, with another model or seed; the target stays."""
        own = self.seed if seed is None else seed
        return explained(classifier or self.classifier, method, [tokens or self.tokens], [self.target], own)[0]

    def each(self, number: Callable[[Attribution], float], names: Sequence[str] | None = None) -> dict[str, float]:
        """A number for each method (or these); for `random` the mean over its draws."""
        found = {
            name: number(why)
            for name, why in self.attributions.items()
            if name != "random" and (names is None or name in names)
        }
        if self.draws and (names is None or "random" in names):
            found["random"] = float(np.mean([number(why) for why in self.draws]))
        return found


@runtime_checkable
class Check(Protocol):
    """What a check answers: a frozen dataclass of settings with these class attributes.

    `summary` is one line, `paper` its source, `changes` a sentence on what is changed and how, `measures` what is found
    by name. `requires` names methods that the run must include. Optional:

    `many(cases)` does several texts at once and gives a list of findings for each;
    `passes(classifier, tokens, methods)` says what one text will cost, before it is done;
    `tables(found)` makes the check's own tables from the findings on all texts (see heedful.summarising.Found).
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


def json_able(values: Any) -> Any:
    """Arrays as lists, for `Finding.details`."""
    return values.tolist() if isinstance(values, (np.ndarray, torch.Tensor)) else values


__all__ = ["DRAWS", "Case", "Check", "Finding", "Measure", "Passes", "by_unit", "json_able", "ranking", "units"]
