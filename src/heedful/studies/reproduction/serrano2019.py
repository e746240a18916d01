"""Serrano & Smith 2019, "Is Attention Interpretable?": does a decision depend on the items with the most attention?

Each network is trained with several seeds, and each training is audited by the check erasure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from heedful.audits.summary import Row
from heedful.checks.erasure import ZERO_DIVERGENCE, Erasure, box_numbers, negative, stop_values
from heedful.core.arrays import Bools, Floats
from heedful.core.finding import FRACTION, Findings
from heedful.core.settings import Count, Positive
from heedful.maths.stats import Difference, decide, estimate, paired
from heedful.studies.base import Subject, Trial
from heedful.studies.outcome import Result
from heedful.studies.reproduction.base import (
    AuditPlan,
    Paper,
    Scores,
    first_texts,
    limited,
    part_paths,
    run_audits,
    trained_subjects,
)
from heedful.studies.reproduction.data_sets import AMAZON, IMDB, IMDB10, YAHOO, YELP, DataSet
from heedful.studies.reproduction.published import Claim, Key, Measurement, read_published

NAME = "serrano2019"
CHECK = "erasure"
FLIPS = "Table 2"
CELLS = ("both", "only i*", "only r", "neither")
ORDERS = {  # of the check, and their names in the paper
    "random": "random",
    "attention": "attention",
    "attention-slope": "gradient",
    "attention-x-slope": "attention × gradient",
}
ATTENTION, ASCENDING = "attention", "attention-ascending"
ENCODER_TITLES = {"rnn": "rnn", "conv": "conv", "none": "noenc"}
SLOWER = 2  # times as many epochs without an encoder, where they are set; the paper has 60 in place of 15
RATINGS = 10  # labels of the paper's IMDB
SOURCE = "the paper's text and figures"
_LONG = {"epochs": 60, "patience": 5}
# what differs from the recipe, whose settings are those of IMDB; by data set, and by network
SETTINGS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    YAHOO.name: {"han": {"dropout_output": 0.375}, "flan": {"dropout_output": 0.446}},
    AMAZON.name: {
        "all": {"lr": 2e-4},
        "encoded": _LONG,
        "han": {"dropout_sentence": 0.6, "dropout_document": 0.2, "dropout_output": 0.4},
        "flan": {"dropout_document": 0.6, "dropout_output": 0.4},
    },
    YELP.name: {
        "all": {"lr": 1e-4},
        "encoded": _LONG,
        "han": {"dropout_sentence": 0.7, "dropout_document": 0.1, "dropout_output": 0.7},
        "flan": {"dropout_document": 0.7, "dropout_output": 0.7},
    },
}

ArchitectureChoice = Literal["han", "flan"]
EncoderChoice = Literal["rnn", "conv", "none"]


@dataclass(frozen=True)
class Network:
    """A network of the paper on a data set."""

    data: str
    architecture: str
    encoder: str

    @property
    def title(self) -> str:
        """Its name in the paper: HANrnn, FLANnoenc."""
        return f"{self.architecture.upper()}{ENCODER_TITLES[self.encoder]}"

    def training(self, seed: int) -> str:
        """The name of one of its trainings."""
        return f"{self.data} {self.architecture}-{self.encoder} {seed}"

    def settings(self, epochs: int | None) -> dict[str, Any]:
        """What differs from its recipe."""
        own = SETTINGS.get(self.data, {})
        kinds = ("all", self.architecture) if self.encoder == "none" else ("all", "encoded", self.architecture)
        chosen = {name: value for kind in kinds for name, value in own.get(kind, {}).items()}
        if epochs is not None:
            chosen["epochs"] = epochs * (SLOWER if self.encoder == "none" else 1)
        return chosen


@dataclass(frozen=True)
class Erasures:
    """The check's numbers of one network: k trainings on the same n texts."""

    findings: Sequence[Findings]

    def values(self, measure: str, order: str = ATTENTION) -> Floats:
        """[k,n]; NaN for a text of one item."""
        return np.stack([f.values(measure, order) for f in self.findings])

    def mean(self, measure: str, order: str = ATTENTION) -> Floats:
        """[n]: over trainings; NaN where one of them has none."""
        return np.asarray(self.values(measure, order).mean(0))

    def stops(self, order: str) -> Floats:
        """[k,n]: fractions erased, infinite where the label never changes."""
        return stop_values(self.values("fraction", order), self.values("never", order))

    def needed(self, order: str) -> Floats:
        """[n]: the fraction erased until the label changes, 1 where it never does; over trainings.

        For several random orders it is their mean: the share that never flips counts with 1.
        """
        fraction, never = self.values("fraction", order), self.values("never", order)
        return np.asarray((np.where(never < 1, np.nan_to_num(fraction), 0) * (1 - never) + never).mean(0))

    def cells(self, order: str = ATTENTION) -> dict[str, Scores]:
        """The table of two by two, without the texts of one item: whether each text is in the cell, by training."""
        top, other = self.values("flip top", order), self.values("flip random", order)
        there = ~np.isnan(top + other).any(0)
        a, b = top[:, there] > 0, other[:, there] > 0
        pairs: tuple[Bools, ...] = (a & b, a & ~b, ~a & b, ~a & ~b)
        return {cell: Scores(pair.astype(np.float64)) for cell, pair in zip(CELLS, pairs, strict=True) if there.any()}

    def right(self) -> Floats:
        """[n]: the share of trainings that predict the gold label; NaN without one."""
        gold, predicted = (np.stack([f.texts[name] for f in self.findings]) for name in ("gold", "predicted"))
        return np.asarray(np.where(gold >= 0, predicted == gold, np.nan).mean(0))


