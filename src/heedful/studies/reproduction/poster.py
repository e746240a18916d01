"""The poster "Is Attention Explanation in Transformers?", and the report on sparse attention that followed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar, Literal

from heedful.core.settings import Count
from heedful.data import Example, Splits
from heedful.studies.adversarial_keys import TABLE_1, AdversarialKeys
from heedful.studies.base import Subject, Trial
from heedful.studies.key_changes import ORIGINAL
from heedful.studies.outcome import Outcome, Result
from heedful.studies.reproduction.base import (
    AuditPlan,
    Paper,
    first_texts,
    limited,
    part_paths,
    run_audits,
    run_study,
    trained_subjects,
    with_seeds,
)
from heedful.studies.reproduction.data_sets import IMDB, DataSet
from heedful.studies.reproduction.published import Claim, Key, Measurement, measurement_of

NAME = "poster"
TABLE = "Table 1"
ACTIVATIONS = {"softmax": "softmax", "1.5-entmax": "entmax15"}
NO_CHANGE = 0.02  # accuracy: a change that is called none
IDENTIFIABILITY = "null spaces"
TRAINED = ("as-stated", "honest", "random-keys", "opposite")  # columns of adversaries
TEST_FACTOR = 10  # test reviews that networks are tested on, for each that is scored: half of them are too long


@dataclass(frozen=True)
class Poster(Paper):
    """A small Transformer with softmax and with 1.5-entmax attention, `seeds` trainings each, and other keys for each.

    `train` limits the training texts; reviews of more than 200 pieces are left out, as in the poster. Adversaries are
    trained on `adversary_texts` texts, `adversary_epochs` times, and all is scored on `scored` test texts; null spaces
    are measured on `spaces`. Keys are permuted in `draws` random orders. `epochs`, `patience`, `lr` and `batch` are the
    Transformer's; few reviews take smaller batches.
    """

    seeds: Count = 3
    train: Count | None = None
    scored: Count = 1000
    adversary_texts: Count = 2000
    adversary_epochs: Count = 5
    spaces: Count = 100
    draws: Count = 5
    epochs: Count = 30
    patience: Count = 10
    lr: float = 1e-4
    batch: Count = 64

    summary: ClassVar[str] = "other keys, other activations and shuffled attention in a small Transformer"
    paper: ClassVar[str] = AdversarialKeys.paper
    title: ClassVar[str] = "Is Attention Explanation in Transformers?"
    question: ClassVar[str] = "Does a Transformer keep its accuracy with other attention?"
    reading: ClassVar[str] = (
        "Accuracies are in percent. The authors stopped training by test accuracy; here dev chooses the epoch. "
        "adversarial has the loss of their code (the logarithm of the key distance); opposite is scored on the other "
        "label."
    )
    networks: ClassVar[str] = "transformer"
    minutes: ClassVar[Mapping[str, float]] = {"smoke": 0.4, "quick": 46}
    yields: ClassVar[str] = "Table 1 for softmax and 1.5-entmax, accuracy by layer, heat maps, null space by length"
    data: ClassVar[tuple[DataSet, ...]] = (replace(IMDB, embedded=True),)
    smoke: ClassVar[Mapping[str, Any]] = {
        "seeds": 1,
        "train": 60,
        "scored": 8,
        "adversary_texts": 16,
        "adversary_epochs": 1,
        "spaces": 4,
        "draws": 1,
        "epochs": 1,
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "train": 4000,
        "scored": 150,
        "adversary_texts": 200,
        "adversary_epochs": 2,
        "spaces": 40,
        "draws": 2,
        "epochs": 4,
        "patience": 4,
        "lr": 3e-4,
        "batch": 16,
    }

    def __call__(self, trial: Trial) -> Result:
        """Table 1, the effect of each layer, and the null spaces."""
        if not trial.subjects:
            return self.result(trial, NAME, {})
        subject = self._sampled(trial.subject)
        settings = {
            "epochs": self.epochs, "patience": self.patience, "lr": self.lr, "batch": self.batch, "warmup": 0.05,
            "schedule": "linear",
        }  # fmt: skip
        recipes = {
            f"{row}, seed {seed}": seeded
            for row, activation in ACTIVATIONS.items()
            for seed, seeded in with_seeds(
                replace(subject, recipe=self.networks, settings=settings | {"activation": activation}), self.seeds
            ).items()
        }
        networks = {name: self._short(network) for name, network in trained_subjects(trial, recipes).items()}
        keys = AdversarialKeys(
            adversaries=("as-stated", "honest", "random-keys", "opposite", "activation", "permuted"),
            each_layer=("permuted",),
            distance="log",
            trained=self.adversary_texts,
            epochs=self.adversary_epochs,
            scored=self.scored,
            draws=self.draws,
        )
        outcomes = {name: run_study(trial, f"keys {name}", keys, network) for name, network in networks.items()}
        first = "softmax, seed 0"
        plan = AuditPlan(networks[first], self.spaces, {"checks": ["identifiability"], "methods": ["attention-mean"]})
        run_audits(trial, {IDENTIFIABILITY: plan})
        return self.result(
            trial,
            NAME,
            self._measurements(outcomes, len(subject.splits.train)),
            self._claims(outcomes[first]),
            texts=outcomes[first].result.texts,
            models={name: trial.model_path(name) for name in networks},
            parts=part_paths([*(f"keys {name}" for name in outcomes), IDENTIFIABILITY]),
            rows=tuple(row for outcome in outcomes.values() for row in outcome.result.rows),
        )

    def _sampled(self, subject: Subject) -> Subject:
        """With as many test reviews as it takes to find short ones, in an order that mixes the labels."""
        splits = limited(subject, self.train).splits
        test = first_texts(splits.test, TEST_FACTOR * self.scored)
        return replace(subject, splits=replace(splits, test=test))

    def _short(self, subject: Subject) -> Subject:
        """Without the reviews that are too long for the network, as many as are needed."""
        classifier = subject.classifier
        assert classifier is not None
        limit = classifier.limit or 0

        def fits(example: Example) -> bool:
            return len(classifier.tokens(example.text)) <= limit

        sizes = {"train": self.adversary_texts, "dev": 300, "test": self.scored}
        # twice as many as are scored, because a part is sampled with its labels in proportion
        parts = {name: list(islice(filter(fits, getattr(subject.splits, name)), 2 * n)) for name, n in sizes.items()}
        return replace(subject, splits=Splits(parts["train"], parts["dev"], parts["test"]))

    def _measurements(self, outcomes: Mapping[str, Outcome], train: int) -> dict[Key, Measurement]:
        differs = f"trained on at most {train:,} reviews, and stopped by dev accuracy (the authors: by test accuracy)"
        adversaries = f"{differs}; adversaries on {self.adversary_texts:,}"
        measured = {}
        for row in ACTIVATIONS:
            for column, (method, measure) in TABLE_1.items():
                at = {"edited": "none" if method == ORIGINAL else "all"}
                own = [o.result.row(measure, method, at) for name, o in outcomes.items() if name.startswith(f"{row},")]
                apart = adversaries if method in TRAINED else differs
                measured[TABLE, IMDB.name, row, column] = measurement_of([r for r in own if r], apart, scale=100)
        return measured

    def _claims(self, outcome: Outcome) -> list[Claim]:
        """The poster's finding on layers, for the first training."""
        claims = []
        for d in outcome.result.differences:
            layer = d.at["edited"]
            if d.a == "permuted" and layer != "all":
                expected: Literal["lower", "equal"] = "lower" if layer == 0 else "equal"
                finding = (
                    "permuted keys in the first layer cost accuracy" if layer == 0 else "in another layer they do not"
                )
                measure = f"accuracy, keys permuted in layer {layer} − original"
                claims.append(Claim(finding, "the poster", IMDB.name, measure, d.difference, expected, NO_CHANGE))
        return claims
