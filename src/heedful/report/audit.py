"""Audit: a run as one document. Needs no torch and no model: the run folder has all that it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from heedful import __version__
from heedful.audits.record import Record
from heedful.audits.verdict import Evidence, Reason, Rule, verdict
from heedful.maths.stats import MINIMUM
from heedful.report.document import Column, Document, Section, Table, cells
from heedful.report.examples import example_section
from heedful.report.html import environment
from heedful.report.overview import overview
from heedful.report.phrases import DASH, count_texts, interval, percentage
from heedful.report.ranking import advice, ranking_section, table_of
from heedful.report.sections import sections
from heedful.report.verdict import verdict_section, verdict_sentences
from heedful.report.words import word_section


def report(record: Record, rule: Rule | None = None) -> Document:
    """The whole report; with `rule`, the verdict is computed again by its constants."""
    verdicts = record.verdicts(rule)
    base = rule or Rule()
    first = base.attention
    head = verdicts.get(first) or replace(verdict(Evidence(), base), reason=Reason.NOT_AMONG_METHODS)
    ranking = ranking_section(record)
    checks = sections(record)
    return Document(
        title=f"{record.model_name}: which explanations deserve to be heeded?",
        verdict=head.word,
        sentences=verdict_sentences(head),
        facts=tuple(_facts(record)),
        answers=(
            *([ranking] if ranking else []),
            *([verdict_section(verdicts, first)] if first in verdicts else []),
            *overview(record),
        ),
        sections=(*checks, *_shown(example_section(record)), *_shown(word_section(record)), *_left_out(record)),
        limits=_limits(base),
        cite=_cite(record, checks),
        ran=record.run.manifest.to_dict(),
        advice=advice(record),
        rows=tuple(row for name in record.checks for row in record.rows(name)),
    )


def _limits(rule: Rule) -> tuple[str, ...]:
    return (
        "Everything here is about this model on these texts. Intervals are over texts, taken as a sample of those that "
        "the model will meet.",
        "The verdict is on attention as it is read here (the pooled position, the last layer, the mean of heads, "
        "unless the settings say otherwise) and says nothing of what attention could be made to do by training.",
        "Leave-one-out, erasure and similar methods evaluate texts without some of their words, which the model may "
        "never have seen. Where the order of methods depends on the masking, neither order is the truth.",
        "That a method follows the model does not make it plausible to people, and the other way round.",
        f"Nothing is decided on fewer than {MINIMUM} texts"
        + (f", and no verdict on fewer than {rule.texts}." if rule.texts != MINIMUM else "."),
    )


def _facts(record: Record) -> list[tuple[str, str]]:
    """What was audited, in a few words."""
    manifest, about = record.run.manifest, record.summary.texts
    return [
        ("model", str(manifest.model.get("name"))),
        ("labels", ", ".join(record.labels)),
        ("data", f"{manifest.data.get('name')}, {count_texts(about.n)} of {manifest.data.get('texts', about.n):,}"),
        ("accuracy", percentage(about.accuracy) if about.accuracy else "no labels were given"),
        ("tokens in a text", interval(about.tokens)),
        ("methods and checks", f"{len(record.methods)} and {len(record.checks)}"),
        ("seed", str(manifest.seed)),
        ("CPU time", f"{record.seconds / 60:,.1f} minutes" if record.seconds else DASH),
    ]


def _cite(record: Record, checks: Sequence[Section]) -> str:
    """The run, the papers of its checks, and an entry for a bibliography."""
    run, data = record.run.manifest, record.run.manifest.data.get("name", "the data")
    papers = sorted({paper for one in checks for paper in one.source.split("; ") if paper})
    after = [f"The papers of its checks: {'; '.join(papers)}."] if papers else []
    number = count_texts(record.summary.texts.n)
    first = f"heedful {__version__}, run {run.stamp}: {record.model_name} on {data}, {number}, seed {run.seed}."
    return "\n".join([first, *after, bibtex(f"run {run.stamp}")])


def bibtex(note: str) -> str:
    """An entry for a bibliography."""
    return (
        "@software{heedful, title = {heedful: which explanations of a text classifier deserve to be heeded}, "
        f"version = {{{__version__}}}, note = {{{note}}}}}"
    )


def _shown(section: Section) -> tuple[Section, ...]:
    return (section,) if section.figures or section.tables or section.examples or section.findings else ()


def _left_out(record: Record) -> tuple[Section, ...]:
    """What could not be done, and why."""
    rows = record.summary.left_out
    if not rows:
        return ()
    columns = (Column("what"), Column("texts"), Column("why"))
    left = tuple((" of ".join(filter(None, (one.check, one.method))), one.texts, one.reason) for one in rows)
    section = Section(
        name="left-out",
        title="What was left out",
        question="What could not be measured, and why?",
        findings=(f"{len(rows)} methods or checks could not be applied to some or all of the texts.",),
        tables=(Table("left-out", "Left out", columns, left),),
    )
    return (section,)


NOTEBOOK_METHODS = 5  # methods in the table of a notebook


def audit_fragment(record: Record) -> str:
    """A fragment for a notebook: which explanation to use, the verdict on attention, and the best methods."""
    first = record.summary.verdicts.get(Rule().attention)
    ranked = [one for one in record.summary.rankings if one.methods][:1]
    table = cells(table_of(record, ranked[0], 1))[:NOTEBOOK_METHODS] if ranked else []
    return environment({}).get_template("audit-notebook.html.j2").render(
        title=f"{record.model_name}, {count_texts(record.summary.texts.n)}",
        sentences=[advice(record)[0], *(verdict_sentences(first)[:1] if first else [])],
        heads=["method", "rank", "score", "texts", "passes"],
        rows=[row[:5] for row in table],
    )  # fmt: skip
