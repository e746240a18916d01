"""Weights that are packed int8, half precise or offloaded: what works is right, the rest is said in one sentence."""

from __future__ import annotations

import copy
import json
import re
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import AutoModelForSequenceClassification

import heedful
from heedful.audits.capabilities import Capabilities, capabilities
from heedful.checks.randomisation import copied
from heedful.core.errors import BadInput, Unsupported
from heedful.methods.conformance import changed_state, snapshot
from heedful.methods.explain import explain
from heedful.model import packed
from heedful.model.classifier import Classifier
from heedful.model.huggingface import ALIGNMENT_BYTES, model_fingerprint, state
from heedful.model.inference import answers, sharing
from heedful.model.loading import describe_classifier, load, restore_classifier
from heedful.model.masking import Variants
from tests.support.models import TEXTS, build, shared

GRADIENTS = r"it has no gradients \(14 of its layers hold packed int8 weights, which have no derivatives\); methods"


@cache
def int8(family: str = "bert") -> Classifier:
    """A tiny classifier whose linear layers torch has packed."""
    original = shared(family)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces that torchao will replace it
        quantize: Any = torch.ao.quantization.quantize_dynamic
        model = quantize(copy.deepcopy(original.model), {nn.Linear}, dtype=torch.qint8)
    return load((model, original.tokenizer))


def half(dtype: torch.dtype, family: str = "bert") -> Classifier:
    original = shared(family)
    return load((copy.deepcopy(original.model).to(dtype), original.tokenizer))


def offloaded(family: str = "bert") -> Classifier:
    accelerate = pytest.importorskip("accelerate")
    original = build(family)
    return load((accelerate.cpu_offload(original.model, torch.device("cpu")), original.tokenizer))


def logits(classifier: Classifier, *texts: str) -> torch.Tensor:
    with torch.no_grad():
        return torch.cat([classifier.logits(classifier.batch([classifier.tokens(text)])) for text in texts])


def unexpected(result: Capabilities) -> list[str]:
    return [f"{a.name}: {a.reason}" for a in (*result.methods, *result.checks) if "fails:" in a.reason]


# int8


@pytest.mark.parametrize("family", ["bert", "bart", pytest.param("llama", marks=pytest.mark.thorough)])
def test_a_text_has_the_logits_that_the_model_gives_it_alone(family: str) -> None:
    classifier = int8(family)
    whole = [classifier.tokens(text) for text in TEXTS]
    texts = [tokens.take([*range(4), len(tokens) - 1]) for tokens in whole if len(tokens) > 5]
    with torch.no_grad():
        alone = torch.cat([classifier.model(**_inputs(classifier, [tokens])).logits for tokens in texts])
        rounded_together = classifier.model(**_inputs(classifier, texts)).logits
        together = classifier.logits(classifier.batch(texts))
        exact = shared(family).logits(classifier.batch(texts))
    assert torch.equal(together, alone)
    assert not torch.equal(rounded_together, alone)
    assert torch.allclose(alone, exact, atol=0.3)


def _inputs(classifier: Classifier, texts: Any) -> dict[str, Any]:
    batch = classifier.batch(texts)
    return classifier.inputs(batch, batch.ids)


def test_leave_one_out_of_packed_weights_is_the_models_own() -> None:
    classifier = int8()
    tokens = classifier.tokens(TEXTS[0])
    masked = list(tokens.content[:5])
    keep = ~np.eye(len(tokens), dtype=bool)[masked]
    found = answers(classifier, [Variants(tokens, keep, "mask")]).logits
    texts = [(*tokens.ids[:i], classifier.tokenizer.mask_token_id, *tokens.ids[i + 1 :]) for i in masked]
    with torch.no_grad():
        expected = [classifier.model(input_ids=torch.tensor([ids])).logits[0].double() for ids in texts]
    assert torch.equal(found, torch.stack(expected))


def test_attention_is_read_through_packed_layers() -> None:
    classifier, model = int8(), int8().model
    batch = classifier.batch([classifier.tokens(TEXTS[0])])
    reading = classifier.read(batch)
    model.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            reported = model(**classifier.inputs(batch, batch.ids), output_attentions=True).attentions
    finally:
        model.set_attn_implementation("sdpa")
    assert all(map(torch.equal, reading.weights.values(), reported))
    assert reading.pooled.nonzero().tolist() == [[0, 0]]


