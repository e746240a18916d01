"""The single-layer, multi-head attention classifier of Lopardo et al. 2024.

e_t = word vector + position, α_t = softmax_t(W_q e_0 · W_k e_t / √d_att), logits = mean over heads of W_ℓ Σ α_t W_v e_t

The first token ([CLS]) is the only query. No biases, no residual connection, no LayerNorm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.errors import BadInput


def sinusoidal(length: int, width: int) -> Float[Tensor, "t e"]:
    """Vaswani et al. 2017, §3.5: sin(t / 10000^(i/width)) at even i, the cos of the same at the odd i that follows."""
    even = torch.arange(0, width, 2, dtype=torch.float64)
    angles = torch.arange(length, dtype=torch.float64)[:, None] / 10000 ** (even / width)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :width]


@dataclass(frozen=True)
class Shape:
    """The network's configuration: its sizes, what its labels are called, and how it treats padding.

    `masked=False` is the authors' way: every text is filled up to `max_position_embeddings` with `pad_token_id`, and
    the padding takes its share of attention.
    """

    vocabulary: int
    num_labels: int = 2
    embedding: int = 128
    attention: int = 64
    value: int = 64
    heads: int = 6
    max_position_embeddings: int = 256
    pad_token_id: int = 0
    masked: bool = True
    labels: tuple[str, ...] = ()
    model_type: str = "multihead"

    @property
    def id2label(self) -> dict[int, str]:
        """Names of the labels, where they have any."""
        return dict(enumerate(self.labels))


@dataclass(frozen=True)
class Output:
    """What a forward pass returns."""

    logits: Float[Tensor, "b c"]
    attentions: tuple[Float[Tensor, "b k 1 t"], ...]


class MultiHead(nn.Module):
    """The network. Weights start as in the paper: word vectors N(0, 1), the others uniform in ±0.1."""

    attention_sites = (("self", 0),)
    positions: Tensor

    def __init__(self, config: Shape, rng: torch.Generator | None = None) -> None:
        super().__init__()
        self.config = config
        heads, inner = config.heads, (config.attention, config.embedding)
        self.words = nn.Embedding(config.vocabulary, config.embedding)
        self.query = nn.Parameter(torch.empty(heads, *inner))
        self.key = nn.Parameter(torch.empty(heads, *inner))
        self.value = nn.Parameter(torch.empty(heads, config.value, config.embedding))
        self.out = nn.Parameter(torch.empty(heads, config.num_labels, config.value))
        table = sinusoidal(config.max_position_embeddings, config.embedding)
        self.register_buffer("positions", table.to(self.words.weight.dtype))
        with torch.no_grad():
            self.words.weight.normal_(generator=rng)
            for matrix in (self.query, self.key, self.value, self.out):
                matrix.uniform_(-0.1, 0.1, generator=rng)

    @classmethod
    def from_matrices(
        cls,
        *,
        words: Float[Tensor, "v e"],
        query: Float[Tensor, "k a e"],
        key: Float[Tensor, "k a e"],
        value: Float[Tensor, "k o e"],
        out: Float[Tensor, "k c o"],
        positions: Float[Tensor, "t e"] | None = None,
        pad_token_id: int = 0,
        masked: bool = True,
        labels: tuple[str, ...] = (),
    ) -> MultiHead:
        """The network with these weights, in their precision; 256 sinusoidal positions if none are given."""
        positions = sinusoidal(256, words.shape[1]).to(words) if positions is None else positions
        config = Shape(
            vocabulary=words.shape[0],
            num_labels=out.shape[1],
            embedding=words.shape[1],
            attention=query.shape[1],
            value=value.shape[1],
            heads=query.shape[0],
            max_position_embeddings=positions.shape[0],
            pad_token_id=pad_token_id,
            masked=masked,
            labels=labels,
        )
        made = cls(config).to(words.dtype)
        named = {"words.weight": words, "query": query, "key": key, "value": value, "out": out, "positions": positions}
        wrong = [n for n, matrix in made.state_dict().items() if matrix.shape != named[n].shape]
        if wrong:
            shapes = ", ".join(f"{n} {tuple(matrix.shape)}" for n, matrix in named.items())
            raise BadInput(f"the matrices do not fit together: {shapes}.")
        made.load_state_dict(named)
        return made.eval()

    def get_input_embeddings(self) -> nn.Embedding:
        """The table of word vectors."""
        return self.words

    def forward(
        self,
        input_ids: Int[Tensor, "b t"],
        attention_mask: Int[Tensor, "b t"] | None = None,
        token_type_ids: Tensor | None = None,
        **_: Any,
    ) -> Output:
        """Logits, and the attention [b,k,1,t] of the first token; with `masked=False`, t is all positions."""
        length, limit = input_ids.shape[1], len(self.positions)
        if length > limit:
            raise BadInput(f"the text has {length} tokens and the network has {limit} positions; shorten it.")
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        vectors = self.words(input_ids)
        if not self.config.masked:
            vectors = self._filled(vectors, mask)
        states = vectors + self.positions[: vectors.shape[1]]
        query = torch.einsum("kae,be->bka", self.query, states[:, 0])
        keys = torch.einsum("kae,bte->bkta", self.key, states)
        scores = torch.einsum("bka,bkta->bkt", query, keys)[:, :, None] / self.config.attention**0.5
        if self.config.masked:
            scores = scores.masked_fill(mask[:, None, None] == 0, -torch.inf)
        weights = scores.softmax(-1)
        context = torch.matmul(weights, torch.einsum("koe,bte->bkto", self.value, states))
        logits = torch.einsum("kco,bko->bc", self.out, context[:, :, 0]) / self.config.heads
        return Output(logits, (weights,))

    def _filled(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """The text's word vectors, then those of padding up to the last position."""
        # subtle: not self.words(pad), because the seam's embedding hook may see the text's own ids only
        pad = self.words.weight[self.config.pad_token_id]
        real = torch.where(mask[..., None] != 0, vectors, pad)
        rest = pad.expand(len(real), len(self.positions) - real.shape[1], -1)
        return torch.cat([real, rest], 1)
