"""Cases for the tests of checks: a text, a model, and what methods say of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heedful.audits.chunk import cases
from heedful.checks.base import Case
from heedful.core.target import Target
from heedful.data import Example
from heedful.methods import METHODS, method
from heedful.model.classifier import Classifier

FEW = ("attention-mean", "gradient-x-input", "leave-one-out", "random", "uniform", "position")


def many(
    classifier: Classifier,
    texts: Sequence[str | Example],
    names: Sequence[Any] = FEW,
    target: Target | None = None,
    seed: int = 0,
) -> list[Case]:
    examples = [Example(t) if isinstance(t, str) else t for t in texts]
    methods = {METHODS.name_of(m): m for m in map(method, names)}
    made = cases(classifier, examples, methods, target, seed)
    assert not made.failures, made.failures
    return list(made.cases.values())


def one(classifier: Classifier, text: str | Example, names: Sequence[Any] = FEW, **more: Any) -> Case:
    return many(classifier, [text], names, **more)[0]
