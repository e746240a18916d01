"""Work for workers: without torch, so that a process begins at once."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from heedful.audits.workers import ReportShare, silent
from heedful.core.errors import BadInput


@dataclass(frozen=True)
class Numbers:
    """Writes the process that did a chunk to a file of the chunk's number."""

    folder: Path
    deadly: int = -1  # another process that does this chunk dies
    endless: int = -1  # another process that does this chunk does not end
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
        if chunk == self.endless and os.getpid() != self.parent:
            (self.folder / "begun").touch()
            time.sleep(600)
        time.sleep(0.05)
        (self.folder / f"{chunk}").write_text(str(os.getpid()))

    def describe(self, folder: Path) -> Mapping[str, Any]:
        fields = {"deadly": self.deadly, "endless": self.endless, "parent": self.parent}
        return {"restore": f"{__name__}:Numbers.restore", "folder": str(self.folder), **fields}

    @classmethod
    def restore(cls, described: Mapping[str, Any]) -> Numbers:
        return cls(Path(described["folder"]), described["deadly"], described["endless"], described["parent"])


class Sleepy:
    """Work that takes a minute."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        self.folder = Path(described["folder"])

    def do(self, chunk: int, tell: ReportShare = silent) -> None:
        print("what a library prints is no answer")
        (self.folder / "begun").write_text("")
        time.sleep(60)


@dataclass(frozen=True)
class Recorded:
    """Appends a line to the file of a chunk whenever it is begun, and one to `restored` in each process."""

    folder: Path
    bad: int = -1  # this chunk is refused
    deadly: int = -1  # a process that is the first to begin this chunk dies
    imports: str = "os"  # a module that other processes import

    @property
    def place(self) -> Path:
        return self.folder

    def do(self, chunk: int, tell: ReportShare = silent) -> None:
        self._append(f"{chunk}")
        if chunk == self.bad:
            raise BadInput(f"chunk {chunk} is bad; give a good one.")
        if chunk == self.deadly and len(self.lines(f"{chunk}")) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.05)

    def lines(self, name: str) -> list[str]:
        return (self.folder / name).read_text().split()

    def _append(self, name: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(f"{os.getpid()}\n")

    def describe(self, folder: Path) -> Mapping[str, Any]:
        fields = {"folder": str(self.folder), "bad": self.bad, "deadly": self.deadly, "imports": self.imports}
        return {"restore": f"{__name__}:Recorded.restore", **fields}

    @classmethod
    def restore(cls, described: Mapping[str, Any]) -> Recorded:
        work = cls(Path(described["folder"]), described["bad"], described["deadly"])
        import_module(described["imports"])
        work._append("restored")
        return work
