"""Attention erased: every number again, one forward pass at a time or by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.cbook import boxplot_stats
from scipy.spatial.distance import jensenshannon
from scipy.stats import binomtest
from scipy.stats import entropy as scipy_entropy

from heedful.checks import check
from heedful.checks.base import Case, by_unit
from heedful.checks.erasure import (
    RANKINGS,
    Erased,
    Erasure,
    Items,
    box_numbers,
    fewer,
    first_flips,
    flips,
    from_uniform,
    negative,
    stop_values,
)
from heedful.checks.tables import Fewer, Flips
from heedful.core.errors import BadInput, Unsupported
from heedful.core.finding import Finding
from heedful.core.target import activation
from heedful.data import Example
from heedful.maths.distances import Changes
from heedful.methods.attention import read_shares
from heedful.model.classifier import Classifier
from heedful.model.function import Plain
from heedful.model.masking import features
from tests.checks.test_adversarial import pair
from tests.nets.test_hierarchical import TEXT as SENTENCES
from tests.nets.test_hierarchical import classifier as han
from tests.support import toys
from tests.support.cases import many, one
from tests.support.models import TEXTS, BiLSTM, build, loud, multihead, tokenizer

METHODS = ("attention-mean", "leave-one-out", "uniform", "random")
TOKENS = Erasure(unit="token")


def by_hand() -> Classifier:
    torch.manual_seed(0)
    t = tokenizer("wordpiece")
    return Classifier(loud(BiLSTM(len(t), 3), 1, 0.8), t, name="bilstm-by-hand")


def found(findings: Sequence[Finding], measure: str) -> dict[str, float]:
    return {f.method: f.value for f in findings if f.measure == measure}


def details(findings: Sequence[Finding], measure: str) -> dict[str, Any]:
    """Where the top item and the others stand, which are single tokens."""
    return {
        f.method: {"top": f.details["top"][0], "other": [place[0] for place in f.details["other"]]}
        for f in findings
        if f.measure == measure
    }


def flat(items: Items) -> Any:
    """The places of items that are single tokens."""
    return np.array([place[0] for place in items.places])


def slow(classifier: Classifier, case: Case, gone: Sequence[int], kind: str, layers: Sequence[int]) -> torch.Tensor:
    """Logits of one text without attention to some positions, row by row."""

    def edit(site: Any, weights: torch.Tensor) -> torch.Tensor:
        if site.kind != kind or site.layer not in layers:
            return weights
        new = weights.clone()
        for h, q in product(range(weights.shape[1]), range(weights.shape[2])):
            row = [0.0 if k in gone else float(w) for k, w in enumerate(weights[0, h, q])]
            scale = float(weights[0, h, q].sum()) / sum(row) if sum(row) > 0 else 0.0
            new[0, h, q] = torch.tensor([scale * w for w in row], dtype=weights.dtype)
        return new

    with torch.no_grad(), classifier.attention(edit):
        return classifier.logits(classifier.batch([case.tokens]))[0].double()


# against slow twins


@pytest.mark.parametrize(
    ("family", "kind", "layer", "layers"),
    [
        ("bert", "self", -1, [1]),
        ("bert", "self", 0, [0]),
        ("gpt2", "self", "all", [0, 1]),
        ("t5", "cross", -1, [1]),
        ("bilstm", "self", -1, [0]),
        ("multihead", "self", -1, [0]),
        ("modernbert", "self", 1, [1]),
        ("xlnet", "self", 0, [0]),
    ],
)
def test_every_number_is_that_of_one_pass_at_a_time(family: str, kind: str, layer: Any, layers: list[int]) -> None:
    classifier = build(family)
    case = one(classifier, "good music; the acting", ("gradient-x-input", "random"))
    findings = Erasure(layer=layer, unit="token", orders=2)(case)
    content = list(case.tokens.content)
    whole = slow(classifier, case, [], kind, layers)

    def js(gone: Sequence[int]) -> float:
        p, q = (x.softmax(-1).numpy() for x in (whole, slow(classifier, case, gone, kind, layers)))
        return float(jensenshannon(p, q) ** 2)

    scores = case.attributions["gradient-x-input"].scores
    order = sorted(content, key=lambda i: -scores[i])
    flipped = [
        bool(slow(classifier, case, order[:k], kind, layers).argmax() != whole.argmax())
        for k in range(1, 1 + len(order))
    ]
    at = flipped.index(True) + 1 if any(flipped) else None
    drawn = details(findings, "delta js")["gradient-x-input"]
    assert drawn["top"] == order[0]
    assert found(findings, "delta js")["gradient-x-input"] == pytest.approx(
        js(order[:1]) - np.mean([js([i]) for i in drawn["other"]]), abs=1e-6
    )
    assert found(findings, "never")["gradient-x-input"] == (at is None)
    assert found(findings, "flip top")["gradient-x-input"] == flipped[0]
    if at is not None:
        assert found(findings, "fraction")["gradient-x-input"] == pytest.approx(at / len(order))


def test_sets_are_the_network_computed_by_hand() -> None:
    classifier = by_hand()
    case = one(classifier, TEXTS[3], METHODS)
    reading, _ = read_shares(classifier, [case.tokens])
    site = reading.layers("self")[0]
    places = np.array(case.tokens.content)
    rng = np.random.default_rng(0)
    gone = rng.random((20, len(places))) < 0.5
    got = Erased(classifier, classifier.batch([case.tokens]), [site], places[:, None].tolist()).of(gone)
    net: Any = classifier.model
    with torch.no_grad():
        states = net.lstm(net.words(torch.tensor([case.tokens.ids])))[0][0]
        scores = net.score(torch.tanh(net.inner(states)))[:, 0]
        alpha = (scores.exp() / scores.exp().sum()).double()
        for row, logits in zip(gone, got, strict=True):
            left = alpha.clone()
            left[places[row]] = 0
            context = (left / left.sum()) @ states.double()
            assert torch.allclose(logits, net.out.weight.double() @ context + net.out.bias.double(), atol=1e-5)


def test_with_everything_erased_the_bias_decides() -> None:
    classifier = by_hand()
    case = one(classifier, TEXTS[3], METHODS)
    site = read_shares(classifier, [case.tokens])[0].layers("self")[0]
    n = len(case.tokens)
    got = Erased(classifier, classifier.batch([case.tokens]), [site], [[i] for i in range(n)]).of(np.ones((1, n), bool))
    assert torch.allclose(got[0], classifier.model.out.bias.double())
    assert found(Erasure(unit="token", special=True)(case), "never")["attention"] == (
        int(classifier.model.out.bias.argmax()) == case.prediction.index
        and np.isnan(found(Erasure(unit="token", special=True)(case), "fraction")["attention"])
    )


@pytest.mark.parametrize("family", ["bilstm", "bert"])
def test_slopes_are_finite_differences_of_the_probability(family: str) -> None:
    classifier = build(family)
    classifier.model.double()
    case = one(classifier, TEXTS[3], METHODS)
    sites, items = TOKENS._items(case)

    def p(place: int, step: float) -> float:
        def edit(site: Any, weights: torch.Tensor) -> torch.Tensor:
            new = weights.clone()
            new[..., place] += step if site.layer == sites[0].layer else 0
            return new

        with torch.no_grad(), classifier.attention(edit):
            logits = classifier.logits(classifier.batch([case.tokens]))
        return float(activation(logits, classifier.head)[0, case.prediction.index])

    wanted = [(p(int(i), 1e-5) - p(int(i), -1e-5)) / 2e-5 for i in flat(items)]
    assert items.slopes == pytest.approx(wanted, abs=1e-7)


def test_alpha_is_what_attention_mean_says() -> None:
    case = one(build("bert"), TEXTS[0], METHODS)
    items = TOKENS._items(case)[1]
    assert items.weights == pytest.approx(case.attributions["attention-mean"].scores[flat(items)])
    findings = TOKENS(case)
    drawn = details(findings, "delta js")["attention"]
    alpha = dict(zip(flat(items), items.weights, strict=True))
    expected = max(alpha.values()) - np.mean([alpha[i] for i in drawn["other"]])
    assert found(findings, "alpha difference")["attention"] == pytest.approx(expected)


def test_product_and_slope_agree_where_one_query_attends() -> None:
    items = TOKENS._items(one(build("bilstm"), TEXTS[0], METHODS))[1]
    assert items.products == pytest.approx(items.weights * items.slopes)


# the second item


@pytest.mark.parametrize(("name", "sign"), [("attention", -1), ("attention-ascending", 1)])
def test_the_top_item_is_compared_with_the_second_of_its_order(name: str, sign: int) -> None:
    classifier = build("bert")
    case = one(classifier, TEXTS[0], METHODS)
    items = TOKENS._items(case)[1]
    top, second = sorted(range(len(items)), key=lambda i: sign * items.weights[i])[:2]
    whole = slow(classifier, case, [], "self", [1]).softmax(-1).numpy()
    js = [
        jensenshannon(whole, slow(classifier, case, items.places[i], "self", [1]).softmax(-1).numpy()) ** 2
        for i in (top, second)
    ]
    findings = TOKENS(case)
    assert found(findings, "delta js second")[name] == pytest.approx(js[0] - js[1], abs=1e-6)
    assert found(findings, "alpha second")[name] == pytest.approx(items.weights[top] - items.weights[second])
    assert set(found(findings, "delta js second")) == {"attention", "attention-ascending"}


def test_of_two_items_the_second_is_the_other() -> None:
    findings = TOKENS(one(build("bert"), "good film", METHODS))
    both = found(findings, "delta js second")
    assert both["attention"] == found(findings, "delta js")["attention"] == -both["attention-ascending"] != 0


# uniform attention


def test_uniform_attention_has_no_divergence_from_it() -> None:
    assert from_uniform(np.array([0.4, 0.2, 0.2]), np.array([2, 1, 1])) == pytest.approx((0, 0))
    assert all(np.isnan(from_uniform(np.zeros(3), np.ones(3, int))))


def test_divergences_are_scipys() -> None:
    rng = np.random.default_rng(0)
    for n in (2, 5, 40):
        p, q = rng.dirichlet(np.full(n, 0.3)), np.full(n, 1 / n)
        js, kl = from_uniform(0.7 * p, np.ones(n, int))  # special tokens have the rest
        assert js == pytest.approx(jensenshannon(p, q) ** 2)
        assert kl == pytest.approx(scipy_entropy(p, q), abs=1e-8)
    assert from_uniform(np.eye(8)[2], np.ones(8, int))[1] == pytest.approx(np.log(8))


def test_the_divergence_of_a_text_is_that_of_its_attention() -> None:
    case = one(han(), SENTENCES, METHODS)
    alpha = TOKENS._items(case)[1].weights
    findings = TOKENS(case)
    assert found(findings, "kl from uniform") == {"attention": pytest.approx(np.log(len(alpha)) - scipy_entropy(alpha))}
    assert 0 < found(findings, "js from uniform")["attention"] < np.log(2)


# the first flip


@dataclass
class Planted:
    """Answers without a model: which sets flip is drawn once."""

    places: Any
    table: dict[bytes, bool] = field(default_factory=dict)
    rng: Any = field(default_factory=lambda: np.random.default_rng(0))

    def changes(self, gone: Any) -> Changes:
        flip = [self.table.setdefault(row.tobytes(), bool(self.rng.random() < 0.05)) for row in gone]
        return Changes(np.zeros(len(gone)), np.zeros(len(gone)), np.array(flip, dtype=float))


def test_the_first_flip_is_found_though_later_sets_flip_back() -> None:
    n = 45
    erased: Any = Planted(np.arange(n))
    orders = [erased.rng.permutation(n) for _ in range(40)]
    got = first_flips(erased, orders)
    for order, stop in zip(orders, got, strict=True):
        sets = [np.isin(np.arange(n), order[:k]) for k in range(1, n + 1)]
        flipped = [erased.table.get(row.tobytes()) for row in sets]
        assert stop == (flipped.index(True) + 1 if True in flipped else None)
    assert None in got
    assert any(stop is not None and stop > 24 for stop in got)


def test_a_set_runs_once() -> None:
    classifier = build("bilstm")
    case = one(classifier, TEXTS[0], METHODS)
    sites, items = TOKENS._items(case)
    erased = Erased(classifier, classifier.batch([case.tokens]), sites, items.places)
    gone = np.eye(len(items), dtype=bool)
    once = erased.of(gone)
    before = classifier.forwards
    assert torch.equal(erased.of(gone[::-1]), once.flip(0))
    assert classifier.forwards == before


def test_passes_are_at_least_what_is_run() -> None:
    for family in ("bert", "t5", "bilstm"):
        classifier = build(family)
        case = one(classifier, TEXTS[0], METHODS)
        said = TOKENS.passes(classifier, case.tokens, case.methods)
        before = classifier.forwards, classifier.backwards
        TOKENS(case)
        assert classifier.forwards - before[0] <= said.forwards
        assert classifier.backwards - before[1] == said.backwards


# networks whose logits are affine in attention: no passes


@pytest.mark.parametrize(
    "classifier", [han(), han("conv", flat=True), build("bilstm"), multihead(masked=False)], ids=lambda c: c.name
)
def test_sets_without_passes_are_those_of_the_model(classifier: Classifier) -> None:
    case = one(classifier, SENTENCES, METHODS)
    sites, items = TOKENS._items(case)
    by_passes = Erased(classifier, classifier.batch([case.tokens]), sites, items.places)
    fast = by_passes.faster(items.tangent, torch.Generator().manual_seed(0))
    assert fast.affine is not None
    gone = np.random.default_rng(0).random((30, len(items))) < 0.6
    before = classifier.forwards
    got = fast.of(gone)
    assert classifier.forwards == before
    slow_sets = replace(by_passes, known={}).of(gone)
    assert torch.allclose(got, slow_sets, atol=2e-5)
    assert torch.unique(slow_sets[:, 0]).numel() > 3


def test_a_network_that_is_not_affine_in_its_attention_runs_every_set() -> None:
    classifier = pair()  # its decoder has a tanh
    case = one(classifier, Example(SENTENCES, "good film"), METHODS)
    sites, items = TOKENS._items(case)
    erased = Erased(classifier, classifier.batch([case.tokens]), sites, items.places)
    assert items.tangent is not None
    assert erased.faster(items.tangent, torch.Generator().manual_seed(0)) is erased
    assert TOKENS._items(one(build("bert"), TEXTS[0], METHODS))[1].tangent is None


# toys with known answers


@pytest.mark.parametrize("architecture", ["bert", "gpt2", "bilstm"])
def test_where_attention_is_heard_its_top_item_flips_and_no_other_does(architecture: str) -> None:
    classifier = toys.build(architecture, toys.mix(0.3))
    findings = TOKENS(one(classifier, "ape bee yes cat ape", ("attention-mean", "position", "random")))
    for name in ("attention", "attention-mean", "attention-x-slope"):
        assert (found(findings, "flip top")[name], found(findings, "flip random")[name]) == (1, 0)
        assert found(findings, "fraction")[name] == pytest.approx(1 / 5)
    assert found(findings, "fraction")["attention-ascending"] == 1
    assert found(findings, "fraction")["position"] == pytest.approx(3 / 5)
    assert 1 / 5 < found(findings, "fraction")["random"] < 1


@pytest.mark.parametrize("architecture", ["bert", "bart", "bilstm"])
def test_erasing_attention_that_is_not_heard_changes_nothing(architecture: str) -> None:
    findings = TOKENS(one(toys.build(architecture, toys.DEAF), "ape bee yes cat owl", METHODS))
    assert found(findings, "delta js")["attention"] == pytest.approx(0, abs=1e-12)
    assert set(found(findings, "never").values()) == {1.0}
    assert all(np.isnan(v) for v in found(findings, "fraction").values())


# what an item is


def test_items_are_the_tokens_of_the_text() -> None:
    case = one(build("bert"), Example("good film", "the story"), METHODS)
    assert TOKENS._items(case)[1].places == [[i] for i in case.tokens.content]
    assert len(Erasure(unit="token", special=True)._items(case)[1]) == len(case.tokens)


def test_a_network_of_two_levels_loses_sentences() -> None:
    case = one(han(), SENTENCES, METHODS)
    items = TOKENS._items(case)[1]
    assert sorted(i for group in items.groups for i in group) == list(case.tokens.content)
    assert items.weights.sum() == pytest.approx(1)
    assert [group[-1] for group in items.groups] == flat(items).tolist()
    assert len(items) < len(case.tokens.content)


def test_a_network_of_two_levels_can_lose_words() -> None:
    case = one(han(), SENTENCES, METHODS)
    assert Erasure(level="word", unit="token")._items(case)[1].places == [[i] for i in case.tokens.content]


def test_sentences_are_erased_in_one_pass_at_a_time_too() -> None:
    classifier = han("conv")
    case = one(classifier, SENTENCES, METHODS)
    sites, items = TOKENS._items(case)
    erased = Erased(classifier, classifier.batch([case.tokens]), sites, items.places)
    gone = np.eye(len(items), dtype=bool)
    for i, logits in enumerate(erased.of(gone)):
        assert torch.allclose(logits, slow(classifier, case, items.places[i], "sentence", [0]), atol=1e-5)


def test_a_transformer_loses_sentences_if_they_are_the_unit() -> None:
    classifier = build("bert")
    case = one(classifier, f"{TEXTS[0]} {TEXTS[1]} Good music!", METHODS)
    sites, items = Erasure(unit="sentence")._items(case)
    assert items.places == features(case.tokens, "sentence")
    assert len(items) == 3
    erased = Erased(classifier, classifier.batch([case.tokens]), sites, items.places)
    for place, logits in zip(items.places, erased.of(np.eye(3, dtype=bool)), strict=True):
        assert torch.allclose(logits, slow(classifier, case, place, "self", [1]), atol=1e-5)
    assert set(found(Erasure(unit="sentence")(case), "fraction")) >= {"attention", "leave-one-out", "random"}


def test_a_text_of_one_item_is_counted_and_has_no_numbers() -> None:
    few, more = many(build("bert"), ["good", "good film"], METHODS)
    findings = TOKENS(few)
    assert all(np.isnan(f.value) for f in findings)
    assert {(f.method, f.measure) for f in findings} == {(f.method, f.measure) for f in TOKENS(more)}


def test_ten_classes_and_two_items() -> None:
    findings = TOKENS(one(build("bert", labels=10), "good film", METHODS))
    assert all(np.isfinite(f.value) or f.measure in ("fraction", "mass") for f in findings)
    assert {f.measure for f in findings} <= set(Erasure.measures)


def test_several_labels_at_once_flip_where_one_crosses_a_half() -> None:
    classifier = build("bert", problem_type="multi_label_classification")
    case = one(classifier, TEXTS[0], METHODS)
    findings = Erasure(unit="token", draws=1, orders=1)(case)
    top = details(findings, "flip top")["attention"]["top"]
    without = slow(classifier, case, [top], "self", [1]) > 0
    assert found(findings, "flip top")["attention"] == bool(
        (without != (slow(classifier, case, [], "self", [1]) > 0)).any()
    )


def test_the_other_item_is_never_the_top_and_may_be_any() -> None:
    case = one(build("bilstm"), "good bad great awful", METHODS)
    seen = set()
    for seed in range(15):
        drawn = details(Erasure(unit="token", draws=2, orders=1)(replace(case, seed=seed)), "delta js")["attention"]
        assert drawn["top"] not in drawn["other"]
        assert len(set(drawn["other"])) == 2
        seen |= {drawn["other"][0]}
    assert seen == set(case.tokens.content) - {drawn["top"]}


def test_of_several_orders_the_fraction_is_the_mean_over_those_that_flip() -> None:
    from heedful.checks.erasure import _stopped

    orders = [np.array([0, 1, 2]), np.array([2, 1, 0])]
    values = {f.measure: f.value for f in _stopped("random", orders, [1, None], np.array([0.5, 0.2, 0.1]))}
    assert values == {"fraction": pytest.approx(1 / 3), "mass": pytest.approx(0.5), "never": 0.5}
    assert np.isnan(_stopped("random", orders, [None, None], np.ones(3))[0].value)


def test_a_word_is_erased_with_all_its_pieces() -> None:
    classifier = build("bert")
    case = one(classifier, "unbelievably good music", METHODS)
    sites, items = Erasure()._items(case)
    assert items.places == features(case.tokens)
    assert max(map(len, items.places)) > 1
    assert items.weights == pytest.approx(by_unit(case.attributions["attention-mean"].scores, items.places))
    got = Erased(classifier, classifier.batch([case.tokens]), sites, items.places).of(np.eye(3, dtype=bool))
    for place, logits in zip(items.places, got, strict=True):
        assert torch.allclose(logits, slow(classifier, case, place, "self", [1]), atol=1e-5)


def test_a_control_that_is_one_random_order_has_the_flips_of_random() -> None:
    """`uniform` ties everywhere, so that its order is random: on average it flips as often as `random` does."""
    clf = toys.build("bilstm", toys.mix(0.6))
    runs = [TOKENS(c) for c in many(clf, toys.texts(60, longest=6), METHODS)]
    never = {name: np.array([found(f, "never")[name] for f in runs]) for name in ("uniform", "random")}
    error = np.sqrt(0.25 / len(runs))
    assert 0.02 < never["random"].mean() < 0.98
    assert abs(never["uniform"].mean() - never["random"].mean()) < 3 * error


def test_a_network_with_padding_of_its_own() -> None:
    findings = Erasure(orders=2)(one(multihead(masked=False), TEXTS[3], METHODS))
    assert np.isfinite(found(findings, "delta js")["attention"])


def test_a_sure_model_still_has_slopes() -> None:
    classifier = build("bilstm")
    with torch.no_grad():
        classifier.model.decoder.weight.mul_(20)
    case = one(classifier, TEXTS[0], METHODS)
    assert np.abs(TOKENS._items(case)[1].slopes).min() > 0


# refusals


def test_models_without_labels_or_attention_are_refused() -> None:
    number = one(build("bert", labels=1, problem_type="regression"), "good film", METHODS)
    with pytest.raises(Unsupported, match="tiny-bert is a regression model: erasure needs labels"):
        TOKENS(number)
    for other in (build("fnet"), Plain(lambda texts: [[0.5, 0.5]] * len(texts))):
        with pytest.raises(Unsupported, match="attention"):
            TOKENS(one(other, "good film", ("leave-one-out", "random")))


@pytest.mark.parametrize("given", [{"level": "letter"}, {"draws": 0}, {"orders": 0}, {"layer": "last"}])
def test_settings_are_checked(given: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        check("erasure", given)


def test_a_layer_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BadInput, match="layer 7"):
        Erasure(layer=7)(one(build("bert"), "good film", METHODS))


# tables


@dataclass
class Planned:
    """Stands in for the findings of a run."""

    numbers: dict[tuple[str, str], list[float]]

    def values(self, measure: str, method: str = "", at: Any = None) -> Any:
        return np.array(self.numbers[method, measure])

    def methods(self, measure: str) -> list[str]:
        return [method for method, name in self.numbers if name == measure]


def test_flips_two_by_two() -> None:
    got = flips(np.array([1, 1, 0, 0, 0, np.nan]), np.array([1, 0, 1, 0, 0, np.nan]))
    assert got == Flips(n=5, both=1, only_top=1, only_random=1, neither=2)


def test_who_never_flips_needs_more() -> None:
    a = stop_values(np.array([0.1, np.nan, 0.5, np.nan, np.nan, 0.2]), np.array([0, 1, 0, 1, np.nan, 0]))
    b = stop_values(np.array([0.2, 0.9, 0.5, np.nan, np.nan, np.nan]), np.array([0, 0, 0, 1, np.nan, 1]))
    got = fewer("one", "other", a, b)
    assert got == Fewer("one", "other", n=5, a_fewer=2, b_fewer=1, equal=1, never=1, p=got.p)


def test_the_p_value_is_the_binomial_test_of_who_needs_fewer() -> None:
    a, b = np.array([0.1] * 9 + [0.5]), np.array([0.2] * 9 + [0.1])
    assert fewer("one", "other", a, b).p == pytest.approx(binomtest(9, 10).pvalue)


def test_the_spread_leaves_out_those_that_never_flip_and_counts_them() -> None:
    got = box_numbers(np.array([0.1, 0.2, 0.3, np.inf, np.nan]))
    assert (got.median, got.n, got.never_share) == pytest.approx((0.2, 3, 1 / 4))
    assert np.isnan(box_numbers(np.array([np.inf])).median)


def test_whiskers_and_outliers_are_those_of_matplotlib() -> None:
    rng = np.random.default_rng(0)
    for x in (rng.beta(0.5, 3, 60), rng.beta(3, 0.3, 9), np.r_[np.full(20, 0.5), 0.1], np.array([0.2, 0.7])):
        got, twin = box_numbers(np.r_[x, np.inf, np.nan]), boxplot_stats(x)[0]
        assert (got.low, got.high) == pytest.approx((twin["whislo"], twin["whishi"]))
        assert got.outliers == len(twin["fliers"])
        assert (got.lower, got.median, got.upper) == pytest.approx((twin["q1"], twin["med"], twin["q3"]))


def test_negative_shares_by_the_difference_of_attention() -> None:
    rows = negative(np.array([-1, 1, -1, 1, 1e-17, np.nan]), np.array([0.01, 0.01, 0.5, 1.0, -1e-17, 0.5]))
    got = {row.start: (row.n, row.share) for row in rows if row.n}
    assert got == {0.0: (3, pytest.approx(1 / 3)), 0.4: (1, 1.0), 0.8: (1, 0.0)}


def test_tables_of_a_run() -> None:
    classifier = toys.build("bilstm", toys.mix(0.3))
    runs = [Erasure(orders=3)(c) for c in many(classifier, ["ape bee yes", "ape no pig owl", "yes"], METHODS)]
    numbers: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        for f in run:
            numbers.setdefault((f.method, f.measure), []).append(f.value)
    given: Any = Planned(numbers)
    tables = Erasure().tables(given)
    assert tables.flips["attention"] == Flips(n=2, both=0, only_top=2, only_random=0, neither=0)
    assert set(RANKINGS) < set(tables.fractions)
    assert "random" not in tables.flips
    row = next(r for r in tables.fewer if (r.a, r.b) == ("attention", "attention-ascending"))
    assert (row.a_fewer, row.b_fewer, row.n) == (2, 0, 2)
