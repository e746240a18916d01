"""Sign, completeness, infidelity and complexity: against brute force, captum, scipy and arithmetic."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from captum.metrics import infidelity as captums
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy, pearsonr

from heedful.checks import axioms
from heedful.checks.axioms import Completeness, Complexity, Infidelity, Sign
from heedful.checks.base import Case, by_unit, removal_effects
from heedful.core.arrays import Floats
from heedful.core.errors import BadInput
from heedful.core.target import Target
from heedful.data import Example
from heedful.methods.gradient import IntegratedGradients
from heedful.methods.perturbation import LeaveOneOut
from heedful.model.inference import answers
from heedful.model.masking import Variants, features, over_positions
from tests.checks.test_agreement import attribution, numbers, passage, plain, said
from tests.nets.test_hierarchical import classifier as hierarchical
from tests.support import toys
from tests.support.cases import FEW, many, one
from tests.support.models import TEXTS, build, shared

POINTED = "ape bee yes cat dog elk fox"  # the marker is the third of seven words
SAME = (toys.build("gpt2", toys.BAG_TOY), "fox fox fox", ())  # the mean of foxes is one, however many there are
ASKING: tuple[Any, ...] = (Sign(), Infidelity(samples=8))
EVERY: tuple[Any, ...] = (*ASKING, Completeness(), Complexity())


def value(case: Case, kept: list[int]) -> float:
    """The target's value of the text with only these words, asked by itself."""
    groups = features(case.tokens)
    keep = np.array([[j in kept for j in range(len(groups))]])
    rows = Variants(case.tokens, over_positions(groups, keep, len(case.tokens)))
    return float(case.target.of(answers(case.classifier, [rows]).logits, case.classifier.head)[0])


def removed(case: Case) -> Floats:
    """What taking each word away does, one by one."""
    n = len(features(case.tokens))
    return np.array([value(case, list(range(n))) - value(case, [j for j in range(n) if j != i]) for i in range(n)])


def word_scores(case: Case, name: str) -> Floats:
    return by_unit(case.attributions[name].scores, features(case.tokens))


# effects


def test_effects_are_what_taking_words_away_does() -> None:
    case = one(shared("bert"), TEXTS[0], ())
    n = len(features(case.tokens))
    found = removal_effects([case], [~np.eye(n, dtype=bool)], "word", "delete")[0]
    np.testing.assert_allclose(found, removed(case), atol=1e-5)


def test_an_answer_that_moves_by_rounding_only_does_not_move() -> None:
    case = one(*SAME)
    assert removal_effects([case], [~np.eye(3, dtype=bool)], "word", "delete")[0].tolist() == [0, 0, 0]


# sign


def test_leave_one_out_never_violates_itself() -> None:
    case = one(shared("bert"), TEXTS[0], ("leave-one-out",))
    assert numbers(Sign()(case), "leave-one-out") == {"violation": 0, "agreement of signs": 1}


def test_leave_one_out_turned_round_always_does() -> None:
    case = one(shared("bert"), TEXTS[0], ("leave-one-out",))
    why = case.attributions["leave-one-out"]
    case = replace(case, explanations={"turned": replace(why, scores=-why.scores)})
    assert numbers(Sign()(case), "turned") == {"violation": 1, "agreement of signs": 0}


@pytest.mark.parametrize("architecture", toys.ARCHITECTURES)
@pytest.mark.parametrize(("label", "violated"), [("LABEL_1", 0.0), ("LABEL_0", 1.0)])
def test_the_pointers_attention_claims_support_whatever_is_asked(
    architecture: str, label: str, violated: float
) -> None:
    """The word `yes` speaks for label 1 and so against label 0, and attention points at it both times."""
    case = one(toys.build(architecture, toys.POINTER), POINTED, ("attention-mean",), target=Target(label))
    assert numbers(Sign()(case), "attention-mean")["violation"] == violated


@pytest.mark.parametrize("top", [1, 2, 4, 99])
@pytest.mark.parametrize("name", ["gradient-x-input", "attention-mean", "integrated-gradients"])
def test_signs_against_a_slow_twin(name: str, top: int) -> None:
    case = one(shared("bert"), TEXTS[2], (name,))
    scores, moved = word_scores(case, name), removed(case)
    strongest = sorted(range(len(scores)), key=lambda i: -abs(scores[i]))[:top]
    expected = {
        "violation": np.mean([scores[i] * moved[i] < 0 for i in strongest]),
        "agreement of signs": np.mean([(s > 0) == (m > 0) for s, m in zip(scores, moved, strict=True)]),
    }
    assert numbers(Sign(top=top)(case), name) == pytest.approx(expected)


