"""Adapters: a folder that peft wrote gives the model that was trained; what does not fit is refused in one sentence."""

from __future__ import annotations

import copy
import json
import re
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSequenceClassification

import heedful
from heedful.audits.capabilities import capabilities
from heedful.core.errors import BadInput, HeedfulError, Unsupported
from heedful.methods.explain import explain
from heedful.model import loading
from heedful.model.classifier import Classifier
from heedful.model.loading import describe_classifier, load, restore_classifier, with_adapter
from heedful.model.prompted import Prompt, Prompted
from tests.support.models import TEXTS, WORDS, build, language_model, loud, tokenizer

peft = pytest.importorskip("peft")

NAMES = {0: "bad", 1: "so-so", 2: "good"}
TARGETS = {"bert": ["query", "value"], "gpt2": ["c_attn"], "llama": ["q_proj", "v_proj"]}


def logits(classifier: Classifier, text: str = TEXTS[0]) -> torch.Tensor:
    with torch.no_grad():
        return classifier.logits(classifier.batch([classifier.tokens(text)]))


def disturbed(model: Any) -> Any:
    """Weights of the adapter that matter: peft's own start changes nothing."""
    own = {name: p for name, p in model.named_parameters() if "lora_" in name or "modules_to_save" in name}
    with torch.no_grad():
        for i, p in enumerate(own.values()):
            p.copy_(torch.randn(p.shape, generator=torch.Generator().manual_seed(i)) * 0.4)
    return model.eval()


def lora(model: Any, targets: list[str], task: str | None = "SEQ_CLS") -> Any:
    settings = peft.LoraConfig(task_type=task, target_modules=targets, r=4, fan_in_fan_out=targets == ["c_attn"])
    return disturbed(peft.get_peft_model(model, settings))


def trained(folder: Path, family: str = "bert") -> Any:
    """A base model in folder/base and an adapter in folder/adapter; returns peft's own model."""
    original = build(family, id2label=NAMES)
    original.model.save_pretrained(folder / "base")
    original.tokenizer.save_pretrained(folder / "base")
    model = lora(AutoModelForSequenceClassification.from_pretrained(folder / "base"), TARGETS[family])
    model.save_pretrained(folder / "adapter")
    return model


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("adapted")
    return folder, trained(folder)


@pytest.fixture
def folder(whole: tuple[Path, Any], tmp_path: Path) -> Path:
    """A copy of the adapter, to be damaged; its base is where it was."""
    return Path(shutil.copytree(whole[0] / "adapter", tmp_path / "adapter"))


def rewrite(folder: Path, **changes: Any) -> None:
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | changes), "utf-8")


def refused(message: str, error: type[HeedfulError] = BadInput) -> Any:
    return pytest.raises(error, match=f"^{message}$")


# what loads


@pytest.mark.parametrize("family", ["bert", "gpt2", pytest.param("llama", marks=pytest.mark.thorough)])
def test_merged_and_live_have_the_logits_of_pefts_own_model(family: str, tmp_path: Path) -> None:
    own = trained(tmp_path, family)
    merged, live = load(tmp_path / "adapter"), load(tmp_path / "adapter", adapter="live")
    expected = logits(Classifier(own, merged.tokenizer))
    without = logits(load(tmp_path / "base"))
    assert torch.equal(logits(live), expected)
    assert torch.allclose(logits(merged), expected, rtol=0, atol=1e-5)
    assert not torch.allclose(without, expected, atol=0.1)
    assert (type(merged.model).__name__, type(live.model).__name__) == (
        type(own.get_base_model()).__name__,
        "PeftModelForSequenceClassification",
    )
    assert merged.labels == tuple(NAMES.values())


def test_the_head_is_the_adapters_own(whole: tuple[Path, Any]) -> None:
    weight = whole[1].get_base_model().classifier.modules_to_save["default"].weight
    assert torch.equal(load(whole[0] / "adapter").model.classifier.weight, weight)
    assert not torch.equal(load(whole[0] / "base").model.classifier.weight, weight)


