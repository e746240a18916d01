"""The section on other attention with the same output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from heedful.audits.record import Record
from heedful.audits.summary import Row
from heedful.checks.tables import AdversarialTables
from heedful.core.arrays import Floats, Ints
from heedful.report.charts import Words, histogram, violins
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import and_list, cautious, count_texts, interval
from heedful.report.sections.attention_changes import peak_groups
from heedful.report.sections.parts import LAYERS, TEXTS_COLUMN, check_section, dot, dotted, own_check

CHECK = own_check(__name__)
MAX_JSD = 0.7  # just above ln 2, as in the tables of the check
BINS = np.linspace(0, MAX_JSD, 41)
OUTPUT_COLUMN = Column("output changes by", 2, "TVD, measured on the model")
BY_PEAK = "Attention on one word can change most. If even flat attention can change a lot, its shape means little."
SHORT = {"exact": "exact", "upper": "upper bound", "lower": "lower bound", "found": "found by search"}
KIND_TITLES = SHORT | {"upper": "upper bound of the distance", "lower": "lower bound of the distance"}


def section(record: Record) -> Section:
    """How different could attention be while the output changes by at most ε?"""
    findings = (*_sentences(record), *_witness_sentences(record))
    figures = (*jsd_histogram(record), *jsd_violins(record), *_witness_figures(record))
    tables = (*_farthest_table(record), *_witness_table(record), *_heads(record))
    return check_section(record, CHECK, findings, figures, tables)


# one query


def _sentences(record: Record) -> list[str]:
    """For networks with one query: the exact maximum or its two bounds, and the result of a search."""
    epsilon = record.settings(CHECK).get("epsilon")
    most = f"at most ε = {epsilon:g} (TVD)" if isinstance(epsilon, (int, float)) else "at most ε"
    sentences: list[str] = []
    exact, upper, lower, searched = (record.row(CHECK, f"jsd {name}") for name in KIND_TITLES)
    if exact:
        tvd = record.row(CHECK, "tvd exact")
        far = f", and {interval(tvd)} by TVD, at most 1" if tvd else ""
        sentences.append(
            f"The farthest attention that changes the output by {most} is {interval(exact)} away from the model's own "
            f"by JSD, at most 0.69{far}: exact maxima, mean over {count_texts(exact.n)}."
        )
    elif lower and upper:
        sentences.append(
            f"The farthest attention that changes the output by {most} is at least {interval(lower)} and at most "
            f"{interval(upper)} away from the model's own by JSD, at most 0.69 (means over {count_texts(lower.n)})."
        )
    if searched:
        result = f"{interval(searched)} (JSD, {count_texts(searched.n)})"
        sentences.append(f"The search of Jain & Wallace finds an attention at {result}.")
    row = exact or lower or searched
    if not row or not sentences:
        return []
    by_kind = {name: record.row(CHECK, f"change {name}") for name in ("exact", "lower", "found")}
    changes = and_list([f"{interval(change)} ({SHORT[name]})" for name, change in by_kind.items() if change])
    measured = [f"Measured on the model, these attentions change its output by {changes} (TVD)."] if changes else []
    return [cautious(sentences[0], row.n), *sentences[1:], *measured]


def jsd_histogram(record: Record) -> tuple[Figure, ...]:
    """How far attention could be: the maximum, or bounds of it, and what the search finds."""
    findings = record.findings(CHECK)
    rows = {name: row for name in KIND_TITLES if (row := record.row(CHECK, f"jsd {name}"))}
    series = {KIND_TITLES[name]: counted(findings.values(f"jsd {name}")) for name in rows}
    if not series:
        return ()
    title = "How different attention could be with the same output"
    marked = next(name for name in KIND_TITLES if name in rows)
    means = "; ".join(
        f"{KIND_TITLES[name]}: mean {interval(row)} over {count_texts(row.n)}" for name, row in rows.items()
    )
    caption = "JSD is at most ln 2 = 0.69. The line is a mean over texts."
    words = Words(f"{CHECK}-jsd", title, "JSD from the model's attention", "texts", f"{means}.", caption)
    return (histogram(words, series, {f"mean, {SHORT[marked]}": rows[marked].mean}),)


def counted(values: Floats) -> tuple[Floats, Ints]:
    """Edges and counts, over the bins of the check's tables."""
    return BINS, np.histogram(np.clip(values[np.isfinite(values)], 0, MAX_JSD), BINS)[0].astype(np.int64)


def jsd_violins(record: Record) -> tuple[Figure, ...]:
    """Of the maximum, exact or from below; and of what the search finds, as Jain & Wallace 2019 show it."""
    tables = record.tables(CHECK, AdversarialTables) or AdversarialTables()
    kinds = {"exact": tables.exact, "lower": tables.lower, "found": tables.found}
    findings = record.findings(CHECK)
    figures = []
    for kind, histograms in kinds.items():
        ranges = sorted({(group.start, group.end) for table in histograms if not table.at for group in table.groups})
        if not ranges or not record.row(CHECK, f"jsd {kind}"):
            continue
        # the table has no range without texts; no text lies at the end of its last range, unless that end is 1
        groups = peak_groups(record, findings.values(f"jsd {kind}"), findings.values("max attention"), ranges)
        title = f"The farthest attention by the largest weight ({KIND_TITLES[kind]})"
        axes = ("JSD from the model's attention", "largest weight of attention")
        words = Words(f"{CHECK}-{kind}-by-max-attention", title, *axes, caption=BY_PEAK)
        figures.append(violins(words, groups, (0.0, MAX_JSD)))
    return tuple(figures)


