"""Alignment: the character spans of pieces from a tokenizer that keeps no offsets."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import regex

from heedful.core.tokens import WORD, Span, trim

_PARTS = (regex.compile(r"\S+"), WORD, regex.compile(r"(?!\s)\X"), regex.compile(r"\S"))  # from coarse to fine
_JOINED = regex.compile(r"[^\s\p{P}\p{Han}$+<=>^`|~]{2}")


def fold(text: str) -> str:
    """The text without case, accents, compatibility forms and spaces, which a tokenizer's normaliser may change."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in decomposed if not _accent(c) and not c.isspace())


def _accent(c: str) -> bool:
    return bool(unicodedata.combining(c)) or unicodedata.category(c) == "Mn"


def align_pieces(text: str, surfaces: Sequence[str | None]) -> list[Span]:
    """Character spans of pieces from a tokenizer that keeps no offsets; None stands for an unknown token.

    Matches folded pieces to the folded text from left to right. A piece without a match gets the gap between its
    matched neighbours; a blank piece gets an empty span before the next one. A surface with a leading space begins a
    word: align_pieces("Ünder way", [" un", "der", " way"]) -> [(0, 2), (2, 5), (6, 9)].
    """
    solid = iter(_align(text, [s for s in surfaces if s is None or s.strip()])[::-1])
    spans: list[Span] = []
    following = len(text)
    for surface in reversed(surfaces):
        spans.append((following, following) if surface is not None and not surface.strip() else next(solid))
        following = spans[-1][0]
    return spans[::-1]


def _align(text: str, surfaces: Sequence[str | None]) -> list[Span]:
    letters = [(c, i) for i, ch in enumerate(text) for c in fold(ch)]
    flat = "".join(c for c, _ in letters)
    matches: list[Span | None] = []
    at = after = lost = unknown = 0
    for surface in surfaces:
        piece = fold(surface) if surface is not None else ""
        end = at + len(piece) + 8 + 200 * lost
        start = flat.find(piece, at, end) if piece else -1
        # subtle: letters of unknown words may spell the next piece; one that begins a word is not inside another
        begins = surface is not None and surface[0] == " "
        while begins and start >= 0 and _within(text, after, letters[start][1], unknown):
            start = flat.find(piece, start + 1, end)
        if start < 0:
            lost, unknown = lost + 1, unknown + (surface is None)
            matches.append(None)
        else:
            at, after, lost, unknown = start + len(piece), letters[start + len(piece) - 1][1] + 1, 0, 0
            matches.append((letters[start][1], after))
    return _fill(text, matches)


def _cuts(text: str, gap: Span) -> list[list[Span]]:
    """A gap cut into parts, from coarse to fine: the finest has the character of each UTF-8 byte, without spaces."""
    single = [(k, k + 1) for k in range(*gap) if not text[k].isspace() for _ in text[k].encode()]
    return [*([m.span() for m in cut.finditer(text, *gap)] for cut in _PARTS), single]


def _within(text: str, after: int, i: int, unknown: int) -> bool:
    """Whether character i belongs to the unknown pieces after `after`: too near to fit them all, or joined to one."""
    near = sum(len(c.encode()) for c in text[after:i] if not (c.isspace() or _accent(c))) < unknown  # a byte for each
    return unknown > 0 and (near or (i > 0 and _JOINED.match(text, i - 1) is not None))


def _fill(text: str, matches: list[Span | None]) -> list[Span]:
    """Each run of pieces without a match gets the parts of its gap one by one, or the gap if the counts differ."""
    spans = list(matches)
    i = 0
    while i < len(spans):
        j = i
        while j < len(spans) and matches[j] is None:
            j += 1
        if j > i:
            before = next((s[1] for s in reversed(matches[:i]) if s is not None), 0)
            after = next((s[0] for s in matches[j:] if s is not None), len(text))
            gap = trim(text, (before, max(before, after)))
            bare = next((k for k in range(*gap) if not _accent(text[k])), gap[1])  # accents belong to what is before
            cuts = _cuts(text, gap)
            if bare < gap[1]:
                cuts = [*_cuts(text, trim(text, (bare, gap[1]))), cuts[-1]]
            spans[i:j] = next((parts for parts in cuts if len(parts) == j - i), [gap] * (j - i))
        i = j + 1
    return [s if s is not None else (0, 0) for s in spans]
