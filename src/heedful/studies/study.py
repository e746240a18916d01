"""study: a model or a recipe and data go in; it is trained, pruned or attacked; an Outcome comes out, in a folder."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import torch

from heedful import data as datasets
from heedful.audits.manifest import Manifest
from heedful.audits.workers import Processes, ReportShare, Work, Workers, silent
from heedful.core.catalogue import Catalogue
from heedful.core.errors import BadInput, nearest
from heedful.core.files import compact, json_value, scratch_folder
from heedful.core.settings import read_assignments
from heedful.core.settings import values as settings_of
from heedful.data import EVERYTHING, Example, Selection, Splits
from heedful.data.columns import GUESSED, Columns
from heedful.methods.explain import versions
from heedful.model import loading
from heedful.nets.training.recipes import RECIPES
from heedful.nets.training.train import RECORD, train
from heedful.studies import STUDIES
from heedful.studies.base import (
    Cost,
    StepDone,
    Study,
    Subject,
    Trial,
    WatchStudy,
    check_encoder,
    check_parts,
    disjoint,
    epochs_of,
)
from heedful.studies.folder import StudyFolder, open_study, read_study
from heedful.studies.outcome import Outcome, about_study, encode_outcome

PROFILES = ("full", "quick")
UNTRAINED_SHARES = (0.3, 0.4)  # dev and test of one file, where no network is trained on the rest
TRAINED_SHARES = (0.1, 0.2)
TIMED_TEXTS = 16  # that are run, to forecast the cost


@dataclass(frozen=True)
class StudyRequest:
    """The arguments of `heedful.study` that its outcome depends on."""

    study: str | Study
    data: Any
    model: Any = None
    recipe: str | None = None
    settings: Sequence[str] = ()
    profile: str = "full"
    seed: int = 0
    columns: Columns = GUESSED
    kind: str | None = None
    select: Selection = EVERYTHING
    dev: Any = None
    test: Any = None
    model_options: Mapping[str, Any] | None = None


def study(
    study: str | Study,
    data: Any,
    model: Any = None,
    recipe: str | None = None,
    out: str | Path | None = None,
    *,
    settings: Sequence[str] = (),
    profile: str = "full",
    seed: int = 0,
    columns: Columns = GUESSED,
    kind: str | None = None,
    select: Selection = EVERYTHING,
    dev: Any = None,
    test: Any = None,
    model_options: Mapping[str, Any] | None = None,
    jobs: int = 1,
    workers: Workers | None = None,
    restart: bool = False,
    watch: WatchStudy | None = None,
) -> Outcome:
    """Do a study of a model, or of the network of a recipe, on data: `STUDIES` lists them.

    `data` is as for `heedful.train`: a folder with train, dev and test, or one source that is divided; `select` says
    which of its texts are used. `model` and `model_options` (its keywords) are as for `heedful.load`. Where a study
    takes several, `data` and `model` may be lists. `settings` are texts such as "draws=10", also of the recipe
    ("bilstm.epochs=3").

    With `out`, the study, its models and its report are stored in that folder. The same call resumes it; `restart`
    deletes it first. `jobs` processes share the work, or `workers` do it. `watch` is called with the progress, a
    `StudyProgress`.
    """
    request = StudyRequest(
        study, data, model, recipe, settings, profile, seed, columns, kind, select, dev, test, model_options
    )
    job = prepare(request)
    workers = workers or (Processes(jobs) if jobs != 1 else None)
    if out is not None:
        outcome = run(job, open_study(out, job.manifest(), restart), workers, watch)
        outcome.save_page()
        return outcome
    with scratch_folder() as folder:
        outcome = run(job, open_study(folder / "study", job.manifest()), workers, watch)
        return replace(outcome, folder=None)


@dataclass(frozen=True)
class StudyJob:
    """A study with its settings, its subjects and its seed."""

    name: str
    study: Study
    subjects: tuple[Subject, ...]
    seed: int

    catalogue: ClassVar[Catalogue] = STUDIES

    def manifest(self) -> Manifest:
        """All that the outcome depends on."""
        settings: dict[str, Any] = {"study": self.name, "settings": settings_of(self.study)}
        models = [_identity(subject) for subject in self.subjects]
        data = [
            {"name": s.data, "fingerprint": splits_fingerprint(s.splits), "texts": part_sizes(s.splits)}
            | s.splits.record()
            for s in self.subjects
        ]
        if len(self.subjects) > 1:
            settings["others"] = [
                {"model": m["fingerprint"], "data": d["fingerprint"]}
                for m, d in list(zip(models, data, strict=True))[1:]
            ]
        return Manifest(
            model=models[0] | {"others": [m["name"] for m in models[1:]]},
            data=data[0] | {"others": [d["name"] for d in data[1:]]},
            settings=json_value(settings),
            seed=self.seed,
            versions=study_versions(),
        )

    def trial(self, store: StudyFolder, watch: WatchStudy | None = None) -> Trial:
        """The trial in a folder, in this process."""
        return Trial(self.subjects, store, self.seed, watch)


def study_versions() -> dict[str, str]:
    """The versions of packages that an outcome may depend on."""
    return versions() | {name: version(name) for name in ("numpy", "scipy")}


def _identity(subject: Subject) -> dict[str, Any]:
    if subject.classifier is not None:
        c = subject.classifier
        return {"name": subject.name, "fingerprint": c.fingerprint, "labels": list(c.labels)}
    key = compact([subject.recipe, json_value(dict(subject.settings))]).encode()
    return {"name": subject.name, "fingerprint": blake2b(key, digest_size=16).hexdigest()}


def splits_fingerprint(splits: Splits) -> str:
    """32 hexadecimal digits that change with any text of any part."""
    parts = [datasets.fingerprint(part) for part in (splits.train, splits.dev, splits.test)]
    return blake2b(" ".join(parts).encode(), digest_size=16).hexdigest()


def part_sizes(splits: Splits) -> dict[str, int]:
    """How many texts each part has."""
    return {name: len(getattr(splits, name)) for name in ("train", "dev", "test")}


def prepare(request: StudyRequest) -> StudyJob:
    """The job of `study` with these arguments. Models are loaded last, after all that is cheap to refuse."""
    if request.profile not in PROFILES:
        hint = nearest(request.profile, PROFILES) or "."
        raise BadInput(f"profile '{request.profile}' is not one of {', '.join(PROFILES)}{hint}")
    quick = getattr(STUDIES[request.study], "quick", None) if isinstance(request.study, str) else None
    chosen: Study = STUDIES.make(request.study, quick if request.profile == "quick" else None)
    name = STUDIES.name_of(chosen)
    models = _several(request.model)
    recipe = request.recipe or (getattr(chosen, "default_recipe", None) if not models else None)
    if request.recipe and models:
        raise BadInput("both a model and a recipe were given; give one of them.")
    owners: list[tuple[str, Any]] = [(name, type(chosen))]
    if recipe:
        owners.append((RECIPES[recipe].name, RECIPES[recipe].kind))
    own, *of_recipe = read_assignments(request.settings, owners, _full_name)
    chosen = replace(chosen, **own) if own else chosen  # type: ignore[type-var]
    subjects = _subjects(request, chosen, name, models, recipe, of_recipe[0] if of_recipe else {})
    for subject in subjects:
        check_parts(subject, chosen.uses)
        check_encoder(subject)
    if hasattr(chosen, "check"):
        chosen.check(subjects)
    return StudyJob(name, chosen, tuple(subjects), request.seed)


def _full_name(name: str) -> str:
    return STUDIES.full_name(name) if name in STUDIES else RECIPES.full_name(name)


def _several(value: Any) -> list[Any]:
    """One or several models or data sets as a list; a pair (model, tokenizer) is one model."""
    if value is None:
        return []
    several = isinstance(value, list) and not all(isinstance(item, (Example, Mapping)) for item in value)
    return list(value) if several else [value]


def _subjects(
    request: StudyRequest, study: Study, name: str, models: list[Any], recipe: str | None, settings: Mapping[str, Any]
) -> list[Subject]:
    """The subjects: as many as models or data; one model with several data sets, or one data set with several."""
    sources = _several(request.data)
    count = max(len(sources), len(models), 1)
    low, high = getattr(study, "takes", (1, 1))
    if not low <= count <= high:
        if high == 1:
            raise BadInput(f"{name} takes one model and one data set, not {count}; leave the others out.")
        raise BadInput(f"{name} takes at least {low} models or data sets, not {count}; repeat --model or DATA.")
    if len(sources) not in (1, count) or len(models) not in (0, 1, count):
        raise BadInput(f"{len(models)} models and {len(sources)} data sets do not match; give one, or one for each.")
    trained = bool(recipe)
    shares = TRAINED_SHARES if trained or getattr(study, "trains", False) else UNTRAINED_SHARES
    parts, notes = zip(*(disjoint(_read_splits(request, source, shares)) for source in sources), strict=True)
    if recipe:
        RECIPES[recipe].settings(settings)  # refuses a wrong value before anything slow
    loaded = [
        loading.load(model, **(request.model_options or {})) for model in (models or ([None] if not trained else []))
    ]
    named = [str(Path(s).name) if isinstance(s, (str, Path)) else "the data" for s in sources]
    subjects = []
    for i in range(count):
        k = min(i, len(sources) - 1)
        if trained:
            seeded = {"seed": request.seed, **settings}
            subjects.append(Subject(str(recipe), named[k], parts[k], None, str(recipe), seeded, notes[k]))
            continue
        classifier = loaded[min(i, len(loaded) - 1)]
        found, stored = _recipe_of(classifier.name)
        subjects.append(Subject(Path(classifier.name).name, named[k], parts[k], classifier, found, stored, notes[k]))
    return subjects


def _read_splits(request: StudyRequest, source: Any, shares: tuple[float, float]) -> Splits:
    if isinstance(source, Splits):
        if request.select != EVERYTHING:
            raise BadInput("the data are Splits, from which nothing is selected; give select to heedful.data.splits.")
        return source
    named = {"dev": request.dev, "test": request.test, "kind": request.kind, "select": request.select}
    return datasets.splits(source, request.columns, dev_share=shares[0], test_share=shares[1], **named)


def _recipe_of(folder: str) -> tuple[str, dict[str, Any]]:
    """The recipe and its settings of a folder that `heedful train` wrote; empty for another model."""
    try:
        record = json.loads((Path(folder) / RECORD).read_bytes())
        recipe = RECIPES[record["recipe"]]
        known = {key: value for key, value in record["settings"].items() if recipe.defaults.get(key) != value}
        recipe.settings(known)
        return recipe.name, known
    except (OSError, ValueError, KeyError, TypeError, BadInput):
        return "", {}


# running


def run(job: StudyJob, store: StudyFolder, workers: Workers | None, watch: WatchStudy | None) -> Outcome:
    """Do a study in its folder, in this process or shared with others."""
    trial = job.trial(store, watch)
    if workers is not None:
        trial = replace(trial, workers=workers, shared=lambda here: _Steps(job, store, here))
    return finish(job, trial)


def finish(job: StudyJob, trial: Trial) -> Outcome:
    """Do what is left of a study, and store its outcome."""
    store, result = trial.store, job.study(trial)
    notes = dict.fromkeys(subject.note for subject in job.subjects if subject.note)
    result = replace(result, notes=(*notes, *result.notes))
    outcome = Outcome(job.name, store.manifest, about_study(job.study), result, store.seconds(), store.folder)
    store.finish(encode_outcome(outcome))
    return outcome


@dataclass(frozen=True)
class _Steps:
    """The steps of a study as work that `workers` share.

    Another process calls the whole study again. It reads the finished steps, and computes one of the first group that
    is not finished.
    """

    job: StudyJob
    store: StudyFolder
    here: Work | None = None

    @property
    def place(self) -> Path:
        """The study's folder."""
        return self.store.folder

    def do(self, chunk: int, tell: ReportShare = silent) -> None:
        """Compute and store a step."""
        if self.here is not None:
            self.here.do(chunk, tell)
            return
        with suppress(StepDone):
            self.job.study(replace(self.job.trial(self.store), only=chunk))

    def describe(self, folder: Path) -> dict[str, Any]:
        """As JSON, for `restore` in another process."""
        return {
            "restore": f"{__name__}:_Steps.restore",
            "job": f"{type(self.job).__module__}:{type(self.job).__name__}",
            "folder": str(self.store.folder.absolute()),
            "study": self.job.name,
            "settings": json_value(settings_of(self.job.study)),
            "seed": self.job.seed,
            "subjects": [
                {
                    "name": s.name,
                    "data": s.data,
                    "splits": [
                        [example.to_json() for example in part]
                        for part in (s.splits.train, s.splits.dev, s.splits.test)
                    ],
                    "classifier": None
                    if s.classifier is None
                    else loading.describe_classifier(s.classifier, folder / f"model{i}"),
                    "recipe": s.recipe,
                    "settings": json_value(dict(s.settings)),
                }
                for i, s in enumerate(self.job.subjects)
            ],
        }

    @classmethod
    def restore(cls, described: Mapping[str, Any]) -> _Steps:
        """The inverse of `describe`; an error unless every weight and setting is that of the study."""
        subjects = tuple(
            Subject(
                s["name"],
                s["data"],
                Splits(*([Example.from_json(example) for example in part] for part in s["splits"])),
                None if s["classifier"] is None else loading.restore_classifier(s["classifier"]),
                s["recipe"],
                s["settings"],
            )
            for s in described["subjects"]
        )
        module, _, kind = described["job"].partition(":")
        jobs: type[StudyJob] = getattr(import_module(module), kind)
        study = jobs.catalogue.make(described["study"], described["settings"])
        job = jobs(described["study"], study, subjects, described["seed"])
        store = read_study(described["folder"])
        if job.manifest().stamp != store.manifest.stamp:
            raise BadInput("another process restored a different model, data or setting; use jobs=1.")
        return cls(job, store)


