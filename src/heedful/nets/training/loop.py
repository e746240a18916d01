"""Loop: the one training loop, with early stopping on the validation score, a log, and a state for resuming.

The random numbers of step s in epoch e depend on (seed, e, s) only, so a run that was killed and resumed ends with the
same bytes as one that was not.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from heedful.core.errors import BadInput
from heedful.core.files import write_files
from heedful.core.settings import Checked, Count, Fraction, Ge, NotNegative, Positive
from heedful.model.precision import autocast

STATE, LOG = "resume.safetensors", "training.jsonl"
SAVE_SECONDS = 60.0  # between two states on disk


class TrainingJob(Protocol):
    """What is trained: a network, its batches, its loss and its score."""

    @property
    def model(self) -> nn.Module:
        """The network, with its initial weights."""
        ...

    def batches(self, epoch: int) -> Sequence[Any]:
        """The batches of an epoch, which depend on the epoch and the job's seed only."""
        ...

    def loss(self, batch: Any) -> Tensor:
        """The mean loss of a batch."""
        ...

    def score(self) -> dict[str, float]:
        """Scores on the validation split; the first selects the epoch, higher is better; among equals, accuracy."""
        ...

    def decays(self, name: str) -> bool:
        """Whether weight decay applies to a parameter."""
        ...


@dataclass(frozen=True)
class TrainingProgress:
    """The progress of training, for a progress bar."""

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    history: tuple[dict[str, float], ...] = ()


WatchTraining = Callable[[TrainingProgress], None]


@dataclass(frozen=True)
class Fitted:
    """A record of each epoch, and the number of the best (from 1)."""

    history: tuple[dict[str, float], ...]
    best: int


@dataclass
class _State:
    """What a resumed run needs, apart from weights."""

    epoch: int = 0
    step: int = 0
    total: float = 0.0  # loss, summed over the steps of this epoch
    rate: float = 1.0  # factor of the learning rate, halved at each plateau
    best: int = 0
    history: list[dict[str, float]] = field(default_factory=list)


def fit(
    job: TrainingJob, plan: TrainingPlan, folder: Path, watch: WatchTraining | None = None, every: float = SAVE_SECONDS
) -> Fitted:
    """Train, and load the best epoch's weights into the job's model. A killed run in the folder is resumed.

    The state stays in the folder until `delete_state` is called.
    """
    with torch.random.fork_rng(devices=[]), _training(job.model):
        return _Run(job, plan, folder, watch, every).run()


def delete_state(folder: Path) -> None:
    """Remove the state of a finished run."""
    (folder / STATE).unlink(missing_ok=True)


