"""Random rationales: sufficiency of attention's top fifth among 50 random fifths, against ice-faithfulness.

Both sides have the same rationales, from the same random numbers, and delete tokens. ice runs one input at a time, and
the whole text again with each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from ice import ICEConfig, ICEEvaluator
from ice.operators import DeletionOperator

from benchmarks.material import Scale, default, named, sentences, trained
from benchmarks.measure import Report, Row, in_turns
from heedful import explain
from heedful.core.arrays import Floats
from heedful.core.explanation import Attribution
from heedful.model.classifier import Classifier
from heedful.model.inference import answers
from heedful.model.masking import Variants

DRAWS, SHARE = 50, 0.2
LEAST_ROOM = 0.05  # between the whole text and none, below which ice has no score
WIDEST = 2.0  # ice cuts scores here


def run(scale: Scale) -> Report:
    """The model that comes with the package, and the trained one."""
    models = [default(), *([trained()] if trained() is not default() else [])]
    return Report([_row(one, sentences(30)[: scale.few(30, 2)]) for one in models])


def _row(classifier: Classifier, texts: Sequence[str]) -> Row:
    given = [
        one for text in texts if isinstance(one := explain(classifier, text, method="attention-mean"), Attribution)
    ]
    sides: dict[str, Callable[[Sequence[Attribution]], list[tuple[float, float]]]] = {
        "theirs": partial(theirs, classifier),
        "ours": partial(ours, classifier),
    }
    for side in sides.values():
        side(given[:1])
    timed = in_turns({name: partial(side, given) for name, side in sides.items()}, 1)
    score, wins = (
        max(abs(a[i] - b[i]) for a, b in zip(timed["theirs"].result, timed["ours"].result, strict=True)) for i in (0, 1)
    )
    return Row(
        "random rationales",
        f"{len(texts)} sentences of 25 tokens, {named(classifier)}",
        f"ice-faithfulness, {DRAWS} draws",
        timed["theirs"].seconds / len(texts),
        timed["ours"].seconds / len(texts),
        3.0,
        f"scores differ by at most {score:.0e}, shares of draws that are beaten by at most {wins:.2f}",
    )


def theirs(classifier: Classifier, given: Sequence[Attribution]) -> list[tuple[float, float]]:
    """The score of each rationale, and the share of draws that it beats, by ice."""
    evaluator = ICEEvaluator(classifier.model, classifier.tokenizer, ICEConfig(n_permutations=DRAWS, device="cpu"))
    evaluator.operators = [DeletionOperator(classifier.tokenizer)]
    results = []
    for seed, one in enumerate(given):
        np.random.seed(seed)
        ids, scores = torch.tensor(one.tokens.ids), torch.from_numpy(np.nan_to_num(one.scores))
        found = evaluator.evaluate_single(ids, torch.ones_like(ids), scores, one.prediction.index, SHARE)
        results.append((float(found["sufficiency_nsd"]), float(found["win_rate"])))
    return results


def ours(classifier: Classifier, given: Sequence[Attribution]) -> list[tuple[float, float]]:
    """The same, with all inputs of a text in batches."""
    results = []
    for seed, one in enumerate(given):
        np.random.seed(seed)
        inside = np.array(one.tokens.content)
        size = max(1, int(SHARE * len(inside)))
        top = inside[np.argsort(-np.nan_to_num(one.scores)[inside], kind="stable")[:size]]
        drawn = [np.random.choice(inside, size=size, replace=False) for _ in range(DRAWS)]
        keep = np.zeros((DRAWS + 3, len(one.tokens)), bool)
        keep[0] = True  # the whole text; row 1 is that without any word
        for row, positions in zip(keep[2:], [top, *drawn], strict=True):
            row[positions] = True
        logits = answers(classifier, [Variants(one.tokens, keep)]).logits
        scores = normalised(torch.softmax(logits, -1)[:, one.prediction.index].numpy())
        results.append((float(scores[0]), float((scores[0] > scores[1:]).mean())))
    return results


def normalised(p: Floats) -> Floats:
    """The part of the whole text's lead over no text that each of the others keeps."""
    room = p[0] - p[1]
    return np.zeros(len(p) - 2) if abs(room) < LEAST_ROOM else np.clip((p[2:] - p[1]) / room, -WIDEST, WIDEST)