@dataclass(frozen=True)
class Serrano2019(Paper):
    """For each data set: architectures × encoders, `seeds` trainings each, audited by the check erasure.

    `train` limits the training texts, `audited` the test texts. `epochs`, `lr` and `batch` are for every network (none:
    the paper's), with twice as many epochs where there is no encoder. `orders` are the random orders of a text.
    `vectors` is a file of pretrained word vectors, or "train": from the training texts.
    """

    seeds: Count = 3
    train: Count | None = None
    audited: Count | None = None
    architectures: tuple[ArchitectureChoice, ...] = ("han", "flan")
    encoders: tuple[EncoderChoice, ...] = ("rnn", "conv", "none")
    epochs: Count | None = None
    lr: Positive | None = None
    batch: Count | None = None
    orders: Count = 5
    vectors: str | None = "train"

    summary: ClassVar[str] = "attention weights set to zero until the decision flips, in hierarchical and flat networks"
    paper: ClassVar[str] = "Serrano & Smith 2019"
    title: ClassVar[str] = "Is Attention Interpretable?"
    question: ClassVar[str] = "Does a decision depend on the items with the most attention?"
    reading: ClassVar[str] = (
        "An item is what the last attention is over: a sentence in a HAN, a word in a FLAN. i* has the most attention, "
        "r is a random other item. ΔJS is the JS divergence of the output without i* less that without r. Fractions "
        "are of the items erased when the decision first flips: in boxes only of the texts where it does, as in the "
        "paper; in findings 1 where it never does. Gradient is the slope of the label's probability by each weight. "
        "What is wrong in the authors' program is not repeated: it draws r as a rank and uses it as a position, so r "
        "can be i*; texts of one item are in its boxes. The published flips may include this."
    )
    networks: ClassVar[str] = "han-rnn, han-conv, han-none, flan-rnn, flan-conv, flan-none"
    yields: ClassVar[str] = (
        "Table 2 of flips, fractions by ranking in one figure, ΔJS by attention, first against second, from uniform"
    )
    data: ClassVar[tuple[DataSet, ...]] = (
        YAHOO,
        replace(IMDB10, embedded=True),
        AMAZON,
        YELP,
        replace(IMDB, title="IMDB with two labels, in place of IMDB with ten ratings"),
    )
    minutes: ClassVar[Mapping[str, float]] = {"smoke": 0.1, "quick": 12}
    smoke: ClassVar[Mapping[str, Any]] = {
        "seeds": 1,
        "train": 60,
        "audited": 12,
        "encoders": ("rnn", "none"),
        "epochs": 1,
        "orders": 2,
    }
    # fewer texts need a higher rate and smaller batches
    quick: ClassVar[Mapping[str, Any]] = {"train": 1200, "audited": 100, "epochs": 3, "lr": 2e-3, "batch": 32}

    def __call__(self, trial: Trial) -> Result:
        """The table of flips, and the findings that are figures."""
        present = {subject.name for subject in trial.subjects}
        parts = {s.name: self._parts(s) for s in trial.subjects if s.name != IMDB.name or IMDB10.name not in present}
        networks = [Network(data, a, e) for data in parts for a in self.architectures for e in self.encoders]
        recipes = {
            network.training(seed): self._recipe(network, parts[network.data], seed)
            for network in networks
            for seed in range(self.seeds)
        }
        subjects = trained_subjects(trial, recipes)
        audits = run_audits(trial, {name: self._plan(subject) for name, subject in subjects.items()})
        erasures = {
            network: Erasures([audits[network.training(k)].record.findings(CHECK) for k in range(self.seeds)])
            for network in networks
        }
        return self.result(
            trial,
            NAME,
            self._measured(erasures, parts),
            [claim for data in parts for claim in _claims(data, {n: e for n, e in erasures.items() if n.data == data})],
            texts=tuple(
                trial.texts(
                    _classifier(subjects[own.training(0)]), "test", "attention is erased", None, parts[data]
                ).used
                for data in parts
                for own in [next(n for n in networks if n.data == data)]
            ),
            models={name: trial.model_path(name) for name in subjects},
            parts=part_paths(list(audits)),
            rows=tuple(row for network, own in erasures.items() for row in _rows(network, own)),
            details=_details(erasures),
        )

    # data and networks

    def _parts(self, subject: Subject) -> Subject:
        """The texts that are used."""
        parts = limited(subject, self.train).splits
        test = first_texts(parts.test, self.audited)
        return replace(subject, splits=replace(parts, test=test))

    def _recipe(self, network: Network, subject: Subject, seed: int) -> Subject:
        own = {name: getattr(self, name) for name in ("lr", "batch", "vectors")}
        given = {name: value for name, value in own.items() if value is not None}
        settings = network.settings(self.epochs) | given | {"seed": seed}
        return replace(subject, recipe=f"{network.architecture}-{network.encoder}", settings=settings)

    def _plan(self, subject: Subject) -> AuditPlan:
        # the paper's single draw of another item
        settings = [f"{CHECK}.draws=1", f"{CHECK}.orders={self.orders}"]
        return AuditPlan(subject, self.audited, {"methods": ["random"], "checks": [CHECK], "settings": settings})

    # numbers

    def _measured(self, erasures: Mapping[Network, Erasures], parts: Mapping[str, Subject]) -> dict[Key, Measurement]:
        """The flips of the published network; those of IMDB with two labels beside those with ten, not judged."""
        known = {number.key for number in read_published(NAME)}
        measured: dict[Key, Measurement] = {}
        for network, own in erasures.items():
            data = IMDB10.name if network.data == IMDB.name else network.data
            for cell, scores in own.cells().items():
                value = scores.measurement(self._differs(parts[network.data]), 100)
                if network.data == IMDB.name:
                    labels = len({e.label for e in parts[network.data].splits.train})
                    value = replace(value, incomparable=f"IMDB with {labels} labels; the paper's has {RATINGS} ratings")
                if (key := (FLIPS, data, network.title, cell)) in known:
                    measured[key] = value
        return measured

    def _differs(self, subject: Subject) -> str:
        """In which ways the set-up is not the paper's."""
        vectors = {None: "random word vectors", "train": "word vectors from co-occurrences"}.get(self.vectors, "")
        words = f", {vectors} (the paper: word2vec)" if vectors else ""
        given = {name: getattr(self, name) for name in ("epochs", "lr", "batch")}
        other = "".join(f", {name} {value:g}" for name, value in given.items() if value is not None)
        return f"{len(subject.splits.train):,} training texts{other}{words}"


