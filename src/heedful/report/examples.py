"""Examples: the extreme texts of a run, found by rule, with their words coloured by what explains them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from heedful.audits.record import Detail, Record
from heedful.core.arrays import Floats
from heedful.core.finding import EVERYWHERE
from heedful.report.coloured_text import (
    CUT,
    MAX_WORDS_SHOWN,
    canvas,
    exclusive,
    explained,
    explaining,
    frame,
    noted,
    place_of,
    preferred,
    read_text_row,
    text_key,
)
from heedful.report.document import Colouring, Section, Shown
from heedful.report.phrases import count_texts, number
from heedful.report.sections.parts import LOO, VERDICT_METHOD

MAX_EXAMPLES = 8  # examples
MAX_WRONG = 3  # of them wrong predictions, at most
MIN_WORDS = 5  # words, below which an order of words says little
FIFTH = 0.2
PROBABILITY_ROUNDING = 1e-6
CHANGE_ROUNDING = 1e-4


@dataclass(frozen=True)
class ExampleReason:
    """Why some texts are worth a look: their places in the run, the most telling first."""

    title: str
    order: Sequence[int]
    note: Callable[[int], str]
    methods: tuple[str, ...]
    notes: Mapping[str, Callable[[int], str]] = field(default_factory=dict)  # of a method's colouring
    least: int = MIN_WORDS


def example_section(record: Record) -> Section:
    """The worst and most telling texts of a run; none twice."""
    methods = sorted(preferred(explaining(record)), key=lambda name: name != VERDICT_METHOD)
    first = farthest_attention(record)
    shown = [] if first is None else [first]
    used = {text_key(record.text_at(place_of(record, example.text))) for example in shown}
    reasons = (_agreement, _erasure, _shuffled, _wrong)
    for reason in chain.from_iterable(find(record, methods) for find in reasons):
        half = reason.order[: -(-len(reason.order) // 2)]  # what comes later is no extreme, whatever was passed over
        place = next((i for i in half if _fits(record, i, reason, used)), None)
        if place is not None and len(shown) < MAX_EXAMPLES:
            used.add(text_key(record.text_at(place)))
            shown.append(_shown(record, place, reason))
    return Section(
        name="examples",
        title="Texts to look at",
        question="What does this look like in single texts?",
        findings=tuple(_findings(record, shown)),
        examples=tuple(shown),
        reading=_reading(record),
        source="Jain & Wallace 2019" if first is not None else "",
    )


# which texts


def _agreement(record: Record, methods: Sequence[str]) -> Iterator[ExampleReason]:
    other = next((name for name in (LOO, *methods) if name in methods and name != VERDICT_METHOD), None)
    check = record.check_for("points")
    if VERDICT_METHOD not in methods or other is None or check is None:
        return
    findings = record.findings(check)
    taus = findings.values("tau", VERDICT_METHOD, {"with": other})
    if np.isnan(taus).all():  # a pair stands under the name that comes first
        taus = findings.values("tau", other, {"with": VERDICT_METHOD})

    def note(i: int) -> str:
        return f"Kendall's τ of the two orders of words is {number(taus[i], 2)}; {_mean(taus)}."

    shown = tuple(dict.fromkeys((VERDICT_METHOD, other, *methods)))[:3]
    yield ExampleReason(f"Attention and {other} disagree most", lowest(taus), note, shown)
    yield ExampleReason(f"Attention and {other} agree best", lowest(-taus), note, shown)


def _erasure(record: Record, methods: Sequence[str]) -> Iterator[ExampleReason]:
    """Where words that attention puts first matter least beside those of a method that asks the model."""
    other = next(
        (name for name in ("integrated-gradients", *methods) if name in methods and name != VERDICT_METHOD), None
    )
    check = record.check_for("matters")
    if VERDICT_METHOD not in methods or other is None or check is None:
        return
    findings = record.findings(check)
    places = [at for at in findings.places("tvd", VERDICT_METHOD) if at.get("share") == FIFTH]
    at = next((at for at in places if at["masking"] == "delete"), places[0] if places else {})
    tvd = {name: findings.values("tvd", name, at) for name in (VERDICT_METHOD, other)}
    flips = {name: _flips(record, findings.values("comprehensiveness", name, at)) for name in tvd}
    lead = tvd[other] - tvd[VERDICT_METHOD]
    telling = (flips[other] == 1) & (flips[VERDICT_METHOD] == 0)
    order = [i for i in lowest(-lead - 2 * telling) if lead[i] > 0]  # TVD differs by 1 at most

    def note(i: int) -> str:
        more, less, of = int((lead > 0).sum()), int((lead < 0).sum()), count_texts(int((~np.isnan(lead)).sum()))
        return (
            f"A fifth of the words is removed ({at['masking']}): those that one or the other puts first. Of {of} "
            f"the output moves farther without the words of {other} on {more:,}, "
            f"and without those of attention on {less:,}."
        )

    def moved(name: str) -> Callable[[int], str]:
        ends = {1.0: ", to another label", 0.0: ", and the label stays"}
        return lambda i: (
            f"without its first fifth of the words the output moves by {number(tvd[name][i], 3)} (TVD)"
            + ends.get(float(flips[name][i]), "")
        )

    notes = {name: moved(name) for name in tvd}
    title = f"The first words of {other} matter more than those of attention"
    yield ExampleReason(title, order, note, (VERDICT_METHOD, other), notes)


def _flips(record: Record, falls: Floats) -> Floats:
    """1 where the label changes for certain, 0 where it stays, NaN where one label's fall does not decide it.

    What falls below 1/c is not the highest of c probabilities; what stays above ½ is.
    """
    flips = np.full(len(falls), np.nan)
    if explained(record) is not None:
        return flips  # the fall is of another label than the predicted one
    for i, chances in enumerate(record.texts.column("probabilities").to_pylist()):
        if exclusive(chances):
            left = max(chances) - falls[i]
            if left < 1 / len(chances) - PROBABILITY_ROUNDING:
                flips[i] = 1
            elif left > 0.5 + PROBABILITY_ROUNDING:
                flips[i] = 0
    return flips


def _shuffled(record: Record, methods: Sequence[str]) -> Iterator[ExampleReason]:
    check = record.check_for("used")
    if check is None:
        return
    moved = record.findings(check).values("tvd", at=EVERYWHERE)

    def note(i: int) -> str:
        return (
            f"Shuffled at random, attention moves the output by {number(moved[i], 3)} (median TVD); {_mean(moved, 3)}."
        )

    yield ExampleReason("Shuffled attention changes the answer most", lowest(-moved), note, tuple(methods))
    yield ExampleReason("Shuffled attention changes the answer least", lowest(moved), note, tuple(methods))


def _wrong(record: Record, methods: Sequence[str]) -> Iterator[ExampleReason]:
    facts = record.facts
    wrong = (facts["gold"] >= 0) & (facts["predicted"] >= 0) & (facts["gold"] != facts["predicted"])
    order = lowest(np.where(wrong, -facts["confidence"], np.nan))
    counted = (
        f"The model is wrong on {int(wrong.sum()):,} of {count_texts(int((facts['gold'] >= 0).sum()))} with a label."
    )
    for title in ("Wrong with the highest confidence", *["Wrong with the next highest confidence"] * (MAX_WRONG - 1)):
        yield ExampleReason(title, order, lambda _: counted, tuple(methods), least=1)


def lowest(values: Floats) -> list[int]:
    """Places by value, the lowest first and equal ones as they come; what is NaN is left out."""
    return [i for i in np.argsort(values, kind="stable").tolist() if not np.isnan(values[i])]


def _mean(values: Floats, digits: int = 2) -> str:
    known = values[~np.isnan(values)]
    return f"the mean over {count_texts(len(known))} is {number(float(known.mean()), digits)}"


def _fits(record: Record, place: int, reason: ExampleReason, used: set[tuple[str, str | None]]) -> bool:
    row = record.text_at(place)
    return bool(row.pieces) and text_key(row) not in used and len(read_text_row(row).words) >= reason.least


def _shown(record: Record, place: int, reason: ExampleReason) -> Shown:
    one = read_text_row(record.text_at(place))
    scored = {name: scores for name in reason.methods if (scores := one.scores(name)) is not None}
    content = list(one.view.content)
    tops = {name: float(np.abs(scores[content]).max(initial=0.0)) for name, (scores, _) in scored.items()}
    shown = canvas(one, [scores / (tops[name] or 1) for name, (scores, _) in scored.items()])
    colourings = tuple(
        Colouring(
            name, shown.coloured(scores, signed, tops[name]), reason.notes[name](place) if name in reason.notes else ""
        )
        for name, (scores, signed) in scored.items()
    )
    fewer = f" or of fewer than {reason.least} words" if reason.least > 1 else ""
    passed = "" if place == reason.order[0] else f" Texts shown above{fewer} are passed over."
    note = noted(one, reason.note(place) + passed)
    return replace(frame(record, one, reason.title), colourings=colourings, note=note)


# sentences


def _findings(record: Record, shown: Sequence[Shown]) -> Iterator[str]:
    n = len(record.texts)
    if not shown:
        yield f"None of {count_texts(n)} can be shown: nothing was measured by which one would stand out."
        return
    verb = "is" if len(shown) == 1 else "are"
    yield (
        f"{count_texts(len(shown))} of {n:,} {verb} shown: extremes, found by the rule above each and not by eye. They "
        "show what happens, not how often; the sections on each check say how often."
    )


def _reading(record: Record) -> str:
    label = explained(record)
    towards = "the predicted label" if label is None else f"“{label}”"
    return (
        f"Words are coloured by their scores, the strongest of a text in full colour: for {towards}, against it, or, "
        "where a method has no sign, by weight alone. So colours can be compared within one colouring, and not between "
        "methods, texts, or two attentions side by side. A word's score is the sum over its pieces. Special tokens "
        "are shown only where two attentions stand side by side and one of them is on them. In a network that "
        "attends to sentences, a sentence's weight stands at its last word. Of a text of more than "
        f"{MAX_WORDS_SHOWN} words the part is shown where scores are largest, with “{CUT}” for the rest."
    )


ADVERSARY_KINDS = ("exact", "found", "lower", "witness")  # of adversarial attention, the surer first


def farthest_attention(record: Record) -> Shown | None:
    """Of the attentions with which the label stays for certain, the one that is farthest from the model's own."""
    check = record.check_for("elsewhere")
    if check is None:
        return None
    best: tuple[float, float, str, Detail] | None = None
    findings = record.findings(check)
    for kind in ADVERSARY_KINDS:
        changes: dict[str, Floats] = {}
        for detail in record.details(check, f"jsd {kind}"):
            moved = changes.setdefault(str(detail.at), findings.values(f"change {kind}", at=detail.at))
            change = float(moved[place_of(record, detail.text)])
            farther = best is None or detail.value > best[0] + 1e-6
            if farther and _stays(record, detail, change):
                best = (detail.value, change, kind, detail)
    return None if best is None else _beside(record, best[2], best[3], best[1])


