"""The hierarchical and flat attention networks of Serrano & Smith 2019, against the paper's formulas in plain loops."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from heedful.core.errors import BadInput, Unsupported
from heedful.core.explanation import Interaction
from heedful.core.target import Target
from heedful.methods import METHODS, method
from heedful.methods.attattr import AttAttrTokens
from heedful.methods.attention import AttentionGradient, AttentionMean, AttentionWeights, EffectiveAttention
from heedful.methods.attention_layers import AttentionNorm
from heedful.methods.conformance import as_array, conforms
from heedful.methods.explain import explain
from heedful.model import seam
from heedful.model.batch import Batch
from heedful.model.classifier import Classifier
from heedful.model.edits import Edit, Site, at, scaled, uniform
from heedful.nets.base import Output
from heedful.nets.hierarchical import Hierarchical, HierarchicalShape, Level, Runs, begins
from tests.methods.test_conformance import FIRST, QUICK
from tests.support.models import INSIDE, loud, tokenizer
from tests.support.parameters import mostly_thorough

Encoder = Literal["rnn", "conv", "none"]
ENCODERS: tuple[Encoder, ...] = ("rnn", "conv", "none")
NETS = [(encoder, flat) for encoder in ENCODERS for flat in (False, True)]
ENDS, LONGEST = (7, 8), 4
THROUGH_LAYERS = {"rollout", "attention-flow", "relevance", "value-zeroing"}
TEXT = "The film was good, good music. Dull story, but its ending moved me to tears."


def network(encoder: Encoder = "rnn", flat: bool = False, **more: Any) -> Hierarchical:
    """Tiny, loud, in float64."""
    settings: dict[str, Any] = {"embedding": 6, "hidden": 3, "ends": ENDS, "longest": LONGEST, "special": (1,)} | more
    net = Hierarchical(HierarchicalShape(20, 3, encoder=encoder, flat=flat, **settings)).double()
    loud(net, scale=0.8)
    return net


@cache
def classifier(encoder: Encoder = "rnn", flat: bool = False, special: bool = True, embedding: int = 6) -> Classifier:
    """A network that reads the tiny tokenizer's pieces; commas end sentences too, and four words do."""
    t = tokenizer("wordpiece")
    shape = HierarchicalShape(
        len(t), 3, encoder=encoder, flat=flat, embedding=embedding, hidden=3, longest=4, pad_token_id=t.pad_token_id,
        ends=tuple(t.convert_tokens_to_ids([".", ","])),
        special=(t.cls_token_id, t.sep_token_id, t.pad_token_id) if special else (),
    )  # fmt: skip
    name = f"tiny-{'flan' if flat else 'han'}-{encoder}"
    return Classifier(loud(Hierarchical(shape), scale=0.8), t, name=name)


def batched(texts: list[list[int]], left: bool = False) -> tuple[Tensor, Tensor]:
    width = max(map(len, texts))
    pads = [[0] * (width - len(text)) for text in texts]
    ids = [[*pad, *text] if left else [*text, *pad] for text, pad in zip(texts, pads, strict=True)]
    mask = [
        [*pad, *[1] * len(text)] if left else [*[1] * len(text), *pad] for text, pad in zip(texts, pads, strict=True)
    ]
    return torch.tensor(ids), torch.tensor(mask)


def fast(net: Hierarchical, *given: Tensor | None) -> Output:
    with seam.implementation(net, "sdpa"):
        return net(*given)  # type: ignore[no-any-return]


TEXTS = [[1, 3, 4, 7, 8, 7, 9, 3, 7], [5], [6, 4, 3, 9, 10, 11, 12, 13, 14, 15, 3, 7, 7, 2], [7, 7, 3, 1, 4, 8, 2]]


# the paper's formulas, one word at a time


