"""Effects: what taking words away does to the target, beside what each method says that it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from heedful.checks.base import Case, Finding, by_unit, units
from heedful.core.errors import BadInput
from heedful.core.explanation import Attribution
from heedful.maths.pairwise import ROUNDING
from heedful.model.inference import answers
from heedful.model.masking import Bools, Variants, check_masking, over_positions

Floats = NDArray[np.float64]
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
    moved = (logits - logits[:1]).abs().amax(1) > ROUNDING * logits[0].abs().max()
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


class Together:
    """A check that asks the model about several texts at once, and so about one."""

    def __call__(self, case: Case) -> list[Finding]:
        """What is found on one text."""
        return self.many([case])[0]

    def many(self, cases: Sequence[Case]) -> list[list[Finding]]:
        """What is found on each text."""
        raise NotImplementedError


def check_ways(unit: str, masking: str = "delete") -> None:
    """Refuse what names no unit or no way of taking words away."""
    if unit not in ("word", "token"):
        raise BadInput(f"unit '{unit}' is not one of word, token.")
    check_masking(masking)
