"""Verdict: is attention an explanation of this model? A pure function of what the checks found. Needs no torch.

For each text, a is the number of attention, r that of chance and s that of a reference that asks the model itself:

Q1 points      a   share of Σ|leave-one-out| on attention's top fifth of the words, over that on its own top fifth
               r   the same of `random` (mean of 20)          s   of integrated gradients
Q2 matters     a   total variation of the answer without attention's top fifth of the words; r and s as above
Q3 is used     a   median total variation of the answer over permutations of attention
               r   0, for a model that does not listen        s   total variation of the answer without any word

A question is answered *for* if attention surely has more than half of the reference's lead over chance: the lower limit
of the mean of (a − r) − ½ (s − r) over texts is above 0; *against* if it surely has less than a fifth of it: the upper
limit of the mean of (a − r) − ⅕ (s − r) is below 0. It stays undecided otherwise, and where the reference has no sure
lead, since then there is nothing to have a share of. Limits are one-sided, at 98.3 %: the three questions are then
answered right together at 95 %.

explanation           all three for
not explanation       none for, and Q3 against, or both Q1 and Q2
not not explanation   some for, or each surely above a fifth
undecided             otherwise; too few texts; attention that is the same everywhere, which claims nothing

That other attention would give the same answer (Q4), that attention cannot be known from what its layer gives (Q5) and
that it moves when the text hardly does (Q6) qualify a verdict. They do not decide it: Q4 holds of nearly every model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from heedful.maths import stats

Floats = NDArray[np.float64]
Word = Literal["explanation", "not explanation", "not not explanation", "undecided"]
Says = Literal["for", "against", "undecided"]
ATTENTION = ("attention-mean", "attention-max", "attention-norm", "effective-attention", "rollout", "attention-flow")
QUESTIONS = {
    "Q1": "Does attention point at the words that matter?",
    "Q2": "Does the answer change without the words that it points at?",
    "Q3": "Does the model use its attention?",
}
_NAMES = {"a": "attention", "r": "chance", "s": "the reference"}
OPEN = "the texts do not tell"
WIDE = 16.0  # times the reference's lead: no share is looked for beyond


@dataclass(frozen=True)
class Rule:
    """The constants of the verdict, which a page prints."""

    attention: str = "attention-mean"
    reference: str = "integrated-gradients"
    most: float = 0.5  # of the reference's lead over chance: more is for
    least: float = 0.2  # less is against
    level: float = 1 - 0.05 / 3
    texts: int = stats.MINIMUM
    constant: float = 0.05  # mean distance from uniform (TVD), below which attention claims nothing
    far: float = 0.5  # a twin is far away if so much of attention is elsewhere (TVD)
    steady: float = 0.5  # Kendall's τ below which attention is not


@dataclass(frozen=True)
class Answer:
    """What one question got: means over the n texts that have a, r and s, and limits of what decides.

    `share` is the part of the reference's lead over chance that attention has, from `low` to `high` (Fieller's limits,
    each one-sided: the shares t for which the mean of (a − r) − t (s − r) may be 0), so that above ½ is for and below ⅕
    against. `over_most` is the lower limit of (a − r) − ½ (s − r), `over_least` and `under_least` both limits of
    (a − r) − ⅕ (s − r), `lead` the lower limit of s − r.
    """

    question: str
    says: Says
    n: int
    attention: float = np.nan
    chance: float = np.nan
    reference: float = np.nan
    share: float = np.nan
    low: float = np.nan
    high: float = np.nan
    over_most: float = np.nan
    over_least: float = np.nan
    under_least: float = np.nan
    lead: float = np.nan
    reason: str = ""


@dataclass(frozen=True)
class Qualifier:
    """What is to be known beside a verdict: a number with its interval, and what it amounts to."""

    question: str
    says: str
    holds: bool
    n: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Verdict:
    """The word, why, the answers to Q1–Q3, and the qualifiers Q4–Q6 that could be asked."""

    word: Word
    reason: str
    method: str
    answers: tuple[Answer, ...] = ()
    qualifiers: tuple[Qualifier, ...] = ()
    rule: Rule = field(default_factory=Rule)

    def to_dict(self) -> dict[str, Any]:
        """For a summary."""
        return asdict(self)


def verdict(given: Mapping[str, Floats], rule: Rule | None = None) -> Verdict:
    """The verdict on the evidence of all checks together."""
    rule = rule or Rule()
    answers = tuple(_answer(question, given, rule) for question in QUESTIONS)
    word, reason = _word(answers, given, rule)
    return Verdict(word, reason, rule.attention, answers, tuple(_qualifiers(given, rule)), rule)


def verdicts(given: Mapping[str, Mapping[str, Floats]], rule: Rule | None = None) -> dict[str, Verdict]:
    """A verdict on each reading of attention, by method; on none that could not be made, but for the rule's own."""
    rule = rule or Rule()
    found = {name: verdict(own, replace(rule, attention=name)) for name, own in given.items()}
    return {name: one for name, one in found.items() if name == rule.attention or one.answers[0].n or one.answers[1].n}


def one_sided(values: Floats, level: float) -> tuple[float, float]:
    """The lower and the upper limit of a mean, each by itself at this level."""
    return stats.mean_interval(values, 2 * level - 1)


def shares(ahead: Floats, lead: Floats, level: float) -> tuple[float, float]:
    """Fieller's limits of mean(ahead) / mean(lead), where the lead is surely above 0; NaN beyond ±WIDE."""
    return _crossing(ahead, lead, level, 0), _crossing(ahead, lead, level, 1)


