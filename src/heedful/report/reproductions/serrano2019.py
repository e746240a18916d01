"""The sections of Serrano & Smith 2019: flips two by two, all networks in one figure, and the weights of one item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from heedful.audits.record import load_record
from heedful.audits.summary import Row
from heedful.checks.tables import NegativeShare, Stops
from heedful.core.decode import decode
from heedful.core.finding import FRACTION
from heedful.report.charts import Box, Words, boxes
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import Cell, interval, number, percent, slug
from heedful.report.sections.erasure import FLIP_COLUMNS, WHISKERS, delta_scatter, two_by_two
from heedful.studies.outcome import Outcome

ATTENTION, ASCENDING = "attention", "attention-ascending"
CELLS = ("both", "only i*", "only r", "neither")


def sections(outcome: Outcome) -> list[Section]:
    """Decisions, the importance of sets of items, and that of one item."""
    return [_flips(outcome), _sets(outcome), _single(outcome)] if outcome.result.details.get("networks") else []


def _flips(outcome: Outcome) -> Section:
    """Table 2 for every network and for the top item of each ranking, published beside ours."""
    rows: list[tuple[Cell, ...]] = []
    published: dict[tuple[str, str], dict[str, float]] = {}
    for p in (c.published for c in outcome.result.comparisons):
        published.setdefault((p.data, p.row), {})[p.column] = p.value
    for (data, network), cells in published.items():
        rows += two_by_two((data, f"{network}, published", ATTENTION, None), [cells.get(cell) for cell in CELLS])
    for flips in outcome.result.details["flips"]:
        if flips["cells"]:
            first = (flips["data"], flips["network"], flips["order"], flips["texts"])
            rows += two_by_two(first, [flips["cells"][cell] for cell in CELLS])
    columns = (Column("data"), Column("network"), Column("i* by"), Column("texts", 0), *FLIP_COLUMNS)
    caption = "Two rows for each network: four cells that add up to 100 %. Means over trainings."
    title = "Does the decision flip without i*, and without r? In percent of texts"
    return Section(
        "decision-flips",
        "Decision flips",
        "How often does the decision flip without the top item, and without a random other?",
        tuple(_flip_sentence(f) for f in outcome.result.details["flips"] if f["order"] == ATTENTION and f["cells"]),
        tables=(Table("decision-flips", title, columns, tuple(rows), caption),),
        reading="i* is the top item: the highest attention, gradient, or product of both. r is any other item.",
    )


def _flip_sentence(flips: Mapping[str, Any]) -> str:
    cells = flips["cells"]
    top, other = cells["both"] + cells["only i*"], cells["both"] + cells["only r"]
    numbers = f"{number(top, 1)} % of decisions flip without i*, {number(other, 1)} % without r"
    return f"{flips['data']}, {flips['network']}: {numbers}, {number(cells['neither'], 1)} % by neither."


def _sets(outcome: Outcome) -> Section:
    """All networks and data in one figure; their numbers in one table."""
    every = [(entry, decode(Stops, entry["stops"])) for entry in outcome.result.details["boxes"]]
    entries = [(entry, s) for entry, s in every if s.n + s.never]
    several = len({entry["data"] for entry, _ in entries}) > 1
    drawn = [
        Box(
            f"{entry['data']} {entry['network']}" if several else entry["network"],
            *(s.low, s.lower, s.median, s.upper, s.high),
            note=f"never {percent(s.never_share)}",
            n=s.n,
            outliers=tuple(entry["outliers"]),
            series=entry["order"],
        )
        for entry, s in entries
    ]
    caption = (
        f"{WHISKERS}, over texts and trainings where the decision flips; at the right, the share where it never does. "
        "For random, each text has the mean over those of its orders that flip it."
    )
    title = "Fraction of items removed when the decision first flips, by ranking"
    rows = tuple(
        (e["data"], e["network"], e["order"], s.n, s.median, s.lower, s.upper, s.outliers, s.never_share)
        for e, s in entries
    )
    columns = (
        Column("data"),
        Column("network"),
        Column("ranking"),
        Column("n", 0, "texts × trainings that flip"),
        *(Column(name) for name in ("median", "lower quartile", "upper quartile")),
        Column("outliers", 0),
        Column("never", 2, "share of texts × trainings that never flip"),
    )
    return Section(
        "importance-sets",
        "Sets of items",
        "How many items must be removed until the decision flips?",
        _median_sentences(entries),
        figures=(boxes(Words("importance-sets", title, "fraction removed", caption=caption), drawn, FRACTION),),
        tables=(Table("importance-sets", "Fractions removed", columns, rows), _needed_table(outcome)),
        reading="Read a box together with the share that never flips: a ranking that flips only easy texts has a low "
        "box. In the second table every text counts.",
    )


def _median_sentences(entries: list[tuple[Mapping[str, Any], Stops]]) -> tuple[str, ...]:
    places = dict.fromkeys((entry["data"], entry["network"]) for entry, s in entries if s.n)
    return tuple(
        f"{data}, {network}, median fraction: "
        + ", ".join(f"{e['order']} {number(s.median, 2)}" for e, s in entries if (e["data"], e["network"]) == place)
        + "."
        for place in places
        for data, network in [place]
    )


def _needed_table(outcome: Outcome) -> Table:
    orders = {row.method: None for row in outcome.result.rows if row.measure == "needed"}
    names = {"attention-slope": "gradient", "attention-x-slope": "attention × gradient"}
    cells = {(*_place(row), row.method): interval(row) for row in outcome.result.rows if row.measure == "needed"}
    places = dict.fromkeys(place[:2] for place in cells)
    columns = (Column("data"), Column("network"), *(Column(names.get(order, order)) for order in orders))
    rows = tuple((*place, *(cells[(*place, order)] for order in orders)) for place in places)
    caption = "Means over texts of means over trainings, with 95 % intervals over texts."
    return Table("needed", "Fractions removed, 1 where the decision never flips", columns, rows, caption)


def _single(outcome: Outcome) -> Section:
    """ΔJS, how often it is negative, the first weight against the second, and attention's distance from uniform."""
    shares = outcome.result.details["negative"]
    findings = tuple(
        f"{s['data']}, {s['network']}: ΔJS is negative on {percent(s['share'])} of {s['n']:,} texts × trainings."
        for s in shares
        if s["n"]
    )
    return Section(
        "one-weight",
        "One weight",
        "Does the item with the most attention change the output most?",
        findings,
        figures=_scatters(outcome),
        tables=(_weights_table(outcome), *_negative_table(shares)),
        reading="ΔJS is above zero where erasing i* changes the output more than erasing the other item. KL is that of "
        "attention from uniform, KL(α ‖ u) = ln n − entropy, which grows with the number of items n.",
    )


