"""heedful train and heedful recipes: the papers' networks, on any data set."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import click

from heedful.cli import options as opt

if TYPE_CHECKING:
    from heedful.nets.training.loop import Moment, Watch
    from heedful.nets.training.recipes import Recipe
    from heedful.nets.training.train import Trained


@dataclass(frozen=True)
class _Ask:
    """What `heedful train` was asked."""

    given: tuple[str, ...]
    dev: str | None
    test: str | None
    text_column: str | None
    pair_column: str | None
    label_column: str | None
    kind: str | None
    labels: str | None
    names: str | None
    limit: int | None
    restart: bool
    as_json: bool


@click.command()
@click.argument("recipe")
@click.argument("data")
@click.option("--out", required=True, help="The folder for the model; a run that was killed goes on in it.")
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the recipe, such as lr=1e-4; may be repeated. `heedful recipes NAME` lists them.",
)
@click.option("--dev", help="A file or folder of texts to choose the epoch by. [default: found in DATA, or split off]")
@click.option("--test", help="A file or folder of texts to score once, at the end. [default: found in DATA]")
@click.option("--text-column", help="Which column holds the text. [default: guessed]")
@click.option("--pair-column", help="Which column holds the second text of a pair.")
@click.option("--label-column", help="Which column holds the label.")
@click.option("--kind", help="The format: csv, tsv, jsonl, parquet, folder, sst, babi, eraser. [default: guessed]")
@click.option("--labels", help="Use only texts with these labels, with commas between.")
@click.option("--names", help="What to call the labels, in their sorted order, with commas between.")
@click.option(
    "--limit", type=click.IntRange(min=1), help="Train on at most this many texts, drawn at random: for a quick try."
)
@click.option("--restart", is_flag=True, help="Forget what is in the folder, and begin anew.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def train(recipe: str, data: str, out: str, **asked: Any) -> None:
    """Train the network of RECIPE on DATA: a file, a folder with train, dev and test, or a folder for each class."""
    from heedful.nets.training.recipes import RECIPES

    ask = _Ask(**asked)
    chosen = RECIPES[recipe]
    settings = chosen.read(ask.given)
    chosen.settings(settings)
    with _shown() as watch:
        result = _trained(chosen, data, out, settings, ask, watch)
    _print(result, ask.as_json)


def _trained(chosen: Recipe, data: str, out: str, settings: dict[str, Any], ask: _Ask, watch: Watch) -> Trained:
    from heedful.nets.training.train import train as run

    names = None if ask.names is None else [name.strip() for name in ask.names.split(",")]
    source: Any = data if chosen.generates else _splits(data, ask)
    return run(chosen.name, source, out, settings, names=names, restart=ask.restart, watch=watch)


def _splits(data: str, ask: _Ask) -> Any:
    from dataclasses import replace

    from heedful.data import Columns, splits

    columns = Columns(ask.text_column, ask.pair_column, ask.label_column)
    keep = None if ask.labels is None else [label.strip() for label in ask.labels.split(",")]
    found = splits(data, columns, kind=ask.kind, dev=ask.dev, test=ask.test, keep=keep)
    if ask.limit is None or ask.limit >= len(found.train):
        return found
    few = sorted(Random(0).sample(range(len(found.train)), ask.limit))  # files are often sorted by label
    return replace(found, train=[found.train[i] for i in few])


@contextmanager
def _shown() -> Iterator[Watch]:
    """A bar on a terminal; a line per epoch elsewhere."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    text = TextColumn("{task.description}", markup=False)
    columns = text, BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task("reading the data", total=None)
        tell = _lines()

        def watch(now: Moment) -> None:
            tell(now)
            epoch = min(now.epoch + (now.step > 0), now.epochs)
            best = max((_deciding(row)[1] for row in now.history), default=None)
            told = f"epoch {epoch} of {now.epochs}  loss {now.loss:.4f}"
            told += "" if best is None else f"  best {_deciding(now.history[0])[0]} {best:.4f}"
            bar.update(task, description=told, total=now.steps * now.epochs, completed=now.epoch * now.steps + now.step)

        yield watch


