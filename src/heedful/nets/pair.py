"""A passage and a query (Jain & Wallace 2019: question answering, inference, a sentence under an aspect).

h = encoder_P(passage), q = last state of encoder_Q(query), α over the passage's words, c = Σ α_t h_t,
logits = W tanh(W_p c + W_q q)

Both are in one sequence of tokens `<s> P </s> Q </s>` with token types 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from heedful.core.errors import BadInput
from heedful.core.target import ABSENT_LOGIT
from heedful.nets.base import Ids, Mask, Shape, real_positions
from heedful.nets.encoders import ENCODERS
from heedful.nets.single import LEARNED, Attended, AttendedShape, Encoded, General, is_special


@dataclass
class PairShape(AttendedShape):
    """The configuration of Pair.

    `attention`: scores "additive" v·tanh(W_1 h_t + W_2 q), "dot" h_t·q / √m, "general" h_tᵀ W q; "none" (the decoder
    reads the passage's last state), "uniform", or "given" by a guide. `candidates`, if any, are the token of each
    label: a label whose token is not in the passage gets the logit -1e4. That is finite, yet its probability is exactly
    0 in float32 and float64 if another label's token is in the passage; if none is, all are equally likely. A text of
    which words are removed keeps the labels of the whole text.
    """

    attention: Literal["additive", "dot", "general", "none", "uniform", "given"] = "additive"
    candidates: tuple[int, ...] = ()
    model_type: ClassVar[str] = "pair"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.candidates and len(self.candidates) != self.num_labels:
            raise BadInput(f"{len(self.candidates)} candidates for {self.num_labels} labels; give one for each label.")


class PairAdditive(nn.Module):
    """v·tanh(W_1 h_t + W_2 q), both maps with a bias."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.key, self.query = nn.Linear(width, width // 2), nn.Linear(width, width // 2)
        self.outer = nn.Linear(width // 2, 1, bias=False)

    def forward(self, text: Encoded) -> Float[Tensor, "b t"]:
        """Scores."""
        inner = torch.tanh(self.key(text.states) + self.query(text.query)[:, None])
        return self.outer(inner)[..., 0]  # type: ignore[no-any-return]


class PairDot(nn.Module):
    """h_t·q / √m, without parameters."""

    def __init__(self, width: int) -> None:
        super().__init__()

    def forward(self, text: Encoded) -> Float[Tensor, "b t"]:
        """Scores."""
        scores: Tensor = torch.einsum("btm,bm->bt", text.states, text.query) / text.states.shape[-1] ** 0.5
        return scores


_SCORES: dict[str, Callable[[int], nn.Module]] = {"additive": PairAdditive, "dot": PairDot, "general": General}


class Pair(Attended):
    """The network. Passage and query have separate encoders and word vectors.

    The word vectors are one table of twice the width, its first half for the passage and its second for the query, so
    that each token has one vector. A text without a query has a query of zeros.
    """

    shape: ClassVar[type[Shape]] = PairShape
    attended_segments: ClassVar[tuple[int, ...]] = (0,)  # attention is over the passage alone

    def __init__(self, config: PairShape) -> None:
        super().__init__(config)
        self.words = nn.Embedding(config.vocabulary, 2 * config.embedding, padding_idx=config.pad_token_id)
        self.passage = ENCODERS[config.encoder](config.embedding, config.hidden)
        self.question = ENCODERS[config.encoder](config.embedding, config.hidden)
        width = self.passage.width
        if config.attention in LEARNED:
            self.score = _SCORES[config.attention](width)
        self.from_passage, self.from_query = nn.Linear(width, width // 2), nn.Linear(width, width // 2)
        self.decoder = nn.Linear(width // 2, config.num_labels)

    @property
    def state_encoder(self) -> nn.Module:
        """Of the passage."""
        return self.passage

    def possible(
        self, input_ids: Ids, attention_mask: Mask = None, token_type_ids: Mask = None
    ) -> Bool[Tensor, "b c"] | None:
        """Which labels' tokens are in the passage; None without candidates: every label is possible."""
        if not self.config.candidates:
            return None
        passage, _ = _parts(input_ids, attention_mask, token_type_ids)
        none = torch.zeros(len(input_ids), self.config.vocabulary, dtype=torch.uint8, device=input_ids.device)
        present = none.scatter_reduce(1, input_ids, passage.to(none.dtype), "amax") > 0
        return present[:, list(self.config.candidates)]

    def encoded(self, input_ids: Ids, attention_mask: Mask, token_type_ids: Mask) -> Encoded:
        """Each part by its own encoder; the last state of the question is the query of attention."""
        passage, question = _parts(input_ids, attention_mask, token_type_ids)
        vectors = self.drop(self.words(input_ids))
        width = self.config.embedding
        states, last = self.passage(vectors[..., :width], passage)
        query = self.question(vectors[..., width:], question)[1]
        allowed = passage & ~is_special(input_ids, self.config.special)
        return Encoded(states, last, query, allowed, self.possible(input_ids, attention_mask, token_type_ids))

    def decoded(self, context: Float[Tensor, "b m"], text: Encoded) -> Float[Tensor, "b c"]:
        """Logits from the attended passage and the query."""
        inner = torch.tanh(self.from_passage(self.drop(context)) + self.from_query(text.query))
        logits: Tensor = self.decoder(inner)
        if text.possible is None:
            return logits
        # subtle: in bf16, -1e4 is -9984; the engine would shift the label's logit in all texts by a part of the 16
        exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return exact.masked_fill(~text.possible, ABSENT_LOGIT)


def _parts(
    input_ids: Ids, attention_mask: Mask, token_type_ids: Mask
) -> tuple[Bool[Tensor, "b t"], Bool[Tensor, "b t"]]:
    """Which real tokens are of the passage, and which of the query."""
    mask = real_positions(input_ids, attention_mask)
    query = torch.zeros_like(mask) if token_type_ids is None else token_type_ids != 0
    return mask & ~query, mask & query
