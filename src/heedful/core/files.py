"""Files: atomic writes, and JSON in which equal values have equal bytes."""

from __future__ import annotations

import errno
import json
import math
import os
import platform
import re
import secrets
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from heedful.core.errors import BadInput
from heedful.core.objects import in_store

JSON_WIDTH = 120  # of a line of JSON
ABANDONED_SECONDS = 86_400  # after which the temporary file of another machine counts as left behind
# a file that a process of a machine is writing
_PART = re.compile(r"\.(?P<name>.+)\.(?P<host>[\w-]+)\.(?P<pid>[0-9]+)\.[0-9a-f]{16}\.part")


def _host() -> str:
    """This machine: its name, and a digest of this boot of it and of the namespace of its processes.

    Two machines or containers may have one name; then the number of a process says nothing about the other's.
    """
    try:
        facts = [Path("/proc/sys/kernel/random/boot_id").read_text("utf-8"), str(Path("/proc/self/ns/pid").readlink())]
    except OSError:  # not Linux
        facts = [str(uuid.getnode())]
    digest = blake2b("\n".join([platform.node(), *facts]).encode(), digest_size=4).hexdigest()
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', platform.node())[:40]}-{digest}"


HOST = _host()


# files


def write_files(files: Mapping[Path, bytes | Callable[[Path], object]]) -> None:
    """Write all files under temporary names, then rename them in this order: the last one marks the end.

    A content is bytes, or a function that writes them to a path. After an error before the renames (a full disk, an
    interrupt) the former files are unchanged. In an object store, which has no renames, they are put in this order.
    """
    if any(in_store(file) for file in files):
        for file, content in files.items():
            assert isinstance(content, bytes)
            with write_errors(file):
                file.write_bytes(content)
        return
    parts: dict[Path, Path] = {}
    try:
        for file, content in files.items():
            with write_errors(file):
                part = parts[file] = _new_part(file)
                content(part) if callable(content) else part.write_bytes(content)
                _sync(part, os.O_RDWR)
        for file, part in parts.items():
            with write_errors(file):
                part.replace(file)
        for folder in {file.parent for file in files}:
            with write_errors(folder):
                if os.name != "nt":  # Windows cannot open folders
                    _sync(folder, os.O_RDONLY)
    finally:
        for part in parts.values():
            with suppress(OSError):
                part.unlink()


def write_new(file: Path, content: bytes) -> bool:
    """Write a file that must not exist; False, and no change, where another process was first.

    In an object store, of two processes at the same moment both may be first.
    """
    with write_errors(file):
        if in_store(file):
            if not (there := file.exists()):
                file.write_bytes(content)
            return not there
        part = _new_part(file)
        try:
            part.write_bytes(content)
            _sync(part, os.O_RDWR)
            try:
                os.link(part, file)  # unlike a rename, it never replaces a file
            except FileExistsError:
                return False
            except OSError:  # a file system without links
                if file.exists():
                    return False
                part.replace(file)
            return True
        finally:
            part.unlink(missing_ok=True)


def write_folder(folder: Path, fill: Callable[[Path], object]) -> None:
    """Write the files that a function writes into an empty folder, under names of its own, as `write_files` does."""
    with write_errors(folder), temporary_folder(folder) as made:
        made.mkdir(parents=True)
        fill(made)
        files = {folder / file.relative_to(made): file.replace for file in sorted(made.rglob("*")) if file.is_file()}
        for inner in {file.parent for file in files}:
            inner.mkdir(parents=True, exist_ok=True)
        write_files(files)


