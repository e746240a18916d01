"""Bodies: a Transformer, a pooling of its states and a linear head, as sentence-transformers and SetFit build them.

A folder of sentence-transformers with `model_head.safetensors` is read and written here without these packages:

modules.json            the modules in order: Transformer, Pooling, and any of Dense, Normalize, Dropout
1_Pooling/config.json   how the states are pooled
model_head.safetensors  the head: weight [labels, numbers] and bias [labels]
config_setfit.json      labels, and how logits become probabilities (head_output)
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, normalize

from heedful.core.errors import BadInput, Unsupported
from heedful.nets.weights import weight_files

# softmax: one of the labels; logsigmoid: the same, from one yes/no question for each label; sigmoid: any of the labels
Output = Literal["softmax", "logsigmoid", "sigmoid"]
OUTPUTS: tuple[Output, ...] = ("softmax", "logsigmoid", "sigmoid")
POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
# sentence-transformers before version 6 names each pooling by a switch
_SWITCHES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "Sigmoid", "SiLU", "ELU", "LeakyReLU", "Softplus")
MODULES, HEAD, SETFIT = "modules.json", "model_head.safetensors", "config_setfit.json"
_PICKLED_HEAD = "model_head.pkl"
_TEXT_ENCODERS = ("t5", "mt5", "umt5")  # whose encoder alone embeds texts


# the network


def position_weights(mask: Float[Tensor, "b t"], mode: str) -> Float[Tensor, "b t"]:
    """The weight of each position in the pooled state, for every pooling but the maximum."""
    if mode == "mean":
        return mask / mask.sum(1, keepdim=True)
    if mode == "mean_sqrt_len_tokens":
        return mask / mask.sum(1, keepdim=True).sqrt()
    index = torch.arange(1, mask.shape[1] + 1, device=mask.device).to(mask)
    if mode == "weightedmean":  # weights rise by one from the first position that is not padding
        rising = mask * (index - mask.argmax(1, keepdim=True))
        return rising / rising.sum(1, keepdim=True)
    at = (mask if mode == "cls" else mask * index).argmax(1)
    return nn.functional.one_hot(at, mask.shape[1]).to(mask)


class Pooling(nn.Module):
    """States [b,t,d] of a text -> one vector, or one for each of several poolings side by side."""

    def __init__(self, modes: Sequence[str]) -> None:
        super().__init__()
        unknown = [mode for mode in modes if mode not in POOLINGS]
        if unknown or not modes:
            raise Unsupported(f"its pooling '{', '.join(map(str, unknown))}' is not one of {', '.join(POOLINGS)}.")
        self.modes = tuple(modes)

    def forward(self, states: Float[Tensor, "b t d"], mask: Int[Tensor, "b t"]) -> Float[Tensor, "b e"]:
        """The pooled vectors."""
        return torch.cat([self.pool(states, mask.to(states), mode) for mode in self.modes], -1)

    @staticmethod
    def pool(states: Tensor, mask: Tensor, mode: str) -> Tensor:
        """One of the poolings."""
        if mode == "max":
            return states.masked_fill(mask[..., None] == 0, -torch.inf).amax(1)
        weights = position_weights(mask, mode)[..., None]
        # subtle: zero times the NaN of a position that is not pooled would be NaN
        return (weights * torch.where(weights == 0, torch.zeros_like(states), states)).sum(1)

    def describe(self, width: int) -> dict[str, Any]:
        """Its settings as every version of sentence-transformers reads them; switches have one order."""
        switches = {switch: mode in self.modes for switch, mode in _SWITCHES.items()}
        asked = switches if pooling_modes(switches) == self.modes else {"pooling_mode": list(self.modes)}
        return {"word_embedding_dimension": width, **asked}


class Normalize(nn.Module):
    """Vectors of length 1."""

    def forward(self, vectors: Tensor) -> Tensor:
        """The vectors, divided by their lengths."""
        return normalize(vectors, dim=-1)


class Dense(nn.Module):
    """A linear map and an activation without parameters."""

    def __init__(self, linear: nn.Linear, activation: nn.Module) -> None:
        super().__init__()
        if type(activation).__name__ not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise Unsupported(f"its activation '{type(activation).__name__}' is not one of {known}.")
        self.linear, self.activation = linear, activation

    def forward(self, vectors: Tensor) -> Tensor:
        """The vectors, mapped."""
        mapped: Tensor = self.activation(self.linear(vectors))
        return mapped


class SentenceClassifier(nn.Module):
    """A body, the pooling of its states, maps of the pooled vector, and a linear head. The body is not changed."""

    single_text = True

    def __init__(
        self, body: nn.Module, pooling: Pooling, maps: Sequence[nn.Module], head: nn.Linear, output: Output,
        labels: Sequence[str],
    ) -> None:  # fmt: skip
        super().__init__()
        self.body: Any = _without_pooler(body)
        self.pooling, self.maps, self.output = pooling, nn.Sequential(*maps), output
        first = next(body.parameters())
        self.head = head.to(first.device, first.dtype)
        config: Any = copy.deepcopy(self.body.config)
        self.config = config
        if type(body).__name__.endswith(("EncoderModel", "Encoder")):
            config.is_encoder_decoder = False
        config.num_labels = len(labels)
        config.id2label = dict(enumerate(labels))
        config.label2id = {label: i for i, label in enumerate(labels)}
        kind = "multi_label" if output == "sigmoid" else "single_label"
        config.problem_type = f"{kind}_classification"
        config.classified = {"pooling": pooling.modes, "maps": [repr(m) for m in maps], "output": output}
        self._segments = "token_type_ids" in signature(self.body.forward).parameters
        self._check_widths()

    def _check_widths(self) -> None:
        width = getattr(self.config, "hidden_size", None)
        if width is None:
            return
        width *= len(self.pooling.modes)
        for layer in [*(m for m in self.maps.modules() if isinstance(m, nn.Linear)), self.head]:
            if layer.in_features != width:
                what = "its head" if layer is self.head else "a Dense layer"
                raise BadInput(f"{what} reads {layer.in_features:,} numbers and gets {width:,}; give one that fits.")
            width = layer.out_features
        if len(self.config.id2label) != self.head.out_features:
            names = len(self.config.id2label)
            raise BadInput(f"it has {names} labels for {self.head.out_features} outputs; give one for each output.")

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """What `heedful capabilities` adds."""
        kinds = [type(layer).__name__ for layer in self.maps]
        return (("pooling", ", ".join([" and ".join(self.pooling.modes), *kinds])),)

    @property
    def _supports_sdpa(self) -> bool:
        return bool(getattr(self.body, "_supports_sdpa", False))

    def get_input_embeddings(self) -> nn.Module:
        """The body's table of word embeddings."""
        table: nn.Module = self.body.get_input_embeddings()
        return table

    def set_attn_implementation(self, name: str) -> None:
        """As transformers' method of this name."""
        self.body.set_attn_implementation(name)
        self.config._attn_implementation_internal = name

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None, **more: Any
    ) -> SimpleNamespace:
        """The logits, and whatever the body reports."""
        if token_type_ids is not None and self._segments:
            more["token_type_ids"] = token_type_ids
        out = self.body(input_ids=input_ids, attention_mask=attention_mask, **more)
        logits = self.head(self.maps(self.pooling(out.last_hidden_state, attention_mask)))
        if self.output == "logsigmoid":
            logits = logsigmoid(logits)
        return SimpleNamespace(**(dict(out) | {"logits": logits}))

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a folder that `heedful.load` and sentence-transformers read; the tokenizer is saved apart."""
        folder = Path(folder)
        self.body.save_pretrained(folder)
        modules: list[tuple[str, dict[str, Any], nn.Linear | None]]
        modules = [("Transformer", {}, None), ("Pooling", self.pooling.describe(self.config.hidden_size), None)]
        modules += [_described(layer) for layer in self.maps]
        paths = [f"{i}_{kind}" if i else "" for i, (kind, _, _) in enumerate(modules)]
        listed = [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (path, (kind, _, _)) in enumerate(zip(paths, modules, strict=True))
        ]
        _write_json(folder / MODULES, listed)
        _write_json(folder / "sentence_bert_config.json", {"do_lower_case": False})
        for path, (_, config, linear) in list(zip(paths, modules, strict=True))[1:]:
            _write_json(folder / path / "config.json", config)
            if linear is not None:
                _save(linear, folder / path / "model.safetensors", "linear.")
        _save(self.head, folder / HEAD)
        names = [self.config.id2label[i] for i in range(self.config.num_labels)]
        _write_json(folder / SETFIT, {"labels": names, "normalize_embeddings": False, "head_output": self.output})


def _without_pooler(body: nn.Module) -> nn.Module:
    """The same body without the layer after its states, which nothing here reads. It shares all other modules."""
    if not isinstance(getattr(body, "pooler", None), nn.Module):
        return body
    if "add_pooling_layer" not in signature(type(body).__init__).parameters:
        return body
    twin = copy.copy(body)
    twin._modules = dict(body._modules) | {"pooler": None}
    return twin


def _described(layer: nn.Module) -> tuple[str, dict[str, Any], nn.Linear | None]:
    """The kind of a map, its settings and its weights, for a folder."""
    if not isinstance(layer, Dense):
        return "Normalize", {}, None
    linear, kind = layer.linear, type(layer.activation)
    sizes = {"in_features": linear.in_features, "out_features": linear.out_features, "bias": linear.bias is not None}
    return "Dense", sizes | {"activation_function": f"{kind.__module__}.{kind.__name__}"}, linear


def _write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2), "utf-8")


def _save(linear: nn.Linear, path: Path, prefix: str = "") -> None:
    tensors = {f"{prefix}{name}": tensor.detach().cpu().contiguous() for name, tensor in linear.named_parameters()}
    save_file(tensors, path, metadata={"format": "pt"})


def linear_map(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """A linear layer with these weights."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)
    return layer.eval()


