"""heedful explain: why one text, or every line of a file, got its label."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from heedful.cli import options as opt
from heedful.core.errors import BadInput, HeedfulError, Unsupported

if TYPE_CHECKING:
    from heedful.core.explanation import Explanation
    from heedful.core.target import Target
    from heedful.model.classifier import Classifier
    from heedful.report.terminal import Tell


@dataclass(frozen=True)
class _Ask:
    """What `heedful explain` was asked."""

    methods: tuple[str, ...]
    every: bool
    given: tuple[str, ...]
    target: str | None
    against: str | None
    scale: Any
    pair: str | None
    unit: str | None
    how: Any
    html: str | None
    figure: str | None
    layer: str | None
    seed: int
    truncate: bool
    windows: bool
    dry_run: bool
    as_json: bool


@click.command()
@click.argument("text", required=False)
@opt.model_options
@click.option(
    "--method",
    "-M",
    "methods",
    multiple=True,
    help="A method by name; may be repeated. [default: integrated-gradients]",
)
@click.option("--all", "every", is_flag=True, help="Every method that this model supports.")
@opt.set_option
@click.option("--layer", help="The same as --set layer=…, for attention methods: a number or 'all'.")
@opt.target_options
@opt.text_options
@click.option("--windows", is_flag=True, help="Explain a text that is too long in overlapping windows.")
@click.option("--file", "file", help="Explain every line of a file ('-' is stdin) and print JSON lines.")
@click.option(
    "--by",
    "unit",
    type=click.Choice(["token", "word", "sentence"]),
    help="Units shown. [default: word; in JSON, token]",
)
@click.option(
    "--how",
    type=click.Choice(["sum", "mean", "max"]),
    default="sum",
    show_default=True,
    help="How the scores of a unit's tokens are joined.",
)
@opt.output_options
@click.option("--dry-run", is_flag=True, help="Say how often the model would be run, and stop there.")
def explain(
    text: str | None, model: str | None, revision: str | None, file: str | None, device: str | None, dtype: str | None,
    **asked: Any,
) -> None:  # fmt: skip
    """Explain one prediction of TEXT ('-' reads it from stdin)."""
    from heedful.core.writing import output
    from heedful.report.terminal import progress

    ask = _Ask(**asked)
    if (text is None) == (file is None):
        raise BadInput("give one text, or --file with one text per line.")
    for name, path in (("--html", ask.html), ("--figure", ask.figure)):
        if path is not None and file is not None:
            raise BadInput(f"{name} shows one text; leave out --file, or read its JSON lines.")
    lines = None if file is None else opt.read_lines(file)
    read = opt.read_text(text, ask.pair)
    kind = opt.figure_kind(ask.figure)
    with (
        output(None if ask.dry_run else ask.html) as write,
        output(None if ask.dry_run else ask.figure, "figure") as draw,
        progress(hidden=lines is not None and sys.stdout.isatty()) as tell,
    ):
        tell("loading the model")
        _methods(ask)  # a wrong name is refused before the model is loaded
        classifier = opt.load(model, revision, device, dtype)
        if ask.dry_run:
            _print_plan(classifier, lines or [read or ""], ask)
            return
        if lines is not None:
            _explain_lines(classifier, lines, ask, tell)
            return
        assert read is not None
        found = _explain(classifier, read, ask, tell)
        wanted = [e for e in found if _asked_for(e, ask)]
        if draw is not None:
            from heedful.report import figures

            draw(figures.encoded(figures.draw(wanted), kind))
        if write is not None:
            from heedful.report.explanations import page

            write(page(found).encode("utf-8"))
    _print(wanted, ask)
    opt.announce(ask.html, ask.figure)


def _target(ask: _Ask) -> Target:
    from heedful.core.target import Target

    return Target(ask.target, ask.scale, ask.against)


def _methods(ask: _Ask) -> list[Any]:
    """The methods asked for, with their settings."""
    from heedful.methods import METHODS, settings

    names = list(METHODS) if ask.every else list(ask.methods) or ["integrated-gradients"]
    if ask.layer is None:
        return METHODS.choose(names, ask.given)
    if not any("layer" in settings(METHODS[n]) for n in names):
        raise BadInput(f"--layer is for attention methods, and {', '.join(names)} has no layer; leave it out.")
    return METHODS.choose(names, [f"layer={ask.layer}", *ask.given])


def _all_methods(ask: _Ask) -> list[Any]:
    """Those asked for, and the one that draws a page's head grid."""
    from heedful.methods.attention import AttentionWeights

    methods = _methods(ask)
    grid = ask.html is not None and not any(isinstance(m, AttentionWeights) for m in methods)
    return [*methods, AttentionWeights()] if grid else methods


