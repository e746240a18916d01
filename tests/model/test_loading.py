"""Loading: what is a classifier is read, what is none is refused in one sentence, and nothing is changed or run."""

from __future__ import annotations

import copy
import json
import logging
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForSeq2SeqLM, ByT5Tokenizer

import heedful
from heedful.core.errors import BadInput, HeedfulError, Unsupported
from heedful.methods.conformance import snapshot
from heedful.methods.explain import explain
from heedful.model import loading
from heedful.model.classifier import Classifier
from heedful.model.huggingface import model_fingerprint
from heedful.model.loading import load
from heedful.nets.weights import Contents
from tests.support.models import FAMILIES, TEXTS, build, shared, tokenizer

NAMES = ("bad", "so-so", "good")
TEXT = "The film was not funny"


def refused(message: str, error: type[HeedfulError] = BadInput) -> Any:
    return pytest.raises(error, match=f"^{re.escape(message)}$")


def save(folder: Path, model: Any, t: Any = None) -> Path:
    model.save_pretrained(folder)
    if t is not None:
        t.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def original() -> Classifier:
    return build("bert", id2label=dict(enumerate(NAMES)))


@pytest.fixture(scope="module")
def saved(original: Classifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("saved") / "bert", original.model, original.tokenizer)


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy of the saved model, to be damaged."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


def logits(classifier: Classifier, text: str = TEXT) -> torch.Tensor:
    with torch.no_grad():
        return classifier.logits(classifier.batch([classifier.tokens(text)]))


def same(one: Classifier, other: Classifier) -> bool:
    """The same weights to the bit; a mapped file lies elsewhere in memory, which moves the last digits of a product."""
    equal = all(map(torch.equal, one.model.state_dict().values(), other.model.state_dict().values()))
    return equal and torch.allclose(logits(one), logits(other), rtol=0, atol=1e-5)


# what loads


@pytest.mark.parametrize("kind", [str, Path])
def test_a_folder_gives_the_classifier_that_was_saved(original: Classifier, saved: Path, kind: type) -> None:
    classifier = load(kind(saved))
    assert same(classifier, original)
    assert classifier.labels == NAMES
    assert classifier.name == str(saved)


def test_the_folder_may_be_relative_to_the_home(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(saved.parent))
    assert load("~/bert").labels == NAMES


@pytest.mark.parametrize("family", ["roberta", "gpt2", "t5", "xlnet", "bart", "deberta-v2", "modernbert"])
def test_every_family_comes_back_as_it_was_saved(family: str, tmp_path: Path) -> None:
    classifier = shared(family)
    again = load(save(tmp_path, classifier.model, classifier.tokenizer))
    assert same(again, classifier)
    assert again.fingerprint == classifier.fingerprint


@pytest.mark.parametrize(
    ("labels", "more", "head"),
    [
        (1, {}, "sigmoid"),
        (1, {"problem_type": "regression"}, "regression"),
        (4, {"problem_type": "multi_label_classification"}, "sigmoid"),
        (10, {}, "softmax"),
    ],
)
def test_the_head_comes_back(labels: int, more: dict[str, Any], head: str, tmp_path: Path) -> None:
    classifier = build("bert", labels, **more)
    again = load(save(tmp_path, classifier.model, classifier.tokenizer))
    assert (again.head, again.labels) == (head, classifier.labels)


@pytest.fixture(scope="module")
def half(original: Classifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("half"), copy.deepcopy(original.model).half(), original.tokenizer)


@pytest.mark.parametrize(
    ("asked", "dtype"),
    [
        (None, torch.float32),
        ("auto", torch.float16),
        ("float64", torch.float64),
        (torch.float64, torch.float64),
    ],
)
def test_half_precision_is_widened_unless_told_otherwise(half: Path, asked: Any, dtype: torch.dtype) -> None:
    assert {p.dtype for p in load(half, dtype=asked).model.parameters()} == {dtype}


