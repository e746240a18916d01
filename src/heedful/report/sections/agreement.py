"""The section on agreement: whether methods rank words in the same order."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from heedful.audits.record import Record
from heedful.audits.summary import Row
from heedful.checks.tables import AgreementTables, TauCell, TauPair
from heedful.report.charts import Words, histogram, matrix
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import Cell, and_list, cautious, count_texts, exists, fixed, interval, slug
from heedful.report.sections.attention_changes import MAX_LABELS
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
TAU_BINS = np.linspace(-1, 1, 31)  # edges, as in Jain & Wallace's figures
SIGNIFICANT = Column("Sig. Frac.", 2, "share of texts with p ≤ .05, two-sided, of τ = 0")
WITHOUT_TAU = Column("no τ", 0, "texts on which one method gives all words the same score: counted, not averaged")


def section(record: Record) -> Section:
    """Do two methods rank the words of a text in the same order?"""
    others = [row for row in POINTING.rows(record, CHECK) if row.method != LOO]
    tables = record.tables(CHECK, AgreementTables)
    pointing = (extremes(POINTING.phrase, others), tally_methods(others))
    findings = (_attention_sentence(record), _seen_sentence(record), _ceiling_sentence(record), *pointing)
    taus = [tau_histogram(record, row) for row in tables.published] if tables else []
    figures = (*(_matrix(tables) if tables else ()), *taus, *POINTING.figures(record, CHECK))
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


def tau_histogram(record: Record, row: TauPair) -> Figure:
    """The τ of two methods over texts, by the label that the model predicts."""
    findings = record.findings(CHECK)
    tau = findings.values("tau", row.method, {"with": row.other})
    predicted = np.asarray(record.facts["predicted"][: len(tau)])
    labels = enumerate(record.labels) if len(record.labels) <= MAX_LABELS else ()
    chosen = {label: tau[predicted == i] for i, label in labels} or {"all": tau}
    series = {
        label: (TAU_BINS, np.histogram(values[np.isfinite(values)], TAU_BINS)[0]) for label, values in chosen.items()
    }
    name = slug(f"{CHECK} tau {row.method} {row.other}")
    missing = f" {count_texts(row.all.missing)} without τ." if row.all.missing else ""
    caption = f"By predicted label, 30 bins as in Jain & Wallace 2019; the line is the mean of all texts.{missing}"
    words = Words(name, f"τ of {row.method} and {row.other}", "Kendall's τ of a text", "texts", caption=caption)
    return histogram(words, series, {"mean": row.all.mean})


def side_by_side(runs: Mapping[str, Record]) -> tuple[Table, ...]:
    """Jain & Wallace's Table 2 with several runs in one table: mean τ ± std and the significant share of each."""
    lines = {name: _lines(tables) for name, record in runs.items() if (tables := record.tables(CHECK, AgreementTables))}
    heads = list(dict.fromkeys(head for own in lines.values() for head in own))
    columns = (
        Column("methods"),
        Column("predicted"),
        *(
            column
            for name in lines
            for column in (
                Column(f"{name}: τ", says="mean ± standard deviation over texts"),
                Column(f"{name}: Sig.", 2, SIGNIFICANT.says),
                Column(f"{name}: n", 0, "texts with τ"),
            )
        ),
    )
    empty = TauCell(0, 0)
    rows = tuple((*head, *(cell for own in lines.values() for cell in _beside(own.get(head, empty)))) for head in heads)
    title, caption = "The published pairs, side by side", "As in Table 2 of Jain & Wallace 2019."
    return (Table(f"{CHECK}-side-by-side", title, columns, rows, caption),) if rows else ()


def _beside(cell: TauCell) -> tuple[Cell, ...]:
    if not cell.n:
        return None, None, cell.n
    return f"{fixed(cell.mean)} ± {fixed(cell.std)}", cell.significant, cell.n


def _lines(tables: AgreementTables) -> dict[tuple[str, str], TauCell]:
    """The cells of Table 2, by pair of methods and by predicted label."""
    return {
        (f"{row.method}, {row.other}", label): cell
        for row in tables.published
        for label, cell in (("all", row.all), *row.classes.items())
    }


def _published(tables: AgreementTables) -> tuple[Table, ...]:
    """Jain & Wallace's Table 2."""
    rows = tuple(
        (*head, cell.n, cell.missing, cell.mean, cell.std, cell.significant) for head, cell in _lines(tables).items()
    )
    columns = (
        Column("methods"),
        Column("predicted"),
        TEXTS_COLUMN,
        WITHOUT_TAU,
        Column("mean τ"),
        Column("std", 2, "standard deviation over texts"),
        SIGNIFICANT,
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
