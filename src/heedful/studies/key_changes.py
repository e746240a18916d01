"""Key changes: a model with other keys (or another activation) in some layers, and what is measured of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from heedful.core.arrays import Floats, Ints
from heedful.core.finding import Place
from heedful.core.random import seeded
from heedful.core.tokens import Tokens
from heedful.maths.activations import ACTIVATIONS, Activation
from heedful.maths.distances import changes
from heedful.maths.keys import centred, key_distances, mean_over_queries, row_divergences, row_variations
from heedful.model.classifier import Classifier
from heedful.model.edits import Edit, Site
from heedful.model.keys import KeyEdit, random_order, reordered
from heedful.nets.base import Net
from heedful.nets.transformer import with_activation
from heedful.studies.base import Texts
from heedful.studies.key_adversary import Adversary, KeyPass, other_labels, pooled_pass

Method = Literal["as-stated", "honest", "random-keys", "opposite", "activation", "permuted"]
ORIGINAL = "original"
DECIMALS = 6  # of a stored number
MAX_MATRIX_TOKENS = 48  # of a text whose attention matrices are stored


@dataclass(frozen=True)
class Variant:
    """A way to change the model, in one layer or all."""

    method: Method
    layer: int | Literal["all"]

    @property
    def name(self) -> str:
        """honest all layers, permuted layer 0."""
        return f"{self.method} {'all layers' if self.layer == 'all' else f'layer {self.layer}'}"

    @property
    def place(self) -> Place:
        """Where the model is changed."""
        return {"edited": self.layer}

    def edited(self, layers: int) -> tuple[int, ...]:
        """The layers that it changes, in a model of this many."""
        return tuple(range(layers)) if self.layer == "all" else (self.layer,)


class KeyChanges:
    """A model of `layers` layers, and its variants; those that are trained have their adversary."""

    def __init__(
        self, classifier: Classifier, layers: int, adversaries: Mapping[Variant, Adversary], draws: int, seed: int
    ) -> None:
        self.classifier, self.layers, self.adversaries, self.draws, self.seed = (
            classifier, layers, adversaries, draws, seed,
        )  # fmt: skip
        model = classifier.model
        known = isinstance(model, Net) and hasattr(model.config, "activation")
        self.activation: Activation = model.config.activation if known else "softmax"
        self.softmax = classifier
        if self.activation != "softmax":
            self.softmax = Classifier(with_activation(model, "softmax"), classifier.tokenizer, classifier.name)

    # passes

    def run(self, variant: Variant, original: KeyPass, texts: Sequence[Tokens], draw: int = 0) -> KeyPass:
        """A batch through a variant."""
        classifier = self.softmax if variant.method == "activation" else self.classifier
        with torch.no_grad(), classifier.lock, ExitStack() as stack:
            keys = stack.enter_context(classifier.keys(self._key_edit(variant, original, texts, draw)))
            seen = stack.enter_context(classifier.attention(self._attention_edit(variant)))
            logits = classifier.logits(original.batch)
        return KeyPass(original.batch, logits, tuple(keys[0].values()), tuple(seen[0].values()))

    def _key_edit(self, variant: Variant, original: KeyPass, texts: Sequence[Tokens], draw: int) -> KeyEdit | None:
        if variant.method == "activation":
            return None
        if variant.method == "permuted":
            return self._permutation(variant, original, texts, draw)
        adversary = self.adversaries[variant]
        return adversary.edit(adversary.new_keys(original, texts))

    def _permutation(self, variant: Variant, original: KeyPass, texts: Sequence[Tokens], draw: int) -> KeyEdit:
        """A random order of each text's tokens in each layer: the same for a layer by itself and with the others."""

        def order(layer: int) -> Tensor:
            rngs = (seeded(self.seed, "permuted keys", layer, draw, tokens.text, tokens.pair) for tokens in texts)
            return torch.stack([random_order(row, rng) for row, rng in zip(original.batch.real, rngs, strict=True)])

        return reordered({layer: order(layer) for layer in variant.edited(self.layers)})

    def _attention_edit(self, variant: Variant) -> Edit | None:
        """1.5-entmax for softmax; or, in a copy with softmax, the model's own activation in the layers that keep it.

        The logarithm of a softmax is its scores up to a constant, which no activation sees.
        """
        if variant.method != "activation":
            return None
        changed = set(variant.edited(self.layers))
        sparse = ACTIVATIONS["entmax15" if self.activation == "softmax" else self.activation]
        where = changed if self.activation == "softmax" else set(range(self.layers)) - changed

        def edit(site: Site, weights: Tensor) -> Tensor:
            if site.layer not in where:
                return weights
            scores = weights.log().masked_fill(~site.allowed, torch.finfo(weights.dtype).min)
            return sparse(scores, -1).masked_fill(~site.allowed, 0)

        return edit

    # measures

    def scores(self, texts: Texts, variants: Sequence[Variant]) -> dict[str, dict[str, Floats]]:
        """What is measured of each text: by variant, then by measure [n] or [n,layers]; draws are averaged."""
        tables: dict[str, dict[str, list[Floats]]] = {}
        order: list[int] = []
        with self.classifier.lock:
            for group in self.classifier.batches(texts.tokens):
                order += group
                for name, measured in self._measured(texts.take(group), variants).items():
                    for measure, values in measured.items():
                        tables.setdefault(name, {}).setdefault(measure, []).append(values)
        back = np.argsort(order)
        return {
            name: {measure: np.concatenate(values)[back].round(DECIMALS) for measure, values in table.items()}
            for name, table in tables.items()
        }

    def _measured(self, texts: Texts, variants: Sequence[Variant]) -> dict[str, dict[str, Floats]]:
        original, pooled = pooled_pass(self.classifier, texts.tokens)
        found = {ORIGINAL: {"accuracy": _right(original, texts.gold)}}
        for variant in variants:
            draws = range(self.draws if variant.method == "permuted" else 1)
            passes = (self.run(variant, original, texts.tokens, draw) for draw in draws)
            each = [self._measures(p, original, pooled, texts.gold) for p in passes]
            found[variant.name] = {measure: np.mean([m[measure] for m in each], 0) for measure in each[0]}
        return found

    def _measures(self, changed: KeyPass, original: KeyPass, pooled: Tensor, gold: Ints) -> dict[str, Floats]:
        """Measures of each text; those of attention and keys for each layer."""
        layers = [_layer_measures(changed, original, layer) for layer in range(self.layers)]
        last = row_divergences(changed.weights[-1], original.weights[-1])
        pairs = zip(changed.logits, original.logits, strict=True)
        tvd = [changes(new[None], old, self.classifier.head).tvd for new, old in pairs]
        return {
            "accuracy": _right(changed, gold),
            "flipped accuracy": _right(changed, other_labels(gold, len(self.classifier.labels))),
            "agreement": _right(changed, original.logits.argmax(-1).cpu().numpy()),
            "tvd": np.concatenate(tvd),
            "pooled jsd": _array(mean_over_queries(last, pooled)),
            **{name: np.stack([layer[name] for layer in layers], 1) for name in layers[0]},
        }

    def example(self, tokens: Tokens, variants: Sequence[Variant], main: Method) -> dict[str, Any]:
        """One text before and after each change: the pooled row by words, the prediction; and matrices of `main`."""
        original, pooled = pooled_pass(self.classifier, [tokens])
        units, groups = tokens.by("word")
        passes = {v.method: self.run(v, original, [tokens]) for v in variants}

        def row(p: KeyPass) -> dict[str, Any]:
            weights = pooled_row(p.weights[-1], pooled)[0].cpu().numpy()
            by_word = [round(float(weights[group].sum()), DECIMALS) for group in groups]
            prediction = self.classifier.prediction(p.logits[0])
            chance = round(max(prediction.probabilities or (np.nan,)), DECIMALS)
            return {"weights": by_word, "label": prediction.label, "probability": chance}

        return {
            "words": list(units.pieces),
            "tokens": list(tokens.pieces),
            "rows": {ORIGINAL: row(original)} | {name: row(p) for name, p in passes.items()},
            "matrices": self._matrices(original, passes[main], len(tokens)),
        }

    def _matrices(self, before: KeyPass, after: KeyPass, tokens: int) -> list[dict[str, Any]]:
        """The mean over heads in the first and the last layer; none of a long text."""
        if tokens > MAX_MATRIX_TOKENS:
            return []
        sides = {"before": before, "after": after}
        return [
            {"layer": layer} | {name: _mean_matrix(p.weights[layer]) for name, p in sides.items()}
            for layer in sorted({0, self.layers - 1})
        ]


