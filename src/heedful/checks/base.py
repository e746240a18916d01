"""Shared by all checks: the Case that they are called with, effects of removing words, and rankings of words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
import torch

from heedful.core.arrays import Bools, Floats, Ints
from heedful.core.explanation import Attribution, Explanation, Prediction
from heedful.core.finding import CORRELATION, DIVERGENCE, FRACTION
from heedful.core.finding import Finding as Finding
from heedful.core.finding import Measure as Measure
from heedful.core.random import seeded
from heedful.core.settings import Checked
from heedful.core.target import Target, label_index, largest_logit
from heedful.core.tokens import Tokens
from heedful.data import Example
from heedful.maths.ranks import SCORE_PRECISION, merge_ties
from heedful.maths.stats import MINIMUM
from heedful.methods import Method
from heedful.methods import Passes as Passes
from heedful.model.classifier import Classifier
from heedful.model.inference import answers
from heedful.model.masking import Variants, features, over_positions

# the profile standard of checks that explain again: fewer methods, and two texts more than a decision needs, since some
# texts cannot be changed
STANDARD_REEXPLAINING: Mapping[str, Any] = {
    "methods": ("attention-mean", "gradient-x-input", "integrated-gradients", "leave-one-out", "lime"),
    "texts": MINIMUM + 2,
}
CheckUnit = Literal["word", "token", "sentence", "auto"]
Share = partial(Measure, range=FRACTION)
Correlation = partial(Measure, range=CORRELATION)
Divergence = partial(Measure, range=DIVERGENCE)


@dataclass(frozen=True)
class Case:
    """One text under audit, with every method's explanation of it.

    `explanations` are by the methods that could explain it, in the run's order, controls included; `draws` are further
    explanations by `random`. `others` are checkpoints of the same training, by name.
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

    def attends(self, groups: Sequence[Sequence[int]]) -> Bools:
        """Whether the model's attention can point at each word, given its positions."""
        attended = self.classifier.attended(self.tokens)
        return np.array([attended[list(group)].any() for group in groups], dtype=bool)

    @property
    def gold(self) -> int | None:
        """The index of the gold label, where the data has one."""
        return label_index(self.example.label, self.classifier.labels) if isinstance(self.example.label, str) else None

    def rng(self, *names: object) -> torch.Generator:
        """A random generator that depends on the seed, the text and these names only."""
        return seeded(self.seed, self.tokens.text, self.tokens.pair, *names)


@runtime_checkable
class Check(Protocol):
    """A check is a frozen dataclass of settings with these class attributes.

    `summary` is one line, `paper` its source, `changes` a sentence on what is changed and how, `measures` its measures
    by name. Optional class attributes, which reports use:

    `title`, `question` and `reading` (how to interpret the numbers, and their limits) head the check's section;
    `highlights` are its numbers on the terminal; `compared`, those that `heedful compare` sets side by side;
    `roles`, other uses of its numbers (see heedful.core.finding);
    `section` names the module whose `section(record)` makes the check's section of a report (default:
    heedful.report.sections.<name>, and tables of all rows where that does not exist).

    `requires` names methods that the run must include; `standard` and `full` are its settings in an audit of that
    profile, if not the defaults; `verdict` and `jain2019`, those of the smaller profile and of the paper's protocol, of
    which the check is then a part; and `probe` those with which `heedful capabilities` tries the check.

    Optional methods:

    `many(cases)` checks several texts at once and returns a list of findings for each;
    `passes(classifier, tokens, methods)` is the cost of one text, computed without running the model;
    `tables(findings)` makes the check's own tables of the findings on all texts: a frozen dataclass (see
    heedful.checks.tables) or a mapping that JSON can store.
    """

    summary: ClassVar[str]
    paper: ClassVar[str]
    changes: ClassVar[str]
    measures: ClassVar[Mapping[str, Measure]]

    def __call__(self, case: Case) -> list[Finding]:
        """The findings on one text."""
        ...


def by_unit(scores: Floats, groups: Sequence[Sequence[int]]) -> Floats:
    """The sum of the tokens' scores in each unit, of which none is empty."""
    if not groups:
        return np.zeros(0)
    starts = np.cumsum([0, *map(len, groups[:-1])])
    return np.asarray(np.add.reduceat(scores[[i for group in groups for i in group]], starts))


def ranking(scores: Floats, rng: torch.Generator) -> Ints:
    """Indices, highest score first; scores that are equal up to rounding are in random order."""
    random = torch.rand(len(scores), generator=rng).numpy()
    return np.lexsort((random, -merge_ties(scores[None])[0]))


def claims(why: Attribution, groups: Sequence[Sequence[int]]) -> Floats:
    """A method's score of each word; an unsigned method's magnitudes count as support."""
    scores = by_unit(why.scores, groups)
    return scores if why.signed else np.abs(scores)


def removal_effects(cases: Sequence[Case], keeps: Sequence[Bools], unit: CheckUnit, masking: str) -> list[Floats]:
    """For each text and each row of its keep[n,d]: the target's value for the whole text less that for the kept words.

    Exactly 0 where no logit moves by more than rounding. All texts run in one batch.
    """
    if not cases:
        return []
    variants = []
    for case, keep in zip(cases, keeps, strict=True):
        with_whole = np.concatenate([np.ones((1, keep.shape[1]), dtype=bool), keep])
        table = over_positions(features(case.tokens, unit), with_whole, len(case.tokens))
        variants.append(Variants(case.tokens, table, masking, case.rng("effects", masking)))
    logits = torch.split(answers(cases[0].classifier, variants).logits, [len(v) for v in variants])
    differences = []
    for case, rows in zip(cases, logits, strict=True):
        values = case.target.of(rows, case.classifier.head).numpy()
        moved = (rows - rows[:1]).abs().amax(1) > SCORE_PRECISION * largest_logit(rows[:1])
        differences.append(np.asarray(np.where(moved.numpy(), values[0] - values, 0.0)[1:]))
    return differences


def findings(check: str, case: Case, numbers: Callable[[Attribution, str], Mapping[str, float]]) -> list[Finding]:
    """The numbers of each method; for `random`, their means over its draws. `numbers` is given a name for its rng."""
    by_method = [
        Finding(check, name, measure, value)
        for name, why in case.attributions.items()
        if name != "random"
        for measure, value in numbers(why, name).items()
    ]
    draws = [numbers(why, f"random {i}") for i, why in enumerate(case.draws)]
    return by_method + [
        Finding(check, "random", measure, float(np.mean([draw[measure] for draw in draws])))
        for measure in (draws[0] if draws else ())
    ]


class Free(Checked):
    """A check of the explanations alone, without running the model."""

    def passes(self, classifier: Classifier, tokens: Tokens, methods: Mapping[str, Method]) -> Passes:
        """No pass: the explanations exist."""
        return Passes(0)


class Together(Checked):
    """A check that runs several texts at once with `many`; a single text is a batch of one."""

    def __call__(self, case: Case) -> list[Finding]:
        """The findings on one text."""
        return self.many([case])[0]

    def many(self, cases: Sequence[Case]) -> list[list[Finding]]:
        """The findings on each text."""
        raise NotImplementedError
