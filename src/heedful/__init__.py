"""heedful: why did the text classifier say that, and which of those explanations deserve to be heeded?"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heedful.audits.audit import audit
    from heedful.audits.ray import Ray
    from heedful.audits.result import Audit
    from heedful.checks import CHECKS, Check, check
    from heedful.core.errors import BadInput, HeedfulError, Unsupported
    from heedful.core.explanation import (
        Attribution,
        Counterfactual,
        Explanation,
        Explanations,
        Interaction,
        Prediction,
        Source,
        from_json,
    )
    from heedful.core.finding import Finding
    from heedful.core.target import Target
    from heedful.core.tokens import Tokens
    from heedful.core.tree import Tree
    from heedful.data import Example, Splits
    from heedful.methods import METHODS, Method, method
    from heedful.methods.explain import explain, explain_all, tree
    from heedful.methods.pick import pick
    from heedful.model import edits
    from heedful.model.batch import Batch
    from heedful.model.classifier import Classifier
    from heedful.model.edits import Edit, Site
    from heedful.model.function import Plain
    from heedful.model.loading import load, save
    from heedful.model.prompted import Prompt
    from heedful.nets.training.recipes import RECIPES
    from heedful.nets.training.train import Trained, train
    from heedful.studies import STUDIES, Study
    from heedful.studies.outcome import Outcome, open  # noqa: A004
    from heedful.studies.reproduction import PAPERS
    from heedful.studies.reproduction.reproduce import reproduce
    from heedful.studies.study import study

_HOME = {
    "load": "model.loading",
    "save": "model.loading",
    "explain": "methods.explain",
    "explain_all": "methods.explain",
    "from_json": "core.explanation",
    "method": "methods",
    "METHODS": "methods",
    "Method": "methods",
    "Classifier": "model.classifier",
    "Batch": "model.batch",
    "Tokens": "core.tokens",
    "Example": "data",
    "Splits": "data",
    "train": "nets.training.train",
    "Trained": "nets.training.train",
    "audit": "audits.audit",
    "Audit": "audits.result",
    "Ray": "audits.ray",
    "open": "studies.outcome",
    "study": "studies.study",
    "reproduce": "studies.reproduction.reproduce",
    "PAPERS": "studies.reproduction",
    "STUDIES": "studies",
    "Study": "studies",
    "Outcome": "studies.outcome",
    "Finding": "core.finding",
    "CHECKS": "checks",
    "Check": "checks",
    "check": "checks",
    "RECIPES": "nets.training.recipes",
    "tree": "methods.explain",
    "pick": "methods.pick",
    "Tree": "core.tree",
    "Target": "core.target",
    "Site": "model.edits",
    "Edit": "model.edits",
    "Explanation": "core.explanation",
    "Explanations": "core.explanation",
    "Attribution": "core.explanation",
    "Interaction": "core.explanation",
    "Counterfactual": "core.explanation",
    "Plain": "model.function",
    "Prediction": "core.explanation",
    "Prompt": "model.prompted",
    "Source": "core.explanation",
    "HeedfulError": "core.errors",
    "BadInput": "core.errors",
    "Unsupported": "core.errors",
}
__all__ = [
    "CHECKS",
    "METHODS",
    "PAPERS",
    "RECIPES",
    "STUDIES",
    "Attribution",
    "Audit",
    "BadInput",
    "Batch",
    "Check",
    "Classifier",
    "Counterfactual",
    "Edit",
    "Example",
    "Explanation",
    "Explanations",
    "Finding",
    "HeedfulError",
    "Interaction",
    "Method",
    "Outcome",
    "Plain",
    "Prediction",
    "Prompt",
    "Ray",
    "Site",
    "Source",
    "Splits",
    "Study",
    "Target",
    "Tokens",
    "Trained",
    "Tree",
    "Unsupported",
    "audit",
    "check",
    "edits",
    "explain",
    "explain_all",
    "from_json",
    "load",
    "method",
    "open",
    "pick",
    "reproduce",
    "save",
    "study",
    "train",
    "tree",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Names are imported when first used: a page can be rendered without torch, and `--help` is instant."""
    if name == "edits":
        return import_module("heedful.model.edits")
    if name not in _HOME:
        raise AttributeError(f"module 'heedful' has no attribute '{name}'")
    return getattr(import_module(f"heedful.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
