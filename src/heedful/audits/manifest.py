"""Manifest: what a run was made of, and what differs between two runs, in words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heedful.core.errors import BadInput
from heedful.core.files import compact, json_value, pretty

FORMAT = "heedful run 1"
_ABSENT = object()
_LONG = 60  # characters of a value that are shown
_LISTED = {"methods": "method", "checks": "check"}  # settings that are by name: one is new or gone


@dataclass(frozen=True)
class Manifest:
    """Model (name, fingerprint, labels), data (name, fingerprint, texts: how many), settings, seed and versions.

    Two runs are the same where `differences` is empty. A file may be moved or renamed: where the fingerprint is the
    same, the name does not count.
    """

    model: Mapping[str, Any]
    data: Mapping[str, Any]
    settings: Mapping[str, Any]
    seed: int
    versions: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """As JSON says it."""
        made: dict[str, Any] = json_value(
            {
                "model": self.model,
                "data": self.data,
                "settings": self.settings,
                "seed": self.seed,
                "versions": self.versions,
            }
        )
        return made

    @staticmethod
    def from_dict(stored: Mapping[str, Any]) -> Manifest:
        """What `to_dict` made."""
        return Manifest(
            stored["model"], stored["data"], stored["settings"], int(stored["seed"]), dict(stored["versions"])
        )

    @property
    def stamp(self) -> str:
        """16 hexadecimal digits that differ where the runs differ: every part of a run carries them."""
        told = self.to_dict()
        for what in (told["model"], told["data"]):
            if "fingerprint" in what:
                what.pop("name", None)
        told["settings"] = _by_name(told["settings"])
        key = json.dumps(told, sort_keys=True).encode()
        return hashlib.blake2b(key, digest_size=8).hexdigest()

    def differences(self, now: Manifest) -> list[str]:
        """What was so in this one and is otherwise in the other; empty where they are the same run."""
        then, other = self.to_dict(), now.to_dict()
        return [
            *_named(then["model"], other["model"], "model", "the model's weights"),
            *_named(then["data"], other["data"], "data", "the data file"),
            *_settings(then["settings"], other["settings"]),
            *([] if then["seed"] == other["seed"] else [f"the seed {_change(then['seed'], other['seed'])}"]),
            *(f"{'.'.join(path)} {_change(a, b)}" for path, a, b in _leaves(then["versions"], other["versions"])),
        ]


def encoded(manifest: Manifest) -> bytes:
    """The content of manifest.json."""
    return pretty({"format": FORMAT, **manifest.to_dict()})


def stored(file: Path) -> Manifest:
    """The manifest in a file."""
    try:
        told = json.loads(file.read_bytes())
        found = told.get("format") if isinstance(told, dict) else None
        if found == FORMAT:
            return Manifest.from_dict(told)
    except OSError as e:
        raise BadInput(f"'{file}' cannot be read ({e.strerror or e}); give another folder (--out).") from e
    except (ValueError, KeyError, TypeError) as e:
        raise BadInput(f"'{file}' is not the manifest of a run; give another folder (--out), or delete it.") from e
    if isinstance(found, str) and found.startswith("heedful run "):
        raise BadInput(f"'{file}' is of another version ({found}, not {FORMAT}); give another folder (--out).")
    raise BadInput(f"'{file}' is not the manifest of a run; give another folder (--out), or delete it.")


# differences, in words


def _named(then: Mapping[str, Any], now: Mapping[str, Any], what: str, content: str) -> Iterator[str]:
    """Of the model or the data: the fingerprint first; the name only where that is another."""
    prints = then.get("fingerprint"), now.get("fingerprint")
    same = prints[0] == prints[1]
    if not same:
        yield f"{content} (fingerprint {_short(prints[0])} then, {_short(prints[1])} now)"
    ignored = {"fingerprint", "name"} if same and prints[0] is not None else {"fingerprint"}
    rest = [{k: v for k, v in side.items() if k not in ignored} for side in (then, now)]
    yield from (f"the {what}'s {'.'.join(path)} {_change(a, b)}" for path, a, b in _leaves(rest[0], rest[1]))


def _settings(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for path, a, b in _leaves(_by_name(then), _by_name(now)):
        kind, *names = path
        if kind in _LISTED and len(names) == 1 and _ABSENT in (a, b):
            yield f"{_LISTED[kind]} {names[0]} is {'new' if a is _ABSENT else 'gone'}"
        else:
            yield f"setting {'.'.join(path)} {_change(a, b)}"


def _by_name(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Methods and checks may be given as a list of names: then they have no settings. Their order is no difference."""
    return {
        key: {str(name): {} for name in value} if key in _LISTED and isinstance(value, list) else value
        for key, value in settings.items()
    }


def _leaves(then: Any, now: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Where two trees differ, and how; a branch that only one of them has is one difference."""
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys((*then, *now)):
            yield from _leaves(then.get(key, _ABSENT), now.get(key, _ABSENT), (*path, key))
    elif then != now:
        yield path, then, now


def _change(then: Any, now: Any) -> str:
    return f"({_shown(then)} then, {_shown(now)} now)"


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    text = value if isinstance(value, str) else compact(value)
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"


def _short(fingerprint: Any) -> str:
    text = "none" if fingerprint is None else str(fingerprint)
    return text if len(text) <= 8 else text[:8] + "…"
