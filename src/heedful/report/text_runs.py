"""Text runs: a text as its units and the characters between them, for every format that colours or strikes them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from heedful.core.tokens import Tokens


@dataclass(frozen=True)
class TextRun:
    """Characters of a text from `start`: those of the unit with this index, or (None) those between two units.

    Special tokens have no characters. Of units with the same characters, such as the bytes of one emoji, the first has
    them.
    """

    text: str
    start: int
    unit: int | None = None


def text_runs(tokens: Tokens, special: Collection[int] = ()) -> list[list[TextRun]]:
    """The runs of the text, and of its pair; joined, their characters are the original text.

    The special tokens in `special` belong to the text that they follow.
    """
    texts = [text for text in (tokens.text, tokens.pair) if text is not None]
    runs: list[list[TextRun]] = [[] for _ in texts]
    ends = [0] * len(texts)
    segment = 0
    for unit, (unit_segment, span) in enumerate(zip(tokens.segments, tokens.spans, strict=True)):
        segment = segment if unit_segment is None else unit_segment
        end = ends[segment]
        if unit_segment is None or span is None:
            runs[segment] += [TextRun("", end, unit)] if unit in special else []
            continue
        start = max(end, span[0])
        if end < start:
            runs[segment].append(TextRun(texts[segment][end:start], end))
        ends[segment] = max(end, span[1])
        runs[segment].append(TextRun(texts[segment][start : ends[segment]], start, unit))
    for text, its_runs, end in zip(texts, runs, ends, strict=True):
        its_runs += [TextRun(text[end:], end)] if end < len(text) else []
    return runs
