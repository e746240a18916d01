"""Agreeing: the section on agreement, whether methods put words in the same order."""

from __future__ import annotations

from heedful.audits.record import Record, Row
from heedful.report import telling
from heedful.report.charts import Words, matrix
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.sections.asking import Evidence, made
from heedful.report.sections.by_method import HIGHER, Told
from heedful.report.telling import cautious, exactly, interval, texts

GRADIENT, LOO = "gradient-x-input", "leave-one-out"


def agreement(record: Record) -> Section:
    """Do two methods put the words of a text in the same order?"""
    phrase = "effect of a method's top fifth of the words, over that of leave-one-out's own top fifth"
    pointing = Told("pointing", phrase, "share", HIGHER)
    others = [row for row in pointing.rows(record, "agreement") if row["method"] != LOO]
    told = (telling.spread(phrase, others), telling.beside_random(others))
    return made(
        record,
        "agreement",
        Evidence(
            (_attention_told(record), _ceiling_told(record), *told),
            (*_matrix(record), *pointing.figures(record, "agreement")),
            (*_published(record), *_with_loo(record)),
        ),
    )


def pair(record: Record, measure: str, one: str, other: str) -> Row | None:
    """The row of two methods, under whichever name comes first."""
    both = (exactly(record, "agreement", measure, a, {"with": b}) for a, b in ((one, other), (other, one)))
    return telling.first([row for row in both if row is not None])


def _attention_told(record: Record) -> str | None:
    rows = [(name, pair(record, "tau", telling.ATTENTION, name)) for name in (GRADIENT, LOO)]
    said = [f"τ = {interval(row)} with {name}" for name, row in rows if row]
    some = next((row for _, row in rows if row), None)
    if some is None:
        return None
    return cautious(f"The order of {telling.ATTENTION} has {telling.listed(said)} ({texts(some['n'])}).", some["n"])


def _ceiling_told(record: Record) -> str | None:
    """What to compare with: two methods that both ask the model, and chance."""
    ceiling, floor = pair(record, "tau", GRADIENT, LOO), pair(record, "tau", "random", LOO)
    if ceiling is None:
        return None
    chance = f"; a random order has {interval(floor)} with {LOO}" if floor else ""
    return cautious(
        f"The ceiling to compare with: {GRADIENT} and {LOO}, which both ask the model, have τ = {interval(ceiling)}"
        f"{chance}.",
        ceiling["n"],
    )


def _matrix(record: Record) -> tuple[Figure, ...]:
    table = record.table("agreement", "matrix") or {"methods": (), "tau": ()}
    some = [i for i, row in enumerate(table["tau"]) if any(telling.exists(x) for x in row)]
    names = [table["methods"][i] for i in some]
    values = [[table["tau"][i][j] for j in some] for i in some]
    words = Words(
        "agreement-matrix",
        "Agreement of every two methods",
        caption="Mean τ over texts, of magnitudes. A cell is empty where τ does not exist.",
    )
    return (matrix(words, names, values),) if names else ()


def _published(record: Record) -> tuple[Table, ...]:
    """Jain & Wallace's Table 2."""
    rows = tuple(
        (f"{row['method']}, {row['with']}", label, cell["n"], cell["mean"], cell["std"], cell["significant"])
        for row in record.table("agreement", "published") or ()
        for label, cell in (("all", row["all"]), *row["classes"].items())
    )
    columns = (
        Column("methods"),
        Column("predicted"),
        Column("n", 0, "texts"),
        Column("mean τ"),
        Column("std", 2, "standard deviation over texts"),
        Column("Sig. Frac.", 2, "share of texts with p ≤ .05, two-sided, of τ = 0"),
    )
    title = "The published pairs, by predicted label"
    return (
        (Table("agreement-published", title, columns, rows, "As in Table 2 of Jain & Wallace 2019."),) if rows else ()
    )


def _with_loo(record: Record) -> tuple[Table, ...]:
    """Every method with leave-one-out."""
    heads = {"tau": "τ", "weighted tau": "weighted τ", "top-k tau": "top-k τ", "top-k overlap": "overlap", "jsd": "JSD"}
    rows = [(name, [pair(record, measure, name, LOO) for measure in heads]) for name in record.methods if name != LOO]
    cells = tuple(
        (name, found[0]["n"], *(interval(row) if row else None for row in found)) for name, found in rows if found[0]
    )
    columns = (Column("method"), Column("n", 0, "texts"), *(Column(head) for head in heads.values()))
    caption = "Means over texts with 95 % intervals. Compare with the row of random, not with 0."
    return (Table("agreement-leave-one-out", f"Agreement with {LOO}", columns, cells, caption),) if cells else ()