def split(words: list[int], types: list[int] | None = None) -> list[list[int]]:
    """Sentences of positions."""
    result: list[list[int]] = []
    for i, word in enumerate(words):
        after_end = i > 0 and words[i - 1] in ENDS and word not in ENDS
        new_type = types is not None and i > 0 and types[i] != types[i - 1]
        if not result or after_end or new_type or len(result[-1]) == LONGEST:
            result.append([])
        result[-1].append(i)
    return result


def recurrent(gru: nn.GRU, vectors: list[Tensor]) -> list[Tensor]:
    state, states = torch.zeros(gru.hidden_size).double(), []
    w_x, w_h, b_x, b_h = gru.parameters()
    for x in vectors:
        a, b = w_x @ x + b_x, w_h @ state + b_h
        (ar, az, an), (br, bz, bn) = a.chunk(3), b.chunk(3)
        z, r = torch.sigmoid(az + bz), torch.sigmoid(ar + br)
        state = (1 - z) * torch.tanh(an + r * bn) + z * state
        states.append(state)
    return states


def convolved(conv: nn.Conv1d, vectors: list[Tensor]) -> list[Tensor]:
    reach, result = conv.kernel_size[0] // 2, []
    assert conv.bias is not None
    for i in range(len(vectors)):
        near = [(j, i + j - reach) for j in range(2 * reach + 1) if 0 <= i + j - reach < len(vectors)]
        result.append(torch.relu(sum((conv.weight[:, :, j] @ vectors[k] for j, k in near), conv.bias)))
    return result


def encoded(level: Level, vectors: list[Tensor]) -> list[Tensor]:
    encoder: Any = level.encoder
    if encoder is None:
        return vectors
    if hasattr(encoder, "gru"):
        onward, back = recurrent(encoder.gru.onward, vectors), recurrent(encoder.gru.back, vectors[::-1])[::-1]
    else:
        onward, back = convolved(encoder.narrow, vectors), convolved(encoder.wide, vectors)
    return [torch.cat(pair) for pair in zip(onward, back, strict=True)]


def attended(level: Level, vectors: list[Tensor]) -> tuple[Tensor, Tensor]:
    states = encoded(level, vectors)
    scores = [level.context.weight[0] @ torch.tanh(level.inner.weight @ h + level.inner.bias) for h in states]
    weights = torch.tensor([float(s) for s in scores], dtype=torch.float64).exp()
    weights = weights / weights.sum()
    return sum((w * h for w, h in zip(weights, states, strict=True)), torch.zeros(level.width).double()), weights


def twin(net: Hierarchical, words: list[int]) -> tuple[Tensor, list[list[float]], list[float]]:
    """Logits, attention in each sentence (or text, in a FLAN), and attention over them."""
    vectors = [net.words.weight[w] for w in words]
    if net.sentence_level is None:
        document, alpha = attended(net.word_level, vectors)
        return net.out(document), [alpha.tolist()], [1.0]
    read = [attended(net.word_level, [vectors[i] for i in sentence]) for sentence in split(words)]
    document, beta = attended(net.sentence_level, [vector for vector, _ in read])
    return net.out(document), [alpha.tolist() for _, alpha in read], beta.tolist()


@pytest.mark.parametrize(("encoder", "flat"), NETS)
def test_logits_and_attention_are_the_papers(encoder: Encoder, flat: bool) -> None:
    net = network(encoder, flat)
    with torch.no_grad():
        out = net(*batched(TEXTS))
        for row, text in enumerate(TEXTS):
            places = [i for i, w in enumerate(text) if w != 1]
            logits, alpha, beta = twin(net, [text[i] for i in places])
            torch.testing.assert_close(out.logits[row], logits)
            sentences = [places] if flat else [[places[i] for i in s] for s in split([text[i] for i in places])]
            for sentence, own in zip(sentences, alpha, strict=True):
                for query in [0] if flat else sentence:
                    attention = out.attentions[0][row, 0, query]
                    assert attention[sentence].tolist() == pytest.approx(own)
                    assert float(attention.sum()) == pytest.approx(1)
            if not flat:
                assert out.attentions[1][row, 0, 0, [s[-1] for s in sentences]].tolist() == pytest.approx(beta)
                assert float(out.attentions[1][row].sum()) == pytest.approx(1)