def _explain(classifier: Classifier, text: str, ask: _Ask, tell: Tell) -> list[Explanation]:
    from heedful.methods import METHODS
    from heedful.methods.explain import explain as run
    from heedful.report.terminal import clean

    methods, wanted = _all_methods(ask), len(_methods(ask))
    found: list[Explanation] = []
    for i, method in enumerate(methods):
        before = classifier.forwards
        tell(
            f"{METHODS.name_of(method)}, {i + 1} of {len(methods)}",
            lambda before=before: classifier.forwards - before,  # type: ignore[misc]
            _planned(classifier, text, ask, method),
        )
        try:
            found.append(
                run(
                    classifier, text, method, _target(ask), ask.pair, ask.seed,
                    truncate=ask.truncate, windows=ask.windows,
                )
            )  # fmt: skip
        except Unsupported as e:
            if not ask.every and i < wanted:
                raise
            click.echo(f"left out: {clean(str(e))}", err=True)
    if not found:
        raise Unsupported("no method could explain this model.")
    return found


def _planned(classifier: Classifier, text: str, ask: _Ask, method: Any) -> int | None:
    """Forward passes that the progress bar runs to; None where nobody knows, or the method will refuse the model."""
    from heedful.methods.explain import parts, plan

    try:
        cut = parts(classifier, classifier.tokens(text, ask.pair), ask.truncate, ask.windows)
        passes = plan(classifier, method, cut).passes
    except HeedfulError:
        return None
    return None if passes is None else passes.forwards + len(cut)


def _print_plan(classifier: Classifier, texts: Sequence[str], ask: _Ask) -> None:
    from heedful.methods.explain import parts, plan, shown, shown_json
    from heedful.report.terminal import clean

    cuts = [parts(classifier, classifier.tokens(t, ask.pair), ask.truncate, ask.windows) for t in texts]
    cut = [part for several in cuts for part in several]
    plans = []
    for method in _all_methods(ask):
        try:
            plans.append(plan(classifier, method, cut))
        except Unsupported as e:
            if not ask.every:
                raise
            click.echo(f"left out: {clean(str(e))}", err=True)
    # a file is predicted once for all methods, a single text once for each
    predictions = len(cut) * (1 if len(texts) > 1 else len(plans))
    click.echo(shown_json(plans, predictions) if ask.as_json else shown(plans, predictions))


def _asked_for(explanation: Explanation, ask: _Ask) -> bool:
    """The head grid is computed for every page, but printed only if it was asked for."""
    from heedful.methods import METHODS

    return (
        ask.every
        or explanation.method != "attention-weights"
        or explanation.method in map(METHODS.full_name, ask.methods)
    )


def _explain_lines(classifier: Classifier, lines: Sequence[str], ask: _Ask, tell: Tell) -> None:
    from heedful.methods.explain import explain_all

    for number, line in enumerate(lines, 1):
        try:
            classifier.tokens(line, ask.pair)
        except BadInput as e:
            raise BadInput(f"line {number}: {e}") from e
    texts = lines if ask.pair is None else [(line, ask.pair) for line in lines]
    rows = explain_all(
        classifier, texts, _methods(ask), _target(ask), ask.seed, truncate=ask.truncate, windows=ask.windows
    )
    tell(f"line 1 of {len(lines)}")
    for number, row in enumerate(rows, 1):
        for explanation in row:
            _print_json(explanation, ask)
        tell(f"line {number + 1} of {len(lines)}")


def _print(found: Sequence[Explanation], ask: _Ask) -> None:
    if ask.as_json:
        for explanation in found:
            _print_json(explanation, ask)
        return
    from rich.console import Console

    from heedful.report.terminal import show

    show(found, Console(highlight=False), ask.unit or "word", ask.how)


def _print_json(explanation: Explanation, ask: _Ask) -> None:
    from heedful.core.explanation import Attribution

    view = explanation.by(ask.unit, ask.how) if ask.unit and isinstance(explanation, Attribution) else explanation
    click.echo(view.to_json().encode("utf-8"))  # JSON is UTF-8 whatever the terminal's encoding
