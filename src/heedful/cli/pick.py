"""heedful pick: a few texts of a data set that together show what matters to a model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from heedful.cli import options as opt
from heedful.core.errors import BadInput

if TYPE_CHECKING:
    from heedful.core.target import Scale
    from heedful.methods.explain import Step, Watch
    from heedful.model.classifier import Classifier
    from heedful.report.progress import Show


@click.command()
@click.argument("data")
@opt.model_options
@click.option("--count", "-n", type=click.IntRange(min=1), default=5, show_default=True, help="How many texts to pick.")
@click.option("--method", "-M", "name", default="integrated-gradients", show_default=True, help="A method by name.")
@opt.set_option
@click.option(
    "--words", type=click.IntRange(min=1), default=10, show_default=True, help="Strongest words of a text that count."
)
@click.option("--limit", type=click.IntRange(min=1), help="Pick from so many texts, drawn by --seed. [default: all]")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of --limit and of sampling methods.")
@opt.target_options
@opt.data_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one line per text.")
@click.option("--html", help="Write an HTML page to this file.")
def pick(
    data: str, model: str | None, revision: str | None, device: str, dtype: str | None, count: int, name: str,
    assignments: tuple[str, ...], words: int, limit: int | None, seed: int, target: str | None, against: str | None,
    scale: Scale, reading: dict[str, Any], as_json: bool, html: str | None,
) -> None:  # fmt: skip
    """Pick the texts of DATA whose strongest words together matter most to a model (SP-LIME).

    DATA is a file or folder of texts, or "corpus" for the package's own. Every text is explained.
    """
    from heedful.audits.run import order
    from heedful.core.files import output
    from heedful.core.target import Target
    from heedful.data import load
    from heedful.methods import METHODS
    from heedful.methods.explain import explain_all
    from heedful.methods.pick import pick as pick_texts
    from heedful.report.phrases import coverage
    from heedful.report.progress import progress

    [method] = METHODS.choose([name], assignments)
    if not getattr(method, "scores_tokens", True):
        raise BadInput(f"{METHODS.full_name(name)} has no score for each word; `heedful methods` lists others.")
    every = load(data, **reading)
    examples = [every[i] for i in sorted(order(every, seed)[:limit])]
    with output(html) as write, progress() as show:
        show("loading the model")
        classifier = opt.load_model(model, revision, device, dtype)
        texts = [example.text if example.pair is None else (example.text, example.pair) for example in examples]
        explained = Target(target, scale, against)
        watch = _watch(show, classifier, len(texts))
        picks = pick_texts(explain_all(classifier, texts, method, explained, seed, watch=watch), count, words)
        if write is not None:
            write(picks.to_html().encode("utf-8"))
    if as_json:
        click.echo(picks.to_json().rstrip("\n").encode("utf-8"))
    else:
        from rich.console import Console

        from heedful.report.terminal import show_explanations

        show_explanations(picks, Console(highlight=False))
        click.echo(f"\n{coverage(picks[-1].details['coverage'], len(picks), len(texts), count)}")
    opt.announce(html)


def _watch(show: Show, classifier: Classifier, texts: int) -> Watch:
    """Show how many texts are explained; within a chunk of the stream, by its passes."""
    from heedful.methods.explain import STREAM_TEXTS

    done = 0

    def watch(step: Step) -> None:
        nonlocal done
        first, chunk, before = done, min(STREAM_TEXTS, texts - done), classifier.forwards
        planned = step.forwards or math.inf
        show("explaining", lambda: first + chunk * min(1, (classifier.forwards - before) / planned), texts, "texts")
        done += chunk

    return watch