def _weights_table(outcome: Outcome) -> Table:
    columns = {
        ("accuracy", ""): Column("accuracy"),
        ("delta js", ATTENTION): Column("ΔJS, i* − r"),
        ("delta js second", ATTENTION): Column("ΔJS, highest − second"),
        ("alpha second", ATTENTION): Column("α, highest − second"),
        ("delta js second", ASCENDING): Column("ΔJS, lowest − second lowest"),
        ("js from uniform", ATTENTION): Column("JS from uniform"),
        ("kl from uniform", ATTENTION): Column("KL from uniform"),
    }
    cells = {(*_place(row), row.measure, row.method): interval(row) for row in outcome.result.rows}
    places = dict.fromkeys(place[:2] for place in cells)
    rows = tuple((*place, *(cells.get((*place, *key)) for key in columns)) for place in places)
    caption = "Means over texts of means over trainings, with 95 % intervals over texts. Natural logarithms."
    heads = (Column("data"), Column("network"), *columns.values())
    return Table("one-weight", "The highest weight, the second, and uniform attention", heads, rows, caption)


def _negative_table(shares: list[Mapping[str, Any]]) -> tuple[Table, ...]:
    """The share of negative ΔJS by the difference of attention."""
    bins = {(s["data"], s["network"]): [decode(NegativeShare, row) for row in s["by"]] for s in shares}
    used = [i for i in range(len(next(iter(bins.values())))) if any(rows[i].n for rows in bins.values())]
    if not used:
        return ()
    first = next(iter(bins.values()))
    heads = [f"{number(first[i].start, 2)} to {number(first[i].end, 2)}" for i in used]
    rows = tuple(
        (*place, *(f"{percent(own[i].share)} of {own[i].n:,}" if own[i].n else None for i in used))
        for place, own in bins.items()
    )
    columns = (Column("data"), Column("network"), *(Column(head) for head in heads))
    title = "Share of negative ΔJS, by the attention of i* less that of r"
    return (Table("negative-delta", title, columns, rows, "Over texts × trainings."),)


def _scatters(outcome: Outcome) -> tuple[Figure, ...]:
    """ΔJS against the difference of attention, for the first training of each network."""
    if outcome.folder is None:
        return ()
    return tuple(
        replace(
            figure,
            name=slug(f"{n['data']} {n['network']} {figure.name}"),
            title=f"{n['data']}, {n['network']}: {figure.title}",
        )
        for n in outcome.result.details["networks"]
        for figure in delta_scatter(load_record(outcome.folder / outcome.result.parts[n["audit"]]))
    )


def _place(row: Row) -> tuple[str, str]:
    return str(row.at["data"]), str(row.at["network"])
