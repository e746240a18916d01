"""Verdict: whether attention may be used as an explanation of this model, in words."""

from __future__ import annotations

from collections.abc import Mapping

from heedful.audits.verdict import QUESTIONS, Answer, LimitsKind, Question, Reason, Rule, Says, Verdict
from heedful.report.charts import Interval, Words, dots
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import and_list, capital, exists, interval, number, percent

MEANINGS = {
    "explanation": "Attention may be used as an explanation of this model: it points at the words that decide, and the "
    "model uses it.",
    "not explanation": "Attention should not be used as an explanation of this model: it does not point at the words "
    "that decide, or the model does not use it.",
    "not not explanation": "Attention carries some, but not all, of what decides: it may be shown beside another "
    "explanation, but not replace it.",
    "undecided": "This audit does not decide whether attention may be used as an explanation of this model",
}
ATTENTION_USE = {
    "explanation": "attention may be used as an explanation, too",
    "not explanation": "attention should not be used as an explanation",
    "not not explanation": "attention may be shown beside another explanation, but not replace it",
    "undecided": "whether attention may be used is undecided",
}
MEASURED: dict[Question, str] = {
    "Q1": "The 20 % of words with the most attention have {a} of the importance (by leave-one-out) of the 20 % most "
    "important words; a random 20 % have {r}, the top 20 % of {reference} {s}.",
    "Q2": "Removing the 20 % of words with the most attention changes the output by {a} (TVD); removing a random 20 % "
    "changes it by {r}, the top 20 % of {reference} by {s}.",
    "Q3": "Shuffling attention changes the output by {a} (TVD, median over shuffles); removing all words changes it by "
    "{s}.",
}
ANSWERS: dict[Says, str] = {"for": "yes", "against": "no", "undecided": "undecided"}
MAX_SHARE_WIDTH = 2.0  # of the limits of a share: from as bad as random to twice as good as the reference
LIMITS: dict[LimitsKind, str] = {"fixed": "One-sided limits", "anytime": "One-sided, anytime-valid limits"}
SHORT_QUESTIONS: dict[Question, str] = {"Q1": "Q1 points", "Q2": "Q2 matters", "Q3": "Q3 is used"}
QUALIFIERS = {
    "elsewhere": ("Q4", "not unique: very different attention gives the same output"),
    "unidentified": ("Q5", "not identifiable: other weights give the same output of the last layer"),
    "unsteady": ("Q6", "unstable: it orders the words differently when the text hardly changes"),
    "unsteady trainings": ("Q6", "unstable: it orders the words differently after another training"),
    "partial": ("Q7", "over a part of the input: words outside it take no part in Q1 and Q2"),
}


def verdict_sentences(verdict: Verdict) -> tuple[str, ...]:
    """What the verdict means, the answer to each question, and caveats."""
    meaning = MEANINGS[verdict.word]
    first = f"{meaning}: {reason(verdict)}." if verdict.word == "undecided" else meaning
    caveats = [QUALIFIERS[caveat.kind][1] for caveat in verdict.qualifiers if caveat.holds]
    return (
        first,
        *(answer_sentence(answer, verdict.rule) for answer in verdict.answers),
        *([f"Caveats: attention is {'; and '.join(caveats)}."] if caveats else []),
    )


def conclusion(method: str | None, verdict: Verdict) -> str:
    """One sentence: which explanation to use, and whether attention may be used."""
    use = f"Use {method} to explain this model" if method else "No explanation of this model is recommended"
    why = f" ({reason(verdict)})" if verdict.word == "undecided" else ""
    return f"{use}; {ATTENTION_USE[verdict.word]}{why}."


def reason(verdict: Verdict) -> str:
    """Why the verdict is what it is."""
    yes, no = verdict.questions("for"), verdict.questions("against")
    others = verdict.questions("against", "undecided")
    missing = [answer.question for answer in verdict.answers if answer.n == 0]
    return {
        Reason.NOT_AMONG_METHODS: f"the run does not have the method {verdict.method}",
        Reason.UNREADABLE: "this model's attention could not be read",
        Reason.QUESTIONS_MISSING: f"the run has no numbers for {and_list(missing)}",
        Reason.TOO_FEW: f"fewer than {verdict.rule.texts} texts",
        Reason.UNIFORMITY_UNKNOWN: "how far attention is from uniform was not measured",
        Reason.CONSTANT: "attention is nearly uniform: it ranks no word above another",
        Reason.ALL_FOR: "all three questions support it",
        Reason.SOME_FOR: f"{and_list(yes)} support{'s' * (len(yes) == 1)} it, {and_list(others)} "
        f"do{'es' * (len(others) == 1)} not",
        Reason.NONE_FOR: f"no question supports it, and {and_list(no)} oppose{'s' * (len(no) == 1)} it",
        Reason.ABOVE_LEAST: f"on each question it has more than {percent(verdict.rule.least)} of the reference's lead, "
        f"on none significantly more than {percent(verdict.rule.most)}",
        Reason.ONE_AGAINST: f"only {and_list(no)} opposes it",
    }.get(verdict.reason, "no question has a significant answer on these texts")


def answer_reason(answer: Answer, rule: Rule) -> str:
    """Why a question is undecided; empty where it is not."""
    was = "was" if len(answer.missing) == 1 else "were"
    inside = [percent(line) for line in (rule.least, rule.most) if answer.low <= line <= answer.high]
    return {
        Reason.NONE: "",
        Reason.NOT_MEASURED: "it was not measured",
        Reason.NUMBERS_MISSING: f"{and_list([NUMBERS[name] for name in answer.missing])} {was} not measured",
        Reason.NO_COMPLETE_TEXT: "no text has all three measurements",
        Reason.ONE_COMPLETE_TEXT: "only one text has all three measurements",
        Reason.TOO_FEW: f"fewer than {rule.texts} texts",
        Reason.NO_LEAD: "the reference is not significantly better than random",
        Reason.UNBOUNDED: "a change is outside 0 to 1, so that anytime-valid limits do not exist",
        Reason.BETWEEN: f"attention's share lies between {percent(rule.least)} and {percent(rule.most)}",
    }.get(
        answer.reason,
        f"the interval of attention's share contains {and_list(inside)}" if inside else "the interval is too wide",
    )


