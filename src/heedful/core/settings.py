"""Settings: what the fields of a dataclass may hold, read off their annotations; values are checked against that.

    samples: Annotated[int, Ge(1)] = 100
    baseline: Literal["mask", "zero"] = "mask"

A setting of a type not listed in `_WORDS` (a function, say) is not checked, and cannot be written on a command line.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from heedful.core.errors import BadInput, nearest

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True)
class _Bound:
    """A limit of a number, written in its annotation: Annotated[int, Ge(1)]."""

    limit: float
    words: ClassVar[str]
    compare: ClassVar[Callable[[Any, Any], bool]]

    def accepts(self, value: float) -> bool:
        return type(self).compare(value, self.limit)

    def __str__(self) -> str:
        return f"{self.words} {self.limit:,}"


class Ge(_Bound):
    """At least this number."""

    words, compare = "of at least", operator.ge


class Gt(_Bound):
    """More than this number."""

    words, compare = "above", operator.gt


class Le(_Bound):
    """At most this number."""

    words, compare = "of at most", operator.le


class Lt(_Bound):
    """Less than this number."""

    words, compare = "below", operator.lt


@dataclass(frozen=True)
class Between:
    """From `low` to `high`, both allowed."""

    low: float
    high: float

    def accepts(self, value: float) -> bool:
        """Whether the value is in the range."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"from {self.low:,} to {self.high:,}"


@dataclass(frozen=True)
class Must:
    """A check of another kind, written in an annotation: a function that raises BadInput for a value it refuses."""

    check: Callable[[Any], object]


Count = Annotated[int, Ge(1)]
Fraction = Annotated[float, Ge(0), Lt(1)]
Positive = Annotated[float, Gt(0)]
NotNegative = Annotated[float, Ge(0)]


class _NotThis(Exception):  # noqa: N818
    """The value is not of this kind; caught where the kinds of a union are tried in turn."""


@dataclass(frozen=True)
class Setting:
    """One field of a class: its name, what it may hold, and its default."""

    name: str
    kind: Any
    default: Any

    @property
    def words(self) -> str:
        """What it may hold, in words: "a whole number or 'all'"."""
        described = dict.fromkeys(word for member in _members(self.kind) for word in _described(member))
        order = sorted(described, key=lambda word: (word == "none", word.startswith("several"), word.startswith("'")))
        return " or ".join([", ".join(order[:-1]), order[-1]]) if len(order) > 1 else order[0]

    def read(self, text: str) -> Any:
        """The value that a command line means: Setting("steps", int, 32).read("64") -> 64."""
        return self._tried(text, _parsed)

    def checked(self, value: Any) -> Any:
        """The value in the standard form of its kind: a list becomes a tuple, and 25 becomes 25.0 for a float."""
        return self._tried(value, _checked)

    def _tried(self, value: Any, attempt: Callable[[Any, Any], Any]) -> Any:
        members = _members(self.kind)
        for member in members:
            try:
                return attempt(member, value)
            except _NotThis:
                continue
        if self.choices is not None:
            choices = [str(choice) for choice in self.choices if choice is not None]
            hint = nearest(str(value), choices) or "."
            raise BadInput(f"{self.name} '{value}' is not one of {', '.join(choices)}{hint}")
        written = (tuple, Literal)  # origins of kinds that can be written as text
        if attempt is _parsed and not any(
            _plain(m) in (*_WORDS, NoneType) or get_origin(m) in written for m in members
        ):
            raise BadInput(f"{self.name} cannot be written as text; set it in Python.")
        raise BadInput(f"{self.name} is {self.words}, not {value!r}.")

    @property
    def choices(self) -> list[Any] | None:
        """The values that it may hold, where they can be listed."""
        members = _members(self.kind)
        if not all(member is NoneType or get_origin(member) is Literal for member in members):
            return None
        return [choice for member in members for choice in (get_args(member) or (None,))]


def of(cls: Any) -> Mapping[str, Setting]:
    """The settings of a class, in order."""
    return _of(cls)  # mypy does not accept a class as the hashable argument of a cached function


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
    """A dataclass of settings whose constructor refuses values that its annotations do not allow."""

    def __post_init__(self) -> None:
        for name, setting in of(type(self)).items():
            setting.checked(getattr(self, name))


