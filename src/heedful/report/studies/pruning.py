"""The section on head pruning."""

from __future__ import annotations

from collections.abc import Sequence

from heedful.audits.summary import Row
from heedful.report.charts import Words, dots, lines, matrix
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import MARKS, Cell, capital, cautious, count_texts, interval, mark, slug, versus_random
from heedful.report.sections.parts import dot
from heedful.report.studies import plotted, rows_table, study_section
from heedful.studies.outcome import Outcome

LARGEST, SMALLEST, RANDOM = "largest first", "smallest first", "random"


def sections(outcome: Outcome) -> list[Section]:
    """All layers together first, then each layer."""
    main = study_section(
        outcome,
        tuple(_sentences(outcome)),
        figures=(*_curves(outcome, "all"), *_areas(outcome)),
        tables=(*_area_tables(outcome), *_difference_table(outcome)),
    )
    layers = sorted({int(curve.at["layer"]) for curve in outcome.curves if curve.at["layer"] != "all"})
    each = Section(
        name="pruning-layers",
        title="Each layer by itself",
        question="What happens when the heads of one layer are removed one by one?",
        findings=("All other layers keep their heads.",),
        figures=tuple(figure for layer in layers for figure in _curves(outcome, layer, ("accuracy",))),
        tables=(rows_table(outcome),),
    )
    return [main, _importance(outcome), *([each] if layers else [])]


def _sentences(outcome: Outcome) -> list[str]:
    sentences = []
    for direction, better in ((LARGEST, "smaller"), (SMALLEST, "larger")):
        rows = _rows(outcome, "area accuracy", direction)
        named = [row for row in rows if row.method != RANDOM and row.known]
        if not named:
            continue
        best = (min if direction == LARGEST else max)(named, key=lambda row: row.mean)
        control = next((row for row in rows if row.method == RANDOM), None)
        versus = versus_random(best.versus_random)
        sentence = (
            f"With the {direction.replace(' first', '')} importance removed first, the mean accuracy along the curve "
            f"is {interval(best)} by {best.method} ({better} is better)"
            + (f", and {interval(control)} in random orders ({versus})" if control else "")
            + f"; {count_texts(best.n)}."
        )
        sentences.append(cautious(sentence, best.n))
    return sentences


def _rows(outcome: Outcome, measure: str, direction: str, layer: str | int = "all") -> list[Row]:
    return [row for row in outcome.rows(measure) if row.at == {"layer": layer, "order": direction}]


def _curves(outcome: Outcome, layer: str | int, measures: Sequence[str] = ("accuracy", "probability")) -> list[Figure]:
    figures = []
    for measure in measures:
        for direction in (LARGEST, SMALLEST):
            curves = outcome.result.curves_of(measure, {"layer": layer, "order": direction})
            where = "all layers" if layer == "all" else f"layer {layer}"
            words = Words(
                f"pruning-{slug(str(layer))}-{slug(direction)}-{measure}",
                f"{capital(where)}, {direction}: {_names(measure)}",
                "share of heads removed" if layer == "all" else "heads removed",
                _names(measure),
                caption="Bands are 95 % intervals over texts. Layers are counted from 0.",
            )
            if curves:
                figures.append(lines(words, [plotted(c, c.method == RANDOM) for c in curves], (0.0, 1.0)))
    return figures


def _names(measure: str) -> str:
    return "probability of the gold label" if measure == "probability" else measure


def _areas(outcome: Outcome) -> list[Figure]:
    marks = [
        dot(row.method, row, direction, versus_random(row.versus_random) or "")
        for row, direction in sorted(
            ((row, d) for d in (LARGEST, SMALLEST) for row in _rows(outcome, "area accuracy", d)),
            key=lambda pair: pair[0].method,
        )
    ]
    caption = "95 % intervals. Good: small when the largest are removed first, large when the smallest are."
    words = Words("pruning-areas", "Mean accuracy along the curve", "area under the accuracy curve", caption=caption)
    return [dots(words, marks)] if marks else []


def _area_tables(outcome: Outcome) -> list[Table]:
    """Areas by importance: of accuracy, then of the probability."""
    methods = list(dict.fromkeys(row.method for row in outcome.result.rows))
    tables = []
    for measure in ("accuracy", "probability"):
        areas = {d: {row.method: row for row in _rows(outcome, f"area {measure}", d)} for d in (LARGEST, SMALLEST)}
        rows: list[tuple[Cell, ...]] = [
            (method, n.n, *(f"{interval(of[method])}{mark(of[method])}" for of in areas.values()))
            for method in methods
            if (n := areas[LARGEST].get(method))
        ]
        columns = (
            Column("importance"),
            Column("n", 0, "texts"),
            Column(LARGEST, 3, "lower is better"),
            Column(SMALLEST, 3, "higher is better"),
        )
        title = f"Area under the curve: mean {_names(measure)}"
        caption = f"Over all layers, with 95 % intervals. {MARKS}"
        tables.append(Table(f"pruning-area-{measure}", title, columns, tuple(rows), caption))
    return tables


def _difference_table(outcome: Outcome) -> list[Table]:
    rows = tuple(
        (
            f"{d.a} − {d.b}",
            str(d.at["order"]),
            d.measure.removeprefix("area "),
            d.difference.n,
            d.difference.mean,
            d.difference.low,
            d.difference.high,
            "" if d.difference.decision is None else d.difference.decision.value,
        )
        for d in outcome.result.differences
    )
    columns = (
        Column("importances"),
        Column("removed"),
        Column("measure"),
        Column("n", 0, "texts"),
        Column("difference", 3, "of the areas, paired over texts"),
        Column("low", 3),
        Column("high", 3),
        Column("decision", 2, "after Holm's correction"),
    )
    return [Table("pruning-differences", "Differences between importances", columns, rows)] if rows else []


def _importance(outcome: Outcome) -> Section:
    """How alike the importances rank the heads, and the importance of each head."""
    details = outcome.result.details
    names = list(details["importance"])
    columns = (Column("layer", 0), Column("head", 0), *(Column(name, 4) for name in names))
    rows = tuple(
        (place["layer"], place["head"], *(details["importance"][name][i] for name in names))
        for i, place in enumerate(details["heads"])
    )
    taus = details["agreement"]
    figure = matrix(Words("pruning-agreement", "Kendall's τ between importances", ""), names, taus)
    return Section(
        name="pruning-importance",
        title="Importance of heads",
        question="Do the measures of importance rank the heads alike?",
        findings=(f"{len(rows)} heads; the chart has Kendall's τ of each pair of measures.",),
        figures=(figure,) if len(names) > 1 else (),
        tables=(Table("pruning-importance", "Importance of each head", columns, rows),),
    )
