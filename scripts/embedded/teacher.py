"""The teacher: fine-tune it, compute its outputs for the texts of the student, store them, load them."""

from __future__ import annotations

import copy
import functools
import math
import multiprocessing
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from . import training
from .settings import Paths, Settings, atomic
from .texts import SPELLINGS, UNLABELLED, Texts
from .training import MAX_TOKENS

CHECKPOINT_SECONDS = 180
LOG_STEPS = 50


def fine_tune(texts: Texts, p: Paths, s: Settings) -> None:
    """Fine-tune the start model on labelled texts; store the averaged weights."""
    folder, checkpoint = p.work / "teacher", p.work / "teacher-checkpoint.safetensors"
    if folder.exists():
        return
    torch.manual_seed(s.seed)
    torch.set_num_threads(s.teacher_threads)
    rng, tokenizer = random.Random(s.seed), AutoTokenizer.from_pretrained(p.start)
    sample = rng.sample(texts.phrases, s.teacher_phrases) + rng.sample(texts.composed, s.teacher_composed)
    sample = [*texts.sentences, *sample, *texts.snippets, *texts.review_ends]
    examples = [e for e in sample if e.label != UNLABELLED]
    model = AutoModelForSequenceClassification.from_pretrained(p.start, dtype=torch.float32)
    average, parameters = copy.deepcopy(model), list(model.parameters())
    optimizer = training.build_optimizer(parameters, s.teacher_learning_rate, decay=0.01)
    inputs = [getattr(e, SPELLINGS[rng.random() < s.treebank_share]) for e in examples]
    lengths = [len(ids) for ids in tokenizer(inputs, truncation=True, max_length=MAX_TOKENS)["input_ids"]]
    batches = training.group_by_length(lengths, s.teacher_batch_tokens, rng)[: s.teacher_steps]
    first = 0
    if checkpoint.exists():
        first, _ = training.load_checkpoint(checkpoint, optimizer, model=model, average=average)
    losses: list[float] = []
    start = last_save = time.monotonic()
    for n in range(first, len(batches)):
        progress = n / len(batches)
        rate = s.teacher_learning_rate * min(progress / 0.06, (1 + math.cos(math.pi * progress)) / 2)
        encoding = tokenize(tokenizer, [inputs[i] for i in batches[n]])
        with training.autocast(s):
            logits = model.train()(**encoding).logits
        target = training.label_distribution([examples[i] for i in batches[n]])
        loss = torch.nn.functional.cross_entropy(logits.float(), target)
        training.take_step(loss, optimizer, parameters, rate)
        training.update_average(average, model, decay=0.995)
        losses.append(loss.item())
        if (n + 1) % LOG_STEPS == 0:
            seconds = time.monotonic() - start
            print(f"teacher: step {n + 1} of {len(batches)}, loss {np.mean(losses):.3f}, {seconds:.0f} s", flush=True)
            losses = []
        if time.monotonic() - last_save > CHECKPOINT_SECONDS:
            training.save_checkpoint(checkpoint, n + 1, 0.0, optimizer, model=model, average=average)
            last_save = time.monotonic()
            print(f"teacher: dev {training.dev_scores(average.eval(), tokenizer, p)}", flush=True)
    print(f"teacher: dev {training.dev_scores(average.eval(), tokenizer, p)}", flush=True)
    with atomic(folder) as part:
        average.save_pretrained(part)
        tokenizer.save_pretrained(part)
    torch.set_num_threads(s.threads)


