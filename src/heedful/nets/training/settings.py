"""Settings of every classifier that can be trained, and the network that they make.

`settings.build(given)` is the network with random weights, and pretrained word vectors where some are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tokenizers
import torch
from numpy.typing import NDArray

from heedful.core.errors import BadInput
from heedful.maths.activations import Activation
from heedful.nets import MultiHead, Net, Pair, Single, Transformer
from heedful.nets import MultiHeadShape as MultiHeadShape
from heedful.nets.base import Saved, load_saved
from heedful.nets.encoders import EncoderName
from heedful.nets.hierarchical import EncoderKind as SentenceEncoder
from heedful.nets.hierarchical import Hierarchical, HierarchicalShape
from heedful.nets.pair import PairShape
from heedful.nets.single import Attention, SingleShape
from heedful.nets.training.batches import EncodedTexts
from heedful.nets.training.loop import Count, Fraction, NotNegative, Optimiser, Positive, Schedule, TrainingPlan
from heedful.nets.transformer import Pooling, TransformerShape
from heedful.nets.vocabulary import SENTENCE_ENDS, STOPWORDS, Frame, TokenRules, ids, log_odds, specials, vectors

Score = Literal["accuracy", "f1", "roc_auc"]


@dataclass(frozen=True)
class Given:
    """What a network is made for: the tokenizer, the labels, and the training texts with their label numbers."""

    tokenizer: tokenizers.Tokenizer
    labels: tuple[str, ...]
    multi: bool
    texts: EncodedTexts
    truth: NDArray[Any]

    def common(self, one_logit: bool) -> dict[str, Any]:
        """The part of a Shape that the data decide; with `one_logit`, one answers where there are two labels."""
        binary = len(self.labels) == 2 and not self.multi
        return {
            "vocabulary": self.tokenizer.get_vocab_size(),
            "num_labels": 1 if one_logit and binary else len(self.labels),
            "labels": self.labels,
            "pad_token_id": self.texts.padding.token,
            "problem_type": "multi_label_classification" if self.multi else None,
        }


@dataclass(frozen=True)
class Batches(TrainingPlan):
    """How texts meet, for every classifier.

    `batch` texts of like length at a time, of at most `budget` tokens together. Texts of more than `max_length` tokens
    are cut, or dropped (`long`). `select` is the validation score that chooses the epoch. `balanced` weighs rare labels
    more.
    """

    batch: Count = 32
    budget: Count | None = None
    select: Score = "accuracy"
    balanced: bool = False
    max_length: Count | None = None
    long: Literal["cut", "drop"] = "cut"


@dataclass(frozen=True)
class TextSettings(Batches):
    """How texts are cut, for networks with a vocabulary of their own (one with a guide has the guide's).

    Words are in lower case (`lower`); of words seen fewer than `min_count` times, and of all but the `most` frequent,
    nothing is known. `pieces` learns this many pieces instead (byte-pair encoding). `digits` makes one word of all that
    have a digit. `frame` puts <s> and </s> around a text, or [CLS] before it. Word vectors start as the network has
    them, times `spread`: the smaller, the less effect have rare words; those in the text file `vectors` start as they
    are there.
    """

    lower: bool = True
    punctuation: bool = True
    digits: bool = False
    min_count: Count = 1
    most: Count | None = None
    pieces: Count | None = None
    frame: Frame = "ends"
    spread: Positive = 1.0
    vectors: str | None = None

    @property
    def cut(self) -> TokenRules:
        """How texts become tokens."""
        return TokenRules(self.frame, self.lower, self.punctuation, self.digits, self.min_count, self.most, self.pieces)

    def guide_network(self) -> Saved | None:
        """Another network whose vocabulary this one must share."""
        return None

    def network(self, given: Given) -> Net:
        """The network with random weights, from torch's generator."""
        raise NotImplementedError

    def build(self, given: Given) -> Net:
        """The network, with pretrained word vectors where some are given."""
        net = self.network(given)
        with torch.no_grad():
            net.words.weight.mul_(self.spread)
        if self.vectors is not None:
            halves = 2 if isinstance(net, Pair) else 1
            rows = vectors(self.vectors, given.tokenizer.get_vocab(), net.words.embedding_dim // halves)
            with torch.no_grad():
                for i, row in rows.items():
                    net.words.weight[i] = row.repeat(halves).to(net.words.weight.dtype)
        return net

    def _positions(self) -> int:
        if self.max_length is None:
            raise BadInput("max_length none leaves open how many positions the network has; give a number.")
        return self.max_length

    def _shape(self, kind: Any, more: Mapping[str, Any]) -> Any:
        """A network's Shape: the settings that both have, and more."""
        shared = {f.name: getattr(self, f.name) for f in fields(kind) if f.init and hasattr(self, f.name)}
        return kind(**shared | dict(more))

    def _special(self, given: Given) -> tuple[int, ...]:
        return ids(given.tokenizer, [t for t in specials(self.frame).values() if t != "<unk>"])


@dataclass(frozen=True)
class MultiHeadSettings(TextSettings):
    """Lopardo et al. 2024: [CLS] reads word vectors with positions, through several heads, and answers."""

    epochs: Count = 10
    optimiser: Optimiser = "adamw"
    lr: Positive = 1e-4
    weight_decay: NotNegative = 0.01
    batch: Count = 16
    frame: Frame = "cls"
    max_length: Count | None = 256
    embedding: Count = 128
    attention: Count = 64
    value: Count = 64
    heads: Count = 6
    layers: Count = 1
    residual: bool = False
    masked: bool = True

    def network(self, given: Given) -> Net:
        """The multi-head network; without a mask, texts are filled up with unknown words as the authors do."""
        more = given.common(one_logit=False) | {"max_position_embeddings": self._positions()}
        filler = {} if self.masked else {"pad_token_id": given.tokenizer.token_to_id("<unk>")}
        return MultiHead(self._shape(MultiHeadShape, more | filler))


@dataclass(frozen=True)
class SingleSettings(TextSettings):
    """Jain & Wallace 2019: an encoder, attention over its states, one linear layer.

    `attention` may be frozen: "uniform", "log-odds", or "given" by the trained network in the folder `guide`
    (Wiegreffe & Pinter 2019). `regularised` pulls attention towards log-odds attention.
    """

    epochs: Count = 8
    optimiser: Optimiser = "amsgrad"
    weight_decay: NotNegative = 1e-5
    select: Score = "roc_auc"
    balanced: bool = True
    encoder: EncoderName = "bilstm"
    attention: Attention = "additive"
    activation: Activation = "softmax"
    embedding: Count = 300
    hidden: Count = 128
    dropout: Fraction = 0.0
    regularised: NotNegative = 0.0
    guide: str | None = None

    def guide_network(self) -> Saved | None:
        """The trained network whose attention this one uses."""
        if (self.guide is not None) != (self.attention == "given"):
            raise BadInput("attention=given and guide=FOLDER belong together; give both or neither.")
        return None if self.guide is None else load_saved(Path(self.guide).expanduser())

    def network(self, given: Given) -> Net:
        """Encoder × attention."""
        guide = self.guide_network()
        more = given.common(one_logit=True) | {"special": self._special(given), "guide": None}
        if guide is not None:
            if not isinstance(guide.model, Single):
                kind = guide.model.config.model_type
                raise BadInput(f"the guide is a {kind} network; give one of bilstm, cnn, single-cnn, average.")
            return Single.guided(self._shape(SingleShape, more | {"attention": "uniform"}), guide.model)
        net = Single(self._shape(SingleShape, more))
        if self.attention == "log-odds" or self.regularised:
            ignored = ids(given.tokenizer, [*STOPWORDS, *specials(self.frame).values()])
            texts = [part.tolist() for part in np.split(given.texts.ids, given.texts.starts[1:-1])]
            odds = log_odds(texts, given.truth, given.tokenizer.get_vocab_size(), ignored)
            net.log_odds.copy_(torch.from_numpy(odds))
        return net


@dataclass(frozen=True)
class PairSettings(TextSettings):
    """Jain & Wallace 2019, two texts: attention over the first, asked for by the second (question, hypothesis, aspect).

    With `candidates` every label is a word, and only words of the first text can be answered.
    """

    epochs: Count = 25
    optimiser: Optimiser = "amsgrad"
    weight_decay: NotNegative = 1e-5
    encoder: EncoderName = "bilstm"
    attention: Literal["additive", "dot", "general", "none", "uniform"] = "additive"
    activation: Activation = "softmax"
    embedding: Count = 300
    hidden: Count = 128
    dropout: Fraction = 0.0
    candidates: bool = False

    def network(self, given: Given) -> Net:
        """Two encoders × attention."""
        number = given.tokenizer.token_to_id
        candidates = [number(x) or number(x.lower()) for x in given.labels] if self.candidates else []
        if None in candidates:
            label = given.labels[candidates.index(None)]
            raise BadInput(f"label '{label}' is not a word of the training texts, so it cannot be a candidate.")
        more = given.common(one_logit=False) | {"special": self._special(given), "candidates": candidates}
        return Pair(self._shape(PairShape, more))


@dataclass(frozen=True)
class HierarchicalSettings(TextSettings):
    """Serrano & Smith 2019: words → sentences → text, with attention at both levels; `flat` has one level of words."""

    epochs: Count = 15
    patience: Count | None = 5
    lr: Positive = 4e-4
    schedule: Schedule = "plateau"
    clip: Positive | None = 10.0
    batch: Count = 64
    budget: Count | None = 32768
    frame: Frame = "none"
    min_count: Count = 5
    encoder: SentenceEncoder = "rnn"
    flat: bool = False
    embedding: Count = 200
    hidden: Count = 50
    longest: Count = 60
    dropout_sentence: Fraction = 0.444
    dropout_document: Fraction = 0.22
    dropout_output: Fraction = 0.246
    dropout_conv: Fraction = 0.3

    def network(self, given: Given) -> Net:
        """HAN or FLAN."""
        marks = {"special": self._special(given), "ends": ids(given.tokenizer, SENTENCE_ENDS)}
        return Hierarchical(self._shape(HierarchicalShape, given.common(one_logit=False) | marks))


@dataclass(frozen=True)
class TransformerSettings(TextSettings):
    """The poster: a small Transformer encoder whose states are added up, over texts of at most 200 pieces."""

    epochs: Count = 20
    patience: Count | None = 10
    lr: Positive = 1e-4
    batch: Count = 64
    frame: Frame = "none"
    pieces: Count | None = 32000
    max_length: Count | None = 200
    long: Literal["cut", "drop"] = "drop"
    layers: Count = 4
    heads: Count = 8
    width: Count = 128
    inner: Count = 512
    dropout: Fraction = 0.1
    pooling: Pooling = "sum"
    activation: Activation = "softmax"
    positions: bool = True

    def network(self, given: Given) -> Net:
        """The encoder."""
        more = given.common(one_logit=True) | {"max_position_embeddings": self._positions()}
        return Transformer(self._shape(TransformerShape, more))


@dataclass(frozen=True)
class FineTune(Batches):
    """Any Hugging Face encoder, from a folder or a hub name (`encoder`), with a new head for these labels."""

    epochs: Count = 3
    optimiser: Optimiser = "adamw"
    lr: Positive = 5e-5
    weight_decay: NotNegative = 0.01
    schedule: Schedule = "linear"
    warmup: Fraction = 0.1
    clip: Positive | None = 1.0
    max_length: Count | None = 128
    encoder: str = ""
