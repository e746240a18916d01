"""Self-attention attribution of all layers, against the authors' protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.material import Scale, documents, large, named, resolved, sentences, trained
from benchmarks.measure import Report, Row, Timed, between, in_turns, l1, total
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.maths.formulas import riemann
from heedful.methods.attattr import AttAttr
from heedful.model import seam
from heedful.model.classifier import Classifier
from heedful.model.edits import replaced

JOB = "attattr, all layers"
RNG = torch.Generator()
PADDED = 128


def protocol(
    classifier: Classifier, tokens: Tokens, target: Target, width: int = 0, once: bool = False, steps: int = 20
) -> Tensor:
    """Hao et al. 2021: m copies of the text for each layer, a left Riemann sum. `width` pads the text.

    With `once` the layers below the one that is scaled run for one copy, which is what the authors' program does,
    because its attention of m copies meets hidden states of one.
    """
    batch = classifier.padding_with("right").batch([tokens], classifier.device, width)
    with torch.no_grad(), classifier.attention() as seen:
        classifier.logits(batch)
    nodes, weights = riemann(steps, "left")
    attributions = []
    for layer, attention in enumerate(seen[0].values()):
        leaf = (attention * nodes.to(attention)[:, None, None, None]).requires_grad_()
        copied = _copied(classifier, layer, steps) if once else nullcontext()
        with torch.enable_grad(), classifier.attention(replaced({("self", layer): leaf})), copied:
            logits = classifier.logits(batch if once else batch.repeat(steps))
            slopes = classifier.gradient(target.of(logits, classifier.head), [leaf])[0]
        attributions.append(
            (attention[0] * torch.einsum("m,mhqk->hqk", weights.to(slopes), slopes))[:, : len(tokens), : len(tokens)]
        )
    return torch.stack(attributions)


@contextmanager
def _copied(classifier: Classifier, layer: int, copies: int) -> Iterator[None]:
    """Inside, the hidden state of one text becomes that of several copies at a layer."""

    def expand(module: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (args[0].expand(copies, -1, -1), *args[1:])

    hook = seam.blocks(classifier.model, len(classifier.sites))[layer].register_forward_pre_hook(expand)
    try:
        yield
    finally:
        hook.remove()


def run(scale: Scale) -> Report:
    """Sentences on the trained model on both scales of the target; one text each for documents and BERT-base."""
    classifier = trained()
    tokens = [classifier.tokens(t) for t in sentences()]
    rows = _rows(classifier, tokens[: scale.few(5)], "probability", "25 tokens", (PADDED, 0))
    rows += _rows(classifier, tokens[: scale.few(5)], "logit", "25 tokens", (0,))
    if not scale.quick:
        long = [classifier.tokens(t) for t in documents(1)]
        rows += _rows(classifier, long, "probability", "200 tokens", (0,), rounds=1)
        rows += _rows(large(), tokens[:1], "probability", "25 tokens", (0,), rounds=1)
    return Report(rows)


def _text(
    classifier: Classifier, tokens: Tokens, target: Target, widths: tuple[int, ...], rounds: int
) -> tuple[dict[str, Timed], dict[str, float]]:
    """Times and errors of all sides; padded texts, which take seconds, run once."""
    sides: dict[str, Callable[[], Any]] = {"ours": lambda: AttAttr()(classifier, tokens, target, RNG).weights}
    sides |= {f"0 {once}": partial(protocol, classifier, tokens, target, 0, once) for once in (False, True)}
    heavy = {
        f"{width} {once}": partial(protocol, classifier, tokens, target, width, once)
        for width in widths
        if width
        for once in (False, True)
    }
    timed = in_turns(sides, rounds) | in_turns(heavy, 1)
    truth = AttAttr(rule="gauss", steps=64)(classifier, tokens, target, RNG).weights
    return timed, {side: l1(one.result, truth) for side, one in timed.items()}


def _rows(
    classifier: Classifier, texts: list[Tokens], scale: str, on: str, widths: tuple[int, ...], rounds: int = 3
) -> list[Row]:
    each = [_text(classifier, tokens, resolved(classifier, tokens, scale), widths, rounds) for tokens in texts]
    timed, errors = [one for one, _ in each], [error for _, error in each]
    mean = {side: float(np.mean([e[side] for e in errors])) for side in timed[0]}
    agreement = f"error ours {mean['ours']:.2%}, theirs {mean[f'{widths[-1]} False']:.1%}"
    aim = {PADDED: 20.0, 0: 3.0} if on == "25 tokens" and classifier is trained() else {}
    return [
        Row(
            job=f"{JOB} ({scale})",
            on=f"{on}, {named(classifier)}",
            against=f"Riemann 20, {f'padded to {width}' if width else 'unpadded'}"
            + (", lower layers once" if once else ""),
            theirs=total(timed, f"{width} {once}"),
            ours=total(timed, "ours"),
            target=None if once else aim.get(width),
            agreement=agreement,
            between=between(timed, f"{width} {once}", "ours"),
        )
        for width in widths
        for once in (False, True)
    ]