def two_sided(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """The head of a yes/no output as one of two labels: the probabilities are the same."""
    return torch.cat([-weight, weight]) / 2, torch.cat([-bias, bias]) / 2


def pooling_modes(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The poolings in a module's settings, new or old."""
    if (modes := settings.get("pooling_mode")) is not None:
        return (modes,) if isinstance(modes, str) else tuple(modes)
    return tuple(mode for name, mode in _SWITCHES.items() if settings.get(name)) or ("mean",)


def own_tokenizer(tokenizer: Any, max_length: Any = None, lowercase: bool = False) -> Any:
    """The tokenizer with a module's largest number of tokens and lowercase letters; a copy where that changes it."""
    shorter = isinstance(max_length, int) and 0 < max_length < tokenizer.model_max_length
    raises = lowercase and tokenizer("ABC")["input_ids"] != tokenizer("abc")["input_ids"]
    if not shorter and not raises:
        return tokenizer
    tokenizer = copy.deepcopy(tokenizer)
    if shorter:
        tokenizer.model_max_length = max_length
    if raises:
        from tokenizers import normalizers

        if not getattr(tokenizer, "is_fast", False):
            raise Unsupported("it lowercases texts, and its tokenizer is slow; save it with a fast one.")
        backend = tokenizer.backend_tokenizer
        rest = [] if backend.normalizer is None else [backend.normalizer]
        backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *rest])
    return tokenizer


