"""Settings of every classifier that can be trained, and the network that they make.

`settings.build(data)` is the network with random weights, and with pretrained word vectors if they are set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, get_type_hints

import numpy as np
import tokenizers
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.core.errors import BadInput
from heedful.core.settings import Count, Fraction, NotNegative, Positive
from heedful.nets import Hierarchical, MultiHead, MultiHeadShape, Net, Pair, Single, Transformer
from heedful.nets.base import Saved, Shape, load_saved
from heedful.nets.hierarchical import HierarchicalShape
from heedful.nets.pair import PairShape
from heedful.nets.single import AttendedShape, Attention, SingleShape
from heedful.nets.training.batches import EncodedTexts
from heedful.nets.training.loop import Optimiser, Schedule, TrainingPlan
from heedful.nets.transformer import TransformerShape
from heedful.nets.vocabulary import (
    SENTENCE_ENDS,
    STOPWORDS,
    UNK,
    Frame,
    TokenRules,
    ids,
    log_odds,
    specials,
    trained_vectors,
    vectors,
)

OWN_TEXTS = "train"  # `vectors` from the training texts
Score = Literal["accuracy", "f1", "roc_auc"]
Class = TypeVar("Class", bound=type)


def with_fields(shape: type[Shape], names: str) -> Callable[[Class], Class]:
    """Give a settings class these fields of a network's shape, in this order and before its own: types and defaults.

    A field that the class declares itself keeps that declaration.
    """

    def add(cls: Class) -> Class:
        kinds = get_type_hints(shape, include_extras=True)
        for name in names.split():
            setattr(cls, name, vars(cls).get(name, getattr(shape, name)))
        cls.__annotations__ = {name: kinds[name] for name in names.split()} | cls.__annotations__
        return cls

    return add


@dataclass(frozen=True)
class Given:
    """The data that a network is built for: tokenizer, labels, and the training texts with their label numbers."""

    tokenizer: tokenizers.Tokenizer
    labels: tuple[str, ...]
    multi: bool
    texts: EncodedTexts
    truth: NDArray[Any]

    def common(self, one_logit: bool) -> dict[str, Any]:
        """The part of a Shape that the data decide; with `one_logit`, two labels share a single logit."""
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
    """How texts are batched, for every classifier.

    A batch has `batch` texts of similar length and at most `budget` tokens. Texts of more than `max_length` tokens are
    cut, or dropped (`long`); those of fewer than `min_length` are dropped. `select` is the validation score that
    selects the epoch. `balanced` gives rare labels a larger weight.
    """

    batch: Count = 32
    budget: Count | None = None
    select: Score = "accuracy"
    balanced: bool = False
    max_length: Count | None = None
    long: Literal["cut", "drop"] = "cut"
    min_length: Count = 1


@dataclass(frozen=True)
class TextSettings(Batches):
    """How texts are tokenized, for networks with a vocabulary of their own (one with a guide uses the guide's).

    Words are in lower case (`lower`). Words with fewer than `min_count` occurrences, and all but the `most` frequent,
    are unknown. `pieces` learns this many pieces instead (byte-pair encoding). `digits` replaces every word with a
    digit by one word. `frame` puts <s> and </s> around a text, or [CLS] before it. Random word vectors are multiplied
    by `spread`: with a small one, rare words have little effect. `vectors` is a text file of pretrained word vectors,
    or "train": vectors from co-occurrences of words in the training texts (a file of that name is "./train").
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

    model_type: ClassVar[str] = ""  # of the network's Shape

    @property
    def cut(self) -> TokenRules:
        """How texts become tokens."""
        return TokenRules(self.frame, self.lower, self.punctuation, self.digits, self.min_count, self.most, self.pieces)

    def guide_network(self) -> Saved | None:
        """The network whose vocabulary and attention this one uses, if any."""
        return None

    def network(self, data: Given) -> Net:
        """The network with random weights, from torch's generator."""
        raise NotImplementedError

    def build(self, data: Given) -> Net:
        """The network, with pretrained word vectors if they are set."""
        net = self.network(data)
        halves = 2 if isinstance(net, Pair) else 1
        with torch.no_grad():
            table = net.words.weight.mul_(self.spread)
            for i, row in self._pretrained(data, net.words.embedding_dim // halves).items():
                # vectors from the training texts have length 1, and get that of the random ones
                length = table[i].norm() / halves**0.5 if self.vectors == OWN_TEXTS else 1
                table[i] = length * row.repeat(halves).to(table.dtype)
        return net

    def _pretrained(self, data: Given, width: int) -> dict[int, Tensor]:
        """The word vectors of a file, or from the training texts."""
        if self.vectors is None:
            return {}
        if self.vectors != OWN_TEXTS:
            return vectors(self.vectors, data.tokenizer.get_vocab(), width)
        texts = data.texts
        runs = 2 * np.repeat(np.arange(len(texts)), texts.lengths) + (0 if texts.types is None else texts.types)
        return trained_vectors(texts.ids, runs, width, ids(data.tokenizer, specials(self.frame).values()))

    def _positions(self) -> int:
        if self.max_length is None:
            raise BadInput("max_length is none, but this network needs a number of positions; set max_length.")
        return self.max_length

    def _shape(self, kind: Any, more: Mapping[str, Any]) -> Any:
        """A network's Shape from the settings that both have, and `more`."""
        shared = {f.name: getattr(self, f.name) for f in fields(kind) if f.init and hasattr(self, f.name)}
        return kind(**shared | dict(more))

    def _special(self, data: Given) -> tuple[int, ...]:
        return ids(data.tokenizer, [token for token in specials(self.frame).values() if token != UNK])


@dataclass(frozen=True)
@with_fields(MultiHeadShape, "embedding attention value heads layers residual masked")
class MultiHeadSettings(TextSettings):
    """Lopardo et al. 2024: [CLS] attends to word vectors with positions through several heads."""

    epochs: Count = 10
    optimiser: Optimiser = "adamw"
    lr: Positive = 1e-4
    weight_decay: NotNegative = 0.01
    batch: Count = 16
    frame: Frame = "cls"
    max_length: Count | None = 256

    model_type: ClassVar[str] = MultiHeadShape.model_type

    def network(self, data: Given) -> Net:
        """The multi-head network; without a mask, texts are padded with unknown words, as the authors do."""
        more = data.common(one_logit=False) | {"max_position_embeddings": self._positions()}
        shape = self._shape(MultiHeadShape, more)
        if not shape.masked:
            shape.pad_token_id = data.tokenizer.token_to_id(UNK)
        return MultiHead(shape)


@dataclass(frozen=True)
@with_fields(AttendedShape, "encoder attention activation embedding hidden dropout")
class AttendedSettings(TextSettings):
    """Jain & Wallace 2019: an encoder, and one attention over its states.

    Random word vectors are ours, since the paper uses pretrained ones: docs/networks.md compares values of `spread`.
    """

    spread: Positive = 0.1
    optimiser: Optimiser = "amsgrad"
    weight_decay: NotNegative = 1e-5
    attention: Attention = "additive"


@dataclass(frozen=True)
class SingleSettings(AttendedSettings):
    """One text: a linear layer reads the attended state.

    `attention` may be frozen: "uniform", "log-odds", or "given" by the trained network in the folder `guide`
    (Wiegreffe & Pinter 2019). `regularised` pulls attention towards log-odds attention.
    """

    epochs: Count = 8
    select: Score = "roc_auc"
    balanced: bool = True
    regularised: NotNegative = 0.0
    guide: str | None = None

    model_type: ClassVar[str] = SingleShape.model_type

    def guide_network(self) -> Saved | None:
        """The trained network whose attention this one uses."""
        if (self.guide is not None) != (self.attention == "given"):
            raise BadInput("attention=given needs guide=FOLDER, and no other attention does; set both or neither.")
        return None if self.guide is None else load_saved(Path(self.guide).expanduser())

    def network(self, data: Given) -> Net:
        """The network of one text, with the guide's attention if there is a guide."""
        guide = self.guide_network()
        more = data.common(one_logit=True) | {"special": self._special(data), "guide": None}
        if guide is not None:
            if not isinstance(guide.model, Single):
                kind = guide.model.config.model_type
                raise BadInput(f"the guide is a {kind} network; give one of bilstm, cnn, single-cnn, average.")
            return Single.guided(self._shape(SingleShape, more | {"attention": "uniform"}), guide.model)
        net = Single(self._shape(SingleShape, more))
        if self.attention == "log-odds" or self.regularised:
            ignored = ids(data.tokenizer, [*STOPWORDS, *specials(self.frame).values()])
            texts = [part.tolist() for part in np.split(data.texts.ids, data.texts.starts[1:-1])]
            odds = log_odds(texts, data.truth, data.tokenizer.get_vocab_size(), ignored)
            net.log_odds.copy_(torch.from_numpy(odds))
        return net


@dataclass(frozen=True)
class PairSettings(AttendedSettings):
    """Two texts: attention over the first, with the second as its query (question, hypothesis, aspect).

    With `candidates` every label is a word, and only words of the first text can be predicted.
    """

    epochs: Count = 25
    attention: Literal["additive", "dot", "general", "none", "uniform"] = "additive"
    candidates: bool = False

    model_type: ClassVar[str] = PairShape.model_type

    def network(self, data: Given) -> Net:
        """The network of two texts."""
        number = data.tokenizer.token_to_id
        candidates = [number(x) or number(x.lower()) for x in data.labels] if self.candidates else []
        if None in candidates:
            label = data.labels[candidates.index(None)]
            raise BadInput(f"label '{label}' is not a word of the training texts; set candidates=false.")
        more = data.common(one_logit=False) | {"special": self._special(data), "candidates": candidates}
        return Pair(self._shape(PairShape, more))


@dataclass(frozen=True)
@with_fields(
    HierarchicalShape,
    "encoder flat embedding hidden longest dropout_sentence dropout_document dropout_output dropout_conv",
)
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

    model_type: ClassVar[str] = HierarchicalShape.model_type

    def network(self, data: Given) -> Net:
        """HAN or FLAN."""
        marks = {"special": self._special(data), "ends": ids(data.tokenizer, SENTENCE_ENDS)}
        return Hierarchical(self._shape(HierarchicalShape, data.common(one_logit=False) | marks))


@dataclass(frozen=True)
@with_fields(TransformerShape, "layers heads width inner dropout pooling activation positions")
class TransformerSettings(TextSettings):
    """The poster: a small Transformer encoder whose states are summed, for texts of at most 200 pieces."""

    epochs: Count = 20
    patience: Count | None = 10
    lr: Positive = 1e-4
    batch: Count = 64
    frame: Frame = "none"
    pieces: Count | None = 32000
    max_length: Count | None = 200
    long: Literal["cut", "drop"] = "drop"

    model_type: ClassVar[str] = TransformerShape.model_type

    def network(self, data: Given) -> Net:
        """The encoder."""
        more = data.common(one_logit=True) | {"max_position_embeddings": self._positions()}
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
