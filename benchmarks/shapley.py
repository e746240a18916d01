"""Shapley values by sampling: passes to 2 % of the exact values, on tables of all sets of 12 words."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.lime import needed
from benchmarks.material import WORDS, Scale, named, resolved, short, trained
from benchmarks.measure import Report, Row, l2
from heedful.core.arrays import Floats
from heedful.maths.shapley import Values, all_subsets, coalitions, enumerated, kriged, regressed
from heedful.model.classifier import Classifier
from heedful.model.inference import Engine
from heedful.model.masking import Variants, features, over_positions

Game = Callable[[NDArray[Any]], Floats]
SIZES = (32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 16_384)
DRAWN = 1024  # every curve goes at least so far
ERROR = 0.02


class Table:
    """The value of every set of words of a text; counts which sets were asked for."""

    def __init__(self, classifier: Classifier, text: str) -> None:
        tokens = classifier.tokens(text)
        keep = over_positions(features(tokens, "word"), all_subsets(WORDS), len(tokens))
        found = Engine(classifier).ask([Variants(tokens, keep)])
        self.values = found.values(classifier, resolved(classifier, tokens))
        self.asked: set[int] = set()

    def __call__(self, keep: NDArray[Any]) -> Floats:
        """Values of sets, one in each row."""
        rows = (np.asarray(keep).astype(np.int64) << np.arange(WORDS)).sum(-1)
        self.asked |= set(rows.tolist())
        found: Floats = self.values[rows]
        return found


def _kernel(game: Table, samples: int, seed: int) -> Floats:
    import shap

    np.random.seed(seed)
    explainer = shap.KernelExplainer(game, np.zeros((1, WORDS)), silent=True)
    found: Floats = explainer.shap_values(np.ones((1, WORDS)), nsamples=samples, l1_reg=False, silent=True)[0]
    return found


def _captum(game: Table, samples: int, seed: int) -> Floats:
    from captum.attr import KernelShap

    torch.manual_seed(seed)
    method: Any = KernelShap(lambda keep: torch.from_numpy(game(keep.numpy())))
    given = {"n_samples": samples, "perturbations_per_eval": 256}
    found: torch.Tensor = method.attribute(torch.ones(1, WORDS), baselines=torch.zeros(1, WORDS), **given)
    return found[0].double().numpy()


def _ours(estimator: Callable[[Any, Any], Values]) -> Callable[[Table, int, int], Floats]:
    def call(game: Table, samples: int, seed: int) -> Floats:
        keep = coalitions(WORDS, samples, np.random.default_rng(seed))
        return estimator(keep, game(keep)).scores

    return call


WAYS: dict[str, Callable[[Table, int, int], Floats]] = {
    "shap KernelExplainer": _kernel,
    "captum KernelShap": _captum,
    "heedful, wls": _ours(regressed),
    "heedful, kriging": _ours(kriged),
}


def run(scale: Scale) -> Report:
    """The median over texts of the passes that reach the error, and the mean curves."""
    classifier = trained()
    tables = [Table(classifier, text) for text in short(scale.few(20, 3))]
    found = {name: [_curve(way, table, scale.few(2)) for table in tables] for name, way in WAYS.items()}
    passes = {name: [_cost(curve) for curve in curves] for name, curves in found.items()}
    missed = {name: sum(min(y for _, y in curve) > ERROR for curve in curves) for name, curves in found.items()}
    ours = float(np.median(passes["heedful, kriging"]))
    rows = [
        Row(
            job="shapley, passes to 2 % error",
            on=f"12 words, {named(classifier)}, {len(tables)} texts",
            against=name,
            theirs=float(np.median(passes[name])),
            ours=ours,
            target=3.0 if name != "heedful, wls" else None,
            agreement=f"theirs need fewer on {sum(a < b for a, b in _pairs(passes, name))} of {len(tables)} texts"
            + (f"; {missed[name]} texts not there after {SIZES[-1]:,} samples" if missed[name] else ""),
            bound=2 * missed[name] > len(tables),
            between=_range(_pairs(passes, name)),
            unit="passes",
        )
        for name in WAYS
        if name != "heedful, kriging"
    ]
    return Report(rows, {"shapley": {name: _mean(curves) for name, curves in found.items()}})


def _pairs(passes: dict[str, list[float]], name: str) -> list[tuple[float, float]]:
    return list(zip(passes[name], passes["heedful, kriging"], strict=True))


def _range(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    ratios = [theirs / ours for theirs, ours in pairs]
    return min(ratios), max(ratios)


def _cost(curve: Sequence[tuple[float, float]]) -> float:
    """Passes that reach the error; where none did, all that were made, which is less than it takes."""
    found = needed(curve, ERROR)
    return found if np.isfinite(found) else curve[-1][0]


def _curve(way: Callable[[Table, int, int], Floats], table: Table, seeds: int) -> list[tuple[float, float]]:
    """Distinct passes and RMS error over seeds, for rising numbers of samples until the error is reached."""
    exact = enumerated(table.values).scores
    found: list[tuple[float, float]] = []
    for size in SIZES:
        each = []
        for seed in range(seeds if size <= 2**WORDS else 1):
            table.asked = set()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                estimate = way(table, size, seed)
            each.append((len(table.asked), l2(estimate, exact)))
        passes, error = np.array(each).T
        found.append((float(passes.mean()), max(1e-9, float(np.sqrt((error**2).mean())))))
        if size >= DRAWN and found[-1][1] <= ERROR:
            break
    return found


def _mean(curves: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, float]]:
    """The median over texts at each number of samples that all of them have."""
    table = np.array([curve[: SIZES.index(DRAWN) + 1] for curve in curves])
    return [(float(x), float(y)) for x, y in np.median(table, axis=0)]