def test_a_base_without_a_head_gets_as_many_labels_as_the_adapter_has(tmp_path: Path) -> None:
    original = build("bert")
    original.model.bert.save_pretrained(tmp_path / "base")
    original.tokenizer.save_pretrained(tmp_path / "base")
    base = AutoModelForSequenceClassification.from_pretrained(tmp_path / "base", num_labels=5)
    own = lora(base, TARGETS["bert"])
    own.save_pretrained(tmp_path / "adapter")
    classifier = load(tmp_path / "adapter")
    assert classifier.labels == tuple(f"LABEL_{i}" for i in range(5))
    assert torch.allclose(logits(classifier), logits(Classifier(own, original.tokenizer)), rtol=0, atol=1e-5)
    (tmp_path / "adapter" / "config.json").write_text(json.dumps({"id2label": dict(enumerate("abcde"))}))
    assert load(tmp_path / "adapter").labels == tuple("abcde")


def test_a_head_that_nobody_trained_is_refused(tmp_path: Path) -> None:
    original = build("bert")
    original.model.bert.save_pretrained(tmp_path / "base")
    original.tokenizer.save_pretrained(tmp_path / "base")
    lora(AutoModel.from_pretrained(tmp_path / "base"), ["query"], None).save_pretrained(tmp_path / "adapter")
    with pytest.raises(Unsupported, match=r"has no trained weights for classifier\.bias, classifier\.weight, so its"):
        load(tmp_path / "adapter")


