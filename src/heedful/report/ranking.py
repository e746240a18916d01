"""Ranking: which explanation to use for this model, why, and what each method costs."""

from __future__ import annotations

from collections.abc import Sequence

from heedful.audits.ranking import Ranking, reversals
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
        figures=tuple(_figure(ranking, i) for i, ranking in enumerate(ranked, 1)),
        tables=tuple(table_of(record, ranking, i) for i, ranking in enumerate(ranked, 1)),
        reading=(
            "The score is insertion − deletion: the area between the label's probability with a method's top words "
            "alone and that without them, over all fractions of the text. A random order has 0 on average. Methods are "
            "compared in pairs over the same texts (Holm's correction over all pairs, 5 %). A rank is a range; methods "
            "whose ranges overlap may not be significantly different. LIME, Shapley values and leave-one-out remove "
            "words themselves, as the score does; with another masking they may score lower."
        ),
        source="Samek et al. 2017; Petsiuk et al. 2018",
    )


def advice(record: Record) -> tuple[str, ...]:
    """Which explanation to use; then why, and whether the masking matters."""
    ranked = _ranked(record)
    if not ranked:
        return ("No explanation is recommended: no check of this run ranks methods (input-erasure does).",)
    main = ranked[0]
    best = main.methods[0]
    if not best.enough:
        return (
            f"Too few texts to recommend an explanation ({count_texts(best.n)}).",
            f"{capital(best.method)} has the highest mean score: {interval(best)} (masking: {main.masking}).",
        )
    if "random" in main.tied:
        return (
            "No explanation is recommended: no method ranks the words significantly better than a random order "
            f"({count_texts(best.n)}).",
        )
    tied, costs = _tied(main), _costs(record, main)
    why = (
        f"{capital(best.method)} has the highest score, {interval(best)} (insertion − deletion; 0 is random; masking: "
        f"{main.masking})"
    )
    if len(tied) == 1:
        return (
            f"Use {best.method}: its ranking of the words follows this model best{_passes(record, best.method)}.",
            f"{why}. It is significantly better than every other method.",
            *_masking_sentences(ranked),
        )
    use = recommended_method(record)
    if use in costs:
        known = "" if len(costs) == len(tied) else " of those whose cost is known"
        first = (
            f"Use {use}: of the {len(tied)} methods that follow this model best, it is the cheapest{known}"
            f"{_passes(record, use)}."
        )
    else:
        first = f"Use {use}: no other method follows this model significantly better."
    others = [name for name in tied if name != best.method]
    more = [f"{len(others) - MAX_TIED} more"] if len(others) > MAX_TIED else []
    return (
        first,
        f"{why}. Not significantly different from it: {and_list([*others[:MAX_TIED], *more])}.",
        *_masking_sentences(ranked),
    )


def recommended_method(record: Record) -> str | None:
    """The cheapest of the methods that are not significantly different from the best; None where none is recommended.

    Where no cost was measured, it is the best.
    """
    ranked = _ranked(record)
    if not ranked or not ranked[0].methods[0].enough or "random" in ranked[0].tied:
        return None
    costs = _costs(record, ranked[0])
    return min(costs, key=lambda name: costs[name], default=ranked[0].methods[0].method)


def _tied(ranking: Ranking) -> list[str]:
    return [name for name in ranking.tied if name not in CONTROLS]


def _costs(record: Record, ranking: Ranking) -> dict[str, float]:
    return {name: cost for name in _tied(ranking) if (cost := record.passes(name)) is not None}


def _passes(record: Record, method: str) -> str:
    cost = record.passes(method)
    return "" if cost is None else f" ({cost:,.0f} passes per text)"


def _ranked(record: Record) -> list[Ranking]:
    """The rankings that have methods in them."""
    return [ranking for ranking in record.summary.rankings if ranking.methods]


def _masking_sentences(ranked: Sequence[Ranking]) -> list[str]:
    pairs = reversals(ranked)
    if pairs:
        parts = [
            f"{pair.a} is significantly better than {pair.b} with {pair.better} and significantly worse with "
            f"{pair.worse}"
            for pair in pairs[:2]
        ]
        more = f"; and {len(pairs) - 2} more pairs" if len(pairs) > 2 else ""
        return [f"The ranking depends on the masking: {'; '.join(parts)}{more}."]
    if len(ranked) < 2:
        return []
    return [f"No two methods swap ranks significantly between the maskings {and_list([r.masking for r in ranked])}."]


def _figure(ranking: Ranking, number: int) -> Figure:
    rows = [dot(m.method, m, "control" if m.method in CONTROLS else "method", m.rank) for m in ranking.methods]
    title, axis = f"Score of each method, masking: {ranking.masking}", "insertion − deletion; 0 is random"
    caption = "Means over texts with 95 % intervals; at the right, the range of ranks of each method."
    return dots(Words(f"ranking-{number}", title, axis, caption=caption), rows, zero=0.0)


def table_of(record: Record, ranking: Ranking, number: int) -> Table:
    """The methods under one masking, best first."""
    columns = (
        Column("method"),
        Column("rank"),
        Column("score", 3, "insertion − deletion, with its interval"),
        Column("texts"),
        Column("passes", 0, "forward and backward passes per text"),
        Column("CPU seconds", 3, "per text, as measured in this run; it differs from machine to machine"),
    )
    rows = tuple(
        (m.method, m.rank, interval(m), m.n, record.passes(m.method), record.spent(m.method).seconds)
        for m in ranking.methods
    )
    caption = f"Measured on too few texts to be ranked: {and_list(ranking.unranked)}." if ranking.unranked else ""
    return Table(f"ranking-table-{number}", f"Ranks, masking: {ranking.masking}", columns, rows, caption)
