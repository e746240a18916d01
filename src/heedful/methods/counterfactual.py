"""Counterfactuals: the words whose removal keeps the label, and the fewest whose removal changes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, islice
from math import comb
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from heedful.core.arrays import Bools, Floats
from heedful.core.errors import BadInput, Unsupported
from heedful.core.explanation import Counterfactual
from heedful.core.settings import Ge
from heedful.core.target import Target, activation
from heedful.core.tokens import Tokens
from heedful.methods.base import Passes
from heedful.methods.perturbation import Perturbing
from heedful.model.classifier import Classifier
from heedful.model.inference import Engine
from heedful.model.masking import FeatureUnit, features


@dataclass
class _Search:
    """Sets of words removed from a text with the predicted label `label`; `wanted` is another label or None."""

    method: Perturbing
    classifier: Classifier
    tokens: Tokens
    engine: Engine
    label: int = -1
    wanted: int | None = None

    @property
    def features(self) -> list[list[int]]:
        """The positions of each word."""
        return features(self.tokens, self.method.by)

    def logits(self, gone: Bools) -> Tensor:
        """Logits [n,c] without the words of each row."""
        assert self.engine.rng is not None
        return self.engine.ask([self.method.variants(self.tokens, ~gone, self.engine.rng)]).logits

    def margin(self, logits: Tensor) -> Floats:
        """The margin of the label: below zero, it has changed (to the wanted one, if there is one)."""
        label = self.label if self.wanted is None else self.wanted
        others = logits.clone()
        others[:, label] = -torch.inf
        lead = (logits[:, label] - others.amax(1)).numpy()
        return lead if self.wanted is None else -lead

    def result(self, gone: Bools, found: bool, exact: bool, notes: tuple[str, ...] = ()) -> Counterfactual:
        """The result of the search, as an explanation."""
        unit = FeatureUnit.of(self.tokens, self.method.by)
        removed = tuple(i for feature, away in zip(self.features, gone, strict=True) if away for i in feature)
        return Counterfactual(
            tokens=self.tokens,
            removed=removed,
            outcome=self.classifier.prediction(self.logits(gone[None])[0]),
            masking=self.method.masking,
            found=found,
            exact=exact,
            notes=(*notes, *dict.fromkeys(self.engine.notes), *unit.notes),
            details={"tried": len(self.engine.known), **unit.details(self.features)},
        )


def _search(
    method: Perturbing, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator
) -> _Search:
    if classifier.head == "regression" or len(classifier.labels) < 2:
        raise Unsupported(f"{classifier.name} is a regression model: a counterfactual needs a label that can change.")
    if method.draws_words:
        raise BadInput(f"masking '{method.masking}' draws different words each time; choose another masking.")
    search = _Search(method, classifier, tokens, Engine(classifier, method.precision, rng))
    search.label = int(search.logits(np.zeros((1, len(search.features)), bool))[0].argmax())
    wanted = target.label if target.label != search.label else target.against
    search.wanted = wanted if isinstance(wanted, int) else None
    return search


@dataclass(frozen=True)
class InputReduction(Perturbing):
    """Words removed one by one, each time the one whose removal leaves the label most probable, while the label stays.

    The last word always stays. The remaining words often make no sense to people. `beam` is the number of sets in the
    beam search.
    """

    beam: Annotated[int, Ge(1)] = 1

    summary: ClassVar[str] = "as many words as can be removed while the label stays"
    paper: ClassVar[str] = "Feng et al. 2018"
    scores_tokens: ClassVar[bool] = False

    def __call__(self, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator) -> Counterfactual:
        """The last reduction that kept the label."""
        search = _search(self, classifier, tokens, target, rng)
        d = len(search.features)
        if search.wanted is not None:
            predicted = f"{classifier.name} predicts '{classifier.labels[search.label]}' for this text"
            raise Unsupported(f"{predicted}, and input-reduction keeps the predicted label; leave the target out.")
        ways = np.zeros((1, d), bool)
        while (~ways[0]).sum() > 1:
            more = np.unique(np.concatenate([_one_more(way) for way in ways]), axis=0)
            logits = search.logits(more)
            keeps = np.flatnonzero(search.margin(logits) > 0)
            if len(keeps) == 0:
                break
            sure = activation(logits, classifier.head)[keeps, search.label].numpy()
            ways = more[keeps[np.argsort(-sure, kind="stable")[: self.beam]]]
        return search.result(ways[0], found=bool(ways[0].any()), exact=int((~ways[0]).sum()) == 1)

    def passes(self, classifier: Classifier, tokens: Tokens) -> Passes:
        """At most: every word tried after every removal."""
        d = len(features(tokens, self.by))
        return self.at_most(1 + self.beam * d * (d + 1) // 2)


@dataclass(frozen=True)
class MinimalFlip(Perturbing):
    """The smallest set of words without which the label changes; to the target's label, if that is another one.

    All sets of one word, of two, … are tried within `tries` passes: a set found this way is proven smallest. Then words
    are added one by one, each time the one that lowers the label's margin most, and words that are not needed are put
    back.
    """

    tries: Annotated[int, Ge(1)] = 2000

    summary: ClassVar[str] = "the fewest words whose removal changes the label"
    paper: ClassVar[str] = "Martens & Provost 2014; Jacovi et al. 2021"
    probe: ClassVar[Mapping[str, Any]] = {"tries": 40}
    scores_tokens: ClassVar[bool] = False

    def __call__(self, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator) -> Counterfactual:
        """The set, or all words if none was found."""
        search = _search(self, classifier, tokens, target, rng)
        d = len(search.features)
        budget = self.tries
        for size in range(1, d + 1):
            budget -= comb(d, size)
            if budget < 0:
                break
            best = self._best(search, d, size)
            if best is not None:
                return search.result(best, found=True, exact=True)
        else:
            note = "no set of words changes the label"
            return search.result(np.ones(d, bool), found=False, exact=True, notes=(note,))
        return self._greedy(search, d, size)

    def _best(self, search: _Search, d: int, size: int) -> Bools | None:
        """Of all sets of this size that change the label, the one that changes it most."""
        lowest, best = 0.0, None
        sets = combinations(range(d), size)
        while chunk := list(islice(sets, 4096)):
            gone = np.zeros((len(chunk), d), bool)
            gone[np.arange(len(chunk))[:, None], np.array(chunk)] = True
            margins = search.margin(search.logits(gone))
            if margins.min() < lowest:
                lowest, best = float(margins.min()), gone[margins.argmin()]
        return best

    def _greedy(self, search: _Search, d: int, size: int) -> Counterfactual:
        gone = np.zeros(d, bool)
        margin = np.inf
        while margin >= 0 and not gone.all():
            more = _one_more(gone)
            margins = search.margin(search.logits(more))
            gone, margin = more[margins.argmin()], float(margins.min())
        if margin >= 0:
            note = "no set of words was found that changes the label"
            return search.result(gone, found=False, exact=False, notes=(note,))
        while gone.sum() > size:
            fewer = gone & (np.arange(d) != np.flatnonzero(gone)[:, None])  # all sets with one word less
            margins = search.margin(search.logits(fewer))
            if margins.min() >= 0:
                break
            gone = fewer[margins.argmin()]
        proven = f", and no set of fewer than {size} words changes the label" if size > 1 else ""
        note = f"a greedy search found this set{proven}"
        return search.result(gone, found=True, exact=int(gone.sum()) == size, notes=(note,))

    def passes(self, classifier: Classifier, tokens: Tokens) -> Passes:
        """At most: all small sets, then every word at every step, adding and putting back."""
        d = len(features(tokens, self.by))
        return self.at_most(1 + min(self.tries, 2**d) + d * (d + 1))


def _one_more(gone: Bools) -> Bools:
    """All sets with one word more."""
    more: Bools = gone | (np.arange(len(gone)) == np.flatnonzero(~gone)[:, None])
    return more
