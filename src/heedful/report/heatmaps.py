"""Heat maps: an Interaction thinned for the screen."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.core.explanation import Interaction
from heedful.report.wording import details, number

BINS = 64  # the side of a heat map
CELLS = 2_000_000  # of all heat maps of a page: what keeps the page of a model with 1,024 heads under 5 MB


@dataclass(frozen=True)
class Map:
    """An Interaction thinned for the screen; `data` is what the script draws, `strongest` says each head in words."""

    why: Interaction
    data: dict[str, Any]
    strongest: list[list[str]]
    facts: str = ""


def thinned(why: Interaction, cells: int = CELLS) -> Map:
    """At most `cells` bytes: the largest weight of each bin, its square root on a scale of 255 steps.

    The root keeps small weights apart: of 512 keys most get less than 1/255 of the largest weight.
    """
    layers, heads, queries, n = why.weights.shape
    side = max(1, min(n, BINS, math.isqrt(cells // max(1, layers * heads))))
    starts = np.arange(side) * n // side
    # a network that pools with a single query has one row: it is drawn once for each token, and the page says so
    small = pooled(np.repeat(why.weights, n, axis=2) if queries < n else why.weights, starts)
    top = float(np.abs(small).max(initial=0.0))
    signed = bool((small < 0).any())
    roots = np.sign(small) * np.sqrt(np.abs(small) / (top or 1.0))
    steps = np.rint(128 + 127 * roots if signed else 255 * roots).astype(np.uint8)
    ends = [*starts[1:], n]
    names = [why.tokens.surface(i) for i in range(n)]
    bins = [names[a] if b - a == 1 else f"{names[a]} … {names[b - 1]}" for a, b in zip(starts, ends, strict=True)]
    data = {
        "name": why.method or "weights",
        "mate": None,
        "layers": layers,
        "heads": heads,
        "numbers": why.layers,
        "side": side,
        "bins": bins,
    }
    scale = {"top": top, "signed": signed, "steps": base64.b64encode(steps.tobytes()).decode("ascii")}
    words = [[peak(head, names) for head in layer] for layer in why.weights]
    return Map(why, data | scale, words, details(why.details))


def pooled(weights: NDArray[np.float32], starts: NDArray[np.int64]) -> NDArray[np.float32]:
    """The weight of the largest magnitude, sign kept, in each bin of queries and keys."""
    if len(starts) == weights.shape[-1]:
        return weights
    high = np.maximum.reduceat(np.maximum.reduceat(weights, starts, axis=3), starts, axis=2)
    low = np.minimum.reduceat(np.minimum.reduceat(weights, starts, axis=3), starts, axis=2)
    return np.where(high >= -low, high, low)


def peak(head: NDArray[np.float32], names: Sequence[str]) -> str:
    """One head in words, for who cannot see its map: "0.83 from [CLS] to not"."""
    query, key = divmod(int(np.abs(head).argmax()), head.shape[1])
    start = f" from {names[query]}" if len(head) == len(names) else ""
    return f"{number(float(head[query, key]), signed=False)}{start} to {names[key]}"


def pairs(maps: Sequence[Interaction]) -> dict[int, int]:
    """Which maps are shown beside each other: what is attributed to attention, and the attention itself."""
    plain = next((i for i, e in enumerate(maps) if e.method == "attention-weights"), None)
    if plain is None:
        return {}
    mates = [i for i, e in enumerate(maps) if i != plain and alike(maps[plain], e)]
    return dict.fromkeys(mates, plain) | ({plain: mates[0]} if mates else {})


def alike(plain: Interaction, other: Interaction) -> bool:
    """Whether two interactions speak of the same matrices."""
    same = plain.attention == other.attention and plain.weights.shape[1:] == other.weights.shape[1:]
    return same and set(other.layers) <= set(plain.layers)


def narrowed(plain: Interaction, other: Interaction) -> Interaction:
    """The layers of `plain` that `other` has too."""
    rows = [plain.layers.index(layer) for layer in other.layers]
    gaps = None if plain.gaps is None else tuple(plain.gaps[row] for row in rows)
    return replace(plain, weights=plain.weights[rows], layers=other.layers, gaps=gaps)