def checked(cls: Any, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Values for settings of a class known as `name`, each checked and in its standard form."""
    known = of(cls)
    for wrong in sorted(set(arguments) - set(known)):
        raise BadInput(f"{name} has no setting '{wrong}'{_hint(wrong, known)}")
    return {key: known[key].checked(value) for key, value in arguments.items()}


def make(cls: Any, name: str, arguments: Mapping[str, Any] | None = None) -> Any:
    """An object of a class with settings, known as `name`; each setting is checked against its type."""
    return cls(**checked(cls, name, arguments or {}))


def values(item: object) -> dict[str, Any]:
    """The settings of an object, by name."""
    return asdict(item) if is_dataclass(item) and not isinstance(item, type) else {}


def draw_key(name: str, item: object) -> tuple[str, dict[str, Any]]:
    """The part of a random key that stands for an object: a name and settings, in the order of the fields.

    Later versions must draw the same numbers. So a renamed class has `key_name = "old name"`, one with renamed settings
    `key_names = {"new": "old"}`, and one with added settings `key_added = ("setting",)`: these enter the key only where
    they are not at their defaults.
    """
    names: Mapping[str, str] = getattr(item, "key_names", {})
    added: Sequence[str] = getattr(item, "key_added", ())
    known = of(type(item))
    part = {n: value for n, value in values(item).items() if n not in added or value != known[n].default}
    return getattr(item, "key_name", name), {names.get(n, n): value for n, value in part.items()}


# settings as text


def read_assignments(
    assignments: Sequence[str], owners: Sequence[tuple[str, Any]], full_name: Callable[[str], str] = str
) -> list[dict[str, Any]]:
    """The values of each owner (a name and a class) from texts `setting=value` or `owner.setting=value`.

    Without an owner the value is for all that have the setting. A value for a named owner takes precedence over one for
    all, and the last over the first.
    read_assignments(["steps=64"], [("integrated-gradients", IntegratedGradients)]) -> [{"steps": 64}]
    """
    by_owner: list[dict[str, Any]] = [{} for _ in owners]
    for owner, setting, text in sorted(map(_split, assignments), key=lambda part: part[0] != ""):
        meant = [i for i, (name, _) in enumerate(owners) if owner == "" or name == full_name(owner)]
        if not meant:
            raise BadInput(f"'{owner}' is not among those chosen{_hint(owner, [name for name, _ in owners], 'chosen')}")
        having = [i for i in meant if setting in of(owners[i][1])]
        if not having:
            who = f"{owners[meant[0]][0]} has no" if len(meant) == 1 else "nothing chosen has a"
            known = sorted({name for i in meant for name in of(owners[i][1])})
            raise BadInput(f"{who} setting '{setting}'{_hint(setting, known)}")
        for i in having:
            by_owner[i][setting] = of(owners[i][1])[setting].read(text)
    return by_owner


def text_of(value: Any) -> str:
    """A value as `read` takes it."""
    if isinstance(value, tuple):
        return ",".join(map(text_of, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _split(assignment: str) -> tuple[str, str, str]:
    """ "ig.steps=64" -> ("ig", "steps", "64"); without an owner its name is empty."""
    name, equals, text = assignment.partition("=")
    owner, _, setting = name.strip().rpartition(".")
    if not equals or not setting:
        raise BadInput(f"'{assignment}' is not a setting; write name=value, or owner.name=value.")
    return owner, setting.replace("-", "_"), text


def _hint(name: str, known: Sequence[str] | Mapping[str, Any], kind: str = "known") -> str:
    return nearest(name, list(known)) or f"; {kind} are: {', '.join(known) or 'none'}."


# kinds: the annotation of a setting, or one member of a union


def _plain(kind: Any) -> Any:
    """Annotated[int, Ge(1)] -> int."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _members(kind: Any) -> tuple[Any, ...]:
    """The members of a union, in the order to try: Literals, numbers, tuples, then free text."""
    if get_origin(kind) not in (Union, UnionType):
        return (kind,)
    flat = [inner for member in get_args(kind) for inner in _members(member)]
    order = {Literal: 0, tuple: 2}
    return tuple(sorted(flat, key=lambda member: 3 if _plain(member) is str else order.get(get_origin(member), 1)))


def _described(kind: Any) -> list[str]:
    if get_origin(kind) is Literal:
        return [f"'{choice}'" if isinstance(choice, str) else str(choice) for choice in get_args(kind)]
    if kind is NoneType:
        return ["none"]
    if get_origin(kind) is tuple:
        return [*_described(get_args(kind)[0]), "several with commas between"]
    word = _WORDS.get(_plain(kind), getattr(_plain(kind), "__name__", str(kind)))
    bounds = [str(mark) for mark in get_args(kind)[1:] if isinstance(mark, (_Bound, Between))]
    return [" ".join([word, " and ".join(bounds)]).rstrip()]


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
        return _known({str(choice).casefold(): choice for choice in get_args(kind)}, plain)
    if kind is NoneType:
        return _known({"none": None}, plain)
    if kind is bool:
        return _known(dict.fromkeys(_TRUE, True) | dict.fromkeys(_FALSE, False), plain)
    if kind not in (int, float, str):
        raise _NotThis
    try:
        # subtle: int() and float() also accept "1_000", "nan" and "inf", which are refused here
        value = text if kind is str else kind("x" if "_" in plain else plain)
    except ValueError:
        raise _NotThis from None
    return _checked(kind, value)


def _known(values: Mapping[str, Any], text: str) -> Any:
    if text.casefold() not in values:
        raise _NotThis
    return values[text.casefold()]


def _checked(kind: Any, value: Any) -> Any:
    if get_origin(kind) is Annotated:
        plain = _checked(_plain(kind), value)
        for mark in get_args(kind)[1:]:
            if isinstance(mark, Must):
                mark.check(plain)
            elif isinstance(mark, (_Bound, Between)):
                _same(plain, mark.accepts(plain))
        return plain
    if get_origin(kind) is tuple:
        if not isinstance(value, (tuple, list)):
            raise _NotThis
        return tuple(_checked(get_args(kind)[0], item) for item in value)
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
