"""A run's summary in the terminal: the verdict, what to use, facts on attention, a table of methods. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from heedful.report.ranking import advice
from heedful.report.terminal import clean
from heedful.report.verdict import sentences

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """A column of the table of methods: a measure of a check, at the first place that has all of `at`."""

    head: str
    check: str
    measure: str
    at: Mapping[str, Any]
    says: str
    digits: int = 2


COLUMNS = (
    Column("compr", "input-erasure", "aopc comprehensiveness", {}, "fall of the probability without the first words"),
    Column("suff", "input-erasure", "aopc sufficiency", {}, "its fall with the first words alone: lower is better"),
    Column("del", "input-erasure", "deletion", {}, "area under the probability as words go: lower is better"),
    Column("sign", "sign", "violation", {}, "the strongest word pushes the other way: lower is better"),
    Column("loo", "agreement", "tau", {"with": "leave-one-out"}, "τ with leave-one-out"),
    Column("edit", "sensitivity", "tau", {"change": "any"}, "τ after changes that should not matter"),
    Column("rand", "randomisation", "tau", {"layers": "all"}, "τ after all weights were randomised: near 0 is good"),
    Column("plaus", "plausibility", "auprc", {}, "precision against human rationales"),
    Column("passes", "cost", "forwards", {}, "forward passes of an explanation", 0),
)
FACTS: tuple[tuple[str, str, Mapping[str, Any], str], ...] = (
    ("permutation", "tvd", {"layer": "all", "head": "all"}, "attention shuffled: the output moves by (TVD)"),
    ("permutation", "correct", {"layer": "all", "head": "all"}, "attention shuffled: right answers"),
    ("uniform", "tvd", {"layer": "all"}, "attention made uniform: the output moves by (TVD)"),
    ("uniform", "correct", {"layer": "all"}, "attention made uniform: right answers"),
    ("adversarial", "jsd exact", {}, "the most different attention with the same output: JSD, exact"),
    ("adversarial", "jsd found", {}, "the same, found by optimising (ε-max JSD)"),
    ("adversarial", "tvd any head", {"delta": 0.05}, "other attention with which a head reads the same (5 %): TVD"),
    ("erasure", "delta js", {}, "erasing the top weight instead of another: ΔJS"),
)  # fmt: skip


def show(summary: Mapping[str, Any], console: Console) -> None:
    """Print the texts, the facts about attention, the table of methods, what was left out, and last the verdict."""
    console.print(Text(_texts(summary["texts"])))
    facts = [(words, row) for check, measure, at, words in FACTS if (row := _row(summary, check, measure, "", at))]
    if facts:
        table = Table.grid(padding=(0, 2, 0, 0))
        for words, row in facts:
            table.add_row(Text(words), Text(_interval(row)))
        console.print(table)
    console.print(_methods(summary))
    heads = [f"{c.head} {c.says}" for c in _columns(summary)]
    console.print(Text(f"{'; '.join(heads)}. * cannot be told from random; – not measured", style="dim"))
    for reason, what in _by_reason(summary["left out"]).items():
        console.print(Text(clean(f"left out: {', '.join(what)}: {reason}"), style="dim"))
    _answers(summary, console)


def _answers(summary: Mapping[str, Any], console: Console) -> None:
    """The verdict on attention with its reasons, and which explanation to use."""
    judged = summary.get("verdicts", {}).get("attention-mean")
    if judged is not None:
        console.print(Text.assemble("\nattention is ", (str(judged["word"]), "bold"), f": {judged['reason']}"))
        for sentence in sentences(judged)[1:]:
            console.print(Padding(Text(clean(sentence)), (0, 0, 0, 2)))
    for sentence in advice(summary):
        console.print(Text(clean(sentence)))


def _by_reason(rows: Sequence[Row]) -> dict[str, list[str]]:
    """What was left out for the same reason, together."""
    found: dict[str, list[str]] = {}
    for one in rows:
        what = " of ".join(filter(None, (one["check"] if one["check"] != "explain" else "", one["method"])))
        found.setdefault(one["reason"], []).append(f"{what or one['check']} on {one['texts']:,} texts")
    return found


def _texts(texts: Mapping[str, Any]) -> str:
    accuracy = texts["accuracy"]
    right = "" if accuracy is None else f"; the model is right on {accuracy['mean']:.1%} {_limits(accuracy, 2)}"
    few = "" if texts["n"] >= 30 else "; fewer than 30: nothing is decided"
    return f"{texts['n']:,} texts{right}{few}"


def _methods(summary: Mapping[str, Any]) -> Table:
    columns = _columns(summary)
    told = [row for c in columns for row in _rows(summary, c.check)]
    names = dict.fromkeys([*(r["method"] for r in told if r["method"]), *(str(r["at"].get("with", "")) for r in told)])
    table = Table(box=None, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("method", no_wrap=True)
    for column in columns:
        table.add_column(column.head, justify="right", no_wrap=True)
    most = {c.head: max(row["n"] for row in _rows(summary, c.check) if row["measure"] == c.measure) for c in columns}
    for name in names:
        cells = [_cell(_of_method(summary, c, name), c.digits, most[c.head]) for c in columns]
        if any(cell != "–" for cell in cells):
            table.add_row(Text(clean(name)), *cells)
    return table


def _columns(summary: Mapping[str, Any]) -> list[Column]:
    """Those that the run has measured."""
    return [c for c in COLUMNS if any(r["measure"] == c.measure for r in _rows(summary, c.check))]


def _of_method(summary: Mapping[str, Any], column: Column, method: str) -> Row | None:
    """A method's row; agreement has one for each pair, under the name that comes first."""
    found = _row(summary, column.check, column.measure, method, column.at)
    if found is None and "with" in column.at:
        found = _row(summary, column.check, column.measure, column.at["with"], {"with": method})
    return found


def _cell(row: Row | None, digits: int, most: int) -> str:
    """A mean; none that is over fewer texts than the others', with which it cannot be compared."""
    if row is None or row["mean"] is None or row["n"] < 0.9 * most:
        return "–"
    told = (row.get("random") or {}).get("says", "")
    mean = round(row["mean"], digits) + 0.0  # no −0.00
    return f"{mean:,.{digits}f}{'*' if told == 'cannot be told from random' else ''}".replace("-", "−")


def _rows(summary: Mapping[str, Any], check: str) -> Sequence[Row]:
    found: Sequence[Row] = summary["checks"].get(check, {}).get("rows", ())
    return found


def _row(summary: Mapping[str, Any], check: str, measure: str, method: str, at: Mapping[str, Any]) -> Row | None:
    """The first row of a measure and method whose place has all of `at`."""
    return next(
        (
            row
            for row in _rows(summary, check)
            if row["measure"] == measure and row["method"] == method and at.items() <= row["at"].items()
        ),
        None,
    )


def _interval(row: Row, digits: int = 3) -> str:
    if row["mean"] is None:
        return "–"
    return f"{row['mean']:.{digits}f} {_limits(row, digits)}  n = {row['n']:,}".replace("-", "−")


def _limits(row: Row, digits: int) -> str:
    return "" if row["low"] is None else f"[{row['low']:.{digits}f}, {row['high']:.{digits}f}]"
