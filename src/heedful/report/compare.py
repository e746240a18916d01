"""Compare: two runs side by side, such as two models, two trainings or two data sets. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from heedful import __version__
from heedful.audits.contrasts import Contrast, Matching, contrast, match
from heedful.audits.manifest import ABSENT, Change
from heedful.audits.record import Record
from heedful.audits.verdict import Rule, Verdict
from heedful.maths.stats import MINIMUM, Decision
from heedful.report.audit import bibtex
from heedful.report.charts import Interval, Words, dots
from heedful.report.document import Column, Document, Figure, Section, Table
from heedful.report.phrases import MAX_NAMES, and_list, capital, count_texts, interval, percentage, slug
from heedful.report.sections import section_maker, section_module
from heedful.report.sections.parts import VERDICT_METHOD, dot
from heedful.report.verdict import SHORT_QUESTIONS, reason, share_phrase

FAR = 0.2  # a difference whose whole interval lies beyond is called “far”
MAX_NAME = 24  # characters of a name that fit a table's head
MIN_P = 0.001  # below, p is written as “< .001”

SHARES = "A share is the part of the reference's lead over random that attention has, over all texts of its run."
Names = tuple[str, str]


def compare(a: Record, b: Record) -> Document:
    """Two runs side by side. Differences are a − b, paired over texts where both runs have the same."""
    names, matching = run_names(a, b), match(a, b)
    checks = list(dict.fromkeys([*a.checks, *b.checks]))
    contrasts = {check: pairs for check in checks if (pairs := contrast(a, b, check, matching))}
    runs = f"runs {a.run.manifest.stamp} and {b.run.manifest.stamp}"
    headlines = [c for pairs in contrasts.values() for c in pairs if c.key.headline and c.difference is not None]
    return Document(
        title=f"{names[0]} and {names[1]} compared",
        verdict="",  # each run has its own
        sentences=(*(_headline(c, names, matching) for c in headlines), _pairing(matching, a, b)),
        facts=tuple(_facts(a, b, names, matching)),
        answers=(_verdicts(a, b, names), _differences(a, b, names)),
        sections=tuple(_section(a, b, check, pairs, names, matching) for check, pairs in contrasts.items()),
        limits=tuple(_limits(a, b, matching)),
        cite=f"heedful {__version__}, {runs} side by side.\n{bibtex(runs)}",
        ran={names[0]: a.run.manifest.to_dict(), names[1]: b.run.manifest.to_dict()},
    )


def run_names(a: Record, b: Record) -> Names:
    """Short names of two runs: those of their models, or A and B where these are equal or too long."""
    names = (a.model_name, b.model_name)
    named = all(record.run.manifest.model.get("name") for record in (a, b))
    usable = named and names[0] != names[1] and all(len(name) <= MAX_NAME for name in names)
    return names if usable else ("A", "B")


# the numbers


def _section(
    a: Record, b: Record, check: str, contrasts: Sequence[Contrast], names: Names, matching: Matching
) -> Section:
    """One part for the numbers of the model, whose `says` is empty, and one for each measure of the methods."""
    first = a if check in a.summary.checks else b
    about = first.about(check)
    beside = section_maker(section_module(first, check), "side_by_side")
    by_measure = groupby(contrasts, key=lambda c: "" if c.key in about.compared else c.key.says)
    parts = [(says, list(pairs)) for says, pairs in by_measure]
    return Section(
        name=f"compare-{check}",
        title=about.title or check,
        question=about.question or capital(about.summary),
        findings=tuple(_findings(parts, names, matching)),
        figures=tuple(_figure(check, says or about.title, pairs, names) for says, pairs in parts),
        tables=(
            *(_table(check, says, says or about.title, pairs, names, matching) for says, pairs in parts),
            *(beside(dict(zip(names, (a, b), strict=True))) if beside else ()),
        ),
        reading=about.reading,
    )


def _figure(check: str, title: str, contrasts: Sequence[Contrast], names: Names) -> Figure:
    marks = [
        Interval(c.key.words, float("nan"), None, None, name) if row is None else dot(c.key.words, row, name)
        for c in contrasts
        for name, row in zip(names, (c.a, c.b), strict=True)
    ]
    return dots(Words(slug(f"compare {check} {title}"), capital(title)), marks)


def _table(check: str, says: str, title: str, contrasts: Sequence[Contrast], names: Names, matching: Matching) -> Table:
    how = "paired over texts" if matching.same else "unpaired"
    columns = (
        Column("method" if says else ""),
        *(Column(name) for name in names),
        Column("difference", says=f"{names[0]} − {names[1]}, {how}; intervals are of 95 %"),
        Column("texts"),
        Column("p", says="after Holm's correction over all rows of this section"),
        Column("conclusion"),
    )
    rows = tuple(_cells(c, names) for c in contrasts)
    return Table(slug(f"compare {check} {title}"), capital(title), columns, rows)


def _cells(c: Contrast, names: Names) -> tuple[str | None, ...]:
    sides = [None if row is None else interval(row) for row in (c.a, c.b)]
    if c.difference is None:
        return (c.key.words, *sides, None, None, None, None)
    n, m = c.texts
    count = f"{n:,}" if n == m else f"{n:,} and {m:,}"
    p = None if c.decision == Decision.TOO_FEW else _p(c)  # with too few texts nothing is decided
    return (c.key.words, *sides, interval(c.difference), count, p, _conclusion(c, names))


def _p(c: Contrast) -> str:
    p = c.difference.p_adjusted if c.difference is not None and c.difference.p_adjusted is not None else 1.0
    return "<\u00a0.001" if p < MIN_P else "1" if p >= 0.9995 else f"{p:.3f}".removeprefix("0")


def _conclusion(c: Contrast, names: Names) -> str:
    if c.decision in (Decision.HIGHER, Decision.LOWER):
        return f"{c.decision} in {names[0]}"
    return "too few texts" if c.decision == Decision.TOO_FEW else "not significantly different"


# sentences


def _findings(parts: Sequence[tuple[str, Sequence[Contrast]]], names: Names, matching: Matching) -> Iterator[str]:
    for says, contrasts in parts:
        if says:
            yield _tally(says, contrasts, names)
        yield from (_sentence(c, names, matching) for c in contrasts if not says or c.key.method == VERDICT_METHOD)


def _sentence(c: Contrast, names: Names, matching: Matching) -> str:
    """A number of both runs, their difference, and the conclusion."""
    sides = ", ".join(f"{name} {interval(row)}" for name, row in zip(names, (c.a, c.b), strict=True))
    of = f"{c.key.says}, {c.key.method}" if c.key.words == c.key.method else c.key.says
    head = f"{capital(of)}: {sides}"
    if c.difference is None:
        return f"{head}; not measured in both runs."
    return f"{head}; difference {interval(c.difference)}: {_conclusion(c, names)} ({_how(c, matching)})."


def _how(c: Contrast, matching: Matching) -> str:
    n, m = c.texts
    over = f"paired over {count_texts(n)}" if matching.same else f"{n:,} and {m:,} texts, unpaired"
    sign = "" if ((c.difference and c.difference.p_adjusted) or 0) < MIN_P else "=\u00a0"
    return over if c.decision == Decision.TOO_FEW else f"{over}, p\u00a0{sign}{_p(c)}"


def _tally(says: str, contrasts: Sequence[Contrast], names: Names) -> str:
    """How many methods are higher in one run than in the other."""
    words = {
        Decision.HIGHER: f"higher in {names[0]}",
        Decision.LOWER: f"higher in {names[1]}",
        Decision.NOT_SIGNIFICANT: "not significantly different",
        Decision.TOO_FEW: f"fewer than {MINIMUM} texts, too few to decide",
    }
    both = [c for c in contrasts if c.difference is not None]
    parts = []
    for decision, phrase in words.items():
        methods = [c.key.method for c in both if c.decision == decision]
        listing = f" ({and_list(methods)})" if len(methods) <= MAX_NAMES else ""
        parts += [f"{phrase}: {len(methods)}{listing}"] if methods else []
    counts = "; ".join(parts) or "none measured in both"
    return f"{capital(says)}, of {len(both)} methods and controls in both runs: {counts}."


def _headline(c: Contrast, names: Names, matching: Matching) -> str:
    sides = f"{c.key.symbol} {interval(c.a)} and {interval(c.b)}, difference {interval(c.difference)}"
    word, difference = "less" if c.decision == Decision.LOWER else "more", c.difference
    far = difference is not None and difference.significant and max(difference.low, -difference.high) >= FAR
    claim = c.key.headline.format(a=names[0], b=names[1], more=f"far {word}" if far else word)
    if c.decision == Decision.TOO_FEW:
        opening = f"Too few texts to decide whether {claim}"
    elif c.decision == Decision.NOT_SIGNIFICANT:
        opening = f"This comparison does not decide whether {claim}"
    else:
        opening = capital(claim)
    return f"{opening}: {sides} ({_how(c, matching)})."


def _pairing(matching: Matching, a: Record, b: Record) -> str:
    n, m = (record.summary.texts.n for record in (a, b))
    if matching.same:
        shared = (
            f"Both runs have the same {count_texts(n)}" if n == m else f"{count_texts(len(matching.a))} in both runs"
        )
        return f"{shared}: numbers are over these texts, and differences are paired."
    shared = f"; {count_texts(len(matching.a))} in both" if len(matching.a) else ""
    return f"The runs have different texts ({n:,} and {m:,}{shared}): differences are unpaired."


# about the runs


def _facts(a: Record, b: Record, names: Names, matching: Matching) -> Iterator[tuple[str, str]]:
    for name, record in zip(names, (a, b), strict=True):
        manifest, about = record.run.manifest, record.summary.texts
        accuracy = f"accuracy {percentage(about.accuracy)}" if about.accuracy else "without labels"
        source = f"model {manifest.model.get('name')}; data {manifest.data.get('name')}"
        yield name, f"{source}; {count_texts(about.n)}, {accuracy}; seed {manifest.seed}"
    yield "differences", f"paired over {count_texts(len(matching.a))}" if matching.same else "unpaired"


def _verdicts(a: Record, b: Record, names: Names) -> Section:
    """The verdicts on each reading of attention."""
    verdicts = [record.verdicts() for record in (a, b)]
    readings = sorted(dict.fromkeys([*verdicts[0], *verdicts[1]]), key=lambda reading: reading != Rule().attention)
    sides = list(zip(names, verdicts, strict=True))
    sentences = [
        f"{name}: {side[first].word} ({first}): {reason(side[first])}."
        if first in side
        else f"{name} has no verdict by {first}."
        for first in readings[:1]
        for name, side in sides
    ]
    rows = (
        *((f"verdict by {r}", *(side[r].word if r in side else None for side in verdicts)) for r in readings),
        *_shares([side.get(readings[0]) for side in verdicts] if readings else []),
        ("accuracy", *(percentage(record.summary.texts.accuracy) for record in (a, b))),
        ("labels", *(", ".join(record.labels) for record in (a, b))),
    )
    return Section(
        "compare-verdicts",
        "Verdicts",
        "May attention be used as an explanation of each model?",
        tuple(sentences) or ("Neither run has a verdict.",),
        tables=(Table("compare-verdicts", "Verdicts", (Column(""), *map(Column, names)), rows, SHARES),),
    )


def _shares(verdicts: Sequence[Verdict | None]) -> Iterator[tuple[str | None, ...]]:
    """Attention's share for each question, by the first reading in both runs."""
    for i, short in enumerate(SHORT_QUESTIONS.values() if verdicts else ()):
        yield (
            f"{short}, share",
            *(None if verdict is None else share_phrase(verdict.answers[i]) for verdict in verdicts),
        )


