"""The small Transformer encoder and stacks of multi-head layers, against loops that spell out their formulas."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from heedful.core.errors import BadInput, Unsupported
from heedful.maths.activations import ACTIVATIONS
from heedful.methods import METHODS, method
from heedful.methods.conformance import conforms, snapshot
from heedful.methods.explain import explain
from heedful.model import edits
from heedful.model.classifier import Classifier
from heedful.nets.base import Net
from heedful.nets.multihead import MultiHead
from heedful.nets.multihead import MultiHeadShape as MultiHeadShape
from heedful.nets.transformer import Transformer, TransformerShape, with_activation
from tests.methods.test_conformance import FIRST, QUICK
from tests.support.models import INSIDE, TEXTS, loud, tokenizer
from tests.support.parameters import mostly_thorough

WORDS = 60
BRIEF: dict[str, dict[str, Any]] = QUICK | {
    "lime": {"samples": 20},
    "shapley": {"samples": 20, "exact_up_to": 2},
    "shapley-partition": {"samples": 12},
    "minimal-flip": {"tries": 8},
}
Made = Callable[..., Net]


def encoder(seed: int = 0, **more: Any) -> Transformer:
    """A tiny loud encoder in float64."""
    sizes: dict[str, Any] = {"layers": 2, "heads": 2, "width": 8, "inner": 12, "max_position_embeddings": 40}
    net = Transformer(TransformerShape(**({"vocabulary": WORDS, "num_labels": 3} | sizes | more)))
    loud(net, seed)
    return net.double()


def stack(seed: int = 0, **more: Any) -> MultiHead:
    """A tiny loud stack of multi-head layers in float64."""
    sizes: dict[str, Any] = {"embedding": 10, "attention": 6, "value": 4, "heads": 3, "layers": 3}
    shape = {"vocabulary": WORDS, "num_labels": 3, "max_position_embeddings": 40, "pad_token_id": 1}
    net = MultiHead(MultiHeadShape(**(shape | sizes | more)))
    loud(net, seed, scale=0.6)  # layers without a residual connection grow quiet
    return net.double()


KINDS: dict[str, Callable[[], Net]] = {
    "sum": encoder,
    "mean": lambda: encoder(pooling="mean", positions=False),
    "cls": lambda: encoder(pooling="cls", activation="sparsemax"),
    "entmax": lambda: encoder(activation="entmax15", layers=1),
    "one layer": lambda: stack(layers=1),
    "one layer, unmasked": lambda: stack(layers=1, masked=False),
    "three layers": stack,
    "three layers, residual": lambda: stack(residual=True),
    "three layers, unmasked": lambda: stack(masked=False),
}
EVERY = pytest.mark.parametrize("kind", KINDS)
MASKED = pytest.mark.parametrize("kind", [kind for kind in KINDS if "unmasked" not in kind])


def ids(n: int, seed: int = 0) -> list[int]:
    return torch.randint(2, WORDS, (n,), generator=torch.Generator().manual_seed(seed)).tolist()


def answered(net: Net, rows: list[list[int]], mask: list[list[int]] | None = None) -> Tensor:
    with torch.no_grad():
        logits: Tensor = net(torch.tensor(rows), None if mask is None else torch.tensor(mask)).logits
    return logits


def fast(net: Net) -> Net:
    net.config._attn_implementation_internal = "sdpa"
    return net


def close(result: Tensor, twin: Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(result, twin, rtol=0, atol=atol)


# the formulas, in loops


def layer_norm(x: Tensor, norm: Any) -> Tensor:
    """Of one vector."""
    centred = x - sum(x) / len(x)
    variance = sum(c * c for c in centred) / len(x)
    twin: Tensor = centred / torch.sqrt(variance + 1e-6) * norm.weight + norm.bias
    return twin


def mixed(scores: list[Tensor], values: list[Tensor], activation: str) -> Tensor:
    alpha = ACTIVATIONS[activation](torch.stack(scores), -1)
    total = torch.zeros_like(values[0])
    for a, v in zip(alpha, values, strict=True):
        total = total + a * v
    return total


def encoder_twin(net: Transformer, text: list[int]) -> Tensor:
    c = net.config
    d = c.width // c.heads
    x = [net.words.weight[i] * math.sqrt(c.width) for i in text]
    if c.positions:
        for t in range(len(x)):
            angles = [t / 10000 ** ((i - i % 2) / c.width) for i in range(c.width)]
            wave = [math.cos(a) if i % 2 else math.sin(a) for i, a in enumerate(angles)]
            x[t] = x[t] + torch.tensor(wave, dtype=torch.float32).double()
    for block in net.blocks:
        b: Any = block
        q, k, v = ([m.weight @ e + m.bias for e in x] for m in (b.query, b.key, b.value))
        new = []
        for t in range(len(x)):
            heads = []
            for h in range(c.heads):
                at = slice(h * d, (h + 1) * d)
                scores = [q[t][at] @ key[at] / math.sqrt(d) for key in k]
                heads.append(mixed(scores, [value[at] for value in v], c.activation))
            one = layer_norm(x[t] + b.out.weight @ torch.cat(heads) + b.out.bias, b.attended)
            inner = (b.inner.weight @ one + b.inner.bias).clamp(min=0)
            new.append(layer_norm(one + b.outer.weight @ inner + b.outer.bias, b.finished))
        x = new
    pooled = {"sum": sum(x) / 100, "mean": sum(x) / len(x), "cls": x[0]}[c.pooling]
    twin: Tensor = net.head.weight @ pooled + net.head.bias
    return twin


def stack_twin(net: MultiHead, text: list[int]) -> Tensor:
    c = net.config
    filled = text if c.masked else text + [c.pad_token_id] * (len(net.positions) - len(text))
    x = [net.words.weight[i] + net.positions[t] for t, i in enumerate(filled)]
    layers: list[Any] = list(net.blocks) or [net]
    for layer in layers:
        new = []
        for t in range(len(x)):
            total = torch.zeros(layer.out.shape[1], dtype=torch.float64)
            for i in range(c.heads):
                q = layer.query[i] @ x[t]
                scores = [q @ (layer.key[i] @ e) / math.sqrt(c.attention) for e in x]
                total = total + layer.out[i] @ mixed(scores, [layer.value[i] @ e for e in x], "softmax") / c.heads
            new.append(x[t] + total if c.residual and layer is not layers[-1] else total)
        x = new
    return x[0]


@EVERY
def test_a_network_is_what_its_formula_says(kind: str) -> None:
    net, text = KINDS[kind](), ids(5)
    with torch.no_grad():
        twin = encoder_twin(net, text) if isinstance(net, Transformer) else stack_twin(net, text)  # type: ignore[arg-type]
    close(answered(net, [text])[0], twin)


# masks


@EVERY
@pytest.mark.parametrize("way", ["laid open", "fast"])
def test_a_text_does_not_see_its_batch(kind: str, way: str) -> None:
    net, short, long = KINDS[kind](), ids(4), ids(7, seed=1)
    net = fast(net) if way == "fast" else net
    alone = answered(net, [short])[0]
    rows = [long, [*short, 9, 9, 9], [9, 9, 9, *short], [short[0], 9, *short[1:3], 9, 9, short[3]]]
    mask = [[1] * 7, [1] * 4 + [0] * 3, [0] * 3 + [1] * 4, [1, 0, 1, 1, 0, 0, 1]]
    result = answered(net, rows, mask)
    close(result[0], answered(net, [long])[0])
    for row in result[1:]:
        close(row, alone)


@EVERY
def test_masked_tokens_get_no_attention_and_rows_add_up_to_one(kind: str) -> None:
    net, mask = KINDS[kind](), torch.tensor([[1, 0, 1, 1, 0, 0]])
    seen = net(torch.tensor([ids(6)]), mask).attentions
    assert len(seen) == len(net.attention_sites)
    for weights in seen:
        close(weights.sum(-1), torch.ones(weights.shape[:-1], dtype=torch.float64))
        assert ("unmasked" in kind) == bool(weights[..., [1, 4, 5]].any())


@MASKED
@pytest.mark.parametrize("way", ["laid open", "fast"])
def test_an_empty_text_gets_the_bias(kind: str, way: str) -> None:
    net = fast(KINDS[kind]()) if way == "fast" else KINDS[kind]()
    result = answered(net, [ids(4), ids(4)], [[0] * 4, [1] * 4])
    bias = net.head.bias if isinstance(net, Transformer) else torch.zeros(3, dtype=torch.float64)
    close(result[0], bias.detach())
    close(result[1], answered(net, [ids(4)])[0])


@EVERY
def test_a_text_longer_than_the_positions_is_refused(kind: str) -> None:
    net = KINDS[kind]()
    if getattr(net.config, "positions", True):
        with pytest.raises(BadInput, match="the text has 41 tokens and the network has 40 positions; shorten it"):
            answered(net, [ids(41)])
    else:
        assert bool(answered(net, [ids(41)]).isfinite().all())


# two ways to the same answer


@EVERY
def test_the_fast_way_has_the_same_logits_and_gradients(kind: str) -> None:
    rows = torch.tensor([ids(6), ids(6, seed=1), ids(6, seed=2)])
    mask = torch.tensor([[1] * 6, [1] * 4 + [0] * 2, [1, 0, 1, 1, 0, 1]])
    uneven = torch.arange(1.0, 10).double().reshape(3, 3).sqrt()
    result = []
    for net in (KINDS[kind](), fast(KINDS[kind]())):
        out = net(rows, mask)
        slopes = torch.autograd.grad((out.logits * uneven).sum(), list(net.parameters()))
        result.append((out, slopes))
    (plain, slopes), (quick, others) = result
    assert len(plain.attentions) == len(KINDS[kind]().attention_sites)
    assert quick.attentions == ()
    close(quick.logits, plain.logits)
    for one, other in zip(slopes, others, strict=True):
        close(other, one, atol=1e-10)


@EVERY
def test_every_weight_is_trained(kind: str) -> None:
    net = fast(KINDS[kind]())
    net(torch.tensor([ids(6), ids(6, seed=1)])).logits.square().sum().backward()
    still = [n for n, p in net.named_parameters() if p.grad is None or not p.grad.any()]
    assert still == [n for n in still if n.endswith("key.bias")]  # shifts all scores of a row alike


def test_dropout_is_for_training_only() -> None:
    net, rows = encoder(dropout=0.5), [ids(6)]
    assert torch.equal(answered(net, rows), answered(net, rows))
    net.train()
    assert not torch.equal(answered(net, rows), answered(net, rows))


# change of activation


@pytest.mark.parametrize("way", ["laid open", "fast"])
@pytest.mark.parametrize("activation", ["softmax", "sparsemax", "entmax15"])
def test_another_activation_answers_as_a_network_made_with_it(activation: Any, way: str) -> None:
    net, rows = encoder(activation="entmax15"), [ids(6)]
    net.config._attn_implementation_internal = "sdpa" if way == "fast" else "eager"
    made = encoder(activation=activation)
    made.load_state_dict(net.state_dict())
    close(answered(with_activation(net, activation), rows), answered(made, rows))


def test_another_activation_shares_the_weights_and_leaves_the_network_alone() -> None:
    net = encoder()
    before, config = answered(net, [ids(6)]), asdict(net.config)
    other = with_activation(net, "sparsemax")
    assert [id(p) for p in other.parameters()] == [id(p) for p in net.parameters()]
    assert not {id(m) for m in other.modules()} & {id(m) for m in net.modules()}
    assert float((answered(other, [ids(6)]) - before).abs().max()) > 1e-3
    assert torch.equal(answered(net, [ids(6)]), before)
    assert asdict(net.config) == config
    assert other.config == replace(net.config, activation="sparsemax")


def test_a_network_without_a_choice_of_activation_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^MultiHead has no setting 'activation'; give a network that has"):
        with_activation(stack(), "sparsemax")


@pytest.mark.parametrize(("settings", "message"), [
    ({"activation": "entmax"}, "activation 'entmax' is not one of softmax, sparsemax, entmax15; did you mean 'entmax1"),
    ({"pooling": "max"}, "pooling 'max' is not one of sum, mean, cls"),
    ({"heads": 3}, "width 8 is not a multiple of 3, the number of heads"),
    ({"layers": 0}, "layers is a whole number of at least 1, not 0"),
])  # fmt: skip
def test_wrong_settings(settings: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        encoder(**settings)


def test_a_stack_has_a_layer() -> None:
    with pytest.raises(BadInput, match="layers is a whole number of at least 1, not 0"):
        stack(layers=0)


# as the model of a classifier


def classifier(**more: Any) -> Classifier:
    t = tokenizer("wordpiece")
    net = encoder(vocabulary=len(t), pad_token_id=t.pad_token_id, max_position_embeddings=64, **more)
    return Classifier(net.float(), t, name="tiny-transformer")


def stacked(**more: Any) -> Classifier:
    t = tokenizer("wordpiece")
    net = stack(vocabulary=len(t), pad_token_id=t.unk_token_id, max_position_embeddings=64, **more)
    return Classifier(net.float(), t, name="tiny-stack")


CLASSIFIERS: dict[str, Callable[[], Classifier]] = {
    "softmax, sum": classifier,
    "entmax15, mean": lambda: classifier(activation="entmax15", pooling="mean"),
    "sparsemax, cls": lambda: classifier(activation="sparsemax", pooling="cls"),
    "stack": stacked,
    "stack, residual": lambda: stacked(residual=True),
    "one layer": lambda: stacked(layers=1),
}
MODELS = {name: make() for name, make in CLASSIFIERS.items()}
ON = pytest.mark.parametrize("model", MODELS)


@ON
def test_the_seam_sees_and_edits_every_layer(model: str) -> None:
    of = MODELS[model]
    of.check_attention()
    batch = of.batch([of.tokens(text) for text in TEXTS])
    with torch.no_grad():
        with of.attention() as seen:
            plain = of.logits(batch)
        assert len(seen[0]) == len(of.sites)
        for layer in range(len(of.sites)):
            with of.attention(edits.at(edits.uniform, [layer])):
                assert float((of.logits(batch) - plain).abs().max()) > 1e-4
    for site, weights in seen[0].items():
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
        assert not (weights * ~site.allowed).any()
        assert bool(site.allowed.expand_as(weights).any())


@ON
def test_it_branches_runs_fast_and_hides_words(model: str) -> None:
    of = MODELS[model]
    result = (of.can_branch, of.fused_attention_agrees, of.mask_hides_words, of.padding)
    assert result == (model != "one layer", True, True, "right")


@pytest.mark.parametrize("model", ["softmax, sum", "entmax15, mean", "sparsemax, cls", "stack"])
def test_what_the_head_pools_is_found(model: str) -> None:
    of = MODELS[model]
    texts = [of.tokens(TEXTS[0]), of.tokens(TEXTS[1])]
    batch = of.batch(texts)
    twin = torch.zeros(batch.ids.shape)
    for row, text in enumerate(texts):
        if "cls" in model or model == "stack":
            twin[row, 0] = 1
        else:
            twin[row, : len(text)] = 1 / len(text)
    torch.testing.assert_close(of.pooled(batch), twin)


@pytest.mark.parametrize("name", mostly_thorough(INSIDE, FIRST))
def test_methods_conform(name: str) -> None:
    conforms(method(name, BRIEF.get(name)), MODELS["entmax15, mean"])


@pytest.mark.parametrize(
    "name", ["attention-norm", "attattr-tokens", "effective-attention", "rollout", "value-zeroing"]
)
def test_methods_conform_on_a_stack(name: str) -> None:
    conforms(method(name, BRIEF.get(name)), MODELS["stack"])


@pytest.mark.parametrize("model", ["sparsemax, cls", "stack"])
def test_methods_that_read_attention_have_no_reason_to_refuse(model: str) -> None:
    names = [
        n
        for n in METHODS
        if METHODS[n].__module__.split(".")[-1] in ("attention", "attention_layers", "attattr", "value_zeroing")
    ]
    assert len(names) > 10
    for name in names:
        explain(MODELS[model], TEXTS[0], method(name, BRIEF.get(name)))


@pytest.mark.parametrize("name", ["theory-gradient", "theory-lime"])
def test_theory_refuses_several_layers(name: str) -> None:
    with pytest.raises(Unsupported, match=rf"^tiny-stack has 3 layers; {name} applies to one layer of attention\.$"):
        explain(MODELS["stack"], TEXTS[0], name)


def test_another_activation_can_be_explained_without_touching_the_first() -> None:
    of = classifier()
    other = Classifier(with_activation(of.model, "entmax15"), of.tokenizer, name="other")
    before = snapshot(of)
    batch = of.batch([of.tokens(TEXTS[0])])
    with other.attention() as seen, torch.no_grad():
        other.logits(batch)
        of.logits(batch)
        assert len(seen) == 1
    assert bool((seen[0][next(iter(seen[0]))] == 0).any())
    assert snapshot(of) == before


# the configuration


@EVERY
def test_the_configuration_rebuilds_the_network(kind: str) -> None:
    net = KINDS[kind]()
    shape = {k: v for k, v in json.loads(json.dumps(asdict(net.config))).items() if not k.startswith("_")}
    again = type(net)(net.shape(**shape)).double().eval()
    again.load_state_dict(net.state_dict())
    assert torch.equal(answered(again, [ids(6)]), answered(net, [ids(6)]))


@EVERY
def test_the_seed_decides_the_initial_weights(kind: str) -> None:
    net = KINDS[kind]()
    made = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        made.append(type(net)(net.config).state_dict())
    same, other = ([torch.equal(a, b) for a, b in zip(made[0].values(), m.values(), strict=True)] for m in made[1:])
    assert all(same)
    assert not all(other)


def test_an_encoder_starts_as_keras_would_start_it() -> None:
    net = Transformer(TransformerShape(4000)).requires_grad_(False)
    assert float(net.words.weight.abs().max()) == pytest.approx(0.05, rel=1e-3)
    block: Any = net.blocks[0]
    assert float(block.inner.weight.abs().max()) == pytest.approx(math.sqrt(6 / (128 + 512)), rel=1e-2)
    assert not block.inner.bias.any()


def test_a_stack_starts_as_one_layer_does() -> None:
    net = MultiHead(MultiHeadShape(500, layers=6)).requires_grad_(False)
    assert [tuple(p.shape) for p in net.blocks[-1].parameters()][-1] == (6, 2, 64)
    assert [tuple(p.shape) for p in net.blocks[0].parameters()][-1] == (6, 128, 64)
    for p in net.blocks.parameters():
        assert float(p.abs().max()) == pytest.approx(0.1, rel=1e-2)
