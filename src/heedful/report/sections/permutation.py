"""The section on shuffled attention."""

from __future__ import annotations

from heedful.audits.record import Record
from heedful.checks.tables import PermutationTables
from heedful.core.finding import EVERYWHERE
from heedful.report.charts import Words, violins
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import interval
from heedful.report.sections.attention_changes import (
    accuracy_figure,
    accuracy_sentence,
    change_sentence,
    peak_groups,
    places_table,
    spread_table,
)
from heedful.report.sections.parts import TEXTS_COLUMN, check_section, own_check

CHECK = own_check(__name__)
MAX_HEADS = 10  # heads that a table shows
EMPTY = PermutationTables((), ())


def section(record: Record) -> Section:
    """Does the output change when attention weights are randomly permuted?"""
    tables = record.tables(CHECK, PermutationTables) or EMPTY
    draws = record.settings(CHECK).get("draws")
    shuffles = f"{draws:,} shuffles" if isinstance(draws, int) else "shuffles"
    over = f", median over {shuffles} of each text"
    change = change_sentence(record, CHECK, "shuffling all attention", over, "of the shuffles")
    accuracy = accuracy_figure(CHECK, "Accuracy with attention shuffled", tables.accuracy)
    title, caption = "Change of the output by the largest weight", "Attention shuffled everywhere."
    peaks = spread_table(f"{CHECK}-peaks", title, ("largest weight", Column("median TVD")), tables.by_peak, caption)
    return check_section(
        record,
        CHECK,
        (change, accuracy_sentence(tables.accuracy)),
        (*change_violins(record), *accuracy),
        (*places_table(record, CHECK, tables.accuracy), *peaks, *_heads(record)),
    )


def change_violins(record: Record) -> tuple[Figure, ...]:
    """Jain & Wallace 2019, fig. 5."""
    by_peak = (record.tables(CHECK, PermutationTables) or EMPTY).by_peak
    ranges = sorted({(row.start, row.end) for row in by_peak})
    findings = record.findings(CHECK)
    groups = peak_groups(record, findings.values("tvd", at=EVERYWHERE), findings.values("max attention"), ranges)
    title = "Change of the output by the largest attention weight"
    axes = ("median TVD of the output", "largest weight of a word")
    caption = "Attention shuffled everywhere; median over shuffles of each text. Near 1, attention is on one word."
    words = Words(f"{CHECK}-by-max-attention", title, *axes, caption=caption)
    return (violins(words, groups, (0.0, 1.0)),) if groups else ()


def _heads(record: Record) -> tuple[Table, ...]:
    """The heads that matter most: by flips, a mean at any number of draws."""
    rows = [row for row in record.rows(CHECK, "flip") if row.at.get("head", "all") != "all" and row.known]
    first = sorted(rows, key=lambda row: -row.mean)[:MAX_HEADS]
    columns = (Column("layer", 0), Column("head", 0), TEXTS_COLUMN, Column("label changes", 2, "share of the shuffles"))
    cells = tuple((str(row.at["layer"]), str(row.at["head"]), row.n, interval(row)) for row in first)
    caption = (
        f"The {len(first)} of {len(rows)} heads whose shuffling changes the most labels, with separate 95 % intervals: "
        "the highest of many is partly high by chance. Layers and heads are counted from 0."
    )
    return (Table(f"{CHECK}-heads", "Heads shuffled one at a time", columns, cells, caption),) if cells else ()