# sentences


words = st.lists(st.integers(2, 9), min_size=1, max_size=30)


@given(words, st.booleans())
def test_sentences_are_those_of_a_plain_loop(text: list[int], pair: bool) -> None:
    types = [int(i >= len(text) // 2) for i in range(len(text))] if pair else [0] * len(text)
    breaks = torch.tensor([i == 0 or types[i] != types[i - 1] for i in range(len(text))])
    result = Runs.of(begins(torch.tensor(text), breaks, ENDS, LONGEST))
    sentences = [list(range(s, s + n)) for s, n in zip(result.start.tolist(), result.length.tolist(), strict=True)]
    assert sentences == split(text, types)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ([3, 4, 7, 5, 6], [2, 4]),
        ([3, 7, 7, 8, 5], [3, 4]),  # "!!?" ends one sentence
        ([3, 4, 5, 6, 9, 2], [3, 5]),  # after `longest` words
        ([1, 3, 7, 1, 4, 1], [2, 4]),  # special tokens belong to none
    ],
)
def test_a_sentence_stands_at_its_last_word(text: list[int], ends: list[int]) -> None:
    weights = network()(*batched([text])).attentions[1][0, 0, 0]
    assert weights.nonzero()[:, 0].tolist() == ends


def test_a_new_segment_begins_a_new_sentence() -> None:
    ids, mask = batched([[3, 4, 5, 6]])
    weights = network()(ids, mask, torch.tensor([[0, 0, 1, 1]])).attentions[1][0, 0, 0]
    assert weights.nonzero()[:, 0].tolist() == [1, 3]


def test_without_its_full_stop_a_sentence_joins_the_next() -> None:
    net, hidden = network(), torch.tensor([[1, 1, 0, 1]])
    result = net(torch.tensor([[3, 4, 7, 5]]), hidden).attentions[1][0, 0, 0]
    assert result.nonzero()[:, 0].tolist() == [3]


# masks


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize(("encoder", "flat"), NETS)
def test_a_text_is_answered_as_if_it_were_alone(encoder: Encoder, flat: bool, quick: bool, left: bool) -> None:
    net = network(encoder, flat)
    answer = (lambda *given: fast(net, *given)) if quick else net
    together = answer(*batched(TEXTS, left)).logits
    alone = torch.cat([answer(*batched([text])).logits for text in TEXTS])
    torch.testing.assert_close(together, alone)


@pytest.mark.parametrize(("encoder", "flat"), NETS)
def test_a_masked_word_might_as_well_not_be_there(encoder: Encoder, flat: bool) -> None:
    net, text, gone = network(encoder, flat), TEXTS[2], (0, 4, 12)
    mask = torch.tensor([[int(i not in gone) for i in range(len(text))]])
    deleted = torch.tensor([[w for i, w in enumerate(text) if i not in gone]])
    torch.testing.assert_close(net(torch.tensor([text]), mask).logits, net(deleted).logits)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize(("encoder", "flat"), NETS)
def test_without_a_word_the_bias_answers(encoder: Encoder, flat: bool, quick: bool) -> None:
    net, empty = network(encoder, flat), torch.tensor([[1, 1, 1]])
    answer = (lambda *given: fast(net, *given)) if quick else net
    beside = answer(torch.tensor([[1, 1, 1], [3, 4, 7]]), torch.ones(2, 3)).logits[0]
    torch.testing.assert_close(answer(empty, torch.ones(1, 3)).logits[0], net.out.bias)
    torch.testing.assert_close(beside, net.out.bias)


# the fast way


