"""Explanation rows: explanations as small frozen records, which the templates of the page lay out."""

from __future__ import annotations

import base64
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from heedful.core.arrays import Ints
from heedful.core.explanation import Attribution, Counterfactual, Explanation, Interaction, Prediction
from heedful.core.tokens import Span, Tokens
from heedful.report.phrases import certainty, details, format_number, outcome, score_text
from heedful.report.text_runs import TextRun, text_runs

RunTone = Literal["for", "against", "weight"]
MAX_BARS = 12  # words with a bar, for each method
MAX_LABELS = 8  # labels of a counterfactual


@dataclass(frozen=True)
class ColouredRun:
    """A part of a text: a scored unit, or (tone None) the characters between two units."""

    text: str
    tone: RunTone | None = None
    strength: float = 0.0
    number: str = ""
    tip: str = ""
    special: bool = False
    unread: bool = False


@dataclass(frozen=True)
class Bar:
    """A strong word as a bar, in percent of its axis; `nth` counts the occurrences of a repeated word.

    `error` is half the length of its whisker, 0 without one; `end` is the end of the bar away from zero.
    """

    word: ColouredRun
    nth: int | None
    zero: float
    left: float
    width: float
    end: float = 0.0
    error: float = 0.0


@dataclass(frozen=True)
class MethodRow:
    """One method: the text coloured by word and by token, its strongest words, and its facts."""

    name: str
    why: Attribution
    facts: list[tuple[str, str]]
    words: list[list[ColouredRun]]
    pieces: list[list[ColouredRun]]
    bars: list[Bar]


@dataclass(frozen=True)
class Removal:
    """A counterfactual: the text with the removed words (tone "against"), and probabilities before and after."""

    name: str
    why: Counterfactual
    texts: list[list[ColouredRun]]
    sentence: str
    certainty: str
    facts: list[tuple[str, str]]
    labels: list[tuple[str, float, float]]


def row(why: Attribution, name: str) -> MethodRow:
    """One method's row."""
    words = by_unit(why)
    single = [[i] for i in range(len(why.tokens))]
    groups = single if words is why else why.tokens.by(why.unit)[1]
    return MethodRow(
        name=name,
        why=why,
        facts=method_facts(why),
        words=paragraphs(token_runs(words, [tip(why, group) for group in groups]), words.tokens, special=False),
        pieces=paragraphs(token_runs(why, [tip(why, group) for group in single]), why.tokens, special=True),
        bars=strongest_bars(words),
    )


def by_unit(why: Attribution) -> Attribution:
    """By words, or by the sentences that were the features; one by another unit than tokens stays as it is."""
    return why.by(why.unit) if why.tokens.unit == "token" else why


def method_facts(why: Attribution) -> list[tuple[str, str]]:
    """The numbers of a method: the sum, base and gap where it is complete, details, and the cost."""
    special = float(why.scores[list(why.tokens.special)].sum()) or None
    sums = {"Σ scores": float(why.scores.sum()), "on special tokens": special, "base": why.base, "gap": why.gap}
    facts = [(k, score_text(v, why.signed or k in ("base", "gap"))) for k, v in sums.items() if v is not None]
    return [*facts, *_details_and_cost(why)]


def _details_and_cost(why: Explanation) -> list[tuple[str, str]]:
    windows = f", in {why.source.windows} windows" if why.source.windows > 1 else ""
    passes = f"{why.source.forwards:,} forward, {why.source.backwards:,} backward{windows}"
    line = details(why.details)
    return [*([("details", line)] if line else []), ("passes", passes)]


def tip(why: Attribution, group: Sequence[int]) -> str:
    """The raw number of a unit, with its standard error, and its pieces: "+0.5 ± 0.1\\nfun +0.2 · ##ny +0.3"."""
    # an upper bound of the standard error of a sum, as in `Attribution.by`
    error = "" if why.errors is None else f" ± {float(why.errors[list(group)].sum()):.2g}"
    total = score_text(float(why.scores[list(group)].sum()), why.signed) + error
    if len(group) == 1:
        return f"{total}\npiece {why.tokens.pieces[group[0]]}"
    if why.unit == "sentence":  # which was removed as a whole: its tokens have equal parts
        return f"{total}\n{len(group)} tokens"
    return f"{total}\n" + " · ".join(
        f"{why.tokens.pieces[i]} {score_text(float(why.scores[i]), why.signed)}" for i in group
    )


