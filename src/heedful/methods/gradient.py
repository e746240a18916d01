"""Gradients of the target with respect to the word vectors, or to an encoder's states.

With `through_attention=False` attention weights are constants, as in Jain & Wallace (2019).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Generator, Tensor

from heedful.core.errors import Unsupported
from heedful.core.explanation import Attribution, Explanation
from heedful.core.settings import Checked, Ge
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.maths.formulas import gauss_legendre, path_integral, straight_path
from heedful.methods.base import BatchMethod, Passes, array, text_slice
from heedful.model.batch import BUDGET, Batch
from heedful.model.classifier import Classifier
from heedful.model.edits import held
from heedful.model.function import Plain
from heedful.model.masking import special_token
from heedful.model.seam import paused

GradientReduction = Literal["mean", "l1", "l2", "x-input"]
SIGNED: tuple[GradientReduction, ...] = ("mean", "x-input")


def reduce_gradient(how: GradientReduction, vectors: Tensor, slopes: Tensor) -> Tensor:
    """[t,d] and [t,d] -> [t]: the mean of the gradient's coordinates, its norm, or its product with the word vector."""
    if how == "x-input":
        return (vectors * slopes).sum(-1)
    if how == "mean":
        return slopes.mean(-1)
    return slopes.abs().sum(-1) if how == "l1" else slopes.pow(2).sum(-1).sqrt()


def _holding(classifier: Classifier, through_attention: bool) -> AbstractContextManager[Any]:
    return nullcontext() if through_attention else classifier.attention(held)


def word_vectors(classifier: Classifier, batch: Batch) -> Tensor:
    """The word vectors that enter the model, from its own embedding table, without a forward pass."""
    table = classifier.model.get_input_embeddings()
    with torch.no_grad(), paused(classifier.model):
        vectors: Tensor = table(batch.ids).clone()
    return vectors


def with_positions(classifier: Classifier, batch: Batch, vectors: Tensor) -> Tensor:
    """Word vectors [b,t,d] plus their positions, for a network that adds these, in float64."""
    find = getattr(classifier.model, "position_vectors", None)
    positions: Tensor | None = None if find is None else find(batch.mask != 0)
    if positions is None:
        raise Unsupported(
            f"{classifier.name} declares no positions that it adds to its word vectors; use positions=false."
        )
    return vectors.cpu().double() + positions.cpu().double()


def gradients(
    classifier: Classifier,
    batch: Batch,
    targets: Sequence[Target],
    through_attention: bool = True,
    by: Literal["words", "states"] = "words",
) -> tuple[Tensor, Tensor]:
    """Word vectors (or encoder states) [b,t,d] and the gradient of each text's target with respect to them."""
    leaves: list[Tensor] = []

    def grow(vectors: Tensor) -> Tensor:
        leaves.append(vectors.detach().clone().requires_grad_())
        return leaves[0]

    place = classifier.embeddings if by == "words" else classifier.states
    with torch.enable_grad(), _holding(classifier, through_attention), place(grow):
        logits = classifier.logits(batch)
        values = torch.cat([t.of(logits[i : i + 1], classifier.head) for i, t in enumerate(targets)])
        slopes = classifier.gradient(values, leaves)[0]
    return leaves[0].detach(), slopes


@dataclass(frozen=True)
class _Gradient(BatchMethod):
    """One gradient, reduced to a number for each token."""

    through_attention: bool = True

    needs: ClassVar[tuple[str, ...]] = ("gradients",)
    reduction: ClassVar[GradientReduction]
    by: ClassVar[Literal["words", "states"]] = "words"

    def factors(self, classifier: Classifier, batch: Batch, vectors: Tensor) -> Tensor:
        """What "x-input" multiplies the gradients [b,t,d] with: the word vectors."""
        return vectors

    def passes(self, classifier: Classifier, tokens: Tokens) -> Passes:
        """One forward and one backward pass."""
        return Passes(1, 1)

    def many(
        self, classifier: Classifier, texts: Sequence[Tokens], targets: Sequence[Target], rngs: Sequence[Generator]
    ) -> list[Explanation]:
        """One forward and one backward pass for all texts."""
        batch = classifier.batch(texts)
        vectors, slopes = gradients(classifier, batch, targets, self.through_attention, self.by)
        factors = self.factors(classifier, batch, vectors)
        explanations: list[Explanation] = []
        for i, tokens in enumerate(texts):
            at = text_slice(classifier, tokens, vectors.shape[1])
            slope = slopes[i, at].cpu().double()
            scores = array(reduce_gradient(self.reduction, factors[i, at].cpu().double(), slope))
            notes = (ROUNDING_NOISE,) if self.reduction == "mean" and _cancels(slope) else ()
            signed = self.reduction in SIGNED
            explanations.append(Attribution(tokens=tokens, scores=scores, signed=signed, notes=notes))
        return explanations


