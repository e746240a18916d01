"""Tables: files of records, and objects with fields. Rows have the columns' names.

Every reader is a generator that holds one line, record or batch.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from numbers import Integral
from pathlib import Path
from typing import Any

from heedful.core.errors import BadInput
from heedful.data.columns import Columns, name_list, names_a_column, numbers_a_column
from heedful.data.rows import FileRow, not_utf8, numbered_lines

_PEEK = 200  # lines of a file without a header that are read ahead to find its label
_PIECE, _LONGEST = 1 << 16, 1 << 28  # characters of a JSON list that are held at once
_WHOLE = re.compile(r"-?[0-9]+")
_CLASS = re.compile(r"[0-9]{1,3}")  # the number of a class, not that of a tweet or a user
_QUOTED = re.compile(r'"((?:[^"]|"")*)"', re.DOTALL)


# records


def read_csv(path: Path, columns: Columns) -> Iterator[FileRow]:
    """Records separated by commas, semicolons or tabs; with a header, or with the number of the class first."""
    first = next((line for _, line in numbered_lines(path) if line.strip()), "")
    delimiter = next((mark for mark in ",;\t" if mark in first), ",")
    return _table(path, _records(path, delimiter), columns)


def read_escaped_csv(path: Path, columns: Columns) -> Iterator[FileRow]:
    """Zhang et al. 2015 (Yelp, Yahoo, Amazon): a csv file in which a line end is written as a backslash and an n."""
    for where, row in read_csv(path, columns):
        assert isinstance(row, Mapping)
        yield where, {name: value.replace("\\n", "\n") for name, value in row.items()}


def read_tsv(path: Path, columns: Columns) -> Iterator[FileRow]:
    """Records separated by tabs."""
    return _table(path, tab_records(path), columns)


def _table(path: Path, records: Iterator[tuple[int, list[str]]], columns: Columns) -> Iterator[FileRow]:
    first = next(records, None)
    if first is None:
        return
    if names_a_column(first[1], columns):
        yield from _named(path, first[1], records, "the header")
        return
    peeked = [first, *islice(records, _PEEK)]
    names = _names_without_header(path, [record for _, record in peeked], columns)
    if names is None:  # line 1 is a header with unknown names
        yield from _named(path, first[1], chain(peeked[1:], records), "the header")
    else:
        yield from _named(path, names, chain(peeked, records), "line 1")


def _names_without_header(path: Path, records: Sequence[Sequence[str]], columns: Columns) -> list[str] | None:
    """Names for the columns of a file whose first line names none: the label and the text, if they are clear.

    Other columns are named by their numbers. None means that the first line is a header: in a column of numbers, it has
    none.
    """
    width = len(records[0])
    cells = [[record[i] for record in records if len(record) == width] for i in range(width)]
    if any(column[1:] and not _WHOLE.fullmatch(column[0]) and _whole(column[1:]) for column in cells):
        return None
    if width == 4 and set(cells[1]) <= {"0", "1"} and set(cells[2]) <= {"", "*"}:  # CoLA
        return ["source", "label", "annotation", "text"]
    if width == 2:
        likely = [_like_labels(column) for column in cells]
        if likely[0] != likely[1]:
            return ["label", "text"] if likely[0] else ["text", "label"]
    classes = [all(_CLASS.fullmatch(value) for value in column) for column in cells]
    if width > 2 and classes[0] and not any(classes[1:]):
        return ["label", *(str(i) for i in range(2, width + 1))]
    if numbers_a_column(columns):
        return [str(i) for i in range(1, width + 1)]
    unknown = f"'{path}' line 1 has no known column name ({name_list(records[0])}) and no column is clearly the label"
    header = f"{columns.text or 'text'},{columns.label or 'label'}"
    raise BadInput(f"{unknown}; add a header such as {header} or choose columns by number with --text-column 2.")


def _whole(values: Sequence[str]) -> bool:
    return all(_WHOLE.fullmatch(value) for value in values)


def _like_labels(values: Sequence[str]) -> bool:
    if _whole(values):
        return True
    # subtle: an unknown header looks like a label that occurs once
    few = len(set(values)) <= len(values) / 2 and values[0] in values[1:]
    return few and all(len(value) <= 40 for value in values)


def _records(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The records of a csv file, each with the number of the line where it begins."""
    reader = csv.reader((line for _, line in numbered_lines(path)), delimiter=delimiter, strict=True)
    while True:
        start = reader.line_num + 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as e:
            wrong = f"'{path}' line {start} begins a record that is not csv ({e})"
            raise BadInput(f"{wrong}; double each quote inside a quoted text, and close the last.") from e
        if record:
            yield start, record