NUMBERS = {"attention": "attention", "chance": "random", "reference": "the reference"}


def answer_sentence(answer: Answer, rule: Rule) -> str:
    """The answer to one question, and the numbers that it rests on."""
    question, why = QUESTIONS[answer.question], answer_reason(answer, rule)
    if not exists(answer.attention):
        return f"{question} Undecided: {why}."
    a, r, s = (number(x, 2) for x in (answer.attention, answer.chance, answer.reference))
    measured = MEASURED[answer.question].format(reference=rule.reference, a=a, r=r, s=s)
    share = share_phrase(answer)
    lead = f" Attention has {share} of the reference's lead over random." if share else ""
    return f"{question} {capital(ANSWERS[answer.says])}{f': {why}' if why else ''}. {measured}{lead}"


def share_phrase(answer: Answer) -> str | None:
    """Attention's share of the reference's lead with its limits: 54 % [45, 62]; None where it is not determined."""
    return percent(answer.share, answer.low, answer.high) if _share_determined(answer) else None


def _share_determined(answer: Answer) -> bool:
    """Whether there are enough texts, the reference has a lead, and the limits are not too wide to mean anything."""
    if not exists(answer.share) or answer.reason in (Reason.TOO_FEW, Reason.NO_LEAD):
        return False
    return answer.says != "undecided" or answer.high - answer.low <= MAX_SHARE_WIDTH  # a limit may be NaN


def verdict_section(verdicts: Mapping[str, Verdict], first: str) -> Section:
    """The three questions with their numbers, caveats, and other readings of attention."""
    verdict = verdicts[first]
    return Section(
        name="verdict",
        title="May attention be used?",
        question="May attention be used as an explanation of this model?",
        findings=(f"{capital(verdict.word)}: {reason(verdict)}.",),
        figures=_shares_figure(verdict),
        tables=(_answers_table(verdict), *_qualifiers_table(verdict), *_readings_table(verdicts, first)),
        reading=_rule_in_words(verdict.rule),
        source="Jain & Wallace 2019; Wiegreffe & Pinter 2019; Serrano & Smith 2019",
    )


def _shares_figure(verdict: Verdict) -> tuple[Figure, ...]:
    rule = verdict.rule
    rows = [
        Interval(SHORT_QUESTIONS[a.question], a.share, a.low, a.high, note=ANSWERS[a.says])
        for a in verdict.answers
        if _share_determined(a)
    ]
    words = Words(
        "verdict-shares",
        "Attention's share of the reference's lead over random",
        x="0 is random, 1 the reference",
        caption=f"The answer is yes where the whole interval lies above {rule.most:g}, and no where it lies below "
        f"{rule.least:g}. {LIMITS[rule.limits]} at {rule.level:.1%} each.",
    )
    return (dots(words, rows, limits=(0.0, 1.0), marks=(rule.least, rule.most)),) if rows else ()


def _answers_table(verdict: Verdict) -> Table:
    columns = (
        Column("question"),
        Column("attention", 3, "mean over texts"),
        Column("random", 3, "mean of 20 draws; 0 for Q3"),
        Column("reference", 3, f"{verdict.rule.reference} for Q1 and Q2; all words removed for Q3"),
        Column("share", says="of the reference's lead over random, with one-sided limits; – not determined"),
        Column("texts"),
        Column("answer"),
    )
    rows = tuple(
        (f"{a.question} {QUESTIONS[a.question]}", a.attention, a.chance, a.reference, share_phrase(a), a.n, word)
        for a in verdict.answers
        for word in [ANSWERS[a.says]]
    )
    return Table("verdict-questions", "The three questions", columns, rows)


def _qualifiers_table(verdict: Verdict) -> list[Table]:
    columns = (Column("caveat"), Column("mean"), Column("texts"), Column("holds"))
    caption = (
        "Caveats qualify a verdict and never decide it. Q4: the distance (TVD) of the farthest attention found with "
        "the same output; Q5: the share of heads of the last layer with such weights; Q6: Kendall's τ of attention "
        "before and after the change; Q7: the share of the words that attention can point at."
    )
    rows = tuple(
        (" ".join(QUALIFIERS[c.kind]), interval(c.estimate), c.estimate.n, "yes" if c.holds else "not shown")
        for c in verdict.qualifiers
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
        "text by text. The answer is yes where attention has significantly more than "
        f"{percent(rule.most)} of the reference's lead over random: the lower limit of mean[(a − r) − {rule.most:g} "
        f"(s − r)] is above 0. It is no where attention has significantly less than {percent(rule.least)}: the upper "
        f"limit of mean[(a − r) − {rule.least:g} (s − r)] is below 0. {LIMITS[rule.limits]} at {rule.level:.1%}. "
        "Explanation: three times yes. Not explanation: never yes, and no to Q3 or to both Q1 and Q2. Not not "
        "explanation (attention carries some, but not all, of what decides): some yes but not all, or every "
        f"share significantly above {percent(rule.least)}. Undecided: otherwise, below {rule.texts} texts, or where "
        f"attention is on average less than {rule.constant:g} (TVD) from uniform. Kendall's τ decides nothing: "
        "attention that is all on one of n words has τ = √(2/n) with an order that has the same first "
        "word, since all other words tie."
    )
