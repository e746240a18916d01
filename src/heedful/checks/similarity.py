"""Likeness: how much two explanations of the same words say the same; and explaining again, which some checks do.

tau             Kendall's τ-b of the words' magnitudes
top-k overlap   the share of the k words of largest magnitude that both have, k = a fifth of the words, at least one
jsd             Jensen–Shannon divergence (at most ln 2) of the magnitudes, each divided by their sum
distance        ‖a − b‖₂ / ‖a‖₂, signs kept

Signs matter to the distance alone: the others ask whether the same words matter. What is no number: of fewer than two
words, the first three; the first two of equal magnitudes, the last two of nothing but zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from heedful.checks.base import Case, Finding, Floats, Measure, Passes, by_unit, units
from heedful.core.errors import HeedfulError
from heedful.core.explanation import Attribution
from heedful.core.finding import CORRELATION, DIVERGENCE, FRACTION, LEFT_OUT, Place
from heedful.core.tokens import Tokens
from heedful.maths.ranks import jensen_shannon, normalised, tau_b, top_k, top_k_overlap
from heedful.methods import METHODS, Method
from heedful.methods.base import total
from heedful.model.classifier import Classifier

CONTROLS = ("random", "uniform", "position")
ONCE = "its scores were brought from a file, and cannot be made again"
DIGITS = 6  # of magnitudes relative to the largest: float32 and another batch move what comes after

LIKENESS: Mapping[str, Measure] = {
    "tau": Measure("Kendall's τ-b of the words' magnitudes in both explanations", range=CORRELATION),
    "top-k overlap": Measure("share of the top fifth of the words that both explanations have", range=FRACTION),
    "jsd": Measure("Jensen–Shannon divergence of the normalised magnitudes", range=DIVERGENCE),
    "distance": Measure("‖a − b‖ / ‖a‖ of the words' scores, signs kept"),
}
NOTHING: Mapping[str, float] = dict.fromkeys(LIKENESS, float("nan"))


@dataclass(frozen=True)
class Compared:
    """A number for each name in LIKENESS, and why there is none where that needs saying."""

    values: Mapping[str, float]
    why: str = ""

    def findings(self, check: str, method: str, measures: Sequence[str], at: Place) -> list[Finding]:
        """Some of the numbers as findings."""
        details = {"reason": self.why} if self.why else {}
        return [Finding(check, method, name, self.values[name], at, details) for name in measures]


def likeness(a: Floats, b: Floats) -> dict[str, float]:
    """Of a score for each word and another: likeness([1, 2], [1, 2]) -> tau 1, overlap 1, jsd 0, distance 0."""
    several = len(a) > 1
    return {
        "tau": tau_b(_steady(a), _steady(b))[0] if several else np.nan,
        "top-k overlap": overlap(a, b) if several else np.nan,
        "jsd": divergence(a, b) if several else np.nan,
        "distance": distance(a, b),
    }


def distance(a: Floats, b: Floats) -> float:
    """‖a − b‖ / ‖a‖: distance([3, 4], [0, 4]) -> .6."""
    size = float(np.linalg.norm(a))
    return float(np.linalg.norm(a - b)) / size if size > 0 else float("nan")


def divergence(a: Floats, b: Floats) -> float:
    """Jensen–Shannon divergence of |a| / Σ|a| and |b| / Σ|b|; NaN where either is all zeros."""
    return float(jensen_shannon(normalised(a), normalised(b))) if a.any() and b.any() else float("nan")


def overlap(a: Floats, b: Floats) -> float:
    """Of the top k of both: overlap([3, 2, 1, 0, 0], [3, 0, 0, 2, 1]) -> 1, as k is 1.

    Words that tie for the last places share them, so that the order of reading decides nothing.
    """
    one, other = _steady(a), _steady(b)
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return float("nan")
    return float(top_k_overlap(np.stack([one, other]), top_k(len(a)))[0, 1])


def _steady(scores: Floats) -> Floats:
    """Magnitudes relative to the largest, rounded, so that noise of rounding is a tie and not an order."""
    sizes = np.abs(scores)
    largest = sizes.max(initial=0.0)
    return np.round(sizes / largest, DIGITS) if largest > 0 else np.zeros_like(sizes)


def by_word(why: Attribution) -> dict[int, float]:
    """The number of each word in the text (on through its pair), which is the same for any tokenizer -> its score."""
    groups = units(why.tokens)
    found: dict[int, float] = {}
    for group, score in zip(groups, by_unit(why.scores, groups), strict=True):
        number = why.tokens.words[group[0]] or 0
        found[number] = found.get(number, 0.0) + float(score)
    return found


def compared(one: object, other: object, moved: Mapping[int, int] | None = None) -> Compared:
    """Two explanations, word by word. `moved` says which word of the other's text each is, where texts differ.

    Either may also be what kept a method from explaining: then there are no numbers, but a reason.
    """
    error = next((e for e in (one, other) if isinstance(e, HeedfulError)), None)
    if error is not None:
        return Compared(NOTHING, str(error))
    if not isinstance(one, Attribution) or not isinstance(other, Attribution):
        return Compared(NOTHING, "the method gave no score for each word")
    a, b = by_word(one), by_word(other)
    if moved is None and list(a) != list(b):
        return Compared(
            NOTHING, "the two explanations are of other words: the models cut or shorten the text otherwise"
        )
    shared = [
        (i, j) for i, j in (dict(zip(a, a, strict=True)) if moved is None else moved).items() if i in a and j in b
    ]
    if not shared:
        return Compared(NOTHING, "no word is in both texts")
    return Compared(likeness(np.array([a[i] for i, _ in shared]), np.array([b[j] for _, j in shared])))


def mean(values: Sequence[float]) -> float:
    """Of the numbers that exist; NaN where none does."""
    known = [x for x in values if not np.isnan(x)]
    return float(np.mean(known)) if known else float("nan")


def averaged(every: Sequence[Compared]) -> Compared:
    """The mean of each number over those comparisons in which it exists, and the first reason for a missing one."""
    values = {name: mean([one.values[name] for one in every]) for name in LIKENESS}
    return Compared(values, next((one.why for one in every if one.why), ""))


def unrelated(case: Case) -> Compared | None:
    """Two explanations that have nothing to do with each other: the mean over pairs of `random`'s draws."""
    if len(case.draws) < 2:
        return None
    return averaged([compared(a, b) for a, b in zip(case.draws, [*case.draws[1:], case.draws[0]], strict=True)])