@pytest.mark.parametrize("written", ["../base", "base"])
def test_the_base_is_found_beside_the_adapter_or_here(
    whole: tuple[Path, Any], tmp_path: Path, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(whole[0], tmp_path, dirs_exist_ok=True)
    rewrite(tmp_path / "adapter", base_model_name_or_path=written)
    monkeypatch.chdir(tmp_path)
    classifier = load("adapter")
    assert torch.allclose(logits(classifier), logits(load(whole[0] / "adapter")), atol=1e-5)
    # a base that was found here is not found from elsewhere: another process gets a copy
    assert (classifier.loaded is None) == (written == "base")


def test_the_tokenizer_of_the_adapter_goes_first_and_its_new_words_have_vectors(folder: Path) -> None:
    own = tokenizer("wordpiece").__class__.from_pretrained(json.loads(_config(folder))["base_model_name_or_path"])
    own.add_tokens(["zyzzyva"])
    own.save_pretrained(folder)
    file = folder / "adapter_model.safetensors"
    table = torch.randn(len(own), 16)
    save_file(load_file(file) | {"base_model.model.bert.embeddings.word_embeddings.weight": table}, file)
    classifier = load(folder)
    assert torch.equal(classifier.model.get_input_embeddings().weight, table)
    assert classifier.tokens("a zyzzyva").ids[-2] == len(own) - 1
    explain(classifier, "a zyzzyva", "integrated-gradients")


def _config(folder: Path) -> str:
    return (folder / "adapter_config.json").read_text("utf-8")


@pytest.mark.parametrize("use", ["merged", "live"])
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_base_and_adapter_have_the_dtype_that_was_asked_for(whole: tuple[Path, Any], use: Any, dtype: str) -> None:
    classifier = load(whole[0] / "adapter", dtype=dtype, adapter=use)
    assert {p.dtype for p in classifier.model.parameters()} == {getattr(torch, dtype)}
    assert torch.allclose(logits(classifier).float(), logits(load(whole[0] / "adapter")), atol=0.05)


def test_learned_vectors_before_the_text_stay_live(whole: tuple[Path, Any], tmp_path: Path) -> None:
    base = AutoModelForSequenceClassification.from_pretrained(whole[0] / "base")
    settings = peft.PromptTuningConfig(task_type="SEQ_CLS", num_virtual_tokens=3)
    own = peft.get_peft_model(base, settings).eval()
    own.save_pretrained(tmp_path / "adapter")
    classifier = load(tmp_path / "adapter")
    assert torch.equal(logits(classifier), logits(Classifier(own, classifier.tokenizer)))
    reasons = {ability.reason for ability in capabilities(classifier).methods}
    assert not [reason for reason in reasons if reason.startswith("fails:")]
    with refused(r"'.*' \(PROMPT_TUNING\) cannot be merged; give adapter='live'\.", Unsupported):
        load(tmp_path / "adapter", adapter="merged")


@pytest.mark.thorough
@pytest.mark.parametrize("use", ["merged", "live"])
def test_everything_that_works_on_the_base_works_on_the_adapted_model(whole: tuple[Path, Any], use: Any) -> None:
    adapted, base = (
        capabilities(load(whole[0] / name, **more)) for name, more in (("adapter", {"adapter": use}), ("base", {}))
    )
    for abilities in ("methods", "checks"):
        assert [a.name for a in getattr(adapted, abilities) if a.works] == [
            a.name for a in getattr(base, abilities) if a.works
        ]


# language models


def test_an_adapter_of_a_language_model_needs_a_prompt(tmp_path: Path) -> None:
    t = tokenizer("gpt")
    base = AutoModelForCausalLM.from_config(build("gpt2").config)
    loud(base)
    base.save_pretrained(tmp_path / "base")
    t.save_pretrained(tmp_path / "base")
    own = lora(AutoModelForCausalLM.from_pretrained(tmp_path / "base"), ["c_attn"], "CAUSAL_LM")
    own.save_pretrained(tmp_path / "adapter")
    with refused(
        r"'.*' is an adapter of a language model \(CAUSAL_LM\); give template= and .* a prompt\.", Unsupported
    ):
        load(tmp_path / "adapter")
    prompt: Any = {"template": "{text} is", "verbalizer": WORDS}
    assert load(tmp_path / "adapter", **prompt).architecture == "GPT2LMHeadModel"
    with refused(r"the template has {mask}, and '.*base' is a causal language model .*; leave {mask} out\."):
        load(tmp_path / "adapter", template="{text} {mask}", verbalizer=WORDS)
    auto, model, its_tokenizer = with_adapter(str(tmp_path / "adapter"), tmp_path / "adapter", torch.float32)
    ids = torch.tensor([its_tokenizer(TEXTS[0])["input_ids"]])
    print((model(ids).logits - own(ids).logits).abs().max(), model.training, own.training)
    assert (auto, its_tokenizer.get_vocab()) == (AutoModelForCausalLM, t.get_vocab())
    assert torch.allclose(model(ids).logits, own(ids).logits, rtol=1e-5, atol=2e-5)


def test_a_base_that_is_no_language_model_is_refused(whole: tuple[Path, Any], tmp_path: Path) -> None:
    own = lora(AutoModelForCausalLM.from_config(build("llama").config), TARGETS["llama"], "CAUSAL_LM")
    own.save_pretrained(tmp_path / "adapter")
    tokenizer("roberta").save_pretrained(tmp_path / "adapter")
    prompt: Any = {"template": "{text} is", "verbalizer": WORDS}
    classifier = build("llama").model
    for name, model, message in (
        (
            "classifier",
            classifier,
            r"is a classifier \(Llama.*\), and .*; give the base model on which the adapter was",
        ),
        (
            "body",
            classifier.model,
            r"has no trained weights for lm_head.weight.*; give a language model that AutoModelFor",
        ),
    ):
        model.save_pretrained(tmp_path / name)
        rewrite(tmp_path / "adapter", base_model_name_or_path=str(tmp_path / name))
        with pytest.raises(HeedfulError, match=message):
            load(tmp_path / "adapter", **prompt)
    with refused(r"'.*adapter' is an adapter of a classifier \(SEQ_CLS\) and takes no prompt; leave it out\."):
        load(whole[0] / "adapter", **prompt)


def test_an_adapter_without_a_task_goes_on_the_kind_of_its_base(tmp_path: Path) -> None:
    model, t = language_model("prompted-bert")
    model.save_pretrained(tmp_path / "base")
    t.save_pretrained(tmp_path / "base")
    base = AutoModelForMaskedLM.from_pretrained(tmp_path / "base")
    own = lora(base, ["query"], None)
    own.save_pretrained(tmp_path / "adapter")
    assert (
        load(tmp_path / "adapter", template="It is {mask}: {text}", verbalizer=WORDS).architecture == "BertForMaskedLM"
    )
    with refused(r"the template has no {mask}, in whose place .*\."):
        load(tmp_path / "adapter", template="{text} is", verbalizer=WORDS)


# other processes


@pytest.mark.parametrize("use", ["merged", "live", "object"])
def test_another_process_gets_the_same_model(whole: tuple[Path, Any], use: Any, tmp_path: Path) -> None:
    folder, own = whole
    classifier = load((own, tokenizer("wordpiece"))) if use == "object" else load(folder / "adapter", adapter=use)
    restored = restore_classifier(json.loads(json.dumps(describe_classifier(classifier, tmp_path / "copy"))))
    assert restored.fingerprint == classifier.fingerprint
    assert type(restored.model) is type(classifier.model)
    assert (tmp_path / "copy").exists() == (use == "object")
    assert torch.allclose(logits(restored), logits(classifier), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        ("SEQ_CLS", "PromptTuningConfig"),
        ("CAUSAL_LM", "PromptTuningConfig"),
        pytest.param("CAUSAL_LM", "PrefixTuningConfig", marks=pytest.mark.thorough),
    ],
)
def test_learned_vectors_before_the_text_are_saved(task: str, kind: str, tmp_path: Path) -> None:
    config = build("gpt2").config
    auto = AutoModelForSequenceClassification if task == "SEQ_CLS" else AutoModelForCausalLM
    own = peft.get_peft_model(
        loud(auto.from_config(config)), getattr(peft, kind)(task_type=task, num_virtual_tokens=3)
    ).eval()
    before = {name: p.clone() for name, p in own.state_dict().items()}
    prompt: Any = {"template": "{text} is", "verbalizer": WORDS} if task == "CAUSAL_LM" else {}
    classifier = load((own, tokenizer("gpt")), **prompt)
    heedful.save(classifier, tmp_path / "saved")
    again = load(tmp_path / "saved")
    assert again.fingerprint == classifier.fingerprint
    assert torch.equal(logits(again), logits(classifier))
    assert all(torch.equal(p, before[name]) for name, p in own.state_dict().items())
    described = describe_classifier(classifier, tmp_path / "copy")
    assert restore_classifier(described).fingerprint == classifier.fingerprint


