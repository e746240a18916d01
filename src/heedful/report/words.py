"""Words: those that count most over all texts of a run, label by label and method by method."""

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
MAX_WORDS = 3  # in a sentence


@dataclass(frozen=True)
class RankedWord:
    """A word over the texts of one label: in how many it is, and its mean score with the interval over them."""

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
    """The first words of one label by one method, of so many that were ranked."""

    method: str
    signed: bool
    label: int
    first: tuple[RankedWord, ...]
    ranked: int


def word_section(record: Record) -> Section:
    """The global view: for each label, the words with the highest mean scores over the texts that get it."""
    chosen = preferred(explaining(record))
    least = 3 if len(record.texts) >= 60 else 2
    lists = _lists(record, chosen, least)
    names = dict(zip(chosen, _names(chosen), strict=True))
    return Section(
        name="words",
        title="Words over all texts",
        question="Which words speak for a label, over all texts?",
        findings=tuple(_findings(record, lists, least)),
        figures=tuple(_figure(record, one, names[one.method]) for one in _charted(record, lists)),
        tables=tuple(_table(record, [one for one in lists if one.method == m], names[m]) for m in _listed(lists)),
        reading=_reading(record, least),
    )


# numbers


def ranked(values: Mapping[str, Sequence[float]], least: int) -> list[RankedWord]:
    """Words in at least so many texts by the lower limit of their mean; `values` has a number for each text."""
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

    Signed scores are taken as they are; others as shares of the text's sum of magnitudes, if that is not zero.
    """
    total = float(np.abs(scores).sum())
    if not signed and not total > 0:
        return {}
    occurring: dict[str, list[float]] = {}
    counted: Floats = scores if signed else np.abs(scores) / total
    for name, score in zip(names, counted.tolist(), strict=True):
        occurring.setdefault(name.casefold(), []).append(score)
    return {name: sum(values) / len(values) for name, values in occurring.items()}


def _lists(record: Record, chosen: Sequence[str], least: int) -> list[WordList]:
    by_label: dict[tuple[str, int], dict[str, list[float]]] = {}
    signs: dict[str, bool] = {}
    index = {name: i for i, name in enumerate(record.labels)}
    for one in (read_text_row(row) for row in record.each_text() if row.pieces):
        names, content = one.words, list(one.view.content)
        for method in chosen:
            scored = one.scores(method)
            if scored is not None:
                scores, signs[method] = scored
                values = by_label.setdefault((method, index.get(one.row.predicted or "", -1)), {})
                for word, score in in_text(names, scores[content], signs[method]).items():
                    values.setdefault(word, []).append(score)
    orders = {(m, i): ranked(by_label.get((m, i), {}), least) for m in chosen for i in range(len(record.labels))}
    return [WordList(m, signs[m], i, tuple(order[:TOP_WORDS]), len(order)) for (m, i), order in orders.items() if order]


# sentences


def _findings(record: Record, lists: Sequence[WordList], least: int) -> Iterator[str]:
    if not lists:
        yield f"No word is in {least} texts that the model gives the same label, so none is ranked."
        return
    charted = _charted(record, lists)
    main = {one.label: one for one in charted if one.method == charted[0].method}
    yield from (_first_words(record, one) for one in main.values())
    for method in _listed(charted):
        pairs = [(one, main[one.label]) for one in charted if one.method == method and one.label in main]
        if method != charted[0].method and pairs:
            overlaps = "; ".join(f"for {_label(record, one)} {_overlap(one, other)}" for one, other in pairs)
            yield f"Words that {method} and {charted[0].method} both put first: {overlaps}."


def _first_words(record: Record, one: WordList) -> str:
    """The first words of a list; of a signed method only those whose interval is above zero."""
    label, towards = _label(record, one), explained(record)
    where = label if towards is None else f"{towards} in texts called {label}"
    words = [w for w in one.first if w.low > 0] if one.signed else list(one.first)
    if not words:
        none = f"none of {one.ranked:,} that were ranked has an interval above zero"
        return f"By {one.method}, no word can be said to speak for {where}: {none}."
    named = and_list([f"“{shorten(w.word)}” {w.interval}" for w in words[:MAX_WORDS]])
    what = f"what speaks most for {where}" if one.signed else f"what weighs most in texts called {label}"
    return f"By {one.method}, {what} is {named}."


def _overlap(one: WordList, other: WordList) -> str:
    """5 of 12 (4.6 by chance): chance is two draws from the words that were ranked."""
    a, b, n = len(one.first), len(other.first), max(one.ranked, other.ranked)
    shared = {w.word for w in one.first} & {w.word for w in other.first}
    return f"{len(shared)} of {min(a, b)} ({number(a * b / n, 1)} by chance)"


def _reading(record: Record, least: int) -> str:
    label = explained(record)
    towards = "the label that the model predicts" if label is None else f"“{label}”, explained in every text"
    return (
        "Each list has the texts that the model gives one label. A word's score in a text is the sum over its pieces "
        "and the mean over its occurrences, upper and lower case alike; the number shown is the mean over the texts "
        "that have the word, with a 95 % interval over them. Scores of methods with a sign count with it, towards "
        f"{towards}, in the method's own units: a word that pushes now this way and now that has a mean near zero. "
        "Methods without a sign, such as attention, count by magnitude, as a share of the sum over the text's words; a "
        "share says nothing of for or against, and is larger in short texts. "
        f"Only words in at least {least} texts are ranked, by the lower limit of the interval, so that a word that was "
        "high once does not come first. The lists show the highest of many words: each interval holds for a word "
        "chosen beforehand, and the first of a list are on average lower in other texts. A mean over texts hides what "
        "a word does beside another, as after “not”. Lists that look sensible do not show that a method is right."
    )


# tables and charts


def _listed(lists: Sequence[WordList]) -> list[str]:
    return list(dict.fromkeys(one.method for one in lists))


def _charted(record: Record, lists: Sequence[WordList]) -> list[WordList]:
    """Those of the labels that the model gives most often."""
    given = np.bincount([i for i in record.facts["predicted"] if i >= 0], minlength=len(record.labels))
    most = set(np.argsort(-given, kind="stable")[:CHARTED_LABELS].tolist())
    return [one for one in lists if one.label in most]


def _figure(record: Record, one: WordList, name: str) -> Figure:
    rows = [Interval(shorten(w.word), w.mean, w.low, w.high, note=count_texts(w.texts)) for w in one.first]
    numbers = (f"{shorten(w.word)} {w.interval} in {count_texts(w.texts)}" for w in one.first)
    label = _label(record, one)
    title = f"{one.method}: words in texts that the model calls {label}"
    axis = "mean score" if one.signed else "mean share of the text's sum"
    alt = f"Mean scores by {one.method} in texts called {label}: {'; '.join(numbers)}."
    caption = f"The {len(one.first)} highest of {one.ranked:,} words, by the lower limit of the 95 % interval."
    return dots(Words(f"{name}-{one.label}", title, axis, alt=alt, caption=caption), rows, zero=0.0)


def _table(record: Record, lists: Sequence[WordList], name: str) -> Table:
    digits = digits_for(*(w.mean for one in lists for w in one.first))
    says = "mean score over texts" if lists[0].signed else "mean share of the text's sum of magnitudes"
    columns = (
        Column("word"),
        Column("label", says="the label that the model gives the texts"),
        Column("texts", 0, "texts of that label that have the word"),
        Column("mean", digits, says),
        Column("low", digits, "lower limit of the 95 % interval over texts"),
        Column("high", digits, "upper limit"),
    )
    entries = [(_label(record, one), word) for one in lists for word in one.first]
    rows = tuple((shorten(w.word), label, w.texts, w.mean, w.low, w.high) for label, w in entries)
    caption = f"Up to {TOP_WORDS} words of each label, by the lower limit of the interval."
    return Table(name, f"Words by {lists[0].method}", columns, rows, caption)


def _names(methods: Sequence[str]) -> list[str]:
    """Names for files, unlike each other."""
    plain = [slug(name)[:MAX_LETTERS] for name in methods]
    repeated = [plain[: i + 1].count(name) for i, name in enumerate(plain)]
    return [f"words-{name}" + (f"-x{n}" if n > 1 else "") for name, n in zip(plain, repeated, strict=True)]


def _label(record: Record, one: WordList) -> str:
    return shorten(record.labels[one.label])
