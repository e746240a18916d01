"""Zero-shot labels: an entailment model says of each label whether the text entails a hypothesis with the label.

The words of the text are explained and removed; those of the hypotheses stay, and have no scores.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from heedful.core.errors import BadInput, Unsupported
from heedful.model import huggingface, seam
from heedful.model.batch import Batch
from heedful.model.classifier import Classifier
from heedful.model.locks import share_lock
from heedful.model.probes import PROBE

HYPOTHESIS = "This example is {}."  # as in transformers' pipeline


@dataclass(frozen=True)
class ZeroShot:
    """An entailment model, and the labels and the hypothesis that make it a classifier; `load` takes it."""

    model: Any
    labels: tuple[str, ...]
    hypothesis: str = HYPOTHESIS
    multi_label: bool = False

    def __post_init__(self) -> None:
        if any(not isinstance(label, str) or not label.strip() for label in self.labels) or not self.labels:
            raise BadInput(f"the zero-shot labels are {list(self.labels)}; give a list of names.")
        if len(set(self.labels)) < len(self.labels):
            raise BadInput("two zero-shot labels are the same; give each once.")
        if self.hypothesis.count("{}") != 1:
            raise BadInput(f"the hypothesis '{self.hypothesis}' must have {{}} once, where the label goes.")
        if len(self.labels) == 1 and not self.multi_label:
            raise BadInput("one zero-shot label is always right; give several, or multi_label=True.")

    @classmethod
    def read(
        cls, model: Any, labels: Sequence[str] | None, hypothesis: str | None, multi_label: bool
    ) -> ZeroShot | None:
        """From the arguments of `load`; None if no labels are given."""
        if isinstance(labels, str):
            raise BadInput(f"the zero-shot labels are the text '{labels}'; give a list of names.")
        if labels is not None:
            return cls(model, tuple(labels), HYPOTHESIS if hypothesis is None else hypothesis, multi_label)
        if hypothesis is not None or multi_label:
            raise BadInput("hypothesis and multi_label are for zero-shot labels; give these too (zero_shot).")
        return model if isinstance(model, cls) else None

    @property
    def settings(self) -> dict[str, Any]:
        """As arguments of `load`."""
        return {"zero_shot": list(self.labels), "hypothesis": self.hypothesis, "multi_label": self.multi_label}


def zero_shot_classifier(base: Classifier, asked: ZeroShot) -> Classifier:
    """The classifier over the labels, by an entailment model."""
    if getattr(base, "tokenizer", None) is None or isinstance(base.model, ZeroShotClassifier):
        raise BadInput(f"{base.name} is not an entailment model; zero-shot labels need one.")
    model = ZeroShotClassifier(base, asked)
    share_lock(model, base.model)
    classifier = Classifier(model, base.tokenizer, base.name)
    if base.loaded is not None:
        classifier.loaded = base.loaded
    return classifier


def entailment_column(labels: Sequence[str], name: str) -> int:
    """The output of an entailment model for "entailment", by its name."""
    found = [i for i, label in enumerate(labels) if label.lower().startswith("entail")]
    if len(found) != 1:
        raise BadInput(f"{name} has the labels {', '.join(labels)}; zero-shot labels need a model with 'entailment'.")
    return found[0]


def contradiction_column(labels: Sequence[str], name: str) -> int:
    """The output for "contradiction", or the other of two."""
    entails = entailment_column(labels, name)
    found = [i for i, label in enumerate(labels) if label.lower().startswith("contradict")]
    if not found and len(labels) == 2:
        return 1 - entails
    if len(found) != 1:
        raise BadInput(f"{name} has the labels {', '.join(labels)}; multi_label needs 'contradiction' too.")
    return found[0]


class ZeroShotClassifier(nn.Module):
    """Text -> a logit for each label, by one pass of the entailment model for each.

    The logit of a label is that of entailment or, with several right labels, the difference to contradiction.
    """

    single_text = True
    attention_sites = ()
    no_attention = "the model reads the text once for each label, each time with other attention"

    def __init__(self, base: Classifier, asked: ZeroShot) -> None:
        super().__init__()
        self.base, self.asked = base, asked
        self.model: Any = base.model
        self.entails = entailment_column(base.labels, base.name)
        self.contradicts = contradiction_column(base.labels, base.name) if asked.multi_label else None
        self.hypotheses = [_hypothesis(base, asked.hypothesis.replace("{}", label)) for label in asked.labels]
        self.reserved_tokens = max(len(ids) for ids, _ in self.hypotheses)
        if base.limit is not None and base.limit <= self.reserved_tokens:
            found = f"the longest hypothesis has {self.reserved_tokens} tokens and {base.name} reads {base.limit}"
            raise BadInput(f"{found}; shorten the label or the hypothesis.")
        self.config: Any = copy.deepcopy(base.config)
        self.config.num_labels = len(asked.labels)
        self.config.id2label = dict(enumerate(asked.labels))
        self.config.label2id = {label: i for i, label in enumerate(asked.labels)}
        kind = "multi_label" if asked.multi_label else "single_label"
        self.config.problem_type = f"{kind}_classification"
        self.config.zero_shot = {"hypothesis": asked.hypothesis, "outputs": (self.entails, self.contradicts)}

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """What `heedful capabilities` adds."""
        return (("hypothesis", f"{self.asked.hypothesis} (a pass runs the model {len(self.asked.labels)} times)"),)

    @property
    def _supports_sdpa(self) -> bool:
        return bool(getattr(self.model, "_supports_sdpa", False))

    def get_input_embeddings(self) -> nn.Module:
        """The model's table of word embeddings."""
        table: nn.Module = self.model.get_input_embeddings()
        return table

    def set_attn_implementation(self, name: str) -> None:
        """As transformers' method of this name."""
        self.model.set_attn_implementation(name)
        self.config._attn_implementation_internal = name

    def save_pretrained(self, folder: Any) -> None:
        """Write the entailment model."""
        self.model.save_pretrained(folder)

    def forward(
        self, input_ids: Int[Tensor, "b t"], attention_mask: Int[Tensor, "b t"], token_type_ids: Tensor | None = None,
        **_: Any,
    ) -> SimpleNamespace:  # fmt: skip
        """The logits of all labels."""
        text = Batch(input_ids, attention_mask, token_type_ids)
        # edits are of the text's words: they happen here, once, and reach the model's pass for each label
        vectors = self.get_input_embeddings()(input_ids) if seam.is_open(self) else None
        with seam.paused(self):
            columns = [self._column(text, hypothesis, vectors) for hypothesis in self.hypotheses]
        return SimpleNamespace(logits=torch.stack(columns, -1))

    def _column(self, text: Batch, hypothesis: tuple[Tensor, Tensor], vectors: Tensor | None) -> Tensor:
        pair, index, from_text = self._joined(text, *hypothesis)
        with self._words(pair.ids, vectors, index, from_text):
            logits = self.base.run(pair)
        entails = logits[:, self.entails]
        return entails if self.contradicts is None else entails - logits[:, self.contradicts]

    def _joined(self, text: Batch, ids: Tensor, types: Tensor) -> tuple[Batch, Tensor, Bool[Tensor, "b w"]]:
        """The hypothesis after the last token of each text; which position of the text each cell is, if it is one."""
        t, h, device = text.ids.shape[1], len(ids), text.ids.device
        ids, types = ids.to(device), types.to(device)
        lengths = (text.mask * torch.arange(1, t + 1, device=device)).amax(1, keepdim=True)
        cells = torch.arange(int(lengths.max()) + h, device=device).expand(len(text.ids), -1)
        from_text, after = cells < lengths, cells - lengths
        real, index, place = after < h, cells.clamp(max=t - 1), after.clamp(0, h - 1)

        def cell(of_text: Tensor, of_hypothesis: Tensor, fill: int) -> Tensor:
            rest = torch.where(real, of_hypothesis[place], fill)
            return torch.where(from_text, of_text.gather(1, index), rest)

        padding = self.base.padding_with("right")
        mask = cell(text.mask, torch.ones_like(ids), 0)
        pair = Batch(
            ids=cell(text.ids, ids, padding.token),
            mask=mask,
            segments=None if text.segments is None else cell(text.segments, types, padding.type),
            hidden=from_text & (mask == 0),
        )
        return pair, index, from_text

    @contextmanager
    def _words(self, ids: Tensor, vectors: Tensor | None, index: Tensor, from_text: Tensor) -> Iterator[None]:
        """Inside, the model's words of the text have these vectors [b,t,d]; None: its own."""
        if vectors is None:
            yield
            return
        word: Any = self.get_input_embeddings()
        axis, given = huggingface.batch_axis(self.model), vectors

        def edited(out: Tensor) -> Tensor:
            width = out.shape[1]
            wide = index[:, :width, None].expand(-1, -1, given.shape[-1])
            return torch.where(from_text[:, :width, None], given.gather(1, wide), out)

        def hook(_: nn.Module, args: Any, out: Tensor) -> Tensor:
            looked_up = args[0].transpose(0, axis)
            if looked_up.shape == ids.shape and torch.equal(looked_up, ids):
                return edited(out.transpose(0, axis)).transpose(0, axis)
            if looked_up.shape == ids.shape and torch.equal(looked_up[:, 1:], ids[:, :-1]):  # the input of a decoder
                return torch.cat([out[:, :1], edited(out[:, 1:])], dim=1)
            raise Unsupported("its word embeddings are used for something other than the text")

        tables = [m for m in self.model.modules() if isinstance(m, nn.Embedding) and m.weight is word.weight]
        hooks = [table.register_forward_hook(hook) for table in tables]
        try:
            yield
        finally:
            for handle in hooks:
                handle.remove()


def _hypothesis(base: Classifier, hypothesis: str) -> tuple[Tensor, Tensor]:
    """The token ids and types that follow a text when it is paired with this hypothesis."""
    alone = huggingface.tokenize(base.tokenizer, PROBE)
    pair = huggingface.tokenize(base.tokenizer, PROBE, hypothesis)
    types = (alone.types or (0,) * len(alone), pair.types or (0,) * len(pair))
    if pair.ids[: len(alone)] != alone.ids or types[1][: len(alone)] != types[0]:
        raise Unsupported("its tokenizer does not put the tokens of a pair after those of the text alone.", base.name)
    return torch.tensor(pair.ids[len(alone) :]), torch.tensor(types[1][len(alone) :])