@contextmanager
def temporary_folder(place: Path) -> Iterator[Path]:
    """The path of a folder inside another, for what other machines read until the block ends. It is not made yet.

    For an object store it is on this machine only.
    """
    folder = _part_name((Path(tempfile.gettempdir()) if in_store(place) else place) / "shared")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder of this process alone, deleted at the end; those that killed processes left are deleted now."""
    place = Path(tempfile.gettempdir())
    sweep(place)
    with temporary_folder(place) as folder:
        folder.mkdir(mode=0o700)
        yield folder


@contextmanager
def output(path: str | None, what: str = "page", follow: bool = True) -> Iterator[Callable[[bytes], None] | None]:
    """A function that writes the file, or None without a path. A path that cannot be written is refused at once.

    A link that the user names stays a link; without `follow` it is replaced, since anybody may have put it there.
    """
    if path is None:
        yield None
        return
    target = Path(path)
    with write_errors(target):
        if target.is_dir():
            raise BadInput(f"'{path}' is a folder; give a file name for the {what}.")
        if target.exists() and not target.is_file():  # /dev/null would be replaced by the page
            raise BadInput(f"'{path}' is not a regular file; give a file name for the {what}.")
        place = target.resolve() if follow else target.parent.resolve() / target.name
        part = _new_part(place)
        sweep(place.parent, place.name)
    try:
        yield lambda content: write_files({place: content})
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def output_folder(path: str | None) -> Iterator[Path | None]:
    """A folder for files, made if it is missing; one that cannot be written is refused at once. None without a path.

    A folder that was made and stays empty, as after an error, is removed.
    """
    if path is None:
        yield None
        return
    folder = Path(path)
    with write_errors(folder):
        if folder.exists() and not folder.is_dir():
            raise BadInput(f"'{path}' is a file; give a folder.")
        missing = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
    probe(folder)
    sweep(folder)
    try:
        yield folder
    finally:
        if missing:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


def _new_part(file: Path) -> Path:
    """A new empty file beside this one, under a temporary name.

    The name has the machine and the process, so that others can see whether its writer runs, and a random token: nobody
    can have put a file or a link of that name there before.
    """
    part = _part_name(file)
    part.open("xb").close()
    return part


def _part_name(file: Path) -> Path:
    return file.with_name(f".{_short(file.name)}.{HOST}.{os.getpid()}.{secrets.token_hex(8)}.part")


def _short(name: str) -> str:
    """What a temporary name has of the file's name, which may be as long as the file system allows."""
    return name[-30:]


def _sync(path: Path, mode: int) -> None:
    """Flush a file or folder to the disk."""
    handle = os.open(path, mode)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Report an error of the file system in one sentence."""
    try:
        yield
    except OSError as e:
        full = e.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free disk space and run the command again" if full else "choose another path"
        raise BadInput(f"'{path}' cannot be written ({e.strerror or e}); {remedy}.") from e


def probe(folder: Path) -> None:
    """Refuse a folder that cannot be written."""
    with write_errors(folder):
        if in_store(folder):
            part = folder / _part_name(Path("probe")).name
            part.touch()
            part.unlink()
        else:
            _new_part(folder / "probe").unlink()


def leftover(name: str) -> bool:
    """Whether this is the temporary name of a file, left by a process that still writes it or was killed."""
    return _PART.fullmatch(name) is not None


def sweep(folder: Path, name: str | None = None) -> None:
    """Delete the temporary files and folders of killed processes, or those of one file; those of running ones stay.

    A process of another machine counts as killed when its file is a day old. An object store has none: an object is
    put as a whole.
    """
    for file in folder.iterdir() if not in_store(folder) else ():
        match = _PART.fullmatch(file.name)
        if match is None or (name is not None and match["name"] != _short(name)):
            continue
        with suppress(OSError):  # another process deleted it, or another user owns it
            if not _written(file, match["host"], int(match["pid"])):
                shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink()


def _written(part: Path, host: str, pid: int) -> bool:
    """Whether a process may still be writing a temporary file."""
    return _alive(pid) if host == HOST else time.time() - part.lstat().st_mtime < ABANDONED_SECONDS


def _alive(pid: int) -> bool:
    if os.name == "nt":  # on Windows, signal 0 would interrupt the process
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's process
        pass
    return True


# JSON


def json_value(value: Any) -> Any:
    """A value in JSON types: mappings with string keys, lists, numbers, and null for NaN and infinity.

    A dataclass is a mapping of its fields.
    """
    if value is None or isinstance(value, (str, int)):
        return value
    if is_dataclass(value):
        return {f.name: json_value(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): json_value(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(inner) for inner in value]
    if hasattr(value, "tolist"):  # arrays and their numbers
        return json_value(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def sorted_keys(value: Any) -> Any:
    """The value with keys sorted at every level, so that equal values have equal bytes."""
    if isinstance(value, Mapping):
        named = {str(key): inner for key, inner in value.items()}
        return {key: sorted_keys(named[key]) for key in sorted(named)}
    return [sorted_keys(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def compact(value: Any) -> str:
    """JSON on one line, keys in their order."""
    try:
        return _ONE_LINE.encode(value)
    except (ValueError, TypeError):  # NaN, or an array
        return _ONE_LINE.encode(json_value(value))


def pretty(value: Any) -> bytes:
    """Indented JSON, keys in their order."""
    return (_lines(json_value(value), "") + "\n").encode()


def _lines(value: Any, margin: str) -> str:
    """A value on one line if it fits."""
    line = _SPACED.encode(value)
    if len(margin) + len(line) <= JSON_WIDTH or not isinstance(value, (dict, list)) or not value:
        return line
    inner = margin + " "
    if isinstance(value, dict):
        items = [f"{_SPACED.encode(key)}: {_lines(value[key], inner)}" for key in value]
    else:
        items = [_lines(item, inner) for item in value]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n{inner}" + f",\n{inner}".join(items) + f"\n{margin}{last}"


_ONE_LINE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_SPACED = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
