"""Adapters: a folder that peft wrote (LoRA and others), put on the base model that its configuration names.

Its weights are read from adapter_model.safetensors only, and no module that its configuration names is imported.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import safe_open
from torch import nn

from heedful.core.errors import BadInput, HeedfulError, Unsupported
from heedful.nets.weights import Contents, weight_files

AdapterUse = Literal["merged", "live"]
CONFIG, WEIGHTS, PICKLED = "adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"
# peft's tasks, and the transformers class of their base models
AUTO_CLASSES = {
    "SEQ_CLS": "AutoModelForSequenceClassification",
    "CAUSAL_LM": "AutoModelForCausalLM",
    "SEQ_2_SEQ_LM": "AutoModelForSeq2SeqLM",
}
# these put learned vectors before the text and change no weight, so there is nothing to merge
_PROMPTS = ("PROMPT_TUNING", "MULTITASK_PROMPT_TUNING", "P_TUNING", "PREFIX_TUNING", "CPT", "CARTRIDGE")
_SIZES = ("r", "init_r", "num_virtual_tokens", "encoder_hidden_size")
_PREFIX = "base_model.model."  # of the names in the file
_INSTALL = "install it with: pip install 'heedful[peft]'"
# what a configuration may not ask for: other folders, and modules to import
_REFUSED = {"megatron_config": "Megatron", "adapters": "further adapter folders"}


def is_adapter(folder: Path) -> bool:
    """Whether peft wrote this folder."""
    return (folder / CONFIG).is_file()


@dataclass(frozen=True)
class Adapter:
    """The settings of an adapter folder, and the shapes of its weights by their names in the base model."""

    source: str
    folder: Path
    settings: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]

    @classmethod
    def read(cls, source: str, folder: Path) -> Adapter:
        """From the configuration and the header of the weights; no tensor is read."""
        try:
            settings = json.loads((folder / CONFIG).read_text("utf-8"))
            kind = settings["peft_type"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as e:
            raise BadInput(f"{CONFIG} in '{folder}' is damaged ({type(e).__name__}); copy it again.") from e
        for name, what in _REFUSED.items():
            if settings.get(name):
                raise Unsupported(f"'{source}' is a {kind} adapter that needs {what} ({name}), which is not loaded.")
        if not (folder / WEIGHTS).exists():
            convert = "PeftModel.from_pretrained(base, folder).save_pretrained(folder)"
            if (folder / PICKLED).exists():
                unsafe = f"'{folder}' has only pickled weights ({PICKLED}), which can run code when loaded"
                raise BadInput(f"{unsafe}; if you trust them, convert them once with peft: {convert}.")
            way = "save the adapter with save_pretrained, or delete the file if the folder holds a whole model"
            raise BadInput(f"'{folder}' has {CONFIG} and no {WEIGHTS}; {way}.")
        files = weight_files(folder, [WEIGHTS])
        Contents.read(source, files)  # refuses a damaged file
        with safe_open(files[0], "pt") as tensors:
            names = list(tensors.keys())
            shapes = {name.removeprefix(_PREFIX): tuple(tensors.get_slice(name).get_shape()) for name in names}
        _check_sizes(source, settings, max((size for shape in shapes.values() for size in shape), default=0))
        return cls(source, folder, settings, shapes)

    @property
    def task(self) -> str | None:
        """peft's name of the task: SEQ_CLS, CAUSAL_LM, …; None if it was not said."""
        task = self.settings.get("task_type")
        return None if task in (None, "FEATURE_EXTRACTION") else str(task)

    @property
    def base(self) -> str:
        """The folder or hub name of the base model, as it is written."""
        name = self.settings.get("base_model_name_or_path")
        if not isinstance(name, str) or not name:
            raise BadInput(f"'{self.source}' is an adapter that does not name its base model; {self._write_base}.")
        return name

    @property
    def _write_base(self) -> str:
        return f"write its folder or hub name as base_model_name_or_path in '{self.folder / CONFIG}'"

    def base_folder(self) -> Path | None:
        """The local folder of the base model, by an absolute path, or beside the adapter, or here; None: a hub name."""
        name = Path(self.base).expanduser()
        places = [name] if name.is_absolute() else [self.folder / name, Path.cwd() / name]
        found = next((place for place in places if place.is_dir()), None)
        if found is None and self.base.startswith((".", "/", "~", "\\")):
            raise BadInput(self._missing("does not exist here"))
        if found is not None and is_adapter(found):
            raise Unsupported(
                f"'{self.source}' is an adapter on another adapter ('{self.base}'); merge that one first."
            )
        return found

    def missing_base(self, e: BaseException) -> BadInput:
        """The error for a base that could not be downloaded."""
        line = (str(e).splitlines() or [type(e).__name__])[0]
        return BadInput(self._missing(f"is not a local folder and could not be downloaded ({line[:160].rstrip('.')})"))

    def _missing(self, why: str) -> str:
        return (
            f"'{self.source}' is an adapter, whose base model '{self.base}' {why}; copy it here, or {self._write_base}."
        )

    def moves(self) -> bool:
        """Whether the base is found from any current folder, so that another process finds it too."""
        name = Path(self.base).expanduser()
        return name.is_absolute() or (self.folder / name).is_dir() or not (Path.cwd() / name).is_dir()

    def auto_class(self) -> str:
        """The name of the transformers class that loads its base model."""
        if self.task is not None and self.task not in AUTO_CLASSES:
            raise Unsupported(f"'{self.source}' is an adapter for the task {self.task}, which classifies no texts.")
        return AUTO_CLASSES[self.task or "SEQ_CLS"]

    def label_options(self, base: nn.Module) -> dict[str, Any]:
        """The names, or at least the number, of labels of its own head; `base` may be on the meta device."""
        own = self.folder / "config.json"
        try:
            config = json.loads(own.read_text("utf-8")) if own.exists() else {}
            if names := config.get("id2label"):
                labels = {int(i): str(name) for i, name in names.items()}
                named = {"id2label": labels, "label2id": {name: i for i, name in labels.items()}}
                return named | {k: config[k] for k in ("problem_type",) if config.get(k)}
        except (ValueError, AttributeError, RecursionError) as e:
            raise BadInput(f"'{own}' is damaged ({type(e).__name__}); copy it again.") from e
        shapes = {name: tuple(p.shape) for name, p in base.named_parameters()}
        labels_before: Any = getattr(base.config, "num_labels", None)
        heads = {n: new for n, new in self.shapes.items() if n in shapes and shapes[n][:1] == (labels_before,)}
        counts = {new[0] for name, new in heads.items() if new[1:] == shapes[name][1:]} - {labels_before}
        return {"num_labels": counts.pop()} if len(counts) == 1 else {}

    def adapt(self, model: Any, use: AdapterUse | None, dtype: torch.dtype | None = None) -> Any:
        """The base model with the adapter, in this dtype: merged into its weights, or live beside them.

        None merges what can be merged: adapters that put learned vectors before the text stay live.
        """
        prompts = self.settings["peft_type"] in _PROMPTS
        if prompts and use == "merged":
            raise Unsupported(f"'{self.source}' ({self.settings['peft_type']}) cannot be merged; give adapter='live'.")
        self._fit_vocabulary(model)
        before = {id(p) for p in model.parameters()}
        adapted = self._load(model)
        for p in adapted.parameters():
            if dtype is not None and id(p) not in before:
                p.data = p.data.to(dtype)
        if prompts or use == "live":
            return adapted
        try:
            merged = adapted.merge_and_unload(safe_merge=True)
        except Exception as e:  # kinds of adapters that have nothing to merge, weights that are not finite
            raise Unsupported(f"'{self.source}' cannot be merged ({_line(e)}); give adapter='live'.") from e
        vars(merged).pop("peft_config", None)
        return merged

    def _fit_vocabulary(self, model: Any) -> None:
        """As many word vectors as the adapter's own table has, if it has one."""
        table = model.get_input_embeddings()
        name = next((name for name, module in model.named_modules() if module is table), "")
        rows = self.shapes.get(f"{name}.weight", (0,))[0]
        if rows > table.weight.shape[0]:
            model.resize_token_embeddings(rows, mean_resizing=False)

    def _load(self, model: Any) -> Any:
        try:
            from peft import PeftModel, get_peft_model_state_dict
        except ImportError as e:
            raise BadInput(f"'{self.source}' is an adapter, which needs peft; {_INSTALL}.") from e
        numbers = Contents(self.source, len(self.shapes), sum(torch.Size(s).numel() for s in self.shapes.values()))
        options = {"torch_device": "cpu", "low_cpu_mem_usage": True, "autocast_adapter_dtype": False}
        with warnings.catch_warnings(), numbers.limiting():
            warnings.simplefilter("ignore")  # what peft warns of is checked below
            try:
                adapted = PeftModel.from_pretrained(model, str(self.folder), **options)
                expected = get_peft_model_state_dict(adapted, save_embedding_layers=False)
            except HeedfulError:
                raise
            except Exception as e:
                raise BadInput(f"the adapter '{self.source}' does not fit its base '{self.base}' ({_line(e)}).") from e
        own = {name.removeprefix(_PREFIX) for name in expected}
        names = {name for name, _ in adapted.get_base_model().named_parameters()}
        unknown = sorted(self.shapes.keys() - own - names)
        empty = sorted(name for name, p in adapted.named_parameters() if p.is_meta)
        if unknown or empty:
            wrong = f"has no place for its {unknown[0]}" if unknown else f"needs {empty[0]}, which it does not have"
            raise BadInput(
                f"the adapter '{self.source}' does not fit its base '{self.base}', which {wrong}; give the base model "
                "on which it was trained."
            )
        return adapted.eval()


