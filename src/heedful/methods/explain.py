"""Explain texts: an Explanation for each text and method, with its provenance.

explain      one text or several, by one method or several
explain_all  a stream of texts
tree         attention attributions as a tree
run_method   one method on texts that are already tokenized; try_method returns errors as results
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from itertools import islice
from typing import Any, Literal, overload

import numpy as np
import torch

from heedful.core import settings as known_settings
from heedful.core.errors import BadInput, HeedfulError, Unsupported, nearest, results_or_errors
from heedful.core.explanation import Attribution, Explanation, Explanations, Interaction, Prediction, Source
from heedful.core.random import seeded
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.core.tree import LeaveOut, Tree, TreeSearch, check_options, grow
from heedful.methods import METHODS, Method
from heedful.methods import method as make
from heedful.methods.attention import AttentionWeights
from heedful.methods.base import passes
from heedful.model.classifier import Classifier
from heedful.model.loading import load
from heedful.model.masking import features

STREAM_TEXTS = 64  # texts that explain_all holds at a time
Text = str | tuple[str, str]  # a text, or (text, pair)
Texts = list[str] | list[tuple[str, str]] | list[Text]
Methods = list[str] | list[str | Method] | Sequence[Method] | tuple[str | Method, ...]
TargetLike = Target | str | int | None
OnUnsupported = Literal["raise", "skip"]
_KEYWORDS = ("target", "pair", "seed", "tokenizer", "truncate", "windows", "unsupported", "with_attention", "watch")


@dataclass(frozen=True)
class Step:
    """Progress: the method that runs next, its number among `count`, and the forward passes it plans, if known."""

    doing: str
    number: int
    count: int
    forwards: int | None = None


Watch = Callable[[Step], None]


# fmt: off
@overload
def explain(
    x: Any, text: Text, method: str | Method = ..., target: TargetLike = ..., pair: str | None = ..., seed: int = ...,
    *, tokenizer: Any = ..., truncate: bool = ..., windows: bool = ..., watch: Watch | None = ..., **settings: Any,
) -> Explanation: ...
@overload
def explain(
    x: Any, text: Texts, method: str | Method = ..., target: TargetLike = ..., pair: None = ..., seed: int = ..., *,
    tokenizer: Any = ..., truncate: bool = ..., windows: bool = ..., unsupported: OnUnsupported = ...,
    with_attention: bool = ..., watch: Watch | None = ..., **settings: Any,
) -> Explanations: ...
@overload
def explain(
    x: Any, text: Text | Texts, method: Methods, target: TargetLike = ..., pair: str | None = ..., seed: int = ..., *,
    tokenizer: Any = ..., truncate: bool = ..., windows: bool = ..., unsupported: OnUnsupported = ...,
    with_attention: bool = ..., watch: Watch | None = ...,
) -> Explanations: ...
# fmt: on
def explain(
    x: Any,
    text: Text | Texts,
    method: str | Method | Methods = "integrated-gradients",
    target: TargetLike = None,
    pair: str | None = None,
    seed: int = 0,
    *,
    tokenizer: Any = None,
    truncate: bool = True,
    windows: bool = False,
    unsupported: OnUnsupported = "raise",
    with_attention: bool = False,
    watch: Watch | None = None,
    **settings: Any,
) -> Explanation | Explanations:
    """Explain the prediction of a text: an Explanation; of several texts or by several methods: Explanations.

    `x` is what `heedful.load` takes: a classifier, a pipeline, a folder or hub name, a (model, tokenizer) pair; or a
    model, with its `tokenizer`. Several texts are a list; a tuple is one (text, pair). Settings of a single method
    given by name may be keywords: `explain(x, text, "ig", steps=64)`.

    A text longer than the model's limit is truncated, and the explanation says so; `truncate=False` makes that an
    error, and `windows=True` explains the mean over overlapping windows instead. A method that the model does not
    support raises `Unsupported`; with `unsupported="skip"` it is in `Explanations.skipped`. `with_attention` adds the
    attention weights, which the page shows as a grid of heads. `watch` is called before each method.
    """
    single = isinstance(text, (str, tuple)) and not _is_several(method)
    if single and with_attention:
        raise BadInput("with_attention is for Explanations; give the methods as a list.")
    methods = make_methods(method, settings)
    job = _Job(methods, _target(target), seed, truncate, windows, unsupported, with_attention, watch)
    texts = text_pairs(text, pair)
    classifier = load(x if tokenizer is None else (x, tokenizer))
    rows = job.run(classifier, [classifier.tokens(*pair) for pair in texts])
    whole = Explanations(
        [why for row in rows for why in row],
        {name: reason for row in rows for name, reason in row.skipped.items()},
        [weights for row in rows for weights in row.attention],
    )
    if rows and not whole:
        raise Unsupported(f"the model supports none of the methods: {next(iter(whole.skipped.values()))}")
    return whole[0] if single else whole


# fmt: off
@overload
def explain_all(
    x: Any, texts: Iterable[Text], method: str | Method = ..., target: TargetLike = ..., seed: int = ..., *,
    tokenizer: Any = ..., truncate: bool = ..., windows: bool = ..., watch: Watch | None = ..., **settings: Any,
) -> Iterator[Explanation]: ...
@overload
def explain_all(
    x: Any, texts: Iterable[Text], method: Methods, target: TargetLike = ..., seed: int = ..., *, tokenizer: Any = ...,
    truncate: bool = ..., windows: bool = ..., unsupported: OnUnsupported = ..., watch: Watch | None = ...,
) -> Iterator[Explanations]: ...
# fmt: on
def explain_all(
    x: Any,
    texts: Iterable[Text],
    method: str | Method | Methods = "integrated-gradients",
    target: TargetLike = None,
    seed: int = 0,
    *,
    tokenizer: Any = None,
    truncate: bool = True,
    windows: bool = False,
    unsupported: OnUnsupported = "raise",
    watch: Watch | None = None,
    **settings: Any,
) -> Iterator[Explanation] | Iterator[Explanations]:
    """Explain a stream of texts, or (text, pair) tuples: lazily, in order, several at a time where the method can.

    Yields for each text an Explanation, or Explanations for several methods. The arguments are those of `explain`.
    """
    # a single explanation per text cannot list skipped methods
    unsupported = unsupported if _is_several(method) else "raise"
    job = _Job(make_methods(method, settings), _target(target), seed, truncate, windows, unsupported, False, watch)
    classifier, stream = load(x if tokenizer is None else (x, tokenizer)), iter(texts)
    chunks = iter(lambda: list(islice(stream, STREAM_TEXTS)), [])
    rows = (row for chunk in chunks for row in job.run(classifier, [classifier.tokens(*p) for p in text_pairs(chunk)]))
    return rows if _is_several(method) else (row[0] for row in rows)


def tree(
    x: Any,
    text: Text | None = None,
    how: TreeSearch = "greedy",
    *,
    threshold: float = 0.4,
    penalty: float = 0.0,
    root: int | None = None,
    leave_out: LeaveOut = "cls",
    seconds: float = 30.0,
    method: str | Method = "attattr",
    target: TargetLike = None,
    pair: str | None = None,
    seed: int = 0,
    tokenizer: Any = None,
    truncate: bool = True,
    watch: Watch | None = None,
    **settings: Any,
) -> Tree:
    """The attribution tree of a prediction: attention attributions, and their tree.

    `x`, `text` and the arguments after `seconds` are those of `explain`; the others are those of `Interaction.tree`,
    which makes the tree of an existing interaction. An Interaction alone is accepted here too.
    """
    if text is None or isinstance(x, Interaction):
        if text is not None or settings:
            raise BadInput(
                "an Interaction has its own text and settings; call its method tree(), or give a model and a text."
            )
        return grow(x, how, threshold=threshold, penalty=penalty, root=root, leave_out=leave_out, seconds=seconds)
    check_options(how, threshold, penalty, leave_out)
    why = explain(x, text, method, target, pair, seed, tokenizer=tokenizer, truncate=truncate, watch=watch, **settings)
    return grow(why, how, threshold=threshold, penalty=penalty, root=root, leave_out=leave_out, seconds=seconds)


def _is_several(method: Any) -> bool:
    return isinstance(method, Sequence) and not isinstance(method, str)


def _target(target: TargetLike) -> Target:
    return target if isinstance(target, Target) else Target(target)


def text_pairs(text: Any, pair: str | None = None) -> list[tuple[str, str | None]]:
    """One text or several, as (text, pair or None)."""
    if isinstance(text, str):
        return [(text, pair)]
    if pair is not None:
        raise BadInput("pair is for one text; give several pairs, or a tuple, as (text, pair).")
    if isinstance(text, tuple) and len(text) == 2 and all(isinstance(part, str) for part in text):
        return [text]
    if isinstance(text, tuple) or not isinstance(text, Iterable):
        raise BadInput(f"{text!r} is not a text or a (text, pair) of two texts; give several texts as a list.")
    return [text_pairs(tuple(item) if isinstance(item, list) else item)[0] for item in text]


@dataclass(frozen=True)
class TextParts:
    """A text as the model reads it: in one part, perhaps truncated, or in overlapping windows of these positions."""

    tokens: Tokens
    parts: tuple[Tokens, ...]
    windows: tuple[tuple[int, ...], ...] = ()


def cut_text(classifier: Classifier, tokens: Tokens, truncate: bool = True, windows: bool = False) -> TextParts:
    """The parts of a text that the model reads: one, unless the text is too long and windows are allowed."""
    limit = classifier.limit
    if limit is None or len(tokens) <= limit:
        return TextParts(tokens, (tokens,))
    if windows:
        positions = tuple(tokens.windows(limit))
        return TextParts(tokens, tuple(tokens.take(at) for at in positions), positions)
    if not truncate:
        raise BadInput(
            f"the text has {len(tokens):,} tokens and {classifier.name} reads {limit:,}; "
            "shorten it, allow truncation, or use windows."
        )
    short = tokens.cut(limit)
    return TextParts(short, (short,))


@dataclass(frozen=True)
class _Job:
    """The arguments of `explain`, checked, which are the same for every text."""

    methods: tuple[Method, ...]
    target: Target
    seed: int
    truncate: bool
    windows: bool
    unsupported: OnUnsupported
    with_attention: bool
    watch: Watch | None

    def __post_init__(self) -> None:
        if self.unsupported not in ("raise", "skip"):
            raise BadInput(f"unsupported '{self.unsupported}' is not one of raise, skip.")

    def run(self, classifier: Classifier, texts: Sequence[Tokens]) -> list[Explanations]:
        """For each text an explanation by each method. A text is cut and predicted once for all methods."""
        cuts = [cut_text(classifier, tokens, self.truncate, self.windows) for tokens in texts]
        predictions = _predictions(classifier, cuts)
        targets = [self.target.resolved(classifier.labels, prediction.index) for prediction in predictions]
        methods = [*self.methods, *attention_grid(self.methods, self.with_attention)]
        columns = []
        for number, method in enumerate(methods, 1):
            if self.watch is not None and texts:
                self.watch(_step(classifier, method, cuts, number, len(methods)))
            skip = self.unsupported == "skip" or number > len(self.methods)
            columns.append(_apply(classifier, method, cuts, targets, self.seed, skip))
        return [
            self._collect([column[i] for column in columns], prediction) for i, prediction in enumerate(predictions)
        ]

    def _collect(self, results: Sequence[Explanation | Unsupported], prediction: Prediction) -> Explanations:
        names = map(METHODS.name_of, [*self.methods, AttentionWeights()])
        skipped = {name: str(r) for name, r in zip(names, results, strict=False) if isinstance(r, Unsupported)}
        whys = [None if isinstance(r, Unsupported) else replace(r, prediction=prediction) for r in results]
        wanted, attention = whys[: len(self.methods)], whys[len(self.methods) :]
        return Explanations(
            [why for why in wanted if why is not None],
            skipped,
            [why for why in attention if isinstance(why, Interaction)],
        )


def make_methods(method: Any, settings: Mapping[str, Any]) -> tuple[Method, ...]:
    """One method or several, as objects; `settings` are those of a single method that is given by name."""
    wanted = list(method) if _is_several(method) else [method]
    if not wanted:
        raise BadInput("no method was given; `heedful methods` lists them all.")
    if not settings:
        return tuple(make(item) for item in wanted)
    if not isinstance(method, str):
        raise BadInput(
            f"{', '.join(settings)}: keywords set one method that is given by name; give several methods, or a "
            "method object, with their settings: heedful.method('ig', {'steps': 64})."
        )
    known = known_settings.of(type(make(method)))
    for wrong in sorted(set(settings) - set(known)):
        if hint := nearest(wrong, [*known, *_KEYWORDS]):
            raise BadInput(f"explain with {METHODS.full_name(method)} has no argument '{wrong}'{hint}")
    return (make(method, settings),)


def attention_grid(methods: Sequence[Method], with_attention: bool) -> list[Method]:
    """The attention weights that a page shows as a grid of heads, unless they are among the methods."""
    known = any(isinstance(method, AttentionWeights) for method in methods)
    return [AttentionWeights()] if with_attention and not known else []


def _step(classifier: Classifier, method: Method, cuts: Sequence[TextParts], number: int, count: int) -> Step:
    try:
        planned = passes(method, classifier, (part for cut in cuts for part in cut.parts))
    except HeedfulError:  # the method raises it again when it runs
        planned = None
    return Step(METHODS.name_of(method), number, count, None if planned is None else planned.forwards)


def _predictions(classifier: Classifier, cuts: Sequence[TextParts]) -> list[Prediction]:
    """The prediction of each text; that of windows has the mean of their logits."""
    parts = iter(classifier.predictions([part for cut in cuts for part in cut.parts]))
    groups = [[next(parts) for _ in cut.parts] for cut in cuts]
    return [
        group[0] if len(group) == 1 else classifier.prediction(torch.tensor(np.mean([p.logits for p in group], axis=0)))
        for group in groups
    ]


def _apply(
    classifier: Classifier, method: Method, cuts: Sequence[TextParts], targets: Sequence[Target], seed: int, skip: bool
) -> list[Explanation | Unsupported]:
    """One method on every text. `Unsupported` is raised, or with `skip` returned in the text's place."""
    repeated = [target for cut, target in zip(cuts, targets, strict=True) for _ in cut.parts]
    try:
        parts = iter(run_method(classifier, method, [part for cut in cuts for part in cut.parts], repeated, seed))
        return [_join_windows(cut, [next(parts) for _ in cut.parts]) for cut in cuts]
    except Unsupported as e:
        if not skip:
            raise
        if len(cuts) == 1:
            return [e]
    return [
        _apply(classifier, method, [cut], [target], seed, skip)[0] for cut, target in zip(cuts, targets, strict=True)
    ]


