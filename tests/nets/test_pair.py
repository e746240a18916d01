"""A pair whose answers are words of the text: a text of which words are removed keeps those of the whole text.

The twin is the same network without candidates, whose output gets -1e4 for each place that the story does not name.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from heedful.checks import check
from heedful.checks.adversarial_rows import affine_problem, query_attentions
from heedful.checks.base import removal_effects
from heedful.core.explanation import Attribution, Counterfactual
from heedful.core.target import ABSENT_LOGIT, Target
from heedful.data import Example
from heedful.methods import method
from heedful.methods.conformance import as_array
from heedful.methods.explain import explain
from heedful.model.batch import Batch
from heedful.model.classifier import Classifier
from heedful.model.inference import Engine, answers, sharing
from heedful.model.masking import Variants, features
from heedful.nets.pair import Pair, PairShape
from tests.methods.test_conformance import QUICK
from tests.model.test_masking import masks
from tests.support import cases, models
from tests.support.findings import same
from tests.support.models import EVERY, OUTSIDE, shared
from tests.support.parameters import mostly_thorough
from tests.support.stories import LOGIT, PLACES, loud, network, reader, stories, story, tokenizer

ONCE = story([("Mary", "garden"), ("John", "kitchen")], "Mary")  # each answer has one occurrence
WAYS = ("delete", "unk", "pad", "attention", "token:to", "token:office")
CHANGED = ("leave-one-out", *OUTSIDE)  # methods that run changed texts
UNCHANGED = (
    "attention-mean",
    "attention-gradient",
    "gradient-x-input",
    "integrated-gradients",
    "smoothgrad",
    "attattr",
)
CHECKS: dict[str, dict[str, Any]] = {
    "input-erasure": {"maskings": ["delete", "unk"], "points": 4, "greedy_words": 3, "exhaustive_words": 3},
    "sign": {},
    "infidelity": {"samples": 10},
    "stability": {"seeds": 1},
    "randomisation": {"stages": 1},
}  # those that run changed texts, or explain again


class Fixed(Pair):
    """The twin of a network, for one text: without candidates, and the logits of `absent` labels replaced."""

    absent: Tensor

    def forward(self, *args: Any, **inputs: Any) -> Any:
        out = super().forward(*args, **inputs)
        return replace(out, logits=out.logits.masked_fill(self.absent, -1e4))


@cache
def without_candidates() -> Fixed:
    net = Fixed(network(candidates=()).config)
    net.load_state_dict(loud().model.state_dict())
    return net.eval()


def twin(example: Example) -> Classifier:
    """With the answers of this story."""
    net = without_candidates()
    net.absent = torch.tensor([place not in example.text.split() for place in PLACES])
    return Classifier(net, tokenizer(), name=loud().name)


def tokens(classifier: Classifier, example: Example = ONCE) -> Any:
    return classifier.tokens(example.text, example.pair)


def without(classifier: Classifier, word: str, way: str = "delete", example: Example = ONCE) -> Variants:
    """The story without a word."""
    cut = tokens(classifier, example)
    return Variants(cut, np.array([[piece != word for piece in cut.pieces]]), way)


def off(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max())


# one text


@pytest.mark.parametrize("way", WAYS)
def test_a_text_without_its_answer_can_still_have_that_answer(way: str) -> None:
    result = answers(loud(), [without(loud(), "garden", way)]).logits
    assert (result[0] == ABSENT_LOGIT).tolist() == [place not in ("garden", "kitchen") for place in PLACES]
    assert off(result, answers(twin(ONCE), [without(twin(ONCE), "garden", way)]).logits) < 1e-6


def test_a_text_without_words_can_have_the_answers_of_the_text() -> None:
    cut = tokens(loud())
    result = answers(loud(), [Variants(cut, np.zeros((1, len(cut)), bool))]).logits
    assert (result[0] > ABSENT_LOGIT).sum() == 2


def test_an_answer_that_replaces_a_word_is_no_new_answer() -> None:
    assert answers(loud(), [without(loud(), "garden", "token:office")]).logits[0, PLACES.index("office")] == -1e4


def test_a_new_text_has_its_own_answers() -> None:
    """As in `sensitivity`, whose edits are tokenized anew."""
    shorter = loud().tokens("Mary moved to the . John moved to the kitchen .", ONCE.pair)
    assert [x > ABSENT_LOGIT for x in loud().predictions([shorter])[0].logits] == [p == "kitchen" for p in PLACES]


def test_the_only_occurrence_of_an_answer_has_the_effect_of_its_logit() -> None:
    """The planted reader looks at the place; without it, the answer's logit is that of a place nobody went to: 0."""
    why = explain(reader(), ONCE.text, "leave-one-out", pair=ONCE.pair)
    assert isinstance(why, Attribution)
    by_word = dict(zip(why.tokens.pieces, why.scores, strict=True))
    assert by_word["garden"] == pytest.approx(LOGIT, abs=0.02)
    assert np.abs(why.scores).max() == by_word["garden"]


