"""Phrases: numbers, predictions, estimates and decisions as words, the same in every format, table and figure.

Nothing is computed here: an estimate is written with its own interval.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heedful.core.explanation import Counterfactual, Prediction
from heedful.maths.stats import MINIMUM, Decision, Difference, Estimate

if TYPE_CHECKING:
    from heedful.audits.summary import Row

Cell = str | int | float | None  # None is a number that does not exist, shown as a dash

DASH = "–"
MAX_DIGITS = 4
MAX_NAMES = 4  # methods that a sentence lists
MAX_DETAILS = 8  # details that are shown; the JSON has all
_DETAILS = {
    "r2": "R² {:.2f}",
    "coverage": "coverage {:.1%}",
    "samples": "{:,} samples",
    "distinct": "{:,} distinct",
    "features": "{:,} features",
}


# numbers


def exists(x: Any) -> bool:
    """Whether a number is neither None nor NaN nor infinite."""
    return x is not None and math.isfinite(x)


def format_number(x: float, form: str) -> str:
    """A number in a format of Python, with a true minus sign: format_number(-0.5, "+.2f") -> "−0.50"."""
    return f"{x + 0.0:{form}}".replace("-", "−")  # + 0.0: no −0.00


def fixed(x: float | None, digits: int = 2) -> str:
    """With commas and a true minus sign: fixed(-1234.5, 1) -> "−1,234.5"; a dash for what does not exist."""
    if x is None or not math.isfinite(x):
        return DASH if x is None or math.isnan(x) else "∞" if x > 0 else "−∞"
    return format_number(round(x, digits), f",.{digits}f")


def powers(x: float, form: str) -> str:
    """A tiny number: powers(2.5e-07, ".1e") -> "2.5e−7"."""
    return re.sub(r"e([-+])0*", r"e\1", f"{x:{form}}").replace("-", "−").replace("+", "")


def digits_for(*numbers: float | None) -> int:
    """Decimals with which the largest has two figures: .36 -> 2, .081 -> 3, 12.3 -> 1, 250 -> 0; at most MAX_DIGITS."""
    size = max((abs(float(x)) for x in numbers if x is not None and math.isfinite(x)), default=0.0)
    if size == 0:
        return 2
    places = math.floor(math.log10(size))
    return min(MAX_DIGITS, 1 - places) if places < 0 else max(0, 2 - places)


def number(x: float | None, digits: int | None = None) -> str:
    """With a true minus sign and commas; a dash for none: −0.25, 1,024, 1.2e−7."""
    if x is None or not math.isfinite(x):
        return DASH
    if digits is None and 0 < abs(x) < 1e-3:
        return powers(x, ".1e")
    return fixed(x, digits_for(x) if digits is None else digits)


def cell(value: Cell, digits: int = 2) -> str:
    """A cell of a table: words unchanged, whole numbers without decimals."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, np.integer)):
        return f"{value:,}".replace("-", "−")
    return fixed(value, digits)


def score_text(x: float | None, signed: bool = True) -> str:
    """A raw score in four digits: score_text(-0.12345) -> "−0.1235"; nothing for none."""
    if x is None or not math.isfinite(x):
        return ""
    return format_number(x, "+.4g" if signed else ".4g")


def p_value(p: float) -> str:
    """Two digits; small ones as a power of ten."""
    return number(p, 2) if p >= 0.01 else number(p) if p < 1e-3 else number(p, 3)


# estimates


def bracketed(mean: float, low: float | None, high: float | None, digits: int | None = None) -> str:
    """A mean with its limits, if it has any: 0.36 [0.30, 0.42]."""
    if low is None or high is None or not exists(low) or not exists(high):
        return number(mean, digits)
    size = max(abs(x) for x in (mean, low, high))
    if digits is None and not 0 < size < 1e-3:
        digits = digits_for(mean, low, high)
        # more digits where a limit would be written as zero and is not: [−0.15, −0.004], and not [−0.15, 0.00]
        while digits < MAX_DIGITS and any(x != 0 and round(x, digits) == 0 for x in (low, high)):
            digits += 1
    return f"{number(mean, digits)} [{number(low, digits)}, {number(high, digits)}]"