def token_runs(why: Attribution, tips: Sequence[str]) -> list[ColouredRun]:
    """One run per token, special ones too; all numbers have the same count of decimals."""
    content, strengths = list(why.tokens.content), why.strengths()
    largest = float(np.abs(why.scores[content]).max(initial=0.0))
    decimals = min(9, max(0, 3 - math.floor(math.log10(largest)))) if largest else 1
    sign = "+" if why.signed else ""
    return [
        ColouredRun(
            text=why.tokens.surface(i),
            tone="weight" if not why.signed else "against" if score < 0 else "for",
            strength=abs(float(strengths[i])),
            number=format_number(score, f"{sign}.{decimals}f"),
            tip=tips[i],
            special=why.tokens.special[i],
        )
        for i, score in enumerate(why.scores)
    ]


def paragraphs(runs: Sequence[ColouredRun], tokens: Tokens, special: bool) -> list[list[ColouredRun]]:
    """The text (and its pair) as runs that, apart from special tokens, join to the original characters.

    The last run of a truncated text is `unread`.
    """
    units = {i for i, is_special in enumerate(tokens.special) if special and is_special}

    def coloured(part: TextRun, last: bool) -> ColouredRun:
        if part.unit is None:
            return ColouredRun(part.text, unread=last and tokens.dropped > 0)
        # a later byte of one emoji has no characters: it shows its own piece
        return replace(runs[part.unit], text=part.text) if part.text else replace(runs[part.unit], special=True)

    return [[coloured(part, part is text[-1]) for part in text] for text in text_runs(tokens, units)]


def strongest_bars(why: Attribution, k: int = MAX_BARS) -> list[Bar]:
    """The k strongest words, on one axis that contains zero, every score and every whisker."""
    runs, content = token_runs(why, [""] * len(why.tokens)), why.tokens.content
    order = sorted(content, key=lambda i: -abs(why.scores[i]))[:k]
    scores = why.scores[order]
    errors = np.zeros(len(order)) if why.errors is None else why.errors[order]
    low, high = float((scores - errors).min(initial=0.0)), float((scores + errors).max(initial=0.0))
    scale = 100 / ((high - low) or 1.0)
    count = Counter(runs[i].text for i in content)
    nth = {i: sum(runs[j].text == runs[i].text for j in content if j <= i) for i in order}
    return [
        Bar(
            word=runs[i] if why.errors is None else replace(runs[i], tip=f"± {error:.2g}"),
            nth=nth[i] if count[runs[i].text] > 1 else None,
            zero=-low * scale,
            left=(min(score, 0) - low) * scale,
            width=abs(score) * scale,
            end=(score - low) * scale,
            error=error * scale,
        )
        for i, score, error in zip(order, scores.tolist(), errors.tolist(), strict=True)
    ]


def removal(why: Counterfactual) -> Removal:
    """A counterfactual for the page."""
    view, groups = why.tokens.by("word")
    removed = set(why.removed)
    runs = [
        ColouredRun(text=view.surface(j), tone="against" if removed & set(group) else "for", special=view.special[j])
        for j, group in enumerate(groups)
    ]
    before, after = why.prediction.probabilities, why.outcome.probabilities
    chances = [] if before is None or after is None else list(zip(why.prediction.labels, before, after, strict=True))
    return Removal(
        name=why.method or "counterfactual",
        why=why,
        texts=paragraphs(runs, view, special=False),
        sentence=outcome(why),
        certainty=certainty(why),
        facts=[("removed by", why.masking), *_details_and_cost(why)],
        labels=sorted(chances, key=lambda label: -max(label[1:]))[:MAX_LABELS],
    )


def comparison(whys: Sequence[Attribution]) -> list[tuple[ColouredRun, list[ColouredRun | None]]]:
    """One line per word or special token, with each method's number; None where a method has no such unit.

    The prompt, which is never scored, has none.
    """
    columns = [dict(zip(_keys(why.tokens), token_runs(why, [""] * len(why.tokens)), strict=True)) for why in whys]
    keys = {key: run for column in columns for key, run in column.items()}
    scored = (key for why in whys for key, p in zip(_keys(why.tokens), why.tokens.prompt, strict=False) if p)
    hidden = set(scored)
    return [(run, [column.get(key) for column in columns]) for key, run in keys.items() if key not in hidden]


def _keys(tokens: Tokens) -> list[tuple[int | None, Span | None, int]]:
    """Identifies a unit across explanations: its place in the text, and its number among units at that place."""
    places = list(zip(tokens.segments, tokens.spans, strict=True))
    return [(segment, span, places[:i].count((segment, span))) for i, (segment, span) in enumerate(places)]


def headline(prediction: Prediction) -> str:
    """The predicted label, or the numbers of a regression; empty without a prediction."""
    if prediction.probabilities is None:
        return ", ".join(score_text(x, signed=False) for x in prediction.logits[:3])
    return prediction.label


