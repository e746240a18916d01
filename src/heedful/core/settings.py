"""Settings: what the fields of a dataclass may hold, read off their annotations; values are checked against that.

    samples: Annotated[int, Ge(1)] = 100
    baseline: Literal["mask", "zero"] = "mask"

A setting of a type not listed in `_WORDS` (a function, say) is taken as it is, and cannot be written on a command line.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from heedful.core.errors import BadInput, nearest

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True)
class _Bound:
    """A limit of a number, written in its annotation: Annotated[int, Ge(1)]."""

    limit: float


class Ge(_Bound):
    """At least so much."""


class Gt(_Bound):
    """More than this."""


class Le(_Bound):
    """At most so much."""


class Lt(_Bound):
    """Less than this."""


@dataclass(frozen=True)
class Between:
    """From `low` to `high`, both allowed."""

    low: float
    high: float


_BOUNDS: Mapping[type, tuple[str, Callable[[Any, Any], bool]]] = {
    Ge: ("of at least", operator.ge),
    Gt: ("above", operator.gt),
    Le: ("of at most", operator.le),
    Lt: ("below", operator.lt),
}


def _accepts(bound: _Bound | Between, value: float) -> bool:
    if isinstance(bound, Between):
        return bound.low <= value <= bound.high
    return _BOUNDS[type(bound)][1](value, bound.limit)


def _bound_words(bound: _Bound | Between) -> str:
    if isinstance(bound, Between):
        return f"from {bound.low:,} to {bound.high:,}"
    return f"{_BOUNDS[type(bound)][0]} {bound.limit:,}"


@dataclass(frozen=True)
class Must:
    """A check of another kind, written in an annotation: a function that raises BadInput for a value it refuses."""

    check: Callable[[Any], object]


class _NotThis(Exception):  # noqa: N818
    """A value that is not of the wanted kind; caught where the kinds of a union are tried in turn."""


@dataclass(frozen=True)
class Setting:
    """One field of a class: its name, what it may hold, and its default."""

    name: str
    kind: Any
    default: Any

    @property
    def words(self) -> str:
        """What it may hold, in words: "a whole number or 'all'"."""
        return _either([word for one in _members(self.kind) for word in _described(one)])

    def read(self, text: str) -> Any:
        """The value that a command line means: Setting("steps", int, 32).read("64") -> 64."""
        return self._tried(text, _parsed)

    def checked(self, value: Any) -> Any:
        """The value itself, in the one form that its kind has: a list becomes a tuple, and 25 becomes 25.0."""
        return self._tried(value, _checked)

    def _tried(self, value: Any, attempt: Callable[[Any, Any], Any]) -> Any:
        members = _members(self.kind)
        for one in members:
            try:
                return attempt(one, value)
            except _NotThis:
                continue
        if self.choices is not None:
            choices = [str(choice) for choice in self.choices if choice is not None]
            hint = nearest(str(value), choices) or "."
            raise BadInput(f"{self.name} '{value}' is not one of {', '.join(choices)}{hint}")
        if attempt is _parsed and not any(map(_writable, members)):
            raise BadInput(f"{self.name} cannot be written as text; give it in Python.")
        raise BadInput(f"{self.name} is {self.words}, not {value!r}.")

    @property
    def choices(self) -> list[Any] | None:
        """The values that it may hold, where they can be listed."""
        members = _members(self.kind)
        if not all(one is NoneType or get_origin(one) is Literal for one in members):
            return None
        return [choice for one in members for choice in (get_args(one) if get_origin(one) is Literal else (None,))]


def of(cls: Any) -> Mapping[str, Setting]:
    """The settings of a class, in order."""
    return _of(cls)


@cache
def _of(cls: Any) -> Mapping[str, Setting]:
    if not is_dataclass(cls):
        return {}
    try:
        kinds = get_type_hints(cls, include_extras=True)
    except Exception:  # another package's annotations may name anything
        kinds = {}
    return {
        f.name: Setting(f.name, kinds.get(f.name, Any), None if f.default is MISSING else f.default)
        for f in fields(cls)
        if f.init
    }


class Checked:
    """A dataclass of settings that refuses, when an object is made, values that its annotations do not allow."""

    def __post_init__(self) -> None:
        for name, setting in of(type(self)).items():
            setting.checked(getattr(self, name))


def checked(cls: Any, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Values for settings of a class known as `name`, each checked and in its one form."""
    known = of(cls)
    for wrong in sorted(set(given) - set(known)):
        raise BadInput(f"{name} has no setting '{wrong}'{_hint(wrong, known)}")
    return {key: known[key].checked(value) for key, value in given.items()}


