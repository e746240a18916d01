"""Document: what a report is made of. Every format (terminal, HTML, Markdown, LaTeX, CSV) is written from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from heedful.audits.summary import Row
from heedful.report.phrases import DASH, Cell, cell

Tone = Literal["for", "against", "weight", "none"]


@dataclass(frozen=True)
class Figure:
    """A picture, and what it shows in words.

    `name` is its file name without ending, unlike any other of the report. `svg` is one element that carries no style
    of its own but classes; `alt` says what a reader who does not see it must know: the numbers, not the shapes.
    """

    name: str
    title: str
    svg: str
    alt: str
    caption: str = ""


@dataclass(frozen=True)
class Column:
    """How a column of a table is set: numbers with so many digits, words as they are."""

    head: str
    digits: int = 2
    says: str = ""  # what the number is, for a foot-note or a tooltip


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
    """A word of a coloured text: its share of the strongest, from −1 (against the label) to 1, and its raw score."""

    text: str
    tone: Tone = "none"
    strength: float = 0.0  # 0 … 1
    score: float | None = None
    space: str = " "  # what stands before it


@dataclass(frozen=True)
class Colouring:
    """One text coloured once: by a method, or by one of two attentions that stand side by side."""

    name: str
    words: tuple[ColouredWord, ...]
    note: str = ""  # what follows from it: "says negative .98"


@dataclass(frozen=True)
class Shown:
    """A text shown as an example, and why."""

    title: str  # "The attention that changed most without a change of the answer"
    text: int  # its number in the run
    label: str  # what the model says, in words with its probability
    gold: str | None
    colourings: tuple[Colouring, ...]
    beside: bool = False  # whether two colourings stand side by side, to be compared
    note: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the report: what it asks, what was found in a sentence or two, and the evidence."""

    name: str  # of the check, or "words", "examples": an anchor
    title: str
    question: str
    findings: tuple[str, ...]  # sentences with numbers; the first is the answer
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    examples: tuple[Shown, ...] = ()
    reading: str = ""  # how to read the numbers, and what they do not say
    source: str = ""  # papers


@dataclass(frozen=True)
class Document:
    """A whole report. `advice` comes first: which explanation to use; then the verdict on attention."""

    title: str
    verdict: str  # "explanation", "not explanation", "not not explanation", "undecided"; empty without one
    sentences: tuple[str, ...]  # the verdict in words, with its reasons
    facts: tuple[tuple[str, str], ...]  # model, data, texts, accuracy, seed, date of versions: name and value
    answers: tuple[Section, ...]
    sections: tuple[Section, ...]
    limits: tuple[str, ...]
    cite: str
    ran: Mapping[str, Any]  # the manifest, as a tree of names and values
    advice: tuple[str, ...] = ()  # which explanation to use, then why
    rows: tuple[Row, ...] = ()  # all estimates of the run


STRONGEST = 6  # words of an example


def strongest_words(colouring: Colouring) -> str:
    """The words that a colouring brings out, the strongest first, with their scores."""
    some = sorted((w for w in colouring.words if w.strength > 0), key=lambda w: -w.strength)[:STRONGEST]
    return ", ".join(w.text if w.score is None else f"{w.text} ({cell(float(w.score))})" for w in some) or DASH


def cells(table: Table) -> list[list[str]]:
    """The rows of a table as a reader sees them."""
    # strict: a row that is too short would put its numbers under the wrong names
    return [[cell(value, c.digits) for value, c in zip(row, table.columns, strict=True)] for row in table.rows]


def numeric_columns(table: Table) -> list[bool]:
    """Whether each column has numbers only, and some."""
    columns = [[row[i] for row in table.rows if row[i] is not None] for i in range(len(table.columns))]
    return [bool(cells) and not any(isinstance(cell, str) for cell in cells) for cells in columns]


def notes(columns: Sequence[Column]) -> str:
    """What the numbers are, in one line below a table."""
    return "; ".join(f"{c.head}: {c.says}" for c in columns if c.says)


def _text(colouring: Colouring) -> str:
    return "".join(f"{w.space}{w.text}" for w in colouring.words).strip()


def example_texts(example: Shown) -> list[str]:
    """The text of an example; several where its colourings are of different words."""
    return list(dict.fromkeys(map(_text, example.colourings)))


def gold(example: Shown) -> str:
    """What the data says of it, if anything."""
    return "" if example.gold is None else f"; in the data: {example.gold}"
