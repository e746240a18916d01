"""Pruning (Hao et al. 2021): heads are removed by their importance, and the model is scored without them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np
import torch

from heedful.core.arrays import Floats, Ints
from heedful.core.errors import BadInput, Unsupported
from heedful.core.finding import FRACTION, Measure, Place
from heedful.core.settings import Checked, Count, Fraction, Ge
from heedful.maths.ranks import tau_b
from heedful.maths.stats import decide, estimate, paired
from heedful.model.classifier import Classifier
from heedful.model.loading import save_classifier
from heedful.studies.base import (
    Cost,
    Subject,
    Texts,
    Trial,
    check_heads,
    probabilities_of,
    require_heads,
    right,
    row_of,
)
from heedful.studies.folder import PRUNED
from heedful.studies.heads import (
    Head,
    Importance,
    every_head,
    importance,
    importance_passes,
    silenced_copy,
    silenced_logits,
)
from heedful.studies.outcome import Curve, PairedDifference, Result

RATES = tuple(i / 10 for i in range(11))
MAX_ENUMERATED = 5040  # orders of "all" draws: 7 heads
IMPORTANCES: tuple[Importance, ...] = get_args(Importance)
RANDOM, LARGEST, SMALLEST = "random", "largest first", "smallest first"
ALL_LAYERS: Place = {"layer": "all"}
DECIMALS = 7  # of a stored probability

Order = tuple[Head, ...]  # heads, the first to be removed first


@dataclass(frozen=True)
class _Path:
    """One way to remove heads, at one place: the sets that are missing after each point of a curve."""

    name: str  # an importance, or "random"
    direction: str
    layer: int | Literal["all"]
    x: tuple[float, ...]
    sets: tuple[frozenset[Head], ...]

    @property
    def place(self) -> Place:
        return {"layer": self.layer, "order": self.direction}


@dataclass(frozen=True)
class Pruning(Checked):
    """Remove attention heads by their importance, the most important first or last, in each layer and in all layers.

    Heads are ranked on `ranked` texts of the dev part and scored on `scored` texts of the test part. A head is removed
    by setting its weights to zero, without renormalising. `importances` rank heads by: attribution, the expected
    largest self-attention attribution for the gold label; attention, the expected largest weight; taylor, the
    expected size of the weights times the gradient of the loss; accuracy, the accuracy that is lost without the head.
    The control is `draws` random orders ("all": every order, for a small model). With `keep`, a model without the least
    important heads (by the first importance) is written to models/pruned, with this share of its heads.
    """

    importances: tuple[Importance, ...] = IMPORTANCES
    ranked: Count = 200
    scored: Count = 500
    draws: Annotated[int, Ge(1)] | Literal["all"] = 5
    each_layer: bool = True
    keep: Fraction | None = None

    summary: ClassVar[str] = "remove heads by importance, and score the model without them"
    paper: ClassVar[str] = "Hao et al. 2021; Michel et al. 2019"
    title: ClassVar[str] = "Head pruning"
    question: ClassVar[str] = "Which measure of importance finds the heads that the model needs?"
    changes: ClassVar[str] = "the attention weights of removed heads are zero, and the others are not renormalised"
    reading: ClassVar[str] = (
        "If a measure finds important heads, the model fails early when these are removed first (a small area), and "
        "late when they are removed last (a large area). Random orders are the control: a measure that is not better "
        "than random does not rank heads. The model was not trained without heads, so a fall does not prove that no "
        "training could do without the head. Equal importances, which are common for accuracy, are in random order."
    )
    measures: ClassVar[Mapping[str, Measure]] = {
        "accuracy": Measure("share of texts whose predicted label is the gold one", kind="rate", range=FRACTION),
        "probability": Measure("probability of the gold label", range=FRACTION),
        "area accuracy": Measure("mean accuracy along the curve", range=FRACTION),
        "area probability": Measure("mean probability of the gold label along the curve", range=FRACTION),
    }
    uses: ClassVar[Mapping[str, str]] = {"dev": "heads are ranked", "test": "curves are scored"}
    quick: ClassVar[Mapping[str, Any]] = {"ranked": 40, "scored": 60, "draws": 3}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.importances or len(set(self.importances)) < len(self.importances):
            raise BadInput(f"importances are {', '.join(self.importances) or 'empty'}; give each once, at least one.")

    def check(self, subjects: Sequence[Subject]) -> None:
        """Refuse a model without heads, or with too many for every order of them."""
        check_heads(subjects[0])
        if (classifier := subjects[0].classifier) is not None:
            self._check_draws(math.prod(require_heads(classifier)))

    def __call__(self, trial: Trial) -> Result:
        """The curves, their areas, and paired differences between orders."""
        classifier = trial.classifier()
        shape = require_heads(classifier)
        self._check_draws(math.prod(shape))
        ranked = trial.texts(classifier, "dev", self.uses["dev"], self.ranked)
        scored = trial.texts(classifier, "test", self.uses["test"], self.scored)
        scores = importances(trial, classifier, ranked, self.importances, shape)
        orders = {name: _ranking(score, trial, name) for name, score in scores.items()}
        paths = self._paths(trial, orders, shape)
        sets = list(dict.fromkeys(s for path in paths for s in path.sets))
        chunks = trial.chunks("scoring without heads", scored, lambda texts: _score(classifier, texts, sets, shape))
        right_, chance = (np.concatenate([np.array(chunk[name]) for chunk in chunks]) for name in ("right", "chance"))
        tables = _Tables(paths, {s: i for i, s in enumerate(sets)}, right_, chance)
        result = tables.result(self.importances)
        notes, models = self._save(trial, classifier, orders, scored, shape)
        heads = [{"layer": layer, "head": head} for layer, head in every_head(*shape)]
        means = {name: score.mean(0).ravel() for name, score in scores.items()}
        agreement = [[tau_b(a, b)[0] for b in means.values()] for a in means.values()]
        details = {"heads": heads, "importance": means, "agreement": agreement}
        return Result(
            rows=result.rows,
            curves=result.curves,
            differences=result.differences,
            texts=(ranked.used, scored.used),
            models=models,
            notes=notes,
            details=details,
        )

    def costs(self, trial: Trial) -> list[Cost]:
        """Passes of the importances, then one for each distinct set of heads, of which copies branch off."""
        layers, heads = require_heads(trial.classifier())
        ranked, scored = (min(n, len(part)) for n, part in self._parts(trial))
        draws = math.factorial(layers * heads) if self.draws == "all" else self.draws
        paths = 2 * len(self.importances) + min(draws, MAX_ENUMERATED)
        sets = paths * (len(RATES) - 2) + (paths * layers * (heads - 1) if self.each_layer else 0)
        ranking = [
            Cost(f"{kind} of heads", *(ranked * n for n in importance_passes(kind, layers, heads)))
            for kind in self.importances
        ]
        return [*ranking, Cost("scoring without heads", scored * sets)]

    def _check_draws(self, heads: int) -> None:
        if self.draws == "all" and math.factorial(heads) > MAX_ENUMERATED:
            raise BadInput(f"draws=all has {heads}! orders of {heads} heads; give a number of draws.")

    def _parts(self, trial: Trial) -> list[tuple[int, Sequence[Any]]]:
        return [(self.ranked, trial.subject.splits.dev), (self.scored, trial.subject.splits.test)]

    def _paths(self, trial: Trial, orders: Mapping[str, Order], shape: tuple[int, int]) -> list[_Path]:
        """Every order, in both directions, over all layers and in each layer; random orders have no direction."""
        layers, heads = shape
        places: list[tuple[int | Literal["all"], list[Head]]] = [("all", every_head(*shape))]
        if self.each_layer and heads > 1:
            places += [(layer, [(layer, head) for head in range(heads)]) for layer in range(layers)]
        paths = []
        for layer, here in places:
            x = RATES if layer == "all" else tuple(float(i) for i in range(heads + 1))
            counts = [int(rate * len(here) + 1e-9) for rate in RATES] if layer == "all" else list(range(heads + 1))

            def path(
                name: str, direction: str, order: Sequence[Head], layer: Any = layer, x: Any = x, counts: Any = counts
            ) -> _Path:
                return _Path(name, direction, layer, x, tuple(frozenset(order[:n]) for n in counts))

            for name, order in orders.items():
                ranked = [head for head in order if head in set(here)]
                paths += [path(name, LARGEST, ranked), path(name, SMALLEST, ranked[::-1])]
            paths += [path(RANDOM, f"draw {i}", order) for i, order in enumerate(self._drawn(trial, layer, here))]
        return paths

    def _drawn(self, trial: Trial, layer: object, heads: Sequence[Head]) -> list[Order]:
        if self.draws == "all":
            return list(permutations(heads))
        generators = (trial.rng("random order", layer, i) for i in range(self.draws))
        return [tuple(heads[i] for i in torch.randperm(len(heads), generator=rng).tolist()) for rng in generators]

    def _save(
        self, trial: Trial, classifier: Classifier, orders: Mapping[str, Order], texts: Texts, shape: tuple[int, int]
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Write the pruned model, if one is wanted; a sentence about it, and its folder."""
        if self.keep is None:
            return (), {}
        order = orders[self.importances[0]]
        kept = round(self.keep * len(order))
        gone = sorted(order[kept:])

        def write() -> dict[str, str]:
            try:
                copy = silenced_copy(classifier, gone, texts.tokens[:8])
                save_classifier(copy, trial.store.model(PRUNED))
            except Unsupported as e:
                return {"why": e.reason}
            return {}

        fault = trial.step("write the pruned model", write).get("why")
        if fault:
            return (f"The pruned model was not written: {fault}.",), {}
        note = f"models/pruned has {kept} of {len(order)} heads, those with the largest {self.importances[0]}."
        return (note,), {PRUNED: trial.model_path(PRUNED)}