def make(cls: Any, name: str, given: Mapping[str, Any] | None = None) -> Any:
    """An object of a class with settings, known as `name`; each setting checked against its type."""
    return cls(**checked(cls, name, given or {}))


def values(item: object) -> dict[str, Any]:
    """The settings of an object, by name."""
    return asdict(item) if is_dataclass(item) and not isinstance(item, type) else {}


def draw_key(name: str, item: object) -> tuple[str, dict[str, Any]]:
    """What stands for an object in the key of its random numbers: a name and settings, in the order of the fields.

    What was drawn once can be drawn again by later versions. So a class that is renamed says `key_name = "old name"`,
    one with renamed settings `key_names = {"new": "old"}`, and one with settings that it did not always have
    `key_added = ("setting",)`: these enter the key only where they are not at their defaults.
    """
    names: Mapping[str, str] = getattr(item, "key_names", {})
    added: Sequence[str] = getattr(item, "key_added", ())
    known = of(type(item))
    part = {n: value for n, value in values(item).items() if n not in added or value != known[n].default}
    return getattr(item, "key_name", name), {names.get(n, n): value for n, value in part.items()}


# settings as text


def read_assignments(
    given: Sequence[str], owners: Sequence[tuple[str, Any]], full_name: Callable[[str], str] = str
) -> list[dict[str, Any]]:
    """The values that each owner (a name and a class) is given by `setting=value` or `owner.setting=value`.

    Without an owner the value is for all that have the setting. A value for a named owner wins over one for all, and
    the last over the first.
    read_assignments(["steps=64"], [("integrated-gradients", IntegratedGradients)]) -> [{"steps": 64}]
    """
    found: list[dict[str, Any]] = [{} for _ in owners]
    for owner, setting, text in sorted(map(_split, given), key=lambda part: part[0] != ""):
        meant = [i for i, (name, _) in enumerate(owners) if owner == "" or name == full_name(owner)]
        if not meant:
            raise BadInput(f"'{owner}' is not among those chosen{_hint(owner, [name for name, _ in owners], 'chosen')}")
        having = [i for i in meant if setting in of(owners[i][1])]
        if not having:
            who = f"{owners[meant[0]][0]} has no" if len(meant) == 1 else "nothing chosen has a"
            known = sorted({name for i in meant for name in of(owners[i][1])})
            raise BadInput(f"{who} setting '{setting}'{_hint(setting, known)}")
        for i in having:
            found[i][setting] = of(owners[i][1])[setting].read(text)
    return found


