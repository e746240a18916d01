"""Versus: two runs side by side: two models, two trainings, two data sets. Needs no torch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from heedful import __version__
from heedful.audits.record import Record
from heedful.maths.stats import MINIMUM
from heedful.report.audit import entry
from heedful.report.charts import Interval, Words, dots
from heedful.report.contrasts import Contrast, Matching, contrasted, matched
from heedful.report.document import Column, Figure, Report, Section, Table
from heedful.report.keys import ATTENTION, HEADLINES, QUESTIONS, Each, Headline, Key, Question
from heedful.report.telling import capital, interval, listed, slug, texts
from heedful.report.verdict import SHORT, share

FAR = 0.2  # a difference whose whole interval lies beyond is called far
LONGEST = 24  # letters of a name that a table's head has room for
BOUNDS = ("greedy", "optimum")  # of input-erasure: no methods
LEAST = 0.001  # a p below is told as such
NAMED = 4  # methods that a sentence can hold
_CHANGE = re.compile(r"(?P<what>.*) \((?P<a>.*) then, (?P<b>.*) now\)", re.DOTALL)
_ONE_SIDED = re.compile(r"(?P<what>.*) is (?P<who>new|gone)", re.DOTALL)

SHARES = "A share is the part of the reference's lead over chance that attention has, over all texts of its run."
Names = tuple[str, str]


def versus(a: Record, b: Record) -> Report:
    """Two runs side by side. Differences are a − b, paired over texts where both runs have the same."""
    names, matching = named(a, b), matched(a, b)
    found = {q.check: contrasted(a, b, keys, matching) for q in QUESTIONS if (keys := _keys(q, a, b))}
    sections = [_section(q, found[q.check], names, matching) for q in QUESTIONS if found.get(q.check)]
    return Report(
        title=f"{names[0]} beside {names[1]}",
        verdict="",  # each has its own
        sentences=(*_headlines(found, names, matching), _paired(matching, a, b)),
        facts=tuple(_facts(a, b, names, matching)),
        answers=(_verdicts(a, b, names), _differences(a, b, names)),
        sections=tuple(sections),
        limits=tuple(_limits(a, b, matching)),
        cite=_cite(a, b),
        ran={names[0]: a.run.manifest.to_dict(), names[1]: b.run.manifest.to_dict()},
    )


def named(a: Record, b: Record) -> Names:
    """Short names of two runs: their models', or A and B where those are alike or too long."""
    names = [PurePath(str(r.run.manifest.model.get("name") or "")).name for r in (a, b)]
    usable = names[0] != names[1] and all(0 < len(name) <= LONGEST for name in names)
    return (names[0], names[1]) if usable else ("A", "B")


def _cite(a: Record, b: Record) -> str:
    runs = f"runs {a.run.manifest.stamp} and {b.run.manifest.stamp}"
    return f"heedful {__version__}, {runs} side by side.\n{entry(runs)}"


# the numbers


def _keys(question: Question, a: Record, b: Record) -> list[Key]:
    """All that is asked, with every method that either run has."""
    check = question.check
    told = [row["method"] for record in (a, b) for row in record.rows(check)]
    order = list(dict.fromkeys([*a.methods, *b.methods]))
    methods = [name for name in order if name in told and name not in BOUNDS]
    return [
        *question.keys,
        *(Key(check, e.measure, m, f"{e.says}, {m}", m, e.at) for e in question.each for m in methods),
    ]


def _section(question: Question, found: Sequence[Contrast], names: Names, matching: Matching) -> Section:
    parts = [("", [c for c in found if c.key in question.keys])]
    parts += [(e.says, [c for c in found if _is(c, e) and c.key not in question.keys]) for e in question.each]
    there = [(says, some) for says, some in parts if some]
    return Section(
        name=f"versus-{question.check}",
        title=question.title,
        question=question.asks,
        findings=tuple(_findings(there, names, matching)),
        figures=tuple(_figure(question, says, some, names) for says, some in there),
        tables=tuple(_table(question, says, some, names, matching) for says, some in there),
        reading=question.reading,
    )


def _is(contrast: Contrast, each: Each) -> bool:
    return contrast.key.measure == each.measure and contrast.key.at == each.at


def _name(question: Question, says: str) -> str:
    return slug(f"versus {question.check} {says}")


def _figure(question: Question, says: str, found: Sequence[Contrast], names: Names) -> Figure:
    marks = [
        Interval(c.key.words, *_numbers(row), series=name)
        for c in found
        for name, row in zip(names, (c.a, c.b), strict=True)
    ]
    return dots(Words(_name(question, says), capital(says) or question.title), marks)


def _numbers(row: Mapping[str, Any] | None) -> tuple[float, float | None, float | None]:
    return (float("nan"), None, None) if row is None else (float(row["mean"]), row["low"], row["high"])


