"""Terminal: explanations as coloured text, one row per method, readable without colour too; costs as a table."""

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
    Explanations,
    Interaction,
    Prediction,
    Reduction,
)
from heedful.core.table import align_columns
from heedful.core.tokens import Splitter, Tokens
from heedful.report import phrases
from heedful.report.phrases import format_number
from heedful.report.text_runs import text_runs
from heedful.report.tree_layout import edge_text, tree_facts, walk

if TYPE_CHECKING:
    from heedful.core.tree import Tree
    from heedful.methods.base import Passes
    from heedful.methods.cost import CostForecast

# distinct for every kind of colour vision, and of one middle lightness: legible on dark and on light terminals
SUPPORTS, AGAINST, UNSIGNED = (47, 128, 205), (217, 95, 2), (176, 72, 204)
_MIN_COLOURED = 0.12  # share of the strongest word, below which a word has no colour
_MIN_NUMBERED = 0.35  # share from which a word has a number, where there is no colour
_MIN_FILLED, _MIN_BOLD = 0.5, 0.7
_GREY = 150
_BAR_WIDTH = 24
MAX_PROMPT = 160  # characters


def show_explanations(
    explanations: Sequence[Explanation], console: Console, unit: str | Splitter | None = None, how: Reduction = "sum"
) -> None:
    """Print for each text the prediction, then every method's view of it."""
    colour = console.color_system is not None and not console.no_color
    texts = Explanations(explanations).by_text()
    for number, group in enumerate(texts, 1):
        if len(texts) > 1:
            console.print(*[""] * (number > 1), Text(f"text {number} of {len(texts)}", style="bold"), sep="\n")
        console.print(_header(group[0]))
        if group[0].truncation:
            console.print(Text(f"Notice: {group[0].truncation}.", style="bold"))
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for explanation in group:
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
    first = Text.assemble(f"{clean(explanation.source.model)} predicts ", prediction)
    about = [Text(f"explained: {clean(str(explanation.target))}")]
    if parts := explanation.tokens.in_prompt:
        prompt = "".join(characters if s is None else ("{text}", "{pair}")[s] for characters, s in parts)
        prompt = clean(prompt).replace("\n", "⏎")
        ends = prompt if len(prompt) <= MAX_PROMPT else f"{prompt[: MAX_PROMPT // 2]} … {prompt[-MAX_PROMPT // 2 :]}"
        about.append(Text(f"prompt: {ends}", style="dim"))
    return Group(first, *_bars(explanation.prediction), *about, Text(""))


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
    return lines + ([Text(f"  … and {hidden} more label{'s' * (hidden > 1)}")] if hidden else [])


def _body(explanation: Explanation, unit: str | Splitter | None, how: Reduction, colour: bool) -> Text:
    if isinstance(explanation, Attribution):
        body = coloured(explanation.by(unit or explanation.unit, how), colour)
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
        base, total = (format_number(float(x), ".3f") for x in (explanation.base, explanation.scores.sum()))
        parts.insert(0, f"base {base} + scores {total}, gap {format_number(explanation.gap, '.1e')}")
    if isinstance(explanation, Interaction) and explanation.gaps:
        parts.insert(0, f"gap of a layer at most {format_number(max(map(abs, explanation.gaps)), '.1e')}")
    return "; ".join(part for part in parts if part)


def struck(why: Counterfactual, colour: bool) -> Text:
    """The text with removed words struck out (between ~~ where there is no colour), and the prediction without them."""
    view, groups = why.tokens.by("word")
    removals = [bool(set(why.removed) & set(group)) for group in groups]
    strike = Style(color=Color.from_rgb(*AGAINST), strike=True) if colour else None
    body = Text()
    for i, text in _original_text(view):
        removed = i is not None and removals[i]
        body.append(f"~~{text}~~" if removed and not colour else text, style=strike if removed else None)
    body.append(" …" if view.dropped else "")
    body.append(f"\n{clean(phrases.outcome(why))}", style="bold" if why.found else "")
    return body.append(f"\n{phrases.certainty(why)}; removed by: {clean(why.masking)}", style="dim")


