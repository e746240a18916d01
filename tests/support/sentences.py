"""What sentence-transformers and setfit build, by hand, with their names and attributes, slow and obvious."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from heedful.core.arrays import Floats
from tests.support.models import build, loud


class Transformer(nn.Module):
    def __init__(self, auto_model: Any, tokenizer: Any, max_seq_length: int | None = None, lower: bool = False) -> None:
        super().__init__()
        self.auto_model, self.tokenizer = auto_model, tokenizer
        self.max_seq_length, self.do_lower_case = max_seq_length, lower


class Pooling(nn.Module):
    def __init__(self, *modes: str) -> None:
        super().__init__()
        self.pooling_mode = modes[0] if len(modes) == 1 else modes


class Dense(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear, self.activation_function = nn.Linear(inputs, outputs), nn.Tanh()
        loud(self.linear)


class Normalize(nn.Module):
    pass


class Router(nn.Module):
    pass


class SentenceTransformer(nn.Sequential):
    """Embeds one text at a time, so nothing is padded."""

    default_prompt_name = None

    @property
    def tokenizer(self) -> Any:
        first: Any = self[0]
        return first.tokenizer

    @torch.no_grad()
    def encode(self, texts: list[str], **_: Any) -> Floats:
        return np.array([self.vector(text) for text in texts], dtype=np.float32)

    def vector(self, text: str) -> Floats:
        modules: list[Any] = list(self)
        first, pooling, *rest = modules
        limit = min(first.max_seq_length or 64, 64)
        text = text.lower() if first.do_lower_case else text
        inputs = first.tokenizer(text, truncation=True, max_length=limit, return_tensors="pt")
        states = first.auto_model.eval()(**inputs).last_hidden_state[0].double().numpy()
        modes = pooling.pooling_mode
        vector = np.concatenate([pool(states, mode) for mode in ([modes] if isinstance(modes, str) else modes)])
        for module in rest:
            if isinstance(module, Dense):
                vector = np.tanh(module.linear.weight.double().numpy() @ vector + module.linear.bias.double().numpy())
            else:
                vector = vector / np.sqrt((vector**2).sum())
        whole: Floats = np.asarray(vector, dtype=np.float64)
        return whole


def pool(states: Floats, mode: str) -> Floats:
    """The pooled vector of one text."""
    n = len(states)
    pooled: Floats = {
        "cls": states[0],
        "lasttoken": states[-1],
        "max": states.max(0),
        "mean": states.sum(0) / n,
        "weightedmean": np.stack([(i + 1) * state for i, state in enumerate(states)]).sum(0) / (n * (n + 1) / 2),
        "mean_sqrt_len_tokens": states.sum(0) / np.sqrt(n),
    }[mode]
    return pooled


class SetFitHead(nn.Module):
    """The head of torch: a linear map, a temperature, and softmax or sigmoid."""

    def __init__(self, inputs: int, labels: int, multitarget: bool = False) -> None:
        super().__init__()
        self.linear, self.multitarget = nn.Linear(inputs, labels), multitarget
        self.temperature, self.eps = 0.5, 1e-5
        loud(self.linear)

    def predict_proba(self, vectors: torch.Tensor) -> torch.Tensor:
        logits = self.linear(vectors) / (self.temperature + self.eps)
        chances: torch.Tensor = logits.sigmoid() if self.multitarget else logits.softmax(-1)
        return chances


class SetFitModel:
    def __init__(
        self, body: SentenceTransformer, head: Any, labels: list[str] | None = None, unit: bool = False
    ) -> None:
        self.model_body: Any = body
        self.model_head, self.labels, self.normalize_embeddings = head, labels, unit

    @torch.no_grad()
    def predict_proba(self, texts: list[str]) -> Floats:
        vectors = self.model_body.encode(texts)
        if self.normalize_embeddings:
            vectors = vectors / np.sqrt((vectors**2).sum(1, keepdims=True))
        chances = self.model_head.predict_proba(
            torch.from_numpy(vectors) if isinstance(self.model_head, nn.Module) else vectors
        )
        return np.stack(chances, 1) if isinstance(chances, list) else np.asarray(chances)


def body(*modules: nn.Module, family: str = "bert", max_length: int | None = None, lower: bool = False) -> Any:
    """A tiny loud body; by default its states are averaged."""
    base = build(family)
    first = Transformer(base.model.base_model, base.tokenizer, max_length, lower)
    return SentenceTransformer(first, *(modules or (Pooling("mean"),)))


def fitted(head: Any, width: int, kind: str) -> Any:
    """A head of scikit-learn, fitted to random vectors: "two", "three", "names" or "several" labels."""
    vectors = np.random.default_rng(0).normal(size=(60, width))
    three = np.digitize(vectors[:, 0], [-0.5, 0.5])
    labels = {
        "two": (vectors[:, 0] > 0).astype(int),
        "three": three,
        "names": np.array(["bad", "so-so", "good"])[three],
        "several": (vectors[:, :3] > [0, 0.2, -0.3]).astype(int),
    }[kind]
    return head.fit(2 * vectors, labels)
