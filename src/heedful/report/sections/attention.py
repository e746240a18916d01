"""Attention's sections: attention shuffled, and made uniform. What other attention could do is in `twins`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.audits.record import Record, Row
from heedful.maths.stats import MINIMUM
from heedful.report import telling
from heedful.report.charts import Group, Words, violins
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.sections.asking import Evidence, made
from heedful.report.telling import cautious, dot, dotted, interval, known, place_name, texts

Floats = NDArray[np.float64]
Range = tuple[float, float]
EVERYWHERE = {"layer": "all", "head": "all"}
LABELS = 4  # that can be told apart in one chart
HEADS = 10  # that a table shows
LAYERS = "Layers are counted from 0."


def permutation(record: Record) -> Section:
    """Does the answer change when attention weights are dealt out to other tokens?"""
    check = "permutation"
    draws = telling.settings(record, check).get("draws")
    drawn = f"{draws:,} shuffles" if isinstance(draws, int) else "shuffles"
    moved = _moved(record, check, "shuffling all attention", f", the median over {drawn} of a text", "of the shuffles")
    named = Words(
        f"{check}-accuracy", "Accuracy with attention shuffled", "accuracy", caption=f"95 % intervals. {LAYERS}"
    )
    return made(
        record,
        check,
        Evidence(
            (moved, accuracy_told(record, check)),
            (*_violins(record), *_accuracy(record, check, named)),
            (*_places(record, check), *_peaks(record), *_heads(record)),
        ),
    )


def uniform(record: Record) -> Section:
    """Does the answer change when attention is uniform, or sparse?"""
    check = "uniform"
    moved = _moved(record, check, "making all attention uniform", "", "of the texts")
    accuracy = Words(
        f"{check}-accuracy", "Accuracy with attention changed", "accuracy", caption=f"95 % intervals. {LAYERS}"
    )
    change = Words(
        f"{check}-change", "Change of the answer", "TVD of the answer", caption=f"Means, 95 % intervals. {LAYERS}"
    )
    rows = [row for row in record.rows(check, "tvd") if known(row)]
    return made(
        record,
        check,
        Evidence(
            (moved, accuracy_told(record, check), _distance_told(record)),
            (
                *_accuracy(record, check, accuracy),
                *dotted(change, [dot(place_name(row["at"]), row) for row in rows], zero=0.0),
                *_distances(record),
            ),
            _places(record, check),
        ),
    )


# how far the answer moves


def _moved(record: Record, check: str, what: str, over: str, share: str) -> str | None:
    tvd, flip = (telling.exactly(record, check, measure, "", EVERYWHERE) for measure in ("tvd", "flip"))
    if tvd is None or not known(tvd):
        return None
    flips = f", and changes the label in {interval(flip)} {share}" if known(flip) else ""
    return cautious(
        f"{telling.capital(what)} moves the answer by {interval(tvd)} (TVD{over}; mean over {texts(tvd['n'])}){flips}.",
        tvd["n"],
    )


def accuracy_told(record: Record, check: str) -> str | None:
    """How accuracy changes when attention is changed everywhere, if the data has labels."""
    rows = {place_name(row["at"]): row for row in record.table(check, "accuracy") or ()}
    plain, after = rows.get("as it is"), rows.get("everywhere")
    if plain is None or after is None or not known(plain) or not known(after["change"]):
        return None
    change = after["change"]
    said = f"from {interval(plain)} to {interval(after)}, a change of {interval(change)} ({texts(change['n'])})"
    if change["n"] < MINIMUM or not telling.exists(change["low"]):
        return cautious(f"Accuracy goes {said}.", change["n"])
    if change["low"] <= 0 <= change["high"]:
        return f"Accuracy goes {said}, which cannot be told from none."
    return f"Accuracy {'falls' if change['high'] < 0 else 'rises'} {said}."


def _distance_told(record: Record) -> str | None:
    rows = [row for row in record.table("uniform", "distance") or () if known(row)]
    if not rows:
        return None
    last = rows[-1]
    where = "The model's own attention" if len(rows) == 1 else f"The attention of {place_name(last['at'])}, the last,"
    return f"{where} is {interval(last)} away from uniform (TVD; 0 is uniform, {texts(last['n'])})."


# figures


def _accuracy(record: Record, check: str, words: Words) -> tuple[Figure, ...]:
    """As it is first, then everywhere, then by layer, then other activations."""
    rows = [row for row in record.table(check, "accuracy") or () if known(row)]
    order = {"as it is": 0, "everywhere": 1}
    ordered = sorted(rows, key=lambda row: (order.get(place_name(row["at"]), 2), "activation" in row["at"]))
    return dotted(words, [dot(place_name(row["at"]), row) for row in ordered]) if len(ordered) > 1 else ()


def _distances(record: Record) -> tuple[Figure, ...]:
    rows = [row for row in record.table("uniform", "distance") or () if known(row)]
    words = Words(
        "uniform-distance",
        "Distance of attention from uniform",
        "TVD from uniform",
        caption=f"Pooled attention, mean over heads; 95 % intervals. {LAYERS}",
    )
    return dotted(words, [dot(place_name(row["at"]), row) for row in rows], zero=0.0) if len(rows) > 1 else ()


def peak_groups(record: Record, values: Floats, peaks: Floats, ranges: Sequence[Range]) -> list[Group]:
    """Values by the largest weight of the text's attention, and by predicted label where labels are few."""
    predicted = record.facts["predicted"][: len(values)]
    labels = list(enumerate(record.labels)) if len(record.labels) <= LABELS else [(None, "")]
    top = max((high for _, high in ranges), default=1.0)
    groups = [
        Group(range_name(low, high), values[inside & there], label)
        for low, high in ranges
        for i, label in labels
        for there in [np.isfinite(values) & ((predicted == i) if i is not None else True)]
        for inside in [(peaks >= low) & ((peaks < high) | (high == top))]
    ]
    return [group for group in groups if len(group.values)]


