"""heedful explain and heedful tree: explain the prediction of a text, or of every line of a file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

import click

from heedful.cli import options as opt
from heedful.core.errors import BadInput

if TYPE_CHECKING:
    from heedful.core.explanation import Explanations, Reduction
    from heedful.core.target import Scale
    from heedful.core.tree import Tree, TreeSearch
    from heedful.methods import Method
    from heedful.methods.explain import OnUnsupported, Text
    from heedful.model.classifier import Classifier

_UNITS = click.Choice(["token", "word", "sentence"])
_SHOWN = "Units shown. [default: words, or the sentences that were removed as a whole; in JSON, tokens]"
_THRESHOLD = "Use only edges above this share of the largest edge of their layer."


@click.command()
@click.argument("text", required=False)
@opt.model_options
@click.option(
    "--method", "-M", "names", multiple=True, help="A method by name; may be repeated. [default: integrated-gradients]"
)
@click.option("--all", "every", is_flag=True, help="Every method that this model supports.")
@opt.set_option
@click.option("--layer", help="Short for --set layer=…, for attention methods: a number or 'all'.")
@opt.target_options
@opt.text_options
@click.option("--windows", is_flag=True, help="Explain a text that is too long in overlapping windows.")
@click.option("--file", "file", help="Explain every line of a file ('-' is stdin) and print JSON lines.")
@click.option("--by", "unit", type=_UNITS, help=_SHOWN)
@opt.choice("--how", ["sum", "mean", "max"], "How to combine token scores into a word or sentence.")
@opt.output_options
@click.option("--dry-run", is_flag=True, help="Print how many passes each method would take, and stop.")
def explain(
    text: str | None, model: str | None, revision: str | None, device: str, dtype: str | None,
    names: tuple[str, ...], every: bool, assignments: tuple[str, ...], layer: str | None,
    target: str | None, against: str | None, scale: Scale, pair: str | None, truncate: bool, seed: int, windows: bool,
    file: str | None, unit: str | None, how: Reduction, as_json: bool, html: str | None, figure: str | None,
    dry_run: bool,
) -> None:  # fmt: skip
    """Explain the prediction of TEXT ('-' reads it from stdin)."""
    from rich.console import Console

    from heedful.core.files import output
    from heedful.core.target import Target
    from heedful.methods.cost import plan
    from heedful.methods.explain import explain as explain_texts
    from heedful.methods.explain import explain_all
    from heedful.report.progress import progress
    from heedful.report.terminal import cost_table, show_explanations

    if (text is None) == (file is None):
        raise BadInput("give one text, or --file with one text per line.")
    for name, path in (("--html", html), ("--figure", figure)):
        if path is not None and file is not None:
            raise BadInput(f"{name} shows one text, and --file has several; leave one of them out.")
    lines = None if file is None else opt.read_lines(file)
    read = opt.read_text(text, pair)
    kind = opt.figure_kind(figure)
    methods = _choose(names, every, assignments, layer)
    explained = Target(target, scale, against)
    reading: _Reading = {"truncate": truncate, "windows": windows, "unsupported": "skip" if every else "raise"}
    with (
        output(None if dry_run else html) as write,
        output(None if dry_run else figure, "figure") as draw,
        progress(hidden=lines is not None and sys.stdout.isatty()) as show,
    ):
        show("loading the model")
        classifier = opt.load_model(model, revision, device, dtype)
        if lines is not None:
            texts = _check_lines(classifier, lines, pair)
        else:
            texts = [(read or "") if pair is None else (read or "", pair)]
        if dry_run:
            cost = plan(classifier, texts, methods, with_attention=html is not None, **reading)
            opt.print_skipped(cost.skipped)
            click.echo(cost.to_json() if as_json else cost_table(cost))
            return
        if lines is not None:
            show("explaining", 0, len(lines), "lines")
            for number, row in enumerate(explain_all(classifier, texts, methods, explained, seed, **reading), 1):
                if row:
                    _print_json(row.by(unit, how) if unit else row)
                show("explaining", number, len(lines), "lines")
                if number == 1:
                    opt.print_skipped(row.skipped)
            return
        explanations = explain_texts(
            classifier, texts, methods, explained, None, seed,
            with_attention=html is not None, watch=opt.watch(show, classifier), **reading,
        )  # fmt: skip
        if draw is not None:
            from heedful.report.figures import encode

            draw(encode(explanations.plot(), kind))
        if write is not None:
            write(explanations.to_html().encode("utf-8"))
    opt.print_skipped(explanations.skipped)
    if as_json:
        _print_json(explanations.by(unit, how) if unit else explanations)
    else:
        show_explanations(explanations, Console(highlight=False), unit, how)
    opt.announce(html, figure)


class _Reading(TypedDict):
    """What to do with texts that are too long and with unsupported methods."""

    truncate: bool
    windows: bool
    unsupported: OnUnsupported


def _choose(names: Sequence[str], every: bool, assignments: Sequence[str], layer: str | None) -> list[Method]:
    """The chosen methods with their settings. A wrong name is refused before the model is loaded."""
    from heedful.methods import METHODS, settings

    wanted = list(METHODS) if every else list(names) or ["integrated-gradients"]
    if layer is None:
        return METHODS.choose(wanted, assignments)
    if not any("layer" in settings(METHODS[name]) for name in wanted):
        raise BadInput(f"--layer sets the layer of attention methods, and {', '.join(wanted)} has none; leave it out.")
    return METHODS.choose(wanted, [f"layer={layer}", *assignments])


def _check_lines(classifier: Classifier, lines: Sequence[str], pair: str | None) -> list[Text]:
    """The texts; one that the model cannot read is refused with its line number, before anything is printed."""
    for number, line in enumerate(lines, 1):
        try:
            classifier.tokens(line, pair)
        except BadInput as e:
            raise BadInput(f"line {number}: {e}") from e
    return [line if pair is None else (line, pair) for line in lines]


def _print_json(result: Explanations | Tree) -> None:
    click.echo(result.to_json().rstrip("\n").encode("utf-8"))  # JSON is UTF-8 whatever the terminal's encoding


@click.command()
@click.argument("text")
@opt.model_options
@opt.choice("--how", ["greedy", "exact"], "Add edges greedily from the root, or find the tree with the largest sum.")
@click.option("--threshold", default=0.4, show_default=True, help=_THRESHOLD)
@click.option("--penalty", default=0.0, show_default=True, help="Cost of an edge, for --how exact.")
@opt.set_option
@opt.target_options
@opt.text_options
@opt.output_options
def tree(
    text: str, model: str | None, revision: str | None, device: str, dtype: str | None,
    how: TreeSearch, threshold: float, penalty: float, assignments: tuple[str, ...], target: str | None,
    against: str | None, scale: Scale, pair: str | None, truncate: bool, seed: int, as_json: bool, html: str | None,
    figure: str | None,
) -> None:  # fmt: skip
    """Show the attribution tree of TEXT: how information flows between tokens to the prediction."""
    from rich.console import Console

    from heedful.core.files import output
    from heedful.core.target import Target
    from heedful.methods import METHODS
    from heedful.methods.explain import tree as grow_tree
    from heedful.report.progress import progress
    from heedful.report.terminal import show_tree

    read = opt.read_text(text, pair)
    kind = opt.figure_kind(figure)
    [method] = METHODS.choose(["attattr"], assignments)
    with output(html) as write, output(figure, "figure") as draw, progress() as show:
        show("loading the model")
        classifier = opt.load_model(model, revision, device, dtype)
        grown = grow_tree(
            classifier, read, how, threshold=threshold, penalty=penalty, method=method,
            target=Target(target, scale, against), pair=pair, seed=seed, truncate=truncate,
            watch=opt.watch(show, classifier),
        )  # fmt: skip
        if draw is not None:
            from heedful.report.figures import encode

            draw(encode(grown.plot(), kind))
        if write is not None:
            write(grown.to_html().encode("utf-8"))
    if as_json:
        _print_json(grown)
    else:
        show_tree(grown, Console(highlight=False))
    opt.announce(html, figure)