ROUNDING_NOISE = "rounding noise: the model normalises its word vectors, so their gradients add up to zero"


def _cancels(slopes: Tensor) -> bool:
    """Whether coordinates add up to zero, as they do where a LayerNorm follows the word vectors."""
    return bool(slopes.sum(-1).abs().max() < 1e-5 * slopes.abs().sum(-1).max())


@dataclass(frozen=True)
class GradientMean(_Gradient):
    """The mean over the coordinates of the gradient, signed."""

    summary: ClassVar[str] = "mean of the gradient's coordinates"
    paper: ClassVar[str] = "Lopardo et al. 2024"
    aliases: ClassVar[tuple[str, ...]] = ("g-avg",)
    reduction: ClassVar[GradientReduction] = "mean"


@dataclass(frozen=True)
class GradientL1(_Gradient):
    """The L1 norm of the gradient."""

    summary: ClassVar[str] = "L1 norm of the gradient"
    paper: ClassVar[str] = "Li et al. 2016; Lopardo et al. 2024"
    aliases: ClassVar[tuple[str, ...]] = ("g-l1",)
    reduction: ClassVar[GradientReduction] = "l1"


@dataclass(frozen=True)
class GradientL2(_Gradient):
    """The L2 norm of the gradient: saliency."""

    summary: ClassVar[str] = "L2 norm of the gradient (saliency)"
    paper: ClassVar[str] = "Simonyan et al. 2014; Lopardo et al. 2024"
    aliases: ClassVar[tuple[str, ...]] = ("gradient", "saliency", "g-l2")
    standard: ClassVar[Mapping[str, Any] | None] = {}
    reduction: ClassVar[GradientReduction] = "l2"


@dataclass(frozen=True)
class GradientXInput(_Gradient):
    """The gradient times the word vector: what the word adds, to first order.

    With `positions` the input is the word vector plus its position, as in Lopardo et al. 2024: for networks that add
    positions to their word vectors, which MultiHead and Transformer do.
    """

    positions: bool = False

    summary: ClassVar[str] = "gradient times word vector"
    paper: ClassVar[str] = "Denil et al. 2014; Shrikumar et al. 2017"
    key_added: ClassVar[tuple[str, ...]] = ("positions",)
    aliases: ClassVar[tuple[str, ...]] = ("gxi", "input-x-gradient", "gradient-input", "grad-x-input")
    standard: ClassVar[Mapping[str, Any] | None] = {}
    jain2019: ClassVar[Mapping[str, Any]] = {"through_attention": False}
    reduction: ClassVar[GradientReduction] = "x-input"

    def factors(self, classifier: Classifier, batch: Batch, vectors: Tensor) -> Tensor:
        """The word vectors, with their positions if these are asked for."""
        return with_positions(classifier, batch, vectors) if self.positions else vectors


@dataclass(frozen=True)
class GradientXVocabulary(_Gradient):
    """The gradient times the sum of all word vectors of the vocabulary: what the word's place adds, whatever the word.

    "XxE" in Jain & Wallace's program, whose "XxE[X]" is gradient-x-input.
    """

    summary: ClassVar[str] = "gradient times the sum of all word vectors"
    paper: ClassVar[str] = "Jain & Wallace 2019 (program)"
    aliases: ClassVar[tuple[str, ...]] = ("xxe",)
    jain2019: ClassVar[Mapping[str, Any]] = {"through_attention": False}
    reduction: ClassVar[GradientReduction] = "x-input"

    def factors(self, classifier: Classifier, batch: Batch, vectors: Tensor) -> Tensor:
        """The sum over the rows of the table, for each token."""
        table: Tensor = classifier.model.get_input_embeddings().weight
        if table.is_meta:
            raise Unsupported("its word vectors are offloaded, and their sum needs all of them.", classifier.name)
        return table.detach().cpu().double().sum(0).expand(vectors.shape)