def text_of(value: Any) -> str:
    """A value as `read` takes it."""
    if isinstance(value, tuple):
        return ",".join(map(text_of, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _split(given: str) -> tuple[str, str, str]:
    """ "ig.steps=64" -> ("ig", "steps", "64"); without an owner its name is empty."""
    left, equals, text = given.partition("=")
    owner, _, setting = left.strip().rpartition(".")
    if not equals or not setting:
        raise BadInput(f"'{given}' is not a setting; write name=value, or owner.name=value.")
    return owner, setting.replace("-", "_"), text


def _hint(name: str, known: Sequence[str] | Mapping[str, Any], kind: str = "known") -> str:
    return nearest(name, list(known)) or f"; {kind} are: {', '.join(known) or 'none'}."


# kinds: the annotation of a setting, or one member of a union


def _plain(kind: Any) -> Any:
    """Annotated[int, Ge(1)] -> int."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _members(kind: Any) -> tuple[Any, ...]:
    """What a union may be, exact words before numbers before free text: "all" is no text where it is a Literal."""
    members = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    flat = [inner for one in members for inner in (_members(one) if one is not kind else (one,))]
    order = {Literal: 0, tuple: 2}
    return tuple(sorted(flat, key=lambda one: 3 if _plain(one) is str else order.get(get_origin(one), 1)))


def _writable(kind: Any) -> bool:
    return _plain(kind) in _WORDS or kind is NoneType or get_origin(kind) in (tuple, Literal)


def _described(kind: Any) -> list[str]:
    if get_origin(kind) is Literal:
        return [f"'{choice}'" if isinstance(choice, str) else str(choice) for choice in get_args(kind)]
    if kind is NoneType:
        return ["none"]
    if get_origin(kind) is tuple:
        return [*_described(get_args(kind)[0]), "several with commas between"]
    word = _WORDS.get(_plain(kind), getattr(_plain(kind), "__name__", str(kind)))
    bounds = [_bound_words(mark) for mark in get_args(kind)[1:] if isinstance(mark, (_Bound, Between))]
    return [" ".join([word, " and ".join(bounds)]).rstrip()]


def _either(words: list[str]) -> str:
    """["a", "b", "c"] -> "a, b or c"."""
    ordered = sorted(
        dict.fromkeys(words), key=lambda word: (word == "none", word.startswith("several"), word.startswith("'"))
    )
    return " or ".join([", ".join(ordered[:-1]), ordered[-1]]) if len(ordered) > 1 else ordered[0]


def _parsed(kind: Any, text: str) -> Any:
    plain = text.strip()
    if get_origin(kind) is Annotated:
        return _checked(kind, _parsed(_plain(kind), text))
    if get_origin(kind) is tuple:
        parts = [part for part in plain.split(",") if part.strip()]
        if not parts:
            raise _NotThis
        return tuple(_parsed(get_args(kind)[0], part) for part in parts)
    if get_origin(kind) is Literal:
        return _choice(kind, plain)
    if kind is NoneType:
        return _known({"none": None}, plain)
    if kind is bool:
        return _known(dict.fromkeys(_TRUE, True) | dict.fromkeys(_FALSE, False), plain)
    if kind not in (int, float, str):
        raise _NotThis
    try:
        # subtle: int() and float() also take "1_000", "nan" and "inf", which mean nothing here
        value = text if kind is str else kind("x" if "_" in plain else plain)
    except ValueError:
        raise _NotThis from None
    return _checked(kind, value)


def _known(values: Mapping[str, Any], text: str) -> Any:
    if text.casefold() not in values:
        raise _NotThis
    return values[text.casefold()]


def _choice(kind: Any, text: str) -> Any:
    return _known({str(choice).casefold(): choice for choice in get_args(kind)}, text)


def _checked(kind: Any, value: Any) -> Any:
    if get_origin(kind) is Annotated:
        plain = _checked(_plain(kind), value)
        for mark in get_args(kind)[1:]:
            if isinstance(mark, Must):
                mark.check(plain)
            elif isinstance(mark, (_Bound, Between)):
                _same(plain, _accepts(mark, plain))
        return plain
    if get_origin(kind) is tuple:
        if not isinstance(value, (tuple, list)):
            raise _NotThis
        return tuple(_checked(get_args(kind)[0], one) for one in value)
    if get_origin(kind) is Literal:
        return _same(value, any(type(value) is type(choice) and value == choice for choice in get_args(kind)))
    if kind is int:
        return int(_same(value, isinstance(value, numbers.Integral) and not isinstance(value, bool)))
    if kind is float:
        real = isinstance(value, numbers.Real) and not isinstance(value, bool)
        return float(_same(value, real and abs(float(value)) < float("inf")))
    if kind in (bool, str, NoneType):
        return _same(value, isinstance(value, kind))
    return value


def _same(value: Any, right: bool) -> Any:
    if not right:
        raise _NotThis
    return value
