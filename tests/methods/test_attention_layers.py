"""Attention flow, attention norms, relevance and value zeroing: twins, identities, outside references, planted toys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from heedful.core.errors import BadInput, Unsupported
from heedful.core.explanation import Attribution
from heedful.maths import flow, formulas
from heedful.methods import method
from heedful.methods import value_zeroing as zeroing
from heedful.methods.attention_layers import AttentionNorm
from heedful.methods.explain import explain
from heedful.methods.value_zeroing import ValueZeroing
from heedful.model.batch import BUDGET
from heedful.model.classifier import Classifier
from heedful.model.edits import Site
from tests.maths.test_formulas import normal, stochastic
from tests.methods.test_methods import attribution, reported
from tests.support import toys
from tests.support.models import EVERY, FAMILIES, TEXTS, build, shared

SHORT = "not funny but good"
networkx: Any = pytest.importorskip("networkx")  # it comes with torch


# attention flow


def networkx_flows(layers: list[Any], supply: Any) -> list[float]:
    graph = networkx.DiGraph()
    graph.add_edges_from((("source", (0, i), {"capacity": float(s)}) for i, s in enumerate(supply)))
    for level, matrix in enumerate(layers):
        for a, row in enumerate(matrix):
            for b, capacity in enumerate(row):
                graph.add_edge((level, a), (level + 1, b), capacity=float(capacity))
    sinks = [(len(layers), b) for b in range(layers[-1].shape[1])]
    return [networkx.maximum_flow_value(graph, "source", sink) for sink in sinks]


def attentions(layers: int, n: int, seed: int, causal: bool) -> Tensor:
    a = (3 * normal(layers, n, n, seed=seed)).softmax(-1)
    return a if not causal else a.tril() / a.tril().sum(-1, keepdim=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("pooled", ["first", "last", "mean"])
@pytest.mark.parametrize(("layers", "n"), [(1, 4), (2, 5), (3, 6), (5, 4), (3, 1)])
def test_flow_is_that_of_networkx(layers: int, n: int, pooled: str, causal: bool) -> None:
    a = attentions(layers, n, layers + n, causal)
    share = {"first": torch.eye(n)[0], "last": torch.eye(n)[-1], "mean": torch.full((n,), 1 / n)}[pooled].double()
    twin = networkx_flows([0.5 * m + 0.5 * torch.eye(n) for m in a.flip(0)], share)
    assert flow.attention_flow(a, share).tolist() == pytest.approx(twin, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_flow_of_an_encoder_decoder_is_that_of_networkx(seed: int) -> None:
    encoder, decoder, cross = stochastic(2, 4, 4, seed=seed), stochastic(3, 3, 3, seed=9), stochastic(3, 3, 4, seed=8)
    graph = networkx.DiGraph()
    for m in range(3):
        for q in range(3):
            for p in range(3):
                half = 0.25 * decoder[m, q, p] + 0.25 * (p == q)
                graph.add_edge(("d", m + 1, q), ("d", m, p), capacity=float(half))
            for k in range(4):
                graph.add_edge(("d", m + 1, q), ("e", 2, k), capacity=float(0.5 * cross[m, q, k]))
    for m in range(2):
        for q in range(4):
            for k in range(4):
                graph.add_edge(("e", m + 1, q), ("e", m, k), capacity=float(0.5 * encoder[m, q, k] + 0.5 * (q == k)))
    twin = [networkx.maximum_flow_value(graph, ("d", 3, 2), ("e", 0, k)) for k in range(4)]
    found = flow.cross_attention_flow(encoder, decoder, cross, torch.tensor([0.0, 0.0, 1.0]).double())
    assert found.tolist() == pytest.approx(twin, abs=1e-9)


def test_the_flow_of_one_layer_is_its_row() -> None:
    a = stochastic(1, 5, 5)
    assert torch.allclose(flow.attention_flow(a, torch.eye(5).double()[2]), formulas.with_residual(a)[0, 2])


def test_the_flow_of_two_layers_is_the_narrower_edge_of_each_path() -> None:
    low, high = formulas.with_residual(a := stochastic(2, 6, 6))
    twin = torch.minimum(high[1][:, None], low).sum(0)
    assert torch.allclose(flow.attention_flow(a, torch.eye(6).double()[1]), twin)


@pytest.mark.parametrize("causal", [False, True])
def test_a_flow_is_at_least_the_rollout_and_at_most_what_enters_the_token(causal: bool) -> None:
    a = attentions(4, 30, 0, causal)
    last = torch.eye(30).double()[-1]
    found = flow.attention_flow(a, last)
    assert (found >= formulas.rollout(a)[-1] - 1e-9).all()
    assert (found <= formulas.with_residual(a)[0].sum(0).clamp(max=1) + 1e-12).all()


def test_attention_to_oneself_flows_to_oneself() -> None:
    found = flow.attention_flow(torch.eye(4).double().expand(3, 4, 4), torch.eye(4).double()[1])
    assert found.tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("sharp", [0.5, 4.0, 12.0])
def test_a_thin_part_of_the_network_gives_the_flow_of_all_of_it(sharp: float, monkeypatch: pytest.MonkeyPatch) -> None:
    a = (sharp * normal(4, 24, 24)).softmax(-1)
    mean = torch.full((24,), 1 / 24).double()
    monkeypatch.setattr(flow, "_STRONGEST_EDGES", ())
    whole = [flow.attention_flow(a, share) for share in (mean, torch.eye(24).double()[3])]
    monkeypatch.setattr(flow, "_STRONGEST_EDGES", (1, 4))
    thin = [flow.attention_flow(a, share) for share in (mean, torch.eye(24).double()[3])]
    torch.testing.assert_close(thin, whole, rtol=0, atol=2e-6)


def test_the_method_is_the_flow_of_the_models_attention() -> None:
    layers = [0.5 * a.mean(0) + 0.5 * torch.eye(a.shape[-1]) for a in reported(shared("gpt2"), SHORT)]
    last = torch.eye(len(layers[0]))[-1]
    twin = networkx_flows(layers[::-1], last)
    assert attribution(shared("gpt2"), SHORT, "attention-flow").scores == pytest.approx(twin, abs=1e-7)


def test_the_flow_of_a_mean_pooled_model_starts_everywhere() -> None:
    layers = [0.5 * a.mean(0) + 0.5 * torch.eye(a.shape[-1]) for a in reported(shared("modernbert"), "good film")]
    twin = networkx_flows(layers[::-1], torch.full((len(layers[0]),), 1 / len(layers[0])))
    assert attribution(shared("modernbert"), "good film", "attention-flow").scores == pytest.approx(twin, abs=1e-6)


@pytest.mark.parametrize("name", ["attention-flow", "relevance", "value-zeroing"])
def test_a_network_with_one_query_has_no_layers_to_go_through(name: str) -> None:
    with pytest.raises(Unsupported, match="tiny-bilstm has one query"):
        explain(shared("bilstm"), TEXTS[0], name)


# attention norms


@pytest.mark.parametrize("family", EVERY)
def test_the_projection_seen_is_the_models(family: str) -> None:
    """Σ_h Σ_k α f(x_k) + b is what the model's own projection gave, also beside padding."""
    classifier = shared(family)
    batch = classifier.batch([classifier.tokens(TEXTS[0]), classifier.tokens(TEXTS[1])])
    reading = classifier.read(batch, values=True)
    assert list(reading.projections) == list(reading.weights)
    for site, found in reading.projections.items():
        mixed = torch.einsum("bhqk,bhkd,hde->bqe", reading.weights[site], reading.values[site], found.weight)
        told = mixed if found.bias is None else mixed + found.bias
        rows = batch.mask.bool() if told.shape[1] > 1 else torch.ones(len(batch), 1).bool()
        assert torch.allclose(told[rows], found.result[rows], atol=1e-5)
        assert found.result[rows].abs().max() > 1e-3


