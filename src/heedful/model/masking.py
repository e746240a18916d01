"""Masking: ways of taking words away. keep[n,d] over features -> token ids for the model, never a decoded text.

delete          the pieces are left out, and what follows moves up
mask, unk, pad  that token stands in the place of each piece
token:WORD      the token WORD does
attention       they stay, and no position may attend to them
mlm:FOLDER      a masked language model with the same vocabulary fills them in, drawn at random

Special tokens are never taken away. A text of which nothing is left is its special tokens, or one stand-in token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from heedful.core.errors import BadInput, nearest
from heedful.core.settings import Must
from heedful.core.tokens import Tokens
from heedful.model.batch import Batch
from heedful.model.classifier import Classifier

Unit = Literal["token", "word", "bag"]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

TOKENS = {"mask": "mask_token_id", "unk": "unk_token_id", "pad": "pad_token_id"}
WAYS = ("delete", *TOKENS, "attention")
GIVEN = ("token:", "mlm:")
FILLED = 512  # tokens that a language model reads at a time: its answer is the whole vocabulary for each


def check_masking(way: str) -> None:
    """Refuse what names no way of taking words away."""
    if way in WAYS or any(way.startswith(given) and len(way) > len(given) for given in GIVEN):
        return
    hint = nearest(way, WAYS) or "."
    raise BadInput(f"masking '{way}' is not one of {', '.join(WAYS)}, token:WORD, mlm:FOLDER{hint}")


Masking = Annotated[str, Must(check_masking)]


def features(tokens: Tokens, unit: Unit) -> list[list[int]]:
    """The positions of each feature: pieces, words, or ("bag") all occurrences of a word in one text, case kept."""
    if unit not in ("token", "word", "bag"):
        raise BadInput(f"features '{unit}' is not one of token, word, bag.")
    if unit == "token":
        return [[i] for i in tokens.content]
    view, groups = tokens.by("word")
    whole = [(view.segments[j], view.surface(j), groups[j]) for j in view.content]
    if unit == "word":
        return [group for _, _, group in whole]
    bags: dict[tuple[int | None, str], list[int]] = {}
    for segment, surface, group in whole:
        bags.setdefault((segment, surface), []).extend(group)
    return list(bags.values())


def over_positions(groups: Sequence[Sequence[int]], keep: Bools, length: int) -> Bools:
    """keep[n,d] over features -> keep[n,t] over positions; what is in no feature stays."""
    table = np.ones((len(keep), length), dtype=bool)
    for j, group in enumerate(groups):
        table[:, list(group)] = keep[:, j : j + 1]
    return table


def spread(groups: Sequence[Sequence[int]], scores: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """A score per feature -> a score per token, in equal parts, so that a feature's tokens add up to its score."""
    found = np.zeros(length)
    for group, score in zip(groups, scores, strict=True):
        found[list(group)] = score / len(group)
    return found


