"""Lopardo, Precioso & Garreau 2024, "Attention Meets Post-hoc Interpretability".

One layer of multi-head attention, and six; seven explainers; theorems 4.1 and 5.1 against autograd and LIME.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from heedful.audits.result import Audit
from heedful.audits.run import order
from heedful.core.arrays import Floats
from heedful.core.explanation import Attribution, Interaction
from heedful.core.finding import Measure
from heedful.core.settings import Count
from heedful.data import Splits, fingerprint
from heedful.maths import stats
from heedful.methods.attention import AttentionMax, AttentionMean
from heedful.methods.base import Method
from heedful.methods.explain import explain
from heedful.methods.gradient import GradientL1, GradientL2, GradientMean, GradientXInput
from heedful.methods.lime import Lime
from heedful.methods.theory_comparison import (
    FORMS,
    closeness,
    compare_gradients,
    compare_with_theory,
    lime_runs,
)
from heedful.methods.theory_comparison import Trial as Runs
from heedful.model.classifier import Classifier
from heedful.nets.training.train import finished_record
from heedful.studies.base import Subject, Trial, row_of
from heedful.studies.outcome import Result, TextsUsed
from heedful.studies.reproduction.base import AuditPlan, Paper, part_paths, run_audits, trained_subjects, with_seeds
from heedful.studies.reproduction.data_sets import IMDB, DataSet
from heedful.studies.reproduction.published import Claim, Key, Measurement, measurement_of

NAME = "lopardo2024"
ONE, SIX = "one layer", "six layers"
ACCURACY, SENTENCE_TABLE = "Accuracy", "Figure 1: one sentence by seven explainers"
LIME_TABLE, CLS_TABLE = "Figure 4: LIME and theorem 5.1", "Theorem 4.1: the first coordinate of [CLS]"
SENTENCE = "attention based explanations are popular but questionable"  # the authors' example
# ours, with as many words as that of Figure 4
REVIEW = (
    "I wanted to like this film because the first one was wonderful and the trailer promised more of it Nothing of "
    "that came true The plot is a mess the jokes are old and the actors look as if they were waiting for lunch Only "
    "the music is good and even that is too loud There is one amazing scene on a train and then an awful hour in "
    "which people shout at each other It is not the worst sequel that I have seen but it is a bad one and it left me "
    "bored and angry"
)
POSITIVE = 1  # the explained label
TRAIN_SHARE = 0.8  # 20,000 of 25,000 reviews
EXACT = 1e-4  # a difference of gradients, relative to the largest coordinate: float32 has rounding
REPLACED, DELETED = "replaced", "deleted"
EXPLAINERS = "explainers"  # the audit
NO_CHECKPOINT = "the authors' network is not published, and another training gives words other weights"
UNPUBLISHED_REVIEW = "the review of Figure 4 is not published, only ten of its words are"


@dataclass(frozen=True)
class Lopardo2024(Paper):
    """Networks of one layer, `seeds` of them, and of six layers, `deep_seeds`; explainers and theorems on the former.

    `train` limits the training reviews (default: four fifths of those that are not test), `tested` the test reviews;
    `epochs` are those of a network. `deep_train` and `deep_epochs` are for six layers, which take 45 ms of CPU time
    for a review. `lazy` trains the vectors of a batch's words only. Theorems are tested on `scored` reviews of
    `shortest` to `longest` words, LIME with `runs` of `samples`; explainers are audited on `audited` reviews.
    """

    seeds: Count = 3
    deep_seeds: Count = 3
    train: Count | None = None
    deep_train: Count | None = None
    tested: Count | None = None
    epochs: Count = 10
    deep_epochs: Count = 10
    lazy: bool = False
    scored: Count = 100
    shortest: Count = 80
    longest: Count = 120
    runs: Count = 5
    samples: Count = 5000
    audited: Count = 100

    summary: ClassVar[str] = "attention, gradients and LIME of a multi-head network, and the theorems that relate them"
    paper: ClassVar[str] = "Lopardo et al. 2024"
    title: ClassVar[str] = "Attention Meets Post-hoc Interpretability"
    question: ClassVar[str] = "Are gradients and LIME what the theorems say, and do they see more than attention?"
    reading: ClassVar[str] = (
        "The explained number is the logit of the second label. Networks attend to padding, as the authors' do. Their "
        "LIME deletes words, although theorem 5.1 is about words that are replaced in place: both are measured. Their "
        "numbers of LIME are of one review; ours are means over reviews of like length, and what is inside spans a "
        "single review."
    )
    networks: ClassVar[str] = "multihead, multihead-6"
    yields: ClassVar[str] = "accuracies, the seven explainers of Figure 1, maps of all heads, Figures 4 and 5"
    data: ClassVar[tuple[DataSet, ...]] = (replace(IMDB, embedded=True),)
    minutes: ClassVar[Mapping[str, float]] = {"smoke": 0.1, "quick": 23}
    smoke: ClassVar[Mapping[str, Any]] = {
        "seeds": 1, "deep_seeds": 1, "train": 60, "deep_train": 20, "tested": 20, "epochs": 1, "deep_epochs": 1,
        "scored": 2, "shortest": 4, "longest": 40, "runs": 2, "samples": 40, "audited": 4,
    }  # fmt: skip
    quick: ClassVar[Mapping[str, Any]] = {
        "deep_seeds": 1, "deep_train": 3000, "tested": 5000, "deep_epochs": 3, "lazy": True, "scored": 30,
        "audited": 40,
    }  # fmt: skip
    measures: ClassVar[Mapping[str, Measure]] = {
        "pearson": Measure("Pearson's r of a form of LIME's limit with LIME's mean", range=(-1.0, 1.0)),
        "kendall": Measure("Kendall's τ-b of the same", range=(-1.0, 1.0)),
        "distance": Measure("L2 distance of the same"),
        "relative distance": Measure("the same, relative to the length of LIME's mean"),
        "gradient difference": Measure("largest difference from autograd, relative to the largest coordinate"),
    }

    def __call__(self, trial: Trial) -> Result:
        """Accuracies, explainers and theorems."""
        if not trial.subjects:
            return self.result(trial, NAME, {})
        settings = {"lazy": self.lazy, "epochs": self.epochs, "masked": False}
        one = replace(self._divided(trial, self.train), recipe="multihead", settings=settings)
        ones = trained_subjects(trial, _named(ONE, one, self.seeds))
        first = next(iter(ones.values()))
        reviews = self._reviews(first)
        compared = self._compared(trial, ones, reviews)
        sentences = {name: trial.step(f"sentence {name}", lambda n=n: _sentence(n)) for name, n in ones.items()}  # type: ignore[misc]
        figures = trial.step("figures", lambda: _figures(_of(first), self._runs(trial)))
        methods = [*_explainers(min(1000, self.samples)).values(), "leave-one-out"]
        checks = ["input-erasure", "agreement"]
        plan = AuditPlan(first, self.audited, {"checks": checks, "methods": methods})
        audit = run_audits(trial, {EXPLAINERS: plan})[EXPLAINERS]
        # last, because they take longest and the rest does not need them
        deep = {"lazy": self.lazy, "epochs": self.deep_epochs}
        six = replace(self._divided(trial, self.deep_train), recipe="multihead-6", settings=deep)
        networks = ones | trained_subjects(trial, _named(SIX, six, self.deep_seeds))
        measured = self._accuracies(trial, networks) | self._theorem(compared) | _sentence_numbers(sentences)
        return self.result(
            trial,
            NAME,
            measured,
            [*_gradient_claims(compared), *_audit_claims(audit)],
            texts=self._texts(networks, len(reviews)),
            models={name: trial.model_path(name) for name in networks},
            parts=part_paths([EXPLAINERS]),
            notes=(f"Theorems are tested on {len(reviews):,} reviews of {self.shortest} to {self.longest} words.",),
            details={"figures": figures},
            rows=self._rows(compared),
        )

    def missing(self, trial: Trial) -> dict[str, str]:
        """Data sets that were not found, and a review that is not published."""
        return super().missing(trial) | {"": UNPUBLISHED_REVIEW}

    # networks and texts

    def _divided(self, trial: Trial, train: int | None) -> Subject:
        """Four fifths of the reviews that are not test for training, one fifth for dev, as in the paper."""
        subject = trial.subject
        pool, test = [*subject.splits.train, *subject.splits.dev], subject.splits.test
        chosen = [pool[i] for i in order(pool, trial.seed)]
        n = min(train or len(pool), round(TRAIN_SHARE * len(pool)))
        tested = [test[i] for i in order(test, trial.seed)][: self.tested]
        dev = round(n * (1 / TRAIN_SHARE - 1))
        return replace(subject, splits=Splits(chosen[:n], chosen[n : n + dev], tested))

    def _reviews(self, subject: Subject) -> list[str]:
        """Test reviews of like length, of words alone, as the authors prepare theirs for LIME."""
        texts = (" ".join(re.findall(r"[A-Za-z0-9]+", e.text)) for e in subject.splits.test)
        return [text for text in texts if self.shortest <= len(text.split()) <= self.longest][: self.scored]

    def _texts(self, networks: Mapping[str, Subject], reviews: int) -> tuple[TextsUsed, ...]:
        """What each part of the data was used for."""
        used = []
        for kind in (ONE, SIX):
            parts = next(network.splits for name, network in networks.items() if name.startswith(kind))
            for split, use in self.uses.items():
                examples = getattr(parts, split)
                used.append(TextsUsed(f"{use} ({kind})", split, len(examples), fingerprint(examples)))
        test = used[-1]
        return (*used, TextsUsed("theorems are tested", "test", reviews, test.fingerprint))

    def _runs(self, trial: Trial) -> Runs:
        return Runs(runs=self.runs, samples=self.samples, seed=trial.seed)

    def _compared(self, trial: Trial, networks: Mapping[str, Subject], reviews: Sequence[str]) -> list[list[Any]]:
        """[network][review]: each compared with theory, in a step of its own."""
        steps = {
            f"theory {name} {i:04d}": (_of(network), text)
            for name, network in networks.items()
            for i, text in enumerate(reviews)
        }
        found = trial.steps("theory", list(steps), lambda step: _compare(*steps[step], self._runs(trial)))
        n = len(reviews)
        return [found[k : k + n] for k in range(0, len(found), n)] if n else []

    # numbers

    def _accuracies(self, trial: Trial, networks: Mapping[str, Subject]) -> dict[Key, Measurement]:
        measured = {}
        for kind in (ONE, SIX):
            own = {name: network for name, network in networks.items() if name.startswith(kind)}
            parts = next(iter(own.values())).splits
            sizes = f"{len(parts.train):,} training, {len(parts.dev):,} dev and {len(parts.test):,} test reviews"
            more = ", residual connections, padding masked" if kind == SIX else ""
            lazy = ", word vectors are updated lazily" if self.lazy else ""
            ours = measurement_of([_accuracy(trial, name, len(parts.test)) for name in own], sizes + more + lazy, 100)
            limit = self.deep_train if kind == SIX else self.train
            fewer = "" if limit is None else f"trained on {len(parts.train):,} reviews (the paper: 20,000)"
            measured[ACCURACY, IMDB.name, kind, "test accuracy"] = replace(ours, incomparable=fewer)
        return measured

    def _theorem(self, compared: Sequence[Sequence[Any]]) -> dict[Key, Measurement]:
        """Theorem 5.1 against LIME that deletes words. `error` is the deviation over texts: the paper has one text."""
        measured = {}
        columns = {"Pearson": "pearson", "Kendall": "kendall", "L2 distance": "distance"}
        for column, measure in columns.items():
            each = [stats.estimate(_values(texts, DELETED, "paper", measure)) for texts in compared]
            if not each or not all(e.n > 1 for e in each):
                continue
            differs = f"mean over {each[0].n} reviews of {self.shortest} to {self.longest} words (the paper: one of 99)"
            deviation = float(np.sqrt(np.mean([e.std**2 * e.n / (e.n - 1) for e in each])))
            measured[LIME_TABLE, IMDB.name, "all words", column] = replace(
                measurement_of(each, differs), error=deviation
            )
        return measured

    def _rows(self, compared: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
        """The agreement of every form with LIME, and the gradient's with theorem 4.1, for every network."""
        kinds = [(REPLACED, form) for form in FORMS] + [(DELETED, "paper")]
        rows = []
        for network, texts in enumerate(compared):
            for words, form in kinds:
                for measure in ("pearson", "kendall", "distance", "relative distance"):
                    values = _values(texts, words, form, measure)
                    at: dict[str, str | int | float] = {"words": words, "network": network}
                    rows.append(row_of(NAME, self.measures, measure, values, form, at))
            for name in ("theory", "published, first token", "published, other tokens"):
                values = np.array([text["gradient"][name] for text in texts], dtype=np.float64)
                rows.append(row_of(NAME, self.measures, "gradient difference", values, name, {"network": network}))
        return tuple(rows)


