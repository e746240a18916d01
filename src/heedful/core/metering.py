"""Metering: CPU seconds and the peak of memory, of one piece of work. They differ from run to run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class Meter:
    """What the work took: CPU seconds of this process, and bytes above what was held before; None where unknown."""

    seconds: float = 0.0
    bytes: int | None = None


@contextmanager
def metered() -> Iterator[Meter]:
    """Fill in a Meter when the work is done."""
    meter = Meter()
    before, start = _held(reset=True), time.process_time()
    try:
        yield meter
    finally:
        meter.seconds = time.process_time() - start
        after = _held()
        meter.bytes = None if before is None or after is None else max(0, after - before)


def _held(reset: bool = False) -> int | None:
    """The peak of memory since the last reset, in bytes; Linux tells, and forgets it on demand."""
    try:
        if reset:
            _RESET.write_text("5")
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        return None
