"""The closed forms of Lopardo et al. 2024 against autograd, finite differences, enumeration, and LIME itself."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.errors import BadInput, Unsupported
from heedful.core.explanation import Attribution
from heedful.core.target import Target
from heedful.maths import theory
from heedful.maths.formulas import gauss_legendre
from heedful.methods import method
from heedful.methods.conformance import PROBE_TEXTS, conforms
from heedful.methods.explain import explain
from heedful.methods.theory import TheoryGradient, TheoryLime
from heedful.model.classifier import Classifier
from heedful.nets import MultiHead, MultiHeadShape, sinusoidal
from tests.support.models import multihead, tokenizer
from tests.support.toys import FILLERS
from tests.support.toys import tokenizer as words_of

CLS, UNK = 2, 1
WIDTHS = [None, 0.1, 0.25, 1.0]


def network(loudness: float = 1.0, seed: int = 0, masked: bool = True, vocabulary: int = 160) -> MultiHead:
    """A random network in float64: 3 heads; the louder, the more peaked its attention."""
    rng = torch.Generator().manual_seed(seed)

    def matrix(*shape: int, scale: float = 1.0) -> Tensor:
        return scale * torch.randn(shape, generator=rng, dtype=torch.float64)

    return MultiHead.from_matrices(
        words=matrix(vocabulary, 16),
        query=matrix(3, 8, 16, scale=0.25 * loudness),
        key=matrix(3, 8, 16, scale=0.25),
        value=matrix(3, 6, 16, scale=0.3),
        out=matrix(3, 2, 6),
        positions=sinusoidal(96, 16),
        pad_token_id=UNK,
        masked=masked,
    )


def text(words: int, distinct: int, seed: int = 0) -> list[int]:
    """[CLS] and so many words, of which so many are distinct, each at least once."""
    rng = np.random.default_rng(seed)
    known = rng.permutation(np.arange(5, 160))[:distinct]
    return [CLS, *rng.permutation([*known, *rng.choice(known, words - distinct)]).tolist()]


def answer(net: MultiHead, ids: Tensor) -> Tensor:
    """Logit 1 of each row."""
    with torch.no_grad():
        return torch.cat([net(part, torch.ones_like(part)).logits[:, 1] for part in torch.split(ids, 5000)])


def heads(net: MultiHead) -> theory.Heads:
    return theory.Heads(*(p.detach().numpy() for p in (net.query, net.key, net.value, net.out[:, 1])))


def states(net: MultiHead, ids: Sequence[int]) -> Floats:
    spare = [] if net.config.masked else [UNK] * (len(net.positions) - len(ids))
    filled = torch.tensor([*ids, *spare])
    return (net.words.weight[filled] + net.positions[: len(filled)]).detach().numpy()


def features(ids: Sequence[int]) -> list[int]:
    """The distinct words, in order."""
    return list(dict.fromkeys(ids[1:]))


def masses(net: MultiHead, ids: Sequence[int]) -> theory.Masses:
    known = features(ids)
    gone = [CLS, *[UNK] * (len(ids) - 1)]
    vectors = states(net, ids)
    word = np.full(len(vectors), -1)
    word[1 : len(ids)] = [known.index(i) for i in ids[1:]]
    return theory.masses(heads(net), vectors, states(net, gone), word)


def variants(ids: Sequence[int], keep: Tensor) -> Tensor:
    """Token ids [n,t] with UNK in the place of words that are not kept [n,d]."""
    column = torch.tensor([features(ids).index(i) for i in ids[1:]])
    rows = torch.where(keep[:, column] > 0, torch.tensor(ids[1:]), UNK)
    return torch.cat([torch.full((len(rows), 1), CLS), rows], 1)


def pi(keep: Tensor, width: float | None) -> Tensor:
    """LIME's weight of each sample, from the cosine distance as the package writes it."""
    if width is None:
        return torch.ones(len(keep), dtype=torch.float64)
    cosine = keep.sum(1) / (keep.sum(1).sqrt() * math.sqrt(keep.shape[1])).clamp(min=1e-300)
    return torch.sqrt(torch.exp(-((1 - cosine) ** 2) / width**2))


