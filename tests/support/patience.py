"""Patience: how long a test waits for another process, before it fails and says where."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE_SECONDS = 300  # on a very busy machine; no process of a test lives longer


@contextmanager
def limited(*processes: subprocess.Popen[Any]) -> Iterator[None]:
    """Processes that are killed on leaving, and after PATIENCE_SECONDS: what reads from them then comes to an end."""
    timers = [threading.Timer(PATIENCE_SECONDS, process.kill) for process in processes]
    try:
        for timer in timers:
            timer.start()
        yield
    finally:
        for timer, process in zip(timers, processes, strict=True):
            timer.cancel()
            process.kill()
            process.wait()
