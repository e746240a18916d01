"""Loading: a folder, a hub name, a pipeline or None -> a Classifier. No loaded code is executed."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from threading import RLock
from typing import Any, get_args

import torch
from torch import Tensor

from heedful.core.errors import BadInput, HeedfulError, Unsupported
from heedful.core.files import write_folder
from heedful.model import bodies, estimators, huggingface
from heedful.model.adapters import WEIGHTS, Adapter, AdapterUse, is_adapter, save_adapted
from heedful.model.batch import Batch
from heedful.model.classifier import Classifier
from heedful.model.entailment import ZeroShot, ZeroShotClassifier, zero_shot_classifier
from heedful.model.function import Plain
from heedful.model.precision import holds_bf16, use_bf16
from heedful.model.prompted import FILE as PROMPT_FILE
from heedful.model.prompted import MASK, Prompt, Prompted, Scoring
from heedful.nets.base import Net, Saved, load_saved
from heedful.nets.base import save as save_net
from heedful.nets.weights import Contents, weight_files, weight_names

_TOKENIZER_FILES = (
    "tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "tokenizer.model", "sentencepiece.bpe.model",
    "sentencepiece.model", "spm.model",
)  # fmt: skip
# transformers' classes of language models, and what they are
_LANGUAGE_CLASSES = {
    "AutoModelForCausalLM": "a causal",
    "AutoModelForMaskedLM": "a masked",
    "AutoModelForSeq2SeqLM": "an encoder-decoder",
}
_ZERO_SHOT_PIPELINE = "ZeroShotClassificationPipeline"
_NO_CLASS = re.compile(r"Unrecognized configuration class <class '(?:\w+\.)*(\w+)'> for this kind of AutoModel: (\w+)")
_LOADING = RLock()  # `silence_transformers` changes global settings of the process


def load(
    model: str | Path | Any | None = None,
    revision: str | None = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    *,
    adapter: AdapterUse | None = None,
    prompt: Prompt | Mapping[str, Any] | str | Path | None = None,
    template: str | None = None,
    verbalizer: Mapping[str, str] | None = None,
    system: str | None = None,
    chat: bool | None = None,
    scoring: Scoring | None = None,
    calibrate: bool | None = None,
    zero_shot: Sequence[str] | None = None,
    hypothesis: str | None = None,
    multi_label: bool = False,
) -> Classifier:
    """A classifier from a folder or hub name, a Hugging Face pipeline, a (model, tokenizer) pair, or the default.

    Also from a SetFit model, and from any object with `predict_proba`, such as a scikit-learn pipeline. `zero_shot` are
    labels for an entailment model, which answers for each whether the text entails the `hypothesis` with the label in
    place of {}; exactly one of them is right, or with `multi_label` any.

    Weights are read from safetensors only and no code of the repository runs. The default `dtype` is float32; "auto"
    is the checkpoint's. bf16 becomes float32 on a CPU that cannot compute it. `device` "auto" is cuda, or mps, or else
    the CPU. A model that is in memory is used as it is: "auto" keeps its device and dtype, and any other is refused. A
    folder that peft wrote is loaded with its base model, and the adapter is merged into its weights; adapter="live"
    leaves it beside them.

    A language model classifies by a prompt: a `template` with {text} and a `verbalizer` {label: words}, with `system`,
    `chat`, `scoring` and `calibrate` as in `Prompt`; or a `prompt` that holds them, or the name of its JSON file. Those
    that are given change the prompt that heedful saved in the model's folder.
    """
    if adapter not in (None, *get_args(AdapterUse)):
        raise BadInput(f"adapter '{adapter}' is not one of {', '.join(get_args(AdapterUse))}.")
    one = {"template": template, "verbalizer": verbalizer, "system": system, "chat": chat, "scoring": scoring}
    asked = _prompt(prompt, one | {"calibrate": calibrate})
    labels = ZeroShot.read(model, zero_shot, hypothesis, multi_label)
    if labels is not None:
        if asked:
            raise BadInput("zero-shot labels are for entailment models, and a prompt for language models; give one.")
        base = labels.model
        if type(base).__name__ == _ZERO_SHOT_PIPELINE:
            base = (base.model, base.tokenizer)
        return zero_shot_classifier(load(base, revision, device, dtype, adapter=adapter), labels)
    if isinstance(model, (str, Path)) or model is None:
        if model is None and asked:
            raise BadInput("the embedded model is a classifier and takes no prompt; give a language model.")
        source = str(files("heedful.data") / "assets" / "model") if model is None else str(model)
        if revision is not None and (model is None or Path(source).expanduser().is_dir()):
            what = "the embedded model" if model is None else f"'{source}'"
            raise BadInput(f"revision is for names of the Hugging Face hub, and {what} is a folder; leave it out.")
        place = chosen_device(device)
        classifier = _from_files(source, revision, _dtype(dtype), place.type == "cpu", adapter, asked)
        if model is None:
            classifier.name = "heedful-default"
        try:
            classifier.model.to(place)
        except (RuntimeError, AssertionError, ImportError, TypeError) as e:  # mps has no float64
            raise BadInput(f"device '{place}' cannot be used here ({_first_line(e)}); try --device cpu.") from e
        here = model is not None and Path(source).expanduser().exists()
        arguments = {
            "model": str(Path(source).expanduser().absolute()) if here else model,
            "revision": revision,
            "device": None if device is None else str(device),
            "dtype": None if dtype is None else str(dtype).removeprefix("torch."),
            "adapter": adapter,
            "prompt": classifier.prompt.to_dict() if isinstance(classifier, Prompted) else None,
        }
        if not (here and is_adapter(folder := Path(source).expanduser()) and not Adapter.read(source, folder).moves()):
            classifier.loaded = arguments, huggingface.state(classifier.model)
        return classifier
    if adapter is not None:
        raise BadInput("adapter is for folders that peft wrote; a model that is in memory is used as it is.")
    for name, value in {"revision": revision, "device": device, "dtype": dtype}.items():
        if value is not None and value != "auto":
            found = f"{name} is for models that are read from files, and this one is in memory"
            raise BadInput(f"{found}; set it where you create the model.")
    if isinstance(model, Classifier):
        if asked:
            raise BadInput(
                "the model is a classifier already; give the language model and its tokenizer with a prompt."
            )
        return model
    if (estimator := estimators.classifier_of(model)) is not None:
        if asked:
            kind = f"a {type(model).__name__} is a classifier, and a prompt is for language models"
            raise BadInput(f"{kind}; leave the prompt out.")
        return estimator
    if isinstance(model, tuple) and len(model) == 2:
        return Prompted(*model, prompt=Prompt.of(asked)) if asked else Classifier(*model)
    if hasattr(model, "model") and hasattr(model, "tokenizer"):
        if type(model).__name__ == _ZERO_SHOT_PIPELINE:
            raise BadInput("a zero-shot pipeline has no labels of its own; give them: load(pipeline, zero_shot=[…]).")
        pair = model.model, model.tokenizer
        return Prompted(*pair, prompt=Prompt.of(asked)) if asked else Classifier(*pair)
    expected = "a folder, a hub name, a pipeline, a SetFit model or a (model, tokenizer) pair"
    raise BadInput(f"the model is a {type(model).__name__}; give {expected}.")


def _prompt(prompt: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a prompt that the arguments of `load` give: all of them with `prompt`."""
    given = {name: value for name, value in fields.items() if value is not None}
    if prompt is None:
        return given
    if given:
        raise BadInput(f"prompt holds the whole prompt, and {next(iter(given))} was given too; leave one of them out.")
    read = Prompt.read(prompt) if isinstance(prompt, (str, Path)) else prompt
    return (read if isinstance(read, Prompt) else Prompt.of(read)).to_dict()


