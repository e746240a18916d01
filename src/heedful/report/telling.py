"""Telling: numbers of a summary as words, rows of tables and marks of a chart, alike in all sections.

Nothing is computed here that a summary has: a mean comes with the interval that stands beside it there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import floor, isfinite, log10
from typing import Any

from heedful.audits.record import Record, Row
from heedful.maths.stats import MINIMUM
from heedful.report.charts import Interval, Words, dots
from heedful.report.document import Figure
from heedful.report.saying import exists as exists
from heedful.report.saying import powers, said

CONTROLS = ("random", "uniform", "position")
BOUNDS = ("greedy", "optimum")
ATTENTION = "attention-mean"
COMPARABLE = 0.9  # of the texts that others have: a mean over fewer is one over other texts
FEW = 4  # names that a sentence can hold
MOST = 4  # digits
NOTES = {
    "higher than random": "higher",
    "lower than random": "lower",
    "higher than random: better": "better",
    "lower than random: better": "better",
    "higher than random: worse": "worse",
    "lower than random: worse": "worse",
    "cannot be told from random": "cannot tell",
    "too few texts": "too few texts",
}
SAID = ("better", "worse", "higher than random", "lower than random", "cannot be told from random")
BESIDE = "At the right: what may be said of it beside random."


# numbers


def known(row: Row | None) -> bool:
    """Whether a row has a mean."""
    return row is not None and exists(row["mean"])


def digits_for(*numbers: float | None) -> int:
    """So many that the largest has two figures at least: .36 -> 2, .081 -> 3, 12.3 -> 1, 250 -> 0; at most MOST."""
    size = max((abs(float(x)) for x in numbers if x is not None and isfinite(x)), default=0.0)
    if size == 0:
        return 2
    places = floor(log10(size))
    return min(MOST, 1 - places) if places < 0 else max(0, 2 - places)


def number(x: float | None, digits: int | None = None) -> str:
    """With a true minus sign and commas; a dash for none: −0.25, 1,024, 1.2e−7."""
    if x is None or not isfinite(x):
        return "–"
    if digits is None and 0 < abs(x) < 1e-3:
        return powers(x, ".1e")
    return said(x, digits_for(x) if digits is None else digits)


def interval(row: Row | None) -> str:
    """A mean with its limits, if it has any: 0.36 [0.30, 0.42]."""
    if row is None or not exists(row["mean"]):
        return "–"
    mean: float = row["mean"]
    low, high = row.get("low"), row.get("high")
    if low is None or high is None or not exists(low) or not exists(high):
        return number(mean)
    size = max(abs(x) for x in (mean, low, high))
    digits = None if 0 < size < 1e-3 else _telling_signs(low, high, digits_for(mean, low, high))
    return f"{number(mean, digits)} [{number(low, digits)}, {number(high, digits)}]"


def _telling_signs(low: float, high: float, digits: int) -> int:
    """More digits where a limit would be written as zero and is not: [−0.15, −0.004], and not [−0.15, 0.00]."""
    while digits < MOST and any(x != 0 and round(x, digits) == 0 for x in (low, high)):
        digits += 1
    return digits


def texts(n: int) -> str:
    """1 text, 1,024 texts."""
    return f"{n:,} text{'' if n == 1 else 's'}"


def cautious(sentence: str, n: int) -> str:
    """A sentence that says first if there are too few texts for it to decide anything."""
    return sentence if n >= MINIMUM else f"Too few texts to decide (n = {n}). {sentence}"


def listed(names: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def capital(sentence: str) -> str:
    """The first letter large."""
    return sentence[:1].upper() + sentence[1:]


def slug(name: str) -> str:
    """For a file's name: letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "x"


def place_name(at: Mapping[str, Any]) -> str:
    """Where something was changed: everywhere, layer 2, layer 2 head 0, δ = 0.05, delete 0.2."""
    if at.get("layer") == "none":
        return "as it is"
    if at.get("layer") == "all":
        return "everywhere"
    named = {"layer": "layer {}", "head": "head {}", "delta": "δ = {}", "activation": "{}"}
    parts = [
        named.get(name, "{}").format(at[name])
        for name in sorted(at, key=lambda name: (name not in ("layer", "head"), name != "layer", name))
        if not (name == "head" and at[name] == "all")
    ]
    return "sentences" if parts == ["layer sentence"] else " ".join(parts)


# rows


def first(rows: Sequence[Row]) -> Row | None:
    """The first row that has a number."""
    return next((row for row in rows if known(row)), None)


def exactly(record: Record, check: str, measure: str, method: str, at: Mapping[str, Any]) -> Row | None:
    """The row at this very place."""
    return next((row for row in record.rows(check, measure, method) if row["at"] == at), None)


