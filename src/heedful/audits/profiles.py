"""Batteries: which methods and checks a run has, with all their settings; two profiles, and what a user changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from typing import Any

from heedful.checks import CHECKS, Check, check
from heedful.core import settings as known_settings
from heedful.core.errors import BadInput, nearest
from heedful.core.target import Target
from heedful.maths.stats import MINIMUM
from heedful.methods import METHODS, Method, method
from heedful.methods.choosing import Assignment
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
            "methods": {name: _settings(one) for name, one in self.methods.items()},
            "checks": {name: _settings(one) for name, one in self.checks.items()},
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
    table = _assigned(given)
    tests = _made(CHECKS if checks is None else checks, check, CHECKS.named, chosen.given, table)
    wanted = [*(chosen.methods if methods is None else methods), *brought]
    if not wanted or not tests:
        what = "check" if wanted else "method"
        raise BadInput(f"no {what} was given; `heedful {what}s` lists them all.")
    needed = [name for one in tests.values() for name in getattr(one, "requires", ())]
    first = _made([*wanted, *needed, *CONTROLS], method, METHODS.named, chosen.given, table)
    scoreless = [name for name in first if name in NO_SCORES]
    if scoreless:
        raise BadInput(f"{scoreless[0]} gives no score per token, which an audit needs; leave it out.")
    _check_used(table, {**first, **tests})
    return Battery(_ordered(first, METHODS), _ordered(tests, CHECKS), target or Target())


def _ordered(chosen: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """In the catalogue's order (the controls are its last), whatever the order in which they were named."""
    names = list(known)
    return {n: chosen[n] for n in sorted(chosen, key=lambda n: (names.index(n) if n in names else len(names), n))}


def _profile(name: str) -> Profile:
    if name not in PROFILES:
        raise BadInput(f"profile '{name}' is not one of {', '.join(PROFILES)}{nearest(name, list(PROFILES)) or '.'}")
    return PROFILES[name]


def _made(
    wanted: Iterable[Any],
    make: Callable[[Any], Any],
    named: Callable[[Any], str],
    profile: Mapping[str, Mapping[str, Any]],
    given: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    """Each once, with the profile's settings where it came by name, and with what was given."""
    found: dict[str, Any] = {}
    for one in wanted:
        plain = make(one)
        name = named(plain)
        if name in found:
            continue
        values = dict(profile.get(name, {})) if isinstance(one, str) else {}
        known = known_settings.of(plain.__class__)
        for owner in ("", name):
            for setting, text in given.get(owner, {}).items():
                if setting in known:
                    values[setting] = known[setting].read(text)
        found[name] = replace(plain, **{key: v for key, v in values.items() if key in known}) if values else plain
    return found


def _assigned(given: Sequence[str]) -> dict[str, dict[str, str]]:
    """ "lime.samples=500" -> {"lime": {"samples": "500"}}; without a name, for all that have the setting."""
    table: dict[str, dict[str, str]] = {}
    for text in given:
        # subtle: "erasure" is a check, and elsewhere a usual name of leave-one-out
        one = Assignment.of(text, lambda name: CHECKS.name(name) if name in CHECKS else METHODS.name(name))
        table.setdefault(one.method or "", {})[one.setting] = one.text
    return table


def _check_used(given: Mapping[str, Mapping[str, str]], chosen: Mapping[str, Any]) -> None:
    """Refuse a setting that would go nowhere."""
    for owner, table in given.items():
        if owner and owner not in chosen:
            hint = nearest(owner, list(chosen)) or "."
            raise BadInput(f"'{owner}' is not among the methods and checks of this run{hint}")
        meant = [chosen[owner]] if owner else list(chosen.values())
        known = sorted({name for one in meant for name in known_settings.of(one.__class__)})
        for setting in table:
            if setting not in known:
                hint = nearest(setting, known) or f"; known are: {', '.join(known) or 'none'}."
                has = f"{owner} has no" if owner else "nothing in this run has a"
                raise BadInput(f"{has} setting '{setting}'{hint}")


def _settings(one: Any) -> dict[str, Any]:
    return asdict(one) if is_dataclass(one) and not isinstance(one, type) else {}
