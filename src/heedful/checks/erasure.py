"""Erasure: attention weights are set to zero, the others renormalised; does the label change? (Serrano & Smith 2019)

An item is a word of the text (all its pieces), or a sentence where the network attends to sentences last. Erasing items
zeroes their weights in every head and row of the chosen layer and rescales the rest of each row to its former sum;
layers below are not changed. Where all weights are zero, the context vector is zero and the bias decides.

attention             α: the attention of the pooled position, mean over heads; highest first
attention-ascending   the same, lowest first
attention-slope       ∂p/∂α of the predicted label's probability, with its sign, over all heads and rows
attention-x-slope     Σ α ∂p/∂α: what erasing costs, to first order
random                the mean of `orders` random orders
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from heedful.checks.base import Case, Correlation, Finding, Measure, Passes, Share, WordOrToken, by_unit, ranking
from heedful.checks.input_erasure import first
from heedful.checks.tables import ErasureTables, Fewer, Flips, NegativeShare, Stops
from heedful.core.arrays import Bools, Floats, Ints
from heedful.core.errors import Unsupported
from heedful.core.finding import Findings, Highlight, SideBySide
from heedful.core.settings import Checked, Ge
from heedful.core.target import activation
from heedful.core.tokens import Tokens
from heedful.maths import stats
from heedful.maths.distances import Changes, changes
from heedful.methods import Method
from heedful.methods.attention import LayerChoice, kind_of, read_shares, sites_of, two_levels
from heedful.methods.base import array
from heedful.model.batch import Batch, copies_per_batch
from heedful.model.classifier import Classifier
from heedful.model.edits import Site, at, without_positions
from heedful.model.masking import features

RANKINGS = ("attention", "attention-ascending", "attention-slope", "attention-x-slope")
FIRST_PREFIXES = 8  # tried at first in each order; twice as many each time that the label does not flip
ZERO_DIVERGENCE = 1e-12  # a ΔJS closer to zero than this counts as zero
DIFFERENCE_EDGES = (-1.0, 0.0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)  # of α_top − α_other, for the table of negative ΔJS


@dataclass(frozen=True)
class Items:
    """The items to erase: the positions of each among the keys, its tokens, its sums of α, ∂p/∂α and α ∂p/∂α."""

    places: list[list[int]]
    groups: list[list[int]]
    weights: Floats
    slopes: Floats
    products: Floats

    def __len__(self) -> int:
        return len(self.places)


@dataclass
class Erased:
    """The model's output with sets of items erased. Every set runs once, however often it is requested."""

    classifier: Classifier
    batch: Batch
    sites: Sequence[Site]
    places: Sequence[Sequence[int]]
    known: dict[bytes, Tensor] = field(default_factory=dict)

    def of(self, gone: Bools) -> Tensor:
        """Logits [m,c] without the items of each row."""
        keys = [row.tobytes() for row in gone]
        new = list({key: i for i, key in enumerate(keys) if key not in self.known}.values())
        fit = copies_per_batch(self.batch.ids.shape[1])
        for batch in (new[i : i + fit] for i in range(0, len(new), fit)):
            self.known |= zip((keys[i] for i in batch), self._run(gone[batch]), strict=True)
        return torch.stack([self.known[key] for key in keys])

    def changes(self, gone: Bools) -> Changes:
        """The change of each of these outputs from that with nothing erased."""
        nothing = np.zeros((1, len(self.places)), bool)
        return changes(self.of(gone), self.of(nothing)[0], self.classifier.head)

    def _run(self, gone: Bools) -> Tensor:
        layers, kind = [site.layer for site in self.sites], self.sites[0].kind
        # subtle: a network may have keys without a token, padding that it adds itself
        table = torch.zeros(1 + len(gone), self.sites[0].allowed.shape[-1], dtype=torch.bool)
        for place, erased in zip(self.places, torch.from_numpy(gone).T, strict=True):
            table[1:, list(place)] = erased[:, None]  # row 0 is the unchanged text
        with torch.no_grad(), self.classifier.attention(at(without_positions(table), layers, kind)):
            return self.classifier.logits(self.batch, branch=[(min(layers), len(gone))])[1:].double().cpu()


