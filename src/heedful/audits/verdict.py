"""Verdict: is attention an explanation of this model? A pure function of the checks' findings. Needs no torch.

For each text, a is the number of attention, r that of chance and s that of a reference that queries the model itself:

Q1 points      a   share of Σ|leave-one-out| on attention's top fifth of the words, over that on its own top fifth
               r   the same of `random` (mean of 20)          s   of integrated gradients
Q2 matters     a   total variation of the answer without attention's top fifth of the words; r and s as above
Q3 is used     a   median total variation of the answer over permutations of attention
               r   0, for a model that ignores attention      s   total variation of the answer without any word

A question is answered *for* if attention has significantly more than half of the reference's lead over chance: the
lower limit of the mean of (a − r) − ½ (s − r) over texts is above 0; *against* if it has significantly less than a
fifth of it: the upper limit of the mean of (a − r) − ⅕ (s − r) is below 0. It stays undecided otherwise, and where the
reference has no significant lead, since a share of it is then undefined. Limits are one-sided, at 98.3 %, so that all
three answers are right together at 95 %. They hold for one look at a number of texts that was fixed before, or, with
`limits="anytime"`, for any number of looks (`heedful.audits.limits`).

explanation           all three for
not explanation       none for, and Q3 against, or both Q1 and Q2
not not explanation   some for, or each significantly above a fifth
undecided             otherwise; too few texts; uniform attention, which ranks no word

That other attention would give the same answer (Q4), that attention is not identifiable from its layer's output (Q5),
that it changes when the text hardly does (Q6) and that it is over a part of the input only (Q7) qualify a verdict. They
do not decide it: Q4 holds for nearly every model. Q1 and Q2 rank the words that attention can point at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import reduce
from typing import Any, Literal, TypeVar

import numpy as np

from heedful.audits.limits import AnytimeLimits, FixedLimits
from heedful.core.arrays import Floats
from heedful.core.finding import CORRELATION, EVERYWHERE, FRACTION, Findings, Place, Role
from heedful.maths import stats
from heedful.maths.ranks import TOP_SHARE

VerdictWord = Literal["explanation", "not explanation", "not not explanation", "undecided"]
Says = Literal["for", "against", "undecided"]
Question = Literal["Q1", "Q2", "Q3"]
Number = Literal["attention", "chance", "reference"]
LimitsKind = Literal["fixed", "anytime"]
CaveatKind = Literal["elsewhere", "unidentified", "unsteady", "unsteady trainings", "partial"]
NUMBERS: tuple[Number, ...] = ("attention", "chance", "reference")
ATTENTION_METHODS = (
    "attention-mean",
    "attention-max",
    "attention-norm",
    "effective-attention",
    "rollout",
    "attention-flow",
)
QUESTIONS: dict[Question, str] = {
    "Q1": "Does attention point at the words that matter?",
    "Q2": "Does the answer change without the words that it points at?",
    "Q3": "Does the model use its attention?",
}
T = TypeVar("T", "Evidence", "Trio")


class Reason(StrEnum):
    """The reason of an answer or a verdict; the report makes a sentence of it."""

    NONE = ""
    NOT_MEASURED = "not measured"
    NUMBERS_MISSING = "numbers missing"  # see Answer.missing
    NO_COMPLETE_TEXT = "no complete text"
    ONE_COMPLETE_TEXT = "one complete text"
    TOO_FEW = "too few texts"
    NO_LEAD = "the reference has no lead"
    UNBOUNDED = "numbers outside 0 to 1"
    BETWEEN = "between the two lines"
    OPEN = "open"
    NOT_AMONG_METHODS = "not among the methods"
    UNREADABLE = "attention cannot be read"
    QUESTIONS_MISSING = "questions missing"
    UNIFORMITY_UNKNOWN = "distance from uniform not measured"
    CONSTANT = "constant attention"
    ALL_FOR = "all for"
    SOME_FOR = "some for"
    NONE_FOR = "none for, some against"
    ABOVE_LEAST = "all above the lower line"
    ONE_AGAINST = "one against"


@dataclass(frozen=True)
class Rule:
    """The constants of the verdict."""

    attention: str = "attention-mean"
    reference: str = "integrated-gradients"
    most: float = 0.5  # of the reference's lead over chance: more is for
    least: float = 0.2  # less is against
    level: float = 1 - 0.05 / 3
    limits: LimitsKind = "fixed"  # for one look, at a number of texts that was fixed before, or for any number of looks
    texts: int = stats.MINIMUM
    constant: float = 0.05  # mean distance from uniform (TVD), below which attention counts as uniform
    far: float = 0.5  # distance (TVD) from which on another attention is a different one
    steady: float = 0.5  # Kendall's τ below which attention is not stable


@dataclass(frozen=True, eq=False)
class Trio:
    """The numbers of one question for each text: of attention, of chance and of the reference; None: not measured."""

    attention: Floats | None = None
    chance: Floats | None = None
    reference: Floats | None = None


@dataclass(frozen=True, eq=False)
class Evidence:
    """The numbers that a verdict is based on, one for each text; None where no check measured them.

    `from_uniform` is attention's distance from uniform (TVD), `elsewhere` that of the farthest attention with the same
    answer (Q4), `unidentified` the share of the last layer's heads with other rows of the same output (Q5), `steady`
    and `trainings` Kendall's τ of attention with that of an edited text and of other trainings (Q6), `seen` the share
    of the words that attention can point at (Q7).
    """

    points: Trio = Trio()
    matters: Trio = Trio()
    used: Trio = Trio()
    from_uniform: Floats | None = None
    elsewhere: Floats | None = None
    unidentified: Floats | None = None
    steady: Floats | None = None
    trainings: Floats | None = None
    seen: Floats | None = None

    def trio(self, question: Question) -> Trio:
        """The numbers of a question."""
        return {"Q1": self.points, "Q2": self.matters, "Q3": self.used}[question]

    def map(self, change: Callable[[Floats], Floats]) -> Evidence:
        """With each row of numbers changed, for example to those of some texts."""
        return _map(self, change)


@dataclass(frozen=True)
class Answer:
    """The answer to one question: means over the n texts that have a, r and s, and the limits that decide.

    `share` is the part of the reference's lead over chance that attention has, from `low` to `high` (Fieller's limits,
    each one-sided: the shares t for which the mean of (a − r) − t (s − r) may be 0), so that above ½ is for and below ⅕
    against. `over_most` is the lower limit of (a − r) − ½ (s − r), `over_least` and `under_least` both limits of
    (a − r) − ⅕ (s − r), `lead` the lower limit of s − r. `missing` names the numbers that were not measured. `needed`,
    of an undecided answer by the anytime rule, is how many texts would decide it if all were like these, NaN if none.
    """

    question: Question
    says: Says
    n: int
    reason: Reason = Reason.NONE
    missing: tuple[Number, ...] = ()
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
    needed: float = np.nan

    @property
    def decided(self) -> bool:
        """Whether more texts would change nothing: yes, no, or significantly between the two lines."""
        return self.says != "undecided" or self.reason == Reason.BETWEEN


@dataclass(frozen=True)
class Qualifier:
    """A caveat to a verdict: the estimate that it is based on, and whether it holds."""

    kind: CaveatKind
    holds: bool
    estimate: stats.Estimate


@dataclass(frozen=True)
class Verdict:
    """The word, why, the answers to Q1–Q3, and the caveats Q4–Q7 that could be examined."""

    word: VerdictWord
    reason: Reason
    method: str
    answers: tuple[Answer, ...] = ()
    qualifiers: tuple[Qualifier, ...] = ()
    rule: Rule = field(default_factory=Rule)

    def questions(self, *says: Says) -> list[Question]:
        """The questions with one of these answers."""
        return [answer.question for answer in self.answers if answer.says in says]

    def __repr__(self) -> str:
        """One line: Verdict(attention-mean: not explanation; Q1 against, Q2 undecided, Q3 against)."""
        answers = ", ".join(f"{answer.question} {answer.says}" for answer in self.answers)
        return f"Verdict({self.method}: {self.word}; {answers or self.reason.value})"


def verdict(evidence: Evidence, rule: Rule | None = None) -> Verdict:
    """The verdict on the evidence of all checks together."""
    rule = rule or Rule()
    answers = tuple(_answer(question, evidence.trio(question), rule) for question in QUESTIONS)
    word, reason = _word(answers, evidence, rule)
    return Verdict(word, reason, rule.attention, answers, tuple(_qualifiers(evidence, rule)), rule)


def readings(methods: Iterable[str], rule: Rule | None = None) -> dict[str, Evidence]:
    """No evidence yet on each reading of attention among the methods."""
    return {name: Evidence() for name in methods if name in (*ATTENTION_METHODS, (rule or Rule()).attention)}


def gather(
    evidence: Mapping[str, Evidence], roles: Sequence[Role], findings: Findings, rule: Rule | None = None
) -> dict[str, Evidence]:
    """The evidence on each reading, together with that of the findings of a check with these roles."""
    reference = (rule or Rule()).reference
    return {
        name: reduce(merge, (evidence_of(role, findings, name, reference) for role in roles), present)
        for name, present in evidence.items()
    }


def verdicts(evidence: Mapping[str, Evidence], rule: Rule | None = None) -> dict[str, Verdict]:
    """A verdict on each reading of attention; a reading without numbers has none, unless it is the rule's."""
    rule = rule or Rule()
    every = {name: verdict(present, replace(rule, attention=name)) for name, present in evidence.items()}
    return {name: v for name, v in every.items() if name == rule.attention or v.answers[0].n or v.answers[1].n}


