"""Target: the one number of a prediction that is explained."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from heedful.core.errors import BadInput, nearest

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

Scale = Literal["logit", "probability"]
Head = Literal["softmax", "sigmoid", "regression"]
ABSENT_LOGIT = -1e4  # of a label that a network excludes: finite, and its probability is 0


@dataclass(frozen=True)
class Target:
    """What is explained: a label's logit or probability, or one label's minus another's.

    A label of None is the predicted one. `resolved` turns names into indices, which `of` needs.
    """

    label: str | int | None = None
    scale: Scale = "logit"
    against: str | int | None = None

    def __post_init__(self) -> None:
        if self.scale not in ("logit", "probability"):
            raise BadInput(f"scale '{self.scale}' is not one of logit, probability.")

    def resolved(self, labels: Sequence[str], predicted: int) -> Target:
        """The same target with indices in place of names and of None."""
        label = predicted if self.label is None else label_index(self.label, labels)
        against = None if self.against is None else label_index(self.against, labels)
        if label == against:
            raise BadInput(f"label '{labels[label]}' is compared with itself; choose two different labels.")
        return replace(self, label=label, against=against)

    def named(self, labels: Sequence[str]) -> Target:
        """The same target with names in place of indices."""

        def name(label: str | int | None) -> str | int | None:
            return labels[label] if isinstance(label, int) else label

        return replace(self, label=name(self.label), against=name(self.against))

    def of(self, logits: Float[Tensor, "b c"], head: Head) -> Float[Tensor, "b"]:
        """The number, for each row: Target(1).of([[0., 2.]]) -> [2.]."""
        if self.scale == "probability" and head == "regression":
            raise BadInput("a regression model has no probabilities; use scale='logit', which explains its output.")
        values = logits if self.scale == "logit" else activation(logits, head)
        assert isinstance(self.label, int), "resolve the target first"
        if self.against is None:
            return values[:, self.label]
        assert isinstance(self.against, int), "resolve the target first"
        return values[:, self.label] - values[:, self.against]

    def __str__(self) -> str:
        versus = "" if self.against is None else f" against {self.against}"
        return f"{self.scale} of {'the predicted label' if self.label is None else self.label}{versus}"


def activation(logits: Float[Tensor, "b c"], head: Head) -> Float[Tensor, "b c"]:
    """Logits to probabilities; a regression output is returned unchanged."""
    if head == "regression":
        return logits
    return logits.softmax(-1) if head == "softmax" else logits.sigmoid()


def largest_logit(logits: Float[Tensor, "b c"]) -> float:
    """The largest magnitude, to which rounding is relative; excluded labels have no part in it."""
    return float(logits.detach().masked_fill(logits == ABSENT_LOGIT, 0.0).abs().max())


def label_index(label: str | int, labels: Sequence[str]) -> int:
    """The index of a label given by name, by name in another case, or by index (also written as digits)."""
    if isinstance(label, str):
        folded = [name.casefold() for name in labels]
        for name, names in ((label, list(labels)), (label.casefold(), folded)):
            if names.count(name) == 1:
                return names.index(name)
        if not label.isdecimal():
            listed = ", ".join(f"'{name}'" for name in labels)
            raise BadInput(f"label '{label}' is not one of {listed}{nearest(label, tuple(labels)) or '.'}")
    try:
        index = int(label) if isinstance(label, str) else operator.index(label)
    except TypeError:
        raise BadInput(f"label {label!r} is a {type(label).__name__}; give a name or an index.") from None
    if not 0 <= index < len(labels):
        raise BadInput(f"label index {index} is outside 0 … {len(labels) - 1} ({', '.join(labels)}).")
    return index
