"""Adversarial training (Wiegreffe & Pinter 2019): a fresh network with a base model's predictions and other attention.

loss = mean over texts of TVD(ŷ_a, ŷ_b) − λ · mean over texts of KL(α_a ‖ α_b)

a is the adversary and b the base model, whose outputs are computed once. The authors' program sums both terms over a
batch and takes half of the TVD: its λ is half of the one here. The epoch with the lowest loss on validation texts is
kept; the authors look at the training loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from heedful.core.arrays import Ints
from heedful.core.errors import BadInput
from heedful.core.random import torch_seed
from heedful.core.settings import Checked, NotNegative
from heedful.data import Splits
from heedful.maths.adversary_search import output_change
from heedful.maths.distances import attention_divergence
from heedful.maths.ranks import jensen_shannon
from heedful.model import seam
from heedful.model.batch import BUDGET, Batch
from heedful.model.classifier import Classifier
from heedful.model.loading import wrapped
from heedful.model.probes import pooled_attention
from heedful.nets.base import Net, Saved
from heedful.nets.training.batches import EncodedTexts, in_order
from heedful.nets.training.job import ClassifierJob, Labels, forward
from heedful.nets.training.loop import Fitted, WatchTraining, fit
from heedful.nets.training.settings import Batches, TextSettings
from heedful.nets.training.train import (
    Setup,
    data_summary,
    fine_tuned_setup,
    finish,
    network_setup,
    prepare_folder,
)

PAPER = "Wiegreffe & Pinter 2019"
RECIPE = "adversarial"  # in training.json; not the name of a recipe, so that no study trains an adversary again
Direction = Literal["adversary-base", "base-adversary"]
Layers = Literal["last", "all"]
_Placed = tuple[Tensor, Tensor]  # places, and what belongs there


@dataclass(frozen=True)
class Objective(Checked):
    """What an adversary is trained for: λ, the direction of KL, and the layers whose attention it is about.

    "adversary-base" is KL(α_a ‖ α_b), the paper's formula; "base-adversary" is KL(α_b ‖ α_a).
    """

    strength: NotNegative = 0.001
    direction: Direction = "adversary-base"
    layers: Layers = "last"

    def terms(
        self,
        change: Float[Tensor, "b"],
        adversary: Float[Tensor, "b r k"],
        base: Float[Tensor, "b r k"],
        allowed: Bool[Tensor, "b r k"],
    ) -> Terms:
        """The two terms of each text."""
        pair = (adversary, base) if self.direction == "adversary-base" else (base, adversary)
        return Terms(change, attention_divergence(*pair, allowed), self.strength)


@dataclass(frozen=True)
class Terms:
    """TVD of the outputs and KL of the attentions of each text [b], and λ."""

    tvd: Float[Tensor, "b"]
    kl: Float[Tensor, "b"]
    strength: float

    @property
    def loss(self) -> Float[Tensor, ""]:
        """mean TVD − λ · mean KL."""
        return self.tvd.mean() - self.strength * self.kl.mean()


@dataclass(frozen=True)
class BaseOutputs:
    """The base model on texts: logits [n,c]; and of all tokens, text after text, attention [r] and pooled share.

    `pooled` is None for a network with one query.
    """

    texts: EncodedTexts
    logits: Float[Tensor, "n c"]
    attention: Float[Tensor, "m r"]
    pooled: Float[Tensor, "m"] | None

    @classmethod
    def read(cls, base: Classifier, texts: EncodedTexts, layers: Layers) -> BaseOutputs:
        """One forward pass of each text."""
        groups = in_order(texts.lengths, BUDGET, BUDGET)
        logits: dict[int, _Placed] = {}
        attention: dict[int, _Placed] = {}
        pooled: dict[int, _Placed] = {}
        for group in groups:
            cells, real = texts.cells(group)
            reading = base.read(_batch(texts, group, base.device))
            rows, _ = pooled_attention(reading.weights, reading.pooled, base.main_kind, layers)
            at = torch.from_numpy(cells[real])
            logits[int(group[0])] = torch.from_numpy(group), reading.logits.detach().cpu()
            attention[int(group[0])] = at, rows.detach().cpu().transpose(1, 2)[torch.from_numpy(real)]
            if reading.pooled.shape[1] == real.shape[1]:
                pooled[int(group[0])] = at, reading.pooled.detach().cpu()[torch.from_numpy(real)]
        # subtle: one query has one share, also where all texts of a group have one token
        shares = _scattered(pooled) if len(pooled) == len(groups) else None
        return cls(texts, _scattered(logits), _scattered(attention), shares)

    def rows(self, group: Ints) -> tuple[Float[Tensor, "b c"], Float[Tensor, "b r k"], Float[Tensor, "b q"]]:
        """Of some texts, padded as `EncodedTexts.rows` does: logits, attention, and the shares of pooled positions."""
        cells, real = (torch.from_numpy(x) for x in self.texts.cells(group))
        attention = (self.attention[cells] * real[..., None]).transpose(1, 2)
        pooled = attention.new_ones(len(group), 1) if self.pooled is None else self.pooled[cells] * real
        return self.logits[torch.from_numpy(group)], attention, pooled


def _batch(texts: EncodedTexts, group: Ints, device: torch.device) -> Batch:
    rows = texts.rows(group)
    return Batch(*(None if x is None else x.to(device) for x in (rows.ids, rows.mask, rows.types)))  # type: ignore[arg-type]


def _scattered(parts: Mapping[int, _Placed]) -> Tensor:
    """Rows of all groups at their places."""
    places, values = (torch.cat(column) for column in zip(*parts.values(), strict=True))
    whole = torch.empty_like(values)
    whole[places] = values
    return whole


@dataclass(frozen=True)
class AdversarialJob:
    """The training of an adversary, for `fit`. `inner` has the fresh network and the texts, whose labels are not used.

    One forward pass has both logits and attention.
    """

    inner: ClassifierJob
    adversary: Classifier
    objective: Objective
    train: BaseOutputs
    dev: BaseOutputs
    base: str  # its fingerprint

    @property
    def model(self) -> nn.Module:
        """The adversary."""
        model: nn.Module = self.adversary.model
        return model

    @property
    def identity(self) -> str:
        """What a resumed run must share."""
        o = self.objective
        return f"{self.inner.identity} {self.base} {o.strength!r} {o.direction} {o.layers}"

    def batches(self, epoch: int) -> Sequence[Any]:
        """As in the training of a classifier."""
        return self.inner.batches(epoch)

    def decays(self, name: str) -> bool:
        """As in the training of a classifier."""
        return self.inner.decays(name)

    def loss(self, batch: Any) -> Tensor:
        """mean TVD − λ · mean KL."""
        return self.terms(self.train, batch)[0].loss

    def terms(self, outputs: BaseOutputs, group: Ints) -> tuple[Terms, Float[Tensor, "b r k"]]:
        """The two terms of each text of a batch, and the adversary's attention."""
        base_logits, base_attention, pooled = outputs.rows(group)
        # subtle: `Classifier.read` freezes the parameters; here their gradients are what is wanted
        with seam.attention(self.model, self.adversary.sites) as seen:
            out = forward(self.model, outputs.texts.rows(group))
        attention, allowed = pooled_attention(seen[0], pooled, self.adversary.main_kind, self.objective.layers)
        logits = self.adversary.to_logits(out.logits.float())
        change = output_change(logits, base_logits, self.adversary.head)
        return self.objective.terms(change, attention.float(), base_attention.float(), allowed), attention

    def score(self) -> dict[str, float]:
        """On dev: the negative loss, which selects the epoch; TVD, JSD and KL."""
        sums = np.zeros(3)
        groups = in_order(self.dev.texts.lengths, BUDGET, BUDGET)
        for group in groups:
            terms, attention = self.terms(self.dev, group)
            base = self.dev.rows(group)[1]
            distance = jensen_shannon(attention.double().numpy(), base.double().numpy()).mean(-1)
            sums += [float(terms.tvd.double().sum()), float(distance.sum()), float(terms.kl.double().sum())]
        tvd, jsd, kl = (sums / len(self.dev.texts)).tolist()
        return {"negative loss": self.objective.strength * kl - tvd, "tvd": tvd, "jsd": jsd, "kl": kl}


