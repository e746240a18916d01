"""Tables: what checks compute from their findings on all texts, besides rows. Needs no torch.

A check's `tables(findings)` returns one of them; the run's summary stores it, and `Record.tables` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from heedful.core.arrays import Bools, Floats
from heedful.core.finding import Findings, Place
from heedful.maths.stats import Estimate

PEAK_EDGES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the bins of the largest attention weight, as in Jain & Wallace 2019


@dataclass(frozen=True)
class Peak:
    """Texts with this predicted label whose largest attention weight lies from `start` to `end`."""

    label: str
    start: float
    end: float


def peaks(findings: Findings, largest: Floats) -> Iterator[tuple[Peak, Bools]]:
    """Every predicted label and bin of the largest weight, and which texts are in it; 1 is in the last bin."""
    bins = np.clip(np.digitize(largest, PEAK_EDGES) - 1, 0, len(PEAK_EDGES) - 2)
    for i, label in enumerate(findings.labels):
        for j, (low, high) in enumerate(pairwise(PEAK_EDGES)):
            yield Peak(label, low, high), (findings.texts["predicted"] == i) & (bins == j) & ~np.isnan(largest)


@dataclass(frozen=True)
class PeakSpread(Peak):
    """The median and the quartiles of n numbers."""

    n: int
    median: float = np.nan
    lower: float = np.nan
    upper: float = np.nan


def peak_spreads(findings: Findings, largest: Floats, values: Floats) -> tuple[PeakSpread, ...]:
    """The spread of those values that are finite, for each label and bin."""
    rows = []
    for peak, inside in peaks(findings, largest):
        x = values[inside & np.isfinite(values)]
        lower, median, upper = np.quantile(x, (0.25, 0.5, 0.75)).tolist() if len(x) else (np.nan, np.nan, np.nan)
        rows.append(PeakSpread(peak.label, peak.start, peak.end, len(x), median, lower, upper))
    return tuple(rows)


@dataclass(frozen=True, kw_only=True, repr=False)
class PlacedEstimate(Estimate):
    """An estimate at a place; of an accuracy, how it `change`s text by text."""

    at: Place
    change: Estimate | None = None


@dataclass(frozen=True)
class PermutationTables:
    """Jain & Wallace 2019, figs. 6–7; and accuracy unchanged ({"layer": "none"}) and at each place."""

    by_peak: tuple[PeakSpread, ...]
    accuracy: tuple[PlacedEstimate, ...]


@dataclass(frozen=True)
class UniformTables:
    """Accuracy unchanged ({"layer": "none"}) and with each change; the distance of attention from uniform."""

    accuracy: tuple[PlacedEstimate, ...]
    distance: tuple[PlacedEstimate, ...]


@dataclass(frozen=True)
class PeakHistogram(Peak):
    """Counts of n numbers over bins."""

    n: int
    median: float
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """Counts over bins, of all texts and by group."""

    at: Place
    bins: tuple[float, ...]
    n: int
    median: float
    counts: tuple[int, ...]
    groups: tuple[PeakHistogram, ...]


@dataclass(frozen=True)
class AdversarialTables:
    """Histograms of JSD, one for each place."""

    exact: tuple[Histogram, ...] = ()
    lower: tuple[Histogram, ...] = ()
    found: tuple[Histogram, ...] = ()
    witness: tuple[Histogram, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NullSpaces:
    """Of a layer, or of texts of similar length: null spaces and correlations, means over heads."""

    null: Estimate
    null_constrained: Estimate
    correlation: Estimate
    correlation_pooled: Estimate
    special_mass: Estimate


@dataclass(frozen=True, kw_only=True)
class LengthNullSpaces(NullSpaces):
    """Of texts of `start` to `end` tokens."""

    start: float
    end: float


@dataclass(frozen=True, kw_only=True)
class LayerNullSpaces(NullSpaces):
    """Of a layer."""

    layer: str | int | float


@dataclass(frozen=True)
class IdentifiabilityTables:
    """By length and by layer; how often dim LN(T) ≥ max(0, n − d_v) was examined, and how often it held."""

    by_length: tuple[LengthNullSpaces, ...]
    by_layer: tuple[LayerNullSpaces, ...]
    bound_examined: int
    bound_held: int


@dataclass(frozen=True)
class Flips:
    """Serrano & Smith's table of two by two: texts whose label changes without the top item, and without another."""

    n: int
    both: int
    only_top: int
    only_random: int
    neither: int


