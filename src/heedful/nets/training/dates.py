"""A generated task: dates as people write them, one or several in a text -> dates in ISO 8601.

"due the 3rd of March, 2026" -> "2026-03-03"          "from Tue 03/11/87 to 8.11.87" -> "1987-11-03 1987-11-08"

With more dates in a text, an encoder must remember more: the task is harder for longer texts.
"""

from __future__ import annotations

import datetime
import string
from collections.abc import Container
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from heedful.core.errors import BadInput
from heedful.nets.training.pairs import PairSplits, TextPair

SOURCE = string.ascii_letters + string.digits + " ,./-'"
TARGET = string.digits + "- "
MAX_DATES = 4  # in a text, by default

_DAY = datetime.timedelta(days=1)
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth",
    "twentieth", "twenty-first", "twenty-second", "twenty-third", "twenty-fourth", "twenty-fifth", "twenty-sixth",
    "twenty-seventh", "twenty-eighth", "twenty-ninth", "thirtieth", "thirty-first",
)  # fmt: skip
# with slashes and dots the day comes first, unless the year does; a year of two digits is in 1970 … 2069
_FORMATS = (
    "{d} {month} {y}", "{d} {mon} {y}", "{d} {mon} {yy}", "{dth} {month} {y}", "{month} {d}, {y}", "{month} {dth}, {y}",
    "{mon} {dth}, {y}", "{mon} {d} {yy}", "the {dth} of {month}, {y}", "the {dth} of {month} {yy}",
    "the {ordinal} of {month} {y}", "{month} the {ordinal}, {y}", "{weekday}, {d} {month} {y}", "{wd} {dd}/{mm}/{y}",
    "{wd} {d} {mon} {yy}", "{weekday} the {dth} of {month} {y}", "{dd}/{mm}/{y}", "{d}/{m}/{yy}", "{dd}.{mm}.{y}",
    "{d}.{m}.{yy}", "{y}-{mm}-{dd}", "{y}/{mm}/{dd}", "{dd}-{mon}-{y}", "{d}-{mon}-{yy}",
)  # fmt: skip
_BEFORE = (
    "due ", "on ", "from ", "before ", "since ", "we met on ", "she was born on ", "please call before ",
    "the train left on ", "it opened on ", "paid ", "the letter of ", "they moved house on ", "our next visit is ",
)  # fmt: skip
_BETWEEN = (", ", " and ", " to ", " then ", ", then again on ", " and also ", ", not ", " or ")
_AFTER = (" at the latest", ", as agreed", ", I think", " in the old town", " and no sooner", ", said the clerk", ".")


@dataclass(frozen=True)
class DatePair(TextPair):
    """A text and its translation.

    `copies` are the digits of the translation that stand in the text: for each, its place there and in the text.
    """

    copies: tuple[tuple[int, int], ...] = ()


def date_pairs(
    n: int,
    seed: int,
    length: tuple[int, int] | None = None,
    dates: tuple[int, int] = (1, MAX_DATES),
    without: Container[str] = (),
) -> tuple[DatePair, ...]:
    """n different texts with a number of `dates`, and of characters (`length`), in these ranges; fixed by the seed.

    Texts in `without` are excluded.
    """
    if dates[0] < 1 or dates[0] > dates[1]:
        raise BadInput(f"dates is {dates[0]} to {dates[1]}; give a range from 1 upwards.")
    rng = Random(seed)
    pairs: dict[str, DatePair] = {}
    failures = 0
    while len(pairs) < n:
        pair = _text(rng, rng.randint(*dates))
        fits = length is None or length[0] <= len(pair.source) <= length[1]
        if fits and pair.source not in pairs and pair.source not in without:
            pairs[pair.source] = pair
            failures = 0
        elif (failures := failures + 1) > 10_000:
            raise BadInput(f"only {len(pairs)} of {n} texts were found; lower n or widen length.")
    return tuple(pairs.values())


def date_splits(
    n_train: int, n_dev: int, n_test: int, seed: int = 0, dates: tuple[int, int] = (1, MAX_DATES)
) -> PairSplits:
    """Three sets from three seeds; no text is in two of them."""
    train = date_pairs(n_train, 3 * seed, dates=dates)
    known = {pair.source for pair in train}
    dev = date_pairs(n_dev, 3 * seed + 1, dates=dates, without=known)
    test = date_pairs(n_test, 3 * seed + 2, dates=dates, without=known | {pair.source for pair in dev})
    return PairSplits(train, dev, test)


@dataclass(frozen=True)
class _Date:
    """A date as it is written and in ISO 8601, and the digits that both share, as in `DatePair`."""

    written: str
    iso: str
    copies: tuple[tuple[int, int], ...]


def _text(rng: Random, count: int) -> DatePair:
    source: list[str] = []
    dates: list[_Date] = []
    for i in range(count):
        date = _date(rng)
        source += [rng.choice(_BETWEEN), date.written] if i else [date.written]
        dates.append(date)
    before = rng.choice(_BEFORE) if rng.random() < 0.6 else ""
    after = rng.choice(_AFTER) if rng.random() < 0.3 else ""
    starts = list(accumulate(map(len, [before, *source])))[::2]  # of each date in the text
    copies = tuple(
        (11 * i + there, start + here)
        for i, (date, start) in enumerate(zip(dates, starts, strict=True))
        for there, here in date.copies
    )
    return DatePair(before + "".join(source) + after, " ".join(date.iso for date in dates), copies)


_LAST_DIGITS = {"y": 4, "yy": 4, "m": 7, "mm": 7, "d": 10, "dd": 10, "dth": 10}  # where a number ends in ISO 8601


def _date(rng: Random) -> _Date:
    """A date in one of the formats."""
    how = rng.choice(_FORMATS)
    first, last = (1970, 2069) if "{yy}" in how else (1900, 2099)
    start = datetime.date(first, 1, 1)
    day = start + _DAY * rng.randrange((datetime.date(last, 12, 31) - start).days + 1)
    month, weekday = _MONTHS[day.month - 1], _WEEKDAYS[day.weekday()]
    ending = "th" if 10 < day.day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    parts = {
        "d": str(day.day), "dd": f"{day.day:02}", "dth": f"{day.day}{ending}", "ordinal": _ORDINALS[day.day - 1],
        "m": str(day.month), "mm": f"{day.month:02}", "month": month, "mon": month[:3],
        "y": str(day.year), "yy": f"{day.year % 100:02}", "weekday": weekday, "wd": weekday[:3],
    }  # fmt: skip
    text, copies = "", []
    for words, name, _, _ in string.Formatter().parse(how):
        text += words
        if name in _LAST_DIGITS:
            digits = sum(map(str.isdigit, parts[name]))
            copies += [(_LAST_DIGITS[name] - digits + k, len(text) + k) for k in range(digits)]
        text += parts[name] if name else ""
    case = rng.random()
    written = text.lower() if case < 0.15 else text.upper() if case < 0.2 else text
    return _Date(written, day.isoformat(), tuple(sorted(copies)))