def _crossing(ahead: Floats, lead: Floats, level: float, side: int) -> float:
    """The t at which a limit of the mean of ahead − t · lead, which falls with t, is 0."""

    def limit(t: float) -> float:
        return one_sided(ahead - t * lead, level)[side]

    return float(brentq(limit, -WIDE, WIDE, xtol=1e-9)) if limit(-WIDE) > 0 > limit(WIDE) else np.nan


# to an answer


def _answer(question: str, given: Mapping[str, Floats], rule: Rule) -> Answer:
    rows = [given.get(f"{question} {who}", np.zeros(0)) for who in "ars"]
    absent = [_NAMES[who] for who, row in zip("ars", rows, strict=True) if np.isnan(row).all()]
    if absent:
        why = "it was not measured" if len(absent) == 3 else f"there is no number of {_and(absent)}"
        return _unasked(question, 0, why)
    table = np.array(rows)
    a, r, s = table[:, ~np.isnan(table).any(0)]
    n = len(a)
    if n < 2:
        return _unasked(question, n, "no text has all three numbers" if n == 0 else "one text has them")
    over_most, under_most = one_sided((a - r) - rule.most * (s - r), rule.level)
    over_least, under_least = one_sided((a - r) - rule.least * (s - r), rule.level)
    lead, _ = one_sided(s - r, rule.level)
    says, reason = _says(n, over_most, under_least, lead, rule)
    if reason == OPEN and under_most < 0 < over_least:
        reason = f"its share is surely between {rule.least:g} and {rule.most:g}"
    ahead, room = float((a - r).mean()), float((s - r).mean())
    low, high = shares(a - r, s - r, rule.level) if lead > 0 else (np.nan, np.nan)
    return Answer(
        question,
        says,
        n,
        attention=float(a.mean()),
        chance=float(r.mean()),
        reference=float(s.mean()),
        share=ahead / room if room > 0 else np.nan,
        low=low,
        high=high,
        over_most=over_most,
        over_least=over_least,
        under_least=under_least,
        lead=lead,
        reason=reason,
    )


def _unasked(question: str, n: int, reason: str) -> Answer:
    return Answer(question, "undecided", n, reason=reason)


def _says(n: int, over_most: float, under_least: float, lead: float, rule: Rule) -> tuple[Says, str]:
    if n < rule.texts:
        return "undecided", f"fewer than {rule.texts} texts"
    if not lead > 0:
        return "undecided", "the reference has no sure lead over chance"
    if over_most > 0:
        return "for", ""
    return ("against", "") if under_least < 0 else ("undecided", OPEN)


def _word(answers: Sequence[Answer], given: Mapping[str, Floats], rule: Rule) -> tuple[Word, str]:
    even = given.get("from uniform", np.zeros(0))
    even = even[~np.isnan(even)]
    missing = [answer for answer in answers if answer.n == 0]
    asked = [given[key] for key in (f"{question} a" for question in QUESTIONS) if key in given]
    if asked and all(np.isnan(row).all() for row in asked):
        return "undecided", "this model's attention could not be read"
    if missing:
        return "undecided", f"{', '.join(a.question for a in missing)} could not be asked"
    if min(answer.n for answer in answers) < rule.texts:
        return "undecided", f"fewer than {rule.texts} texts"
    if not len(even):
        return "undecided", "how far attention is from uniform was not measured"
    if even.mean() < rule.constant:
        return "undecided", "attention is constant: it claims nothing"
    return _weighed(answers)


def _weighed(answers: Sequence[Answer]) -> tuple[Word, str]:
    says = {answer.question: answer.says for answer in answers}
    yes = [question for question in says if says[question] == "for"]
    no = [question for question in says if says[question] == "against"]
    if len(yes) == len(says):
        return "explanation", "all three questions speak for it"
    if yes:
        others = [question for question in says if question not in yes]
        return "not not explanation", f"{_and(yes)} speak{'s' * (len(yes) == 1)} for it, {_and(others)} not"
    if "Q3" in no or {"Q1", "Q2"} <= set(no):
        return "not explanation", f"none speaks for it, and {_and(no)} against"
    if all(answer.over_least > 0 and answer.lead > 0 for answer in answers):
        return "not not explanation", "each question finds surely more than a fifth of the reference's lead, none half"
    return "undecided", OPEN if not no else f"only {_and(no)} speaks against it"


def _and(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])} and {names[-1]}"


# what qualifies


def _qualifiers(given: Mapping[str, Floats], rule: Rule) -> list[Qualifier]:
    steady = "Q6 checkpoints" if "Q6 checkpoints" in given else "Q6"
    change = "in another checkpoint" if steady != "Q6" else "when the text hardly changes"
    asked = (
        ("Q4", "Q4", "not the only one: attention elsewhere gives the same answer", rule.far, 1),
        ("Q5", "Q5", "not identifiable: other rows give the same in the last layer", 0.5, 1),
        ("Q6", steady, f"unstable: it puts words in another order {change}", rule.steady, -1),
    )
    return [
        found
        for name, key, says, line, side in asked
        if (found := _qualifier(name, given.get(key, np.zeros(0)), says, line, side, rule)) is not None
    ]


def _qualifier(name: str, values: Floats, says: str, line: float, side: int, rule: Rule) -> Qualifier | None:
    told = stats.summary(values)
    if told.n == 0:
        return None
    limit = told.low if side > 0 else told.high
    holds = told.n >= rule.texts and side * (limit - line) > 0
    return Qualifier(name, says, bool(holds), told.n, told.mean, told.low, told.high)


__all__ = [
    "ATTENTION",
    "QUESTIONS",
    "Answer",
    "Qualifier",
    "Rule",
    "Verdict",
    "verdict",
    "verdicts",
]
