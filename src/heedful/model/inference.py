"""Inference: many variants of one or many texts -> logits, fast.

Identical inputs run once. Inputs of one length run together without padding; a few of similar length share a batch. A
batch has at most `budget` tokens, and half as many after each out-of-memory error. Only masks and logits of all
variants are held at once, so memory depends on the budget, hardly on the number of samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.core.arrays import Floats, Ints
from heedful.core.errors import BadInput, HeedfulError
from heedful.core.target import Target
from heedful.model.batch import BUDGET, Batch
from heedful.model.classifier import Classifier
from heedful.model.function import Plain
from heedful.model.masking import InputRows, Variants, joined
from heedful.model.precision import bf16_fault, has_bf16_units

Precision = Literal["float32", "bf16"]
CHUNK_VARIANTS = 4096  # variants turned into inputs at a time
MIN_UNPADDED_GROUP = 8  # same-length inputs that get their own batch
MAX_PADDING_SHARE = 0.15  # of a batch
MIN_CHECKED = 5  # inputs that run in both precisions


@dataclass(frozen=True)
class Answers:
    """Logits [n,c] of n variants, in float64. `which` maps each to its distinct input.

    Under bf16 they are shifted by the mean difference to float32 on a random part of the inputs: `rough` are that
    part's shifted logits, `exact` its logits in float32.
    """

    logits: Tensor
    which: Ints
    notes: tuple[str, ...] = ()
    rough: Tensor | None = None
    exact: Tensor | None = None

    @property
    def distinct(self) -> int:
        """The number of different inputs."""
        return int(self.which.max(initial=-1)) + 1

    def values(self, classifier: Classifier, target: Target) -> Floats:
        """The target's value for each variant."""
        return target.of(self.logits, classifier.head).numpy()

    def noise(self, classifier: Classifier, target: Target) -> tuple[float, int]:
        """The standard deviation of a value's rounding error, and the number of inputs on which it was measured."""
        if self.rough is None or self.exact is None:
            return 0.0, 1
        errors = target.of(self.exact, classifier.head) - target.of(self.rough, classifier.head)
        if len(errors) < 2:  # the shift makes a single input exact
            return 0.0, 1
        return float(errors.std(correction=1)), len(errors)

    def rounding(self, weights: Floats, classifier: Classifier, target: Target, start: int = 0) -> Floats:
        """The standard error of Σ weights[d,n] · values[start:start+n] from rounding, for each of d."""
        sigma, checked = self.noise(classifier, target)
        if sigma == 0:
            return np.zeros(len(weights))
        which = self.which[start : start + weights.shape[1]]
        by_input = np.zeros((len(weights), int(which.max()) + 1))
        np.add.at(by_input.T, which, weights.T)  # variants with the same input have the same error
        return np.asarray(sigma * np.sqrt((by_input**2).sum(1) + by_input.sum(1) ** 2 / checked))


def answers(
    classifier: Classifier,
    variants: Sequence[Variants],
    precision: Precision = "float32",
    rng: torch.Generator | None = None,
    budget: int = BUDGET,
) -> Answers:
    """The logits of every variant, in order."""
    return Engine(classifier, precision, rng, budget).ask(variants)


@contextmanager
def sharing(classifier: Classifier) -> Iterator[None]:
    """Inside, an input that any method or check has run in float32 is not run again.

    It still counts as a forward pass, so that a method's cost does not depend on the methods before it. Other threads
    wait until the block ends.
    """
    with classifier.evaluating():
        before = classifier.answered
        classifier.answered = {} if before is None else before
        try:
            yield
        finally:
            classifier.answered = before


@contextmanager
def apart(classifier: Classifier) -> Iterator[None]:
    """Inside `sharing`: inputs that ran before are not run again, and those that run inside are forgotten afterwards.

    The last digits of logits depend on the batch in which they were computed. So what runs apart depends on what was
    shared before, and not on what else ran apart.
    """
    before = classifier.answered
    classifier.answered = None if before is None else dict(before)
    try:
        yield
    finally:
        classifier.answered = before


def _chunks(variants: Sequence[Variants]) -> Iterator[list[tuple[Variants, slice]]]:
    """Slices of the variants, about CHUNK_VARIANTS at a time."""
    chunk: list[tuple[Variants, slice]] = []
    size = 0
    for text in variants:
        for start in range(0, len(text), CHUNK_VARIANTS):
            part = slice(start, min(start + CHUNK_VARIANTS, len(text)))
            chunk.append((text, part))
            size += part.stop - part.start
            if size >= CHUNK_VARIANTS:
                yield chunk
                chunk, size = [], 0
    if chunk:
        yield chunk