def _whole_prompt(folder: Path, given: Mapping[str, Any]) -> Prompt | None:
    """The prompt that is saved in a folder, with these fields in place of its own; None if there is neither."""
    saved: dict[str, Any] = Prompt.read(folder / PROMPT_FILE).to_dict() if (folder / PROMPT_FILE).is_file() else {}
    if given.get("chat") is False:
        saved.pop("system", None)  # which is for chats
    return Prompt.of({**saved, **given}) if saved or given else None


def describe_classifier(classifier: Classifier, folder: Path) -> dict[str, Any]:
    """How another process loads the same classifier, as JSON: from its source, or from a copy saved in `folder`."""
    if isinstance(classifier, Plain):
        raise BadInput(f"{classifier.name} is a function, which runs in this process only; use jobs=1.")
    about = {"name": classifier.name, "attention": getattr(classifier.config, "_attn_implementation", None)}
    if isinstance(classifier.model, ZeroShotClassifier):
        about["zero_shot"] = classifier.model.asked.settings
    if classifier.loaded is not None and classifier.loaded[1] == huggingface.state(classifier.model):
        return about | classifier.loaded[0]
    if (fault := huggingface.fixed_weights(classifier.model)) is not None:
        raise BadInput(f"{classifier.name} cannot be saved for another process ({fault}); use jobs=1.")
    try:
        save_classifier(classifier, folder)
    except Exception as e:
        raise BadInput(f"{classifier.name} cannot be saved for another process ({_first_line(e)}); use jobs=1.") from e
    saved = {"model": str(folder), "revision": None, "device": str(classifier.device), "dtype": "auto"}
    return about | saved | {"prompt": None, "adapter": "live" if is_adapter(folder) else None}


