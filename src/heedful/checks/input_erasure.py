"""Input erasure: words are removed from the text in the order of an explanation, and the output changes.

p is the probability of the explained label (the predicted one, unless the target says otherwise); of a regression model
its output. Words are removed, or kept, highest score first; k words of n.

comprehensiveness   p(all) − p(without the first k)           sufficiency   p(all) − p(only the first k)
aopc …              their means over the shares k/n (DeYoung et al. 2020, without their term for k = 0, which is 0)
deletion            area under p as words are removed         insertion     area under p as they are put back
first flip          fraction of words removed when the predicted label first changes
tvd                 total variation distance of all labels' probabilities with a fifth of the words removed, of those
                    that the model's attention can point at
tvd without words   the same with all words removed

Compared with the methods: `random`, the mean over its draws; `greedy`, which removes at each step the word that lowers
p most; and `optimum`, the best of all sets of k words, for each k separately: no order of words can do better.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from heedful.checks.base import (
    Case,
    CheckUnit,
    Correlation,
    Finding,
    Measure,
    Passes,
    Share,
    Together,
    by_unit,
    ranking,
)
from heedful.checks.similarity import mean
from heedful.checks.tables import Curve, InputErasureTables, MaskingAgreement
from heedful.core.arrays import Bools, Floats, Ints
from heedful.core.errors import BadInput, HeedfulError
from heedful.core.explanation import Attribution
from heedful.core.finding import BOUNDS, FRACTION, LEFT_OUT, Findings, Highlight, Place, Role, SideBySide
from heedful.core.settings import Between, Ge, Gt, Le
from heedful.core.target import activation
from heedful.core.tokens import Tokens
from heedful.maths import stats
from heedful.maths.distances import Changes, changes
from heedful.maths.ranks import tau_b
from heedful.maths.shapley import all_subsets
from heedful.methods import Method
from heedful.model.classifier import Classifier
from heedful.model.inference import Engine
from heedful.model.masking import TOKENS, WAYS, Masking, Variants, features, over_positions

MeasureAt = tuple[str, float | None]  # a measure, and the share of words at which it is taken
TVD_SHARE = 0.2  # of the words are removed for `tvd`
CURVE = tuple(round(i / 10, 1) for i in range(11))  # shares of words removed


@dataclass(frozen=True)
class InputErasure(Together):
    """Does the prediction depend on the words that an explanation ranks first?

    `maskings` are ways of removing words; None is delete, and mask or else unk. A text of more than `points` words is
    measured at that many evenly spaced steps, and its first flip is the first of these. `greedy` is computed for texts
    of at most `greedy_words`, `optimum` for at most `exhaustive_words`; neither where a masked language model draws
    the replacements, since the best of many draws is biased. Without `random_curves` only the `tvd` of `random` is
    measured: its insertion − deletion, by which methods are ranked, is 0 in expectation. `unit` is what is removed at a
    time: under "sentence" all numbers of words above, and the shares, are of sentences; "auto" is words in a text of at
    most 64, else sentences.
    """

    maskings: tuple[Masking, ...] | None = None
    shares: tuple[Annotated[float, Gt(0), Le(1)], ...] = (0.05, 0.1, 0.2, 0.5)
    points: Annotated[int, Ge(1)] = 20
    greedy_words: Annotated[int, Ge(0)] = 20
    exhaustive_words: Annotated[int, Between(0, 16)] = 10
    random_curves: bool = True
    unit: CheckUnit = "word"

    name: ClassVar[str] = "input-erasure"
    title: ClassVar[str] = "Input erasure"
    question: ClassVar[str] = "Does the prediction depend on the words that a method ranks first?"
    reading: ClassVar[str] = (
        "Texts without some words are out of distribution: the probability may drop because the sentence is broken, "
        "and it drops for a random order too. Judge by the difference to random, and under at least two maskings. "
        "Leave-one-out has an advantage, since it measures nearly the same effect. Greedy and optimum exist for short "
        "texts only, so their means are over other texts."
    )
    standard: ClassVar[Mapping[str, Any]] = {"points": 10}
    verdict: ClassVar[Mapping[str, Any]] = {
        "maskings": ("delete",),
        "points": 10,
        "greedy_words": 0,
        "exhaustive_words": 0,
        "random_curves": False,
    }
    full: ClassVar[Mapping[str, Any]] = {"maskings": WAYS}
    probe: ClassVar[Mapping[str, Any]] = {"points": 2, "greedy_words": 0, "exhaustive_words": 0}
    summary: ClassVar[str] = "words removed from the text, or put back, highest score first"
    paper: ClassVar[str] = "DeYoung et al. 2020; Samek et al. 2017; Petsiuk et al. 2018"
    changes: ClassVar[str] = "words are deleted or replaced by a neutral token"
    measures: ClassVar[Mapping[str, Measure]] = {
        "comprehensiveness": Correlation("drop of the label's probability without the top words", better="higher"),
        "sufficiency": Correlation("drop of the label's probability with only the top words", better="lower"),
        "aopc comprehensiveness": Correlation("comprehensiveness, mean over shares", better="higher"),
        "aopc sufficiency": Correlation("sufficiency, mean over shares", better="lower"),
        "tvd": Share("total variation distance of the output without the top fifth of the words", better="higher"),
        "tvd without words": Share("total variation distance of the output without any word", compared=False),
        "deletion": Share("area under the label's probability as words are removed", better="lower"),
        "insertion": Share("area under the label's probability as words are put back", better="higher"),
        "first flip": Share("fraction of words removed when the label first changes", better="lower"),
        "never": Share("the label never changes, up to all words", "rate", "lower"),
        "curve": Share("the label's probability with this fraction of the words removed"),
    }
    highlights: ClassVar[tuple[Highlight, ...]] = (
        Highlight("aopc comprehensiveness", "drop of the probability without the top words", head="compr"),
        Highlight("aopc sufficiency", "its drop with the top words alone: lower is better", head="suff"),
        Highlight("deletion", "area under the probability as words are removed: lower is better", head="del"),
    )
    compared: ClassVar[tuple[SideBySide, ...]] = (
        SideBySide(
            "aopc comprehensiveness", "drop of the probability without the top words (AOPC)", at={"masking": "delete"}
        ),
        SideBySide(
            "aopc sufficiency", "drop of the probability with the top words alone (AOPC)", at={"masking": "delete"}
        ),
        SideBySide("deletion", "area under the probability as words are removed", at={"masking": "delete"}),
    )
    roles: ClassVar[tuple[Role, ...]] = ("matters", "ranking")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.maskings == () or not self.shares:
            raise BadInput(f"maskings is {self.maskings} and shares is {self.shares}; give at least one of each.")

    def many(self, cases: Sequence[Case]) -> list[list[Finding]]:
        """The findings on each text; all texts run in one stream of inputs for each masking."""
        findings: list[list[Finding]] = [[] for _ in cases]
        for masking in self.ways(cases[0].classifier) if cases else ():
            for before, more in zip(findings, self._under(cases, masking), strict=True):
                before += more
        return findings

    def ways(self, classifier: Classifier) -> tuple[str, ...]:
        """The maskings of the settings, or those that the model's tokenizer has a token for."""
        tokenizer = getattr(classifier, "tokenizer", None)
        known = [masking for masking in ("mask", "unk") if getattr(tokenizer, TOKENS[masking], None) is not None]
        return ("delete", *known[:1]) if self.maskings is None else self.maskings

    def passes(self, classifier: Classifier, tokens: Tokens, methods: Mapping[str, Method]) -> Passes:
        """At most: equal sets run once."""
        n = len(features(tokens, self.unit))
        random = getattr(methods.get("random"), "draws", 0)
        orders = len([name for name in methods if name != "random"]) + random * self.random_curves
        sets = 2 + 2 * orders * len(self._sizes(n)) + random * (not self.random_curves)
        greedy = n * (n + 1) // 2 + 2 * len(self._sizes(n)) if n <= self.greedy_words else 0
        every = min(2**n, sets + greedy) if n > self.exhaustive_words else 2**n
        return Passes(len(self.ways(classifier)) * every, exactly=False)

    def _under(self, cases: Sequence[Case], masking: str) -> list[list[Finding]]:
        try:
            return self._measured([MaskedText(case, masking, self.unit) for case in cases])
        except HeedfulError as e:
            if len(cases) == 1:
                return [[Finding(self.name, "", LEFT_OUT, np.nan, {"masking": masking}, {"reason": str(e)})]]
        return [self._under([case], masking)[0] for case in cases]

    def _measured(self, texts: Sequence[MaskedText]) -> list[list[Finding]]:
        engine = Engine(texts[0].case.classifier)
        orders = [_orders(text) for text in texts]
        ask(engine, [(text, self._sets(text, by_method)) for text, by_method in zip(texts, orders, strict=True)])
        greedy = self._greedy(engine, texts)
        searched = [(text, order) for text, order in zip(texts, greedy, strict=True) if len(order)]
        ask(engine, [(text, self._sets(text, {"": [order]})) for text, order in searched])
        return [self._findings(*args) for args in zip(texts, orders, greedy, strict=True)]

    def _sizes(self, n: int) -> Ints:
        """How many words are removed at each measured step."""
        return np.union1d(steps(n, self.points), [count(share, n) for share in (*self.shares, TVD_SHARE)])

    def _small(self, text: MaskedText, max_words: int) -> bool:
        return len(text) <= max_words and not text.masking.startswith("mlm:")

    def _sets(self, text: MaskedText, orders: Mapping[str, Sequence[Ints]]) -> Bools:
        if self._small(text, self.exhaustive_words):
            return all_subsets(len(text))
        sizes = self._sizes(len(text))
        prefixes = [first(order, sizes) for name, group in orders.items() if self._has_curve(name) for order in group]
        tops = [text.without_top(order) for group in orders.values() for order in group]
        return np.concatenate([np.ones((1, len(text)), bool), *prefixes, *(~prefix for prefix in prefixes), *tops])

    def _has_curve(self, method: str) -> bool:
        return self.random_curves or method != "random"

    def _greedy(self, engine: Engine, texts: Sequence[MaskedText]) -> list[Ints]:
        """For each text, the order that lowers p most at each step; empty where it is not computed."""
        chosen: list[list[int]] = [[] for _ in texts]
        small = [i for i, text in enumerate(texts) if self._small(text, self.greedy_words)]
        while unfinished := [i for i in small if len(chosen[i]) < len(texts[i])]:
            more = {i: one_more(chosen[i], len(texts[i])) for i in unfinished}
            ask(engine, [(texts[i], keep) for i, (_, keep) in more.items()])
            for i, (words, keep) in more.items():
                values = texts[i].values(keep)
                best = ranking(-values, texts[i].case.rng(self.name, "greedy", len(chosen[i])))[0]
                chosen[i].append(int(words[best]))
        return [np.array(order, dtype=np.int64) for order in chosen]

    def _findings(self, text: MaskedText, orders: Mapping[str, Sequence[Ints]], greedy: Ints) -> list[Finding]:
        measures = {name: self.numbers if self._has_curve(name) else _top_tvd for name in orders}
        numbers = {name: _mean([measures[name](text, order) for order in group]) for name, group in orders.items()}
        numbers["greedy"] = self.numbers(text, greedy) if len(greedy) else self._missing(order=True)
        numbers["optimum"] = self.optimum(text)
        masking: Place = {"masking": text.masking}
        places: dict[MeasureAt, Place] = {
            (measure, share): {**masking, "removed" if measure == "curve" else "share": share}
            for measure, share in numbers["greedy"]
            if share is not None
        }
        nothing = text.changes(np.zeros((1, len(text)), bool)).tvd[0]
        return [
            Finding(self.name, "", "tvd without words", float(nothing), masking),
            *(
                Finding(self.name, name, key[0], float(value), places.get(key, masking))
                for name, values in numbers.items()
                for key, value in values.items()
            ),
        ]

    def numbers(self, text: MaskedText, order: Ints) -> dict[MeasureAt, float]:
        """All measures of one order of words."""
        n = len(text)
        grid = steps(n, self.points)
        full = text.values(np.ones((1, n), bool))[0]
        ks = [count(share, n) for share in self.shares]
        without = full - text.values(~first(order, ks))
        only = full - text.values(first(order, ks))
        deleted, inserted = text.values(~first(order, grid)), text.values(first(order, grid))
        sizes = self._sizes(n)
        flip = text.changes(~first(order, sizes)).flip
        numbers = self._by_share(without, only) | _top_tvd(text, order)
        numbers |= {("deletion", None): area(grid, deleted), ("insertion", None): area(grid, inserted)}
        numbers |= _flip(sizes[flip.argmax()] / n if (flip > 0).any() else None, flip)
        curve = np.interp(CURVE, grid / n, deleted).tolist()
        return numbers | {("curve", f): p for f, p in zip(CURVE, curve, strict=True)}

    def _missing(self, order: bool) -> dict[MeasureAt, float]:
        """NaN for all measures of sets of words, and with `order` for those of an order of words too."""
        nan = np.full(len(self.shares), np.nan)
        ordered: list[MeasureAt] = [("tvd", TVD_SHARE), ("deletion", None), ("insertion", None)]
        ordered += [("curve", f) for f in CURVE]
        return self._by_share(nan, nan) | _flip(None, nan) | (dict.fromkeys(ordered, np.nan) if order else {})

    def optimum(self, text: MaskedText) -> dict[MeasureAt, float]:
        """The best of all sets of words, for each number of words separately."""
        n = len(text)
        if not self._small(text, self.exhaustive_words):
            return self._missing(order=False)
        keep = all_subsets(n)
        values, sizes = text.values(keep), keep.sum(1)
        full = values[sizes == n][0]
        ks = [count(share, n) for share in self.shares]
        without = np.array([full - values[sizes == n - k].min() for k in ks])
        only = np.array([full - values[sizes == k].max() for k in ks])
        flip = text.changes(keep).flip
        fewest = (n - sizes)[flip > 0].min(initial=n + 1)
        return self._by_share(without, only) | _flip(fewest / n if fewest <= n else None, flip)

    def _by_share(self, without: Floats, only: Floats) -> dict[MeasureAt, float]:
        """Comprehensiveness and sufficiency at each share, and their means."""
        numbers: dict[MeasureAt, float] = {}
        for name, values in (("comprehensiveness", without), ("sufficiency", only)):
            numbers |= {(name, share): float(value) for share, value in zip(self.shares, values, strict=True)}
            numbers[f"aopc {name}", None] = float(values.mean())
        return numbers

    def tables(self, findings: Findings) -> InputErasureTables:
        """The methods in order for each masking, whether the maskings agree on it, and mean deletion curves."""
        ways = list(dict.fromkeys(at["masking"] for at in findings.places("aopc comprehensiveness")))
        names = [name for name in findings.methods("aopc comprehensiveness") if name not in BOUNDS]
        means = {
            way: {name: mean(findings.values("aopc comprehensiveness", name, {"masking": way})) for name in names}
            for way in ways
        }
        rows = {way: np.array(list(means[way].values())) for way in ways}
        return InputErasureTables(
            # NaN comes last
            order={way: tuple(names[i] for i in np.argsort(-rows[way], kind="stable")) for way in ways},
            means=means,
            agreement=tuple(MaskingAgreement(a, b, tau_b(rows[a], rows[b])[0]) for a, b in combinations(ways, 2)),
            curves={way: _curves(findings, way) for way in ways},
        )


