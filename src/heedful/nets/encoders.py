"""Encoders of Jain & Wallace 2019: word vectors in, a state of every token and one of the whole text out.

Masked tokens have no effect: real tokens are moved to the front before encoding, and their states back after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from heedful.core.errors import BadInput
from heedful.nets.base import Bidirectional

EncoderName = Literal["bilstm", "gru", "cnn", "single-cnn", "average", "none"]
States = tuple[Float[Tensor, "b t m"], Float[Tensor, "b m"]]


class Encoder(nn.Module):
    """States [b,t,m] of the tokens (0 where masked) and the text's last state [b,m] (0 for a text without tokens)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def encode(self, vectors: Float[Tensor, "b n e"], mask: Bool[Tensor, "b n"]) -> States:
        """The states of texts whose real tokens come first."""
        raise NotImplementedError

    def forward(self, vectors: Float[Tensor, "b t e"], mask: Bool[Tensor, "b t"]) -> States:
        """The states of texts with real tokens at any positions."""
        lengths = mask.sum(1)
        longest = max(1, int(lengths.max()))
        front = torch.arange(longest, device=mask.device) < lengths[:, None]
        if front.shape == mask.shape and torch.equal(front, mask):
            return self.encode(vectors, mask)
        order = (~mask).to(torch.int8).argsort(dim=1, stable=True)[:, :longest, None]
        states, last = self.encode(vectors.gather(1, order.expand(-1, -1, vectors.shape[-1])), front)
        places = order.expand(-1, -1, self.width)
        return states.new_zeros(*mask.shape, self.width).scatter(1, places, states), last


class Recurrent(Encoder):
    """One bidirectional LSTM or GRU layer; the last state concatenates those of both directions."""

    def __init__(self, cell: Literal["lstm", "gru"], embedding: int, hidden: int) -> None:
        super().__init__(2 * hidden)
        self.layer = Bidirectional(cell, embedding, hidden)

    def encode(self, vectors: Float[Tensor, "b n e"], mask: Bool[Tensor, "b n"]) -> States:
        """The layer's states."""
        return self.layer(vectors, mask)  # type: ignore[no-any-return]


class Convolution(Encoder):
    """Convolutions of several widths, concatenated, with ReLU; the last state is the maximum over tokens."""

    def __init__(self, kernels: tuple[int, ...], embedding: int, hidden: int) -> None:
        if hidden % len(kernels):
            raise BadInput(f"hidden {hidden} is not a multiple of {len(kernels)}, the number of kernel widths.")
        super().__init__(hidden)
        # subtle: not a ModuleList, which the seam would treat as Transformer blocks
        self.widths = nn.ModuleDict(
            {str(k): nn.Conv1d(embedding, hidden // len(kernels), k, padding=k // 2) for k in kernels}
        )

    def encode(self, vectors: Float[Tensor, "b n e"], mask: Bool[Tensor, "b n"]) -> States:
        """Both ends of a text are padded with zeros, also where padding tokens follow."""
        real = mask[..., None].to(vectors.dtype)
        inputs = (vectors * real).transpose(1, 2)
        states = torch.cat([width(inputs) for width in self.widths.values()], 1).transpose(1, 2).relu() * real
        return states, states.amax(1)  # no state is below the 0 of padding


class Average(Encoder):
    """tanh(W e_t + b) of each token; the last state is the mean over real tokens.

    The authors divide by the padded length, which makes an output depend on the other texts of its batch.
    """

    def __init__(self, embedding: int, hidden: int) -> None:
        super().__init__(hidden)
        self.map = nn.Linear(embedding, hidden)

    def encode(self, vectors: Float[Tensor, "b n e"], mask: Bool[Tensor, "b n"]) -> States:
        """A layer without context."""
        return _with_mean(torch.tanh(self.map(vectors)), mask)


class Bare(Encoder):
    """The word vectors themselves; the last state is their mean."""

    def encode(self, vectors: Float[Tensor, "b n e"], mask: Bool[Tensor, "b n"]) -> States:
        """No layer."""
        return _with_mean(vectors, mask)


def _with_mean(states: Float[Tensor, "b n m"], mask: Bool[Tensor, "b n"]) -> States:
    states = states * mask[..., None].to(states.dtype)
    return states, states.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


ENCODERS: dict[str, Callable[[int, int], Encoder]] = {
    "bilstm": lambda embedding, hidden: Recurrent("lstm", embedding, hidden),
    "gru": lambda embedding, hidden: Recurrent("gru", embedding, hidden),
    "cnn": lambda embedding, hidden: Convolution((1, 3, 5, 7), embedding, hidden),
    "single-cnn": lambda embedding, hidden: Convolution((3,), embedding, hidden),
    "average": Average,
    "none": lambda embedding, hidden: Bare(embedding),
}