def _table(question: Question, says: str, found: Sequence[Contrast], names: Names, matching: Matching) -> Table:
    how = "paired over texts" if matching.same else "unpaired"
    columns = (
        Column("method" if says else ""),
        *(Column(name) for name in names),
        Column("difference", says=f"{names[0]} − {names[1]}, {how}; intervals are of 95 %"),
        Column("texts"),
        Column("p", says="after Holm's correction over all rows of this section"),
        Column("conclusion"),
    )
    return Table(
        _name(question, says), capital(says) or question.title, columns, tuple(_cells(c, names) for c in found)
    )


def _cells(c: Contrast, names: Names) -> tuple[str | None, ...]:
    shown = [None if row is None else interval(row) for row in (c.a, c.b)]
    if c.difference is None:
        return (c.key.words, *shown, None, None, None, None)
    p = _p(c.holm) if c.says != "too few texts" else None  # which would decide something
    return (c.key.words, *shown, interval(c.gap), _counted(c), p, _says(c, names))


def _counted(c: Contrast) -> str:
    n, m = c.texts
    return f"{n:,}" if n == m else f"{n:,} and {m:,}"


def _p(p: float) -> str:
    return "<\u00a0.001" if p < LEAST else "1" if p >= 0.9995 else f"{p:.3f}".removeprefix("0")


def _says(c: Contrast, names: Names) -> str:
    return f"{c.says} in {names[0]}" if c.says in ("higher", "lower") else _PLAIN.get(c.says, c.says)


_PLAIN = {"cannot tell": "cannot be told apart"}


# sentences


def _findings(parts: Sequence[tuple[str, Sequence[Contrast]]], names: Names, matching: Matching) -> Iterator[str]:
    for says, found in parts:
        if says:
            yield _tally(says, found, names)
            found = [c for c in found if c.key.method == ATTENTION]
        yield from (_sentence(c, names, matching) for c in found)


def _sentence(c: Contrast, names: Names, matching: Matching) -> str:
    """A number of both, their difference, and what may be said of it."""
    shown = ", ".join(f"{name} {interval(row) if row else '–'}" for name, row in zip(names, (c.a, c.b), strict=True))
    head = f"{capital(c.key.says)}: {shown}"
    if c.difference is None:
        return f"{head}; there is nothing to compare."
    return f"{head}; difference {interval(c.gap)}: {_says(c, names)} ({_how(c, matching)})."


def _how(c: Contrast, matching: Matching) -> str:
    n, m = c.texts
    over = f"paired over {texts(n)}" if matching.same else f"{n:,} and {m:,} texts, unpaired"
    sign = "" if c.holm < LEAST else "=\u00a0"
    return over if c.says == "too few texts" else f"{over}, p\u00a0{sign}{_p(c.holm)}"


def _tally(says: str, found: Sequence[Contrast], names: Names) -> str:
    """How many methods are higher in one run than in the other."""
    words = {
        "higher": f"higher in {names[0]}",
        "lower": f"higher in {names[1]}",
        "cannot tell": "cannot be told apart",
        "too few texts": f"fewer than {MINIMUM} texts, too few to decide",
    }
    told = [c for c in found if c.difference is not None]
    groups = [(said, [c.key.method for c in told if c.says == word]) for word, said in words.items()]
    parts = "; ".join(f"{said}: {_listed(some)}" for said, some in groups if some) or "nothing to compare"
    return f"{capital(says)}, of {len(told)} methods and controls in both runs: {parts}."


def _listed(methods: Sequence[str]) -> str:
    return f"{len(methods)} ({listed(methods)})" if len(methods) <= NAMED else f"{len(methods)}"


def _headlines(found: Mapping[str, Sequence[Contrast]], names: Names, matching: Matching) -> Iterator[str]:
    by_words = {
        c.key.words: c for some in found.values() for c in some if not c.key.method or c.key.check == "agreement"
    }
    for headline in HEADLINES:
        contrast = by_words.get(headline.words)
        if contrast is not None and contrast.difference is not None:
            yield _headline(headline, contrast, names, matching)


def _headline(headline: Headline, c: Contrast, names: Names, matching: Matching) -> str:
    sides = f"{headline.symbol} {interval(c.a)} against {interval(c.b)}, difference {interval(c.gap)}"
    said = headline.sentence.format(a=names[0], b=names[1], more=_more(c))
    opening = {
        "too few texts": f"There are too few texts to decide whether {said}",
        "cannot tell": f"It cannot be told whether {said}",
    }.get(c.says, capital(said))
    return f"{opening}: {sides} ({_how(c, matching)})."


def _more(c: Contrast) -> str:
    word = "less" if c.says == "lower" else "more"
    far = (
        c.difference is not None and c.says in ("higher", "lower") and max(c.difference.low, -c.difference.high) >= FAR
    )
    return f"far {word}" if far else word


