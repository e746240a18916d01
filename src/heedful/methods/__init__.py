"""Methods: each a frozen dataclass of settings, called with (classifier, tokens, target, rng)."""

from heedful.methods.catalogue import METHODS, method, settings
from heedful.methods.common import Method, Passes

__all__ = ["METHODS", "Method", "Passes", "method", "settings"]
