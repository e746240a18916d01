"""Writing files whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from heedful.core.errors import BadInput


@contextmanager
def output(path: str | None, what: str = "page") -> Iterator[Callable[[bytes], None] | None]:
    """A function that writes beside the wanted file and moves it there: nothing half-written is left behind.

    The file beside it is made at once, so that an unwritable path is refused before anything slow.
    """
    if path is None:
        yield None
        return
    target = Path(path)
    with _writing(path):
        if target.is_dir():
            raise BadInput(f"'{path}' is a folder; give a file name for the {what}.")
        if target.exists() and not target.is_file():  # /dev/null would be replaced by the page
            raise BadInput(f"'{path}' is not a plain file; give a file name for the {what}.")
        target = target.resolve()
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=".heedful-", suffix=".part")
        os.close(handle)
    part = Path(name)

    def write(content: bytes) -> None:
        with _writing(path):
            part.write_bytes(content)
            part.chmod(0o644)
            part.replace(target)

    try:
        yield write
    finally:
        part.unlink(missing_ok=True)


def whole(file: Path, write: Callable[[Path], object]) -> None:
    """Let `write` write beside the file, and move it there."""
    part = file.with_name(f".{file.name}.part")
    with _writing(str(file)):
        write(part)
        part.replace(file)


@contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise BadInput(f"'{path}' cannot be written ({e.strerror}); choose another file.") from e
