"""Substitution (Jain & Wallace 2019): the most attended words are replaced by words of another label; and attention is
replaced by log-odds attention at test time. How far does the output move, and how far does attention?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from heedful.audits.summary import Row
from heedful.core.arrays import Floats
from heedful.core.finding import DIVERGENCE, FRACTION, Measure, Place
from heedful.core.settings import Checked, Count
from heedful.core.tokens import Tokens, word_spans
from heedful.maths.distances import changes
from heedful.maths.ranks import jensen_shannon
from heedful.maths.stats import decide, estimate, paired
from heedful.methods.attention import AttentionMean, BatchPart, read_shares, sites_of
from heedful.model import edits
from heedful.model.classifier import Classifier, Reading
from heedful.studies.base import Cost, Subject, Texts, Trial, gold_index, row_of
from heedful.studies.outcome import Curve, ExampleText, PairedDifference, Result, WeightedWords
from heedful.studies.triggers import check_labels
from heedful.studies.words import Lexicon, WordIndex, counted_examples, lexicon_of, replace_words, words_of

ATTENDED, RANDOM_PLACES, RANDOM_WORDS, BOTH_RANDOM = "attended", "random places", "random words", "both random"
SOURCES = (ATTENDED, RANDOM_PLACES, RANDOM_WORDS, BOTH_RANDOM)
CONTROL = {ATTENDED: RANDOM_PLACES, RANDOM_WORDS: BOTH_RANDOM}  # the same words in other places
OWN, ODDS, SHUFFLED, UNIFORM = "own attention", "log-odds attention", "shuffled log-odds", "uniform attention"
PLACED = (ODDS, SHUFFLED, UNIFORM)
DECIMALS = 7  # of a stored number
READ = 3  # passes of a text whose attention is read: it has a gradient


@dataclass(frozen=True)
class Substitution(Checked):
    """Replace the most attended words by the strongest words of another label, and attention by log-odds attention.

    The `words` most attended words of `scored` test texts are replaced, one after the other, by the words with the
    highest log-odds of the label with the second highest probability. Controls: the same words in random places, random
    words of the training texts in the most attended places, and both random, `draws` times each.

    Log-odds attention is the softmax of the |log-odds| of the words that attention can point at. It replaces the
    attention of the pooled position in the last layer (in a network with one query, all attention); special tokens keep
    their weight. Controls: the same weights on shuffled words, and equal weights. Nothing is trained again.
    """

    words: Count = 5
    scored: Count = 500
    draws: Count = 2

    summary: ClassVar[str] = "replace the most attended words, or attention by log-odds, and measure the output"
    paper: ClassVar[str] = "Jain & Wallace 2019"
    title: ClassVar[str] = "Log-odds substitution"
    question: ClassVar[str] = "Does the output follow the words that attention points at?"
    changes: ClassVar[str] = (
        "the most attended words are replaced by words of another label; or the last layer's attention of the pooled "
        "position is replaced by log-odds attention"
    )
    reading: ClassVar[str] = (
        "If attention points at the words that the model uses, new words in the most attended places move the output "
        "more than the same words in random places. If the output needs the model's own attention, log-odds attention "
        "moves it more where it is farther from that attention. A small move under a very different attention means "
        "that many attentions serve this output, not that attention is useless; and log-odds attention is a reasonable "
        "one, unlike a random one. Replaced words make texts that no one would write: the model may fail for that "
        "reason, which both random controls show. Attention is compared over words, special tokens left out."
    )
    measures: ClassVar[Mapping[str, Measure]] = {
        "tvd": Measure("total variation distance of the output", range=FRACTION),
        "flip": Measure("the predicted label changes", kind="rate", range=FRACTION),
        "jsd": Measure("Jensen–Shannon divergence of attention over words from the model's own", range=DIVERGENCE),
        "accuracy": Measure("share of texts whose predicted label is the gold one", kind="rate", range=FRACTION),
        "on words": Measure("share of attention that is on words, not on special tokens", range=FRACTION),
    }
    uses: ClassVar[Mapping[str, str]] = {"train": "log-odds of words are estimated", "test": "texts are changed"}
    quick: ClassVar[Mapping[str, Any]] = {"scored": 80, "draws": 1}

    def check(self, subjects: Sequence[Subject]) -> None:
        """Refuse a model whose attention cannot be read, or without two labels."""
        if (classifier := subjects[0].classifier) is not None:
            check_labels(classifier)
            METHOD.check(classifier)

    def __call__(self, trial: Trial) -> Result:
        """Curves over the number of replaced words, and numbers of each attention that was put in."""
        classifier = trial.classifier()
        check_labels(classifier)
        METHOD.check(classifier)
        texts = trial.texts(classifier, "test", self.uses["test"], self.scored)
        train, used = counted_examples(trial, self.uses["train"])
        segments = attended_segments(classifier, texts)

        def count() -> Any:
            gold = np.array([gold_index(example, classifier.labels) for example in train])
            read = [[part for s, part in enumerate((e.text, e.pair)) if s in segments and part] for e in train]
            return lexicon_of([" ".join(parts) for parts in read], gold, len(classifier.labels)).to_json()

        lexicon = Lexicon.from_json(trial.step("log-odds of words", count))
        worker = _Worker(trial, classifier, lexicon, self.words, self.draws)
        chunks = trial.chunks("changing words and attention", texts, worker.measure)
        tables = _Tables([item for chunk in chunks for item in chunk], self.words, self.measures)
        examples = trial.step("examples", lambda: [worker.example(texts.take([i])) for i in tables.shown()])
        return Result(
            rows=tuple(tables.rows()),
            curves=tuple(tables.curves()),
            differences=tuple(tables.differences()),
            examples=tuple(ex for item in examples for ex in _examples(item)),
            texts=(used, texts.used),
            notes=_notes(lexicon),
            details={
                "points": tables.points(),
                "layers": sum(kind == classifier.main_kind for kind, _ in classifier.sites),
                "kept": lexicon.kept,
                "strongest": {label: lexicon.strongest(i)[: self.words] for i, label in enumerate(classifier.labels)},
            },
        )

    def costs(self, trial: Trial) -> list[Cost]:
        """A pass for each changed text whose attention is read, and for each attention that is put in."""
        texts = min(self.scored, len(trial.subject.splits.test))
        variants = self.words * (1 + (len(SOURCES) - 1) * self.draws)
        return [
            Cost("changing words", READ * texts * variants),
            Cost("changing attention", texts * (READ + len(PLACED))),
        ]


METHOD = AttentionMean()  # the attention that is compared: the pooled position's, mean over heads, last layer


def attended_segments(classifier: Classifier, texts: Texts) -> tuple[int, ...]:
    """Which texts of a pair attention can point at."""
    found = {
        s for tokens in texts.tokens for s, can in zip(tokens.segments, classifier.attended(tokens), strict=True) if can
    }
    return tuple(sorted(s for s in found if s is not None))


def _notes(lexicon: Lexicon) -> tuple[str, ...]:
    if lexicon.few is None:
        return ()
    return (
        f"{lexicon.few}: log-odds attention is nearly uniform, and the other words are in the order of the difference "
        "between their shares of texts.",
    )


# one text


@dataclass(frozen=True)
class _Seen:
    """A text as a model sees it: its logits, and its attention on each word, in the order of `words`."""

    logits: Float[Tensor, "c"]
    words: tuple[int, ...]  # those that attention can point at
    attention: Floats  # of each, not normalised
    special: float  # on special tokens and other texts

    @cached_property
    def shares(self) -> Floats:
        """The attention on words, normalised; NaN where there is none."""
        total = self.attention.sum()
        return self.attention / total if total > 0 else np.full(len(self.attention), np.nan)

    @cached_property
    def order(self) -> list[int]:
        """The words, the most attended first; equal ones in reading order."""
        return [self.words[i] for i in np.argsort(-self.attention, kind="stable")]

    def divergence(self, other: _Seen) -> float:
        """The Jensen–Shannon divergence of attention over this text's words; 0 on words that the other lost."""
        known = dict(zip(other.words, other.attention, strict=True))
        new = np.array([known.get(word, 0.0) for word in self.words])
        if not new.sum() > 0 or np.isnan(self.shares).any():
            return np.nan
        return float(jensen_shannon(self.shares, new / new.sum()))


