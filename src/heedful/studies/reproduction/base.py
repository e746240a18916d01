"""What all reproductions share: the data sets of a paper, and trainings, audits and studies inside one folder.

DIR/models/NAME   a trained network
DIR/parts/NAME    an audit (a run folder) or a study (a study's folder), each with its own report
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from heedful.audits import result
from heedful.audits.audit import audit
from heedful.audits.result import Audit
from heedful.audits.run import order
from heedful.core.arrays import Floats
from heedful.core.finding import Measure
from heedful.core.settings import Checked, Count
from heedful.data import Example, Splits
from heedful.data.examples import CORPUS
from heedful.data.selection import count_words
from heedful.maths.stats import Estimate, estimate
from heedful.model.loading import load
from heedful.studies import STUDIES
from heedful.studies.base import Cost, Study, Subject, Texts, Trial
from heedful.studies.folder import PARTS, REPORT, Trainings, file_name, open_study
from heedful.studies.outcome import Outcome, Result, load_outcome
from heedful.studies.reproduction.data_sets import STANDS_IN, DataSet
from heedful.studies.reproduction.published import Claim, Key, Measurement, compare, measurement, read_published
from heedful.studies.study import StudyJob, finish

# data


def limited(subject: Subject, train: int | None) -> Subject:
    """With at most this many training texts (and a tenth as many dev texts, but 100), labels in proportion."""
    if train is None:
        return subject
    parts = subject.splits
    dev = max(100, train // 10)
    return replace(subject, splits=Splits(first_texts(parts.train, train), first_texts(parts.dev, dev), parts.test))


def limited_words(subject: Subject, words: int | None) -> Subject:
    """With as many training texts as have at most this many words in all, so that long texts cost no more."""
    every = subject.splits.train
    total = np.cumsum([count_words(f"{every[i].text} {every[i].pair or ''}") for i in order(every, 0)])
    most = len(every) if words is None else max(1, int((total <= words).sum()))
    return limited(subject, most if most < len(every) else None)


def first_texts(examples: list[Example], n: int | None) -> list[Example]:
    """At most n, in an order that mixes the labels, in proportion."""
    return [examples[i] for i in order(examples, 0)[:n]]


# papers


class Paper(Checked):
    """A paper: a frozen dataclass of settings, called with a Trial whose subjects are the data sets that were found.

    Its words are those of a study. `data` are its data sets, `networks` what it trains, `yields` the tables and
    figures of its report; `minutes` are CPU minutes of each profile, measured. `smoke` and `quick` are its settings in
    these profiles; the defaults are the profile full. `seeds` is the number of trainings of each network. Its report
    is made by heedful.report.reproductions and, if there is one, by the module of its own name there.
    """

    seeds: Count

    summary: ClassVar[str]
    paper: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[str]
    reading: ClassVar[str] = ""
    changes: ClassVar[str] = "networks are trained as in the paper; every published number stands beside ours"
    measures: ClassVar[Mapping[str, Measure]] = {}
    uses: ClassVar[Mapping[str, str]] = {
        "train": "networks are trained",
        "dev": "epochs and settings are chosen",
        "test": "networks are scored, once",
    }
    section: ClassVar[str] = "heedful.report.reproductions"
    data: ClassVar[tuple[DataSet, ...]] = ()
    networks: ClassVar[str]
    yields: ClassVar[str]
    minutes: ClassVar[Mapping[str, float]] = {}
    smoke: ClassVar[Mapping[str, Any]] = {}
    quick: ClassVar[Mapping[str, Any]] = {}

    def __call__(self, trial: Trial) -> Result:
        """The reproduction."""
        raise NotImplementedError

    def check(self, subjects: Sequence[Subject]) -> None:
        """Raises if the paper cannot be reproduced with these settings, before anything is written."""

    def costs(self, trial: Trial) -> list[Cost]:
        """Not forecast: `minutes` are measured."""
        return []

    def missing(self, trial: Trial) -> dict[str, str]:
        """Why a data set was not used, by its name."""
        present = {subject.name for subject in trial.subjects}
        return {known.name: known.absence for known in self.data if known.name not in present}

    def result(
        self,
        trial: Trial,
        name: str,
        measured: Mapping[Key, Measurement],
        claims: Sequence[Claim] = (),
        **more: Any,
    ) -> Result:
        """The result: measurements beside the published numbers, claims, and whatever else `Result` takes."""
        stand_ins = {subject.name for subject in trial.subjects if subject.data == CORPUS}
        ours = {
            key: replace(value, incomparable=STANDS_IN.format(key[1])) if key[1] in stand_ins else value
            for key, value in measured.items()
        }
        return Result(
            comparisons=compare(read_published(name), ours, self.missing(trial)),
            claims=tuple(replace(c, data="the embedded corpus") if c.data in stand_ins else c for c in claims),
            **more,
        )


# networks


def trained_subjects(trial: Trial, subjects: Mapping[str, Subject]) -> dict[str, Subject]:
    """Train the recipe of each subject into models/NAME, as independent steps; the subjects with their classifiers."""
    names = {f"train {name}": name for name in subjects}
    trial.steps("trainings", list(names), lambda step: trial.train(names[step], subjects[names[step]]))
    return {name: replace(s, classifier=load(trial.store.model(name))) for name, s in subjects.items()}


def with_seeds(subject: Subject, seeds: int) -> dict[int, Subject]:
    """The subject's recipe with each of the seeds 0, 1, …"""
    return {seed: replace(subject, settings={**subject.settings, "seed": seed}) for seed in range(seeds)}


