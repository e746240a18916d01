"""Translation: an encoder-decoder with its symbols. Training, saving, translating, and its alignments.

job             settings -> what `loop.fit` trains          Translator     translate, align, classifier
exact_match     the share of correct translations           by_length      the same, by the length of the texts
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from torch import Tensor, nn

from heedful.core.arrays import Bools
from heedful.core.errors import BadInput
from heedful.core.random import torch_seed
from heedful.core.settings import Count, Fraction, Positive
from heedful.core.tokens import check_text
from heedful.maths.stats import wilson
from heedful.nets import base
from heedful.nets.seq2seq import END, DecoderAttention, Seq2Seq, Seq2SeqShape, decode_greedily
from heedful.nets.training.dates import MAX_DATES, SOURCE, TARGET, DatePair, DateSplits, date_splits
from heedful.nets.training.loop import Schedule, TrainingPlan

if TYPE_CHECKING:
    from heedful.model.classifier import Classifier

PAD, UNK, STOP = "<pad>", "<unk>", "</s>"
LONGEST = 64  # output symbols at most
BATCH_TEXTS = 128  # texts translated at a time
POOL_BATCHES = 20  # batches whose texts are sorted by length together, in training


@dataclass(frozen=True)
class Seq2SeqSettings(TrainingPlan):
    """The network and the numbers of generated examples. `most` is the largest number of dates in a text."""

    lr: Positive = 3e-3
    schedule: Schedule = "linear"
    warmup: Fraction = 0.05
    clip: Positive | None = 1.0
    attention: DecoderAttention = "additive"
    embedding: Count = 32
    hidden: Count = 96
    units: Count = 32
    dropout: Fraction = 0.0
    batch: Count = 64
    n_train: Count = 10_000
    n_dev: Count = 1_000
    n_test: Count = 2_000
    most: Count = MAX_DATES


@dataclass(frozen=True)
class Alignment:
    """A text, its translation, and the attention of each symbol: weights[s,t], 0 without attention.

    The last row is that of the end, "</s>", unless the translation reached its largest length.
    """

    text: str
    written: str
    symbols: tuple[str, ...]
    weights: NDArray[np.float32]
    model: str = ""

    def to_json(self) -> str:
        """One line of JSON."""
        parts = {"text": self.text, "translation": self.written, "symbols": self.symbols, "model": self.model}
        return json.dumps(parts | {"alignment": np.round(self.weights, 6).tolist()}, ensure_ascii=False)


@dataclass(frozen=True)
class Translator:
    """A network and its input symbols; its output symbols are its labels."""

    model: Seq2Seq
    symbols: tuple[str, ...]
    name: str = "translator"

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {symbol: i for i, symbol in enumerate(self.symbols)}

    def translate(self, text: str, longest: int = LONGEST) -> str:
        """The translation of a text."""
        return self.translate_all([text], longest)[0]

    def translate_all(self, texts: Sequence[str], longest: int = LONGEST) -> list[str]:
        """The same for many texts, batched by length."""
        return [alignment.written for alignment in self.align_all(texts, longest)]

    def align(self, text: str, longest: int = LONGEST) -> Alignment:
        """The translation of a text, with the attention of each symbol."""
        return self.align_all([text], longest)[0]

    def align_all(self, texts: Sequence[str], longest: int = LONGEST) -> list[Alignment]:
        """The same for many texts, batched by length."""
        for text in texts:
            check_text(text)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        alignments: dict[int, Alignment] = {}
        for start in range(0, len(order), BATCH_TEXTS):
            batch = order[start : start + BATCH_TEXTS]
            alignments |= dict(zip(batch, self._align_batch([texts[i] for i in batch], longest), strict=True))
        return [alignments[i] for i in range(len(texts))]

    def _align_batch(self, texts: Sequence[str], longest: int) -> list[Alignment]:
        ids = self.encode(texts)
        training = self.model.training
        try:
            self.model.eval()
            with torch.no_grad():
                out = decode_greedily(self.model, ids, ids != self.model.config.pad_token_id, longest)
        finally:
            self.model.train(training)
        alignments = []
        for text, row, weights in zip(texts, out.symbols.tolist(), out.alignment.cpu().float().numpy(), strict=True):
            length = row.index(END) + 1 if END in row else len(row)
            symbols = tuple(self.model.config.labels[i] for i in row[:length])
            written = "".join(s for s in symbols if s != STOP)
            alignments.append(Alignment(text, written, symbols, weights[:length, : len(text)], self.name))
        return alignments

    def encode(self, texts: Sequence[str]) -> Tensor:
        """Texts as a batch of ids, padded on the right."""
        config, unknown = self.model.config, self._ids[UNK]
        rows = [torch.tensor([self._ids.get(c, unknown) for c in text]) for text in texts]
        ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=config.pad_token_id)
        return ids.to(self.model.words.weight.device)

    def classifier(self, text: str, step: int) -> Classifier:
        """A classifier of the symbol at output position `step`, after the translator's own symbols for `text`.

        It reads any source, shares the translator's weights, and keeps these preceding symbols for every source. Its
        one attention matrix is that of this step, and edits change no other.
        """
        from heedful.model.classifier import Classifier
        from heedful.model.loading import wrapped

        written = self.align(text).symbols
        if not 0 <= step < len(written):
            raise BadInput(f"step {step} is outside the translation's {len(written)} symbols; give a smaller step.")
        labels = self.model.config.labels
        view = Seq2Seq(replace(self.model.config, before=tuple(labels.index(s) for s in written[:step])))
        view.load_state_dict(self.model.state_dict(), assign=True)
        special = {"pad_token": PAD, "unk_token": UNK}
        return Classifier(view.eval(), wrapped(tokenizer(self.symbols), special), f"{self.name}, symbol {step}")

    def save(self, folder: str | Path) -> None:
        """Write model.safetensors and heedful.json, each atomically."""
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise BadInput(f"'{folder}' cannot be created ({e.strerror}); choose another folder.") from e
        base.write_network(self.model, folder, {"symbols": self.symbols})

    @classmethod
    def load(cls, folder: str | Path) -> Translator:
        """The translator in a folder; nothing in it is executed."""
        folder = Path(folder).expanduser()
        if not (folder / base.ABOUT).is_file():
            command = f"heedful train seq2seq-additive dates --out {folder}"
            raise BadInput(f"'{folder}' has no {base.ABOUT}, so it is not a translator; train one with: {command}")
        description = base.read_description(folder)
        kind = description.get("network")
        if kind != Seq2SeqShape.model_type:
            raise BadInput(f"'{folder}' holds a {kind}, which is not a translator; see heedful explain.")
        with base.damage(f"the translator in '{folder}'"):
            model: Seq2Seq = base.load_network(Seq2Seq, folder, description)
            symbols = tuple(map(str, description["symbols"]))
        if len(symbols) != model.config.vocabulary or not {PAD, UNK} <= set(symbols):
            expected = f"its network needs {model.config.vocabulary}, with {PAD} and {UNK}"
            raise BadInput(f"'{folder}' has {len(symbols)} symbols and {expected}; copy or train it again.")
        return cls(model, symbols, folder.name)


def tokenizer(symbols: Sequence[str]) -> Tokenizer:
    """A tokenizer whose tokens are single characters, spaces included."""
    characters = Tokenizer(models.WordLevel({symbol: i for i, symbol in enumerate(symbols)}, unk_token=UNK))
    characters.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    characters.add_special_tokens([PAD, UNK])
    return characters


@dataclass(frozen=True)
class _Batch:
    ids: Tensor
    symbols: Tensor
    real: Tensor  # which symbols are not padding, the end included


@dataclass(frozen=True)
class DatesJob:
    """A translator, and the generated dates that it learns from."""

    settings: Seq2SeqSettings
    translator: Translator
    data: DateSplits

    @property
    def model(self) -> Seq2Seq:
        """The network."""
        return self.translator.model

    @property
    def identity(self) -> str:
        """What a resumed training must share with the one that was killed."""
        return json.dumps(asdict(replace(self.settings, epochs=1, patience=None)), sort_keys=True)

    def decays(self, name: str) -> bool:
        """Weight decay applies to matrices."""
        return "bias" not in name

    def batches(self, epoch: int) -> list[_Batch]:
        """All training examples, batched by length, in an order that depends on the seed and the epoch."""
        rng = Random(f"{self.settings.seed} {epoch}")
        size, pairs = self.settings.batch, list(self.data.train)
        rng.shuffle(pairs)
        pools = [pairs[i : i + size * POOL_BATCHES] for i in range(0, len(pairs), size * POOL_BATCHES)]
        ordered = [sorted(pool, key=lambda pair: len(pair.source)) for pool in pools]
        groups = [pool[i : i + size] for pool in ordered for i in range(0, len(pool), size)]
        rng.shuffle(groups)
        return [self._batch(group) for group in groups]

    def _batch(self, pairs: Sequence[DatePair]) -> _Batch:
        known = {symbol: i for i, symbol in enumerate(self.model.config.labels)}
        rows = [torch.tensor([*(known[c] for c in pair.target), END]) for pair in pairs]
        real = [torch.ones_like(row, dtype=torch.bool) for row in rows]
        padded = nn.utils.rnn.pad_sequence
        return _Batch(self.translator.encode([p.source for p in pairs]), padded(rows, True, END), padded(real, True))

    def loss(self, batch: _Batch) -> Tensor:
        """Mean cross-entropy of a symbol, given the correct ones before it."""
        logits = self.model.taught(batch.ids, batch.ids != self.model.config.pad_token_id, batch.symbols)
        return nn.functional.cross_entropy(logits[batch.real], batch.symbols[batch.real])

    def score(self) -> dict[str, float]:
        """The share of correctly translated validation texts."""
        return {"exact match": exact_match(self.translator, self.data.dev)}


def job(settings: Seq2SeqSettings) -> DatesJob:
    """The job for `heedful.nets.training.loop.fit`; initial weights and data depend on the settings' seed."""
    source, target = (PAD, UNK, *SOURCE), (STOP, *TARGET)
    sizes = {name: getattr(settings, name) for name in ("embedding", "hidden", "attention", "units", "dropout")}
    shape = Seq2SeqShape(vocabulary=len(source), num_labels=len(target), labels=target, **sizes)
    with torch_seed(settings.seed):
        model = Seq2Seq(shape)
    data = date_splits(settings.n_train, settings.n_dev, settings.n_test, settings.seed, (1, settings.most))
    return DatesJob(settings, Translator(model, source, f"seq2seq-{settings.attention}"), data)