def comparable(rows: Iterable[Row]) -> list[Row]:
    """Those with a mean over about as many texts as any has."""
    there = [row for row in rows if known(row)]
    most = max((row["n"] for row in there), default=0)
    return [row for row in there if row["n"] >= COMPARABLE * most]


def spread(phrase: str, rows: Sequence[Row]) -> str | None:
    """What a measure is from the lowest method to the highest, with attention and with chance."""
    there = comparable(rows)
    own = sorted((row for row in there if row["method"] not in (*CONTROLS, *BOUNDS)), key=lambda row: row["mean"])
    if not there:
        return None
    ends = own[:1] if not own or own[0]["mean"] == own[-1]["mean"] else [own[0], own[-1]]
    said = " to ".join(f"{interval(row)} ({_sharing(row, own)})" for row in ends)
    beside = [
        f"{row['method']} {interval(row)}"
        for row in there
        if row["method"] in (ATTENTION, "random") and row not in ends
    ]
    parts = [part for part in (said and (f"from {said}" if len(ends) > 1 else said), *beside) if part]
    low, high = (f(row["n"] for row in there) for f in (min, max))
    counted = texts(high) if low == high else f"{low:,} to {texts(high)}"
    return cautious(f"{capital(phrase)}: {'; '.join(parts)} ({counted}).", low)


def _sharing(end: Row, rows: Sequence[Row]) -> str:
    """A method, and how many more have its mean."""
    more = sum(row["mean"] == end["mean"] for row in rows) - 1
    return f"{end['method']} and {more} more" if more else str(end["method"])


def beside_random(rows: Sequence[Row]) -> str | None:
    """How many methods are better than chance, worse, or cannot be told from it."""
    own = [row for row in comparable(rows) if row.get("random") and row["method"] not in CONTROLS]
    groups: dict[str, list[str]] = {}
    for row in own:
        says = row["random"]["says"]
        groups.setdefault(says.split(": ")[-1], []).append(row["method"])
    few = groups.pop("too few texts", [])
    told = sorted(groups.items(), key=lambda pair: SAID.index(pair[0]) if pair[0] in SAID else len(SAID))
    said = [f"{_counted(names, len(own))} {_verb(says, len(names))}" for says, names in told]
    if not said:
        return None
    if few:
        said.append(f"{_counted(few, len(own))} cannot be decided with fewer than {MINIMUM} texts")
    return capital("; ".join(said)) + " (paired over texts, Holm-corrected, p ≤ .05)."


def _counted(names: Sequence[str], of: int) -> str:
    told = f" ({listed(names)})" if len(names) <= FEW else ""
    return f"{len(names)} of {of} method{'' if of == 1 else 's'}{told}"


def _verb(says: str, n: int) -> str:
    plain = {"better": "better than random", "worse": "worse than random"}.get(says, says)
    return plain if plain.startswith("cannot") else f"{'is' if n == 1 else 'are'} {plain}"


# marks of a chart


def series_of(method: str) -> str:
    """What a method is, for its colour."""
    return "controls" if method in CONTROLS else "bounds" if method in BOUNDS else "methods"


def dot(label: str, row: Row, series: str = "") -> Interval:
    """A mean with its limits as a mark."""
    low, high = (float(row[name]) if exists(row.get(name)) else None for name in ("low", "high"))
    says = (row.get("random") or {}).get("says", "")
    return Interval(label, float(row["mean"]), low, high, series, NOTES.get(says, says))


def dotted(words: Words, marks: Sequence[Interval], zero: float | None = None) -> tuple[Figure, ...]:
    """A chart of means with their limits; none without marks."""
    return (dots(words, marks, zero=zero),) if marks else ()


def by_method(words: Words, rows: Sequence[Row], lower: bool = False) -> tuple[Figure, ...]:
    """A mark for each method, the highest first (the lowest, if lower is better), then the controls.

    Those over other texts are left out. The line is where chance is, if it was measured, and else at zero.
    """
    ordered = sorted(comparable(rows), key=lambda row: (row["method"] in CONTROLS, row["mean"] * (1 if lower else -1)))
    chance = next((row["mean"] for row in ordered if row["method"] == "random"), None)
    line = "" if chance is None else "The line is random's mean."
    beside = BESIDE if any(row.get("random") for row in ordered) else ""
    full = replace(words, caption=" ".join(filter(None, (words.caption, line, beside))))
    marks = [dot(row["method"], row, series_of(row["method"])) for row in ordered]
    return dotted(full, marks, zero=chance or 0.0)


# what the run says of a check


def about(record: Record, check: str) -> Mapping[str, Any]:
    """What a check says of itself; nothing where the summary does not have it."""
    told: Mapping[str, Any] = record.summary["checks"].get(check, {}).get("about", {})
    return told


def settings(record: Record, check: str) -> Mapping[str, Any]:
    """The settings of a check in this run."""
    told: Mapping[str, Any] = record.run.manifest.settings.get("checks", {}).get(check, {})
    return told
