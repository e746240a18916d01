"""Jain & Wallace 2019, "Attention is not Explanation": does attention agree with other measures of importance?

Networks are trained with several seeds. Each is audited with the profile jain2019; permutations and the search for
adversaries, published as figures only, are of the first training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Any, ClassVar, Literal

import numpy as np

from heedful.audits.record import Record
from heedful.checks.agreement import GRADIENT, LOO, PUBLISHED
from heedful.checks.tables import AgreementTables
from heedful.core.arrays import Bools, Floats, Ints
from heedful.core.finding import EVERYWHERE
from heedful.core.settings import Count
from heedful.maths.classification import f1_values, pr_auc, roc_auc
from heedful.maths.stats import Difference, bootstrap_error, decide, paired
from heedful.studies.base import Subject, Texts, Trial
from heedful.studies.outcome import Result
from heedful.studies.reproduction.base import (
    AuditPlan,
    Paper,
    first_texts,
    limited_words,
    part_paths,
    probabilities,
    run_audits,
    trained_subjects,
)
from heedful.studies.reproduction.data_sets import (
    AGNEWS,
    ANEMIA,
    BABI1,
    BABI2,
    BABI3,
    CNN,
    DIABETES,
    IMDB_JW,
    NEWSGROUPS,
    SNLI,
    SST_JW,
    TWEET,
    DataSet,
)
from heedful.studies.reproduction.published import Claim, Key, Measurement, read_published

NAME = "jain2019"
ENCODER_TITLES = {"bilstm": "BiLSTM", "cnn": "CNN", "average": "average"}
PAIR_NAMES = dict(zip(PUBLISHED, ("τ_g", "τ_loo", "τ_g,loo"), strict=True))
TAU_TABLES = ("Table 2", "All configurations", "First version")
SCORE_TABLES = ("Test scores", "First version: test scores")
SCORES = ("accuracy", "F1", "ROC AUC", "PR AUC")
PAIRS = (SNLI.name, CNN.name, BABI1.name, BABI2.name, BABI3.name)  # a passage and a question
MAX_CLASSES = 3  # for numbers by class; the answers to questions are many
SMALL_CHANGE = 0.1  # of the output (TVD), that is called one
_BABI = {"batch": 50, "embedding": 50, "hidden": 32, "epochs": 100}
SETTINGS: Mapping[str, Mapping[str, Any]] = {  # what differs from the recipe, by data set
    SST_JW.name: {"punctuation": False},
    IMDB_JW.name: {"punctuation": False, "min_count": 10},
    TWEET.name: {"min_count": 2},
    NEWSGROUPS.name: {"digits": True, "min_count": 2},
    AGNEWS.name: {"digits": True, "min_count": 5},
    DIABETES.name: {"digits": True, "min_count": 5},
    ANEMIA.name: {"digits": True, "min_count": 5},
    SNLI.name: {"digits": True, "min_count": 3, "batch": 128},
    CNN.name: {"min_count": 8, "batch": 90, "candidates": True},
    **{known.name: _BABI for known in (BABI1, BABI2, BABI3)},
}
TEST_SHARES = {IMDB_JW.name: 0.2}  # of the test texts, that the paper uses

EncoderChoice = Literal["bilstm", "cnn", "average"]
AttentionChoice = Literal["additive", "dot"]


@dataclass(frozen=True)
class Network:
    """A network of the paper on a data set."""

    data: str
    encoder: str
    attention: str

    @property
    def row(self) -> str:
        """Its row in the published tables."""
        title = ENCODER_TITLES[self.encoder]
        return title if self.attention == "additive" else f"{title}, {self.attention}"

    def training(self, seed: int) -> str:
        """The name of one of its trainings."""
        return f"{self.data} {self.encoder} {self.attention} {seed}"


@dataclass(frozen=True)
class Taus:
    """τ of two methods [k,n], whether each is significant, and the class of the prediction, on k trainings."""

    tau: Floats
    significant: Floats
    predicted: Ints

    def over_trainings(self) -> Floats:
        """The mean of each text; NaN where no training has τ."""
        known = np.isfinite(self.tau)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(known, self.tau, 0).sum(0) / known.sum(0))

    def columns(self, classes: int) -> Iterator[tuple[str, list[tuple[float, float]]]]:
        """The published columns: for each training the number, and its standard error over texts."""
        for label in range(-1, classes):
            chosen = np.isfinite(self.tau) & ((self.predicted == label) | (label < 0))
            if (chosen.sum(1) < 2).any():
                continue
            where = "all" if label < 0 else f"{label}"
            taus = [row[use] for row, use in zip(self.tau, chosen, strict=True)]
            shares = [row[use] for row, use in zip(self.significant, chosen, strict=True)]
            yield f"{where} mean", [_mean(x) for x in taus]
            yield f"{where} std", [_deviation(x) for x in taus]
            yield f"{where} sig.", [_mean(x) for x in shares]


@dataclass(frozen=True)
class Jain2019(Paper):
    """For each data set: encoders × attentions, `seeds` trainings each; τ, permutations and adversaries.

    `words` limits the training texts to so many words in all, `scored` the test texts for scores, `audited` those of
    them on which τ and permutations are measured, `searched` those with a search for adversaries. `epochs` is for every
    network (none: the paper's). `draws` are the permutations of a text, `steps` those of the search. `vectors` is a
    file of pretrained word vectors; the paper has fastText's.
    """

    seeds: Count = 5
    words: Count | None = None
    scored: Count | None = None
    audited: Count | None = None
    searched: Count | None = None
    encoders: tuple[EncoderChoice, ...] = ("bilstm", "cnn", "average")
    attentions: tuple[AttentionChoice, ...] = ("additive", "dot")
    epochs: Count | None = None
    draws: Count = 100
    steps: Count = 500
    vectors: str | None = None

    summary: ClassVar[str] = "attention beside gradients and leave-one-out; shuffled and adversarial attention"
    paper: ClassVar[str] = "Jain & Wallace 2019"
    title: ClassVar[str] = "Attention is not Explanation"
    question: ClassVar[str] = "Does attention agree with other measures of importance, and does the output need it?"
    reading: ClassVar[str] = (
        "τ is Kendall's τ-b over the words of a text: τ_g of gradients (with attention constant) and attention, τ_loo "
        "of leave-one-out and attention, τ_g,loo of the first two; over all texts, or those whose prediction is class "
        "0, 1 or 2; “sig.” is the share of texts with p ≤ .05. A text without τ is counted, not averaged. Attention is "
        "additive unless it is said to be dot. Table 2 and “All configurations” are the authors' files, with networks "
        "chosen on dev; “First version” are older files, with networks chosen on test. The two differ by as much as "
        "one training does from another."
    )
    networks: ClassVar[str] = "bilstm, cnn, average, and their pairs, with additive and dot attention"
    yields: ClassVar[str] = (
        "Table 2 and all configurations, scores on test, histograms of τ, violins of shuffled and adversarial attention"
    )
    data: ClassVar[tuple[DataSet, ...]] = (
        SST_JW,
        IMDB_JW,
        TWEET,
        NEWSGROUPS,
        AGNEWS,
        replace(DIABETES, min_words=7, max_words=3999),
        replace(ANEMIA, max_words=3999),
        SNLI,
        CNN,
        BABI1,
        BABI2,
        BABI3,
    )
    minutes: ClassVar[Mapping[str, float]] = {"smoke": 0.1, "quick": 30}
    smoke: ClassVar[Mapping[str, Any]] = {
        "seeds": 1,
        "words": 600,
        "scored": 20,
        "audited": 8,
        "searched": 4,
        "encoders": ("bilstm", "average"),
        "attentions": ("additive",),
        "epochs": 1,
        "draws": 5,
        "steps": 5,
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 3,
        "words": 400_000,
        "scored": 1000,
        "audited": 200,
        "searched": 60,
        "encoders": ("bilstm", "average"),
        "attentions": ("additive",),
    }

    def __call__(self, trial: Trial) -> Result:
        """Every published table, and the findings that are figures."""
        parts = {subject.name: self._parts(subject) for subject in trial.subjects}
        networks = [Network(data, e, a) for data in parts for e in self.encoders for a in self.attentions]
        recipes = {
            network.training(seed): self._recipe(network, parts[network.data], seed)
            for network in networks
            for seed in range(self.seeds)
        }
        subjects = trained_subjects(trial, recipes)
        audits = {name: audit.record for name, audit in run_audits(trial, self._plans(networks, subjects)).items()}
        measured: dict[tuple[Network, str], Measurement] = {}
        taus: dict[Network, dict[str, Taus]] = {}
        used = []
        for network in networks:
            own = [subjects[network.training(seed)] for seed in range(self.seeds)]
            classes = class_order(network.data, own[0])
            taus[network] = read_taus([audits[network.training(seed)] for seed in range(self.seeds)], classes)
            texts = trial.texts(_classifier(own[0]), "test", "networks are scored", None, own[0])
            used.append(texts.used)
            differs = self._differs(own[0])
            for pair, values in taus[network].items():
                for column, numbers in values.columns(len(classes) if len(classes) <= MAX_CLASSES else 0):
                    measured[network, f"{pair} {column}"] = _measurement(numbers, differs)
            measured |= {
                (network, name): _measurement(numbers, differs)
                for name, numbers in self._scores(trial, network, own, texts, classes).items()
            }
        first = {network: audits[network.training(0)] for network in networks}
        searched = {network: audits[searched_name(network)] for network in networks}
        return self.result(
            trial,
            NAME,
            _keys(measured),
            [claim for data in parts for claim in _claims(data, taus, first, searched)],
            texts=tuple(dict.fromkeys(used)),
            models={name: trial.model_path(name) for name in subjects},
            parts=part_paths(list(audits)),
            details={"cells": _cells(measured), "networks": _described(networks, searched)},
        )

    # data and networks

    def _parts(self, subject: Subject) -> Subject:
        """The texts that are used."""
        parts = limited_words(subject, self.words).splits
        share = TEST_SHARES.get(subject.name, 1.0)
        count = min(round(share * len(parts.test)), self.scored or len(parts.test))
        test = first_texts(parts.test, count)
        return replace(subject, splits=replace(parts, test=test))

    def _recipe(self, network: Network, subject: Subject, seed: int) -> Subject:
        own: dict[str, Any] = {**SETTINGS.get(network.data, {}), "attention": network.attention, "seed": seed}
        own |= {} if self.epochs is None else {"epochs": self.epochs}
        own |= {} if self.vectors is None else {"vectors": self.vectors}
        recipe = f"{network.encoder}-pair" if network.data in PAIRS else network.encoder
        return replace(subject, recipe=recipe, settings=own)

    def _differs(self, subject: Subject) -> str:
        """In which ways the set-up is not the paper's."""
        vectors = "" if self.vectors else ", word vectors start at random (the paper: fastText)"
        return f"{len(subject.splits.train):,} training texts{vectors}"

    # audits

    def _plans(self, networks: Sequence[Network], subjects: Mapping[str, Subject]) -> dict[str, AuditPlan]:
        plans: dict[str, AuditPlan] = {}
        for network in networks:
            for seed in range(self.seeds):
                checks = ["agreement", "permutation"] if seed == 0 else ["agreement"]
                settings = [f"permutation.draws={self.draws}"] if seed == 0 else []
                own = {"profile": NAME, "checks": checks, "settings": settings}
                name = network.training(seed)
                plans[name] = AuditPlan(subjects[name], self.audited, own)
            search = {"profile": NAME, "checks": ["adversarial"], "settings": [f"adversarial.steps={self.steps}"]}
            plans[searched_name(network)] = AuditPlan(subjects[network.training(0)], self.searched, search)
        return plans

    # scores

    def _scores(
        self, trial: Trial, network: Network, subjects: Sequence[Subject], texts: Texts, classes: Sequence[int]
    ) -> dict[str, list[tuple[float, float]]]:
        """Of each training, with its standard error over the test texts; all but accuracy are of two classes."""
        gold = np.array([classes.index(i) for i in texts.gold.tolist()])
        scores: dict[str, list[tuple[float, float]]] = {}
        for seed, subject in enumerate(subjects):
            chances = probabilities(trial, network.training(seed), subject, texts)[:, list(classes)]
            for name, number in _test_scores(gold, chances).items():
                scores.setdefault(name, []).append(number)
        return scores


def searched_name(network: Network) -> str:
    """The audit of a network's first training for adversaries."""
    return f"{network.training(0)} adversaries"


def _classifier(subject: Subject) -> Any:
    assert subject.classifier is not None
    return subject.classifier


def class_order(data: str, subject: Subject) -> list[int]:
    """The network's labels in the paper's order: its classes 0, 1, …"""
    labels = list(_classifier(subject).labels)
    known = next((known for known in Jain2019.data if known.name == data), None)
    spellings = known.labels if known is not None else ()
    spelling = next((names for names in spellings if set(names) == set(labels)), tuple(labels))
    return [labels.index(name) for name in spelling]


def read_taus(records: Sequence[Record], classes: Sequence[int]) -> dict[str, Taus]:
    """The published pairs, on the same texts for each training."""
    tables = records[0].tables("agreement", AgreementTables)
    rows = {frozenset((row.method, row.other)): row for row in tables.published} if tables else {}
    findings = [record.findings("agreement") for record in records]
    position = np.argsort(np.array(classes))  # of each label among the classes
    predicted = np.stack([position[np.asarray(f.texts["predicted"], dtype=int)] for f in findings])
    taus = {}
    for pair, name in PAIR_NAMES.items():
        row = rows.get(frozenset(pair))
        if row is None:
            continue
        tau, significant = (
            np.stack([f.values(measure, row.method, {"with": row.other}) for f in findings])
            for measure in ("tau", "significant")
        )
        taus[name] = Taus(tau, significant, predicted)
    return taus


# numbers and their errors over texts


def _mean(x: Floats) -> tuple[float, float]:
    return float(x.mean()), float(x.std(ddof=1)) / sqrt(len(x))


def _deviation(x: Floats) -> tuple[float, float]:
    """The population's standard deviation; its error by the delta method."""
    s = float(x.std())
    return s, float(((x - x.mean()) ** 2).std(ddof=1)) / (2 * s * sqrt(len(x))) if s else 0.0


def _test_scores(gold: Ints, chances: Floats) -> dict[str, tuple[float, float]]:
    predicted = chances.argmax(1)
    scores = {"accuracy": _mean((gold == predicted).astype(np.float64))}
    if chances.shape[1] != 2:
        return scores
    scores["F1"] = _mean(f1_values(gold, predicted, 2))
    truth: Bools = gold == 1
    for name, area in (("ROC AUC", roc_auc), ("PR AUC", pr_auc)):

        def value(which: Ints, area: Any = area) -> float:
            return float(area(truth[which], chances[which, 1]))

        scores[name] = value(np.arange(len(gold))), bootstrap_error(value, len(gold), np.random.default_rng(0))
    return scores


def _measurement(numbers: Sequence[tuple[float, float]], differs: str) -> Measurement:
    """From each training's number and its error over texts, which are the same for all trainings."""
    values, errors = np.array(numbers).T
    spread = float(values.std(ddof=1)) if len(values) > 1 else float("nan")
    return Measurement(float(values.mean()), len(values), spread, float(errors.mean()), differs)


def _keys(measured: Mapping[tuple[Network, str], Measurement]) -> dict[Key, Measurement]:
    """Each measurement under every table that has its place."""
    known = {number.key for number in read_published(NAME)}
    places = (
        ((table, network.data, network.row, column), value)
        for (network, column), value in measured.items()
        for table in (SCORE_TABLES if column in SCORES else TAU_TABLES)
    )
    return {key: value for key, value in places if key in known}


# for the report


def _cells(measured: Mapping[tuple[Network, str], Measurement]) -> list[dict[str, Any]]:
    """Every measurement, also where nothing was published."""
    return [
        {"data": n.data, "row": n.row, "column": column, "mean": m.mean, "spread": m.spread, "trainings": m.trainings}
        for (n, column), m in measured.items()
    ]


def _described(networks: Sequence[Network], searched: Mapping[Network, Record]) -> list[dict[str, str]]:
    return [
        {"data": n.data, "row": n.row, "audit": n.training(0), "search": searched_name(n)}
        for n in networks
        if n in searched
    ]


# findings


def _claims(
    data: str,
    taus: Mapping[Network, Mapping[str, Taus]],
    audits: Mapping[Network, Record],
    searches: Mapping[Network, Record],
) -> list[Claim]:
    """What the paper concludes, of BiLSTM and average networks with the first attention of this run."""
    own = {n.encoder: n for n in reversed(list(taus)) if n.data == data}
    gradient, loo, both = PAIR_NAMES.values()
    claims: list[tuple[str, str, Difference]] = []
    if {"bilstm", "average"} <= set(own):
        a, b = (taus[own[name]][gradient].over_trainings() for name in ("average", "bilstm"))
        finding = "attention agrees with gradients more in an average network than in a BiLSTM"
        claims.append((finding, f"{gradient}, average − BiLSTM", paired(a, b)))
    if "bilstm" in own:
        each = {name: values.over_trainings() for name, values in taus[own["bilstm"]].items()}
        for other, words in ((gradient, GRADIENT), (loo, LOO)):
            finding = f"gradients and leave-one-out agree with each other more than attention with {words}"
            claims.append((finding, f"BiLSTM, {both} − {other}", paired(each[both], each[other])))
        moved = audits[own["bilstm"]].findings("permutation").values("tvd", at=EVERYWHERE)
        small = np.where(np.isfinite(moved), moved <= SMALL_CHANGE, np.nan)
        finding = "for most texts, shuffled attention hardly changes the output"
        measure = f"BiLSTM, share of texts with a median TVD of at most {SMALL_CHANGE:g}, less a half"
        claims.append((finding, measure, paired(small, np.full(len(small), 0.5))))
        jsd = searches[own["bilstm"]].findings("adversarial").values("jsd found")
        finding = "very different attention gives the same output"
        half = np.full(len(jsd), log(2) / 2)
        claims.append((finding, "BiLSTM, ε-max JSD less half of the largest", paired(jsd, half)))
    decided = decide([difference for *_, difference in claims])
    return [
        Claim(finding, "the paper's text and figures", data, measure, difference, "higher")
        for (finding, measure, _), difference in zip(claims, decided, strict=True)
        if difference is not None
    ]
