"""The poster's own sections: each layer, attention before and after, and the null space by the length of the text."""

from __future__ import annotations

from dataclasses import replace

from heedful.audits.record import load_record
from heedful.report.document import Section
from heedful.report.phrases import slug
from heedful.report.sections import section
from heedful.report.studies.adversarial_keys import sections as key_sections
from heedful.studies.outcome import Outcome, load_outcome

AUDIT, CHECK = "null spaces", "identifiability"
FIRST = ("keys softmax, seed 0", "keys 1.5-entmax, seed 0")


def sections(outcome: Outcome) -> list[Section]:
    """Figures of the first network with each activation; identifiability of the first with softmax."""
    if outcome.folder is None:
        return []
    parts = {name: outcome.folder / path for name, path in outcome.result.parts.items()}
    found = []
    for name in FIRST:
        for one in key_sections(load_outcome(parts[name]))[1:] if name in parts else ():
            if one.figures:
                figures = tuple(replace(f, name=f"{slug(name)}-{f.name}") for f in one.figures)
                title = f"{one.title}: {name.removeprefix('keys ')}"
                found.append(replace(one, name=f"{slug(name)}-{one.name}", title=title, figures=figures))
    if AUDIT in parts:
        found.append(replace(section(load_record(parts[AUDIT]), CHECK), title="Null spaces by length"))
    return found
