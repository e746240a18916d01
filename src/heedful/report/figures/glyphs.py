"""Glyphs: which fonts a figure needs for its words, and what stands in for a letter that no font has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import chain

import regex
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

MAIN = "DejaVu Sans"  # comes with matplotlib
BOX = "□"
_CLUSTER = regex.compile(r"\X")
_UNSEEN = regex.compile(r"[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}]")
_JOINERS = frozenset(range(0xFE00, 0xFE10)) | {0x200C, 0x200D}  # they choose a glyph, and have none themselves


@dataclass(frozen=True)
class Letters:
    """The fonts of a figure, tried in order, and every character that one of them has."""

    families: tuple[str, ...]
    covered: frozenset[int]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Letters:
        """The main font, and as many more as these texts need and the machine has."""
        faces = (font_manager.FontProperties(family=MAIN, weight=weight) for weight in ("normal", "bold"))
        families, covered = [MAIN], frozenset.intersection(*(_covered(font_manager.findfont(face)) for face in faces))
        missing = {ord(c) for c in chain.from_iterable(texts)} - covered - _JOINERS
        for name, path in _others() if missing else ():
            found = missing & _covered(path)
            if found:
                families.append(name)
                covered |= found
                missing -= found
            if not missing:
                break
        return cls(tuple(families), covered)

    def safe(self, text: str, longest: int | None = None) -> str:
        """On one line, with a box for each sign that no font has; a missing glyph would be a warning at best."""
        line = " ".join(text.split())
        signs = [self._sign(cluster) for cluster in _CLUSTER.findall(line)]
        cut = longest is not None and len(signs) > longest
        return "".join(signs[: longest - 1]) + "…" if cut and longest else "".join(signs)

    def _sign(self, cluster: str) -> str:
        seen = "".join(c for c in cluster if ord(c) in self.covered and not _UNSEEN.match(c))
        return cluster if seen == cluster else seen if seen and _all_joined(cluster, seen) else BOX


def _all_joined(cluster: str, seen: str) -> bool:
    return all(c in seen or ord(c) in _JOINERS for c in cluster)


@cache
def _covered(path: str) -> frozenset[int]:
    try:
        return frozenset(FT2Font(path).get_charmap())
    except (RuntimeError, OSError):  # colour bitmaps, for one, cannot be drawn
        return frozenset()


@cache
def _others() -> tuple[tuple[str, str], ...]:
    """(family, file) of the machine's upright fonts of usual weight, those made for many scripts first."""
    known = font_manager.fontManager.ttflist
    # subtle: "Last Resort" has a picture of every script, and matplotlib warns when it is used
    upright = {
        f.name: f.fname for f in known if f.style == "normal" and _usual(f.weight) and "Last Resort" not in f.name
    }
    preferred = ("Noto Sans", "Noto", "Unifont", "Droid")
    return tuple(
        sorted(upright.items(), key=lambda f: (next((i for i, p in enumerate(preferred) if f[0].startswith(p)), 9), f))
    )


def _usual(weight: object) -> bool:
    return weight in (400, "normal", "regular", "book")