def importances(
    trial: Trial,
    classifier: Classifier,
    texts: Texts,
    kinds: Sequence[Importance],
    shape: tuple[int, int],
    name: str = "",
) -> dict[str, Floats]:
    """Each importance [n,l,h] of the heads on texts, in steps; `name` tells two models or data sets apart."""

    def compute(kind: Importance) -> Floats:
        doing = " ".join(filter(None, (kind, "of heads", name)))
        chunks = trial.chunks(doing, texts, lambda part: importance(kind, classifier, part, shape))
        return np.concatenate([np.array(chunk, dtype=np.float64) for chunk in chunks])

    return {kind: compute(kind) for kind in kinds}


def _ranking(scores: Floats, trial: Trial, name: str) -> Order:
    """Heads by the mean of their scores [n,l,h], the largest first; equal ones in random order."""
    means = scores.mean(0)
    random = torch.rand(means.size, generator=trial.rng("equal importances", name)).numpy()
    heads = every_head(*means.shape)
    return tuple(heads[i] for i in np.lexsort((random, -means.ravel().round(12))))


def _score(
    classifier: Classifier, texts: Texts, sets: Sequence[frozenset[Head]], shape: tuple[int, int]
) -> dict[str, Any]:
    """For each text and each set of missing heads: is the prediction right, and the probability of the gold label."""
    rights: list[Ints] = []
    chances: list[Floats] = []
    for tokens, gold in zip(texts.tokens, texts.gold, strict=True):
        chance = probabilities_of(silenced_logits(classifier, tokens, sets, *shape), classifier)
        rights.append(right(chance, gold).astype(np.int64))
        chances.append(chance[:, gold].round(DECIMALS))
    return {"right": np.stack(rights), "chance": np.stack(chances)}


