"""The protocol of methods, their cost in passes, and what the built-in methods share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Generator, Tensor

from heedful.core.arrays import Floats
from heedful.core.explanation import Explanation
from heedful.core.settings import Checked
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.model.classifier import Classifier


@dataclass(frozen=True)
class Passes:
    """The cost of an explanation: forward and backward passes of one text each; an upper bound unless `exactly`."""

    forwards: int
    backwards: int = 0
    exactly: bool = True


def total(passes: Iterable[Passes]) -> Passes:
    """The sum; exact if every part is."""
    parts = list(passes)
    return Passes(sum(p.forwards for p in parts), sum(p.backwards for p in parts), all(p.exactly for p in parts))


@runtime_checkable
class Method(Protocol):
    """A method explains a prediction. Three more functions are optional:

    `many(classifier, texts, targets, rngs)` explains several texts at once, for speed;
    `passes(classifier, tokens)` returns the cost of one explanation, without running the model;
    `applies(classifier)` returns whether the method fits this architecture; an audit omits those that do not.

    Its settings are the fields of the dataclass. The class attributes are these; all but the first two are optional:

    summary, paper    one line that describes it, and its source
    aliases           other names
    needs             what a model must provide besides predictions, such as "attention" or "gradients"
    standard          its settings in the profiles verdict and standard, which omit it without them, or with None
    jain2019          its settings in the protocol of that paper, of which it is then a part
    probe             the smallest settings that show whether it works on a model
    reads_attention   True if its scores are attention weights, on which an audit gives a verdict
    scores_tokens     False if its explanations are not a score for each token
    """

    def __call__(self, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator) -> Explanation:
        """Explain one prediction. The target is resolved; `rng` is the only source of randomness."""
        ...


def passes(method: Method, classifier: Classifier, texts: Iterable[Tokens]) -> Passes | None:
    """The cost of a method on these texts, each as the model will read it; None if the method has no `passes`."""
    count = getattr(method, "passes", None)
    return None if count is None else total(count(classifier, tokens) for tokens in texts)


class BatchMethod(Checked):
    """A method that explains a batch of texts at once; a single text is a batch of one."""

    def __call__(self, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator) -> Explanation:
        """Explain one prediction."""
        return self.many(classifier, [tokens], [target], [rng])[0]

    def many(
        self, classifier: Classifier, texts: Sequence[Tokens], targets: Sequence[Target], rngs: Sequence[Generator]
    ) -> list[Explanation]:
        """Explain one prediction for each text; the texts fit one batch."""
        raise NotImplementedError


def array(values: Tensor) -> Floats:
    """A tensor as a numpy array in float64."""
    return values.detach().cpu().double().numpy()


def numpy_generator(rng: torch.Generator) -> np.random.Generator:
    """A numpy generator seeded by the next draw of this one."""
    return np.random.default_rng(int(torch.randint(2**62, (), generator=rng)))


def text_slice(classifier: Classifier, tokens: Tokens, width: int) -> slice:
    """The columns of a text in its padded row of the given width."""
    pad = width - len(tokens)
    return slice(pad, width) if pad and classifier.padding == "left" else slice(0, len(tokens))
