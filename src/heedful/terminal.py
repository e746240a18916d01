"""Terminal: explanations as coloured text, one row per method, readable without colour too."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from heedful.explanation import Attribution, Explanation, Interaction, Prediction
from heedful.tokens import Splitter, Tokens

SUPPORTS, AGAINST, UNSIGNED = (33, 102, 172), (217, 95, 2), (106, 81, 163)  # told apart by every kind of colour vision
_SHOWN = 0.08  # weaker than this share of the strongest: no colour
_MARKED = 0.35  # stronger: a number, where there is no colour
_BAR = 24


def show(explanations: Sequence[Explanation], console: Console, unit: str | Splitter = "word") -> None:
    """Print the prediction, then every method's view of the text."""
    first = explanations[0]
    colour = console.is_terminal and not console.no_color
    console.print(_header(first))
    if first.truncation:
        console.print(Text(f"Notice: {first.truncation}.", style="bold"))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for explanation in explanations:
        table.add_row(Text(explanation.method, style="bold"), _body(explanation, unit, colour))
    console.print(table)
    console.print(_legend(explanations, colour))


def _header(explanation: Explanation) -> RenderableType:
    lines = [Text(f"{explanation.source.model} says ").append(clean(_said(explanation.prediction)), style="bold")]
    lines += _bars(explanation.prediction)
    return Group(*lines, Text(f"explained: {clean(str(explanation.target))}"), Text(""))


def _said(prediction: Prediction) -> str:
    if prediction.probabilities is None:
        return f"{prediction.label} = {prediction.logits[prediction.index]:.3f}"
    return f"{prediction.label} ({prediction.probabilities[prediction.index]:.1%})"


def _bars(prediction: Prediction) -> list[Text]:
    chances = prediction.probabilities
    if chances is None:
        return []
    order = sorted(range(len(chances)), key=lambda i: -chances[i])[:5]
    width = max(len(clean(prediction.labels[i])) for i in order)
    lines = [
        Text(f"  {clean(prediction.labels[i]):<{width}}  {'█' * round(chances[i] * _BAR):<{_BAR}}  {chances[i]:.4f}")
        for i in order
    ]
    hidden = len(chances) - len(order)
    return lines + ([Text(f"  … and {hidden} labels more")] if hidden else [])


def _body(explanation: Explanation, unit: str | Splitter, colour: bool) -> Text:
    if isinstance(explanation, Attribution):
        body = coloured(explanation.by(unit), colour)
    elif isinstance(explanation, Interaction):
        layers, heads, queries, keys = explanation.weights.shape
        body = Text(
            f"{layers} layers × {heads} heads of {explanation.attention} attention, {queries} × {keys} tokens: "
            "see them with --html",
            style="dim",
        )
    else:
        body = Text("see --json")
    details = _details(explanation)
    return body.append(f"\n{details}", style="dim") if details else body


def _details(explanation: Explanation) -> str:
    parts = list(explanation.notes)
    if isinstance(explanation, Attribution) and explanation.gap is not None and explanation.base is not None:
        parts.insert(
            0, f"base {explanation.base:.3f} + scores {explanation.scores.sum():.3f}, gap {explanation.gap:.1e}"
        )
    return "; ".join(parts)


def coloured(attribution: Attribution, colour: bool) -> Text:
    """The text as it was written, its units coloured; without colour, the strongest carry their strength."""
    tokens, strengths = attribution.tokens, attribution.strengths()
    found = Text()
    at, segment = 0, 0
    for i in tokens.content:
        span = tokens.spans[i]
        if span is None:
            continue
        if tokens.segments[i] != segment:
            found.append("\n")
            at, segment = span[0], tokens.segments[i] or 0
        found.append(clean(_source(tokens, segment)[at : max(at, span[0])]))
        found.append(clean(tokens.surface(i)), style=_style(strengths[i], attribution.signed) if colour else "")
        if not colour and abs(strengths[i]) >= _MARKED:
            found.append(f"({strengths[i]:+.2f})" if attribution.signed else f"({strengths[i]:.2f})")
        at = max(at, span[1])
    return found.append(" …") if tokens.dropped else found


def _source(tokens: Tokens, segment: int) -> str:
    return tokens.text if segment == 0 else tokens.pair or ""


def _style(strength: float, signed: bool) -> str:
    share = abs(strength)
    if share < _SHOWN:
        return ""
    hue = UNSIGNED if not signed else SUPPORTS if strength > 0 else AGAINST
    red, green, blue = (round(255 - (255 - c) * share) for c in hue)
    dark = 0.299 * red + 0.587 * green + 0.114 * blue < 140
    mark = " underline" if signed and strength < 0 else ""
    return f"{'white' if dark else 'black'} on rgb({red},{green},{blue}){mark}"


def _legend(explanations: Sequence[Explanation], colour: bool) -> Text:
    kinds = {e.signed for e in explanations if isinstance(e, Attribution)}
    legend = Text("\n")
    if not colour:
        return legend.append(
            "(+1.00) the strongest support, (−) speaks against, (0.50) strength without a sign; each method by itself"
        )
    if True in kinds:
        legend.append(" supports ", style=_style(0.9, True)).append(" ").append(
            " speaks against ", style=_style(-0.9, True)
        )
    if False in kinds:
        legend.append(" ").append(" strength without a sign ", style=_style(0.9, False))
    return legend.append("  each method is scaled by its strongest unit", style="dim")


def clean(text: str) -> str:
    """Without the control characters with which a text could steer the terminal."""
    return "".join("�" if unicodedata.category(c) == "Cc" and c not in "\n\t" else c for c in text)
