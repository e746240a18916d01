"""SVG: shapes, words and scales as text. It knows no audits; colours are classes of `templates/charts.css`.

A chart is `CHART_WIDTH` units wide with letters `SIZE` units high, which is 10 px on a phone 360 px wide.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import escape

from heedful.report.phrases import fixed, powers

CHART_WIDTH = 480  # units
SIZE = 13.5  # units, of letters
LINE = 17.0  # units, from one line of words to the next
MANY = 5  # decimals that a tick has room for
SERIES = 8  # distinct colours, dashes and markers

Point = tuple[float, float]

_NARROW, _SLIM, _BROAD = frozenset("ijl.,:;|'!`I "), frozenset('ftr()[]-/\\"*'), frozenset("mwMW@%—…−=+<>")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # not allowed in XML 1.0
_JOINER = "\u200d"


def escaped(words: str) -> str:
    """Words for an element or an attribute: markup is escaped, and characters that XML forbids become �."""
    return str(escape(_FORBIDDEN.sub("\ufffd", words)))


def coordinate(x: float) -> str:
    """A coordinate with at most one decimal: coordinate(12.04) -> "12", coordinate(-0.04) -> "0"."""
    rounded = round(x, 1) + 0.0
    return str(int(rounded)) if rounded == int(rounded) else f"{rounded:.1f}"


def element(name: str, attributes: Mapping[str, str | float], inside: str = "") -> str:
    """An element; numbers are coordinates. `inside` is markup, so words in it must be escaped."""
    attributes_text = "".join(
        f' {key}="{escaped(value) if isinstance(value, str) else coordinate(value)}"'
        for key, value in attributes.items()
        if value != ""
    )
    return f"<{name}{attributes_text}>{inside}</{name}>" if inside else f"<{name}{attributes_text}/>"


def group(kind: str, inside: str) -> str:
    """Elements with a class in common; empty for no elements."""
    return element("g", {"class": kind}, inside) if inside else ""


def line(a: Point, b: Point, kind: str) -> str:
    """A straight line."""
    return element("line", {"class": kind, "x1": a[0], "y1": a[1], "x2": b[0], "y2": b[1]})


def rectangle(corner: Point, width: float, height: float, kind: str) -> str:
    """A rectangle from its top left corner."""
    return element("rect", {"class": kind, "x": corner[0], "y": corner[1], "width": width, "height": height})


def trace(points: Sequence[Point]) -> str:
    """The `d` of a path through points."""
    return "M" + "L".join(f"{coordinate(x)} {coordinate(y)}" for x, y in points) if points else ""


def path(d: str, kind: str) -> str:
    """A path; empty for an empty `d`."""
    return element("path", {"class": kind, "d": d}) if d else ""


_MARKERS = (  # around the point; distinct without colour
    "m-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0-6.4 0z",
    "m-2.9-2.9h5.8v5.8h-5.8z",
    "m0-4l3.8 6.6h-7.6z",
    "m0-4.2l4.2 4.2l-4.2 4.2l-4.2-4.2z",
    "m0 4l3.8-6.6h-7.6z",
    "m-1.3-4h2.6v2.7h2.7v2.6h-2.7v2.7h-2.6v-2.7h-2.7v-2.6h2.7z",
    "m-4-1.5h8v3h-8z",
    "m-1.5-4h3v8h-3z",
)


def marker(series: int, at: Point) -> str:
    """The `d` of a series' marker at a point. The ninth series has the first colour and the second marker."""
    return f"M{coordinate(at[0])} {coordinate(at[1])}{_MARKERS[(series + series // SERIES) % SERIES]}"


def colour(series: int) -> str:
    """The class of a series' colour."""
    return f"c-s{series % SERIES}"


def dash(series: int) -> str:
    """The class of a series' dashes."""
    return f"c-d{(series + series // SERIES) % SERIES}"


def width_of(words: str, size: float = SIZE) -> float:
    """The approximate width of words in a wide sans-serif font (DejaVu, Verdana); the font of a page is unknown."""
    return size * sum(_width(sign) for sign in words)


