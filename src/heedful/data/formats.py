"""Formats: a file, folder or dataset object -> rows, each a mapping with its place (file and line).

Every reader is a generator that holds one line, document, story or record batch. Rows of tables have the columns'
names; other rows have `text`, `pair`, `label` and `rationale_characters`.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from numbers import Integral
from pathlib import Path
from typing import Any

from heedful.core.errors import BadInput

FileRow = tuple[str, Mapping[str, Any]]  # ("'reviews.csv' line 17", {"text": …})
IsHeader = Callable[[Sequence[str]], bool]
Reader = Callable[[Path, IsHeader], Iterator[FileRow]]

_PEEK = 200  # lines of a file without a header that are read ahead to find its label
_PIECE, _LONGEST = 1 << 16, 1 << 28  # characters of a JSON list that are held at once
_LONGEST_NAME = 30  # characters of a name in an error message
_WHOLE = re.compile(r"-?[0-9]+")
_QUOTED = re.compile(r'"((?:[^"]|"")*)"', re.DOTALL)


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Each line with its number and line end; only "\\n" ends a line, and a byte order mark is dropped."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as e:
                raise _not_utf8(path, number, raw[e.start]) from e


def _not_utf8(path: Path, line: int, byte: int) -> BadInput:
    return BadInput(f"'{path}' line {line} is not UTF-8 (byte 0x{byte:02x}); save the file as UTF-8.")


# tables


def _csv(path: Path, is_header: IsHeader) -> Iterator[FileRow]:
    first = next((line for _, line in numbered_lines(path) if line.strip()), "")
    delimiter = next((mark for mark in ",;\t" if mark in first), ",")
    records = _records(path, delimiter)
    header = next(records, None)
    if header is None:
        return
    if not is_header(header[1]):
        unknown = f"'{path}' line {header[0]} has no known column name ({name_list(header[1])})"
        raise BadInput(f"{unknown}; add a header such as text,label or name the text with --text-column.")
    yield from _named(path, header[1], records)


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


def _named(path: Path, header: Sequence[str], records: Iterable[tuple[int, list[str]]]) -> Iterator[FileRow]:
    names = [name.strip() for name in header]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadInput(f"'{path}' line 1 names the column '{twice[0]}' twice; rename one.")
    for number, record in records:
        if len(record) != len(names):
            raise _ragged(path, number, len(record), f"the header has {len(names)}")
        yield f"'{path}' line {number}", dict(zip(names, record, strict=True))


def _ragged(path: Path, line: int, fields: int, expected: str) -> BadInput:
    plural = "" if fields == 1 else "s"
    return BadInput(f"'{path}' line {line} has {fields} field{plural} and {expected}; quote the text or fix the line.")


def _tsv(path: Path, is_header: IsHeader) -> Iterator[FileRow]:
    records = _tab_records(path)
    peeked = list(islice(records, 1))
    if peeked and is_header(peeked[0][1]):
        yield from _named(path, peeked[0][1], records)
        return
    peeked += islice(records, _PEEK)
    if peeked:
        names = _columns_of(path, [record for _, record in peeked])
        yield from _named(path, names, chain(peeked, records))


def _tab_records(path: Path) -> Iterator[tuple[int, list[str]]]:
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
                raise _ragged(path, number, len(fields), "a quote in it is never closed") from e
        else:
            fields = [_unquoted(field) for field in fields]
        if len(fields) != width:
            raise _ragged(path, number, len(fields), f"line 1 has {width}")
        yield number, fields


def _unquoted(field: str) -> str:
    match = _QUOTED.fullmatch(field)
    written = match is not None and ('""' in match[1] or "\r" in match[1])
    return match[1].replace('""', '"') if match is not None and written else field


def _columns_of(path: Path, records: Sequence[Sequence[str]]) -> list[str]:
    """The columns of a tsv file without a header: CoLA's four, or a text and a label that can be told apart."""
    if all(len(r) == 4 and r[1] in ("0", "1") and r[2] in ("", "*") for r in records):
        return ["source", "label", "annotation", "text"]
    if all(len(r) == 2 for r in records):
        likely = [_like_labels([r[i] for r in records]) for i in (0, 1)]
        if likely[0] != likely[1]:
            return ["label", "text"] if likely[0] else ["text", "label"]
    unknown = f"'{path}' line 1 has no known column name ({name_list(records[0])})"
    raise BadInput(f"{unknown} and no column is clearly the label; add a header such as text, label.")