# methods and checks


@pytest.mark.parametrize("name", mostly_thorough((*CHANGED, *UNCHANGED), CHANGED))
def test_every_method_agrees_with_the_twin(name: str) -> None:
    for example in (ONCE, stories(1, 5, sentences=2)[0]):
        ours, theirs = (
            explain(classifier, example.text, method(name, QUICK.get(name)), pair=example.pair)
            for classifier in (loud(), twin(example))
        )
        assert as_array(ours) == pytest.approx(as_array(theirs), abs=1e-5)
        assert np.abs(as_array(ours)).max() < 100
        assert ours.source.forwards == theirs.source.forwards


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *(("leave-one-out", {"masking": way}) for way in WAYS),
        ("leave-one-out", {"change": "variation"}),
        ("leave-one-out", {"by": "token"}),
        ("occlusion", {"window": 2, "masking": "unk"}),
        ("lime", {"samples": 60, "by": "word", "masking": "unk"}),
        ("lime", {"samples": 60, "sampling": "stratified", "estimator": "kriging"}),
        ("shapley", {"samples": 60, "exact_up_to": 3, "estimator": "wls"}),
        ("minimal-flip", {"tries": 30, "masking": "attention"}),
    ],
)
@pytest.mark.parametrize("target", [Target(), Target(scale="probability")], ids=["logit", "probability"])
def test_methods_with_other_settings_agree_with_the_twin(name: str, settings: dict[str, Any], target: Target) -> None:
    ours, theirs = (
        explain(classifier, ONCE.text, method(name, settings), target, ONCE.pair) for classifier in (loud(), twin(ONCE))
    )
    assert as_array(ours) == pytest.approx(as_array(theirs), abs=1e-5)
    if isinstance(ours, Counterfactual) and isinstance(theirs, Counterfactual):
        assert ours.outcome.logits == pytest.approx(theirs.outcome.logits, abs=1e-5)


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_agrees_with_the_twin(name: str) -> None:
    run: Any = check(name, CHECKS[name])
    ours, theirs = (run(cases.one(classifier, ONCE)) for classifier in (loud(), twin(ONCE)))
    assert same(ours, theirs)


# several texts


def differing() -> tuple[Example, Example]:
    """Stories that are equal without their last place."""
    return story([("Mary", "garden")], "Mary"), story([("Mary", "kitchen")], "Mary")


@pytest.mark.parametrize("way", ["delete", "unk"])
def test_equal_variants_of_two_texts_have_the_answers_of_their_own_text(way: str) -> None:
    examples = differing()
    variants = [without(loud(), str(example.label), way, example) for example in examples]
    rows = [one.rows(loud(), slice(0, 1)) for one in variants]
    assert replace(rows[0], possible=None).keys() == replace(rows[1], possible=None).keys()
    result = answers(loud(), variants)
    assert result.distinct == 2
    for i, example in enumerate(examples):
        assert off(result.logits[i : i + 1], answers(twin(example), variants[i : i + 1]).logits) < 1e-6


def test_an_answer_is_not_recalled_for_a_text_with_other_answers() -> None:
    """Also across methods, which share what was run."""
    with sharing(loud()):
        for example in differing():
            one = without(loud(), str(example.label), "delete", example)
            assert off(answers(loud(), [one]).logits, answers(twin(example), [one]).logits) < 1e-6
            before = loud().recalled
            answers(loud(), [one])
            assert loud().recalled == before + 1


