"""Words: texts in which words are inserted or replaced, and the words of each label in training texts.

Words are those of `Tokens`: cut from the characters by one rule, whatever the tokenizer. A changed text is a string,
which the model's tokenizer cuts again: no piece stands where the tokenizer would not put one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from heedful import data as datasets
from heedful.audits.run import order
from heedful.core.arrays import Floats, Ints
from heedful.core.errors import BadInput
from heedful.core.tokens import Tokens, word_spans
from heedful.data import Example
from heedful.nets.vocabulary import STOPWORDS, log_odds_of_labels
from heedful.studies.base import Trial
from heedful.studies.outcome import TextsUsed

MAX_COUNTED = 10_000  # training texts whose words are counted
MIN_KEPT = 10  # words with a log-odds weight, below which a study says how few they are


def words_of(text: str) -> list[str]:
    """The words and punctuation marks of a text."""
    return [text[start:end] for start, end in word_spans(text)]


def insert_words(text: str, places: Sequence[int], words: Sequence[str]) -> tuple[str, list[bool]]:
    """The text with words inserted one after the other, each at its index among all words by then, rising.

    Also which of the new text's words are inserted: insert_words("a b", [1], ["x"]) -> ("a x b", [0, 1, 0]).
    """
    spans = word_spans(text)
    items: list[int | str] = list(range(len(spans)))
    for place, word in zip(places, words, strict=True):
        items.insert(place, word)
    parts: list[str] = []
    at, after = 0, False
    for item in items:
        if isinstance(item, str):
            parts.append(f" {item}" if parts else item)
            after = True
            continue
        end = spans[item][1]
        part = text[at:end]
        parts.append(f" {part}" if after and not part[0].isspace() else part)
        at, after = end, False
    return "".join([*parts, text[at:]]), [isinstance(item, str) for item in items]


def replace_words(text: str, new: Mapping[int, str]) -> str:
    """The text with the words at these indices replaced; all others keep their place, their number and their spaces.

    A space is added where a new word and its neighbour would be read as one: "good,bad" -> "good dull bad".
    """
    spans = word_spans(text)
    wanted = [new.get(i, text[slice(*span)]) for i, span in enumerate(spans)]
    changed = _replaced(text, spans, new, "")
    return changed if words_of(changed) == wanted else _replaced(text, spans, new, " ")


def _replaced(text: str, spans: Sequence[tuple[int, int]], new: Mapping[int, str], space: str) -> str:
    """`space` surrounds a new word where none does."""
    parts: list[str] = []
    at = 0
    for i, (start, end) in enumerate(spans):
        between = text[at:start]
        touches = i > 0 and not between and (i in new or i - 1 in new)
        parts += [space if touches else between, new.get(i, text[start:end])]
        at = end
    return "".join([*parts, text[at:]])


@dataclass(frozen=True)
class WordIndex:
    """The words of a text as a model reads it: the pieces of each, by its index among the text's and the pair's words.

    Words that were truncated, or that the tokenizer drops, have no pieces.
    """

    tokens: Tokens

    @cached_property
    def first_of_pair(self) -> int:
        """The index of the pair's first word."""
        return len(word_spans(self.tokens.text))

    @cached_property
    def pieces(self) -> dict[int, list[int]]:
        """The positions of each word's pieces."""
        found: dict[int, list[int]] = {}
        for i, word in enumerate(self.tokens.words):
            if word is not None:
                found.setdefault(word, []).append(i)
        return dict(sorted(found.items()))

    def place(self, word: int) -> tuple[int, int]:
        """The segment of a word, and its index in that text."""
        return (0, word) if word < self.first_of_pair else (1, word - self.first_of_pair)

    def length(self, segment: int) -> int:
        """How many words of a segment the model reads."""
        read = [index for s, index in map(self.place, self.pieces) if s == segment]
        return max(read, default=-1) + 1

    def word(self, word: int) -> str:
        """The characters of a word."""
        segment, index = self.place(word)
        text = self.tokens.text if segment == 0 else self.tokens.pair or ""
        return text[slice(*word_spans(text)[index])]

    def sums(self, scores: Floats) -> Floats:
        """Scores [t] of pieces, summed for each word in `pieces`."""
        return np.array([scores[positions].sum() for positions in self.pieces.values()])


# the words of each label


