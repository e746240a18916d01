"""The gradient search of Jain & Wallace 2019 for attentions that differ from the network's and give the same output.

Over k candidates, with output distance TVD: minimise

−Σ_i JSD(α_i, α̂) − 1/(k(k−1)) Σ_{i<j} JSD(α_i, α_j) + (λ/k) Σ_i max(0, TVD(ŷ_i, ŷ) − tolerance)

by Adam (amsgrad) on log-attention that starts as log(1/n) + 3·N(0, 1): the paper's form. The authors' program
(loss="code") does not divide the penalty by k, takes 1/k² of the sum over all pairs (i, j), and measures the change of
a softmax by its L1 norm, twice the TVD. Texts are batched; no text affects another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.settings import Checked, Ge
from heedful.core.target import Head, activation
from heedful.maths.adversary import Problem, attention_distance

MAX_BATCH_WEIGHTS = 2**17  # searched together: more do not fit into a processor's cache

Loss = Literal["paper", "code"]
Decode = Callable[[Float[Tensor, "b k h n"]], Float[Tensor, "b k c"]]


@dataclass(frozen=True)
class Search(Checked):
    """The paper's settings; `loss` is the form in the paper or in the authors' program."""

    candidates: Annotated[int, Ge(1)] = 5
    steps: Annotated[int, Ge(0)] = 500
    rate: float = 0.01
    penalty: float = 500.0
    tolerance: float = 0.01
    spread: float = 3.0
    loss: Loss = "paper"

    @property
    def pair_factor(self) -> float:
        """Of Σ_{i<j} JSD(α_i, α_j)."""
        k = self.candidates
        return 1 / max(1, k * (k - 1)) if self.loss == "paper" else 2 / k**2

    def penalty_of(self, moved: Tensor, head: Head) -> Tensor:
        """The term that grows where outputs change by more than the tolerance; `moved` are their TVDs."""
        if self.loss == "paper":
            return self.penalty / self.candidates * (moved - self.tolerance).relu().sum()
        return self.penalty * (moved * (2 if head == "softmax" else 1) - self.tolerance).relu().sum()


@dataclass(frozen=True)
class Padded:
    """Problems of several texts in one batch: their own attention [b,h,n] (0 beyond `real` [b,n]) and logits [b,c]."""

    attention: Float[Tensor, "b h n"]
    real: Bool[Tensor, "b n"]
    logits: Float[Tensor, "b c"]
    head: Head


@dataclass(frozen=True)
class Farthest:
    """The attention [h,n] with the highest JSD among those within ε, that JSD, and the change of its output."""

    attention: Floats
    jsd: float
    change: float


def optimise(
    problems: Sequence[Problem], rngs: Sequence[torch.Generator], search: Search | None = None
) -> list[Floats]:
    """Candidates [k,h,n] for each problem. All problems have the same heads, classes and kind of output."""
    how = search or Search()
    starts = [initial_scores(p.attention.shape, rng, how) for p, rng in zip(problems, rngs, strict=True)]
    candidates: dict[int, Floats] = {}
    for group in _groups([p.attention.size * how.candidates for p in problems]):
        padded, decode = _pad([problems[i] for i in group])
        first = pad_and_stack([starts[i] for i in group], padded.real.shape[1])
        batch = gradient_search(decode, padded, first, how)
        candidates |= {i: batch[row, ..., : problems[i].attention.shape[1]].numpy() for row, i in enumerate(group)}
    return [candidates[i] for i in range(len(problems))]


def farthest_candidate(attention: Floats, candidates: Floats, change: Floats, epsilon: float) -> Farthest:
    """ε-max JSD: of the candidates and the network's own attention, the farthest whose output changes by at most ε."""
    distances = np.where(change <= epsilon, attention_distance(candidates, attention, "jsd"), -1.0)
    best = int(distances.argmax())
    if distances[best] <= 0:
        return Farthest(attention, 0.0, 0.0)
    return Farthest(candidates[best], float(distances[best]), float(change[best]))


