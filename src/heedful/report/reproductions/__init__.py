"""Reproductions: every published number beside ours, and every published finding; then the paper's own sections."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from heedful.report.charts import Interval, Words, dots
from heedful.report.charts.frame import LABELS
from heedful.report.charts.svg import width_of
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import Cell, capital, exists, fixed, interval, slug
from heedful.report.sections import section_maker
from heedful.report.studies import sections as study_sections
from heedful.report.studies import study_section
from heedful.studies.folder import is_study
from heedful.studies.outcome import Outcome, load_outcome
from heedful.studies.reproduction import PAPERS
from heedful.studies.reproduction.published import Claim, Comparison, Judgement

RULE = (
    "A published number is inside if it is at most t·√(s²(1 + 1/k) + SE²), and its rounding, away from our mean: s is "
    "the standard deviation over k trainings, SE the standard error over texts, t Student's quantile at 95 %."
)
FINDINGS_NOTE = "Intervals at 95 %, over texts for these trainings unless the measure says otherwise."
HOLDS = {True: "holds", False: "does not hold", None: "undecided"}
HOLD = {True: "hold", False: "do not hold", None: "undecided"}  # of several
MAX_ROWS = 40  # numbers of one figure


def sections(outcome: Outcome) -> list[Section]:
    """What agrees; every published table; the findings; what was not run; the paper's own sections."""
    comparisons, claims = outcome.result.comparisons, outcome.result.claims
    measured = [c for c in comparisons if c.ours is not None]
    tables = list(dict.fromkeys(c.published.table for c in measured))
    make = section_maker(f"{__name__}.{outcome.study}", "sections")
    return [
        study_section(outcome, summary_sentences(outcome), tables=[_counts(comparisons)] if comparisons else []),
        *(_beside(name, [c for c in measured if c.published.table == name]) for name in tables),
        *_findings(claims),
        *(make(outcome) if make is not None else ()),
        *_studies(outcome),
        *_not_run([c for c in comparisons if c.ours is None]),
        *_parts(outcome),
    ]


def data_namer(outcome: Outcome) -> Callable[[str], str]:
    """A function that calls the paper's data sets in a text as the world does: "heads, SST-2" for "heads, sst"."""
    names = {data.name: data.short for data in PAPERS[outcome.study].data}
    return lambda text: re.sub(r"[\w-]+", lambda word: names.get(word[0], word[0]), text)


def with_names(outcome: Outcome) -> Outcome:
    """The outcome with data sets as the world calls them: "SST-2" for "sst"."""
    named = data_namer(outcome)

    def rename(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: named(x) if key == "data" and isinstance(x, str) else rename(x) for key, x in value.items()}
        return [rename(x) for x in value] if isinstance(value, list) else value

    result, manifest = outcome.result, outcome.manifest
    numbers = (replace(c, published=replace(c.published, data=named(c.published.data))) for c in result.comparisons)
    return replace(
        outcome,
        manifest=replace(manifest, data={**manifest.data, "name": named(str(manifest.data.get("name")))}),
        result=replace(
            result,
            comparisons=tuple(numbers),
            claims=tuple(replace(c, data=named(c.data)) for c in result.claims),
            rows=tuple(replace(row, at=rename(row.at)) for row in result.rows),
            details=rename(result.details),
            notes=tuple(map(named, result.notes)),
        ),
    )


def summary_sentences(outcome: Outcome) -> list[str]:
    """How many numbers are inside and outside, and how many findings hold."""
    comparisons, claims = outcome.result.comparisons, outcome.result.claims
    judged = Counter(c.judgement for c in comparisons)
    inside, outside = judged[Judgement.INSIDE], judged[Judgement.OUTSIDE]
    sentences = []
    if comparisons:
        measured = sum(c.ours is not None for c in comparisons)
        compared = f"{inside} of {inside + outside} are inside" if inside + outside else "none could be judged"
        sentences.append(f"Of {_count(len(comparisons), 'published number')}, {measured} were measured; {compared}.")
    if claims:
        held = Counter(claim.holds for claim in claims)
        sentences.append(
            f"Of {_count(len(claims), 'published finding')}, {held[True]} hold, {held[False]} do not, and {held[None]} "
            "are undecided."
        )
    return sentences


