"""Choosing: methods by name with settings written as text, as a command line gives them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from heedful.core import settings
from heedful.core.errors import BadInput, nearest
from heedful.methods import METHODS, Method, method


class Named(Protocol):
    """A catalogue: classes by name."""

    def __getitem__(self, name: str, /) -> Any:
        """The class."""
        ...

    def __contains__(self, name: object, /) -> bool:
        """Whether there is one."""
        ...

    def __iter__(self) -> Iterator[str]:
        """All names."""
        ...

    def name(self, name: str) -> str:
        """The full name."""
        ...


@dataclass(frozen=True)
class Assignment:
    """`steps=64`, for every method that has the setting, or `ig.steps=64` for one."""

    method: str | None
    setting: str
    text: str

    @classmethod
    def of(cls, given: str, name: Callable[[str], str] = METHODS.name) -> Assignment:
        """Assignment.of("ig.steps=64") -> Assignment("integrated-gradients", "steps", "64")."""
        left, equals, text = given.partition("=")
        owner, dot, setting = left.strip().rpartition(".")
        if not equals or not setting:
            raise BadInput(f"'{given}' is no setting; write name=value, or method.name=value.")
        return cls(name(owner) if dot else None, setting.replace("-", "_"), text)


def choose(names: Sequence[str], given: Sequence[str] = ()) -> list[Method]:
    """The methods, with the settings given: choose(["ig"], ["steps=64"]). What names a method beats what does not."""
    plain = [method(name) for name in names]
    full = [METHODS.name(name) for name in names]
    assignments = sorted(map(Assignment.of, given), key=lambda a: a.method is not None)
    for assignment in assignments:
        _check(assignment, full)
    return [
        method(name, values) if (values := _values(name, assignments)) else one
        for name, one in zip(full, plain, strict=True)
    ]


def _values(name: str, assignments: Sequence[Assignment]) -> dict[str, Any]:
    known = settings.of(METHODS[name])
    return {a.setting: known[a.setting].read(a.text) for a in assignments if _meant(a, name) and a.setting in known}


def _meant(assignment: Assignment, name: str) -> bool:
    return assignment.method in (None, name)


def _check(assignment: Assignment, names: Sequence[str]) -> None:
    """Refuse a setting that would go nowhere."""
    if assignment.method is not None:
        method(assignment.method)
    meant = [name for name in names if _meant(assignment, name)]
    if not meant:
        raise BadInput(f"{assignment.method} is not among the methods chosen: {', '.join(names)}.")
    known = sorted({setting for name in meant for setting in settings.of(METHODS[name])})
    if assignment.setting not in known:
        who = meant[0] if len(meant) == 1 else "none of the methods chosen"
        has = "has no" if len(meant) == 1 else "has a"
        hint = nearest(assignment.setting, known) or f"; known are: {', '.join(known) or 'none'}."
        raise BadInput(f"{who} {has} setting '{assignment.setting}'{hint}")


def listed(name: str | None = None, among: Named = METHODS) -> list[dict[str, Any]]:
    """Every method (or check), or one, with its line, paper and settings, for JSON."""
    if name is not None and name not in among:
        method(name)
    names = list(among) if name is None else [among.name(name)]
    return [
        {
            "name": n,
            "summary": getattr(among[n], "summary", ""),
            "paper": getattr(among[n], "paper", ""),
            "settings": {
                s.name: {"type": s.words, "default": s.default, "choices": s.choices}
                for s in settings.of(among[n]).values()
            },
        }
        for n in names
    ]


def told(name: str, among: Named = METHODS) -> str:
    """All about one method (or check), for a reader."""
    row = listed(name, among)[0]
    said = inspect.getdoc(among[name]) or ""
    known = settings.of(among[name]).values()
    width = max((len(s.name) for s in known), default=0)
    lines = [f"  {s.name:<{width}}  {s.words}; {_default(s)}" for s in known]
    head = f"{row['name']}: {row['summary']}\n{row['paper']}"
    return "\n\n".join([head, said, "settings, for --set:\n" + "\n".join(lines) if lines else "it has no settings"])


def _default(setting: settings.Setting) -> str:
    value = setting.default
    shown = (
        ",".join(map(str, value)) if isinstance(value, tuple) else str(value).lower() if value is None else str(value)
    )
    return f"{str(value).lower() if isinstance(value, bool) else shown} if left out"
