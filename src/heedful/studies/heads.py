"""Heads: how important each attention head is (Hao et al. 2021), and the output without some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from itertools import groupby
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.errors import Unsupported
from heedful.core.random import seeded
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.methods.attattr import AttAttr
from heedful.model import edits
from heedful.model.batch import copies_per_batch
from heedful.model.classifier import Classifier
from heedful.studies.base import Texts, logits_of, probabilities_of, right

Head = tuple[int, int]  # layer and head
Importance = Literal["attribution", "attention", "taylor", "accuracy"]
ATTATTR_NODES = 17  # of a layer, typically
SAME_LOGITS = 1e-5  # how far a model with silenced heads may be from the edit


def silenced_logits(
    classifier: Classifier, tokens: Tokens, sets: Sequence[frozenset[Head]], layers: int, heads: int
) -> Float[Tensor, "n c"]:
    """The logits of a text without each of these sets of heads, in float64: their weights are 0, not renormalised.

    Copies of the text branch off at the first layer where a head is missing, so that the layers below run once.
    """
    order = sorted(range(len(sets)), key=lambda i: min((layer for layer, _ in sets[i]), default=layers - 1))
    batch, kind = classifier.batch([tokens]), classifier.main_kind
    rows: dict[int, Tensor] = {}
    size = copies_per_batch(len(tokens))
    with classifier.lock, torch.no_grad():
        for start in range(0, len(order), size):
            part = order[start : start + size]
            factors = torch.ones(1 + len(part), layers, heads, device=classifier.device)
            for row, i in enumerate(part, 1):
                for layer, head in sets[i]:
                    factors[row, layer, head] = 0
            firsts = [min((layer for layer, _ in sets[i]), default=layers - 1) for i in part]
            branch = [(layer, len(list(group))) for layer, group in groupby(firsts)]
            with classifier.attention(edits.heads_by_row(factors, kind)):
                logits = classifier.logits(batch, branch).cpu().double()
            rows |= dict(zip(part, logits[1:], strict=True))
    return torch.stack([rows[i] for i in range(len(sets))])


def every_head(layers: int, heads: int) -> list[Head]:
    """All heads, layer by layer."""
    return [(layer, head) for layer in range(layers) for head in range(heads)]


# importance on some texts


def importance(kind: Importance, classifier: Classifier, texts: Texts, shape: tuple[int, int]) -> Floats:
    """The importance [n,l,h] of each head on each text; its mean over texts ranks the heads."""
    return _KINDS[kind](classifier, texts, shape)


def importance_passes(kind: Importance, layers: int, heads: int) -> tuple[int, int]:
    """Forward and backward passes of one text, typically."""
    nodes = ATTATTR_NODES * layers
    passes = {"attribution": (nodes, nodes), "attention": (1, 0), "taylor": (1, 1), "accuracy": (layers * heads, 0)}
    return passes[kind]


def _attribution(classifier: Classifier, texts: Texts, shape: tuple[int, int]) -> Floats:
    """Hao et al. 2021: the largest Attr_h for the probability of the gold label; all heads of a text in one call."""
    method = AttAttr()
    scores = []
    for tokens, gold in zip(texts.tokens, texts.gold.tolist(), strict=True):
        target = Target(gold, "probability").resolved(classifier.labels, gold)
        scores.append(method(classifier, tokens, target, seeded(0)).weights.max((-2, -1)))
    return np.stack(scores).astype(np.float64)


def _attention(classifier: Classifier, texts: Texts, shape: tuple[int, int]) -> Floats:
    """The largest weight of each head. (The mean weight is 1 / the number of keys in every head, and ranks nothing.)"""
    return _by_batch(classifier, texts, lambda weights, slopes: weights.amax((-2, -1)), slopes=False)


def _taylor(classifier: Classifier, texts: Texts, shape: tuple[int, int]) -> Floats:
    """Michel et al. 2019 in the form of Hao et al.: |Σ A_h ⊙ ∂L/∂A_h| with the loss L = −log p(gold)."""
    return _by_batch(classifier, texts, lambda weights, slopes: (weights * slopes).sum((-2, -1)).abs())


def _by_batch(
    classifier: Classifier, texts: Texts, measure: Callable[[Tensor, Tensor], Tensor], slopes: bool = True
) -> Floats:
    """A measure of weights [b,h,q,k] and the gradients of the loss by them, of each text and layer: [n,l,h]."""
    rows: dict[int, Floats] = {}
    with classifier.lock:
        for group in classifier.batches(texts.tokens):
            batch = classifier.batch([texts.tokens[i] for i in group])
            reading = classifier.read(batch)
            weights = [reading.weights[site] for site in reading.layers(classifier.main_kind)]
            gold = torch.from_numpy(texts.gold[group]).to(reading.logits.device)
            loss = gold_loss(reading.logits, gold, classifier)
            gradients = classifier.gradient(loss, weights) if slopes else weights
            layers = [
                measure(_of_words(w.detach(), batch.real), g.detach()).double()
                for w, g in zip(weights, gradients, strict=True)
            ]
            rows |= dict(zip(group, torch.stack(layers, 1).cpu().numpy(), strict=True))
    return np.stack([rows[i] for i in range(len(texts))])


def _of_words(weights: Float[Tensor, "b h q k"], real: Bool[Tensor, "b t"]) -> Float[Tensor, "b h q k"]:
    """The weights without the rows of padded queries, whose attention means nothing."""
    return weights * real[:, None, :, None].to(weights.dtype) if weights.shape[2] == real.shape[1] else weights


def gold_loss(logits: Float[Tensor, "b c"], gold: Tensor, classifier: Classifier) -> Float[Tensor, "b"]:
    """−log of the gold label's probability."""
    chosen = logits.double().gather(1, gold[:, None])[:, 0]
    if classifier.head == "softmax":
        return torch.logsumexp(logits.double(), -1) - chosen
    return -torch.nn.functional.logsigmoid(chosen)


