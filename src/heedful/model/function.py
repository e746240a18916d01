"""Plain: any function from texts to probabilities as a Classifier, without attention and gradients.

It is the only classifier whose texts are changed as strings: words are deleted or replaced in the text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from heedful.core.arrays import Bools
from heedful.core.errors import BadInput, Unsupported
from heedful.core.explanation import Prediction
from heedful.core.target import Head
from heedful.core.tokens import Tokens, check_text, word_indices, word_spans
from heedful.model.batch import BUDGET
from heedful.model.classifier import Classifier
from heedful.model.locks import lock_of
from heedful.model.probes import PROBE

Predict = Callable[[list[Any]], Any]
ROWS = 64  # texts per call of the function
KNOWN_BY = (PROBE, "The film was good, and not bad at all.", "No! It is the worst of 3.")
_LEAST = 1e-12  # a probability of zero has no logarithm


class Plain(Classifier):
    """`predict(texts) -> probabilities [n, labels]`; a pair of texts is passed as a tuple.

    The logit of a label is the logarithm of its probability.
    """

    def __init__(self, predict: Predict, labels: Sequence[str] | None = None, name: str | None = None) -> None:
        if not callable(predict):
            raise BadInput(f"a {type(predict).__name__} cannot be called; give a function from texts to probabilities.")
        self.predict = predict
        self.name = name or getattr(predict, "__qualname__", type(predict).__name__)
        self.forwards = self.backwards = 0
        self.answered = None
        self.recalled = 0
        columns = self._probabilities([PROBE]).shape[1]
        self.labels = tuple(map(str, labels)) if labels is not None else tuple(f"LABEL_{i}" for i in range(columns))
        if len(self.labels) != columns:
            raise BadInput(f"{len(self.labels)} labels for {columns} columns of {self.name}; give one for each column.")
        if len(set(self.labels)) < columns:
            raise BadInput(f"two labels of {self.name} have the same name; give each its own.")
        self._outputs = [[f"{p:.5f}" for p in row] for row in self._probabilities(list(KNOWN_BY)).tolist()]
        self.limit = None
        self.head: Head = "softmax"

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held by one job: the function is called by one thread at a time."""
        return lock_of(self)

    @property
    def fingerprint(self) -> str:
        """A hash of the function's name, its labels and its outputs for a few texts."""
        return hashlib.sha256(repr((self.name, self.labels, self._outputs)).encode()).hexdigest()[:16]

    @property
    def device(self) -> torch.device:
        """The device of the outputs."""
        return torch.device("cpu")

    def tokens(self, text: str, pair: str | None = None) -> Tokens:
        """The text's own words."""
        check_text(text)
        if pair is not None:
            check_text(pair, "pair")
        texts = [text] if pair is None else [text, pair]
        places = [(segment, span) for segment, t in enumerate(texts) for span in word_spans(t)]
        spans, segments = [span for _, span in places], [segment for segment, _ in places]
        return Tokens(
            text=text,
            pair=pair,
            ids=tuple(range(len(places))),
            pieces=tuple(texts[segment][slice(*span)] for segment, span in places),
            spans=tuple(spans),
            words=tuple(word_indices(spans, segments, [text, pair or ""])),
            segments=tuple(segments),
        )

    @property
    def reads_pairs(self) -> bool:
        """A function may read pairs: it gets them as tuples."""
        return True

    def attended(self, tokens: Tokens) -> Bool[Bools, "t"]:
        """Every token: no attention is known that could leave one out."""
        return np.ones(len(tokens), dtype=bool)

    def batches(self, texts: Sequence[Tokens], budget: int = BUDGET) -> list[list[int]]:
        """Any texts go together."""
        return [list(range(i, min(i + ROWS, len(texts)))) for i in range(0, len(texts), ROWS)]

    def predictions(self, texts: Sequence[Tokens], budget: int = BUDGET) -> list[Prediction]:
        """The prediction for each text."""
        whole = [t.text if t.pair is None else (t.text, t.pair) for t in texts]
        return self._predictions(self.of_texts(whole))

    def of_texts(self, texts: Sequence[str | tuple[str, str]]) -> Tensor:
        """Logits [n,c] of texts, a few at a time."""
        with self.lock:
            self.forwards += len(texts)
            parts = [self._probabilities(list(texts[i : i + ROWS])) for i in range(0, len(texts), ROWS)]
        return torch.cat(parts).clamp_min(_LEAST).log()

    def _probabilities(self, texts: list[Any]) -> Tensor:
        output = self.predict(texts)
        expected = "it must return one row per text and one probability per label"
        try:
            table = np.asarray(output, dtype=np.float64)
        except (TypeError, ValueError, RuntimeError) as e:  # ragged, words, or a tensor that requires gradients
            kind = type(output).__name__
            raise BadInput(f"{self.name} returned a {kind} that is not a table of numbers; {expected}.") from e
        if table.ndim != 2 or len(table) != len(texts) or table.shape[1] < 2:
            shape = f"an array of shape {table.shape} for {len(texts)} texts"
            raise BadInput(f"{self.name} returned {shape}; {expected}.")
        if not np.isfinite(table).all() or table.min() < 0 or np.abs(table.sum(1) - 1).max() > 1e-3:
            raise BadInput(f"{self.name} returned numbers that are not probabilities; each row must sum to 1.")
        return torch.from_numpy(table.copy())  # torch refuses a reversed view, and warns about a read-only one

    # what a function does not have

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise Unsupported(
            f"{self.name} is a function from texts to probabilities: it has no attention and no gradients; use "
            "leave-one-out, occlusion, lime, shapley, shapley-partition, input-reduction or minimal-flip."
        )

    model = sites = property(_refuse)
    batch = attention = embeddings = states = _refuse

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Other threads wait: a function has no modes."""
        with self.lock:
            yield

    @contextmanager
    def fast_inference(self) -> Iterator[None]:
        """Without effect: a function has no modes."""
        yield
