"""The linear surrogate that LIME fits around a text. Pure: masks and values in, coefficients out.

A Design has the features that each sample keeps and how many of lime's samples it counts for, so that every design has
the same estimand as the `lime` package's own sampling: sizes uniform on 1 … d, then a uniform subset of that size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, combinations
from math import comb
from typing import Literal

import numpy as np

from heedful.core.arrays import Bools, Floats, Ints
from heedful.core.errors import BadInput
from heedful.maths import kriging

Sampling = Literal["lime", "stratified", "antithetic"]
Selection = Literal["auto", "highest-weights", "forward", "lasso-path"]

MAX_LISTED_SUBSETS = 20_000  # of one size, up to which all are enumerated
MAX_FORWARD = 6  # features up to which "auto" selects forward, as in the lime package
SELECTION_RIDGE = 0.01  # of the regression whose highest weights are selected, as in the lime package
_DEPENDENT = 1e-10  # share of a column's variance below which it is a combination of other columns
_TIE = 1e-9  # relative difference of two gains that is rounding: the first feature is selected


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

    Coefficients = `operator[d,n]` @ values; `errors` are their standard errors over designs. `used` is the number of
    features in the regression; the others have 0.
    """

    coefficients: Floats
    errors: Floats
    intercept: float
    r2: float
    operator: Floats
    used: int


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
    n = comb(d, s)
    members = np.fromiter(chain.from_iterable(combinations(range(d), s)), np.int64, n * s).reshape(n, s)
    chosen = np.zeros((n, d), dtype=bool)
    np.put_along_axis(chosen, members, True, axis=1)
    return chosen


