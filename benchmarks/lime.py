"""LIME: seconds against the `lime` package on the same masks, and passes to a given error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.leave_one_out import bf16
from benchmarks.material import Scale, default, documents, large, named, resolved, sentences, trained
from benchmarks.measure import Report, Row, Timed, apart, between, in_turns, l2, total
from heedful.core.arrays import Bools, Floats
from heedful.core.tokens import Tokens
from heedful.maths.lime import Design, Fit, design, fit_surrogate, smooth_fit
from heedful.methods.base import numpy_generator
from heedful.methods.lime import Lime
from heedful.model.classifier import Classifier
from heedful.model.inference import Engine, Precision
from heedful.model.masking import Variants, features, over_positions

JOB = "lime"
ROWS = 64  # texts per call of the model, as lime's users write it
WIDTH, RIDGE = 0.25, 1.0


def predict(classifier: Classifier, rows: int = ROWS) -> Callable[[Sequence[str]], Floats]:
    """The function that lime asks: texts -> probabilities."""

    def answer(texts: Sequence[str]) -> Floats:
        parts = []
        for i in range(0, len(texts), rows):
            some = classifier.tokenizer(list(texts[i : i + rows]), padding=True, truncation=True, return_tensors="pt")
            with torch.inference_mode():
                parts.append(classifier.model(**some).logits.softmax(-1).double())
        return torch.cat(parts).numpy()

    return answer


class Theirs:
    """lime's explainer, and the masks that it drew."""

    def __init__(self, answer: Callable[[Sequence[str]], Any], **settings: Any) -> None:
        from lime.lime_text import LimeTextExplainer

        self.answer = answer
        self.explainer = LimeTextExplainer(feature_selection="none", **settings)
        self.masks = np.zeros((0, 0), bool)
        fitted = self.explainer.base.explain_instance_with_data

        def recorded(data: Any, *args: Any, **more: Any) -> Any:
            self.masks = data.astype(bool)
            return fitted(data, *args, **more)

        self.explainer.base.explain_instance_with_data = recorded

    def __call__(self, text: str, label: int, samples: int) -> Floats:
        """A coefficient for each of lime's words."""
        made = self.explainer.explain_instance(
            text, self.answer, labels=(label,), num_features=10_000, num_samples=samples
        )
        return np.array([value for _, value in sorted(made.local_exp[label])])


def groups_of(tokens: Tokens) -> list[list[int]]:
    """The tokens of each of lime's words."""
    from lime.lime_text import IndexedString

    text = IndexedString(tokens.text, bow=True)
    found = []
    for word in range(text.num_words()):
        ends = [(int(start), int(start) + len(text.word(word))) for start in text.string_position(word)]
        inside = [
            i
            for i, span in enumerate(tokens.spans)
            if span is not None and not tokens.special[i] and any(a <= span[0] and span[1] <= b for a, b in ends)
        ]
        found.append(inside)
    return found


def run(scale: Scale) -> Report:
    """Sentences on the trained model; a document and BERT-base with fewer samples."""
    classifier = trained()
    rows = _rows(classifier, sentences(scale.few(5)), "25 tokens", 1000, scale.few(2))
    if not scale.quick:
        rows += _rows(classifier, documents(1), "200 tokens", 500, 1)
        rows += _rows(large(), sentences()[:1], "25 tokens", 300, 1)
    return Report(rows)


def _text(classifier: Classifier, text: str, samples: int, rounds: int) -> dict[str, Timed]:
    tokens = classifier.tokens(text)
    target = resolved(classifier, tokens, "probability")

    def theirs() -> tuple[Floats, Bools]:
        package = Theirs(predict(classifier), random_state=0)
        assert isinstance(target.label, int)
        return package(text, target.label, samples), package.masks

    masks = theirs()[1]  # also warms up

    def ours(precision: Precision) -> Floats:
        cut = classifier.tokens(text)
        keep = over_positions(groups_of(cut), masks, len(cut))
        rng = torch.Generator().manual_seed(0)
        found = Engine(classifier, precision, rng).ask([Variants(cut, keep)])
        return fit_surrogate(_plainly(masks), found.values(classifier, target), WIDTH, RIDGE).coefficients

    timed = in_turns({"theirs": theirs, "ours": lambda: ours("float32")}, rounds)
    return timed | in_turns({"bf16": lambda: ours("bf16")}, 1)


def _rows(classifier: Classifier, texts: tuple[str, ...], on: str, samples: int, rounds: int) -> list[Row]:
    timed = [_text(classifier, text, samples, rounds) for text in texts]
    aimed = on == "25 tokens" and classifier is trained()
    return [
        Row(
            job=f"{JOB}, {samples} samples, same masks{', bf16' if side == 'bf16' else ''}",
            on=f"{on}, {named(classifier)}",
            against=f"lime, {ROWS} texts at a time",
            theirs=total(timed, "theirs"),
            ours=total(timed, side),
            target=aim if aimed else None,
            between=between(timed, "theirs", side),
            agreement=f"coefficients differ by at most {_worst(timed, side):.1e}",
            remark=bf16() if side == "bf16" else "",
        )
        for side, aim in (("ours", 1.7), ("bf16", 4.0))
    ]