# folders


@dataclass(frozen=True)
class BodyFolder:
    """What a folder of sentence-transformers says, without the body's weights."""

    folder: Path
    transformer: Path
    pooling: tuple[str, ...]
    layers: tuple[tuple[str, Path], ...]  # (kind, folder) of what follows the pooling

    @classmethod
    def find(cls, folder: Path) -> BodyFolder | None:
        """None if the folder lists no pooling: other models of sentence-transformers are classifiers themselves."""
        listed = _modules(folder)
        kinds = [kind for kind, _ in listed]
        if "Pooling" not in kinds:
            return None
        if kinds[:2] != ["Transformer", "Pooling"]:
            raise Unsupported(
                f"'{folder}' begins with {' and '.join(kinds[:2])}, not with a Transformer and a Pooling."
            )
        settings = _read_json(listed[1][1] / "config.json")
        return cls(folder, listed[0][1], pooling_modes(settings), tuple(listed[2:]))

    @property
    def encoder_alone(self) -> bool:
        """Whether the body is the encoder of an encoder-decoder."""
        return _read_json(self.transformer / "config.json").get("model_type") in _TEXT_ENCODERS

    def tokenizer(self, tokenizer: Any) -> Any:
        """The tokenizer with the module's own settings."""
        path = self.transformer / "sentence_bert_config.json"
        settings = _read_json(path) if path.is_file() else {}
        return own_tokenizer(tokenizer, settings.get("max_seq_length"), bool(settings.get("do_lower_case")))

    def classifier(self, body: nn.Module, missing: Sequence[str]) -> SentenceClassifier:
        """The body with its pooling, maps and head. `missing` are weights of the body that no file has."""
        untrained = [name for name in missing if not name.startswith("pooler.")]
        if untrained:
            raise Unsupported(f"'{self.folder}' has no weights for {untrained[0]}, so its vectors would be random.")
        settings = self._settings()
        maps = [layer for kind, folder in self.layers for layer in _layer(kind, folder)]
        maps += [Normalize()] if settings.get("normalize_embeddings") else []
        output = settings.get("head_output", "softmax")
        if output not in OUTPUTS:
            raise BadInput(
                f"'{self.folder / SETFIT}' has head_output '{output}'; it must be one of {', '.join(OUTPUTS)}."
            )
        tensors = _tensors(self.folder, HEAD)
        weight = tensors.get("weight")
        if weight is None or weight.ndim != 2 or set(tensors) - {"weight", "bias"}:
            raise BadInput(f"'{self.folder / HEAD}' must hold weight [labels, numbers] and bias [labels] only.")
        bias = tensors.get("bias", weight.new_zeros(len(weight)))
        if bias.shape != weight.shape[:1]:
            raise BadInput(f"'{self.folder / HEAD}' has {len(weight)} rows of weights and another number of biases.")
        labels = settings.get("labels")
        if len(weight) == 1 and output != "sigmoid":
            weight, bias = two_sided(weight, bias)
        names = [f"LABEL_{i}" for i in range(len(weight))] if labels is None else [str(label) for label in labels]
        return SentenceClassifier(body, Pooling(self.pooling), maps, linear_map(weight, bias), output, names)

    def check_head(self) -> None:
        """Refuse a folder without a head, or with a pickled one, before the body is loaded."""
        prompts = self.folder / "config_sentence_transformers.json"
        if prompts.is_file() and _read_json(prompts).get("default_prompt_name") is not None:
            raise Unsupported(f"'{self.folder}' puts a prompt before each text; save it with default_prompt_name=None.")
        if (self.folder / HEAD).is_file():
            return
        if (self.folder / _PICKLED_HEAD).is_file():
            pickled = f"'{self.folder}' has a pickled head ({_PICKLED_HEAD}), which can run code when loaded"
            convert = "heedful.save(SetFitModel.from_pretrained(folder), new_folder)"
            raise BadInput(f"{pickled}; if you trust it, convert it once with {convert}.")
        none = f"'{self.folder}' embeds texts and has no head as safetensors ({HEAD})"
        raise Unsupported(
            f"{none}; load the whole classifier with setfit and write it with heedful.save(model, folder)."
        )

    def _settings(self) -> Mapping[str, Any]:
        path = self.folder / SETFIT
        settings = _read_json(path) if path.is_file() else {}
        labels = settings.get("labels")
        if labels is not None and not isinstance(labels, list):
            raise BadInput(f"'{path}' has labels that are not a list; give a list of names or null.")
        return settings