def _counts(comparisons: Sequence[Comparison]) -> Table:
    """How many numbers of each table are inside, outside, and not compared."""
    tables = list(dict.fromkeys(c.published.table for c in comparisons))
    rows: list[tuple[Cell, ...]] = []
    for table in tables:
        judged = Counter(c.judgement for c in comparisons if c.published.table == table)
        rows.append((table, *(judged[judgement] for judgement in Judgement)))
    columns = (Column("published"), *(Column(judgement.value, 0) for judgement in Judgement))
    return Table("reproduction-counts", "Published numbers", columns, tuple(rows), RULE)


def _beside(name: str, comparisons: Sequence[Comparison]) -> Section:
    """A published table: each number beside ours."""
    columns: tuple[Column, ...] = (
        Column("data"),
        Column("row"),
        Column("column"),
        Column("published"),
        Column("ours", 3, "mean over trainings"),
        Column("s", 3, "standard deviation over trainings"),
        Column("SE", 3, "standard error over texts"),
        Column("k", 0, "trainings"),
        Column("within", 3, "of our mean a published number is inside"),
        Column("judgement"),
        Column("reason", 2, "why it was not compared, or how our set-up differs"),
    )
    rows = [_row(c) for c in comparisons]
    caption = _shared_reason(comparisons)
    if caption:
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    judged = Counter(c.judgement for c in comparisons)
    counts = ", ".join(f"{judged[judgement]} {judgement.value}" for judgement in Judgement if judged[judgement])
    return Section(
        name=f"published-{slug(name)}",
        title=name,
        question="Does each published number agree with ours?",
        findings=(f"{_count(len(comparisons), 'number')}: {counts}.",),
        figures=_figures(name, comparisons),
        tables=(Table(f"published-{slug(name)}", f"{name}: published beside ours", columns, tuple(rows), caption),),
    )


def _shared_reason(comparisons: Sequence[Comparison]) -> str:
    """A reason that all numbers share, or all of a data set: said once, below the table. Empty where they differ."""
    if len(reasons := {c.reason for c in comparisons}) == 1:
        return f"{capital(reasons.pop())}."
    by_data = list(dict.fromkeys((c.published.data, c.reason) for c in comparisons))
    if len({data for data, _ in by_data}) < len(by_data):
        return ""
    return f"{capital('; '.join(f'{data}: {reason}' for data, reason in by_data if reason))}."


def _row(c: Comparison) -> tuple[Cell, ...]:
    p, ours = c.published, c.ours
    assert ours is not None
    return (
        p.data,
        p.row,
        p.column,
        fixed(p.value, p.digits) + ("" if p.verified else " (unverified)"),
        *(x if exists(x) else None for x in (ours.mean, ours.spread, ours.error)),
        ours.trainings,
        c.limit if exists(c.limit) else None,
        c.judgement.value,
        c.reason,
    )


def _figures(name: str, comparisons: Sequence[Comparison]) -> tuple[Figure, ...]:
    """One figure; or one for each data set, where the numbers are many or their names do not fit."""
    if len(comparisons) <= MAX_ROWS and max(map(width_of, _labels(comparisons))) <= LABELS:
        return (_figure(name, comparisons),)
    data = dict.fromkeys(c.published.data for c in comparisons)
    return tuple(_figure(f"{name}, {one}", [c for c in comparisons if c.published.data == one]) for one in data)


def _labels(comparisons: Sequence[Comparison]) -> list[str]:
    """Data, row and column of each number, without what all share."""
    places = [(c.published.data, c.published.row, c.published.column) for c in comparisons]
    differ = [i for i in range(3) if len({place[i] for place in places}) > 1] or [0]
    return [", ".join(dict.fromkeys(place[i] for i in differ)) for place in places]


def _figure(name: str, comparisons: Sequence[Comparison]) -> Figure:
    """Ours with the limits of what is inside, and the published number below."""
    shown = comparisons[:MAX_ROWS]
    marks = []
    for c, label in zip(shown, _labels(shown), strict=True):
        p, ours = c.published, c.ours
        assert ours is not None
        low, high = (ours.mean - c.limit, ours.mean + c.limit) if exists(c.limit) else (None, None)
        marks += [
            Interval(label, ours.mean, low, high, "ours"),
            Interval(label, p.value, None, None, "published", "" if p.verified else "unverified"),
        ]
    more = f" The first {MAX_ROWS} numbers." if len(comparisons) > MAX_ROWS else ""
    caption = f"A bar spans what is inside: one more training, on other texts.{more}"
    return dots(Words(f"published-{slug(name)}-numbers", f"{name}: published and ours", "", caption=caption), marks)


