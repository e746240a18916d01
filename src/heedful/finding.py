"""Finding: one measurement that a check made on one text. Needs no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

LEFT_OUT = "left out"  # the measure of a finding that says why there is none
Place = Mapping[str, str | int | float]


@dataclass(frozen=True)
class Measure:
    """What a check measures, for tables and pages.

    A "rate" is 0 or 1 for each text and gets Wilson's interval; a "mean" is any number. `better` says which way is
    good for an explanation, where one way is; `compared`, whether a method is set beside `random`.
    """

    says: str
    kind: Literal["mean", "rate"] = "mean"
    better: Literal["higher", "lower"] | None = None
    compared: bool = True


@dataclass(frozen=True)
class Finding:
    """One number: of which check and method, of what, where, on one text.

    `method` is empty where the check asks about the model and not about an explanation of it. NaN is a number that does
    not exist for this text: it is counted, and never averaged in. `at` says what was changed ({"layer": 2, "head": 0},
    {"masking": "delete"}); findings that agree in check, method, measure and `at` are summarised together over texts.
    `details` are for looking at one text (positions, other weights): JSON, never summarised.
    """

    check: str
    method: str
    measure: str
    value: float
    at: Place = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """`at` as a text with one form for each meaning: {"layer": 2, "head": 0} -> '{"head":0,"layer":2}'."""
        return place(self.at)


def place(at: Place) -> str:
    """See `Finding.place`."""
    return json.dumps(dict(at), sort_keys=True, separators=(",", ":"), ensure_ascii=False) if at else ""
