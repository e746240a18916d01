"""Job: the model, texts, methods, checks and settings of one run; the profiles; and the progress of a run.

A job can be described as JSON, from which another process restores it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from heedful import data
from heedful.audits.looks import refuse_undecidable
from heedful.audits.manifest import Manifest
from heedful.audits.run import CHUNK_TEXTS, GROUP_TEXTS, order
from heedful.checks import CHECKS, Check, check
from heedful.core.catalogue import Catalogue
from heedful.core.errors import BadInput, nearest
from heedful.core.files import json_value
from heedful.core.finding import CONTROLS
from heedful.core.settings import read_assignments
from heedful.core.settings import values as settings_of
from heedful.core.target import Target
from heedful.data import EVERYTHING, Example, Selection
from heedful.data.columns import GUESSED, Columns
from heedful.methods import METHODS, Method, method
from heedful.methods.explain import versions
from heedful.methods.imported.placement import GivenScores
from heedful.methods.imported.reading import ImportedMethod, explained_examples, read_files
from heedful.model import loading
from heedful.model.classifier import Classifier
from heedful.model.prompted import Prompted

WatchAudit = Callable[["AuditProgress"], None]
Until = Literal["decided"]


@dataclass(frozen=True)
class AuditProgress:
    """The progress of a run: `texts` of `total` are finished, and `partial` texts' worth of the current chunk.

    `note` is a sentence for the user.
    """

    texts: int
    total: int
    doing: str = ""
    partial: float = 0.0
    note: str = ""

    @property
    def share(self) -> float:
        """The share of the work that is done."""
        return min(1.0, (self.texts + self.partial) / max(1, self.total))


# profiles


@dataclass(frozen=True)
class Profile:
    """The number of texts of a run, its methods and checks, and what is explained.

    The settings of a method or a check in a profile are its class attribute of that name: `verdict`, `standard`,
    `full`, `jain2019`; without one, those of the profile that this one is `like`.
    """

    limit: int | None
    methods: tuple[str, ...]
    checks: tuple[str, ...] = tuple(CHECKS)
    target: Target = field(default_factory=Target)
    like: str = ""


def _with_settings(catalogue: Catalogue, profile: str) -> tuple[str, ...]:
    """The methods or checks that have settings for a profile."""
    return tuple(name for name, cls in catalogue.items() if getattr(cls, profile, None) is not None)


def _protocol(paper: str, target: Target) -> Profile:
    """All texts, with the methods and checks of a paper that have settings for it."""
    return Profile(None, _with_settings(METHODS, paper), _with_settings(CHECKS, paper), target)


PROFILES = {
    # what the verdict, the ranking and the controls need, and nothing else
    "verdict": Profile(60, _with_settings(METHODS, "standard"), _with_settings(CHECKS, "verdict"), like="standard"),
    "standard": Profile(60, _with_settings(METHODS, "standard")),
    "full": Profile(
        None,
        tuple(name for name, cls in METHODS.items() if name not in CONTROLS and getattr(cls, "scores_tokens", True)),
    ),
    "jain2019": _protocol("jain2019", Target(scale="probability")),
}
DEFAULT_PROFILE = next(iter(PROFILES))


# methods and checks


@dataclass(frozen=True)
class Battery:
    """The methods and checks of a run, by name, and the target. The controls are always among the methods."""

    methods: Mapping[str, Method]
    checks: Mapping[str, Check]
    target: Target = field(default_factory=Target)

    def to_dict(self) -> dict[str, Any]:
        """Every setting, for the manifest."""
        return {
            "methods": {name: settings_of(item) for name, item in self.methods.items()},
            "checks": {name: settings_of(item) for name, item in self.checks.items()},
            "target": asdict(self.target),
        }


def battery(
    profile: str = DEFAULT_PROFILE,
    methods: Iterable[str | Method] | None = None,
    checks: Iterable[str | Check] | None = None,
    target: Target | None = None,
    settings: Sequence[str] = (),
    imported: Iterable[Method] = (),
) -> Battery:
    """The battery of a profile, or these methods and checks with the profile's settings.

    `settings` are texts such as "lime.samples=500". A method or check given as an object keeps its own settings.
    Methods that a check requires, the controls and the `imported` methods are added. The order is always that of the
    catalogues.
    """
    if profile not in PROFILES:
        hint = nearest(profile, list(PROFILES)) or "."
        raise BadInput(f"profile '{profile}' is not one of {', '.join(PROFILES)}{hint}")
    defaults = PROFILES[profile]
    run_checks = _make(CHECKS, defaults.checks if checks is None else checks, profile)
    wanted = [*(defaults.methods if methods is None else methods), *imported]
    if not wanted or not run_checks:
        kind = "check" if wanted else "method"
        raise BadInput(f"no {kind} was given; `heedful {kind}s` lists them all.")
    required = [name for item in run_checks.values() for name in getattr(item, "requires", ())]
    run_methods = _make(METHODS, [*wanted, *required, *CONTROLS], profile)
    scoreless = [name for name, item in run_methods.items() if not getattr(item, "scores_tokens", True)]
    if scoreless:
        raise BadInput(f"{scoreless[0]} gives no score per token, which an audit needs; leave it out.")
    owners = [(name, type(item)) for name, item in (*run_methods.items(), *run_checks.items())]
    # subtle: "erasure" is a check, and elsewhere an alias of leave-one-out
    values = read_assignments(
        settings, owners, lambda name: CHECKS.full_name(name) if name in CHECKS else METHODS.full_name(name)
    )
    return Battery(
        _assign(run_methods, values[: len(run_methods)], METHODS),
        _assign(run_checks, values[len(run_methods) :], CHECKS),
        target or defaults.target,
    )


def _make(catalogue: Catalogue, wanted: Iterable[Any], profile: str) -> dict[str, Any]:
    """Each method or check once, by name; one that is given as a name has the profile's settings."""
    items: dict[str, Any] = {}
    for name in wanted:
        item = catalogue.make(name, _settings(catalogue[name], profile) if isinstance(name, str) else None)
        items.setdefault(catalogue.name_of(item), item)
    return items