def save(model: Any, folder: str | Path) -> None:
    """Write what `load` takes as a folder that `load` reads: safetensors and JSON, a SetFit model with its head.

    The folder must be new or empty.
    """
    folder = Path(folder).expanduser()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"'{folder}' exists and is not empty; give a new folder.")
    classifier = load(model)
    if isinstance(classifier, Plain):
        raise BadInput(f"{classifier.name} is a function from texts to probabilities, which cannot be saved here.")
    if isinstance(classifier.model, ZeroShotClassifier):
        raise BadInput("a zero-shot classifier is an entailment model with your labels; save that model.")
    save_classifier(classifier, folder)


def save_classifier(classifier: Classifier, folder: Path) -> None:
    """Write the model and its tokenizer: a network of the papers as `heedful train` does, others as transformers."""
    if isinstance(classifier.model, Net):
        folder.mkdir(parents=True, exist_ok=True)
        special = {name: str(token) for name, token in classifier.tokenizer.special_tokens_map.items()}
        save_net(Saved(classifier.model, classifier.tokenizer.backend_tokenizer, special), folder)
        return
    with silence_transformers():
        write_folder(folder, lambda made: _write(classifier, made))


def _write(classifier: Classifier, folder: Path) -> None:
    model = classifier.model.language_model if isinstance(classifier, Prompted) else classifier.model
    if adapted := hasattr(model, "get_base_model"):
        save_adapted(model, folder, classifier.tokenizer.save_pretrained)
    else:
        model.save_pretrained(folder)
        classifier.tokenizer.save_pretrained(folder)
    if isinstance(classifier, Prompted):
        (folder / PROMPT_FILE).write_text(json.dumps(classifier.prompt.to_dict(), ensure_ascii=False), "utf-8")
    if adapted and load(folder, dtype="auto", adapter="live").fingerprint != classifier.fingerprint:
        way = "load it from the folder that peft writes" if model.active_peft_config.is_prompt_learning else "merge it"
        raise BadInput(f"its adapter is in a state that a folder does not hold; {way}")


def restore_classifier(description: Mapping[str, Any]) -> Classifier:
    """The inverse of `describe_classifier`."""
    arguments = {name: description[name] for name in ("model", "revision", "device", "dtype", "prompt", "adapter")}
    classifier = load(**arguments, **description.get("zero_shot", {}))
    classifier.name = description["name"]
    if description["attention"] != getattr(classifier.config, "_attn_implementation", None):
        classifier.model.set_attn_implementation(description["attention"])
    return classifier


def _dtype(dtype: str | torch.dtype | None) -> Any:
    if dtype is None or dtype == "auto":
        return dtype or torch.float32
    short = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp64": "float64"}
    kind = getattr(torch, short.get(dtype, dtype), None) if isinstance(dtype, str) else dtype
    if not isinstance(kind, torch.dtype) or not kind.is_floating_point:
        raise BadInput(f"dtype '{dtype}' is not one of float32, float64, float16, bfloat16, auto.")
    return kind


def chosen_device(device: str | torch.device | None) -> torch.device:
    """The device of this name; "auto" is the first of cuda and mps that is here, or else the CPU."""
    if device is None:
        return torch.device("cpu")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        place = torch.device(device)
    except (RuntimeError, TypeError) as e:
        raise _no_device(device) from e
    if place.type == "meta":  # its tensors have no numbers
        raise _no_device(device)
    return place


def _no_device(device: Any) -> BadInput:
    return BadInput(f"device '{device}' is not one of auto, cpu, cuda, mps.")