def _named(
    path: Path, header: Sequence[str], records: Iterable[tuple[int, list[str]]], first: str
) -> Iterator[FileRow]:
    names = [name.strip() for name in header]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadInput(f"'{path}' line 1 names the column '{twice[0]}' twice; rename one.")
    for number, record in records:
        if len(record) != len(names):
            raise ragged(path, number, len(record), f"{first} has {len(names)}")
        yield f"'{path}' line {number}", dict(zip(names, record, strict=True))


def ragged(path: Path, line: int, fields: int, expected: str) -> BadInput:
    """The error about a line with too few or too many fields."""
    plural = "" if fields == 1 else "s"
    return BadInput(f"'{path}' line {line} has {fields} field{plural} and {expected}; quote the text or fix the line.")


def tab_records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The records of a tsv file, in which a quote is a character of the text (as in GLUE), with three exceptions.

    It quotes if the header is quoted, if a line has too few or too many fields and one begins with a quote, and if a
    quoted field contains what a csv writer must quote: doubled quotes or a carriage return.
    """
    numbered = numbered_lines(path)
    width, quoted = 0, False
    for number, line in numbered:
        bare = line.rstrip("\r\n")
        if not bare.strip():
            continue
        fields = bare.split("\t")
        if not width:
            width, quoted = len(fields), all(_QUOTED.fullmatch(field) for field in fields)
        opened = len(fields) != width and any(field.startswith('"') for field in fields)
        if quoted or opened:
            following = (text for _, text in numbered)
            try:
                fields = next(csv.reader(chain([line], following), delimiter="\t", strict=True))
            except csv.Error as e:
                raise ragged(path, number, len(fields), "a quote in it is never closed") from e
        else:
            fields = [_unquoted(field) for field in fields]
        if len(fields) != width:
            raise ragged(path, number, len(fields), f"line 1 has {width}")
        yield number, fields


def _unquoted(field: str) -> str:
    match = _QUOTED.fullmatch(field)
    written = match is not None and ('""' in match[1] or "\r" in match[1])
    return match[1].replace('""', '"') if match is not None and written else field


def read_parquet(path: Path, _: Columns) -> Iterator[FileRow]:
    """Rows of a parquet file, a batch at a time; classes have the names that Hugging Face stores with them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=_PIECE) as file:  # subtle: the default reads it whole
            metadata = (file.schema_arrow.metadata or {}).get(b"huggingface", b"{}")
            coded = _coded(json.loads(metadata).get("info", {}).get("features", {}))
            for batch in file.iter_batches(batch_size=256):
                for row in batch.to_pylist():
                    number += 1
                    yield f"'{path}' row {number}", _decoded(row, coded, f"'{path}' row {number}")
    # subtle: a damaged footer, metadata, page or text may raise any of these
    except (pa.ArrowException, OSError, ValueError, TypeError, AttributeError, OverflowError, MemoryError) as e:
        reason = " ".join(str(e).split())[:120].rstrip(".") or type(e).__name__
        raise BadInput(f"'{path}' is not a complete parquet file ({reason}); write or download it again.") from e


