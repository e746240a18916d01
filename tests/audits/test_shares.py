"""Shares: machines that know nothing of each other compute one run, to the bytes of one machine."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from heedful.audits.audit import audit
from heedful.audits.job import AuditRequest
from heedful.audits.run import read_run
from heedful.audits.shares import Finish, Share, compute_share
from heedful.audits.workers import in_process
from heedful.cli import main
from heedful.core.errors import BadInput
from heedful.data import Example
from tests.support import models, toys
from tests.support.patience import limited
from tests.support.work import Numbers

NETWORK = models.build("bilstm", labels=2)
TEXTS = [Example(text) for text in toys.texts(40)]
ASKED: dict[str, Any] = {"methods": ["attention-mean"], "checks": ["complexity", "cost"], "limit": 40}
REQUEST = AuditRequest(NETWORK, TEXTS, **ASKED)


def test_the_shares_are_all_chunks_and_none_twice() -> None:
    chunks = [0, 1, 2, 4, 5, 9, 16]
    shares = [Share(i, 3).own(chunks) for i in (1, 2, 3)]
    assert shares == [[0, 9], [1, 4, 16], [2, 5]]


def test_a_share_does_its_own_chunks_only(tmp_path: Path) -> None:
    assert list(Share(2, 3)(Numbers(tmp_path), range(9))) == [1, 4, 7]
    assert {file.name for file in tmp_path.iterdir()} == {"1", "4", "7"}


@pytest.mark.parametrize("text", ["9/8", "0/8", "3", "3/0", "-1/8", "a/b", "3/8/9", ""])
def test_what_is_not_a_share_is_refused_in_one_sentence(text: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["audit", "corpus", "--out", str(tmp_path / "run"), "--share", text])
    expected = f"heedful: '{text}' is not a share; write the third of eight as 3/8, from 1/8 to 8/8.\n"
    assert (result.exit_code, result.output) == (2, expected)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--share", "1/2", "--restart"], "--restart would delete what other shares computed"),
        (["--finish", "--share", "1/2"], "--finish computes nothing; leave out --share and --on."),
        (["--finish"], "holds no run (no manifest.json)"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: list[str], said: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["audit", "corpus", "--out", str(tmp_path / "run"), *options])
    assert result.exit_code == 2
    assert said in result.output
    assert not (tmp_path / "run").exists()


def test_shares_end_with_the_bytes_of_one_process_and_say_what_is_missing(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = compute_share(REQUEST, tmp_path / "shared", Share(1, 2))
        assert str(first) == (
            "share 1/2: computed 2 chunks; 1 chunk is missing, of share 2/2; run --share 2/2, then --finish."
        )
        with pytest.raises(BadInput, match=r"^1 chunk is missing, of share 2/2; run --share 2/2, then --finish\.$"):
            audit(NETWORK, TEXTS, out=tmp_path / "shared", workers=Finish(), **ASKED)
        assert not (tmp_path / "shared" / "summary.json").exists()
        second = compute_share(REQUEST, tmp_path / "shared", Share(2, 2))
        again = compute_share(REQUEST, tmp_path / "shared", Share(2, 2))
        assert (second.computed, again.computed, again.missing) == (1, 0, ())
        assert str(again).endswith("none is missing: run the same command with --finish instead of --share.")
    finished = audit(NETWORK, TEXTS, out=tmp_path / "shared", workers=Finish(), **ASKED)
    audit(NETWORK, TEXTS, out=tmp_path / "one", **ASKED)
    files = [(tmp_path / name / "summary.json").read_bytes() for name in ("shared", "one")]
    assert finished.complete
    assert files[0] == files[1]


def test_the_shares_of_all_missing_chunks_are_named(tmp_path: Path) -> None:
    compute_share(REQUEST, tmp_path / "run", Share(5, 5))  # has no chunk of three
    with pytest.raises(
        BadInput, match=r"^3 chunks are missing, of shares 1/5, 2/5, 3/5; run --share 1/5 and the others"
    ):
        audit(NETWORK, TEXTS, out=tmp_path / "run", workers=Finish(), **ASKED)
    compute_share(REQUEST, tmp_path / "run", Share(4, 4))
    with pytest.raises(BadInput, match=r"^3 chunks are missing \(0, 1, 2\); run the same command without --share"):
        audit(NETWORK, TEXTS, out=tmp_path / "run", workers=Finish(), **ASKED)


def test_an_audit_is_no_share() -> None:
    with pytest.raises(BadInput, match=r"a share of a run has no summary; call heedful\.audits\.shares\.compute_share"):
        audit(NETWORK, TEXTS, workers=Share(1, 2, in_process), **ASKED)


def test_a_restarted_run_forgets_its_shares(tmp_path: Path) -> None:
    compute_share(REQUEST, tmp_path / "run", Share(5, 5))
    audit(NETWORK, TEXTS, out=tmp_path / "run", restart=True, **ASKED)
    assert list((tmp_path / "run" / "shares").iterdir()) == []


def test_finishing_and_sharing_change_no_setting_of_a_run(tmp_path: Path) -> None:
    other: dict[str, Any] = ASKED | {"settings": ["complexity.unit=token"]}
    audit(NETWORK, TEXTS, out=tmp_path / "run", **ASKED)
    before = {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}
    for asked in (other, ASKED | {"checks": ["sign"]}):
        with pytest.raises(BadInput, match=r"^--finish computes nothing, and this command differs from the run in "):
            audit(NETWORK, TEXTS, out=tmp_path / "run", workers=Finish(), **asked)
    assert {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()} == before
    compute_share(REQUEST, tmp_path / "shared", Share(2, 2))
    with pytest.raises(
        BadInput, match=r"setting checks\.complexity\.unit \(word then, token now\); use the settings of the run"
    ):
        compute_share(AuditRequest(NETWORK, TEXTS, **other), tmp_path / "shared", Share(1, 2))
    compute_share(REQUEST, tmp_path / "shared", Share(1, 2))
    audit(NETWORK, TEXTS, out=tmp_path / "shared", workers=Finish(), **ASKED)
    compute_share(AuditRequest(NETWORK, TEXTS, **other), tmp_path / "shared", Share(1, 2))  # a whole run is extended


def test_links_inside_a_run_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    compute_share(REQUEST, tmp_path / "run", Share(2, 2))
    (tmp_path / "run" / "shares" / "1-of-2").symlink_to(outside)
    compute_share(REQUEST, tmp_path / "run", Share(1, 2))
    assert not outside.exists()
    audit(NETWORK, TEXTS, out=tmp_path / "run", **ASKED)
    (tmp_path / "run" / "report.html").unlink()
    (tmp_path / "run" / "report.html").symlink_to(outside)
    outside.write_text("precious")
    assert CliRunner().invoke(main, ["report", str(tmp_path / "run")]).exit_code == 0
    assert outside.read_text() == "precious"
    (tmp_path / "other").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "other" / "parts").symlink_to(tmp_path / "empty")
    with pytest.raises(BadInput, match="is a link, which a run does not follow"):
        audit(NETWORK, TEXTS, out=tmp_path / "other", **ASKED)


# several processes at once

RACE = """
import sys, time
from dataclasses import replace
from pathlib import Path
from heedful.core.errors import BadInput
from heedful.audits.run import open_run
from tests.audits.test_run import MANIFEST, row, some

