"""Reading: files, folders and datasets to Examples, as a stream or as a list."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import accumulate
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from heedful.core.errors import BadInput, nearest
from heedful.core.tokens import Span, check_text
from heedful.data.columns import GUESSED, Columns, check_same, is_gold_label, name_list, parts_of, resolve
from heedful.data.example import Example, Label, check_labels, label_names
from heedful.data.formats import FORMATS, format_of
from heedful.data.rows import Drop, FileRow
from heedful.data.selection import EVERYTHING, Selection, count_drops, drop_note
from heedful.data.tables import objects

DataSource = str | Path | Any
CORPUS = "corpus"  # the name of the embedded sentences
_UNREADABLE = re.compile("[\0\ud800-\udfff]")


def read(
    source: DataSource,
    columns: Columns = GUESSED,
    *,
    kind: str | None = None,
    select: Selection = EVERYTHING,
    labels: Sequence[str] | None = None,
) -> Iterator[Example]:
    """The examples of a file, a folder of classes, a dataset or a list, one at a time, in their order.

    "corpus" are the embedded sentences. `kind` is a name of `formats.FORMATS`, by default detected from the suffix or
    the first line; `select` says which texts are used; a label that is then not among `labels` is refused.
    """
    return _read(items(source, columns, kind), select, labels)


def _read(every: Iterator[Example | Drop], select: Selection, labels: Sequence[str] | None) -> Iterator[Example]:
    names: set[str] = set()
    for item in every:
        names.update(item.labels if isinstance(item, Example) else ())
        chosen = select(item)
        if isinstance(chosen, Example):
            if labels is not None:
                check_labels([chosen], labels)
            yield chosen
    select.check(sorted(names))


def load(
    source: DataSource,
    columns: Columns = GUESSED,
    *,
    kind: str | None = None,
    select: Selection = EVERYTHING,
    labels: Sequence[str] | None = None,
) -> list[Example]:
    """All examples of `read` as a list."""
    examples, _ = load_counted(source, columns, kind=kind, select=select)
    if labels is not None:
        check_labels(examples, labels)
    return examples


def load_counted(
    source: DataSource, columns: Columns = GUESSED, *, kind: str | None = None, select: Selection = EVERYTHING
) -> tuple[list[Example], dict[str, int]]:
    """All examples of `read`, and how many texts were dropped, by reason."""
    every = list(items(source, columns, kind))
    select.check(label_names(item for item in every if isinstance(item, Example)))
    return selected(every, select, source_name(source))


def selected(every: Iterable[Example | Drop], select: Selection, name: str) -> tuple[list[Example], dict[str, int]]:
    """Those of the examples of a source that are used, and how many are dropped; an error if none are used."""
    chosen = [select(item) for item in every]
    examples = [item for item in chosen if isinstance(item, Example)]
    dropped = count_drops(chosen)
    if not examples:
        raise BadInput(
            f"{name} has no texts left ({drop_note(dropped).rstrip('.')}); give other texts, or select more."
        )
    return examples, dropped


def source_name(source: DataSource) -> str:
    """The name of a source in an error message."""
    return f"'{source}'" if isinstance(source, (str, Path)) else "the data"


def items(source: DataSource, columns: Columns, kind: str | None) -> Iterator[Example | Drop]:
    """Every example of a source, and every text that its reader drops."""
    return _examples(source_rows(source, columns, kind), columns, source_name(source))


def source_rows(source: DataSource, columns: Columns, kind: str | None) -> Iterator[FileRow]:
    """The rows of a file, a folder, a dataset or a list."""
    if source == CORPUS and not Path(CORPUS).exists():
        source = Path(str(files("heedful.data") / "assets" / "corpus.jsonl"))
    if isinstance(source, (str, Path)):
        return _file_rows(Path(source).expanduser(), kind, columns)
    if isinstance(source, Mapping):
        raise BadInput(f"the data has parts ({name_list(source)}); give one of them, or use heedful.data.splits.")
    if isinstance(source, Iterable):
        return objects(source)
    raise BadInput(f"the data is a {type(source).__name__}; give a path, a dataset or a list of examples.")


def _file_rows(path: Path, kind: str | None, columns: Columns) -> Iterator[FileRow]:
    if not path.exists():
        siblings = sorted(p.name for p in path.parent.iterdir()) if path.parent.is_dir() else []
        raise BadInput(f"'{path}' does not exist{nearest(path.name, siblings) or '; check the path.'}")
    if not os.access(path, os.R_OK):
        raise BadInput(f"you have no permission to read '{path}'; change its permissions.")
    chosen = kind or format_of(path)
    if chosen not in FORMATS:
        hint = nearest(chosen, tuple(FORMATS)) or "."
        raise BadInput(f"kind '{chosen}' is not one of {', '.join(FORMATS)}{hint}")
    if FORMATS[chosen].folder not in (None, path.is_dir()):
        actual = "folder" if path.is_dir() else "file"
        raise BadInput(f"'{path}' is a {actual}, which kind '{chosen}' does not read; give another path or kind.")
    return FORMATS[chosen].read(path, columns)


def _examples(rows: Iterator[FileRow], columns: Columns, name: str) -> Iterator[Example | Drop]:
    first: Columns | None = None
    resolved: dict[tuple[str, ...], Columns] = {}
    empty = True
    for where, row in rows:
        empty = False
        if isinstance(row, Drop):
            yield row
            continue
        keys = tuple(row)
        if keys not in resolved:
            resolved[keys] = resolve(keys, columns, where)
            first = first or resolved[keys]
            check_same(first, resolved[keys], where)
        yield _example(where, row, resolved[keys])
    if empty:
        raise BadInput(f"{name} has no examples; give at least one.")


# examples


def _example(where: str, row: Mapping[str, Any], at: Columns) -> Example | Drop:
    if is_gold_label(at.label) and row[at.label or ""] == "-":
        return Drop("without a gold label")
    text = text_value(_joined(row, at.text or ""), where, "text")
    pair = None if at.pair is None or row[at.pair] is None else text_value(row[at.pair], where, "pair")
    label = None if at.label is None else _label(row[at.label], where)
    spans = None
    if at.rationale is not None and row[at.rationale] is not None:
        spans = _rationale(row[at.rationale], text, at.rationale.endswith("_characters"), where)
    return Example(text, pair, label, spans, where)


def _joined(row: Mapping[str, Any], columns: str) -> Any:
    """The value of the text's column, or of several, of which some may be empty."""
    if columns in row:
        return row[columns]
    return [part for part in (row[name] for name in parts_of(columns)) if part is not None and str(part).strip()]


