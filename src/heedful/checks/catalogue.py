"""CHECKS: every check by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from heedful.checks.base import Check
from heedful.core import settings as known_settings
from heedful.core.errors import BadInput, nearest

_HOME = {
    "agreement": ("agreement", "Agreement"),
    "permutation": ("permutation", "Permutation"),
    "uniform": ("uniform", "Uniform"),
    "adversarial": ("adversarial", "Adversarial"),
    "identifiability": ("identifiability", "Identifiability"),
    "erasure": ("erasure", "Erasure"),
    "input-erasure": ("input_erasure", "InputErasure"),
    "sign": ("axioms", "Sign"),
    "completeness": ("axioms", "Completeness"),
    "infidelity": ("axioms", "Infidelity"),
    "sensitivity": ("sensitivity", "Sensitivity"),
    "complexity": ("axioms", "Complexity"),
    "randomisation": ("randomisation", "Randomisation"),
    "stability": ("stability", "Stability"),
    "plausibility": ("plausibility", "Plausibility"),
    "cost": ("axioms", "Cost"),
}


class _Checks(Mapping[str, Any]):
    """Names to classes, in order; a name is also found with _ for - and in any case."""

    def __getitem__(self, name: str) -> Any:
        plain = self.name(name)
        if plain not in _HOME:
            hint = nearest(plain, list(_HOME)) or "."
            raise KeyError(f"check '{name}' is not known{hint} `heedful checks` lists them all.")
        module, cls = _HOME[plain]
        return getattr(import_module(f"heedful.checks.{module}"), cls)

    def name(self, name: str) -> str:
        """The full name: name("Input_Erasure") -> "input-erasure"."""
        return name.strip().casefold().replace("_", "-").replace(" ", "-")

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.name(name) in _HOME

    def __iter__(self) -> Iterator[str]:
        return iter(_HOME)

    def __len__(self) -> int:
        return len(_HOME)

    def named(self, check: object) -> str:
        """The name under which a check's class is known, or the class's own name."""
        cls = type(check)
        return next((n for n, (_, c) in _HOME.items() if c == cls.__name__ and self[n] is cls), cls.__name__)


CHECKS = _Checks()


def check(named: str | Check, given: Mapping[str, Any] | None = None) -> Check:
    """A check by name, with settings, each checked against its type; a check itself is returned as it is."""
    if not isinstance(named, str):
        if not callable(named):
            raise BadInput(f"a {type(named).__name__} is not a check; give a name or a check such as Permutation().")
        return named
    try:
        cls = CHECKS[named]
    except KeyError as e:
        raise BadInput(str(e.args[0])) from None
    made: Check = known_settings.made(cls, CHECKS.name(named), given)
    return made
