"""The section on uniform attention."""

from __future__ import annotations

from collections.abc import Sequence

from heedful.audits.record import Record
from heedful.checks.tables import PlacedEstimate, UniformTables
from heedful.report.charts import Words
from heedful.report.document import Figure, Section
from heedful.report.phrases import count_texts, interval, place_name
from heedful.report.sections.attention_changes import accuracy_figure, accuracy_sentence, change_sentence, places_table
from heedful.report.sections.parts import LAYERS, check_section, dot, dotted, own_check

CHECK = own_check(__name__)
EMPTY = UniformTables((), ())


def section(record: Record) -> Section:
    """Does the output change when attention is uniform, or sparse?"""
    tables = record.tables(CHECK, UniformTables) or EMPTY
    distance = [row for row in tables.distance if row.known]
    caption = f"Means, 95 % intervals. {LAYERS}"
    change = Words(f"{CHECK}-change", "Change of the output", "TVD of the output", caption=caption)
    sentence = change_sentence(record, CHECK, "making all attention uniform", "", "of the texts")
    findings = (sentence, accuracy_sentence(tables.accuracy), _distance_sentence(distance))
    figures = (
        *accuracy_figure(CHECK, "Accuracy with attention changed", tables.accuracy),
        *dotted(change, [dot(place_name(row.at), row) for row in record.rows(CHECK, "tvd") if row.known], zero=0.0),
        *_distances(distance),
    )
    return check_section(record, CHECK, findings, figures, places_table(record, CHECK, tables.accuracy))


def _distance_sentence(rows: Sequence[PlacedEstimate]) -> str | None:
    if not rows:
        return None
    last = rows[-1]
    where = "The model's own attention" if len(rows) == 1 else f"The attention of {place_name(last.at)}, the last,"
    return f"{where} is {interval(last)} away from uniform (TVD; 0 is uniform, {count_texts(last.n)})."


def _distances(rows: Sequence[PlacedEstimate]) -> tuple[Figure, ...]:
    caption = f"Pooled attention, mean over heads; 95 % intervals. {LAYERS}"
    words = Words(f"{CHECK}-distance", "Distance of attention from uniform", "TVD from uniform", caption=caption)
    return dotted(words, [dot(place_name(row.at), row) for row in rows], zero=0.0) if len(rows) > 1 else ()