def _orders(text: MaskedText) -> dict[str, list[Ints]]:
    """The words in the order of each method's scores, highest first."""
    case = text.case

    def order(name: str, why: Attribution) -> Ints:
        scores = by_unit(why.scores if why.signed else np.abs(why.scores), text.groups)
        return ranking(scores, case.rng(InputErasure.name, name))

    by_method = {name: [order(name, why)] for name, why in case.attributions.items() if name != "random"}
    random = [order(f"random {i}", why) for i, why in enumerate(case.draws)]
    return by_method | ({"random": random} if random else {})


def _top_tvd(text: MaskedText, order: Ints) -> dict[MeasureAt, float]:
    """The change of the output without the top fifth of the words, of those that attention can point at."""
    return {("tvd", TVD_SHARE): float(text.changes(text.without_top(order)).tvd[0])}


def _flip(fraction: float | None, flips: Floats) -> dict[MeasureAt, float]:
    """NaN for both where there is no label; NaN for the fraction where the label never changes."""
    exists = not np.isnan(flips).any()
    never = float(fraction is None) if exists else np.nan
    return {("first flip", None): np.nan if fraction is None else float(fraction), ("never", None): never}


def _mean(numbers: Sequence[Mapping[MeasureAt, float]]) -> dict[MeasureAt, float]:
    """The mean over draws: of `never`, the share of draws; of the first flip, over those that flip."""
    flip: MeasureAt = ("first flip", None)
    means = {key: float(np.mean([draw[key] for draw in numbers])) for key in numbers[0]}
    return means | ({flip: mean([draw[flip] for draw in numbers])} if flip in means else {})


