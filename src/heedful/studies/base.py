"""What all studies share: the Subject and the Trial that they are called with, the parts of the data, and steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from heedful import data as datasets
from heedful.audits.chunk import one_thread
from heedful.audits.run import order
from heedful.audits.summary import Row
from heedful.audits.workers import ReportShare, Work, Workers, in_process, silent
from heedful.core.arrays import Bools, Floats, Ints
from heedful.core.errors import BadInput, HeedfulError, Unsupported
from heedful.core.files import json_value
from heedful.core.finding import Measure, Place
from heedful.core.random import seeded
from heedful.core.target import activation
from heedful.core.tokens import Tokens
from heedful.data import Example, Splits, label_names
from heedful.maths.stats import Difference, estimate
from heedful.model.classifier import Classifier
from heedful.model.edits import Edit
from heedful.model.loading import encoder, load
from heedful.nets.training.loop import TrainingProgress, WatchTraining
from heedful.nets.training.recipes import RECIPES
from heedful.nets.training.settings import FineTune, MultiHeadSettings, TransformerSettings
from heedful.nets.training.train import RECORD, finished_record, train
from heedful.studies.folder import MODELS, StudyFolder, Trainings, file_name
from heedful.studies.outcome import Result, TextsUsed

CHUNK_TEXTS = 32  # texts of a step
MIN_PART_TEXTS = 4  # of a part of the data


@dataclass(frozen=True)
class Cost:
    """A part of a study's cost: passes of single texts, and texts that are trained on, each once an epoch."""

    what: str
    forwards: int = 0
    backwards: int = 0
    trained: int = 0


@dataclass(frozen=True)
class StudyProgress:
    """The progress of a study: `done` of `total` steps of what it does now."""

    doing: str
    done: float = 0.0
    total: int = 0


WatchStudy = Callable[[StudyProgress], None]


@dataclass(frozen=True)
class Subject:
    """What a study is done to: a classifier, or the network of a recipe, which the study trains; and its data.

    A classifier that `heedful train` wrote has its recipe too. The splits have no text in common; `note` says where
    they are not the parts of the data, and what was dropped.
    """

    name: str
    data: str
    splits: Splits
    classifier: Classifier | None = None
    recipe: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the recipe
    note: str = ""

    def require_recipe(self) -> str:
        """The recipe; an error for a model that cannot be trained again."""
        if not self.recipe:
            raise BadInput(
                f"{self.name} has no recipe, so it cannot be trained again; give --recipe NAME, or a folder that "
                "`heedful train` wrote."
            )
        return self.recipe


@dataclass(frozen=True)
class Texts:
    """Labelled texts as a model reads them: tokens and the index of each gold label. `used` says which they are."""

    examples: tuple[Example, ...]
    tokens: tuple[Tokens, ...]
    gold: Ints
    used: TextsUsed

    def __len__(self) -> int:
        return len(self.tokens)

    def take(self, which: Sequence[int]) -> Texts:
        """Some of them."""
        examples, tokens = tuple(self.examples[i] for i in which), tuple(self.tokens[i] for i in which)
        return Texts(examples, tokens, self.gold[list(which)], self.used)


