"""Templating: how every page is laid out: all that is put in is escaped, and a name that is missing is an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jinja2


def environment(filters: Mapping[str, Callable[..., Any]]) -> jinja2.Environment:
    """The package's templates, with these filters."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("heedful.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= dict(filters)
    return made
