"""The single-layer, multi-head attention classifier of Lopardo et al. 2024.

e_t = word vector + position, α_t = softmax_t(W_q e_0 · W_k e_t / √d_att), logits = mean over heads of W_ℓ Σ α_t W_v e_t

The first token ([CLS]) is the only query. No biases, no residual connection, no LayerNorm.

With several layers, each but the last maps every position to the mean over heads of W_ℓ' Σ α_t W_v e_t, a vector of
the size of e_t, and the last is as above. This is our reading of appendix F, for which no code is published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import embedding, pad, scaled_dot_product_attention

from heedful.core.errors import BadInput
from heedful.core.settings import Count
from heedful.nets import base as common
from heedful.nets.base import Ids, Mask, Net, Output, real_positions, weighted_sum, weights


def sinusoidal(length: int, width: int) -> Float[Tensor, "t e"]:
    """Vaswani et al. 2017, §3.5: sin(t / 10000^(i/width)) at even i, its cos at the odd i + 1."""
    even = torch.arange(0, width, 2, dtype=torch.float64)
    angles = torch.arange(length, dtype=torch.float64)[:, None] / 10000 ** (even / width)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :width]


def positions_of(mask: Bool[Tensor, "b t"], positions: Float[Tensor, "n e"]) -> Float[Tensor, "#b t e"]:
    """The position of each token, counted over real tokens only; masked tokens get the positions after them."""
    length, limit = mask.shape[1], len(positions)
    if length > limit:
        raise BadInput(f"the text has {length} tokens and the network has {limit} positions; shorten it.")
    if bool((mask[:, 1:] <= mask[:, :-1]).all()):  # masked tokens are last, if there are any
        return positions[None, :length]
    places = torch.where(mask, mask.cumsum(1), mask.sum(1, keepdim=True) + (~mask).cumsum(1)) - 1
    return positions[places]


def leading(states: Float[Tensor, "b t e"], mask: Bool[Tensor, "#b t"]) -> Float[Tensor, "b e"]:
    """The state of each text's first real token; without one, of its first token."""
    if bool(mask[:, 0].all()):
        return states[:, 0]
    first = mask.to(torch.int8).argmax(1).expand(len(states))
    return states[torch.arange(len(states), device=states.device), first]


@dataclass
class MultiHeadShape(common.Shape):
    """The network's configuration: its sizes, its label names, and how it treats padding.

    `masked=False` is the authors' way: every text is padded to `max_position_embeddings` with `pad_token_id`, and
    padding receives attention. `residual` is ours: a residual connection around all layers but the last. Six layers
    also train without it, but late: their first logits differ by 1e-6 between texts.
    """

    embedding: Count = 128
    attention: Count = 64
    value: Count = 64
    heads: Count = 6
    max_position_embeddings: int = 256
    masked: bool = True
    layers: Count = 1
    residual: bool = False
    model_type: ClassVar[str] = "multihead"


class Layer(nn.Module):
    """One of several layers: multi-head attention for every position, averaged over heads."""

    def __init__(self, config: MultiHeadShape, last: bool) -> None:
        super().__init__()
        _add_matrices(self, config, config.num_labels if last else config.embedding)
        self.residual = config.residual and not last

    def forward(
        self, hidden_states: Float[Tensor, "b t e"], allowed: Bool[Tensor, "#b 1 t"], fast: bool = False
    ) -> tuple[Float[Tensor, "b t o"], Float[Tensor, "b k t t"] | None]:
        """New states, or logits for every position, and the attention unless `fast`."""
        allowed = allowed.expand(len(hidden_states), -1, -1)
        if fast:
            states, attention = _attended_fast(self, hidden_states, allowed), None
        else:
            states, attention = _attended(self, hidden_states, hidden_states, allowed)
        return (hidden_states + states if self.residual else states), attention


