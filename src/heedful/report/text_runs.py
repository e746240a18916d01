"""Text runs: a text with what stands between its units, for every medium that colours, strikes or writes it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from heedful.core.tokens import Tokens


@dataclass(frozen=True)
class TextRun:
    """Characters of a text from `start`: those of a unit, by its index, or (None) those between two units.

    Special tokens have no characters, nor has a unit whose characters another one has: of the bytes of one emoji the
    first has them all.
    """

    text: str
    start: int
    unit: int | None = None


def text_runs(tokens: Tokens, special: Collection[int] = ()) -> list[list[TextRun]]:
    """The runs of the text, and of its pair: their characters together are the text as it was written.

    The special tokens asked for stand in the text that they follow.
    """
    texts = [text for text in (tokens.text, tokens.pair) if text is not None]
    runs: list[list[TextRun]] = [[] for _ in texts]
    ends = [0] * len(texts)
    segment = 0
    for unit, (own, span) in enumerate(zip(tokens.segments, tokens.spans, strict=True)):
        segment = segment if own is None else own
        end = ends[segment]
        if own is None or span is None:
            runs[segment] += [TextRun("", end, unit)] if unit in special else []
            continue
        start = max(end, span[0])
        if end < start:
            runs[segment].append(TextRun(texts[segment][end:start], end))
        ends[segment] = max(end, span[1])
        runs[segment].append(TextRun(texts[segment][start : ends[segment]], start, unit))
    for text, own_runs, end in zip(texts, runs, ends, strict=True):
        own_runs += [TextRun(text[end:], end)] if end < len(text) else []
    return runs
