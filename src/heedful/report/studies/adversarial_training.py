"""The section on adversarial training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heedful.report.charts import PlottedCurve, Words, lines
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import Cell, cautious, count_texts, interval, number
from heedful.report.studies import plotted, study_section
from heedful.report.studies.retraining import OVER_TEXTS
from heedful.studies.outcome import Outcome

BASE, UNIFORM, PER_TEXT = "base", "uniform attention", "Jain & Wallace's adversary"

DISTANCES = {
    "f1": Column("F1"),
    "tvd": Column("TVD", 2, "of the prediction, from the base model's"),
    "jsd": Column("JSD", 2, "of attention, from the base model's; at most 0.69"),
}
LABELS = {
    "accuracy": Column("accuracy"),
    "flip": Column("label changes", 2, "share of texts with another label than the base model's"),
}


def sections(outcome: Outcome) -> list[Section]:
    """The curve, then every network."""
    return [
        study_section(
            outcome,
            tuple(_sentences(outcome)),
            figures=(_curve(outcome),),
            tables=(
                _table(outcome, "networks", "Adversaries and comparisons", DISTANCES),
                _table(outcome, "labels", "Their labels", LABELS),
                _dev_table(outcome),
            ),
        )
    ]


def _adversaries(outcome: Outcome) -> list[str]:
    return list(outcome.result.details["dev"])


def _seeds(outcome: Outcome) -> list[str]:
    return list(outcome.result.details["seeds"])


def _sentences(outcome: Outcome) -> list[str]:
    sentences: list[str] = []
    known = {name: outcome.result.row("jsd", name, OVER_TEXTS) for name in _adversaries(outcome)}
    ranked = sorted((row.mean, name) for name, row in known.items() if row is not None)
    for _, name in dict.fromkeys([*ranked[:1], *ranked[-1:]]):
        jsd, tvd = known[name], outcome.result.row("tvd", name, OVER_TEXTS)
        assert jsd is not None
        far = "farthest from" if name == ranked[-1][1] else "nearest to"
        sentence = (
            f"The adversary {far} the base model's attention ({name}) is {interval(jsd)} away (JSD, at most 0.69) and "
            f"changes the prediction by {interval(tvd)} (TVD; {count_texts(jsd.n)})."
        )
        sentences.append(sentence if sentences else cautious(sentence, jsd.n))
    baseline = [
        (outcome.result.row("jsd", n, OVER_TEXTS), outcome.result.row("tvd", n, OVER_TEXTS)) for n in _seeds(outcome)
    ]
    pairs = [(jsd.mean, tvd.mean) for jsd, tvd in baseline if jsd is not None and tvd is not None]
    if pairs:
        jsd_mean, tvd_mean = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
        seeds = f"{len(pairs)} seeds" if len(pairs) > 1 else "one seed"
        sentences.append(f"Another seed alone: JSD {number(jsd_mean)}, TVD {number(tvd_mean)} (mean of {seeds}).")
    return sentences


def _curve(outcome: Outcome) -> Figure:
    """Test TVD against JSD of attention; seeds, uniform attention and the adversary of each text as points."""
    curves = [plotted(curve) for curve in outcome.result.curves_of("tvd")]
    groups = {"other seeds": _seeds(outcome), "uniform": [UNIFORM], "Jain & Wallace": [PER_TEXT]}
    points = [_points(outcome, label, names) for label, names in groups.items()]
    words = Words(
        "adversarial-training-curve",
        "Change of the prediction against distance of attention",
        "mean JSD from the base model's attention",
        "mean TVD from its predictions",
        caption="Each point of the curve is an adversary with another λ, trained for all texts; Jain & Wallace's "
        "adversary changes each text by itself. The band is the 95 % interval of TVD over texts.",
    )
    shown = [*curves, *(curve for curve in points if curve.x)]
    return lines(words, shown, (0.0, max(y for curve in shown for y in curve.mean)))


def _points(outcome: Outcome, label: str, names: Sequence[str]) -> PlottedCurve:
    rows = [(outcome.result.row("jsd", n, OVER_TEXTS), outcome.result.row("tvd", n, OVER_TEXTS)) for n in names]
    known = [(jsd.mean, tvd.mean) for jsd, tvd in rows if jsd is not None and tvd is not None]
    return PlottedCurve(label, [x for x, _ in known], [y for _, y in known], joined=False)


def _table(outcome: Outcome, name: str, title: str, columns: Mapping[str, Column]) -> Table:
    """These measures of every network."""
    rows: list[tuple[Cell, ...]] = []
    for network in (BASE, *_adversaries(outcome), *_seeds(outcome), UNIFORM, PER_TEXT):
        found = [outcome.result.row(measure, network, OVER_TEXTS) for measure in columns]
        if any(found):
            rows.append((network, *(interval(row) for row in found)))
    n = max((row.n for row in outcome.result.rows), default=0)
    caption = f"On {count_texts(n)} of test, with 95 % intervals over texts."
    return Table(f"adversarial-training-{name}", title, (Column("network"), *columns.values()), tuple(rows), caption)


def _dev_table(outcome: Outcome) -> Table:
    dev = outcome.result.details["dev"]
    rows = tuple(
        (name, scores["tvd"], scores["kl"], scores["jsd"], -scores["negative loss"]) for name, scores in dev.items()
    )
    columns = (Column("adversary"), Column("TVD", 3), Column("KL", 3), Column("JSD", 3), Column("loss", 4))
    caption = "At the epoch that was kept, which has the lowest loss on these texts."
    return Table("adversarial-training-dev", "On dev texts", columns, rows, caption)
