"""The built-in methods against twins and outside references."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients as CaptumIG
from captum.attr import LayerGradientXActivation, LayerIntegratedGradients
from torch import Tensor, nn

from heedful.audits.verdict import ATTENTION_METHODS
from heedful.core.errors import BadInput, Unsupported
from heedful.core.explanation import Attribution, Interaction
from heedful.core.target import Target
from heedful.maths.formulas import effective_attention
from heedful.methods import METHODS, method
from heedful.methods.attention import FIRST_ROW_ONLY, AttentionMean
from heedful.methods.conformance import conforms
from heedful.methods.explain import explain
from heedful.methods.gradient import GradientMean, IntegratedGradients, word_vectors
from heedful.model import edits
from heedful.model.classifier import Classifier
from heedful.model.edits import Site
from heedful.nets.transformer import Transformer, TransformerShape
from tests.support import stories
from tests.support.models import EVERY, FAMILIES, TEXTS, build, loud, multihead, shared, tokenizer

ENCODERS = ("bert", "distilbert", "roberta", "xlm-roberta", "albert", "electra", "mpnet", "deberta-v2", "roformer")
DECODERS = ("gpt2", "llama", "bloom")


def attribution(classifier: Classifier, text: str, how: Any, target: Any = 1) -> Attribution:
    found = explain(classifier, text, how, target=target)
    assert isinstance(found, Attribution)
    return found


def reported(classifier: Classifier, text: str) -> list[Tensor]:
    """Attention matrices [h,q,k] as the model itself reports them."""
    batch = classifier.batch([classifier.tokens(text)])
    with torch.no_grad(), classifier.attention() as seen:
        classifier.logits(batch)
    return [w[0].double() for w in seen[0].values()]


# attention


@pytest.mark.parametrize("family", [*ENCODERS, *DECODERS])
@pytest.mark.parametrize(("name", "join"), [("attention-mean", "mean"), ("attention-max", "amax")])
def test_attention_reads_the_pooled_row_of_the_last_layer(family: str, name: str, join: str) -> None:
    classifier = shared(family)
    row = 0 if family in ENCODERS else -1
    twin = getattr(reported(classifier, TEXTS[0])[-1], join)(0)[row]
    assert attribution(classifier, TEXTS[0], name).scores == pytest.approx(twin.numpy(), abs=1e-7)


def test_attention_of_a_mean_pooled_model_is_the_mean_row() -> None:
    classifier = shared("modernbert")
    twin = reported(classifier, TEXTS[0])[-1].mean((0, 1))
    assert attribution(classifier, TEXTS[0], "attention-mean").scores == pytest.approx(twin.numpy(), abs=1e-7)


@pytest.mark.parametrize("family", ["bart", "t5"])
def test_an_encoder_decoder_reads_its_cross_attention_at_the_end(family: str) -> None:
    classifier = shared(family)
    twin = reported(classifier, TEXTS[0])[-1].mean(0)[-1]  # the last matrix is the last layer's cross attention
    assert attribution(classifier, TEXTS[0], "attention-mean").scores == pytest.approx(twin.numpy(), abs=1e-7)


def test_decoder_attention_is_moved_back_to_the_tokens() -> None:
    classifier = shared("bart")
    row = reported(classifier, TEXTS[0])[-2].mean(0)[-1].numpy()
    found = attribution(classifier, TEXTS[0], AttentionMean(kind="decoder"))
    assert found.scores == pytest.approx([*row[1:], 0.0], abs=1e-7)


def test_encoder_attention_has_no_pooled_row_in_an_encoder_decoder() -> None:
    with pytest.raises(Unsupported, match=r"tiny-bart pools a decoder position.*attention-received"):
        explain(shared("bart"), TEXTS[0], AttentionMean(kind="encoder"))


def test_encoder_attention_can_be_received_in_an_encoder_decoder() -> None:
    classifier = shared("bart")
    twin = reported(classifier, TEXTS[0])[1].mean((0, 1)).numpy()
    found = attribution(classifier, TEXTS[0], method("attention-received", {"kind": "encoder"}))
    assert found.scores == pytest.approx(twin, abs=1e-7)


@pytest.mark.parametrize("kind", ["self", "decoder", "cross"])
def test_every_kind_of_attention_of_an_encoder_decoder_can_be_had(kind: str) -> None:
    found = explain(shared("bart"), TEXTS[0], method("attention-weights", {"kind": kind}))
    assert isinstance(found, Interaction)
    offset = {"self": (0, 1), "decoder": (2, 4), "cross": (3, 5)}[kind]
    twin = np.stack([reported(shared("bart"), TEXTS[0])[i].numpy() for i in offset])
    assert found.weights == pytest.approx(twin, abs=1e-6)


def test_a_kind_that_the_model_lacks_is_refused() -> None:
    with pytest.raises(BadInput, match="tiny-bert has no cross attention; use self"):
        explain(shared("bert"), TEXTS[0], AttentionMean(kind="cross"))


@pytest.mark.parametrize("layer", [0, 1, -1, -2])
def test_a_layer_can_be_chosen(layer: int) -> None:
    twin = reported(shared("bert"), TEXTS[0])[layer].mean(0)[0]
    assert attribution(shared("bert"), TEXTS[0], AttentionMean(layer=layer)).scores == pytest.approx(
        twin.numpy(), abs=1e-7
    )


def test_all_layers_are_their_mean() -> None:
    twin = torch.stack(reported(shared("bert"), TEXTS[0])).mean((0, 1))[0]
    assert attribution(shared("bert"), TEXTS[0], AttentionMean(layer="all")).scores == pytest.approx(
        twin.numpy(), abs=1e-7
    )


def test_a_layer_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BadInput, match=r"layer 2 is not one of 0 … 1"):
        explain(shared("bert"), TEXTS[0], AttentionMean(layer=2))


def test_received_is_the_mean_column() -> None:
    twin = reported(shared("gpt2"), TEXTS[0])[-1].mean((0, 1)).numpy()
    assert attribution(shared("gpt2"), TEXTS[0], "attention-received").scores == pytest.approx(twin, abs=1e-7)


def test_rollout_multiplies_the_layers() -> None:
    first, second = (0.5 * a.mean(0).numpy() + 0.5 * np.eye(a.shape[-1]) for a in reported(shared("bert"), TEXTS[0]))
    assert attribution(shared("bert"), TEXTS[0], "rollout").scores == pytest.approx((second @ first)[0], abs=1e-7)


def test_rollout_has_nothing_to_multiply_where_there_is_one_query() -> None:
    with pytest.raises(Unsupported, match="tiny-bilstm has one query"):
        explain(shared("bilstm"), TEXTS[0], "rollout")


@pytest.mark.parametrize("family", [f for f in FAMILIES if f != "modernbert"])
def test_effective_attention_gives_the_models_own_output(family: str) -> None:
    """A⊥ V = A V at the pooled row, with the values that the model multiplies."""
    classifier = shared(family)
    reading = classifier.read(classifier.batch([classifier.tokens(TEXTS[0])]), values=True)
    site = reading.layers(classifier.main_kind)[-1]
    keys = site.allowed[0, 0, int(reading.pooled[0].argmax())]
    row = reading.weights[site][0, :, int(reading.pooled[0].argmax())][:, None, keys].detach().double()
    values = reading.values[site][0][:, keys].detach().double()
    effective = effective_attention(row, values, torch.finfo(torch.float32).eps)
    assert torch.allclose(effective @ values, row @ values, atol=1e-5)
    found = attribution(classifier, TEXTS[0], "effective-attention").scores[keys.numpy()]
    assert found == pytest.approx(effective.mean((0, 1)).numpy(), abs=1e-7)


def test_effective_attention_differs_where_a_text_is_longer_than_a_head_is_wide() -> None:
    classifier = shared("bert")  # heads of width 8, 18 tokens
    raw, effective = (
        attribution(classifier, TEXTS[0], name).scores for name in ("attention-mean", "effective-attention")
    )
    assert np.abs(raw - effective).max() > 1e-3


@pytest.mark.parametrize("family", ["bert", "gpt2", "bart", "t5", "bilstm", "modernbert"])
@pytest.mark.parametrize("layer", [0, -1])
def test_attention_gradient_is_the_derivative_of_scaling_the_attention_to_a_token(family: str, layer: int) -> None:
    classifier = build(family)
    classifier.model.double()
    tokens = classifier.tokens("not funny but good")
    batch = classifier.batch([tokens])
    kind = classifier.main_kind
    layers = [i for k, i in classifier.sites if k == kind]
    step = 1e-3 if family in ("t5", "modernbert") else 1e-5

    def value(key: int, factor: float) -> float:
        scale = torch.ones(len(tokens), dtype=torch.float64)
        scale[key] = factor

        def edit(site: Site, weights: Tensor) -> Tensor:
            return (weights * scale).to(weights.dtype)

        with torch.no_grad(), classifier.attention(edits.at(edit, [layers[layer]], kind)):
            return float(classifier.logits(batch)[0, 1])

    twin = [(value(k, 1 + step) - value(k, 1 - step)) / (2 * step) for k in range(len(tokens))]
    found = attribution(classifier, "not funny but good", method("attention-gradient", {"layer": layer}))
    loose = family in ("t5", "modernbert")
    assert found.scores == pytest.approx(twin, rel=1e-2 if loose else 1e-6, abs=1e-3 if loose else 1e-8)


# gradients


class Answer(nn.Module):
    """One logit as a function of token ids, for captum."""

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.model = classifier.model

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        out: Tensor = self.model(input_ids=ids, attention_mask=mask).logits[:, 1]
        return out


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra"])
@pytest.mark.parametrize("steps", [5, 20])
def test_integrated_gradients_are_captums(family: str, steps: int) -> None:
    classifier = shared(family)
    tokens = classifier.tokens(TEXTS[0])
    ids = torch.tensor([tokens.ids])
    mask_id = classifier.tokenizer.mask_token_id
    base = torch.tensor([[i if s else mask_id for i, s in zip(tokens.ids, tokens.special, strict=True)]])
    captum = LayerIntegratedGradients(Answer(classifier), classifier.model.get_input_embeddings())
    theirs = captum.attribute(
        ids, base, additional_forward_args=torch.ones_like(ids), n_steps=steps, method="gausslegendre"
    )
    ours = attribution(classifier, TEXTS[0], IntegratedGradients(steps=steps))
    assert ours.scores == pytest.approx(theirs[0].sum(-1).detach().numpy(), abs=1e-5)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_integrated_gradients_from_zero_are_captums(family: str) -> None:
    classifier = shared(family)
    tokens = classifier.tokens(TEXTS[0])
    vectors = classifier.model.get_input_embeddings()(torch.tensor([tokens.ids])).detach()
    base = torch.where(torch.tensor(tokens.special)[None, :, None], vectors, 0.0)

    def answer(v: Tensor) -> Tensor:
        return torch.stack([classifier.model(inputs_embeds=row[None]).logits[0, 1] for row in v])

    theirs = CaptumIG(answer).attribute(vectors, base, n_steps=20, method="gausslegendre")
    ours = attribution(classifier, TEXTS[0], IntegratedGradients(steps=20, baseline="zero"))
    assert ours.scores == pytest.approx(theirs[0].sum(-1).detach().numpy(), abs=1e-5)


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_gradient_times_input_is_captums(family: str) -> None:
    classifier = shared(family)
    ids = torch.tensor([classifier.tokens(TEXTS[0]).ids])
    captum = LayerGradientXActivation(Answer(classifier), classifier.model.get_input_embeddings())
    theirs = captum.attribute(ids, additional_forward_args=torch.ones_like(ids))
    ours = attribution(classifier, TEXTS[0], "gradient-x-input")
    assert ours.scores == pytest.approx(theirs[0].sum(-1).detach().numpy(), abs=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", ["logit", "probability"])
def test_integrated_gradients_are_complete(family: str, scale: Any) -> None:
    found = attribution(shared(family), TEXTS[1], IntegratedGradients(steps=128), Target(1, scale))
    assert found.base is not None
    value = found.prediction.logits[1] if scale == "logit" else (found.prediction.probabilities or ())[1]
    assert found.gap == pytest.approx(value - found.base - found.scores.sum(), abs=1e-5)
    assert abs(found.gap or 0.0) < 0.05 * max(0.1, np.abs(found.scores).sum())


@pytest.mark.parametrize(("name", "reduce"), [
    ("gradient-mean", lambda e, g: g.mean(-1)),
    ("gradient-l1", lambda e, g: g.abs().sum(-1)),
    ("gradient-l2", lambda e, g: g.norm(dim=-1)),
    ("gradient-x-input", lambda e, g: (e * g).sum(-1)),
    ("gradient-x-vocabulary", lambda e, g: g @ shared("gpt2").model.get_input_embeddings().weight.sum(0)),
])  # fmt: skip
def test_gradients_are_those_of_the_word_vectors(name: str, reduce: Any) -> None:
    classifier = shared("gpt2")
    ids = torch.tensor([classifier.tokens(TEXTS[0]).ids])
    vectors = classifier.model.get_input_embeddings()(ids).detach().requires_grad_()
    slope = torch.autograd.grad(classifier.model(inputs_embeds=vectors).logits[0, 1], vectors)[0]
    twin = reduce(vectors[0], slope[0]).detach().numpy()
    assert attribution(classifier, TEXTS[0], name).scores == pytest.approx(twin, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("family", EVERY)
def test_word_vectors_are_those_that_the_model_uses(family: str) -> None:
    classifier = shared(family)
    batch = classifier.batch([classifier.tokens(TEXTS[0])])
    used: list[Tensor] = []
    with torch.no_grad(), classifier.embeddings(lambda vectors: used.append(vectors) or vectors):  # type: ignore[func-returns-value]
        classifier.logits(batch)
    assert torch.equal(word_vectors(classifier, batch), used[0])


@pytest.mark.parametrize("family", ["bert", "gpt2", "bart", "bilstm"])
def test_holding_attention_differentiates_the_model_with_its_attention_fixed(family: str) -> None:
    classifier = build(family)
    classifier.model.double()
    tokens = classifier.tokens("not funny but good")
    batch = classifier.batch([tokens])
    with torch.no_grad(), classifier.attention() as seen:
        classifier.logits(batch)
    fixed = edits.replaced(seen[0])
    step = 1e-6

    def value(token: int, factor: float) -> float:
        def scale(vectors: Tensor) -> Tensor:
            changed = vectors.clone()
            changed[:, token] *= factor
            return changed

        with torch.no_grad(), classifier.attention(fixed), classifier.embeddings(scale):
            return float(classifier.logits(batch)[0, 1])

    twin = [(value(t, 1 + step) - value(t, 1 - step)) / (2 * step) for t in range(len(tokens))]
    held = attribution(classifier, "not funny but good", method("gradient-x-input", {"through_attention": False}))
    through = attribution(classifier, "not funny but good", "gradient-x-input")
    assert held.scores == pytest.approx(twin, rel=1e-5, abs=1e-7)
    assert np.abs(held.scores - through.scores).max() > 1e-4


@pytest.mark.parametrize("through", [False, True])
def test_the_gradient_of_states_is_that_of_what_attention_weighs(through: bool) -> None:
    classifier = build("bilstm")
    net = classifier.model.double()
    tokens = classifier.tokens(TEXTS[0])
    text = net.encoded(torch.tensor([tokens.ids]), None, None)
    leaf = text.states.detach().requires_grad_()
    alpha = net.score(replace(text, states=leaf)).softmax(-1)
    logit = net.decoder(((alpha if through else alpha.detach())[..., None] * leaf).sum(1))[0, 1]
    twin = torch.autograd.grad(logit, leaf)[0][0].sum(-1).detach().numpy()
    found = attribution(classifier, TEXTS[0], method("gradient-states", {"through_attention": through}))
    assert found.scores == pytest.approx(twin, rel=1e-6)
    ratio = found.scores / attribution(classifier, TEXTS[0], "attention-mean").scores
    assert (np.ptp(ratio) < 1e-9) == (not through)  # with attention constant, all words share one factor


def test_states_are_those_of_the_passage_and_refused_by_name_elsewhere() -> None:
    answered = stories.stories(1)[0]
    found = explain(stories.loud(), answered.text, "gradient-states", pair=answered.pair)
    assert isinstance(found, Attribution)
    places = zip(found.tokens.segments, found.tokens.special, strict=True)
    assert found.scores.astype(bool).tolist() == [segment == 0 and not special for segment, special in places]
    with pytest.raises(Unsupported, match=r"tiny-bert \(BertForSequenceClassification\): a Bert.* has no encoder"):
        explain(shared("bert"), TEXTS[0], "gradient-states")


def test_a_gradient_mean_that_is_noise_says_so() -> None:
    noisy = attribution(shared("bert"), TEXTS[0], GradientMean())
    assert noisy.notes == ("rounding noise: the model normalises its word vectors, so their gradients add up to zero",)
    assert not attribution(shared("bilstm"), TEXTS[0], GradientMean()).notes


@pytest.mark.parametrize(("baseline", "note"), [("mask", "mask token"), ("pad", "pad token"), ("zero", "zero vectors")])
def test_baselines(baseline: Any, note: str) -> None:
    classifier = shared("bert")
    found = attribution(classifier, TEXTS[0], IntegratedGradients(steps=64, baseline=baseline))
    assert found.notes == (f"baseline: {note}",)
    if baseline != "zero":
        tokens = found.tokens
        fill = getattr(classifier.tokenizer, f"{baseline}_token_id")
        ids = [i if s else fill for i, s in zip(tokens.ids, tokens.special, strict=True)]
        with torch.no_grad():
            answer = classifier.model(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids))).logits
        assert found.base == pytest.approx(float(answer[0, 1]), abs=1e-5)


def test_the_automatic_baseline_is_zero_without_a_mask_token() -> None:
    assert attribution(shared("gpt2"), TEXTS[0], "ig").notes == ("baseline: zero vectors",)


def test_a_baseline_that_the_tokenizer_lacks_is_refused() -> None:
    with pytest.raises(BadInput, match=r"the tokenizer of tiny-gpt2 has no mask token; use baseline=zero\."):
        explain(shared("gpt2"), TEXTS[0], IntegratedGradients(baseline="mask"))


def test_special_tokens_have_no_integrated_gradient() -> None:
    found = attribution(shared("bert"), TEXTS[0], "integrated-gradients")
    assert not found.scores[list(found.tokens.special)].any()


def test_a_saturated_model_is_explained_with_zeros_not_with_nan() -> None:
    classifier = build("bert")
    with torch.no_grad():
        classifier.model.classifier.weight.mul_(1e6)
    found = attribution(classifier, TEXTS[0], "gradient-l2", Target(scale="probability"))
    assert not found.scores.any()
    assert not found.strengths().any()


def test_integrated_gradients_with_attention_held_say_that_they_need_not_add_up() -> None:
    held = attribution(shared("bert"), TEXTS[0], IntegratedGradients(through_attention=False))
    assert held.notes[1:] == (
        "attention was constant, so the scores need not add up: the gap is not due to the number of steps",
    )


# controls


def test_random_depends_on_the_seed_and_the_text_alone() -> None:
    one, other = (explain(shared(f), TEXTS[0], "random", seed=1) for f in ("bert", "electra"))
    assert isinstance(one, Attribution)
    assert isinstance(other, Attribution)
    assert np.array_equal(one.scores, other.scores)
    again = attribution(shared("bert"), TEXTS[0], "random")
    assert not np.array_equal(one.scores, again.scores)


def test_uniform_and_position_are_what_they_say() -> None:
    uniform, position = (attribution(shared("bert"), "good film", name) for name in ("uniform", "position"))
    content = list(uniform.tokens.content)
    assert uniform.scores[content] == pytest.approx(np.full(len(content), 1 / len(content)))
    assert position.scores[content].tolist() == sorted(position.scores[content], reverse=True)


# the catalogue


@pytest.mark.parametrize(("alias", "name"), [
    ("ig", "integrated-gradients"), ("IG", "integrated-gradients"), ("integrated_gradients", "integrated-gradients"),
    ("saliency", "gradient-l2"), ("input-x-gradient", "gradient-x-input"), ("input_x_gradient", "gradient-x-input"),
    ("attention_rollout", "rollout"),
])  # fmt: skip
def test_aliases(alias: str, name: str) -> None:
    assert METHODS[alias] is METHODS[name]
    assert alias in METHODS


def test_an_unknown_method_suggests_the_nearest() -> None:
    with pytest.raises(
        BadInput, match=r"^method 'integrated-gradiens' is not known; did you mean 'integrated-gradients'\?"
    ):
        method("integrated-gradiens")


def test_an_unknown_setting_lists_the_known() -> None:
    with pytest.raises(BadInput, match="rollout has no setting 'layer'; known are: none"):
        method("rollout", {"layer": 1})


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_what_it_is_and_where_it_comes_from(name: str) -> None:
    assert METHODS[name].summary
    assert METHODS[name].paper


def test_the_standard_profile_is_what_the_methods_say() -> None:
    standard = {name: cls.standard for name, cls in METHODS.items() if getattr(cls, "standard", None) is not None}
    assert {name: values for name, values in standard.items() if values} == {
        "lime": {"samples": 200},
        "shapley": {"samples": 200, "exact_up_to": 7},
    }
    assert len(standard) == 19


def test_the_verdict_is_on_the_methods_that_say_that_they_read_attention() -> None:
    """The verdict module needs no torch, so it has a list of names."""
    assert {name for name, cls in METHODS.items() if getattr(cls, "reads_attention", False)} == set(ATTENTION_METHODS)


@pytest.mark.parametrize("name", [name for name in METHODS if not hasattr(METHODS[name], "applies")])
def test_a_method_says_whether_it_scores_tokens(name: str) -> None:
    found = explain(shared("bert"), "good film", method(name, getattr(METHODS[name], "probe", None)))
    assert isinstance(found, Attribution) == getattr(METHODS[name], "scores_tokens", True)


# a network whose only query is its first token


def rows_by_hand(classifier: Classifier, text: str) -> np.ndarray[Any, Any]:
    """α of every head, query and key, one number at a time."""
    net, ids = classifier.model, list(classifier.tokens(text).ids)
    n, shape = len(ids), net.config
    ids += [] if shape.masked else [shape.pad_token_id] * (shape.max_position_embeddings - n)
    e = (net.words.weight[ids] + net.positions[: len(ids)]).detach().double().numpy()
    found = np.zeros((shape.heads, n, n))
    for head in range(shape.heads):
        query, key = (m[head].detach().double().numpy() for m in (net.query, net.key))
        for q in range(n):
            scores = [float((query @ e[q]) @ (key @ e[k])) / shape.attention**0.5 for k in range(len(ids))]
            masses = [math.exp(s - max(scores)) for s in scores]
            found[head, q] = [mass / sum(masses) for mass in masses[:n]]
    return found


@pytest.mark.parametrize("masked", [True, False])
def test_every_token_is_a_query_of_the_weights(masked: bool) -> None:
    classifier = multihead(masked=masked)
    why = explain(classifier, TEXTS[0], "attention-weights")
    assert isinstance(why, Interaction)
    np.testing.assert_allclose(why.weights[0], rows_by_hand(classifier, TEXTS[0]), atol=1e-6)
    assert (why.weights[0].sum(-1) < 0.99).all() != masked
    assert why.notes == (FIRST_ROW_ONLY,)


def test_the_first_row_of_the_weights_is_the_one_that_other_methods_read() -> None:
    classifier = shared("multihead")
    weights, most = explain(classifier, TEXTS[0], ["attention-weights", "attention-max"])
    assert isinstance(weights, Interaction)
    assert isinstance(most, Attribution)
    assert np.array_equal(weights.weights[0, :, 0].max(0), most.scores.astype(np.float32))


def test_a_vector_as_the_first_token_attends_as_its_row_says() -> None:
    """The network's own forward pass with token q's vector in the place of the query: an outside reference."""
    classifier = shared("multihead")
    tokens = classifier.tokens(TEXTS[0])
    ids, net = torch.tensor([tokens.ids]), classifier.model
    every = net.all_queries(ids).detach()
    q = 4

    def swap(vectors: torch.Tensor) -> torch.Tensor:
        moved = vectors.clone()
        moved[0, 0] = vectors[0, q] + net.positions[q] - net.positions[0]
        return moved

    with classifier.embeddings(swap), classifier.attention() as seen, torch.no_grad():
        classifier.logits(classifier.batch([tokens]))
    (read,) = seen[0].values()
    others, twin = read[0, :, 0, 1:], every[0, :, q, 1:]  # the key of the first place is another too
    np.testing.assert_allclose(others / others.sum(-1, keepdim=True), twin / twin.sum(-1, keepdim=True), atol=1e-6)


# gradient × input with positions


def test_a_product_with_positions_is_what_stretching_the_input_adds() -> None:
    """e_t · ∇f = d f / d s where e_t is multiplied by s, for a network with a factor on its word vectors."""
    shape = TransformerShape(len(tokenizer("wordpiece")), 2, layers=1, heads=2, width=8, inner=12)
    net = Transformer(shape).double()
    loud(net)
    classifier = Classifier(net, tokenizer("wordpiece"), name="tiny-transformer")
    why = attribution(classifier, TEXTS[1], method("gradient-x-input", {"positions": True}))
    ids = torch.tensor([why.tokens.ids])

    def value(t: int, factor: float) -> float:
        def stretch(_: Any, args: Any) -> Any:
            x = args[0].clone()
            x[:, t] *= factor
            return (x,)

        hook = net.dropout.register_forward_pre_hook(stretch)
        with torch.no_grad():
            logit = float(net(ids).logits[0, 1])
        hook.remove()
        return logit

    twin = [(value(t, 1 + 1e-5) - value(t, 1 - 1e-5)) / 2e-5 for t in range(len(why.tokens))]
    assert why.scores == pytest.approx(twin, abs=1e-7)
    assert why.scores != pytest.approx(attribution(classifier, TEXTS[1], "gradient-x-input").scores, abs=1e-3)


def test_products_with_positions_conform() -> None:
    assert conforms(method("gradient-x-input", {"positions": True}), shared("multihead"))


@pytest.mark.parametrize("family", ["bert", "bilstm"])
def test_positions_that_a_model_does_not_declare_are_refused(family: str) -> None:
    with pytest.raises(Unsupported, match=f"tiny-{family} declares no positions that it adds to its word vectors"):
        explain(shared(family), TEXTS[0], "gradient-x-input", positions=True)
