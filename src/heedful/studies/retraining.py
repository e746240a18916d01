"""Retraining: what the studies of Wiegreffe & Pinter share. Networks trained again are compared with a base model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from heedful import data as datasets
from heedful.audits.chunk import cases
from heedful.audits.summary import Row
from heedful.checks.adversarial import Adversarial
from heedful.checks.base import Divergence, Share
from heedful.core.arrays import Bools, Floats, Ints
from heedful.core.errors import BadInput
from heedful.core.finding import FRACTION, Measure, Place
from heedful.core.settings import Checked
from heedful.maths.classification import f1_values
from heedful.maths.ranks import jensen_shannon
from heedful.model.classifier import Classifier
from heedful.model.loading import load
from heedful.model.probes import pooled_attention
from heedful.nets.single import LEARNED, Attended
from heedful.nets.training.adversarial import Layers
from heedful.nets.training.recipes import RECIPES
from heedful.nets.training.settings import AttendedSettings, HierarchicalSettings
from heedful.studies.base import Subject, Texts, Trial, probabilities_of, right, row_of
from heedful.studies.outcome import TextsUsed

BASE, JAIN_WALLACE = "base", "Jain & Wallace's adversary"
OVER_TEXTS: Place = {"over": "texts"}
OVER_TRAININGS: Place = {"over": "trainings"}
DECIMALS = 9  # of a stored number

MEASURES: Mapping[str, Measure] = {
    "f1": Measure(
        "F1: of the second of two labels, the mean over labels of more. Over trainings: of each training, all texts; "
        "over texts: of the mean over trainings, F1 linearised at its value",
        range=FRACTION,
    ),
    "accuracy": Measure("share of texts whose predicted label is the gold one", kind="rate", range=FRACTION),
    "jsd": Divergence("Jensen–Shannon divergence from the base model's attention, at most 0.69"),
    "tvd": Share("total variation distance from the base model's prediction"),
    "flip": Measure("share of texts with another predicted label than the base model's", kind="rate", range=FRACTION),
}


class Retraining(Checked):
    """What is said of every study of Wiegreffe & Pinter: it trains networks of a recipe, and has these measures."""

    paper: ClassVar[str] = "Wiegreffe & Pinter 2019"
    measures: ClassVar[Mapping[str, Measure]] = MEASURES
    trains: ClassVar[bool] = True
    default_recipe: ClassVar[str] = "bilstm"


# what can be trained again


def recipe_settings(subject: Subject) -> Any:
    """The settings of the subject's recipe."""
    return RECIPES[subject.require_recipe()].settings(dict(subject.settings))


def require_attention(subject: Subject, study: str) -> Any:
    """The settings of a recipe with attention over the text that is learned; an error for any other."""
    settings = recipe_settings(subject)
    if RECIPES[subject.recipe].translates:
        raise BadInput(f"{study} needs a classifier, and {subject.recipe} writes texts; give a recipe such as bilstm.")
    if RECIPES[subject.recipe].kind is HierarchicalSettings and not settings.flat:
        flat = subject.recipe.replace("han", "flan")
        raise BadInput(f"{study} compares one attention, and {subject.recipe} has two levels; give one such as {flat}.")
    return require_learned_attention(subject, study) if isinstance(settings, AttendedSettings) else settings


def require_learned_attention(subject: Subject, study: str) -> AttendedSettings:
    """The settings of a recipe with one attention that is learned; an error for any other."""
    settings = recipe_settings(subject)
    if not isinstance(settings, AttendedSettings):
        known = ", ".join(name for name, recipe in RECIPES.items() if issubclass(recipe.kind, AttendedSettings))
        raise BadInput(f"{study} replaces one learned attention, and {subject.recipe} has others; choose from {known}.")
    if settings.attention not in LEARNED:
        choices = ", ".join(LEARNED)
        raise BadInput(
            f"{study} needs learned attention, and {subject.recipe} has attention={settings.attention}; set one of "
            f"{choices}."
        )
    return settings


