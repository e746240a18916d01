"""Plain: any function from texts to probabilities as a Classifier. It has no attention and no gradients.

It is the one classifier whose texts are changed as characters: words are cut out of the string, or spliced into it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from heedful.core.errors import BadInput, Unsupported
from heedful.core.explanation import Prediction
from heedful.core.target import Head
from heedful.core.tokens import Tokens, check_text, word_indices, word_spans
from heedful.model.batch import BUDGET
from heedful.model.classifier import Classifier
from heedful.model.locks import lock_of
from heedful.model.probes import PROBE

Predict = Callable[[list[Any]], Any]
ROWS = 64  # texts given to the function at a time
KNOWN_BY = (PROBE, "The film was good, and not bad at all.", "No! It is the worst of 3.")
_LEAST = 1e-12  # a probability of zero has no logarithm


class Plain(Classifier):
    """`predict(texts) -> probabilities [n, labels]`; a pair of texts reaches the function as a tuple.

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
        columns = self._asked([PROBE]).shape[1]
        self.labels = tuple(map(str, labels)) if labels is not None else tuple(f"LABEL_{i}" for i in range(columns))
        if len(self.labels) != columns:
            raise BadInput(f"{len(self.labels)} labels were given and {self.name} answers with {columns} columns.")
        if len(set(self.labels)) < columns:
            raise BadInput(f"two labels of {self.name} have the same name; give each its own.")
        self._said = [[f"{chance:.5f}" for chance in row] for row in self._asked(list(KNOWN_BY)).tolist()]
        self.limit = None
        self.head: Head = "softmax"

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held for one job: the function is called by one thread at a time."""
        return lock_of(self)

    @property
    def fingerprint(self) -> str:
        """A function cannot be hashed: its name, its labels and what it said of a few texts are."""
        return hashlib.sha256(repr((self.name, self.labels, self._said)).encode()).hexdigest()[:16]

    @property
    def device(self) -> torch.device:
        """Where answers are kept."""
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

    def batches(self, texts: Sequence[Tokens], budget: int = BUDGET) -> list[list[int]]:
        """Any texts go together."""
        return [list(range(i, min(i + ROWS, len(texts)))) for i in range(0, len(texts), ROWS)]

    def predictions(self, texts: Sequence[Tokens], budget: int = BUDGET) -> list[Prediction]:
        """What the function says of each text."""
        whole = [t.text if t.pair is None else (t.text, t.pair) for t in texts]
        return self._predictions(self.of_texts(whole))

    def of_texts(self, texts: Sequence[str | tuple[str, str]]) -> Tensor:
        """Logits [n,c] of texts, a few at a time."""
        with self.lock:
            self.forwards += len(texts)
            parts = [self._asked(list(texts[i : i + ROWS])) for i in range(0, len(texts), ROWS)]
        return torch.cat(parts).clamp_min(_LEAST).log()

    def _asked(self, texts: list[Any]) -> Tensor:
        given = self.predict(texts)
        try:
            answer = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError, RuntimeError) as e:  # ragged, words, or a tensor that torch keeps to itself
            raise BadInput(
                f"{self.name} answered with a {type(given).__name__} that is not a table of numbers; it must return "
                "one row per text and one probability per label."
            ) from e
        if answer.ndim != 2 or len(answer) != len(texts) or answer.shape[1] < 2:
            raise BadInput(
                f"{self.name} answered {len(texts)} texts with an array of shape {answer.shape}; it must return one "
                "row per text and one probability per label."
            )
        if not np.isfinite(answer).all() or answer.min() < 0 or np.abs(answer.sum(1) - 1).max() > 1e-3:
            raise BadInput(f"{self.name} answered with numbers that are not probabilities: rows must add up to 1.")
        return torch.from_numpy(answer.copy())  # torch takes no reversed view, and warns of a read-only one

    # what a function does not have

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise Unsupported(
            f"{self.name} is a function from texts to probabilities: it has no attention and no gradients; use "
            "leave-one-out, occlusion, lime, shapley, shapley-partition, input-reduction or minimal-flip."
        )

    model = sites = property(_refuse)
    batch = attention = embeddings = _refuse

    @contextmanager
    def fast_inference(self) -> Iterator[None]:
        """Nothing needs to be prepared."""
        yield
