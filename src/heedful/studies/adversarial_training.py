"""Adversarial training (Wiegreffe & Pinter 2019, section 4): could training find other attention, same predictions?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from heedful.audits.run import order
from heedful.audits.summary import Row
from heedful.checks.adversarial import Adversarial
from heedful.core.settings import Count, Ge, NotNegative
from heedful.maths.stats import estimate
from heedful.model.classifier import Classifier
from heedful.nets.training.adversarial import Layers, Objective, check_adversary
from heedful.nets.training.settings import AttendedSettings
from heedful.studies.adversaries import Adversaries, AdversaryTraining, constant_notes, start_notes
from heedful.studies.base import Cost, Subject, Texts, Trial, epochs_of, row_of
from heedful.studies.outcome import Curve, ExampleText, Result, WeightedWords
from heedful.studies.retraining import (
    BASE,
    JAIN_WALLACE,
    MEASURES,
    OVER_TEXTS,
    Answers,
    Panel,
    PerTextAdversary,
    base_model,
    per_text_adversary,
    require_attention,
    score_rows,
    trained,
    used_texts,
)

NAME = "adversarial-training"
ADVERSARIES, UNIFORM = "adversaries", "uniform attention"
EXAMPLES = 3  # texts shown with their attentions


@dataclass(frozen=True)
class AdversarialTraining(AdversaryTraining):
    """Train a fresh network to have the base model's predictions with other attention, for each λ of `strengths`.

    The loss is mean TVD − λ · mean KL over texts. `direction` is adversary-base, KL(adversary ‖ base), or
    base-adversary. An adversary is trained as the base model's recipe says, for at most `adversary_epochs` epochs; the
    epoch with the lowest loss on dev texts is kept, and training stops after `adversary_patience` epochs without a
    lower one; `adversary_lr` is another learning rate. `texts` limits the training texts of every network that is
    trained here (default: all), `scored` the test texts. For comparison: `seeds` other seeds, the network trained with
    uniform attention, and Jain & Wallace's adversary of each text (`epsilon`, `candidates`, `steps`). Of a Transformer,
    attention is that of the pooled position, in the last layer or in all `layers`, head by head.
    """

    strengths: tuple[NotNegative, ...] = (0.0, 0.0005, 0.001, 0.0015, 0.002, 0.004, 0.02)
    layers: Layers = "last"
    texts: Count | None = None
    scored: Count | None = None
    seeds: Annotated[int, Ge(0)] = 3
    epsilon: NotNegative = 0.05
    candidates: Count = 5
    steps: Count = 500

    summary: ClassVar[str] = "networks trained to have the same predictions with other attention"
    title: ClassVar[str] = "Adversarial training"
    question: ClassVar[str] = "Could a network be trained to predict the same with other attention?"
    changes: ClassVar[str] = "a new network is trained for the base model's predictions and against its attention"
    reading: ClassVar[str] = (
        "A curve that rises quickly means that other attention costs predictions: attention is not arbitrary for this "
        "network on this task. A flat curve means that training can find other attention with the same predictions. "
        "The seeds are the baseline: an adversary counts only where it is farther away than another seed, at a similar "
        "TVD. Jain & Wallace's adversary is easier, because it changes the weights of each text by itself. A failed "
        "adversary does not prove that none exists: another λ, a longer training or a larger network may find one. On "
        "few training texts, an adversary that fits the base model's predictions there may differ on others, whatever "
        "its attention: compare it with λ = 0."
    )
    uses: ClassVar[Mapping[str, str]] = {
        "train": "networks are trained",
        "dev": "epochs are chosen",
        "test": "predictions and attention are compared",
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "strengths": (0.0, 0.003, 0.1),
        "adversary_epochs": 8,
        "adversary_patience": 3,
        "seeds": 1,
        "scored": 80,
        "steps": 150,
    }

    def check(self, subjects: Sequence[Subject]) -> None:
        """Refuse a subject without attention to learn."""
        if subjects[0].recipe:
            require_attention(subjects[0], NAME)
        if subjects[0].classifier is not None:
            check_adversary(subjects[0].classifier)

    def __call__(self, trial: Trial) -> Result:
        """The distances of every adversary on test texts, those of the comparisons, and the curve."""
        subject = self._limited(trial)
        trial = replace(trial, subjects=(subject,))
        base = trial.classifier()
        texts = trial.texts(base, "test", self.uses["test"], self.scored)
        adversaries = Adversaries(trial, base, self)
        dev = adversaries.train()
        compared = self._compared(subject)
        models = base_model(trial) | adversaries.models() | trained(trial, subject, compared)
        panel = Panel(trial, base, texts, self.layers)
        own = panel.answers(BASE)
        answers = {name: panel.answers(name) for name in (*dev, *compared)}
        check = Adversarial(epsilon=self.epsilon, candidates=self.candidates, steps=self.steps)
        searched = per_text_adversary(trial, base, texts, check)
        rows = _rows(own, answers, texts, base, searched)
        return Result(
            rows=tuple(rows),
            curves=(_curve([answers[name] for name in dev], own, base),),
            examples=self._examples(trial, panel, own, {name: answers[name] for name in dev}),
            texts=used_texts(subject, self.uses, texts.used),
            models=models,
            notes=self._notes(subject, searched) + constant_notes({name: answers[name] for name in dev}, own),
            details={
                "strengths": list(self.strengths),
                "dev": dev,
                "seeds": [name for name in compared if name != UNIFORM],
                "epsilon": self.epsilon,
            },
        )

    def objective(self, strength: float) -> Objective:
        """The loss with this λ, about these layers."""
        return Objective(strength, self.direction, self.layers)

    def _limited(self, trial: Trial) -> Subject:
        """The subject with the training texts that are used, with the labels in proportion."""
        whole = trial.subject.splits
        if self.texts is None or self.texts >= len(whole.train):
            return trial.subject
        drawn = [whole.train[i] for i in order(whole.train, trial.seed)[: self.texts]]
        return replace(trial.subject, splits=replace(whole, train=drawn))

    def _compared(self, subject: Subject) -> dict[str, dict[str, Any]]:
        """Trainings for comparison, where the subject has a recipe: other seeds, and uniform attention."""
        if not subject.recipe:
            return {}
        settings = require_attention(subject, NAME)
        seeds: dict[str, dict[str, Any]] = {
            f"seed {settings.seed + i}": {"seed": settings.seed + i} for i in range(1, self.seeds + 1)
        }
        held = isinstance(settings, AttendedSettings)
        return seeds | ({UNIFORM: {"attention": "uniform"}} if held else {})

    def _notes(self, subject: Subject, searched: PerTextAdversary | None) -> tuple[str, ...]:
        notes = start_notes(subject)
        if searched is None:
            notes += (f"{JAIN_WALLACE} is for models with one attention; {subject.name} has several.",)
        if not subject.recipe:
            notes += (
                f"{subject.name} has no recipe, so there are no other seeds and no uniform attention to compare.",
            )
        return notes

    def _examples(
        self, trial: Trial, panel: Panel, own: Answers, adversaries: Mapping[str, Answers]
    ) -> tuple[ExampleText, ...]:
        """Texts that an adversary predicts alike with the most different attention, with both attentions."""
        name = max(adversaries, key=lambda name: float(np.nanmean(adversaries[name].jsd)))
        far = adversaries[name]
        alike = np.where(far.tvd(own, panel.base.head) <= self.epsilon, np.nan_to_num(far.jsd), -1.0)
        which = [int(i) for i in np.argsort(-alike, kind="stable")[:EXAMPLES] if alike[i] >= 0]
        if not which:
            return ()
        texts = panel.texts.take(which)
        weights = trial.step("attention of examples", lambda: panel.attention([BASE, name], texts))
        examples = []
        for row, i in enumerate(which):
            label = int(own.predicted[i])
            tokens = texts.tokens[row]
            colourings = tuple(
                WeightedWords(model, tuple(tokens.pieces), tuple(weights[model][row]), f"JSD {jsd:.2f}" if jsd else "")
                for model, jsd in ((BASE, 0.0), (name, float(far.jsd[i])))
            )
            said = f"{panel.base.labels[label]} ({own.probabilities[i, label]:.1%})"
            title = f"The same prediction within {self.epsilon:g}, other attention"
            examples.append(ExampleText(title, said, panel.base.labels[panel.texts.gold[i]], colourings))
        return tuple(examples)

    def costs(self, trial: Trial) -> list[Cost]:
        """Trainings; a pass of each test text with each model and the base model; the search on each test text."""
        subject = self._limited(trial)
        n = len(subject.splits.test[: self.scored])
        compared = self._compared(subject)
        costs = [self.cost(len(subject.splits.train))]
        if compared:
            costs.append(Cost("training networks", trained=(1 + len(compared)) * epochs_of(subject)))
        models = 1 + len(self.strengths) + len(compared)
        return [*costs, Cost("scoring", forwards=2 * models * n), Cost("searching adversaries", forwards=12 * n)]


def _rows(
    own: Answers, answers: Mapping[str, Answers], texts: Texts, base: Classifier, searched: PerTextAdversary | None
) -> list[Row]:
    """F1, accuracy, TVD, JSD and changed labels of each model, over texts."""
    rows = score_rows(NAME, BASE, [own], texts.gold)
    for name, answer in answers.items():
        rows += score_rows(NAME, name, [answer], texts.gold)
        values = {"tvd": answer.tvd(own, base.head), "jsd": answer.jsd, "flip": answer.flips(own)}
        rows += [row_of(NAME, MEASURES, measure, x, name, OVER_TEXTS) for measure, x in values.items()]
    if searched is not None:
        pair = {"tvd": searched.tvd, "jsd": searched.jsd}
        rows += [row_of(NAME, MEASURES, measure, x, JAIN_WALLACE, OVER_TEXTS) for measure, x in pair.items()]
    return rows


def _curve(adversaries: list[Answers], own: Answers, base: Classifier) -> Curve:
    """Test TVD by the mean JSD of attention, in the order of JSD."""
    points = [
        (float(np.nanmean(a.jsd)), estimate(a.tvd(own, base.head), within=MEASURES["tvd"].range)) for a in adversaries
    ]
    points.sort(key=lambda point: point[0])
    return Curve("tvd", ADVERSARIES, tuple(x for x, _ in points), tuple(y for _, y in points))
