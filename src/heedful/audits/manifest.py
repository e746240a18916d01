"""Manifest: the model, data, settings, seed and versions of a run, and the differences between two manifests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from heedful.core.errors import BadInput
from heedful.core.files import compact, json_value, pretty

RUN_FORMAT = "heedful run 3"
ABSENT = object()  # stands for a missing value; None may be a value
MAX_VALUE = 60  # characters of a value that are shown
_LISTED = ("methods", "checks")  # settings by name
_EXTENSIBLE = (*_LISTED, "files")  # settings that may change within a run
EXPLAIN = "explain"  # the explanations, as a source of findings beside the checks
_NOT_COMPARED = ("name", "selection", "dropped")  # of a model or data with the same fingerprint


@dataclass(frozen=True)
class Change:
    """A difference of two manifests: its path, and the value in each, ABSENT where there is none."""

    path: tuple[str, ...]
    then: Any
    now: Any

    @property
    def one_sided(self) -> bool:
        """Whether it is a method or a check that only one run has."""
        listed = self.path[:1] == ("settings",) and self.path[1] in _LISTED and len(self.path) == 3
        return listed and ABSENT in (self.then, self.now)

    @property
    def extensible(self) -> bool:
        """Whether it is a method or a check that is new, or a setting of a check.

        Another setting of a method would change every finding: whoever forgets a setting shall not lose the run.
        """
        if self.path[:1] != ("settings",) or self.path[1] not in _EXTENSIBLE:
            return False
        return self.now is not ABSENT if self.one_sided else self.path[1] != "methods"

    @property
    def name(self) -> str:
        """What differs: "the model's weights", "method lime", "setting checks.permutation.draws", "torch"."""
        first, *rest = self.path
        if first == "settings":
            return f"{rest[0][:-1]} {rest[1]}" if self.one_sided else f"setting {'.'.join(rest)}"
        if rest == ["fingerprint"]:
            return "the model's weights" if first == "model" else "the data file"
        return ".".join(rest) if first == "versions" else f"the {first}'s {'.'.join(rest)}" if rest else f"the {first}"

    def __str__(self) -> str:
        if self.one_sided:
            return f"{self.name} is {'new' if self.then is ABSENT else 'gone'}"
        prints = "fingerprint " if self.path[-1] == "fingerprint" else ""
        return f"{self.name} ({prints}{self.shown(self.then)} then, {self.shown(self.now)} now)"

    def shown(self, value: Any) -> str:
        """A value, cut to a readable length."""
        if value is ABSENT:
            return "absent"
        if self.path[-1] == "fingerprint":
            text = "none" if value is None else str(value)
            return text if len(text) <= 8 else text[:8] + "…"
        text = value if isinstance(value, str) else compact(value)
        return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…"


@dataclass(frozen=True)
class Manifest:
    """Model (name, fingerprint, labels), data (name, fingerprint, texts: how many), settings, seed and versions.

    `data` also has the selection and the number of dropped texts, if there are any. Two runs are the same if
    `differences` is empty. A file may be moved or renamed: its name, and how its texts were selected, do not count if
    the fingerprint is the same.
    """

    model: Mapping[str, Any]
    data: Mapping[str, Any]
    settings: Mapping[str, Any]
    seed: int
    versions: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        described: dict[str, Any] = json_value(self)
        return described

    @staticmethod
    def from_dict(stored: Mapping[str, Any]) -> Manifest:
        """The inverse of `to_dict`."""
        model, data, settings, seed, versions = (stored[f.name] for f in fields(Manifest))
        return Manifest(model, data, settings, int(seed), dict(versions))

    @property
    def stamp(self) -> str:
        """16 hexadecimal digits that identify a run with its methods and checks."""
        return _digest(self._content())

    @property
    def identity(self) -> str:
        """16 hexadecimal digits that stay when methods and checks are added; every part of the run carries them."""
        content = self._content()
        for name in _EXTENSIBLE:
            content["settings"].pop(name, None)
        return _digest(content)

    @property
    def sources(self) -> dict[str, str]:
        """For each check, 16 hexadecimal digits of the settings that its findings depend on.

        Those are its own and those of all methods. EXPLAIN has the settings of the methods alone.
        """
        settings = self._content()["settings"]
        methods, files = settings.get("methods", {}), settings.get("files", {})
        own = {
            name: [values, {file: print_ for file, print_ in files.items() if file.startswith(f"{name}.")}]
            for name, values in settings.get("checks", {}).items()
        }
        return {EXPLAIN: _digest(methods)} | {name: _digest([methods, *values]) for name, values in own.items()}

    def _content(self) -> dict[str, Any]:
        """All that makes a difference."""
        content = self.to_dict()
        for what in (content["model"], content["data"]):
            for name in _NOT_COMPARED if "fingerprint" in what else ():
                what.pop(name, None)
        content["settings"] = _by_name(content["settings"])
        return content

    def differences(self, now: Manifest) -> list[Change]:
        """Where the other differs from this one; empty where they are the same run."""
        a, b = self.to_dict(), now.to_dict()
        return [
            *_named("model", a["model"], b["model"]),
            *_named("data", a["data"], b["data"]),
            *_leaves(_by_name(a["settings"]), _by_name(b["settings"]), ("settings",)),
            *_leaves(a["seed"], b["seed"], ("seed",)),
            *_leaves(a["versions"], b["versions"], ("versions",)),
        ]


def encode_manifest(manifest: Manifest, form: str = RUN_FORMAT) -> bytes:
    """The content of manifest.json."""
    return pretty({"format": form, **manifest.to_dict()})


def read_manifest(file: Path, form: str = RUN_FORMAT) -> Manifest:
    """The manifest in a file of this format, such as "heedful run 3"."""
    kind = form.split()[1]
    wrong = BadInput(f"'{file}' is not the manifest of a {kind}; give another folder (--out), or delete it.")
    try:
        content = json.loads(file.read_bytes())
        version = content.get("format") if isinstance(content, dict) else None
        if version == form:
            return Manifest.from_dict(content)
    except OSError as e:
        raise BadInput(f"'{file}' cannot be read ({e.strerror or e}); give another folder (--out).") from e
    except (ValueError, KeyError, TypeError) as e:
        raise wrong from e
    if isinstance(version, str) and version.startswith(f"heedful {kind} "):
        raise BadInput(
            f"'{file}' has the format '{version}' of another version of heedful, not '{form}'; run the command again "
            "with another folder (--out)."
        )
    raise wrong


def refuse_changes(
    folder: str | Path, present: Manifest, manifest: Manifest, kind: str, extensible: bool = False
) -> None:
    """Refuse to resume a run or a study (`kind`) with another manifest; what is new may differ if `extensible`."""
    changed = [change for change in present.differences(manifest) if not (extensible and change.extensible)]
    if not changed:
        return
    raise BadInput(
        f"'{folder}' holds a different {kind}: {change_list(changed)}; give another folder (--out), or delete that "
        f"{kind} (--restart)."
    )


def change_list(changed: Sequence[Change]) -> str:
    """The first of several changes, in words."""
    return ", ".join(map(str, changed[:3])) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")


def refuse_files(place: Path, others: Sequence[str], kind: str) -> None:
    """Refuse a folder with files that are not those of a run or a study (`kind`)."""
    if others:
        names = ", ".join(sorted(others)[:3]) + (" …" if len(others) > 3 else "")
        raise BadInput(f"'{place}' holds files that are not a {kind}'s ({names}); give a new or empty folder (--out).")


def _named(what: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Change]:
    """Of the model or the data: the fingerprint first; the name only where fingerprints differ."""
    prints = then.get("fingerprint"), now.get("fingerprint")
    same = prints[0] == prints[1]
    if not same:
        yield Change((what, "fingerprint"), *prints)
    ignored = {"fingerprint", *_NOT_COMPARED} if same and prints[0] is not None else {"fingerprint"}
    rest = [{k: v for k, v in side.items() if k not in ignored} for side in (then, now)]
    yield from _leaves(rest[0], rest[1], (what,))


def _by_name(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Methods and checks as mappings; a list of names has no settings. Their order does not matter."""
    return {
        key: {str(name): {} for name in value} if key in _LISTED and isinstance(value, list) else value
        for key, value in settings.items()
    }


def _digest(content: Any) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=8).hexdigest()


def _leaves(then: Any, now: Any, path: tuple[str, ...]) -> Iterator[Change]:
    """Where two trees differ, and how; a branch that only one of them has is one difference."""
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys((*then, *now)):
            yield from _leaves(then.get(key, ABSENT), now.get(key, ABSENT), (*path, key))
    elif then != now:
        yield Change(path, then, now)