def test_packed_weights_are_dequantised_for_probes_only() -> None:
    classifier = int8()
    layers = packed.layers(classifier.model)
    before, x = logits(classifier, TEXTS[0]), torch.randn(1, 3, 16)
    with packed.dequantised(layers):
        expected = x @ layers[0].weight().dequantize().T + layers[0].bias()  # type: ignore[operator]
        assert torch.allclose(layers[0](x), expected, atol=1e-6)
    assert torch.equal(logits(classifier, TEXTS[0]), before)
    assert not [layer for layer in layers if "forward" in vars(layer)]


def test_a_job_that_sets_the_mode_of_a_model_once_reads_packed_layers_as_others_do() -> None:
    classifier = int8()
    batch = classifier.batch([classifier.tokens(TEXTS[0])])
    alone = classifier.read(batch)
    with sharing(classifier):
        shared_mode = classifier.read(batch)
        with packed.dequantised(layers := packed.layers(classifier.model)):
            exact = classifier.logits(batch)
        rounded = classifier.logits(batch)
    assert torch.equal(shared_mode.pooled, alone.pooled)
    assert torch.equal(shared_mode.logits, alone.logits)
    assert torch.equal(rounded, alone.logits)
    assert not torch.equal(exact, rounded)
    assert not [layer for layer in layers if "forward" in vars(layer)]


def test_the_fingerprint_follows_packed_weights() -> None:
    model, same = (copy.deepcopy(int8().model) for _ in range(2))
    before, was = model_fingerprint(model), state(model)
    assert (model_fingerprint(same), state(model)) == (before, was)
    layer: Any = packed.layers(model)[3]
    weight = layer.weight()
    changed = weight.int_repr().clone()
    changed[0, 0] = -changed[0, 0] - 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer.set_weight_bias(
            torch._make_per_tensor_quantized_tensor(changed, weight.q_scale(), weight.q_zero_point()), layer.bias()
        )
    assert (model_fingerprint(model) != before, state(model) != was) == (True, True)


@pytest.fixture(scope="module")
def of_int8() -> Capabilities:
    return capabilities(int8())


def test_capabilities_say_once_what_packed_weights_cannot_do(of_int8: Capabilities) -> None:
    facts = dict(of_int8.facts)
    assert facts["parameters"] == "7,664 (3,888 int8, 3,776 float32)"
    assert facts["fixed weights"] == "14 of its layers hold packed int8 weights: they cannot be randomised or saved"
    assert re.search(GRADIENTS, facts["gradients"])
    assert facts["attention"] == "self: 2 layers × 2 heads"
    works = {a.name for a in (*of_int8.methods, *of_int8.checks) if a.works}
    assert {"leave-one-out", "attention-mean", "rollout", "value-zeroing", "permutation", "uniform"} <= works
    assert not works & {"integrated-gradients", "attattr", "attention-gradient", "relevance", "randomisation"}
    assert unexpected(of_int8) == []


@pytest.mark.parametrize("method", ["integrated-gradients", "attattr", "attention-gradient", "relevance"])
def test_gradients_of_packed_weights_are_refused(method: str) -> None:
    with pytest.raises(Unsupported, match=GRADIENTS):
        explain(int8(), TEXTS[0], method)


def test_packed_weights_are_not_randomised() -> None:
    with pytest.raises(Unsupported, match=r"cannot be randomised: 14 of its layers hold packed int8 weights\.$"):
        copied(int8())


def test_packed_weights_are_not_sent_to_another_process(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"cannot be saved .* process \(14 of its layers .* weights\); use jobs=1\.$"):
        describe_classifier(int8(), tmp_path)


def test_an_audit_of_packed_weights_leaves_out_what_it_cannot_do() -> None:
    classifier = int8()
    before = snapshot(classifier)
    methods = ["attention-mean", "leave-one-out", "integrated-gradients"]
    examples = [heedful.Example(text, label="LABEL_0") for text in TEXTS[:2]]
    result = heedful.audit(classifier, examples, methods, ["input-erasure", "permutation", "randomisation"])
    left_out = {(row.check, row.method) for row in result.summary.left_out}
    assert {("explain", "integrated-gradients"), ("randomisation", "")} <= left_out
    assert changed_state(before, snapshot(classifier)) in ("", [])


