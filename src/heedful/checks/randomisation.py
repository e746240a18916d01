"""Randomisation: an explanation should change when the model's weights are randomised, from the top down.

The stages are the model's own parts: its head, its blocks from the last to the first, its embeddings; in a network
without blocks, its parts in reverse order of the forward pass, its word vectors last.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from heedful.checks import similarity
from heedful.checks.base import STANDARD_REEXPLAINING, Case, Correlation, Finding, Measure, Passes, Share, Together
from heedful.checks.similarity import SIMILARITY_MEASURES
from heedful.core.errors import HeedfulError, Unsupported
from heedful.core.finding import Highlight, Place, SideBySide
from heedful.core.random import seeded
from heedful.core.settings import Ge
from heedful.core.tokens import Tokens
from heedful.maths.distances import changes
from heedful.methods import Method
from heedful.methods.explain import try_method
from heedful.model import huggingface
from heedful.model.classifier import Classifier
from heedful.model.function import Plain

MEASURES = ("tau", "jsd", "top-k overlap")
WeightDraw = Literal["shuffle", "normal"]


@dataclass(frozen=True)
class Randomisation(Together):
    """The weights of a copy of the model are randomised part by part, head first; each stage explains the same label.

    `how`: "shuffle" permutes the numbers of each tensor, which preserves their distribution exactly; "normal" draws new
    ones with the tensor's mean and standard deviation. Both apply to biases and norms too; tensors of equal numbers do
    not change. The random numbers depend on the seed and the tensor's name, so all texts use the same models. `stages`
    evenly spaced ones are explained, including the last; None is all. A method draws at most `samples` on a random
    model, where it would draw more.
    """

    stages: Annotated[int, Ge(1)] | None = None
    samples: Annotated[int, Ge(4)] | None = None
    how: WeightDraw = "shuffle"
    methods: tuple[str, ...] | None = None
    texts: int | None = None

    name: ClassVar[str] = "randomisation"
    title: ClassVar[str] = "Random weights"
    question: ClassVar[str] = "Does an explanation change when the model's weights are randomised?"
    reading: ClassVar[str] = (
        "A high similarity is bad: the explanation does not depend on the trained weights. Some similarity can have "
        "good reasons, so look for a method that stays similar where others do not. A method that is pure noise passes "
        f"this check. All texts use the same random models. {similarity.COMPARED_WORDS}"
    )
    standard: ClassVar[Mapping[str, Any]] = {**STANDARD_REEXPLAINING, "stages": 4, "samples": 100}
    probe: ClassVar[Mapping[str, Any]] = {"stages": 1, "methods": ("gradient-x-input", "leave-one-out")}
    summary: ClassVar[str] = "similarity of explanations when weights are randomised part by part"
    paper: ClassVar[str] = "Adebayo et al. 2018 (cascading randomisation)"
    changes: ClassVar[str] = (
        "the weights of a copy of the model: those of the head, then of each block from the last, then the embeddings"
    )
    measures: ClassVar[Mapping[str, Measure]] = {
        "tau": replace(SIMILARITY_MEASURES["tau"], better="lower"),
        "jsd": replace(SIMILARITY_MEASURES["jsd"], better="higher"),
        "top-k overlap": replace(SIMILARITY_MEASURES["top-k overlap"], better="lower"),
        "similarity of fully random": Correlation(
            "τ-b with the explanation of a model whose weights are all random", better="lower"
        ),
        "output change": Share("total variation distance between the outputs of the two models"),
    }
    highlights: ClassVar[tuple[Highlight, ...]] = (
        Highlight("tau", "τ with all weights randomised: near 0 is good", head="rand", at={"layers": "all"}),
    )
    compared: ClassVar[tuple[SideBySide, ...]] = (
        SideBySide("similarity of fully random", "similarity with all weights randomised (τ)"),
    )

    def many(self, cases: Sequence[Case]) -> list[list[Finding]]:
        """Numbers for each method and stage; the texts of a run share the random models."""
        if not cases:
            return []
        classifier = cases[0].classifier
        model = copied(classifier)
        parts = staged(classifier.with_model(model))
        explained = similarity.evenly(len(parts), self.stages)
        findings = [similarity.left_out_findings(self.name, case, self.methods) for case in cases]
        controls = [similarity.unrelated(case) for case in cases]
        for i, part in enumerate(parts):
            randomise(part.tensors, self.how, cases[0].seed)
            if i in explained:
                last = i == len(parts) - 1
                at: Place = {"stage": i + 1, "layers": "all" if last else part.name}
                # a new classifier each time: its caches about the model are no longer valid
                stage = self._stage(cases, controls, classifier.with_model(model), at)
                findings = [before + new for before, new in zip(findings, stage, strict=True)]
                if last:  # one number for a method: its similarity with all weights randomised
                    for all_findings, new in zip(findings, stage, strict=True):
                        taus = [f for f in new if f.measure == "tau"]
                        all_findings += [replace(f, measure="similarity of fully random", at={}) for f in taus]
        return findings

    def _stage(
        self, cases: Sequence[Case], controls: Sequence[similarity.Similarity | None], random: Classifier, at: Place
    ) -> list[list[Finding]]:
        """The findings on each text with the model at this stage."""
        findings = [[_output(case, random, at)] for case in cases]
        for name, explained in similarity.explained_cases(cases, self.methods):
            tokens, targets = [cases[i].tokens for i in explained], [cases[i].target for i in explained]
            method = self._on_random(cases[explained[0]].methods[name])
            again = try_method(random, method, tokens, targets, cases[0].seed)
            for i, why in zip(explained, again, strict=True):
                comparison = similarity.compare_explanations(cases[i], cases[i].attributions[name], why)
                findings[i] += comparison.findings(self.name, name, MEASURES, at)
        for i, control in enumerate(controls):
            findings[i] += [] if control is None else control.findings(self.name, "random", MEASURES, at)
        return findings

    def _on_random(self, method: Method) -> Method:
        """The method as it explains a random model."""
        draws: Any = getattr(method, "samples", None)
        if self.samples is None or not isinstance(draws, int) or draws <= self.samples:
            return method
        fewer: Any = replace(cast(Any, method), samples=self.samples)
        return cast(Method, fewer)

    def passes(self, classifier: Classifier, tokens: Tokens, methods: Mapping[str, Method]) -> Passes:
        """At most: a prediction and an explanation by each method for each stage. The model is not run."""
        if isinstance(classifier, Plain):
            return Passes(0)
        parts = list(_parts(classifier.model))
        blocks = sum(part.block for part in parts)
        n = len(similarity.evenly(blocks + 2 if blocks else len(parts), self.stages))
        names = similarity.methods_used(list(methods), self.methods)
        on_random = {name: self._on_random(method) for name, method in methods.items()}
        stage = similarity.passes_of(classifier, tokens, on_random, names)
        return similarity.times(Passes(stage.forwards + 1, stage.backwards), n)


def _output(case: Case, random: Classifier, at: Place) -> Finding:
    try:
        logits = torch.tensor([random.predictions([case.tokens])[0].logits])
        moved = float(changes(logits, torch.tensor(case.prediction.logits), case.classifier.head).tvd[0])
        return Finding(Randomisation.name, "", "output change", moved, at)
    except HeedfulError as e:
        return Finding(Randomisation.name, "", "output change", float("nan"), at, {"reason": str(e)})


# weights


def copied(classifier: Classifier) -> nn.Module:
    """A copy of the model, so that the user's own is never changed."""
    if isinstance(classifier, Plain):
        raise Unsupported(
            f"{classifier.name} is a function from texts to probabilities and has no weights to randomise."
        )
    if (fault := huggingface.fixed_weights(classifier.model)) is not None:
        raise Unsupported(f"{classifier.name} cannot be randomised: {fault}.")
    try:
        with classifier.lock, torch.inference_mode(False):
            model: nn.Module = copy.deepcopy(classifier.model)
    except (RuntimeError, TypeError) as e:  # weights computed from others, handles that cannot be copied, out of memory
        raise Unsupported(f"{classifier.name} cannot be copied ({str(e).splitlines()[0][:120]}).") from e
    return model


