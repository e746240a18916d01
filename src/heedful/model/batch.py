"""Batch: equally long inputs of the model, and which texts to run together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from heedful.core.tokens import Tokens

Side = Literal["right", "left"]
BUDGET = 4096  # tokens of a batch


def copies_per_batch(width: int) -> int:
    """The number of changed copies of a text of this width that fit in a batch with it."""
    return max(1, BUDGET // width - 1)


@dataclass(frozen=True)
class Batch:
    """Equally long inputs: token ids, attention mask (1 where allowed), and token types if any.

    `hidden` are tokens of the text that attention may not use; all others with mask 0 are padding. `possible` are the
    labels that the whole text allows, where these are variants of it and its words decide that.
    """

    ids: Int[Tensor, "b t"]
    mask: Int[Tensor, "b t"]
    segments: Int[Tensor, "b t"] | None = None
    hidden: Bool[Tensor, "b t"] | None = None
    possible: Bool[Tensor, "b c"] | None = None

    def __len__(self) -> int:
        return int(self.ids.shape[0])

    @property
    def real(self) -> Bool[Tensor, "b t"]:
        """Which positions hold a token of the text."""
        return self.mask.bool() if self.hidden is None else self.mask.bool() | self.hidden

    def row(self, i: int) -> Batch:
        """One text of the batch, with its padding."""
        return self._each(lambda x: x[i : i + 1])

    def repeat(self, copies: int) -> Batch:
        """Each row repeated `copies` times."""
        return self._each(lambda x: x.repeat_interleave(copies, 0))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        parts = (self.ids, self.mask, self.segments, self.hidden, self.possible)
        return Batch(*(None if part is None else change(part) for part in parts))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Padding:
    """How texts are padded: the side, the token and the token type."""

    side: Side
    token: int
    type: int = 0

    def batch(self, texts: Sequence[Tokens], device: torch.device, width: int = 0) -> Batch:
        """Texts in one batch, padded to the longest or to `width`."""
        width = max(width, *(len(tokens) for tokens in texts))

        def rows(values: Sequence[Sequence[int]], fill: int) -> Tensor:
            pads = [[fill] * (width - len(row)) for row in values]
            pairs = zip(pads, values, strict=True) if self.side == "left" else zip(values, pads, strict=True)
            return torch.tensor([[*first, *second] for first, second in pairs], device=device)

        types = [tokens.types for tokens in texts if tokens.types is not None]
        return Batch(
            ids=rows([tokens.ids for tokens in texts], self.token),
            mask=rows([[1] * len(tokens) for tokens in texts], 0),
            segments=rows(types, self.type) if types else None,
        )


def grouped(texts: Sequence[Tokens], budget: int, mixes: Callable[[Tokens, Tokens], bool]) -> list[list[int]]:
    """Which texts to run together: of similar length, at most `budget` tokens, and only pairs that `mixes` allows."""
    groups: list[list[int]] = []
    for i in sorted(range(len(texts)), key=lambda i: len(texts[i])):
        # subtle: sorted by length, so the newest text is the widest
        fits = (g for g in groups[-3:] if len(texts[i]) * (len(g) + 1) <= budget and mixes(texts[g[0]], texts[i]))
        group = next(fits, None)
        if group is None:
            groups.append([i])
        else:
            group.append(i)
    return groups
