"""The section on other seeds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from heedful.audits.summary import Row
from heedful.core.arrays import Floats
from heedful.report.charts import Group, PlottedCurve, Words, lines, violins
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import cautious, count_texts, interval, range_name
from heedful.report.studies import study_section
from heedful.report.studies.retraining import difference_table, score_table
from heedful.studies.outcome import Outcome

OTHERS, BASE, ADVERSARY = "other seeds", "base", "Jain & Wallace's adversary"
MAX_LABELS = 3  # that a chart separates
MAX_JSD = 0.7  # just above ln 2
EDGES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the largest weight


def sections(outcome: Outcome) -> list[Section]:
    """All texts together, by their largest weight, and seed by seed."""
    return [
        study_section(
            outcome,
            tuple(_sentences(outcome)),
            figures=(_violins(outcome), _plane(outcome)),
            tables=(
                _table(outcome),
                _by_peak(outcome),
                *difference_table(outcome),
                score_table(outcome, (BASE, OTHERS), "network", "Scores on test texts"),
            ),
        )
    ]


def _seeds(outcome: Outcome) -> list[str]:
    return list(dict.fromkeys(r.method for r in outcome.rows("jsd") if r.method.startswith("seed ")))


def _sentences(outcome: Outcome) -> list[str]:
    jsd, tvd, flip = (outcome.result.row(measure, OTHERS) for measure in ("jsd", "tvd", "flip"))
    if jsd is None:
        return []
    sentences = [
        cautious(
            f"The attention of another seed is {interval(jsd)} away (JSD, at most 0.69; median of "
            f"{len(_seeds(outcome))} seeds, mean over {count_texts(jsd.n)}); the prediction changes by {interval(tvd)} "
            f"(TVD), and the label on a share of {interval(flip)} of the texts.",
            jsd.n,
        )
    ]
    found = outcome.result.row("jsd", ADVERSARY)
    if found is not None:
        change = interval(outcome.result.row("tvd", ADVERSARY))
        sentences.append(
            f"{ADVERSARY} of each text is {interval(found)} away, and changes the prediction by {change} (at most ε = "
            f"{outcome.result.details['epsilon']:g})."
        )
    return sentences


def _violins(outcome: Outcome) -> Figure:
    """Texts by the largest weight of the base model's attention, and by predicted label."""
    details = outcome.result.details
    columns = {name: np.array(values, dtype=np.float64) for name, values in details["texts"].items()}
    labels: list[tuple[int | None, str]] = list(enumerate(details["labels"]))
    if len(labels) > MAX_LABELS:
        labels = [(None, "")]
    kinds = {"seeds": "jsd", "adversary": "adversary jsd"}
    groups = []
    for low, high in pairwise(EDGES):
        inside = (columns["peak"] >= low) & ((columns["peak"] < high) | (high == EDGES[-1]))
        for kind, column in kinds.items():
            for i, label in labels if column in columns else []:
                chosen = inside & ((columns["predicted"] == i) if i is not None else True)
                series = f"{kind}, {label}" if label else kind
                groups.append(Group(range_name(low, high), columns[column][chosen], series))
    words = Words(
        "seeds-violins",
        "Distance of attention, by the largest weight and the predicted label",
        "JSD from the base network's attention",
        "largest weight",
        caption=f"Seeds: of each text the median over seeds. Adversary: {ADVERSARY}, the farthest it finds.",
    )
    return violins(words, [group for group in groups if _finite(group.values)], (0.0, MAX_JSD))


def _finite(values: Floats) -> bool:
    return bool(np.isfinite(values).any())


def _plane(outcome: Outcome) -> Figure:
    """Each seed and the adversary as a point."""
    seeds = [(outcome.result.row("jsd", name), outcome.result.row("tvd", name)) for name in _seeds(outcome)]
    points = [_points("each seed", seeds)]
    points.append(
        _points("Jain & Wallace", [(outcome.result.row("jsd", ADVERSARY), outcome.result.row("tvd", ADVERSARY))])
    )
    words = Words(
        "seeds-plane",
        "Change of the prediction against distance of attention",
        "mean JSD from the base network's attention",
        "mean TVD from its predictions",
    )
    shown = [curve for curve in points if curve.x]
    return lines(words, shown, (0.0, max(y for curve in shown for y in curve.mean)))


def _points(name: str, pairs: Sequence[tuple[Row | None, Row | None]]) -> PlottedCurve:
    known = [(a.mean, b.mean) for a, b in pairs if a is not None and b is not None]
    return PlottedCurve(name, [x for x, _ in known], [y for _, y in known], joined=False)


def _table(outcome: Outcome) -> Table:
    rows = []
    for name in (OTHERS, *_seeds(outcome), ADVERSARY):
        jsd, tvd = outcome.result.row("jsd", name), outcome.result.row("tvd", name)
        if jsd is not None:
            rows.append((name, jsd.n, interval(jsd), jsd.median, interval(tvd)))
    columns = (
        Column("network"),
        Column("n", 0, "texts"),
        Column("JSD", 2, "of attention, at most 0.69; of other seeds the median of each text"),
        Column("median JSD", 2, "over texts"),
        Column("TVD", 2, "of the prediction; of other seeds the mean of each text"),
    )
    caption = "Means over texts with 95 % intervals."
    return Table("seeds-distances", "Distance from the base network", columns, tuple(rows), caption)


def _by_peak(outcome: Outcome) -> Table:
    """The same by predicted label and largest weight."""
    places = {tuple(sorted(row.at.items())): row.at for row in outcome.rows("jsd", OTHERS) if "from" in row.at}
    rows = []
    for at in places.values():
        seeds, adversary = (outcome.result.row("jsd", name, at) for name in (OTHERS, ADVERSARY))
        if seeds is not None:
            name = range_name(float(at["from"]), float(at["to"]))
            rows.append((str(at["label"]), name, seeds.n, interval(seeds), interval(adversary)))
    columns = (
        Column("predicted label"),
        Column("largest weight"),
        Column("n", 0, "texts"),
        Column("JSD of other seeds"),
        Column("JSD of the adversary"),
    )
    return Table("seeds-by-peak", "By the largest weight of the base network's attention", columns, tuple(rows))