def _check_sizes(source: str, settings: Mapping[str, Any], largest: int) -> None:
    """Refuse a rank that no weight of the file has: peft would fill memory with it."""
    ranks = settings.get("rank_pattern")
    sizes = {name: settings.get(name) for name in _SIZES} | (dict(ranks) if isinstance(ranks, dict) else {})
    for name, size in sizes.items():
        if isinstance(size, int) and size > largest:
            raise BadInput(
                f"{CONFIG} of '{source}' has {name}={size:,}, and no axis of its weights is longer than {largest:,}; "
                "give the configuration that belongs to the weights."
            )


def save_adapted(model: Any, folder: Path, save_tokenizer: Callable[[Path], Any]) -> None:
    """Write a live PeftModel as an adapter folder with its base model in it, which `load` puts together again."""
    import copy

    from peft.utils import ModulesToSaveWrapper

    adapters = [name for name in model.peft_config if name in model.active_adapters]
    if adapters != ["default"] or len(model.peft_config) != 1:
        raise BadInput(f"it has the adapters {', '.join(model.peft_config)}")
    learned = model.active_peft_config.is_prompt_learning  # vectors before the text, which leave the base as it was
    base = copy.deepcopy(model.get_base_model()) if learned else copy.deepcopy(model).unload()
    for name, module in model.get_base_model().named_modules():
        if isinstance(module, ModulesToSaveWrapper):  # in its place there is still the adapter's own head
            base.set_submodule(name, copy.deepcopy(module.original_module))
    vars(base).pop("peft_config", None)
    base.save_pretrained(folder / "base")
    save_tokenizer(folder / "base")
    model.save_pretrained(folder, save_embedding_layers=False)
    config = json.loads((folder / CONFIG).read_text("utf-8"))
    (folder / CONFIG).write_text(json.dumps(config | {"base_model_name_or_path": "base"}), "utf-8")


def _line(e: BaseException) -> str:
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    return (lines[1] if len(lines) > 1 and lines[0].endswith(":") else (lines or [type(e).__name__])[0])[:160].rstrip(
        "."
    )
