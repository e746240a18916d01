"""A small Transformer encoder, as in the poster "Is Attention Explanation in Transformers?".

x = √d · word vector + position
x ← LN(x + heads(x)), then x ← LN(x + W_2 relu(W_1 x)), in each layer
logits = W pool(x) + b

Dropout is on the first x and on the output of the two-layer network, not on that of attention, as in the poster's code.
Weights have Keras' initial values: matrices Glorot-uniform, biases 0, word vectors uniform in ±0.05. A sum of states is
divided by 100, which is ours: otherwise the first logits are about 100 and training is unstable.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from heedful.core import settings
from heedful.core.errors import BadInput
from heedful.core.settings import Count, Fraction
from heedful.maths.activations import Activation
from heedful.nets import base as common
from heedful.nets.base import Ids, Mask, Net, Shape, real_positions, weighted_sum, weights
from heedful.nets.multihead import leading, positions_of, sinusoidal

Pooling = Literal["sum", "mean", "cls"]
HUNDRED = 100


@dataclass
class TransformerShape(Shape):
    """Sizes, the activation of attention, and the pooling of the last states.

    `pooling` is the sum or the mean over real tokens, or the first of them ("cls"). `inner` is the width of the
    two-layer network. Without `positions` a text is a bag of words.
    """

    layers: Count = 4
    heads: Count = 8
    width: Count = 128
    inner: Count = 512
    dropout: Fraction = 0.1
    activation: Activation = "softmax"
    pooling: Pooling = "sum"
    positions: bool = True
    max_position_embeddings: int = 256
    model_type: ClassVar[str] = "transformer"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % self.heads:
            raise BadInput(f"width {self.width} is not a multiple of {self.heads}, the number of heads.")


@dataclass(frozen=True)
class TransformerOutput(common.Output):
    """An output with the states before the first layer and after each; none with fused attention."""

    hidden_states: tuple[Float[Tensor, "b t e"], ...] = ()


class Block(nn.Module):
    """One layer: attention, then a network of two layers, each with a residual connection and LayerNorm."""

    def __init__(self, config: TransformerShape) -> None:
        super().__init__()
        width = config.width
        self.heads = config.heads
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.inner, self.outer = nn.Linear(width, config.inner), nn.Linear(config.inner, width)
        self.attended, self.finished = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        hidden_states: Float[Tensor, "b t e"],
        allowed: Bool[Tensor, "#b 1 t"],
        activation: Activation,
        fast: bool = False,
    ) -> tuple[Float[Tensor, "b t e"], Float[Tensor, "b h t t"] | None]:
        """New states, and the attention unless `fast`."""
        # subtle: where a batch branches, there are more texts than rows of the mask
        allowed = allowed.expand(len(hidden_states), -1, -1)
        query, keys, values = (
            m(hidden_states).view(*hidden_states.shape[:2], self.heads, -1).transpose(1, 2)
            for m in (self.query, self.key, self.value)
        )
        attention: Tensor | None = None
        if fast and activation == "softmax":
            readable = allowed.any(-1, keepdim=True)
            usable = None if bool(allowed.all()) else (allowed | ~readable)[:, None]
            context = scaled_dot_product_attention(query, keys, values, attn_mask=usable) * readable[:, None]
        else:
            scores = torch.matmul(query, keys.transpose(-1, -2)) / query.shape[-1] ** 0.5
            attention = weights(scores, allowed, activation)
            context = weighted_sum(attention, values, allowed)
        states = self.attended(hidden_states + self.out(context.transpose(1, 2).flatten(2)))
        return self.finished(states + self.dropout(self.outer(self.inner(states).relu()))), attention


class Transformer(Net):
    """The network. A masked token has no effect at any position: it gets no attention and no position vector."""

    shape: ClassVar[type[Shape]] = TransformerShape
    positions: Tensor | None

    def __init__(self, config: TransformerShape) -> None:
        super().__init__(config)
        self.attention_sites = tuple(("self", layer) for layer in range(config.layers))
        self.words = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.head = nn.Linear(config.width, config.num_labels)
        self.dropout = nn.Dropout(config.dropout)
        table = sinusoidal(config.max_position_embeddings, config.width).to(self.words.weight.dtype)
        self.register_buffer("positions", table if config.positions else None)
        nn.init.uniform_(self.words.weight, -0.05, 0.05)
        for linear in (m for m in self.modules() if isinstance(m, nn.Linear)):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(
        self, input_ids: Ids, attention_mask: Mask = None, token_type_ids: Mask = None, **_: Any
    ) -> TransformerOutput:
        """Logits, attention and states."""
        mask = real_positions(input_ids, attention_mask)
        vectors = self.words(input_ids) * self.config.width**0.5
        if self.positions is not None:
            vectors = vectors + positions_of(mask, self.positions)
        states = [self.dropout(vectors)]
        attentions: list[Tensor] = []
        for block in self.blocks:
            state, attention = block(states[-1], mask[:, None], self.config.activation, self.fast)
            states.append(state)
            attentions += [] if attention is None else [attention]
        logits = self.head(self._pooled(states[-1], mask))
        return TransformerOutput(logits) if self.fast else TransformerOutput(logits, tuple(attentions), tuple(states))

    def position_vectors(self, mask: Bool[Tensor, "b t"]) -> Float[Tensor, "#b t e"] | None:
        """What the forward pass adds to the word vectors for their positions, in the unit of word vectors; or None."""
        return None if self.positions is None else positions_of(mask, self.positions) / self.config.width**0.5

    def _pooled(self, states: Float[Tensor, "b t e"], mask: Bool[Tensor, "#b t"]) -> Float[Tensor, "b e"]:
        count = mask.sum(1, keepdim=True)
        if self.config.pooling == "cls":
            return leading(states, mask) * (count > 0)
        total = (states * mask[..., None]).sum(1)
        return total / HUNDRED if self.config.pooling == "sum" else total / count.clamp(min=1)


def with_activation(model: Net, activation: Activation) -> Net:
    """The network with another activation and shared weights: the poster's "change of activation at inference".

    For any network whose forward pass reads `activation` from its shape.
    """
    if not hasattr(model.config, "activation"):
        raise BadInput(f"{type(model).__name__} has no setting 'activation'; give a network that has, as Transformer.")
    config = copy.copy(model.config)
    config.activation = settings.of(type(config))["activation"].checked(activation)
    shared: dict[int, Any] = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    return copy.deepcopy(model, shared | {id(model.config): config})
