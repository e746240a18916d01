"""Reading: a text through a Hugging Face tokenizer, with the characters of every piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from heedful.core.alignment import align
from heedful.core.tokens import Span, Tokens, trim, with_marks, word_indices


def read(tokenizer: Any, text: str, pair: str | None = None) -> Tokens:
    """The whole text as the tokenizer cuts it, nothing left out; offsets are reconstructed where it keeps none."""
    cut = _with_offsets if getattr(tokenizer, "is_fast", False) else _without_offsets
    ids, spans, segments, types = cut(tokenizer, text, pair)
    spans = with_marks(spans, segments, (text, pair or ""))
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
    with _unchanged(tokenizer):
        told = tokenizer(text, pair, return_offsets_mapping=True, truncation=False, padding=False, verbose=False)
    segments, texts = told.sequence_ids(0), (text, pair or "")
    spans = [
        None if segment is None else trim(texts[segment], (int(a), int(b)))
        for segment, (a, b) in zip(segments, told["offset_mapping"], strict=True)
    ]
    # subtle: the "▁" that SentencePiece puts before a text is said to be the text's first character
    for i, piece in enumerate(told.tokens(0)[:-1]):
        here, after = spans[i], spans[i + 1]
        if piece == "▁" and here is not None and after is not None and here[0] == after[0]:
            spans[i] = (here[0], here[0])
    return told["input_ids"], spans, segments, told.get("token_type_ids")


@contextmanager
def _unchanged(tokenizer: Any) -> Iterator[None]:
    """A call without truncation and padding turns them off for good in the tokenizer's backend; turn them on again."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    truncation, padding = getattr(backend, "truncation", None), getattr(backend, "padding", None)
    try:
        yield
    finally:
        if backend is not None and truncation is not None:
            backend.enable_truncation(**truncation)
        if backend is not None and padding is not None:
            backend.enable_padding(**padding)


def _without_offsets(tokenizer: Any, text: str, pair: str | None) -> _Cut:
    told = tokenizer(text, pair, return_special_tokens_mask=True, truncation=False, padding=False, verbose=False)
    ids, special = told["input_ids"], told["special_tokens_mask"]
    first = len(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
    content = [i for i, mark in enumerate(special) if not mark]
    marked = tokenizer.unk_token_id in ids and _marks_continuation(tokenizer)  # only beside unknown words it matters
    segments: list[int | None] = [None] * len(ids)
    spans: list[Span | None] = [None] * len(ids)
    for segment, (part, source) in enumerate(((content[:first], text), (content[first:], pair or ""))):
        pieces = tokenizer.convert_ids_to_tokens([ids[i] for i in part])
        known = [None if ids[i] == tokenizer.unk_token_id else piece for i, piece in zip(part, pieces, strict=True)]
        found = align(source, [None if piece is None else _surface(tokenizer, piece, marked) for piece in known])
        for i, span in zip(part, found, strict=True):
            segments[i], spans[i] = segment, span
    return ids, spans, segments, told.get("token_type_ids")


def _surface(tokenizer: Any, piece: str, marked: bool) -> str | None:
    """What a piece looks like in the text: "##ing" -> "ing", "low</w>" -> "low", "▁film" -> " film".

    A space in front says that a word begins there; where "##" is `marked`, so does its absence. None: part of a letter.
    """
    shown = str(tokenizer.convert_tokens_to_string([piece]))
    if not shown or "\ufffd" in shown:
        return " " if piece in ("▁", "</w>") else None
    bare = shown.removeprefix("##").removesuffix("</w>").removesuffix("@@").replace("▁", " ").strip()
    begins = piece.startswith(("▁", "Ġ")) or (marked and not piece.startswith("##"))
    return " " + bare if begins else bare


def _marks_continuation(tokenizer: Any) -> bool:
    """Whether this is a WordPiece vocabulary."""
    return any(tokenizer.convert_tokens_to_ids(f"##{c}") not in (None, tokenizer.unk_token_id) for c in "aeinrst")
