"""What teacher and student share: batches, optimizer, averaged weights, accuracy, checkpoints."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .settings import Paths, Settings, atomic
from .texts import SPELLINGS, Example, read_examples

MAX_TOKENS = 96  # of a training text; the rest is truncated


def autocast(s: Settings) -> torch.autocast:
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=s.bfloat16)


def group_by_length(lengths: Sequence[int], max_tokens: int, rng: random.Random) -> list[list[int]]:
    """Batches, in random order, of indices of texts of similar length; padded, a batch has at most `max_tokens`."""
    groups: list[list[int]] = [[]]
    for n in sorted(range(len(lengths)), key=lambda n: lengths[n] + rng.random()):
        if groups[-1] and (len(groups[-1]) + 1) * lengths[n] > max_tokens:
            groups.append([])
        groups[-1].append(n)
    rng.shuffle(groups)
    return groups


def label_distribution(examples: Sequence[Example]) -> Float[Tensor, "texts 2"]:
    positive = torch.tensor([e.confidence if e.label == 1 else 1 - e.confidence for e in examples])
    return torch.stack([1 - positive, positive], -1)


def build_optimizer(parameters: Sequence[nn.Parameter], learning_rate: float, decay: float) -> torch.optim.Optimizer:
    """AdamW; vectors (biases, normalisation) have no weight decay."""
    vectors, matrices = ([q for q in parameters if (q.dim() > 1) == matrix] for matrix in (False, True))
    groups = [{"params": vectors, "weight_decay": 0.0}, {"params": matrices, "weight_decay": decay}]
    return torch.optim.AdamW(groups, learning_rate, betas=(0.9, 0.98), fused=True)


def take_step(
    loss: Tensor, optimizer: torch.optim.Optimizer, parameters: Sequence[nn.Parameter], learning_rate: float
) -> None:
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()


@torch.no_grad()
def update_average(average: nn.Module, model: nn.Module, decay: float) -> None:
    """Exponential moving average of the weights."""
    torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 1 - decay)


@torch.no_grad()
def compute_logits(model: Any, tokenizer: Any, texts: Sequence[str]) -> Float[Tensor, "texts 2"]:
    batches = [list(texts[start : start + 64]) for start in range(0, len(texts), 64)]
    inputs = (tokenizer(batch, padding=True, truncation=True, return_tensors="pt") for batch in batches)
    return torch.cat([model(**batch).logits.float() for batch in inputs])


class Score(NamedTuple):
    accuracy: float
    loss: float  # cross-entropy


def score(model: Any, tokenizer: Any, examples: Sequence[Example], spelling: str) -> Score:
    logits = compute_logits(model, tokenizer, [getattr(e, spelling) for e in examples])
    labels = torch.tensor([e.label for e in examples])
    return Score((logits.argmax(-1) == labels).double().mean().item(), cross_entropy(logits, labels).item())


def dev_scores(model: Any, tokenizer: Any, p: Paths) -> list[Score]:
    """SST-2 dev in both spellings, and the second development set."""
    dev = read_examples(p.data / "sst2/dev.jsonl")
    first = [score(model, tokenizer, dev, spelling) for spelling in SPELLINGS]
    return [*first, score(model, tokenizer, read_examples(p.dev_sentences), "ordinary")]


def save_checkpoint(path: Path, step: int, best: float, optimizer: torch.optim.Optimizer, **modules: nn.Module) -> None:
    """Weights, optimizer state, random state, number of steps, best sum of accuracies on the development sets."""
    tensors = {f"{name}/{key}": x for name, module in modules.items() for key, x in module.state_dict().items()}
    tensors |= {f"optimizer/{i}/{key}": x for i, m in optimizer.state_dict()["state"].items() for key, x in m.items()}
    tensors |= {"step": torch.tensor(step), "best": torch.tensor(best, dtype=torch.float64)}
    with atomic(path) as part:
        save_file(tensors | {"rng": torch.get_rng_state()}, part)


def load_checkpoint(path: Path, optimizer: torch.optim.Optimizer, **modules: nn.Module) -> tuple[int, float]:
    """Restore what `save_checkpoint` wrote; the number of steps and the best sum of accuracies."""
    tensors = load_file(path)
    for name, module in modules.items():
        prefix = f"{name}/"
        module.load_state_dict({key.removeprefix(prefix): x for key, x in tensors.items() if key.startswith(prefix)})
    state: dict[int, dict[str, Tensor]] = {}
    for key, x in tensors.items():
        if key.startswith("optimizer/"):
            _, index, moment = key.split("/")
            state.setdefault(int(index), {})[moment] = x
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})
    torch.set_rng_state(tensors["rng"])
    return int(tensors["step"]), float(tensors["best"])
