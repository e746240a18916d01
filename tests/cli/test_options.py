"""Options of data: audit, study and train read and select the same texts, and say what they drop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import heedful
from heedful.cli import main
from tests.support.models import prompted

ROWS = [("A warm film, well made.", "pos"), ("A dull film, badly made.", "neg")] * 12 + [
    ("Meh.", "neg"),
    ("So so.", "0"),
]
AUDIT = ["--methods", "gradient-x-input", "--checks", "sensitivity", "--limit", "2"]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    lines = [f'"{label}","{i}: {text}"\n' for i, (text, label) in enumerate(ROWS)]
    Path("films.csv").write_text("label,text\n" + "".join(lines), encoding="utf-8")
    return "films.csv"


def run(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def test_an_audit_renames_labels_and_says_what_it_dropped(data: str) -> None:
    names = ["--labels", "pos,neg", "--rename-labels", "pos=positive, neg=negative", "--min-words", "4"]
    result = run("audit", data, *AUDIT, *names, "--out", "run")
    assert result.exit_code == 0, result.output
    reasons = "1 with fewer than 4 words, 1 with another label"
    assert f"2 texts were dropped: {reasons}." in result.stderr
    assert f"<dt>dropped texts</dt><dd><bdi>{reasons}</bdi></dd>" in Path("run/report.html").read_text(encoding="utf-8")
    stored = json.loads(Path("run/manifest.json").read_text(encoding="utf-8"))["data"]
    assert (stored["texts"], stored["dropped"]) == (24, {"with fewer than 4 words": 1, "with another label": 1})
    rename = {"pos": "positive", "neg": "negative"}
    assert stored["selection"] == {"labels": ["pos", "neg"], "rename": rename, "min_words": 4}


def test_an_unknown_label_says_how_it_is_renamed(data: str) -> None:
    result = run("audit", data, *AUDIT, "--out", "run")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "label 'pos' in 'films.csv' line 2 is not one of negative, positive;" in result.stderr
    assert "give --rename-labels pos=positive." in result.stderr


def test_a_training_records_its_selection_and_says_what_it_dropped(data: str) -> None:
    names = ["--labels", "pos,neg", "--rename-labels", "pos=positive,neg=negative", "--max-words", "6"]
    small = ["--set", "epochs=1", "--set", "embedding=4", "--set", "min_length=7"]
    result = run("train", "average", data, *names, *small, "--out", "model")
    assert result.exit_code == 0, result.output
    assert "1 text was dropped: 1 with another label." in result.stderr
    record = json.loads(Path("model/training.json").read_text(encoding="utf-8"))
    assert record["labels"] == ["negative", "positive"]
    assert record["data"]["dropped"] == {"all": {"with another label": 1}}
    assert record["data"]["selection"]["max_words"] == 6
    short = [name for name in ("train", "dev", "test") if record["data"][name]["used"] < record["data"][name]["texts"]]
    assert all(f" {name} texts were used; min_length, max_length" in result.stdout for name in short)
    assert len(short) == 1


@pytest.mark.parametrize(
    ("renames", "wrong"),
    [("pos", "has a part that is not OLD=NEW ('pos')"), ("a=b,a=c", "renames a label twice ('a=c')")],
)
@pytest.mark.parametrize("command", [("audit",), ("train", "average"), ("study", "pruning")])
def test_names_that_are_not_pairs_are_refused(command: tuple[str, ...], renames: str, wrong: str, data: str) -> None:
    result = run(*command, data, "--rename-labels", renames, "--out", "x")
    assert result.exit_code == 2
    assert f"--rename-labels {wrong}; write it as pos=positive,neg=negative." in " ".join(result.stderr.split())
    assert not Path("x").exists()


def test_a_saved_prompt_is_changed_by_single_options(tmp_path: Path) -> None:
    classifier = prompted("prompted-gpt2", scoring="sum", calibrate=True)
    heedful.save(classifier, tmp_path / "model")
    explain = "explain", "a good film", "-M", "leave-one-out", "--json", "--model", str(tmp_path / "model")
    for options, changes in (
        ((), {}),
        (("--no-calibrate",), {"calibrate": False}),
        (("--scoring", "first", "--template", "{text}\\nIt is"), {"scoring": "first", "template": "{text}\nIt is"}),
    ):
        settings: dict[str, Any] = {"scoring": "sum", "calibrate": True} | changes
        expected = prompted("prompted-gpt2", **settings)
        result = run(*explain, *options)
        assert result.exit_code == 0, result.output
        [prediction] = expected.predictions([expected.tokens("a good film")])
        assert json.loads(result.stdout)["prediction"]["logits"] == pytest.approx(prediction.logits, abs=1e-4)


def test_one_option_is_no_prompt() -> None:
    result = run("explain", "a good film", "--calibrate")
    assert (result.exit_code, result.stderr) == (
        2,
        "heedful: the embedded model is a classifier and takes no prompt; give a language model.\n",
    )
