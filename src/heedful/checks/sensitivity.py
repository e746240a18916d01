"""Sensitivity: does an explanation stay the same under edits of the text that should not matter?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from heedful.checks import similarity
from heedful.checks.base import STANDARD_REEXPLAINING, Case, Finding, Measure, Passes, Share, Together
from heedful.checks.similarity import SIMILARITY_MEASURES, Similarity
from heedful.core.errors import BadInput, HeedfulError
from heedful.core.finding import Highlight, Role
from heedful.core.settings import Ge
from heedful.core.tokens import Tokens, word_spans
from heedful.maths.distances import changes
from heedful.methods import Method
from heedful.methods.base import total
from heedful.methods.explain import try_method
from heedful.model.classifier import Classifier

WordPlace = tuple[int, int]  # which of the two texts, and which of its words
MEANS = ("tau", "top-k overlap", "distance")
# words that can be dropped: no negation, no degree, and no word that reverses a sentence (but, if, without)
FUNCTION_WORDS = frozenset((
    "a", "an", "the", "this", "that", "these", "those", "of", "to", "in", "on", "at", "by", "for", "from", "as", "and",
    "is", "are", "was", "were", "be", "been", "am", "has", "have", "had", "do", "does", "did", "will", "would", "shall",
    "it", "its", "there",
))  # fmt: skip


@dataclass(frozen=True)
class ChangedText:
    """A changed text, and which of its words each word of the original has become."""

    kind: str
    text: str
    pair: str | None
    moved: Mapping[int, int]


@dataclass(frozen=True)
class _Edit:
    """Replaced words ("" removes a word), and what is added after the last word of a text."""

    new: Mapping[WordPlace, str] = field(default_factory=dict)
    tail: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Effect:
    """A change, whether the model's input is the same, and whether the label flips."""

    change: ChangedText
    tokens: Tokens
    unread: bool
    flips: bool = False