def run_method(
    classifier: Classifier, method: Method, texts: Sequence[Tokens], targets: Sequence[Target], seed: int = 0
) -> list[Explanation]:
    """One method on every text, in batches if it has `many`. Targets are resolved; nothing is predicted."""
    explanations: dict[int, Explanation] = {}
    together, key = hasattr(method, "many"), known_settings.draw_key(METHODS.name_of(method), method)
    fingerprint = classifier.fingerprint  # asks every weight whether it has changed
    for group in classifier.batches(texts) if together else [[i] for i in range(len(texts))]:
        with classifier.lock:  # so that the passes counted are those of this batch
            before = classifier.forwards, classifier.backwards
            # each depends on seed, text and settings only: any explanation can be computed again alone
            rngs = [seeded(seed, texts[i].text, texts[i].pair, *key) for i in group]
            if together:
                whys = method.many(classifier, [texts[i] for i in group], [targets[i] for i in group], rngs)  # type: ignore[attr-defined]
            else:
                whys = [method(classifier, texts[group[0]], targets[group[0]], rngs[0])]
            forwards, backwards = (
                (a - b) // len(group) for a, b in zip((classifier.forwards, classifier.backwards), before, strict=True)
            )
        for i, why in zip(group, whys, strict=True):
            source = Source(
                method=METHODS.name_of(method),
                settings=known_settings.values(method),
                model=classifier.name,
                fingerprint=fingerprint,
                seed=seed,
                forwards=why.source.forwards or forwards,  # the method sets it if texts of a batch differ
                backwards=backwards,
                versions=versions(),
            )
            explanations[i] = replace(_without_prompt(why), target=targets[i].named(classifier.labels), source=source)
    return [explanations[i] for i in range(len(texts))]


