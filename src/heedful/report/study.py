"""Study: the report of a study as one document. It reads the study's folder only: no torch, no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from heedful import __version__
from heedful.maths.stats import MINIMUM
from heedful.report.audit import bibtex
from heedful.report.document import ColouredWord, Colouring, Column, Document, Section, Shown, Table
from heedful.report.phrases import DASH, capital, count_texts
from heedful.report.reproductions import with_names
from heedful.report.studies import sections
from heedful.studies.outcome import ExampleText, Outcome, TextsUsed
from heedful.studies.reproduction import PAPERS


def report(outcome: Outcome) -> Document:
    """The whole report: the study's own sections, the texts it used, its models, and its limits."""
    outcome = with_names(outcome) if outcome.study in PAPERS else outcome
    first, *others = sections(outcome)
    return Document(
        title=f"{outcome.about.title or outcome.study}: {outcome.manifest.model.get('name')}",
        verdict="",
        sentences=first.findings,
        facts=tuple(_facts(outcome)),
        answers=(),
        sections=(
            replace(first, findings=(_done(outcome),)),
            *others,
            _texts(outcome.result.texts),
            *_models(outcome),
            *_examples(outcome),
        ),
        limits=_limits(outcome),
        cite=_cite(outcome),
        ran=outcome.manifest.to_dict(),
        rows=outcome.result.rows,
        contents="Contents",
    )


def _done(outcome: Outcome) -> str:
    """What was done to the model; the answer stands above."""
    return f"{capital(outcome.about.changes)}."


def _facts(outcome: Outcome) -> list[tuple[str, str]]:
    manifest = outcome.manifest
    names = [str(manifest.model.get("name")), *map(str, manifest.model.get("others", ()))]
    data = [str(manifest.data.get("name")), *map(str, manifest.data.get("others", ()))]
    return [
        ("paper" if outcome.result.comparisons or outcome.result.claims else "study", outcome.study),
        ("model", ", ".join(dict.fromkeys(names))),
        ("data", ", ".join(dict.fromkeys(data))),
        ("seed", str(manifest.seed)),
        ("CPU time", f"{outcome.seconds / 60:,.1f} minutes" if outcome.seconds else DASH),
    ]


def _texts(used: Sequence[TextsUsed]) -> Section:
    """Which texts were used for what."""
    columns = (
        Column("use"),
        Column("split"),
        Column("texts", 0),
        Column("left out", 0, "texts that the model cannot read"),
    )
    rows = tuple((part.use, part.split, part.texts, part.left_out) for part in used)
    return Section(
        name="texts",
        title="The texts",
        question="Which texts were used for what?",
        findings=(
            "Of one data set, no text is in two of these parts: what was chosen or trained is scored on other texts.",
        ),
        tables=(Table("texts", "Parts of the data", columns, rows),),
    )


def _models(outcome: Outcome) -> list[Section]:
    if not outcome.result.models:
        return []
    columns = (Column("model"), Column("folder"))
    return [
        Section(
            name="models",
            title="The models",
            question="Which models did the study write?",
            findings=("Each is a model folder that every command of heedful takes as --model.",),
            tables=(Table("models", "Models", columns, tuple(outcome.result.models.items())),),
        )
    ]


def _examples(outcome: Outcome) -> list[Section]:
    if not outcome.result.examples:
        return []
    shown = tuple(_shown(i, example) for i, example in enumerate(outcome.result.examples))
    return [Section("examples", "Examples", "What does it look like on single texts?", (), examples=shown)]


def _shown(number: int, example: ExampleText) -> Shown:
    colourings = []
    for way in example.colourings:
        top = max(map(abs, way.weights), default=0.0) or 1.0
        words = [
            ColouredWord(word, "weight" if weight else "none", abs(weight) / top, weight)
            for word, weight in zip(way.words, way.weights, strict=True)
        ]
        colourings.append(Colouring(way.name, tuple(words), way.note))
    return Shown(
        example.title, number, example.label, example.gold, tuple(colourings), len(colourings) > 1, example.note
    )


def _limits(outcome: Outcome) -> tuple[str, ...]:
    return (
        *outcome.result.notes,
        "All results hold for this model on these texts. Intervals are over texts (or trainings), as a sample of those "
        "that the model will meet.",
        f"Nothing is decided on fewer than {MINIMUM} texts.",
    )


def _cite(outcome: Outcome) -> str:
    run, number = outcome.manifest, sum(part.texts for part in outcome.result.texts)
    first = (
        f"heedful {__version__}, study {outcome.study} {run.stamp}: {run.model.get('name')} on {run.data.get('name')}, "
        f"{count_texts(number)}, seed {run.seed}."
    )
    return "\n".join([first, f"Papers: {outcome.about.paper}.", bibtex(f"study {run.stamp}")])
