"""Closed forms of gradients and LIME for a single-layer attention classifier (Lopardo et al. 2024).

Computed from the network's matrices: no forward pass, no samples. For `heedful.nets.MultiHead` only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.errors import BadInput, Unsupported
from heedful.core.explanation import Attribution
from heedful.core.settings import Checked, Gt, Must
from heedful.core.target import Head, Target
from heedful.core.tokens import Tokens
from heedful.maths import theory
from heedful.methods.base import Passes, array
from heedful.methods.gradient import SIGNED, GradientReduction, reduce_gradient
from heedful.model.classifier import Classifier
from heedful.model.function import Plain
from heedful.model.masking import TOKENS, features, stand_in
from heedful.nets import MultiHead


def check_token_masking(way: str) -> None:
    """Raise BadInput for a masking that does not replace words by a token."""
    word = way.removeprefix("token:")
    if way not in TOKENS and (word == way or not word.strip()):
        raise BadInput(f"masking '{way}' replaces no word by a token; use {', '.join(TOKENS)} or token:WORD.")


TokenMasking = Annotated[str, Must(check_token_masking)]


@dataclass(frozen=True)
class _ClosedForm(Checked):
    """A method that needs only the matrices of the paper's network."""

    needs: ClassVar[tuple[str, ...]] = ("heedful.nets.MultiHead",)
    standard: ClassVar[Mapping[str, Any] | None] = {}

    @staticmethod
    def applies(classifier: Classifier) -> bool:
        """Whether it is the network of the paper."""
        return not isinstance(classifier, Plain) and isinstance(classifier.model, MultiHead)

    def passes(self, classifier: Classifier, tokens: Tokens) -> Passes:
        """No pass: the matrices are enough."""
        return Passes(0)


@dataclass(frozen=True)
class TheoryGradient(_ClosedForm):
    """The gradient with respect to e_t = word vector + position, by Theorem 4.1, as a number for each token.

    "x-input" multiplies it with e_t, position included, as the authors do. Without `query_term` the first token's row
    is that of the published theorem, which omits that this token also makes the query.
    """

    reduce: GradientReduction = "l2"
    query_term: bool = True

    summary: ClassVar[str] = "gradient from the matrices of an attention classifier"
    paper: ClassVar[str] = "Lopardo et al. 2024, theorem 4.1"

    def __call__(self, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator) -> Attribution:
        """Theorem 4.1, a number for each token."""
        vectors, slopes = theory_gradient(classifier, tokens, target, self.query_term)
        scores = reduce_gradient(self.reduce, torch.from_numpy(vectors), torch.from_numpy(slopes))
        return Attribution(tokens=tokens, scores=array(scores), signed=self.reduce in SIGNED)


def theory_gradient(
    classifier: Classifier, tokens: Tokens, target: Target, query_term: bool = True
) -> tuple[Float[Floats, "t e"], Float[Floats, "t e"]]:
    """e_t of each token, and every coordinate of the gradient with respect to it by Theorem 4.1."""
    network = _network(classifier, "theory-gradient")
    ids = _filled(network, tokens)
    vectors = _words(network, ids) + _wide(network.positions[: len(ids)])
    slopes = theory.gradient(_heads(classifier, network, target), vectors, query_term)
    return vectors[: len(tokens)], slopes[: len(tokens)]


@dataclass(frozen=True)
class TheoryLime(_ClosedForm):
    """The limit of LIME's coefficients for infinitely many samples, which replace words by one token.

    Features are the distinct words; a word's coefficient is divided among the pieces of all its occurrences. `form` is
    "exact", "derived" (the mean of a ratio approximated by the ratio of means) or "paper" (Theorem 5.1, which has no
    `kernel_width`). `kernel_width=None` gives all samples the same weight.
    """

    form: Literal["exact", "derived", "paper"] = "exact"
    kernel_width: Annotated[float, Gt(0)] | None = 0.25
    masking: TokenMasking = "unk"

    summary: ClassVar[str] = "LIME's limit from the matrices of an attention classifier"
    paper: ClassVar[str] = "Lopardo et al. 2024, theorem 5.1"

    def __call__(self, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator) -> Attribution:
        """LIME's limit."""
        network = _network(classifier, "theory-lime")
        if not tokens.special[0]:
            raise Unsupported(
                f"{classifier.name}: its tokenizer puts no special token first, so a word makes the query; theory-lime "
                "needs a query that does not change."
            )
        groups = features(tokens, "bag")
        word = {i: j for j, group in enumerate(groups) for i in group}
        ids = _filled(network, tokens)
        at = np.array([word.get(i, -1) for i in range(len(ids))])  # special tokens and padding stay
        words = _words(network, [*ids, stand_in(classifier, self.masking)])
        positions = _wide(network.positions[: len(ids)])
        vectors = words[:-1] + positions
        replaced = np.where(at[:, None] < 0, vectors, words[-1] + positions)
        masses = theory.masses(_heads(classifier, network, target), vectors, replaced, at)
        if self.form == "paper":
            coefficients = theory.lime_paper(masses)
        else:
            lime = theory.lime_exact if self.form == "exact" else theory.lime_derived
            coefficients = lime(masses, self.kernel_width)
        shares = coefficients / [len(group) for group in groups]
        scores = np.append(shares, 0.0)[at[: len(tokens)]]  # −1, what stays, is the last
        return Attribution(tokens=tokens, scores=scores, signed=True, details={"words": len(groups)})


def _network(classifier: Classifier, method: str) -> MultiHead:
    if not isinstance(classifier.model, MultiHead):
        raise Unsupported(
            f"{classifier.name} is a {classifier.architecture}; {method} applies to a heedful.nets.MultiHead, "
            "the single-layer attention classifier of its paper."
        )
    if (layers := classifier.model.config.layers) != 1:
        raise Unsupported(f"{classifier.name} has {layers} layers; {method} applies to one layer of attention.")
    return classifier.model


def _heads(classifier: Classifier, network: MultiHead, target: Target) -> theory.Heads:
    """The matrices, with the row of W_ℓ that makes the target: a logit, or the difference of two."""
    if target.scale != "logit":
        raise BadInput(f"the target is the {target}, and the theory applies to logits; use scale='logit'.")
    weights = _coefficients(target, len(classifier.labels), classifier.head)
    if network.config.num_labels < len(weights):
        weights = weights[1:] - weights[:1]  # one logit answers yes and no
    return theory.Heads(_wide(network.query), _wide(network.key), _wide(network.value), weights @ _wide(network.out))


@cache
def _coefficients(target: Target, labels: int, head: Head) -> Floats:
    """The coefficient of each logit in the target, which is linear in them."""
    return target.of(torch.eye(labels, dtype=torch.float64), head).numpy()


def _filled(network: MultiHead, tokens: Tokens) -> list[int]:
    """The ids that the network reads: up to its last position where it has no mask for padding."""
    spare = 0 if network.config.masked else len(network.positions) - len(tokens)
    return [*tokens.ids, *[network.config.pad_token_id] * spare]


def _words(network: MultiHead, ids: list[int]) -> Floats:
    table = network.words.weight.detach()
    return _wide(table.index_select(0, torch.from_numpy(np.array(ids)).to(table.device)))


def _wide(matrix: Tensor) -> Floats:
    return matrix.detach().cpu().double().numpy()
