"""Cases: what checks are given."""

from __future__ import annotations

import numpy as np
import pytest

from heedful.audits.chunk import cases
from heedful.checks.base import by_unit, ranking
from heedful.core.errors import Unsupported
from heedful.data import Example
from heedful.methods import method
from heedful.methods.controls import Random
from heedful.model.masking import features
from tests.support import toys
from tests.support.cases import many, one
from tests.support.models import TEXTS, build, shared


def test_random_orders_of_words_do_not_depend_on_their_pieces() -> None:
    """In a sum over pieces, a word of three would come first almost always."""
    found = many(shared("bert"), [f"{text} {'x' * i}" for i in range(60) for text in TEXTS[2:3]])
    longest, shortest = [], []
    for case in found:
        groups = features(case.tokens)
        sizes = np.array([len(group) for group in groups])
        assert sizes.max() > 2
        for draw in case.draws:
            scores = by_unit(draw.scores, groups)
            longest.append(scores[sizes.argmax()])
            shortest.append(scores[sizes.argmin()])
    error = np.sqrt(1 / 12 / len(longest))
    assert np.mean(longest) == pytest.approx(0.5, abs=5 * error)
    assert np.mean(shortest) == pytest.approx(0.5, abs=5 * error)


def test_draws_are_the_same_again_and_differ_among_each_other() -> None:
    clf = shared("bert")
    first, second = one(clf, TEXTS[0]), one(clf, TEXTS[0])
    assert all(np.array_equal(a.scores, b.scores) for a, b in zip(first.draws, second.draws, strict=True))
    assert len({a.scores.tobytes() for a in first.draws}) == Random().draws


def test_the_number_of_draws_is_a_setting_and_changes_none_of_them() -> None:
    example = [Example(TEXTS[0])]
    few, usual = (cases(shared("bert"), example, {"random": Random(draws=n)}).cases[0] for n in (3, 20))
    assert [d.scores.tolist() for d in few.draws] == [d.scores.tolist() for d in usual.draws[:3]]


def test_another_seed_gives_other_chance() -> None:
    clf = shared("bert")
    a, b = one(clf, TEXTS[0]), one(clf, TEXTS[0], seed=1)
    assert not np.array_equal(a.draws[0].scores, b.draws[0].scores)
    assert a.rng("x").initial_seed() != b.rng("x").initial_seed() != b.rng("y").initial_seed()


def test_ties_are_in_random_order() -> None:
    case = one(shared("bert"), TEXTS[0])
    firsts = [int(ranking(np.ones(4), case.rng("tie", i))[0]) for i in range(400)]
    assert all(60 < firsts.count(i) < 140 for i in range(4))


def test_highest_first() -> None:
    case = one(shared("bert"), TEXTS[0])
    assert ranking(np.array([0.5, -2.0, 3.0]), case.rng()).tolist() == [2, 0, 1]


def test_a_method_that_refuses_one_text_explains_the_others() -> None:
    """Exhaustive Shapley values of a long text are refused; of a short one they are not."""
    clf = toys.build("bert", toys.POINTER)

    class Refusing:
        def __call__(self, classifier, tokens, target, rng):  # type: ignore[no-untyped-def]
            if len(tokens) > 5:
                raise Unsupported("too long")
            return method("uniform")(classifier, tokens, target, rng)

    made = cases(clf, [Example("ape yes"), Example("ape bee cat dog yes")], {"Refusing": Refusing()})
    assert ("Refusing" in made.cases[0].explanations, made.failures) == (True, {(1, "Refusing"): "too long"})


def test_gold_is_the_labels_index_by_name_or_number() -> None:
    clf = build("bert", labels=3)
    assert one(clf, Example(TEXTS[0], label=clf.labels[2])).gold == 2
    assert one(clf, Example(TEXTS[0], label="1")).gold == 1
    assert one(clf, TEXTS[0]).gold is None
