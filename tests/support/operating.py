"""The operating table of the verdict: how often each word falls on models whose answer is known.

The texts of a toy are a population: each of a pool is as likely as the other, and a simulated audit draws n of them.
What the checks find on a text does not depend on the others, so each is measured once, through the whole run.

    python -m tests.support.operating [POOL] [ARCHITECTURE ...]      prints the table of docs/verdict.md
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import heedful
from heedful.audits.record import load_record
from heedful.audits.verdict import NEEDED, Evidence, Rule, Verdict, gather, readings, verdict
from heedful.data import Example
from tests.support import toys

DIAL = tuple(i / 10 for i in range(11))
SIZES = (5, 40, 200)
SEEDS = 20
WORDS = ("explanation", "not not explanation", "undecided", "not explanation")
SMALL: dict[str, dict[str, Any]] = {
    "permutation": {"layer_draws": 0, "head_draws": 0},
    "input-erasure": {"maskings": ["delete"], "shares": [0.2], "points": 1, "greedy_words": 0, "exhaustive_words": 0},
}


@cache
def measured(architecture: str, toy: toys.Toy, pool: int) -> Evidence:
    """The evidence on each text of the pool."""
    classifier = toys.build(architecture, toy)
    names = [name for name in heedful.CHECKS if set(getattr(heedful.CHECKS[name], "roles", ())) & set(NEEDED)]
    checks = [heedful.check(name, SMALL.get(name)) for name in names]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        texts = toys.pairs(pool) if architecture == "pair" else [(text, None) for text in toys.texts(pool)]
        data = [Example(*text) for text in texts]
        heedful.audit(classifier, data, ["attention-mean", "integrated-gradients"], checks, out, limit=pool)
        record = load_record(out)
        evidence = readings([Rule().attention])
        for name in names:
            evidence = gather(evidence, record.about(name).roles, record.findings(name))
        return evidence[Rule().attention]


@cache
def drawn(architecture: str, toy: toys.Toy, pool: int, n: int) -> tuple[Verdict, ...]:
    """The verdicts of SEEDS audits of n texts."""
    given = measured(architecture, toy, pool)
    chosen = [np.random.default_rng(seed).integers(0, pool, n) for seed in range(SEEDS)]
    return tuple(verdict(given.map(lambda values, some=some: values[some])) for some in chosen)  # type: ignore[misc]


def frequencies(architecture: str, toy: toys.Toy, pool: int, n: int) -> Counter[str]:
    """How often each word falls."""
    return Counter(found.word for found in drawn(architecture, toy, pool, n))


def named() -> dict[str, toys.Toy]:
    """The toys, from the one whose attention is the explanation to the ones where it means nothing."""
    dial = {f"mix({c})": toys.mix(c) for c in DIAL}
    return {"pointer": toys.POINTER, "deaf": toys.DEAF, "bag": toys.BAG_TOY} | dial


def table(architecture: str, pool: int, models: Mapping[str, toys.Toy]) -> list[str]:
    """Lines of Markdown: counts of explanation / not not explanation / undecided / not explanation."""
    lines = [f"| {architecture} | " + " | ".join(f"{n} texts" for n in SIZES) + " |", "|---" * (len(SIZES) + 1) + "|"]
    for name, toy in models.items():
        cells = [" / ".join(str(frequencies(architecture, toy, pool, n)[word]) for word in WORDS) for n in SIZES]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def main(args: Sequence[str]) -> None:
    """Print the tables."""
    pool = int(args[0]) if args else 400
    for architecture in args[1:] or ("bilstm",):
        sys.stdout.write("\n".join(table(architecture, pool, named())) + "\n\n")


if __name__ == "__main__":
    main(sys.argv[1:])
