"""The poster's own sections: each layer, attention before and after, and the null space by the length of the text."""

from __future__ import annotations

from dataclasses import replace

from heedful.audits.record import load_record
from heedful.report.document import Section
from heedful.report.reproductions import further_sections
from heedful.report.sections import section
from heedful.studies.outcome import Outcome

AUDIT, CHECK = "null spaces", "identifiability"
FIRST = ("keys softmax, seed 0", "keys 1.5-entmax, seed 0")


def sections(outcome: Outcome) -> list[Section]:
    """Figures of the first network with each activation; identifiability of the first with softmax."""
    if outcome.folder is None:
        return []
    found = [one for name in FIRST for one in further_sections(outcome, name, name.removeprefix("keys "))]
    if AUDIT in outcome.result.parts:
        record = load_record(outcome.folder / outcome.result.parts[AUDIT])
        found.append(replace(section(record, CHECK), title="Null spaces by length"))
    return found