@pytest.mark.parametrize(("encoder", "flat"), NETS)
def test_the_fast_way_gives_the_same_logits_and_gradients(encoder: Encoder, flat: bool) -> None:
    net, rng = network(encoder, flat), torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 12, (80,), generator=rng).tolist()  # enough for several buckets at both levels
    texts = [torch.randint(1, 20, (n,), generator=rng).tolist() for n in lengths]
    result = []
    for answer in (net, lambda *given: fast(net, *given)):
        out = answer(*batched(texts))
        slopes = torch.autograd.grad(out.logits.pow(2).mul(torch.tensor([1, 2, 3])).sum(), list(net.parameters()))
        result.append([out.logits, *slopes])
    assert all(bool(slope.any()) for slope in result[0])
    for one, other in zip(*result, strict=True):
        torch.testing.assert_close(one, other)


def test_the_fast_way_makes_no_attention_matrix() -> None:
    assert fast(network(), *batched(TEXTS)).attentions == ()


# the seam


@pytest.mark.parametrize(("encoder", "flat"), NETS)
def test_the_seam_holds(encoder: Encoder, flat: bool) -> None:
    c = classifier(encoder, flat)
    c.check_attention()
    assert c.sites == ([("self", 0)] if flat else [("self", 0), ("sentence", 0)])
    assert (c.fused_attention_agrees, c.mask_hides_words, c.padding, c.can_branch) == (True, True, "right", False)


