"""Key adversary: a network of two layers that turns the keys of a frozen model into others, and its training.

k_adv = W_2 relu(W_1 k + b_1) + b_2, for the keys of every token. The poster gives it the keys of all layers at once, of
the shape (batch, layers, tokens, width): it is one network for all layers. The keys that it reads are those of the
unchanged model, also in higher layers, where the changed keys below lead to other states.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from heedful.core.arrays import Ints
from heedful.core.errors import BadInput
from heedful.core.files import sweep, write_errors, write_files
from heedful.core.random import seeded
from heedful.core.tokens import Tokens
from heedful.maths.keys import (
    KeyDistance,
    key_distances,
    mean_over_queries,
    output_divergences,
    row_divergences,
    stated_distance,
)
from heedful.model.batch import Batch
from heedful.model.classifier import Classifier
from heedful.model.keys import KeyEdit, replaced_keys
from heedful.nets.training.batches import bucketed
from heedful.nets.training.loop import TrainingPlan, WatchTraining, fit
from heedful.studies.base import Texts
from heedful.studies.heads import gold_loss

Trained = Literal["as-stated", "honest", "random-keys", "opposite"]
Rows = Literal["all", "read"]
SCORING = "scoring"  # in the place of an epoch's number, for the random keys of dev and test texts


class KeyNetwork(nn.Module):
    """The network; with `groups` = 1 it is shared by all layers. Keras' initial values: Glorot-uniform, biases 0."""

    def __init__(self, width: int, hidden: int, groups: int, rng: torch.Generator | None = None) -> None:
        super().__init__()
        self.inner, self.outer = (
            nn.Parameter((torch.rand(groups, a, b, generator=rng) * 2 - 1) * math.sqrt(6 / (a + b)))
            for a, b in ((width, hidden), (hidden, width))
        )
        self.inner_bias, self.outer_bias = (nn.Parameter(torch.zeros(groups, 1, n)) for n in (hidden, width))

    def forward(self, keys: Float[Tensor, "b l t d"]) -> Float[Tensor, "b l t d"]:
        """New keys."""
        inner, outer = (w[0] if len(w) == 1 else w for w in (self.inner, self.outer))  # one matrix is faster
        hidden: Tensor = (keys.to(inner.dtype) @ inner + self.inner_bias).relu()
        return hidden @ outer + self.outer_bias


@dataclass(frozen=True)
class Goal:
    """What an adversary is trained for, and whose keys it replaces.

    as-stated     α·CE(gold label) − (1 − α)·key distance, as the poster states it
    honest        α·KL(the model's own prediction ‖ the new one) − (1 − α)·JSD of the attentions
    random-keys   CE(gold label), with inputs k ~ U(0, 1) in the place of keys
    opposite      CE(another label than the gold one)

    `rows` are those of attention that honest counts: all of real tokens; or, in the last layer, only those that the
    classifier pools, because no other row of that layer reaches the output.
    """

    kind: Trained
    layers: tuple[int, ...]
    alpha: float = 0.5
    distance: KeyDistance = "norm"
    rows: Rows = "all"

    def total(self, output: Tensor, distance: Tensor | None) -> Tensor:
        """The loss."""
        return output if distance is None else self.alpha * output - (1 - self.alpha) * distance


@dataclass(frozen=True)
class KeyPass:
    """A batch through a model, changed or not: logits, and the keys and the attention of each layer."""

    batch: Batch
    logits: Float[Tensor, "b c"]
    keys: tuple[Tensor, ...]  # [b,t,d]
    weights: tuple[Tensor, ...]  # [b,h,q,k]


def original_pass(classifier: Classifier, texts: Sequence[Tokens]) -> KeyPass:
    """The unchanged model on a batch, without gradients."""
    batch = classifier.batch(texts)
    with torch.no_grad(), classifier.keys() as keys, classifier.attention() as seen:
        logits = classifier.logits(batch)
    return KeyPass(batch, logits, tuple(keys[0].values()), tuple(seen[0].values()))


