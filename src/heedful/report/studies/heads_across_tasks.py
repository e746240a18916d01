"""The section on heads across tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from heedful.audits.summary import Row
from heedful.maths.stats import Decision
from heedful.report.charts import Words, dots, matrix, scatter
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import capital, cautious, interval, mark, number, p_value, slug, versus_random
from heedful.report.sections.parts import dot
from heedful.report.studies import study_section
from heedful.studies.outcome import Outcome

MAX_SCATTERS = 12  # scatter plots of a report
MAX_HEADS = 10  # rows of the table of top heads
NAMES = {"tau": "Kendall's τ", "pearson": "Pearson's r", "overlap": "overlap of the top tenth"}


def sections(outcome: Outcome) -> list[Section]:
    """All pairs first, then the heads themselves."""
    main = study_section(
        outcome,
        tuple(_sentences(outcome)),
        figures=(*_dots(outcome), *_matrices(outcome), *_scatters(outcome)),
        tables=(_pairs(outcome), _within(outcome)),
    )
    return [main, _heads(outcome)]


def _sentences(outcome: Outcome) -> Iterator[str]:
    rows = [row for row in outcome.rows("tau") if row.known]
    if not rows:
        yield "No correlation exists: the importance of all heads is equal in one of the tasks."
        return
    first = rows[0].method
    mine = sorted((row for row in rows if row.method == first), key=lambda row: row.mean)
    heads, count = len(outcome.result.details["heads"]), len(mine)
    for row in [mine[-1], mine[0]][:count]:
        which = "" if count == 1 else "highest " if row is mine[-1] else "lowest "
        overlap = outcome.result.row("overlap", first, row.at)
        shared = "" if overlap is None else (
            f"; of the top {outcome.result.details['top']} heads, {interval(overlap)} are the same, and "
            f"{number(_pair(outcome, overlap)['expected'])} are expected by chance"
        )  # fmt: skip
        yield cautious(
            f"The {which}correlation of the {heads} heads' importances by {first} is τ = {interval(row)} between "
            f"{row.at['a']} and {row.at['b']} ({_beside_chance(outcome, row)}){shared}.",
            row.n,
        )
    ceilings = [part["tau"] for part in outcome.result.details["within"] if part["importance"] == first]
    known = sorted(x for x in ceilings if x is not None)
    if known:
        span = " to ".join(dict.fromkeys((number(known[0], 2), number(known[-1], 2))))
        yield f"Two random halves of one task's texts have τ = {span}: noise alone, of half as many texts, does that."


def _beside_chance(outcome: Outcome, row: Row) -> str:
    decided = None if row.versus_random is None else row.versus_random.decision
    if decided == Decision.TOO_FEW or row.versus_random is None:
        return f"95 % of random orders of the heads lie within {_null(outcome, row)}"
    word = "not significantly different from" if decided == Decision.NOT_SIGNIFICANT else f"{decided} than"
    p = row.versus_random.p_adjusted if row.versus_random.p_adjusted is not None else row.versus_random.p
    return f"{word} random orders of the heads, 95 % of which lie within {_null(outcome, row)}; p = {p_value(p)}"


def _pair(outcome: Outcome, row: Row) -> Mapping[str, Any]:
    wanted = {"measure": row.measure, "importance": row.method, **row.at}
    return next(pair for pair in outcome.result.details["pairs"] if wanted.items() <= pair.items())


def _null(outcome: Outcome, row: Row) -> str:
    pair = _pair(outcome, row)
    low, high = (number(pair[name]) for name in ("null_low", "null_high"))
    return f"[{low}, {high}]"


def _dots(outcome: Outcome) -> list[Figure]:
    marks = [
        dot(_tasks(row), row, row.method, versus_random(row.versus_random) or "")
        for row in _sorted(outcome.rows("tau"))
        if row.known
    ]
    caption = "95 % intervals over texts. At the right: compared with random orders of the heads."
    words = Words("heads-tau", "Kendall's τ of the importance of heads", "Kendall's τ", caption=caption)
    return [dots(words, marks, zero=0.0)] if marks else []


def _matrices(outcome: Outcome) -> list[Figure]:
    """Of all tasks, where there are more than two."""
    names = outcome.result.details["tasks"]
    if len(names) < 3:
        return []
    figures = []
    for kind in outcome.result.details["importance"]:
        taus = {(row.at["a"], row.at["b"]): row.mean for row in outcome.rows("tau", kind)}
        table = [[1.0 if a == b else taus.get((a, b), taus.get((b, a))) for b in names] for a in names]
        words = Words(f"heads-matrix-{slug(kind)}", f"Kendall's τ between tasks, by {kind}", "")
        figures.append(matrix(words, names, table))
    return figures


def _scatters(outcome: Outcome) -> list[Figure]:
    """A point for each head, for the pairs with the largest |τ|."""
    rows = sorted((r for r in outcome.rows("tau") if r.known), key=lambda row: -abs(row.mean))[:MAX_SCATTERS]
    layers = [f"layer {head['layer']}" for head in outcome.result.details["heads"]]
    left_out = len(outcome.rows("tau")) - len(rows)
    more = f" {left_out} more pairs are in the table only." if left_out else ""
    figures = []
    for row in rows:
        a, b = str(row.at["a"]), str(row.at["b"])
        scores = outcome.result.details["importance"][row.method]
        words = Words(
            f"heads-{slug(row.method)}-{slug(a)}-{slug(b)}",
            f"{capital(row.method)}: {a} and {b}",
            f"mean importance in {a}",
            f"mean importance in {b}",
            alt=f"{len(layers)} heads, τ = {interval(row)}",
            caption=f"A point for each head.{more}",
        )
        few = len(set(layers)) <= 6
        figures.append(scatter(words, scores[a], scores[b], layers if few else None))
    return figures


def _pairs(outcome: Outcome) -> Table:
    columns = (Column("tasks"), Column("importance"), *(Column(name) for name in NAMES.values()))
    rows = []
    for first in _sorted(outcome.rows("tau")):
        found = [outcome.result.row(measure, first.method, first.at) for measure in NAMES]
        cells = (None if row is None else f"{interval(row)}{mark(row)}" for row in found)
        rows.append((_tasks(first), first.method, *cells))
    caption = (
        "95 % intervals over texts. * not significantly different from random orders of the heads (by permutations, "
        "p ≤ .05 after Holm's correction over all pairs and importances of a measure); ? fewer than 30 texts: nothing "
        "is decided."
    )
    return Table("heads-pairs", "All pairs of tasks", columns, tuple(rows), caption)


def _chance(outcome: Outcome) -> Table:
    columns = (
        Column("tasks"),
        Column("importance"),
        Column("measure"),
        Column("n", 0, "texts of the smaller sample"),
        Column("value", 3),
        Column("by chance", 3, "the mean of random orders of the heads"),
        Column("low", 3, "95 % of random orders are above"),
        Column("high", 3, "and below"),
        Column("p", 2, "two-sided, by permutations, before the correction"),
        Column("decision", 2, "after Holm's correction"),
    )
    rows = []
    for row in _sorted(outcome.result.rows):
        pair = _pair(outcome, row)
        cells = (row.mean, pair["expected"], pair["null_low"], pair["null_high"])
        p = None if pair["p"] is None else p_value(pair["p"])
        rows.append((_tasks(row), row.method, NAMES[row.measure], row.n, *cells, p, versus_random(row.versus_random)))
    return Table("heads-chance", "All pairs of tasks beside chance", columns, tuple(rows))


def _sorted(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (str(row.at["a"]), str(row.at["b"]), row.method))


def _tasks(row: Row) -> str:
    return f"{row.at['a']} – {row.at['b']}"


def _within(outcome: Outcome) -> Table:
    columns = (Column("task"), Column("importance"), *(Column(name, 2) for name in NAMES.values()))
    rows = tuple(
        (part["task"], part["importance"], *(part[name] for name in NAMES)) for part in outcome.result.details["within"]
    )
    caption = "Between two random halves of a task's texts, mean over 100 halvings: what noise alone leaves."
    return Table("heads-within", "Agreement of a task with itself", columns, rows, caption)


def _heads(outcome: Outcome) -> Section:
    """The most important heads of each task."""
    details = outcome.result.details
    names, tables = details["tasks"], []
    for kind, scores in details["importance"].items():
        ranks = {name: _ranks(scores[name]) for name in names}
        best = sorted(range(len(details["heads"])), key=lambda i: sum(ranks[name][i] for name in names))[:MAX_HEADS]
        columns = (Column("layer", 0), Column("head", 0), *(Column(name, 0, "its rank") for name in names))
        rows = tuple(
            (details["heads"][i]["layer"], details["heads"][i]["head"], *(ranks[name][i] for name in names))
            for i in best
        )
        caption = "The heads with the smallest sum of ranks. Layers and heads are counted from 0."
        tables.append(Table(f"heads-top-{slug(kind)}", f"Ranks of the top heads, by {kind}", columns, rows, caption))
    return Section(
        name="heads-top",
        title="The most important heads",
        question="Which heads are important in all tasks?",
        findings=(f"Rank 1 is the most important of {len(details['heads'])} heads.",),
        tables=(*tables, _chance(outcome)),
    )


def _ranks(scores: list[float]) -> list[int]:
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    ranks = [0] * len(scores)
    for rank, i in enumerate(order, 1):
        ranks[i] = rank
    return ranks