def enumerated(net: MultiHead, ids: Sequence[int], width: float | None) -> Floats:
    """The slow truth without noise: LIME's weighted least squares over all subsets, each as often as LIME draws it."""
    d = len(features(ids))
    keep = torch.tensor(list(itertools.product((0.0, 1.0), repeat=d)), dtype=torch.float64)
    ways = torch.tensor([math.comb(d, int(m)) for m in keep.sum(1)], dtype=torch.float64)
    weights = pi(keep, width) / ways * (keep.sum(1) < d)
    table = torch.cat([torch.ones(len(keep), 1, dtype=torch.float64), keep], 1)
    root = weights.sqrt()[:, None]
    solved = torch.linalg.lstsq(root * table, root * answer(net, variants(ids, keep))[:, None]).solution
    result: Floats = solved[1:, 0].numpy()
    return result


def sampled(net: MultiHead, ids: Sequence[int], width: float | None, n: int = 50_000) -> Floats:
    """LIME as the package does it, but replacing in place: n samples, the first the text itself, then ridge."""
    rng = np.random.default_rng(1)
    d = len(features(ids))
    gone = rng.integers(1, d + 1, size=n)
    gone[0] = 0
    order = rng.random((n, d)).argsort(1).argsort(1)
    keep = torch.from_numpy((order >= gone[:, None]).astype(np.float64))
    weights, f = pi(keep, width), answer(net, variants(ids, keep)).double()
    centred = keep - (weights @ keep) / weights.sum()
    moments = centred.T @ (weights[:, None] * centred) + torch.eye(d, dtype=torch.float64)
    result: Floats = torch.linalg.solve(moments, centred.T @ (weights * (f - (weights @ f) / weights.sum()))).numpy()
    return result


def off(result: Floats, truth: Floats) -> float:
    return float(np.linalg.norm(result - truth) / np.linalg.norm(truth))


def pearson(result: Floats, truth: Floats) -> float:
    return float(np.corrcoef(result, truth)[0, 1])


# the network


def test_positions_are_sines_and_cosines() -> None:
    twin = [
        [(math.sin if i % 2 == 0 else math.cos)(t / 10000 ** ((i - i % 2) / 7)) for i in range(7)] for t in range(5)
    ]
    assert sinusoidal(5, 7).tolist() == [pytest.approx(row, abs=1e-15) for row in twin]


@pytest.mark.parametrize("masked", [True, False])
def test_the_network_is_what_the_paper_writes(masked: bool) -> None:
    net, ids = network(masked=masked), text(6, 5)
    e = [net.words.weight[i] + net.positions[t] for t, i in enumerate(ids)]
    e += [] if masked else [net.words.weight[UNK] + net.positions[t] for t in range(7, 96)]
    twin = torch.zeros(2, dtype=torch.float64)
    for i in range(3):
        q = net.query[i] @ e[0]
        raw = [math.exp((q @ (net.key[i] @ x)).item() / math.sqrt(8)) for x in e]
        twin += (
            sum((g / sum(raw) * (net.out[i] @ (net.value[i] @ x)) for g, x in zip(raw, e, strict=True)), 0 * twin) / 3
        )
    result = net(torch.tensor([ids])).logits[0]
    assert result.tolist() == pytest.approx(twin.tolist(), abs=1e-12)


@pytest.mark.parametrize("masked", [True, False])
def test_a_batchs_padding_changes_nothing(masked: bool) -> None:
    net, ids = network(masked=masked), text(6, 5)
    padded = torch.tensor([[*ids, 7, 7]])
    mask = torch.tensor([[1] * 7 + [0] * 2])
    torch.testing.assert_close(net(padded, mask).logits, net(torch.tensor([ids])).logits, rtol=0, atol=1e-12)


def test_without_a_mask_padding_takes_attention() -> None:
    weights = network(masked=False)(torch.tensor([text(6, 5)])).attentions[0]
    assert weights.shape == (1, 3, 1, 96)
    assert float(weights[..., 7:].detach().sum(-1).min()) > 0.1


