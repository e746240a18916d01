"""Overview: several reproductions in one Markdown file: published beside ours, findings, and what differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from heedful.report.document import Document, Section
from heedful.report.markdown import markdown
from heedful.report.reproductions import RULE, sections
from heedful.report.study import report
from heedful.studies.outcome import Outcome

KEPT = ("published-", "findings", "not-run")  # names of sections, or their beginnings


def overview(outcomes: Sequence[Outcome]) -> str:
    """One file of all papers, without figures and texts."""
    return markdown(
        Document(
            title="The papers, reproduced",
            verdict="",
            sentences=(RULE,),
            facts=(),
            answers=(),
            sections=tuple(section for outcome in outcomes for section in _sections(outcome)),
            limits=(),
            cite="",
            ran={},
        )
    )


def _sections(outcome: Outcome) -> list[Section]:
    """The first section with the facts of the run, then those with published numbers and findings."""
    document = report(outcome)
    first, *others = sections(outcome)
    facts = "; ".join(f"{name}: {value}" for name, value in document.facts)
    kept = [s for s in others if s.name.startswith(KEPT)]
    head = replace(first, title=f"{outcome.about.title} ({outcome.about.paper})", findings=(*document.sentences, facts))
    return [
        head,
        *(replace(s, title=f"{outcome.study}: {s.title}", figures=(), reading="", tables=s.tables[:1]) for s in kept),
    ]
