"""Ranking: which explanation to use for this model, in words, with what each costs."""

from __future__ import annotations

from collections.abc import Sequence

from heedful.audits.ranking import RankedMethod, Ranking, reversals
from heedful.audits.record import Record
from heedful.report.charts import Words, dots
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import and_list, capital, count_texts, interval
from heedful.report.sections.parts import CONTROLS, dot

MAX_TIED = 4  # methods that a sentence names


def ranking_section(record: Record) -> Section | None:
    """The methods with their ranks, for each masking."""
    ranked = _ranked(record)
    if not ranked:
        return None
    return Section(
        name="ranking",
        title="Which explanation to use",
        question="Which method's order of the words follows the model best?",
        findings=advice(record),
        figures=tuple(_figure(one, i) for i, one in enumerate(ranked, 1)),
        tables=tuple(table_of(record, one, i) for i, one in enumerate(ranked, 1)),
        reading=(
            "The score is the area between two curves: the label's probability with a method's first words alone, less "
            "that without them, over all fractions of the text. A random order has 0 on average. Methods are compared "
            "two by two over the same texts (Holm's correction over all pairs, 5 %); a rank is a range, and methods "
            "whose ranges overlap may not be significantly different. LIME, Shapley values and leave-one-out remove "
            "words themselves, as the score does: with another masking they may lose."
        ),
        source="Samek et al. 2017; Petsiuk et al. 2018",
    )


def advice(record: Record) -> tuple[str, ...]:
    """Which explanation to use, in one sentence; then why, and whether the masking matters."""
    ranked = _ranked(record)
    if not ranked:
        return ("Which explanation to use was not examined: no check of this run ranks methods.",)
    main = ranked[0]
    best = main.methods[0]
    if not best.enough:
        return (
            f"Too few texts to recommend an explanation ({count_texts(best.n)}).",
            f"By means alone, {best.method} follows the model best: score {interval(best)} (masking: {main.masking}).",
        )
    if "random" in main.tied:
        return (
            f"No explanation can be recommended: no method's order of the words is significantly better than a random "
            f"one ({count_texts(best.n)}).",
        )
    tied = [name for name in main.tied if name not in CONTROLS]
    costs = {name: cost for name in tied if (cost := record.passes(name)) is not None}
    cheapest = min(costs, key=lambda name: costs[name], default=best.method)
    why = (
        f"{capital(best.method)} has the highest score, {interval(best)} (insertion − deletion; 0 is random; masking: "
        f"{main.masking})"
    )
    if len(tied) == 1:
        return (
            f"Use {best.method}: its order of the words follows this model best{_passes(record, best.method)}.",
            f"{why}. It is significantly better than every other method.",
            *_masking_sentences(ranked),
        )
    others = [name for name in tied if name != best.method]
    more = [f"{len(others) - MAX_TIED} more"] if len(others) > MAX_TIED else []
    return (
        f"Use {cheapest}: of the {len(tied)} methods that follow this model best, it is the cheapest"
        f"{_passes(record, cheapest)}.",
        f"{why}. Not significantly different from it: {and_list([*others[:MAX_TIED], *more])}.",
        *_masking_sentences(ranked),
    )


def _passes(record: Record, method: str) -> str:
    cost = record.passes(method)
    return "" if cost is None else f" ({cost:,.0f} passes a text)"


def _ranked(record: Record) -> list[Ranking]:
    """The rankings that have methods in them."""
    return [one for one in record.summary.rankings if one.methods]


def _masking_sentences(ranked: Sequence[Ranking]) -> list[str]:
    turned = reversals(ranked)
    if turned:
        parts = [
            f"{one.a} is significantly better than {one.b} with {one.better} and significantly worse with {one.worse}"
            for one in turned[:2]
        ]
        more = f"; and {len(turned) - 2} more pairs" if len(turned) > 2 else ""
        return [f"The order depends on the masking: {'; '.join(parts)}{more}."]
    if len(ranked) < 2:
        return []
    return [f"No two methods change places significantly between {and_list([one.masking for one in ranked])}."]


def _figure(ranking: Ranking, number: int) -> Figure:
    rows = [
        dot(one.method, one, "control" if one.method in CONTROLS else "method", _rank(one)) for one in ranking.methods
    ]
    title, axis = f"Score of each method, masking: {ranking.masking}", "insertion − deletion; 0 is random"
    caption = "Means over texts with 95 % intervals; at the right, the ranks that a method may have."
    words = Words(f"ranking-{number}", title, axis, caption=caption)
    return dots(words, rows, zero=0.0)


def _rank(one: RankedMethod) -> str:
    return f"{one.first}" if one.first == one.last else f"{one.first}–{one.last}"


def table_of(record: Record, ranking: Ranking, number: int) -> Table:
    """The methods under one masking, best first."""
    columns = (
        Column("method"),
        Column("rank"),
        Column("score", 3, "insertion − deletion, with its interval"),
        Column("texts"),
        Column("passes", 0, "forward and backward passes a text"),
        Column("CPU seconds", 3, "a text, as measured in this run; it differs from machine to machine"),
    )
    rows = tuple(
        (one.method, _rank(one), interval(one), one.n, record.passes(one.method), record.spent(one.method).seconds)
        for one in ranking.methods
    )
    left = f"Measured on too few texts to be ranked: {and_list(ranking.unranked)}." if ranking.unranked else ""
    return Table(f"ranking-table-{number}", f"Ranks, masking: {ranking.masking}", columns, rows, left)
