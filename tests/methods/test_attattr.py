"""Self-attention attribution against slow loops, completeness, and the models' own families."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from heedful.core.errors import BadInput, Unsupported
from heedful.core.explanation import Attribution, Interaction
from heedful.core.target import Target
from heedful.maths.formulas import NESTED, gauss_legendre, nested_lobatto, riemann
from heedful.methods.attattr import AttAttr, AttAttrTokens
from heedful.methods.explain import explain
from heedful.model import edits
from heedful.model.classifier import Classifier
from tests.support.models import EVERY, FAMILIES, TEXTS, build, multihead, shared

TEXT = TEXTS[3]
MINILM = Path(__file__).parents[3] / "shared" / "models" / "minilm-sst2"
BRANCHING = [
    "bert", "distilbert", "roberta", "xlm-roberta", "electra", "mpnet", "deberta", "deberta-v2", "modernbert", "xlnet",
    "roformer",
]  # fmt: skip
SEVERAL = ["bert", "albert", "modernbert", "xlnet", "gpt2", "gemma2", "t5", "bart", "bilstm"]


@cache
def wide(family: str) -> Classifier:
    """In float64, where quadrature is the only error."""
    classifier = build(family)
    classifier.model.double()
    return classifier


def interaction(classifier: Classifier, how: AttAttr, target: Any = 1, text: str = TEXT) -> Interaction:
    found = explain(classifier, text, how, target=target)
    assert isinstance(found, Interaction)
    return found


def point(classifier: Classifier, alpha: float, layer: int, kind: str, target: Target) -> tuple[Tensor, Tensor, Tensor]:
    """The obvious way, a full forward with one layer's attention times alpha: its weights, the value, the gradient."""
    batch = classifier.batch([classifier.tokens(TEXT)])
    with torch.no_grad(), classifier.attention() as seen:
        classifier.logits(batch)
    weights = next(w for site, w in seen[0].items() if (site.kind, site.layer) == (kind, layer))
    scaled = (alpha * weights).requires_grad_()
    with classifier.attention(edits.replaced({(kind, layer): scaled})):
        value = target.of(classifier.logits(batch), classifier.head)
    slope = torch.autograd.grad(value.sum(), scaled, allow_unused=True)[0]
    return weights[0], value.detach(), torch.zeros_like(weights[0]) if slope is None else slope[0]


def slow(classifier: Classifier, layer: int, rule: tuple[Tensor, Tensor], target: Target) -> Tensor:
    kind = classifier.main_kind
    terms = [w * point(classifier, float(x), layer, kind, target)[2] for x, w in zip(*rule, strict=True)]
    return point(classifier, 1.0, layer, kind, target)[0] * torch.stack(terms).sum(0)


# the rules


@pytest.mark.parametrize(("n", "degree"), list(zip(NESTED, (3, 7, 13, 25), strict=True)))
def test_a_nested_rule_is_exact_up_to_its_degree_and_no_further(n: int, degree: int) -> None:
    nodes, weights = nested_lobatto(n)
    error = [float((weights * (2 * nodes - 1) ** k).sum()) - (k % 2 == 0) / (k + 1) for k in range(degree + 2)]
    assert np.abs(error[: degree + 1]).max() < 1e-13
    assert abs(error[degree + 1]) > 1e-10


def test_a_nested_rule_has_the_nodes_of_the_one_before() -> None:
    for fewer, more in pairwise(NESTED):
        assert set(nested_lobatto(fewer)[0].tolist()) < set(nested_lobatto(more)[0].tolist())


def test_the_rule_of_five_is_lobattos() -> None:
    nodes, weights = nested_lobatto(5)
    assert nodes.tolist() == pytest.approx([0, (1 - (3 / 7) ** 0.5) / 2, 0.5, (1 + (3 / 7) ** 0.5) / 2, 1], abs=1e-15)
    assert weights.tolist() == pytest.approx([1 / 20, 49 / 180, 32 / 90, 49 / 180, 1 / 20], abs=1e-15)


def test_there_is_no_nested_rule_of_another_size() -> None:
    with pytest.raises(ValueError, match="7 nodes; the nested rules have"):
        nested_lobatto(7)


def test_a_riemann_sum_reads_one_side_of_each_step() -> None:
    assert [x.tolist() for x in riemann(4, "left")] == [[0, 0.25, 0.5, 0.75], [0.25] * 4]
    assert riemann(4, "right")[0].tolist() == [0.25, 0.5, 0.75, 1]


# against the slow loop


