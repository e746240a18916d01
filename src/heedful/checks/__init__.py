"""Checks: each is a frozen dataclass of settings, called with a Case, and returns Findings."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from heedful.core.catalogue import Catalogue

if TYPE_CHECKING:
    from heedful.checks.base import Case, Check

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
    """A check by name, with settings, each checked against its type; a check object is returned unchanged."""
    item: Check = CHECKS.make(wanted, given)
    return item


def __getattr__(name: str) -> Any:
    # lazy: reports import `heedful.checks.tables` without torch
    if name in ("Case", "Check"):
        return getattr(import_module("heedful.checks.base"), name)
    raise AttributeError(f"module 'heedful.checks' has no attribute '{name}'")
