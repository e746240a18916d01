"""Permuted, uniform and sparse attention: against brute force, slow twins, and models whose answer is known."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from heedful.checks import check as named
from heedful.checks import interventions
from heedful.checks.base import Case
from heedful.checks.interventions import WHOLE_MODEL, Copy, Movable, Where, outcomes
from heedful.checks.permutation import Permutation, exchanged, permute, shuffled
from heedful.checks.uniform import Uniform, activation_edit, uniform_edit
from heedful.core.decode import decode
from heedful.core.errors import BadInput, Unsupported
from heedful.core.files import json_value as plain_json
from heedful.core.finding import Finding, Place, place
from heedful.data import Example
from heedful.maths.distances import changes
from heedful.methods.attention import AttentionMean
from heedful.model import batch, edits
from heedful.model.classifier import Classifier
from heedful.model.edits import Edit, Site
from heedful.model.function import Plain
from heedful.nets.single import Single, SingleShape
from heedful.nets.transformer import Transformer, TransformerShape, with_activation
from tests.nets.test_hierarchical import TEXT as SENTENCES
from tests.nets.test_hierarchical import classifier as hierarchical
from tests.support import toys
from tests.support.cases import one
from tests.support.models import DIVERSE, TEXTS, build, loud, multihead, shared, tokenizer
from tests.support.toys import ARCHITECTURES, BAG_TOY, DEAF, POINTER

FEW = Permutation(draws=7, layer_draws=3, head_draws=2)
ALL: Place = {"layer": "all", "head": "all"}
toy = cache(toys.build)
WORDS = toys.texts(1)[0]


def case_of(classifier: Classifier, text: str | Example = TEXTS[0]) -> Case:
    return one(classifier, text, ())


def value(found: list[Finding], measure: str, at: Place | None = None) -> float:
    (number,) = [f.value for f in found if f.measure == measure and f.at == (at or {})]
    return number


def transformer(**more: Any) -> Classifier:
    t = tokenizer("wordpiece")
    sizes: dict[str, Any] = {"layers": 2, "heads": 2, "width": 16, "inner": 24, "max_position_embeddings": 64} | more
    net = Transformer(TransformerShape(len(t), 3, pad_token_id=t.pad_token_id, **sizes))
    return Classifier(loud(net, scale=0.5), t, name="tiny-transformer")


def single(**more: Any) -> Classifier:
    t = tokenizer("wordpiece")
    special = (t.cls_token_id, t.sep_token_id)
    net = Single(SingleShape(len(t), 3, embedding=8, hidden=6, special=special, **more))
    return Classifier(loud(net, scale=0.5), t, name="tiny-single")


def answer(classifier: Classifier, case: Case, edit: Edit | None) -> Tensor:
    with torch.no_grad(), classifier.attention(edit):
        return classifier.logits(classifier.batch([case.tokens]))[0]


def tvd(classifier: Classifier, case: Case, edit: Edit) -> float:
    """The slow way: one text, one edit, one forward pass."""
    plain, new = answer(classifier, case, None), answer(classifier, case, edit)
    return float(changes(new[None], plain, classifier.head).tvd[0])


# the edits


def site(allowed: Tensor, kind: str = "self") -> Site:
    return Site(kind, 0, allowed[None, None])


def weights_for(allowed: Tensor, heads: int = 2, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    scores = torch.randn(1, heads, *allowed.shape, generator=rng)
    return scores.masked_fill(~allowed, -torch.inf).softmax(-1)


FULL = torch.ones(5, 5, dtype=torch.bool)
CAUSAL = FULL.tril()
LOCAL = CAUSAL & ~FULL.tril(-3)
MASKS = {"full": FULL, "causal": CAUSAL, "local": LOCAL}


def tokens_of(n: int) -> Any:
    """n tokens, the first and the last of them special."""
    found = toy("bert", POINTER).tokens(" ".join(toys.FILLERS[: n - 2]))
    assert len(found) == n
    return found


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("special", [False, True])
def test_each_row_keeps_its_weights_and_what_it_may_not_see(mask: str, together: bool, special: bool) -> None:
    allowed = MASKS[mask]
    old = weights_for(allowed)
    new = permute(Movable(tokens_of(5), special), rng(), "keys", together)(site(allowed), old)
    assert torch.equal(new.sort(-1).values, old.sort(-1).values)
    assert not new[:, :, ~allowed].any()


@pytest.mark.parametrize("mask", MASKS)
def test_weights_move(mask: str) -> None:
    old = weights_for(MASKS[mask])
    new = permute(Movable(tokens_of(5)), rng(), "keys", False)(site(MASKS[mask]), old)
    assert not torch.equal(new, old)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("axis", ["keys", "rows"])
def test_special_tokens_keep_their_weights(mask: str, axis: Any) -> None:
    old = weights_for(MASKS[mask])
    new = permute(Movable(tokens_of(5), special=False), rng(), axis, False)(site(MASKS[mask]), old)
    kept = (..., [0, 4]) if axis == "keys" else (slice(None), slice(None), [0, 4])
    assert torch.equal(new[kept], old[kept])


def test_special_tokens_of_a_decoder_stand_one_further() -> None:
    own = Movable(tokens_of(5), special=False).positions("decoder", 5)
    assert own.tolist() == [False, False, True, True, True]


def test_padding_that_a_network_adds_takes_no_part() -> None:
    assert Movable(tokens_of(4)).positions("self", 6).tolist() == [True] * 4 + [False] * 2


def test_the_quick_way_is_the_general_one() -> None:
    old, order = weights_for(FULL), torch.rand(1, 2, 5, 5, generator=rng())
    assert torch.equal(shuffled(old, FULL[None, None], order), edits.shuffle(old, FULL[None, None], order))


def test_together_is_one_order_of_keys_for_rows_heads_and_layers() -> None:
    edit = permute(Movable(tokens_of(5)), rng(), "keys", True)
    found = [(old, edit(site(FULL), old)) for old in (weights_for(FULL), weights_for(FULL, seed=1))]
    orders = [o for o in permutations(range(5)) if all(torch.equal(new, old[..., list(o)]) for old, new in found)]
    assert len(orders) == 1
    assert orders[0] != (0, 1, 2, 3, 4)


def test_apart_rows_have_orders_of_their_own() -> None:
    old = weights_for(FULL)
    new = permute(Movable(tokens_of(5)), rng(), "keys", False)(site(FULL), old)
    orders = {tuple((old[0, h, q][:, None] == new[0, h, q]).int().argmax(0).tolist()) for h in (0, 1) for q in range(5)}
    assert len(orders) > 5


def test_rows_are_exchanged_in_each_head() -> None:
    old = weights_for(FULL)
    new = permute(Movable(tokens_of(5)), rng(1), "rows", False)(site(FULL), old)
    for h in (0, 1):
        order = [int((old[0, h] == row).all(-1).nonzero()) for row in new[0, h]]
        assert sorted(order) == list(range(5))
        assert order != list(range(5))


def test_together_is_one_order_of_rows_for_heads_and_layers() -> None:
    edit = permute(Movable(tokens_of(5)), rng(), "rows", True)
    found = [(old, edit(site(FULL), old)) for old in (weights_for(FULL), weights_for(FULL, seed=1))]
    orders = [o for o in permutations(range(5)) if all(torch.equal(new, old[:, :, list(o)]) for old, new in found)]
    assert len(orders) == 1
    assert orders[0] != (0, 1, 2, 3, 4)


def test_rows_are_exchanged_among_those_that_see_the_same() -> None:
    groups = [torch.tensor([0, 1]), torch.tensor([2]), torch.tensor([3, 4])]
    order = torch.tensor([1.0, 0.0, 0.5, 1.0, 0.0]).expand(1, 2, 5)
    old = weights_for(FULL)
    assert torch.equal(exchanged(old, groups, order), old[:, :, [1, 0, 2, 4, 3]])


def test_all_permutations_are_drawn_equally_often() -> None:
    """Three keys: 3! answers by brute force, and 1200 draws of them."""
    classifier = shared("bilstm")
    case = case_of(classifier, "film")
    assert len(case.tokens) == 3
    with torch.no_grad(), classifier.attention() as seen:
        classifier.logits(classifier.batch([case.tokens]))
    own = next(iter(seen[0].values()))
    brute = [tvd(classifier, case, edits.replaced({("self", 0): own[..., list(o)]})) for o in permutations(range(3))]
    drawn = [Copy(WHOLE_MODEL, permute(Movable(case.tokens), case.rng(i), "keys", False)) for i in range(1200)]
    found = outcomes(classifier, case.tokens, drawn).tvd
    nearest = np.abs(found[:, None] - np.array(brute)).argmin(1)
    assert found == pytest.approx(np.array(brute)[nearest], abs=1e-6)
    assert np.bincount(nearest, minlength=6) / 1200 == pytest.approx(1 / 6, abs=0.045)
    assert found.mean() == pytest.approx(np.mean(brute), rel=0.1)


# many copies at once


def at_head(edit: Edit, where: Where) -> Edit:
    def here(site: Site, weights: Tensor) -> Tensor:
        if not where.has(site):
            return weights
        new = weights.clone()
        heads = slice(None) if where.head is None else slice(where.head, where.head + 1)
        new[:, heads] = edit(site, weights)[:, heads]
        return new

    return here


@pytest.mark.parametrize("family", ["bert", "albert", "gpt2", "gemma2", "bart", "t5", "xlnet", "multihead"])
def test_copies_are_answered_as_if_each_were_alone(family: str) -> None:
    classifier = shared(family)
    case = case_of(classifier)
    places = [WHOLE_MODEL, *interventions.heads(classifier)[::-1], *interventions.layers(classifier)[::-1]]
    found = outcomes(classifier, case.tokens, [Copy(where, edits.uniform) for where in places]).tvd
    alone = [tvd(classifier, case, at_head(edits.uniform, where)) for where in places]
    assert len(places) > 2
    assert found == pytest.approx(np.array(alone), abs=1e-6)


def test_how_copies_are_batched_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(shared("bert"))
    usual = [f.value for f in FEW(case)]
    monkeypatch.setattr(batch, "BUDGET", 3 * len(case.tokens))
    assert [f.value for f in FEW(case)] == pytest.approx(usual, abs=1e-6, nan_ok=True)


@pytest.mark.parametrize("family", DIVERSE)
@pytest.mark.parametrize("check", [FEW, Uniform()])
def test_passes_are_what_is_asked(family: str, check: Any) -> None:
    classifier = shared(family)
    case = case_of(classifier)
    before = classifier.forwards
    found = check(case)
    assert classifier.forwards - before == check.passes(classifier, case.tokens, {}).forwards
    assert {f.measure for f in found} == set(check.measures)


# permutation


def test_the_numbers_are_medians_and_shares_over_the_draws() -> None:
    classifier = shared("bert")
    case = case_of(classifier, Example(TEXTS[0], label="LABEL_2"))
    where = Where("self", 1, 0)

    def draw(i: int) -> Tensor:
        edit = permute(Movable(case.tokens), case.rng("permutation", "self", 1, 0, i), "keys", False)

        def head(site: Site, weights: Tensor) -> Tensor:
            return torch.cat([edit(site, weights[:, :1]), weights[:, 1:]], 1) if where.has(site) else weights

        return answer(classifier, case, head)

    logits = torch.stack([draw(i) for i in range(9)])
    moved = changes(logits, answer(classifier, case, None), "softmax")
    found = Permutation(1, 0, 9)(case)
    assert value(found, "tvd", where.at) == pytest.approx(np.median(moved.tvd), abs=1e-6)
    assert value(found, "jsd", where.at) == pytest.approx(np.median(moved.jsd), abs=1e-6)
    assert value(found, "flip", where.at) == pytest.approx(moved.flip.mean())
    assert value(found, "correct", where.at) == pytest.approx(float((logits.argmax(-1) == 2).double().mean()))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("check", [FEW, Uniform(activations=())])
def test_a_deaf_model_does_not_move_at_all(architecture: str, check: Any) -> None:
    found = check(case_of(toy(architecture, DEAF), WORDS))
    assert {f.value for f in found if f.measure in ("tvd", "jsd", "flip")} == {0.0}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("check", [Permutation(30, 5, 0), Uniform()])
def test_a_pointer_moves(architecture: str, check: Any) -> None:
    found = check(case_of(toy(architecture, POINTER), WORDS))
    assert value(found, "tvd", ALL) > 0.2


def test_only_the_pointers_layer_matters() -> None:
    found = FEW(case_of(toy("bert", POINTER), WORDS))
    assert value(found, "tvd", {"layer": 0, "head": "all"}) == 0 < value(found, "tvd", {"layer": 1, "head": "all"})


@pytest.mark.parametrize("family", ["bert", "bart", "multihead"])
def test_max_attention_is_that_of_the_method(family: str) -> None:
    case = one(shared(family), TEXTS[0], [AttentionMean()])
    scores = case.attributions["attention-mean"].scores[list(case.tokens.content)]
    assert value(FEW(case), "max attention") == pytest.approx(scores.max(), rel=1e-6)


def test_gold_labels_are_asked_for() -> None:
    classifier = shared("bert")
    name = case_of(classifier).prediction.label
    right = FEW(case_of(classifier, Example(TEXTS[0], label=name)))
    assert value(right, "correct as it is") == 1
    assert value(right, "correct", ALL) == pytest.approx(1 - value(right, "flip", ALL))


@pytest.mark.parametrize("check", [FEW, Uniform()])
def test_without_a_gold_label_accuracy_does_not_exist(check: Any) -> None:
    found = check(case_of(shared("bert")))
    assert all(np.isnan(f.value) == f.measure.startswith("correct") for f in found)


@pytest.mark.parametrize("check", [FEW, Uniform()])
def test_a_regression_has_no_labels_to_flip(check: Any) -> None:
    found = check(case_of(build("bert", labels=1, problem_type="regression"), Example(TEXTS[0], label="0.5")))
    exists = {f.measure for f in found if np.isfinite(f.value)}
    assert "tvd" in exists
    assert not exists & {"jsd", "flip", "correct", "correct as it is"}


@pytest.mark.parametrize(
    "settings", [{"labels": 1}, {"labels": 10}, {"labels": 4, "problem_type": "multi_label_classification"}]
)
@pytest.mark.parametrize("check", [FEW, Uniform()])
def test_other_heads(settings: Any, check: Any) -> None:
    classifier = build("bert", **settings)
    found = check(case_of(classifier, Example(TEXTS[0], pair=TEXTS[1], label=classifier.labels[0])))
    assert all(0 <= f.value <= 1 for f in found)
    assert value(found, "tvd", ALL) > 0


@pytest.mark.parametrize("check", [FEW, Uniform()])
def test_a_saturated_model_gives_numbers(check: Any) -> None:
    classifier = build("bert")
    with torch.no_grad():
        classifier.model.classifier.weight.mul_(1e4)
    found = check(case_of(classifier))
    assert all(np.isfinite(f.value) for f in found if not f.measure.startswith("correct"))


def test_one_key_has_no_other_order() -> None:
    found = Permutation(2, 2, 0)(case_of(toy("gpt2", POINTER), "yes"))
    assert np.isnan(value(found, "tvd", ALL))
    assert value(found, "max attention") == pytest.approx(1)


def test_one_word_between_special_tokens() -> None:
    case = case_of(toy("bert", POINTER), "yes")
    assert value(FEW(case), "tvd", ALL) > 0
    assert np.isnan(value(Permutation(2, 2, 0, special=False)(case), "tvd", ALL))


def test_two_words_have_one_other_order() -> None:
    classifier = toy("bilstm", POINTER)
    case = case_of(classifier, "yes ape")
    movable = Movable(case.tokens, special=False)
    copies = [Copy(WHOLE_MODEL, permute(movable, case.rng(i), "keys", False)) for i in range(40)]
    swapped = tvd(classifier, case, lambda site, weights: weights[..., [0, 2, 1, 3]])
    assert swapped > 0.1
    assert set(outcomes(classifier, case.tokens, copies).tvd.round(5)) == {0.0, round(swapped, 5)}


@pytest.mark.parametrize("family", ["gpt2", "bilstm", "mistral"])
def test_rows_of_a_causal_model_or_of_one_query_cannot_be_exchanged(family: str) -> None:
    with pytest.raises(Unsupported, match=rf"^tiny-{family} has no two rows of attention that see the same keys"):
        Permutation(axis="rows")(case_of(shared(family)))


@pytest.mark.parametrize("family", ["bert", "bart", "modernbert"])
def test_rows_of_an_encoder_can(family: str) -> None:
    assert value(Permutation(5, 2, 2, axis="rows")(case_of(shared(family))), "tvd", ALL) > 0


def test_a_text_keeps_its_numbers_from_run_to_run() -> None:
    first, second = ([f.value for f in FEW(case_of(shared("bert"))) if f.measure == "tvd"] for _ in range(2))
    assert first == second


def test_the_text_without_attention_cannot_be_asked() -> None:
    plain = Plain(lambda texts: np.full((len(texts), 2), 0.5), name="coin")
    for check in (FEW, Uniform()):
        with pytest.raises(Unsupported):
            check(case_of(plain, "a text"))


@pytest.mark.parametrize("settings", [{"draws": 0}, {"layer_draws": -1}, {"head_draws": -1}])
def test_wrong_settings(settings: Any) -> None:
    with pytest.raises(BadInput, match=r"^(layer_|head_)?draws is a whole number of at least [01], not"):
        Permutation(**settings)


def test_an_unknown_activation() -> None:
    with pytest.raises(BadInput, match=r"^activations is 'softmax', 'sparsemax', 'entmax15' or several"):
        Uniform(activations=("relu",))  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [
    ("permutation", {"draws": 3, "axis": "rows"}), ("uniform", {"activations": ["entmax15"]}),
    ("identifiability", {"layer": "all"}),
])  # fmt: skip
def test_settings_by_name(given: Any) -> None:
    made: Any = named(*given)
    assert {name: getattr(made, name) for name in given[1]} == {
        name: tuple(x) if isinstance(x, list) else x for name, x in given[1].items()
    }


def test_both_levels_of_a_hierarchical_network() -> None:
    case = case_of(hierarchical(), SENTENCES)
    for check in (FEW, Uniform()):
        found = check(case)
        places = {f.at["layer"] for f in found if f.measure == "tvd" and "layer" in f.at}
        assert places == {"all", 0, "sentence"}
        assert value(found, "tvd", {"layer": "sentence", "head": "all"}) > 0


def test_a_network_that_attends_to_padding_keeps_it() -> None:
    classifier = multihead(masked=False)
    case = case_of(classifier)
    seen = {}

    def watch(site: Site, weights: Tensor) -> Tensor:
        seen["old"], seen["new"] = weights, permute(Movable(case.tokens), rng(), "keys", False)(site, weights)
        return weights

    answer(classifier, case, watch)
    n = len(case.tokens)
    assert torch.equal(seen["old"][..., n:], seen["new"][..., n:])
    assert not torch.equal(seen["old"], seen["new"])
    assert value(FEW(case), "tvd", ALL) > 0


# uniform


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_bag_is_uniform_already(architecture: str) -> None:
    found = Uniform(activations=())(case_of(toy(architecture, BAG_TOY), WORDS))
    assert max(f.value for f in found if f.measure in ("tvd", "tvd to uniform")) < 1e-6


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_pointer_is_as_far_from_uniform_as_can_be(architecture: str) -> None:
    case = case_of(toy(architecture, POINTER), WORDS)
    last = max(f.value for f in Uniform()(case) if f.measure == "tvd to uniform")
    assert last == pytest.approx(1 - 1 / len(case.tokens), abs=0.05)


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("family", ["bert", "gpt2", "bart", "modernbert"])
def test_the_distance_from_uniform_by_hand(family: str, special: bool) -> None:
    classifier = shared(family)
    case = case_of(classifier)
    reading = classifier.read(classifier.batch([case.tokens]))
    marks = np.zeros(len(case.tokens), bool) if special else np.array(case.tokens.special)
    for layer, where in enumerate(reading.layers(classifier.reads)):
        total = 0.0
        weights, pooled = reading.weights[where][0].detach().double().numpy(), reading.pooled[0].detach().numpy()
        for q, share in enumerate(pooled):
            free = where.allowed[0, 0, q].numpy() & ~marks
            for head in weights:
                row = head[q][free]
                total += share / len(weights) * np.abs(row - row.sum() / max(1, len(row))).sum() / 2
        found = Uniform(special)(case)
        assert value(found, "tvd to uniform", {"layer": layer, "head": "all"}) == pytest.approx(total, abs=1e-6)


def test_uniform_attention_leaves_special_tokens_alone() -> None:
    old = weights_for(FULL)
    new = uniform_edit(Movable(tokens_of(5), special=False))(site(FULL), old)
    inside = old[..., 1:4].mean(-1, keepdim=True).expand(-1, -1, -1, 3)
    assert torch.allclose(new[..., 1:4], inside)
    assert torch.equal(new[..., [0, 4]], old[..., [0, 4]])


def test_uniform_is_the_edit() -> None:
    case = case_of(shared("bert"))
    found = Uniform()(case)
    assert value(found, "tvd", ALL) == pytest.approx(tvd(case.classifier, case, edits.uniform), abs=1e-6)


@pytest.mark.parametrize("make", [transformer, single])
@pytest.mark.parametrize("name", ["entmax15", "sparsemax"])
def test_another_activation_is_that_of_the_network(make: Any, name: Any) -> None:
    """From the logarithm of softmax weights, or in the network itself."""
    classifier = make()
    case = case_of(classifier)
    inside = with_activation(classifier.model, name)
    with torch.no_grad():
        true = Classifier(inside, classifier.tokenizer).logits(classifier.batch([case.tokens]))[0]
    assert torch.allclose(answer(classifier, case, activation_edit(name)), true, atol=2e-6)
    apart = float(changes(true[None], answer(classifier, case, None), "softmax").tvd[0])
    assert apart > 1e-3
    assert value(Uniform()(case), "tvd", {"activation": name}) == pytest.approx(apart, abs=1e-6)


@pytest.mark.parametrize("make", [transformer, single])
def test_a_sparse_network_gets_its_softmax_back(make: Any) -> None:
    classifier = make(activation="sparsemax")
    case = case_of(classifier)
    found = Uniform()(case)
    dense = Classifier(with_activation(classifier.model, "softmax"), classifier.tokenizer)
    with torch.no_grad():
        true = dense.logits(classifier.batch([case.tokens]))
    apart = float(changes(true, answer(classifier, case, None), "softmax").tvd[0])
    assert value(found, "tvd", {"activation": "softmax"}) == pytest.approx(apart, abs=1e-6)
    assert {f.at["activation"] for f in found if "activation" in f.at} == {"softmax", "entmax15"}
    before = classifier.forwards
    Uniform()(case)
    assert classifier.forwards - before == Uniform().passes(classifier, case.tokens, {}).forwards


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", ["entmax15", "sparsemax"])
def test_sparse_weights_go_where_they_may(mask: str, name: Any) -> None:
    allowed = MASKS[mask]
    found = activation_edit(name)(site(allowed), weights_for(allowed))
    assert torch.allclose(found.sum(-1), torch.ones(()))
    assert not found[:, :, ~allowed].any()


# tables


class Table:
    """What a check's tables are made from, by lists of findings."""

    def __init__(self, texts: list[list[Finding]], labels: tuple[str, ...] = ("no", "yes"), **columns: Any) -> None:
        self.found, self.labels = texts, labels
        self.texts = {name: np.array(column) for name, column in columns.items()}

    def values(self, measure: str, method: str = "", at: Place | None = None) -> Any:
        def number(text: list[Finding]) -> float:
            return next((f.value for f in text if f.measure == measure and f.place == place(at or {})), np.nan)

        return np.array([number(text) for text in self.found])

    def places(self, measure: str, method: str | None = None) -> list[dict[str, Any]]:
        every = dict.fromkeys(f.place for text in self.found for f in text if f.measure == measure)
        return [json.loads(at) if at else {} for at in every]


