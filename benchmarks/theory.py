"""LIME's limit in closed form, against the `lime` package with 5000 samples on the same network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import heedful
from benchmarks.lime import Theirs
from benchmarks.material import Scale
from benchmarks.measure import Report, Row, in_turns, l2
from heedful.core.arrays import Floats
from heedful.core.target import Target
from heedful.methods.theory import TheoryLime
from heedful.model.classifier import Classifier
from heedful.nets import MultiHead, MultiHeadShape

WORDS, SAMPLES, KNOWN = 25, 5000, 20_000
ROWS = 256


def network(masked: bool) -> Classifier:
    """The paper's network at its size, with louder weights; a word is a token."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = ["[UNK]", "[CLS]", *(f"w{i}" for i in range(KNOWN - 2))]
    rules = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    rules.pre_tokenizer = pre_tokenizers.Whitespace()
    rules.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 1)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=rules, unk_token="[UNK]", cls_token="[CLS]", pad_token="[UNK]")
    made = MultiHead(MultiHeadShape(vocabulary=KNOWN, masked=masked), torch.Generator().manual_seed(0)).eval()
    with torch.no_grad():
        for matrix in (made.query, made.key, made.value, made.out):
            matrix.mul_(2)
    return Classifier(made, tokenizer, name="multihead")


def _logits(classifier: Classifier) -> Callable[[Sequence[str]], Floats]:
    def answer(texts: Sequence[str]) -> Floats:
        parts = []
        for i in range(0, len(texts), ROWS):
            ids = classifier.tokenizer(list(texts[i : i + ROWS]), padding=True, return_tensors="pt")["input_ids"]
            with torch.inference_mode():
                parts.append(classifier.model(input_ids=ids).logits.double())
        return torch.cat(parts).numpy()

    return answer


def run(scale: Scale) -> Report:
    """Padding masked, and the authors' way: every text filled up to 256 positions."""
    return Report([row for masked in (True, False) for row in _rows(masked, scale.few(3))])


def _rows(masked: bool, rounds: int) -> list[Row]:
    classifier = network(masked)
    chosen = np.random.default_rng(0).choice(KNOWN - 2, WORDS, replace=False)
    text = " ".join(f"w{i}" for i in chosen)
    target = Target(label=1)

    def ours() -> Any:
        tokens = classifier.tokens(text)
        return TheoryLime()(classifier, tokens, target, torch.Generator()).scores[list(tokens.content)]

    def theirs() -> Floats:
        # bow=False puts the string in a word's place; it is in no vocabulary, so it becomes [UNK]
        package = Theirs(_logits(classifier), bow=False, mask_string="UNKWORDZ", random_state=0)
        return package(text, 1, SAMPLES)

    quick: dict[str, Callable[[], Any]] = {
        "ours": ours,
        "explain": lambda: heedful.explain(classifier, text, TheoryLime(), target=target),
    }
    timed = in_turns(quick, 10) | in_turns({"theirs": theirs}, rounds)
    truth, found = timed["ours"].result, timed["theirs"].result
    near = f"correlation {np.corrcoef(truth, found)[0, 1]:.4f}, relative L2 {l2(found, truth):.1%}"
    return [
        Row(
            job=f"theory-lime{what}",
            on=f"25 words, 6 heads, {'padding masked' if masked else 'filled up to 256'}",
            against=f"lime, {SAMPLES} samples",
            theirs=timed["theirs"].seconds,
            ours=timed[side].seconds,
            target=1000.0 if side == "ours" else None,
            agreement=near,
        )
        for side, what in (("ours", ""), ("explain", ", whole explain()"))
    ]
