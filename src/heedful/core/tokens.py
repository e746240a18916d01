"""Tokens: one text (or pair of texts), tokenized once; every score, mask and picture refers to these tokens.

Pieces come from the model's tokenizer. Words and sentences are cut from the characters of the text by rules that do not
depend on the tokenizer, so that two models can be compared word by word.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import regex

from heedful.core.errors import BadInput
from heedful.core.sentences import Span as Span
from heedful.core.sentences import sentence_spans

Splitter = Callable[[str], Iterable[Span | str]]

_CJK = r"\p{Han}\p{Hiragana}\p{Katakana}"
WORD = regex.compile(
    rf"""\p{{N}}+(?:[.,]\p{{N}}+)*(?![\p{{L}}\p{{M}}])           # 3.5 is one word
       | \p{{Han}} | \p{{Hiragana}}+ | [\p{{Katakana}}ー]+
       | [[\p{{L}}\p{{M}}\p{{N}}_]--[{_CJK}]]+(?:['’‐-][[\p{{L}}\p{{M}}\p{{N}}_]--[{_CJK}]]+)*
       | (?!\s)\X                                                 # anything else: one grapheme, so 👩‍👧 stays whole
    """,
    regex.VERBOSE | regex.VERSION1,
)
_MARK = regex.compile(r"[\p{M}\u200d\ufe0f]")


@dataclass(frozen=True, repr=False)
class Tokens:
    """A text as a model reads it. All tuples have one entry per piece.

    `spans` are characters of the text (segment 0) or of the pair (segment 1); special tokens have segment, span and
    word None. `types` are the token type ids, if the model uses them. `dropped` counts the pieces that were truncated,
    of `total` that the text had. A view by words or sentences (`unit`) has no `ids`. `prompt` says which special tokens
    are words of a prompt around the text, which are never removed, changed or scored; it is empty without a prompt.
    """

    text: str
    pair: str | None
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    spans: tuple[Span | None, ...]
    words: tuple[int | None, ...]
    segments: tuple[int | None, ...]
    types: tuple[int, ...] | None = None
    dropped: int = 0
    total: int = 0
    unit: str = "token"
    prompt: tuple[bool, ...] = ()

    def __len__(self) -> int:
        return len(self.pieces)

    def __repr__(self) -> str:
        """The pieces on one line: Tokens(5 tokens: [CLS] a slow start [SEP])."""
        pieces = self.pieces if len(self) <= 16 else (*self.pieces[:12], "…", *self.pieces[-3:])
        return f"Tokens({len(self)} {self.unit}s: {' '.join(pieces)})"

    @property
    def special(self) -> tuple[bool, ...]:
        """Which pieces the tokenizer added ([CLS], </s>, …)."""
        return tuple(segment is None for segment in self.segments)

    @property
    def content(self) -> tuple[int, ...]:
        """The positions that hold text."""
        return tuple(i for i, segment in enumerate(self.segments) if segment is not None)

    @property
    def in_prompt(self) -> list[tuple[str, int | None]]:
        """The prompt with the texts in it, in parts: characters, and the segment of a text; empty without a prompt."""
        if not any(self.prompt):
            return []
        parts: list[tuple[str, int | None]] = []
        for segment, pieces in groupby(range(len(self)), lambda i: self.segments[i]):
            run = list(pieces)
            if segment is None:
                parts.append(("".join(self.pieces[i] for i in run), None))
                continue
            spans = [span for i in run if (span := self.spans[i]) is not None]
            source = self.text if segment == 0 else self.pair or ""
            parts.append((source[min(s[0] for s in spans) : max(s[1] for s in spans)], segment))
        return parts

    @property
    def notice(self) -> str | None:
        """One sentence about a truncated text, or None."""
        if not self.dropped:
            return None
        n = self.total - self.dropped
        return f"the model reads {n:,} of this text's {self.total:,} tokens: the other {self.dropped:,} were cut off"

    def surface(self, i: int) -> str:
        """The characters of piece i in the text; the tokenizer's piece where there are none."""
        span, segment = self.spans[i], self.segments[i]
        if span is None or segment is None:
            return self.pieces[i]
        source = self.text if segment == 0 else self.pair or ""
        repeats = i > 0 and self.spans[i - 1] == span and self.segments[i - 1] == segment
        return self.pieces[i] if repeats or span[0] == span[1] else source[slice(*span)]

    def take(self, positions: Sequence[int]) -> Tokens:
        """The same text with only these pieces."""
        return replace(
            self,
            ids=tuple(self.ids[i] for i in positions),
            pieces=tuple(self.pieces[i] for i in positions),
            spans=tuple(self.spans[i] for i in positions),
            words=tuple(self.words[i] for i in positions),
            segments=tuple(self.segments[i] for i in positions),
            types=None if self.types is None else tuple(self.types[i] for i in positions),
            prompt=tuple(self.prompt[i] for i in positions) if self.prompt else (),
        )

    def cut(self, limit: int | None) -> Tokens:
        """At most `limit` pieces: the longer text loses its last pieces first, special tokens stay."""
        if limit is None or len(self) <= limit:
            return self
        parts = [[i for i in self.content if self.segments[i] == s] for s in (0, 1)]
        excess = len(self) - limit
        if excess >= sum(map(len, parts)):
            raise BadInput(self._no_room(limit))
        first, second = map(len, parts)
        drop_first = min(first, max(0, first - second))  # what the longer text loses before both are equally long
        drop_second = min(second, max(0, second - first))
        drop_first, drop_second = min(drop_first, excess), min(drop_second, excess)
        rest = excess - drop_first - drop_second
        drop_first, drop_second = drop_first + rest - rest // 2, drop_second + rest // 2
        gone = set(parts[0][first - drop_first :]) | set(parts[1][second - drop_second :])
        shorter = self.take([i for i in range(len(self)) if i not in gone])
        return replace(shorter, dropped=self.dropped + len(gone), total=self.total or len(self.content))

    def _no_room(self, limit: int) -> str:
        beside = "the prompt; shorten it" if any(self.prompt) else "its special tokens"
        return f"the model reads {limit} tokens, which leaves no room for text beside {beside}."

    def windows(self, limit: int | None, overlap: float = 0.5) -> list[tuple[int, ...]]:
        """Positions of overlapping windows of at most `limit` pieces over the longer text; the shorter is not cut."""
        if limit is None or len(self) <= limit:
            return [tuple(range(len(self)))]
        parts = [[i for i in self.content if self.segments[i] == s] for s in (0, 1)]
        moving = max(parts, key=len)
        size = limit - (len(self) - len(moving))
        if size < 1 and not self.pair:
            raise BadInput(self._no_room(limit))
        if size < 1:
            raise BadInput(
                f"the shorter text of the pair has {len(min(parts, key=len))} tokens and the model reads {limit}: "
                "no window of the longer text fits beside it; shorten the pair."
            )
        step = max(1, round(size * (1 - overlap)))
        starts = [*range(0, len(moving) - size, step), len(moving) - size]
        fixed = set(range(len(self))) - set(moving)
        return [tuple(sorted(fixed | set(moving[s : s + size]))) for s in starts]

    def by(self, unit: str | Splitter) -> tuple[Tokens, list[list[int]]]:
        """The same text in larger units, and the pieces of each unit.

        Each special token is its own unit; a prompt has one before the text, one after it, and so on.
        """
        if unit in ("token", "piece"):
            return self, [[i] for i in range(len(self))]
        if unit == "word":
            view, groups = self._by_word
            return view, [list(group) for group in groups]
        return self._cut(unit)

    @cached_property
    def _by_word(self) -> tuple[Tokens, list[list[int]]]:
        """Computed once: an audit asks for the words of a text hundreds of times."""
        return self._cut("word")

    def _cut(self, unit: str | Splitter) -> tuple[Tokens, list[list[int]]]:
        split = splitter(unit)
        bounds = [_spans(split, self.text), _spans(split, self.pair or "")]
        groups: list[list[int]] = []
        keys: list[tuple[int, int] | None] = []
        for i, (segment, span) in enumerate(zip(self.segments, self.spans, strict=True)):
            key = None if segment is None or span is None else (segment, _unit_of(span, bounds[segment]))
            key = (-1, 0) if self.prompt and self.prompt[i] else key  # neighbouring words of the prompt are one unit
            if key is not None and keys and keys[-1] == key:
                groups[-1].append(i)
            else:
                groups.append([i])
                keys.append(key)
        name = unit if isinstance(unit, str) else getattr(unit, "__name__", "unit")
        return self._grouped(groups, name), groups

    def _grouped(self, groups: list[list[int]], unit: str) -> Tokens:
        def span(group: list[int]) -> Span | None:
            inside = [s for i in group if (s := self.spans[i]) is not None]
            return (min(s[0] for s in inside), max(s[1] for s in inside)) if inside else None

        spans = tuple(span(group) for group in groups)
        segments = tuple(self.segments[group[0]] for group in groups)
        texts = (self.text, self.pair or "")
        return replace(
            self,
            ids=(),
            types=None,
            pieces=tuple(
                "".join(self.pieces[i] for i in g)
                if s is None or seg is None
                else texts[seg][slice(*s)] or self.pieces[g[0]]
                for g, s, seg in zip(groups, spans, segments, strict=True)
            ),
            spans=spans,
            words=tuple(self.words[group[0]] for group in groups),
            segments=segments,
            unit=unit,
            prompt=tuple(self.prompt[group[0]] for group in groups) if self.prompt else (),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, for JSON."""
        known = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in known.items() if name != "prompt" or value}

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> Tokens:
        """The inverse of `to_dict`, also after JSON."""
        tuples = {k: tuple(d[k]) for k in ("ids", "pieces", "words", "segments")}
        spans = tuple(None if s is None else (int(s[0]), int(s[1])) for s in d["spans"])
        types = None if d["types"] is None else tuple(d["types"])
        return cls(**(d | tuples | {"spans": spans, "types": types, "prompt": tuple(d.get("prompt", ()))}))


def word_spans(text: str) -> list[Span]:
    """Spans of the words and punctuation marks: word_spans("I'm ok.") -> [(0, 3), (4, 6), (6, 7)]."""
    return [m.span() for m in WORD.finditer(text)]


def splitter(unit: str | Splitter) -> Splitter:
    """The function that splits a text into the named unit; a caller's own function is returned unchanged."""
    if callable(unit):
        return unit
    known: dict[str, Splitter] = {"word": word_spans, "sentence": sentence_spans}
    if unit not in known:
        raise BadInput(f"unit '{unit}' is not one of token, word, sentence, or a function from a text to spans.")
    return known[unit]


def _spans(split: Splitter, text: str) -> list[Span]:
    """Spans from a splitter that returns spans or strings (found one after the other in the text)."""
    spans: list[Span] = []
    at = 0
    for part in split(text) if text else ():
        if isinstance(part, str):
            start = text.find(part, at)
            if start < 0:
                raise BadInput(f"the splitter returned {part!r}, which is not in the rest of the text.")
            part = (start, start + len(part))
        try:
            start, end = map(operator.index, part)
        except (TypeError, ValueError):
            raise BadInput(f"the splitter returned {part!r}; it must return strings or (start, end) spans.") from None
        if not (0 <= start <= end <= len(text)) or (spans and start < spans[-1][0]):
            raise BadInput(f"the splitter returned the span {part}, which is not inside the text or not in order.")
        spans.append((start, end))
        at = end
    return spans or [(0, len(text))]


def _unit_of(span: Span, units: Sequence[Span]) -> int:
    """Index of the unit in which a piece begins; between units, of the next one; after the last, of the last."""
    i = bisect_right(units, span[0], key=lambda unit: unit[0]) - 1
    return i if i >= 0 and span[0] < units[i][1] else min(i + 1, len(units) - 1)


def word_indices(
    spans: Sequence[Span | None], segments: Sequence[int | None], texts: Sequence[str]
) -> list[int | None]:
    """The index of each piece's word; the words of the pair are numbered after those of the text."""
    units = [word_spans(text) for text in texts]
    first = [0, len(units[0])]
    return [
        None
        if span is None or segment is None or not units[segment]
        else first[segment] + _unit_of(span, units[segment])
        for span, segment in zip(spans, segments, strict=True)
    ]


def with_marks(spans: Sequence[Span | None], segments: Sequence[int | None], texts: Sequence[str]) -> list[Span | None]:
    """Spans extended by the accents after them, which a tokenizer may strip: "cafe" + U+0301 is one word."""
    starts = {(segment, span[0]) for span, segment in zip(spans, segments, strict=True) if span is not None}
    wider: list[Span | None] = []
    for span, segment in zip(spans, segments, strict=True):
        if span is not None and segment is not None and span[0] < span[1]:
            end = span[1]
            while end < len(texts[segment]) and _MARK.match(texts[segment], end) and (segment, end) not in starts:
                end += 1
            span = (span[0], end)
        wider.append(span)
    return wider


def trim(text: str, span: Span) -> Span:
    """The span without the white space at its ends (byte-level and SentencePiece pieces include it)."""
    start, end = span
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def check_text(text: str, name: str = "text") -> None:
    """Refuse what no tokenizer can read: white space only, NUL, or half of a surrogate pair."""
    if not isinstance(text, str):
        raise BadInput(f"the {name} is a {type(text).__name__}; give one string.")
    for i, ch in enumerate(text):
        if ch == "\0" or "\ud800" <= ch <= "\udfff":
            what = "a NUL character" if ch == "\0" else f"a lone surrogate (U+{ord(ch):04X})"
            raise BadInput(f"the {name} has {what} at position {i}, which is not text; remove it.")
    if not text.strip():
        raise BadInput(f"the {name} is empty; give at least one word.")
