"""Reports: a run put together as one report. Needs no torch and no model: the run folder has all that is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from heedful import __version__
from heedful.audits.record import Record
from heedful.audits.summary import evidence
from heedful.audits.verdict import ATTENTION, Rule, verdict, verdicts
from heedful.core.files import json_value
from heedful.report.document import Column, Report, Section, Table
from heedful.report.examples import examples
from heedful.report.ranking import ranking_section
from heedful.report.sections import sections
from heedful.report.telling import interval, texts
from heedful.report.verdict import Judged, sentences, verdict_section
from heedful.report.words import words

LIMITS = (
    "Everything here is about this model on these texts. Intervals are over texts, taken as a sample of those that the "
    "model will meet.",
    "The verdict is on attention as it is read here (the pooled position, the last layer, the mean of heads, unless "
    "the settings say otherwise) and says nothing of what attention could be made to do by training.",
    "Leave-one-out, erasure and their kind ask about texts without some of their words, which the model may never have "
    "seen. Where the order of methods depends on how words are taken away, neither order is the truth.",
    "That a method follows the model does not make it plausible to people, and the other way round.",
    "Nothing is decided on fewer than 30 texts.",
)


def report(record: Record, rule: Rule | None = None) -> Report:
    """The whole report; with `rule`, the verdict is found anew by its constants."""
    verdicts = judged(record, rule)
    first = rule.attention if rule is not None else "attention-mean"
    head = verdicts.get(first) or _unread(first)
    ranking = ranking_section(record)
    answers = [verdict_section(verdicts, first)] if first in verdicts else []
    asked = sections(record)
    return Report(
        title=f"{name_of(record)}: which explanations deserve to be heeded?",
        verdict=head["word"],
        sentences=sentences(head),
        facts=tuple(facts(record)),
        answers=(*answers, *([ranking] if ranking else [])),
        sections=tuple(_filled([*asked, examples(record), words(record), *_left_out(record)])),
        limits=LIMITS,
        cite=_cite(record, asked),
        ran=record.run.manifest.to_dict(),
    )


def judged(record: Record, rule: Rule | None = None) -> Mapping[str, Judged]:
    """The verdict on each reading of attention that the run has, the summary's own or by another rule."""
    if rule is None and "verdicts" in record.summary:
        told: Mapping[str, Judged] = record.summary["verdicts"]
        return told
    base = rule or Rule()
    given: dict[str, dict[str, Any]] = {name: {} for name in record.methods if name in (*ATTENTION, base.attention)}
    for check in record.checks:
        found = record.found(check)
        for name, own in given.items():
            own |= evidence(check, found, name, base.reference)
    return {name: json_value(one.to_dict()) for name, one in verdicts(given, base).items()}


def name_of(record: Record) -> str:
    """The model's short name."""
    return PurePath(str(record.run.manifest.model.get("name") or "the model")).name or "the model"


def facts(record: Record) -> list[tuple[str, str]]:
    """What was audited, in a few words."""
    manifest, told = record.run.manifest, record.summary["texts"]
    spent = record.timing.get("seconds")
    right = told.get("accuracy")
    return [
        ("model", str(manifest.model.get("name"))),
        ("labels", ", ".join(record.labels)),
        ("data", f"{manifest.data.get('name')}, {texts(told['n'])} of {manifest.data.get('texts', told['n']):,}"),
        ("the model is right on", interval(right) if right else "no labels were given"),
        ("tokens in a text", interval(told["tokens"])),
        ("methods and checks", f"{len(record.methods)} and {len(record.checks)}"),
        ("seed", str(manifest.seed)),
        ("CPU time", f"{spent / 60:,.1f} minutes" if spent else "–"),
    ]


def _cite(record: Record, asked: Sequence[Section]) -> str:
    """The run, the papers that its checks are after, and an entry for a bibliography."""
    run, data = record.run.manifest, record.run.manifest.data.get("name", "the data")
    number = texts(record.summary["texts"]["n"])
    papers = sorted({paper for one in asked for paper in one.source.split("; ") if paper})
    after = [f"The papers of its checks: {'; '.join(papers)}."] if papers else []
    told = f"heedful {__version__}, run {run.stamp}: {name_of(record)} on {data}, {number}, seed {run.seed}."
    return "\n".join([told, *after, entry(f"run {run.stamp}")])


def entry(note: str) -> str:
    """For BibTeX."""
    return (
        "@software{heedful, title = {heedful: which explanations of a text classifier deserve to be heeded}, "
        f"version = {{{__version__}}}, note = {{{note}}}}}"
    )


def _unread(name: str) -> Judged:
    return json_value(  # type: ignore[no-any-return]
        {**verdict({}, Rule(attention=name)).to_dict(), "reason": f"{name} was not among the run's methods"}
    )


def _filled(parts: list[Section]) -> list[Section]:
    return [one for one in parts if one.figures or one.tables or one.examples or one.findings]


def _left_out(record: Record) -> list[Section]:
    """What could not be done, and why."""
    rows = record.summary.get("left out", [])
    if not rows:
        return []
    columns = (Column("what"), Column("texts"), Column("why"))
    cells = tuple((" of ".join(filter(None, (r["check"], r["method"]))), r["texts"], r["reason"]) for r in rows)
    return [
        Section(
            name="left-out",
            title="What was left out",
            question="What could not be measured, and why?",
            findings=(f"{len(rows)} methods or checks could not be applied to some or all of the texts.",),
            tables=(Table("left-out", "Left out", columns, cells),),
        )
    ]
