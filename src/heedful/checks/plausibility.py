"""Plausibility: are the words with the highest scores those that people marked? (ERASER, DeYoung et al. 2020)

It measures whether an explanation is convincing to people, not whether the model used those words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch

from heedful.checks import base
from heedful.checks.base import Case, CheckUnit, Finding, Free, Measure, Share, claims, ranking
from heedful.checks.similarity import mean
from heedful.checks.tables import MethodMean, PlausibilityTables
from heedful.core.arrays import Bools, Floats
from heedful.core.explanation import Attribution
from heedful.core.finding import Findings, Highlight, SideBySide
from heedful.core.settings import Gt, Le
from heedful.core.tokens import Span, Tokens
from heedful.maths.ranks import average_precision, merge_ties
from heedful.model.masking import features

_Higher = partial(Share, better="higher")
MIN_IOU = 0.5  # a chosen span matches a marked one if their intersection is at least this share of their union


@dataclass(frozen=True)
class Plausibility(Free):
    """Scores against a rationale, the characters that people marked; a word is marked if any of its characters is.

    The k highest words are the explanation's choice: `k` is "own", as many as are marked in this text, or a share of
    its words. Only the first text of a pair has a rationale, and only its words count. Marked words that the model did
    not read are ignored. A text without a rationale has no findings; one in which no word or every word is marked has
    NaN, since all orders are equally good.
    """

    k: Literal["own"] | Annotated[float, Gt(0), Le(1)] = "own"
    unit: CheckUnit = "word"

    name: ClassVar[str] = "plausibility"
    title: ClassVar[str] = "Plausibility"
    question: ClassVar[str] = "Are the words with the highest scores those that people marked?"
    reading: ClassVar[str] = (
        "Plausible is not faithful: if a model is right for a wrong reason, a faithful explanation scores low. Chance "
        "is more than the share of marked words, so compare with random. A rationale belongs to the gold label: texts "
        "on which the model is wrong are shown separately."
    )
    summary: ClassVar[str] = "whether the words with the highest scores are those that people marked"
    paper: ClassVar[str] = "DeYoung et al. 2020"
    changes: ClassVar[str] = "nothing is changed: scores are compared with the data's rationales"
    measures: ClassVar[Mapping[str, Measure]] = {
        "auprc": _Higher("average precision of the scores for marked words; constant scores have the rationale share"),
        "token f1": _Higher("F1 of the k highest words and the marked ones"),
        "iou": _Higher("words both selected and marked, as a share of those that are either"),
        "iou f1": _Higher("F1 of runs of selected words whose IoU with a marked run is at least ½"),
        "rationale share": Share("share of the text's words that are marked"),
    }
    highlights: ClassVar[tuple[Highlight, ...]] = (
        Highlight("auprc", "average precision for the words that people marked", head="plaus"),
    )
    compared: ClassVar[tuple[SideBySide, ...]] = (SideBySide("auprc", "average precision for marked words"),)

    def __call__(self, case: Case) -> list[Finding]:
        """Four numbers for each method, and the share of words that are marked; nothing without a rationale."""
        if case.example.rationale is None:
            return []
        groups = [group for group in features(case.tokens, self.unit) if case.tokens.segments[group[0]] == 0]
        truth = marked(case.tokens, groups, case.example.rationale)
        share = float(truth.mean()) if truth.any() else float("nan")

        def numbers(why: Attribution, name: str) -> dict[str, float]:
            return self._numbers(merge_ties(claims(why, groups)[None])[0], truth, case.rng(self.name, name))

        return [Finding(self.name, "", "rationale share", share), *base.findings(self.name, case, numbers)]

    def _numbers(self, scores: Floats, truth: Bools, rng: torch.Generator) -> dict[str, float]:
        if truth.all() or not truth.any():
            return dict.fromkeys(("auprc", "token f1", "iou", "iou f1"), float("nan"))
        k = int(truth.sum()) if self.k == "own" else max(1, round(self.k * len(truth)))
        chosen = np.isin(np.arange(len(truth)), ranking(scores, rng)[:k])
        return {
            "auprc": average_precision(truth, scores),
            "token f1": token_f1(chosen, truth),
            "iou": float((chosen & truth).sum() / (chosen | truth).sum()),
            "iou f1": iou_f1(chosen, truth),
        }

    def tables(self, findings: Findings) -> PlausibilityTables:
        """Means where the model is right and where it is wrong: a rationale belongs to the gold label."""
        gold, predicted = np.asarray(findings.texts["gold"]), np.asarray(findings.texts["predicted"])

        def means(which: Bools) -> Iterator[MethodMean]:
            for measure in self.measures:
                for method in findings.methods(measure):
                    values = findings.values(measure, method)[which]
                    n = int((~np.isnan(values)).sum())
                    yield MethodMean(method, measure, n, len(values) - n, mean(values))

        known = gold >= 0
        right, wrong = known & (gold == predicted), known & (gold != predicted)
        return PlausibilityTables(tuple(means(right)), tuple(means(wrong)))


def marked(tokens: Tokens, groups: Sequence[Sequence[int]], rationale: Sequence[Span]) -> Bools:
    """Which words have a character in one of the spans of the text."""
    spans = [[span for i in group if (span := tokens.spans[i]) is not None] for group in groups]
    return np.array([any(max(a, c) < min(b, d) for a, b in word for c, d in rationale) for word in spans], dtype=bool)


def token_f1(chosen: Bools, truth: Bools) -> float:
    """2 |both| / (|chosen| + |marked|)."""
    return float(2 * (chosen & truth).sum() / (chosen.sum() + truth.sum()))


def iou_f1(chosen: Bools, truth: Bools) -> float:
    """ERASER's F1 of spans, here the longest runs of neighbouring words: one matches if |∩| / |∪| ≥ ½ with some other.

    Runs have gaps between them, so that none matches two: precision and recall count the same matches.
    """
    selected, marked = ([set(range(*run)) for run in runs(which)] for which in (chosen, truth))
    matches = sum(any(len(a & b) >= MIN_IOU * len(a | b) for b in marked) for a in selected)
    return 2 * matches / (len(selected) + len(marked))


def runs(which: Bools) -> list[Span]:
    """[start, end) of each run: [1, 1, 0, 1] -> [(0, 2), (3, 4)]."""
    edges = np.flatnonzero(np.diff(np.pad(which.astype(np.int8), 1)))
    return [(int(start), int(end)) for start, end in edges.reshape(-1, 2)]