@pytest.mark.parametrize(("family", "weight"), [
    ("bert", lambda m: m.bert.encoder.layer[1].attention.output.dense.weight.T),
    ("gpt2", lambda m: m.transformer.h[1].attn.c_proj.weight),
    ("llama", lambda m: m.model.layers[1].self_attn.o_proj.weight.T),
    ("xlnet", lambda m: m.transformer.layer[1].rel_attn.o.permute(1, 2, 0)),
])  # fmt: skip
def test_the_projection_is_the_models_own_weight(family: str, weight: Any) -> None:
    classifier = shared(family)
    reading = classifier.read(classifier.batch([classifier.tokens(SHORT)]), values=True)
    found = reading.projections[Site("self", 1)].weight
    assert torch.equal(found, weight(classifier.model).reshape(found.shape))


@pytest.mark.parametrize("heads", ["together", "apart"])
@pytest.mark.parametrize("layer", [0, -1])
def test_norms_are_those_of_the_transformed_states(heads: str, layer: int) -> None:
    classifier = shared("bert")
    batch = classifier.batch([classifier.tokens(SHORT)])
    with torch.no_grad():
        states = classifier.model(input_ids=batch.ids, output_hidden_states=True).hidden_states[:-1][layer][0]
    block = classifier.model.bert.encoder.layer[layer].attention
    values, out = block.self.value(states).detach(), block.output.dense.weight.detach()
    alpha = reported(classifier, SHORT)[layer][:, 0]  # [h,k]
    twin = []
    for k in range(len(states)):
        parts = [alpha[h, k] * (out[:, 8 * h : 8 * h + 8] @ values[k, 8 * h : 8 * h + 8]) for h in range(2)]
        whole = sum(parts, torch.zeros(16))
        twin.append(float(whole.norm()) if heads == "together" else float(sum(p.norm() for p in parts)) / 2)
    found = attribution(classifier, SHORT, method("attention-norm", {"heads": heads, "layer": layer}))
    assert found.scores == pytest.approx(twin, rel=1e-5)
    assert not found.signed


