"""heedful translate: what an encoder-decoder writes for a text, and where it looked."""

from __future__ import annotations

import click

from heedful.cli import options as opt


@click.command()
@click.argument("text")
@click.option("--model", "-m", required=True, help="A folder that heedful train seq2seq-… has made.")
@click.option("--figure", help="Draw the alignment to this file, which ends in .png, .pdf or .svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with the alignment.")
def translate(text: str, model: str, figure: str | None, as_json: bool) -> None:
    """Translate TEXT ('-' reads it from stdin) with a trained encoder-decoder."""
    from heedful.core.writing import output

    read = opt.read_text(text, None)
    kind = opt.figure_kind(figure)
    with output(figure, "figure") as draw:
        from heedful.nets.training.translate import Translator

        found = Translator.load(model).align(read or "")
        if draw is not None:
            from heedful.report.figures import encoded
            from heedful.report.figures.alignment import draw_alignment

            draw(encoded(draw_alignment(found), kind))
    if as_json:
        click.echo(found.to_json().encode("utf-8"))  # JSON is UTF-8 whatever the terminal's encoding
    else:
        click.echo(found.written)
    opt.announce(figure)
