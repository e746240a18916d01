"""Coloured text: the texts of a run word by word, with their words coloured by scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow.compute as pc

from heedful.audits.record import Record, TextRow
from heedful.audits.summary import gold_index
from heedful.core.arrays import Floats
from heedful.core.explanation import Prediction
from heedful.core.tokens import Tokens, word_indices
from heedful.core.tokens import word_spans as cut
from heedful.report.document import ColouredWord, Shown, Tone
from heedful.report.phrases import prediction_text
from heedful.report.sections.parts import CONTROLS, LOO, VERDICT_METHOD
from heedful.report.text_runs import TextRun, text_runs

PREFERRED = (LOO, "integrated-gradients", "shapley", "lime", "gradient-x-input")
MAX_METHODS = 3
MAX_LETTERS = 40  # characters shown of a word
MAX_WORDS_SHOWN = 60  # words shown of a text
PAIR_SIGN = "‖"  # between the two texts of a pair
CUT = "…"


# reading a text


@dataclass(frozen=True, eq=False)
class Read:
    """A text of a run by words. Special tokens are units of their own, but not words."""

    row: TextRow
    view: Tokens
    groups: list[list[int]]

    @property
    def words(self) -> list[str]:
        """The words, in reading order."""
        return [self.view.surface(j) for j in self.view.content]

    def summed(self, pieces: Sequence[float] | Floats) -> Floats:
        """Scores of pieces added up within each unit."""
        unit = np.empty(len(self.row.pieces), dtype=np.int64)
        for j, group in enumerate(self.groups):
            unit[group] = j
        return np.bincount(unit, np.asarray(pieces, dtype=np.float64), len(self.groups)).astype(np.float64)

    def scores(self, method: str) -> tuple[Floats, bool] | None:
        """A method's score of each unit, and whether scores are signed; None if the method did not score the text."""
        entry = next((entry for entry in self.row.scores if entry.method == method), None)
        return None if entry is None else (self.summed(entry.scores), entry.signed)


def read_text_row(row: TextRow) -> Read:
    """A row of the run's texts, cut into words as the audit did."""
    segments = tuple(None if s < 0 else int(s) for s in row.segments)
    bounds = zip(row.starts, row.ends, strict=True)
    spans = tuple(None if start < 0 else (int(start), int(end)) for start, end in bounds)
    pair = row.pair
    indices = tuple(word_indices(spans, segments, (row.text, pair or "")))
    view, groups = Tokens(row.text, pair, (), tuple(row.pieces), spans, indices, segments).by("word")
    return Read(row, view, groups)


def preferred(present: Iterable[str], most: int = MAX_METHODS) -> list[str]:
    """The methods to show: those that query the model first, mean attention last."""
    names = [name for name in dict.fromkeys(present) if name not in CONTROLS]
    querying = [name for name in PREFERRED if name in names]
    rest = [name for name in names if name not in querying and name != VERDICT_METHOD]
    attention = [VERDICT_METHOD] if VERDICT_METHOD in names else []
    return [*(querying + rest)[: most - len(attention)], *attention]


def explaining(record: Record) -> list[str]:
    """The run's methods that explained some text, in its order."""
    methods = pc.struct_field(pc.list_flatten(record.texts.column("scores")), "method")
    names = set(methods.unique().to_pylist())
    return [name for name in record.methods if name in names] + sorted(names - set(record.methods))


def shorten(name: str) -> str:
    """At most MAX_LETTERS characters."""
    return name if len(name) <= MAX_LETTERS else name[: MAX_LETTERS - 1] + CUT


# a text in its run


def text_key(row: TextRow) -> tuple[str, str | None]:
    """Equal for two copies of a text."""
    return row.text, row.pair


def place_of(record: Record, text: int) -> int:
    """The row of a text in the run's tables, from its number; the two differ where chunks are missing."""
    return int(np.searchsorted(record.facts["number"], text))


def exclusive(chances: Sequence[float] | None) -> bool:
    """Whether one label excludes the others."""
    return bool(chances) and len(chances or ()) > 1 and abs(sum(chances or ()) - 1) < 1e-3


def explained(record: Record) -> str | None:
    """The label that is explained in every text; None where it is each text's predicted label."""
    label = (record.run.manifest.settings.get("target") or {}).get("label")
    if label is None:
        return None
    index = gold_index(str(label), record.labels)
    return shorten(record.labels[index] if index >= 0 else str(label))