def _differences(a: Record, b: Record, names: Names) -> Section:
    rows = tuple(_change_cells(change) for change in a.run.manifest.differences(b.run.manifest))
    columns = (Column(""), *map(Column, names))
    same = "Nothing: both runs have the same model, data, settings and versions."
    sentence = "The table lists every difference of model, data, settings and versions." if rows else same
    tables = (Table("compare-differences", "What differs", columns, rows),) if rows else ()
    question = "How do the two runs differ?"
    return Section("compare-differences", "What differs", question, (sentence,), tables=tables)


def _change_cells(change: Change) -> tuple[str, str | None, str | None]:
    """What differs, and its value in each run."""

    def cell(value: object) -> str | None:
        return None if value is ABSENT else "yes" if change.one_sided else change.shown(value)

    return change.name, cell(change.then), cell(change.now)


def _limits(a: Record, b: Record, matching: Matching) -> Iterator[str]:
    runs = a.run.manifest, b.run.manifest
    yield "A difference shows that two runs differ, not which explanation is right."
    if a.labels != b.labels:
        labels = f"{', '.join(a.labels)} and {', '.join(b.labels)}"
        yield f"The models have different labels ({labels}): changes of their outputs are not comparable."
    if runs[0].data.get("fingerprint") != runs[1].data.get("fingerprint"):
        yield "The data differ: effects of the models and of the data cannot be separated."
    if not matching.same:
        yield (
            "Unpaired intervals come from the means, standard deviations, numbers of texts and intervals of the two "
            "summaries. They assume that the texts of both runs were drawn independently."
        )
    changes = runs[0].differences(runs[1])
    if any(change.path[:2] == ("settings", "checks") and not change.one_sided for change in changes):
        yield "Checks had different settings in the two runs (see what differs): their numbers may not be comparable."
    if any(record.summary.texts.n < MINIMUM for record in (a, b)):
        yield f"Below {MINIMUM} texts nothing is decided."
    yield f"“Far” means that the whole 95 % interval of a difference lies beyond {FAR}."
