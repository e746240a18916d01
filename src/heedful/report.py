"""Report: explanations in, HTML out. Knows pixels and nothing of models: no torch is needed to draw.

page        one self-contained document, which asks nothing of the network and carries its own data
notebook    a fragment without script, for a cell of Jupyter

What is shown is prepared by pure functions into small frozen records; the templates only lay them out.
"""

from __future__ import annotations

import base64
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

import jinja2
import numpy as np
from numpy.typing import NDArray

from heedful.errors import BadInput
from heedful.explanation import Attribution, Explanation, Interaction, Prediction, Source
from heedful.tokens import Span, Tokens

Tone = Literal["for", "against", "weight"]
STRONGEST = 12
BINS = 64  # the side of a heat map
CELLS = 2_000_000  # of all heat maps of a page: what keeps the page of a model with 1,024 heads under 5 MB


@dataclass(frozen=True)
class Run:
    """A stretch of text: a scored unit, or (tone None) the characters between two units."""

    text: str
    tone: Tone | None = None
    strength: float = 0.0
    number: str = ""
    tip: str = ""
    special: bool = False
    unread: bool = False


@dataclass(frozen=True)
class Bar:
    """A strong word as a bar: `zero`, `left` and `width` in percent, `nth` where the word occurs more than once."""

    word: Run
    nth: int | None
    zero: float
    left: float
    width: float


@dataclass(frozen=True)
class Row:
    """One method: the text coloured by word and by token, its strongest words, and its facts."""

    name: str
    why: Attribution
    facts: list[tuple[str, str]]
    words: list[list[Run]]
    pieces: list[list[Run]]
    bars: list[Bar]


@dataclass(frozen=True)
class Map:
    """An Interaction thinned for the screen; `data` is what the script draws, `strongest` says each head in words."""

    why: Interaction
    data: dict[str, Any]
    strongest: list[list[str]]


@dataclass(frozen=True)
class Section:
    """Everything the page shows about one text. `labels` are (name, probability or None, logit), largest first."""

    tokens: Tokens
    verdict: str
    labels: list[tuple[str, float | None, float]]
    models: list[str]
    targets: list[str]
    warnings: list[str]
    notes: list[str]
    rows: list[Row] = field(default_factory=list)
    lines: list[tuple[Run, list[Run | None]]] = field(default_factory=list)
    maps: list[Map] = field(default_factory=list)


def page(explanations: Sequence[Explanation]) -> str:
    """One HTML document: a section per text, the methods side by side, the heads, and what was run."""
    groups = _by_text(explanations)
    cells = CELLS // max(1, sum(isinstance(e, Interaction) for e in explanations))
    maps = [[thinned(e, cells) for e in group if isinstance(e, Interaction)] for group in groups]
    sections = [replace(section(g), maps=m) for g, m in zip(groups, maps, strict=True)]
    # the attributions as `to_dict` writes them: whoever has the page can read the raw scores back with `from_dict`
    attributions = [[row.why.to_dict() for row in s.rows] for s in sections]
    data = {"attributions": attributions, "maps": [[m.data for m in s.maps] for s in sections]}
    sources = ran([e.source for e in explanations])
    return _templates().get_template("page.html.j2").render(sections=sections, sources=sources, data=script_json(data))


def notebook(explanations: Sequence[Explanation]) -> str:
    """A fragment with the prediction and the coloured text of each method: no script, no class, no id."""
    others = [e for e in explanations if isinstance(e, Interaction)]
    sections = [section(group) for group in _by_text(explanations)]
    return _templates().get_template("notebook.html.j2").render(sections=sections, interactions=others)


def section(group: Sequence[Explanation]) -> Section:
    """What is shown about one text, without its heat maps."""
    prediction = next((e.prediction for e in group if e.prediction.logits), Prediction())
    attributions = [e for e in group if isinstance(e, Attribution)]
    names = distinct([a.method or "unnamed" for a in attributions])
    return Section(
        tokens=group[0].tokens,
        verdict=verdict(prediction),
        labels=labels(prediction),
        models=_unique(e.source.model for e in group),
        targets=_unique(str(e.target) for e in group),
        warnings=_unique(e.truncation for e in group),
        notes=_unique(f"{e.method}: {note}" for e in group for note in e.notes),
        rows=[row(a, name) for a, name in zip(attributions, names, strict=True)],
        lines=comparison([by_word(a) for a in attributions]),
    )


def verdict(prediction: Prediction) -> str:
    """What the model said, in a word: the label, or a regression's numbers; empty where nothing is known."""
    if prediction.probabilities is None:
        return ", ".join(number(x, signed=False) for x in prediction.logits[:3])
    return prediction.label


def labels(prediction: Prediction) -> list[tuple[str, float | None, float]]:
    """(name, probability or None, logit), the largest first."""
    shares = prediction.probabilities or [None] * len(prediction.logits)
    return sorted(zip(prediction.labels, shares, prediction.logits, strict=True), key=lambda entry: -entry[2])