@dataclass(frozen=True)
class Trial:
    """One run of a study: its subjects, its folder and its seed.

    `step` and `steps` store what they compute: a study that was killed is called again, reads its finished steps, and
    goes on. So a study is a pure function of its subjects, settings and seed, and all that is slow is inside a step.
    `only` is set in a worker process: the number of the one step to compute. `trainings` has the trainings that the
    studies of a reproduction share.
    """

    subjects: tuple[Subject, ...]
    store: StudyFolder
    seed: int = 0
    watch: WatchStudy | None = None
    workers: Workers = in_process
    shared: Callable[[Work], Work] = lambda work: work  # as work that other processes can do too
    only: int | None = None
    trainings: Trainings | None = None

    @property
    def subject(self) -> Subject:
        """The first subject."""
        return self.subjects[0]

    def rng(self, *names: object) -> torch.Generator:
        """A random generator that depends on the seed and these names only."""
        return seeded(self.seed, *names)

    def tell(self, doing: str, done: float = 0.0, total: int = 0) -> None:
        """Report the progress."""
        if self.watch is not None:
            self.watch(StudyProgress(doing, done, total))

    # steps

    def step(self, name: str, compute: Callable[[], Any]) -> Any:
        """The stored result of a step, computed once: a JSON value; arrays become lists, and NaN becomes None."""
        return self.steps(name, [name], lambda _: compute())[0]

    def steps(self, doing: str, names: Sequence[str], compute: Callable[[str], Any]) -> list[Any]:
        """The results of independent steps, each computed once, by this process or by others that share the work.

        `compute` must not contain steps itself.
        """
        missing = [i for i, name in enumerate(names) if not self.store.has(name)]
        if missing and self.only is not None:
            if self.only in missing:  # a machine may have stored it and died before it could say so
                self._compute(names[self.only], compute)
            raise StepDone
        self.tell(doing, len(names) - len(missing), len(names))
        work = self.shared(_Local(self, names, compute))
        for done, _ in enumerate(self.workers(work, missing), len(names) - len(missing) + 1):
            self.tell(doing, done, len(names))
        return [self.store.read(name) for name in names]

    def _compute(self, name: str, compute: Callable[[str], Any]) -> None:
        start = time.process_time()
        with one_thread():
            value = json_value(compute(name))
        self.store.write(name, value, time.process_time() - start)

    def chunks(self, doing: str, texts: Texts, compute: Callable[[Texts], Any], size: int = CHUNK_TEXTS) -> list[Any]:
        """The results of `compute` on some texts at a time, one step each."""
        starts = {f"{doing} {i // size:04d}": range(i, min(i + size, len(texts))) for i in range(0, len(texts), size)}
        return self.steps(doing, list(starts), lambda name: compute(texts.take(starts[name])))

    # models

    def classifier(self, subject: Subject | None = None) -> Classifier:
        """The classifier of a subject (default: the first); trained first, as a step, if the subject is a recipe."""
        subject = subject or self.subject
        if subject.classifier is not None:
            return subject.classifier
        name = "base" if subject is self.subject else f"base {self.subjects.index(subject)}"
        self.step(f"train {name}", lambda: self.train(name, subject))
        return load(self.store.model(name))

    def train(self, name: str, subject: Subject, settings: Mapping[str, Any] | None = None) -> dict[str, float]:
        """Train the subject's recipe with these settings over its own, into models/NAME; its scores on test.

        To be called inside a step. A training that was killed is resumed.
        """
        recipe, chosen = subject.require_recipe(), {**subject.settings, **(settings or {})}
        splits, names = self._as_the_model_names_labels(subject.splits)
        identity = {
            "recipe": recipe,
            "settings": asdict(RECIPES[recipe].settings(chosen)),
            "data": [datasets.fingerprint(part) for part in (splits.train, splits.dev, splits.test)],
            "names": names,
        }
        watch = self.watch_training(name)
        record = self.train_once(
            name, identity, lambda folder: train(recipe, splits, folder, chosen, names=names, watch=watch)
        )
        return dict(record["test"] or {})

    def train_once(self, name: str, identity: Mapping[str, Any], run: Callable[[Path], object]) -> dict[str, Any]:
        """The record of models/NAME, which `run` trains unless a study of the same reproduction trained the same.

        `identity` is all that the training depends on. To be called inside a step.
        """
        folder = self.store.model(name)
        if (record := finished_record(folder)) is not None:  # killed before the step was stored
            return record
        if self.trainings is None or not self.trainings.copy(identity, folder, RECORD):
            run(folder)
        if self.trainings is not None:
            self.trainings.add(identity, folder)
        record = finished_record(folder)
        assert record is not None
        return record

    def _as_the_model_names_labels(self, splits: Splits) -> tuple[Splits, tuple[str, ...] | None]:
        """The data of a network that is compared with a given model, and names for its labels where they differ.

        The data may have numbers for them, or the model another order: texts get the number of their label, in the
        model's order.
        """
        model = self.subjects[0].classifier if self.subjects else None
        if model is None or tuple(label_names(splits.train)) == model.labels:
            return splits, None

        def numbered(part: Sequence[Example]) -> list[Example]:
            return [replace(e, label=str(gold_index(e, model.labels))) for e in part]

        train, dev, test = (numbered(part) for part in (splits.train, splits.dev, splits.test))
        return replace(splits, train=train, dev=dev, test=test), model.labels

    def watch_training(self, name: str) -> WatchTraining:
        """Reports the progress of a training of this name."""

        def watch(now: TrainingProgress) -> None:
            share = (now.epoch + now.step / max(1, now.steps)) / now.epochs
            self.tell(f"training {name}, epoch {min(now.epoch + 1, now.epochs)} of {now.epochs}", share, 1)

        return watch

    def model_path(self, name: str) -> str:
        """The folder of a model, relative to the study's, for `Result.models`."""
        return f"{MODELS}/{file_name(name)}"

    # texts

    def texts(
        self, classifier: Classifier, split: str, use: str, limit: int | None = None, subject: Subject | None = None
    ) -> Texts:
        """Labelled texts of a split, at most `limit`, with the labels in proportion, as the classifier reads them."""
        subject = subject or self.subject
        every: list[Example] = getattr(subject.splits, split)
        chosen = [every[i] for i in order(every, self.seed)][:limit]
        examples, tokens, gold = [], [], []
        for example in chosen:
            try:
                read = classifier.tokens(example.text, example.pair).cut(classifier.limit)
            except HeedfulError:
                continue
            examples.append(example)
            tokens.append(read)
            gold.append(gold_index(example, classifier.labels))
        if len(tokens) < MIN_PART_TEXTS:
            raise BadInput(
                f"the {split} part of {subject.data} has {len(tokens)} texts that {classifier.name} can read; give at "
                f"least {MIN_PART_TEXTS} in each part."
            )
        used = TextsUsed(use, split, len(tokens), datasets.fingerprint(examples), len(chosen) - len(tokens))
        return Texts(tuple(examples), tuple(tokens), np.array(gold), used)


