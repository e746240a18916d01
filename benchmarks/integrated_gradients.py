"""Integrated gradients at 1 % error, against captum's LayerIntegratedGradients with the same nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

import heedful
from benchmarks.material import Scale, documents, large, named, resolved, sentences, trained
from benchmarks.measure import Report, Row, Timed, between, in_turns, l1, total
from heedful.core.arrays import Floats
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.methods.gradient import IntegratedGradients
from heedful.model.classifier import Classifier

JOB = "integrated gradients to 1 % error"
NODES = (2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)
FINE, ERROR = 256, 0.01
BATCHES = (4, 8, 16, None)
Scores = Floats
Way = Callable[[int], Scores]


def _ours(classifier: Classifier, tokens: Tokens, target: Target) -> Way:
    def call(steps: int) -> Scores:
        return IntegratedGradients(steps=steps)(classifier, tokens, target, torch.Generator()).scores

    return call


def _captum(classifier: Classifier, tokens: Tokens, target: Target, rows: int | None) -> Way:
    """captum at its best: Gauss–Legendre nodes, no convergence delta."""
    from captum.attr import LayerIntegratedGradients

    table = classifier.model.get_input_embeddings()
    ids = torch.tensor([tokens.ids])
    blank = torch.where(torch.tensor([tokens.special]), ids, classifier.tokenizer.mask_token_id)

    def answer(given: torch.Tensor) -> torch.Tensor:
        logits = classifier.model(input_ids=given, attention_mask=torch.ones_like(given)).logits
        return target.of(logits, classifier.head)

    method: Any = LayerIntegratedGradients(answer, table)

    def call(steps: int) -> Scores:
        size = None if rows is None or rows >= steps else rows
        found = method.attribute(ids, baselines=blank, n_steps=steps, method="gausslegendre", internal_batch_size=size)
        scores: Scores = found[0].sum(-1).detach().double().numpy()
        return scores

    return call


def run(scale: Scale) -> Report:
    """Sentences on the trained model; documents and BERT-base on a few."""
    classifier = trained()
    rows = _rows(classifier, sentences(scale.few(6)), "25 tokens")
    if not scale.quick:
        rows += _rows(classifier, documents(1), "200 tokens", rounds=1)
        rows += _rows(large(), sentences()[:1], "25 tokens", rounds=1)
    return Report(rows)


@dataclass(frozen=True)
class _Text:
    """Of one text: the nodes that we and captum need, and the times of all sides with so many."""

    nodes: tuple[int, int]
    timed: dict[str, Timed]


def _text(classifier: Classifier, text: str, rounds: int) -> _Text:
    tokens = classifier.tokens(text)
    target = resolved(classifier, tokens)
    ours = _ours(classifier, tokens, target)
    ways = {str(size): _captum(classifier, tokens, target, size) for size in BATCHES}
    truth = ours(FINE)
    nodes = _enough(ours, truth), _enough(ways["16"], truth)
    sides: dict[str, Callable[[], Any]] = {
        "ours": partial(ours, nodes[0]),
        "explain": lambda: heedful.explain(classifier, text, IntegratedGradients(steps=nodes[0])),
    }
    return _Text(nodes, in_turns(sides | {name: partial(way, nodes[1]) for name, way in ways.items()}, rounds))


def _rows(classifier: Classifier, texts: tuple[str, ...], on: str, rounds: int = 3) -> list[Row]:
    each = [_text(classifier, text, rounds) for text in texts]
    timed = [one.timed for one in each]
    errors = [l1(one["ours"].result, one["16"].result) for one in timed]
    best = min(BATCHES, key=lambda size: total(timed, str(size)))
    nodes = "/".join(f"{np.mean(n):.0f}" for n in zip(*(one.nodes for one in each), strict=True))
    return [
        Row(
            job=f"{JOB}{what}",
            on=f"{on}, {named(classifier)}",
            against=f"captum LayerIntegratedGradients, {'all' if best is None else best} nodes at a time",
            theirs=total(timed, str(best)),
            ours=total(timed, side),
            target=1.1 if aimed else None,
            between=between(timed, str(best), side),
            agreement=f"L1 apart {max(errors):.1e}; nodes ours/theirs {nodes}",
        )
        for side, what, aimed in (
            ("ours", "", on == "25 tokens" and classifier is trained()),
            ("explain", ", whole explain()", False),
        )
    ]


def _enough(way: Way, truth: Scores) -> int:
    """The least number of nodes with an error below the limit."""
    return next((nodes for nodes in NODES if l1(way(nodes), truth) <= ERROR), NODES[-1])