@dataclass(frozen=True)
class Fewer:
    """On how many texts each of two orders needs fewer items until the label changes; McNemar's p."""

    a: str
    b: str
    n: int
    a_fewer: int
    b_fewer: int
    equal: int
    never: int
    p: float


@dataclass(frozen=True)
class Stops:
    """A box plot of the fraction erased when the label first changes, over the n texts where it does.

    Whiskers are from `low` to `high`, at most 1.5 interquartile ranges from the box; `outliers` texts are beyond them.
    """

    n: int
    never: int
    never_share: float = np.nan
    low: float = np.nan
    lower: float = np.nan
    median: float = np.nan
    upper: float = np.nan
    high: float = np.nan
    outliers: int = 0


@dataclass(frozen=True)
class NegativeShare:
    """Of n texts whose difference of attention is from `start` to `end`: the share with a negative ΔJS."""

    start: float
    end: float
    n: int
    share: float


@dataclass(frozen=True)
class ErasureTables:
    """By order of erasing: flips two by two, the spread of fractions, negative ΔJS; and orders two by two."""

    flips: Mapping[str, Flips]
    fewer: tuple[Fewer, ...]
    fractions: Mapping[str, Stops]
    negative: Mapping[str, tuple[NegativeShare, ...]]


@dataclass(frozen=True)
class MaskingAgreement:
    """Kendall's τ between the orders of methods under two maskings."""

    a: str
    b: str
    tau: float


@dataclass(frozen=True)
class Curve:
    """The label's probability by the fraction of words removed: mean over texts, and its interval."""

    removed: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class InputErasureTables:
    """By masking: the methods in order, their mean AOPC comprehensiveness, and their curves."""

    order: Mapping[str, tuple[str, ...]]
    means: Mapping[str, Mapping[str, float]]
    agreement: tuple[MaskingAgreement, ...]
    curves: Mapping[str, Mapping[str, Curve]]


@dataclass(frozen=True)
class TauCell:
    """Mean τ ± population std and the share of texts with a significant τ, over n; `missing` have no τ."""

    n: int
    missing: int
    mean: float = np.nan
    std: float = np.nan
    significant: float = np.nan


@dataclass(frozen=True)
class TauPair:
    """Two methods: over all texts, and by predicted label."""

    method: str
    other: str
    all: TauCell
    classes: Mapping[str, TauCell]


@dataclass(frozen=True)
class TauMatrix:
    """Mean τ of every two methods; NaN on the diagonal and where it is undefined."""

    methods: tuple[str, ...]
    tau: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class AgreementTables:
    """Jain & Wallace's Table 2 for all pairs, those that they published, the matrix, and the ceiling."""

    published: tuple[TauPair, ...]
    pairs: tuple[TauPair, ...]
    matrix: TauMatrix
    ceiling: TauPair | None = None


@dataclass(frozen=True)
class MethodMean:
    """The mean of a measure of a method, over the n texts that have it."""

    method: str
    measure: str
    n: int
    missing: int
    mean: float = np.nan


@dataclass(frozen=True)
class PlausibilityTables:
    """Means where the model is right, and where it is wrong."""

    right: tuple[MethodMean, ...] = ()
    wrong: tuple[MethodMean, ...] = ()


@dataclass(frozen=True)
class StabilityTables:
    """The divergence of attention between trainings, by largest weight and predicted label."""

    attention_jsd: tuple[PeakSpread, ...] = ()