def pooled_row(weights: Float[Tensor, "b h q k"], pooled: Float[Tensor, "b p"]) -> Float[Tensor, "b k"]:
    """The attention from the positions that the classifier pools, by their shares [b,q]: the mean over heads.

    Of a single query for the whole text, its own attention.
    """
    shares = pooled if pooled.shape[1] == weights.shape[2] else pooled.new_ones(len(weights), 1)
    return torch.einsum("bq,bhqk->bk", shares.double(), weights.double()) / weights.shape[1]


def _layer_measures(changed: KeyPass, original: KeyPass, layer: int) -> dict[str, Floats]:
    real = original.batch.real
    shares = real.double()
    new, old = (p.weights[layer] for p in (changed, original))
    keys, own = (p.keys[layer].double() for p in (changed, original))
    return {
        "attention jsd": _array(mean_over_queries(row_divergences(new, old), shares)),
        "attention tvd": _array(mean_over_queries(row_variations(new, old), shares)),
        "key distance": _array(key_distances(keys, own, real)),
        "centred key distance": _array(key_distances(centred(keys, real), centred(own, real), real)),
    }


def _right(p: KeyPass, labels: Ints) -> Floats:
    return np.asarray(p.logits.argmax(-1).cpu().numpy() == labels).astype(np.float64)


def _array(x: Tensor) -> Floats:
    return np.asarray(x.clamp(min=0).cpu().numpy())


def _mean_matrix(weights: Tensor) -> list[list[float]]:
    return [[round(float(x), 4) for x in row] for row in weights[0].mean(0).cpu()]