def right(translator: Translator, pairs: Sequence[DatePair]) -> Bools:
    """Which texts are translated correctly."""
    written = translator.translate_all([pair.source for pair in pairs])
    return np.array([w == pair.target for w, pair in zip(written, pairs, strict=True)], dtype=bool)


def exact_match(translator: Translator, pairs: Sequence[DatePair]) -> float:
    """The share of correctly translated texts."""
    return float(right(translator, pairs).mean())


@dataclass(frozen=True)
class Bin:
    """Texts of `low` to `high` characters: their number, and the share of correct translations."""

    low: int
    high: int
    n: int
    share: float

    @property
    def middle(self) -> float:
        """The length in the middle of the bin."""
        return (self.low + self.high) / 2

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the share (Wilson 1927)."""
        return wilson(round(self.share * self.n), self.n)


def by_length(translator: Translator, pairs: Sequence[DatePair], width: int = 15, fewest: int = 25) -> list[Bin]:
    """Exact match by length of the texts; bins with fewer texts than `fewest` are left out."""
    correct, lengths = right(translator, pairs), np.array([len(pair.source) for pair in pairs])
    bins = [(low, lengths // width == low // width) for low in range(0, int(lengths.max()) + 1, width)]
    return [
        Bin(low, low + width - 1, int(inside.sum()), float(correct[inside].mean()))
        for low, inside in bins
        if inside.sum() >= fewest
    ]