def test_a_state_that_no_folder_holds_is_not_sent_to_another_process(whole: tuple[Path, Any], tmp_path: Path) -> None:
    classifier = load(whole[0] / "adapter", adapter="live")
    before = classifier.fingerprint
    classifier.model.base_model.disable_adapter_layers()
    assert classifier.fingerprint != before
    with pytest.raises(
        BadInput, match=r"cannot be saved for another process \(its adapter is in a state .*; merge it\); use jobs=1"
    ):
        describe_classifier(classifier, tmp_path / "copy")


def test_of_an_encoder_of_learned_vectors_a_folder_holds_only_these(tmp_path: Path) -> None:
    settings = peft.PromptEncoderConfig(task_type="CAUSAL_LM", num_virtual_tokens=3, encoder_hidden_size=8)
    own = peft.get_peft_model(loud(AutoModelForCausalLM.from_config(build("gpt2").config)), settings).eval()
    classifier = load((own, tokenizer("gpt")), template="{text} is", verbalizer=WORDS)
    with refused(r"its adapter is in a state .*; load it from the folder that peft writes"):
        heedful.save(classifier, tmp_path / "saved")


# what is refused


def test_only_safetensors_are_read(folder: Path) -> None:
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    way = re.escape("convert them once with peft: PeftModel.from_pretrained(base, folder).save_pretrained(folder).")
    with refused(
        rf"'.*' has only pickled weights \(adapter_model.bin\), which can run code .*; if you trust them, {way}"
    ):
        load(folder)


def test_no_weights_are_refused(folder: Path) -> None:
    (folder / "adapter_model.safetensors").unlink()
    with refused(r"'.*' has adapter_config.json and no adapter_model.safetensors; save the adapter .* a whole model\."):
        load(folder)


@pytest.mark.parametrize("name", ["/elsewhere/bert", "./bert"])
def test_a_base_that_is_not_here_is_named(folder: Path, name: str) -> None:
    rewrite(folder, base_model_name_or_path=name)
    with refused(
        rf"'.*' is an adapter, whose base model '{name}' does not exist here; copy it here, or write its folder or hub "
        r"name as base_model_name_or_path in '.*adapter_config\.json'\."
    ):
        load(folder)


def test_a_base_that_the_hub_does_not_have_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(source: str, revision: str | None) -> Path:
        raise BadInput("no") from OSError("offline")

    monkeypatch.setattr(loading, "_download", download)
    rewrite(folder, base_model_name_or_path="nobody/nothing")
    with refused(r"'.*' is an adapter, whose base model 'nobody/nothing' is not .* \(offline\); copy it here, or .*\."):
        load(folder)


def test_no_base_is_refused(folder: Path) -> None:
    rewrite(folder, base_model_name_or_path=None)
    with refused(r"'.*' is an adapter that does not name its base model; write its folder or hub name as .*\."):
        load(folder)


