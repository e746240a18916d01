"""Audit: the report of a run as one document. It reads the run folder only: no torch, no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from heedful import __version__
from heedful.audits.record import Record
from heedful.audits.verdict import NEEDED, Evidence, Reason, Rule, verdict
from heedful.checks import CHECKS
from heedful.data.selection import drop_reasons
from heedful.maths.stats import MINIMUM
from heedful.report.document import NOT_MEASURED, Column, Document, Section, Table, cells
from heedful.report.examples import example_section
from heedful.report.html import environment
from heedful.report.looks import looks_sentences
from heedful.report.overview import overview
from heedful.report.phrases import DASH, and_list, count_texts, interval, percentage, prompt_text
from heedful.report.ranking import advice, ranking_section, recommended_method, table_of
from heedful.report.sections import sections
from heedful.report.verdict import conclusion, verdict_section, verdict_sentences
from heedful.report.words import word_section


def report(record: Record, rule: Rule | None = None) -> Document:
    """The whole report; `rule` recomputes the verdict with other constants."""
    verdicts = record.verdicts(rule)
    base = rule or record.summary.looks.rule
    first = base.attention
    head = verdicts.get(first) or replace(verdict(Evidence(), base), reason=Reason.NOT_AMONG_METHODS)
    ranking = ranking_section(record)
    checks = sections(record)
    return Document(
        title=f"{record.model_name}: which explanations deserve to be heeded?",
        verdict=head.word,
        sentences=(*verdict_sentences(head), *looks_sentences(record, head)),
        facts=tuple(_facts(record)),
        answers=(
            *([ranking] if ranking else []),
            *([verdict_section(verdicts, first)] if first in verdicts else []),
            *overview(record),
        ),
        sections=(*checks, *_filled(example_section(record), word_section(record)), *_left_out(record)),
        limits=_limits(base),
        cite=_cite(record, checks),
        ran=record.run.manifest.to_dict(),
        advice=advice(record),
        conclusion=conclusion(recommended_method(record), head),
        rows=tuple(row for name in record.checks for row in record.rows(name)),
    )


def _limits(rule: Rule) -> tuple[str, ...]:
    return (
        "All results hold for this model on these texts. Intervals are over texts, as a sample of the texts that the "
        "model will be used on.",
        "The verdict is about one reading of attention: by default the pooled position, the last layer, the mean over "
        "heads. Another training may give other attention.",
        "Leave-one-out, erasure and similar methods evaluate texts without some of their words, which the model may "
        "never have seen. Where the ranking of methods depends on the masking, no ranking is the true one.",
        "A method that follows the model need not be plausible to people, nor a plausible one faithful to the model.",
        f"Nothing is decided on fewer than {MINIMUM} texts"
        + (f", and no verdict is given on fewer than {rule.texts}." if rule.texts != MINIMUM else "."),
    )


def _facts(record: Record) -> list[tuple[str, str]]:
    """What was audited."""
    manifest, about = record.run.manifest, record.summary.texts
    return [
        ("model", str(manifest.model.get("name"))),
        *([("prompt", prompt_text(manifest.model["prompt"]))] if "prompt" in manifest.model else []),
        ("labels", ", ".join(record.labels)),
        ("data", f"{manifest.data.get('name')}, {count_texts(about.n)} of {manifest.data.get('texts', about.n):,}"),
        *([("dropped texts", drop_reasons(manifest.data["dropped"]))] if "dropped" in manifest.data else []),
        ("accuracy", percentage(about.accuracy) if about.accuracy else "unknown: the data have no labels"),
        ("tokens per text", interval(about.tokens)),
        ("methods and checks", f"{len(record.methods)} and {len(record.checks)}"),
        *([(NOT_MEASURED, left_out)] if (left_out := _not_measured(record)) else []),
        ("seed", str(manifest.seed)),
        ("CPU time", f"{record.seconds / 60:,.1f} minutes" if record.seconds else DASH),
        *([("machines", _mixed(kinds))] if len(kinds := record.timing.get("machines", ())) > 1 else []),
    ]


def _not_measured(record: Record) -> str:
    """What a run for the verdict and the ranking alone leaves out, and the command that adds it; else empty."""
    missing = [name for name in CHECKS if name not in record.run.manifest.settings.get("checks", {})]
    ranks, used = record.check_for("ranking"), record.check_for("used")
    if not missing or ranks is None or used is None or any(record.check_for(role) is None for role in NEEDED):
        return ""
    parts = [
        f"the checks {and_list(missing)}" if len(missing) > 1 else f"the check {missing[0]}",
        *([] if record.settings(ranks).get("random_curves", True) else ["curves of random orders"]),
        *(["other maskings"] if len(record.summary.rankings) == 1 else []),
        *([] if record.settings(used).get("layer_draws", 1) else ["single layers and heads"]),
    ]
    return (
        f"{'; '.join(parts)}. To add them to this run, repeat its command with --profile standard and without --checks."
    )


def _mixed(kinds: Sequence[Mapping[str, Any]]) -> str:
    """The kinds of machines that computed a run, where there were several."""
    shown = ("cpu", "instructions", "device", "python", "torch")
    differing = [name for name in shown if len({kind.get(name) for kind in kinds}) > 1]
    names = [f"{', '.join(str(kind.get(name)) for name in differing)} ({count_texts(kind['texts'])})" for kind in kinds]
    return f"of {len(kinds)} kinds, so that last digits may depend on which computed a text: {'; '.join(names)}"


def _cite(record: Record, checks: Sequence[Section]) -> str:
    """The run, the papers of its checks, and a BibTeX entry."""
    run, data = record.run.manifest, record.run.manifest.data.get("name", "the data")
    papers = sorted({paper for section in checks for paper in section.source.split("; ") if paper})
    after = [f"Papers of its checks: {'; '.join(papers)}."] if papers else []
    number = count_texts(record.summary.texts.n)
    first = f"heedful {__version__}, run {run.stamp}: {record.model_name} on {data}, {number}, seed {run.seed}."
    return "\n".join([first, *after, bibtex(f"run {run.stamp}")])


def bibtex(note: str) -> str:
    """A BibTeX entry."""
    return (
        "@software{heedful, title = {heedful: which explanations of a text classifier deserve to be heeded}, "
        f"version = {{{__version__}}}, note = {{{note}}}}}"
    )


def _filled(*sections: Section) -> list[Section]:
    return [s for s in sections if s.figures or s.tables or s.examples or s.findings]


def _left_out(record: Record) -> tuple[Section, ...]:
    """What was not measured, and why."""
    rows = record.summary.left_out
    if not rows:
        return ()
    columns = (Column("check, or check of method"), Column("texts"), Column("why"))
    cells = tuple((" of ".join(filter(None, (row.check, row.method))), row.texts, row.reason) for row in rows)
    section = Section(
        name="left-out",
        title="What was left out",
        question="What was not measured, and why?",
        findings=(f"{len(rows)} methods or checks could not be applied to some or all of the texts.",),
        tables=(Table("left-out", "Left out", columns, cells),),
    )
    return (section,)


NOTEBOOK_METHODS = 5  # methods in the table of a notebook


def audit_fragment(record: Record) -> str:
    """A fragment for a notebook: which explanation to use, the verdict on attention, and the best methods."""
    first = record.summary.verdicts.get(Rule().attention)
    ranked = [ranking for ranking in record.summary.rankings if ranking.methods][:1]
    table = cells(table_of(record, ranked[0], 1))[:NOTEBOOK_METHODS] if ranked else []
    return environment({}).get_template("audit-notebook.html.j2").render(
        title=f"{record.model_name}, {count_texts(record.summary.texts.n)}",
        sentences=[advice(record)[0], *(verdict_sentences(first)[:1] if first else [])],
        heads=["method", "rank", "score", "texts", "passes"],
        rows=[row[:5] for row in table],
    )  # fmt: skip