def objects(source: Any) -> Iterator[FileRow]:
    """The rows of a Hugging Face dataset (anything with `.features`), or of a list of examples, mappings or pairs."""
    coded = _coded(getattr(source, "features", None) or {})
    for number, item in enumerate(source, 1):
        where = f"row {number}"
        if isinstance(item, Mapping):
            yield where, _decoded(item, coded, where)
        elif hasattr(item, "rationale"):
            row = {"text": item.text, "pair": item.pair, "label": item.label, "rationale_characters": item.rationale}
            yield item.where or where, row
        elif isinstance(item, (tuple, list)) and len(item) == 2:
            yield where, {"text": item[0], "label": item[1]}
        else:
            raise BadInput(f"{where} is a {type(item).__name__}; give Examples, mappings or (text, label) pairs.")


def _coded(features: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """The columns of class numbers, with the classes' names: a ClassLabel, or a list of them."""

    def of(feature: Any, name: str) -> Any:
        return feature.get(name) if isinstance(feature, Mapping) else getattr(feature, name, None)

    named = {column: of(f, "names") or of(of(f, "feature"), "names") for column, f in features.items()}
    return {column: names for column, names in named.items() if names}


def _decoded(row: Mapping[str, Any], coded: Mapping[str, Sequence[str]], where: str) -> Mapping[str, Any]:
    def name(value: Any, names: Sequence[str]) -> Any:
        if isinstance(value, (list, tuple)):
            return [name(v, names) for v in value]
        if not isinstance(value, Integral):
            return value
        code = int(value)
        if not -1 <= code < len(names):
            raise BadInput(f"label {code} in {where} has no name; the dataset has {len(names)} ({name_list(names)}).")
        return names[code] if code >= 0 else None  # -1 is the hidden label of a test set

    return {**row, **{c: name(row[c], names) for c, names in coded.items() if c in row}} if coded else row


# objects


def read_jsonl(path: Path, _: Columns) -> Iterator[FileRow]:
    """An object in each line."""
    for number, line in numbered_lines(path):
        if line.strip():
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as e:
                raise BadInput(f"'{path}' line {number} is not JSON ({e}); write one object in each line.") from e
            yield _object(value, f"'{path}' line {number}")


def _object(value: Any, where: str) -> FileRow:
    if not isinstance(value, dict):
        raise BadInput(f'{where} is a {type(value).__name__}; write an object such as {{"text": …}}.')
    return where, value


def read_json(path: Path, _: Columns) -> Iterator[FileRow]:
    """The objects of one JSON list, decoded one by one, so that the list is never in memory."""
    decode, between = json.JSONDecoder().raw_decode, re.compile(r"[\s,\[\]]*")
    text, at, line, enough, closed = "", 0, 1, 0, False
    for piece in _pieces(path):
        text, at = text[at:] + piece, 0
        while not piece or len(text) - at >= enough:
            gap = between.match(text, at)[0]  # type: ignore[index]
            line, at, closed = line + gap.count("\n"), at + len(gap), gap.rstrip().endswith("]") or closed
            try:
                value, end = decode(text, at)
            except (ValueError, RecursionError) as e:
                enough = 2 * (len(text) - at)  # the object may be incomplete: try again with twice as much of it
                if enough > _LONGEST or (not piece and (enough or not closed)):
                    raise BadInput(f"'{path}' line {line} is not JSON, or is cut off; write a list of objects.") from e
                break
            yield _object(value, f"'{path}' line {line}")
            line, at, enough, closed = line + text.count("\n", at, end), end, 0, False


def _pieces(path: Path) -> Iterator[str]:
    """The file in pieces of limited length; the last one is empty."""
    decoder, line = codecs.getincrementaldecoder("utf-8-sig")(), 1
    with path.open("rb") as file:
        for raw in chain(iter(lambda: file.readline(_PIECE), b""), [b""]):
            try:
                yield decoder.decode(raw, final=not raw)
            except UnicodeDecodeError as e:
                raise not_utf8(path, line, e.object[e.start]) from e
            line += raw.endswith(b"\n")
