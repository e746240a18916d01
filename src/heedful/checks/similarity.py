"""Similarity of two explanations of the same words, for the checks that explain a text again.

tau             Kendall's τ-b of the words' magnitudes
top-k overlap   the share of the k words of largest magnitude that both have, k = a fifth of the words, at least one
jsd             Jensen–Shannon divergence (at most ln 2) of the magnitudes, each divided by their sum
distance        ‖a − b‖₂ / ‖a‖₂, with signs

Only the distance depends on signs: the others measure whether the same words matter. NaN: the first three for fewer
than two words; the first two where all magnitudes are equal; the last two where all are zero. The words are those that
the model's attention can point at: in a network that attends to the first of two texts, the words of the second would
tie in every explanation by attention.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from heedful.checks.base import Case, Correlation, Divergence, Finding, Measure, Passes, Share, by_unit
from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.explanation import Attribution
from heedful.core.finding import CONTROLS, LEFT_OUT, Place
from heedful.core.tokens import Tokens
from heedful.maths.ranks import jensen_shannon, normalised, tau_b, top_k, top_k_overlap
from heedful.methods import METHODS, Method
from heedful.methods.base import total
from heedful.model.classifier import Classifier
from heedful.model.masking import features

IMPORTED = "its scores were read from a file and cannot be computed again"
COMPARED_WORDS = "Only words that the model's attention can point at are compared."
MAGNITUDE_DIGITS = 6  # relative to the largest: further digits depend on float32 and on the batch

SIMILARITY_MEASURES: Mapping[str, Measure] = {
    "tau": Correlation("Kendall's τ-b of the words' magnitudes in both explanations"),
    "top-k overlap": Share("share of the top fifth of the words that both explanations have"),
    "jsd": Divergence("Jensen–Shannon divergence of the normalised magnitudes", compared=False),
    "distance": Measure("‖a − b‖ / ‖a‖ of the words' scores, with signs", compared=False),
}
MISSING: Mapping[str, float] = dict.fromkeys(SIMILARITY_MEASURES, float("nan"))


@dataclass(frozen=True)
class Similarity:
    """A number for each of SIMILARITY_MEASURES, and the reason where there is none."""

    values: Mapping[str, float]
    why: str = ""

    def findings(self, check: str, method: str, measures: Sequence[str], at: Place) -> list[Finding]:
        """Some of the numbers as findings."""
        details = {"reason": self.why} if self.why else {}
        return [Finding(check, method, name, self.values[name], at, details) for name in measures]


def similarity(a: Floats, b: Floats) -> dict[str, float]:
    """Of two scorings of the same words: similarity([1, 2], [1, 2]) -> tau 1, overlap 1, jsd 0, distance 0."""
    several = len(a) > 1
    return {
        "tau": tau_b(_rounded(a), _rounded(b))[0] if several else np.nan,
        "top-k overlap": overlap(a, b) if several else np.nan,
        "jsd": float(jensen_shannon(normalised(a), normalised(b))) if several and a.any() and b.any() else np.nan,
        "distance": distance(a, b),
    }


def distance(a: Floats, b: Floats) -> float:
    """‖a − b‖ / ‖a‖: distance([3, 4], [0, 4]) -> .6."""
    size = float(np.linalg.norm(a))
    return float(np.linalg.norm(a - b)) / size if size > 0 else float("nan")


def overlap(a: Floats, b: Floats) -> float:
    """Of the top k of both: overlap([3, 2, 1, 0, 0], [3, 0, 0, 2, 1]) -> 1, as k is 1.

    Words that tie for the last places share them, so that reading order does not matter.
    """
    rows = np.stack([_rounded(a), _rounded(b)])
    return float("nan") if (np.ptp(rows, axis=1) == 0).any() else float(top_k_overlap(rows, top_k(len(a)))[0, 1])


def _rounded(scores: Floats) -> Floats:
    """Magnitudes relative to the largest, rounded, so that numerical noise results in ties."""
    sizes = np.abs(scores)
    largest = sizes.max(initial=0.0)
    return np.round(sizes / largest, MAGNITUDE_DIGITS) if largest > 0 else np.zeros_like(sizes)


def word_scores(why: Attribution) -> dict[int, float]:
    """The score of each word by its number in the text and its pair, which does not depend on the tokenizer."""
    groups = features(why.tokens)
    scores: dict[int, float] = {}
    for group, score in zip(groups, by_unit(why.scores, groups), strict=True):
        number = why.tokens.words[group[0]] or 0
        scores[number] = scores.get(number, 0.0) + float(score)
    return scores


def compared_words(case: Case) -> set[int]:
    """The numbers of the words that attention can point at."""
    groups = features(case.tokens)
    return {case.tokens.words[group[0]] or 0 for group, can in zip(groups, case.attends(groups), strict=True) if can}


def compare_explanations(
    case: Case, first: object, second: object, moved: Mapping[int, int] | None = None
) -> Similarity:
    """An explanation of the case's text and another one, word by word, on `compared_words`.

    `moved` maps its words to those of the other text, where that is another. Either may be the error of a failed
    explanation: then there is a reason instead of numbers.
    """
    error = next((e for e in (first, second) if isinstance(e, HeedfulError)), None)
    if error is not None:
        return Similarity(MISSING, str(error))
    if not isinstance(first, Attribution) or not isinstance(second, Attribution):
        return Similarity(MISSING, "the method does not score each word")
    a, b = word_scores(first), word_scores(second)
    if moved is None and list(a) != list(b):
        why = "the two explanations are of different words: the models tokenise or truncate the text differently"
        return Similarity(MISSING, why)
    numbers = {i: i for i in a} if moved is None else moved
    words = compared_words(case)
    shared = [(i, j) for i, j in numbers.items() if i in words and i in a and j in b]
    if not shared:
        return Similarity(MISSING, "no word to compare is in both texts")
    return Similarity(similarity(np.array([a[i] for i, _ in shared]), np.array([b[j] for _, j in shared])))


def mean(values: Iterable[float]) -> float:
    """The mean, NaN left out; NaN where all are."""
    known = [x for x in values if not np.isnan(x)]
    return float(np.mean(known)) if known else float("nan")


def averaged(comparisons: Sequence[Similarity]) -> Similarity:
    """The mean of each number over the comparisons in which it exists, and the first reason for a missing one."""
    values = {name: mean([c.values[name] for c in comparisons]) for name in SIMILARITY_MEASURES}
    return Similarity(values, next((c.why for c in comparisons if c.why), ""))


def unrelated(case: Case) -> Similarity | None:
    """The similarity of unrelated explanations: the mean over pairs of `random`'s draws."""
    if len(case.draws) < 2:
        return None
    words = compared_words(case)  # as in `compare_explanations`, once for all pairs
    scores = [np.array([x for i, x in word_scores(draw).items() if i in words]) for draw in case.draws]
    if not len(scores[0]):
        return compare_explanations(case, case.draws[0], case.draws[1])
    return averaged([Similarity(similarity(a, b)) for a, b in zip(scores, [*scores[1:], scores[0]], strict=True)])


