"""Audit: a whole audit against the bare model on the same inputs, and the profile verdict against standard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import heedful
from benchmarks.material import Scale, default, labelled, named, trained
from benchmarks.measure import Report, Row, in_turns
from heedful.audits.chunk import one_thread
from heedful.audits.result import Audit
from heedful.data import Example, load
from heedful.model import huggingface, seam
from heedful.model.classifier import Classifier

TEXTS = 32  # two more than a decision needs


@dataclass
class ModelPass:
    """One forward pass as it was run: its inputs, copies that branch off, the kind of attention, a backward pass."""

    inputs: dict[str, Any]
    branch: Sequence[tuple[int, int]]
    attention: str
    records: bool
    backward: bool = False


@contextmanager
def recording(classifier: Classifier) -> Iterator[list[ModelPass]]:
    """The passes of the model inside."""
    passes: list[ModelPass] = []
    branch: list[Sequence[tuple[int, int]]] = [()]
    branched, gradient = classifier.run_branched, classifier.gradient

    def note(_: nn.Module, args: Any, kwargs: Any) -> None:
        inputs = {name: x.clone() if isinstance(x, Tensor) else x for name, x in kwargs.items()}
        attention = getattr(classifier.config, "_attn_implementation_internal", "")
        passes.append(ModelPass(inputs, branch[0], attention, torch.is_grad_enabled()))

    def run_branched(batch: Any, plan: Sequence[tuple[int, int]]) -> Tensor:
        branch[0] = tuple(plan)
        try:
            return branched(batch, plan)
        finally:
            branch[0] = ()

    def slopes(of: Tensor, by: Sequence[Tensor]) -> list[Tensor]:
        passes[-1].backward = True
        return gradient(of, by)

    hook = classifier.model.register_forward_pre_hook(note, with_kwargs=True)
    vars(classifier).update(run_branched=run_branched, gradient=slopes)
    try:
        yield passes
    finally:
        hook.remove()
        del classifier.run_branched, classifier.gradient


def replayed(classifier: Classifier, passes: Sequence[ModelPass]) -> None:
    """The model on these inputs, and nothing else."""
    model = classifier.model
    blocks, axis = seam.blocks(model, len(classifier.sites)), huggingface.batch_axis(model)
    with one_thread(), seam.evaluation_mode(model):
        for one in passes:
            with ExitStack() as undo:
                undo.enter_context(seam.implementation(model, one.attention) if one.attention else nullcontext())
                undo.enter_context(torch.enable_grad() if one.backward else torch.inference_mode())
                if one.branch:
                    undo.enter_context(seam.branched([(blocks[layer], n) for layer, n in one.branch], axis))
                vectors: list[Tensor] = []
                if one.backward:
                    undo.enter_context(seam.embeddings(model, partial(_tracked, vectors)))
                out = model(**one.inputs).logits
                if one.backward:
                    torch.autograd.grad(out[:, 0].sum(), vectors)


def _tracked(seen: list[Tensor], vectors: Tensor) -> Tensor:
    seen.append(vectors.detach().requires_grad_())
    return seen[-1]


def run(scale: Scale) -> Report:
    """Both rows for the embedded model, and for the trained one where it is another."""
    texts = scale.few(TEXTS, 2)
    subjects: list[tuple[Classifier, Sequence[Example]]] = [(default(), load("corpus")[:texts])]
    if trained() is not default():
        subjects.append((trained(), labelled(texts)))
    return Report([row for subject in subjects for row in (overhead(*subject, scale), against_standard(*subject))])


def overhead(classifier: Classifier, examples: Sequence[Example], scale: Scale) -> Row:
    """A whole audit over the bare model on the same inputs."""
    with recording(classifier) as passes:
        _audited(classifier, examples, "verdict")
    timed = in_turns(
        {"ours": lambda: _audited(classifier, examples, "verdict"), "bare": lambda: replayed(classifier, passes)},
        scale.few(2),
    )
    inputs = sum(len(one.inputs["input_ids"]) + sum(copies for _, copies in one.branch) for one in passes)
    return Row(
        job="whole audit, profile verdict",
        on=f"{len(examples)} sentences, {named(classifier)}",
        against="bare model, same inputs and batches",
        theirs=timed["bare"].seconds / len(examples),
        ours=timed["ours"].seconds / len(examples),
        target=1.15,
        at_most=True,
        agreement=f"{inputs / len(examples):.0f} distinct inputs",
    )


def against_standard(classifier: Classifier, examples: Sequence[Example]) -> Row:
    """The CPU time of the profile standard over that of verdict, and how many of their decisions agree."""
    whole = in_turns({name: partial(_audited, classifier, examples, name) for name in ("verdict", "standard")}, 1)
    return Row(
        job="audit, profile verdict",
        on=f"{len(examples)} sentences, {named(classifier)}",
        against="profile standard",
        theirs=whole["standard"].seconds / len(examples),
        ours=whole["verdict"].seconds / len(examples),
        target=4.0,
        agreement=agreement(whole["verdict"].result, whole["standard"].result),
    )


def _audited(classifier: Classifier, examples: Sequence[Example], profile: str) -> Audit:
    return heedful.audit(classifier, examples, profile=profile, limit=len(examples))


def agreement(one: Audit, other: Audit) -> str:
    """How many verdicts, answers and ranks of the first are those of the second."""
    verdicts = [(v, other.summary.verdicts[name]) for name, v in one.summary.verdicts.items()]
    answers = [(a.says, b.says) for v, w in verdicts for a, b in zip(v.answers, w.answers, strict=True)]
    ranks = [{m.method: m.rank for m in audit.summary.rankings[0].methods} for audit in (one, other)]
    places = [(rank, ranks[1].get(method)) for method, rank in ranks[0].items()]
    pairs: dict[str, list[tuple[Any, Any]]] = {
        "verdicts": [(v.word, w.word) for v, w in verdicts],
        "answers": answers,
        "ranks": places,
    }
    return ", ".join(f"{sum(a == b for a, b in same)} of {len(same)} {name}" for name, same in pairs.items())
