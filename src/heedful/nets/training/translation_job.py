"""The training of an encoder-decoder, on generated dates or on pairs of one's own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from random import Random
from typing import Any

from torch import Tensor, nn

from heedful import data as datasets
from heedful.core.errors import BadInput
from heedful.core.random import torch_seed
from heedful.core.settings import Count, Fraction, Positive
from heedful.data import Example, Splits
from heedful.nets.seq2seq import DecoderAttention, DecoderOrder, Seq2Seq, Seq2SeqShape
from heedful.nets.training.dates import MAX_DATES, SOURCE, TARGET, date_splits
from heedful.nets.training.loop import Schedule, TrainingPlan
from heedful.nets.training.pairs import (
    PAD,
    STOP,
    UNK,
    PairSplits,
    SymbolKind,
    TextPair,
    cut,
    frequent_symbols,
)
from heedful.nets.training.translate import LONGEST, Translator, exact_match

DATES = "dates"  # the name of the generated data
POOL_BATCHES = 20  # batches whose texts are sorted by length together
# settings that apply to one kind of data only
FOR_DATES = ("n_train", "n_dev", "n_test", "most")
FOR_PAIRS = ("symbols", "min_count", "longest_source", "longest_target")


@dataclass(frozen=True)
class Seq2SeqSettings(TrainingPlan):
    """The network, and what it reads and writes.

    Of generated dates: the numbers of examples; `most` is the largest number of dates in a text. Of pairs of one's own:
    whether `symbols` are characters or words; one that occurs less than `min_count` times in the training pairs is
    unknown; training pairs with more symbols than `longest_source` or `longest_target` are dropped.
    """

    lr: Positive = 3e-3
    schedule: Schedule = "linear"
    warmup: Fraction = 0.05
    clip: Positive | None = 1.0
    attention: DecoderAttention = "additive"
    order: DecoderOrder = "luong"
    embedding: Count = 32
    hidden: Count = 96
    units: Count = 32
    dropout: Fraction = 0.0
    batch: Count = 64
    n_train: Count = 10_000
    n_dev: Count = 1_000
    n_test: Count = 2_000
    most: Count = MAX_DATES
    symbols: SymbolKind = "character"
    min_count: Count = 1
    longest_source: Count = 400
    longest_target: Count = 400


@dataclass(frozen=True)
class _Batch:
    ids: Tensor
    symbols: Tensor
    real: Tensor  # which symbols are not padding, the end included


@dataclass(frozen=True)
class TranslationJob:
    """A translator, and the pairs that it learns from.

    `dropped` counts the training pairs that are too long, by reason; `fingerprint` is that of data of one's own.
    """

    settings: Seq2SeqSettings
    translator: Translator
    data: PairSplits
    dropped: Mapping[str, int] = field(default_factory=dict)
    fingerprint: str = ""

    @property
    def model(self) -> Seq2Seq:
        """The network."""
        return self.translator.model

    @property
    def identity(self) -> str:
        """What a resumed training must share with the one that was killed."""
        return json.dumps(asdict(replace(self.settings, epochs=1, patience=None)), sort_keys=True) + self.fingerprint

    def decays(self, name: str) -> bool:
        """Weight decay applies to matrices."""
        return "bias" not in name

    def batches(self, epoch: int) -> list[_Batch]:
        """All training examples, batched by length, in an order that depends on the seed and the epoch."""
        rng = Random(f"{self.settings.seed} {epoch}")
        size, pairs = self.settings.batch, list(self.data.train)
        rng.shuffle(pairs)
        pools = [pairs[i : i + size * POOL_BATCHES] for i in range(0, len(pairs), size * POOL_BATCHES)]
        ordered = [sorted(pool, key=lambda pair: len(cut(pair.source, self.translator.kind))) for pool in pools]
        groups = [pool[i : i + size] for pool in ordered for i in range(0, len(pool), size)]
        rng.shuffle(groups)
        return [self._batch(group) for group in groups]

    def _batch(self, pairs: Sequence[TextPair]) -> _Batch:
        ids = self.translator.encode([pair.source for pair in pairs])
        return _Batch(ids, *self.translator.encode_targets([pair.target for pair in pairs]))

    def loss(self, batch: _Batch) -> Tensor:
        """Mean cross-entropy of a symbol, given the correct ones before it."""
        logits, _ = self.model.taught(batch.ids, batch.ids != self.model.config.pad_token_id, batch.symbols)
        return nn.functional.cross_entropy(logits[batch.real], batch.symbols[batch.real])

    def score(self) -> dict[str, float]:
        """The share of correctly translated validation texts."""
        return {"exact match": exact_match(self.translator, self.data.dev)}

    def record(self, data: Splits | None) -> dict[str, Any]:
        """For training.json: how many pairs each part of the data has, how many were used, and why not the others.

        `impossible` counts the targets with a symbol that the network cannot write, or too many.
        """
        parts = {name: getattr(self.data, name) for name in ("train", "dev", "test")}
        return {
            name: {"texts": len(pairs if data is None else getattr(data, name)), "used": len(pairs)}
            | ({} if data is None else {"fingerprint": datasets.fingerprint(getattr(data, name))})
            | ({"dropped": dict(self.dropped)} if name == "train" and self.dropped else {})
            | ({"impossible": wrong} if name != "train" and (wrong := self._impossible(pairs)) else {})
            for name, pairs in parts.items()
        }

    def _impossible(self, pairs: Sequence[TextPair]) -> int:
        return sum(not self.translator.can_write(pair.target) for pair in pairs)


def job(settings: Seq2SeqSettings, data: Splits | None = None) -> TranslationJob:
    """The job for `heedful.nets.training.loop.fit`; initial weights and generated data depend on the settings' seed.

    `data` are pairs from `heedful.data.pair_splits`; without them, dates are generated.
    """
    if data is None:
        source, target = (PAD, UNK, *SOURCE), (STOP, *TARGET)
        return TranslationJob(settings, _translator(settings, source, target, LONGEST), date_examples(settings))
    every = PairSplits(*(tuple(map(pair_of, part)) for part in (data.train, data.dev, data.test)))
    if not every.train or not every.dev:
        raise BadInput(f"the data have {len(every.train)} training and {len(every.dev)} validation pairs; give more.")
    reasons = [_too_long(pair, settings) for pair in every.train]
    train = tuple(pair for pair, reason in zip(every.train, reasons, strict=True) if not reason)
    if not train:
        raise BadInput(
            f"all {len(every.train)} training pairs are too long for longest_source={settings.longest_source} or "
            f"longest_target={settings.longest_target}; raise them."
        )
    kind, fewest = settings.symbols, settings.min_count
    source = (PAD, UNK, *frequent_symbols((pair.source for pair in train), kind, fewest))
    written = frequent_symbols((pair.target for pair in train), kind, fewest)
    rare = {symbol for pair in train for symbol in cut(pair.target, kind)} - set(written)
    target = (STOP, *([UNK] if rare else []), *written)  # without rare symbols, <unk> is never learned
    longest = max(len(cut(pair.target, kind)) for pair in train) + 1
    return TranslationJob(
        settings,
        _translator(settings, source, target, longest),
        replace(every, train=train),
        dict(Counter(filter(None, reasons))),
        " ".join(datasets.fingerprint(part) for part in (data.train, data.dev)),
    )


def _translator(
    settings: Seq2SeqSettings, source: tuple[str, ...], target: tuple[str, ...], longest: int
) -> Translator:
    names = ("embedding", "hidden", "attention", "units", "dropout", "order")
    sizes = {name: getattr(settings, name) for name in names}
    shape = Seq2SeqShape(vocabulary=len(source), num_labels=len(target), labels=target, **sizes)
    with torch_seed(settings.seed):
        model = Seq2Seq(shape)
    order = "" if settings.order == "luong" else f", order {settings.order}"
    return Translator(model, source, f"seq2seq-{settings.attention}{order}", settings.symbols, longest)


def date_examples(settings: Seq2SeqSettings) -> PairSplits:
    """The dates that these settings generate."""
    return date_splits(settings.n_train, settings.n_dev, settings.n_test, settings.seed, (1, settings.most))


def pair_of(example: Example) -> TextPair:
    """The pair of an example whose label is the target."""
    if not isinstance(example.label, str):
        raise BadInput(f"{example.where or 'a text'} has no target; give one text for each source.")
    return TextPair(example.text, example.label)


def _too_long(pair: TextPair, settings: Seq2SeqSettings) -> str:
    """Why a training pair is dropped, if it is."""
    for what, limit in (("source", settings.longest_source), ("target", settings.longest_target)):
        if len(cut(getattr(pair, what), settings.symbols)) > limit:
            return f"with a {what} of more than {limit} {settings.symbols}s"
    return ""