def test_weights_start_as_in_the_paper() -> None:
    net = MultiHead(MultiHeadShape(5000), torch.Generator().manual_seed(0))
    assert [tuple(p.shape) for p in (net.query, net.key, net.value, net.out)] == [(6, 64, 128)] * 3 + [(6, 2, 64)]
    assert float(net.words.weight.detach().std()) == pytest.approx(1, abs=0.01)
    assert all(0.099 < float(p.detach().abs().max()) <= 0.1 for p in (net.query, net.key, net.value))
    assert all(p.requires_grad for p in net.parameters())
    again = MultiHead(MultiHeadShape(5000), torch.Generator().manual_seed(0))
    assert torch.equal(net.query, again.query)


def test_matrices_that_do_not_fit_are_refused() -> None:
    net = network()
    parts: dict[str, Any] = {n: p.detach() for n, p in net.named_parameters()}
    parts["words"] = parts.pop("words.weight")
    with pytest.raises(
        BadInput, match=r"do not fit together: words.weight \(160, 16\), query \(3, 8, 16\), key \(3, 8, 1"
    ):
        MultiHead.from_matrices(**(parts | {"key": parts["key"][..., :12]}))


def test_a_text_longer_than_the_network_is_refused() -> None:
    with pytest.raises(BadInput, match="the text has 97 tokens and the network has 96 positions"):
        network()(torch.zeros(1, 97, dtype=torch.long))


@pytest.mark.parametrize("name", [
    "attention-mean", "attention-max", "attention-received", "effective-attention", "attention-weights",
    "attention-gradient", "attattr", "attattr-tokens", "gradient-l2", "gradient-x-input",
    "integrated-gradients", "theory-gradient", "theory-lime", "random",
])  # fmt: skip
def test_methods_conform_on_a_network_without_a_mask(name: str) -> None:
    conforms(method(name), multihead(masked=False))


# theorem 4.1


def autograd(net: MultiHead, ids: Sequence[int]) -> Floats:
    """∂ logit 1 / ∂ e_t for all positions that the network reads: a shift of a position is a shift of its vector."""
    moved = net.positions.clone().requires_grad_()
    net.positions = moved
    slopes = torch.autograd.grad(net(torch.tensor([ids])).logits[0, 1], moved)[0]
    return slopes[: len(ids) if net.config.masked else None].numpy()


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("loudness", [0.3, 1.0, 5.0])
def test_theorem_4_1_with_the_query_term_is_the_gradient(loudness: float, masked: bool) -> None:
    net, ids = network(loudness, masked=masked), text(24, 20)
    result = theory.gradient(heads(net), states(net, ids))
    np.testing.assert_allclose(result, autograd(net, ids), rtol=1e-9, atol=1e-9)


def test_theorem_4_1_without_the_query_term_is_wrong_on_the_first_row_only() -> None:
    net, ids = network(), text(24, 20)
    error = np.abs(theory.gradient(heads(net), states(net, ids), query_term=False) - autograd(net, ids)).max(-1)
    assert error[0] > 1e-2
    assert error[1:].max() < 1e-9


def test_theorem_4_1_is_the_slope_of_finite_differences() -> None:
    net, ids, step = network(), text(5, 5), 1e-6
    whole = net.positions.clone()

    def value(t: int, i: int, by: float) -> float:
        net.positions = whole.clone()
        net.positions[t, i] += by
        return float(answer(net, torch.tensor([ids])))

    twin = [[(value(t, i, step) - value(t, i, -step)) / (2 * step) for i in range(16)] for t in range(6)]
    net.positions = whole
    np.testing.assert_allclose(theory.gradient(heads(net), states(net, ids)), twin, rtol=0, atol=1e-8)


def test_uniform_attention_has_one_gradient_for_all_words() -> None:
    net, ids = network(loudness=0.0), text(9, 9)
    slopes = theory.gradient(heads(net), states(net, ids), query_term=False)
    one = torch.einsum("koe,ko->e", net.value, net.out[:, 1]) / 3 / 10
    np.testing.assert_allclose(slopes, np.tile(one.detach().numpy(), (10, 1)), rtol=0, atol=1e-12)


