"""The linear map that computes a layer's value vectors, identified among the calls of a forward pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.overrides import TorchFunctionMode

from heedful.model.classifier import Classifier
from heedful.model.projection import MAPS
from heedful.nets.base import Net


@dataclass(frozen=True)
class ValueSource:
    """The input of the values, E [k,e], and W_V [h,e,d]; None where the values are E itself."""

    read: Float[Tensor, "k e"]
    weight: Float[Tensor, "h e d"] | None

    def at(self, text: slice, keys: Tensor) -> ValueSource:
        """The rows of these keys of the text, on the CPU."""
        return ValueSource(self.read[text][keys].cpu(), None if self.weight is None else self.weight.cpu())


@dataclass(frozen=True)
class _Map:
    """A call that multiplied inputs [k,e] by a matrix [e,o], perhaps plus a bias, and gave outputs [k,o]."""

    inputs: Tensor
    matrix: Tensor
    outputs: Tensor


class Sources(TorchFunctionMode):
    """Records the linear maps that run inside it; afterwards `of` returns the one that computed given values."""

    def __init__(self) -> None:
        super().__init__()
        self.maps: list[_Map] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in MAPS:
            self.maps += _maps(func, [*args, *(kwargs or {}).values()], out)
        return out

    def of(self, classifier: Classifier, values: Float[Tensor, "h k d"]) -> ValueSource | None:
        """The map whose output columns include all columns of the values, bit by bit, in any layout of heads."""
        for call in self.maps:
            if len(call.outputs) == values.shape[1] and call.outputs.dtype == values.dtype:
                columns = _columns(call.outputs, values)
                if columns is not None:
                    return ValueSource(call.inputs, call.matrix[:, columns].permute(1, 0, 2))
        # in the papers' networks without W_V, the values are the states themselves
        return ValueSource(values[0], None) if isinstance(classifier.model, Net) and len(values) == 1 else None


def _maps(func: Any, args: list[Any], out: Any) -> Iterator[_Map]:
    """The call as a product with a fixed matrix, if it is one."""
    if isinstance(args[0], str):
        yield from _einsum_maps(args, out)
        return
    inputs, weight = args[1:3] if func in (torch.addmm, torch.Tensor.addmm) else args[:2]
    if isinstance(inputs, Tensor) and isinstance(weight, Tensor) and weight.ndim == 2:
        matrix = weight.T if func is torch.nn.functional.linear else weight
        yield _Map(_flat(inputs), matrix.detach(), _flat(out))


def _einsum_maps(args: list[Any], out: Any) -> Iterator[_Map]:
    """einsum(equation, a, b): whichever of the two is a parameter is the matrix."""
    equation, *factors = args
    if len(factors) != 2 or "->" not in equation:
        return
    inside, result = equation.replace(" ", "").split("->")
    for letters, pair in ((inside.split(","), factors), (inside.split(",")[::-1], factors[::-1])):
        (of_inputs, of_weight), (inputs, weight) = letters, pair
        summed = [c for c in of_inputs if c in of_weight and c not in result]
        new = [c for c in of_weight if c not in of_inputs]
        rows = [c for c in of_inputs if c not in of_weight]
        if isinstance(weight, torch.nn.Parameter) and len(summed) == 1 and sorted(rows + new) == sorted(result):
            read = inputs.detach().permute([of_inputs.index(c) for c in (*rows, *summed)])
            matrix = weight.detach().permute([of_weight.index(c) for c in (*summed, *new)]).flatten(1)
            outputs = out.detach().permute([result.index(c) for c in (*rows, *new)])
            yield _Map(_flat(read), matrix, outputs.flatten(0, len(rows) - 1).flatten(1))


def _flat(x: Tensor) -> Tensor:
    return x.detach().reshape(-1, x.shape[-1])


def _columns(outputs: Float[Tensor, "k o"], values: Float[Tensor, "h k d"]) -> Tensor | None:
    """[h,d]: the column of `outputs` that equals each column of the values, none twice; None if one is missing."""
    if not bool(torch.isin(values[:, 0], outputs[0]).all()):  # the first row rules out most maps
        return None
    table: dict[bytes, list[int]] = {}
    for i, key in enumerate(_keys(outputs)):
        table.setdefault(key, []).append(i)
    rows = []
    for head in values:
        keys = _keys(head)
        unused = {key: iter(table.get(key, ())) for key in set(keys)}
        rows.append([next(unused[key], -1) for key in keys])
    return None if any(-1 in row for row in rows) else torch.tensor(rows, device=outputs.device)


def _keys(x: Float[Tensor, "k o"]) -> list[bytes]:
    """Each column as bytes."""
    # subtle: contiguous() leaves odd strides to axes of length 1, which view refuses
    bits = x.detach().cpu().T.clone(memory_format=torch.contiguous_format).view(torch.uint8).numpy()
    return [column.tobytes() for column in bits]
