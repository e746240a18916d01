"""Agreement: do methods rank the words of a text in the same order? (Jain & Wallace 2019, first experiment)

Disagreement does not show which of two methods is wrong. Two reference values: the agreement of gradient-x-input with
leave-one-out, which both query the model, is a ceiling; that of a random ranking, a floor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from heedful.checks.base import Case, CheckUnit, Correlation, Divergence, Finding, Free, Measure, Share, by_unit
from heedful.checks.tables import AgreementTables, TauCell, TauMatrix, TauPair
from heedful.core.arrays import Floats
from heedful.core.finding import Findings, Highlight, Role, SideBySide
from heedful.core.settings import Ge
from heedful.maths import ranks
from heedful.model.masking import features

GRADIENT, LOO, ATTENTION = "gradient-x-input", "leave-one-out", "attention-mean"
PUBLISHED = ((GRADIENT, ATTENTION), (LOO, ATTENTION), (GRADIENT, LOO))  # τ_g, τ_loo, and the ceiling
VARIANTS = (("gradient-x-vocabulary", ATTENTION), ("gradient-states", ATTENTION))  # computed by their program only
SIGNIFICANCE_LEVEL = 0.05


@dataclass(frozen=True)
class Agreement(Free):
    """Rank correlations between every two methods.

    `absolute` compares magnitudes, as Jain & Wallace do; without it, signed scores are compared (an unsigned method's
    magnitudes count as support). `top` is the k of the top-k measures, by default a fifth of the words. Scores that
    differ only by rounding are ties. Each number of `random` is the mean over its draws. Words that the model's
    attention cannot point at, such as those of the second text in a network that attends to the first, take no part.
    """

    unit: CheckUnit = "word"
    absolute: bool = True
    top: Annotated[int, Ge(1)] | None = None

    name: ClassVar[str] = "agreement"
    title: ClassVar[str] = "Agreement"
    question: ClassVar[str] = "Do the methods rank the words of a text in the same order?"
    reading: ClassVar[str] = (
        "Agreement does not prove that two methods are right, and disagreement does not show which is wrong. The "
        "agreement of gradient × input with leave-one-out, which both query the model, is a ceiling. Attention that "
        "correctly puts all weight on one of n words has only τ = √(2/n) with a ranking that has the same top word "
        "(0.32 for 20 words), because its other words are tied. On long texts τ mostly reflects words of little "
        "effect: compare the top-k measures with those of random, which are below 0 by chance."
    )
    summary: ClassVar[str] = "whether methods rank words in the same order"
    paper: ClassVar[str] = "Jain & Wallace 2019"
    changes: ClassVar[str] = "nothing is changed: the scores of every two methods on a text are compared"
    requires: ClassVar[tuple[str, ...]] = (GRADIENT, LOO, ATTENTION)
    verdict: ClassVar[Mapping[str, Any]] = {}
    jain2019: ClassVar[Mapping[str, Any]] = {"unit": "token"}
    measures: ClassVar[Mapping[str, Measure]] = {
        "tau": Correlation("Kendall's tau-b of the two orders"),
        "significant": Share("tau-b differs significantly from zero (p ≤ .05)", "rate"),
        "weighted tau": Correlation("tau with larger weights for high ranks (Vigna 2015)"),
        "top-k tau": Correlation("tau of the two lists of the k highest words (Fagin et al. 2003)"),
        "top-k overlap": Share("share of the k highest words that both have in common"),
        "spearman": Correlation("Spearman's rank correlation"),
        "jsd": Divergence("Jensen–Shannon divergence of the normalised magnitudes, 0 to ln 2"),
        "pointing": Share(
            "leave-one-out's magnitudes on the method's top fifth of words, relative to those on its own top fifth",
            better="higher",
        ),
        "attended words": Share("share of the words that attention can point at; only they are ranked", compared=False),
    }
    highlights: ClassVar[tuple[Highlight, ...]] = (
        Highlight("tau", "τ with leave-one-out", head="loo", at={"with": LOO}),
    )
    compared: ClassVar[tuple[SideBySide, ...]] = (
        SideBySide(
            "tau",
            "agreement of leave-one-out with attention (τ)",
            words="leave-one-out, attention",
            method=LOO,
            at={"with": ATTENTION},
            headline="attention of {a} agrees with leave-one-out {more} than that of {b}",
            symbol="τ",
        ),
        SideBySide(
            "tau",
            "agreement of gradient × input with attention (τ)",
            words="gradient, attention",
            method=GRADIENT,
            at={"with": ATTENTION},
        ),
        SideBySide(
            "tau",
            "agreement of gradient × input with leave-one-out (τ)",
            words="gradient, leave-one-out",
            method=GRADIENT,
            at={"with": LOO},
            headline="gradient × input and leave-one-out, which both query the model, agree {more} in {a} than in {b}",
            symbol="τ",
        ),
    )
    roles: ClassVar[tuple[Role, ...]] = ("points",)

    def __call__(self, case: Case) -> list[Finding]:
        """Seven numbers for every two methods, for each the share of leave-one-out on its top words; the words seen."""
        explanations = {name: why for name, why in case.attributions.items() if name != "random"}
        if not explanations:
            return []
        words = features(case.tokens, self.unit)
        attended = case.attends(words)
        if not attended.any():
            return [Finding(self.name, "", "attended words", 0.0)] if words else []
        seen = Finding(self.name, "", "attended words", float(attended.mean()))
        groups = [word for word, can in zip(words, attended, strict=True) if can]
        rows = [(why.signed, by_unit(why.scores, groups)) for why in (*explanations.values(), *case.draws)]
        scores = np.array([np.abs(row) if self.absolute or not signed else row for signed, row in rows])
        pairs = [
            Finding(self.name, a, measure, value, {"with": b})
            for measure, table in self._matrices(scores).items()
            for a, b, value in _pairs(list(explanations), table)
        ]
        return [seen, *pairs, *_pointing(list(explanations), np.abs(scores))]

    def _matrices(self, scores: Floats) -> dict[str, Floats]:
        """Every measure of every two rows."""
        rows = ranks.merge_ties(scores)
        k = min(self.top or ranks.top_k(rows.shape[1]), rows.shape[1])
        table = ranks.concordance(rows)
        tau = ranks.tau_b_matrix(table)
        return {
            "tau": tau,
            "significant": np.where(np.isnan(tau), np.nan, ranks.tau_b_p_values(table) <= SIGNIFICANCE_LEVEL),
            "weighted tau": ranks.weighted_tau_matrix(table, rows),
            "top-k tau": ranks.top_k_tau(rows, k),
            "top-k overlap": ranks.top_k_overlap(rows, k),
            "spearman": ranks.spearman_matrix(rows),
            "jsd": ranks.jensen_shannon_matrix(scores),
        }

    def tables(self, findings: Findings) -> AgreementTables:
        """Jain & Wallace's Table 2 for all pairs of methods, the matrix of mean tau, and the ceiling."""
        pairs = {(a, str(at["with"])) for a in findings.methods("tau") for at in findings.places("tau", a)}
        first = [name for name in findings.methods("tau") if name != "random"]
        last = sorted({b for _, b in pairs} - set(first))  # methods that are only the second of a pair
        names = [*first, *last, *["random"] * any(a == "random" for a, _ in pairs)]
        rows = [_row(findings, a, b) for a in names for b in names if (a, b) in pairs]
        by_pair = {frozenset((row.method, row.other)): row for row in rows}
        mean = {pair: row.all.mean for pair, row in by_pair.items()}
        taus = tuple(tuple(mean.get(frozenset((a, b)), np.nan) for b in names) for a in names)
        return AgreementTables(
            published=tuple(by_pair[frozenset(pair)] for pair in (*PUBLISHED, *VARIANTS) if frozenset(pair) in by_pair),
            pairs=tuple(rows),
            matrix=TauMatrix(tuple(names), taus),
            ceiling=by_pair.get(frozenset((GRADIENT, LOO))),
        )


