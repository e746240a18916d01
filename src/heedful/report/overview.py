"""Overview: a run at a glance, in two tables of the numbers that checks highlight; the terminal shows them too."""

from __future__ import annotations

from heedful.audits.ranking import COMPARABLE
from heedful.audits.record import Record
from heedful.audits.summary import Row
from heedful.core.finding import Highlight
from heedful.report.document import Column, Section, Table
from heedful.report.phrases import Cell, fixed, interval, symbol


def overview(record: Record) -> tuple[Section, ...]:
    """What checks found about the model, and about each method; nothing where no check highlights a number."""
    tables = (*_model(record), *_methods(record))
    return (Section("overview", "At a glance", "What did the checks find?", (), tables=tables),) if tables else ()


def _highlights(record: Record, of_methods: bool) -> list[tuple[str, Highlight]]:
    return [
        (name, highlight)
        for name in record.checks
        for highlight in record.about(name).highlights
        if bool(highlight.head) == of_methods
    ]


def _model(record: Record) -> tuple[Table, ...]:
    first = [
        (h.says, rows[0])
        for check, h in _highlights(record, of_methods=False)
        if (rows := [row for row in record.rows(check, h.measure, h.method, **h.at) if row.known])
    ]
    mean = Column("mean", says="over texts, with a 95 % interval")
    columns = (Column("the model's attention"), mean, Column("texts"))
    cells = tuple((says, interval(row), row.n) for says, row in first)
    return (Table("overview-model", "The model's attention at a glance", columns, cells),) if cells else ()


def _methods(record: Record) -> tuple[Table, ...]:
    highlights = _highlights(record, of_methods=True)
    columns = [(highlight, rows) for check, highlight in highlights if (rows := _by_method(record, check, highlight))]
    names = list(dict.fromkeys([*record.methods, *(m for _, rows in columns for m in rows)]))
    cells = [(name, *(_cell(highlight, rows, name) for highlight, rows in columns)) for name in names]
    measured = tuple(row for row in cells if any(cell is not None for cell in row[1:]))
    heads = (Column("method"), *(Column(highlight.head, highlight.digits, highlight.says) for highlight, _ in columns))
    caption = "* not significantly different from random; ? too few texts to decide; – not measured."
    return (Table("overview-methods", "Methods at a glance", heads, measured, caption),) if measured else ()


def _by_method(record: Record, check: str, highlight: Highlight) -> dict[str, Row]:
    """The row of each method; a pair of methods has its row under the name that comes first."""
    rows: dict[str, Row] = {}
    for row in record.rows(check, highlight.measure, None, **highlight.at):
        if row.method and row.known:
            rows.setdefault(row.method, row)  # the first place
    if "with" in highlight.at:
        pairs = record.rows(check, highlight.measure, str(highlight.at["with"]))
        rows |= {str(row.at["with"]): row for row in pairs if row.known and "with" in row.at}
    return rows


def _cell(highlight: Highlight, rows: dict[str, Row], method: str) -> Cell:
    """A mean; None over much fewer texts than other methods have, since it cannot be compared."""
    row, most = rows.get(method), max(row.n for row in rows.values())
    if row is None or row.n < COMPARABLE * most:
        return None
    return f"{fixed(row.mean, highlight.digits)}{symbol(row.versus_random)}"
