"""Extension: the methods and checks of a run that is in a folder, together with those that are asked for now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from heedful.audits.job import AuditRequest, Battery, Job, arranged, battery
from heedful.audits.manifest import Manifest
from heedful.audits.run import present_manifest, read_run
from heedful.checks import CHECKS
from heedful.core.catalogue import Catalogue
from heedful.core.errors import BadInput
from heedful.core.files import json_value
from heedful.core.finding import CONTROLS
from heedful.core.settings import values as settings_of
from heedful.methods import METHODS


def extended(job: Job, request: AuditRequest, folder: str | Path) -> Job:
    """The job with the methods and checks that the run in the folder has as well; its note says what changes.

    What is asked for has the settings of the request, everything else those of the run: the methods and checks that are
    named, or set; all those of the profile where nothing is named. Where only checks are named, the methods are those
    of the run, and where only methods are named, the checks. The run keeps its number of texts then, unless a limit is
    given.
    """
    present = present_manifest(folder)
    if present is None or present.identity != job.manifest().identity:
        return job  # a new run, or one that is refused
    then = {kind: present.settings[kind] for kind in ("methods", "checks")}
    asked = _asked(job.battery, request)
    checks = _union(CHECKS, then["checks"], job.battery.checks, asked[1], (), folder)
    required = [name for check in checks.values() for name in getattr(check, "requires", ())]
    methods = _union(METHODS, then["methods"], job.battery.methods, asked[0], [*required, *CONTROLS], folder)
    whole = Battery(methods, checks, job.battery.target)
    part = (methods.keys(), checks.keys()) != (job.battery.methods.keys(), job.battery.checks.keys())
    stored = read_run(folder).end() if part and request.limit is None and request.until is None else 0
    return replace(job, battery=whole, extension=_note(folder, present, job.battery, whole), limit=stored or job.limit)


def _asked(now: Battery, request: AuditRequest) -> tuple[set[str], set[str]]:
    """The names of methods and of checks whose settings are those of the request."""
    plain = battery(request.profile, request.methods or None, request.checks or None, request.target)
    if request.methods is None and request.checks is None:
        return set(now.methods), set(now.checks)

    def names(
        given: Iterable[Any] | None, items: Mapping[str, Any], unset: Mapping[str, Any], of: Catalogue
    ) -> set[str]:
        named = {of.name_of(of.make(item)) for item in given or ()}
        return named | {name for name, item in items.items() if name not in unset or unset[name] != item}

    return (
        names(request.methods, now.methods, plain.methods, METHODS),
        names(request.checks, now.checks, plain.checks, CHECKS),
    )


def _union(
    catalogue: Catalogue,
    then: Mapping[str, Any],
    now: Mapping[str, Any],
    asked: Collection[str],
    required: Collection[str],
    folder: str | Path,
) -> dict[str, Any]:
    """The methods or checks of the run, and those that are asked for or required."""
    items: dict[str, Any] = {
        name: now[name] for name in now if name in asked or (name in required and name not in then)
    }
    for name, settings in then.items():
        if name in now and json_value(settings_of(now[name])) == settings:
            items[name] = now[name]
        elif name not in items:
            if name not in catalogue:
                raise BadInput(
                    f"'{folder}' also has the {catalogue.kind} {name}, which is not in the catalogue; give it again, "
                    "or give another folder (--out)."
                )
            items[name] = catalogue.make(name, settings)
    return arranged(items, catalogue)


def _note(folder: str | Path, present: Manifest, asked: Battery, whole: Battery) -> str:
    """What is added to the run, what is measured again, and what the run has besides."""
    new, again, besides = [], [], []
    for kind, items, given in (("method", whole.methods, asked.methods), ("check", whole.checks, asked.checks)):
        then = present.settings[f"{kind}s"]
        new += [f"{kind} {name}" for name in items if name not in then]
        again += [f"{kind} {n}" for n, item in items.items() if n in then and json_value(settings_of(item)) != then[n]]
        besides += [f"{kind} {name}" for name in items if name not in given]
    methods_change = any(item.startswith("method ") for item in (*new, *again))
    sentences = [
        f"'{folder}' is extended by {_list(new)}." if new else "",
        f"Measured again with other settings: {_list(again)}." if again else "",
        "All checks run again, because the methods change." if methods_change else "",
        f"The run keeps {_list(besides)}." if besides else "",
    ]
    return " ".join(filter(None, sentences))


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - 4} more" if len(names) > 5 else ""
    return ", ".join(names[: 4 if more else 5]) + more
