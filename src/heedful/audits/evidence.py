"""Evidence: of all that the checks found, the numbers that a verdict needs, one for each text. Needs no torch.

`Q1 a`, `Q1 r` and `Q1 s` are attention's, chance's and the reference's number of the first question, and so on; see
heedful.audits.verdict.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from heedful.core.finding import Findings, Place

Floats = NDArray[np.float64]
Given = dict[str, Floats]
FIFTH = 0.2  # of the words
EVERYWHERE: Place = {"layer": "all", "head": "all"}


def evidence(check: str, found: Findings, attention: str, reference: str) -> Given:
    """What a verdict on the method `attention` needs of one check, by name."""
    return _EVIDENCE[check](found, attention, reference) if check in _EVIDENCE else {}


def _agreement(found: Findings, attention: str, reference: str) -> Given:
    return _three("Q1", found, ("pointing", {}), (attention, "random", reference))


def _input_erasure(found: Findings, attention: str, reference: str) -> Given:
    ways = [at["masking"] for at in found.places("tvd without words")]
    if not ways:
        return {}
    way = "delete" if "delete" in ways else ways[0]
    blank = {"Q3 s": found.values("tvd without words", "", {"masking": way})}
    at: Place = {"masking": way, "share": FIFTH}
    return _three("Q2", found, ("tvd", at), (attention, "random", reference)) | blank


def _three(question: str, found: Findings, what: tuple[str, Place], methods: tuple[str, str, str]) -> Given:
    measure, at = what
    return {f"{question} {who}": found.values(measure, name, at) for who, name in zip("ars", methods, strict=True)}


def _permutation(found: Findings, attention: str, reference: str) -> Given:
    moved = found.values("tvd", "", EVERYWHERE)
    return {"Q3 a": moved, "Q3 r": np.zeros(len(moved))}


def _complexity(found: Findings, attention: str, reference: str) -> Given:
    return {"from uniform": found.values("from uniform", attention)}


def _adversarial(found: Findings, attention: str, reference: str) -> Given:
    """Exact, or the best that was shown to exist; of a Transformer's heads, the one that can move farthest."""
    for measure in ("tvd exact", "tvd lower", "tvd any head"):
        places = found.places(measure)
        if places:
            return {"Q4": np.fmax.reduce([found.values(measure, "", at) for at in places])}
    return {}


def _identifiability(found: Findings, attention: str, reference: str) -> Given:
    """The last layer's heads: whether each has another row with which it gives the same."""
    places = [at for at in found.places("null constrained") if isinstance(at.get("layer"), int)]
    if not places:
        return {}
    last = max(at["layer"] for at in places)
    rows = [found.values("null constrained", "", at) for at in places if at["layer"] == last]
    return {"Q5": np.mean([np.where(np.isnan(row), np.nan, row > 0) for row in rows], axis=0)}


def _sensitivity(found: Findings, attention: str, reference: str) -> Given:
    return {"Q6": found.values("tau", attention, {"change": "any"})}


def _stability(found: Findings, attention: str, reference: str) -> Given:
    places = [at for at in found.places("tau", attention) if at.get("with") not in ("seed", "samples")]
    rows = [found.values("tau", attention, at) for at in places]
    return {"Q6 checkpoints": np.mean(rows, axis=0)} if rows else {}


_EVIDENCE: dict[str, Callable[[Findings, str, str], Given]] = {
    "agreement": _agreement,
    "input-erasure": _input_erasure,
    "permutation": _permutation,
    "complexity": _complexity,
    "adversarial": _adversarial,
    "identifiability": _identifiability,
    "sensitivity": _sensitivity,
    "stability": _stability,
}
NEEDED = ("agreement", "input-erasure", "permutation", "complexity")
