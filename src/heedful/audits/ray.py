"""Ray: the machines of a Ray cluster as workers. They must all see the folder of the run, and the model's.

Every chunk is a task. The machine that computes it loads the model once for each of its processes, compares the
fingerprints, and writes the part itself: only a few bytes come back. A chunk whose machine is lost is computed again,
as often as needed; it may then run on two machines at once, which is why a part is written as a whole and any two are
equal. What the user can correct is an error at once, and is not tried again.
"""

from __future__ import annotations

import json
import os
import platform
import time
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pkgutil import resolve_name
from typing import Any

from heedful.audits.workers import ReportShare, Work, silent
from heedful.core.errors import BadInput, HeedfulError, first_line
from heedful.core.files import temporary_folder

POLL_SECONDS = 1.0  # between two reports while tasks run
CANCEL_SECONDS = 10.0  # for tasks to end
MIN_WINDOW = 8  # tasks in flight on the smallest cluster: some that wait make an autoscaler start machines
MAX_REASON = 200  # characters of what Ray says
DONE, LATE, REFUSED = "done", "late", "refused"
ENVIRONMENT = {  # of Ray, unless the user has set them
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # otherwise it prints a warning
}
_INSTALL = "install it here and on every machine with: pip install 'heedful[ray]'"


@dataclass(frozen=True)
class Ray:
    """Workers: the machines of a Ray cluster, one task for each chunk.

    `address` is that of the cluster ("ray://head:10001", or "head:6379" on one of its machines); without one, that of
    RAY_ADDRESS or of the cluster on this machine, which is started if there is none. A task uses `cpus` processors and
    `gpus` graphics cards; at most `window` tasks are in flight (default: twice those that the cluster can run).
    The connection stays open for further work; `ray.shutdown()` closes it.
    """

    address: str | None = None
    cpus: float = 1.0
    gpus: float = 0.0
    window: int | None = None

    def __post_init__(self) -> None:
        if self.cpus < 0 or self.gpus < 0 or self.cpus + self.gpus == 0 or (self.window or 1) < 1:
            found = f"a task has {self.cpus:g} CPUs, {self.gpus:g} GPUs and a window of {self.window}"
            raise BadInput(f"{found}; give positive numbers.")

    @staticmethod
    def read(text: str, gpus: float = 0.0) -> Ray:
        """The workers that a text names: "ray", or "ray://head:10001"."""
        if text != "ray" and (not text.startswith("ray://") or text == "ray://"):
            raise BadInput(f"'{text}' is not a cluster; write ray, or ray://HOST:PORT.")
        return Ray(None if text == "ray" else text, gpus=gpus)

    def __call__(
        self, work: Work, chunks: Sequence[int], tell: ReportShare = silent, until: float | None = None
    ) -> Iterator[int]:
        """See `Workers`."""
        if not chunks:
            return
        ray = connect(self.address)
        self._warn_where_no_task_can_run(ray)
        # subtle: a task on a GPU ends its process by default, which would load the model for every chunk
        remote = ray.remote(max_calls=0, max_retries=-1, retry_exceptions=False)(_compute)
        task = remote.options(num_cpus=self.cpus, num_gpus=self.gpus, scheduling_strategy="SPREAD")
        deadline = None if until is None else time.time() + until - time.monotonic()
        with temporary_folder(work.place) as folder:
            content = json.dumps(work.describe(folder)).encode()
            # subtle: inside a list, the description is sent to a process when it asks, and not with every task
            sent = blake2b(content, digest_size=16).hexdigest(), [ray.put(content)]
            waiting, running = deque(chunks), dict[Any, int]()
            try:
                while waiting or running:
                    window = self.window or max(MIN_WINDOW, 2 * self._capacity(ray))
                    while waiting and len(running) < window:
                        chunk = waiting.popleft()
                        running[task.remote(*sent, chunk, None if chunk == chunks[0] else deadline)] = chunk
                    tell("waiting for the cluster", 0.0)
                    for ref in ray.wait(list(running), num_returns=1, timeout=POLL_SECONDS)[0]:
                        if _answer(ray, ref) == DONE:
                            yield running.pop(ref)
                        else:
                            running.pop(ref)
                            waiting.clear()
            finally:
                for ref in running:
                    with suppress(Exception):
                        ray.cancel(ref, force=True)
                with suppress(Exception):  # until they are gone: what follows may delete what they write
                    ray.wait(list(running), num_returns=len(running), timeout=CANCEL_SECONDS)

    def _capacity(self, ray: Any) -> int:
        """How many tasks the cluster can run at once."""
        return sum(self._tasks(node["Resources"]) for node in ray.nodes() if node["Alive"])

    def _tasks(self, resources: Mapping[str, float]) -> int:
        needs = {"CPU": self.cpus, "GPU": self.gpus}
        return min(int(resources.get(name, 0.0) // need) for name, need in needs.items() if need)

    def _warn_where_no_task_can_run(self, ray: Any) -> None:
        if self._capacity(ray) == 0:
            warnings.warn(
                f"no machine of the cluster has {self.cpus:g} CPUs and {self.gpus:g} GPUs, which a task needs; the run "
                "waits until one joins.",
                stacklevel=3,
            )


def connect(address: str | None = None) -> Any:
    """The module `ray`, connected to a cluster; one that is connected already stays as it is."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import ray
            from ray.job_config import JobConfig
        except ImportError as e:
            raise BadInput(f"Ray is not installed; {_INSTALL}") from e
        if ray.is_initialized():
            return ray
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if address is None or not address.startswith("ray://"):
            # subtle: otherwise Ray puts the current folder first on the import path of every worker: a torch.py lying
            # there would be executed
            options |= {"include_dashboard": False, "job_config": JobConfig(_client_job=True)}
        try:
            ray.init(address, **options)
        except ImportError as e:
            raise BadInput(f"the Ray client is not installed ({first_line(e)[:MAX_REASON]}); {_INSTALL}") from e
        except Exception as e:
            where = "started here" if address is None else f"reached at '{address}'"
            raise BadInput(
                f"Ray cannot be {where} ({first_line(e)[:MAX_REASON]}); check the address and the cluster."
            ) from e
    return ray


def _answer(ray: Any, ref: Any) -> str:
    """The answer of a finished task; an error where it was refused."""
    try:
        answer, reason = ray.get(ref)
    except ray.exceptions.RayTaskError as e:
        if "No module named 'heedful" in str(e):
            raise BadInput(f"heedful is not installed on a machine of the cluster; {_INSTALL}") from e
        raise
    except ray.exceptions.RayError as e:
        raise BadInput(f"Ray ended a task ({first_line(e)[:MAX_REASON]}); the same command resumes the run.") from e
    if answer == REFUSED:
        raise BadInput(reason)
    return str(answer)


# the side of a worker process


_WORK: dict[str, Work] = {}  # the last work of this process, with its model


def _compute(key: str, description: Sequence[Any], chunk: int, deadline: float | None) -> tuple[str, str]:
    """Compute a chunk of the work that this process has, or restores from its description."""
    if deadline is not None and time.time() > deadline:
        return LATE, ""
    try:
        if key not in _WORK:
            _WORK.clear()  # before another model is loaded
            _WORK[key] = _restore(description[0])
        _WORK[key].do(chunk)
    except HeedfulError as e:
        return REFUSED, str(e)
    return DONE, ""


def _restore(content: Any) -> Work:
    import ray

    described = json.loads(ray.get(content))
    try:
        work: Work = resolve_name(described["restore"])(described)
    except HeedfulError as e:
        raise BadInput(f"the machine {platform.node()} cannot begin: {e}") from e
    return work