def decided(evidence: Evidence, rule: Rule) -> bool:
    """Whether all three answers are decided by the anytime rule; as `verdict`, without its numbers."""
    return all(_is_decided(question, evidence.trio(question), rule) for question in QUESTIONS)


# from evidence to an answer


def _answer(question: Question, trio: Trio, rule: Rule) -> Answer:
    missing = _missing(trio)
    if missing:
        reason = Reason.NOT_MEASURED if len(missing) == len(NUMBERS) else Reason.NUMBERS_MISSING
        return Answer(question, "undecided", 0, reason, missing)
    limits = _limits(question, trio, rule)
    a, r, s = limits.a, limits.r, limits.s
    n = len(a)
    if n < 2:
        return Answer(question, "undecided", n, Reason.ONE_COMPLETE_TEXT if n else Reason.NO_COMPLETE_TEXT)
    if isinstance(limits, AnytimeLimits) and not limits.bounded:
        return Answer(question, "undecided", n, Reason.UNBOUNDED)
    over_most, under_most = limits.limits(rule.most)
    over_least, under_least = limits.limits(rule.least)
    lead = limits.lead()
    says, reason = _says(n, over_most, under_least, lead, rule)
    if reason == Reason.OPEN and under_most < 0 < over_least:
        reason = Reason.BETWEEN
    ahead, room = float((a - r).mean()), float((s - r).mean())
    low, high = limits.shares() if lead > 0 else (np.nan, np.nan)
    answer = Answer(
        question,
        says,
        n,
        reason,
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
    )
    return answer if answer.decided else replace(answer, needed=_needed(limits, trio, rule))