def seen(classifier: Classifier, part: BatchPart) -> _Seen:
    """One text of a reading."""
    why: Any = METHOD.explanation(part, {})
    scores: Floats = why.scores
    can, index = classifier.attended(part.tokens), WordIndex(part.tokens)
    pieces = {word: [i for i in at if can[i]] for word, at in index.pieces.items()}
    words = tuple(word for word, at in pieces.items() if at)
    attention = np.array([scores[pieces[word]].sum() for word in words])
    return _Seen(part.reading.logits[part.row].detach(), words, attention, float(scores.sum() - attention.sum()))


def placed_weights(
    weights: Float[Tensor, "b h q k"],
    allowed: Bool[Tensor, "b 1 q k"],
    wanted: Float[Tensor, "b k"],
    rows: Bool[Tensor, "b q"],
) -> Float[Tensor, "b h q k"]:
    """The weights of each row, with what it gives to the keys in `wanted` divided among them in that proportion.

    Keys that are not wanted (0) keep their weight, and so do rows that are not in `rows`: [.5, .3, .2] with wanted
    [0, 1, 3] -> [.5, .125, .375].
    """
    share = wanted[:, None, None, :] * allowed
    free = share > 0
    mass = (weights * free).sum(-1, keepdim=True)
    new = torch.where(
        free, mass * share / share.sum(-1, keepdim=True).clamp(min=torch.finfo(share.dtype).tiny), weights
    )
    return torch.where(rows[:, None, :, None], new, weights).to(weights.dtype)


