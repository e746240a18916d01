"""The section on networks trained with uniform attention."""

from __future__ import annotations

from heedful.report.document import Column, Section, Table
from heedful.report.phrases import Cell, cautious, count_texts, interval, p_value
from heedful.report.studies import study_section
from heedful.report.studies.retraining import (
    OVER_TEXTS,
    decision_words,
    difference_of,
    difference_table,
    score_figure,
    score_table,
)
from heedful.studies.outcome import Outcome

LEARNED, UNIFORM = "learned attention", "uniform attention"
KINDS = (LEARNED, UNIFORM)


def sections(outcome: Outcome) -> list[Section]:
    """Scores of both kinds, and how far their predictions are apart."""
    return [
        study_section(
            outcome,
            tuple(_sentences(outcome)),
            figures=(score_figure(outcome, KINDS, "F1 with learned and with uniform attention"),),
            tables=(
                score_table(outcome, KINDS, "attention", "Scores on test texts"),
                *difference_table(outcome),
                *_distances(outcome),
            ),
        )
    ]


def _sentences(outcome: Outcome) -> list[str]:
    learned, uniform = (outcome.result.row("f1", kind, OVER_TEXTS) for kind in KINDS)
    difference = difference_of(outcome, "f1", LEARNED, UNIFORM)
    if learned is None or uniform is None or difference is None:
        return []
    trainings = outcome.result.details["trainings"]
    each = f"{trainings} trainings of each" if trainings > 1 else "one training of each"
    sentences = [
        cautious(
            f"F1 is {interval(learned)} with learned and {interval(uniform)} with uniform attention; the difference of "
            f"{interval(difference.difference)} is {decision_words(difference)} ({count_texts(learned.n)}, {each}).",
            learned.n,
        )
    ]
    test = outcome.result.details["mcnemar"]
    only = [count_texts(test[name]) for name in ("only learned", "only uniform")]
    sentences.append(
        f"Of the first training of each, only learned attention is right on {only[0]}, and only uniform attention on "
        f"{only[1]} (McNemar's exact test: p = {p_value(test['p'])})."
    )
    uniform_tvd, seed_tvd = (outcome.result.row("tvd", kind) for kind in (UNIFORM, LEARNED))
    if uniform_tvd:
        other = f"; those of another seed by {interval(seed_tvd)}" if seed_tvd else ""
        sentences.append(f"Predictions with uniform attention differ by {interval(uniform_tvd)} (TVD){other}.")
    return sentences


def _distances(outcome: Outcome) -> list[Table]:
    """How far predictions and attention are from those of the base network."""
    names = {LEARNED: "learned attention, other seeds", UNIFORM: UNIFORM}
    rows: list[tuple[Cell, ...]] = []
    for kind, name in names.items():
        found = [outcome.result.row(measure, kind) for measure in ("tvd", "flip", "jsd")]
        if found[0] is not None:
            rows.append((name, found[0].n, *(interval(row) for row in found)))
    columns = (
        Column("network"),
        Column("n", 0, "texts"),
        Column("TVD", 2, "of the prediction, from the base network's"),
        Column("label changes", 2, "share of texts"),
        Column("JSD", 2, "of attention, from the base network's; at most 0.69"),
    )
    caption = "Means over texts and trainings, with 95 % intervals over texts."
    return [Table("uniform-training-distances", "Distance from the base network", columns, tuple(rows), caption)]
