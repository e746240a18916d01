"""Objects: a folder in an object store (S3, Google Cloud, Azure), with the methods of a Path that a run uses.

A store has no rename; a put is atomic instead: an object is there as a whole or not at all.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, TypeGuard, cast
from urllib.parse import urlsplit

from heedful.core.errors import BadInput

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss")


@dataclass(frozen=True)
class Status:
    """The size and time of an object, named as those of a file."""

    st_size: int
    st_mtime_ns: int
    st_ino: int = 0


@dataclass(frozen=True)
class ObjectPath:
    """A place in a store: `key` is the bucket with the name; `scheme` and `query` are those of its URI."""

    scheme: str
    key: PurePosixPath
    query: str = ""
    store: Any = field(default=None, compare=False, repr=False)  # a pyarrow.fs.FileSystem

    @staticmethod
    def read(uri: str) -> ObjectPath:
        """The place that a URI names, such as "s3://bucket/run?region=eu-west-1"."""
        from pyarrow.fs import FileSystem

        parts = urlsplit(uri)
        try:
            if not parts.netloc or not parts.path.strip("/"):
                raise ValueError("it has no bucket, or no folder in it")
            store, key = FileSystem.from_uri(uri)
        except (OSError, ValueError, NotImplementedError) as e:
            reason = str(e).splitlines()[0].rstrip(".")
            raise BadInput(f"'{uri}' cannot be used ({reason}); write it as s3://bucket/folder.") from e
        return ObjectPath(parts.scheme, PurePosixPath(key), parts.query, store)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.key}" + (f"?{self.query}" if self.query else "")

    def __truediv__(self, name: str) -> ObjectPath:
        return ObjectPath(self.scheme, self.key / name, self.query, self.store)

    @property
    def name(self) -> str:
        """The last part."""
        return self.key.name

    @property
    def parent(self) -> ObjectPath:
        """The folder of this object."""
        return ObjectPath(self.scheme, self.key.parent, self.query, self.store)

    def absolute(self) -> ObjectPath:
        """As it is."""
        return self

    def exists(self) -> bool:
        """Whether there is such an object, or an object in this folder."""
        return bool(self._info().type.name != "NotFound")

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        return bool(self._info().type.name == "Directory")

    def is_file(self) -> bool:
        """Whether it is an object."""
        return bool(self._info().type.name == "File")

    def iterdir(self) -> Iterator[ObjectPath]:
        """What is in this folder."""
        from pyarrow.fs import FileSelector

        for info in self.store.get_file_info(FileSelector(str(self.key), allow_not_found=True)):
            yield self / PurePosixPath(info.path).name

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        """Nothing: a folder of a store is there with its first object."""

    def touch(self) -> None:
        """Put an empty object."""
        self.write_bytes(b"")

    def read_bytes(self) -> bytes:
        """The content of the object."""
        with self.store.open_input_stream(str(self.key)) as stream:
            content: bytes = stream.read()
        return content

    def write_bytes(self, content: bytes) -> None:
        """Put the object, as a whole or not at all."""
        # subtle: leaving a `with` after an error would complete the upload with what was written before it
        stream = self.store.open_output_stream(str(self.key))
        stream.write(content)
        stream.close()

    def open_input(self) -> Any:
        """The object as a file for pyarrow."""
        return self.store.open_input_file(str(self.key))

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the object."""
        try:
            self.store.delete_file(str(self.key))
        except FileNotFoundError:
            if not missing_ok:
                raise

    def stat(self) -> Status:
        """Its size and time."""
        info = self._info()
        if info.type.name != "File":
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        return Status(info.size, info.mtime_ns or int(datetime.now(UTC).timestamp() * 1e9))

    def _info(self) -> Any:
        return self.store.get_file_info(str(self.key))


def in_store(path: object) -> TypeGuard[ObjectPath]:
    """Whether this is a place in an object store."""
    return isinstance(path, ObjectPath)


def place_of(folder: str | Path) -> Path:
    """The folder that a user names: of this machine, or of an object store."""
    if in_store(folder):
        return cast(Path, folder)
    scheme, separator, _ = str(folder).partition("://")
    if isinstance(folder, str) and separator and scheme in SCHEMES:
        # subtle: an ObjectPath is no Path, but has all its methods that are used on the folder of a run
        return cast(Path, ObjectPath.read(folder))
    return Path(folder).expanduser()
