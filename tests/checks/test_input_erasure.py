"""Words taken out: every number again, one input at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import trapezoid

from heedful.checks import check
from heedful.checks.base import Case
from heedful.checks.input_erasure import InputErasure, MaskedText, _mean, _orders, area, count, first, one_more, steps
from heedful.core.errors import BadInput
from heedful.core.finding import Finding
from heedful.core.target import Target, activation
from heedful.data import Example
from heedful.maths.shapley import all_subsets
from heedful.methods.controls import Random
from heedful.model.batch import Batch
from heedful.model.function import Plain
from heedful.model.inference import sharing
from heedful.model.masking import features
from tests.checks.test_adversarial import pair
from tests.support import toys
from tests.support.cases import FEW, many, one
from tests.support.findings import same
from tests.support.models import TEXTS, build, shared

SHORT = "good music; the acting isn't"
SCORED = ("gradient-x-input", "attention-mean", "random")


def values(
    findings: Iterable[Finding], measure: str, masking: str = "delete", share: float | None = None
) -> dict[str, float]:
    """By method."""
    at = {"masking": masking} | ({} if share is None else {"removed" if measure == "curve" else "share": share})
    return {f.method: f.value for f in findings if f.measure == measure and dict(f.at) == at}


@dataclass
class Slow:
    """One input at a time, its ids put together by hand."""

    case: Case
    masking: str
    unit: Any = "word"

    @property
    def words(self) -> list[list[int]]:
        return features(self.case.tokens, self.unit)

    def logits(self, kept: Iterable[int]) -> torch.Tensor:
        tokens, classifier = self.case.tokens, self.case.classifier
        stay = {i for j in kept for i in self.words[j]} | {i for i, s in enumerate(tokens.special) if s}
        types = None if tokens.types is None else list(tokens.types)
        if self.masking == "delete":
            rows = [i for i in range(len(tokens)) if i in stay]
            ids, types = [tokens.ids[i] for i in rows], None if types is None else [types[i] for i in rows]
        else:
            mask = getattr(classifier.tokenizer, f"{self.masking}_token_id")
            ids = [t if i in stay else mask for i, t in enumerate(tokens.ids)]
        batch = Batch(
            torch.tensor([ids]), torch.ones(1, len(ids)).long(), None if types is None else torch.tensor([types])
        )
        with torch.no_grad():
            return classifier.logits(batch)[0].double()

    def p(self, kept: Iterable[int]) -> float:
        return float(activation(self.logits(kept)[None], self.case.classifier.head)[0, self.case.prediction.index])

    def order(self, name: str) -> list[int]:
        scores = self.case.attributions[name].scores
        totals = [sum(scores[i] for i in group) for group in self.words]
        return sorted(range(len(totals)), key=lambda j: -totals[j])


def answered(slow: Slow, order: Sequence[int]) -> dict[tuple[str, float | None], float]:
    """DeYoung et al. 2020 and the curves, from their definitions."""
    n, everything = len(order), range(len(order))
    full = slow.p(everything)
    found: dict[tuple[str, float | None], float] = {}
    for share in (0.05, 0.1, 0.2, 0.5):
        k = max(1, int(share * n + 0.5))
        found["comprehensiveness", share] = full - slow.p(set(everything) - set(order[:k]))
        found["sufficiency", share] = full - slow.p(order[:k])
    for name in ("comprehensiveness", "sufficiency"):
        found[f"aopc {name}", None] = float(np.mean([v for (m, _), v in found.items() if m == name]))
    gone = [slow.logits(order[k:]) for k in range(n + 1)]
    curve = [float(activation(x[None], slow.case.classifier.head)[0, slow.case.prediction.index]) for x in gone]
    found["deletion", None] = float(trapezoid(curve, dx=1 / n))
    found["insertion", None] = float(trapezoid([slow.p(order[:k]) for k in range(n + 1)], dx=1 / n))
    flipped = [k for k in range(n + 1) if gone[k].argmax() != gone[0].argmax()]
    found["first flip", None] = flipped[0] / n if flipped else np.nan
    found["never", None] = float(not flipped)
    k = max(1, int(0.2 * n + 0.5))
    found["tvd", 0.2] = float((gone[k].softmax(-1) - gone[0].softmax(-1)).abs().sum() / 2)
    for f in np.arange(11) / 10:
        found["curve", round(float(f), 1)] = float(np.interp(f, np.arange(n + 1) / n, curve))
    return found


# against slow twins


@pytest.mark.parametrize("masking", ["delete", "mask"])
@pytest.mark.parametrize("text", [Example(SHORT), Example("good film", "one two three"), Example(TEXTS[0])])
def test_every_number_is_that_of_one_input_at_a_time(masking: str, text: Example) -> None:
    case = one(shared("bert"), text, SCORED)
    findings = InputErasure(maskings=(masking,))(case)
    slow = Slow(case, masking)
    for name in ("gradient-x-input", "attention-mean"):
        wanted = answered(slow, slow.order(name))
        got = {key: values(findings, key[0], masking, key[1])[name] for key in wanted}
        assert got == pytest.approx(wanted, abs=1e-5, nan_ok=True)


@pytest.mark.parametrize("masking", ["delete", "mask"])
def test_by_sentences_every_number_is_that_of_one_input_at_a_time(masking: str) -> None:
    text = f"{TEXTS[0]} {TEXTS[1]} Good music! Bad film? {TEXTS[3]}"
    case = one(shared("bert"), text, (*SCORED[:2], Random(by="sentence")))
    findings = InputErasure(maskings=(masking,), unit="sentence")(case)
    slow = Slow(case, masking, "sentence")
    assert len(slow.words) == 5
    for name in ("gradient-x-input", "attention-mean"):
        wanted = answered(slow, slow.order(name))
        got = {key: values(findings, key[0], masking, key[1])[name] for key in wanted}
        assert got == pytest.approx(wanted, abs=1e-5, nan_ok=True)


def test_the_draws_of_random_have_its_unit() -> None:
    """Draws by words would rank long sentences first."""
    case = one(shared("bert"), f"{TEXTS[0]} {TEXTS[1]} Good music!", (Random(by="sentence"),))
    groups = features(case.tokens, "sentence")
    assert all(np.ptp(draw.scores[group]) == 0 for draw in case.draws for group in groups)
    assert sorted({int(order[0]) for order in _orders(MaskedText(case, "delete", "sentence"))["random"]}) == [0, 1, 2]


def test_a_long_text_is_erased_by_sentences_under_auto() -> None:
    text = "Good film. Bad music! " * 15
    case = replace(one(shared("bert"), text, ("uniform",)), tokens=shared("bert").tokens(text))
    assert len(MaskedText(case, "delete", "auto")) == 30 < 90 == len(MaskedText(case, "delete"))
    short = one(shared("bert"), TEXTS[0], ("uniform",))
    assert MaskedText(short, "delete", "auto").groups == MaskedText(short, "delete").groups
    assert same(InputErasure(unit="auto")(short), InputErasure()(short))


@pytest.mark.parametrize("family", ["gpt2", "t5", "bilstm", "multihead"])
def test_families_without_a_mask_and_networks_too(family: str) -> None:
    case = one(shared(family), SHORT, SCORED)
    findings = InputErasure()(case)
    slow = Slow(case, "unk" if family == "gpt2" else "mask")
    wanted = answered(slow, slow.order("gradient-x-input"))
    got = {key: values(findings, key[0], slow.masking, key[1])["gradient-x-input"] for key in wanted}
    assert got == pytest.approx(wanted, abs=1e-5, nan_ok=True)


def test_greedy_takes_the_word_that_lowers_the_probability_most() -> None:
    case = one(shared("bert"), TEXTS[0], SCORED)
    slow, order = Slow(case, "delete"), []
    left = set(range(len(slow.words)))
    while left:
        order.append(min(left, key=lambda j: slow.p(left - {j})))
        left -= {order[-1]}
    findings = InputErasure(maskings=("delete",))(case)
    wanted = answered(slow, order)
    assert {k: values(findings, k[0], "delete", k[1])["greedy"] for k in wanted} == pytest.approx(
        wanted, abs=1e-5, nan_ok=True
    )


def test_the_optimum_is_the_best_of_all_sets() -> None:
    case = one(shared("bert"), SHORT, SCORED)
    slow, findings = Slow(case, "delete"), InputErasure(maskings=("delete",))(case)
    n = len(slow.words)
    everything = set(range(n))
    k = max(1, int(n * 0.5 + 0.5))
    best = max(slow.p(everything) - slow.p(everything - set(gone)) for gone in combinations(everything, k))
    kept = min(slow.p(everything) - slow.p(some) for some in combinations(everything, k))
    sizes = [
        size
        for size in range(1, n + 1)
        if any(
            slow.logits(everything - set(gone)).argmax() != case.prediction.index
            for gone in combinations(everything, size)
        )
    ]
    assert values(findings, "comprehensiveness", share=0.5)["optimum"] == pytest.approx(best, abs=1e-6)
    assert values(findings, "sufficiency", share=0.5)["optimum"] == pytest.approx(kept, abs=1e-6)
    assert values(findings, "first flip")["optimum"] == (
        pytest.approx(sizes[0] / n) if sizes else pytest.approx(np.nan, nan_ok=True)
    )


# identities


@pytest.mark.parametrize("family", ["bert", "gpt2", "bilstm", "bart"])
@pytest.mark.parametrize("text", ["good", "good film", SHORT])
def test_no_order_beats_the_optimum(family: str, text: str) -> None:
    findings = InputErasure()(one(shared(family), text))
    for masking in ("delete", "unk" if family == "gpt2" else "mask"):
        for share in (0.05, 0.1, 0.2, 0.5):
            for measure, side in (("comprehensiveness", 1), ("sufficiency", -1)):
                got = values(findings, measure, masking, share)
                assert all(side * v <= side * got["optimum"] + 1e-9 for v in got.values())
        flips = values(findings, "first flip", masking)
        assert all(not v < flips["optimum"] for v in flips.values())
        assert values(findings, "never", masking)["optimum"] == min(values(findings, "never", masking).values())


def test_curves_run_from_everything_to_nothing() -> None:
    case = one(shared("bert"), TEXTS[0])
    findings = InputErasure(maskings=("delete",))(case)
    slow = Slow(case, "delete")
    for share, kept in ((0.0, range(len(slow.words))), (1.0, range(0))):
        assert values(findings, "curve", share=share) == pytest.approx(
            dict.fromkeys([*FEW, "greedy"], slow.p(kept)), abs=1e-6
        )


@pytest.mark.parametrize("masking", ["delete", "mask"])
def test_what_the_words_matter_at_all(masking: str) -> None:
    case = one(shared("bert"), TEXTS[0])
    slow = Slow(case, masking)
    without, whole = (slow.logits(kept).softmax(-1) for kept in (range(0), range(len(slow.words))))
    found = values(InputErasure(maskings=(masking,))(case), "tvd without words", masking)
    assert found == pytest.approx({"": float((without - whole).abs().sum() / 2)}, abs=1e-6)


def test_with_all_words_nothing_is_lacking_and_orders_do_not_matter() -> None:
    findings = InputErasure(shares=(1.0,), maskings=("mask",))(one(shared("bert"), SHORT))
    assert set(values(findings, "sufficiency", "mask", 1.0).values()) == {0.0}
    same = values(findings, "comprehensiveness", "mask", 1.0)
    assert same == pytest.approx(dict.fromkeys(same, same["optimum"]), abs=1e-12)


def test_several_texts_at_once_give_what_they_give_alone() -> None:
    cases = many(shared("bert"), [*TEXTS, Example("good film", "one two")], SCORED)
    together = InputErasure().many(cases)
    alone = [InputErasure()(case) for case in cases]
    for some, others in zip(together, alone, strict=True):
        assert [(f.method, f.measure, f.place) for f in some] == [(f.method, f.measure, f.place) for f in others]
        assert [f.value for f in some] == pytest.approx([f.value for f in others], abs=1e-5, nan_ok=True)


def test_what_is_shared_changes_no_number() -> None:
    classifier = build("bert")
    case = one(classifier, SHORT, SCORED)
    alone = InputErasure()(case)
    with sharing(classifier):
        InputErasure(exhaustive_words=0, greedy_words=0)(case)
        got = InputErasure()(case)
    assert [f.value for f in got] == pytest.approx([f.value for f in alone], abs=1e-6, nan_ok=True)


# toys with known answers


@pytest.mark.parametrize("architecture", ["bert", "gpt2", "bilstm"])
def test_where_attention_is_the_explanation_nothing_does_better(architecture: str) -> None:
    classifier = toys.build(architecture, toys.mix(0.3))
    findings = InputErasure(maskings=("delete",))(one(classifier, "ape bee yes cat ape"))
    best = values(findings, "comprehensiveness", share=0.2)
    assert best["attention-mean"] == best["leave-one-out"] == best["greedy"] == best["optimum"] > 0.2
    flips = values(findings, "first flip")
    assert flips["attention-mean"] == flips["leave-one-out"] == flips["greedy"] == flips["optimum"] == 0.2
    assert flips["position"] == 0.6
    assert best["random"] < best["optimum"]


def test_a_model_that_always_says_the_same_has_nothing_to_lose() -> None:
    findings = InputErasure()(one(Plain(lambda texts: [[0.9, 0.1]] * len(texts)), SHORT, ("leave-one-out", "random")))
    assert {f.value for f in findings if f.measure in ("comprehensiveness", "sufficiency", "tvd")} == {0.0}
    assert {round(f.value, 9) for f in findings if f.measure in ("deletion", "insertion", "curve")} == {0.9}
    assert {f.value for f in findings if f.measure == "never"} == {1.0}
    assert {f.at["masking"] for f in findings} == {"delete"}


# random


def _drawn(case: Case, orders: Iterable[Sequence[int]]) -> Case:
    """The case with draws that put its words in these orders."""
    firsts = [group[0] for group in features(case.tokens)]
    draws = []
    for order in orders:
        scores = np.zeros(len(case.tokens))
        scores[[firsts[j] for j in order]] = np.arange(len(order), 0, -1)
        draws.append(replace(case.draws[0], scores=scores))
    return replace(case, draws=tuple(draws))


def test_random_is_the_mean_over_its_draws() -> None:
    case = _drawn(one(shared("bert"), "good music acting", SCORED), permutations(range(3)))
    got = InputErasure(maskings=("delete",))(case)
    slow = Slow(case, "delete")
    each = [answered(slow, order) for order in permutations(range(3))]
    for key in (
        ("comprehensiveness", 0.5),
        ("aopc sufficiency", None),
        ("deletion", None),
        ("curve", 0.4),
        ("tvd", 0.2),
    ):
        wanted = np.mean([one[key] for one in each])
        assert values(got, key[0], "delete", key[1])["random"] == pytest.approx(wanted, abs=1e-5)


def test_without_curves_random_has_the_same_tvd_and_nothing_else() -> None:
    case = one(shared("bert"), "good music; the acting isn't what it should have been", SCORED)
    small = InputErasure(maskings=("delete",), points=3, greedy_words=0, exhaustive_words=0)
    whole, top = small(case), replace(small, random_curves=False)(case)
    assert {f.measure for f in top if f.method == "random"} == {"tvd"}
    wanted = {(f.method, f.measure, f.place): f.value for f in whole if f.method != "random" or f.measure == "tvd"}
    assert {(f.method, f.measure, f.place): f.value for f in top} == pytest.approx(wanted, abs=1e-6, nan_ok=True)
    methods = {name: case.methods[name] for name in SCORED}
    counts = [c.passes(case.classifier, case.tokens, methods) for c in (small, replace(small, random_curves=False))]
    sizes = len(small._sizes(len(features(case.tokens))))
    assert counts[0].forwards - counts[1].forwards == 20 * (2 * sizes - 1)


def test_twenty_draws_come_near_the_mean_over_all_orders() -> None:
    case = one(shared("bert"), "good music acting", SCORED)
    each = [answered(Slow(case, "delete"), o)["deletion", None] for o in permutations(range(3))]
    got = values(InputErasure(maskings=("delete",))(case), "deletion")["random"]
    assert abs(got - np.mean(each)) < 4 * np.std(each) / np.sqrt(20)


def test_words_of_many_pieces_do_not_come_first_by_chance() -> None:
    case = one(shared("bert"), "unbelievably a", ("random",))
    assert len(features(case.tokens)[0]) == 3  # by their sum, it would come first in 23 of 24 orders
    draws = [d for seed in range(20) for d in one(shared("bert"), "unbelievably a", ("random",), seed=seed).draws]
    orders = _orders(MaskedText(replace(case, draws=tuple(draws)), "delete"))["random"]
    assert np.mean([order[0] for order in orders]) == pytest.approx(0.5, abs=0.1)


def test_the_first_flip_of_several_draws_is_the_mean_over_those_that_flip() -> None:
    def drawn(fraction: float, never: float) -> dict[Any, float]:
        return {("first flip", None): fraction, ("never", None): never}

    mixed = _mean([drawn(0.5, 0), drawn(np.nan, 1)])
    assert (mixed["first flip", None], mixed["never", None]) == (0.5, 0.5)
    never = _mean([drawn(np.nan, 1)] * 2)
    assert (np.isnan(never["first flip", None]), never["never", None]) == (True, 1)
    number = _mean([drawn(np.nan, np.nan)] * 2)
    assert np.isnan([number["first flip", None], number["never", None]]).all()


# sets of words


def test_steps_have_both_ends_and_all_words_of_a_short_text() -> None:
    assert steps(3, 20).tolist() == [0, 1, 2, 3]
    assert steps(20, 20).tolist() == list(range(21))
    long = steps(137, 20)
    assert (len(long), long[0], long[-1]) == (21, 0, 137)
    assert set(np.diff(long)) <= {6, 7}


@pytest.mark.parametrize(
    ("share", "n", "k"), [(0.05, 4, 1), (0.2, 6, 1), (0.5, 5, 3), (0.2, 10, 2), (0.05, 10, 1), (1.0, 7, 7), (0.5, 1, 1)]
)
def test_shares_in_whole_words(share: float, n: int, k: int) -> None:
    assert count(share, n) == k


def test_sets_of_words() -> None:
    assert first(np.array([2, 0, 1]), [0, 1, 2]).tolist() == [[0, 0, 0], [0, 0, 1], [1, 0, 1]]
    assert len({row.tobytes() for row in all_subsets(5)}) == 32
    words, keep = one_more([1], 3)
    assert (words.tolist(), keep.tolist()) == ([0, 2], [[0, 0, 1], [1, 0, 0]])


def test_area_is_scipys() -> None:
    grid, p = np.array([0, 3, 4, 9]), np.array([0.9, 0.2, 0.7, 0.1])
    assert area(grid, p) == pytest.approx(trapezoid(p, grid / 9))


def test_a_long_text_is_measured_at_its_steps() -> None:
    case = one(shared("bert"), " ".join(TEXTS[:3]), SCORED)
    got = InputErasure(maskings=("delete",), points=5)(case)
    slow = Slow(case, "delete")
    order, n = slow.order("gradient-x-input"), len(slow.words)
    grid = steps(n, 5)
    assert (len(grid), n > 20) == (6, True)
    wanted = trapezoid([slow.p(order[k:]) for k in grid], grid / n)
    assert values(got, "deletion")["gradient-x-input"] == pytest.approx(wanted, abs=1e-5)
    assert np.isnan(values(got, "deletion")["greedy"])
    assert np.isnan(values(got, "aopc sufficiency")["optimum"])


@pytest.mark.parametrize("text", ["good", SHORT, TEXTS[0], " ".join(TEXTS[:3])])
def test_passes_are_at_least_what_is_run(text: str) -> None:
    classifier = build("bert")
    case = one(classifier, text, FEW)
    said = InputErasure().passes(classifier, case.tokens, case.methods)
    before = classifier.forwards
    InputErasure()(case)
    assert said.forwards / 4 < classifier.forwards - before <= said.forwards


# other heads, targets and maskings


def test_a_number_is_followed_itself_and_has_no_label_to_flip() -> None:
    case = one(build("bert", labels=1, problem_type="regression"), SHORT, SCORED)
    findings = InputErasure(maskings=("delete",))(case)
    slow = Slow(case, "delete")
    k = count(0.2, len(slow.words))
    fall = slow.p(range(len(slow.words))) - slow.p(slow.order("gradient-x-input")[k:])
    assert values(findings, "comprehensiveness", share=0.2)["gradient-x-input"] == pytest.approx(fall, abs=1e-5)
    assert values(findings, "tvd", share=0.2)["gradient-x-input"] == pytest.approx(abs(fall), abs=1e-5)
    assert np.isnan([*values(findings, "first flip").values(), *values(findings, "never").values()]).all()


def test_several_labels_at_once_are_coins() -> None:
    case = one(build("bert", problem_type="multi_label_classification"), SHORT, SCORED)
    findings = InputErasure(maskings=("delete",))(case)
    slow = Slow(case, "delete")
    fall = slow.p(range(len(slow.words))) - slow.p(slow.order("gradient-x-input")[1:])
    assert values(findings, "comprehensiveness", share=0.05)["gradient-x-input"] == pytest.approx(fall, abs=1e-5)


def test_the_label_that_is_explained_is_followed() -> None:
    case = one(shared("bert"), SHORT, SCORED, target=Target(label=1))
    other = next(i for i in range(3) if i != case.prediction.index)
    case = one(shared("bert"), SHORT, SCORED, target=Target(label=other))
    got = values(InputErasure(maskings=("delete",))(case), "curve", share=0.0)["random"]
    assert got == pytest.approx(case.prediction.probabilities[other], abs=1e-5)  # type: ignore[index]


def test_ten_classes() -> None:
    findings = InputErasure()(one(build("bert", labels=10), SHORT, SCORED))
    assert all(np.isfinite(f.value) for f in findings if f.measure != "first flip")
    assert {f.measure for f in findings} == set(InputErasure.measures)


@pytest.mark.parametrize("masking", ["delete", "mask", "unk", "pad", "attention", "token:film"])
def test_every_way_of_taking_words_away(masking: str) -> None:
    findings = InputErasure(maskings=(masking,))(one(shared("bert"), SHORT, SCORED))
    assert all(np.isfinite(v) for v in values(findings, "deletion", masking).values())


def test_a_way_that_the_model_does_not_have_is_left_out_with_the_reason() -> None:
    findings = InputErasure(maskings=("delete", "mask"))(one(shared("gpt2"), SHORT, SCORED))
    (left,) = [f for f in findings if f.at["masking"] == "mask"]
    assert (left.measure, np.isnan(left.value)) == ("left out", True)
    assert "has no mask token" in left.details["reason"]
    assert np.isfinite(values(findings, "deletion")["random"])


def test_one_text_that_fails_leaves_the_others_alone() -> None:
    def predict(texts: list[Any]) -> Any:
        if any(text == "the end" for text in texts):
            return [[np.nan, np.nan]] * len(texts)
        return [[0.8, 0.2]] * len(texts)

    fine, broken = many(Plain(predict), ["good film", "the end now"], ("uniform", "random"))
    some, others = InputErasure().many([fine, broken])
    assert values(some, "deletion")["random"] == pytest.approx(0.8)
    assert [f.measure for f in others] == ["left out"]


def test_where_chance_fills_the_gaps_nothing_is_called_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    def even(batch: Batch) -> torch.Tensor:
        return torch.full((*batch.ids.shape, 100), 0.01)

    monkeypatch.setattr("heedful.model.loading.language_model", lambda folder, tokenizer: even)
    case = one(shared("bert"), SHORT, SCORED)
    findings = InputErasure(maskings=("mlm:folder",))(case)
    got = values(findings, "deletion", "mlm:folder")
    assert np.isnan(got["greedy"])
    assert np.isnan(values(findings, "aopc sufficiency", "mlm:folder")["optimum"])
    assert np.isfinite([got["random"], got["gradient-x-input"]]).all()
    assert [f.value for f in InputErasure(maskings=("mlm:folder",))(case)] == pytest.approx(
        [f.value for f in findings], nan_ok=True
    )


@pytest.mark.parametrize(
    "given",
    [
        {"maskings": ("delet",)},
        {"maskings": ()},
        {"shares": ()},
        {"shares": (0.0,)},
        {"points": 0},
        {"exhaustive_words": 30},
    ],
)
def test_settings_are_checked(given: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        check("input-erasure", given)


# tables


@dataclass
class Planned:
    """Stands in for the findings of a run."""

    runs: list[list[Finding]]

    def values(self, measure: str, method: str = "", at: Any = None) -> Any:
        wanted = Finding("", method, measure, 0.0, at or {})
        key = (method, measure, wanted.place)
        return np.array(
            [next((f.value for f in run if (f.method, f.measure, f.place) == key), np.nan) for run in self.runs]
        )

    def methods(self, measure: str) -> list[str]:
        return list(dict.fromkeys(f.method for run in self.runs for f in run if f.measure == measure))

    def places(self, measure: str, method: str | None = None) -> list[dict[str, Any]]:
        return [dict(f.at) for run in self.runs for f in run if f.measure == measure]


def _planned(means: dict[str, dict[str, float]]) -> Any:
    """One finding for each masking and method, the same on two texts, and a method's bound."""
    run = [
        Finding("input-erasure", name, "aopc comprehensiveness", value, {"masking": way})
        for way, table in means.items()
        for name, value in (table | {"optimum": 1.0}).items()
    ]
    return Planned([run, run])


