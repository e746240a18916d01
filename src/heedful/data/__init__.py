"""Texts with labels: files, folders and data sets to Examples."""

from heedful.data.columns import Columns
from heedful.data.examples import (
    Example,
    Label,
    Splits,
    check_labels,
    fingerprint,
    label_names,
    load,
    read,
    splits,
)

__all__ = [
    "Columns", "Example", "Label", "Splits", "check_labels", "fingerprint", "label_names", "load", "read",
    "splits",
]  # fmt: skip
