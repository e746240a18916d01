"""Hierarchical and flat attention networks (HAN, FLAN) of Serrano & Smith 2019, after Yang et al. 2016.

HAN:  words → encoder → attention in each sentence → sentences → encoder → attention over sentences → linear
FLAN: words → encoder → attention over all words → linear

A score is v · tanh(W h + b). Sentence ends are found from the ids alone, so a text with removed words is split again.

Sites of a HAN: ("self", 0) is [b,1,t,t], where the row of each word is the attention of its sentence (the network uses
the row of a sentence's last word, and the others equal it); ("sentence", 0) is [b,1,1,t], where a sentence has the
position of its last word. The one site of a FLAN is ("self", 0), [b,1,1,t].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heedful.core.settings import Count, Fraction
from heedful.nets.base import Bidirectional, Ids, Mask, Net, Output, Shape, real_positions, weighted_sum, weights

EncoderKind = Literal["rnn", "conv", "none"]
KERNELS = (3, 5)  # widths of the two convolutions, each with half of the filters
BUCKETS = 4  # a batch of reviews trains nearly twice as fast as with one


@dataclass
class HierarchicalShape(Shape):
    """The networks' configuration; sizes and dropouts are the paper's for IMDB.

    `hidden` is the width of one direction of the GRU, and the filters of one convolution. `ends` are the ids of tokens
    that end a sentence (a run of them ends one); a sentence of more than `longest` words is cut. `special` tokens are
    ignored. Dropout is on the inputs of the sentence encoder (words), of the document encoder (sentences; words in a
    FLAN, where the paper has .444), of the last layer (FLAN: .346), and again of convolutions.
    """

    encoder: EncoderKind = "rnn"
    flat: bool = False
    embedding: Count = 200
    hidden: Count = 50
    ends: tuple[int, ...] = ()
    special: tuple[int, ...] = ()
    longest: Count = 60
    dropout_sentence: Fraction = 0.444
    dropout_document: Fraction = 0.22
    dropout_output: Fraction = 0.246
    dropout_conv: Fraction = 0.3
    model_type: ClassVar[str] = "hierarchical"


@dataclass(frozen=True)
class RunRows:
    """Some runs of a list as rows: which runs, the items of each, and which cells hold one."""

    which: Int[Tensor, "r"]
    at: Int[Tensor, "r w"]
    real: Bool[Tensor, "r w"]


@dataclass(frozen=True)
class Runs:
    """A list cut into runs of neighbours: words into sentences, or sentences into texts."""

    start: Int[Tensor, "g"]
    length: Int[Tensor, "g"]

    @classmethod
    def of(cls, begins: Bool[Tensor, "n"]) -> Runs:
        """From a mask of the items that begin a run."""
        start = begins.nonzero()[:, 0]
        return cls(start, torch.diff(start, append=start.new_tensor([len(begins)])))

    @property
    def last(self) -> Int[Tensor, "g"]:
        """The last item of each run."""
        return self.start + self.length - 1

    def rows(self) -> list[RunRows]:
        """The runs as rows; many runs are grouped by length, to reduce padding."""
        order = self.length.argsort(stable=True)
        parts = torch.tensor_split(order, min(BUCKETS, 1 + len(order) // 64))
        rows = []
        for which in (part for part in parts if len(part)):
            start, length = self.start[which, None], self.length[which, None]
            at = torch.arange(int(length.max()), device=order.device)
            rows.append(RunRows(which, start + at.minimum(length - 1), at < length))
        return rows


def begins(ids: Int[Tensor, "n"], breaks: Bool[Tensor, "n"], ends: tuple[int, ...], longest: int) -> Bool[Tensor, "n"]:
    """Which words begin a sentence: after a run of end tokens, after `longest` words, and at `breaks`."""
    ended = torch.isin(ids, ids.new_tensor(ends))
    new = breaks.clone()
    new[1:] |= ended[:-1] & ~ended[1:]
    at = torch.arange(len(ids), device=ids.device)
    since = at - torch.where(new, at, 0).cummax(0).values
    return since % longest == 0


class _Recurrent(nn.Module):
    """A bidirectional GRU."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gru = Bidirectional("gru", width, hidden)

    def forward(self, rows: Float[Tensor, "r w e"], mask: Bool[Tensor, "r w"]) -> Float[Tensor, "r w d"]:
        return self.gru(rows, mask)[0]  # type: ignore[no-any-return]