def frame(record: Record, text: Read, title: str) -> Shown:
    """An example without its colourings: its title, number, prediction and gold label."""
    chances = tuple(text.row.probabilities or ())
    names = tuple(map(shorten, record.labels))
    label = prediction_text(Prediction(names, chances, chances)) if chances else shorten(str(text.row.predicted))
    gold = int(record.facts["gold"][place_of(record, text.row.number)])
    known = record.labels[gold] if gold >= 0 else text.row.label
    return Shown(title, int(text.row.number), label, None if known is None else shorten(known), ())


def noted(text: Read, note: str) -> str:
    """A note; for a pair of texts, also what the sign between them means."""
    return note + (f" {PAIR_SIGN} separates the two texts." if text.row.pair else "")


# showing a text


@dataclass(frozen=True)
class Slot:
    """A word of the original text; `unit` is its index in the scores, None for characters that no piece has."""

    text: str
    space: str
    unit: int | None = None


@dataclass(frozen=True, eq=False)
class Canvas:
    """A text and its pair, cut to the part with the largest scores; all colourings show the same words."""

    parts: tuple[tuple[Slot, ...], ...]

    def coloured(self, scores: Floats, signed: bool, largest: float) -> tuple[ColouredWord, ...]:
        """The words coloured by scores; a score of `largest` has full colour."""
        words: list[ColouredWord] = []
        for k, part in enumerate(self.parts):
            words += [ColouredWord(PAIR_SIGN)] if k else []
            words += [_word(slot, scores, signed, largest) for slot in part]
        return tuple(words)


def canvas(text: Read, scores: Sequence[Floats], special: bool = False, room: int = MAX_WORDS_SHOWN) -> Canvas:
    """The part of a text to show, given all scores that will colour it, each on the same scale.

    Each text of a pair has at least half of the room. `special` adds special tokens that have a score.
    """
    weights = np.sum([np.abs(values) for values in scores], 0) if scores else np.zeros(len(text.groups))
    weighty = {j for j in range(len(weights)) if special and weights[j] > 0}
    sources = zip(text_runs(text.view, weighty), (text.view.text, text.view.pair or ""), strict=False)
    parts = [[slot for run in runs for slot in _slots(run, source, text.view)] for runs, source in sources]
    spare = room - sum(map(len, parts))
    return Canvas(tuple(_window(part, weights, max(room // len(parts), spare + len(part))) for part in parts))


def _slots(run: TextRun, source: str, view: Tokens) -> list[Slot]:
    """A word; or the words among characters that the model did not read (dropped by its tokenizer, or truncated)."""
    if run.unit is None:
        return [Slot(run.text[a:b], _space(source, run.start + a)) for a, b in cut(run.text)]
    space = " " if view.special[run.unit] else _space(source, run.start)
    return [Slot(" ".join(run.text.split()) or view.pieces[run.unit], space, run.unit)]


def _space(source: str, start: int) -> str:
    """The space before a word, if any."""
    return " " if start == 0 or source[start - 1].isspace() or source[start : start + 1].isspace() else ""


def _window(part: Sequence[Slot], weights: Floats, most: int) -> tuple[Slot, ...]:
    """The run of `most` words with the largest sum of weights; the first of several."""
    if len(part) <= most:
        return tuple(part)
    sums = [0.0, *accumulate(0.0 if slot.unit is None else float(weights[slot.unit]) for slot in part)]
    start = max(range(len(part) - most + 1), key=lambda i: sums[i + most] - sums[i])
    end, cut = start + most, [Slot(CUT, " ")]
    return (*(cut if start else []), *part[start:end], *(cut if end < len(part) else []))


def _word(slot: Slot, scores: Floats, signed: bool, largest: float) -> ColouredWord:
    if slot.unit is None:
        return ColouredWord(shorten(slot.text), space=slot.space)
    score = float(scores[slot.unit])
    strength = min(1.0, abs(score) / largest) if largest > 0 else 0.0
    tone: Tone = "weight" if not signed else "for" if score > 0 else "against" if score < 0 else "none"
    return ColouredWord(shorten(slot.text), tone, strength, score, slot.space)
