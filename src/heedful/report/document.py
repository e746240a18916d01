"""Document: a report as data. Every format (terminal, HTML, Markdown, LaTeX, CSV) is written from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from heedful.audits.summary import Row
from heedful.report.phrases import DASH, Cell, cell

NOT_MEASURED = "not measured"  # the fact that names what a profile left out
Tone = Literal["for", "against", "weight", "none"]


@dataclass(frozen=True)
class Figure:
    """A chart, and its numbers in words.

    `name` is its file name without ending, unique in the report. `svg` is one element styled by classes only; `alt` has
    the numbers, for readers who cannot see the shapes.
    """

    name: str
    title: str
    svg: str
    alt: str
    caption: str = ""


@dataclass(frozen=True)
class Column:
    """A column of a table: its head, and how many decimals its numbers have."""

    head: str
    digits: int = 2
    says: str = ""  # what the number means, for a footnote or a tooltip


@dataclass(frozen=True)
class Table:
    """Rows of cells; the first cell of each names it."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""


@dataclass(frozen=True)
class ColouredWord:
    """A word of a coloured text: `strength` is its share of the strongest score, `score` the raw one."""

    text: str
    tone: Tone = "none"
    strength: float = 0.0  # 0 … 1
    score: float | None = None
    space: str = " "  # the space before it, if any


@dataclass(frozen=True)
class Colouring:
    """One text coloured once: by a method, or by one of two attentions shown side by side."""

    name: str
    words: tuple[ColouredWord, ...]
    note: str = ""


@dataclass(frozen=True)
class Shown:
    """A text shown as an example, and why."""

    title: str
    text: int  # its number in the run
    label: str  # the predicted label with its probability
    gold: str | None
    colourings: tuple[Colouring, ...]
    beside: bool = False  # whether two colourings are compared side by side
    note: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the report: its question, the answer in a few sentences, and the evidence."""

    name: str  # the check, or "words", "examples", …: an anchor
    title: str
    question: str
    findings: tuple[str, ...]  # sentences with numbers; the first is the answer
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    examples: tuple[Shown, ...] = ()
    reading: str = ""  # how to read the numbers, and what they do not show
    source: str = ""  # papers


@dataclass(frozen=True)
class Document:
    """A whole report: which explanation to use (`advice`) comes first, then the verdict on attention."""

    title: str
    verdict: str  # "explanation", "not explanation", "not not explanation", "undecided"; empty without one
    sentences: tuple[str, ...]  # the verdict in words, with its reasons
    facts: tuple[tuple[str, str], ...]  # model, data, texts, accuracy, seed, date of versions: name and value
    answers: tuple[Section, ...]
    sections: tuple[Section, ...]
    limits: tuple[str, ...]
    cite: str
    ran: Mapping[str, Any]  # the manifest of the run
    advice: tuple[str, ...] = ()  # which explanation to use, then why
    conclusion: str = ""  # both answers in one sentence; the last line of the terminal
    rows: tuple[Row, ...] = ()  # all estimates of the run
    contents: str = "The checks"  # the head of the list of sections


STRONGEST = 6  # words of an example that a text format lists


def strongest_words(colouring: Colouring) -> str:
    """The strongest words of a colouring with their scores, the strongest first."""
    words = sorted((w for w in colouring.words if w.strength > 0), key=lambda w: -w.strength)[:STRONGEST]
    return ", ".join(w.text if w.score is None else f"{w.text} ({cell(float(w.score))})" for w in words) or DASH


def cells(table: Table) -> list[list[str]]:
    """The rows of a table as strings."""
    # strict: a row that is too short would put its numbers under the wrong names
    return [[cell(value, c.digits) for value, c in zip(row, table.columns, strict=True)] for row in table.rows]


def numeric_columns(table: Table) -> list[bool]:
    """Whether each column has numbers only, and at least one."""
    columns = [[row[i] for row in table.rows if row[i] is not None] for i in range(len(table.columns))]
    return [bool(cells) and not any(isinstance(cell, str) for cell in cells) for cells in columns]


def notes(columns: Sequence[Column]) -> str:
    """What the columns mean, in one line below a table."""
    return "; ".join(f"{c.head}: {c.says}" for c in columns if c.says)


def example_texts(example: Shown) -> list[str]:
    """The text of an example; several where its colourings show different words."""
    texts = ("".join(f"{w.space}{w.text}" for w in colouring.words).strip() for colouring in example.colourings)
    return list(dict.fromkeys(texts))


def gold(example: Shown) -> str:
    """The gold label, if the data have one."""
    return "" if example.gold is None else f"; gold label: {example.gold}"
