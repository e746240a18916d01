"""Hugging Face: properties of a model, from its configuration, its modules and its weights."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from typing import Any, Literal

import torch
from torch import Tensor, nn

from heedful.core.alignment import align_pieces
from heedful.core.errors import Unsupported
from heedful.core.target import Head
from heedful.core.tokens import Span, Tokens, trim, with_marks, word_indices
from heedful.model import packed

LANGUAGE_MODELS = ("LMHeadModel", "ForCausalLM", "ForMaskedLM", "ForConditionalGeneration")
OTHER_HEADS = (
    "Model", *LANGUAGE_MODELS, "ForTokenClassification", "ForQuestionAnswering", "ForMultipleChoice", "ForPreTraining",
    "ForNextSentencePrediction",
)  # fmt: skip
ALIGNMENT_BYTES = 64  # of memory that torch allocates
_RELATIVE = ("t5", "mt5", "umt5", "xlnet", "bloom")  # relative positions: any length
# fields of a configuration that describe its file, not its model
_UNSTEADY = (
    "_name_or_path", "_commit_hash", "transformers_version", "dtype", "torch_dtype", "architectures",
    "_attn_implementation_internal",
)  # fmt: skip
_UNSTEADY_ADAPTER = ("base_model_name_or_path", "revision", "inference_mode", "peft_version", "auto_mapping")


def text_config(model: Any) -> Any:
    """The configuration of the part that reads text."""
    return model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config


def batch_axis(model: Any) -> int:
    """The batch axis of a model's hidden states: 0 in [b,t,d], and 1 in xlnet, which has [t,b,d]."""
    return 1 if getattr(model.config, "model_type", "") == "xlnet" else 0


def head_count(model: Any, kind: str = "self") -> int:
    """The number of heads of this kind of attention in the configuration; 1 if it is not there."""
    config = text_config(model)
    names = ("decoder_attention_heads",) if kind == "cross" else ()
    known = (getattr(config, name, None) for name in (*names, "num_attention_heads", "heads"))
    return next((n for n in known if isinstance(n, int)), 1)


def output_head(config: Any) -> Head:
    """How logits become probabilities. One logit is a yes/no output unless the problem type is regression."""
    kind = getattr(config, "problem_type", None)
    if kind == "regression":
        return "regression"
    return "sigmoid" if kind == "multi_label_classification" or config.num_labels == 1 else "softmax"


def config_labels(config: Any) -> tuple[str, ...]:
    """Names from `id2label`; a single logit has two labels: its two names, or 'not label' and label."""
    names = {int(k): str(v) for k, v in (getattr(config, "id2label", None) or {}).items()}
    if config.num_labels == 1 and len(names) == 2 and output_head(config) == "sigmoid":
        return (names[0], names[1])
    whole = tuple(names.get(i, f"LABEL_{i}") for i in range(config.num_labels))
    return (f"not {whole[0]}", whole[0]) if len(whole) == 1 and output_head(config) == "sigmoid" else whole


def limit(model: Any, tokenizer: Any) -> int | None:
    """The largest number of tokens, or None for no limit."""
    config = text_config(model)
    positions = getattr(config, "max_position_embeddings", None) or 0
    limits = [int(positions)] if positions > 0 and getattr(config, "model_type", "") not in _RELATIVE else []
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding) and "position" in name and module.padding_idx is not None and limits:
            limits = [module.num_embeddings - module.padding_idx - 1]  # roberta counts from padding_idx + 1
    max_length = getattr(tokenizer, "model_max_length", None)
    whole = min([*limits, *([int(max_length)] if max_length and max_length < 1e9 else [])], default=None)
    reserved = getattr(model, "reserved_tokens", 0) + virtual_tokens(model)
    return None if whole is None else whole - reserved


def virtual_tokens(model: Any) -> int:
    """How many learned vectors an adapter (peft) puts before the text."""
    adapted = next((module for module in model.modules() if hasattr(module, "active_peft_config")), None)
    configs = [] if adapted is None else [adapted.peft_config[name] for name in adapted.active_adapters]
    return sum(int(config.num_virtual_tokens) for config in configs if config.is_prompt_learning)


def sites(model: Any) -> list[tuple[str, int]]:
    """(kind, layer) of each attention matrix, in the order of a forward pass."""
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
    """The attention in a model's own output, in the order of `sites`."""
    if getattr(out, "cross_attentions", None):
        decoder = [w for pair in zip(out.decoder_attentions, out.cross_attentions, strict=True) for w in pair]
        return [*out.encoder_attentions, *decoder]
    return list(getattr(out, "attentions", None) or ())


