"""Curves of head pruning, against a loop that removes one head more and evaluates all texts again.

The loop is what the programs of the papers do: texts in their order, 32 at a time, padded to the longest of a batch,
through the model's own fused attention, with a hook that sets the outputs of removed heads to zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from benchmarks.material import Scale, labelled, named, trained
from benchmarks.measure import Report, Row, apart, in_turns
from heedful.core.arrays import Floats
from heedful.model.classifier import Classifier
from heedful.studies.base import Texts, gold_index, probabilities_of, require_heads
from heedful.studies.heads import Head, every_head, importance, silenced_logits
from heedful.studies.outcome import TextsUsed
from heedful.studies.pruning import RATES

JOB = "pruning curves"
TOGETHER = 32  # texts that the loop runs at a time
Path = list[frozenset[Head]]


def paths(classifier: Classifier, texts: Texts) -> list[Path]:
    """Heads by Taylor importance, the largest first: in all layers at ten rates, and one by one in each layer."""
    layers, heads = require_heads(classifier)
    scores = importance("taylor", classifier, texts, (layers, heads)).mean(0).ravel()
    order = [every_head(layers, heads)[i] for i in np.argsort(-scores)]
    found = [[frozenset(order[: int(rate * len(order) + 1e-9)]) for rate in RATES]]
    for layer in range(layers):
        here = [head for head in order if head[0] == layer]
        found.append([frozenset(here[:n]) for n in range(heads + 1)])
    return found


def loop(classifier: Classifier, texts: Texts, curves: Sequence[Path]) -> list[Floats]:
    """Every point of every curve by itself: [points, texts] probabilities of the gold label."""
    return [np.stack([_evaluated(classifier, texts, gone) for gone in curve]) for curve in curves]


def _evaluated(classifier: Classifier, texts: Texts, gone: frozenset[Head]) -> Floats:
    model = classifier.model
    size = model.config.hidden_size // model.config.num_attention_heads
    hooks = []
    for layer in {layer for layer, _ in gone}:
        keep = torch.ones(model.config.hidden_size)
        for head in (head for at, head in gone if at == layer):
            keep[head * size : (head + 1) * size] = 0
        dense = model.bert.encoder.layer[layer].attention.output.dense
        hooks.append(dense.register_forward_pre_hook(lambda _, args, keep=keep: (args[0] * keep,)))
    rows = []
    try:
        for start in range(0, len(texts), TOGETHER):
            part = [example.text for example in texts.examples[start : start + TOGETHER]]
            batch = classifier.tokenizer(part, return_tensors="pt", padding="longest", truncation=True)
            with torch.no_grad():
                rows.append(model(**batch).logits.double())
    finally:
        for hook in hooks:
            hook.remove()
    return probabilities_of(torch.cat(rows), classifier)[np.arange(len(texts)), texts.gold]


def ours(classifier: Classifier, texts: Texts, curves: Sequence[Path]) -> list[Floats]:
    """Each distinct set of heads once, all of a text together, from the first layer on that differs."""
    shape = require_heads(classifier)
    sets = list(dict.fromkeys(gone for curve in curves for gone in curve))
    index = {gone: i for i, gone in enumerate(sets)}
    table = np.stack([
        probabilities_of(silenced_logits(classifier, tokens, sets, *shape), classifier)[:, gold]
        for tokens, gold in zip(texts.tokens, texts.gold, strict=True)
    ])  # fmt: skip
    return [table[:, [index[gone] for gone in curve]].T for curve in curves]


def run(scale: Scale) -> Report:
    """500 sentences on the trained model."""
    classifier = trained()
    examples = labelled(scale.few(500, 20))
    tokens = tuple(classifier.tokens(e.text).cut(classifier.limit) for e in examples)
    gold = np.array([gold_index(example, classifier.labels) for example in examples])
    texts = Texts(tuple(examples), tokens, gold, TextsUsed("timed", "dev", len(tokens), ""))
    curves = paths(classifier, texts.take(range(min(40, len(texts)))))
    few = texts.take(range(min(8, len(texts))))
    for side in (loop, ours):  # warm
        side(classifier, few, curves[:1])
    timed = in_turns(
        {"theirs": lambda: loop(classifier, texts, curves), "ours": lambda: ours(classifier, texts, curves)}, 1
    )
    results = timed["theirs"].result, timed["ours"].result
    off = max(apart(a, b) for a, b in zip(*results, strict=True))
    same = np.mean(np.concatenate([((a > 0.5) == (b > 0.5)).ravel() for a, b in zip(*results, strict=True)]))
    points = sum(map(len, curves))
    row = Row(
        JOB,
        f"{len(texts)} sentences, {len(curves)} curves of {points} points, {named(classifier)}",
        f"one head more, all texts again, {TOGETHER} at a time",
        timed["theirs"].seconds,
        timed["ours"].seconds,
        3.0,
        f"probabilities differ by at most {off:.0e}; {same:.2%} of predictions equal",
    )
    return Report([row])
