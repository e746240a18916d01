"""Seeds (Wiegreffe & Pinter 2019, section 3.3): how far does attention vary when only the seed of training changes?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from heedful.audits.summary import Row
from heedful.checks.adversarial import Adversarial
from heedful.checks.tables import PEAK_EDGES
from heedful.core.arrays import Bools, Floats
from heedful.core.settings import Count, NotNegative
from heedful.maths.stats import decide, paired
from heedful.studies.base import Cost, Subject, Texts, Trial, epochs_of, row_of
from heedful.studies.outcome import PairedDifference, Result
from heedful.studies.retraining import (
    BASE,
    JAIN_WALLACE,
    MEASURES,
    Answers,
    Panel,
    PerTextAdversary,
    Retraining,
    base_model,
    per_text_adversary,
    require_attention,
    score_rows,
    trained,
    used_texts,
)

NAME = "seeds"
OTHERS = "other seeds"
DECIMALS = 6  # of the numbers of each text in the outcome


@dataclass(frozen=True)
class Seeds(Retraining):
    """Train the network again with `seeds` other seeds, and compare each one's attention with the base model's.

    For each of `scored` test texts (default: all): the median over seeds of the JSD of attention, the mean change of
    the prediction; and the farthest attention that Jain & Wallace's search finds (`candidates`, `steps`) that changes
    the output by at most `epsilon`. The seeds are those after the base model's.
    """

    seeds: Count = 8
    scored: Count | None = None
    epsilon: NotNegative = 0.05
    candidates: Count = 5
    steps: Count = 500

    summary: ClassVar[str] = "attention and predictions of the same network trained with other seeds"
    title: ClassVar[str] = "Other seeds"
    question: ClassVar[str] = "How different is attention when only the seed of training changes?"
    changes: ClassVar[str] = "the initial weights and the order of batches; data and settings are the same"
    reading: ClassVar[str] = (
        "The JSD between seeds is the baseline for every adversary: another attention is surprising only where it is "
        "farther away than that of another seed. Where seeds already differ as much as an adversary, attention is not "
        "determined by data and architecture, and no adversary is needed to show it. Jain & Wallace's adversary "
        "changes the weights of one text alone, in a network that is not trained for them; a seed changes all texts at "
        "once. JSD is at most ln 2 = 0.69, and short texts leave less room."
    )
    uses: ClassVar[Mapping[str, str]] = {
        "train": "networks are trained",
        "dev": "epochs are chosen",
        "test": "attention is compared",
    }
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 3, "scored": 80, "steps": 150}

    def check(self, subjects: Sequence[Subject]) -> None:
        """Refuse a subject that cannot be trained again, or has no attention to learn."""
        require_attention(subjects[0], NAME)

    def __call__(self, trial: Trial) -> Result:
        """Distances to the base model's attention and predictions, by seed, over seeds, and of the adversary."""
        first = require_attention(trial.subject, NAME).seed
        base = trial.classifier()
        base.check_attention()
        texts = trial.texts(base, "test", self.uses["test"], self.scored)
        wanted = {f"seed {first + i}": {"seed": first + i} for i in range(1, self.seeds + 1)}
        models = trained(trial, trial.subject, wanted)
        panel = Panel(trial, base, texts)
        own, others = panel.answers(BASE), {name: panel.answers(name) for name in wanted}
        adversary = per_text_adversary(trial, base, texts, self._check)
        distances = _Distances(own, others, adversary, base.head)
        notes = (
            ()
            if adversary
            else (f"{JAIN_WALLACE} is for models with one attention; {trial.subject.name} has several.",)
        )
        return Result(
            rows=tuple(distances.rows(texts, base.labels)),
            differences=tuple(distances.differences()),
            texts=used_texts(trial.subject, self.uses, texts.used),
            models=base_model(trial) | models,
            notes=notes,
            details={"texts": distances.each(), "labels": list(base.labels), "epsilon": self.epsilon},
        )

    @property
    def _check(self) -> Adversarial:
        return Adversarial(epsilon=self.epsilon, candidates=self.candidates, steps=self.steps)

    def costs(self, trial: Trial) -> list[Cost]:
        """Trainings; a pass of each test text with each model and the base model."""
        require_attention(trial.subject, NAME)
        n = len(trial.subject.splits.test[: self.scored])
        return [
            Cost("training networks", trained=(1 + self.seeds) * epochs_of(trial.subject)),
            Cost("scoring", forwards=2 * (1 + self.seeds) * n),
            Cost("searching adversaries", forwards=12 * n, backwards=n),
        ]


