"""Masking: ways of removing words. keep[n,d] over features -> token ids for the model, never a decoded text.

delete          the pieces are deleted, which shortens the text
mask, unk, pad  that token replaces each piece
attention       the pieces stay, and no position may attend to them
token:WORD      the token WORD replaces each piece
mlm:FOLDER      tokens drawn from a masked language model with the same vocabulary replace them

Special tokens are never removed. An empty text consists of its special tokens, or of one neutral token. A classifier of
plain texts gets strings: words are deleted ("delete") or replaced ("token:WORD").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Annotated, Any, Literal, get_args

import numpy as np
import torch

from heedful.core.arrays import Bools, Floats, Ints
from heedful.core.errors import BadInput, nearest
from heedful.core.sentences import MAX_AUTO_WORDS, sentence_spans
from heedful.core.settings import Must
from heedful.core.tokens import Tokens, word_spans
from heedful.model.batch import Batch
from heedful.model.classifier import Classifier

Unit = Literal["token", "word", "bag", "sentence", "auto"]

TOKENS = {"mask": "mask_token_id", "unk": "unk_token_id", "pad": "pad_token_id"}
MLM_BATCH_TOKENS = 512  # per batch of a language model, whose output has the whole vocabulary for each


def check_masking(way: str) -> None:
    """Refuse an unknown masking."""
    name, _, argument = way.partition(":")
    operator = MASKINGS.get(name)
    if operator is not None and (bool(argument) if operator.argument else way == name):
        return
    known = [f"{name}:{operator.argument}".removesuffix(":") for name, operator in MASKINGS.items()]
    raise BadInput(f"masking '{way}' is not one of {', '.join(known)}{nearest(way, WAYS) or '.'}")


Masking = Annotated[str, Must(check_masking)]


def features(tokens: Tokens, unit: Unit = "word") -> list[list[int]]:
    """The positions of each feature: pieces, words, sentences, or ("bag") all occurrences of a word in one text.

    Case counts in a bag. "sentence" and "auto" are sentences or words: see `FeatureUnit`.
    """
    if unit not in get_args(Unit):
        raise BadInput(f"features '{unit}' is not one of {', '.join(get_args(Unit))}.")
    if unit == "token":
        return [[i] for i in tokens.content]
    kind = "word" if unit == "bag" else FeatureUnit.of(tokens, unit).kind
    view, groups = tokens.by(kind)
    if unit != "bag":
        return [groups[j] for j in view.content]
    whole = [(view.segments[j], view.surface(j), groups[j]) for j in view.content]
    bags: dict[tuple[int | None, str], list[int]] = {}
    for segment, surface, group in whole:
        bags.setdefault((segment, surface), []).extend(group)
    return list(bags.values())


@dataclass(frozen=True)
class FeatureUnit:
    """Whether the features of a text are words or sentences, where a setting leaves that to the text.

    "sentence" is sentences; "auto", words up to MAX_AUTO_WORDS of them, and sentences beyond. A text of one sentence
    has words in both cases. All windows of a text have the same: what counts is the text, as far as the model reads it.
    """

    asked: Unit
    kind: Literal["word", "sentence"]
    words: int
    sentences: int

    @classmethod
    def of(cls, tokens: Tokens, unit: Unit) -> FeatureUnit:
        """What a setting means for this text."""
        if unit not in ("sentence", "auto"):
            return cls(unit, "word", 0, 0)
        texts = [_text_read(tokens, segment) for segment in (0, 1)]
        words = sum(len(word_spans(text)) for text in texts)
        sentences = sum(len(sentence_spans(text)) for text in texts)
        long = unit == "sentence" or words > MAX_AUTO_WORDS
        return cls(unit, "sentence" if long and sentences > 1 else "word", words, sentences)

    def details(self, groups: Sequence[Sequence[int]]) -> dict[str, Any]:
        """For the record of an explanation: the unit, and how many features there are; nothing for other settings."""
        return {"unit": self.kind, "features": len(groups)} if self.asked in ("sentence", "auto") else {}

    @property
    def notes(self) -> tuple[str, ...]:
        """Why the features are what they are, where the setting does not say it."""
        if self.asked == "auto" and self.kind == "sentence":
            return (f"the features are sentences: the text has more than {MAX_AUTO_WORDS} words",)
        if self.asked == "auto" and self.words <= MAX_AUTO_WORDS:
            return (f"the features are words: the text has at most {MAX_AUTO_WORDS}",)
        one = self.asked in ("sentence", "auto") and self.kind == "word"
        return ("the features are words: the text is one sentence",) if one else ()


def _text_read(tokens: Tokens, segment: int) -> str:
    """The text or its pair, without what was truncated."""
    text = (tokens.text, tokens.pair or "")[segment]
    if not tokens.dropped:
        return text
    ends = [span[1] for span, s in zip(tokens.spans, tokens.segments, strict=True) if span is not None and s == segment]
    return text[: max(ends, default=0)]


def over_positions(groups: Sequence[Sequence[int]], keep: Bools, length: int) -> Bools:
    """keep[n,d] over features -> keep[n,t] over positions; positions outside all features stay."""
    table = np.ones((len(keep), length), dtype=bool)
    for j, group in enumerate(groups):
        table[:, list(group)] = keep[:, j : j + 1]
    return table


def spread_scores(groups: Sequence[Sequence[int]], scores: Floats, length: int) -> Floats:
    """A score per feature -> a score per token: each token of a feature gets an equal part of its score."""
    by_token = np.zeros(length)
    for group, score in zip(groups, scores, strict=True):
        by_token[list(group)] = score / len(group)
    return by_token


@dataclass(frozen=True)
class InputRows:
    """Inputs, aligned left: the first `lengths` cells of each row are real, and attention may use those in `seen`.

    `possible` are the labels that the whole text allows, if its words decide that (see `Classifier.possible`).
    """

    ids: Ints
    seen: Bools
    types: Ints | None
    lengths: Ints
    possible: Bools | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, index: Ints) -> InputRows:
        """Some of the rows, no wider than the longest."""
        width = int(self.lengths[index].max(initial=1))
        types = None if self.types is None else self.types[index, :width]
        possible = None if self.possible is None else self.possible[index]
        return InputRows(self.ids[index, :width], self.seen[index, :width], types, self.lengths[index], possible)

    def keys(self) -> list[bytes]:
        """A hash of each row; identical inputs have equal hashes."""
        parts = [self.ids, self.seen] if self.types is None else [self.ids, self.seen, self.types]
        cells = np.stack(parts, axis=-1).astype(np.int32)
        real = (row[:length] for row, length in zip(cells, self.lengths, strict=True))  # whatever the table's width
        labels = [b""] * len(self) if self.possible is None else [row.tobytes() for row in self.possible]
        inputs = (row.tobytes() + more for row, more in zip(real, labels, strict=True))
        return [blake2b(row, digest_size=16).digest() for row in inputs]

    def wider(self, width: int) -> InputRows:
        """The same rows in a table of this width."""
        room = ((0, 0), (0, width - self.ids.shape[1]))
        types = None if self.types is None else np.pad(self.types, room)
        return replace(self, ids=np.pad(self.ids, room), seen=np.pad(self.seen, room), types=types)


def joined(parts: Sequence[InputRows]) -> InputRows:
    """The rows of several texts in one table."""
    if len(parts) == 1:
        return parts[0]
    wide = [part.wider(max(p.ids.shape[1] for p in parts)) for part in parts]
    types = [part.types for part in wide if part.types is not None]
    possible = [part.possible for part in wide if part.possible is not None]
    return InputRows(
        np.concatenate([part.ids for part in wide]),
        np.concatenate([part.seen for part in wide]),
        np.concatenate(types) if types else None,
        np.concatenate([part.lengths for part in wide]),
        np.concatenate(possible) if possible else None,
    )


@dataclass(frozen=True)
class Variants:
    """Many variants of one text: which positions stay in each (keep[n,t]), and how the others are removed.

    The labels that can be predicted are those of the whole text, in a network where its words decide that.
    """

    tokens: Tokens
    keep: Bools
    way: str = "delete"
    rng: torch.Generator | None = None

    def __post_init__(self) -> None:
        check_masking(self.way)
        object.__setattr__(self, "keep", self.keep | np.array(self.tokens.special))

    def __len__(self) -> int:
        return len(self.keep)

    def rows(self, classifier: Classifier, at: slice) -> InputRows:
        """The inputs of some of the variants."""
        keep = self.keep[at]
        possible = classifier.possible(self.tokens)
        rows = InputRows(
            np.broadcast_to(np.array(self.tokens.ids), keep.shape),
            np.ones_like(keep),
            None if self.tokens.types is None else np.broadcast_to(np.array(self.tokens.types), keep.shape),
            np.full(len(keep), keep.shape[1]),
            None if possible is None else np.tile(possible, (len(keep), 1)),
        )
        return _without_empty(classifier, self.operator.rows(self, classifier, rows, keep))

    def texts(self, classifier: Classifier, at: slice) -> list[str | tuple[str, str]]:
        """The inputs of some of the variants for a classifier that reads plain texts."""
        if self.operator.text is None:
            raise BadInput(f"{classifier.name} reads plain text; use masking=delete or token:WORD.")
        word = self.operator.text(self.argument)
        texts = [self.tokens.text] if self.tokens.pair is None else [self.tokens.text, self.tokens.pair]
        rows = [[_splice(text, self.tokens, s, row, word) for s, text in enumerate(texts)] for row in self.keep[at]]
        return [row[0] if len(row) == 1 else (row[0], row[1]) for row in rows]

    @property
    def operator(self) -> Operator:
        """How positions are removed."""
        return MASKINGS[self.way.partition(":")[0]]

    @property
    def argument(self) -> str:
        """The word of "token:WORD", the folder of "mlm:FOLDER"."""
        return self.way.partition(":")[2]


@dataclass(frozen=True)
class Operator:
    """One masking: of token ids, and (if supported) of plain text, where None deletes a word.

    `argument` names what follows a colon, if anything does.
    """

    rows: Callable[[Variants, Classifier, InputRows, Bools], InputRows]
    text: Callable[[str], str | None] | None = None
    argument: str = ""


def _delete(variants: Variants, classifier: Classifier, rows: InputRows, keep: Bools) -> InputRows:
    order = np.argsort(~keep, axis=1, kind="stable")
    ids = np.take_along_axis(rows.ids, order, axis=1)
    types = None if rows.types is None else np.take_along_axis(rows.types, order, axis=1)
    lengths = keep.sum(1)
    return replace(rows, ids=ids, seen=np.arange(keep.shape[1]) < lengths[:, None], types=types, lengths=lengths)


def _hide(variants: Variants, classifier: Classifier, rows: InputRows, keep: Bools) -> InputRows:
    if not classifier.mask_hides_words:
        reason = "depends on words that attention may not use (it pools words of the text, has a decoder, or is int8)"
        raise BadInput(f"{classifier.name} {reason}; use masking=delete or another way.")
    return replace(rows, seen=keep)


def _replace(variants: Variants, classifier: Classifier, rows: InputRows, keep: Bools) -> InputRows:
    return replace(rows, ids=np.where(keep, rows.ids, stand_in(classifier, variants.way)))


def _fill_in(variants: Variants, classifier: Classifier, rows: InputRows, keep: Bools) -> InputRows:
    """Each removed token drawn independently from the language model's distribution, with all of them masked."""
    from heedful.model.loading import language_model

    filler = language_model(variants.argument, classifier.tokenizer)
    blank = np.where(keep, rows.ids, stand_in(classifier, "mask"))
    chosen = blank.copy()
    fit = max(1, MLM_BATCH_TOKENS // blank.shape[1])
    for part in (slice(start, start + fit) for start in range(0, len(keep), fit)):
        gaps = ~keep[part]
        if gaps.any():
            ids = torch.from_numpy(blank[part])
            types = None if rows.types is None else torch.from_numpy(classifier.token_types(rows.types[part]).copy())
            chances = filler(Batch(ids, torch.ones_like(ids), types))[torch.from_numpy(gaps)]
            chosen[part][gaps] = torch.multinomial(chances, 1, generator=variants.rng)[:, 0].numpy()
    return replace(rows, ids=chosen)


MASKINGS = {
    "delete": Operator(_delete, text=lambda _: None),
    "mask": Operator(_replace),
    "unk": Operator(_replace),
    "pad": Operator(_replace),
    "attention": Operator(_hide),
    "token": Operator(_replace, text=lambda word: word, argument="WORD"),
    "mlm": Operator(_fill_in, argument="FOLDER"),
}
WAYS = tuple(name for name, operator in MASKINGS.items() if not operator.argument)


def special_token(classifier: Classifier, name: str, instead: str) -> int:
    """The tokenizer's mask, unk or pad token; without one, the error says what to use instead."""
    token = getattr(classifier.tokenizer, TOKENS[name], None)
    if token is None:
        raise BadInput(f"the tokenizer of {classifier.name} has no {name} token; use {instead}.")
    return int(token)


def stand_in(classifier: Classifier, way: str) -> int:
    """The token that replaces a removed word."""
    if way in TOKENS:
        return special_token(classifier, way, "masking=delete or token:WORD")
    word = way.partition(":")[2]
    if word in classifier.tokenizer.get_vocab():
        return int(classifier.tokenizer.get_vocab()[word])
    cut = classifier.probe_tokens(word)
    pieces = [cut.ids[i] for i in cut.content if cut.segments[i] == 0]
    if len(pieces) != 1:
        raise BadInput(f"'{word}' is {len(pieces)} tokens for {classifier.name}; give a word that is one token.")
    if pieces[0] == getattr(classifier.tokenizer, "unk_token_id", None):
        raise BadInput(f"'{word}' is not in the vocabulary of {classifier.name}; give another word, or masking=unk.")
    return pieces[0]


def _without_empty(classifier: Classifier, rows: InputRows) -> InputRows:
    """An input without any token gets one neutral token."""
    empty = ~(rows.seen & (np.arange(rows.ids.shape[1]) < rows.lengths[:, None])).any(1)
    if not empty.any():
        return rows
    known = ("bos_token_id", "eos_token_id", "unk_token_id", "pad_token_id")
    token = next((i for name in known if (i := getattr(classifier.tokenizer, name, None)) is not None), 0)
    ids, seen = rows.ids.copy(), rows.seen.copy()
    ids[empty, 0], seen[empty, 0] = token, True
    return replace(rows, ids=ids, seen=seen, lengths=np.where(empty, 1, rows.lengths))


def _splice(text: str, tokens: Tokens, segment: int, keep: Bools, word: str | None) -> str:
    """Delete words with the white space before them (after it, if it is the first), or replace them by `word`."""
    places = zip(tokens.segments, tokens.spans, keep, strict=True)
    spans = [(span, stays) for side, span, stays in places if side == segment and span is not None]
    parts: list[str] = []
    at = 0
    for span, stays in spans:
        between = text[at : span[0]]
        if stays or word is not None:
            parts += [between, text[slice(*span)] if stays else word or ""]
        else:
            parts.append(between.rstrip())
        at = span[1]
    whole = "".join([*parts, text[at:]])
    return whole if word is not None or spans[0][1] else whole.lstrip()
