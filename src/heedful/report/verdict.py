"""Answers: what comes first in a report, the verdict on attention, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heedful.audits.verdict import QUESTIONS
from heedful.report.charts import Interval, Words, dots
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.saying import Cell
from heedful.report.telling import capital, exists, interval, number

Judged = Mapping[str, Any]  # a Verdict as a summary has it
HEADS = {
    "explanation": "Attention explains this model's answers, by all three questions.",
    "not explanation": "Attention does not explain this model's answers.",
    "not not explanation": "Attention says something about this model's answers, and not enough to be their "
    "explanation.",
    "undecided": "Whether attention explains this model's answers is undecided",
}
MEASURED = {
    "Q1": "Its top fifth of the words has {a} of the leave-one-out importance that the best fifth has; a random fifth "
    "has {r}, that of {reference} {s}.",
    "Q2": "Without its top fifth of the words the answer moves by {a} (TVD); without a random fifth by {r}, without "
    "that of {reference} by {s}.",
    "Q3": "Shuffling attention moves the answer by {a} (TVD, median over permutations); taking all words away moves it "
    "by {s}.",
}
YES = {"for": "Yes", "against": "No", "undecided": "Undecided"}
SAID = {"for": "for it", "against": "against it", "undecided": "undecided"}


# the verdict


def sentences(judged: Judged) -> tuple[str, ...]:
    """The verdict in words: the head, what each question found, what qualifies it."""
    head = HEADS[judged["word"]]
    head = f"{head}: {judged['reason']}." if judged["word"] == "undecided" else head
    holding = [q["says"] for q in judged["qualifiers"] if q["holds"]]
    beside = [f"To be known beside it: attention is {'; and '.join(holding)}."] if holding else []
    return (head, *(f"{answer_told(answer, judged)}" for answer in judged["answers"]), *beside)


def answer_told(answer: Mapping[str, Any], judged: Judged) -> str:
    """One question's numbers and what they amount to."""
    question = QUESTIONS[answer["question"]]
    if not exists(answer["attention"]):
        return f"{question} Undecided: {answer['reason']}."
    numbers = {who: number(answer[name], 2) for who, name in (("a", "attention"), ("r", "chance"), ("s", "reference"))}
    measured = MEASURED[answer["question"]].format(reference=judged["rule"]["reference"], **numbers)
    lead = f"That is {told} of the reference's lead over chance" if (told := share(answer)) else "No lead"
    why = f": {answer['reason']}" if answer["reason"] else ""
    return f"{question} {YES[answer['says']]}{why}. {measured} {lead}."


def share(answer: Mapping[str, Any]) -> str | None:
    """Attention's share of the reference's lead with its limits: 54 % [45, 62]."""
    if not exists(answer["share"]):
        return None
    if not exists(answer["low"]) or not exists(answer["high"]):
        return f"{100 * answer['share']:.0f} %".replace("-", "−")
    return f"{100 * answer['share']:.0f} % [{100 * answer['low']:.0f}, {100 * answer['high']:.0f}]".replace("-", "−")


def verdict_section(verdicts: Mapping[str, Judged], first: str) -> Section:
    """The three questions with their numbers, what qualifies the verdict, and other readings of attention."""
    judged = verdicts[first]
    return Section(
        name="verdict",
        title="The verdict",
        question="Does attention deserve to be heeded as an explanation of this model?",
        findings=(f"{capital(judged['word'])}: {judged['reason']}.",),
        figures=tuple(_shares_figure(judged)),
        tables=(_answers_table(judged), *_qualifiers_table(judged), *_readings_table(verdicts, first)),
        reading=_rule_told(judged["rule"]),
        source="Jain & Wallace 2019; Wiegreffe & Pinter 2019; Serrano & Smith 2019",
    )


def _shares_figure(judged: Judged) -> list[Figure]:
    rule = judged["rule"]
    rows = [
        Interval(SHORT[a["question"]], a["share"], a["low"], a["high"], note=SAID[a["says"]])
        for a in judged["answers"]
        if exists(a["share"])
    ]
    if not rows:
        return []
    words = Words(
        "verdict-shares",
        "Attention's share of the reference's lead over chance",
        x="0 is chance, 1 the reference",
        caption=f"A question speaks for attention where the whole interval lies above {rule['most']:g}, against it "
        f"where it lies below {rule['least']:g}. One-sided limits at {rule['level']:.1%} each.",
    )
    return [dots(words, rows, limits=(0.0, 1.0), marks=(rule["least"], rule["most"]))]


SHORT = {"Q1": "Q1 points", "Q2": "Q2 matters", "Q3": "Q3 is used"}


def _answers_table(judged: Judged) -> Table:
    columns = (
        Column("question"),
        Column("attention", 3, "mean over texts"),
        Column("chance", 3, "random, mean of 20 draws; 0 for Q3"),
        Column("reference", 3, f"{judged['rule']['reference']} for Q1 and Q2; all words taken away for Q3"),
        Column("share", says="of the reference's lead over chance, with one-sided limits"),
        Column("texts"),
        Column("says"),
    )
    rows = tuple(
        (
            f"{a['question']} {QUESTIONS[a['question']]}",
            a["attention"],
            a["chance"],
            a["reference"],
            share(a),
            a["n"],
            a["says"],
        )
        for a in judged["answers"]
    )
    return Table("verdict-questions", "The three questions", columns, rows)


def _qualifiers_table(judged: Judged) -> list[Table]:
    columns = (Column("question"), Column("mean"), Column("texts"), Column("holds"))
    rows: list[tuple[Cell, ...]] = [
        (f"{q['question']} {q['says']}", interval(q), q["n"], "yes" if q["holds"] else "not shown")
        for q in judged["qualifiers"]
    ]
    caption = (
        "These qualify a verdict and never decide it. Q4: the distance (TVD) of the farthest attention found with the "
        "same answer; Q5: the share of heads of the last layer with such rows; Q6: Kendall's τ of attention before and "
        "after."
    )
    return [Table("verdict-qualifiers", "What qualifies it", columns, tuple(rows), caption)] if rows else []


def _readings_table(verdicts: Mapping[str, Judged], first: str) -> list[Table]:
    """Attention can be read in several ways; the model's use of it (Q3) is the same for all."""
    if len(verdicts) < 2:
        return []
    columns = (Column("reading"), *(Column(q, says=QUESTIONS[q]) for q in QUESTIONS), Column("verdict"))
    rows = tuple(
        (name, *map(share, judged["answers"]), judged["word"])
        for name, judged in sorted(verdicts.items(), key=lambda item: item[0] != first)
    )
    caption = "Shares of the reference's lead over chance. The verdict above is on the first."
    return [Table("verdict-readings", "Other readings of attention", columns, rows, caption)]


def _rule_told(rule: Mapping[str, Any]) -> str:
    return (
        f"For: the lower limit of mean[(a − r) − {rule['most']:g} (s − r)] is above 0, with a of attention, r of "
        f"chance and s of the reference. Against: the upper limit of mean[(a − r) − {rule['least']:g} (s − r)] is "
        f"below 0. Limits are one-sided at {rule['level']:.1%}. Explanation: all three for. Not explanation: none for, "
        "and Q3 against or both Q1 and Q2. Not not explanation: some for, or each surely above the lower line. "
        f"Undecided: otherwise, below {rule['texts']} texts, or where attention is on average less than "
        f"{rule['constant']:g} (TVD) from uniform. Kendall's τ decides nothing: among n words a perfect pointer at one "
        "has τ = √(2/n), since all others tie."
    )