def _like_labels(values: Sequence[str]) -> bool:
    if all(_WHOLE.fullmatch(value) for value in values):
        return True
    # subtle: an unknown header looks like a label that occurs once
    few = len(set(values)) <= len(values) / 2 and values[0] in values[1:]
    return few and all(len(value) <= 40 for value in values)


def name_list(names: Iterable[object]) -> str:
    """Names for an error message, truncated if they are many or long."""
    short = [text if len(text := str(name)) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…" for name in names]
    return "found: " + ", ".join(short[:12]) + (", …" if len(short) > 12 else "")


def _parquet(path: Path, _: IsHeader) -> Iterator[FileRow]:
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


def _jsonl(path: Path, _: IsHeader) -> Iterator[FileRow]:
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


def _json(path: Path, _: IsHeader) -> Iterator[FileRow]:
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
                raise _not_utf8(path, line, e.object[e.start]) from e
            line += raw.endswith(b"\n")


def _eraser(path: Path, _: IsHeader) -> Iterator[FileRow]:
    """DeYoung et al. 2020: annotations beside a folder docs/; evidence is counted in tokens of the whole document."""
    for where, row in _jsonl(path, _):
        try:
            marks = [mark for group in row["evidences"] for mark in group]
            named = [mark["docid"] for mark in marks] or row.get("docids") or [row["annotation_id"]]
            label, query = row["classification"], row.get("query")
        except (KeyError, TypeError) as e:
            raise BadInput(f"{where} is not an ERASER annotation ({e}); give its kind, or correct the line.") from e
        text, spans = "", list[tuple[int, int]]()
        for docid in dict.fromkeys(named):
            text += "\n" if text else ""
            document = _document(path.parent / "docs", docid, where)
            spans += [_evidence(document, len(text), m, where) for m in marks if m["docid"] == docid]
            text += document
        yield where, {"text": text, "pair": query or None, "label": label, "rationale_characters": spans}


def _document(folder: Path, docid: Any, where: str) -> str:
    path = folder / str(docid)
    if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
        raise BadInput(f"{where} names the document '{docid}', which is not in '{folder}'; add one file per document.")
    return _content(path)


def _content(path: Path) -> str:
    return "".join(line for _, line in numbered_lines(path)).rstrip("\r\n")


def _evidence(document: str, offset: int, mark: Mapping[str, Any], where: str) -> tuple[int, int]:
    tokens = [match.span() for match in re.finditer(r"[^ \r\n]+", document)]
    begin, end = mark.get("start_token"), mark.get("end_token")
    if not (isinstance(begin, int) and isinstance(end, int) and 0 <= begin <= end <= len(tokens)):
        raise BadInput(f"the evidence [{begin}, {end}) in {where} is not inside the document's {len(tokens)} tokens.")
    return (offset + tokens[begin][0], offset + tokens[end - 1][1]) if begin < end else (0, 0)


# text formats


def _folder(path: Path, _: IsHeader) -> Iterator[FileRow]:
    """A folder for each class with a file for each text (Maas et al. 2011); `unsup` has no class."""
    classes = class_folders(path)
    if not classes:
        raise BadInput(f"'{path}' has no folder with .txt files for each class; give a file, or a folder of classes.")
    for folder in classes:
        for file in text_files(folder):
            yield f"'{file}'", {"text": _content(file), "label": folder.name}


def class_folders(path: Path) -> list[Path]:
    """The folders with the texts of one class each."""
    others = ("unsup", "train", "test")  # subtle: aclImdb/train has .txt files beside its classes
    inside = sorted(p for p in path.iterdir() if p.is_dir() and p.name not in others and p.name[0] != ".")
    return [folder for folder in inside if text_files(folder)]


def text_files(folder: Path) -> list[Path]:
    """The .txt files; where there are none, the files without a suffix (20 Newsgroups)."""
    plain = [p for p in folder.iterdir() if p.is_file() and not p.suffix and p.name[0] != "."]
    return sorted(folder.glob("*.txt")) or sorted(plain)


def _sst(five: bool, phrases: bool) -> Reader:
    """Socher et al. 2013: a tree in each line; two classes exclude neutral texts, phrases are all subtrees."""

    def read(path: Path, _: IsHeader) -> Iterator[FileRow]:
        for number, line in numbered_lines(path):
            where = f"'{path}' line {number}"
            trees = _subtrees(line, where) if line.strip() else []
            for score, text in trees if phrases else trees[-1:]:
                if five or score != 2:
                    yield where, {"text": text, "label": str(score) if five else ("negative", "positive")[score > 2]}

    return read


def _subtrees(line: str, where: str) -> list[tuple[int, str]]:
    """Every subtree's score and words, the whole tree last; escaped brackets and slashes are restored."""
    done: list[tuple[int, str]] = []
    stack: list[tuple[int, int]] = []
    words: list[str] = []
    for opened, word, closed in re.findall(r"\(\s*([0-4])\s|([^\s()]+)|(\))", line):
        if opened:
            stack.append((int(opened), len(words)))
        elif word:
            words.append(word.replace("-LRB-", "(").replace("-RRB-", ")").replace("\\/", "/").replace("\\*", "*"))
        if closed and stack:
            score, start = stack.pop()
            done.append((score, " ".join(words[start:])))
    balanced = line.count("(") == line.count(")") == len(done)
    if not (balanced and words and done[-1][1] == " ".join(words)):
        raise BadInput(f"{where} is not one tree with scores from 0 to 4, such as (3 (2 So) (3 good)).")
    return done


def _babi(path: Path, _: IsHeader) -> Iterator[FileRow]:
    """Weston et al. 2016: numbered statements and questions; the text of a question is the story before it."""
    story, spans = "", dict[str, tuple[int, int]]()
    for number, line in numbered_lines(path):
        where = f"'{path}' line {number}"
        if not line.strip():
            continue
        match = re.fullmatch(r"(\d+) ([^\t]+)(?:\t([^\t]+)(?:\t([\d ]*))?)?", line.strip())
        if match is None:
            raise BadInput(f"{where} is neither 'number statement' nor 'number question, answer, lines' with tabs.")
        index, sentence, answer, support = match.groups()
        if index == "1":
            story, spans = "", {}
        if answer is None:
            start = len(story) + bool(story)
            story += (" " if story else "") + sentence.strip()
            spans[index] = (start, len(story))
            continue
        marks = support.split() if support is not None else []
        lost = [mark for mark in marks if mark not in spans]
        if lost:
            raise BadInput(f"{where} is supported by statement {lost[0]}, which is not in its story.")
        marked = [spans[mark] for mark in marks] if marks else None
        yield where, {"text": story, "pair": sentence.strip(), "label": answer.strip(), "rationale_characters": marked}


@dataclass(frozen=True)
class Format:
    """A kind of data: its reader, the suffixes of its files, and a pattern of their first line (None matches any).

    A file with an unknown suffix is read as a text file.
    """

    read: Reader
    suffixes: tuple[str, ...] = ()
    first_line: str | None = None


_JSON_LINES = (".jsonl", ".ndjson", ".json")
FORMATS: dict[str, Format] = {
    "csv": Format(_csv, (".csv",)),
    "tsv": Format(_tsv, (".tsv", ".txt"), r"(?!1 \S|\([0-4] )[^\t]*\t"),  # bAbI also has tabs
    "jsonl": Format(_jsonl, _JSON_LINES),
    "json": Format(_json, (".json",), r"\s*\["),
    "parquet": Format(_parquet, (".parquet",)),
    "folder": Format(_folder),
    "sst": Format(_sst(five=False, phrases=False), (".txt",), r"\([0-4] "),
    "sst-5": Format(_sst(five=True, phrases=False)),
    "sst-phrases": Format(_sst(five=False, phrases=True)),
    "babi": Format(_babi, (".txt",), r"1 \S"),
    "eraser": Format(_eraser, _JSON_LINES, r'(?!\s*\[)(?=.*"evidences").*"annotation_id"'),
}


def format_of(path: Path) -> str:
    """The kind of a file or folder, by its suffix and, if several kinds have it, by its first line."""
    if path.is_dir():
        return "folder"
    suffix = path.suffix.lower()
    known = any(suffix in form.suffixes for form in FORMATS.values())
    likely = {name: form for name, form in FORMATS.items() if (suffix if known else ".txt") in form.suffixes}
    if len(likely) == 1:
        return next(iter(likely))
    with path.open("rb") as file:  # subtle: a JSON list may be one line as long as the file
        raw = next((raw for raw in iter(lambda: file.readline(1 << 16), b"") if raw.strip()), b"")
    first = raw.decode("utf-8-sig", "replace")
    for name, form in sorted(likely.items(), key=lambda item: item[1].first_line is None):
        if form.first_line is None or re.match(form.first_line, first):
            return name
    raise BadInput(f"the kind of '{path}' was not recognised; give its kind: {', '.join(FORMATS)}.")