def _missing(trio: Trio) -> tuple[Number, ...]:
    rows = {name: getattr(trio, name) for name in NUMBERS}
    return tuple(name for name, row in rows.items() if row is None or np.isnan(row).all())


def _limits(question: Question, trio: Trio, rule: Rule) -> FixedLimits | AnytimeLimits:
    """Of the texts that have all three numbers."""
    table = np.array([getattr(trio, name) for name in NUMBERS])
    a, r, s = table[:, ~np.isnan(table).any(0)]
    if rule.limits == "fixed":
        return FixedLimits(a, r, s, rule.level)
    return AnytimeLimits(a, r, s, rule.level, chance=0.0 if question == "Q3" else 1.0)


def _needed(limits: FixedLimits | AnytimeLimits, trio: Trio, rule: Rule) -> float:
    if isinstance(limits, FixedLimits) or trio.attention is None:
        return np.nan
    needed = max(float(rule.texts), limits.decided_after(rule.most, rule.least, forecast=True))
    # texts without all three numbers are needed in proportion
    return needed * len(trio.attention) / len(limits.a) if needed < np.inf else np.nan


def _is_decided(question: Question, trio: Trio, rule: Rule) -> bool:
    if _missing(trio):
        return False
    limits = _limits(question, trio, rule)
    if not isinstance(limits, AnytimeLimits) or len(limits.a) < rule.texts or not limits.bounded:
        return False
    return limits.decided_after(rule.most, rule.least) < np.inf


