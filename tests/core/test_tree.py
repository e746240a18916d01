"""Attribution trees: the authors' program step by step, the best tree against enumeration, and what a tree is."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import heedful
from heedful.core.arrays import Floats
from heedful.core.errors import BadInput
from heedful.core.explanation import Attribution, Interaction, Prediction, Source
from heedful.core.tokens import Tokens
from heedful.core.tree import Edge, Tree, grow
from heedful.methods import method
from heedful.methods.explain import explain
from tests.support.models import TEXTS, shared

CLS, WORD = None, 0


def tokens(special: list[int | None]) -> Tokens:
    n = len(special)
    text = " ".join("w" * n)
    spans = tuple(None if s is None else (2 * i, 2 * i + 1) for i, s in enumerate(special))
    return Tokens(text, None, (0,) * n, tuple("w" * n), spans, (None,) * n, tuple(special))


def interaction(a: Any, special: list[int | None] | None = None, layers: tuple[int, ...] = ()) -> Interaction:
    """One head that holds a[l,q,k]; a [CLS] in front unless told otherwise."""
    weights = np.asarray(a, dtype=np.float32)[:, None]
    n = weights.shape[-1]
    return Interaction(tokens=tokens(special or [CLS, *[WORD] * (n - 1)]), weights=weights, layers=layers)


def sparse(n: int, layers: int, **edges: float) -> Floats:
    """sparse(4, 3, l1_2_3=.5): a[1, 2, 3] = .5."""
    a = np.zeros((layers, n, n))
    for name, value in edges.items():
        layer, query, key = (int(x) for x in name[1:].split("_"))
        a[layer, query, key] = value
    return a


def pairs(result: Tree) -> list[tuple[int, int, int]]:
    return [(e.layer, e.query, e.key) for e in result.edges]


interactions = st.integers(1, 4).flatmap(
    lambda layers: st.integers(2, 5).flatmap(
        lambda n: st.lists(st.integers(-20, 20), min_size=layers * n * n, max_size=layers * n * n).map(
            lambda values: interaction(np.reshape(values, (layers, n, n)) / 16)
        )
    )
)


# a tree is a tree


@given(interactions, st.sampled_from(["greedy", "exact"]), st.sampled_from([0.0, 0.4, 0.8]))
def test_a_tree_is_a_tree(result: Interaction, how: Any, threshold: float) -> None:
    grown = grow(result, how, threshold=threshold)
    keys = [edge.key for edge in grown.edges]
    assert len(keys) == len(set(keys))
    assert grown.root not in keys
    assert set(grown.heights) == set(grown.nodes)
    for node in grown.nodes:
        while node != grown.root:  # every way up ends at the root, and goes up
            assert grown.heights[node] < grown.heights[grown.parent[node]]
            node = grown.parent[node]
    assert all(0 <= height < 1 for height in grown.heights.values())
    assert sum(map(len, grown.children.values())) == len(grown.edges)


@given(interactions, st.sampled_from(["greedy", "exact"]), st.sampled_from([0.0, 0.4, 0.8]))
def test_every_edge_is_above_the_threshold_and_as_heavy_as_said(
    result: Interaction, how: Any, threshold: float
) -> None:
    a = result.weights.astype(np.float64).sum(1)
    grown = grow(result, how, threshold=threshold)
    for edge in grown.edges:
        assert edge.query != edge.key
        assert edge.query != 0  # [CLS] is no parent
        assert edge.share > threshold
        assert edge.weight == a[edge.layer, edge.query, edge.key]
        assert edge.share == pytest.approx(edge.weight / a[edge.layer, 1:].max())
    assert grown.objective == pytest.approx(sum(edge.weight for edge in grown.edges))


# the authors' program


def program(a: Floats, threshold: float) -> tuple[int, set[tuple[int, int]]]:
    """The published rules one after the other, for any number of layers from three up; [CLS] stands at 0."""
    layers, n, _ = a.shape
    share = np.stack([layer / abs(layer[1:].max()) if layer[1:].max() else layer * 0 for layer in a])
    share[share <= threshold] = 0
    total = a.sum(0) * (a.sum(0) > 0)
    total[0] = 0
    total[range(n), range(n)] = 0
    root = int(total.sum(1)[1:].argmax()) + 1
    inside, edges = {root}, set()
    for j in range(n):
        if j != root and share[layers - 2, root, j] > threshold:
            inside.add(j)
            edges.add((root, j))
    for layer in range(layers - 3, -1, -1):
        for i in range(1, n):
            for j in range(n):
                if share[layer, i, j] > threshold and i in inside and j not in inside:
                    inside.add(j)
                    edges.add((i, j))
    return root, edges


@given(st.integers(0, 10_000), st.integers(3, 6), st.integers(3, 9), st.sampled_from([0.2, 0.4]))
def test_greedy_is_the_authors_program(seed: int, layers: int, n: int, threshold: float) -> None:
    a = np.random.default_rng(seed).normal(size=(layers, n, n)).astype(np.float32)
    grown = grow(interaction(a), threshold=threshold)
    assert (grown.root, {(e.query, e.key) for e in grown.edges}) == program(a.astype(np.float64), threshold)


def test_greedy_by_hand() -> None:
    a = sparse(6, 4, l3_2_5=9.0, l2_2_1=1.0, l2_2_0=0.5, l2_3_4=2.0, l1_1_3=1.0, l0_3_4=1.0, l0_2_5=1.0, l0_4_1=1.0)
    a[2, 3, 4] = 0.9
    grown = grow(interaction(a))
    assert grown.root == 2
    # the last layer (3) is skipped, layer 2 serves the root alone, and 1 is already attached when 4 would take it
    assert pairs(grown) == [(2, 2, 0), (2, 2, 1), (1, 1, 3), (0, 2, 5), (0, 3, 4)]
    assert grown.heights == {2: 3 / 4, 0: 2 / 4, 1: 2 / 4, 3: 1 / 4, 5: 1 / 4, 4: 0}
    assert grown.objective == pytest.approx(0.5 + 1 + 1 + 1 + 1)
    assert not grown.proven


def test_twelve_layers_start_at_eleven_twelfths() -> None:
    grown = grow(interaction(sparse(4, 12, l10_1_2=1.0, l9_2_3=1.0)))
    assert grown.heights == pytest.approx({1: 11 / 12, 2: 10 / 12, 3: 9 / 12})


def test_greedy_may_chain_inside_a_layer_and_says_so() -> None:
    grown = grow(interaction(sparse(5, 4, l2_1_2=1.0, l1_2_3=1.0, l1_3_4=1.0)))
    assert pairs(grown) == [(2, 1, 2), (1, 2, 3), (1, 3, 4)]
    assert grown.notes == ("1 of 3 edges hang from a token attached in the same layer",)


def test_a_chain_longer_than_the_layers_stays_above_zero() -> None:
    a = sparse(7, 3, l1_1_2=1.0, l0_2_3=1.0, l0_3_4=1.0, l0_4_5=1.0, l0_5_6=1.0)
    assert list(grow(interaction(a)).heights.values()) == pytest.approx([5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6, 0])


@pytest.mark.parametrize(("layers", "used"), [(1, 0), (2, 0), (3, 1)])
def test_one_layer_is_not_skipped_and_the_last_of_several_is(layers: int, used: int) -> None:
    a = np.zeros((layers, 3, 3))
    a[:, 1, 2] = 1.0
    assert pairs(grow(interaction(a))) == [(used, 1, 2)]


def test_layers_keep_their_numbers_in_any_order() -> None:
    a = sparse(4, 3, l0_1_2=1.0, l2_2_3=1.0)
    assert pairs(grow(interaction(a, layers=(5, 9, 2)))) == [(5, 1, 2), (2, 2, 3)]
    assert pairs(grow(interaction(a, layers=(5, 9, 2)), "exact")) == [(5, 1, 2), (2, 2, 3)]


# what is left out


def test_the_cls_row_is_no_measure_but_cls_can_be_a_child() -> None:
    a = sparse(3, 3, l1_0_2=10.0, l1_1_0=1.0)
    assert pairs(grow(interaction(a))) == [(1, 1, 0)]
    assert pairs(grow(interaction(a), leave_out="nothing", root=0)) == [(1, 0, 2)]


def test_special_tokens_can_stay_away_altogether() -> None:
    a = sparse(4, 3, l1_1_0=5.0, l1_1_3=5.0, l1_3_1=9.0, l1_1_2=1.0)
    grown = grow(interaction(a, [CLS, WORD, WORD, CLS]), leave_out="special")
    assert pairs(grown) == [(1, 1, 2)]
    assert grown.edges[0].share == 1


def test_the_classification_token_may_stand_last() -> None:
    a = sparse(4, 3, l1_3_0=9.0, l1_0_1=1.0)
    assert grow(interaction(a, [WORD, WORD, CLS, CLS])).root == 0
    assert grow(interaction(a, [WORD, WORD, WORD, CLS])).root == 3  # one closing token is none of its kind


# the best tree


def value(edges: tuple[tuple[int, int, int], ...], a: Floats, penalty: float) -> float | None:
    """What a set of edges is worth, or None if it is no tree in which tokens pass on what they got higher up."""
    attached = {key: layer for layer, _, key in edges}
    roots = {query for _, query, _ in edges} - set(attached)
    orderly = all(query in roots or attached[query] > layer for layer, query, _ in edges)
    if len(attached) < len(edges) or len(roots) > 1 or not orderly:
        return None
    return float(sum(a[edge] - penalty for edge in edges))


def enumerated(result: Interaction, threshold: float, penalty: float, root: int | None = None) -> float:
    a = result.weights.astype(np.float64).sum(1)
    largest = np.maximum(a[:, 1:].max((1, 2)), 1e-30)
    usable = [
        (layer, i, j)
        for layer, i, j in np.ndindex(a.shape)
        if i and i != j and a[layer, i, j] > threshold * largest[layer]
    ]
    best = 0.0
    for size in range(1, a.shape[-1]):
        for edges in combinations(usable, size):
            if root is not None and root not in {q for _, q, _ in edges} - {k for *_, k in edges}:
                continue
            best = max(best, value(edges, a, penalty) or 0.0)
    return best


@given(
    st.integers(0, 100_000),
    st.integers(1, 4),
    st.integers(2, 4),
    st.sampled_from([0.4, 0.7]),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([None, 1]),
)
def test_exact_is_the_best_of_all_trees(
    seed: int, layers: int, n: int, threshold: float, penalty: float, root: int | None
) -> None:
    a = np.random.default_rng(seed).normal(size=(layers, n, n)) * 10.0 ** (seed % 7 - 5)  # also very small weights
    scale = float(np.abs(a).max())
    result = interaction(a)
    grown = grow(result, "exact", threshold=threshold, penalty=penalty * scale, root=root)
    assert grown.proven
    assert (
        value(tuple(pairs(grown)), result.weights.astype(np.float64).sum(1), penalty * scale) is not None
        or not grown.edges
    )
    assert grown.objective == pytest.approx(enumerated(result, threshold, penalty * scale, root), abs=1e-6 * scale)


@given(st.integers(0, 100_000), st.integers(3, 5), st.integers(4, 7))
def test_exact_is_at_least_as_good_as_a_greedy_tree_that_it_could_make(seed: int, layers: int, n: int) -> None:
    result = interaction(np.random.default_rng(seed).normal(size=(layers, n, n)))
    quick, best = grow(result), grow(result, "exact")
    if not quick.notes:  # nothing chained inside a layer
        assert best.objective >= quick.objective - 1e-9


def test_a_penalty_leaves_weak_edges_away_unless_they_carry_others() -> None:
    a = sparse(5, 3, l2_1_2=0.5, l2_1_4=0.5, l1_2_3=2.0)
    grown = grow(interaction(a), "exact", penalty=1.0, root=1)
    assert pairs(grown) == [(2, 1, 2), (1, 2, 3)]
    assert grown.objective == pytest.approx(0.5 + 2.0 - 2 * 1.0)
    assert grown.heights == pytest.approx({1: 3 / 4, 2: 2 / 4, 3: 1 / 4})


def test_exact_hangs_nothing_from_a_token_attached_in_the_same_layer() -> None:
    a = sparse(4, 2, l1_1_2=1.0, l1_2_3=0.9)
    assert pairs(grow(interaction(a), "exact", root=1)) == [(1, 1, 2)]


def test_a_search_that_was_stopped_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import scipy.optimize

    whole = scipy.optimize.milp

    def stopped(*args: Any, **kwargs: Any) -> Any:
        answer = whole(*args, **kwargs)
        answer.status = 1
        return answer

    monkeypatch.setattr(scipy.optimize, "milp", stopped)
    grown = grow(interaction(sparse(3, 2, l0_1_2=1.0)), "exact", seconds=5)
    assert not grown.proven
    assert grown.notes == ("the search was stopped after 5 s: a better tree may exist",)


def test_a_search_without_any_result_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import scipy.optimize

    monkeypatch.setattr(scipy.optimize, "milp", lambda *a, **k: scipy.optimize.OptimizeResult(x=None, status=1))
    with pytest.raises(BadInput, match="no tree was found in 30 s among 1 edges; raise threshold or seconds"):
        grow(interaction(sparse(3, 2, l0_1_2=1.0)), "exact")


# only a root


@pytest.mark.parametrize("how", ["greedy", "exact"])
@pytest.mark.parametrize("a", [np.zeros((3, 4, 4)), -np.ones((2, 3, 3)), np.zeros((1, 1, 1))])
def test_nothing_above_the_threshold_gives_the_root_alone(how: Any, a: Floats) -> None:
    grown = grow(interaction(a, [WORD] * a.shape[-1]), how)
    assert grown.edges == ()
    assert grown.nodes == (0,)
    assert grown.objective == 0
    assert grown.notes == ("no edge has a share above 0.4, so the tree is its root alone",)


def test_a_penalty_above_every_weight_gives_the_root_alone() -> None:
    grown = grow(interaction(sparse(3, 3, l1_1_2=1.0)), "exact", penalty=2.0)
    assert grown.edges == ()
    assert grown.proven
    assert grown.notes == ("no edge hangs from the root or is worth its penalty, so the tree is its root alone",)


# at the door


def test_a_tree_of_scores_is_refused() -> None:
    scores: Any = Attribution(tokens=tokens([WORD]), scores=np.zeros(1))
    with pytest.raises(BadInput, match="Attribution has no tree; give an Interaction"):
        grow(scores)


def test_a_single_query_is_refused() -> None:
    with pytest.raises(BadInput, match="one query, and a tree needs one per token"):
        grow(explain(shared("bilstm"), TEXTS[0], "attention-weights"))


@pytest.mark.parametrize("kind", ["cross", "decoder"])
def test_decoder_positions_are_refused(kind: str) -> None:
    why: Any = explain(shared("bart"), TEXTS[0], method("attention-weights", {"kind": kind}))
    with pytest.raises(BadInput, match=f"{kind} attention has the decoder's tokens as queries; use kind='encoder'"):
        grow(why)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"how": "best"}, "how 'best' is not one of greedy, exact"),
        ({"threshold": 1.0}, "threshold 1.0 is not between 0 and 1"),
        ({"threshold": -0.1}, "threshold -0.1 is not between 0 and 1"),
        ({"penalty": 0.5}, "^greedy search has no penalty; use how='exact'"),
        ({"how": "exact", "penalty": -1.0}, "penalty -1.0 is not zero or above"),
        ({"leave_out": "sep"}, "leave_out 'sep' is not one of cls, special, nothing"),
        ({"root": 0}, "root 0 is not the position of a token that may be a parent"),
        ({"root": 3}, "root 3 is not the position of a token that may be a parent"),
    ],
)
def test_what_means_nothing_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        grow(interaction(np.ones((3, 3, 3))), **given)


# kept and read again


@pytest.mark.parametrize("family", ["bert", "gpt2", "bart"])
@pytest.mark.parametrize("name", ["attattr", "attention-weights"])
@pytest.mark.parametrize("how", ["greedy", "exact"])
def test_a_tree_of_a_model_survives_json(family: str, name: str, how: Any) -> None:
    why = explain(shared(family), TEXTS[3], method(name, {"kind": "encoder"}))
    assert isinstance(why, Interaction)
    grown = heedful.tree(why, how=how, threshold=0.3)
    assert grown.edges
    again = Tree.from_dict(json.loads(grown.to_json()))
    assert again.to_json() == grown.to_json()
    assert (again.edges, again.heights, again.tokens) == (grown.edges, grown.heights, grown.tokens)
    assert (again.prediction, again.target, again.source.method) == (why.prediction, why.target, name)


def test_a_regression_has_no_probabilities_to_read_again() -> None:
    grown = replace(
        grow(interaction(np.ones((3, 3, 3)))), prediction=Prediction(("x",), (0.5,), None), source=Source("m")
    )
    assert Tree.from_dict(json.loads(grown.to_json())).prediction == grown.prediction


def test_something_else_is_not_read_as_a_tree() -> None:
    with pytest.raises(BadInput, match="the kind is attribution and the format 1; a tree of format 1 was expected"):
        Tree.from_dict(Attribution(tokens=tokens([WORD]), scores=np.zeros(1)).to_dict())


def test_an_edge_says_who_gets_what_from_whom() -> None:
    grown = grow(interaction(sparse(3, 3, l1_1_2=2.0)))
    assert grown.edges == (Edge(layer=1, query=1, key=2, weight=2.0, share=1.0),)
    assert (grown.parent, grown.children, grown.layers) == ({2: 1}, {1: (2,), 2: ()}, (0, 1, 2))
