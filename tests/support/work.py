"""Work for workers: without torch, so that a process begins at once."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heedful.audits.workers import ReportShare, silent


@dataclass(frozen=True)
class Numbers:
    """Writes the process that did a chunk to a file of the chunk's number."""

    folder: Path
    deadly: int = -1  # another process that does this chunk dies
    parent: int = field(default_factory=os.getpid)

    @property
    def place(self) -> Path:
        return self.folder

    def do(self, chunk: int, tell: ReportShare = silent) -> None:
        tell("writing", 0.5)
        if chunk == self.deadly and os.getpid() != self.parent:
            sys.stderr.write("a first line\nthe last words\n\n")
            sys.stderr.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.05)
        (self.folder / f"{chunk}").write_text(str(os.getpid()))

    def describe(self, folder: Path) -> Mapping[str, Any]:
        fields = {"folder": str(self.folder), "deadly": self.deadly, "parent": self.parent}
        return {"restore": f"{__name__}:Numbers.restore", **fields}

    @classmethod
    def restore(cls, described: Mapping[str, Any]) -> Numbers:
        return cls(Path(described["folder"]), described["deadly"], described["parent"])


class Sleepy:
    """Work that takes a minute."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        self.folder = Path(described["folder"])

    def do(self, chunk: int, tell: ReportShare = silent) -> None:
        print("what a library prints is no answer")
        (self.folder / "begun").write_text("")
        time.sleep(60)