def word_embeddings(model: Any) -> nn.Embedding | None:
    """The table of word embeddings, if there is one."""
    try:
        table = model.get_input_embeddings()
    except (NotImplementedError, AttributeError):
        return None
    return table if isinstance(table, nn.Embedding) else None


def model_fingerprint(model: Any) -> str:
    """A hash of the configuration and, for each tensor, its name, shape, dtype, sum of its bits, and 1024 bytes.

    Packed int8 weights enter as their integers and scales, offloaded ones as they are stored, and adapters as their
    settings too.
    """
    config = model.config.to_dict() if hasattr(model.config, "to_dict") else vars(model.config)
    steady = {k: v for k, v in config.items() if k not in _UNSTEADY}
    adapted = _adapters(model)
    header = json.dumps([type(model).__name__, steady, *([adapted] if adapted else [])], sort_keys=True, default=str)
    digest = hashlib.blake2b(header.encode(), digest_size=8)
    offloaded = _offloaded(model)
    for entry, value in sorted(model.state_dict().items(), key=lambda item: item[0]):
        for name, tensor in _stored(entry, offloaded[entry]() if entry in offloaded else value):
            bits = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
            total = int(bits[: len(bits) // 4 * 4].view(torch.int32).sum(dtype=torch.int64))
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} {total}".encode())
            digest.update(bits[:: max(1, len(bits) // 1024)][:1024].numpy().tobytes())
    return digest.hexdigest()


def _stored(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """The plain tensors of an entry of a state dictionary: itself, or the parts of a packed or wrapped one."""
    if isinstance(value, (tuple, list)):
        for i, part in enumerate(value):
            yield from _stored(f"{name}.{i}", part)
    elif not isinstance(value, Tensor):
        if not isinstance(value, (torch.dtype, type(None))):
            raise Unsupported(f"its weight '{name}' is a {type(value).__name__}, which cannot be read.")
    elif value.is_quantized:
        by_channel = value.qscheme() in (torch.per_channel_affine, torch.per_channel_symmetric)
        scale = value.q_per_channel_scales() if by_channel else torch.tensor(value.q_scale())
        zero = value.q_per_channel_zero_points() if by_channel else torch.tensor(value.q_zero_point())
        yield from ((f"{name}.integers", value.int_repr()), (f"{name}.scale", scale), (f"{name}.zero", zero))
    elif hasattr(value, "__tensor_flatten__"):  # a wrapper, such as torchao's
        for part in value.__tensor_flatten__()[0]:
            yield from _stored(f"{name}.{part}", getattr(value, part))
    else:
        yield name, value


def _adapters(model: Any) -> list[Any]:
    """What decides how the adapters of a model (peft) are used, besides their weights; empty without adapters."""
    if not hasattr(model, "peft_config"):
        return []
    settings = {
        # subtle: peft adds the names of heads again each time that it loads an adapter
        name: {
            k: sorted({str(x) for x in v}) if isinstance(v, (list, tuple, set)) else v
            for k, v in config.to_dict().items()
            if k not in _UNSTEADY_ADAPTER
        }
        for name, config in model.peft_config.items()
    }
    names = ("active_adapters", "disable_adapters", "merged_adapters", "scaling")
    layers = [
        (name, [getattr(module, key, None) for key in names])
        for name, module in model.named_modules()
        if hasattr(module, "merged_adapters")
    ]
    return [json.dumps(part, sort_keys=True, default=str) for part in (settings, layers)]


def _offloaded(model: Any) -> dict[str, Callable[[], Tensor]]:
    """How to read each weight that accelerate keeps elsewhere, by its name in the state dictionary."""
    found: dict[str, Callable[[], Tensor]] = {}
    for prefix, module in model.named_modules():
        hook = getattr(module, "_hf_hook", None)
        for one in (*getattr(hook, "hooks", ()), hook):
            stored = getattr(one, "weights_map", None)
            if stored is None:
                continue
            for name, tensor in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
                if tensor.is_meta:
                    found[f"{prefix}.{name}" if prefix else name] = partial(stored.__getitem__, name)
    return found


def device(model: Any) -> torch.device:
    """Where the model's inputs go: where its first weight is, or where accelerate runs it."""
    first: torch.device = next(model.parameters()).device
    if first.type != "meta":
        return first
    hooks = (getattr(module, "_hf_hook", None) for module in model.modules())
    devices = (getattr(one, "execution_device", None) for hook in hooks for one in (*getattr(hook, "hooks", ()), hook))
    return torch.device(next((device for device in devices if device is not None), "cpu"))


def fixed_weights(model: Any) -> str | None:
    """Why some of the model's weights can be neither changed nor saved, or None."""
    if packs := len(packed.packs(model)):
        return f"{packs} of its layers hold packed int8 weights"
    parameters = list(model.parameters())
    if elsewhere := sum(p.is_meta for p in parameters):
        return f"{elsewhere} of its {len(parameters)} weights are offloaded"
    kinds = Counter(str(p.dtype).removeprefix("torch.") for p in parameters if not p.is_floating_point())
    if kinds:
        return f"{kinds.total()} of its {len(parameters)} weights are {', '.join(sorted(kinds))}"
    return None


def weight_counts(model: Any) -> dict[str, int]:
    """The number of weights of each dtype, most first; packed int8 weights are counted too."""
    counts = Counter[str]()
    for p in model.parameters():
        counts[str(p.dtype).removeprefix("torch.")] += p.numel()
    for layer in packed.layers(model):
        counts["int8"] += layer.weight().numel()  # type: ignore[operator]
    return dict(counts.most_common())


def align(model: Any) -> None:
    """Move weights that begin anywhere in memory, as safetensors may leave them, to where torch would have put them.

    On some processors the last bits of a product depend on it, and so on the layout of the file that a model is from.
    """
    moved: dict[int, torch.UntypedStorage] = {}
    for tensor in [*model.parameters(), *model.buffers()]:
        dense = tensor.layout is torch.strided and not tensor.is_quantized and not hasattr(tensor, "__tensor_flatten__")
        if tensor.device.type != "cpu" or tensor.is_inference() or not dense:
            continue
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address % ALIGNMENT_BYTES:
            if address not in moved:  # weights may share one
                moved[address] = storage.clone()
            place = tensor.storage_offset(), tensor.size(), tensor.stride()
            tensor.data = torch.empty(0, dtype=tensor.dtype).set_(moved[address], *place)


def state(model: Any) -> list[Any]:
    """A value that changes when a weight is changed in place or replaced; it is cheap to compare."""
    packs = packed.packs(model)
    # subtle: the state dictionary of packed weights unpacks them all
    tensors = [*model.parameters(), *model.buffers()] if packs else model.state_dict(keep_vars=True).values()
    return [*map(_version, tensors), *map(id, packs), *_adapters(model)]


def _version(tensor: Tensor) -> tuple[int, int]:
    stored = not tensor.is_meta and not hasattr(tensor, "__tensor_flatten__")
    return tensor.data_ptr() if stored else id(tensor), 0 if tensor.is_inference() else tensor._version


def tokenize(tokenizer: Any, text: str, pair: str | None = None) -> Tokens:
    """The whole text tokenized, not truncated; offsets are reconstructed if the tokenizer keeps none."""
    ids, spans, segments, types = _cut(tokenizer, text, pair)
    spans = with_marks(spans, segments, (text, pair or ""))
    return Tokens(
        text=text,
        pair=pair,
        ids=tuple(ids),
        pieces=tuple(tokenizer.convert_ids_to_tokens(list(ids))),
        spans=tuple(spans),
        words=tuple(word_indices(spans, segments, (text, pair or ""))),
        segments=tuple(segments),
        types=None if types is None else tuple(types),
    )


def tokenize_prompt(
    tokenizer: Any, parts: Sequence[tuple[str, int | None]], special: Literal["all", "first", "none"] = "all"
) -> Tokens:
    """A prompt and the texts in it, tokenized as one string; `parts` are (characters, segment or None for the prompt).

    A piece that has characters of the prompt belongs to the prompt, whose pieces are shown as their characters.
    `special` says which special tokens of the tokenizer stay: "first" are those before the prompt.
    """
    whole = "".join(characters for characters, _ in parts)
    ids, spans, owners, types = _cut(tokenizer, whole, None, special != "none")
    if special == "first":
        size = len(ids) - next((i for i, owner in enumerate(reversed(owners)) if owner is not None), 0)
        ids, spans, owners, types = ids[:size], spans[:size], owners[:size], types and types[:size]
    ends = list(accumulate(len(characters) for characters, _ in parts))
    pieces = list(tokenizer.convert_ids_to_tokens(list(ids)))
    inside: list[Span | None] = [None] * len(ids)
    segments: list[int | None] = [None] * len(ids)
    read = 0
    for i, span in enumerate(spans):
        if span is None or owners[i] is None:
            continue
        # white space alone, whose span was trimmed to its end, belongs to the part in which it ends
        part = bisect_right(ends, span[0] if span[0] < span[1] else max(0, span[0] - 1))
        start = ends[part] - len(parts[part][0])
        if parts[part][1] is not None and start <= span[0] and span[1] <= ends[part]:
            inside[i], segments[i] = (span[0] - start, span[1] - start), parts[part][1]
            if (
                read < start and i
            ):  # the prompt's white space before the text, which the tokenizer joins to its first word
                pieces[i - 1] += whole[read:start]
        else:
            pieces[i] = whole[read : span[1]] or pieces[i]
        read = max(read, span[1])
    texts = [next((characters for characters, s in parts if s == segment), "") for segment in (0, 1)]
    inside = with_marks(inside, segments, texts)
    return Tokens(
        text=texts[0],
        pair=texts[1] or None,
        ids=tuple(ids),
        pieces=tuple(pieces),
        spans=tuple(inside),
        words=tuple(word_indices(inside, segments, texts)),
        segments=tuple(segments),
        types=None if types is None else tuple(types),
        prompt=tuple(segment is None for segment in segments),
    )


_Cut = tuple[Sequence[int], list[Span | None], list[int | None], Sequence[int] | None]


def _cut(tokenizer: Any, text: str, pair: str | None, special: bool = True) -> _Cut:
    return (_with_offsets if getattr(tokenizer, "is_fast", False) else _without_offsets)(tokenizer, text, pair, special)


def _with_offsets(tokenizer: Any, text: str, pair: str | None, special: bool) -> _Cut:
    with _unchanged(tokenizer):
        encoding = tokenizer(
            text, pair, add_special_tokens=special, return_offsets_mapping=True, truncation=False, padding=False,
            verbose=False,
        )  # fmt: skip
    segments, texts = encoding.sequence_ids(0), (text, pair or "")
    spans = [
        None if segment is None else trim(texts[segment], (int(a), int(b)))
        for segment, (a, b) in zip(segments, encoding["offset_mapping"], strict=True)
    ]
    # subtle: the "▁" that SentencePiece puts before a text has the span of the text's first character
    for i, piece in enumerate(encoding.tokens(0)[:-1]):
        here, after = spans[i], spans[i + 1]
        if piece == "▁" and here is not None and after is not None and here[0] == after[0]:
            spans[i] = (here[0], here[0])
    return encoding["input_ids"], spans, segments, encoding.get("token_type_ids")


@contextmanager
def _unchanged(tokenizer: Any) -> Iterator[None]:
    """Restore truncation and padding, which a call without them turns off permanently in the tokenizer's backend."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    truncation, padding = getattr(backend, "truncation", None), getattr(backend, "padding", None)
    try:
        yield
    finally:
        if backend is not None and truncation is not None:
            backend.enable_truncation(**truncation)
        if backend is not None and padding is not None:
            backend.enable_padding(**padding)


def _without_offsets(tokenizer: Any, text: str, pair: str | None, special: bool) -> _Cut:
    encoding = tokenizer(
        text, pair, add_special_tokens=special, return_special_tokens_mask=True, truncation=False, padding=False,
        verbose=False,
    )  # fmt: skip
    ids, added = encoding["input_ids"], encoding["special_tokens_mask"]
    first = len(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
    content = [i for i, mark in enumerate(added) if not mark]
    unknown = tokenizer.unk_token_id
    # whether a WordPiece vocabulary marks continuations, which matters only next to unknown words
    marked = unknown in ids and any(tokenizer.convert_tokens_to_ids(f"##{c}") not in (None, unknown) for c in "aeinrst")
    segments: list[int | None] = [None] * len(ids)
    spans: list[Span | None] = [None] * len(ids)
    for segment, (part, source) in enumerate(((content[:first], text), (content[first:], pair or ""))):
        pieces = tokenizer.convert_ids_to_tokens([ids[i] for i in part])
        surfaces = [
            None if ids[i] == unknown else _surface(tokenizer, piece, marked)
            for i, piece in zip(part, pieces, strict=True)
        ]
        for i, span in zip(part, align_pieces(source, surfaces), strict=True):
            segments[i], spans[i] = segment, span
    return ids, spans, segments, encoding.get("token_type_ids")


def _surface(tokenizer: Any, piece: str, marked: bool) -> str | None:
    """The characters of a piece in the text: "##ing" -> "ing", "low</w>" -> "low", "▁film" -> " film".

    A leading space means that a word begins there; where "##" is `marked`, so does its absence. None: part of a letter.
    """
    text = str(tokenizer.convert_tokens_to_string([piece]))
    if not text or "\ufffd" in text:
        return " " if piece in ("▁", "</w>") else None
    bare = text.removeprefix("##").removesuffix("</w>").removesuffix("@@").replace("▁", " ").strip()
    begins = piece.startswith(("▁", "Ġ")) or (marked and not piece.startswith("##"))
    return " " + bare if begins else bare