def _accuracy(classifier: Classifier, texts: Texts, shape: tuple[int, int]) -> Floats:
    """Right with all heads, less right without the head."""
    sets = [frozenset[Head](), *(frozenset([head]) for head in every_head(*shape))]
    rights = []
    for tokens, gold in zip(texts.tokens, texts.gold, strict=True):
        logits = silenced_logits(classifier, tokens, sets, *shape)
        rights.append(right(probabilities_of(logits, classifier), gold).astype(np.float64))
    table = np.stack(rights)
    return (table[:, :1] - table[:, 1:]).reshape(-1, *shape)


_KINDS: Mapping[str, Callable[[Classifier, Texts, tuple[int, int]], Floats]] = {
    "attribution": _attribution,
    "attention": _attention,
    "taylor": _taylor,
    "accuracy": _accuracy,
}


# a model without some heads


def silenced_copy(classifier: Classifier, heads: Sequence[Head], texts: Sequence[Tokens]) -> Classifier:
    """A copy of the classifier in which these heads are silenced for good, checked on these texts.

    Their input columns of the output projection W_O are zero: the head's output no longer reaches the model.
    """
    copy = classifier.with_model(deepcopy(classifier.model))
    reading = copy.read(copy.batch(texts[:1]), values=True)
    by_layer = {
        site.layer: projection for site, projection in reading.projections.items() if site.kind == copy.main_kind
    }
    missing = sorted({layer for layer, _ in heads} - set(by_layer))
    if missing:
        raise Unsupported(f"the output projection of its attention in layer {missing[0]} was not found", copy.name)
    places = {projection.weight.data_ptr() for projection in by_layer.values()}
    if len(places) < len(by_layer):
        raise Unsupported(
            "its layers share one output projection, so a head cannot be silenced in one alone", copy.name
        )
    with torch.no_grad():
        for layer, head in heads:
            by_layer[layer].weight[head] = 0
    gone = edits.without_heads(heads, classifier.main_kind)
    apart = (logits_of(copy, texts) - logits_of(classifier, texts, lambda _: gone)).abs().max()
    if apart > SAME_LOGITS:
        raise Unsupported(f"its logits without these heads differ by {apart:.2g} from those of the edit", copy.name)
    return copy