@torch.no_grad()
def randomise(tensors: Mapping[str, Tensor], how: WeightDraw, seed: int) -> None:
    """Change these tensors in place, each with a generator derived from the seed and its name."""
    for name, tensor in tensors.items():
        rng = seeded(seed, name)
        if how == "shuffle":
            order = torch.randperm(tensor.numel(), generator=rng).to(tensor.device)
            tensor.copy_(tensor.flatten()[order].reshape(tensor.shape))
        else:
            x = tensor.float()
            tensor.copy_(torch.randn(tensor.shape, generator=rng).to(x) * x.std(correction=0) + x.mean())


# stages


@dataclass(frozen=True)
class ModelPart:
    """Weights by name: of a module, of a single parameter, or of a stage. A block is one of a list of modules."""

    name: str
    tensors: Mapping[str, Tensor]
    block: bool = False
    module: nn.Module | None = None


def staged(classifier: Classifier) -> list[ModelPart]:
    """The model's weights in the order in which they are randomised, each in one stage. Runs a probe text."""
    parts = list(_parts(classifier.model))
    first = _order(classifier, parts)
    table = huggingface.word_embeddings(classifier.model)
    if any(part.block and first[part.name] >= 0 for part in parts):
        groups = _by_blocks(parts, first)
    else:
        words = [part for part in parts if table is not None and part.module is table]
        others = [part for part in parts if part not in words]
        groups = {part.name: [part] for part in [*sorted(others, key=lambda part: -first[part.name]), *words]}
    # without the weights of earlier stages: some models use one table in two places
    known: set[int] = set()
    stages = []
    for name, members in groups.items():
        weights: dict[str, Tensor] = {}
        for label, tensor in ((n, t) for part in members for n, t in part.tensors.items()):
            if id(tensor) not in known and tensor.is_floating_point():
                weights[label] = tensor
                known.add(id(tensor))
        stages += [ModelPart(name, weights)] if weights else []
    return stages