@dataclass(frozen=True)
class Scores:
    """Trainings of one network on the same texts: right [k,n], or other numbers whose mean over texts is the score."""

    values: Floats

    @property
    def over_texts(self) -> Estimate:
        """Of the mean over trainings."""
        return estimate(np.nanmean(self.values, 0))

    @property
    def over_trainings(self) -> Estimate:
        """Of the mean over texts."""
        return estimate(np.nanmean(self.values, 1))

    def measurement(self, differs: str = "", scale: float = 1.0) -> Measurement:
        """For a published number."""
        return measurement(self.over_texts, self.over_trainings, differs, scale)


def probabilities(trial: Trial, name: str, subject: Subject, texts: Texts) -> Floats:
    """[n,c]: the probabilities of a trained network, in steps."""

    def compute(part: Texts) -> Any:
        classifier = subject.classifier
        assert classifier is not None
        tokens = [classifier.tokens(e.text, e.pair).cut(classifier.limit) for e in part.examples]
        return np.round([p.probabilities for p in classifier.predictions(tokens)], 9)

    return np.array([row for chunk in trial.chunks(f"predictions of {name}", texts, compute) for row in chunk])


# audits and studies inside a reproduction


@dataclass(frozen=True)
class AuditPlan:
    """An audit of a trained subject: its test texts, at most `limit`, and further arguments of `heedful.audit`."""

    subject: Subject
    limit: int | None
    arguments: Mapping[str, Any] = field(default_factory=dict)


def run_audits(trial: Trial, plans: Mapping[str, AuditPlan]) -> dict[str, Audit]:
    """Audit each into parts/NAME, as independent steps. An audit that was killed is resumed."""
    names = {f"audit {name}": name for name in plans}

    def compute(step: str) -> int:
        plan, folder = plans[names[step]], part_folder(trial, names[step])
        texts = first_texts(plan.subject.splits.test, plan.limit)
        arguments = {"profile": "standard", **plan.arguments}
        audit(plan.subject.classifier, texts, out=folder, limit=len(texts), seed=trial.seed, **arguments)
        return len(texts)

    trial.steps("audits", list(names), compute)
    return {name: result.open(part_folder(trial, name)) for name in plans}


def run_study(trial: Trial, name: str, study: Study, *subjects: Subject) -> Outcome:
    """Do a study into parts/NAME. Its steps are shared among processes as those of the reproduction are.

    What another study of the reproduction trained is not trained again.
    """
    job = StudyJob(STUDIES.name_of(study), study, subjects, trial.seed)
    store = open_study(part_folder(trial, name), job.manifest())
    if (store.folder / REPORT).exists():  # written last
        return load_outcome(store.folder)
    outcome = finish(job, replace(trial, subjects=subjects, store=store, trainings=Trainings(trial.store.folder)))
    outcome.save_page()
    return outcome


def part_folder(trial: Trial, name: str) -> Path:
    """The folder of an audit or a study inside a reproduction."""
    return trial.store.folder / PARTS / file_name(name)


def part_paths(names: Sequence[str]) -> dict[str, str]:
    """The folders of audits and studies, relative to the reproduction's, for `Result.parts`."""
    return {name: f"{PARTS}/{file_name(name)}" for name in names}
