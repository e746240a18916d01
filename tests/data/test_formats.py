"""Formats: a damaged file loads, or is refused in one sentence; none ends in a traceback."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heedful.core.errors import BadInput
from heedful.data import load

VARIANTS = 60
ROWS = [{"text": f'text {i}, of "one" sort', "label": "ab"[i % 2]} for i in range(40)]


def parquet() -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), file)
    return file.getvalue()


WHOLE = {
    "a.parquet": parquet(),
    "a.json": json.dumps(ROWS).encode(),
    "a.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS).encode(),
    "a.csv": b"text,label\n" + b"".join(b'"text, %d ""x""",b\n' % i for i in range(40)),
    "a.tsv": b"text\tlabel\n" + b"".join(b"text %d\tb\n" % i for i in range(40)),
    "a.txt": b"(3 (2 It) (4 (2 's) (3 good)))\n(1 (2 It) (0 (2 is) (1 bad)))\n" * 8,
}


def damaged(whole: bytes, count: int) -> Iterator[bytes]:
    """Cut off somewhere, or with a few bytes changed."""
    chance = random.Random(0)
    for i in range(count):
        if i % 3 == 0:
            yield whole[: chance.randrange(len(whole))]
        else:
            changed = bytearray(whole)
            for _ in range(chance.choice((1, 4, 16))):
                changed[chance.randrange(len(whole))] = chance.randrange(256)
            yield bytes(changed)


@pytest.mark.parametrize("name", WHOLE)
def test_a_damaged_file_loads_or_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    refused = []
    for content in damaged(WHOLE[name], VARIANTS):
        (tmp_path / name).write_bytes(content)
        try:
            load(tmp_path / name)
        except BadInput as e:
            refused.append(str(e))
    assert refused
    assert [message for message in refused if "\n" in message] == []
