"""Making cases: texts are cut and predicted, and every method explains them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from heedful.checks.base import DRAWS, Case
from heedful.core.errors import HeedfulError, apart
from heedful.core.explanation import Attribution, Explanation
from heedful.core.metering import Meter, metered
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.data import Example
from heedful.methods import Method
from heedful.methods.controls import Random
from heedful.methods.explain import attempted
from heedful.model.classifier import Classifier


@dataclass
class Made:
    """Cases by the example's number, why a text or a method is absent, and what each method took."""

    cases: dict[int, Case] = field(default_factory=dict)
    absent: dict[tuple[int, str], str] = field(default_factory=dict)
    meters: dict[str, Meter] = field(default_factory=dict)


def cases(
    classifier: Classifier,
    examples: Sequence[Example],
    methods: Mapping[str, Method],
    target: Target | None = None,
    seed: int = 0,
    others: Mapping[str, Classifier] | None = None,
    tell: Callable[[int, str], None] = lambda i, name: None,
) -> Made:
    """A case for each example. A text that the model cannot read, or a method that cannot explain it, is told apart."""
    made = Made()
    cut: dict[int, Tokens] = {}
    for i, example in enumerate(examples):
        try:
            cut[i] = classifier.tokens(example.text, example.pair).cut(classifier.limit)
        except HeedfulError as e:
            made.absent[i, ""] = str(e)
    said = dict(zip(cut, apart(classifier.predictions, list(cut.values())), strict=True))
    made.absent |= {(i, ""): str(one) for i, one in said.items() if isinstance(one, HeedfulError)}
    predictions = {i: one for i, one in said.items() if not isinstance(one, HeedfulError)}
    numbers, cut = list(predictions), {i: cut[i] for i in predictions}
    if not numbers:
        return made
    wanted = target or Target()
    targets = {i: wanted.resolved(classifier.labels, predictions[i].index) for i in numbers}
    whys: dict[int, dict[str, Explanation]] = {i: {} for i in numbers}
    for n, (name, method) in enumerate(methods.items()):
        tell(n, name)
        with metered() as made.meters[name]:
            answers = attempted(classifier, method, list(cut.values()), list(targets.values()), seed)
        for i, found in zip(numbers, answers, strict=True):
            if isinstance(found, HeedfulError):
                made.absent[i, name] = str(found)
            else:
                whys[i][name] = replace(found, prediction=predictions[i])
    for i in numbers:
        case = Case(
            classifier, examples[i], cut[i], predictions[i], targets[i], methods, whys[i], (), seed, others or {}
        )
        made.cases[i] = replace(case, draws=_draws(case))
    return made


def _draws(case: Case) -> tuple[Attribution, ...]:
    rngs = (case.rng("random", i) for i in range(DRAWS))
    return tuple(Random()(case.classifier, case.tokens, case.target, rng) for rng in rngs)
