"""The section on attention as a guide."""

from __future__ import annotations

from heedful.report.document import Column, Section, Table
from heedful.report.phrases import and_list, cautious, count_texts, interval
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

FROM_BASE = "the base network's"
TEACHERS = ("base itself", "adversary itself")


def sections(outcome: Outcome) -> list[Section]:
    """The four students, then the networks that guide them."""
    guides = outcome.result.details["guides"]
    main = study_section(
        outcome,
        tuple(_sentences(outcome)),
        figures=(score_figure(outcome, guides, "F1 of a network without context, by its attention"),),
        tables=(
            score_table(outcome, guides, "attention", "Scores of the network without context"),
            *difference_table(outcome),
            _teachers(outcome),
            _adversaries(outcome),
        ),
    )
    return [main]


def _sentences(outcome: Outcome) -> list[str]:
    base = outcome.result.row("f1", FROM_BASE, OVER_TEXTS)
    if base is None:
        return []
    parts = []
    for guide in outcome.result.details["guides"]:
        row, d = outcome.result.row("f1", guide, OVER_TEXTS), difference_of(outcome, "f1", FROM_BASE, guide)
        if row is not None and d is not None:
            parts.append(f"{interval(row)} with {guide} (difference {interval(d.difference)}, {decision_words(d)})")
    less = f"F1 of a network without context is {interval(base)} with {FROM_BASE} attention"
    sentence = f"{less}, {and_list(parts)}; {count_texts(base.n)}."
    return [cautious(sentence, base.n)]


def _teachers(outcome: Outcome) -> Table:
    rows = []
    for name in TEACHERS:
        found = [outcome.result.row(m, name, OVER_TEXTS) for m in ("f1", "accuracy")]
        found += [outcome.result.row(m, name) for m in ("tvd", "jsd")]
        rows.append((name.removesuffix(" itself"), *(interval(row) for row in found)))
    columns = (
        Column("network"),
        Column("F1"),
        Column("accuracy"),
        Column("TVD", 2, "of the prediction, from the base network's"),
        Column("JSD", 2, "of attention, from the base network's; at most 0.69"),
    )
    caption = "On test texts, with 95 % intervals over texts."
    return Table("guides-networks", "The networks that guide", columns, tuple(rows), caption)


def _adversaries(outcome: Outcome) -> Table:
    details = outcome.result.details
    rows = tuple(
        (name, scores["tvd"], scores["jsd"], "yes" if name == details["chosen"] else "")
        for name, scores in details["adversaries"].items()
    )
    columns = (Column("adversary"), Column("TVD", 3), Column("JSD", 3), Column("guides"))
    return Table("guides-adversaries", "Adversaries on dev texts", columns, rows, "The choice is made on dev texts.")