def test_an_unsigned_score_below_zero_claims_support_too() -> None:
    case = one(toys.build("bert", toys.POINTER), POINTED, ())
    pointing = -np.eye(7)[2] - 0.01
    signed, unsigned = (said(case, {"a": pointing}, signed=signed) for signed in (True, False))
    assert [numbers(Sign()(c), "a")["violation"] for c in (signed, unsigned)] == [1, 0]


def test_what_claims_nothing_violates_nothing() -> None:
    found = numbers(Sign()(said(plain(5), {"a": np.zeros(5)})), "a")
    assert all(math.isnan(x) for x in found.values())


def test_what_moves_nothing_is_no_violation_and_has_no_sign() -> None:
    case = one(*SAME)
    found = numbers(Sign()(said(case, {"a": [1.0, 2, 3]})), "a")
    assert found["violation"] == 0
    assert math.isnan(found["agreement of signs"])


def test_random_claims_support_in_each_of_its_draws() -> None:
    case = one(shared("bert"), TEXTS[0], ())
    moved = removed(case)
    tops = [int(np.argmax(by_unit(why.scores, features(case.tokens)))) for why in case.draws]
    found = numbers(Sign()(case), "random")
    assert found["violation"] == pytest.approx(np.mean(moved[tops] < 0))
    assert found["agreement of signs"] == pytest.approx(np.mean(moved > 0))


def test_a_saturated_model_still_has_signs() -> None:
    """All probabilities are within 1e-9 of 0 or 1: tiny effects are effects, as logits tell."""
    classifier = build("bert")
    with torch.no_grad():
        classifier.model.classifier.weight.mul_(30)
    case = one(classifier, TEXTS[2], ("leave-one-out",), target=Target(scale="probability"))
    assert case.prediction.probabilities is not None
    assert numbers(Sign()(case), "leave-one-out")["agreement of signs"] == 1


def test_the_way_of_taking_away_is_a_setting() -> None:
    names = (LeaveOneOut(masking="mask"),)
    case = one(shared("bert"), TEXTS[0], names)
    assert numbers(Sign(masking="mask")(case), "leave-one-out")["agreement of signs"] == 1


# completeness


def test_the_gap_is_the_methods_own() -> None:
    case = one(shared("bert"), TEXTS[0], (IntegratedGradients(steps=2),))
    why = case.attributions["integrated-gradients"]
    assert why.base is not None
    difference = case.prediction.logits[case.prediction.index] - why.base
    total = float(why.scores.sum())
    expected = {"gap": abs(difference - total), "relative gap": abs(1 - total / difference), "sum": total}
    assert numbers(Completeness()(case), "integrated-gradients") == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_shapley_values_add_up() -> None:
    case = one(shared("bert"), "good bad film", ("shapley",))
    assert numbers(Completeness()(case), "shapley")["relative gap"] < 1e-6


def test_methods_that_promise_nothing_are_not_measured() -> None:
    assert Completeness()(one(shared("bert"), TEXTS[0], FEW)) == []


def test_a_gap_in_nothing_has_no_share() -> None:
    case = said(plain(2), {"a": [1.0, 2.0]}, base=1.0, gap=-2_000_003.0)  # two special tokens have a million each
    found = numbers(Completeness()(case), "a")
    assert (found["gap"], found["sum"]) == (2_000_003, 2_000_003)
    assert math.isnan(found["relative gap"])


# infidelity


def test_subsets_are_proper_and_every_size_is_as_likely() -> None:
    sets = axioms.random_subsets(5, 4000, torch.Generator().manual_seed(0))
    sizes = np.bincount(sets.sum(1), minlength=6)
    assert sizes[[0, 5]].tolist() == [0, 0]
    assert np.abs(sizes[1:5] - 1000).max() < 110  # four standard deviations
    assert np.abs(sets.mean(0) - 0.5).max() < 0.04


def test_subsets_differ_within_a_size() -> None:
    found = {tuple(np.flatnonzero(row)) for row in axioms.random_subsets(4, 500, torch.Generator().manual_seed(0))}
    assert found == {c for k in (1, 2, 3) for c in combinations(range(4), k)}


@given(st.integers(0, 1000), st.integers(2, 30))
def test_scaled_infidelity_is_the_best_that_a_factor_can_do(seed: int, n: int) -> None:
    sums, moved = np.random.default_rng(seed).normal(size=(2, n))
    factors = np.linspace(0, 20, 4001)
    tried = ((factors[:, None] * sums - moved) ** 2).mean(1) / (moved**2).mean()
    found = axioms.scaled_infidelity(sums, moved)
    assert found <= tried.min() + 1e-12
    assert found == pytest.approx(tried.min(), abs=1e-2)


