"""Asking: what each section asks, and how its numbers are to be read. The whole of it is in docs/checks.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heedful.audits.record import Record, Row
from heedful.maths.stats import MINIMUM
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.saying import Cell
from heedful.report.telling import BOUNDS, CONTROLS, about, interval, known

NOTHING = "There is nothing to tell: no text of this run has a number here."


@dataclass(frozen=True)
class Topic:
    """The words of a section that are the same in every report."""

    title: str
    question: str
    reading: str


WORDS = {
    "permutation": Topic(
        "Attention shuffled",
        "Does shuffling attention change the answer?",
        "A small change means that this model does not need its attention where it is, so that attention explains "
        "little; a large one does not mean that attention explains. Flat attention cannot change much: look at the "
        "texts with a large weight. In a Transformer, everywhere disturbs each layer on top of the disturbance below.",
    ),
    "uniform": Topic(
        "Attention made uniform",
        "Does making attention uniform change the answer?",
        "This asks whether the trained model needs its attention, not whether the task does: nothing is trained "
        "again, and a network off its distribution may answer badly for other reasons. Attention that is nearly "
        "uniform already changes nothing.",
    ),
    "adversarial": Topic(
        "Adversarial attention",
        "How different could attention be with the same answer?",
        "A far-away twin exists for almost every model with two labels: one number is to be kept, and two words, one "
        "on each side of it, suffice. So a high number says little against one model; compare models, and ask whether "
        "a training would find such attention. A search finds less than there is, and a witness is no maximum.",
    ),
    "identifiability": Topic(
        "Identifiability",
        "Could other attention have given the same output?",
        "Where a text has no more tokens than a head has dimensions, attention is identifiable as a rule, whatever it "
        "is worth. A large null space is not a far twin: the farthest attention says how far weights that are not "
        "negative can go. One head moves at a time, and heads together have more room.",
    ),
    "erasure": Topic(
        "Attention erased",
        "Does the label hang on what attention points at?",
        "The fraction is over the texts whose label changes: look at those that never change beside it, since an "
        "order that flips only easy texts has a low fraction. In a Transformer the text also reaches the answer past "
        "the last layer's attention, so that labels change rarely. Slopes have an advantage: erasing few items is "
        "nearly first order.",
    ),
    "input-erasure": Topic(
        "Words erased",
        "Do the words that a method puts first carry the prediction?",
        "Erased texts are unlike those that the model knows: what falls may be its trust in broken sentences, and a "
        "random order falls too, so judge by the difference to random and under two maskings at least. Leave-one-out "
        "asks nearly this check's own question. Greedy and optimum exist for short texts only: their means are over "
        "other texts.",
    ),
    "agreement": Topic(
        "Agreement",
        "Do the methods put the words of a text in the same order?",
        "Agreement is no proof, and disagreement does not say who is wrong. Attention that rightly puts everything on "
        "one of n words has τ = √(2/n) with an order that has the same top, 0.32 for 20 words, because its other "
        "words are tied. On long texts τ is about words that hardly matter: look at the top-k numbers beside random, "
        "which lie below 0 by chance.",
    ),
    "sign": Topic(
        "Signs",
        "Does the strongest word push the way its score says?",
        "A method without signs claims support everywhere: its violations are words that speak against the label. "
        "Leave-one-out with the same masking is right by definition. In a long text most effects are small, and their "
        "signs are those of the masking.",
    ),
    "completeness": Topic(
        "Completeness",
        "Do the scores add up to what they explain?",
        "Only methods that promise it are measured. A small gap says that the sum was computed well, not that its "
        "parts are right: any numbers with that sum have no gap. The relative gap is large where text and baseline "
        "have nearly the same value.",
    ),
    "infidelity": Topic(
        "Infidelity",
        "Do the scores of a set of words add up to its effect?",
        "Infidelity itself is in squared units of the target and is for methods that promise a scale. Even random "
        "scores correlate where larger sets have larger effects, so look at the difference to random. LIME and "
        "Shapley values fit this question with the same masking.",
    ),
    "sensitivity": Topic(
        "Sensitivity",
        "Does an explanation stay when nothing that matters changes?",
        "Changes that flip the label, or that the tokenizer hides, take no part. Steady is not faithful: the position "
        "of a word hardly moves. The probability may change though the label does not, and a faithful explanation "
        "then changes too; a method that samples has its own noise in its numbers.",
    ),
    "complexity": Topic(
        "Complexity",
        "On how many words does an explanation rest?",
        "Few words are easy to read and no sign of truth: no way is better. Entropy and effective words grow with the "
        "length of the text.",
    ),
    "randomisation": Topic(
        "Random weights",
        "Does an explanation survive the loss of the model's weights?",
        "Similarity is bad here: what stays has nothing to do with what was learned. An explanation may keep some "
        "likeness for good reasons, so look for a method that stays beside others; and a method that is all noise "
        "passes. One random model serves all texts.",
    ),
    "stability": Topic(
        "Stability",
        "Would another seed, more samples or another training say the same?",
        "A method that draws nothing has τ = 1 with another seed: that is no merit. Unstable samples mean that there "
        "are too few. A low likeness after another training speaks against an explanation only as far as the model's "
        "output stayed.",
    ),
    "plausibility": Topic(
        "Plausibility",
        "Are the highest words those that people marked?",
        "Plausible is not faithful: a model that is right for a wrong reason has a faithful explanation that scores "
        "low. Chance is more than the share of marked words, so compare with random. A rationale is for the label "
        "that the data gives: the texts on which the model is wrong stand apart.",
    ),
    "cost": Topic(
        "Cost",
        "What does an explanation take?",
        "Passes are what the method asks for, whatever was shared with others. CPU seconds and bytes differ from run "
        "to run and from machine to machine; passes do not.",
    ),
}


@dataclass(frozen=True)
class Evidence:
    """What was found: sentences, and what they rest on. None is a sentence that there is no number for."""

    findings: tuple[str | None, ...]
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()


def made(record: Record, check: str, evidence: Evidence) -> Section:
    """The section of a check; one of its own name and question where it is not among WORDS."""
    told = about(record, check)
    summary = str(told.get("summary", check))
    words = WORDS.get(check, Topic(check, summary[:1].upper() + summary[1:], str(told.get("changes", ""))))
    findings = tuple(sentence for sentence in evidence.findings if sentence) or (NOTHING,)
    paper = str(told.get("paper", "")).strip("–")
    return Section(
        check, words.title, words.question, findings, evidence.figures, evidence.tables, (), words.reading, paper
    )


MARKS = (
    "* cannot be told from random; “worse” is worse than random (paired over texts, p ≤ .05 after Holm's correction "
    f"over all rows of the measure); ? fewer than {MINIMUM} texts: nothing is decided. An n in brackets is of that "
    "number alone."
)


@dataclass(frozen=True)
class Asked:
    """A column of a table of methods: a measure at the place that has just these."""

    head: str
    measure: str
    at: Mapping[str, Any]


def mark(row: Row) -> str:
    """What stands after a number to say how it is beside chance; see MARKS."""
    says = (row.get("random") or {}).get("says", "")
    if says.endswith("worse"):
        return " worse"
    return {"cannot be told from random": "*", "too few texts": "?"}.get(says, "")


def methods_table(record: Record, check: str, words: tuple[str, str], asked: Sequence[Asked]) -> tuple[Table, ...]:
    """A row for each method and a column for each measure; none if nothing was measured. `words` are name and title."""
    found = {
        (row["method"], i): row
        for i, one in enumerate(asked)
        for row in record.rows(check, one.measure)
        if row["method"] and row["at"] == one.at and known(row)
    }
    names = sorted({name for name, _ in found}, key=lambda name: _order(record, name))
    heads = [(i, one) for i, one in enumerate(asked) if any(j == i for _, j in found)]
    rows = tuple(_cells(name, [found.get((name, i)) for i, _ in heads]) for name in names)
    columns = (Column("method"), Column("n", 0, "texts"), *(_column(record, check, one) for _, one in heads))
    compared = any(row.get("random") for row in found.values())
    caption = "Means over texts with 95 % intervals. " + (MARKS if compared else "")
    return (Table(*words, columns, rows, caption.strip()),) if rows else ()


def _order(record: Record, name: str) -> tuple[bool, bool, int, str]:
    """The run's order, controls after methods and bounds last."""
    place = record.methods.index(name) if name in record.methods else len(record.methods)
    return name in BOUNDS, name in CONTROLS, place, name


def _cells(name: str, rows: Sequence[Row | None]) -> tuple[Cell, ...]:
    n = max(row["n"] for row in rows if row is not None)

    def cell(row: Row | None) -> Cell:
        if row is None:
            return None
        return f"{interval(row)}{mark(row)}" + ("" if row["n"] == n else f" (n = {row['n']:,})")

    return (name, n, *map(cell, rows))


def _column(record: Record, check: str, asked: Asked) -> Column:
    measure = about(record, check).get("measures", {}).get(asked.measure, {})
    better = f"; {measure['better']} is better" if measure.get("better") else ""
    return Column(asked.head, 2, f"{measure.get('says', asked.measure)}{better}")