def _says(n: int, over_most: float, under_least: float, lead: float, rule: Rule) -> tuple[Says, Reason]:
    if n < rule.texts:
        return "undecided", Reason.TOO_FEW
    if not lead > 0:
        return "undecided", Reason.NO_LEAD
    if over_most > 0:
        return "for", Reason.NONE
    return ("against", Reason.NONE) if under_least < 0 else ("undecided", Reason.OPEN)


def _word(answers: Sequence[Answer], evidence: Evidence, rule: Rule) -> tuple[VerdictWord, Reason]:
    measured = [row for question in QUESTIONS if (row := evidence.trio(question).attention) is not None]
    if measured and all(np.isnan(row).all() for row in measured):
        return "undecided", Reason.UNREADABLE
    if any(answer.n == 0 for answer in answers):
        return "undecided", Reason.QUESTIONS_MISSING
    if min(answer.n for answer in answers) < rule.texts:
        return "undecided", Reason.TOO_FEW
    even = np.zeros(0) if evidence.from_uniform is None else evidence.from_uniform[~np.isnan(evidence.from_uniform)]
    if not len(even):
        return "undecided", Reason.UNIFORMITY_UNKNOWN
    if even.mean() < rule.constant:
        return "undecided", Reason.CONSTANT
    return _weighed(answers)


def _weighed(answers: Sequence[Answer]) -> tuple[VerdictWord, Reason]:
    yes = [answer.question for answer in answers if answer.says == "for"]
    no = [answer.question for answer in answers if answer.says == "against"]
    if len(yes) == len(answers):
        return "explanation", Reason.ALL_FOR
    if yes:
        return "not not explanation", Reason.SOME_FOR
    if "Q3" in no or {"Q1", "Q2"} <= set(no):
        return "not explanation", Reason.NONE_FOR
    if all(answer.over_least > 0 and answer.lead > 0 for answer in answers):
        return "not not explanation", Reason.ABOVE_LEAST
    return "undecided", Reason.ONE_AGAINST if no else Reason.OPEN


def _qualifiers(evidence: Evidence, rule: Rule) -> list[Qualifier]:
    """Each holds if its mean is significantly above a line, or below it (the last two)."""
    table: list[tuple[CaveatKind, Floats | None, float, int, tuple[float, float]]] = [
        ("elsewhere", evidence.elsewhere, rule.far, 1, FRACTION),
        ("unidentified", evidence.unidentified, 0.5, 1, FRACTION),
        ("unsteady", evidence.steady, rule.steady, -1, CORRELATION),
        ("partial", evidence.seen, 1.0, -1, FRACTION),
    ]
    if evidence.trainings is not None:
        table[2] = ("unsteady trainings", evidence.trainings, rule.steady, -1, CORRELATION)
    qualifiers = []
    for kind, values, line, side, within in table:
        estimate = stats.estimate(np.zeros(0) if values is None else values, within=within)
        limit = estimate.low if side > 0 else estimate.high
        holds = bool(estimate.n >= rule.texts and side * (limit - line) > 0)
        qualifiers += [Qualifier(kind, holds, estimate)] if estimate.n else []
    return qualifiers


# from findings to evidence


def evidence_of(role: Role, findings: Findings, attention: str, reference: str) -> Evidence:
    """The evidence on the method `attention` from a check with this role; empty for a role without evidence."""
    return _EVIDENCE[role](findings, attention, reference) if role in _EVIDENCE else Evidence()


