"""Input reduction and minimal flips against brute force over all sets of words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from heedful.core.errors import BadInput, Unsupported
from heedful.core.explanation import Counterfactual, from_json
from heedful.core.tokens import Tokens
from heedful.maths.shapley import all_subsets
from heedful.methods.counterfactual import InputReduction, MinimalFlip
from heedful.methods.explain import explain
from heedful.methods.perturbation import Perturbing
from heedful.model.classifier import Classifier
from heedful.model.function import Plain
from heedful.model.inference import answers
from heedful.model.masking import features
from tests.support import games, toys
from tests.support.games import walsh
from tests.support.models import build, shared
from tests.support.parameters import mostly_thorough

TEXTS = ("good film bad story two", "the music was awful", "great acting and a warm story", "film", "bad bad film bad")
FAMILIES = ("bert", "gpt2", "bart", "bilstm")


def counterfactual(classifier: Classifier, text: str, how: Any, **more: Any) -> Counterfactual:
    found = explain(classifier, text, how, **more)
    assert isinstance(found, Counterfactual)
    return found


def labels_without(classifier: Classifier, tokens: Tokens, how: Perturbing) -> dict[tuple[int, ...], int]:
    """The label without each set of words, by brute force; a tie has no label (-1)."""
    d = len(features(tokens, how.by))
    gone = all_subsets(d)
    logits = answers(classifier, [how.variants(tokens, ~gone, torch.Generator())]).logits
    top = logits.topk(2, -1).values
    found = torch.where(top[:, 0] > top[:, 1], logits.argmax(-1), -1).tolist()
    return {tuple(np.flatnonzero(row).tolist()): label for row, label in zip(gone, found, strict=True)}


def removed(found: Counterfactual, how: Perturbing) -> tuple[int, ...]:
    """The words taken away, by number."""
    groups = features(found.tokens, how.by)
    away = set(found.removed)
    assert all(set(group) <= away or not set(group) & away for group in groups)
    return tuple(j for j, group in enumerate(groups) if set(group) <= away)


# minimal flips


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("tries", mostly_thorough([1, 4, 2000], (4,)))
def test_a_flip_is_as_small_as_it_says(family: str, text: str, tries: int) -> None:
    classifier = shared(family)
    how = MinimalFlip(tries=tries)
    found = counterfactual(classifier, text, how)
    labels = labels_without(classifier, found.tokens, how)
    said = labels[()]
    flips = [gone for gone, label in labels.items() if label not in (said, -1)]
    smallest = min(map(len, flips), default=None)
    if found.found:
        assert labels[removed(found, how)] not in (said, -1)
        assert found.outcome.index == labels[removed(found, how)]
        assert smallest is not None
        assert len(removed(found, how)) >= smallest
        if found.exact:
            assert len(removed(found, how)) == smallest
    elif found.exact:
        assert smallest is None
    if tries == 2000:
        assert found.exact
        assert found.found == (smallest is not None)
    assert found.source.forwards <= how.passes(classifier, found.tokens).forwards


@pytest.mark.parametrize("seed", mostly_thorough(range(12), range(4)))
@pytest.mark.parametrize("tries", [5, 40, 300])
@pytest.mark.parametrize("rho", [0.1, 0.3])
def test_flips_of_games_that_seldom_flip(seed: int, tries: int, rho: float) -> None:
    """Without proof a set may be too large, or be missed: of these 72 searches 21 prove nothing and 14 find nothing."""
    classifier = games.played(np.exp(walsh(8, rho, seed)))
    how = MinimalFlip(tries=tries)
    found = counterfactual(classifier, games.text(8), how)
    labels = labels_without(classifier, found.tokens, how)
    smallest = min((len(gone) for gone, label in labels.items() if label not in (labels[()], -1)), default=None)
    size = len(removed(found, how))
    assert not found.found or labels[removed(found, how)] != labels[()]
    assert smallest is None or size >= smallest
    assert not (found.exact and found.found) or size == smallest
    if tries == 300:
        assert found.exact
        assert found.found == (smallest is not None)
    if found.found and not found.exact:
        assert "a greedy search found this set" in found.notes[0]


def test_a_greedy_set_has_no_word_too_many() -> None:
    """Put any of its words back, and the label is the old one, or the set is already proven smallest."""
    for seed in range(10):
        classifier = games.played(walsh(10, 0.4, seed))
        how = MinimalFlip(tries=3)
        found = counterfactual(classifier, games.text(10), how)
        if not found.found:
            continue
        labels = labels_without(classifier, found.tokens, how)
        gone = removed(found, how)
        for word in gone if len(gone) > 1 else ():
            assert labels[tuple(j for j in gone if j != word)] in (labels[()], -1)


@pytest.mark.parametrize("text", TEXTS)
def test_a_flip_to_the_label_that_is_asked_for(text: str) -> None:
    classifier = build("bert", labels=4)
    how = MinimalFlip()
    tokens = classifier.tokens(text)
    labels = labels_without(classifier, tokens, how)
    for wanted in set(range(4)) - {labels[()]}:
        found = counterfactual(classifier, text, how, target=wanted)
        sizes = [len(gone) for gone, label in labels.items() if label == wanted]
        assert found.found == bool(sizes)
        assert found.exact
        if found.found:
            assert found.outcome.index == wanted
            assert len(removed(found, how)) == min(sizes)
        else:
            assert found.notes == ("no set of words changes the label",)


def test_the_predicted_label_against_another_leads_to_the_other() -> None:
    from heedful.core.target import Target

    classifier = build("bert", labels=4)
    said = counterfactual(classifier, TEXTS[0], "minimal-flip").prediction.index
    for other in set(range(4)) - {said}:
        one = counterfactual(classifier, TEXTS[0], "minimal-flip", target=other)
        two = counterfactual(classifier, TEXTS[0], "minimal-flip", target=Target(said, against=other))
        assert (one.removed, one.found) == (two.removed, two.found)


def test_a_pointer_flips_without_its_marker() -> None:
    """Two markers of one kind and one of the other: the two must go."""
    classifier = toys.build("bert", toys.POINTER)
    found = counterfactual(classifier, "ape yes bee yes no cat", "minimal-flip", target=0)
    assert found.found
    assert found.exact
    assert found.words() == ["yes", "yes"]


def test_a_bag_flips_without_its_heaviest_words() -> None:
    """The mean is above zero until the two heaviest words are gone: 1 + 0.87 against −0.6."""
    classifier = toys.build("bert", toys.BAG_TOY)
    found = counterfactual(classifier, "pig dog owl", MinimalFlip(masking="mask"))
    assert found.prediction.index == 1
    assert found.words() == ["pig", "owl"]
    assert found.exact


def test_nothing_flips_a_constant() -> None:
    constant = Plain(lambda texts: np.tile([0.3, 0.7], (len(texts), 1)))
    found = counterfactual(constant, games.text(6), "minimal-flip")
    assert (found.found, found.exact) == (False, True)
    assert found.notes == ("no set of words changes the label",)
    assert found.outcome.index == 1
    unproven = counterfactual(constant, games.text(6), MinimalFlip(tries=10))
    assert (unproven.found, unproven.exact) == (False, False)
    assert unproven.notes == ("no set of words was found that changes the label",)


# input reduction


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("beam", [1, 3])
def test_a_reduction_keeps_the_label_to_the_end(family: str, text: str, beam: int) -> None:
    classifier = shared(family)
    how = InputReduction(beam=beam)
    found = counterfactual(classifier, text, how)
    labels = labels_without(classifier, found.tokens, how)
    gone = removed(found, how)
    d = len(features(found.tokens, "word"))
    assert labels[gone] == labels[()] == found.outcome.index
    assert found.found == bool(gone)
    further = [tuple(sorted({*gone, j})) for j in range(d) if j not in gone]
    if len(gone) < d - 1:  # the last word always stays
        assert all(labels[more] != labels[()] for more in further)
        assert not found.exact
    else:
        assert len(gone) == d - 1
        assert found.exact
    assert found.source.forwards <= how.passes(classifier, found.tokens).forwards


@pytest.mark.parametrize("seed", range(8))
def test_a_reduction_takes_away_what_leaves_the_label_surest(seed: int) -> None:
    """A twin, step by step."""
    classifier = games.played(walsh(7, 0.2, seed))
    tokens = classifier.tokens(games.text(7))
    how = InputReduction()
    found = counterfactual(classifier, games.text(7), how)
    gone: tuple[int, ...] = ()
    said = found.prediction.index

    def sure(away: tuple[int, ...]) -> float:
        keep = np.array([[j not in away for j in range(7)]])
        logits = answers(classifier, [how.variants(tokens, keep, torch.Generator())]).logits
        return float(logits.softmax(-1)[0, said])

    while len(gone) < 6:
        steps = {tuple(sorted({*gone, j})): 0.0 for j in range(7) if j not in gone}
        steps = {away: sure(away) for away in steps}
        best = max(steps, key=lambda away: steps[away])
        if steps[best] <= 0.5:
            break
        gone = best
    assert removed(found, how) == gone


def test_a_wider_beam_takes_away_no_less() -> None:
    sizes = np.array(
        [
            [
                len(counterfactual(games.played(walsh(8, 0.8, s)), games.text(8), InputReduction(beam=b)).removed)
                for b in (1, 20)
            ]
            for s in range(12)
        ]
    )
    assert (sizes[:, 1] >= sizes[:, 0]).all()
    assert sizes[:, 1].sum() > sizes[:, 0].sum()


def test_a_reduction_of_a_constant_leaves_one_word() -> None:
    constant = Plain(lambda texts: np.tile([0.3, 0.7], (len(texts), 1)))
    found = counterfactual(constant, games.text(6), "input-reduction")
    assert len(found.kept) == 1
    assert found.exact


def test_one_word_cannot_be_reduced() -> None:
    found = counterfactual(shared("bert"), "film", "input-reduction")
    assert not found.found
    assert found.removed == ()


def test_a_reduction_keeps_the_predicted_label_only() -> None:
    classifier = shared("bert")
    said = counterfactual(classifier, TEXTS[0], "input-reduction").prediction
    other = (said.index + 1) % len(said.labels)
    with pytest.raises((BadInput, Unsupported), match="input-reduction keeps the predicted label"):
        explain(classifier, TEXTS[0], "input-reduction", target=other)
    same = counterfactual(classifier, TEXTS[0], "input-reduction", target=said.index)
    assert same.removed == counterfactual(classifier, TEXTS[0], "input-reduction").removed


# both


@pytest.mark.parametrize("how", ["input-reduction", "minimal-flip"])
def test_a_regression_model_has_no_label(how: str) -> None:
    classifier = build("bert", labels=1, problem_type="regression")
    with pytest.raises(Unsupported, match="tiny-bert is a regression model"):
        explain(classifier, TEXTS[0], how)


@pytest.mark.parametrize("how", [InputReduction, MinimalFlip])
def test_random_words_are_refused(how: Any) -> None:
    with pytest.raises(BadInput, match="draws different words each time; choose another masking"):
        explain(shared("bert"), TEXTS[0], how(masking="mlm:/nowhere"))


@pytest.mark.parametrize(
    "how", [InputReduction(), MinimalFlip(), InputReduction(masking="mask", by="token"), MinimalFlip(by="bag")]
)
@pytest.mark.parametrize(("text", "pair"), [(TEXTS[0], None), ("good film", "bad story"), ("bad bad film bad", None)])
def test_json_and_back(how: Any, text: str, pair: str | None) -> None:
    found = counterfactual(shared("bert"), text, how, pair=pair)
    again = from_json(found.to_json())
    assert isinstance(again, Counterfactual)
    assert again.to_json() == found.to_json()
    assert (again.removed, again.outcome, again.found, again.exact) == (
        found.removed,
        found.outcome,
        found.found,
        found.exact,
    )
    assert found.masking == how.masking


@pytest.mark.parametrize("how", [InputReduction(by="bag"), MinimalFlip(by="bag")])
def test_a_bag_of_words_goes_together(how: Any) -> None:
    found = counterfactual(games.played(np.array([0.0, 0.6, 0.1, 1.0])), "ape bee ape", how)
    assert {0, 2} <= set(found.removed) or not {0, 2} & set(found.removed)


@pytest.mark.parametrize("how", [InputReduction(beam=2), MinimalFlip(tries=50)])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_ten_classes_and_a_long_text_within_the_promise(how: Any, precision: Any) -> None:
    from dataclasses import replace

    classifier = build("bert", labels=10)
    how = replace(how, precision=precision)
    text = " ".join(["good film bad story"] * 6)
    found = counterfactual(classifier, text, how)
    assert found.source.forwards <= how.passes(classifier, found.tokens).forwards
    same = found.outcome.label == found.prediction.label
    assert same == (isinstance(how, InputReduction) or not found.found)


def test_windows_are_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="minimal-flip cannot be joined over windows"):
        explain(shared("bert"), " ".join(["good film"] * 60), MinimalFlip(tries=5), windows=True)


@pytest.mark.parametrize(
    ("method", "wrong", "message"),
    [
        (InputReduction, {"beam": 0}, "beam is a whole number of at least 1, not 0"),
        (MinimalFlip, {"tries": 0}, "tries is a whole number of at least 1, not 0"),
    ],
)
def test_wrong_settings_are_refused(method: Any, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        method(**wrong)
