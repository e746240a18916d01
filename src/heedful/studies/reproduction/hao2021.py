"""Hao et al. 2021, "Self-Attention Attribution": which heads matter, what they connect, and words that fool a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from heedful.audits.summary import Row
from heedful.core.settings import Count
from heedful.maths.stats import Difference
from heedful.methods.explain import tree
from heedful.model.classifier import Classifier
from heedful.model.loading import load
from heedful.studies.base import Subject, Trial, check_encoder
from heedful.studies.heads_across_tasks import HeadsAcrossTasks
from heedful.studies.outcome import Outcome, Result
from heedful.studies.pruning import ALL_LAYERS, LARGEST, SMALLEST, Pruning
from heedful.studies.reproduction.base import Paper, limited, part_paths, run_study, trained_subjects
from heedful.studies.reproduction.data_sets import MNLI, MRPC, RTE, SST, DataSet
from heedful.studies.reproduction.published import Claim, Key, Measurement, measurement, read_published
from heedful.studies.triggers import Triggers

NAME = "hao2021"
TASKS = "heads across tasks"
TRIGGERS_TABLE = "Triggers: accuracy by gold label"
MNLI_LABELS = {"0": "entailment", "1": "neutral", "2": "contradiction"}  # in copies with numbers
# texts whose trees are drawn
SENTENCE = "The jokes are tired, but the two leads are a delight."
PAIR = (
    "The company said on Monday that its profit rose by a third.",
    "Profit rose by a third, the company said on Monday.",
)


@dataclass(frozen=True)
class Hao2021(Paper):
    """An encoder, fine-tuned for each data set: head pruning, heads across tasks, attribution trees, triggers.

    `encoder` is the folder or hub name of a pretrained encoder (the paper: bert-base-cased); without one, the embedded
    model takes its place, on sentences alone. `train`, `epochs` and `max_length` are for the fine-tuning. Heads are
    ranked on `ranked` dev texts and scored on `scored` test texts, and compared on `compared`; patterns are extracted
    from `extracted` training texts and chosen on `tuned` dev texts. `tasks` are the data sets that are used.
    """

    seeds: Count = 1
    encoder: str = ""
    train: Count | None = None
    epochs: Count = 3
    max_length: Count = 128
    ranked: Count = 200
    scored: Count = 500
    compared: Count = 200
    extracted: Count = 500
    tuned: Count = 200
    tasks: tuple[Literal["sst", "mrpc", "rte", "mnli"], ...] = ("sst", "mrpc", "rte", "mnli")

    summary: ClassVar[str] = "head pruning, heads across tasks, attribution trees and triggers of a fine-tuned encoder"
    paper: ClassVar[str] = "Hao et al. 2021"
    title: ClassVar[str] = "Self-Attention Attribution"
    question: ClassVar[str] = "Do attributions of attention find the heads and words that matter?"
    changes: ClassVar[str] = "an encoder is fine-tuned; its heads are removed, and words inserted into its texts"
    reading: ClassVar[str] = (
        "The paper shows curves; its findings are tested by paired differences over texts, for one training. Its "
        "trigger table is of MNLI. Heads are ranked on dev and scored on test (the authors: both on dev)."
    )
    networks: ClassVar[str] = "finetune"
    yields: ClassVar[str] = "pruning curves, by layer and over all, heads across tasks, trees, trigger tables"
    data: ClassVar[tuple[DataSet, ...]] = (SST, MRPC, RTE, MNLI)
    minutes: ClassVar[Mapping[str, float]] = {"smoke": 0.2, "quick": 29}
    smoke: ClassVar[Mapping[str, Any]] = {
        "train": 60,
        "epochs": 1,
        "ranked": 4,
        "scored": 12,
        "compared": 4,
        "extracted": 8,
        "tuned": 8,
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "train": 2500,
        "epochs": 2,
        "max_length": 64,
        "ranked": 30,
        "scored": 80,
        "compared": 30,
        "extracted": 40,
        "tuned": 40,
        "tasks": ("sst", "mrpc", "mnli"),  # on RTE a small encoder is hardly better than the majority
    }

    def check(self, subjects: Sequence[Subject]) -> None:
        """Refuse an encoder that cannot be loaded."""
        for subject in subjects if self.encoder else ():
            check_encoder(self._recipe(subject))

    def __call__(self, trial: Trial) -> Result:
        """Curves, correlations, trees and triggers of each data set."""
        models = self._models(trial)
        pruning = Pruning(ranked=self.ranked, scored=self.scored, draws=3)
        triggers = Triggers(extracted=self.extracted, tuned=self.tuned, scored=self.scored, shortest=self._shortest)
        outcomes: dict[str, Outcome] = {}
        for data, subject in models.items():
            outcomes[f"pruning {data}"] = run_study(trial, f"pruning {data}", pruning, subject)
            outcomes[f"triggers {data}"] = run_study(trial, f"triggers {data}", triggers, subject)
        if len(models) > 1:
            across = HeadsAcrossTasks(scored=self.compared, max_tokens=self.max_length)
            outcomes[TASKS] = run_study(trial, TASKS, across, *(replace(s, data=s.name) for s in models.values()))
        trees = {
            data: trial.step(f"tree {data}", lambda s=subject: _tree(s))  # type: ignore[misc]
            for data, subject in models.items()
        }
        return self.result(
            trial,
            NAME,
            self._measurements(outcomes),
            self._claims(outcomes),
            texts=tuple(dict.fromkeys(used for outcome in outcomes.values() for used in outcome.result.texts)),
            models={name: trial.model_path(name) for name in models if self.encoder},
            parts=part_paths(list(outcomes)),
            notes=self._notes(trial, models),
            details={"trees": trees},
            rows=tuple(row for outcome in outcomes.values() for row in outcome.result.rows),
        )

    @property
    def _shortest(self) -> int:
        """Tokens of a text with a pattern: as in the paper, but of a few texts."""
        return min(15, self.max_length // 4) if self.extracted > 10 else 3

    def _models(self, trial: Trial) -> dict[str, Subject]:
        """The fine-tuned encoder of each data set; without an encoder, the embedded model on sentences."""
        if not self.encoder:
            own = [s for s in trial.subjects if s.name == SST.name]
            return {s.name: replace(s, name="embedded", classifier=load()) for s in own}
        return trained_subjects(trial, {s.name: self._recipe(s) for s in trial.subjects if s.name in self.tasks})

    def _recipe(self, subject: Subject) -> Subject:
        settings = {"encoder": self.encoder, "epochs": self.epochs, "max_length": self.max_length}
        return replace(limited(subject, self.train), recipe=self.networks, settings=settings)

    def _notes(self, trial: Trial, models: Mapping[str, Subject]) -> tuple[str, ...]:
        missing = [s.name for s in trial.subjects if s.name not in models]
        left = f" Left out: {', '.join(missing)}." if missing else ""
        if not self.encoder:
            return (f"No encoder was given: the embedded model takes the place of BERT-base.{left}",)
        return (f"The encoder in the place of BERT-base is that of the setting `encoder`.{left}",)

    def _measurements(self, outcomes: Mapping[str, Outcome]) -> dict[Key, Measurement]:
        """The trigger table of MNLI."""
        outcome = outcomes.get(f"triggers {MNLI.name}")
        return {} if outcome is None else trigger_table(outcome.rows("accuracy"))

    def _claims(self, outcomes: Mapping[str, Outcome]) -> list[Claim]:
        claims = []
        for name, outcome in outcomes.items():
            study, _, data = name.partition(" ")
            if study == "pruning":
                claims += _pruning_claims(data, outcome)
            elif study == "triggers":
                wanted = (d for d in outcome.result.differences if (d.measure, d.b) == ("success", "random words"))
                difference = next((d.difference for d in wanted if d.at.get("gold") == "all"), None)
                if difference is not None:
                    finding, measure = "triggers fool the model", "success, attribution − random words"
                    claims.append(Claim(finding, "section 6 of the paper", data, measure, difference, "higher"))
        if TASKS in outcomes:
            for row in outcomes[TASKS].rows("pearson", "attribution"):
                pair = f"{row.at['a']} and {row.at['b']}"
                difference = Difference(row.n, row.mean, row.low, row.high, float("nan"))
                finding, measure = "important heads are similar across tasks", "Pearson's r of the heads' attributions"
                claims.append(Claim(finding, "section 5 of the paper", pair, measure, difference, "higher"))
        return claims


def trigger_table(rows: Sequence[Row]) -> dict[Key, Measurement]:
    """The published cells, from the accuracies of the study on MNLI."""
    known = {number.key for number in read_published(NAME)}
    measured = {}
    for row in rows:
        gold, rank = str(row.at.get("gold")), row.at.get("trigger")
        name = f"trigger {int(rank) + 1}" if rank is not None else "no trigger"
        key = (TRIGGERS_TABLE, MNLI.name, name, MNLI_LABELS.get(gold, gold))
        if key in known and row.method == ("attribution" if rank is not None else "unchanged"):
            measured[key] = measurement(row, None, "another encoder, chosen triggers", 100)
    return measured


def _pruning_claims(data: str, outcome: Outcome) -> list[Claim]:
    """Attribution against each other importance, over all layers."""
    claims = []
    for order, expected in ((LARGEST, "lower"), (SMALLEST, "higher")):
        sense: Literal["lower", "higher"] = "lower" if expected == "lower" else "higher"
        for d in outcome.result.differences:
            if d.measure == "area accuracy" and d.at == {**ALL_LAYERS, "order": order}:
                finding = f"attribution ranks heads better than {d.b}"
                measure = f"mean accuracy, heads removed {order}, {d.a} − {d.b}"
                claims.append(Claim(finding, "section 5 of the paper", data, measure, d.difference, sense))
    return claims


def _tree(subject: Subject) -> dict[str, Any]:
    """The attribution tree of the sentence, or of the pair for a model of pairs."""
    classifier = subject.classifier
    assert isinstance(classifier, Classifier)
    paired = any(example.pair is not None for example in subject.splits.test[:1])
    text, pair = PAIR if paired else (SENTENCE, None)
    found: dict[str, Any] = tree(classifier, text, pair=pair, seed=0).to_dict()
    return found
