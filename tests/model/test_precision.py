"""bf16 runs only where a child process has survived it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import heedful
from heedful.core.errors import BadInput
from heedful.methods.perturbation import LeaveOneOut
from heedful.model import inference, precision
from heedful.model.inference import Engine, answers
from heedful.model.loading import load
from heedful.model.masking import InputRows
from heedful.model.precision import bf16_fault, use_bf16
from heedful.nets.training.train import train
from tests.model.test_inference import asked, rng
from tests.model.test_loading import save
from tests.nets.training.test_train import SIZES, sentences
from tests.support.models import TEXTS, build, shared

DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
FAULT = "a trial process was killed by SIGILL"
NOTE = f"bf16 cannot be used on this machine ({FAULT}): float32 was used"


def forget() -> None:
    bf16_fault.cache_clear()
    use_bf16.cache_clear()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder of the test's own, and nothing remembered in this process, before and after."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    forget()
    yield tmp_path / "cache" / "heedful"
    forget()


@pytest.fixture
def trapping(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that kills a process at its first bf16 product."""
    monkeypatch.setattr(precision, "TRIAL", DIES)
    monkeypatch.setattr(precision, "has_bf16_units", lambda: True)
    return cache


@pytest.fixture
def sound(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine where the trial ends well, whatever this one does."""
    monkeypatch.setattr(precision, "TRIAL", "pass")
    return cache


# the trial


def test_a_trial_that_ends_well_is_no_fault(sound: Path) -> None:
    assert bf16_fault() is None


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")
def test_a_trial_that_dies_is_the_fault(trapping: Path) -> None:
    assert bf16_fault() == FAULT


@pytest.mark.parametrize(("trial", "fault"), [(DIES, FAULT), ("pass", None)])
def test_the_answer_is_remembered_for_the_next_process(
    cache: Path, monkeypatch: pytest.MonkeyPatch, trial: str, fault: str | None
) -> None:
    monkeypatch.setattr(precision, "TRIAL", trial)
    assert bf16_fault() == fault
    forget()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert bf16_fault() == fault


@pytest.mark.parametrize("found", ["", "{", "[]", "{}", '"x"'])
def test_a_damaged_memory_is_tried_again(sound: Path, found: str) -> None:
    assert bf16_fault() is None
    (file,) = sound.iterdir()
    file.write_text(found)
    forget()
    assert bf16_fault() is None
    assert json.loads(file.read_text()) == {"fault": None}


def test_a_cache_that_cannot_be_written_is_no_error(sound: Path) -> None:
    sound.parent.write_text("a file")
    assert bf16_fault() is None


@pytest.mark.parametrize(
    ("trial", "fault"),
    [
        ("import sys; sys.exit(3)", "a trial process ended with code 3"),
        ("import time; time.sleep(60)", "a trial process did not finish: TimeoutExpired"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "a trial process was killed by SIGKILL"),
    ],
)
def test_what_says_nothing_of_the_processor_is_not_remembered(
    cache: Path, monkeypatch: pytest.MonkeyPatch, trial: str, fault: str
) -> None:
    monkeypatch.setattr(precision, "TRIAL", trial)
    monkeypatch.setattr(precision, "TIMEOUT_SECONDS", 1)
    assert bf16_fault() == fault
    assert not cache.exists()


def test_another_boot_or_torch_is_tried_anew(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = precision._cache_file()
    (tmp_path / "boot_id").write_text("another")
    monkeypatch.setattr(precision, "BOOT_ID", tmp_path / "boot_id")
    second = precision._cache_file()
    monkeypatch.setattr(torch, "__version__", "9.9")
    assert len({first, second, precision._cache_file()}) == 3


def test_the_trial_imports_nothing_from_the_current_folder(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planted.py").write_text("open('executed', 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(precision, "TRIAL", "import planted")
    assert bf16_fault() == "a trial process ended with code 1"
    assert not (tmp_path / "executed").exists()


def test_the_real_trial_runs_to_its_end_or_is_killed(cache: Path) -> None:
    assert bf16_fault() in (None, FAULT)  # on any machine: no exception, no timeout


# where bf16 kills the process


def test_the_engine_answers_in_float32_and_notes_it(trapping: Path) -> None:
    classifier = shared("bert")
    exact, found = answers(classifier, asked(classifier)), answers(classifier, asked(classifier), "bf16", rng())
    assert found.notes == (NOTE,)
    assert found.rough is None
    assert torch.equal(found.logits, exact.logits)


def test_an_explanation_carries_the_note(trapping: Path) -> None:
    why: Any = heedful.explain(shared("bert"), TEXTS[0], LeaveOneOut(precision="bf16"))
    assert NOTE in why.notes
    assert why.scores.tolist() == heedful.explain(shared("bert"), TEXTS[0], LeaveOneOut()).scores.tolist()  # type: ignore[attr-defined]


def test_training_goes_on_in_float32_and_warns_once(trapping: Path, tmp_path: Path, logged: list[str]) -> None:
    split = heedful.data.Splits(sentences(60, 1), sentences(20, 2), [])
    small = SIZES["bilstm"] | {"epochs": 2, "batch": 16}
    found = train("bilstm", split, tmp_path / "bf16", small | {"bf16": True})
    assert logged == [f"bf16 cannot be used on this machine ({FAULT}): float32 is used."]
    assert found.history == train("bilstm", split, tmp_path / "float32", small).history
    assert json.loads((tmp_path / "bf16" / "training.json").read_text())["precision"] == "float32"


@pytest.mark.parametrize("dtype", ["bf16", "auto"])
def test_weights_in_bf16_are_loaded_as_float32(trapping: Path, tmp_path: Path, logged: list[str], dtype: str) -> None:
    original = build("bert")
    folder = save(tmp_path, original.model.bfloat16(), original.tokenizer)
    loaded = load(folder, dtype=dtype)
    assert {p.dtype for p in loaded.model.parameters()} == {torch.float32}
    assert len(logged) == 1


def test_a_model_in_bf16_is_refused(trapping: Path) -> None:
    original = build("bert")
    with pytest.raises(BadInput) as e:
        heedful.Classifier(original.model.bfloat16(), original.tokenizer)
    assert str(e.value) == f"the model is bf16, which this CPU cannot compute ({FAULT}); convert it: model.float()."


# where it does not


@pytest.mark.parametrize(
    ("units", "notes"), [(True, ()), (False, ("this processor has no bf16 units: float32 would be faster",))]
)
def test_bf16_runs_with_and_without_bf16_units(
    sound: Path, monkeypatch: pytest.MonkeyPatch, units: bool, notes: tuple[str, ...]
) -> None:
    ran: list[int] = []

    def run(self: Engine, rows: InputRows) -> bool:
        ran.append(len(rows))
        return False

    monkeypatch.setattr(inference, "has_bf16_units", lambda: units)
    monkeypatch.setattr(Engine, "_answer_roughly", run)
    found = answers(shared("bert"), asked(shared("bert")), "bf16", rng())
    assert (found.notes, ran) == (notes, [found.distinct])


def test_float32_asks_for_no_trial(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "_try_bf16", lambda: pytest.fail("tried"))
    assert answers(shared("bert"), asked(shared("bert"))).notes == ()
