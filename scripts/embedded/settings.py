"""The settings of the training, its paths, and how it writes files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T", bool, int, float)


def setting(group: str, default: T, description: str) -> T:
    value: T = field(default=default, metadata={"group": group, "description": description})
    return value


@dataclass(frozen=True)
class Settings:
    """The defaults are those of the embedded model."""

    seed: int = setting("general", 0, "seed of all random numbers")
    threads: int = setting("general", 1, "CPU threads, except while the teacher is fine-tuned")
    processes: int = setting("general", 2, "processes that compute the outputs of the teacher")
    bfloat16: bool = setting("general", True, "bfloat16 autocast in forward passes")
    treebank_share: float = setting("general", 0.25, "share of texts in treebank spelling, for teacher and student")
    review_pool: int = setting("pool", 270000, "review sentences")
    review_ends: int = setting("pool", 30000, "those of them from the first or last two sentences of a review")
    review_confidence: float = setting("pool", 0.75, "probability that the label of a review holds for its sentence")
    min_words: int = setting("pool", 3, "words in the shortest review sentence")
    max_words: int = setting("pool", 32, "words in the longest review sentence")
    negations: int = setting("pool", 40000, "composed texts that assert or negate a word or short phrase")
    contrasts: int = setting("pool", 24000, "composed texts that contrast two labelled texts")
    frames: int = setting("pool", 50000, "composed texts from frames with slots")
    clauses: int = setting("pool", 25000, "composed texts from one or two clauses")
    augmented_pool: int = setting("pool", 140000, "augmented copies: some words replaced, some texts shortened")
    words: int = setting("pool", 18000, "most frequent words, as texts of one word")
    teacher_phrases: int = setting("teacher", 40000, "treebank phrases for fine-tuning")
    teacher_composed: int = setting("teacher", 40000, "composed texts for fine-tuning")
    teacher_steps: int = setting("teacher", 1800, "maximum number of steps")
    teacher_batch_tokens: int = setting("teacher", 1024, "tokens per batch, padding included")
    teacher_learning_rate: float = setting("teacher", 5e-5, "peak learning rate")
    teacher_threads: int = setting("teacher", 2, "CPU threads for fine-tuning")
    block_texts: int = setting("teacher", 4000, "texts per file of outputs")
    components: int = setting("teacher", 128, "principal components of the hidden states")
    phrases: int = setting("student", 58000, "treebank phrases")
    composed: int = setting("student", 70000, "composed texts")
    reviews: int = setting("student", 200000, "review sentences, besides those from the ends of reviews")
    augmented: int = setting("student", 100000, "augmented copies")
    vocabulary: int = setting("student", 24000, "size of the vocabulary")
    width: int = setting("student", 256, "width of the hidden states")
    layers: int = setting("student", 3, "number of layers")
    heads: int = setting("student", 4, "attention heads per layer")
    positions: int = setting("student", 256, "maximum number of tokens of a text")
    dropout: float = setting("student", 0.1, "dropout of hidden states")
    epochs: float = setting("student", 2.0, "epochs, possibly a fraction")
    window_blocks: int = setting("student", 5, "blocks of teacher outputs that the first epoch shuffles together")
    batch_tokens: int = setting("student", 2048, "tokens per batch, padding included")
    learning_rate: float = setting("student", 7e-4, "peak learning rate")
    warmup_steps: int = setting("student", 200, "steps of linear warm-up")
    decay_share: float = setting("student", 0.3, "last share of steps: learning rate and mask rate decay linearly")
    weight_decay: float = setting("student", 0.05, "weight decay of matrices")
    temperature: float = setting("student", 2.0, "distillation temperature")
    label_weight: float = setting("student", 0.3, "weight of a label that is certain, against the teacher, 0 to 1")
    hidden_weight: float = setting("student", 1.0, "weight of the hidden-state loss")
    mask_rate: float = setting("student", 0.12, "share of masked tokens")
    ema_decay: float = setting("student", 0.998, "decay of the exponential moving average of the weights")
    ramp_step: int = setting("student", 2500, "first of the 250 steps in which logit scale and entropy weight rise")
    logit_scale: float = setting("student", 2.0, "final factor of the logits of the teacher")
    entropy_weight: float = setting("student", 0.2, "final weight of the attention-entropy loss")
    evaluation_steps: int = setting("student", 125, "steps between evaluations on the development sets")


class Paths(NamedTuple):
    data: Path
    ratings: Path
    start: Path
    dev_sentences: Path
    corpus: Path
    work: Path


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary path for a file or folder, renamed to `path` at the end: an interrupted run leaves no part."""
    temporary = path.with_name(f"partial-{path.name}")
    yield temporary
    temporary.rename(path)
