"""Facts: what a Hugging Face model says of itself, read from its configuration, its modules and its weights."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch
from torch import Tensor, nn

from heedful.core.target import Head

OTHER_HEADS = (
    "Model",
    "LMHeadModel",
    "ForCausalLM",
    "ForMaskedLM",
    "ForConditionalGeneration",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
    "ForPreTraining",
    "ForNextSentencePrediction",
)
_RELATIVE = ("t5", "mt5", "umt5", "xlnet", "bloom")  # positions by distance: any length
# what a configuration says of its file, not of its model
_UNSTEADY = (
    "_name_or_path",
    "_commit_hash",
    "transformers_version",
    "dtype",
    "torch_dtype",
    "architectures",
    "_attn_implementation_internal",
)


def text_config(model: Any) -> Any:
    """The configuration of the part that reads text."""
    return model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config


def heads(model: Any, kind: str = "self") -> int:
    """How many heads a layer of this kind of attention has, as the configuration says; 1 where it does not."""
    config = text_config(model)
    names = ("decoder_attention_heads",) if kind == "cross" else ()
    known = (getattr(config, name, None) for name in (*names, "num_attention_heads", "heads"))
    return next((n for n in known if isinstance(n, int)), 1)


def head(config: Any) -> Head:
    """How logits become probabilities. One logit is a yes/no question unless the model says regression."""
    kind = getattr(config, "problem_type", None)
    if kind == "regression":
        return "regression"
    return "sigmoid" if kind == "multi_label_classification" or config.num_labels == 1 else "softmax"


def labels(config: Any) -> tuple[str, ...]:
    """Names from `id2label`; a single logit answers no and yes: two names, or label and 'not label'."""
    names = {int(k): str(v) for k, v in (getattr(config, "id2label", None) or {}).items()}
    if config.num_labels == 1 and len(names) == 2 and head(config) == "sigmoid":
        return (names[0], names[1])
    found = tuple(names.get(i, f"LABEL_{i}") for i in range(config.num_labels))
    return (f"not {found[0]}", found[0]) if len(found) == 1 and head(config) == "sigmoid" else found


def limit(model: Any, tokenizer: Any) -> int | None:
    """How many tokens the model reads, or None for no limit."""
    config = text_config(model)
    positions = getattr(config, "max_position_embeddings", None) or 0
    given = [int(positions)] if positions > 0 and getattr(config, "model_type", "") not in _RELATIVE else []
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding) and "position" in name and module.padding_idx is not None and given:
            given = [module.num_embeddings - module.padding_idx - 1]  # roberta counts from padding_idx + 1
    stated = getattr(tokenizer, "model_max_length", None)
    return min([*given, *([int(stated)] if stated and stated < 1e9 else [])], default=None)


def sites(model: Any) -> list[tuple[str, int]]:
    """(kind, layer) of each attention matrix, in the order in which a forward pass makes them."""
    if hasattr(model, "attention_sites"):
        return list(model.attention_sites)
    config = text_config(model)
    encoder = [("self", layer) for layer in range(config.num_hidden_layers)]
    if not getattr(config, "is_encoder_decoder", False):
        return encoder
    above = getattr(config, "decoder_layers", None) or getattr(config, "num_decoder_layers", None)
    layers = range(above or config.num_hidden_layers)
    return encoder + [(kind, layer) for layer in layers for kind in ("decoder", "cross")]


def reported(out: Any) -> list[Tensor]:
    """What a model itself reports as its attention, in the order of `sites`."""
    if getattr(out, "cross_attentions", None):
        decoder = [w for pair in zip(out.decoder_attentions, out.cross_attentions, strict=True) for w in pair]
        return [*out.encoder_attentions, *decoder]
    return list(getattr(out, "attentions", None) or ())


def words(model: Any) -> nn.Embedding | None:
    """The table of word embeddings, if there is one."""
    try:
        table = model.get_input_embeddings()
    except (NotImplementedError, AttributeError):
        return None
    return table if isinstance(table, nn.Embedding) else None


def fingerprint(model: Any) -> str:
    """A hash of a model: of each tensor its name, shape, dtype, the exact sum of its bits, and 1024 of its bytes."""
    told = model.config.to_dict() if hasattr(model.config, "to_dict") else vars(model.config)
    steady = {k: v for k, v in told.items() if k not in _UNSTEADY}
    header = json.dumps([type(model).__name__, steady], sort_keys=True, default=str)
    digest = hashlib.blake2b(header.encode(), digest_size=8)
    for name, tensor in sorted(model.state_dict().items()):
        bits = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
        total = int(bits[: len(bits) // 4 * 4].view(torch.int32).sum(dtype=torch.int64))
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} {total}".encode())
        digest.update(bits[:: max(1, len(bits) // 1024)][:1024].numpy().tobytes())
    return digest.hexdigest()


def state(model: Any) -> list[tuple[int, int]]:
    """What changes whenever a weight is changed in place or exchanged: cheap to compare, meaningless otherwise."""
    tensors = model.state_dict(keep_vars=True).values()
    return [(t.data_ptr(), 0 if t.is_inference() else t._version) for t in tensors]
