"""Adversarial training: a step of one pass, against steps of two separate passes.

*Ours* runs the adversary alone: one pass has its logits and its attention, and the base model's are read from memory
(what it costs to compute them once is reported). *Theirs* runs the base model in every step too; or the adversary
twice, once for its logits and once for its attention.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial

import numpy as np
import torch

import heedful
from benchmarks.material import Scale, named, trained
from benchmarks.measure import Report, Row, in_turns
from benchmarks.training import texts
from heedful.core.arrays import Ints
from heedful.data import Example, Splits
from heedful.maths.adversary_search import output_change
from heedful.model import seam
from heedful.model.batch import Batch
from heedful.model.classifier import Classifier
from heedful.model.probes import pooled_attention
from heedful.nets.training.adversarial import (
    AdversarialJob,
    AdversaryPlan,
    BaseOutputs,
    Objective,
    Terms,
    adversarial_job,
)
from heedful.nets.training.job import forward
from heedful.nets.training.recipes import RECIPES

BATCH, TEXTS = 32, 160
LONGEST = 128  # tokens of a text for the Transformer


def networks(examples: list[Example]) -> dict[str, AdversaryPlan]:
    """A BiLSTM of the authors' size and, from its own weights, a fine-tuned Transformer."""
    splits = Splits(examples, examples[:8], [])
    with tempfile.TemporaryDirectory() as folder:
        base = heedful.train("bilstm", splits, folder, {"epochs": 1}).classifier
    encoder = trained()
    relabelled = [Example(e.text, None, encoder.labels[int(str(e.label) == examples[0].label)]) for e in examples]
    fine = RECIPES["finetune"].settings({"batch": BATCH, "max_length": LONGEST})
    return {
        "bilstm": AdversaryPlan(base, RECIPES["bilstm"].settings({"batch": BATCH, "seed": 1}), splits),
        named(encoder): AdversaryPlan(encoder, fine, Splits(relabelled, relabelled[:8], []), fresh=False),
    }


def base_pass(job: AdversarialJob, base: Classifier, group: Ints) -> BaseOutputs:
    """The base model's outputs on one batch, by a pass without gradients."""
    texts = job.train.texts
    rows = texts.rows(group)
    with torch.no_grad(), base.attention() as seen:
        logits = base.logits(Batch(rows.ids, rows.mask, rows.types))
    pooled = job.train.rows(group)[2]  # known beforehand: the same position in every step
    attention, _ = pooled_attention(seen[0], pooled, base.main_kind, job.objective.layers)
    cells, real = texts.cells(group)
    whole = torch.zeros_like(job.train.attention)
    whole[torch.from_numpy(cells[real])] = attention.transpose(1, 2)[torch.from_numpy(real)]
    every = torch.zeros_like(job.train.logits)
    every[torch.from_numpy(group)] = logits
    return BaseOutputs(texts, every, whole, job.train.pooled)


def twice(job: AdversarialJob, group: Ints) -> Terms:
    """The two terms from two passes of the adversary."""
    base_logits, base_attention, pooled = job.train.rows(group)
    rows = job.train.texts.rows(group)
    logits = job.adversary.to_logits(forward(job.model, rows).logits)
    with seam.attention(job.model, job.adversary.sites) as seen:
        forward(job.model, rows)
    attention, allowed = pooled_attention(seen[0], pooled, job.adversary.main_kind, job.objective.layers)
    change = output_change(logits, base_logits, job.adversary.head)
    return job.objective.terms(change, attention, base_attention, allowed)


def epoch(job: AdversarialJob, base: Classifier | None, separate: bool = False) -> list[float]:
    """The losses of one epoch; with `base`, its outputs are computed in each step, and with `separate`, two passes."""
    job.model.eval()  # no dropout: both sides have the same losses
    optimiser = torch.optim.Adam(job.model.parameters(), lr=0.0, fused=True)  # all the work, and no weight moves
    losses = []
    for group in job.batches(0):
        outputs = job.train if base is None else base_pass(job, base, group)
        loss = (twice(job, group) if separate else job.terms(outputs, group)[0]).loss
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(float(loss.detach()))
    return losses


def run(scale: Scale) -> Report:
    """Both models on reviews."""
    plans = networks(texts(scale.few(TEXTS, 64)))
    return Report([row for name, plan in plans.items() for row in _rows(name, plan, scale.few(2))])


def _move(job: AdversarialJob) -> None:
    """Other weights: a copy of the base model has a loss of zero, on which all sides agree whatever they do."""
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in job.model.parameters():
            p.add_(0.02 * torch.randn(p.shape, generator=rng))


def _rows(name: str, plan: AdversaryPlan, rounds: int) -> list[Row]:
    start = time.process_time()
    outputs = plan.outputs("last")
    once = time.process_time() - start
    job = adversarial_job(plan, Objective(0.001), outputs)[0]
    _move(job)
    sides = {
        "ours": partial(epoch, job, None),
        "the base model, then the adversary": partial(epoch, job, plan.base),
        "the adversary's logits, then its attention": partial(epoch, job, None, separate=True),
    }
    timed = in_turns(sides, rounds)
    ours, n = timed.pop("ours"), len(job.train.texts)
    return [
        Row(
            f"adversarial training, {name}",
            f"{n} reviews of imdb, batches of {BATCH}",
            f"two passes in each step: {side}",
            theirs.seconds / n,
            ours.seconds / n,
            None,
            f"losses differ by at most {np.abs(np.subtract(theirs.result, ours.result)).max():.0e}; "
            f"the base model's outputs, once: {1000 * once / n:.1f} ms",
        )
        for side, theirs in timed.items()
    ]
