"""The sections on adversarial keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

from heedful.audits.summary import Row
from heedful.maths.stats import Difference
from heedful.report.charts import Words, dots, lines
from heedful.report.charts.frame import figure
from heedful.report.charts.svg import CHART_WIDTH, LINE, element, write_line
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import (
    Cell,
    cautious,
    count_texts,
    fixed,
    format_number,
    interval,
    percentage,
    versus_random,
)
from heedful.report.sections.parts import dot
from heedful.report.studies import plotted, study_section
from heedful.studies.outcome import Outcome
from heedful.studies.reproduction.published import read_published

ORIGINAL = "original"
NAMES, GAP = 92.0, 12.0  # units, of a heat map: the column of tokens, and the space between two maps
FAINTEST = 0.02  # share of the largest weight below which a cell is left empty


def sections(outcome: Outcome) -> list[Section]:
    """All layers together, each layer, attention matrices, and the trainings."""
    main = study_section(
        outcome,
        tuple(_sentences(outcome)),
        figures=tuple(_accuracies(outcome) + _divergences(outcome)),
        tables=(_table_1(outcome), _predictions(outcome), _distances(outcome)),
    )
    return [main, *_each_layer(outcome), *_matrices(outcome), *_training(outcome), _numbers(outcome)]


def _row(outcome: Outcome, measure: str, method: str, edited: str | int = "all") -> Row | None:
    return outcome.result.row(measure, method, {"edited": "none" if method == ORIGINAL else edited})


def _methods(outcome: Outcome) -> list[str]:
    found = dict.fromkeys(row.method for row in outcome.rows("accuracy") if row.at["edited"] == "all")
    return list(found)


def _difference(outcome: Outcome, method: str, edited: str | int = "all") -> Difference | None:
    wanted = (d for d in outcome.result.differences if d.a == method and d.at == {"edited": edited})
    return next((d.difference for d in wanted), None)


# words


def _sentences(outcome: Outcome) -> list[str]:
    sentences = []
    for method in ("honest", "as-stated"):
        agreement, jsd, pooled = (_row(outcome, m, method) for m in ("agreement", "attention jsd", "pooled jsd"))
        if agreement is None or jsd is None or pooled is None:
            continue
        sentence = (
            f"With the keys of the {method} adversary in all layers, {percentage(agreement)} of predictions stay, "
            f"while the attention differs by a Jensen–Shannon divergence of {interval(jsd)} (at most {log(2):.2f}), "
            f"and that of the last layer's pooled rows by {interval(pooled)}; {count_texts(agreement.n)}."
        )
        sentences.append(cautious(sentence, agreement.n))
    raw, centred = (_row(outcome, m, "as-stated") for m in ("key distance", "centred key distance"))
    if raw is not None and centred is not None and raw.mean > 0:
        sentences.append(
            f"The keys of the as-stated adversary are {fixed(raw.mean, 0)} away from the model's own, and "
            f"{fixed(centred.mean, 0)} after centring: {fixed(100 * (1 - (centred.mean / raw.mean) ** 2), 0)} % of the "
            "squared distance is a shift, which no softmax sees."
        )
    sentences += _permuted(outcome)
    return sentences


def _permuted(outcome: Outcome) -> list[str]:
    own, all_layers = _row(outcome, "accuracy", ORIGINAL), _row(outcome, "accuracy", "permuted")
    if own is None or all_layers is None:
        return []
    each = [r for r in outcome.rows("accuracy", "permuted") if r.at["edited"] != "all"]
    sentence = f"With permuted keys in all layers the accuracy is {interval(all_layers)}, and {interval(own)} without"
    if each:
        ordered = sorted(each, key=lambda row: int(row.at["edited"]))
        sentence += f"; in one layer at a time, from the first, {', '.join(fixed(row.mean) for row in ordered)}"
    return [cautious(f"{sentence}.", own.n)]


# figures


def _accuracies(outcome: Outcome) -> list[Figure]:
    marks = [
        dot(method, row, note=versus_random(_difference(outcome, method)) or "")
        for method in (ORIGINAL, *_methods(outcome))
        if (row := _row(outcome, "accuracy", method)) is not None
    ]
    own = _row(outcome, "accuracy", ORIGINAL)
    words = Words(
        "adversarial-keys-accuracy",
        "Accuracy with changed keys in all layers",
        "accuracy on gold labels",
        caption="95 % intervals over texts. At the right: compared with the original, paired over texts, after Holm's "
        "correction. opposite is trained for the other label.",
    )
    return [dots(words, marks, marks=() if own is None else (own.mean,))] if marks else []


def _divergences(outcome: Outcome) -> list[Figure]:
    marks = [
        dot(method, row, series)
        for method in _methods(outcome)
        for series, measure in (("all queries", "attention jsd"), ("pooled rows", "pooled jsd"))
        if (row := _row(outcome, measure, method)) is not None
    ]
    words = Words(
        "adversarial-keys-attention",
        "How much the attention changes",
        "divergence from the original (JSD)",
        caption="Jensen–Shannon. All queries: mean over layers, heads and queries. Pooled rows: those of the last "
        "layer that the classifier pools, mean over heads. The largest possible value is ln 2 = 0.69.",
    )
    return [dots(words, marks, limits=(0.0, log(2)))] if marks else []


# tables


def _table_1(outcome: Outcome) -> Table:
    columns = outcome.result.details["table 1"]
    published: dict[str, dict[str, float]] = {}
    for number in read_published("poster"):
        published.setdefault(f"published, {number.row}", {})[number.column] = number.value
    own = tuple(
        None if (row := _row(outcome, measure, method)) is None else 100 * row.mean
        for method, measure in columns.values()
    )
    activation = {"entmax15": "1.5-entmax"}.get(str(outcome.result.details["activation"]))
    here = f"here, {activation or outcome.result.details['activation']}"
    rows: tuple[tuple[Cell, ...], ...] = (
        (here, *own),
        *((name, *(values.get(column) for column in columns)) for name, values in published.items()),
    )
    caption = (
        "Accuracy in %, all layers changed; below, Table 1 of the report that followed the poster. adversarial is "
        "as-stated (the authors' code has distance=log); shuffling is permuted, which in an encoder shuffles the "
        "weights of all queries and heads alike; opposite is the accuracy on the other label. The published numbers "
        "are of another network on IMDB, chosen by its test accuracy, without intervals."
    )
    heads = (Column("model"), *(Column(name, 1) for name in columns))
    return Table("adversarial-keys-table-1", "The report's Table 1", heads, rows, caption)


def _predictions(outcome: Outcome) -> Table:
    rows = []
    for method in (ORIGINAL, *_methods(outcome)):
        accuracy, difference = _row(outcome, "accuracy", method), _difference(outcome, method)
        if accuracy is not None:
            found = (_row(outcome, measure, method) for measure in ("agreement", "tvd"))
            rows.append((method, accuracy.n, interval(accuracy), _signed(difference), *_means(found)))
    columns = (
        Column("keys"),
        Column("n", 0, "texts"),
        Column("accuracy"),
        Column("difference", 2, "to the original, paired over texts; * not significant, ? too few texts"),
        Column("agreement", 2, "share of texts with the original's label"),
        Column("TVD", 3, "of the probabilities"),
    )
    return Table("adversarial-keys-predictions", "Predictions, all layers changed", columns, tuple(rows))


def _distances(outcome: Outcome) -> Table:
    measures = ("attention jsd", "attention tvd", "pooled jsd", "key distance", "centred key distance")
    rows = tuple((method, *_means(_row(outcome, m, method) for m in measures)) for method in _methods(outcome))
    columns = (
        Column("keys"),
        Column("JSD", 3, "of the attention: mean over layers, heads and queries"),
        Column("TVD", 3, "of the attention"),
        Column("pooled JSD", 3, "of the last layer's rows that the classifier pools, mean over heads"),
        Column("key distance", 0),
        Column("centred", 0, "key distance after centring over tokens"),
    )
    caption = "Distances from the original model. A key distance is no distance of attention."
    return Table("adversarial-keys-distances", "Attention and keys, all layers changed", columns, rows, caption)


def _means(rows: Any) -> list[Cell]:
    return [None if row is None else float(row.mean) for row in rows]


def _signed(of: Difference | None) -> str | None:
    if of is None:
        return None
    mark = {"not significant": "*", "too few texts": "?"}.get("" if of.decision is None else of.decision.value, "")
    mean, low, high = (format_number(round(x, 2), "+.2f") for x in (of.mean, of.low, of.high))  # round: no −0.00
    return f"{mean} [{low}, {high}]{mark}"


# each layer


def _each_layer(outcome: Outcome) -> list[Section]:
    figures = []
    for measure, title in (("accuracy", "accuracy"), ("agreement", "share of predictions that stay")):
        curves = outcome.result.curves_of(measure, {"edited": "each"})
        words = Words(
            f"adversarial-keys-layer-{measure}",
            f"One layer changed: {title}",
            "changed layer",
            title,
            caption="Bands are 95 % intervals over texts. Layers are counted from 0.",
        )
        if curves:
            figures.append(lines(words, [plotted(curve) for curve in curves], (0.0, 1.0)))
    curves = outcome.result.curves_of("attention jsd", {"edited": "all"})
    words = Words(
        "adversarial-keys-layer-jsd",
        "All layers changed: attention of each layer",
        "layer",
        "divergence (JSD)",
        caption="Jensen–Shannon divergence from the original attention, mean over heads and queries.",
    )
    figures += [lines(words, [plotted(curve) for curve in curves], (0.0, log(2)))] if curves else []
    if not figures:
        return []
    rows = [r for r in outcome.rows("accuracy") if r.at["edited"] not in ("all", "none")]
    table = Table(
        "adversarial-keys-layers",
        "One layer changed",
        (
            Column("keys"),
            Column("layer", 0),
            Column("accuracy"),
            Column("difference", 2, "to the original; * not significant, ? too few texts"),
            Column("agreement", 2),
            Column("JSD there", 3, "of the changed layer's attention"),
        ),
        tuple(_layer_row(outcome, row) for row in rows),
    )
    return [
        Section(
            name="adversarial-keys-layers",
            title="Each layer by itself",
            question="In which layers do keys matter?",
            findings=("The poster found that only the first layer's keys matter when they are permuted.",),
            figures=tuple(figures),
            tables=(table,) if rows else (),
        )
    ]


def _layer_row(outcome: Outcome, row: Row) -> tuple[Cell, ...]:
    layer = int(row.at["edited"])
    there = outcome.result.row("attention jsd", row.method, {"edited": layer, "layer": layer})
    agreement = _row(outcome, "agreement", row.method, layer)
    difference = _signed(_difference(outcome, row.method, layer))
    return (row.method, layer, interval(row), difference, *_means((agreement, there)))


# attention matrices


def _matrices(outcome: Outcome) -> list[Section]:
    found = outcome.result.details["matrices"]
    first = [m for m in found if m["title"] == found[0]["title"]] if found else []
    if not first:
        return []
    return [
        Section(
            name="adversarial-keys-matrices",
            title="Attention before and after",
            question="What does the attention of one text look like?",
            findings=(
                f"Of short texts whose label stays under {first[0]['method']}, it has the largest divergence; "
                "its words are among the examples.",
            ),
            figures=tuple(_heat_maps(matrix) for matrix in first),
        )
    ]


def _heat_maps(matrix: Mapping[str, Any]) -> Figure:
    """Two matrices side by side: rows are queries, columns keys, in the order of the text."""
    tokens: Sequence[str] = matrix["tokens"]
    n, wide = len(tokens), (CHART_WIDTH - NAMES - GAP) / 2
    sides = {f"before (layer {matrix['layer']})": matrix["before"], f"after {matrix['method']}": matrix["after"]}
    top, largest = LINE + 6, max(x for side in sides.values() for row in side for x in row) or 1.0
    shapes = [write_line((NAMES - 6, top + LINE * i + 13), token, "c-end", NAMES - 8) for i, token in enumerate(tokens)]
    for number, (name, rows) in enumerate(sides.items()):
        left = NAMES + number * (wide + GAP)
        shapes.append(write_line((left + wide / 2, LINE - 4), name, "c-soft c-middle", wide))
        frame: dict[str, str | float] = {"class": "c-zero", "x": left, "y": top, "width": wide, "height": LINE * n}
        frame["fill"] = "none"
        shapes.append(element("rect", frame))
        shapes += [
            _cell(x / largest, (left + wide / n * j, top + LINE * i), wide / n)
            for i, row in enumerate(rows)
            for j, x in enumerate(row)
            if x / largest >= FAINTEST
        ]
    words = Words(
        f"adversarial-keys-matrix-{matrix['layer']}",
        f"Layer {matrix['layer']} of {matrix['title']}, before and after {matrix['method']}",
        caption=f"Mean over heads. Rows attend to columns, both in the order of the text; the darkest cell is "
        f"{fixed(largest)}.",
    )
    alt = "; ".join(f"{name}: {_strongest(tokens, rows)}" for name, rows in sides.items())
    return figure(words, top + LINE * n + 4, "".join(shapes), alt)


def _cell(strength: float, at: tuple[float, float], wide: float) -> str:
    place: dict[str, str | float] = {"class": "c-weight", "x": at[0], "y": at[1], "width": wide, "height": LINE}
    return element("rect", place | {"fill-opacity": f"{strength:.2f}"})


def _strongest(tokens: Sequence[str], rows: Sequence[Sequence[float]]) -> str:
    """The tokens that receive most attention."""
    received = [sum(row[j] for row in rows) / len(rows) for j in range(len(tokens))]
    best = sorted(range(len(tokens)), key=lambda j: -received[j])[:3]
    return "most attention to " + ", ".join(f"{tokens[j]} {fixed(received[j])}" for j in best)


# trainings and all numbers


def _training(outcome: Outcome) -> list[Section]:
    records: Mapping[str, Any] = outcome.result.details["training"]
    if not records:
        return []
    files: Mapping[str, str] = outcome.result.details["adversaries"]
    rows = []
    for name, record in records.items():
        best = record["history"][record["best"] - 1]
        distance = best["distance"] if record["goal"] in ("as-stated", "honest") else None
        rows.append((name, len(record["history"]), record["best"], best["output"], distance, files[name]))
    columns = (
        Column("adversary"),
        Column("epochs", 0),
        Column("chosen", 0, "epoch, on the dev part"),
        Column("output term", 3, "cross-entropy; of honest, KL divergence from the model's own prediction"),
        Column("distance term", 3, "of as-stated, between keys; of honest, JSD of the attention"),
        Column("file"),
    )
    finding = (
        "as-stated keeps the epoch with the smallest cross-entropy, as the poster's code; the others that with the "
        "smallest loss. All weights of the model stay as they are."
    )
    table = Table("adversarial-keys-training", "Trainings, on the dev part", columns, tuple(rows))
    return [
        Section("adversarial-keys-training", "Trainings", "How were the adversaries chosen?", (finding,), (), (table,))
    ]


def _numbers(outcome: Outcome) -> Section:
    columns = (
        Column("measure"),
        Column("keys"),
        Column("changed layer"),
        Column("measured layer"),
        Column("n", 0),
        Column("mean", 3),
        Column("low", 3, "of the 95 % interval"),
        Column("high", 3),
    )
    rows = tuple(
        (r.measure, r.method, str(r.at["edited"]), str(r.at.get("layer", "all")), r.n, r.mean, r.low, r.high)
        for r in outcome.result.rows
    )
    table = Table("adversarial-keys-rows", "All numbers", columns, rows)
    return Section("adversarial-keys-numbers", "All numbers", "Which numbers were measured?", (), tables=(table,))
