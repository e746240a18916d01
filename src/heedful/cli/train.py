"""heedful train, heedful recipes and heedful translate: the papers' networks on any data set."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import click

from heedful.cli import options as opt
from heedful.core.errors import BadInput

if TYPE_CHECKING:
    from heedful.data import Splits
    from heedful.nets.training.lengths import Bin, LengthComparison
    from heedful.nets.training.loop import TrainingProgress, WatchTraining
    from heedful.nets.training.recipes import Recipe
    from heedful.nets.training.train import Trained
    from heedful.report.progress import Show

_TRANSLATOR = "A model folder from `heedful train seq2seq-…`; several with --lengths."


@click.command()
@click.argument("recipe")
@click.argument("data")
@click.option("--out", required=True, help="Output folder for the model. An interrupted run in it is resumed.")
@opt.settings_option("A setting of the recipe, such as lr=1e-4; may be repeated. `heedful recipes NAME` lists them.")
@click.option("--dev", help="A file or folder of texts to choose the epoch by. [default: found in DATA, or split off]")
@click.option("--test", help="A file or folder of texts to score once, at the end. [default: found in DATA]")
@opt.data_options
@click.option("--names", help="What the network calls its labels, in their sorted order, separated by commas.")
@click.option("--limit", type=click.IntRange(min=1), help="Train on at most this many texts, drawn at random.")
@click.option("--restart", is_flag=True, help="Delete the run in the folder and start again.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def train(
    recipe: str, data: str, out: str, assignments: tuple[str, ...], dev: str | None, test: str | None,
    reading: dict[str, Any], names: str | None, limit: int | None, restart: bool, as_json: bool,
) -> None:  # fmt: skip
    """Train the network of RECIPE on DATA: a file, a folder with train, dev and test, or a folder for each class.

    The data of a seq2seq recipe are pairs with the columns source and target (or --text-column and --label-column), or
    "dates", which are generated.
    """
    from heedful.nets.training.recipes import RECIPES

    chosen: Recipe = RECIPES[recipe]
    settings = chosen.read(assignments)
    chosen.settings(settings)  # refuses a wrong value before anything is read
    from heedful.data import pair_splits, splits
    from heedful.nets.training.train import train as train_network
    from heedful.nets.training.translation_job import DATES
    from heedful.report.progress import progress

    generated = chosen.translates and data == DATES
    if chosen.translates and names is not None:
        raise BadInput(f"--names is for classifiers, and {chosen.name} writes texts; leave it out.")
    for option, value in (("--dev", dev), ("--test", test), ("--limit", limit)):
        if generated and value is not None:
            raise BadInput(f"{option} is for data of your own, and dates are generated; set n_train, n_dev or n_test.")
    with progress() as show:
        show("reading the data")
        source: Any = data
        if not generated:
            read = pair_splits if chosen.translates else splits
            source = _limited(read(data, dev=dev, test=test, **reading), limit)
            if source.note:
                click.echo(source.note, err=True)
        result = train_network(
            chosen.name, source, out, settings, names=opt.names(names), restart=restart, watch=_watch(show)
        )
    if sys.stderr.isatty():  # where the bar was
        for row in result.history:
            click.echo(_epoch(row, len(result.history)), err=True)
    _print(result, as_json)


def _limited(data: Splits, limit: int | None) -> Splits:
    """The data with at most `limit` texts to train on."""
    if limit is None or limit >= len(data.train):
        return data
    chosen = sorted(Random(0).sample(range(len(data.train)), limit))  # files are often sorted by label
    return replace(data, train=[data.train[i] for i in chosen])


def _watch(show: Show) -> WatchTraining:
    """A bar on a terminal; elsewhere a line for each finished epoch."""
    lines, printed = not sys.stderr.isatty(), 0

    def watch(now: TrainingProgress) -> None:
        nonlocal printed
        if lines and now.step == 0:
            for row in now.history[printed:]:
                click.echo(_epoch(row, now.epochs), err=True)
            printed = len(now.history)
        epoch = min(now.epoch + (now.step > 0), now.epochs)
        best = max((_deciding(row)[1] for row in now.history), default=None)
        extra = "" if best is None else f"best {_deciding(now.history[0])[0]} {best:.4f}"
        done, total = now.epoch * now.steps + now.step, now.steps * now.epochs
        show(f"epoch {epoch} of {now.epochs}  loss {now.loss:.4f}", done, total, extra=extra)

    return watch


def _epoch(row: Mapping[str, float], epochs: int) -> str:
    scores = "  ".join(f"{name} {value:.4f}" for name, value in row.items() if name != "epoch")
    return f"epoch {int(row['epoch'])} of {epochs}  {scores}"


def _deciding(row: Mapping[str, float]) -> tuple[str, float]:
    return next((name, value) for name, value in row.items() if name not in ("epoch", "loss"))


def _print(result: Trained, as_json: bool) -> None:
    if as_json:
        row = {"folder": str(result.folder), "best_epoch": result.best, "dev": result.dev, "test": result.test}
        click.echo(json.dumps(row))
        return
    click.echo(f"best of {len(result.history)} epochs, by the validation texts: epoch {result.best}")
    for name, scores in (("validation", result.dev), ("test", result.test)):
        if scores:
            click.echo(f"{name:<10}  " + "  ".join(f"{key} {value:.4f}" for key, value in scores.items()))
    for line in _unused(result):
        click.echo(line)
    if result.test is None:
        click.echo("the data have no test texts: validation scores are optimistic, since they chose the epoch")
    verb = "translate" if hasattr(result.classifier, "translate") else "explain"
    click.echo(f"the model is in {result.folder}; try: heedful {verb} TEXT --model {result.folder}")


def _unused(result: Trained) -> list[str]:
    """A line for each part of the data of which texts were dropped, or cannot be translated correctly."""
    from heedful.data.selection import drop_reasons
    from heedful.nets.training.train import finished_record

    parts: dict[str, dict[str, Any]] = (finished_record(result.folder) or {})["data"]
    lines = []
    for name, part in parts.items():
        used, texts = part.get("used"), part.get("texts")
        if used and used < texts:
            settings = "min_length, max_length and long drop the others"
            why = f"dropped: {drop_reasons(part['dropped'])}" if "dropped" in part else settings
            lines.append(f"{used:,} of {texts:,} {name} texts were used; {why}")
        if wrong := part.get("impossible"):
            what = "with a symbol, or a length, that no training target has: they count as wrong"
            lines.append(f"{wrong:,} of {texts:,} {name} texts have a target {what}")
    return lines


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--figure", help="Draw the network of NAME to this file, which ends in .png, .pdf or .svg.")
def recipes(name: str | None, as_json: bool, figure: str | None) -> None:
    """List the recipes for `heedful train`, or describe the recipe NAME and its settings."""
    from heedful.core.table import align_columns
    from heedful.nets.training.recipes import RECIPES

    rows = RECIPES.rows(name)
    if figure is not None:
        _draw(None if name is None else RECIPES[name], figure)
    if as_json:
        for row in rows:
            click.echo(json.dumps(row))
    elif name is None:
        click.echo(align_columns([(row["name"], row["summary"], row["paper"]) for row in rows]))
        click.echo("\nheedful recipes NAME lists the settings of one.")
    else:
        click.echo(RECIPES.description(name))
    opt.announce(figure)


def _draw(recipe: Recipe | None, figure: str) -> None:
    """The drawing of a recipe's network."""
    if recipe is None:
        raise BadInput("--figure draws the network of one recipe; name it, as in: heedful recipes multihead.")
    from heedful.core.files import output

    kind = opt.figure_kind(figure)
    with output(figure, "figure") as draw:
        from heedful.core.settings import values
        from heedful.report.figures import draw_network, encode

        assert draw is not None
        settings = recipe.settings()
        network = getattr(settings, "model_type", "") or recipe.name
        draw(encode(draw_network(network, values(settings), recipe.name), kind))


