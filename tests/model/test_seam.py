"""The seam on every family: it reads what the model reports, edits what it says, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from heedful.core.errors import BadInput, Unsupported
from heedful.maths.formulas import null_projection
from heedful.methods.conformance import snapshot
from heedful.model import edits, probes
from heedful.model.batch import Batch
from heedful.model.classifier import Classifier
from heedful.model.edits import Edit, Site
from tests.support.models import EVERY, FAMILIES, SINGLE, TEXTS, build, shared, skip_where_fused_differs

CAUSAL = ("gpt2", "llama", "qwen3", "gemma2", "mistral", "bloom", "falcon")


def padded(classifier: Classifier) -> Batch:
    """Two texts of different lengths: there is padding to respect."""
    return classifier.batch([classifier.tokens(TEXTS[0]), classifier.tokens(TEXTS[1])])


def every_edit(batch: Batch) -> dict[str, Edit]:
    gone = torch.zeros_like(batch.mask, dtype=torch.bool)
    gone[:, 1] = True
    return {
        "uniform": edits.uniform,
        "permuted": edits.permuted(torch.Generator().manual_seed(0)),
        "permuted together": edits.permuted(torch.Generator().manual_seed(0), together=True),
        "scaled": edits.scaled(0.5),
        "without heads": edits.without_heads({0: [1 if batch.ids.shape[1] else 0]}),
        "without positions": edits.without_positions(gone),
        "replaced": lambda site, w: edits.replaced({site: w.flip(1)})(site, w),
        "then": edits.then(edits.uniform, edits.scaled(0.3)),
    }


@pytest.mark.parametrize("family", EVERY)
def test_an_edit_that_changes_nothing_leaves_the_logits_bit_equal(family: str) -> None:
    classifier = shared(family)
    batch = padded(classifier)
    with torch.no_grad():
        with classifier.attention():
            plain = classifier.logits(batch)
        with classifier.attention(lambda site, w: w.clone()):
            assert torch.equal(classifier.logits(batch), plain)


@pytest.mark.parametrize("family", EVERY)
def test_eager_attention_is_the_attention_that_the_model_runs_with(family: str) -> None:
    skip_where_fused_differs(family)
    classifier = shared(family)
    batch = padded(classifier)
    with torch.no_grad():
        plain = classifier.logits(batch)
        with classifier.attention():
            torch.testing.assert_close(classifier.logits(batch), plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", EVERY)
def test_the_weights_seen_are_those_that_the_model_reports(family: str) -> None:
    classifier = build(family)
    batch = padded(classifier)
    with torch.no_grad(), classifier.attention() as seen, classifier._padding_token(batch) as ids:
        out = classifier.model(**classifier.inputs(batch, ids), output_attentions=True)
    if getattr(out, "cross_attentions", None):
        reported = [*out.encoder_attentions]
        for own, cross in zip(out.decoder_attentions, out.cross_attentions, strict=True):
            reported += [own, cross]
    else:
        reported = list(out.attentions)
    assert len(reported) == len(seen[0]) == len(classifier.sites)
    assert all(torch.equal(w.to(t.dtype), t) for w, t in zip(seen[0].values(), reported, strict=True))


@pytest.mark.parametrize("family", EVERY)
def test_attention_can_point_at_every_token_of_a_text(family: str) -> None:
    classifier = shared(family)
    text = classifier.tokens(TEXTS[0])
    with torch.no_grad(), classifier.attention() as seen:
        classifier.logits(classifier.batch([text]))
    allowed = [site.allowed[0].any(0).any(0) for site in seen[0] if site.allowed.shape[-1] == len(text)]
    assert classifier.attended(text).nonzero()[0].tolist() == list(text.content)
    assert all(bool(keys[list(text.content)].all()) for keys in allowed)


@pytest.mark.parametrize("family", EVERY)
def test_edits_move_the_logits(family: str) -> None:
    classifier = shared(family)
    batch = padded(classifier)
    with torch.no_grad():
        plain = classifier.logits(batch)
        for name, edit in every_edit(batch).items():
            if name in ("replaced", "without heads") and family == "bilstm":
                continue  # one head: nothing to flip or to choose
            if name == "scaled" and family == "gemma2":
                continue  # a norm follows its attention and takes any factor out again
            with classifier.attention(edit):
                moved = (classifier.logits(batch) - plain).abs().max()
            assert moved > 1e-4, f"{name} moved the logits by {moved:.1e}"


@pytest.mark.parametrize("family", EVERY)
def test_no_edit_reads_what_is_masked(family: str) -> None:
    classifier = shared(family)
    batch = padded(classifier)
    for name, edit in every_edit(batch).items():
        if name == "without heads" and family == "bilstm":
            continue
        with torch.no_grad(), classifier.attention(edit) as seen:
            classifier.logits(batch)
        for site, weights in seen[0].items():
            readable = site.allowed.any(-1, keepdim=True)
            assert not (weights * (~site.allowed & readable)).any(), f"{name} at {site}"


@pytest.mark.parametrize("family", EVERY)
def test_allowed_is_the_padding_mask_and_for_decoders_the_causal_mask(family: str) -> None:
    classifier = shared(family)
    batch = padded(classifier)
    with torch.no_grad(), classifier.attention() as seen:
        classifier.logits(batch)
    real = batch.mask.bool()[:, None, None, :]
    for site in seen[0]:
        queries, keys = site.allowed.shape[-2:]
        if site.kind == "decoder":
            expected = torch.ones(queries, keys).tril().bool().expand_as(site.allowed)
        elif family in CAUSAL:
            expected = (real & torch.ones(queries, keys).tril().bool()).expand_as(site.allowed)
        else:
            expected = real.expand_as(site.allowed)
        asked = batch.mask.bool()[:, None, :, None] if queries == keys else torch.ones(1, 1, 1, 1).bool()
        local = family in ("modernbert", "gemma2", "mistral") or family == "xlnet"
        wrong = site.allowed & ~expected if local else site.allowed ^ expected
        if family == "xlnet":  # every token may also see itself, padded or not
            wrong &= ~torch.eye(queries).bool()
        assert not (wrong & asked).any(), site


@pytest.mark.parametrize("family", EVERY)
def test_uniform_is_uniform_over_what_a_row_may_see(family: str) -> None:
    classifier = shared(family)
    with torch.no_grad(), classifier.attention(edits.uniform) as seen:
        classifier.logits(padded(classifier))
    for site, weights in seen[0].items():
        twin = torch.zeros_like(weights)
        for b in range(weights.shape[0]):
            for q in range(weights.shape[2]):
                keys = site.allowed[b, 0, q].nonzero()[:, 0]
                twin[b, :, q, keys] = 1 / max(1, len(keys))
        torch.testing.assert_close(weights, twin)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("family", EVERY)
def test_permuting_keeps_each_rows_weights(family: str, together: bool) -> None:
    classifier = shared(family)
    batch = padded(classifier)
    pairs: list[tuple[Tensor, Tensor]] = []

    def watched(site: Site, weights: Tensor) -> Tensor:
        pairs.append((weights, edits.permuted(torch.Generator().manual_seed(1), together)(site, weights)))
        return weights

    with torch.no_grad(), classifier.attention(watched) as seen:
        classifier.logits(batch)
    for (before, after), site in zip(pairs, seen[0], strict=True):
        rows = site.allowed.any(-1).expand(before.shape[:-1])
        assert torch.equal(before.sort(-1).values[rows], after.sort(-1).values[rows])


@pytest.mark.parametrize("n", [1, 2, 60, 300])
def test_a_random_order_is_a_stable_argsort(n: int) -> None:
    """Where numbers are equal, too, as some of 24 bits are in every long row."""
    rng = torch.Generator().manual_seed(n)
    numbers = torch.rand(3, 40, n, generator=rng)
    numbers[0] = (numbers[0] * 8).floor() / 8
    numbers[0, 0, 0], numbers[0, 0, -1] = 0.0, 1 - 2.0**-24
    allowed = torch.rand(3, 40, n, generator=rng) < 0.7
    assert torch.equal(edits.random_order(numbers), numbers.argsort(dim=-1, stable=True))
    last = numbers.masked_fill(~allowed, torch.inf)
    assert torch.equal(edits.random_order(numbers, allowed), last.argsort(dim=-1, stable=True))


def test_one_order_serves_every_row_when_permuted_together() -> None:
    allowed = torch.ones(2, 1, 3, 4).bool()
    weights = torch.arange(4.0).expand(2, 2, 3, 4).contiguous()
    out = edits.permuted(torch.Generator().manual_seed(0), together=True)(Site("self", 0, allowed), weights)
    assert len(torch.unique(out.reshape(-1, 4), dim=0)) == 1


@pytest.mark.parametrize("family", EVERY)
def test_the_gradient_with_respect_to_injected_weights_is_that_of_finite_differences(family: str) -> None:
    classifier = build(family)
    classifier.model.double()
    batch = classifier.batch([classifier.tokens("not funny")])
    with classifier.attention(edits.leaf) as seen:
        classifier.logits(batch)
    original = {site: w.detach() for site, w in seen[0].items()}
    step, close = _step(family, 1e-5)
    uneven = torch.tensor([1.0, -0.5, 0.25], dtype=torch.float64)

    def value(weights: dict[Site, Tensor]) -> Tensor:
        with classifier.attention(edits.replaced(weights)):
            return (classifier.logits(batch)[0] * uneven).sum()

    with classifier.attention(edits.leaf) as seen:
        slopes = torch.autograd.grad((classifier.logits(batch)[0] * uneven).sum(), list(seen[0].values()))
    for site, slope in zip(original, slopes, strict=True):
        direction = (
            torch.randn(slope.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * site.allowed
        )
        with torch.no_grad():
            up, down = (value(original | {site: original[site] + s * step * direction}) for s in (1, -1))
        torch.testing.assert_close((slope * direction).sum(), (up - down) / (2 * step), **close)


@pytest.mark.parametrize("family", EVERY)
def test_the_gradient_with_respect_to_word_vectors_is_that_of_finite_differences(family: str) -> None:
    classifier = build(family)
    classifier.model.double()
    batch = classifier.batch([classifier.tokens("not funny"), classifier.tokens("not good")])
    vectors: list[Tensor] = []

    def grow(v: Tensor) -> Tensor:
        vectors.append(v.detach().clone().requires_grad_())
        return vectors[0]

    with classifier.embeddings(grow):
        slope = torch.autograd.grad(classifier.logits(batch)[:, 0].sum(), vectors)[0]
    direction = torch.randn(slope.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    step, close = _step(family, 1e-6)

    def value(sign: int) -> Tensor:
        with torch.no_grad(), classifier.embeddings(lambda v: v + sign * step * direction):
            return classifier.logits(batch)[:, 0].sum()

    torch.testing.assert_close((slope * direction).sum(), (value(1) - value(-1)) / (2 * step), **close)


# families whose own code computes a norm or a softmax in float32 even when the model is in float64
FLOAT32_INSIDE = ("llama", "qwen3", "gemma2", "mistral", "bloom", "t5", "deberta", "modernbert")


def _step(family: str, exact: float) -> tuple[float, dict[str, Any]]:
    """The step of a finite difference, and how close the gradient must come."""
    if family in FLOAT32_INSIDE:
        return 3e-4, {"rtol": 1e-2, "atol": 3e-3}
    return exact, {"rtol": 1e-5, "atol": 1e-7}


@pytest.mark.parametrize("family", EVERY)
def test_the_model_is_restored_after_an_error(family: str) -> None:
    classifier = build(family)
    classifier.model.train()
    before = snapshot(classifier)
    batch = padded(classifier)

    def fail(site: Site, weights: Tensor) -> Tensor:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), classifier.attention(fail):
        classifier.logits(batch)
    assert snapshot(classifier) == before


@pytest.mark.parametrize("family", EVERY)
def test_padding_and_company_do_not_change_an_answer(family: str) -> None:
    classifier = shared(family)
    texts = [classifier.tokens(text) for text in TEXTS]
    with torch.no_grad():
        alone = torch.cat([classifier.logits(classifier.batch([t])) for t in texts])
        together = classifier.logits(classifier.batch(texts))
    torch.testing.assert_close(alone, together, rtol=1e-4, atol=1e-5)


EXPECTED_POOL: dict[str, Callable[[int], list[int]]] = {
    **dict.fromkeys(FAMILIES, lambda n: [0]),
    **dict.fromkeys(
        ("gpt2", "llama", "qwen3", "gemma2", "mistral", "bloom", "falcon", "t5", "bart", "xlnet"), lambda n: [n - 1]
    ),
    "modernbert": lambda n: list(range(n)),
    **dict.fromkeys(SINGLE, lambda n: [0]),
}


@pytest.mark.parametrize("family", EVERY)
def test_the_pooled_position_is_found(family: str) -> None:
    classifier = shared(family)
    for text in TEXTS:
        batch = classifier.batch([classifier.tokens(text)])
        pooled = classifier.pooled(batch)[0]
        expected = EXPECTED_POOL[family](batch.ids.shape[1])
        assert pooled.nonzero()[:, 0].tolist() == expected
        torch.testing.assert_close(pooled[expected], torch.full((len(expected),), 1 / len(expected)))


@pytest.mark.parametrize("family", EVERY)
def test_a_branched_batch_answers_like_copies(family: str) -> None:
    classifier = shared(family)
    batch = classifier.batch([classifier.tokens(TEXTS[0])])
    last = classifier.sites[-1][1]
    factor = torch.tensor([0.0, 0.5, 1.0])[:, None, None, None]
    edit = edits.at(edits.scaled(factor), layers=[last], kind="self")
    with torch.no_grad(), classifier.attention(edit):
        branched = classifier.logits(batch, branch=((last, 2),))
        copies = classifier.logits(batch.repeat(3))
    torch.testing.assert_close(branched, copies, rtol=1e-5, atol=1e-6)
    assert (copies[0] - copies[2]).abs().max() > 1e-4


def test_families_that_share_a_block_or_pool_by_the_input_fall_back_to_copies() -> None:
    branching = {family for family in FAMILIES if shared(family).can_branch}
    copying = {"albert", "gpt2", "llama", "qwen3", "gemma2", "mistral", "t5", "bart", "bloom", "falcon"}
    assert branching == set(FAMILIES) - copying


def test_branching_runs_the_layers_below_once() -> None:
    classifier = shared("bert")
    rows: list[int] = []

    def count(site: Site, weights: Tensor) -> Tensor:
        rows.append(len(weights))
        return weights

    with torch.no_grad(), classifier.attention(count):
        classifier.logits(classifier.batch([classifier.tokens(TEXTS[0])]), branch=((1, 4),))
    assert rows == [1, 5]


@pytest.mark.parametrize("family", EVERY)
def test_the_values_seen_are_those_that_the_weights_meet(family: str) -> None:
    """∂f/∂A = (∂f/∂context) Vᵀ: the gradient has no part in the left null space of the right values, only of those."""
    classifier = shared(family)
    batch = classifier.batch([classifier.tokens(TEXTS[2])])
    with classifier.attention(edits.tracked, values=True) as seen:
        logits = classifier.logits(batch)
    assert list(seen.values[0]) == list(seen[0])
    slopes = torch.autograd.grad(logits[0, 0], list(seen[0].values()))
    for slope, values in zip(slopes, seen.values[0].values(), strict=True):
        g, v = slope[0].double(), values[0].detach().double()
        assert v.shape[1] > v.shape[2], "the text must be longer than a head is wide"
        eps = torch.finfo(torch.float32).eps
        assert (g @ null_projection(v, eps)).abs().max() < 1e-3 * g.abs().max()
        assert (g @ null_projection(v.roll(1, 1), eps)).abs().max() > 1e-2 * g.abs().max()


def test_the_values_are_the_projected_states() -> None:
    classifier = shared("bert")
    kept: list[Tensor] = []
    project = classifier.model.bert.encoder.layer[1].attention.self.value
    hook = project.register_forward_hook(lambda m, a, out: kept.append(out))
    with torch.no_grad(), classifier.attention(values=True) as seen:
        classifier.logits(padded(classifier))
    hook.remove()
    values = seen.values[0][Site("self", 1)]
    assert torch.equal(values.transpose(1, 2).flatten(2), kept[0])


def test_attention_does_not_nest() -> None:
    classifier = shared("bert")
    nested = pytest.raises(RuntimeError, match=r"combine edits with heedful\.edits\.then$")
    with classifier.attention(), nested, classifier.attention():
        pass


def test_seen_keeps_each_forward_apart() -> None:
    classifier = shared("bert")
    batches = [classifier.batch([classifier.tokens(text)]) for text in TEXTS[:2]]
    with torch.no_grad(), classifier.attention() as seen:
        for batch in batches:
            classifier.logits(batch)
    assert [w[Site("self", 1)].shape[-1] for w in (seen[0], seen[1])] == [b.ids.shape[1] for b in batches]


def test_then_applies_the_first_edit_first() -> None:
    site = Site("self", 0, torch.tensor([[[[True, True, False]]]]))
    weights = torch.tensor([[[[0.9, 0.1, 0.0]]]])
    out = edits.then(edits.uniform, edits.scaled(0.5))(site, weights)
    assert out.tolist() == [[[[0.25, 0.25, 0.0]]]]


def test_erased_positions_are_renormalised_and_nothing_left_is_zero() -> None:
    site = Site("self", 0, torch.ones(2, 1, 1, 3).bool())
    weights = torch.tensor([0.5, 0.3, 0.2]).expand(2, 1, 1, 3)
    gone = torch.tensor([[True, False, False], [True, True, True]])
    out = edits.without_positions(gone)(site, weights)
    torch.testing.assert_close(out[0, 0, 0], torch.tensor([0.0, 0.6, 0.4]))
    assert not out[1].any()


def test_zeroed_heads_are_zero_and_others_untouched() -> None:
    weights = torch.rand(1, 3, 2, 2)
    out = edits.without_heads([(0, 1), (5, 0)])(Site("self", 0, torch.ones(1, 1, 2, 2).bool()), weights)
    assert not out[:, 1].any()
    assert torch.equal(out[:, [0, 2]], weights[:, [0, 2]])


def test_a_head_that_does_not_exist_is_an_error() -> None:
    classifier = shared("bert")
    with (
        pytest.raises(BadInput, match=r"layer 0 has heads 0 … 1, not \[7\]"),
        classifier.attention(edits.without_heads([(0, 7)])),
    ):
        classifier.logits(padded(classifier))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda s, w: w[:, :, :, 1:], "return the same shape and dtype"),
        (lambda s, w: w.double(), "return the same shape and dtype"),
        (lambda s, w: torch.ones_like(w), "leave zeros wherever site.allowed is False"),
    ],
)
def test_an_edit_that_breaks_the_contract_is_refused(edit: Edit, message: str) -> None:
    classifier = shared("bert")
    with pytest.raises(BadInput, match=message), classifier.attention(edit):
        classifier.logits(padded(classifier))


def test_gradient_checkpointing_is_off_inside_and_on_again_afterwards() -> None:
    classifier = build("bert")
    expected = _slope(classifier)
    classifier.model.gradient_checkpointing_enable()
    classifier.model.train()
    assert torch.equal(_slope(classifier), expected)
    assert classifier.model.is_gradient_checkpointing


def _slope(classifier: Classifier) -> Tensor:
    batch = classifier.batch([classifier.tokens(TEXTS[0])])
    with classifier.attention(edits.tracked) as seen:
        value = classifier.logits(batch)[0, 0]
    return torch.autograd.grad(value, seen[0][Site("self", 0)])[0]


@pytest.mark.usefixtures("bf16")
@pytest.mark.parametrize("family", ["bert", "gpt2", "bart", "t5", "modernbert", "mpnet"])
def test_the_seam_stays_bit_equal_in_bfloat16(family: str) -> None:
    classifier = build(family)
    classifier.model.bfloat16()
    batch = padded(classifier)
    with torch.inference_mode():
        with classifier.attention():
            plain = classifier.logits(batch)
        with classifier.attention(lambda site, w: w.clone()):
            assert torch.equal(classifier.logits(batch), plain)


def test_a_model_that_computes_weights_without_using_them_is_found_out() -> None:
    classifier = build("bert")
    attention = classifier.model.bert.encoder.layer[0].attention.self
    plain = attention.forward

    def deceiving(hidden: Tensor, *args: object, **kwargs: object) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(hidden), plain(hidden, *args, **kwargs)[1]

    attention.forward = deceiving
    with pytest.raises(Unsupported, match=r"tiny-bert .*do not reach its logits"), classifier.attention():
        pass


def test_a_new_self_check_is_made_for_each_model_not_each_use() -> None:
    classifier = build("bert")
    with classifier.attention():
        pass
    before = classifier.forwards
    with classifier.attention():
        pass
    assert classifier.forwards == before


def test_what_the_classifier_tries_out_is_not_seen_by_an_open_edit() -> None:
    classifier = build("bert")
    calls: list[Site] = []

    def count(site: Site, weights: Tensor) -> Tensor:
        calls.append(site)
        return weights

    def refuse(vectors: Tensor) -> Tensor:
        raise AssertionError("seen")

    with torch.no_grad(), classifier.embeddings(refuse), classifier.attention(count) as seen:
        assert classifier.padding == "right"
        assert classifier.can_branch
    assert not calls
    assert not len(seen)


@pytest.mark.parametrize("head", ["AutoModel", "AutoModelForMaskedLM", "AutoModelForTokenClassification"])
def test_a_model_without_a_classifier_is_refused(head: str) -> None:
    import transformers

    classifier = shared("bert")
    model = getattr(transformers, head).from_config(classifier.config)
    with pytest.raises(Unsupported, match=r"^Bert\w+ is not a sequence classifier; load one with"):
        Classifier(model, classifier.tokenizer)


def test_a_model_whose_eager_attention_answers_otherwise_is_found_out() -> None:
    classifier = build("bert")
    attention = classifier.model.bert.encoder.layer[0].attention.self
    plain = attention.forward

    def unlike(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        out, weights = plain(*args, **kwargs)
        return out * (1.0 if classifier.config._attn_implementation == "eager" else 2.0), weights

    attention.forward = unlike
    with pytest.raises(Unsupported, match=r"eager attention has other logits"), classifier.attention():
        pass


@pytest.mark.parametrize("family", EVERY)
def test_the_pooled_position_is_found_without_gradients(family: str) -> None:
    classifier = shared(family)
    if family in SINGLE:
        return  # one query
    batch = padded(classifier)
    pooled = classifier.pooled(batch)
    for i in range(len(batch)):
        assert torch.equal(probes._with_nan(classifier, batch.row(i)), pooled[i] > 0)


def test_a_saturated_head_still_tells_what_it_pools() -> None:
    classifier = build("bert")
    with torch.no_grad():
        classifier.model.bert.pooler.dense.weight.mul_(1e6)
    assert classifier.pooled(padded(classifier)).argmax(-1).tolist() == [0, 0]