def remote_files(folder: Path) -> list[str]:
    """The files of a hub model that its modules.json names, beside those of every model; none without one."""
    paths = [path for _, path in _module_paths(folder)]
    inner = [f"{path}/{name}" for path in paths if path for name in ("config.json", "model.safetensors")]
    return [*inner, HEAD] if paths else []


def _modules(folder: Path) -> list[tuple[str, Path]]:
    """(kind, folder) of each module in modules.json; [] without one."""
    return [(kind, folder / path) for kind, path in _module_paths(folder)]


def _module_paths(folder: Path) -> list[tuple[str, str]]:
    if not (folder / MODULES).is_file():
        return []
    listed = _read_json(folder / MODULES, list)
    try:
        modules = [(str(entry["type"]).rpartition(".")[2], str(entry["path"])) for entry in listed]
    except (TypeError, KeyError) as e:
        raise BadInput(f"'{folder / MODULES}' is not a list of modules with type and path; copy it again.") from e
    for _, path in modules:
        if "/" in path or "\\" in path or path.startswith("."):
            raise BadInput(f"'{folder / MODULES}' names the folder '{path[:80]}'; only folders inside it are read.")
    return modules


def _layer(kind: str, folder: Path) -> Iterator[nn.Module]:
    """The map that a module after the pooling is."""
    settings = _read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
    names = {settings.get(f"module_{end}_name") for end in ("input", "output")} - {None, "sentence_embedding"}
    if names or settings.get("use_residual"):
        raise Unsupported(f"'{folder}' has a {kind} module that does more than map the pooled vector.")
    if kind == "Normalize":
        yield Normalize()
    elif kind == "Dense":
        tensors = _tensors(folder, "model.safetensors")
        weight = tensors.get("linear.weight")
        if weight is None or weight.ndim != 2:
            raise BadInput(f"'{folder}' has no linear.weight; save the model again with sentence-transformers.")
        name = str(settings.get("activation_function", "torch.nn.Tanh")).rpartition(".")[2]
        if name not in ACTIVATIONS:
            raise Unsupported(
                f"'{folder}' has the activation '{name[:80]}', which is not one of {', '.join(ACTIVATIONS)}."
            )
        yield Dense(linear_map(weight, tensors.get("linear.bias")), getattr(nn, name)())
    elif kind != "Dropout":
        raise Unsupported(f"'{folder}' is a {kind} module; after the Pooling, Dense, Normalize and Dropout are read.")


def _tensors(folder: Path, name: str) -> dict[str, Tensor]:
    [file] = weight_files(folder, [name])
    try:
        tensors: dict[str, Tensor] = load_file(file)
    except (SafetensorError, OSError, ValueError) as e:
        raise BadInput(f"'{file}' is damaged ({str(e).splitlines()[0]}); copy or download it again.") from e
    return tensors


def _read_json(path: Path, kind: type[Any] = dict) -> Any:
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as e:
        raise BadInput(f"'{path}' cannot be read ({type(e).__name__}); copy or download it again.") from e
    if not isinstance(content, kind):
        raise BadInput(f"'{path}' holds a {type(content).__name__}; copy or download it again.")
    return content
