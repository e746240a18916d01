"""Jain & Wallace's and Wiegreffe & Pinter's networks, against slow twins, torch's own layers and scikit-learn."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from typing import Any, cast

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from torch import Tensor, nn

from heedful.core.arrays import Bools, Floats, Ints
from heedful.core.errors import BadInput, Unsupported
from heedful.methods import method
from heedful.methods.conformance import PROBE_TEXTS, conforms
from heedful.methods.conformance import as_array as numbers_of
from heedful.methods.explain import explain
from heedful.model import seam
from heedful.model.classifier import Classifier
from heedful.model.edits import uniform
from heedful.nets.base import describe_shape
from heedful.nets.encoders import ENCODERS
from heedful.nets.pair import Pair, PairShape
from heedful.nets.single import Attended, Single, SingleShape
from heedful.nets.vocabulary import STOPWORDS, log_odds, objective, regression
from tests.methods.test_conformance import FIRST
from tests.support.models import INSIDE, loud, tokenizer
from tests.support.parameters import mostly_thorough

ENDS = (2, 3)
LEARNED = ("additive", "dot", "general")
SIZES: dict[str, Any] = {"vocabulary": 30, "num_labels": 3, "embedding": 5, "hidden": 4, "special": ENDS}
SINGLES = [("bilstm", a) for a in (*LEARNED, "none", "uniform", "log-odds")]
SINGLES += [(e, a) for e in ("cnn", "single-cnn", "average", "none") for a in ("general", "none")]
SINGLES += [("cnn", "dot"), ("average", "additive"), ("gru", "additive")]
PAIRS = [("bilstm", a) for a in (*LEARNED, "none", "uniform")]
PAIRS += [("cnn", "additive"), ("average", "dot"), ("average", "none")]
IDS = [[2, 9, 14, 5, 9, 3], [2, 7, 3], [2, 21, 22, 23, 24, 25, 26, 3]]
ASKED = [[11, 12, 3], [14, 3], [5, 6, 7, 8, 3]]
Array = Floats


def single(**more: Any) -> Single:
    """A loud network in double precision, whose words have log-odds."""
    torch.manual_seed(0)
    made = Single(SingleShape(**(SIZES | more)))
    if hasattr(made, "log_odds"):
        made.log_odds.copy_(torch.linspace(-3, 2, made.config.vocabulary))
    return cast(Single, loud(made, 0, 0.7).double())


def pair(**more: Any) -> Pair:
    torch.manual_seed(0)
    return cast(Pair, loud(Pair(PairShape(**(SIZES | more))), 0, 0.7).double())


def batch(texts: list[list[int]], asked: list[list[int]] | None = None, left: int = 0) -> dict[str, Tensor]:
    """Texts with what is asked of them, padded on the right, and on the left by so many."""
    whole = [text + more for text, more in zip(texts, asked or [[]] * len(texts), strict=True)]
    width = max(map(len, whole))
    rows = [([0] * left + row + [0] * (width - len(row))) for row in whole]
    masks = [([0] * left + [1] * len(row) + [0] * (width - len(row))) for row in whole]
    types = [
        [0] * (left + len(text)) + [1] * len(more) + [0] * (width - len(text) - len(more))
        for text, more in zip(texts, asked or [[]] * len(texts), strict=True)
    ]
    named = {"input_ids": rows, "attention_mask": masks, "token_type_ids": types}
    return {name: torch.tensor(value) for name, value in named.items()}


# slow twins: one text at a time, one number after the other


def numbers(x: Any) -> Array:
    return np.asarray(x.detach().double().numpy())


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def lstm(layer: nn.LSTM, vectors: Array) -> Array:
    w, u, b, c = (numbers(p) for p in layer.parameters())
    size = layer.hidden_size
    state, cell, result = np.zeros(size), np.zeros(size), []
    for x in vectors:
        gates = w @ x + b + u @ state + c
        i, f, g, o = (gates[k * size : (k + 1) * size] for k in range(4))
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        state = sigmoid(o) * np.tanh(cell)
        result.append(state)
    return np.array(result)


def convolved(layer: nn.Conv1d, vectors: Array) -> Array:
    w, b = numbers(layer.weight), numbers(layer.bias)
    half, n, result = w.shape[2] // 2, len(vectors), []
    for t in range(n):
        total = b.copy()
        for k in range(w.shape[2]):
            if 0 <= t + k - half < n:
                total += w[:, :, k] @ vectors[t + k - half]
        result.append(np.maximum(total, 0))
    return np.array(result)


def encoded(encoder: Any, kind: str, vectors: Array) -> tuple[Array, Array]:
    if kind == "bilstm":
        onward, back = lstm(encoder.layer.onward, vectors), lstm(encoder.layer.back, vectors[::-1])
        return np.concatenate([onward, back[::-1]], 1), np.concatenate([onward[-1], back[-1]])
    if "cnn" in kind:
        states = np.concatenate([convolved(layer, vectors) for layer in encoder.widths.values()], 1)
        return states, states.max(0)
    if kind == "average":
        vectors = np.array([np.tanh(numbers(encoder.map.weight) @ x + numbers(encoder.map.bias)) for x in vectors])
    return vectors, vectors.mean(0)


def softmax(scores: Array) -> Array:
    return np.asarray(np.exp(scores) / np.exp(scores).sum())


def single_twin(net: Single, ids: list[int]) -> tuple[Array, Array]:
    """Logits, and the attention of every token."""
    states, last = encoded(net.encoder, net.config.encoder, numbers(net.words.weight)[ids])
    kind, w, b = net.config.attention, numbers(net.decoder.weight), numbers(net.decoder.bias)
    if kind == "none":
        return w @ last + b, np.zeros(len(ids))
    score: Any = getattr(net, "score", None)
    result: dict[str, Callable[[Any, int], Any]] = {
        "additive": lambda h, i: (
            numbers(score.outer.weight)[0] @ np.tanh(numbers(score.inner.weight) @ h + numbers(score.inner.bias))
        ),
        "dot": lambda h, i: numbers(score.vector.weight)[0] @ h / np.sqrt(len(h)),
        "general": lambda h, i: h @ numbers(score.map.weight) @ last,
        "uniform": lambda h, i: 0.0,
        "log-odds": lambda h, i: abs(float(net.log_odds[i])),
    }
    words = [t for t, i in enumerate(ids) if i not in ENDS]
    alpha = np.zeros(len(ids))
    alpha[words] = softmax(np.array([result[kind](states[t], ids[t]) for t in words]))
    return w @ sum(alpha[t] * states[t] for t in words) + b, alpha


def pair_twin(net: Pair, ids: list[int], asked: list[int]) -> tuple[Array, Array]:
    table, e = numbers(net.words.weight), net.config.embedding
    states, last = encoded(net.passage, net.config.encoder, table[ids][:, :e])
    query = encoded(net.question, net.config.encoder, table[asked][:, e:])[1]
    kind = net.config.attention
    score: Any = getattr(net, "score", None)
    result: dict[str, Callable[[Any], Any]] = {
        "additive": lambda h: (
            numbers(score.outer.weight)[0]
            @ np.tanh(
                numbers(score.key.weight) @ h
                + numbers(score.key.bias)
                + numbers(score.query.weight) @ query
                + numbers(score.query.bias)
            )
        ),
        "dot": lambda h: h @ query / np.sqrt(len(h)),
        "general": lambda h: h @ numbers(score.map.weight) @ query,
        "uniform": lambda h: 0.0,
    }
    words = [t for t, i in enumerate(ids) if i not in ENDS]
    alpha = np.zeros(len(ids) + len(asked))
    if kind != "none":
        alpha[words] = softmax(np.array([result[kind](states[t]) for t in words]))
    context = last if kind == "none" else sum(alpha[t] * states[t] for t in words)
    p, q, out = net.from_passage, net.from_query, net.decoder
    inner = numbers(p.weight) @ context + numbers(p.bias) + numbers(q.weight) @ query + numbers(q.bias)
    return numbers(out.weight) @ np.tanh(inner) + numbers(out.bias), alpha


@pytest.mark.parametrize(("encoder", "attention"), [s for s in SINGLES if s[0] != "gru"])
@pytest.mark.parametrize("left", [0, 3])
def test_single_is_its_formula(encoder: str, attention: str, left: int) -> None:
    net = single(encoder=encoder, attention=attention)
    out = net(**batch(IDS, left=left))
    for row, ids in enumerate(IDS):
        logits, alpha = single_twin(net, ids)
        assert numbers(out.logits[row]) == pytest.approx(logits, abs=1e-10)
        if attention != "none":
            assert numbers(out.attentions[0][row, 0, 0, left : left + len(ids)]) == pytest.approx(alpha, abs=1e-12)


@pytest.mark.parametrize(("encoder", "attention"), PAIRS)
@pytest.mark.parametrize("left", [0, 3])
def test_pair_is_its_formula(encoder: str, attention: str, left: int) -> None:
    net = pair(encoder=encoder, attention=attention)
    out = net(**batch(IDS, ASKED, left))
    for row, (ids, asked) in enumerate(zip(IDS, ASKED, strict=True)):
        logits, alpha = pair_twin(net, ids, asked)
        assert numbers(out.logits[row]) == pytest.approx(logits, abs=1e-10)
        if attention != "none":
            assert numbers(out.attentions[0][row, 0, 0, left : left + len(alpha)]) == pytest.approx(alpha, abs=1e-12)


@pytest.mark.parametrize(("cell", "kind"), [("bilstm", nn.LSTM), ("gru", nn.GRU)])
def test_recurrent_encoder_is_torch_on_packed_texts(cell: str, kind: Any) -> None:
    torch.manual_seed(0)
    encoder: Any = ENCODERS[cell](5, 4).double()
    twin = kind(5, 4, bidirectional=True, batch_first=True).double()
    for suffix, layer in (("", encoder.layer.onward), ("_reverse", encoder.layer.back)):
        for name, p in layer.named_parameters():
            getattr(twin, name + suffix).data.copy_(p)
    vectors, lengths = torch.randn(3, 7, 5).double(), torch.tensor([7, 1, 4])
    packed = nn.utils.rnn.pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
    out, hidden = twin(packed)
    wanted = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)[0]
    last = hidden[0] if cell == "bilstm" else hidden
    states, final = encoder(vectors, torch.arange(7) < lengths[:, None])
    assert torch.allclose(states, wanted, atol=1e-12)
    assert torch.allclose(final, torch.cat([last[0], last[1]], -1), atol=1e-12)


def test_sizes_are_those_of_the_paper() -> None:
    made = {name: ENCODERS[name](300, 128) for name in ENCODERS}
    shapes = [tuple(layer.weight.shape) for layer in made["cnn"].widths.values()]  # type: ignore[operator]
    assert shapes == [(32, 300, 1), (32, 300, 3), (32, 300, 5), (32, 300, 7)]
    widths = {"bilstm": 256, "gru": 256, "cnn": 128, "single-cnn": 128, "average": 128, "none": 300}
    assert {name: encoder.width for name, encoder in made.items()} == widths


@pytest.mark.parametrize(("encoder", "attention"), SINGLES)
def test_a_hidden_word_is_a_deleted_one(encoder: str, attention: str) -> None:
    net = single(encoder=encoder, attention=attention)
    hidden, without = batch([[2, 9, 14, 5, 8, 3]]), batch([[2, 9, 5, 8, 3]])
    hidden["attention_mask"][0, 2] = 0
    one, other = net(**hidden), net(**without)
    assert torch.allclose(one.logits, other.logits, atol=1e-12)
    if attention != "none":
        assert torch.allclose(one.attentions[0][..., [0, 1, 3, 4, 5]], other.attentions[0], atol=1e-12)


@pytest.mark.parametrize(("encoder", "attention"), PAIRS)
def test_a_hidden_word_of_a_pair_is_a_deleted_one(encoder: str, attention: str) -> None:
    net = pair(encoder=encoder, attention=attention)
    hidden, without = batch([[2, 9, 14, 5, 3]], [[7, 8, 3]]), batch([[2, 9, 5, 3]], [[7, 3]])
    hidden["attention_mask"][0, [2, 6]] = 0
    assert torch.allclose(net(**hidden).logits, net(**without).logits, atol=1e-12)


@pytest.mark.parametrize(("encoder", "attention"), SINGLES)
def test_fast_is_laid_open(encoder: str, attention: str) -> None:
    net = single(encoder=encoder, attention=attention)
    result = []
    for way in ("eager", "sdpa"):
        net.config._attn_implementation_internal = way
        net.zero_grad()
        out = net(**batch(IDS))
        out.logits.square().sum().backward()
        result.append([out.logits.detach(), *[p.grad.clone() for p in net.parameters() if p.grad is not None]])
        assert len(out.attentions) == (way == "eager" and attention != "none")
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(*result, strict=True))


# texts without anything to attend to


@pytest.mark.parametrize("attention", [*LEARNED, "uniform", "log-odds"])
def test_a_text_of_special_tokens_gets_the_answer_of_the_bias(attention: str) -> None:
    net = single(attention=attention)
    assert torch.equal(net(**batch([[2, 3], [2, 9, 3]])).logits[0], net.decoder.bias)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("make", [single, pair])
def test_a_text_that_is_all_hidden_gives_finite_answers_and_gradients(make: Any, encoder: str) -> None:
    net = make(encoder=encoder, attention="general")
    inputs = batch(IDS)
    inputs["attention_mask"][0] = 0
    out = net(**inputs)
    out.logits.sum().backward()
    assert out.logits.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in net.parameters())


def test_without_a_query_the_query_is_zero() -> None:
    net = pair(attention="general")
    context = (
        net(**batch(IDS)).attentions[0][:, 0]
        @ net.passage(net.words(batch(IDS)["input_ids"])[..., :5], batch(IDS)["attention_mask"] != 0)[0]
    )
    logits = net.decoder(torch.tanh(net.from_passage(context[:, 0]) + net.from_query.bias))
    assert torch.allclose(net(**batch(IDS)).logits, logits, atol=1e-12)


def test_a_pair_reads_half_of_each_vector() -> None:
    net = pair()
    inputs = batch(IDS, ASKED)
    net(**inputs).logits.square().sum().backward()
    moved = net.words.weight.grad
    assert moved is not None
    for word, halves in {9: (True, False), 12: (False, True), 14: (True, True), 29: (False, False)}.items():
        assert (bool(moved[word, :5].any()), bool(moved[word, 5:].any())) == halves, word


# candidates


def test_answers_that_are_not_in_the_passage_are_impossible() -> None:
    net = pair(candidates=(9, 14, 8)).float()
    chances = net(**batch(IDS[:1], [[8, 3]])).logits.softmax(-1)[0]
    assert chances.tolist() == [pytest.approx(1 - chances[1].item()), pytest.approx(1 - chances[0].item()), 0.0]
    assert 0 < chances[0] < 1


def test_an_answer_that_is_hidden_in_the_passage_is_not_there() -> None:
    net = pair(candidates=(9, 14, 0))
    inputs = batch(IDS, ASKED)
    inputs["attention_mask"][0, 2] = 0
    assert (net(**inputs).logits[0] == -1e4).tolist() == [False, True, True]


def test_candidates_must_stand_for_the_labels() -> None:
    with pytest.raises(BadInput, match="2 candidates for 3 labels"):
        PairShape(**SIZES, candidates=(4, 5))


# the seam


@cache
def classifier(kind: str) -> Classifier:
    """A tiny loud network of this kind, with its tokenizer."""
    t = tokenizer("wordpiece")
    ends = (t.cls_token_id, t.sep_token_id)
    sizes = SIZES | {"vocabulary": len(t), "special": ends, "pad_token_id": t.pad_token_id}
    torch.manual_seed(0)
    net: Attended
    if kind == "pair":
        net = Pair(PairShape(**sizes, encoder="average"))
    elif kind == "given":
        net = Single.guided(SingleShape(**sizes, encoder="average"), Single(SingleShape(**sizes)))
    else:
        encoder = "bilstm" if kind == "additive" else "cnn"
        net = Single(SingleShape(**sizes, encoder=encoder, attention=kind))  # type: ignore[arg-type]
    if kind == "log-odds":
        net.log_odds.copy_(torch.linspace(-3, 2, len(t)))
    return Classifier(loud(net, 0, 0.7), t, name=f"tiny-{kind}")


KINDS = ("additive", "dot", "general", "uniform", "log-odds", "given", "pair")


@pytest.mark.parametrize("kind", KINDS)
def test_the_seam_sees_the_one_attention(kind: str) -> None:
    made = classifier(kind)
    tokens = made.batch([made.tokens(PROBE_TEXTS[1], PROBE_TEXTS[0]), made.tokens(PROBE_TEXTS[2])])
    with torch.no_grad(), made.attention() as seen:
        made.logits(tokens)
    (weights,) = seen[0].values()
    (site,) = seen[0]
    told_without = made.model.attend(tokens.ids, tokens.mask, tokens.segments)
    assert torch.allclose(weights[:, 0, 0], told_without, atol=1e-6)
    assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-6)
    assert not weights[~site.allowed].any()
    ends = torch.isin(tokens.ids, torch.tensor(made.config.special))
    assert not site.allowed[:, 0, 0][ends].any()
    assert bool((site.allowed[:, 0, 0] & (tokens.segments != 0)).any()) == (kind != "pair")


@pytest.mark.parametrize("kind", KINDS)
def test_attention_can_point_at_what_the_seam_allows(kind: str) -> None:
    network = classifier(kind)
    text = network.tokens(PROBE_TEXTS[1], PROBE_TEXTS[0])
    with torch.no_grad(), network.attention() as seen:
        network.logits(network.batch([text]))
    (site,) = seen[0]
    assert network.attended(text).tolist() == site.allowed[0, 0, 0].tolist()


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "uniform"])
def test_an_edit_moves_the_answer(kind: str) -> None:
    made = classifier(kind)
    tokens = made.batch([made.tokens(PROBE_TEXTS[0])])
    with torch.no_grad(), made.attention(uniform):
        edited = made.logits(tokens)
    assert not torch.allclose(edited, made.logits(tokens), atol=1e-3)


def test_uniform_attention_is_what_the_uniform_edit_makes() -> None:
    made = classifier("uniform")
    tokens = made.batch([made.tokens(text) for text in PROBE_TEXTS])
    with torch.no_grad(), made.attention(uniform):
        assert torch.allclose(made.logits(tokens), made.model(tokens.ids, tokens.mask).logits, atol=1e-6)


def test_a_network_without_attention_says_so() -> None:
    made = classifier("none")
    with pytest.raises(Unsupported, match=r"tiny-none \(Single\): its attention cannot be read"):
        made.check_attention()
    with pytest.raises(Unsupported, match="network has no attention"):
        made.model.attend(torch.tensor([[2, 9, 3]]))
    assert np.any(numbers_of(explain(made, PROBE_TEXTS[0], "leave-one-out")))


QUICK: dict[str, dict[str, Any]] = {
    "attattr": {"max_nodes": 5},
    "attattr-tokens": {"max_nodes": 5},
    "lime": {"samples": 20},
    "shapley": {"samples": 20, "exact_up_to": 3},
    "shapley-partition": {"samples": 20},
    "minimal-flip": {"tries": 10},
    "smoothgrad": {"samples": 3},
    "integrated-gradients": {"steps": 4},
}


@pytest.mark.parametrize("name", mostly_thorough(INSIDE, FIRST))
def test_methods_conform_on_a_pair(name: str) -> None:
    conforms(method(name, QUICK.get(name)), classifier("pair"))


@pytest.mark.parametrize("kind", ["additive", "given"])
@pytest.mark.parametrize("name", ["attention-gradient", "gradient-x-input", "leave-one-out"])
def test_methods_conform_on_one_text(name: str, kind: str) -> None:
    conforms(method(name, QUICK.get(name)), classifier(kind))


# configurations


@pytest.mark.parametrize("net", [single(attention="log-odds"), pair(candidates=(9, 14, 5)), classifier("given").model])
def test_a_network_is_rebuilt_from_json(net: Attended) -> None:
    written = json.loads(json.dumps(asdict(net.config)))
    del written["_attn_implementation_internal"]
    again = type(net)(type(net.config)(**written)).to(net.words.weight.dtype).eval()
    again.load_state_dict(net.state_dict())
    assert again.config == net.config or net.config.guide
    assert torch.equal(again(**batch(IDS, ASKED)).logits, net(**batch(IDS, ASKED)).logits)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoder": "bilstn"}, "encoder 'bilstn' is not one of .*; did you mean 'bilstm'"),
        ({"attention": "dots"}, "attention 'dots' is not one of .*; did you mean 'dot'"),
        ({"attention": "given"}, "has no guide"),
        ({"attention": "uniform", "regularised": 5.0}, "regularised needs learned attention, not 'uniform'"),
        ({"encoder": "cnn", "hidden": 6}, "hidden 6 is not a multiple of 4"),
        ({"attention": "given", "guide": {"vocabulary": 9}}, "has 9 words and its student 30"),
        ({"attention": "given", "guide": {"words": 9}}, "does not describe a single network"),
        ({"attention": "given", "guide": SIZES | {"attention": "none"}}, "the guide has no attention"),
        ({"attention": "given", "guide": SIZES, "activation": "sparsemax"}, "sparsemax"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Single(SingleShape(**(SIZES | settings)))


def test_log_odds_are_not_for_pairs() -> None:
    with pytest.raises(BadInput, match="attention 'log-odds' is not one of"):
        PairShape(**SIZES, attention="log-odds")  # type: ignore[arg-type]


# guides


@pytest.mark.parametrize("make", [single, pair])
def test_a_student_has_its_guides_attention(make: Any) -> None:
    guide = make(attention="general")
    student = type(guide).guided(replace(guide.config, encoder="average"), guide).double()
    out = student(**batch(IDS, ASKED))
    assert torch.allclose(out.attentions[0], guide(**batch(IDS, ASKED)).attentions[0], atol=1e-12)


def test_weights_that_a_guide_rounds_to_zero_stay_zero_and_allowed() -> None:
    guide = single(attention="dot").float()
    with torch.no_grad():
        guide.score.vector.weight.mul_(1e4)  # type: ignore[union-attr, operator]
    weights = guide.attend(**batch(IDS))
    student = Single.guided(guide.config, guide)
    with seam.attention(student, student.attention_sites) as seen:
        student(**batch(IDS))
    ((site, used),) = seen[0].items()
    assert (weights[2] == 0).sum() > 2
    assert torch.equal(used[:, 0, 0] == 0, weights == 0)
    assert site.allowed.sum((1, 2, 3)).tolist() == [4, 1, 6]


def test_training_leaves_the_guide_alone() -> None:
    student = single(attention="given", guide=describe_shape(single(dropout=0.5).config), encoder="average").train()
    student(**batch(IDS)).logits.square().sum().backward()
    moved = {name for name, p in student.named_parameters() if p.grad is not None and p.grad.any()}
    assert moved == {"words.weight", "encoder.map.weight", "encoder.map.bias", "decoder.weight", "decoder.bias"}
    assert {name for name, p in student.named_parameters() if p.requires_grad} == moved
    assert not student.guide.training  # type: ignore[union-attr]


def test_a_guide_must_be_of_the_students_kind() -> None:
    with pytest.raises(BadInput, match="the guide is a Pair and the student a Single"):
        Single.guided(SingleShape(**SIZES), pair())


# the penalty


def test_the_penalty_is_the_divergence_from_log_odds_attention() -> None:
    net, prior = single(regularised=5.0), single(attention="log-odds")
    out = net.train()(**batch(IDS))
    ours, theirs = numbers(net.attend(**batch(IDS))), numbers(prior.attend(**batch(IDS)))
    wanted = 5 * np.mean([jensenshannon(p, q) ** 2 for p, q in zip(ours, theirs, strict=True)])
    assert out.penalty.item() == pytest.approx(wanted, rel=1e-5)


def test_there_is_no_penalty_outside_training() -> None:
    assert single(regularised=5.0)(**batch(IDS)).penalty is None
    assert single().train()(**batch(IDS)).penalty is None


def test_the_penalty_of_a_saturated_attention_has_finite_gradients() -> None:
    net = single(attention="dot", regularised=5.0).float().train()
    with torch.no_grad():
        net.score.vector.weight.mul_(1e4)  # type: ignore[union-attr, operator]
    net(**batch(IDS)).penalty.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in net.parameters())


# log-odds


def bags(classes: int = 2) -> tuple[list[list[int]], Ints]:
    """Texts of 40 words in which the words 10, 11, … speak for the labels 0, 1, …, unequally many of each."""
    rng = np.random.default_rng(0)
    labels = rng.choice(classes, size=200, p=np.arange(1, classes + 1) / sum(range(1, classes + 1)))
    texts = [[*rng.integers(0, 40, rng.integers(3, 12)), *[10 + label] * (rng.random() < 0.6)] for label in labels]
    return texts, labels


def total(theta: Array, rows: Any, yes: Bools) -> float:
    return objective(theta, rows, yes)[0] + float(np.abs(theta).sum())


def dense(texts: list[list[int]]) -> Any:
    from scipy.sparse import csr_array

    counts = np.array([np.bincount(text, minlength=40) for text in texts], dtype=float)
    return csr_array(counts / np.linalg.norm(counts, axis=1, keepdims=True))


def test_log_odds_are_those_of_scikit_learn() -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    texts, labels = bags()
    model = linear.LogisticRegression(
        l1_ratio=1, class_weight="balanced", solver="liblinear", tol=1e-8, max_iter=5000, random_state=0
    ).fit(dense(texts).toarray(), labels)
    theirs = np.append(model.coef_[0], model.intercept_)
    ours = regression(dense(texts), labels == 1)
    assert total(ours, dense(texts), labels == 1) == pytest.approx(total(theirs, dense(texts), labels == 1), abs=1e-3)
    assert log_odds(texts, labels, 40) == pytest.approx(theirs[:-1], abs=2e-3)


def test_the_regression_is_at_its_minimum() -> None:
    texts, labels = bags()
    theta = regression(dense(texts), labels == 1)
    slope = objective(theta, dense(texts), labels == 1)[1]
    assert (theta == 0).sum() > 5
    assert np.abs(slope[theta == 0]).max() <= 1 + 1e-3
    assert slope[theta != 0] == pytest.approx(-np.sign(theta[theta != 0]), abs=1e-3)


def test_the_objectives_gradient_is_its_slope() -> None:
    from scipy.optimize import approx_fprime

    texts, labels = bags()
    theta = np.random.default_rng(1).normal(size=41)
    slope = approx_fprime(theta, lambda x: objective(x, dense(texts), labels == 1)[0], 1e-6)
    assert objective(theta, dense(texts), labels == 1)[1] == pytest.approx(slope, abs=1e-3)


def test_of_several_labels_the_largest_weight_counts() -> None:
    texts, labels = bags(3)
    each = [log_odds(texts, (labels == label).astype(np.int64), 40) for label in range(3)]
    result = log_odds(texts, labels, 40)
    assert result == pytest.approx(np.abs(each).max(0), abs=1e-9)
    assert set(np.argsort(result)[-3:]) == {10, 11, 12}
    assert result == pytest.approx(log_odds(texts, np.eye(3, dtype=np.int64)[labels], 40), abs=1e-9)


def test_stop_words_have_no_log_odds() -> None:
    texts, labels = bags()
    without = [[word for word in text if word not in (11, 12)] for text in texts]
    result = log_odds(texts, labels, 40, stopwords=(11, 12))
    assert result == pytest.approx(log_odds(without, labels, 40), abs=1e-9)
    assert result[[11, 12]].tolist() == [0, 0]
    assert {"the", "of", "not"} & STOPWORDS == {"the", "of"}


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [([[1]], [0, 1], "1 texts have 2 labels"), ([[1], [2]], [1, 1], "one label"), ([[1], [50]], [0, 1], "1 … 50")],
)
def test_texts_that_do_not_fit_have_no_log_odds(texts: list[list[int]], labels: list[int], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        log_odds(texts, np.array(labels), 40)
