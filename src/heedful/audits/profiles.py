"""Batteries: which methods and checks a run has, with all their settings; two profiles, and what a user changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from heedful.checks import CHECKS, Check
from heedful.core import settings
from heedful.core.catalogue import Catalogue
from heedful.core.errors import BadInput, nearest
from heedful.core.target import Target
from heedful.maths.stats import MINIMUM
from heedful.methods import METHODS, Method
from heedful.model.masking import WAYS

CONTROLS = ("random", "uniform", "position")
NO_SCORES = ("attention-weights", "attattr", "input-reduction", "minimal-flip")  # not a score per token
FIVE = ("attention-mean", "gradient-x-input", "integrated-gradients", "leave-one-out", "lime")
AGAIN = {"methods": FIVE, "texts": MINIMUM + 2}  # of checks that explain again; a decision needs MINIMUM that can be
QUICK_METHODS = (
    "attention-mean", "attention-max", "rollout", "attention-flow", "attention-norm", "effective-attention",
    "attention-gradient", "relevance", "value-zeroing", "attattr-tokens", "gradient-l2", "gradient-x-input",
    "smoothgrad", "integrated-gradients", "leave-one-out", "lime", "shapley", "theory-gradient", "theory-lime",
)  # fmt: skip


@dataclass(frozen=True)
class Profile:
    """How much a run does: how many texts, which methods, and settings other than the defaults."""

    limit: int | None
    methods: tuple[str, ...]
    given: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of methods and of checks, by name


PROFILES = {
    "quick": Profile(
        60,
        QUICK_METHODS,
        {
            "lime": {"samples": 200},
            "shapley": {"samples": 200, "exact_up_to": 7},
            "input-erasure": {"points": 10},
            "sensitivity": AGAIN,
            "stability": AGAIN,
            "randomisation": AGAIN | {"stages": 4},
        },
    ),
    "full": Profile(
        None,
        tuple(name for name in METHODS if name not in (*NO_SCORES, *CONTROLS)),
        {
            "input-erasure": {"maskings": WAYS},
            "permutation": {"layer_draws": 100, "head_draws": 10},
            "identifiability": {"layer": "all"},
            "adversarial": {"layer": "all"},
        },
    ),
}


@dataclass(frozen=True)
class Battery:
    """The methods and checks of a run, by name, and what is explained. The controls are always among the methods."""

    methods: Mapping[str, Method]
    checks: Mapping[str, Check]
    target: Target = field(default_factory=Target)

    def to_dict(self) -> dict[str, Any]:
        """Every setting, for the manifest."""
        return {
            "methods": {name: settings.values(one) for name, one in self.methods.items()},
            "checks": {name: settings.values(one) for name, one in self.checks.items()},
            "target": asdict(self.target),
        }


def battery(
    profile: str = "quick",
    methods: Iterable[str | Method] | None = None,
    checks: Iterable[str | Check] | None = None,
    target: Target | None = None,
    given: Sequence[str] = (),
    brought: Iterable[Method] = (),
) -> Battery:
    """A profile's battery, or these methods and checks with the profile's settings; `given` as `lime.samples=500`.

    A method or check that is not a name but an object keeps its own settings. Methods that a check compares with are
    added, and the controls; the order is always the catalogues'. `brought` methods come beside
    whatever else is chosen.
    """
    chosen = _profile(profile)
    tests = _make(CHECKS, CHECKS if checks is None else checks, chosen.given)
    wanted = [*(chosen.methods if methods is None else methods), *brought]
    if not wanted or not tests:
        what = "check" if wanted else "method"
        raise BadInput(f"no {what} was given; `heedful {what}s` lists them all.")
    needed = [name for one in tests.values() for name in getattr(one, "requires", ())]
    first = _make(METHODS, [*wanted, *needed, *CONTROLS], chosen.given)
    scoreless = [name for name in first if name in NO_SCORES]
    if scoreless:
        raise BadInput(f"{scoreless[0]} gives no score per token, which an audit needs; leave it out.")
    # subtle: "erasure" is a check, and elsewhere an alias of leave-one-out
    owners = [(name, type(one)) for name, one in (*first.items(), *tests.items())]
    values = settings.read_assignments(
        given, owners, lambda name: CHECKS.full_name(name) if name in CHECKS else METHODS.full_name(name)
    )
    return Battery(
        _ordered(_set(first, values[: len(first)]), METHODS),
        _ordered(_set(tests, values[len(first) :]), CHECKS),
        target or Target(),
    )


def _set(chosen: Mapping[str, Any], values: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: replace(one, **own) if own else one for (name, one), own in zip(chosen.items(), values, strict=True)}


def _ordered(chosen: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """In the catalogue's order (the controls are its last), whatever the order in which they were named."""
    names = list(known)
    return {n: chosen[n] for n in sorted(chosen, key=lambda n: (names.index(n) if n in names else len(names), n))}


def _profile(name: str) -> Profile:
    if name not in PROFILES:
        raise BadInput(f"profile '{name}' is not one of {', '.join(PROFILES)}{nearest(name, list(PROFILES)) or '.'}")
    return PROFILES[name]


def _make(known: Catalogue, wanted: Iterable[Any], profile: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Each once, by its name, with the profile's settings where it came by name."""
    found: dict[str, Any] = {}
    for one in wanted:
        own = known.make(one, profile.get(known.full_name(one)) if isinstance(one, str) else None)
        found.setdefault(known.name_of(own), own)
    return found
