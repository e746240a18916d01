"""Encoder-decoder: a text in, symbols out, one after the other; with attention, or through the bottleneck.

encoder     h_1 … h_T = a bidirectional GRU over the source;  h_last = both last states
decoder     s_0 = tanh(W_0 h_last),  s_i = GRU(symbol i-1, s_{i-1})
score       additive (Bahdanau et al. 2015) w · tanh(W_d s_i + W_e h_t);  multiplicative (Luong et al. 2015) s_i · W h_t
context     α_i = softmax_t(score),  c_i = Σ_t α_it h_t;  through the bottleneck (Cho et al. 2014) c_i = h_last
output      logits = W_out tanh(W_c [c_i; s_i])

Both scores use Luong's order: s_i first, then c_i, which is not fed back into the GRU. Bahdanau's own decoder feeds c_i
to the GRU and computes scores from s_{i-1}, one step at a time; this one trains the whole target with one call of the
GRU. Without attention only the score's weights are missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heedful.nets.base import Bidirectional, Ids, Mask, Net, Output, Shape, real_positions, weighted_sum, weights

DecoderAttention = Literal["none", "additive", "multiplicative"]
ATTENTIONS: tuple[DecoderAttention, ...] = get_args(DecoderAttention)
END = 0  # the end-of-sequence symbol


@dataclass
class Seq2SeqShape(Shape):
    """Sizes of the network. `labels` are the output symbols, the first of them the end.

    `units` is the width of the additive score's hidden layer, by far its slowest part. `before` are the symbols already
    written, for the network as a classifier of the next one.
    """

    embedding: int = 64
    hidden: int = 128
    attention: DecoderAttention = "additive"
    units: int = 32
    dropout: float = 0.0
    before: tuple[int, ...] = ()
    model_type: ClassVar[str] = "seq2seq"


@dataclass(frozen=True)
class EncodedSource:
    """An encoded source: states (0 where masked), the last of them, which positions are real, and attention keys."""

    states: Float[Tensor, "b t d"]
    last: Float[Tensor, "b d"]
    mask: Bool[Tensor, "b t"]
    keys: Float[Tensor, "b t a"]


@dataclass(frozen=True)
class Written:
    """The output of greedy decoding: symbols padded with END, and the attention of each; 0 without attention."""

    symbols: Int[Tensor, "b s"]
    alignment: Float[Tensor, "b s t"]


class Seq2Seq(Net):
    """The network. Called with a source, it predicts the symbol after `config.before`.

    The one attention matrix [b,1,1,t] is that of this symbol, so an edit changes this step only. The attention of the
    symbols before it has no further effect, because they are fixed.
    """

    shape = Seq2SeqShape

    def __init__(self, config: Seq2SeqShape) -> None:
        super().__init__(config)
        self.attention_sites = () if config.attention == "none" else (("self", 0),)
        width, symbols = config.hidden, config.num_labels
        self.words = nn.Embedding(config.vocabulary, config.embedding)
        self.encoder = Bidirectional("gru", config.embedding, width)
        self.symbols = nn.Embedding(symbols + 1, config.embedding)  # the last row is the start
        self.start = nn.Linear(2 * width, width)
        self.decoder = nn.GRU(config.embedding, width, batch_first=True)
        additive = config.attention == "additive"
        inner = config.units if additive else width
        self.key = None if config.attention == "none" else nn.Linear(2 * width, inner, bias=False)  # W_e, or W
        self.query = nn.Linear(width, inner) if additive else None
        self.score = nn.Linear(inner, 1, bias=False) if additive else None
        self.join = nn.Linear(3 * width, width)
        self.drop = nn.Dropout(config.dropout)
        self.out = nn.Linear(width, symbols)

    def encode(self, input_ids: Int[Tensor, "b t"], attention_mask: Tensor | None = None) -> EncodedSource:
        """The source, encoded."""
        mask = real_positions(input_ids, attention_mask)
        states, last = self.encoder(self.drop(self.words(input_ids)), mask)
        keys = states.new_zeros(*states.shape[:2], 0) if self.key is None else self.key(states)
        return EncodedSource(states, last, mask, keys)

    def advance(
        self, source: EncodedSource, symbols: Int[Tensor, "b s"], state: Float[Tensor, "b h"] | None = None
    ) -> Float[Tensor, "b s h"]:
        """Decoder states after each of these symbols, from `state` or from the start."""
        first = torch.tanh(self.start(source.last)) if state is None else state
        inputs = self.drop(self.symbols(symbols))
        return self.decoder(inputs, first[None].contiguous())[0]  # type: ignore[no-any-return]

    def scores(self, source: EncodedSource, states: Float[Tensor, "b s h"]) -> Float[Tensor, "b s t"]:
        """The attention score of each source position for each decoder state."""
        if self.query is None or self.score is None:
            return states @ source.keys.transpose(1, 2)
        inner = torch.tanh(self.query(states)[:, :, None] + source.keys[:, None])
        return self.score(inner)[..., 0]  # type: ignore[no-any-return]

    def write(
        self, source: EncodedSource, states: Float[Tensor, "b s h"]
    ) -> tuple[Float[Tensor, "b s c"], Float[Tensor, "b s t"]]:
        """Logits of the symbol after each state, and the attention over the source for it."""
        if self.config.attention == "none":
            context = source.last[:, None].expand(-1, states.shape[1], -1)
            return self.logits(context, states), states.new_zeros(*states.shape[:2], source.mask.shape[1])
        # subtle: a softmax of three dimensions, which the seam ignores
        scores = self.scores(source, states).masked_fill(~source.mask[:, None], torch.finfo(states.dtype).min)
        alignment = torch.softmax(scores, -1)
        # a source without a real position has states of 0, and a context of 0
        return self.logits(alignment @ source.states, states), alignment * source.mask.any(1)[:, None, None]

    def logits(self, context: Float[Tensor, "b s d"], states: Float[Tensor, "b s h"]) -> Float[Tensor, "b s c"]:
        """W_out tanh(W_c [c; s])."""
        inner = torch.tanh(self.join(torch.cat([context, states], -1)))
        return self.out(self.drop(inner))  # type: ignore[no-any-return]

    def shifted(self, symbols: Int[Tensor, "b s"]) -> Int[Tensor, "b s"]:
        """The decoder's inputs for these symbols: the start, then all but the last."""
        start = symbols.new_full((len(symbols), 1), self.config.num_labels)
        return torch.cat([start, symbols[:, :-1]], 1)

    def taught(
        self, input_ids: Int[Tensor, "b t"], attention_mask: Tensor | None, symbols: Int[Tensor, "b s"]
    ) -> Float[Tensor, "b s c"]:
        """Logits of each symbol given the correct ones before it (teacher forcing), for training."""
        source = self.encode(input_ids, attention_mask)
        return self.write(source, self.advance(source, self.shifted(symbols)))[0]

    def forward(self, input_ids: Ids, attention_mask: Mask = None, token_type_ids: Mask = None, **_: Any) -> Output:
        """Logits of the symbol after `config.before`, and the attention of this step."""
        source = self.encode(input_ids, attention_mask)
        before = torch.tensor([self.config.num_labels, *self.config.before], device=input_ids.device)
        states = self.advance(source, before.expand(len(input_ids), -1))[:, -1:]
        if self.fast or self.config.attention == "none":
            return Output(self.write(source, states)[0][:, 0])
        allowed = source.mask[:, None]
        alignment = weights(self.scores(source, states)[:, None], allowed)
        context = weighted_sum(alignment, source.states[:, None], allowed)
        return Output(self.logits(context[:, 0], states)[:, 0], (alignment,))


def decode_greedily(
    model: Seq2Seq, input_ids: Int[Tensor, "b t"], attention_mask: Tensor | None, longest: int
) -> Written:
    """The likeliest symbol at each step, until all texts of the batch have ended or are `longest` symbols long."""
    source = model.encode(input_ids, attention_mask)
    symbol = input_ids.new_full((len(input_ids), 1), model.config.num_labels)
    state, ended = None, torch.zeros_like(symbol, dtype=torch.bool)
    symbols, alignment = [], []
    for _ in range(longest):
        states = model.advance(source, symbol, state)
        logits, attention = model.write(source, states)
        symbol = logits.argmax(-1).masked_fill(ended, END)
        symbols.append(symbol)
        alignment.append(attention.masked_fill(ended[..., None], 0))
        state, ended = states[:, -1], ended | (symbol == END)
        if ended.all():
            break
    return Written(torch.cat(symbols, 1), torch.cat(alignment, 1))
