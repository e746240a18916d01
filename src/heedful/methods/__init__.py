"""Methods: each a frozen dataclass of settings, called with (classifier, tokens, target, rng)."""

from heedful.methods.base import Method, Passes
from heedful.methods.catalogue import METHODS, method, settings

__all__ = ["METHODS", "Method", "Passes", "method", "settings"]
