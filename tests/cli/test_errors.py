"""The last net: an error that nobody expected is one sentence and exit code 70."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from heedful.checks import CHECKS
from heedful.cli import main
from heedful.core.errors import BadInput


def fail(*_: object) -> None:
    raise IndexError("list index\nout of range")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """`heedful checks` fails; files of tracebacks go to the folder."""
    monkeypatch.setattr(type(CHECKS), "rows", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_an_unexpected_error_is_one_sentence_and_its_traceback_is_in_a_file(broken: Path) -> None:
    found = CliRunner().invoke(main, ["checks"])
    said = r"heedful: unexpected error, IndexError: list index out of range; the traceback is in (.+\.txt)\.\n"
    match = re.fullmatch(said, found.stderr)
    assert match is not None, found.stderr
    assert (found.exit_code, found.stdout) == (70, "")
    stored = Path(match[1]).read_text("utf-8")
    assert "Traceback" in stored
    assert "in fail" in stored


def test_debug_prints_the_traceback(broken: Path) -> None:
    found = CliRunner().invoke(main, ["--debug", "checks"])
    assert found.exit_code == 70
    assert found.stderr.startswith("Traceback")
    assert list(broken.iterdir()) == []


def test_where_no_file_can_be_written_the_sentence_says_what_to_do(broken: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", "/nowhere")
        found = CliRunner().invoke(main, ["checks"])
    assert found.exit_code == 70
    assert found.stderr.endswith("out of range; `heedful --debug …` prints the traceback.\n")


def test_the_module_is_the_command(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["heedful", "checks"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("heedful", run_name="__main__")
    assert ended.value.code == 70


@pytest.mark.parametrize(
    ("error", "code"), [(BadInput("this is wrong."), 2), (KeyboardInterrupt(), 130), (SystemExit(3), 3)]
)
def test_an_expected_error_keeps_its_exit_code(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> Any:
        raise error

    monkeypatch.setattr(type(CHECKS), "rows", stop)
    assert CliRunner().invoke(main, ["checks"]).exit_code == code


def test_a_wrong_option_is_clicks_own_error() -> None:
    found = CliRunner().invoke(main, ["checks", "--jsn"])
    assert found.exit_code == 2
    assert "No such option" in found.stderr