class _Convolutions(nn.Module):
    """Two concatenated convolutions with zero padding."""

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        # subtle: not a ModuleList, which the seam would treat as Transformer blocks
        self.narrow, self.wide = (nn.Conv1d(width, hidden, kernel, padding=kernel // 2) for kernel in KERNELS)
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows: Float[Tensor, "r w e"], mask: Bool[Tensor, "r w"]) -> Float[Tensor, "r w d"]:
        inputs = self.dropout(rows * mask[..., None]).transpose(1, 2)
        return torch.cat([self.narrow(inputs), self.wide(inputs)], 1).relu().transpose(1, 2) * mask[..., None]


class Level(nn.Module):
    """An encoder and attention over each run of a list: of words by sentence, or of sentences by text."""

    def __init__(self, config: HierarchicalShape, width: int) -> None:
        super().__init__()
        self.encoder: nn.Module | None = _Recurrent(width, config.hidden) if config.encoder == "rnn" else None
        if config.encoder == "conv":
            self.encoder = _Convolutions(width, config.hidden, config.dropout_conv)
        self.width = width if self.encoder is None else 2 * config.hidden
        self.inner, self.context = nn.Linear(self.width, self.width), nn.Linear(self.width, 1, bias=False)

    def scores(self, states: Float[Tensor, "*n d"]) -> Float[Tensor, "*n"]:
        """v · tanh(W h + b)."""
        return self.context(torch.tanh(self.inner(states)))[..., 0]  # type: ignore[no-any-return]

    def encoded(self, items: Float[Tensor, "n e"], runs: Runs) -> Float[Tensor, "n d"]:
        """The state of each item, encoded within its run."""
        if self.encoder is None:
            return items
        if not len(items):
            return items.new_zeros(0, self.width)
        rows = runs.rows()
        states = torch.cat([self.encoder(items[part.at], part.real)[part.real] for part in rows])
        return states[torch.cat([part.at[part.real] for part in rows]).argsort()]

    def forward(self, items: Float[Tensor, "n e"], runs: Runs) -> Float[Tensor, "g d"]:
        """One vector for each run: the attention-weighted sum of its states."""
        rows = runs.rows()
        if not rows:
            return items.new_zeros(0, self.width)
        contexts = []
        for part in rows:
            states = items[part.at] if self.encoder is None else self.encoder(items[part.at], part.real)
            scores = self.scores(states).masked_fill(~part.real, -torch.inf)
            contexts.append(torch.bmm(scores.softmax(-1)[:, None], states)[:, 0])
        return torch.cat(contexts)[torch.cat([part.which for part in rows]).argsort()]


@dataclass(frozen=True)
class _Layout:
    """The words of a batch: their places in the flattened batch, and their runs.

    In a FLAN `sentences` are whole texts. `texts` are the rows of the batch that contain a word.
    """

    place: Int[Tensor, "n"]
    sentences: Runs
    by_text: Runs
    texts: Int[Tensor, "g"]


class Hierarchical(Net):
    """The network, HAN or FLAN.

    Linear maps and the GRU's input matrices start xavier-uniform with zero biases, its recurrent matrices orthogonal.
    Word vectors start as N(0, .1²), which is ours: the paper uses word2vec vectors.
    """

    shape: ClassVar[type[Shape]] = HierarchicalShape

    def __init__(self, config: HierarchicalShape) -> None:
        super().__init__(config)
        self.words = nn.Embedding(config.vocabulary, config.embedding)
        self.word_level = Level(config, config.embedding)
        self.sentence_level = None if config.flat else Level(config, self.word_level.width)
        self.on_words = nn.Dropout(config.dropout_document if config.flat else config.dropout_sentence)
        self.on_sentences = nn.Dropout(config.dropout_document)
        self.on_document = nn.Dropout(config.dropout_output)
        self.out = nn.Linear(self.word_level.width, config.num_labels)
        self.attention_sites = (("self", 0),) if config.flat else (("self", 0), ("sentence", 0))
        nn.init.normal_(self.words.weight, std=0.1)
        # the paper's initial weights; its `lstm_hidden_bias`, which a GRU does not have, is zero here
        modules = [module for module in self.modules() if isinstance(module, (nn.Linear, nn.GRU))]
        for name, parameter in (named for module in modules for named in module.named_parameters()):
            if parameter.ndim == 1:
                nn.init.zeros_(parameter)
            elif name.startswith("weight_hh"):
                nn.init.orthogonal_(parameter)
            else:
                nn.init.xavier_uniform_(parameter)

    def forward(self, input_ids: Ids, attention_mask: Mask = None, token_type_ids: Mask = None, **_: Any) -> Output:
        """Logits and attention; a new token type begins a new sentence. A text without words has the bias as logits."""
        vectors = self.words(input_ids)
        layout = self._layout(input_ids, real_positions(input_ids, attention_mask), token_type_ids)
        items = self.on_words(vectors.flatten(0, 1).index_select(0, layout.place))
        if self.fast:
            attentions: tuple[Tensor, ...] = ()
            document = self.word_level(items, layout.sentences)
            if self.sentence_level is not None:
                document = self.sentence_level(self.on_sentences(document), layout.by_text)
            document = _spread(document, layout.texts, len(input_ids))
        else:
            document, *matrices = self._with_attention(items, layout, input_ids.shape)
            attentions = tuple(matrices)
        return Output(self.out(self.on_document(document)), attentions)

    def _layout(self, ids: Tensor, used: Tensor, types: Tensor | None) -> _Layout:
        """Words in reading order, without masked and special tokens."""
        used = used & ~torch.isin(ids, ids.new_tensor(self.config.special))
        place = used.flatten().nonzero()[:, 0]
        text = place // ids.shape[1]
        first = _changes(text)
        if self.config.flat:
            return _Layout(place, Runs.of(first), Runs.of(first), text[first])
        breaks = first if types is None else first | _changes(types.flatten()[place])
        begin = begins(ids.flatten()[place], breaks, self.config.ends, self.config.longest)
        return _Layout(place, Runs.of(begin), Runs.of(first[begin]), text[first])

    def _with_attention(
        self, items: Float[Tensor, "n e"], layout: _Layout, shape: torch.Size
    ) -> tuple[Float[Tensor, "b d"], *tuple[Float[Tensor, "b 1 q t"], ...]]:
        """The vector of each text, computed with attention over positions, and the weights of each site."""
        runs, place = layout.sentences, layout.place
        number = torch.repeat_interleave(torch.arange(1, len(runs.start) + 1, device=place.device), runs.length)
        sentence = _spread(number, place, shape.numel()).view(shape)  # of each position, 0 for none
        states = self.word_level.encoded(items, runs)
        if self.sentence_level is None:
            document, words = _attended(self.word_level, states, place, (sentence > 0)[:, None])
            return document[:, 0], words
        together = (sentence[:, :, None] == sentence[:, None]) & (sentence > 0)[:, None]
        context, words = _attended(self.word_level, states, place, together)
        last = place[runs.last]
        sentences = self.on_sentences(context.flatten(0, 1).index_select(0, last))
        ending = _spread(torch.ones_like(last, dtype=torch.bool), last, shape.numel()).view(shape)
        states = self.sentence_level.encoded(sentences, layout.by_text)
        document, attention = _attended(self.sentence_level, states, last, ending[:, None])
        return document[:, 0], words, attention


def _attended(
    level: Level, states: Float[Tensor, "n d"], place: Int[Tensor, "n"], allowed: Bool[Tensor, "b q t"]
) -> tuple[Float[Tensor, "b q d"], Float[Tensor, "b 1 q t"]]:
    """The attended state of each query, and its attention weights; `place` are the places of the states."""
    b, queries, t = allowed.shape
    scores = _spread(level.scores(states), place, b * t).view(b, 1, 1, t).expand(b, 1, queries, t)
    values = _spread(states, place, b * t).view(b, 1, t, -1)
    attention = weights(scores, allowed)
    return weighted_sum(attention, values, allowed)[:, 0], attention


def _changes(x: Int[Tensor, "n"]) -> Bool[Tensor, "n"]:
    """Where a number differs from the one before it; true for the first."""
    return torch.cat([x.new_ones(len(x[:1]), dtype=torch.bool), x[1:] != x[:-1]])


def _spread(x: Tensor, place: Int[Tensor, "n"], size: int) -> Tensor:
    """A tensor of this size with x at these places and zeros elsewhere."""
    return x.new_zeros(size, *x.shape[1:]).index_copy(0, place, x)
