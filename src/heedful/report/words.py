"""Words: those with the highest mean scores over all texts of a run, for each label and method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from heedful.audits.record import Record
from heedful.core.arrays import Floats
from heedful.maths import stats
from heedful.report.charts import Interval, Words, dots
from heedful.report.coloured_text import MAX_LETTERS, explained, explaining, preferred, read_text_row, shorten
from heedful.report.document import Column, Figure, Section, Table
from heedful.report.phrases import and_list, bracketed, count_texts, digits_for, number, slug

TOP_WORDS = 12  # words of a label
CHARTED_LABELS = 3  # labels that have a chart; tables have all
MAX_WORDS = 3  # words that a sentence names


@dataclass(frozen=True)
class RankedWord:
    """A word over the texts of one label: the number of texts that have it, and its mean score with an interval."""

    word: str
    texts: int
    mean: float
    low: float
    high: float

    @property
    def interval(self) -> str:
        """The mean with its interval."""
        return bracketed(self.mean, self.low, self.high)


@dataclass(frozen=True)
class WordList:
    """The top words of one label by one method; `ranked` is how many words were ranked."""

    method: str
    signed: bool
    label: int
    first: tuple[RankedWord, ...]
    ranked: int


def word_section(record: Record) -> Section:
    """The global view: for each predicted label, the words with the highest mean scores over its texts."""
    chosen = preferred(explaining(record))
    least = 3 if len(record.texts) >= 60 else 2
    lists = _lists(record, chosen, least)
    names = dict(zip(chosen, _names(chosen), strict=True))
    return Section(
        name="words",
        title="Words over all texts",
        question="Which words support a label, over all texts?",
        findings=tuple(_findings(record, lists, least)),
        figures=tuple(_figure(record, words, names[words.method]) for words in _charted(record, lists)),
        tables=tuple(_table(record, [words for words in lists if words.method == m], names[m]) for m in _listed(lists)),
        reading=_reading(record, least),
    )


# numbers


def ranked(values: Mapping[str, Sequence[float]], least: int) -> list[RankedWord]:
    """Words in at least `least` texts, by the lower limit of their mean; `values` has a number for each text."""
    words: list[RankedWord] = []
    for n in sorted({len(scores) for scores in values.values() if len(scores) >= max(2, least)}):
        names = [word for word, scores in values.items() if len(scores) == n]
        rows = np.array([values[word] for word in names], dtype=np.float64)
        low, high = stats.mean_intervals(rows)
        means = np.clip(rows.mean(1), low, high)
        columns = (means.tolist(), low.tolist(), high.tolist())
        words += [RankedWord(word, n, *numbers) for word, *numbers in zip(names, *columns, strict=True)]
    return sorted(words, key=lambda ranked: (-ranked.low, -ranked.mean, ranked.word))


def in_text(names: Sequence[str], scores: Floats, signed: bool) -> dict[str, float]:
    """Each word of a text, case folded, with the mean score of its occurrences.

    Signed scores stay raw; unsigned ones become shares of the text's sum of magnitudes, if that is not zero.
    """
    total = float(np.abs(scores).sum())
    if not signed and not total > 0:
        return {}
    by_word: dict[str, list[float]] = {}
    scaled: Floats = scores if signed else np.abs(scores) / total
    for name, score in zip(names, scaled.tolist(), strict=True):
        by_word.setdefault(name.casefold(), []).append(score)
    return {name: sum(values) / len(values) for name, values in by_word.items()}


def _lists(record: Record, chosen: Sequence[str], least: int) -> list[WordList]:
    by_label: dict[tuple[str, int], dict[str, list[float]]] = {}
    signs: dict[str, bool] = {}
    index = {name: i for i, name in enumerate(record.labels)}
    for text in (read_text_row(row) for row in record.each_text() if row.pieces):
        names, content = text.words, list(text.view.content)
        for method in chosen:
            scored = text.scores(method)
            if scored is not None:
                scores, signs[method] = scored
                values = by_label.setdefault((method, index.get(text.row.predicted or "", -1)), {})
                for word, score in in_text(names, scores[content], signs[method]).items():
                    values.setdefault(word, []).append(score)
    orders = {(m, i): ranked(by_label.get((m, i), {}), least) for m in chosen for i in range(len(record.labels))}
    return [WordList(m, signs[m], i, tuple(order[:TOP_WORDS]), len(order)) for (m, i), order in orders.items() if order]


# sentences


def _findings(record: Record, lists: Sequence[WordList], least: int) -> Iterator[str]:
    if not lists:
        yield f"No word is in {least} texts with the same predicted label, so none is ranked."
        return
    charted = _charted(record, lists)
    main = {words.label: words for words in charted if words.method == charted[0].method}
    yield from (_top_words(record, words) for words in main.values())
    for method in _listed(charted):
        pairs = [(words, main[words.label]) for words in charted if words.method == method and words.label in main]
        if method != charted[0].method and pairs:
            overlaps = "; ".join(f"for {_label(record, words)} {_overlap(words, other)}" for words, other in pairs)
            yield f"Top words that {method} and {charted[0].method} share: {overlaps}."


def _top_words(record: Record, words: WordList) -> str:
    """The first words of a list; of a signed method only those whose interval is above zero."""
    label, towards = _label(record, words), explained(record)
    where = label if towards is None else f"{towards} in texts predicted {label}"
    top = [w for w in words.first if w.low > 0] if words.signed else list(words.first)
    if not top:
        none = f"none of the {words.ranked:,} ranked words has an interval above zero"
        return f"By {words.method}, no word significantly supports {where}: {none}."
    named = and_list([f"“{shorten(w.word)}” {w.interval}" for w in top[:MAX_WORDS]])
    claim = (
        f"words that support {where} most" if words.signed else f"words with the most weight in texts predicted {label}"
    )
    return f"By {words.method}, {claim}: {named}."


def _overlap(words: WordList, other: WordList) -> str:
    """5 of 12 (4.6 by chance): chance is two draws from the ranked words."""
    a, b, n = len(words.first), len(other.first), max(words.ranked, other.ranked)
    shared = {w.word for w in words.first} & {w.word for w in other.first}
    return f"{len(shared)} of {min(a, b)} ({number(a * b / n, 1)} by chance)"


def _reading(record: Record, least: int) -> str:
    label = explained(record)
    towards = "the predicted label" if label is None else f"“{label}”, explained in every text"
    return (
        "Each list is over the texts with one predicted label. A word's score in a text is the sum over its pieces and "
        "the mean over its occurrences, ignoring case; the number shown is the mean over the texts that have the word, "
        f"with a 95 % interval. Scores of signed methods are raw, towards {towards}: a word that supports it in some "
        "texts and opposes it in others has a mean near zero. Scores of unsigned methods, such as attention, are "
        "magnitudes, as a share of the sum over the text's words; a share has no direction, and is larger in short "
        f"texts. Only words in at least {least} texts are ranked, by the lower limit of the interval, so that one high "
        "score does not suffice. Each interval holds for a word chosen beforehand; the top words are selected among "
        "many, and score lower on average in other texts. A mean over texts hides what a word does next to another, "
        "such as “not”. A plausible list does not show that a method is right."
    )


# tables and charts


def _listed(lists: Sequence[WordList]) -> list[str]:
    return list(dict.fromkeys(words.method for words in lists))


def _charted(record: Record, lists: Sequence[WordList]) -> list[WordList]:
    """The lists of the labels that the model predicts most often."""
    counts = np.bincount([i for i in record.facts["predicted"] if i >= 0], minlength=len(record.labels))
    most = set(np.argsort(-counts, kind="stable")[:CHARTED_LABELS].tolist())
    return [words for words in lists if words.label in most]


def _figure(record: Record, words: WordList, name: str) -> Figure:
    rows = [Interval(shorten(w.word), w.mean, w.low, w.high, note=count_texts(w.texts)) for w in words.first]
    numbers = (f"{shorten(w.word)} {w.interval} in {count_texts(w.texts)}" for w in words.first)
    label = _label(record, words)
    title = f"{words.method}: words in texts predicted {label}"
    axis = "mean score" if words.signed else "mean share of the text's sum"
    alt = f"Mean scores by {words.method} in texts predicted {label}: {'; '.join(numbers)}."
    caption = f"The {len(words.first)} highest of {words.ranked:,} words, by the lower limit of the 95 % interval."
    return dots(Words(f"{name}-{words.label}", title, axis, alt=alt, caption=caption), rows, zero=0.0)


def _table(record: Record, lists: Sequence[WordList], name: str) -> Table:
    digits = digits_for(*(w.mean for words in lists for w in words.first))
    says = "mean score over texts" if lists[0].signed else "mean share of the text's sum of magnitudes"
    columns = (
        Column("word"),
        Column("label", says="predicted label of the texts"),
        Column("texts", 0, "texts with that label that have the word"),
        Column("mean", digits, says),
        Column("low", digits, "lower limit of the 95 % interval over texts"),
        Column("high", digits, "upper limit"),
    )
    entries = [(_label(record, words), word) for words in lists for word in words.first]
    rows = tuple((shorten(w.word), label, w.texts, w.mean, w.low, w.high) for label, w in entries)
    caption = f"Up to {TOP_WORDS} words of each label, by the lower limit of the interval."
    return Table(name, f"Words by {lists[0].method}", columns, rows, caption)


def _names(methods: Sequence[str]) -> list[str]:
    """Distinct names for files."""
    plain = [slug(name)[:MAX_LETTERS] for name in methods]
    repeated = [plain[: i + 1].count(name) for i, name in enumerate(plain)]
    return [f"words-{name}" + (f"-x{n}" if n > 1 else "") for name, n in zip(plain, repeated, strict=True)]


def _label(record: Record, words: WordList) -> str:
    return shorten(record.labels[words.label])
