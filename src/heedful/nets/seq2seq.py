"""Encoder-decoder: a text in, symbols out, one after the other; with attention, or through the bottleneck.

encoder     h_1 … h_T = a bidirectional GRU over the source;  h_last = both last states
start       s_0 = tanh(W_0 h_last)
score       additive        w · tanh(W_d s + W_e h_t + b)    Bahdanau et al. 2015
            concat          w · tanh(W [s; h_t])             Luong et al. 2015: additive without b, since W = [W_d W_e]
            multiplicative  s · W h_t                        Luong et al. 2015, "general"
            dot             s · h_t                          Luong et al. 2015; both directions are added up in h_t and
                                                             h_last, which are then as wide as s
context     α_i = softmax_t(score),  c_i = Σ_t α_it h_t;  through the bottleneck (Cho et al. 2014) c_i = h_last
output      logits = W_out tanh(W_c [c_i; s_i])

Two orders. luong: s_i = GRU(symbol i-1, s_{i-1}), then the score of s_i; c_i is not fed back into the GRU, so that the
whole target is trained with one call of it. bahdanau: the score of s_{i-1}, then s_i = GRU([symbol i-1; c_i], s_{i-1}),
one step at a time. With the bottleneck that is the decoder of Cho et al. 2014.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heedful.nets.base import Bidirectional, Ids, Mask, Net, Output, Shape, real_positions, weighted_sum, weights

DecoderAttention = Literal["none", "additive", "multiplicative", "dot", "concat"]
DecoderOrder = Literal["luong", "bahdanau"]
ATTENTIONS: tuple[DecoderAttention, ...] = get_args(DecoderAttention)
ORDERS: tuple[DecoderOrder, ...] = get_args(DecoderOrder)
END = 0  # the end-of-sequence symbol


@dataclass
class Seq2SeqShape(Shape):
    """Sizes of the network. `labels` are the output symbols, the first of them the end.

    `units` is the width of the hidden layer of the additive and the concat score, by far their slowest part. `before`
    are the symbols already written, for the network as a classifier of the next one.
    """

    embedding: int = 64
    hidden: int = 128
    attention: DecoderAttention = "additive"
    units: int = 32
    dropout: float = 0.0
    before: tuple[int, ...] = ()
    order: DecoderOrder = "luong"
    model_type: ClassVar[str] = "seq2seq"


@dataclass(frozen=True)
class EncodedSource:
    """An encoded source: states (0 where masked), the last of them, which positions are real, and attention keys."""

    states: Float[Tensor, "b t d"]
    last: Float[Tensor, "b d"]
    mask: Bool[Tensor, "b t"]
    keys: Float[Tensor, "b t a"]


@dataclass(frozen=True)
class DecoderSteps:
    """Of each step: the decoder's state, the context, and the attention over the source; 0 without attention."""

    states: Float[Tensor, "b s h"]
    contexts: Float[Tensor, "b s d"]
    alignment: Float[Tensor, "b s t"]


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
        self.added = config.attention == "dot"  # whether the directions of the encoder are added up
        encoded = width if self.added else 2 * width
        fed = encoded if config.order == "bahdanau" else 0  # the width of the context that the GRU reads
        self.words = nn.Embedding(config.vocabulary, config.embedding)
        self.encoder = Bidirectional("gru", config.embedding, width)
        self.symbols = nn.Embedding(symbols + 1, config.embedding)  # the last row is the start
        self.start = nn.Linear(encoded, width)
        self.decoder = nn.GRU(config.embedding + fed, width, batch_first=True)
        layered = config.attention in ("additive", "concat")
        inner = config.units if layered else width
        projected = layered or config.attention == "multiplicative"
        self.key = nn.Linear(encoded, inner, bias=False) if projected else None  # W_e, or W
        self.query = nn.Linear(width, inner, bias=config.attention == "additive") if layered else None
        self.score = nn.Linear(inner, 1, bias=False) if layered else None
        self.join = nn.Linear(encoded + width, width)
        self.drop = nn.Dropout(config.dropout)
        self.out = nn.Linear(width, symbols)

    def encode(self, input_ids: Int[Tensor, "b t"], attention_mask: Tensor | None = None) -> EncodedSource:
        """The source, encoded."""
        mask = real_positions(input_ids, attention_mask)
        states, last = self.encoder(self.drop(self.words(input_ids)), mask)
        if self.added:
            states, last = (x.unflatten(-1, (2, -1)).sum(-2) for x in (states, last))
        return EncodedSource(states, last, mask, states if self.key is None else self.key(states))

    # steps of the decoder

    def steps(
        self, source: EncodedSource, symbols: Int[Tensor, "b s"], state: Float[Tensor, "b h"] | None = None
    ) -> DecoderSteps:
        """The steps after each of these symbols, from `state` or from the start."""
        state = self.first_state(source) if state is None else state
        if self.config.order == "luong":
            states = self.advance(symbols, state)
            return DecoderSteps(states, *self.attend(source, states))
        parts = []
        for symbol in symbols.T[..., None]:
            context, alignment = self.attend(source, state[:, None])
            states = self.advance(symbol, state, context)
            parts.append((states, context, alignment))
            state = states[:, 0]
        return DecoderSteps(*(torch.cat(part, 1) for part in zip(*parts, strict=True)))

    def first_state(self, source: EncodedSource) -> Float[Tensor, "b h"]:
        """s_0."""
        return torch.tanh(self.start(source.last))

    def advance(
        self,
        symbols: Int[Tensor, "b s"],
        state: Float[Tensor, "b h"],
        contexts: Float[Tensor, "b s d"] | None = None,
    ) -> Float[Tensor, "b s h"]:
        """The GRU's states after each of these symbols, and contexts where it reads them."""
        inputs = self.drop(self.symbols(symbols))
        if contexts is not None:
            inputs = torch.cat([inputs, contexts], -1)
        return self.decoder(inputs, state[None].contiguous())[0]  # type: ignore[no-any-return]

    def scores(self, source: EncodedSource, queries: Float[Tensor, "b s h"]) -> Float[Tensor, "b s t"]:
        """The attention score of each source position for each query, a decoder state."""
        if self.query is None or self.score is None:
            return queries @ source.keys.transpose(1, 2)
        inner = torch.tanh(self.query(queries)[:, :, None] + source.keys[:, None])
        return self.score(inner)[..., 0]  # type: ignore[no-any-return]

    def attend(
        self, source: EncodedSource, queries: Float[Tensor, "b s h"]
    ) -> tuple[Float[Tensor, "b s d"], Float[Tensor, "b s t"]]:
        """The context of each query, and its attention over the source."""
        if self.config.attention == "none":
            context = source.last[:, None].expand(-1, queries.shape[1], -1)
            return context, queries.new_zeros(*queries.shape[:2], source.mask.shape[1])
        # subtle: a softmax of three dimensions, which the seam ignores
        scores = self.scores(source, queries).masked_fill(~source.mask[:, None], torch.finfo(queries.dtype).min)
        alignment = torch.softmax(scores, -1)
        # a source without a real position has states of 0, and a context of 0
        return alignment @ source.states, alignment * source.mask.any(1)[:, None, None]

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
    ) -> tuple[Float[Tensor, "b s c"], Float[Tensor, "b s t"]]:
        """Logits and attention of each symbol given the correct ones before it (teacher forcing)."""
        steps = self.steps(self.encode(input_ids, attention_mask), self.shifted(symbols))
        return self.logits(steps.contexts, steps.states), steps.alignment

    def forward(self, input_ids: Ids, attention_mask: Mask = None, token_type_ids: Mask = None, **_: Any) -> Output:
        """Logits of the symbol after `config.before`, and the attention of this step."""
        source = self.encode(input_ids, attention_mask)
        before = torch.tensor([self.config.num_labels, *self.config.before], device=input_ids.device)
        symbols, state = before.expand(len(input_ids), -1), self.first_state(source)
        feeding = self.config.order == "bahdanau"
        if feeding and self.config.before:
            state = self.steps(source, symbols[:, :-1], state).states[:, -1]
        states = state[:, None] if feeding else self.advance(symbols, state)[:, -1:]
        context, attentions = self._step_context(source, states)
        if feeding:
            states = self.advance(symbols[:, -1:], state, context)
        return Output(self.logits(context, states)[:, 0], attentions)

    def _step_context(
        self, source: EncodedSource, query: Float[Tensor, "b 1 h"]
    ) -> tuple[Float[Tensor, "b 1 d"], tuple[Tensor, ...]]:
        """The context of the step that is classified, and its attention [b,1,1,t], which the seam sees."""
        if self.fast or self.config.attention == "none":
            return self.attend(source, query)[0], ()
        allowed = source.mask[:, None]
        alignment = weights(self.scores(source, query)[:, None], allowed)
        return weighted_sum(alignment, source.states[:, None], allowed)[:, 0], (alignment,)


def decode_greedily(
    model: Seq2Seq, input_ids: Int[Tensor, "b t"], attention_mask: Tensor | None, longest: int
) -> Written:
    """The likeliest symbol at each step, until all texts of the batch have ended or are `longest` symbols long."""
    source = model.encode(input_ids, attention_mask)
    symbol = input_ids.new_full((len(input_ids), 1), model.config.num_labels)
    state, ended = None, torch.zeros_like(symbol, dtype=torch.bool)
    symbols, alignment = [], []
    for _ in range(longest):
        step = model.steps(source, symbol, state)
        symbol = model.logits(step.contexts, step.states).argmax(-1).masked_fill(ended, END)
        symbols.append(symbol)
        alignment.append(step.alignment.masked_fill(ended[..., None], 0))
        state, ended = step.states[:, -1], ended | (symbol == END)
        if ended.all():
            break
    return Written(torch.cat(symbols, 1), torch.cat(alignment, 1))
