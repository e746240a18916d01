"""An audit that is read again from its folder, without the model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import heedful
from heedful.audits.result import Audit
from heedful.audits.run import GROUP_TEXTS
from heedful.core.errors import BadInput
from heedful.data import Example
from tests.support import toys
from tests.support.findings import every_field
from tests.support.patience import PATIENCE_SECONDS

TEXTS = [Example(text) for text in toys.texts(34)]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    methods, checks = ["attention-mean", "leave-one-out"], ["complexity", "cost", "input-erasure"]
    return heedful.audit(
        toys.build("bert", toys.POINTER), TEXTS, methods, checks, tmp_path_factory.mktemp("runs") / "run",
        profile="standard", settings=["points=3", "maskings=delete"],
    )  # fmt: skip


@pytest.fixture
def folder(found: Audit) -> Path:
    return found.record.run.folder


def test_an_opened_audit_is_the_one_that_was_made(found: Audit, folder: Path) -> None:
    again = heedful.open(folder)
    assert every_field(again.rows()) == every_field(found.rows())
    assert (again.manifest, again.timing) == (found.manifest, found.timing)
    assert every_field((again.verdict, again.ranking)) == every_field((found.verdict, found.ranking))
    assert repr(again.findings("complexity").to_pylist()) == repr(found.findings("complexity").to_pylist())
    assert again.to_html() == found.to_html()


def test_an_audit_with_a_folder_writes_its_report_there(found: Audit, folder: Path) -> None:
    assert (folder / "report.html").read_text("utf-8") == found.to_html()


def test_texts_have_their_predictions_and_scores(found: Audit) -> None:
    texts = found.texts
    assert {one.text for one in texts} == {example.text for example in TEXTS}
    assert {score.method for score in texts[0].scores} >= {"attention-mean", "leave-one-out", "random"}


def test_rows_are_a_data_frame(found: Audit) -> None:
    frame = found.to_dataframe("complexity")
    row = found.rows("complexity", "gini", "attention-mean")[0]
    own = frame[(frame["measure"] == "gini") & (frame["method"] == "attention-mean")].iloc[0]
    assert len(frame) == len(found.rows("complexity"))
    assert (own["n"], own["mean"], own["low"]) == (row.n, row.mean, row.low)
    assert row.versus_random is not None
    assert np.isclose(own["difference"], row.versus_random.mean)
    assert set(found.to_dataframe()["check"]) == {"complexity", "cost", "input-erasure"}


def test_it_shows_itself_shortly(found: Audit) -> None:
    word = found.verdict.word
    assert repr(found) == f"Audit('toy-bert', 34 texts, 5 methods, 3 checks, attention: {word})"
    fragment = found._repr_html_()
    assert fragment.startswith("<div")
    assert all(tag not in fragment for tag in ("<style", "<script", "<html", "class="))
    assert "34 texts" in fragment
    assert found.ranking.methods[0].method in fragment


def test_a_run_that_was_not_kept_shows_itself_and_has_no_findings() -> None:
    loose = heedful.audit(toys.build("bert", toys.POINTER), TEXTS[:3], ["attention-mean"], ["cost"])
    assert "3 texts" in loose._repr_html_()
    with pytest.raises(BadInput, match="were not stored; audit again with a folder"):
        _ = loose.texts
    with pytest.raises(BadInput, match="no ranking, since none of its checks ranks methods"):
        _ = loose.ranking


def test_a_run_that_was_ended_early_is_not_complete(tmp_path: Path) -> None:
    heedful.audit(
        toys.build("bert", toys.POINTER), TEXTS, ["attention-mean"], ["cost"], tmp_path / "run", time_budget=0.0
    )
    again = heedful.open(tmp_path / "run")
    assert (again.complete, again.summary.texts.n) == (False, GROUP_TEXTS)
    assert repr(again).endswith("incomplete)")


def damage(folder: Path, name: str, content: str | None) -> None:
    file = folder / name
    if content is None:
        file.unlink()
    else:
        file.write_text(content)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("summary.json", None, "has no summary.json: its audit was interrupted"),
        ("summary.json", "{", "cannot be read"),
        ("summary.json", "{}", "is not the summary of a run"),
        ("summary.json", "[]", "is not the summary of a run"),
        ("manifest.json", None, "holds no run"),
        ("manifest.json", "{", "is not the manifest of a run"),
        ("manifest.json", '{"format": "heedful run 1"}', "the format 'heedful run 1' of another version of heedful"),
        ("parts/00000.parquet", "no parquet", "is damaged and cannot be read"),
        ("parts/00000.parquet", None, "is incomplete: 18 texts, but the summary covers 34"),
    ],
)
def test_a_damaged_folder_is_one_sentence(
    name: str, content: str | None, said: str, folder: Path, tmp_path: Path
) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    damage(copy, name, content)
    with pytest.raises(BadInput, match=said) as error:
        heedful.open(copy)
    assert "\n" not in str(error.value)


@pytest.mark.thorough
def test_neither_opening_nor_the_report_needs_torch(folder: Path) -> None:
    code = f"""
import sys, json, heedful
from heedful.cli import main
found = heedful.open({str(folder)!r})
found.to_html(), found._repr_html_(), found.to_dataframe(), found.texts, found.verdict, found.ranking
main(["report", {str(folder)!r}, "--out", {str(folder / "told.html")!r}], standalone_mode=False)
print(json.dumps([repr(found), "torch" in sys.modules]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    shown, torch = json.loads(done.stdout.splitlines()[-1])
    assert (folder / "told.html").exists()
    assert shown.startswith("Audit('toy-bert', 34 texts")
    assert not torch
