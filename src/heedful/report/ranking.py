"""Ranking: which explanation to use for this model, in words, with what each costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heedful.audits.record import Record
from heedful.maths.stats import MINIMUM
from heedful.report.charts import Interval, Words, dots
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.telling import capital, interval, listed, texts

TIED = 4  # methods that a sentence names


def ranking_section(record: Record) -> Section | None:
    """The methods with their places, for each way of taking words away."""
    leagues = ranked(record.summary)
    if not leagues:
        return None
    return Section(
        name="ranking",
        title="Which explanation to use",
        question="Which method's order of the words follows the model best?",
        findings=tuple(advice(record.summary)),
        figures=tuple(_league_figure(one, i) for i, one in enumerate(leagues)),
        tables=tuple(_league_table(record, one, i) for i, one in enumerate(leagues)),
        reading=(
            "The mark is the area between two curves: the label's probability with a method's first words alone, less "
            "that without them, over all fractions of the text. An order that knows nothing has 0 on average. Methods "
            "are compared two by two over the same texts (Holm's correction over all pairs, 5 %); a place is a range, "
            "and methods whose ranges overlap may not be told apart. LIME, Shapley values and leave-one-out take words "
            "away themselves, as the mark does: with another way of taking them away they may lose."
        ),
        source="Samek et al. 2017; Petsiuk et al. 2018",
    )


def advice(summary: Mapping[str, Any]) -> list[str]:
    """What to use, who cannot be told from it, which costs least; and whether the masking matters."""
    leagues = ranked(summary)
    if not leagues:
        return []
    main = leagues[0]
    best, tied = main["table"][0], main["tied with the best"]
    if best["n"] < MINIMUM:
        return [f"Too few texts to rank methods ({texts(best['n'])}); the order below is that of the means alone."]
    if "random" in tied:
        return [f"No method's order of the words can be told from a random one ({texts(best['n'])})."]
    said = (
        f"{capital(best['method'])} has the highest mark, {interval(best)}, where words are taken away by "
        f"{main['masking']}{_taken(summary, best['method'])}."
    )
    others = [name for name in tied[1:] if _kind(name) == "method"]
    return [said, _beside(summary, best["method"], others), *_orders_told(summary, leagues)]


def _beside(summary: Mapping[str, Any], best: str, tied: Sequence[str]) -> str:
    """Who cannot be told from the best, and which of them costs least."""
    if not tied:
        return "It is surely better than every other method."
    names = listed([*tied[:TIED], *([f"{len(tied) - TIED} more"] if len(tied) > TIED else [])])
    counted = {name: cost for name in (best, *tied) if (cost := passes(summary, name)) is not None}
    cheapest = min(counted, key=lambda name: counted[name], default=best)
    return f"It cannot be told from {names}" + (
        "." if cheapest == best else f"; the cheapest of them is {cheapest}{_taken(summary, cheapest)}."
    )


def _taken(summary: Mapping[str, Any], method: str) -> str:
    cost = passes(summary, method)
    return "" if cost is None else f" ({cost:,.0f} passes for a text)"


def ranked(summary: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The leagues that have methods in them."""
    return [one for one in summary.get("ranking", {}).get("leagues", []) if one["table"]]


def passes(summary: Mapping[str, Any], method: str) -> float | None:
    """Forward and backward passes of an explanation; None where the run did not count them."""
    rows = [row for row in summary["checks"].get("cost", {}).get("rows", []) if row["method"] == method]
    return sum(row["mean"] or 0.0 for row in rows) if rows else None


def _orders_told(summary: Mapping[str, Any], leagues: Sequence[Mapping[str, Any]]) -> list[str]:
    turned = summary["ranking"]["reversals"]
    if turned:
        told = [
            f"{one['better']} is surely better than {one['than']} with {one['under']} and surely worse with "
            f"{one['worse under']}"
            for one in turned
        ]
        more = f"; and {len(told) - 2} more pairs" if len(told) > 2 else ""
        return [f"The order depends on how words are taken away: {'; '.join(told[:2])}{more}."]
    if len(leagues) < 2:
        return []
    return [f"No two methods change places surely between {listed([one['masking'] for one in leagues])}."]


def _league_figure(league: Mapping[str, Any], at: int) -> Figure:
    rows = [
        Interval(row["method"], row["mean"], row["low"], row["high"], note=_places(row), series=_kind(row["method"]))
        for row in league["table"]
    ]
    words = Words(
        f"ranking-{at + 1}",
        f"Mark of each method, words taken away by {league['masking']}",
        x="insertion − deletion; 0 is chance",
        caption="Means over texts with 95 % intervals; at the right, the places that a method may have.",
    )
    return dots(words, rows, zero=0.0)


def _kind(method: str) -> str:
    return "control" if method in ("random", "uniform", "position") else "method"


def _places(row: Mapping[str, Any]) -> str:
    return f"{row['first']}" if row["first"] == row["last"] else f"{row['first']}–{row['last']}"


def _league_table(record: Record, league: Mapping[str, Any], at: int) -> Table:
    seconds = record.timing.get("methods", {})
    columns = (
        Column("method"),
        Column("place"),
        Column("mark", 3, "insertion − deletion, with its interval"),
        Column("texts"),
        Column("passes", 0, "forward and backward passes for a text"),
        Column("CPU seconds", 3, "for a text, as measured in this run; it differs from machine to machine"),
    )
    rows = tuple(
        (
            row["method"],
            _places(row),
            interval(row),
            row["n"],
            passes(record.summary, row["method"]),
            seconds.get(row["method"], {}).get("seconds each"),
        )
        for row in league["table"]
    )
    left = f" Measured on too few texts to be ranked: {listed(league['unranked'])}." if league["unranked"] else ""
    return Table(
        f"ranking-table-{at + 1}", f"Places, words taken away by {league['masking']}", columns, rows, left.strip()
    )
