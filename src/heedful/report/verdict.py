"""Verdict: whether attention may be used as an explanation of this model, in words."""

from __future__ import annotations

from collections.abc import Mapping

from heedful.audits.verdict import QUESTIONS, Answer, Question, Reason, Rule, Says, Verdict
from heedful.report.charts import Interval, Words, dots
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import and_list, capital, exists, interval, number, percent

MEANINGS = {
    "explanation": "Attention may be used as an explanation of this model: it points at the words that decide, and the "
    "model uses it.",
    "not explanation": "Attention should not be used as an explanation of this model: what decides the answers is not "
    "what attention points at.",
    "not not explanation": "Attention carries some, but not all, of what decides: it may be shown beside an "
    "explanation, and not in its place.",
    "undecided": "Whether attention may be used as an explanation of this model could not be decided",
}
MEASURED: dict[Question, str] = {
    "Q1": "The fifth of the words with the most attention has {a} of the importance (by leave-one-out) that the most "
    "important fifth has; a random fifth has {r}, that of {reference} {s}.",
    "Q2": "Without the fifth of the words with the most attention the answer moves by {a} (TVD); without a random "
    "fifth by {r}, without that of {reference} by {s}.",
    "Q3": "Shuffling attention moves the answer by {a} (TVD, median over permutations); removing all words moves it by "
    "{s}.",
}
YES: dict[Says, str] = {"for": "Yes", "against": "No", "undecided": "Undecided"}
NOTES: dict[Says, str] = {"for": "for it", "against": "against it", "undecided": "undecided"}
SHORT_QUESTIONS: dict[Question, str] = {"Q1": "Q1 points", "Q2": "Q2 matters", "Q3": "Q3 is used"}
QUALIFIERS = {
    "elsewhere": ("Q4", "not the only possibility: very different attention gives the same answer"),
    "unidentified": ("Q5", "not identifiable: other weights give the same output of the last layer"),
    "unsteady": ("Q6", "unstable: it orders the words differently when the text hardly changes"),
    "unsteady trainings": ("Q6", "unstable: it orders the words differently after another training"),
}


def verdict_sentences(verdict: Verdict) -> tuple[str, ...]:
    """The verdict in words: what it means, the answer to each question, and caveats."""
    meaning = MEANINGS[verdict.word]
    first = f"{meaning}: {reason(verdict)}." if verdict.word == "undecided" else meaning
    caveats = [QUALIFIERS[one.kind][1] for one in verdict.qualifiers if one.holds]
    return (
        first,
        *(answer_sentence(answer, verdict.rule) for answer in verdict.answers),
        *([f"Caveats: attention is {'; and '.join(caveats)}."] if caveats else []),
    )


def reason(verdict: Verdict) -> str:
    """Why the verdict is what it is."""
    yes, no = verdict.questions("for"), verdict.questions("against")
    others = verdict.questions("against", "undecided")
    missing = [answer.question for answer in verdict.answers if answer.n == 0]
    return {
        Reason.NOT_AMONG_METHODS: f"{verdict.method} was not among the run's methods",
        Reason.UNREADABLE: "this model's attention could not be read",
        Reason.QUESTIONS_MISSING: f"{and_list(missing)} could not be examined",
        Reason.TOO_FEW: f"fewer than {verdict.rule.texts} texts",
        Reason.UNIFORMITY_UNKNOWN: "how far attention is from uniform was not measured",
        Reason.CONSTANT: "attention is constant: it claims nothing",
        Reason.ALL_FOR: "all three questions speak for it",
        Reason.SOME_FOR: f"{and_list(yes)} speak{'s' * (len(yes) == 1)} for it, {and_list(others)} not",
        Reason.NONE_FOR: f"no question speaks for it, and {and_list(no)} against",
        Reason.ABOVE_LEAST: f"on each question it has more than {percent(verdict.rule.least)} of the reference's lead, "
        f"on none more than {percent(verdict.rule.most)}",
        Reason.ONE_AGAINST: f"only {and_list(no)} speaks against it",
    }.get(verdict.reason, "no question has a clear answer on these texts")


def answer_reason(answer: Answer, rule: Rule) -> str:
    """Why a question is undecided; empty where it is not."""
    return {
        Reason.NONE: "",
        Reason.NOT_MEASURED: "it was not measured",
        Reason.NUMBERS_MISSING: f"there is no number of {and_list([NUMBERS[name] for name in answer.missing])}",
        Reason.NO_COMPLETE_TEXT: "no text has all three numbers",
        Reason.ONE_COMPLETE_TEXT: "only one text has all three numbers",
        Reason.TOO_FEW: f"fewer than {rule.texts} texts",
        Reason.NO_LEAD: "the reference is not significantly better than random",
        Reason.BETWEEN: f"its share lies between {rule.least:g} and {rule.most:g}",
    }.get(answer.reason, "the interval is too wide")


NUMBERS = {"attention": "attention", "chance": "random", "reference": "the reference"}


