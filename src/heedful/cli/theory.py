"""heedful theory: LIME and gradients compared with what theory predicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from heedful.cli import options as opt

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from heedful.methods.theory_comparison import Reduce, TheoryComparison
from heedful.core.arrays import Floats


@click.command()
@click.argument("text")
@opt.model_options
@click.option("--runs", type=click.IntRange(1), default=5, show_default=True, help="How often LIME is run.")
@click.option("--samples", type=click.IntRange(2), default=5000, show_default=True, help="Samples of each run.")
@click.option(
    "--masking", default="unk", show_default=True, help="What replaces a removed word: unk, mask, pad or token:WORD."
)
@opt.choice(
    "--reduce",
    ["x-input", "l2", "l1", "mean"],
    "How a token's gradient becomes a score: its product with the input, a norm, or its mean.",
)
@click.option("--words", type=click.IntRange(1), default=15, show_default=True, help="Rows to show, the largest first.")
@click.option("--target", "-t", help="The label whose logit is explained, by name or index. [default: the predicted]")
@click.option("--against", help="Explain --target minus this label.")
@opt.text_options
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON, with every word, token and run.")
@opt.figure_option
def theory(
    text: str, model: str | None, revision: str | None, device: str | None, dtype: str | None,
    runs: int, samples: int, masking: str, reduce: Reduce, words: int, target: str | None, against: str | None,
    pair: str | None, truncate: bool, seed: int, as_json: bool, figure: str | None,
) -> None:  # fmt: skip
    """Compare LIME and the gradient on TEXT with theory, for a single-layer attention classifier."""
    from heedful.core.files import output
    from heedful.core.target import Target
    from heedful.methods.theory_comparison import Trial, compare_with_theory
    from heedful.report.progress import progress

    read = opt.read_text(text, pair)
    kind = opt.figure_kind(figure)
    trial = Trial(runs, samples, masking, reduce, seed)
    with output(figure, "figure") as draw, progress() as show:
        show("loading the model")
        classifier = opt.load_model(model, revision, device, dtype)
        comparison = compare_with_theory(
            classifier, read or "", trial, Target(target, against=against), pair,
            truncate=truncate, watch=opt.watch(show, classifier),
        )  # fmt: skip
        if draw is not None:
            from heedful.report.figures import draw_theory, encode

            draw(encode(draw_theory(comparison), kind))
    if as_json:
        click.echo(comparison.to_json())
    else:
        _print(comparison, words)
    opt.announce(figure)


def _print(comparison: TheoryComparison, most: int) -> None:
    from rich.console import Console
    from rich.text import Text

    from heedful.report.phrases import prediction_text
    from heedful.report.terminal import clean

    console = Console(highlight=False)
    console.print(Text(clean(f"{comparison.source.model} says {prediction_text(comparison.prediction)}")))
    console.print(Text(clean(f"explained: {comparison.target}")))
    if comparison.tokens.notice:
        console.print(Text(f"Notice: {comparison.tokens.notice}.", style="bold"))
    _print_words(comparison, most, console)
    _print_tokens(comparison, most, console)


def _print_words(comparison: TheoryComparison, most: int, console: Console) -> None:
    from rich.text import Text

    from heedful.methods.theory_comparison import FORMS, UNPROVED

    trial, shown, places = comparison.trial, comparison.order[:most], _places(comparison.mean)
    table = _table("word", "LIME", "least", "most", *FORMS)
    for j in shown:
        runs = comparison.runs[:, j]
        scores = [comparison.mean[j], runs.min(), runs.max(), *(comparison.forms[form][j] for form in FORMS)]
        table.add_row(*_row(comparison.words[j], scores, places))
    times = "1 run" if trial.runs == 1 else f"mean, least and most of {trial.runs} runs"
    console.print(Text(f"\nLIME's coefficients: {times} of {trial.samples:,} samples", style="bold"))
    console.print(table)
    _print_left_out(len(comparison.words) - len(shown), "word", console)
    agreements = _table("agreement with LIME's mean", "Pearson", "Kendall τ-b", "off")
    for form in FORMS:
        near = comparison.agreement(form)
        numbers = [(near.pearson, "+.4f"), (near.kendall, "+.4f"), (near.off, ".1%")]
        agreements.add_row(form, *("–" if value is None else format(value, style) for value, style in numbers))
    console.print(agreements)
    chance = "" if comparison.chance is None else f", of which chance alone makes {comparison.chance:.1%}"
    console.print(Text(f"off: the L2 distance to LIME's mean, as a share of its length{chance}; {UNPROVED}", "dim"))


def _print_tokens(comparison: TheoryComparison, most: int, console: Console) -> None:
    from rich.text import Text

    order = sorted(range(len(comparison.tokens)), key=lambda t: -abs(comparison.gradient[t]))
    table = _table("token", "gradient", "theory")
    places = _places(comparison.gradient)
    for t in order[:most]:
        table.add_row(*_row(comparison.names[t], [comparison.gradient[t], comparison.slopes[t]], places))
    console.print(Text(f"\nGradients ({comparison.trial.reduce})", style="bold"))
    console.print(table)
    _print_left_out(len(order) - most, "token", console)
    console.print(Text(f"gradient and theory differ by at most {comparison.worst:.1e}"))
    stated = "the theorem as it is stated, with a query that does not move, is off by"
    console.print(Text(f"{stated} {comparison.overlooked:.1e}", "dim"))


def _print_left_out(count: int, unit: str, console: Console) -> None:
    from rich.text import Text

    if count > 0:
        console.print(Text(f"… and {count:,} {unit}{'s' * (count != 1)} more: see them with --words or --json", "dim"))


def _table(first: str, *names: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(first, overflow="fold", max_width=30)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _places(values: Floats) -> int:
    """Decimals that show four digits of the largest."""
    largest = max(map(abs, values.tolist()), default=0.0)
    return min(12, max(0, 3 - math.floor(math.log10(largest)))) if largest > 0 else 4


def _row(name: str, values: Sequence[float], places: int) -> list[Any]:
    from rich.text import Text

    from heedful.report.terminal import clean

    return [Text(clean(name)), *(f"{float(value) + 0.0:+.{places}f}" for value in values)]
