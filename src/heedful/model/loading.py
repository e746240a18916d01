"""Loading: a folder, a hub name, a pipeline or None -> a Classifier. No loaded code is executed."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from threading import RLock
from typing import Any

import torch
from torch import Tensor

from heedful.core.errors import BadInput, HeedfulError, Unsupported
from heedful.core.files import write_folder
from heedful.model import huggingface
from heedful.model.batch import Batch
from heedful.model.classifier import Classifier
from heedful.model.function import Plain
from heedful.model.precision import holds_bf16, use_bf16
from heedful.nets.base import Net, Saved, load_saved, save
from heedful.nets.weights import Contents, weight_files, weight_names

_TOKENIZER_FILES = (
    "tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "tokenizer.model", "sentencepiece.bpe.model",
    "sentencepiece.model", "spm.model",
)  # fmt: skip
_LOADING = RLock()  # `_silence` changes global settings of the process


def load(
    model: str | Path | Any | None = None,
    revision: str | None = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
) -> Classifier:
    """A classifier from a folder or hub name, a Hugging Face pipeline, a (model, tokenizer) pair, or the default.

    Weights are read from safetensors only and no code of the repository runs. The default `dtype` is float32; "auto"
    is the checkpoint's. bf16 becomes float32 on a CPU that cannot compute it. A pipeline keeps its device and dtype.
    """
    if isinstance(model, (str, Path)) or model is None:
        source = str(files("heedful.data") / "assets" / "model") if model is None else str(model)
        classifier = _from_files(source, revision, _dtype(dtype), device is None or str(device).startswith("cpu"))
        if model is None:
            classifier.name = "heedful-default"
        if device is not None:
            try:
                classifier.model.to(torch.device(device))
            except (RuntimeError, AssertionError) as e:
                raise BadInput(f"device '{device}' cannot be used here ({_first_line(e)}); try --device cpu.") from e
        here = model is not None and Path(source).expanduser().exists()
        arguments = {
            "model": str(Path(source).expanduser().absolute()) if here else model,
            "revision": revision,
            "device": None if device is None else str(device),
            "dtype": None if dtype is None else str(dtype).removeprefix("torch."),
        }
        classifier.loaded = arguments, huggingface.state(classifier.model)
        return classifier
    if isinstance(model, Classifier):
        return model
    if isinstance(model, tuple) and len(model) == 2:
        return Classifier(*model)
    if hasattr(model, "model") and hasattr(model, "tokenizer"):
        if revision is not None or device is not None or dtype is not None:
            raise BadInput("a pipeline has its own revision, device and dtype; set them where you create it.")
        return Classifier(model.model, model.tokenizer)
    expected = "a folder, a hub name, a text-classification pipeline or a (model, tokenizer) pair"
    raise BadInput(f"the model is a {type(model).__name__}; give {expected}.")


def describe_classifier(classifier: Classifier, folder: Path) -> dict[str, Any]:
    """How another process loads the same classifier, as JSON: from its source, or from a copy saved in `folder`."""
    if isinstance(classifier, Plain):
        raise BadInput(f"{classifier.name} is a function, which runs in this process only; use jobs=1.")
    about = {"name": classifier.name, "attention": getattr(classifier.config, "_attn_implementation", None)}
    if classifier.loaded is not None and classifier.loaded[1] == huggingface.state(classifier.model):
        return about | classifier.loaded[0]
    try:
        save_classifier(classifier, folder)
    except Exception as e:
        raise BadInput(f"{classifier.name} cannot be saved for another process ({_first_line(e)}); use jobs=1.") from e
    return about | {"model": str(folder), "revision": None, "device": str(classifier.device), "dtype": "auto"}


def save_classifier(classifier: Classifier, folder: Path) -> None:
    """Write the model and its tokenizer: a network of the papers as `heedful train` does, others as transformers."""
    if isinstance(classifier.model, Net):
        folder.mkdir(parents=True, exist_ok=True)
        special = {name: str(token) for name, token in classifier.tokenizer.special_tokens_map.items()}
        save(Saved(classifier.model, classifier.tokenizer.backend_tokenizer, special), folder)
    else:
        with _silence():
            items = classifier.model, classifier.tokenizer
            write_folder(folder, lambda made: [item.save_pretrained(made) for item in items])


def restore_classifier(description: Mapping[str, Any]) -> Classifier:
    """The inverse of `describe_classifier`."""
    classifier = load(**{name: description[name] for name in ("model", "revision", "device", "dtype")})
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


def _from_files(source: str, revision: str | None, dtype: Any, on_cpu: bool) -> Classifier:
    if dtype is torch.bfloat16 and on_cpu and not use_bf16():
        dtype = torch.float32
    folder = Path(source).expanduser()
    if len(source) > 4096 or any(len(part) > 255 for part in folder.parts):
        raise BadInput(f"'{source[:40]}…' is too long for a model folder or a hub name.")
    if (folder / "heedful.json").is_file():
        net = load_saved(folder)
        classifier = Classifier(net.model, wrapped(net.tokenizer, net.special), name=str(folder))
        if dtype != "auto":
            classifier.model.to(dtype)
        return classifier
    if folder.is_dir():
        source = str(folder)
    elif folder.exists() or source.startswith((".", "/", "~")):
        raise BadInput(f"'{source}' is not a folder; give a model folder with config.json and model.safetensors.")
    with _silence():
        folder = folder if folder.is_dir() else _download(source, revision)
        model = _model(source, folder, dtype)
        tokenizer = _tokenizer(source, folder)
    if on_cpu and holds_bf16(model) and not use_bf16():  # dtype="auto" and a bf16 checkpoint
        model.float()
    return Classifier(model, tokenizer, name=source)


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
        names = weight_names(folder, _config(folder))
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


def _pretrained(auto: Any, source: str, folder: Path, **more: Any) -> Any:
    """A model from a checked folder: only from its safetensors files, no larger than these, without running code."""
    _check_folder(folder, auto.__name__)
    config = _config(folder)
    contents = Contents.read(source, weight_files(folder, weight_names(folder, config)))
    contents.check_config(config)
    try:
        with contents.limiting():
            return auto.from_pretrained(str(folder), trust_remote_code=False, use_safetensors=True, **more)
    except HeedfulError:
        raise
    except Exception as e:
        raise _explained(e, source) from e


def _check_folder(folder: Path, loader: str) -> None:
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
    if "adapter_config.json" in names:
        adapter = f"'{folder}' holds an adapter, whose base model is stored elsewhere"
        raise Unsupported(f"{adapter}; merge them with peft's merge_and_unload and save the result.")
    if names & set(_TOKENIZER_FILES):
        return
    config = (folder / "tokenizer_config.json").read_text("utf-8") if "tokenizer_config.json" in names else ""
    if "ByT5Tokenizer" not in config and "CanineTokenizer" not in config:  # of bytes, characters: no vocabulary file
        raise BadInput(f"'{folder}' has no tokenizer (such as tokenizer.json); save it with tokenizer.save_pretrained.")


def _model(source: str, folder: Path, dtype: Any) -> Any:
    from transformers import AutoModelForSequenceClassification

    options = {"dtype": dtype, "output_loading_info": True, "ignore_mismatched_sizes": True}
    model, report = _pretrained(AutoModelForSequenceClassification, source, folder, **options)
    missing = sorted(report["missing_keys"]) + sorted(str(key[0]) for key in report.get("mismatched_keys", ()))
    if missing:
        names = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
        kind = ", ".join(model.config.architectures or ["unknown"])
        untrained = f"'{source}' ({kind}) has no trained weights for {names}, so its predictions would be random"
        raise Unsupported(f"{untrained}; give a model that was fine-tuned for sequence classification.")
    return model


def encoder(source: str, labels: Sequence[str], multi: bool = False) -> tuple[Any, Any, int | None]:
    """A pretrained encoder with a new head for these labels, its tokenizer, and its largest number of tokens."""
    from transformers import AutoModelForSequenceClassification

    if not source:
        raise BadInput("encoder is empty; set encoder=FOLDER, or a Hugging Face hub name.")
    folder = Path(source).expanduser()
    numbers = {name: i for i, name in enumerate(labels)}
    options = {"num_labels": len(labels), "id2label": dict(enumerate(labels)), "label2id": numbers}
    options |= {"problem_type": "multi_label_classification"} if multi else {}
    options |= {"dtype": torch.float32, "ignore_mismatched_sizes": True}
    with _silence():
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
    with _silence():
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
    signs = ("Unrecognized configuration class", "Unrecognized model", "does not recognize")
    if any(sign in message for sign in signs):
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
def _silence() -> Iterator[None]:
    """No progress bars and no log messages while loading; problems are raised as errors."""
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