def interval(of: Estimate | Difference | None) -> str:
    """An estimate with its interval: 0.36 [0.30, 0.42]; a dash for none."""
    return DASH if of is None or not exists(of.mean) else bracketed(of.mean, of.low, of.high)


def percent(share: float, low: float | None = None, high: float | None = None) -> str:
    """A share with its limits: 54 % [45, 62]."""
    if not exists(share):
        return DASH
    # subtle: rounded as a share, so that 0.475 is 47 % where a table has 0.47; 100 * 0.475 would be rounded to 48
    numbers = [fixed(100 * round(x, 2), 0) for x in (share, low, high) if x is not None and exists(x)]
    return f"{numbers[0]} %" + (f" [{numbers[1]}, {numbers[2]}]" if len(numbers) == 3 else "")


def percentage(share: Estimate | None) -> str:
    """The estimate of a share: 85 % [74, 92]."""
    return DASH if share is None else percent(share.mean, share.low, share.high)


# predictions


def prediction_text(prediction: Prediction) -> str:
    """The prediction: "positive (95.3%)", or a regression's number."""
    if not prediction.logits:
        return "nothing"
    if prediction.probabilities is None:
        return f"{prediction.label} = {format_number(prediction.logits[prediction.index], '.3f')}"
    return f"{prediction.label} ({prediction.probabilities[prediction.index]:.1%})"


def details(values: Mapping[str, Any]) -> str:
    """The numbers beside a result in one line: "1,000 samples, R² 0.83"."""
    parts = (_detail(str(name), value) for name, value in list(values.items())[:MAX_DETAILS])
    return ", ".join(part for part in parts if part is not None)


def _detail(name: str, value: Any) -> str | None:
    plain = name.replace("_", " ")
    if isinstance(value, bool) or value is None:
        return plain if value else None
    if isinstance(value, str):
        return f"{plain} {value}"
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return f"{plain} {' · '.join(value)}"
    if not isinstance(value, (int, float)):
        return None
    if name in _DETAILS:
        return _DETAILS[name].format(value)
    return f"{plain} {value:,}" if isinstance(value, int) else f"{plain} {format_number(value, '.3g')}"


def coverage(share: float, picks: int, texts: int, asked: int) -> str:
    """What picked texts cover: "5 of 604 texts cover 31.2% of the importance of all words"."""
    covers = f"{picks:,} of {count_texts(texts)} cover{'s' * (picks == 1)} {share:.1%} of the importance of all words"
    return f"{covers}; no other text adds a word" if picks < min(asked, texts) else covers


def outcome(why: Counterfactual) -> str:
    """The prediction without the words: "without these 2 words the model predicts negative (81.2%)"."""
    count = len(why.words())
    if not count:
        return f"no word was removed; the model predicts {prediction_text(why.outcome)}"
    words = "this word" if count == 1 else f"these {count} words"
    return f"without {words} the model predicts {prediction_text(why.outcome)}"


def certainty(why: Counterfactual) -> str:
    """How sure the search is: all sets were tried, or words were removed one by one."""
    if not why.found:
        return "not found: " + ("every set was tried" if why.exact else "the search was greedy, so one may exist")
    return "exact: no better set exists" if why.exact else "greedy: a better set may exist"


# words


def count_texts(n: int) -> str:
    """1 text, 1,024 texts."""
    return f"{n:,} text{'' if n == 1 else 's'}"


def cautious(sentence: str, n: int) -> str:
    """A sentence, after a warning where there are too few texts to decide anything."""
    return sentence if n >= MINIMUM else f"Too few texts to decide (n = {n}). {sentence}"


