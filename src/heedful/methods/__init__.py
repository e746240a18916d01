"""Methods: each is a frozen dataclass of settings, called with (classifier, tokens, target, rng)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heedful.core import settings as _settings
from heedful.core.catalogue import Catalogue
from heedful.methods.base import Method, Passes

__all__ = ["METHODS", "Method", "Passes", "method", "settings"]

METHODS = Catalogue(
    "method",
    "methods",
    __name__,
    {
        "attention-mean": "attention:AttentionMean",
        "attention-max": "attention:AttentionMax",
        "attention-received": "attention:AttentionReceived",
        "rollout": "attention:Rollout",
        "attention-flow": "attention_layers:AttentionFlow",
        "attention-norm": "attention_layers:AttentionNorm",
        "effective-attention": "attention:EffectiveAttention",
        "attention-gradient": "attention:AttentionGradient",
        "relevance": "attention_layers:Relevance",
        "value-zeroing": "value_zeroing:ValueZeroing",
        "attention-weights": "attention:AttentionWeights",
        "attattr": "attattr:AttAttr",
        "attattr-tokens": "attattr:AttAttrTokens",
        "gradient-mean": "gradient:GradientMean",
        "gradient-l1": "gradient:GradientL1",
        "gradient-l2": "gradient:GradientL2",
        "gradient-x-input": "gradient:GradientXInput",
        "gradient-x-vocabulary": "gradient:GradientXVocabulary",
        "gradient-states": "gradient:GradientStates",
        "smoothgrad": "gradient:SmoothGrad",
        "integrated-gradients": "gradient:IntegratedGradients",
        "leave-one-out": "perturbation:LeaveOneOut",
        "occlusion": "perturbation:Occlusion",
        "lime": "lime:Lime",
        "shapley": "shapley:Shapley",
        "shapley-partition": "shapley:ShapleyPartition",
        "input-reduction": "counterfactual:InputReduction",
        "minimal-flip": "counterfactual:MinimalFlip",
        "theory-gradient": "theory:TheoryGradient",
        "theory-lime": "theory:TheoryLime",
        "random": "controls:Random",
        "uniform": "controls:Uniform",
        "position": "controls:Position",
    },
)


def method(wanted: str | Method, given: Mapping[str, Any] | None = None) -> Method:
    """A method by name, with settings, each checked against its type; a method object is returned unchanged."""
    item: Method = METHODS.make(wanted, given)
    return item


def settings(cls: Any) -> dict[str, Any]:
    """The settings of a method's class and their defaults."""
    return {name: setting.default for name, setting in _settings.of(cls).items()}
