"""Shapes are checked at run time in every test."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

from jaxtyping import install_import_hook

hook = install_import_hook(["heedful.formulas", "heedful.edits", "heedful.classifier"], "beartype.beartype")

import torch  # noqa: E402

torch.set_num_threads(1)