def pooled_pass(classifier: Classifier, texts: Sequence[Tokens]) -> tuple[KeyPass, Float[Tensor, "b q"]]:
    """The unchanged model on a batch, and the share of each position in its pooling."""
    batch = classifier.batch(texts)
    with torch.enable_grad(), classifier.keys() as keys:
        reading = classifier.read(batch)
    weights = tuple(reading.weights[site].detach() for site in reading.layers("self"))
    own = tuple(k.detach() for k in keys[0].values())
    return KeyPass(batch, reading.logits.detach(), own, weights), reading.pooled.detach()


def other_labels(gold: Ints, labels: int) -> Ints:
    """Another label than the gold one, the next: 0 -> 1, 1 -> 0; 2 of three -> 0."""
    return np.asarray((gold + 1) % labels)


@dataclass(frozen=True)
class Adversary:
    """A network with its goal."""

    network: KeyNetwork
    goal: Goal
    seed: int

    def new_keys(self, original: KeyPass, texts: Sequence[Tokens], epoch: object = SCORING) -> Float[Tensor, "b l t d"]:
        """The keys in place of the model's own."""
        keys = torch.stack([original.keys[layer] for layer in self.goal.layers], 1)
        if self.goal.kind == "random-keys":
            keys = self._random(keys, original.batch, texts, epoch)
        made: Tensor = self.network(keys)
        return made.to(keys.dtype)

    def edit(self, new: Float[Tensor, "b l t d"]) -> KeyEdit:
        """These keys as an edit."""
        return replaced_keys({layer: new[:, i] for i, layer in enumerate(self.goal.layers)})

    def _random(self, keys: Tensor, batch: Batch, texts: Sequence[Tokens], epoch: object) -> Tensor:
        """Numbers from U(0, 1) that depend on the text and the epoch only, not on its batch."""
        random = torch.zeros_like(keys)
        for i, tokens in enumerate(texts):
            rng = seeded(self.seed, "random keys", epoch, tokens.text, tokens.pair)
            drawn = torch.rand(keys.shape[1], len(tokens), keys.shape[3], generator=rng)
            random[i, :, batch.real[i]] = drawn.to(keys)
        return random