@pytest.mark.parametrize("factor", [0.01, 1.0, 50.0])
def test_a_scale_is_forgiven_by_scaled_infidelity_alone(factor: float) -> None:
    moved = np.array([1.0, 2, -3])
    assert axioms.scaled_infidelity(factor * moved, moved) == pytest.approx(0, abs=1e-12)
    assert axioms.infidelity(factor * moved, moved) == pytest.approx((factor - 1) ** 2 * 14 / 3)


def test_a_wrong_sign_is_not_forgiven() -> None:
    moved = np.array([1.0, 2, -3])
    assert axioms.scaled_infidelity(-moved, moved) == 1


def test_scores_of_zero_explain_nothing_and_correlate_with_nothing() -> None:
    found = numbers(Infidelity()(said(one(shared("bert"), "good bad film", ()), {"a": np.zeros(3)})), "a")
    assert found["infidelity scaled"] == 1
    assert math.isnan(found["correlation"])


@given(st.integers(0, 1000), st.integers(2, 30))
def test_correlation_is_pearsons(seed: int, n: int) -> None:
    sums, moved = np.random.default_rng(seed).normal(size=(2, n))
    assert axioms.correlation(sums, moved) == pytest.approx(pearsonr(sums, moved).statistic)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("method", [IntegratedGradients(), LeaveOneOut(masking="mask")])