def _width(sign: str) -> float:
    if _clings(sign):
        return 0.0
    if unicodedata.east_asian_width(sign) in "WF" or ord(sign) > 0xFFFF:
        return 1.3
    if sign in _NARROW:
        return 0.34
    if sign in _SLIM:
        return 0.43
    return 0.95 if sign in _BROAD else 0.75 if sign.isupper() else 0.63


def _clings(sign: str) -> bool:
    """Whether a character belongs to the one before: an accent, a variation of an emoji, a joiner."""
    return sign == _JOINER or unicodedata.category(sign) in ("Mn", "Me", "Cf") or "\U0001f3fb" <= sign <= "\U0001f3ff"


def shortened(words: str, room: float) -> str:
    """The words, cut with an ellipsis if they are wider than `room`; never between a letter and its accent."""
    if width_of(words) <= room:
        return words
    left, end = room - width_of("…"), 0
    for i, sign in enumerate(words):
        if i and not _clings(sign) and words[i - 1] != _JOINER:
            end = i
        left -= width_of(sign)
        if left < 0:
            break
    return words[:end].rstrip() + "…"


def write_line(at: Point, words: str, kind: str = "", room: float = math.inf) -> str:
    """One line of words with its baseline at a point; shortened words have a <title>. Anchors are classes."""
    plain = " ".join(words.split())
    short = shortened(plain, room)
    title = f"<title>{escaped(plain)}</title>" if short != plain else ""
    place: dict[str, str | float] = {"class": kind, "x": at[0], "y": at[1]}
    return element("text", place, title + escaped(short)) if plain else ""


@dataclass(frozen=True)
class AxisScale:
    """Numbers from `low` to `high` on a line from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, x: float) -> float:
        """The place of a number."""
        return self.start + (x - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, apart: float = 60.0) -> list[float]:
        """Round numbers, about `apart` units from each other."""
        return ticks(self.low, self.high, max(2, round(abs(self.end - self.start) / apart)))


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """About so many multiples of 1, 2, 2.5 or 5 · 10^k from `low` to `high`: ticks(0, 1) -> 0, .2, .4, .6, .8, 1."""
    rough = (high - low) / about
    unit = 10.0 ** math.floor(math.log10(rough))
    step = min((m * unit for m in (1, 2, 2.5, 5, 10)), key=lambda step: abs(math.log(step / rough)))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def tick_words(values: Sequence[float]) -> list[str]:
    """All ticks with as many decimals as one of them needs: 0, .25 -> "0.00", "0.25"; tiny ones as 5e−7."""
    digits = next(
        (d for d in range(12) if all(math.isclose(round(v, d), v, rel_tol=1e-9, abs_tol=1e-12) for v in values)), 12
    )
    tiny = digits > MANY and max(map(abs, values)) < 10 ** (2 - MANY)
    return [powers(v, ".6g") if tiny else fixed(v, digits) for v in values]


def axis_digits(low: float, high: float) -> int:
    """The decimals that distinguish numbers from `low` to `high`: two for 0 … 1 and −1 … 1, more for a small range."""
    return 2 if high <= low else min(6, max(0, 2 - math.floor(math.log10((high - low) / 0.25))))


def spread_places(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places near those wanted, in the same order, at least `gap` apart and within [low, high] if there is room.

    Neighbours that would overlap become a block, placed at the mean of its members' wanted places.
    """
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    blocks: list[tuple[float, list[int]]] = []  # top of the block, members
    for i in order:
        block = (_within(wanted[i], low, high), [i])
        while blocks and blocks[-1][0] + gap * len(blocks[-1][1]) > block[0]:
            members = blocks.pop()[1] + block[1]
            top = sum(wanted[j] - gap * place for place, j in enumerate(members)) / len(members)
            block = (_within(top, low, high - gap * (len(members) - 1)), members)
        blocks.append(block)
    return [place for _, place in sorted((i, top + gap * k) for top, members in blocks for k, i in enumerate(members))]


def _within(x: float, low: float, high: float) -> float:
    return max(low, min(x, high))