# explaining again


def methods_used(known: Sequence[str], wanted: tuple[str, ...] | None) -> list[str]:
    """The methods of the run that a check uses: all, or the named ones and the controls `uniform` and `position`."""
    named = None if wanted is None else {*wanted, *map(METHODS.full_name, wanted)}
    return [name for name in known if name != "random" and (named is None or name in named or name in CONTROLS)]


def repeatable(case: Case, wanted: tuple[str, ...] | None) -> list[str]:
    """Those of `methods_used` that can explain again; imported scores would only be read again."""
    names = methods_used(list(case.attributions), wanted)
    return [name for name in names if getattr(case.methods[name], "again", True)]


def explained_cases(cases: Sequence[Case], wanted: tuple[str, ...] | None) -> Iterator[tuple[str, list[int]]]:
    """Each method that can explain again, and the indices of the cases that it has explained."""
    for name in dict.fromkeys(name for case in cases for name in repeatable(case, wanted)):
        yield name, [i for i, case in enumerate(cases) if name in case.attributions]


def left_out_findings(check: str, case: Case, wanted: tuple[str, ...] | None) -> list[Finding]:
    """A finding for each method that is left out, with the reason."""
    able = repeatable(case, wanted)
    others = [name for name in methods_used(list(case.attributions), wanted) if name not in able]
    return [Finding(check, name, LEFT_OUT, float("nan"), {}, {"reason": IMPORTED}) for name in others]


def passes_of(classifier: Classifier, tokens: Tokens, methods: Mapping[str, Method], names: Sequence[str]) -> Passes:
    """The cost of explaining one text with these methods, as far as they declare it."""
    counts = [getattr(methods[name], "passes", None) for name in names]
    return total(count(classifier, tokens) for count in counts if count is not None)


def times(passes: Passes, n: int) -> Passes:
    """At most n times as many."""
    return Passes(passes.forwards * n, passes.backwards * n, exactly=False)


def evenly(n: int, wanted: int | None) -> list[int]:
    """At most `wanted` of the numbers 0 … n − 1, evenly spaced, including the last: evenly(5, 2) -> [2, 4]."""
    if wanted is None or wanted >= n:
        return list(range(n))
    return sorted({-(-n * (i + 1) // wanted) - 1 for i in range(wanted)})