def trained(trial: Trial, subject: Subject, trainings: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Train the subject's recipe once for each of these names, with its settings, as steps; their folders."""
    names = {f"train {name}": name for name in trainings}
    trial.steps("trainings", list(names), lambda step: trial.train(names[step], subject, trainings[names[step]]))
    return {name: trial.model_path(name) for name in trainings}


def base_model(trial: Trial) -> dict[str, str]:
    """The folder of the base model, if the study trained it."""
    return {} if trial.subject.classifier is not None else {BASE: trial.model_path(BASE)}


def used_texts(subject: Subject, uses: Mapping[str, str], scored: TextsUsed) -> tuple[TextsUsed, ...]:
    """The texts for training and for choices, which are whole parts; then those that are scored."""
    parts = {split: getattr(subject.splits, split) for split in uses if split != scored.split}
    whole = (TextsUsed(uses[split], split, len(part), datasets.fingerprint(part)) for split, part in parts.items())
    return (*whole, scored)


# what models answer


@dataclass(frozen=True)
class Answers:
    """A model on texts: probabilities [n,c]; the largest weight and the JSD to the base model's attention [n].

    JSD is the mean over heads; NaN for a text without a word to attend to.
    """

    probabilities: Floats
    peak: Floats
    jsd: Floats

    @property
    def predicted(self) -> Ints:
        """The index of each predicted label."""
        return np.asarray(self.probabilities.argmax(-1))

    def right(self, gold: Ints) -> Bools:
        """Whether each prediction is the gold label."""
        return right(self.probabilities, gold)

    def f1(self, gold: Ints) -> Floats:
        """A number for each text; their mean is F1."""
        return f1_values(gold, self.predicted, self.probabilities.shape[1])

    def tvd(self, base: Answers, head: str) -> Floats:
        """From the base model's predictions: ½ Σ |p − q| over labels; their mean for separate labels."""
        moved = np.abs(self.probabilities - base.probabilities)
        return np.asarray(moved.sum(-1) / 2 if head == "softmax" else moved.mean(-1))

    def flips(self, base: Answers) -> Floats:
        """Whether each predicted label differs from the base model's."""
        return np.asarray(self.predicted != base.predicted, dtype=np.float64)


@dataclass(frozen=True)
class Panel:
    """The base model, the test texts, and the attention that is compared."""

    trial: Trial
    base: Classifier
    texts: Texts
    layers: Layers = "last"

    def answers(self, name: str) -> Answers:
        """Of the trained model of this name ("base": of the base model), in steps."""
        model = cache(lambda: self.base if name == BASE else load(self.trial.store.model(name)))
        chunks = self.trial.chunks(f"reading {name}", self.texts, lambda part: self._read(model(), part))
        columns = {key: [row for chunk in chunks for row in chunk[key]] for key in ("probabilities", "peak", "jsd")}
        return Answers(**{key: np.array(rows, dtype=np.float64) for key, rows in columns.items()})

    def attention(self, names: Sequence[str], texts: Texts) -> dict[str, list[Floats]]:
        """For each of these models, the attention of each text, the mean over heads; to be called in a step."""
        models = {name: self.base if name == BASE else load(self.trial.store.model(name)) for name in names}
        read = {name: read_texts(model, texts, self.layers)[1] for name, model in models.items()}
        return {name: [rows.mean(0).round(DECIMALS) for rows in each] for name, each in read.items()}

    def _read(self, model: Classifier, texts: Texts) -> dict[str, Any]:
        if model.labels != self.base.labels:
            labels, found = (", ".join(names) for names in (self.base.labels, model.labels))
            raise BadInput(
                f"{self.base.name} has the labels {labels}, and the data {found}; give the data that it was trained on."
            )
        chances, own = read_texts(model, texts, self.layers)
        theirs = own if model is self.base else read_texts(self.base, texts, self.layers)[1]
        if any(a.shape != b.shape for a, b in zip(own, theirs, strict=True)):
            raise BadInput(f"{model.name} cuts a text into other tokens than {self.base.name}; give its own data.")
        distances = [jensen_shannon(a, b).mean() if b.sum() else np.nan for a, b in zip(own, theirs, strict=True)]
        peaks = [rows.mean(0).max() if rows.sum() else np.nan for rows in own]
        return {
            "probabilities": chances.round(DECIMALS),
            "peak": np.round(peaks, DECIMALS),
            "jsd": np.round(distances, DECIMALS),
        }


def read_texts(classifier: Classifier, texts: Texts, layers: Layers = "last") -> tuple[Floats, list[Floats]]:
    """Probabilities [n,c], and for each text its attention [r,k]: of the pooled position, one row for each head."""
    tokens = [classifier.tokens(e.text, e.pair).cut(classifier.limit) for e in texts.examples]
    logits: dict[int, Tensor] = {}
    rows: dict[int, Floats] = {}
    for group in classifier.batches(tokens):
        batch = classifier.batch([tokens[i] for i in group])
        reading = classifier.read(batch)
        attention, _ = pooled_attention(reading.weights, reading.pooled, classifier.main_kind, layers)
        weights = attention.detach().cpu().double().numpy()
        for row, i in enumerate(group):
            real = batch.real[row].cpu().numpy()
            rows[i] = weights[row][:, real]
            logits[i] = reading.logits[row].detach()
    stacked = torch.stack([logits[i] for i in range(len(tokens))]).cpu()
    return probabilities_of(stacked, classifier), [rows[i] for i in range(len(tokens))]


@dataclass(frozen=True)
class PerTextAdversary:
    """Jain & Wallace's adversary of each text: its JSD (ε-max) from the attention, and the change of the output."""

    jsd: Floats
    tvd: Floats


def per_text_adversary(trial: Trial, base: Classifier, texts: Texts, check: Adversarial) -> PerTextAdversary | None:
    """The search on each text, in steps; None for a model with several attentions, for which it is not defined."""
    if not isinstance(base.model, Attended):
        return None

    def compute(part: Texts) -> dict[str, Any]:
        made = cases(base, part.examples, {}, seed=trial.seed).cases
        found = [
            {finding.measure: finding.value for finding in findings}
            for findings in check.many([made[i] for i in range(len(part))])
        ]
        names = {"jsd": "jsd found", "tvd": "change found"}
        return {
            key: np.round([numbers.get(name, np.nan) for numbers in found], DECIMALS) for key, name in names.items()
        }

    chunks = trial.chunks("Jain & Wallace's adversary", texts, compute)
    columns = {key: [x for chunk in chunks for x in chunk[key]] for key in ("jsd", "tvd")}
    return PerTextAdversary(**{key: np.array(values, dtype=np.float64) for key, values in columns.items()})


# numbers


def score_rows(
    study: str, method: str, answers: Sequence[Answers], gold: Ints, measures: Mapping[str, Measure] = MEASURES
) -> list[Row]:
    """F1 and accuracy of the trainings of one kind: over texts (means over trainings), and over trainings."""
    rows = []
    for measure, values in (("f1", f1_table(answers, gold)), ("accuracy", right_table(answers, gold))):
        texts = row_of(study, measures, measure, values.mean(0), method, OVER_TEXTS)
        rows.append(replace(texts, low=max(0.0, texts.low), high=min(1.0, texts.high)))
        if len(answers) > 1:
            rows.append(row_of(study, measures, measure, values.mean(1), method, OVER_TRAININGS))
    return rows


def f1_table(answers: Sequence[Answers], gold: Ints) -> Floats:
    """[trainings,n]: numbers whose mean over texts is F1."""
    return np.stack([a.f1(gold) for a in answers])


def right_table(answers: Sequence[Answers], gold: Ints) -> Floats:
    """[trainings,n]: 1 where a prediction is right."""
    return np.stack([a.right(gold).astype(np.float64) for a in answers])
