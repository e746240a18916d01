"""Examples: the most extreme texts of a run by fixed rules, with their words coloured by methods' scores."""

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

MAX_EXAMPLES = 8
MAX_WRONG = 3  # wrong predictions among the examples
MIN_WORDS = 5  # words of a text, below which their order means little
FIFTH = 0.2  # share of the words that is removed
PROBABILITY_ROUNDING = 1e-6
CHANGE_ROUNDING = 1e-4


@dataclass(frozen=True)
class ExampleReason:
    """Why texts are shown: `order` has their places in the run, the most extreme first."""

    title: str
    order: Sequence[int]
    note: Callable[[int], str]
    methods: tuple[str, ...]
    notes: Mapping[str, Callable[[int], str]] = field(default_factory=dict)  # below a method's colouring
    least: int = MIN_WORDS  # words of a text


def example_section(record: Record) -> Section:
    """The most extreme texts of a run; none twice."""
    methods = sorted(preferred(explaining(record)), key=lambda name: name != VERDICT_METHOD)
    first = farthest_attention(record)
    examples = [] if first is None else [first]
    used = {text_key(record.text_at(place_of(record, example.text))) for example in examples}
    reasons = (_agreement, _erasure, _shuffled, _wrong)
    for reason in chain.from_iterable(find(record, methods) for find in reasons):
        half = reason.order[: -(-len(reason.order) // 2)]  # the other half is not extreme
        place = next((i for i in half if _fits(record, i, reason, used)), None)
        if place is not None and len(examples) < MAX_EXAMPLES:
            used.add(text_key(record.text_at(place)))
            examples.append(_example(record, place, reason))
    return Section(
        name="examples",
        title="Single texts",
        question="What do the results look like in single texts?",
        findings=tuple(_findings(record, examples)),
        examples=tuple(examples),
        reading=_reading(record),
        source="Jain & Wallace 2019" if first is not None else "",
    )


# which texts


def _agreement(record: Record, methods: Sequence[str]) -> Iterator[ExampleReason]:
    other, check = _other_method(methods, LOO), record.check_for("points")
    if other is None or check is None:
        return
    findings = record.findings(check)
    taus = findings.values("tau", VERDICT_METHOD, {"with": other})
    if np.isnan(taus).all():  # a pair of methods is stored under the name that comes first
        taus = findings.values("tau", other, {"with": VERDICT_METHOD})

    def note(i: int) -> str:
        return f"Kendall's τ of the two rankings is {number(taus[i], 2)}; {_mean(taus)}."

    coloured = tuple(dict.fromkeys((VERDICT_METHOD, other, *methods)))[:3]
    yield ExampleReason(f"Attention and {other} disagree most", lowest(taus), note, coloured)
    yield ExampleReason(f"Attention and {other} agree most", lowest(-taus), note, coloured)


def _other_method(methods: Sequence[str], first: str) -> str | None:
    """A method to compare attention with, `first` if the run has it; None without attention or without another."""
    others = [name for name in (first, *methods) if name in methods and name != VERDICT_METHOD]
    return others[0] if others and VERDICT_METHOD in methods else None


def _erasure(record: Record, methods: Sequence[str]) -> Iterator[ExampleReason]:
    """Where attention's top words matter least, compared with those of a method that queries the model."""
    other, check = _other_method(methods, "integrated-gradients"), record.check_for("matters")
    if other is None or check is None:
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
            f"The top 20 % of the words of each method are removed ({at['masking']}). Of {of}, the output changes more "
            f"without the words of {other} on {more:,}, and without those of attention on {less:,}."
        )

    def change(name: str) -> Callable[[int], str]:
        ends = {1.0: ", and the label changes", 0.0: ", and the label stays the same"}
        return lambda i: (
            f"without its top 20 % of the words the output changes by {number(tvd[name][i], 3)} (TVD)"
            + ends.get(float(flips[name][i]), "")
        )

    notes = {name: change(name) for name in tvd}
    title = f"The top words of {other} matter more than those of attention"
    yield ExampleReason(title, order, note, (VERDICT_METHOD, other), notes)


def _flips(record: Record, falls: Floats) -> Floats:
    """1 where the label certainly changes, 0 where it certainly stays, NaN where the drop does not decide it.

    A probability below 1/c is not the highest of c; one above ½ is.
    """
    flips = np.full(len(falls), np.nan)
    if explained(record) is not None:
        return flips  # the drop is that of another label than the predicted one
    for i, chances in enumerate(record.texts.column("probabilities").to_pylist()):
        if exclusive(chances):
            remaining = max(chances) - falls[i]
            if remaining < 1 / len(chances) - PROBABILITY_ROUNDING:
                flips[i] = 1
            elif remaining > 0.5 + PROBABILITY_ROUNDING:
                flips[i] = 0
    return flips


def _shuffled(record: Record, methods: Sequence[str]) -> Iterator[ExampleReason]:
    check = record.check_for("used")
    if check is None:
        return
    tvd = record.findings(check).values("tvd", at=EVERYWHERE)

    def note(i: int) -> str:
        return f"Shuffling attention changes the output by {number(tvd[i], 3)} (median TVD); {_mean(tvd, 3)}."

    yield ExampleReason("Shuffled attention changes the output most", lowest(-tvd), note, tuple(methods))
    yield ExampleReason("Shuffled attention changes the output least", lowest(tvd), note, tuple(methods))


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
    """Places by value, the lowest first, equal ones in order; NaN is left out."""
    return [i for i in np.argsort(values, kind="stable").tolist() if not np.isnan(values[i])]


def _mean(values: Floats, digits: int = 2) -> str:
    known = values[~np.isnan(values)]
    return f"the mean over {count_texts(len(known))} is {number(float(known.mean()), digits)}"


def _fits(record: Record, place: int, reason: ExampleReason, used: set[tuple[str, str | None]]) -> bool:
    row = record.text_at(place)
    return bool(row.pieces) and text_key(row) not in used and len(read_text_row(row).words) >= reason.least


def _example(record: Record, place: int, reason: ExampleReason) -> Shown:
    text = read_text_row(record.text_at(place))
    scored = {name: scores for name in reason.methods if (scores := text.scores(name)) is not None}
    content = list(text.view.content)
    tops = {name: float(np.abs(scores[content]).max(initial=0.0)) for name, (scores, _) in scored.items()}
    words = canvas(text, [scores / (tops[name] or 1) for name, (scores, _) in scored.items()])
    notes = {name: reason.notes[name](place) if name in reason.notes else "" for name in scored}
    colourings = tuple(
        Colouring(name, words.coloured(scores, signed, tops[name]), notes[name])
        for name, (scores, signed) in scored.items()
    )
    short = f" and texts of fewer than {reason.least} words" if reason.least > 1 else ""
    skipped = "" if place == reason.order[0] else f" Texts shown above{short} are skipped."
    note = noted(text, reason.note(place) + skipped)
    return replace(frame(record, text, reason.title), colourings=colourings, note=note)


# sentences


def _findings(record: Record, examples: Sequence[Shown]) -> Iterator[str]:
    n = len(record.texts)
    if not examples:
        yield f"None of {count_texts(n)} is shown: the run has no measure by which to select one."
        return
    verb = "is" if len(examples) == 1 else "are"
    yield (
        f"{count_texts(len(examples))} of {n:,} {verb} shown: the most extreme by the rule in each title. They show "
        "what happens, not how often; the sections on the checks show how often."
    )


def _reading(record: Record) -> str:
    label = explained(record)
    towards = "the predicted label" if label is None else f"“{label}”"
    return (
        f"Words are coloured by their scores, the strongest of a text in full colour: supporting {towards}, opposing "
        "it, or, for unsigned methods, by strength alone. Colours can be compared within one colouring, not between "
        "methods, texts, or two attentions side by side. A word's score is the sum over its pieces. Special tokens "
        "are shown only where two attentions are compared and one of them is on a special token. In a network that "
        "attends to sentences, a sentence's weight is shown at its last word. Of a text of more than "
        f"{MAX_WORDS_SHOWN} words only the part with the largest scores is shown, with “{CUT}” for the rest."
    )


ADVERSARY_KINDS = ("exact", "found", "lower", "witness")  # of adversarial attention, the strongest evidence first


def farthest_attention(record: Record) -> Shown | None:
    """Of the attentions with which the label certainly stays, the one farthest from the model's own."""
    check = record.check_for("elsewhere")
    if check is None:
        return None
    best: tuple[float, float, str, Detail] | None = None
    findings = record.findings(check)
    for kind in ADVERSARY_KINDS:
        changes: dict[str, Floats] = {}
        for detail in record.details(check, f"jsd {kind}"):
            by_text = changes.setdefault(str(detail.at), findings.values(f"change {kind}", at=detail.at))
            change = float(by_text[place_of(record, detail.text)])
            farther = best is None or detail.value > best[0] + 1e-6
            if farther and _stays(record, detail, change):
                best = (detail.value, change, kind, detail)
    return None if best is None else _beside(record, best[2], best[3], best[1])


def _epsilon(record: Record) -> float:
    return float(record.settings(record.check_for("elsewhere") or "").get("epsilon", 0.05))


def _stays(record: Record, detail: Detail, change: float) -> bool:
    """Whether the output changes by at most ε, which cannot change a label, and attention can be shown by token."""
    row = record.text_at(place_of(record, detail.text))
    near = change <= _epsilon(record) + CHANGE_ROUNDING and detail.value > 0
    return near and len(detail.details["attention"][0]) == len(row.pieces) and keeps(row.probabilities, change)


def keeps(chances: Sequence[float] | None, change: float) -> bool:
    """Whether a change of the output by this TVD cannot change a label; a regression model has none."""
    if chances is None or len(chances) < 2:
        return True
    if exclusive(chances):  # each probability changes by at most the TVD
        first, second = sorted(chances, reverse=True)[:2]
        return first - second > 2 * change
    return min(abs(p - 0.5) for p in chances) > len(chances) * change  # the TVD is the mean over labels


def _beside(record: Record, kind: str, detail: Detail, change: float) -> Shown:
    text = read_text_row(record.text_at(place_of(record, detail.text)))
    scores = [text.summed(np.mean(detail.details[name], 0)) for name in ("attention", "adversarial")]
    tops = [float(s.max()) for s in scores]
    epsilon = _epsilon(record)
    heads = len(detail.details["attention"])
    where = f" in head {detail.at['head']} of layer {detail.at['layer']}" if "head" in detail.at else ""
    rest = {
        "exact": f"no attention that changes the output by at most {epsilon:g} is farther away",
        "found": "the best result of a search; a farther one may exist",
        "lower": "a lower bound; a farther one may exist",
        "witness": "a row that nearly preserves the head's output; a farther one may exist",
    }[kind]
    most = "at most " if kind in ("exact", "lower") else ""  # measured on two attentions, of which this is one
    words = canvas(text, [s / top for s, top in zip(scores, tops, strict=True)], special=True)
    names = (f"attention{where}", f"another attention{where}")
    stays = ", and the label stays the same" if len(text.row.probabilities or ()) > 1 else ""
    notes = ("the model's own", f"the output changes by {most}{number(change)} (TVD){stays}")
    colourings = tuple(
        Colouring(name, words.coloured(s, False, top), f"{note}; the largest weight is {number(top, 2)}")
        for name, s, top, note in zip(names, scores, tops, notes, strict=True)
    )
    several = f" Both are means over {heads} heads, as is the JSD." if heads > 1 else ""
    note = f"JSD {number(detail.value, 3)} of at most 0.693: {rest}.{several}"
    title = "The most different attention with the same output"
    return replace(frame(record, text, title), colourings=colourings, beside=True, note=noted(text, note))