def _from_files(
    source: str, revision: str | None, dtype: Any, on_cpu: bool, adapter: AdapterUse | None, asked: Mapping[str, Any]
) -> Classifier:
    if dtype is torch.bfloat16 and on_cpu and not use_bf16():
        dtype = torch.float32
    folder = Path(source).expanduser()
    if len(source) > 4096 or any(len(part) > 255 for part in folder.parts):
        raise BadInput(f"'{source[:40]}…' is too long for a model folder or a hub name.")
    if (folder / "heedful.json").is_file():
        if asked:
            raise BadInput(f"'{source}' is a network that heedful trained, and takes no prompt; give a language model.")
        net = load_saved(folder)
        classifier = Classifier(net.model, wrapped(net.tokenizer, net.special), name=str(folder))
        if dtype != "auto":
            classifier.model.to(dtype)
        return classifier
    if folder.is_dir():
        source = str(folder)
    elif folder.exists() or source.startswith((".", "/", "~")):
        raise BadInput(f"'{source}' is not a folder; give a model folder with config.json and model.safetensors.")
    with silence_transformers():
        folder = folder if folder.is_dir() else _download(source, revision)
        prompt = _whole_prompt(folder, asked)
        if is_adapter(folder):
            model, tokenizer = _with_adapter(source, folder, dtype, adapter, prompt)
        elif adapter is not None:
            raise BadInput(f"'{source}' is no folder that peft wrote; leave adapter out.")
        elif prompt is not None:
            model, tokenizer = _language_model(source, folder, dtype, prompt), _tokenizer(source, folder)
        else:
            model, tokenizer = _with_head(source, folder, dtype) or (
                _model(source, folder, dtype),
                _tokenizer(source, folder),
            )
    if on_cpu and holds_bf16(model) and not use_bf16():  # dtype="auto" and a bf16 checkpoint
        model.float()
    return Classifier(model, tokenizer, source) if prompt is None else Prompted(model, tokenizer, prompt, source)


def wrapped(tokenizer: Any, special: Mapping[str, str]) -> Any:
    """A `tokenizers.Tokenizer` as a transformers tokenizer; `special` maps roles to special tokens."""
    from transformers import PreTrainedTokenizerFast

    named = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_input_names=named, **special)


def _download(source: str, revision: str | None) -> Path:
    """The folder of a hub model in the local cache. Only descriptions and the weights in them are downloaded."""
    from huggingface_hub import snapshot_download

    try:
        descriptions = ["*.json", "*.txt", "*.model"]
        # subtle: "*" also matches slashes
        folder = Path(snapshot_download(source, revision=revision, allow_patterns=descriptions, ignore_patterns="*/*"))
        weights = weight_names(folder, _config(folder)) + bodies.remote_files(folder)
        names = [WEIGHTS] if is_adapter(folder) else weights
        return Path(snapshot_download(source, revision=revision, allow_patterns=names))
    except HeedfulError:
        raise
    except Exception as e:
        raise _explained(e, source) from e


def _config(folder: Path) -> dict[str, Any]:
    """The content of config.json; empty if it is damaged, which transformers reports later."""
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return config if isinstance(config, dict) else {}


def _pretrained(auto: Any, source: str, folder: Path, needs_tokenizer: bool = True, **more: Any) -> Any:
    """A model from a checked folder: only from its safetensors files, no larger than these, without running code."""
    _check_folder(folder, auto.__name__, needs_tokenizer)
    with _limited(source, folder):
        return auto.from_pretrained(str(folder), trust_remote_code=False, use_safetensors=True, **more)


def _skeleton(auto: Any, source: str, folder: Path) -> Any:
    """The model of a folder without its weights, on the meta device."""
    from transformers import AutoConfig

    _check_folder(folder, auto.__name__, needs_tokenizer=False)
    with _limited(source, folder), torch.device("meta"):
        config = AutoConfig.from_pretrained(str(folder), trust_remote_code=False)
        return auto.from_config(config, trust_remote_code=False)


@contextmanager
def _limited(source: str, folder: Path) -> Iterator[None]:
    """Inside, a model that is larger than the safetensors files of the folder is refused, and errors are explained."""
    config = _config(folder)
    contents = Contents.read(source, weight_files(folder, weight_names(folder, config)))
    contents.check_config(config)
    try:
        with contents.limiting():
            yield
    except HeedfulError:
        raise
    except Exception as e:
        raise _explained(e, source) from e


