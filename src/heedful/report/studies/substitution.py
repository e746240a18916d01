"""The section on log-odds substitution."""

from __future__ import annotations

from collections.abc import Iterator

from heedful.maths.stats import Decision
from heedful.report.charts import Words, dots, lines, scatter
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import (
    and_list,
    capital,
    cautious,
    count_texts,
    interval,
    mark,
    percentage,
    slug,
    versus_random,
)
from heedful.report.sections.parts import dot
from heedful.report.studies import plotted, rows_table, study_section
from heedful.studies.outcome import Outcome

ATTENDED, RANDOM_PLACES, RANDOM_WORDS, BOTH_RANDOM = "attended", "random places", "random words", "both random"
OWN, ODDS, SHUFFLED, UNIFORM = "own attention", "log-odds attention", "shuffled log-odds", "uniform attention"
AXES = {
    "tvd": "change of the output (TVD)",
    "flip": "share of texts whose label changes",
    "jsd": "change of attention (JSD)",
}
WAYS = {
    ATTENDED: "the most attended words, by words of another label",
    RANDOM_PLACES: "random words of the text, by the same words",
    RANDOM_WORDS: "the most attended words, by random words",
    BOTH_RANDOM: "random words of the text, by random words",
}


def sections(outcome: Outcome) -> list[Section]:
    """Replaced words, then replaced attention."""
    main = study_section(
        outcome,
        tuple(_sentences(outcome)),
        figures=(*_curves(outcome), *_scatter(outcome, ATTENDED)),
        tables=(_replaced(outcome), _placed(outcome)),
    )
    attention = Section(
        name="substitution-attention",
        title="Log-odds attention at test time",
        question="How far does the output move when attention is replaced?",
        findings=tuple(_placed_sentences(outcome)),
        figures=(*_dots(outcome), *_scatter(outcome, ODDS)),
        tables=(_strongest(outcome), rows_table(outcome)),
        reading=outcome.about.changes,
    )
    return [main, attention]


def _most(outcome: Outcome) -> int:
    return max((int(row.at["words"]) for row in outcome.result.rows if "words" in row.at), default=0)


def _sentences(outcome: Outcome) -> Iterator[str]:
    at = {"words": _most(outcome)}
    mine, control = (outcome.result.row("tvd", name, at) for name in (ATTENDED, RANDOM_PLACES))
    if mine is None or control is None:
        yield f"No text has {at['words']} words to replace; set a smaller number of words."
        return
    flips = [outcome.result.row("flip", name, at) for name in (ATTENDED, RANDOM_PLACES)]
    shares = [percentage(row) for row in flips if row is not None]
    versus = {Decision.HIGHER: "more", Decision.LOWER: "less"}.get(
        mine.versus_random.decision if mine.versus_random and mine.versus_random.decision else Decision.TOO_FEW,
        "not significantly different",
    )
    yield cautious(
        f"Words of another label in the {at['words']} most attended places move the output by {interval(mine)} (TVD) "
        f"and change {shares[0]} of the labels; in random places by {interval(control)} and {shares[1]} ({versus}, "
        f"{count_texts(mine.n)}).",
        mine.n,
    )
    random = outcome.result.row("tvd", RANDOM_WORDS, at)
    both = outcome.result.row("tvd", BOTH_RANDOM, at)
    if random is not None and both is not None:
        yield (
            f"Random words in the most attended places move it by {interval(random)}, random words in random places by "
            f"{interval(both)}."
        )
    yield from list(_placed_sentences(outcome))[:1]


def _placed_sentences(outcome: Outcome) -> Iterator[str]:
    tvd, jsd = (outcome.result.row(measure, ODDS) for measure in ("tvd", "jsd"))
    before, after = (outcome.result.row("accuracy", name) for name in (OWN, ODDS))
    share = outcome.result.row("on words", OWN)
    if tvd is None or jsd is None or before is None or after is None or share is None:
        return
    where = "" if outcome.result.details["layers"] == 1 else " of the pooled position in the last layer"
    yield cautious(
        f"Log-odds attention{where} is {interval(jsd)} (JSD) from the model's own, moves the output by {interval(tvd)} "
        f"(TVD), and changes the accuracy from {interval(before)} to {interval(after)}; {percentage(share)} of that "
        "attention is on words.",
        tvd.n,
    )
    others = [(name, row) for name in (SHUFFLED, UNIFORM) if (row := outcome.result.row("tvd", name)) is not None]
    if others:
        listed = and_list([f"{name} by {interval(row)}" for name, row in others])
        yield f"Of the controls, {listed} (TVD)."


