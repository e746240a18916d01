"""Triggers (Hao et al. 2021): words of strong attention attributions, inserted into other texts to change the output.

1. patterns    the head with the largest attribution of each training text, and the words of its two largest cells
2. choice      the patterns of a label are inserted into dev texts of other labels; the best are kept
3. controls    other words in the same places, as many, chosen on the same texts among as many
4. scores      on test texts, and on the same texts by other models
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, Any, ClassVar

import numpy as np

from heedful import data as datasets
from heedful.core.errors import BadInput, HeedfulError, Unsupported
from heedful.core.finding import FRACTION, Measure, Place
from heedful.core.settings import Checked, Count, Fraction, Ge, NotNegative
from heedful.data import Example
from heedful.model.classifier import Classifier
from heedful.studies.attacks import (
    ATTRIBUTION,
    CONTROLS,
    Attack,
    Choice,
    Scores,
    WordLists,
    attacked,
    leave_one_out,
    read_with,
    word_effects,
)
from heedful.studies.base import Cost, Subject, Texts, Trial, gold_index
from heedful.studies.heads import ATTATTR_NODES
from heedful.studies.heads_across_tasks import cut_texts, task_names
from heedful.studies.outcome import ExampleText, Result, WeightedWords
from heedful.studies.patterns import Pattern, Trigger, extract, pattern_of, strongest_patterns
from heedful.studies.words import Lexicon, counted_examples, lexicon_of, words_of

MAX_EXAMPLES = 6  # triggers that are shown
MIN_LONG_TEXTS = 2  # of `shortest` tokens


@dataclass(frozen=True)
class Triggers(Checked):
    """Insert the words that the strongest attention head connects, and score the model per gold label.

    Patterns are from `extracted` training texts of at least `shortest` tokens (cut to `max_tokens`): the head with the
    largest attribution for the predicted label's probability, and its two largest cells, the second only where it is
    at least `ratio` times the first. Special tokens are left out, and so are patterns whose two values add up to less
    than `least`. Against each label, the `candidates` strongest patterns of other labels are tried on `tuned` dev
    texts, and the `kept` best are scored on `scored` test texts. Whole words are inserted into the text, which is
    tokenized again.

    Each control has other words in the same places: words with the largest leave-one-out effect in the same training
    texts, the strongest log-odds words of the label, its most frequent words (no stop words), and random words, each
    the best of `candidates` on the same dev texts; and `draws` random draws that are not chosen. With several models,
    the triggers of the first are inserted for the others too.
    """

    extracted: Count = 500
    shortest: Count = 15
    max_tokens: Annotated[int, Ge(3)] = 128
    least: NotNegative = 0.02
    ratio: Fraction = 0.2
    candidates: Count = 20
    tuned: Count = 200
    scored: Count = 500
    kept: Count = 3
    draws: Count = 5

    takes: ClassVar[tuple[int, int]] = (1, 99)
    summary: ClassVar[str] = "insert the words that the strongest head connects, and count wrong predictions"
    paper: ClassVar[str] = "Hao et al. 2021"
    title: ClassVar[str] = "Adversarial triggers"
    question: ClassVar[str] = "Do the words that attention attributions connect change the prediction of other texts?"
    changes: ClassVar[str] = "a few words are inserted into each text, at the same relative places"
    reading: ClassVar[str] = (
        "A trigger succeeds on a text that was predicted rightly and is predicted wrongly with the words in it. "
        "Triggers were chosen on dev texts among several, and so was each control but plain random words: compare "
        "attribution with chosen random words for the effect of the words, and with leave-one-out and log-odds words "
        "for the effect of attention. A trigger that is not better than log-odds words shows which words the model has "
        "learned, and nothing about its attention. Inserted words may change what a text means: a success is not "
        "always an error of the model."
    )
    measures: ClassVar[Mapping[str, Measure]] = {
        "success": Measure("rightly predicted texts that are wrong with the trigger", "rate", "higher", range=FRACTION),
        "accuracy": Measure("share of texts whose predicted label is the gold one", "rate", "lower", range=FRACTION),
        "pull": Measure("other texts that become predicted as the trigger's label", "rate", "higher", range=FRACTION),
        "probability": Measure("change of the probability of the trigger's label", better="higher", range=(-1.0, 1.0)),
    }  # fmt: skip
    uses: ClassVar[Mapping[str, str]] = {
        "train": "patterns are extracted, and words counted",
        "dev": "triggers and controls are chosen",
        "test": "triggers are scored",
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "extracted": 60,
        "shortest": 8,
        "candidates": 8,
        "tuned": 60,
        "scored": 80,
        "kept": 2,
        "draws": 3,
    }

    def check(self, subjects: Sequence[Subject]) -> None:
        """Refuse a model without attention or two labels, short texts, and other models with other labels or data."""
        names = task_names(subjects)
        first = subjects[0].classifier
        if first is not None:
            check_labels(first)
            self._check_lengths(subjects[0].splits.train, first)
        for name, subject in zip(names[1:], subjects[1:], strict=True):
            if subject.splits != subjects[0].splits:
                raise BadInput(
                    f"triggers are transferred between models on one data set, not to {subject.data}; give one."
                )
            if first is not None and subject.classifier is not None:
                _check_same_labels(name, subject.classifier, first)

    def __call__(self, trial: Trial) -> Result:
        """Success, accuracy and pull of each trigger and control, by gold label and over all; and examples."""
        classifier = trial.classifier()
        check_labels(classifier)
        others = self._others(trial, classifier)
        train, tuned, scored = self._texts(trial, classifier)
        patterns = self._patterns(trial, classifier, train)
        best = strongest_patterns(patterns, self.least, self.candidates)
        if not best:
            raise BadInput(
                f"no pattern of {len(train)} training texts has two attributions of {self.least} together and a word; "
                "set a smaller least."
            )
        choice = Choice(trial, classifier, tuned, self.kept, self.candidates)
        chosen = choice.of_patterns([pattern for group in best.values() for pattern in group])
        if not chosen:
            labels = ", ".join(classifier.labels[label] for label in best)
            raise BadInput(
                f"all patterns are of texts predicted as {labels}, and no dev text of another label is predicted "
                "rightly; give a model that predicts more than one label."
            )
        lists = self._word_lists(trial, classifier, train, patterns)
        attacks = choice.with_controls(chosen, lists, self.draws)
        tables = [self._score(trial, 0, trial.subjects[0].name, classifier, scored, attacks)]
        for i, (name, other) in enumerate(others, 1):
            tables.append(self._score(trial, i, name, other, scored, attacks))
        rows = [row for table in tables for row in table.rows()]
        differences = [difference for table in tables for difference in table.differences()]
        return Result(
            rows=tuple(rows),
            differences=tuple(differences),
            examples=tuple(_examples(classifier, train, scored, attacks, tables[0])),
            texts=(train.used, tuned.used, scored.used),
            notes=self._notes(classifier, chosen, lists),
            details=_details(classifier, patterns, best, attacks, [name for name, _ in others]),
        )

    def costs(self, trial: Trial) -> list[Cost]:
        """Passes of the attributions, of leave-one-out, of the choice, and of the scores on each model."""
        classifier = trial.classifier()
        layers = max(1, sum(kind == classifier.main_kind for kind, _ in classifier.sites))
        splits = trial.subject.splits
        train, tuned, scored = (
            min(n, len(part))
            for n, part in ((self.extracted, splits.train), (self.tuned, splits.dev), (self.scored, splits.test))
        )
        words = round(np.mean([len(words_of(f"{e.text} {e.pair or ''}")) for e in splits.train[:100]]))
        nodes = ATTATTR_NODES * layers
        tried = self.candidates * (1 + self.kept * len(CONTROLS))
        each = 1 + self.kept * (1 + len(CONTROLS) + self.draws)
        return [
            Cost("attribution of training texts", train * nodes, train * nodes),
            Cost("leave-one-out of training texts", train * (1 + words)),
            Cost("choosing triggers and controls", tuned * tried),
            *(Cost(f"scoring by {subject.name}", scored * each) for subject in trial.subjects),
        ]

    # parts

    def _others(self, trial: Trial, classifier: Classifier) -> list[tuple[str, Classifier]]:
        """The models that triggers are transferred to, each with the same labels and the same data."""
        found = []
        for name, subject in zip(task_names(trial.subjects)[1:], trial.subjects[1:], strict=True):
            other = trial.classifier(subject)
            _check_same_labels(name, other, classifier)
            found.append((name, other))
        return found

    def _texts(self, trial: Trial, classifier: Classifier) -> tuple[Texts, Texts, Texts]:
        """Training texts of enough tokens, dev texts and test texts."""
        # subtle: short texts are left out after the draw, so more are drawn than are wanted
        drawn = trial.texts(classifier, "train", self.uses["train"], 4 * self.extracted)
        long = [i for i, tokens in enumerate(drawn.tokens) if len(tokens.content) >= self.shortest][: self.extracted]
        self._check_number(len(long), len(drawn))
        train = drawn.take(long)
        used = replace(train.used, texts=len(train), fingerprint=datasets.fingerprint(list(train.examples)))
        train = cut_texts(replace(train, used=used), self.max_tokens)
        tuned, scored = (
            trial.texts(classifier, split, self.uses[split], limit)
            for split, limit in (("dev", self.tuned), ("test", self.scored))
        )
        return train, tuned, scored

    def _check_lengths(self, examples: Sequence[Example], classifier: Classifier) -> None:
        """Refuse data without two texts of enough tokens."""

        def long(example: Example) -> bool:
            with suppress(HeedfulError):  # a text that the model cannot read is left out later
                tokens = classifier.tokens(example.text, example.pair).cut(classifier.limit)
                return len(tokens.content) >= self.shortest
            return False

        self._check_number(len(list(islice(filter(long, examples), MIN_LONG_TEXTS))), len(examples))

    def _check_number(self, enough: int, texts: int) -> None:
        if enough < MIN_LONG_TEXTS:
            raise BadInput(
                f"{enough} of {texts} training texts have {self.shortest} tokens or more; set a smaller shortest."
            )

    def _patterns(self, trial: Trial, classifier: Classifier, train: Texts) -> list[Pattern]:
        """The pattern of each training text that has one."""
        chunks = trial.chunks(
            "attribution of training texts", train, lambda part: extract(classifier, part, self.ratio)
        )
        stored = [item for chunk in chunks for item in chunk]
        return [pattern_of(i, item) for i, item in enumerate(stored) if item is not None]

    def _word_lists(self, trial: Trial, classifier: Classifier, train: Texts, patterns: Sequence[Pattern]) -> WordLists:
        """The words of each label, by each control; those of the second text of a pair by themselves."""
        segments = sorted({segment for pattern in patterns for segment in pattern.trigger.segments})
        chunks = trial.chunks("leave-one-out of training texts", train, lambda part: leave_one_out(classifier, part))
        effects = word_effects([item for chunk in chunks for item in chunk])
        examples, _ = counted_examples(trial, self.uses["train"])
        lexicons = {}
        for segment in segments:
            part = [e for e in examples if segment == 0 or e.pair is not None]

            def count(part: Sequence[Example] = part, segment: int = segment) -> Any:
                gold = np.array([gold_index(example, classifier.labels) for example in part])
                texts = [example.text if segment == 0 else example.pair or "" for example in part]
                return lexicon_of(texts, gold, len(classifier.labels)).to_json()

            lexicons[segment] = Lexicon.from_json(trial.step(f"counting words of text {segment}", count))
        return WordLists(effects, lexicons)

    def _score(
        self, trial: Trial, number: int, name: str, classifier: Classifier, texts: Texts, attacks: Sequence[Attack]
    ) -> Scores:
        """What a model predicts for each test text, before and with each trigger against its gold label."""
        first = trial.classifier()
        index = [classifier.labels.index(_same_name(label, classifier.labels)) for label in first.labels]
        by_gold = {gold: [a for a in attacks if a.gold == gold] for gold in range(len(first.labels))}

        def lists(gold: int) -> list[Trigger]:
            return [trigger for attack in by_gold[gold] for trigger in attack.all()]

        doing = "scoring triggers" if number == 0 else f"scoring triggers by model {number}"
        chunks = trial.chunks(doing, texts, lambda part: attacked(classifier, part, lists, index))
        items = [item for chunk in chunks for item in chunk]
        at: Place = {} if number == 0 else {"model": name}
        return Scores(items, texts.gold, by_gold, first.labels, self.measures, at)

    def _notes(self, classifier: Classifier, chosen: Mapping[int, Any], lists: WordLists) -> tuple[str, ...]:
        missing = [classifier.labels[i] for i in range(len(classifier.labels)) if i not in chosen]
        notes = []
        if missing:
            notes.append(
                f"No trigger was found against the label{'s' if len(missing) > 1 else ''} {', '.join(missing)}: no "
                "pattern of another label, or no dev text that is predicted rightly."
            )
        few = [sentence for lexicon in lists.lexicons.values() if (sentence := lexicon.few) is not None]
        if few:
            notes.append(f"{few[0]}; the others are in the order of the difference between their shares of texts.")
        return tuple(notes)


def check_labels(classifier: Classifier) -> None:
    """Refuse a model without attention, and one without two labels."""
    classifier.check_attention()
    if not classifier.sites:
        raise Unsupported("it has no attention heads", classifier.name)
    if classifier.head == "regression" or len(classifier.labels) < 2:
        raise Unsupported("it has no two labels, and a prediction can change only between labels", classifier.name)


def _check_same_labels(name: str, other: Classifier, first: Classifier) -> None:
    known, wanted = ({label.casefold() for label in c.labels} for c in (other, first))
    if known != wanted or len(other.labels) != len(first.labels):
        raise BadInput(
            f"{name} has the labels {', '.join(other.labels)}, and the first model {', '.join(first.labels)}; give "
            "models with the same labels."
        )


def _same_name(label: str, labels: Sequence[str]) -> str:
    return next(name for name in labels if name.casefold() == label.casefold())


# what is shown


def _examples(
    classifier: Classifier, train: Texts, scored: Texts, attacks: Sequence[Attack], scores: Scores
) -> Iterator[ExampleText]:
    """The training text of a trigger with its words marked, and a text that it changes; of each gold label in turn."""
    labels = classifier.labels
    for attack in sorted(attacks, key=lambda attack: (attack.rank, attack.gold))[:MAX_EXAMPLES]:
        pattern = attack.pattern
        example = train.examples[pattern.text]
        words = [*words_of(example.text), *words_of(example.pair or "")]
        weights = [1.0 if i in pattern.marks else 0.0 for i in range(len(words))]
        v1, v2 = pattern.values
        yield ExampleText(
            title=f"Trigger {attack.rank} against {labels[attack.gold]}: where it is from",
            label=f"{labels[pattern.label]} ({pattern.chance:.1%})",
            gold=str(example.label),
            colourings=(WeightedWords("what the strongest head connects", tuple(words), tuple(weights)),),
            note=f"Layer {pattern.layer}, head {pattern.head}; attributions {v1:.3f} and {v2:.3f}.",
        )
        changed = scores.first_success(attack)
        if changed is not None:
            yield _changed(classifier, scored.examples[changed], attack)


def _changed(classifier: Classifier, example: Example, attack: Attack) -> ExampleText:
    new, marks = attack.pattern.trigger.insert(example)
    words = [*words_of(new.text), *words_of(new.pair or "")]
    inserted = [mark for part in marks for mark in part]
    if len(inserted) != len(words):  # an inserted mark that is read together with its neighbour
        inserted = [word in attack.pattern.trigger.words for word in words]
    before, after = classifier.predictions([read_with(classifier, e, None) for e in (example, new)])
    shown = [f"{p.label} ({max(p.probabilities or (0,)):.1%})" for p in (before, after)]
    return ExampleText(
        title=f"Trigger {attack.rank} against {classifier.labels[attack.gold]}: a text that it changes",
        label=shown[1],
        gold=str(example.label),
        colourings=(WeightedWords("the inserted words", tuple(words), tuple(map(float, inserted))),),
        note=f"Without the inserted words: {shown[0]}.",
    )


def _details(
    classifier: Classifier,
    patterns: Sequence[Pattern],
    best: Mapping[int, Sequence[Pattern]],
    attacks: Sequence[Attack],
    others: Sequence[str],
) -> dict[str, Any]:
    labels = classifier.labels
    strongest: dict[tuple[int, int], int] = {}
    for pattern in patterns:
        strongest[pattern.layer, pattern.head] = strongest.get((pattern.layer, pattern.head), 0) + 1
    return {
        "patterns": len(patterns),
        "candidates": {labels[label]: len(group) for label, group in best.items()},
        "heads": [
            {"layer": layer, "head": head, "texts": n}
            for (layer, head), n in sorted(strongest.items(), key=lambda item: (-item[1], item[0]))
        ],
        "models": list(others),
        "triggers": [
            {
                "gold": labels[attack.gold],
                "trigger": attack.rank,
                "label": labels[attack.pattern.label],
                "layer": attack.pattern.layer,
                "head": attack.pattern.head,
                "values": attack.pattern.values,
                "segments": attack.pattern.trigger.segments,
                "places": attack.pattern.trigger.places,
                "words": {ATTRIBUTION: attack.pattern.trigger.words}
                | {source: control.words for source, control in attack.controls.items()},
                "dev": dict(attack.dev),
            }
            for attack in attacks
        ],
    }