@dataclass(frozen=True)
class Rows:
    """Inputs flush left: the first `lengths` cells of each row count, and attention may use those that are `seen`."""

    ids: Ints
    seen: Bools
    types: Ints | None
    lengths: Ints

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, index: Ints) -> Rows:
        """Some of the rows, no wider than they need."""
        width = int(self.lengths[index].max(initial=1))
        types = None if self.types is None else self.types[index, :width]
        return Rows(self.ids[index, :width], self.seen[index, :width], types, self.lengths[index])

    def keys(self) -> list[bytes]:
        """What makes two rows the same input."""
        parts = [self.ids, self.seen] if self.types is None else [self.ids, self.seen, self.types]
        cells = np.stack(parts, axis=-1).astype(np.int32)
        real = (row[:length] for row, length in zip(cells, self.lengths, strict=True))  # however wide the table is
        return [blake2b(row.tobytes(), digest_size=16).digest() for row in real]

    def wider(self, width: int) -> Rows:
        """The same rows in a table of this width."""
        room = ((0, 0), (0, width - self.ids.shape[1]))
        types = None if self.types is None else np.pad(self.types, room)
        return Rows(np.pad(self.ids, room), np.pad(self.seen, room), types, self.lengths)


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows of several texts under each other."""
    if len(parts) == 1:
        return parts[0]
    wide = [part.wider(max(p.ids.shape[1] for p in parts)) for part in parts]
    types = [part.types for part in wide if part.types is not None]
    return Rows(
        np.concatenate([part.ids for part in wide]),
        np.concatenate([part.seen for part in wide]),
        np.concatenate(types) if types else None,
        np.concatenate([part.lengths for part in wide]),
    )


@dataclass(frozen=True)
class Variants:
    """Many variants of one text: which of its positions stay in each (keep[n,t]), and what happens to the others."""

    tokens: Tokens
    keep: Bools
    way: str = "delete"
    rng: torch.Generator | None = None

    def __post_init__(self) -> None:
        check_masking(self.way)
        object.__setattr__(self, "keep", self.keep | np.array(self.tokens.special))

    def __len__(self) -> int:
        return len(self.keep)

    def rows(self, classifier: Classifier, at: slice) -> Rows:
        """The inputs of some of the variants."""
        keep = self.keep[at]
        rows = Rows(
            np.broadcast_to(np.array(self.tokens.ids), keep.shape),
            np.ones_like(keep),
            None if self.tokens.types is None else np.broadcast_to(np.array(self.tokens.types), keep.shape),
            np.full(len(keep), keep.shape[1]),
        )
        return _with_something(classifier, _MADE.get(self.way.partition(":")[0], _token)(self, classifier, rows, keep))


def _delete(variants: Variants, classifier: Classifier, rows: Rows, keep: Bools) -> Rows:
    order = np.argsort(~keep, axis=1, kind="stable")

    def moved(values: NDArray[Any]) -> NDArray[Any]:
        return np.take_along_axis(values, order, axis=1)

    types = None if rows.types is None else moved(rows.types)
    lengths = keep.sum(1)
    return Rows(moved(rows.ids), np.arange(keep.shape[1]) < lengths[:, None], types, lengths)


def _attention(variants: Variants, classifier: Classifier, rows: Rows, keep: Bools) -> Rows:
    if not classifier.mask_hides_words:
        raise BadInput(
            f"{classifier.name} still reads a word that attention may not use (it pools words of the text, or has a "
            "decoder); use masking=delete or another way."
        )
    return replace(rows, seen=keep)


def _token(variants: Variants, classifier: Classifier, rows: Rows, keep: Bools) -> Rows:
    return replace(rows, ids=np.where(keep, rows.ids, stand_in(classifier, variants.way)))


def _sampled(variants: Variants, classifier: Classifier, rows: Rows, keep: Bools) -> Rows:
    """Each gap drawn from what the language model gives for it, with all gaps masked; independent of each other."""
    from heedful.model.loading import language_model

    filler = language_model(variants.way.partition(":")[2], classifier.tokenizer)
    blank = np.where(keep, rows.ids, stand_in(classifier, "mask"))
    chosen = blank.copy()
    fit = max(1, FILLED // blank.shape[1])
    for some in (slice(start, start + fit) for start in range(0, len(keep), fit)):
        gaps = ~keep[some]
        if gaps.any():
            ids = torch.from_numpy(blank[some])
            types = None if rows.types is None else torch.from_numpy(rows.types[some].copy())
            chances = filler(Batch(ids, torch.ones_like(ids), types))[torch.from_numpy(gaps)]
            chosen[some] = _put(blank[some], gaps, torch.multinomial(chances, 1, generator=variants.rng)[:, 0].numpy())
    return replace(rows, ids=chosen)


def _put(ids: Ints, where: Bools, values: Ints) -> Ints:
    ids = ids.copy()
    ids[where] = values
    return ids


_MADE = {"delete": _delete, "attention": _attention, "mlm": _sampled}


def stand_in(classifier: Classifier, way: str) -> int:
    """The token that stands in for a word taken away."""
    if way in TOKENS:
        found = getattr(classifier.tokenizer, TOKENS[way], None)
        if found is None:
            raise BadInput(f"the tokenizer of {classifier.name} has no {way} token; use masking=delete or token:WORD.")
        return int(found)
    word = way.partition(":")[2]
    if word in classifier.tokenizer.get_vocab():
        return int(classifier.tokenizer.get_vocab()[word])
    cut = classifier.tokens(word)
    pieces = [cut.ids[i] for i in cut.content]
    if len(pieces) != 1:
        raise BadInput(f"'{word}' is {len(pieces)} tokens for {classifier.name}; give a word that is one token.")
    if pieces[0] == getattr(classifier.tokenizer, "unk_token_id", None):
        raise BadInput(f"{classifier.name} does not know '{word}'; give a word of its vocabulary, or masking=unk.")
    return pieces[0]


def _with_something(classifier: Classifier, rows: Rows) -> Rows:
    """A text without special tokens of which nothing is left becomes one token that says nothing."""
    empty = ~(rows.seen & (np.arange(rows.ids.shape[1]) < rows.lengths[:, None])).any(1)
    if not empty.any():
        return rows
    known = ("bos_token_id", "eos_token_id", "unk_token_id", "pad_token_id")
    token = next((i for name in known if (i := getattr(classifier.tokenizer, name, None)) is not None), 0)
    ids, seen = rows.ids.copy(), rows.seen.copy()
    ids[empty, 0], seen[empty, 0] = token, True
    return Rows(ids, seen, rows.types, np.where(empty, 1, rows.lengths))
