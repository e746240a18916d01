"""Sentences as features: passes and CPU seconds by words and by sentences, as a text grows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from benchmarks.material import Scale, documents, named, resolved, trained
from benchmarks.measure import Report, Row, Unit, in_turns
from heedful.core.tokens import Tokens
from heedful.methods import Method
from heedful.methods.lime import Lime
from heedful.methods.perturbation import LeaveOneOut
from heedful.methods.shapley import Shapley
from heedful.model.masking import Unit as By
from heedful.model.masking import features

JOB = "sentences"
LENGTHS = (20, 60, 180, 500)  # tokens
MAX_SAMPLED = 180  # tokens of the texts that methods with samples explain
METHODS: dict[str, Callable[[By], Method]] = {
    "leave-one-out": lambda by: LeaveOneOut(by=by),
    "lime, 200 samples": lambda by: Lime(by=by, samples=200),
    "shapley, 200 samples": lambda by: Shapley(by=by, samples=200, exact_up_to=7),
}


def run(scale: Scale) -> Report:
    """One text, cut at each length; of a method with samples, up to MAX_SAMPLED."""
    lengths = LENGTHS[:2] if scale.quick else LENGTHS
    cells = [(name, n) for name in METHODS for n in lengths if name == "leave-one-out" or n <= MAX_SAMPLED]
    return Report([row for name, n in cells for row in _rows(name, n)])


def _rows(name: str, length: int) -> list[Row]:
    tokens = trained().tokens(documents(1, length)[0])
    units: tuple[By, By] = ("word", "sentence")
    timed = in_turns({by: partial(_passes, METHODS[name](by), tokens) for by in units}, rounds=3 if length <= 60 else 1)
    words, sentences = (len(features(tokens, by)) for by in units)

    def row(theirs: float, ours: float, unit: Unit) -> Row:
        return Row(
            job=f"{JOB}, {name}",
            on=f"{len(tokens)} tokens, {named(trained())}",
            against="by words",
            theirs=theirs,
            ours=ours,
            target=None,
            agreement=f"{words} words, {sentences} sentences" if sentences < words else "one sentence, so words",
            unit=unit,
        )

    by_word, by_sentence = timed["word"], timed["sentence"]
    return [row(by_word.result, by_sentence.result, "passes"), row(by_word.seconds, by_sentence.seconds, "s")]


def _passes(method: Method, tokens: Tokens) -> int:
    """Explains the text, and returns how often the model ran."""
    classifier = trained()
    target, before = resolved(classifier, tokens), classifier.forwards
    method(classifier, tokens, target, torch.Generator().manual_seed(0))
    return classifier.forwards - before
