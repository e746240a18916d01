"""What the papers' networks share: a configuration, an output, masked attention, recurrent layers, and saving.

A network can be the model of a Classifier: it has `config`, `attention_sites` and `get_input_embeddings`, and its
forward pass computes each attention matrix [b,h,q,k] with one softmax call, which the seam intercepts. It may declare
`attended_segments`, the texts of a pair that its attention is over; `state_encoder`, the module whose first output is
the states [b,t,m] that attention weighs; and three methods: `possible(ids, mask, types)`, the labels [b,c] that a text
allows (for variants of a text, its forward pass is given those of the whole text); `all_queries(ids, mask)`, attention
[b,h,t,t] with every token as a query, where the forward pass has the first alone; `position_vectors(mask)`, the
[b,t,e] that it adds to word vectors for their positions, or None.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

import tokenizers
import torch
from jaxtyping import Bool, Float, Int, Shaped
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from heedful.core import settings
from heedful.core.errors import BadInput, HeedfulError, Unsupported
from heedful.core.files import write_files
from heedful.maths.activations import ACTIVATIONS, Activation
from heedful.nets.weights import Contents

Ids = Int[Tensor, "b t"]
Mask = Shaped[Tensor, "b t"] | None  # 0 where a token is masked; token types have the same form


@dataclass
class Shape:
    """A network's configuration: its sizes and its label names. Saved as JSON beside the weights.

    A single logit is a yes/no output; `problem_type="multi_label_classification"` has one of each label.
    """

    vocabulary: int
    num_labels: int = 2
    labels: tuple[str, ...] = ()
    pad_token_id: int = 0
    max_position_embeddings: int | None = None
    problem_type: str | None = None
    model_type: ClassVar[str] = ""
    # the name that transformers uses; "sdpa" lets a network skip its attention matrices, which is faster
    _attn_implementation_internal: str = field(default="eager", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse values that the annotations do not allow; a list, as JSON has it, becomes a tuple."""
        for name, setting in settings.of(type(self)).items():
            setattr(self, name, setting.checked(getattr(self, name)))

    @property
    def id2label(self) -> dict[int, str]:
        """Names of the labels, if they have names."""
        return dict(enumerate(self.labels))


@dataclass(frozen=True)
class Output:
    """The result of a forward pass; `attentions` is empty with fused attention."""

    logits: Float[Tensor, "b c"]
    attentions: tuple[Float[Tensor, "b h q k"], ...] = ()


class Net(nn.Module):
    """A network of the papers."""

    shape: ClassVar[type[Shape]]
    attention_sites: tuple[tuple[str, int], ...] = (("self", 0),)
    _supports_sdpa = True  # read by Classifier.fused_attention_agrees, which tests it

    config: Any
    words: nn.Embedding

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    @property
    def fast(self) -> bool:
        """Whether attention is not read, so that the network may skip its attention matrices."""
        return bool(self.config._attn_implementation_internal == "sdpa")

    def get_input_embeddings(self) -> nn.Embedding:
        """The table of word vectors."""
        return self.words


def real_positions(input_ids: Int[Tensor, "b t"], attention_mask: Tensor | None) -> Bool[Tensor, "b t"]:
    """Which positions hold a token that may be used."""
    if attention_mask is None:
        return torch.ones_like(input_ids, dtype=torch.bool)
    return attention_mask != 0


def weights(
    scores: Float[Tensor, "b h q k"], allowed: Bool[Tensor, "b #q k"], activation: Activation = "softmax"
) -> Float[Tensor, "b h q k"]:
    """Attention weights: softmax (or a sparse alternative) of the scores over the allowed keys.

    The weights of a row without an allowed key are meaningless; `weighted_sum` returns 0 for it.
    """
    masked = scores.masked_fill(~allowed[:, None], torch.finfo(scores.dtype).min)
    return ACTIVATIONS[activation](masked, -1)


def weighted_sum(
    weights: Float[Tensor, "b h q k"], values: Float[Tensor, "b h k d"], allowed: Bool[Tensor, "b #q k"]
) -> Float[Tensor, "b h q d"]:
    """Σ_k weights · values; 0 for a query with no allowed key."""
    return torch.matmul(weights, values) * allowed.any(-1)[:, None, :, None].to(values.dtype)


