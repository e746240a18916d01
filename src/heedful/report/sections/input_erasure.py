"""The section on removing words from the text, highest score first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from heedful.audits.ranking import BOUNDS
from heedful.audits.record import Record
from heedful.audits.summary import Row
from heedful.checks.tables import Curve, InputErasureTables
from heedful.report.charts import PlottedCurve, Words, lines
from heedful.report.document import Figure, Section, Table
from heedful.report.phrases import interval, number, slug
from heedful.report.sections.parts import (
    CONTROLS,
    VERDICT_METHOD,
    MethodColumn,
    by_method,
    check_section,
    extremes,
    methods_table,
    own_check,
    tally_methods,
)

CHECK = own_check(__name__)
EMPTY = InputErasureTables({}, {}, (), {})
SHARE = 0.2  # share of the words, for the columns at one share
MAX_CURVES = 5  # methods on a chart, besides attention
SAME_ORDER = 0.8  # Kendall's τ below which two maskings give different orders of methods
MAIN_MEASURE = "aopc comprehensiveness"


def section(record: Record) -> Section:
    """Does the prediction depend on the top words of an explanation?"""
    tables = record.tables(CHECK, InputErasureTables) or EMPTY
    maskings = list(dict.fromkeys(str(row.at["masking"]) for row in record.rows(CHECK, MAIN_MEASURE)))
    findings = [sentence for masking in maskings for sentence in _sentences(record, masking)]
    findings += [
        f"The ranking of methods depends on the masking: τ = {number(row.tau, 2)} between {row.a} and {row.b}."
        for row in tables.agreement
        if row.tau < SAME_ORDER
    ]
    figures = [(*_curves(record, masking, tables), *_comprehensiveness(record, masking)) for masking in maskings]
    evidence = [table for masking in maskings for table in _methods(record, masking)]
    return check_section(record, CHECK, findings, chain.from_iterable(figures), evidence)


def _main(record: Record, masking: str) -> list[Row]:
    return [row for row in record.rows(CHECK, MAIN_MEASURE, masking=masking) if row.method not in BOUNDS]


def _sentences(record: Record, masking: str) -> list[str | None]:
    phrase = f"drop of the label's probability without a method's top words (AOPC comprehensiveness, {masking})"
    rows = _main(record, masking)
    whole = record.row(CHECK, "tvd without words", at={"masking": masking})
    without = f"Removing all words ({masking}) changes the output by {interval(whole)} (TVD)." if whole else None
    return [extremes(phrase, rows), tally_methods(rows), without]


def _texts_of_curves(record: Record, masking: str) -> dict[str, int]:
    """The number of texts of each curve: the fewest of its points."""
    counts: dict[str, int] = {}
    for row in record.rows(CHECK, "curve", masking=masking):
        counts[row.method] = min(row.n, counts.get(row.method, row.n))
    return counts


def _curves(record: Record, masking: str, tables: InputErasureTables) -> tuple[Figure, ...]:
    curves = tables.curves.get(masking, {})
    counts = _texts_of_curves(record, masking)
    most = max(counts.values(), default=0)
    names = sorted(curves, key=lambda name: (name in BOUNDS, name in CONTROLS, np.mean(curves[name].mean)))
    every = [_line(name, curves[name], counts.get(name, most), most) for name in names]
    if not every:
        return ()
    drawn = [line for name, line in zip(names, every, strict=True) if name in _drawn(names)]
    at_share = "; ".join(f"{line.label} {number(float(np.interp(SHARE, line.x, line.mean)), 2)}" for line in every)
    rest = f" Only the {MAX_CURVES} lowest, attention and random are drawn; the numbers below include all."
    words = Words(
        f"{CHECK}-curves-{slug(masking)}",
        f"The label's probability as words are removed ({masking})",
        "fraction of words removed, highest first",
        "probability of the label",
        f"with 20 % of the words removed: {at_share}.",
        "Mean over texts with a 95 % band; lower is better. Faint lines are controls and bounds. Greedy removes at "
        "each step the word that lowers the probability most, on short texts only. An n in brackets holds for that "
        "line alone." + (rest if drawn != every else ""),
    )
    # a curve of a regression model is not a probability and has other limits
    within = all(0 <= x <= 1 for line in drawn for x in line.mean)
    return (lines(words, drawn, (0.0, 1.0) if within else None),)


def _drawn(names: Sequence[str]) -> list[str]:
    """The methods on a chart: of many, the lowest."""
    if len(names) <= MAX_CURVES + 3:
        return list(names)
    methods = [name for name in names if name not in (*CONTROLS, *BOUNDS)]
    return [*methods[:MAX_CURVES], VERDICT_METHOD, "random", "greedy"]


def _line(name: str, curve: Curve, n: int, most: int) -> PlottedCurve:
    label = name if n == most else f"{name} (n = {n:,})"
    return PlottedCurve(label, curve.removed, curve.mean, curve.low, curve.high, faint=name in (*CONTROLS, *BOUNDS))


def _comprehensiveness(record: Record, masking: str) -> tuple[Figure, ...]:
    axis, caption = "drop of the label's probability, mean over shares", "Higher is better. 95 % intervals over texts."
    words = Words(f"{CHECK}-aopc-{slug(masking)}", f"AOPC comprehensiveness ({masking})", axis, caption=caption)
    return by_method(words, _main(record, masking))


def _methods(record: Record, masking: str) -> tuple[Table, ...]:
    at = {"masking": masking}
    columns = (
        MethodColumn("comprehensiveness", MAIN_MEASURE, at),
        MethodColumn("sufficiency", "aopc sufficiency", at),
        MethodColumn(f"compr. at {SHARE:g}", "comprehensiveness", at | {"share": SHARE}),
        MethodColumn(f"suff. at {SHARE:g}", "sufficiency", at | {"share": SHARE}),
        *(MethodColumn(name, name, at) for name in ("deletion", "insertion", "first flip", "never")),
    )
    title = f"Words removed ({masking}); comprehensiveness and sufficiency are AOPC, the mean over shares"
    return methods_table(record, CHECK, f"{CHECK}-{slug(masking)}", title, columns)