# theorem 5.1


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("loudness", [0.3, 1.0, 4.0, 30.0])
@pytest.mark.parametrize(("words", "distinct"), [(3, 3), (10, 10), (17, 9)])
def test_the_exact_form_is_limes_least_squares_over_all_subsets(
    words: int, distinct: int, loudness: float, width: float | None
) -> None:
    net, ids = network(loudness), text(words, distinct)
    assert off(theory.lime_exact(masses(net, ids), width), enumerated(net, ids, width)) < 2e-8


def test_the_exact_form_holds_with_padding_that_takes_attention() -> None:
    net, ids = network(masked=False), text(10, 8)
    assert off(theory.lime_exact(masses(net, ids)), enumerated(net, ids, 0.25)) < 2e-8


@pytest.mark.parametrize(("words", "distinct", "loudness", "width"), [
    (25, 25, 1.0, 0.25), (25, 25, 4.0, None), (50, 35, 1.0, 0.25),
])  # fmt: skip
def test_lime_converges_to_the_exact_form(words: int, distinct: int, loudness: float, width: float | None) -> None:
    net, ids = network(loudness), text(words, distinct)
    assert off(theory.lime_exact(masses(net, ids), width), sampled(net.float(), ids, width)) < 0.02


@pytest.mark.parametrize("width", [None, 0.25])
@pytest.mark.parametrize(("words", "distinct"), [(25, 25), (80, 60)])
def test_the_derived_form_is_close_where_attention_is_spread(words: int, distinct: int, width: float | None) -> None:
    result = [masses(network(0.3, seed=s), text(words, distinct, s)) for s in range(5)]
    assert max(off(theory.lime_derived(m, width), theory.lime_exact(m, width)) for m in result) < 0.02


def test_the_derived_form_is_off_where_attention_is_peaked() -> None:
    m = masses(network(10.0), text(25, 25))
    assert off(theory.lime_derived(m), theory.lime_exact(m)) > 0.05


def test_the_papers_form_has_the_order_but_not_the_scale() -> None:
    result = [masses(network(0.3, seed=s), text(60, 60, s)) for s in range(10)]
    pairs = [(theory.lime_paper(m), theory.lime_exact(m, None)) for m in result]
    assert np.mean([pearson(*pair) for pair in pairs]) > 0.95
    assert min(off(*pair) for pair in pairs) > 0.1


def test_what_all_tokens_say_alike_moves_the_papers_form_alone() -> None:
    """f moves by a constant, which is no word's merit."""
    m = masses(network(), text(12, 10))
    moved = replace(
        m,
        kept_output=m.kept_output + 3 * m.kept,
        gone_output=m.gone_output + 3 * m.gone,
        fixed_output=m.fixed_output + 3 * m.fixed,
    )
    for form in (theory.lime_exact, theory.lime_derived):
        np.testing.assert_allclose(form(moved), form(m), rtol=0, atol=1e-9)
    assert off(theory.lime_paper(moved), theory.lime_paper(m)) > 0.1


def test_the_papers_form_is_what_the_authors_compute() -> None:
    """Word by word, from attention on the text and on the text of UNKs."""
    net, ids = network(), text(12, 9)
    gone = [CLS, *[UNK] * 12]
    whole, empty = (net(torch.tensor([x])).attentions[0][0, :, 0].detach().numpy() for x in (ids, gone))
    said, said_gone = (heads(net).logit_directions() @ states(net, x).T for x in (ids, gone))
    each = 1.5 * (whole * said - empty * said_gone).mean(0)
    twin = [sum(float(each[t]) for t in range(1, 13) if ids[t] == word) for word in features(ids)]
    assert theory.lime_paper(masses(net, ids)).tolist() == pytest.approx(twin, abs=1e-12)