class _Run:
    """One call of `fit`."""

    def __init__(
        self, job: TrainingJob, plan: TrainingPlan, folder: Path, watch: WatchTraining | None, every: float
    ) -> None:
        self.job, self.plan, self.folder, self.watch, self.every = job, plan, folder, watch, every
        self.weights = dict(job.model.named_parameters())
        self.buffers = dict(job.model.named_buffers())
        self.optimisers = optimisers(job.model, job.decays, plan)
        self.best = {name: p.detach().clone() for name, p in self.weights.items()}
        self.state = _State()
        self.saved = time.monotonic()

    def run(self) -> Fitted:
        self._resume()
        patience = self.plan.epochs if self.plan.patience is None else self.plan.patience
        while self.state.epoch < self.plan.epochs and self.state.epoch - self.state.best < patience:
            self._epoch()
        with torch.no_grad():
            for name, p in self.weights.items():
                p.copy_(self.best[name])
        return Fitted(tuple(self.state.history), self.state.best)

    def _epoch(self) -> None:
        state, batches = self.state, self.job.batches(self.state.epoch)
        for step in range(state.step, len(batches)):
            loss = self._step(batches[step], step, len(batches))
            if not math.isfinite(loss):
                place = f"epoch {state.epoch + 1}, step {step + 1}"
                raise BadInput(f"the loss is {loss} in {place}; set a smaller lr (now {self.plan.lr:g}) or a clip.")
            state.step, state.total = step + 1, state.total + loss
            self._report(len(batches))
            if time.monotonic() - self.saved > self.every:
                self._save()
        self._finish_epoch(len(batches))

    def _step(self, batch: Any, step: int, steps: int) -> float:
        plan = self.plan
        key = json.dumps((plan.seed, self.state.epoch, step)).encode()
        torch.manual_seed(int.from_bytes(hashlib.blake2b(key, digest_size=7).digest(), "big"))
        rate = plan.lr * self.state.rate * rate_share(plan, self.state.epoch * steps + step, steps * plan.epochs)
        for group in (g for optimiser in self.optimisers for g in optimiser.param_groups):
            group["lr"] = rate
        with autocast(plan.bf16):
            loss = self.job.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        if plan.clip is not None:
            clip(list(self.weights.values()), plan.clip)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad()
        return float(loss.detach())

    def _finish_epoch(self, steps: int) -> None:
        state = self.state
        self.job.model.eval()
        with torch.no_grad():
            scores = self.job.score()
        self.job.model.train()
        name, score = next(iter(scores.items()))
        if math.isnan(score):
            raise BadInput(f"{name} of the validation texts is not a number; give texts of every label, or set select.")
        # subtle: on few texts AUC is soon 1 while accuracy is still that of a guess, so accuracy decides between equals
        better = all(_rank(scores, name) > _rank(row, name) for row in state.history)
        state.epoch += 1
        state.history.append({"epoch": state.epoch, "loss": state.total / max(1, steps), **scores})
        if better:
            state.best = state.epoch
            self.best = {name: p.detach().clone() for name, p in self.weights.items()}
        elif self.plan.schedule == "plateau":
            state.rate /= 2
        state.step, state.total = 0, 0.0
        self._save()
        write_files({self.folder / LOG: "".join(json.dumps(row) + "\n" for row in state.history).encode()})
        self._report(steps)

    def _report(self, steps: int) -> None:
        state = self.state
        if self.watch is not None:
            loss = state.total / state.step if state.step else state.history[-1]["loss"]
            self.watch(TrainingProgress(state.epoch, self.plan.epochs, state.step, steps, loss, tuple(state.history)))

    # the state for resuming

    def _save(self) -> None:
        self.saved = time.monotonic()
        tensors = {f"weight {n}": p.detach() for n, p in self.weights.items()}
        tensors |= {f"buffer {n}": b for n, b in self.buffers.items()}
        tensors |= {f"best {n}": p for n, p in self.best.items()}
        names = {id(p): n for n, p in self.weights.items()}
        for p, entries in ((p, entries) for optimiser in self.optimisers for p, entries in optimiser.state.items()):
            tensors |= {f"optimiser {key} {names[id(p)]}": torch.as_tensor(t) for key, t in entries.items()}
        metadata = {"state": json.dumps(asdict(self.state)), "identity": _identity(self.job, self.plan)}
        copies = {name: tensor.contiguous().clone() for name, tensor in tensors.items()}
        write_files({self.folder / STATE: lambda part: save_file(copies, part, metadata)})

    def _resume(self) -> None:
        file = self.folder / STATE
        if not file.exists():
            return
        with safe_open(file, "pt") as opened:
            metadata = opened.metadata()
            if metadata["identity"] != _identity(self.job, self.plan):
                wrong = f"'{self.folder}' holds an unfinished training with other settings or data"
                raise BadInput(f"{wrong}; give another folder, or start it again (--restart).")
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        self.state = _State(**json.loads(metadata["state"]))
        with torch.no_grad():
            for name, p in self.weights.items():
                p.copy_(tensors[f"weight {name}"])
                self.best[name] = tensors[f"best {name}"]
            for name, b in self.buffers.items():
                b.copy_(tensors[f"buffer {name}"])
        for optimiser in self.optimisers:
            owned = {id(p) for group in optimiser.param_groups for p in group["params"]}
            for name, p in ((name, p) for name, p in self.weights.items() if id(p) in owned):
                entries = {
                    k.split(" ")[1]: t for k, t in tensors.items() if k.startswith("optim") and k.endswith(f" {name}")
                }
                if entries and isinstance(optimiser, torch.optim.SparseAdam):
                    entries["step"] = int(entries["step"])
                if entries:
                    optimiser.state[p] = entries


