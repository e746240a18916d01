"""Checks: each a frozen dataclass of settings, called with a Case; it returns Findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heedful.checks.base import Case, Check
from heedful.core.catalogue import Catalogue

__all__ = ["CHECKS", "Case", "Check", "check"]

CHECKS = Catalogue(
    "check",
    "checks",
    __name__,
    {
        "agreement": "agreement:Agreement",
        "permutation": "permutation:Permutation",
        "uniform": "uniform:Uniform",
        "adversarial": "adversarial:Adversarial",
        "identifiability": "identifiability:Identifiability",
        "erasure": "erasure:Erasure",
        "input-erasure": "input_erasure:InputErasure",
        "sign": "axioms:Sign",
        "completeness": "axioms:Completeness",
        "infidelity": "axioms:Infidelity",
        "sensitivity": "sensitivity:Sensitivity",
        "complexity": "axioms:Complexity",
        "randomisation": "randomisation:Randomisation",
        "stability": "stability:Stability",
        "plausibility": "plausibility:Plausibility",
        "cost": "axioms:Cost",
    },
)


def check(wanted: str | Check, given: Mapping[str, Any] | None = None) -> Check:
    """A check by name, with settings, each checked against its type; a check itself is returned as it is."""
    made: Check = CHECKS.make(wanted, given)
    return made
