"""Training: a recipe and a data set -> a folder with a classifier, its log, its curve and its scores on test.

The validation split chooses the epoch; test is looked at once, at the end. In the folder:

model.safetensors, heedful.json   the network (a fine-tuned encoder: config.json and tokenizer.json instead)
training.json                     recipe, settings, data, scores
training.jsonl, training.svg      a line per epoch, and the curve of it (where matplotlib is installed)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from heedful import __version__
from heedful import data as datasets
from heedful.core.errors import BadInput, Unsupported
from heedful.core.files import leftover, sweep, write_errors, write_files
from heedful.data import Splits
from heedful.model.batch import Padding
from heedful.model.classifier import Classifier
from heedful.model.loading import encoder, load
from heedful.model.precision import use_bf16
from heedful.nets.base import ABOUT, WEIGHTS, Saved, save
from heedful.nets.training.job import ClassifierJob, Cutter, Labels, Split, scores
from heedful.nets.training.loop import LOG, STATE, Fitted, Plan, Watch, fit, forget
from heedful.nets.training.recipes import RECIPES, Recipe
from heedful.nets.training.settings import Batches, Given, Texts
from heedful.nets.training.translate import exact_match, job
from heedful.nets.vocabulary import learned, specials

RECORD, CURVE = "training.json", "training.svg"
_MINE = (STATE, LOG, RECORD, WEIGHTS, ABOUT, CURVE)


@dataclass(frozen=True)
class Trained:
    """A finished training: the classifier and its folder, what each epoch gave, scores on dev and (once) on test.

    Of an encoder-decoder, `classifier` is its Translator.
    """

    classifier: Any
    folder: Path
    history: tuple[Mapping[str, float], ...]
    best: int
    dev: Mapping[str, float]
    test: Mapping[str, float] | None

    def __repr__(self) -> str:
        shown = " ".join(f"{name} {value:.3f}" for name, value in (self.test or self.dev).items())
        return f"Trained({str(self.folder)!r}, epoch {self.best}, {'test' if self.test else 'dev'} {shown})"


def train(
    name: str,
    data: Any,
    out: str | Path,
    settings: Mapping[str, Any] | None = None,
    *,
    names: Sequence[str] | None = None,
    restart: bool = False,
    watch: Watch | None = None,
) -> Trained:
    """Train the network of a recipe on a data set: a file, a folder, a Hugging Face data set, or `heedful.data.Splits`.

    The folder `out` gets the model; a run that was killed goes on where it stopped, `restart` begins anew. `names` are
    what the labels shall be called, in their sorted order.
    """
    chosen: Recipe = RECIPES[name]
    if chosen.generates:
        return _generated(chosen, data, checked(out, restart), settings, restart, watch)
    ready: Batches = chosen.settings(settings)
    split = data if isinstance(data, Splits) else datasets.splits(data)
    if not split.train or not split.dev:
        raise BadInput(
            f"the data have {len(split.train)} texts to train on and {len(split.dev)} to choose by; give more."
        )
    folder = checked(out, restart)
    with seeded(ready.seed):
        ours = _network(ready, split, names) if isinstance(ready, Texts) else _fine_tuned(ready, split, names)
        fitted = fit(ours.job, ready, opened(folder, restart), watch)
        last = ours.cutter.split(split.test, "test") if split.test else None
        test = None if last is None else scores(ours.job.model, ours.job.labels, last, ready)
    ours.save(folder)
    told = _told(chosen, ready, fitted, test) | {
        "data": _read(split, [ours.job.train, ours.job.dev, last]),
        "labels": list(ours.names),
    }
    _record(folder, chosen, told, fitted)
    forget(folder)
    return Trained(load(folder), folder, fitted.history, fitted.best, told["dev"], test)


def _generated(
    chosen: Recipe, data: Any, folder: Path, settings: Mapping[str, Any] | None, restart: bool, watch: Watch | None
) -> Trained:
    """An encoder-decoder, on dates that are made up: there is nothing to read."""
    if data != "dates":
        raise BadInput(f"{chosen.name} is trained on generated dates, not on '{data}'; give dates as the data.")
    ready = chosen.settings(settings)
    made = job(ready)
    fitted = fit(made, ready, opened(folder, restart), watch)
    made.translator.save(folder)
    test = {"exact match": exact_match(made.translator, made.data.test)}
    parts = {"train": made.data.train, "dev": made.data.dev, "test": made.data.test}
    told = _told(chosen, ready, fitted, test) | {"data": {name: {"texts": len(part)} for name, part in parts.items()}}
    _record(folder, chosen, told, fitted)
    forget(folder)
    return Trained(made.translator, folder, fitted.history, fitted.best, told["dev"], test)


@dataclass(frozen=True)
class _Ours:
    """A job, and what is needed around it."""

    job: ClassifierJob
    cutter: Cutter
    names: tuple[str, ...]
    tokenizer: Any  # what is saved

    def save(self, folder: Path) -> None:
        """Write the model."""
        if isinstance(self.tokenizer, Mapping):
            save(Saved(self.job.model, self.cutter.tokenizer, self.tokenizer), folder)
        else:
            self.job.model.save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)


def _network(ready: Texts, split: Splits, names: Sequence[str] | None) -> _Ours:
    """One of the papers' networks, with a vocabulary of its own."""
    labels = Labels.of(split.train)
    called = _called(labels, names)
    lent = ready.borrowed()
    tokenizer = (
        learned((t for e in split.train for t in (e.text, e.pair) if t), ready.cut) if lent is None else lent.tokenizer
    )
    special = specials(ready.frame) if lent is None else lent.special
    cutter = Cutter(tokenizer, ready, labels, Padding("right", tokenizer.token_to_id(special["pad_token"]) or 0))
    train = cutter.split(split.train, "training")
    model = ready.made(Given(tokenizer, called, labels.multi, train.texts, train.truth))
    model.config._attn_implementation_internal = "sdpa"  # nobody looks at attention in training
    job = ClassifierJob(model, ready, labels, train, cutter.split(split.dev, "validation"), _identity(split))
    return _Ours(job, cutter, called, special)