def test_norms_of_a_mean_pooled_model_are_weighted_by_the_positions_shares() -> None:
    classifier = shared("modernbert")
    reading = classifier.read(classifier.batch([classifier.tokens(SHORT)]), values=True)
    site = reading.layers("self")[-1]
    brought = torch.einsum("hkd,hde->hke", reading.values[site][0], reading.projections[site].weight)
    vectors = torch.einsum("hqk,hke->qke", reading.weights[site][0], brought)
    twin = vectors.norm(dim=-1).mean(0).detach().numpy()
    assert attribution(classifier, SHORT, "attention-norm").scores == pytest.approx(twin, rel=1e-5)


@pytest.mark.parametrize("architecture", toys.ARCHITECTURES)
def test_heads_together_and_apart_are_the_same_where_there_is_one(architecture: str) -> None:
    toy = toys.build(architecture, toys.mix(0.5))
    together, apart = (attribution(toy, "cat yes dog", AttentionNorm(heads=h)).scores for h in ("together", "apart"))
    assert together == pytest.approx(apart)
    assert together.any()


@pytest.mark.parametrize("architecture", toys.ARCHITECTURES)
def test_a_deaf_model_is_brought_nothing_however_it_looks(architecture: str) -> None:
    """Kobayashi et al.'s point: peaked weights on vectors of zero length say nothing."""
    deaf = toys.build(architecture, toys.DEAF)
    for text in toys.texts(3):
        raw, norm = (attribution(deaf, text, name).scores for name in ("attention-mean", "attention-norm"))
        assert raw.max() > 0.9
        assert np.abs(norm).max() < 1e-6


def test_a_context_that_is_changed_before_it_is_projected_is_refused() -> None:
    classifier = build("bert")
    dense = classifier.model.bert.encoder.layer[1].attention.output.dense
    dense.register_forward_pre_hook(lambda _, args: (args[0] * 2,))
    with pytest.raises(
        Unsupported, match="tiny-bert: no linear map could be recorded after the attention of self layer 1"
    ):
        explain(classifier, SHORT, "attention-norm")
    assert attribution(classifier, SHORT, AttentionNorm(layer=0)).scores.any()


def test_heads_are_together_or_apart() -> None:
    with pytest.raises(BadInput, match="heads 'alone' is not one of together, apart"):
        AttentionNorm(heads="alone")  # type: ignore[arg-type]


# relevance


def test_relevance_of_one_layer_is_added_to_the_identity() -> None:
    a = stochastic(1, 4, 4)
    assert torch.allclose(formulas.relevance(a), torch.eye(4) + a[0])