def row(why: Attribution, name: str) -> Row:
    """One method's row."""
    words = by_word(why)
    single = [[i] for i in range(len(why.tokens))]
    groups = single if words is why else why.tokens.by("word")[1]
    return Row(
        name=name,
        why=why,
        facts=facts(why),
        words=paragraphs(units(words, [tip(why, group) for group in groups]), words.tokens, special=False),
        pieces=paragraphs(units(why, [tip(why, group) for group in single]), why.tokens, special=True),
        bars=strongest(words),
    )


def by_word(why: Attribution) -> Attribution:
    """By words; what the caller has already joined into another unit stays in that unit."""
    return why.by("word") if why.tokens.unit == "token" else why


def facts(why: Attribution) -> list[tuple[str, str]]:
    """The numbers beside a method's name: the sum, completeness where it is promised, and the price."""
    special = float(why.scores[list(why.tokens.special)].sum()) or None
    sums = {"Σ scores": float(why.scores.sum()), "on special tokens": special, "base": why.base, "gap": why.gap}
    windows = f", in {why.source.windows} windows" if why.source.windows > 1 else ""
    passes = f"{why.source.forwards:,} forward, {why.source.backwards:,} backward{windows}"
    return [
        *((k, number(v, why.signed or k in ("base", "gap"))) for k, v in sums.items() if v is not None),
        ("passes", passes),
    ]


def tip(why: Attribution, group: Sequence[int]) -> str:
    """The raw number of a unit, and its pieces: "+0.5\\nfun +0.2 · ##ny +0.3"."""
    total = number(float(why.scores[list(group)].sum()), why.signed)
    if len(group) == 1:
        return f"{total}\npiece {why.tokens.pieces[group[0]]}"
    return f"{total}\n" + " · ".join(
        f"{why.tokens.pieces[i]} {number(float(why.scores[i]), why.signed)}" for i in group
    )


def units(why: Attribution, tips: Sequence[str]) -> list[Run]:
    """One Run per token, special ones too; the numbers share one count of decimals so that a column lines up."""
    content, strengths = list(why.tokens.content), why.strengths()
    largest = float(np.abs(why.scores[content]).max(initial=0.0))
    decimals = min(9, max(0, 3 - math.floor(math.log10(largest)))) if largest else 1
    sign = "+" if why.signed else ""
    return [
        Run(
            text=why.tokens.surface(i),
            tone="weight" if not why.signed else "against" if score < 0 else "for",
            strength=abs(float(strengths[i])),
            number=f"{score + 0.0:{sign}.{decimals}f}".replace("-", "−"),
            tip=tips[i],
            special=why.tokens.special[i],
        )
        for i, score in enumerate(why.scores)
    ]


def paragraphs(runs: Sequence[Run], tokens: Tokens, special: bool) -> list[list[Run]]:
    """The text (and its pair) as runs that, special tokens apart, join to the original characters.

    A special token stands in the text it follows. After the last piece of a truncated text comes what was not read.
    """
    texts = [text for text in (tokens.text, tokens.pair) if text is not None]
    result: list[list[Run]] = [[] for _ in texts]
    at = [0] * len(texts)
    segment = 0
    for run, span, own in zip(runs, tokens.spans, tokens.segments, strict=True):
        segment = segment if own is None else own
        if own is not None and span is not None:
            result[own] += _placed(run, texts[own], at[own], span)
            at[own] = max(at[own], span[1])
        elif special:
            result[segment].append(run)
    tails = [Run(text[a:], unread=tokens.dropped > 0) for text, a in zip(texts, at, strict=True)]
    return [[*runs, tail] if tail.text else runs for runs, tail in zip(result, tails, strict=True)]


def _placed(run: Run, text: str, at: int, span: Span) -> list[Run]:
    """A unit after the characters before it. A later byte of one emoji adds no characters: it shows its own piece."""
    between = [Run(text[at : span[0]])] if at < span[0] else []
    rest = text[max(at, span[0]) : span[1]]
    return [*between, replace(run, text=rest) if rest else replace(run, special=True)]


def strongest(why: Attribution, k: int = STRONGEST) -> list[Bar]:
    """The k strongest words, on one axis from the lowest to the highest score that always holds zero."""
    runs, content = units(why, [""] * len(why.tokens)), why.tokens.content
    order = sorted(content, key=lambda i: -abs(why.scores[i]))[:k]
    signed = [float(why.strengths()[i]) for i in order]
    low, high = min(0.0, *signed, 0.0), max(0.0, *signed, 0.0)
    scale = 100 / ((high - low) or 1.0)
    count = Counter(runs[i].text for i in content)
    nth = {i: sum(runs[j].text == runs[i].text for j in content if j <= i) for i in order}
    return [
        Bar(
            runs[i],
            nth[i] if count[runs[i].text] > 1 else None,
            -low * scale,
            (min(s, 0) - low) * scale,
            abs(s) * scale,
        )
        for i, s in zip(order, signed, strict=True)
    ]


