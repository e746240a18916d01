"""Looks: in words, that a verdict is anytime-valid, why, and about how many more texts would decide it."""

from __future__ import annotations

from math import floor, isfinite, log10

from heedful.audits.record import Record
from heedful.audits.verdict import Answer, Verdict
from heedful.report.phrases import and_list, count_texts


def looks_sentences(record: Record, verdict: Verdict) -> tuple[str, ...]:
    """What the looks at a run mean for its verdict; nothing for a run that was seen once."""
    looks, n = record.summary.looks, record.summary.texts.n
    every = int(record.run.manifest.data.get("texts", n))
    earlier = (
        f"after the results on {and_list([f'{k:,}' for k in looks.before])} texts had been seen" if looks.before else ""
    )
    if verdict.rule.limits == "fixed":
        single = "but these limits are for a single look: wrong answers are more frequent than they say."
        again = earlier or ("to decide the verdict" if looks.until else "")
        return (f"Texts were added {again}, {single}",) if again else ()
    undecided = [answer for answer in verdict.answers if not answer.decided]
    aim = "to decide the verdict" if undecided else "until the verdict was decided"
    why = aim if looks.until else earlier or "one by one"
    end = "" if undecided else "; each question is answered, or its share lies between the two lines"
    return (
        f"Texts were added {why}, so that the limits are anytime-valid: they hold for any number of looks. The verdict "
        f"uses {count_texts(n)}{end}.",
        *(more_sentence(answer, n, every) for answer in undecided if answer.n),
        "All other intervals of this report are for a single look at a fixed number of texts.",
    )


def more_sentence(answer: Answer, n: int, every: int) -> str:
    """About how many more texts would decide an answer, if they were like these."""
    if not isfinite(answer.needed):
        return f"{answer.question} would stay undecided with more texts like these."
    more = max(1, round_up(answer.needed - n))
    left = max(0, every - n)
    beyond = "" if more <= left else f", more than the data has ({left:,})" if left else "; the data has no more"
    return f"{answer.question} needs about {more:,} more texts like these to be decided{beyond}."


def round_up(number: float) -> int:
    """To two digits, since it is a forecast: 1234 -> 1300."""
    if number <= 0:
        return 0
    unit = 10 ** max(0, floor(log10(number)) - 1)
    return int(-(-number // unit) * unit)
