"""Cases, edits and masks that the tests of permutation, uniform and interventions share."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.checks.base import Case
from heedful.checks.interventions import Where
from heedful.checks.permutation import Permutation
from heedful.core.finding import Finding, Place, place
from heedful.data import Example
from heedful.maths.distances import changes
from heedful.model.classifier import Classifier
from heedful.model.edits import Edit, Site
from heedful.nets.single import Single, SingleShape
from heedful.nets.transformer import Transformer, TransformerShape
from tests.support import toys
from tests.support.cases import one
from tests.support.models import TEXTS, loud, tokenizer
from tests.support.toys import POINTER

FEW = Permutation(draws=7, layer_draws=3, head_draws=2)

ALL: Place = {"layer": "all", "head": "all"}

toy = cache(toys.build)

WORDS = toys.texts(1)[0]


def case_of(classifier: Classifier, text: str | Example = TEXTS[0]) -> Case:
    return one(classifier, text, ())


def value(found: list[Finding], measure: str, at: Place | None = None) -> float:
    (number,) = [f.value for f in found if f.measure == measure and f.at == (at or {})]
    return number


def transformer(**more: Any) -> Classifier:
    t = tokenizer("wordpiece")
    sizes: dict[str, Any] = {"layers": 2, "heads": 2, "width": 16, "inner": 24, "max_position_embeddings": 64} | more
    net = Transformer(TransformerShape(len(t), 3, pad_token_id=t.pad_token_id, **sizes))
    return Classifier(loud(net, scale=0.5), t, name="tiny-transformer")


def single(**more: Any) -> Classifier:
    t = tokenizer("wordpiece")
    special = (t.cls_token_id, t.sep_token_id)
    net = Single(SingleShape(len(t), 3, embedding=8, hidden=6, special=special, **more))
    return Classifier(loud(net, scale=0.5), t, name="tiny-single")


def answer(classifier: Classifier, case: Case, edit: Edit | None) -> Tensor:
    with torch.no_grad(), classifier.attention(edit):
        return classifier.logits(classifier.batch([case.tokens]))[0]


def tvd(classifier: Classifier, case: Case, edit: Edit) -> float:
    """The slow way: one text, one edit, one forward pass."""
    plain, new = answer(classifier, case, None), answer(classifier, case, edit)
    return float(changes(new[None], plain, classifier.head).tvd[0])


def site(allowed: Tensor, kind: str = "self") -> Site:
    return Site(kind, 0, allowed[None, None])


def weights_for(allowed: Tensor, heads: int = 2, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    scores = torch.randn(1, heads, *allowed.shape, generator=rng)
    return scores.masked_fill(~allowed, -torch.inf).softmax(-1)


FULL = torch.ones(5, 5, dtype=torch.bool)

CAUSAL = FULL.tril()

LOCAL = CAUSAL & ~FULL.tril(-3)

MASKS = {"full": FULL, "causal": CAUSAL, "local": LOCAL}


def tokens_of(n: int) -> Any:
    """n tokens, the first and the last of them special."""
    found = toy("bert", POINTER).tokens(" ".join(toys.FILLERS[: n - 2]))
    assert len(found) == n
    return found


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def at_head(edit: Edit, where: Where) -> Edit:
    def here(site: Site, weights: Tensor) -> Tensor:
        if not where.has(site):
            return weights
        new = weights.clone()
        heads = slice(None) if where.head is None else slice(where.head, where.head + 1)
        new[:, heads] = edit(site, weights)[:, heads]
        return new

    return here


class Table:
    """What a check's tables are made from, by lists of findings."""

    def __init__(self, texts: list[list[Finding]], labels: tuple[str, ...] = ("no", "yes"), **columns: Any) -> None:
        self.found, self.labels = texts, labels
        self.texts = {name: np.array(column) for name, column in columns.items()}

    def values(self, measure: str, method: str = "", at: Place | None = None) -> Any:
        def number(text: list[Finding]) -> float:
            return next((f.value for f in text if f.measure == measure and f.place == place(at or {})), np.nan)

        return np.array([number(text) for text in self.found])

    def places(self, measure: str, method: str | None = None) -> list[dict[str, Any]]:
        every = dict.fromkeys(f.place for text in self.found for f in text if f.measure == measure)
        return [json.loads(at) if at else {} for at in every]


def finding(measure: str, number: float, at: Place | None = None) -> Finding:
    return Finding("permutation", "", measure, number, at or {})