def _rank(scores: Mapping[str, float], name: str) -> tuple[float, float]:
    return scores[name], scores.get("accuracy", 0.0)


def _identity(job: TrainingJob, plan: TrainingPlan) -> str:
    """A hash of what a resumed run must share: the plan except its length, the network, the job's identity."""
    sizes = {n: list(p.shape) for n, p in job.model.named_parameters()}
    facts = [asdict(replace(plan, epochs=1, patience=None)), sizes, getattr(job, "identity", "")]
    if plan.schedule == "linear":
        facts.append(plan.epochs)
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=8).hexdigest()


@contextmanager
def _training(model: nn.Module) -> Iterator[None]:
    try:
        model.train()
        yield
    finally:
        model.eval()
        for table in (m for m in model.modules() if isinstance(m, nn.Embedding)):
            table.sparse = False


Optimiser = Literal["adam", "amsgrad", "adamw"]
Schedule = Literal["constant", "linear", "plateau"]


@dataclass(frozen=True)
class TrainingPlan(Checked):
    """How to train.

    `patience` is the number of epochs without a better validation score after which training stops (none: all
    `epochs`). `schedule` "linear" falls to 0, "plateau" halves the rate after an epoch without a better score, both
    after `warmup`, a share of all steps. `clip` bounds the norm of the gradient. `lazy` updates only the word vectors
    in a batch, without decay: not exactly Adam, but several times as fast with a large vocabulary.
    """

    epochs: Count = 10
    patience: Count | None = None
    optimiser: Optimiser = "adam"
    lr: Positive = 1e-3
    weight_decay: NotNegative = 0.0
    schedule: Schedule = "constant"
    warmup: Fraction = 0.0
    clip: Positive | None = None
    lazy: bool = False
    bf16: bool = False
    seed: Annotated[int, Ge(0)] = 0


def optimisers(model: nn.Module, decays: Callable[[str], bool], plan: TrainingPlan) -> list[torch.optim.Optimizer]:
    """The optimisers of the plan; `decays` says for each parameter whether weight decay applies."""
    named = {n: p for n, p in model.named_parameters() if p.requires_grad}
    tables = [m for m in model.modules() if isinstance(m, nn.Embedding) and m.weight.requires_grad and plan.lazy]
    for table in tables:
        table.sparse = True  # its gradient has only the rows of a batch
    sparse = [table.weight for table in tables]
    dense_names = [n for n, p in named.items() if not any(p is weight for weight in sparse)]
    groups: list[dict[str, Any]] = [
        {"params": [named[n] for n in dense_names if decays(n) is decayed], "weight_decay": plan.weight_decay * decayed}
        for decayed in (True, False)
    ]
    filled = [group for group in groups if group["params"]]
    kind = torch.optim.AdamW if plan.optimiser == "adamw" else torch.optim.Adam
    dense = kind(filled, lr=plan.lr, amsgrad=plan.optimiser == "amsgrad", fused=True)
    return [dense, torch.optim.SparseAdam(sparse, lr=plan.lr)] if sparse else [dense]


def clip(weights: Sequence[Tensor], limit: float) -> None:
    """Scale all gradients down so that their joint norm is at most `limit`; some may be sparse."""
    slopes = [p.grad.coalesce().values() if p.grad.is_sparse else p.grad for p in weights if p.grad is not None]
    norm = torch.stack([slope.norm() for slope in slopes]).norm()
    factor = (limit / (norm + 1e-6)).clamp(max=1.0)
    for p in weights:
        if p.grad is not None:
            p.grad.mul_(factor)


def rate_share(plan: TrainingPlan, step: int, steps: int) -> float:
    """The share of the learning rate at a step."""
    warm = round(plan.warmup * steps)
    if step < warm:
        return (step + 1) / (warm + 1)
    return (steps - step) / (steps - warm) if plan.schedule == "linear" else 1.0