def _settings(cls: type, profile: str) -> Mapping[str, Any] | None:
    """A class's settings in a profile, or in the one that it is like; None for the defaults."""
    own: Mapping[str, Any] | None = getattr(cls, profile, None)
    like = PROFILES[profile].like
    return _settings(cls, like) if own is None and like else own


def _assign(items: Mapping[str, Any], values: Iterable[Mapping[str, Any]], catalogue: Iterable[str]) -> dict[str, Any]:
    """With these settings, in the order of the catalogue."""
    settings = dict(zip(items, values, strict=True))
    ordered = arranged(items, catalogue)
    return {name: replace(item, **settings[name]) if settings[name] else item for name, item in ordered.items()}


def arranged(items: Mapping[str, Any], catalogue: Iterable[str]) -> dict[str, Any]:
    """Methods or checks in the order of the catalogue, in which the controls are last; then the others by name."""
    names = list(catalogue)
    ordered = sorted(items, key=lambda name: (names.index(name) if name in names else len(names), name))
    return {name: items[name] for name in ordered}


# jobs


@dataclass(frozen=True)
class Job:
    """The model, the texts, the methods and checks, and the seed of an audit.

    `others` are checkpoints of the same training, by name; `name` is that of the data; `limit` is the number of texts;
    `unexplained` counts the texts of the data that no file of explanations explains; `selection` says which texts of
    the data these are, and `dropped` counts the others, by reason; `until` says whether the verdict ends the run;
    `extension` says how the job extends a run.
    """

    classifier: Classifier
    examples: Sequence[Example]
    battery: Battery
    seed: int = 0
    others: Mapping[str, Classifier] = field(default_factory=dict)
    name: str = "the data"
    limit: int | None = None
    unexplained: int = 0
    selection: Selection = EVERYTHING
    dropped: Mapping[str, int] = field(default_factory=dict)
    until: Until | None = None
    extension: str = ""

    def __post_init__(self) -> None:
        if not self.examples:
            raise BadInput("the data has no texts to audit; give at least one.")
        if self.limit is not None and self.limit < 1:
            raise BadInput(f"limit is {self.limit}; give at least 1.")
        if self.classifier.head == "regression":
            return
        for example in self.examples:  # before anything slow
            if isinstance(example.label, str):
                data.gold_index(example.label, self.classifier.labels, example.where or "a text")

    @property
    def total(self) -> int:
        """How many texts are audited."""
        return len(self.examples) if self.limit is None else min(self.limit, len(self.examples))

    def refuse_undecidable(self) -> None:
        """Refuse `until` where the run cannot have a verdict."""
        if self.until is not None:
            refuse_undecidable(self.until, self.classifier, self.battery.methods, self.battery.checks)

    @property
    def note(self) -> str:
        """What is not audited: texts that were dropped, and those without explanations in files; and the extension."""
        every = len(self.examples) + self.unexplained
        note = f"{len(self.examples):,} of {every:,} texts are in the files of explanations; only these are audited."
        return " ".join(filter(None, (data.drop_note(self.dropped), note if self.unexplained else "", self.extension)))

    @cached_property
    def order(self) -> list[int]:
        """Indices of all examples, in the order in which they are audited."""
        return order(self.examples, self.seed)

    def manifest(self) -> Manifest:
        """All that the summary depends on."""
        c = self.classifier
        settings = self.battery.to_dict() | {"chunk": CHUNK_TEXTS, "group": GROUP_TEXTS}
        if self.others:
            settings["checkpoints"] = {name: other.fingerprint for name, other in self.others.items()}
        paths = {name: getattr(item, "synonyms", None) for name, item in self.battery.checks.items()}
        files = {  # a file may change while its name stays
            f"{name}.synonyms": blake2b(Path(path).read_bytes(), digest_size=16).hexdigest()
            for name, path in paths.items()
            if path is not None and Path(path).is_file()
        }
        return Manifest(
            model={"name": c.name, "fingerprint": c.fingerprint, "labels": list(c.labels)}
            | ({"prompt": c.prompt.to_dict()} if isinstance(c, Prompted) else {}),
            data={"name": self.name, "fingerprint": data.fingerprint(self.examples), "texts": len(self.examples)}
            | data.selection_record(self.selection, self.dropped),
            settings=json_value(settings | ({"files": files} if files else {})),
            seed=self.seed,
            versions=versions() | {name: version(name) for name in ("numpy", "scipy", "pyarrow")},
        )


