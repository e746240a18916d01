"""Reading: a text through a Hugging Face tokenizer, with the characters of every piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heedful.tokens import Span, Tokens, align, trim, word_indices


def read(tokenizer: Any, text: str, pair: str | None = None) -> Tokens:
    """The whole text as the tokenizer cuts it, nothing left out; offsets are reconstructed where it keeps none."""
    cut = _with_offsets if getattr(tokenizer, "is_fast", False) else _without_offsets
    ids, spans, segments, types = cut(tokenizer, text, pair)
    return Tokens(
        text=text,
        pair=pair,
        ids=tuple(ids),
        pieces=tuple(tokenizer.convert_ids_to_tokens(list(ids))),
        spans=tuple(spans),
        words=tuple(word_indices(spans, segments, (text, pair or ""))),
        segments=tuple(segments),
        types=None if types is None else tuple(types),
    )


_Cut = tuple[Sequence[int], list[Span | None], list[int | None], Sequence[int] | None]


def _with_offsets(tokenizer: Any, text: str, pair: str | None) -> _Cut:
    told = tokenizer(text, pair, return_offsets_mapping=True, truncation=False, padding=False, verbose=False)
    segments, texts = told.sequence_ids(0), (text, pair or "")
    spans = [
        None if segment is None else trim(texts[segment], (int(a), int(b)))
        for segment, (a, b) in zip(segments, told["offset_mapping"], strict=True)
    ]
    return told["input_ids"], spans, segments, told.get("token_type_ids")


def _without_offsets(tokenizer: Any, text: str, pair: str | None) -> _Cut:
    told = tokenizer(text, pair, return_special_tokens_mask=True, truncation=False, padding=False, verbose=False)
    ids, special = told["input_ids"], told["special_tokens_mask"]
    first = len(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
    content = [i for i, mark in enumerate(special) if not mark]
    segments: list[int | None] = [None] * len(ids)
    spans: list[Span | None] = [None] * len(ids)
    for segment, (part, source) in enumerate(((content[:first], text), (content[first:], pair or ""))):
        pieces = tokenizer.convert_ids_to_tokens([ids[i] for i in part])
        known = [None if ids[i] == tokenizer.unk_token_id else piece for i, piece in zip(part, pieces, strict=True)]
        found = align(source, [None if piece is None else _surface(tokenizer, piece) for piece in known])
        for i, span in zip(part, found, strict=True):
            segments[i], spans[i] = segment, span
    return ids, spans, segments, told.get("token_type_ids")


def _surface(tokenizer: Any, piece: str) -> str:
    """What a piece looks like in the text: "##ing" -> "ing", "low</w>" -> "low", "▁film" -> "film"."""
    shown = str(tokenizer.convert_tokens_to_string([piece]))
    return shown.removeprefix("##").removesuffix("</w>").removesuffix("@@").replace("▁", " ").strip()
