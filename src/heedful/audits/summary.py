"""Summarising: findings on many texts -> numbers with intervals, beside the control `random`. Pure; needs no torch.

Every row has its mean, median, n, and an interval over texts. A method's row has, too, its paired difference to
`random` on the same texts (there, the mean of 20 draws), with Holm's correction over all rows of that check's measure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from heedful.core.finding import LEFT_OUT, Findings, Key, Measure, Place
from heedful.maths import stats


def rows(found: Findings, measures: Mapping[str, Measure], methods: Sequence[str]) -> list[dict[str, Any]]:
    """A summary of every measure of a check, in the order of its measures and of the run's methods."""
    made: list[dict[str, Any]] = []
    for name, measure in measures.items():
        own = sorted((key for key in found.rows if key[1] == name), key=lambda key: _order(key, methods))
        some = [_row(found, key, measure) for key in own]
        differences = [_difference(found, key, measure) for key in own]
        adjusted = stats.holm(np.array([np.nan if d is None else d.p for d in differences]))
        for row, difference, p in zip(some, differences, adjusted, strict=True):
            if difference is not None:
                row["random"] = asdict(difference) | {"holm": float(p), "says": _says(difference, float(p), measure)}
        made += some
    return made


def _order(key: Key, methods: Sequence[str]) -> tuple[int, str, list[tuple[int, Any]]]:
    """Methods in the run's order; places by number where they are numbers ("all" first)."""
    method, _, at = key
    values = (json.loads(at) if at else {}).values()
    ranked = [(0, 0.0, v) if isinstance(v, str) else (1, float(v), "") for v in values]
    return (methods.index(method) if method in methods else len(methods), method, ranked)  # type: ignore[return-value]


def _row(found: Findings, key: Key, measure: Measure) -> dict[str, Any]:
    method, name, at = key
    values = found.groups[key][found.there[key]]
    return {
        "measure": name,
        "method": method,
        "at": json.loads(at) if at else {},
        **asdict(stats.summary(values, measure.kind)),
    }


def _difference(found: Findings, key: Key, measure: Measure) -> stats.Difference | None:
    """To `random` on the same texts, where it was measured at the same place."""
    method, name, at = key
    other = ("random", name, at)
    if method in ("", "random") or not measure.compared or other not in found.groups:
        return None
    return stats.paired(found.groups[key], found.groups[other])


def _says(difference: stats.Difference, p: float, measure: Measure) -> str:
    """What may be said of a method beside chance."""
    word = stats.decided(difference, p)
    if word in ("higher", "lower"):
        good = "" if measure.better is None else (": better" if word == measure.better else ": worse")
        return f"{word} than random{good}"
    return "too few texts" if word == "too few texts" else "cannot be told from random"


def left_out(tables: Iterable[pa.Table]) -> list[dict[str, Any]]:
    """What a check or a method could not do, why, and on how many texts."""
    counted: dict[Key, set[int]] = {}
    for table in tables:
        some = table.filter(pc.equal(table.column("measure"), LEFT_OUT))
        for row in some.select(["text", "check", "method", "details"]).to_pylist():
            key = (row["check"], row["method"], json.loads(row["details"] or "{}").get("reason", ""))
            counted.setdefault(key, set()).add(row["text"])
    return [{"check": c, "method": m, "reason": r, "texts": len(n)} for (c, m, r), n in counted.items()]


def described(texts: pa.Table, labels: Sequence[str], gold: Sequence[int]) -> dict[str, Any]:
    """The texts of a run: how many, by label, and how often the model is right."""
    facts = facts_of(texts, labels, gold)
    known = facts["gold"] >= 0
    right = (facts["gold"] == facts["predicted"])[known].astype(float)
    return {
        "n": len(texts),
        "predicted": {name: int((facts["predicted"] == i).sum()) for i, name in enumerate(labels)},
        "labelled": {name: int((facts["gold"] == i).sum()) for i, name in enumerate(labels)} if known.any() else None,
        "accuracy": asdict(stats.summary(right, "rate")) if known.any() else None,
        "tokens": asdict(stats.summary(facts["length"].astype(float))),
    }


def facts_of(texts: pa.Table, labels: Sequence[str], gold: Sequence[int]) -> dict[str, NDArray[Any]]:
    """What is known of each text, as arrays in the run's order."""
    index = {name: i for i, name in enumerate(labels)}
    chances = texts.column("probabilities").to_pylist()
    return {
        "number": texts.column("number").to_numpy(),
        "length": np.array([sum(start >= 0 for start in one) for one in texts.column("starts").to_pylist()]),
        "predicted": np.array([index.get(name, -1) for name in texts.column("predicted").to_pylist()]),
        "gold": np.array(gold, dtype=np.int64),
        "confidence": np.array([max(one) if one else np.nan for one in chances]),
    }


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
