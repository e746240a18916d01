"""Terminal: explanations as coloured text, one row per method, readable without colour too."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.color import Color
from rich.console import Console, Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text
from rich.tree import Tree as Branch

from heedful.core.explanation import (
    Attribution,
    Counterfactual,
    Explanation,
    Interaction,
    Prediction,
    Reduction,
)
from heedful.core.table import align_columns
from heedful.core.tokens import Splitter, Tokens
from heedful.report import phrases
from heedful.report.text_runs import text_runs
from heedful.report.tree_layout import edge_text, tree_facts, walk

if TYPE_CHECKING:
    from heedful.core.tree import Tree
    from heedful.methods.base import Passes
    from heedful.methods.cost import CostForecast

# distinct for every kind of colour vision, and of one middle lightness: legible on dark and on light terminals
SUPPORTS, AGAINST, UNSIGNED = (47, 128, 205), (217, 95, 2), (176, 72, 204)
_MIN_COLOURED = 0.12  # weaker than this share of the strongest: no colour
_MIN_NUMBERED = 0.35  # stronger: a number, where there is no colour
_MIN_FILLED, _MIN_BOLD = 0.5, 0.7
_GREY = 150
_BAR_WIDTH = 24


def show_explanations(
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


def show_tree(tree: Tree, console: Console) -> None:
    """Print the prediction, then the tree with its root at the top, each edge with its layer and share."""
    console.print(_header(tree))
    if tree.tokens.notice:
        console.print(Text(f"Notice: {tree.tokens.notice}.", style="bold"))
    levels: list[Branch] = []
    for depth, node, edge in walk(tree):
        name = Text(clean(tree.tokens.surface(node)), style="bold")
        label = name.append("  the root" if edge is None else f"  {edge_text(edge)}", style="not bold dim")
        levels[depth:] = [levels[depth - 1].add(label) if depth else Branch(label)]
    console.print(levels[0])
    for fact in ["", *tree_facts(tree)]:
        console.print(Text(clean(fact), style="dim"))


def _header(explanation: Explanation | Tree) -> RenderableType:
    prediction = Text(clean(phrases.prediction_text(explanation.prediction)), style="bold")
    first = Text.assemble(f"{clean(explanation.source.model)} says ", prediction)
    return Group(first, *_bars(explanation.prediction), Text(f"explained: {clean(str(explanation.target))}"), Text(""))


def _bars(prediction: Prediction) -> list[Text]:
    chances = prediction.probabilities
    if chances is None:
        return []
    order = sorted(range(len(chances)), key=lambda i: -chances[i])[:5]
    width = max(len(clean(prediction.labels[i])) for i in order)
    lines = [
        Text(f"  {label:<{width}}  {'━' * round(chance * _BAR_WIDTH):<{_BAR_WIDTH}}  {chance:.4f}")
        for label, chance in ((clean(prediction.labels[i]), chances[i]) for i in order)
    ]
    hidden = len(chances) - len(order)
    return lines + ([Text(f"  … and {hidden} labels more")] if hidden else [])


def _body(explanation: Explanation, unit: str | Splitter, how: Reduction, colour: bool) -> Text:
    if isinstance(explanation, Attribution):
        body = coloured(explanation.by(unit, how), colour)
    elif isinstance(explanation, Counterfactual):
        body = struck(explanation, colour)
    elif isinstance(explanation, Interaction):
        layers, heads, queries, keys = explanation.weights.shape
        maps = f"{layers} layers × {heads} heads of {explanation.attention} attention, {queries} × {keys} tokens"
        body = Text(f"{maps}: see them with --html", style="dim")
    else:
        body = Text("see --json")
    details = _details(explanation)
    return body.append(f"\n{clean(details)}", style="dim") if details else body


def _details(explanation: Explanation) -> str:
    parts = [phrases.details(explanation.details), *explanation.notes]
    if isinstance(explanation, Attribution) and explanation.gap is not None and explanation.base is not None:
        sums = f"base {explanation.base:.3f} + scores {explanation.scores.sum():.3f}"
        parts.insert(0, f"{sums}, gap {explanation.gap:.1e}")
    if isinstance(explanation, Interaction) and explanation.gaps:
        parts.insert(0, f"gap of a layer at most {max(map(abs, explanation.gaps)):.1e}")
    return "; ".join(part for part in parts if part)


def struck(why: Counterfactual, colour: bool) -> Text:
    """The text with what was removed struck out (between ~~ where there is no colour), and what the model says."""
    view, groups = why.tokens.by("word")
    gone = [bool(set(why.removed) & set(group)) for group in groups]
    body = Text()
    for i, text in _written(view):
        removed = i is not None and gone[i]
        shown = f"~~{text}~~" if removed and not colour else text
        body.append(shown, style=Style(color=Color.from_rgb(*AGAINST), strike=True) if removed and colour else None)
    body.append(" …" if view.dropped else "")
    body.append(f"\n{clean(phrases.outcome(why))}", style="bold" if why.found else "")
    return body.append(f"\n{phrases.certainty(why)}; removed by: {clean(why.masking)}", style="dim")


def coloured(attribution: Attribution, colour: bool) -> Text:
    """The text as it was written, its units coloured; without colour, the strongest carry their strength."""
    strengths = attribution.strengths()
    body = Text()
    for i, text in _written(attribution.tokens):
        body.append(text, style=_style(strengths[i], attribution.signed) if colour and i is not None else None)
        if not colour and i is not None and abs(strengths[i]) >= _MIN_NUMBERED:
            body.append(f"({_strength(attribution, i)})")
    return body.append(" …") if attribution.tokens.dropped else body


def _strength(attribution: Attribution, i: int) -> str:
    """A share of the strongest, with its standard error where there is one: "+0.50±0.04"."""
    share = attribution.strengths()[i]
    shown = f"{share:+.2f}" if attribution.signed else f"{share:.2f}"
    if attribution.errors is None:
        return shown
    return f"{shown}±{attribution.errors[i] * abs(share / attribution.scores[i]):.2f}"


def _written(tokens: Tokens) -> Iterator[tuple[int | None, str]]:
    """The text, and below it its pair, run by run: the unit, if it is one, and its characters.

    What was not read is left out; a unit without characters of its own shows its piece.
    """
    for number, runs in enumerate(text_runs(tokens)):
        if number:
            yield None, "\n"
        for run in runs[:-1] if runs and runs[-1].unit is None and tokens.dropped else runs:
            yield run.unit, clean(run.text or tokens.pieces[run.unit or 0])


def _style(strength: float, signed: bool) -> Style:
    """Weak: coloured letters; strong: a filled box. A tint would not do: pale is weak on white, but glares on black."""
    share = abs(strength)
    if share < _MIN_COLOURED:
        return Style()
    hue = UNSIGNED if not signed else SUPPORTS if strength > 0 else AGAINST
    against = signed and strength < 0
    if share < _MIN_FILLED:
        return Style(color=Color.from_rgb(*hue), underline=against)
    fill = Color.from_rgb(*(round(_GREY + (c - _GREY) * share) for c in hue))
    return Style(color=Color.from_rgb(0, 0, 0), bgcolor=fill, bold=share >= _MIN_BOLD, underline=against)


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


def cost_table(plan: CostForecast) -> str:
    """The passes of each method, of the prediction, and of all together."""
    rows = [("method", "forward", "backward"), *((cost.method, *_passes(cost.passes)) for cost in plan.costs)]
    rows.append(("the prediction itself", f"{plan.predictions:,}", "0"))
    rows.append((f"total{' and what is unknown' if plan.unknown else ''}", *_passes(plan.total)))
    return align_columns(rows, right=(1, 2))


def _passes(passes: Passes | None) -> tuple[str, str]:
    if passes is None:
        return "unknown", "unknown"
    most = "" if passes.exactly else "at most "
    return f"{most}{passes.forwards:,}", f"{most if passes.backwards else ''}{passes.backwards:,}"