@pytest.mark.usefixtures("bf16")
@pytest.mark.parametrize("asked", ["bf16", "bfloat16", torch.bfloat16])
def test_weights_are_read_as_bf16(half: Path, asked: Any) -> None:
    assert {p.dtype for p in load(half, dtype=asked).model.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize("asked", ["int8", "float3", "load", ""])
def test_what_is_no_dtype_is_refused(saved: Path, asked: str) -> None:
    with refused(f"dtype '{asked}' is not one of float32, float64, float16, bfloat16, auto."):
        load(saved, dtype=asked)


def test_whole_numbers_are_no_dtype_for_weights(saved: Path) -> None:
    with refused("dtype 'torch.int64' is not one of float32, float64, float16, bfloat16, auto."):
        load(saved, dtype=torch.int64)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the device is there")
def test_a_device_that_is_not_there_is_refused(saved: Path) -> None:
    # a build without CUDA says something else than one with it and no GPU
    with pytest.raises(BadInput, match=r"^device 'cuda' cannot be used here \(.+\); try --device cpu\.$"):
        load(saved, device="cuda")


@pytest.mark.parametrize("asked", ["moon", "", "cuda:x", "meta", 3.5])
def test_what_is_no_device_is_refused(saved: Path, asked: Any) -> None:
    with refused(f"device '{asked}' is not one of auto, cpu, cuda, mps."):
        load(saved, device=asked)


@pytest.mark.parametrize("asked", ["cuda:1", "xpu"])
def test_a_device_may_have_a_number_or_another_name(asked: str) -> None:
    assert loading.chosen_device(asked) == torch.device(asked)


def test_the_device_is_where_the_model_goes(saved: Path) -> None:
    assert load(saved, device="cpu").device == torch.device("cpu")


def test_a_pipeline_is_a_classifier(original: Classifier) -> None:
    pipeline = transformers.pipeline("text-classification", model=original.model, tokenizer=original.tokenizer)
    said = pipeline(TEXT)[0]
    found = explain(load(pipeline), TEXT, "uniform").prediction
    assert found.probabilities is not None
    assert found.label == said["label"]
    assert max(found.probabilities) == pytest.approx(said["score"], abs=1e-5)


IN_MEMORY: dict[str, Callable[[Classifier], Any]] = {
    "classifier": lambda original: original,
    "pair": lambda original: (original.model, original.tokenizer),
    "pipeline": lambda original: transformers.pipeline(
        "text-classification", model=original.model, tokenizer=original.tokenizer
    ),
    "function": lambda _: heedful.Plain(lambda texts: [[0.5, 0.5]] * len(texts)),
}


@pytest.mark.parametrize("kind", IN_MEMORY)
@pytest.mark.parametrize(("name", "value"), [("device", "cpu"), ("dtype", torch.float16), ("revision", "main")])
def test_a_model_in_memory_has_its_own_device(original: Classifier, kind: str, name: str, value: Any) -> None:
    model, given = IN_MEMORY[kind](original), {name: value}
    with refused(
        f"{name} is for models that are read from files, and this one is in memory; set it where you create the model."
    ):
        load(model, **given)
    assert load(model, device="auto", dtype="auto").labels == load(model).labels


def test_a_folder_has_no_revisions(saved: Path) -> None:
    for model, what in ((saved, f"'{saved}'"), (None, "the embedded model")):
        with refused(f"revision is for names of the Hugging Face hub, and {what} is a folder; leave it out."):
            load(model, revision="main")


def test_a_pipeline_of_another_task_is_refused(original: Classifier) -> None:
    model = transformers.AutoModelForMaskedLM.from_config(original.config)
    pipeline = transformers.pipeline("fill-mask", model=model, tokenizer=original.tokenizer)
    message = "BertForMaskedLM is not a sequence classifier; load one with AutoModelForSequenceClassification"
    with refused(f"{message}, or give a template and a verbalizer, by which a language model classifies.", Unsupported):
        load(pipeline)


def test_a_classifier_stays_itself(original: Classifier) -> None:
    assert load(original) is original


def test_a_model_and_its_tokenizer_are_a_classifier(original: Classifier) -> None:
    assert load((original.model, original.tokenizer)).labels == original.labels


@pytest.mark.parametrize("given", [3, ["bert"], torch.nn.Linear(1, 1)])
def test_what_is_no_model_is_refused(given: Any) -> None:
    with refused(
        f"the model is a {type(given).__name__}; give a folder, a hub name, a pipeline, a SetFit model or a "
        "(model, tokenizer) pair."
    ):
        load(given)


def test_classifiers_are_made_of_models_and_tokenizers(original: Classifier) -> None:
    with refused("the tokenizer is a NoneType; give the model's Hugging Face tokenizer."):
        Classifier(original.model, None)
    with refused("the model is a str; give a Hugging Face sequence classification model."):
        Classifier("bert", original.tokenizer)
    with refused(
        "BertModel is not a sequence classifier; load one with AutoModelForSequenceClassification.", Unsupported
    ):
        Classifier(original.model.bert, original.tokenizer)


def test_a_tokenizer_of_bytes_needs_no_vocabulary(tmp_path: Path) -> None:
    config = CONFIG_MAPPING["t5"](vocab_size=400, pad_token_id=0, eos_token_id=1, **FAMILIES["t5"][1])
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    loaded = load(save(tmp_path, model, ByT5Tokenizer()))
    assert explain(loaded, "Zé 😀", "gradient-l2").tokens.content == tuple(range(8))


# what does not


def test_pickled_weights_are_refused_with_the_way_to_convert_them(folder: Path, original: Classifier) -> None:
    (folder / "model.safetensors").unlink()
    torch.save(original.model.state_dict(), folder / "pytorch_model.bin")
    with refused(
        f"'{folder}' has only pickled weights (pytorch_model.bin), which can run code when loaded; if you trust them, "
        "convert them once with AutoModelForSequenceClassification.from_pretrained(folder, "
        "use_safetensors=False).save_pretrained(folder)."
    ):
        load(folder)


def test_the_way_to_convert_pickled_weights_works(folder: Path, original: Classifier) -> None:
    (folder / "model.safetensors").unlink()
    torch.save(original.model.state_dict(), folder / "pytorch_model.bin")
    transformers.AutoModelForSequenceClassification.from_pretrained(folder, use_safetensors=False).save_pretrained(
        folder
    )
    assert same(load(folder), original)


def test_a_folder_without_weights_is_refused(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with refused(f"'{folder}' has no weights (model.safetensors); save the model with save_pretrained."):
        load(folder)


def test_a_folder_without_tokenizer_is_refused(original: Classifier, tmp_path: Path) -> None:
    save(tmp_path, original.model)
    with refused(f"'{tmp_path}' has no tokenizer (such as tokenizer.json); save it with tokenizer.save_pretrained."):
        load(tmp_path)


def test_a_folder_with_only_the_settings_of_a_tokenizer_is_refused(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    with refused(f"'{folder}' has no tokenizer (such as tokenizer.json); save it with tokenizer.save_pretrained."):
        load(folder)


def test_a_damaged_tokenizer_is_refused(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(BadInput, match=rf"^the tokenizer of '{folder}' cannot be read \([^\n]+\)\.$"):
        load(folder)


def untrained(folder: Path, kind: str, missing: str, more: str = "") -> Any:
    return refused(
        f"'{folder}' ({kind}) has no trained weights for {missing}, so its predictions would be random; give a model "
        f"that was fine-tuned for sequence classification{more}.",
        Unsupported,
    )


def test_a_model_without_a_head_is_refused(original: Classifier, tmp_path: Path) -> None:
    save(tmp_path, original.model.bert, original.tokenizer)
    with untrained(tmp_path, "BertModel", "classifier.bias, classifier.weight"):
        load(tmp_path)


def test_a_head_of_another_size_is_refused(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    for key in ("id2label", "label2id"):
        config.pop(key)
    (folder / "config.json").write_text(json.dumps(config | {"num_labels": 5}))
    with untrained(folder, "BertForSequenceClassification", "classifier.bias, classifier.weight"):
        load(folder)


@pytest.mark.parametrize(
    ("family", "auto", "kind", "missing"),
    [
        ("gpt2", AutoModelForCausalLM, "GPT2LMHeadModel", "score.weight"),
        (
            "t5",
            AutoModelForSeq2SeqLM,
            "T5ForConditionalGeneration",
            "classification_head.dense.bias, classification_head.dense.weight, classification_head.out_proj.bias, …",
        ),
    ],
)
def test_a_generator_is_no_classifier(family: str, auto: Any, kind: str, missing: str, tmp_path: Path) -> None:
    classifier = build(family)
    save(tmp_path, auto.from_config(classifier.config), classifier.tokenizer)
    with untrained(tmp_path, kind, missing, ", or a template and a verbalizer, by which a language model classifies"):
        load(tmp_path)


def test_a_family_that_has_no_classifiers_is_refused(tmp_path: Path) -> None:
    t = tokenizer("gpt")
    config = CONFIG_MAPPING["codegen"](
        n_embd=16, n_head=4, n_layer=1, rotary_dim=4, vocab_size=len(t), n_positions=64, bos_token_id=0, eos_token_id=0
    )
    save(tmp_path, AutoModelForCausalLM.from_config(config), t)
    found = f"'{tmp_path}' (CodeGenConfig) has no sequence classifier in transformers"
    with refused(f"{found}; give another model, or a language model with a template and a verbalizer.", Unsupported):
        load(tmp_path)


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    with refused(f"'{tmp_path}' has no config.json, so it is not a model folder; save one with save_pretrained."):
        load(tmp_path)


@pytest.mark.parametrize("exists", [True, False])
def test_a_path_that_is_no_folder_is_refused(tmp_path: Path, exists: bool) -> None:
    path = tmp_path / "model.zip"
    if exists:
        path.write_text("x")
    with refused(f"'{path}' is not a folder; give a model folder with config.json and model.safetensors."):
        load(path)


@pytest.mark.parametrize("content", ["{not json", "[]", "{}", '{"model_type": "nonsense"}'])
def test_a_damaged_configuration_is_refused_in_one_sentence(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(content)
    with pytest.raises(HeedfulError, match=rf"^(the model in )?'{folder}' (?:(?!\. )[^\n])+\.$"):
        load(folder)


def header_too_large(whole: bytes) -> bytes:
    return b"\xff" * 8 + whole[8:]


def garbage(whole: bytes) -> bytes:
    return b"garbage"


def nothing(whole: bytes) -> bytes:
    return b""


def truncated(whole: bytes) -> bytes:
    return whole[: len(whole) // 2]


def cut_in_the_header(whole: bytes) -> bytes:
    return whole[:100]


@pytest.mark.parametrize("damage", [header_too_large, garbage, nothing, truncated, cut_in_the_header])
def test_damaged_weights_are_refused(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(damage(weights.read_bytes()))
    with pytest.raises(
        BadInput, match=rf"^the weights of '{folder}' are damaged \([^()\n]+\); copy or download them again\.$"
    ):
        load(folder)


@pytest.mark.parametrize("name", ["someone/no-such-model", "no-such-model"])
def test_a_hub_that_cannot_be_reached_is_one_sentence(name: str) -> None:
    with refused(
        f"'{name}' is not a local folder and could not be downloaded from the Hugging Face hub (Cannot find an "
        "appropriate cached snapshot folder for the specified revision on the local disk and outgoing traffic has been "
        "disabled); check the name and the connection, or give a folder."
    ):
        load(name)


@pytest.mark.parametrize("name", ["no/such/folder", "two words"])
def test_what_can_be_no_hub_name_is_one_sentence(name: str) -> None:
    message = (
        rf"^'{name}' is not a local folder and could not be downloaded from the Hugging Face hub \((?:(?!\. ).)+\);"
    )
    with pytest.raises(BadInput, match=message):
        load(name)


# weights: safetensors files in the folder itself, and no more than they hold


def index(folder: Path, **names: str) -> None:
    """The weights as one shard, and an index that names others."""
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    with safe_open(folder / "model-1.safetensors", "pt") as file:
        own = dict.fromkeys(file.keys(), "model-1.safetensors")
    index = {"metadata": {}, "weight_map": own | names}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


class Mark:
    """Leaves a mark when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self.file,)


def test_an_index_of_plain_names_loads(folder: Path, original: Classifier) -> None:
    index(folder)
    assert same(load(folder), original)


@pytest.mark.parametrize(
    "name",
    [
        "pytorch_model.bin",
        "../other.safetensors",
        "sub/model.safetensors",
        "..\\other.safetensors",
        "/x.safetensors",
        ".safetensors",
        "model.safetensors.bin",
    ],
)
def test_an_index_that_names_anything_else_is_refused(folder: Path, name: str) -> None:
    index(folder, extra=name)
    mark = folder.parent / "mark"
    torch.save({"extra": Mark(mark)}, folder / "pytorch_model.bin")
    with refused(
        f"'{folder}' names '{name}' as a file of weights; only *.safetensors files in the folder itself are read."
    ):
        load(folder)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("adapter_model.bin", "only *.safetensors files in the folder itself are read."),
        ("../other.safetensors", "only *.safetensors files in the folder itself are read."),
        ("sub/x.safetensors.index.json", "move it into the folder itself."),
    ],
)
def test_a_configuration_that_names_other_weights_is_refused(folder: Path, name: str, message: str) -> None:
    configured(folder, transformers_weights=name)
    with pytest.raises(BadInput, match=re.escape(message)):
        load(folder)


def test_a_named_shard_that_is_not_there_is_refused(folder: Path) -> None:
    index(folder, extra="model-2.safetensors")
    with refused(f"'{folder}' names the weights 'model-2.safetensors', which do not exist; copy or download them."):
        load(folder)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"weight_map": []}', '{"weight_map": 3}'])
def test_a_damaged_index_is_refused(folder: Path, content: str) -> None:
    index(folder)
    (folder / "model.safetensors.index.json").write_text(content)
    with pytest.raises(BadInput, match=rf"^'{folder}/model\.safetensors\.index\.json' is not an index of weights \("):
        load(folder)


def test_a_device_is_no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("/dev/zero")
    with refused(f"'{folder}' names the weights 'model.safetensors', which do not exist; copy or download them."):
        load(folder)


def offset_beyond_the_file(header: dict[str, Any]) -> None:
    tensor = next(tensor for name, tensor in header.items() if name != "__metadata__")
    tensor["data_offsets"][1] += 10**12


def shape_beyond_the_bytes(header: dict[str, Any]) -> None:
    tensor = next(tensor for name, tensor in header.items() if name != "__metadata__")
    tensor["shape"] = [10**9, 10**9]


@pytest.mark.parametrize("lie", [offset_beyond_the_file, shape_beyond_the_bytes])
def test_a_header_that_lies_is_refused(folder: Path, lie: Callable[[dict[str, Any]], None]) -> None:
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    lie(header)
    encoded = json.dumps(header).encode()
    weights.write_bytes(len(encoded).to_bytes(8, "little") + encoded + whole[8 + length :])
    with pytest.raises(
        BadInput, match=rf"^the weights of '{folder}' are damaged \([^\n]+\); copy or download them again\.$"
    ):
        load(folder)


def configured(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"vocab_size": 10**8},
        {"hidden_size": 2**20},
        {"intermediate_size": 10**9},
        {"num_hidden_layers": 900, "intermediate_size": 10**4},
        {"max_position_embeddings": 10**9},
    ],
    ids=str,
)
def test_a_configuration_of_a_larger_model_is_refused_before_it_is_built(folder: Path, changes: Any) -> None:
    configured(folder, **changes)
    with pytest.raises(
        BadInput, match=rf"^the configuration of '{folder}' describes a larger model than its weights, "
    ):
        load(folder)


@pytest.mark.parametrize("name", ["num_hidden_layers", "num_labels"])
def test_numbers_that_would_fill_lists_are_refused_before_they_are_read(folder: Path, name: str) -> None:
    configured(folder, **{name: 10**12})
    with pytest.raises(
        BadInput, match=rf"^the configuration of '{folder}' has {name}=1,000,000,000,000, and its weights"
    ):
        load(folder)


def test_another_thread_may_build_what_it_likes(folder: Path) -> None:
    def build_large() -> int:
        with torch.device("meta"):
            return torch.nn.Linear(10**5, 10**5).weight.numel()

    contents = Contents.read(str(folder), [folder / "model.safetensors"])
    with contents.limiting(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(build_large).result() == 10**10
        with pytest.raises(BadInput, match="describes a larger model"):
            build_large()
    assert build_large() == 10**10


def with_code(folder: Path, file: str, changes: dict[str, Any]) -> Path:
    """Code that would leave a mark when it is run."""
    settings = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(settings | changes))
    mark = folder.parent / "mark"
    (folder / "own.py").write_text(f"open({str(mark)!r}, 'w').close()\nclass C: ...\nclass M: ...\nclass T: ...\n")
    return mark


OWN = {"AutoConfig": "own.C", "AutoModelForSequenceClassification": "own.M"}


def test_a_model_with_code_of_its_own_is_refused_and_the_code_not_run(folder: Path) -> None:
    mark = with_code(folder, "config.json", {"model_type": "own", "auto_map": OWN})
    with refused(f"'{folder}' needs its own code, which heedful does not execute.", Unsupported):
        load(folder)
    assert not mark.exists()


def test_code_beside_a_model_that_transformers_knows_is_not_run(folder: Path, original: Classifier) -> None:
    mark = with_code(folder, "config.json", {"auto_map": OWN})
    assert same(load(folder), original)
    assert not mark.exists()


def test_code_of_a_tokenizer_is_not_run(folder: Path) -> None:
    mark = with_code(
        folder, "tokenizer_config.json", {"tokenizer_class": "T", "auto_map": {"AutoTokenizer": ["own.T", None]}}
    )
    with suppress(HeedfulError):  # transformers may read the standard tokenizer instead, or refuse
        load(folder)
    assert not mark.exists()


# what fails later


def test_a_tokenizer_of_another_model_is_refused(original: Classifier) -> None:
    classifier = Classifier(original.model, tokenizer("roberta"), name="mine")
    rows = len(tokenizer("wordpiece"))
    highest = max(tokenizer("roberta")(TEXTS[0])["input_ids"])
    with refused(
        f"the tokenizer returned token id {highest}, and the model mine has {rows} tokens; "
        "give the model's own tokenizer."
    ):
        explain(classifier, TEXTS[0])


@pytest.mark.parametrize("name", ["classifier.weight", "bert.embeddings.LayerNorm.bias"])
def test_a_model_that_answers_nan_is_refused(folder: Path, original: Classifier, name: str) -> None:
    weights = {k: v.clone() for k, v in original.model.state_dict().items()}
    weights[name].fill_(torch.nan)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with refused(f"{folder} returned NaN for this text; check its weights and its dtype."):
        explain(load(folder), TEXT)


# what must stay as it was


@pytest.mark.parametrize("method", ["integrated-gradients", "attention-gradient", "gradient-l2", "attention-weights"])
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_the_users_model_is_not_changed(family: str, method: str) -> None:
    classifier = build(family)
    model, before = classifier.model, (snapshot(classifier), model_fingerprint(classifier.model))
    settings = copy.deepcopy(model.config.to_dict())
    explain(Classifier(model, classifier.tokenizer, name=classifier.name), TEXT, method)
    assert (snapshot(classifier), model_fingerprint(model)) == before
    assert model.config.to_dict() == settings
    assert all(p.grad is None and p.requires_grad for p in model.parameters())


def test_the_users_tokenizer_is_not_changed(original: Classifier) -> None:
    t = copy.deepcopy(original.tokenizer)
    t.backend_tokenizer.enable_truncation(8)
    t.backend_tokenizer.enable_padding(length=16)
    before = (t.backend_tokenizer.to_str(), t.padding_side, t.model_max_length, dict(t.special_tokens_map))
    explain(Classifier(original.model, t), TEXTS[0] * 20, ["integrated-gradients", "attention-mean"])
    assert (t.backend_tokenizer.to_str(), t.padding_side, t.model_max_length, dict(t.special_tokens_map)) == before


@pytest.mark.parametrize("method", ["integrated-gradients", "attention-mean"])
def test_a_model_in_training_is_explained_without_dropout_and_goes_on_training(method: str) -> None:
    classifier = build("bert")
    plain = explain(classifier, TEXT, method)
    classifier.model.train()
    classifier.model.bert.pooler.eval()
    modes = [module.training for module in classifier.model.modules()]
    again = explain(classifier, TEXT, method)
    assert [module.training for module in classifier.model.modules()] == modes
    assert plain.to_dict() == again.to_dict()


def test_loading_leaves_the_loudness_of_transformers_alone(saved: Path) -> None:
    from transformers.utils import logging as hf

    before = (hf.get_verbosity(), hf.is_progress_bar_enabled(), logging.getLogger("huggingface_hub").level)
    load(saved)
    with pytest.raises(HeedfulError):
        load("no-such-model")
    assert (hf.get_verbosity(), hf.is_progress_bar_enabled(), logging.getLogger("huggingface_hub").level) == before


def test_loading_says_nothing(saved: Path, capfd: pytest.CaptureFixture[str]) -> None:
    load(saved)
    assert capfd.readouterr() == ("", "")


# how much a model reads


def unlimited(family: str) -> Classifier:
    """With a tokenizer that states no length."""
    classifier = build(family)
    t = copy.deepcopy(classifier.tokenizer)
    t.model_max_length = int(1e30)
    return Classifier(classifier.model, t)


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "gpt2", "distilbert", "electra", "bart"])
def test_the_limit_is_the_longest_text_that_the_model_can_read(family: str) -> None:
    classifier = unlimited(family)
    assert classifier.limit is not None
    tokens = classifier.tokens("a " * 200)
    positions = len(tokens)
    with torch.no_grad():
        classifier.logits(classifier.batch([tokens.cut(classifier.limit)]))
        with pytest.raises((IndexError, RuntimeError)):
            classifier.logits(classifier.batch([tokens.cut(classifier.limit + 1)]))
    assert positions > classifier.limit + 1


def test_roberta_counts_positions_after_its_padding_token() -> None:
    classifier = unlimited("roberta")
    stated = FAMILIES["roberta"][1]["max_position_embeddings"]
    assert classifier.limit == stated - classifier.tokenizer.pad_token_id - 1


@pytest.mark.parametrize("family", ["t5", "xlnet", "bloom"])
def test_a_model_of_relative_positions_has_no_limit(family: str) -> None:
    assert unlimited(family).limit is None


@pytest.mark.parametrize("family", ["t5", "bert"])
@pytest.mark.parametrize("stated", [20, 64])
def test_the_tokenizer_may_state_a_shorter_length(family: str, stated: int) -> None:
    classifier = unlimited(family)
    classifier.tokenizer.model_max_length = stated
    assert classifier.limit == stated


def test_the_verbs_are_at_the_top() -> None:
    assert (heedful.load, heedful.Classifier) == (load, Classifier)


@pytest.mark.parametrize("sharded", [False, True])
def test_a_hub_name_in_the_cache_loads_without_the_hub(
    tmp_path: Path, sharded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot consists of links to blobs, which have no suffix."""
    cache = tmp_path / "models--org--name"
    snapshot = cache / "snapshots" / "abc"
    shared("bert").model.save_pretrained(snapshot, **({"max_shard_size": "10KB"} if sharded else {}))
    shared("bert").tokenizer.save_pretrained(snapshot)
    (cache / "blobs").mkdir()
    for i, file in enumerate(list(snapshot.iterdir())):
        file.rename(cache / "blobs" / str(i))
        file.symlink_to(Path("../../blobs") / str(i))
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("abc")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))  # HF_HOME is read when it is imported
    assert load("org/name").name == "org/name"


def test_the_fingerprint_follows_the_weights() -> None:
    classifier = build("bert")
    before = classifier.fingerprint
    weight = classifier.model.classifier.weight
    with torch.no_grad():
        weight[0, 0] += 1e-3
    changed = classifier.fingerprint
    with torch.no_grad():
        weight[0, 0] -= 1e-3
        weight.copy_(build("bert").model.classifier.weight)
    assert changed != before
    assert classifier.fingerprint == before
