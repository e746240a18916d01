"""The section on agreement: whether methods rank words in the same order."""

from __future__ import annotations

from heedful.audits.record import Record
from heedful.audits.summary import Row
from heedful.checks.tables import AgreementTables
from heedful.report.charts import Words, matrix
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import and_list, cautious, count_texts, exists, interval
from heedful.report.sections.parts import (
    GRADIENT,
    LOO,
    TEXTS_COLUMN,
    VERDICT_METHOD,
    MethodMeasure,
    check_section,
    extremes,
    own_check,
    tally_methods,
)

CHECK = own_check(__name__)
POINTING = MethodMeasure(
    "pointing", "effect of a method's top fifth of the words, over that of leave-one-out's own top fifth", "share",
    "higher",
)  # fmt: skip
COLUMN_TITLES = {
    "tau": "τ",
    "weighted tau": "weighted τ",
    "top-k tau": "top-k τ",
    "top-k overlap": "overlap",
    "jsd": "JSD",
}


def section(record: Record) -> Section:
    """Do two methods rank the words of a text in the same order?"""
    others = [row for row in POINTING.rows(record, CHECK) if row.method != LOO]
    tables = record.tables(CHECK, AgreementTables)
    pointing = (extremes(POINTING.phrase, others), tally_methods(others))
    findings = (_attention_sentence(record), _seen_sentence(record), _ceiling_sentence(record), *pointing)
    figures = (*(_matrix(tables) if tables else ()), *POINTING.figures(record, CHECK))
    published = _published(tables) if tables else ()
    return check_section(record, CHECK, findings, figures, (*published, *_with_loo(record)))


def pair(record: Record, measure: str, method: str, other: str) -> Row | None:
    """The row of two methods, stored under either name."""
    both = (record.row(CHECK, measure, a, {"with": b}) for a, b in ((method, other), (other, method)))
    return next((row for row in both if row is not None), None)


def _attention_sentence(record: Record) -> str | None:
    rows = {name: row for name in (GRADIENT, LOO) if (row := pair(record, "tau", VERDICT_METHOD, name)) is not None}
    if not rows:
        return None
    taus = and_list([f"τ = {interval(row)} with {name}" for name, row in rows.items()])
    n = next(iter(rows.values())).n
    return cautious(f"The ranking by {VERDICT_METHOD} has Kendall's {taus} ({count_texts(n)}).", n)


def _seen_sentence(record: Record) -> str | None:
    """Which words took part, where they were not all."""
    row = record.row(CHECK, "attended words")
    if row is None or row.mean == 1:
        return None
    return f"Only words that attention can point at are ranked: a share of {interval(row)} of the words of a text."


def _ceiling_sentence(record: Record) -> str | None:
    """For comparison: two methods that both query the model, and random."""
    ceiling, floor = pair(record, "tau", GRADIENT, LOO), pair(record, "tau", "random", LOO)
    if ceiling is None:
        return None
    chance = f"; a random order has {interval(floor)} with {LOO}" if floor else ""
    return cautious(
        f"For comparison, {GRADIENT} and {LOO}, which both query the model, have τ = {interval(ceiling)}{chance}.",
        ceiling.n,
    )


def _matrix(tables: AgreementTables) -> tuple[Figure, ...]:
    table = tables.matrix
    known = [i for i, row in enumerate(table.tau) if any(exists(x) for x in row)]
    names = [table.methods[i] for i in known]
    values = [[table.tau[i][j] for j in known] for i in known]
    caption = "Mean τ over texts, of magnitudes. A cell is empty where τ does not exist."
    words = Words(f"{CHECK}-matrix", "Agreement of every two methods", caption=caption)
    return (matrix(words, names, values),) if names else ()


def _published(tables: AgreementTables) -> tuple[Table, ...]:
    """Jain & Wallace's Table 2."""
    rows = tuple(
        (f"{row.method}, {row.other}", label, cell.n, cell.mean, cell.std, cell.significant)
        for row in tables.published
        for label, cell in (("all", row.all), *row.classes.items())
    )
    columns = (
        Column("methods"),
        Column("predicted"),
        TEXTS_COLUMN,
        Column("mean τ"),
        Column("std", 2, "standard deviation over texts"),
        Column("Sig. Frac.", 2, "share of texts with p ≤ .05, two-sided, of τ = 0"),
    )
    title, caption = "The published pairs, by predicted label", "As in Table 2 of Jain & Wallace 2019."
    return (Table(f"{CHECK}-published", title, columns, rows, caption),) if rows else ()


def _with_loo(record: Record) -> tuple[Table, ...]:
    """Every method with leave-one-out."""
    rows = {
        name: [pair(record, measure, name, LOO) for measure in COLUMN_TITLES] for name in record.methods if name != LOO
    }
    cells = tuple(
        (name, pairs[0].n, *(interval(row) if row else None for row in pairs))
        for name, pairs in rows.items()
        if pairs[0]
    )
    columns = (Column("method"), TEXTS_COLUMN, *(Column(head) for head in COLUMN_TITLES.values()))
    caption = "Means over texts with 95 % intervals. Compare with the row of random, not with 0."
    return (Table(f"{CHECK}-{LOO}", f"Agreement with {LOO}", columns, cells, caption),) if cells else ()
