"""Weights: the sizes in the safetensors files of a model folder, read from their headers before a model is built.

A configuration can describe a model of any size and an index can name any file. So only plain *.safetensors names in
the folder itself are read, and a model is built only if its size fits the files.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from heedful.core.errors import BadInput

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
# how much larger than its file a model may be: tied weights count more than once, and a new head is added
MAX_GROWTH, MAX_EXTRA_PARAMETERS = 4, 2**20
MAX_EXTRA_BUFFER_BYTES = 2**28  # causal masks and positions, which no file holds
MIN_LAYER_LIMIT = 1000  # layers, which may share all their weights


@dataclass(frozen=True)
class Contents:
    """The number of tensors and of parameters in the weight files of a folder."""

    source: str
    tensors: int
    numbers: int

    @classmethod
    def read(cls, source: str, files: Iterable[Path]) -> Contents:
        """From the headers of the files; no tensor is read."""
        sizes: list[int] = []
        for file in files:
            try:
                with safe_open(file, "pt") as tensors:  # refuses a header with wrong lengths or offsets
                    sizes += [math.prod(tensors.get_slice(name).get_shape()) for name in tensors.keys()]  # noqa: SIM118
            except (SafetensorError, OSError, ValueError) as e:
                reason = (str(e).splitlines() or [type(e).__name__])[0]
                raise BadInput(f"the weights of '{source}' are damaged ({reason}); copy or download them again.") from e
        return cls(source, len(sizes), sum(sizes))

    def check_config(self, config: Mapping[str, Any]) -> None:
        """Refuse more layers and labels than the weights can have: even lists of them would fill memory."""
        for name, value in config.items():
            if isinstance(value, Mapping):
                self.check_config(value)
            limit = max(MIN_LAYER_LIMIT, self.numbers if name == "num_labels" else self.tensors)
            if (name == "num_labels" or "layer" in name) and isinstance(value, int) and value > limit:
                raise BadInput(
                    f"the configuration of '{self.source}' has {name}={value:,}, and its weights are {self.tensors:,} "
                    f"tensors of {self.numbers:,} numbers; give the configuration that belongs to the weights."
                )

    @contextmanager
    def limiting(self) -> Iterator[None]:
        """Inside, a model that this thread builds on the meta device is refused as soon as it outgrows the files."""
        thread = threading.get_ident()
        remaining = {
            "parameters": MAX_GROWTH * self.numbers + MAX_EXTRA_PARAMETERS,
            "bytes of buffers": 4 * MAX_GROWTH * self.numbers + MAX_EXTRA_BUFFER_BYTES,
        }
        counted: dict[int, Tensor] = {}  # references, so that no two tensors have one id

        def counter(what: str, size: Callable[[Tensor], int]) -> Callable[[Any, str, Tensor | None], None]:
            def count(_: Any, name: str, tensor: Tensor | None) -> None:
                if tensor is None or not tensor.is_meta or threading.get_ident() != thread or id(tensor) in counted:
                    return
                counted[id(tensor)] = tensor
                remaining[what] -= size(tensor)
                if remaining[what] < 0:
                    raise BadInput(
                        f"the configuration of '{self.source}' describes a larger model than its weights, which hold "
                        f"{self.numbers:,} numbers (too large at '{name}'); give the configuration that belongs to "
                        "the weights."
                    )

            return count

        hooks = [
            register_module_parameter_registration_hook(counter("parameters", lambda t: t.numel())),
            register_module_buffer_registration_hook(counter("bytes of buffers", lambda t: t.nbytes)),
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


def weight_names(folder: Path, config: Mapping[str, Any]) -> list[str]:
    """The names of the weight files: one, or those in the index. Names other than *.safetensors raise BadInput."""
    named = config.get("transformers_weights")
    first = SINGLE if (folder / SINGLE).exists() or not (folder / INDEX).exists() else INDEX
    first = first if named is None else str(named)
    if not first.endswith(".index.json"):
        return _plain(folder, [first])
    if "/" in first or "\\" in first:
        raise BadInput(f"'{folder}' has its index in '{first}'; move it into the folder itself.")
    try:
        index = json.loads((folder / first).read_text("utf-8"))
        names = sorted({str(name) for name in index["weight_map"].values()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise BadInput(f"'{folder / first}' is not an index of weights ({type(e).__name__}); copy it again.") from e
    return _plain(folder, names)


def _plain(folder: Path, names: list[str]) -> list[str]:
    for name in names:
        if not name.endswith(".safetensors") or "/" in name or "\\" in name or name.startswith("."):
            wrong = f"'{folder}' names '{name[:80]}' as a file of weights"
            raise BadInput(f"{wrong}; only *.safetensors files in the folder itself are read.")
    return names


def weight_files(folder: Path, names: Iterable[str]) -> list[Path]:
    """The files of these names. They may be links to files, as in the hub's cache, but not to devices or pipes."""
    files = [folder / name for name in names]
    for file in files:
        if not file.is_file():
            raise BadInput(f"'{folder}' names the weights '{file.name}', which do not exist; copy or download them.")
    return files
