"""The folder of a study. A killed study loses at most a step, and the same command finishes it with the same bytes.

DIR/study.json                 study, models, data, settings, seed, versions
DIR/steps/NAME.json            the result of a step; written as a whole, so that a step is finished or absent
DIR/steps/NAME.seconds         its CPU seconds
DIR/models/NAME                a trained model, as `heedful train` writes it
DIR/adversaries/NAME.safetensors   a trained adversary of a model
DIR/parts/NAME                 an audit or a study inside a reproduction
DIR/trainings/KEY.json         where the studies of a reproduction find a training that they share
DIR/outcome.json, report.html  the result, and the report

Several processes may write into one folder. Needs no torch.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from heedful.audits.manifest import Manifest, encode_manifest, read_manifest, refuse_changes, refuse_files
from heedful.core.errors import BadInput
from heedful.core.files import compact, json_value, leftover, pretty, probe, sweep, write_errors, write_files
from heedful.core.objects import in_store, place_of

STUDY, OUTCOME, REPORT, STEPS, MODELS = "study.json", "outcome.json", "report.html", "steps", "models"
ADVERSARIES, PARTS, TRAININGS = "adversaries", "parts", "trainings"
PRUNED = "pruned"  # the model without the least important heads
STUDY_FORMAT = "heedful study 1"


@dataclass(frozen=True)
class StudyFolder:
    """A study's folder and its manifest; made by `open_study` (to write) or `read_study`."""

    folder: Path
    manifest: Manifest

    def has(self, step: str) -> bool:
        """Whether a step is finished."""
        return self._file(step).exists()

    def read(self, step: str) -> Any:
        """The result of a finished step."""
        file = self._file(step)
        try:
            return json.loads(file.read_bytes())["value"]
        except (OSError, ValueError, KeyError, TypeError) as e:
            raise BadInput(f"'{file}' is damaged ({e}); delete it and run the same command again.") from e

    def write(self, step: str, value: Any, seconds: float) -> None:
        """Store the result of a step, a JSON value."""
        file = self._file(step)
        content = {"step": step, "value": value}
        write_files(
            {file.with_suffix(".seconds"): f"{seconds:.3f}\n".encode(), file: compact(content).encode() + b"\n"}
        )

    def model(self, name: str) -> Path:
        """The folder of a trained model."""
        return self.folder / MODELS / file_name(name)

    def seconds(self) -> float:
        """The CPU seconds of all finished steps, those of studies inside a reproduction too."""
        folders = [self.folder / STEPS, *sorted((self.folder / PARTS).glob(f"*/{STEPS}"))]
        return sum(float(file.read_text()) for folder in folders for file in sorted(folder.glob("*.seconds")))

    def finish(self, outcome: Any) -> None:
        """Store the outcome, and remove what killed processes were writing."""
        for inside in (self.folder, self.folder / STEPS):
            with write_errors(inside):
                sweep(inside)
        write_files({self.folder / OUTCOME: pretty(outcome)})

    def _file(self, step: str) -> Path:
        return self.folder / STEPS / f"{file_name(step)}.json"


@dataclass(frozen=True)
class Trainings:
    """The finished trainings of a reproduction's studies, each under a hash of all that it depends on."""

    root: Path  # of the reproduction

    def add(self, identity: Mapping[str, Any], model: Path) -> None:
        """Remember where a training is."""
        file = self._file(identity)
        with write_errors(file):
            file.parent.mkdir(exist_ok=True)
        write_files({file: compact(model.relative_to(self.root).as_posix()).encode()})

    def copy(self, identity: Mapping[str, Any], folder: Path, last: str) -> bool:
        """Copy a training into a folder, the file of this name last; False where there is none."""
        try:
            source = self.root / json.loads(self._file(identity).read_bytes())
        except FileNotFoundError:
            return False
        files = sorted((file for file in source.iterdir() if file.is_file()), key=lambda file: file.name == last)
        with write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        write_files({folder / file.name: partial(shutil.copyfile, file) for file in files})
        return True

    def _file(self, identity: Mapping[str, Any]) -> Path:
        key = blake2b(compact(json_value(identity)).encode(), digest_size=16).hexdigest()
        return self.root / TRAININGS / f"{key}.json"


def file_name(name: str) -> str:
    """The name of a step or a model in file names: "λ = 0.1, seed 3" -> "λ-0.1-seed-3"."""
    return "-".join(re.findall(r"[\w.]+", name))


def open_study(folder: str | Path, manifest: Manifest, restart: bool = False) -> StudyFolder:
    """The study in a folder, resumed or new; a study with another manifest is refused. `restart` deletes it first."""
    place = place_of(folder)
    if in_store(place):
        raise BadInput(
            f"'{folder}' is in an object store, and a study trains models in a folder; give one (--out DIR)."
        )
    with write_errors(place):
        present = _present(place)
    if present is not None and not restart:
        refuse_changes(folder, present, manifest, "study")
    with write_errors(place):
        (place / STEPS).mkdir(parents=True, exist_ok=True)
        for inside in (place, place / STEPS):
            probe(inside)
            sweep(inside)
        if restart and present is not None:
            # subtle: the manifest stays until it is replaced, so that the folder is always recognised as a study's
            for name in (OUTCOME, REPORT):
                (place / name).unlink(missing_ok=True)
            for file in (place / STEPS).iterdir():
                file.unlink()
            for inside in (place / name for name in (MODELS, ADVERSARIES, PARTS, TRAININGS)):
                if inside.is_dir():
                    shutil.rmtree(inside)
    if present is None or restart:
        write_files({place / STUDY: encode_manifest(manifest, STUDY_FORMAT)})
        present = manifest
    return StudyFolder(place, present)


def read_study(folder: str | Path) -> StudyFolder:
    """The study in a folder, to read it."""
    place = Path(folder).expanduser()
    if not is_study(place):
        raise BadInput(f"'{folder}' holds no study (no {STUDY}); give the folder that `heedful study` wrote.")
    return StudyFolder(place, read_manifest(place / STUDY, STUDY_FORMAT))


def is_study(folder: str | Path) -> bool:
    """Whether a folder holds a study, which is never in a store."""
    place = place_of(folder)
    return not in_store(place) and (place / STUDY).is_file()


def _present(place: Path) -> Manifest | None:
    """The manifest in a folder; None where the folder is empty or absent."""
    if place.exists() and not place.is_dir():
        raise BadInput(f"'{place}' is a file; give a folder for the study (--out).")
    if is_study(place):
        return read_manifest(place / STUDY, STUDY_FORMAT)
    names = [file.name for file in place.iterdir()] if place.exists() else []
    steps = list((place / STEPS).iterdir()) if (place / STEPS).is_dir() else []
    others = [name for name in names if not leftover(name) and (name != STEPS or steps)]
    refuse_files(place, others, "study")
    return None