def _named(kind: str, subject: Subject, seeds: int) -> dict[str, Subject]:
    return {f"{kind}, seed {seed}": network for seed, network in with_seeds(subject, seeds).items()}


def _of(subject: Subject) -> Classifier:
    assert subject.classifier is not None
    return subject.classifier


def _accuracy(trial: Trial, name: str, n: int) -> stats.Estimate:
    """The test accuracy of a trained network as an estimate over its n test texts."""
    record = finished_record(trial.store.model(name))
    assert record is not None
    right = round(record["test"]["accuracy"] * n)
    return stats.estimate(np.repeat([1.0, 0.0], [right, n - right]), "rate")


def _explainers(samples: int) -> dict[str, Method]:
    """The explainers of Figure 1 by their names in the paper. LIME deletes words, as the authors' does."""
    return {
        "α-avg": AttentionMean(),
        "α-max": AttentionMax(),
        "lime": Lime(masking="delete", samples=samples),
        "G-avg": GradientMean(),
        "G-l1": GradientL1(),
        "G-l2": GradientL2(),
        "G×I": GradientXInput(positions=True),
    }


# one network


def _compare(classifier: Classifier, text: str, runs: Runs) -> dict[str, Any]:
    """LIME that replaces words, and LIME that deletes them, with the forms of the limit; the gradient with theory."""
    comparison = compare_with_theory(classifier, text, runs, POSITIVE)
    deleting = lime_runs(classifier, text, runs, replace(runs.lime(), masking="delete"), POSITIVE).mean(0)
    slopes = comparison.gradients.summary()
    largest = slopes["largest"] or 1.0
    return {
        REPLACED: {form: _agreement(comparison.forms[form], comparison.mean) for form in FORMS},
        DELETED: {"paper": _agreement(comparison.forms["paper"], deleting)},
        "gradient": {
            "theory": slopes["worst"] / largest,
            "published, first token": slopes["worst_as_stated"] / largest,
            "published, other tokens": slopes["worst_as_stated_elsewhere"] / largest,
        },
    }


