"""METHODS: every method by name. Other packages add theirs through the entry point group "heedful.methods"."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any

from heedful.core import settings as known_settings
from heedful.core.errors import BadInput, nearest
from heedful.methods import attattr, attention, counterfactual, gradient, lime, perturbation, shapley, theory
from heedful.methods import attention_layers as mixing
from heedful.methods import controls as control
from heedful.methods import value_zeroing as zeroing
from heedful.methods.base import Method

ALIASES = {
    "attention": "attention-mean",
    "attention-avg": "attention-mean",
    "alpha-avg": "attention-mean",
    "alpha-max": "attention-max",
    "attention-rollout": "rollout",
    "attention-x-gradient": "attention-gradient",
    "gradient": "gradient-l2",
    "saliency": "gradient-l2",
    "g-avg": "gradient-mean",
    "g-l1": "gradient-l1",
    "g-l2": "gradient-l2",
    "gxi": "gradient-x-input",
    "input-x-gradient": "gradient-x-input",
    "gradient-input": "gradient-x-input",
    "grad-x-input": "gradient-x-input",
    "smooth-grad": "smoothgrad",
    "smooth-gradient": "smoothgrad",
    "chefer": "relevance",
    "loo": "leave-one-out",
    "erasure": "leave-one-out",
    "shap": "shapley",
    "kernel-shap": "shapley",
    "kernelshap": "shapley",
    "partition-shap": "shapley-partition",
    "owen": "shapley-partition",
    "ig": "integrated-gradients",
    "integrated-gradient": "integrated-gradients",
}


class Catalogue(Mapping[str, Any]):
    """Names to classes, in order; a name is also found with _ for -, in any case, and by its usual aliases."""

    def __init__(self, built_in: Mapping[str, Any]) -> None:
        self._known = dict(built_in)

    def __getitem__(self, name: str) -> Any:
        plain = self.name(name)
        if plain not in self._known:
            hint = nearest(plain, [*self._known, *ALIASES]) or "."
            raise KeyError(f"method '{name}' is not known{hint} `heedful methods` lists them all.")
        return self._known[plain]

    def name(self, name: str) -> str:
        """The full name: name("IG") -> "integrated-gradients"."""
        plain = name.strip().casefold().replace("_", "-").replace(" ", "-")
        return plain if plain in self._known else ALIASES.get(plain, plain)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.name(name) in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def named(self, method: object) -> str:
        """The name under which a method's class is known; else the method's own `name`, or its class's."""
        own = str(getattr(method, "name", "")) or type(method).__name__
        return next((name for name, cls in self._known.items() if cls is type(method)), own)


def _plugins(taken: Collection[str]) -> dict[str, Any]:
    """Methods of other packages; one that fails to load or takes a known name is left out, with a line in the log."""
    found: dict[str, Any] = {}
    for entry in entry_points(group="heedful.methods"):
        name = entry.name.replace("_", "-").casefold()
        if name in taken or name in ALIASES:
            logging.getLogger("heedful").warning("method '%s' of %s is left out: the name is taken", name, entry.value)
            continue
        try:
            found[name] = entry.load()
        except Exception as e:  # another package's import may raise anything
            logging.getLogger("heedful").warning("method '%s' cannot be loaded (%s: %s)", name, type(e).__name__, e)
    return found


_BUILT_IN: dict[str, Any] = {
    "attention-mean": attention.AttentionMean,
    "attention-max": attention.AttentionMax,
    "attention-received": attention.AttentionReceived,
    "rollout": attention.Rollout,
    "attention-flow": mixing.AttentionFlow,
    "attention-norm": mixing.AttentionNorm,
    "effective-attention": attention.EffectiveAttention,
    "attention-gradient": attention.AttentionGradient,
    "relevance": mixing.Relevance,
    "value-zeroing": zeroing.ValueZeroing,
    "attention-weights": attention.AttentionWeights,
    "attattr": attattr.AttAttr,
    "attattr-tokens": attattr.AttAttrTokens,
    "gradient-mean": gradient.GradientMean,
    "gradient-l1": gradient.GradientL1,
    "gradient-l2": gradient.GradientL2,
    "gradient-x-input": gradient.GradientXInput,
    "smoothgrad": gradient.SmoothGrad,
    "integrated-gradients": gradient.IntegratedGradients,
    "leave-one-out": perturbation.LeaveOneOut,
    "occlusion": perturbation.Occlusion,
    "lime": lime.Lime,
    "shapley": shapley.Shapley,
    "shapley-partition": shapley.ShapleyPartition,
    "input-reduction": counterfactual.InputReduction,
    "minimal-flip": counterfactual.MinimalFlip,
    "theory-gradient": theory.TheoryGradient,
    "theory-lime": theory.TheoryLime,
    "random": control.Random,
    "uniform": control.Uniform,
    "position": control.Position,
}
METHODS = Catalogue(_BUILT_IN | _plugins(_BUILT_IN))


def settings(cls: Any) -> dict[str, Any]:
    """The settings of a method's class and their defaults."""
    return {name: one.default for name, one in known_settings.of(cls).items()}


def method(named: str | Method, given: Mapping[str, Any] | None = None) -> Method:
    """A method by name, with settings, each checked against its type; a method itself is returned as it is."""
    if not isinstance(named, str):
        if not callable(named):
            raise BadInput(
                f"a {type(named).__name__} is not a method; give a name or a method such as IntegratedGradients()."
            )
        return named
    try:
        cls = METHODS[named]
    except KeyError as e:
        raise BadInput(str(e.args[0])) from None
    made: Method = known_settings.made(cls, METHODS.name(named), given)
    return made
