"""Workers: chunks in, finished parts out, whoever does them and whoever dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

import heedful
from heedful.audits.audit import audit
from heedful.audits.job import AuditProgress, Job, battery, describe_job, restore_job
from heedful.audits.workers import Processes, ReportShare, in_process
from heedful.cli import main
from heedful.core.errors import BadInput
from heedful.data import Example
from heedful.methods.imported.reading import read_files
from tests.support import models, toys
from tests.support.patience import PATIENCE_SECONDS, limited
from tests.support.work import Numbers

POINTER = toys.build("bert", toys.POINTER)
TEXTS = [Example(text, label=POINTER.labels[i % 2]) for i, text in enumerate(toys.texts(40))]


def done(folder: Path) -> set[int]:
    return {int(file.name) for file in folder.iterdir()}


def until(there: Callable[[], object]) -> ReportShare:
    """Keep this process busy until something is there."""

    def tell(doing: str, share: float) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not there() and time.monotonic() < deadline:
            time.sleep(0.02)

    return tell


def children() -> list[str]:
    """Processes that work for this one; a dead one has no command line."""
    lines: dict[str, bytes] = {}
    for pid in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split():
        with suppress(OSError):  # it is gone meanwhile
            lines[pid] = Path(f"/proc/{pid}/cmdline").read_bytes()
    return [pid for pid, line in lines.items() if b"heedful.audits.workers" in line]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes find these tests, and this heedful."""
    roots = Path(__file__).parents[2], Path(heedful.__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, roots)))
    monkeypatch.chdir(Path(__file__).parent)


def test_in_process_does_every_chunk_in_order(tmp_path: Path) -> None:
    assert list(in_process(Numbers(tmp_path), [2, 0, 1])) == [2, 0, 1]
    assert done(tmp_path) == {0, 1, 2}


@pytest.mark.parametrize("workers", [in_process, Processes(2)])
def test_no_chunk_is_begun_after_the_time_except_the_first(tmp_path: Path, workers: Any) -> None:
    assert list(workers(Numbers(tmp_path), [3, 4, 5], until=time.monotonic() - 1)) == [3]


def test_processes_share_the_chunks(tmp_path: Path) -> None:
    tell = until(lambda: done(tmp_path))
    assert sorted(Processes(3)(Numbers(tmp_path), range(9), tell)) == list(range(9))
    assert done(tmp_path) == set(range(9))
    assert len({file.read_text() for file in tmp_path.iterdir()}) >= 2


def test_the_chunks_of_a_process_that_dies_are_done_and_its_last_line_is_shown(tmp_path: Path) -> None:
    said = r"a worker process died \(the last words\); the other processes take over its texts\."
    with pytest.warns(UserWarning, match=said):
        found = sorted(Processes(2)(Numbers(tmp_path, deadly=1), [0, 1, 2, 3], until(lambda: not children())))
    assert found == [0, 1, 2, 3]
    assert (tmp_path / "1").read_text() == str(os.getpid())


def test_the_chunk_of_a_process_that_hangs_is_done_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.audits.workers.HUNG_SECONDS", 0.5)
    begun = tmp_path / "begun"
    with pytest.warns(UserWarning, match="a worker process hung; the other processes take over its texts."):
        found = sorted(Processes(2)(Numbers(tmp_path, endless=1), [0, 1, 2, 3], until(begun.exists)))
    assert found == [0, 1, 2, 3]
    assert (tmp_path / "1").read_text() == str(os.getpid())


def test_a_process_that_cannot_begin_is_shown(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Nowhere(Numbers):
        def describe(self, folder: Path) -> Mapping[str, Any]:
            return {"restore": "heedful.audits.nowhere:restore"}

    with pytest.warns(UserWarning, match=r"died \(ModuleNotFoundError: No module named 'heedful.audits.nowhere'\)"):
        found = sorted(Processes(2)(Nowhere(tmp_path), [0, 1, 2], until(lambda: not children())))
    assert found == [0, 1, 2]


def test_an_error_ends_all_processes(tmp_path: Path) -> None:
    def interrupt(doing: str, share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(Processes(3)(Numbers(tmp_path), range(10), interrupt))
    assert children() == []


def test_a_worker_ends_when_its_parent_is_gone(tmp_path: Path) -> None:
    """It is in the middle of a chunk that would take a minute."""
    work = tmp_path / "work.json"
    work.write_text(json.dumps({"restore": "tests.support.work:Sleepy", "folder": str(tmp_path)}))
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "heedful.audits.workers", str(work)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with limited(process), process.stdout, process.stdin:
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("0\n")
        process.stdin.flush()
        while not (tmp_path / "begun").exists() and process.poll() is None:
            time.sleep(0.02)
        process.stdin.close()
        assert process.wait(timeout=30) == 0


# audits


@pytest.fixture(scope="module")
def by_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an audit by two processes, in `two`, of a model that was made in memory; and the same, in `one`.

    It is the current folder of both processes. Modules lie there with the names of those that a worker imports, and
    PYTHONPATH means that folder twice.
    """
    folder = tmp_path_factory.mktemp("planted")
    network = models.build("bilstm", labels=2)  # for which a process need not import transformers' models
    for name in ("torch", "heedful", "json", "transformers"):
        (folder / f"{name}.py").write_text(f"open({str(folder / 'executed')!r}, 'a').write('{name} ')\n")
    asked: dict[str, Any] = {"methods": ["attention-mean", "leave-one-out"], "checks": ["complexity", "sign", "cost"]}

    # subtle: on a machine of any speed, until the worker has done a part or is dead
    busy = until(lambda: not children() or list((folder / "two" / "parts").glob("*[0-9].parquet")))

    def wait(now: AuditProgress) -> None:
        if now.texts == 0:
            busy("", 0.0)

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error")
        patch.chdir(folder)
        patch.setenv("PYTHONPATH", os.pathsep.join(["", ".", str(Path(heedful.__file__).parents[1])]))
        audit(network, TEXTS, out=folder / "two", jobs=2, watch=wait, **asked)
    audit(network, TEXTS, out=folder / "one", **asked)
    return folder


def test_a_live_model_is_audited_by_several_processes_to_the_same_bytes(by_two: Path) -> None:
    assert (by_two / "two" / "summary.json").read_bytes() == (by_two / "one" / "summary.json").read_bytes()


def test_workers_import_nothing_from_the_current_folder(by_two: Path) -> None:
    assert not (by_two / "executed").exists()


def test_the_command_hands_on_its_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[int] = []

    def processes(n: int) -> Any:
        jobs.append(n)
        return in_process

    monkeypatch.setattr(sys.modules["heedful.audits.audit"], "Processes", processes)
    asked = ["audit", "corpus", "--methods", "random", "--checks", "cost", "--limit", "2", "--jobs", "2"]
    assert CliRunner().invoke(main, [*asked, "--out", str(tmp_path / "run")]).exit_code == 0
    assert jobs == [2]


def test_a_job_comes_back_as_it_was(tmp_path: Path) -> None:
    lines = [{"text": e.text, "method": "mine", "scores": [i / 7] * len(e.text.split())} for i, e in enumerate(TEXTS)]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, lines)))
    given = battery(
        "full", ["lime"], ["permutation", "sensitivity"], heedful.Target("LABEL_1"), ["lime.samples=77"],
        read_files([tmp_path / "mine.jsonl"]).values(),
    )  # fmt: skip
    examples = [Example("ape yes", "no", ("a", "b"), ((0, 3),), "line 1"), Example("no bee", rationale=())]
    job = Job(POINTER, [*examples, *TEXTS], given, 3, {"other": toys.build("bert", toys.DEAF)}, "name", 7)
    described = json.loads(json.dumps(describe_job(job, tmp_path)))
    again = restore_job(described)
    assert again.manifest() == job.manifest()
    assert again.examples == job.examples
    assert (again.limit, again.name, again.classifier.name) == (7, "name", "toy-bert")
    assert vars(again.battery.methods["mine"])["lines"] == vars(job.battery.methods["mine"])["lines"]


def test_a_loaded_model_is_described_by_its_source_until_it_is_changed(tmp_path: Path) -> None:
    job = Job(heedful.load(), [Example("A film.")], battery("standard", ["lime"], ["cost"]))
    assert describe_job(job, tmp_path)["classifier"]["model"] is None
    with torch.no_grad():
        next(job.classifier.model.parameters()).add_(1.0)
    assert describe_job(job, tmp_path)["classifier"]["model"] == str(tmp_path / "model")
    assert restore_job(describe_job(job, tmp_path / "again")).classifier.fingerprint == job.classifier.fingerprint


@dataclass(frozen=True)
class Homemade:
    """A method that is in no catalogue."""

    def __call__(self, classifier: Any, tokens: Any, target: Any, rng: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("model", "method", "said"),
    [
        (heedful.Plain(lambda texts: [[0.5, 0.5]] * len(texts), name="mine"), "lime", "mine is a function, which runs"),
        (POINTER, Homemade(), "Homemade is not in the catalogue, so another process cannot create it; use jobs=1"),
        (toys.build("bilstm", toys.POINTER), "lime", "toy-bilstm cannot be saved for another process"),
    ],
)
def test_what_another_process_cannot_make_is_refused(model: Any, method: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        audit(model, [Example("ape yes")], [method], ["cost"], jobs=2)


def test_jobs_is_at_least_one() -> None:
    with pytest.raises(BadInput, match="jobs is 0; give at least 1"):
        audit(POINTER, TEXTS, ["lime"], ["cost"], jobs=0)