@pytest.mark.parametrize("kind", ["self", "sentence"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_an_edit_at_either_level_moves_the_logits(encoder: Encoder, kind: str) -> None:
    c = classifier(encoder)
    batch = c.batch([c.tokens(TEXT)])
    with torch.no_grad():
        usual = c.logits(batch)
        with c.attention(at(uniform, kind=kind)):
            edited = c.logits(batch)
    assert float((usual - edited).abs().max()) > 1e-2


def edited(net: Hierarchical, edit: Edit) -> Tensor:
    with torch.no_grad(), seam.attention(net, net.attention_sites, edit):
        logits: Tensor = net(*batched([[3, 4, 7, 5, 6]])).logits
    return logits[0]


def test_the_weights_that_an_edit_puts_are_the_ones_used() -> None:
    net = network("none")

    def point(site: Site, weights: Tensor) -> Tensor:
        new = torch.zeros_like(weights)
        if site.kind == "sentence":
            new[..., 2] = 1  # the first sentence, at its last word
        else:
            new[:, :, :3, 1] = new[:, :, 3:, 4] = 1
        return new

    torch.testing.assert_close(edited(net, point), net.out(net.words.weight[4]).detach())


def test_only_the_row_of_a_sentences_last_word_is_read() -> None:
    net, factor = network(), torch.ones(5, 1).double()
    factor[[0, 1, 3]] = 0.3
    torch.testing.assert_close(edited(net, at(scaled(factor), kind="self")), edited(net, scaled(1.0)))


# what the methods make of two levels


def levels(c: Classifier, text: str) -> tuple[Tensor, Tensor]:
    """α [t,t] and β [t], from the network itself."""
    batch = c.batch([c.tokens(text)])
    with torch.no_grad():
        out = c.model(batch.ids, batch.mask, batch.segments)
    return out.attentions[0][0, 0].double(), out.attentions[1][0, 0, 0].double()


@pytest.mark.parametrize("special", [False, True])
def test_attention_of_a_word_is_that_of_its_sentence_times_its_own(special: bool) -> None:
    c = classifier(special=special)
    alpha, beta = levels(c, TEXT)
    result = as_array(explain(c, TEXT, AttentionMean()))
    assert result == pytest.approx((beta @ alpha).numpy(), abs=1e-7)
    assert result.sum() == pytest.approx(1)
    assert (beta > 0).sum() > 3


def test_attention_of_sentences_stands_at_their_last_words() -> None:
    c = classifier()
    result = as_array(explain(c, TEXT, AttentionMean(kind="sentence")))
    assert result == pytest.approx(levels(c, TEXT)[1].numpy(), abs=1e-7)


def test_what_is_pooled_is_the_attention_of_sentences() -> None:
    c = classifier()
    tokens = [c.tokens(TEXT), c.tokens("Dull.")]
    pooled = c.pooled(c.batch(tokens)).double()
    assert pooled[0].numpy() == pytest.approx(levels(c, TEXT)[1].numpy(), abs=1e-6)
    assert pooled[1, : len(tokens[1])].numpy() == pytest.approx(levels(c, "Dull.")[1].numpy(), abs=1e-6)


def test_nothing_is_pooled_of_a_text_without_a_word() -> None:
    c = classifier()
    ids = torch.tensor([[c.tokenizer.cls_token_id, c.tokenizer.sep_token_id]])
    assert not c.pooled(Batch(ids, torch.ones_like(ids))).any()


def test_all_weights_leave_special_tokens_without_a_row() -> None:
    c = classifier()
    result = explain(c, TEXT, AttentionWeights())
    assert isinstance(result, Interaction)
    special = [i for i in range(len(result.tokens)) if result.tokens.special[i]]
    sums = result.weights[0, 0].sum(-1)
    assert np.delete(sums, special) == pytest.approx(1)
    assert not result.weights[0, 0][special].any()
    assert not result.weights[0, 0][:, special].any()


@pytest.mark.parametrize("kind", ["self", "sentence"])
def test_effective_attention_brings_each_query_what_attention_brings(kind: Literal["self", "sentence"]) -> None:
    c = classifier("none", embedding=2)  # two coordinates of three and more values: much cancels
    reading = c.read(c.batch([c.tokens(TEXT)]), values=True)
    site = reading.layers(kind)[0]
    values = reading.values[site][0, 0].detach().double().numpy()
    usual = as_array(explain(c, TEXT, AttentionMean(kind=kind)))
    effective = as_array(explain(c, TEXT, EffectiveAttention(kind=kind)))
    assert np.abs(effective - usual).max() > 1e-2
    for keys in np.unique(site.allowed[0, 0].numpy(), axis=0):
        assert effective[keys] @ values[keys] == pytest.approx(usual[keys] @ values[keys], abs=1e-6)


@pytest.mark.parametrize("kind", ["self", "sentence"])
def test_attention_gradient_is_what_erasing_a_weight_begins_to_cost(kind: Literal["self", "sentence"]) -> None:
    c = classifier()
    batch, target, step = c.batch([c.tokens(TEXT)]), Target("LABEL_1").resolved(c.labels, 0), 1e-2
    result = as_array(explain(c, TEXT, AttentionGradient(kind=kind), target=Target("LABEL_1")))

    def value(token: int, factor: float) -> float:
        keep = torch.ones(len(result))
        keep[token] = factor
        with torch.no_grad(), c.attention(at(scaled(keep), kind=kind)):
            return float(target.of(c.logits(batch), c.head))

    slopes = [(value(i, 1 + step) - value(i, 1 - step)) / (2 * step) for i in range(len(result))]
    assert result == pytest.approx(np.array(slopes), abs=2e-3 * np.abs(result).max())


@pytest.mark.parametrize("kind", ["self", "sentence"])
def test_attattr_adds_up_at_each_level(kind: Literal["self", "sentence"]) -> None:
    c = classifier()
    target = Target("LABEL_1").resolved(c.labels, 0)
    result = explain(c, TEXT, AttAttrTokens(kind=kind), target=Target("LABEL_1"))
    batch = c.batch([c.tokens(TEXT)])
    with torch.no_grad():
        whole = float(target.of(c.logits(batch), c.head))
        with c.attention(at(scaled(0.0), kind=kind)):
            none = float(target.of(c.logits(batch), c.head))
    assert as_array(result).sum() == pytest.approx(whole - none, abs=2e-2 * abs(whole - none))


def test_attention_norm_of_sentences_goes_through_the_last_layer() -> None:
    c = classifier()
    reading = c.read(c.batch([c.tokens(TEXT)]), values=True)
    site = reading.layers("sentence")[0]
    brought = reading.weights[site][0, 0, 0][:, None] * (reading.values[site][0, 0] @ c.model.out.weight.T)
    result = as_array(explain(c, TEXT, AttentionNorm(kind="sentence")))
    assert result == pytest.approx(brought.norm(dim=-1).detach().numpy(), abs=1e-5)


@pytest.mark.parametrize("name", [*sorted(THROUGH_LAYERS), "attention-norm"])
def test_what_goes_through_layers_is_refused_by_name(name: str) -> None:
    with pytest.raises(Unsupported, match="tiny-han-rnn has two levels of attention"):
        explain(classifier(), TEXT, name)


@pytest.mark.parametrize("name", [n for n in METHODS if not hasattr(METHODS[n], "applies")])
def test_nothing_else_is_refused(name: str) -> None:
    if name not in THROUGH_LAYERS | {"attention-norm"}:
        assert np.isfinite(as_array(explain(classifier(), TEXT, method(name, QUICK.get(name))))).all()


@pytest.mark.parametrize("name", mostly_thorough(INSIDE, FIRST))
def test_conforms(name: str) -> None:
    conforms(method(name, QUICK.get(name)), classifier())


@pytest.mark.thorough
@pytest.mark.parametrize(("encoder", "flat"), [("none", False), ("conv", True)])
@pytest.mark.parametrize("name", [n for n in METHODS if "att" in n or "gradient" in n])
def test_others_conform_where_attention_is_asked(name: str, encoder: Encoder, flat: bool) -> None:
    conforms(method(name, QUICK.get(name)), classifier(encoder, flat))


def test_a_kind_that_is_none_names_sentence_too() -> None:
    with pytest.raises(BadInput, match=r"not one of self, encoder, decoder, cross, sentence"):
        AttentionMean(kind="sentences")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="tiny-flan-rnn has no sentence attention; use self"):
        explain(classifier(flat=True), TEXT, AttentionMean(kind="sentence"))


# the configuration and the start


@pytest.mark.parametrize(("encoder", "flat"), NETS)
def test_a_configuration_written_and_read_again_makes_the_same_network(encoder: Encoder, flat: bool) -> None:
    net = network(encoder, flat, labels=("bad", "fair", "good"))
    written = {k: v for k, v in json.loads(json.dumps(asdict(net.config))).items() if not k.startswith("_")}
    again = Hierarchical(HierarchicalShape(**written)).double().eval()
    again.load_state_dict(net.state_dict())
    assert again.config == net.config
    assert torch.equal(again(*batched(TEXTS)).logits, net(*batched(TEXTS)).logits)


def test_wrong_settings_are_told() -> None:
    with pytest.raises(BadInput, match="encoder 'rn' is not one of rnn, conv, none; did you mean 'rnn'"):
        HierarchicalShape(9, encoder="rn")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="at least 1, not 0"):
        HierarchicalShape(9, longest=0)


