"""Rows: what a reader gives, and what all readers share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heedful.core.errors import BadInput
from heedful.data.columns import Columns


@dataclass(frozen=True)
class Drop:
    """A text of the data that is not used, and the reason, such as "with fewer than 6 words"."""

    reason: str


FileRow = tuple[str, Mapping[str, Any] | Drop]  # ("'reviews.csv' line 17", {"text": …})
Reader = Callable[[Path, Columns], Iterator[FileRow]]


def numbered_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Each line with its number and line end; only "\\n" ends a line, and a byte order mark is dropped."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                yield number, raw.decode("utf-8-sig" if number == 1 and encoding == "utf-8" else encoding)
            except UnicodeDecodeError as e:
                raise not_utf8(path, number, raw[e.start]) from e


def content(path: Path, encoding: str = "utf-8") -> str:
    """A whole file, without the line ends at its end."""
    return "".join(line for _, line in numbered_lines(path, encoding)).rstrip("\r\n")


def not_utf8(path: Path, line: int, byte: int) -> BadInput:
    """The error about a line in another encoding."""
    return BadInput(f"'{path}' line {line} is not UTF-8 (byte 0x{byte:02x}); save the file as UTF-8.")
