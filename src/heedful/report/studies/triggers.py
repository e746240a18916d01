"""The section on adversarial triggers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from heedful.audits.summary import Row
from heedful.maths.stats import Decision
from heedful.report.charts import Words, dots
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import (
    and_list,
    cautious,
    count_texts,
    interval,
    mark,
    percentage,
    slug,
    versus_random,
)
from heedful.report.sections.parts import dot
from heedful.report.studies import rows_table, study_section
from heedful.studies.outcome import Outcome, PairedDifference

ATTRIBUTION, RANDOM, UNCHANGED = "attribution", "random words", "unchanged"
ALL = {"gold": "all"}
MARKS = (
    "* not significantly different from random words (paired over texts, p ≤ .05 after Holm's correction over all rows "
    "of the measure); “worse”: significantly worse; ? fewer than 30 texts: nothing is decided."
)


def sections(outcome: Outcome) -> list[Section]:
    """All labels together, then each label and trigger, the other models, and the patterns."""
    main = study_section(
        outcome,
        tuple(_sentences(outcome)),
        figures=tuple(_success(outcome, {})),
        tables=(_sources(outcome, {}), _differences(outcome, {})),
    )
    return [main, _each(outcome), *_transfer(outcome), _patterns(outcome)]


def _sentences(outcome: Outcome) -> Iterator[str]:
    mine = outcome.result.row("success", ATTRIBUTION, ALL)
    if mine is None:
        yield "No test text was predicted rightly, so that no trigger can succeed."
        return
    random = outcome.result.row("success", RANDOM, ALL)
    beside = "" if random is None else f", random words in the same places {percentage(random)}"
    yield cautious(
        f"The triggers of attention attributions make {percentage(mine)} of {count_texts(mine.n)} that were predicted "
        f"rightly wrong{beside}.",
        mine.n,
    )
    yield from _controls(outcome)
    before, after = (outcome.result.row("accuracy", name, ALL) for name in (UNCHANGED, ATTRIBUTION))
    if before is not None and after is not None:
        yield f"Accuracy goes from {interval(before)} to {interval(after)}; {_strongest(outcome)}"
    for model in outcome.result.details["models"]:
        there = outcome.result.row("success", ATTRIBUTION, {"model": model, **ALL})
        chance = outcome.result.row("success", RANDOM, {"model": model, **ALL})
        if there is not None and chance is not None:
            yield cautious(
                f"The same triggers make {percentage(there)} of {count_texts(there.n)} wrong for {model}, random words "
                f"{percentage(chance)}.",
                there.n,
            )


def _controls(outcome: Outcome) -> Iterator[str]:
    """Which controls, chosen on the same texts, are as strong."""
    found = [d for d in outcome.result.differences if d.measure == "success" and d.at == ALL and d.b != RANDOM]
    words = {
        Decision.HIGHER: "stronger than {}",
        Decision.NOT_SIGNIFICANT: "not significantly different from {}",
        Decision.LOWER: "weaker than {}",
    }
    parts = []
    for decision, phrase in words.items():
        names = [f"{d.b} ({_sign(d)})" for d in found if d.difference.decision == decision]
        if names:
            parts.append(phrase.format(and_list(names)))
    if parts:
        yield f"Attribution is {'; '.join(parts)} (difference of the success)."


def _sign(of: PairedDifference) -> str:
    return ("+" if of.difference.mean > 0 else "") + interval(of.difference)


def _strongest(outcome: Outcome) -> str:
    """The trigger with the largest success."""
    rows = [r for r in outcome.rows("success", ATTRIBUTION) if "trigger" in r.at and "model" not in r.at and r.known]
    best = max(rows, key=lambda row: row.mean)
    trigger = next(
        t
        for t in outcome.result.details["triggers"]
        if (t["gold"], t["trigger"]) == (best.at["gold"], best.at["trigger"])
    )
    return (
        f"the strongest trigger is {_quoted(trigger['words'][ATTRIBUTION])}, which makes {percentage(best)} of the "
        f"texts with the label {trigger['gold']} wrong."
    )


def _quoted(words: Sequence[str]) -> str:
    return "“" + " … ".join(words) + "”"


def _success(outcome: Outcome, model: Mapping[str, Any]) -> Iterator[Figure]:
    """Success over all labels and of each gold label, by source."""
    places = [r.at for r in outcome.rows("success", ATTRIBUTION) if _of_model(r, model) and "trigger" not in r.at]
    marks = [
        dot(str(row.at["gold"]), row, row.method, versus_random(row.versus_random) or "")
        for place in places
        for row in outcome.rows("success")
        if row.at == place and row.known
    ]
    who = f", {model['model']}" if model else ""
    words = Words(
        f"triggers-success{slug(who) if who else ''}",
        f"Success by gold label{who}",
        "share of rightly predicted texts made wrong",
        caption="95 % intervals. At the right: compared with random words.",
    )
    if marks:
        yield dots(words, marks)


def _of_model(row: Row, model: Mapping[str, Any]) -> bool:
    return row.at.get("model") == model.get("model")


def _sources(outcome: Outcome, model: Mapping[str, Any]) -> Table:
    """Over all labels: each measure of each source."""
    at = {**model, **ALL}
    measures = ("success", "accuracy", "probability")
    names = dict.fromkeys(row.method for row in outcome.result.rows if row.at == at)
    rows = []
    for name in names:
        found = [outcome.result.row(measure, name, at) for measure in measures]
        rows.append((name, *(None if row is None else f"{interval(row)}{mark(row)}" for row in found)))
    about = outcome.about.measures
    columns = (Column("words"), *(Column(m, 2, about[m].says) for m in measures))
    suffix = f"-{slug(str(model['model']))}" if model else ""
    title = "All gold labels" + (f", {model['model']}" if model else "")
    return Table(f"triggers-sources{suffix}", title, columns, tuple(rows), f"95 % intervals. {MARKS}")


def _differences(outcome: Outcome, model: Mapping[str, Any]) -> Table:
    rows = tuple(
        (
            f"{d.a} − {d.b}",
            str(d.at["gold"]),
            d.difference.n,
            interval(d.difference),
            "" if d.difference.decision is None else d.difference.decision.value,
        )
        for d in outcome.result.differences
        if d.measure == "success" and d.at.get("model") == model.get("model")
    )
    columns = (
        Column("words"),
        Column("gold"),
        Column("n", 0, "texts that were predicted rightly"),
        Column("difference", 2, "of the success, paired over texts"),
        Column("decision", 2, "after Holm's correction"),
    )
    suffix = f"-{slug(str(model['model']))}" if model else ""
    return Table(f"triggers-differences{suffix}", "Attribution less each control", columns, rows)


def _each(outcome: Outcome) -> Section:
    """Each trigger against its gold label."""
    names = list(dict.fromkeys(row.method for row in outcome.rows("success")))
    columns = (
        Column("trigger"),
        Column("against"),
        Column("to"),
        Column("accuracy before", 2),
        Column("after", 2),
        *(Column(f"success, {name}", 2) for name in names),
    )
    rows = []
    for trigger in outcome.result.details["triggers"]:
        at = {"gold": trigger["gold"], "trigger": trigger["trigger"]}
        before, after = (outcome.result.row("accuracy", name, at) for name in (UNCHANGED, ATTRIBUTION))
        found = [outcome.result.row("success", name, at) for name in names]
        rows.append(
            (
                _quoted(trigger["words"][ATTRIBUTION]),
                trigger["gold"],
                trigger["label"],
                interval(before),
                interval(after),
                *(None if row is None else f"{interval(row)}{mark(row)}" for row in found),
            )
        )
    table = Table("triggers-each", "Each trigger", columns, tuple(rows), f"95 % intervals. {MARKS}")
    return Section(
        name="triggers-each",
        title="Each trigger",
        question="What does each trigger do to the texts of each gold label?",
        findings=("Triggers were chosen on other texts than these numbers are from, the best first.",),
        tables=(table, rows_table(outcome)),
    )


def _transfer(outcome: Outcome) -> Iterator[Section]:
    for model in outcome.result.details["models"]:
        at = {"model": model}
        yield Section(
            name=f"triggers-{slug(model)}",
            title=f"The same triggers for {model}",
            question="Do triggers of one model work on another?",
            findings=("The words and the texts are the same; nothing was chosen on this model.",),
            figures=tuple(_success(outcome, at)),
            tables=(_sources(outcome, at), _differences(outcome, at)),
        )


def _patterns(outcome: Outcome) -> Section:
    """Where the triggers are from, and the words of their controls."""
    details = outcome.result.details
    sources = list(dict.fromkeys(name for trigger in details["triggers"] for name in trigger["words"]))
    columns = (
        Column("against"),
        Column("to"),
        Column("layer", 0),
        Column("head", 0),
        Column("attributions"),
        Column("places", 2, "relative: 0 is the start of the text, 1 its end"),
        *(Column(name) for name in sources),
    )
    rows = tuple(
        (
            t["gold"],
            t["label"],
            t["layer"],
            t["head"],
            ", ".join(f"{value:.3f}" for value in t["values"]),
            ", ".join(
                f"{place:.2f}" + (" (2nd text)" if segment else "")
                for place, segment in zip(t["places"], t["segments"], strict=True)
            ),
            *(" … ".join(t["words"].get(name, ())) or None for name in sources),
        )
        for t in details["triggers"]
    )
    top = details["heads"][0]
    heads = (
        f"The strongest head is most often head {top['head']} of layer {top['layer']}: in {top['texts']} of "
        f"{details['patterns']} patterns, of {len(details['heads'])} heads that are the strongest of some text."
    )
    strongest = tuple((h["layer"], h["head"], h["texts"]) for h in details["heads"][:10])
    return Section(
        name="triggers-patterns",
        title="The patterns",
        question="Which words does the strongest head connect, and which words are the controls'?",
        findings=(heads, "All words of a row stand in the same places."),
        tables=(
            Table("triggers-words", "Words of the triggers and of their controls", columns, rows),
            Table(
                "triggers-heads",
                "The strongest heads",
                (Column("layer", 0), Column("head", 0), Column("texts", 0, "whose largest attribution it has")),
                strongest,
                "Layers and heads are counted from 0.",
            ),
        ),
    )