def coloured(attribution: Attribution, colour: bool) -> Text:
    """The original text with its units coloured; without colour, the strongest units have a number."""
    strengths = attribution.strengths()
    body = Text()
    for i, text in _original_text(attribution.tokens):
        body.append(text, style=_style(strengths[i], attribution.signed) if colour and i is not None else None)
        if not colour and i is not None and abs(strengths[i]) >= _MIN_NUMBERED:
            body.append(f"({_strength(attribution, i)})")
    return body.append(" …") if attribution.tokens.dropped else body


def _strength(attribution: Attribution, i: int) -> str:
    """A share of the strongest, with its standard error where there is one: "+0.50±0.04"."""
    share = float(attribution.strengths()[i])
    error = None if attribution.errors is None else attribution.errors[i] * abs(share / attribution.scores[i])
    return format_number(share, "+.2f" if attribution.signed else ".2f") + ("" if error is None else f"±{error:.2f}")


def _original_text(tokens: Tokens) -> Iterator[tuple[int | None, str]]:
    """The text, and below it its pair, run by run: the index of the unit, or None between units, and the characters.

    Truncated characters are left out; a unit without characters of its own shows its piece.
    """
    for number, runs in enumerate(text_runs(tokens)):
        if number:
            yield None, "\n"
        for run in runs[:-1] if runs and runs[-1].unit is None and tokens.dropped else runs:
            yield run.unit, clean(run.text or tokens.pieces[run.unit or 0])


def _style(strength: float, signed: bool) -> Style:
    """Weak: coloured letters; strong: a filled box. No tints: a pale colour looks weak on white and strong on black."""
    share = abs(strength)
    if share < _MIN_COLOURED:
        return Style()
    hue = UNSIGNED if not signed else SUPPORTS if strength > 0 else AGAINST
    against = signed and strength < 0
    if share < _MIN_FILLED:
        return Style(color=Color.from_rgb(*hue), underline=against)
    fill = Color.from_rgb(*(round(_GREY + (c - _GREY) * share) for c in hue))
    return Style(color=Color.from_rgb(0, 0, 0), bgcolor=fill, bold=share >= _MIN_BOLD, underline=against)


def _legend(explanations: Sequence[Explanation], colour: bool, unit: str | Splitter | None, how: Reduction) -> Text:
    kinds = {e.signed for e in explanations if isinstance(e, Attribution)}
    samples = [
        (" supports " if colour else "(+1.00) supports", 0.9, True),
        (" opposes " if colour else "(−0.50) opposes", -0.9, True),
        (" strength without direction " if colour else "(0.50) strength without direction", 0.9, False),
    ]
    legend = Text("\n")
    for name, strength, signed in samples:
        if signed in kinds:
            legend.append(name, style=_style(strength, signed) if colour else None).append("  ")
    units = dict.fromkeys(e.unit for e in explanations if isinstance(e, Attribution))
    name = " or ".join(units) if unit is None else unit if isinstance(unit, str) else "unit"
    joined = "" if name == "token" else f"; a {name} has the {how} of its tokens"
    marks = "colours" if colour else f"numbers (from {_MIN_NUMBERED} up)"
    return legend.append(f"{marks} are relative to the strongest {name} of each method{joined}", style="dim")


def clean(text: str) -> str:
    """With � in place of control characters, which could move the cursor or change colours."""
    return "".join("�" if unicodedata.category(c) == "Cc" and c not in "\n\t" else c for c in text)


def cost_table(plan: CostForecast) -> str:
    """The passes of each method, of the prediction, and of all together."""
    rows = [("method", "forward", "backward"), *((cost.method, *_passes(cost.passes)) for cost in plan.costs)]
    rows.append(("the prediction itself", f"{plan.predictions:,}", "0"))
    rows.append((f"total{' without unknown costs' if plan.unknown else ''}", *_passes(plan.total)))
    return align_columns(rows, right=(1, 2))


def _passes(passes: Passes | None) -> tuple[str, str]:
    if passes is None:
        return "unknown", "unknown"
    most = "" if passes.exactly else "at most "
    return f"{most}{passes.forwards:,}", f"{most if passes.backwards else ''}{passes.backwards:,}"
