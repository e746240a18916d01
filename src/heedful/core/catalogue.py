"""Catalogue: classes by name, with aliases and plugins of other packages: METHODS, CHECKS, STUDIES, …"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from functools import cached_property
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from heedful.core import settings
from heedful.core.errors import BadInput, nearest
from heedful.core.table import align_columns


class UnknownName(BadInput, KeyError):  # noqa: N818
    """A name that is not in a catalogue."""

    __str__ = Exception.__str__  # KeyError puts its message in quotes


class Catalogue(Mapping[str, Any]):
    """Names to classes (or objects), in order. A lookup ignores case, accepts _ or a space for -, and knows aliases.

    `built_in` holds the entries or, to import a module only when its class is needed, "module:Class" within `package`.
    The aliases of a class are its attribute `aliases`. Other packages add entries through the entry point group
    "heedful.<plural>"; an entry that cannot be loaded or whose name is taken is skipped with a warning in the log.
    """

    def __init__(
        self, kind: str, plural: str, package: str, built_in: Mapping[str, Any], listing: str | None = None
    ) -> None:
        self.kind, self.plural, self.package = kind, plural, package
        self.listing = listing or f"heedful {plural}"  # the command that lists the entries
        self._built_in = dict(built_in)

    def __getitem__(self, name: str) -> Any:
        full = self.full_name(name)
        if full not in self._entries:
            hint = nearest(full, [*self._entries, *self._aliases]) or "."
            raise UnknownName(f"{self.kind} '{name}' is not known{hint} `{self.listing}` lists them all.")
        return self._load(self._entries[full])

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.full_name(name) in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def full_name(self, name: str) -> str:
        """METHODS.full_name("IG") -> "integrated-gradients"; an unknown name is returned in lower case, with -."""
        plain = _plain(name)
        return plain if plain in self._entries else self._aliases.get(plain, plain)

    def name_of(self, item: object) -> str:
        """The name of an object's class in the catalogue, else the object's own `name`, else its class's."""
        cls = type(item)
        home = f"{cls.__module__.removeprefix(f'{self.package}.')}:{cls.__qualname__}"
        known = (name for name, entry in self._entries.items() if entry is cls or entry == home)
        return next(known, str(getattr(item, "name", "")) or cls.__name__)

    def make(self, item: Any, arguments: Mapping[str, Any] | None = None) -> Any:
        """An object of the class of this name, with settings, each checked; an object is returned unchanged."""
        if isinstance(item, str):
            return settings.make(self[item], self.full_name(item), arguments)
        if not callable(item):
            kind, example = type(item).__name__, next(iter(self._built_in.values())).split(":")[-1]
            raise BadInput(f"a {kind} is not a {self.kind}; give a name or a {self.kind} such as {example}().")
        return item

    def choose(self, names: Sequence[str], assignments: Sequence[str] = ()) -> list[Any]:
        """Objects by name, with settings as on a command line: METHODS.choose(["ig"], ["steps=64"])."""
        chosen = [(self.full_name(name), self[name]) for name in names]
        values = settings.read_assignments(assignments, chosen, self.full_name)
        return [settings.make(cls, name, part) for (name, cls), part in zip(chosen, values, strict=True)]

    def rows(self, name: str | None = None) -> list[dict[str, Any]]:
        """Every entry, or one: name, summary, paper and settings, for JSON."""
        if name is not None and name not in self:
            self[name]  # raises
        return [
            {
                "name": full,
                "summary": getattr(self[full], "summary", ""),
                "paper": getattr(self[full], "paper", ""),
                "settings": {
                    s.name: {"type": s.words, "default": s.default, "choices": s.choices}
                    for s in _settings_of(self[full])[1]
                },
            }
            for full in (self if name is None else [self.full_name(name)])
        ]

    def description(self, name: str) -> str:
        """One entry as text: summary, paper, docstring, settings."""
        entry = self[name]
        docs, known = _settings_of(entry)
        lines = align_columns(
            [(s.name, f"{s.words}; default {settings.text_of(s.default) or repr('')}") for s in known], indent="  "
        )
        head = f"{self.full_name(name)}: {getattr(entry, 'summary', '')}\n{getattr(entry, 'paper', '')}"
        if needs := getattr(entry, "needs", ()):
            head += f"\nneeds {' and '.join(needs)}"
        return "\n\n".join([head, *docs, f"settings, for --set:\n{lines}" if lines else "no settings"])

    @cached_property
    def _entries(self) -> dict[str, Any]:
        """Built-in entries, then those of plugins. Loaded at first use, because a plugin may import heedful."""
        entries = dict(self._built_in)
        for point in entry_points(group=f"heedful.{self.plural}"):
            name = _plain(point.name)
            try:
                if name in entries or name in self._aliases_of(self._built_in):
                    raise BadInput("the name is taken")
                entries[name] = point.load()
            except Exception as e:  # another package's import may raise anything
                logging.getLogger("heedful").warning(
                    "%s '%s' of %s cannot be loaded (%s: %s)", self.kind, name, point.value, type(e).__name__, e
                )
        return entries

    @cached_property
    def _aliases(self) -> dict[str, str]:
        return self._aliases_of(self._entries)

    def _aliases_of(self, entries: Mapping[str, Any]) -> dict[str, str]:
        """The first entry with an alias has it, so that no plugin replaces a built-in one."""
        names = ((alias, name) for name in entries for alias in getattr(self._load(entries[name]), "aliases", ()))
        return dict(reversed([*names]))

    def _load(self, entry: Any) -> Any:
        if not isinstance(entry, str):
            return entry
        module, _, attribute = entry.partition(":")
        return getattr(import_module(f"{self.package}.{module}"), attribute)


def _settings_of(entry: Any) -> tuple[list[str], list[settings.Setting]]:
    """The docstrings of an entry and its settings; a recipe has a class of settings and its own defaults."""
    if isinstance(entry, type) or not hasattr(entry, "settings"):
        return [inspect.getdoc(entry) or ""], list(settings.of(entry).values())
    ready = entry.settings()
    docs = [inspect.getdoc(cls) or "" for cls in type(ready).__mro__ if is_dataclass(cls)]
    return docs, [replace(s, default=getattr(ready, s.name)) for s in settings.of(type(ready)).values()]


def _plain(name: str) -> str:
    return name.strip().casefold().replace("_", "-").replace(" ", "-")