def range_name(low: float, high: float) -> str:
    """0.25–0.5."""
    return f"{low:g}–{high:g}"


def _violins(record: Record) -> tuple[Figure, ...]:
    """Jain & Wallace 2019, fig. 5."""
    rows = record.table("permutation", "by max attention") or ()
    ranges = sorted({(row["from"], row["to"]) for row in rows})
    found = record.found("permutation")
    groups = peak_groups(record, found.values("tvd", at=EVERYWHERE), found.values("max attention"), ranges)
    if not groups:
        return ()
    title = "Change of the answer by the largest weight of attention"
    words = Words(
        "permutation-by-max-attention",
        title,
        "median TVD of the answer",
        "largest weight of a word",
        caption="Each text is its median over shuffles, everywhere. A largest weight near 1 is attention on one word.",
    )
    return (violins(words, groups, (0.0, 1.0)),)


# tables


def _places(record: Record, check: str) -> tuple[Table, ...]:
    """Every layer and every activation, with accuracy where there are labels."""
    accuracy = {place_name(row["at"]): row for row in record.table(check, "accuracy") or ()}
    places = [row for row in record.rows(check, "tvd") if row["at"].get("head", "all") == "all"]
    plain = accuracy.get("as it is")
    before = (("as it is", plain["n"], None, None, None, interval(plain), None),) if known(plain) and plain else ()
    after = tuple(_place(record, check, row, accuracy.get(place_name(row["at"]))) for row in places)
    columns = (
        Column("attention"),
        Column("n", 0, "texts"),
        Column("TVD", 2, "total variation distance of the answer"),
        Column("JSD", 2, "Jensen–Shannon divergence of the answer, at most 0.69"),
        Column("label changes", 2, "share of the texts, or of the shuffles of each"),
        Column("accuracy"),
        Column("change of accuracy", 2, "text by text"),
    )
    caption = f"Means over texts with 95 % intervals. {LAYERS}"
    return (
        (Table(f"{check}-places", "Where attention is changed", columns, (*before, *after), caption),) if after else ()
    )


def _place(record: Record, check: str, tvd: Row, accuracy: Mapping[str, Any] | None) -> tuple[str | int | None, ...]:
    others = [telling.exactly(record, check, measure, "", tvd["at"]) for measure in ("jsd", "flip")]
    right = (accuracy, accuracy["change"]) if accuracy else (None, None)
    cells = (interval(row) if known(row) else None for row in (tvd, *others, *right))
    return (place_name(tvd["at"]), tvd["n"], *cells)


def _peaks(record: Record) -> tuple[Table, ...]:
    rows = [row for row in record.table("permutation", "by max attention") or () if row["n"]]
    columns = (
        Column("largest weight"),
        Column("predicted"),
        Column("n", 0, "texts"),
        Column("median TVD"),
        Column("lower quartile"),
        Column("upper quartile"),
    )
    cells = tuple(
        (range_name(row["from"], row["to"]), row["label"], row["n"], row["median"], *row["quartiles"]) for row in rows
    )
    title = "Change of the answer by the largest weight"
    return (Table("permutation-peaks", title, columns, cells, "Attention shuffled everywhere."),) if cells else ()


def _heads(record: Record) -> tuple[Table, ...]:
    """The heads that matter most: by flips, a mean at any number of draws."""
    rows = [r for r in record.rows("permutation", "flip") if r["at"].get("head", "all") != "all" and known(r)]
    first = sorted(rows, key=lambda row: -row["mean"])[:HEADS]
    columns = (
        Column("layer", 0),
        Column("head", 0),
        Column("n", 0, "texts"),
        Column("label changes", 2, "share of the shuffles"),
    )
    cells = tuple((str(row["at"]["layer"]), str(row["at"]["head"]), row["n"], interval(row)) for row in first)
    caption = (
        f"The {len(first)} of {len(rows)} heads whose shuffling changes the most labels, with 95 % intervals of each "
        "by itself: the first of many is high by chance too. Layers and heads are counted from 0."
    )
    return (Table("permutation-heads", "Heads shuffled one at a time", columns, cells, caption),) if cells else ()