def _worst(timed: Sequence[dict[str, Timed]], side: str) -> float:
    return max(apart(one[side].result, one["theirs"].result[0]) for one in timed)


def _plainly(keep: Bools) -> Design:
    """Samples as lime weighs them."""
    n = len(keep)
    return Design(keep, np.ones(n), np.zeros(n, int), np.arange(n), np.zeros(n, bool))


# passes to an error

WAYS = {
    "plain sampling": Lime(),
    "antithetic": Lime(sampling="antithetic"),
    "stratified": Lime(sampling="stratified"),
    "plain, kriging": Lime(estimator="kriging"),
    "stratified, kriging": Lime(sampling="stratified", estimator="kriging"),
}
OURS, PLAIN, MANY = "stratified, kriging", "plain sampling", 5000
SIZES = (125, 250, 500, 1000, 1500, 2000, 3000, 5000, 8000)
KRIGED = 3000  # more samples than this are not kriged: the time grows with their cube


class Oracle:
    """What a model says of each set of words of one text; every input is run once, whoever asks."""

    def __init__(self, classifier: Classifier, text: str) -> None:
        self.classifier, self.tokens = classifier, classifier.tokens(text)
        self.target = resolved(classifier, self.tokens, "probability")
        self.groups = features(self.tokens, "bag")
        self.engine = Engine(classifier)

    def __call__(self, keep: Bools) -> tuple[Floats, int]:
        """Values, and how many different inputs they needed."""
        found = self.engine.ask([Variants(self.tokens, over_positions(self.groups, keep, len(self.tokens)))])
        return found.values(self.classifier, self.target), len(np.unique(found.which))

    def truth(self, samples: int) -> tuple[Fit, int]:
        """The population's coefficients, from very many stratified samples."""
        made = design(len(self.groups), samples, "stratified", np.random.default_rng(10**6))
        values, passes = self(made.keep)
        return fit_surrogate(made, values, WIDTH, 0.0), passes

    def estimate(self, way: Lime, samples: int, seed: int) -> tuple[Floats, int]:
        """Coefficients without ridge, so that every number of samples has the same coefficients in the limit."""
        rng = numpy_generator(torch.Generator().manual_seed(seed))
        made = design(len(self.groups), samples, way.sampling, rng)
        values, passes = self(made.keep)
        regression = fit_surrogate if way.estimator == "regression" else smooth_fit
        return regression(made, values, WIDTH, 0.0).coefficients, passes


def run_passes(scale: Scale) -> Report:
    """Relative RMS error of the coefficients against passes, on the default model."""
    texts = sentences()[: scale.few(5, 2)]
    curves: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    blur = []
    for text in texts:
        oracle = Oracle(default(), text)
        truth, _ = oracle.truth(scale.few(40_000, 10_000))
        blur.append(float(np.linalg.norm(truth.errors) / np.linalg.norm(truth.coefficients)))
        for name, way in WAYS.items():
            for size in SIZES:
                if way.estimator == "kriging" and size > KRIGED:
                    continue
                for seed in range(scale.few(3)):
                    estimate, passes = oracle.estimate(way, size, seed)
                    found.setdefault((name, size), []).append((passes, l2(estimate, truth.coefficients)))
    for (name, _), each in found.items():
        passes, error = np.array(each).T
        curves[name].append((float(passes.mean()), float(np.sqrt((error**2).mean()))))
    aim = dict(zip(SIZES, curves[PLAIN], strict=True))[MANY]
    return Report(
        [
            Row(
                job="lime, passes to the error of plain sampling at 5000",
                on=f"25 tokens, {named(default())}, {len(texts)} texts",
                against="plain sampling",
                theirs=aim[0],
                ours=needed(curves[OURS], aim[1]),
                target=2.0,
                agreement=f"error {aim[1]:.2%}; the truth's own {float(np.sqrt(np.mean(np.square(blur)))):.2%}",
                unit="passes",
                remark="stratified sampling and kriging",
            )
        ],
        {"lime": curves},
    )


def needed(curve: Sequence[tuple[float, float]], error: float) -> float:
    """Passes at which a falling curve reaches an error, between its points in logarithms; infinity if it never does."""
    passes, errors = np.log(np.array(sorted(curve))).T
    below = np.flatnonzero(errors <= np.log(error))
    if len(below) == 0:
        return float("inf")
    i = int(below[0])
    if i == 0:
        return float(np.exp(passes[0]))
    share = (errors[i - 1] - np.log(error)) / (errors[i - 1] - errors[i])
    return float(np.exp(passes[i - 1] + share * (passes[i] - passes[i - 1])))
