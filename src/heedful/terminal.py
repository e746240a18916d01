"""Terminal: explanations as coloured text, one row per method, readable without colour too."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Timer

from rich.color import Color
from rich.console import Console, Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from heedful.explanation import Attribution, Explanation, Interaction, Prediction, Reduction
from heedful.tokens import Splitter, Tokens

# told apart by every kind of colour vision, and of one middle lightness: legible on dark and on light terminals
SUPPORTS, AGAINST, UNSIGNED = (47, 128, 205), (217, 95, 2), (176, 72, 204)
_SHOWN = 0.12  # weaker than this share of the strongest: no colour
_MARKED = 0.35  # stronger: a number, where there is no colour
_FILLED, _BOLD = 0.5, 0.7
_GREY = 150
_WAIT = 2.0  # seconds before a progress line appears
_BAR = 24


def show(
    explanations: Sequence[Explanation], console: Console, unit: str | Splitter = "word", how: Reduction = "sum"
) -> None:
    """Print the prediction, then every method's view of the text."""
    first = explanations[0]
    colour = console.color_system is not None and not console.no_color
    console.print(_header(first))
    if first.truncation:
        console.print(Text(f"Notice: {first.truncation}.", style="bold"))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for explanation in explanations:
        table.add_row(Text(clean(explanation.method), style="bold"), _body(explanation, unit, how, colour))
    console.print(table)
    if any(isinstance(e, Attribution) for e in explanations):
        console.print(_legend(explanations, colour, unit, how))


def _header(explanation: Explanation) -> RenderableType:
    lines = [
        Text(f"{clean(explanation.source.model)} says ").append(clean(_said(explanation.prediction)), style="bold")
    ]
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
        Text(f"  {clean(prediction.labels[i]):<{width}}  {'━' * round(chances[i] * _BAR):<{_BAR}}  {chances[i]:.4f}")
        for i in order
    ]
    hidden = len(chances) - len(order)
    return lines + ([Text(f"  … and {hidden} labels more")] if hidden else [])


def _body(explanation: Explanation, unit: str | Splitter, how: Reduction, colour: bool) -> Text:
    if isinstance(explanation, Attribution):
        body = coloured(explanation.by(unit, how), colour)
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
    return body.append(f"\n{clean(details)}", style="dim") if details else body


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
        found.append(clean(tokens.surface(i)), style=_style(strengths[i], attribution.signed) if colour else None)
        if not colour and abs(strengths[i]) >= _MARKED:
            found.append(f"({strengths[i]:+.2f})" if attribution.signed else f"({strengths[i]:.2f})")
        at = max(at, span[1])
    return found.append(" …") if tokens.dropped else found


def _source(tokens: Tokens, segment: int) -> str:
    return tokens.text if segment == 0 else tokens.pair or ""


def _style(strength: float, signed: bool) -> Style:
    """Weak: coloured letters; strong: a filled box. A tint would not do: pale is weak on white, but glares on black."""
    share = abs(strength)
    if share < _SHOWN:
        return Style()
    hue = UNSIGNED if not signed else SUPPORTS if strength > 0 else AGAINST
    against = signed and strength < 0
    if share < _FILLED:
        return Style(color=Color.from_rgb(*hue), underline=against)
    fill = Color.from_rgb(*(round(_GREY + (c - _GREY) * share) for c in hue))
    return Style(color=Color.from_rgb(0, 0, 0), bgcolor=fill, bold=share >= _BOLD, underline=against)


def _legend(explanations: Sequence[Explanation], colour: bool, unit: str | Splitter, how: Reduction) -> Text:
    kinds = {e.signed for e in explanations if isinstance(e, Attribution)}
    samples = [
        (" supports " if colour else "(+1.00) supports", 0.9, True),
        (" speaks against " if colour else "(-0.50) speaks against", -0.9, True),
        (" strength without a sign " if colour else "(0.50) strength without a sign", 0.9, False),
    ]
    legend = Text("\n")
    for name, strength, signed in samples:
        if signed in kinds:
            legend.append(name, style=_style(strength, signed) if colour else None).append("  ")
    name = unit if isinstance(unit, str) else "unit"
    joined = "" if name == "token" else f"; a {name} has the {how} of its tokens"
    return legend.append(f"each method is scaled by its strongest {name}{joined}", style="dim")


def clean(text: str) -> str:
    """Without the control characters with which a text could steer the terminal."""
    return "".join("�" if unicodedata.category(c) == "Cc" and c not in "\n\t" else c for c in text)


@contextmanager
def progress(hidden: bool = False) -> Iterator[Callable[[str], None]]:
    """Give a function that says what is done next; after two seconds a line on stderr shows it, if someone looks.

    A thread keeps the line moving: one method on a large model can take a minute by itself.
    """
    if hidden or not sys.stderr.isatty():
        yield lambda doing: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    # subtle: rich would also catch what is printed to stdout meanwhile, and send it to stderr
    line = Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
    )
    task = line.add_task("starting", total=None)
    timer = Timer(_WAIT, line.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda doing: line.update(task, description=clean(doing))
    finally:
        timer.cancel()
        timer.join()
        line.stop()
