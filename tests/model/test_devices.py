"""Devices: "auto" is the fastest that is here, and the command line says which one it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from heedful.cli import main
from heedful.cli import options as opt
from heedful.core.errors import BadInput
from heedful.model import loading
from heedful.model.loading import chosen_device, describe_classifier, load

HERE = {"cuda": torch.cuda, "mps": torch.backends.mps}


def pretend(monkeypatch: pytest.MonkeyPatch, *devices: str) -> None:
    for name, module in HERE.items():
        monkeypatch.setattr(module, "is_available", lambda name=name: name in devices)


@pytest.mark.parametrize(
    ("devices", "chosen"), [(("cuda", "mps"), "cuda"), (("cuda",), "cuda"), (("mps",), "mps"), ((), "cpu")]
)
def test_auto_is_cuda_or_mps_or_the_cpu(
    devices: tuple[str, ...], chosen: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(monkeypatch, *devices)
    assert chosen_device("auto") == torch.device(chosen)
    assert chosen_device(None) == torch.device("cpu")
    opt.announce_device("auto")
    said = "" if chosen == "cpu" else f"running on {chosen} (--device cpu runs on the CPU)\n"
    assert capsys.readouterr().err == said
    opt.announce_device(chosen)
    assert capsys.readouterr().err == ""


def test_another_process_chooses_for_itself(tmp_path: Path) -> None:
    assert describe_classifier(load(device="auto"), tmp_path)["device"] == "auto"


def test_a_device_that_cannot_hold_the_weights_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As mps says it of float64."""

    def to(self: Any, *_: Any) -> Any:
        raise TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64.")

    pretend(monkeypatch, "mps")
    monkeypatch.setattr(type(load().model), "to", to)
    with pytest.raises(BadInput, match=r"^device 'mps' cannot be used here \(Cannot convert .*\); try --device cpu\.$"):
        load(device="auto", dtype="float64")


def test_the_command_line_runs_where_auto_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def loaded(*_: Any, device: str, **__: Any) -> None:
        asked.append(device)
        raise BadInput("enough.")

    monkeypatch.setattr(loading, "load", loaded)
    pretend(monkeypatch, "cuda")
    for command in (["explain", "Dull."], ["audit", "corpus", "--dry-run"], ["capabilities"], ["theory", "Dull."]):
        result = CliRunner().invoke(main, command)
        said = "running on cuda (--device cpu runs on the CPU)\nheedful: enough.\n"
        assert (result.exit_code, result.stderr) == (2, said)
    assert CliRunner().invoke(main, ["explain", "Dull.", "--device", "cpu"]).stderr == "heedful: enough.\n"
    assert asked == ["auto"] * 4 + ["cpu"]