@pytest.mark.parametrize("width", WIDTHS)
def test_uniform_attention_is_linear_and_its_weights_are_found(width: float | None) -> None:
    """f = Σ_t s_t / T, so a word's coefficient is what it says less what UNK says there; the paper's is 3/2 of that."""
    net, ids = network(loudness=0.0), text(15, 12)
    m = masses(net, ids)
    slopes = (m.kept_output - m.gone_output).mean(0) / 16
    np.testing.assert_allclose(theory.lime_exact(m, width), slopes, rtol=0, atol=1e-7)
    np.testing.assert_allclose(theory.lime_derived(m, width), slopes, rtol=0, atol=1e-10)
    np.testing.assert_allclose(theory.lime_paper(m), 1.5 * slopes, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", [theory.lime_exact, theory.lime_derived])
def test_of_a_single_word_lime_knows_both_values(form: Any) -> None:
    net, ids = network(), [CLS, 9, 9]
    whole, empty = answer(net, torch.tensor([ids, [CLS, UNK, UNK]]))
    assert form(masses(net, ids)).tolist() == pytest.approx([float(whole - empty)], abs=1e-12)


@pytest.mark.parametrize("ratio", [1.0, 1.3, 2.6, 10.0, 32.0, 32.1, 1e4, 1e12, 1e280])
def test_a_sum_of_exponentials_is_one_over_z(ratio: float) -> None:
    for rates, amounts in (theory.inverse(ratio), theory.trapezoid(ratio, theory.TRAPEZOID_STEP)):
        for z in np.logspace(-math.log10(ratio), 0, 300):
            assert float((amounts * np.exp(-rates * z)).sum()) * z == pytest.approx(1, abs=2e-9)


def test_fitted_sums_have_fewer_terms() -> None:
    assert len(theory.inverse(2.6)[0]) * 1.7 < len(theory.trapezoid(2.6, theory.TRAPEZOID_STEP)[0])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("d", [2, 7, 13, 25, 120])
def test_a_mixture_of_binomials_is_the_kernel(d: int, width: float | None) -> None:
    nodes, weights = theory.mixture(d, width)
    kept = np.arange(d + 1)
    made = scipy.stats.binom.pmf(kept[:, None], d, nodes) @ weights
    twin = np.ones(d + 1) if width is None else np.exp(-((1 - np.sqrt(kept / d)) ** 2) / (2 * width**2))
    # where the kernel has a vertical tangent, at no word kept, least squares stops short of exact
    assert made == pytest.approx(twin, abs=1e-9 if d < 14 else 1e-3)
    assert made[d // 2 :] == pytest.approx(twin[d // 2 :], abs=2e-5)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("d", "loudness"), [(14, 1.0), (25, 0.3), (25, 4.0), (80, 1.0), (90, 4.0)])
def test_more_nodes_do_not_move_the_exact_form(
    d: int, loudness: float, width: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    m = masses(network(loudness), text(d, d))
    usual = theory.lime_exact(m, width)
    monkeypatch.setattr(theory, "inverse", lambda ratio: theory.trapezoid(ratio, 0.2))
    monkeypatch.setattr(theory, "mixture", finer)
    assert off(usual, theory.lime_exact(m, width)) < 1e-8


def finer(d: int, width: float | None) -> tuple[Floats, Floats]:
    nodes = gauss_legendre(min(d + 1, 64))[0].numpy()
    pmf = scipy.stats.binom.pmf(np.arange(d + 1)[:, None], d, nodes)
    return nodes, np.linalg.lstsq(pmf, theory.kernel_weights(d, width), rcond=1e-10)[0]


def test_what_is_kept_for_later_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        theory.mixture(5, None)[0][0] = 0


# the methods


def classifier(masked: bool = True, labels: tuple[str, ...] = ("bad", "good"), special: bool = True) -> Classifier:
    """A loud network that reads words."""
    net = network(masked=masked, vocabulary=len(words_of(special)))
    net.config = replace(net.config, labels=labels)
    return Classifier(net, words_of(special), name="loud")


SENTENCE = "ape bee cat bee dog elk fox gnu hen cat bee"


def attribution(of: Classifier, how: Any, target: Any = 1, sentence: str = SENTENCE) -> Attribution:
    result = explain(of, sentence, how, target=target)
    assert isinstance(result, Attribution)
    return result


@dataclass(frozen=True)
class Direct:
    """The same from the functions: gradients by autograd, LIME by enumeration."""

    slopes: Floats
    vectors: Floats

    def reduced(self, how: str) -> list[float]:
        rows = zip(self.slopes, self.vectors, strict=True)
        reductions: dict[str, Any] = {
            "mean": lambda g, e: sum(g) / len(g),
            "l1": lambda g, e: sum(abs(x) for x in g),
            "l2": lambda g, e: math.sqrt(sum(x * x for x in g)),
            "x-input": lambda g, e: sum(x * y for x, y in zip(g, e, strict=True)),
        }
        return [float(reductions[how](g.tolist(), e.tolist())) for g, e in rows]


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("how", ["mean", "l1", "l2", "x-input"])
def test_theory_gradient_reduces_the_gradient(how: Any, masked: bool) -> None:
    of = classifier(masked)
    ids = of.tokens(SENTENCE).ids
    twin = Direct(autograd(of.model, ids)[: len(ids)], states(of.model, ids)[: len(ids)]).reduced(how)
    result = attribution(classifier(masked), TheoryGradient(reduce=how))
    assert result.scores == pytest.approx(twin, abs=1e-9)
    assert result.signed == (how in ("mean", "x-input"))


def test_theory_gradient_is_the_gradient_that_the_seam_finds() -> None:
    of = multihead()
    result, measured = (attribution(of, name, sentence=PROBE_TEXTS[0]) for name in ("theory-gradient", "gradient-l2"))
    assert result.scores == pytest.approx(measured.scores, rel=1e-4, abs=1e-6)


def test_without_the_query_term_only_the_first_score_differs() -> None:
    result, without = (attribution(classifier(), TheoryGradient(query_term=term)).scores for term in (True, False))
    assert (result != without).tolist() == [True] + [False] * (len(result) - 1)


@pytest.mark.parametrize("width", [None, 0.25])
def test_theory_lime_divides_a_words_coefficient_among_its_occurrences(width: float | None) -> None:
    of = classifier()
    result = attribution(of, TheoryLime(kernel_width=width))
    ids = list(of.tokens(SENTENCE).ids)
    inner = ids[:-1]  # [SEP] at the end stays in every sample
    keep = torch.tensor(list(itertools.product((0.0, 1.0), repeat=8)), dtype=torch.float64)
    rows = torch.cat([variants(inner, keep), torch.full((256, 1), ids[-1])], 1)
    ways = torch.tensor([math.comb(8, int(m)) for m in keep.sum(1)], dtype=torch.float64)
    weights = pi(keep, width) / ways * (keep.sum(1) < 8)
    root = weights.sqrt()[:, None]
    table = torch.cat([torch.ones(256, 1, dtype=torch.float64), keep], 1)
    truth = torch.linalg.lstsq(root * table, root * answer(of.model, rows)[:, None]).solution[1:, 0]
    assert not result.scores[[0, -1]].any()
    assert result.details == {"words": 8}
    for word, coefficient in zip(features(inner), truth.tolist(), strict=True):
        own = [s for i, s in zip(ids, result.scores, strict=True) if i == word]
        assert own == pytest.approx([coefficient / len(own)] * len(own), abs=1e-7)


@pytest.mark.parametrize("form", ["exact", "derived", "paper"])
def test_a_words_pieces_add_up_to_its_coefficient(form: Any) -> None:
    result = attribution(multihead(), TheoryLime(form=form), sentence="unbelievably dull and dull")
    words = result.by("word").as_list()
    assert len(result.tokens.content) > len(words)
    assert dict(words).keys() == {"unbelievably", "dull", "and"}
    assert words[1] == words[3]
    assert result.details == {"words": 3}


@pytest.mark.parametrize("name", ["theory-gradient", "theory-lime"])
def test_theory_asks_the_model_nothing(name: str) -> None:
    of = classifier()
    made: Any = method(name)
    tokens = of.tokens(SENTENCE)
    source = attribution(of, name).source
    passes = made.passes(of, tokens)
    assert (
        (passes.forwards, passes.backwards, passes.exactly) == (source.forwards, source.backwards, True) == (0, 0, True)
    )


@pytest.mark.parametrize("how", [TheoryGradient(reduce="mean"), TheoryLime(), TheoryLime(form="paper")])
def test_a_label_against_another_is_the_difference(how: Any) -> None:
    good, bad, both = (attribution(classifier(), how, t).scores for t in ("good", "bad", Target("good", against="bad")))
    assert both == pytest.approx(good - bad, abs=1e-8)
    assert np.abs(good + bad).max() > 1e-3


def test_one_logit_answers_yes_and_no() -> None:
    net = network(vocabulary=len(words_of()))
    single = MultiHead.from_matrices(
        words=net.words.weight.detach(), query=net.query.detach(), key=net.key.detach(), value=net.value.detach(),
        out=net.out[:, 1:].detach(), positions=net.positions, labels=("good",),
    )  # fmt: skip
    of = Classifier(single, words_of(), name="single")
    yes, no, usual = (
        attribution(c, "theory-lime", t).scores for c, t in ((of, "good"), (of, "not good"), (classifier(), "good"))
    )
    assert yes == pytest.approx(usual, abs=1e-12)
    assert no == pytest.approx(-usual, abs=1e-12)


@pytest.mark.parametrize("name", ["theory-gradient", "theory-lime"])
def test_probabilities_are_refused(name: str) -> None:
    with pytest.raises(
        BadInput, match=r"^the target is the probability of 1, and the theory applies to logits; use scale="
    ):
        explain(classifier(), SENTENCE, name, target=Target(1, scale="probability"))


@pytest.mark.parametrize("name", ["theory-gradient", "theory-lime"])
def test_other_models_are_refused_by_name(name: str) -> None:
    from tests.support.models import shared

    with pytest.raises(
        Unsupported, match=rf"^tiny-bilstm is a Single; {name} applies to a heedful\.nets\.MultiHead, the single-layer"
    ):
        explain(shared("bilstm"), PROBE_TEXTS[0], name)


def test_the_query_must_stay() -> None:
    with pytest.raises(Unsupported, match="loud: its tokenizer puts no special token first, so a word makes the query"):
        explain(classifier(special=False), SENTENCE, "theory-lime")


@pytest.mark.parametrize(
    ("masking", "fill"), [("unk", "unk_token"), ("mask", "mask_token"), ("pad", "pad_token"), ("token:owl", None)]
)
def test_the_token_that_stands_in_can_be_chosen(masking: str, fill: str | None) -> None:
    """Of one word, the coefficient is what replacing it changes."""
    of = classifier()
    stand_in = getattr(of.tokenizer, fill) if fill else "owl"
    rows = [of.tokenizer.convert_tokens_to_ids(["[CLS]", word, "[SEP]"]) for word in ("ape", stand_in)]
    whole, empty = answer(of.model, torch.tensor(rows)).tolist()
    result = attribution(of, TheoryLime(masking=masking), sentence="ape")
    assert result.scores == pytest.approx([0, whole - empty, 0], abs=1e-12)


@pytest.mark.parametrize(("settings", "message"), [
    ({"form": "best"}, "form 'best' is not one of exact, derived, paper"),
    ({"kernel_width": 0.0}, "kernel_width is a number above 0 or none, not 0.0"),
    ({"kernel_width": math.inf}, "kernel_width is a number above 0 or none, not inf"),
    ({"masking": "delete"}, "masking 'delete' replaces no word by a token; use mask, unk, pad or token:WORD"),
    ({"masking": "token:"}, "masking 'token:' replaces no word by a token"),
])  # fmt: skip
def test_wrong_settings_of_theory_lime(settings: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        TheoryLime(**settings)


def test_wrong_settings_of_theory_gradient() -> None:
    with pytest.raises(BadInput, match="reduce 'max' is not one of mean, l1, l2, x-input"):
        TheoryGradient(reduce="max")  # type: ignore[arg-type]


def test_a_kernel_that_sees_one_kind_of_sample_is_refused() -> None:
    with pytest.raises(
        BadInput, match=r"with kernel width 0\.05, all samples of 2 words that have weight keep the same number"
    ):
        attribution(classifier(), TheoryLime(kernel_width=0.05), sentence=" ".join(FILLERS[:2]))


def test_the_theory_of_a_float32_network_is_computed_in_float64() -> None:
    narrow, wide = multihead(), multihead()
    wide.model.double()
    assert tokenizer("wordpiece") is narrow.tokenizer
    result = [attribution(c, "theory-lime", sentence=PROBE_TEXTS[0]).scores for c in (narrow, wide)]
    assert result[0] == pytest.approx(result[1], abs=1e-12)
