"""Theory on the terminal: LIME and the gradient of one text compared with their closed forms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from heedful.core.arrays import Floats
from heedful.methods.theory_comparison import FORMS, UNPROVED
from heedful.report.phrases import format_number, prediction_text
from heedful.report.terminal import clean

if TYPE_CHECKING:
    from heedful.methods.theory_comparison import TheoryComparison


def show_theory(comparison: TheoryComparison, console: Console, most: int) -> None:
    """Print the prediction, then the `most` largest words by LIME and tokens by gradient, each with theory."""
    console.print(Text(clean(f"{comparison.source.model} predicts {prediction_text(comparison.prediction)}")))
    console.print(Text(clean(f"explained: {comparison.target}")))
    if comparison.tokens.notice:
        console.print(Text(f"Notice: {comparison.tokens.notice}.", style="bold"))
    _print_words(comparison, most, console)
    _print_tokens(comparison, most, console)


def _print_words(comparison: TheoryComparison, most: int, console: Console) -> None:
    trial, places = comparison.trial, _places(comparison.mean)
    table = _table("word", "LIME", "least", "most", *FORMS)
    for j in comparison.order[:most]:
        runs = comparison.runs[:, j]
        scores = [comparison.mean[j], runs.min(), runs.max(), *(comparison.forms[form][j] for form in FORMS)]
        table.add_row(*_row(comparison.words[j], scores, places))
    times = "1 run" if trial.runs == 1 else f"mean, least and most of {trial.runs} runs"
    console.print(Text(f"\nLIME's coefficients: {times} of {trial.samples:,} samples", style="bold"))
    console.print(table)
    _print_hidden(len(comparison.words) - most, "word", console)
    agreements = _table("agreement with LIME's mean", "Pearson", "Kendall τ-b", "off")
    for form in FORMS:
        near = comparison.agreement(form)
        numbers = [(near.pearson, "+.4f"), (near.kendall, "+.4f"), (near.off, ".1%")]
        agreements.add_row(form, *("–" if value is None else format_number(value, form) for value, form in numbers))
    console.print(agreements)
    chance = "" if comparison.chance is None else f", of which sampling alone explains {comparison.chance:.1%}"
    console.print(
        Text(f"off: L2 distance to LIME's mean, relative to the norm of that mean{chance}; {UNPROVED}", "dim")
    )


def _print_tokens(comparison: TheoryComparison, most: int, console: Console) -> None:
    order = sorted(range(len(comparison.tokens)), key=lambda t: -abs(comparison.gradient[t]))
    table = _table("token", "gradient", "theory")
    places = _places(comparison.gradient)
    for t in order[:most]:
        table.add_row(*_row(comparison.names[t], [comparison.gradient[t], comparison.slopes[t]], places))
    console.print(Text(f"\nGradients ({comparison.trial.reduce})", style="bold"))
    console.print(table)
    _print_hidden(len(order) - most, "token", console)
    console.print(Text(f"gradient and theory differ by at most {format_number(comparison.worst, '.1e')}"))
    every = {name: format_number(value, ".1e") for name, value in comparison.gradients.summary().items()}
    count = f"{comparison.gradients.autograd.size:,}"
    largest = f"the {count} coordinates, of which the largest has {every['largest']}, by at most {every['worst']}"
    console.print(Text(largest))
    stated = "the theorem as published, which holds the query constant, is off by"
    first, others = every["worst_as_stated"], every["worst_as_stated_elsewhere"]
    rows = f"; its coordinates by {first} at the first token and by {others} at all others"
    console.print(Text(f"{stated} {format_number(comparison.overlooked, '.1e')}{rows}", "dim"))


def _print_hidden(count: int, unit: str, console: Console) -> None:
    if count > 0:
        console.print(Text(f"… and {count:,} more {unit}{'s' * (count != 1)}: see them with --words or --json", "dim"))


def _table(first: str, *names: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(first, overflow="fold", max_width=30)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _places(values: Floats) -> int:
    """Decimals with which the largest has four digits."""
    largest = max(map(abs, values.tolist()), default=0.0)
    return min(12, max(0, 3 - math.floor(math.log10(largest)))) if largest > 0 else 4


def _row(name: str, values: Sequence[float], places: int) -> list[Text | str]:
    return [Text(clean(name)), *(format_number(float(value), f"+.{places}f") for value in values)]
