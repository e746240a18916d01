"""The linear surrogate that LIME fits around a text. Pure: masks and values in, coefficients out.

A Design has the features that each sample keeps and how many of lime's samples it counts for, so that every design has
the same estimand as the `lime` package's own sampling: sizes uniform on 1 … d, then a uniform subset of that size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import Literal

import numpy as np

from heedful.core.arrays import Bools, Floats, Ints
from heedful.core.errors import BadInput
from heedful.maths import kriging

Sampling = Literal["lime", "stratified", "antithetic"]

MAX_LISTED_SUBSETS = 20_000  # of one size, up to which all are enumerated


@dataclass(frozen=True)
class Design:
    """Samples of a text: `keep[n,d]`, how many of lime's samples each `counts` for, its stratum and its pair.

    `undrawn` is the share of a sample's stratum that was not drawn, 1 where draws may repeat: an enumerated stratum has
    0 and adds no sampling error. The first sample is the text itself.
    """

    keep: Bools
    counts: Floats
    stratum: Ints
    pair: Ints
    undrawn: Floats

    def __len__(self) -> int:
        return len(self.keep)


@dataclass(frozen=True)
class Fit:
    """A weighted ridge regression: value ≈ intercept + Σ coefficients of the kept words.

    Coefficients = `operator[d,n]` @ values; `errors` are their standard errors over designs.
    """

    coefficients: Floats
    errors: Floats
    intercept: float
    r2: float
    operator: Floats


def design(d: int, samples: int, sampling: Sampling, rng: np.random.Generator) -> Design:
    """Samples of a text with d features, the text itself included."""
    return lime_design(d, samples, rng) if sampling == "lime" else stratified(d, samples, rng, sampling == "antithetic")


def lime_design(d: int, samples: int, rng: np.random.Generator) -> Design:
    """The sampling law of the `lime` package: 1 … d features removed, each number and each subset equally likely."""
    removed = np.r_[0, rng.integers(1, d + 1, samples - 1)]
    keep = rng.random((samples, d)).argsort(1).argsort(1) >= removed[:, None]
    return Design(keep, np.ones(samples), np.zeros(samples, int), np.arange(samples), np.ones(samples))


def doubled(former: Design, sampling: Sampling, rng: np.random.Generator) -> Design:
    """A design with twice as many samples; with lime's sampling, the former samples are kept."""
    larger = design(former.keep.shape[1], 2 * len(former), sampling, rng)
    if sampling != "lime":
        return larger
    return replace(larger, keep=np.concatenate([former.keep, larger.keep[len(former) :]]))


def kernel(kept: Floats, width: float) -> Floats:
    """LIME's weight of a sample that keeps a share of the words, from the cosine distance: exp(−(1 − √kept)² / 2ν²)."""
    return np.asarray(np.exp(-((1 - np.sqrt(kept)) ** 2) / (2 * width**2)))


