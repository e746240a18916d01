"""Uniform training (Wiegreffe & Pinter 2019, section 3.2): does the task need attention at all?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from heedful.core.settings import Count
from heedful.maths.stats import decide, mcnemar, paired
from heedful.studies.base import Cost, Subject, Trial, epochs_of, row_of
from heedful.studies.outcome import PairedDifference, Result
from heedful.studies.retraining import (
    BASE,
    MEASURES,
    OVER_TEXTS,
    Answers,
    Panel,
    Retraining,
    base_model,
    f1_table,
    require_learned_attention,
    right_table,
    score_rows,
    trained,
    used_texts,
)

NAME = "uniform-training"
LEARNED_NAME, UNIFORM_NAME = "learned attention", "uniform attention"


@dataclass(frozen=True)
class UniformTraining(Retraining):
    """Train the same network with attention held uniform, and compare it with the one that learns its attention.

    Each is trained with `seeds` seeds, the same for both; the first learned one is the base model. `scored` texts of
    the test part (default: all) are scored.
    """

    seeds: Count = 3
    scored: Count | None = None

    summary: ClassVar[str] = "the same network trained with attention held uniform"
    title: ClassVar[str] = "Uniform attention from the start"
    question: ClassVar[str] = "Does this network need attention for this task?"
    changes: ClassVar[str] = "attention is uniform over the words, in training too; all else is trained as before"
    reading: ClassVar[str] = (
        "If uniform attention scores as well, the task is no test bed for attention as an explanation: whatever "
        "attention says, the network does without it. A difference that is not significant does not prove that there "
        "is none; its interval says how large it may be. The interval over texts holds for these trainings, the one "
        "over trainings for these texts. The encoder can learn to do what attention did, so a network without a need "
        "for attention may still use it where it has it."
    )
    uses: ClassVar[Mapping[str, str]] = {
        "train": "networks are trained",
        "dev": "epochs are chosen",
        "test": "networks are scored",
    }
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 2, "scored": 120}

    def check(self, subjects: Sequence[Subject]) -> None:
        """Refuse a subject that cannot be trained again, or has no attention to learn."""
        require_learned_attention(subjects[0], NAME)

    def __call__(self, trial: Trial) -> Result:
        """Scores of both kinds, their paired differences, and how far their predictions are apart."""
        first = require_learned_attention(trial.subject, NAME).seed
        base = trial.classifier()
        texts = trial.texts(base, "test", self.uses["test"], self.scored)
        again: dict[str, dict[str, Any]] = {
            f"learned, seed {first + i}": {"seed": first + i} for i in range(1, self.seeds)
        }
        uniform: dict[str, dict[str, Any]] = {
            f"uniform, seed {first + i}": {"seed": first + i, "attention": "uniform"} for i in range(self.seeds)
        }
        models = trained(trial, trial.subject, again | uniform)
        panel = Panel(trial, base, texts)
        kinds = {
            LEARNED_NAME: [panel.answers(name) for name in (BASE, *again)],
            UNIFORM_NAME: [panel.answers(name) for name in uniform],
        }
        rows = [row for kind, answers in kinds.items() for row in score_rows(NAME, kind, answers, texts.gold)]
        own = kinds[LEARNED_NAME][0]
        for kind, answers in kinds.items():
            others = [a for a in answers if a is not own]
            if others:
                changes = {
                    "tvd": [a.tvd(own, base.head) for a in others],
                    "jsd": [a.jsd for a in others],
                    "flip": [a.flips(own) for a in others],
                }
                rows += [row_of(NAME, MEASURES, m, np.mean(values, 0), kind) for m, values in changes.items()]
        return Result(
            rows=tuple(rows),
            differences=tuple(self._differences(kinds, texts.gold)),
            texts=used_texts(trial.subject, self.uses, texts.used),
            models=base_model(trial) | models,
            details={"mcnemar": _mcnemar(kinds, texts.gold), "trainings": self.seeds},
        )

    def _differences(self, kinds: Mapping[str, list[Answers]], gold: Any) -> list[PairedDifference]:
        """Learned − uniform, text by text."""
        tables = {"f1": f1_table, "accuracy": right_table}
        pairs = [
            [table(kinds[kind], gold).mean(0) for kind in (LEARNED_NAME, UNIFORM_NAME)] for table in tables.values()
        ]
        decided = decide([paired(a, b) for a, b in pairs], "higher")
        return [
            PairedDifference(measure, LEARNED_NAME, UNIFORM_NAME, difference, OVER_TEXTS)
            for measure, difference in zip(tables, decided, strict=True)
            if difference is not None
        ]

    def costs(self, trial: Trial) -> list[Cost]:
        """Trainings, then a pass of each test text with each model and the base model."""
        require_learned_attention(trial.subject, NAME)
        n = len(trial.subject.splits.test[: self.scored])
        return [
            Cost("training networks", trained=2 * self.seeds * epochs_of(trial.subject)),
            Cost("scoring", forwards=4 * self.seeds * n),
        ]


def _mcnemar(kinds: Mapping[str, list[Answers]], gold: Any) -> dict[str, float]:
    """Of the first training of each kind: on how many texts only one is right, and p of McNemar's exact test."""
    a, b = (kinds[kind][0].right(gold) for kind in (LEARNED_NAME, UNIFORM_NAME))
    only_a, only_b = int((a & ~b).sum()), int((b & ~a).sum())
    return {"only learned": only_a, "only uniform": only_b, "p": mcnemar(only_a, only_b)}