def _findings(claims: Sequence[Claim]) -> list[Section]:
    if not claims:
        return []
    columns = (
        Column("finding"),
        Column("data"),
        Column("measure"),
        Column("n", 0),
        Column("ours", 2, "95 % interval"),
        Column("expected"),
        Column("verdict"),
    )
    rows = tuple(
        (
            f"{claim.finding} ({claim.source})",
            claim.data,
            claim.measure,
            claim.difference.n,
            interval(claim.difference),
            f"within ±{claim.margin:g}" if claim.expected == "equal" else f"{claim.expected} than 0",
            HOLDS[claim.holds],
        )
        for claim in claims
    )
    table = Table("published-findings", "Published findings", columns, rows, FINDINGS_NOTE)
    question = "Do the paper's findings that are no single number hold here?"
    held = Counter(claim.holds for claim in claims)
    counts = ", ".join(f"{held[key]} {(HOLDS if held[key] == 1 else HOLD)[key]}" for key in HOLDS if held[key])
    return [Section("findings", "Findings", question, (f"{capital(counts)}.",), tables=(table,))]


def _not_run(comparisons: Sequence[Comparison]) -> list[Section]:
    """Published numbers without one of ours: how many, by data set, and why."""
    if not comparisons:
        return []
    reasons = Counter((c.published.data, c.reason) for c in comparisons)
    columns = (Column("data"), Column("numbers", 0), Column("reason"))
    rows = tuple((data, n, reason) for (data, reason), n in reasons.items())
    every = [
        (p.table, p.data, p.row, p.column, fixed(p.value, p.digits), "" if p.verified else "unverified", p.source)
        for p in (c.published for c in comparisons)
    ]
    heads = ("table", "data", "row", "column", "published", "status", "source")
    return [
        Section(
            name="not-run",
            title="Not run",
            question="Which published numbers have none of ours beside them, and why?",
            findings=(f"{_count(len(comparisons), 'published number')} were not measured.",),
            tables=(
                Table("not-run", "Reasons", columns, rows),
                Table("not-run-numbers", "The numbers", tuple(Column(head) for head in heads), tuple(every)),
            ),
        )
    ]


def _studies(outcome: Outcome) -> list[Section]:
    """The answer and the figures of each study inside; its own report has the rest."""
    if outcome.folder is None:
        return []
    named = data_namer(outcome)
    found = []
    for name, path in outcome.result.parts.items():
        if is_study(outcome.folder / path):
            inner = load_outcome(outcome.folder / path)
            section = study_sections(inner)[0]
            which = named(name.removeprefix(inner.study.replace("-", " ")).removeprefix(inner.study).strip())
            found.append(
                replace(
                    section,
                    name=slug(name),
                    title=f"{section.title}: {which}" if which else section.title,
                    findings=tuple(map(named, section.findings)),
                    figures=tuple(replace(f, name=f"{slug(name)}-{f.name}") for f in section.figures),
                    tables=(),
                )
            )
    return found


def further_sections(outcome: Outcome, part: str, which: str) -> list[Section]:
    """What a study inside has figures of, after the answer; `which` says in the titles what it was done to."""
    if outcome.folder is None or part not in outcome.result.parts:
        return []
    return [
        replace(
            one,
            name=f"{slug(part)}-{one.name}",
            title=f"{one.title}: {which}",
            figures=tuple(replace(f, name=f"{slug(part)}-{f.name}") for f in one.figures),
        )
        for one in study_sections(load_outcome(outcome.folder / outcome.result.parts[part]))[1:]
        if one.figures
    ]


def _parts(outcome: Outcome) -> list[Section]:
    """The folders of the audits and studies inside."""
    if not outcome.result.parts:
        return []
    table = Table(
        "parts", "Audits and studies", (Column("part"), Column("folder")), tuple(outcome.result.parts.items())
    )
    finding = "Each is a folder with a report.html of its own, which “heedful report FOLDER” writes in other formats."
    return [Section("parts", "Audits and studies", "What is inside this folder?", (finding,), tables=(table,))]


def _count(n: int, thing: str) -> str:
    return f"{n:,} {thing}{'' if n == 1 else 's'}"