def log_odds_attention(sizes: Floats) -> Floats:
    """Jain & Wallace: the softmax of |log-odds|."""
    weights = np.exp(sizes - sizes.max(initial=0.0))
    return np.asarray(weights / weights.sum())


# a chunk of texts


@dataclass(frozen=True)
class _Worker:
    """Changes the words and the attention of some texts, and measures what follows."""

    trial: Trial
    classifier: Classifier
    lexicon: Lexicon
    words: int
    draws: int

    @cached_property
    def vocabulary(self) -> list[str]:
        """Words with a letter, for random draws."""
        return [word for word in self.lexicon.words if any(ch.isalpha() for ch in word)] or list(self.lexicon.words)

    @cached_property
    def strongest(self) -> list[list[str]]:
        """The strongest words of each label."""
        return [self.lexicon.strongest(i)[: self.words] for i in range(len(self.classifier.labels))]

    def measure(self, texts: Texts) -> list[dict[str, Any]]:
        """All numbers of each text."""
        before: dict[int, _Seen] = {}
        items: dict[int, dict[str, Any]] = {}
        for group in self.classifier.batches(texts.tokens):
            reading, parts = self._read([texts.tokens[i] for i in group])
            before |= {i: seen(self.classifier, part) for i, part in zip(group, parts, strict=True)}
            placed = self._placed(reading, parts, [before[i] for i in group])
            for row, i in enumerate(group):
                items[i] = self._item(
                    before[i], int(texts.gold[i]), {name: table[row] for name, table in placed.items()}
                )
        for i, numbers in self._substituted(texts, before).items():
            items[i]["substituted"] = numbers
        return [items[i] for i in range(len(texts))]

    def _read(self, tokens: Sequence[Tokens]) -> tuple[Reading, list[BatchPart]]:
        with self.classifier.lock:
            return read_shares(self.classifier, tokens)

    # words

    def other_label(self, text: _Seen) -> int:
        """The label with the second largest logit."""
        return int(text.logits.argsort(descending=True, stable=True)[1])

    def plans(self, tokens: Tokens, text: _Seen) -> dict[tuple[str, int], list[tuple[int, str]]]:
        """For each way and draw: which word is replaced first, second, … and by what; no plan has too few words."""
        label = self.other_label(text)
        new = self.strongest[label]
        plans = {(ATTENDED, 0): list(zip(text.order, new, strict=False))}
        for draw in range(self.draws):
            rng = self.trial.rng("substitution", tokens.text, tokens.pair, draw)
            places = [text.words[i] for i in torch.randperm(len(text.words), generator=rng).tolist()]
            drawn = torch.randint(len(self.vocabulary), (self.words,), generator=rng).tolist()
            random = [self.vocabulary[i] for i in drawn]
            plans[RANDOM_PLACES, draw] = list(zip(places, new, strict=False))
            plans[RANDOM_WORDS, draw] = list(zip(text.order, random, strict=False))
            plans[BOTH_RANDOM, draw] = list(zip(places, random, strict=False))
        return plans

    def _substituted(self, texts: Texts, before: Mapping[int, _Seen]) -> dict[int, dict[str, dict[str, list[float]]]]:
        """For each text and way: the measures after 1, 2, … words, mean over draws; NaN beyond the text's words."""
        jobs: list[tuple[int, str, int, int]] = []
        changed: list[Tokens] = []
        for i, tokens in enumerate(texts.tokens):
            for (source, draw), plan in self.plans(tokens, before[i]).items():
                for k in range(1, len(plan) + 1):
                    jobs.append((i, source, draw, k))
                    changed.append(self.replaced(tokens, dict(plan[:k])))
        after: dict[int, _Seen] = {}
        for group in self.classifier.batches(changed):
            _, parts = self._read([changed[j] for j in group])
            after |= {j: seen(self.classifier, part) for j, part in zip(group, parts, strict=True)}
        values: dict[tuple[int, str, str, int], list[float]] = {}
        for j, (i, source, _, k) in enumerate(jobs):
            for name, number in self._changes(before[i], after[j]).items():
                values.setdefault((i, source, name, k), []).append(number)
        return {
            i: {
                source: {
                    name: [_mean(values.get((i, source, name, k), [])) for k in range(1, self.words + 1)]
                    for name in ("tvd", "flip", "jsd")
                }
                for source in SOURCES
            }
            for i in range(len(texts))
        }

    def replaced(self, tokens: Tokens, new: Mapping[int, str]) -> Tokens:
        """The text with these words replaced, as the model reads it."""
        first = len(word_spans(tokens.text))
        text = replace_words(tokens.text, {i: word for i, word in new.items() if i < first})
        pair = (
            None
            if tokens.pair is None
            else replace_words(tokens.pair, {i - first: w for i, w in new.items() if i >= first})
        )
        return self.classifier.tokens(text, pair).cut(self.classifier.limit)

    def _changes(self, before: _Seen, after: _Seen) -> dict[str, float]:
        moved = changes(after.logits[None], before.logits, self.classifier.head)
        return {"tvd": float(moved.tvd[0]), "flip": float(moved.flip[0]), "jsd": before.divergence(after)}

    # attention

    def alternatives(self, part: BatchPart, text: _Seen) -> dict[str, Floats]:
        """For each attention that is put in: the weight of each word."""
        index = WordIndex(part.tokens)
        sizes = np.array([self.lexicon.size(index.word(word)) for word in text.words])
        if not len(sizes):
            return {name: np.empty(0) for name in PLACED}
        odds = log_odds_attention(sizes)
        rng = self.trial.rng("shuffled log-odds", part.tokens.text, part.tokens.pair)
        order = torch.randperm(len(odds), generator=rng).numpy()
        return {ODDS: odds, SHUFFLED: odds[order], UNIFORM: np.full(len(odds), 1 / len(odds))}

    def _placed(self, reading: Reading, parts: Sequence[BatchPart], texts: Sequence[_Seen]) -> dict[str, list[_Seen]]:
        """What the model makes of each attention, for each text of a batch."""
        site = sites_of(reading.layers(self.classifier.main_kind), -1)[0]
        own = reading.weights[site].detach()
        rows = reading.pooled > 0 if own.shape[2] > 1 else torch.ones(len(own), 1, dtype=torch.bool, device=own.device)
        choices = [self.alternatives(part, text) for part, text in zip(parts, texts, strict=True)]
        batch = self.classifier.batch([part.tokens for part in parts])
        found = {}
        for name in PLACED:
            wanted = torch.zeros(len(own), own.shape[-1], dtype=torch.float64)
            for part, text, choice in zip(parts, texts, choices, strict=True):
                can, pieces = self.classifier.attended(part.tokens), WordIndex(part.tokens).pieces
                for word, weight in zip(text.words, choice[name], strict=True):
                    at = [i for i in pieces[word] if can[i]]
                    wanted[part.row, [i + (part.at.start or 0) for i in at]] = float(weight) / len(at)
            new = placed_weights(own, site.allowed, wanted.to(own), rows)
            with self.classifier.lock, torch.no_grad(), self.classifier.attention(edits.replaced({site: new})):
                logits = self.classifier.logits(batch)
            changed = replace(reading, logits=logits, weights={**reading.weights, site: new})
            found[name] = [seen(self.classifier, replace(part, reading=changed)) for part in parts]
        return found

    def _item(self, before: _Seen, gold: int, placed: Mapping[str, _Seen]) -> dict[str, Any]:
        whole = before.attention.sum() + before.special
        numbers = {
            name: self._changes(before, after) | {"accuracy": float(int(after.logits.argmax()) == gold)}
            for name, after in placed.items()
        }
        return {
            "accuracy": float(int(before.logits.argmax()) == gold),
            "on words": float(before.attention.sum() / whole) if whole > 0 else None,
            "placed": {name: {k: _rounded(x) for k, x in of.items()} for name, of in numbers.items()},
        }

    # examples

    def example(self, texts: Texts) -> dict[str, Any]:
        """One text: its attention, the words that replace the most attended, and log-odds attention."""
        tokens = texts.tokens[0]
        reading, parts = self._read([tokens])
        before = seen(self.classifier, parts[0])
        plan = self.plans(tokens, before)[ATTENDED, 0]
        changed = self.replaced(tokens, dict(plan))
        after = seen(self.classifier, self._read([changed])[1][0])
        odds = self._placed(reading, parts, [before])[ODDS][0]
        every = [*words_of(tokens.text), *words_of(tokens.pair or "")]
        return {
            "gold": texts.examples[0].label,
            "labels": [self._label(text.logits) for text in (before, after, odds)],
            "words": every,
            "changed": [dict(plan).get(i, word) for i, word in enumerate(every)],
            "replaced": [word for word, _ in plan],
            "own": _spread(before, len(every)),
            "odds": _spread(odds, len(every)),
        }

    def _label(self, logits: Tensor) -> str:
        prediction = self.classifier.prediction(logits)
        return f"{prediction.label} ({max(prediction.probabilities or (0.0,)):.1%})"


