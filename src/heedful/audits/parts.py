"""Parts: the findings on the texts of one chunk of a run, as Parquet.

Findings are sorted, with one group of rows for each check, so that one check is read without the others. Pages carry
checksums: a damaged part is an error and never another number. Equal findings are equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from heedful.core.errors import BadInput, first_line
from heedful.core.files import compact
from heedful.core.finding import Finding
from heedful.core.objects import in_store

FindingRow = tuple[str, str, str, str, int, float, str | None]  # check, method, measure, place, text, value, details
_NAME = pa.dictionary(pa.int32(), pa.string())

FINDINGS = pa.schema(
    [
        pa.field("text", pa.int32(), nullable=False),  # its position in the run's order
        pa.field("check", _NAME),
        pa.field("method", _NAME),
        pa.field("measure", _NAME),
        pa.field("at", _NAME),
        pa.field("value", pa.float64(), nullable=False),  # NaN does not exist for this text
        pa.field("details", pa.string()),
    ]
)

TEXTS_SCHEMA = pa.schema(
    [
        pa.field("number", pa.int32(), nullable=False),  # position in the run's order
        pa.field("index", pa.int64(), nullable=False),  # line in the data
        pa.field("text", pa.string()),
        pa.field("pair", pa.string()),
        pa.field("label", pa.string()),
        pa.field("predicted", pa.string()),
        pa.field("probabilities", pa.list_(pa.float64())),
        pa.field("pieces", pa.list_(pa.string())),
        pa.field("starts", pa.list_(pa.int32())),  # characters [start, end) of a piece; -1 for none
        pa.field("ends", pa.list_(pa.int32())),
        pa.field("segments", pa.list_(pa.int8())),
        pa.field(
            "scores",
            pa.list_(pa.struct([("method", pa.string()), ("scores", pa.list_(pa.float32())), ("signed", pa.bool_())])),
        ),
    ]
)


@dataclass(frozen=True)
class Stamp:
    """The metadata of a part: the run and the chunk it belongs to, its texts, and the check of each row group.

    `fingerprint` is that of the texts with their numbers: a part is never taken for one of another chunk. `sources` are
    those of `Manifest.sources` from which it was computed.
    """

    run: str
    chunk: int
    texts: int
    fingerprint: str
    sources: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[str, ...] = ()


def chunk_stamp(
    run: str, chunk: int, texts: Sequence[Mapping[str, Any]], sources: Mapping[str, str] | None = None
) -> Stamp:
    """The stamp of both parts of a chunk, from the rows of its texts, which must have the columns of TEXTS_SCHEMA."""
    expected = set(TEXTS_SCHEMA.names)
    for row in texts:
        if row.keys() != expected:
            raise ValueError(f"the row of a text has missing or unknown columns: {sorted(row.keys() ^ expected)}")
    rows = [[row[name] for name in ("number", "index", "text", "pair", "label")] for row in texts]
    return Stamp(run, chunk, len(texts), blake2b(compact(rows).encode(), digest_size=16).hexdigest(), sources or {})


# writing


def findings_part(findings: Sequence[tuple[int, Finding]], stamp: Stamp, stored: Sequence[FindingRow] = ()) -> bytes:
    """The findings on the texts of a chunk, and those that were `stored` before."""
    places = {at: f.place for at, f in {repr(f.at): f for _, f in findings}.items()}  # few, and slow to make
    rows: list[FindingRow] = [
        (f.check, f.method, f.measure, places[repr(f.at)], n, float(f.value), compact(f.details) if f.details else None)
        for n, f in findings
    ]
    rows += stored
    rows.sort(key=itemgetter(0, 1, 2, 3, 4))
    checks = {check: _table(list(of)) for check, of in groupby(rows, key=itemgetter(0))}
    return _parquet(FINDINGS, checks.values(), replace(stamp, checks=tuple(checks)))


def texts_part(texts: Sequence[Mapping[str, Any]], stamp: Stamp) -> bytes:
    """The texts of a chunk, with the scores of every method."""
    return _parquet(TEXTS_SCHEMA, [pa.Table.from_pylist(list(texts), schema=TEXTS_SCHEMA)], stamp)


def _table(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    check, method, measure, at, text, value, details = zip(*rows, strict=True)
    names = [pa.array(column, pa.string()).dictionary_encode() for column in (check, method, measure, at)]
    columns = (text, *names, value, details)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, FINDINGS, strict=True)], FINDINGS)


def _parquet(schema: pa.Schema, groups: Iterable[pa.Table], stamp: Stamp) -> bytes:
    metadata = {"heedful": compact(asdict(stamp))}
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema.with_metadata(metadata), compression="zstd", write_page_checksum=True) as writer:
        for group in groups:
            writer.write_table(group.replace_schema_metadata(metadata), row_group_size=max(1, group.num_rows))
    content: bytes = sink.getvalue().to_pybytes()
    return content


# reading


def stamp(file: Path) -> Stamp:
    """The metadata of a part. Only the file's last bytes are read, once unless the file changes."""
    stored = in_store(file)
    if stored:  # whose times are too coarse to see a change
        with _reading(file), pq.ParquetFile(_source(file)) as part:
            return _stamp(part)
    with _reading(file):
        status = file.stat()
    return _read_stamp(file, status.st_ino, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=1 << 18)  # both parts of two million texts