def _fine_tuned(ready: Any, split: Splits, names: Sequence[str] | None) -> _Ours:
    """A Hugging Face encoder with a new head."""
    labels = Labels.of(split.train)
    called = _called(labels, names)
    model, tokenizer, limit = encoder(ready.encoder, called, labels.multi)
    fitting = replace(ready, max_length=min(n for n in (ready.max_length, limit, 10**9) if n is not None))
    asked = Classifier(model, tokenizer, ready.encoder)
    if asked.padding is None:
        raise Unsupported(f"'{ready.encoder}' answers differently when padded, so it cannot be trained in batches.")
    typed = "token_type_ids" in tokenizer.model_input_names
    cutter = Cutter(tokenizer.backend_tokenizer, fitting, labels, asked.padding_with(asked.padding), typed)
    train, dev = cutter.split(split.train, "training"), cutter.split(split.dev, "validation")
    return _Ours(ClassifierJob(model, fitting, labels, train, dev, _identity(split)), cutter, called, tokenizer)


def _called(labels: Labels, names: Sequence[str] | None) -> tuple[str, ...]:
    if names is None:
        return labels.names
    if len(names) != len(labels.names) or len(set(names)) != len(names):
        raise BadInput(
            f"{len(names)} names ({', '.join(names)}) were given for {len(labels.names)} labels "
            f"({', '.join(labels.names[:12])}); give one for each, in this order."
        )
    return tuple(names)


def _identity(split: Splits) -> str:
    return " ".join(datasets.fingerprint(part) for part in (split.train, split.dev))


def _told(chosen: Recipe, ready: Plan, fitted: Fitted, test: Mapping[str, float] | None) -> dict[str, Any]:
    """What was done, for whoever reads the folder later."""
    return {
        "recipe": chosen.name,
        "paper": chosen.paper,
        "settings": asdict(ready),
        "precision": "bf16" if ready.bf16 and use_bf16() else "float32",
        "epochs": len(fitted.history),
        "best_epoch": fitted.best,
        "dev": {k: v for k, v in fitted.history[fitted.best - 1].items() if k not in ("epoch", "loss")},
        "test": test,
        "heedful": __version__,
        "torch": torch.__version__,
    }


def _read(split: Splits, used: Sequence[Split | None]) -> dict[str, Any]:
    """How many texts each split has, how many of them fitted, and what they are."""
    parts = {"train": split.train, "dev": split.dev, "test": split.test}
    return {
        name: {
            "texts": len(part),
            "used": 0 if fitting is None else len(fitting.texts),
            "fingerprint": datasets.fingerprint(part),
        }
        for (name, part), fitting in zip(parts.items(), used, strict=True)
    }


def _record(folder: Path, chosen: Recipe, told: Mapping[str, Any], fitted: Fitted) -> None:
    """What was done; and the curve, where matplotlib is installed."""
    text = json.dumps(told, ensure_ascii=False, indent=1) + "\n"
    write_files({folder / RECORD: text.encode()})
    try:
        from heedful.report.figures.sheet import encode
        from heedful.report.figures.training import draw_curve
    except ImportError:
        return
    title = f"{chosen.name}: validation chose epoch {fitted.best} of {len(fitted.history)}"
    drawn = encode(draw_curve(fitted.history, fitted.best, title), "svg")
    write_files({folder / CURVE: drawn})


def checked(out: str | Path, restart: bool) -> Path:
    """The folder to train into: new, or with an unfinished run; a finished one is not written over. Nothing is made."""
    folder = Path(out).expanduser()
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"'{out}' is a file; give a folder for the model.")
    if not restart and (folder / RECORD).exists():
        raise BadInput(f"'{out}' holds a finished training; give another folder, or --restart to train it anew.")
    if not restart and folder.exists() and not (folder / STATE).exists() and _strange(folder):
        raise BadInput(f"'{out}' holds other files; give a new or an empty folder for the model.")
    return folder


def opened(folder: Path, restart: bool) -> Path:
    """The folder, there, and after a restart without what an earlier run left."""
    with write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        for name in _MINE if restart else ():
            (folder / name).unlink(missing_ok=True)
    return folder


def _strange(folder: Path) -> bool:
    return any(p.name not in _MINE and not leftover(p.name) for p in folder.iterdir())


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside, torch's chance starts from the seed; the caller's goes on afterwards as if nothing had been."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