class Bidirectional(nn.Module):
    """A bidirectional recurrent layer over the real tokens; masked tokens have no effect.

    Two one-way layers, the second on reversed texts, train nine times as fast on a CPU as a packed sequence.
    """

    def __init__(self, cell: Literal["lstm", "gru"], width: int, hidden: int) -> None:
        super().__init__()
        kind = {"lstm": nn.LSTM, "gru": nn.GRU}[cell]
        self.onward, self.back = kind(width, hidden, batch_first=True), kind(width, hidden, batch_first=True)

    def forward(
        self, vectors: Float[Tensor, "b t e"], mask: Bool[Tensor, "b t"]
    ) -> tuple[Float[Tensor, "b t d"], Float[Tensor, "b d"]]:
        """States of every token (0 where masked), and the concatenated last states of both directions."""
        lengths = mask.sum(1)
        at = torch.arange(mask.shape[1], device=mask.device)
        front = at < lengths[:, None]
        scattered = not torch.equal(front, mask)
        if scattered:  # real tokens to the front, in their order
            order = (~mask).to(torch.int8).argsort(dim=1, stable=True)
            vectors = _taken(vectors, order)
        reverse = torch.where(front, lengths[:, None] - 1 - at, at)
        onward = self.onward(vectors)[0]
        back = self.back(_taken(vectors, reverse))[0]
        last = (lengths - 1).clamp(min=0)[:, None]
        nonempty = (lengths > 0)[:, None].to(vectors.dtype)
        final = torch.cat([_taken(onward, last)[:, 0], _taken(back, last)[:, 0]], -1) * nonempty
        states = torch.cat([onward, _taken(back, reverse)], -1) * front[..., None].to(vectors.dtype)
        return (_taken(states, order.argsort(1)) if scattered else states), final


def _taken(x: Float[Tensor, "b t d"], positions: Int[Tensor, "b s"]) -> Float[Tensor, "b s d"]:
    """x[b, positions[b]]."""
    return x.gather(1, positions[..., None].expand(-1, -1, x.shape[-1]))


WEIGHTS, ABOUT, FORMAT = "model.safetensors", "heedful.json", 1


@dataclass(frozen=True)
class Saved:
    """A network with its tokenizer and the roles of its special tokens."""

    model: Net
    tokenizer: tokenizers.Tokenizer
    special: Mapping[str, str]


def save(saved: Saved, folder: Path) -> None:
    """Write both files, each atomically."""
    tokenizer = json.loads(saved.tokenizer.to_str())
    write_network(saved.model, folder, {"special": dict(saved.special), "tokenizer": tokenizer})


def describe_shape(config: Shape) -> dict[str, Any]:
    """The constructor arguments of an equal configuration."""
    return {f.name: getattr(config, f.name) for f in fields(config) if f.init}


def write_network(model: Net, folder: Path, more: Mapping[str, Any]) -> None:
    """Write a network's weights, and its shape with `more` of a description."""
    shape = describe_shape(model.config)
    description = {"format": FORMAT, "network": model.config.model_type, "shape": shape} | dict(more)
    weights = {name: tensor.detach().contiguous().clone() for name, tensor in model.state_dict().items()}
    about = json.dumps(description, ensure_ascii=False, indent=1) + "\n"
    write_files(
        {folder / WEIGHTS: lambda part: save_file(weights, part, {"format": "pt"}), folder / ABOUT: about.encode()}
    )


class _Uninitialised(TorchFunctionMode):
    """Inside, no normal numbers are drawn: to draw them on the meta device, torch imports its compiler in a second."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.normal_:
            return args[0]
        return kwargs["tensor"] if func is nn.init.normal_ else func(*args, **(kwargs or {}))


def load_network(kind: Any, folder: Path, description: Mapping[str, Any]) -> Any:
    """The network of this kind that `description` describes, with the folder's weights."""
    contents = Contents.read(str(folder), [folder / WEIGHTS])
    contents.check_config(description["shape"])
    try:
        config = kind.shape(**description["shape"])
    except BadInput as e:  # `damage` adds the name of the folder
        raise ValueError(str(e)) from e
    with contents.limiting(), torch.device("meta"), _Uninitialised():
        kind(config)
    model = kind(config)
    model.load_state_dict(load_file(folder / WEIGHTS))
    return model.eval()


@contextmanager
def damage(what: str) -> Iterator[None]:
    """Inside, any unexpected exception means a damaged file, and is raised as BadInput."""
    try:
        yield
    except HeedfulError:
        raise
    except Exception as e:
        raise BadInput(f"{what} is damaged ({str(e).splitlines()[0][:120]}); copy or train it again.") from e


def read_description(folder: Path) -> dict[str, Any]:
    """The content of the folder's heedful.json, checked."""
    file = folder / ABOUT
    try:
        description = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as e:
        raise BadInput(f"'{file}' cannot be read ({type(e).__name__}); train the network again.") from e
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise BadInput(f"'{file}' has an unknown format; this version of heedful reads format {FORMAT}.")
    return description


def load_saved(folder: Path) -> Saved:
    """The network in a folder."""
    from heedful.nets import NETS

    description = read_description(folder)
    kind = description["network"]
    if kind not in NETS:
        raise Unsupported(f"'{folder}' holds a {kind}, which is not a text classifier; see heedful translate.")
    with damage(f"the network in '{folder}'"):
        model = load_network(NETS[kind], folder, description)
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(description["tokenizer"]))
    return Saved(model, tokenizer, description["special"])