def label_rows(prediction: Prediction) -> list[tuple[str, float | None, float]]:
    """(name, probability or None, logit), the largest first."""
    shares = prediction.probabilities or [None] * len(prediction.logits)
    return sorted(zip(prediction.labels, shares, prediction.logits, strict=True), key=lambda entry: -entry[2])


def number_repeats(names: Sequence[str]) -> list[str]:
    """Repeated names with a number: ["a", "a", "b"] -> ["a (1)", "a (2)", "b"]."""
    count = Counter(names)
    return [f"{n} ({names[: i + 1].count(n)})" if count[n] > 1 else n for i, n in enumerate(names)]


MAX_BINS = 64  # bins on a side of a heat map
MAX_CELLS = 2_000_000  # of all heat maps of a page: a model with 1,024 heads has a page of less than 5 MB


@dataclass(frozen=True)
class Map:
    """An Interaction in bins; `data` is for the script, `strongest` describes each head in words."""

    why: Interaction
    data: dict[str, Any]
    strongest: list[list[str]]
    facts: str = ""


def heat_map(why: Interaction, cells: int = MAX_CELLS) -> Map:
    """The largest weight of each bin as one byte, on a square-root scale of 255 steps; at most `cells` bytes.

    The root keeps small weights visible: of 512 keys most get less than 1/255 of the largest weight.
    """
    layers, heads, queries, n = why.weights.shape
    side = max(1, min(n, MAX_BINS, math.isqrt(cells // max(1, layers * heads))))
    starts = np.arange(side) * n // side
    # a network that pools with a single query has one row: it is repeated for each token, with a note on the page
    small = pool_bins(np.repeat(why.weights, n, axis=2) if queries < n else why.weights, starts)
    top = float(np.abs(small).max(initial=0.0))
    signed = bool((small < 0).any())
    roots = np.sign(small) * np.sqrt(np.abs(small) / (top or 1.0))
    steps = np.rint(128 + 127 * roots if signed else 255 * roots).astype(np.uint8)
    ends = [*starts[1:], n]
    names = [why.tokens.surface(i) for i in range(n)]
    bins = [names[a] if b - a == 1 else f"{names[a]} … {names[b - 1]}" for a, b in zip(starts, ends, strict=True)]
    shape = {"layers": layers, "heads": heads, "numbers": why.layers, "side": side, "bins": bins}
    scale = {"top": top, "signed": signed, "steps": base64.b64encode(steps.tobytes()).decode("ascii")}
    words = [[peak(head, names) for head in layer] for layer in why.weights]
    return Map(why, {"name": why.method or "weights", "mate": None} | shape | scale, words, details(why.details))


def pool_bins(weights: NDArray[np.float32], starts: Ints) -> NDArray[np.float32]:
    """The weight of the largest magnitude, sign kept, in each bin of queries and keys."""
    if len(starts) == weights.shape[-1]:
        return weights
    high = np.maximum.reduceat(np.maximum.reduceat(weights, starts, axis=3), starts, axis=2)
    low = np.minimum.reduceat(np.minimum.reduceat(weights, starts, axis=3), starts, axis=2)
    return np.where(high >= -low, high, low)


def peak(head: NDArray[np.float32], names: Sequence[str]) -> str:
    """The largest weight of a head in words: "0.83 from [CLS] to not"."""
    query, key = divmod(int(np.abs(head).argmax()), head.shape[1])
    start = f" from {names[query]}" if len(head) == len(names) else ""
    return f"{score_text(float(head[query, key]), signed=False)}{start} to {names[key]}"


def matching_maps(maps: Sequence[Interaction]) -> dict[int, int]:
    """Pairs of maps to show side by side: attention, and attributions to it."""
    plain = next((i for i, e in enumerate(maps) if e.method == "attention-weights"), None)
    if plain is None:
        return {}
    mates = [i for i, e in enumerate(maps) if i != plain and same_matrices(maps[plain], e)]
    return dict.fromkeys(mates, plain) | ({plain: mates[0]} if mates else {})


def same_matrices(plain: Interaction, other: Interaction) -> bool:
    """Whether two interactions are about the same matrices."""
    same = plain.attention == other.attention and plain.weights.shape[1:] == other.weights.shape[1:]
    return same and set(other.layers) <= set(plain.layers)


def select_layers(plain: Interaction, other: Interaction) -> Interaction:
    """The layers of `plain` that `other` has too."""
    rows = [plain.layers.index(layer) for layer in other.layers]
    gaps = None if plain.gaps is None else tuple(plain.gaps[row] for row in rows)
    return replace(plain, weights=plain.weights[rows], layers=other.layers, gaps=gaps)