@dataclass(frozen=True)
class AdversaryPlan:
    """How the adversaries of one base model are trained: on which texts, with which settings.

    With `fresh`, an adversary starts as the base model's recipe did: from random weights, or from the pretrained
    encoder. Otherwise it starts from the weights of the base model itself.
    """

    base: Classifier
    settings: Batches
    splits: Splits
    fresh: bool = True

    def setup(self) -> Setup:
        """A fresh network, and the texts cut as the base model cuts them."""
        base, ready = self.base, self.settings
        labels = Labels(base.labels, multi=False)
        with torch_seed(ready.seed):
            if isinstance(ready, TextSettings):
                special = {name: str(token) for name, token in base.tokenizer.special_tokens_map.items()}
                vocabulary = Saved(base.model, base.tokenizer.backend_tokenizer, special)
                return network_setup(ready, self.splits, labels, base.labels, vocabulary)
            return fine_tuned_setup(ready, self.splits, labels, base.labels, None if self.fresh else base)

    def outputs(self, layers: Layers) -> tuple[BaseOutputs, BaseOutputs]:
        """The base model's on train and dev."""
        self.base.check_attention()
        inner = self.setup().job
        train, dev = (BaseOutputs.read(self.base, part.texts, layers) for part in (inner.train, inner.dev))
        return train, dev


def check_adversary(base: Classifier) -> None:
    """Refuse a base model for which the loss does not exist."""
    base.check_attention()
    if base.head == "regression":
        raise BadInput(f"{base.name} is a regression model, which predicts no label; give a classifier.")


def adversarial_job(
    plan: AdversaryPlan, objective: Objective, outputs: tuple[BaseOutputs, BaseOutputs]
) -> tuple[AdversarialJob, Setup]:
    """The job of one λ, and what saves its model."""
    setup = plan.setup()
    tokenizer = setup.tokenizer
    if isinstance(setup.job.model, Net):
        tokenizer = wrapped(setup.cutter.tokenizer, setup.tokenizer)
    adversary = Classifier(setup.job.model, tokenizer, "the adversary")
    return AdversarialJob(setup.job, adversary, objective, *outputs, plan.base.fingerprint), setup


def train_adversary(
    plan: AdversaryPlan,
    objective: Objective,
    outputs: tuple[BaseOutputs, BaseOutputs],
    folder: Path,
    watch: WatchTraining | None = None,
) -> dict[str, float]:
    """Train an adversary into a folder, which `heedful.load` takes; its scores on dev. A killed run is resumed."""
    job, setup = adversarial_job(plan, objective, outputs)
    fitted: Fitted = fit(job, setup.job.settings, prepare_folder(folder, restart=False), watch)
    setup.save(folder)
    used = {"train": setup.job.train, "dev": setup.job.dev, "test": None}
    more = {
        "data": data_summary(plan.splits, used),
        "labels": list(setup.names),
        "adversary": {
            "strength": objective.strength,
            "direction": objective.direction,
            "layers": objective.layers,
            "base": plan.base.fingerprint,
        },
    }
    return finish({"recipe": RECIPE, "paper": PAPER}, setup.job.settings, folder, fitted, None, more)
