"""Guides (Wiegreffe & Pinter 2019, section 3.4): does attention help a model that reads each word by itself?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from heedful.core.arrays import Ints
from heedful.core.errors import BadInput
from heedful.core.finding import DIVERGENCE
from heedful.core.settings import Between, Count, NotNegative
from heedful.maths.stats import decide, paired
from heedful.model.classifier import Classifier
from heedful.nets.training.settings import SingleSettings
from heedful.studies.adversaries import Adversaries, AdversaryTraining, constant_notes
from heedful.studies.base import Cost, Subject, Trial, epochs_of, row_of
from heedful.studies.outcome import PairedDifference, Result
from heedful.studies.retraining import (
    BASE,
    MEASURES,
    OVER_TEXTS,
    Answers,
    Panel,
    base_model,
    f1_table,
    require_learned_attention,
    right_table,
    score_rows,
    trained,
    used_texts,
)

NAME = "guides"
UNIFORM, OWN, FROM_BASE, FROM_ADVERSARY = "uniform", "its own", "the base network's", "the adversary's"
GUIDES = (UNIFORM, OWN, FROM_BASE, FROM_ADVERSARY)
STUDENT, GIVEN = "average", "mlp-given"  # recipes
# settings of the base network's recipe that a student does not take over
OTHERS = ("encoder", "attention", "guide", "regularised", "activation")


@dataclass(frozen=True)
class Guides(AdversaryTraining):
    """Train a network that reads each word by itself with four attentions, each with `seeds` seeds.

    They are: uniform; its own, learned; the base network's, frozen; and, frozen, that of an adversary, a network
    trained to keep the base network's predictions with other attention (see adversarial-training). An adversary is
    trained for each λ of `strengths`; on dev texts the one with the smallest TVD is chosen among those whose mean JSD
    to the base network's attention is at least `min_jsd`.
    """

    strengths: tuple[NotNegative, ...] = (0.001, 0.002, 0.004)
    seeds: Count = 3
    min_jsd: Annotated[float, Between(*DIVERGENCE)] = 0.4
    scored: Count | None = None

    summary: ClassVar[str] = "a network that reads words one by one, with four attentions"
    title: ClassVar[str] = "Attention as a guide"
    question: ClassVar[str] = "Does the network's attention help a model that sees no context?"
    changes: ClassVar[str] = "a new network without context is trained with an attention that it does not learn"
    reading: ClassVar[str] = (
        "If the base network's weights help a simple model more than uniform ones or its own, they carry information "
        "about the words that does not depend on the network. If an adversary's weights help less, they are not an "
        "equally good explanation, although they give the same predictions. The weights come from a network that sees "
        "context, so they may also pass on what that network has computed: a good guide is useful, which is not yet "
        "faithful. The interval over texts holds for these trainings, the one over trainings for these texts."
    )
    uses: ClassVar[Mapping[str, str]] = {
        "train": "networks are trained",
        "dev": "epochs and λ are chosen",
        "test": "networks are scored",
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "strengths": (0.003,),
        "adversary_epochs": 8,
        "seeds": 2,
        "scored": 120,
    }

    def check(self, subjects: Sequence[Subject]) -> None:
        """Refuse a subject that cannot be trained again, or has no attention to learn."""
        self._require(subjects[0])

    def __call__(self, trial: Trial) -> Result:
        """Scores of the four students, and of the networks that guide them."""
        first = self._require(trial.subject)
        base = trial.classifier()
        texts = trial.texts(base, "test", self.uses["test"], self.scored)
        adversaries = Adversaries(trial, base, self)
        dev = adversaries.train()
        chosen = self._chosen(dev)
        folders = {FROM_BASE: self._folder(trial, base), FROM_ADVERSARY: str(trial.store.model(chosen))}
        students: dict[str, list[str]] = {}
        models = base_model(trial) | adversaries.models()
        for guide in GUIDES:
            given = {"guide": folders[guide], "attention": "given"} if guide in folders else {}
            given |= {"attention": "uniform"} if guide == UNIFORM else {}
            names = {f"guide {guide}, seed {first + i}": {"seed": first + i} | given for i in range(self.seeds)}
            models |= trained(trial, _student(trial.subject, GIVEN if guide in folders else STUDENT), names)
            students[guide] = list(names)
        panel = Panel(trial, base, texts)
        answers = {guide: [panel.answers(name) for name in names] for guide, names in students.items()}
        teachers = {BASE: panel.answers(BASE), "adversary": panel.answers(chosen)}
        kinds = answers | {f"{name} itself": [teacher] for name, teacher in teachers.items()}
        rows = [row for kind, group in kinds.items() for row in score_rows(NAME, kind, group, texts.gold)]
        away = teachers["adversary"]
        rows += [
            row_of(NAME, MEASURES, "jsd", away.jsd, "adversary itself"),
            row_of(NAME, MEASURES, "tvd", away.tvd(teachers[BASE], base.head), "adversary itself"),
        ]
        return Result(
            rows=tuple(rows),
            differences=tuple(_differences(answers, texts.gold)),
            texts=used_texts(trial.subject, self.uses, texts.used),
            models=models,
            notes=self._notes(dev, chosen) + constant_notes({chosen: away}, teachers[BASE]),
            details={"adversaries": dev, "chosen": chosen, "guides": list(GUIDES)},
        )

    def _require(self, subject: Subject) -> int:
        """The seed of the base network; an error for a recipe that cannot guide."""
        settings = require_learned_attention(subject, NAME)
        if not isinstance(settings, SingleSettings):
            raise BadInput(f"{NAME} needs a network of one text, and {subject.recipe} reads pairs; give bilstm or cnn.")
        return settings.seed

    def _folder(self, trial: Trial, base: Classifier) -> str:
        return str(trial.store.model(BASE)) if trial.subject.classifier is None else base.name

    def _chosen(self, dev: Mapping[str, Mapping[str, float]]) -> str:
        """The adversary that guides, by its scores on dev."""
        far = [name for name, scores in dev.items() if scores["jsd"] >= self.min_jsd]
        if far:
            return min(far, key=lambda name: dev[name]["tvd"])
        return max(dev, key=lambda name: dev[name]["jsd"])

    def _notes(self, dev: Mapping[str, Mapping[str, float]], chosen: str) -> tuple[str, ...]:
        jsd, tvd = dev[chosen]["jsd"], dev[chosen]["tvd"]
        note = f"The adversary that guides has {chosen}: JSD {jsd:.2f} and TVD {tvd:.3f} on dev texts."
        if jsd >= self.min_jsd:
            return (note,)
        return (note, f"No adversary reached min_jsd = {self.min_jsd:g} on dev texts: this one is the farthest.")

    def costs(self, trial: Trial) -> list[Cost]:
        """Trainings of the base network, the adversaries and the students; a pass of each test text with each."""
        self._require(trial.subject)
        n = len(trial.subject.splits.test[: self.scored])
        students = len(GUIDES) * self.seeds * epochs_of(trial.subject)
        return [
            Cost("training the network", trained=epochs_of(trial.subject)),
            self.cost(len(trial.subject.splits.train)),
            Cost("training students", trained=students),
            Cost("scoring", forwards=2 * (len(GUIDES) * self.seeds + 2) * n),
        ]


def _student(subject: Subject, recipe: str) -> Subject:
    """The network without context, with the base network's settings for texts and training."""
    settings = {name: value for name, value in subject.settings.items() if name not in OTHERS}
    return replace(subject, recipe=recipe, settings=settings, classifier=None)


def _differences(answers: Mapping[str, list[Answers]], gold: Ints) -> list[PairedDifference]:
    """The student with the base network's attention against the others, text by text."""
    differences = []
    others = [guide for guide in GUIDES if guide != FROM_BASE]
    for measure, table in (("f1", f1_table), ("accuracy", right_table)):
        means = {guide: table(group, gold).mean(0) for guide, group in answers.items()}
        decided = decide([paired(means[FROM_BASE], means[other]) for other in others], "higher")
        differences += [
            PairedDifference(measure, FROM_BASE, other, difference, OVER_TEXTS)
            for other, difference in zip(others, decided, strict=True)
            if difference is not None
        ]
    return differences