def _read_stamp(file: Path, inode: int, changed: int, size: int) -> Stamp:
    with _reading(file), pq.ParquetFile(_source(file)) as part:
        return _stamp(part)


def read_rows(file: Path, checks: Collection[str]) -> list[FindingRow]:
    """The findings of these checks in a part, as they are stored."""
    columns = ("check", "method", "measure", "at", "text", "value", "details")
    tables = [read_part(file, check, columns) for check in checks]
    return [row for table in tables for row in zip(*(table.column(c).to_pylist() for c in columns), strict=True)]


def read_part(file: Path, check: str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a part, or those of one check; all columns, or these."""
    with _reading(file), pq.ParquetFile(_source(file), page_checksum_verification=True) as part:
        checks = _stamp(part).checks
        groups = [i for i in range(part.num_row_groups) if check is None or checks[i] == check]
        return part.read_row_groups(groups, columns=columns, use_threads=False).replace_schema_metadata(None)


def _source(file: Path) -> Any:
    """A part as pyarrow opens it; it would read a relative path with a colon as a URI."""
    return file.open_input() if in_store(file) else file.absolute()


def concat(tables: Sequence[pa.Table], schema: pa.Schema, columns: Sequence[str] | None = None) -> pa.Table:
    """One table, with the names of all parts in one dictionary."""
    empty = schema.empty_table() if columns is None else schema.empty_table().select(list(columns))
    return pa.concat_tables(tables).unify_dictionaries() if tables else empty


def _stamp(part: pq.ParquetFile) -> Stamp:
    metadata = json.loads(part.metadata.metadata[b"heedful"])
    run, chunk, texts, fingerprint = (metadata.pop(name) for name in ("run", "chunk", "texts", "fingerprint"))
    return Stamp(run, chunk, texts, fingerprint, *_shared(compact(metadata)))


@lru_cache(maxsize=64)
def _shared(stamp: str) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """What the stamps of a run have in common, once in memory: sources and checks."""
    metadata = json.loads(stamp)
    return metadata["sources"], tuple(metadata["checks"])


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        if e.errno is None and not in_store(file):  # pyarrow's, of a file that does not parse
            raise damaged(file) from e
        reason = e.strerror or first_line(e)
        raise BadInput(f"'{file}' cannot be read ({reason}); repeat the command later.") from e
    except (pa.ArrowException, ValueError, LookupError, TypeError) as e:
        raise damaged(file) from e


def damaged(file: Path) -> BadInput:
    """The error for a part that does not parse."""
    return BadInput(f"'{file}' is damaged and cannot be read; delete it and repeat the command.")
