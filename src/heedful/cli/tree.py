"""heedful tree: how a prediction came together, from attention attributions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from heedful.cli import options as opt

if TYPE_CHECKING:
    from heedful.core.tree import Tree
    from heedful.model.classifier import Classifier
    from heedful.report.terminal import Tell


@dataclass(frozen=True)
class _Ask:
    """What `heedful tree` was asked."""

    given: tuple[str, ...]
    how: Any
    threshold: float
    penalty: float
    target: str | None
    against: str | None
    scale: Any
    pair: str | None
    truncate: bool
    seed: int
    as_json: bool
    html: str | None
    figure: str | None


@click.command()
@click.argument("text")
@opt.model_options
@click.option(
    "--how",
    type=click.Choice(["greedy", "exact"]),
    default="greedy",
    show_default=True,
    help="Edge by edge from the root, or the best tree there is.",
)
@click.option(
    "--threshold",
    type=float,
    default=0.4,
    show_default=True,
    help="Only edges above this share of the largest of their layer.",
)
@click.option("--penalty", type=float, default=0.0, show_default=True, help="What an edge costs, for --how exact.")
@opt.set_option
@opt.target_options
@opt.text_options
@opt.output_options
def tree(
    text: str, model: str | None, revision: str | None, device: str | None, dtype: str | None, **asked: Any
) -> None:
    """Show how the prediction of TEXT came together: a tree of tokens, by attention attribution."""
    from heedful.core.writing import output
    from heedful.methods import METHODS
    from heedful.report.terminal import progress

    ask = _Ask(**asked)
    read = opt.read_text(text, ask.pair)
    kind = opt.figure_kind(ask.figure)
    method = METHODS.choose(["attattr"], ask.given)[0]
    with output(ask.html) as write, output(ask.figure, "figure") as draw, progress() as tell:
        tell("loading the model")
        found = _grown(opt.load(model, revision, device, dtype), read or "", method, ask, tell)
        if draw is not None:
            from heedful.report import figures

            draw(figures.encoded(figures.draw_tree(found), kind))
        if write is not None:
            write(found.to_html().encode("utf-8"))
    _print(found, ask.as_json)
    opt.announce(ask.html, ask.figure)


def _grown(classifier: Classifier, text: str, method: Any, ask: _Ask, tell: Tell) -> Tree:
    from heedful.core.explanation import Interaction
    from heedful.core.target import Target
    from heedful.core.tree import tree as grow
    from heedful.methods.explain import explain, parts, plan

    cut = parts(classifier, classifier.tokens(text, ask.pair), ask.truncate)
    passes, before = plan(classifier, method, cut).passes, classifier.forwards
    tell("attattr", lambda: classifier.forwards - before, None if passes is None else passes.forwards + len(cut))
    target = Target(ask.target, ask.scale, ask.against)
    why = explain(classifier, text, method, target, ask.pair, ask.seed, truncate=ask.truncate)
    assert isinstance(why, Interaction)
    tell("growing the tree")
    return grow(why, ask.how, threshold=ask.threshold, penalty=ask.penalty)


def _print(found: Tree, as_json: bool) -> None:
    if as_json:
        click.echo(found.to_json().encode("utf-8"))  # JSON is UTF-8 whatever the terminal's encoding
        return
    from rich.console import Console

    from heedful.report.terminal import show_tree

    show_tree(found, Console(highlight=False))
