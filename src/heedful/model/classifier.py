"""Classifier: a model and its tokenizer behind a few questions. Read, never changed.

tokens(text, pair)      the cut of a text                    logits(batch)           what the model says
attention(edit)         read and edit attention              embeddings(edit)        read and edit word vectors
read(batch)             attention, and what the head pools   gradient(of, by)        derivatives, counted
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor, nn

from heedful.core.errors import BadInput, HeedfulError, Unsupported
from heedful.core.explanation import Prediction
from heedful.core.target import Head, activation
from heedful.core.tokens import Tokens, check_text
from heedful.model import huggingface as facts
from heedful.model import seam
from heedful.model.batch import BUDGET, Batch, Padding, Side, grouped
from heedful.model.edits import Edit, Site, at, leaf, tracked
from heedful.model.huggingface import read
from heedful.model.locks import LockedProperty, lock_of
from heedful.model.precision import bf16_fault, holds_bf16
from heedful.model.projection import Projection

PROBE = "A short probe, read twice."


@dataclass(frozen=True)
class Reading:
    """A forward pass laid open: logits, attention and value vectors by site, and which positions the head pools.

    `projections` are the linear maps (W_O) that the heads' outputs go through, where they were seen.
    """

    logits: Float[Tensor, "b c"]
    weights: Mapping[Site, Tensor]
    values: Mapping[Site, Tensor]
    pooled: Float[Tensor, "b q"]
    projections: Mapping[Site, Projection] = field(default_factory=dict)

    def layers(self, kind: str) -> list[Site]:
        """The sites of one kind of attention, first layer first."""
        return sorted((site for site in self.weights if site.kind == kind), key=lambda site: site.layer)


class Classifier:
    """A sequence classifier (any torch module with `config` and `get_input_embeddings`) and its tokenizer."""

    def __init__(self, model: Any, tokenizer: Any, name: str | None = None) -> None:
        if not isinstance(model, nn.Module) or not hasattr(model, "config"):
            raise BadInput(f"the model is a {type(model).__name__}; give a Hugging Face sequence classification model.")
        if not callable(tokenizer):
            raise BadInput(f"the tokenizer is a {type(tokenizer).__name__}; give the model's Hugging Face tokenizer.")
        if type(model).__name__.endswith(facts.OTHER_HEADS):
            raise Unsupported(_no_classifier(model))
        if holds_bf16(model) and (fault := bf16_fault()) is not None:
            raise BadInput(
                f"the model's weights are bf16, which this machine's CPU cannot use ({fault}); give it as "
                "float32: model.float()."
            )
        self.model: Any = model
        self.tokenizer = tokenizer
        self.name = name or getattr(model.config, "_name_or_path", "") or type(model).__name__
        self.forwards = self.backwards = 0
        self.answered: dict[Any, Tensor] | None = None  # see heedful.model.inference.sharing
        self.recalled = 0
        self._fingerprint: tuple[object, str] = (None, "")
        self.loaded: tuple[dict[str, Any], object] | None = None  # see heedful.model.loading.describe

    def __repr__(self) -> str:
        return f"Classifier({self.name!r}, labels={list(self.labels)})"

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held for one job on the model; jobs of other threads, through any classifier of this model, wait."""
        return lock_of(self.model)

    # what the model is

    @property
    def config(self) -> Any:
        """The model's configuration."""
        return self.model.config

    @property
    def device(self) -> torch.device:
        """Where the model's inputs go."""
        device: torch.device = next(self.model.parameters()).device
        return device

    @cached_property
    def head(self) -> Head:
        """How logits become probabilities."""
        return facts.head(self.config)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels."""
        return facts.labels(self.config)

    @cached_property
    def limit(self) -> int | None:
        """How many tokens the model reads, or None for no limit."""
        return facts.limit(self.model, self.tokenizer)

    @cached_property
    def sites(self) -> list[tuple[str, int]]:
        """(kind, layer) of each attention matrix, in the order in which a forward pass makes them."""
        return facts.sites(self.model)

    @property
    def reads(self) -> str:
        """The kind of attention that brings the text to the pooled position: "cross" in encoder-decoders."""
        return "cross" if any(kind == "cross" for kind, _ in self.sites) else "self"

    @property
    def fingerprint(self) -> str:
        """A hash of the configuration and of every weight; computed anew when the weights have changed."""
        with self.lock:
            state = facts.state(self.model)
            if self._fingerprint[0] != state:
                self._fingerprint = (state, facts.fingerprint(self.model))
            return self._fingerprint[1]

    # texts

    def tokens(self, text: str, pair: str | None = None) -> Tokens:
        """The whole text as the model's tokens, nothing cut off."""
        check_text(text)
        if pair is not None:
            check_text(pair, "pair")
        with lock_of(self.tokenizer):
            tokens = read(self.tokenizer, text, pair)
        unknown = getattr(self.tokenizer, "unk_token_id", None)
        marks = set(getattr(self.tokenizer, "all_special_ids", ())) - {unknown}
        if all(tokens.ids[i] in marks for i in tokens.content):
            raise BadInput("the text has nothing but special tokens for this model; give at least one word.")
        table = facts.words(self.model)
        if table is None:
            raise Unsupported(f"{self.name} ({type(self.model).__name__}) has no table of word embeddings.")
        if max(tokens.ids) >= table.num_embeddings:
            raise BadInput(
                f"the tokenizer gives token {max(tokens.ids)} and the model {self.name} knows {table.num_embeddings} "
                "tokens: they do not belong together; give the model's own tokenizer."
            )
        return tokens

    def batch(self, texts: Sequence[Tokens]) -> Batch:
        """Texts of any lengths as one padded batch, on the side where padding does not move this model's logits."""
        equal = len({len(tokens) for tokens in texts}) == 1
        side = "right" if equal else self.padding
        if side is None:
            raise BadInput(f"{self.name} answers differently when padded; give texts of one length to a batch.")
        return self.padding_with(side).batch(texts, self.device)

    def batches(self, texts: Sequence[Tokens], budget: int = BUDGET) -> list[list[int]]:
        """Which texts to run together: of like length, at most `budget` tokens, never mixing what the model cannot."""

        def mixes(one: Tokens, other: Tokens) -> bool:
            alike = self.kind(np.array(one.ids)) == self.kind(np.array(other.ids))
            return bool(alike) and (len(one) == len(other) or self.padding is not None)

        return grouped(texts, budget, mixes)

    def kind(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """What all texts of a batch must have in common: an encoder-decoder's head wants equally many </s> in each."""
        if not getattr(self.config, "is_encoder_decoder", False):
            return np.zeros(ids.shape[:-1], dtype=np.int64)
        return np.asarray((ids == getattr(self.config, "eos_token_id", None)).sum(-1))

    def padding_with(self, side: Side) -> Padding:
        """The model's own padding token, on this side."""
        known = [getattr(owner, "pad_token_id", None) for owner in (self.tokenizer, self.config)]
        token = next((int(i) for i in known if i is not None), 0)
        return Padding(side, token, getattr(self.tokenizer, "pad_token_type_id", 0))

    @LockedProperty
    def padding(self) -> Side | None:
        """The side on which padding leaves this model's answer alone, found by trying; None if neither does."""
        probe = [self.tokens(PROBE).cut(self.limit and self.limit - 2)] * 2
        sides: tuple[Side, ...] = ("right", "left")
        with torch.no_grad(), seam.paused(self.model):
            alone = self._run(self.padding_with("right").batch(probe, self.device))
            allowed = _rounding(alone) * max(1.0, float(alone.abs().max()))
            for side in sides:
                padded = self._run(self.padding_with(side).batch(probe, self.device, width=len(probe[0]) + 2))
                moved = float((padded - alone).abs().max())  # NaN where a row has nothing to attend to
                if moved < allowed:
                    return side
        return None

    @LockedProperty
    def hides(self) -> bool:
        """Whether a word that attention may not use is gone: whatever word it is, the answer is one. Tried once."""
        probe = self.tokens(PROBE).cut(self.limit)
        batch = self.padding_with("right").batch([probe] * 4, self.device)
        ids, hidden = batch.ids.clone(), torch.zeros_like(batch.ids, dtype=torch.bool)
        for row, position in enumerate((probe.content[0], probe.content[0], probe.content[-1], probe.content[-1])):
            hidden[row, position] = True
            ids[row, position] = probe.ids[probe.content[1]] if row % 2 else probe.ids[position]
        with torch.no_grad(), seam.paused(self.model):
            out = self._run(Batch(ids, batch.mask.masked_fill(hidden, 0), batch.segments, hidden))
        return bool(torch.allclose(out[0::2], out[1::2], rtol=1e-4, atol=1e-5))

    @LockedProperty
    def attends_fast(self) -> bool:
        """Whether the model can run torch's fused attention, and then answers as it does now. Tried once."""
        if not getattr(self.model, "_supports_sdpa", False) or self.tokenizer is None:
            return False
        batch = self.batch([self.tokens(PROBE).cut(self.limit)])
        with torch.no_grad(), seam.paused(self.model):
            usual = self._run(batch)
            try:
                with seam.implementation(self.model, "sdpa"):
                    fused = self._run(batch)
            except Exception:  # a family's own code
                return False
        return bool(torch.allclose(usual, fused, rtol=1e-4, atol=1e-5))

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Inside, forward passes run as fast as they can: no gradients, torch's fused attention where it is safe."""
        with self.lock, ExitStack() as stack:
            if self.attends_fast:
                stack.enter_context(seam.implementation(self.model, "sdpa"))
            stack.enter_context(seam.quietly(self.model))
            stack.enter_context(torch.inference_mode())
            yield

    # answers

    def logits(
        self, batch: Batch, branch: Sequence[tuple[int, int]] = (), counted: bool = True
    ) -> Float[Tensor, "b c"]:
        """One row per text and one column per label.

        `branch`, pairs (layer, m) in the order of layers, is for one text: it is row 0, and m copies that part from it
        at each of these layers follow. Where the model `branches`, derivatives of a copy do not go below its layer.

        Gradients are recorded unless the caller is in `torch.no_grad()`.
        """
        with self.lock:
            if branch:
                return self._branched(batch, branch)
            if counted:
                self.forwards += len(batch)
            return self._answer(self._run(batch))

    def _run(self, batch: Batch) -> Tensor:
        with seam.quietly(self.model), self._padding_token(batch) as ids:
            out = getattr(self.model(**self._inputs(batch, ids)), "logits", None)
        if not isinstance(out, Tensor) or out.ndim != 2:
            raise Unsupported(_no_classifier(self.model))
        return out

    def _inputs(self, batch: Batch, ids: Tensor) -> dict[str, Any]:
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": batch.mask}
        if batch.segments is not None:
            inputs["token_type_ids"] = batch.segments
        if getattr(self.config, "use_cache", False):
            inputs["use_cache"] = False
        return inputs

    def _answer(self, out: Tensor) -> Tensor:
        if out.isnan().any():
            raise BadInput(f"{self.name} answered NaN for this text; its weights or its precision are broken.")
        return torch.cat([-out, out], dim=-1) if self.config.num_labels == 1 and self.head == "sigmoid" else out

    @contextmanager
    def _padding_token(self, batch: Batch) -> Iterator[Tensor]:
        """Decoder heads refuse batches without a padding token: lend them one that is in none of the texts."""
        config = facts.text_config(self.model)
        if getattr(config, "pad_token_id", None) is not None or len(batch) == 1 or not hasattr(config, "pad_token_id"):
            yield batch.ids
            return
        real = set(batch.ids[batch.real].tolist())
        spare = next(i for i in range(len(real) + 1) if i not in real)
        try:
            config.pad_token_id = spare
            yield torch.where(batch.real, batch.ids, spare)
        finally:
            config.pad_token_id = None

    def predictions(self, texts: Sequence[Tokens], budget: int = BUDGET) -> list[Prediction]:
        """What the model says of each text."""
        found: dict[int, Prediction] = {}
        with self.lock, torch.no_grad():
            for group in self.batches(texts, budget):
                logits = self.logits(self.batch([texts[i] for i in group]))
                found |= dict(zip(group, self._predictions(logits), strict=True))
        return [found[i] for i in range(len(texts))]

    def prediction(self, logits: Float[Tensor, "c"]) -> Prediction:
        """Logits of one text, named."""
        return self._predictions(logits[None])[0]

    def _predictions(self, logits: Tensor) -> list[Prediction]:
        wide = logits.double()
        chances = [None] * len(wide) if self.head == "regression" else activation(wide, self.head).tolist()
        return [
            Prediction(self.labels, tuple(row), None if chance is None else tuple(chance))
            for row, chance in zip(wide.tolist(), chances, strict=True)
        ]

    def gradient(self, of: Float[Tensor, "b"], by: Sequence[Tensor]) -> list[Tensor]:
        """∂ Σ of / ∂ each of `by`; zeros for what does not matter. Counted as one backward pass per text."""
        with self.lock:
            self.backwards += len(of)
            if not of.requires_grad:
                return [torch.zeros_like(x) for x in by]
            found = torch.autograd.grad(of.sum(), list(by), allow_unused=True)
        return [torch.zeros_like(x) if g is None else g for g, x in zip(found, by, strict=True)]

    # the seam

    @contextmanager
    def attention(self, edit: Edit | None = None, values: bool = False) -> Iterator[seam.Seen]:
        """Inside, every forward pass computes its attention openly: `seen[i]` maps site -> weights of forward i.

        `edit` changes the weights; `values=True` keeps the value vectors too, in `seen.values[i]`. The first use checks
        that all this is true of the model, and raises `Unsupported` where it is not.
        """
        with self.lock:
            self.check_attention()
            with self._attention(edit, values) as seen:
                yield seen

    @contextmanager
    def _attention(self, edit: Edit | None = None, values: bool = False) -> Iterator[seam.Seen]:
        with self._named("its attention cannot be read"), seam.attention(self.model, self.sites, edit, values) as seen:
            yield seen

    @contextmanager
    def embeddings(self, edit: Callable[[Tensor], Tensor]) -> Iterator[None]:
        """Inside, the word vectors [b,t,d] of every forward pass go through `edit`."""
        with self.lock, self._named("its word vectors cannot be edited"), seam.embeddings(self.model, edit):
            yield

    @contextmanager
    def _named(self, what: str) -> Iterator[None]:
        try:
            yield
        except Unsupported as e:
            if str(e).startswith(self.name):
                raise
            raise Unsupported(f"{self.name} ({type(self.model).__name__}): {what}: {e}") from e

    def check_attention(self) -> None:
        """Raise `Unsupported`, with the model's name, unless the seam tells the truth about this model."""
        if self._attention_fault is not None:
            raise Unsupported(
                f"{self.name} ({type(self.model).__name__}): its attention cannot be read ({self._attention_fault}); "
                "methods that need no attention still work."
            )

    @LockedProperty
    def _attention_fault(self) -> str | None:
        """Why the seam does not hold for this model: found on a probe text, once."""
        if not self.sites:
            return "it has none"
        try:
            with torch.inference_mode(False), torch.enable_grad(), seam.paused(self.model):
                batch = self.batch([self.tokens(PROBE).cut(self.limit)])
                with seam.quietly(self.model), seam.eager(self.model), seam.reporting(self.model):
                    plain = self.model(**self._inputs(batch, batch.ids), output_attentions=True)
                with self._attention(leaf) as seen:
                    logits = self.logits(batch, counted=False)
                used = torch.autograd.grad(logits.sum(), list(seen[0].values()), allow_unused=True)
                usual = self.logits(batch, counted=False)
        except HeedfulError as e:
            return str(e).split(": ")[-1]
        except Exception as e:  # the families' own code raises anything here
            return f"{type(e).__name__}: {e}"
        told = facts.reported(plain)
        width = batch.ids.shape[1]
        if any(w.shape[-1] < width or 1 < w.shape[-2] < width for w in seen[0].values()):
            return "its attention is over pooled positions, not over tokens"
        if not torch.equal(self._answer(plain.logits), logits):
            return "an edit that changes nothing moves its logits"
        if not torch.allclose(usual, logits, rtol=_rounding(logits), atol=_rounding(logits)):
            return "its eager attention answers otherwise than the one it runs with; load it with eager attention"
        if any(g is None for g in used):
            return "some attention weights that it computes do not reach its logits"
        if len(told) != len(seen[0]):
            return f"it reports {len(told)} attention matrices and {len(seen[0])} were seen"
        if not all(torch.equal(w.to(t.dtype), t) for w, t in zip(seen[0].values(), told, strict=True)):
            return "the weights seen differ from those it reports"
        return None

    def read(self, batch: Batch, values: bool = False) -> Reading:
        """One forward pass with its attention laid open and ready for derivatives."""
        with self.lock:
            return self._read(batch, values)

    def _read(self, batch: Batch, values: bool) -> Reading:
        self.forwards += len(batch)
        with ExitStack() as stack:
            stack.enter_context(torch.enable_grad())
            seen = stack.enter_context(self.attention(tracked, values))
            stack.enter_context(seam.quietly(self.model))
            stack.enter_context(seam.reporting(self.model))
            ids = stack.enter_context(self._padding_token(batch))
            out = self.model(**self._inputs(batch, ids), output_hidden_states=True)
        logits = self._answer(out.logits)
        last = next(w for site, w in reversed(seen[0].items()) if site.kind == self.reads)
        hidden = next((h for n in ("decoder_hidden_states", "hidden_states") if (h := getattr(out, n, None))), None)
        candidates = [last] if hidden is None or hidden[-1].shape[:2] != batch.ids.shape else [hidden[-1], last]
        pooled = _sentence_shares(seen[0])
        if pooled is None:
            pooled = self._pooled(batch, logits, candidates)
        return Reading(logits, seen[0], seen.values[0], pooled, seen.projections[0])

    def pooled(self, batch: Batch) -> Float[Tensor, "b q"]:
        """The share of each position in what the head reads: all of the first, all of the last, or a mean.

        Where sentences are attended to, it is their weights: each at the place of its last word.
        """
        return self.read(batch).pooled

    def _pooled(self, batch: Batch, logits: Tensor, candidates: Sequence[Tensor]) -> Tensor:
        """Found from the model: the positions of its last states, or last attention, that move the logits."""
        if candidates[-1].shape[2] == 1:  # a network that pools with one query
            return logits.new_ones(len(logits), 1)
        # subtle: a sum over labels may be constant (two opposite logits), so weigh them unevenly
        uneven = (logits * torch.arange(1, logits.shape[-1] + 1).to(logits).sqrt()).sum()
        for states in candidates:
            if not states.requires_grad:
                continue
            slope: Any = torch.autograd.grad(uneven, states, allow_unused=True, retain_graph=True)[0]
            if slope is None:
                continue
            moved = slope.abs().amax(-1) if slope.ndim == 3 else slope.abs().amax(-1).amax(1)
            if bool((moved > 0).any(-1).all()):
                return _shares(moved > 0, logits)
        return _shares(torch.stack([self._poisoned(batch.row(i)) for i in range(len(batch))]), logits)

    def _poisoned(self, batch: Batch) -> Bool[Tensor, "q"]:
        """Which rows of the last attention reach the logits of one text: those from which a NaN does.

        Slow, but it does not mind a saturated head, whose gradients are all zero.
        """
        width = batch.ids.shape[1]
        last = max(layer for kind, layer in self.sites if kind == self.reads)

        def poison(site: Site, weights: Tensor) -> Tensor:
            own = torch.eye(width, dtype=torch.bool, device=weights.device)[:, None, :, None]
            return weights.masked_fill(own & site.allowed, torch.nan)

        with torch.no_grad(), self._attention(at(poison, [last], self.reads)):
            reached = self._run(batch.repeat(width)).isnan().any(-1)
        reached &= batch.mask[0].bool()  # a mean that multiplies padding by zero lets its NaN through
        if not reached.any():
            raise Unsupported(f"{self.name}: no position of its last layer reaches its logits, so none is pooled.")
        return reached

    # branching

    def _branched(self, batch: Batch, branch: Sequence[tuple[int, int]]) -> Tensor:
        if len(batch) != 1:
            raise ValueError(f"branching takes a batch of one text, not {len(batch)}")
        if list(branch) != sorted(branch):
            raise ValueError(f"branch {tuple(branch)} is not in the order of layers")
        rows = 1 + sum(copies for _, copies in branch)
        if not self.branches:
            return self.logits(batch.repeat(rows))
        self.forwards += rows
        return self._answer(self._run_branched(batch, branch))

    def _run_branched(self, batch: Batch, branch: Sequence[tuple[int, int]]) -> Tensor:
        blocks = seam.blocks(self.model, len(self.sites))
        with seam.branched([(blocks[layer], copies) for layer, copies in branch]):
            return self._run(batch)

    @LockedProperty
    def branches(self) -> bool:
        """Whether layers below branching points can run once for all copies; tried on a probe, to rounding."""
        layers = len(self.sites)
        if self.reads != "self" or not seam.blocks(self.model, layers):
            return False
        batch = self.batch([self.tokens(PROBE).cut(self.limit)])
        with torch.no_grad(), seam.paused(self.model), ExitStack() as stack:
            if self._attention_fault is None:
                stack.enter_context(seam.eager(self.model))
            branch = [(layer, 2) for layer in range(layers)]
            whole = self.logits(batch.repeat(1 + 2 * layers), counted=False)
            try:
                branched = self._answer(self._run_branched(batch, branch))
                return branched.shape == whole.shape and torch.allclose(branched, whole, rtol=1e-5, atol=1e-5)
            except Exception:  # a family that cannot: the fall-back serves it
                return False


def _sentence_shares(seen: Mapping[Site, Tensor]) -> Tensor | None:
    """Attention over sentences as the share of each position; None in a model without it."""
    site = next((site for site in seen if site.kind == "sentence"), None)
    return None if site is None else (seen[site] * site.allowed)[:, 0, 0].detach()


def _shares(read: Tensor, logits: Tensor) -> Tensor:
    """Which positions are read -> the share of each."""
    return read.to(logits.dtype) / read.sum(-1, keepdim=True)


def _rounding(logits: Tensor) -> float:
    """How far two right answers may be apart in this precision."""
    return 1e-3 if torch.finfo(logits.dtype).eps < 1e-6 else 5e-2


def _no_classifier(model: Any) -> str:
    return f"{type(model).__name__} is no sequence classifier; load one with AutoModelForSequenceClassification."


__all__ = ["Batch", "Classifier", "Reading"]