def test_methods_in_order_for_each_masking_and_how_far_these_agree() -> None:
    means = {"delete": {"a": 0.3, "b": 0.2, "random": 0.1}, "mask": {"a": 0.1, "b": 0.2, "random": 0.3}}
    tables = InputErasure().tables(_planned(means))
    assert tables.order == {"delete": ("a", "b", "random"), "mask": ("random", "b", "a")}
    (agreement,) = tables.agreement
    assert (agreement.a, agreement.b, round(agreement.tau, 9)) == ("delete", "mask", -1)


def test_mean_curves_of_a_run() -> None:
    cases = many(shared("bert"), [*TEXTS, SHORT], SCORED)
    found = Planned(InputErasure().many(cases))
    tables = InputErasure().tables(found)  # type: ignore[arg-type]
    curve = tables.curves["mask"]["attention-mean"]
    wanted = [found.values("curve", "attention-mean", {"masking": "mask", "removed": f}).mean() for f in curve.removed]
    assert curve.mean == pytest.approx(wanted)
    assert all(low <= mean <= high for low, mean, high in zip(curve.low, curve.mean, curve.high, strict=True))
    assert "optimum" not in tables.curves["mask"]


def test_the_top_fifth_is_of_the_words_that_attention_can_point_at() -> None:
    case = one(pair(), Example("Good film, awful story. A cat sat on a mat.", "The film isn't bad."), FEW)
    text = MaskedText(case, "delete")
    order = np.arange(len(text))[::-1]  # the words of the second text first
    removed = np.flatnonzero(~text.without_top(order)[0])
    seen = np.flatnonzero(text.attended)
    assert removed.tolist() == seen[-count(0.2, len(seen)) :].tolist()
    assert {case.tokens.segments[text.groups[word][0]] for word in removed} == {0}
    findings = InputErasure(maskings=("delete",), exhaustive_words=0, greedy_words=0)(case)
    assert not [f for f in findings if f.measure == "tvd" and f.method in FEW and np.isnan(f.value)]


def test_the_top_fifth_of_a_text_that_attention_sees_whole_is_the_first_fifth_of_the_order() -> None:
    text = MaskedText(one(shared("bert"), TEXTS[0], ()), "delete")
    order = np.random.default_rng(0).permutation(len(text))
    assert np.array_equal(text.without_top(order), ~first(order, [count(0.2, len(text))]))
