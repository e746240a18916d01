"""heedful theory: LIME and gradients compared with their closed forms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from heedful.cli import options as opt

if TYPE_CHECKING:
    from heedful.methods.theory_comparison import Reduce, TheoryComparison
    from heedful.model.classifier import Classifier


@click.command()
@click.argument("text")
@opt.model_options
@click.option("--runs", type=click.IntRange(1), default=5, show_default=True, help="How many times to run LIME.")
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
@click.option("--figures", help="Write the paper's figures for TEXT as .svg files into this folder.")
def theory(
    text: str, model: str | None, revision: str | None, device: str, dtype: str | None,
    runs: int, samples: int, masking: str, reduce: Reduce, words: int, target: str | None, against: str | None,
    pair: str | None, truncate: bool, seed: int, as_json: bool, figure: str | None, figures: str | None,
) -> None:  # fmt: skip
    """Compare LIME and the gradient on TEXT with theory, for a single-layer attention classifier."""
    from heedful.core.files import output, output_folder
    from heedful.core.target import Target
    from heedful.methods.theory_comparison import Trial, compare_with_theory
    from heedful.report.progress import progress

    read = opt.read_text(text, pair)
    kind = opt.figure_kind(figure)
    opt.figure_kind(figures and "lime.svg")
    trial = Trial(runs, samples, masking, reduce, seed)
    with output(figure, "figure") as draw, output_folder(figures) as folder, progress() as show:
        show("loading the model")
        classifier = opt.load_model(model, revision, device, dtype)
        comparison = compare_with_theory(
            classifier, read or "", trial, Target(target, against=against), pair,
            truncate=truncate, watch=opt.watch(show, classifier),
        )  # fmt: skip
        if draw is not None:
            from heedful.report.figures import draw_theory, encode

            draw(encode(draw_theory(comparison), kind))
        if folder is not None:
            show("drawing the figures")
            _draw_all(classifier, comparison, folder)
    if as_json:
        click.echo(comparison.to_json())
    else:
        from rich.console import Console

        from heedful.report.theory_terminal import show_theory

        show_theory(comparison, Console(highlight=False), words)
    opt.announce(figure, figures)


def _draw_all(classifier: Classifier, comparison: TheoryComparison, folder: Path) -> None:
    from heedful.core.files import write_files
    from heedful.methods.attention import AttentionWeights
    from heedful.methods.explain import explain
    from heedful.report.figures import draw_paper, encode

    methods = [*comparison.trial.explainers(), AttentionWeights()]
    text, pair = comparison.tokens.text, comparison.tokens.pair
    whys = list(explain(classifier, text, methods, comparison.target, pair, comparison.trial.seed))
    drawn = draw_paper(comparison, whys, classifier.model.config)
    write_files({folder / f"{name}.svg": encode(figure, "svg") for name, figure in drawn.items()})
