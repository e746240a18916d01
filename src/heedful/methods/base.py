"""What the built-in methods share: running over several texts of like length at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.core.explanation import Explanation
from heedful.core.settings import Checked
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.model.classifier import Classifier


@dataclass(frozen=True)
class Passes:
    """What an explanation will cost: texts sent through the model, forward and backward. `exactly`, or at most."""

    forwards: int
    backwards: int = 0
    exactly: bool = True


def total(passes: Iterable[Passes]) -> Passes:
    """The sum; exact where every part is."""
    every = list(passes)
    return Passes(
        sum(p.forwards for p in every), sum(p.backwards for p in every), exactly=all(p.exactly for p in every)
    )


@runtime_checkable
class Method(Protocol):
    """What a method answers. Three more are optional:

    `many(classifier, texts, targets, rngs)` does the same for several texts at once, for speed;
    `passes(classifier, tokens)` says what one explanation will cost, before it is made;
    `applies(classifier)` says whether it is made for this architecture: an audit by default has only those that are.

    Its settings are the dataclass's fields. Class attributes say the rest; all but the first two are optional:

    summary, paper    one line on what it is, and where it comes from
    aliases           other names
    needs             what a model must give beside predictions, such as "attention" or "gradients"
    quick             its settings in a quick audit; without it, or with None, a quick audit leaves it out
    probe             settings just large enough to try whether it works on a model
    reads_attention   whether it is a reading of attention, on which an audit gives a verdict
    scores_tokens     False where its explanations are not a score for each token
    """

    def __call__(self, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator) -> Explanation:
        """Explain one prediction. The target is resolved; `rng` is the only source of chance."""
        ...


def passes(method: Method, classifier: Classifier, texts: Iterable[Tokens]) -> Passes | None:
    """What a method will cost on these texts, each as the model will read it; None where it does not say."""
    count = getattr(method, "passes", None)
    return None if count is None else total(count(classifier, tokens) for tokens in texts)


class Together(Checked):
    """A method that works on several texts at once, and so on one."""

    def __call__(self, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator) -> Explanation:
        """Explain one prediction."""
        return self.many(classifier, [tokens], [target], [rng])[0]

    def many(
        self,
        classifier: Classifier,
        texts: Sequence[Tokens],
        targets: Sequence[Target],
        rngs: Sequence[torch.Generator],
    ) -> list[Explanation]:
        """Explain several predictions of texts that fit one batch."""
        raise NotImplementedError


def array(values: Tensor) -> NDArray[np.float64]:
    """Numbers out of torch."""
    return values.detach().double().cpu().numpy()


def chance(rng: torch.Generator) -> np.random.Generator:
    """The same chance for numpy."""
    return np.random.default_rng(int(torch.randint(2**62, (), generator=rng)))


def real(classifier: Classifier, tokens: Tokens, width: int) -> slice:
    """Where a text stands in its padded row of the given width."""
    pad = width - len(tokens)
    return slice(pad, width) if pad and classifier.padding == "left" else slice(0, len(tokens))
