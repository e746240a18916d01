"""heedful study, heedful studies, and heedful report of a study."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from heedful.cli import main
from heedful.studies import STUDIES
from tests.studies.test_study import contents
from tests.support.processes import command, dies_at

FEW = [
    "--profile",
    "quick",
    "--set",
    "ranked=6",
    "--set",
    "scored=40",
    "--set",
    "draws=1",
    "--set",
    "importances=taylor",
]


def run(*args: str) -> Result:
    return CliRunner().invoke(main, list(args))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of the embedded model, with a pruned copy of it."""
    folder = tmp_path_factory.mktemp("study")
    found = run(
        "study", "pruning", "corpus", *FEW, "--keep", "0.5", "--save", str(folder / "m"), "--out", str(folder / "s")
    )
    assert found.exit_code == 0, found.output
    assert "With the largest importance removed first" in " ".join(found.stdout.split())
    return folder


def test_a_study_says_what_it_wrote(study: Path) -> None:
    assert {p.name for p in (study / "s").iterdir()} == {"study.json", "steps", "models", "outcome.json", "report.html"}
    found = run("explain", "A warm film.", "--model", str(study / "m"), "--method", "attention-mean")
    assert found.exit_code == 0, found.output


def test_the_same_command_again_leaves_the_saved_model_and_another_folder_is_refused(
    study: Path, tmp_path: Path
) -> None:
    args = ["study", "pruning", "corpus", *FEW, "--keep", "0.5", "--out", str(study / "s"), "--save"]
    before = contents(study / "m")
    assert run(*args, str(study / "m")).exit_code == 0
    assert contents(study / "m") == before == contents(study / "s" / "models" / "pruned")
    (tmp_path / "config.json").write_text("{}")
    found = run(*args, str(tmp_path))
    assert found.exit_code == 2
    assert "exists; give a new folder for the pruned model (--save)" in found.stderr


@pytest.mark.parametrize(("kind", "ending"), [("html", "html"), ("md", "md"), ("csv", "csv"), ("latex", "tex")])
def test_a_study_is_reported_in_every_format(study: Path, kind: str, ending: str, tmp_path: Path) -> None:
    out, figures = tmp_path / f"r.{ending}", tmp_path / "figures"
    found = run("report", str(study / "s"), "--format", kind, "--out", str(out), "--figures", str(figures))
    assert found.exit_code == 0, found.output
    assert "taylor" in out.read_text("utf-8")
    links = re.findall(r"\]\((.+?\.svg)\)", out.read_text("utf-8"))
    assert (kind == "md") == bool(links)
    assert all((out.parent / link).is_file() for link in links)
    assert (figures / "pruning-areas.svg").exists()


def test_a_study_has_no_verdict_to_set(study: Path) -> None:
    found = run("report", str(study / "s"), "--set", "most=.6")
    assert found.exit_code == 2
    assert "holds a study, which has no verdict" in found.stderr


def test_the_outcome_as_json(study: Path) -> None:
    found = run("study", "pruning", "corpus", *FEW, "--keep", "0.5", "--out", str(study / "s"), "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["study"] == "pruning"


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    found = run("study", "pruning", "corpus", *FEW, "--dry-run", "--out", str(tmp_path / "s"))
    assert found.exit_code == 0, found.output
    assert "scoring without heads" in found.stdout
    assert "of CPU time" in found.stdout
    assert not (tmp_path / "s").exists()


def test_studies_are_listed_and_described() -> None:
    listed = run("studies").stdout
    assert all(name in listed for name in STUDIES)
    described = run("studies", "pruning").stdout
    for words in ("importances", "what is changed:", "area accuracy", "parts of the data:", "heads are ranked"):
        assert words in described


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["pruning", "corpus"], "no folder was given for the study; add --out DIR"),
        (["prunning", "corpus", "--out", "x"], "study 'prunning' is not known"),
        (["pruning", "corpus", "--save", "m", "--out", "x"], "--save needs the share of heads to keep"),
        (["pruning", "corpus", "--keep", "2", "--out", "x"], "keep is"),
        (["pruning", "corpus", "corpus", "--out", "x"], "pruning takes one model and one data set, not 2"),
        (["pruning", "nowhere.csv", "--out", "x"], "'nowhere.csv' does not exist"),
        (["pruning", "corpus", "--recipe", "finetune", "--out", "x"], "encoder is empty; set encoder=FOLDER"),
    ],
)
def test_a_wrong_command_is_one_sentence(
    args: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = run("study", *args)
    assert found.exit_code == 2
    assert message in found.stderr
    assert found.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
@pytest.mark.parametrize("steps", [1, 3])
def test_a_killed_study_ends_with_the_same_bytes(study: Path, steps: int, tmp_path: Path) -> None:
    args = ["study", "pruning", "corpus", *FEW, "--keep", "0.5", "--out", str(tmp_path / "s")]
    with command(args, before=dies_at("steps/*.json", steps)) as running:
        assert running.wait() == -signal.SIGKILL
    assert not (tmp_path / "s" / "outcome.json").exists()
    found = run(*args)
    assert found.exit_code == 0, found.output
    assert contents(tmp_path / "s") == contents(study / "s")


def settings(*assignments: str) -> list[str]:
    return [word for assignment in assignments for word in ("--set", assignment)]


NETWORK = settings("average.embedding=12", "average.hidden=8", "average.epochs=4", "average.batch=16")
LONG = {
    "adversarial-training": [
        *("--recipe", "average", *NETWORK),
        *settings("strengths=0,0.1", "adversary_epochs=4", "seeds=1", "scored=24", "steps=20"),
    ],
    "adversarial-keys": settings(
        "trained=48", "chosen=16", "scored=24", "epochs=2", "each_layer=permuted", "draws=1", "batch=16", "hidden=16"
    ),
    "triggers": settings(
        "extracted=40", "shortest=8", "tuned=24", "scored=40", "candidates=3", "kept=1", "draws=1", "max_tokens=24"
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", LONG)
def test_a_study_that_trains_or_attacks_and_is_killed_ends_with_the_same_bytes(name: str, tmp_path: Path) -> None:
    args = ["study", name, "corpus", *LONG[name], "--out"]
    assert run(*args, str(tmp_path / "whole")).exit_code == 0
    whole, out = contents(tmp_path / "whole"), tmp_path / "cut"

    # in the middle of a training, where there is one; then later, each time after what was left had been read
    for pattern in ("resume.safetensors" if name != "triggers" else "steps/*.json", *["steps/*.json"] * 2):
        with command([*args, str(out)], before=dies_at(pattern, 2)) as running:
            assert running.wait() == -signal.SIGKILL
        assert not (out / "outcome.json").exists()
    found = run(*args, str(out))
    assert found.exit_code == 0, found.output
    assert contents(out) == whole


@pytest.mark.thorough
def test_two_processes_that_train_end_with_the_bytes_of_one(tmp_path: Path) -> None:
    name = "adversarial-training"
    for jobs in ("1", "2"):
        assert run("study", name, "corpus", *LONG[name], "--jobs", jobs, "--out", str(tmp_path / jobs)).exit_code == 0
    assert contents(tmp_path / "1") == contents(tmp_path / "2")
