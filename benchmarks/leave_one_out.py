"""Leave-one-out, against captum's FeatureAblation: the mask token in the place of each word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

import heedful
from benchmarks.material import Scale, documents, large, named, resolved, sentences, trained
from benchmarks.measure import Report, Row, Timed, apart, between, in_turns, total
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.methods.perturbation import LeaveOneOut
from heedful.model.classifier import Classifier
from heedful.model.masking import features
from heedful.model.precision import bf16_fault, has_bf16_units

JOB = "leave-one-out"
OURS = LeaveOneOut(masking="mask")
ROUGH = LeaveOneOut(masking="mask", precision="bf16")
BATCHES = (8, 16, 64)


def ablation(classifier: Classifier, tokens: Tokens, target: Target, rows: int) -> Callable[[], Tensor]:
    """captum's FeatureAblation over words. It is given the words alone, so that it does not ablate special tokens."""
    from captum.attr import FeatureAblation

    ids = torch.tensor([tokens.ids])
    content, groups = list(tokens.content), features(tokens, "word")
    which = {i: j for j, group in enumerate(groups) for i in group}

    def answer(words: Tensor) -> Tensor:
        whole = ids.repeat(len(words), 1)
        whole[:, content] = words
        with torch.inference_mode():
            logits = classifier.model(input_ids=whole, attention_mask=torch.ones_like(whole)).logits
        return target.of(logits, classifier.head)

    words = ids[:, content]
    mask = torch.tensor([[which[i] for i in content]])
    blank = torch.full_like(words, classifier.tokenizer.mask_token_id)
    method: Any = FeatureAblation(answer)

    def call() -> Tensor:
        scores: Tensor = method.attribute(words, baselines=blank, feature_mask=mask, perturbations_per_eval=rows)
        scores = torch.zeros(len(groups))
        scores[mask[0]] = scores[0].float()
        return scores

    return call


def _ours(classifier: Classifier, tokens: Tokens, target: Target, method: LeaveOneOut) -> np.ndarray[Any, Any]:
    explanation: Any = method(classifier, tokens, target, torch.Generator().manual_seed(0))
    return np.array([explanation.scores[group].sum() for group in features(tokens, "word")])


def run(scale: Scale) -> Report:
    """Sentences on the trained model; documents and BERT-base on a few."""
    classifier = trained()
    rows = _rows(classifier, sentences(scale.few(10, 2)), "25 tokens")
    if not scale.quick:
        rows += _rows(classifier, documents(1), "200 tokens", rounds=1)
        rows += _rows(large(), sentences()[:1], "25 tokens", rounds=2)
    return Report(rows)


def _text(classifier: Classifier, text: str, rounds: int) -> dict[str, Timed]:
    tokens = classifier.tokens(text)
    target = resolved(classifier, tokens)
    sides: dict[str, Callable[[], Any]] = {
        "ours": lambda: _ours(classifier, tokens, target, OURS),
        "bf16": lambda: _ours(classifier, tokens, target, ROUGH),
        "explain": lambda: heedful.explain(classifier, text, OURS),
    }
    return in_turns(sides | {str(n): ablation(classifier, tokens, target, n) for n in (1, *BATCHES)}, rounds)


def _rows(classifier: Classifier, texts: tuple[str, ...], on: str, rounds: int = 3) -> list[Row]:
    timed = [_text(classifier, text, rounds) for text in texts]
    best = min(BATCHES, key=lambda n: total(timed, str(n)))
    aimed = on == "25 tokens" and classifier is trained()

    def row(side: str, rows: int, aim: float | None, what: str, remark: str = "") -> Row:
        result = "ours" if side == "explain" else side
        worst = max(apart(one[result].result, one[str(rows)].result) for one in timed)
        return Row(
            job=f"{JOB}{what}",
            on=f"{on}, {named(classifier)}",
            against=f"captum FeatureAblation, {'its default' if rows == 1 else f'{rows} at a time'}",
            theirs=total(timed, str(rows)),
            ours=total(timed, side),
            target=aim if aimed else None,
            agreement=f"scores differ by at most {worst:.1e}",
            remark=remark,
            between=between(timed, str(rows), side),
        )

    return [
        row("ours", 1, 2.5, ""),
        row("ours", best, 1.1, ""),
        row("bf16", best, 2.0, ", bf16", bf16()),
        row("explain", best, None, ", whole explain()"),
    ]


def bf16() -> str:
    """What to know of a bf16 row on this processor."""
    if (fault := bf16_fault()) is not None:
        return f"float32 was used: {fault}"
    return "" if has_bf16_units() else "this processor has no bf16 unit"