def _check_folder(folder: Path, loader: str, needs_tokenizer: bool) -> None:
    names = {path.name for path in folder.iterdir()}
    if "config.json" not in names:
        raise BadInput(f"'{folder}' has no config.json, so it is not a model folder; save one with save_pretrained.")
    if not any(name.endswith(".safetensors") for name in names):
        pickled = sorted(name for name in names if name.endswith((".bin", ".pt", ".pth", ".ckpt", ".pkl")))
        if pickled:
            convert = f"{loader}.from_pretrained(folder, use_safetensors=False).save_pretrained(folder)"
            unsafe = f"'{folder}' has only pickled weights ({pickled[0]}), which can run code when loaded"
            raise BadInput(f"{unsafe}; if you trust them, convert them once with {convert}.")
        raise BadInput(f"'{folder}' has no weights (model.safetensors); save the model with save_pretrained.")
    if names & set(_TOKENIZER_FILES) or not needs_tokenizer:
        return
    config = (folder / "tokenizer_config.json").read_text("utf-8") if "tokenizer_config.json" in names else ""
    if "ByT5Tokenizer" not in config and "CanineTokenizer" not in config:  # of bytes, characters: no vocabulary file
        raise BadInput(f"'{folder}' has no tokenizer (such as tokenizer.json); save it with tokenizer.save_pretrained.")


def _model(source: str, folder: Path, dtype: Any) -> Any:
    from transformers import AutoModelForSequenceClassification

    options = {"dtype": dtype, "output_loading_info": True, "ignore_mismatched_sizes": True}
    model, report = _pretrained(AutoModelForSequenceClassification, source, folder, **options)
    _check_trained(model, report, source, AutoModelForSequenceClassification)
    return model


def _check_trained(model: Any, report: Mapping[str, Any], source: str, auto: Any, given: Collection[str] = ()) -> None:
    """Refuse a model with weights that are neither in its files nor among those `given`."""
    missing = sorted(report["missing_keys"]) + sorted(str(key[0]) for key in report.get("mismatched_keys", ()))
    if missing := [name for name in missing if name not in given]:
        names = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
        kind = ", ".join(model.config.architectures or ["unknown"])
        untrained = f"'{source}' ({kind}) has no trained weights for {names}, so its predictions would be random"
        if auto.__name__ in _LANGUAGE_CLASSES:
            raise Unsupported(f"{untrained}; give a language model that {auto.__name__} loads.")
        do = "give a model that was fine-tuned for sequence classification"
        if kind.endswith(huggingface.LANGUAGE_MODELS):
            do += ", or a template and a verbalizer, by which a language model classifies"
        raise Unsupported(f"{untrained}; {do}.")


def _with_adapter(
    source: str, folder: Path, dtype: Any, use: AdapterUse | None, prompt: Prompt | None
) -> tuple[Any, Any]:
    """The model and the tokenizer of an adapter folder: of a classifier, or with a prompt of a language model."""
    adapter = Adapter.read(source, folder)
    if prompt is None and adapter.task in ("CAUSAL_LM", "SEQ_2_SEQ_LM"):
        kind = f"'{source}' is an adapter of a language model ({adapter.task})"
        raise Unsupported(f"{kind}; give template= and verbalizer= to classify with a prompt.")
    if prompt is not None and adapter.task == "SEQ_CLS":
        raise BadInput(f"'{source}' is an adapter of a classifier (SEQ_CLS) and takes no prompt; leave it out.")
    return with_adapter(source, folder, dtype, use, prompt)[1:]


def with_adapter(
    source: str, folder: Path, dtype: Any, use: AdapterUse | None = None, prompt: Prompt | None = None
) -> tuple[Any, Any, Any]:
    """The transformers class of an adapter's base, the model with the adapter, and the tokenizer.

    The class follows from the adapter's task or, with a prompt, from the base.
    """
    import transformers

    adapter = Adapter.read(source, folder)
    auto = getattr(transformers, adapter.auto_class())
    base = adapter.base_folder()
    if base is None:
        try:
            base = _download(adapter.base, adapter.settings.get("revision"))
        except BadInput as e:
            raise e if e.__cause__ is None else adapter.missing_base(e.__cause__) from e
    if prompt is not None:
        auto = _language_class(adapter.base, _config(base), prompt, "the base model on which the adapter was trained")
    own = {path.name for path in folder.iterdir()} & {*_TOKENIZER_FILES, "tokenizer_config.json"}
    labels = adapter.label_options(_skeleton(auto, str(base), base))
    options: dict[str, Any] = {"dtype": dtype, "output_loading_info": True, "ignore_mismatched_sizes": True, **labels}
    model, report = _pretrained(auto, str(base), base, not own, **options)
    _check_trained(model, report, source, auto, adapter.shapes)
    model = adapter.adapt(model, use, None if dtype == "auto" else dtype)
    return auto, model, _tokenizer(source, folder if own else base)


