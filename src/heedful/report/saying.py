"""Saying: a number as a reader sees it, alike in every format and figure."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

Cell = str | int | float | None  # None is what does not exist, shown as a dash

DASH = "–"


def exists(x: Any) -> bool:
    """Whether there is a number."""
    return x is not None and math.isfinite(x)


def said(x: float | None, digits: int = 2) -> str:
    """With commas and a true minus sign: said(-1234.5, 1) -> "−1,234.5"; a dash for what does not exist."""
    if x is None or not math.isfinite(x):
        return DASH if x is None or math.isnan(x) else "∞" if x > 0 else "−∞"
    return f"{round(x, digits) + 0.0:,.{digits}f}".replace("-", "−")  # + 0.0: no −0.00


def powers(x: float, form: str) -> str:
    """A tiny number: powers(2.5e-07, ".1e") -> "2.5e−7"."""
    return re.sub(r"e([-+])0*", r"e\1", f"{x:{form}}").replace("-", "−").replace("+", "")


def shown(cell: Cell, digits: int = 2) -> str:
    """A cell of a table: words as they are, whole numbers without digits."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, (int, np.integer)):
        return f"{cell:,}".replace("-", "−")
    return said(cell, digits)