def finding(measure: str, number: float, at: Place | None = None) -> Finding:
    return Finding("permutation", "", measure, number, at or {})


def test_the_violins_are_sorted_by_label_and_largest_weight() -> None:
    rows = [(0.1, 0.5), (0.25, 0.1), (0.49, 0.3), (1.0, 0.2), (0.3, np.nan)]
    texts = [[finding("max attention", a), finding("tvd", b, ALL)] for a, b in rows]
    made = Permutation().tables(Table(texts, predicted=[0, 1, 1, 1, 1])).by_peak  # type: ignore[arg-type]
    medians: dict[Any, Any] = {(row.label, row.start): (row.n, row.median) for row in made}
    assert len(made) == 8
    assert medians["no", 0.0] == (1, 0.5)
    assert medians["no", 0.25] == (0, pytest.approx(np.nan, nan_ok=True))
    assert medians["yes", 0.25] == (2, pytest.approx(0.2))
    assert medians["yes", 0.75] == (1, 0.2)


@pytest.mark.parametrize("check", [Permutation(), Uniform()])
def test_accuracy_and_its_change(check: Any) -> None:
    rows = [(1, 1), (1, 0), (1, 0), (0, 0), (np.nan, np.nan)]
    texts = [[finding("correct as it is", a), finding("correct", b, ALL)] for a, b in rows]
    plain, changed = check.tables(Table(texts, predicted=[0] * 5)).accuracy
    assert (plain.n, plain.mean) == (4, 0.75)
    assert plain.low < 0.75 < plain.high
    assert (changed.at, changed.mean, changed.change.mean) == (ALL, 0.25, -0.5)


@pytest.mark.parametrize("check", [FEW, Uniform()])
def test_tables_are_json(check: Any) -> None:
    cases = [case_of(shared("bert"), Example(text, label="LABEL_0")) for text in TEXTS]
    table = Table([check(case) for case in cases], shared("bert").labels, predicted=[c.prediction.index for c in cases])
    stored = json.loads(json.dumps(plain_json(asdict(check.tables(table))), allow_nan=False))
    assert repr(decode(type(check.tables(table)), stored)) == repr(check.tables(table))  # NaN is not equal to itself
