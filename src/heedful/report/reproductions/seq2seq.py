"""The sections of the encoder-decoders: exact match by length, attention on copied digits, and alignments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heedful.report.charts import Words, lines
from heedful.report.charts.frame import figure
from heedful.report.charts.svg import CHART_WIDTH, element, escaped, write_line
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import Cell, fixed, interval
from heedful.report.studies import plotted
from heedful.studies.outcome import Outcome

PARTS = ("all", "shortest third", "longest third")
ALIGNMENTS = ("on the digit", "near the digit", "top near the digit")
CELL = (16.0, 15.0)  # units, the largest width, and the height
LEFT, TOP = 34.0, 22.0  # units, for the names of rows and columns
SPACE = "␣"


def sections(outcome: Outcome) -> list[Section]:
    """Lengths, then alignments."""
    return [_lengths(outcome), _alignments(outcome)]


def _cells(outcome: Outcome, measure: str, kind: str, part: str) -> tuple[Cell, Cell]:
    """The mean with its interval over texts, and the spread over trainings."""
    over = {o: outcome.result.row(measure, kind, {"texts": part, "over": o}) for o in ("texts", "trainings")}
    texts, trainings = over["texts"], over["trainings"]
    spread = None
    if trainings is not None and trainings.n > 1:
        spread = trainings.std * (trainings.n / (trainings.n - 1)) ** 0.5  # an Estimate has the population's
    return (None if texts is None else interval(texts), spread)


def _kinds(outcome: Outcome, measure: str) -> list[str]:
    return list(dict.fromkeys(row.method for row in outcome.rows(measure)))


def _lengths(outcome: Outcome) -> Section:
    kinds = _kinds(outcome, "exact match")
    columns = [Column("network")]
    for part in PARTS:
        columns += [Column(part, 3, "mean over trainings, 95 % interval over texts"), Column("s", 3, "over trainings")]
    rows = tuple((kind, *(c for part in PARTS for c in _cells(outcome, "exact match", kind, part))) for kind in kinds)
    words = Words(
        "exact-match-by-length",
        "Exact match by length of the text",
        "characters of the text",
        caption="Means over trainings; bands: 95 % intervals over texts.",
    )
    findings = [f"{row[0]}: {row[3]} on the shortest third, {row[5]} on the longest." for row in rows]
    return Section(
        name="lengths",
        title="Accuracy by length",
        question="Which networks keep their accuracy on long texts?",
        findings=tuple(findings),
        figures=(lines(words, [plotted(curve) for curve in outcome.curves], (0.0, 1.0)),),
        tables=(Table("exact-match", "Exact match", tuple(columns), rows),),
    )


def _alignments(outcome: Outcome) -> Section:
    """Shares of attention on copied digits, and the alignments of one text."""
    example = outcome.result.details["alignments"]
    kinds = _kinds(outcome, ALIGNMENTS[0])
    columns = [Column("attention")]
    for measure in ALIGNMENTS:
        columns += [Column(measure, 3, outcome.about.measures[measure].says), Column("s", 3, "over trainings")]
    rows = tuple((kind, *(c for m in ALIGNMENTS for c in _cells(outcome, m, kind, "all"))) for kind in kinds)
    return Section(
        name="alignments",
        title="Alignments",
        question="Is attention on the digit that is copied?",
        findings=(f"The first training of each network, on a test text: {example['source']}",),
        figures=tuple(_alignment(kind, example, weights) for kind, weights in example["weights"].items()),
        tables=(Table("attention-on-digits", "Attention on copied digits", tuple(columns), rows),),
        reading="Rows are symbols of the right translation, columns characters of the text. Frames mark digits that "
        "are copied. An encoder state knows its neighbours, so a row that looks beside a digit may have read it.",
    )


def _alignment(kind: str, example: Mapping[str, Any], weights: Sequence[Sequence[float]]) -> Figure:
    """A heat map, with a frame around each digit that is copied."""
    source, symbols = str(example["source"]), [*example["target"], "end"]
    high = CELL[1]
    wide = min(CELL[0], (CHART_WIDTH - LEFT - 2) / len(source))
    shapes = [_name((LEFT + wide * (t + 0.5), TOP - 7), c, "c-soft c-middle") for t, c in enumerate(source)]
    for s, (symbol, row) in enumerate(zip(symbols, weights, strict=True)):
        shapes.append(_name((LEFT - 6, TOP + high * s + 11.5), symbol, "c-soft c-end"))
        for t, (c, x) in enumerate(zip(source, row, strict=True)):
            shapes.append(_weight(x, (LEFT + wide * t, TOP + high * s, wide), f"{symbol} ← {c}"))
    for there, here in example["copies"]:
        place = {"x": LEFT + wide * here + 0.5, "y": TOP + high * there + 0.5, "width": wide - 1, "height": high - 1}
        shapes.append(element("rect", {"class": "c-zero", "fill": "none", **place}))
    on = [weights[there][here] for there, here in example["copies"]]
    alt = f"Attention on the {len(on)} copied digits: {', '.join(fixed(x) for x in on)}."
    words = Words(f"alignment-{kind}", f"Alignment, {kind}", caption="Each row adds up to 1.")
    return figure(words, TOP + high * len(symbols) + 4, "".join(shapes), alt)


def _name(at: tuple[float, float], symbol: str, kind: str) -> str:
    return write_line(at, SPACE if symbol == " " else symbol, kind)


def _weight(x: float, at: tuple[float, float, float], words: str) -> str:
    """A cell at (left, top) and so wide."""
    if x < 0.005:  # invisible
        return ""
    left, top, wide = at
    place: dict[str, str | float] = {"class": "c-weight", "x": left, "y": top}
    size: dict[str, str | float] = {"width": wide, "height": CELL[1], "fill-opacity": f"{min(1.0, x):.2f}"}
    return element("rect", place | size, f"<title>{escaped(words)} {fixed(x)}</title>")
