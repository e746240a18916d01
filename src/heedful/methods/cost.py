"""Cost: how often `explain` would run the model, without running it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from heedful.core.errors import Unsupported
from heedful.methods import METHODS, Method, explain
from heedful.methods.base import Passes, passes, total
from heedful.model.loading import load


@dataclass(frozen=True)
class MethodCost:
    """The passes of a method over all texts; None where unknown."""

    method: str
    passes: Passes | None


@dataclass(frozen=True)
class CostForecast:
    """The cost of an explanation: the passes of each method, and how many texts or windows are predicted.

    `skipped` gives the reason for each method that the model does not support.
    """

    costs: tuple[MethodCost, ...]
    predictions: int
    skipped: Mapping[str, str] = field(default_factory=dict)

    @property
    def total(self) -> Passes:
        """All passes that are known."""
        return total([*(cost.passes for cost in self.costs if cost.passes is not None), Passes(self.predictions)])

    @property
    def unknown(self) -> list[str]:
        """The methods whose cost is unknown."""
        return [cost.method for cost in self.costs if cost.passes is None]

    def to_json(self) -> str:
        """One line of JSON."""
        methods = [asdict(cost) for cost in self.costs]
        sums = {"predictions": self.predictions, "total": asdict(self.total), "unknown": self.unknown}
        return json.dumps({"methods": methods, **sums})


def plan(
    x: Any,
    text: explain.Text | explain.Texts,
    method: str | Method | explain.Methods = "integrated-gradients",
    pair: str | None = None,
    *,
    tokenizer: Any = None,
    truncate: bool = True,
    windows: bool = False,
    unsupported: explain.OnUnsupported = "raise",
    with_attention: bool = False,
    **settings: Any,
) -> CostForecast:
    """The cost of `explain` with the same arguments. The model is not run."""
    methods = explain.make_methods(method, settings)
    texts = explain.text_pairs(text, pair)
    classifier = load(x if tokenizer is None else (x, tokenizer))
    cuts = [explain.cut_text(classifier, classifier.tokens(*parts), truncate, windows) for parts in texts]
    parts = [part for cut in cuts for part in cut.parts]
    costs: list[MethodCost] = []
    skipped: dict[str, str] = {}
    for number, item in enumerate([*methods, *explain.attention_grid(methods, with_attention)]):
        try:
            costs.append(MethodCost(METHODS.name_of(item), passes(item, classifier, parts)))
        except Unsupported as e:
            if unsupported == "raise" and number < len(methods):
                raise
            skipped[METHODS.name_of(item)] = str(e)
    return CostForecast(tuple(costs), len(parts), skipped)
