"""Heads across tasks (Hao et al. 2021): are the same attention heads important in two models, or on two data sets?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Annotated, Any, ClassVar

from heedful.audits.summary import Row
from heedful.core.arrays import Floats
from heedful.core.errors import BadInput
from heedful.core.finding import CORRELATION, FRACTION, Measure, Place
from heedful.core.settings import Checked, Count, Ge
from heedful.maths.correlation import STATISTICS, Correlation, correlation, expected_by_chance, halves, tenth
from heedful.maths.stats import Difference, decide
from heedful.methods.base import numpy_generator
from heedful.model.classifier import Classifier
from heedful.studies.base import Cost, Subject, Texts, Trial, check_heads, require_heads
from heedful.studies.heads import Importance, every_head, importance_passes
from heedful.studies.outcome import Result
from heedful.studies.pruning import importances

HALVINGS = 100  # random halves of a task's texts


@dataclass(frozen=True)
class _Task:
    """A model on a data set, the texts on which its heads are measured, and each importance [n,h]."""

    name: str
    texts: Texts
    scores: Mapping[str, Floats]


@dataclass(frozen=True)
class HeadsAcrossTasks(Checked):
    """Correlation of head importances between two or more models or data sets, beside random orders of the heads.

    Heads are measured on `scored` texts of the test part of each data set, cut to `max_tokens` (Hao et al.: 128).
    `importances` are those of the study pruning. Intervals are from `draws` draws of texts, p from `permutations` of
    the heads.
    """

    importances: tuple[Importance, ...] = ("attribution", "taylor")
    scored: Count = 200
    max_tokens: Annotated[int, Ge(3)] = 128
    draws: Annotated[int, Ge(100)] = 1000
    permutations: Annotated[int, Ge(100)] = 10_000

    takes: ClassVar[tuple[int, int]] = (2, 99)
    summary: ClassVar[str] = "are the same heads important in several models, or on several data sets?"
    paper: ClassVar[str] = "Hao et al. 2021"
    title: ClassVar[str] = "Heads across tasks"
    question: ClassVar[str] = "Are the same attention heads important in different models or on different data?"
    changes: ClassVar[str] = "nothing is changed: the importance of heads is measured on several models or data sets"
    reading: ClassVar[str] = (
        "A correlation near 1 means that heads which matter in one task matter in the other. Random orders of the "
        "heads are the control: p is the share of them that are at least as far from what chance gives. Importances "
        "are means over texts, and their noise makes correlations smaller: two halves of one task's texts show how "
        "much. Heads of two models can be compared only if both were trained from the same pretrained weights: "
        "otherwise head 3 of one has nothing to do with head 3 of the other. In any model the importance of a head "
        "depends on its layer, so that some correlation is no proof of shared functions."
    )
    measures: ClassVar[Mapping[str, Measure]] = {
        "tau": Measure("Kendall's τ-b of the heads' mean importances", range=CORRELATION),
        "pearson": Measure("Pearson's r of the heads' mean importances", range=CORRELATION),
        "overlap": Measure("share of the top tenth of heads that both tasks have in common", range=FRACTION),
    }
    uses: ClassVar[Mapping[str, str]] = {"test": "heads are measured"}
    quick: ClassVar[Mapping[str, Any]] = {"scored": 40, "draws": 200, "permutations": 1000}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.importances or len(set(self.importances)) < len(self.importances):
            raise BadInput(f"importances are {', '.join(self.importances) or 'empty'}; give each once, at least one.")

    def check(self, subjects: Sequence[Subject]) -> None:
        """Refuse models without heads, or with others."""
        for subject in subjects:
            check_heads(subject)
        classifiers = [subject.classifier for subject in subjects if subject.classifier is not None]
        if len(classifiers) == len(subjects):
            same_shape(classifiers, task_names(subjects))

    def __call__(self, trial: Trial) -> Result:
        """The statistics of each pair of tasks, and how well halves of one task agree."""
        names = task_names(trial.subjects)
        classifiers = [trial.classifier(subject) for subject in trial.subjects]
        shape = same_shape(classifiers, names)
        tasks = [
            self._task(trial, i, name, classifier, shape)
            for i, (name, classifier) in enumerate(zip(names, classifiers, strict=True))
        ]
        numbers: dict[tuple[str, str, str, str], Correlation] = {
            (measure, kind, a.name, b.name): self._compare(trial, measure, kind, a, b)
            for kind in self.importances
            for a, b in combinations(tasks, 2)
            for measure in STATISTICS
        }
        within = [
            {"task": task.name, "importance": kind} | {m: self._within(trial, m, kind, task) for m in STATISTICS}
            for kind in self.importances
            for task in tasks
        ]
        heads = shape[0] * shape[1]
        details = {
            "tasks": names,
            "heads": [{"layer": layer, "head": head} for layer, head in every_head(*shape)],
            "top": tenth(heads),
            "importance": {kind: {t.name: t.scores[kind].mean(0) for t in tasks} for kind in self.importances},
            "within": within,
            "pairs": [
                {"measure": m, "importance": kind, "a": a, "b": b, "p": c.p, "expected": c.expected}
                | {"null_low": c.null_low, "null_high": c.null_high}
                for (m, kind, a, b), c in numbers.items()
            ],
        }
        sizes = {task.name: len(task.texts) for task in tasks}
        return Result(
            rows=_rows(numbers, sizes, heads),
            texts=tuple(replace(t.texts.used, use=f"{self.uses['test']}: {t.name}") for t in tasks),
            details=details,
        )

    def costs(self, trial: Trial) -> list[Cost]:
        """The passes of each importance on each task."""
        costs = []
        for subject, name in zip(trial.subjects, task_names(trial.subjects), strict=True):
            layers, heads = require_heads(trial.classifier(subject))
            texts = min(self.scored, len(subject.splits.test))
            costs += [
                Cost(f"{kind}: {name}", *(texts * n for n in importance_passes(kind, layers, heads)))
                for kind in self.importances
            ]
        return costs

    def _task(self, trial: Trial, number: int, name: str, classifier: Classifier, shape: tuple[int, int]) -> _Task:
        subject = trial.subjects[number]
        texts = cut_texts(trial.texts(classifier, "test", self.uses["test"], self.scored, subject), self.max_tokens)
        scores = importances(trial, classifier, texts, self.importances, shape, f"in task {number}")
        return _Task(name, texts, {kind: values.reshape(len(values), -1) for kind, values in scores.items()})

    def _compare(self, trial: Trial, measure: str, kind: str, a: _Task, b: _Task) -> Correlation:
        rng = numpy_generator(trial.rng("heads across tasks", measure, kind, a.name, b.name))
        same = a.texts.used.fingerprint == b.texts.used.fingerprint
        return correlation(measure, a.scores[kind], b.scores[kind], rng, self.draws, self.permutations, same)

    def _within(self, trial: Trial, measure: str, kind: str, task: _Task) -> float:
        rng = numpy_generator(trial.rng("halves", measure, kind, task.name))
        return halves(measure, task.scores[kind], rng, HALVINGS)


def task_names(subjects: Sequence[Subject]) -> list[str]:
    """A name for each subject: its data, its model, or both, whichever tell them apart; numbered where none does."""
    models, data = ([getattr(s, field) for s in subjects] for field in ("name", "data"))
    names = data if len(set(models)) == 1 or models == data else models if len(set(data)) == 1 else []
    names = names or [f"{model} on {source}" for model, source in zip(models, data, strict=True)]
    total, seen = Counter(names), Counter[str]()
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(f"{name} ({seen[name]})" if total[name] > 1 else name)
    return numbered


def same_shape(classifiers: Sequence[Classifier], names: Sequence[str]) -> tuple[int, int]:
    """The layers and heads that all models have; an error where they differ."""
    shapes = [require_heads(classifier) for classifier in classifiers]
    for name, shape in zip(names[1:], shapes[1:], strict=True):
        if shape != shapes[0]:
            found = [
                f"{who} has {layers} layers of {heads}"
                for who, (layers, heads) in ((names[0], shapes[0]), (name, shape))
            ]
            raise BadInput(f"{found[0]} heads and {found[1]}; give models with the same layers and heads.")
    return shapes[0]


def cut_texts(texts: Texts, most: int) -> Texts:
    """Texts of at most this many tokens: longer ones lose their end."""
    return replace(texts, tokens=tuple(tokens.cut(most) for tokens in texts.tokens))


def _rows(
    numbers: Mapping[tuple[str, str, str, str], Correlation], sizes: Mapping[str, int], heads: int
) -> tuple[Row, ...]:
    """A row for each number; Holm's correction is over all pairs and importances of a measure."""
    rows = []
    for measure in STATISTICS:
        mine = {key: c for key, c in numbers.items() if key[0] == measure}
        chance = expected_by_chance(measure, heads)
        against = [
            Difference(min(sizes[a], sizes[b]), c.value - chance, c.low - chance, c.high - chance, c.p)
            for (_, _, a, b), c in mine.items()
        ]
        for ((_, kind, a, b), c), decided in zip(mine.items(), decide(against), strict=True):
            at: Place = {"a": a, "b": b}
            n = min(sizes[a], sizes[b])
            rows.append(
                Row(
                    n=n, missing=0, mean=c.value, median=c.value, std=c.error, low=c.low, high=c.high,
                    check="heads-across-tasks", measure=measure, method=kind, at=at, versus_random=decided,
                )
            )  # fmt: skip
    return tuple(rows)