def _curves(outcome: Outcome) -> Iterator[Figure]:
    for measure, axis in AXES.items():
        curves = outcome.result.curves_of(measure)
        words = Words(
            f"substitution-{measure}",
            capital(axis),
            "replaced words",
            axis,
            caption="95 % intervals. " + "; ".join(f"{name}: {says}" for name, says in WAYS.items()) + ".",
        )
        if curves:
            yield lines(words, [plotted(c, c.method != ATTENDED) for c in curves])


def _scatter(outcome: Outcome, name: str) -> Iterator[Figure]:
    points = outcome.result.details["points"][name]
    x, y = ([float("nan") if v is None else v for v in points[measure]] for measure in ("jsd", "tvd"))
    title = "Replaced words" if name == ATTENDED else "Log-odds attention"
    words = Words(
        f"substitution-scatter-{slug(name)}",
        f"{title}: the output against attention",
        AXES["jsd"],
        AXES["tvd"],
        caption="A point for each text.",
    )
    if any(v == v for v in x):
        yield scatter(words, x, y, zero=False)


def _dots(outcome: Outcome) -> Iterator[Figure]:
    marks = [
        dot(name, row, "", versus_random(row.versus_random) or "")
        for name in (ODDS, SHUFFLED, UNIFORM)
        if (row := outcome.result.row("tvd", name)) is not None
    ]
    caption = "95 % intervals. At the right: compared with shuffled log-odds."
    words = Words("substitution-placed", "Change of the output by each attention", AXES["tvd"], caption=caption)
    if marks:
        yield dots(words, marks)


def _replaced(outcome: Outcome) -> Table:
    columns = (Column("replaced"), Column("words", 0), *(Column(axis, 2) for axis in ("TVD", "flips", "JSD")))
    rows = []
    for k in sorted({1, _most(outcome)}):
        for name in WAYS:
            found = [outcome.result.row(measure, name, {"words": k}) for measure in AXES]
            rows.append((name, k, *(None if row is None else f"{interval(row)}{mark(row)}" for row in found)))
    caption = (
        "; ".join(f"{name}: {says}" for name, says in WAYS.items())
        + ". TVD of the output, JSD of attention over words, with 95 % intervals. * not significantly different from "
        "the same words in random places (paired over texts, p ≤ .05 after Holm's correction)."
    )
    return Table("substitution-replaced", "Replaced words", columns, tuple(rows), caption)


def _placed(outcome: Outcome) -> Table:
    columns = (Column("attention"), *(Column(axis, 2) for axis in ("TVD", "JSD", "accuracy")))
    rows = []
    for name in (OWN, ODDS, SHUFFLED, UNIFORM):
        found = [outcome.result.row(measure, name) for measure in ("tvd", "jsd", "accuracy")]
        short = name.removesuffix(" attention").removesuffix(" log-odds")
        rows.append((short, *(None if row is None else f"{interval(row)}{mark(row)}" for row in found)))
    caption = (
        "95 % intervals. * not significantly different from shuffled log-odds (paired over texts, p ≤ .05 after Holm's "
        "correction)."
    )
    return Table("substitution-placed", "Replaced attention", columns, tuple(rows), caption)


def _strongest(outcome: Outcome) -> Table:
    rows = tuple((label, ", ".join(words)) for label, words in outcome.result.details["strongest"].items())
    caption = f"{outcome.result.details['kept']:,} words have a log-odds weight that is not zero."
    return Table(
        "substitution-strongest", "The strongest words of each label", (Column("label"), Column("words")), rows, caption
    )
