"""Removing: the section on words that are taken out of the text, highest score first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heedful.audits.record import Record, Row
from heedful.report import telling
from heedful.report.charts import Line, Words, lines
from heedful.report.document import Figure, Section, Table
from heedful.report.sections.asking import Asked, Evidence, made, methods_table
from heedful.report.telling import ATTENTION, BOUNDS, CONTROLS, exactly, interval, known, number

SHARE = 0.2
BEST = 5  # methods on a chart, beside attention
MAIN = "aopc comprehensiveness"


def input_erasure(record: Record) -> Section:
    """Do the words that an explanation puts first carry the prediction?"""
    ways = list(dict.fromkeys(row["at"]["masking"] for row in record.rows("input-erasure", MAIN)))
    return made(
        record,
        "input-erasure",
        Evidence(
            (
                *(sentence for way in ways for sentence in _way_told(record, way)),
                *(telling.capital(warning) + "." for warning in record.table("input-erasure", "warnings") or ()),
            ),
            tuple(figure for way in ways for figure in (*_curves(record, way), *_aopc(record, way))),
            tuple(table for way in ways for table in _way_table(record, way)),
        ),
    )


def _main(record: Record, way: str) -> list[Row]:
    return [row for row in record.rows("input-erasure", MAIN, masking=way) if row["method"] not in BOUNDS]


def _way_told(record: Record, way: str) -> list[str | None]:
    phrase = f"fall of the label's probability without a method's first words (AOPC comprehensiveness, {way})"
    rows = _main(record, way)
    whole = exactly(record, "input-erasure", "tvd without words", "", {"masking": way})
    all_gone = f"Without any word ({way}) the answer moves by {interval(whole)} (TVD)." if known(whole) else None
    return [telling.spread(phrase, rows), telling.beside_random(rows), all_gone]


def _texts_of_curve(record: Record, way: str) -> dict[str, int]:
    """Over how many texts each curve is; the fewest of its points."""
    counts: dict[str, int] = {}
    for row in record.rows("input-erasure", "curve", masking=way):
        counts[row["method"]] = min(row["n"], counts.get(row["method"], row["n"]))
    return counts


def _curves(record: Record, way: str) -> tuple[Figure, ...]:
    table = (record.table("input-erasure", "curves") or {}).get(way, {})
    counts = _texts_of_curve(record, way)
    most = max(counts.values(), default=0)
    names = sorted(table, key=lambda name: (name in BOUNDS, name in CONTROLS, np.mean(table[name]["mean"])))
    every = [_line(name, table[name], counts.get(name, most), most) for name in names]
    if not every:
        return ()
    made = [line for name, line in zip(names, every, strict=True) if name in _drawn(names)]
    title = f"The label's probability as words go ({way})"
    said = "; ".join(f"{line.label} {number(_at_share(line), 2)}" for line in every)
    left = f" Drawn are the {BEST} lowest, attention and random; the words below have all." if made != every else ""
    words = Words(
        f"input-erasure-curves-{telling.slug(way)}",
        title,
        "fraction of words gone, highest first",
        "probability of the label",
        f"with a fifth of the words gone: {said}.",
        "Mean over texts with a 95 % band; lower is better. Faint lines are controls and bounds. Greedy takes at each "
        "step the word that lowers the probability most, on short texts only: an n in brackets is of that line alone."
        + left,
    )
    return (lines(words, made, (0.0, 1.0)) if _within(made) else lines(words, made),)


def _drawn(names: Sequence[str]) -> list[str]:
    """Of many methods, lowest first, those whose lines can be told apart on one chart."""
    if len(names) <= BEST + 3:
        return list(names)
    methods = [name for name in names if name not in (*CONTROLS, *BOUNDS)]
    return [*methods[:BEST], ATTENTION, "random", "greedy"]


def _within(some: Sequence[Line]) -> bool:
    """Whether all are probabilities: a model that gives a number has other limits."""
    return all(0 <= x <= 1 for line in some for x in line.mean)


def _at_share(line: Line) -> float:
    return float(np.interp(SHARE, line.x, line.mean))


def _line(name: str, row: Mapping[str, Any], n: int, most: int) -> Line:
    low, high = ([x if telling.exists(x) else np.nan for x in row[end]] for end in ("low", "high"))
    label = name if n == most else f"{name} (n = {n:,})"
    return Line(label, row["removed"], row["mean"], low, high, faint=name in (*CONTROLS, *BOUNDS))


def _aopc(record: Record, way: str) -> tuple[Figure, ...]:
    words = Words(
        f"input-erasure-aopc-{telling.slug(way)}",
        f"AOPC comprehensiveness ({way})",
        "fall of the label's probability, mean over shares",
        caption="Higher is better. 95 % intervals over texts.",
    )
    return telling.by_method(words, _main(record, way))


def _way_table(record: Record, way: str) -> tuple[Table, ...]:
    at = {"masking": way}
    asked = (
        Asked("comprehensiveness", MAIN, at),
        Asked("sufficiency", "aopc sufficiency", at),
        Asked(f"compr. at {SHARE:g}", "comprehensiveness", at | {"share": SHARE}),
        Asked(f"suff. at {SHARE:g}", "sufficiency", at | {"share": SHARE}),
        Asked("deletion", "deletion", at),
        Asked("insertion", "insertion", at),
        Asked("first flip", "first flip", at),
        Asked("never", "never", at),
    )
    title = f"Words taken away ({way}); comprehensiveness and sufficiency are AOPC, the mean over shares"
    return methods_table(record, "input-erasure", (f"input-erasure-{telling.slug(way)}", title), asked)
