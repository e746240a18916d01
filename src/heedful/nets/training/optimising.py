"""Optimising: how weights are moved: the plan of a training, and the optimisers, rates and bounds that it asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
from torch import Tensor, nn

from heedful.core.errors import BadInput


@dataclass(frozen=True)
class Plan:
    """How to train.

    `patience` is the number of epochs without a better validation score after which training stops (none: all
    `epochs`). `schedule` "linear" falls to 0, "plateau" halves the rate after an epoch without a better score, both
    after `warmup`, a share of all steps. `clip` bounds the norm of the gradient. `lazy` moves only the word vectors
    that a batch holds, and without decay: not quite Adam, but several times as fast where there are many words.
    """

    epochs: int = 10
    patience: int | None = None
    optimiser: Literal["adam", "amsgrad", "adamw"] = "adam"
    lr: float = 1e-3
    weight_decay: float = 0.0
    schedule: Literal["constant", "linear", "plateau"] = "constant"
    warmup: float = 0.0
    clip: float | None = None
    lazy: bool = False
    bf16: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        """Whole numbers, here and in every kind of plan, count something and are at least 1; shares are below 1."""
        for name, value in ((f.name, getattr(self, f.name)) for f in fields(self)):
            if name.startswith(("dropout", "warmup")):
                right, wanted = 0 <= value < 1, "at least 0 and less than 1"
            elif name in ("seed", "weight_decay", "regularised"):
                right, wanted = value >= 0, "at least 0"
            elif name in ("lr", "clip", "spread"):
                right, wanted = value is None or value > 0, "more than 0"
            else:
                right, wanted = type(value) is not int or value >= 1, "at least 1"
            if not right:
                raise BadInput(f"{name} {value} is out of range; give {wanted}.")


def optimisers(model: nn.Module, decays: Callable[[str], bool], plan: Plan) -> list[torch.optim.Optimizer]:
    """What moves the weights by the plan; `decays` says of each parameter whether weight decay is for it."""
    named = {n: p for n, p in model.named_parameters() if p.requires_grad}
    rare = _lazy(model) if plan.lazy else []
    usual = [n for n, p in named.items() if not any(p is table for table in rare)]
    groups: list[dict[str, Any]] = [
        {"params": [named[n] for n in usual if decays(n) is decayed], "weight_decay": plan.weight_decay * decayed}
        for decayed in (True, False)
    ]
    filled = [group for group in groups if group["params"]]
    lazily: list[torch.optim.Optimizer] = [torch.optim.SparseAdam(rare, lr=plan.lr)] if rare else []
    if plan.optimiser == "adamw":
        return [torch.optim.AdamW(filled, lr=plan.lr, fused=True), *lazily]
    return [torch.optim.Adam(filled, lr=plan.lr, amsgrad=plan.optimiser == "amsgrad", fused=True), *lazily]


def _lazy(model: nn.Module) -> list[Tensor]:
    """The tables of word vectors, whose gradients shall hold the rows of a batch alone."""
    tables = [m for m in model.modules() if isinstance(m, nn.Embedding) and m.weight.requires_grad]
    for table in tables:
        table.sparse = True
    return [table.weight for table in tables]


def clip(weights: Sequence[Tensor], most: float) -> None:
    """Scale all gradients down so that their common norm is at most so much; some may be sparse."""
    slopes = [p.grad.coalesce().values() if p.grad.is_sparse else p.grad for p in weights if p.grad is not None]
    norm = torch.stack([slope.norm() for slope in slopes]).norm()
    factor = (most / (norm + 1e-6)).clamp(max=1.0)
    for p in weights:
        if p.grad is not None:
            p.grad.mul_(factor)


def share(plan: Plan, step: int, steps: int) -> float:
    """Of the learning rate, at a step."""
    warm = round(plan.warmup * steps)
    if step < warm:
        return (step + 1) / (warm + 1)
    return (steps - step) / (steps - warm) if plan.schedule == "linear" else 1.0