def _without_prompt(why: Explanation) -> Explanation:
    """The words of a prompt get no score."""
    if not isinstance(why, Attribution) or not why.tokens.prompt:
        return why
    text = ~np.array(why.tokens.prompt)
    return replace(why, scores=why.scores * text, errors=None if why.errors is None else why.errors * text)


def try_method(
    classifier: Classifier, method: Method, texts: Sequence[Tokens], targets: Sequence[Target], seed: int = 0
) -> list[Explanation | HeedfulError]:
    """Like `run_method`, but a failing text yields its error. After a failure, texts are tried one by one."""

    def work(pairs: list[tuple[Tokens, Target]]) -> list[Explanation]:
        return run_method(classifier, method, [tokens for tokens, _ in pairs], [target for _, target in pairs], seed)

    return results_or_errors(work, list(zip(texts, targets, strict=True)))


@cache
def versions() -> dict[str, str]:
    """The installed versions that an explanation depends on."""
    return {name: version(name) for name in ("heedful", "torch", "transformers")}


def _join_windows(cut: TextParts, parts: Sequence[Explanation]) -> Explanation:
    """The mean over windows: a token's score is the sum over the windows that contain it, divided by all windows.

    That explains the mean of the windows' targets.
    """
    if not cut.windows:
        return parts[0]
    first = parts[0]
    attributions = [part for part in parts if isinstance(part, Attribution)]
    if not isinstance(first, Attribution) or len(attributions) < len(parts):
        raise Unsupported(f"{first.method} cannot be joined over windows; explain a shorter text, or allow truncation.")
    unit = first.details.get("unit")  # the same in all windows
    scores, errors = np.zeros(len(cut.tokens)), np.zeros(len(cut.tokens))
    for at, part in zip(cut.windows, attributions, strict=True):
        scores[list(at)] += part.scores / len(parts)
        # an upper bound: errors of windows are added as if fully correlated
        errors[list(at)] += (0 if part.errors is None else part.errors) / len(parts)
    return replace(
        first,
        tokens=cut.tokens,
        scores=scores,
        errors=errors if any(part.errors is not None for part in attributions) else None,
        details={"unit": unit, "features": len(features(cut.tokens, unit))} if unit else {},
        base=_mean([part.base for part in attributions]),
        gap=_mean([part.gap for part in attributions]),
        source=replace(
            first.source,
            windows=len(parts),
            forwards=sum(part.source.forwards for part in parts),
            backwards=sum(part.source.backwards for part in parts),
        ),
        notes=(*dict.fromkeys(n for p in parts for n in p.notes), f"mean over {len(parts)} overlapping windows"),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None
