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
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from heedful.checks.adversarial_rows import AFFINE_TOLERANCE, logit_slopes
from heedful.checks.base import (
    Case,
    CheckUnit,
    Correlation,
    Divergence,
    Finding,
    Measure,
    Passes,
    Share,
    by_unit,
    ranking,
)
from heedful.checks.input_erasure import first
from heedful.checks.tables import ErasureTables, Fewer, Flips, NegativeShare, Stops
from heedful.core.arrays import Bools, Floats, Ints
from heedful.core.errors import Unsupported
from heedful.core.finding import Findings, Highlight, SideBySide
from heedful.core.settings import Checked, Ge
from heedful.core.target import activation, largest_logit
from heedful.core.tokens import Tokens
from heedful.maths import stats
from heedful.maths.adversary import Problem
from heedful.maths.distances import Changes, attention_divergence, changes
from heedful.maths.ranks import jensen_shannon
from heedful.methods import Method
from heedful.methods.attention import LayerChoice, kind_of, read_shares, sites_of, two_levels
from heedful.methods.base import array
from heedful.model.batch import Batch, copies_per_batch
from heedful.model.classifier import Classifier, Reading
from heedful.model.edits import Site, at, without_positions
from heedful.model.masking import features

RANKINGS = ("attention", "attention-ascending", "attention-slope", "attention-x-slope")
BY_WEIGHT = RANKINGS[:2]  # whose first item is compared with their second too: highest first, and lowest first
MAX_AFFINE_LABELS = 20  # each takes a backward pass
MAX_AFFINE_SETS = 1024  # computed at a time
FIRST_PREFIXES = 8  # tried at first in each order; twice as many each time that the label does not flip
WHISKER = 1.5  # interquartile ranges from the box to the end of a whisker, at most
ZERO_DIVERGENCE = 1e-12  # a ΔJS closer to zero than this counts as zero
DIFFERENCE_EDGES = (-1.0, 0.0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)  # of α_top − α_other, for the table of negative ΔJS


@dataclass(frozen=True)
class Items:
    """The items to erase: the positions of each among the keys, its tokens, its sums of α, ∂p/∂α and α ∂p/∂α.

    `tangent` has the logits to first order in the weights of a single query [h,k]; None where there are more queries.
    """

    places: list[list[int]]
    groups: list[list[int]]
    weights: Floats
    slopes: Floats
    products: Floats
    tangent: Problem | None = None

    def __len__(self) -> int:
        return len(self.places)


@dataclass
class Erased:
    """The model's output with sets of items erased. Every set runs once, however often it is requested.

    Where the logits are affine in the weights, `affine` has them, and no set runs through the model.
    """

    classifier: Classifier
    batch: Batch
    sites: Sequence[Site]
    places: Sequence[Sequence[int]]
    known: dict[bytes, Tensor] = field(default_factory=dict)
    affine: Problem | None = None

    def of(self, gone: Bools) -> Tensor:
        """Logits [m,c] without the items of each row."""
        keys = [row.tobytes() for row in gone]
        new = list({key: i for i, key in enumerate(keys) if key not in self.known}.values())
        fit = copies_per_batch(self.batch.ids.shape[1]) if self.affine is None else MAX_AFFINE_SETS
        answers = self._run if self.affine is None else self._computed
        for batch in (new[i : i + fit] for i in range(0, len(new), fit)):
            self.known |= zip((keys[i] for i in batch), answers(gone[batch]), strict=True)
        return torch.stack([self.known[key] for key in keys])

    def changes(self, gone: Bools) -> Changes:
        """The change of each of these outputs from that with nothing erased."""
        nothing = np.zeros((1, len(self.places)), bool)
        return changes(self.of(gone), self.of(nothing)[0], self.classifier.head)

    def faster(self, tangent: Problem | None, rng: torch.Generator) -> Erased:
        """The same without passes, where the tangent equals the model: with all, and with two halves, erased."""
        if tangent is None:
            return self
        half = torch.rand(len(self.places), generator=rng).numpy() < 0.5
        probes = np.stack([np.ones_like(half), half, ~half])
        real, computed = self.of(probes), replace(self, affine=tangent)
        tolerance = AFFINE_TOLERANCE * max(1.0, largest_logit(real))
        return computed if float((computed._computed(probes) - real).abs().max()) <= tolerance else self

    def _table(self, gone: Bools) -> Tensor:
        """Which of the keys [m,k] are erased."""
        # subtle: a network may have keys without a token, padding that it adds itself
        table = torch.zeros(len(gone), self.sites[0].allowed.shape[-1], dtype=torch.bool)
        for place, erased in zip(self.places, torch.from_numpy(gone).T, strict=True):
            table[:, list(place)] = erased[:, None]
        return table

    def _run(self, gone: Bools) -> Tensor:
        layers, kind = [site.layer for site in self.sites], self.sites[0].kind
        table = self._table(np.concatenate([np.zeros_like(gone[:1]), gone]))  # row 0 is the unchanged text
        with torch.no_grad(), self.classifier.attention(at(without_positions(table), layers, kind)):
            return self.classifier.logits(self.batch, branch=[(min(layers), len(gone))])[1:].cpu().double()

    def _computed(self, gone: Bools) -> Tensor:
        assert self.affine is not None
        attention = torch.from_numpy(self.affine.attention)[:, None].expand(len(gone), -1, 1, -1)
        erased = without_positions(self._table(gone))(self.sites[0], attention)[:, :, 0]
        return torch.from_numpy(self.affine.answers(erased.numpy()))