# explaining again


def chosen(known: Sequence[str], wanted: tuple[str, ...] | None) -> list[str]:
    """Which of the run's methods a check is about: all, or those named, and the controls `uniform` and `position`."""
    named = None if wanted is None else {*wanted, *map(METHODS.full_name, wanted)}
    return [name for name in known if name != "random" and (named is None or name in named or name in CONTROLS)]


def remade(case: Case, wanted: tuple[str, ...] | None) -> list[str]:
    """Those of `chosen` that can explain again; scores that were brought from a file would only be read again."""
    return [name for name in chosen(list(case.attributions), wanted) if getattr(case.methods[name], "again", True)]


def brought(check: str, case: Case, wanted: tuple[str, ...] | None) -> list[Finding]:
    """That the others were left out."""
    able = remade(case, wanted)
    others = [name for name in chosen(list(case.attributions), wanted) if name not in able]
    return [Finding(check, name, LEFT_OUT, float("nan"), {}, {"reason": ONCE}) for name in others]


def passes_of(classifier: Classifier, tokens: Tokens, methods: Mapping[str, Method], names: Sequence[str]) -> Passes:
    """What explaining one text with these methods takes, as far as they say."""
    counts = [getattr(methods[name], "passes", None) for name in names]
    return total(count(classifier, tokens) for count in counts if count is not None)


def times(passes: Passes, n: int) -> Passes:
    """At most n of them."""
    return Passes(passes.forwards * n, passes.backwards * n, exactly=False)


def evenly(n: int, wanted: int | None) -> list[int]:
    """At most `wanted` of the numbers 0 … n − 1, evenly spaced, the last among them: evenly(5, 2) -> [2, 4]."""
    if wanted is None or wanted >= n:
        return list(range(n))
    return sorted({-(-n * (i + 1) // wanted) - 1 for i in range(wanted)})
