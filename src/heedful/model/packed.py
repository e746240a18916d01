"""Packed: linear layers whose weights torch holds as packed int8 (`quantize_dynamic`).

They round their inputs by the range of the whole batch, so that the logits of a text depend on the other texts in it,
and they have no derivatives. Inside `apart` every text is rounded by itself, as if it ran alone; inside `dequantised`
the layers compute in float32 with the same weights, and have derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


def packs(model: nn.Module) -> list[Any]:
    """The packed weights of all layers; empty for most models."""
    return [value for m in model.modules() for value in vars(m).values() if isinstance(value, torch.ScriptObject)]


def layers(model: nn.Module) -> list[nn.Module]:
    """The linear layers with packed weights that round their inputs as they come."""
    return [m for m in model.modules() if _kind(m) == "torch.ao.nn.quantized.dynamic.modules.linear.Linear"]


def _kind(module: nn.Module) -> str:
    # subtle: torch.ao warns when it is imported, so it is recognised by name
    return f"{type(module).__module__}.{type(module).__name__}"


@contextmanager
def apart(found: Sequence[nn.Module], axis: int) -> Iterator[None]:
    """Inside, these layers round each text of a batch by itself. `axis` is that of the texts."""

    def by_text(forward: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        def run(x: Tensor) -> Tensor:
            at = axis if x.ndim > 2 else 0
            return forward(x) if x.shape[at] == 1 else torch.cat([forward(row) for row in torch.split(x, 1, at)], at)

        return run

    # those that `dequantised` changed round nothing
    with _forward([x for x in found if "forward" not in vars(x)], lambda layer: by_text(layer.forward)):
        yield


@contextmanager
def dequantised(found: Sequence[nn.Module]) -> Iterator[None]:
    """Inside, these layers compute in float32, with the weights that their integers stand for."""

    def linear(layer: Any) -> Callable[[Tensor], Tensor]:
        weight, bias = layer.weight().dequantize(), layer.bias()
        return lambda x: nn.functional.linear(x, weight, None if bias is None else bias.detach())

    with _forward(found, linear):
        yield


@contextmanager
def _forward(found: Sequence[nn.Module], make: Callable[[nn.Module], Callable[[Tensor], Tensor]]) -> Iterator[None]:
    former = {layer: vars(layer).get("forward") for layer in found}
    try:
        for layer in found:
            layer.forward = make(layer)
        yield
    finally:
        for layer, forward in former.items():
            if forward is None:
                del layer.forward
            else:
                layer.forward = forward
