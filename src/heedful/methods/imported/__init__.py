"""Explanations computed by other programs: their objects as lines of a file, and files as methods."""

from heedful.methods.imported.adapters import from_captum, from_ferret, from_inseq, from_lime, from_shap, write
from heedful.methods.imported.reading import ImportedMethod, read

__all__ = ["ImportedMethod", "from_captum", "from_ferret", "from_inseq", "from_lime", "from_shap", "read", "write"]