def _classifier(subject: Subject) -> Any:
    assert subject.classifier is not None
    return subject.classifier


# for the report

MEASURES = (  # measure, order
    ("delta js", ATTENTION),
    ("delta js second", ATTENTION),
    ("alpha second", ATTENTION),
    ("delta js second", ASCENDING),
    ("alpha second", ASCENDING),
    ("js from uniform", ATTENTION),
    ("kl from uniform", ATTENTION),
)


def _rows(network: Network, own: Erasures) -> Iterator[Row]:
    """Estimates over texts of means over trainings."""
    place = {"data": network.data, "network": network.title}
    yield Row(**asdict(estimate(own.right(), within=FRACTION)), measure="accuracy", at=place)
    for measure, order in MEASURES:
        numbers = estimate(own.mean(measure, order), within=Erasure.measures[measure].range)
        yield Row(**asdict(numbers), check=CHECK, measure=measure, method=order, at=place)
    for order in ORDERS:
        numbers = estimate(own.needed(order), within=FRACTION)
        yield Row(**asdict(numbers), check=CHECK, measure="needed", method=order, at=place)


def _details(erasures: Mapping[Network, Erasures]) -> dict[str, Any]:
    """Flips of each network by the top of each ranking, boxes over all trainings, and how often ΔJS is negative."""
    flips, boxes, shares, networks = [], [], [], []
    for network, own in erasures.items():
        place = {"data": network.data, "network": network.title}
        networks.append(place | {"audit": network.training(0)})
        for order, name in list(ORDERS.items())[1:]:
            cells = {cell: 100 * scores.over_texts.mean for cell, scores in own.cells(order).items()}
            flips.append(place | {"order": name, "texts": int(np.isfinite(own.mean("flip top")).sum()), "cells": cells})
        for order, name in ORDERS.items():
            stops = own.stops(order).ravel()
            numbers = box_numbers(stops)
            beyond = stops[np.isfinite(stops) & ((stops < numbers.low) | (stops > numbers.high))]
            boxes.append(place | {"order": name, "stops": asdict(numbers), "outliers": np.sort(beyond).tolist()})
        delta, difference = (own.values(measure).ravel() for measure in ("delta js", "alpha difference"))
        known = delta[np.isfinite(delta)]
        share = float((known < -ZERO_DIVERGENCE).mean()) if len(known) else np.nan
        rows = [asdict(row) for row in negative(delta, difference)]
        shares.append(place | {"n": len(known), "share": share, "by": rows})
    return {"networks": networks, "flips": flips, "boxes": boxes, "negative": shares}


