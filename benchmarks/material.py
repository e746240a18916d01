"""Material: the texts and models of the benchmark. Nothing of the texts is written anywhere.

With ../shared beside the project: sentences of sst2, film reviews of movies, and the model minilm-sst2. Without it: the
package's own sentences and its default model.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import torch

import heedful
from heedful import data
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.data import Example
from heedful.model.classifier import Classifier
from heedful.model.masking import features

SHARED = Path(__file__).parents[2] / "shared"
MINILM = SHARED / "models" / "minilm-sst2"
SENTENCE, DOCUMENT, WORDS = 25, 200, 12  # tokens, tokens, words


@dataclass(frozen=True)
class Scale:
    """How much is run: `make bench`, or a two-minute version of it."""

    quick: bool = False

    def few(self, usual: int, quick: int = 1) -> int:
        """A number of texts or rounds."""
        return quick if self.quick else usual


@cache
def trained() -> Classifier:
    """minilm-sst2 where it is, else the default model. Parameters are frozen, for all sides."""
    found = heedful.load(MINILM) if MINILM.is_dir() else default()
    found.model.requires_grad_(False)
    return found


@cache
def default() -> Classifier:
    """The model that comes with the package."""
    return heedful.load()


@cache
def large() -> Classifier:
    """As large as BERT-base; random weights, of the size that training leaves."""
    from transformers import BertConfig, BertForSequenceClassification

    tokenizer = trained().tokenizer
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = BertConfig(vocab_size=len(tokenizer), num_labels=2, initializer_range=0.04)
        model = BertForSequenceClassification(config).eval().requires_grad_(False)
    return Classifier(model, tokenizer, name="bert-base, random")


def named(classifier: Classifier) -> str:
    """A short name for the table."""
    return Path(classifier.name).name


@cache
def _lines(path: Path) -> tuple[str, ...]:
    return tuple(json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines())


def _raw(data: str) -> list[str]:
    path = SHARED / "data" / data
    return list(_lines(path)) if path.exists() else []


def _own() -> list[str]:
    """The package's sentences, several joined, starting at each of them."""
    lines = _lines(Path(str(files("heedful.data") / "assets" / "corpus.jsonl")))
    return [" ".join((*lines[i:], *lines[:i])[:40]) for i in range(0, len(lines), 3)]


def _prefix(text: str, size: Callable[[str], int], most: int) -> str:
    """As many of the text's first words as give at most this size."""
    words = text.split()
    low, high = 1, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size(" ".join(words[:middle])) <= most else (low, middle - 1)
    return " ".join(words[:low])


def _spread(texts: list[str], n: int) -> list[str]:
    """n texts from all over the list."""
    return texts[:: max(1, len(texts) // n)][:n]


@cache
def sentences(n: int = 20) -> tuple[str, ...]:
    """Sentences of 23 to 27 tokens."""
    size = _length()
    whole = [t for t in _raw("sst2/dev.jsonl") if abs(size(t) - SENTENCE) <= 2]
    return tuple(_spread(whole or [_prefix(t, size, SENTENCE) for t in _own()], n))


def labelled(n: int) -> list[Example]:
    """Labelled sentences of any length, with labels that the trained model knows."""
    path = SHARED / "data" / "sst2" / "dev.jsonl"
    examples = data.load(path) if path.exists() and MINILM.is_dir() else data.load("corpus")
    return examples[:n]


@cache
def documents(n: int = 5, tokens: int = DOCUMENT) -> tuple[str, ...]:
    """Documents of about this many tokens."""
    whole = _spread(_raw("movies/val.jsonl") or [t * (1 + tokens // 300) for t in _own()], n)
    return tuple(_prefix(t, _length(), tokens) for t in whole)


@cache
def short(n: int = 20) -> tuple[str, ...]:
    """Sentences of exactly 12 words, punctuation marks counted."""

    def size(text: str) -> int:
        return len(features(trained().tokens(text), "word"))

    whole = [t for t in _raw("sst2/dev.jsonl") if size(t) == WORDS]
    cut = whole or [t for t in (_prefix(t, size, WORDS) for t in _own()) if size(t) == WORDS]
    return tuple(_spread(cut, n))


def _length() -> Callable[[str], int]:
    return lambda text: len(trained().tokens(text))


def resolved(classifier: Classifier, tokens: Tokens, scale: str = "logit") -> Target:
    """The predicted label's logit or probability."""
    index = classifier.predictions([tokens])[0].index
    return Target(scale="probability" if scale == "probability" else "logit").resolved(classifier.labels, index)
