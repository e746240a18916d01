"""Permutation: the edit of one draw, and the numbers."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from heedful.checks.interventions import WHOLE_MODEL, Copy, Movable, Where, outcomes
from heedful.checks.permutation import Permutation, Permute, exchanged, shuffled
from heedful.core.errors import BadInput, Unsupported
from heedful.data import Example
from heedful.maths.distances import changes
from heedful.methods.attention import AttentionMean
from heedful.model import batch, edits
from heedful.model.edits import Site
from tests.support.cases import one
from tests.support.interventions import (
    ALL,
    FEW,
    FULL,
    MASKS,
    WORDS,
    Table,
    answer,
    case_of,
    finding,
    rng,
    site,
    tokens_of,
    toy,
    tvd,
    value,
    weights_for,
)
from tests.support.models import TEXTS, multihead, shared
from tests.support.toys import POINTER


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("special", [False, True])
def test_each_row_keeps_its_weights_and_what_it_may_not_see(mask: str, together: bool, special: bool) -> None:
    allowed = MASKS[mask]
    old = weights_for(allowed)
    new = Permute(Movable(tokens_of(5), special), rng(), "keys", together)(site(allowed), old)
    assert torch.equal(new.sort(-1).values, old.sort(-1).values)
    assert not new[:, :, ~allowed].any()


@pytest.mark.parametrize("mask", MASKS)
def test_weights_move(mask: str) -> None:
    old = weights_for(MASKS[mask])
    new = Permute(Movable(tokens_of(5)), rng(), "keys", False)(site(MASKS[mask]), old)
    assert not torch.equal(new, old)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("axis", ["keys", "rows"])
def test_special_tokens_keep_their_weights(mask: str, axis: Any) -> None:
    old = weights_for(MASKS[mask])
    new = Permute(Movable(tokens_of(5), special=False), rng(), axis, False)(site(MASKS[mask]), old)
    kept = (..., [0, 4]) if axis == "keys" else (slice(None), slice(None), [0, 4])
    assert torch.equal(new[kept], old[kept])


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("axis", ["keys", "rows"])
def test_several_draws_at_once_are_those_of_each_alone(axis: Any, together: bool) -> None:
    def draws() -> list[Permute]:
        return [Permute(Movable(tokens_of(5)), rng(i), axis, together) for i in range(3)]

    old = torch.rand(1, 2, 5, 5, generator=rng())
    alone = torch.cat([edit(site(FULL), old) for edit in draws()])
    whole = Site("self", 0, allowed=site(FULL).allowed.expand(3, -1, -1, -1))
    assert torch.equal(draws()[0].many(draws(), whole, old.expand(3, -1, -1, -1)), alone)
    assert not torch.equal(alone[0], alone[1])


def test_the_quick_way_is_the_general_one() -> None:
    old, order = weights_for(FULL), torch.rand(1, 2, 5, 5, generator=rng())
    assert torch.equal(shuffled(old, FULL[None, None], order), edits.shuffle(old, FULL[None, None], order))


def test_together_is_one_order_of_keys_for_rows_heads_and_layers() -> None:
    edit = Permute(Movable(tokens_of(5)), rng(), "keys", True)
    found = [(old, edit(site(FULL), old)) for old in (weights_for(FULL), weights_for(FULL, seed=1))]
    orders = [o for o in permutations(range(5)) if all(torch.equal(new, old[..., list(o)]) for old, new in found)]
    assert len(orders) == 1
    assert orders[0] != (0, 1, 2, 3, 4)


def test_apart_rows_have_orders_of_their_own() -> None:
    old = weights_for(FULL)
    new = Permute(Movable(tokens_of(5)), rng(), "keys", False)(site(FULL), old)
    orders = {tuple((old[0, h, q][:, None] == new[0, h, q]).int().argmax(0).tolist()) for h in (0, 1) for q in range(5)}
    assert len(orders) > 5


def test_rows_are_exchanged_in_each_head() -> None:
    old = weights_for(FULL)
    new = Permute(Movable(tokens_of(5)), rng(1), "rows", False)(site(FULL), old)
    for h in (0, 1):
        order = [int((old[0, h] == row).all(-1).nonzero()) for row in new[0, h]]
        assert sorted(order) == list(range(5))
        assert order != list(range(5))


def test_together_is_one_order_of_rows_for_heads_and_layers() -> None:
    edit = Permute(Movable(tokens_of(5)), rng(), "rows", True)
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
    drawn = [Copy(WHOLE_MODEL, Permute(Movable(case.tokens), case.rng(i), "keys", False)) for i in range(1200)]
    found = outcomes(classifier, case.tokens, drawn).tvd
    nearest = np.abs(found[:, None] - np.array(brute)).argmin(1)
    assert found == pytest.approx(np.array(brute)[nearest], abs=1e-6)
    assert np.bincount(nearest, minlength=6) / 1200 == pytest.approx(1 / 6, abs=0.045)
    assert found.mean() == pytest.approx(np.mean(brute), rel=0.1)


def test_how_copies_are_batched_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(shared("bert"))
    usual = [f.value for f in FEW(case)]
    monkeypatch.setattr(batch, "BUDGET", 3 * len(case.tokens))
    assert [f.value for f in FEW(case)] == pytest.approx(usual, abs=1e-6, nan_ok=True)


def test_the_numbers_are_medians_and_shares_over_the_draws() -> None:
    classifier = shared("bert")
    case = case_of(classifier, Example(TEXTS[0], label="LABEL_2"))
    where = Where("self", 1, 0)

    def draw(i: int) -> Tensor:
        edit = Permute(Movable(case.tokens), case.rng("permutation", "self", 1, 0, i), "keys", False)

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
    copies = [Copy(WHOLE_MODEL, Permute(movable, case.rng(i), "keys", False)) for i in range(40)]
    swapped = tvd(classifier, case, lambda site, weights: weights[..., [0, 2, 1, 3]])
    assert swapped > 0.1
    assert set(outcomes(classifier, case.tokens, copies).tvd.round(5)) == {0.0, round(swapped, 5)}


@pytest.mark.parametrize("family", ["gpt2", "bilstm", "mistral"])
def test_rows_of_a_causal_model_or_of_one_query_cannot_be_exchanged(family: str) -> None:
    with pytest.raises(
        Unsupported, match=rf"^tiny-{family} has one query or causal attention: no two rows have the same keys"
    ):
        Permutation(axis="rows")(case_of(shared(family)))


@pytest.mark.parametrize("family", ["bert", "bart", "modernbert"])
def test_rows_of_an_encoder_can(family: str) -> None:
    assert value(Permutation(5, 2, 2, axis="rows")(case_of(shared(family))), "tvd", ALL) > 0


def test_a_text_keeps_its_numbers_from_run_to_run() -> None:
    first, second = ([f.value for f in FEW(case_of(shared("bert"))) if f.measure == "tvd"] for _ in range(2))
    assert first == second


@pytest.mark.parametrize("settings", [{"draws": 0}, {"layer_draws": -1}, {"head_draws": -1}])
def test_wrong_settings(settings: Any) -> None:
    with pytest.raises(BadInput, match=r"^(layer_|head_)?draws is a whole number of at least [01], not"):
        Permutation(**settings)


def test_a_network_that_attends_to_padding_keeps_it() -> None:
    classifier = multihead(masked=False)
    case = case_of(classifier)
    seen = {}

    def watch(site: Site, weights: Tensor) -> Tensor:
        seen["old"], seen["new"] = weights, Permute(Movable(case.tokens), rng(), "keys", False)(site, weights)
        return weights

    answer(classifier, case, watch)
    n = len(case.tokens)
    assert torch.equal(seen["old"][..., n:], seen["new"][..., n:])
    assert not torch.equal(seen["old"], seen["new"])
    assert value(FEW(case), "tvd", ALL) > 0


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
