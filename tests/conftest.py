"""Shapes are checked at run time in every test."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

from jaxtyping import install_import_hook

CHECKED = ("formulas", "theory", "stats", "ranks", "changes", "edits", "batch", "classifier")
hook = install_import_hook([f"heedful.{name}" for name in CHECKED], "beartype.beartype")

import hypothesis  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)
hypothesis.settings.register_profile("heedful", deadline=None, derandomize=True)  # a busy machine is no failure
hypothesis.settings.load_profile("heedful")
