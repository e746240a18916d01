"""Projection: the linear map of a model's attention output (W_O), found among its own torch calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from heedful.maths.activations import ACTIVATIONS
from heedful.model.edits import Site

SOFTMAXES: set[Any] = {torch.nn.functional.softmax, torch.Tensor.softmax, torch.special.softmax, *ACTIVATIONS.values()}

PRODUCTS = {torch.matmul, torch.bmm, torch.Tensor.matmul, torch.Tensor.bmm, torch.Tensor.__matmul__, torch.einsum}
_ADDED = {torch.addmm, torch.Tensor.addmm}  # (bias, input, weight)
MAPS = {torch.nn.functional.linear} | _ADDED | PRODUCTS


def is_attention(func: Any, args: Any, kwargs: Any, out: Any) -> bool:
    """Whether a torch call is a softmax (or an alternative) that returns attention weights [b,h,q,k]."""
    axis = kwargs.get("dim", args[1] if len(args) > 1 else None)
    return func in SOFTMAXES and isinstance(out, Tensor) and out.ndim == 4 and axis in (-1, 3)


@dataclass(frozen=True)
class Projection:
    """Σ_h context[b,q,h,:] weight[h] + bias = result: W_O of one attention layer, and its output."""

    weight: Tensor  # [h,d,D]
    bias: Tensor | None  # [D]
    result: Tensor  # [b,q,D]


@dataclass(frozen=True)
class Context:
    """The context vectors [b,q,h,d] of one site, and the order of these axes in the model's tensor."""

    site: Site
    read: Tensor
    order: tuple[int, ...]

    @classmethod
    def of(cls, site: Site, weights: Tensor, args: Any, out: Tensor) -> Context:
        """From the product of weights [b,h,q,k] and values."""
        if isinstance(args[0], str):
            first, result = args[0].replace(" ", "").replace("->", ",").split(",")[::2]
            feature = next(letter for letter in result if letter not in first)
            order = tuple(result.index(letter) for letter in (first[0], first[2], first[1], feature))
            return cls(site, out.detach().permute(order), order)
        b, h, q, _ = weights.shape
        return cls(site, out.detach().reshape(b, h, q, -1).permute(0, 2, 1, 3), (0, 2, 1, 3))

    def projection(self, func: Any, args: Any, kwargs: Any, out: Tensor) -> Projection | None:
        """The linear map of a later call, if its input equals this context."""
        if isinstance(args[0], str):
            return self._summed(args, out)
        factors = [*args, *kwargs.values()]
        if func in _ADDED:
            bias, inputs, weight = factors[:3]
        else:
            inputs, weight, bias = [*factors, None][:3]
        if not all(isinstance(x, Tensor) for x in (inputs, weight)) or weight.ndim != 2:
            return None
        if inputs.numel() != self.read.numel() or not self._same(inputs.reshape(self.read.shape)):
            return None
        b, q, h, d = self.read.shape
        columns = weight.T if func is torch.nn.functional.linear else weight
        if columns.shape[0] != h * d:
            return None
        return Projection(columns.reshape(h, d, -1), bias, out.detach().reshape(b, q, -1))

    def _summed(self, args: Any, out: Tensor) -> Projection | None:
        """einsum(equation, context, weight), or the weight first."""
        equation, *factors = args
        if len(factors) == 1 and isinstance(factors[0], (list, tuple)):
            factors = list(factors[0])
        if len(factors) != 2:
            return None
        first, second, result = equation.replace(" ", "").replace("->", ",").split(",")
        a, b = factors
        projection = self._contracted((first, second, result), a, b, out)
        return projection or self._contracted((second, first, result), b, a, out)

    def _contracted(
        self, letters: tuple[str, str, str], inputs: Tensor, weight: Tensor, out: Tensor
    ) -> Projection | None:
        ours, theirs, result = letters
        if inputs.ndim == 3 and self.read.shape[1] == 1:  # one query, without its axis
            axis = self.order[1]
            inputs, ours = inputs.unsqueeze(axis), f"{ours[:axis]}?{ours[axis:]}"
            out, result = out[None], f"?{result}"
        if inputs.ndim != 4 or not self._same(inputs.permute(self.order)):
            return None
        b, q, h, d = (ours[axis] for axis in self.order)
        wide = [letter for letter in theirs if letter not in ours]
        if len(wide) != 1 or sorted(theirs) != sorted((h, d, *wide)) or sorted(result) != sorted((b, q, *wide)):
            return None
        columns = weight.permute([theirs.index(letter) for letter in (h, d, *wide)])
        return Projection(columns, None, out.detach().permute([result.index(letter) for letter in (b, q, *wide)]))

    def _same(self, inputs: Tensor) -> bool:
        return inputs.shape == self.read.shape and torch.equal(inputs.detach(), self.read.to(inputs.dtype))