def _language_model(source: str, folder: Path, dtype: Any, prompt: Prompt) -> Any:
    """A language model from a checked folder: masked, causal or encoder-decoder."""
    auto = _language_class(source, _config(folder), prompt, "it without a prompt")
    model, report = _pretrained(auto, source, folder, dtype=dtype, output_loading_info=True)
    _check_trained(model, report, source, auto)
    return model


def _language_class(source: str, config: Mapping[str, Any], prompt: Prompt, instead: str) -> Any:
    """The transformers class of a language model; `instead` of a classifier, which is refused, this is to be given."""
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES as MASKED

    names = config.get("architectures")
    architecture = str(names[0]) if isinstance(names, list) and names else "unknown"
    if architecture.endswith("ForSequenceClassification"):
        found = f"'{source}' is a classifier ({architecture}), and a prompt is for language models"
        raise BadInput(f"{found}; give {instead}.")
    continues = config.get("is_decoder") or architecture.endswith(("ForCausalLM", "LMHeadModel"))
    if config.get("is_encoder_decoder"):
        name = "AutoModelForSeq2SeqLM"
    elif str(config.get("model_type")) in MASKED and not continues:  # some of these have a causal class too
        name = "AutoModelForMaskedLM"
    else:
        name = "AutoModelForCausalLM"
    if config and MASK in prompt.template and name != "AutoModelForMaskedLM":
        kind = f"{_LANGUAGE_CLASSES[name]} language model ({architecture}), which fills no mask"
        raise BadInput(f"the template has {MASK}, and '{source}' is {kind}; leave {MASK} out.")
    return getattr(transformers, name)


def _with_head(source: str, folder: Path, dtype: Any) -> tuple[Any, Any] | None:
    """A body of sentence-transformers with its head, and its tokenizer; None for a folder of another kind."""
    from transformers import AutoModel, AutoModelForTextEncoding

    found = bodies.BodyFolder.find(folder)
    if found is None:
        return None
    found.check_head()
    auto = AutoModelForTextEncoding if found.encoder_alone else AutoModel
    body, report = _pretrained(auto, source, found.transformer, dtype=dtype, output_loading_info=True)
    model = found.classifier(body.eval(), sorted(report["missing_keys"]))
    return model, found.tokenizer(_tokenizer(source, found.transformer))


def encoder(source: str, labels: Sequence[str], multi: bool = False) -> tuple[Any, Any, int | None]:
    """A pretrained encoder with a new head for these labels, its tokenizer, and its largest number of tokens."""
    from transformers import AutoModelForSequenceClassification

    if not source:
        raise BadInput("encoder is empty; set encoder=FOLDER, or a Hugging Face hub name.")
    folder = Path(source).expanduser()
    numbers = {name: i for i, name in enumerate(labels)}
    options: dict[str, Any] = {"num_labels": len(labels), "id2label": dict(enumerate(labels)), "label2id": numbers}
    options |= {"problem_type": "multi_label_classification"} if multi else {}
    options |= {"dtype": torch.float32, "ignore_mismatched_sizes": True}
    with silence_transformers():
        folder = folder if folder.is_dir() else _download(source, None)
        model = _pretrained(AutoModelForSequenceClassification, source, folder, **options)
        tokenizer = _tokenizer(source, folder)
    check_trainable(model, tokenizer, source)
    return model, tokenizer, huggingface.limit(model, tokenizer)


def check_trainable(model: Any, tokenizer: Any, source: str) -> None:
    """Refuse a model whose texts cannot be trained in batches."""
    if not tokenizer.is_fast:
        raise Unsupported(f"'{source}' has a slow tokenizer, and training needs a fast one (tokenizer.json).")
    if model.config.pad_token_id is None:
        raise Unsupported(f"'{source}' has no padding token, so its texts cannot be trained in batches.")


