"""The adversary of Jain & Wallace 2019: 5 candidates and 500 steps for 100 texts, together and one at a time.

*Theirs* is re-enacted: for each text, or for 32 texts padded to the longest as in their program, Adam (amsgrad) moves
log-attention by derivatives through the decoder, which reads the encoder's states. All sides minimise what the paper
has, from the same starts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

import heedful
from benchmarks.material import Scale, documents
from benchmarks.measure import Report, Row, Timed, in_turns
from heedful import data
from heedful.audits.chunk import cases
from heedful.checks.adversarial_rows import QueryAttention, affine_problem, query_attentions
from heedful.core.arrays import Floats
from heedful.data import Example
from heedful.maths.adversary import Problem
from heedful.maths.adversary_search import Search, farthest_candidate, initial_scores, optimise, pad_and_stack
from heedful.model.classifier import Classifier

JOB = "adversary"
EPSILON = 0.05
THEIRS = 32  # texts that the authors' program runs at a time


@dataclass(frozen=True)
class Text:
    """What both sides start from: the encoder's states [n,m], and logits as a function of attention."""

    states: Tensor
    problem: Problem


def network() -> Classifier:
    """A BiLSTM of the authors' size, trained for some seconds on the package's sentences."""
    with tempfile.TemporaryDirectory() as folder:
        made = heedful.train("bilstm", data.splits("corpus"), folder, {"epochs": 10})
        classifier: Classifier = made.classifier
    classifier.model.requires_grad_(False)
    return classifier


def texts(classifier: Classifier, raw: Sequence[str]) -> list[Text]:
    """Encoded, and opened at the attention. Two labels are one output: heedful has it as [−z, z]."""
    made = cases(classifier, [Example(text) for text in raw], {})
    return [_text(query_attentions(case, -1)[0]) for case in made.cases.values()]


def _text(query: QueryAttention) -> Text:
    model: Any = query.case.classifier.model
    with torch.no_grad():
        encoded = model.encoded(query.batch.ids, query.batch.mask, query.batch.segments)
    problem = affine_problem(query)
    assert problem is not None
    return Text(encoded.states[0, query.keys], problem)


def rngs(n: int) -> list[torch.Generator]:
    """The same chance for all sides."""
    return [torch.Generator().manual_seed(i) for i in range(n)]


# the sides: candidates [k,1,n] for each text


def together(batch: Sequence[Text], search: Search) -> list[Floats]:
    """Ours."""
    return optimise([text.problem for text in batch], rngs(len(batch)), search)


def alone(batch: Sequence[Text], search: Search) -> list[Floats]:
    """Ours, one text at a time."""
    chance = rngs(len(batch))
    return [optimise([text.problem], [rng], search)[0] for text, rng in zip(batch, chance, strict=True)]


def theirs(batch: Sequence[Text], search: Search, decoder: Any, size: int) -> list[Floats]:
    """The authors' form, so many texts at a time."""
    chance = rngs(len(batch))
    starts = [
        initial_scores(t.problem.attention.shape, rng, search)[:, 0] for t, rng in zip(batch, chance, strict=True)
    ]
    groups = [slice(i, i + size) for i in range(0, len(batch), size)]
    return [weights for group in groups for weights in climbed(batch[group], starts[group], search, decoder)]


def climbed(batch: Sequence[Text], starts: Sequence[Tensor], search: Search, decoder: Any) -> list[Floats]:
    """Texts beside each other, in single precision, as a program has it that leaves all derivatives to torch."""
    lengths = [len(text.states) for text in batch]
    width = max(lengths)
    states = pad_and_stack([text.states.T for text in batch], width).transpose(1, 2)  # [b,n,m]
    model_attention = pad_and_stack([torch.from_numpy(text.problem.attention[0]) for text in batch], width).float()
    base = torch.tensor([[text.problem.logits[-1]] for text in batch]).float().sigmoid()
    padding = torch.arange(width) >= torch.tensor(lengths)[:, None]
    scores = pad_and_stack(starts, width).float().requires_grad_()
    adam = torch.optim.Adam([scores], lr=search.rate, amsgrad=True)
    for _ in range(search.steps):
        alpha = _weights(scores, padding)
        moved = (decoder(alpha @ states).sigmoid() - base[:, None]).abs().sum(-1)
        adam.zero_grad()
        _loss(alpha, model_attention, moved, search).backward()  # type: ignore[no-untyped-call]
        adam.step()
    attention = _weights(scores.detach(), padding)
    return [attention[i, :, None, :n].double().numpy() for i, n in enumerate(lengths)]


