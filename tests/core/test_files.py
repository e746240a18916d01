"""Files: written whole or not at all; what a killed process left is swept away; one JSON form per value."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heedful.core.errors import BadInput
from heedful.core.files import HOST, json_value, output, scratch_folder, sorted_keys, sweep, write_files, write_folder
from tests.support.patience import PATIENCE_SECONDS


def fail(part: Path) -> None:
    part.write_bytes(b"half")
    raise OSError(28, "No space left on device")


def test_a_content_is_bytes_or_a_function_that_writes_them(tmp_path: Path) -> None:
    write_files({tmp_path / "a": b"1", tmp_path / "b": lambda part: part.write_bytes(b"2")})
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a": b"1", "b": b"2"}


def test_if_one_file_fails_none_changes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(BadInput, match=r"b' cannot be written \(No space left on device\); free disk space"):
        write_files({tmp_path / "a": b"new", tmp_path / "b": fail})
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a": b"old"}


@pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be asked whether they live")
def test_what_a_killed_process_was_writing_is_swept(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib\n"
        "from heedful.core.files import output, write_files\n"
        "with output(sys.argv[1] + '/report.html') as write:\n"
        "    write_files({pathlib.Path(sys.argv[1]) / 'model': lambda part: (part.write_bytes(b'x'), os._exit(1))})\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, timeout=PATIENCE_SECONDS)

    def left() -> list[str]:
        return sorted(p.name.split(".")[1] for p in tmp_path.iterdir())

    assert left() == ["model", "report"]
    with output(str(tmp_path / "report.html")):
        assert left() == ["model", "report"]  # the latter is that of this process
    assert left() == ["model"]
    sweep(tmp_path)
    assert left() == []


def test_files_that_a_library_names_follow_no_link_and_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").symlink_to(tmp_path / "mine")
    write_folder(tmp_path / "model", lambda made: [(made / n).write_text(n) for n in ("config.json", "weights")])
    assert {p.name: p.read_text() for p in (tmp_path / "model").iterdir()} == {
        "config.json": "config.json",
        "weights": "weights",
    }
    assert (tmp_path / "mine").read_text() == "mine"


def test_if_a_library_fails_a_folder_has_nothing_new(tmp_path: Path) -> None:
    def fail_late(made: Path) -> None:
        (made / "config.json").write_text("half")
        fail(made / "weights")

    with pytest.raises(BadInput, match="No space left on device"):
        write_folder(tmp_path, fail_late)
    assert list(tmp_path.iterdir()) == []


def test_a_name_as_long_as_the_file_system_allows_can_be_written(tmp_path: Path) -> None:
    file = tmp_path / ("n" * 255)
    with output(str(file)) as write:
        assert write is not None
        write(b"x")
    assert file.read_bytes() == b"x"


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (float("nan"), None),
        (np.float32("inf"), None),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.array([[1.0, np.nan]]), [[1.0, None]]),
        ({1: (2, "a")}, {"1": [2, "a"]}),
    ],
)
def test_every_value_has_one_json_form(value: Any, form: Any) -> None:
    assert json.dumps(json_value(value)) == json.dumps(form)


def test_keys_are_sorted_at_every_level() -> None:
    assert json.dumps(sorted_keys({"b": [{"d": 1, "c": 2}], "a": 0})) == '{"a": 0, "b": [{"c": 2, "d": 1}]}'


def test_what_a_killed_process_left_among_temporary_files_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / f".shared.{HOST}.99999999.0123456789abcdef.part"
    left.mkdir()
    (left / "work.json").write_text("{}")
    with scratch_folder() as folder:
        assert [file.name for file in tmp_path.iterdir()] == [folder.name]
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []
