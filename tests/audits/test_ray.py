"""Ray: a cluster of two nodes on this machine, whose workers and nodes die, computes what one process does."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import heedful
from heedful.audits.audit import audit
from heedful.audits.ray import ENVIRONMENT, Ray, connect
from heedful.audits.workers import ReportShare, Work, silent
from heedful.cli import main
from heedful.core.errors import BadInput
from heedful.core.objects import place_of
from heedful.data import Example
from tests.support import models, store, toys
from tests.support.patience import PATIENCE_SECONDS
from tests.support.work import Recorded


def limited() -> ReportShare:
    """Ends what waits for too long."""
    end = time.monotonic() + PATIENCE_SECONDS

    def tell(doing: str, share: float) -> None:
        assert time.monotonic() < end, f"{doing} for more than {PATIENCE_SECONDS} s"

    return tell


def eventually(there: Callable[[], Any]) -> Any:
    """What a function returns when it is neither None nor empty."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not (value := there()):
        assert time.monotonic() < end, f"nothing after {PATIENCE_SECONDS} s"
        time.sleep(0.05)
    return value


def start(what: Callable[[], Any]) -> Any:
    """Start a part of a cluster. Ray gives up on one whose processes take 15 s to start, as on a busy machine."""
    for _ in range(5):
        try:
            return what()
        except Exception as e:
            reason = e
    raise AssertionError("Ray does not start") from reason


def processes(command: str) -> list[int]:
    """The processes whose command line has this."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if command.encode() in file.read_bytes():
                found.append(int(file.parent.name))
        except OSError:  # it ended
            continue
    return found


def computing(cluster: Any) -> list[int]:
    """The processes of this cluster that compute chunks: those of another one on this machine are not ours."""
    session = Path(cluster.head_node.get_session_dir_path()).name
    raylets = {f"PPid:\t{pid}\n" for pid in processes(session)}
    found = []
    for pid in processes("ray::_compute"):
        with suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text()
            found += [pid] if any(line in status for line in raylets) else []
    return found


# what needs no cluster


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--on", "spark"], "'spark' is not a cluster; write ray, or ray://HOST:PORT."),
        (["--on", "ray://"], "'ray://' is not a cluster; write ray, or ray://HOST:PORT."),
        (["--on", "ray", "--jobs", "2"], "--jobs is for processes on this machine; leave it out with --on."),
        (["--gpus", "1"], "--gpus is for tasks of a cluster; add --on ray, or leave it out."),
    ],
)
@pytest.mark.parametrize("command", [["audit"], ["study", "seeds"]])
def test_a_cluster_that_is_none_is_refused(command: list[str], options: list[str], said: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, [*command, "corpus", "--out", str(tmp_path / "run"), *options])
    assert (result.exit_code, result.output) == (2, f"heedful: {said}\n")
    assert not (tmp_path / "run").exists()


def test_without_ray_one_sentence_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    said = r"^Ray is not installed; install it here and on every machine with: pip install 'heedful\[ray\]'$"
    with pytest.raises(BadInput, match=said):
        list(Ray()(Recorded(tmp_path), [0]))


@pytest.mark.parametrize("settings", [{"cpus": 0}, {"gpus": -1}, {"window": 0, "cpus": -1}])
def test_a_task_needs_something(settings: dict[str, float]) -> None:
    with pytest.raises(BadInput, match="give positive numbers"):
        Ray(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("task", "resources", "count"),
    [
        (Ray(), {"CPU": 4.0}, 4),
        (Ray(cpus=2), {"CPU": 5.0}, 2),
        (Ray(gpus=1), {"CPU": 4.0}, 0),
        (Ray(gpus=0.5), {"CPU": 9.0, "GPU": 2.0}, 4),
        (Ray(cpus=0, gpus=1), {"GPU": 2.0}, 2),
    ],
)
def test_how_many_tasks_a_machine_runs_at_once(task: Ray, resources: dict[str, float], count: int) -> None:
    assert task._tasks(resources) == count


# a cluster


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with modules of the names of those that a worker imports; if executed, they write a file `executed`."""
    folder = tmp_path_factory.mktemp("planted")
    for name in ("torch", "transformers", "colorsys"):
        (folder / f"{name}.py").write_text(f"open({str(folder / 'executed')!r}, 'a').write('{name} ')\n")
    return folder


@pytest.fixture(scope="module")
def cluster(planted: Path) -> Iterator[Any]:
    """A head that computes nothing and two nodes of one processor; this process is connected. None of it stays."""
    pytest.importorskip("ray")
    roots = [str(Path(__file__).parents[2]), str(Path(heedful.__file__).parents[1])]
    small = {"object_store_memory": 80 * 2**20, "include_dashboard": False}
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own
        patch.setenv("PYTHONPATH", os.pathsep.join([*roots, *filter(None, [os.environ.get("PYTHONPATH")])]))
        for name, value in {**ENVIRONMENT, **store.ENVIRONMENT}.items():
            patch.setenv(name, value)
        import ray
        from ray.cluster_utils import Cluster

        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        cluster = start(lambda: Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small}))
        session = Path(cluster.head_node.get_session_dir_path()).name
        try:
            for _ in range(2):
                start(lambda: cluster.add_node(num_cpus=1, **small))
            patch.chdir(planted)
            connect(cluster.address)
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()
            for number, handler in handlers.items():  # Ray replaces them
                signal.signal(number, handler)
            gc.collect()
        eventually(lambda: not processes(session))


@pytest.fixture
def ray(cluster: Any) -> Ray:
    return Ray(cluster.address)


@pytest.mark.cluster
def test_each_process_restores_the_work_once_and_the_chunks_of_a_dead_one_are_done(tmp_path: Path, ray: Ray) -> None:
    work = Recorded(tmp_path, deadly=3)
    assert sorted(ray(work, range(10), limited())) == list(range(10))
    restored = work.lines("restored")
    assert len(restored) == len(set(restored))
    assert [len(work.lines(f"{i}")) for i in range(10)] == [1, 1, 1, 2, 1, 1, 1, 1, 1, 1]
    assert {pid for i in range(10) for pid in work.lines(f"{i}")} == set(restored)


@pytest.mark.cluster
def test_workers_import_nothing_from_the_current_folder(tmp_path: Path, ray: Ray, planted: Path) -> None:
    list(ray(Recorded(tmp_path, imports="colorsys"), range(2), limited()))
    assert not (planted / "executed").exists()


@pytest.mark.cluster
def test_bad_input_fails_once_in_one_sentence(tmp_path: Path, ray: Ray) -> None:
    work = Recorded(tmp_path, bad=1)
    with pytest.raises(BadInput, match=r"^chunk 1 is bad; give a good one\.$"):
        list(ray(work, range(4), limited()))
    assert len(work.lines("1")) == 1


@pytest.mark.cluster
def test_no_chunk_is_begun_after_the_time_except_the_first(tmp_path: Path, ray: Ray) -> None:
    assert list(ray(Recorded(tmp_path), [3, 4, 5], limited(), until=time.monotonic() - 1)) == [3]


@pytest.mark.cluster
def test_no_more_tasks_than_the_window_are_begun_before_one_is_awaited(tmp_path: Path, cluster: Any) -> None:
    chunks = Ray(cluster.address, window=2)(Recorded(tmp_path), range(9), limited())
    next(chunks)
    time.sleep(1)
    begun = {file.name for file in tmp_path.iterdir()} - {"restored"}
    assert len(begun) <= 2
    chunks.close()  # type: ignore[attr-defined]


@pytest.mark.cluster
def test_a_cluster_without_gpus_is_said_to_wait(tmp_path: Path, cluster: Any) -> None:
    def interrupt(doing: str, share: float) -> None:
        raise KeyboardInterrupt

    with (
        pytest.warns(UserWarning, match="no machine of the cluster has 1 CPUs and 1 GPUs"),
        pytest.raises(KeyboardInterrupt),
    ):
        list(Ray(cluster.address, gpus=1)(Recorded(tmp_path), [0], interrupt))


@dataclass
class Disturbed:
    """A cluster that loses a worker process after the first chunk, and a node after the second, when one joins."""

    cluster: Any
    before: Sequence[int] = ()

    def __call__(
        self, work: Work, chunks: Sequence[int], tell: ReportShare = silent, until: float | None = None
    ) -> Iterator[int]:
        patient = limited()
        for i, chunk in enumerate(Ray(self.cluster.address)(work, chunks, patient, until)):
            if i == 0:
                self.before = eventually(lambda: computing(self.cluster))
                os.kill(self.before[0], signal.SIGKILL)
            elif i == 1:
                node = next(node for node in self.cluster.list_all_nodes() if node is not self.cluster.head_node)
                self.cluster.remove_node(node, allow_graceful=False)
                start(lambda: self.cluster.add_node(wait=False, num_cpus=1, object_store_memory=80 * 2**20))
            yield chunk


@pytest.mark.cluster
@pytest.mark.parametrize("where", ["folder", "store"])
def test_a_cluster_that_loses_a_process_and_a_node_and_gains_one_ends_with_the_bytes_of_one_process(
    tmp_path: Path, cluster: Any, planted: Path, where: str
) -> None:
    network = models.build("bilstm", labels=2)
    if where == "store":  # where a model that is in memory only has no place
        heedful.save(network, tmp_path / "model")
        network = heedful.load(tmp_path / "model")
    texts = [Example(text) for text in toys.texts(112)]
    asked: dict[str, Any] = {"methods": ["attention-mean", "leave-one-out"], "checks": ["complexity", "sign", "cost"]}
    asked |= {"limit": len(texts)}
    disturbed = Disturbed(cluster)
    audit(network, texts, out=tmp_path / "one", **asked)
    with store.s3_server() if where == "store" else nullcontext() as query:
        place = place_of(f"s3://bucket/run?{query}" if query else tmp_path / "cluster")
        audit(network, texts, out=place, workers=disturbed, **asked)
        assert disturbed.before
        assert (place / "summary.json").read_bytes() == (tmp_path / "one" / "summary.json").read_bytes()
        names = {file.name for file in place.iterdir()}
        assert names == {"manifest.json", "parts", "summary.json", "timing.json", "report.html"}
        assert [file.name for file in (place / "parts").iterdir() if file.name.endswith(".part")] == []
    assert not (planted / "executed").exists()