def _draw_of_size(d: int, s: int, n: int, rng: np.random.Generator, paired: bool) -> Bools:
    """n subsets of size s, distinct where all can be listed; paired, each second from the other end of its order."""
    if not paired and comb(d, s) <= MAX_LISTED_SUBSETS:
        return subsets_of_size(d, s)[rng.permutation(comb(d, s))[:n]]
    orders = rng.random((-(-n // 2) if paired else n, d)).argsort(1).argsort(1)
    return np.stack([orders < s, orders >= d - s], axis=1).reshape(-1, d)[:n] if paired else orders < s


def fit_surrogate(design: Design, values: Floats, width: float, ridge: float, selected: Ints | None = None) -> Fit:
    """Weighted ridge regression with an intercept, as scikit-learn's, with standard errors.

    Errors are those of a regression on a random design (the sandwich), over strata and pairs; values have no noise, so
    they measure how far the sample is from all samples, and are 0 where all subsets were enumerated. Features that are
    not among the `selected` have the coefficient 0 and no error: the errors are those of a selection that was made
    before the samples were drawn.
    """
    weights = design.counts * kernel(design.keep.mean(1), width)
    total = weights.sum()
    columns = slice(None) if selected is None else selected
    centre, mean, centred = _centred(design, values, weights)
    weighted = (centred[:, columns] * weights[:, None]).T
    normal = weighted @ centred[:, columns] + ridge * np.eye(len(weighted))
    if ridge == 0 and np.linalg.matrix_rank(normal, hermitian=True) < len(normal):
        few = f"{len(design)} samples do not determine {len(normal)} coefficients"
        raise BadInput(f"{few}; raise samples, or set a ridge.")
    operator = np.zeros(centred.T.shape)
    operator[columns] = np.linalg.solve(normal, weighted)
    coefficients = operator @ (values - mean)
    residual = values - mean - centred @ coefficients
    spread = float(weights @ (values - mean) ** 2)
    return Fit(
        coefficients=coefficients,
        errors=_errors(operator * residual, design),
        intercept=mean - float(centre @ coefficients),
        r2=1 - float(weights @ residual**2) / spread if spread > 0 else 1.0,
        operator=operator - np.outer(operator.sum(1), weights / total),
        used=len(normal),
    )


def _centred(design: Design, values: Floats, weights: Floats) -> tuple[Floats, float, Floats]:
    """The weighted means of the features [d] and of the values, and the features less their means [n,d]."""
    x = design.keep.astype(np.float64)
    centre = weights @ x / weights.sum()
    mean = float(values[0] + weights @ (values - values[0]) / weights.sum())  # exact where all values are equal
    return centre, mean, x - centre


def select(design: Design, values: Floats, width: float, number: int, how: Selection) -> Ints:
    """Which features the regression uses, at most `number`, in their order: the selections of the `lime` package.

    "highest-weights": of the regression on all features with a small ridge; "forward": one by one, each time the
    feature that raises the weighted R² most; "lasso-path": the last features on the path that are together no more than
    `number` (the K-LASSO of Ribeiro et al. 2016); "auto": forward up to six features, highest weights beyond. Among
    equal features the first is selected.
    """
    d = design.keep.shape[1]
    if number >= d:
        return np.arange(d)
    weights = design.counts * kernel(design.keep.mean(1), width)
    _, mean, centred = _centred(design, values, weights)
    weighted = (centred * weights[:, None]).T
    normal, moment = weighted @ centred, weighted @ (values - mean)
    if how == "auto":
        how = "forward" if number <= MAX_FORWARD else "highest-weights"
    if how == "highest-weights":
        coefficients = np.linalg.solve(normal + SELECTION_RIDGE * np.eye(d), moment)
        return np.sort(np.argsort(-np.abs(coefficients), kind="stable")[:number])
    if how == "forward":
        return np.sort(_forward(normal, moment, number))
    return np.sort([knot for knot in lasso_path(normal, moment) if len(knot) <= number][-1])


def _forward(normal: Floats, moment: Floats, number: int) -> list[int]:
    """Features in the order in which they lower the residual most, given those before them (Gram–Schmidt)."""
    variance = normal.diagonal()
    chosen: list[int] = []
    for _ in range(number):
        independent = normal.diagonal() > _DEPENDENT * variance
        gain = np.where(independent, moment**2 / np.where(independent, normal.diagonal(), 1), 0)
        gain[chosen] = -1
        best = int(np.flatnonzero(gain >= gain.max() * (1 - _TIE))[0])
        chosen.append(best)
        if independent[best]:
            share = normal[best] / normal[best, best]
            normal, moment = normal - np.outer(normal[best], share), moment - moment[best] * share
    return chosen


def lasso_path(normal: Floats, moment: Floats) -> list[list[int]]:
    """The features in the lasso at each knot of its path, from the largest penalty to none (LARS, Efron et al. 2004).

    All correlations of active features with the residual stay equal while they fall. A feature joins when its
    correlation reaches theirs, and leaves when its coefficient passes 0.
    """
    d = len(moment)
    coefficients, free = np.zeros(d), normal.diagonal() > 0
    active: list[int] = []
    knots: list[list[int]] = []
    left: int | None = None
    while True:
        residual = moment - normal @ coefficients
        others = np.setdiff1d(np.flatnonzero(free), active)
        if left is None and len(others):
            joins = int(others[np.abs(residual[others]).argmax()])
            if active and _rest(normal, active, joins) <= _DEPENDENT * normal[joins, joins]:
                free[joins] = False  # a combination of the active features: it can add nothing
                continue
            active.append(joins)
        level = float(np.abs(residual[active]).max(initial=0.0))
        if level <= _TIE * np.abs(moment).max(initial=0.0) or not active:
            return knots or [[0]]
        direction = np.linalg.solve(normal[np.ix_(active, active)], np.sign(residual[active]))
        fall = normal[:, active] @ direction
        steps = [level]
        for sign in (1, -1):
            # subtle: a feature that left is still at the level; it can return with the other sign only
            waiting = [j for j in others.tolist() if j not in active and (j != left or sign * residual[j] < 0)]
            rates = 1 - sign * fall[waiting]
            steps += (np.maximum(level - sign * residual[waiting], 0) / np.where(rates > 0, rates, np.nan)).tolist()
        crossings = -coefficients[active] / direction
        step = float(np.nanmin(steps))
        leaves = np.where((crossings > 0) & (crossings < step), crossings, np.inf)
        left = active[int(leaves.argmin())] if np.isfinite(leaves).any() else None
        coefficients[active] += min(step, float(leaves.min())) * direction
        if left is not None:
            coefficients[left] = 0.0
            active.remove(left)
        knots.append(np.flatnonzero(coefficients).tolist())


def _rest(normal: Floats, active: list[int], j: int) -> float:
    """What the active features leave of the variance of feature j."""
    across = normal[active, j]
    return float(normal[j, j] - across @ np.linalg.solve(normal[np.ix_(active, active)], across))


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
