"""What checks share: the case that they are given, and how scores become an order of words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from heedful.core.explanation import Attribution, Explanation, Prediction
from heedful.core.finding import Finding as Finding
from heedful.core.finding import Measure as Measure
from heedful.core.random import seeded
from heedful.core.settings import Checked
from heedful.core.target import Target, label_index
from heedful.core.tokens import Tokens
from heedful.data import Example
from heedful.maths.ranks import SCORE_PRECISION, merge_ties
from heedful.methods import Method
from heedful.methods import Passes as Passes
from heedful.model.classifier import Classifier
from heedful.model.inference import answers
from heedful.model.masking import Bools, Unit, Variants, features, over_positions

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
    return np.lexsort((chance, -merge_ties(scores[None])[0]))


WordOrToken = Literal["word", "token"]


def claims(why: Attribution, groups: Sequence[Sequence[int]]) -> Floats:
    """What a method says of each word: its score where signed, else its magnitude, as support."""
    scores = by_unit(why.scores, groups)
    return scores if why.signed else np.abs(scores)


def effects(cases: Sequence[Case], keeps: Sequence[Bools], unit: WordOrToken, masking: str) -> list[Floats]:
    """For each text and each row of its keep[n,d]: the value of the whole text less that of what is kept.

    Exactly 0 where no logit moves by more than rounding does. All texts are asked in one run.
    """
    asked = [
        Variants(
            case.tokens, over_positions(units(case.tokens, unit), _and_whole(keep), len(case.tokens)), masking, rng
        )
        for case, keep in zip(cases, keeps, strict=True)
        for rng in [case.rng("effects", masking)]
    ]
    if not cases:
        return []
    classifier = cases[0].classifier
    logits = torch.split(answers(classifier, asked).logits, [len(one) for one in asked])
    return [_effects(own, case) for own, case in zip(logits, cases, strict=True)]


def _and_whole(keep: Bools) -> Bools:
    return np.concatenate([np.ones((1, keep.shape[1]), dtype=bool), keep])


def _effects(logits: torch.Tensor, case: Case) -> Floats:
    values = case.target.of(logits, case.classifier.head).numpy()
    moved = (logits - logits[:1]).abs().amax(1) > SCORE_PRECISION * logits[0].abs().max()
    found: Floats = np.where(moved.numpy(), values[0] - values, 0.0)[1:]
    return found


def findings(check: str, case: Case, numbers: Callable[[Attribution, str], Mapping[str, float]]) -> list[Finding]:
    """The numbers of each method; of `random`, their means over its draws. The name says where chance comes from."""
    found = [
        Finding(check, name, measure, value)
        for name, why in case.attributions.items()
        if name != "random"
        for measure, value in numbers(why, name).items()
    ]
    drawn = [numbers(why, f"random {i}") for i, why in enumerate(case.draws)]
    return found + [
        Finding(check, "random", measure, float(np.mean([one[measure] for one in drawn])))
        for measure in (drawn[0] if drawn else ())
    ]


class Together(Checked):
    """A check that asks the model about several texts at once, and so about one."""

    def __call__(self, case: Case) -> list[Finding]:
        """What is found on one text."""
        return self.many([case])[0]

    def many(self, cases: Sequence[Case]) -> list[list[Finding]]:
        """What is found on each text."""
        raise NotImplementedError