@dataclass(frozen=True)
class Sensitivity(Together):
    """The text is edited slightly, explained again for the same label, and compared on the words that both have.

    Up to `limit` changes of each kind, evenly spread over the text: the case of its first letter or of all; a final
    full stop added or removed, a comma removed; a function word dropped; a word replaced by a synonym. `synonyms` is a
    text file with a set of words on each line, separated by commas or tabs, case-sensitive. A change that does not
    reach the model's input (case, under an uncased tokenizer) is ignored, as is one that changes the label: an
    explanation should change with it. A method with random samples draws new ones for each text, so its numbers include
    its own noise; scores that sum to one all change a little when a word is removed, as the control `uniform` shows.
    """

    limit: Annotated[int, Ge(1)] = 3
    synonyms: str | None = None
    methods: tuple[str, ...] | None = None
    texts: int | None = None

    name: ClassVar[str] = "sensitivity"
    title: ClassVar[str] = "Sensitivity"
    question: ClassVar[str] = "Does an explanation stay the same under edits that should not matter?"
    reading: ClassVar[str] = (
        "Edits that flip the label, or that the tokenizer hides, are left out. A stable explanation need not be "
        "faithful: the control position hardly changes. The probability may change although the label does not, and a "
        "faithful explanation then changes too; a method with random samples adds its own noise. "
        f"{similarity.COMPARED_WORDS}"
    )
    standard: ClassVar[Mapping[str, Any]] = STANDARD_REEXPLAINING
    probe: ClassVar[Mapping[str, Any]] = {"limit": 1, "methods": ("gradient-x-input", "leave-one-out")}
    summary: ClassVar[str] = "change of an explanation under edits of the text that should not matter"
    paper: ClassVar[str] = "after Yeh et al. 2019 (max-sensitivity), with edits of the text"
    changes: ClassVar[str] = "the text: its case, its punctuation, one function word, one synonym at a time"
    measures: ClassVar[Mapping[str, Measure]] = {
        "largest change": Measure(
            "largest ‖a − b‖ / ‖a‖ over edits that preserve the label", better="lower", compared=False
        ),
        "tau": replace(SIMILARITY_MEASURES["tau"], better="higher"),
        "top-k overlap": replace(SIMILARITY_MEASURES["top-k overlap"], better="higher"),
        "distance": replace(SIMILARITY_MEASURES["distance"], better="lower"),
        "label changed": Share("an edit of this kind changes the predicted label", "rate"),
        "unread": Share("no edit of this kind changes the model's input", "rate"),
    }
    highlights: ClassVar[tuple[Highlight, ...]] = (
        Highlight("tau", "τ after edits that should not matter", head="edit", at={"change": "any"}),
    )
    roles: ClassVar[tuple[Role, ...]] = ("steady",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.synonyms is not None:
            _synonyms(self.synonyms)

    def many(self, cases: Sequence[Case]) -> list[list[Finding]]:
        """Numbers for each method and kind of change; NaN for a kind of which a text has none."""
        effects = [self._effects(case) for case in cases]
        usable = [[e for e in each if not e.unread and not e.flips] for each in effects]
        findings = [self._counts(case, each) for case, each in zip(cases, effects, strict=True)]
        for name, explained in similarity.explained_cases(cases, self.methods):
            changed = [(cases[i], e) for i in explained for e in usable[i]]
            tokens, targets = [e.tokens for _, e in changed], [case.target for case, _ in changed]
            again = iter(try_method(cases[0].classifier, cases[0].methods[name], tokens, targets, cases[0].seed))
            for i in explained:
                why = cases[i].attributions[name]
                comparisons = [
                    (e.change, similarity.compare_explanations(cases[i], why, next(again), e.change.moved))
                    for e in usable[i]
                ]
                findings[i] += self._findings(name, comparisons)
        return [
            [*before, *self._control(case, each), *similarity.left_out_findings(self.name, case, self.methods)]
            for case, before, each in zip(cases, findings, usable, strict=True)
        ]

    def _effects(self, case: Case) -> list[_Effect]:
        """Every change that the model can read, and whether it changes the model's input and its label."""
        classifier, original = case.classifier, case.tokens
        read = list(self._tokenised(classifier, original))
        if not read:
            return []
        predictions = classifier.predictions([tokens for _, tokens in read])
        logits = torch.tensor([p.logits for p in predictions], dtype=torch.float64)
        base = torch.tensor(case.prediction.logits, dtype=torch.float64)
        flips = changes(logits, base, classifier.head).flip
        # subtle: pieces and not ids, which in a plain function are positions
        return [
            _Effect(change, tokens, (tokens.pieces, tokens.types) == (original.pieces, original.types), bool(flip == 1))
            for (change, tokens), flip in zip(read, flips, strict=True)
        ]

    def _tokenised(self, classifier: Classifier, tokens: Tokens) -> Iterator[tuple[ChangedText, Tokens]]:
        for change in self.of(tokens.text, tokens.pair):
            try:
                yield change, classifier.tokens(change.text, change.pair).cut(classifier.limit)
            except HeedfulError:  # no token is left that this model can read
                continue

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of changes, in order."""
        return ("case", "punctuation", "stop word", *(("synonym",) if self.synonyms is not None else ()))

    def of(self, text: str, pair: str | None = None) -> list[ChangedText]:
        """The changes of a text: Sensitivity(limit=1).of("Good") has "GOOD", "Good." and no other."""
        texts = (text,) if pair is None else (text, pair)
        each = {(s, i): t[slice(*span)] for s, t in enumerate(texts) for i, span in enumerate(word_spans(t))}
        known = {} if self.synonyms is None else _synonyms(self.synonyms)
        edits = {
            "case": _cases(each),
            "punctuation": _marks(each),
            "stop word": [_Edit({at: ""}) for at, word in each.items() if word.casefold() in FUNCTION_WORDS],
            "synonym": [_Edit({at: other}) for at, word in each.items() for other in known.get(word, ())],
        }
        changes: list[ChangedText] = []
        for kind in self.kinds:
            distinct = {(c.text, c.pair): c for edit in edits[kind] if (c := _change(kind, texts, edit)) is not None}
            changes += [list(distinct.values())[i] for i in similarity.evenly(len(distinct), self.limit)]
        return changes

    def _counts(self, case: Case, effects: Sequence[_Effect]) -> list[Finding]:
        """How many changes reach the model's input, and whether they change the label."""
        findings = []
        for kind in (*self.kinds, "any"):
            of_kind = [e for e in effects if kind in (e.change.kind, "any")]
            read = [e for e in of_kind if not e.unread]
            labelled = read and case.classifier.head != "regression"
            label = float(any(e.flips for e in read)) if labelled else float("nan")
            unread = float(not read) if of_kind else float("nan")
            details = {"tried": len(of_kind), "unread": len(of_kind) - len(read), "flips": sum(e.flips for e in read)}
            at = {"change": kind}
            findings += [
                Finding(self.name, "", "label changed", label, at, details),
                Finding(self.name, "", "unread", unread, at, details),
            ]
        return findings

    def _findings(self, method: str, comparisons: Sequence[tuple[ChangedText, Similarity]]) -> list[Finding]:
        findings: list[Finding] = []
        for kind in (*self.kinds, "any"):
            of_kind = [(change, c) for change, c in comparisons if kind in (change.kind, "any")]
            distances = np.array([c.values["distance"] for _, c in of_kind])
            at = {"change": kind}
            largest, details = float("nan"), {}
            if not np.isnan(distances).all():
                worst = int(np.nanargmax(distances))
                change = of_kind[worst][0]
                largest, details = float(distances[worst]), {"text": change.text, "pair": change.pair}
            findings.append(Finding(self.name, method, "largest change", largest, at, details))
            findings += similarity.averaged([c for _, c in of_kind]).findings(self.name, method, MEANS, at)
        return findings

    def _control(self, case: Case, usable: Sequence[_Effect]) -> list[Finding]:
        """Unrelated explanations, as many at a time as there are changes: the largest of many is larger."""
        control = similarity.unrelated(case)
        if control is None:
            return []
        findings = []
        for kind in (*self.kinds, "any"):
            n = sum(kind in (e.change.kind, "any") for e in usable)
            at = {"change": kind}
            findings.append(Finding(self.name, "random", "largest change", _largest(case, n), at))
            findings += (control if n else similarity.averaged([])).findings(self.name, "random", MEANS, at)
        return findings

    def passes(self, classifier: Classifier, tokens: Tokens, methods: Mapping[str, Method]) -> Passes:
        """At most: a prediction and an explanation by each method for each change."""
        names = similarity.methods_used(list(methods), self.methods)
        each = [similarity.passes_of(classifier, cut, methods, names) for _, cut in self._tokenised(classifier, tokens)]
        whole = total([*each, Passes(len(each))])
        return Passes(whole.forwards, whole.backwards, exactly=False)


def _largest(case: Case, n: int) -> float:
    """The largest of n distances from one draw of `random` to others, mean over draws."""
    words = similarity.compared_words(case)
    by_word = [similarity.word_scores(draw) for draw in case.draws]
    scores = [np.array([score for i, score in each.items() if i in words]) for each in by_word]
    m = min(n, len(scores) - 1)
    if m < 1:
        return float("nan")
    others = [[scores[(i + j) % len(scores)] for j in range(1, m + 1)] for i in range(len(scores))]
    return float(np.mean([max(similarity.distance(a, b) for b in bs) for a, bs in zip(scores, others, strict=True)]))


# edits


def _change(kind: str, texts: Sequence[str], edit: _Edit) -> ChangedText | None:
    """The edited texts; None where nothing changes."""
    rewritten = [_rewrite(text, s, edit) for s, text in enumerate(texts)]
    new = [text for text, _ in rewritten]
    if new == list(texts) or not all(text.strip() for text in new):
        return None
    moved: dict[int, int] = {}
    before = after = 0
    for text, spans in rewritten:
        number = {span: after + j for j, span in enumerate(word_spans(text))}
        moved |= {before + i: number[span] for i, span in enumerate(spans) if span in number}
        before, after = before + len(spans), after + len(number)
    return ChangedText(kind, new[0], new[1] if len(new) > 1 else None, moved)


def _rewrite(text: str, segment: int, edit: _Edit) -> tuple[str, list[tuple[int, int] | None]]:
    """The new text, and the span of each old word in it."""
    out, end = "", 0
    places: list[tuple[int, int] | None] = []
    for i, (start, stop) in enumerate(word_spans(text)):
        word = edit.new.get((segment, i), text[start:stop])
        gap, end = text[end:start], stop
        if word:
            gap = gap if out or not places else gap.lstrip()  # all words before it are removed
            places.append((len(out + gap), len(out + gap + word)))
            out += gap + word
        else:
            places.append(None)
            out += gap.rstrip()
    return out + edit.tail.get(segment, "") + text[end:], places


def _cases(each: Mapping[WordPlace, str]) -> list[_Edit]:
    """The first letter of each text in the other case; all in lower case; all in upper case."""
    first: dict[int, WordPlace] = {}
    for at, word in each.items():
        if word[0].isalpha():
            first.setdefault(at[0], at)
    return [
        _Edit({at: each[at][0].swapcase() + each[at][1:] for at in first.values()}),
        _Edit({at: word.lower() for at, word in each.items()}),
        _Edit({at: word.upper() for at, word in each.items()}),
    ]


def _marks(each: Mapping[WordPlace, str]) -> list[_Edit]:
    """A final full stop added or removed, a comma removed."""
    edits = []
    for segment, last in dict(each.keys()).items():
        before, word = each.get((segment, last - 1), "."), each[segment, last]
        if word[-1].isalnum():
            edits.append(_Edit(tail={segment: "."}))
        elif word == "." and before != ".":
            edits.append(_Edit({(segment, last): ""}))
    return edits + [_Edit({at: ""}) for at, word in each.items() if word == ","]


@lru_cache(maxsize=4)
def _synonyms(file: str) -> dict[str, tuple[str, ...]]:
    """The synonyms of each word in a file."""
    try:
        lines = Path(file).expanduser().read_text("utf-8-sig").splitlines()
    except (OSError, ValueError) as e:
        raise BadInput(f"the synonyms in '{file}' cannot be read ({type(e).__name__}); give a UTF-8 text file.") from e
    known: dict[str, tuple[str, ...]] = {}
    for n, line in enumerate(lines, 1):
        group = list(dict.fromkeys(part.strip() for part in line.replace("\t", ",").split(",") if part.strip()))
        if len(group) == 1:
            raise BadInput(f"line {n} of '{file}' has one word; give at least two, separated by commas or tabs.")
        for word in group:
            others = (other for other in group if other != word)
            known[word] = tuple(dict.fromkeys((*known.get(word, ()), *others)))
    if not known:
        raise BadInput(f"'{file}' has no synonyms; give a set of words on each line, separated by commas or tabs.")
    return known
