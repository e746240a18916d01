"""Retraining: what the sections of the studies of Wiegreffe & Pinter share."""

from __future__ import annotations

from collections.abc import Sequence

from heedful.maths.stats import MINIMUM
from heedful.report.charts import Words, dots
from heedful.report.document import Column, Figure, Table
from heedful.report.phrases import Cell, interval, p_value
from heedful.report.sections.parts import dot
from heedful.studies.outcome import Outcome, PairedDifference

OVER_TEXTS, OVER_TRAININGS = {"over": "texts"}, {"over": "trainings"}
SCORES = {"f1": "F1", "accuracy": "accuracy"}


def score_table(outcome: Outcome, kinds: Sequence[str], first: str, title: str) -> Table:
    """F1 and accuracy of each kind of network, with intervals over texts and over trainings."""
    rows: list[tuple[Cell, ...]] = []
    for kind in kinds:
        for at in (OVER_TEXTS, OVER_TRAININGS):
            f1, accuracy = (outcome.result.row(measure, kind, at) for measure in SCORES)
            if f1 is not None:
                rows.append((kind, at["over"], f1.n, interval(f1), interval(accuracy)))
    columns = (
        Column(first),
        Column("interval over", 2, "what is taken as a sample: the texts, or the trainings"),
        Column("n", 0, "texts, or trainings"),
        Column("F1"),
        Column("accuracy"),
    )
    caption = "Means over trainings with 95 % intervals."
    return Table(f"{outcome.study}-scores", title, columns, tuple(rows), caption)


def score_figure(outcome: Outcome, kinds: Sequence[str], title: str) -> Figure:
    """F1 of each kind of network, with both intervals."""
    marks = [
        dot(kind, row, f"interval over {at['over']}")
        for kind in kinds
        for at in (OVER_TEXTS, OVER_TRAININGS)
        if (row := outcome.result.row("f1", kind, at))
    ]
    return dots(Words(f"{outcome.study}-f1", title, "F1", caption="Means with 95 % intervals."), marks)


def difference_table(outcome: Outcome) -> list[Table]:
    """Paired differences over texts, with their decisions."""
    rows = tuple(
        (
            f"{d.a} − {d.b}",
            SCORES.get(d.measure, d.measure.upper()),
            d.difference.n,
            interval(d.difference),
            p_value(d.difference.p if d.difference.p_adjusted is None else d.difference.p_adjusted),
            "" if d.difference.decision is None else d.difference.decision.value,
        )
        for d in outcome.result.differences
    )
    columns = (
        Column("difference"),
        Column("measure"),
        Column("n", 0, "texts"),
        Column("mean", 2, "paired over texts, 95 % interval"),
        Column("p", 2, "after Holm's correction"),
        Column("decision"),
    )
    return [Table(f"{outcome.study}-differences", "Differences, text by text", columns, rows)] if rows else []


def difference_of(outcome: Outcome, measure: str, a: str, b: str) -> PairedDifference | None:
    """The difference of two kinds of networks, if it was computed."""
    wanted = (d for d in outcome.result.differences if (d.measure, d.a, d.b) == (measure, a, b))
    return next(wanted, None)


def decision_words(d: PairedDifference) -> str:
    """Whether a difference is significant."""
    if d.difference.n < MINIMUM:
        return "too few texts to decide"
    return "significant" if d.difference.significant else "not significant"
