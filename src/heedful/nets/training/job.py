"""Job: the training of a classifier on labelled texts, and its scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tokenizers
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from heedful.core.arrays import Floats
from heedful.core.errors import BadInput
from heedful.core.target import activation
from heedful.data import Example, label_names, unknown_label
from heedful.maths import classification as scoring
from heedful.model.batch import Padding
from heedful.model.precision import autocast
from heedful.nets.training.batches import EncodedTexts, PaddedTexts, bucketed, encoded, in_order
from heedful.nets.training.settings import Batches


@dataclass(frozen=True)
class Labels:
    """Label names in the order of the network's outputs; with `multi` a text may have any number of them."""

    names: tuple[str, ...]
    multi: bool

    @classmethod
    def of(cls, examples: Sequence[Example]) -> Labels:
        """The labels of the training texts."""
        names = label_names(examples)
        multi = any(isinstance(e.label, tuple) for e in examples)
        if len(names) < (1 if multi else 2):
            raise BadInput(f"the training texts have only the label '{names[0] if names else ''}'; two are needed.")
        return cls(names, multi)

    def truth(self, examples: Sequence[Example], split: str) -> NDArray[Any]:
        """Label numbers [n], or yes and no [n,c]."""
        known = {name: i for i, name in enumerate(self.names)}
        by_text = [e.label if isinstance(e.label, tuple) else (e.label,) for e in examples]
        for row, (example, labels) in enumerate(zip(examples, by_text, strict=True), 1):
            where = example.where or f"{split} text {row}"
            if None in labels or (not labels and not self.multi):
                raise BadInput(f"{where} has no label; write one, or remove the text.")
            unknown = next((x for x in labels if x not in known), None)
            if unknown is not None:
                raise unknown_label(unknown, self.names, where, "the training texts' labels ")
        if not self.multi:
            return np.array([known[str(labels[0])] for labels in by_text], dtype=np.int64)
        return np.array([[name in labels for name in self.names] for labels in by_text], dtype=bool)


@dataclass(frozen=True)
class Split:
    """Texts as ids, and their labels as numbers."""

    texts: EncodedTexts
    truth: NDArray[Any]


@dataclass(frozen=True)
class ClassifierJob:
    """A classifier's training: cross-entropy, or binary cross-entropy for each label."""

    model: Any
    settings: Batches
    labels: Labels
    train: Split
    dev: Split
    identity: str = ""

    def batches(self, epoch: int) -> Sequence[Any]:
        """Batches of texts of similar length, different in each epoch."""
        rng = np.random.default_rng([self.settings.seed, epoch])
        return bucketed(self.train.texts.lengths, self.settings.batch, rng, self.settings.budget)

    def loss(self, batch: Any) -> Tensor:
        """The mean over texts, plus the network's own penalty."""
        rows = self.train.texts.rows(batch)
        out = forward(self.model, rows)
        truth = torch.from_numpy(self.train.truth)[rows.at]
        logits, penalty = out.logits.float(), getattr(out, "penalty", None)
        if self.labels.multi or logits.shape[1] == 1:
            targets = (truth if self.labels.multi else truth[:, None]).to(logits.dtype)
            loss = nn.functional.binary_cross_entropy_with_logits(logits, targets, pos_weight=self._class_weights)
        else:
            loss = nn.functional.cross_entropy(logits, truth, weight=self._class_weights)
        return loss if penalty is None else loss + penalty

    @cached_property
    def _class_weights(self) -> Tensor | None:
        """Weights of the labels, larger for rare ones: N/N₊ − 1 of positives, N/(c·N_c) of one among several."""
        if not self.settings.balanced:
            return None
        truth, c = self.train.truth, len(self.labels.names)
        if self.labels.multi or (c == 2 and self.model.config.num_labels == 1):
            counts = truth.reshape(len(truth), -1).sum(0)
            return torch.from_numpy(len(truth) / np.maximum(counts, 1) - 1).float()
        counts = np.bincount(truth, minlength=c)
        return torch.from_numpy(len(truth) / (c * np.maximum(counts, 1))).float()

    def score(self) -> dict[str, float]:
        """Scores on dev; the first selects the epoch."""
        return {self.settings.select: float("nan")} | split_scores(self.model, self.labels, self.dev, self.settings)

    def decays(self, name: str) -> bool:
        """Matrices, except those of attention scores, as in Jain & Wallace."""
        return self.model.get_parameter(name).ndim > 1 and not name.startswith("score.")


def forward(model: Any, rows: PaddedTexts) -> Any:
    """One forward pass of a batch."""
    types = {} if rows.types is None else {"token_type_ids": rows.types}
    return model(input_ids=rows.ids, attention_mask=rows.mask, **types)


def probabilities(model: Any, texts: EncodedTexts, settings: Batches) -> Float[np.ndarray, "n c"]:
    """The network's probabilities for each text; those of no and yes for a single logit."""
    groups = in_order(texts.lengths, 4 * settings.batch, settings.budget)
    single = model.config.num_labels == 1
    multi = getattr(model.config, "problem_type", None) == "multi_label_classification"
    chances: list[Floats] = []
    with torch.inference_mode(), autocast(settings.bf16):
        for group in groups:
            logits = forward(model, texts.rows(group)).logits.cpu().double()
            pair = torch.cat([-logits, logits], -1) if single else logits
            chances.append(activation(pair, "sigmoid" if single or multi else "softmax").numpy())
    return np.concatenate(chances)[np.argsort(np.concatenate(groups))]


def split_scores(model: Any, labels: Labels, split: Split, settings: Batches) -> dict[str, float]:
    """Accuracy, F1 and ROC-AUC of a split; AUC only if every label occurs."""
    chances = probabilities(model, split.texts, settings)
    score = scoring.multi_label if labels.multi else scoring.single_label
    return {name: value for name, value in score(split.truth, chances).items() if not np.isnan(value)}


@dataclass(frozen=True)
class Cutter:
    """Examples -> Split, by a tokenizer and its settings for long texts."""

    tokenizer: tokenizers.Tokenizer
    settings: Batches
    labels: Labels
    padding: Padding
    typed: bool = True

    def split(self, examples: Sequence[Example], name: str) -> Split:
        """The examples of a split; texts that do not fit are cut or dropped."""
        backend = tokenizers.Tokenizer.from_str(self.tokenizer.to_str())
        backend.no_padding()
        backend.no_truncation()
        if self.settings.max_length is not None and self.settings.long == "cut":
            backend.enable_truncation(self.settings.max_length)
        texts = encoded(backend, [(e.text, e.pair) for e in examples], self.padding, self.typed)
        truth = self.labels.truth(examples, name)
        longest = self.settings.max_length if self.settings.long == "drop" else None
        least = self.settings.min_length
        fits = np.flatnonzero((texts.lengths >= least) & (texts.lengths <= (longest or texts.lengths.max())))
        if not len(fits):
            limits = f"at least {least}" + (f" and at most {longest}" if longest else "")
            raise BadInput(f"no {name} text has {limits} tokens; set another min_length or max_length.")
        return Split(texts, truth) if len(fits) == len(texts) else Split(texts.take(fits), truth[fits])