class StepDone(Exception):  # noqa: N818
    """Raised in a worker process when its one step is stored."""


@dataclass(frozen=True)
class _Local:
    """Steps as work of this process."""

    trial: Trial
    names: Sequence[str]
    compute: Callable[[str], Any]

    @property
    def place(self) -> Path:
        """The study's folder."""
        return self.trial.store.folder

    def do(self, chunk: int, tell: ReportShare = silent) -> None:
        """Compute and store a step; one that another process has stored meanwhile is not computed again."""
        if not self.trial.store.has(self.names[chunk]):
            self.trial._compute(self.names[chunk], self.compute)

    def describe(self, folder: Path) -> Mapping[str, Any]:
        """Not used: only `Trial.shared` makes work for other processes."""
        raise NotImplementedError


@runtime_checkable
class Study(Protocol):
    """A study is a frozen dataclass of settings with these class attributes, used as those of a check.

    `summary` is one line, `paper` its source, `changes` a sentence on what is done to the model, `measures` its
    measures by name; `title`, `question` and `reading` head its report. `uses` says for each split what it is used for.
    Optional:

    check(subjects)   raises if the study cannot take them, before anything is written
    quick             its settings in the quick profile
    trains            True if it trains networks on the train part
    default_recipe    what it studies without a model or a recipe
    takes             the least and the largest number of subjects; default (1, 1)
    section           the module whose `sections(outcome)` makes its report; default heedful.report.studies.<name>
    """

    summary: ClassVar[str]
    paper: ClassVar[str]
    changes: ClassVar[str]
    measures: ClassVar[Mapping[str, Measure]]
    uses: ClassVar[Mapping[str, str]]

    def __call__(self, trial: Trial) -> Result:
        """The result of the study."""
        ...

    def costs(self, trial: Trial) -> Sequence[Cost]:
        """What it will cost."""
        ...


# data


def gold_index(example: Example, labels: Sequence[str]) -> int:
    """The index of a text's gold label among these."""
    where = example.where or "a text"
    if not isinstance(example.label, str):
        found = "no label" if example.label is None else "several labels"
        raise BadInput(f"{where} has {found}; a study needs one label for each text.")
    return datasets.gold_index(example.label, labels, where)


def disjoint(splits: Splits) -> tuple[Splits, str]:
    """Splits with no text in common and a labelled test part; and a sentence, if its parts are not those of the data.

    A text of two parts stays in the later one. Where test has no labels, dev becomes test, and a tenth of train dev.
    """
    note = splits.note
    train, dev, test = ([e for e in part if e.label is not None] for part in (splits.train, splits.dev, splits.test))
    if not test:
        again = datasets.splits(train, dev_share=0.1, test_share=0.0) if train else Splits([], [], [])
        train, dev, test = again.train, again.dev, dev
        absent = "The data have no labelled test part: test is their dev part, and dev a tenth of their train part."
        note = f"{note} {absent}".strip()
    seen = {(e.text, e.pair) for e in test}
    dev = [e for e in dev if (e.text, e.pair) not in seen]
    seen |= {(e.text, e.pair) for e in dev}
    return replace(splits, train=[e for e in train if (e.text, e.pair) not in seen], dev=dev, test=test), note


