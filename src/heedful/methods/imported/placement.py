"""Placement: scores of any tokens, spans or words of a text, mapped to a model's tokens by the characters of both.

A span's score is divided over the model's tokens in it, in proportion to their characters, so that sums are preserved.
The text and its pair are one string here, with a line end between.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from heedful.core.alignment import align_pieces, fold
from heedful.core.arrays import Bools, Floats
from heedful.core.errors import BadInput
from heedful.core.tokens import Span, Tokens, trim, word_spans

MIN_COVERAGE = 0.9  # of the characters that the model reads, the letters of given tokens, the scores' magnitude
UNKNOWN = frozenset(("[UNK]", "<unk>", "<UNK>", "[unk]"))
SPECIAL = frozenset((
    "", "[CLS]", "[SEP]", "[PAD]", "[BOS]", "[EOS]", "[cls]", "[sep]", "[pad]", "<s>", "</s>", "<pad>", "<cls>",
    "<sep>", "<bos>", "<eos>", "<|endoftext|>", "<|startoftext|>", "<|begin_of_text|>", "<|end_of_text|>",
    "<|im_start|>", "<|im_end|>",
))  # fmt: skip
_SHOWN = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255]
_HIDDEN = [b for b in range(256) if b not in _SHOWN]
_BYTES = {chr(b): b for b in _SHOWN} | {chr(256 + i): b for i, b in enumerate(_HIDDEN)}  # Radford et al. 2019

_BYTE = re.compile(r"<0x[0-9A-F]{2}>")  # SentencePiece's, where a letter is not in its vocabulary

TextSpan = tuple[int, int, int]  # start and end, in the text (0) or its pair (1)


@dataclass(frozen=True)
class GivenScores:
    """One explanation of a file: scores of tokens, of spans of characters, or, with neither, of words."""

    text: str
    method: str
    scores: tuple[float, ...]
    pair: str | None = None
    tokens: tuple[str, ...] | None = None
    spans: tuple[TextSpan | None, ...] | None = None
    label: str | int | None = None
    signed: bool | None = None
    where: str = ""

    @cached_property
    def whole(self) -> str:
        """The text and its pair as one string."""
        return self.text if self.pair is None else f"{self.text}\n{self.pair}"

    def at(self, span: Span, segment: int) -> Span:
        """Where a span of the text or of the pair is in `whole`."""
        first = (len(self.text) + 1) * segment
        return span[0] + first, span[1] + first


@dataclass(frozen=True)
class MappedScores:
    """A score for each token of the model; `details` has the sum of the scores that belong to no token, if any."""

    scores: Floats
    details: Mapping[str, float] = field(default_factory=dict)


def map_scores(line: GivenScores, tokens: Tokens) -> MappedScores:
    """The scores on the model's tokens; unchanged where the file has the model's own tokens or spans."""
    file_scores = np.array(line.scores)
    if line.tokens is not None:
        for positions in (range(len(tokens)), tokens.content):
            if line.tokens == tuple(tokens.pieces[i] for i in positions):
                scores = np.zeros(len(tokens))
                scores[list(positions)] = file_scores
                return MappedScores(scores)
    places = _places(line)
    model_spans = [
        None if span is None or segment is None else line.at(span, segment)
        for span, segment in zip(tokens.spans, tokens.segments, strict=True)
    ]
    if places == model_spans:
        return MappedScores(file_scores)
    return _map_spans(line.whole, places, file_scores, model_spans)


def _map_spans(
    whole: str, places: Sequence[Span | None], file_scores: Floats, model_spans: Sequence[Span | None]
) -> MappedScores:
    overlap = _overlaps(whole, _without_blanks(places), model_spans)
    total = overlap.sum(1)
    placed = np.array([place is not None for place in places])
    _check_covered(whole, places, model_spans)
    unread = placed & (total == 0)
    if np.abs(file_scores[unread]).sum() > (1 - MIN_COVERAGE) * np.abs(file_scores[placed]).sum():
        raise BadInput("more than 10 % of the scores of this text are of characters that the model does not read.")
    shares = np.divide(overlap, total[:, None], out=np.zeros_like(overlap), where=total[:, None] > 0)
    scores = (shares * file_scores[:, None]).sum(0)
    special = _paired([place is None for place in places], [span is None for span in model_spans])
    for i, j in special.items():
        scores[j] = file_scores[i]
    dropped = unread | np.array([place is None and i not in special for i, place in enumerate(places)])
    return MappedScores(scores, {"dropped": float(file_scores[dropped].sum())} if file_scores[dropped].any() else {})


def _overlaps(whole: str, places: Sequence[Span | None], model_spans: Sequence[Span | None]) -> Floats:
    """[file, model]: characters in common, without white space."""
    solid = np.concatenate([[0], np.cumsum([not c.isspace() for c in whole])])
    a, b = (np.array([span or (0, 0) for span in spans]).reshape(-1, 2) for spans in (places, model_spans))
    start, end = np.maximum(a[:, None, 0], b[None, :, 0]), np.minimum(a[:, None, 1], b[None, :, 1])
    return np.where(end > start, solid[end] - solid[np.minimum(start, end)], 0).astype(np.float64)


def _without_blanks(places: Sequence[Span | None]) -> list[Span | None]:
    """A blank piece goes with the piece after it, or, at the end, before it."""
    spans = list(places)
    for order in (range(len(spans) - 2, -1, -1), range(1, len(spans))):
        step = -1 if order.step > 0 else 1
        for i in order:
            here, neighbour = spans[i], spans[i + step]
            if here is not None and here[0] == here[1] and neighbour is not None:
                spans[i] = neighbour
    return spans


def _check_covered(whole: str, places: Sequence[Span | None], model_spans: Sequence[Span | None]) -> None:
    solid = np.array([not c.isspace() for c in whole])
    read, covered = (_union(spans, len(whole)) & solid for spans in (model_spans, places))
    if (read & covered).sum() < MIN_COVERAGE * read.sum() or not read.any():
        raise BadInput("less than 90 % of the characters that the model reads of this text have a score.")


def _union(spans: Sequence[Span | None], n: int) -> Bools:
    covered = np.zeros(n, dtype=bool)
    for span in spans:
        if span is not None:
            covered[slice(*span)] = True
    return covered


def _paired(in_file: Sequence[bool], in_model: Sequence[bool]) -> dict[int, int]:
    """Special tokens of the file -> the model's, where both have as many before, between and after the texts."""
    sides = [_sides(marks) for marks in (in_file, in_model)]
    if [len(side) for side in sides[0]] != [len(side) for side in sides[1]]:
        return {}
    return {i: j for a, b in zip(*sides, strict=True) for i, j in zip(a, b, strict=True)}