def _agreement(predicted: Floats, measured: Floats) -> dict[str, float | None]:
    near = closeness(predicted, measured)
    return {
        "pearson": near.pearson,
        "kendall": near.kendall,
        "distance": float(np.linalg.norm(predicted - measured)),
        "relative distance": near.off,
    }


def _values(texts: Sequence[Any], words: str, form: str, measure: str) -> Floats:
    """A number of each text; NaN where there is none."""
    return np.array([text[words][form][measure] for text in texts], dtype=np.float64)


def _sentence(subject: Subject) -> dict[str, Any]:
    """The authors' sentence: its logits, its words by every explainer, and the first coordinate of [CLS]'s gradient."""
    classifier = _of(subject)
    explainers = _explainers(5000)
    whys = explain(classifier, SENTENCE, list(explainers.values()), POSITIVE)
    slopes = compare_gradients(classifier, whys[0].tokens, whys[0].target.resolved(classifier.labels, POSITIVE))
    words: dict[str, dict[str, float]] = {}
    for name, why in zip(explainers, whys, strict=True):
        assert isinstance(why, Attribution)
        for word, score in why.by("word").as_list():
            words.setdefault(word, {})[name] = score
    return {
        "logits": list(whys[0].prediction.logits),
        "words": words,
        "first coordinate": {"theorem 4.1": slopes.published[0, 0], "autograd": slopes.autograd[0, 0]},
    }


