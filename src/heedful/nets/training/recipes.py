"""Recipes: the papers' networks by name, each with its authors' training settings as defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from heedful.core import settings
from heedful.core.catalogue import Catalogue
from heedful.nets.training.settings import (
    FineTune,
    HierarchicalSettings,
    MultiHeadSettings,
    PairSettings,
    SingleSettings,
    TransformerSettings,
)
from heedful.nets.training.translation_job import Seq2SeqSettings


@dataclass(frozen=True)
class Recipe:
    """A network of a paper and its defaults."""

    name: str
    kind: Any  # a class of settings
    summary: str
    paper: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    translates: bool = False  # reads pairs of texts; it is no classifier
    aliases: tuple[str, ...] = ()

    def settings(self, arguments: Mapping[str, Any] | None = None) -> Any:
        """The recipe's defaults, updated by these settings, which are checked."""
        return self.kind(**{**self.defaults, **settings.checked(self.kind, self.name, arguments or {})})

    def read(self, assignments: Sequence[str]) -> dict[str, Any]:
        """Settings written as text: read(["lr=1e-4"]) -> {"lr": 0.0001}."""
        return settings.read_assignments(assignments, [(self.name, self.kind)])[0]


_JW, _WP, _SS = "Jain & Wallace 2019", "Wiegreffe & Pinter 2019", "Serrano & Smith 2019"
_POSTER, _LPG = "Is attention explanation in Transformers? (poster)", "Lopardo, Precioso & Garreau 2024"
_ENCODERS = {
    "bilstm": "BiLSTM",
    "cnn": "convolutions of four widths",
    "single-cnn": "one convolution",
    "average": "one layer for each word by itself",
}
_SENTENCE_ENCODERS = {"rnn": "BiGRU", "conv": "convolutions", "none": "no encoder"}
_SLOW = {"none": {"epochs": 60, "patience": 10}}
_FLAT = {"flat": True, "dropout_document": 0.444, "dropout_output": 0.346}
_FED_BACK = {"attention": "additive", "order": "bahdanau"}
_DECODERS: tuple[tuple[str, str, str, dict[str, str]], ...] = (
    ("additive", "additive attention", "Bahdanau et al. 2015", {}),
    ("multiplicative", 'multiplicative attention ("general")', "Luong et al. 2015", {}),
    ("none", "one vector between them", "Cho et al. 2014", {}),
    ("bahdanau", "additive attention, fed back", "Bahdanau et al. 2015", _FED_BACK),
    ("dot", "attention by dot products", "Luong et al. 2015", {}),
    ("concat", "attention by concatenation", "Luong et al. 2015", {}),
)


def _recipes() -> Iterator[Recipe]:
    yield Recipe("multihead", MultiHeadSettings, "one layer of multi-head attention, read at [CLS]", _LPG)
    # subtle: without residual connections six layers with such small weights learn late or not at all
    six = {"layers": 6, "residual": True}
    yield Recipe("multihead-6", MultiHeadSettings, "the same with six layers", f"{_LPG}, appendix F", six)
    for name, what in _ENCODERS.items():
        yield Recipe(name, SingleSettings, f"{what}, attention, a linear layer", _JW, {"encoder": name})
    uniform = {"attention": "uniform"}
    yield Recipe("bilstm-uniform", SingleSettings, "BiLSTM with attention held uniform", _WP, uniform)
    guided = "words one by one, weighted by another network's attention (guide=FOLDER)"
    yield Recipe("mlp-given", SingleSettings, guided, _WP, {"encoder": "average", "attention": "given"})
    for name, what in _ENCODERS.items():
        summary = f"{what} for each text of a pair, attention"
        yield Recipe(f"{name}-pair", PairSettings, summary, _JW, {"encoder": name})
    for prefix, levels, more in (("han", "words, sentences, text", {}), ("flan", "all words at one level", _FLAT)):
        for name, what in _SENTENCE_ENCODERS.items():
            defaults = {"encoder": name} | more | _SLOW.get(name, {})
            yield Recipe(f"{prefix}-{name}", HierarchicalSettings, f"{levels}; {what}", _SS, defaults)
    yield Recipe("transformer", TransformerSettings, "small Transformer encoder, states added up", _POSTER)
    new_head = "any Hugging Face encoder with a new head (encoder=FOLDER)"
    yield Recipe("finetune", FineTune, new_head, "Devlin et al. 2019")
    for name, what, paper, different in _DECODERS:
        summary = f"GRU encoder and decoder, {what}"
        aliases = ("seq2seq-general",) if name == "multiplicative" else ()
        own = {"attention": name} | different
        yield Recipe(f"seq2seq-{name}", Seq2SeqSettings, summary, paper, own, translates=True, aliases=aliases)


RECIPES = Catalogue("recipe", "recipes", __name__, {recipe.name: recipe for recipe in _recipes()})
