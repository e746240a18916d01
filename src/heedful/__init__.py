"""heedful: why did the text classifier say that, and which of those explanations deserve to be heeded?"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heedful import edits
    from heedful.auditing import Audit, audit
    from heedful.checks import CHECKS, Check, check
    from heedful.classifier import Batch, Classifier
    from heedful.data import Example, Splits
    from heedful.edits import Edit, Site
    from heedful.errors import BadInput, HeedfulError, Unsupported
    from heedful.explaining import explain, explain_all
    from heedful.explanation import (
        Attribution,
        Counterfactual,
        Explanation,
        Interaction,
        Prediction,
        Source,
        from_json,
    )
    from heedful.finding import Finding
    from heedful.loading import load
    from heedful.methods import METHODS, Method, method
    from heedful.plain import Plain
    from heedful.recipes import RECIPES
    from heedful.target import Target
    from heedful.tokens import Tokens
    from heedful.training import Trained, train
    from heedful.trees import Tree, tree

_HOME = {
    "load": "loading",
    "explain": "explaining",
    "explain_all": "explaining",
    "from_json": "explanation",
    "method": "methods",
    "METHODS": "methods",
    "Method": "methods",
    "Classifier": "classifier",
    "Batch": "classifier",
    "Tokens": "tokens",
    "Example": "data",
    "Splits": "data",
    "train": "training",
    "Trained": "training",
    "audit": "auditing",
    "Audit": "auditing",
    "Finding": "finding",
    "CHECKS": "checks",
    "Check": "checks",
    "check": "checks",
    "RECIPES": "recipes",
    "tree": "trees",
    "Tree": "trees",
    "Target": "target",
    "Site": "edits",
    "Edit": "edits",
    "Explanation": "explanation",
    "Attribution": "explanation",
    "Interaction": "explanation",
    "Counterfactual": "explanation",
    "Plain": "plain",
    "Prediction": "explanation",
    "Source": "explanation",
    "HeedfulError": "errors",
    "BadInput": "errors",
    "Unsupported": "errors",
}
__all__ = [
    "CHECKS",
    "METHODS",
    "RECIPES",
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
    "Finding",
    "HeedfulError",
    "Interaction",
    "Method",
    "Plain",
    "Prediction",
    "Site",
    "Source",
    "Splits",
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
    "train",
    "tree",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Names are imported when first used: a page can be rendered without torch, and `--help` is instant."""
    if name == "edits":
        return import_module("heedful.edits")
    if name not in _HOME:
        raise AttributeError(f"module 'heedful' has no attribute '{name}'")
    return getattr(import_module(f"heedful.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
