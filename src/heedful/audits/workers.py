"""Workers: what computes the chunks of a run. They take chunks, and yield each when its part is stored.

`in_process` computes them here; `Processes` shares them with other processes on this machine; `shares.Share` and
`ray.Ray` are for several machines. Another process gets the work as JSON. It does not run the command line again, and
imports nothing from the current folder.

python -P -m heedful.audits.workers work.json     numbers of chunks on stdin; "ready", then each number, on stdout
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from queue import Empty, SimpleQueue
from typing import IO, Any, Protocol

from heedful.core.errors import BadInput, HeedfulError
from heedful.core.files import scratch_folder

ReportShare = Callable[[str, float], None]  # the method or check that runs, and the finished share of the chunk
POLL_SECONDS = 0.2  # between two reports while other processes finish
HUNG_SECONDS, HUNG_TIMES = 300.0, 10.0  # a process hangs that needs longer for a chunk, and so often the longest before


def silent(doing: str, share: float) -> None:
    """A `ReportShare` that does nothing."""


class Work(Protocol):
    """Chunks by number. Any process may compute any chunk, in any order; computed twice, a chunk is the same part."""

    @property
    def place(self) -> Path:
        """The folder of the parts, which every worker sees."""
        ...

    def do(self, chunk: int, tell: ReportShare = silent) -> None:
        """Compute a chunk and store its part, as a whole or not at all."""
        ...

    def describe(self, folder: Path) -> Mapping[str, Any]:
        """The work as JSON; `restore` names the function ("module:name") that restores the work from it.

        What is too large for JSON goes into `folder`, which exists until the work is done.
        """
        ...


class Workers(Protocol):
    """What computes the chunks of some work."""

    def __call__(
        self, work: Work, chunks: Sequence[int], tell: ReportShare = silent, until: float | None = None
    ) -> Iterator[int]:
        """Compute the chunks, in any order, and yield the number of each when its part is stored.

        `tell` is called with the progress of this process. After `until` (of `time.monotonic`) no chunk is started,
        except the first.
        """
        ...


def in_process(
    work: Work, chunks: Sequence[int], tell: ReportShare = silent, until: float | None = None
) -> Iterator[int]:
    """Workers: this process alone."""
    for i, chunk in enumerate(chunks):
        if i and until is not None and time.monotonic() > until:
            return
        work.do(chunk, tell)
        yield chunk


@dataclass(frozen=True)
class Processes:
    """Workers: `count` processes, of which this one is the first.

    When another one dies, a warning shows its last line, and the others compute its chunks. One that this one would
    wait for without end is killed. All end with this one.
    """

    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise BadInput(f"jobs is {self.count}; give at least 1.")

    def __call__(
        self, work: Work, chunks: Sequence[int], tell: ReportShare = silent, until: float | None = None
    ) -> Iterator[int]:
        """See `Workers`."""
        if not chunks:
            return
        waiting = _Waiting(chunks, until)
        events: SimpleQueue[int | str] = SimpleQueue()  # a chunk that another process finished, or how one died
        with scratch_folder() as folder:
            (folder / "work.json").write_text(json.dumps(work.describe(folder)), "utf-8")
            with _started(folder, min(self.count, len(chunks)) - 1, waiting, events):
                while True:
                    chunk = waiting.take()
                    if chunk is not None:
                        work.do(chunk, tell)
                        waiting.finish(chunk)
                        yield chunk
                    elif waiting.running:
                        tell("waiting for other processes", 0.0)
                        waiting.kill_hung()
                    elif events.empty():
                        return
                    yield from _finished_elsewhere(events, POLL_SECONDS if chunk is None else 0.0)


def _finished_elsewhere(events: SimpleQueue[int | str], seconds: float) -> Iterator[int]:
    """Chunks that other processes finished; waits at most `seconds` for the first event."""
    try:
        while True:
            event = events.get(timeout=seconds) if seconds else events.get_nowait()
            seconds = 0.0
            if isinstance(event, int):
                yield event
            else:
                warnings.warn(event, stacklevel=3)
    except Empty:
        return


class _Waiting:
    """Chunks that no process has started, and those that are running; shared by threads."""

    def __init__(self, chunks: Sequence[int], until: float | None) -> None:
        self._chunks, self._until, self._lock = deque(chunks), until, threading.Lock()
        self._running: dict[int, tuple[float, Callable[[], None]]] = {}  # since when, and what ends the process
        self._longest = 0.0  # seconds of a chunk
        self.started = 0

    @property
    def running(self) -> int:
        """How many chunks were taken and are not finished."""
        return len(self._running)

    def take(self, kill: Callable[[], None] = lambda: None) -> int | None:
        """The next chunk; None if there is none, or no time. `kill` ends the process that takes it."""
        with self._lock:
            late = self.started > 0 and self._until is not None and time.monotonic() > self._until
            if late or not self._chunks:
                return None
            self.started += 1
            chunk = self._chunks.popleft()
            self._running[chunk] = time.monotonic(), kill
            return chunk

    def finish(self, chunk: int) -> None:
        """Count a chunk that was taken as finished."""
        with self._lock:
            self._longest = max(self._longest, time.monotonic() - self._running.pop(chunk)[0])

    def give_back(self, chunk: int) -> bool:
        """Put back a chunk that was taken and not finished; whether its process hung and was killed."""
        with self._lock:
            self._chunks.appendleft(chunk)
            return self._running.pop(chunk)[0] == math.inf

    def kill_hung(self) -> None:
        """End the processes that hang, as far as the time of finished chunks tells; they give back what they took."""
        with self._lock:
            limit = max(HUNG_SECONDS, HUNG_TIMES * self._longest)
            for chunk, (since, kill) in self._running.items():
                if time.monotonic() - since > limit:
                    self._running[chunk] = math.inf, kill
                    kill()


# the side that starts processes


@contextmanager
def _started(folder: Path, count: int, waiting: _Waiting, events: SimpleQueue[int | str]) -> Iterator[None]:
    """Other processes, each with a thread that feeds it; ended on leaving."""
    processes: list[tuple[subprocess.Popen[str], threading.Thread]] = []
    try:
        for i in range(count):
            errors = folder / f"stderr{i}"
            with errors.open("w") as stream:
                process = _start(folder / "work.json", stream)
            thread = threading.Thread(target=_feed, args=(process, errors, waiting, events), daemon=True)
            processes.append((process, thread))
            thread.start()
        yield
    finally:
        for process, thread in processes:
            process.kill()
            with process, suppress(OSError):  # closes the pipes
                thread.join()


def _start(work: Path, stderr: IO[str]) -> subprocess.Popen[str]:
    # subtle: "python -m" puts the current folder first on the import path, and so does an empty or relative entry of
    # PYTHONPATH that means it: a torch.py lying there would be executed
    here = Path.cwd()
    paths = [Path(entry).absolute() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    entries = [str(path) for path in paths if path.resolve() != here.resolve()]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, str(work)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(entries), "PYTHONSAFEPATH": "1"},
        text=True,
    )


def _feed(process: subprocess.Popen[str], errors: Path, waiting: _Waiting, events: SimpleQueue[int | str]) -> None:
    """Give a process one chunk at a time, once it is ready; a chunk that it does not finish goes back."""
    assert process.stdin is not None
    assert process.stdout is not None
    alive = bool(process.stdout.readline())
    hung = False
    while alive and (chunk := waiting.take(process.kill)) is not None:
        try:
            process.stdin.write(f"{chunk}\n")
            process.stdin.flush()
            alive = bool(process.stdout.readline())
        except OSError:
            alive = False
        if alive:
            events.put(chunk)
            waiting.finish(chunk)
        else:
            hung = waiting.give_back(chunk)
    if not alive:
        code = process.wait()
        lines = [line.strip() for line in errors.read_text("utf-8", "replace").splitlines() if line.strip()]
        reason = lines[-1] if lines else f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        what = "hung" if hung else f"died ({reason.rstrip('.')})"
        events.put(f"a worker process {what}; the other processes take over its texts.")


# the side of a process that was started


def main(file: str) -> None:
    """Compute the chunks whose numbers come from stdin, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one gets it too, and ends both
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries that print must not write among the answers
    chunks: SimpleQueue[int] = SimpleQueue()
    threading.Thread(target=_listen, args=(chunks,), daemon=True).start()
    description = json.loads(Path(file).read_text("utf-8"))
    try:
        work: Work = resolve_name(description["restore"])(description)
        print("ready", file=answers, flush=True)
        while True:
            chunk = chunks.get()
            work.do(chunk)
            print(chunk, file=answers, flush=True)
    except HeedfulError as e:
        sys.exit(str(e))


def _listen(chunks: SimpleQueue[int]) -> None:
    for line in sys.stdin:
        chunks.put(int(line))
    os._exit(0)  # the process that started this one has no more work, or is gone


if __name__ == "__main__":
    main(sys.argv[1])