def test_relevance_is_the_product_of_identity_plus_each_layer() -> None:
    first, second, third = a = stochastic(3, 5, 5)
    one = torch.eye(5).double()
    assert torch.allclose(formulas.relevance(a), (one + third) @ (one + second) @ (one + first))


def test_head_relevance_keeps_what_speaks_for_the_target() -> None:
    a, g = stochastic(3, 2, 4), normal(3, 2, 4, seed=1)
    twin = [[sum(max(0.0, float(a[h, q, k] * g[h, q, k])) for h in range(3)) / 3 for k in range(4)] for q in range(2)]
    assert formulas.head_relevance(a, g).tolist() == [pytest.approx(row) for row in twin]


def test_cross_relevance_follows_the_papers_rules_entry_by_entry() -> None:
    encoder, decoder, cross = stochastic(2, 3, 3), stochastic(2, 4, 4, seed=1), stochastic(2, 4, 3, seed=2)

    def product(x: Any, y: Any) -> Any:
        return [[sum(x[i][k] * y[k][j] for k in range(len(y))) for j in range(len(y[0]))] for i in range(len(x))]

    def add(x: Any, y: Any) -> Any:
        return [[a + b for a, b in zip(r, s, strict=True)] for r, s in zip(x, y, strict=True)]

    def bar(r: Any) -> Any:
        n = len(r)
        hat = [[r[i][j] - (i == j) for j in range(n)] for i in range(n)]
        return [[hat[i][j] / sum(hat[i]) + (i == j) for j in range(n)] for i in range(n)]

    ee: Any = np.eye(3).tolist()
    for layer in encoder.tolist():
        ee = add(ee, product(layer, ee))
    dd: Any = np.eye(4).tolist()
    de: Any = np.zeros((4, 3)).tolist()
    for mixing, reading in zip(decoder.tolist(), cross.tolist(), strict=True):
        de = add(de, product(mixing, de))
        dd = add(dd, product(mixing, dd))
        turned = [list(column) for column in zip(*bar(dd), strict=True)]
        de = add(de, product(product(turned, reading), bar(ee)))
    assert formulas.cross_relevance(encoder, decoder, cross).numpy() == pytest.approx(np.array(de))


def test_cross_relevance_survives_layers_without_any() -> None:
    nothing = torch.zeros(1, 3, 3).double()
    assert torch.equal(formulas.cross_relevance(nothing, nothing, nothing + 0.5), nothing[0] + 0.5)


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_relevance_is_that_of_the_attention_that_the_model_reports(family: str) -> None:
    classifier = shared(family)
    former = classifier.model.config._attn_implementation
    classifier.model.set_attn_implementation("eager")
    out = classifier.model(input_ids=torch.tensor([classifier.tokens(SHORT).ids]), output_attentions=True)
    classifier.model.set_attn_implementation(former)
    slopes = torch.autograd.grad(out.logits[0, 1], out.attentions)
    total = torch.eye(out.attentions[0].shape[-1])
    for a, g in zip(out.attentions, slopes, strict=True):
        total = total + (a * g)[0].clamp(min=0).mean(0) @ total
    twin = total[0 if family == "bert" else -1].detach().numpy()
    assert attribution(classifier, SHORT, "relevance").scores == pytest.approx(twin, rel=1e-4, abs=1e-6)


# value zeroing


VALUES = {
    "bert": lambda m: [block.attention.self.value for block in m.bert.encoder.layer],
    "albert": lambda m: [m.albert.encoder.albert_layer_groups[0].albert_layers[0].attention.value] * 2,
}


def with_zero(classifier: Classifier, module: Any, token: int, call: int = 0) -> Any:
    """All hidden states when one token's output of a value projection is zero, at the n-th call of the module."""
    calls: list[int] = []

    def zero(_: Any, args: Any, out: Tensor) -> Tensor:
        calls.append(1)
        changed = out.clone()
        if len(calls) == call + 1:
            changed[:, token] = 0
        return changed

    hook = module.register_forward_hook(zero)
    try:
        return states(classifier)
    finally:
        hook.remove()


def states(classifier: Classifier) -> Any:
    tokens = classifier.tokens(SHORT)
    with torch.no_grad(), classifier.attention():
        return classifier.model(input_ids=torch.tensor([tokens.ids]), output_hidden_states=True)


