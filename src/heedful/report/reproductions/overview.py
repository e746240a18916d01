"""Overview: several reproductions in one Markdown file: published beside ours, findings, and what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from heedful.core.settings import text_of
from heedful.report.document import Column, Document, Section, Table
from heedful.report.markdown import markdown
from heedful.report.phrases import fixed
from heedful.report.reproductions import RULE, sections, with_names
from heedful.report.study import report
from heedful.studies.outcome import Outcome
from heedful.studies.reproduction.published import Judgement

WRITTEN = "Written by “heedful reproduce all”, with the settings that each paper names below."
KEPT = ("published-", "findings", "not-run")  # names of sections, or their beginnings
COLUMNS_NOTE = (
    "In the tables, ours is the mean over k trainings, s their standard deviation, SE the standard error over texts; a "
    "published number is inside within this distance of our mean. What differs from the paper's set-up stands in the "
    "last column, or below the table where it is the same for all numbers."
)


def overview(outcomes: Sequence[Outcome]) -> str:
    """One file of all papers, without figures and texts."""
    outcomes = list(map(with_names, outcomes))
    return markdown(
        Document(
            title="The papers, reproduced",
            verdict="",
            sentences=(WRITTEN, RULE, COLUMNS_NOTE),
            facts=(),
            answers=(),
            sections=(_summary(outcomes), *(section for outcome in outcomes for section in _sections(outcome))),
            limits=(),
            cite="",
            ran={},
        )
    )


def _summary(outcomes: Sequence[Outcome]) -> Section:
    """A row for each paper; then every number that is outside, with what differs."""
    rows, outside = [], []
    for outcome in outcomes:
        comparisons, claims = outcome.result.comparisons, outcome.result.claims
        judged, held = Counter(c.judgement for c in comparisons), Counter(claim.holds for claim in claims)
        measured = sum(c.ours is not None for c in comparisons)
        counts = (judged[Judgement.INSIDE], judged[Judgement.OUTSIDE], held[True], held[False], held[None])
        rows.append((outcome.study, len(comparisons), measured, *counts, outcome.seconds / 60))
        outside += [
            (
                outcome.study,
                ", ".join(filter(None, c.published.key)),
                fixed(c.published.value, c.published.digits),
                c.ours.mean,
                c.limit,
                c.reason,
            )
            for c in comparisons
            if c.judgement is Judgement.OUTSIDE and c.ours is not None
        ]
    heads = ("paper", "published", "measured", "inside", "outside", "hold", "do not hold", "undecided", "CPU minutes")
    papers = Table(
        "papers",
        "Published numbers, and findings",
        tuple(Column(head, 0) for head in heads),
        tuple(rows),
        "What was measured and is neither inside nor outside cannot be compared: each table says why.",
    )
    names = ("paper", "number", "published", "ours", "within", "what differs")
    columns = tuple(Column(name, 3) for name in names)
    misses = Table("outside", "Published numbers that are outside", columns, tuple(outside))
    question = "How much of each paper do we find again?"
    return Section("summary", "Summary", question, (), tables=(papers, misses) if outside else (papers,))


def _sections(outcome: Outcome) -> list[Section]:
    """The first section with the facts of the run, then those with published numbers and findings."""
    document = report(outcome)
    first, *others = sections(outcome)
    facts = "; ".join(f"{name}: {value}" for name, value in document.facts)
    values = outcome.manifest.settings["settings"].items()
    settings = f"Settings: {', '.join(f'{name}={_setting(value)}' for name, value in values)}."
    head = replace(
        first,
        title=f"{outcome.about.title} ({outcome.about.paper})",
        findings=(*document.sentences, facts, settings),
        tables=tuple(replace(table, caption="") for table in first.tables),
    )
    return [head, *(_short(outcome, s) for s in others if s.name.startswith(KEPT))]


def _setting(value: Any) -> str:
    """As on the command line; of a folder, its name."""
    return Path(value).name if isinstance(value, str) else text_of(tuple(value) if isinstance(value, list) else value)


def _short(outcome: Outcome, section: Section) -> Section:
    """Its first table, without what is said once for all."""
    tables = [replace(t, columns=tuple(replace(c, says="") for c in t.columns)) for t in section.tables[:1]]
    title = f"{outcome.study}: {section.title}"
    return replace(section, title=title, question="", figures=(), reading="", tables=tuple(tables))
