"""Adversaries: networks trained to keep a base model's predictions with other attention, for two studies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from heedful.core.errors import BadInput
from heedful.core.settings import Count, NotNegative, Positive
from heedful.data import Splits, fingerprint
from heedful.model.classifier import Classifier
from heedful.nets.training.adversarial import (
    AdversaryPlan,
    BaseOutputs,
    Direction,
    Objective,
    check_adversary,
    train_adversary,
)
from heedful.nets.training.recipes import RECIPES
from heedful.studies.base import Cost, Subject, Trial, gold_index
from heedful.studies.retraining import Answers, Retraining

SEED_OFFSET = 1000  # an adversary has other initial weights than the base model and its other seeds
FINE_TUNING = "finetune"


@dataclass(frozen=True)
class AdversaryTraining(Retraining):
    """How adversaries are trained; see the studies that have these settings."""

    strengths: tuple[NotNegative, ...] = ()
    direction: Direction = "adversary-base"
    adversary_epochs: Count = 40
    adversary_patience: Count = 5
    adversary_lr: Positive | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.strengths or len(set(map(adversary_name, self.strengths))) < len(self.strengths):
            listed = ", ".join(f"{x:g}" for x in self.strengths)
            raise BadInput(f"strengths are {listed or 'empty'}; give each λ once, at least one, such as 0,0.001.")

    def objective(self, strength: float) -> Objective:
        """The loss with this λ."""
        return Objective(strength, self.direction)

    def cost(self, texts: int) -> Cost:
        """Of the trainings, at most."""
        return Cost("training adversaries", forwards=texts, trained=len(self.strengths) * self.adversary_epochs * texts)


def adversary_name(strength: float) -> str:
    """Of a model and a row: "λ = 0.001"."""
    return f"λ = {strength:g}"


@dataclass(frozen=True)
class Adversaries:
    """The adversaries of a trial's base model. The base model's outputs are computed once in a process."""

    trial: Trial
    base: Classifier
    training: AdversaryTraining

    @cached_property
    def plan(self) -> AdversaryPlan:
        """Settings: those of the base model's recipe; without one, those of fine-tuning."""
        check_adversary(self.base)
        subject, own = self.trial.subject, self.training
        fresh = bool(subject.recipe)
        recipe, settings = (subject.recipe, dict(subject.settings)) if fresh else (FINE_TUNING, {})
        ready = RECIPES[recipe].settings(settings)
        rate = {} if own.adversary_lr is None else {"lr": own.adversary_lr}
        seed = ready.seed + SEED_OFFSET
        ready = replace(ready, epochs=own.adversary_epochs, patience=own.adversary_patience, seed=seed, **rate)
        parts = (subject.splits.train, subject.splits.dev)
        # labels as the base model has them ("1" may be its "positive"), although the loss does not use them
        named = [[replace(e, label=self.base.labels[gold_index(e, self.base.labels)]) for e in part] for part in parts]
        return AdversaryPlan(self.base, ready, Splits(named[0], named[1], []), fresh)

    @cached_property
    def outputs(self) -> tuple[BaseOutputs, BaseOutputs]:
        """The base model's on train and dev."""
        return self.plan.outputs(self.training.objective(0.0).layers)

    def train(self) -> dict[str, dict[str, float]]:
        """Train an adversary for each λ, as steps; by name, their scores on dev."""
        strengths = {f"train {adversary_name(x)}": x for x in self.training.strengths}
        scores = self.trial.steps("training adversaries", list(strengths), lambda step: self._train(strengths[step]))
        return {adversary_name(x): dev for x, dev in zip(strengths.values(), scores, strict=True)}

    def _train(self, strength: float) -> dict[str, Any]:
        name, objective = adversary_name(strength), self.training.objective(strength)
        plan, watch = self.plan, self.trial.watch_training(name)
        identity = {
            "objective": asdict(objective),
            "base": self.base.fingerprint,
            "settings": asdict(plan.settings),
            "fresh": plan.fresh,
            "data": [fingerprint(part) for part in (plan.splits.train, plan.splits.dev)],
        }
        record = self.trial.train_once(
            name, identity, lambda folder: train_adversary(plan, objective, self.outputs, folder, watch)
        )
        return dict(record["dev"])

    def models(self) -> dict[str, str]:
        """Their folders, by name."""
        return {name: self.trial.model_path(name) for name in map(adversary_name, self.training.strengths)}


def constant_notes(adversaries: Mapping[str, Answers], own: Answers) -> tuple[str, ...]:
    """A sentence on adversaries that predict one label for every text, which the base model does not."""
    if len(set(own.predicted.tolist())) < 2:
        return ()
    names = [name for name, answers in adversaries.items() if len(set(answers.predicted.tolist())) < 2]
    if not names:
        return ()
    return (
        f"One label is predicted for every text by: {', '.join(names)}. Training did not reach the base model's "
        "predictions, and such an adversary says nothing about attention; give more texts or epochs, or another "
        "adversary_lr.",
    )


def start_notes(subject: Subject) -> tuple[str, ...]:
    """A sentence on where adversaries start, if it is not from new weights."""
    if subject.recipe == FINE_TUNING:
        return ("Adversaries start from the pretrained encoder of the recipe, with a new head.",)
    if subject.recipe:
        return ()
    return (
        f"{subject.name} has no recipe: adversaries start from its own weights, not from new ones, and keep part of "
        "its attention for that reason.",
    )
