"""Side by side: a text's attention, and the most different one that gives the same answer (Jain & Wallace 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from heedful.audits.record import Detail, Record
from heedful.report.coloured_text import canvas, exclusive, frame, noted, place_of, read, row_at
from heedful.report.document import Colouring, Shown
from heedful.report.telling import number, settings

Floats = NDArray[np.float64]
ADVERSARIAL = ("jsd exact", "jsd found", "jsd lower", "jsd witness")  # the surer first
ROUNDING = 1e-4


def farthest(record: Record) -> Shown | None:
    """Of the attentions with which the label stays for certain, the one that is farthest from the model's own."""
    if "adversarial" not in record.checks:
        return None
    best: tuple[float, float, str, Detail] | None = None
    found = record.found("adversarial")
    for measure in ADVERSARIAL:
        changes: dict[str, Floats] = {}
        for detail in record.details("adversarial", measure):
            name = f"change {measure.split()[1]}"
            moved = changes.setdefault(str(detail.at), found.values(name, at=detail.at))
            change = float(moved[place_of(record, detail.text)])
            farther = best is None or detail.value > best[0] + 1e-6
            if farther and _stays(record, detail, change):
                best = (detail.value, change, measure, detail)
    return None if best is None else _beside(record, best[2], best[3], best[1])


def _epsilon(record: Record) -> float:
    return float(settings(record, "adversarial").get("epsilon", 0.05))


def _stays(record: Record, detail: Detail, change: float) -> bool:
    """Whether the output moves by ε at most and no label can change by that; and whether it can be shown by token."""
    row = row_at(record, place_of(record, detail.text))
    near = change <= _epsilon(record) + ROUNDING and detail.value > 0
    return near and len(detail.details["attention"][0]) == len(row["pieces"]) and keeps(row["probabilities"], change)


def keeps(chances: Sequence[float] | None, change: float) -> bool:
    """Whether a change of the output by this TVD leaves every label as it is; a number has none to change."""
    if chances is None or len(chances) < 2:
        return True
    if exclusive(chances):  # each moves by the TVD at most
        first, second = sorted(chances, reverse=True)[:2]
        return first - second > 2 * change
    return min(abs(p - 0.5) for p in chances) > len(chances) * change  # the TVD is the mean over labels


def _beside(record: Record, measure: str, detail: Detail, change: float) -> Shown:
    one = read(row_at(record, place_of(record, detail.text)))
    weights = [np.mean(detail.details[name], 0) for name in ("attention", "adversarial")]
    scores = [one.summed(w) for w in weights]
    tops = [float(s.max()) for s in scores]
    sort, epsilon = measure.split()[1], _epsilon(record)
    heads = len(detail.details["attention"])
    where = f" in head {detail.at['head']} of layer {detail.at['layer']}" if "head" in detail.at else ""
    kind = {
        "exact": f"no attention that moves the output by {epsilon:g} at most is farther away",
        "found": "the best of a search, so that a farther one may exist",
        "lower": "one that exists, and a farther one may",
        "witness": "a row with which its head reads nearly the same; a farther one may exist",
    }[sort]
    least = "at most " if sort in ("exact", "lower") else ""  # told of two attentions, of which this is one
    shown = canvas(one, [s / top for s, top in zip(scores, tops, strict=True)], special=True)
    names = (f"attention{where}", f"another attention{where}")
    stays = ", and the label stays" if len(one.row["probabilities"] or ()) > 1 else ""
    notes = ("the model's own", f"the output moves by {least}{number(change)} (TVD){stays}")
    colourings = tuple(
        Colouring(name, shown.coloured(s, False, top), f"{note}; the largest weight is {number(top, 2)}")
        for name, s, top, note in zip(names, scores, tops, notes, strict=True)
    )
    several = f" Both are means over {heads} heads, as is the JSD." if heads > 1 else ""
    note = f"JSD {number(detail.value, 3)} of at most 0.693: {kind}.{several}"
    title = "The attention that changed most without a change of the answer"
    return replace(frame(record, one, title), colourings=colourings, beside=True, note=noted(one, note))


__all__ = ["farthest"]
