"""Training: a recipe and a data set -> a folder with a classifier, its log, its curve and its scores on test.

The validation split selects the epoch; the test split is used once, at the end. In the folder:

model.safetensors, heedful.json   the network (a fine-tuned encoder: config.json and tokenizer.json instead)
training.json                     recipe, settings, data, scores
training.jsonl, training.svg      a line per epoch, and their curve (if matplotlib is installed)
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from heedful import __version__
from heedful import data as datasets
from heedful.core.errors import BadInput, Unsupported
from heedful.core.files import leftover, sweep, write_errors, write_files, write_folder
from heedful.core.random import torch_seed
from heedful.data import Splits
from heedful.model.batch import Padding
from heedful.model.classifier import Classifier
from heedful.model.loading import check_trainable, encoder, load, silence_transformers
from heedful.model.precision import use_bf16
from heedful.nets.base import ABOUT, WEIGHTS, Saved, save
from heedful.nets.training.job import ClassifierJob, Cutter, Labels, Split, split_scores
from heedful.nets.training.loop import LOG, STATE, Fitted, TrainingPlan, WatchTraining, delete_state, fit
from heedful.nets.training.recipes import RECIPES, Recipe
from heedful.nets.training.settings import Batches, Given, TextSettings
from heedful.nets.training.translate import exact_match
from heedful.nets.training.translation_job import DATES, FOR_DATES, FOR_PAIRS, job
from heedful.nets.vocabulary import learned, specials

RECORD, CURVE = "training.json", "training.svg"
_OWN_FILES = (STATE, LOG, RECORD, WEIGHTS, ABOUT, CURVE)


@dataclass(frozen=True)
class Trained:
    """A finished training: the classifier and its folder, a record of each epoch, scores on dev and on test.

    For an encoder-decoder, `classifier` is its Translator.
    """

    classifier: Any
    folder: Path
    history: tuple[Mapping[str, float], ...]
    best: int
    dev: Mapping[str, float]
    test: Mapping[str, float] | None

    def __repr__(self) -> str:
        scores = " ".join(f"{name} {value:.3f}" for name, value in (self.test or self.dev).items())
        return f"Trained({str(self.folder)!r}, epoch {self.best}, {'test' if self.test else 'dev'} {scores})"


def train(
    name: str,
    data: Any,
    out: str | Path,
    settings: Mapping[str, Any] | None = None,
    *,
    names: Sequence[str] | None = None,
    restart: bool = False,
    watch: WatchTraining | None = None,
) -> Trained:
    """Train the network of a recipe on a data set: a file, a folder, a Hugging Face data set, or `heedful.data.Splits`.

    The model is saved in the folder `out`. A run that was killed is resumed; `restart` starts it again. `names` are
    new names of the labels, in their sorted order. An encoder-decoder is trained on "dates", which are generated, or on
    pairs: what `heedful.data.pair_splits` takes or gives.
    """
    chosen: Recipe = RECIPES[name]
    if chosen.translates:
        return _translator(chosen, data, check_folder(out, restart), settings, restart, watch)
    ready: Batches = chosen.settings(settings)
    split = data if isinstance(data, Splits) else datasets.splits(data)
    if not split.train or not split.dev:
        raise BadInput(f"the data have {len(split.train)} training and {len(split.dev)} validation texts; give more.")
    folder = check_folder(out, restart)
    with torch_seed(ready.seed):
        labels = Labels.of(split.train)
        prepare = network_setup if isinstance(ready, TextSettings) else fine_tuned_setup
        setup = prepare(ready, split, labels, _label_names(labels, names))
        fitted = fit(setup.job, ready, prepare_folder(folder, restart), watch)
        last = setup.cutter.split(split.test, "test") if split.test else None
        test = None if last is None else split_scores(setup.job.model, setup.job.labels, last, ready)
    setup.save(folder)
    used = {"train": setup.job.train, "dev": setup.job.dev, "test": last}
    more = {"data": data_summary(split, used), "labels": list(setup.names)}
    dev = finish({"recipe": chosen.name, "paper": chosen.paper}, ready, folder, fitted, test, more)
    return Trained(load(folder), folder, fitted.history, fitted.best, dev, test)


def _translator(
    chosen: Recipe,
    data: Any,
    folder: Path,
    settings: Mapping[str, Any] | None,
    restart: bool,
    watch: WatchTraining | None,
) -> Trained:
    """An encoder-decoder, trained on generated dates or on pairs."""
    generated = isinstance(data, str) and data == DATES
    for name in FOR_PAIRS if generated else FOR_DATES:
        if name in (settings or {}):
            wanted = "pairs of your own, and the data are generated" if generated else "generated dates"
            raise BadInput(f"{name} is a setting for {wanted}; leave it out.")
    ready = chosen.settings(settings)
    split = None if generated else data if isinstance(data, Splits) else datasets.pair_splits(data)
    task = job(ready, split)
    fitted = fit(task, ready, prepare_folder(folder, restart), watch)
    task.translator.save(folder)
    test = {"exact match": exact_match(task.translator, task.data.test)} if task.data.test else None
    about = {"recipe": chosen.name, "paper": chosen.paper}
    more = {"data": task.record(split) | ({} if split is None else split.record())}
    dev = finish(about, ready, folder, fitted, test, more)
    return Trained(task.translator, folder, fitted.history, fitted.best, dev, test)


def data_summary(split: Splits, used: Mapping[str, Split | None]) -> dict[str, Any]:
    """For the record: how many texts each part has, how many of them were used, and which they are; the selection."""
    parts = {
        name: {
            "texts": len(getattr(split, name)),
            "used": 0 if part is None else len(part.texts),
            "fingerprint": datasets.fingerprint(getattr(split, name)),
        }
        for name, part in used.items()
    }
    return parts | split.record()


@dataclass(frozen=True)
class Setup:
    """A job, with what cuts its texts and what is saved."""

    job: ClassifierJob
    cutter: Cutter
    names: tuple[str, ...]
    tokenizer: Any  # of Hugging Face; the special tokens of a network

    def save(self, folder: Path) -> None:
        """Write the model."""
        if isinstance(self.tokenizer, Mapping):
            save(Saved(self.job.model, self.cutter.tokenizer, self.tokenizer), folder)
        else:
            items = self.job.model, self.tokenizer
            with silence_transformers():
                write_folder(folder, lambda made: [item.save_pretrained(made) for item in items])


def network_setup(
    ready: Any, split: Splits, labels: Labels, names: tuple[str, ...], vocabulary: Saved | None = None
) -> Setup:
    """One of the papers' networks, with a vocabulary of its own, or that of its guide or of another network."""
    known = vocabulary or ready.guide_network()
    texts = (t for e in split.train for t in (e.text, e.pair) if t)
    tokenizer = learned(texts, ready.cut) if known is None else known.tokenizer
    special = specials(ready.frame) if known is None else known.special
    cutter = Cutter(tokenizer, ready, labels, Padding("right", tokenizer.token_to_id(special["pad_token"]) or 0))
    train = cutter.split(split.train, "training")
    model = ready.build(Given(tokenizer, names, labels.multi, train.texts, train.truth))
    model.config._attn_implementation_internal = "sdpa"  # training does not read attention
    job = ClassifierJob(model, ready, labels, train, cutter.split(split.dev, "validation"), _identity(split))
    return Setup(job, cutter, names, special)