@dataclass(frozen=True)
class Lexicon:
    """The words of training texts: in how many texts of each label each occurs, and its log-odds for each label.

    Words that differ in case only are one, in its most frequent spelling. Marks without a letter, and stop words, have
    a weight of 0.
    """

    words: tuple[str, ...]
    counts: Ints  # [c,v]
    texts: Ints  # [c], of each label
    odds: Floats  # [c,v]

    @cached_property
    def index(self) -> dict[str, int]:
        """Words in lower case."""
        return {word.casefold(): i for i, word in enumerate(self.words)}

    @cached_property
    def content(self) -> list[int]:
        """The words with a letter that are no stop words."""
        return [i for i, word in enumerate(self.words) if _has_content(word)]

    @property
    def kept(self) -> int:
        """How many words the regression gave a weight."""
        return int((self.odds != 0).any(0).sum())

    @property
    def few(self) -> str | None:
        """The beginning of a sentence about a regression that kept few words; None if it kept enough."""
        if self.kept >= MIN_KEPT:
            return None
        words = "1 word" if self.kept == 1 else f"{self.kept} words"
        return f"The regression gave only {words} a log-odds weight, since there are few training texts"

    def strongest(self, label: int) -> list[str]:
        """Words by their log-odds for a label, the highest first.

        The regression gives most words a weight of 0. These are in the order of the difference between their shares
        among the texts of the label and among all others.
        """
        others = np.arange(len(self.texts)) != label
        inside = self.counts[label] / max(1, self.texts[label])
        outside = self.counts[others].sum(0) / max(1, self.texts[others].sum())
        key = {i: (-self.odds[label, i], outside[i] - inside[i], self.words[i]) for i in self.content}
        return [self.words[i] for i in sorted(self.content, key=key.__getitem__)]

    def frequent(self, label: int) -> list[str]:
        """Words by the number of texts of a label that have them, the most frequent first; no stop words."""
        key = {i: (-int(self.counts[label, i]), self.words[i]) for i in self.content}
        return [self.words[i] for i in sorted(self.content, key=key.__getitem__)]

    def size(self, word: str) -> float:
        """The largest |log-odds| of a word for any label; 0 for one that is not known."""
        i = self.index.get(word.casefold())
        return 0.0 if i is None else float(np.abs(self.odds[:, i]).max())

    def to_json(self) -> dict[str, Any]:
        """For a step; most weights are zero."""
        where = [np.flatnonzero(row) for row in self.odds]
        return {
            "words": self.words,
            "counts": self.counts,
            "texts": self.texts,
            "odds": [{str(i): float(row[i]) for i in at} for row, at in zip(self.odds, where, strict=True)],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Lexicon:
        """The inverse of `to_json`."""
        odds = np.zeros((len(stored["odds"]), len(stored["words"])))
        for row, weights in zip(odds, stored["odds"], strict=True):
            for i, weight in weights.items():
                row[int(i)] = weight
        return cls(tuple(stored["words"]), np.array(stored["counts"]), np.array(stored["texts"]), odds)


def counted_examples(trial: Trial, use: str) -> tuple[list[Example], TextsUsed]:
    """The training texts whose words are counted: at most MAX_COUNTED, with the labels in proportion."""
    every = trial.subject.splits.train
    chosen = [every[i] for i in order(every, trial.seed)[:MAX_COUNTED]]
    return chosen, TextsUsed(use, "train", len(chosen), datasets.fingerprint(chosen))


def lexicon_of(texts: Sequence[str], gold: Ints, labels: int) -> Lexicon:
    """The lexicon of labelled texts (Jain & Wallace 2019: L1 logistic regression on bags of words, labels balanced)."""
    spelled: dict[str, Counter[str]] = {}
    bags = []
    for text in texts:
        words = words_of(text)
        for word in words:
            spelled.setdefault(word.casefold(), Counter())[word] += 1
        bags.append([word.casefold() for word in words])
    keys = sorted(spelled)
    if not keys or len(set(gold.tolist())) < 2:
        raise BadInput("the training texts have no words of two labels to compare; give texts of two labels.")
    index = {word: i for i, word in enumerate(keys)}
    counts = np.zeros((labels, len(keys)), dtype=np.int64)
    for bag, label in zip(bags, gold.tolist(), strict=True):
        counts[label, [index[word] for word in set(bag)]] += 1
    ignored = [i for i, word in enumerate(keys) if not _has_content(word)]
    odds = log_odds_of_labels([[index[w] for w in bag] for bag in bags], gold, labels, len(keys), ignored)
    spellings = tuple(min(spelled[key].items(), key=lambda item: (-item[1], item[0]))[0] for key in keys)
    return Lexicon(spellings, counts, np.bincount(gold, minlength=labels), odds)


def _has_content(word: str) -> bool:
    return any(ch.isalpha() for ch in word) and word.casefold() not in STOPWORDS