def _sides(marks: Sequence[bool]) -> tuple[list[int], list[int], list[int]]:
    inside = [i for i, mark in enumerate(marks) if not mark] or [len(marks)]
    at = [i for i, mark in enumerate(marks) if mark]
    first, last = inside[0], inside[-1]
    return [i for i in at if i < first], [i for i in at if first < i < last], [i for i in at if i > last]


# where the scores of a file are


def _places(line: GivenScores) -> list[Span | None]:
    if line.spans is not None:
        return [None if p is None else trim(line.whole, line.at((p[0], p[1]), p[2])) for p in line.spans]
    if line.tokens is not None:
        return _located(line, line.tokens)
    return [*_words(line)]


def _words(line: GivenScores) -> list[Span]:
    """The spans of heedful's words, or of words between white space: whichever are as many as the scores."""
    texts = [line.text] if line.pair is None else [line.text, line.pair]
    words = [line.at(span, segment) for segment, text in enumerate(texts) for span in word_spans(text)]
    spaced = [m.span() for m in re.finditer(r"\S+", line.whole)]
    for spans in (words, spaced):
        if len(spans) == len(line.scores):
            return spans
    raise BadInput("the number of scores is not the number of words of this text; give tokens or spans with them.")


def _located(line: GivenScores, tokens: Sequence[str]) -> list[Span | None]:
    """The spans of consecutive tokens. Special tokens between the texts of a pair mark where the second begins."""
    marks = [token in SPECIAL for token in tokens]
    if any(token and token in line.whole for token in {t for t, mark in zip(tokens, marks, strict=True) if mark}):
        raise BadInput("this text contains the name of a special token; give spans instead of tokens.")
    places: list[Span | None] = [None] * len(tokens)
    for positions, first, text in _parts(line, marks):
        surfaces = _surfaces([tokens[i] for i in positions], text)
        spans = align_pieces(text, surfaces)
        _check_found(text, surfaces, spans)
        for i, (start, end) in zip(positions, spans, strict=True):
            places[i] = (start + first, end + first)
    return places


def _parts(line: GivenScores, marks: Sequence[bool]) -> list[tuple[list[int], int, str]]:
    """Which tokens belong to which text, if known, and where that text begins in the whole."""
    content = [i for i, mark in enumerate(marks) if not mark]
    between = _sides(marks)[1]
    if line.pair is None or not between:
        return [(content, 0, line.whole)]
    cut = between[0]
    return [
        ([i for i in content if i < cut], 0, line.text),
        ([i for i in content if i > cut], len(line.text) + 1, line.pair),
    ]


def _check_found(text: str, surfaces: Sequence[str | None], spans: Sequence[Span]) -> None:
    """Raise BadInput for tokens of another text: `align_pieces` puts those that it cannot find into gaps."""
    letters = [(fold(s), fold(text[slice(*span)])) for s, span in zip(surfaces, spans, strict=True) if s is not None]
    right = sum(len(token) for token, there in letters if token == there)
    if right < MIN_COVERAGE * sum(len(token) for token, _ in letters):
        raise BadInput("the tokens of this text do not occur in it in this order; give spans.")


def _surfaces(tokens: Sequence[str], text: str) -> list[str | None]:
    """What tokens look like in the text: "##ing" -> "ing", "Ġgood" and "▁good" -> " good"; None for an unknown one.

    A leading space marks the start of a word. A mark does not count where the text itself contains it.
    """
    marked = "##" not in text and any(token.startswith("##") for token in tokens)
    return [
        None if token is None or token in UNKNOWN or _BYTE.fullmatch(token) else _surface(token, text, marked)
        for token in _decoded(tokens, text)
    ]


def _surface(token: str, text: str, marked: bool) -> str:
    if marked:
        return token[2:] if token.startswith("##") and len(token) > 2 else f" {token}"
    if "▁" not in text:
        token = token.replace("▁", " ")
    for mark in ("</w>", "@@"):
        token = token if mark in text else token.removesuffix(mark)
    return token


def _decoded(tokens: Sequence[str], text: str) -> list[str | None]:
    """Byte-level tokens as text, None for part of a letter; others unchanged. Byte-level tokens are valid UTF-8."""
    known = [token for token in tokens if token not in UNKNOWN]
    letters = {c for token in known for c in token}
    if letters <= set(text) or not letters <= set(_BYTES):
        return list(tokens)
    try:
        b"".join(map(_bytes, known)).decode("utf-8")
    except UnicodeDecodeError:
        return list(tokens)
    return [token if token in UNKNOWN else _text(_bytes(token)) for token in tokens]


def _bytes(token: str) -> bytes:
    return bytes(_BYTES[c] for c in token)


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
