"""Texts with labels: files, folders and data sets to Examples."""

from heedful.data.columns import Columns
from heedful.data.division import Splits, splits
from heedful.data.example import Example, Label, check_labels, fingerprint, gold_index, label_names, unknown_label
from heedful.data.examples import load, load_counted, read
from heedful.data.pairs import load_pairs, pair_splits
from heedful.data.selection import EVERYTHING, Selection, drop_note, selection_record

__all__ = [
    "EVERYTHING", "Columns", "Example", "Label", "Selection", "Splits", "check_labels", "drop_note", "fingerprint",
    "gold_index", "label_names", "load", "load_counted", "load_pairs", "pair_splits", "read", "selection_record",
    "splits", "unknown_label",
]  # fmt: skip
