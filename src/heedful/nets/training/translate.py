"""Translation: an encoder-decoder with its symbols, its alignments, and the share of correct translations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from torch import Tensor, nn

from heedful.core.arrays import Bools
from heedful.core.errors import BadInput
from heedful.core.tokens import check_text
from heedful.nets import base
from heedful.nets.seq2seq import END, Seq2Seq, Seq2SeqShape, decode_greedily
from heedful.nets.training.pairs import GAPS, PAD, STOP, UNK, SymbolKind, TextPair, cut, join

if TYPE_CHECKING:
    from heedful.model.classifier import Classifier

LONGEST = 64  # output symbols at most, where nothing else is known
BATCH_TEXTS = 128  # texts translated at a time


@dataclass(frozen=True)
class Alignment:
    """A text, its translation, and the attention of each symbol: weights[s,t], 0 without attention.

    `read` are the input symbols t, `symbols` the output symbols s. The last row is that of the end, "</s>", unless the
    translation reached its largest length.
    """

    text: str
    written: str
    read: tuple[str, ...]
    symbols: tuple[str, ...]
    weights: NDArray[np.float32]
    model: str = ""

    def to_json(self) -> str:
        """One line of JSON."""
        parts = {"text": self.text, "translation": self.written, "symbols": self.symbols, "model": self.model}
        return json.dumps(
            parts | {"read": self.read, "alignment": np.round(self.weights, 6).tolist()}, ensure_ascii=False
        )


@dataclass(frozen=True)
class Translator:
    """A network and its input symbols; its output symbols are its labels.

    Symbols of both are of one `kind`. A translation has at most `longest` symbols, the end included.
    """

    model: Seq2Seq
    symbols: tuple[str, ...]
    name: str = "translator"
    kind: SymbolKind = "character"
    longest: int = LONGEST

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {symbol: i for i, symbol in enumerate(self.symbols) if symbol not in (PAD, UNK)}

    @cached_property
    def _outputs(self) -> dict[str, int]:
        return {symbol: i for i, symbol in enumerate(self.model.config.labels) if symbol != STOP}

    def translate(self, text: str, longest: int | None = None) -> str:
        """The translation of a text."""
        return self.translate_all([text], longest)[0]

    def translate_all(self, texts: Sequence[str], longest: int | None = None) -> list[str]:
        """The same for many texts, batched by length."""
        return [alignment.written for alignment in self.align_all(texts, longest)]

    def align(self, text: str, longest: int | None = None) -> Alignment:
        """The translation of a text, with the attention of each symbol."""
        return self.align_all([text], longest)[0]

    def align_all(self, texts: Sequence[str], longest: int | None = None) -> list[Alignment]:
        """The same for many texts, batched by length."""
        for text in texts:
            check_text(text)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        alignments: dict[int, Alignment] = {}
        for start in range(0, len(order), BATCH_TEXTS):
            batch = order[start : start + BATCH_TEXTS]
            alignments |= dict(zip(batch, self._align_batch([texts[i] for i in batch], longest), strict=True))
        return [alignments[i] for i in range(len(texts))]

    def _align_batch(self, texts: Sequence[str], longest: int | None) -> list[Alignment]:
        ids = self.encode(texts)
        with self._evaluating():
            out = decode_greedily(self.model, ids, ids != self.model.config.pad_token_id, longest or self.longest)
        return [self._alignment(*row) for row in zip(texts, out.symbols, out.alignment, strict=True)]

    def align_targets(self, pairs: Sequence[TextPair]) -> list[Alignment]:
        """The alignments of given translations, whatever the translator would write (teacher forcing)."""
        ids, (symbols, _) = self.encode([p.source for p in pairs]), self.encode_targets([p.target for p in pairs])
        with self._evaluating():
            alignment = self.model.taught(ids, ids != self.model.config.pad_token_id, symbols)[1]
        return [self._alignment(*row) for row in zip([p.source for p in pairs], symbols, alignment, strict=True)]

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        training = self.model.training
        try:
            self.model.eval()
            with torch.no_grad():
                yield
        finally:
            self.model.train(training)

    def _alignment(self, text: str, output: Tensor, weights: Tensor) -> Alignment:
        """From the symbols of one text and their attention, without padding."""
        row, read = output.tolist(), tuple(cut(text, self.kind))
        length = row.index(END) + 1 if END in row else len(row)
        symbols = tuple(self.model.config.labels[i] for i in row[:length])
        written = join((s for s in symbols if s != STOP), self.kind)
        return Alignment(text, written, read, symbols, weights[:length, : len(read)].cpu().float().numpy(), self.name)

    def encode(self, texts: Sequence[str]) -> Tensor:
        """Texts as a batch of ids, padded on the right."""
        config, unknown = self.model.config, self.symbols.index(UNK)
        rows = [torch.tensor([self._ids.get(s, unknown) for s in cut(text, self.kind)]) for text in texts]
        ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=config.pad_token_id)
        return ids.to(self.model.words.weight.device)

    def encode_targets(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Translations as a batch of symbols with the end, and which of them are not padding.

        An unknown symbol is <unk> if the network can write it, and refused otherwise.
        """
        known, unknown = self._outputs, self._outputs.get(UNK)
        rows = []
        for text in texts:
            row = [known.get(symbol, unknown) for symbol in cut(text, self.kind)]
            if None in row:
                raise BadInput(f"'{text[:40]}' has a symbol that {self.name} cannot write; give another translation.")
            rows.append(torch.tensor([*row, END]))
        real = [torch.ones_like(row, dtype=torch.bool) for row in rows]
        padded, device = nn.utils.rnn.pad_sequence, self.model.words.weight.device
        return padded(rows, True, END).to(device), padded(real, True).to(device)

    def can_write(self, text: str) -> bool:
        """Whether a translation has known symbols only, and not too many."""
        symbols = cut(text, self.kind)
        return len(symbols) < self.longest and all(symbol in self._outputs for symbol in symbols)

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
        return Classifier(
            view.eval(), wrapped(tokenizer(self.symbols, self.kind), special), f"{self.name}, symbol {step}"
        )

    def save(self, folder: str | Path) -> None:
        """Write model.safetensors and heedful.json, each atomically."""
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise BadInput(f"'{folder}' cannot be created ({e.strerror}); choose another folder.") from e
        more = {"symbols": self.symbols, "symbol_kind": self.kind, "longest": self.longest}
        base.write_network(self.model, folder, more)

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
            kind, longest = description.get("symbol_kind", "character"), int(description.get("longest", LONGEST))
            if kind not in get_args(SymbolKind) or longest < 1:
                raise ValueError(f"symbol_kind is {kind} and longest {longest}")
        if len(symbols) != model.config.vocabulary or not {PAD, UNK} <= set(symbols):
            expected = f"its network needs {model.config.vocabulary}, with {PAD} and {UNK}"
            raise BadInput(f"'{folder}' has {len(symbols)} symbols and {expected}; copy or train it again.")
        return cls(model, symbols, folder.name, kind, longest)


def tokenizer(symbols: Sequence[str], kind: SymbolKind = "character") -> Tokenizer:
    """A tokenizer whose tokens are single characters, spaces included, or words."""
    cutter = Tokenizer(models.WordLevel({symbol: i for i, symbol in enumerate(symbols)}, unk_token=UNK))
    characters = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    cutter.pre_tokenizer = characters if kind == "character" else pre_tokenizers.Split(Regex(GAPS), "removed")
    cutter.add_special_tokens([PAD, UNK])
    return cutter


def right(translator: Translator, pairs: Sequence[TextPair]) -> Bools:
    """Which texts are translated correctly."""
    written = translator.translate_all([pair.source for pair in pairs])
    return np.array([w == pair.target for w, pair in zip(written, pairs, strict=True)], dtype=bool)


def exact_match(translator: Translator, pairs: Sequence[TextPair]) -> float:
    """The share of correctly translated texts."""
    return float(right(translator, pairs).mean())