def test_infidelity_is_captums(method: Any, normalize: bool) -> None:
    """The same sets of words, masked in token ids by captum's own perturbation of the input."""
    case = one(shared("bert"), TEXTS[0], (method,))
    (name,) = case.explanations
    groups = features(case.tokens)
    gone = axioms.random_subsets(len(groups), 50, case.rng("infidelity"))
    ids = torch.tensor([case.tokens.ids])
    taken = torch.from_numpy(~over_positions(groups, ~gone, len(case.tokens)))
    mask = case.classifier.tokenizer.mask_token_id
    types = None if case.tokens.types is None else torch.tensor([case.tokens.types])

    def forward(x: torch.Tensor) -> torch.Tensor:
        given = {"input_ids": x, "attention_mask": torch.ones_like(x)}
        if types is not None:
            given["token_type_ids"] = types.expand_as(x)
        with torch.no_grad():
            out: torch.Tensor = case.classifier.model(**given).logits.double()
        return out

    def perturb(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return taken.double(), torch.where(taken, mask, x)

    scores = torch.from_numpy(case.attributions[name].scores.copy())[None]
    expected = captums(
        forward, perturb, ids, scores, target=case.target.label, n_perturb_samples=50, normalize=normalize
    )
    effect = removal_effects([case], [~gone], "word", "mask")[0]
    found = numbers(Infidelity(masking="mask")(case), name)
    measured = found["infidelity scaled"] * float((effect**2).mean()) if normalize else found["infidelity"]
    assert measured == pytest.approx(float(expected), rel=1e-4)


def test_a_bag_of_words_is_explained_by_what_its_words_add() -> None:
    """Masked words keep their place in the mean, so that the effect of a set is the sum of its words' weights."""
    text = "ape fox owl bee pig cat"
    classifier = toys.build("bilstm", toys.BAG_TOY)
    case = one(classifier, text, (LeaveOneOut(masking="mask"),))
    found = numbers(Infidelity(masking="mask")(case), "leave-one-out")
    assert found["infidelity"] == pytest.approx(0, abs=1e-6)
    assert found["infidelity scaled"] == pytest.approx(0, abs=1e-4)
    assert found["correlation"] == pytest.approx(1, abs=1e-4)


def test_one_word_has_no_proper_sets() -> None:
    case = one(shared("bert"), "good", ("leave-one-out",))
    assert all(math.isnan(x) for x in numbers(Infidelity()(case), "leave-one-out").values())


def test_a_model_that_never_moves_has_nothing_to_explain() -> None:
    case = said(one(*SAME), {"a": [1.0, 2, 3]})
    found = numbers(Infidelity()(case), "a")
    assert found["infidelity"] > 1
    assert math.isnan(found["infidelity scaled"])
    assert math.isnan(found["correlation"])


# complexity


@pytest.mark.parametrize("n", [2, 5, 12])
def test_equal_scores_rest_on_all_words_and_one_score_on_one(n: int) -> None:
    found = Complexity()(said(plain(n), {"flat": -np.ones(n), "one": np.eye(n)[0]}))
    flat = {"entropy": math.log(n), "relative entropy": 1, "effective words": n, "gini": 0, "from uniform": 0}
    single = {"entropy": 0, "relative entropy": 0, "effective words": 1, "gini": 1 - 1 / n, "from uniform": 1 - 1 / n}
    assert numbers(found, "flat") == pytest.approx(flat, abs=1e-12)
    assert numbers(found, "one") == pytest.approx(single, abs=1e-12)


@given(st.integers(0, 1000), st.integers(2, 12))
def test_complexity_against_scipy_and_the_mean_difference(seed: int, n: int) -> None:
    scores = np.random.default_rng(seed).normal(size=n)
    found, size = axioms.complexity(scores), np.abs(scores)
    assert found["entropy"] == pytest.approx(entropy(size))
    assert found["relative entropy"] == pytest.approx(entropy(size, base=n))
    assert found["gini"] == pytest.approx(np.abs(size[:, None] - size).mean() / 2 / size.mean())


def test_one_word_has_no_relative_entropy() -> None:
    found = axioms.complexity(np.array([3.0]))
    assert (found["entropy"], found["effective words"]) == (0, 1)
    assert math.isnan(found["relative entropy"])
    assert math.isnan(found["gini"])


def test_scores_of_zero_have_no_complexity() -> None:
    assert all(math.isnan(x) for x in axioms.complexity(np.zeros(4)).values())


# all four


@pytest.mark.parametrize("check", EVERY, ids=lambda check: type(check).__name__)
@pytest.mark.parametrize("family", ["bert", "gpt2", "t5", "bilstm", "multihead"])
def test_models_of_every_kind(check: Any, family: str) -> None:
    names = (*FEW, "integrated-gradients")
    texts = [Example(TEXTS[3]), Example("Dull."), Example("good film", "bad music")]
    for case in many(shared(family), texts, names):
        found = check(case)
        assert {f.measure for f in found} == set(check.measures)
        expected = {"integrated-gradients"} if isinstance(check, Completeness) else set(names)
        assert {f.method for f in found} == expected


@pytest.mark.parametrize("check", EVERY, ids=lambda check: type(check).__name__)
@pytest.mark.parametrize("more", [{"labels": 10}, {"labels": 1, "problem_type": "regression"}, {"labels": 1}])
def test_any_head(check: Any, more: dict[str, Any]) -> None:
    case = one(build("bert", **more), TEXTS[3], ("leave-one-out", "integrated-gradients"))
    assert all(math.isfinite(f.value) for f in check(case))


@pytest.mark.parametrize("check", ASKING, ids=lambda check: type(check).__name__)
def test_a_network_with_two_levels(check: Any) -> None:
    case = one(hierarchical(), "The film was good, good music. Dull story.", ("attention-mean", "leave-one-out"))
    assert all(math.isfinite(f.value) for f in check(case))


@pytest.mark.parametrize("check", ASKING, ids=lambda check: type(check).__name__)
def test_several_texts_at_once_are_each_by_itself(check: Any) -> None:
    texts = [Example(TEXTS[0]), Example("good"), Example("good film", "bad music"), Example(TEXTS[3])]
    cases = many(shared("bert"), texts, FEW)
    for together, case in zip(check.many(cases), cases, strict=True):
        alone = check(case)
        assert [(f.method, f.measure) for f in together] == [(f.method, f.measure) for f in alone]
        np.testing.assert_allclose([f.value for f in together], [f.value for f in alone], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("check", EVERY, ids=lambda check: type(check).__name__)
@pytest.mark.parametrize("text", ["good", TEXTS[0]])
def test_no_more_is_asked_than_was_said(check: Any, text: str) -> None:
    case = one(shared("bert"), text, FEW)
    before = case.classifier.forwards
    check(case)
    assert case.classifier.forwards - before <= check.passes(case.classifier, case.tokens, case.methods).forwards


@pytest.mark.parametrize("check", ASKING, ids=lambda check: type(check).__name__)
def test_the_same_case_gives_the_same_numbers(check: Any) -> None:
    case = one(shared("bert"), TEXTS[0], FEW)
    assert check(case) == check(case)


def test_pieces_can_be_the_unit() -> None:
    case = one(shared("bert"), "unbelievably", ("leave-one-out",))
    pieces = len(case.tokens.content)
    assert pieces > 1
    assert numbers(Complexity(unit="token")(case), "uniform") == {}
    whole, parts = (attribution(case, np.ones(pieces)) for _ in range(2))
    case = replace(case, explanations={"a": whole, "b": parts})
    assert numbers(Complexity(unit="token")(case), "a")["effective words"] == pytest.approx(pieces)
    assert numbers(Complexity()(case), "a")["effective words"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("check", "wrong"),
    [(Sign, {"top": 0}), (Sign, {"masking": "burn"}), (Infidelity, {"samples": 1}), (Complexity, {"unit": "bag"})],
)
def test_settings_that_mean_nothing_are_refused(check: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="not"):
        check(**wrong)


def test_attention_that_is_uniform_over_all_that_it_sees_is_uniform() -> None:
    case, first, _ = passage()
    scores = np.zeros(len(case.tokens.content))
    scores[first] = 0.25
    assert numbers(Complexity()(said(case, {"a": scores})), "a")["from uniform"] == 0
