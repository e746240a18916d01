"""Wording: results in words, the same in the terminal, on the page and in a figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heedful.core.explanation import Counterfactual, Prediction

_KNOWN = {"r2": "R² {:.2f}", "samples": "{:,} samples", "distinct": "{:,} distinct"}
MAX_DETAILS = 8  # shown; the JSON has them all


def prediction_text(prediction: Prediction) -> str:
    """The prediction: "positive (95.3%)", or a regression's number."""
    if not prediction.logits:
        return "nothing"
    if prediction.probabilities is None:
        return f"{prediction.label} = {prediction.logits[prediction.index]:.3f}"
    return f"{prediction.label} ({prediction.probabilities[prediction.index]:.1%})"


def details(values: Mapping[str, Any]) -> str:
    """The numbers beside a result in one line: "1,000 samples, R² 0.83"."""
    return ", ".join(
        part for name, value in list(values.items())[:MAX_DETAILS] if (part := _detail(str(name), value)) is not None
    )


def _detail(name: str, value: Any) -> str | None:
    plain = name.replace("_", " ")
    if isinstance(value, bool) or value is None:
        return plain if value else None
    if isinstance(value, str):
        return f"{plain} {value}"
    if not isinstance(value, (int, float)):
        return None
    if name in _KNOWN:
        return _KNOWN[name].format(value)
    return f"{plain} {value:,}" if isinstance(value, int) else f"{plain} {value:.3g}".replace("-", "−")


def outcome(why: Counterfactual) -> str:
    """What happened without the words: "without these 2 words the model says negative (81.2%)"."""
    count = len(why.words())
    if not count:
        return f"no word was removed; the model says {prediction_text(why.outcome)}"
    words = "this word" if count == 1 else f"these {count} words"
    return f"without {words} the model says {prediction_text(why.outcome)}"


def certainty(why: Counterfactual) -> str:
    """How sure the search is: all sets were tried, or words were removed one by one."""
    if not why.found:
        return "not found: " + ("every set was tried" if why.exact else "the search was greedy, so one may exist")
    return "exact: no better set exists" if why.exact else "greedy: a better set may exist"


def number(x: float, signed: bool = True) -> str:
    """Four digits and a true minus sign: number(-0.12345) -> "−0.1235"."""
    return f"{x + 0.0:{'+' if signed else ''}.4g}".replace("-", "−")