class MultiHead(Net):
    """The network. Weights start as in the paper: word vectors N(0, 1), the others uniform in ±0.1.

    One layer's matrices are its own `query`, `key`, `value` and `out`; those of several are in `blocks`.
    """

    shape: ClassVar[type[common.Shape]] = MultiHeadShape
    positions: Tensor
    query: nn.Parameter
    key: nn.Parameter
    value: nn.Parameter
    out: nn.Parameter

    def __init__(self, config: MultiHeadShape, rng: torch.Generator | None = None) -> None:
        super().__init__(config)
        self.attention_sites = tuple(("self", layer) for layer in range(config.layers))
        self.words = nn.Embedding(config.vocabulary, config.embedding)
        if config.layers == 1:
            _add_matrices(self, config, config.num_labels)
        above = range(1, config.layers + 1) if config.layers > 1 else ()
        self.blocks = nn.ModuleList(Layer(config, last=n == config.layers) for n in above)
        table = sinusoidal(config.max_position_embeddings, config.embedding)
        self.register_buffer("positions", table.to(self.words.weight.dtype))
        with torch.no_grad():
            self.words.weight.normal_(generator=rng)
            for matrix in (p for p in self.parameters() if p is not self.words.weight):
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
        """One layer with these weights, in their precision; by default 256 sinusoidal positions."""
        positions = sinusoidal(256, words.shape[1]).to(words) if positions is None else positions
        config = MultiHeadShape(
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
        net = cls(config).to(words.dtype)
        named = {"words.weight": words, "query": query, "key": key, "value": value, "out": out, "positions": positions}
        wrong = [n for n, matrix in net.state_dict().items() if matrix.shape != named[n].shape]
        if wrong:
            shapes = ", ".join(f"{n} {tuple(matrix.shape)}" for n, matrix in named.items())
            raise BadInput(f"the matrices do not fit together: {shapes}.")
        net.load_state_dict(named)
        return net.eval()

    def forward(self, input_ids: Ids, attention_mask: Mask = None, token_type_ids: Mask = None, **_: Any) -> Output:
        """Logits and attention, [b,k,1,t] of the first token, or [b,k,t,t] of every token in each of several layers.

        With `masked=False`, t is all positions.
        """
        states, mask, allowed = self._embedded(input_ids, attention_mask)
        if self.fast:
            for block in self.blocks[:-1]:
                states, _none = block(states, allowed, fast=True)
            last = self.blocks[-1] if self.blocks else self
            return Output(_read_once(last, states, leading(states, mask), allowed))
        if not self.blocks:
            logits, attention = _attended(self, states, leading(states, mask)[:, None], allowed)
            return Output(logits[:, 0], (attention,))
        attentions: list[Tensor] = []
        for block in self.blocks:
            states, attention = block(states, allowed)
            attentions.append(attention)
        return Output(leading(states, mask), tuple(attentions))

    def all_queries(self, input_ids: Ids, attention_mask: Mask = None) -> Float[Tensor, "b k t t"]:
        """The first layer's attention with every token as a query, not the first alone; t is as in `forward`."""
        states, _mask, allowed = self._embedded(input_ids, attention_mask)
        return _attention(self.blocks[0] if self.blocks else self, states, states, allowed)

    def position_vectors(self, mask: Bool[Tensor, "b t"]) -> Float[Tensor, "#b t e"]:
        """What the forward pass adds to the word vectors for their positions."""
        return positions_of(mask, self.positions)

    def _embedded(
        self, input_ids: Ids, attention_mask: Mask
    ) -> tuple[Float[Tensor, "b n e"], Bool[Tensor, "b n"], Bool[Tensor, "b 1 n"]]:
        """e_t of every position, which of them hold the text, and which may be attended to."""
        mask = real_positions(input_ids, attention_mask)
        vectors = self.words(input_ids)
        if not self.config.masked:
            vectors, mask = self._filled(vectors, mask)
        allowed = mask if self.config.masked else torch.ones_like(mask)
        return vectors + positions_of(mask, self.positions), mask, allowed[:, None]

    def _filled(self, vectors: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The text's word vectors, padded to the last position, and the mask of the text's own."""
        # subtle: not self.words(pad), because the seam's embedding hook accepts the text's own ids only
        pad_id = torch.tensor(self.config.pad_token_id, device=vectors.device)
        filler = embedding(pad_id, self.words.weight, sparse=self.words.sparse)  # sparse where training is lazy
        text = vectors if bool(mask.all()) else torch.where(mask[..., None], vectors, filler)
        spare = len(self.positions) - mask.shape[1]
        if spare <= 0:
            return text, mask
        return torch.cat([text, filler.expand(len(text), spare, -1)], 1), pad(mask, (0, spare))


def _add_matrices(to: nn.Module, config: MultiHeadShape, width: int) -> None:
    """Add W_q, W_k, W_v and W_ℓ of every head, uninitialised; the output of W_ℓ has this width."""
    inner = (config.heads, config.attention, config.embedding)
    to.query, to.key = nn.Parameter(torch.empty(inner)), nn.Parameter(torch.empty(inner))
    to.value = nn.Parameter(torch.empty(config.heads, config.value, config.embedding))
    to.out = nn.Parameter(torch.empty(config.heads, width, config.value))


def _attention(
    layer: Any, states: Float[Tensor, "b t e"], queries: Float[Tensor, "b q e"], allowed: Bool[Tensor, "b 1 t"]
) -> Float[Tensor, "b k q t"]:
    """α of each query."""
    query = torch.einsum("kae,bqe->bkqa", layer.query, queries)
    keys = torch.einsum("kae,bte->bkta", layer.key, states)
    return weights(torch.matmul(query, keys.transpose(-1, -2)) / query.shape[-1] ** 0.5, allowed)


def _attended(
    layer: Any, states: Float[Tensor, "b t e"], queries: Float[Tensor, "b q e"], allowed: Bool[Tensor, "b 1 t"]
) -> tuple[Float[Tensor, "b q c"], Float[Tensor, "b k q t"]]:
    """Mean over heads of W_ℓ Σ α_t W_v e_t for each query, and α."""
    alpha = _attention(layer, states, queries, allowed)
    context = weighted_sum(alpha, torch.einsum("koe,bte->bkto", layer.value, states), allowed)
    return torch.einsum("kco,bkqo->bqc", layer.out, context) / len(layer.out), alpha


def _attended_fast(
    layer: Any, states: Float[Tensor, "b t e"], allowed: Bool[Tensor, "b 1 t"]
) -> Float[Tensor, "b t c"]:
    """The same for every position, without the weights."""
    readable = allowed.any(-1, keepdim=True)
    query, keys, values = (torch.einsum("kae,bte->bkta", m, states) for m in (layer.query, layer.key, layer.value))
    context = scaled_dot_product_attention(query, keys, values, attn_mask=(allowed | ~readable)[:, None])
    return torch.einsum("kco,bkqo->bqc", layer.out, context) / len(layer.out) * readable


def _read_once(
    layer: Any, states: Float[Tensor, "b t e"], first: Float[Tensor, "b e"], allowed: Bool[Tensor, "b 1 t"]
) -> Float[Tensor, "b c"]:
    """The same for one query, without any token's key or value: α from (W_kᵀ W_q e_0) · e_t, and W_v Σ α_t e_t."""
    query = torch.einsum("kae,be->bka", layer.query, first)
    direction = torch.einsum("kae,bka->bke", layer.key, query) / query.shape[-1] ** 0.5
    alpha = weights(torch.matmul(direction, states.transpose(1, 2))[:, :, None], allowed)[:, :, 0]
    mixed = torch.matmul(alpha, states) * allowed.any(-1, keepdim=True)
    return torch.einsum("kco,koe,bke->bc", layer.out, layer.value, mixed) / len(layer.out)