def tokenize(tokenizer: Any, texts: Sequence[str]) -> Any:
    return tokenizer(texts, padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt")


class Outputs(NamedTuple):
    """Outputs of the teacher; hidden states only at the first token and at the first token of each word."""

    logits: Float[Tensor, "texts 2"]
    middle: Float[Tensor, "rows width"]
    last: Float[Tensor, "rows width"]


def word_starts(word_ids: Sequence[int | None]) -> list[int]:
    """The first position, and the positions where a word starts."""
    return [0, *(n for n, word in enumerate(word_ids) if word is not None and word != word_ids[n - 1])]


@torch.inference_mode()
def compute_outputs(model: Any, tokenizer: Any, texts: Sequence[str], s: Settings) -> tuple[list[int], Outputs]:
    """The number of hidden states of each text; logits, and hidden states of the middle and the last layer."""
    order = sorted(range(len(texts)), key=lambda n: len(texts[n]))
    outputs: dict[int, Outputs] = {}
    for start in range(0, len(order), 48):
        batch = order[start : start + 48]
        encoding = tokenize(tokenizer, [texts[n] for n in batch])
        with training.autocast(s):
            out = model(**encoding, output_hidden_states=True)
        middle, last = (out.hidden_states[n].float() for n in (len(out.hidden_states) // 2, -1))
        for row, n in enumerate(batch):
            at = word_starts(encoding.word_ids(row))
            outputs[n] = Outputs(out.logits[row : row + 1].float(), middle[row, at], last[row, at])
    parts = [outputs[n] for n in range(len(texts))]
    return [len(part.middle) for part in parts], Outputs(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))


def load_teacher(p: Paths) -> tuple[Any, Any]:
    model = AutoModelForSequenceClassification.from_pretrained(p.work / "teacher", dtype=torch.float32).eval()
    return model, AutoTokenizer.from_pretrained(p.work / "teacher")


def store_components(texts: Sequence[str], path: Path, p: Paths, s: Settings) -> None:
    """Store the principal components of hidden states, scaled so that the hidden states have a total variance of 1."""
    _, outputs = compute_outputs(*load_teacher(p), texts, s)
    arrays: dict[str, Any] = {}
    for layer, states in (("middle", outputs.middle), ("last", outputs.last)):
        centre = states.mean(0)
        variances, axes = torch.linalg.eigh((states - centre).T @ (states - centre) / len(states))
        basis = axes[:, -s.components :].flip(1) / variances.sum().sqrt()
        share = variances[-s.components :].sum() / variances.sum()
        print(f"outputs: {s.components} components explain {share:.3f} of the variance ({layer} layer)", flush=True)
        arrays |= {f"{layer}_centre": centre.numpy(), f"{layer}_basis": basis.numpy()}
    with atomic(path) as part:
        np.savez(part, **arrays)


def store_blocks(texts: Sequence[str], p: Paths, s: Settings, process: int) -> None:
    """Store the outputs for every block of this process that has no file yet."""
    torch.set_num_threads(1)
    model, tokenizer = load_teacher(p)
    components = {name: torch.from_numpy(array) for name, array in np.load(p.work / "outputs/components.npz").items()}
    blocks = math.ceil(len(texts) / s.block_texts)
    for block in range(process, blocks, s.processes):
        if (path := p.work / f"outputs/{block:05}.npz").exists():
            continue
        counts, outputs = compute_outputs(model, tokenizer, texts[block * s.block_texts :][: s.block_texts], s)
        arrays: dict[str, Any] = {"starts": np.cumsum([0, *counts]), "logits": outputs.logits.half().numpy()}
        for layer, states in (("middle", outputs.middle), ("last", outputs.last)):
            arrays[layer] = ((states - components[f"{layer}_centre"]) @ components[f"{layer}_basis"]).half().numpy()
        with atomic(path) as part:
            np.savez(part, **arrays)
        print(f"outputs: block {block + 1} of {blocks}", flush=True)


def store_outputs(texts: Sequence[str], p: Paths, s: Settings) -> None:
    """Store the outputs of the teacher, in several processes of one thread."""
    path = p.work / "outputs/components.npz"
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        store_components(texts[:2000], path, p, s)
    spawn = multiprocessing.get_context("spawn")
    jobs = [spawn.Process(target=store_blocks, args=(texts, p, s, n)) for n in range(s.processes)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    if any(job.exitcode for job in jobs):
        raise RuntimeError("a process that computed outputs of the teacher failed; see its error above, then run again")


@functools.cache
def load_block(block: int, p: Paths) -> tuple[list[int], Outputs]:
    """The first row of each text, and the outputs; wait for the file, which another process may still compute."""
    while not (path := p.work / f"outputs/{block:05}.npz").exists():
        time.sleep(1)
    with np.load(path) as arrays:
        return arrays["starts"].tolist(), Outputs(*(torch.from_numpy(arrays[name]) for name in Outputs._fields))


def load_outputs(text: int, p: Paths, s: Settings) -> Outputs:
    """The outputs for one text."""
    block, n = divmod(text, s.block_texts)
    starts, outputs = load_block(block, p)
    rows = slice(starts[n], starts[n + 1])
    return Outputs(outputs.logits[n : n + 1], outputs.middle[rows], outputs.last[rows])