def check_parts(subject: Subject, uses: Mapping[str, str]) -> None:
    """Refuse data whose parts are too small for a study, or have a single label."""
    for split, use in uses.items():
        part = getattr(subject.splits, split)
        if len(part) < MIN_PART_TEXTS:
            raise BadInput(
                f"{subject.data} has {len(part)} labelled texts for its {split} part ({use}); give at least "
                f"{MIN_PART_TEXTS} for each of {', '.join(uses)}, with no text in two of them."
            )
        if len(names := label_names(part)) < 2:
            raise BadInput(f"the {split} part of {subject.data} has only the label '{names[0]}'; give texts of two.")
        known = label_names(subject.splits.train) if subject.classifier is None else subject.classifier.labels
        for example in part:
            gold_index(example, known)


def check_encoder(subject: Subject) -> None:
    """Refuse a recipe whose pretrained encoder cannot be loaded."""
    if subject.classifier is None:
        ready = RECIPES[subject.recipe].settings(subject.settings)
        if isinstance(ready, FineTune):
            encoder(ready.encoder, label_names(subject.splits.train))


def epochs_of(subject: Subject, settings: Mapping[str, Any] | None = None) -> int:
    """How many texts one training of a subject reads, each once an epoch."""
    plan = RECIPES[subject.require_recipe()].settings({**subject.settings, **(settings or {})})
    return int(plan.epochs) * len(subject.splits.train)


# models


def check_heads(subject: Subject) -> None:
    """Refuse a model or a recipe without heads to compare."""
    if subject.classifier is not None:
        require_heads(subject.classifier)
    elif not issubclass(RECIPES[subject.recipe].kind, (MultiHeadSettings, TransformerSettings, FineTune)):
        raise Unsupported(
            "its network has no heads to compare; choose multihead, transformer or finetune", subject.name
        )


def require_heads(classifier: Classifier) -> tuple[int, int]:
    """The numbers of layers and heads of a model's main attention; an error for a model without heads to compare."""
    classifier.check_attention()
    kind = classifier.main_kind
    layers = sum(k == kind for k, _ in classifier.sites)
    if not layers:
        raise Unsupported("it has no attention heads", classifier.name)
    tokens = classifier.probe_tokens("a")
    with torch.no_grad(), classifier.attention() as seen:
        classifier.logits(classifier.batch([tokens]), counted=False)
    counts = {weights.shape[1] for site, weights in seen[0].items() if site.kind == kind}
    if len(counts) != 1 or layers * next(iter(counts)) < 2:
        heads = " or ".join(map(str, sorted(counts)))
        found = "it has one head" if layers == 1 and counts == {1} else f"it has {layers} layers with {heads} heads"
        raise Unsupported(f"{found}, and two heads are needed to compare", classifier.name)
    return layers, next(iter(counts))


def logits_of(
    classifier: Classifier, texts: Sequence[Tokens], edit: Callable[[Sequence[int]], Edit] | None = None
) -> Tensor:
    """The logits [n,c] of texts in float64, without gradients; `edit` makes the edit of a batch of these texts."""
    rows: dict[int, Tensor] = {}
    with classifier.lock, torch.no_grad():
        for group in classifier.batches(texts):
            batch = classifier.batch([texts[i] for i in group])
            if edit is None:
                logits = classifier.logits(batch)
            else:
                with classifier.attention(edit(group)):
                    logits = classifier.logits(batch)
            rows |= dict(zip(group, logits.cpu().double(), strict=True))
    return torch.stack([rows[i] for i in range(len(texts))])


def probabilities_of(logits: Tensor, classifier: Classifier) -> Floats:
    """Logits [n,c] as probabilities."""
    return activation(logits.double(), classifier.head).numpy()


def right(probabilities: Floats, gold: Ints) -> Bools:
    """Whether the largest probability [...,c] is that of the gold label."""
    return np.asarray(probabilities.argmax(-1) == gold)


# numbers


def row_of(
    study: str,
    measures: Mapping[str, Measure],
    measure: str,
    values: Floats,
    method: str = "",
    at: Place | None = None,
    versus: Difference | None = None,
) -> Row:
    """A row: the estimate of a measure over texts (or trainings), with its difference to the control, if any."""
    about = measures[measure]
    number = estimate(np.asarray(values, dtype=np.float64), about.kind, about.range)
    return Row(**vars(number), check=study, measure=measure, method=method, at=at or {}, versus_random=versus)
