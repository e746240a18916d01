"""Storing: files that are whole or not there, whoever is killed while writing, and JSON with one form per value."""

from __future__ import annotations

import errno
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from heedful.core.errors import BadInput

WIDTH = 120  # of a line of JSON
_LEFT = re.compile(r"\.(?P<name>.+)\.(?P<pid>[0-9]+)\.part")  # a file that a process is writing


# files


def put(files: Mapping[Path, bytes]) -> None:
    """Write all of them beside their places, and only then move them there, in this order: the last says "finished".

    Whatever goes wrong before the moving, a full disk or an interrupt, leaves what was there as it was.
    """
    parts = {file: file.with_name(f".{file.name}.{os.getpid()}.part") for file in files}
    try:
        for file, content in files.items():
            with writing(file):
                _fill(parts[file], content)
        for file, part in parts.items():
            with writing(file):
                os.replace(part, file)  # noqa: PTH105
        for folder in {file.parent for file in files}:
            with writing(folder):
                _settle(folder)
    finally:
        for part in parts.values():
            with suppress(OSError):
                part.unlink()


def _fill(part: Path, content: bytes) -> None:
    """On the disk, and not only on its way there."""
    with part.open("wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())


def _settle(folder: Path) -> None:
    """A crash of the machine shall not undo the moves."""
    if os.name == "nt":  # no folder can be opened there
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """An error of the file system is told in one sentence."""
    try:
        yield
    except OSError as e:
        full = e.errno in (errno.ENOSPC, errno.EDQUOT)
        do = "make room and repeat the command: it goes on where it stopped" if full else "give another folder (--out)"
        raise BadInput(f"'{path}' cannot be written ({e.strerror or e}); {do}.") from e


def probe(folder: Path) -> None:
    """Refuse at once a folder that cannot be written into."""
    part = folder / f".probe.{os.getpid()}.part"
    with writing(folder):
        part.write_bytes(b"")
        part.unlink()


def leftover(name: str) -> bool:
    """Whether this is the name of a file that some process is writing, or was when it was killed."""
    return _LEFT.fullmatch(name) is not None


def sweep(folder: Path) -> None:
    """Remove what killed processes were writing; the files of processes that live stay."""
    for file in folder.iterdir():
        found = _LEFT.fullmatch(file.name)
        if found is not None and not _lives(int(found["pid"])):
            with suppress(OSError):  # another process was faster, or it is another user's
                file.unlink()


def _lives(pid: int) -> bool:
    if os.name == "nt":  # a signal 0 would interrupt it there
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


# JSON


def plain(value: Any) -> Any:
    """What JSON can say: mappings with names for keys, lists, and null where a number is none (NaN, infinity)."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if hasattr(value, "tolist"):  # arrays and their numbers
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def ordered(value: Any) -> Any:
    """With names sorted, all the way down: equal values are then equal bytes."""
    if isinstance(value, Mapping):
        named = {str(key): inner for key, inner in value.items()}
        return {key: ordered(named[key]) for key in sorted(named)}
    return [ordered(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def compact(value: Any) -> str:
    """JSON on one line, in the order given."""
    try:
        return _ONE_LINE.encode(value)
    except (ValueError, TypeError):  # NaN, or an array
        return _ONE_LINE.encode(plain(value))


def pretty(value: Any) -> bytes:
    """JSON for readers, in the order given."""
    return (_lines(plain(value), "") + "\n").encode()


def _lines(value: Any, margin: str) -> str:
    """What fits a line is on one."""
    if not isinstance(value, (dict, list)) or not value:
        return _SPACED.encode(value)
    inner = margin + " "
    if isinstance(value, dict):
        shown = [f"{_SPACED.encode(key)}: {_lines(value[key], inner)}" for key in value]
    else:
        shown = [_lines(each, inner) for each in value]
    first, last = "{}" if isinstance(value, dict) else "[]"
    if len(margin) + sum(len(s) + 2 for s in shown) <= WIDTH and not any("\n" in s for s in shown):
        return f"{first}{', '.join(shown)}{last}"
    return f"{first}\n{inner}" + f",\n{inner}".join(shown) + f"\n{margin}{last}"


_ONE_LINE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_SPACED = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