number, rounds, same, place = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "same", Path(sys.argv[4])
manifest = replace(MANIFEST, seed=0 if same else number)
for i in range(rounds):
    (place / f"ready-{i}-{number}").touch()
    end = time.monotonic() + 120
    while len(list(place.glob(f"ready-{i}-*"))) < 3:
        assert time.monotonic() < end, "another process died"
        time.sleep(0)
    try:
        texts = range(16 * number, 16 * number + 16)
        open_run(place / f"run-{i}", manifest).write(number, some(texts), [row(n) for n in texts], {})
        print("wrote", i)
    except BadInput as e:
        print("refused" if "holds a different run: the seed" in str(e) else e, i)
"""


def race(tmp_path: Path, rounds: int, same: bool) -> list[list[str]]:
    """What each of three processes says that open the same new folders at the same moments."""
    root = Path(__file__).parents[2]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, str(i), str(rounds), "same" if same else "other", str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
        )
        for i in range(3)
    ]
    with limited(*processes):
        return [process.communicate()[0].splitlines() for process in processes]


def test_processes_that_start_one_run_at_the_same_moment_do_not_disturb_each_other(tmp_path: Path) -> None:
    said = race(tmp_path, 20, same=True)
    assert said == [[f"wrote {i}" for i in range(20)]] * 3
    assert [read_run(tmp_path / f"run-{i}").count() for i in range(20)] == [48] * 20


@pytest.mark.thorough
def test_of_different_runs_that_start_in_one_folder_at_the_same_moment_one_stays(tmp_path: Path) -> None:
    said = race(tmp_path, 20, same=False)
    for i, words in enumerate(zip(*said, strict=True)):
        assert sorted(words) == [f"refused {i}", f"refused {i}", f"wrote {i}"]
        assert read_run(tmp_path / f"run-{i}").count() == 16
