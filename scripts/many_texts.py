"""How much time and memory the summary of many texts takes: `python scripts/many_texts.py TEXTS FOLDER [METHOD …]`.

The first 16 texts of the embedded corpus are audited by these methods, or all of the default profile. Their parts are
then copied for as many texts as asked for, each with other numbers, and the run is summarised. Prints seconds, bytes
and memory: what the process holds itself, and the pages of temporary files that the system may take away at any time.
FOLDER may be deleted afterwards.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import heedful
from heedful.audits.audit import summarise
from heedful.audits.job import AuditRequest, prepare
from heedful.audits.run import CHUNK_TEXTS, read_run

NOISE = 0.01


def main(texts: int, folder: Path, methods: list[str] | None) -> None:
    """Make the run, summarise it, and print what it took."""
    heedful.audit(None, "corpus", methods, out=folder, limit=CHUNK_TEXTS)
    start = time.process_time()
    multiply(folder / "parts", texts // CHUNK_TEXTS)
    made = time.process_time() - start
    size = sum(file.stat().st_size for file in (folder / "parts").iterdir())
    print(f"{texts:,} texts: parts of {size / texts:,.0f} bytes a text, written in {made:,.0f} CPU s", flush=True)
    job = replace(prepare(AuditRequest(None, "corpus", methods)), limit=texts)
    before = memory()
    start = time.process_time()
    with peaks() as peak:
        summary = summarise(job, read_run(folder))
    seconds = time.process_time() - start
    rows = sum(len(check.rows) for check in summary.checks.values())
    print(f"summary of {summary.texts.n:,} texts: {seconds:,.0f} CPU s, {1e6 * seconds / texts:,.0f} µs a text")
    print(f"{rows:,} numbers a text: {9e-6 * rows * texts:,.0f} MB")
    print(f"memory of the process: {before['anon']:,} MB before, at most {peak['anon']:,} MB")
    print(f"pages of files: {before['file']:,} MB before, at most {peak['file']:,} MB")


def memory() -> dict[str, int]:
    """MB that this process holds itself (anon), and of files."""
    status = Path("/proc/self/status").read_text()
    return {kind.lower(): int(mb) // 1024 for kind, mb in re.findall(r"^Rss(Anon|File):\s+([0-9]+)", status, re.M)}


@contextmanager
def peaks() -> Iterator[dict[str, int]]:
    """The most of `memory` at any time."""
    peak, ended = memory(), Event()

    def look() -> None:
        while not ended.wait(0.05):
            peak.update({kind: max(mb, peak[kind]) for kind, mb in memory().items()})

    thread = Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


def multiply(parts: Path, chunks: int) -> None:
    """Copy the first chunk as chunks 1, 2, …"""
    rng = np.random.default_rng(0)
    kinds = {kind: groups(parts / f"00000{kind}") for kind in (".texts.parquet", ".parquet")}
    timing = (parts / "00000.timing.json").read_bytes()
    for chunk in range(1, chunks):
        for kind, (tables, stamp) in kinds.items():
            metadata = {"heedful": json.dumps(stamp | {"chunk": chunk, "fingerprint": f"{chunk:032x}"})}
            moved = [shifted(table, chunk * CHUNK_TEXTS, rng) for table in tables]
            with pq.ParquetWriter(
                parts / f"{chunk:05d}{kind}", moved[0].schema.with_metadata(metadata), compression="zstd"
            ) as writer:
                for table in moved:
                    writer.write_table(table.replace_schema_metadata(metadata), row_group_size=max(1, table.num_rows))
        (parts / f"{chunk:05d}.timing.json").write_bytes(timing)


def groups(file: Path) -> tuple[list[pa.Table], dict[str, Any]]:
    """The row groups of a part, and its stamp."""
    with pq.ParquetFile(file) as part:
        stamp: dict[str, Any] = json.loads(part.metadata.metadata[b"heedful"])
        return [part.read_row_group(i).replace_schema_metadata(None) for i in range(part.num_row_groups)], stamp


def shifted(table: pa.Table, by: int, rng: np.random.Generator) -> pa.Table:
    """With later texts, and other values."""
    for name in ("text" if "value" in table.column_names else "number", "value"):
        if name in table.column_names:
            place = table.column_names.index(name)
            old = table.column(name).to_numpy()
            new = old + by if name != "value" else old + NOISE * rng.standard_normal(len(old))
            table = table.set_column(place, table.schema.field(place), pa.array(new, table.schema.field(place).type))
    return table


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:] or None)
