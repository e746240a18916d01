"""heedful reproduce."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from heedful.cli import main
from heedful.studies.reproduction import PAPERS


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["reproduce", *args])


def test_the_list_names_every_paper_and_its_data() -> None:
    listed = run("--list").stdout
    assert all(name in listed for name in PAPERS)
    assert "data sets, each a folder in --data" in listed
    assert [row["name"] for row in json.loads(run("--list", "--json").stdout)] == list(PAPERS)


def test_a_dry_run_names_the_settings_and_the_missing_data() -> None:
    plan = run("wiegreffe2019", "--dry-run", "--seeds", "5").stdout
    assert "wiegreffe2019, quick:" in plan
    assert "seeds             5\n" in plan
    assert "IMDB is not in the data; it must be a folder 'imdb'" in plan


@pytest.mark.thorough
def test_all_papers_are_in_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two papers; each runs in the tests of reproductions."""
    few = {name: PAPERS[name] for name in ("jain2019", "serrano2019")}
    monkeypatch.setattr("heedful.studies.reproduction.PAPERS", few)
    done = run("all", "--profile", "smoke", "--out", str(tmp_path / "r"))
    assert done.exit_code == 0, done.output
    text = (tmp_path / "r" / "reproduction.md").read_text("utf-8")
    assert all(paper.title in text for paper in few.values())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "no paper was given; `heedful reproduce --list` lists them all"),
        (["wiegreffe2019"], "no folder was given for the reproduction; add --out DIR"),
        (["jain1919", "--out", "x"], "`heedful reproduce --list` lists them all"),
    ],
)
def test_a_wrong_command_is_one_sentence(
    args: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = run(*args)
    assert found.exit_code == 2
    assert message in found.stderr
    assert found.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
