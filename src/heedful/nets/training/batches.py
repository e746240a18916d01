"""Encoding: a whole data set as token ids in one array, and batches of texts of similar length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from heedful.core.arrays import Ints
from heedful.model.batch import Padding

RIGHT = Padding("right", 0)


@dataclass(frozen=True)
class PaddedTexts:
    """Texts of one batch, padded to the longest: the input of a forward pass."""

    ids: Int[Tensor, "b t"]
    mask: Int[Tensor, "b t"]
    types: Int[Tensor, "b t"] | None
    at: Int[Tensor, "b"]  # indices of the texts in the data set


@dataclass(frozen=True)
class EncodedTexts:
    """All texts, concatenated: text i is `ids[starts[i] : starts[i + 1]]`; `types` are the token types of pairs."""

    ids: Int[np.ndarray, "n"]
    types: Int[np.ndarray, "n"] | None
    starts: Int[np.ndarray, "m"]
    padding: Padding = RIGHT

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Ints:
        """Tokens of each text."""
        return np.diff(self.starts)

    def cells(self, texts: Ints) -> tuple[Int[np.ndarray, "b t"], Bool[np.ndarray, "b t"]]:
        """Where each token of a padded batch of these texts is in `ids` (0 for padding), and which are tokens."""
        lengths = self.lengths[texts]
        width = max(1, int(lengths.max()))
        first = width - lengths if self.padding.side == "left" else np.zeros_like(lengths)
        steps = np.arange(width) - first[:, None]
        real = (steps >= 0) & (steps < lengths[:, None])
        return np.where(real, self.starts[texts][:, None] + steps, 0), real

    def rows(self, texts: Ints) -> PaddedTexts:
        """These texts as one batch."""
        cells, real = self.cells(texts)
        ids = np.where(real, self.ids[cells], self.padding.token)
        types = None if self.types is None else _tensor(np.where(real, self.types[cells], self.padding.type))
        return PaddedTexts(_tensor(ids), _tensor(real), types, _tensor(texts))

    def take(self, texts: Ints) -> EncodedTexts:
        """Only these texts, in this order."""
        ranges = [np.arange(self.starts[i], self.starts[i + 1]) for i in texts]
        cells = np.concatenate(ranges or [np.zeros(0, np.int64)])
        starts = np.concatenate([[0], np.cumsum(self.lengths[texts])])
        return EncodedTexts(self.ids[cells], None if self.types is None else self.types[cells], starts, self.padding)


def _tensor(cells: NDArray[Any]) -> Tensor:
    return torch.from_numpy(cells.astype(np.int64))


def encoded(
    tokenizer: Any, texts: Sequence[tuple[str, str | None]], padding: Padding = RIGHT, typed: bool = True
) -> EncodedTexts:
    """Texts and pairs through a `tokenizers.Tokenizer`, a few thousand at a time; `typed` if the model uses types."""
    ids: list[NDArray[np.int32]] = []
    types: list[NDArray[np.int8]] = []
    lengths: list[int] = []
    for start in range(0, len(texts), 4096):
        group = [text if pair is None else (text, pair) for text, pair in texts[start : start + 4096]]
        for encoding in tokenizer.encode_batch_fast(group):
            ids.append(np.array(encoding.ids, dtype=np.int32))
            types.append(np.array(encoding.type_ids, dtype=np.int8))
            lengths.append(len(encoding.ids))
    starts = np.concatenate([[0], np.cumsum(np.array(lengths, dtype=np.int64))])
    return EncodedTexts(np.concatenate(ids), np.concatenate(types) if typed else None, starts, padding)


def bucketed(lengths: Ints, size: int, rng: np.random.Generator, budget: int | None = None) -> list[Ints]:
    """Batches of texts of similar length, in random order: sorted by length with ±10 % noise, and cut.

    A batch has at most `size` texts and `budget` tokens, padding included. `rng` decides which texts share a batch.
    """
    noisy = lengths * rng.uniform(0.9, 1.1, len(lengths))
    order = np.argsort(noisy, kind="stable")
    batches = list(_cut(order, lengths, size, budget))
    return [batches[i] for i in rng.permutation(len(batches))]


def in_order(lengths: Ints, size: int, budget: int | None = None) -> list[Ints]:
    """Batches for inference: all texts, sorted by length."""
    return list(_cut(np.argsort(lengths, kind="stable"), lengths, size, budget))


def _cut(order: Ints, lengths: Ints, size: int, budget: int | None) -> Iterator[Ints]:
    begin, widest = 0, 0
    for end, i in enumerate(order):
        wider = max(widest, int(lengths[i]))
        full = end - begin >= size or (budget is not None and wider * (end - begin + 1) > budget)
        if full and end > begin:
            yield order[begin:end]
            begin, wider = end, int(lengths[i])
        widest = wider
    if begin < len(order):
        yield order[begin:]