def turned(one: Tensor, other: Tensor) -> Tensor:
    return 1 - torch.nn.functional.cosine_similarity(one.double(), other.double(), dim=-1)[0]


def doubled(family: str) -> Classifier:
    classifier = build(family)
    classifier.model.double()
    return classifier


@pytest.mark.parametrize("family", ["bert", "albert"])
def test_zeroing_is_that_of_the_value_vectors(family: str) -> None:
    classifier = doubled(family)
    plain = states(classifier).hidden_states
    n = len(classifier.tokens(SHORT))
    layers = []
    for layer, module in enumerate(VALUES[family](classifier.model)):
        call = layer if family == "albert" else 0
        c = [
            turned(with_zero(classifier, module, j, call).hidden_states[layer + 1], plain[layer + 1]) for j in range(n)
        ]
        matrix = torch.stack(c, dim=1)
        layers.append((matrix / matrix.sum(1, keepdim=True)).numpy())
    whole, first, mean = (
        attribution(classifier, SHORT, ValueZeroing(layer=how)).scores for how in ("rollout", 0, "all")
    )
    assert whole == pytest.approx((layers[1] @ layers[0])[0], abs=1e-7)
    assert first == pytest.approx(layers[0][0], abs=1e-7)
    assert mean == pytest.approx((layers[0][0] + layers[1][0]) / 2, abs=1e-7)


def test_zeroing_in_a_decoder_block_is_shared_between_its_own_positions_and_the_text() -> None:
    classifier = doubled("bart")
    model = classifier.model.model
    plain, n = states(classifier), len(classifier.tokens(SHORT))

    def matrix(module: Any, which: str, layer: int) -> Tensor:
        before = getattr(plain, which)[layer + 1]
        after = [getattr(with_zero(classifier, module, j), which)[layer + 1] for j in range(n)]
        return torch.stack([turned(one, before) for one in after], dim=1)

    below, read = torch.eye(n).double(), torch.zeros(n, n).double()
    for i, block in enumerate(model.encoder.layers):
        c = matrix(block.self_attn.v_proj, "encoder_hidden_states", i)
        below = c / c.sum(1, keepdim=True) @ below
    for i, block in enumerate(model.decoder.layers):
        own = matrix(block.self_attn.v_proj, "decoder_hidden_states", i)
        cross = matrix(block.encoder_attn.v_proj, "decoder_hidden_states", i)
        total = own.sum(1, keepdim=True) + cross.sum(1, keepdim=True)
        read = own / total @ read + cross / total @ below
    assert attribution(classifier, SHORT, "value-zeroing").scores == pytest.approx(read[-1].numpy(), abs=1e-7)
    last = attribution(classifier, SHORT, ValueZeroing(layer=-1)).scores
    assert last == pytest.approx((cross / total)[-1].numpy(), abs=1e-7)


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in ("t5", "bart")])
def test_zeroed_rows_add_up_to_one_and_look_only_where_attention_may(family: str) -> None:
    found = attribution(shared(family), SHORT, "value-zeroing")
    assert found.scores.sum() == pytest.approx(1)
    assert (found.scores >= 0).all()
    first = zeroing._mixing_matrices(
        shared(family), batch := one(family), [shared(family).read(batch).layers("self")[0]]
    )[0]
    assert torch.allclose(first.sum(1), torch.ones(len(first)).double())
    if family in ("gpt2", "llama", "bloom"):
        assert not first.triu(1).any()


def one(family: str) -> Any:
    return shared(family).batch([shared(family).tokens(SHORT)])


