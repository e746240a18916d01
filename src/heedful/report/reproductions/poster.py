"""The poster's own section: the null space of attention by the length of the text."""

from __future__ import annotations

from dataclasses import replace

from heedful.audits.record import load_record
from heedful.report.document import Section
from heedful.report.sections import section
from heedful.studies.outcome import Outcome

AUDIT, CHECK = "null spaces", "identifiability"


def sections(outcome: Outcome) -> list[Section]:
    """Identifiability of the first network."""
    if outcome.folder is None or AUDIT not in outcome.result.parts:
        return []
    record = load_record(outcome.folder / outcome.result.parts[AUDIT])
    return [replace(section(record, CHECK), title="Null spaces by length")]