# the cost


@dataclass(frozen=True)
class StudyForecast:
    """The cost of a study: its parts, and CPU seconds, very roughly."""

    costs: tuple[Cost, ...]
    seconds: float


def forecast(job: StudyJob) -> StudyForecast:
    """The cost of a job. A few texts are run, to time this model here."""
    with scratch_folder() as folder:
        timed = replace(job, subjects=tuple(_with_classifier(subject) for subject in job.subjects))
        costs = list(job.study.costs(timed.trial(StudyFolder(folder, job.manifest()))))
    if job.subjects[0].classifier is None and not getattr(job.study, "trains", False):
        costs.insert(0, Cost("training the network", trained=epochs_of(job.subjects[0])))
    passes = sum(cost.forwards + 2 * cost.backwards + 3 * cost.trained for cost in costs)
    return StudyForecast(tuple(costs), _pass_seconds(timed.subjects[0]) * passes)


def _with_classifier(subject: Subject) -> Subject:
    """The network of a recipe after a training on a few texts stands for the trained one."""
    if subject.classifier is not None:
        return subject
    few = Splits(subject.splits.train[:64], subject.splits.dev[:8], [])
    with scratch_folder() as folder:
        short = {**subject.settings, "epochs": 1}
        return replace(subject, classifier=train(subject.recipe, few, folder / "model", short).classifier)


def _pass_seconds(subject: Subject) -> float:
    """CPU seconds of one forward pass in a batch."""
    classifier = subject.classifier
    assert classifier is not None
    texts = [classifier.tokens(e.text, e.pair).cut(classifier.limit) for e in subject.splits.test[:TIMED_TEXTS]]
    seconds = []
    for _ in range(2):  # the second does not pay for warming up
        start = time.process_time()
        with torch.no_grad():
            classifier.predictions(texts)
        seconds.append((time.process_time() - start) / len(texts))
    return min(seconds)
