"""The sections of Lopardo et al. 2024: its sentence by seven explainers, every head, and both theorems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heedful.report.charts import MarkedBox, Words, marked_boxes, matrix, scatter
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import Cell, fixed, interval
from heedful.studies.outcome import Outcome
from heedful.studies.reproduction.published import Comparison

SENTENCE_TABLE = "Figure 1: one sentence by seven explainers"
MAX_WORDS = 30  # words of the figure of LIME, the largest
FORM_NAMES = {"exact": "exact form", "derived": "derived form", "paper": "theorem 5.1"}
GRADIENT_ROWS = {
    "theory": "theorem 4.1 with the term of the query, every token",
    "published, first token": "theorem 4.1 as published, [CLS]",
    "published, other tokens": "theorem 4.1 as published, every other token",
}


def sections(outcome: Outcome) -> list[Section]:
    """Explainers, heads, LIME and gradients."""
    figures = outcome.result.details.get("figures")
    if figures is None:
        return []
    return [_explainers(outcome), _heads(figures), _lime(outcome, figures), _gradients(outcome, figures)]


def _explainers(outcome: Outcome) -> Section:
    """The table of Figure 1, twice: as published, and ours."""
    own = [c for c in outcome.result.comparisons if c.published.table == SENTENCE_TABLE and c.published.row != "logits"]
    columns = list(dict.fromkeys(c.published.column for c in own))
    words = list(dict.fromkeys(c.published.row for c in own))
    cells = {(c.published.row, c.published.column): c for c in own}

    def table(name: str, title: str, number: Any) -> Table:
        rows = tuple((word, *(number(cells[word, column]) for column in columns)) for word in words)
        return Table(name, title, (Column("word"), *(Column(column, 5) for column in columns)), rows)

    def strongest(number: Any) -> str:
        tops = {column: max(words, key=lambda w: abs(number(cells[w, column]) or 0.0)) for column in columns}
        return "; ".join(
            f"{top}: {', '.join(c for c in columns if tops[c] == top)}" for top in dict.fromkeys(tops.values())
        )

    return Section(
        name="explainers",
        title="One sentence by seven explainers",
        question="Do explainers agree on which word matters?",
        findings=(
            f"Strongest words, published: {strongest(_published)}.",
            f"Strongest words, ours: {strongest(_ours)}.",
        ),
        tables=(
            table("explainers-published", "Published", _published),
            table("explainers-ours", "Ours, mean over trainings", _ours),
        ),
        reading="The authors' network is not published, so single numbers cannot agree; what can be seen is which "
        "words an explainer finds strong, and with which sign.",
    )


def _published(c: Comparison) -> float:
    return c.published.value


def _ours(c: Comparison) -> float | None:
    return None if c.ours is None else c.ours.mean


def _heads(figures: Mapping[str, Any]) -> Section:
    """Figure 3: the attention matrix of every head."""
    tokens, weights = list(figures["tokens"]), figures["attention"]
    strongest = [int(np.argmax(head[0])) for head in weights]
    caption = "Rows: query, columns: key, by number. Only the first row, that of [CLS], has an effect on the logits."
    return Section(
        name="heads",
        title="Attention of every head",
        question="Where does each head look, with every token as a query?",
        findings=(
            "[CLS] looks most at " + ", ".join(f"{tokens[k]} (head {head})" for head, k in enumerate(strongest)) + ".",
        ),
        figures=tuple(
            matrix(Words(f"head-{head}", f"Head {head}", caption=caption), tokens, values, (0.0, 1.0))
            for head, values in enumerate(weights)
        ),
        reading="The first network. What is missing to a sum of 1 in a row is attention to padding.",
    )


def _lime(outcome: Outcome, figures: Mapping[str, Any]) -> Section:
    """Figure 4: boxes of LIME's runs, and the forms of its limit."""
    forms = figures["forms"]
    rows = [
        MarkedBox(word, np.array(figures["runs"][j]), {FORM_NAMES[form]: forms[form][j] for form in FORM_NAMES})
        for j, word in enumerate(figures["words"][:MAX_WORDS])
    ]
    agreement = {form: figures["agreement"][form] for form in FORM_NAMES}
    findings = [
        f"{FORM_NAMES[form]}: Pearson {_number(near['pearson'])}, Kendall {_number(near['kendall'])}, "
        f"relative distance {_number(near['off'])}."
        for form, near in agreement.items()
    ]
    caption = f"LIME replaces words in place. The {len(rows)} largest of {len(figures['words'])} words."
    words = Words("lime", "LIME's coefficients and their limit", "coefficient", caption=caption)
    measures = ("pearson", "kendall", "distance", "relative distance")
    return Section(
        name="lime",
        title="LIME and theorem 5.1",
        question="Are LIME's coefficients what theorem 5.1 says?",
        findings=("A review of our own, by the first network:", *findings),
        figures=(marked_boxes(words, rows, "LIME", 0.0),),
        tables=(
            Table(
                "lime-agreement",
                "Agreement with LIME's mean, over reviews",
                (Column("form"), Column("words are"), Column("network", 0), *(Column(m) for m in measures)),
                tuple(_agreement_rows(outcome, measures)),
                "95 % intervals over reviews. The forms are for words that are replaced; the authors' LIME deletes "
                "them.",
            ),
        ),
    )