def answer_sentence(answer: Answer, rule: Rule) -> str:
    """One question's numbers and what they amount to."""
    question, why = QUESTIONS[answer.question], answer_reason(answer, rule)
    if not exists(answer.attention):
        return f"{question} Undecided: {why}."
    a, r, s = (number(x, 2) for x in (answer.attention, answer.chance, answer.reference))
    measured = MEASURED[answer.question].format(reference=rule.reference, a=a, r=r, s=s)
    lead = f" That is {share_phrase(answer)} of the reference's lead over random." if exists(answer.share) else ""
    return f"{question} {YES[answer.says]}{f': {why}' if why else ''}. {measured}{lead}"


def share_phrase(answer: Answer) -> str | None:
    """Attention's share of the reference's lead with its limits: 54 % [45, 62]."""
    return percent(answer.share, answer.low, answer.high) if exists(answer.share) else None


def verdict_section(verdicts: Mapping[str, Verdict], first: str) -> Section:
    """The three questions with their numbers, caveats, and other readings of attention."""
    verdict = verdicts[first]
    return Section(
        name="verdict",
        title="May attention be used?",
        question="Does attention deserve to be heeded as an explanation of this model?",
        findings=(f"{capital(verdict.word)}: {reason(verdict)}.",),
        figures=_shares_figure(verdict),
        tables=(_answers_table(verdict), *_qualifiers_table(verdict), *_readings_table(verdicts, first)),
        reading=_rule_in_words(verdict.rule),
        source="Jain & Wallace 2019; Wiegreffe & Pinter 2019; Serrano & Smith 2019",
    )


def _shares_figure(verdict: Verdict) -> tuple[Figure, ...]:
    rule = verdict.rule
    rows = [
        Interval(SHORT_QUESTIONS[a.question], a.share, a.low, a.high, note=NOTES[a.says])
        for a in verdict.answers
        if exists(a.share)
    ]
    words = Words(
        "verdict-shares",
        "Attention's share of the reference's lead over random",
        x="0 is random, 1 the reference",
        caption=f"A question speaks for attention where the whole interval lies above {rule.most:g}, against it where "
        f"it lies below {rule.least:g}. One-sided limits at {rule.level:.1%} each.",
    )
    return (dots(words, rows, limits=(0.0, 1.0), marks=(rule.least, rule.most)),) if rows else ()


def _answers_table(verdict: Verdict) -> Table:
    columns = (
        Column("question"),
        Column("attention", 3, "mean over texts"),
        Column("random", 3, "mean of 20 draws; 0 for Q3"),
        Column("reference", 3, f"{verdict.rule.reference} for Q1 and Q2; all words removed for Q3"),
        Column("share", says="of the reference's lead over random, with one-sided limits"),
        Column("texts"),
        Column("answer"),
    )
    rows = tuple(
        (f"{a.question} {QUESTIONS[a.question]}", a.attention, a.chance, a.reference, share_phrase(a), a.n, a.says)
        for a in verdict.answers
    )
    return Table("verdict-questions", "The three questions", columns, rows)


def _qualifiers_table(verdict: Verdict) -> list[Table]:
    columns = (Column("caveat"), Column("mean"), Column("texts"), Column("holds"))
    caption = (
        "Caveats qualify a verdict and never decide it. Q4: the distance (TVD) of the farthest attention found with "
        "the same answer; Q5: the share of heads of the last layer with such weights; Q6: Kendall's τ of attention "
        "before and after."
    )
    rows = tuple(
        (" ".join(QUALIFIERS[one.kind]), interval(one.estimate), one.estimate.n, "yes" if one.holds else "not shown")
        for one in verdict.qualifiers
    )
    return [Table("verdict-qualifiers", "Caveats", columns, rows, caption)] if rows else []


def _readings_table(verdicts: Mapping[str, Verdict], first: str) -> list[Table]:
    """Attention can be read in several ways; the model's use of it (Q3) is the same for all."""
    columns = (Column("reading"), *(Column(q, says=words) for q, words in QUESTIONS.items()), Column("verdict"))
    ordered = sorted(verdicts.items(), key=lambda item: item[0] != first)
    rows = tuple((name, *map(share_phrase, verdict.answers), verdict.word) for name, verdict in ordered)
    title = "Other readings of attention, share of the reference's lead"
    return [Table("verdict-readings", title, columns, rows)] if len(rows) > 1 else []


def _rule_in_words(rule: Rule) -> str:
    return (
        "Each question compares attention (a) with random scores (r) and with a reference that queries the model (s), "
        "text by text. It speaks for attention where attention has more than "
        f"{percent(rule.most)} of the reference's lead over random: the lower limit of mean[(a − r) − {rule.most:g} "
        f"(s − r)] is above 0; against it where it has less than {percent(rule.least)}: the upper limit of "
        f"mean[(a − r) − {rule.least:g} (s − r)] is below 0. Limits are one-sided at {rule.level:.1%}. Explanation: "
        "all three for. Not explanation: none for, and Q3 against or both Q1 and Q2. Not not explanation (attention "
        "carries some, but not all, of what decides): some for, or each above the lower line. Undecided: otherwise, "
        f"below {rule.texts} texts, or where attention is on average less than {rule.constant:g} (TVD) from uniform. "
        "Kendall's τ decides nothing: among n words a perfect pointer at one has τ = √(2/n), since all others tie."
    )