@click.command()
@click.argument("text", required=False)
@click.option("--model", "-m", "folders", required=True, multiple=True, help=_TRANSLATOR)
@click.option("--lengths", metavar="DATA", help="Exact match by length, on a file of pairs or on dates, not of TEXT.")
@opt.data_options
@click.option("--figure", help="Draw the alignment, or the lengths, to this file, which ends in .png, .pdf or .svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with the alignment.")
def translate(
    text: str | None, folders: tuple[str, ...], lengths: str | None, reading: dict[str, Any], figure: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Translate TEXT ('-' reads it from stdin) with a trained encoder-decoder.

    With --lengths DATA, compare the translations of several models with the targets of DATA, by the length of the
    texts. DATA is a file or folder of pairs, of which the test part is used if there is one, or "dates".
    """
    if (text is None) == (lengths is None):
        raise BadInput("give either a text to translate or --lengths DATA, not both.")
    if lengths is not None:
        _lengths(lengths, folders, reading, figure, as_json)
    else:
        _alignment(text or "", folders, figure, as_json)
    opt.announce(figure)


def _alignment(text: str, folders: Sequence[str], figure: str | None, as_json: bool) -> None:
    """One translation with its alignment."""
    if len(folders) > 1:
        raise BadInput(f"a text is translated by one model, not by {len(folders)}; give one --model.")
    from heedful.core.files import output

    read = opt.read_text(text, None)
    kind = opt.figure_kind(figure)
    with output(figure, "figure") as draw:
        from heedful.nets.training.translate import Translator

        alignment = Translator.load(folders[0]).align(read or "")
        if draw is not None:
            from heedful.report.figures import encode
            from heedful.report.figures.maps import draw_alignment

            draw(encode(draw_alignment(alignment), kind))
    if as_json:
        click.echo(alignment.to_json().encode("utf-8"))  # JSON is UTF-8 whatever the terminal's encoding
    else:
        click.echo(alignment.written)


def _lengths(data: str, folders: Sequence[str], reading: Mapping[str, Any], figure: str | None, as_json: bool) -> None:
    """Exact match by length of several models."""
    from heedful.core.files import output

    kind = opt.figure_kind(figure)
    with output(figure, "figure") as draw:
        from heedful.nets.training.lengths import MIN_BIN_TEXTS, compare_lengths, scored_pairs
        from heedful.nets.training.translate import Translator

        translators = {folder: Translator.load(folder) for folder in dict.fromkeys(folders)}
        comparison = compare_lengths(translators, scored_pairs(data, **reading))
        if draw is not None:
            from heedful.report.figures import encode
            from heedful.report.figures.maps import draw_lengths

            draw(encode(draw_lengths(comparison.drawn(MIN_BIN_TEXTS), comparison.unit), kind))
    if as_json:
        click.echo(comparison.to_json().encode("utf-8"))
    else:
        click.echo(_lengths_table(comparison))


def _lengths_table(comparison: LengthComparison) -> str:
    """A row for each bin and one for all texts, a column for each model: share and 95 % interval."""
    from heedful.core.table import align_columns

    def cell(one: Bin) -> str:
        return f"{one.share:.3f} ({one.interval[0]:.3f} – {one.interval[1]:.3f})"

    rows = [(comparison.unit, "texts", *comparison.bins)]
    for at, first in enumerate(next(iter(comparison.bins.values()))):
        own = (cell(bins[at]) for bins in comparison.bins.values())
        rows.append((f"{first.low} – {first.high}", f"{first.n:,}", *own))
    total = next(iter(comparison.overall.values())).n
    rows.append(("all", f"{total:,}", *map(cell, comparison.overall.values())))
    return align_columns(rows, right={1})