def gradient_search(
    decode: Decode, problem: Padded, start: Float[Tensor, "b k h n"], search: Search
) -> Float[Tensor, "b k h n"]:
    """Candidates for any decoder, by Adam from the log-attention `start`."""
    scores = start.clone()
    adam = torch.optim.Adam([scores], lr=search.rate, amsgrad=True)
    for _ in range(search.steps):
        scores.grad = loss_gradient(decode, problem, scores, search)
        adam.step()
    return _log_attention(scores, problem.real).exp() * problem.real[:, None, None]


def loss_gradient(
    decode: Decode, problem: Padded, scores: Float[Tensor, "b k h n"], search: Search
) -> Float[Tensor, "b k h n"]:
    """The gradient of the loss, summed over texts, by log-attention.

    ∂ JSD(p, q) / ∂p = ½ log(p / ½(p + q)), up to a constant that the softmax cancels.
    """
    real = problem.real[:, None, None]
    log = _log_attention(scores, problem.real).masked_fill(~real, 0)
    alpha = log.exp() * real
    k = search.candidates
    first, second = torch.combinations(torch.arange(k), 2).T
    from_network = log - ((alpha + problem.attention[:, None]) / 2).masked_fill(~real, 1).log()
    middle = ((alpha[:, first] + alpha[:, second]) / 2).masked_fill(~real, 1).log()
    others = log * (k - 1) - torch.zeros_like(log).index_add_(1, first, middle).index_add_(1, second, middle)
    divergence = (from_network + others * search.pair_factor) / (2 * scores.shape[2])
    by_weight = _penalty_gradient(decode, problem, alpha, search) - divergence
    return alpha * (by_weight - (alpha * by_weight).sum(-1, keepdim=True))


def _penalty_gradient(decode: Decode, problem: Padded, alpha: Tensor, search: Search) -> Tensor:
    with torch.enable_grad():
        leaf = alpha.detach().requires_grad_()
        moved = output_change(decode(leaf), problem.logits[:, None], problem.head)
        penalty = search.penalty_of(moved, problem.head)
    (gradient,) = torch.autograd.grad(penalty, [leaf])
    return gradient


def _log_attention(scores: Tensor, real: Tensor) -> Tensor:
    return scores.masked_fill(~real[:, None, None], -torch.inf).log_softmax(-1)


def output_change(logits: Tensor, base: Tensor, head: Head) -> Tensor:
    """`maths.distances.changes(...).tvd`, differentiable: […,c] -> […]."""
    moved = (activation(logits, head) - activation(base, head)).abs()
    return moved.sum(-1) / 2 if head == "softmax" else moved.mean(-1)


def initial_scores(shape: tuple[int, ...], rng: torch.Generator, search: Search) -> Float[Tensor, "k h n"]:
    """log(1/n) + 3·N(0, 1)."""
    noise: Tensor = torch.randn((search.candidates, *shape), generator=rng, dtype=torch.float64)
    return noise * search.spread - float(np.log(shape[-1]))


def _pad(problems: Sequence[Problem]) -> tuple[Padded, Decode]:
    """One batch, and its logits as an affine function of attention."""
    width = max(p.attention.shape[1] for p in problems)
    attention = pad_and_stack([torch.from_numpy(p.attention) for p in problems], width)
    effects = pad_and_stack([torch.from_numpy(p.effects).transpose(1, 2) for p in problems], width).transpose(2, 3)
    real = torch.tensor([[i < p.attention.shape[1] for i in range(width)] for p in problems])
    logits = torch.from_numpy(np.stack([p.logits for p in problems]))
    flat = effects.flatten(1, 2)  # [b,h·n,c]
    base = logits[:, None] - attention.flatten(1)[:, None] @ flat
    return Padded(attention, real, logits, problems[0].head), lambda alpha: base + alpha.flatten(2) @ flat


def pad_and_stack(rows: Sequence[Tensor], width: int) -> Tensor:
    """[…,n] of several n, as [b,…,width]; 0 beyond n."""
    return torch.stack([torch.nn.functional.pad(row, (0, width - row.shape[-1])) for row in rows])


def _groups(sizes: Sequence[int]) -> list[list[int]]:
    """Which to search together: of similar size, and at most MAX_BATCH_WEIGHTS weights."""
    groups: list[list[int]] = []
    for i in sorted(range(len(sizes)), key=lambda i: sizes[i]):
        if groups and sizes[i] * (len(groups[-1]) + 1) <= MAX_BATCH_WEIGHTS:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups
