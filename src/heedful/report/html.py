"""HTML: the templates, and the security policy of every page: it runs its own script, and loads nothing."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import jinja2


def environment(filters: Mapping[str, Callable[..., Any]]) -> jinja2.Environment:
    """The package's templates, with these filters."""
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("heedful.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= dict(filters)
    return templates


def render_page(templates: jinja2.Environment, template: str, script: str, **values: Any) -> str:
    """A self-contained document from a template that extends `shell.html.j2`, with the script of that file name.

    Its policy names the script by its SHA-256, so a browser runs no other, whatever the texts contain.
    """
    code = _source(script)
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    return templates.get_template(template).render(script=code, script_policy=f"'sha256-{digest}'", **values)


@cache
def _source(name: str) -> str:
    env = environment({})
    assert env.loader is not None
    return env.loader.get_source(env, name)[0]


def script_json(data: object) -> str:
    """JSON that cannot end the script element around it, whatever the texts and labels contain."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, default=str)
    escapes = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
    return text.translate(escapes)