def _lines() -> Watch:
    """One line on stderr for each epoch that ends."""
    told = 0

    def watch(now: Moment) -> None:
        nonlocal told
        for row in now.history[told:] if now.step == 0 else ():
            shown = "  ".join(f"{name} {value:.4f}" for name, value in row.items() if name != "epoch")
            click.echo(f"epoch {int(row['epoch'])} of {now.epochs}  {shown}", err=True)
            told += 1

    return watch


def _deciding(row: dict[str, float]) -> tuple[str, float]:
    return next((name, value) for name, value in row.items() if name not in ("epoch", "loss"))


def _print(result: Trained, as_json: bool) -> None:
    told = {"folder": str(result.folder), "best_epoch": result.best, "dev": result.dev, "test": result.test}
    if as_json:
        click.echo(json.dumps(told))
        return
    click.echo(f"best of {len(result.history)} epochs, by the validation texts: epoch {result.best}")
    for name, found in (("validation", result.dev), ("test", result.test)):
        if found:
            click.echo(f"{name:<10}  " + "  ".join(f"{key} {value:.4f}" for key, value in found.items()))
    if result.test is None:
        click.echo("the data have no test texts, so nothing is known but how it did on the texts that chose the epoch")
    verb = "translate" if hasattr(result.classifier, "translate") else "explain"
    click.echo(f"the model is in {result.folder}; try: heedful {verb} TEXT --model {result.folder}")


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def recipes(name: str | None, as_json: bool) -> None:
    """List the recipes for `heedful train`, or all about one."""
    from heedful.nets.training.recipes import RECIPES

    chosen = list(RECIPES.values()) if name is None else [RECIPES[name]]
    if as_json:
        for one in chosen:
            click.echo(json.dumps(_listed(one)))
    elif name is None:
        width = max(map(len, RECIPES))
        for one in chosen:
            click.echo(f"{one.name:<{width}}  {one.summary}  ({one.paper})")
        click.echo("\nheedful recipes NAME lists the settings of one.")
    else:
        click.echo(_told(chosen[0]))


def _listed(recipe: Recipe) -> dict[str, Any]:
    from heedful.core.settings import of

    ready = recipe.settings({})
    return {
        "name": recipe.name,
        "summary": recipe.summary,
        "paper": recipe.paper,
        "settings": {
            s.name: {"type": s.words, "default": getattr(ready, s.name), "choices": s.choices}
            for s in of(recipe.kind).values()
        },
    }


def _told(recipe: Recipe) -> str:
    import inspect

    from heedful.core.settings import of

    ready, known = recipe.settings({}), of(recipe.kind)
    width = max(map(len, known))
    said = [inspect.getdoc(kind) or "" for kind in recipe.kind.__mro__ if is_dataclass(kind)]
    lines = [f"  {s.name:<{width}}  {s.words}; default {_value(getattr(ready, s.name))}" for s in known.values()]
    return "\n\n".join(
        [f"{recipe.name}: {recipe.summary}\n{recipe.paper}", *said, "settings, for --set:\n" + "\n".join(lines)]
    )


def _value(value: Any) -> str:
    return (
        str(value).lower() if value is None or isinstance(value, bool) else f"'{value}'" if value == "" else str(value)
    )


@click.command()
@click.argument("text")
@click.option("--model", "-m", required=True, help="A folder that heedful train seq2seq-… has made.")
@click.option("--figure", help="Draw the alignment to this file, which ends in .png, .pdf or .svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with the alignment.")
def translate(text: str, model: str, figure: str | None, as_json: bool) -> None:
    """Translate TEXT ('-' reads it from stdin) with a trained encoder-decoder."""
    from heedful.core.files import output

    read = opt.read_text(text, None)
    kind = opt.figure_kind(figure)
    with output(figure, "figure") as draw:
        from heedful.nets.training.translate import Translator

        found = Translator.load(model).align(read or "")
        if draw is not None:
            from heedful.report.figures import encoded
            from heedful.report.figures.maps import draw_alignment

            draw(encoded(draw_alignment(found), kind))
    if as_json:
        click.echo(found.to_json().encode("utf-8"))  # JSON is UTF-8 whatever the terminal's encoding
    else:
        click.echo(found.written)
    opt.announce(figure)