def test_the_network_starts_as_in_the_paper() -> None:
    torch.manual_seed(0)
    net = Hierarchical(HierarchicalShape(30)).requires_grad_(False)
    encoder: Any = net.word_level.encoder
    recurrent = encoder.gru.onward.weight_hh_l0
    torch.testing.assert_close(recurrent.T @ recurrent, torch.eye(50))
    for matrix in (net.word_level.inner.weight, encoder.gru.back.weight_ih_l0, net.out.weight):
        bound = (6 / sum(matrix.shape)) ** 0.5
        assert 0.9 * bound < float(matrix.abs().max()) <= bound
    assert not any(p.any() for n, p in net.named_parameters() if "bias" in n)


@pytest.mark.parametrize("place", ["dropout_sentence", "dropout_document", "dropout_output"])
def test_each_dropout_works_in_training_only(place: str) -> None:
    none: dict[str, Any] = {"dropout_sentence": 0.0, "dropout_document": 0.0, "dropout_output": 0.0}
    net, given = network(**none | {place: 0.5}), batched(TEXTS)
    usual = fast(net, *given).logits
    net.train()
    torch.manual_seed(0)
    assert not torch.allclose(fast(net, *given).logits, usual)
    net.eval()
    assert torch.equal(fast(net, *given).logits, usual)
