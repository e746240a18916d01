"""Markdown and CSV: a document in both formats. Texts are escaped: none becomes markup or a formula."""

from __future__ import annotations

import csv as tables
import io
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from urllib.parse import quote

from heedful.audits.summary import Row
from heedful.core.finding import place
from heedful.report.document import (
    Document,
    Figure,
    Section,
    Shown,
    Table,
    cells,
    example_texts,
    gold,
    notes,
    numeric_columns,
    strongest_words,
)
from heedful.report.phrases import Cell, cell

# Markdown

_MARKS = str.maketrans(
    {c: f"\\{c}" for c in "\\`*_[]#$!~"} | {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;", "|": "&#124;"}
)
_INTERVAL = re.compile(r"(?<=.)\\\[([−\d.,]+, [−\d.,]+)\\\](?![\[(])")  # no link: easier to read without strokes
_LIST_START = re.compile(r"^(\d{0,9})([-+=.)])")  # of a list, a rule or a heading


def markdown(document: Document, figures: str | None = None) -> str:
    """The report in GitHub's Markdown; figures are files in the folder `figures`, or words without one.

    Nothing in a text becomes a link, an image, a mention or HTML.
    """
    parts = [f"# {_md(document.title)}"]
    parts += [f"**{_line(text)}**" if i == 0 else _line(text) for i, text in enumerate(document.advice)]
    parts += [f"**Attention: {_md(document.verdict)}**"] if document.verdict else []
    parts += map(_line, document.sentences)
    parts += [_grid(("", ""), document.facts)] if document.facts else []
    for section in (*document.answers, *document.sections):
        parts += _md_section(section, figures)
    if document.limits:
        parts += ["## Limits", "\n".join(f"- {_line(text)}" for text in document.limits)]
    if document.cite:
        parts += ["## How to cite", _fenced(document.cite)]
    if document.ran:
        manifest = json.dumps(document.ran, indent=2, ensure_ascii=False, default=str)
        parts += ["## What was run", _fenced(manifest, "json")]
    return "\n\n".join(parts) + "\n"


def _md_section(section: Section, figures: str | None) -> Iterator[str]:
    yield f"## {_md(section.title)}"
    if section.question:
        yield f"*{_md(section.question)}*"
    yield from map(_line, section.findings)
    yield from (_md_figure(figure, figures) for figure in section.figures)
    for table in section.tables:
        yield f"**{_md(table.title)}**"
        yield _grid([c.head for c in table.columns], cells(table), numeric_columns(table))
        yield from (_line(text) for text in (table.caption, notes(table.columns)) if text)
    for example in section.examples:
        yield from _md_example(example)
    yield from (_line(text) for text in (section.reading, section.source and f"Source: {section.source}") if text)


def _md_figure(figure: Figure, folder: str | None) -> str:
    """The path is escaped as a URL: a name may contain a bracket or a space."""
    words = f"**{_md(figure.title)}** {_md(figure.caption)}".strip()
    if folder is None:
        return f"{words}\n\n{_line(figure.alt)}"
    file = quote(str(PurePosixPath(folder) / f"{figure.name}.svg"))
    return f"![{_md(figure.alt)}]({file})\n\n{words}"


def _md_example(example: Shown) -> Iterator[str]:
    yield f"### {_md(example.title)}"
    yield f"Text {example.text}: {_md(example.label)}{_md(gold(example))}"
    yield from (f"> {_line(text)}" for text in example_texts(example))
    if example.colourings:
        yield _grid(("", "strongest words", ""), [(c.name, strongest_words(c), c.note) for c in example.colourings])
    if example.note:
        yield _line(example.note)


def _grid(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool] = ()) -> str:
    rules = ["---:" if numeric else "---" for numeric in right] or ["---"] * len(heads)
    lines = [[_md(head) for head in heads], rules, *([_md(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _md(text: str) -> str:
    """A text on one line, with all markup escaped."""
    line = " ".join(_printable(text).split()).translate(_MARKS)
    return _INTERVAL.sub(r"[\1]", line.replace("://", "&#58;//").replace("www.", "www&#46;"))


def _line(text: str) -> str:
    """The same as a paragraph: its start is escaped too where it would begin a list, a rule or a heading."""
    return _LIST_START.sub(r"\1\\\2", _md(text))


def _fenced(text: str, kind: str = "") -> str:
    """A code block, with a fence longer than any in the text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{kind}\n{_printable(text).strip()}\n{fence}"


def _printable(text: str) -> str:
    """With � in place of control characters and of those that change the direction of reading."""

    def controls(c: str) -> bool:
        return unicodedata.category(c) in ("Cc", "Cs") or "\u202a" <= c <= "\u202e" or "\u2066" <= c <= "\u2069"

    return "".join("�" if c not in "\n\t" and controls(c) else c for c in text)


# CSV

ESTIMATE = ("n", "missing", "mean", "median", "std", "low", "high")
DIFFERENCE = ("mean", "low", "high", "p", "p_adjusted", "decision", "better")


def csv(document: Document) -> str:
    """One line per estimate of a run; of a document without estimates, per cell of its tables. Numbers are unrounded.

    A text that a spreadsheet would take for a formula has an apostrophe before it.
    """
    if document.rows:
        return _rows_csv(document.rows)
    lines = (
        (section.name, table.name, name, column.head, value)
        for section in (*document.answers, *document.sections)
        for table in section.tables
        for name, row in zip(_named(table), table.rows, strict=True)
        for column, value in list(zip(table.columns, row, strict=True))[min(1, len(row) - 1) :]
    )
    return _csv(("section", "table", "row", "column", "value"), lines)


def _rows_csv(rows: Iterable[Row]) -> str:
    """Estimates, compared with random where possible; a number that does not exist is empty."""
    lines = (
        (
            row.check,
            row.measure,
            row.method,
            place(row.at),
            *(getattr(row, name) for name in ESTIMATE),
            *(getattr(row.versus_random, name, None) for name in DIFFERENCE),
        )
        for row in rows
    )
    return _csv(("check", "measure", "method", "at", *ESTIMATE, *(f"random {name}" for name in DIFFERENCE)), lines)


def _csv(heads: Sequence[str], lines: Iterable[Sequence[Cell]]) -> str:
    file = io.StringIO()
    writer = tables.writer(file, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([_full(cell) for cell in line] for line in lines)
    return file.getvalue()


def _full(cell: Cell) -> str:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if not isinstance(cell, str):
        return str(cell)
    text = "\n".join(re.split("\r\n?", cell))  # the writer leaves a lone \r without quotes, which no reader takes
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\n")) else text


def _named(table: Table) -> list[str]:
    """A distinct name for each row: its first cell, or as many cells as needed."""
    for k in range(1, len(table.columns) + 1):
        names = [", ".join("" if cell is None else str(cell) for cell in row[:k]) for row in table.rows]
        if len(set(names)) == len(names):
            return names
    return [f"{cell(row[0])} ({i})" for i, row in enumerate(table.rows, 1)]