def _weights(scores: Tensor, padding: Tensor) -> Tensor:
    return scores.masked_fill(padding[:, None], -torch.inf).softmax(-1)


def _loss(alpha: Tensor, model_attention: Tensor, moved: Tensor, search: Search) -> Tensor:
    """What is minimised, over all pairs (i, j), each of which is there twice."""
    k = search.candidates
    pairs = _jsd(alpha[:, :, None], alpha[:, None]).sum() / 2
    away = _jsd(alpha, model_attention[:, None]).sum() + pairs / (k * (k - 1))
    return search.penalty / k * (moved - search.tolerance).relu().sum() - away


def _jsd(p: Tensor, q: Tensor) -> Tensor:
    """As the authors: log(x + 1e-10)."""
    middle = ((p + q) / 2 + 1e-10).log()
    return ((p * ((p + 1e-10).log() - middle)).sum(-1) + (q * ((q + 1e-10).log() - middle)).sum(-1)) / 2


# the report


def run(scale: Scale) -> Report:
    """The package's sentences; and documents, where there is more to do at each step."""
    classifier = network()
    search = Search(steps=scale.few(500, 50))
    lines = [example.text for example in data.load("corpus")]
    rows = _rows(classifier, lines[:: max(1, len(lines) // 100)][: scale.few(100, 8)], search)
    if not scale.quick:
        rows += _rows(classifier, documents(20), search)
    return Report(rows)


def _rows(classifier: Classifier, raw: Sequence[str], search: Search) -> list[Row]:
    batch = texts(classifier, raw)
    decoder: Any = classifier.model.decoder
    sides = {
        "ours": partial(together, batch, search),
        "alone": partial(alone, batch, search),
        "theirs": partial(theirs, batch, search, decoder, 1),
        "program": partial(theirs, batch, search, decoder, THEIRS),
    }
    warm = Search(steps=2)
    together(batch, warm), alone(batch[:1], warm), theirs(batch[:1], warm, decoder, 1)
    timed = in_turns(sides, 1)
    n = round(float(np.mean([len(text.states) for text in batch])))
    on = f"{len(batch)} texts of {n} tokens on average, bilstm"
    against = {
        "alone": ("ours, one text at a time", 10.0),
        "theirs": ("Jain & Wallace's search, one text at a time", 10.0),
        "program": (f"Jain & Wallace's search, {THEIRS} texts at a time, as in their program", None),
    }
    return [_row(on, name, aim, batch, timed[side], timed["ours"]) for side, (name, aim) in against.items()]


def _row(on: str, against: str, aim: float | None, batch: Sequence[Text], theirs: Timed, ours: Timed) -> Row:
    each = np.abs(np.subtract(*(_found(batch, side.result) for side in (theirs, ours))))
    return Row(
        JOB,
        on,
        against,
        theirs.seconds / len(batch),
        ours.seconds / len(batch),
        aim,
        f"ε-max JSD differs by at most {each.max():.0e}, median {np.median(each):.0e}",
    )


def _found(batch: Sequence[Text], candidates: Sequence[Floats]) -> Floats:
    """ε-max JSD of each text."""
    return np.array(
        [
            farthest_candidate(t.problem.attention, options, t.problem.change(options), EPSILON).jsd
            for t, options in zip(batch, candidates, strict=True)
        ]
    )
