"""Document on the terminal: which explanation to use, the verdict on attention, and the run at a glance."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from heedful.report.document import NOT_MEASURED, Document, Section, Table, cells, notes, numeric_columns
from heedful.report.terminal import clean


def show_document(document: Document, console: Console) -> None:
    """Print the recommendation and the verdict, the overview tables, what was left out, and the conclusion."""
    for i, sentence in enumerate(document.advice):
        console.print(Text(clean(sentence), style="bold" if i == 0 else ""))
    if document.verdict:
        console.print(Text.assemble("\nAttention: ", (document.verdict, "bold")))
    for sentence in document.sentences:
        console.print(Padding(Text(clean(sentence)), (0, 0, 0, 2)))
    for name, value in document.facts:
        if name in ("data", "accuracy", NOT_MEASURED):
            console.print(Text(clean(f"{name}: {value}"), style="dim"))
    for table in _tables(document.answers, "overview"):
        console.print()
        console.print(_grid(table))
        for note in filter(None, (notes(table.columns), table.caption)):
            console.print(Text(clean(note), style="dim"))
    for table in _tables(document.sections, "left-out"):
        _show_left_out(table, console)
    if document.conclusion:
        console.print(Text(f"\n{clean(document.conclusion)}", style="bold"))


def show_study(document: Document, console: Console) -> None:
    """Print the title, the answer, and the first table of the study."""
    console.print(Text(clean(document.title), style="bold"))
    for sentence in document.sentences:
        console.print(Padding(Text(clean(sentence)), (0, 0, 0, 2)))
    for table in document.sections[0].tables[:1]:
        console.print()
        console.print(Text(clean(table.title), style="bold"))
        console.print(_grid(table))
        for note in filter(None, (notes(table.columns), table.caption)):
            console.print(Text(clean(note), style="dim"))


def _tables(sections: Sequence[Section], name: str) -> list[Table]:
    return [table for section in sections if section.name == name for table in section.tables]


def _grid(table: Table) -> Grid:
    grid = Grid(box=None, padding=(0, 1, 0, 0), show_edge=False)
    for i, (column, numeric) in enumerate(zip(table.columns, numeric_columns(table), strict=True)):
        grid.add_column(clean(column.head), justify="right" if numeric or i else "left", no_wrap=i > 0)
    for row in cells(table):
        grid.add_row(*(Text(clean(cell)) for cell in row))
    return grid


def _show_left_out(table: Table, console: Console) -> None:
    """One line for each reason."""
    by_reason: dict[str, list[str]] = {}
    for what, texts, reason in cells(table):
        by_reason.setdefault(reason, []).append(f"{what} on {texts} texts")
    for reason, parts in by_reason.items():
        console.print(Text(clean(f"left out: {', '.join(parts)}: {reason}"), style="dim"))
