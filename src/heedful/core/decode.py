"""Decode: JSON back into frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
_hints = cache(get_type_hints)


def decode(kind: type[T], value: Any) -> T:
    """The inverse of `dataclasses.asdict` followed by JSON; a float that is null becomes NaN."""
    return _decoded(kind, value)  # type: ignore[no-any-return]


def _decoded(kind: Any, value: Any) -> Any:
    if isinstance(kind, type) and is_dataclass(kind):
        return kind(**{name: _decoded(hint, value[name]) for name, hint in _hints(kind).items() if name in value})
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        members = [member for member in args if member is not NoneType]
        return _decoded(members[0], value) if value is not None and len(members) == 1 else value
    if origin is tuple:
        kinds = [args[0]] * len(value) if args[1:] == (...,) else args
        return tuple(_decoded(item, inner) for item, inner in zip(kinds, value, strict=True))
    if origin is Sequence:
        return tuple(_decoded(args[0], inner) for inner in value)
    if origin is Mapping:
        return {key: _decoded(args[1], inner) for key, inner in value.items()}
    if kind is float:
        return float("nan") if value is None else float(value)
    return kind(value) if isinstance(kind, type) and issubclass(kind, Enum) else value