@dataclass(frozen=True)
class AuditRequest:
    """The arguments of `heedful.audit` that a job depends on."""

    model: Any
    data: Any
    methods: Iterable[str | Method] | None = None
    checks: Iterable[str | Check] | None = None
    profile: str = DEFAULT_PROFILE
    limit: int | None = None
    until: Until | None = None
    seed: int = 0
    target: Target | None = None
    settings: Sequence[str] = ()
    explanations: Iterable[str | Path] = ()
    checkpoints: Mapping[str, Any] | Iterable[str | Path] = ()
    columns: Columns = GUESSED
    kind: str | None = None
    select: Selection = EVERYTHING
    model_options: Mapping[str, Any] | None = None


def prepare(request: AuditRequest) -> Job:
    """The job of `audit` with these arguments. The model is loaded last, after all that is cheap to refuse."""
    imported = read_files(request.explanations).values()
    run = battery(request.profile, request.methods, request.checks, request.target, request.settings, imported)
    select = request.select
    every, dropped = data.load_counted(request.data, request.columns, kind=request.kind, select=select)
    examples = explained_examples(run.methods, every)
    classifier = loading.load(request.model, **(request.model_options or {}))
    others = request.checkpoints
    named = others.items() if isinstance(others, Mapping) else [(Path(other).name, Path(other)) for other in others]
    models: dict[str, Any] = dict(named)
    if len(models) < len(named):
        raise BadInput("two checkpoints have the same folder name; rename one of them.")
    checkpoints = {name: loading.load(model) for name, model in models.items()}
    if request.methods is None:  # `heedful capabilities` says what does not apply, so a run need not
        applicable = {n: m for n, m in run.methods.items() if getattr(m, "applies", lambda _: True)(classifier)}
        run = replace(run, methods=applicable)
    name = Path(request.data).name if isinstance(request.data, (str, Path)) else "the data"
    limit = PROFILES[request.profile].limit if request.limit is None and request.until is None else request.limit
    unexplained, until = len(every) - len(examples), request.until
    return Job(classifier, examples, run, request.seed, checkpoints, name, limit, unexplained, select, dropped, until)


# jobs as JSON, for other processes


def describe_job(job: Job, folder: Path) -> dict[str, Any]:
    """The job as JSON. A model that was not loaded from files, or was changed since, is saved in `folder`."""
    return {
        "classifier": loading.describe_classifier(job.classifier, folder / "model"),
        "others": {
            name: loading.describe_classifier(other, folder / f"checkpoint{i}")
            for i, (name, other) in enumerate(job.others.items())
        },
        "examples": [example.to_json() for example in job.examples],
        "methods": {name: _describe_item(name, item, METHODS) for name, item in job.battery.methods.items()},
        "checks": {name: _describe_item(name, item, CHECKS) for name, item in job.battery.checks.items()},
        "target": asdict(job.battery.target),
        "seed": job.seed,
        "name": job.name,
        "limit": job.limit,
    }


def _describe_item(name: str, item: Any, catalogue: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(item, ImportedMethod):
        lines = [asdict(line) for group in vars(item)["lines"].values() for line in group]
        return {"imported": {"name": item.name, "file": item.file, "fingerprint": item.fingerprint, "lines": lines}}
    settings = settings_of(item)
    try:
        json.dumps(settings)
    except (TypeError, ValueError) as e:
        raise BadInput(f"a setting of {name} cannot be sent to another process ({e}); use jobs=1.") from e
    if name not in catalogue or catalogue[name] is not type(item):
        raise BadInput(f"{name} is not in the catalogue, so another process cannot create it; use jobs=1.")
    return settings


def restore_job(described: Mapping[str, Any]) -> Job:
    """The job that `describe_job` described."""
    return Job(
        loading.restore_classifier(described["classifier"]),
        [Example.from_json(example) for example in described["examples"]],
        Battery(
            {
                name: _imported(settings["imported"]) if "imported" in settings else method(name, settings)
                for name, settings in described["methods"].items()
            },
            {name: check(name, settings) for name, settings in described["checks"].items()},
            Target(**described["target"]),
        ),
        described["seed"],
        {name: loading.restore_classifier(other) for name, other in described["others"].items()},
        described["name"],
        described["limit"],
    )


def _imported(described: Mapping[str, Any]) -> ImportedMethod:
    lines: dict[tuple[str, str | None], list[GivenScores]] = {}
    for fields in described["lines"]:
        line = GivenScores(**{key: _tuples(value) for key, value in fields.items()})
        lines.setdefault((line.text, line.pair), []).append(line)
    return ImportedMethod(described["name"], described["file"], described["fingerprint"], lines)


def _tuples(value: Any) -> Any:
    """JSON's lists as the tuples that they were."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