def test_another_base_is_refused(folder: Path, tmp_path: Path) -> None:
    for layers, wrong in (
        (1, "has no place for its bert.encoder.layer.1."),
        (3, "needs .*layer.2.*, which it does not"),
    ):
        other = build("bert", num_hidden_layers=layers)
        other.model.save_pretrained(tmp_path / f"base{layers}")
        other.tokenizer.save_pretrained(tmp_path / f"base{layers}")
        rewrite(folder, base_model_name_or_path=str(tmp_path / f"base{layers}"))
        with pytest.raises(
            BadInput, match=rf"does not fit its base '.*', which {wrong}.*; give the base model on which"
        ):
            load(folder)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"megatron_config": {"a": 1}, "megatron_core": "os"}, Unsupported, "needs Megatron .*, which is not loaded"),
        ({"task_type": "TOKEN_CLS"}, Unsupported, "is an adapter for the task TOKEN_CLS, which classifies no texts"),
        ({"peft_type": "NOVEL"}, BadInput, "does not fit its base"),
        ({"r": 10**9}, BadInput, "has r=1,000,000,000, and no axis of its weights is longer than 16; give the conf"),
        ({"rank_pattern": {"query": 10**9}}, BadInput, "has query=1,000,000,000, and no axis of its weights is"),
        ({"r": 3}, BadInput, "does not fit its base '.*' .*size mismatch"),
    ],
)
def test_a_configuration_that_asks_for_too_much_is_refused(
    folder: Path, changes: Any, error: type[HeedfulError], message: str
) -> None:
    rewrite(folder, **changes)
    with pytest.raises(error, match=message):
        load(folder)


@pytest.mark.parametrize("content", ["", "[]", "{}", "[" * 100_000])
def test_a_damaged_configuration_is_one_sentence(folder: Path, content: str) -> None:
    (folder / "adapter_config.json").write_text(content)
    with refused(r"adapter_config\.json in '.*' is damaged \(\w+\); copy it again\."):
        load(folder)


def test_without_peft_the_package_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with refused(r"'.*' is an adapter, which needs peft; install it with: pip install 'heedful\[peft\]'\."):
        load(folder)


def test_the_setting_is_for_adapters(whole: tuple[Path, Any], folder: Path) -> None:
    with refused(r"'.*base' is no folder that peft wrote; leave adapter out\."):
        load(whole[0] / "base", adapter="live")
    with refused(r"adapter is for folders that peft wrote; a model that is in memory is used as it is\."):
        load((whole[1], tokenizer("wordpiece")), adapter="merged")
    with refused(r"adapter 'dead' is not one of merged, live\."):
        load(folder, adapter="dead")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["PromptTuningConfig", "PromptEncoderConfig", "PrefixTuningConfig"])
@pytest.mark.parametrize("family", ["prompted-gpt2", "prompted-t5"])
def test_learned_vectors_before_the_text_of_a_language_model(family: str, kind: str) -> None:
    base, t = language_model(family)
    task = "CAUSAL_LM" if family == "prompted-gpt2" else "SEQ_2_SEQ_LM"
    more = {"encoder_hidden_size": 16} if kind == "PromptEncoderConfig" else {}
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what a tied head means for an adapter
        own = peft.get_peft_model(
            copy.deepcopy(base), getattr(peft, kind)(task_type=task, num_virtual_tokens=3, **more)
        ).eval()
    for name, weight in own.named_parameters():
        if "prompt_encoder" in name:
            torch.nn.init.normal_(weight)
    prompt = Prompt("Review: {text} It is", WORDS)
    classifier = Prompted(own, t, prompt)
    plain = Prompted(base, t, prompt)
    texts = [classifier.tokens(text) for text in ("good", "a bad film, and long")]
    rows = []
    for tokens in texts:
        ids = torch.tensor([tokens.ids])
        start = {} if task == "CAUSAL_LM" else {"decoder_input_ids": torch.tensor([classifier.decoder_start])}
        with torch.no_grad():
            scores = own(input_ids=ids, attention_mask=torch.ones_like(ids), **start).logits[0, -1]
        rows.append(scores.log_softmax(-1)[[words[0] for words in classifier.model.answers]])
    with torch.no_grad():
        assert torch.allclose(
            torch.stack([torch.tensor(p.logits, dtype=torch.float64) for p in classifier.predictions(texts)]),
            torch.stack(rows).double(),
            atol=1e-5,
        )
    assert plain.limit is None or classifier.limit == plain.limit - 3
    assert "learned vectors before the text" in str(classifier.attention_fault)
    with pytest.raises(BadInput, match="scores labels by their first token only; use scoring=first"):
        Prompted(own, t, Prompt("Review: {text} It is", WORDS, scoring="sum"))
