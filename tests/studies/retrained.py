"""Small studies that train, for their tests: texts with one telling word, and tiny networks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from heedful.data import Example, Splits
from heedful.studies.outcome import Outcome
from heedful.studies.study import study
from tests.nets.training.test_train import sentences

TINY = ("embedding=12", "hidden=8", "lr=0.02", "batch=16", "epochs=3")


def splits(pairs: bool = False, labels: int = 2) -> Splits:
    """Two labels by the telling word; of more, by chance."""

    def part(n: int, seed: int) -> list[Example]:
        made = list({e.text: e for e in sentences(n, seed, pairs)}.values())
        return made if labels == 2 else [replace(e, label=str(i % labels)) for i, e in enumerate(made)]

    return Splits(part(64, 1), part(24, 2), part(40, 3))


def run(
    name: str, out: Path | None = None, *settings: str, recipe: str | None = "average", data: Any = None, **more: Any
) -> Outcome:
    """A study of a tiny network."""
    trained = [f"{recipe}.{setting}" for setting in TINY] if recipe else []
    return study(name, data or splits(), recipe=recipe, out=out, settings=(*trained, *settings), **more)