def _epsilon(record: Record) -> float:
    return float(record.settings(record.check_for("elsewhere") or "").get("epsilon", 0.05))


def _stays(record: Record, detail: Detail, change: float) -> bool:
    """Whether the output moves by ε at most and no label can change by that; and whether it can be shown by token."""
    row = record.text_at(place_of(record, detail.text))
    near = change <= _epsilon(record) + CHANGE_ROUNDING and detail.value > 0
    return near and len(detail.details["attention"][0]) == len(row.pieces) and keeps(row.probabilities, change)


def keeps(chances: Sequence[float] | None, change: float) -> bool:
    """Whether a change of the output by this TVD leaves every label as it is; a number has none to change."""
    if chances is None or len(chances) < 2:
        return True
    if exclusive(chances):  # each moves by the TVD at most
        first, second = sorted(chances, reverse=True)[:2]
        return first - second > 2 * change
    return min(abs(p - 0.5) for p in chances) > len(chances) * change  # the TVD is the mean over labels


def _beside(record: Record, kind: str, detail: Detail, change: float) -> Shown:
    one = read_text_row(record.text_at(place_of(record, detail.text)))
    weights = [np.mean(detail.details[name], 0) for name in ("attention", "adversarial")]
    scores = [one.summed(w) for w in weights]
    tops = [float(s.max()) for s in scores]
    epsilon = _epsilon(record)
    heads = len(detail.details["attention"])
    where = f" in head {detail.at['head']} of layer {detail.at['layer']}" if "head" in detail.at else ""
    rest = {
        "exact": f"no attention that moves the output by {epsilon:g} at most is farther away",
        "found": "the best of a search, so that a farther one may exist",
        "lower": "one that exists, and a farther one may",
        "witness": "a row with which its head reads nearly the same; a farther one may exist",
    }[kind]
    least = "at most " if kind in ("exact", "lower") else ""  # measured on two attentions, of which this is one
    shown = canvas(one, [s / top for s, top in zip(scores, tops, strict=True)], special=True)
    names = (f"attention{where}", f"another attention{where}")
    stays = ", and the label stays" if len(one.row.probabilities or ()) > 1 else ""
    notes = ("the model's own", f"the output moves by {least}{number(change)} (TVD){stays}")
    colourings = tuple(
        Colouring(name, shown.coloured(s, False, top), f"{note}; the largest weight is {number(top, 2)}")
        for name, s, top, note in zip(names, scores, tops, notes, strict=True)
    )
    several = f" Both are means over {heads} heads, as is the JSD." if heads > 1 else ""
    note = f"JSD {number(detail.value, 3)} of at most 0.693: {rest}.{several}"
    title = "The attention that changed most without a change of the answer"
    return replace(frame(record, one, title), colourings=colourings, beside=True, note=noted(one, note))