def text_value(value: Any, where: str, what: str) -> str:
    """A text, checked; tokens are joined by spaces."""
    if isinstance(value, (list, tuple)) and all(isinstance(token, str) for token in value):
        value = " ".join(value)
    # subtle: check_text loops over characters, so valid texts skip it
    if not isinstance(value, str) or not value.strip() or _UNREADABLE.search(value):
        check_text(value, f"{what} in {where}")
    return str(value)


def _label(value: Any, where: str) -> Label | None:
    if isinstance(value, (list, tuple)):
        return tuple(_label_name(v, where) for v in value)
    return None if value is None else _label_name(value, where)


def _label_name(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and not value.strip():
        raise BadInput(f"{where} has no label; write one, or remove the row.")
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, Integral) or (isinstance(value, Real) and float(value).is_integer()):
        return str(math.trunc(value))
    raise BadInput(f"the label in {where} is {str(value)[:40]}; give a name, a whole number or a list of them.")


def _rationale(value: Any, text: str, characters: bool, where: str) -> tuple[Span, ...]:
    """Marked spans in characters, from characters, tokens separated by single spaces, or quotes."""
    if isinstance(value, (list, tuple)) and value and all(isinstance(quote, str) for quote in value):
        return _merged(span for quote in value for span in _quoted(quote, text, where))
    try:
        pairs = [(start, end) for start, end in (json.loads(value) if isinstance(value, str) else value)]
        whole = all(type(n) is int for pair in pairs for n in pair)
    except (TypeError, ValueError):
        whole = False
    if not whole:
        raise BadInput(f"the rationale in {where} is not a list of [start, end) pairs of whole numbers.")
    starts = [0, *accumulate(len(token) + 1 for token in text.split(" "))]
    length, unit = (len(text), "characters") if characters else (len(starts) - 1, "tokens")
    for start, end in pairs:
        if not 0 <= start <= end <= length:
            raise BadInput(f"the rationale [{start}, {end}) in {where} is not inside the text's {length} {unit}.")
    marking = [(start, end) for start, end in pairs if start < end]  # subtle: ERASER's own files have empty spans
    return _merged(marking if characters else [(starts[start], starts[end] - 1) for start, end in marking])


def _quoted(quote: str, text: str, where: str) -> list[Span]:
    """Every occurrence of the quote in the text as whole words."""
    spans = [m.span() for m in re.finditer(rf"(?<!\w){re.escape(quote)}(?!\w)", text)] if quote else []
    if not spans:
        raise BadInput(f"the rationale '{quote}' in {where} is not in its text; quote the text, or give pairs.")
    return spans


def _merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Sorted, and overlapping spans joined."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)