def merge(first: T, second: T) -> T:
    """Both together; where both have numbers, the second's."""
    changes: dict[str, Any] = {}
    for name, a in vars(first).items():
        b = getattr(second, name)
        changes[name] = merge(a, b) if isinstance(a, Trio) else a if b is None else b
    return replace(first, **changes)


def join(some: Sequence[T], texts: Sequence[int]) -> T:
    """The evidence on these numbers of texts, one after the other; NaN where one of them has no numbers."""
    changes: dict[str, Any] = {}
    for name, first in vars(some[0]).items():
        rows = [getattr(one, name) for one in some]
        if isinstance(first, Trio):
            changes[name] = join(rows, texts)
        elif any(row is not None for row in rows):
            filled = [np.full(n, np.nan) if row is None else row for row, n in zip(rows, texts, strict=True)]
            changes[name] = np.concatenate(filled)
    return replace(some[0], **changes)


def _map(rows: T, change: Callable[[Floats], Floats]) -> T:
    changes: dict[str, Any] = {}
    for name, row in vars(rows).items():
        changes[name] = _map(row, change) if isinstance(row, Trio) else None if row is None else change(row)
    return replace(rows, **changes)


def _trio(findings: Findings, measure: str, at: Place, attention: str, reference: str) -> Trio:
    return Trio(*(findings.values(measure, name, at) for name in (attention, "random", reference)))


def _matters(findings: Findings, attention: str, reference: str) -> Evidence:
    maskings = [at["masking"] for at in findings.places("tvd without words")]
    if not maskings:
        return Evidence()
    masking = "delete" if "delete" in maskings else maskings[0]
    return Evidence(
        matters=_trio(findings, "tvd", {"masking": masking, "share": TOP_SHARE}, attention, reference),
        used=Trio(reference=findings.values("tvd without words", "", {"masking": masking})),
    )


def _used(findings: Findings, attention: str, reference: str) -> Evidence:
    changes = findings.values("tvd", "", EVERYWHERE)
    return Evidence(used=Trio(attention=changes, chance=np.zeros(len(changes))))


def _elsewhere(findings: Findings, attention: str, reference: str) -> Evidence:
    """The exact distance, or its lower bound; in a Transformer, that of the head that can move farthest."""
    for measure in ("tvd exact", "tvd lower", "tvd any head"):
        places = findings.places(measure)
        if places:
            return Evidence(elsewhere=np.fmax.reduce([findings.values(measure, "", at) for at in places]))
    return Evidence()


def _identifiable(findings: Findings, attention: str, reference: str) -> Evidence:
    """The last layer's heads: whether each has another row with the same output."""
    places = [at for at in findings.places("null constrained") if isinstance(at.get("layer"), int)]
    if not places:
        return Evidence()
    last = max(at["layer"] for at in places)
    rows = [findings.values("null constrained", "", at) for at in places if at["layer"] == last]
    return Evidence(unidentified=np.mean([np.where(np.isnan(row), np.nan, row > 0) for row in rows], axis=0))


def _trainings(findings: Findings, attention: str, reference: str) -> Evidence:
    places = [at for at in findings.places("tau", attention) if at.get("with") not in ("seed", "samples")]
    rows = [findings.values("tau", attention, at) for at in places]
    return Evidence(trainings=np.mean(rows, axis=0)) if rows else Evidence()


_EVIDENCE: dict[Role, Callable[[Findings, str, str], Evidence]] = {
    "points": lambda findings, attention, reference: Evidence(
        points=_trio(findings, "pointing", {}, attention, reference), seen=findings.values("attended words", "")
    ),
    "matters": _matters,
    "used": _used,
    "from uniform": lambda findings, attention, _: Evidence(from_uniform=findings.values("from uniform", attention)),
    "elsewhere": _elsewhere,
    "identifiable": _identifiable,
    "steady": lambda findings, attention, _: Evidence(steady=findings.values("tau", attention, {"change": "any"})),
    "trainings": _trainings,
}
NEEDED: tuple[Role, ...] = ("points", "matters", "used", "from uniform")  # without which there is no verdict