@dataclass(frozen=True)
class _Distances:
    """The base model, its other seeds, and the adversary of each text."""

    own: Answers
    others: Mapping[str, Answers]
    adversary: PerTextAdversary | None
    head: str

    @property
    def jsd(self) -> Floats:
        """The median over seeds, of each text."""
        return np.asarray(np.median([other.jsd for other in self.others.values()], 0))

    @property
    def tvd(self) -> Floats:
        """The mean over seeds, of each text."""
        return np.asarray(np.mean([other.tvd(self.own, self.head) for other in self.others.values()], 0))

    def rows(self, texts: Texts, labels: Sequence[str]) -> list[Row]:
        """Over all texts; of each seed; and by predicted label and largest weight of the base model's attention."""
        flips = np.mean([other.flips(self.own) for other in self.others.values()], 0)
        values = {("jsd", OTHERS): self.jsd, ("tvd", OTHERS): self.tvd, ("flip", OTHERS): flips}
        for name, other in self.others.items():
            values |= {("jsd", name): other.jsd, ("tvd", name): other.tvd(self.own, self.head)}
        if self.adversary is not None:
            values |= {("jsd", JAIN_WALLACE): self.adversary.jsd, ("tvd", JAIN_WALLACE): self.adversary.tvd}
        rows = [row_of(NAME, MEASURES, measure, x, method) for (measure, method), x in values.items()]
        for (measure, method), x in values.items():
            if measure == "jsd" and method in (OTHERS, JAIN_WALLACE):
                rows += [row_of(NAME, MEASURES, "jsd", x[inside], method, at) for at, inside in self._bins(labels)]
        rows += score_rows(NAME, BASE, [self.own], texts.gold)
        return rows + score_rows(NAME, OTHERS, list(self.others.values()), texts.gold)

    def _bins(self, labels: Sequence[str]) -> list[tuple[dict[str, Any], Bools]]:
        """Texts by predicted label and bin of the largest weight; 1 is in the last bin. Empty ones are left out."""
        bins = np.clip(np.digitize(self.own.peak, PEAK_EDGES) - 1, 0, len(PEAK_EDGES) - 2)
        places = [
            (
                {"label": label, "from": low, "to": high},
                (self.own.predicted == i) & (bins == j) & ~np.isnan(self.own.peak),
            )
            for i, label in enumerate(labels)
            for j, (low, high) in enumerate(pairwise(PEAK_EDGES))
        ]
        return [(at, inside) for at, inside in places if inside.any()]

    def differences(self) -> list[PairedDifference]:
        """How much farther the adversary of a text is than the median seed."""
        if self.adversary is None:
            return []
        decided = decide([paired(self.adversary.jsd, self.jsd)])[0]
        return [] if decided is None else [PairedDifference("jsd", JAIN_WALLACE, OTHERS, decided)]

    def each(self) -> dict[str, Any]:
        """The numbers of each text, for the violins."""
        columns: dict[str, Any] = {"peak": self.own.peak, "jsd": self.jsd, "tvd": self.tvd}
        if self.adversary is not None:
            columns |= {"adversary jsd": self.adversary.jsd, "adversary tvd": self.adversary.tvd}
        rounded = {name: x.round(DECIMALS).tolist() for name, x in columns.items()}
        return rounded | {"predicted": self.own.predicted.tolist()}