def and_list(names: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def capital(sentence: str) -> str:
    """With an upper-case first letter."""
    return sentence[:1].upper() + sentence[1:]


def slug(name: str) -> str:
    """For a file's name: letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "x"


def place_name(at: Mapping[str, Any]) -> str:
    """Where something was changed: everywhere, layer 2, layer 2 head 0, δ = 0.05, delete 0.2."""
    if at.get("layer") == "none":
        return "unchanged"
    if at.get("layer") == "all":
        return "everywhere"
    named = {"layer": "layer {}", "head": "head {}", "delta": "δ = {}", "activation": "{}"}
    parts = [
        named.get(name, "{}").format(at[name])
        for name in sorted(at, key=lambda name: (name not in ("layer", "head"), name != "layer", name))
        if not (name == "head" and at[name] == "all")
    ]
    return "sentences" if parts == ["layer sentence"] else " ".join(parts)


def range_name(low: float, high: float) -> str:
    """0.25–0.5."""
    return f"{low:g}–{high:g}"


# compared with random


def versus_random(of: Difference | None) -> str | None:
    """How a number compares with that of random, in a cell or at the right of a chart."""
    if of is None or of.decision is None:
        return None
    if of.better is not None:
        return "better" if of.better else "worse"
    return {
        Decision.HIGHER: "higher",
        Decision.LOWER: "lower",
        Decision.NOT_SIGNIFICANT: "not significant",
        Decision.TOO_FEW: "too few texts",
    }[of.decision]


MARKS = (
    "* not significantly different from random; “worse”: significantly worse than random (paired over texts, p ≤ .05 "
    f"after Holm's correction over all rows of the measure); ? fewer than {MINIMUM} texts: nothing is decided. An n in "
    "brackets holds for that cell alone."
)


def symbol(of: Difference | None) -> str:
    """A mark after a number that is not significantly different from that of random."""
    decision = None if of is None else of.decision
    return "*" if decision == Decision.NOT_SIGNIFICANT else "?" if decision == Decision.TOO_FEW else ""


def mark(row: Row) -> str:
    """What follows a number to tell how it compares with that of random; see MARKS."""
    worse = row.versus_random is not None and row.versus_random.better is False
    return " worse" if worse else symbol(row.versus_random)


def tally(rows: Sequence[Row]) -> str | None:
    """How many methods are better than random, worse, or not significantly different from it."""
    compared = [(row.method, versus_random(row.versus_random)) for row in rows if row.versus_random is not None]
    endings = {
        "better": "better than random",
        "worse": "worse than random",
        "higher": "higher than random",
        "lower": "lower than random",
        "not significant": "not significantly different from random",
        "too few texts": f"fewer than {MINIMUM} texts",
    }
    parts = []
    for word, ending in endings.items():
        names = [method for method, result in compared if result == word]
        listing = f" ({and_list(names)})" if len(names) <= MAX_NAMES else ""
        count = f"{len(names)} of {len(compared)} method{'' if len(compared) == 1 else 's'}{listing}"
        verb = "is" if len(names) == 1 else "are"
        if names and word != "too few texts":
            parts.append(f"{count} {verb} {ending}")
        elif names and parts:
            parts.append(f"{count} {verb} undecided, with {ending}")
    return capital("; ".join(parts)) + " (paired over texts, Holm-corrected, p ≤ .05)." if parts else None


def prompt_text(prompt: Mapping[str, Any]) -> str:
    """A prompt on one line: 'Review: {text}⏎Sentiment:', answered by positive (" good") or negative (" bad")."""
    answers = [f'{label} ("{words}")' for label, words in prompt["verbalizer"].items()]
    extra = [name for name in ("chat", "calibrate") if prompt[name]]
    extra += [f"scoring={prompt['scoring']}"] if prompt["scoring"] != "first" else []
    template = prompt["template"].replace("\n", "⏎")
    return f"'{template}', answered by {', '.join(answers)}" + (f"; {', '.join(extra)}" if extra else "")
