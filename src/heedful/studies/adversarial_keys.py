"""Adversarial keys (the poster "Is Attention Explanation in Transformers?"): other keys that keep the predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

import numpy as np

from heedful.audits.summary import Row
from heedful.core.arrays import Bools, Floats
from heedful.core.errors import BadInput, Unsupported
from heedful.core.finding import DIVERGENCE, FRACTION, Measure, Place
from heedful.core.settings import Checked, Count, Gt, Le, Positive
from heedful.maths.keys import KeyDistance
from heedful.maths.stats import Estimate, decide, estimate, paired
from heedful.model.classifier import Classifier
from heedful.nets.training.loop import TrainingPlan
from heedful.studies.base import Cost, Subject, Texts, Trial, check_heads, require_heads, row_of
from heedful.studies.folder import ADVERSARIES, file_name
from heedful.studies.key_adversary import (
    Adversary,
    AdversaryJob,
    Goal,
    KeyNetwork,
    Rows,
    Trained,
    load_network,
    original_pass,
    train_adversary,
)
from heedful.studies.key_changes import MAX_MATRIX_TOKENS, ORIGINAL, KeyChanges, Method, Variant
from heedful.studies.outcome import Curve, ExampleText, PairedDifference, Result, WeightedWords

METHODS: tuple[Method, ...] = get_args(Method)
TRAINED: tuple[Trained, ...] = get_args(Trained)
# a column of the report's Table 1: the adversary, and its measure
TABLE_1 = {
    "original": (ORIGINAL, "accuracy"),
    "change of activation": ("activation", "accuracy"),
    "adversarial": ("as-stated", "accuracy"),
    "shuffling": ("permuted", "accuracy"),
    "random-K": ("random-keys", "accuracy"),
    "opposite": ("opposite", "flipped accuracy"),
}
CHUNK_TEXTS = 16  # of a step: each is run once for every variant


@dataclass(frozen=True)
class AdversarialKeys(Checked):
    """Replace the keys of a frozen model so that its predictions stay, and measure how much its attention changed.

    A network of two layers (width → `hidden` → width, ReLU), one for all layers or with `shared`=false one for each,
    turns the keys of each token into others. Four are trained on `trained` texts of the train part, and the epoch is
    chosen on `chosen` texts of dev. as-stated: the poster's loss α·CE(gold label) − (1 − α)·distance of the keys
    (`distance` norm, as in the poster, or log, the logarithm of the mean square, as in its code). honest:
    α·KL(the model's own probabilities ‖ the new ones) − (1 − α)·JSD of the attentions, of all `rows`, or with
    `rows`=read, in the last layer, only of those that the classifier pools. random-keys: the gold label, with uniform
    noise in place of keys. opposite: another label than the gold one. Two need no training. activation: 1.5-entmax
    instead of softmax (or softmax in a network trained with another). permuted: the tokens of a text get each other's
    keys, in `draws` random orders for each layer and text. Methods in `each_layer` are also applied to each layer by
    itself. All are scored on `scored` texts of the test part.
    """

    adversaries: tuple[Method, ...] = METHODS
    each_layer: tuple[Method, ...] | None = METHODS
    alpha: Annotated[float, Gt(0), Le(1)] = 0.5
    distance: KeyDistance = "norm"
    rows: Rows = "all"
    hidden: Count = 256
    shared: bool = True
    epochs: Count = 5
    lr: Positive = 1e-3
    batch: Count = 32
    trained: Count = 2000
    chosen: Count = 300
    scored: Count = 500
    draws: Count = 5
    examples: Count = 3

    summary: ClassVar[str] = "train other keys that keep the predictions, and compare the attention"
    paper: ClassVar[str] = (
        "Drozdyuk et al., Is Attention Explanation in Transformers? (poster), and their report Is Sparse Attention a "
        "Better Explanation?"
    )
    title: ClassVar[str] = "Adversarial keys"
    question: ClassVar[str] = "Can the keys of attention be replaced without changing the predictions?"
    changes: ClassVar[str] = "the keys of attention are replaced in one layer or all; all weights stay"
    reading: ClassVar[str] = (
        "If predictions stay while attention changes much, attention is not needed for them in its present form. Read "
        "the distance of the attention, not of the keys: one vector added to all keys is a large distance, and no "
        "softmax changes; the centred distance leaves such a shift out. In the last layer of a model that pools one "
        "token, only that token's row of attention reaches the output, and an adversary may change the others freely: "
        "read the divergence of the pooled rows too, and set rows=read. as-stated is trained for gold labels, so "
        "it also trains the classifier: its accuracy may exceed the original's, and its agreement with the original "
        "is the fairer number. Its distance has no bound, so the balance of its two terms depends on the length of "
        "training. honest has neither fault. An adversary that fails proves nothing: another could succeed. One that "
        "succeeds shows that other attention gives the same predictions for texts of this kind, not that the model's "
        "attention is arbitrary: the adversary was trained for these outputs. Two trainings of one "
        "network can differ by several points, and the intervals are over texts only. Padded queries are not counted."
    )
    measures: ClassVar[Mapping[str, Measure]] = {
        "accuracy": Measure("share of texts whose predicted label is the gold one", kind="rate", range=FRACTION),
        "flipped accuracy": Measure("share of texts whose predicted label is the other one", "rate", range=FRACTION),
        "agreement": Measure("share of texts with the predicted label of the original", "rate", range=FRACTION),
        "tvd": Measure("total variation distance of the probabilities from the original's", range=FRACTION),
        "attention jsd": Measure(
            "Jensen–Shannon divergence of the attention from the original's: mean over layers, heads and queries",
            range=DIVERGENCE,
        ),
        "attention tvd": Measure("total variation distance of the attention, the same mean", range=FRACTION),
        "pooled jsd": Measure(
            "Jensen–Shannon divergence of those rows of the last layer's attention that the classifier pools: mean "
            "over heads",
            range=DIVERGENCE,
        ),
        "key distance": Measure("Euclidean distance of all keys of a text from the original's"),
        "centred key distance": Measure("the same after the mean key of the text was subtracted in each layer"),
    }
    uses: ClassVar[Mapping[str, str]] = {
        "train": "adversaries are trained",
        "dev": "their epoch is chosen",
        "test": "all are scored",
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "each_layer": ("activation", "permuted"),
        "epochs": 6,
        "trained": 180,
        "chosen": 40,
        "scored": 100,
        "draws": 2,
        "batch": 16,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.adversaries or len(set(self.adversaries)) < len(self.adversaries):
            raise BadInput(f"adversaries are {', '.join(self.adversaries) or 'empty'}; give each once, at least one.")

    def check(self, subjects: Sequence[Subject]) -> None:
        """Refuse a model whose keys cannot be edited."""
        if (classifier := subjects[0].classifier) is None:
            check_heads(subjects[0])
        else:
            require_keys(classifier)

    def __call__(self, trial: Trial) -> Result:
        """Accuracies, distances and examples of every adversary."""
        classifier = trial.classifier()
        layers = require_keys(classifier)
        train, dev, test = (
            trial.texts(classifier, split, use, limit)
            for (split, use), limit in zip(self.uses.items(), (self.trained, self.chosen, self.scored), strict=True)
        )
        variants = self._variants(layers)
        records = self._train(trial, classifier, variants, layers, train, dev)
        adversaries = {v: self._load(trial, classifier, v, layers) for v in variants if v.method in TRAINED}
        changed = KeyChanges(classifier, layers, adversaries, self.draws, trial.seed)
        chunks = trial.chunks("scoring", test, lambda texts: changed.scores(texts, variants), CHUNK_TEXTS)
        tables = _Tables(variants, layers, chunks)
        examples, matrices = self._examples(trial, changed, tables, test, variants)
        return Result(
            rows=tuple(tables.rows()),
            curves=tuple(tables.curves()),
            differences=tuple(tables.differences()),
            examples=examples,
            texts=(train.used, dev.used, test.used),
            notes=tuple(self._notes(variants)),
            details={
                "activation": changed.activation,
                "table 1": TABLE_1,
                "layers": layers,
                "training": records,
                "matrices": matrices,
                "adversaries": {v.name: f"{ADVERSARIES}/{_file(v)}" for v in adversaries},
            },
        )

    def costs(self, trial: Trial) -> list[Cost]:
        """Trainings (two passes forward and one backward for each text), then a pass for each variant and draw."""
        layers = require_keys(trial.classifier())
        variants, splits = self._variants(layers), trial.subject.splits
        trained, chosen, scored = (
            min(n, len(part))
            for n, part in ((self.trained, splits.train), (self.chosen, splits.dev), (self.scored, splits.test))
        )
        trainings = sum(v.method in TRAINED for v in variants)
        reads = trainings * self.epochs
        passes = 2 + sum(self.draws if v.method == "permuted" else 1 for v in variants)
        return [
            Cost("training adversaries", 2 * reads * (trained + chosen), reads * trained),
            Cost("scoring", scored * passes),
        ]

    def _variants(self, layers: int) -> list[Variant]:
        """Each method in all layers, then in each."""
        variants = [Variant(method, "all") for method in self.adversaries]
        if layers > 1:
            wanted = [method for method in self.adversaries if method in (self.each_layer or ())]
            variants += [Variant(method, layer) for method in wanted for layer in range(layers)]
        return variants

    def _train(
        self, trial: Trial, classifier: Classifier, variants: Sequence[Variant], layers: int, train: Texts, dev: Texts
    ) -> dict[str, Any]:
        """The record of every training, one step each."""
        wanted = {f"train {v.name}": v for v in variants if v.method in TRAINED}
        plan = TrainingPlan(epochs=self.epochs, lr=self.lr, seed=trial.seed)

        def compute(name: str) -> dict[str, Any]:
            variant = wanted[name]
            job = self._job(trial, classifier, variant, layers, train, dev)

            return train_adversary(
                job, plan, trial.store.folder / ADVERSARIES / _file(variant), trial.watch_training(variant.name)
            )

        records = trial.steps("training adversaries", list(wanted), compute)
        return {variant.name: record for variant, record in zip(wanted.values(), records, strict=True)}

    def _job(
        self, trial: Trial, classifier: Classifier, variant: Variant, layers: int, train: Texts, dev: Texts
    ) -> AdversaryJob:
        goal = self._goal(variant, layers)
        width = original_pass(classifier, train.tokens[:1]).keys[0].shape[-1]
        groups = 1 if self.shared else len(goal.layers)
        network = KeyNetwork(width, self.hidden, groups, trial.rng("key network", variant.name)).to(classifier.device)
        adversary = Adversary(network, goal, trial.seed)
        return AdversaryJob(adversary, classifier, train, dev, self.batch, f"{trial.store.manifest.stamp} {variant}")

    def _goal(self, variant: Variant, layers: int) -> Goal:
        kind = next(name for name in TRAINED if name == variant.method)
        return Goal(kind, variant.edited(layers), self.alpha, self.distance, self.rows)

    def _load(self, trial: Trial, classifier: Classifier, variant: Variant, layers: int) -> Adversary:
        network = load_network(trial.store.folder / ADVERSARIES / _file(variant), classifier.device)
        return Adversary(network, self._goal(variant, layers), trial.seed)

    def _examples(
        self, trial: Trial, changed: KeyChanges, tables: _Tables, test: Texts, variants: Sequence[Variant]
    ) -> tuple[tuple[ExampleText, ...], list[dict[str, Any]]]:
        """The texts whose attention changed most under the first trained adversary while their label stayed."""
        classifier = changed.classifier
        order: tuple[Method, ...] = ("honest", "as-stated", *METHODS)
        main = next(Variant(method, "all") for method in order if method in self.adversaries)
        short = np.array([len(tokens) <= MAX_MATRIX_TOKENS for tokens in test.tokens])
        chosen = tables.most_changed(main, self.examples, short)
        shown = [v for v in variants if v.layer == "all"]
        stored = trial.step("examples", lambda: [changed.example(test.tokens[i], shown, main.method) for i in chosen])
        examples = tuple(
            _example(classifier.labels[int(test.gold[i])], found, main.method)
            for i, found in zip(chosen, stored, strict=True)
        )
        matrices = [
            {"tokens": found["tokens"], "title": f"test text {i}", "method": main.method, **matrix}
            for i, found in zip(chosen, stored, strict=True)
            for matrix in found["matrices"]
        ]
        return examples, matrices

    def _notes(self, variants: Sequence[Variant]) -> list[str]:
        how = "one network for all layers" if self.shared else "one network for each layer"
        notes = [
            f"A trained adversary is {how}; it reads the keys of the unchanged model and is trained with "
            f"α = {self.alpha:g} for at most {self.epochs} epochs."
        ]
        if any(v.method == "permuted" for v in variants):
            notes.append(f"permuted is the mean of {self.draws} random orders, which differ from layer to layer.")
        return notes


def _file(variant: Variant) -> Path:
    return Path(f"{file_name(variant.name)}.safetensors")


def require_keys(classifier: Classifier) -> int:
    """The number of layers of a model whose keys can be edited; an error for any other."""
    classifier.check_keys()
    layers, _ = require_heads(classifier)
    if len(classifier.sites) != layers or classifier.main_kind != "self":
        raise Unsupported("it has several kinds of attention, and adversarial keys are of one", classifier.name)
    if classifier.head == "regression":
        raise Unsupported("it predicts a number, and adversarial keys need labels", classifier.name)
    return layers


def _example(gold: str, found: Mapping[str, Any], main: str) -> ExampleText:
    """The stored example as an ExampleText."""
    rows = found["rows"]
    words = tuple(found["words"])
    order = [ORIGINAL, main, *(name for name in rows if name not in (ORIGINAL, main))]
    colourings = tuple(
        WeightedWords(
            name,
            words,
            tuple(rows[name]["weights"]),
            f"predicts {rows[name]['label']} ({rows[name]['probability']:.2f})",
        )
        for name in order
    )
    own = rows[ORIGINAL]
    return ExampleText(
        title=f"Attention of the last layer, from what the classifier pools, before and after {main}",
        label=f"{own['label']} ({own['probability']:.2f})",
        gold=gold,
        colourings=colourings,
        note=f"Among (short) texts whose label stays under {main}, its attention changes most.",
    )


# numbers


_BY_LAYER = {
    "attention jsd": np.mean,
    "attention tvd": np.mean,
    "key distance": np.linalg.norm,
    "centred key distance": np.linalg.norm,
}


class _Tables:
    """What was measured on each text, as rows, curves and differences."""

    def __init__(self, variants: Sequence[Variant], layers: int, chunks: Sequence[Mapping[str, Any]]) -> None:
        self.variants, self.layers = variants, layers
        self.values: dict[str, dict[str, Floats]] = {
            name: {
                measure: np.concatenate([np.array(chunk[name][measure], dtype=np.float64) for chunk in chunks])
                for measure in chunks[0][name]
            }
            for name in chunks[0]
        }

    def most_changed(self, variant: Variant, count: int, preferred: Bools) -> list[int]:
        """The texts with the largest divergence of attention whose label stays; the first of equal ones first.

        Only preferred ones, if there are enough.
        """
        table = self.values[variant.name]
        stays = table["agreement"] == 1
        eligible = stays & preferred if (stays & preferred).sum() >= count else stays
        ranked = np.argsort(-np.where(eligible, table["attention jsd"].mean(1), -1), kind="stable")
        return [int(i) for i in ranked[:count] if eligible[i]]

    def rows(self) -> list[Row]:
        """Each measure of the original and of each variant, over all layers and in each."""
        rows = [_row("accuracy", self.values[ORIGINAL]["accuracy"], ORIGINAL, {"edited": "none"})]
        for variant in self.variants:
            for measure, values in self.values[variant.name].items():
                if measure == "flipped accuracy" and variant.method != "opposite":
                    continue
                if values.ndim == 1:
                    rows.append(_row(measure, values, variant.method, variant.place))
                    continue
                together = np.asarray(_BY_LAYER[measure](values, axis=1))  # type: ignore[operator]
                rows.append(_row(measure, together, variant.method, variant.place))
                measured = range(self.layers) if variant.layer == "all" else (variant.layer,)
                rows += [
                    _row(measure, values[:, i], variant.method, {**variant.place, "layer": i})
                    for i in measured
                    if self.layers > 1
                ]
        return rows

    def curves(self) -> list[Curve]:
        """By edited layer: accuracy and agreement. By measured layer, all layers edited: the attention's divergence."""
        if self.layers == 1:
            return []
        x = tuple(float(i) for i in range(self.layers))
        curves = []
        for method in dict.fromkeys(v.method for v in self.variants):
            each = [v for v in self.variants if v.method == method and v.layer != "all"]
            for measure in ("accuracy", "agreement") if each else ():
                points = tuple(_estimate(measure, self.values[v.name][measure]) for v in each)
                curves.append(Curve(measure, method, x, points, {"edited": "each"}))
            jsd = self.values[Variant(method, "all").name]["attention jsd"]
            points = tuple(_estimate("attention jsd", column) for column in jsd.T)
            curves.append(Curve("attention jsd", method, x, points, {"edited": "all"}))
        return curves

    def differences(self) -> list[PairedDifference]:
        """The accuracy of each variant minus the original's, with Holm's correction over all of them."""
        own = self.values[ORIGINAL]["accuracy"]
        decided = decide([paired(self.values[v.name]["accuracy"], own) for v in self.variants])
        return [
            PairedDifference("accuracy", variant.method, ORIGINAL, difference, variant.place)
            for variant, difference in zip(self.variants, decided, strict=True)
            if difference is not None
        ]


def _row(measure: str, values: Floats, method: str, at: Place) -> Row:
    return row_of("adversarial-keys", AdversarialKeys.measures, measure, values, method, at)


def _estimate(measure: str, values: Floats) -> Estimate:
    about = AdversarialKeys.measures[measure]
    return estimate(values, about.kind, about.range)
