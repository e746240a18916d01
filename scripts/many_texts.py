"""How much time and memory the summary of many texts takes: `python scripts/many_texts.py 1000000 FOLDER`.

The first 16 texts of the embedded corpus are audited. Their parts are then copied for as many texts as asked for, each
with other numbers, and the run is summarised. Prints seconds, bytes and memory; FOLDER may be deleted afterwards.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import heedful
from heedful.audits.audit import summarise
from heedful.audits.job import AuditRequest, prepare
from heedful.audits.run import CHUNK_TEXTS, read_run

NOISE = 0.01


def main(texts: int, folder: Path) -> None:
    """Make the run, summarise it, and print what it took."""
    heedful.audit(None, "corpus", out=folder, limit=CHUNK_TEXTS)
    start = time.process_time()
    multiply(folder / "parts", texts // CHUNK_TEXTS)
    made = time.process_time() - start
    size = sum(file.stat().st_size for file in (folder / "parts").iterdir())
    print(f"{texts:,} texts: parts of {size / texts:,.0f} bytes a text, written in {made:,.0f} CPU s", flush=True)
    job = replace(prepare(AuditRequest(None, "corpus")), limit=texts)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    summary = summarise(job, read_run(folder))
    seconds = time.process_time() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"summary of {summary.texts.n:,} texts: {seconds:,.0f} CPU s, {1e6 * seconds / texts:,.0f} µs a text")
    print(f"peak memory {before / 1024:,.0f} MB before, {after / 1024:,.0f} MB after")


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
    main(int(sys.argv[1]), Path(sys.argv[2]))