def _spread(text: _Seen, length: int) -> list[float]:
    """The share of each word of the text; 0 for one that attention cannot point at."""
    shares = dict(zip(text.words, np.nan_to_num(text.shares).round(4).tolist(), strict=True))
    return [shares.get(i, 0.0) for i in range(length)]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else np.nan


def _rounded(x: float) -> float:
    return round(x, DECIMALS)


# numbers


@dataclass(frozen=True)
class _Tables:
    """The numbers of all texts, as rows, curves and differences."""

    items: Sequence[Mapping[str, Any]]
    words: int
    measures: Mapping[str, Measure]

    def replaced(self, measure: str, source: str, k: int) -> Floats:
        """A measure of each text after k words were replaced."""
        values = (item["substituted"][source][measure][k - 1] for item in self.items)
        return np.array([np.nan if x is None else x for x in values])

    def placed(self, measure: str, name: str) -> Floats:
        """A measure of each text with another attention."""
        values = (item["placed"][name][measure] for item in self.items)
        return np.array([np.nan if x is None else x for x in values])

    def rows(self) -> Iterator[Row]:
        """Each measure after each number of words, and with each attention."""
        for measure in ("tvd", "flip", "jsd"):
            keys = [(source, k) for k in range(1, self.words + 1) for source in SOURCES]
            compared = decide([
                paired(self.replaced(measure, s, k), self.replaced(measure, CONTROL[s], k)) if s in CONTROL else None
                for s, k in keys
            ])  # fmt: skip
            for (source, k), versus in zip(keys, compared, strict=True):
                yield self._row(measure, self.replaced(measure, source, k), source, {"words": k}, versus)
        own = {
            name: np.array([np.nan if x[name] is None else x[name] for x in self.items])
            for name in ("accuracy", "on words")
        }
        yield self._row("on words", own["on words"], OWN)
        yield self._row("accuracy", own["accuracy"], OWN)
        for measure in ("tvd", "flip", "jsd", "accuracy"):
            others = [name for name in PLACED if name != SHUFFLED]
            against = decide([paired(self.placed(measure, n), self.placed(measure, SHUFFLED)) for n in others])
            versus_shuffled = dict(zip(others, against, strict=True))
            for name in PLACED:
                yield self._row(measure, self.placed(measure, name), name, None, versus_shuffled.get(name))

    def _row(self, measure: str, values: Floats, method: str, at: Place | None = None, versus: Any = None) -> Row:
        return row_of("substitution", self.measures, measure, values, method, at, versus)

    def curves(self) -> Iterator[Curve]:
        """Over the number of replaced words."""
        x = tuple(float(k) for k in range(1, self.words + 1))
        for measure in ("tvd", "flip", "jsd"):
            about = self.measures[measure]
            for source in SOURCES:
                columns = [self.replaced(measure, source, int(k)) for k in x]
                yield Curve(measure, source, x, tuple(estimate(c, about.kind, about.range) for c in columns))

    def differences(self) -> Iterator[PairedDifference]:
        """Do the places matter, do the words; and log-odds attention beside the others."""
        for measure in ("tvd", "flip"):
            pairs = [(RANDOM_PLACES, k) for k in range(1, self.words + 1)]
            pairs += [(RANDOM_WORDS, k) for k in range(1, self.words + 1)]
            found = decide(
                [paired(self.replaced(measure, ATTENDED, k), self.replaced(measure, b, k)) for b, k in pairs]
            )
            for (b, k), difference in zip(pairs, found, strict=True):
                assert difference is not None
                yield PairedDifference(measure, ATTENDED, b, difference, {"words": k})
            others = [name for name in PLACED if name != ODDS]
            placed = decide([paired(self.placed(measure, ODDS), self.placed(measure, b)) for b in others])
            for b, difference in zip(others, placed, strict=True):
                assert difference is not None
                yield PairedDifference(measure, ODDS, b, difference)

    def points(self) -> dict[str, dict[str, Floats]]:
        """Change of attention and change of the output of each text, for the scatter plots."""
        return {
            ATTENDED: {m: self.replaced(m, ATTENDED, self.words) for m in ("jsd", "tvd")},
            ODDS: {m: self.placed(m, ODDS) for m in ("jsd", "tvd")},
        }

    def shown(self) -> list[int]:
        """The text whose output moves most with other words, and the one whose output least follows attention."""
        moved = self.replaced("tvd", ATTENDED, self.words)
        apart = self.placed("jsd", ODDS) - self.placed("tvd", ODDS)
        return list(dict.fromkeys(int(np.nanargmax(x)) for x in (moved, apart) if np.isfinite(x).any()))


def _examples(item: Mapping[str, Any]) -> Iterator[ExampleText]:
    before, after, odds = item["labels"]
    marks = [1.0 if i in item["replaced"] else 0.0 for i in range(len(item["words"]))]
    yield ExampleText(
        title="The most attended words, replaced",
        label=before,
        gold=item["gold"],
        colourings=(
            WeightedWords("attention", tuple(item["words"]), tuple(item["own"])),
            WeightedWords("the replaced words", tuple(item["changed"]), tuple(marks), f"predicted: {after}"),
        ),
    )
    yield ExampleText(
        title="Log-odds attention, put in",
        label=before,
        gold=item["gold"],
        colourings=(
            WeightedWords("attention", tuple(item["words"]), tuple(item["own"])),
            WeightedWords("log-odds attention", tuple(item["words"]), tuple(item["odds"]), f"predicted: {odds}"),
        ),
    )