@pytest.mark.parametrize("family", SEVERAL)
@pytest.mark.parametrize("scale", ["logit", "probability"])
def test_gauss_equals_the_slow_loop(family: str, scale: Any) -> None:
    classifier = wide(family)
    found = interaction(classifier, AttAttr("gauss", steps=3, layers=0), Target(2, scale))
    twin = slow(classifier, 0, gauss_legendre(3), Target(2, scale))
    assert found.weights[0] == pytest.approx(twin.numpy(), rel=1e-5, abs=1e-7)
    assert found.layers == (0,)


@pytest.mark.parametrize("family", BRANCHING)
@pytest.mark.parametrize("rule", ["nested", "gauss"])
def test_one_pass_for_all_layers_equals_the_slow_loop(family: str, rule: Any) -> None:
    classifier = wide(family)
    assert classifier.can_branch
    found = interaction(classifier, AttAttr(rule, steps=3))
    for layer in (0, 1):
        twin = slow(classifier, layer, (nested_lobatto if rule == "nested" else gauss_legendre)(3), Target(1))
        assert found.weights[layer] == pytest.approx(twin.numpy(), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("side", ["left", "right"])
def test_riemann_is_the_authors_sum(side: Any) -> None:
    classifier, target = wide("bert"), Target(0, "probability")
    found = interaction(classifier, AttAttr(f"riemann-{side}", steps=6), target)  # type: ignore[arg-type]
    for layer in (0, 1):
        steps = [k / 6 for k in (range(6) if side == "left" else range(1, 7))]
        slopes = torch.stack([point(classifier, alpha, layer, "self", target)[2] for alpha in steps])
        twin = point(classifier, 1.0, layer, "self", target)[0] * slopes.sum(0) / 6
        assert found.weights[layer] == pytest.approx(twin.numpy(), rel=1e-5, abs=1e-7)


def test_riemann_has_twenty_steps() -> None:
    assert interaction(shared("bert"), AttAttr("riemann-left")).details["nodes"] == [20, 20]


# completeness


@pytest.mark.parametrize("family", [f for f in SEVERAL if f not in ("gemma2", "t5")])
def test_every_layer_adds_up_to_what_its_attention_changes(family: str) -> None:
    classifier = wide(family)
    found = explain(classifier, TEXT, AttAttr("gauss", steps=64), target=1)
    assert isinstance(found, Interaction)
    assert found.gaps is not None
    for n, layer in enumerate(found.layers):
        ends = [float(point(classifier, alpha, layer, found.attention, Target(1))[1]) for alpha in (0.0, 1.0)]
        assert found.gaps[n] == pytest.approx(0, abs=1e-6)
        assert found.weights[n].sum(dtype=np.float64) == pytest.approx(ends[1] - ends[0], abs=1e-5)  # float32 weights
        assert found.details["base"][n] == pytest.approx(ends[0], abs=1e-9)


def test_a_line_that_is_steep_at_its_start_adds_up_with_more_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """T5 has little beside attention at some positions, and its norm divides by what there is."""
    monkeypatch.setitem(FAMILIES, "t5", ("roberta", FAMILIES["t5"][1]))  # a tokenizer that is the same in every run
    classifier = build("t5", seed=1)
    classifier.model.double()
    gaps = [interaction(classifier, AttAttr("gauss", steps=n)).gaps or () for n in (64, 512)]
    assert 1e-4 < abs(gaps[1][0]) < abs(gaps[0][0]) / 3


def test_a_norm_behind_attention_leaves_a_gap_and_a_note() -> None:
    """Gemma 2 divides what attention gives by its size: scaling it changes nothing until it is zero."""
    found = interaction(wide("gemma2"), AttAttr())
    assert found.gaps is not None
    assert abs(found.gaps[0]) > 0.1
    assert found.notes[0].startswith("layer 0: not converged with 64 nodes (the last change was ")


def test_the_gap_is_what_a_coarse_sum_lacks() -> None:
    found = interaction(wide("bert"), AttAttr("riemann-left", steps=3))
    assert found.gaps is not None
    for n in (0, 1):
        lack = found.prediction.logits[1] - found.details["base"][n] - found.weights[n].sum(dtype=np.float64)
        assert found.gaps[n] == pytest.approx(lack, abs=1e-6)
        assert abs(found.gaps[n]) > 1e-3


def test_a_layer_in_which_nothing_is_heard_gets_nothing() -> None:
    classifier = build("bert")
    value = classifier.model.bert.encoder.layer[1].attention.self.value
    with torch.no_grad():
        value.weight.zero_()
        value.bias.zero_()
    found = interaction(classifier, AttAttr())
    assert not found.weights[1].any()
    assert found.weights[0].any()
    assert found.details["change"][1] == 0


# doubling


@pytest.mark.parametrize("family", ["bert", "gpt2", "bart"])
@pytest.mark.parametrize("rule", ["nested", "gauss"])
@pytest.mark.parametrize("tolerance", [0.2, 0.01])
def test_what_is_left_is_below_the_square_of_the_tolerance(family: str, rule: Any, tolerance: float) -> None:
    truth = interaction(wide(family), AttAttr("gauss", steps=128)).weights.astype(np.float64)
    found = interaction(wide(family), AttAttr(rule, tolerance=tolerance, max_nodes=256))
    assert all(change <= tolerance for change in found.details["change"])
    assert not found.notes
    for n in range(len(truth)):
        assert np.abs(found.weights[n] - truth[n]).sum() <= tolerance**2 * np.abs(truth[n]).sum() + 1e-6


def test_what_does_not_settle_says_so() -> None:
    found = interaction(wide("bert"), AttAttr(tolerance=1e-6, max_nodes=5))
    assert found.details["nodes"] == [5, 5]
    assert found.notes[0].startswith("layers 0, 1: not converged with 5 nodes (the last change was ")


def test_nested_nodes_are_not_computed_twice() -> None:
    found = interaction(wide("bert"), AttAttr(tolerance=1e-9, max_nodes=17))
    assert found.source.backwards == 1 + 2 * 16  # the end of the line is one backward pass for both layers


# passes


@pytest.mark.parametrize(
    "how", [AttAttr("gauss", 3), AttAttr(steps=9), AttAttr("riemann-left"), AttAttr("riemann-right")]
)
@pytest.mark.parametrize("kind", [AttAttr, AttAttrTokens])
def test_fixed_steps_cost_what_was_said(how: AttAttr, kind: Any) -> None:
    classifier = shared("bert")
    method = kind(how.rule, how.steps)
    said = method.passes(classifier, classifier.tokens(TEXT))
    source = explain(classifier, TEXT, method).source
    assert said.exactly
    assert (source.forwards, source.backwards) == (said.forwards, said.backwards)


@pytest.mark.parametrize("family", ["bert", "bart"])
@pytest.mark.parametrize("rule", ["nested", "gauss"])
def test_doubling_costs_at_most_what_was_said(family: str, rule: Any) -> None:
    classifier = shared(family)
    said = AttAttr(rule).passes(classifier, classifier.tokens(TEXT))
    source = explain(classifier, TEXT, AttAttr(rule)).source
    assert not said.exactly
    assert source.forwards <= said.forwards
    assert source.backwards <= said.backwards


@pytest.mark.parametrize("family", ["bert", "gpt2"])
@pytest.mark.parametrize("how", [AttAttr("gauss", 3), AttAttr(steps=5), AttAttr("riemann-right", 1)])
@pytest.mark.parametrize("rows", [1, 2, 4, 100])
def test_a_long_text_costs_what_was_said(family: str, how: AttAttr, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = shared(family)
    tokens = classifier.tokens(TEXT)
    monkeypatch.setattr("heedful.methods.attattr.BUDGET", rows * len(tokens))
    said, source = how.passes(classifier, tokens), interaction(classifier, how).source
    assert (source.forwards, source.backwards) == (said.forwards, said.backwards)


# branching


def runs(classifier: Classifier, how: AttAttr, text: str = TEXT) -> list[list[int]]:
    """How many rows pass each layer, in each pass of the model; the prediction's first pass is left out."""
    interaction(classifier, how)  # what is tried out once has been tried
    found: list[list[int]] = []
    blocks = classifier.model.bert.encoder.layer
    hooks = [classifier.model.register_forward_pre_hook(lambda *_: found.append([]))]
    hooks += [block.register_forward_hook(lambda _, __, out: found[-1].append(len(out))) for block in blocks]
    interaction(classifier, how, text=text)
    for hook in hooks:
        hook.remove()
    return found[1:]


def test_one_pass_serves_all_layers_and_the_text_itself() -> None:
    assert runs(build("bert", num_hidden_layers=4), AttAttr(steps=5)) == [[5, 9, 13, 17]]


def test_gauss_needs_a_pass_without_gradients_for_where_its_lines_start() -> None:
    assert runs(build("bert", num_hidden_layers=3), AttAttr("gauss", 4)) == [[5, 9, 13], [2, 3, 4]]


def test_layers_that_settle_are_done() -> None:
    """Where one layer is not heard, only the others take more nodes."""
    classifier = build("bert", num_hidden_layers=3)
    value = classifier.model.bert.encoder.layer[1].attention.self.value
    with torch.no_grad():
        value.weight.zero_()
        value.bias.zero_()
    assert runs(classifier, AttAttr(tolerance=1e-9, max_nodes=9)) == [[5, 9, 13], [5, 5, 9]]


def test_a_pass_is_no_larger_than_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = build("bert", num_hidden_layers=3)
    monkeypatch.setattr("heedful.methods.attattr.BUDGET", 7 * len(classifier.tokens(TEXT)))
    assert runs(classifier, AttAttr(steps=5)) == [[5, 7, 7], [1, 3, 7]]


@pytest.mark.parametrize("family", BRANCHING)
@pytest.mark.parametrize("scale", ["logit", "probability"])
def test_branching_equals_copies(family: str, scale: Any) -> None:
    branched, copied = wide(family), build(family)
    copied.model.double()
    copied.can_branch = False
    how = AttAttr(tolerance=0.01)
    one, other = (interaction(c, how, Target(1, scale)) for c in (branched, copied))
    assert one.weights == pytest.approx(other.weights, rel=1e-5, abs=1e-8)
    assert one.gaps == pytest.approx(other.gaps, abs=1e-9)
    assert one.details["nodes"] == other.details["nodes"]


def test_layers_that_settle_apart_equal_copies() -> None:
    branched, copied = (build("bert", num_hidden_layers=4, seed=5) for _ in range(2))
    copied.can_branch = False
    for classifier in (branched, copied):
        classifier.model.double()
    one, other = (interaction(c, AttAttr(tolerance=0.02)) for c in (branched, copied))
    assert len(set(one.details["nodes"])) > 1
    assert one.details["nodes"] == other.details["nodes"]
    assert one.weights == pytest.approx(other.weights, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("family", BRANCHING)
def test_copies_that_part_at_several_layers_answer_like_whole_copies(family: str) -> None:
    classifier = shared(family)
    batch = classifier.batch([classifier.tokens(TEXT)])
    factors = torch.tensor([[1.0, 0.5, 1.0, 1.0], [1.0, 1.0, 0.0, 0.3]])[..., None, None, None]

    def edit(site: edits.Site, weights: Tensor) -> Tensor:
        return weights * factors[site.layer, : len(weights)]

    with torch.no_grad(), classifier.attention(edit) as seen:
        found = classifier.logits(batch, branch=((0, 1), (1, 2)))
        twin = classifier.logits(batch.repeat(4))
    assert [len(weights) for weights in seen[0].values()] == [2, 4]
    torch.testing.assert_close(found, twin, rtol=1e-5, atol=1e-5)
    assert (found[0] - found[1:]).abs().amax(1).min() > 1e-4


def test_layers_out_of_order_are_refused() -> None:
    classifier = shared("bert")
    with pytest.raises(ValueError, match=r"branch \(\(1, 2\), \(0, 2\)\) is not in the order of layers"):
        classifier.logits(classifier.batch([classifier.tokens(TEXT)]), branch=((1, 2), (0, 2)))


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_long_text_runs_in_parts(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = interaction(shared(family), AttAttr("gauss", 7))
    monkeypatch.setattr("heedful.methods.attattr.BUDGET", 3 * len(whole.tokens))
    assert interaction(shared(family), AttAttr("gauss", 7)).weights == pytest.approx(whole.weights, rel=1e-4, abs=1e-6)


# a network that fills texts up


def test_padding_that_the_network_adds_is_told_but_not_shown() -> None:
    """Its logits are linear in attention, so that the attributions are A ⊙ ∂A."""
    classifier = multihead(masked=False)
    classifier.model.double()
    weights, value, slope = point(classifier, 1.0, 0, "self", Target(1))
    n = len(classifier.tokens(TEXT))
    found = interaction(classifier, AttAttr())
    assert found.weights[0] == pytest.approx((weights * slope)[..., :n].numpy(), rel=1e-5, abs=1e-7)
    beyond = float((weights * slope)[..., n:].sum())
    assert abs(beyond) > 0.01
    assert found.gaps == pytest.approx((beyond,), abs=1e-9)
    assert float(value) == pytest.approx(found.weights.sum(dtype=np.float64) + beyond, abs=1e-6)
    assert found.notes == (f"layer 0: the gap includes {beyond:.3g} of the padding that the network adds to a text",)


def test_tokens_of_a_network_that_fills_texts_up() -> None:
    found, twin = (explain(multihead(masked=False), TEXT, how(), target=1) for how in (AttAttrTokens, AttAttr))
    assert isinstance(found, Attribution)
    assert isinstance(twin, Interaction)
    assert found.scores == pytest.approx(twin.weights[0].sum((0, 1)), abs=1e-6)
    assert found.gap == pytest.approx(found.prediction.logits[1] - (found.base or 0) - found.scores.sum(), abs=1e-5)
    assert found.notes == twin.notes


# tokens


@pytest.mark.parametrize("family", ["bert", "gpt2", "t5", "bilstm"])
def test_a_tokens_score_is_its_column_in_the_mean_layer(family: str) -> None:
    found = explain(wide(family), TEXT, AttAttrTokens(steps=9), target=1)
    twin = explain(wide(family), TEXT, AttAttr(steps=9), target=1)
    assert isinstance(found, Attribution)
    assert isinstance(twin, Interaction)
    assert found.scores == pytest.approx(twin.weights.sum((1, 2), dtype=np.float64).mean(0), abs=1e-5)


@pytest.mark.parametrize("family", ["bert", "gpt2", "bart"])
@pytest.mark.parametrize("kind", [None, "decoder"])
def test_token_scores_add_up_to_the_target_but_for_the_gap(family: str, kind: Any) -> None:
    if kind == "decoder" and family != "bart":
        pytest.skip("has no decoder attention")
    found = explain(wide(family), TEXT, AttAttrTokens(kind=kind), target=1)
    assert isinstance(found, Attribution)
    assert found.base is not None
    assert found.gap == pytest.approx(found.prediction.logits[1] - found.base - found.scores.sum(), abs=1e-9)


def test_a_decoders_tokens_are_moved_back() -> None:
    found = explain(wide("bart"), TEXT, AttAttrTokens(kind="decoder", steps=9), target=1)
    twin = explain(wide("bart"), TEXT, AttAttr(kind="decoder", steps=9), target=1)
    assert isinstance(found, Attribution)
    assert isinstance(twin, Interaction)
    columns = twin.weights.sum((1, 2), dtype=np.float64).mean(0)
    assert found.scores == pytest.approx([*columns[1:], 0.0], abs=1e-5)
    assert "start token" in found.notes[-1]


# settings


@pytest.mark.parametrize(("layers", "meant"), [("all", (0, 1)), (-1, (1,)), ((1, 0), (0, 1)), ((0, -2), (0,))])
def test_layers_can_be_chosen(layers: Any, meant: tuple[int, ...]) -> None:
    found = interaction(shared("bert"), AttAttr(layers=layers, steps=3))
    whole = interaction(shared("bert"), AttAttr(steps=3))
    assert found.layers == meant
    assert found.weights == pytest.approx(whole.weights[list(meant)], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rule": "simpson"}, "rule 'simpson' is not one of nested, gauss, riemann-left, riemann-right"),
        ({"steps": 4}, "steps is 4; the nested rule has 3, 5, 9, 17 steps"),
        ({"rule": "gauss", "steps": 0}, "steps is a whole number of at least 1 or none, not 0"),
        ({"tolerance": 0.0}, "tolerance is a number above 0, not 0.0"),
        ({"max_nodes": 3}, "max_nodes is a whole number of at least 5, not 3"),
        ({"layers": ()}, r"layers is empty; give a number, several or 'all'"),
        ({"layers": "last"}, "layers is a whole number, 'all' or several with commas between, not 'last'"),
    ],
)
def test_settings_that_mean_nothing_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        AttAttr(**given)


def test_a_layer_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BadInput, match=r"layer 2 is not one of 0 … 1 \(or negative, from the last\)"):
        interaction(shared("bert"), AttAttr(layers=(0, 2)))


def test_a_model_whose_attention_cannot_be_read_is_named() -> None:
    with pytest.raises(Unsupported, match="tiny-fnet"):
        explain(shared("fnet"), TEXT, "attattr")


@pytest.mark.parametrize("family", [f for f in EVERY if f != "gemma2"])
def test_every_family_settles(family: str) -> None:
    found = explain(shared(family), TEXT, AttAttr())
    assert found.notes == ()
    assert isinstance(found, Interaction)
    assert found.weights.any()


@pytest.mark.thorough
@pytest.mark.skipif(not MINILM.exists(), reason="the trained model is not here")
def test_the_default_errs_far_less_than_twenty_steps_on_a_trained_model() -> None:
    from heedful.model.loading import load

    classifier, text = load(str(MINILM)), "The jokes are old, but the two leads make it a pleasure."
    truth, default, authors = (
        interaction(classifier, how, Target(scale="probability"), text).weights.astype(np.float64)
        for how in (AttAttr("gauss", steps=16), AttAttr(), AttAttr("riemann-left"))
    )
    error = [np.abs(found - truth).sum() / np.abs(truth).sum() for found in (default, authors)]
    assert error[0] < 0.02
    assert error[0] < error[1] / 3
