"""Prompts: masked inputs of a language model, with the common prefix of a batch run once, and in each input."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import heedful
from benchmarks.material import Scale
from benchmarks.measure import Report, Row, apart, in_turns
from heedful.core.arrays import Bools
from heedful.core.tokens import Tokens
from heedful.model.inference import answers
from heedful.model.masking import Variants
from heedful.model.prompted import Prompt, Prompted

JOB = "prompt-prefix"
EXAMPLE = "Review: The plot is a mess and the acting is wooden.\nSentiment: negative\n\n"
TEXT = "a warm and funny film with two leads who are a delight from the first scene to the last one"
LENGTHS = (0, 50, 200)  # tokens of the prompt
VARIANTS = 200
SETTINGS = {"hidden_size": 384, "num_hidden_layers": 8, "num_attention_heads": 6, "intermediate_size": 1024}


@cache
def _language_model(prompt: int) -> Prompted:
    """A causal language model with random weights, and a prompt of about this many tokens before the text."""
    tokenizer = heedful.load().tokenizer
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=1024, **SETTINGS)).eval()
    per_example = len(tokenizer(EXAMPLE, add_special_tokens=False)["input_ids"])
    template = EXAMPLE * round(prompt / per_example) + "Review: {text}\nSentiment:"
    words = {"positive": " good", "negative": " bad"}
    return Prompted(model, tokenizer, Prompt(template, words), name="a causal model of 8 layers")


def run(scale: Scale) -> Report:
    """Random words of a text deleted, as LIME does, behind prompts of several lengths."""
    return Report([_row(length) for length in (LENGTHS[-1:] if scale.quick else LENGTHS)])


def _row(length: int) -> Row:
    classifier = _language_model(length)
    tokens = classifier.tokens(TEXT)
    keep = np.random.default_rng(0).random((VARIANTS, len(tokens))) > 0.5
    assert classifier.prefix_agrees
    sides = {"each": False, "once": True}
    timed = in_turns({side: partial(_logits, classifier, tokens, keep, shared) for side, shared in sides.items()})
    difference = apart(timed["each"].result, timed["once"].result)
    return Row(
        job=JOB,
        on=f"{VARIANTS} inputs, prompt of {sum(tokens.prompt)} tokens, text of {len(tokens.content)}",
        against="the whole prompt in each input",
        theirs=timed["each"].seconds,
        ours=timed["once"].seconds,
        target=2.0 if length == LENGTHS[-1] else None,
        agreement=f"logits differ by at most {difference:.1g}",
    )


def _logits(classifier: Prompted, tokens: Tokens, keep: Bools, shared: bool) -> torch.Tensor:
    """The logits of all inputs; without sharing, as for a family that cannot share a prefix."""
    vars(classifier)["prefix_agrees"] = shared
    return answers(classifier, [Variants(tokens, keep)]).logits