def _curves(findings: Findings, way: str) -> dict[str, Curve]:
    """For each method the mean over texts at every tenth of the words, with its interval."""
    curves: dict[str, Curve] = {}
    for name in findings.methods("curve"):
        values = [findings.values("curve", name, {"masking": way, "removed": f}) for f in CURVE]
        rows = [stats.estimate(x, "mean", FRACTION) for x in values]
        if all(row.n for row in rows):
            curves[name] = Curve(CURVE, *zip(*((row.mean, row.low, row.high) for row in rows), strict=True))
    return curves


@dataclass
class MaskedText:
    """One text without some of its words, under one masking; every set of words runs once."""

    case: Case
    masking: str
    unit: CheckUnit = "word"

    def __post_init__(self) -> None:
        self.groups = features(self.case.tokens, self.unit)
        self.known: dict[bytes, int] = {}  # the sets of words that have run, and the row of each
        self.logits = torch.empty(0, 0)
        self.attended = self.case.attends(self.groups)
        self.rng = self.case.rng(InputErasure.name, self.masking)
        target = self.case.target
        self.label = target.label if isinstance(target.label, int) else self.case.prediction.index

    def __len__(self) -> int:
        return len(self.groups)

    def without_top(self, order: Ints) -> Bools:
        """[1,n]: the words that stay without the first fifth of those that attention can point at."""
        attended = order[self.attended[order]]
        return ~np.isin(np.arange(len(self)), attended[: count(TVD_SHARE, len(attended))])[None]

    def add(self, keys: Sequence[bytes], logits: Tensor) -> None:
        """Sets of words that have run, with their logits [m,c]; the first time, the whole text is among them."""
        self.known |= {key: len(self.known) + i for i, key in enumerate(keys)}
        self.logits = torch.cat([self.logits, logits]) if len(self.logits) else logits
        head = self.case.classifier.head
        whole = self.logits[self.known[np.ones(len(self), bool).tobytes()]]
        # of all rows at once: there are many requests for few of them
        self._values = activation(self.logits, head)[:, self.label].numpy()
        self._changes = changes(self.logits, whole, head)

    def _rows(self, keep: Bools) -> list[int]:
        return [self.known[row.tobytes()] for row in keep]

    def values(self, keep: Bools) -> Floats:
        """p with the words of each row of keep[m,n] kept; `ask` must have run them."""
        return np.asarray(self._values[self._rows(keep)])

    def changes(self, keep: Bools) -> Changes:
        """How the output changes when only the words of each row are kept."""
        rows = self._rows(keep)
        return Changes(self._changes.tvd[rows], self._changes.jsd[rows], self._changes.flip[rows])


