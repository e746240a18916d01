"""Data: files, folders and datasets -> Examples, as a stream or as splits. Splits are equal on every machine."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.resources import files
from itertools import accumulate
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from heedful.core.errors import BadInput, nearest
from heedful.core.tokens import Span, check_text
from heedful.data.columns import GUESSED, Columns, check_same, names_a_column, resolve
from heedful.data.formats import FORMATS, FileRow, class_folders, format_of, name_list, objects

Label = str | tuple[str, ...]
DataSource = str | Path | Any


@dataclass(frozen=True)
class Example:
    """One text with its labels (names) and its rationale (characters [start, end) of the text).

    `where` is its file and line, for error messages; it is not compared.
    """

    text: str
    pair: str | None = None
    label: Label | None = None
    rationale: tuple[Span, ...] | None = None
    where: str = field(default="", compare=False, repr=False)

    def to_json(self) -> list[Any]:
        """All that it has, as a JSON value, for another process."""
        return [self.text, self.pair, self.label, self.rationale, self.where]

    @staticmethod
    def from_json(stored: Sequence[Any]) -> Example:
        """The inverse of `to_json`."""
        text, pair, label, rationale, where = stored
        spans = None if rationale is None else tuple((start, end) for start, end in rationale)
        return Example(text, pair, tuple(label) if isinstance(label, list) else label, spans, where)


@dataclass(frozen=True)
class Splits:
    """Examples for training, validation and test; an empty list is an absent split."""

    train: list[Example]
    dev: list[Example]
    test: list[Example]


CORPUS = "corpus"  # the name of the embedded sentences
SUFFIXES = {suffix for form in FORMATS.values() for suffix in form.suffixes}
_ROLES = {"train": "train", "test": "test", **dict.fromkeys(("dev", "val", "valid", "validation", "eval"), "dev")}
# "train.csv", "train-00000-of-00002.parquet", "qa1_train.txt"
_ROLE = re.compile(rf"(.*[_.-])?({'|'.join(_ROLES)})(?:-[0-9]+-of-[0-9]+)?(?:\.[a-z]+)?", re.IGNORECASE)
_UNREADABLE = re.compile("[\0\ud800-\udfff]")


# reading


def read(
    source: DataSource, columns: Columns = GUESSED, *, kind: str | None = None, labels: Sequence[str] | None = None
) -> Iterator[Example]:
    """The examples of a file, a folder of classes, a dataset or a list, one at a time, in their order.

    "corpus" are the embedded sentences. `kind` is a name of `formats.FORMATS`, by default detected from the suffix or
    the first line; a label that is not among `labels` is refused.
    """
    if source == CORPUS and not Path(CORPUS).exists():
        source = Path(str(files("heedful.data") / "assets" / "corpus.jsonl"))
    if isinstance(source, (str, Path)):
        name, rows = f"'{source}'", _file_rows(Path(source).expanduser(), kind, columns)
    elif isinstance(source, Mapping):
        raise BadInput(f"the data has parts ({name_list(source)}); give one of them, or use heedful.data.splits.")
    elif isinstance(source, Iterable):
        name, rows = "the data", objects(source)
    else:
        raise BadInput(f"the data is a {type(source).__name__}; give a path, a dataset or a list of examples.")
    return _examples(rows, columns, name, labels)


def load(
    source: DataSource, columns: Columns = GUESSED, *, kind: str | None = None, labels: Sequence[str] | None = None
) -> list[Example]:
    """All examples of `read` as a list."""
    return list(read(source, columns, kind=kind, labels=labels))


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
    if path.is_dir() != (chosen == "folder"):
        actual = "folder" if path.is_dir() else "file"
        raise BadInput(f"'{path}' is a {actual}, which kind '{chosen}' does not read; give another path or kind.")
    return FORMATS[chosen].read(path, lambda names: names_a_column(names, columns))


def _examples(rows: Iterator[FileRow], columns: Columns, name: str, labels: Sequence[str] | None) -> Iterator[Example]:
    first: Columns | None = None
    resolved: dict[tuple[str, ...], Columns] = {}
    for where, row in rows:
        keys = tuple(row)
        if keys not in resolved:
            resolved[keys] = resolve(keys, columns, where)
            first = first or resolved[keys]
            check_same(first, resolved[keys], where)
        example = _example(where, row, resolved[keys])
        if labels is not None:
            check_labels([example], labels, name)
        yield example
    if first is None:
        raise BadInput(f"{name} has no examples; give at least one.")


# examples


def _example(where: str, row: Mapping[str, Any], at: Columns) -> Example:
    text = _text(row[at.text or ""], where, "text")
    pair = None if at.pair is None or row[at.pair] is None else _text(row[at.pair], where, "pair")
    label = None if at.label is None else _label(row[at.label], where)
    spans = None
    if at.rationale is not None and row[at.rationale] is not None:
        spans = _rationale(row[at.rationale], text, at.rationale.endswith("_characters"), where)
    return Example(text, pair, label, spans, where)


def _text(value: Any, where: str, what: str) -> str:
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


# labels


def _names_of(example: Example) -> tuple[str, ...]:
    return (example.label,) if isinstance(example.label, str) else example.label or ()


def label_names(examples: Iterable[Example]) -> tuple[str, ...]:
    """Every label that occurs: in numeric order if all are whole numbers, else in alphabetic order."""
    names = {name for example in examples for name in _names_of(example)}
    if all(re.fullmatch(r"-?[0-9]+", name) for name in names):
        return tuple(sorted(names, key=lambda name: (int(name), name)))
    return tuple(sorted(names))


def check_labels(examples: Iterable[Example], known: Sequence[str], file: str = "the data") -> None:
    """Refuse the first unknown label, with its file and line."""
    allowed = set(known)
    for example in examples:
        for name in _names_of(example):
            if name not in allowed:
                hint = nearest(name, tuple(known)) or "."
                where = example.where or file
                raise BadInput(f"label '{name}' in {where} is not one of {', '.join(known)}{hint}")


def fingerprint(examples: Iterable[Example]) -> str:
    """32 hexadecimal digits that change with any text, label, rationale or the order."""
    digest = blake2b(digest_size=16)
    for example in examples:
        digest.update(json.dumps([example.text, example.pair, example.label, example.rationale]).encode() + b"\n")
    return digest.hexdigest()


# splits


def splits(
    source: DataSource,
    columns: Columns = GUESSED,
    *,
    dev: DataSource | None = None,
    test: DataSource | None = None,
    dev_share: float = 0.1,
    test_share: float = 0.1,
    seed: int = 0,
    keep: Sequence[str] | None = None,
    kind: str | None = None,
) -> Splits:
    """Train, dev and test of a folder, a mapping of datasets, or one source that is divided.

    A missing dev is split off train. A missing test stays empty, unless the source is a single file or list, which is
    divided into three. Equal texts are in one split, splits are stratified by label, and row order has no effect.
    `keep` drops every example with another label.
    """
    if not (min(dev_share, test_share) >= 0 and dev_share + test_share < 1):
        raise BadInput(f"dev_share {dev_share} and test_share {test_share} must be at least 0 and sum to less than 1.")
    sources = _parts(source)
    alone = not sources and dev is None and test is None
    sources = sources or {"train": [source]}
    sources |= {role: [part] for role, part in (("dev", dev), ("test", test)) if part is not None}
    parts = {
        role: [e for part in sources.get(role, ()) for e in read(part, columns, kind=kind)]
        for role in ("train", "dev", "test")
    }
    if keep is not None:
        parts = _with_labels(parts, keep)
    if alone:
        return _divided(parts["train"], {"dev": dev_share, "test": test_share}, seed)
    if parts["dev"]:
        return Splits(**parts)
    _check_alike(source)
    cut = _divided(parts["train"], {"dev": dev_share}, seed)
    return Splits(cut.train, cut.dev, parts["test"])


def _parts(source: Any) -> dict[str, list[Any]]:
    """The splits of a folder or mapping, each one part or several shards; none for a single source."""
    if isinstance(source, Mapping):
        what, named = "the data", {str(name): part for name, part in source.items()}
    elif isinstance(source, (str, Path)) and Path(source).expanduser().is_dir():
        inside = sorted(Path(source).expanduser().iterdir())
        what, named = f"'{source}'", {p.name: p for p in inside if p.suffix.lower() in SUFFIXES or p.is_dir()}
    else:
        return {}
    matches = {name: match for name in named if (match := _ROLE.fullmatch(name))}
    parts: dict[str, list[Any]] = {}
    for role in ("train", "dev", "test"):
        similar = [name for name, match in matches.items() if _ROLES[match[2].lower()] == role]
        same = [name for name in similar if not matches[name][1]] or similar
        if len(same) > 1 and not all("-of-" in name for name in same):
            raise BadInput(f"{len(same)} parts of {what} could be {role} ({', '.join(same)}); give one of each.")
        parts |= {role: [named[name] for name in same]} if same else {}
    if not parts and (isinstance(source, Mapping) or not class_folders(Path(source).expanduser())):
        raise BadInput(f"{what} has no part named train, dev or test ({name_list(named)}); rename its parts.")
    return parts


def _check_alike(source: Any) -> None:
    """Refuse to split off a dev if one seems to exist under another name (MNLI's dev_matched)."""
    if isinstance(source, Mapping):
        names = [str(name) for name in source]
    else:
        folder = Path(source).expanduser() if isinstance(source, (str, Path)) else None
        names = [p.name for p in folder.iterdir()] if folder is not None and folder.is_dir() else []
    alike = sorted(name for name in names if re.match(r"dev|valid|eval", name, re.IGNORECASE))
    if alike:
        raise BadInput(f"the data may have a dev already ({name_list(alike)}); give it with --dev, or name it dev.")


def _with_labels(parts: Mapping[str, list[Example]], keep: Sequence[str]) -> dict[str, list[Example]]:
    known = label_names(e for examples in parts.values() for e in examples)
    for name in (name for name in keep if name not in known):
        raise BadInput(f"label '{name}' of keep is not one of {', '.join(known)}{nearest(name, known) or '.'}")
    return {
        role: [e for e in examples if e.label and set(keep).issuperset(_names_of(e))]
        for role, examples in parts.items()
    }


def _divided(examples: Sequence[Example], shares: Mapping[str, float], seed: int) -> Splits:
    """Assign texts, by label and in the order of a keyed hash, each to the split that lacks most.

    So the shares are met within a few texts, for every label and in total, if no text has many copies.
    """
    groups: dict[bytes, list[int]] = {}
    for i, example in enumerate(examples):
        groups.setdefault(_hash(seed, example.text, example.pair), []).append(i)
    labels = {key: sorted({_names_of(examples[i]) for i in members}) for key, members in groups.items()}
    lacking = {"train": 0.0, **{role: 0.0 for role, share in shares.items() if share > 0}}
    all_shares = {"train": 1 - sum(shares.values()), **shares}
    split_of: dict[int, str] = {}
    for key in sorted(groups, key=lambda key: (_hash(seed, labels[key]), key)):
        for role in lacking:
            lacking[role] += all_shares[role] * len(groups[key])
        chosen = max(lacking, key=lambda role: lacking[role])
        lacking[chosen] -= len(groups[key])
        split_of |= dict.fromkeys(groups[key], chosen)
    return Splits(*([e for i, e in enumerate(examples) if split_of[i] == role] for role in ("train", "dev", "test")))


def _hash(*parts: Any) -> bytes:
    return blake2b(json.dumps(parts).encode(), digest_size=16).digest()
