"""Devices: "auto" is the fastest that is here, and the command line says which one it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn
from transformers import BertForSequenceClassification

from heedful.audits.capabilities import capabilities
from heedful.cli import main
from heedful.cli import options as opt
from heedful.core.errors import BadInput
from heedful.model import loading
from heedful.model.loading import chosen_device, describe_classifier, load
from tests.support.models import build, shared

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
    assert capsys.readouterr().err == ("" if chosen == "cpu" else f"device: {chosen} (--device cpu runs on the CPU)\n")
    opt.announce_device("auto", works=True)
    assert capsys.readouterr().err == ("device: cpu\n" if chosen == "cpu" else "")
    opt.announce_device(chosen)
    assert capsys.readouterr().err == ""


def test_another_process_chooses_for_itself(tmp_path: Path) -> None:
    original = shared("bert")
    original.model.save_pretrained(tmp_path)
    original.tokenizer.save_pretrained(tmp_path)
    assert describe_classifier(load(tmp_path, device="auto"), tmp_path / "copy")["device"] == "auto"


def test_a_device_that_cannot_hold_the_weights_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As mps says it of float64."""

    def to(self: Any, *_: Any) -> Any:
        raise TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64.")

    pretend(monkeypatch, "mps")
    monkeypatch.setattr(BertForSequenceClassification, "to", to)
    with pytest.raises(BadInput, match=r"^device 'mps' cannot be used here \(Cannot convert .*\); try --device cpu\.$"):
        load(device="auto", dtype="float64")


class _OnDevice(torch.Tensor):
    """A tensor on a device without float64, like mps; all that is computed from it is there too, until `.cpu()`."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        elsewhere = func is torch.Tensor.to and isinstance(args[1], torch.Tensor) and not isinstance(args[1], cls)
        if func is torch.Tensor.cpu or elsewhere:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {})).as_subclass(torch.Tensor)
        out = super().__torch_function__(func, types, args, kwargs)  # type: ignore[no-untyped-call]
        if isinstance(out, torch.Tensor) and out.dtype is torch.float64 and func.__name__ != "__get__":
            raise TypeError(f"{func.__name__} gives float64, which the device does not have")
        return out


@pytest.mark.thorough
@pytest.mark.parametrize("family", ["bert", "bart", "multihead"])
def test_no_method_and_no_check_needs_float64_on_the_device(family: str) -> None:
    classifier, expected = build(family), capabilities(shared(family))
    for module in classifier.model.modules():
        for name, p in list(module._parameters.items()):
            if p is not None:
                module._parameters[name] = nn.Parameter(p.data.as_subclass(_OnDevice))
    if hasattr(classifier.model, "tie_weights"):
        classifier.model.tie_weights()
    found = capabilities(classifier)
    assert [(a.name, a.works) for a in found.methods] == [(a.name, a.works) for a in expected.methods]
    works = {a.name for a in expected.checks if a.works} - {"randomisation"}  # such a tensor cannot be copied
    assert {a.name for a in found.checks if a.works} == works


def test_the_command_line_runs_where_auto_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def loaded(*_: Any, device: str, **__: Any) -> None:
        asked.append(device)
        raise BadInput("enough.")

    import heedful.methods.cost  # noqa: F401  # first imported below, it would keep the pretended `load`

    monkeypatch.setattr(loading, "load", loaded)
    pretend(monkeypatch, "cuda")
    for command in (["explain", "Dull."], ["audit", "corpus", "--dry-run"], ["capabilities"], ["theory", "Dull."]):
        result = CliRunner().invoke(main, command)
        said = "device: cuda (--device cpu runs on the CPU)\nheedful: enough.\n"
        assert (result.exit_code, result.stderr) == (2, said)
    assert CliRunner().invoke(main, ["explain", "Dull.", "--device", "cpu"]).stderr == "heedful: enough.\n"
    assert asked == ["auto"] * 4 + ["cpu"]


def test_the_command_line_says_that_it_runs_on_the_cpu_once_it_works(tmp_path: Path) -> None:
    def stderr(*args: str) -> str:
        return CliRunner().invoke(main, args).stderr

    assert stderr("explain", "Dull.") == "device: cpu\n"
    assert stderr("explain", "Dull.", "--device", "cpu") == ""
    assert stderr("methods") == ""
    assert stderr("explain", "Dull.", "--target", "x").startswith("heedful: label 'x' is not one of")
    audit = "audit", "corpus", "--methods", "attention-mean", "--checks", "complexity"
    assert stderr(*audit, "--dry-run") == "device: cpu\n"
    first = stderr(*audit, "--limit", "2", "--out", str(tmp_path / "run")).splitlines()[0]
    assert first == "device: cpu"
