"""Training: an epoch of heedful's loop, against a plain loop with random batches padded to their longest text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.material import SHARED, Scale
from benchmarks.measure import Report, Row, in_turns
from heedful.data import Example, load
from heedful.model.batch import Padding
from heedful.nets.base import Bidirectional
from heedful.nets.training.job import ClassifierJob, Cutter, Labels
from heedful.nets.training.recipes import RECIPES
from heedful.nets.training.settings import Given
from heedful.nets.vocabulary import learned

SAMPLE, BATCH = 640, 32
NAMES = ("bilstm", "average", "multihead", "han-rnn", "transformer")
MORE: dict[str, dict[str, Any]] = {"transformer": {"long": "cut"}}


def texts(n: int) -> list[Example]:
    """Reviews of imdb; or as many words in reviews of such lengths, where there are none."""
    file = SHARED / "data" / "imdb" / "train.parquet"
    rng = np.random.default_rng(0)
    if file.exists():
        every = load(file)
        return [every[i] for i in rng.permutation(len(every))[:n]]
    lengths = np.exp(rng.normal(5.2, 0.6, n)).astype(int).clip(10, 1500)
    return [
        Example(" ".join(f"w{i}" for i in rng.zipf(1.3, k) % 20_000), None, str(j % 2)) for j, k in enumerate(lengths)
    ]


def job(name: str, examples: list[Example]) -> ClassifierJob:
    """The recipe's network with its own settings, for these texts."""
    settings = RECIPES[name].settings({"batch": BATCH} | MORE.get(name, {}))
    labels = Labels.of(examples)
    tokenizer = learned((e.text for e in examples), settings.cut)
    split = Cutter(tokenizer, settings, labels, Padding("right", tokenizer.token_to_id("<pad>") or 0)).split(
        examples, "training"
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = settings.build(Given(tokenizer, labels.names, labels.multi, split.texts, split.truth))
    return ClassifierJob(model, settings, labels, split, split)


def epoch(job: ClassifierJob, ours: bool) -> None:
    """One pass over the texts. The plain loop shuffles them, pads, and uses torch's defaults."""
    job.model.config._attn_implementation_internal = "sdpa" if ours else "eager"
    job.model.train()
    optimiser = torch.optim.Adam(job.model.parameters(), lr=1e-6, fused=True if ours else None)
    order = np.random.default_rng(0).permutation(len(job.train.texts))
    batches = job.batches(0) if ours else [order[i : i + BATCH] for i in range(0, len(order), BATCH)]
    for batch in batches:
        loss = job.loss(batch)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()


def first_loss(job: ClassifierJob, ours: bool) -> float:
    """The mean loss over the texts, before any step, without dropout: both loops learn the same."""
    job.model.config._attn_implementation_internal = "sdpa" if ours else "eager"
    job.model.eval()
    order = np.arange(len(job.train.texts))
    batches = job.batches(0) if ours else [order[i : i + BATCH] for i in range(0, len(order), BATCH)]
    with torch.no_grad():
        return float(np.sum([float(job.loss(b)) * len(b) for b in batches])) / len(order)


@contextmanager
def packed() -> Iterator[None]:
    """Inside, recurrent layers run as torch's documentation has it: packed sequences."""
    usual = Bidirectional.forward

    def forward(self: Any, vectors: Any, mask: Any) -> Any:
        lengths = mask.sum(1).clamp(min=1).cpu()
        given = nn.utils.rnn.pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
        back = nn.utils.rnn.pack_padded_sequence(vectors.flip(1), lengths, batch_first=True, enforce_sorted=False)
        parts = [layer(x)[0] for layer, x in ((self.onward, given), (self.back, back))]
        states = [nn.utils.rnn.pad_packed_sequence(p, batch_first=True, total_length=mask.shape[1])[0] for p in parts]
        return torch.cat(states, -1), torch.cat([s[:, -1] for s in states], -1)

    Bidirectional.forward = forward  # type: ignore[method-assign]
    try:
        yield
    finally:
        Bidirectional.forward = usual  # type: ignore[method-assign]


def run(scale: Scale) -> Report:
    """Each network; and the BiLSTM as it is usually written."""
    examples = texts(scale.few(SAMPLE, 96))
    rows = [_row(job(name, examples), name, scale.few(2)) for name in NAMES]
    return Report([*rows, _packed(job("bilstm", examples[: scale.few(128, 32)]))])


def _row(one: ClassifierJob, name: str, rounds: int) -> Row:
    timed = in_turns({"theirs": lambda: epoch(one, False), "ours": lambda: epoch(one, True)}, rounds)
    n = len(one.train.texts)
    theirs, ours = timed["theirs"].seconds / n, timed["ours"].seconds / n
    losses = first_loss(one, False), first_loss(one, True)
    return Row(
        f"training {name}",
        f"{n} reviews of imdb, batches of {BATCH}",
        "plain loop: random batches, padded",
        theirs,
        ours,
        2.0,
        f"mean loss differs by {abs(losses[0] - losses[1]) / losses[0]:.0e}",
    )


def _packed(one: ClassifierJob) -> Row:
    def theirs() -> None:
        with packed():
            epoch(one, False)

    timed = in_turns({"theirs": theirs, "ours": lambda: epoch(one, True)}, 1)
    n = len(one.train.texts)
    return Row(
        "training bilstm",
        f"{n} reviews of imdb, batches of {BATCH}",
        "the same with packed sequences",
        timed["theirs"].seconds / n,
        timed["ours"].seconds / n,
        None,
        "",
    )