def pointing(sizes: Floats, of: int) -> Floats:
    """For each row, the mass of row `of` on its top fifth, relative to the mass on the top fifth of `of` itself.

    Words tied at the last place share it. NaN where row `of` is zero everywhere.
    """
    mass = ranks.top_k_membership(ranks.merge_ties(sizes), ranks.top_k(sizes.shape[1])) @ sizes[of]
    with np.errstate(invalid="ignore"):
        return np.asarray(mass / mass[of])


def _pointing(names: Sequence[str], sizes: Floats) -> list[Finding]:
    """Rows are the methods, then the draws of `random`, whose mean is reported."""
    if LOO not in names:
        return []
    shares = pointing(sizes, names.index(LOO))
    random = shares[len(names) :]
    values = dict(zip(names, shares[: len(names)].tolist(), strict=True))
    values |= {"random": float(random.mean())} if len(random) else {}
    return [Finding(Agreement.name, name, "pointing", value) for name, value in values.items()]


def _pairs(names: Sequence[str], table: Floats) -> Iterator[tuple[str, str, float]]:
    """Every two methods, and `random` with each: the mean over its draws, which are the rows after the methods'."""
    n = len(names)
    rows = table[:n, :n].tolist()
    yield from ((names[i], names[j], rows[i][j]) for i in range(n) for j in range(i + 1, n))
    if len(table) > n:
        yield from (("random", name, mean) for name, mean in zip(names, table[n:, :n].mean(0).tolist(), strict=True))


def _row(findings: Findings, a: str, b: str) -> TauPair:
    """A pair's line of Table 2: over all texts, and by the label that the model predicts."""
    tau, significant = (findings.values(measure, a, {"with": b}) for measure in ("tau", "significant"))
    predicted = np.asarray(findings.texts["predicted"], dtype=int)
    classes = {
        findings.labels[i]: _cell(tau[predicted == i], significant[predicted == i])
        for i in np.unique(predicted).tolist()
    }
    return TauPair(a, b, _cell(tau, significant), classes)


def _cell(tau: Floats, significant: Floats) -> TauCell:
    """Mean ± population std, the significant fraction, the number of texts, and of those without tau."""
    there = ~np.isnan(tau)
    n, x = int(there.sum()), tau[there]
    if not n:
        return TauCell(0, len(tau))
    return TauCell(n, len(tau) - n, float(x.mean()), float(x.std()), float(significant[there].mean()))
