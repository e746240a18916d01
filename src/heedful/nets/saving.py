"""Saving: a network as a folder with two files, model.safetensors and heedful.json. Reading them executes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import tokenizers
from safetensors.torch import load_file, save_file

from heedful.core.errors import BadInput, Unsupported
from heedful.core.writing import whole
from heedful.nets.base import Net

WEIGHTS, ABOUT, FORMAT = "model.safetensors", "heedful.json", 1


@dataclass(frozen=True)
class Saved:
    """A network with what it needs to read texts: its tokenizer, and what its special tokens are for."""

    model: Net
    tokenizer: tokenizers.Tokenizer
    special: Mapping[str, str]


def save(saved: Saved, folder: Path) -> None:
    """Write both files, each whole or not at all."""
    tokenizer = json.loads(saved.tokenizer.to_str())
    write(saved.model, folder, {"special": dict(saved.special), "tokenizer": tokenizer})


def write(model: Net, folder: Path, more: Mapping[str, Any]) -> None:
    """A network's weights and shape, and what else is to be said of it."""
    config = model.config
    shape = {f.name: getattr(config, f.name) for f in fields(config) if f.init}
    told = {"format": FORMAT, "network": config.model_type, "shape": shape} | dict(more)
    weights = {name: tensor.detach().contiguous().clone() for name, tensor in model.state_dict().items()}
    whole(folder / WEIGHTS, lambda part: save_file(weights, part, {"format": "pt"}))
    whole(folder / ABOUT, lambda part: part.write_text(json.dumps(told, ensure_ascii=False, indent=1) + "\n", "utf-8"))


def rebuilt(kind: Any, folder: Path, told: Mapping[str, Any]) -> Any:
    """The network of this kind that `told` describes, with the folder's weights."""
    shape = {k: tuple(v) if isinstance(v, list) else v for k, v in told["shape"].items()}
    model = kind(kind.shape(**shape))
    model.load_state_dict(load_file(folder / WEIGHTS))
    return model.eval()


def about(folder: Path) -> dict[str, Any]:
    """What the folder's heedful.json says, checked."""
    file = folder / ABOUT
    try:
        told = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as e:
        raise BadInput(f"'{file}' cannot be read ({type(e).__name__}); train the network again.") from e
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise BadInput(f"'{file}' is of a format that this heedful does not know; it reads format {FORMAT}.")
    return told


def saved(folder: Path) -> Saved:
    """The network in a folder."""
    from heedful.nets import NETS

    told = about(folder)
    if told["network"] not in NETS:
        raise Unsupported(f"'{folder}' holds a {told['network']}, which is no text classifier; see heedful translate.")
    try:
        model = rebuilt(NETS[told["network"]], folder, told)
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(told["tokenizer"]))
    except Exception as e:  # whatever a damaged file makes of itself
        raise BadInput(f"the network in '{folder}' is damaged ({str(e).splitlines()[0][:120]}); copy it again.") from e
    return Saved(model, tokenizer, told["special"])
