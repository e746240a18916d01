"""Planning: what explanations will cost, before they are made. Only texts are cut; the model is not run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from heedful.core.errors import BadInput
from heedful.core.tokens import Tokens
from heedful.methods import METHODS, Method
from heedful.methods.base import Passes
from heedful.model.classifier import Classifier


@dataclass(frozen=True)
class Plan:
    """A method and its passes over all texts; None where the method does not say."""

    method: str
    passes: Passes | None


def plan(classifier: Classifier, method: Method, texts: Iterable[Tokens]) -> Plan:
    """What one method will cost on these texts, each as it will be cut (see `parts`)."""
    counts = getattr(method, "passes", None)
    passes = None if counts is None else total(counts(classifier, tokens) for tokens in texts)
    return Plan(METHODS.named(method), passes)


def total(passes: Iterable[Passes]) -> Passes:
    """The sum; exact where every part is."""
    every = list(passes)
    return Passes(
        sum(p.forwards for p in every), sum(p.backwards for p in every), exactly=all(p.exactly for p in every)
    )


def parts(classifier: Classifier, tokens: Tokens, truncate: bool = True, windows: bool = False) -> Sequence[Tokens]:
    """The text as it will be given to the model: whole, cut at the model's limit, or in windows."""
    limit = classifier.limit
    if limit is None or len(tokens) <= limit:
        return [tokens]
    if windows:
        return [tokens.take(at) for at in tokens.windows(limit)]
    if not truncate:
        raise BadInput(
            f"the text has {len(tokens):,} tokens and {classifier.name} reads {limit:,}; "
            "shorten it, allow truncation, or use windows."
        )
    return [tokens.cut(limit)]


def shown(plans: Sequence[Plan], predictions: int) -> str:
    """A table of passes by method, and their sum."""
    rows = [(p.method, *_row(p.passes)) for p in plans]
    rows += [("the prediction itself", *_row(Passes(predictions)))]
    unknown = " and what is unknown" if any(p.passes is None for p in plans) else ""
    rows += [(f"total{unknown}", *_row(_sum(plans, predictions)))]
    heads = ("method", "forward", "backward")
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(3)]
    lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in [heads, *rows]]
    return "\n".join(lines)


def _row(passes: Passes | None) -> tuple[str, str]:
    if passes is None:
        return "unknown", "unknown"
    most = "" if passes.exactly else "at most "
    return f"{most}{passes.forwards:,}", f"{most if passes.backwards else ''}{passes.backwards:,}"


def _sum(plans: Sequence[Plan], predictions: int) -> Passes:
    return total([*(p.passes for p in plans if p.passes is not None), Passes(predictions)])


def shown_json(plans: Sequence[Plan], predictions: int) -> str:
    """The same as one line of JSON."""
    methods = [{"method": p.method, "passes": None if p.passes is None else asdict(p.passes)} for p in plans]
    unknown = [p.method for p in plans if p.passes is None]
    whole = asdict(_sum(plans, predictions))
    return json.dumps({"methods": methods, "predictions": predictions, "total": whole, "unknown": unknown})
