"""Objects: a folder in an object store (S3, Google Cloud, Azure), with the methods of a Path that a run uses.

A store has no rename; a put is atomic instead: an object is there as a whole or not at all.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, TypeGuard, cast
from urllib.parse import quote, urlsplit

from heedful.core.errors import BadInput, first_line

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss")
_UNQUOTED = "!$&'()*+,;=:@-._~"  # of a part of a path


@dataclass(frozen=True)
class Status:
    """The size and time of an object, named as those of a file."""

    st_size: int
    st_mtime_ns: int
    st_ino: int = 0


@dataclass(frozen=True)
class ObjectPath:
    """A place in a store: `key` is the bucket with the name; the other parts are those of its URI.

    `authority` may name the bucket, a user with a password, or an account; the first `outside` parts of the key are in
    it, and not in the URI's path.
    """

    scheme: str
    key: PurePosixPath
    query: str = ""
    store: Any = field(default=None, compare=False, repr=False)  # a pyarrow.fs.FileSystem
    authority: str = field(default="", repr=False)
    outside: int = 1

    @staticmethod
    def read(uri: str) -> ObjectPath:
        """The place that a URI names, such as "s3://bucket/run?region=eu-west-1"."""
        from pyarrow.fs import FileSystem

        parts = urlsplit(uri)
        try:
            if not parts.netloc or not parts.path.strip("/"):
                raise ValueError("it has no bucket, or no folder in it")
            store, key = FileSystem.from_uri(parts._replace(scheme=parts.scheme.lower()).geturl())
        except (ValueError, NotImplementedError) as e:
            raise BadInput(
                f"'{without_password(uri)}' cannot be used ({first_line(e)}); write it as s3://bucket/folder."
            ) from e
        except OSError as e:
            raise BadInput(
                f"'{without_password(uri)}' cannot be reached ({first_line(e)}); check the address, the credentials "
                "and the network."
            ) from e
        place = PurePosixPath(key)
        inside = len(PurePosixPath(parts.path.strip("/")).parts)
        return ObjectPath(
            parts.scheme.lower(), place, parts.query, store, parts.netloc, max(0, len(place.parts) - inside)
        )

    @property
    def uri(self) -> str:
        """What names it for another process: with the password, if there is one."""
        path = "/".join(quote(part, safe=_UNQUOTED) for part in self.key.parts[self.outside :])
        authority = self.authority or self.key.parts[0]
        return f"{self.scheme}://{authority}/{path}" + (f"?{self.query}" if self.query else "")

    def __str__(self) -> str:
        return without_password(self.uri)

    def __truediv__(self, name: str) -> ObjectPath:
        return replace(self, key=self.key / name)

    @property
    def name(self) -> str:
        """The last part."""
        return self.key.name

    @property
    def parent(self) -> ObjectPath:
        """The folder of this object."""
        return replace(self, key=self.key.parent)

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

    def is_symlink(self) -> bool:
        """A store has no links."""
        return False

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
    if isinstance(folder, str) and separator:
        if scheme.lower() not in SCHEMES:
            raise BadInput(
                f"'{folder}' is not in a store that is supported; give a folder, s3://…, gs://… or abfs://…."
            )
        # subtle: an ObjectPath is no Path, but has all its methods that are used on the folder of a run
        return cast(Path, ObjectPath.read(folder))
    return Path(folder).expanduser()


def address(place: Path) -> str:
    """What names a folder for another process."""
    return place.uri if in_store(place) else str(place.absolute())


def without_password(uri: str) -> str:
    """A URI that may be shown: without a user and a password before the bucket."""
    return re.sub(r"^([a-z0-9]+://)[^/@]*:[^/@]*@", r"\1", uri, flags=re.IGNORECASE)