@dataclass(frozen=True)
class GradientStates(_Gradient):
    """The sum of the coordinates of the gradient with respect to the encoder's state of the word.

    "H" in Jain & Wallace's program. With attention constant it is the word's attention times a number that all words
    share. For networks with one attention over an encoder's states (bilstm, cnn, average and their pairs).
    """

    summary: ClassVar[str] = "sum of the gradient's coordinates at the encoder's states"
    paper: ClassVar[str] = "Jain & Wallace 2019 (program)"
    aliases: ClassVar[tuple[str, ...]] = ("gradient-h",)
    needs: ClassVar[tuple[str, ...]] = ("gradients", "heedful.nets.Single or Pair")
    jain2019: ClassVar[Mapping[str, Any]] = {"through_attention": False}
    reduction: ClassVar[GradientReduction] = "x-input"
    by: ClassVar[Literal["words", "states"]] = "states"

    @staticmethod
    def applies(classifier: Classifier) -> bool:
        """Whether the network declares its encoder."""
        return not isinstance(classifier, Plain) and hasattr(classifier.model, "state_encoder")

    def factors(self, classifier: Classifier, batch: Batch, vectors: Tensor) -> Tensor:
        """Ones: the coordinates are added up."""
        return torch.ones_like(vectors)


@dataclass(frozen=True)
class SmoothGrad(Checked):
    """The mean of the gradients at noisy copies of the text's word vectors.

    Every coordinate of every token, special tokens too, gets normal noise; its standard deviation is `noise` times the
    range (largest less smallest coordinate) of the text's word vectors. `reduce` makes a score of the mean gradient:
    its norm, or its product with the word vector. The product has standard errors; a norm does not, because the noise
    that remains in the mean biases it upwards, which a standard error would not show.
    """

    noise: Annotated[float, Ge(0)] = 0.1
    samples: Annotated[int, Ge(1)] = 25
    reduce: Literal["l2", "l1", "x-input"] = "l2"
    through_attention: bool = True

    summary: ClassVar[str] = "mean gradient over noisy copies of the text"
    paper: ClassVar[str] = "Smilkov et al. 2017"
    aliases: ClassVar[tuple[str, ...]] = ("smooth-grad", "smooth-gradient")
    needs: ClassVar[tuple[str, ...]] = ("gradients",)
    standard: ClassVar[Mapping[str, Any] | None] = {}
    probe: ClassVar[Mapping[str, Any]] = {"samples": 2}

    @property
    def draws(self) -> int:
        """How many gradients are needed: without noise they are all the same."""
        return self.samples if self.noise else 1

    def passes(self, classifier: Classifier, tokens: Tokens) -> Passes:
        """A forward and a backward pass for each sample."""
        return Passes(self.draws, self.draws)

    def __call__(self, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator) -> Attribution:
        """A norm of the mean gradient, or its product with the word vectors."""
        batch = classifier.batch([tokens])
        total = torch.zeros((), dtype=torch.float64)
        products: list[Tensor] = []
        rows = max(1, BUDGET // len(tokens))
        for start in range(0, self.draws, rows):
            vectors, slopes, spread = self._slopes(classifier, batch, target, rng, min(rows, self.draws - start))
            total = total.to(slopes) + slopes.sum(0)
            products.append((slopes * vectors).sum(-1))
        each = torch.cat(products)
        known = self.reduce == "x-input" and len(each) > 1
        return Attribution(
            tokens=tokens,
            scores=array(reduce_gradient(self.reduce, vectors, total / self.draws)),
            signed=self.reduce in SIGNED,
            errors=array(each.std(0) / len(each) ** 0.5) if known else None,
            details={"samples": self.draws, "noise": spread},
        )

    def _slopes(
        self, classifier: Classifier, batch: Batch, target: Target, rng: torch.Generator, copies: int
    ) -> tuple[Tensor, Tensor, float]:
        """Word vectors [t,d], the gradient at each of n noisy copies [n,t,d], and the noise's standard deviation."""
        clean: list[Tensor] = []
        leaves: list[Tensor] = []

        def disturb(vectors: Tensor) -> Tensor:
            clean.append(vectors[0].detach())
            spread = self.noise * (clean[0].max() - clean[0].min())
            # subtle: drawn one by one, so that the numbers do not depend on how many copies run at a time
            noise = torch.stack([torch.randn(clean[0].shape, generator=rng) for _ in range(copies)])
            leaves.append((vectors.detach() + spread * noise.to(vectors)).requires_grad_())
            return leaves[0]

        with torch.enable_grad(), _holding(classifier, self.through_attention), classifier.embeddings(disturb):
            values = target.of(classifier.logits(batch.repeat(copies)), classifier.head)
            slopes = classifier.gradient(values, leaves)[0].cpu().double()
        vectors = clean[0].cpu().double()
        return vectors, slopes, self.noise * float(vectors.max() - vectors.min())


HELD = "attention was constant, so the scores need not add up: the gap is not due to the number of steps"
Baseline = Literal["auto", "mask", "pad", "zero"]


@dataclass(frozen=True)
class IntegratedGradients(Checked):
    """The gradient integrated on the line from a baseline to the text, by Gauss–Legendre nodes.

    The baseline replaces the words by the mask token, the padding token or zero vectors; special tokens stay. "auto" is
    the mask token where the tokenizer has one, and zero otherwise.
    """

    steps: Annotated[int, Ge(1)] = 32
    baseline: Baseline = "auto"
    through_attention: bool = True

    summary: ClassVar[str] = "gradient integrated from a baseline to the text"
    paper: ClassVar[str] = "Sundararajan et al. 2017"
    aliases: ClassVar[tuple[str, ...]] = ("ig", "integrated-gradient")
    needs: ClassVar[tuple[str, ...]] = ("gradients",)
    standard: ClassVar[Mapping[str, Any] | None] = {}
    probe: ClassVar[Mapping[str, Any]] = {"steps": 2}

    def __call__(self, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator) -> Attribution:
        """Scores add up to f(text) − f(baseline) but for the gap."""
        batch = classifier.batch([tokens])
        end = word_vectors(classifier, batch)[0]
        start, name = baseline(classifier, tokens, end, self.baseline)
        nodes, weights = gauss_legendre(self.steps)
        slopes = self._slopes(classifier, batch, straight_path(start, end, nodes), target)
        ends = self._values(classifier, batch, torch.stack([start, end]), target)
        scores = path_integral(slopes, weights, end - start)
        return Attribution(
            tokens=tokens,
            scores=array(scores),
            base=float(ends[0]),
            gap=float(ends[1] - ends[0] - scores.sum()),
            notes=(f"baseline: {name}", *(() if self.through_attention else (HELD,))),
        )

    def passes(self, classifier: Classifier, tokens: Tokens) -> Passes:
        """The steps and both ends."""
        return Passes(self.steps + 2, self.steps)

    def _slopes(self, classifier: Classifier, batch: Batch, points: Tensor, target: Target) -> Tensor:
        rows = max(1, BUDGET // points.shape[1])
        slopes = []
        for part in torch.split(points, rows):
            leaf = part.detach().clone().requires_grad_()
            with torch.enable_grad(), _holding(classifier, self.through_attention), classifier.embeddings(_put(leaf)):
                values = target.of(classifier.logits(batch.repeat(len(part))), classifier.head)
                slopes.append(classifier.gradient(values, [leaf])[0])
        return torch.cat(slopes)

    def _values(self, classifier: Classifier, batch: Batch, points: Tensor, target: Target) -> Tensor:
        with torch.no_grad(), classifier.embeddings(_put(points)):
            return target.of(classifier.logits(batch.repeat(len(points))).cpu().double(), classifier.head)


def _put(points: Tensor) -> Any:
    return lambda vectors: points


def baseline(classifier: Classifier, tokens: Tokens, vectors: Tensor, kind: Baseline) -> tuple[Tensor, str]:
    """Word vectors [t,d] of the text with every word replaced, and the name of the replacement."""
    if kind == "auto":
        kind = "mask" if getattr(classifier.tokenizer, "mask_token_id", None) is not None else "zero"
    replaced = vectors.clone()
    if kind == "zero":
        replaced[list(tokens.content)] = 0
        return replaced, "zero vectors"
    token = special_token(classifier, kind, "baseline=zero")
    ids = tuple(i if special else token for i, special in zip(tokens.ids, tokens.special, strict=True))
    return word_vectors(classifier, classifier.batch([replace(tokens, ids=ids)]))[0], f"{kind} token"
