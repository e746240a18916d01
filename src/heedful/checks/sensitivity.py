"""Sensitivity: does an explanation stay when the text is changed in ways that should not matter?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
import torch

from heedful.checks.base import Case, Finding, Measure, Passes
from heedful.checks.similarity import (
    LIKENESS,
    Compared,
    averaged,
    brought,
    by_word,
    chosen,
    compared,
    distance,
    evenly,
    passes_of,
    remade,
    unrelated,
)
from heedful.core.errors import BadInput, HeedfulError
from heedful.core.explanation import Attribution
from heedful.core.finding import CORRELATION, FRACTION, Highlight, Role
from heedful.core.settings import Checked, Ge
from heedful.core.tokens import Tokens, words
from heedful.maths.distances import changes
from heedful.methods import Method
from heedful.methods.base import total
from heedful.methods.explain import try_method
from heedful.model.classifier import Classifier

Word = tuple[int, int]  # which of the two texts, and which of its words
MEANS = ("tau", "top-k overlap", "distance")
# words that can be missed; no negation, no degree, and nothing that turns a sentence (but, if, without)
FUNCTION_WORDS = frozenset((
    "a", "an", "the", "this", "that", "these", "those", "of", "to", "in", "on", "at", "by", "for", "from", "as", "and",
    "is", "are", "was", "were", "be", "been", "am", "has", "have", "had", "do", "does", "did", "will", "would", "shall",
    "it", "its", "there",
))  # fmt: skip


@dataclass(frozen=True)
class Change:
    """A changed text, and which of its words each word of the original has become."""

    kind: str
    text: str
    pair: str | None
    moved: Mapping[int, int]


@dataclass(frozen=True)
class _Edit:
    """Words exchanged ("" takes a word away), and what follows the last word of a text."""

    new: Mapping[Word, str] = field(default_factory=dict)
    tail: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Tried:
    """A change with what the model made of it."""

    change: Change
    tokens: Tokens
    unread: bool
    flips: bool = False


@dataclass(frozen=True)
class Sensitivity(Checked):
    """The text is changed a little, explained again for the same label, and compared on the words that both have.

    Up to `limit` changes of each kind, evenly spread over the text: the case of its first letter or of all; a final
    full stop added or taken away, a comma taken away; a function word dropped; a synonym put in. `synonyms` is a text
    file with a set of words on each line, commas or tabs between them, taken as they are written. A change that the
    model does not see (case, under an uncased tokenizer) proves nothing and is left out, as is one that changes the
    predicted label: an explanation should change with it. A method that draws at random draws anew for each text, so
    its own noise is in its numbers; scores that add up to one all move a little when a word goes, as the control
    `uniform` shows.
    """

    limit: Annotated[int, Ge(1)] = 3
    synonyms: str | None = None
    methods: tuple[str, ...] | None = None
    texts: int | None = None

    title: ClassVar[str] = "Sensitivity"
    question: ClassVar[str] = "Does an explanation stay the same when nothing that matters changes?"
    reading: ClassVar[str] = (
        "Changes that flip the label, or that the tokenizer hides, are left out. A steady explanation need not be "
        "faithful: the position of a word hardly changes. The probability may change though the label does not, and a "
        "faithful explanation then changes too; a method that samples adds its own noise."
    )
    summary: ClassVar[str] = "change of an explanation under changes that should not matter"
    paper: ClassVar[str] = "after Yeh et al. 2019 (max-sensitivity), with edits of the text"
    changes: ClassVar[str] = "the text: its case, its punctuation, one function word, one synonym at a time"
    measures: ClassVar[Mapping[str, Measure]] = {
        "largest change": Measure(
            "largest ‖a − b‖ / ‖a‖ over changes that keep the label", better="lower", compared=False
        ),
        "tau": Measure(LIKENESS["tau"].says, better="higher", range=CORRELATION),
        "top-k overlap": Measure(LIKENESS["top-k overlap"].says, better="higher", range=FRACTION),
        "distance": Measure(LIKENESS["distance"].says, better="lower", compared=False),
        "label changed": Measure("some change of this kind changes the predicted label", "rate", range=FRACTION),
        "unread": Measure("every change of this kind leaves the model's input as it was", "rate", range=FRACTION),
    }
    highlights: ClassVar[tuple[Highlight, ...]] = (
        Highlight("tau", "τ after changes that should not matter", head="edit", at={"change": "any"}),
    )
    roles: ClassVar[tuple[Role, ...]] = ("steady",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.synonyms is not None:
            _synonyms(self.synonyms)

    def __call__(self, case: Case) -> list[Finding]:
        """Numbers for each method and kind of change; NaN for a kind of which this text has none."""
        return self.many([case])[0]

    def many(self, cases: Sequence[Case]) -> list[list[Finding]]:
        """The same for several texts of one run."""
        tried = [self._tried(case) for case in cases]
        kept = [[one for one in some if not one.unread and not one.flips] for some in tried]
        found = [self._told(case, some) for case, some in zip(cases, tried, strict=True)]
        for name in dict.fromkeys(name for case in cases for name in remade(case, self.methods)):
            own = [i for i, case in enumerate(cases) if name in case.attributions]
            asked = [(cases[i], one) for i in own for one in kept[i]]
            tokens, targets = [one.tokens for _, one in asked], [case.target for case, _ in asked]
            anew = iter(try_method(cases[0].classifier, cases[0].methods[name], tokens, targets, cases[0].seed))
            for i in own:
                why = cases[i].attributions[name]
                each = [(one.change, compared(why, next(anew), one.change.moved)) for one in kept[i]]
                found[i] += self._findings(name, each)
        return [
            [*some, *self._control(case, k), *brought("sensitivity", case, self.methods)]
            for case, some, k in zip(cases, found, kept, strict=True)
        ]

    def _tried(self, case: Case) -> list[_Tried]:
        """Every change that can be read, and whether it changes the model's input and its label."""
        classifier, own = case.classifier, case.tokens
        read = list(self._cut(classifier, own))
        if not read:
            return []
        said = classifier.predictions([tokens for _, tokens in read])
        logits = torch.tensor([p.logits for p in said], dtype=torch.float64)
        base = torch.tensor(case.prediction.logits, dtype=torch.float64)
        flips = changes(logits, base, classifier.head).flip
        # subtle: pieces and not ids, which in a plain function are numbers of places
        return [
            _Tried(change, tokens, (tokens.pieces, tokens.types) == (own.pieces, own.types), bool(flip == 1))
            for (change, tokens), flip in zip(read, flips, strict=True)
        ]

    def _cut(self, classifier: Classifier, own: Tokens) -> Iterator[tuple[Change, Tokens]]:
        for change in self.of(own.text, own.pair):
            try:
                yield change, classifier.tokens(change.text, change.pair).cut(classifier.limit)
            except HeedfulError:  # nothing is left that this model can read
                continue

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of changes, in order."""
        return ("case", "punctuation", "stop word", *(("synonym",) if self.synonyms is not None else ()))

    def of(self, text: str, pair: str | None = None) -> list[Change]:
        """The changes of a text: Sensitivity(limit=1).of("Good") has "GOOD", "Good." and no other."""
        texts = (text,) if pair is None else (text, pair)
        cut = [[t[slice(*span)] for span in words(t)] for t in texts]
        edits = {
            "case": _cases(cut),
            "punctuation": _marks(cut),
            "stop word": _drops(cut),
            "synonym": _exchanges(cut, {} if self.synonyms is None else _synonyms(self.synonyms)),
        }
        found: list[Change] = []
        for kind in self.kinds:
            made = {(c.text, c.pair): c for edit in edits[kind] if (c := _edited(kind, texts, edit)) is not None}
            found += [list(made.values())[i] for i in evenly(len(made), self.limit)]
        return found

    def _told(self, case: Case, tried: Sequence[_Tried]) -> list[Finding]:
        """What became of the changes."""
        found = []
        for kind in (*self.kinds, "any"):
            own = [t for t in tried if kind in (t.change.kind, "any")]
            seen = [t for t in own if not t.unread]
            label = _rate([t.flips for t in seen], any) if case.classifier.head != "regression" else float("nan")
            details = {"tried": len(own), "unread": len(own) - len(seen), "flips": sum(t.flips for t in seen)}
            at = {"change": kind}
            found += [
                Finding("sensitivity", "", "label changed", label, at, details),
                Finding("sensitivity", "", "unread", _rate([t.unread for t in own], all), at, details),
            ]
        return found

    def _findings(self, method: str, each: Sequence[tuple[Change, Compared]]) -> list[Finding]:
        found: list[Finding] = []
        for kind in (*self.kinds, "any"):
            own = [(change, c) for change, c in each if kind in (change.kind, "any")]
            sizes = np.array([c.values["distance"] for _, c in own])
            at = {"change": kind}
            most, details = float("nan"), {}
            if not np.isnan(sizes).all():
                worst = int(np.nanargmax(sizes))
                most, details = float(sizes[worst]), {"text": own[worst][0].text, "pair": own[worst][0].pair}
            found.append(Finding("sensitivity", method, "largest change", most, at, details))
            found += averaged([c for _, c in own]).findings("sensitivity", method, MEANS, at)
        return found

    def _control(self, case: Case, kept: Sequence[_Tried]) -> list[Finding]:
        """Unrelated explanations, as many at a time as there were changes: the largest of many is larger."""
        usual = unrelated(case)
        if usual is None:
            return []
        found = []
        for kind in (*self.kinds, "any"):
            n = sum(kind in (t.change.kind, "any") for t in kept)
            at = {"change": kind}
            found.append(Finding("sensitivity", "random", "largest change", _largest(case.draws, n), at))
            found += (usual if n else averaged([])).findings("sensitivity", "random", MEANS, at)
        return found

    def passes(self, classifier: Classifier, tokens: Tokens, methods: Mapping[str, Method]) -> Passes:
        """At most: a prediction and an explanation by each method for each change."""
        names = chosen(list(methods), self.methods)
        each = [passes_of(classifier, cut, methods, names) for _, cut in self._cut(classifier, tokens)]
        whole = total([*each, Passes(len(each))])
        return Passes(whole.forwards, whole.backwards, exactly=False)


def _rate(each: Sequence[bool], of: Callable[[Iterable[object]], bool]) -> float:
    return float(of(each)) if each else float("nan")


def _largest(draws: Sequence[Attribution], n: int) -> float:
    """The largest of n distances from one draw to others, mean over draws."""
    scores = [np.array(list(by_word(draw).values())) for draw in draws]
    m = min(n, len(scores) - 1)
    if m < 1:
        return float("nan")
    around = [[scores[(i + j) % len(scores)] for j in range(1, m + 1)] for i in range(len(scores))]
    return float(np.mean([max(distance(a, b) for b in bs) for a, bs in zip(scores, around, strict=True)]))


# edits


def _edited(kind: str, texts: Sequence[str], edit: _Edit) -> Change | None:
    """The change that an edit makes; None where it makes none."""
    made = [_rewritten(text, s, edit) for s, text in enumerate(texts)]
    new = [text for text, _ in made]
    if new == list(texts) or not all(text.strip() for text in new):
        return None
    moved: dict[int, int] = {}
    before = after = 0
    for text, spans in made:
        number = {span: after + j for j, span in enumerate(words(text))}
        moved |= {before + i: number[span] for i, span in enumerate(spans) if span in number}
        before, after = before + len(spans), after + len(number)
    return Change(kind, new[0], new[1] if len(new) > 1 else None, moved)


def _rewritten(text: str, segment: int, edit: _Edit) -> tuple[str, list[tuple[int, int] | None]]:
    """The new text, and where each word of the old one now stands."""
    out, end = "", 0
    places: list[tuple[int, int] | None] = []
    for i, (start, stop) in enumerate(words(text)):
        word = edit.new.get((segment, i), text[start:stop])
        gap, end = text[end:start], stop
        if word:
            gap = gap if out or not places else gap.lstrip()  # words before it are gone
            places.append((len(out + gap), len(out + gap + word)))
            out += gap + word
        else:
            places.append(None)
            out += gap.rstrip()
    return out + edit.tail.get(segment, "") + text[end:], places


def _cases(cut: Sequence[Sequence[str]]) -> list[_Edit]:
    """The first letter of each text in the other case; all in small letters; all in capitals."""
    every = {(s, i): word for s, some in enumerate(cut) for i, word in enumerate(some)}
    letters = [[i for i, word in enumerate(some) if word[0].isalpha()] for some in cut]
    first = {(s, found[0]): every[s, found[0]] for s, found in enumerate(letters) if found}
    return [
        _Edit({at: word[0].swapcase() + word[1:] for at, word in first.items()}),
        _Edit({at: word.lower() for at, word in every.items()}),
        _Edit({at: word.upper() for at, word in every.items()}),
    ]


def _marks(cut: Sequence[Sequence[str]]) -> list[_Edit]:
    """A final full stop more or less, a comma less."""
    ends = [edit for s, some in enumerate(cut) if (edit := _full_stop(s, some)) is not None]
    return ends + [_Edit({(s, i): ""}) for s, some in enumerate(cut) for i, word in enumerate(some) if word == ","]


def _full_stop(segment: int, some: Sequence[str]) -> _Edit | None:
    if some[-1][-1].isalnum():
        return _Edit(tail={segment: "."})
    if len(some) > 1 and some[-1] == "." and some[-2] != ".":
        return _Edit({(segment, len(some) - 1): ""})
    return None


def _drops(cut: Sequence[Sequence[str]]) -> list[_Edit]:
    """A function word less."""
    places = [(s, i) for s, some in enumerate(cut) for i, word in enumerate(some) if word.casefold() in FUNCTION_WORDS]
    return [_Edit({at: ""}) for at in places]


def _exchanges(cut: Sequence[Sequence[str]], known: Mapping[str, Sequence[str]]) -> list[_Edit]:
    """A synonym in a word's place."""
    places = [((s, i), word) for s, some in enumerate(cut) for i, word in enumerate(some)]
    return [_Edit({at: other}) for at, word in places for other in known.get(word, ())]


@lru_cache(maxsize=4)
def _synonyms(file: str) -> dict[str, tuple[str, ...]]:
    """The synonyms of each word in a file."""
    try:
        lines = Path(file).expanduser().read_text("utf-8-sig").splitlines()
    except (OSError, ValueError) as e:
        raise BadInput(f"the synonyms '{file}' cannot be read ({type(e).__name__}); give a text file in UTF-8.") from e
    known: dict[str, tuple[str, ...]] = {}
    for n, line in enumerate(lines, 1):
        some = list(dict.fromkeys(part.strip() for part in line.replace("\t", ",").split(",") if part.strip()))
        if len(some) == 1:
            raise BadInput(f"line {n} of '{file}' has one word; give two or more with commas or tabs between them.")
        for word in some:
            others = (*known.get(word, ()), *(other for other in some if other != word))
            known[word] = tuple(dict.fromkeys(others))
    if not known:
        raise BadInput(f"'{file}' has no synonyms; give a set of words on each line, with commas between them.")
    return known