@dataclass(frozen=True)
class AdversaryJob:
    """The training of an adversary: the model is frozen; the epoch is chosen on dev.

    `as-stated` keeps the epoch with the smallest cross-entropy, as the poster's code; the others that with the smallest
    loss.
    """

    adversary: Adversary
    classifier: Classifier
    train: Texts
    dev: Texts
    size: int
    identity: str

    @property
    def model(self) -> KeyNetwork:
        """The network that is trained."""
        return self.adversary.network

    def batches(self, epoch: int) -> list[tuple[int, Ints]]:
        """Numbers of texts of similar length, different in each epoch, with the number of the epoch."""
        lengths = np.array([len(tokens) for tokens in self.train.tokens])
        groups = bucketed(lengths, self.size, np.random.default_rng([self.adversary.seed, epoch]))
        if self.classifier.padding is None:
            groups = [group[lengths[group] == n] for group in groups for n in np.unique(lengths[group])]
        return [(epoch, group) for group in groups]

    def loss(self, batch: tuple[int, Ints]) -> Tensor:
        """The mean loss of a batch."""
        epoch, group = batch
        return self.adversary.goal.total(*self.terms(self.train.take(group.tolist()), epoch))

    def terms(self, texts: Texts, epoch: object = SCORING) -> tuple[Tensor, Tensor | None]:
        """The term of the output and that of the distance, if there is one: means over texts that fit in a batch."""
        goal, classifier = self.adversary.goal, self.classifier
        with classifier.lock, ExitStack() as stack:
            original, shares = self._original(texts.tokens)
            new = self.adversary.new_keys(original, texts.tokens, epoch)
            stack.enter_context(classifier.keys(self.adversary.edit(new)))
            seen = stack.enter_context(classifier.attention()) if goal.kind == "honest" else None
            logits = classifier.logits(original.batch)
        real = original.batch.real
        if seen is not None:
            weights = list(seen[0].values())
            divergences = [
                mean_over_queries(row_divergences(weights[i], original.weights[i]), shares[i]) for i in goal.layers
            ]
            output = output_divergences(logits, original.logits, classifier.head).mean()
            return output, torch.stack(divergences).mean()
        labels = texts.gold if goal.kind != "opposite" else other_labels(texts.gold, len(classifier.labels))
        output = gold_loss(logits, torch.from_numpy(labels).to(logits.device), classifier).mean()
        if goal.kind != "as-stated":
            return output, None
        keys = torch.stack([original.keys[layer] for layer in goal.layers], 1)
        return output, stated_distance(key_distances(new.double(), keys.double(), real), goal.distance)

    def _original(self, texts: Sequence[Tokens]) -> tuple[KeyPass, list[Tensor]]:
        """The unchanged model, and the share of each query in the distance of each layer's attention."""
        goal = self.adversary.goal
        if goal.kind != "honest" or goal.rows == "all":
            original = original_pass(self.classifier, texts)
            return original, [original.batch.real.double()] * len(original.weights)
        original, pooled = pooled_pass(self.classifier, texts)
        return original, [*[original.batch.real.double()] * (len(original.weights) - 1), pooled.double()]

    def score(self) -> dict[str, float]:
        """The score that chooses the epoch, and both terms, on dev: means over batches, weighted by their texts."""
        goal, sizes = self.adversary.goal, []
        terms: dict[str, list[float]] = {"loss": [], "output": [], "distance": []}
        for group in self.classifier.batches(self.dev.tokens):
            output, distance = self.terms(self.dev.take(group))
            sizes.append(len(group))
            terms["loss"].append(float(output if goal.kind == "as-stated" else goal.total(output, distance)))
            terms["output"].append(float(output))
            terms["distance"].append(0.0 if distance is None else float(distance))
        means = {name: float(np.average(values, weights=sizes)) for name, values in terms.items()}
        return {"score": -means.pop("loss"), **means}

    def decays(self, name: str) -> bool:
        """No weight decay."""
        return False


# files


def train_adversary(
    job: AdversaryJob, plan: TrainingPlan, file: Path, watch: WatchTraining | None = None
) -> dict[str, Any]:
    """Train, write the network as safetensors, and return its record; a killed training is resumed.

    A finished file is not trained again.
    """
    state = file.with_suffix("")
    with write_errors(state):
        state.mkdir(parents=True, exist_ok=True)
        sweep(file.parent)
    if not file.exists():
        fitted = fit(job, plan, state, watch)
        goal = job.adversary.goal
        record = {"goal": goal.kind, "layers": goal.layers, "best": fitted.best, "history": fitted.history}
        weights = {name: tensor.detach().contiguous() for name, tensor in job.model.state_dict().items()}
        write_files({file: lambda part: save_file(weights, part, {"heedful": json.dumps(record)})})
    shutil.rmtree(state, ignore_errors=True)
    with safe_open(file, "pt") as opened:
        stored: dict[str, Any] = json.loads(opened.metadata()["heedful"])
    return stored | {"fingerprint": blake2b(file.read_bytes(), digest_size=16).hexdigest()}


def load_network(file: Path, device: torch.device) -> KeyNetwork:
    """The network in a file."""
    try:
        weights = load_file(file)
    except (OSError, SafetensorError) as e:
        raise BadInput(f"'{file}' cannot be read ({e}); run the same command again with --restart.") from e
    groups, width, hidden = weights["inner"].shape
    network = KeyNetwork(width, hidden, groups)
    network.load_state_dict(weights)
    return network.to(device).eval()