# findings


def _claims(data: str, erasures: Mapping[Network, Erasures]) -> list[Claim]:
    """What the paper concludes, on the texts of one data set."""
    claims = [claim for network, own in erasures.items() for claim in _ranking_claims(network, own)]
    claims += _encoder_claims(erasures)
    first = next(iter(erasures))  # the network of the paper's table, if it is there
    delta = erasures[first].mean("delta js")
    finding = "erasing the item with the most attention changes the output more than erasing another"
    claims.append((finding, f"{first.title}, ΔJS", "higher", paired(delta, np.zeros(len(delta)))))
    if "neither" in (cells := erasures[first].cells()):
        neither = cells["neither"].values.mean(0)
        finding = "most decisions flip neither without i* nor without r"
        measure = f"{first.title}, share of texts that flip by neither, less a half"
        claims.append((finding, measure, "higher", paired(neither, np.full(len(neither), 0.5))))
    decided = decide([difference for *_, difference in claims])
    return [
        Claim(finding, SOURCE, data, measure, difference, expected)
        for (finding, measure, expected, _), difference in zip(claims, decided, strict=True)
        if difference is not None and difference.n
    ]


_Tested = tuple[str, str, Literal["higher", "lower"], Difference]


def _ranking_claims(network: Network, own: Erasures) -> Iterator[_Tested]:
    pairs = (("attention-slope", ATTENTION), ("attention-x-slope", ATTENTION), (ATTENTION, "random"))
    for a, b in pairs:
        finding = f"decisions flip with fewer items erased by {ORDERS[a]} than by {ORDERS[b]}"
        measure = f"{network.title}, fraction erased, {ORDERS[a]} − {ORDERS[b]}"
        yield finding, measure, "lower", paired(own.needed(a), own.needed(b))


def _encoder_claims(erasures: Mapping[Network, Erasures]) -> Iterator[_Tested]:
    """Networks with an rnn need the largest fraction, those without an encoder the smallest."""
    networks = {(n.architecture, n.encoder): n for n in erasures}
    for architecture in dict.fromkeys(n.architecture for n in erasures):
        for a, b in (("rnn", "conv"), ("rnn", "none"), ("conv", "none")):
            if (architecture, a) in networks and (architecture, b) in networks:
                x, y = networks[architecture, a], networks[architecture, b]
                names = ENCODER_TITLES[a], ENCODER_TITLES[b]
                finding = "decisions need a larger fraction erased with the encoder {} than with {}".format(*names)
                needed = erasures[x].needed(ATTENTION), erasures[y].needed(ATTENTION)
                yield finding, f"{x.title} − {y.title}, fraction erased by attention", "higher", paired(*needed)
