"""The section on identifiability: which other weights would give a layer the same output."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heedful.audits.record import Record
from heedful.checks.tables import IdentifiabilityTables, LayerNullSpaces, LengthNullSpaces
from heedful.maths.stats import Estimate
from heedful.report.charts import Words
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import cautious, count_texts, interval, number
from heedful.report.sections.parts import LAYERS, TEXTS_COLUMN, check_section, dot, dotted, own_check

CHECK = own_check(__name__)
EMPTY = IdentifiabilityTables((), (), 0, 0)


def section(record: Record) -> Section:
    """Which other weights would give a layer the same output?"""
    tables = record.tables(CHECK, IdentifiabilityTables) or EMPTY
    last = max(tables.by_layer, key=lambda row: (isinstance(row.layer, str), row.layer), default=None)
    null = [(_tokens(row), row.null_constrained) for row in tables.by_length]
    pooled = [(_tokens(row), row.correlation_pooled) for row in tables.by_length]
    findings = (_null_sentence(record, last), _correlation_sentence(last)) if last else ()
    figures = (
        *_lengths("null-constrained", "Directions in which attention can change, by length", "dimensions", null),
        *_lengths("correlation-pooled", "Effective attention against attention, by length", "Pearson's r", pooled),
    )
    evidence = (*_layers_table(tables.by_layer), *_farthest_table(record))
    return check_section(record, CHECK, (*findings, _farthest_sentence(record)), figures, evidence)


def _null_sentence(record: Record, last: LayerNullSpaces) -> str | None:
    if not last.null_constrained.known:
        return None
    findings = record.findings(CHECK)
    places = [row.at for row in record.rows(CHECK, "null constrained", layer=last.layer)]
    free = np.array([findings.values("null constrained", at=at) for at in places])
    known = np.isfinite(free).any(0)
    n, texts = int(known.sum()), int((free[:, known] > 0).any(0).sum())
    return cautious(
        f"In layer {last.layer} attention is not identifiable on {texts:,} of {count_texts(n)}: weights that sum to 1 "
        f"can change in {interval(last.null_constrained)} directions (mean over heads) without a change of the "
        "layer's output.",
        n,
    )


def _correlation_sentence(last: LayerNullSpaces) -> str | None:
    if not last.correlation_pooled.known:
        return None
    r, n = interval(last.correlation_pooled), count_texts(last.correlation_pooled.n)
    where = f"in layer {last.layer} (mean over heads and {n})"
    return f"Effective attention, the part that affects the output, has correlation r = {r} with attention {where}."


def _farthest_sentence(record: Record) -> str | None:
    rows = sorted((row for row in record.rows(CHECK, "farthest") if row.known), key=lambda row: row.mean)
    if not rows:
        return None
    if len(rows) == 1:
        bound = record.row(CHECK, "farthest bound", at=rows[0].at)
        most = f", and none is farther than {interval(bound)}" if bound else ""
        return f"The farthest attention found with the same output is {interval(rows[0])} away (TVD){most}."
    low, high = rows[0], rows[-1]
    return (
        f"The farthest attention found with the same output is from {interval(low)} (head {low.at['head']}) to "
        f"{interval(high)} (head {high.at['head']}) away (TVD), over the {len(rows)} heads of layer "
        f"{high.at['layer']}."
    )


def _lengths(name: str, title: str, axis: str, rows: Sequence[tuple[str, Estimate]]) -> tuple[Figure, ...]:
    caption = "Texts in four groups by length, mean over heads and layers, 95 % intervals."
    words = Words(f"{CHECK}-{name}", title, axis, caption=caption)
    return dotted(words, [dot(label, estimate) for label, estimate in rows if estimate.known], zero=0.0)


def _tokens(row: LengthNullSpaces) -> str:
    low, high = (number(x, 0) for x in (row.start, row.end))
    return f"{low} tokens" if low == high else f"{low}–{high} tokens"


def _layers_table(rows: Sequence[LayerNullSpaces]) -> tuple[Table, ...]:
    columns = (
        Column("layer"),
        Column("null space", 1, "dimension of the null space of T"),
        Column("with sums of one", 1, "the same for weights that sum to one"),
        Column("r, all queries", 2, "effective attention with attention"),
        Column("r, pooled", 2, "the same, of the pooled position's row"),
        Column("special tokens", 2, "attention on special tokens, mean over queries"),
    )
    measures = ("null", "null_constrained", "correlation", "correlation_pooled", "special_mass")
    cells = tuple((str(row.layer), *(interval(getattr(row, name)) for name in measures)) for row in rows)
    caption = f"Means over heads and texts with 95 % intervals. {LAYERS}"
    return (Table(f"{CHECK}-layers", "Null spaces by layer", columns, cells, caption),) if cells else ()


def _farthest_table(record: Record) -> tuple[Table, ...]:
    rows = [row for row in record.rows(CHECK, "farthest") if row.known]
    bounds = [interval(record.row(CHECK, "farthest bound", at=row.at)) for row in rows]
    cells = tuple(
        (f"layer {row.at['layer']} head {row.at.get('head', 0)}", row.n, interval(row), bound)
        for row, bound in zip(rows, bounds, strict=True)
    )
    columns = (
        Column("head"),
        TEXTS_COLUMN,
        Column("farthest found", 2, "TVD of the farthest attention found with the same output"),
        Column("at most", 2, "upper bound of that distance"),
    )
    title, caption = "The farthest attention with the same output", "Means over texts with 95 % intervals."
    return (Table(f"{CHECK}-farthest", title, columns, cells, caption),) if cells else ()
