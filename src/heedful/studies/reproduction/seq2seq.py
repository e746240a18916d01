"""Cho et al. 2014, Bahdanau et al. 2015 and Luong et al. 2015: translation through one vector, and with attention.

Their scores are BLEU on WMT, which need its data and cannot be compared with ours. Their findings are tested on dates
that are generated, where each text has a known length and copied digits a known alignment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from heedful.audits.summary import Row
from heedful.core.arrays import Bools, Floats
from heedful.core.finding import FRACTION, Measure
from heedful.core.settings import Count, Positive
from heedful.data import Example, Splits, fingerprint
from heedful.maths.stats import Difference, decide, estimate, paired, unpaired
from heedful.nets.training.dates import DatePair, date_splits
from heedful.nets.training.lengths import BIN_WIDTHS, MIN_BIN_TEXTS
from heedful.nets.training.pairs import TextPair
from heedful.nets.training.translate import BATCH_TEXTS, Alignment, Translator, right
from heedful.studies.base import Subject, Trial, row_of
from heedful.studies.outcome import Curve, Result, TextsUsed
from heedful.studies.reproduction.base import Paper, Scores, with_seeds
from heedful.studies.reproduction.published import Claim
from heedful.studies.retraining import DECIMALS, OVER_TEXTS, OVER_TRAININGS

NAME = "seq2seq"
BOTTLENECK, ADDITIVE, FED_BACK, GENERAL, DOT, CONCAT = "bottleneck", "additive", "bahdanau", "general", "dot", "concat"
RECIPES = {
    BOTTLENECK: "seq2seq-none",
    ADDITIVE: "seq2seq-additive",
    FED_BACK: "seq2seq-bahdanau",
    GENERAL: "seq2seq-multiplicative",
    DOT: "seq2seq-dot",
    CONCAT: "seq2seq-concat",
}
ATTENTIONS = tuple(kind for kind in RECIPES if kind != BOTTLENECK)
SHORTEST, LONGEST, UNIFORM = "shortest third", "longest third", "uniform"
DATA = "dates"
NEAR = 1  # characters: an encoder state knows its neighbours
EQUAL_MATCH = 0.02  # a difference of exact match that is called none
EXAMPLE_CHARACTERS = 40  # at most, of the text whose alignments are drawn
ALIGNMENTS = ("on the digit", "near the digit", "top near the digit")


@dataclass(frozen=True)
class Seq2SeqPapers(Paper):
    """Six encoder-decoders, `seeds` trainings each: the bottleneck, three scores, and additive scores in two orders.

    Dates are generated once, `train` texts and `tested` ones with at most `most` dates each; only initial weights and
    the order of texts change with the seed of a training. `epochs`, `hidden`, `lr` and `batch` are the networks'.
    """

    seeds: Count = 3
    train: Count = 10_000
    tested: Count = 2_000
    most: Count = 4
    epochs: Count = 10
    hidden: Count = 96
    lr: Positive = 3e-3
    batch: Count = 64

    summary: ClassVar[str] = "translation through one vector and with attention, by length, and its alignments"
    paper: ClassVar[str] = "Cho et al. 2014; Bahdanau et al. 2015; Luong et al. 2015"
    title: ClassVar[str] = "Encoder and decoder, with and without attention"
    question: ClassVar[str] = "Does attention keep accuracy on long texts, and does it look at what is copied?"
    changes: ClassVar[str] = "networks are trained on generated dates; the papers' findings are tested on them"
    reading: ClassVar[str] = (
        "The papers' numbers are BLEU on WMT and cannot be compared with ours; their findings are tested on dates. "
        "Exact match: every symbol of a translation is right. Each is a mean over trainings, its interval over texts; "
        "the interval of a finding includes those over texts and over trainings. Alignments are those of the right "
        "translation (teacher forcing), for digits that stand in the text. Sizes and learning rate were chosen with "
        "attention, which favours it."
    )
    networks: ClassVar[str] = ", ".join(RECIPES.values())
    yields: ClassVar[str] = "exact match by length, shares of attention on copied digits, alignments"
    minutes: ClassVar[Mapping[str, float]] = {"smoke": 0.1, "quick": 8}
    smoke: ClassVar[Mapping[str, Any]] = {
        "seeds": 2, "train": 60, "tested": 40, "most": 2, "epochs": 1, "hidden": 8,
    }  # fmt: skip
    quick: ClassVar[Mapping[str, Any]] = {
        "train": 3000, "tested": 600, "most": 2, "epochs": 8, "hidden": 64, "lr": 6e-3, "batch": 32,
    }  # fmt: skip
    measures: ClassVar[Mapping[str, Measure]] = {
        "exact match": Measure("share of texts whose translation is right", kind="rate", range=FRACTION),
        "on the digit": Measure("attention on the digit that is copied", range=FRACTION),
        "near the digit": Measure(f"attention on this digit and {NEAR} character to either side", range=FRACTION),
        "top near the digit": Measure("share of copied digits whose most attended character is there", range=FRACTION),
    }

    def __call__(self, trial: Trial) -> Result:
        """Trainings, translations, alignments, and the published findings."""
        pairs = date_splits(self.train, max(50, self.train // 10), self.tested, trial.seed, (1, self.most))
        splits = Splits(*(_examples(part) for part in (pairs.train, pairs.dev, pairs.test)))
        networks = self._networks(Subject(DATA, DATA, splits))
        names = {f"train {name}": name for name in networks}
        trial.steps("trainings", list(names), lambda step: trial.train(names[step], networks[names[step]]))
        measured = {name: _Measured(*values) for name, values in self._translations(trial, networks, pairs.test)}
        kinds = {
            kind: {what: Scores(np.array([measured[f"{kind}, seed {s}"].of(what) for s in range(self.seeds)]))
                   for what in self.measures}
            for kind in RECIPES
        }  # fmt: skip
        lengths = np.array([len(pair.source) for pair in pairs.test])
        uniform = _uniform(pairs.test)
        return self.result(
            trial,
            NAME,
            {},
            _claims(kinds, uniform, lengths),
            texts=tuple(
                TextsUsed(use, split, len(part), fingerprint(part))
                for split, use in self.uses.items()
                for part in [getattr(splits, split)]
            ),
            models={name: trial.model_path(name) for name in networks},
            rows=tuple(self._rows(kinds, uniform, lengths)),
            curves=tuple(_curve(kind, scores["exact match"], lengths) for kind, scores in kinds.items()),
            details={"alignments": trial.step("example", lambda: self._example(trial, pairs.test))},
        )

    def _networks(self, subject: Subject) -> dict[str, Subject]:
        """Every recipe with every seed, by name."""
        settings = {name: getattr(self, name) for name in ("epochs", "hidden", "lr", "batch")}
        return {
            f"{kind}, seed {seed}": seeded
            for kind, recipe in RECIPES.items()
            for seed, seeded in with_seeds(replace(subject, recipe=recipe, settings=settings), self.seeds).items()
        }

    def _translations(
        self, trial: Trial, networks: Mapping[str, Subject], pairs: Sequence[TextPair]
    ) -> list[tuple[str, list[list[float]]]]:
        """Of each network: for each text, whether it is translated correctly, and where attention is."""
        names = {f"translate {name}": name for name in networks}

        def compute(step: str) -> list[Any]:
            translator = Translator.load(trial.store.model(names[step]))
            return [right(translator, pairs).astype(float), *np.round(digit_attention(translator, pairs), DECIMALS)]

        return list(zip(names.values(), trial.steps("translations", list(names), compute), strict=True))

    def _rows(self, kinds: Mapping[str, Mapping[str, Scores]], uniform: Floats, lengths: Floats) -> list[Row]:
        rows = []
        for kind, scores in kinds.items():
            for what, parts in (("exact match", _thirds(lengths)), *((what, {}) for what in ALIGNMENTS)):
                if what in ALIGNMENTS and kind == BOTTLENECK:
                    continue
                for part, inside in {"all": np.ones(len(lengths), dtype=bool), **parts}.items():
                    values = scores[what].values[:, inside]
                    rows += [
                        row_of(NAME, self.measures, what, values.mean(0), kind, {"texts": part, **OVER_TEXTS}),
                        row_of(NAME, self.measures, what, values.mean(1), kind, {"texts": part, **OVER_TRAININGS}),
                    ]
        return rows + [
            row_of(NAME, self.measures, what, values, UNIFORM, {"texts": "all", **OVER_TEXTS})
            for what, values in zip(ALIGNMENTS[:2], uniform, strict=True)
        ]

    def _example(self, trial: Trial, pairs: Sequence[TextPair]) -> dict[str, Any]:
        """The alignments of one test text by the first training of each network, and its copied digits."""
        short = [pair for pair in pairs if len(pair.source) <= EXAMPLE_CHARACTERS]
        pair = max(short or pairs, key=lambda pair: pair.target.count(" "))
        assert isinstance(pair, DatePair)
        translators = {kind: Translator.load(trial.store.model(f"{kind}, seed 0")) for kind in ATTENTIONS}
        weights = {kind: np.round(t.align_targets([pair])[0].weights, 3) for kind, t in translators.items()}
        return {"source": pair.source, "target": pair.target, "copies": pair.copies, "weights": weights}


@dataclass(frozen=True)
class _Measured:
    """One network on every text: right or not, and the three measures of alignment."""

    right: Sequence[float]
    on: Sequence[float | None]
    near: Sequence[float | None]
    top: Sequence[float | None]

    def of(self, measure: str) -> Floats:
        values = dict(zip(("exact match", *ALIGNMENTS), (self.right, self.on, self.near, self.top), strict=True))
        return np.array(values[measure], dtype=np.float64)


def _examples(pairs: Sequence[TextPair]) -> list[Example]:
    return [Example(pair.source, label=pair.target) for pair in pairs]


# alignments


def digit_attention(translator: Translator, pairs: Sequence[TextPair]) -> Floats:
    """[3,n]: of each text, the means of `ALIGNMENTS` over its copied digits; 0 without attention."""
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i].source))
    values = np.zeros((len(ALIGNMENTS), len(pairs)))
    for start in range(0, len(order), BATCH_TEXTS):
        batch = order[start : start + BATCH_TEXTS]
        for i, alignment in zip(batch, translator.align_targets([pairs[i] for i in batch]), strict=True):
            values[:, i] = _on_digits(alignment, pairs[i])
    return values


def _on_digits(alignment: Alignment, pair: TextPair) -> Floats:
    assert isinstance(pair, DatePair)
    rows = []
    for there, here in pair.copies:
        weights = alignment.weights[there]
        near = weights[max(0, here - NEAR) : here + NEAR + 1].sum()
        rows.append((weights[here], near, abs(int(weights.argmax()) - here) <= NEAR and weights.any()))
    return np.asarray(np.mean(rows, axis=0), dtype=np.float64)


def _uniform(pairs: Sequence[TextPair]) -> Floats:
    """[2,n]: the first two of `ALIGNMENTS` for uniform attention."""
    values = []
    for pair in pairs:
        assert isinstance(pair, DatePair)
        n = len(pair.source)
        near = [min(n, here + NEAR + 1) - max(0, here - NEAR) for _, here in pair.copies]
        values.append((1 / n, float(np.mean(near)) / n))
    return np.array(values).T


# lengths


def _thirds(lengths: Floats) -> dict[str, Bools]:
    """Which texts are in the shortest and in the longest third; equal lengths are in one part."""
    low, high = np.quantile(lengths, (1 / 3, 2 / 3))
    return {SHORTEST: lengths <= low, LONGEST: lengths > high}


def _curve(kind: str, scores: Scores, lengths: Floats) -> Curve:
    """Exact match against length, over texts of the mean over trainings."""
    width, fewest = BIN_WIDTHS["character"], min(MIN_BIN_TEXTS, max(1, len(lengths) // 20))
    places = lengths // width
    filled = [place for place in np.unique(places) if (places == place).sum() >= fewest]
    points = [estimate(scores.values.mean(0)[places == place], within=FRACTION) for place in filled]
    return Curve("exact match", kind, tuple(float(place * width + (width - 1) / 2) for place in filled), tuple(points))


# findings


def _claims(kinds: Mapping[str, Mapping[str, Scores]], uniform: Floats, lengths: Floats) -> list[Claim]:
    """The papers' findings, decided together."""
    match = {kind: scores["exact match"].values for kind, scores in kinds.items()}
    thirds = _thirds(lengths)
    short, long = thirds[SHORTEST], thirds[LONGEST]
    claims = []
    for kind in ATTENTIONS:
        own, other = match[kind], match[BOTTLENECK]
        lead, drops = own.mean(0) - other.mean(0), [x[:, short].mean(1) - x[:, long].mean(1) for x in (own, other)]
        near = kinds[kind]["near the digit"].values
        claims += [
            _claim(
                "attention is better than one vector on long texts",
                f"exact match on the {LONGEST}, {kind} − {BOTTLENECK}",
                _over_both(own[:, long], other[:, long]),
            ),
            replace(
                _claim(
                    "attention loses less with length than one vector",
                    f"exact match, {SHORTEST} − {LONGEST}, {kind} − {BOTTLENECK}",
                    _wider(unpaired(estimate(lead[short]), estimate(lead[long])), *drops),
                ),
                expected="lower",
            ),
            _claim(
                "attention is where the translated symbol stands",
                f"attention near the copied digit, {kind} − {UNIFORM}",
                _over_both(near, np.broadcast_to(uniform[1], near.shape)),
            ),
        ]
    for kind in (GENERAL, DOT):
        alike = _claim(
            "additive and multiplicative scores perform similarly at small widths",
            f"exact match, {ADDITIVE} − {kind}",
            _over_both(match[ADDITIVE], match[kind]),
            "Vaswani et al. 2017, section 3.2.1",
        )
        claims.append(replace(alike, expected="equal", margin=EQUAL_MATCH))
        worse = _claim(
            "concat does not perform well",
            f"exact match, {CONCAT} − {kind}",
            _over_both(match[CONCAT], match[kind]),
            "Luong et al. 2015, where a part of W is the identity",
        )
        claims.append(replace(worse, expected="lower"))
    decided = decide([claim.difference for claim in claims])
    return [replace(c, difference=d) for c, d in zip(claims, decided, strict=True) if d is not None]


def _over_both(a: Floats, b: Floats) -> Difference:
    """The mean of a − b [k,n], with an interval that includes those over texts and over trainings."""
    return _wider(paired(a.mean(0), b.mean(0)), a.mean(1), b.mean(1))


def _wider(over_texts: Difference, a: Floats, b: Floats) -> Difference:
    """A difference of shares over texts with limits that include those of a − b over trainings; one training has none.

    Where they exclude zero, p stays that over texts: of three trainings against three, no test has a p below .1.
    """
    if len(a) < 2:
        return over_texts
    limits = unpaired(estimate(a), estimate(b))
    low, high = max(-1.0, min(over_texts.low, limits.low)), min(1.0, max(over_texts.high, limits.high))
    p = over_texts.p if low > 0 or high < 0 else max(over_texts.p, limits.p)
    return replace(over_texts, low=low, high=high, p=p)


def _claim(finding: str, measure: str, difference: Difference, source: str = "Bahdanau et al. 2015") -> Claim:
    return Claim(finding, source, DATA, f"{measure} (over texts and trainings)", difference, "higher")