def _figures(classifier: Classifier, runs: Runs) -> dict[str, Any]:
    """Of one network: attention of every head and every coordinate for the sentence, LIME's runs for the review."""
    weights = explain(classifier, SENTENCE, "attention-weights", POSITIVE)
    assert isinstance(weights, Interaction)
    tokens, target = weights.tokens, weights.target.resolved(classifier.labels, POSITIVE)
    slopes = {name: np.round(x, 10) for name, x in asdict(compare_gradients(classifier, tokens, target)).items()}
    lime = compare_with_theory(classifier, REVIEW, runs, POSITIVE)
    return {
        "tokens": [tokens.surface(i) for i in range(len(tokens))],
        "attention": np.round(weights.weights[0].astype(np.float64), 5),
        "gradients": {name: slopes[name] for name in ("autograd", "theory", "published")},
        "words": [lime.words[j] for j in lime.order],
        "runs": np.round(lime.runs[:, lime.order].T, 7),
        "forms": {form: np.round(lime.forms[form][lime.order], 7) for form in FORMS},
        "agreement": {form: asdict(lime.agreement(form)) for form in FORMS},
    }


# published numbers and findings


def _sentence_numbers(sentences: Mapping[str, Any]) -> dict[Key, Measurement]:
    """Figure 1 and the first coordinate, means over networks: shown, not judged."""
    found = list(sentences.values())
    numbers: dict[Key, list[float]] = {
        (CLS_TABLE, IMDB.name, "[CLS]", column): [f["first coordinate"][column] for f in found]
        for column in ("theorem 4.1", "autograd")
    }
    for i, label in enumerate(("negative", "positive")):
        numbers[SENTENCE_TABLE, IMDB.name, "logits", label] = [f["logits"][i] for f in found]
    for word in SENTENCE.split():
        for explainer in _explainers(2):
            numbers[SENTENCE_TABLE, IMDB.name, word, explainer] = [f["words"][word][explainer] for f in found]
    measured = {}
    for key, values in numbers.items():
        # one sentence: no text is sampled
        ours = measurement_of([stats.Estimate(1, 0, x, x, 0.0, x, x) for x in values])
        measured[key] = replace(ours, incomparable=NO_CHECKPOINT)
    return measured