def _agreement_rows(outcome: Outcome, measures: Sequence[str]) -> list[tuple[Cell, ...]]:
    every = {(r.method, str(r.at["words"]), int(r.at["network"])): {} for r in outcome.rows("pearson")}  # type: ignore[var-annotated]
    for measure in measures:
        for row in outcome.rows(measure):
            every[row.method, str(row.at["words"]), int(row.at["network"])][measure] = interval(row)
    return [
        (FORM_NAMES[form], words, network, *(numbers[m] for m in measures))
        for (form, words, network), numbers in sorted(every.items(), key=lambda item: item[0][1:])
    ]


def _gradients(outcome: Outcome, figures: Mapping[str, Any]) -> Section:
    """Figure 5: every coordinate of the gradient of the sentence against theorem 4.1."""
    gradients = {name: np.array(values) for name, values in figures["gradients"].items()}
    rows = [
        (GRADIENT_ROWS[row.method], int(row.at["network"]), f"{row.mean:.1e}", f"{row.high:.1e}", row.n)
        for row in outcome.rows("gradient difference")
    ]
    worst = {name: float(np.abs(gradients[name] - gradients["autograd"]).max()) for name in ("theory", "published")}
    return Section(
        name="gradients",
        title="The gradient and theorem 4.1",
        question="Is the gradient what theorem 4.1 says?",
        findings=(
            f"In the sentence, with the term of the query theory and autograd differ by at most {worst['theory']:.0e}; "
            f"as published, by {fixed(worst['published'], 3)}, at [CLS] alone.",
        ),
        figures=(
            _coordinates("gradient", "With the term of the query", gradients["theory"], gradients["autograd"]),
            _coordinates("gradient-published", "As published", gradients["published"], gradients["autograd"]),
        ),
        tables=(
            Table(
                "gradient-differences",
                "Largest difference from autograd, relative to the largest coordinate",
                (
                    Column("theory"),
                    Column("network", 0),
                    Column("mean over reviews"),
                    Column("at most"),
                    Column("n", 0),
                ),
                tuple(rows),
                "At most: the upper end of the 95 % interval.",
            ),
        ),
    )


def _coordinates(name: str, title: str, theory: Any, autograd: Any) -> Figure:
    """A point for each coordinate; those of the first token apart."""
    series = [["[CLS]" if t == 0 else "other tokens"] * theory.shape[1] for t in range(len(theory))]
    words = Words(name, f"Every coordinate of the gradient: {title.lower()}", "by theorem 4.1", "by autograd")
    return scatter(words, theory.ravel(), autograd.ravel(), [s for row in series for s in row], zero=True)


def _number(value: float | None) -> str:
    return "–" if value is None else fixed(value, 3)
