"""Page: a report as one HTML document, which loads nothing and can be read without a script.

Pure functions prepare small frozen records; the template `audit.html.j2` only lays them out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jinja2

from heedful.report import html
from heedful.report.document import Document, Section, Shown, Table, cells
from heedful.report.phrases import DASH, capital, score_text

OPEN_SECTIONS = 3  # sections whose evidence is unfolded at first
MAX_UNBROKEN = 18  # characters of a cell that is not broken into lines
MAX_ROWS = 40  # rows of a table before the rest is folded
TONES = {"explanation": "for", "not explanation": "against", "not not explanation": "weight", "undecided": "undecided"}
# a verdict holds for one model and its texts, and its word means little to a reader who knows none of the papers
SCOPES = {
    "explanation": "for this model, on these texts: it may be used as one",
    "not explanation": "for this model, on these texts: it should not be used as one",
    "not not explanation": "for this model, on these texts: it carries some, but not all, of what decides",
    "undecided": "whether attention explains this model, on these texts",
}
_NUMBER = re.compile(r"[<>≤≥±]?\s*[+−-]?[\d∞]")
_UNBROKEN = re.compile(r"(?:\d(?: %)? )?\[[−+-]?\d[\d.,%− ]{0,30}\]|\d %")


@dataclass(frozen=True)
class PageSection:
    """A section on the page: its unique anchor, and whether its evidence is unfolded at first."""

    section: Section
    anchor: str
    open: bool


@dataclass(frozen=True)
class Grid:
    """A table as strings: the rows shown, those folded away, and the kinds of its columns (`_kind`)."""

    table: Table
    rows: Sequence[Sequence[str]]
    more: Sequence[Sequence[str]]
    kinds: Sequence[str]


@dataclass(frozen=True)
class ManifestNode:
    """A name of the manifest with its value, or with its children."""

    name: str
    value: str
    below: tuple[ManifestNode, ...] = ()


def document_page(document: Document) -> str:
    """One self-contained HTML document: advice, verdict, a section per check, limits, and what was run."""
    names = iter(anchors([s.name for s in (*document.answers, *document.sections)]))
    return html.render_page(
        _templates(),
        "audit.html.j2",
        "audit.js",
        report=document,
        statement=statement(document.verdict),
        scope=SCOPES.get(document.verdict, ""),
        tone=TONES.get(document.verdict, "undecided"),
        answers=[PageSection(s, next(names), True) for s in document.answers],
        sections=[PageSection(s, next(names), i < OPEN_SECTIONS) for i, s in enumerate(document.sections)],
        ran=nodes(document.ran),
    )


def statement(verdict: str) -> str:
    """The verdict as a plain statement: "not explanation" -> "Attention is not explanation"."""
    if verdict in TONES and verdict != "undecided":
        return f"Attention is {verdict}".replace("not not", "not\u00a0not")
    return capital(verdict)


def anchors(names: Iterable[str]) -> list[str]:
    """A distinct anchor for each name, of ASCII letters, digits and hyphens."""
    taken: dict[str, None] = {}
    for name in names:
        plain = "-".join(["section", *re.findall("[a-z0-9]+", name.lower())])
        wanted = [plain, *(f"{plain}-{i}" for i in range(2, len(taken) + 3))]
        taken[next(w for w in wanted if w not in taken and w != "section")] = None
    return list(taken)


def grid(table: Table) -> Grid:
    """A table for the page."""
    rows = cells(table)
    kinds = [_kind(column) for column in zip(*rows, strict=True)] or ["s"] * len(table.columns)
    return Grid(table, rows[:MAX_ROWS], rows[MAX_ROWS:], kinds)


def _kind(column: Iterable[str]) -> str:
    """The kind of a column: numbers ("n") and short words ("s") stay on one line, long words ("l") are wide."""
    filled = [cell for cell in column if cell not in ("", DASH)]
    longest = max(map(len, filled), default=0)
    if filled and longest <= 40 and all(_NUMBER.match(cell) for cell in filled):
        return "n"
    return "s" if longest <= MAX_UNBROKEN else "l"


def nodes(tree: Mapping[str, Any]) -> tuple[ManifestNode, ...]:
    """The manifest as a tree."""
    return tuple(_node(str(name), value) for name, value in tree.items())


def _node(name: str, value: Any) -> ManifestNode:
    if isinstance(value, Mapping) and value:
        return ManifestNode(name, "", nodes(value))
    if isinstance(value, (list, tuple)) and any(isinstance(v, (Mapping, list, tuple)) for v in value):
        return ManifestNode(name, "", nodes({str(i): v for i, v in enumerate(value)}))
    return ManifestNode(name, _plain(value))


def _plain(value: Any) -> str:
    if isinstance(value, (list, tuple, Mapping)):
        return ", ".join(_plain(v) for v in value) or DASH
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return str(value).replace("-", "−") if isinstance(value, (int, float)) else str(value)


def unbroken(sentence: str) -> str:
    """A sentence whose numbers stay on one line with their percent signs and intervals."""
    return _UNBROKEN.sub(lambda match: match[0].replace(" ", "\u00a0"), sentence)


def evidence(section: Section) -> str:
    """The evidence of a section: "2 figures, 1 table"."""
    counts = {"figure": section.figures, "table": section.tables, "example": section.examples}
    return ", ".join(f"{len(v)} {k}{'s' * (len(v) > 1)}" for k, v in counts.items() if v)


def tones(examples: Iterable[Shown]) -> set[str]:
    """The colours that examples use, for their legend."""
    return {word.tone for example in examples for colouring in example.colourings for word in colouring.words}


def colour_strength(strength: float) -> float:
    """How strongly a word is coloured, clipped to 0 … 1."""
    return 0.0 if math.isnan(strength) else round(min(max(strength, 0.0), 1.0), 3)


@cache
def _templates() -> jinja2.Environment:
    filters: dict[str, Callable[..., Any]] = {"grid": grid, "evidence": evidence, "tones": tones}
    return html.environment(filters | {"share": colour_strength, "score": score_text, "unbroken": unbroken})
