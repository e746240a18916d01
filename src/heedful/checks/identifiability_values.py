"""Sources: the linear map that makes a layer's value vectors, found among the calls of a forward pass."""

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
class Source:
    """What the values are made of: E [k,e], and W_V [h,e,d]; None where the values are E itself."""

    read: Float[Tensor, "k e"]
    weight: Float[Tensor, "h e d"] | None


@dataclass(frozen=True)
class _Map:
    """given [k,e] times matrix [e,o], perhaps plus a bias, made [k,o]."""

    given: Tensor
    matrix: Tensor
    made: Tensor


class Sources(TorchFunctionMode):
    """Inside, linear maps are remembered, to be asked afterwards which of them made some values."""

    def __init__(self) -> None:
        super().__init__()
        self.maps: list[_Map] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in MAPS:
            self.maps += _maps(func, [*args, *(kwargs or {}).values()], out)
        return out

    def of(self, classifier: Classifier, values: Float[Tensor, "h k d"]) -> Source | None:
        """The map among whose columns are all of the values' columns, bit by bit, however heads are laid out in it."""
        for one in self.maps:
            if len(one.made) == values.shape[1] and one.made.dtype == values.dtype:
                columns = _columns(one.made, values)
                if columns is not None:
                    return Source(one.given, one.matrix[:, columns].permute(1, 0, 2))
        # in the networks of the papers that have no W_V, states are read as they are
        return Source(values[0], None) if isinstance(classifier.model, Net) and len(values) == 1 else None


def _maps(func: Any, args: list[Any], out: Any) -> Iterator[_Map]:
    """The call as a product of two matrices, if it is one with a fixed matrix."""
    if isinstance(args[0], str):
        yield from _summed(args, out)
        return
    added = func in (torch.addmm, torch.Tensor.addmm)
    given, weight = args[1:3] if added else args[:2]
    if isinstance(given, Tensor) and isinstance(weight, Tensor) and weight.ndim == 2:
        matrix = weight.T if func is torch.nn.functional.linear else weight
        yield _Map(_flat(given), matrix.detach(), _flat(out))


def _summed(args: list[Any], out: Any) -> Iterator[_Map]:
    """einsum(equation, one, other): whichever of the two is a parameter is the matrix."""
    equation, *factors = args
    if len(factors) != 2 or "->" not in equation:
        return
    inside, told = equation.replace(" ", "").split("->")
    for letters, pair in ((inside.split(","), factors), (inside.split(",")[::-1], factors[::-1])):
        (ours, theirs), (given, weight) = letters, pair
        summed = [letter for letter in ours if letter in theirs and letter not in told]
        wide = [letter for letter in theirs if letter not in ours]
        places = [letter for letter in ours if letter not in theirs]
        if isinstance(weight, torch.nn.Parameter) and len(summed) == 1 and sorted(places + wide) == sorted(told):
            yield _Map(
                given.detach()
                .permute([ours.index(c) for c in (*places, *summed)])
                .reshape(-1, given.shape[ours.index(summed[0])]),
                weight.detach().permute([theirs.index(c) for c in (*summed, *wide)]).flatten(1),
                out.detach().permute([told.index(c) for c in (*places, *wide)]).flatten(0, len(places) - 1).flatten(1),
            )


def _flat(x: Tensor) -> Tensor:
    return x.detach().reshape(-1, x.shape[-1])


def _columns(made: Float[Tensor, "k o"], values: Float[Tensor, "h k d"]) -> Tensor | None:
    """[h,d]: which column of `made` each column of the values is; None unless every one is there."""
    if not bool(torch.isin(values[:, 0], made[0]).all()):  # most maps are told apart by their first row
        return None
    table: dict[bytes, list[int]] = {}
    for i, key in enumerate(_keys(made)):
        table.setdefault(key, []).append(i)
    found = [_taken(table, _keys(head)) for head in values]
    return None if any(row is None for row in found) else torch.tensor(found, device=made.device)


def _taken(table: dict[bytes, list[int]], keys: list[bytes]) -> list[int] | None:
    """A column for each key, none of them twice."""
    spare = {key: iter(table.get(key, ())) for key in set(keys)}
    found = [next(spare[key], -1) for key in keys]
    return None if -1 in found else found


def _keys(x: Float[Tensor, "k o"]) -> list[bytes]:
    """Each column as its bits."""
    # subtle: contiguous() leaves odd strides to axes of length 1, which view refuses
    bits = x.detach().cpu().T.clone(memory_format=torch.contiguous_format).view(torch.uint8).numpy()
    return [column.tobytes() for column in bits]
