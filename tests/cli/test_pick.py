"""heedful pick: what it prints, writes and refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

import heedful
import heedful.data
from heedful.cli import main
from heedful.cli.pick import _watch
from heedful.core.explanation import Explanations
from heedful.methods.explain import Step


def command(*args: str) -> Result:
    return CliRunner().invoke(main, ["pick", *args], env={"COLUMNS": "100", "NO_COLOR": "1"})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "texts.jsonl"
    texts = ["A slow start.", "A wonderful end <b>.", "Dull, and far too long.", "A wonderful end <b>."]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return path


def test_the_command_prints_each_pick_and_what_all_cover(data: Path) -> None:
    result = command(str(data), "--method", "leave-one-out", "--count", "2", "--words", "2")
    assert result.exit_code == 0, result.stderr
    assert "text 1 of 2" in result.stdout
    assert re.search(r"coverage [0-9.]+%, new words \S+ · \S+", result.stdout)
    assert result.stdout.splitlines()[-1].startswith("2 of 4 texts cover ")


def test_the_command_says_why_there_are_fewer(data: Path) -> None:
    result = command(str(data), "--method", "leave-one-out", "--count", "4")
    assert result.stdout.splitlines()[-1] == (
        "3 of 4 texts cover 100.0% of the importance of all words; no other text adds a word"
    )


def test_json_and_page_have_the_same_picks(data: Path, tmp_path: Path) -> None:
    result = command(str(data), "-M", "leave-one-out", "-n", "2", "--json", "--html", str(tmp_path / "page.html"))
    picks = Explanations.from_json(result.stdout)
    expected = heedful.pick(
        heedful.explain_all(heedful.load(), [e.text for e in heedful.data.load(data)], "leave-one-out"), 2
    )
    assert picks == expected
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"coverage {picks[1].details['coverage']:.1%}" in page
    assert "<b>." not in page


def test_progress_counts_texts_and_within_a_chunk_passes() -> None:
    """100 texts are explained in chunks of 64 and 36, of 10 passes a text."""
    model, shown = SimpleNamespace(forwards=7), []
    watch = _watch(lambda *args: shown.append(args), model, 100)  # type: ignore[arg-type]
    counts = []
    for planned, passes in ((640, 320), (360, 90)):
        watch(Step("lime", 1, 1, planned))
        model.forwards += passes
        counts.append(shown[-1][1]())
    assert counts == [32, 64 + 9]
    assert shown[-1][2:] == (100, "texts")


def test_a_limit_draws_by_the_seed(data: Path) -> None:
    texts = {command(str(data), "-M", "position", "--limit", "1", "--json", "--seed", str(n)).stdout for n in range(6)}
    assert len(texts) > 1
    assert all(len(Explanations.from_json(text)) == 1 for text in texts)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--method", "attattr"), "attattr has no score for each word; `heedful methods` lists others."),
        (("--method", "limee"), "method 'limee' is not known; did you mean 'lime'? `heedful methods` lists them all."),
        (("--model", "nowhere", "--set", "steps=0"), "steps is a whole number of at least 1"),
    ],
)
def test_a_wrong_method_is_refused_before_the_model_is_loaded(data: Path, args: Any, message: str) -> None:
    result = command(str(data), *args)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""
