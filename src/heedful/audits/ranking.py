"""Ranking: which explanation to use for this model, and how certain that is. Needs no torch.

A method's score on a text is the area between its two erasure curves: insertion − deletion, the label's probability
with the method's top words alone, less that without them, over all fractions of the text. The score of a random order
is 0 on average, since keeping a random set of words and removing one leave the same texts: chance needs no correction,
and a run need not measure it.

Methods are compared two by two over the texts that both explained, with Holm's correction over all pairs. A rank is a
range, [1 + number of significantly better methods, number of methods − number of significantly worse ones]: methods
that are not significantly different share ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations

from heedful.core.arrays import Floats
from heedful.core.finding import BOUNDS as BOUNDS
from heedful.core.finding import Findings
from heedful.core.table import align_columns
from heedful.maths import stats
from heedful.maths.ranks import TOP_SHARE
from heedful.maths.stats import Decision, Estimate

COMPARABLE = 0.9  # of the largest number of texts of any method: a mean over fewer is one over other texts


@dataclass(frozen=True, kw_only=True, repr=False)
class RankedMethod(Estimate):
    """A method's score over texts, and the range of its rank: `first` at best, `last` at worst."""

    method: str
    first: int
    last: int

    @property
    def rank(self) -> str:
        """The range as text: "1", "2–4"."""
        return f"{self.first}" if self.first == self.last else f"{self.first}–{self.last}"

    def gist(self) -> str:
        """The method, its rank and its score, in one line."""
        return f"{self.method}, rank {self.rank}: {super().gist()}"


@dataclass(frozen=True)
class Ranking:
    """The methods under one masking, best mean first; `unranked` have a score on too few texts."""

    masking: str
    methods: tuple[RankedMethod, ...]
    better: tuple[tuple[str, str], ...]  # (a, b): a is significantly better than b
    unranked: tuple[str, ...] = ()

    @property
    def tied(self) -> tuple[str, ...]:
        """The best method, and those that are not significantly different from it."""
        worse = {b for a, b in self.better if a == self.methods[0].method}
        return tuple(row.method for row in self.methods if row.method not in worse)

    def __repr__(self) -> str:
        """A line for each method: "  1–2  lime  0.523 [0.401, 0.645], n=60"."""
        rows = [(row.rank, row.method, Estimate.gist(row)) for row in self.methods]
        lines = [align_columns(rows, indent="  ")] if rows else []
        lines += [f"  unranked: {', '.join(self.unranked)}"] if self.unranked else []
        return "\n".join([f"Ranking of {len(self.methods)} methods (masking {self.masking})", *lines])


@dataclass(frozen=True)
class Reversal:
    """`a` is significantly better than `b` under one masking, and significantly worse under another."""

    a: str
    b: str
    better: str
    worse: str


def rankings(findings: Findings) -> list[Ranking]:
    """A ranking for each masking of the findings of input-erasure."""
    maskings = dict.fromkeys(str(at["masking"]) for at in findings.places("deletion"))
    return [rank_methods(masking, text_scores(findings, masking)) for masking in maskings]


def text_scores(findings: Findings, masking: str) -> dict[str, Floats]:
    """For each method, insertion − deletion on each text; for `random` 0, its expectation, also where it was measured.

    The mean of a few random orders has noise, by which methods near 0 would have other ranks in another profile.
    """
    at = {"masking": masking}
    names = [name for name in findings.methods("deletion") if name not in BOUNDS]
    scores = {name: findings.values("insertion", name, at) - findings.values("deletion", name, at) for name in names}
    curves = scores.pop("random", None)
    if curves is None and "random" in findings.methods("tvd"):
        curves = findings.values("tvd", "random", at | {"share": TOP_SHARE})
    return scores if curves is None else scores | {"random": 0 * curves}  # NaN where it was not measured


def rank_methods(masking: str, scores: Mapping[str, Floats]) -> Ranking:
    """The methods in the order of their mean scores, with their ranks."""
    estimates = {name: stats.estimate(values) for name, values in scores.items()}
    most = max((estimate.n for estimate in estimates.values()), default=0)
    names = [name for name, estimate in estimates.items() if estimate.n and estimate.n >= COMPARABLE * most]
    better = _better({name: scores[name] for name in names})
    methods = [
        RankedMethod(
            **asdict(estimates[name]),
            method=name,
            first=1 + sum(b == name for _, b in better),
            last=len(names) - sum(a == name for a, _ in better),
        )
        for name in sorted(names, key=lambda name: -estimates[name].mean)
    ]
    return Ranking(masking, tuple(methods), better, tuple(name for name in scores if name not in names))


def _better(scores: Mapping[str, Floats]) -> tuple[tuple[str, str], ...]:
    """The pairs of methods of which the first is significantly better; none with too few texts."""
    pairs = list(combinations(scores, 2))
    differences = stats.decide(stats.all_paired([(scores[a], scores[b]) for a, b in pairs]))
    better = [
        (a, b) if difference.decision == Decision.HIGHER else (b, a)
        for (a, b), difference in zip(pairs, differences, strict=True)
        if difference is not None and difference.significant
    ]
    return tuple(sorted(better))


def reversals(maskings: Sequence[Ranking]) -> list[Reversal]:
    """Pairs of methods of which one is significantly better under one masking, and the other under another."""
    return [
        Reversal(a, b, first.masking, second.masking)
        for first, second in combinations(maskings, 2)
        for a, b in first.better
        if (b, a) in second.better
    ]
