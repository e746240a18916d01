"""Findings of one check by measure, method and place; and texts and models that several tests of checks share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.finding import Finding, place
from heedful.model.classifier import Classifier
from tests.support import models

FAST = ("attention-mean", "gradient-x-input", "random", "uniform", "position")

TEXT = "The film was not funny, but its ending moved me to tears."


def every_field(value: Any) -> str:
    """Results as text, with every field and digit: their `repr` is short, and NaN is not equal to itself."""
    if is_dataclass(value) and not isinstance(value, type):
        return repr(asdict(value))
    if isinstance(value, Mapping):
        return repr({key: every_field(item) for key, item in value.items()})
    return repr([every_field(item) for item in value])


def value(found: Sequence[Finding], measure: str, method: str = "", **at: Any) -> float:
    """The one finding of this measure, method and place."""
    (only,) = [f for f in found if (f.measure, f.method, f.place) == (measure, method, place(_at(at)))]
    return only.value


def _at(at: Mapping[str, Any]) -> dict[str, Any]:
    return {name.rstrip("_"): x for name, x in at.items()}


def same(one: Sequence[Finding], other: Sequence[Finding]) -> bool:
    key = [(f.check, f.method, f.measure, f.place) for f in one]
    if key != [(f.check, f.method, f.measure, f.place) for f in other]:
        return False
    return bool(np.allclose([f.value for f in one], [f.value for f in other], rtol=1e-4, atol=1e-6, equal_nan=True))


def answering(texts: list[Any]) -> Floats:
    yes = np.array([0.9 if "good" in text else 0.2 for text in texts])
    return np.stack([1 - yes, yes], 1)


def net(model: Any) -> Classifier:
    return Classifier(models.loud(model), models.tokenizer("wordpiece"), name="net")