@dataclass
class Engine:
    """Runs variants through one classifier, and caches the logits of every input."""

    classifier: Classifier
    precision: Precision = "float32"
    rng: torch.Generator | None = None
    budget: int = BUDGET
    known: dict[Any, int] = field(default_factory=dict)
    logits: list[Tensor] = field(default_factory=list)
    shifts: list[bool] = field(default_factory=list)  # which parts of `logits` are bf16, and must be shifted
    rough: list[Tensor] = field(default_factory=list)
    exact: list[Tensor] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.precision not in ("float32", "bf16"):
            raise BadInput(f"precision '{self.precision}' is not one of float32, bf16.")
        # a function has its own precision
        if self.precision == "float32" or isinstance(self.classifier, Plain) or self.classifier.device.type != "cpu":
            return
        if (fault := bf16_fault()) is not None:
            self.precision = "float32"
            self.notes.append(f"bf16 cannot be used on this machine ({fault}): float32 was used")
        elif not has_bf16_units():
            self.notes.append("this processor has no bf16 units: float32 would be faster")

    def ask(self, variants: Sequence[Variants]) -> Answers:
        """The logits of every variant, in order."""
        answer = self._answer_texts if isinstance(self.classifier, Plain) else self._answer_ids
        with self.classifier.lock:
            which = np.concatenate([answer(chunk) for chunk in _chunks(variants)])
        index = torch.from_numpy(which)
        if not self.rough:
            return Answers(torch.cat(self.logits)[index], which, tuple(self.notes))
        rough, exact = torch.cat(self.rough), torch.cat(self.exact)
        shift = (exact - rough).mean(0)
        parts = zip(self.logits, self.shifts, strict=True)
        logits = torch.cat([part + shift if rounded else part for part, rounded in parts])
        return Answers(logits[index], which, tuple(self.notes), rough + shift, exact)

    def _new(self, keys: Sequence[Any]) -> dict[Any, int]:
        """The keys that are not known, and the first index of each."""
        new: dict[Any, int] = {}
        for i, key in enumerate(keys):
            if key not in self.known:
                new.setdefault(key, i)
        return new

    def _which(self, keys: Sequence[Any], new: Iterable[Any]) -> Ints:
        """The distinct input of each key; the logits of the new ones were just added."""
        self.known |= {key: len(self.known) + i for i, key in enumerate(new)}
        return np.array([self.known[key] for key in keys])

    def _answer_texts(self, chunk: Sequence[tuple[Variants, slice]]) -> Ints:
        """Run a function of texts."""
        classifier = self.classifier
        assert isinstance(classifier, Plain)
        texts = [t for variants, part in chunk for t in variants.texts(classifier, part)]
        if new := self._new(texts):
            self._recall(list(new), lambda which: classifier.of_texts([list(new)[i] for i in which]))
        return self._which(texts, new)

    def _answer_ids(self, chunk: Sequence[tuple[Variants, slice]]) -> Ints:
        """Run a model on token ids."""
        rows = joined([variants.rows(self.classifier, part) for variants, part in chunk])
        keys = rows.keys()
        if new := self._new(keys):
            first = rows.take(np.array(list(new.values())))
            with self.classifier.fast_inference():
                if self.precision == "float32" or not self._answer_roughly(first):
                    self._recall(list(new), lambda which: self._run(first.take(which), rough=False))
        return self._which(keys, new)

    def _recall(self, keys: Sequence[Any], run: Callable[[Ints], Tensor]) -> None:
        """Run the inputs that are not in the shared cache, and take the others from there."""
        shared = {} if self.classifier.answered is None else self.classifier.answered
        fresh = [i for i, key in enumerate(keys) if key not in shared]
        self.classifier.forwards += len(keys) - len(fresh)
        self.classifier.recalled += len(keys) - len(fresh)
        if fresh:
            shared |= {keys[i]: logits for i, logits in zip(fresh, run(np.array(fresh)), strict=True)}
        self.logits.append(torch.stack([shared[key] for key in keys]))
        self.shifts.append(False)

    def _answer_roughly(self, rows: InputRows) -> bool:
        """Run in bf16, and part of the inputs in float32 too; False, and a note, if the model fails under bf16."""
        checked = torch.randperm(len(rows), generator=self.rng)[: max(MIN_CHECKED, len(rows) // 20)]
        try:
            rough = self._run(rows, rough=True)
        except Exception as e:  # a family's own code; an error that is not due to bf16 is raised again in float32
            self.precision = "float32"
            self.notes.append(f"bf16 failed ({type(e).__name__}): float32 was used")
            return False
        self.exact.append(self._run(rows.take(checked.numpy()), rough=False))
        self.rough.append(rough[checked])
        self.logits.append(rough)
        self.shifts.append(True)
        return True

    def _run(self, rows: InputRows, rough: bool) -> Tensor:
        groups = _groups(self.classifier, rows, lambda: self.budget)
        order, parts = zip(*((group, self._logits(rows.take(group), rough)) for group in groups), strict=True)
        logits = torch.cat(parts)
        return torch.empty_like(logits).index_copy_(0, torch.from_numpy(np.concatenate(order)), logits)

    def _logits(self, rows: InputRows, rough: bool) -> Tensor:
        try:
            with torch.autocast(self.classifier.device.type, torch.bfloat16, enabled=rough):
                return self.classifier.logits(self._batch(rows)).cpu().double()
        except (RuntimeError, MemoryError) as e:
            if not _out_of_memory(e):
                raise
        if len(rows) == 1:
            raise BadInput(f"a text of {rows.lengths[0]:,} tokens does not fit in memory; shorten it.")
        if self.classifier.device.type == "cuda":
            torch.cuda.empty_cache()
        self.budget = max(1, min(self.budget, int(rows.lengths.max()) * len(rows) // 2))
        halves = np.array_split(np.arange(len(rows)), 2)
        return torch.cat([self._logits(rows.take(half), rough) for half in halves])

    def _batch(self, rows: InputRows) -> Batch:
        width = rows.ids.shape[1]
        side = self.classifier.padding if rows.lengths.min() < width else "right"
        padding = self.classifier.padding_with(side or "right")
        cells = np.arange(width)
        real = cells < rows.lengths[:, None]
        order = (cells - (width - rows.lengths)[:, None]) % width if padding.side == "left" else None
        device = self.classifier.device

        def tensor(values: NDArray[np.generic], fill: int) -> Tensor:
            values = np.where(real, values, fill)
            placed = values if order is None else np.take_along_axis(values, order, axis=1)
            return torch.from_numpy(np.ascontiguousarray(placed, dtype=np.int64)).to(device)

        hidden = tensor(real & ~rows.seen, 0).bool() if (real & ~rows.seen).any() else None
        segments = None if rows.types is None else tensor(rows.types, padding.type)
        possible = None if rows.possible is None else torch.from_numpy(rows.possible).to(device)
        return Batch(tensor(rows.ids, padding.token), tensor(rows.seen, 0), segments, hidden, possible)


def _out_of_memory(e: BaseException) -> bool:
    if isinstance(e, (torch.OutOfMemoryError, MemoryError)):
        return True
    signs = ("out of memory", "allocate memory", "alloc_cpu")
    return not isinstance(e, HeedfulError) and any(sign in str(e).lower() for sign in signs)


def _groups(classifier: Classifier, rows: InputRows, budget: Callable[[], int]) -> Iterator[Ints]:
    """Which rows run together. `budget` is a function because it may shrink meanwhile."""
    kinds = classifier.kind(np.where(np.arange(rows.ids.shape[1]) < rows.lengths[:, None], rows.ids, -1))
    for kind in np.unique(kinds):
        lengths = {int(n): np.flatnonzero((kinds == kind) & (rows.lengths == n)) for n in np.unique(rows.lengths)}
        few: list[Ints] = []
        for n, group in sorted(lengths.items()):
            if len(group) >= MIN_UNPADDED_GROUP or (len(group) and classifier.padding is None):
                yield from _split(group, n, budget)
            elif len(group):
                few.append(group)
        yield from _merged(few, rows.lengths, budget)


def _split(group: Ints, length: int, budget: Callable[[], int]) -> Iterator[Ints]:
    """Rows of one length, as many at a time as the budget allows."""
    while len(group):
        fit = max(1, budget() // length)
        yield group[:fit]
        group = group[fit:]


def _merged(groups: Sequence[Ints], lengths: Ints, budget: Callable[[], int]) -> Iterator[Ints]:
    """Groups of rising length, joined while the batch fits and little of it is padding."""
    batch: list[int] = []
    for i in (int(i) for group in groups for i in group):
        cells = int(lengths[i]) * (len(batch) + 1)
        real = int(lengths[batch].sum() + lengths[i])
        if batch and (cells > budget() or cells - real > MAX_PADDING_SHARE * cells):
            yield np.array(batch)
            batch = []
        batch.append(i)
    if batch:
        yield np.array(batch)
