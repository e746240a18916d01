"""Attacks: triggers are chosen on dev texts, each beside other words in the same places, and scored on test texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from heedful.audits.summary import Row
from heedful.core.arrays import Floats, Ints
from heedful.core.finding import Measure, Place
from heedful.core.random import seeded
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.data import Example
from heedful.maths.stats import decide, paired
from heedful.methods.perturbation import LeaveOneOut
from heedful.model.classifier import Classifier
from heedful.studies.base import Texts, Trial, logits_of, probabilities_of, row_of
from heedful.studies.outcome import PairedDifference
from heedful.studies.patterns import DECIMALS, Pattern, Trigger
from heedful.studies.words import Lexicon, WordIndex

ATTRIBUTION, RANDOM, CHOSEN_RANDOM = "attribution", "random words", "chosen random words"
LOO, ODDS, FREQUENT = "leave-one-out", "log-odds", "frequent words"
CONTROLS = (LOO, ODDS, FREQUENT, CHOSEN_RANDOM)  # chosen on dev as the patterns are
UNCHANGED = "unchanged"
MIN_WORD_TEXTS = 2  # that a word of leave-one-out must occur in


@dataclass(frozen=True)
class Attack:
    """A chosen trigger against the texts of a gold label, with its controls."""

    gold: int
    rank: int  # from 1
    pattern: Pattern
    controls: Mapping[str, Trigger]
    random: tuple[Trigger, ...]
    dev: Mapping[str, float]  # the success on dev, by source

    def all(self) -> list[Trigger]:
        """In the order of `sources`."""
        return [self.pattern.trigger, *self.controls.values(), *self.random]

    def sources(self) -> list[str]:
        """Where each trigger is from; draws of random words come last."""
        return [ATTRIBUTION, *self.controls, *[RANDOM] * len(self.random)]


# words of the controls


def leave_one_out(classifier: Classifier, texts: Texts) -> list[dict[str, Any]]:
    """The effect of each word of each text on the probability of the predicted label."""
    method, items = LeaveOneOut(), []
    labels = logits_of(classifier, texts.tokens).argmax(-1).tolist()
    for tokens, label in zip(texts.tokens, labels, strict=True):
        target = Target(label, "probability").resolved(classifier.labels, label)
        why: Any = method(classifier, tokens, target, seeded(0))
        index = WordIndex(tokens)
        words = [(index.word(word), index.place(word)[0]) for word in index.pieces]
        items.append({"label": label, "words": words, "effects": index.sums(why.scores).round(DECIMALS)})
    return items


def word_effects(items: Sequence[Mapping[str, Any]]) -> dict[tuple[int, int], list[str]]:
    """For each label and text of a pair: words by their mean effect, the largest first, if it is positive.

    Words of a single text come after the others: their mean is an effect on one text.
    """
    found: dict[tuple[int, int], dict[str, list[float]]] = {}
    for item in items:
        for (word, segment), effect in zip(item["words"], item["effects"], strict=True):
            if any(ch.isalnum() for ch in word):
                found.setdefault((item["label"], segment), {}).setdefault(word, []).append(effect)
    ranked = {}
    for key, words in found.items():
        means = {word: float(np.mean(effects)) for word, effects in words.items()}
        order = sorted(means, key=lambda word: (len(words[word]) < MIN_WORD_TEXTS, -means[word], word))
        ranked[key] = [word for word in order if means[word] > 0]
    return ranked


@dataclass(frozen=True)
class WordLists:
    """The words of each control, the strongest first: for a label, and for the first or the second text of a pair."""

    effects: Mapping[tuple[int, int], Sequence[str]]
    lexicons: Mapping[int, Lexicon]

    def words(self, source: str, label: int, segment: int) -> Sequence[str]:
        """A ranked list; empty if the control has no words."""
        lexicon = self.lexicons[segment]
        if source == LOO:
            return self.effects.get((label, segment), ())
        return lexicon.strongest(label) if source == ODDS else lexicon.frequent(label)

    def ranked(self, source: str, trigger: Trigger, count: int) -> list[Trigger]:
        """The i-th candidate has the words of ranks i, i + 1, …, in the places of the trigger."""
        lists = {segment: self.words(source, trigger.label, segment) for segment in set(trigger.segments)}
        if not all(lists.values()):
            return []
        found = []
        for i in range(count):
            taken = dict.fromkeys(lists, 0)
            words = []
            for segment in trigger.segments:
                words.append(lists[segment][(i + taken[segment]) % len(lists[segment])])
                taken[segment] += 1
            found.append(trigger.with_words(words))
        return list(dict.fromkeys(found))

    def random(self, trigger: Trigger, rng: torch.Generator) -> Trigger:
        """Random words with a letter, each word of the training texts equally likely."""

        def draw(segment: int) -> str:
            known = self.vocabulary(segment)
            return known[int(torch.randint(len(known), (), generator=rng))]

        return trigger.with_words([draw(segment) for segment in trigger.segments])

    def vocabulary(self, segment: int) -> list[str]:
        """The words with a letter."""
        words = [word for word in self.lexicons[segment].words if any(ch.isalpha() for ch in word)]
        return words or list(self.lexicons[segment].words)


# attacks


def attacked(
    classifier: Classifier, texts: Texts, triggers: Callable[[int], Sequence[Trigger]], index: Sequence[int]
) -> list[dict[str, Any]]:
    """For each text and the triggers against its gold label: the predicted label, and the probability of the trigger's.

    `index` has the model's number of each label. Predicted labels are in the numbers of the first model. A text with
    words in it that is too long for the model is cut at its end.
    """
    plan = [(i, trigger) for i, gold in enumerate(texts.gold.tolist()) for trigger in (None, *triggers(gold))]
    read = [read_with(classifier, texts.examples[i], trigger) for i, trigger in plan]
    chances = probabilities_of(logits_of(classifier, read), classifier)[:, list(index)] if read else np.empty((0, 0))
    items: list[dict[str, Any]] = [{"before": None, "label": [], "chance": []} for _ in texts.examples]
    for (i, trigger), chance in zip(plan, chances, strict=True):
        if trigger is None:
            items[i]["before"] = chance.round(DECIMALS)
        else:
            items[i]["label"].append(int(chance.argmax()))
            items[i]["chance"].append(round(float(chance[trigger.label]), DECIMALS))
    return items


def read_with(classifier: Classifier, example: Example, trigger: Trigger | None) -> Tokens:
    """The tokens of a text, with a trigger in it if there is one, as the model reads them."""
    if trigger is not None:
        example, _ = trigger.insert(example)
    return classifier.tokens(example.text, example.pair).cut(classifier.limit)


@dataclass(frozen=True)
class Choice:
    """The choice of triggers on dev texts: by the share of rightly predicted texts that become wrong."""

    trial: Trial
    classifier: Classifier
    texts: Texts
    kept: int
    candidates: int  # that are tried against a label

    def of_patterns(self, patterns: Sequence[Pattern]) -> dict[int, list[tuple[Pattern, float]]]:
        """The best patterns against each gold label, of another label, with their success; none without right texts."""
        labels = range(len(self.classifier.labels))
        ranked = sorted(patterns, key=lambda p: (-p.strength, p.text))
        against = {gold: [p for p in ranked if p.label != gold][: self.candidates] for gold in labels}
        numbers = self._try("choosing triggers", {gold: [p.trigger for p in group] for gold, group in against.items()})
        chosen = {}
        for gold, keys in numbers.items():
            order = sorted(range(len(keys)), key=lambda i: (tuple(-x for x in keys[i]), i))[: self.kept]
            chosen[gold] = [(against[gold][i], keys[i][0]) for i in order]
        return chosen

    def with_controls(
        self, chosen: Mapping[int, Sequence[tuple[Pattern, float]]], lists: WordLists, draws: int
    ) -> list[Attack]:
        """Each chosen pattern with its controls, each the best of as many as there were patterns."""
        cells = [(gold, rank, p, s) for gold, group in chosen.items() for rank, (p, s) in enumerate(group, 1)]
        options: dict[tuple[int, int, str], list[Trigger]] = {}
        for gold, rank, pattern, _ in cells:
            trigger = pattern.trigger
            options |= {
                (gold, rank, s): lists.ranked(s, trigger, self.candidates) for s in CONTROLS if s != CHOSEN_RANDOM
            }
            options[gold, rank, CHOSEN_RANDOM] = self._random(lists, trigger, self.candidates, "chosen", gold, rank)
        tried = {gold: [t for key, group in options.items() if key[0] == gold for t in group] for gold in chosen}
        numbers = {gold: iter(keys) for gold, keys in self._try("choosing controls", tried).items()}
        best: dict[tuple[int, int, str], tuple[Trigger, float]] = {}
        for key, group in options.items():
            keys = [next(numbers[key[0]]) for _ in group]
            if group:
                i = min(range(len(group)), key=lambda i: (tuple(-x for x in keys[i]), i))
                best[key] = group[i], keys[i][0]
        return [
            Attack(
                gold,
                rank,
                pattern,
                {s: best[gold, rank, s][0] for s in CONTROLS if (gold, rank, s) in best},
                tuple(self._random(lists, pattern.trigger, draws, "draws", gold, rank)),
                {ATTRIBUTION: success} | {s: best[gold, rank, s][1] for s in CONTROLS if (gold, rank, s) in best},
            )
            for gold, rank, pattern, success in cells
        ]

    def _random(self, lists: WordLists, trigger: Trigger, count: int, *key: object) -> list[Trigger]:
        return [lists.random(trigger, self.trial.rng("random words", *key, i)) for i in range(count)]

    def _try(self, doing: str, triggers: Mapping[int, Sequence[Trigger]]) -> dict[int, list[tuple[float, float]]]:
        """For each gold label with texts that are predicted rightly, and each trigger: its success, and its pull.

        The pull, the mean change of the probability of the trigger's label, decides between equal successes.
        """
        index = range(len(self.classifier.labels))
        chunks = self.trial.chunks(
            doing, self.texts, lambda part: attacked(self.classifier, part, lambda gold: triggers.get(gold, ()), index)
        )
        items = [item for chunk in chunks for item in chunk]
        found = {}
        for gold, group in triggers.items():
            right = [
                item
                for item, label in zip(items, self.texts.gold, strict=True)
                if label == gold and int(np.argmax(item["before"])) == gold
            ]
            if not right or not group:
                continue
            success = np.mean([[label != gold for label in item["label"]] for item in right], 0)
            pulled = [
                [after - item["before"][t.label] for t, after in zip(group, item["chance"], strict=True)]
                for item in right
            ]
            found[gold] = [(float(s), float(p)) for s, p in zip(success, np.mean(pulled, 0), strict=True)]
        return found


@dataclass(frozen=True)
class Scores:
    """What one model predicts for the test texts, as rows and differences."""

    items: Sequence[Mapping[str, Any]]
    gold: Ints
    attacks: Mapping[int, Sequence[Attack]]
    labels: tuple[str, ...]
    measures: Mapping[str, Measure]
    at: Place

    def rows(self) -> list[Row]:
        """Each measure of each source: over all labels, for each gold label, and for each trigger."""
        rows = []
        about = self.measures
        for measure in about:
            tables = [(place, self._values(measure, place)) for place in self._places()]
            keys = [(i, s) for i, (_, table) in enumerate(tables) for s in table if s not in (RANDOM, UNCHANGED)]
            compared = dict(
                zip(
                    keys,
                    decide([paired(tables[i][1][s], tables[i][1][RANDOM]) for i, s in keys], about[measure].better),
                    strict=True,
                )
            )
            for i, (place, table) in enumerate(tables):
                for source, values in table.items():
                    at = {**self.at, **place}
                    rows.append(row_of("triggers", about, measure, values, source, at, compared.get((i, source))))
        return rows

    def differences(self) -> list[PairedDifference]:
        """Attribution less each control, over all labels and for each gold label."""
        found = []
        for measure in ("success", "probability"):
            places = [place for place in self._places() if "trigger" not in place]
            tables = {i: self._values(measure, place) for i, place in enumerate(places)}
            keys = [(i, s) for i, table in tables.items() for s in table if s != ATTRIBUTION]
            pairs = [paired(tables[i][ATTRIBUTION], tables[i][s]) for i, s in keys]
            for (i, source), difference in zip(keys, decide(pairs, "higher"), strict=True):
                assert difference is not None
                found.append(PairedDifference(measure, ATTRIBUTION, source, difference, {**self.at, **places[i]}))
        return found

    def _places(self) -> list[Place]:
        gold = [g for g, group in self.attacks.items() if group and (self.gold == g).any()]
        each: list[Place] = []
        for g in gold:
            each.append({"gold": self.labels[g]})
            each += [{"gold": self.labels[g], "trigger": attack.rank} for attack in self.attacks[g]]
        return [{"gold": "all"}, *each]

    def _values(self, measure: str, place: Place) -> dict[str, Floats]:
        """For each source a number of each text with the place's gold label: the mean over triggers and draws."""
        found: dict[str, list[float]] = {}
        for item, gold in zip(self.items, self.gold.tolist(), strict=True):
            if place["gold"] not in ("all", self.labels[gold]) or not self.attacks[gold]:
                continue
            mine = list(self._of_text(measure, item, gold, place.get("trigger")))
            for source in dict.fromkeys(s for s, _ in mine):
                found.setdefault(source, []).append(float(np.mean([x for s, x in mine if s == source])))
            if measure == "accuracy":
                found.setdefault(UNCHANGED, []).append(float(int(np.argmax(item["before"])) == gold))
        return {source: np.array(values) for source, values in found.items()}

    def _of_text(self, measure: str, item: Mapping[str, Any], gold: int, rank: object) -> Iterator[tuple[str, float]]:
        """The number of each trigger on a text; NaN where it does not exist."""
        before = int(np.argmax(item["before"]))
        start = 0
        for attack in self.attacks[gold]:
            pulled = attack.pattern.label
            sources = attack.sources()
            for j, source in enumerate(sources, start):
                after, chance = item["label"][j], item["chance"][j]
                numbers = {
                    "success": float(after != gold) if before == gold else np.nan,
                    "accuracy": float(after == gold),
                    "pull": float(after == pulled) if before != pulled else np.nan,
                    "probability": chance - item["before"][pulled],
                }
                if rank in (None, attack.rank):
                    yield source, numbers[measure]
            start += len(sources)

    def first_success(self, attack: Attack) -> int | None:
        """The first text on which a trigger succeeds."""
        at = self.attacks[attack.gold].index(attack)
        start = sum(len(other.all()) for other in self.attacks[attack.gold][:at])
        for i, (item, gold) in enumerate(zip(self.items, self.gold.tolist(), strict=True)):
            if gold == attack.gold == int(np.argmax(item["before"])) and item["label"][start] != gold:
                return i
        return None
