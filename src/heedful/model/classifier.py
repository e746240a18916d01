"""Classifier: a model and its tokenizer behind a few methods. The model is never changed.

tokens(text, pair)      tokenize                             logits(batch)           the model's output
attention(edit)         read and edit attention              embeddings(edit)        read and edit word vectors
read(batch)             attention, and the head's pooling    gradient(of, by)        derivatives, counted
keys(edit)              read and edit the keys of attention
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
from torch import Tensor, nn

from heedful.core.arrays import Bools, Ints
from heedful.core.errors import BadInput, Unsupported
from heedful.core.explanation import Prediction
from heedful.core.target import Head, activation
from heedful.core.tokens import Tokens, check_text
from heedful.model import huggingface, packed, probes, seam
from heedful.model.batch import BUDGET, Batch, Padding, Side, grouped
from heedful.model.edits import Edit, Site, tracked
from heedful.model.keys import KeyEdit, SeenKeys
from heedful.model.locks import LockedProperty, lock_of
from heedful.model.precision import bf16_fault, holds_bf16
from heedful.model.projection import Projection


@dataclass(frozen=True)
class Reading:
    """One forward pass: logits, attention and value vectors by site, and which positions the head pools.

    `projections` are the linear maps (W_O) of the heads' outputs, where they were found.
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
        if type(model).__name__.endswith(huggingface.OTHER_HEADS):
            raise Unsupported(_no_classifier(model))
        if holds_bf16(model) and (fault := bf16_fault()) is not None:
            raise BadInput(f"the model is bf16, which this CPU cannot compute ({fault}); convert it: model.float().")
        huggingface.align(model)
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

    def with_model(self, model: Any) -> Classifier:
        """The same classifier with a changed copy of its model."""
        return Classifier(model, self.tokenizer, self.name)

    @property
    def architecture(self) -> str:
        """The name of the model's class."""
        return type(self.model).__name__

    @property
    def _full_name(self) -> str:
        return f"{self.name} ({self.architecture})"

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held by one job on the model; jobs of other threads, through any classifier of this model, wait."""
        return lock_of(self.model)

    # what the model is

    @property
    def config(self) -> Any:
        """The model's configuration."""
        return self.model.config

    @property
    def device(self) -> torch.device:
        """Where the model's inputs go."""
        return huggingface.device(self.model)

    @cached_property
    def head(self) -> Head:
        """How logits become probabilities."""
        return huggingface.output_head(self.config)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels."""
        return huggingface.config_labels(self.config)

    @cached_property
    def gradient_fault(self) -> str | None:
        """Why the model has no gradients, or None."""
        packs = len(packed.packs(self.model))
        return f"{packs} of its layers hold packed int8 weights, which have no derivatives" if packs else None

    @cached_property
    def limit(self) -> int | None:
        """The largest number of tokens, or None for no limit."""
        return huggingface.limit(self.model, self.tokenizer)

    @cached_property
    def sites(self) -> list[tuple[str, int]]:
        """(kind, layer) of each attention matrix, in the order of a forward pass."""
        return huggingface.sites(self.model)

    @property
    def decoder_start(self) -> tuple[int, ...]:
        """What a decoder reads that does not read the text; empty for other models."""
        start: tuple[int, ...] = getattr(self.model, "decoder_start", ())
        return start

    @property
    def main_kind(self) -> str:
        """The kind of attention from the pooled position to the text: "cross" in encoder-decoders."""
        return "cross" if any(kind == "cross" for kind, _ in self.sites) else "self"

    @property
    def reads_pairs(self) -> bool:
        """Whether a text may have a second one."""
        return not getattr(self.model, "single_text", False)

    @property
    def needs_pair(self) -> bool:
        """Whether a text must have a second one."""
        return False

    @property
    def fingerprint(self) -> str:
        """A hash of the configuration and of every weight; computed again after the weights change."""
        with self.lock:
            state = huggingface.state(self.model)
            if self._fingerprint[0] != state:
                self._fingerprint = (state, huggingface.model_fingerprint(self.model))
            return self._fingerprint[1]

    # texts

    def tokens(self, text: str, pair: str | None = None) -> Tokens:
        """The whole text as the model's tokens, not truncated."""
        check_text(text)
        if pair is not None:
            check_text(pair, "pair")
            if not self.reads_pairs:
                raise BadInput(f"{self.name} reads one text, not a pair; give one text.")
        with lock_of(self.tokenizer):
            tokens = huggingface.tokenize(self.tokenizer, text, pair)
        unknown = getattr(self.tokenizer, "unk_token_id", None)
        special = set(getattr(self.tokenizer, "all_special_ids", ())) - {unknown}
        if all(tokens.ids[i] in special for i in tokens.content):
            raise BadInput("the text has only special tokens for this model; give at least one word.")
        table = huggingface.word_embeddings(self.model)
        if table is None:
            raise Unsupported("it has no table of word embeddings.", self._full_name)
        self._check_ids(tokens, table)
        return tokens

    def _check_ids(self, tokens: Tokens, table: nn.Embedding) -> None:
        if max(tokens.ids) >= table.num_embeddings:
            sizes = f"token id {max(tokens.ids)}, and the model {self.name} has {table.num_embeddings} tokens"
            raise BadInput(f"the tokenizer returned {sizes}; give the model's own tokenizer.")

    def probe_tokens(self, text: str = probes.PROBE) -> Tokens:
        """A short text on which the model is tried, as both texts where it reads only pairs; cut to what it reads."""
        return self.tokens(text, text if self.needs_pair else None).cut(self.limit)

    def token_types(self, types: Ints) -> Ints:
        """What a model with the same tokenizer reads as the types of tokens."""
        return types

    def attended(self, tokens: Tokens) -> Bool[Bools, "t"]:
        """Which tokens of the text the model's attention can point at; special tokens are none of it.

        All, unless the network declares the segments that its attention is over.
        """
        segments = getattr(self.model, "attended_segments", (0, 1))
        return np.array([segment in segments for segment in tokens.segments], dtype=bool)

    def possible(self, tokens: Tokens) -> Bool[Bools, "c"] | None:
        """Which labels can be predicted for a text, where the network declares that its words decide it; None: all."""
        find = getattr(self.model, "possible", None)
        if find is None:
            return None
        batch = self.batch([tokens])
        labels = find(batch.ids, batch.mask, batch.segments)
        return None if labels is None else labels[0].cpu().numpy()

    def batch(self, texts: Sequence[Tokens]) -> Batch:
        """Texts of any lengths as one batch, padded on the side where padding does not change this model's logits."""
        equal = len({len(tokens) for tokens in texts}) == 1
        side = "right" if equal else self.padding
        if side is None:
            raise BadInput(f"{self.name} has other logits when padded; give texts of one length.")
        return self.padding_with(side).batch(texts, self.device)

    def batches(self, texts: Sequence[Tokens], budget: int = BUDGET) -> list[list[int]]:
        """Which texts to run together: of similar length, at most `budget` tokens, and of one `kind`."""

        def mixes(a: Tokens, b: Tokens) -> bool:
            same_kind = self.kind(np.array(a.ids)) == self.kind(np.array(b.ids))
            return bool(same_kind) and (len(a) == len(b) or self.padding is not None)

        return grouped(texts, budget, mixes)

    def kind(self, ids: Ints) -> Ints:
        """What all texts of a batch must share: an encoder-decoder's head needs the same number of </s> in each."""
        if not getattr(self.config, "is_encoder_decoder", False):
            return np.zeros(ids.shape[:-1], dtype=np.int64)
        return np.asarray((ids == getattr(self.config, "eos_token_id", None)).sum(-1))

    def padding_with(self, side: Side) -> Padding:
        """The model's own padding token, on this side."""
        known = [getattr(owner, "pad_token_id", None) for owner in (self.tokenizer, self.config)]
        token = next((int(i) for i in known if i is not None), 0)
        return Padding(side, token, getattr(self.tokenizer, "pad_token_type_id", 0))

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Inside, the model is in evaluation mode; setting it once for many passes saves time. Other threads wait."""
        with self.lock, seam.evaluation_mode(self.model):
            yield

    @contextmanager
    def fast_inference(self) -> Iterator[None]:
        """Inside, forward passes have no gradients, and use torch's fused attention where its logits agree."""
        with self.evaluating(), ExitStack() as stack:
            if self.fused_attention_agrees:
                stack.enter_context(seam.implementation(self.model, "sdpa"))
            stack.enter_context(torch.inference_mode())
            yield

    # probes

    padding = LockedProperty(probes.padding_side)
    mask_hides_words = LockedProperty(probes.mask_hides_words)
    fused_attention_agrees = LockedProperty(probes.fused_attention_agrees)
    can_branch = LockedProperty(probes.can_branch)
    attention_fault = LockedProperty(probes.attention_fault)
    key_maps = LockedProperty(probes.key_maps)

    # outputs

    def logits(
        self, batch: Batch, branch: Sequence[tuple[int, int]] = (), counted: bool = True
    ) -> Float[Tensor, "b c"]:
        """One row per text and one column per label.

        `branch`, pairs (layer, m) in the order of layers, is for one text: it is row 0, followed by m copies that
        branch off at each of these layers. If the model `can_branch`, gradients of a copy stop at its layer. Gradients
        are recorded unless the caller is in `torch.no_grad()`.
        """
        with self.lock:
            if not branch:
                self.forwards += len(batch) if counted else 0
                return self.to_logits(self.run(batch))
            if len(batch) != 1:
                raise ValueError(f"branching takes a batch of one text, not {len(batch)}")
            if list(branch) != sorted(branch):
                raise ValueError(f"branch {tuple(branch)} is not in the order of layers")
            rows = 1 + sum(copies for _, copies in branch)
            if not self.can_branch:
                return self.logits(batch.repeat(rows))
            self.forwards += rows
            return self.to_logits(self.run_branched(batch, branch))

    def run(self, batch: Batch) -> Tensor:
        """The model's output, not counted and not checked."""
        with seam.evaluation_mode(self.model), self._padding_token(batch) as ids:
            out = getattr(self.model(**self.inputs(batch, ids)), "logits", None)
        if not isinstance(out, Tensor) or out.ndim != 2:
            raise Unsupported(_no_classifier(self.model))
        return out

    def inputs(self, batch: Batch, ids: Tensor) -> dict[str, Any]:
        """The arguments of the model's forward pass."""
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": batch.mask}
        if batch.segments is not None:
            inputs["token_type_ids"] = batch.segments
        if batch.possible is not None:
            inputs["possible"] = batch.possible
        if getattr(self.config, "use_cache", False):
            inputs["use_cache"] = False
        return inputs

    def to_logits(self, out: Tensor) -> Tensor:
        """The model's output, checked, with a column for each label."""
        if out.isnan().any():
            raise BadInput(f"{self.name} returned NaN for this text; check its weights and its dtype.")
        return torch.cat([-out, out], dim=-1) if self.config.num_labels == 1 and self.head == "sigmoid" else out

    @contextmanager
    def _padding_token(self, batch: Batch) -> Iterator[Tensor]:
        """Decoder heads refuse batches without a padding token: set one temporarily that is in none of the texts."""
        config = huggingface.text_config(self.model)
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
        """The prediction for each text."""
        predictions: dict[int, Prediction] = {}
        with self.lock, torch.no_grad():
            for group in self.batches(texts, budget):
                logits = self.logits(self.batch([texts[i] for i in group]))
                predictions |= dict(zip(group, self._predictions(logits), strict=True))
        return [predictions[i] for i in range(len(texts))]

    def prediction(self, logits: Float[Tensor, "c"]) -> Prediction:
        """The prediction from the logits of one text."""
        return self._predictions(logits[None])[0]

    def _predictions(self, logits: Tensor) -> list[Prediction]:
        wide = logits.cpu().double()
        chances = [None] * len(wide) if self.head == "regression" else activation(wide, self.head).tolist()
        return [
            Prediction(self.labels, tuple(row), None if chance is None else tuple(chance))
            for row, chance in zip(wide.tolist(), chances, strict=True)
        ]

    def gradient(self, of: Float[Tensor, "b"], by: Sequence[Tensor]) -> list[Tensor]:
        """∂ Σ of / ∂ each of `by`; zeros without a dependence. Counted as one backward pass per text."""
        self.check_gradients()
        with self.lock:
            self.backwards += len(of)
            if not of.requires_grad:
                return [torch.zeros_like(x) for x in by]
            gradients = torch.autograd.grad(of.sum(), list(by), allow_unused=True)
        return [torch.zeros_like(x) if g is None else g for g, x in zip(gradients, by, strict=True)]

    # the seam

    @contextmanager
    def attention(self, edit: Edit | None = None, values: bool = False) -> Iterator[seam.Seen]:
        """Inside, every forward pass records its attention: `seen[i]` maps site -> weights of forward i.

        `edit` changes the weights; `values=True` records the value vectors too, in `seen.values[i]`. The first use
        checks that the seam works for the model, and raises `Unsupported` if not.
        """
        with self.lock, self._named("its attention cannot be read"):
            self.check_attention()
            with seam.attention(self.model, self.sites, edit, values) as seen:
                yield seen

    @contextmanager
    def keys(self, edit: KeyEdit | None = None) -> Iterator[SeenKeys]:
        """Inside, every forward pass records its keys: `seen[i]` maps site -> keys [b,t,d] of forward i, as used.

        `edit(site, keys)` changes them; the site's `allowed` is not known yet. The first use looks for the linear maps
        that make the keys, and raises `Unsupported` if they are not found.
        """
        with self.lock, self._named("its keys cannot be edited"):
            self.check_keys()
            with seam.keys(self.model, self.key_maps.maps, edit) as seen:
                yield seen

    @contextmanager
    def embeddings(self, edit: Callable[[Tensor], Tensor]) -> Iterator[None]:
        """Inside, `edit` changes the word vectors [b,t,d] of every forward pass."""
        with self.lock, self._named("its word vectors cannot be edited"), seam.embeddings(self.model, edit):
            yield

    @contextmanager
    def states(self, edit: Callable[[Tensor], Tensor]) -> Iterator[None]:
        """Inside, `edit` changes the states [b,t,m] that attention weighs, for a network that declares its encoder."""
        encoder = getattr(self.model, "state_encoder", None)
        if encoder is None:
            raise Unsupported(
                f"a {self.architecture} has no encoder whose states one attention weighs.", self._full_name
            )
        with self.lock, seam.states(self.model, encoder, edit):
            yield

    @contextmanager
    def _named(self, what: str) -> Iterator[None]:
        try:
            yield
        except Unsupported as e:
            if e.model:
                raise
            raise Unsupported(f"{what}: {e.reason}", self._full_name) from e

    def check_gradients(self) -> None:
        """Raise `Unsupported`, with the model's name, unless the model has gradients."""
        if (fault := self.gradient_fault) is not None:
            reason = f"it has no gradients ({fault}); methods that need no gradients still work."
            raise Unsupported(reason, self._full_name)

    def check_attention(self) -> None:
        """Raise `Unsupported`, with the model's name, unless the seam works for this model."""
        if (fault := self.attention_fault) is not None:
            reason = f"its attention cannot be read ({fault}); methods that need no attention still work."
            raise Unsupported(reason, self._full_name)

    def check_keys(self) -> None:
        """Raise `Unsupported`, with the model's name, unless the keys of this model can be edited."""
        if (fault := self.key_maps.fault) is not None:
            raise Unsupported(f"its keys cannot be edited ({fault}).", self._full_name)

    def read(self, batch: Batch, values: bool = False) -> Reading:
        """One forward pass with its attention, and with gradients recorded."""
        with self.lock:
            self.forwards += len(batch)
            logits, seen, hidden = self._recorded(batch, values)
            if self.gradient_fault is None:
                pooled = probes.pooled_shares(self, batch, logits, seen[0], hidden)
            else:  # the same positions, from the same weights in a precision that has derivatives
                with packed.dequantised(packed.layers(self.model)):
                    twin, twin_seen, hidden = self._recorded(batch, values=False)
                    pooled = probes.pooled_shares(self, batch, twin, twin_seen[0], hidden)
        return Reading(logits, seen[0], seen.values[0], pooled, seen.projections[0])

    def _recorded(self, batch: Batch, values: bool) -> tuple[Tensor, seam.Seen, Tensor | None]:
        """Logits, attention and the last hidden states of one forward pass, with gradients."""
        names = ("decoder_hidden_states", "hidden_states")
        with (
            torch.enable_grad(),
            self.attention(tracked, values) as seen,
            seam.evaluation_mode(self.model),
            seam.reporting(self.model),
            self._padding_token(batch) as ids,
        ):
            out = self.model(**self.inputs(batch, ids), output_hidden_states=True)
        hidden = next((states[-1] for name in names if (states := getattr(out, name, None))), None)
        return self.to_logits(out.logits), seen, hidden

    def pooled(self, batch: Batch) -> Float[Tensor, "b q"]:
        """The share of each position in the head's pooling: the first, the last, or a mean; see `pooled_shares`."""
        return self.read(batch).pooled

    def run_branched(self, batch: Batch, branch: Sequence[tuple[int, int]]) -> Tensor:
        """As `run`, with copies of the text that branch off at some layers."""
        blocks = seam.blocks(self.model, len(self.sites))
        with seam.branched([(blocks[layer], copies) for layer, copies in branch], huggingface.batch_axis(self.model)):
            return self.run(batch)


def _no_classifier(model: Any) -> str:
    name, do = type(model).__name__, "load one with AutoModelForSequenceClassification"
    if name.endswith(huggingface.LANGUAGE_MODELS):
        do += ", or give a template and a verbalizer, by which a language model classifies"
    return f"{name} is not a sequence classifier; {do}."
