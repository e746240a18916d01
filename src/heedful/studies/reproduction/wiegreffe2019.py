"""Wiegreffe & Pinter 2019, "Attention is not not Explanation": four tests of whether attention is arbitrary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from heedful.core.settings import Count, NotNegative
from heedful.studies.adversarial_training import AdversarialTraining
from heedful.studies.base import Subject, Trial
from heedful.studies.guides import FROM_ADVERSARY, FROM_BASE, OWN, UNIFORM, Guides
from heedful.studies.outcome import Outcome, PairedDifference, Result
from heedful.studies.reproduction.base import (
    Paper,
    limited_words,
    part_paths,
    run_study,
    trained_subjects,
)
from heedful.studies.reproduction.data_sets import AGNEWS, ANEMIA, DIABETES, IMDB_JW, NEWSGROUPS, SST_JW, DataSet
from heedful.studies.reproduction.published import Claim, Key, Measurement, measurement
from heedful.studies.retraining import OVER_TEXTS, OVER_TRAININGS
from heedful.studies.seeds import Seeds
from heedful.studies.uniform_training import LEARNED_NAME, UNIFORM_NAME, UniformTraining

NAME = "wiegreffe2019"
RECIPE = "bilstm"
NOT_TEST_BEDS = (AGNEWS.name, NEWSGROUPS.name)  # uniform attention does as well there: the paper goes on without them
GUIDE_ROWS = {UNIFORM: "uniform", OWN: "its own", FROM_BASE: "base LSTM", FROM_ADVERSARY: "adversary"}
EQUAL_F1 = 0.02  # a difference of F1 that is called none
SOURCE = "section 3 of the paper"


@dataclass(frozen=True)
class Wiegreffe2019(Paper):
    """For each data set: a BiLSTM, the same with uniform attention, other seeds, guides, and adversaries.

    `seeds` trainings are behind each number of Tables 2 and 3, and as many other seeds are compared with the base
    network. `words` limits the training texts to so many words in all, `scored` the test texts, `epochs` the epochs of
    every network; `strengths` are the λ of the adversaries, `adversary_epochs` and `steps` their training and Jain &
    Wallace's search.
    """

    seeds: Count = 8
    words: Count | None = None
    scored: Count | None = None
    epochs: Count = 8
    strengths: tuple[NotNegative, ...] = (0.0, 0.0005, 0.001, 0.0015, 0.002, 0.004)
    adversary_epochs: Count = 40
    steps: Count = 500

    summary: ClassVar[str] = "attention that is held uniform, varies with the seed, guides, or is trained to differ"
    paper: ClassVar[str] = "Wiegreffe & Pinter 2019"
    title: ClassVar[str] = "Attention is not not Explanation"
    question: ClassVar[str] = "Is the attention of a trained network arbitrary?"
    reading: ClassVar[str] = (
        "F1 is that of the second label. TVD is the true one: the authors' program has half of it, and sums over texts."
    )
    networks: ClassVar[str] = RECIPE
    yields: ClassVar[str] = "Tables 2 to 4, violins of the seeds, the curve of TVD against JSD"
    data: ClassVar[tuple[DataSet, ...]] = (SST_JW, IMDB_JW, AGNEWS, NEWSGROUPS, DIABETES, ANEMIA)
    minutes: ClassVar[Mapping[str, float]] = {"smoke": 0.2, "quick": 48}
    smoke: ClassVar[Mapping[str, Any]] = {
        "seeds": 1,
        "words": 1200,
        "scored": 20,
        "epochs": 1,
        "strengths": (0.01,),
        "adversary_epochs": 1,
        "steps": 10,
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 3,
        "words": 120_000,
        "scored": 300,
        "epochs": 5,
        "strengths": (0.0, 0.001, 0.004),
        "adversary_epochs": 10,
        "steps": 300,
    }

    def __call__(self, trial: Trial) -> Result:
        """Tables 2, 3 and 4, and the published findings."""
        settings = {"epochs": self.epochs, "seed": 0}
        recipes = {
            subject.name: replace(limited_words(subject, self.words), recipe=RECIPE, settings=settings)
            for subject in trial.subjects
        }
        bases = trained_subjects(trial, {f"base {name}": subject for name, subject in recipes.items()})
        outcomes: dict[str, Outcome] = {}
        for base in bases.values():
            for study in self._studies(base):
                name = f"{_name(study)} {base.name}"
                outcomes[name] = run_study(trial, name, study, base)
        measured: dict[Key, Measurement] = {}
        claims: list[Claim] = []
        for name in recipes:
            own = {study: outcomes[f"{study} {name}"] for study in _NAMES.values() if f"{study} {name}" in outcomes}
            measured |= self._measurements(name, own, recipes[name])
            claims += self._claims(name, own)
        return self.result(
            trial,
            NAME,
            measured,
            claims,
            texts=tuple(dict.fromkeys(used for outcome in outcomes.values() for used in outcome.result.texts)),
            models={name: trial.model_path(name) for name in bases},
            parts=part_paths(list(outcomes)),
            rows=tuple(row for outcome in outcomes.values() for row in outcome.result.rows),
        )

    def _studies(self, base: Subject) -> list[Any]:
        """The studies of a data set: all, or the first test alone where the paper does no other."""
        uniform = UniformTraining(seeds=self.seeds, scored=self.scored)
        if base.name in NOT_TEST_BEDS:
            return [uniform]
        search: dict[str, Any] = {"scored": self.scored, "steps": self.steps}
        adversary: dict[str, Any] = {"adversary_epochs": self.adversary_epochs, "strengths": self.strengths}
        return [
            uniform,
            Seeds(seeds=self.seeds, **search),
            Guides(seeds=self.seeds, scored=self.scored, **adversary),
            AdversarialTraining(seeds=self.seeds, **search, **adversary),
        ]

    def _measurements(self, data: str, outcomes: Mapping[str, Outcome], subject: Subject) -> dict[Key, Measurement]:
        differs = self._differs(subject)
        uniform = outcomes["uniform-training"]
        measured = {
            ("Table 2", data, row, "F1"): _f1(uniform, kind, differs)
            for kind, row in ((LEARNED_NAME, "base"), (UNIFORM_NAME, "uniform"))
        }
        if "guides" in outcomes:
            guides = outcomes["guides"]
            measured |= {("Table 3", data, row, "F1"): _f1(guides, kind, differs) for kind, row in GUIDE_ROWS.items()}
            itself = {"F1": ("f1", OVER_TEXTS), "TVD": ("tvd", {}), "JSD": ("jsd", {})}
            for column, (measure, at) in itself.items():
                row = guides.result.row(measure, "adversary itself", at)
                if row is not None:
                    measured["Table 4", data, "adversary", column] = measurement(row, None, differs)
        return measured

    def _differs(self, subject: Subject) -> str:
        """In which ways the set-up is not the paper's."""
        return f"{len(subject.splits.train):,} training texts, word vectors start at random (the paper: fastText)"

    def _claims(self, data: str, outcomes: Mapping[str, Outcome]) -> list[Claim]:
        claims = []
        uniform = _difference(outcomes["uniform-training"], LEARNED_NAME, UNIFORM_NAME)
        if uniform is not None and data in NOT_TEST_BEDS:
            finding = "uniform attention does as well as learned attention"
            claims.append(Claim(finding, SOURCE, data, "F1, learned − uniform", uniform.difference, "equal", EQUAL_F1))
        if "guides" in outcomes:
            words = {
                UNIFORM: "the base network's attention guides better than uniform attention",
                OWN: "the base network's attention guides better than what the student learns itself",
                FROM_ADVERSARY: "the base network's attention guides better than an adversary's",
            }
            for other, finding in words.items():
                difference = _difference(outcomes["guides"], FROM_BASE, other)
                if difference is not None:
                    measure = f"F1, {FROM_BASE} − {other}"
                    claims.append(Claim(finding, SOURCE, data, measure, difference.difference, "higher"))
        return claims


_NAMES = {
    UniformTraining: "uniform-training",
    Seeds: "seeds",
    Guides: "guides",
    AdversarialTraining: "adversarial-training",
}


def _name(study: Any) -> str:
    return _NAMES[type(study)]


def _f1(outcome: Outcome, kind: str, differs: str) -> Measurement:
    """F1 of the trainings of one kind."""
    texts, trainings = (outcome.result.row("f1", kind, at) for at in (OVER_TEXTS, OVER_TRAININGS))
    assert texts is not None
    return measurement(texts, trainings, differs)


def _difference(outcome: Outcome, a: str, b: str) -> PairedDifference | None:
    wanted = (d for d in outcome.result.differences if (d.measure, d.a, d.b) == ("f1", a, b))
    return next(wanted, None)