# half precision


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("family", ["bert", pytest.param("gpt2", marks=pytest.mark.thorough)])
def test_half_precision_does_what_float32_does(family: str, dtype: torch.dtype, request: pytest.FixtureRequest) -> None:
    if dtype is torch.bfloat16:
        request.getfixturevalue("bf16")
    classifier = half(dtype, family)
    methods = ["attention-mean", "rollout", "gradient-x-input", "leave-one-out"]
    halves, wholes = (explain(c, TEXTS[0], methods) for c in (classifier, shared(family)))
    for one, other in zip(halves, wholes, strict=True):
        assert np.corrcoef(one.scores, other.scores)[0, 1] > 0.98  # type: ignore[attr-defined]
    assert classifier.padding == shared(family).padding
    assert classifier.attention_fault is None


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_loses_nothing(dtype: torch.dtype, request: pytest.FixtureRequest) -> None:
    if dtype is torch.bfloat16:
        request.getfixturevalue("bf16")
    found, expected = capabilities(half(dtype)), capabilities(shared("bert"))
    assert [(a.name, a.works) for a in found.methods] == [(a.name, a.works) for a in expected.methods]
    assert [(a.name, a.works) for a in found.checks] == [(a.name, a.works) for a in expected.checks]
    assert unexpected(found) == []


# weights at any place in memory


def test_weights_that_begin_anywhere_in_memory_are_moved_and_still_shared() -> None:
    original = shared("bert")
    model = copy.deepcopy(original.model)
    memory = np.zeros(4096, np.uint8)
    unaligned = torch.from_numpy(memory[(4 - memory.ctypes.data) % ALIGNMENT_BYTES :][:2048].view(np.float32))
    biases = [layer.output.LayerNorm.bias for layer in model.bert.encoder.layer]
    for i, bias in enumerate(biases):
        bias.data = unaligned[5 + 64 * i :][: len(bias)].copy_(bias.data)
    places = [p.data_ptr() for p in model.parameters()]
    classifier = Classifier(model, original.tokenizer)
    assert classifier.fingerprint == original.fingerprint
    moved = [p for p, place in zip(model.parameters(), places, strict=True) if p.data_ptr() != place]
    assert {*map(id, moved)} == {*map(id, biases)}
    (storage,) = {p.untyped_storage().data_ptr() for p in moved}
    assert storage % ALIGNMENT_BYTES == 0


# device_map


def test_a_model_with_a_device_map_is_as_without(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    original = shared("bert")
    original.model.save_pretrained(tmp_path)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path, device_map={"": "cpu"})
    classifier = load((model, original.tokenizer))
    assert classifier.fingerprint == original.fingerprint
    assert torch.equal(logits(classifier, TEXTS[0]), logits(original, TEXTS[0]))
    again = restore_classifier(json.loads(json.dumps(describe_classifier(classifier, tmp_path / "copy"))))
    assert again.fingerprint == original.fingerprint


@pytest.mark.parametrize("family", ["bert", pytest.param("bart", marks=pytest.mark.thorough)])
def test_offloaded_weights_are_read_where_they_are(family: str, tmp_path: Path) -> None:
    classifier, original = offloaded(family), shared(family)
    assert next(classifier.model.parameters()).is_meta
    assert (classifier.fingerprint, classifier.device) == (original.fingerprint, torch.device("cpu"))
    assert torch.equal(logits(classifier, TEXTS[0]), logits(original, TEXTS[0]))
    methods = ["attention-mean", "gradient-x-input", "integrated-gradients", "leave-one-out"]
    for one, other in zip(explain(classifier, TEXTS[0], methods), explain(original, TEXTS[0], methods), strict=True):
        assert np.allclose(one.scores, other.scores, atol=1e-6)  # type: ignore[attr-defined]
    reason = r"(\d+) of its \1 weights are offloaded"
    with pytest.raises(Unsupported, match=rf"cannot be randomised: {reason}\.$"):
        copied(classifier)
    with pytest.raises(BadInput, match=rf"cannot be saved for another process \({reason}\); use jobs=1\.$"):
        describe_classifier(classifier, tmp_path)


@pytest.mark.thorough
def test_capabilities_of_offloaded_weights_are_no_tracebacks() -> None:
    assert unexpected(capabilities(offloaded())) == []