def fine_tuned_setup(
    ready: Any, split: Splits, labels: Labels, names: tuple[str, ...], start: Classifier | None = None
) -> Setup:
    """A Hugging Face encoder with a new head; or a copy of a classifier, `start`."""
    if start is None:
        model, tokenizer, limit = encoder(ready.encoder, names, labels.multi)
    else:
        model, tokenizer, limit = copy.deepcopy(start.model).cpu().float(), start.tokenizer, start.limit
        model.requires_grad_(True)
        check_trainable(model, tokenizer, start.name)
    fitting = replace(ready, max_length=min(n for n in (ready.max_length, limit, 10**9) if n is not None))
    classifier = Classifier(model, tokenizer, ready.encoder or None)
    if classifier.padding is None:
        raise Unsupported(f"'{classifier.name}' has other logits when padded, so it cannot be trained in batches.")
    typed = "token_type_ids" in tokenizer.model_input_names
    cutter = Cutter(tokenizer.backend_tokenizer, fitting, labels, classifier.padding_with(classifier.padding), typed)
    train, dev = cutter.split(split.train, "training"), cutter.split(split.dev, "validation")
    return Setup(ClassifierJob(model, fitting, labels, train, dev, _identity(split)), cutter, names, tokenizer)


def _label_names(labels: Labels, names: Sequence[str] | None) -> tuple[str, ...]:
    if names is None:
        return labels.names
    if len(names) != len(labels.names) or len(set(names)) != len(names):
        listed = f"{len(labels.names)} labels ({', '.join(labels.names[:12])})"
        raise BadInput(f"{len(names)} names ({', '.join(names)}) for {listed}; give one for each, in this order.")
    return tuple(names)


