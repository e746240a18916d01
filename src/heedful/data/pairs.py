"""Pairs: parallel data, a source and its target in each row, read and divided as other data are.

A pair is an Example whose text is the source and whose label is the target, so equal sources are in one part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from heedful.core.errors import BadInput
from heedful.data.columns import GUESSED, Columns, resolve_pair
from heedful.data.division import Splits, splits
from heedful.data.example import Example
from heedful.data.examples import DataSource, selected, source_name, source_rows, text_value
from heedful.data.rows import Drop
from heedful.data.selection import EVERYTHING, Selection


def pair_splits(
    source: DataSource,
    columns: Columns = GUESSED,
    *,
    dev: DataSource | None = None,
    test: DataSource | None = None,
    kind: str | None = None,
    select: Selection = EVERYTHING,
) -> Splits:
    """Train, dev and test of parallel data: columns `source` and `target`, or those chosen as text and label.

    All else is as for `splits`; `select` may limit the words of the sources, and there are no labels to select.
    """
    _check_options(columns, select)
    return splits(source, columns, dev=dev, test=test, kind=kind, select=select, read=pair_items)


def load_pairs(
    source: DataSource, columns: Columns = GUESSED, *, kind: str | None = None, select: Selection = EVERYTHING
) -> list[Example]:
    """All pairs of one source, undivided."""
    _check_options(columns, select)
    return selected(pair_items(source, columns, kind), select, source_name(source))[0]


def _check_options(columns: Columns, select: Selection) -> None:
    """Refuse options that pairs have no use for."""
    for wrong, option in (
        (columns.pair, "--pair-column"),
        (select.labels, "--labels"),
        (select.rename, "--rename-labels"),
    ):
        if wrong:
            raise BadInput(f"{option} is for classifiers, and an encoder-decoder reads pairs; leave it out.")


def pair_items(source: DataSource, columns: Columns, kind: str | None) -> Iterator[Example | Drop]:
    """Every pair of a source, and every row that its reader drops."""
    header = replace(columns, text=columns.text or "source", label=columns.label or "target")
    empty = True
    for where, row in source_rows(source, header, kind):
        empty = False
        if isinstance(row, Drop):
            yield row
            continue
        # a list may have Examples or tuples; a file with texts and labels is most likely no parallel data
        at = resolve_pair(tuple(row), columns, where, labelled=not isinstance(source, (str, Path)))
        text, target = (
            text_value(row[column or ""], where, what) for column, what in ((at.text, "source"), (at.label, "target"))
        )
        yield Example(text, label=target, where=where)
    if empty:
        raise BadInput(f"{source_name(source)} has no pairs; give at least one.")