@lru_cache(maxsize=2)
def _masked_model(source: str) -> tuple[Any, Any]:
    from transformers import AutoModelForMaskedLM

    folder = Path(source)
    if not folder.is_dir():
        raise BadInput(f"'{source}' is not a folder; give mlm:FOLDER with a masked language model.")
    with silence_transformers():
        model, report = _pretrained(AutoModelForMaskedLM, source, folder, output_loading_info=True, dtype=torch.float32)
        if report["missing_keys"]:
            raise Unsupported(f"'{source}' has no trained masked-language head ({sorted(report['missing_keys'])[0]}).")
        return model.eval(), _tokenizer(source, folder)


def language_model(source: str, tokenizer: Any) -> Callable[[Batch], Tensor]:
    """A masked language model in a folder as a function: Batch -> probabilities [b,t,v], 0 for special tokens.

    It must have the same token ids as the classifier's tokenizer.
    """
    model, its_tokenizer = _masked_model(str(Path(source).expanduser()))
    if its_tokenizer.get_vocab() != tokenizer.get_vocab():
        raise BadInput(f"'{source}' has another vocabulary than the classifier; give a model with the same one.")
    special = sorted(set(its_tokenizer.all_special_ids))
    limit = huggingface.limit(model, its_tokenizer)

    def chances(batch: Batch) -> Tensor:
        if limit is not None and batch.ids.shape[1] > limit:
            raise BadInput(f"the text has {batch.ids.shape[1]:,} tokens and '{source}' reads {limit:,}; shorten it.")
        inputs = {"input_ids": batch.ids, "attention_mask": batch.mask}
        if batch.segments is not None:
            inputs["token_type_ids"] = batch.segments
        with torch.no_grad():
            scores = model(**inputs).logits.float()
        scores[..., special] = -torch.inf
        scores[..., len(its_tokenizer) :] = -torch.inf  # unused rows of the embedding table
        return torch.softmax(scores, -1)

    return chances


def _tokenizer(source: str, folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)
    except Exception as e:
        raise BadInput(f"the tokenizer of '{source}' cannot be read ({_first_line(e)}).") from e
    # subtle: without a vocabulary, transformers builds an empty tokenizer, for which all words are unknown
    if len(tokenizer) <= len(set(tokenizer.all_special_ids)):
        raise BadInput(f"the tokenizer of '{source}' has an empty vocabulary; save it with tokenizer.save_pretrained.")
    return tokenizer


def _explained(e: Exception, source: str) -> HeedfulError:
    """An error of loading, in one sentence."""
    message = f"{type(e).__name__}: {e}"
    if "SafetensorError" in message or "header" in message.lower():
        return BadInput(f"the weights of '{source}' are damaged ({_first_line(e)}); copy or download them again.")
    if found := _NO_CLASS.search(message):
        config, auto = found.groups()
        if auto in _LANGUAGE_CLASSES:
            return Unsupported(f"'{source}' ({config}) has no language model in transformers ({auto}); give another.")
        way = "give another model, or a language model with a template and a verbalizer"
        return Unsupported(f"'{source}' ({config}) has no sequence classifier in transformers; {way}.")
    if any(sign in message for sign in ("Unrecognized model", "does not recognize")):
        return Unsupported(f"'{source}' has no sequence classifier in transformers ({_first_line(e)}).")
    if "trust_remote_code" in message:
        return Unsupported(f"'{source}' needs its own code, which heedful does not execute.")
    if Path(source).exists():
        return BadInput(f"the model in '{source}' cannot be loaded ({_first_line(e)}).")
    return BadInput(
        f"'{source}' is not a local folder and could not be downloaded from the Hugging Face hub ({_first_line(e)}); "
        "check the name and the connection, or give a folder."
    )


def _first_line(e: BaseException) -> str:
    line = (str(e).strip().splitlines() or [type(e).__name__])[0].split(". ")[0].rstrip(".")
    return line if len(line) <= 160 else line[:157] + "…"


@contextmanager
def silence_transformers() -> Iterator[None]:
    """No progress bars and no log messages while a model is read or written; problems are raised as errors."""
    from transformers.utils import logging as hf

    hub = logging.getLogger("huggingface_hub")
    with _LOADING:
        verbosity, bars, level = hf.get_verbosity(), hf.is_progress_bar_enabled(), hub.level
        try:
            hf.set_verbosity(logging.CRITICAL)
            hf.disable_progress_bar()
            hub.setLevel(logging.CRITICAL)
            yield
        finally:
            hf.set_verbosity(verbosity)
            hub.setLevel(level)
            if bars:
                hf.enable_progress_bar()