def _identity(split: Splits) -> str:
    return " ".join(datasets.fingerprint(part) for part in (split.train, split.dev))


def finish(
    about: Mapping[str, str],
    ready: TrainingPlan,
    folder: Path,
    fitted: Fitted,
    test: Mapping[str, float] | None,
    more: Mapping[str, Any],
) -> dict[str, float]:
    """Write training.json and, if matplotlib is installed, the curve; delete the state; return the scores on dev.

    `about` has the recipe and its paper.
    """
    dev = {k: v for k, v in fitted.history[fitted.best - 1].items() if k not in ("epoch", "loss")}
    record = (
        dict(about)
        | {
            "settings": asdict(ready),
            "precision": "bf16" if ready.bf16 and use_bf16() else "float32",
            "epochs": len(fitted.history),
            "best_epoch": fitted.best,
            "dev": dev,
            "test": test,
            "heedful": __version__,
            "torch": torch.__version__,
        }
        | dict(more)
    )
    if find_spec("matplotlib") is not None:
        from heedful.report.figures.sheet import encode
        from heedful.report.figures.training import draw_curve

        title = f"{about['recipe']}: validation chose epoch {fitted.best} of {len(fitted.history)}"
        write_files({folder / CURVE: encode(draw_curve(fitted.history, fitted.best, title), "svg")})
    # last: a folder with a record is a finished training
    write_files({folder / RECORD: (json.dumps(record, ensure_ascii=False, indent=1) + "\n").encode()})
    delete_state(folder)
    return dev


def finished_record(folder: Path) -> dict[str, Any] | None:
    """The content of training.json of a finished training, whose state is deleted if it was killed before that."""
    try:
        record: dict[str, Any] = json.loads((folder / RECORD).read_bytes())
    except FileNotFoundError:
        return None
    delete_state(folder)
    return record


def check_folder(out: str | Path, restart: bool) -> Path:
    """The output folder: new, or with an unfinished run; a finished one is refused. Nothing is written."""
    folder = Path(out).expanduser()
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"'{out}' is a file; give a folder for the model.")
    if not restart and (folder / RECORD).exists():
        raise BadInput(f"'{out}' holds a finished training; give another folder, or --restart to train it again.")
    names = [path.name for path in folder.iterdir()] if folder.exists() else []
    foreign = any(name not in _OWN_FILES and not leftover(name) for name in names)
    if not restart and STATE not in names and foreign:
        raise BadInput(f"'{out}' holds other files; give a new or an empty folder for the model.")
    return folder


def prepare_folder(folder: Path, restart: bool) -> Path:
    """Create the folder; after a restart, delete the files of an earlier run."""
    with write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        for name in _OWN_FILES if restart else ():
            (folder / name).unlink(missing_ok=True)
    return folder