def ask(engine: Engine, wanted: Iterable[tuple[MaskedText, Bools]]) -> None:
    """Run all sets that have not run yet, of all texts at once."""
    new: list[tuple[MaskedText, list[bytes], Variants]] = []
    for text, keep in wanted:
        rows = {row.tobytes(): row for row in keep if row.tobytes() not in text.known}
        if rows:
            table = over_positions(text.groups, np.array(list(rows.values())), len(text.case.tokens))
            new.append((text, list(rows), Variants(text.case.tokens, table, text.masking, text.rng)))
    if new:
        logits = engine.ask([variants for _, _, variants in new]).logits
        for (text, keys, _), own in zip(new, torch.split(logits, [len(keys) for _, keys, _ in new]), strict=True):
            text.add(keys, own)


def steps(n: int, points: int) -> Ints:
    """How many words are removed at each step, both ends included: steps(3, 20) -> [0, 1, 2, 3]."""
    return np.unique(np.linspace(0, n, min(n, points) + 1).round().astype(np.int64))


def count(share: float, n: int) -> int:
    """A share of n words in whole words, halves up, at least one: count(.05, 4) -> 1."""
    return min(n, max(1, int(np.floor(share * n + 0.5))))


def first(order: Ints, sizes: Sequence[int] | Ints) -> Bools:
    """Which words are among the first k of the order, for each k: first([1, 0], [1, 2]) -> [[F, T], [T, T]]."""
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return np.asarray(rank < np.asarray(sizes)[:, None])


def one_more(removed: Sequence[int], n: int) -> tuple[Ints, Bools]:
    """The remaining words, and the words that stay when each of them is removed too."""
    keep = ~np.isin(np.arange(n), removed)
    words = np.flatnonzero(keep)
    return words, keep & (np.arange(n) != words[:, None])


def area(grid: Ints, values: Floats) -> float:
    """The area under a curve over the fraction of words, by trapezia: area([0, 1, 2], [1, 0, 0]) -> .25."""
    return float((np.diff(grid) * (values[1:] + values[:-1]) / 2).sum() / grid[-1])
