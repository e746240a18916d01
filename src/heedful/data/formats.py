"""Formats: the readers by the name of their kind, and the kind of a file or folder. A new format is a line here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from heedful.core.errors import BadInput
from heedful.data import corpora, tables
from heedful.data.rows import Reader


@dataclass(frozen=True)
class Format:
    """A kind of data: its reader, the suffixes of its files, and a pattern of their first line (None matches any).

    A file with an unknown suffix is read as a text file. `folder` says whether it reads a folder (None: both).
    """

    read: Reader
    suffixes: tuple[str, ...] = ()
    first_line: str | None = None
    folder: bool | None = False


_JSON_LINES = (".jsonl", ".ndjson", ".json")
FORMATS: dict[str, Format] = {
    "csv": Format(tables.read_csv, (".csv",)),
    "csv-escaped": Format(tables.read_escaped_csv),
    "tsv": Format(tables.read_tsv, (".tsv", ".txt"), r"(?!1 \S|\([0-4] )[^\t]*\t"),  # bAbI also has tabs
    "tweets": Format(corpora.read_tweets),
    "jsonl": Format(tables.read_jsonl, _JSON_LINES),
    "json": Format(tables.read_json, (".json",), r"\s*\["),
    "parquet": Format(tables.read_parquet, (".parquet",)),
    "folder": Format(corpora.read_folder, folder=True),
    "newsgroups": Format(corpora.newsgroups(bodies=True), folder=True),
    "newsgroups-whole": Format(corpora.newsgroups(bodies=False), folder=True),
    "ss": Format(corpora.read_ratings, (".ss",)),
    "sst": Format(corpora.trees(five=False, phrases=False), (".txt",), r"\([0-4] "),
    "sst-5": Format(corpora.trees(five=True, phrases=False)),
    "sst-phrases": Format(corpora.trees(five=False, phrases=True)),
    "babi": Format(corpora.read_babi, (".txt",), r"1 \S"),
    "cloze": Format(corpora.read_cloze, (corpora.QUESTION, ".txt"), r".*@placeholder", folder=None),
    "eraser": Format(corpora.read_eraser, _JSON_LINES, r'(?!\s*\[)(?=.*"evidences").*"annotation_id"'),
}


def format_of(path: Path) -> str:
    """The kind of a file or folder, by its suffix and, if several kinds have it, by its first line."""
    if path.is_dir():
        return "cloze" if any(path.glob(f"*{corpora.QUESTION}")) else "folder"
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