def _paired(matching: Matching, a: Record, b: Record) -> str:
    n, m = (record.summary["texts"]["n"] for record in (a, b))
    if matching.same:
        whole = f"Both runs have the same {texts(n)}" if n == m else f"{texts(len(matching.a))} are in both runs"
        return f"{whole}: what is compared is over them, and differences are paired."
    shared = f"; {texts(len(matching.a))} in both" if len(matching.a) else ""
    return f"The runs have different texts ({n:,} and {m:,}{shared}): differences are unpaired."


# about the runs


def _facts(a: Record, b: Record, names: Names, matching: Matching) -> Iterator[tuple[str, str]]:
    yield from ((name, _fact(record)) for name, record in zip(names, (a, b), strict=True))
    yield "differences", f"paired over {texts(len(matching.a))}" if matching.same else "unpaired"


def _fact(record: Record) -> str:
    manifest, told = record.run.manifest, record.summary["texts"]
    model, data = (what.get("name") for what in (manifest.model, manifest.data))
    right = f"right on {interval(told['accuracy'])}" if told.get("accuracy") else "without labels"
    return f"model {model}; data {data}; {texts(told['n'])}, {right}; seed {manifest.seed}"


def _verdicts(a: Record, b: Record, names: Names) -> Section:
    """The verdicts on each reading of attention; a run that an older version made has none."""
    told = [_told(record) for record in (a, b)]
    readings = sorted(dict.fromkeys([*told[0], *told[1]]), key=lambda reading: reading != ATTENTION)
    said = [_said(name, side, readings[0]) for name, side in zip(names, told, strict=True) if readings]
    rows = (
        *((f"verdict by {r}", *(str(side[r]["word"]) if r in side else None for side in told)) for r in readings),
        *_shares([side.get(readings[0]) for side in told] if readings else []),
        ("right answers", *(interval(record.summary["texts"].get("accuracy")) for record in (a, b))),
        ("labels", *(", ".join(record.labels) for record in (a, b))),
    )
    return Section(
        "versus-verdicts",
        "Verdicts",
        "What may be said of attention as an explanation of each?",
        tuple(said) or ("Neither run has a verdict.",),
        tables=(Table("versus-verdicts", "Verdicts", (Column(""), *map(Column, names)), rows, SHARES),),
    )


def _shares(judged: Sequence[Mapping[str, Any] | None]) -> Iterator[tuple[str | None, ...]]:
    """What each question found, of the first reading in both runs."""
    for i, short in enumerate(SHORT.values() if judged else ()):
        yield f"{short}, share", *(None if one is None else share(one["answers"][i]) for one in judged)


def _said(name: str, told: Mapping[str, Mapping[str, Any]], reading: str) -> str:
    own = told.get(reading)
    return f"{name}: {own['word']} ({reading}): {own['reason']}." if own else f"{name} has no verdict by {reading}."


def _told(record: Record) -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = record.summary.get("verdicts") or {}
    return found


def _differences(a: Record, b: Record, names: Names) -> Section:
    found = tuple(_change(one) for one in a.run.manifest.differences(b.run.manifest))
    columns = (Column(""), *(Column(name) for name in names))
    said = "What is listed here differs; all else is the same." if found else "Nothing: both are runs of the same."
    tables = (Table("versus-differences", "What differs", columns, found),) if found else ()
    return Section("versus-differences", "What differs", "What was otherwise in the two runs?", (said,), tables=tables)


def _change(told: str) -> tuple[str, str | None, str | None]:
    """What a manifest says of another, in three cells; in one where its words could be taken apart in two ways."""
    if (found := _ONE_SIDED.fullmatch(told)) is not None:
        return (found["what"], None, "yes") if found["who"] == "new" else (found["what"], "yes", None)
    found = _CHANGE.fullmatch(told)
    if found is None or told.count(" then, ") > 1:
        return told, None, None
    return found["what"], found["a"].removeprefix("fingerprint "), found["b"]


def _limits(a: Record, b: Record, matching: Matching) -> Iterator[str]:
    one, other = a.run.manifest, b.run.manifest
    yield "A difference says that two runs differ, and not which explanation is right."
    if a.labels != b.labels:
        labels = f"{', '.join(a.labels)} and {', '.join(b.labels)}"
        yield f"The models have different labels ({labels}): a change of the answer is not the same thing in both."
    if one.data.get("fingerprint") != other.data.get("fingerprint"):
        yield "The data differ: what is a difference of the models and what of the data cannot be told."
    if not matching.same:
        yield (
            "Unpaired intervals are from the means, standard deviations, numbers of texts and intervals of the two "
            "summaries. They take the texts of both runs as drawn independently."
        )
    if any(told.startswith("setting checks.") for told in one.differences(other)):
        yield "Checks had different settings in the two runs (see what differs): their numbers may not be of the same."
    if any(record.summary["texts"]["n"] < MINIMUM for record in (a, b)):
        yield f"Below {MINIMUM} texts nothing is decided."
    yield f"“Far” is said of a difference whose whole 95 % interval lies beyond {FAR}."


__all__ = ["named", "versus"]