def comparison(whys: Sequence[Attribution]) -> list[tuple[Run, list[Run | None]]]:
    """One line per word, special tokens too, with each method's number; None where a method has no such unit."""
    columns = [dict(zip(_keys(why.tokens), units(why, [""] * len(why.tokens)), strict=True)) for why in whys]
    keys = {key: run for column in columns for key, run in column.items()}
    return [(run, [column.get(key) for column in columns]) for key, run in keys.items()]


def _keys(tokens: Tokens) -> list[tuple[int | None, Span | None, int]]:
    """What makes a unit the same in two explanations: its place in the text, and its number among equals."""
    places = list(zip(tokens.segments, tokens.spans, strict=True))
    return [(segment, span, places[:i].count((segment, span))) for i, (segment, span) in enumerate(places)]


def thinned(why: Interaction, cells: int = CELLS) -> Map:
    """At most `cells` bytes: the largest weight of each bin, its square root on a scale of 255 steps.

    The root keeps small weights apart: of 512 keys most get less than 1/255 of the largest weight.
    """
    layers, heads, queries, n = why.weights.shape
    side = max(1, min(n, BINS, math.isqrt(cells // max(1, layers * heads))))
    starts = np.arange(side) * n // side
    # a network that pools with a single query has one row: it is drawn once for each token, and the page says so
    small = pooled(np.repeat(why.weights, n, axis=2) if queries < n else why.weights, starts)
    top = float(np.abs(small).max(initial=0.0))
    signed = bool((small < 0).any())
    roots = np.sign(small) * np.sqrt(np.abs(small) / (top or 1.0))
    steps = np.rint(128 + 127 * roots if signed else 255 * roots).astype(np.uint8)
    ends = [*starts[1:], n]
    names = [why.tokens.surface(i) for i in range(n)]
    bins = [names[a] if b - a == 1 else f"{names[a]} … {names[b - 1]}" for a, b in zip(starts, ends, strict=True)]
    data = {"layers": layers, "heads": heads, "numbers": why.layers, "side": side, "bins": bins}
    scale = {"top": top, "signed": signed, "steps": base64.b64encode(steps.tobytes()).decode("ascii")}
    return Map(why, data | scale, [[peak(head, names) for head in layer] for layer in why.weights])


def pooled(weights: NDArray[np.float32], starts: NDArray[np.int64]) -> NDArray[np.float32]:
    """The weight of the largest magnitude, sign kept, in each bin of queries and keys."""
    if len(starts) == weights.shape[-1]:
        return weights
    high = np.maximum.reduceat(np.maximum.reduceat(weights, starts, axis=3), starts, axis=2)
    low = np.minimum.reduceat(np.minimum.reduceat(weights, starts, axis=3), starts, axis=2)
    return np.where(high >= -low, high, low)


def peak(head: NDArray[np.float32], names: Sequence[str]) -> str:
    """One head in words, for who cannot see its map: "0.83 from [CLS] to not"."""
    query, key = divmod(int(np.abs(head).argmax()), head.shape[1])
    start = f" from {names[query]}" if len(head) == len(names) else ""
    return f"{number(float(head[query, key]), signed=False)}{start} to {names[key]}"


def ran(sources: Iterable[Source]) -> list[tuple[Source, list[Source]]]:
    """The methods run, under the model, seed and versions they share; what each text cost is left out."""
    groups: dict[str, tuple[Source, dict[str, Source]]] = {}
    for source in sources:
        run = replace(source, forwards=0, backwards=0, windows=1)
        shared = replace(run, method="", settings={})
        groups.setdefault(repr(shared), (shared, {}))[1][repr(run)] = run
    return [(shared, list(runs.values())) for shared, runs in groups.values()]


def number(x: float, signed: bool = True) -> str:
    """Four digits and a true minus sign: number(-0.12345) -> "−0.1235"."""
    return f"{x + 0.0:{'+' if signed else ''}.4g}".replace("-", "−")


def distinct(names: Sequence[str]) -> list[str]:
    """Names with a number where they repeat: ["a", "a", "b"] -> ["a (1)", "a (2)", "b"]."""
    count = Counter(names)
    return [f"{n} ({names[: i + 1].count(n)})" if count[n] > 1 else n for i, n in enumerate(names)]


def script_json(data: object) -> str:
    """JSON that cannot end the script element it stands in, whatever the texts and labels say."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, default=str)
    escapes = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
    return text.translate(escapes)


def _by_text(explanations: Sequence[Explanation]) -> list[list[Explanation]]:
    if not explanations:
        raise BadInput("there is no explanation to show; give at least one.")
    groups: dict[tuple[str, str | None], list[Explanation]] = {}
    for e in explanations:
        groups.setdefault((e.tokens.text, e.tokens.pair), []).append(e)
    return list(groups.values())


def _unique(values: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value))


@cache
def _templates() -> jinja2.Environment:
    loader = jinja2.PackageLoader("heedful")
    made = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["number"] = number
    return made
