"""Settings: what a method's fields may hold, from their annotations, and values read and checked against it.

A setting of a type not listed in `_WORDS` (a function, say) is taken as it is, and cannot be written on a command line.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from heedful.core.errors import BadInput, nearest

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


class _NotThis(Exception):  # noqa: N818
    """A value that is not of the wanted kind; caught where the kinds of a union are tried in turn."""


@dataclass(frozen=True)
class Setting:
    """One field of a method: its name, what it may hold, and what it holds if nothing is said."""

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
        choices = [str(c) for one in members if get_origin(one) is Literal for c in get_args(one)]
        if choices and all(one is NoneType or get_origin(one) is Literal for one in members):
            hint = nearest(str(value), choices) or "."
            raise BadInput(f"{self.name} '{value}' is not one of {', '.join(choices)}{hint}")
        if attempt is _parsed and not any(map(_writable, members)):
            raise BadInput(f"{self.name} cannot be written as text; give it in Python.")
        raise BadInput(f"{self.name} is {self.words}, not {value!r}.")

    @property
    def choices(self) -> list[Any] | None:
        """The values that it may hold, where they can be listed."""
        listed = [c for one in _members(self.kind) for c in (get_args(one) if get_origin(one) is Literal else (None,))]
        closed = all(one is NoneType or get_origin(one) is Literal for one in _members(self.kind))
        return listed if closed else None


@cache
def of(cls: Any) -> Mapping[str, Setting]:
    """The settings of a method's class, in order."""
    if not is_dataclass(cls):
        return {}
    try:
        kinds = get_type_hints(cls)
    except Exception:  # another package's annotations may name anything
        kinds = {}
    return {
        f.name: Setting(f.name, kinds.get(f.name, Any), None if f.default is MISSING else f.default)
        for f in fields(cls)
        if f.init
    }


def made(cls: Any, name: str, given: Mapping[str, Any] | None = None) -> Any:
    """An object of a class with settings, known as `name`; each setting checked against its type."""
    known = of(cls)
    for wrong in sorted(set(given or {}) - set(known)):
        hint = nearest(wrong, list(known)) or f"; its settings are: {', '.join(known) or 'none'}."
        raise BadInput(f"{name} has no setting '{wrong}'{hint}")
    return cls(**{key: known[key].checked(value) for key, value in (given or {}).items()})


def _members(kind: Any) -> tuple[Any, ...]:
    """What a union may be, exact words before numbers before free text: "all" is no text where it is a Literal."""
    members = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    flat = [inner for one in members for inner in (_members(one) if one is not kind else (one,))]
    order = {Literal: 0, tuple: 2}
    return tuple(sorted(flat, key=lambda one: 3 if one is str else order.get(get_origin(one), 1)))


def _writable(kind: Any) -> bool:
    return kind in _WORDS or kind is NoneType or get_origin(kind) in (tuple, Literal)


def _described(kind: Any) -> list[str]:
    if get_origin(kind) is Literal:
        return [f"'{choice}'" if isinstance(choice, str) else str(choice) for choice in get_args(kind)]
    if kind is NoneType:
        return ["none"]
    if get_origin(kind) is tuple:
        return [_WORDS.get(get_args(kind)[0], "a value"), "several with commas between"]
    return [_WORDS.get(kind, getattr(kind, "__name__", str(kind)))]


def _either(words: list[str]) -> str:
    """["a", "b", "c"] -> "a, b or c"."""
    ordered = sorted(dict.fromkeys(words), key=lambda word: (word == "none", word.startswith("'")))
    return " or ".join([", ".join(ordered[:-1]), ordered[-1]]) if len(ordered) > 1 else ordered[0]


def _parsed(kind: Any, text: str) -> Any:
    plain = text.strip()
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