@dataclass(frozen=True)
class Erasure(Checked):
    """Does the label depend on the items with the highest attention?

    `layer` is a number (negative counts from the last) or "all". In a network with two levels of attention, `level` is
    the one to erase; in others, `unit` is what an item is. With `special`, special tokens are items too. The top item
    is compared with `draws` random other items: ΔJS and the difference of weights are means over them, the flip is that
    of the first; the paper has draws=1. `random` is `orders` random orders: the share of them that never flip, and the
    means over the others.
    """

    layer: LayerChoice = -1
    level: Literal["sentence", "word"] = "sentence"
    unit: WordOrToken = "word"
    special: bool = False
    draws: Annotated[int, Ge(1)] = 5
    orders: Annotated[int, Ge(1)] = 20

    name: ClassVar[str] = "erasure"
    title: ClassVar[str] = "Attention erasure"
    question: ClassVar[str] = "Does the label depend on the words with the highest attention?"
    reading: ClassVar[str] = (
        "The fraction is a mean over the texts whose label changes. Read it together with the share of texts whose "
        "label never changes, since an order that flips only easy texts has a low fraction. In a Transformer, residual "
        "connections bypass the last layer's attention, so labels change rarely. Gradients have an advantage: erasing "
        "few items is nearly a first-order change."
    )
    probe: ClassVar[Mapping[str, Any]] = {"draws": 1, "orders": 1}
    summary: ClassVar[str] = "attention weights set to zero one by one until the label changes"
    paper: ClassVar[str] = "Serrano & Smith 2019"
    changes: ClassVar[str] = (
        "attention to some items is set to zero at one layer, and the other weights are renormalised"
    )
    measures: ClassVar[Mapping[str, Measure]] = {
        "delta js": Measure("JS divergence without the top item minus that without a random other", better="higher"),
        "alpha difference": Correlation("attention of the top item minus that of the random other"),
        "flip top": Share("the label changes without the top item", "rate", "higher"),
        "flip random": Share("the label changes without a random other item", "rate"),
        "fraction": Share("fraction of items erased when the label first changes", better="lower"),
        "mass": Share("attention erased when the label first changes"),
        "never": Share("the label never changes, up to all items", "rate", "lower"),
    }
    highlights: ClassVar[tuple[Highlight, ...]] = (
        Highlight("delta js", "erasing the top attention weight instead of another (ΔJS)", method="attention"),
    )
    compared: ClassVar[tuple[SideBySide, ...]] = (
        SideBySide(
            "delta js",
            "JSD by erasing the top weight less that by erasing another",
            words="ΔJS, top weight",
            method="attention",
        ),
        SideBySide(
            "fraction",
            "share of items erased, the highest weight first, when the label changes",
            words="share until a change",
            method="attention",
        ),
        SideBySide("never", "texts whose label never changes", words="never changes", method="attention"),
    )

    def __call__(self, case: Case) -> list[Finding]:
        """For each ranking: the effect of its top item, and how many items change the label."""
        if case.classifier.head == "regression":
            raise Unsupported(f"{case.classifier.name} is a regression model: erasure needs labels that can change.")
        sites, items = self._items(case)
        if len(items) < 2:  # the paper's exclusion: there is no other item, and no order
            names = [*RANKINGS, *(name for name in case.attributions if name != "random"), "random"]
            return [_finding(n, m, np.nan) for n in names for m in self.measures if n != "random" or m in STOPS]
        erased = Erased(case.classifier, case.classifier.batch([case.tokens]), sites, items.places)
        scores = dict(zip(RANKINGS, (items.weights, -items.weights, items.slopes, items.products), strict=True))
        for name, why in case.attributions.items():
            if name != "random":
                scores[name] = by_unit(why.scores if why.signed else np.abs(why.scores), items.groups)
        orders = {name: ranking(row, case.rng(self.name, name)) for name, row in scores.items()}
        rng = case.rng(self.name, "random")
        random = [torch.randperm(len(items), generator=rng).numpy() for _ in range(self.orders)]
        every = {name: [order] for name, order in orders.items()} | {"random": random}
        stops = iter(first_flips(erased, [order for group in every.values() for order in group]))
        findings = [f for name, order in orders.items() for f in self._single(case, erased, items, name, order)]
        for name, group in every.items():
            findings += _stopped(name, group, [next(stops) for _ in group], items.weights)
        return findings

    def passes(self, classifier: Classifier, tokens: Tokens, methods: Mapping[str, Method]) -> Passes:
        """At most: every prefix of every order, and the random other items."""
        n = len(features(tokens, self.unit)) + (len(tokens) - len(tokens.content) if self.special else 0)
        rankings = len(RANKINGS) + len([name for name in methods if name != "random"])
        sets = 1 + (rankings + self.orders) * n + rankings * self.draws
        runs = n.bit_length() + 2 + -(-sets // copies_per_batch(len(tokens)))  # each with the unchanged text
        return Passes(1 + sets + runs, 1, exactly=False)

    def _items(self, case: Case) -> tuple[list[Site], Items]:
        """The sites and the items, from one forward and one backward pass."""
        classifier, tokens = case.classifier, case.tokens
        by_sentence = self.level == "sentence" and two_levels(classifier)
        kind = "sentence" if by_sentence else kind_of(classifier, None)
        reading, shares = read_shares(classifier, [tokens])
        text, sites = shares[0], sites_of(reading.layers(kind), self.layer)
        # subtle: in float32 the probability of a confident model has gradient 0
        p = activation(reading.logits.double(), classifier.head)[:, case.prediction.index]
        slopes = dict(zip(sites, classifier.gradient(p, [reading.weights[site] for site in sites]), strict=True))
        keys = torch.stack([text.allowed(site).any(0) for site in sites]).any(0).cpu().numpy()
        places = [[int(i)] for i in np.flatnonzero(keys)] if by_sentence else self._places(tokens, keys)
        groups = places
        if by_sentence:  # the tokens of a sentence are those that its row of word attention may read
            readable = text.allowed(reading.layers("self")[0])
            groups = [[int(i) for i in readable[place[0]].nonzero()[:, 0]] for place in places]
        if not self.special:
            content = [not all(tokens.special[j] for j in group) for group in groups]
            places, groups = ([x for x, use in zip(xs, content, strict=True) if use] for xs in (places, groups))
        each = [(text.weights(s), text.weights(s, slopes), text.queries(s)) for s in sites]
        weights = torch.stack([shared @ a.mean(0) for a, _, shared in each]).mean(0)
        slope = torch.stack([d.sum((0, 1)) for _, d, _ in each]).sum(0)
        product = torch.stack([(a * d).sum((0, 1)) for a, d, _ in each]).sum(0)
        return sites, Items(places, groups, *(by_unit(array(x), places) for x in (weights, slope, product)))

    def _places(self, tokens: Tokens, keys: Bools) -> list[list[int]]:
        """Words (or tokens) that may be attended to, and single special tokens, in reading order."""
        special = [[i] for i in range(len(tokens)) if tokens.special[i]]
        readable = ([i for i in group if keys[i]] for group in (*features(tokens, self.unit), *special))
        return sorted(place for place in readable if place)

    def _single(self, case: Case, erased: Erased, items: Items, name: str, order: Ints) -> Iterator[Finding]:
        """The top item compared with random others, which are the same for every ranking with that top."""
        top = int(order[0])
        any_order = torch.randperm(len(items), generator=case.rng(self.name, "others")).numpy()
        others = any_order[any_order != top][: self.draws]
        moved = erased.changes(np.eye(len(items), dtype=bool)[[top, *others]])
        places = {"top": items.places[top], "other": [items.places[i] for i in others]}
        yield _finding(name, "delta js", moved.jsd[0] - moved.jsd[1:].mean(), places)
        yield _finding(name, "alpha difference", items.weights[top] - items.weights[others].mean())
        yield _finding(name, "flip top", moved.flip[0], places)
        yield _finding(name, "flip random", moved.flip[1], places)

    def tables(self, findings: Findings) -> ErasureTables:
        """Flips two by two, who needs fewer items, the spread of fractions, and how often ΔJS is negative."""
        names, single, values = findings.methods("fraction"), findings.methods("delta js"), findings.values
        stops = {name: stop_values(values("fraction", name), values("never", name)) for name in names}
        return ErasureTables(
            flips={n: flips(values("flip top", n), values("flip random", n)) for n in single},
            fewer=tuple(fewer(a, b, stops[a], stops[b]) for a, b in combinations(names, 2)),
            fractions={name: box_numbers(stops[name]) for name in names},
            negative={n: negative(values("delta js", n), values("alpha difference", n)) for n in single},
        )


STOPS = ("fraction", "mass", "never")


def _finding(method: str, measure: str, value: float, details: Mapping[str, Any] | None = None) -> Finding:
    return Finding(Erasure.name, method, measure, float(value), {}, details or {})


def first_flips(erased: Erased, orders: Sequence[Ints]) -> list[int | None]:
    """How many items of each order are erased when the label first changes; None where it never does.

    Flips are not monotone, so every prefix up to the first flip is tried; longer ones are not.
    """
    stops: list[int | None] = [None] * len(orders)
    n, start, step = len(erased.places), 0, FIRST_PREFIXES
    unflipped = list(range(len(orders)))
    while unflipped and start < n:
        stop = min(n, start + step)
        flip = erased.changes(np.concatenate([first(orders[i], range(start + 1, stop + 1)) for i in unflipped])).flip
        for i, row in zip(unflipped, flip.reshape(len(unflipped), -1) > 0, strict=True):
            stops[i] = start + 1 + int(row.argmax()) if row.any() else None
        unflipped = [i for i in unflipped if stops[i] is None]
        start, step = stop, 2 * step
    return stops


def _stopped(name: str, orders: Sequence[Ints], stops: Sequence[int | None], weights: Floats) -> list[Finding]:
    """For several orders: the share that never flips, and the means over those that do."""
    flipping = [(order, stop) for order, stop in zip(orders, stops, strict=True) if stop is not None]
    fractions = [stop / len(weights) for _, stop in flipping]
    masses = [float(weights[order[:stop]].sum()) for order, stop in flipping]
    details = {"items": len(weights), "erased": [stop for _, stop in flipping]}
    return [
        _finding(name, "fraction", float(np.mean(fractions)) if fractions else np.nan, details),
        _finding(name, "mass", float(np.mean(masses)) if masses else np.nan),
        _finding(name, "never", 1 - len(flipping) / len(stops)),
    ]


def stop_values(fraction: Floats, never: Floats) -> Floats:
    """Fractions with infinity where the label never changes; NaN is then a text that was left out."""
    return np.where(never == 1, np.inf, fraction)


def flips(top: Floats, other: Floats) -> Flips:
    """The paper's table of two by two, in texts."""
    there = ~(np.isnan(top) | np.isnan(other))
    a, b = top[there] > 0, other[there] > 0
    both, only_top, only_random, neither = (int(cell.sum()) for cell in (a & b, a & ~b, ~a & b, ~a & ~b))
    return Flips(int(there.sum()), both, only_top, only_random, neither)


def fewer(name: str, other: str, a: Floats, b: Floats) -> Fewer:
    """On how many texts each of two rankings needs fewer items; one that never flips needs more than one that does."""
    there = ~(np.isnan(a) | np.isnan(b))
    never = there & np.isinf(a) & np.isinf(b)
    first, second = int((there & (a < b)).sum()), int((there & (b < a)).sum())
    equal = int((there & (a == b) & ~never).sum())
    p = float(stats.mcnemar(first, second))
    return Fewer(name, other, int(there.sum()), first, second, equal, int(never.sum()), p)


def box_numbers(stops: Floats) -> Stops:
    """The numbers of a box plot over the texts where the label changes, and the number of the others."""
    there = stops[~np.isnan(stops)]
    flipped = there[np.isfinite(there)]
    never = len(there) - len(flipped)
    share = never / len(there) if len(there) else np.nan
    box = np.quantile(flipped, (0, 0.25, 0.5, 0.75, 1)).tolist() if len(flipped) else ()
    return Stops(len(flipped), never, share, *box)


def negative(delta: Floats, difference: Floats) -> tuple[NegativeShare, ...]:
    """The share of texts on which another item changes the output more than the top one, by difference of attention."""
    there = ~(np.isnan(delta) | np.isnan(difference))
    bins = np.clip(np.digitize(difference.round(9), DIFFERENCE_EDGES) - 1, 0, len(DIFFERENCE_EDGES) - 2)
    rows = []
    for i, (low, high) in enumerate(pairwise(DIFFERENCE_EDGES)):
        inside = delta[there & (bins == i)]
        share = float((inside < -ZERO_DIVERGENCE).mean()) if len(inside) else np.nan
        rows.append(NegativeShare(low, high, len(inside), share))
    return tuple(rows)