def _parts(module: nn.Module, name: str = "", block: bool = False) -> Iterator[ModelPart]:
    """Modules that contain a list of blocks, and the model itself, are split; their own parameters are parts too."""
    opened = not block and any(isinstance(m, nn.ModuleList) and len(m) for m in module.modules())
    if name and not opened:
        weights = dict(module.named_parameters(prefix=name, remove_duplicate=False))
        if weights:
            yield ModelPart(name, weights, block, module)
        return
    for parameter, tensor in module.named_parameters(prefix=name, recurse=False):
        yield ModelPart(parameter, {parameter: tensor})
    for child, inner in module.named_children():
        yield from _parts(inner, f"{name}.{child}" if name else child, isinstance(module, nn.ModuleList))


def _order(classifier: Classifier, parts: Sequence[ModelPart]) -> dict[str, int]:
    """When each part is first called; parts that are never called count from −1 down, last named lowest.

    A parameter of the model itself is not called: the last named is then the closest to the head.
    """
    called: list[str] = []
    with ExitStack() as undo:
        for part in parts:
            for module in () if part.module is None else part.module.modules():
                hook = module.register_forward_pre_hook(lambda *_, name=part.name: called.append(name))
                undo.callback(hook.remove)
        undo.enter_context(torch.no_grad())
        tokens = classifier.probe_tokens()
        classifier.logits(classifier.batch([tokens]), counted=False)
    never = [part.name for part in parts if part.name not in called]
    return {name: i - len(never) for i, name in enumerate([*never, *dict.fromkeys(called)])}


def _by_blocks(parts: Sequence[ModelPart], first: Mapping[str, int]) -> dict[str, list[ModelPart]]:
    """The head is what comes after the last block; embeddings, what comes before the first, or is named so.

    A part between two blocks (a norm at the end of an encoder) is randomised with the block before it.
    """
    groups: dict[str, list[ModelPart]] = {"head": []}
    low: list[ModelPart] = []
    between: list[ModelPart] = []
    blocks = [first[part.name] for part in parts if part.block and first[part.name] >= 0]
    for part in sorted(parts, key=lambda part: -first[part.name]):
        at = first[part.name]
        if part.block:
            groups[part.name] = [part, *between]
            between = []
        elif at < min(blocks) or isinstance(part.module, nn.Embedding) or "embed" in part.name:
            low.append(part)
        elif at > max(blocks):
            groups["head"].append(part)
        else:
            between.append(part)
    return groups | {"embeddings": low + between}