@dataclass(frozen=True)
class Erasure(Checked):
    """Does the label depend on the items with the highest attention?

    `layer` is a number (negative counts from the last) or "all". In a network with two levels of attention, `level` is
    the one to erase; in others, `unit` is what an item is. With `special`, special tokens are items too. The top item
    is compared with `draws` random other items: ΔJS and the difference of weights are means over them, the flip is that
    of the first; the paper has draws=1. `random` is `orders` random orders: the share of them that never flip, and the
    means over the others. The item with the highest attention is also compared with the second highest, and the lowest
    with the second lowest.
    """

    layer: LayerChoice = -1
    level: Literal["sentence", "word"] = "sentence"
    unit: CheckUnit = "word"
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
        "delta js second": Measure("JS divergence without the top item minus that without the second", compared=False),
        "alpha second": Correlation("attention of the top item minus that of the second", compared=False),
        "js from uniform": Divergence("JS divergence of attention over the items from uniform", compared=False),
        "kl from uniform": Measure("KL(attention ‖ uniform) over the items", compared=False),
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
            return [_finding(n, m, np.nan) for n in names for m in _measures_of(n)]
        every_set = Erased(case.classifier, case.classifier.batch([case.tokens]), sites, items.places)
        erased = every_set.faster(items.tangent, case.rng(self.name, "probes"))
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
        findings += [f for name in BY_WEIGHT for f in _second(erased, items, name, orders[name])]
        findings += _from_uniform(items)
        for name, group in every.items():
            findings += _stopped(name, group, [next(stops) for _ in group], items.weights)
        return findings

    def passes(self, classifier: Classifier, tokens: Tokens, methods: Mapping[str, Method]) -> Passes:
        """At most: every prefix of every order, the random other items, and the second item of two orders."""
        n = len(features(tokens, self.unit)) + (len(tokens) - len(tokens.content) if self.special else 0)
        rankings = len(RANKINGS) + len([name for name in methods if name != "random"])
        sets = 1 + (rankings + self.orders) * n + rankings * self.draws + len(BY_WEIGHT)
        runs = n.bit_length() + 2 + -(-sets // copies_per_batch(len(tokens)))  # each with the unchanged text
        # the papers' networks have a single query, and the slopes of every logit
        labels = len(classifier.labels) if hasattr(classifier.model, "attention_sites") else 0
        return Passes(1 + sets + runs, 1 + labels * (labels <= MAX_AFFINE_LABELS), exactly=False)

    def _items(self, case: Case) -> tuple[list[Site], Items]:
        """The sites and the items, from one forward and one backward pass."""
        classifier, tokens = case.classifier, case.tokens
        by_sentence = self.level == "sentence" and two_levels(classifier)
        kind = "sentence" if by_sentence else kind_of(classifier, None)
        reading, shares = read_shares(classifier, [tokens])
        text, sites = shares[0], sites_of(reading.layers(kind), self.layer)
        tangent = _tangent(classifier, reading, sites[0]) if len(sites) == 1 else None
        # subtle: in float32 the probability of a confident model has gradient 0
        p = activation(reading.logits.cpu().double(), classifier.head)[:, case.prediction.index]
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
        alpha, slope_sums, products = (by_unit(array(x), places) for x in (weights, slope, product))
        return sites, Items(places, groups, alpha, slope_sums, products, tangent)

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


def _tangent(classifier: Classifier, reading: Reading, site: Site) -> Problem | None:
    """The logits to first order in the weights of a single query; None where there are more, or too many labels."""
    weights, logits = reading.weights[site], reading.logits[0]
    if site.allowed.shape[2] > 1 or len(logits) > MAX_AFFINE_LABELS:
        return None
    effects = logit_slopes(classifier, logits, weights)[0, :, 0]
    return Problem(array(weights[0, :, 0]), array(effects), array(logits), classifier.head)


SINGLE = ("delta js", "alpha difference", "flip top", "flip random")
STOPS = ("fraction", "mass", "never")
SECOND = ("delta js second", "alpha second")
FROM_UNIFORM = ("js from uniform", "kl from uniform")


def _measures_of(name: str) -> tuple[str, ...]:
    """The measures of an order."""
    single, second = SINGLE if name != "random" else (), SECOND if name in BY_WEIGHT else ()
    return (*single, *STOPS, *second, *(FROM_UNIFORM if name == RANKINGS[0] else ()))


def _finding(method: str, measure: str, value: float, details: Mapping[str, Any] | None = None) -> Finding:
    return Finding(Erasure.name, method, measure, float(value), {}, details or {})


def _second(erased: Erased, items: Items, name: str, order: Ints) -> list[Finding]:
    """The top item compared with the second of the same order."""
    top, second = order[:2].tolist()
    moved = erased.changes(np.eye(len(items), dtype=bool)[[top, second]])
    return [
        _finding(name, "delta js second", moved.jsd[0] - moved.jsd[1], {"second": items.places[second]}),
        _finding(name, "alpha second", items.weights[top] - items.weights[second]),
    ]


def _from_uniform(items: Items) -> list[Finding]:
    js, kl = from_uniform(items.weights, np.array([len(place) for place in items.places]))
    return [_finding(RANKINGS[0], "js from uniform", js), _finding(RANKINGS[0], "kl from uniform", kl)]


def from_uniform(weights: Floats, sizes: Ints) -> tuple[float, float]:
    """JS divergence and KL(α ‖ u) of attention over items, rescaled to a sum of one, from uniform attention.

    Uniform attention is equal over positions, so an item of two positions has twice the weight: [.5, .25, .25] of
    items of 2, 1 and 1 positions -> (0, 0). NaN where all weights are zero.
    """
    total = weights.sum()
    if not total > 0:
        return np.nan, np.nan
    p, q = weights / total, sizes / sizes.sum()
    rows = [torch.from_numpy(x)[None, None] for x in (p, q)]
    kl = float(attention_divergence(rows[0], rows[1], torch.ones_like(rows[0], dtype=torch.bool))[0])
    return float(jensen_shannon(p, q)), max(0.0, kl)


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
    if not len(flipped):
        return Stops(0, never, share)
    lower, median, upper = np.quantile(flipped, (0.25, 0.5, 0.75)).tolist()
    low, high = whiskers(flipped)
    outliers = int(((flipped < low) | (flipped > high)).sum())
    return Stops(len(flipped), never, share, low, lower, median, upper, high, outliers)


def whiskers(x: Floats) -> tuple[float, float]:
    """Tukey 1977: the least and the largest value within 1.5 interquartile ranges of the quartiles, or these."""
    lower, upper = np.quantile(x, (0.25, 0.75)).tolist()
    reach = WHISKER * (upper - lower)
    within = x[(x >= lower - reach) & (x <= upper + reach)]
    return min(float(within.min()), lower), max(float(within.max()), upper)


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
