"""Workers: the CPU time of all processes of an audit, by one worker and by two; both runs must have the same bytes."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.material import Scale
from benchmarks.measure import Report, Row
from heedful.audits.run import SUMMARY

TEXTS = 128  # eight chunks: the start of a process is a part of the cost
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Spent:
    """CPU seconds of all processes, wall seconds, and the peak MB of the first process and of the others."""

    cpu: float
    wall: float
    peaks: tuple[int, int]


def run(scale: Scale) -> Report:
    """The package's sentences and model, in the default profile."""
    texts = scale.few(TEXTS, 32)
    with TemporaryDirectory(prefix="heedful-") as folder:
        one, two = (_audited(Path(folder) / f"{jobs}", texts, jobs) for jobs in (1, 2))
        same = len({(Path(folder) / name / SUMMARY).read_bytes() for name in ("1", "2")}) == 1
    memory = f"peak memory {two.peaks[0]:,} MB, of the second worker {two.peaks[1]:,} MB"
    row = Row(
        job="audit, CPU of two workers",
        on=f"{texts} sentences, heedful-default",
        against="one worker",
        theirs=one.cpu,
        ours=two.cpu,
        target=1.1,
        at_most=True,
        agreement=f"{'the same' if same else 'other'} bytes; wall {one.wall:.0f} s, {two.wall:.0f} s; {memory}",
    )
    return Report([row])


def _audited(folder: Path, texts: int, jobs: int) -> Spent:
    """What an audit costs as a command, the start of its processes included."""
    asked = ["audit", "corpus", "--limit", f"{texts}", "--jobs", f"{jobs}", "--out", str(folder)]
    before, start, peaks = _cpu(), time.monotonic(), (0, 0)
    with (folder.parent / "said").open("w") as said:
        process = subprocess.Popen([sys.executable, "-m", "heedful", *asked], stdout=said, stderr=said)
        while process.poll() is None:
            others = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            workers = others.read_text().split() if others.exists() else []
            peaks = max(peaks[0], _peak(process.pid)), max(peaks[1], *map(_peak, map(int, workers)), 0)
            time.sleep(POLL_SECONDS)
    if process.returncode:
        raise RuntimeError((folder.parent / "said").read_text())
    return Spent(_cpu() - before, time.monotonic() - start, peaks)


def _cpu() -> float:
    """CPU seconds of all processes that this one has awaited, and that they have."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _peak(pid: int) -> int:
    """The most memory that a process has held, in MB; 0 for one that ended."""
    try:
        held = re.search(r"^VmHWM:\s+([0-9]+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(held[1]) // 1024 if held else 0