@pytest.mark.parametrize("family", ["bert", "xlnet", "gpt2"])
@pytest.mark.parametrize("budget", [14, 30])
def test_copies_that_run_in_parts_give_the_same(family: str, budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = attribution(shared(family), SHORT, "value-zeroing").scores
    monkeypatch.setattr(zeroing, "BUDGET", budget)
    parts = attribution(shared(family), SHORT, "value-zeroing")
    assert parts.scores == pytest.approx(whole, rel=1e-4, abs=1e-6)
    assert parts.source.forwards == ValueZeroing().passes(shared(family), parts.tokens).forwards


@pytest.mark.parametrize("width", [1, 2, 3, 7, 63, 64, 65, 512, 5000])
def test_parts_hold_every_token_once(width: int) -> None:
    parts = zeroing._parts(width)
    assert [i for part in parts for i in part] == list(range(width))
    assert all((1 + len(part)) * width <= max(2 * width, BUDGET + width) for part in parts)


def test_only_the_block_and_those_below_run() -> None:
    classifier = shared("bert")
    assert classifier.can_branch  # found out by passes of its own, once
    ran: list[int] = []
    hooks = [
        block.register_forward_hook(lambda m, a, out, i=i: ran.append(i))
        for i, block in enumerate(classifier.model.bert.encoder.layer)
    ]
    site = classifier.read(one("bert")).layers("self")[0]
    ran.clear()
    zeroing._distances(classifier, one("bert"), site)
    for hook in hooks:
        hook.remove()
    assert ran == [0]


def test_a_row_that_nothing_moves_keeps_its_own_token() -> None:
    """Layer 1 of the deaf toy hears nothing: what the pooled position holds is what layer 0 gave it."""
    deaf = toys.build("bert", toys.DEAF)
    whole, bag, top = (
        attribution(deaf, "cat yes dog pig", ValueZeroing(layer=how)).scores for how in ("rollout", 0, 1)
    )
    assert top.tolist() == [1, 0, 0, 0, 0, 0]
    assert whole == pytest.approx(bag)


def test_a_layer_is_a_number_or_a_way_to_join_them() -> None:
    with pytest.raises(BadInput, match="layer is a whole number, 'rollout' or 'all', not 'top'"):
        ValueZeroing(layer="top")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=r"layer 2 is not one of 0 … 1"):
        explain(shared("bert"), SHORT, ValueZeroing(layer=2))


@pytest.mark.parametrize(
    ("left", "right"), [((1.0, 0.0), (0.0, 2.0)), ((1.0, 2.0), (2.0, 4.0)), ((1.0, 0.0), (-3.0, 0.0))]
)
def test_cosine_distance_is_torchs(left: tuple[float, float], right: tuple[float, float]) -> None:
    one, other = torch.tensor([left]), torch.tensor([right])
    twin = 1 - torch.nn.functional.cosine_similarity(one, other)
    assert torch.allclose(formulas.cosine_distance(one, other), twin, atol=1e-6)


def test_cosine_distance_keeps_its_digits_near_zero() -> None:
    one = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    near = torch.tensor([[1.0, 1e-9]], dtype=torch.float64)
    assert formulas.cosine_distance(one, near).item() == pytest.approx(0.5e-18, rel=1e-6)
    assert formulas.cosine_distance(near, near).item() == 0


# all of them


@pytest.mark.parametrize(
    "how", ["attention-norm", "relevance", ValueZeroing(layer=-1), "attention-flow"], ids=lambda h: str(h)[:14]
)
@pytest.mark.parametrize("architecture", ["bert", "gpt2", "bart"])
def test_the_word_that_a_pointer_points_at_comes_first(architecture: str, how: Any) -> None:
    """Of value zeroing, the pointing layer: the layer below writes a bag that the pointer's head does not read."""
    pointer = toys.build(architecture, toys.POINTER)
    for text in toys.texts(4):
        found = attribution(pointer, text, how, target=None)
        content = list(found.tokens.content)
        at = content if architecture != "gpt2" else content[:-1]  # its last word is also the pooled position
        marker = toys.marker(found.tokens.pieces)
        assert marker not in at or max(at, key=lambda i: float(found.scores[i])) == marker


@pytest.mark.parametrize("settings", [
    ("attention-flow", {}), ("attention-norm", {}), ("relevance", {}), ("value-zeroing", {}),
    ("value-zeroing", {"layer": 0}), ("value-zeroing", {"layer": "all"}),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("family", ["bert", "albert", "gpt2", "bart"])
def test_passes_are_told_in_advance(family: str, settings: tuple[str, dict[str, Any]]) -> None:
    how: Any = method(*settings)
    found = explain(shared(family), TEXTS[1], how)
    assert isinstance(found, Attribution)
    told = how.passes(shared(family), found.tokens)
    assert (told.forwards, told.backwards, told.exactly) == (found.source.forwards, found.source.backwards, True)