@dataclass(frozen=True)
class _Tables:
    """What was measured on each text [n,sets], as curves, areas and differences."""

    paths: Sequence[_Path]
    index: Mapping[frozenset[Head], int]
    right: Floats
    chance: Floats

    def result(self, names: Sequence[str]) -> Result:
        """All numbers; random orders count in both directions."""
        rows, curves, differences = [], [], []
        for layer in dict.fromkeys(path.layer for path in self.paths):
            random = [path for path in self.paths if path.layer == layer and path.name == RANDOM]
            for direction in (LARGEST, SMALLEST):
                place = {"layer": layer, "order": direction}
                ordered = [p for p in self.paths if (p.layer, p.direction) == (layer, direction)]
                groups = {path.name: [path] for path in ordered} | {RANDOM: random}
                for measure, table in (("accuracy", self.right), ("probability", self.chance)):
                    curves += [self._curve(measure, table, group, place) for group in groups.values()]
                    areas = {name: self._areas(table, group) for name, group in groups.items()}
                    better: Literal["higher", "lower"] = "lower" if direction == LARGEST else "higher"
                    rows += self._rows(f"area {measure}", areas, place, better)
                    if layer == "all":
                        differences += self._differences(f"area {measure}", areas, place, names, better)
        return Result(rows=tuple(rows), curves=tuple(curves), differences=tuple(differences))

    def _values(self, table: Floats, path: _Path) -> Floats:
        return table[:, [self.index[s] for s in path.sets]].astype(np.float64)

    def _curve(self, measure: str, table: Floats, group: Sequence[_Path], place: Place) -> Curve:
        values = np.mean([self._values(table, path) for path in group], 0)
        about = Pruning.measures[measure]
        points = tuple(estimate(column, about.kind, about.range) for column in values.T)
        return Curve(measure, group[0].name, group[0].x, points, place)

    def _areas(self, table: Floats, group: Sequence[_Path]) -> Floats:
        """The mean height of each text's curve, by the trapezoidal rule."""
        values = np.mean([self._values(table, path) for path in group], 0)
        x = np.array(group[0].x)
        return np.asarray(np.trapezoid(values, x, axis=1) / (x[-1] - x[0]))

    def _rows(self, measure: str, areas: Mapping[str, Floats], place: Place, better: Any) -> list[Any]:
        named = [name for name in areas if name != RANDOM]
        compared = dict(zip(named, decide([paired(areas[n], areas[RANDOM]) for n in named], better), strict=True))
        return [
            row_of("pruning", Pruning.measures, measure, values, name, place, compared.get(name))
            for name, values in areas.items()
        ]

    def _differences(
        self, measure: str, areas: Mapping[str, Floats], place: Place, names: Sequence[str], better: Any
    ) -> list[PairedDifference]:
        """The first importance against every other."""
        first, *others = names
        decided = decide([paired(areas[first], areas[other]) for other in others], better)
        return [
            PairedDifference(measure, first, other, difference, place)
            for other, difference in zip(others, decided, strict=True)
            if difference is not None
        ]
