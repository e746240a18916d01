"""Studies: each is a frozen dataclass of settings, called with a Trial, and returns an Outcome."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from heedful.core.catalogue import Catalogue

if TYPE_CHECKING:
    from heedful.studies.base import Study, Trial

__all__ = ["STUDIES", "Study", "Trial"]

STUDIES = Catalogue(
    "study",
    "studies",
    __name__,
    {
        "pruning": "pruning:Pruning",
        "heads-across-tasks": "heads_across_tasks:HeadsAcrossTasks",
        "triggers": "triggers:Triggers",
        "uniform-training": "uniform_training:UniformTraining",
        "seeds": "seeds:Seeds",
        "guides": "guides:Guides",
        "adversarial-training": "adversarial_training:AdversarialTraining",
        "adversarial-keys": "adversarial_keys:AdversarialKeys",
        "substitution": "substitution:Substitution",
    },
)


def __getattr__(name: str) -> Any:
    # lazy: reports import `heedful.studies.outcome` without torch
    if name in ("Study", "Trial"):
        return getattr(import_module("heedful.studies.base"), name)
    raise AttributeError(f"module 'heedful.studies' has no attribute '{name}'")
