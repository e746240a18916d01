"""Settings of every classifier that can be trained, and the network that they make.

`settings.build(given)` is the network with random weights, and pretrained word vectors where some are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import tokenizers
import torch
from numpy.typing import NDArray

from heedful.core.errors import BadInput
from heedful.maths.activations import Activation
from heedful.nets import MultiHead, Net, Pair, Single, Transformer
from heedful.nets import Shape as MultiHeadShape
from heedful.nets.base import Saved, load_saved, set_vectors
from heedful.nets.encoders import EncoderName
from heedful.nets.hierarchical import Hierarchical, HierarchicalShape
from heedful.nets.pair import PairShape
from heedful.nets.single import SingleShape
from heedful.nets.training.batches import Encoded
from heedful.nets.training.loop import Plan
from heedful.nets.transformer import Pooling, TransformerShape
from heedful.nets.vocabulary import SENTENCE_ENDS, STOPWORDS, Cut, Frame, ids, log_odds, specials, vectors


@dataclass(frozen=True)
class Given:
    """What a network is made for: the tokenizer, the labels, and the training texts with their label numbers."""

    tokenizer: tokenizers.Tokenizer
    labels: tuple[str, ...]
    multi: bool
    texts: Encoded
    truth: NDArray[Any]

    @property
    def binary(self) -> bool:
        """Whether one logit can answer: yes or no."""
        return len(self.labels) == 2 and not self.multi

    def common(self, one_logit: bool) -> dict[str, Any]:
        """The part of a Shape that the data decide."""
        return {
            "vocabulary": self.tokenizer.get_vocab_size(),
            "num_labels": 1 if one_logit and self.binary else len(self.labels),
            "labels": self.labels,
            "pad_token_id": self.texts.padding.token,
            "problem_type": "multi_label_classification" if self.multi else None,
        }


@dataclass(frozen=True)
class Batches(Plan):
    """How texts meet, for every classifier.

    `batch` texts of like length at a time, of at most `budget` tokens together. Texts of more than `max_length` tokens
    are cut, or dropped (`long`). `select` is the validation score that chooses the epoch. `balanced` weighs rare labels
    more.
    """

    batch: int = 32
    budget: int | None = None
    select: Literal["accuracy", "f1", "roc_auc"] = "accuracy"
    balanced: bool = False
    max_length: int | None = None
    long: Literal["cut", "drop"] = "cut"


@dataclass(frozen=True)
class Texts(Batches):
    """How texts are cut, for networks with a vocabulary of their own (one with a guide has the guide's).

    Words are in lower case (`lower`); of words seen fewer than `min_count` times, and of all but the `most` frequent,
    nothing is known. `pieces` learns this many pieces instead (byte-pair encoding). `digits` makes one word of all that
    have a digit. `frame` puts <s> and </s> around a text, or [CLS] before it. Word vectors start as the network has
    them, times `spread`: the smaller, the less say have words that were seen rarely; those in the text file `vectors`
    start as they are there.
    """

    lower: bool = True
    punctuation: bool = True
    digits: bool = False
    min_count: int = 1
    most: int | None = None
    pieces: int | None = None
    frame: Frame = "ends"
    spread: float = 1.0
    vectors: str | None = None

    @property
    def cut(self) -> Cut:
        """How texts become tokens."""
        return Cut(self.frame, self.lower, self.punctuation, self.digits, self.min_count, self.most, self.pieces)

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
            width = net.words.embedding_dim
            halves = 2 if isinstance(net, Pair) else 1
            found = vectors(self.vectors, given.tokenizer.get_vocab(), width // halves)
            set_vectors(net.words, {i: row.repeat(halves) for i, row in found.items()})
        return net

    def _positions(self) -> int:
        if self.max_length is None:
            raise BadInput("max_length none leaves open how many positions the network has; give a number.")
        return self.max_length

    def _special(self, given: Given) -> tuple[int, ...]:
        return ids(given.tokenizer, [t for t in specials(self.frame).values() if t != "<unk>"])


@dataclass(frozen=True)
class MultiHeadSettings(Texts):
    """Lopardo et al. 2024: [CLS] reads word vectors with positions, through several heads, and answers."""

    epochs: int = 10
    optimiser: Literal["adam", "amsgrad", "adamw"] = "adamw"
    lr: float = 1e-4
    weight_decay: float = 0.01
    batch: int = 16
    frame: Frame = "cls"
    max_length: int | None = 256
    embedding: int = 128
    attention: int = 64
    value: int = 64
    heads: int = 6
    layers: int = 1
    residual: bool = False
    masked: bool = True

    def network(self, given: Given) -> Net:
        """The multi-head network; without a mask, texts are filled up with unknown words as the authors do."""
        more = given.common(one_logit=False) | {"max_position_embeddings": self._positions()}
        filler = {} if self.masked else {"pad_token_id": given.tokenizer.token_to_id("<unk>")}
        return MultiHead(_shape(MultiHeadShape, self, more | filler))


@dataclass(frozen=True)
class SingleSettings(Texts):
    """Jain & Wallace 2019: an encoder, attention over its states, one linear layer.

    `attention` may be frozen: "uniform", "log-odds", or "given" by the trained network in the folder `guide`
    (Wiegreffe & Pinter 2019). `regularised` pulls attention towards log-odds attention.
    """

    epochs: int = 8
    optimiser: Literal["adam", "amsgrad", "adamw"] = "amsgrad"
    weight_decay: float = 1e-5
    select: Literal["accuracy", "f1", "roc_auc"] = "roc_auc"
    balanced: bool = True
    encoder: EncoderName = "bilstm"
    attention: Literal["additive", "dot", "general", "none", "uniform", "log-odds", "given"] = "additive"
    activation: Activation = "softmax"
    embedding: int = 300
    hidden: int = 128
    dropout: float = 0.0
    regularised: float = 0.0
    guide: str | None = None

    def guide_network(self) -> Saved | None:
        """The guide."""
        if (self.guide is not None) != (self.attention == "given"):
            raise BadInput("attention=given and guide=FOLDER belong together; give both or neither.")
        return None if self.guide is None else guide(self.guide)

    def network(self, given: Given) -> Net:
        """Encoder × attention."""
        lent = self.guide_network()
        more = given.common(one_logit=True) | {"special": self._special(given), "guide": None}
        if lent is not None:
            return Single.guided(_shape(SingleShape, self, more | {"attention": "uniform"}), _checked_guide(lent.model))
        net = Single(_shape(SingleShape, self, more))
        if self.attention == "log-odds" or self.regularised:
            net.log_odds.copy_(_log_odds(given, specials(self.frame).values()))
        return net


@dataclass(frozen=True)
class PairSettings(Texts):
    """Jain & Wallace 2019, two texts: attention over the first, asked for by the second (question, hypothesis, aspect).

    With `candidates` every label is a word, and only words of the first text can be answered.
    """

    epochs: int = 25
    optimiser: Literal["adam", "amsgrad", "adamw"] = "amsgrad"
    weight_decay: float = 1e-5
    encoder: EncoderName = "bilstm"
    attention: Literal["additive", "dot", "general", "none", "uniform"] = "additive"
    activation: Activation = "softmax"
    embedding: int = 300
    hidden: int = 128
    dropout: float = 0.0
    candidates: bool = False

    def network(self, given: Given) -> Net:
        """Two encoders × attention."""
        candidates = _candidates(given) if self.candidates else ()
        more = given.common(one_logit=False) | {"special": self._special(given), "candidates": candidates}
        return Pair(_shape(PairShape, self, more))


@dataclass(frozen=True)
class HierarchicalSettings(Texts):
    """Serrano & Smith 2019: words → sentences → text, with attention at both levels; `flat` has one level of words."""

    epochs: int = 15
    patience: int | None = 5
    lr: float = 4e-4
    schedule: Literal["constant", "linear", "plateau"] = "plateau"
    clip: float | None = 10.0
    batch: int = 64
    budget: int | None = 32768
    frame: Frame = "none"
    min_count: int = 5
    encoder: Literal["rnn", "conv", "none"] = "rnn"
    flat: bool = False
    embedding: int = 200
    hidden: int = 50
    longest: int = 60
    dropout_sentence: float = 0.444
    dropout_document: float = 0.22
    dropout_output: float = 0.246
    dropout_conv: float = 0.3

    def network(self, given: Given) -> Net:
        """HAN or FLAN."""
        marks = {"special": self._special(given), "ends": ids(given.tokenizer, SENTENCE_ENDS)}
        return Hierarchical(_shape(HierarchicalShape, self, given.common(one_logit=False) | marks))


@dataclass(frozen=True)
class TransformerSettings(Texts):
    """The poster: a small Transformer encoder whose states are added up, over texts of at most 200 pieces."""

    epochs: int = 20
    patience: int | None = 10
    lr: float = 1e-4
    batch: int = 64
    frame: Frame = "none"
    pieces: int | None = 32000
    max_length: int | None = 200
    long: Literal["cut", "drop"] = "drop"
    layers: int = 4
    heads: int = 8
    width: int = 128
    inner: int = 512
    dropout: float = 0.1
    pooling: Pooling = "sum"
    activation: Activation = "softmax"
    positions: bool = True

    def network(self, given: Given) -> Net:
        """The encoder."""
        more = given.common(one_logit=True) | {"max_position_embeddings": self._positions()}
        return Transformer(_shape(TransformerShape, self, more))


@dataclass(frozen=True)
class FineTune(Batches):
    """Any Hugging Face encoder, from a folder or a hub name (`encoder`), with a new head for these labels."""

    epochs: int = 3
    optimiser: Literal["adam", "amsgrad", "adamw"] = "adamw"
    lr: float = 5e-5
    weight_decay: float = 0.01
    schedule: Literal["constant", "linear", "plateau"] = "linear"
    warmup: float = 0.1
    clip: float | None = 1.0
    max_length: int | None = 128
    encoder: str = ""


def _shape(kind: Any, settings: Texts, more: Mapping[str, Any]) -> Any:
    """A network's Shape: what it has in common with the settings, and more."""
    same = {f.name: getattr(settings, f.name) for f in fields(kind) if f.init and hasattr(settings, f.name)}
    return kind(**same | dict(more))


def guide(folder: str) -> Saved:
    """The trained network whose attention another network is to use."""
    return load_saved(Path(folder).expanduser())


def _checked_guide(net: Net) -> Single:
    if not isinstance(net, Single):
        raise BadInput(f"the guide is a {net.config.model_type} network; give one of bilstm, cnn, single-cnn, average.")
    return net


def _log_odds(given: Given, special: Iterable[str]) -> torch.Tensor:
    cells = zip(given.texts.starts, given.texts.starts[1:], strict=False)
    unread = ids(given.tokenizer, [*STOPWORDS, *special])
    texts = [given.texts.ids[a:b].tolist() for a, b in cells]
    return torch.from_numpy(log_odds(texts, given.truth, given.tokenizer.get_vocab_size(), unread))


def _candidates(given: Given) -> tuple[int, ...]:
    found = [given.tokenizer.token_to_id(label) or given.tokenizer.token_to_id(label.lower()) for label in given.labels]
    missing = [label for label, i in zip(given.labels, found, strict=True) if i is None]
    if missing:
        raise BadInput(f"label '{missing[0]}' is not a word of the training texts, so it cannot be a candidate.")
    return tuple(i for i in found if i is not None)