def _farthest_table(record: Record) -> tuple[Table, ...]:
    rows = [
        (
            KIND_TITLES[name],
            jsd.n,
            interval(jsd),
            *(_interval(record, f"{other} {name}") for other in ("tvd", "change")),
        )
        for name in KIND_TITLES
        if (jsd := record.row(CHECK, f"jsd {name}"))
    ]
    columns = (
        Column("attention"),
        TEXTS_COLUMN,
        Column("JSD", 2, "from the model's attention, at most 0.69"),
        Column("TVD", 2, "from the model's attention, at most 1"),
        OUTPUT_COLUMN,
    )
    title = "The farthest attention with the same output"
    caption = "Means over texts with 95 % intervals; the change is the larger of those of the maxima by JSD and by TVD."
    return (Table(f"{CHECK}-farthest", title, columns, tuple(rows), caption),) if rows else ()


def _interval(record: Record, measure: str, at: Mapping[str, Any] | None = None) -> str | None:
    row = record.row(CHECK, measure, at=at)
    return interval(row) if row else None


# heads of a Transformer


def _witnesses(record: Record) -> list[tuple[Row, Row | None, Row | None]]:
    """For each layer and δ, the farthest of the heads' witnesses: its TVD, its JSD, and the change of the output."""
    rows = [row for row in record.rows(CHECK, "tvd any head") if row.known]
    jsd, change = ([record.row(CHECK, f"{name} any head", at=row.at) for row in rows] for name in ("jsd", "change"))
    return list(zip(rows, jsd, change, strict=True))


def _witness_sentences(record: Record) -> list[str]:
    last = max((row.at["layer"] for row, _, _ in _witnesses(record)), default=None)
    sentences: list[str] = []
    for tvd, jsd, change in _witnesses(record):
        delta, layer = tvd.at["delta"], tvd.at["layer"]
        if layer != last:
            continue
        preserves = "exactly (δ = 0)" if delta == 0 else f"within δ = {delta:g} of its size"
        sentence = (
            f"In layer {layer}, a row of attention that is {interval(tvd)} away from the head's own (TVD; JSD "
            f"{interval(jsd)}) preserves the head's output {preserves}; the model's output then changes by "
            f"{interval(change)} (TVD; the farthest head, means over {count_texts(tvd.n)})."
        )
        sentences.append(sentence if sentences else cautious(sentence, tvd.n))
    return sentences


def _witness_name(at: Mapping[str, Any]) -> str:
    return f"layer {at['layer']}, δ = {at['delta']:g}"


def _witness_figures(record: Record) -> tuple[Figure, ...]:
    rows = _witnesses(record)
    if not rows:
        return ()
    findings, known = record.findings(CHECK), [jsd for _, jsd, _ in rows if jsd is not None]
    series = {_witness_name(jsd.at): counted(findings.values("jsd any head", at=jsd.at)) for jsd in known}
    title = "Witnesses: other rows that preserve the output of a head"
    means = "; ".join(f"{_witness_name(jsd.at)}: mean {interval(jsd)}" for jsd in known)
    caption = "On each text, the head with the farthest witness by TVD. A witness is not a maximum."
    words = Words(f"{CHECK}-witnesses", title, "JSD from the head's own attention", "texts", f"{means}.", caption)
    marks = Words(f"{CHECK}-witness-tvd", "The farthest witness of the heads", "TVD from the head's own attention")
    return (histogram(words, series), *dotted(marks, [dot(_witness_name(tvd.at), tvd) for tvd, _, _ in rows], zero=0.0))


def _witness_table(record: Record) -> tuple[Table, ...]:
    rows = tuple(
        (_witness_name(tvd.at), tvd.n, interval(tvd), interval(jsd), interval(change))
        for tvd, jsd, change in _witnesses(record)
    )
    columns = (
        Column("layer and tolerance"),
        TEXTS_COLUMN,
        Column("TVD", 2, "from the head's attention"),
        Column("JSD", 2, "of the same row"),
        OUTPUT_COLUMN,
    )
    caption = f"Means over texts with 95 % intervals, of the head whose witness is farthest on the text. {LAYERS}"
    return (Table(f"{CHECK}-any-head", "The farthest witness", columns, rows, caption),) if rows else ()


def _heads(record: Record) -> tuple[Table, ...]:
    rows = []
    for row in record.rows(CHECK, "jsd witness"):
        at = row.at
        bound, change = (_interval(record, measure, at) for measure in ("jsd bound", "change witness"))
        null = _interval(record, "null dimension", {name: at[name] for name in ("layer", "head")})
        name = f"layer {at['layer']} head {at['head']}, δ = {at['delta']:g}"
        rows.append((name, row.n, interval(row), bound, change, null))
    columns = (
        Column("head"),
        TEXTS_COLUMN,
        Column("JSD", 2, "of the witness from the head's attention"),
        Column("at most", 2, "upper bound of the JSD of rows that preserve the head's output within δ"),
        OUTPUT_COLUMN,
        Column("null dimension", 1, "directions that preserve the head's output"),
    )
    caption = "Means over texts with 95 % intervals. Layers and heads are counted from 0."
    return (Table(f"{CHECK}-heads", "Witnesses by head", columns, tuple(rows), caption),) if rows else ()