def _gradient_claims(compared: Sequence[Sequence[Any]]) -> list[Claim]:
    """Theorem 4.1 as published, for [CLS] and for all other tokens: the mean over networks of each text."""
    if not compared:
        return []
    claims = []
    for name, who in (("published, other tokens", "every token but [CLS]"), ("published, first token", "[CLS]")):
        values = np.array([[text["gradient"][name] for text in texts] for texts in compared]).mean(0)
        (difference,) = stats.decide([stats.paired(values, np.zeros_like(values))])
        assert difference is not None
        finding, measure = f"theorem 4.1 is the gradient of {who}", f"largest difference, {who}, relative"
        claims.append(Claim(finding, "theorem 4.1", IMDB.name, measure, difference, "equal", EXACT))
    return claims


def _audit_claims(audit: Audit) -> list[Claim]:
    """Post-hoc methods capture more than attention: what is lost without the words that each of them ranks first."""
    findings = audit.record.findings("input-erasure")
    at, measure = {"masking": "delete"}, "aopc comprehensiveness"
    attention = findings.values(measure, "attention-mean", at)
    gradients = {f"gradient-{kind}": name for kind, name in (("l1", "G-l1"), ("l2", "G-l2"), ("mean", "G-avg"))}
    names = {"lime": "LIME", "gradient-x-input": "G×I"} | gradients
    differences = stats.decide([stats.paired(findings.values(measure, name, at), attention) for name in names])
    return [
        Claim(
            f"{name} captures more useful insights than attention weights",
            "the abstract",
            IMDB.name,
            f"comprehensiveness, {name} − α-avg",
            difference,
            "higher",
        )
        for name, difference in zip(names.values(), differences, strict=True)
        if difference is not None
    ]
