"""Studies: each is a frozen dataclass of settings, called with a Trial, and returns an Outcome."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from heedful.core.catalogue import Catalogue

if TYPE_CHECKING:
    from heedful.studies.base import Study, Trial

__all__ = ["STUDIES", "Study", "Trial", "study_of"]

STUDIES = Catalogue(
    "study",
    "studies",
    __name__,
    {
        "adversarial-keys": "adversarial_keys:AdversarialKeys",
        "pruning": "pruning:Pruning",
        "uniform-training": "uniform_training:UniformTraining",
        "seeds": "seeds:Seeds",
        "guides": "guides:Guides",
        "adversarial-training": "adversarial_training:AdversarialTraining",
        "heads-across-tasks": "heads_across_tasks:HeadsAcrossTasks",
        "triggers": "triggers:Triggers",
        "substitution": "substitution:Substitution",
    },
)


def study_of(wanted: str | Study, given: Mapping[str, Any] | None = None) -> Study:
    """A study by name, with settings, each checked against its type; a study object is returned unchanged."""
    item: Study = STUDIES.make(wanted, given)
    return item


def __getattr__(name: str) -> Any:
    # lazy: reports import `heedful.studies.outcome` without torch
    if name in ("Study", "Trial"):
        return getattr(import_module("heedful.studies.base"), name)
    raise AttributeError(f"module 'heedful.studies' has no attribute '{name}'")
