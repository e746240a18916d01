"""Parameters of tests: some of them in every run, the others with `--families all`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def mostly_thorough(values: Iterable[Any], default: Collection[Any]) -> list[Any]:
    """The values as parameters; all but those in `default` are marked `thorough`."""
    return [
        value
        if value in default
        else pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.thorough)
        for value in values
    ]