def stratified(d: int, samples: int, rng: np.random.Generator, paired: bool, width: float = 0.25) -> Design:
    """One stratum for each number of features removed: small ones enumerated, the others drawn without replacement.

    Strata get samples in proportion to the kernel's weight; `counts` restores the number that lime would draw.
    """
    weight = kernel(np.arange(d - 1, -1, -1) / d, width)  # of 1 … d features removed
    available = [comb(d, s) for s in range(1, d + 1)]
    sizes = allocate(weight, available, samples - 1)
    mass = (samples - 1) / d
    parts = [np.ones((1, d), bool)]
    for s, n in enumerate(sizes, start=1):
        parts.append(~subsets_of_size(d, s) if n == comb(d, s) else ~_draw_of_size(d, s, n, rng, paired))
    lengths = [len(part) for part in parts]
    stratum = np.repeat(np.arange(d + 1), lengths)
    counts = np.repeat([1.0, *(mass / n for n in lengths[1:])], lengths)
    undrawn = [0.0]
    for n, whole in zip(sizes, available, strict=True):
        undrawn.append(1.0 if n < whole and (paired or whole > MAX_LISTED_SUBSETS) else 1 - n / whole)
    # samples that were drawn together have the same number
    each = [np.arange(n) // 2 if paired else np.arange(n) for n in lengths]
    starts = np.cumsum([0, *(int(pair[-1]) + 1 for pair in each[:-1])])
    pairs = np.concatenate([pair + start for pair, start in zip(each, starts, strict=True)])
    return Design(np.concatenate(parts), counts, stratum, pairs, np.repeat(undrawn, lengths))


def allocate(weight: Floats, available: list[int], samples: int) -> list[int]:
    """How many of `available` samples each stratum gets: at least one, in proportion to its weight, none repeated.

    Together at most `samples`, or one for each stratum.
    """
    if samples >= sum(available):
        return available

    def spent(factor: float) -> list[int]:
        return [min(n, max(1, int(min(factor * w, samples)))) for w, n in zip(weight.tolist(), available, strict=True)]

    low, high = 0.0, samples / float(weight.min())  # `spent` grows with the factor: bisection
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(spent(middle)) <= samples else (low, middle)
    return spent(low)


def subsets_of_size(d: int, s: int) -> Bools:
    """Every subset of size s."""
    chosen = np.zeros((comb(d, s), d), dtype=bool)
    for row, subset in enumerate(combinations(range(d), s)):
        chosen[row, list(subset)] = True
    return chosen


def _draw_of_size(d: int, s: int, n: int, rng: np.random.Generator, paired: bool) -> Bools:
    """n subsets of size s, distinct where all can be listed; paired, each second from the other end of its order."""
    if not paired and comb(d, s) <= MAX_LISTED_SUBSETS:
        return subsets_of_size(d, s)[rng.permutation(comb(d, s))[:n]]
    orders = rng.random((-(-n // 2) if paired else n, d)).argsort(1).argsort(1)
    return np.stack([orders < s, orders >= d - s], axis=1).reshape(-1, d)[:n] if paired else orders < s


def fit_surrogate(design: Design, values: Floats, width: float, ridge: float) -> Fit:
    """Weighted ridge regression with an intercept, as scikit-learn's, with standard errors.

    Errors are those of a regression on a random design (the sandwich), over strata and pairs; values have no noise, so
    they measure how far the sample is from all samples, and are 0 where all subsets were enumerated.
    """
    x = design.keep.astype(np.float64)
    weights = design.counts * kernel(design.keep.mean(1), width)
    total = weights.sum()
    centre = weights @ x / total
    centred = x - centre
    normal = (centred * weights[:, None]).T @ centred + ridge * np.eye(x.shape[1])
    if ridge == 0 and np.linalg.matrix_rank(normal, hermitian=True) < len(normal):
        few = f"{len(design)} samples do not determine {len(normal)} coefficients"
        raise BadInput(f"{few}; raise samples, or set a ridge.")
    operator = np.linalg.solve(normal, (centred * weights[:, None]).T)
    mean = float(values[0] + weights @ (values - values[0]) / total)  # exact where all values are equal
    coefficients = operator @ (values - mean)
    residual = values - mean - centred @ coefficients
    spread = float(weights @ (values - mean) ** 2)
    return Fit(
        coefficients=coefficients,
        errors=_errors(operator * residual, design),
        intercept=mean - float(centre @ coefficients),
        r2=1 - float(weights @ residual**2) / spread if spread > 0 else 1.0,
        operator=operator - np.outer(operator.sum(1), weights / total),
    )


def smooth_fit(design: Design, values: Floats, width: float, ridge: float) -> Fit:
    """The same regression over all samples that lime could draw, with kriging's prediction of the unknown values.

    The leave-one-out residuals of the prediction correct the coefficients, so that they are unbiased even with a bad
    prediction, and give their errors.
    """
    regression = fit_surrogate(design, values, width, ridge)
    keep, first, which = np.unique(design.keep, axis=0, return_index=True, return_inverse=True)
    n, d = len(keep), keep.shape[1]
    if n < 3 or np.ptp(values) == 0:
        return regression
    x = kriging.signs(keep)
    order = np.random.default_rng(0).permutation(n)  # ρ is chosen on the first few
    rho = kriging.best_rho(x[order], values[first][order], odd=False)
    solved = kriging.solved(kriging.with_level(x, x, np.full(d, rho)), values[first])
    residuals = values - (values[first] - solved.residuals())[which.ravel()]
    # the prediction is exact where the model was run: its errors are on the other sets of each size
    size, tried = keep.sum(1), np.bincount(keep.sum(1), minlength=d + 1)
    unseen = np.array([1 - int(n) / comb(d, s) for s, n in enumerate(tried)])[size][which.ravel()]
    correction = regression.operator @ (residuals * unseen)
    coefficients = population(design, rho, width, ridge, keep, solved.weights) + correction
    weights = design.counts * kernel(design.keep.mean(1), width)
    centre = weights @ design.keep / weights.sum()
    drawn = replace(design, undrawn=np.sign(design.undrawn), pair=which.ravel())  # a set drawn twice counts once
    return replace(
        regression,
        coefficients=coefficients,
        errors=_errors(regression.operator * residuals * np.sqrt(unseen), drawn),
        intercept=regression.intercept + float(centre @ (regression.coefficients - coefficients)),
    )


def population(design: Design, rho: float, width: float, ridge: float, keep: Bools, weights: Floats) -> Floats:
    """The coefficients of Σ weightsⱼ · covariance(·, keepⱼ) over all samples, each as often as lime draws it."""
    d = keep.shape[1]
    kept = np.arange(d + 1)
    counts = np.r_[np.full(d, (design.counts.sum() - 1) / d), 1.0]  # of all samples that keep 0 … d words
    mass = counts * kernel(kept / d, width)
    total, single = mass.sum(), mass @ kept / d  # Σ mass, Σ mass · P(a word is kept), Σ mass · P(two words are kept)
    both = mass @ (kept * (kept - 1)) / (d * (d - 1)) if d > 1 else 0.0
    normal = np.full((d, d), both) + (single - both) * np.eye(d) - single**2 / total + ridge * np.eye(d)
    every, inside, outside = kriging.size_covariances(d, rho, mass)
    size = keep.sum(1)
    level = kriging.MEAN_VARIANCE - 1
    with_word = np.where(keep, inside[size][:, None], outside[size][:, None]) + level * single
    moment = weights @ (with_word - (single / total) * (every[size] + level * total)[:, None])
    return np.asarray(np.linalg.solve(normal, moment))


def _errors(influence: Floats, design: Design) -> Floats:
    """The standard error of a sum of influences [d,n] drawn by strata, in pairs."""
    drawn = np.flatnonzero(design.undrawn)
    if len(drawn) == 0:
        return np.zeros(len(influence))
    pairs, first = np.unique(design.pair[drawn], return_index=True)
    clusters = np.zeros((len(pairs), len(influence)))
    np.add.at(clusters, np.searchsorted(pairs, design.pair[drawn]), influence[:, drawn].T)
    strata = design.stratum[drawn][first]
    variance = np.zeros(len(influence))
    for stratum in np.unique(strata):
        members = clusters[strata == stratum] * np.sqrt(design.undrawn[drawn][first][strata == stratum][:, None])
        n = len(members)
        # a stratum with a single draw has no spread: its own square is used
        variance += ((members - members.mean(0)) ** 2).sum(0) * n / (n - 1) if n > 1 else members[0] ** 2
    return np.sqrt(variance)
