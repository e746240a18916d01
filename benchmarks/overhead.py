"""Overhead: our CPU time over that of the bare model on the same distinct inputs, unpadded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

import heedful
from benchmarks.material import Scale, named, resolved, sentences, trained
from benchmarks.measure import Report, Row, Timed, between, in_turns, total
from heedful.core.tokens import Tokens
from heedful.maths.lime import design
from heedful.methods.base import numpy_generator
from heedful.methods.lime import Lime
from heedful.methods.perturbation import LeaveOneOut, Perturbing
from heedful.model.classifier import Classifier
from heedful.model.masking import InputRows, features

BUDGETS = (1024, 4096)


def inputs(classifier: Classifier, tokens: Tokens, method: Perturbing) -> InputRows:
    """The distinct inputs that the method runs."""
    d = len(features(tokens, method.by))
    rng = torch.Generator().manual_seed(0)
    if isinstance(method, Lime):
        keep = design(d, 1000, "lime", numpy_generator(rng)).keep
    else:
        keep = np.concatenate([np.ones((1, d), bool), ~np.eye(d, dtype=bool)])
    rows = method.variants(tokens, keep, rng).rows(classifier, slice(None))
    return rows.take(np.unique(np.array([key.hex() for key in rows.keys()]), return_index=True)[1])  # noqa: SIM118


def batched(rows: InputRows, budget: int) -> list[Tensor]:
    """The inputs in batches of one length."""
    found = []
    for n in np.unique(rows.lengths):
        own = rows.take(np.flatnonzero(rows.lengths == n)).ids
        found += [torch.from_numpy(part.copy()) for part in np.array_split(own, -(-own.size // max(int(n), budget)))]
    return found


def bare(classifier: Classifier, batches: Sequence[Tensor]) -> None:
    """The model, and nothing else."""
    with torch.inference_mode():
        for ids in batches:
            classifier.model(input_ids=ids, attention_mask=torch.ones_like(ids))


def run(scale: Scale) -> Report:
    """LIME with 1000 samples and leave-one-out, on sentences."""
    classifier = trained()
    jobs = {"lime 1000": (Lime(), scale.few(3)), "leave-one-out": (LeaveOneOut(), scale.few(10, 2))}
    return Report([row for name, (method, n) in jobs.items() for row in _rows(classifier, name, method, n)])


def _text(classifier: Classifier, text: str, method: Any) -> tuple[int, dict[str, Timed]]:
    tokens = classifier.tokens(text)
    target = resolved(classifier, tokens)
    rows = inputs(classifier, tokens, method)
    sides: dict[str, Callable[[], Any]] = {
        "ours": lambda: method(classifier, tokens, target, torch.Generator().manual_seed(0)),
        "explain": lambda: heedful.explain(classifier, text, method),
    }
    sides |= {str(budget): partial(bare, classifier, batched(rows, budget)) for budget in BUDGETS}
    return len(rows), in_turns(sides, 3)


def _rows(classifier: Classifier, name: str, method: Any, texts: int) -> list[Row]:
    each = [_text(classifier, text, method) for text in sentences()[:texts]]
    timed = [one for _, one in each]
    count = sum(n for n, _ in each)
    best = min(BUDGETS, key=lambda budget: total(timed, str(budget)))
    return [
        Row(
            job=f"overhead of {name}{what}",
            on=f"25 tokens, {named(classifier)}",
            against=f"bare model, {budget} tokens at a time",
            theirs=total(timed, str(budget)),
            ours=total(timed, side),
            target=target,
            at_most=True,
            between=between(timed, side, str(budget)),
            agreement=f"{count / texts:.0f} distinct inputs",
        )
        for side, what, budget, target in (
            ("ours", "", 4096, 1.15),
            *([("ours", "", best, None)] if best != 4096 else []),
            ("explain", ", whole explain()", 4096, None),
        )
    ]