@pytest.mark.parametrize("budget", [40, 4096])
def test_company_and_padding_do_not_matter(budget: int) -> None:
    examples = [example for n in (1, 2, 3) for example in stories(3, n, sentences=n)]
    cuts = [tokens(loud(), example) for example in examples]
    variants = [Variants(cut, masks(4, len(cut), seed)) for seed, cut in enumerate(cuts)]
    result = answers(loud(), variants, budget=budget).logits
    alone = [answers(twin(example), [one]).logits for example, one in zip(examples, variants, strict=True)]
    assert off(result, torch.cat(alone)) < 1e-5


@pytest.mark.usefixtures("bf16")
def test_bf16_does_not_carry_the_answers_of_one_text_to_another() -> None:
    cuts = [tokens(loud(), example) for example in stories(6, sentences=2)]
    variants = [Variants(cut, masks(6, len(cut), seed)) for seed, cut in enumerate(cuts)]
    rough = answers(loud(), variants, "bf16", torch.Generator().manual_seed(0))
    assert rough.exact is not None
    assert off(rough.logits, answers(loud(), variants).logits) < 0.05


def test_an_engine_that_runs_out_of_memory_keeps_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = tokens(loud())
    variants = [Variants(cut, masks(9, len(cut)))]
    whole = answers(loud(), variants).logits
    real = Classifier.logits

    def tight(self: Classifier, batch: Batch, *args: Any, **more: Any) -> Tensor:
        if len(batch) > 2:
            raise MemoryError
        return real(self, batch, *args, **more)

    monkeypatch.setattr(Classifier, "logits", tight)
    assert off(Engine(loud()).ask(variants).logits, whole) < 1e-6


def test_copies_of_a_variant_keep_its_answers() -> None:
    engine = Engine(loud())
    batch = engine._batch(without(loud(), "garden").rows(loud(), slice(0, 1)).take(np.array([0])))
    one = loud().logits(batch)
    assert (one > ABSENT_LOGIT).sum() == 2
    for copies in (loud().logits(batch.repeat(3)), loud().logits(batch, branch=((0, 2),))):
        assert off(copies, one.expand(3, -1)) < 1e-6
    assert torch.equal(loud().logits(batch.repeat(3).row(2)), one)


# absent answers are far below all others, and rounding is relative to those


def pairs_of_networks(scale: float) -> list[Classifier]:
    """The same weights with candidates and without."""
    nets = (network(), network(candidates=()))
    return [Classifier(models.loud(net, 0, scale), tokenizer()) for net in nets]


def test_absent_answers_do_not_make_a_network_affine() -> None:
    for classifier in pairs_of_networks(0.3):
        (text,) = query_attentions(cases.one(classifier, ONCE, ()), -1)
        assert affine_problem(text) is None


def test_small_effects_remain_beside_absent_answers() -> None:
    found = []
    for classifier in pairs_of_networks(0.05):
        case = replace(cases.one(classifier, ONCE, ()), target=Target(PLACES.index("garden")))
        each = ~np.eye(len(features(case.tokens)), dtype=bool)
        found.append(removal_effects([case], [each], "word", "unk")[0])
    assert found[0] == pytest.approx(found[1], abs=1e-9)
    assert 0 < np.abs(found[0]).max() < 1e-2


def test_an_integral_is_as_exact_beside_absent_answers() -> None:
    fine = method("attattr-tokens", {"tolerance": 1e-4})
    ours, theirs = (explain(c, ONCE.text, fine, "garden", ONCE.pair) for c in pairs_of_networks(0.7))
    assert as_array(ours) == pytest.approx(as_array(theirs), abs=1e-9)
    assert ours.source.forwards == theirs.source.forwards


# other models


@pytest.mark.parametrize("family", EVERY)
def test_models_without_candidates_are_not_asked_for_them(family: str) -> None:
    classifier = shared(family)
    cut = classifier.tokens("The film was not funny")
    rows = Variants(cut, masks(3, len(cut))).rows(classifier, slice(0, 3))
    batch = Engine(classifier)._batch(rows.take(np.arange(3)))
    assert classifier.possible(cut) is None
    assert (rows.possible, batch.possible) == (None, None)
    assert "possible" not in classifier.inputs(batch, batch.ids)


def test_a_pair_without_candidates_allows_every_label() -> None:
    net = Pair(PairShape(30, 3, embedding=5, hidden=4))
    assert net.possible(torch.tensor([[2, 9, 3]])) is None
